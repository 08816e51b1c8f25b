#include "cli/commands.h"
#include "cli/listing.h"

#include <math.h>
#include <string.h>

static bool has_price(const s2_db_row *row)
{
    return row->phase[0] != '\0';
}

static bool is_other_work(const s2_db_row *a, const s2_db_row *b)
{
    return strcmp(a->phase, b->phase) != 0 || a->len_tok != b->len_tok;
}

static void say_unless(FILE *err, const char *column, const char *value, const char *usual)
{
    char clean[128];
    s2_text_clean(clean, sizeof clean, value);
    if (strcmp(value, usual) != 0)
        fprintf(err, " %s=%s", column, clean);
}

/* Traits of every price that are unusual and that the usual columns do not show. */
static void say_kind(FILE *err, const s2_db_row *row)
{
    if (strcmp(row->dtype, "bf16") == 0 && strcmp(row->kv_dtype, row->dtype) == 0 &&
        strcmp(row->weights, row->dtype) == 0 && strcmp(row->kernel, S2_DB_OURS) == 0 &&
        strcmp(row->settings, S2_DB_USUAL) == 0)
        return;
    fputs("these prices are of", err);
    say_unless(err, "dtype", row->dtype, "bf16");
    say_unless(err, "kv_dtype", row->kv_dtype, row->dtype);
    say_unless(err, "weights", row->weights, row->dtype);
    say_unless(err, "kernel", row->kernel, S2_DB_OURS);
    say_unless(err, "settings", row->settings, S2_DB_USUAL);
    fputs("\n", err);
}

/* Says that two shares in one row are of different queries. */
static void say_shares(const s2_listing *l)
{
    if (!s2_listing_shows(l, "density") || !s2_listing_shows(l, "unread"))
        return;
    for (int32_t row = 0; row < l->n_rows; row++)
        if (strcmp(l->rows[row].phase, "decode") == 0 && !isnan(l->rows[row].density)) {
            fputs("density of decode is what the last query reads; unread is of all queries of the context\n",
                  l->cli->err);
            return;
        }
}

/*
 * The traits in which the prices of a table differ, as "gpu (h200, h100-sxm), tp (1, 2)"; false if there is
 * none.
 */
static bool put_differences(const s2_listing *l, s2_buf *buf)
{
    for (int t = 0; t < S2_DB_N_TRAITS; t++) {
        const char *const column = s2_db_trait_column((s2_db_trait)t);
        s2_buf values = {0};
        if (s2_listing_values(l, column, &values) > 1 && values.status == S2_OK)
            s2_buf_printf(buf, "%s%s (%s)", buf->len > 0 ? ", " : "", column, values.data);
        s2_buf_release(&values);
    }
    return buf->len > 0;
}

/* Warn when a table mixes prices of different lengths, or of different kinds: they do not compare. */
static void say_mixture(const s2_listing *l)
{
    const s2_db_row *first = NULL;
    s2_buf differences = {0};
    bool works = false;
    for (int32_t row = 0; row < l->n_rows; row++) {
        if (!has_price(&l->rows[row]))
            continue;
        first = first != NULL ? first : &l->rows[row];
        works |= is_other_work(&l->rows[row], first);
    }
    if (works)
        fprintf(l->cli->err, "these designs have prices of several phases or lengths (columns phase and "
                             "len); --phase and --len choose one\n");
    if (put_differences(l, &differences))
        fprintf(l->cli->err,
                "these prices cannot be compared because they differ in %s; choose one kind by conditions on "
                "these columns\n",
                differences.data);
    else if (first != NULL)
        say_kind(l->cli->err, first);
    s2_buf_release(&differences);
    s2_listing_say_worth(l);
}

/* A design is listed by its latest price, so a condition on prices may pass over one that has others. */
static void say_earlier(const s2_listing *l, s2_db *db, const s2_db_query *query)
{
    s2_db_query other = *query;
    s2_diag diag = {0};
    if (query->phase != NULL || query->len_tok != 0 ||
        s2_db_common_price(db, &l->cli->arena, query->filter, &other.phase, &other.len_tok, &diag) != S2_OK ||
        other.phase == NULL)
        return;
    s2_cli_hint(l->cli,
                "the latest price of no design passes this, an earlier one does: --phase %s --len %lld",
                other.phase, (long long)other.len_tok);
}

static s2_exit list(s2_listing *l, s2_db *db, const s2_db_query *query, const char *format)
{
    s2_diag diag = {0};
    const s2_status status = s2_db_list(db, &l->cli->arena, query, &l->rows, &l->n_rows, &diag);
    if (status != S2_OK)
        return s2_listing_refuse(l->cli, status, query->filter, &diag);
    const s2_exit code = s2_listing_print(l, format);
    fflush(l->cli->out);
    if (l->n_rows == 0)
        s2_listing_say_missing(l->cli, db, query->filter);
    if (l->n_rows == 0 && query->filter[0] != '\0')
        say_earlier(l, db, query);
    say_mixture(l);
    say_shares(l);
    if (l->n_rows == query->limit)
        fprintf(l->cli->err, "more with --after %lld\n", (long long)l->rows[l->n_rows - 1].id);
    return code;
}

/* Find the view saved under a name; if there is none, list the names that exist. */
static s2_exit find_view(s2_cli *cli, s2_db *db, const char *name, s2_db_view *found)
{
    enum { MOST = 256 };
    s2_db_view *const views = S2_NEW(&cli->arena, s2_db_view, MOST);
    int32_t n = 0;
    s2_diag diag = {0};
    if (views == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "view");
    const s2_status status = s2_db_views(db, &cli->arena, MOST, views, &n, &diag);
    if (status != S2_OK)
        return s2_store_report(cli, status, &diag);
    for (int32_t nth = 0; nth < n; nth++)
        if (strcmp(views[nth].name, name) == 0) {
            *found = views[nth];
            return S2_EXIT_OK;
        }
    s2_cli_error(cli, "no view '%s' is saved; --keep-view, or W in s2 tui, saves one", name);
    for (int32_t at = 0; at < n; at++)
        s2_cli_hint(cli, "%s: %s", views[at].name, views[at].filter);
    return S2_EXIT_USAGE;
}

/* Use the filter and order saved under a name; the command line's filter is added, its order wins. */
static s2_exit use_view(s2_cli *cli, const s2_args *args, s2_db *db, s2_db_query *query)
{
    s2_db_view view;
    S2_CLI_TRY(find_view(cli, db, s2_args_str(args, "view"), &view));
    s2_buf filter = {0};
    s2_buf_printf(&filter, "%s%s%s", view.filter, query->filter[0] != '\0' ? " " : "", query->filter);
    query->filter = filter.status == S2_OK ? s2_arena_strndup(&cli->arena, filter.data, filter.len) : NULL;
    s2_buf_release(&filter);
    if (!s2_args_has(args, "sort")) {
        query->sort = view.sort;
        query->descending = view.descending;
    }
    return query->filter != NULL ? S2_EXIT_OK : s2_cli_fail(cli, S2_ENOMEM, "view");
}

static s2_exit show_list(s2_listing *l, const s2_args *args, s2_db *db, s2_db_query *query)
{
    bool empty;
    if (s2_args_has(args, "view"))
        S2_CLI_TRY(use_view(l->cli, args, db, query));
    S2_CLI_TRY(s2_listing_price(l->cli, args, db, false, query, &empty));
    return empty ? S2_EXIT_OK : list(l, db, query, s2_listing_format(args));
}

static s2_exit keep_view(s2_cli *cli, s2_db *db, const char *name, const s2_db_query *query)
{
    const s2_db_view view = {name, query->filter, query->sort, query->descending};
    s2_diag diag = {0};
    const s2_status status = s2_db_view_put(db, &view, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_store_report(cli, status, &diag);
}

static s2_exit drop_view(s2_cli *cli, s2_db *db, const char *name)
{
    s2_db_view view;
    S2_CLI_TRY(find_view(cli, db, name, &view));
    s2_diag diag = {0};
    const s2_status status = s2_db_view_drop(db, name, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_store_report(cli, status, &diag);
}

s2_exit s2_cmd_ls(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "ls", argc, argv, &args));
    s2_listing l = {.cli = cli};
    int64_t limit, after = 0;
    S2_CLI_TRY(s2_listing_choose(&l, &args));
    S2_CLI_TRY(s2_args_int(cli, &args, "limit", 1, S2_LIST_LIMIT_ROWS, &limit));
    if (s2_args_has(&args, "after"))
        S2_CLI_TRY(s2_args_int(cli, &args, "after", 1, INT64_C(1) << 53, &after));
    const char *const sort = s2_args_str(&args, "sort");
    s2_db_query query = {.filter = s2_listing_filter(cli, &args),
                         .sort = sort + (sort[0] == '-'),
                         .descending = sort[0] == '-',
                         .limit = (int32_t)limit,
                         .after_id = after,
                         .trash = s2_args_has(&args, "trash")};
    if (query.filter == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "filter");
    if (!s2_listing_has_database(cli))
        return S2_EXIT_OK;
    const bool drops = s2_args_has(&args, "drop-view"), keeps = s2_args_has(&args, "keep-view");
    s2_db *db;
    S2_CLI_TRY(s2_store_open(cli, drops || keeps ? S2_DB_WRITE : S2_DB_READ, &db));
    s2_exit end =
        drops ? drop_view(cli, db, s2_args_str(&args, "drop-view")) : show_list(&l, &args, db, &query);
    if (end == S2_EXIT_OK && keeps) /* save a filter only after it could be listed */
        end = keep_view(cli, db, s2_args_str(&args, "keep-view"), &query);
    s2_db_close(&db);
    return end;
}
