/*
 * Idea: the plan's lists in both directions. A tile of 64 queries walks its key blocks for dQ; a column of 64
 * keys walks the query steps that read it for dK and dV (plan/transpose.h). Tiles and columns are independent
 * and each is computed in the order of its list by one thread, so results do not depend on threads. All
 * products are out[r][c] += left[r][n] * right[n][c] over contiguous rows, in fp32 and not fused.
 */
#include "kernels/kernel.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/crew.h"
#include "kernels/float16.h"
#include "plan/transpose.h"

enum { TILE = 64, LIMIT_DIM = 1024, LANES = 8 };

/* One thread's arrays; `dim` is the head dimension rounded up to LANES. */
typedef struct s2_bwd_scratch {
    float *own[2];  /* [TILE][dim]: Q and dO of a tile, or K and V of a column */
    float *row[2];  /* [TILE][dim]: the other two, row by row */
    float *turn[2]; /* [dim][TILE]: and transposed */
    float *sum[2];  /* [TILE][dim]: dQ, or dK and dV */
    float *s, *dp;  /* [TILE][TILE] */
    float lse[TILE], delta[TILE];
    s2_status status;
} s2_bwd_scratch;

typedef struct s2_bwd_state {
    int32_t n_threads;
    int32_t dim;
    s2_arena arena;
    s2_plan_flat flat;
    s2_plan_columns columns;
    s2_bwd_scratch scratch[S2_CREW_LIMIT];
} s2_bwd_state;

typedef struct s2_bwd_job {
    const s2_attn_problem *problem;
    s2_bwd_state *state;
    atomic_int *next;
    int32_t thread;
} s2_bwd_job;

/* out (TILE x width) += left (TILE x depth) * right (depth x width); depth is a multiple of 4, width of
 * LANES. */
S2_FOR_WIDE_CPUS static void multiply(float *restrict out, const float *restrict left,
                                      const float *restrict right, int32_t depth, int32_t width)
{
    for (int32_t r = 0; r < TILE; r++) {
        float *const row = &out[(int64_t)r * width];
        for (int32_t n = 0; n < depth; n += 4) {
            const float *const x = &left[(int64_t)r * depth + n];
            const float *const a = &right[(int64_t)n * width], *const b = a + width, *const c = b + width,
                               *const d = c + width;
            for (int32_t column = 0; column < width; column++)
                row[column] += x[0] * a[column] + x[1] * b[column] + x[2] * c[column] + x[3] * d[column];
        }
    }
}

/* ------------------------------------------------------------------ loads */

/* Load n rows of a tensor, from element `first` on, into rows `to` and following. */
static void load(const s2_attn_problem *p, const s2_tensor *tensor, int64_t first, int32_t to, int32_t n,
                 int32_t dim, float *out)
{
    for (int32_t row = 0; row < n; row++)
        for (int32_t d = 0; d < p->head_dim; d++)
            out[(int64_t)(to + row) * dim + d] =
                s2_float_load(tensor->data, p->dtype, first + row * tensor->tok + d);
}

static void turn(const float *rows, int32_t dim, float *out)
{
    for (int32_t row = 0; row < TILE; row++)
        for (int32_t d = 0; d < dim; d++)
            out[(int64_t)d * TILE + row] = rows[(int64_t)row * dim + d];
}

static void clear(float *rows, int32_t dim)
{
    memset(rows, 0, (size_t)TILE * (size_t)dim * sizeof *rows);
}

/* The real rows of 64 positions from `begin` on. */
typedef struct s2_bwd_rows {
    int32_t seq, head;
    int64_t begin; /* position of row 0 */
    int32_t from, to;
    int64_t q_tok; /* of row `from` */
} s2_bwd_rows;

static s2_bwd_rows rows_of(const s2_plan *plan, int32_t seq, int32_t head, int64_t begin)
{
    const s2_plan_seq lens = plan->seqs[seq];
    const int64_t q_off = lens.k_tok - lens.q_tok;
    s2_bwd_rows rows = {.seq = seq, .head = head, .begin = begin, .to = TILE};
    if (begin < q_off)
        rows.from = (int32_t)(q_off - begin);
    if (begin + TILE > lens.k_tok)
        rows.to = (int32_t)(lens.k_tok - begin);
    rows.q_tok = begin + rows.from - q_off;
    return rows;
}

/* Q, dO, lse and delta of 64 positions; rows that do not exist get weight zero. */
static void load_queries(const s2_attn_problem *p, s2_bwd_rows rows, int32_t dim, float *q, float *d_o,
                         s2_bwd_scratch *scratch)
{
    const int32_t n = rows.to - rows.from;
    const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, rows.seq, rows.q_tok, rows.head);
    const int64_t lse_at = s2_rows_at(&p->lse, p->q_begin_tok, rows.seq, rows.q_tok, rows.head);
    clear(q, dim);
    clear(d_o, dim);
    load(p, &p->q, s2_tensor_at(&p->q, p->q_begin_tok, rows.seq, rows.q_tok, rows.head), rows.from, n, dim,
         q);
    load(p, &p->d_o, s2_tensor_at(&p->d_o, p->q_begin_tok, rows.seq, rows.q_tok, rows.head), rows.from, n,
         dim, d_o);
    for (int32_t row = 0; row < TILE; row++) {
        scratch->lse[row] = INFINITY;
        scratch->delta[row] = 0.0f;
        if (row < rows.from || row >= rows.to)
            continue;
        const float lse = p->lse.data[lse_at + row - rows.from];
        for (int32_t d = 0; d < p->head_dim; d++)
            scratch->delta[row] +=
                d_o[(int64_t)row * dim + d] *
                s2_float_load(p->o.data, p->dtype, o_at + (row - rows.from) * p->o.tok + d);
        if (lse != -INFINITY)
            scratch->lse[row] = lse;
        else
            scratch->delta[row] = 0.0f;
    }
}

/* Load the keys of one block into rows `to` and following; returns their number. */
static int32_t load_block(const s2_attn_problem *p, const s2_tensor *tensor, int32_t seq, int32_t kv_head,
                          int32_t k_blk, int32_t to, int32_t dim, float *out)
{
    const int64_t begin = (int64_t)k_blk * p->plan->blk_tok, left = p->plan->seqs[seq].k_tok - begin;
    const int32_t n = (int32_t)s2_min_i64(left, p->plan->blk_tok);
    load(p, tensor, s2_tensor_at(tensor, p->k_begin_tok, seq, begin, kv_head), to, n, dim, out);
    return n;
}

/* ------------------------------------------------------------------ weights */

/* Whether position p reads key number in_blk of a block, given what the list says about the two. */
typedef struct s2_bwd_mask {
    const s2_attn_problem *problem;
    const uint32_t *bits; /* the element mask at row 0 of the 64; NULL: none */
    int64_t k_begin, k_tok;
    uint32_t slabs; /* of the 64 rows */
    bool edge;
} s2_bwd_mask;

static bool reads(const s2_bwd_mask *mask, int64_t begin, int32_t row, int32_t in_blk)
{
    const s2_plan *const plan = mask->problem->plan;
    const int64_t k = mask->k_begin + in_blk;
    if ((mask->slabs >> (row / S2_PLAN_SLAB_TOK) & 1) == 0)
        return false;
    if (mask->edge && ((plan->pattern->causal && k > begin + row) || k >= mask->k_tok))
        return false;
    return mask->bits == NULL ||
           (mask->bits[(int64_t)row * plan->mask_words + in_blk / 32] >> (in_blk % 32) & 1) != 0;
}

/* The bits of an element mask from a row of its tile on. */
static const uint32_t *mask_bits(const s2_plan *plan, const s2_plan_flat *flat, int32_t mask, int64_t row)
{
    return mask < 0 ? NULL : &flat->bits[((int64_t)mask * plan->options.tile_tok + row) * plan->mask_words];
}

/* s and dp of one pair become p and dS. */
static void weigh(const s2_attn_problem *p, const s2_bwd_scratch *scratch, int32_t row, bool read, float *s,
                  float *dp)
{
    float score = *s * p->scale, slope = 1.0f;
    if (p->cap > 0.0f && read) {
        const float part = tanhf(score / p->cap);
        score = p->cap * part;
        slope = 1.0f - part * part;
    }
    *s = read ? expf(score - scratch->lse[row]) : 0.0f;
    *dp = read ? *s * (*dp - scratch->delta[row]) * slope : 0.0f;
}

/* ------------------------------------------------------------------ dQ of a tile */

static void tile_block(const s2_attn_problem *p, const s2_plan_item *item, s2_bwd_rows rows,
                       const s2_plan_entry *entry, const s2_bwd_state *state, s2_bwd_scratch *scratch)
{
    const s2_plan *const plan = p->plan;
    const int32_t kv_head = s2_pattern_kv_head(plan->pattern, rows.head), dim = state->dim;
    const s2_bwd_mask mask = {.problem = p,
                              .bits = mask_bits(plan, &state->flat, entry->mask, 0),
                              .k_begin = (int64_t)entry->k_blk * plan->blk_tok,
                              .k_tok = plan->seqs[item->seq].k_tok,
                              .slabs = entry->slabs,
                              .edge = entry->edge != 0};
    clear(scratch->row[0], dim);
    clear(scratch->row[1], dim);
    const int32_t n = load_block(p, &p->k, item->seq, kv_head, entry->k_blk, 0, dim, scratch->row[0]);
    load_block(p, &p->v, item->seq, kv_head, entry->k_blk, 0, dim, scratch->row[1]);
    turn(scratch->row[0], dim, scratch->turn[0]);
    turn(scratch->row[1], dim, scratch->turn[1]);
    clear(scratch->s, TILE);
    clear(scratch->dp, TILE);
    multiply(scratch->s, scratch->own[0], scratch->turn[0], dim, TILE);
    multiply(scratch->dp, scratch->own[1], scratch->turn[1], dim, TILE);
    for (int32_t row = 0; row < TILE; row++)
        for (int32_t key = 0; key < TILE; key++)
            weigh(p, scratch, row, key < n && reads(&mask, rows.begin, row, key),
                  &scratch->s[row * TILE + key], &scratch->dp[row * TILE + key]);
    multiply(scratch->sum[0], scratch->dp, scratch->row[0], TILE, dim);
}

static void one_tile(const s2_attn_problem *p, const s2_plan_item *item, s2_plan_span span,
                     s2_bwd_state *state, s2_bwd_scratch *scratch)
{
    const int64_t begin = s2_plan_tile_begin(p->plan, item->seq, item->tile);
    for (int32_t head = item->head; head < item->head + item->n_heads; head++) {
        const s2_bwd_rows rows = rows_of(p->plan, item->seq, head, begin);
        load_queries(p, rows, state->dim, scratch->own[0], scratch->own[1], scratch);
        clear(scratch->sum[0], state->dim);
        for (int32_t e = 0; e < span.n; e++)
            tile_block(p, item, rows, &state->flat.entries[span.begin + e], state, scratch);
        const int64_t out = s2_tensor_at(&p->d_q, p->q_begin_tok, item->seq, rows.q_tok, head);
        for (int32_t row = rows.from; row < rows.to; row++)
            for (int32_t d = 0; d < p->head_dim; d++)
                s2_float_store(p->d_q.data, p->dtype, out + (row - rows.from) * p->d_q.tok + d,
                               scratch->sum[0][(int64_t)row * state->dim + d] * p->scale);
    }
}

/* ------------------------------------------------------------------ dK and dV of a column */

static void weigh_block(const s2_attn_problem *p, const s2_plan_column *column, int64_t e, int32_t sub,
                        const s2_bwd_state *state, s2_bwd_rows rows, s2_bwd_scratch *scratch)
{
    const s2_plan *const plan = p->plan;
    const s2_plan_column_entry *const entry = &state->columns.entries[e];
    const int32_t blk = state->columns.blocks[column->blocks + sub], n_sub = state->columns.n_sub;
    const int32_t number = state->columns.masks != NULL ? state->columns.masks[e * n_sub + sub] : -1;
    const s2_bwd_mask mask = {
        .problem = p,
        .bits = mask_bits(plan, &state->flat, number, entry->step * TILE % plan->options.tile_tok),
        .k_begin = (int64_t)blk * plan->blk_tok,
        .k_tok = plan->seqs[column->seq].k_tok,
        .slabs = blk < 0 ? 0 : entry->reads >> (4 * sub) & 0xfu,
        .edge = entry->edge};
    for (int32_t key = 0; key < plan->blk_tok; key++)
        for (int32_t row = 0; row < TILE; row++) {
            const int64_t pair = (int64_t)(sub * plan->blk_tok + key) * TILE + row;
            weigh(p, scratch, row, entry->full || reads(&mask, rows.begin, row, key), &scratch->s[pair],
                  &scratch->dp[pair]);
        }
}

static void column_step(const s2_attn_problem *p, const s2_plan_column *column, int64_t e, int32_t head,
                        const s2_bwd_state *state, s2_bwd_scratch *scratch)
{
    const int64_t begin =
        s2_plan_tile_begin(p->plan, column->seq, 0) + (int64_t)state->columns.entries[e].step * TILE;
    const s2_bwd_rows rows = rows_of(p->plan, column->seq, head, begin);
    load_queries(p, rows, state->dim, scratch->row[0], scratch->row[1], scratch);
    turn(scratch->row[0], state->dim, scratch->turn[0]);
    turn(scratch->row[1], state->dim, scratch->turn[1]);
    clear(scratch->s, TILE);
    clear(scratch->dp, TILE);
    multiply(scratch->s, scratch->own[0], scratch->turn[0], state->dim, TILE);
    multiply(scratch->dp, scratch->own[1], scratch->turn[1], state->dim, TILE);
    for (int32_t sub = 0; sub < state->columns.n_sub; sub++)
        weigh_block(p, column, e, sub, state, rows, scratch);
    multiply(scratch->sum[0], scratch->dp, scratch->row[0], TILE, state->dim);
    multiply(scratch->sum[1], scratch->s, scratch->row[1], TILE, state->dim);
}

static void store_block(const s2_attn_problem *p, const s2_tensor *tensor, const s2_plan_column *column,
                        int32_t blk, int32_t dim, float scale, const float *rows)
{
    const int64_t begin = (int64_t)blk * p->plan->blk_tok, left = p->plan->seqs[column->seq].k_tok - begin;
    const int64_t out = s2_tensor_at(tensor, p->k_begin_tok, column->seq, begin, column->kv_head);
    for (int32_t key = 0; key < p->plan->blk_tok && key < left; key++)
        for (int32_t d = 0; d < p->head_dim; d++)
            s2_float_store(tensor->data, p->dtype, out + key * tensor->tok + d,
                           rows[(int64_t)key * dim + d] * scale);
}

static void one_column(const s2_attn_problem *p, const s2_plan_column *column, const s2_bwd_state *state,
                       s2_bwd_scratch *scratch)
{
    const int32_t *const blocks = &state->columns.blocks[column->blocks], blk_tok = p->plan->blk_tok;
    const int32_t first = column->kv_head * (p->n_heads / p->n_kv_heads), dim = state->dim;
    for (int32_t two = 0; two < 2; two++) {
        clear(scratch->own[two], dim);
        clear(scratch->sum[two], dim);
        for (int32_t sub = 0; sub < state->columns.n_sub; sub++)
            if (blocks[sub] >= 0)
                load_block(p, two == 0 ? &p->k : &p->v, column->seq, column->kv_head, blocks[sub],
                           sub * blk_tok, dim, scratch->own[two]);
    }
    for (int64_t e = column->begin; e < column->begin + column->n; e++)
        for (int32_t h = 0; h < column->n_heads; h++)
            column_step(p, column, e, first + state->columns.entries[e].head + h, state, scratch);
    for (int32_t sub = 0; sub < state->columns.n_sub; sub++)
        for (int32_t two = 0; two < 2 && blocks[sub] >= 0; two++)
            store_block(p, two == 0 ? &p->d_k : &p->d_v, column, blocks[sub], dim, two == 0 ? p->scale : 1.0f,
                        &scratch->sum[two][(int64_t)sub * blk_tok * dim]);
}

/* ------------------------------------------------------------------ sinks */

/* What the rows of an item contribute to the gradient of one head's sink. */
static double sink_of_item(const s2_attn_problem *p, const s2_plan_item *item, int32_t head)
{
    const s2_bwd_rows rows =
        rows_of(p->plan, item->seq, head, s2_plan_tile_begin(p->plan, item->seq, item->tile));
    const int64_t lse_at = s2_rows_at(&p->lse, p->q_begin_tok, item->seq, rows.q_tok, head);
    double sum = 0.0;
    for (int32_t row = 0; row < rows.to - rows.from; row++) {
        const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, item->seq, rows.q_tok + row, head);
        const int64_t d_o_at = s2_tensor_at(&p->d_o, p->q_begin_tok, item->seq, rows.q_tok + row, head);
        float delta = 0.0f;
        for (int32_t d = 0; d < p->head_dim; d++)
            delta += s2_float_load(p->d_o.data, p->dtype, d_o_at + d) *
                     s2_float_load(p->o.data, p->dtype, o_at + d);
        if (p->sink[head] != -INFINITY)
            sum += (double)(expf(p->sink[head] - p->lse.data[lse_at + row]) * delta);
    }
    return sum;
}

static void sink_gradients(const s2_attn_problem *p)
{
    for (int32_t head = 0; p->sinks && head < p->n_heads; head++) {
        double sum = 0.0;
        for (int32_t at = 0; at < p->plan->n_items; at++)
            if (p->plan->items[at].head <= head &&
                head < p->plan->items[at].head + p->plan->items[at].n_heads)
                sum += sink_of_item(p, &p->plan->items[at], head);
        p->d_sink[head] = (float)-sum;
    }
}

/* ------------------------------------------------------------------ the contract */

static void *work(void *user)
{
    const s2_bwd_job *const job = user;
    const s2_attn_problem *const p = job->problem;
    s2_bwd_state *const state = job->state;
    for (;;) {
        const int32_t taken = atomic_fetch_add(job->next, 1);
        if (taken >= state->columns.n_columns + p->plan->n_items)
            return NULL;
        if (taken < state->columns.n_columns)
            one_column(p, &state->columns.columns[taken], state, &state->scratch[job->thread]);
        else
            one_tile(p, &p->plan->items[taken - state->columns.n_columns],
                     state->flat.span_of[taken - state->columns.n_columns], state,
                     &state->scratch[job->thread]);
    }
}

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if (problem->pass != S2_PASS_BACKWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes gradients only");
    if (problem->head_dim > LIMIT_DIM)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "head dimension %d is above %d", problem->head_dim,
                           LIMIT_DIM);
    if (problem->plan != NULL &&
        (problem->plan->options.tile_tok != TILE || problem->plan->options.key_tok > TILE))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    return S2_OK;
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    s2_bwd_state *const own = state;
    for (int32_t thread = 0; own != NULL && thread < own->n_threads; thread++)
        s2_free(own->scratch[thread].own[0]);
    if (own != NULL)
        s2_arena_release(&own->arena);
    s2_free(own);
}

/* One allocation holds the arrays of a thread. */
static s2_status init_scratch(s2_bwd_scratch *scratch, int32_t dim)
{
    const size_t wide = (size_t)TILE * (size_t)dim;
    float *const memory = s2_calloc(8 * wide + 2 * (size_t)TILE * TILE, sizeof *memory);
    if (memory == NULL)
        return S2_ENOMEM;
    for (int32_t two = 0; two < 2; two++) {
        scratch->own[two] = memory + (size_t)two * wide;
        scratch->row[two] = memory + (size_t)(2 + two) * wide;
        scratch->turn[two] = memory + (size_t)(4 + two) * wide;
        scratch->sum[two] = memory + (size_t)(6 + two) * wide;
    }
    scratch->s = memory + 8 * wide;
    scratch->dp = scratch->s + (size_t)TILE * TILE;
    return S2_OK;
}

static s2_status make_lists(s2_bwd_state *own, const s2_plan *plan)
{
    S2_TRY(s2_plan_flatten(&own->arena, plan, &own->flat));
    const s2_plan_column_options cut = s2_kernel_columns(&s2_traits_cpu_bwd, plan, own->n_threads);
    return s2_plan_transpose(&own->arena, plan, &own->flat, &cut, &own->columns);
}

static s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **state, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    S2_TRY(supports(device, problem, why));
    s2_bwd_state *const own = s2_calloc(1, sizeof *own);
    if (own == NULL)
        return S2_ENOMEM;
    own->dim = (int32_t)s2_round_up(problem->head_dim, LANES);
    own->n_threads = s2_min_i32(device->n_units, S2_CREW_LIMIT);
    s2_status status = make_lists(own, problem->plan);
    for (int32_t thread = 0; status == S2_OK && thread < own->n_threads; thread++)
        status = init_scratch(&own->scratch[thread], own->dim);
    if (status != S2_OK)
        finish(device, own);
    else
        *state = own;
    return status;
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    (void)device;
    (void)why;
    s2_bwd_state *const own = state;
    atomic_int next = 0;
    s2_bwd_job jobs[S2_CREW_LIMIT];
    for (int32_t thread = 0; thread < own->n_threads; thread++)
        jobs[thread] = (s2_bwd_job){problem, own, &next, thread};
    (void)s2_crew_run(own->n_threads, work, jobs, sizeof *jobs);
    sink_gradients(problem);
    return S2_OK;
}

const s2_kernel s2_kernel_cpu_bwd = {
    .traits = &s2_traits_cpu_bwd,
    .summary = "gradients by threads over the plan's lists, fp32",
    .device = S2_DEVICE_CPU,
    .tolerance = S2_TOL_EXACT,
    .deterministic = true,
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .finish = finish,
    .takes = S2_TAKES_CAP | S2_TAKES_SINKS,
};
