/*
 * With Q = 0 every key that a row reads has weight 1/n. V[k][d] = 2^j for key k = window + j * D + d and 0
 * elsewhere: output column d times n is then the sum of 2^j over the keys of that column that were read, an
 * integer whose bits name them. Few enough bits are used that the rounding of the output cannot reach 1/2.
 */
#include "judge/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/text.h"
#include "kernels/float16.h"
#include "pattern/dense.h"

/* ------------------------------------------------------------------ rows */

/* Which heads are looked at: all, or every head_step-th. */
static bool is_looked_at(const s2_plan_item *item, int32_t head_step)
{
    return item->head % head_step < item->n_heads;
}

static int64_t count_rows(const s2_harness *harness, int32_t head_step, int64_t *pairs, int64_t *n_items)
{
    int64_t n = 0;
    *pairs = 0;
    *n_items = 0;
    for (int32_t nth = 0; nth < harness->some.n_items; nth++) {
        const s2_plan_item *const item = &harness->some.items[nth];
        int64_t end;
        const int64_t begin = s2_harness_item_queries(&harness->some, item, &end);
        if (!is_looked_at(item, head_step))
            continue;
        *n_items += 1;
        n += (end - begin) * item->n_heads;
        *pairs += (end - begin) * item->n_heads * harness->some.seqs[item->seq].k_tok;
    }
    return n;
}

/* per_item rows of each item's heads: both ends, the rest drawn; 0: all. */
static int64_t add_item(const s2_plan *plan, const s2_plan_item *item, int64_t per_item, s2_rng *rng,
                        s2_probe_row *rows)
{
    int64_t end, n = 0;
    const int64_t begin = s2_harness_item_queries(plan, item, &end), n_rows = end - begin;
    for (int32_t head = item->head; head < item->head + item->n_heads; head++)
        for (int64_t row = 0; row < (per_item > 0 && per_item < n_rows ? per_item : n_rows); row++) {
            int64_t q_tok = begin + row;
            if (per_item > 0 && per_item < n_rows && row == 1)
                q_tok = end - 1;
            else if (per_item > 0 && per_item < n_rows)
                q_tok = begin + (int64_t)s2_rng_below(rng, (uint64_t)n_rows);
            rows[n++] = (s2_probe_row){item->seq, (int32_t)q_tok, head};
        }
    return n;
}

s2_status s2_probe_rows_choose(const s2_harness *harness, int64_t budget_pairs, uint64_t seed, bool few_heads,
                               s2_probe_rows *rows)
{
    int64_t pairs, n_items, per_item = 0, step = 1, n = 0, nth = 0;
    const s2_plan *const plan = &harness->some;
    const int32_t head_step = few_heads && plan->pattern->n_heads > 4 ? plan->pattern->n_heads / 4 : 1;
    const int64_t n_all = count_rows(harness, head_step, &pairs, &n_items);
    s2_rng rng = {seed ^ UINT64_C(0x726f7773)};
    if (pairs > budget_pairs) {
        int64_t wanted = (int64_t)((double)n_all * ((double)budget_pairs / (double)pairs));
        wanted = wanted > 8 ? wanted : 8;
        per_item = wanted / n_items > 2 ? wanted / n_items : 2;
        step = wanted < 2 * n_items ? 2 * n_items / wanted + 1 : 1;
    }
    s2_probe_row *const row = s2_calloc((size_t)n_all, sizeof *row);
    if (row == NULL)
        return S2_ENOMEM;
    for (int64_t item = 0; item < plan->n_items; item++)
        if (is_looked_at(&plan->items[item], head_step) && nth++ % step == 0)
            n += add_item(plan, &plan->items[item], per_item, &rng, &row[n]);
    *rows =
        (s2_probe_rows){row, n, per_item == 0 && head_step == 1 && plan->n_items == harness->whole.n_items};
    return S2_OK;
}

/* ------------------------------------------------------------------ the probe */

typedef struct s2_touch {
    s2_harness *harness;
    s2_validation *out;
    s2_probe_rows rows;
    int64_t row_bytes; /* of one row of `expected` */
    uint8_t *expected; /* [row][key / 8] */
    int32_t *n_keys;   /* [row]: keys that the pattern reads */
    int32_t n_bits;    /* keys per column */
    uint8_t *window_v; /* one window of V, every KV head, in the device's layout */
} s2_touch;

static bool expects(const s2_touch *touch, int64_t row, int64_t k_tok)
{
    return (touch->expected[row * touch->row_bytes + k_tok / 8] >> (k_tok % 8) & 1) != 0;
}

static void expect_rows(s2_touch *touch)
{
    const s2_plan *const plan = &touch->harness->some;
    for (int64_t nth = 0; nth < touch->rows.n; nth++) {
        const s2_probe_row row = touch->rows.row[nth];
        const s2_plan_seq lens = plan->seqs[row.seq];
        for (int64_t k_tok = 0; k_tok < lens.k_tok; k_tok++)
            if (s2_pattern_reads(plan->pattern, plan->phase, plan->layer, row.head, lens.k_tok,
                                 lens.k_tok - lens.q_tok + row.q_tok, k_tok)) {
                touch->expected[nth * touch->row_bytes + k_tok / 8] |= (uint8_t)(1u << (k_tok % 8));
                touch->n_keys[nth]++;
            }
    }
}

/*
 * Sums of n_bits powers of two survive the output's rounding: error below 2^n_bits times half an ulp < 1/4. A
 * kernel whose scores or partial outputs pass through the storage type rounds more than once, which costs a
 * bit.
 */
static int32_t bits_of(const s2_harness *harness)
{
    static const int32_t bits[S2_N_DTYPES] = {[S2_F32] = 18, [S2_BF16] = 6, [S2_F16] = 9};
    return bits[harness->problem.dtype] - (harness->kernel->tolerance >= S2_TOL_ROUNDED_SUM);
}

static int64_t window_tok(const s2_touch *touch)
{
    return (int64_t)touch->n_bits * touch->harness->problem.head_dim;
}

/* Keys [begin, begin + n) of KV heads [head, head + n_heads), which are contiguous on the device. */
static s2_status set_heads(s2_touch *touch, int32_t seq, int64_t begin, int64_t n, int32_t head,
                           int32_t n_heads, bool clear)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    const int64_t bytes = s2_dtype_bytes(p->dtype);
    const size_t n_bytes = (size_t)(n * p->v.tok * bytes);
    memset(touch->window_v, 0, n_bytes);
    for (int64_t key = 0; key < n && !clear; key++)
        for (int32_t g = 0; g < n_heads; g++)
            s2_float_store(touch->window_v, p->dtype, key * p->v.tok + g * p->v.head + key % p->head_dim,
                           (float)(1 << (key / p->head_dim)));
    const int64_t at = s2_tensor_at(&p->v, p->k_begin_tok, seq, begin, head);
    return touch->harness->device->ops->copy_in(touch->harness->device, (uint8_t *)p->v.data + at * bytes,
                                                touch->window_v, n_bytes);
}

/* Keys [begin, begin + window) of every sequence get their powers of two, or zeros again. */
static s2_status set_window(s2_touch *touch, int64_t begin, bool clear)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    const int32_t together = p->v.head > p->v.tok ? 1 : p->n_kv_heads;
    for (int32_t seq = 0; seq < p->n_seqs; seq++) {
        const int64_t left = touch->harness->some.seqs[seq].k_tok - begin;
        const int64_t n = left < window_tok(touch) ? left : window_tok(touch);
        for (int32_t head = 0; n > 0 && head < p->n_kv_heads; head += together)
            S2_TRY(set_heads(touch, seq, begin, n, head, together, clear));
    }
    return S2_OK;
}

static s2_outcome convict(s2_touch *touch, int64_t at, int64_t k_tok, bool read)
{
    const s2_probe_row row = touch->rows.row[at];
    if (!touch->out->has_wrong_pair) {
        const s2_plan_seq lens = touch->harness->some.seqs[row.seq];
        touch->out->has_wrong_pair = true;
        touch->out->wrong_head = row.head;
        touch->out->wrong_q_tok = lens.k_tok - lens.q_tok + row.q_tok;
        touch->out->wrong_k_tok = k_tok;
    }
    if (touch->out->touch_wrong++ == 0)
        snprintf(touch->out->reason, sizeof touch->out->reason,
                 "layer %d, head %d, sequence %d: query %d %s key %lld", touch->harness->some.layer, row.head,
                 row.seq, row.q_tok, read ? "reads, against the pattern," : "does not read",
                 (long long)k_tok);
    return S2_OUTCOME_WRONG_PAIRS;
}

/* An output column's integer, from the number of keys read, which the LSE gives: all scores are equal. */
static double by_keys_read(float o, double lse, double by_pattern)
{
    const double n = nearbyint(exp(lse)), sum = (double)o * n;
    return n >= 1 && n < 0x1p31 && fabs(sum - nearbyint(sum)) <= 0.3 ? sum : by_pattern;
}

/* One output column of one row: its integer, bit by bit. */
static s2_outcome check_column(s2_touch *touch, int64_t at, int64_t begin, int32_t d, float o, double lse)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    const int64_t k_tok_end = touch->harness->some.seqs[touch->rows.row[at].seq].k_tok;
    const double sum = (double)o * touch->n_keys[at];
    int64_t want = 0;
    for (int32_t bit = 0; bit < touch->n_bits; bit++) {
        const int64_t k_tok = begin + (int64_t)bit * p->head_dim + d;
        want |= (int64_t)(k_tok < k_tok_end && expects(touch, at, k_tok)) << bit;
    }
    if (isnan(o))
        return S2_OUTCOME_NAN;
    if (fabs(sum - (double)want) <= 0.3)
        return S2_OUTCOME_OK;
    /* not an integer: the row divides by another count, so no single key is to blame */
    const double nearest = nearbyint(by_keys_read(o, lse, sum));
    const int64_t got = nearest >= 0 && nearest < 0x1p20 ? (int64_t)nearest : ~want;
    for (int32_t bit = 0; bit < touch->n_bits; bit++)
        if (((got ^ want) >> bit & 1) != 0)
            convict(touch, at, begin + (int64_t)bit * p->head_dim + d, (got >> bit & 1) != 0);
    return touch->out->touch_wrong > 0 ? S2_OUTCOME_WRONG_PAIRS : convict(touch, at, begin + d, want == 0);
}

/* With equal scores LSE is ln n: it counts the keys of the whole row at once. */
static s2_outcome check_count(s2_touch *touch, int64_t at, double lse)
{
    const s2_probe_row row = touch->rows.row[at];
    const int32_t n = touch->n_keys[at];
    if (touch->harness->kernel->no_lse)
        return S2_OUTCOME_OK;
    const bool good = n == 0 ? lse == -INFINITY : fabs(lse - log(n)) <= fmax(0.4 / n, 4e-6);
    if (good)
        return S2_OUTCOME_OK;
    if (touch->out->touch_wrong++ == 0)
        snprintf(touch->out->reason, sizeof touch->out->reason,
                 "layer %d, head %d, sequence %d: query %d counts %.2f keys (LSE %s), the pattern %d",
                 touch->harness->some.layer, row.head, row.seq, row.q_tok, exp(lse), s2_decimal(lse, 6).text,
                 n);
    return isnan(lse) ? S2_OUTCOME_NAN : S2_OUTCOME_WRONG_PAIRS;
}

static s2_outcome check_window(s2_touch *touch, int64_t begin)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    s2_outcome worst = S2_OUTCOME_OK;
    for (int64_t nth = 0; nth < touch->rows.n; nth++) {
        const s2_probe_row row = touch->rows.row[nth];
        const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
        const float lse =
            s2_harness_lse(touch->harness)[s2_rows_at(&p->lse, p->q_begin_tok, row.seq, row.q_tok, row.head)];
        s2_outcome outcome = S2_OUTCOME_OK;
        for (int32_t d = 0; d < p->head_dim && outcome != S2_OUTCOME_NAN; d++) {
            const s2_outcome column =
                check_column(touch, nth, begin, d,
                             s2_float_load(s2_harness_o(touch->harness), p->dtype, o_at + d), (double)lse);
            outcome = column != S2_OUTCOME_OK ? column : outcome;
        }
        if (outcome == S2_OUTCOME_NAN && touch->out->reason[0] == '\0')
            snprintf(touch->out->reason, sizeof touch->out->reason,
                     "layer %d, head %d, sequence %d: query %d gives NaN for equal scores",
                     touch->harness->some.layer, row.head, row.seq, row.q_tok);
        if (outcome == S2_OUTCOME_OK)
            outcome = check_count(touch, nth, (double)lse);
        if (outcome != S2_OUTCOME_OK && worst != S2_OUTCOME_NAN)
            worst = outcome;
    }
    return worst;
}

static s2_status start(s2_touch *touch, uint64_t seed)
{
    s2_harness *const harness = touch->harness;
    const s2_device_ops *const ops = harness->device->ops;
    const int64_t bytes = s2_dtype_bytes(harness->problem.dtype);
    S2_TRY(ops->fill(harness->device, harness->q.base + S2_GUARD_BYTES, 0, harness->q.n_bytes));
    S2_TRY(ops->fill(harness->device, harness->v.base + S2_GUARD_BYTES, 0, harness->v.n_bytes));
    S2_TRY(ops->fill_normal(harness->device, harness->k.base + S2_GUARD_BYTES,
                            (int64_t)harness->k.n_bytes / bytes, harness->problem.dtype, seed, 1.0f));
    expect_rows(touch);
    return S2_OK;
}

static int32_t longest_k(const s2_plan *plan)
{
    int32_t k_tok = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        k_tok = plan->seqs[seq].k_tok > k_tok ? plan->seqs[seq].k_tok : k_tok;
    return k_tok;
}

/* Count the pairs that a window compares. */
static void count_pairs(s2_touch *touch, int64_t begin)
{
    for (int64_t nth = 0; nth < touch->rows.n; nth++) {
        const int64_t left = touch->harness->some.seqs[touch->rows.row[nth].seq].k_tok - begin;
        const int64_t n = left < window_tok(touch) ? left : window_tok(touch);
        touch->out->touch_pairs += n > 0 ? n : 0;
    }
}

static s2_status run_window(s2_touch *touch, int64_t begin, double *ms, s2_diag *why)
{
    S2_TRY(set_window(touch, begin, false));
    S2_TRY(s2_harness_run_rows(touch->harness, touch->rows.row, touch->rows.n, ms, why));
    count_pairs(touch, begin);
    touch->out->outcome = check_window(touch, begin);
    return touch->out->outcome == S2_OUTCOME_OK ? set_window(touch, begin, true) : S2_OK;
}

/* All windows, or as many as the request and its time allow, but always a few. */
static int64_t count_windows(const s2_validate_request *request, int64_t n_windows, double ms)
{
    enum { FEWEST = 6 };
    int64_t n = n_windows;
    if (request->max_windows > 0 && request->max_windows < n)
        n = request->max_windows;
    const double in_time = request->touch_limit_ms / fmax(ms, 1e-3);
    if (request->touch_limit_ms > 0.0 && in_time < (double)n)
        n = in_time > FEWEST ? (int64_t)in_time : n < FEWEST ? n : FEWEST;
    return n;
}

static s2_status all_windows(s2_touch *touch, const s2_validate_request *request, s2_diag *why)
{
    const int32_t k_tok = longest_k(&touch->harness->some);
    const int64_t step = window_tok(touch), n_windows = (k_tok + step - 1) / step;
    int64_t wanted = n_windows;
    for (int64_t nth = 0; nth < wanted && touch->out->outcome == S2_OUTCOME_OK; nth++) {
        /* where not all windows are looked at, the first and the last are */
        const int64_t begin = (wanted > 1 ? nth * (n_windows - 1) / (wanted - 1) : 0) * step;
        double ms = 0.0;
        if (request->progress != NULL)
            request->progress(request->user, "touch", (int32_t)nth, (int32_t)wanted);
        S2_TRY(run_window(touch, begin, &ms, why));
        if (nth == 0)
            wanted = count_windows(request, n_windows, ms);
    }
    touch->rows.all = touch->rows.all && wanted == n_windows;
    return S2_OK;
}

static s2_status reserve(s2_touch *touch, const s2_validate_request *request)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    S2_TRY(s2_probe_rows_choose(touch->harness, request->budget_pairs, request->seed, request->few_heads,
                                &touch->rows));
    touch->n_bits = bits_of(touch->harness);
    touch->row_bytes = (longest_k(&touch->harness->some) + 7) / 8;
    touch->expected = s2_calloc((size_t)touch->rows.n, (size_t)touch->row_bytes);
    touch->n_keys = s2_calloc((size_t)touch->rows.n, sizeof *touch->n_keys);
    touch->window_v = s2_malloc((size_t)(window_tok(touch) * p->v.tok * s2_dtype_bytes(p->dtype)));
    if (touch->expected == NULL || touch->n_keys == NULL || touch->window_v == NULL)
        return S2_ENOMEM;
    return start(touch, request->seed);
}

s2_status s2_probe_touch(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                         s2_diag *why)
{
    s2_touch touch = {.harness = harness, .out = out};
    s2_status status = reserve(&touch, request);
    if (status == S2_OK)
        status = all_windows(&touch, request, why);
    out->touch_exhaustive = touch.rows.all;
    s2_free(touch.rows.row);
    s2_free(touch.expected);
    s2_free(touch.n_keys);
    s2_free(touch.window_v);
    return status;
}

/* ------------------------------------------------------------------ what was really read */

/* The number of bits set in a row's column integers if it read n keys, or -1 where one is not an integer.
 * Stricter than a verdict, since n is not known: a wrong n must not pass for the right one. */
static int64_t count_bits(const float *columns, int64_t n_columns, int64_t n, int64_t limit)
{
    int64_t n_bits = 0;
    for (int64_t at = 0; at < n_columns; at++) {
        const double sum = (double)columns[at] * (double)n, nearest = nearbyint(sum);
        if (!(fabs(sum - nearest) <= 0.01 + nearest * 0x1p-7) || nearest < 0.0 || nearest >= (double)limit)
            return -1;
        n_bits += __builtin_popcountll((unsigned long long)nearest);
    }
    return n_bits;
}

/* The number of keys for which the columns are sums of exactly as many powers of two; 0: none. */
static int64_t count_keys(const s2_touch *touch, const float *columns, int64_t n_columns, int64_t by_pattern,
                          int64_t k_tok)
{
    const int64_t limit = INT64_C(1) << touch->n_bits;
    if (by_pattern > 0 && count_bits(columns, n_columns, by_pattern, limit) == by_pattern)
        return by_pattern;
    for (int64_t n = 1; n <= k_tok; n++)
        if (count_bits(columns, n_columns, n, limit) == n)
            return n;
    return 0;
}

static void decode_row(const s2_touch *touch, int64_t nth, const float *columns, int64_t n_columns,
                       s2_sight *out)
{
    const int64_t dim = touch->harness->problem.head_dim, k_tok = touch->harness->some.seqs[0].k_tok;
    const int64_t n = count_keys(touch, columns, n_columns, touch->n_keys[nth], k_tok);
    uint8_t *const seen = out->seen + nth * out->row_bytes;
    out->n_seen[nth] = n;
    for (int64_t at = 0; at < n_columns && n > 0; at++) {
        const int64_t sum = (int64_t)nearbyint((double)columns[at] * (double)n);
        for (int32_t bit = 0; bit < touch->n_bits; bit++) {
            const int64_t key = at / dim * window_tok(touch) + bit * dim + at % dim;
            if ((sum >> bit & 1) != 0 && key < k_tok)
                seen[key / 8] |= (uint8_t)(1u << (key % 8));
        }
    }
}

static s2_status see_window(s2_touch *touch, int64_t window, float *columns, int64_t n_columns, s2_diag *why)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    S2_TRY(set_window(touch, window * window_tok(touch), false));
    S2_TRY(s2_harness_run_rows(touch->harness, touch->rows.row, touch->rows.n, NULL, why));
    for (int64_t nth = 0; nth < touch->rows.n; nth++) {
        const s2_probe_row row = touch->rows.row[nth];
        const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
        for (int32_t d = 0; d < p->head_dim; d++)
            columns[nth * n_columns + window * p->head_dim + d] =
                s2_float_load(s2_harness_o(touch->harness), p->dtype, o_at + d);
    }
    return set_window(touch, window * window_tok(touch), true);
}

static s2_status see(s2_touch *touch, uint64_t seed, float *columns, int64_t n_columns, s2_sight *out,
                     s2_diag *why)
{
    S2_TRY(start(touch, seed));
    for (int64_t window = 0; window * touch->harness->problem.head_dim < n_columns; window++)
        S2_TRY(see_window(touch, window, columns, n_columns, why));
    for (int64_t nth = 0; nth < touch->rows.n; nth++)
        decode_row(touch, nth, columns + nth * n_columns, n_columns, out);
    return S2_OK;
}

s2_status s2_probe_see(s2_harness *harness, uint64_t seed, s2_sight *out, s2_diag *why)
{
    s2_touch touch = {.harness = harness, .rows = {out->row, out->n_rows, false}};
    const s2_attn_problem *const p = &harness->problem;
    touch.n_bits = bits_of(harness);
    touch.row_bytes = out->row_bytes;
    const int64_t n_windows = (harness->some.seqs[0].k_tok + window_tok(&touch) - 1) / window_tok(&touch);
    const int64_t n_columns = n_windows * p->head_dim;
    float *const columns = s2_calloc((size_t)(out->n_rows * n_columns), sizeof *columns);
    touch.expected = s2_calloc((size_t)out->n_rows, (size_t)touch.row_bytes);
    touch.n_keys = s2_calloc((size_t)out->n_rows, sizeof *touch.n_keys);
    touch.window_v = s2_malloc((size_t)(window_tok(&touch) * p->v.tok * s2_dtype_bytes(p->dtype)));
    s2_status status = S2_ENOMEM;
    if (columns != NULL && touch.expected != NULL && touch.n_keys != NULL && touch.window_v != NULL)
        status = see(&touch, seed, columns, n_columns, out, why);
    s2_free(columns);
    s2_free(touch.expected);
    s2_free(touch.n_keys);
    s2_free(touch.window_v);
    return status;
}
