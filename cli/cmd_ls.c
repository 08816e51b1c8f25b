#include "cli/commands.h"
#include "cli/listing.h"

static int list(s2_listing *l, s2_db *db, const s2_db_query *query, const char *format)
{
    s2_diag diag = {0};
    const s2_status status = s2_db_list(db, &l->cli->arena, query, &l->rows, &l->n_rows, &diag);
    if (status != S2_OK)
        return s2_listing_refuse(l->cli, status, query->filter, &diag);
    const int code = s2_listing_print(l, format);
    fflush(l->cli->out);
    if (l->n_rows == query->limit)
        fprintf(l->cli->err, "more with --after %lld\n", (long long)l->rows[l->n_rows - 1].id);
    return code;
}

int s2_cmd_ls(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    int end = s2_args_parse(cli, "ls", argc, argv, &args);
    if (end != S2_GO_ON)
        return end;
    s2_listing l = {.cli = cli};
    int64_t limit, after = 0;
    if ((end = s2_listing_choose(&l, s2_args_str(&args, "columns"))) != S2_GO_ON ||
        (end = s2_args_int(cli, &args, "limit", 1, S2_LIST_LIMIT_ROWS, &limit)) != S2_GO_ON ||
        (s2_args_has(&args, "after") &&
         (end = s2_args_int(cli, &args, "after", 1, INT64_C(1) << 53, &after)) != S2_GO_ON))
        return end;
    const char *const sort = s2_args_str(&args, "sort");
    const s2_db_query query = {.filter = s2_listing_filter(cli, &args),
                               .sort = sort + (sort[0] == '-'),
                               .descending = sort[0] == '-',
                               .limit = (int32_t)limit,
                               .after_id = after,
                               .trash = s2_args_has(&args, "trash")};
    if (query.filter == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "filter");
    if (!s2_listing_has_database(cli))
        return S2_EXIT_OK;
    s2_db *db;
    if ((end = s2_store_open(cli, S2_DB_READ, &db)) != S2_GO_ON)
        return end;
    const int code = list(&l, db, &query, s2_args_str(&args, "format"));
    s2_db_close(&db);
    return code;
}
