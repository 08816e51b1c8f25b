/*
 * Idea: the plan's lists, one item at a time per thread, online softmax in fp32. A tile is 64 queries x 64
 * keys: K is transposed into fp32 once per block, so that both products run over contiguous lanes: S over
 * keys, O over the head dimension. Items are independent and each is computed in the order of its list, so
 * results do not depend on threads.
 */
#include "kernels/kernel.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/crew.h"
#include "kernels/float16.h"

enum {
    TILE = 64,        /* queries of a tile and keys of a step */
    LANES = 8,        /* floats of one vector */
    ROWS = 4,         /* query rows whose accumulators stay in registers: 4 x 2 vectors of 16 */
    STEP = 2 * LANES, /* columns per pass */
    LIMIT_DIM = 1024
};

static const float LOG2_E = 1.44269504f;

typedef float lanes_f __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lanes_i __attribute__((vector_size(LANES * sizeof(int32_t))));

/* One thread's scratch; arrays are [row][column] with rows of `dim` (a multiple of STEP) or TILE floats. */
typedef struct s2_cpu_scratch {
    float *q;         /* [TILE][dim] */
    float *k_t;       /* [dim][TILE] */
    float *v;         /* [TILE][dim] */
    float *o;         /* [TILE][dim] */
    float *s;         /* [TILE][TILE] */
    float peak[TILE]; /* running maximum, in powers of two */
    float sum[TILE];
    float decay[TILE];
    s2_plan_list list;
    s2_status status;
} s2_cpu_scratch;

typedef struct s2_cpu_state {
    int32_t n_threads;
    int32_t dim;
    s2_cpu_scratch scratch[S2_CREW_LIMIT];
} s2_cpu_state;

typedef struct s2_cpu_job {
    const s2_attn_problem *problem;
    s2_cpu_state *state;
    atomic_int *next_item;
    int32_t thread;
} s2_cpu_job;

/* The same vector at any address, for loads and stores only. */
typedef float lanes_at __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
#define LOAD(from)   (*(const lanes_at *)(from))
#define STORE(to, x) (*(lanes_at *)(to) = (x))

/* out[r][0..TILE) (+)= sum over n of left[r][n] * right[n][0..width), for ROWS rows from `row` on. */
#define MULTIPLY_ROWS(out, out_stride, left, left_stride, right, right_stride, depth, width, keep)           \
    for (int32_t column = 0; column < (width); column += STEP) {                                             \
        lanes_f acc[ROWS][2];                                                                                \
        for (int32_t r = 0; r < ROWS; r++)                                                                   \
            for (int32_t half = 0; half < 2; half++)                                                         \
                acc[r][half] = LOAD(&(out)[r * (out_stride) + column + half * LANES]) * (keep)[r];           \
        for (int32_t n = 0; n < (depth); n++) {                                                              \
            const lanes_f low = LOAD(&(right)[(int64_t)n * (right_stride) + column]);                        \
            const lanes_f high = LOAD(&(right)[(int64_t)n * (right_stride) + column + LANES]);               \
            for (int32_t r = 0; r < ROWS; r++) {                                                             \
                acc[r][0] += low * (left)[r * (left_stride) + n];                                            \
                acc[r][1] += high * (left)[r * (left_stride) + n];                                           \
            }                                                                                                \
        }                                                                                                    \
        for (int32_t r = 0; r < ROWS; r++)                                                                   \
            for (int32_t half = 0; half < 2; half++)                                                         \
                STORE(&(out)[r * (out_stride) + column + half * LANES], acc[r][half]);                       \
    }

S2_FOR_WIDE_CPUS static void score_rows(s2_cpu_scratch *scratch, int32_t dim, int32_t row)
{
    static const float fresh[ROWS] = {0};
    float *const s = &scratch->s[row * TILE];
    const float *const q = &scratch->q[row * dim];
    MULTIPLY_ROWS(s, TILE, q, dim, scratch->k_t, TILE, dim, TILE, fresh)
}

S2_FOR_WIDE_CPUS static void value_rows(s2_cpu_scratch *scratch, int32_t dim, int32_t row)
{
    float *const o = &scratch->o[row * dim];
    const float *const p = &scratch->s[row * TILE];
    const float *const decay = &scratch->decay[row];
    MULTIPLY_ROWS(o, dim, p, TILE, scratch->v, dim, TILE, dim, decay)
}

/*
 * 2^x for x <= 0: x = n + f with |f| <= 1/2, a polynomial for 2^f (error below 2e-7, exactly 1 at 0), n into
 * the exponent. Below -126 the result is 0: no subnormals.
 */
S2_FOR_WIDE_CPUS static void exponentials(float *row, float peak, float *sum)
{
    const float to_integer = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    lanes_f total = {0};
    for (int32_t column = 0; column < TILE; column += LANES) {
        const lanes_f x = LOAD(&row[column]) - peak;
        const lanes_i alive = x > -126.0f;
        const lanes_f y = (lanes_f)((lanes_i)x & alive);
        const lanes_f shifted = y + to_integer;
        const lanes_f f = y - (shifted - to_integer);
        lanes_f p = f * 1.5403530e-4f + 1.3333558e-3f;
        p = p * f + 9.6181291e-3f;
        p = p * f + 5.5504109e-2f;
        p = p * f + 2.4022651e-1f;
        p = p * f + 6.9314718e-1f;
        p = p * f + 1.0f;
        const lanes_i power = (lanes_i)shifted << 23;
        const lanes_f result = (lanes_f)(((lanes_i)p + power) & alive);
        STORE(&row[column], result);
        total += result;
    }
    float lanes[LANES];
    STORE(lanes, total);
    for (int32_t lane = 0; lane < LANES; lane++)
        *sum += lanes[lane];
}

/* ------------------------------------------------------------------ one block of keys */

static void load_rows(const s2_attn_problem *p, const s2_tensor *tensor, int64_t first, int32_t n_rows,
                      int32_t dim, float *out)
{
    memset(out, 0, (size_t)TILE * (size_t)dim * sizeof *out);
    for (int32_t row = 0; row < n_rows; row++)
        for (int32_t d = 0; d < p->head_dim; d++)
            out[row * dim + d] = s2_float_load(tensor->data, p->dtype, first + row * tensor->tok + d);
}

static void load_keys(const s2_attn_problem *p, int64_t first, int32_t n_keys, int32_t dim, float *out)
{
    memset(out, 0, (size_t)TILE * (size_t)dim * sizeof *out);
    for (int32_t key = 0; key < n_keys; key++)
        for (int32_t d = 0; d < p->head_dim; d++)
            out[d * TILE + key] = s2_float_load(p->k.data, p->dtype, first + key * p->k.tok + d);
}

/* The inputs of an item. */
typedef struct s2_cpu_tile {
    const s2_attn_problem *problem;
    const s2_plan_item *item;
    int32_t head;
    int64_t begin; /* position of row 0 */
    int64_t q_off;
    int64_t k_tok;
    int32_t row_begin; /* real rows of the tile */
    int32_t row_end;
} s2_cpu_tile;

/* Keys [from, to) of the block that the row may read when there is no element mask. */
static void mask_row(const s2_cpu_tile *tile, const s2_plan_entry *entry, const s2_plan_list *list,
                     int32_t row, float *s)
{
    const s2_plan *const plan = tile->problem->plan;
    const int64_t k_begin = (int64_t)entry->k_blk * plan->blk_tok;
    int64_t n = tile->k_tok - k_begin;
    if (plan->pattern->causal && tile->begin + row + 1 - k_begin < n)
        n = tile->begin + row + 1 - k_begin;
    n = s2_min_i64(n, plan->blk_tok);
    const uint32_t *const bits =
        entry->mask < 0
            ? NULL
            : &list->bits[((int64_t)entry->mask * plan->options.tile_tok + row) * plan->mask_words];
    for (int32_t key = 0; key < TILE; key++)
        if (key >= n || (bits != NULL && (bits[key / 32] >> (key % 32) & 1) == 0))
            s[key] = -INFINITY;
}

/* Scores as the softmax expects them, in powers of two; before masks, which a cap would make finite. */
static void scale_row(const s2_attn_problem *p, float *s)
{
    const float scale = p->scale * LOG2_E;
    if (p->cap > 0.0f) {
        for (int32_t key = 0; key < TILE; key++)
            s[key] = p->cap * LOG2_E * tanhf(s[key] * p->scale / p->cap);
        return;
    }
    for (int32_t key = 0; key < TILE; key++)
        s[key] *= scale;
}

/*
 * Fold one row of scores into the running softmax; the row becomes its weights. A comparison drops a NaN and so does
 * the exponential, so a NaN is looked for: it makes the sum NaN, and with it every output of the row.
 */
static void fold_row(s2_cpu_scratch *scratch, int32_t row)
{
    float *const s = &scratch->s[row * TILE];
    float peak = scratch->peak[row];
    int32_t n_odd = 0;
    for (int32_t key = 0; key < TILE; key++) {
        n_odd += s[key] != s[key];
        peak = s2_max_f32(s[key], peak);
    }
    scratch->decay[row] = 1.0f;
    if (n_odd > 0 || peak == INFINITY)
        scratch->sum[row] = NAN;
    if (n_odd > 0 || peak == INFINITY || peak == -INFINITY) {
        memset(s, 0, TILE * sizeof *s);
        return;
    }
    if (peak > scratch->peak[row]) {
        scratch->decay[row] = scratch->peak[row] == -INFINITY ? 0.0f : exp2f(scratch->peak[row] - peak);
        scratch->peak[row] = peak;
    }
    float sum = 0.0f;
    exponentials(s, peak, &sum);
    scratch->sum[row] = scratch->sum[row] * scratch->decay[row] + sum;
}

static void drop_row(s2_cpu_scratch *scratch, int32_t row)
{
    memset(&scratch->s[row * TILE], 0, TILE * sizeof *scratch->s);
    scratch->decay[row] = 1.0f;
}

/* Whether the list of the query block that has this position names the block of keys. */
static bool lists_block(const s2_cpu_tile *tile, int64_t position, int32_t k_blk)
{
    const s2_attn_problem *const p = tile->problem;
    const s2_listed *const listed = p->listed;
    const int64_t nth = position / listed->q_block_tok - tile->q_off / listed->q_block_tok;
    if (nth < 0 || nth >= listed->q_blocks)
        return false;
    const int32_t head =
        listed->n_heads == p->n_heads ? tile->head : s2_pattern_kv_head(p->plan->pattern, tile->head);
    const int64_t list = ((int64_t)tile->item->seq * listed->n_heads + head) * listed->q_blocks + nth;
    const int32_t n = s2_min_i32(listed->counts[list], listed->most);
    for (int32_t at = 0; at < n; at++)
        if (listed->indices[list * listed->most + at] == k_blk)
            return true;
    return false;
}

/* The slabs that read a block: those of the plan and, where there are lists, those that list it. */
static uint32_t slabs_of(const s2_cpu_tile *tile, const s2_plan_entry *entry)
{
    const s2_plan *const plan = tile->problem->plan;
    uint32_t slabs = entry->slabs;
    if (tile->problem->listed == NULL)
        return slabs;
    const int64_t key = (int64_t)entry->k_blk * plan->blk_tok;
    for (int32_t slab = 0; slab < plan->options.tile_tok / S2_PLAN_SLAB_TOK; slab++) {
        const int64_t position = tile->begin + slab * S2_PLAN_SLAB_TOK;
        if (position < 0 || !lists_block(tile, position, (int32_t)(key / tile->problem->listed->k_block_tok)))
            slabs &= ~(1u << slab);
    }
    return slabs;
}

static void one_block(const s2_cpu_tile *tile, const s2_plan_entry *entry, int32_t dim,
                      s2_cpu_scratch *scratch)
{
    const s2_attn_problem *const p = tile->problem;
    const uint32_t slabs = slabs_of(tile, entry);
    if (slabs == 0)
        return;
    const int64_t k_begin = (int64_t)entry->k_blk * p->plan->blk_tok;
    const int64_t left = tile->k_tok - k_begin;
    const int32_t n_keys = (int32_t)s2_min_i64(left, p->plan->blk_tok);
    const int32_t kv_head = s2_pattern_kv_head(p->plan->pattern, tile->head);
    load_keys(p, s2_tensor_at(&p->k, p->k_begin_tok, tile->item->seq, k_begin, kv_head), n_keys, dim,
              scratch->k_t);
    load_rows(p, &p->v, s2_tensor_at(&p->v, p->k_begin_tok, tile->item->seq, k_begin, kv_head), n_keys, dim,
              scratch->v);
    for (int32_t slab = 0; slab < p->plan->options.tile_tok / S2_PLAN_SLAB_TOK; slab++) {
        if ((slabs >> slab & 1) == 0)
            continue;
        for (int32_t row = slab * S2_PLAN_SLAB_TOK; row < (slab + 1) * S2_PLAN_SLAB_TOK; row += ROWS) {
            score_rows(scratch, dim, row);
            for (int32_t r = row; r < row + ROWS; r++) {
                if (r < tile->row_begin || r >= tile->row_end) {
                    drop_row(scratch, r);
                    continue;
                }
                scale_row(p, &scratch->s[r * TILE]);
                if (!entry->full || n_keys < TILE)
                    mask_row(tile, entry, &scratch->list, r, &scratch->s[r * TILE]);
                fold_row(scratch, r);
            }
            value_rows(scratch, dim, row);
        }
    }
}

/* ------------------------------------------------------------------ items */

/* The sink joins the softmax when all keys have. */
static void add_sink(const s2_cpu_tile *tile, int32_t dim, s2_cpu_scratch *scratch)
{
    const s2_attn_problem *const p = tile->problem;
    const float sink = p->sinks ? p->sink[tile->head] * LOG2_E : -INFINITY;
    for (int32_t row = tile->row_begin; row < tile->row_end && sink != -INFINITY; row++) {
        const float peak = fmaxf(scratch->peak[row], sink);
        const float keep = scratch->peak[row] > -INFINITY ? exp2f(scratch->peak[row] - peak) : 0.0f;
        for (int32_t d = 0; d < p->head_dim; d++)
            scratch->o[row * dim + d] *= keep;
        scratch->sum[row] = scratch->sum[row] * keep + exp2f(sink - peak);
        scratch->peak[row] = peak;
    }
}

static void store_tile(const s2_cpu_tile *tile, int32_t dim, const s2_cpu_scratch *scratch)
{
    const s2_attn_problem *const p = tile->problem;
    for (int32_t row = tile->row_begin; row < tile->row_end; row++) {
        const int64_t q_tok = tile->begin + row - tile->q_off;
        const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, tile->item->seq, q_tok, tile->head);
        const float inverse = scratch->sum[row] == 0.0f ? 0.0f : 1.0f / scratch->sum[row];
        for (int32_t d = 0; d < p->head_dim; d++)
            s2_float_store(p->o.data, p->dtype, o_at + d, scratch->o[row * dim + d] * inverse);
        const double lse = (double)scratch->peak[row] * 0.693147180559945309 + log((double)scratch->sum[row]);
        p->lse.data[s2_rows_at(&p->lse, p->q_begin_tok, tile->item->seq, q_tok, tile->head)] =
            scratch->sum[row] == 0.0f ? -INFINITY : (float)lse;
    }
}

static void one_head(const s2_cpu_tile *tile, int32_t dim, s2_cpu_scratch *scratch)
{
    const s2_attn_problem *const p = tile->problem;
    const int64_t q_tok = tile->begin + tile->row_begin - tile->q_off;
    const int32_t n_rows = tile->row_end - tile->row_begin;
    memset(scratch->q, 0, (size_t)TILE * (size_t)dim * sizeof *scratch->q);
    memset(scratch->o, 0, (size_t)TILE * (size_t)dim * sizeof *scratch->o);
    const int64_t q_at = s2_tensor_at(&p->q, p->q_begin_tok, tile->item->seq, q_tok, tile->head);
    for (int32_t row = 0; row < n_rows; row++)
        for (int32_t d = 0; d < p->head_dim; d++)
            scratch->q[(tile->row_begin + row) * dim + d] =
                s2_float_load(p->q.data, p->dtype, q_at + row * p->q.tok + d);
    for (int32_t row = 0; row < TILE; row++) {
        scratch->peak[row] = -INFINITY;
        scratch->sum[row] = 0.0f;
    }
    for (int32_t entry = 0; entry < scratch->list.n_entries; entry++)
        one_block(tile, &scratch->list.entries[entry], dim, scratch);
    add_sink(tile, dim, scratch);
    store_tile(tile, dim, scratch);
}

static s2_status one_item(const s2_attn_problem *problem, const s2_plan_item *item, int32_t dim,
                          s2_cpu_scratch *scratch)
{
    const s2_plan *const plan = problem->plan;
    const s2_plan_seq lens = plan->seqs[item->seq];
    s2_cpu_tile tile = {
        .problem = problem, .item = item, .q_off = lens.k_tok - lens.q_tok, .k_tok = lens.k_tok};
    tile.begin = s2_plan_tile_begin(plan, item->seq, item->tile);
    tile.row_begin = tile.begin < tile.q_off ? (int32_t)(tile.q_off - tile.begin) : 0;
    tile.row_end = plan->options.tile_tok;
    if (tile.begin + tile.row_end > lens.k_tok)
        tile.row_end = (int32_t)(lens.k_tok - tile.begin);
    S2_TRY(s2_plan_tile_list(plan, item->cls, item->seq, item->tile, &scratch->list));
    for (tile.head = item->head; tile.head < item->head + item->n_heads; tile.head++)
        one_head(&tile, dim, scratch);
    return S2_OK;
}

static void *work(void *user)
{
    const s2_cpu_job *const job = user;
    s2_cpu_scratch *const scratch = &job->state->scratch[job->thread];
    scratch->status = S2_OK;
    for (;;) {
        const int32_t item = atomic_fetch_add(job->next_item, 1);
        if (item >= job->problem->plan->n_items || scratch->status != S2_OK)
            return NULL;
        scratch->status = one_item(job->problem, &job->problem->plan->items[item], job->state->dim, scratch);
    }
}

/* ------------------------------------------------------------------ the contract */

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if (problem->pass == S2_PASS_DECODE)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "decode steps are for cpu_decode");
    if (problem->pass == S2_PASS_BACKWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the CPU kernel computes no gradients");
    if (problem->head_dim > LIMIT_DIM)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "head dimension %d is above %d", problem->head_dim,
                           LIMIT_DIM);
    if (problem->plan != NULL &&
        (problem->plan->options.tile_tok > TILE || problem->plan->options.key_tok > TILE))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for larger tiles than %d x %d",
                           TILE, TILE);
    return S2_OK;
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    s2_cpu_state *const own = state;
    for (int32_t thread = 0; own != NULL && thread < own->n_threads; thread++) {
        s2_free(own->scratch[thread].q);
        s2_plan_list_release(&own->scratch[thread].list);
    }
    s2_free(own);
}

/* One allocation holds the five arrays of a thread. */
static s2_status init_scratch(s2_cpu_scratch *scratch, int32_t dim)
{
    const size_t wide = (size_t)TILE * (size_t)dim;
    scratch->q = s2_calloc(4 * wide + (size_t)TILE * TILE, sizeof *scratch->q);
    if (scratch->q == NULL)
        return S2_ENOMEM;
    scratch->k_t = scratch->q + wide;
    scratch->v = scratch->k_t + wide;
    scratch->o = scratch->v + wide;
    scratch->s = scratch->o + wide;
    return S2_OK;
}

static s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **state, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    S2_TRY(supports(device, problem, why));
    s2_cpu_state *const own = s2_calloc(1, sizeof *own);
    if (own == NULL)
        return S2_ENOMEM;
    own->dim = (int32_t)s2_round_up(problem->head_dim, STEP);
    own->n_threads = s2_min_i32(device->n_units, S2_CREW_LIMIT);
    s2_status status = S2_OK;
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
    s2_cpu_state *const own = state;
    atomic_int next_item = 0;
    s2_cpu_job jobs[S2_CREW_LIMIT];
    for (int32_t thread = 0; thread < own->n_threads; thread++)
        jobs[thread] = (s2_cpu_job){problem, own, &next_item, thread};
    const int32_t n_wanted = s2_min_i32(own->n_threads, problem->plan->n_items);
    const int32_t n_ran = s2_crew_run(n_wanted, work, jobs, sizeof *jobs);
    s2_status status = S2_OK;
    for (int32_t thread = 0; thread < n_ran; thread++)
        status = status != S2_OK ? status : own->scratch[thread].status;
    return status;
}

const s2_kernel s2_kernel_cpu = {
    .traits = &s2_traits_cpu,
    .summary = "threads and vectors over the plan's lists, fp32 online softmax",
    .device = S2_DEVICE_CPU,
    .tolerance = S2_TOL_EXACT,
    .deterministic = true,
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .finish = finish,
    .takes = S2_TAKES_CAP | S2_TAKES_SINKS | S2_TAKES_LISTED,
};
