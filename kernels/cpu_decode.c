/*
 * Idea: the GPU's decode step on threads: the same slabs, the same parts, combined in the same order.
 * A thread claims parts; for each list of a part it folds slab by slab in fp32 and leaves (O, maximum, sum)
 * of every row; afterwards the parts of a list are combined in order, so that results depend neither on
 * threads nor on timing.
 */
#include "base/arith.h"
#include "kernels/follow.h"
#include "kernels/select.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/crew.h"
#include "kernels/float16.h"

enum { KEYS = S2_DECODE_SLAB_TOK, LIMIT_DIM = 1024 };

/* One part's result for a list, row by row: o, then maximum and sum. */
typedef struct s2_cpu_rows {
    float *data;
    int32_t row_cap;
    int32_t stride; /* head_dim + 2 */
} s2_cpu_rows;

typedef struct s2_cpu_decode {
    s2_arena arena;
    s2_decode_layout layout;
    s2_follow follow;        /* if the problem can be followed: owns the layout's arrays */
    s2_selection selection;  /* if the problem selects pages */
    s2_decode_place *places; /* then: of layout, rewritten by every run */
    int32_t *pages;          /* room for one list's choice */
    s2_cpu_rows rows;        /* [slot][row_cap][stride], two slots per part */
} s2_cpu_decode;

typedef struct s2_decode_job {
    const s2_attn_problem *problem;
    const s2_cpu_decode *state;
    atomic_int *next_part;
    float *scratch; /* k [KEYS][D], v [KEYS][D], q [row_cap][D] */
} s2_decode_job;

static float *row_of(const s2_cpu_rows *rows, int64_t slot, int32_t row)
{
    return rows->data + (slot * rows->row_cap + row) * rows->stride;
}

/* ------------------------------------------------------------------ folding */

static void load_slab(const s2_decode_job *job, int32_t slab, int32_t kv_head, float *k, float *v)
{
    const s2_attn_problem *const p = job->problem;
    const s2_decode_place *const place = &job->state->layout.places[slab];
    const uint32_t live = job->state->layout.plan.slabs[slab].live;
    const s2_dtype dtype = s2_kv_dtype(p);
    const float k_scale = p->e4m3 ? p->k_scale[kv_head] : 1.0f;
    const float v_scale = p->e4m3 ? p->v_scale[kv_head] : 1.0f;
    for (int32_t key = 0; key < KEYS; key++) {
        if ((live >> key & 1u) == 0)
            continue;
        const int64_t k_at = place->k_at + key * p->k.tok, v_at = place->v_at + key * p->v.tok;
        for (int32_t d = 0; d < p->head_dim; d++) {
            k[key * p->head_dim + d] = s2_float_load(p->k.data, dtype, k_at + d) * k_scale;
            v[key * p->head_dim + d] = s2_float_load(p->v.data, dtype, v_at + d) * v_scale;
        }
    }
}

/* Eight sums, so that the compiler may use its vectors. */
static float dot(const float *a, const float *b, int32_t n)
{
    float lanes[8] = {0}, total = 0.0f;
    int32_t d = 0;
    for (; d + 8 <= n; d += 8)
        for (int32_t lane = 0; lane < 8; lane++)
            lanes[lane] += a[d + lane] * b[d + lane];
    for (; d < n; d++)
        total += a[d] * b[d];
    for (int32_t lane = 0; lane < 8; lane++)
        total += lanes[lane];
    return total;
}

static float score_of(const s2_attn_problem *p, const float *q, const float *k)
{
    const float score = p->scale * dot(q, k, p->head_dim);
    return p->cap > 0.0f ? p->cap * tanhf(score / p->cap) : score;
}

static void fold_slab(const s2_attn_problem *p, uint32_t bits, const float *q, const float *k, const float *v,
                      float *row)
{
    const int32_t dim = p->head_dim;
    float s[KEYS], peak = row[dim];
    for (int32_t key = 0; key < KEYS; key++) {
        s[key] = -INFINITY;
        if ((bits >> key & 1u) != 0)
            s[key] = score_of(p, q, k + key * dim);
        peak = s[key] > peak || isnan(s[key]) ? s[key] : peak;
        if (isnan(peak))
            break; /* every weight of the row would be NaN */
    }
    if (peak > row[dim] && row[dim] != -INFINITY) {
        const float decay = expf(row[dim] - peak);
        for (int32_t d = 0; d < dim; d++)
            row[d] *= decay;
        row[dim + 1] *= decay;
    }
    row[dim] = peak;
    for (int32_t key = 0; key < KEYS; key++) {
        if ((bits >> key & 1u) == 0)
            continue;
        const float weight = expf(s[key] - peak);
        row[dim + 1] += weight;
        for (int32_t d = 0; d < dim; d++)
            row[d] += weight * v[key * dim + d];
    }
}

static int64_t query_at(const s2_attn_problem *p, const s2_tensor *tensor, const s2_decode_list *list,
                        int32_t row)
{
    const int32_t group = p->n_heads / p->n_kv_heads;
    return s2_tensor_at(tensor, p->q_begin_tok, list->seq, row / group, list->kv_head * group + row % group);
}

static void begin_rows(const s2_decode_job *job, const s2_decode_list *list, int64_t slot, float *q)
{
    const s2_attn_problem *const p = job->problem;
    for (int32_t row = 0; row < list->n_rows; row++) {
        float *const to = row_of(&job->state->rows, slot, row);
        memset(to, 0, (size_t)job->state->rows.stride * sizeof *to);
        to[p->head_dim] = -INFINITY;
        const int64_t first = query_at(p, &p->q, list, row);
        for (int32_t d = 0; d < p->head_dim; d++)
            q[row * p->head_dim + d] = s2_float_load(p->q.data, p->dtype, first + d);
    }
}

/* Fold slabs [begin, end) of one list into the list's slot of this part. */
static void fold_list(const s2_decode_job *job, int32_t index, int32_t part, int32_t begin, int32_t end)
{
    const s2_attn_problem *const p = job->problem;
    const s2_decode_layout *const layout = &job->state->layout;
    const s2_decode_plan *const plan = &layout->plan;
    const s2_decode_list *const list = &plan->lists[index];
    const int64_t slot = s2_decode_slot(list, part);
    float *const k = job->scratch, *const v = k + KEYS * p->head_dim, *const q = v + KEYS * p->head_dim;
    begin_rows(job, list, slot, q);
    for (int32_t slab = begin; slab < end; slab++) {
        const int32_t mask = plan->slabs[slab].mask;
        load_slab(job, slab, list->kv_head, k, v);
        for (int32_t row = 0; row < list->n_rows; row++) {
            const uint32_t bits = mask < 0 ? 0xffffu : plan->bits[(int64_t)mask * plan->row_cap + row];
            if (bits != 0 && layout->on[(int64_t)index * plan->row_cap + row])
                fold_slab(p, bits, q + row * p->head_dim, k, v, row_of(&job->state->rows, slot, row));
        }
    }
}

/* A list that only one part reads has that part's slot only until the next list, so it is stored at once. */
static void store_row(const s2_attn_problem *p, const s2_decode_list *list, int32_t row, const float *from)
{
    const int32_t dim = p->head_dim, group = p->n_heads / p->n_kv_heads;
    const int32_t head = list->kv_head * group + row % group;
    const float sink = p->sinks ? p->sink[head] : -INFINITY, peak = fmaxf(from[dim], sink);
    const float keep = from[dim] == -INFINITY ? 0.0f : expf(from[dim] - peak);
    const float sum = from[dim + 1] * keep + (sink == -INFINITY ? 0.0f : expf(sink - peak));
    const float inverse = sum == 0.0f ? 0.0f : keep / sum;
    const int64_t first = query_at(p, &p->o, list, row);
    for (int32_t d = 0; d < dim; d++)
        s2_float_store(p->o.data, p->dtype, first + d, from[d] * inverse);
    p->lse.data[s2_rows_at(&p->lse, p->q_begin_tok, list->seq, row / group, head)] =
        sum == 0.0f ? -INFINITY : (float)((double)peak + log((double)sum));
}

static void one_part(const s2_decode_job *job, int32_t part)
{
    const s2_decode_layout *const layout = &job->state->layout;
    const s2_decode_plan *const plan = &layout->plan;
    const s2_decode_part own = plan->parts[part];
    int32_t index = own.first_list;
    for (int32_t slab = own.slab_begin; slab < own.slab_end; index++) {
        const s2_decode_list *const list = &plan->lists[index];
        const int32_t end = s2_min_i32(list->slab_end, own.slab_end);
        if (slab == end)
            continue;
        fold_list(job, index, part, slab, end);
        for (int32_t row = 0; list->n_parts == 1 && row < list->n_rows; row++)
            if (layout->on[(int64_t)index * plan->row_cap + row])
                store_row(job->problem, list, row,
                          row_of(&job->state->rows, s2_decode_slot(list, part), row));
        slab = end;
    }
}

static void *work(void *user)
{
    const s2_decode_job *const job = user;
    for (;;) {
        const int32_t part = atomic_fetch_add(job->next_part, 1);
        if (part >= job->state->layout.plan.n_parts)
            return NULL;
        one_part(job, part);
    }
}

/* ------------------------------------------------------------------ combining */

/* Add one part's row to the row of the list's first part. */
static void add_part(float *to, const float *from, int32_t dim)
{
    if (from[dim] == -INFINITY)
        return;
    const float peak = s2_max_f32(to[dim], from[dim]);
    const float keep = to[dim] == -INFINITY ? 0.0f : expf(to[dim] - peak), take = expf(from[dim] - peak);
    for (int32_t d = 0; d < dim; d++)
        to[d] = to[d] * keep + from[d] * take;
    to[dim] = peak;
    to[dim + 1] = to[dim + 1] * keep + from[dim + 1] * take;
}

static void combine_list(const s2_attn_problem *p, const s2_cpu_decode *state, int32_t index, float *empty)
{
    const s2_decode_plan *const plan = &state->layout.plan;
    const s2_decode_list *const list = &plan->lists[index];
    if (list->n_parts == 1)
        return;
    for (int32_t row = 0; row < list->n_rows; row++) {
        if (!state->layout.on[(int64_t)index * plan->row_cap + row])
            continue;
        float *to = empty;
        if (list->n_parts > 0)
            to = row_of(&state->rows, s2_decode_slot(list, list->first_part), row);
        for (int32_t part = list->first_part + 1; part < list->first_part + list->n_parts; part++)
            add_part(to, row_of(&state->rows, s2_decode_slot(list, part), row), p->head_dim);
        store_row(p, list, row, to);
    }
}

/* ------------------------------------------------------------------ the contract */

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if (problem->head_dim > LIMIT_DIM)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "head dimension %d is above %d", problem->head_dim,
                           LIMIT_DIM);
    return s2_decode_supports(problem, why);
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    s2_cpu_decode *const own = state;
    if (own == NULL)
        return;
    s2_free(own->rows.data);
    s2_follow_close(&own->follow);
    s2_arena_release(&own->arena);
    s2_free(own);
}

s2_status s2_cpu_decode_follow(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    (void)device;
    s2_cpu_decode *const own = state;
    const s2_follow_layer *layer = NULL;
    if (own->follow.layers == NULL)
        return S2_EUNSUPPORTED;
    S2_TRY(s2_follow_take(&own->follow, problem, &layer, why));
    own->layout = (s2_decode_layout){own->follow.lists.plan, layer->places, own->follow.on, true};
    return S2_OK;
}

static s2_status open_follow(s2_device *device, const s2_attn_problem *problem, s2_cpu_decode *state,
                             s2_diag *why)
{
    S2_TRY(s2_follow_open(problem, s2_traits_cpu_decode.decode_parts, &state->follow, why));
    return s2_cpu_decode_follow(device, problem, state, why);
}

static s2_status build_selection(const s2_attn_problem *problem, s2_cpu_decode *state, s2_diag *why)
{
    S2_TRY(s2_selection_build(&state->arena, problem, s2_traits_cpu_decode.decode_parts, &state->layout,
                              &state->selection, why));
    const int32_t n_slabs = state->layout.plan.n_slabs;
    state->places = S2_NEW(&state->arena, s2_decode_place, (int64_t)n_slabs + 1);
    state->pages = S2_NEW(&state->arena, int32_t, problem->select_pages);
    if (state->places == NULL || state->pages == NULL)
        return S2_ENOMEM;
    memcpy(state->places, state->layout.places, (size_t)n_slabs * sizeof *state->places);
    state->layout.places = state->places;
    return S2_OK;
}

/* Fill in the places of the chosen pages; the newest page's keep their position. */
static s2_status select_pages(const s2_attn_problem *problem, s2_cpu_decode *state)
{
    const s2_decode_plan *const plan = &state->layout.plan;
    const int32_t page_slabs = problem->select_page_tok / S2_DECODE_SLAB_TOK;
    for (int32_t list = 0; list < plan->n_lists; list++) {
        int32_t n = 0;
        S2_TRY(s2_selection_choose(problem, plan, &state->selection, list, state->pages, &n));
        s2_decode_place *to = &state->places[plan->lists[list].slab_begin];
        for (int32_t nth = 0; nth < n - 1; nth++)
            for (int32_t slab = 0; slab < page_slabs; slab++, to++) {
                *to = state->selection.places[(int64_t)list * state->selection.page_cap + state->pages[nth]];
                to->k_at += (int64_t)slab * S2_DECODE_SLAB_TOK * problem->k.tok;
                to->v_at += (int64_t)slab * S2_DECODE_SLAB_TOK * problem->v.tok;
            }
    }
    return S2_OK;
}

static s2_status build(s2_device *device, const s2_attn_problem *problem, s2_cpu_decode *state, s2_diag *why)
{
    const int32_t n_parts = s2_traits_cpu_decode.decode_parts;
    S2_TRY(s2_follow_fits(problem) ? open_follow(device, problem, state, why)
                                   : s2_decode_lay_out(&state->arena, problem, n_parts, &state->layout, why));
    if (problem->select_pages > 0)
        S2_TRY(build_selection(problem, state, why));
    state->rows.row_cap = state->layout.plan.row_cap;
    state->rows.stride = problem->head_dim + 2;
    const int64_t n_rows = 2 * (int64_t)state->layout.plan.n_parts * state->rows.row_cap;
    state->rows.data = s2_calloc((size_t)n_rows, (size_t)state->rows.stride * sizeof(float));
    return state->rows.data != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **state, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    S2_TRY(supports(device, problem, why));
    s2_cpu_decode *const own = s2_calloc(1, sizeof *own);
    if (own == NULL)
        return S2_ENOMEM;
    const s2_status status = build(device, problem, own, why);
    if (status == S2_OK)
        *state = own;
    else
        finish(device, own);
    return status;
}

static void fold_parts(const s2_attn_problem *problem, const s2_cpu_decode *state, int32_t n_threads,
                       float *scratch, size_t n_scratch)
{
    atomic_int next_part = 0;
    s2_decode_job jobs[S2_CREW_LIMIT];
    for (int32_t thread = 0; thread < n_threads; thread++)
        jobs[thread] = (s2_decode_job){problem, state, &next_part, scratch + (size_t)thread * n_scratch};
    const int32_t n_parts = state->layout.plan.n_parts;
    (void)s2_crew_run(s2_min_i32(n_threads, n_parts), work, jobs, sizeof *jobs);
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    (void)why;
    s2_cpu_decode *const state = raw;
    if (problem->select_pages > 0)
        S2_TRY(select_pages(problem, state));
    const int32_t n_threads = s2_min_i32(device->n_units, S2_CREW_LIMIT);
    const size_t n_scratch = (size_t)(2 * KEYS + state->rows.row_cap) * (size_t)problem->head_dim;
    float *const scratch = s2_calloc((size_t)n_threads, n_scratch * sizeof *scratch);
    float *const empty = s2_calloc((size_t)problem->head_dim + 2, sizeof *empty);
    if (scratch != NULL && empty != NULL) {
        fold_parts(problem, state, n_threads, scratch, n_scratch);
        for (int32_t list = 0; list < state->layout.plan.n_lists; list++)
            combine_list(problem, state, list, empty);
    }
    const bool done = scratch != NULL && empty != NULL;
    s2_free(scratch);
    s2_free(empty);
    return done ? S2_OK : S2_ENOMEM;
}

const s2_kernel s2_kernel_cpu_decode = {
    .traits = &s2_traits_cpu_decode,
    .summary = "decode steps on threads, in slabs and parts as on a GPU; contiguous or from a cache",
    .device = S2_DEVICE_CPU,
    .tolerance = S2_TOL_EXACT,
    .deterministic = true,
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .finish = finish,
    .takes = S2_TAKES_CAP | S2_TAKES_SINKS | S2_TAKES_E4M3,
};
