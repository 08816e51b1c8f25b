/* Slow work: commands of this program, run one after another in the background. */
#include "explorer/internal.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "export/registry.h"

static s2_job *running(const s2_explorer *e)
{
    for (int32_t at = 0; at < e->n_jobs; at++)
        if (e->jobs[at]->state == S2_JOB_RUNNING)
            return e->jobs[at];
    return NULL;
}

static s2_job *waiting(const s2_explorer *e)
{
    for (int32_t at = 0; at < e->n_jobs; at++)
        if (e->jobs[at]->state == S2_JOB_WAITING)
            return e->jobs[at];
    return NULL;
}

/* ---- making jobs */

/*
 * Name the design for a command: the workbench's by its text, a stored one by its hash, a sample by its text.
 */
static s2_status add_subject(s2_explorer *e, s2_job *job, int64_t id)
{
    s2_buf text = {0};
    const s2_tui_row *const row = s2_explorer_row(e, id);
    if (id == 0)
        s2_tui_pattern(&e->session.state, &text);
    else if (row != NULL && row->text != NULL)
        s2_buf_puts(&text, row->text);
    else if (row != NULL)
        s2_buf_puts(&text, row->hash);
    const s2_status status = text.len == 0 ? S2_EINVAL : text.status;
    const s2_status added = status == S2_OK ? s2_job_add(job, text.data) : status;
    s2_buf_release(&text);
    return added;
}

static s2_status add_database(const s2_explorer *e, s2_job *job)
{
    if (e->options->no_db)
        return s2_job_add(job, "--no-db");
    S2_TRY(s2_job_add(job, "--db"));
    return s2_job_add(job, e->options->db_path);
}

/* "s2 COMMAND WORDS PATTERN --db FILE": the words that differ between runs come first */
static s2_status make(s2_explorer *e, s2_job *job, const char *command, int64_t id, const char *words)
{
    S2_TRY(s2_job_add(job, "s2"));
    S2_TRY(s2_job_add(job, command));
    S2_TRY(s2_job_add_words(job, words));
    S2_TRY(add_subject(e, job, id));
    return add_database(e, job);
}

/* Make room for one more by dropping the oldest job that has ended. */
static bool make_room(s2_explorer *e)
{
    if (e->n_jobs < S2_EXPLORER_JOBS)
        return true;
    for (int32_t j = 0; j < e->n_jobs; j++)
        if (e->jobs[j]->state == S2_JOB_ENDED) {
            s2_job_release(e->jobs[j]);
            s2_free(e->jobs[j]);
            memmove(&e->jobs[j], &e->jobs[j + 1], sizeof e->jobs[0] * (size_t)(e->n_jobs - j - 1));
            e->n_jobs--;
            return true;
        }
    return false;
}

static void queue(s2_explorer *e, s2_job *made, s2_status status)
{
    s2_job *const job = status == S2_OK && make_room(e) ? s2_malloc(sizeof *job) : NULL;
    if (job == NULL) {
        s2_job_release(made);
        s2_explorer_say(e, status == S2_EINVAL ? "no design is selected"
                                               : "no more commands can run in the background");
        return;
    }
    *job = *made;
    e->jobs[e->n_jobs++] = job;
    if (e->session.model.n_runs > 0)
        s2_explorer_runs(e);
    s2_explorer_say(e, running(e) != NULL ? "it starts when the previous one has ended; 6 shows both"
                                          : "started; 6 shows its output");
    s2_explorer_pump(e);
}

void s2_explorer_command(s2_explorer *e, const char *command)
{
    s2_job job;
    s2_job_init(&job);
    const s2_status status = make(e, &job, command, e->session.state.request_id, e->session.state.prompt);
    queue(e, &job, status);
}

void s2_explorer_around(s2_explorer *e)
{
    s2_job job;
    s2_buf space = {0}, words = {0};
    const s2_tui_state *const state = &e->session.state;
    s2_job_init(&job);
    const s2_question question = s2_knobs_question(&state->knobs);
    s2_knobs_space(&state->knobs, &space);
    s2_question_print(&question, &words);
    s2_buf_printf(&words, " %s", state->prompt);
    s2_status status = space.status != S2_OK ? space.status : words.status;
    if (status == S2_OK)
        status = s2_job_add(&job, "s2");
    if (status == S2_OK)
        status = s2_job_add(&job, "search");
    if (status == S2_OK)
        status = s2_job_add(&job, space.data);
    if (status == S2_OK)
        status = s2_job_add_words(&job, words.data);
    if (status == S2_OK)
        status = add_database(e, &job);
    s2_buf_release(&space);
    s2_buf_release(&words);
    queue(e, &job, status);
}

/* ---- exports */

static const char *format_name(const s2_explorer *e)
{
    const int32_t format = e->session.state.format;
    return format < e->session.model.n_formats ? e->session.model.formats[format].name : "";
}

/* A trial reads the same database as the real export, validations included. */
static s2_status make_export(s2_explorer *e, s2_job *job, bool trial)
{
    char words[80];
    snprintf(words, sizeof words, "--to %.40s%s", format_name(e), trial ? " --dry-run" : "");
    S2_TRY(make(e, job, "export", e->session.state.request_id, words));
    if (trial)
        return S2_OK;
    S2_TRY(s2_job_add(job, "-o"));
    return s2_job_add(job, e->session.state.prompt);
}

void s2_explorer_try_export(s2_explorer *e)
{
    s2_diag diag = {0};
    s2_job_release(&e->trial);
    s2_status status = make_export(e, &e->trial, true);
    if (status == S2_OK)
        status = s2_job_start(&e->trial, &diag);
    if (status != S2_OK)
        s2_explorer_say_failure(e, status, &diag);
    s2_explorer_pump(e);
}

void s2_explorer_export(s2_explorer *e)
{
    s2_job job;
    s2_job_init(&job);
    if (e->session.state.prompt[0] == '\0') {
        s2_explorer_say(e, "give the name of a file or directory");
        return;
    }
    const s2_status status = make_export(e, &job, false);
    queue(e, &job, status);
}

void s2_explorer_formats(s2_explorer *e)
{
    int32_t n = 0;
    for (int32_t f = 0; s2_format_at(f) != NULL && n < S2_EXPLORER_FORMATS; f++)
        if (s2_format_at(f)->write != NULL)
            e->formats[n++] = (s2_tui_choice){.name = s2_format_at(f)->name,
                                              .help = s2_format_at(f)->summary,
                                              .path = s2_format_at(f)->file_name};
    e->session.model.formats = e->formats;
    e->session.model.n_formats = n;
}

/* ---- following jobs */

/* Show the comparison so far: nothing yet, or what the trial said. */
static void show_loss(s2_explorer *e)
{
    static const s2_tui_line working = {S2_LINE_DIM, "comparing..."};
    s2_arena_release(&e->loss_arena);
    e->session.model.loss = (s2_tui_text){1, &working};
    if (e->trial.state == S2_JOB_ENDED)
        e->session.model.loss = s2_explorer_lines(&e->loss_arena, &e->trial.text);
    e->session.model.loss_refused = e->trial.state == S2_JOB_ENDED && e->trial.code != 0;
}

static void show_busy(s2_explorer *e)
{
    const s2_job *const job = running(e);
    int32_t n = 0;
    for (int32_t at = 0; at < e->n_jobs; at++)
        n += e->jobs[at]->state == S2_JOB_WAITING;
    const char *const change = s2_explorer_change_busy(e); /* named first, as C ends it first */
    e->session.model.busy = change != NULL ? change : job != NULL ? e->busy : NULL;
    if (job == NULL)
        return;
    const int len = snprintf(e->busy, sizeof e->busy, "%s %s", job->words[1],
                             job->progress[0] != '\0' ? job->progress : "...");
    if (n > 0 && len > 0 && (size_t)len < sizeof e->busy)
        snprintf(e->busy + len, sizeof e->busy - (size_t)len, " (+%d)", n);
}

/* Why a command failed, in its own words: the text of its last "s2 command: text". */
static void reason_of(const s2_job *job, char *out, size_t cap)
{
    static const char WHOLE[] = " ... (6 shows all)";
    char before[64];
    const char *found = NULL;
    const int n = snprintf(before, sizeof before, "s2 %.40s: ", job->words[1]);
    s2_buf text = {0};
    s2_buf_add(&text, job->text.data, job->text.len);
    s2_buf_add(&text, "", 1);
    for (const char *at = text.data; at != NULL && (at = strstr(at, before)) != NULL;)
        found = at += n;
    const size_t n_found = found != NULL ? strcspn(found, "\r\n") : 0;
    const bool cut = n_found > cap - sizeof WHOLE;
    snprintf(out, cap, "%s%.*s%s", found != NULL ? ": " : "", (int)(cut ? cap - sizeof WHOLE - 2 : n_found),
             found != NULL ? found : "", cut ? WHOLE : "");
    s2_buf_release(&text);
}

/* Every command has these exit codes (README). */
enum { EXIT_CALLED_WRONGLY = 2, EXIT_NOT_POSSIBLE = 5 };

static void say_end(s2_explorer *e, const s2_job *job)
{
    static const char *const words[] = {"done",
                                        "done: not everything holds; 6 says what",
                                        "called wrongly",
                                        "refused",
                                        "stopped before the end",
                                        "not possible here",
                                        "two computations disagree"};
    char reason[300] = "";
    const bool writes = strcmp(job->words[1], "export") == 0;
    const bool nothing = job->code == 1 && (writes || strcmp(job->words[1], "search") == 0);
    if ((job->code >= EXIT_CALLED_WRONGLY || nothing) && !job->cancelled)
        reason_of(job, reason, sizeof reason);
    if (job->cancelled)
        s2_explorer_say(e, "%s: cancelled", job->words[1]);
    else if (job->code >= 0 && job->code < (int32_t)(sizeof words / sizeof words[0]) && reason[0] != '\0')
        s2_explorer_say(e, "%s%s (exit %d)%s", job->words[1],
                        nothing && writes ? ": nothing was written" : "", job->code, reason);
    else if (job->code >= 0 && job->code < (int32_t)(sizeof words / sizeof words[0]))
        s2_explorer_say(e, "%s: %s (exit %d, %.1f s)", job->words[1], words[job->code], job->code,
                        job->wall_s);
    else
        s2_explorer_say(e, "%s: died of signal %d", job->words[1], job->code - 128);
}

static void start_next(s2_explorer *e)
{
    s2_diag diag = {0};
    s2_job *const next = running(e) == NULL ? waiting(e) : NULL;
    if (next == NULL || s2_job_start(next, &diag) == S2_OK)
        return;
    next->state = S2_JOB_ENDED;
    next->code = EXIT_NOT_POSSIBLE;
    s2_explorer_say(e, "%s", diag.msg);
}

bool s2_explorer_pump(s2_explorer *e)
{
    bool changed = false, ended = false;
    for (int32_t j = 0; j < e->n_jobs; j++) {
        if (e->jobs[j]->state != S2_JOB_RUNNING)
            continue;
        changed = s2_job_pump(e->jobs[j]) || changed;
        if (e->jobs[j]->state == S2_JOB_ENDED) {
            say_end(e, e->jobs[j]);
            e->record_of = 0;
            ended = true;
        }
    }
    changed = s2_job_pump(&e->trial) || changed;
    start_next(e);
    show_busy(e);
    show_loss(e);
    if (ended && e->session.model.n_runs > 0)
        s2_explorer_runs(e);
    else if (changed)
        s2_explorer_runs_go_on(e);
    return changed;
}

bool s2_explorer_works(const s2_explorer *e)
{
    return running(e) != NULL || waiting(e) != NULL || e->trial.state == S2_JOB_RUNNING;
}

bool s2_explorer_job_cancel(s2_explorer *e)
{
    s2_job *const job = running(e);
    if (job == NULL)
        return false;
    s2_explorer_say(e, job->cancelled ? "%s is killed" : "%s was asked to stop; ask again to kill it",
                    job->words[1]);
    s2_job_cancel(job);
    return true;
}

static void add_files(const s2_job *job, int *files, int32_t cap, int32_t *n)
{
    if (job->out_fd >= 0 && *n < cap)
        files[(*n)++] = job->out_fd;
    if (job->err_fd >= 0 && *n < cap)
        files[(*n)++] = job->err_fd;
}

int32_t s2_explorer_job_files(const s2_explorer *e, int *files, int32_t cap)
{
    int32_t n = 0;
    for (int32_t at = 0; at < e->n_jobs; at++)
        if (e->jobs[at]->state == S2_JOB_RUNNING)
            add_files(e->jobs[at], files, cap, &n);
    if (e->trial.state == S2_JOB_RUNNING)
        add_files(&e->trial, files, cap, &n);
    return n;
}

void s2_explorer_jobs_release(s2_explorer *e)
{
    for (int32_t at = 0; at < e->n_jobs; at++) {
        s2_job_release(e->jobs[at]);
        s2_free(e->jobs[at]);
    }
    e->n_jobs = 0;
    s2_job_release(&e->trial);
}
