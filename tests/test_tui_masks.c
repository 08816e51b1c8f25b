/*
 * What the screens draw, cell by cell, against the definition of the language (pattern/dense.h), for random
 * patterns, lengths, zooms, layers and phases. S2_CASES=10000 is what a campaign runs.
 */
#include "tests/s2test.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "tests/gen_spec.h"
#include "tui/session.h"
#include "tui/view.h"

enum { MOST_TOK = 48, MOST_CELLS = 40 };

/* A mask as the definition has it: which heads, of which layer and phase, at which length. */
typedef struct subject {
    const s2_pattern *pattern;
    s2_phase phase;
    int32_t layer;
    int32_t head_begin;
    int32_t head_end;
    int64_t n_tok;
} subject;

/* What a dynamic term reads whatever is chosen: everything that its conditions leave, while few keys are
 * there. */
static bool reads_certainly(const subject *s, const s2_term *term, int32_t head, int64_t q_tok, int64_t k_tok)
{
    const int64_t certain = term->kind == S2_TERM_PAGES ? term->n * term->page_tok : term->n;
    s2_term dense = *term;
    dense.kind = S2_TERM_DENSE;
    return s->pattern->causal && q_tok < certain &&
           s2_term_reads(s->pattern, &dense, s->layer, head, s->n_tok, q_tok, k_tok);
}

static bool reads(const subject *s, int32_t head, int64_t q_tok, int64_t k_tok)
{
    if (s2_pattern_reads(s->pattern, s->phase, s->layer, head, s->n_tok, q_tok, k_tok))
        return true;
    const s2_body *const body = &s->pattern->bodies[s2_pattern_body(s->pattern, s->phase, s->layer, head)];
    for (int32_t t = 0; t < body->n_terms; t++)
        if (body->terms[t].kind >= S2_TERM_PAGES && (!s->pattern->causal || k_tok <= q_tok) &&
            reads_certainly(s, &body->terms[t], head, q_tok, k_tok))
            return true;
    return false;
}

static bool some_head_reads(const subject *s, int64_t q_tok, int64_t k_tok)
{
    bool found = false;
    for (int32_t head = s->head_begin; head < s->head_end && !found; head++)
        found = reads(s, head, q_tok, k_tok);
    return found;
}

/* One pair of blocks, added to a cell. */
static void add_pair(const subject *s, int64_t q_blk, int64_t k_blk, s2_grid_cell *cell)
{
    const int64_t b = s->pattern->block_tok;
    int64_t n_seen = 0, n_read = 0;
    for (int64_t q_tok = q_blk * b; q_tok < (q_blk + 1) * b && q_tok < s->n_tok; q_tok++)
        for (int64_t k_tok = k_blk * b; k_tok < (k_blk + 1) * b && k_tok < s->n_tok; k_tok++)
            if (!s->pattern->causal || k_tok <= q_tok) {
                n_seen++;
                n_read += some_head_reads(s, q_tok, k_tok);
            }
    cell->n_causal += n_seen > 0;
    cell->n_read += n_read > 0;
    cell->n_full += n_read > 0 && n_read == n_seen;
}

static s2_grid_cell cell_by_definition(const subject *s, s2_zoom zoom, int32_t rows, int32_t cols,
                                       int32_t row, int32_t col)
{
    const s2_range q = s2_grid_share(zoom.q_begin, zoom.q_end, row, rows);
    const s2_range k = s2_grid_share(zoom.k_begin, zoom.k_end, col, cols);
    s2_grid_cell cell = {0};
    for (int64_t q_blk = q.begin; q_blk < q.end; q_blk++)
        for (int64_t k_blk = k.begin; k_blk < k.end; k_blk++)
            add_pair(s, q_blk, k_blk, &cell);
    return cell;
}

static int64_t below(s2_rng *rng, int64_t n)
{
    return (int64_t)s2_rng_below(rng, (uint64_t)n);
}

static void gen_range(s2_rng *rng, int64_t n, int64_t *begin, int64_t *end)
{
    *begin = below(rng, n);
    *end = *begin + 1 + below(rng, n - *begin);
}

/* Some zoom of some heads of some layer and phase. */
static void compare_once(s2_rng *rng, const s2_pattern *pattern, uint64_t seed)
{
    subject s = {.pattern = pattern,
                 .phase = (s2_phase)below(rng, S2_N_PHASES),
                 .layer = (int32_t)below(rng, pattern->n_layers),
                 .head_end = pattern->n_heads,
                 .n_tok = 1 + below(rng, MOST_TOK)};
    if (below(rng, 3) == 0)
        s.head_begin = (int32_t)below(rng, s.head_end);
    const int64_t n_blk = s2_ceil_div(s.n_tok, pattern->block_tok);
    s2_zoom zoom = {0, n_blk, 0, n_blk};
    if (below(rng, 2) == 0) {
        gen_range(rng, n_blk, &zoom.q_begin, &zoom.q_end);
        gen_range(rng, n_blk, &zoom.k_begin, &zoom.k_end);
    }
    const int32_t rows = 1 + (int32_t)below(rng, MOST_CELLS), cols = 1 + (int32_t)below(rng, MOST_CELLS);
    s2_arena arena = {0};
    s2_grid_cell cells[MOST_CELLS * MOST_CELLS];
    s2_view *const views = S2_NEW(&arena, s2_view, pattern->n_heads);
    for (int32_t head = 0; head < pattern->n_heads; head++)
        assert_int_equal(s2_view_build(&arena, pattern, s.phase, s.layer, head, S2_AT_LEAST, &views[head]),
                         S2_OK);
    assert_int_equal(
        s2_grid_fill(views + s.head_begin, s.head_end - s.head_begin, s.n_tok, zoom, rows, cols, cells),
        S2_OK);
    for (int32_t row = 0; row < rows; row++)
        for (int32_t col = 0; col < cols; col++) {
            const s2_grid_cell want = cell_by_definition(&s, zoom, rows, cols, row, col);
            if (memcmp(&want, &cells[row * cols + col], sizeof want) == 0)
                continue;
            const s2_grid_cell got = cells[row * cols + col];
            s2_buf text = {0};
            s2_pattern_print(pattern, &text);
            fail_msg(
                "seed %llu, layer %d, %s, heads %d-%d, %lld tokens, zoom %lld-%lld %lld-%lld, cell %d,%d of "
                "%dx%d: %lld %lld %lld, should be %lld %lld %lld of\n%s",
                (unsigned long long)seed, s.layer, s.phase == S2_DECODE ? "decode" : "prefill", s.head_begin,
                s.head_end - 1, (long long)s.n_tok, (long long)zoom.q_begin, (long long)zoom.q_end,
                (long long)zoom.k_begin, (long long)zoom.k_end, row, col, rows, cols, (long long)got.n_causal,
                (long long)got.n_read, (long long)got.n_full, (long long)want.n_causal,
                (long long)want.n_read, (long long)want.n_full, text.data);
        }
    s2_arena_release(&arena);
}

static void masks_are_what_the_definition_says(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(18);
    const s2_gen_spec options = {
        .most_layers = 3, .most_heads = 6, .explicit_terms = true, .dynamic_terms = true, .not_causal = true};
    for (int64_t n = 0; n < s2_test_cases(400); n++) {
        s2_rng rng = {seed + (uint64_t)n};
        s2_arena arena = {0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        assert_non_null(pattern);
        compare_once(&rng, pattern, seed + (uint64_t)n);
        s2_arena_release(&arena);
    }
}

/* What a cell of the definition looks like. */
static char glyph_of(const s2_grid_cell *cell, bool holes)
{
    static const char twins[] = {'.', '-', '+', '*', '%', '#'};
    if (cell->n_causal == 0)
        return ' ';
    if (holes && cell->n_full < cell->n_causal)
        return cell->n_read == cell->n_causal ? 'o' : 'X';
    return cell->n_read == 0                ? twins[0]
           : cell->n_read == cell->n_causal ? twins[5]
                                            : twins[1 + 4 * cell->n_read / (cell->n_causal + 1)];
}

static void compare_area(const s2_session *session, const subject *s, s2_rect area, bool holes,
                         const char *what)
{
    const int64_t n_blk = s2_ceil_div(s->n_tok, s->pattern->block_tok);
    const s2_zoom all = {0, n_blk, 0, n_blk};
    for (int32_t row = 0; row < area.rows; row++)
        for (int32_t col = 0; col < area.cols; col++) {
            const s2_grid_cell want = cell_by_definition(s, all, area.rows, area.cols, row, col);
            const uint32_t got =
                session->canvas.cells[(area.row + row) * session->canvas.cols + area.col + col].glyph;
            if (got == (uint32_t)glyph_of(&want, holes) || (holes && got == '@'))
                continue;
            s2_buf text = {0};
            s2_pattern_print(s->pattern, &text);
            fail_msg("%s at %dx%d, %lld tokens, cell %d,%d: '%c', should be '%c' of\n%s", what,
                     session->canvas.cols, session->canvas.rows, (long long)s->n_tok, row, col, (int)got,
                     glyph_of(&want, holes), text.data);
        }
}

/* The union and a head of one design, on a screen of any size. */
static void compare_screen(s2_rng *rng, s2_session *session, const s2_facts *facts)
{
    const s2_pattern *const pattern = &facts->pattern;
    s2_tui_state *const shown = &session->state;
    const int32_t rows = 20 + (int32_t)below(rng, 30), cols = 70 + (int32_t)below(rng, 90);
    assert_int_equal(s2_session_resize(session, rows, cols), S2_OK);
    shown->layer = (int32_t)below(rng, pattern->n_layers);
    shown->head = (int32_t)below(rng, pattern->n_heads);
    session->model.design = facts;
    s2_session_draw(session);
    const s2_layout_bench at = s2_layout_bench_in(s2_layout_frame(rows, cols).body);
    subject s = {.pattern = pattern,
                 .phase = facts->question.decode ? S2_DECODE : S2_PREFILL,
                 .layer = shown->layer,
                 .head_end = pattern->n_heads,
                 .n_tok = facts->question.len_tok};
    compare_area(session, &s, s2_layout_cells(at.union_mask, true, true), true, "union");
    s.head_begin = shown->head;
    s.head_end = shown->head + 1;
    compare_area(session, &s, s2_layout_cells(at.head_mask, true, false), false, "head");
}

static void screens_show_what_the_definition_says(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(19)};
    const s2_gen_spec options = {
        .most_layers = 2, .most_heads = 4, .dynamic_terms = true, .not_causal = true};
    for (int64_t n = 0; n < (s2_test_cases(400) + 9) / 10; n++) {
        s2_arena arena = {0};
        s2_buf text = {0};
        s2_session session;
        s2_facts facts;
        const s2_question question = {
            .len_tok = 1 + below(&rng, MOST_TOK), .gpu = "h200", .decode = below(&rng, 3) == 0};
        assert_int_equal(s2_session_init(&session, 24, 80, true, S2_VIEW_DESIGN), S2_OK);
        s2_pattern_print(s2_gen_spec_pattern(&rng, &options, &arena), &text);
        /* a few of what the generator makes cannot be printed */
        s2_facts_build(text.data, text.status == S2_OK ? text.len : 0, &question, &facts);
        if (facts.status == S2_OK)
            compare_screen(&rng, &session, &facts);
        else if (text.status == S2_OK)
            fail_msg("%s: %s", facts.diag.msg, text.data);
        s2_session_release(&session);
        s2_facts_release(&facts);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/* A complete design has no hole on the screen, at any length and zoom. */
static void a_proved_union_shows_no_hole(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "heads 32; kv-heads 8; local 4 | stride 8 phase head+1", "heads 8; local 2 | stride 8 phase head",
        "heads 4; block 16; local 5t | stride 4t phase head",
        "heads 2; block 16; local 700t; heads 1: dilated 2t | local 2t | dense"};
    static const int64_t lengths[] = {100, 1024, 4096};
    for (size_t text = 0; text < sizeof texts / sizeof texts[0]; text++)
        for (size_t len = 0; len < sizeof lengths / sizeof lengths[0]; len++) {
            const s2_question question = {.len_tok = lengths[len], .gpu = "h200"};
            s2_facts facts;
            s2_facts_build(texts[text], strlen(texts[text]), &question, &facts);
            assert_int_equal(facts.status, S2_OK);
            assert_int_equal(facts.findings[1].verdict, S2_HOLDS);
            const int64_t n_blk = s2_ceil_div(lengths[len], facts.pattern.block_tok);
            for (int32_t size = 1; size < 60; size += 29) {
                s2_mask_image grid = {.key = {0, 0, -1, size, size, {0, n_blk, 0, n_blk}}};
                s2_facts_grid(&facts, &grid);
                assert_int_equal(grid.status, S2_OK);
                for (int32_t nth = 0; nth < size * size; nth++)
                    if (grid.cells[nth].n_full != grid.cells[nth].n_causal)
                        fail_msg("%s, %lld tokens: a hole in cell %d of %d", texts[text],
                                 (long long)lengths[len], nth, size * size);
                s2_free(grid.cells);
            }
            s2_facts_release(&facts);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks_are_what_the_definition_says),
                                       cmocka_unit_test(screens_show_what_the_definition_says),
                                       cmocka_unit_test(a_proved_union_shows_no_hole)};
    s2_test_choose();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
