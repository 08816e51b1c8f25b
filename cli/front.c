#include "cli/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static const s2_objective OBJECTIVES[] = {
    {"us", "predicted time, us", value_us},
    {"kv_mib", "KV cache, MiB", value_kv_mib},
    {"gpu_us", "measured time, us", value_gpu_us},
    {"density", "density", value_density},
};

/* A design with its values, for sorting. */
typedef struct candidate {
    double value[S2_FRONT_OBJECTIVES];
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

static const s2_objective *find_objective(const char *name, size_t n)
{
    for (size_t o = 0; o < sizeof OBJECTIVES / sizeof OBJECTIVES[0]; o++)
        if (strlen(OBJECTIVES[o].name) == n && strncmp(OBJECTIVES[o].name, name, n) == 0)
            return &OBJECTIVES[o];
    return NULL;
}

int s2_front_choose(s2_cli *cli, const char *list, s2_front *out)
{
    out->n_by = 0;
    for (const char *at = list; *at != '\0'; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        const s2_objective *const found = find_objective(at, n);
        if (found == NULL || out->n_by == S2_FRONT_OBJECTIVES) {
            s2_cli_error(cli, "--minimize %s: expected up to %d of us, kv_mib, gpu_us, density", list,
                         S2_FRONT_OBJECTIVES);
            return S2_EXIT_USAGE;
        }
        out->by[out->n_by++] = found;
        at += n;
    }
    return out->n_by > 0 ? S2_GO_ON : (s2_cli_error(cli, "--minimize needs a column"), S2_EXIT_USAGE);
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

static bool needs_price(const s2_front *front)
{
    for (int32_t o = 0; o < front->n_by; o++)
        if (front->by[o]->value != value_density)
            return true;
    return false;
}

int s2_front_list(s2_listing *l, const s2_args *args, s2_db *db, const s2_front *front)
{
    s2_cli *const cli = l->cli;
    s2_diag diag = {0};
    s2_db_query query = {.filter = s2_listing_filter(cli, args), .limit = S2_LIST_LIMIT_ROWS};
    bool empty;
    if (query.filter == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "filter");
    const int end = s2_listing_price(cli, args, db, needs_price(front), &query, &empty);
    if (end != S2_GO_ON)
        return end;
    const s2_status status = s2_db_list(db, &cli->arena, &query, &l->rows, &l->n_rows, &diag);
    return status == S2_OK ? S2_GO_ON : s2_listing_refuse(cli, status, query.filter, &diag);
}

s2_status s2_front_keep(s2_listing *l, const s2_front *front)
{
    candidate *const all = S2_NEW(&l->cli->arena, candidate, l->n_rows + 1);
    int32_t *const kept = S2_NEW(&l->cli->arena, int32_t, l->n_rows + 1);
    s2_db_row *const rows = S2_NEW(&l->cli->arena, s2_db_row, l->n_rows + 1);
    if (all == NULL || kept == NULL || rows == NULL)
        return S2_ENOMEM;
    int32_t n = 0;
    for (int32_t row = 0; row < l->n_rows; row++) {
        bool measured = true;
        all[n] = (candidate){.n_values = front->n_by, .name = l->rows[row].name, .row = row};
        for (int32_t o = 0; o < front->n_by; o++) {
            all[n].value[o] = front->by[o]->value(&l->rows[row]);
            measured = measured && !isnan(all[n].value[o]);
        }
        n += measured;
    }
    qsort(all, (size_t)n, sizeof *all, compare);
    const int32_t n_front = keep_front(all, n, front->distinct, kept);
    for (int32_t f = 0; f < n_front; f++)
        rows[f] = l->rows[all[kept[f]].row];
    l->rows = rows;
    l->n_rows = n_front;
    return S2_OK;
}
