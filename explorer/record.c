/* Turns a design's stored results, the runs and their output into lines for the screen. */
#include "base/arith.h"
#include "explorer/internal.h"
#include "explorer/result.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

enum { LINES = 4096, RESULTS = 400, NEEDLES = 16, SAVED_VIEWS = 64 };

/* Lines under construction. */
typedef struct lines {
    s2_arena *arena;
    s2_tui_line *line; /* LINES of them */
    int32_t n;
} lines;

static lines begin(s2_arena *arena)
{
    s2_arena_release(arena);
    return (lines){arena, S2_NEW(arena, s2_tui_line, LINES), 0};
}

static void add(lines *to, s2_tui_line_kind kind, const char *text, size_t n)
{
    const char *const kept = to->line != NULL && to->n < LINES ? s2_arena_strndup(to->arena, text, n) : NULL;
    if (kept != NULL)
        to->line[to->n++] = (s2_tui_line){kind, kept};
}

static void addf(lines *to, s2_tui_line_kind kind, const char *fmt, ...) S2_PRINTF(3, 4);
static void addf(lines *to, s2_tui_line_kind kind, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add(to, kind, text, strlen(text));
}

static s2_tui_text end(const lines *from)
{
    return (s2_tui_text){from->n, from->line};
}

s2_tui_text s2_explorer_lines(s2_arena *arena, const s2_buf *text)
{
    lines out = begin(arena);
    const char *rest = text->data;
    const char *const stop = rest != NULL ? rest + text->len : NULL;
    while (rest != NULL && rest < stop) {
        const char *const newline = memchr(rest, '\n', (size_t)(stop - rest));
        const char *const line_end = newline != NULL ? newline : stop;
        add(&out, S2_LINE_TEXT, rest, (size_t)(line_end - rest));
        rest = line_end + 1;
    }
    return end(&out);
}

static const char *when(s2_arena *arena, int64_t unix_us)
{
    char text[32] = "";
    const time_t seconds = (time_t)(unix_us / 1000000);
    struct tm t;
    if (localtime_r(&seconds, &t) != NULL)
        strftime(text, sizeof text, "%m-%d %H:%M", &t);
    const char *const kept = s2_arena_strndup(arena, text, strlen(text));
    return kept != NULL ? kept : "";
}

/* ---- what is stored */

static void add_needles(s2_explorer *e, lines *to, int64_t validation_id)
{
    s2_db_needle rows[NEEDLES];
    int32_t n = 0;
    s2_arena scratch = {0};
    s2_diag diag = {0};
    if (s2_db_needles(e->db, &scratch, validation_id, NEEDLES, rows, &n, &diag) == S2_OK && n > 0) {
        addf(to, S2_LINE_DIM, "%s", "         needles, depth 0 to 100 %");
        for (int32_t at = 0; at < n; at++)
            addf(to, S2_LINE_NEEDLES, "%lld|%.40s", (long long)rows[at].len_tok, rows[at].cells);
        addf(to, S2_LINE_DIM, "%s", "         # back  . read by no head  ! lost  ? leaked");
    }
    s2_arena_release(&scratch);
}

static s2_tui_line_kind kind_of(const s2_db_result *result)
{
    return result->verdict == S2_DB_HOLDS      ? S2_LINE_GOOD
           : result->verdict == S2_DB_VIOLATED ? S2_LINE_BAD
           : result->verdict == S2_DB_UNKNOWN  ? S2_LINE_UNSURE
                                               : S2_LINE_TEXT;
}

static void add_result(s2_explorer *e, lines *to, const s2_db_result *result)
{
    static const char marks[] = {' ', '+', 'x', '?'};
    const s2_tui_line_kind kind = kind_of(result);
    const char mark = kind == S2_LINE_GOOD     ? marks[1]
                      : kind == S2_LINE_BAD    ? marks[2]
                      : kind == S2_LINE_UNSURE ? marks[3]
                                               : marks[0];
    s2_buf found = {0};
    s2_result_print(result, &found);
    addf(to, kind, "%c %s  %.*s   %s", mark, s2_result_word(result), (int)s2_min_size(found.len, 900),
         found.data != NULL ? found.data : "", when(to->arena, result->at_us));
    s2_buf_release(&found);
    if (result->kind == S2_DB_KIND_VALIDATION)
        add_needles(e, to, result->id);
}

static void add_results(s2_explorer *e, lines *to, bool of_run, int64_t id)
{
    static const char *const heads[S2_DB_N_KINDS] = {"notes",       "validations", "checks",
                                                     "predictions", "reach",       "exports"};
    s2_arena scratch = {0};
    s2_db_result *const results = S2_NEW(&scratch, s2_db_result, RESULTS);
    int32_t n = 0;
    s2_diag diag = {0};
    int kind = -1;
    if (results == NULL || s2_db_results(e->db, &scratch, of_run, id, RESULTS, results, &n, &diag) != S2_OK)
        addf(to, S2_LINE_BAD, "%s", diag.msg);
    for (int32_t r = 0; r < n; r++) {
        if ((int)results[r].kind != kind)
            addf(to, S2_LINE_HEAD, "%s", heads[results[r].kind]);
        kind = (int)results[r].kind;
        if (of_run)
            addf(to, S2_LINE_DIM, "  %.12s %.60s", results[r].hash, results[r].design);
        add_result(e, to, &results[r]);
    }
    s2_arena_release(&scratch);
}

void s2_explorer_record(s2_explorer *e, int64_t design_id)
{
    if (e->record_of == design_id && design_id != 0)
        return;
    lines out = begin(&e->record_arena);
    const s2_tui_row *const row = s2_explorer_row(e, design_id);
    e->record_of = design_id;
    if (row != NULL && row->tags[0] != '\0')
        addf(&out, S2_LINE_HEAD, "tags: %s", row->tags);
    if (e->db != NULL && design_id != 0)
        add_results(e, &out, false, design_id);
    e->session.model.record = end(&out);
}

/* ---- runs */

static s2_tui_run run_of_job(s2_explorer *e, int32_t job_no)
{
    const s2_job *const job = e->jobs[job_no];
    s2_buf words = {0};
    s2_job_print(job, &words);
    const char *const kept =
        s2_arena_strndup(&e->runs_arena, words.data != NULL ? words.data : "", words.len);
    s2_buf_release(&words);
    return (s2_tui_run){.job = job_no + 1,
                        .state = job->state == S2_JOB_WAITING   ? S2_RUN_QUEUED
                                 : job->state == S2_JOB_RUNNING ? S2_RUN_RUNNING
                                 : job->cancelled               ? S2_RUN_CANCELLED
                                                                : S2_RUN_ENDED,
                        .code = job->code,
                        .when = job->began_us != 0 ? when(&e->runs_arena, job->began_us) : "",
                        .what = kept != NULL ? kept : "",
                        .now = job->progress,
                        .wall_s = job->state == S2_JOB_WAITING ? (double)NAN : job->wall_s};
}

void s2_explorer_runs_go_on(s2_explorer *e)
{
    for (int32_t n = 0; n < e->session.model.n_runs; n++) {
        const int32_t job = e->runs[n].job - 1;
        if (job < 0 || job >= e->n_jobs)
            continue;
        e->runs[n].state = e->jobs[job]->state == S2_JOB_RUNNING ? S2_RUN_RUNNING : e->runs[n].state;
        e->runs[n].wall_s = e->jobs[job]->state == S2_JOB_WAITING ? (double)NAN : e->jobs[job]->wall_s;
        if (n == e->session.state.run)
            e->output_of = -1;
    }
}

/* The command line as a shell takes it; what is too long for any screen ends with "...". */
static const char *words_of(s2_explorer *e, int64_t run_id)
{
    enum { MOST = 1000 }; /* bytes */
    s2_buf text = {0};
    s2_diag diag = {0};
    const char *word = "";
    for (int32_t nth = 0;; nth++) {
        if (s2_db_run_word(e->db, &e->runs_arena, run_id, nth, &word, &diag) != S2_OK || word == NULL)
            break;
        if (text.len + strlen(word) > MOST) {
            s2_buf_puts(&text, " ...");
            break;
        }
        s2_buf_puts(&text, nth > 0 ? " " : "");
        s2_buf_shell(&text, nth > 0 ? word : "s2");
    }
    const char *const kept = s2_arena_strndup(&e->runs_arena, text.data != NULL ? text.data : "", text.len);
    s2_buf_release(&text);
    return kept != NULL ? kept : "";
}

static s2_tui_run run_of_row(s2_explorer *e, const s2_db_run_row *row)
{
    const bool ended = row->exit_code != S2_DB_NONE;
    return (s2_tui_run){.id = row->id,
                        .state = ended ? S2_RUN_ENDED : S2_RUN_CUT,
                        .code = ended ? (int32_t)row->exit_code : 0,
                        .when = when(&e->runs_arena, row->started_us),
                        .what = words_of(e, row->id),
                        .now = "",
                        .wall_s = row->wall_us != S2_DB_NONE ? (double)row->wall_us / 1e6 : (double)NAN,
                        .n_results = row->n_results};
}

/* The job of this session that made a stored run, matched by command and time; -1: no job did. */
static int32_t job_of(const s2_explorer *e, const s2_db_run_row *row)
{
    for (int32_t job_no = 0; job_no < e->n_jobs; job_no++) {
        const s2_job *const job = e->jobs[job_no];
        const int64_t end_us = job->began_us + (int64_t)(job->wall_s * 1e6) + 100000;
        if (job->state != S2_JOB_WAITING && strcmp(job->words[1], row->command) == 0 &&
            row->started_us >= job->began_us && row->started_us <= end_us)
            return job_no;
    }
    return -1;
}

void s2_explorer_runs(s2_explorer *e)
{
    s2_tui_model *const model = &e->session.model;
    int32_t n = 0, n_rows = 0;
    s2_diag diag = {0};
    s2_arena_release(&e->runs_arena);
    for (int32_t at = e->n_jobs - 1; at >= 0; at--)
        e->runs[n++] = run_of_job(e, at);
    s2_db_run_row *const rows = S2_NEW(&e->runs_arena, s2_db_run_row, S2_EXPLORER_RUNS);
    if (e->db != NULL && rows != NULL &&
        s2_db_runs(e->db, &e->runs_arena, 0, S2_EXPLORER_RUNS, rows, &n_rows, &diag) == S2_OK)
        for (int32_t row = 0; row < n_rows; row++) {
            const int32_t job = job_of(e, &rows[row]);
            s2_tui_run *const run = &e->runs[job >= 0 ? e->n_jobs - 1 - job : n];
            if (job < 0) {
                *run = run_of_row(e, &rows[row]);
                n++;
            }
            run->id = rows[row].id;
            run->n_results = rows[row].n_results;
        }
    model->runs = e->runs;
    model->n_runs = n;
    e->output_of = -1;
    s2_tui_settle(model, &e->session.state);
}

void s2_explorer_output(s2_explorer *e)
{
    s2_tui_model *const model = &e->session.model;
    const int32_t run_no = e->session.state.run;
    if (e->output_of == run_no)
        return;
    e->output_of = run_no;
    model->output = (s2_tui_text){0};
    if (run_no >= model->n_runs)
        return;
    const s2_tui_run *const run = &model->runs[run_no];
    if (run->job > 0) {
        model->output = s2_explorer_lines(&e->output_arena, &e->jobs[run->job - 1]->text);
    } else {
        lines out = begin(&e->output_arena);
        add_results(e, &out, true, run->id);
        if (out.n == 0)
            addf(&out, S2_LINE_DIM, "%s", "it stored nothing");
        model->output = end(&out);
    }
}

/* ---- saved views */

void s2_explorer_views(s2_explorer *e)
{
    s2_db_view views[SAVED_VIEWS];
    int32_t n = 0;
    s2_diag diag = {0};
    s2_arena_release(&e->choices_arena);
    e->session.model.n_views = 0;
    if (e->db == NULL || s2_db_views(e->db, &e->choices_arena, SAVED_VIEWS, views, &n, &diag) != S2_OK) {
        s2_explorer_say(e, "%s", e->db == NULL ? "no database is open" : diag.msg);
        return;
    }
    s2_tui_choice *const made = S2_NEW(&e->choices_arena, s2_tui_choice, n > 0 ? n : 1);
    for (int32_t v = 0; made != NULL && v < n; v++) {
        s2_buf help = {0};
        s2_buf_printf(&help, "%s, by %s %s", views[v].filter[0] != '\0' ? views[v].filter : "all designs",
                      views[v].sort, views[v].descending ? "down" : "up");
        const char *const kept =
            s2_arena_strndup(&e->choices_arena, help.data != NULL ? help.data : "", help.len);
        s2_buf_release(&help);
        made[v] = (s2_tui_choice){.name = views[v].name,
                                  .help = kept != NULL ? kept : "",
                                  .filter = views[v].filter,
                                  .sort = views[v].sort,
                                  .ascending = !views[v].descending};
    }
    e->session.model.views = made;
    e->session.model.n_views = made != NULL ? n : 0;
}
