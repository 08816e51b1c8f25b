#include "cli/front.h"

#include "base/work.h"

s2_exit s2_front_choose(s2_cli *cli, const char *list, s2_front_spec *out)
{
    s2_diag diag = {0};
    if (s2_front_parse(list, out, &diag) == S2_OK)
        return S2_EXIT_OK;
    s2_cli_error(cli, "--minimize %s", diag.msg);
    return S2_EXIT_USAGE;
}

/* Say what is left out, and how to list and compare it. */
static void say_rivals(s2_cli *cli, const s2_front_kind *kinds, int32_t n)
{
    char clean[512];
    if (n < 2)
        return;
    s2_text_clean(clean, sizeof clean, kinds[0].words);
    fprintf(cli->err, "only prices of one kind are compared, here those of %s; left out are\n", clean);
    for (int32_t k = 1; k < n; k++) {
        s2_text_clean(clean, sizeof clean, kinds[k].words);
        s2_cli_hint(cli, "%s of %s", s2_count_text(kinds[k].n, "design").text, clean);
    }
    if (n == S2_FRONT_KINDS)
        s2_cli_hint(cli, "and perhaps more");
    s2_cli_hint(cli, "such conditions choose them; s2 sim prices designs alike");
}

/* Leave out what no design of the phase has. */
static s2_exit fit(s2_cli *cli, s2_front_spec *front, const char *phase)
{
    if (phase == NULL || s2_front_fit(front, phase) == 0)
        return S2_EXIT_OK;
    if (front->n_by > 0) {
        s2_cli_hint(cli, "a training step keeps no cache, so that none is compared");
        return S2_EXIT_OK;
    }
    s2_cli_error(cli, "--minimize: a training step keeps no cache; us,unread are compared in every phase");
    return S2_EXIT_USAGE;
}

s2_exit s2_front_list(s2_listing *l, const s2_args *args, s2_front_spec *front, s2_db *db, const char **kind)
{
    s2_cli *const cli = l->cli;
    s2_diag diag = {0};
    const char *const filter = s2_listing_filter(cli, args);
    s2_db_query query = {.filter = filter, .limit = S2_LIST_LIMIT_ROWS};
    s2_front_kind kinds[S2_FRONT_KINDS];
    int32_t n_kinds;
    bool empty;
    if (query.filter == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "filter");
    S2_CLI_TRY(s2_listing_price(cli, args, db, true, &query, &empty));
    S2_CLI_TRY(fit(cli, front, query.phase));
    s2_status status = s2_front_rivals(db, &cli->arena, front, &query, kinds, &n_kinds, &diag);
    if (status == S2_OK)
        status = s2_db_list(db, &cli->arena, &query, &l->rows, &l->n_rows, &diag);
    int64_t n_all = l->n_rows;
    if (status == S2_OK && l->n_rows == S2_LIST_LIMIT_ROWS)
        status = s2_db_tally(db, &query, &n_all, &diag);
    if (status != S2_OK)
        return s2_listing_refuse(cli, status, filter, &diag);
    if (n_all > l->n_rows) {
        s2_cli_error(cli,
                     "front: %lld designs compete, and more than %d are not compared; conditions leave fewer",
                     (long long)n_all, (int)S2_LIST_LIMIT_ROWS);
        return S2_EXIT_UNDECIDED;
    }
    say_rivals(cli, kinds, n_kinds);
    *kind = n_kinds > 0 ? kinds[0].words : "";
    return S2_EXIT_OK;
}

s2_status s2_front_leave(s2_listing *l, const s2_front_spec *front)
{
    s2_arena *const arena = &l->cli->arena;
    int32_t *const kept = S2_NEW(arena, int32_t, l->n_rows + 1);
    s2_db_row *const rows = S2_NEW(arena, s2_db_row, l->n_rows + 1);
    int32_t n_kept;
    int64_t work_left = S2_WORK_STEPS;
    if (kept == NULL || rows == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_front_keep(arena, front, l->rows, l->n_rows, &work_left, kept, &n_kept));
    for (int32_t f = 0; f < n_kept; f++)
        rows[f] = l->rows[kept[f]];
    l->rows = rows;
    l->n_rows = n_kept;
    return S2_OK;
}

int32_t s2_front_holed(const s2_listing *l)
{
    int32_t n = 0;
    for (int32_t row = 0; row < l->n_rows; row++)
        n += l->rows[row].unions == S2_DB_VIOLATED;
    return n;
}
