#include "db/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double value_us(const s2_db_row *row)
{
    return row->sim_us;
}
static double value_kv_bytes(const s2_db_row *row)
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
static double value_unread(const s2_db_row *row)
{
    return row->unread;
}

static const s2_front_column OBJECTIVES[] = {
    {"us", "predicted time, us", 1, value_us},
    {"kv_bytes", "KV cache, MiB", 0x1p20, value_kv_bytes},
    {"kv_mib", "KV cache, MiB", 0x1p20, value_kv_bytes},
    {"unread", "share of pairs unread", 1, value_unread},
    {"gpu_us", "measured time, us", 1, value_gpu_us},
    {"density", "density", 1, value_density},
};

/* A design with its values, for sorting. */
typedef struct candidate {
    double value[S2_FRONT_OBJECTIVES];
    int32_t n_values;
    const char *name;
    int32_t row;
} candidate;

/* By the objectives in order, then by name, so that equal designs have one order in whatever file. */
static int compare(const void *left, const void *right)
{
    const candidate *const a = left, *const b = right;
    for (int32_t n = 0; n < a->n_values; n++)
        if (a->value[n] != b->value[n])
            return a->value[n] < b->value[n] ? -1 : 1;
    const int by_name = strcmp(a->name, b->name);
    return by_name != 0 ? by_name : (a->row > b->row) - (a->row < b->row);
}

/* Nowhere worse and somewhere better; an equal design dominates only when one of equals is wanted. */
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

static const s2_front_column *find_objective(const char *name, size_t n)
{
    for (size_t o = 0; o < sizeof OBJECTIVES / sizeof OBJECTIVES[0]; o++)
        if (strlen(OBJECTIVES[o].name) == n && strncmp(OBJECTIVES[o].name, name, n) == 0)
            return &OBJECTIVES[o];
    return NULL;
}

/*
 * The front of candidates sorted by compare(): whatever dominates a candidate comes before it, and if
 * anything does, so does a member of the front.
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

static bool is_chosen(const s2_front_spec *spec, const s2_front_column *column)
{
    for (int32_t n = 0; n < spec->n_by; n++)
        if (spec->by[n] == column)
            return true;
    return false;
}

s2_status s2_front_parse(const char *list, s2_front_spec *out, s2_diag *diag)
{
    out->n_by = 0;
    for (const char *word = list; *word != '\0'; word += *word == ',') {
        const size_t n = strcspn(word, ",");
        const s2_front_column *const found = find_objective(word, n);
        if (found == NULL || is_chosen(out, found) || out->n_by == S2_FRONT_OBJECTIVES)
            return s2_diag_set(diag, S2_EINVAL, 0, 0, (int32_t)(word - list) + 1,
                               "%.80s: expected up to %d of us, kv_bytes, unread, gpu_us, density, each once",
                               list, S2_FRONT_OBJECTIVES);
        out->by[out->n_by++] = found;
        word += n;
    }
    return out->n_by > 0 ? S2_OK : s2_diag_set(diag, S2_EINVAL, 0, 0, 1, "needs a column");
}

static bool minimizes(const s2_front_spec *spec, double (*value)(const s2_db_row *row))
{
    for (int32_t o = 0; o < spec->n_by; o++)
        if (spec->by[o]->value == value)
            return true;
    return false;
}

/* A name with both kinds of quotes, which only a foreign file can have, is left out. */
static void put_gpu(const char *gpu, s2_buf *buf)
{
    const char quote = strchr(gpu, '"') == NULL ? '"' : '\'';
    if (strpbrk(gpu, " '\"") == NULL && gpu[0] != '\0')
        s2_buf_printf(buf, " gpu=%s", gpu);
    else if (strchr(gpu, quote) == NULL)
        s2_buf_printf(buf, " gpu=%c%s%c", quote, gpu, quote);
}

static const char *text_of(s2_arena *arena, s2_buf *buf)
{
    const char *const text = buf->status == S2_OK ? s2_arena_strndup(arena, buf->data, buf->len) : NULL;
    s2_buf_release(buf);
    return text;
}

static s2_status describe_kind(s2_arena *arena, const s2_db_priced *priced, bool timed, s2_front_kind *out)
{
    s2_buf buf = {0};
    if (timed) {
        s2_buf_printf(&buf, "priced=%s", priced->predicted == 1 ? "predicted" : "bound");
        put_gpu(priced->gpu, &buf);
    }
    s2_buf_printf(&buf, "%sbatch=%lld", timed ? " " : "", (long long)priced->batch);
    *out = (s2_front_kind){text_of(arena, &buf), priced->n};
    return out->filter != NULL ? S2_OK : S2_ENOMEM;
}

s2_status s2_front_rivals(s2_db *db, s2_arena *arena, const s2_front_spec *spec, s2_db_query *query,
                          s2_front_kind kinds[S2_FRONT_KINDS], int32_t *n, s2_diag *diag)
{
    const bool timed = minimizes(spec, value_us);
    s2_db_priced priced[S2_FRONT_KINDS];
    *n = 0;
    if ((!timed && !minimizes(spec, value_kv_bytes)) || query->phase == NULL)
        return S2_OK;
    S2_TRY(s2_db_priced_kinds(db, arena, query, timed, S2_FRONT_KINDS, priced, n, diag));
    for (int32_t k = 0; k < *n; k++)
        S2_TRY(describe_kind(arena, &priced[k], timed, &kinds[k]));
    if (*n == 0)
        return S2_OK;
    s2_buf filter = {0};
    s2_buf_printf(&filter, "%s %s", query->filter != NULL ? query->filter : "", kinds[0].filter);
    query->filter = text_of(arena, &filter);
    return query->filter != NULL ? S2_OK : S2_ENOMEM;
}

static bool has_values(const s2_front_spec *spec, const s2_db_row *row)
{
    for (int32_t o = 0; o < spec->n_by; o++)
        if (isnan(spec->by[o]->value(row)))
            return false;
    return true;
}

static candidate candidate_of(const s2_front_spec *spec, const s2_db_row *row, int32_t nth)
{
    candidate made = {.n_values = spec->n_by, .name = row->name, .row = nth};
    for (int32_t o = 0; o < spec->n_by; o++)
        made.value[o] = spec->by[o]->value(row);
    return made;
}

s2_status s2_front_keep(s2_arena *scratch, const s2_front_spec *spec, const s2_db_row *rows, int32_t n,
                        int32_t *kept, int32_t *n_kept)
{
    candidate *const all = S2_NEW(scratch, candidate, n + 1);
    int32_t n_valued = 0;
    if (all == NULL)
        return S2_ENOMEM;
    for (int32_t row = 0; row < n; row++)
        if (has_values(spec, &rows[row]))
            all[n_valued++] = candidate_of(spec, &rows[row], row);
    qsort(all, (size_t)n_valued, sizeof *all, compare);
    *n_kept = keep_front(all, n_valued, spec->distinct, kept);
    for (int32_t f = 0; f < *n_kept; f++)
        kept[f] = all[kept[f]].row;
    return S2_OK;
}
