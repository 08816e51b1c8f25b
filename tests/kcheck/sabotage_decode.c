/*
 * A plain scalar decode kernel over slabs and parts, contiguous or from a cache; each fault but the first is
 * one that a real one may have.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/decode.h"
#include "kernels/float16.h"
#include "tests/kcheck/sabotage.h"

#define FAULTS(X)                                                                                            \
    X(NONE, "step_none", "no fault: the control")                                                            \
    X(SPLIT_BOUND, "split_bound", "a part leaves its last slab out")                                         \
    X(MISSING_PART, "missing_part", "the combination forgets the last part")                                 \
    X(PART_WEIGHT, "part_weight", "parts are added without the weights of their maxima")                     \
    X(PART_LSE, "part_lse", "the LSE is that of the first part")                                             \
    X(STALE_SLOT, "stale_slot", "a list that ends in a part starts from what the list before left")          \
    X(GROUP_SWAP, "group_swap", "the first two heads of a group write each other's rows")                    \
    X(TOKEN_ORDER, "token_order", "rows are taken head by head, not token by token")                         \
    X(NO_ROW_BITS, "no_row_bits", "every row reads what any row of the slab reads")                          \
    X(WRONG_TABLE, "wrong_table", "every KV head reads the page table of the first")                         \
    X(STALE_PAGE, "stale_page", "a slab is read where it lay at an earlier step")                            \
    X(NEXT_PAGE, "next_page", "the first slab is read where the second lies")                                \
    X(EARLY_EVICTION, "early_eviction", "the oldest slab of a cached list is gone already")                  \
    X(NEWEST_KEY, "newest_key", "the newest key is not read")                                                \
    X(FIRST_LENGTH, "first_length", "every sequence ends where the first does")                              \
    X(SINK_A_PART, "sink_a_part", "the sink is added once for every part")                                   \
    X(CAP_SUM, "step_no_cap", "scores are not capped")                                                       \
    X(K_SCALE, "step_k_scale", "every KV head's keys have the scale of the first")                           \
    X(V_SCALE, "step_v_scale", "values have the scale of the keys")                                          \
    X(LAST_BIT, "step_last_bit", "the last bit of an e4m3 number is lost")

typedef enum s2_fault {
#define FAULT_ENUM(name, word, about) FAULT_##name,
    FAULTS(FAULT_ENUM)
#undef FAULT_ENUM
        N_FAULTS
} s2_fault;

enum { WANT_PARTS = 6, LIMIT_DIM = 512, N_SEEN = 1 << 15 };

/* Where slabs lay when they were first seen; a kernel must not remember, and stale_page does. */
typedef struct s2_seen {
    int64_t key; /* list and position, plus one; 0: nothing */
    s2_decode_place place;
} s2_seen;

typedef struct s2_bad_step {
    s2_fault fault;
    s2_arena arena;
    s2_decode_layout layout;
    s2_decode_place *places;
} s2_bad_step;

typedef struct s2_bad_part {
    float o[LIMIT_DIM];
    float peak, sum;
} s2_bad_part;

/* ------------------------------------------------------------------ one row */

static int32_t head_of(const s2_attn_problem *p, const s2_decode_list *list, int32_t row)
{
    return list->kv_head * (p->n_heads / p->n_kv_heads) + row % (p->n_heads / p->n_kv_heads);
}

/* A stored number of K or V; in e4m3 the last bit weighs an eighth of its power of two. */
static float number_at(const s2_attn_problem *p, const s2_tensor *tensor, int64_t at, s2_fault fault)
{
    if (p->e4m3 && fault == FAULT_LAST_BIT)
        return s2_e4m3_to_float(((const uint8_t *)tensor->data)[at] & 0xfeu);
    return s2_float_load(tensor->data, s2_kv_dtype(p), at);
}

static void add_key(const s2_attn_problem *p, const s2_bad_step *step, const s2_decode_list *list,
                    const s2_decode_place *place, int32_t key, int64_t q_at, s2_bad_part *part)
{
    const s2_fault fault = step->fault;
    const bool capped = p->cap > 0.0f && fault != FAULT_CAP_SUM;
    const float k_scale = p->e4m3 ? p->k_scale[fault == FAULT_K_SCALE ? 0 : list->kv_head] : 1.0f;
    const float v_scale = p->e4m3 ? (fault == FAULT_V_SCALE ? p->k_scale : p->v_scale)[list->kv_head] : 1.0f;
    float dot = 0.0f;
    for (int32_t d = 0; d < p->head_dim; d++)
        dot += s2_float_load(p->q.data, p->dtype, q_at + d) *
               number_at(p, &p->k, place->k_at + key * p->k.tok + d, fault) * k_scale;
    const float score = capped ? p->cap * tanhf(dot * p->scale / p->cap) : dot * p->scale,
                peak = score > part->peak ? score : part->peak;
    const float decay = part->peak == -INFINITY ? 0.0f : expf(part->peak - peak), weight = expf(score - peak);
    part->peak = peak;
    part->sum = part->sum * decay + weight;
    for (int32_t d = 0; d < p->head_dim; d++)
        part->o[d] = part->o[d] * decay +
                     weight * number_at(p, &p->v, place->v_at + key * p->v.tok + d, fault) * v_scale;
}

static uint32_t bits_of(const s2_attn_problem *p, const s2_bad_step *step, const s2_decode_list *list,
                        int32_t slab, int32_t row)
{
    const s2_decode_plan *const plan = &step->layout.plan;
    const s2_decode_slab *const own = &plan->slabs[slab];
    uint32_t bits = own->mask < 0 ? 0xffffu : plan->bits[(int64_t)own->mask * plan->row_cap + row];
    if (step->fault == FAULT_NO_ROW_BITS)
        bits = own->live;
    const int32_t newest = p->plan->seqs[list->seq].k_tok - 1 - own->k_tok;
    if (step->fault == FAULT_NEWEST_KEY && newest >= 0 && newest < S2_DECODE_SLAB_TOK)
        bits &= ~(1u << newest);
    const int32_t end = p->plan->seqs[0].k_tok - own->k_tok;
    if (step->fault == FAULT_FIRST_LENGTH && end < S2_DECODE_SLAB_TOK)
        bits &= end > 0 ? (1u << end) - 1u : 0u;
    return bits;
}

static void fold_part(const s2_attn_problem *p, const s2_bad_step *step, const s2_decode_list *list,
                      const s2_decode_part *own, int32_t row, s2_bad_part *out)
{
    const int32_t group = p->n_heads / p->n_kv_heads, n_q = list->n_rows / group;
    const bool by_head = step->fault == FAULT_TOKEN_ORDER;
    const int32_t token = by_head ? row % n_q : row / group;
    const int32_t head = by_head ? list->kv_head * group + row / n_q : head_of(p, list, row);
    const int64_t q_at = s2_tensor_at(&p->q, p->q_begin_tok, list->seq, token, head);
    const int32_t begin = own->slab_begin > list->slab_begin ? own->slab_begin : list->slab_begin;
    const int32_t end = own->slab_end < list->slab_end ? own->slab_end : list->slab_end;
    const int32_t left_out = step->fault == FAULT_SPLIT_BOUND && list->n_parts > 1;
    if (step->fault != FAULT_STALE_SLOT || list->n_parts == 1)
        memset(out, 0, sizeof *out);
    if (step->fault != FAULT_STALE_SLOT || list->n_parts == 1 || out->sum <= 0.0f)
        out->peak = -INFINITY;
    for (int32_t slab = begin; slab < end - left_out; slab++) {
        const uint32_t bits = bits_of(p, step, list, slab, row);
        const bool gone = step->fault == FAULT_EARLY_EVICTION && p->cached != NULL &&
                          slab == list->slab_begin && list->slab_end - list->slab_begin > 2;
        for (int32_t key = 0; key < S2_DECODE_SLAB_TOK && !gone; key++)
            if ((bits >> key & 1u) != 0)
                add_key(p, step, list, &step->places[slab], key, q_at, out);
    }
}

static void combine(const s2_bad_step *step, const s2_bad_part *part, int32_t dim, s2_bad_part *to)
{
    if (part->sum <= 0.0f)
        return;
    const float peak = part->peak > to->peak ? part->peak : to->peak;
    const bool plain = step->fault == FAULT_PART_WEIGHT;
    const float keep = to->peak == -INFINITY ? 0.0f : plain ? 1.0f : expf(to->peak - peak);
    const float take = plain ? 1.0f : expf(part->peak - peak);
    to->peak = peak;
    to->sum = to->sum * keep + part->sum * take;
    for (int32_t d = 0; d < dim; d++)
        to->o[d] = to->o[d] * keep + part->o[d] * take;
}

static void store_row(const s2_attn_problem *p, const s2_bad_step *step, const s2_decode_list *list,
                      int32_t row, const s2_bad_part *from, float lse)
{
    const int32_t group = p->n_heads / p->n_kv_heads;
    int32_t to = row;
    if (step->fault == FAULT_GROUP_SWAP && group > 1 && row % group < 2)
        to = row % group == 0 ? row + 1 : row - 1;
    const int64_t at = s2_tensor_at(&p->o, p->q_begin_tok, list->seq, to / group, head_of(p, list, to));
    const float inverse = from->sum > 0.0f ? 1.0f / from->sum : 0.0f;
    for (int32_t d = 0; d < p->head_dim; d++)
        s2_float_store(p->o.data, p->dtype, at + d, from->o[d] * inverse);
    p->lse.data[s2_rows_at(&p->lse, p->q_begin_tok, list->seq, row / group, head_of(p, list, row))] = lse;
}

static void one_row(const s2_attn_problem *p, const s2_bad_step *step, const s2_decode_list *list,
                    int32_t row)
{
    s2_bad_part total = {.peak = -INFINITY}, part = {.peak = -INFINITY};
    float first_lse = -INFINITY;
    for (int32_t at = 0; at < list->n_parts; at++) {
        fold_part(p, step, list, &step->layout.plan.parts[list->first_part + at], row, &part);
        if (at == 0)
            first_lse = part.sum > 0.0f ? part.peak + logf(part.sum) : -INFINITY;
        if (step->fault == FAULT_MISSING_PART && at > 0 && at == list->n_parts - 1)
            continue;
        combine(step, &part, p->head_dim, &total);
    }
    for (int32_t at = 0; at < (step->fault == FAULT_SINK_A_PART ? list->n_parts : 1) && p->sinks; at++)
        combine(step,
                &(const s2_bad_part){.peak = p->sink[head_of(p, list, row)],
                                     .sum = p->sink[head_of(p, list, row)] > -INFINITY},
                p->head_dim, &total);
    const float lse = total.sum > 0.0f ? total.peak + logf(total.sum) : -INFINITY;
    store_row(p, step, list, row, &total, step->fault == FAULT_PART_LSE ? first_lse : lse);
}

/* ------------------------------------------------------------------ places */

static void use_first_table(const s2_attn_problem *p, s2_bad_step *step, const s2_decode_list *list)
{
    for (int32_t at = list->slab_begin; at < list->slab_end; at++) {
        const int64_t slot = s2_cache_find(p->cached->cache, p->cached->seqs[list->seq], p->plan->layer, 0,
                                           step->layout.plan.slabs[at].k_tok);
        if (slot >= 0)
            step->places[at].k_at = step->places[at].v_at = slot * p->k.tok;
    }
}

static void use_old_places(s2_bad_step *step, const s2_decode_list *list, int32_t index)
{
    static s2_seen seen[N_SEEN];
    static int32_t newest;
    const int32_t k_tok = step->layout.plan.slabs[list->slab_end - 1].k_tok;
    /* another life begins with a shorter list */
    if (index == 0 && k_tok + S2_DECODE_SLAB_TOK < newest)
        memset(seen, 0, sizeof seen);
    newest = index == 0 ? k_tok : newest;
    for (int32_t at = list->slab_begin; at < list->slab_end; at++) {
        const int64_t key =
            (int64_t)index * N_SEEN + step->layout.plan.slabs[at].k_tok / S2_DECODE_SLAB_TOK + 1;
        s2_seen *const own = &seen[(key + (int64_t)index * 1009) % N_SEEN];
        if (own->key == key)
            step->places[at] = own->place;
        else
            *own = (s2_seen){key, step->places[at]};
    }
}

static void spoil_places(const s2_attn_problem *p, s2_bad_step *step)
{
    const s2_decode_plan *const plan = &step->layout.plan;
    for (int32_t index = 0; p->cached != NULL && index < plan->n_lists; index++) {
        const s2_decode_list *const list = &plan->lists[index];
        const int32_t n = list->slab_end - list->slab_begin;
        if (step->fault == FAULT_WRONG_TABLE)
            use_first_table(p, step, list);
        if (step->fault == FAULT_STALE_PAGE && n > 0)
            use_old_places(step, list, index);
        if (step->fault == FAULT_NEXT_PAGE && n > 2)
            step->places[list->slab_begin] = step->places[list->slab_begin + 1];
    }
}

/* ------------------------------------------------------------------ the contract */

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    (void)device;
    (void)why;
    const s2_bad_step *const step = state;
    const s2_decode_plan *const plan = &step->layout.plan;
    for (int32_t index = 0; index < plan->n_lists; index++)
        for (int32_t row = 0; row < plan->lists[index].n_rows; row++)
            if (step->layout.on[(int64_t)index * plan->row_cap + row])
                one_row(problem, step, &plan->lists[index], row);
    return S2_OK;
}

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if (problem->head_dim > LIMIT_DIM)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "head dimension above %d", LIMIT_DIM);
    return s2_decode_supports(problem, why);
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    if (state != NULL)
        s2_arena_release(&((s2_bad_step *)state)->arena);
    s2_free(state);
}

static s2_status build(const s2_attn_problem *problem, s2_bad_step *step, s2_diag *why)
{
    S2_TRY(s2_decode_lay_out(&step->arena, problem, WANT_PARTS, &step->layout, why));
    const size_t n = (size_t)step->layout.plan.n_slabs + 1;
    step->places = S2_NEW(&step->arena, s2_decode_place, n);
    if (step->places == NULL)
        return S2_ENOMEM;
    memcpy(step->places, step->layout.places, (n - 1) * sizeof *step->places);
    spoil_places(problem, step);
    return S2_OK;
}

static s2_status prepare_fault(s2_device *device, const s2_attn_problem *problem, void **state,
                               s2_fault fault, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    s2_bad_step *const step = s2_calloc(1, sizeof *step);
    if (step == NULL)
        return S2_ENOMEM;
    step->fault = fault;
    const s2_status status = build(problem, step, why);
    if (status == S2_OK)
        *state = step;
    else
        finish(device, step);
    return status;
}

FAULTS(S2_FAULT_PREPARE)

enum { FAULT_TILE_TOK = 16, FAULT_TAKES = S2_TAKES_CAP | S2_TAKES_SINKS | S2_TAKES_E4M3 };
static const s2_kernel kernels[] = {FAULTS(S2_FAULT_KERNEL)};

const s2_kernel *s2_sabotage_decode(int32_t fault)
{
    return fault >= 0 && fault < N_FAULTS ? &kernels[fault] : NULL;
}
