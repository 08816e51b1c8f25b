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
 *
 * All windows are looked at before anything is said. A gradient that is the same multiple of what is due
 * everywhere has wrong values and no wrong pair: another scale, or none of delta. The pair that is named is
 * one that a run on this pair alone confirms.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "base/text.h"
#include "kernels/float16.h"
#include "judge/gradient_harness.h"
#include "judge/sight.h"
#include "pattern/dense.h"

enum {
    LIMIT_WINDOWS = 24, /* launches of one direction when the budget is smaller than the problem */
    N_SUSPECTS = 8      /* of a gradient */
};

/* Memory that a window writes both on the host and on the device. */
typedef struct s2_image {
    const s2_tensor *tensor;
    const s2_guarded *buffer;
    uint8_t *host;
} s2_image;

/* A pair as it was decoded from a window. */
typedef struct s2_suspect {
    int32_t seq, head;
    int64_t q_tok, k_tok;
    bool read;
} s2_suspect;

/* What a gradient's columns were, all windows together. */
typedef struct s2_tally {
    int64_t n_off;      /* columns that are not what is due */
    int64_t n_wrong;    /* pairs in those of them that are sums */
    bool broken;        /* some are not sums */
    bool stray;         /* something stands where nothing is due */
    double least, most; /* of a column over what is due there */
    int32_t n_suspects;
    s2_suspect suspect[N_SUSPECTS];
    char first[120]; /* the first column that is not a sum */
} s2_tally;

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
    s2_tally tally[S2_N_GRADIENT_KINDS];
    char nan[160]; /* the first column that is not a number; "" */
    bool dk_as_dv; /* wherever one of them is wrong the other is so too, in the same pairs */
} s2_pair_touch;

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
    const int64_t element = s2_tensor_at(image->tensor, begin_tok, seq, tok, head) + d;
    s2_float_store(image->host, touch->gradients->harness.problem.dtype, element, x);
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

/* ------------------------------------------------------------------ columns */

static double column_of(const s2_pair_touch *touch, s2_gradient_kind grad, int64_t element)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const double x = (double)s2_float_load(touch->gradients->host[grad] + S2_GUARD_BYTES, p->dtype, element);
    return grad == S2_GRADIENT_DV ? x : x / (double)p->scale;
}

/* One column of a gradient's row and the bits that the pattern expects in it. */
typedef struct s2_expected {
    int64_t want;
    int32_t seq;
    int32_t kv_head; /* or the query head of dQ */
    int64_t row;     /* key of dK and dV, query of dQ */
    int64_t first;   /* window index of bit 0 */
} s2_expected;

static void suspect(s2_pair_touch *touch, s2_gradient_kind grad, const s2_expected *one, int64_t index,
                    bool read)
{
    s2_tally *const tally = &touch->tally[grad];
    const int32_t group = touch->group;
    if (tally->n_suspects == N_SUSPECTS)
        return;
    tally->suspect[tally->n_suspects++] =
        grad == S2_GRADIENT_DQ ? (s2_suspect){one->seq, one->kv_head, one->row, index, read}
                               : (s2_suspect){one->seq, one->kv_head * group + (int32_t)(index % group),
                                              index / group, one->row, read};
}

/* A column that is not what is due. Returns the wrong bits; 0 where it is not a sum. */
static int64_t column_is_off(s2_pair_touch *touch, s2_gradient_kind grad, const s2_expected *one, double sum)
{
    s2_tally *const tally = &touch->tally[grad];
    const double nearest = nearbyint(sum), limit = (double)(INT64_C(1) << touch->n_bits);
    tally->n_off++;
    if (!(fabs(sum - nearest) <= 0.3 && nearest >= 0.0 && nearest < limit)) {
        if (!tally->broken)
            snprintf(tally->first, sizeof tally->first,
                     "sequence %d, %s %d: %s of token %lld is not a sum of what it may read", one->seq,
                     grad == S2_GRADIENT_DQ ? "head" : "KV head", one->kv_head,
                     s2_gradient_harness_word(grad), (long long)one->row);
        tally->broken = true;
        return 0;
    }
    const int64_t wrong = (int64_t)nearest ^ one->want;
    const int32_t bit = __builtin_ctzll((unsigned long long)wrong);
    tally->n_wrong += __builtin_popcountll((unsigned long long)wrong);
    suspect(touch, grad, one, one->first + (int64_t)bit * touch->gradients->harness.problem.head_dim,
            (one->want >> bit & 1) == 0);
    return wrong;
}

static bool is_unwritten(const s2_pair_touch *touch, s2_gradient_kind grad, int64_t element)
{
    const int64_t bytes = s2_dtype_bytes(touch->gradients->harness.problem.dtype);
    return s2_harness_unwritten(touch->gradients->host[grad] + S2_GUARD_BYTES + element * bytes,
                                (size_t)bytes);
}

static int64_t check_column(s2_pair_touch *touch, s2_gradient_kind grad, const s2_expected *one,
                            int64_t element)
{
    s2_tally *const tally = &touch->tally[grad];
    const double sum = column_of(touch, grad, element);
    if (isnan(sum)) {
        if (touch->nan[0] == '\0')
            snprintf(touch->nan, sizeof touch->nan, "layer %d, sequence %d, %s %d: %s of token %lld is %s",
                     touch->gradients->harness.some.layer, one->seq,
                     grad == S2_GRADIENT_DQ ? "head" : "KV head", one->kv_head,
                     s2_gradient_harness_word(grad), (long long)one->row,
                     is_unwritten(touch, grad, element) ? "never written" : "not a number");
        return 0;
    }
    if (one->want != 0) {
        tally->least = fmin(tally->least, sum / (double)one->want);
        tally->most = fmax(tally->most, sum / (double)one->want);
    }
    if (fabs(sum - (double)one->want) <= 0.3)
        return 0;
    tally->stray = tally->stray || one->want == 0;
    return column_is_off(touch, grad, one, sum);
}

/* ------------------------------------------------------------------ windows of queries */

static s2_status set_queries(s2_pair_touch *touch, int64_t begin, bool clear)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const int64_t end = begin + window_size(touch);
    for (int32_t seq = 0; seq < p->n_seqs; seq++) {
        const int64_t all = (int64_t)p->plan->seqs[seq].q_tok * touch->group, last = s2_min_i64(end, all);
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
static void check_key(s2_pair_touch *touch, int32_t seq, int32_t kv_head, int64_t k_tok, int64_t begin)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const int64_t all = (int64_t)p->plan->seqs[seq].q_tok * touch->group;
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
        const int64_t dk = s2_tensor_at(&p->d_k, p->k_begin_tok, seq, k_tok, kv_head) + d;
        const int64_t dv = s2_tensor_at(&p->d_v, p->k_begin_tok, seq, k_tok, kv_head) + d;
        if (check_column(touch, S2_GRADIENT_DK, &one, dk) != check_column(touch, S2_GRADIENT_DV, &one, dv))
            touch->dk_as_dv = false;
    }
}

/* ------------------------------------------------------------------ windows of keys */

static s2_status set_keys(s2_pair_touch *touch, int64_t begin, bool clear)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    for (int32_t seq = 0; seq < p->n_seqs; seq++) {
        const int64_t all = p->plan->seqs[seq].k_tok, end = begin + window_size(touch),
                      last = s2_min_i64(end, all);
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

static void check_query(s2_pair_touch *touch, int32_t seq, int32_t head, int64_t q_tok, int64_t begin)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const int64_t all = p->plan->seqs[seq].k_tok;
    for (int32_t d = 0; d < p->head_dim; d++) {
        s2_expected one = {0, seq, head, q_tok, begin + d};
        for (int32_t bit = 0; bit < touch->n_bits; bit++) {
            const int64_t k_tok = begin + (int64_t)bit * p->head_dim + d;
            if (k_tok >= all)
                break;
            one.want |= (int64_t)expects(touch, seq, head, q_tok, k_tok) << bit;
            touch->out->touch_pairs++;
        }
        const int64_t element = s2_tensor_at(&p->d_q, p->q_begin_tok, seq, q_tok, head) + d;
        check_column(touch, S2_GRADIENT_DQ, &one, element);
    }
}

/* ------------------------------------------------------------------ both directions */

typedef struct s2_direction {
    const char *word;
    s2_status (*set)(s2_pair_touch *touch, int64_t begin, bool clear);
    void (*check)(s2_pair_touch *touch, int32_t seq, int32_t head, int64_t row, int64_t begin);
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
static void check_window(s2_pair_touch *touch, const s2_direction *way, int64_t begin, int64_t per_head)
{
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
                way->check(touch, seq, head, row, begin);
            }
        }
}

static s2_status one_window(s2_pair_touch *touch, const s2_direction *way, int64_t begin, int64_t per_head,
                            s2_diag *why)
{
    S2_TRY(way->set(touch, begin, false));
    S2_TRY(s2_gradient_harness_run(touch->gradients, NULL, why));
    check_window(touch, way, begin, per_head);
    return way->set(touch, begin, true);
}

static s2_status all_windows(s2_pair_touch *touch, const s2_direction *way, s2_diag *why)
{
    const s2_validate_request *const request = touch->request;
    const double budget = (double)request->budget_pairs / 2.0;
    const int32_t limit = request->max_windows > 0 ? request->max_windows / 2 + 2 : LIMIT_WINDOWS;
    const int32_t n_heads = touch->gradients->kv_head < 0 ? way->n_heads : way->of_queries ? touch->group : 1;
    const int64_t size = window_size(touch), n_windows = s2_ceil_div(way->longest, size);
    int64_t per_head = 0, wanted = n_windows;
    if (way->pairs > budget) {
        wanted = s2_min_i64(n_windows, limit);
        per_head = (int64_t)(budget / ((double)size * (double)wanted * n_heads *
                                       touch->gradients->harness.some.n_seqs));
        per_head = s2_max_i64(per_head, 4);
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

/* ------------------------------------------------------------------ verdicts */

/* Whether a gradient is the same multiple, and not once, what is due in all columns. */
static bool is_uniform(const s2_pair_touch *touch, s2_gradient_kind grad)
{
    /* rounding of the type, and less than a missing pair in the fullest column */
    static const double slack[S2_N_DTYPES] = {[S2_F32] = 0x1p-19, [S2_BF16] = 0x1p-6, [S2_F16] = 0x1p-9};
    const s2_tally *const tally = &touch->tally[grad];
    const double limit = slack[touch->gradients->harness.problem.dtype];
    return !tally->stray && tally->most - tally->least <= limit * fabs(tally->most) &&
           (tally->least > 1.0 + limit / 4.0 || tally->most < 1.0 - limit / 4.0);
}

static bool has_wrong_pairs(const s2_pair_touch *touch, s2_gradient_kind grad)
{
    return touch->tally[grad].n_off > 0 && !is_uniform(touch, grad);
}

static s2_status blank(s2_pair_touch *touch)
{
    s2_image *const images[] = {&touch->q, &touch->d_o, &touch->o, &touch->k};
    s2_device *const device = touch->gradients->harness.device;
    for (size_t at = 0; at < sizeof images / sizeof *images; at++) {
        memset(images[at]->host, 0, images[at]->buffer->n_bytes);
        S2_TRY(device->ops->fill(device, images[at]->tensor->data, 0, images[at]->buffer->n_bytes));
    }
    return S2_OK;
}

/* Nothing but this pair can bring anything to one element of the gradient. */
static s2_status show_pair(s2_pair_touch *touch, s2_gradient_kind grad, const s2_suspect *pair)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    const int64_t q = pair->q_tok, k = pair->k_tok;
    S2_TRY(blank(touch));
    if (grad == S2_GRADIENT_DQ) {
        S2_TRY(set_ones(touch));
        put(touch, &touch->k, p->k_begin_tok, pair->seq, k, pair->head / touch->group, 0, 1.0f);
        return send(touch, &touch->k, p->k_begin_tok, pair->seq, k, k + 1, p->n_kv_heads);
    }
    put(touch, &touch->q, p->q_begin_tok, pair->seq, q, pair->head, 0, 1.0f);
    put(touch, &touch->d_o, p->q_begin_tok, pair->seq, q, pair->head, 0, 1.0f);
    put(touch, &touch->o, p->q_begin_tok, pair->seq, q, pair->head, 0, -1.0f);
    S2_TRY(send(touch, &touch->q, p->q_begin_tok, pair->seq, q, q + 1, p->n_heads));
    S2_TRY(send(touch, &touch->d_o, p->q_begin_tok, pair->seq, q, q + 1, p->n_heads));
    return send(touch, &touch->o, p->q_begin_tok, pair->seq, q, q + 1, p->n_heads);
}

static s2_status confirm(s2_pair_touch *touch, s2_gradient_kind grad, const s2_suspect *pair, bool *confirmed,
                         s2_diag *why)
{
    const s2_attn_problem *const p = &touch->gradients->harness.problem;
    S2_TRY(show_pair(touch, grad, pair));
    S2_TRY(s2_gradient_harness_run(touch->gradients, NULL, why));
    const int64_t element =
        grad == S2_GRADIENT_DQ
            ? s2_tensor_at(&p->d_q, p->q_begin_tok, pair->seq, pair->q_tok, pair->head)
            : s2_tensor_at(s2_gradient_harness_tensor(touch->gradients, grad), p->k_begin_tok, pair->seq,
                           pair->k_tok, pair->head / touch->group);
    const double column = column_of(touch, grad, element);
    *confirmed = !isnan(column) && (fabs(column) > 0.01) == pair->read;
    return S2_OK;
}

static void name_pair(s2_pair_touch *touch, s2_gradient_kind grad, const s2_suspect *pair)
{
    s2_validation *const out = touch->out;
    const s2_plan_seq lens = touch->gradients->harness.some.seqs[pair->seq];
    out->outcome = S2_OUTCOME_WRONG_PAIRS;
    out->has_wrong_pair = true;
    out->wrong_head = pair->head;
    out->wrong_q_tok = lens.k_tok - lens.q_tok + pair->q_tok;
    out->wrong_k_tok = pair->k_tok;
    char of[40], with[60];
    snprintf(of, sizeof of, grad == S2_GRADIENT_DQ ? "query %lld" : "key %lld",
             (long long)(grad == S2_GRADIENT_DQ ? out->wrong_q_tok : pair->k_tok));
    snprintf(with, sizeof with, grad == S2_GRADIENT_DQ ? "key %lld" : "query %lld",
             (long long)(grad == S2_GRADIENT_DQ ? pair->k_tok : out->wrong_q_tok));
    snprintf(out->reason, sizeof out->reason, "layer %d, sequence %d, head %d: %s of %s %s %s",
             touch->gradients->harness.some.layer, pair->seq, pair->head, s2_gradient_harness_word(grad), of,
             pair->read ? "takes in, against the pattern," : "lacks", with);
}

/* dV comes first: neither a scale nor delta can be wrong in it. */
static s2_status find_pair(s2_pair_touch *touch, s2_diag *why)
{
    static const s2_gradient_kind order[] = {S2_GRADIENT_DV, S2_GRADIENT_DK, S2_GRADIENT_DQ};
    for (size_t nth = 0; nth < sizeof order / sizeof *order; nth++) {
        const s2_tally *const tally = &touch->tally[order[nth]];
        for (int32_t s = 0; s < tally->n_suspects && has_wrong_pairs(touch, order[nth]); s++) {
            bool confirmed = false;
            S2_TRY(confirm(touch, order[nth], &tally->suspect[s], &confirmed, why));
            if (confirmed) {
                name_pair(touch, order[nth], &tally->suspect[s]);
                return S2_OK;
            }
        }
    }
    return S2_OK;
}

/*
 * A pair is compared through dK and dV together, and once more through dQ. Where they contradict each other
 * the count is the least that dV, or the named pair, proves.
 */
static void count_wrong(s2_pair_touch *touch)
{
    const s2_tally *const dq = &touch->tally[S2_GRADIENT_DQ], *const dk = &touch->tally[S2_GRADIENT_DK],
                          *const dv = &touch->tally[S2_GRADIENT_DV];
    const bool of_dq = has_wrong_pairs(touch, S2_GRADIENT_DQ), of_dk = has_wrong_pairs(touch, S2_GRADIENT_DK),
               of_dv = has_wrong_pairs(touch, S2_GRADIENT_DV);
    const int64_t by_keys = of_dv   ? dv->n_wrong
                            : of_dk ? dk->n_wrong
                                    : 0,
                  by_queries = of_dq ? dq->n_wrong : 0;
    const bool known = touch->nan[0] == '\0' && !(of_dq && dq->broken) && !(of_dk && dk->broken) &&
                       !(of_dv && dv->broken) && !(of_dk && of_dv && !touch->dk_as_dv) &&
                       !(of_dq && by_keys > 0 && by_keys != by_queries);
    touch->out->touch_wrong = known ? by_keys + by_queries : s2_max_i64(of_dv ? dv->n_wrong : 0, 1);
    touch->out->touch_exhaustive = touch->out->touch_exhaustive && known;
}

static void blame_columns(s2_pair_touch *touch)
{
    for (int32_t grad = 0; grad < S2_N_GRADIENT_KINDS; grad++)
        if (touch->tally[grad].n_off > 0)
            snprintf(touch->out->reason, sizeof touch->out->reason, "layer %d, %s",
                     touch->gradients->harness.some.layer,
                     touch->tally[grad].broken ? touch->tally[grad].first
                                               : "a gradient is off in columns that no wrong pair explains");
}

/* 1 but for what a short type rounds. */
static bool is_about(double factor)
{
    return fabs(factor - 1.0) < 0.02;
}

/* No pair is wrong: what the gradients are multiples of. */
static void blame_values(s2_pair_touch *touch)
{
    s2_validation *const out = touch->out;
    const bool of_dq = is_uniform(touch, S2_GRADIENT_DQ), of_dk = is_uniform(touch, S2_GRADIENT_DK);
    const s2_tally *const dq = &touch->tally[S2_GRADIENT_DQ], *const dk = &touch->tally[S2_GRADIENT_DK];
    const bool both = of_dq && of_dk && dq->least <= dk->most && dk->least <= dq->most;
    const s2_gradient_kind grad = of_dk ? S2_GRADIENT_DK : of_dq ? S2_GRADIENT_DQ : S2_GRADIENT_DV;
    const int digits = touch->gradients->harness.problem.dtype == S2_F32 ? 6 : 3;
    out->outcome = S2_OUTCOME_WRONG_VALUES;
    if (!is_uniform(touch, grad)) {
        blame_columns(touch);
        return;
    }
    const double factor = (touch->tally[grad].least + touch->tally[grad].most) / 2.0;
    snprintf(out->reason, sizeof out->reason, "layer %d: %s %s %s times what is due in every row",
             touch->gradients->harness.some.layer, both ? "dQ and dK" : s2_gradient_harness_word(grad),
             both ? "are" : "is", s2_decimal(factor, digits).text);
    const double scale = (double)touch->gradients->harness.problem.scale;
    if (both)
        snprintf(out->symptom, sizeof out->symptom, "%s",
                 factor == 0.0 ? "leaves out delta, the sum of dO times O of each row"
                               : "multiplies the gradient of the scores by another scale than the scores");
    else if (grad == S2_GRADIENT_DK && is_about(factor * scale) && is_uniform(touch, S2_GRADIENT_DV) &&
             is_about(touch->tally[S2_GRADIENT_DV].most / scale))
        snprintf(out->symptom, sizeof out->symptom,
                 "dK stands where dV is due, and dV where dK is: exchanged");
    else if (is_about(factor * scale))
        snprintf(out->symptom, sizeof out->symptom, "leaves the scale out of %s",
                 s2_gradient_harness_word(grad));
}

static s2_status conclude(s2_pair_touch *touch, s2_diag *why)
{
    bool any = false;
    for (int32_t grad = 0; grad < S2_N_GRADIENT_KINDS; grad++)
        any = any || touch->tally[grad].n_off > 0;
    if (any)
        S2_TRY(find_pair(touch, why));
    if (touch->out->has_wrong_pair) {
        count_wrong(touch);
    } else if (touch->nan[0] != '\0') {
        snprintf(touch->out->reason, sizeof touch->out->reason, "%s", touch->nan);
        touch->out->outcome = S2_OUTCOME_NAN;
    } else if (any) {
        blame_values(touch);
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ the stage */

static void count_rows(s2_pair_touch *touch)
{
    s2_row_walk walk = {.plan = &touch->gradients->harness.some};
    for (s2_probe_row row; s2_harness_next_row(&walk, &row);)
        *counts_at(touch, row.seq, row.head, row.q_tok) = 1;
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
        queries.longest = s2_max_i64(q, queries.longest);
        keys.longest = s2_max_i64(k, keys.longest);
        queries.pairs += (double)plan->seqs[seq].q_tok * (double)k * p->n_heads;
        keys.pairs = queries.pairs;
    }
    touch->out->touch_exhaustive = plan->n_items == touch->gradients->harness.whole.n_items;
    S2_TRY(all_windows(touch, &queries, why));
    S2_STAGE(touch->out, set_ones(touch));
    S2_STAGE(touch->out, all_windows(touch, &keys, why));
    S2_STAGE(touch->out, conclude(touch, why));
    return S2_OK;
}

s2_status s2_gradient_touch(s2_gradient_harness *gradients, const s2_validate_request *request,
                            s2_validation *out, s2_diag *why)
{
    const s2_attn_problem *const p = &gradients->harness.problem;
    s2_pair_touch touch = {.gradients = gradients,
                           .out = out,
                           .request = request,
                           .n_bits = s2_sight_bits(p->dtype),
                           .group = p->n_heads / p->n_kv_heads,
                           .rng = {request->seed ^ UINT64_C(0x746f756368)},
                           .dk_as_dv = true};
    for (int32_t grad = 0; grad < S2_N_GRADIENT_KINDS; grad++)
        touch.tally[grad].least = INFINITY, touch.tally[grad].most = -INFINITY;
    s2_status status = reserve(&touch);
    if (status == S2_OK)
        status = both_ways(&touch, why);
    uint8_t *const hosts[] = {touch.q.host, touch.d_o.host, touch.o.host, touch.k.host, touch.counts};
    for (size_t at = 0; at < sizeof hosts / sizeof *hosts; at++)
        s2_free(hosts[at]);
    s2_free(touch.counts_begin);
    return status;
}
