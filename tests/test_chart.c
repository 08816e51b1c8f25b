/* Charts, pictures and what they are drawn on: every value on the page, every series told apart, nothing outside. */
#include "tests/s2test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "draw/chart.h"
#include "draw/picture.h"
#include "draw/surface.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "tests/s2gen.h"
#include "tests/s2parsed.h"

static s2_chart two_series(const double *x, const double *y, int32_t n)
{
    static const double corner_x[] = {1, 2, 4}, corner_y[] = {9, 5, 1};
    static const char *const labels[] = {"first", "second <b>", "third"};
    s2_chart chart = {.title = "a & b", .x_label = "time, us", .y_label = "KV cache, MiB", .n_series = 2};
    chart.series[0] =
        (s2_chart_series){.name = "all", .style = S2_CHART_POINTS, .colour = -1, .n = n, .x = x, .y = y};
    chart.series[1] = (s2_chart_series){.name = "front",
                                        .style = S2_CHART_STEPS,
                                        .colour = 2,
                                        .n = 3,
                                        .x = corner_x,
                                        .y = corner_y,
                                        .labels = labels};
    return chart;
}

static void every_series_label_and_unit_is_written(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4}, y[] = {9, 8, 7, 6};
    static const char *const words[] = {"a &amp; b", "time, us", "KV cache, MiB",    "all",
                                        "front",     "first",    "second &lt;b&gt;", "third"};
    const s2_chart chart = two_series(x, y, 4);
    s2_buf svg = {0};
    assert_int_equal(s2_chart_svg(&chart, 1, &svg), S2_OK);
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (strstr(svg.data, words[w]) == NULL)
            fail_msg("%s is not in the picture", words[w]);
    assert_null(strstr(svg.data, "nan"));
    assert_null(strstr(svg.data, "inf"));
    s2_buf_release(&svg);
}

/* Coordinates of an SVG's marks lie on the page, whatever the values. */
static void marks_stay_on_the_page_for_any_values(void **state)
{
    (void)state;
    static const double cases[][4] = {{1, 1, 1, 1},          {0, 0, 0, 0},
                                      {-5, 3, 8, 100},       {1e-9, 1, 1e9, 1e12},
                                      {5, 5.0000001, 5, 5},  {1e300, 2e300, 3e300, 1e299},
                                      {-1e9, -1e8, -1, -0.5}};
    for (size_t a = 0; a < sizeof cases / sizeof *cases; a++)
        for (size_t b = 0; b < sizeof cases / sizeof *cases; b++) {
            s2_chart chart = {.title = "t", .n_series = 1, .from_zero = b % 2 == 0, .x_binary = a % 2 == 0};
            s2_buf svg = {0}, png = {0}, text = {0};
            chart.series[0] = (s2_chart_series){
                .name = "s", .style = (s2_chart_style)(a % 3), .n = 4, .x = cases[a], .y = cases[b]};
            assert_int_equal(s2_chart_svg(&chart, 1, &svg), S2_OK);
            for (const char *at = strstr(svg.data, " d=\"M"); at != NULL; at = strstr(at + 1, " d=\"M")) {
                char *end;
                const double px = strtod(at + 5, &end), py = strtod(end, NULL);
                if (!(px >= 0 && px <= 800 && py >= 0 && py <= 800))
                    fail_msg("case %zu %zu: a mark at %g %g", a, b, px, py);
            }
            assert_int_equal(s2_chart_png(&chart, 1, &png), S2_OK);
            assert_memory_equal(png.data, "\x89PNG\r\n", 6);
            s2_chart_text(&chart, &text);
            assert_int_equal(text.status, S2_OK);
            s2_buf_release(&svg);
            s2_buf_release(&png);
            s2_buf_release(&text);
        }
}

/* ---- words on a page */

enum { MOST_WORDS = 600, LETTER = 8, LETTERS_HIGH = 13 };

/* The boxes of all words of an SVG, each letter as wide as in the widest usual fonts. */
typedef struct words {
    int n;
    int32_t x[MOST_WORDS], y[MOST_WORDS], width[MOST_WORDS];
    char text[MOST_WORDS][300];
} words;

static void add_text(char *out, size_t cap, const char *text)
{
    const size_t n = strlen(out);
    assert_true(n + strlen(text) < cap);
    memcpy(out + n, text, strlen(text) + 1);
}

static void put_letter(char *out, size_t cap, const char **at)
{
    static const char *const escapes[][2] = {{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}};
    for (size_t e = 0; e < sizeof escapes / sizeof *escapes; e++)
        if (strncmp(*at, escapes[e][0], strlen(escapes[e][0])) == 0) {
            add_text(out, cap, escapes[e][1]);
            *at += strlen(escapes[e][0]);
            return;
        }
    add_text(out, cap, (const char[]){**at, '\0'});
    (*at)++;
}

static void read_words(const char *svg, words *out)
{
    out->n = 0;
    for (const char *at = svg; (at = strstr(at, "<text x=\"")) != NULL; out->n++) {
        assert_true(out->n < MOST_WORDS);
        char *const text = out->text[out->n], *rest;
        const int32_t x = (int32_t)strtol(at + 9, &rest, 10);
        out->y[out->n] = (int32_t)strtol(rest + 5, &rest, 10);
        const bool middle = strncmp(rest, "\" text-anchor=\"middle\"", 22) == 0;
        const bool end = strncmp(rest, "\" text-anchor=\"end\"", 19) == 0;
        text[0] = '\0';
        for (at = strchr(rest, '>') + 1; *at != '<';)
            put_letter(text, sizeof out->text[0], &at);
        out->width[out->n] = LETTER * (int32_t)strlen(text);
        out->x[out->n] = middle ? x - out->width[out->n] / 2 : end ? x - out->width[out->n] : x;
    }
}

static void expect_room(const char *what, const char *svg)
{
    static words all;
    int width = 0, height = 0;
    assert_int_equal(sscanf(strstr(svg, "viewBox=\"0 0 "), "viewBox=\"0 0 %d %d", &width, &height), 2);
    read_words(svg, &all);
    for (int a = 0; a < all.n; a++) {
        if (all.x[a] < 0 || all.x[a] + all.width[a] > width || all.y[a] < 12 || all.y[a] > height)
            fail_msg("%s: '%s' crosses an edge of the page of %d x %d", what, all.text[a], width, height);
        for (int b = 0; b < a; b++)
            if (all.x[a] < all.x[b] + all.width[b] && all.x[b] < all.x[a] + all.width[a] &&
                abs(all.y[a] - all.y[b]) < LETTERS_HIGH)
                fail_msg("%s: '%s' lies over '%s'", what, all.text[a], all.text[b]);
    }
}

/* The part of a text that is not on the lines from the nth words on. */
static const char *missing(const words *all, int nth, const char *text)
{
    for (; nth < all->n && *text != '\0'; nth++) {
        const size_t length = strlen(all->text[nth]);
        if (length == 0 || strncmp(text, all->text[nth], length) != 0)
            return text;
        text += length + (text[length] == ' ');
    }
    return text;
}

/* All of a text is on the page, line after line. */
static void expect_whole(const char *svg, const char *text)
{
    static words all;
    read_words(svg, &all);
    for (int nth = 0; nth < all.n; nth++)
        if (*missing(&all, nth, text) == '\0')
            return;
    fail_msg("'%s' is not all on the page", text);
}

static const char *random_text(s2_rng *rng, size_t most, char *out)
{
    const size_t n = 1 + s2_rng_below(rng, most);
    for (size_t at = 0; at < n; at++)
        out[at] = at > 0 && out[at - 1] != ' ' && at + 1 < n && s2_rng_below(rng, 9) == 0
                      ? ' '
                      : "abcxyzMWQ0189-._<&"[s2_rng_below(rng, 18)];
    out[n] = '\0';
    return out;
}

static double random_value(s2_rng *rng, int32_t decades)
{
    const double digits = 1 + (double)s2_rng_below(rng, 9000) / 1000;
    return digits * pow(10, (double)s2_rng_below(rng, (uint64_t)decades + 1) - decades / 2);
}

/* A chart with random axes, names and points. */
typedef struct random_chart {
    s2_chart chart;
    double x[3][12], y[3][12];
    char text[3][12][64], names[3][400], ticks[16][12];
    const char *labels[3][12], *tick[16];
} random_chart;

static void draw_random(s2_rng *rng, random_chart *out)
{
    const int32_t decades_x = (int32_t)s2_rng_below(rng, 12), decades_y = (int32_t)s2_rng_below(rng, 12);
    memset(out, 0, sizeof *out);
    out->chart = (s2_chart){.n_series = 1 + (int32_t)s2_rng_below(rng, 3),
                            .x_binary = s2_rng_below(rng, 4) == 0,
                            .x_whole = s2_rng_below(rng, 4) == 0,
                            .from_zero = s2_rng_below(rng, 2) == 0};
    random_text(rng, 400, out->chart.title);
    random_text(rng, 90, out->chart.x_label);
    random_text(rng, 90, out->chart.y_label);
    for (int32_t s = 0; s < out->chart.n_series; s++) {
        const int32_t n = (int32_t)s2_rng_below(rng, 13);
        for (int32_t at = 0; at < n; at++) {
            out->x[s][at] = random_value(rng, decades_x);
            out->y[s][at] = random_value(rng, decades_y);
            out->labels[s][at] = random_text(rng, 60, out->text[s][at]);
        }
        out->chart.series[s] = (s2_chart_series){.name = random_text(rng, 300, out->names[s]),
                                                 .style = (s2_chart_style)s2_rng_below(rng, 3),
                                                 .colour = s,
                                                 .n = n,
                                                 .x = out->x[s],
                                                 .y = out->y[s],
                                                 .labels = out->labels[s]};
    }
    for (int32_t at = 0; at < 16; at++)
        out->tick[at] = random_text(rng, 10, out->ticks[at]);
    if (s2_rng_below(rng, 4) == 0) {
        out->chart.x_names = out->tick;
        out->chart.n_x_names = 1 + (int32_t)s2_rng_below(rng, 16);
    }
}

static void no_words_of_a_chart_overlap_and_none_are_cut(void **state)
{
    (void)state;
    static random_chart drawn[2];
    s2_rng rng = {s2_test_seed(18)};
    const int64_t n_cases = s2_test_cases(100);
    for (int64_t c = 0; c < n_cases; c++) {
        s2_buf svg = {0};
        draw_random(&rng, &drawn[0]);
        draw_random(&rng, &drawn[1]);
        const s2_chart charts[2] = {drawn[0].chart, drawn[1].chart};
        assert_int_equal(s2_chart_svg(charts, 2, &svg), S2_OK);
        expect_room(charts[0].title, svg.data);
        for (int n = 0; n < 2; n++) {
            expect_whole(svg.data, charts[n].title);
            expect_whole(svg.data, charts[n].x_label);
            expect_whole(svg.data, charts[n].y_label);
            for (int32_t s = 0; s < charts[n].n_series; s++)
                expect_whole(svg.data, charts[n].series[s].name);
        }
        s2_buf_release(&svg);
    }
}

static void an_empty_chart_says_so(void **state)
{
    (void)state;
    const s2_chart chart = {.title = "nothing"};
    s2_buf svg = {0}, text = {0};
    assert_int_equal(s2_chart_svg(&chart, 1, &svg), S2_OK);
    assert_non_null(strstr(svg.data, "nothing to show"));
    s2_chart_text(&chart, &text);
    assert_non_null(strstr(text.data, "nothing to show"));
    s2_buf_release(&svg);
    s2_buf_release(&text);
}

static void text_charts_put_each_point_where_it_belongs(void **state)
{
    (void)state;
    static const double x[] = {0, 8192}, y[] = {0, 4};
    s2_chart chart = {.title = "t", .x_label = "tokens", .y_label = "MiB", .n_series = 1, .x_binary = true};
    chart.series[0] = (s2_chart_series){.name = "s", .style = S2_CHART_LINE, .n = 2, .x = x, .y = y};
    s2_buf text = {0};
    s2_chart_text(&chart, &text);
    const char *const top = strstr(text.data, "         4 |"), *const bottom =
                                                                   strstr(text.data, "         0 |");
    assert_true(top != NULL && bottom != NULL && top < bottom);
    assert_int_equal(bottom[12], 'o');
    assert_int_equal(top[12], ' ');
    assert_int_equal(strchr(top, '\n')[-1], 'o');
    s2_buf_release(&text);
}

static void a_line_has_gaps_where_it_has_no_value_and_ticks_have_their_names(void **state)
{
    (void)state;
    static const double x[] = {0, 1, 2, 3}, y[] = {1, 2, NAN, 4};
    static const char *const names[] = {"zero", "<one>", "two", "three"};
    static const double one_layer = 10;
    s2_chart charts[3] = {{.title = "t", .n_series = 1, .x_names = names, .n_x_names = 4},
                          {.title = "u", .n_series = 1, .x_whole = true},
                          {.title = "v", .n_series = 1, .x_whole = true}};
    for (int n = 0; n < 2; n++)
        charts[n].series[0] = (s2_chart_series){.name = "s", .style = S2_CHART_LINE, .n = 4, .x = x, .y = y};
    charts[2].series[0] =
        (s2_chart_series){.name = "s", .style = S2_CHART_LINE, .n = 1, .x = x, .y = &one_layer};
    s2_buf svg = {0}, text = {0};
    assert_int_equal(s2_chart_svg(charts, 3, &svg), S2_OK);
    int n_curves = 0, n_halves = 0;
    for (const char *at = svg.data; (at = strstr(at, "fill=\"none\"")) != NULL; at++)
        n_curves++;
    for (const char *at = svg.data; (at = strstr(at, ".5</text>")) != NULL; at++)
        n_halves++;
    assert_int_equal(n_curves, 2);
    assert_int_equal(n_halves, 0);
    assert_null(strstr(svg.data, "nan"));
    assert_non_null(strstr(svg.data, "&lt;one&gt;"));
    assert_non_null(strstr(svg.data, ">three<"));
    s2_chart_text(&charts[0], &text);
    assert_non_null(strstr(text.data, "zero"));
    assert_non_null(strstr(text.data, "three\n"));
    s2_buf_release(&svg);
    s2_buf_release(&text);
}

/* Each letter of the font differs from all others, and those that names use are all there. */
static void letters_of_the_font_differ(void **state)
{
    (void)state;
    static const char used[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.,:;/%()+=<>|_*#";
    for (size_t a = 0; used[a] != '\0'; a++) {
        const uint8_t *const first = s2_font_bits((unsigned char)used[a]);
        static const uint8_t blank[S2_FONT_ROWS];
        assert_true(memcmp(first, blank, sizeof blank) != 0);
        for (size_t b = 0; b < a; b++)
            if (memcmp(first, s2_font_bits((unsigned char)used[b]), S2_FONT_ROWS) == 0)
                fail_msg("%c and %c look the same", used[a], used[b]);
    }
}

/* Of letters that the font lacks, wide ones too, each stands in its own place: names in them are no blanks. */
static void every_letter_leaves_its_mark(void **state)
{
    (void)state;
    enum { WIDTH = 400, HEIGHT = 30 };
    static const char text[] = "a\xc3\xa9z\xe5\x90\x8d\xe5\x89\x8d\xf0\x9f\x98\x80!";
    s2_buf png = {0};
    s2_surface to;
    assert_int_equal(s2_surface_open(&to, true, WIDTH, HEIGHT, &png), S2_OK);
    s2_surface_words(&to, 0, 5, S2_ANCHOR_BEGIN, text);
    int32_t x = 0;
    for (size_t byte = 0; text[byte] != '\0'; byte += s2_utf8_len(text + byte, sizeof text - byte)) {
        char letter[8];
        const size_t n = s2_utf8_len(text + byte, sizeof text - byte);
        snprintf(letter, sizeof letter, "%.*s", (int)n, text + byte);
        const int32_t end = x + s2_surface_words_width(&to, letter);
        bool marked = false;
        for (int32_t row = 0; row < HEIGHT; row++)
            for (int32_t col = x; col < end; col++)
                marked |= to.pixels[3 * (row * WIDTH + col)] == 0;
        if (!marked)
            fail_msg("nothing is drawn for %s", letter);
        x = end;
    }
    assert_int_equal(x, s2_surface_words_width(&to, text));
    assert_int_equal(s2_surface_close(&to), S2_OK);
    s2_buf_release(&png);
}

/* What is drawn across an edge is cut there. */
static void drawing_outside_is_cut(void **state)
{
    (void)state;
    s2_buf png = {0};
    s2_surface to;
    assert_int_equal(s2_surface_open(&to, true, 20, 10, &png), S2_OK);
    s2_surface_box(&to, -5, -5, 100, 100, s2_colours[1]);
    s2_surface_line(&to, -50, -20, 70, 30, 5, 0, s2_ink);
    s2_surface_mark(&to, 20, 10, 12, S2_SHAPE_DIAMOND, s2_ink);
    s2_surface_words(&to, 15, 5, S2_ANCHOR_MIDDLE, "words that are longer than the page \x01\xff");
    assert_int_equal(s2_surface_close(&to), S2_OK);
    s2_buf_release(&png);
}

static void a_failed_allocation_is_out_of_memory(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4}, y[] = {9, 8, 7, 6};
    const s2_chart chart = two_series(x, y, 4);
    s2_status status = S2_ENOMEM;
    for (int64_t n = 1; status != S2_OK && n < 200; n++) {
        int64_t left = n - 1;
        s2_buf buf = {0};
        s2_alloc_set_hook(s2_test_fail_one, &left);
        status = n % 2 == 0 ? s2_chart_png(&chart, 1, &buf) : s2_chart_svg(&chart, 1, &buf);
        s2_alloc_set_hook(NULL, NULL);
        assert_int_equal(status, left >= 0 ? S2_OK : S2_ENOMEM);
        s2_buf_release(&buf);
    }
    assert_int_equal(status, S2_OK);
}

/* ---- pictures */

/* One unread block in 128 x 128 stays visible at every size of picture, down to one cell. */
static void one_hole_is_visible_at_every_size(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "heads 2; heads 0: columns 0-40,42-127; heads 1: columns 41 "
                                                 "when query ..99 | columns 41 when query 100..");
    for (int32_t cells = 1; cells <= 128; cells *= 2) {
        s2_picture picture;
        int32_t n_holes = 0;
        assert_int_equal(s2_picture_mask(&arena, &pattern, S2_PICTURE_UNION, 0, 0, 8192, cells, &picture),
                         S2_OK);
        for (int32_t cell = 0; cell < picture.n_rows * picture.n_cols; cell++)
            n_holes += picture.cells[cell].hole;
        assert_int_equal(n_holes, 1);
        assert_int_equal(picture.n_holes, 64);
    }
    s2_arena_release(&arena);
}

/* In cells of whole blocks, or of parts of them where reads end within a block and there is room. */
static void cells_show_the_share_of_pairs_read(void **state)
{
    (void)state;
    enum { N_TOK = 50, BLOCK = 4, N_CASES = 40 };
    s2_gen gen = {.rng = {s2_test_seed(99)}, .causal = true};
    bool seen[BLOCK + 1] = {false};
    for (int c = 0; c < N_CASES; c++) {
        s2_arena arena = {0};
        const s2_pattern *const pattern = s2_gen_pattern(&gen, &arena, 2, 1, 16, BLOCK);
        const int32_t most = 13 * (1 + c % 4);
        s2_picture picture;
        assert_int_equal(s2_picture_mask(&arena, pattern, S2_PICTURE_HEAD, 0, 1, N_TOK, most, &picture),
                         S2_OK);
        const int64_t size = picture.col_tok;
        assert_true(size <= BLOCK && picture.n_cols <= most && picture.row_tok == size);
        seen[size] = true;
        for (int32_t row = 0; row < picture.n_rows; row++)
            for (int32_t col = 0; col < row; col++) {
                int64_t n_read = 0, n_pairs = 0;
                for (int64_t q = row * size; q < (row + 1) * size && q < N_TOK; q++)
                    for (int64_t k = col * size; k < (col + 1) * size; k++, n_pairs++)
                        n_read += s2_pattern_reads(pattern, S2_PREFILL, 0, 1, N_TOK, q, k);
                s2_assert_close(picture.cells[row * picture.n_cols + col].share,
                                (double)n_read / (double)n_pairs, 1e-6);
            }
        s2_arena_release(&arena);
    }
    assert_true(seen[1] && seen[2] && seen[BLOCK]);
}

static void no_words_of_a_picture_overlap_and_none_are_cut(void **state)
{
    (void)state;
    s2_gen gen = {.rng = {s2_test_seed(77)}, .causal = true};
    const int64_t n_cases = s2_test_cases(30);
    for (int64_t c = 0; c < n_cases; c++) {
        s2_arena arena = {0};
        static const int64_t lengths[] = {1, 5, 16, 100, 999, 4000};
        char name[200];
        s2_pattern pattern = *s2_gen_pattern(&gen, &arena, 4, 2, 16, 4);
        pattern.name = random_text(&gen.rng, 190, name);
        const int64_t n_tok = lengths[s2_rng_below(&gen.rng, 6)];
        const int32_t cells = 1 + (int32_t)s2_rng_below(&gen.rng, 128);
        for (int what = 0; what < 3; what++) {
            s2_picture picture;
            s2_buf svg = {0};
            assert_int_equal(what == 2 ? s2_picture_shards(&arena, &pattern, 0, n_tok, cells, &picture)
                                       : s2_picture_mask(&arena, &pattern,
                                                         what == 0 ? S2_PICTURE_UNION : S2_PICTURE_KV, 0, 0,
                                                         n_tok, cells, &picture),
                             S2_OK);
            assert_int_equal(s2_picture_svg(&picture, &svg), S2_OK);
            expect_room(picture.title, svg.data);
            expect_whole(svg.data, picture.title);
            char end[32];
            snprintf(end, sizeof end, ">%lld</text>", (long long)n_tok);
            if (strstr(svg.data, end) ==
                NULL) /* a context that ends inside a cell ends there on the axis too */
                fail_msg("no tick names the end of %lld tokens, %s", (long long)n_tok, picture.title);
            s2_buf_release(&svg);
        }
        s2_arena_release(&arena);
    }
}

static void pictures_are_written_in_every_form(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(
        &arena, "name a&b; layers 2; heads 4; kv-heads 2; layers all: local 2 | stride 3 phase head");
    s2_picture picture;
    s2_buf png = {0}, svg = {0}, ansi = {0}, ascii = {0}, dot = {0};
    assert_int_equal(s2_picture_mask(&arena, &pattern, S2_PICTURE_UNION, 0, 0, 1024, 16, &picture), S2_OK);
    assert_int_equal(s2_picture_png(&picture, &png), S2_OK);
    assert_memory_equal(png.data, "\x89PNG\r\n", 6);
    assert_int_equal(s2_picture_svg(&picture, &svg), S2_OK);
    assert_non_null(strstr(svg.data, "</svg>"));
    s2_picture_ansi(&picture, false, &ansi);
    assert_non_null(strstr(ansi.data, "\x1b[0m"));
    s2_picture_ansi(&picture, true, &ascii);
    assert_null(strchr(ascii.data, '\x1b'));
    assert_int_equal(s2_picture_flow_dot(&pattern, 1024, &dot), S2_OK);
    assert_non_null(strstr(dot.data, "digraph"));
    s2_buf *const all[] = {&png, &svg, &ansi, &ascii, &dot};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++)
        s2_buf_release(all[n]);
    s2_arena_release(&arena);
}

/* A length is named by all of its digits: 1048580 is not 1048576. */
static void ticks_of_a_length_name_it_whole(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(11)};
    for (int n = 0; n < 200; n++) {
        const int64_t len = 4 * (1 + (int64_t)s2_rng_below(&rng, 1 << (2 + n % 21)));
        const double x[] = {0, (double)len}, y[] = {0, 1};
        s2_chart chart = {.title = "t", .n_series = 1, .x_binary = true};
        chart.series[0] = (s2_chart_series){.name = "s", .style = S2_CHART_LINE, .n = 2, .x = x, .y = y};
        s2_buf svg = {0};
        assert_int_equal(s2_chart_svg(&chart, 1, &svg), S2_OK);
        for (int quarter = 1; quarter <= 4; quarter++) {
            char tick[32];
            snprintf(tick, sizeof tick, ">%lld</text>", (long long)(len / 4 * quarter));
            if (strstr(svg.data, tick) == NULL)
                fail_msg("%lld tokens: no tick reads %s", (long long)len, tick);
        }
        s2_buf_release(&svg);
    }
}

/* What is chosen at run time or carried by a state may arrive: only where neither is, a picture says that it does not. */
static void pictures_deny_only_what_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool chosen, carried, cut;
    } cases[] = {{"heads 4; layers all: local 2", false, false, false},
                 {"heads 4; layers 9; layers all: local 2", false, false, true},
                 {"heads 4; layers all: pages 4 page 64", true, false, false},
                 {"heads 4; layers all: heavy 64", true, false, false},
                 {"heads 4; layers 5; layers all: local 2 | topk 64", true, false, true},
                 {"heads 4; heads 0-2: local 2; heads 3: topk 64", true, false, false},
                 {"heads 4; layers 3; layers 0,2: local 2; layers 1: state 2m", false, true, false},
                 {"heads 4; layers 3; layers 0,2: topk 9; layers 1: state 2m", true, true, false}};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        s2_arena arena = {0};
        s2_buf svg = {0}, ascii = {0}, dot = {0};
        s2_picture picture;
        const s2_pattern pattern = s2_parsed(&arena, cases[n].text);
        const bool chosen = cases[n].chosen, carried = cases[n].carried;
        assert_int_equal(s2_picture_mask(&arena, &pattern, S2_PICTURE_UNION, 0, 0, 1024, 16, &picture),
                         S2_OK);
        assert_true(picture.n_holes > 0);
        assert_int_equal(s2_picture_svg(&picture, &svg), S2_OK);
        s2_picture_ansi(&picture, true, &ascii);
        assert_int_equal(s2_picture_shards(&arena, &pattern, 0, 1024, 16, &picture), S2_OK);
        assert_int_equal(s2_picture_svg(&picture, &svg), S2_OK);
        assert_int_equal(s2_picture_flow_dot(&pattern, 8192, &dot), S2_OK);
        assert_int_equal(strstr(svg.data, "is read by no head") == NULL, chosen);
        assert_int_equal(strstr(ascii.data, "X: pairs that no head reads") == NULL, chosen);
        assert_int_equal(strstr(ascii.data, "chosen at run time") != NULL, chosen);
        assert_int_equal(strstr(dot.data, "chosen at run time") != NULL, chosen);
        assert_int_equal(strstr(dot.data, "keep a state") != NULL, carried);
        assert_int_equal(strstr(dot.data, "no fewer than") == NULL &&
                             strstr(dot.data, "does not reach") == NULL,
                         chosen || carried);
        assert_int_equal(strstr(dot.data, "layers are drawn") != NULL, cases[n].cut);
        s2_buf_release(&svg);
        s2_buf_release(&ascii);
        s2_buf_release(&dot);
        s2_arena_release(&arena);
    }
}

static void flow_goes_back_where_a_pattern_is_not_causal(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_buf dot = {0};
    const s2_pattern pattern = s2_parsed(&arena, "heads 1; layers 1; causal no; layers all: dense");
    assert_int_equal(s2_picture_flow_dot(&pattern, 4096, &dot), S2_OK);
    assert_non_null(strstr(dot.data, "n0_7 -> n1_0;"));
    assert_non_null(strstr(dot.data, "n0_0 -> n1_7 [penwidth"));
    s2_buf_release(&dot);
    s2_arena_release(&arena);
}

/* Graphviz swaps neighbours where most edges lean to one side: nothing but an edge between them holds them. */
static void parts_of_a_flow_are_held_in_order(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_buf dot = {0};
    const s2_pattern pattern =
        s2_parsed(&arena, "heads 2; layers 6; layers all: local 1024t; heads 0: local 4096t");
    assert_int_equal(s2_picture_flow_dot(&pattern, 8192, &dot), S2_OK);
    for (int layer = 0; layer <= 4; layer++) {
        s2_buf row = {0};
        s2_buf_printf(&row, "l%d", layer);
        for (int part = 0; part < 8; part++)
            s2_buf_printf(&row, " -> n%d_%d", layer, part);
        s2_buf_puts(&row, " [style=invis];");
        assert_non_null(strstr(dot.data, row.data));
        s2_buf_release(&row);
    }
    s2_buf_release(&dot);
    s2_arena_release(&arena);
}

/* So many heads that views need more than one piece of memory. */
static void a_failed_allocation_leaves_no_picture(void **state)
{
    (void)state;
    s2_arena text = {0};
    const s2_pattern pattern =
        s2_parsed(&text, "heads 256; block 16; layers all: local 2 | stride 64 phase head");
    for (int what = 0; what < 3; what++) {
        s2_status status = S2_ENOMEM;
        for (int64_t n = 1; status != S2_OK && n < 2000; n++) {
            int64_t left = n - 1;
            s2_arena arena = {0};
            s2_buf buf = {0};
            s2_picture picture;
            s2_alloc_set_hook(s2_test_fail_one, &left);
            status = what == 0 ? s2_picture_shards(&arena, &pattern, 0, 1024, 8, &picture)
                     : what == 1
                         ? s2_picture_mask(&arena, &pattern, S2_PICTURE_UNION, 0, 0, 1024, 8, &picture)
                         : s2_picture_flow_dot(&pattern, 1024, &buf);
            s2_alloc_set_hook(NULL, NULL);
            assert_int_equal(status, left >= 0 ? S2_OK : S2_ENOMEM);
            s2_buf_release(&buf);
            s2_arena_release(&arena);
        }
        assert_int_equal(status, S2_OK);
    }
    s2_arena_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_series_label_and_unit_is_written),
        cmocka_unit_test(marks_stay_on_the_page_for_any_values),
        cmocka_unit_test(no_words_of_a_chart_overlap_and_none_are_cut),
        cmocka_unit_test(an_empty_chart_says_so),
        cmocka_unit_test(text_charts_put_each_point_where_it_belongs),
        cmocka_unit_test(a_line_has_gaps_where_it_has_no_value_and_ticks_have_their_names),
        cmocka_unit_test(letters_of_the_font_differ),
        cmocka_unit_test(every_letter_leaves_its_mark),
        cmocka_unit_test(drawing_outside_is_cut),
        cmocka_unit_test(a_failed_allocation_is_out_of_memory),
        cmocka_unit_test(one_hole_is_visible_at_every_size),
        cmocka_unit_test(cells_show_the_share_of_pairs_read),
        cmocka_unit_test(no_words_of_a_picture_overlap_and_none_are_cut),
        cmocka_unit_test(pictures_are_written_in_every_form),
        cmocka_unit_test(ticks_of_a_length_name_it_whole),
        cmocka_unit_test(pictures_deny_only_what_is_known),
        cmocka_unit_test(flow_goes_back_where_a_pattern_is_not_causal),
        cmocka_unit_test(parts_of_a_flow_are_held_in_order),
        cmocka_unit_test(a_failed_allocation_leaves_no_picture),
    };
    return cmocka_run_group_tests_name("chart", tests, NULL, NULL);
}
