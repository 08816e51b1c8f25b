#include "cli/commands.h"
#include "cli/front.h"

#include <stdio.h>

static s2_exit print_front(s2_listing *l, s2_db *db, const s2_args *args, const s2_front_spec *front)
{
    s2_cli *const cli = l->cli;
    const char *kind;
    char clean[512];
    S2_CLI_TRY(s2_front_list(l, args, front, db, &kind));
    s2_text_clean(clean, sizeof clean, kind);
    const int32_t n_rows = l->n_rows;
    const s2_status found = s2_front_leave(l, front);
    if (found != S2_OK)
        return s2_cli_fail(cli, found, "front");
    const s2_exit code = s2_listing_print(l, s2_listing_format(args));
    fflush(cli->out);
    fprintf(cli->err, "on the front of %s%s%s: %d of %d design%s\n", s2_args_str(args, "minimize"),
            clean[0] != '\0' ? ", " : "", clean, (int)l->n_rows, (int)n_rows, s2_text_plural(n_rows));
    if (l->n_rows == 0 && n_rows > 0)
        s2_cli_hint(cli,
                    "no design has a value for each: s2 sim prices them, s2 validate on a GPU times them");
    return code;
}

s2_exit s2_cmd_pareto(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_listing l = {.cli = cli};
    s2_front_spec front;
    S2_CLI_TRY(s2_args_parse(cli, "pareto", argc, argv, &args));
    S2_CLI_TRY(s2_listing_choose(&l, s2_args_str(&args, "columns")));
    S2_CLI_TRY(s2_front_choose(cli, s2_args_str(&args, "minimize"), &front));
    front.distinct = s2_args_has(&args, "distinct");
    if (!s2_listing_has_database(cli))
        return S2_EXIT_OK;
    s2_db *db;
    S2_CLI_TRY(s2_store_open(cli, S2_DB_READ, &db));
    const s2_exit code = print_front(&l, db, &args, &front);
    s2_db_close(&db);
    return code;
}
