#include "cli/commands.h"
#include "cli/color.h"
#include "cli/options.h"
#include "cli/store.h"

#include <string.h>

/* One word after `s2 db`. */
typedef struct action {
    const char *word;
    bool takes_file;
    s2_db_mode mode;
    s2_exit (*run)(s2_cli *cli, const s2_args *args, s2_db *db);
} action;

static s2_exit run_check(s2_cli *cli, const s2_args *args, s2_db *db)
{
    (void)args;
    s2_buf findings = {0};
    s2_diag diag = {0};
    const s2_status status = s2_db_verify(db, &findings, &diag);
    if (status != S2_OK) {
        s2_buf_release(&findings);
        return s2_store_report(cli, status, &diag);
    }
    const bool sound = findings.len == 0;
    if (sound)
        s2_buf_puts(&findings, "sound\n");
    S2_CLI_TRY(s2_color_print(cli, &findings, 0));
    if (!sound)
        s2_cli_error(cli, "the database is damaged; s2 db recover NEW saves what can be read");
    return sound ? S2_EXIT_OK : S2_EXIT_ENVIRONMENT;
}

/* Copying a database onto itself is a usage error, not a problem with the file. */
static s2_exit refuse_copy(s2_cli *cli, s2_status status, const s2_diag *diag)
{
    const s2_exit code = s2_store_report(cli, status, diag);
    return status == S2_EINVAL ? S2_EXIT_USAGE : code;
}

static s2_exit run_backup(s2_cli *cli, const s2_args *args, s2_db *db)
{
    s2_diag diag = {0};
    const s2_status status = s2_db_backup(db, args->operands[1], s2_args_has(args, "force"), &diag);
    return status == S2_OK ? S2_EXIT_OK : refuse_copy(cli, status, &diag);
}

static s2_exit run_stat(s2_cli *cli, const s2_args *args, s2_db *db)
{
    const bool json = s2_args_has(args, "json");
    s2_buf buf = {0};
    if (json) {
        s2_json_begin(&buf, '{');
        s2_json_key_str(&buf, "schema", "s2dbstat/1");
    }
    for (const char *const *table = s2_db_tables; *table != NULL; table++) {
        int64_t n_rows;
        s2_diag diag = {0};
        const s2_status status = s2_db_count(db, *table, &n_rows, &diag);
        if (status != S2_OK) {
            s2_buf_release(&buf);
            return s2_store_report(cli, status, &diag);
        }
        if (json) {
            s2_json_key_int(&buf, *table, n_rows);
        } else {
            s2_buf_printf(&buf, "%-12s %10lld\n", *table, (long long)n_rows);
        }
    }
    if (json) {
        s2_json_end(&buf, '}');
        s2_buf_puts(&buf, "\n");
    }
    return s2_cli_print(cli, &buf);
}

static bool put_line(void *user, const char *text, size_t n_bytes)
{
    s2_cli *const cli = user;
    return fwrite(text, 1, n_bytes, cli->out) == n_bytes && fputc('\n', cli->out) != EOF;
}

static s2_exit run_dump(s2_cli *cli, const s2_args *args, s2_db *db)
{
    (void)args;
    s2_diag diag = {0};
    const s2_status status = s2_db_dump(db, put_line, cli, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_store_report(cli, status, &diag);
}

static s2_exit run_merge(s2_cli *cli, const s2_args *args, s2_db *db)
{
    s2_db *other;
    s2_db_merged merged;
    s2_diag diag = {0};
    s2_status status = s2_db_open(args->operands[1], S2_DB_UNTRUSTED, &other, &diag);
    if (status == S2_OK) {
        status = s2_db_merge(db, other, &merged, &diag);
        s2_db_close(&other);
    }
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    fprintf(cli->out, "new: %s, %s, %s, %lld tags, notes, stars and views\n",
            s2_count_text(merged.n_runs, "run").text, s2_count_text(merged.n_designs, "design").text,
            s2_count_text(merged.n_results, "result").text, (long long)merged.n_people);
    if (merged.n_views_kept > 0)
        fprintf(cli->out, "not taken: %s whose name is in use here\n",
                s2_count_text(merged.n_views_kept, "view").text);
    return S2_EXIT_OK;
}

static s2_exit run_gc(s2_cli *cli, const s2_args *args, s2_db *db)
{
    (void)args;
    int64_t n;
    s2_diag diag = {0};
    const s2_status status = s2_db_collect(db, &n, &diag);
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    fprintf(cli->out, "removed for good: %s\n", s2_count_text(n, "design").text);
    return S2_EXIT_OK;
}

/* The damaged file is not opened as a database. */
static s2_exit run_recover(s2_cli *cli, const s2_args *args, s2_db *db)
{
    (void)db;
    s2_db_recovered r;
    s2_diag diag = {0};
    const s2_status status =
        s2_db_recover(s2_store_path(cli), args->operands[1], s2_args_has(args, "force"), &r, &diag);
    if (status != S2_OK)
        return refuse_copy(cli, status, &diag);
    fprintf(cli->out, "recovered: %s, %s, %s, %lld others\n", s2_count_text(r.n_runs, "run").text,
            s2_count_text(r.n_designs, "design").text, s2_count_text(r.n_results, "result").text,
            (long long)r.n_others);
    if (r.n_unreadable > 0)
        fprintf(cli->out, "%lld pages or rows could not be read\n", (long long)r.n_unreadable);
    if (r.n_forged > 0)
        fprintf(cli->out, "left out: %s whose text has another hash\n",
                s2_count_text(r.n_forged, "design").text);
    if (r.n_without_design > 0)
        fprintf(cli->out, "left out: %s whose design is lost\n",
                s2_count_text(r.n_without_design, "result").text);
    if (r.n_lost_runs > 0)
        fprintf(cli->out, "lost: %s; their results now belong to a run called 'lost'\n",
                s2_count_text(r.n_lost_runs, "run").text);
    /* the new file records where it came from */
    cli->db_path = args->operands[1];
    return s2_store_run(cli);
}

static const action ACTIONS[] = {{"check", false, S2_DB_READ, run_check},
                                 {"backup", true, S2_DB_READ, run_backup},
                                 {"stat", false, S2_DB_READ, run_stat},
                                 {"dump", false, S2_DB_READ, run_dump},
                                 {"gc", false, S2_DB_WRITE, run_gc},
                                 {"merge", true, S2_DB_WRITE, run_merge},
                                 {"recover", true, S2_DB_UNTRUSTED, run_recover}};

s2_exit s2_cmd_db(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "db", argc, argv, &args));
    s2_color_read(cli, &args);
    const action *found = NULL;
    for (size_t n = 0; n < sizeof ACTIONS / sizeof ACTIONS[0]; n++)
        if (strcmp(ACTIONS[n].word, args.operands[0]) == 0)
            found = &ACTIONS[n];
    if (found == NULL || (args.n_operands == 2) != found->takes_file) {
        s2_cli_error(cli, "expected %s", args.command->operands);
        return S2_EXIT_USAGE;
    }
    if (found->run == run_recover)
        return run_recover(cli, &args, NULL);
    if (found->mode == S2_DB_WRITE) {
        S2_CLI_TRY(s2_store_run(cli));
        return found->run(cli, &args, cli->db);
    }
    s2_db *db;
    S2_CLI_TRY(s2_store_open(cli, found->mode, &db));
    const s2_exit code = found->run(cli, &args, db);
    s2_db_close(&db);
    return code;
}
