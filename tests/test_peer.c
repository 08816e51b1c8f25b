/*
 * Somebody else's kernels: laws fitted to tables of their times, and what is refused.
 */
#include "tests/s2test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/file.h"
#include "base/rng.h"
#include "calibrate/launches.h"
#include "calibrate/table.h"
#include "judge/handover.h"
#include "pattern/parse.h"
#include "sim/price.h"
#include "sim/schedule.h"

static const char HEAD[] = "batch,heads,kv_heads,head_dim,n_tok,us\n";

static s2_gpu gpu_of(const char *name)
{
    s2_gpu gpu;
    s2_diag diag = {0};
    if (s2_gpu_find(name, &gpu, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    return gpu;
}

static s2_status parse(s2_arena *arena, const char *text, s2_pass pass, s2_table *out, s2_diag *diag)
{
    const s2_gpu gpu = gpu_of("h200");
    const size_t n = strlen(text);
    char *const copy = S2_NEW(arena, char, n + 1);
    assert_non_null(copy);
    memcpy(copy, text, n + 1);
    return s2_table_parse(arena, copy, n, &gpu, pass, out, diag);
}

static s2_peer fitted(s2_arena *arena, const s2_table *table)
{
    const s2_gpu gpu = gpu_of("h200");
    s2_peer peer = {.name = "theirs", .gpu = "h200"};
    s2_table_miss worst[S2_PEER_LAWS];
    s2_diag diag = {0};
    if (s2_table_fit(arena, table, &gpu, &peer, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    assert_int_equal(s2_table_judge(arena, table, false, &gpu, &peer, worst), S2_OK);
    return peer;
}

/* So many rows of head dim 128 and short contexts out of a published table. */
static void take_sample(const char *path, int32_t n_rows, s2_arena *arena, s2_buf *out)
{
    char *text;
    size_t n_bytes;
    assert_int_equal(s2_bytes_read(arena, path, 1 << 20, &text, &n_bytes), S2_OK);
    s2_buf_puts(out, HEAD);
    for (char *line = strtok(text, "\n"); line != NULL && n_rows > 0; line = strtok(NULL, "\n")) {
        int batch, heads, kv_heads, head_dim, n_tok;
        if (sscanf(line, "%d,%d,%d,%d,%d", &batch, &heads, &kv_heads, &head_dim, &n_tok) != 5 ||
            head_dim != 128 || n_tok > 2048)
            continue;
        s2_buf_printf(out, "%s\n", line);
        n_rows--;
    }
    assert_int_equal(out->status, S2_OK);
}

static void half_of_a_published_table_tells_the_other_half_within_eight_percent(void **state)
{
    s2_arena arena = {0};
    s2_table table;
    s2_diag diag = {0};
    s2_buf text = {0};
    take_sample("docs/results/peers/h200-vllm-prefill.csv", 240, &arena, &text);
    assert_int_equal(parse(&arena, text.data, S2_PASS_FORWARD, &table, &diag), S2_OK);
    assert_int_equal(table.n_rows, 240);
    s2_table_leave_out(&table, 3, 2);
    const s2_peer peer = fitted(&arena, &table);
    for (int32_t l = 0; l < peer.n_laws; l++) {
        const s2_kernel_model *const kernel = &peer.laws[l].kernel;
        assert_true(kernel->n_judged > 30);
        if (kernel->error_pct > 8)
            fail_msg("%.1f %% on %d rows", kernel->error_pct, kernel->n_judged);
    }
    s2_buf_release(&text);
    s2_arena_release(&arena);
    (void)state;
}

/* Times that a law made, of launches drawn at random. */
static void draw_table(s2_arena *arena, const s2_peer_law *law, int32_t n_rows, s2_buf *text)
{
    static const int32_t groups[] = {1, 2, 4, 8, 12}, kv_heads[] = {1, 2, 4, 8};
    const s2_gpu gpu = gpu_of("h200");
    s2_rng rng = {s2_test_seed(11)};
    s2_buf_puts(text, HEAD);
    for (int32_t r = 0; r < n_rows; r++) {
        const int32_t kv = kv_heads[s2_rng_below(&rng, 4)], heads = kv * groups[s2_rng_below(&rng, 5)];
        const int64_t batch = INT64_C(1) << s2_rng_below(&rng, 6),
                      n_tok = 1 + (int64_t)s2_rng_below(&rng, 3000);
        char shape[120];
        s2_pattern pattern;
        s2_classes classes;
        s2_peer_work work;
        const int n = snprintf(shape, sizeof shape, "heads %d; kv-heads %d; head-dim 128; layers all: dense",
                               heads, kv);
        assert_int_equal(s2_pattern_parse(arena, shape, (size_t)n, NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_classes_build(arena, &pattern, S2_PREFILL, &classes), S2_OK);
        const s2_peer_launch launch = {.classes = &classes,
                                       .layer = &classes.layers[0],
                                       .pass = S2_PASS_FORWARD,
                                       .is_dense = true,
                                       .q_tok = n_tok,
                                       .len_tok = n_tok,
                                       .batch = batch};
        assert_int_equal(s2_peer_work_of(arena, &launch, &law->cut, &gpu, &work), S2_OK);
        s2_buf_printf(text, "%lld,%d,%d,128,%lld,%.6g\n", (long long)batch, heads, kv, (long long)n_tok,
                      s2_peer_us(law->constant, &work, s2_peer_busy_us(law->constant, &work)));
    }
}

static void a_law_is_found_again_from_the_times_that_it_made(void **state)
{
    const s2_peer_law law = {.cut = {192, 128, S2_PACKS_ALWAYS, true, .resident = 1},
                             .constant = {[S2_PEER_launch_us] = 6,
                                          [S2_PEER_tile_us] = 1.2,
                                          [S2_PEER_rows_us] = 2.1,
                                          [S2_PEER_step_us] = 2,
                                          [S2_PEER_mask_times] = 1.5,
                                          [S2_PEER_least_us] = 1,
                                          [S2_PEER_read_gb_s] = 3300,
                                          [S2_PEER_write_gb_s] = 20000,
                                          [S2_PEER_join_us] = 3,
                                          [S2_PEER_part_us_mb] = 0.1}};
    s2_arena arena = {0};
    s2_table table;
    s2_diag diag = {0};
    s2_buf text = {0};
    draw_table(&arena, &law, 160, &text);
    if (parse(&arena, text.data, S2_PASS_FORWARD, &table, &diag) != S2_OK)
        fail_msg("%d: %s", diag.line, diag.msg);
    s2_table_leave_out(&table, 5, 3);
    const s2_peer peer = fitted(&arena, &table);
    for (int32_t l = 0; l < peer.n_laws; l++)
        if (peer.laws[l].kernel.error_pct > 2)
            fail_msg("%.2f %% where the law itself made the times", peer.laws[l].kernel.error_pct);
    s2_buf_release(&text);
    s2_arena_release(&arena);
    (void)state;
}

/* What a plain grid takes and what the longest tile first takes: times say which it was. */
static void the_order_of_tiles_shows_in_their_times(void **state)
{
    for (s2_peer_order order = (s2_peer_order)s2_test_first(S2_N_PEER_ORDERS); order < S2_N_PEER_ORDERS;
         order++) {
        const s2_peer_law law = {.cut = {128, 128, S2_PACKS_NEVER, .order = order, .resident = 1},
                                 .constant = {[S2_PEER_launch_us] = 5,
                                              [S2_PEER_tile_us] = 1,
                                              [S2_PEER_rows_us] = 1,
                                              [S2_PEER_step_us] = 2,
                                              [S2_PEER_mask_times] = 1,
                                              [S2_PEER_least_us] = 1,
                                              [S2_PEER_read_gb_s] = 3300,
                                              [S2_PEER_write_gb_s] = 20000}};
        s2_arena arena = {0};
        s2_table table;
        s2_diag diag = {0};
        s2_buf text = {0}, printed = {0};
        s2_peer again;
        draw_table(&arena, &law, 90, &text);
        assert_int_equal(parse(&arena, text.data, S2_PASS_FORWARD, &table, &diag), S2_OK);
        s2_table_leave_out(&table, 5, 3);
        const s2_peer peer = fitted(&arena, &table);
        for (int32_t l = 0; l < peer.n_laws; l++)
            if (peer.laws[l].kernel.error_pct > 2 || peer.laws[l].cut.order != order)
                fail_msg("order %d: found %d, %.2f %% off", (int)order, (int)peer.laws[l].cut.order,
                         peer.laws[l].kernel.error_pct);
        s2_peer_print(&peer, &printed);
        assert_int_equal(s2_peer_parse(printed.data, printed.len, &again, &diag), S2_OK);
        assert_int_equal(again.laws[0].cut.order, order);
        s2_buf_release(&text);
        s2_buf_release(&printed);
        s2_arena_release(&arena);
    }
    (void)state;
}

static s2_peer_work work_of(s2_arena *arena, const char *shape, const s2_peer_cut *cut, s2_pass pass,
                            int64_t n_tok, int64_t batch)
{
    const s2_gpu gpu = gpu_of("h200");
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    s2_classes *const classes = S2_NEW(arena, s2_classes, 1);
    const s2_phase phase = pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    s2_peer_work work;
    assert_int_equal(s2_pattern_parse(arena, shape, strlen(shape), NULL, pattern, NULL), S2_OK);
    assert_int_equal(s2_classes_build(arena, pattern, phase, classes), S2_OK);
    const s2_peer_launch launch = {.classes = classes,
                                   .layer = &classes->layers[0],
                                   .pass = pass,
                                   .is_dense = s2_peer_is_dense(pattern, phase),
                                   .q_tok = pass == S2_PASS_DECODE ? 1 : n_tok,
                                   .len_tok = n_tok,
                                   .batch = batch};
    assert_int_equal(s2_peer_work_of(arena, &launch, cut, &gpu, &work), S2_OK);
    return work;
}

/* A block of which a pair is not read, or that reaches past the last query, asks the mask. */
static void steps_at_an_edge_ask_the_mask(void **state)
{
    static const struct {
        const char *body;
        int64_t n_tok;
        int32_t n;
        double steps[4], partial[4];
    } cases[] = {{"dense", 384, 3, {3, 2, 1}, {1, 1, 1}},
                 {"dense", 320, 3, {3, 2, 1}, {3, 1, 1}},
                 {"local 128t", 384, 2, {2, 1}, {2, 1}},
                 {"local 3 | sink 1", 512, 4, {4, 3, 2, 1}, {1, 1, 1, 1}}};
    for (s2_peer_order order = 0; order < S2_N_PEER_ORDERS; order++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const s2_peer_cut cut = {128, 128, S2_PACKS_NEVER, .order = order, .resident = 1, .asks = true};
            char shape[100];
            s2_arena arena = {0};
            snprintf(shape, sizeof shape, "heads 1; head-dim 64; block 128; layers all: %s", cases[c].body);
            const s2_peer_work work = work_of(&arena, shape, &cut, S2_PASS_FORWARD, cases[c].n_tok, 1);
            assert_int_equal(work.n_tiles, cases[c].n);
            for (int32_t t = 0; t < work.n_tiles; t++)
                if (work.tiles[t].steps != cases[c].steps[t] || work.tiles[t].partial != cases[c].partial[t])
                    fail_msg("%s, %lld tokens, tile %d: %g steps, %g partial", cases[c].body,
                             (long long)cases[c].n_tok, t, work.tiles[t].steps, work.tiles[t].partial);
            s2_arena_release(&arena);
        }
    (void)state;
}

/* Rows of a group lie together where there is one sequence or one KV head; else a kernel that packs copies them. */
static void rows_that_do_not_lie_together_are_copied(void **state)
{
    static const struct {
        const char *shape;
        int64_t batch;
        s2_peer_packing packing;
        bool copied;
    } cases[] = {{"heads 8; kv-heads 2; all: dense", 2, S2_PACKS_ALWAYS, true},
                 {"heads 8; kv-heads 2; all: dense", 2, S2_PACKS_NEVER, false},
                 {"heads 8; kv-heads 2; all: dense", 1, S2_PACKS_ALWAYS, false},
                 {"heads 8; kv-heads 1; all: dense", 2, S2_PACKS_ALWAYS, false},
                 {"heads 8; kv-heads 8; all: dense", 2, S2_PACKS_ALWAYS, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const s2_peer_cut cut = {64, 128, cases[c].packing, .resident = 1};
        s2_arena arena = {0};
        assert_true(work_of(&arena, cases[c].shape, &cut, S2_PASS_DECODE, 1000, cases[c].batch).copied ==
                    cases[c].copied);
        s2_arena_release(&arena);
    }
    (void)state;
}

/* Pieces in the order given, each to the worker that is free first. */
static void a_queue_ends_when_the_last_of_its_pieces_is_done(void **state)
{
    s2_rng rng = {s2_test_seed(23)};
    for (int32_t round = 0; round < 200; round++) {
        const int32_t n_workers = 1 + (int32_t)s2_rng_below(&rng, 40), n = (int32_t)s2_rng_below(&rng, 300);
        int64_t free_at[40] = {0}, end = 7;
        s2_queue queue;
        s2_queue_init(&queue, n_workers, 7);
        for (int32_t worker = 0; worker < n_workers; worker++)
            free_at[worker] = 7;
        for (int32_t piece = 0; piece < n; piece++) {
            const int64_t w = (int64_t)s2_rng_below(&rng, 100);
            int32_t first = 0;
            for (int32_t worker = 1; worker < n_workers; worker++)
                first = free_at[worker] < free_at[first] ? worker : first;
            free_at[first] += w;
            end = s2_max_i64(end, free_at[first]);
            s2_queue_give(&queue, w);
        }
        assert_true(queue.end == end);
    }
    (void)state;
}

static void a_bad_row_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text;
        int32_t line;
        const char *says;
    } cases[] = {
        {"batch,heads,kv_heads,head_dim,n_tok\n1,1,1,64,1\n", 1, "lack us"},
        {"batch,heads,kv_heads,head_dim,n_tok,us,us\n", 1, "named twice"},
        {"# who\nbatch,heads,kv_heads,head_dim,n_tok,us\n1,8,8,64,1,7\n1,8,8,64,x,7\n", 4, "n_tok"},
        {"batch,heads,kv_heads,head_dim,n_tok,us\n1,8,3,64,16,7\n", 2, "shape"},
        {"batch,heads,kv_heads,head_dim,n_tok,us\n1,8,8,64,16,-7\n", 2, "microseconds"},
        {"batch,heads,kv_heads,head_dim,n_tok,us\n1,8,8,64,16,nan\n", 2, "microseconds"},
        {"batch,heads,kv_heads,head_dim,n_tok,us\n1,8,8,64,16\n", 2, "5 fields"},
        {"batch,heads,kv_heads,head_dim,n_tok,us\n1,32,32,128,32768,7\n", 2, "no kernel takes"},
        {"batch,heads,kv_heads,head_dim,n_tok,us,caches\n1,1,1,64,16,7,warm\n1,1,1,64,32,7,cold\n", 3,
         "warm and of cold"},
        {"batch,heads,kv_heads,head_dim,n_tok,us,pattern\n1,1,1,64,16,7,locl 4\n", 2, "pattern"},
        {"batch,heads,kv_heads,head_dim,n_tok,us\n", 2, "no row"},
        {"", 0, "no row"},
        {"batch;heads;kv_heads;head_dim;n_tok;us\n1;8;8;64;16;7,5\n", 2, "decimal point"},
        {"batch,heads,kv_heads,head_dim,n_tok,us\n1,8,8,64,16,7,5\n", 2, "decimal point"},
        {"batch,heads,kv_heads,head_dim,n_tok,us,causal\n1,8,8,64,16,7,maybe\n", 2, "causal is 1 or 0"},
        {"batch,heads,kv_heads,head_dim,n_tok,us,pass\n8,32,32,128,32768,0.9,decode\n", 2, "L2 cannot hold"},
    };
    s2_arena arena = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        s2_table table = {.n_rows = -1};
        s2_diag diag = {0};
        assert_int_equal(parse(&arena, cases[c].text, S2_PASS_FORWARD, &table, &diag), S2_EPARSE);
        if (table.n_rows != -1 || strstr(diag.msg, cases[c].says) == NULL ||
            (diag.line != cases[c].line && strcmp(cases[c].says, "no row") != 0))
            fail_msg("case %zu: line %d: %s", c, diag.line, diag.msg);
    }
    s2_arena_release(&arena);
    (void)state;
}

static void rows_without_a_pass_are_not_guessed_at(void **state)
{
    s2_arena arena = {0};
    s2_table table;
    s2_diag diag = {0};
    const char text[] = "batch,heads,kv_heads,head_dim,n_tok,us\n1,1,1,64,16,7\n";
    assert_int_equal(parse(&arena, text, S2_N_PASSES, &table, &diag), S2_EPARSE);
    assert_non_null(strstr(diag.msg, "pass"));
    const char said[] =
        "\"us\" , pass,n_tok, head_dim,kv_heads,heads,batch,mhz\n7,decode,16,64,1,1,1,1980\r\n";
    assert_int_equal(parse(&arena, said, S2_N_PASSES, &table, &diag), S2_OK);
    assert_int_equal(table.rows[0].pass, S2_PASS_DECODE);
    assert_int_equal(table.rows[0].q_tok, 1);
    s2_arena_release(&arena);
    (void)state;
}

/* The same rows by every habit of spreadsheets: the same table, whatever separates and ends its lines. */
static void a_table_reads_alike_however_it_is_separated(void **state)
{
    static const struct {
        char separator;
        const char *end;
        const char *names[3];
    } habits[] = {{',', "\n", {"batch", "kv_heads", "us"}},
                  {';', "\r\n", {"Batch", "KV-Heads", "US"}},
                  {'\t', "\n", {"\"batch\"", "kv heads", " us"}}};
    s2_arena arena = {0};
    for (size_t h = 0; h < sizeof habits / sizeof *habits; h++) {
        const char s = habits[h].separator;
        s2_buf text = {0};
        s2_table table;
        s2_diag diag = {0};
        s2_buf_printf(&text, "%s%cheads%c%s%chead_dim%cn_tok%ccausal%cpattern%c%s%s", habits[h].names[0], s,
                      s, habits[h].names[1], s, s, s, s, s, habits[h].names[2], habits[h].end);
        for (int32_t r = 0; r < 4; r++)
            s2_buf_printf(&text, "1%c8%c8%c64%c%d%c%s%c\"%s\"%c%d.5%s", s, s, s, s, 128 << r, s,
                          r % 2 ? "False" : "", s, r == 3 ? "columns 1,2" : "", s, 40 + r, habits[h].end);
        assert_int_equal(text.status, S2_OK);
        if (parse(&arena, text.data, S2_PASS_FORWARD, &table, &diag) != S2_OK)
            fail_msg("habit %zu: line %d: %s", h, diag.line, diag.msg);
        assert_int_equal(table.n_rows, 4);
        for (int32_t r = 0; r < 4; r++)
            assert_true(table.rows[r].n_tok == 128 << r && table.rows[r].us == 40.5 + r &&
                        table.rows[r].causal == (r % 2 == 0) && (table.rows[r].pattern != NULL) == (r == 3));
        s2_buf_release(&text);
    }
    s2_arena_release(&arena);
    (void)state;
}

/* Any table, any rows held out: what is left to judge is never a launch that was fitted, however written. */
static void what_was_fitted_judges_nothing(void **state)
{
    static const char *const same[] = {"local 4 | sink 1", "local 4|sink 1", " local  4 | sink  1"};
    s2_arena arena = {0};
    s2_buf fitted_text = {0}, judging_text = {0};
    s2_table fitted, judging, again;
    s2_diag diag = {0};
    s2_buf_puts(&fitted_text, "batch,heads,kv_heads,head_dim,n_tok,pattern,us\n");
    s2_buf_puts(&judging_text, "us,n_tok,pattern,head_dim,kv_heads,heads,batch\n");
    for (int32_t r = 0; r < 30; r++) {
        s2_buf_printf(&fitted_text, "1,8,8,64,%d,%s,50\n", 64 * (r + 1), r % 2 ? same[0] : "");
        s2_buf_printf(&judging_text, "61,%d,%s,64,8,8,1\n", 64 * (r + 1),
                      r % 2 ? same[1 + r % 4 / 2] : "dense");
    }
    assert_int_equal(parse(&arena, fitted_text.data, S2_PASS_FORWARD, &fitted, &diag), S2_OK);
    assert_int_equal(parse(&arena, judging_text.data, S2_PASS_FORWARD, &judging, &diag), S2_OK);
    again = judging;
    assert_int_equal(s2_table_drop_fitted(&arena, &fitted, &again), S2_OK);
    assert_int_equal(again.n_rows, 0);
    s2_table_leave_out(&fitted, 7, 3);
    int32_t n_held = 0;
    for (int32_t r = 0; r < fitted.n_rows; r++)
        n_held += fitted.rows[r].held;
    assert_int_equal(s2_table_drop_fitted(&arena, &fitted, &judging), S2_OK);
    assert_true(n_held > 0);
    assert_int_equal(judging.n_rows, n_held);
    s2_buf_release(&fitted_text);
    s2_buf_release(&judging_text);
    s2_arena_release(&arena);
    (void)state;
}

static void times_in_nanoseconds_are_doubted(void **state)
{
    s2_arena arena = {0};
    s2_table table;
    s2_diag diag = {0};
    const char us[] = "batch,heads,kv_heads,head_dim,n_tok,us\n1,32,32,128,8192,900\n1,8,8,64,64,12\n";
    const char ns[] = "batch,heads,kv_heads,head_dim,n_tok,us\n1,32,32,128,8192,900e3\n1,8,8,64,64,12e3\n";
    assert_int_equal(parse(&arena, us, S2_PASS_FORWARD, &table, &diag), S2_OK);
    assert_true(s2_table_slowness(&table) < 5);
    assert_int_equal(parse(&arena, ns, S2_PASS_FORWARD, &table, &diag), S2_OK);
    assert_true(s2_table_slowness(&table) > 50);
    s2_arena_release(&arena);
    (void)state;
}

static void a_model_comes_back_from_its_file_and_a_changed_file_is_refused(void **state)
{
    s2_peer peer, again;
    s2_diag diag = {0};
    s2_buf text = {0}, second = {0};
    for (int32_t nth = 0; s2_peer_name(nth) != NULL; nth++) {
        if (s2_peer_find(s2_peer_name(nth), &peer, &diag) != S2_OK)
            fail_msg("%s: %s", s2_peer_name(nth), diag.msg);
        s2_buf_release(&text);
        s2_buf_release(&second);
        text = second = (s2_buf){0};
        peer.laws[0].least_blk_tok = 16;
        peer.laws[0].most_blk_tok = 128;
        s2_peer_print(&peer, &text);
        assert_non_null(strstr(text.data, "\nblocks 16 128\n"));
        assert_int_equal(s2_peer_parse(text.data, text.len, &again, &diag), S2_OK);
        s2_peer_print(&again, &second);
        assert_string_equal(text.data, second.data);
    }
    assert_non_null(text.data);
    char *const digit = strstr(text.data, "step_us ") + 8;
    *digit = *digit == '1' ? '2' : '1';
    assert_int_equal(s2_peer_parse(text.data, text.len, &again, &diag), S2_EPARSE);
    for (size_t n = 0; n < text.len; n += 7)
        assert_int_not_equal(s2_peer_parse(text.data, n, &again, &diag), S2_OK);
    s2_buf_release(&text);
    s2_buf_release(&second);
    (void)state;
}

/* new_tok: the last so many ask; 0: all. */
static s2_status price_new(s2_arena *arena, const s2_peer *peer, s2_phase phase, const char *text,
                           int64_t len, int64_t new_tok, s2_sim *sim, s2_diag *diag)
{
    s2_sim_options options;
    s2_calibration calibration;
    s2_pattern pattern;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    assert_int_equal(s2_pattern_parse(arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    options.calibration = &calibration;
    options.peer = peer;
    options.len_tok = len;
    options.new_tok = new_tok;
    options.phase = phase;
    return s2_price(arena, &pattern, &options, S2_PRICE_WHOLE, sim, diag);
}

static s2_status price_phase(s2_arena *arena, const s2_peer *peer, s2_phase phase, const char *text,
                             int64_t len, s2_sim *sim, s2_diag *diag)
{
    return price_new(arena, peer, phase, text, len, 0, sim, diag);
}

static s2_status price(s2_arena *arena, const s2_peer *peer, const char *text, int64_t len, s2_sim *sim,
                       s2_diag *diag)
{
    return price_phase(arena, peer, S2_PREFILL, text, len, sim, diag);
}

/* Training runs two kernels: each figure of the error is the worse of theirs, whichever pass has it. */
static void the_error_of_training_is_the_worse_of_both_passes(void **state)
{
    static const struct {
        s2_pass pass;
        double error_pct, p90_pct;
        int32_t n_judged;
    } laws[2][2] = {{{S2_PASS_FORWARD, 2.3, 7, 10}, {S2_PASS_BACKWARD, 1.7, 9, 8}},
                    {{S2_PASS_FORWARD, 1.7, 9, 10}, {S2_PASS_BACKWARD, 2.3, 7, 8}}};
    for (int which = 0; which < 2; which++) {
        s2_arena arena = {0};
        s2_peer peer;
        s2_sim sim;
        s2_diag diag = {0};
        assert_int_equal(s2_peer_find("vllm-h200", &peer, &diag), S2_OK);
        const s2_peer_law like = peer.laws[peer.n_laws - 1];
        peer.n_laws = 2;
        for (int n = 0; n < 2; n++) {
            peer.laws[n] = like;
            peer.laws[n].kernel.pass = laws[which][n].pass;
            peer.laws[n].kernel.error_pct = laws[which][n].error_pct;
            peer.laws[n].kernel.p90_pct = laws[which][n].p90_pct;
            peer.laws[n].kernel.n_judged = laws[which][n].n_judged;
        }
        if (price_phase(&arena, &peer, S2_TRAIN, "heads 32; kv-heads 8; head-dim 128; all: dense", 8192, &sim,
                        &diag) != S2_OK)
            fail_msg("%s", diag.msg);
        assert_true(sim.error.pct == 2.3 && sim.error.p90_pct == 9);
        assert_int_equal(sim.error.n_judged, 8);
        assert_int_equal(sim.error.n_passes, 2);
        s2_arena_release(&arena);
    }
    (void)state;
}

static void a_model_prices_what_it_was_fitted_to_and_refuses_the_rest(void **state)
{
    static const char *const refused[] = {"heads 8; head-dim 128; all: local 4",
                                          "heads 8; head-dim 96; all: dense",
                                          "heads 8; head-dim 128; all: pages 4 page 16"};
    s2_arena arena = {0};
    s2_peer peer;
    s2_sim sim;
    s2_diag diag = {0};
    assert_int_equal(s2_peer_find("vllm-h200", &peer, &diag), S2_OK);
    assert_int_equal(
        price(&arena, &peer, "heads 32; kv-heads 8; head-dim 128; all: dense", 8192, &sim, &diag), S2_OK);
    assert_true(sim.predicted && sim.error.n_judged > 0 && sim.error.pct > 0 && sim.time_us >= sim.bound_us);
    assert_string_equal(sim.kernel, "vllm-h200");
    const double inside_pct = sim.error.pct;
    assert_int_equal(
        price(&arena, &peer, "heads 32; kv-heads 8; head-dim 128; all: dense", 131072, &sim, &diag), S2_OK);
    assert_true(sim.far.beyond > 0 && sim.error.pct > inside_pct);
    for (int64_t new_tok = 7; new_tok <= 8192; new_tok += 8185) { /* its rows are of whole prompts */
        assert_int_equal(price_new(&arena, &peer, S2_PREFILL,
                                   "heads 32; kv-heads 8; head-dim 128; all: dense", 8192, new_tok, &sim,
                                   &diag),
                         S2_OK);
        assert_true(sim.error.allowed == (new_tok == 7) && (sim.error.pct >= 30) == sim.error.allowed);
    }
    /* and rows of chunks, which its file then tells of */
    s2_buf text = {0};
    s2_peer again;
    for (int32_t l = 0; l < peer.n_laws; l++)
        peer.laws[l].kernel.spans[S2_EXTENT_NEW] = (s2_span_of_points){256, 4096};
    s2_peer_print(&peer, &text);
    assert_int_equal(s2_peer_parse(text.data, text.len, &again, &diag), S2_OK);
    s2_buf_release(&text);
    for (int64_t new_tok = 16; new_tok <= 8192; new_tok *= 8) { /* 16, 128, 1024, and all */
        assert_int_equal(price_new(&arena, &again, S2_PREFILL,
                                   "heads 32; kv-heads 8; head-dim 128; all: dense", 8192, new_tok, &sim,
                                   &diag),
                         S2_OK);
        assert_true(sim.error.allowed == (new_tok < 256) && (sim.far.beyond > 0) == sim.error.allowed);
        assert_true(!sim.error.allowed || (sim.far.in == S2_EXTENT_NEW && sim.far.asked == (double)new_tok));
    }
    for (size_t c = 0; c < sizeof refused / sizeof *refused; c++)
        if (price(&arena, &peer, refused[c], 4096, &sim, &diag) != S2_EUNSUPPORTED || diag.msg[0] == '\0')
            fail_msg("priced: %s", refused[c]);
    s2_arena_release(&arena);
    (void)state;
}

/* Blocks and choices that no row told of may cost anything: one block of 16 tokens took 1.8 times one of 64. */
static void rows_of_some_blocks_say_nothing_of_others(void **state)
{
    static const struct {
        const char *text;
        s2_status status;
    } rows[] = {
        {"block 64; heads 8; head-dim 128; all: local 4", S2_OK},
        {"block 32; heads 8; head-dim 128; all: local 4 | stride 8 phase head", S2_OK},
        {"block 16; heads 8; head-dim 128; all: local 4", S2_EUNSUPPORTED},
        {"block 128; heads 8; head-dim 128; all: local 4", S2_EUNSUPPORTED},
        {"block 16; heads 8; head-dim 128; all: dense", S2_OK},
        {"block 64; heads 8; head-dim 128; all: local 4 | topk 100", S2_EUNSUPPORTED},
        {"block 64; heads 8; head-dim 128; all: local 4 | heavy 100", S2_EUNSUPPORTED},
        {"block 64; heads 8; head-dim 128; all: pages 4 page 64", S2_EUNSUPPORTED},
        {"block 64; heads 8; head-dim 128; layers 2; layers 0: dense; layers 1: topk 100", S2_EUNSUPPORTED}};
    s2_arena arena = {0};
    s2_peer peer;
    s2_sim sim;
    s2_diag diag = {0};
    assert_int_equal(s2_peer_find("vllm-h200", &peer, &diag), S2_OK);
    for (int32_t l = 0; l < peer.n_laws; l++) {
        peer.laws[l].sparse = true;
        peer.laws[l].least_blk_tok = 32;
        peer.laws[l].most_blk_tok = 64;
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (price(&arena, &peer, rows[r].text, 4096, &sim, &diag) != rows[r].status)
            fail_msg("%s: not status %d: %s", rows[r].text, rows[r].status, diag.msg);
    s2_arena_release(&arena);
    (void)state;
}

/* The designed launches of a pass as a table, each with the same time. */
static void design(s2_arena *arena, s2_pass pass, s2_launch_ask *asks, s2_table *table)
{
    s2_buf text = {0};
    s2_diag diag = {0};
    s2_launches_design(pass, asks);
    s2_launch_print_head(&text);
    for (int32_t r = 0; r < S2_LAUNCHES; r++)
        s2_launch_print_row(&asks[r], 1e8, &text);
    assert_int_equal(text.status, S2_OK);
    if (parse(arena, text.data, S2_N_PASSES, table, &diag) != S2_OK)
        fail_msg("line %d: %s", diag.line, diag.msg);
    assert_int_equal(table->n_rows, S2_LAUNCHES);
    s2_buf_release(&text);
}

/* Whatever is timed can be handed over, parsed, and fitted: both head dims, each kind, short ones first. */
static void designed_launches_are_rows_of_a_table(void **state)
{
    for (s2_pass pass = 0; pass < S2_N_PASSES; pass++) {
        s2_arena arena = {0};
        s2_launch_ask asks[S2_LAUNCHES];
        s2_table table;
        int32_t n_of_dim[2] = {0}, n_of_kind[S2_LAUNCH_KINDS] = {0}, n_turns = 1;
        design(&arena, pass, asks, &table);
        for (int32_t r = 0; r < S2_LAUNCHES; r++) {
            const s2_launch_ask *const ask = &asks[r];
            const double pairs =
                (double)ask->batch * ask->heads * (double)ask->q_tok * (double)(ask->n_tok + 7);
            assert_true(pairs / 8 <= S2_LIMIT_MASK_BYTES && ask->q_tok >= 1 && ask->q_tok <= ask->n_tok);
            assert_int_equal(ask->heads % ask->kv_heads, 0);
            n_of_dim[ask->head_dim == 64]++;
            n_of_kind[ask->kind]++;
            n_turns += r > 0 && ask->flop < asks[r - 1].flop;
        }
        assert_true(n_turns <= 4 && asks[1].flop < 1e-2 * asks[S2_LAUNCHES / 4 - 1].flop);
        assert_true(n_of_dim[0] >= S2_LAUNCHES / 3 && n_of_dim[1] >= S2_LAUNCHES / 3);
        for (int32_t k = 0; k < S2_LAUNCH_KINDS; k++)
            assert_true(n_of_kind[k] > 5);
        s2_arena_release(&arena);
    }
    (void)state;
}

/* A kernel that masks what it computes takes as long for a window as for all keys: its times say so. */
static void what_a_kernel_skips_shows_in_its_times(void **state)
{
    const s2_gpu gpu = gpu_of("h200");
    const double constant[S2_N_PEER_CONSTANTS] = {
        [S2_PEER_launch_us] = 6,    [S2_PEER_tile_us] = 1.2,      [S2_PEER_rows_us] = 2.1,
        [S2_PEER_step_us] = 2,      [S2_PEER_mask_times] = 1.5,   [S2_PEER_least_us] = 1,
        [S2_PEER_read_gb_s] = 3300, [S2_PEER_write_gb_s] = 20000, [S2_PEER_join_us] = 3,
        [S2_PEER_part_us_mb] = 0.1};
    for (s2_peer_skips skips = (s2_peer_skips)s2_test_first(S2_N_PEER_SKIPS); skips < S2_N_PEER_SKIPS;
         skips++) {
        const s2_peer_cut cut = {128, 128, S2_PACKS_NEVER, false, skips, .resident = 1};
        s2_arena arena = {0};
        s2_launch_ask asks[S2_LAUNCHES];
        s2_table table;
        s2_diag diag = {0};
        s2_buf text = {0};
        design(&arena, S2_PASS_FORWARD, asks, &table);
        for (int32_t r = 0; r < table.n_rows; r++) {
            s2_table_row *const row = &table.rows[r];
            const s2_peer_launch launch = {.classes = &row->classes,
                                           .layer = &row->classes.layers[0],
                                           .pass = row->pass,
                                           .is_dense = row->pattern == NULL,
                                           .q_tok = row->q_tok,
                                           .len_tok = row->n_tok,
                                           .batch = row->batch};
            s2_peer_work work;
            assert_int_equal(s2_peer_work_of(&arena, &launch, &cut, &gpu, &work), S2_OK);
            row->us = s2_peer_us(constant, &work, s2_peer_busy_us(constant, &work));
        }
        s2_table_leave_out(&table, 5, 3);
        s2_peer peer = fitted(&arena, &table), again;
        for (int32_t l = 0; l < peer.n_laws; l++)
            if (peer.laws[l].kernel.error_pct > 4 || peer.laws[l].cut.skips != skips)
                fail_msg("skips %d: found %d, %.2f %% off", (int)skips, (int)peer.laws[l].cut.skips,
                         peer.laws[l].kernel.error_pct);
        s2_peer_print(&peer, &text);
        assert_int_equal(s2_peer_parse(text.data, text.len, &again, &diag), S2_OK);
        for (int32_t l = 0; l < peer.n_laws; l++)
            assert_int_equal(again.laws[l].cut.skips, skips);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(designed_launches_are_rows_of_a_table),
        s2_long_test(what_a_kernel_skips_shows_in_its_times),
        s2_long_test(the_order_of_tiles_shows_in_their_times),
        cmocka_unit_test(steps_at_an_edge_ask_the_mask),
        cmocka_unit_test(rows_that_do_not_lie_together_are_copied),
        cmocka_unit_test(a_queue_ends_when_the_last_of_its_pieces_is_done),
        cmocka_unit_test(half_of_a_published_table_tells_the_other_half_within_eight_percent),
        s2_long_test(a_law_is_found_again_from_the_times_that_it_made),
        cmocka_unit_test(a_bad_row_is_named_with_its_line),
        cmocka_unit_test(rows_without_a_pass_are_not_guessed_at),
        cmocka_unit_test(a_table_reads_alike_however_it_is_separated),
        cmocka_unit_test(what_was_fitted_judges_nothing),
        cmocka_unit_test(times_in_nanoseconds_are_doubted),
        cmocka_unit_test(a_model_comes_back_from_its_file_and_a_changed_file_is_refused),
        cmocka_unit_test(a_model_prices_what_it_was_fitted_to_and_refuses_the_rest),
        cmocka_unit_test(rows_of_some_blocks_say_nothing_of_others),
        cmocka_unit_test(the_error_of_training_is_the_worse_of_both_passes),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
