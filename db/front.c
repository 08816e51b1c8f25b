#include "db/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/work.h"
#include "pattern/spec.h"
#include "reach/flow.h"

#define VALUE(name, value)                                                                                   \
    static double value_##name(const s2_db_row *row)                                                         \
    {                                                                                                        \
        return value;                                                                                        \
    }
VALUE(us, row->sim_us)
VALUE(gpu_us, row->gpu_us)
VALUE(kv_bytes, row->kv_bytes)
VALUE(density, row->density)
VALUE(unread, row->unread)
VALUE(loss, row->loss)
VALUE(hops, row->hops == S2_DB_NONE ? (double)NAN : (double)row->hops)
VALUE(fading, s2_flow_fading(row->flow))
VALUE(unrecalled, 1 - row->recall)

/* What a figure depends on. Weights change no time of attention, but those who ask for them mean another model. */
enum {
    WORK = 1 << S2_DB_SETTINGS | 1 << S2_DB_LLM,
    CACHE = WORK | 1 << S2_DB_BATCH | 1 << S2_DB_KV_DTYPE | 1 << S2_DB_TP,
    RUN = CACHE | 1 << S2_DB_GPU | 1 << S2_DB_DTYPE | 1 << S2_DB_KERNEL,
    TIME = RUN | 1 << S2_DB_PRICED | 1 << S2_DB_WEIGHTS
};

static const s2_front_column OBJECTIVES[] = {
    {"us", "predicted time", S2_QUANTITY_TIME, TIME, S2_FRONT_PRICED, value_us},
    {"kv_bytes", "KV cache", S2_QUANTITY_BYTES, CACHE, S2_FRONT_PRICED, value_kv_bytes},
    {"kv_mib", "KV cache", S2_QUANTITY_BYTES, CACHE, S2_FRONT_PRICED, value_kv_bytes},
    {"unread", "share of pairs unread", S2_QUANTITY_SHARE, WORK, S2_FRONT_PRICED, value_unread},
    {"gpu_us", "measured time", S2_QUANTITY_TIME, RUN, S2_FRONT_TIMED, value_gpu_us},
    {"density", "density", S2_QUANTITY_SHARE, WORK, S2_FRONT_PRICED, value_density},
    {"loss", "loss on text, nats a byte", S2_QUANTITY_COUNT, WORK, S2_FRONT_JUDGED, value_loss},
    {"unrecalled", "share not recalled", S2_QUANTITY_SHARE, WORK, S2_FRONT_JUDGED, value_unrecalled},
    {"hops", "layers until all is known", S2_QUANTITY_COUNT, WORK, S2_FRONT_MEASURED, value_hops},
    {"fading", "how many times less arrives than through dense", S2_QUANTITY_COUNT, WORK, S2_FRONT_MEASURED,
     value_fading},
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
        if (s2_text_is(OBJECTIVES[o].name, name, n))
            return &OBJECTIVES[o];
    return NULL;
}

/*
 * The front of candidates sorted by compare(): whatever dominates a candidate comes before it, and if
 * anything does, so does a member of the front.
 */
static s2_status keep_front(const candidate *sorted, int32_t n, bool distinct, int64_t *work_left,
                            int32_t *front, int32_t *n_kept)
{
    int32_t n_front = 0;
    for (int32_t candidate_no = 0; candidate_no < n; candidate_no++) {
        bool dominated = false;
        int32_t f = n_front;
        while (f-- > 0 && !dominated)
            dominated = dominates(&sorted[front[f]], &sorted[candidate_no], distinct);
        if (!s2_work_spend(work_left, n_front - f))
            return S2_ELIMIT;
        if (!dominated)
            front[n_front++] = candidate_no;
    }
    *n_kept = n_front;
    return S2_OK;
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
                               "%.80s: expected up to %d of us, kv_bytes, unread, gpu_us, density, loss, "
                               "unrecalled, hops, fading, each once",
                               list, S2_FRONT_OBJECTIVES);
        out->by[out->n_by++] = found;
        word += n;
    }
    return out->n_by > 0 ? S2_OK : s2_diag_set(diag, S2_EINVAL, 0, 0, 1, "needs a column");
}

int32_t s2_front_fit(s2_front_spec *spec, const char *phase)
{
    int32_t n = 0;
    if (strcmp(phase, s2_phase_word(S2_TRAIN)) != 0)
        return 0;
    for (int32_t at = 0; at < spec->n_by; at++)
        if (spec->by[at]->value != value_kv_bytes)
            spec->by[n++] = spec->by[at];
    const int32_t dropped = spec->n_by - n;
    spec->n_by = n;
    return dropped;
}

/* A value with both kinds of quotes, which only a foreign file can have, is left out. */
static void put_trait(s2_db_trait trait, const char *value, s2_buf *buf)
{
    const char *const column = s2_db_trait_column(trait), *const space = buf->len > 0 ? " " : "";
    const char quote = strchr(value, '"') == NULL ? '"' : '\'';
    if (strpbrk(value, " '\"") == NULL && value[0] != '\0')
        s2_buf_printf(buf, "%s%s=%s", space, column, value);
    else if (strchr(value, quote) == NULL)
        s2_buf_printf(buf, "%s%s=%c%s%c", space, column, quote, value, quote);
}

static const char *text_of(s2_arena *arena, s2_buf *buf)
{
    const char *const text =
        buf->status == S2_OK ? s2_arena_strndup(arena, buf->data != NULL ? buf->data : "", buf->len) : NULL;
    s2_buf_release(buf);
    return text;
}

/* What goes without saying where no other kind differs in it. */
static bool is_usual(const s2_db_priced *priced, s2_db_trait trait)
{
    if (trait == S2_DB_LLM)
        return true;
    const char *const dtype = priced->traits[S2_DB_DTYPE] != NULL ? priced->traits[S2_DB_DTYPE] : "bf16";
    const char *const usual[S2_DB_N_TRAITS] = {
        [S2_DB_DTYPE] = "bf16", [S2_DB_KV_DTYPE] = dtype,    [S2_DB_WEIGHTS] = dtype,
        [S2_DB_TP] = "1",       [S2_DB_KERNEL] = S2_DB_OURS, [S2_DB_SETTINGS] = S2_DB_USUAL};
    return usual[trait] != NULL && strcmp(priced->traits[trait], usual[trait]) == 0;
}

static bool differs(const s2_db_priced *priced, int32_t n, s2_db_trait trait)
{
    for (int32_t k = 1; k < n; k++)
        if (strcmp(priced[k].traits[trait], priced[0].traits[trait]) != 0)
            return true;
    return false;
}

static s2_status describe_kinds(s2_arena *arena, const s2_db_priced *priced, int32_t n, s2_front_kind *out)
{
    for (int32_t k = 0; k < n; k++) {
        s2_buf filter = {0}, words = {0};
        for (int t = 0; t < S2_DB_N_TRAITS; t++) {
            const s2_db_trait trait = (s2_db_trait)t;
            const char *const value = priced[k].traits[trait];
            if (value != NULL)
                put_trait(trait, value, &filter);
            if (value != NULL && (!is_usual(&priced[k], trait) || differs(priced, n, trait)))
                put_trait(trait, value, &words);
        }
        out[k] = (s2_front_kind){text_of(arena, &filter), text_of(arena, &words), priced[k].n};
        if (out[k].filter == NULL || out[k].words == NULL)
            return S2_ENOMEM;
    }
    return S2_OK;
}

s2_status s2_front_rivals(s2_db *db, s2_arena *arena, const s2_front_spec *spec, s2_db_query *query,
                          s2_front_kind kinds[S2_FRONT_KINDS], int32_t *n, s2_diag *diag)
{
    s2_db_priced priced[S2_FRONT_KINDS];
    const char *by[S2_FRONT_OBJECTIVES + 1] = {NULL};
    uint32_t asked = 0;
    *n = 0;
    if (query->phase == NULL)
        return S2_OK;
    for (int32_t o = 0; o < spec->n_by; o++) {
        by[o] = spec->by[o]->name;
        asked |= spec->by[o]->traits;
    }
    S2_TRY(s2_db_priced_kinds(db, arena, query, by, asked, S2_FRONT_KINDS, priced, n, diag));
    S2_TRY(describe_kinds(arena, priced, *n, kinds));
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
                        int64_t *work_left, int32_t *kept, int32_t *n_kept)
{
    candidate *const all = S2_NEW(scratch, candidate, n + 1);
    int32_t n_valued = 0;
    if (all == NULL)
        return S2_ENOMEM;
    for (int32_t row = 0; row < n; row++)
        if (has_values(spec, &rows[row]))
            all[n_valued++] = candidate_of(spec, &rows[row], row);
    qsort(all, (size_t)n_valued, sizeof *all, compare);
    S2_TRY(keep_front(all, n_valued, spec->distinct, work_left, kept, n_kept));
    for (int32_t f = 0; f < *n_kept; f++)
        kept[f] = all[kept[f]].row;
    return S2_OK;
}
