#include "judge/sight.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/float16.h"
#include "pattern/dense.h"

/* ------------------------------------------------------------------ windows */

int32_t s2_sight_bits(s2_dtype dtype)
{
    static const int32_t bits[S2_N_DTYPES] = {[S2_F32] = 18, [S2_BF16] = 6, [S2_F16] = 9};
    return bits[dtype];
}

/* A kernel whose scores or partial outputs pass through the storage type rounds more than once: a bit less. */
static int32_t bits_of(const s2_harness *harness)
{
    const s2_tolerance tolerance = harness->kernel->tolerance;
    return s2_sight_bits(harness->problem.dtype) -
           (tolerance == S2_TOL_ROUNDED_SUM || tolerance == S2_TOL_ROUNDED_S);
}

/* The 18 powers of two that e4m3 has, 2^-9 to 2^8, then stand for 1 to 2^17: as many as fp32 needs. */
static const float E4M3_UNIT = 0x1p9f;

static int32_t longest_k(const s2_plan *plan)
{
    int32_t k_tok = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        k_tok = s2_max_i32(plan->seqs[seq].k_tok, k_tok);
    return k_tok;
}

static s2_status fill(s2_harness *harness, uint64_t seed)
{
    const s2_device_ops *const ops = harness->device->ops;
    S2_TRY(s2_harness_scale(harness, S2_HARNESS_UNIT, E4M3_UNIT, false));
    S2_TRY(ops->fill(harness->device, harness->q.base + S2_GUARD_BYTES, 0, harness->q.n_bytes));
    S2_TRY(ops->fill(harness->device, harness->v.base + S2_GUARD_BYTES, 0, harness->v.n_bytes));
    return s2_harness_fill_keys(harness, seed, 1.0f);
}

s2_status s2_windows_open(s2_harness *harness, uint64_t seed, s2_windows *out)
{
    const s2_attn_problem *const p = &harness->problem;
    *out = (s2_windows){.harness = harness, .n_bits = bits_of(harness)};
    out->n_tok = (int64_t)out->n_bits * p->head_dim;
    out->n = s2_ceil_div(longest_k(&harness->some), out->n_tok);
    out->v = s2_malloc((size_t)(out->n_tok * p->v.tok * s2_dtype_bytes(s2_kv_dtype(p))));
    return out->v != NULL ? fill(harness, seed) : S2_ENOMEM;
}

void s2_windows_close(s2_windows *windows)
{
    s2_free(windows->v);
    windows->v = NULL;
}

/* What V holds in a range of keys. */
typedef struct s2_showing {
    int64_t begin, n; /* keys */
    bool clear;
} s2_showing;

/* KV heads [head, head + n_heads), which are contiguous on the device. */
static s2_status show_heads(s2_windows *windows, int32_t seq, const s2_showing *showing, int32_t head,
                            int32_t n_heads)
{
    const s2_attn_problem *const p = &windows->harness->problem;
    s2_device *const device = windows->harness->device;
    const s2_dtype dtype = s2_kv_dtype(p);
    const int64_t bytes = s2_dtype_bytes(dtype);
    const size_t n_bytes = (size_t)(showing->n * p->v.tok * bytes);
    memset(windows->v, 0, n_bytes);
    for (int64_t key = 0; key < showing->n && !showing->clear; key++)
        for (int32_t g = 0; g < n_heads; g++) {
            const int64_t to = key * p->v.tok + g * p->v.head;
            s2_float_store(windows->v, dtype, to + key % p->head_dim,
                           (float)(1 << (key / p->head_dim)) / windows->harness->v_unit);
        }
    const int64_t first = s2_tensor_at(&p->v, p->k_begin_tok, seq, showing->begin, head);
    return device->ops->copy_in(device, (uint8_t *)p->v.data + first * bytes, windows->v, n_bytes);
}

static s2_status show(s2_windows *windows, int32_t seq, const s2_showing *showing)
{
    const s2_attn_problem *const p = &windows->harness->problem;
    const int32_t together = p->v.head > p->v.tok ? 1 : p->n_kv_heads;
    for (int32_t head = 0; showing->n > 0 && head < p->n_kv_heads; head += together)
        S2_TRY(show_heads(windows, seq, showing, head, together));
    return S2_OK;
}

s2_status s2_windows_set(s2_windows *windows, int64_t window, bool clear)
{
    s2_showing showing = {.begin = window * windows->n_tok, .clear = clear};
    for (int32_t seq = 0; seq < windows->harness->problem.n_seqs; seq++) {
        const int64_t left = windows->harness->some.seqs[seq].k_tok - showing.begin;
        showing.n = s2_min_i64(left, windows->n_tok);
        S2_TRY(show(windows, seq, &showing));
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ what is due */

static void expect_row(s2_sight *sight, int64_t nth)
{
    const s2_plan *const plan = &sight->harness->some;
    const s2_probe_row row = sight->row[nth];
    const s2_plan_seq lens = plan->seqs[row.seq];
    for (int64_t k_tok = 0; k_tok < lens.k_tok; k_tok++)
        if (s2_pattern_reads(plan->pattern, plan->phase, plan->layer, row.head, lens.k_tok,
                             lens.k_tok - lens.q_tok + row.q_tok, k_tok)) {
            sight->due[nth * sight->row_bytes + k_tok / 8] |= (uint8_t)(1u << (k_tok % 8));
            sight->n_due[nth]++;
        }
}

s2_status s2_sight_open(s2_harness *harness, const s2_probe_row *row, int64_t n_rows, s2_sight *out)
{
    *out = (s2_sight){.harness = harness, .row = row, .n_rows = n_rows};
    out->row_bytes = (longest_k(&harness->some) + 7) / 8;
    out->due = s2_calloc((size_t)n_rows, (size_t)out->row_bytes);
    out->n_due = s2_calloc((size_t)n_rows, sizeof *out->n_due);
    if (out->due == NULL || out->n_due == NULL)
        return S2_ENOMEM;
    for (int64_t nth = 0; nth < n_rows; nth++)
        expect_row(out, nth);
    return S2_OK;
}

void s2_sight_close(s2_sight *sight)
{
    s2_free(sight->due);
    s2_free(sight->seen);
    s2_free(sight->n_due);
    s2_free(sight->n_seen);
    *sight = (s2_sight){0};
}

/* ------------------------------------------------------------------ from columns to keys */

/* What a row gave in all windows that were looked at. */
typedef struct s2_columns {
    const float *value; /* [window][d] */
    int64_t n;
    int64_t first; /* that is not 0 */
    const int64_t *window;
    bool complete; /* these are all windows */
    int32_t n_bits;
    double slack; /* relative error of a column */
} s2_columns;

/* Whether a row that reads n keys would give these columns: integers, with as many bits as keys. */
static bool fits(const s2_columns *columns, int64_t n)
{
    const double limit = (double)(INT64_C(1) << columns->n_bits);
    int64_t n_bits = 0;
    for (int64_t column = columns->first; column < columns->n; column++) {
        const double sum = (double)columns->value[column] * (double)n, nearest = nearbyint(sum);
        if (!(fabs(sum - nearest) <= 0.001 + nearest * columns->slack) || nearest < 0.0 || nearest >= limit ||
            (nearest == 0.0 && columns->value[column] != 0.0f))
            return false;
        n_bits += __builtin_popcountll((unsigned long long)nearest);
    }
    return columns->complete ? n_bits == n : n_bits <= n;
}

/*
 * The kernel's own LSE says n; where it gives none that fits, the only n that does. In fp32, where a column
 * holds many keys, two can fit. Where not all windows were looked at the bits cannot be counted, and only a
 * number that is known serves.
 */
static int64_t find_count(const s2_columns *columns, int64_t n_due, double lse, int64_t k_tok)
{
    const double by_lse = nearbyint(exp(lse));
    int64_t found = -1;
    if (by_lse >= 0.0 && by_lse <= (double)k_tok && fits(columns, (int64_t)by_lse))
        return (int64_t)by_lse;
    if (!columns->complete)
        return fits(columns, n_due) ? n_due : -1;
    for (int64_t n = 0; n <= k_tok; n++) {
        if (!fits(columns, n))
            continue;
        if (found >= 0)
            return -1;
        found = n;
    }
    return found;
}

static void mark_keys(s2_sight *sight, int64_t nth, const s2_columns *columns, int64_t n)
{
    const int64_t dim = sight->harness->problem.head_dim;
    uint8_t *const seen = sight->seen + nth * sight->row_bytes;
    const int64_t k_tok = sight->harness->some.seqs[sight->row[nth].seq].k_tok;
    for (int64_t column = 0; column < columns->n && n > 0; column++) {
        const double nearest = nearbyint((double)columns->value[column] * (double)n);
        const int64_t sum = nearest > 0.0 && nearest < 0x1p20 ? (int64_t)nearest : 0;
        for (int32_t bit = 0; bit < columns->n_bits && sum > 0; bit++) {
            const int64_t key = (columns->window[column / dim] * columns->n_bits + bit) * dim + column % dim;
            if ((sum >> bit & 1) != 0 && key < k_tok)
                seen[key / 8] |= (uint8_t)(1u << (key % 8));
        }
    }
}

/* ------------------------------------------------------------------ looking */

static s2_status look_at(s2_sight *sight, s2_windows *windows, int64_t window, float *columns, int64_t stride,
                         s2_diag *why)
{
    const s2_attn_problem *const p = &sight->harness->problem;
    S2_TRY(s2_windows_set(windows, window, false));
    S2_TRY(s2_harness_run_rows(sight->harness, sight->row, sight->n_rows, NULL, why));
    for (int64_t nth = 0; nth < sight->n_rows; nth++) {
        const s2_probe_row row = sight->row[nth];
        const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
        for (int32_t d = 0; d < p->head_dim; d++)
            columns[nth * stride + d] = s2_float_load(s2_harness_o(sight->harness), p->dtype, o_at + d);
    }
    return s2_windows_set(windows, window, true);
}

static double lse_of(const s2_sight *sight, s2_probe_row row)
{
    const s2_attn_problem *const p = &sight->harness->problem;
    return sight->harness->kernel->no_lse
               ? NAN
               : (double)s2_harness_lse(
                     sight->harness)[s2_rows_at(&p->lse, p->q_begin_tok, row.seq, row.q_tok, row.head)];
}

s2_status s2_sight_look(s2_sight *sight, s2_windows *windows, const int64_t *window, int64_t n_windows,
                        s2_diag *why)
{
    static const double slack[S2_N_DTYPES] = {[S2_F32] = 0x1p-20, [S2_BF16] = 0x1p-7, [S2_F16] = 0x1p-10};
    const int64_t dim = sight->harness->problem.head_dim, stride = n_windows * dim;
    float *const value = s2_calloc((size_t)(sight->n_rows * stride), sizeof *value);
    s2_status status = S2_OK;
    sight->seen = s2_calloc((size_t)sight->n_rows, (size_t)sight->row_bytes);
    sight->n_seen = s2_calloc((size_t)sight->n_rows, sizeof *sight->n_seen);
    if (value == NULL || sight->seen == NULL || sight->n_seen == NULL)
        status = S2_ENOMEM;
    for (int64_t nth = 0; nth < n_windows && status == S2_OK; nth++)
        status = look_at(sight, windows, window[nth], value + nth * dim, stride, why);
    for (int64_t nth = 0; nth < sight->n_rows && status == S2_OK; nth++) {
        s2_columns columns = {.value = value + nth * stride,
                              .n = stride,
                              .window = window,
                              .complete = n_windows == windows->n,
                              .n_bits = windows->n_bits,
                              .slack = slack[sight->harness->problem.dtype]};
        while (columns.first < columns.n && columns.value[columns.first] == 0.0f)
            columns.first++;
        const int64_t n = find_count(&columns, sight->n_due[nth], lse_of(sight, sight->row[nth]),
                                     sight->harness->some.seqs[sight->row[nth].seq].k_tok);
        sight->n_seen[nth] = (int32_t)n;
        mark_keys(sight, nth, &columns, n >= 0 ? n : sight->n_due[nth]);
    }
    s2_free(value);
    return status;
}

s2_status s2_sight_reads(s2_windows *windows, s2_probe_row row, int64_t k_tok, bool *reads, s2_diag *why)
{
    const s2_attn_problem *const p = &windows->harness->problem;
    s2_showing showing = {.begin = k_tok, .n = 1}; /* column 0 of this key is 1 */
    S2_TRY(show(windows, row.seq, &showing));
    S2_TRY(s2_harness_run_rows(windows->harness, &row, 1, NULL, why));
    const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
    *reads = s2_float_load(s2_harness_o(windows->harness), p->dtype, o_at) != 0.0f;
    showing.clear = true;
    return show(windows, row.seq, &showing);
}
