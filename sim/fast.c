#include "sim/fast.h"

#include <string.h>

#include "base/arith.h"
#include "sim/schedule.h"

/* Rates of the chip for one layer's work, as in sim/attention.c. */
static double step_us(const s2_fast *fast)
{
    const s2_gpu *const gpu = &fast->options.gpu;
    const double pairs = (double)fast->shape.q_tok * fast->shape.step_tok;
    const double mma = s2_gpu_flop_us(gpu, fast->options.dtype == S2_F8) / gpu->sms;
    return s2_max_f64(4.0 * fast->head_dim * pairs / mma, pairs / (gpu->mufu_per_clk_sm * gpu->boost_mhz));
}

static double hbm_us(const s2_fast *fast)
{
    const double elem = s2_dtype_bytes(fast->options.dtype), width = fast->head_dim;
    const double rows = (double)fast->options.len_tok * (double)fast->options.batch;
    const double q_bytes = rows * fast->n_heads * (width * elem + width * 2 + 4);
    return (q_bytes + rows * fast->n_kv_heads * 2 * width * elem) / (fast->options.gpu.hbm_gb_s * 1e3);
}

/* The floor of one layer that reads so many pairs. */
static double layer_bound_us(const s2_fast *fast, int64_t pairs)
{
    const s2_gpu *const gpu = &fast->options.gpu;
    const double mma = s2_gpu_flop_us(gpu, fast->options.dtype == S2_F8);
    const double exp = gpu->mufu_per_clk_sm * gpu->boost_mhz * gpu->sms;
    const double busy = s2_max_f64((double)pairs * 4.0 * fast->head_dim / mma, (double)pairs / exp);
    return s2_max_f64(s2_max_f64(busy, hbm_us(fast)), gpu->launch_us);
}

/* First stripe at or after block `from`, for the residue class of one head. */
static int64_t stripe_offset(const s2_candidate *candidate, const s2_fast *fast, int32_t head, int64_t from)
{
    const int64_t group = fast->n_heads / fast->n_kv_heads, v = candidate->stride_blk;
    const int64_t rotated_head = candidate->by_kv ? head / group : head;
    return s2_mod(-(rotated_head * candidate->step + candidate->offset) - from, v);
}

static bool head_is_dense(const s2_candidate *candidate, const s2_fast *fast, int32_t head)
{
    const int32_t group = fast->n_heads / fast->n_kv_heads;
    return head / group >= fast->n_kv_heads - candidate->n_dense_kv;
}

/* Stripes in `length` blocks when the first lies `offset` blocks in. */
static int64_t stripes_in(int64_t length, int64_t offset, int64_t v)
{
    return length > offset ? (length - offset - 1) / v + 1 : 0;
}

/* The same, summed over lengths 0 .. length. */
static int64_t stripes_summed(int64_t length, int64_t offset, int64_t v)
{
    if (length <= offset)
        return 0;
    const int64_t n = length - offset, whole = n / v, rest = n % v;
    return v * whole * (whole + 1) / 2 + rest * (whole + 1);
}

/* sum over x = 1 .. n of min(x, cap) */
static int64_t capped_sum(int64_t n, int64_t cap)
{
    if (n <= 0)
        return 0;
    const int64_t rising = s2_min_i64(n, cap);
    return rising * (rising + 1) / 2 + (n - rising) * cap;
}

/* Off-diagonal blocks in rows 0 .. n_rows - 1 of one head. */
static int64_t far_blocks(const s2_fast *fast, const s2_candidate *candidate, int32_t head, int64_t n_rows)
{
    if (n_rows <= 0)
        return 0;
    if (head_is_dense(candidate, fast, head))
        return n_rows * (n_rows - 1) / 2;
    const int64_t beyond = n_rows - candidate->local_blk, sinks = candidate->sink_blk;
    int64_t total = capped_sum(n_rows - 1, candidate->local_blk - 1) + capped_sum(beyond, sinks);
    if (candidate->stride_blk > 0 && beyond > sinks)
        total += stripes_summed(beyond - sinks, stripe_offset(candidate, fast, head, sinks),
                                candidate->stride_blk);
    return total;
}

/* Pairs of one head; the last row of blocks may be short. */
static int64_t head_pairs(const s2_fast *fast, const s2_candidate *candidate, int32_t head, int64_t *blocks)
{
    const int64_t block = fast->block_tok, n_tok = fast->options.len_tok;
    const int64_t n_rows = s2_ceil_div(n_tok, block), rest = n_tok - (n_rows - 1) * block;
    const int64_t all = far_blocks(fast, candidate, head, n_rows);
    const int64_t whole = far_blocks(fast, candidate, head, n_rows - 1);
    *blocks = all + n_rows;
    return whole * block * block + (all - whole) * rest * block + (n_rows - 1) * (block * (block + 1) / 2) +
           rest * (rest + 1) / 2;
}

/* Blocks before the window, other than sinks, that the query heads of a KV head keep. */
static int64_t group_stripes(const s2_fast *fast, const s2_candidate *candidate, int32_t first,
                             int64_t length)
{
    const int32_t group = candidate->by_kv ? 1 : fast->n_heads / fast->n_kv_heads;
    int64_t total = 0;
    for (int32_t h = 0; h < group; h++) {
        const int64_t own = stripe_offset(candidate, fast, first + h, candidate->sink_blk);
        bool twin = false;
        for (int32_t before = 0; before < h && !twin; before++)
            twin = stripe_offset(candidate, fast, first + before, candidate->sink_blk) == own;
        total += twin ? 0 : stripes_in(length, own, candidate->stride_blk);
    }
    return total;
}

static int64_t kv_slots(const s2_fast *fast, const s2_candidate *candidate)
{
    const int64_t block = fast->block_tok, n_tok = fast->options.len_tok;
    const int64_t before = s2_max_i64(s2_ceil_div(n_tok, block) - candidate->local_blk, 0);
    const int64_t sinks = s2_min_i64(candidate->sink_blk, before);
    const int32_t group = fast->n_heads / fast->n_kv_heads;
    int64_t total = candidate->n_dense_kv * n_tok;
    for (int32_t kv = 0; kv < fast->n_kv_heads - candidate->n_dense_kv; kv++) {
        int64_t blocks = sinks;
        if (candidate->stride_blk > 0)
            blocks += group_stripes(fast, candidate, kv * group, before - sinks);
        total += n_tok - before * block + blocks * block;
    }
    return total * (fast->n_layers - candidate->n_dense_layers) +
           n_tok * fast->n_kv_heads * candidate->n_dense_layers;
}

void s2_fast_bound(const s2_fast *fast, const s2_candidate *candidate, s2_fast_cost *out)
{
    const int64_t n_sparse = fast->n_layers - candidate->n_dense_layers, batch = fast->options.batch;
    const int32_t group = fast->n_heads / fast->n_kv_heads, stride = candidate->by_kv ? group : 1;
    int64_t pairs = 0, blocks = 0;
    for (int32_t head = 0; head < fast->n_heads; head += stride) {
        int64_t own_blocks;
        pairs += head_pairs(fast, candidate, head, &own_blocks) * stride;
        blocks += own_blocks * stride;
    }
    const int64_t dense = fast->dense_pairs * fast->n_heads;
    const bool is_dense = pairs == dense;
    *out = (s2_fast_cost){
        .pairs = (pairs * n_sparse + dense * candidate->n_dense_layers) * batch,
        .density =
            is_dense || n_sparse == 0 ? 1 : (double)blocks / ((double)fast->dense_blocks * fast->n_heads),
        .kv_slots = kv_slots(fast, candidate),
        .bound_us = layer_bound_us(fast, pairs * batch) * (double)n_sparse +
                    fast->dense_bound_us * candidate->n_dense_layers,
    };
}

/* Heads of each stripe offset, as a prefix sum: below[x] heads have their first stripe before x. */
static int64_t offsets_below(const s2_fast *fast, const s2_candidate *candidate, int32_t *below)
{
    const int32_t v = candidate->stride_blk;
    memset(below, 0, (size_t)(v + 1) * sizeof *below);
    int64_t n_heads = 0;
    for (int32_t head = 0; head < fast->n_heads; head++) {
        if (head_is_dense(candidate, fast, head))
            continue;
        n_heads++;
        if (v > 0)
            below[stripe_offset(candidate, fast, head, candidate->sink_blk) + 1]++;
    }
    for (int32_t x = 0; x < v; x++)
        below[x + 1] += below[x];
    return n_heads;
}

/* What one tile of queries costs the sparse heads: two histogram entries. */
static void add_tile(s2_fast *fast, const s2_candidate *candidate, const int32_t *below, int64_t n_heads,
                     int64_t q_begin, int64_t q_end)
{
    const int64_t block = fast->block_tok, k_tile = fast->shape.k_tok, per_block = block / k_tile;
    const int64_t window = s2_max_i64(q_begin / block - candidate->local_blk + 1, 0);
    /* stripes count up to the window of the tile's first query; its last query's window reaches the edge */
    const int64_t sinks = s2_min_i64(candidate->sink_blk, window), length = window - sinks;
    const int64_t fixed = s2_ceil_div(q_end, k_tile) - window * per_block + sinks * per_block;
    int64_t more = 0, whole = 0;
    if (candidate->stride_blk > 0) {
        whole = length / candidate->stride_blk;
        more = below[length % candidate->stride_blk];
    }
    const int64_t batch = fast->options.batch;
    fast->count[s2_tile_steps(fast->shape, fixed + whole * per_block)] += (n_heads - more) * batch;
    fast->count[s2_tile_steps(fast->shape, fixed + (whole + 1) * per_block)] += more * batch;
}

static int64_t most_steps(const s2_fast *fast)
{
    return s2_tile_steps(fast->shape, s2_ceil_div(fast->options.len_tok, fast->shape.k_tok));
}

/* The tiles of one layer by their steps; candidate NULL: every head is dense. */
static void fill_histogram(s2_fast *fast, const s2_candidate *candidate)
{
    int32_t below[S2_FAST_STRIDE + 1];
    const int64_t n_sparse = candidate != NULL ? offsets_below(fast, candidate, below) : 0;
    const int64_t n_dense = fast->n_heads - n_sparse;
    memset(fast->count, 0, (size_t)(most_steps(fast) + 2) * sizeof *fast->count);
    for (int64_t q_tok = 0; q_tok < fast->options.len_tok; q_tok += fast->shape.q_tok) {
        const int64_t q_end = s2_min_i64(q_tok + fast->shape.q_tok, fast->options.len_tok);
        if (candidate != NULL)
            add_tile(fast, candidate, below, n_sparse, q_tok, q_end);
        if (n_dense > 0)
            fast->count[s2_tile_steps(fast->shape, s2_ceil_div(q_end, fast->shape.k_tok))] +=
                n_dense * fast->options.batch;
    }
}

static double layer_time_us(const s2_fast *fast, int64_t busiest_steps)
{
    return fast->options.gpu.launch_us + s2_max_f64((double)busiest_steps * step_us(fast), hbm_us(fast));
}

int32_t s2_fast_histogram(s2_fast *fast, const s2_candidate *candidate)
{
    fill_histogram(fast, candidate);
    return (int32_t)most_steps(fast) + 1;
}

static int64_t count_steps(const s2_fast *fast, int32_t n_costs)
{
    int64_t steps = 0;
    for (int32_t cost = 1; cost < n_costs; cost++)
        steps += fast->count[cost] * cost;
    return steps;
}

void s2_fast_exact(s2_fast *fast, const s2_candidate *candidate, s2_fast_cost *out)
{
    s2_fast_bound(fast, candidate, out);
    const int32_t n_costs = s2_fast_histogram(fast, candidate);
    const int64_t n_sparse = fast->n_layers - candidate->n_dense_layers;
    out->steps = count_steps(fast, n_costs) * n_sparse + fast->dense_steps * candidate->n_dense_layers;
    out->busiest_steps = s2_makespan(fast->count, n_costs, (int32_t)fast->options.gpu.sms);
    out->time_us = layer_time_us(fast, out->busiest_steps) * (double)n_sparse +
                   fast->dense_time_us * candidate->n_dense_layers;
}

s2_status s2_fast_init(const s2_pattern *shape, const s2_sim_options *options, s2_fast *out)
{
    return s2_fast_init_tiles(shape, options, s2_tile_shape_default(shape), out);
}

/* What tiles of the dense pattern execute, forward, is counted in 63 bits with room for all that is made of it. */
static bool counts_fit(const s2_pattern *shape, const s2_sim_options *options, s2_tile_shape tile)
{
    const double rows = (double)s2_round_up(options->len_tok, tile.q_tok),
                 keys = (double)s2_round_up(options->len_tok, tile.k_tok * (int64_t)tile.step_tok),
                 heads = (double)shape->n_heads * shape->n_layers * (double)options->batch,
                 cache = 2.0 * (double)s2_round_up(options->len_tok, options->page_tok);
    return 4.0 * shape->head_dim * heads * s2_max_f64(rows * keys, cache) < 0x1p62;
}

s2_status s2_fast_init_tiles(const s2_pattern *shape, const s2_sim_options *options, s2_tile_shape tile,
                             s2_fast *out)
{
    const int64_t n_blk = s2_ceil_div(options->len_tok, shape->block_tok);
    if (!shape->causal || options->phase != S2_PREFILL || options->n_ranks != 1 || options->len_tok < 1 ||
        options->len_tok > S2_LIMIT_CONTEXT_TOK || options->batch < 1 || shape->block_tok < tile.k_tok ||
        !counts_fit(shape, options, tile) ||
        s2_tile_steps(tile, s2_ceil_div(options->len_tok, tile.k_tok)) + 2 > S2_FAST_STEPS)
        return S2_EINVAL;
    memset(out, 0, sizeof *out);
    out->options = *options;
    out->n_layers = shape->n_layers;
    out->n_heads = shape->n_heads;
    out->n_kv_heads = shape->n_kv_heads;
    out->head_dim = shape->head_dim;
    out->block_tok = shape->block_tok;
    out->shape = tile;
    out->dense_pairs = s2_dense_pairs(true, 0, options->len_tok);
    out->dense_blocks = n_blk * (n_blk + 1) / 2;
    out->dense_bound_us = layer_bound_us(out, out->dense_pairs * out->n_heads * options->batch);
    const int32_t n_costs = s2_fast_histogram(out, NULL);
    out->dense_steps = count_steps(out, n_costs);
    out->dense_time_us = layer_time_us(out, s2_makespan(out->count, n_costs, (int32_t)options->gpu.sms));
    return S2_OK;
}
