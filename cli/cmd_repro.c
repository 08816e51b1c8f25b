#include "cli/commands.h"
#include "cli/options.h"
#include "cli/store.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LATEST = 20, TEXT_BYTES = 512, WORDS = 4096, DESIGNS = 20 };

static s2_status add_command(s2_cli *cli, s2_db *db, int64_t run_id, s2_buf *buf, s2_diag *diag)
{
    for (int32_t nth = 0; nth < WORDS; nth++) {
        const char *word;
        S2_TRY(s2_db_run_word(db, &cli->arena, run_id, nth, &word, diag));
        if (word == NULL)
            break;
        s2_buf_puts(buf, nth > 0 ? " " : "");
        s2_buf_shell(buf, word);
    }
    s2_buf_add(buf, "", 1);
    return buf->status;
}

static s2_exit print_command(s2_cli *cli, s2_db *db, int64_t run_id, const char *before)
{
    s2_buf raw = {0};
    s2_diag diag = {0};
    const s2_status status = add_command(cli, db, run_id, &raw, &diag);
    if (status != S2_OK) {
        s2_buf_release(&raw);
        return s2_store_report(cli, status, &diag);
    }
    const size_t cap = 3 * raw.len + 1;
    char *const clean = s2_arena_alloc(&cli->arena, cap, 1);
    if (clean != NULL)
        s2_text_clean(clean, cap, raw.data);
    s2_buf_release(&raw);
    if (clean == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "command");
    fprintf(cli->out, "%s%s\n", before, clean);
    return S2_EXIT_OK;
}

static void format_time(int64_t us, char *out, size_t cap)
{
    const time_t seconds = (time_t)(us / 1000000);
    struct tm t;
    out[0] = '\0';
    if (gmtime_r(&seconds, &t) != NULL)
        strftime(out, cap, "%Y-%m-%dT%H:%M:%SZ", &t);
}

static void print_fact(s2_cli *cli, const char *name, const char *then, const char *now)
{
    char clean[TEXT_BYTES];
    s2_text_clean(clean, sizeof clean, then[0] != '\0' ? then : "not recorded");
    if (strcmp(then, now) == 0)
        fprintf(cli->out, "  %-8s %s\n", name, clean);
    else
        fprintf(cli->out, "  %-8s %s, now %s\n", name, clean, now);
}

static void print_end(s2_cli *cli, const s2_db_run_row *run)
{
    char when[64];
    format_time(run->started_us, when, sizeof when);
    fprintf(cli->out, "  started  %s\n", when);
    if (run->exit_code == S2_DB_NONE)
        fprintf(cli->out, "  ended    unknown: killed, or still running\n");
    else
        fprintf(cli->out, "  ended    exit code %lld after %.3f s\n", (long long)run->exit_code,
                (double)run->wall_us / 1e6);
    fprintf(cli->out, "  results  %lld\n", (long long)run->n_results);
    if (run->seed != S2_DB_NONE)
        fprintf(cli->out, "  seed     %lld\n", (long long)run->seed);
}

/* The database still has patterns that came from a file or standard input, even if those are gone. */
static s2_exit print_designs(s2_cli *cli, s2_db *db, int64_t run_id)
{
    s2_db_row rows[DESIGNS];
    int32_t n_rows;
    int64_t n_all;
    s2_diag diag = {0};
    const s2_status status =
        s2_db_run_designs(db, &cli->arena, run_id, DESIGNS, rows, &n_rows, &n_all, &diag);
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    for (int32_t n = 0; n < n_rows; n++) {
        char name[TEXT_BYTES];
        s2_text_clean(name, sizeof name, rows[n].name);
        fprintf(cli->out, "  %-8s %.12s  %s\n", n == 0 ? "designs" : "", rows[n].hash, name);
    }
    if (n_all > n_rows)
        fprintf(cli->out, "  %-8s and %lld more\n", "", (long long)(n_all - n_rows));
    if (n_rows > 0)
        fprintf(cli->out, "  s2 show %.12s --canonical prints what was read\n", rows[0].hash);
    return S2_EXIT_OK;
}

static s2_exit print_run(s2_cli *cli, s2_db *db, int64_t id)
{
    s2_db_run_row run;
    int32_t n;
    s2_diag diag = {0};
    char host[256] = "", cwd[4096], machine[S2_STORE_MACHINE_BYTES];
    const s2_status status = s2_db_runs(db, &cli->arena, id, 1, &run, &n, &diag);
    if (status == S2_EINVAL) {
        s2_cli_error(cli, "%s", diag.msg);
        return S2_EXIT_USAGE;
    }
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    S2_CLI_TRY(print_command(cli, db, id, ""));
    gethostname(host, sizeof host - 1);
    print_fact(cli, "version", run.tool_version, s2_version());
    print_fact(cli, "commit", run.commit, s2_version_commit());
    print_fact(cli, "sqlite", run.sqlite_version, s2_db_library_version());
    print_fact(cli, "host", run.host, host);
    print_fact(cli, "in", run.cwd, getcwd(cwd, sizeof cwd) != NULL ? cwd : "");
    s2_store_machine(machine);
    print_fact(cli, "machine", run.machine, machine);
    print_fact(cli, "build", run.build, s2_version_build());
    print_end(cli, &run);
    return print_designs(cli, db, id);
}

static s2_exit print_latest(s2_cli *cli, s2_db *db)
{
    s2_db_run_row runs[LATEST];
    int32_t n;
    s2_diag diag = {0};
    const s2_status status = s2_db_runs(db, &cli->arena, 0, LATEST, runs, &n, &diag);
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    for (int32_t nth = 0; nth < n; nth++) {
        char when[64], before[128], code[24] = "-";
        format_time(runs[nth].started_us, when, sizeof when);
        if (runs[nth].exit_code != S2_DB_NONE)
            snprintf(code, sizeof code, "%lld", (long long)runs[nth].exit_code);
        snprintf(before, sizeof before, "%6lld  %s  exit %s  ", (long long)runs[nth].id, when, code);
        S2_CLI_TRY(print_command(cli, db, runs[nth].id, before));
    }
    return S2_EXIT_OK;
}

s2_exit s2_cmd_repro(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    int64_t id = 0;
    S2_CLI_TRY(s2_args_parse(cli, "repro", argc, argv, &args));
    if (args.n_operands == 1 && (!s2_number_parse(args.operands[0], &id) || id == 0)) {
        s2_cli_error(cli, "%s: a run is a number; s2 repro lists them", args.operands[0]);
        return S2_EXIT_USAGE;
    }
    s2_db *db;
    S2_CLI_TRY(s2_store_open(cli, S2_DB_READ, &db));
    const s2_exit code = id != 0 ? print_run(cli, db, id) : print_latest(cli, db);
    s2_db_close(&db);
    return code;
}
