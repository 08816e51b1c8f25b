#include "cli/commands.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/searching.h"
#include "cli/store.h"
#include "report/found.h"

static s2_exit read_shard(s2_searching *r)
{
    const char *const text = s2_args_str(&r->args, "shard");
    char *end;
    const long long shard = strtoll(text, &end, 10);
    const long long n_shards = *end == '/' ? strtoll(end + 1, &end, 10) : 0;
    if (*end != '\0' || shard < 1 || n_shards < shard || n_shards > 1000000) {
        s2_cli_error(r->cli, "--shard %s: expected I/N with 1 <= I <= N, as in 2/4", text);
        return S2_EXIT_USAGE;
    }
    s2_search_shard(&r->found.search, shard, n_shards);
    r->job.begin = r->found.search.begin;
    r->job.end = r->job.until = r->found.search.end;
    return S2_EXIT_OK;
}

static s2_exit read_limit(s2_searching *r)
{
    int64_t limit;
    if (!s2_args_has(&r->args, "limit"))
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_args_int(r->cli, &r->args, "limit", 1, INT64_C(1) << 40, &limit));
    if (limit < r->job.end - r->job.begin)
        r->job.until = r->job.begin + limit;
    return S2_EXIT_OK;
}

/*
 * Other ranks are about as far as this one, since visits are drawn alike. A log gets a line after five seconds,
 * then one whenever the time has doubled, and at least one a minute.
 */
static void show_progress(s2_searching *r, int64_t visit)
{
    const double now = s2_steady_s(), all = (double)(r->job.until - r->job.begin);
    const double pause = r->on_terminal ? 0.2 : fmin(fmax(5, r->shown - r->began), 60);
    if (r->job.ranks.own != 0 || r->quiet || now - r->shown < pause)
        return;
    r->shown = now;
    const double done = (double)(visit - r->found.search.begin) * r->job.ranks.n;
    const double rate = (double)(visit - r->began_at) * r->job.ranks.n / (now - r->began + 1e-9);
    fprintf(r->cli->err, "%s%.0f of %.0f (%.0f %%), %.0f/s, %.0f s left, front %d%s",
            r->on_terminal ? "\r\033[K" : "", done, all, 100 * done / all, rate, (all - done) / (rate + 1e-9),
            (int)r->found.state.front.n, r->on_terminal ? "" : "\n");
    fflush(r->cli->err);
}

/* A slice ends only at the end of a batch; Ctrl-C does not wait for it. */
static bool watch(void *user, const s2_search_state *state, int64_t visit)
{
    s2_searching *const r = user;
    show_progress(r, visit);
    return !s2_search_stopped() && (visit != state->next || s2_steady_s() < r->slice_ends);
}

/* Search for a second, then save what was found to disk; finish() saves the last slice. */
static s2_exit run_slice(s2_searching *r, bool *more)
{
    s2_found *const found = &r->found;
    r->slice_ends = s2_steady_s() + 1;
    const s2_status status = s2_search_run(&found->search, &found->state, found->until, watch, r);
    s2_exit code = status == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, status, "search");
    code = (s2_exit)s2_ranks_most(&r->job.ranks, code);
    if (code == S2_EXIT_OK) {
        const s2_status collected = s2_search_job_collect(&r->job, &found->search, &found->state);
        code = collected == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, collected, "search");
        code = (s2_exit)s2_ranks_most(&r->job.ranks, code);
    }
    const bool stop = s2_ranks_most(&r->job.ranks, s2_search_stopped()) != 0;
    *more = s2_ranks_most(&r->job.ranks, found->until - found->state.next) > 0 && !stop;
    if (code == S2_EXIT_OK && *more && r->job.ranks.own == 0)
        code = s2_search_file_write(r, 0);
    return (s2_exit)s2_ranks_most(&r->job.ranks, code);
}

static s2_exit run_slices(s2_searching *r)
{
    r->began = r->shown = s2_steady_s();
    r->began_at = r->found.state.next;
    s2_exit code;
    bool more;
    do
        code = run_slice(r, &more);
    while (code == S2_EXIT_OK && more);
    r->moved = s2_ranks_most(&r->job.ranks, r->found.state.next != r->began_at) != 0;
    if (r->job.ranks.own == 0 && r->on_terminal)
        fprintf(r->cli->err, "\r\033[K");
    return code;
}

/*
 * The peak memory of this process, 0: not known. What getrusage() says begins with what the process that started
 * this one had at that moment.
 */
static double peak_mib(void)
{
    char line[128];
    long long kib = 0;
    FILE *const status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL &&
           sscanf(line, "VmHWM: %lld kB", &kib) != 1)
        ;
    if (status != NULL)
        fclose(status);
    return (double)kib / 1024;
}

static s2_exit run(s2_searching *r)
{
    s2_found *const found = &r->found;
    S2_CLI_TRY(run_slices(r));
    if (r->job.ranks.own != 0)
        return S2_EXIT_OK;
    const double took = s2_steady_s() - r->began;
    const int64_t done_before = r->began_at - found->search.begin;
    const s2_status status =
        r->job.ranks.n > 1 ? s2_search_job_join(&r->job, &found->search, &found->state) : S2_OK;
    if (status != S2_OK)
        return s2_cli_fail(r->cli, status, "search");
    found->until = r->job.until;
    const int64_t n = found->state.next - r->job.begin - done_before * r->job.ranks.n;
    if (n > 0 && !r->quiet)
        fprintf(r->cli->err, "%s in %.1f s, %.0f a second on %d x %d threads, %.1f MiB\n",
                s2_count_text(n, "candidate").text, took, (double)n / (took + 1e-9), (int)r->job.ranks.n,
                (int)found->search.n_jobs, peak_mib());
    return S2_EXIT_OK;
}

static s2_exit confirm(s2_searching *r, bool stored)
{
    r->confirm.stopped = s2_search_stopped;
    r->confirm.json = s2_args_has(&r->args, "json");
    r->confirm.since_us = stored ? r->stored_us : 0;
    return s2_found_confirm(r->cli, &r->found, &r->confirm);
}

static bool goes_on(void *user, const s2_search_state *state, int64_t visit)
{
    (void)user;
    (void)state;
    (void)visit;
    return !s2_search_stopped();
}

static s2_exit seek_least(s2_searching *r)
{
    if (r->found.state.next < r->found.until)
        return S2_EXIT_OK; /* stopped: later candidates may still have formed a front */
    const s2_status status = s2_found_seek_least(&r->found, goes_on, NULL);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(r->cli, status, "--at-most");
}

static s2_exit show(const s2_searching *r)
{
    s2_buf buf = {0};
    s2_status status = S2_OK;
    if (s2_args_has(&r->args, "json"))
        s2_found_json(&r->found, &buf);
    else
        status = s2_found_report(&r->found, &buf);
    if (status == S2_OK)
        return s2_cli_print(r->cli, &buf);
    s2_buf_release(&buf);
    return s2_cli_fail(r->cli, status, "front");
}

/* The second part of the work, of which the rate of candidates says nothing. */
static s2_exit price_front(s2_searching *r)
{
    enum { FEW = 20 };
    const double began = s2_steady_s();
    const int32_t n = r->found.state.front.n;
    if (!r->quiet && n > FEW)
        fprintf(r->cli->err, "pricing the front, its first %d designs whole, beside dense attention\n",
                s2_min_i32(n, S2_FOUND_WHOLE));
    const s2_status status = s2_found_gather(&r->found);
    if (status == S2_ELIMIT) {
        s2_cli_error(r->cli,
                     "a design of the front, or dense attention beside it, cannot be counted: its totals "
                     "exceed 2^63, or it takes too long; a smaller batch or a shorter context does");
        return S2_EXIT_UNDECIDED;
    }
    if (status != S2_OK)
        return s2_cli_fail(r->cli, status, "front");
    const double took = s2_steady_s() - began;
    if (!r->quiet && n > FEW && took >= 1)
        fprintf(r->cli->err, "pricing the front took %.1f s\n", took);
    return S2_EXIT_OK;
}

/* Show, store, and delete the state file if nothing is left to do. */
static s2_exit finish(s2_searching *r, bool stored)
{
    s2_found *const found = &r->found;
    /* with several ranks the state covers what they were to visit; with one, the whole shard */
    const bool complete = found->state.next == (r->job.ranks.n > 1 ? r->job.until : r->job.end);
    const int64_t visited = found->state.next - r->job.begin;
    if (found->state.refused_index >= 0) {
        const s2_exit code = s2_search_explain_refused(r);
        if (found->state.counts.refused == visited)
            return code;
    }
    S2_CLI_TRY(price_front(r));
    S2_CLI_TRY(seek_least(r));
    S2_CLI_TRY(show(r));
    S2_CLI_TRY(s2_search_explain_nothing(r));
    if (!stored) {
        S2_CLI_TRY(s2_search_file_write(r, r->cli->started_us));
        S2_CLI_TRY(s2_found_store(r->cli, found));
    }
    const bool stopped = found->state.next < found->until;
    const s2_exit confirmed = stopped ? S2_EXIT_OK : confirm(r, stored);
    /* Ctrl-C after the last visit leaves nothing to resume but a validation */
    if (complete && (!s2_search_stopped() || r->confirm.n == 0) && r->job.path != NULL)
        unlink(r->job.path);
    const s2_exit exported = s2_search_output_write(r);
    if (confirmed != S2_EXIT_OK || exported != S2_EXIT_OK)
        return s2_exit_combine(confirmed, exported);
    if (stopped) {
        fprintf(r->cli->err,
                "stopped: this is the front of the candidates visited so far; --resume continues\n");
        return S2_EXIT_UNDECIDED;
    }
    return found->n_designs > 0 ? S2_EXIT_OK : S2_EXIT_VIOLATED;
}

static s2_exit search(s2_searching *r)
{
    s2_found *const found = &r->found;
    s2_search_stop_catch();
    s2_search_job_part(&r->job, r->job.ranks.own, &found->search);
    found->until = r->job.ranks.n > 1 ? found->search.end : r->job.until;
    s2_search_state_init(&found->search, &found->state);
    s2_exit code = s2_args_has(&r->args, "resume") ? s2_search_file_resume(r) : S2_EXIT_OK;
    if (code == S2_EXIT_OK)
        code = run(r);
    bool stored = false;
    if (code == S2_EXIT_OK && r->job.ranks.own == 0 && !r->moved)
        code = s2_search_file_find_stored(r, &stored);
    if (code == S2_EXIT_OK && r->job.ranks.own == 0)
        code = finish(r, stored);
    s2_search_stop_release();
    s2_search_job_release(&r->job);
    s2_search_state_release(&found->state);
    return code;
}

/* Only rank 0 speaks and records. */
static void silence(s2_cli *cli)
{
    FILE *const nowhere = fopen("/dev/null", "w");
    if (nowhere != NULL)
        cli->out = cli->err = nowhere;
}

/* Otherwise each process would search the whole space, and all would store the same rows. */
static s2_exit refuse_apart(s2_cli *cli, const s2_args *args)
{
    if (s2_ranks_apart() == 1 || s2_args_has(args, "shard"))
        return S2_EXIT_OK;
    s2_cli_error(
        cli,
        "this is one of %lld processes, but s2 was built without MPI, so each would search the whole space",
        (long long)s2_ranks_apart());
    s2_cli_hint(cli, "make MPI=1 builds it with MPI; --shard I/N gives each process its part");
    return S2_EXIT_USAGE;
}

static s2_exit search_command(s2_searching *r, int argc, char **argv)
{
    s2_cli *const cli = r->cli;
    S2_CLI_TRY(s2_search_options_refuse(cli, argc, argv));
    S2_CLI_TRY(s2_args_parse(cli, "search", argc, argv, &r->args));
    S2_CLI_TRY(refuse_apart(cli, &r->args));
    r->quiet = s2_args_has(&r->args, "quiet");
    r->on_terminal = isatty(fileno(cli->err)) == 1;
    r->job.states = S2_NEW(&cli->arena, s2_buf, r->job.ranks.n);
    if (r->job.states == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "search");
    S2_CLI_TRY(s2_search_options_read(r));
    S2_CLI_TRY(s2_search_output_check(r));
    S2_CLI_TRY(s2_search_space_read(r));
    S2_CLI_TRY(s2_search_space_check(r));
    S2_CLI_TRY(read_shard(r));
    S2_CLI_TRY(read_limit(r));
    if (s2_args_has(&r->args, "dry-run"))
        return s2_search_describe(r);
    S2_CLI_TRY(s2_search_file_name(r));
    return search(r);
}

/*
 * Each price grows and frees megabytes of plans. If that memory went back to the system every time, the
 * kernel would clear its pages again, which took longer than the prices themselves.
 */
static void keep_memory(void)
{
#ifdef __GLIBC__
    enum { MOST_MAPPED = 1 << 25, MOST_KEPT = 1 << 28 }; /* glibc accepts no larger value for the first */
    mallopt(M_MMAP_THRESHOLD, MOST_MAPPED);
    mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
#endif
}

s2_exit s2_cmd_search(s2_cli *cli, int argc, char **argv)
{
    s2_searching *const r = s2_arena_alloc(&cli->arena, 1, sizeof *r);
    if (r == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "search");
    keep_memory();
    r->cli = cli;
    r->found.arena = &cli->arena;
    r->found.stored = !cli->no_db;
    r->job.ranks = s2_ranks_join();
    if (r->job.ranks.own != 0)
        silence(cli);
    const s2_exit code = search_command(r, argc, argv);
    s2_ranks_leave(&r->job.ranks);
    return r->job.ranks.own == 0 ? code : S2_EXIT_OK;
}
