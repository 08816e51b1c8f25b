/* The arithmetic of the Hopper forward's lists against the plan's own enumeration. */
#include "kernels/cuda/fwd_list.h"

#include <string.h>

#include "pattern/parse.h"
#include "plan/plan.h"
#include "tests/s2test.h"

enum { BLOCK_TOK = 64, SHIFT = 6, TILE_TOK = 128, LIMIT_BLK = 64 };

typedef struct s2_list_case {
    const char *rules;
    s2_fwd_class as;
    s2_plan_seq seq;
} s2_list_case;

static const s2_list_case cases[] = {
    {"dense", {1 << 28, 1 << 28, 1, 0}, {1000, 1000}},
    {"local 3", {3, 1 << 28, 1, 0}, {2048, 2048}},
    {"local 8 | stride 16", {8, 16, 0, 0}, {4000, 4000}},
    {"local 2 | stride 3 phase 1", {2, 3, 1, 0}, {1500, 1500}},
    {"local 1 | sink 2 | stride 5 phase 2", {1, 5, 2, 2}, {2100, 2100}},
    {"local 4 | stride 4 phase 3", {4, 4, 3, 0}, {320, 1984}},
};

/* The slabs that hold a real row of the tile at pos. */
static uint32_t real_slabs(int32_t pos, const s2_plan_seq *seq)
{
    uint32_t out = 0;
    for (int32_t slab = 0; slab < TILE_TOK / 16; slab++)
        if (pos + slab * 16 + 15 >= seq->k_tok - seq->q_tok && pos + slab * 16 < seq->k_tok)
            out |= 1u << slab;
    return out;
}

static void check_tile(const s2_list_case *row, const s2_plan *plan, int32_t tile, s2_plan_list *list)
{
    uint32_t want[LIMIT_BLK] = {0}, got[LIMIT_BLK] = {0};
    const int32_t pos = (int32_t)s2_plan_tile_begin(plan, 0, tile), k_tok = row->seq.k_tok;
    assert_int_equal(s2_plan_tile_list(plan, 0, 0, tile, list), S2_OK);
    for (int32_t at = 0; at < list->n_entries; at++)
        want[list->entries[at].k_blk] = list->entries[at].slabs & real_slabs(pos, &row->seq);
    const s2_fwd_segments seg =
        s2_fwd_segments_of(&row->as, SHIFT, pos, TILE_TOK, k_tok - row->seq.q_tok, k_tok);
    for (int32_t at = 0; at < s2_fwd_segments_count(&seg); at++) {
        const uint32_t word = s2_fwd_entry(&row->as, &seg, at, SHIFT, pos, TILE_TOK / 16, k_tok);
        const uint32_t block = word >> S2_FWD_BLOCK_SHIFT;
        assert_true(block < LIMIT_BLK);
        assert_int_equal(got[block], 0);
        got[block] = word & real_slabs(pos, &row->seq);
    }
    if (memcmp(want, got, sizeof want) != 0)
        fail_msg("%s: tile %d differs", row->rules, tile);
}

static void check_case(const s2_list_case *row)
{
    char text[200];
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_plan plan;
    s2_diag diag;
    s2_plan_list list = {0};
    const s2_plan_options options = s2_plan_options_default();
    const int n_bytes = snprintf(text, sizeof text, "heads 1\nhead-dim 64\nblock %d\nlayers all: %s\n",
                                 BLOCK_TOK, row->rules);
    assert_int_equal(s2_pattern_parse(&arena, text, (size_t)n_bytes, NULL, &pattern, &diag), S2_OK);
    assert_int_equal(s2_plan_build(&arena, &pattern, S2_PREFILL, 0, &row->seq, 1, &options, &plan, &diag),
                     S2_OK);
    for (int32_t tile = 0; tile < s2_plan_n_tiles(&plan, 0); tile++)
        check_tile(row, &plan, tile, &list);
    s2_plan_list_release(&list);
    s2_arena_release(&arena);
}

static void arithmetic_lists_read_the_blocks_of_the_plan(void **state)
{
    (void)state;
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        check_case(&cases[at]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_lists_read_the_blocks_of_the_plan),
    };
    return cmocka_run_group_tests_name("fwd_list", tests, NULL, NULL);
}
