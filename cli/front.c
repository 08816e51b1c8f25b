#include "cli/front.h"

s2_exit s2_front_choose(s2_cli *cli, const char *list, s2_front_spec *out)
{
    s2_diag diag = {0};
    if (s2_front_parse(list, out, &diag) == S2_OK)
        return S2_EXIT_OK;
    s2_cli_error(cli, "--minimize %s", diag.msg);
    return S2_EXIT_USAGE;
}

s2_exit s2_front_list(s2_listing *l, const s2_args *args, s2_db *db)
{
    s2_cli *const cli = l->cli;
    s2_diag diag = {0};
    s2_db_query query = {.filter = s2_listing_filter(cli, args), .limit = S2_LIST_LIMIT_ROWS};
    bool empty;
    if (query.filter == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "filter");
    S2_CLI_TRY(s2_listing_price(cli, args, db, true, &query, &empty));
    const s2_status status = s2_db_list(db, &cli->arena, &query, &l->rows, &l->n_rows, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_listing_refuse(cli, status, query.filter, &diag);
}

s2_status s2_front_leave(s2_listing *l, const s2_front_spec *front)
{
    s2_arena *const arena = &l->cli->arena;
    int32_t *const kept = S2_NEW(arena, int32_t, l->n_rows + 1);
    s2_db_row *const rows = S2_NEW(arena, s2_db_row, l->n_rows + 1);
    int32_t n_kept;
    if (kept == NULL || rows == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_front_keep(arena, front, l->rows, l->n_rows, kept, &n_kept));
    for (int32_t f = 0; f < n_kept; f++)
        rows[f] = l->rows[kept[f]];
    l->rows = rows;
    l->n_rows = n_kept;
    return S2_OK;
}
