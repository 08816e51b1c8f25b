#include "tests/kcheck/sabotage.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/float16.h"

#define FAULTS(X)                                                                                            \
    X(NONE, "none", "no fault: the control")                                                                 \
    X(DROPPED_BLOCK, "dropped_block", "one row skips one block of its list")                                 \
    X(WINDOW_BEGIN, "window_begin", "the first key of the lowest block is not read")                         \
    X(PARTIAL_BLOCK, "partial_block", "the last block is ignored when the keys end inside it")               \
    X(SWAPPED_HEADS, "swapped_heads", "heads 0 and 1 write each other's output")                             \
    X(PAST_THE_END, "past_the_end", "one number is written behind the last output")                          \
    X(BEFORE_THE_TILE, "before_the_tile", "a row that is not in the plan is written")                        \
    X(EMPTY_NAN, "empty_nan", "an empty row divides by zero")                                                \
    X(EMPTY_LSE, "empty_lse", "an empty row has LSE 0")                                                      \
    X(LSE_SCALE, "lse_scale", "the LSE forgets the scale of the maximum")                                    \
    X(LSE_BASE, "lse_base", "the LSE is in powers of two")                                                   \
    X(CAUSAL_LATE, "causal_late", "a query does not read itself")                                            \
    X(CAUSAL_EARLY, "causal_early", "a query reads the key after it")                                        \
    X(KV_HEAD, "kv_head", "query head h reads KV head h mod G")                                              \
    X(STALE_ROW, "stale_row", "the accumulator keeps the row before")                                        \
    X(COUNTED_TWICE, "counted_twice", "one key has double weight")                                           \
    X(RACE, "race", "every second run rounds one number differently")                                        \
    X(POISONED_KEYS, "poisoned_keys", "a block outside the list is read with weight 0")                      \
    X(NO_ELEMENT_MASK, "no_element_mask", "element masks are ignored")                                       \
    X(NO_SLABS, "no_slabs", "a block is read by all rows of the tile")                                       \
    X(LAST_ROW, "last_row", "the last row of a tile is not written")                                         \
    X(NO_MAXIMUM, "no_maximum", "exponentials without subtracting the maximum")                              \
    X(COARSE_SUM, "coarse_sum", "the output is accumulated in bf16")                                         \
    X(OFFSET, "offset", "queries count from position 0 although they are the last ones")                     \
    X(SEQUENCE, "sequence", "every sequence reads the keys of the first")                                    \
    X(NO_CAP, "no_cap", "scores are not capped")                                                             \
    X(LATE_CAP, "late_cap", "the cap is applied to scores without their scale")                              \
    X(NO_SINK, "no_sink", "the sink is not in the denominator")                                              \
    X(SINK_LSE, "sink_lse", "the sink is in the denominator and not in the LSE")                             \
    X(SINK_HEAD, "sink_head", "every head has the sink of the first of its group")                           \
    X(Q_SCALE, "q_scale", "every head's queries of e4m3 have the scale of the first")                        \
    X(K_SCALE, "k_scale", "keys of e4m3 have the scale of the first KV head")                                \
    X(V_SCALE, "v_scale", "values of e4m3 have the scale of keys")                                           \
    X(SMALL_WEIGHTS, "small_weights", "weights of e4m3 are rounded as they are, so that small ones are lost")

typedef enum s2_fault {
#define FAULT_ENUM(name, word, about) FAULT_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
        N_FAULTS
} s2_fault;

enum { LIMIT_DIM = 512 };

typedef struct s2_bad_state {
    s2_fault fault;
    int32_t n_runs;
    s2_plan_list list;
    float o[LIMIT_DIM];
} s2_bad_state;

/* One row at work. */
typedef struct s2_bad_row {
    const s2_attn_problem *p;
    s2_bad_state *state;
    const s2_plan_item *item;
    int32_t head;
    int32_t row; /* of the tile */
    int64_t position;
    int64_t k_tok;
    float peak, sum;
} s2_bad_row;

static int32_t kv_head(const s2_bad_row *at)
{
    return at->state->fault == FAULT_KV_HEAD ? at->head % at->p->n_kv_heads
                                             : s2_pattern_kv_head(at->p->plan->pattern, at->head);
}

static float element(const s2_bad_row *at, const s2_tensor *tensor, int64_t k_tok, int32_t d)
{
    const s2_attn_problem *const p = at->p;
    const s2_fault fault = at->state->fault;
    const int32_t seq = fault == FAULT_SEQUENCE ? 0 : at->item->seq, g = kv_head(at);
    const float stored =
        s2_float_load(tensor->data, s2_kv_dtype(p), s2_tensor_at(tensor, p->k_begin_tok, seq, k_tok, g) + d);
    if (!p->e4m3)
        return stored;
    if (tensor == &p->k)
        return stored * p->k_scale[fault == FAULT_K_SCALE ? 0 : g];
    return stored * (fault == FAULT_V_SCALE ? p->k_scale : p->v_scale)[g];
}

static float query(const s2_bad_row *at, int64_t q_at, int32_t d)
{
    const s2_attn_problem *const p = at->p;
    const float stored = s2_float_load(p->q.data, s2_q_dtype(p), q_at + d);
    return p->e4m3 ? stored * p->q_scale[at->state->fault == FAULT_Q_SCALE ? 0 : at->head] : stored;
}

static int64_t first_query(const s2_bad_row *at)
{
    const s2_plan_seq lens = at->p->plan->seqs[at->item->seq];
    return at->position - (lens.k_tok - lens.q_tok);
}

static float score(const s2_bad_row *at, int64_t k_tok)
{
    const s2_attn_problem *const p = at->p;
    const int64_t q_at = s2_tensor_at(&p->q, p->q_begin_tok, at->item->seq, first_query(at), at->head);
    float dot = 0.0f;
    for (int32_t d = 0; d < p->head_dim; d++)
        dot += query(at, q_at, d) * element(at, &p->k, k_tok, d);
    if (p->cap > 0.0f && at->state->fault == FAULT_LATE_CAP)
        return p->cap * tanhf(dot / p->cap) * p->scale;
    if (p->cap > 0.0f && at->state->fault != FAULT_NO_CAP)
        return p->cap * tanhf(dot * p->scale / p->cap);
    return dot * p->scale;
}

static void add_key(s2_bad_row *at, int64_t k_tok, float weight_factor)
{
    const float s = score(at, k_tok);
    const float peak = at->state->fault == FAULT_NO_MAXIMUM ? 0.0f : fmaxf(at->peak, s);
    const float first = at->state->fault == FAULT_STALE_ROW ? 1.0f : 0.0f;
    const float decay = at->peak == -INFINITY ? first : expf(at->peak - peak);
    const float weight = expf(s - peak) * weight_factor;
    const bool lost = at->p->e4m3 && at->state->fault == FAULT_SMALL_WEIGHTS;
    const float used = lost ? s2_round_to(S2_F8, weight) : weight;
    at->sum = at->sum * decay + weight;
    for (int32_t d = 0; d < at->p->head_dim; d++) {
        const float o = at->state->o[d] * decay + used * element(at, &at->p->v, k_tok, d);
        at->state->o[d] = at->state->fault == FAULT_COARSE_SUM ? s2_round_to(S2_BF16, o) : o;
    }
    at->peak = peak;
}

static bool reads(const s2_bad_row *at, const s2_plan_entry *entry, int64_t k_tok)
{
    const s2_plan *const plan = at->p->plan;
    const s2_fault fault = at->state->fault;
    const int64_t in_blk = k_tok - (int64_t)entry->k_blk * plan->blk_tok;
    int64_t position = at->position;
    if (fault == FAULT_OFFSET)
        position = first_query(at);
    if (fault == FAULT_CAUSAL_LATE)
        position--;
    if (fault == FAULT_CAUSAL_EARLY)
        position++;
    if (plan->pattern->causal && k_tok > position)
        return false;
    if (entry->mask < 0 || fault == FAULT_NO_ELEMENT_MASK)
        return true;
    const int64_t word =
        ((int64_t)entry->mask * plan->options.tile_tok + at->row) * plan->mask_words + in_blk / 32;
    return (at->state->list.bits[word] >> (in_blk % 32) & 1) != 0;
}

static void add_entry(s2_bad_row *at, const s2_plan_entry *entry, bool lowest)
{
    const s2_plan *const plan = at->p->plan;
    const s2_fault fault = at->state->fault;
    const int64_t begin = (int64_t)entry->k_blk * plan->blk_tok;
    const int64_t end = begin + plan->blk_tok < at->k_tok ? begin + plan->blk_tok : at->k_tok;
    if ((entry->slabs >> (at->row / S2_PLAN_SLAB_TOK) & 1) == 0 && fault != FAULT_NO_SLABS)
        return;
    if (fault == FAULT_PARTIAL_BLOCK && begin + plan->blk_tok > at->k_tok)
        return;
    if (fault == FAULT_DROPPED_BLOCK && at->row == 5 && lowest)
        return;
    for (int64_t k_tok = begin; k_tok < end; k_tok++)
        if (reads(at, entry, k_tok) && !(fault == FAULT_WINDOW_BEGIN && lowest && k_tok == begin))
            add_key(at, k_tok, fault == FAULT_COUNTED_TWICE && lowest && k_tok == begin ? 2.0f : 1.0f);
}

static bool lists_block(const s2_plan_list *list, int32_t k_blk)
{
    for (int32_t e = 0; e < list->n_entries; e++)
        if (list->entries[e].k_blk == k_blk)
            return true;
    return false;
}

/* Weight 0 on every block that the list leaves out. */
static void touch_unlisted(s2_bad_row *at)
{
    const int32_t size = at->p->plan->blk_tok;
    for (int32_t k_blk = 0; (int64_t)k_blk * size < at->k_tok; k_blk++)
        if (!lists_block(&at->state->list, k_blk) && at->sum > 0.0f)
            for (int32_t d = 0; d < at->p->head_dim; d++)
                at->state->o[d] += 0.0f * element(at, &at->p->v, (int64_t)k_blk * size, d);
}

static void store_o(const s2_bad_row *at, int64_t o_at)
{
    const s2_fault fault = at->state->fault;
    const float inverse = at->sum > 0.0f || fault == FAULT_EMPTY_NAN ? 1.0f / at->sum : 0.0f;
    for (int32_t d = 0; d < at->p->head_dim; d++) {
        float o = at->sum > 0.0f || fault == FAULT_EMPTY_NAN ? at->state->o[d] * inverse : 0.0f;
        if (fault == FAULT_RACE && at->state->n_runs % 2 == 0 && d == 1)
            o *= 1.0f + 0x1p-20f;
        s2_float_store(at->p->o.data, at->p->dtype, o_at + d, o);
    }
}

static void add_sink(s2_bad_row *at)
{
    const s2_attn_problem *const p = at->p;
    const int32_t head =
        at->state->fault == FAULT_SINK_HEAD ? at->head - at->head % (p->n_heads / p->n_kv_heads) : at->head;
    const float sink = p->sinks && at->state->fault != FAULT_NO_SINK ? p->sink[head] : -INFINITY;
    const float peak = fmaxf(at->peak, sink);
    if (sink == -INFINITY)
        return;
    const float keep = at->peak == -INFINITY ? 0.0f : expf(at->peak - peak);
    for (int32_t d = 0; d < p->head_dim; d++)
        at->state->o[d] *= keep;
    at->sum = at->sum * keep + expf(sink - peak);
    at->peak = peak;
}

static void store_row(s2_bad_row *at)
{
    const s2_attn_problem *const p = at->p;
    const s2_fault fault = at->state->fault;
    const int64_t q_tok = first_query(at);
    const int32_t head =
        fault == FAULT_SWAPPED_HEADS && p->n_heads > 1 && at->head < 2 ? 1 - at->head : at->head;
    const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, at->item->seq, q_tok, head);
    const int64_t lse_at = s2_rows_at(&p->lse, p->q_begin_tok, at->item->seq, q_tok, at->head);
    float lse = at->sum > 0.0f ? at->peak + logf(at->sum) : -INFINITY;
    add_sink(at);
    if (fault != FAULT_SINK_LSE)
        lse = at->sum > 0.0f ? at->peak + logf(at->sum) : -INFINITY;
    store_o(at, o_at);
    if (fault == FAULT_LSE_SCALE && at->sum > 0.0f)
        lse = at->peak / p->scale + logf(at->sum);
    if (fault == FAULT_LSE_BASE)
        lse *= 1.44269504f;
    if (fault == FAULT_EMPTY_LSE && at->sum <= 0.0f)
        lse = 0.0f;
    p->lse.data[lse_at] = lse;
    const s2_plan_seq lens = p->plan->seqs[at->item->seq];
    const bool last = q_tok == lens.q_tok - 1 && at->item->seq == p->n_seqs - 1;
    if (fault == FAULT_PAST_THE_END && last && head == p->n_heads - 1)
        s2_float_store(p->o.data, p->dtype, o_at + p->head_dim, 1.0f);
    if (fault == FAULT_BEFORE_THE_TILE && q_tok == 0 && head == 0 && at->item->seq == 0)
        s2_float_store(p->o.data, p->dtype, o_at - 1, 1.0f);
}

static void one_row(s2_bad_row *at)
{
    const s2_plan_list *const list = &at->state->list;
    int32_t lowest = INT32_MAX;
    at->peak = -INFINITY;
    at->sum = 0.0f;
    if (at->state->fault != FAULT_STALE_ROW)
        memset(at->state->o, 0, sizeof at->state->o);
    for (int32_t e = 0; e < list->n_entries; e++)
        lowest = list->entries[e].k_blk < lowest ? list->entries[e].k_blk : lowest;
    for (int32_t e = 0; e < list->n_entries; e++)
        add_entry(at, &list->entries[e], list->entries[e].k_blk == lowest);
    if (at->state->fault == FAULT_POISONED_KEYS)
        touch_unlisted(at);
    store_row(at);
}

static s2_status one_item(const s2_attn_problem *p, const s2_plan_item *item, s2_bad_state *state)
{
    const s2_plan *const plan = p->plan;
    const s2_plan_seq lens = plan->seqs[item->seq];
    const int64_t begin = s2_plan_tile_begin(plan, item->seq, item->tile);
    S2_TRY(s2_plan_tile_list(plan, item->cls, item->seq, item->tile, &state->list));
    s2_bad_row at = {.p = p, .state = state, .item = item, .k_tok = lens.k_tok};
    for (at.head = item->head; at.head < item->head + item->n_heads; at.head++)
        for (at.row = 0; at.row < plan->options.tile_tok; at.row++) {
            at.position = begin + at.row;
            const bool real = at.position >= lens.k_tok - lens.q_tok && at.position < lens.k_tok;
            if (real && !(state->fault == FAULT_LAST_ROW && at.row == plan->options.tile_tok - 1))
                one_row(&at);
        }
    return S2_OK;
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    (void)device;
    (void)why;
    s2_bad_state *const own = state;
    own->n_runs++;
    for (int32_t item = 0; item < problem->plan->n_items; item++)
        S2_TRY(one_item(problem, &problem->plan->items[item], own));
    return S2_OK;
}

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if (problem->pass != S2_PASS_FORWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes no gradients");
    return problem->head_dim <= LIMIT_DIM
               ? S2_OK
               : s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "head dimension above %d", LIMIT_DIM);
}

static s2_status prepare_fault(s2_device *device, const s2_attn_problem *problem, void **state,
                               s2_fault fault, s2_diag *why)
{
    (void)device;
    S2_TRY(s2_problem_check(problem, why));
    s2_bad_state *const own = s2_calloc(1, sizeof *own);
    if (own == NULL)
        return S2_ENOMEM;
    own->fault = fault;
    *state = own;
    return S2_OK;
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    if (state != NULL)
        s2_plan_list_release(&((s2_bad_state *)state)->list);
    s2_free(state);
}

FAULTS(S2_FAULT_PREPARE)

enum { FAULT_TILE_TOK = 64, FAULT_TAKES = S2_TAKES_CAP | S2_TAKES_SINKS | S2_TAKES_E4M3 };
static const s2_kernel kernels[] = {FAULTS(S2_FAULT_KERNEL)};

const s2_kernel *s2_sabotage_kernel(int32_t fault)
{
    return fault >= 0 && fault < N_FAULTS ? &kernels[fault] : NULL;
}
