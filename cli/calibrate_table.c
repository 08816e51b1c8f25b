#include "cli/calibrating.h"

#include <stdio.h>
#include <string.h>

#include "calibrate/table.h"
#include "cli/gpufile.h"
#include "cli/textfile.h"

/*
 * One row in three is left out of the fit, to judge it. A kernel so many times slower than any needs to be
 * was hardly meant to be timed.
 */
enum { LEFT_OUT = 3, SUSPECT = 20 };

typedef struct s2_table_run {
    s2_cli *cli;
    const s2_args *args;
    const s2_table_source *source;
    s2_gpu gpu;
    s2_pass pass; /* for rows that do not state one; S2_N_PASSES: none was named */
    s2_table table;
    s2_peer peer;
    s2_table_miss worst[S2_PEER_LAWS];
    int32_t n_dropped; /* rows of --judge that were fitted too */
} s2_table_run;

static s2_exit read_names(s2_table_run *run)
{
    const char *const pass = s2_args_str(run->args, "pass");
    const char *const gpu = run->source->gpu != NULL ? run->source->gpu : s2_args_str(run->args, "gpu");
    if (gpu == NULL) {
        s2_cli_error(run->cli, "a table of times does not say its GPU: --gpu names it");
        return S2_EXIT_USAGE;
    }
    if (s2_args_has(run->args, "rows") && !run->source->measured) {
        s2_cli_error(run->cli, "--rows cannot be combined with --from a table: its rows stay where they are");
        return S2_EXIT_USAGE;
    }
    run->pass = S2_N_PASSES;
    for (s2_pass p = 0; p < S2_N_PASSES; p++)
        run->pass = strcmp(pass, s2_pass_word(p)) == 0 ? p : run->pass;
    return s2_gpufile_read(run->cli, gpu, &run->gpu);
}

static s2_exit parse(s2_table_run *run, const char *path, char *text, size_t n_bytes, s2_table *out)
{
    s2_diag diag = {0};
    const s2_status status =
        s2_table_parse(&run->cli->arena, text, n_bytes, &run->gpu, run->pass, out, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_refuse_file(run->cli, status, path, &diag);
}

/* Every figure is reported under its name. */
static void name_peer(s2_table_run *run)
{
    const char *const word = s2_args_str(run->args, "name");
    char name[S2_PEER_NAME];
    snprintf(name, sizeof name, "%s", word != NULL ? word : run->source->kernel);
    name[strcspn(name, " \t,")] = '\0';
    s2_text_clean(run->peer.name, sizeof run->peer.name, name[0] != '\0' ? name : "table");
    snprintf(run->peer.gpu, sizeof run->peer.gpu, "%s", run->gpu.name);
    s2_text_clean(run->peer.source, sizeof run->peer.source, run->source->source);
}

/* What was fitted judges nothing, whatever the file that it is in. */
static s2_exit drop_fitted(s2_table_run *run, const char *path, s2_table *held)
{
    const int32_t n = held->n_rows;
    if (s2_table_drop_fitted(&run->cli->arena, &run->table, held) != S2_OK)
        return s2_cli_fail(run->cli, S2_ENOMEM, path);
    run->n_dropped = n - held->n_rows;
    if (held->n_rows > 0)
        return S2_EXIT_OK;
    s2_cli_error(run->cli,
                 "%s: every row is of a launch that was fitted, so none can judge: without --judge a third "
                 "of the rows is left out of the fit for that",
                 path);
    return S2_EXIT_REFUSED;
}

/* Judge with the rows left out of the fit, or with a separate table (--judge). */
static s2_exit judge(s2_table_run *run)
{
    const char *const path = s2_args_str(run->args, "judge");
    s2_table held = run->table;
    if (path != NULL) {
        char *text;
        size_t n_bytes;
        S2_CLI_TRY(s2_textfile_read(run->cli, path, &text, &n_bytes));
        S2_CLI_TRY(parse(run, path, text, n_bytes, &held));
        S2_CLI_TRY(drop_fitted(run, path, &held));
    }
    const s2_status status =
        s2_table_judge(&run->cli->arena, &held, path != NULL, &run->gpu, &run->peer, run->worst);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(run->cli, status, path != NULL ? path : "judging");
}

static void print_judged(const s2_table_run *run, s2_buf *buf)
{
    s2_buf_printf(buf, "%s on %s: errors on rows that were not fitted\n", run->peer.name, run->gpu.title);
    s2_buf_printf(buf, "  %-9s %8s %-6s %7s %7s %8s %8s %8s  %s\n", "pass", "head dim", "groups", "fitted",
                  "judged", "mean", "median", "p90", "farthest");
    for (int32_t l = 0; l < run->peer.n_laws; l++) {
        const s2_peer_law *const law = &run->peer.laws[l];
        s2_buf_printf(buf, "  %-9s %8d %-6s %7d %7d", s2_pass_word(law->kernel.pass), law->head_dim,
                      s2_peer_group_word(law->group), law->kernel.n_points, law->kernel.n_judged);
        if (law->kernel.n_judged > 0)
            s2_buf_printf(buf, " %6.1f %% %6.1f %% %6.1f %%  line %d: %s us for %s us", law->kernel.error_pct,
                          law->median_pct, law->kernel.p90_pct, run->worst[l].line,
                          s2_decimal(run->worst[l].predicted, 4).text, s2_decimal(run->worst[l].us, 4).text);
        s2_buf_puts(buf, "\n");
    }
    if (run->n_dropped > 0)
        s2_buf_printf(buf, "  %d row%s of %s judged nothing: their launches were fitted\n", run->n_dropped,
                      s2_text_plural(run->n_dropped), s2_args_str(run->args, "judge"));
}

/* Times in nanoseconds fit as well as any, and so do those of another machine. */
static void doubt(const s2_table_run *run)
{
    const double slowness = s2_table_slowness(&run->table);
    if (slowness > SUSPECT)
        s2_cli_error(run->cli,
                     "caution: the fastest row takes %.0f times as long as any kernel needs on %s: %s",
                     slowness, run->gpu.title,
                     run->source->measured ? "does it compute there?" : "is the column us in microseconds?");
}

/* With --out the page goes to standard output; else the file does, and the page goes to standard error. */
static s2_exit write_all(s2_table_run *run)
{
    const char *const path = s2_args_str(run->args, "out");
    s2_buf page = {0}, file = {0};
    print_judged(run, &page);
    s2_peer_print(&run->peer, &file);
    if (path == NULL) {
        fputs(page.status == S2_OK ? page.data : "", run->cli->err);
        s2_buf_release(&page);
        return s2_cli_print(run->cli, &file);
    }
    const s2_exit saved = s2_cli_save(run->cli, path, &file);
    if (saved == S2_EXIT_OK)
        return s2_cli_print(run->cli, &page);
    s2_buf_release(&page);
    return saved;
}

/* A law that nothing judged has no error to state. */
static s2_exit check_judged(const s2_table_run *run)
{
    for (int32_t l = 0; l < run->peer.n_laws && run->source->measured; l++)
        if (run->peer.laws[l].kernel.n_judged == 0) {
            s2_cli_error(run->cli,
                         "pass %s at head dim %d: no launch was left to judge its law: time more "
                         "(--minutes), or leave out others (--leave-out SEED)",
                         s2_pass_word(run->peer.laws[l].kernel.pass), run->peer.laws[l].head_dim);
            return S2_EXIT_REFUSED;
        }
    return S2_EXIT_OK;
}

s2_exit s2_calibrate_table(s2_cli *cli, const s2_args *args, const s2_table_source *source, char *text,
                           size_t n_bytes)
{
    s2_table_run *const run = S2_NEW(&cli->arena, s2_table_run, 1);
    int64_t seed = 1;
    s2_diag diag = {0};
    if (run == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "calibrate");
    run->cli = cli;
    run->args = args;
    run->source = source;
    S2_CLI_TRY(read_names(run));
    if (s2_args_str(args, "leave-out") != NULL)
        S2_CLI_TRY(s2_args_int(cli, args, "leave-out", 0, INT64_MAX / 8192, &seed));
    S2_CLI_TRY(parse(run, source->path, text, n_bytes, &run->table));
    name_peer(run);
    s2_table_leave_out(&run->table, (uint64_t)seed, s2_args_str(args, "judge") != NULL ? 0 : LEFT_OUT);
    const s2_status status = s2_table_fit(&cli->arena, &run->table, &run->gpu, &run->peer, &diag);
    if (status != S2_OK)
        return s2_cli_refuse_file(cli, status, source->path, &diag);
    S2_CLI_TRY(judge(run));
    S2_CLI_TRY(check_judged(run));
    doubt(run);
    return write_all(run);
}

s2_exit s2_calibrate_from(s2_cli *cli, const s2_args *args, const char *path, bool *is_table)
{
    char *text, name[S2_PEER_NAME];
    size_t n_bytes;
    S2_CLI_TRY(s2_textfile_read(cli, path, &text, &n_bytes));
    *is_table = s2_table_is(text, n_bytes);
    if (!*is_table)
        return S2_EXIT_OK;
    const char *const slash = strrchr(path, '/'), *const file = slash != NULL ? slash + 1 : path;
    snprintf(name, sizeof name, "%s", file);
    char *const end = strstr(name, ".csv");
    if (end != NULL)
        *end = '\0';
    const s2_table_source source = {.path = path, .kernel = name, .source = file};
    return s2_calibrate_table(cli, args, &source, text, n_bytes);
}
