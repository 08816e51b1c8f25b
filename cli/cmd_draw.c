#include "cli/commands.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hear.h"
#include "base/text.h"
#include "base/work.h"
#include "cli/front.h"
#include "cli/input.h"
#include "cli/needles.h"
#include "cli/reach_chart.h"
#include "draw/chart.h"
#include "export/files.h"
#include "draw/picture.h"
#include "sim/kv.h"
#include "words/holed.h"

typedef struct request {
    const char *what, *form, *output;
    s2_picture_of of;
    int32_t index;
    int64_t layer, n_tok, page_tok;
    s2_input input;
    s2_chart charts[S2_REACH_CHARTS]; /* for kv, pareto and reach */
    int32_t n_charts;
} request;

/* Whether the locale has UTF-8, which the half blocks of coloured pictures need. */
static bool takes_glyphs(void)
{
    const char *const before = setlocale(LC_CTYPE, "");
    return before != NULL && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* The form: by option, else by the output's file ending, else what the terminal can show. */
static const char *form_of(const s2_cli *cli, const s2_args *args, const char *what, const char *output)
{
    static const char *const endings[] = {".png", ".svg", ".dot"};
    const char *const stated = s2_args_str(args, "as");
    const char *const dot = output != NULL ? strrchr(output, '.') : NULL;
    for (size_t n = 0; stated == NULL && dot != NULL && n < sizeof endings / sizeof *endings; n++)
        if (strcmp(dot, endings[n]) == 0)
            return endings[n] + 1;
    if (stated != NULL)
        return stated;
    if (strcmp(what, "flow") == 0)
        return "dot";
    return output == NULL && s2_cli_takes_color(cli) && takes_glyphs() ? "ansi" : "ascii";
}

/* Without this, a file ending of an unsupported kind would silently get the terminal's form. */
static s2_exit check_ending(s2_cli *cli, const s2_args *args, const char *output)
{
    static const char *const others[] = {".gif", ".jpg", ".jpeg", ".pdf", ".webp", ".bmp", ".eps", ".ppm"};
    const char *const dot = output != NULL ? strrchr(output, '.') : NULL;
    for (size_t n = 0; dot != NULL && n < sizeof others / sizeof *others; n++)
        if (s2_args_str(args, "as") == NULL && strcmp(dot, others[n]) == 0) {
            s2_cli_error(cli, "%s: pictures are written as .png, .svg or .dot (--as)", output);
            return S2_EXIT_USAGE;
        }
    return S2_EXIT_OK;
}

/* "union", "kv:G" or a head; without a head the union, because it shows holes. */
static s2_exit read_head(s2_cli *cli, const s2_args *args, request *out)
{
    const char *const text = s2_args_str(args, "head");
    out->of = S2_PICTURE_UNION;
    if (text == NULL || strcmp(text, "union") == 0)
        return S2_EXIT_OK;
    const bool kv = strncmp(text, "kv:", 3) == 0;
    const int32_t n_heads = out->input.pattern.n_heads,
                  n_kv = s2_pattern_kv_heads(&out->input.pattern, (int32_t)out->layer);
    int64_t index;
    if (!s2_number_parse(kv ? text + 3 : text, &index) || index >= (kv ? n_kv : n_heads)) {
        s2_cli_error(cli, "--head %s: expected 0 to %d, kv:0 to kv:%d, or union", text, (int)n_heads - 1,
                     (int)n_kv - 1);
        return S2_EXIT_USAGE;
    }
    out->of = kv ? S2_PICTURE_KV : S2_PICTURE_HEAD;
    out->index = (int32_t)index;
    return S2_EXIT_OK;
}

/* Why there is no picture. */
static s2_exit fail(s2_cli *cli, const request *ask, s2_status status)
{
    if (status != S2_ELIMIT)
        return s2_cli_fail(cli, status, "draw");
    s2_cli_error(
        cli, "to look at what the heads read at %s takes more than " S2_WORK_WORDS "; a shorter --len%s",
        s2_count_text(ask->n_tok, "token").text,
        strcmp(ask->what, "mask") == 0 && ask->of == S2_PICTURE_UNION ? ", or one head (--head 0)" : "");
    return S2_EXIT_UNDECIDED;
}

static s2_exit draw_grid(s2_cli *cli, const request *ask, s2_buf *buf)
{
    enum { TERMINAL_CELLS = 78, IMAGE_CELLS = 128 };
    s2_picture picture;
    const bool text = strcmp(ask->form, "ansi") == 0 || strcmp(ask->form, "ascii") == 0;
    const int32_t max_cells = text ? TERMINAL_CELLS : IMAGE_CELLS;
    s2_status status = strcmp(ask->what, "shards") == 0
                           ? s2_picture_shards(&cli->arena, &ask->input.pattern, (int32_t)ask->layer,
                                               ask->n_tok, max_cells, &picture)
                           : s2_picture_mask(&cli->arena, &ask->input.pattern, ask->of, (int32_t)ask->layer,
                                             ask->index, ask->n_tok, max_cells, &picture);
    if (status == S2_OK && strcmp(ask->form, "png") == 0)
        status = s2_picture_png(&picture, buf);
    else if (status == S2_OK && strcmp(ask->form, "svg") == 0)
        status = s2_picture_svg(&picture, buf);
    else if (status == S2_OK && text)
        s2_picture_ansi(&picture, strcmp(ask->form, "ascii") == 0, buf);
    else if (status == S2_OK) {
        s2_cli_error(cli, "%s is drawn as ansi, ascii, png or svg", ask->what);
        return S2_EXIT_USAGE;
    }
    return status == S2_OK ? S2_EXIT_OK : fail(cli, ask, status);
}

static s2_status feed(int fd, const s2_buf *from)
{
    for (size_t done = 0; done < from->len;) {
        const ssize_t put = write(fd, from->data + done, from->len - done);
        if (put < 0 && errno != EINTR)
            return S2_EIO;
        done += put > 0 ? (size_t)put : 0;
    }
    return S2_OK;
}

/* In the child. */
static void become_dot(const char *form, int graph, int result, int words)
{
    char flag[16];
    snprintf(flag, sizeof flag, "-T%s", form);
    dup2(graph, STDIN_FILENO);
    dup2(result, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    execlp("dot", "dot", flag, (char *)NULL);
    _exit(127);
}

/* What somebody else's program drew is a picture of that form; in a text is nothing that a terminal would obey. */
static bool is_picture(const char *form, const s2_buf *drawn)
{
    static const char png[] = "\211PNG\r\n\032\n";
    if (drawn->status != S2_OK || drawn->len < sizeof png)
        return false;
    if (strcmp(form, "png") == 0)
        return memcmp(drawn->data, png, sizeof png - 1) == 0;
    return drawn->data[0] == '<' && !s2_text_is_hostile(drawn->data, drawn->len, "\n\t\r");
}

/* False: it writes more than a picture has. */
static bool read_picture(int from, s2_buf *out)
{
    enum { LIMIT_BYTES = 256 << 20 };
    char bytes[4096];
    ssize_t got;
    while ((got = read(from, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR)) {
        if (got > 0)
            s2_buf_add(out, bytes, (size_t)got);
        if (out->len > LIMIT_BYTES || out->status != S2_OK)
            return false;
    }
    return true;
}

/*
 * Run Graphviz as a program. Its input goes through an unlinked file: with a pipe, a child that writes before
 * it has read everything could deadlock with us.
 */
static s2_exit run_dot(s2_cli *cli, const char *form, s2_buf *graph, s2_buf *out)
{
    int result[2] = {-1, -1};
    s2_hear hear = {0};
    FILE *const source = tmpfile();
    if (source == NULL || feed(fileno(source), graph) != S2_OK || lseek(fileno(source), 0, SEEK_SET) != 0 ||
        pipe(result) != 0 || s2_hear_open(&hear, "dot", STDERR_FILENO) != S2_OK) {
        s2_cli_error(cli, "dot: %s", strerror(errno));
        return S2_EXIT_ENVIRONMENT;
    }
    const pid_t child = fork();
    if (child == 0) {
        close(result[0]);
        become_dot(form, fileno(source), result[1], hear.child);
    }
    close(result[1]);
    const bool whole = read_picture(result[0], out);
    close(result[0]);
    fclose(source);
    int ended = 1;
    while (child > 0 && waitpid(child, &ended, 0) < 0 && errno == EINTR)
        continue;
    s2_hear_close(&hear);
    const bool good = child > 0 && WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
    if (good && whole && is_picture(form, out))
        return S2_EXIT_OK;
    if (good) {
        s2_cli_error(cli, "dot: what it writes is no %s; is another program of that name on PATH?", form);
        return S2_EXIT_ENVIRONMENT;
    }
    s2_cli_error(cli, "the program dot (Graphviz) is needed for %s, and did not run", form);
    s2_cli_hint(cli, "apt-get install graphviz, or --as dot");
    return S2_EXIT_ENVIRONMENT;
}

static s2_exit draw_flow(s2_cli *cli, const request *ask, s2_buf *buf)
{
    s2_buf graph = {0};
    const s2_status status = s2_picture_flow_dot(&ask->input.pattern, ask->n_tok, &graph);
    s2_exit end = S2_EXIT_OK;
    if (status != S2_OK)
        end = fail(cli, ask, status);
    else if (strcmp(ask->form, "dot") == 0)
        s2_buf_add(buf, graph.data, graph.len);
    else if (strcmp(ask->form, "svg") == 0 || strcmp(ask->form, "png") == 0)
        end = run_dot(cli, ask->form, &graph, buf);
    else {
        s2_cli_error(cli, "flow is drawn as dot, svg or png");
        end = S2_EXIT_USAGE;
    }
    s2_buf_release(&graph);
    return end;
}

static s2_exit draw_chart(s2_cli *cli, const request *ask, s2_buf *buf)
{
    s2_status status = S2_OK;
    if (strcmp(ask->form, "svg") == 0)
        status = s2_chart_svg(ask->charts, ask->n_charts, buf);
    else if (strcmp(ask->form, "png") == 0)
        status = s2_chart_png(ask->charts, ask->n_charts, buf);
    else if (strcmp(ask->form, "dot") == 0) {
        s2_cli_error(cli, "%s is drawn as ansi, ascii, svg or png", ask->what);
        return S2_EXIT_USAGE;
    } else
        for (int32_t n = 0; n < ask->n_charts; n++) {
            s2_buf_puts(buf, n > 0 ? "\n" : "");
            s2_chart_text(&ask->charts[n], buf);
        }
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "draw");
}

/* ---- the KV cache over the context */

enum { KV_POINTS = 64, KV_CURVES = 5 };

/* One curve of bytes, in a unit that puts the largest value between 1 and a few thousand. */
typedef struct curve {
    const char *name;
    double values[KV_POINTS + 1];
} curve;

static s2_status kv_values(const s2_classes *classes, const request *ask, double *x, curve curves[KV_CURVES])
{
    for (int32_t point = 1; point <= KV_POINTS; point++) {
        const int64_t n_tok = ask->n_tok * point / KV_POINTS > 0 ? ask->n_tok * point / KV_POINTS : 1;
        s2_kv_elems elems;
        S2_TRY(s2_kv_count(classes, n_tok, (int32_t)ask->page_tok, &elems));
        s2_kv_bytes bytes;
        S2_TRY(s2_kv_elems_bytes(&elems, 2, 1, &bytes));
        const int64_t values[KV_CURVES] = {bytes.dense, bytes.shared_pages, bytes.head_pages,
                                           bytes.ring_stripes, bytes.used};
        x[point] = (double)n_tok;
        for (int c = 0; c < KV_CURVES; c++)
            curves[c].values[point] = (double)values[c];
    }
    return S2_OK;
}

/* Draw curves that coincide on the page as one series, with all their names. */
static bool same_line(const curve *a, const curve *b)
{
    for (int32_t point = 0; point <= KV_POINTS; point++)
        if (fabs(a->values[point] - b->values[point]) > 0.002 * a->values[KV_POINTS])
            return false;
    return true;
}

static s2_status add_curves(s2_cli *cli, const curve curves[KV_CURVES], const double *x, const char *unit,
                            s2_chart *chart)
{
    bool drawn[KV_CURVES] = {false};
    for (int c = 0; c < KV_CURVES; c++) {
        s2_buf name = {0};
        for (int other = c; !drawn[c] && other < KV_CURVES; other++)
            if (!drawn[other] && (other == c || same_line(&curves[c], &curves[other]))) {
                s2_buf_printf(&name, "%s%s", name.len != 0 ? ", " : "", curves[other].name);
                drawn[other] = other != c;
            }
        if (name.len == 0)
            continue;
        s2_buf_printf(&name, ": %s %s", s2_decimal(curves[c].values[KV_POINTS], 4).text, unit);
        const char *const words = s2_arena_strndup(&cli->arena, name.data, name.len);
        s2_buf_release(&name);
        if (words == NULL)
            return S2_ENOMEM;
        chart->series[chart->n_series] = (s2_chart_series){.name = words,
                                                           .colour = chart->n_series,
                                                           .dashed = chart->n_series % 2 == 1,
                                                           .n = KV_POINTS + 1,
                                                           .x = x,
                                                           .y = curves[c].values};
        chart->n_series++;
    }
    return S2_OK;
}

static s2_exit fill_kv(s2_cli *cli, request *ask)
{
    static const char *const names[KV_CURVES] = {"dense", "shared pages", "head pages", "ring + stripes",
                                                 "needed keys"};
    double *const x = S2_NEW(&cli->arena, double, KV_POINTS + 1);
    curve *const curves = S2_NEW(&cli->arena, curve, KV_CURVES);
    s2_classes classes;
    int64_t work_left = S2_WORK_STEPS;
    s2_status status = x != NULL && curves != NULL ? S2_OK : S2_ENOMEM;
    if (status == S2_OK)
        status = s2_classes_build(&cli->arena, &ask->input.pattern, S2_DECODE, &classes);
    if (status == S2_OK) {
        classes.work_left = &work_left;
        status = kv_values(&classes, ask, x, curves);
    }
    if (status != S2_OK)
        return fail(cli, ask, status);
    const bool large = curves[0].values[KV_POINTS] >= 0x1p30;
    s2_chart *const chart = &ask->charts[0];
    *chart = (s2_chart){.x_label = "context, tokens", .x_binary = true, .from_zero = true};
    snprintf(chart->title, sizeof chart->title, "%.200s: KV cache, bf16, pages of %lld",
             ask->input.pattern.name, (long long)ask->page_tok);
    snprintf(chart->y_label, sizeof chart->y_label, "held after that many tokens, %s", large ? "GiB" : "MiB");
    for (int c = 0; c < KV_CURVES; c++) {
        curves[c].name = names[c];
        for (int32_t point = 0; point <= KV_POINTS; point++)
            curves[c].values[point] /= large ? 0x1p30 : 0x1p20;
    }
    status = add_curves(cli, curves, x, large ? "GiB" : "MiB", chart);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "kv");
}

/* ---- the Pareto front */

enum { MOST_POINTS = 4000, MOST_LABELS = 16 };

/* A unit that leaves the largest value some thousands at most. */
typedef struct axis_unit {
    const char *name; /* "": none */
    double size;
} axis_unit;

static axis_unit unit_of(const s2_front_column *by, const s2_db_row *rows, int32_t n)
{
    static const axis_unit times[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}},
                           sizes[] = {{"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    const axis_unit *const units = by->quantity == S2_QUANTITY_TIME    ? times
                                   : by->quantity == S2_QUANTITY_BYTES ? sizes
                                                                       : NULL;
    double most = 0;
    int chosen = 0;
    if (units == NULL)
        return (axis_unit){"", 1};
    for (int32_t row = 0; row < n; row++)
        most = fmax(most, by->value(&rows[row]));
    while (chosen < 2 && most >= 10 * units[chosen + 1].size)
        chosen++;
    return units[chosen];
}

/* Designs that have both values, as points; if there are very many, only every nth. */
static s2_status points_of(s2_cli *cli, const s2_listing *l, const s2_front_spec *front,
                           const axis_unit units[2], bool named, s2_chart_series *out)
{
    const int32_t every = l->n_rows / MOST_POINTS + 1;
    double *const x = S2_NEW(&cli->arena, double, l->n_rows + 1), *const y = S2_NEW(&cli->arena, double,
                                                                                    l->n_rows + 1);
    const char **const labels = S2_NEW(&cli->arena, const char *, l->n_rows + 1);
    if (x == NULL || y == NULL || labels == NULL)
        return S2_ENOMEM;
    for (int32_t row = 0; row < l->n_rows; row += every) {
        x[out->n] = front->by[0]->value(&l->rows[row]) / units[0].size;
        y[out->n] = front->by[1]->value(&l->rows[row]) / units[1].size;
        labels[out->n] = named && l->n_rows <= MOST_LABELS ? l->rows[row].name : "";
        out->n += !isnan(x[out->n]) && !isnan(y[out->n]);
    }
    out->x = x;
    out->y = y;
    out->labels = labels;
    return S2_OK;
}

/* What an axis shows. A bound is not a prediction. */
static void name_axis(const s2_front_column *by, axis_unit unit, const char *kind, char *out, size_t cap)
{
    const bool bound = by->source == S2_FRONT_PRICED && by->quantity == S2_QUANTITY_TIME &&
                       strstr(kind, "priced=bound") != NULL;
    snprintf(out, cap, "%s%s%s (less is better)", bound ? "bound of time" : by->words,
             unit.name[0] != '\0' ? ", " : "", unit.name);
}

/* "Pareto front of us and kv_bytes, prefill of 8192 tokens, llm=llama-3.1-8b gpu=h200 batch=1". */
static void name_front(const s2_listing *l, const s2_front_spec *front, const char *kind, s2_chart *chart)
{
    s2_buf title = {0};
    s2_buf_printf(&title, "Pareto front of %s and %s", front->by[0]->name, front->by[1]->name);
    if (l->n_rows > 0 && l->rows[0].len_tok > 0)
        s2_buf_printf(&title, ", %.20s of %s, llm=%.80s %.300s", l->rows[0].phase,
                      s2_count_text(l->rows[0].len_tok, "token").text, l->rows[0].llm, kind);
    snprintf(chart->title, sizeof chart->title, "%s", title.status == S2_OK ? title.data : "");
    s2_buf_release(&title);
}

static s2_exit check_axes(s2_cli *cli, const s2_front_spec *front)
{
    if (front->n_by == 2)
        return S2_EXIT_OK;
    s2_cli_error(cli, "--minimize X,Y: a picture has two axes");
    return S2_EXIT_USAGE;
}

/* Rows that have both values; of very many only some are drawn. */
static int32_t count_with(const s2_listing *l, const s2_front_spec *front)
{
    int32_t n = 0;
    for (int32_t row = 0; row < l->n_rows; row++)
        n += !isnan(front->by[0]->value(&l->rows[row])) && !isnan(front->by[1]->value(&l->rows[row]));
    return n;
}

/* The legend. Designs with holes are told in the words of s2 pareto, and there is no room for all of them. */
static s2_exit name_series(const s2_listing *front, int32_t n_with, int32_t n_rows, s2_chart_series *all,
                           s2_chart_series *best)
{
    s2_cli *const cli = front->cli;
    const int32_t n_holed = s2_front_holed(front);
    s2_buf first = {0}, second = {0}, holed = {0};
    s2_buf_printf(&first, "%d of %d designs of the database have both values", (int)n_with, (int)n_rows);
    s2_buf_printf(&second, "front: %d that no other one beats%s", (int)front->n_rows,
                  n_holed > 0 ? "; " : "");
    s2_holed_label(n_holed, &second);
    s2_holed_print(n_holed, &holed);
    const bool whole = first.status == S2_OK && second.status == S2_OK && holed.status == S2_OK;
    all->name = whole ? s2_arena_strndup(&cli->arena, first.data, first.len) : NULL;
    best->name = whole ? s2_arena_strndup(&cli->arena, second.data, second.len) : NULL;
    if (whole && n_holed > 0)
        s2_cli_hint(cli, "%.*s", (int)holed.len, holed.data);
    s2_buf_release(&first);
    s2_buf_release(&second);
    s2_buf_release(&holed);
    return all->name != NULL && best->name != NULL ? S2_EXIT_OK : s2_cli_fail(cli, S2_ENOMEM, "front");
}

static s2_exit read_front(s2_cli *cli, const s2_args *args, s2_db *db, request *ask, s2_front_spec *front)
{
    s2_listing l = {.cli = cli};
    const char *kind;
    S2_CLI_TRY(s2_front_list(&l, args, front, db, &kind));
    S2_CLI_TRY(check_axes(cli, front));
    const int32_t n_rows = l.n_rows, n_with = count_with(&l, front);
    const axis_unit units[2] = {unit_of(front->by[0], l.rows, n_rows), unit_of(front->by[1], l.rows, n_rows)};
    s2_chart_series all = {.style = S2_CHART_POINTS, .colour = -1},
                    best = {.style = S2_CHART_STEPS, .colour = 2};
    s2_status status = points_of(cli, &l, front, units, false, &all);
    if (status == S2_OK)
        status = s2_front_leave(&l, front);
    if (status == S2_OK)
        status = points_of(cli, &l, front, units, true, &best);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "front (conditions leave fewer designs)");
    S2_CLI_TRY(name_series(&l, n_with, n_rows, &all, &best));
    s2_chart *const chart = &ask->charts[0];
    *chart = (s2_chart){.series = {all, best}, .n_series = 2};
    name_front(&l, front, kind, chart);
    name_axis(front->by[0], units[0], kind, chart->x_label, sizeof chart->x_label);
    name_axis(front->by[1], units[1], kind, chart->y_label, sizeof chart->y_label);
    return S2_EXIT_OK;
}

static s2_exit fill_pareto(s2_cli *cli, const s2_args *args, request *ask)
{
    s2_front_spec front = {0};
    s2_db *db;
    S2_CLI_TRY(s2_front_choose(cli, s2_args_str(args, "minimize"), &front));
    S2_CLI_TRY(check_axes(cli, &front));
    if (!s2_listing_has_database(cli))
        return S2_EXIT_ENVIRONMENT;
    S2_CLI_TRY(s2_store_open(cli, S2_DB_READ, &db));
    const s2_exit end = read_front(cli, args, db, ask, &front);
    s2_db_close(&db);
    return end;
}

static s2_exit deliver(s2_cli *cli, const request *ask, s2_buf *buf)
{
    return ask->output == NULL ? s2_cli_print(cli, buf) : s2_cli_save(cli, ask->output, buf);
}

static bool is_sparse(const s2_pattern *pattern, int32_t layer)
{
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, head)];
        const bool is_none = body->n_terms == 1 && body->terms[0].kind == S2_TERM_NONE;
        if (!is_none && !s2_body_is_dense(body))
            return true;
    }
    return false;
}

/* Dense layers all look alike, so show the first other layer; the picture says which one it is. */
static int32_t layer_to_show(const s2_pattern *pattern)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (is_sparse(pattern, layer))
            return layer;
    return 0;
}

static s2_exit read_pattern(s2_cli *cli, const s2_args *args, request *ask)
{
    if (args->n_operands != 1) {
        s2_cli_error(cli, "expected one PATTERN");
        return S2_EXIT_USAGE;
    }
    S2_CLI_TRY(s2_args_int(cli, args, "page", 1, 65536, &ask->page_tok));
    S2_CLI_TRY(s2_input_read(cli, args->operands[0], &ask->input));
    /* a written pattern may have no name but its file's; needles are stored by a hash that covers the name */
    if (strcmp(ask->what, "needles") != 0)
        ask->input.pattern.name = s2_input_name(cli, &ask->input);
    S2_CLI_TRY(s2_input_len(cli, args, &ask->input.pattern, &ask->n_tok));
    if (s2_args_has(args, "layer"))
        S2_CLI_TRY(s2_args_int(cli, args, "layer", 0, ask->input.pattern.n_layers - 1, &ask->layer));
    else
        ask->layer = layer_to_show(&ask->input.pattern);
    return read_head(cli, args, ask);
}

static s2_exit fill_reach(s2_cli *cli, const s2_args *args, request *ask)
{
    s2_measures *const measures = S2_NEW(&cli->arena, s2_measures, 1);
    if (measures == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "reach");
    S2_CLI_TRY(
        s2_reach_measure(cli, args->operands[0], &ask->input.pattern, S2_PREFILL, ask->n_tok, measures));
    const s2_status status =
        s2_reach_charts(&cli->arena, s2_input_name(cli, &ask->input), measures, ask->charts);
    ask->n_charts = S2_REACH_CHARTS;
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "reach");
}

/* An option that another picture has would be left undone in silence. */
static s2_exit check_options(s2_cli *cli, const s2_args *args, const char *what)
{
    static const struct {
        const char *option, *what, *or_what;
    } of[] = {{"layer", "mask", "shards"},  {"head", "mask", NULL},    {"page", "kv", NULL},
              {"minimize", "pareto", NULL}, {"phase", "pareto", NULL}, {"filter", "pareto", NULL}};
    for (size_t n = 0; n < sizeof of / sizeof *of; n++)
        if (s2_args_has(args, of[n].option) && strcmp(what, of[n].what) != 0 &&
            (of[n].or_what == NULL || strcmp(what, of[n].or_what) != 0)) {
            s2_cli_error(cli, "--%s cannot be combined with --what %s; it is one of --what %s%s%s",
                         of[n].option, what, of[n].what, of[n].or_what != NULL ? " and " : "",
                         of[n].or_what != NULL ? of[n].or_what : "");
            return S2_EXIT_USAGE;
        }
    return S2_EXIT_OK;
}

static s2_exit draw(s2_cli *cli, const s2_args *args, request *ask, s2_buf *buf)
{
    ask->what = s2_args_str(args, "what");
    ask->output = s2_args_str(args, "output");
    ask->form = form_of(cli, args, ask->what, ask->output);
    const bool pareto = strcmp(ask->what, "pareto") == 0, kv = strcmp(ask->what, "kv") == 0,
               reach = strcmp(ask->what, "reach") == 0;
    ask->n_charts = 1;
    S2_CLI_TRY(check_ending(cli, args, ask->output));
    S2_CLI_TRY(check_options(cli, args, ask->what));
    S2_CLI_TRY(pareto ? fill_pareto(cli, args, ask) : read_pattern(cli, args, ask));
    if (kv)
        S2_CLI_TRY(fill_kv(cli, ask));
    if (reach)
        S2_CLI_TRY(fill_reach(cli, args, ask));
    if (pareto || kv || reach)
        return draw_chart(cli, ask, buf);
    if (strcmp(ask->what, "needles") == 0)
        return s2_needles_draw(cli, &ask->input, ask->form, buf);
    return strcmp(ask->what, "flow") == 0 ? draw_flow(cli, ask, buf) : draw_grid(cli, ask, buf);
}

s2_exit s2_cmd_draw(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    request ask = {0};
    s2_buf buf = {0};
    S2_CLI_TRY(s2_args_parse(cli, "draw", argc, argv, &args));
    s2_exit end = draw(cli, &args, &ask, &buf);
    if (end == S2_EXIT_OK)
        end = deliver(cli, &ask, &buf);
    s2_buf_release(&buf);
    return end;
}
