/*
 * What the screens draw, cell by cell, against the definition of the language (pattern/dense.h), for random
 * patterns, lengths, zooms, layers and phases. S2_CASES=10000 is what a campaign runs.
 */
#include "tests/s2test.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "draw/picture.h"
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

static bool reads(const subject *s, int32_t head, int64_t q_tok, int64_t k_tok)
{
    return s2_pattern_reads(s->pattern, s->phase, s->layer, head, s->n_tok, q_tok, k_tok);
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
                 .phase = (s2_phase)below(rng, S2_N_RULE_PHASES),
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
                 .phase = s2_phase_rules(facts->question.phase),
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
        s2_facts *const facts = &session.facts[S2_SLOT_DESIGN];
        s2_question question = s2_question_default(1 + below(&rng, MOST_TOK));
        question.phase = (s2_phase)below(&rng, S2_N_PHASES);
        assert_int_equal(s2_session_init(&session, 24, 80, true, S2_VIEW_DESIGN), S2_OK);
        s2_pattern_print(s2_gen_spec_pattern(&rng, &options, &arena), &text);
        /* a few of what the generator makes cannot be printed */
        s2_facts_build(text.data, text.status == S2_OK ? text.len : 0, &question, facts);
        facts->serial = 1;
        facts->late.asked = facts->followed.asked = true; /* masks alone */
        if (facts->status == S2_OK)
            compare_screen(&rng, &session, facts);
        else if (text.status == S2_OK)
            fail_msg("%s: %s", facts->diag.msg, text.data);
        s2_session_release(&session);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/* ---- pictures in files */

/* What one cell of `s2 draw` counts: its pairs, those that some head reads, and the reads of all heads together. */
typedef struct drawn {
    int64_t n_pairs;
    int64_t n_read;
    int64_t n_reads;
} drawn;

static drawn drawn_by_definition(const subject *s, s2_range q, s2_range k)
{
    drawn d = {0};
    for (int64_t q_tok = q.begin; q_tok < q.end && q_tok < s->n_tok; q_tok++)
        for (int64_t k_tok = k.begin; k_tok < k.end && k_tok < s->n_tok; k_tok++) {
            if (s->pattern->causal && k_tok > q_tok)
                continue;
            d.n_pairs++;
            d.n_read += some_head_reads(s, q_tok, k_tok);
            for (int32_t head = s->head_begin; head < s->head_end; head++)
                d.n_reads += reads(s, head, q_tok, k_tok);
        }
    return d;
}

/* One query stands for those of its block that read alike: shares between none and all are exact for blocks of one. */
static void compare_cell(const subject *s, const s2_picture *picture, int32_t row, int32_t col, uint64_t seed)
{
    const s2_picture_cell *const cell = &picture->cells[row * picture->n_cols + col];
    const bool shards = picture->row_tok == 0;
    const s2_range q = shards ? (s2_range){s->n_tok - 1, s->n_tok}
                              : (s2_range){row * picture->row_tok, (row + 1) * picture->row_tok};
    const s2_range k = {col * picture->col_tok, (col + 1) * picture->col_tok};
    const drawn want = drawn_by_definition(s, q, k);
    /* of all heads the shade is the share that reads a pair; of one head, a KV head and shards that of pairs read */
    const bool by_head = picture->is_union && !shards;
    const int64_t all = want.n_pairs * (by_head ? s->head_end - s->head_begin : 1),
                  n_reads = by_head ? want.n_reads : want.n_read;
    const double share = all > 0 ? (double)n_reads / (double)all : 0;
    const bool union_row = picture->is_union && (!shards || row + 1 == picture->n_rows);
    const bool hole = union_row && want.n_read < want.n_pairs;
    const bool exact = s->pattern->block_tok == 1 || shards;
    const bool same = (cell->share > 0) == (n_reads > 0) &&
                      (cell->share >= 1) == (all > 0 && n_reads == all) &&
                      (!exact || (cell->share - share < 1e-5 && share - cell->share < 1e-5));
    if (cell->future == (want.n_pairs == 0) && cell->hole == hole && same)
        return;
    s2_buf text = {0};
    s2_pattern_print(s->pattern, &text);
    fail_msg("seed %llu, layer %d, heads %d-%d, %lld tokens, %s cell %d,%d of %lldx%lld tokens: share %g, "
             "hole %d, "
             "future %d; %lld of %lld pairs are read, %lld reads of\n%s",
             (unsigned long long)seed, s->layer, s->head_begin, s->head_end - 1, (long long)s->n_tok,
             shards ? "shards" : "mask", row, col, (long long)picture->row_tok, (long long)picture->col_tok,
             (double)cell->share, cell->hole, cell->future, (long long)want.n_read, (long long)want.n_pairs,
             (long long)want.n_reads, text.data);
}

static void compare_mask(s2_rng *rng, const s2_pattern *pattern, subject *s, uint64_t seed)
{
    s2_arena arena = {0};
    s2_picture picture;
    const s2_picture_of of = (s2_picture_of)below(rng, 3);
    const int32_t n_kv = s2_pattern_kv_heads(pattern, s->layer), group = pattern->n_heads / n_kv;
    const int32_t n = of == S2_PICTURE_KV ? n_kv : pattern->n_heads;
    const int32_t index = of == S2_PICTURE_UNION ? 0 : (int32_t)below(rng, n);
    s->head_begin = of == S2_PICTURE_KV ? index * group : index;
    s->head_end =
        of == S2_PICTURE_UNION ? pattern->n_heads : s->head_begin + (of == S2_PICTURE_KV ? group : 1);
    assert_int_equal(s2_picture_mask(&arena, pattern, of, s->layer, index, s->n_tok,
                                     1 + (int32_t)below(rng, MOST_CELLS), &picture),
                     S2_OK);
    for (int32_t row = 0; row < picture.n_rows; row++)
        for (int32_t col = 0; col < picture.n_cols; col++)
            compare_cell(s, &picture, row, col, seed);
    s2_arena_release(&arena);
}

static void compare_shards(s2_rng *rng, const s2_pattern *pattern, subject *s, uint64_t seed)
{
    s2_arena arena = {0};
    s2_picture picture;
    const int32_t n_kv = s2_pattern_kv_heads(pattern, s->layer), group = pattern->n_heads / n_kv;
    assert_int_equal(
        s2_picture_shards(&arena, pattern, s->layer, s->n_tok, 1 + (int32_t)below(rng, MOST_CELLS), &picture),
        S2_OK);
    for (int32_t row = 0; row < picture.n_rows; row++) {
        const bool all = row == n_kv;
        s->head_begin = all ? 0 : row * group;
        s->head_end = all ? pattern->n_heads : s->head_begin + group;
        for (int32_t col = 0; col < picture.n_cols; col++)
            compare_cell(s, &picture, row, col, seed);
    }
    s2_arena_release(&arena);
}

static void drawn_pictures_are_what_the_definition_says(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(23);
    const s2_gen_spec options = {.most_layers = 3,
                                 .most_heads = 6,
                                 .explicit_terms = true,
                                 .dynamic_terms = true,
                                 .not_causal = true,
                                 .layers_differ = true};
    for (int64_t n = 0; n < s2_test_cases(400); n++) {
        s2_rng rng = {seed + (uint64_t)n};
        s2_arena arena = {0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        assert_non_null(pattern);
        subject s = {.pattern = pattern,
                     .phase = S2_PREFILL,
                     .layer = (int32_t)below(&rng, pattern->n_layers),
                     .n_tok = 1 + below(&rng, MOST_TOK)};
        if (below(&rng, 3) > 0)
            compare_mask(&rng, pattern, &s, seed + (uint64_t)n);
        else
            compare_shards(&rng, pattern, &s, seed + (uint64_t)n);
        s2_arena_release(&arena);
    }
}

/* ---- the crosshair */

/* By the other road: runs of keys of a folded head. */
static bool view_reads(const subject *s, int32_t layer, int32_t head, int64_t q_tok, int64_t k_tok)
{
    s2_arena arena = {0};
    s2_view view;
    s2_run *runs = NULL;
    int64_t cap = 0, n = 0;
    bool found = false;
    assert_int_equal(s2_view_build(&arena, s->pattern, s->phase, layer, head, S2_AT_LEAST, &view), S2_OK);
    assert_int_equal(s2_view_row_whole(&view, q_tok, s->n_tok, NULL, &runs, &cap, &n), S2_OK);
    for (int64_t run = 0; run < n; run++)
        found = found || (k_tok >= runs[run].begin && k_tok < runs[run].end);
    s2_free(runs);
    s2_arena_release(&arena);
    return found;
}

static void print_readers(const subject *s, int64_t q_tok, int64_t k_tok, s2_buf *buf)
{
    int32_t heads[16], layers[16], n_heads = 0, n_layers = 0;
    for (int32_t layer = 0; layer < s->pattern->n_layers; layer++) {
        bool some = false;
        for (int32_t head = 0; head < s->pattern->n_heads; head++) {
            const bool reads = view_reads(s, layer, head, q_tok, k_tok);
            some = some || reads;
            if (reads && layer == s->layer)
                heads[n_heads++] = head;
        }
        if (some)
            layers[n_layers++] = layer;
    }
    s2_buf_printf(buf, "layer %d: read by %d of %d heads%s", s->layer, n_heads, s->pattern->n_heads,
                  n_heads > 0 ? ": " : "");
    if (n_heads > 0)
        s2_index_list_print(heads, n_heads, s->pattern->n_heads, buf);
    s2_buf_printf(buf, "\nread in %d of %d layers%s", n_layers, s->pattern->n_layers,
                  n_layers > 0 ? ": " : "");
    if (n_layers > 0)
        s2_index_list_print(layers, n_layers, s->pattern->n_layers, buf);
    s2_buf_puts(buf, "\n");
    s2_buf_add(buf, "", 1);
}

/* Each head is said to read or given a term that does not, and each term that does not is right. */
static void the_crosshair_names_who_reads_a_pair(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20);
    const s2_gen_spec options = {
        .most_layers = 3, .most_heads = 6, .explicit_terms = true, .not_causal = true};
    for (int64_t n = 0; n < s2_test_cases(400); n++) {
        s2_rng rng = {seed + (uint64_t)n};
        s2_facts facts = {.status = S2_OK, .question = s2_question_default(1 + below(&rng, MOST_TOK))};
        facts.question.phase = (s2_phase)below(&rng, S2_N_PHASES);
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &facts.arena);
        assert_non_null(pattern);
        facts.pattern = *pattern;
        const subject s = {.pattern = pattern,
                           .phase = s2_phase_rules(facts.question.phase),
                           .layer = (int32_t)below(&rng, pattern->n_layers),
                           .n_tok = facts.question.len_tok};
        for (int pair = 0; pair < 5; pair++) {
            const int64_t q_tok = below(&rng, s.n_tok), k_tok = below(&rng, s.n_tok);
            s2_buf told = {0}, want = {0};
            assert_int_equal(s2_cross_tell(&facts, s.layer, q_tok, k_tok, &told), S2_OK);
            s2_buf_add(&told, "", 1);
            print_readers(&s, q_tok, k_tok, &want);
            if (strstr(told.data, want.data) == NULL)
                fail_msg("seed %llu: query %lld, key %lld: %s, should have\n%s",
                         (unsigned long long)(seed + (uint64_t)n), (long long)q_tok, (long long)k_tok,
                         told.data, want.data);
            s2_buf_release(&told);
            s2_buf_release(&want);
        }
        s2_arena_release(&facts.arena);
    }
}

/* The cell that is lit holds the pair, wherever keys and zooms lead; the lines below name the same pair. */
static void check_lit(const s2_session *session)
{
    const s2_tui_state *const state = &session->state;
    const s2_canvas *const canvas = &session->canvas;
    const s2_facts *const facts = session->model.bench;
    const s2_rect cells = s2_layout_cells(s2_panels_place(state).union_mask, true, true);
    const int64_t n_blk = s2_ceil_div(facts->question.len_tok, facts->pattern.block_tok);
    const s2_zoom zoom = state->zoomed ? state->zoom : (s2_zoom){0, n_blk, 0, n_blk};
    const int64_t q_blk = state->cross_q / facts->pattern.block_tok,
                  k_blk = state->cross_k / facts->pattern.block_tok;
    int32_t n_lit = 0;
    for (int32_t row = 0; row < cells.rows; row++)
        for (int32_t col = 0; col < cells.cols; col++) {
            const s2_cell *const cell = &canvas->cells[(cells.row + row) * canvas->cols + cells.col + col];
            if (cell->style != S2_STYLE_WITNESS || cell->glyph == '@')
                continue;
            const s2_range q = s2_grid_share(zoom.q_begin, zoom.q_end, row, cells.rows);
            const s2_range k = s2_grid_share(zoom.k_begin, zoom.k_end, col, cells.cols);
            if (q_blk < q.begin || q_blk >= q.end || k_blk < k.begin || k_blk >= k.end)
                fail_msg("cell %d,%d is lit for query %lld, key %lld", row, col, (long long)state->cross_q,
                         (long long)state->cross_k);
            n_lit++;
        }
    const bool shown =
        q_blk >= zoom.q_begin && q_blk < zoom.q_end && k_blk >= zoom.k_begin && k_blk < zoom.k_end;
    assert_true(n_lit == shown || (shown && n_lit == 0 && facts->findings[1].verdict == S2_VIOLATED));
}

static void the_crosshair_lights_the_cell_of_its_pair(void **state)
{
    (void)state;
    static const int32_t keys[] = {S2_KEY_UP, S2_KEY_DOWN, S2_KEY_LEFT, S2_KEY_RIGHT, 'i',         'o',
                                   'H',       'J',         'K',         'L',          '0',         'n',
                                   '}',       S2_KEY_UP,   S2_KEY_DOWN, S2_KEY_LEFT,  S2_KEY_RIGHT};
    static const char *const lengths[] = {"1k", "1234", "3k", "128k"};
    s2_rng rng = {s2_test_seed(21)};
    for (int64_t n = 0; n < (s2_test_cases(400) + 49) / 50; n++) {
        s2_session session;
        assert_int_equal(s2_session_init(&session, 20 + (int32_t)below(&rng, 40),
                                         70 + (int32_t)below(&rng, 100), true, S2_VIEW_BENCH),
                         S2_OK);
        session.state.knobs.value[S2_KNOB_LAYERS] = 4;
        if (below(&rng, 2) == 0)
            session.state.knobs.value[S2_KNOB_PHASE] = 4;
        assert_true(s2_knob_set(&session.state.knobs, S2_KNOB_LEN, lengths[below(&rng, 4)]));
        s2_session_key(&session, '0');
        s2_session_key(&session, 'c');
        for (int key = 0; key < 60; key++) {
            s2_session_key(&session, keys[below(&rng, sizeof keys / sizeof keys[0])]);
            assert_true(session.state.cross_q >= 0 &&
                        session.state.cross_q < session.model.bench->question.len_tok);
            assert_true(session.state.cross_k >= 0 &&
                        session.state.cross_k < session.model.bench->question.len_tok);
            s2_session_draw(&session);
            check_lit(&session);
        }
        s2_session_release(&session);
    }
}

/* From any cell, one step and its contrary lead to the same cell; every token of a window has the cell it is in. */
static void cells_and_tokens_of_an_axis_agree(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(22)};
    for (int64_t n = 0; n < s2_test_cases(400); n++) {
        s2_range blocks;
        const int64_t b = INT64_C(1) << below(&rng, 7);
        const int32_t cells = 1 + (int32_t)below(&rng, 60);
        gen_range(&rng, 200, &blocks.begin, &blocks.end);
        for (int64_t tok = blocks.begin * b; tok < blocks.end * b; tok++) {
            const int32_t cell = s2_cross_cell(blocks, b, cells, tok);
            assert_in_range(cell, 0, cells - 1);
            const s2_range share = s2_grid_share(blocks.begin, blocks.end, cell, cells);
            assert_true(tok / b >= share.begin && tok / b < share.end);
        }
        for (int32_t cell = 0; cell < cells && (blocks.end - blocks.begin) * b >= cells; cell++)
            assert_int_equal(s2_cross_cell(blocks, b, cells, s2_cross_tok(blocks, b, cells, cell)), cell);
        assert_int_equal(s2_cross_cell(blocks, b, cells, blocks.end * b), -1);
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
            const s2_question question = s2_question_default(lengths[len]);
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
                                       cmocka_unit_test(drawn_pictures_are_what_the_definition_says),
                                       cmocka_unit_test(a_proved_union_shows_no_hole),
                                       cmocka_unit_test(the_crosshair_names_who_reads_a_pair),
                                       cmocka_unit_test(the_crosshair_lights_the_cell_of_its_pair),
                                       cmocka_unit_test(cells_and_tokens_of_an_axis_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
