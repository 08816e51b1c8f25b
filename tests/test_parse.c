#include "tests/s2test.h"

#include <dirent.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "pattern/canon.h"
#include "pattern/codes.h"
#include "pattern/dense.h"
#include "pattern/models.h"
#include "pattern/parse.h"
#include "tests/gen_pattern.h"
#include "tests/gen_spec.h"
#include "tests/s2parsed.h"

/* --- helpers ---------------------------------------------------------------------------------- */

static char *canonical(const char *text)
{
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, text);
    s2_buf buf = {0};
    s2_pattern_print(&pattern, &buf);
    assert_int_equal(buf.status, S2_OK);
    s2_arena_release(&arena);
    return buf.data;
}

static void check_canonical(const char *text, const char *expected)
{
    char *const got = canonical(text);
    if (strcmp(got, expected) != 0)
        fail_msg("from: %s\ngot:  %s\nwant: %s", text, got, expected);
    free(got);
}

static bool lists_equal(const s2_span_list *a, const s2_span_list *b)
{
    return a->n_spans == b->n_spans &&
           (a->n_spans == 0 || memcmp(a->spans, b->spans, (size_t)a->n_spans * sizeof *a->spans) == 0);
}

static bool terms_equal(const s2_term *a, const s2_term *b)
{
    return a->kind == b->kind && a->tok == b->tok && a->n == b->n && a->width == b->width &&
           memcmp(&a->offset, &b->offset, sizeof a->offset) == 0 && a->page_tok == b->page_tok &&
           a->seed == b->seed && lists_equal(&a->list, &b->list) && (a->mask == NULL) == (b->mask == NULL) &&
           memcmp(a->when, b->when, sizeof a->when) == 0;
}

static bool layers_equal(const s2_pattern *a, const s2_pattern *b)
{
    for (int32_t layer = 0; layer < a->n_layers; layer++)
        if (s2_pattern_kv_heads(a, layer) != s2_pattern_kv_heads(b, layer) ||
            s2_pattern_head_dim(a, layer) != s2_pattern_head_dim(b, layer) ||
            s2_pattern_kv_layer(a, layer) != s2_pattern_kv_layer(b, layer) ||
            s2_pattern_state_bytes(a, layer) != s2_pattern_state_bytes(b, layer))
            return false;
    return true;
}

/* Field by field, not by text: a printer that loses something must not hide it. */
static bool patterns_equal(const s2_pattern *a, const s2_pattern *b)
{
    if (strcmp(a->name, b->name) != 0 || strcmp(a->model, b->model) != 0 || a->n_layers != b->n_layers ||
        a->n_heads != b->n_heads || a->n_kv_heads != b->n_kv_heads || a->head_dim != b->head_dim ||
        a->block_tok != b->block_tok || a->causal != b->causal || a->n_bodies != b->n_bodies ||
        !layers_equal(a, b))
        return false;
    const size_t n_cells = (size_t)S2_N_RULE_PHASES * (size_t)a->n_layers * (size_t)a->n_heads;
    if (memcmp(a->body_of, b->body_of, n_cells * sizeof *a->body_of) != 0)
        return false;
    for (int32_t body = 0; body < a->n_bodies; body++) {
        if (a->bodies[body].n_terms != b->bodies[body].n_terms)
            return false;
        for (int32_t t = 0; t < a->bodies[body].n_terms; t++)
            if (!terms_equal(&a->bodies[body].terms[t], &b->bodies[body].terms[t]))
                return false;
    }
    return true;
}

/* --- canonical text --------------------------------------------------------------------------- */

static const struct {
    const char *text, *expected;
} canonical_rows[] = {
    {"heads 4; heads all: none; heads 1::9223372036854775807: dense",
     "heads 4\nlayers all: none\nheads 1: dense\n"},
    {"name phi-3-small-8k\nlayers 32\nheads 32\nkv-heads 8\nhead-dim 128\nblock 64\n\n"
     "layers all: local 16 | stride 8 phase head+1\nlayers 1::2: dense",
     "name phi-3-small-8k\nlayers 32\nheads 32\nkv-heads 8\nlayers all: local 16 | stride 8 phase head+1\n"
     "layers 1::2: dense\n"},
    {"heads 4; dense", "heads 4\nlayers all: dense\n"},
    {"heads 4; : dense", "heads 4\nlayers all: dense\n"},
    {"heads 4; all: dense", "heads 4\nlayers all: dense\n"},
    {"\xef\xbb\xbfheads 4;dense", "heads 4\nlayers all: dense\n"},
    {"dense; heads 4", "heads 4\nlayers all: dense\n"},
    {"heads 4\r\nlayers all:dense # yes; no\r\n", "heads 4\nlayers all: dense\n"},
    {"model gpt-oss-20b; layers 0::2: local 128t; layers 1::2: dense",
     "model gpt-oss-20b\nlayers 24\nheads 64\nkv-heads 8\nhead-dim 64\nlayers all: local 128t\n"
     "layers 1::2: dense\n"},
    {"model llama-3-8b; layers 2; kv-heads 4; dense",
     "model llama-3-8b\nlayers 2\nheads 32\nkv-heads 4\nhead-dim 128\nlayers all: dense\n"},
    {"heads 4; causal no; block 1; local 5t", "heads 4\nblock 1\ncausal no\nlayers all: local 5\n"},
    {"heads 4; causal yes; dense", "heads 4\nlayers all: dense\n"},
    {"heads 1; local 2kt | sink 4t", "heads 1\nlayers all: local 2048t | sink 4t\n"},
    {"heads 1; sink 128t | chunk 8kt | columns 0t:64t | rows 64t-127t",
     "heads 1\nlayers all: sink 2 | chunk 128 | columns 0 | rows 1\n"},
    {"heads 1; stride 512t width 64t phase head*64+64", "heads 1\nlayers all: stride 8 phase head+1\n"},
    {"heads 1; stride 512t width 64t phase head", "heads 1\nlayers all: stride 512t width 64t phase head\n"},
    {"heads 1; dilated 512t width 64t", "heads 1\nlayers all: dilated 512t width 64t\n"},
    {"heads 1; stride 8 phase 1+2*kv+head+layer*3*2+2*3",
     "heads 1\nlayers all: stride 8 phase head+kv*2+layer*6+7\n"},
    {"heads 1; stride 8 phase kv*2+1", "heads 1\nlayers all: stride 8 phase kv*2+1\n"},
    {"heads 1; stride 8 phase 0 width 1", "heads 1\nlayers all: stride 8\n"},
    {"heads 1; stride 8 phase 9 width 8", "heads 1\nlayers all: stride 8 width 8 phase 9\n"},
    {"heads 1; columns 0,1 | columns 5,3,4,9:12", "heads 1\nlayers all: columns 0-1 | columns 3-5,9-11\n"},
    {"heads 1; columns 4::8,all", "heads 1\nlayers all: columns all,4::8\n"},
    {"heads 1; columns 4: | rows :4 | rows 0:9:4 | rows 0:5:4",
     "heads 1\nlayers all: columns 4:: | rows 0-3 | rows 0:9:4 | rows 0,4\n"},
    {"heads 1; local 3 | local 3 | dense | local 3", "heads 1\nlayers all: local 3 | dense\n"},
    {"heads 1; local 3 | sink 64t | sink 1", "heads 1\nlayers all: local 3 | sink 1\n"},
    {"heads 1; none", "heads 1\nlayers all: none\n"},
    {"heads 1; random 3 seed 1 | pages 64 page 64t | heavy 2k | topk 2048t",
     "heads 1\nlayers all: random 3 seed 1 | pages 64 page 64 | heavy 2048 | topk 2048\n"},
    {"heads 1; dense when distance 16.. & distance ..128 & key 64t..100t & query 3..",
     "heads 1\nlayers all: dense when distance 16..128 & key 1..100t & query 3..\n"},
    {"heads 1; dense when distance 2..5 & distance 100t..300t",
     "heads 1\nlayers all: dense when distance 2..5 & distance 100t..300t\n"},
    {"heads 1; dense when distance 2..300t", "heads 1\nlayers all: dense when distance 2..300t\n"},
    {"heads 1; dense when key 0..", "heads 1\nlayers all: dense\n"},
    {"heads 1; dense when key 1.. & key 100t..", "heads 1\nlayers all: dense when key 100t..\n"},
    {"heads 8; kv-heads 4; dense; heads 2-5: local 3",
     "heads 8\nkv-heads 4\nkv 0,3: dense\nkv 1-2: local 3\n"},
    {"heads 8; kv-heads 4; dense; heads 2-4: local 3",
     "heads 8\nkv-heads 4\nlayers all: dense\nheads 2-4: local 3\n"},
    {"heads 4; prefill: local 3; decode: sink 1", "heads 4\nprefill: local 3\ndecode: sink 1\n"},
    {"heads 4; dense; decode heads 3: none", "heads 4\nlayers all: dense\ndecode heads 3: none\n"},
    {"heads 4; heads 0-1: dense; heads 2-3: none", "heads 4\nheads 0-1: dense\nheads 2-3: none\n"},
    {"heads 4; local 7; dense; local 7 | sink 3; dense", "heads 4\nlayers all: dense\n"},
    {"layers 8; heads 4; dense; layers 3:: heads 1: none",
     "layers 8\nheads 4\nlayers all: dense\nlayers 3-7 heads 1: none\n"},
    {"layers 8; heads 4; dense; layers ::2 heads 0:4:2 : none",
     "layers 8\nheads 4\nlayers all: dense\nlayers 0::2 heads 0,2: none\n"},
    {"layers 9; heads 2; none; layers :: heads 1:dense",
     "layers 9\nheads 2\nheads 0: none\nheads 1: dense\n"},
    {"layers 12; heads 2; dense; layers 0::4,1::4: local 2; layers 2::4: sink 1",
     "layers 12\nheads 2\nlayers all: local 2\nlayers 2::4: sink 1\nlayers 3::4: dense\n"},
    {"layers 6; layers 5: head-dim 512; heads 8; kv-heads 4; layers 0-4: local 1024t; layers 5: dense; "
     "layers 5::6: kv-heads 2; layers 4-5: head-dim 128; layers 5:head-dim 512",
     "layers 6\nheads 8\nkv-heads 4\nlayers 5: kv-heads 2\nlayers 5: head-dim 512\nlayers 0-4: local 1024t\n"
     "layers 5: dense\n"},
    {"layers 8; heads 4; layers 3::4: dense; layers 0::4,1::4,2::4: state 2m",
     "layers 8\nheads 4\nlayers 0-2,4-6: state 2097152\nlayers all: none\nlayers 3,7: dense\n"},
    {"layers 4; heads 4; kv-heads 2; layers 1: kv-heads 4; dense; layers 2-3: kv-layer 1",
     "layers 4\nheads 4\nkv-heads 2\nlayers 1-3: kv-heads 4\nlayers 2-3: kv-layer 1\nlayers all: dense\n"},
    {"layers 2; heads 4; kv-heads 2; dense; layers all: kv-heads 2; layers 1: head-dim 128",
     "layers 2\nheads 4\nkv-heads 2\nlayers all: dense\n"},
    {"layers 2; heads 4; kv-heads 2; layers 1: kv-heads 1; heads 0-1: dense; heads 2-3: local 2",
     "layers 2\nheads 4\nkv-heads 2\nlayers 1: kv-heads 1\nheads 0-1: dense\nheads 2-3: local 2\n"},
    {"name   spaced  out \nheads 1;dense", "name spaced  out\nheads 1\nlayers all: dense\n"},
    {"name \" a;b#c\\\"d\\\\\"\nheads 1;dense", "name \" a;b#c\\\"d\\\\\"\nheads 1\nlayers all: dense\n"},
    {"name caf\xc3\xa9\theads\nheads 1;dense", "name caf\xc3\xa9 heads\nheads 1\nlayers all: dense\n"},
};

static void canonical_text_is_as_documented(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof canonical_rows / sizeof canonical_rows[0]; row++) {
        check_canonical(canonical_rows[row].text, canonical_rows[row].expected);
        check_canonical(canonical_rows[row].expected, canonical_rows[row].expected);
    }
}

static void index_lists_are_short_and_mean_the_same(void **state)
{
    (void)state;
    static const struct {
        int32_t n_all, n, index[20];
        const char *expected;
    } rows[] = {
        {4, 4, {0, 1, 2, 3}, "all"},
        {8, 1, {5}, "5"},
        {8, 2, {0, 1}, "0-1"},
        {8, 2, {0, 7}, "0,7"},
        {8, 4, {1, 3, 5, 7}, "1::2"},
        {8, 3, {1, 3, 5}, "1:6:2"},
        {9, 5, {0, 1, 3, 5, 7}, "0,1::2"},
        {12, 6, {0, 1, 4, 5, 8, 9}, "0::4,1::4"},
        {16, 6, {0, 4, 9, 10, 11, 12}, "0,4,9-12"},
        {32, 16, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, "0-15"},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        s2_buf buf = {0};
        s2_index_list_print(rows[row].index, rows[row].n, rows[row].n_all, &buf);
        assert_string_equal(buf.data, rows[row].expected);
        s2_buf_release(&buf);
    }
}

/* --- properties ------------------------------------------------------------------------------- */

static void count_kinds(const s2_pattern *pattern, int64_t *n_of_kind)
{
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        for (int32_t t = 0; t < pattern->bodies[body].n_terms; t++)
            n_of_kind[pattern->bodies[body].terms[t].kind]++;
}

static void check_round_trip(const char *text, int64_t *n_of_kind)
{
    s2_arena arena = {0};
    const s2_pattern first = s2_parsed(&arena, text);
    count_kinds(&first, n_of_kind);
    s2_buf once = {0}, twice = {0};
    s2_pattern_print(&first, &once);
    assert_int_equal(once.status, S2_OK);
    s2_diag diag;
    if (s2_pattern_check(&first, &diag) != S2_OK)
        fail_msg("check refuses what the parser made: %s\n%s", diag.msg, text);
    const s2_pattern second = s2_parsed(&arena, once.data);
    if (!patterns_equal(&first, &second))
        fail_msg("parse(print(p)) differs from p for:\n%s\nprinted as:\n%s", text, once.data);
    s2_pattern_print(&second, &twice);
    assert_string_equal(once.data, twice.data);
    s2_buf_release(&once);
    s2_buf_release(&twice);
    s2_arena_release(&arena);
}

static void printing_and_parsing_again_gives_the_same_pattern(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(1)};
    const int64_t n_cases = s2_test_cases(20000);
    int64_t n_of_kind[S2_N_TERM_KINDS] = {0};
    s2_gen_options options = s2_gen_defaults();
    options.max_heads = 24;
    options.max_layers = 24;
    options.max_rules = 12;
    options.max_block_tok = 64;
    for (int64_t at = 0; at < n_cases; at++) {
        const uint64_t seed = rng.state;
        s2_buf text = {0};
        s2_gen_pattern(&rng, &options, &text);
        if (text.status != S2_OK)
            fail_msg("out of memory at seed %llu", (unsigned long long)seed);
        check_round_trip(text.data, n_of_kind);
        s2_buf_release(&text);
    }
    for (int kind = 0; kind < S2_N_TERM_KINDS && n_cases >= 200; kind++)
        if (n_of_kind[kind] == 0 && s2_term_row_of((s2_term_kind)kind)->args != S2_ARGS_FILE)
            fail_msg("no random text has a `%s`", s2_term_word((s2_term_kind)kind));
    printf("# s2: parse(print(p)) == p on %lld random patterns, seed %llu\n", (long long)n_cases,
           (unsigned long long)s2_test_seed(1));
}

static int64_t tokens_read_differently(const s2_pattern *a, const s2_pattern *b, int64_t n_tok)
{
    int64_t n = 0;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (int32_t layer = 0; layer < a->n_layers; layer++)
            for (int32_t head = 0; head < a->n_heads; head++)
                for (int64_t q_tok = 0; q_tok < n_tok; q_tok++)
                    for (int64_t k_tok = 0; k_tok < n_tok; k_tok++)
                        n += s2_pattern_reads(a, (s2_phase)phase, layer, head, n_tok, q_tok, k_tok) !=
                             s2_pattern_reads(b, (s2_phase)phase, layer, head, n_tok, q_tok, k_tok);
    return n;
}

static s2_pattern one_term_pattern(s2_rng *rng, const s2_body *body, const uint16_t *cells)
{
    return (s2_pattern){.name = "",
                        .model = "",
                        .n_layers = 1,
                        .n_heads = 2,
                        .n_kv_heads = 1,
                        .head_dim = 64,
                        .block_tok = 1 << s2_rng_below(rng, 3),
                        .causal = s2_rng_below(rng, 2) == 0,
                        .n_bodies = 1,
                        .bodies = body,
                        .body_of = cells};
}

/* Canonical form keeps what a term reads, in every unit; and parsing its text gives the same term again. */
static void check_canonical_term(s2_arena *arena, s2_pattern *pattern, s2_term *term)
{
    enum { N_TOK = 24 };
    s2_term made;
    const s2_status status = s2_term_canonical(arena, pattern->block_tok, term, &made);
    if (status == S2_EINVAL) { /* conditions that exclude each other: then it must read nothing */
        term->kind = S2_TERM_DENSE;
        for (int64_t pair = 0; pair < 4 * N_TOK * N_TOK; pair++)
            assert_false(
                s2_term_reads(pattern, term, 0, 0, 2 * N_TOK, pair / (2 * N_TOK), pair % (2 * N_TOK)));
        return;
    }
    assert_int_equal(status, S2_OK);
    const s2_body canonical = {1, &made};
    s2_pattern changed = *pattern;
    changed.bodies = &canonical;
    s2_buf text = {0};
    s2_pattern_print(&changed, &text);
    assert_int_equal(text.status, S2_OK);
    if (tokens_read_differently(pattern, &changed, N_TOK) != 0)
        fail_msg("the canonical form reads other keys than what was written: %s", text.data);
    if (s2_term_row_of(term->kind)->args != S2_ARGS_FILE) {
        const s2_pattern read = s2_parsed(arena, text.data);
        if (!terms_equal(&read.bodies[0].terms[0], &made))
            fail_msg("parsing the canonical text gives another term: %s", text.data);
    }
    s2_buf_release(&text);
}

/* Past the parser's canonical form: terms as data, every row of the table. */
static void every_term_reads_the_same_in_its_canonical_form(void **state)
{
    (void)state;
    static const uint16_t cells[S2_N_RULE_PHASES * 2] = {0};
    const int64_t n_each = s2_test_cases(400);
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++) {
        s2_rng rng = {s2_test_seed(2) + (uint64_t)kind};
        for (int64_t nth = 0; nth < n_each; nth++) {
            s2_arena arena = {0};
            s2_term term;
            const s2_body body = {1, &term};
            s2_pattern written = one_term_pattern(&rng, &body, cells);
            term = s2_gen_spec_term(&rng, (s2_term_kind)kind, &written, &arena);
            check_canonical_term(&arena, &written, &term);
            s2_arena_release(&arena);
        }
        printf("# s2: canonical form of `%s`: %lld terms\n", s2_term_word((s2_term_kind)kind),
               (long long)n_each);
    }
}

/* Shapes as data: what layers have of their own is written and read back, and is part of the hash. */
static void layers_that_differ_are_written_and_read_back(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(4)};
    const s2_gen_spec options = {
        .most_layers = 9, .most_heads = 6, .not_causal = true, .layers_differ = true};
    int64_t n_differ = 0;
    for (int64_t nth = 0; nth < s2_test_cases(1000); nth++) {
        s2_arena arena = {0};
        s2_pattern *const made = s2_gen_spec_pattern(&rng, &options, &arena);
        s2_buf text = {0};
        s2_diag diag = {0};
        if (s2_pattern_check(made, &diag) == S2_OK) {
            s2_pattern_print(made, &text);
            assert_int_equal(text.status, S2_OK);
            const s2_pattern read = s2_parsed(&arena, text.data);
            if (!layers_equal(made, &read))
                fail_msg("layers read back differ:\n%s", text.data);
            assert_int_equal(s2_pattern_layers_differ(made), s2_pattern_layers_differ(&read));
            n_differ += s2_pattern_layers_differ(&read);
            char hash[S2_HASH_HEX], plain_hash[S2_HASH_HEX];
            s2_pattern plain = read;
            plain.layer_shapes = NULL;
            assert_int_equal(s2_pattern_hash(&read, hash), S2_OK);
            assert_int_equal(s2_pattern_hash(&plain, plain_hash), S2_OK);
            assert_int_equal(strcmp(hash, plain_hash) != 0, s2_pattern_layers_differ(&read));
        } else if (strstr(diag.msg, "never used") == NULL) {
            fail_msg("%s", diag.msg);
        }
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    assert_true(n_differ > 0 || s2_test_cases(1000) < 50);
}

static bool has_mask(const s2_pattern *pattern)
{
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        for (int32_t t = 0; t < pattern->bodies[body].n_terms; t++)
            if (pattern->bodies[body].terms[t].kind == S2_TERM_MASK)
                return true;
    return false;
}

static void check_same_pairs(const s2_pattern *made, const s2_pattern *read, const char *text)
{
    enum { N_TOK = 24 };
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (int32_t cell = 0; cell < made->n_layers * made->n_heads; cell++)
            for (int64_t at = 0; at < N_TOK * N_TOK; at++) {
                const int32_t layer = cell / made->n_heads, head = cell % made->n_heads;
                if (s2_pattern_reads(made, (s2_phase)phase, layer, head, N_TOK, at / N_TOK, at % N_TOK) !=
                    s2_pattern_reads(read, (s2_phase)phase, layer, head, N_TOK, at / N_TOK, at % N_TOK))
                    fail_msg("layer %d head %d query %lld key %lld differ after:\n%s", layer, head,
                             (long long)at / N_TOK, (long long)at % N_TOK, text);
            }
}

/* Whatever passes the check is printed, and means the same when it is read back. */
static void every_pattern_that_passes_the_check_can_be_printed(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(5)};
    for (int64_t nth = 0; nth < s2_test_cases(1500); nth++) {
        const s2_gen_spec options = {.most_layers = 3,
                                     .most_heads = 4,
                                     .explicit_terms = nth % 2 != 0,
                                     .dynamic_terms = nth % 3 != 0,
                                     .not_causal = true,
                                     .layers_differ = nth % 4 == 0};
        s2_arena arena = {0};
        s2_buf text = {0}, again = {0};
        s2_diag diag = {0};
        const s2_pattern *const made = s2_gen_spec_pattern(&rng, &options, &arena);
        if (s2_pattern_check(made, &diag) != S2_OK) {
            assert_non_null(strstr(diag.msg, "never used"));
        } else {
            s2_pattern_print(made, &text);
            assert_int_equal(text.status, S2_OK);
            if (!has_mask(made)) {
                const s2_pattern read = s2_parsed(&arena, text.data);
                s2_pattern_print(&read, &again);
                assert_string_equal(text.data, again.data);
                check_same_pairs(made, &read, text.data);
            }
        }
        s2_buf_release(&text);
        s2_buf_release(&again);
        s2_arena_release(&arena);
    }
}

/* Conditions that leave no pair are refused in memory as they are in text. */
static void conditions_that_exclude_each_other_break_an_invariant(void **state)
{
    (void)state;
    static const uint16_t cells[S2_N_RULE_PHASES] = {0};
    s2_term term = s2_term_init(S2_TERM_DENSE, 0);
    const s2_body body = {1, &term};
    s2_diag diag = {0};
    const s2_pattern pattern = {.name = "",
                                .model = "",
                                .head_dim = 64,
                                .causal = true,
                                .n_layers = 1,
                                .n_heads = 1,
                                .n_kv_heads = 1,
                                .block_tok = 4,
                                .n_bodies = 1,
                                .bodies = &body,
                                .body_of = cells};
    term.when[S2_WHEN_KEY][S2_UNIT_BLK].begin = 2;
    term.when[S2_WHEN_KEY][S2_UNIT_TOK].end = 9;
    assert_int_equal(s2_pattern_check(&pattern, &diag), S2_OK);
    term.when[S2_WHEN_KEY][S2_UNIT_TOK].end = 8;
    assert_int_equal(s2_pattern_check(&pattern, &diag), S2_EINVAL);
    assert_non_null(strstr(diag.msg, "exclude each other"));
}

/* Storage order of bodies, cut-off rules, spelling: none of it may show in the text. */
static void text_depends_on_the_pattern_alone(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(3)};
    s2_gen_options options = s2_gen_defaults();
    options.max_rules = 8;
    for (int64_t at = 0; at < s2_test_cases(2000); at++) {
        s2_buf text = {0}, first = {0}, second = {0};
        s2_arena arena = {0};
        s2_gen_pattern(&rng, &options, &text);
        s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_pattern_print(&pattern, &first);
        const int32_t n = pattern.n_bodies;
        const size_t n_cells = (size_t)S2_N_RULE_PHASES * (size_t)pattern.n_layers * (size_t)pattern.n_heads;
        s2_body *const bodies = S2_NEW(&arena, s2_body, n);
        uint16_t *const body_of = S2_NEW(&arena, uint16_t, n_cells);
        for (int32_t body = 0; body < n; body++)
            bodies[n - 1 - body] = pattern.bodies[body];
        for (size_t cell = 0; cell < n_cells; cell++)
            body_of[cell] = (uint16_t)(n - 1 - pattern.body_of[cell]);
        pattern.bodies = bodies;
        pattern.body_of = body_of;
        s2_pattern_print(&pattern, &second);
        assert_string_equal(first.data, second.data);
        s2_buf_release(&text);
        s2_buf_release(&first);
        s2_buf_release(&second);
        s2_arena_release(&arena);
    }
}

/* The files under tests/data/patterns: those called broken* are refused, all others are read. */
static void example_files_are_read_or_refused_as_they_say(void **state)
{
    (void)state;
    DIR *const dir = opendir("tests/data/patterns");
    assert_non_null(dir);
    const s2_parse_options options = {.dir = "tests/data/patterns"};
    int32_t n_files = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[512], text[16384];
        if (strstr(entry->d_name, ".s2") == NULL)
            continue;
        snprintf(path, sizeof path, "tests/data/patterns/%s", entry->d_name);
        FILE *const file = fopen(path, "rb");
        const size_t n = fread(text, 1, sizeof text, file);
        fclose(file);
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_diag diag = {0};
        const s2_status status = s2_pattern_parse(&arena, text, n, &options, &pattern, &diag);
        const bool broken = strncmp(entry->d_name, "broken", 6) == 0;
        if (status != (broken ? S2_EPARSE : S2_OK))
            fail_msg("%s:%d:%d S2P%03d %s", path, diag.line, diag.col, diag.code, diag.msg);
        s2_arena_release(&arena);
        n_files++;
    }
    closedir(dir);
    assert_true(n_files >= 18);
}

/* --- hash, models, codes ------------------------------------------------------------------------ */

static void hash_is_the_sha256_of_the_canonical_text(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "heads 4; all: dense");
    char hex[S2_HASH_HEX];
    assert_int_equal(s2_pattern_hash(&pattern, hex), S2_OK);
    /* printf 'heads 4\nlayers all: dense\n' | sha256sum */
    assert_string_equal(hex, "11e6d5057be11357772dd6669017f78f44e315e92fbbfa7495062b8bd5db4ce5");
    s2_arena_release(&arena);
}

static void every_model_is_a_shape_the_parser_takes(void **state)
{
    (void)state;
    for (int32_t m = 0; m < s2_model_count(); m++) {
        const s2_model *const model = s2_model_at(m);
        char text[100];
        snprintf(text, sizeof text, "model %s; dense", model->net.name);
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, text);
        assert_int_equal(pattern.n_layers, model->net.n_layers);
        assert_int_equal(pattern.n_heads, model->net.n_heads);
        assert_int_equal(pattern.n_kv_heads, model->net.n_kv_heads);
        assert_int_equal(pattern.head_dim, model->net.head_dim);
        assert_true(m == 0 || strcmp(s2_model_at(m - 1)->net.name, model->net.name) < 0);
        s2_arena_release(&arena);
    }
    assert_null(s2_model_at(s2_model_count()));
}

static void every_code_has_an_explanation(void **state)
{
    (void)state;
    for (int32_t nth = 0; nth < S2_N_CODES; nth++) {
        assert_non_null(s2_code_explain(s2_code_at(nth)));
        assert_true(nth == 0 || s2_code_at(nth) > s2_code_at(nth - 1));
    }
    assert_null(s2_code_explain(999));
}

/* docs/pattern-language.md lists every code, every model and every term. */
static void the_reference_lists_every_code_model_and_term(void **state)
{
    (void)state;
    FILE *const file = fopen("docs/pattern-language.md", "rb");
    assert_non_null(file);
    static char text[1 << 16];
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (int32_t nth = 0; nth < S2_N_CODES; nth++) {
        char row[200];
        snprintf(row, sizeof row, "| S2P%03d | %s |", s2_code_at(nth), s2_code_explain(s2_code_at(nth)));
        if (strstr(text, row) == NULL)
            fail_msg("not in the reference: %s", row);
    }
    for (int32_t m = 0; m < s2_model_count(); m++) {
        const s2_model *const model = s2_model_at(m);
        char row[200];
        snprintf(row, sizeof row, "| %s | %d | %d | %d | %d | %s |", model->net.name, model->net.n_layers,
                 model->net.n_heads, model->net.n_kv_heads, model->net.head_dim, model->source);
        if (strstr(text, row) == NULL)
            fail_msg("not in the reference: %s", row);
    }
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++) {
        char row[200];
        snprintf(row, sizeof row, "\n| `%s` | ", s2_term_row_of((s2_term_kind)kind)->form);
        if (strstr(text, row) == NULL)
            fail_msg("the table of terms in the reference has no row: %s", row + 1);
    }
}

/* --- refusals ------------------------------------------------------------------------------------ */

#include "tests/parse_refusals.h"

static void check_refusal(const char *text, size_t n, int32_t line, int32_t col, int32_t code,
                          const char *words)
{
    s2_arena arena = {0};
    s2_pattern pattern = {.n_heads = 77};
    s2_diag diag = {0};
    const s2_parse_options options = {.dir = "tests/data"};
    const s2_status status = s2_pattern_parse(&arena, text, n, &options, &pattern, &diag);
    if (status != S2_EPARSE || diag.line != line || diag.col != col || diag.code != code ||
        strstr(diag.msg, words) == NULL)
        fail_msg("%.200s\n got %d:%d S2P%03d (status %d) %s\nwant %d:%d S2P%03d %s", text, diag.line,
                 diag.col, diag.code, status, diag.msg, line, col, code, words);
    assert_int_equal(pattern.n_heads, 77);
    assert_null(arena.last);
    s2_arena_release(&arena);
}

static void refusals_name_line_column_code_and_reason(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof refusal_rows / sizeof refusal_rows[0]; row++)
        check_refusal(refusal_rows[row].text, strlen(refusal_rows[row].text), refusal_rows[row].line,
                      refusal_rows[row].col, refusal_rows[row].code, refusal_rows[row].words);
}

static void binary_texts_are_refused_at_the_first_bad_byte(void **state)
{
    (void)state;
    check_refusal("heads 4\0; dense", 15, 1, 8, S2P_NUL, "NUL");
    check_refusal("\0", 1, 1, 1, S2P_NUL, "NUL");
    check_refusal("\x7f"
                  "ELF\2\1\1",
                  7, 1, 1, S2P_CONTROL, "U+007F");
    check_refusal("heads 4\n# \xff\xfe", 12, 2, 3, S2P_UTF8, "0xff");
    check_refusal("\xff\xfeh\0e\0", 6, 1, 1, S2P_UTF8, "0xff");
    check_refusal("name \xc3", 6, 1, 6, S2P_UTF8, "0xc3");
    check_refusal("name \xe2\x80", 7, 1, 6, S2P_UTF8, "0xe2");
    check_refusal("name \xed\xa0\x80", 8, 1, 6, S2P_UTF8, "0xed");
}

static void a_text_beyond_one_mebibyte_is_refused(void **state)
{
    (void)state;
    const size_t n = S2_LIMIT_TEXT_BYTES + 1;
    char *const text = malloc(n);
    memset(text, ' ', n);
    memcpy(text, "heads 4;dense", 13);
    check_refusal(text, n, 1, 1, S2P_TOO_LONG, "1 MiB");
    s2_arena arena = {0};
    s2_pattern pattern;
    assert_int_equal(s2_pattern_parse(&arena, text, n - 1, NULL, &pattern, NULL), S2_OK);
    s2_arena_release(&arena);
    free(text);
}

static void more_than_4096_rules_are_refused(void **state)
{
    (void)state;
    s2_buf text = {0};
    s2_buf_puts(&text, "heads 4\n");
    for (int32_t rule = 0; rule < S2_LIMIT_RULES; rule++)
        s2_buf_puts(&text, "dense\n");
    s2_arena arena = {0};
    s2_pattern pattern;
    assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, NULL), S2_OK);
    s2_arena_release(&arena);
    s2_buf_puts(&text, "  dense\n");
    check_refusal(text.data, text.len, S2_LIMIT_RULES + 2, 3, S2P_TOO_MANY_RULES, "4096");
    s2_buf_release(&text);
}

/* Every prefix of a good text is refused with a position inside it, or is itself good. */
static void truncated_texts_never_crash(void **state)
{
    (void)state;
    for (size_t row = 0; row < sizeof canonical_rows / sizeof canonical_rows[0]; row++) {
        const char *const text = canonical_rows[row].text;
        for (size_t n = 0; n < strlen(text); n++) {
            char *const copy =
                malloc(n + 1); /* exactly sized: a read past the end is seen by the sanitizer */
            memcpy(copy, text, n);
            s2_arena arena = {0};
            s2_pattern pattern;
            s2_diag diag = {0};
            if (s2_pattern_parse(&arena, copy, n, NULL, &pattern, &diag) != S2_OK)
                assert_true(diag.line >= 1 && diag.col >= 1 && s2_code_explain(diag.code) != NULL);
            s2_arena_release(&arena);
            free(copy);
        }
    }
}

/* A text in which something else stands for a blank, as a document or a web page writes it. */
static char *with_stranger(const char *text, size_t at, const char *stranger)
{
    const size_t n = strlen(text), n_stranger = strlen(stranger);
    char *const changed = malloc(n + n_stranger);
    memcpy(changed, text, at);
    memcpy(changed + at, stranger, n_stranger);
    memcpy(changed + at + n_stranger, text + at + 1, n - at); /* its NUL too */
    return changed;
}

static void what_looks_like_a_blank_is_told_by_its_number(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *name;
    } strangers[] = {{"\u00a0", "U+00A0"}, {"\u2003", "U+2003"}, {"\u202f", "U+202F"}, {"\u3000", "U+3000"},
                     {"\u200b", "U+200B"}, {"\u2060", "U+2060"}, {"\u3164", "U+3164"}, {"\f", "U+000C"}};
    int64_t n_refused = 0;
    for (size_t row = 0; row < sizeof canonical_rows / sizeof canonical_rows[0]; row++) {
        const char *const text = canonical_rows[row].text;
        for (const char *blank = strchr(text, ' '); blank != NULL; blank = strchr(blank + 1, ' ')) {
            const size_t n = (size_t)(blank - text) % (sizeof strangers / sizeof strangers[0]);
            char *const changed = with_stranger(text, (size_t)(blank - text), strangers[n].bytes);
            s2_arena arena = {0};
            s2_pattern pattern;
            s2_diag diag = {0};
            if (s2_pattern_parse(&arena, changed, strlen(changed), NULL, &pattern, &diag) != S2_OK) {
                n_refused++;
                if (strstr(diag.msg, strangers[n].name) == NULL)
                    fail_msg("%s\n%d:%d: %s", changed, diag.line, diag.col, diag.msg);
            }
            s2_arena_release(&arena);
            free(changed);
        }
    }
    assert_true(n_refused > 100); /* a name or a comment may have them */
}

static void damaged_texts_are_accepted_or_refused_with_a_position(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(4)};
    s2_gen_options options = s2_gen_defaults();
    for (int64_t at = 0; at < s2_test_cases(20000); at++) {
        s2_buf text = {0};
        s2_gen_pattern(&rng, &options, &text);
        for (uint64_t hits = s2_rng_below(&rng, 4) + 1; hits > 0; hits--)
            text.data[s2_rng_below(&rng, text.len)] = (char)s2_rng_below(&rng, 256);
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_diag diag = {0};
        if (s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, &diag) != S2_OK)
            assert_true(diag.line >= 1 && diag.col >= 1 && s2_code_explain(diag.code) != NULL);
        else
            assert_int_equal(s2_pattern_check(&pattern, &diag), S2_OK);
        s2_arena_release(&arena);
        s2_buf_release(&text);
    }
}

static void the_caret_stands_under_the_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t line, col;
        const char *expected;
    } rows[] = {
        {"heads 4\nlokal 3\n", 2, 1, "  lokal 3\n  ^\n"},
        {"heads 4\r\nlayers\t0: dens\r\n", 2, 11, "  layers 0: dens\n            ^\n"},
        {"name \xc3\xa9\xe2\x80\xae x", 1, 7, "  name \xc3\xa9? x\n        ^\n"},
        {"\xef\xbb\xbflokal", 1, 1, "  lokal\n  ^\n"},
        {"name \xe5\x90\x8d\xe5\x89\x8d x", 1, 9, "  name \xe5\x90\x8d\xe5\x89\x8d x\n            ^\n"},
        {"name a\xcc\x81 x", 1, 9, "  name a\xcc\x81 x\n         ^\n"},
        {"heads 4", 1, 8, "  heads 4\n         ^\n"},
        {"", 1, 1, "  \n  ^\n"},
        {"heads 4", 9, 1, ""},
        {"heads 4", 0, 0, ""},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        const s2_diag diag = {.line = rows[row].line, .col = rows[row].col};
        s2_buf buf = {0};
        s2_diag_print_caret(&diag, rows[row].text, strlen(rows[row].text), &buf);
        assert_string_equal(buf.data != NULL ? buf.data : "", rows[row].expected);
        s2_buf_release(&buf);
    }
}

/* --- memory and time ------------------------------------------------------------------------------- */

static const char sweep_text[] =
    "name sweep\nlayers 40\nheads 200\nkv-heads 8\nblock 64\n"
    "local 16 | stride 8 phase head+1 | columns 0,5,9,12,20::3,7 | sink 4t\n"
    "layers 1::2 heads 0::3,7: dense | local 3\nlayers 2,5,9,11 kv 3: none\n"
    "decode heads 5: sink 1\nmask \"mask1.npy\" | local 3\nlayers 3: rows 1,3,5 | local 7";

/* The n-th allocation fails, for n = 1, 2, ... until parsing, printing and hashing all succeed. */
static void every_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const s2_parse_options options = {.dir = "tests/data/masks"};
    int64_t n_failed = 0;
    for (int64_t nth = 0;; nth++) {
        int64_t left = nth;
        s2_arena arena = {0};
        s2_pattern pattern = {.n_heads = 77};
        char hex[S2_HASH_HEX] = "untouched";
        s2_buf text = {0};
        s2_diag diag = {0};
        s2_alloc_set_hook(s2_test_fail_from, &left);
        const s2_status parsed =
            s2_pattern_parse(&arena, sweep_text, sizeof sweep_text - 1, &options, &pattern, &diag);
        const s2_status hashed = parsed == S2_OK ? s2_pattern_hash(&pattern, hex) : parsed;
        if (parsed == S2_OK)
            s2_pattern_print(&pattern, &text);
        s2_alloc_set_hook(NULL, NULL);
        if (parsed != S2_OK) {
            assert_int_equal(parsed, S2_ENOMEM);
            assert_int_equal(pattern.n_heads, 77);
            assert_null(arena.last);
        }
        if (hashed != S2_OK) {
            assert_int_equal(hashed, S2_ENOMEM);
            assert_string_equal(hex, "untouched");
        }
        const bool done = parsed == S2_OK && hashed == S2_OK && text.status == S2_OK;
        assert_true(done || parsed != S2_OK || hashed == S2_ENOMEM || text.status == S2_ENOMEM);
        s2_buf_release(&text);
        s2_arena_release(&arena);
        n_failed += !done;
        if (done)
            break;
    }
    assert_true(n_failed > 20);
    printf("# s2: allocation sweep of parse, hash and print: %lld failures, each reported\n",
           (long long)n_failed);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double seconds_per_parse(const char *text, size_t n, s2_status expected, int32_t repeats)
{
    double best = 1e9;
    for (int32_t round = 0; round < 3; round++) {
        const double begin = seconds_now();
        for (int32_t each = 0; each < repeats; each++) {
            s2_arena arena = {0};
            s2_pattern pattern;
            s2_diag diag = {0};
            const s2_status status = s2_pattern_parse(&arena, text, n, NULL, &pattern, &diag);
            if (status != expected)
                fail_msg("status %d at %d:%d S2P%03d %s", status, diag.line, diag.col, diag.code, diag.msg);
            s2_arena_release(&arena);
        }
        const double each = (seconds_now() - begin) / repeats;
        best = each < best ? each : best;
    }
    return best;
}

static void parsing_is_timed(void **state)
{
    (void)state;
    const char *const text = canonical_rows[0].text;
    printf("# s2: parse of the Phi-3-small file: %.1f us\n",
           1e6 * seconds_per_parse(text, strlen(text), S2_OK, 2000));
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, text);
    const double begin = seconds_now();
    for (int32_t each = 0; each < 2000; each++) {
        char hex[S2_HASH_HEX];
        assert_int_equal(s2_pattern_hash(&pattern, hex), S2_OK);
    }
    printf("# s2: canonical text and hash of it: %.1f us\n", 1e6 * (seconds_now() - begin) / 2000);
    s2_arena_release(&arena);
}

static void put_big_shape(s2_buf *text)
{
    s2_buf_puts(text, "layers 1024\nheads 4096\ndense\n");
}

/* Hostile texts within the caps; their times are shown, and the test ends, which is the point. */
static void large_hostile_texts_are_timed(void **state)
{
    (void)state;
    s2_buf text = {0};
    put_big_shape(&text);
    for (int32_t rule = 0; rule < S2_LIMIT_RULES - 1; rule++)
        s2_buf_printf(&text, "layers %d::3 heads %d::2: local %d\n", rule % 3, rule % 2, rule % 7 + 1);
    printf("# s2: 4096 strided rules on 1024 layers x 4096 heads: %.0f ms\n",
           1e3 * seconds_per_parse(text.data, text.len, S2_OK, 1));
    text.len = 0;
    put_big_shape(&text);
    for (int32_t rule = 0; rule < S2_LIMIT_RULES - 1; rule++)
        s2_buf_printf(&text, "layers %d heads %d:%d: local %d\n", rule % 1024, rule, rule + 1, rule + 1);
    printf("# s2: 4095 bodies on 1024 layers x 4096 heads: %.0f ms\n",
           1e3 * seconds_per_parse(text.data, text.len, S2_OK, 1));
    text.len = 0;
    put_big_shape(&text);
    for (int32_t rule = 0; rule < 16 * 61; rule++)
        s2_buf_printf(&text, "layers %d::16 heads %d::61: local %d\n", rule / 61, rule % 61,
                      (rule % 61 + rule / 61) % 61 + 1);
    for (int32_t rule = 0; rule < 15 * 20; rule++)
        s2_buf_printf(&text, "layers %d::15 heads %d::118: sink 1\n", rule / 20,
                      (rule * 13 + rule / 20 * 5) % 118);
    printf("# s2: a pattern too irregular for the caps is refused in %.0f ms\n",
           1e3 * seconds_per_parse(text.data, text.len, S2_EPARSE, 1));
    text.len = 0;
    s2_buf_puts(&text, "layers 1024\nheads 4096\nheads ::2");
    while (text.len < S2_LIMIT_TEXT_BYTES - 40)
        s2_buf_puts(&text, ",1::2");
    s2_buf_puts(&text, ": dense");
    printf("# s2: 1 MiB of selector items: %.0f ms\n",
           1e3 * seconds_per_parse(text.data, text.len, S2_OK, 1));
    text.len = 0;
    s2_buf_puts(&text, "heads 1\ncolumns 0");
    for (int32_t column = 130000; column > 0; column--)
        s2_buf_printf(&text, ",%d", 2 * column);
    printf("# s2: a list of 130001 columns, descending: %.0f ms\n",
           1e3 * seconds_per_parse(text.data, text.len, S2_OK, 1));
    text.len = 0;
    s2_buf_puts(&text, "heads 1\nnone");
    for (int32_t term = 1; text.len < S2_LIMIT_TEXT_BYTES - 40; term++)
        s2_buf_printf(&text, " | sink %d", term);
    printf("# s2: a body of 1 MiB: %.0f ms\n", 1e3 * seconds_per_parse(text.data, text.len, S2_OK, 1));
    s2_buf_release(&text);
}

/* Both phases then read what the one did, through bodies that are all used. */
static void one_phase_of_a_pattern_is_a_pattern(void **state)
{
    (void)state;
    const s2_gen_spec options = {
        .most_layers = 3, .most_heads = 4, .dynamic_terms = true, .not_causal = true};
    s2_rng rng = {s2_test_seed(97)};
    int64_t n_split = 0;
    for (int64_t at = 0; at < s2_test_cases(200); at++) {
        s2_arena arena = {0};
        s2_pattern one;
        s2_diag diag = {0};
        const s2_phase phase = (s2_phase)(at % S2_N_RULE_PHASES);
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        assert_int_equal(s2_pattern_of_phase(&arena, pattern, phase, &one), S2_OK);
        if (s2_pattern_check(&one, &diag) != S2_OK)
            fail_msg("%s", diag.msg);
        assert_false(s2_pattern_has_phases(&one));
        n_split += s2_pattern_has_phases(pattern);
        for (int32_t layer = 0; layer < one.n_layers; layer++)
            for (int32_t head = 0; head < one.n_heads; head++) {
                const s2_body *const own = &pattern->bodies[s2_pattern_body(pattern, phase, layer, head)];
                for (int both = 0; both < S2_N_RULE_PHASES; both++)
                    assert_ptr_equal(one.bodies[s2_pattern_body(&one, (s2_phase)both, layer, head)].terms,
                                     own->terms);
            }
        s2_arena_release(&arena);
    }
    assert_true(n_split > 0 || s2_test_cases(200) < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_is_as_documented),
        cmocka_unit_test(index_lists_are_short_and_mean_the_same),
        cmocka_unit_test(printing_and_parsing_again_gives_the_same_pattern),
        cmocka_unit_test(every_term_reads_the_same_in_its_canonical_form),
        cmocka_unit_test(layers_that_differ_are_written_and_read_back),
        cmocka_unit_test(every_pattern_that_passes_the_check_can_be_printed),
        cmocka_unit_test(conditions_that_exclude_each_other_break_an_invariant),
        cmocka_unit_test(text_depends_on_the_pattern_alone),
        cmocka_unit_test(example_files_are_read_or_refused_as_they_say),
        cmocka_unit_test(hash_is_the_sha256_of_the_canonical_text),
        cmocka_unit_test(every_model_is_a_shape_the_parser_takes),
        cmocka_unit_test(every_code_has_an_explanation),
        cmocka_unit_test(the_reference_lists_every_code_model_and_term),
        cmocka_unit_test(refusals_name_line_column_code_and_reason),
        cmocka_unit_test(binary_texts_are_refused_at_the_first_bad_byte),
        cmocka_unit_test(a_text_beyond_one_mebibyte_is_refused),
        cmocka_unit_test(more_than_4096_rules_are_refused),
        cmocka_unit_test(truncated_texts_never_crash),
        cmocka_unit_test(what_looks_like_a_blank_is_told_by_its_number),
        cmocka_unit_test(damaged_texts_are_accepted_or_refused_with_a_position),
        cmocka_unit_test(the_caret_stands_under_the_column),
        cmocka_unit_test(every_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(parsing_is_timed),
        s2_long_test(large_hostile_texts_are_timed),
        cmocka_unit_test(one_phase_of_a_pattern_is_a_pattern),
    };
    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
