#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/found.h"
#include "cli/options.h"
#include "cli/store.h"

/* A handler can reach nothing but this. */
static volatile sig_atomic_t stop_asked;

static void ask_stop(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A search under way: what it shows, and the file that it goes on from. */
typedef struct running {
    s2_found found;
    s2_args args;
    const char *key;   /* everything that the front depends on */
    const char *path;  /* of the state; NULL: none is written */
    int64_t stored_us; /* of a state read back: when the run that was storing it began; 0: none was */
    bool show_progress;
    double began;
    int64_t began_at;
    double written;
    double shown;
    int code; /* of a state that could not be written; S2_GO_ON while all is well */
} running;

/* ---- the command line
 * --------------------------------------------------------------------------------------- */

static int refuse(s2_cli *cli, const s2_diag *diag, s2_status status)
{
    s2_cli_error(cli, "%s", diag->msg[0] != '\0' ? diag->msg : s2_status_text(status));
    return status == S2_EINVAL ? S2_EXIT_USAGE : s2_exit_of(status);
}

/* Calls take(user, word) for each word between commas; false ends it. */
typedef bool (*word_fn)(s2_found *found, const char *word, size_t n);
static int read_list(running *r, const char *option, const char *expected, word_fn take)
{
    const char *const list = s2_args_str(&r->args, option);
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        if (!take(&r->found, at, n)) {
            s2_cli_error(r->found.cli, "--%s %s: expected %s, each once", option, list, expected);
            return S2_EXIT_USAGE;
        }
        at += n;
        if (*at == '\0')
            return S2_GO_ON;
    }
}

static bool is_word(const char *known, const char *word, size_t n)
{
    return strlen(known) == n && memcmp(known, word, n) == 0;
}

static bool take_phase(s2_found *found, const char *word, size_t n)
{
    for (int phase = 0; phase < S2_N_SIM_PHASES; phase++) {
        if (!is_word(s2_sim_phase_word((s2_sim_phase)phase), word, n))
            continue;
        for (int32_t p = 0; p < found->n_phases; p++)
            if (found->phases[p] == (s2_sim_phase)phase)
                return false;
        found->phases[found->n_phases++] = (s2_sim_phase)phase;
        return true;
    }
    return false;
}

static bool add_objective(s2_search *search, s2_objective objective)
{
    for (int32_t v = 0; v < search->n_by; v++)
        if (search->by[v] == objective)
            return false;
    if (search->n_by == S2_MAX_OBJECTIVES)
        return false;
    search->by[search->n_by++] = objective;
    return true;
}

static bool take_objective(s2_found *found, const char *word, size_t n)
{
    static const s2_objective times[S2_N_SIM_PHASES] = {S2_BY_PREFILL_US, S2_BY_DECODE_US, S2_BY_TRAIN_US};
    if (is_word("us", word, n)) {
        bool good = true;
        for (int32_t p = 0; p < found->n_phases && good; p++)
            good = add_objective(&found->search, times[found->phases[p]]);
        return good;
    }
    for (int objective = 0; objective < S2_N_OBJECTIVES; objective++)
        if (is_word(s2_objective_word((s2_objective)objective), word, n))
            return add_objective(&found->search, (s2_objective)objective);
    return false;
}

static int read_shard(running *r)
{
    const char *const text = s2_args_str(&r->args, "shard");
    char *end;
    const long long shard = strtoll(text, &end, 10);
    const long long n_shards = *end == '/' ? strtoll(end + 1, &end, 10) : 0;
    if (*end != '\0' || shard < 1 || n_shards < shard || n_shards > 1000000) {
        s2_cli_error(r->found.cli, "--shard %s: expected I/N with 1 <= I <= N, as in 2/4", text);
        return S2_EXIT_USAGE;
    }
    s2_search_shard(&r->found.search, shard, n_shards);
    return S2_GO_ON;
}

static int read_numbers(running *r)
{
    s2_cli *const cli = r->found.cli;
    s2_search *const search = &r->found.search;
    int64_t seed, jobs = sysconf(_SC_NPROCESSORS_ONLN);
    if (s2_args_int(cli, &r->args, "len", 1, S2_LIMIT_CONTEXT_TOK, &search->options.len_tok) != S2_GO_ON ||
        s2_args_int(cli, &r->args, "batch", 1, 65536, &search->options.batch) != S2_GO_ON ||
        s2_args_int(cli, &r->args, "seed", 0, INT64_C(1) << 53, &seed) != S2_GO_ON)
        return S2_EXIT_USAGE;
    if (s2_args_has(&r->args, "jobs") &&
        s2_args_int(cli, &r->args, "jobs", 1, S2_SEARCH_JOBS, &jobs) != S2_GO_ON)
        return S2_EXIT_USAGE;
    for (int dtype = 0; dtype < S2_N_PRICED_DTYPES; dtype++)
        if (strcmp(s2_args_str(&r->args, "dtype"), s2_dtype_word((s2_dtype)dtype)) == 0)
            search->options.dtype = (s2_dtype)dtype;
    search->seed = (uint64_t)seed;
    search->n_jobs = (int32_t)jobs;
    s2_store_set_seed(cli, seed);
    return S2_GO_ON;
}

static int read_names(running *r)
{
    s2_found *const found = &r->found;
    const char *const model = s2_args_str(&r->args, "model");
    s2_diag diag = {0};
    s2_status status = s2_gpu_find(s2_args_str(&r->args, "gpu"), &found->search.options.gpu, &diag);
    if (status == S2_OK && model != NULL)
        status = s2_net_find(model, &found->net, &diag);
    if (status == S2_OK)
        status = s2_requirements_parse(s2_args_str(&r->args, "require"), found->search.requirements,
                                       &found->search.n_requirements, &diag);
    if (status != S2_OK)
        return refuse(found->cli, &diag, status);
    found->model = model != NULL ? model : "";
    found->search.options.net = model != NULL ? &found->net : NULL;
    return S2_GO_ON;
}

static int read_options(running *r)
{
    int end = s2_sim_options_default(&r->found.search.options) == S2_OK ? S2_GO_ON : S2_EXIT_INTERNAL;
    if (end == S2_GO_ON)
        end = read_names(r);
    if (end == S2_GO_ON)
        end = read_numbers(r);
    if (end == S2_GO_ON)
        end = read_list(r, "phase", "prefill, decode, train", take_phase);
    if (end == S2_GO_ON)
        end = read_list(
            r, "minimize",
            "up to six of us, prefill_us, decode_us, train_us, kv_bytes, density, imbalance, unread",
            take_objective);
    if (end == S2_GO_ON && r->found.cli->no_db && s2_args_has(&r->args, "resume")) {
        s2_cli_error(r->found.cli, "--resume needs the file that --no-db does not write");
        end = S2_EXIT_USAGE;
    }
    return end;
}

/* ---- the space
 * ---------------------------------------------------------------------------------------------- */

static int propose(running *r, const char **text)
{
    s2_cli *const cli = r->found.cli;
    if (r->found.model[0] == '\0') {
        s2_cli_error(cli, "a space or a --model to propose one for is needed");
        return S2_EXIT_USAGE;
    }
    s2_buf buf = {0};
    const s2_status status = s2_space_propose(r->found.net.n_heads, r->found.net.n_kv_heads, &buf);
    *text = status == S2_OK ? s2_arena_strndup(&cli->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (*text == NULL)
        return s2_cli_fail(cli, status == S2_OK ? S2_ENOMEM : status, "space");
    fprintf(cli->err, "proposed space: %s\n", *text);
    return S2_GO_ON;
}

/* Refusals point into what the person wrote; the model's line comes before it only afterwards. */
static int read_space(running *r)
{
    s2_found *const found = &r->found;
    s2_cli *const cli = found->cli;
    const char *text = r->args.n_operands > 0 ? r->args.operands[0] : NULL;
    const int end = text != NULL ? S2_GO_ON : propose(r, &text);
    if (end != S2_GO_ON)
        return end;
    s2_diag diag = {0};
    s2_status status = s2_space_parse(&cli->arena, text, strlen(text), &found->space, &diag);
    if (status != S2_OK)
        return s2_input_refuse(cli, status, "space", text, strlen(text), &diag);
    found->space_text = text;
    found->search.space = &found->space;
    if (found->model[0] == '\0')
        return S2_GO_ON;
    s2_buf whole = {0};
    s2_buf_printf(&whole, "model %s\n%s", found->model, text);
    status = whole.status;
    if (status == S2_OK)
        status = s2_space_parse(&cli->arena, whole.data, whole.len, &found->space, &diag);
    s2_buf_release(&whole);
    return status == S2_OK ? S2_GO_ON : s2_cli_fail(cli, status, "space");
}

/* ---- the state on disk
 * -------------------------------------------------------------------------------------- */

static uint64_t name_hash(const char *text)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return sum;
}

/* Everything that counts and front depend on, the program included. */
static int make_key(running *r)
{
    const s2_found *const found = &r->found;
    const s2_search *const search = &found->search;
    s2_buf buf = {0};
    s2_buf_printf(&buf, "%s %s | %s %s len %lld batch %lld %s | seed %llu shard %s | require %s | minimize",
                  s2_version(), s2_version_commit(), found->model, search->options.gpu.name,
                  (long long)search->options.len_tok, (long long)search->options.batch,
                  s2_dtype_word(search->options.dtype), (unsigned long long)search->seed,
                  s2_args_str(&r->args, "shard"), s2_args_str(&r->args, "require"));
    for (int32_t v = 0; v < search->n_by; v++)
        s2_buf_printf(&buf, " %s", s2_objective_word(search->by[v]));
    s2_buf_printf(&buf, " | %s", found->space_text);
    s2_arena *const arena = &found->cli->arena;
    r->key = buf.status == S2_OK ? s2_arena_strndup(arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (r->key != NULL && !found->cli->no_db) {
        s2_buf_printf(&buf, "%s.search-%016" PRIx64, s2_store_path(found->cli), name_hash(r->key));
        r->path = buf.status == S2_OK ? s2_arena_strndup(arena, buf.data, buf.len) : NULL;
        s2_buf_release(&buf);
    }
    return r->key != NULL && (r->path != NULL || found->cli->no_db)
               ? S2_GO_ON
               : s2_cli_fail(found->cli, S2_ENOMEM, "search");
}

static bool write_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(fd, data, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        n -= (size_t)written;
    }
    return fsync(fd) == 0;
}

/* Beside the old file and then in its place, so that a crash leaves the one or the other. */
static bool replace_file(const char *path, const s2_buf *text)
{
    s2_buf beside = {0};
    s2_buf_printf(&beside, "%s.new", path);
    if (beside.status != S2_OK)
        return false;
    const int fd = open(beside.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write_all(fd, text->data, text->len);
    if (fd >= 0)
        good = close(fd) == 0 && good;
    good = good && rename(beside.data, path) == 0;
    s2_buf_release(&beside);
    return good;
}

/* stored_us: the run that is about to store the front, 0: none yet. */
static int write_state(running *r, const s2_search_state *state, int64_t stored_us)
{
    if (r->path == NULL)
        return S2_GO_ON;
    s2_buf text = {0};
    s2_buf_printf(&text, "%020lld\n", (long long)stored_us);
    s2_search_state_print(&r->found.search, state, r->key, &text);
    const bool good = text.status == S2_OK && replace_file(r->path, &text);
    const int error = errno;
    s2_buf_release(&text);
    r->written = seconds();
    if (good)
        return S2_GO_ON;
    s2_cli_error(r->found.cli, "%s: %s", r->path, strerror(error));
    return S2_EXIT_ENVIRONMENT;
}

enum { STORED_LINE = 21, MOST_STATE_BYTES = 1 << 28 };

static int take_state(running *r, const char *text, size_t n)
{
    s2_diag diag = {0};
    s2_search_state state;
    const s2_status status = n < STORED_LINE
                                 ? s2_diag_set(&diag, S2_EPARSE, 0, 0, 0, "it is cut")
                                 : s2_search_state_parse(&r->found.search, r->key, text + STORED_LINE,
                                                         n - STORED_LINE, &state, &diag);
    if (status != S2_OK) {
        s2_cli_error(r->found.cli, "%s: %s", r->path,
                     diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
        s2_cli_hint(r->found.cli, "without --resume the search begins anew");
        return s2_exit_of(status);
    }
    r->stored_us = strtoll(text, NULL, 10);
    s2_search_state_release(&r->found.state);
    r->found.state = state;
    return S2_GO_ON;
}

static int resume(running *r)
{
    s2_cli *const cli = r->found.cli;
    FILE *const file = fopen(r->path, "rb");
    if (file == NULL) {
        fprintf(cli->err, "nothing to resume; the search begins\n");
        return S2_GO_ON;
    }
    s2_buf text = {0};
    char piece[4096];
    size_t n;
    while (text.len < MOST_STATE_BYTES && (n = fread(piece, 1, sizeof piece, file)) > 0)
        s2_buf_add(&text, piece, n);
    const bool failed = ferror(file) != 0 || text.status != S2_OK;
    fclose(file);
    const int code = failed ? s2_cli_fail(cli, S2_EIO, r->path)
                            : take_state(r, text.data != NULL ? text.data : "", text.len);
    s2_buf_release(&text);
    return code;
}

/* Did the run that was storing this very front commit before it was killed? Then nothing is stored twice. */
static int find_stored(running *r, bool *stored)
{
    enum { LATEST = 1000 };
    s2_cli *const cli = r->found.cli;
    *stored = false;
    if (r->stored_us == 0 || access(s2_store_path(cli), F_OK) != 0)
        return S2_GO_ON;
    s2_db *db;
    /* a run killed while it made the file left one that only a writer completes */
    const int end = s2_store_open(cli, S2_DB_WRITE, &db);
    if (end != S2_GO_ON)
        return end;
    s2_diag diag = {0};
    int32_t n = 0;
    s2_db_run_row *const rows = S2_NEW(&cli->arena, s2_db_run_row, LATEST);
    const s2_status status =
        rows != NULL ? s2_db_runs(db, &cli->arena, 0, LATEST, rows, &n, &diag) : S2_ENOMEM;
    for (int32_t row = 0; row < n && status == S2_OK; row++)
        *stored |= rows[row].started_us == r->stored_us && strcmp(rows[row].command, "search") == 0 &&
                   rows[row].n_results > 0;
    s2_db_close(&db);
    return status == S2_OK ? S2_GO_ON : s2_store_report(cli, status, &diag);
}

/* ---- running
 * ------------------------------------------------------------------------------------------------ */

static void show_progress(running *r, const s2_search_state *state)
{
    const double now = seconds(), begin = (double)r->found.search.begin;
    if (!r->show_progress || now - r->shown < 0.2)
        return;
    r->shown = now;
    const double rate = (double)(state->next - r->began_at) / (now - r->began + 1e-9);
    const double left = (double)(r->found.until - state->next), all = (double)r->found.until - begin;
    fprintf(r->found.cli->err, "\r\033[K%lld of %.0f (%.0f %%), %.0f/s, %.0f s left, front %d",
            (long long)(state->next - r->found.search.begin), all, 100 * (1 - left / all), rate,
            left / (rate + 1e-9), (int)state->front.n);
    fflush(r->found.cli->err);
}

static bool after_batch(void *user, const s2_search_state *state)
{
    running *const r = user;
    show_progress(r, state);
    if (seconds() - r->written > 1)
        r->code = write_state(r, state, 0);
    return r->code == S2_GO_ON && !stop_asked;
}

static int run(running *r)
{
    s2_found *const found = &r->found;
    struct sigaction old_int, old_term, ask = {.sa_handler = ask_stop, .sa_flags = (int)SA_RESETHAND};
    stop_asked = 0;
    sigaction(SIGINT, &ask, &old_int);
    sigaction(SIGTERM, &ask, &old_term);
    r->began = r->written = seconds();
    r->began_at = found->state.next;
    r->code = S2_GO_ON;
    const s2_status status = s2_search_run(&found->search, &found->state, found->until, after_batch, r);
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    if (r->show_progress)
        fprintf(found->cli->err, "\r\033[K");
    if (status != S2_OK)
        return s2_cli_fail(found->cli, status, "search");
    const double took = seconds() - r->began;
    const int64_t n = found->state.next - r->began_at;
    if (n > 0)
        fprintf(found->cli->err, "%lld candidates in %.1f s, %.0f a second on %d threads\n", (long long)n,
                took, (double)n / (took + 1e-9), (int)found->search.n_jobs);
    return r->code;
}

/* The first candidate that is no pattern, as its parser saw it. */
static int explain_refused(const running *r)
{
    const s2_found *const found = &r->found;
    const int64_t index = found->state.refused_index;
    s2_pattern pattern;
    s2_diag diag = {0};
    s2_buf text = {0};
    s2_space_expand(&found->space, index, &text);
    s2_status status = s2_search_pattern(&found->search, index, &found->cli->arena, &pattern, &diag);
    if (status == S2_OK)
        status = s2_diag_set(&diag, S2_EPARSE, 0, 0, 0, "a required property does not fit its shape");
    char label[40];
    snprintf(label, sizeof label, "candidate %lld", (long long)index);
    const int code = s2_input_refuse(found->cli, status, label, text.data, text.len, &diag);
    s2_buf_release(&text);
    return code;
}

/* Show, store, and forget the state where nothing is left to do. */
static int finish(running *r, bool stored)
{
    s2_found *const found = &r->found;
    const bool complete = found->state.next == found->search.end;
    const int64_t visited = found->state.next - found->search.begin;
    if (found->state.refused_index >= 0) {
        const int code = explain_refused(r);
        if (found->state.counts.refused == visited)
            return code;
    }
    int code = s2_found_show(found);
    if (code == S2_GO_ON && !stored) {
        code = write_state(r, &found->state, found->cli->started_us);
        if (code == S2_GO_ON)
            code = s2_found_store(found);
    }
    if (code != S2_GO_ON)
        return code;
    if (complete && r->path != NULL)
        unlink(r->path);
    if (found->state.next < found->until) {
        fprintf(found->cli->err, "stopped: this is the front of the candidates visited; --resume goes on\n");
        return S2_EXIT_UNDECIDED;
    }
    return found->state.front.n > 0 ? S2_EXIT_OK : S2_EXIT_VIOLATED;
}

static int search(running *r)
{
    s2_found *const found = &r->found;
    found->until = found->search.end;
    if (s2_args_has(&r->args, "limit")) {
        int64_t limit;
        if (s2_args_int(found->cli, &r->args, "limit", 1, INT64_C(1) << 40, &limit) != S2_GO_ON)
            return S2_EXIT_USAGE;
        if (limit < found->search.end - found->search.begin)
            found->until = found->search.begin + limit;
    }
    s2_search_state_init(&found->search, &found->state);
    const int end = s2_args_has(&r->args, "resume") ? resume(r) : S2_GO_ON;
    if (end != S2_GO_ON)
        return end;
    const int64_t next = found->state.next;
    int code = run(r);
    bool stored = false;
    if (code == S2_GO_ON && found->state.next == next)
        code = find_stored(r, &stored);
    if (code == S2_GO_ON)
        code = finish(r, stored);
    s2_search_state_release(&found->state);
    return code;
}

int s2_cmd_search(s2_cli *cli, int argc, char **argv)
{
    running *const r = s2_arena_alloc(&cli->arena, 1, sizeof *r);
    if (r == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "search");
    r->found.cli = cli;
    int end = s2_args_parse(cli, "search", argc, argv, &r->args);
    if (end != S2_GO_ON)
        return end;
    r->found.json = s2_args_has(&r->args, "json");
    r->show_progress = isatty(fileno(cli->err)) == 1;
    end = read_options(r);
    if (end == S2_GO_ON)
        end = read_space(r);
    if (end == S2_GO_ON)
        end = read_shard(r);
    if (end == S2_GO_ON)
        end = make_key(r);
    return end == S2_GO_ON ? search(r) : end;
}
