#include "cli/commands.h"
#include "cli/listing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OBJECTIVES = 4 };

/* What may be minimised: a column, and its value in a row (NAN: none). */
typedef struct objective {
    const char *name;
    double (*value)(const s2_db_row *row);
} objective;

static double value_us(const s2_db_row *row)
{
    return row->sim_us;
}
static double value_kv_mib(const s2_db_row *row)
{
    return row->kv_bytes;
}
static double value_gpu_us(const s2_db_row *row)
{
    return row->gpu_us;
}
static double value_density(const s2_db_row *row)
{
    return row->density;
}

static const objective OBJECTIVES[] = {
    {"us", value_us}, {"kv_mib", value_kv_mib}, {"gpu_us", value_gpu_us}, {"density", value_density}};

/* A design with its values, for sorting. */
typedef struct candidate {
    double value[MAX_OBJECTIVES];
    int32_t n_values;
    const char *name;
    int32_t row;
} candidate;

/* By the objectives in turn, then by name, so that equal designs keep an order wherever they were found. */
static int compare(const void *left, const void *right)
{
    const candidate *const a = left, *const b = right;
    for (int32_t n = 0; n < a->n_values; n++)
        if (a->value[n] != b->value[n])
            return a->value[n] < b->value[n] ? -1 : 1;
    const int by_name = strcmp(a->name, b->name);
    return by_name != 0 ? by_name : (a->row > b->row) - (a->row < b->row);
}

/* Nowhere worse; what is equal everywhere dominates only where one of equals is wanted. */
static bool dominates(const candidate *a, const candidate *b, bool distinct)
{
    bool better = distinct;
    for (int32_t n = 0; n < a->n_values; n++) {
        if (a->value[n] > b->value[n])
            return false;
        better = better || a->value[n] < b->value[n];
    }
    return better;
}

static int choose_objectives(s2_cli *cli, const char *list, const objective **chosen, int32_t *n_chosen)
{
    *n_chosen = 0;
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        const objective *found = NULL;
        for (size_t o = 0; o < sizeof OBJECTIVES / sizeof OBJECTIVES[0]; o++)
            if (strlen(OBJECTIVES[o].name) == n && strncmp(OBJECTIVES[o].name, at, n) == 0)
                found = &OBJECTIVES[o];
        if (found == NULL || *n_chosen == MAX_OBJECTIVES) {
            s2_cli_error(cli, "--minimize %s: expected up to %d of us, kv_mib, gpu_us, density", list,
                         MAX_OBJECTIVES);
            return S2_EXIT_USAGE;
        }
        chosen[(*n_chosen)++] = found;
        at += n;
    }
    return *n_chosen > 0 ? S2_GO_ON : (s2_cli_error(cli, "--minimize needs a column"), S2_EXIT_USAGE);
}

/*
 * The front of candidates sorted by compare(): what dominates a candidate comes before it, and if anything
 * does, a member of the front does.
 */
static int32_t keep_front(const candidate *sorted, int32_t n, bool distinct, int32_t *front)
{
    int32_t n_front = 0;
    for (int32_t at = 0; at < n; at++) {
        bool dominated = false;
        for (int32_t f = n_front; f-- > 0 && !dominated;)
            dominated = dominates(&sorted[front[f]], &sorted[at], distinct);
        if (!dominated)
            front[n_front++] = at;
    }
    return n_front;
}

static s2_status find_front(s2_arena *arena, const objective *const *by, int32_t n_by, bool distinct,
                            s2_listing *l)
{
    candidate *const all = S2_NEW(arena, candidate, l->n_rows + 1);
    int32_t *const front = S2_NEW(arena, int32_t, l->n_rows + 1);
    s2_db_row *const rows = S2_NEW(arena, s2_db_row, l->n_rows + 1);
    if (all == NULL || front == NULL || rows == NULL)
        return S2_ENOMEM;
    int32_t n = 0;
    for (int32_t row = 0; row < l->n_rows; row++) {
        bool measured = true;
        all[n] = (candidate){.n_values = n_by, .name = l->rows[row].name, .row = row};
        for (int32_t o = 0; o < n_by; o++) {
            all[n].value[o] = by[o]->value(&l->rows[row]);
            measured = measured && !isnan(all[n].value[o]);
        }
        n += measured;
    }
    qsort(all, (size_t)n, sizeof *all, compare);
    const int32_t n_front = keep_front(all, n, distinct, front);
    for (int32_t f = 0; f < n_front; f++)
        rows[f] = l->rows[all[front[f]].row];
    l->rows = rows;
    l->n_rows = n_front;
    return S2_OK;
}

static bool needs_price(const objective *const *by, int32_t n_by)
{
    for (int32_t o = 0; o < n_by; o++)
        if (by[o]->value != value_density)
            return true;
    return false;
}

static int print_front(s2_listing *l, s2_db *db, const s2_args *args, const objective *const *by,
                       int32_t n_by)
{
    s2_cli *const cli = l->cli;
    s2_diag diag = {0};
    s2_db_query query = {.filter = s2_listing_filter(cli, args), .limit = S2_LIST_LIMIT_ROWS};
    bool empty;
    if (query.filter == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "filter");
    const int end = s2_listing_price(cli, args, db, needs_price(by, n_by), &query, &empty);
    if (end != S2_GO_ON)
        return end;
    const s2_status status = s2_db_list(db, &cli->arena, &query, &l->rows, &l->n_rows, &diag);
    if (status != S2_OK)
        return s2_listing_refuse(cli, status, query.filter, &diag);
    const int32_t n_rows = l->n_rows;
    const s2_status found = find_front(&cli->arena, by, n_by, s2_args_has(args, "distinct"), l);
    if (found != S2_OK)
        return s2_cli_fail(cli, found, "front");
    const int code = s2_listing_print(l, s2_args_str(args, "format"));
    fflush(cli->out);
    fprintf(cli->err, "%d of %d designs are on the front of %s\n", (int)l->n_rows, (int)n_rows,
            s2_args_str(args, "minimize"));
    return code;
}

int s2_cmd_pareto(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_listing l = {.cli = cli};
    const objective *by[MAX_OBJECTIVES];
    int32_t n_by;
    int end = s2_args_parse(cli, "pareto", argc, argv, &args);
    if (end != S2_GO_ON || (end = s2_listing_choose(&l, s2_args_str(&args, "columns"))) != S2_GO_ON ||
        (end = choose_objectives(cli, s2_args_str(&args, "minimize"), by, &n_by)) != S2_GO_ON)
        return end;
    if (!s2_listing_has_database(cli))
        return S2_EXIT_OK;
    s2_db *db;
    if ((end = s2_store_open(cli, S2_DB_READ, &db)) != S2_GO_ON)
        return end;
    const int code = print_front(&l, db, &args, by, n_by);
    s2_db_close(&db);
    return code;
}
