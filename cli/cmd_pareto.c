#include "cli/commands.h"
#include "cli/front.h"

#include <math.h>
#include <stdio.h>

#include "words/holed.h"

/* Which of the columns leave designs out, or nothing to compare, and what fills them. */
static void say_lacking(s2_cli *cli, const s2_front_spec *front, const s2_db_row *rows, int32_t n,
                        int32_t n_front)
{
    static const char *const fills[S2_N_FRONT_SOURCES] = {
        [S2_FRONT_PRICED] = "; s2 sim prices them",
        [S2_FRONT_TIMED] = "; s2 validate on a GPU times them",
        [S2_FRONT_JUDGED] = "; s2 explain worth says which designs are judged",
        [S2_FRONT_MEASURED] = "; s2 reach DESIGN --len LENGTH measures them"};
    bool lacks[S2_N_FRONT_SOURCES] = {false}, some = false;
    s2_buf words = {0};
    for (int32_t o = 0; o < front->n_by; o++) {
        const s2_front_column *const by = front->by[o];
        int32_t n_with = 0;
        for (int32_t row = 0; row < n; row++)
            n_with += !isnan(by->value(&rows[row]));
        s2_buf_printf(&words, "%s%d of %d have %s", o > 0 ? ", " : "", (int)n_with, (int)n, by->name);
        lacks[by->source] |= n_with < n;
        some |= n_with < n;
    }
    for (int source = 0; source < S2_N_FRONT_SOURCES; source++)
        s2_buf_puts(&words, lacks[source] ? fills[source] : "");
    if (some && words.data != NULL)
        s2_cli_hint(cli, "%s: %s",
                    n_front > 0 ? "designs without a value are left out" : "no design has a value for each",
                    words.data);
    s2_buf_release(&words);
}

static s2_exit print_front(s2_listing *l, s2_db *db, const s2_args *args, s2_front_spec *front)
{
    s2_cli *const cli = l->cli;
    const char *kind;
    char clean[512];
    S2_CLI_TRY(s2_front_list(l, args, front, db, &kind));
    s2_text_clean(clean, sizeof clean, kind);
    const int32_t n_rows = l->n_rows;
    const s2_db_row *const rows = l->rows;
    const s2_status found = s2_front_leave(l, front);
    if (found != S2_OK)
        return s2_cli_fail(cli, found, "front (conditions leave fewer designs)");
    const s2_exit code = s2_listing_print(l, s2_listing_format(args));
    fflush(cli->out);
    fputs("on the front of ", cli->err);
    for (int32_t o = 0; o < front->n_by; o++)
        fprintf(cli->err, "%s%s", o > 0 ? "," : "", front->by[o]->name);
    fprintf(cli->err, "%s%s: %d of %s\n", clean[0] != '\0' ? ", " : "", clean, l->n_rows,
            s2_count_text(n_rows, "design").text);
    s2_buf holed = {0};
    s2_holed_print(s2_front_holed(l), &holed);
    if (holed.len > 0)
        s2_cli_hint(cli, "%.*s", (int)holed.len, holed.data);
    s2_buf_release(&holed);
    s2_listing_say_worth(l);
    if (n_rows == 0)
        s2_listing_say_missing(cli, db, s2_listing_filter(cli, args));
    if (n_rows == 0)
        s2_cli_hint(cli,
                    "no design that meets the conditions has such a price; --phase and --len choose others");
    say_lacking(cli, front, rows, n_rows, l->n_rows);
    return code;
}

s2_exit s2_cmd_pareto(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_listing l = {.cli = cli};
    s2_front_spec front;
    S2_CLI_TRY(s2_args_parse(cli, "pareto", argc, argv, &args));
    S2_CLI_TRY(s2_listing_choose(&l, &args));
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
