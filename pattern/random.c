#include "pattern/random.h"

#include <stdbool.h>
#include <string.h>

#include "base/arith.h"
#include "base/rng.h"

/* One stream per row: the four numbers are mixed by stepping the generator between them. */
static s2_rng row_stream(uint64_t seed, int32_t layer, int32_t head, int64_t q_blk)
{
    s2_rng rng = {seed};
    rng.state = s2_rng_next(&rng) ^ (uint64_t)layer;
    rng.state = s2_rng_next(&rng) ^ (uint64_t)head;
    rng.state = s2_rng_next(&rng) ^ (uint64_t)q_blk;
    return rng;
}

/* Position of the first element >= x in an ascending list. */
static int32_t lower_bound(const int32_t *list, int32_t n, int32_t x)
{
    int32_t begin = 0;
    while (n > 0) {
        const int32_t half = n / 2;
        if (list[begin + half] < x) {
            begin += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return begin;
}

/* Limits for drawing the same list with a bit set, which is much faster when there are few choices or many
 * are drawn. */
enum { FEW_CHOICES = 8192, SET_BITS = 1 << 16 };
static bool is_set_faster(int64_t want, int64_t n_choices)
{
    return n_choices <= FEW_CHOICES || (n_choices <= SET_BITS && n_choices / 64 <= 4 * want);
}

static int32_t draw_by_set(s2_rng *rng, int64_t want, int64_t n_choices, int32_t *out)
{
    uint64_t set[SET_BITS / 64];
    const int64_t n_words = (n_choices + 63) / 64;
    int32_t have = 0;
    memset(set, 0, (size_t)n_words * sizeof *set);
    for (int64_t top = n_choices - want; top < n_choices; top++) {
        const uint64_t drawn = s2_rng_below(rng, (uint64_t)top + 1);
        const uint64_t taken = set[drawn / 64] >> drawn % 64 & 1 ? (uint64_t)top : drawn;
        set[taken / 64] |= UINT64_C(1) << taken % 64;
    }
    for (int64_t word = 0; word < n_words; word++)
        for (uint64_t rest = set[word]; rest != 0; rest &= rest - 1)
            out[have++] = (int32_t)(word * 64 + __builtin_ctzll(rest));
    return have;
}

int32_t s2_random_row(uint64_t seed, int32_t layer, int32_t head, int64_t q_blk, int64_t n, int64_t n_choices,
                      int32_t *out)
{
    const int64_t want = s2_min_i64(n, n_choices);
    s2_rng rng = row_stream(seed, layer, head, q_blk);
    int32_t have = 0;
    if (is_set_faster(want, n_choices))
        return draw_by_set(&rng, want, n_choices, out);
    for (int64_t top = n_choices - want; top < n_choices; top++) {
        int32_t drawn = (int32_t)s2_rng_below(&rng, (uint64_t)top + 1);
        int32_t place = lower_bound(out, have, drawn);
        if (place < have && out[place] == drawn) {
            drawn = (int32_t)top;
            place = have;
        }
        memmove(out + place + 1, out + place, (size_t)(have - place) * sizeof *out);
        out[place] = drawn;
        have++;
    }
    return have;
}
