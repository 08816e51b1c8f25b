/*
 * Gradients with one deliberate fault each: a scalar kernel over the plan's lists, pair by pair. It sums dK
 * and dV of all keys in fp32 beside, and writes them at the end.
 */
#include "tests/kcheck/sabotage.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/float16.h"

#define FAULTS(X)                                                                                            \
    X(NONE, "grad_none", "no fault: the control")                                                            \
    X(MISSING_TILE, "grad_missing_tile", "the first tile of queries brings nothing to dK and dV")            \
    X(MISSING_BLOCK, "grad_missing_block", "dQ skips the lowest block of a row")                             \
    X(NO_SCALE, "grad_no_scale", "dK is not scaled")                                                         \
    X(NO_DELTA, "grad_no_delta", "dS forgets delta")                                                         \
    X(STALE_DELTA, "grad_stale_delta", "a row takes the delta of the row before")                            \
    X(KV_HEAD, "grad_kv_head", "dK of query head h goes to KV head h mod G")                                 \
    X(LAST_HEAD, "grad_last_head", "dV of a group is that of its last head")                                 \
    X(CAUSAL_LATE, "grad_causal_late", "a query does not read itself")                                       \
    X(CAUSAL_EARLY, "grad_causal_early", "a query reads the key after it")                                   \
    X(UNORDERED, "grad_unordered", "every second run sums dK and dV from the other end")                     \
    X(NOT_NORMAL, "grad_not_normal", "P is not divided by the softmax's denominator")                        \
    X(LSE_BASE, "grad_lse_base", "the LSE is taken for powers of two")                                       \
    X(COARSE_SUM, "grad_coarse_sum", "dK is accumulated in bf16")                                            \
    X(EMPTY_ROW, "grad_empty_row", "a row that reads nothing is not written")                                \
    X(UNREAD_KEY, "grad_unread_key", "keys that nobody reads are not written")                               \
    X(NO_SLABS, "grad_no_slabs", "a block is read by all rows of the tile")                                  \
    X(NO_ELEMENT_MASK, "grad_no_element_mask", "element masks are ignored")                                  \
    X(OFFSET, "grad_offset", "queries count from position 0 although they are the last ones")                \
    X(SEQUENCE, "grad_sequence", "dK and dV of every sequence go to the first")                              \
    X(PAST_THE_END, "grad_past_the_end", "one number is written behind the last dV")                         \
    X(TRANSPOSED, "grad_transposed", "dK and dV change places")                                              \
    X(CAP_SLOPE, "grad_cap_slope", "dS forgets the slope of the cap")                                        \
    X(NO_CAP, "grad_no_cap", "P is of scores that are not capped")                                           \
    X(SINK_SIGN, "grad_sink_sign", "the gradient of the sink has the other sign")                            \
    X(SINK_DELTA, "grad_sink_delta", "the gradient of the sink sums weights without delta")                  \
    X(SINK_LAST, "grad_sink_last", "the gradient of the sink is of the last sequence")

typedef enum s2_grad_fault {
#define FAULT_ENUM(name, word, about) FAULT_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
        N_FAULTS
} s2_grad_fault;

enum { LIMIT_DIM = 512, LIMIT_HEADS = 64 };

typedef struct s2_bad_gradient {
    s2_grad_fault fault;
    int32_t n_runs;
    s2_plan_list list;
    float *sum[2]; /* dK and dV of [token of the batch][KV head][d] */
    uint8_t *read; /* [token of the batch][KV head] */
    int64_t n_k_tok;
    int32_t *k_begin; /* [seq]: first token of the batch */
    float dq[LIMIT_DIM];
    float sink[LIMIT_HEADS];
} s2_bad_gradient;

/* One row at work. */
typedef struct s2_bad_query {
    const s2_attn_problem *p;
    s2_bad_gradient *state;
    const s2_plan_item *item;
    int32_t head, row;
    int64_t position, q_tok;
    float lse, delta;
    int64_t n_read;
} s2_bad_query;

static float dot(const s2_attn_problem *p, const s2_tensor *left, int64_t left_at, const s2_tensor *right,
                 int64_t right_at)
{
    float sum = 0.0f;
    for (int32_t d = 0; d < p->head_dim; d++)
        sum += s2_float_load(left->data, p->dtype, left_at + d) *
               s2_float_load(right->data, p->dtype, right_at + d);
    return sum;
}

static int64_t sum_at(const s2_bad_query *at, int32_t grad, int64_t k_tok)
{
    const s2_attn_problem *const p = at->p;
    const s2_grad_fault fault = at->state->fault;
    int32_t kv_head = s2_pattern_kv_head(p->plan->pattern, at->head);
    if (fault == FAULT_KV_HEAD && grad == 0)
        kv_head = at->head % p->n_kv_heads;
    const int32_t seq = fault == FAULT_SEQUENCE ? 0 : at->item->seq;
    int64_t token = at->state->k_begin[seq] + k_tok;
    token = token < at->state->n_k_tok ? token : at->state->n_k_tok - 1;
    return token * p->n_kv_heads + kv_head;
}

static void add(const s2_bad_query *at, int32_t grad, int64_t k_tok, const s2_tensor *tensor, int64_t from,
                float weight)
{
    const s2_attn_problem *const p = at->p;
    const s2_grad_fault fault = at->state->fault;
    float *const sum = &at->state->sum[grad][sum_at(at, grad, k_tok) * p->head_dim];
    const int32_t group = p->n_heads / p->n_kv_heads;
    if (fault == FAULT_LAST_HEAD && grad == 1 && at->head % group != group - 1)
        return;
    if (fault == FAULT_MISSING_TILE && at->item->tile == 0)
        return;
    for (int32_t d = 0; d < p->head_dim; d++) {
        sum[d] += weight * s2_float_load(tensor->data, p->dtype, from + d);
        if (fault == FAULT_COARSE_SUM && grad == 0)
            sum[d] = s2_round_to(S2_BF16, sum[d]);
    }
}

static void one_pair(s2_bad_query *at, int64_t k_tok, bool lowest)
{
    const s2_attn_problem *const p = at->p;
    const s2_grad_fault fault = at->state->fault;
    const int32_t seq = at->item->seq, kv_head = s2_pattern_kv_head(p->plan->pattern, at->head);
    const int64_t q = s2_tensor_at(&p->q, p->q_begin_tok, seq, at->q_tok, at->head);
    const int64_t d_o = s2_tensor_at(&p->d_o, p->q_begin_tok, seq, at->q_tok, at->head);
    const int64_t k = s2_tensor_at(&p->k, p->k_begin_tok, seq, k_tok, kv_head);
    const int64_t v = s2_tensor_at(&p->v, p->k_begin_tok, seq, k_tok, kv_head);
    const float lse = fault == FAULT_LSE_BASE ? at->lse * 0.693147181f : at->lse;
    const float score = dot(p, &p->q, q, &p->k, k) * p->scale,
                part = p->cap > 0.0f ? tanhf(score / p->cap) : 0.0f;
    const float capped = p->cap > 0.0f && fault != FAULT_NO_CAP ? p->cap * part : score;
    const float slope = fault == FAULT_CAP_SLOPE ? 1.0f : 1.0f - part * part;
    const float weight = expf(capped - (fault == FAULT_NOT_NORMAL ? 0.0f : lse));
    const float delta = fault == FAULT_NO_DELTA ? 0.0f : at->delta;
    const float ds = weight * (dot(p, &p->d_o, d_o, &p->v, v) - delta) * slope;
    at->state->read[sum_at(at, 1, k_tok)] = 1;
    at->n_read++;
    add(at, fault == FAULT_TRANSPOSED ? 1 : 0, k_tok, &p->q, q, ds);
    add(at, fault == FAULT_TRANSPOSED ? 0 : 1, k_tok, &p->d_o, d_o, weight);
    if (fault == FAULT_MISSING_BLOCK && lowest)
        return;
    for (int32_t d = 0; d < p->head_dim; d++)
        at->state->dq[d] += ds * s2_float_load(p->k.data, p->dtype, k + d);
}

static bool reads(const s2_bad_query *at, const s2_plan_entry *entry, int64_t k_tok)
{
    const s2_plan *const plan = at->p->plan;
    const s2_grad_fault fault = at->state->fault;
    const int64_t in_blk = k_tok - (int64_t)entry->k_blk * plan->blk_tok;
    int64_t position = fault == FAULT_OFFSET ? at->q_tok : at->position;
    position += (fault == FAULT_CAUSAL_EARLY) - (fault == FAULT_CAUSAL_LATE);
    if ((entry->slabs >> (at->row / S2_PLAN_SLAB_TOK) & 1) == 0 && fault != FAULT_NO_SLABS)
        return false;
    if (plan->pattern->causal && k_tok > position)
        return false;
    if (entry->mask < 0 || fault == FAULT_NO_ELEMENT_MASK)
        return true;
    const int64_t word =
        ((int64_t)entry->mask * plan->options.tile_tok + at->row) * plan->mask_words + in_blk / 32;
    return (at->state->list.bits[word] >> (in_blk % 32) & 1) != 0;
}

static void one_entry(s2_bad_query *at, const s2_plan_entry *entry, bool lowest)
{
    const s2_plan *const plan = at->p->plan;
    const int64_t begin = (int64_t)entry->k_blk * plan->blk_tok, k_end = plan->seqs[at->item->seq].k_tok;
    for (int64_t k_tok = begin; k_tok < begin + plan->blk_tok && k_tok < k_end; k_tok++)
        if (reads(at, entry, k_tok))
            one_pair(at, k_tok, lowest);
}

static void one_query(s2_bad_query *at)
{
    const s2_attn_problem *const p = at->p;
    const s2_plan_list *const list = &at->state->list;
    const s2_grad_fault fault = at->state->fault;
    const int32_t seq = at->item->seq;
    const int64_t q_tok = fault == FAULT_STALE_DELTA && at->q_tok > 0 ? at->q_tok - 1 : at->q_tok;
    int32_t lowest = INT32_MAX;
    const bool sink = p->sinks && p->sink[at->head] > -INFINITY;
    memset(at->state->dq, 0, sizeof at->state->dq);
    at->n_read = 0;
    at->lse = p->lse.data[s2_rows_at(&p->lse, p->q_begin_tok, seq, at->q_tok, at->head)];
    at->delta = dot(p, &p->d_o, s2_tensor_at(&p->d_o, p->q_begin_tok, seq, q_tok, at->head), &p->o,
                    s2_tensor_at(&p->o, p->q_begin_tok, seq, q_tok, at->head));
    if (sink && !(fault == FAULT_SINK_LAST && seq != p->n_seqs - 1))
        at->state->sink[at->head] += (fault == FAULT_SINK_SIGN ? 1.0f : -1.0f) *
                                     expf(p->sink[at->head] - at->lse) *
                                     (fault == FAULT_SINK_DELTA ? 1.0f : at->delta);
    for (int32_t e = 0; e < list->n_entries; e++)
        lowest = list->entries[e].k_blk < lowest ? list->entries[e].k_blk : lowest;
    for (int32_t e = 0; e < list->n_entries; e++)
        one_entry(at, &list->entries[e], list->entries[e].k_blk == lowest);
    if (fault == FAULT_EMPTY_ROW && at->n_read == 0)
        return;
    const int64_t out = s2_tensor_at(&p->d_q, p->q_begin_tok, seq, at->q_tok, at->head);
    for (int32_t d = 0; d < p->head_dim; d++)
        s2_float_store(p->d_q.data, p->dtype, out + d, at->state->dq[d] * p->scale);
}

static s2_status one_item(const s2_attn_problem *p, const s2_plan_item *item, s2_bad_gradient *state)
{
    const s2_plan *const plan = p->plan;
    const s2_plan_seq lens = plan->seqs[item->seq];
    const int64_t begin = s2_plan_tile_begin(plan, item->seq, item->tile), q_off = lens.k_tok - lens.q_tok;
    S2_TRY(s2_plan_tile_list(plan, item->cls, item->seq, item->tile, &state->list));
    s2_bad_query at = {.p = p, .state = state, .item = item};
    for (at.head = item->head; at.head < item->head + item->n_heads; at.head++)
        for (at.row = 0; at.row < plan->options.tile_tok; at.row++) {
            at.position = begin + at.row;
            at.q_tok = at.position - q_off;
            if (at.position >= q_off && at.position < lens.k_tok)
                one_query(&at);
        }
    return S2_OK;
}

static void store_keys(const s2_attn_problem *p, const s2_bad_gradient *state)
{
    const s2_tensor *const tensors[2] = {&p->d_k, &p->d_v};
    int64_t last = 0;
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t k_tok = 0; k_tok < p->plan->seqs[seq].k_tok; k_tok++)
            for (int32_t g = 0; g < p->n_kv_heads; g++) {
                const int64_t from = (int64_t)(state->k_begin[seq] + k_tok) * p->n_kv_heads + g;
                if (state->fault == FAULT_UNREAD_KEY && !state->read[from])
                    continue;
                for (int32_t grad = 0; grad < 2; grad++) {
                    const int64_t out = s2_tensor_at(tensors[grad], p->k_begin_tok, seq, k_tok, g);
                    const float scale = grad == 0 && state->fault != FAULT_NO_SCALE ? p->scale : 1.0f;
                    for (int32_t d = 0; d < p->head_dim; d++)
                        s2_float_store(tensors[grad]->data, p->dtype, out + d,
                                       state->sum[grad][from * p->head_dim + d] * scale);
                    last = out > last ? out : last;
                }
            }
    if (state->fault == FAULT_PAST_THE_END)
        s2_float_store(p->d_v.data, p->dtype, last + p->head_dim, 1.0f);
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    (void)device;
    (void)why;
    s2_bad_gradient *const state = raw;
    const int64_t n_rows = state->n_k_tok * problem->n_kv_heads;
    const int32_t n_items = problem->plan->n_items;
    for (int32_t grad = 0; grad < 2; grad++)
        memset(state->sum[grad], 0, (size_t)(n_rows * problem->head_dim) * sizeof *state->sum[grad]);
    memset(state->read, 0, (size_t)n_rows);
    memset(state->sink, 0, sizeof state->sink);
    const bool backwards = state->fault == FAULT_UNORDERED && state->n_runs++ % 2 == 1;
    for (int32_t item = 0; item < n_items; item++)
        S2_TRY(one_item(problem, &problem->plan->items[backwards ? n_items - 1 - item : item], state));
    store_keys(problem, state);
    for (int32_t head = 0; problem->sinks && head < problem->n_heads; head++)
        problem->d_sink[head] = state->sink[head];
    return S2_OK;
}

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if (problem->pass != S2_PASS_BACKWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes gradients only");
    return problem->head_dim <= LIMIT_DIM && problem->n_heads <= LIMIT_HEADS
               ? S2_OK
               : s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "head dimension above %d or heads above %d",
                             LIMIT_DIM, LIMIT_HEADS);
}

static void finish(s2_device *device, void *raw)
{
    (void)device;
    s2_bad_gradient *const state = raw;
    if (state != NULL) {
        s2_plan_list_release(&state->list);
        s2_free(state->sum[0]);
        s2_free(state->sum[1]);
        s2_free(state->read);
        s2_free(state->k_begin);
    }
    s2_free(state);
}

static s2_status prepare_fault(s2_device *device, const s2_attn_problem *problem, void **out,
                               s2_grad_fault fault, s2_diag *why)
{
    (void)device;
    S2_TRY(s2_problem_check(problem, why));
    s2_bad_gradient *const state = s2_calloc(1, sizeof *state);
    if (state == NULL)
        return S2_ENOMEM;
    state->fault = fault;
    state->k_begin = s2_calloc((size_t)problem->n_seqs, sizeof *state->k_begin);
    for (int32_t seq = 0; state->k_begin != NULL && seq < problem->n_seqs; seq++) {
        state->k_begin[seq] = (int32_t)state->n_k_tok;
        state->n_k_tok += problem->plan->seqs[seq].k_tok;
    }
    const size_t n_rows = (size_t)(state->n_k_tok * problem->n_kv_heads);
    state->sum[0] = s2_calloc(n_rows, (size_t)problem->head_dim * sizeof *state->sum[0]);
    state->sum[1] = s2_calloc(n_rows, (size_t)problem->head_dim * sizeof *state->sum[1]);
    state->read = s2_calloc(n_rows, 1);
    if (state->k_begin == NULL || state->sum[0] == NULL || state->sum[1] == NULL || state->read == NULL) {
        finish(NULL, state);
        return S2_ENOMEM;
    }
    *out = state;
    return S2_OK;
}

FAULTS(S2_FAULT_PREPARE)

enum { FAULT_TILE_TOK = 64, FAULT_TAKES = S2_TAKES_CAP | S2_TAKES_SINKS };
static const s2_kernel kernels[] = {FAULTS(S2_FAULT_KERNEL)};

const s2_kernel *s2_sabotage_gradient(int32_t fault)
{
    return fault >= 0 && fault < N_FAULTS ? &kernels[fault] : NULL;
}
