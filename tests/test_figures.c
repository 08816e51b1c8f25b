/*
 * What published configurations prove: the figures of docs/proof.md, one row each. Blocks are 64 tokens.
 */
#include "tests/s2test.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/check.h"
#include "coverage/prove.h"
#include "pattern/parse.h"
#include "pattern/view.h"

typedef struct s2_row {
    const char *label;
    const char *text;
    int64_t n_tok; /* S2_OPEN: every length */
    const char *property;
    s2_verdict verdict;
    int64_t complete_to_tok; /* violated */
    int64_t q_blk;
    int64_t k_blk;
} s2_row;

#define ALL S2_OPEN
#define K   1024

static const s2_row ROWS[] = {
    {"Phi-3-small",
     "layers 32; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1; layers 1::2: dense", ALL,
     "union", S2_HOLDS, 0, 0, 0},
    {"Phi-3-small keeps",
     "layers 32; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1; layers 1::2: dense", ALL,
     "kv", S2_HOLDS, 0, 0, 0},
    {"Phi-3-small groups", "heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1", ALL, "group",
     S2_VIOLATED, 1024, 16, 0},
    {"Phi-3-small in DKernel, 8 KV heads", "heads 32; kv-heads 8; layers all: local 16 | stride 8 phase kv",
     ALL, "union", S2_HOLDS, 0, 0, 0},
    {"the same shards perfectly", "heads 32; kv-heads 8; layers all: local 16 | stride 8 phase kv", ALL,
     "shards", S2_HOLDS, 0, 0, 0},
    {"the same, stride 9", "heads 32; kv-heads 8; layers all: local 16 | stride 9 phase kv", ALL, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"Llama-3-8B V16", "heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv", ALL, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"the same at 8k", "heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv", 8 * K, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"the same at 1k", "heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv", 1 * K, "union",
     S2_HOLDS, 0, 0, 0},
    {"the same at its last length", "heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv", 1088,
     "union", S2_HOLDS, 0, 0, 0},
    {"one token more", "heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv", 1089, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"offset 1", "heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv+1", ALL, "union",
     S2_VIOLATED, 1024, 16, 0},
    {"one dense KV head", "heads 32; kv-heads 8; layers all: local 16 | stride 16 phase kv; kv 7: dense", ALL,
     "union", S2_HOLDS, 0, 0, 0},
    {"Llama-3-70B V16", "heads 64; kv-heads 8; layers all: local 16 | stride 16 phase kv", 128 * K, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"Llama-3-70B V64", "heads 64; kv-heads 8; layers all: local 16 | stride 64 phase kv", ALL, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"Mistral-7B V32 L64", "heads 32; kv-heads 8; layers all: local 64 | stride 32 phase kv", ALL, "union",
     S2_VIOLATED, 4160, 65, 1},
    {"Qwen2.5-7B V8", "heads 28; kv-heads 4; layers all: local 16 | stride 8 phase kv", ALL, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"Qwen2.5-7B V4", "heads 28; kv-heads 4; layers all: local 16 | stride 4 phase kv", ALL, "union",
     S2_HOLDS, 0, 0, 0},
    {"Qwen2.5-0.5B V4", "heads 14; kv-heads 2; layers all: local 16 | stride 4 phase kv", ALL, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"Qwen2.5-32B V10", "heads 40; kv-heads 8; layers all: local 16 | stride 10 phase kv", ALL, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"Llama-2-7B V64, step 2", "heads 32; layers all: local 16 | stride 64 phase head*2", ALL, "union",
     S2_VIOLATED, 1088, 17, 1},
    {"Llama-2-7B V32", "heads 32; layers all: local 16 | stride 32 phase head", ALL, "union", S2_HOLDS, 0, 0,
     0},
    {"Llama-2-13B V64", "heads 40; layers all: local 16 | stride 64 phase head", ALL, "union", S2_VIOLATED,
     1088, 17, 1},
    {"GPT-2 V32 L4", "heads 12; layers all: local 4 | stride 32 phase head*2", ALL, "union", S2_VIOLATED, 320,
     5, 1},
    {"1.3B V32 L1", "heads 16; layers all: local 1 | stride 32 phase head*2", ALL, "union", S2_VIOLATED, 128,
     2, 1},
    {"homogeneous V8", "heads 32; layers all: local 16 | stride 8", ALL, "union", S2_VIOLATED, 1088, 17, 1},
    {"homogeneous V8 offset 1", "heads 32; layers all: local 16 | stride 8 phase 1", ALL, "union",
     S2_VIOLATED, 1024, 16, 0},
    {"three heads V4 L4", "heads 3; layers all: local 4 | stride 4 phase head", ALL, "union", S2_VIOLATED,
     320, 5, 1},
    {"DKernel README", "heads 32; layers all: local 32 | stride 8 phase head", ALL, "union", S2_HOLDS, 0, 0,
     0},
    {"DKernel README, 4 KV heads", "heads 32; kv-heads 4; layers all: local 32 | stride 8 phase kv", ALL,
     "union", S2_VIOLATED, 2112, 33, 1},
    {"S2-L1V15", "heads 16; layers all: local 1 | stride 15 phase head", ALL, "union", S2_HOLDS, 0, 0, 0},
    {"Llama-2-70B, KV repeated, V64", "heads 64; layers all: local 16 | stride 64 phase head", ALL, "union",
     S2_HOLDS, 0, 0, 0},
    {"relative strides cannot be dropped", "heads 8; layers all: local 4 | dilated 8 phase head", ALL, "kv",
     S2_VIOLATED, 320, 5, 0},
    {"StreamingLLM", "heads 32; layers all: sink 4t | local 2000t", ALL, "union", S2_VIOLATED, 2004, 31, 0},
    {"StreamingLLM keeps", "heads 32; layers all: sink 4t | local 2000t", ALL, "kv", S2_HOLDS, 0, 0, 0},
    {"two ranges",
     "heads 32; layers all: local 16 | stride 4 phase kv when distance 16..128 | stride 32 phase kv when "
     "distance 128..",
     ALL, "union", S2_HOLDS, 0, 0, 0},
    {"two ranges are dropped for good",
     "heads 32; layers all: local 16 | stride 4 phase kv when distance 16..128 | stride 32 phase kv when "
     "distance 128..",
     ALL, "kv", S2_HOLDS, 0, 0, 0},
    {"DeepSpeed fixed", "heads 8; block 16; layers all: chunk 8 | stride 8 phase head+1", ALL, "union",
     S2_HOLDS, 0, 0, 0},
    {"a dense prefill, streaming decode", "heads 8; prefill: dense; decode: sink 1 | local 8", ALL, "kv",
     S2_HOLDS, 0, 0, 0},
    {"a sparse prefill, dense decode", "heads 8; prefill: sink 1 | local 8; decode: dense", ALL, "kv",
     S2_VIOLATED, 577, 9, 1},
    {"Quest reads everything it might", "heads 8; prefill: dense; decode: pages 16 page 16", ALL, "union",
     S2_UNKNOWN, 0, 0, 0},
    {"every second layer dense reaches in two", "layers 4; heads 8; layers all: local 4; layers 1::2: dense",
     ALL, "depth:2", S2_HOLDS, 0, 0, 0},
    {"windows alone do not", "layers 4; heads 8; layers all: local 4", ALL, "depth:2", S2_VIOLATED, 448, 7,
     0},
    {"two ranks of Phi-3-small", "heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1", ALL,
     "ranks:4", S2_HOLDS, 0, 0, 0},
    {"eight ranks see half each", "heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1", ALL,
     "ranks:8", S2_VIOLATED, 1024, 16, 0},
    {"sixteen coprime strides and one full set",
     "heads 24; heads 0-7: local 2 | stride 8 phase head; heads 8: stride 63; heads 9: stride 61; heads 10: "
     "stride 59;"
     "heads 11: stride 53; heads 12: stride 47; heads 13: stride 43; heads 14: stride 41; heads 15: stride "
     "37;"
     "heads 16: stride 31; heads 17: stride 29; heads 18: stride 25; heads 19: stride 23; heads 20: stride "
     "19;"
     "heads 21: stride 17; heads 22: stride 13; heads 23: stride 11",
     ALL, "union", S2_HOLDS, 0, 0, 0},
};

static s2_pattern parse(s2_arena *arena, const char *label, const char *text)
{
    s2_pattern pattern;
    s2_diag diag = {0};
    if (s2_pattern_parse(arena, text, strlen(text), NULL, &pattern, &diag) != S2_OK)
        fail_msg("%s: %d:%d %s", label, diag.line, diag.col, diag.msg);
    return pattern;
}

static bool row_is_right(const s2_row *row)
{
    s2_arena arena = {0};
    const s2_pattern pattern = parse(&arena, row->label, row->text);
    s2_requirement asked[S2_MOST_REQUIREMENTS];
    s2_finding finding;
    int32_t n;
    assert_int_equal(s2_requirements_parse(row->property, asked, &n, NULL), S2_OK);
    const s2_prove_options options = {.n_tok = row->n_tok};
    assert_int_equal(s2_prove(&arena, &pattern, asked, 1, &options, &finding), S2_OK);
    const int64_t block = pattern.block_tok;
    const bool violated = finding.verdict == S2_VIOLATED;
    const bool wrong =
        finding.verdict != row->verdict || (violated && (finding.complete_to_tok != row->complete_to_tok ||
                                                         finding.witness.q_tok / block != row->q_blk ||
                                                         finding.witness.k_tok / block != row->k_blk));
    if (wrong)
        print_message("%s: %s %s, complete to %lld, query block %lld, key block %lld\n", row->label,
                      row->property, s2_verdict_word(finding.verdict), (long long)finding.complete_to_tok,
                      (long long)(finding.witness.q_tok / block), (long long)(finding.witness.k_tok / block));
    s2_arena_release(&arena);
    return !wrong;
}

static void published_configurations_prove_what_the_field_knows(void **state)
{
    (void)state;
    int n_wrong = 0;
    for (size_t at = 0; at < sizeof ROWS / sizeof ROWS[0]; at++)
        n_wrong += !row_is_right(&ROWS[at]);
    assert_int_equal(n_wrong, 0);
}

/* Distinct patterns and reads per row: what a head reads, and what its KV head must keep. */
static void phi_3_small_has_eight_patterns_and_keeps_seventy_two_blocks(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern =
        parse(&arena, "phi", "heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1");
    enum { LAST = 8191, N_TOK = 8192 };
    s2_run *runs = NULL;
    int64_t cap = 0, n_runs = 0, kept[8][128] = {{0}};
    int64_t n_distinct = 0, pairs[32];
    for (int32_t head = 0; head < 32; head++) {
        s2_view view;
        assert_int_equal(s2_view_build(&arena, &pattern, S2_DECODE, 0, head, S2_AT_LEAST, &view), S2_OK);
        assert_int_equal(s2_view_row_whole(&view, LAST, N_TOK, NULL, &runs, &cap, &n_runs), S2_OK);
        int64_t n_blk = 0;
        for (int64_t r = 0; r < n_runs; r++)
            for (int64_t k_blk = runs[r].begin / 64; k_blk * 64 < runs[r].end; k_blk++, n_blk++)
                kept[head / 4][k_blk] = 1;
        assert_int_equal(n_blk, 30);
        assert_int_equal(s2_view_count_pairs(&view, N_TOK, NULL, &pairs[head]), S2_OK);
        bool is_new = true;
        for (int32_t earlier = 0; earlier < head; earlier++)
            is_new &= pairs[earlier] != pairs[head];
        n_distinct += is_new;
    }
    assert_int_equal(n_distinct, 8);
    for (int kv_head = 0; kv_head < 8; kv_head++) {
        int64_t n_blk = 0;
        for (int k_blk = 0; k_blk < 128; k_blk++)
            n_blk += kept[kv_head][k_blk];
        assert_int_equal(n_blk, 72);
    }
    s2_free(runs);
    s2_arena_release(&arena);
}

static void requirement_lists_are_read_and_refused_with_a_column(void **state)
{
    (void)state;
    s2_requirement asked[S2_MOST_REQUIREMENTS];
    int32_t n = 0;
    assert_int_equal(s2_requirements_parse("rows,ranks:4,depth:12", asked, &n, NULL), S2_OK);
    assert_int_equal(n, 3);
    assert_int_equal(asked[1].arg, 4);
    assert_int_equal(asked[2].arg, 12);
    static const struct {
        const char *text;
        int32_t col;
    } bad[] = {{"", 1},       {"rows,", 6},    {"rows,unoin", 6}, {"ranks", 1},
               {"ranks:", 1}, {"ranks:0", 1},  {"ranks:x", 1},    {"union:2", 1},
               {",rows", 1},  {"depth:-1", 1}, {"kv kv", 1},      {"ranks:99999999999", 1}};
    for (size_t at = 0; at < sizeof bad / sizeof bad[0]; at++) {
        s2_diag diag = {0};
        assert_int_equal(s2_requirements_parse(bad[at].text, asked, &n, &diag), S2_EINVAL);
        assert_int_equal(diag.col, bad[at].col);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_configurations_prove_what_the_field_knows),
        cmocka_unit_test(phi_3_small_has_eight_patterns_and_keeps_seventy_two_blocks),
        cmocka_unit_test(requirement_lists_are_read_and_refused_with_a_column),
    };
    return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
