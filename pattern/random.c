#include "pattern/view.h"

#include <string.h>

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

int32_t s2_random_row(uint64_t seed, int32_t layer, int32_t head, int64_t q_blk, int64_t n, int64_t n_choices,
                      int32_t *out)
{
    const int64_t want = n < n_choices ? n : n_choices;
    s2_rng rng = row_stream(seed, layer, head, q_blk);
    int32_t have = 0;
    for (int64_t top = n_choices - want; top < n_choices; top++) {
        int32_t drawn = (int32_t)s2_rng_below(&rng, (uint64_t)top + 1);
        int32_t at = lower_bound(out, have, drawn);
        if (at < have && out[at] == drawn) {
            drawn = (int32_t)top;
            at = have;
        }
        memmove(out + at + 1, out + at, (size_t)(have - at) * sizeof *out);
        out[at] = drawn;
        have++;
    }
    return have;
}
