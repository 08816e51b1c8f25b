/*
 * Which pairs does a backward read? It takes lse and o as inputs, so they can be chosen to make every weight
 * and every dS exactly 1: with Q = 0 or K = 0 all scores are 0, and lse = 0 gives P = 1; with V = 0, and o
 * such that dO . o = -1, dS = P. Then sums of powers of two name the pairs, bit by bit:
 *
 *     queries   K = V = 0. The queries of a window (position and head of the group) have 2^j in one column of
 *               Q and dO, -2^-j there in o. dV[k] and dK[k] / scale are sums of 2^j over the queries that
 *               read k. Other queries have dO = 0: they contribute nothing.
 *     keys      Q = V = 0, dO = 1 and o = -1 in column 0 of every row. The keys of a window have 2^j in one
 *               column of K. dQ[q] / scale is the sum of 2^j over the keys that q reads.
 *
 * All sums are exact; only the division by the scale rounds, so as many bits are used as survive it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/float16.h"
#include "judge/gradient_harness.h"
#include "pattern/dense.h"

enum { LIMIT_WINDOWS = 24 }; /* launches of one direction when the budget is smaller than the problem */

/* Memory that a window writes both on the host and on the device. */
typedef struct s2_image {
    const s2_tensor *tensor;
    const s2_guarded *buffer;
    uint8_t *host;
} s2_image;

typedef struct s2_pair_touch {
    s2_gradient_harness *gradients;
    s2_validation *out;
    const s2_validate_request *request;
    uint8_t *counts; /* [seq][head][query]: the plan has an item for it */
    int64_t *counts_begin;
    s2_image q, d_o, o, k;
    int32_t n_bits;
    int32_t group;
    s2_rng rng;
} s2_pair_touch;

static int32_t bits_of(s2_dtype dtype)
{
    static const int32_t bits[S2_N_DTYPES] = {[S2_F32] = 18, [S2_BF16] = 6, [S2_F16] = 9};
    return bits[dtype];
}

static int64_t window_size(const s2_pair_touch *touch)
{
    return (int64_t)touch->n_bits * touch->gradients->harness.problem.head_dim;
}

static uint8_t *counts_at(const s2_pair_touch *touch, int32_t seq, int32_t head, int64_t q_tok)
{
    const int64_t n_q = touch->gradients->harness.some.seqs[seq].q_tok;
    return &touch->counts[touch->counts_begin[seq] + head * n_q + q_tok];
}

static bool expects(const s2_pair_touch *touch, int32_t seq, int32_t head, int64_t q_tok, int64_t k_tok)
{
    const s2_plan *const plan = &touch->gradients->harness.some;
    const s2_plan_seq lens = plan->seqs[seq];
    return *counts_at(touch, seq, head, q_tok) != 0 &&
           s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, lens.k_tok,
                            lens.k_tok - lens.q_tok + q_tok, k_tok);
}

/* ------------------------------------------------------------------ images */

static s2_status open_image(s2_pair_touch *touch, s2_image *image, const s2_tensor *tensor,
                            const s2_guarded *buffer)
{
    *image = (s2_image){tensor, buffer, s2_calloc(buffer->n_bytes, 1)};
    if (image->host == NULL)
        return S2_ENOMEM;
    s2_device *const device = touch->gradients->harness.device;
    return device->ops->fill(device, tensor->data, 0, buffer->n_bytes);
}

static void put(const s2_pair_touch *touch, const s2_image *image, const int32_t *begin_tok, int32_t seq,
                int64_t tok, int32_t head, int32_t d, float x)
{
    const int64_t at = s2_tensor_at(image->tensor, begin_tok, seq, tok, head) + d;
    s2_float_store(image->host, touch->gradients->harness.problem.dtype, at, x);
}

/* Send tokens [from, to) of every head to the device. */
static s2_status send(const s2_pair_touch *touch, const s2_image *image, const int32_t *begin_tok,
                      int32_t seq, int64_t from, int64_t to, int32_t n_heads)
{
    s2_device *const device = touch->gradients->harness.device;
    const int64_t bytes = s2_dtype_bytes(touch->gradients->harness.problem.dtype);
    const s2_tensor *const tensor = image->tensor;
    const int32_t together = tensor->head > tensor->tok ? 1 : n_heads;
    for (int32_t head = 0; head < n_heads && from < to; head += together) {
        const int64_t begin = s2_tensor_at(tensor, begin_tok, seq, from, head);
        const int64_t end = s2_tensor_at(tensor, begin_tok, seq, to - 1, head + together - 1) +
                            touch->gradients->harness.problem.head_dim;
        S2_TRY(device->ops->copy_in(device, (uint8_t *)tensor->data + begin * bytes,
                                    image->host + begin * bytes, (size_t)((end - begin) * bytes)));
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ verdicts */

static s2_outcome convict(s2_pair_touch *touch, s2_gradient_kind grad, int32_t seq, int32_t head,
                          int64_t q_tok, int64_t k_tok, bool read)
{
    if (touch->out->touch_wrong++ == 0)
        snprintf(touch->out->reason, sizeof touch->out->reason,
                 "layer %d, sequence %d: %s has key %lld %s head %d, query %lld",
                 touch->gradients->harness.some.layer, seq, s2_gradient_harness_word(grad), (long long)k_tok,
                 read ? "from, against the pattern," : "miss", head, (long long)q_tok);
    return S2_OUTCOME_WRONG_PAIRS;
}

static int64_t sum_of(const s2_pair_touch *touch, s2_gradient_kind grad, int64_t at, bool *exact)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const double x = (double)s2_float_load(touch->gradients->host[grad] + S2_GUARD_BYTES, p->dtype, at);
    const double sum = grad == S2_GRADIENT_DV ? x : x / (double)p->scale, nearest = nearbyint(sum);
    *exact = fabs(sum - nearest) <= 0.3 && nearest >= 0.0 && nearest < 0x1p20;
    return *exact ? (int64_t)nearest : 0;
}

/* One column of a gradient's row and the bits that the pattern expects in it. */
typedef struct s2_expected {
    int64_t want;
    int32_t seq;
    int32_t kv_head; /* or the query head of dQ */
    int64_t row;     /* key of dK and dV, query of dQ */
    int64_t first;   /* window index of bit 0 */
} s2_expected;

static void blame(s2_pair_touch *touch, s2_gradient_kind grad, const s2_expected *one, int64_t index,
                  bool read)
{
    if (grad == S2_GRADIENT_DQ)
        convict(touch, grad, one->seq, one->kv_head, one->row, index, read);
    else
        convict(touch, grad, one->seq, one->kv_head * touch->group + (int32_t)(index % touch->group),
                index / touch->group, one->row, read);
}

static s2_outcome check_column(s2_pair_touch *touch, s2_gradient_kind grad, const s2_expected *one,
                               int64_t at)
{
    bool exact;
    const int64_t got = sum_of(touch, grad, at, &exact);
    const int32_t dim = touch->gradients->harness.problem.head_dim;
    if (exact && got == one->want)
        return S2_OUTCOME_OK;
    if (!exact) {
        if (touch->out->touch_wrong++ == 0)
            snprintf(touch->out->reason, sizeof touch->out->reason,
                     "layer %d, sequence %d, %s %d: %s of token %lld is no sum of what it may read",
                     touch->gradients->harness.some.layer, one->seq,
                     grad == S2_GRADIENT_DQ ? "head" : "KV head", one->kv_head,
                     s2_gradient_harness_word(grad), (long long)one->row);
        return S2_OUTCOME_WRONG_PAIRS;
    }
    for (int32_t bit = 0; bit < touch->n_bits; bit++)
        if (((got ^ one->want) >> bit & 1) != 0)
            blame(touch, grad, one, one->first + (int64_t)bit * dim, (got >> bit & 1) != 0);
    if (touch->out->touch_wrong == 0) /* more than all bits */
        blame(touch, grad, one, one->first, true);
    return S2_OUTCOME_WRONG_PAIRS;
}

/* ------------------------------------------------------------------ windows of queries */

static s2_status set_queries(s2_pair_touch *touch, int64_t begin, bool clear)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const int64_t end = begin + window_size(touch);
    for (int32_t seq = 0; seq < p->n_seqs; seq++) {
        const int64_t all = (int64_t)p->plan->seqs[seq].q_tok * touch->group, last = end < all ? end : all;
        for (int64_t index = begin; index < last; index++) {
            const int64_t x = index - begin, q_tok = index / touch->group;
            const int32_t d = (int32_t)(x % p->head_dim);
            const float power = clear ? 0.0f : (float)(1 << (x / p->head_dim));
            for (int32_t head = (int32_t)(index % touch->group); head < p->n_heads; head += touch->group) {
                put(touch, &touch->q, p->q_begin_tok, seq, q_tok, head, d, power);
                put(touch, &touch->d_o, p->q_begin_tok, seq, q_tok, head, d, power);
                put(touch, &touch->o, p->q_begin_tok, seq, q_tok, head, d, clear ? 0.0f : -1.0f / power);
            }
        }
        const int64_t from = begin / touch->group, to = last > begin ? (last - 1) / touch->group + 1 : from;
        S2_TRY(send(touch, &touch->q, p->q_begin_tok, seq, from, to, p->n_heads));
        S2_TRY(send(touch, &touch->d_o, p->q_begin_tok, seq, from, to, p->n_heads));
        S2_TRY(send(touch, &touch->o, p->q_begin_tok, seq, from, to, p->n_heads));
    }
    return S2_OK;
}

/* One key of a KV head: dK and dV against the queries of the window. */
static s2_outcome check_key(s2_pair_touch *touch, int32_t seq, int32_t kv_head, int64_t k_tok, int64_t begin)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const int64_t all = (int64_t)p->plan->seqs[seq].q_tok * touch->group;
    s2_outcome worst = S2_OUTCOME_OK;
    for (int32_t d = 0; d < p->head_dim; d++) {
        s2_expected one = {0, seq, kv_head, k_tok, begin + d};
        for (int32_t bit = 0; bit < touch->n_bits; bit++) {
            const int64_t index = begin + (int64_t)bit * p->head_dim + d;
            if (index >= all)
                break;
            const int32_t head = kv_head * touch->group + (int32_t)(index % touch->group);
            one.want |= (int64_t)expects(touch, seq, head, index / touch->group, k_tok) << bit;
            touch->out->touch_pairs++;
        }
        for (s2_gradient_kind grad = S2_GRADIENT_DK; grad <= S2_GRADIENT_DV; grad++) {
            const int64_t at = s2_tensor_at(s2_gradient_harness_tensor(touch->gradients, grad),
                                            p->k_begin_tok, seq, k_tok, kv_head) +
                               d;
            const s2_outcome outcome = check_column(touch, grad, &one, at);
            worst = outcome != S2_OUTCOME_OK ? outcome : worst;
        }
    }
    return worst;
}

/* ------------------------------------------------------------------ windows of keys */

static s2_status set_keys(s2_pair_touch *touch, int64_t begin, bool clear)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    for (int32_t seq = 0; seq < p->n_seqs; seq++) {
        const int64_t all = p->plan->seqs[seq].k_tok, end = begin + window_size(touch),
                      last = end < all ? end : all;
        for (int64_t k_tok = begin; k_tok < last; k_tok++) {
            const int64_t x = k_tok - begin;
            for (int32_t g = 0; g < p->n_kv_heads; g++)
                put(touch, &touch->k, p->k_begin_tok, seq, k_tok, g, (int32_t)(x % p->head_dim),
                    clear ? 0.0f : (float)(1 << (x / p->head_dim)));
        }
        S2_TRY(send(touch, &touch->k, p->k_begin_tok, seq, begin, last, p->n_kv_heads));
    }
    return S2_OK;
}

static s2_outcome check_query(s2_pair_touch *touch, int32_t seq, int32_t head, int64_t q_tok, int64_t begin)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const int64_t all = p->plan->seqs[seq].k_tok;
    s2_outcome worst = S2_OUTCOME_OK;
    for (int32_t d = 0; d < p->head_dim; d++) {
        s2_expected one = {0, seq, head, q_tok, begin + d};
        for (int32_t bit = 0; bit < touch->n_bits; bit++) {
            const int64_t k_tok = begin + (int64_t)bit * p->head_dim + d;
            if (k_tok >= all)
                break;
            one.want |= (int64_t)expects(touch, seq, head, q_tok, k_tok) << bit;
            touch->out->touch_pairs++;
        }
        const int64_t at = s2_tensor_at(&p->d_q, p->q_begin_tok, seq, q_tok, head) + d;
        const s2_outcome outcome = check_column(touch, S2_GRADIENT_DQ, &one, at);
        worst = outcome != S2_OUTCOME_OK ? outcome : worst;
    }
    return worst;
}

/* ------------------------------------------------------------------ both directions */

typedef struct s2_direction {
    const char *word;
    s2_status (*set)(s2_pair_touch *touch, int64_t begin, bool clear);
    s2_outcome (*check)(s2_pair_touch *touch, int32_t seq, int32_t head, int64_t row, int64_t begin);
    int64_t longest; /* window indices of the longest sequence */
    int32_t n_heads; /* of the rows that are checked */
    bool of_queries; /* the rows are queries: only those of the plan */
    double pairs;    /* of the whole problem */
} s2_direction;

static int64_t rows_of(const s2_pair_touch *touch, const s2_direction *way, int32_t seq)
{
    const s2_plan_seq lens = touch->gradients->harness.some.seqs[seq];
    return way->of_queries ? lens.q_tok : lens.k_tok;
}

/* All rows of every head, or both ends and drawn rows. */
static s2_outcome check_window(s2_pair_touch *touch, const s2_direction *way, int64_t begin, int64_t per_head)
{
    s2_outcome worst = S2_OUTCOME_OK;
    for (int32_t seq = 0; seq < touch->gradients->harness.some.n_seqs; seq++)
        for (int32_t head = 0; head < way->n_heads; head++) {
            if (!s2_gradient_harness_looks_at(touch->gradients, way->of_queries ? head / touch->group : head))
                continue;
            const int64_t n = rows_of(touch, way, seq), wanted = per_head > 0 && per_head < n ? per_head : n;
            for (int64_t nth = 0; nth < wanted; nth++) {
                int64_t row = nth;
                if (wanted < n && nth == 1)
                    row = n - 1;
                else if (wanted < n && nth > 1)
                    row = (int64_t)s2_rng_below(&touch->rng, (uint64_t)n);
                if (way->of_queries && *counts_at(touch, seq, head, row) == 0)
                    continue;
                const s2_outcome outcome = way->check(touch, seq, head, row, begin);
                worst = outcome != S2_OUTCOME_OK ? outcome : worst;
            }
        }
    return worst;
}

static s2_status one_window(s2_pair_touch *touch, const s2_direction *way, int64_t begin, int64_t per_head,
                            s2_diag *why)
{
    S2_TRY(way->set(touch, begin, false));
    S2_TRY(s2_gradient_harness_run(touch->gradients, NULL, why));
    touch->out->outcome = check_window(touch, way, begin, per_head);
    return touch->out->outcome == S2_OUTCOME_OK ? way->set(touch, begin, true) : S2_OK;
}

static s2_status all_windows(s2_pair_touch *touch, const s2_direction *way, s2_diag *why)
{
    const s2_validate_request *const request = touch->request;
    const double budget = (double)request->budget_pairs / 2.0;
    const int32_t limit = request->max_windows > 0 ? request->max_windows / 2 + 2 : LIMIT_WINDOWS;
    const int32_t n_heads = touch->gradients->kv_head < 0 ? way->n_heads : way->of_queries ? touch->group : 1;
    const int64_t size = window_size(touch), n_windows = (way->longest + size - 1) / size;
    int64_t per_head = 0, wanted = n_windows;
    if (way->pairs > budget) {
        wanted = n_windows < limit ? n_windows : limit;
        per_head = (int64_t)(budget / ((double)size * (double)wanted * n_heads *
                                       touch->gradients->harness.some.n_seqs));
        per_head = per_head > 4 ? per_head : 4;
        touch->out->touch_exhaustive = false;
    }
    for (int64_t nth = 0; nth < wanted && touch->out->outcome == S2_OUTCOME_OK; nth++) {
        const int64_t window = wanted == n_windows ? nth : nth * (n_windows - 1) / (wanted - 1);
        if (request->progress != NULL)
            request->progress(request->user, way->word, (int32_t)nth, (int32_t)wanted);
        S2_TRY(one_window(touch, way, window * size, per_head, why));
    }
    return S2_OK;
}

/* Make dS = 1 in all rows: dO = 1 and o = -1 in column 0. */
static s2_status set_ones(s2_pair_touch *touch)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    for (int32_t seq = 0; seq < p->n_seqs; seq++) {
        const int64_t n_q = p->plan->seqs[seq].q_tok;
        for (int64_t q_tok = 0; q_tok < n_q; q_tok++)
            for (int32_t head = 0; head < p->n_heads; head++) {
                put(touch, &touch->d_o, p->q_begin_tok, seq, q_tok, head, 0, 1.0f);
                put(touch, &touch->o, p->q_begin_tok, seq, q_tok, head, 0, -1.0f);
            }
        S2_TRY(send(touch, &touch->d_o, p->q_begin_tok, seq, 0, n_q, p->n_heads));
        S2_TRY(send(touch, &touch->o, p->q_begin_tok, seq, 0, n_q, p->n_heads));
    }
    return S2_OK;
}

static void count_rows(s2_pair_touch *touch)
{
    const s2_plan *const plan = &touch->gradients->harness.some;
    for (int32_t nth = 0; nth < plan->n_items; nth++) {
        const s2_plan_item *const item = &plan->items[nth];
        int64_t end;
        for (int64_t q_tok = s2_harness_item_queries(plan, item, &end); q_tok < end; q_tok++)
            for (int32_t head = item->head; head < item->head + item->n_heads; head++)
                *counts_at(touch, item->seq, head, q_tok) = 1;
    }
}

static s2_status reserve(s2_pair_touch *touch)
{
    const s2_harness *const harness = &touch->gradients->harness;
    const s2_attn_problem *const p = &harness->problem;
    int64_t n = 0;
    touch->counts_begin = s2_calloc((size_t)p->n_seqs, sizeof *touch->counts_begin);
    for (int32_t seq = 0; touch->counts_begin != NULL && seq < p->n_seqs; seq++) {
        touch->counts_begin[seq] = n;
        n += (int64_t)p->plan->seqs[seq].q_tok * p->n_heads;
    }
    touch->counts = s2_calloc((size_t)n + 1, 1);
    if (touch->counts_begin == NULL || touch->counts == NULL)
        return S2_ENOMEM;
    count_rows(touch);
    S2_TRY(open_image(touch, &touch->q, &p->q, &harness->q));
    S2_TRY(open_image(touch, &touch->d_o, &p->d_o, &harness->d_o));
    S2_TRY(open_image(touch, &touch->o, &p->o, &harness->o));
    S2_TRY(open_image(touch, &touch->k, &p->k, &harness->k));
    S2_TRY(harness->device->ops->fill(harness->device, p->v.data, 0, harness->v.n_bytes));
    return harness->device->ops->fill(harness->device, p->lse.data, 0, harness->lse.n_bytes);
}

static s2_status both_ways(s2_pair_touch *touch, s2_diag *why)
{
    const s2_plan *const plan = &touch->gradients->harness.some;
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    s2_direction queries = {"touch queries", set_queries, check_key, 0, p->n_kv_heads, false, 0.0};
    s2_direction keys = {"touch keys", set_keys, check_query, 0, p->n_heads, true, 0.0};
    for (int32_t seq = 0; seq < plan->n_seqs; seq++) {
        const int64_t q = (int64_t)plan->seqs[seq].q_tok * touch->group, k = plan->seqs[seq].k_tok;
        queries.longest = q > queries.longest ? q : queries.longest;
        keys.longest = k > keys.longest ? k : keys.longest;
        queries.pairs += (double)plan->seqs[seq].q_tok * (double)k * p->n_heads;
        keys.pairs = queries.pairs;
    }
    touch->out->touch_exhaustive = plan->n_items == touch->gradients->harness.whole.n_items;
    S2_TRY(all_windows(touch, &queries, why));
    S2_STAGE(touch->out, set_ones(touch));
    S2_STAGE(touch->out, all_windows(touch, &keys, why));
    return S2_OK;
}

s2_status s2_gradient_touch(s2_gradient_harness *gradients, const s2_validate_request *request,
                            s2_validation *out, s2_diag *why)
{
    const s2_attn_problem *const p = &gradients->harness.problem;
    s2_pair_touch touch = {.gradients = gradients,
                           .out = out,
                           .request = request,
                           .n_bits = bits_of(p->dtype),
                           .group = p->n_heads / p->n_kv_heads,
                           .rng = {request->seed ^ UINT64_C(0x746f756368)}};
    s2_status status = reserve(&touch);
    if (status == S2_OK)
        status = both_ways(&touch, why);
    uint8_t *const hosts[] = {touch.q.host, touch.d_o.host, touch.o.host, touch.k.host, touch.counts};
    for (size_t at = 0; at < sizeof hosts / sizeof *hosts; at++)
        s2_free(hosts[at]);
    s2_free(touch.counts_begin);
    return status;
}
