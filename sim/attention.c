#include "sim/attention.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "sim/schedule.h"

/* Rates of one chip, per microsecond. */
typedef struct s2_rates {
    double mma;
    double exp;
    double hbm;
    double launch_us;
    int32_t n_sms;
} s2_rates;

static s2_rates rates_of(const s2_sim_options *options)
{
    const s2_gpu *const gpu = &options->gpu;
    return (s2_rates){
        .mma = s2_gpu_flop_us(gpu, options->dtype == S2_F8),
        .exp = gpu->mufu_per_clk_sm * gpu->boost_mhz * gpu->sms,
        .hbm = gpu->hbm_gb_s * 1e3,
        .launch_us = gpu->launch_us,
        .n_sms = (int32_t)gpu->sms,
    };
}

typedef struct s2_pricing {
    s2_arena *scratch;
    const s2_classes *classes;
    const s2_layer_class *layer; /* the layer being priced */
    const s2_sim_options *options;
    s2_tile_shape shape;
    s2_rates rates;
    s2_head_counts counts;
    s2_attention *out;
    double densities; /* summed over the heads of sparse layers */
    double executed;
    int64_t n_sparse_heads;
    double most_work;
} s2_pricing;

/* sum += a * b * c; remember if it did not fit. */
static void add_product(s2_attention *out, int64_t *sum, int64_t a, int64_t b, int64_t c)
{
    int64_t product;
    if (!s2_mul_i64(a, b, &product) || !s2_mul_i64(product, c, &product) || !s2_add_i64(*sum, product, sum))
        out->overflow = true;
}

/* The cost of one sequence times the batch; 0 where it did not fit. */
static int64_t for_batch(const s2_pricing *pricing, int64_t a, int64_t b)
{
    int64_t product = 0;
    add_product(pricing->out, &product, a, b, pricing->options->batch);
    return product;
}

/* Work of one layer, batch included. */
typedef struct s2_layer {
    int64_t pairs;
    int64_t blk_pairs;
    int64_t tiles;
    int64_t steps;
    int64_t read_bytes;
    int64_t write_bytes;
    int64_t load_bytes;
    int64_t rows_per_step; /* query rows that a step computes */
    double busiest_steps;  /* steps of the busiest SM */
} s2_layer;

/* Elements of one row, of one head. */
typedef struct s2_widths {
    int64_t score;  /* of Q and K */
    int64_t value;  /* of V and O */
    int64_t loaded; /* that a tile loads for a key */
    int64_t kept;   /* that must come from memory for a key, once */
} s2_widths;

/*
 * Latent attention makes K and V of each head from the latent that memory holds. In decode it multiplies queries
 * and outputs by those weights instead, and works on the latent itself.
 */
static s2_widths widths_of(const s2_pricing *pricing)
{
    const s2_pattern *const pattern = pricing->classes->pattern;
    const int64_t dim = pricing->layer->head_dim;
    if (!s2_pattern_is_latent(pattern))
        return (s2_widths){dim, dim, 2 * dim, 2 * dim};
    const s2_computed *const own = pattern->computed;
    const int64_t kept = (int64_t)own->latent_dim + own->rotary_dim,
                  made = (int64_t)own->score_dim + own->value_dim;
    if (pricing->options->phase == S2_DECODE)
        return (s2_widths){kept, own->latent_dim, kept, kept};
    return (s2_widths){own->score_dim, own->value_dim, made, kept};
}

/* Two products of a pair forward; five backward, of which three are as wide as Q and two as V. */
static int64_t pair_flop(const s2_pricing *pricing, bool backward)
{
    const s2_widths widths = widths_of(pricing);
    return backward ? 2 * (3 * widths.score + 2 * widths.value) : 2 * (widths.score + widths.value);
}

/* Decode reads the cache; other passes read K and V in the type in which they are computed. */
static int64_t kv_bytes(const s2_pricing *pricing, int64_t n_elems)
{
    const s2_sim_options *const options = pricing->options;
    const double elem =
        options->phase == S2_DECODE ? s2_sim_cache_bytes(options) : s2_dtype_bytes(options->dtype);
    return (int64_t)((double)n_elems * elem);
}

static int64_t kv_row_bytes(const s2_pricing *pricing)
{
    return kv_bytes(pricing, widths_of(pricing).kept);
}

static int64_t kv_load_bytes(const s2_pricing *pricing)
{
    return kv_bytes(pricing, widths_of(pricing).loaded);
}

/* Bytes of one query row of one head: Q in, O out (never below 2 bytes an element), log-sum-exp. */
static int64_t q_row_bytes(const s2_pricing *pricing)
{
    return widths_of(pricing).score * s2_dtype_bytes(pricing->options->dtype);
}

static int64_t o_row_bytes(const s2_pricing *pricing)
{
    return widths_of(pricing).value * 2;
}

/* Keys of one KV head that any query reads; a budget may choose any key. */
static s2_status touched_keys(const s2_pricing *pricing, const int32_t *head_class, int32_t n_group,
                              s2_combset *set, int64_t *out)
{
    const int64_t n_tok = pricing->options->len_tok, first_tok = s2_sim_first_tok(pricing->options);
    int64_t chosen = 0;
    bool all = false;
    s2_combset_clear(set);
    for (int32_t h = 0; h < n_group; h++) {
        const s2_reads *const reads = &pricing->classes->reads[head_class[h]];
        all |= reads->reads_diagonal && first_tok == 0;
        chosen = s2_max_i64(reads->budget_tok, chosen);
    }
    if (all || chosen >= n_tok / (n_tok - first_tok)) {
        *out = n_tok;
        return S2_OK;
    }
    for (int32_t h = 0; h < n_group; h++)
        S2_TRY(s2_reads_add_touched(&pricing->classes->reads[head_class[h]], first_tok, n_tok, set));
    const int64_t n = s2_combset_count(set, 0, n_tok);
    *out = s2_min_i64(n + chosen * (n_tok - first_tok), n_tok);
    return n < 0 ? s2_combset_failure(set) : S2_OK;
}

static s2_status layer_touched(const s2_pricing *pricing, const s2_layer_class *layer, int64_t *out)
{
    const int32_t n_group = s2_layer_group(layer, pricing->classes->pattern->n_heads);
    int64_t total = 0;
    s2_combset set = {.work_left = pricing->classes->work_left};
    s2_status status = S2_OK;
    for (int32_t kv = 0; kv < layer->n_kv_heads && status == S2_OK; kv++) {
        int64_t keys = 0;
        status = touched_keys(pricing, layer->head_class + (int64_t)kv * n_group, n_group, &set, &keys);
        total += keys;
    }
    s2_combset_release(&set);
    *out = total;
    return status;
}

/* Steps of the busiest SM when the tiles of all heads and sequences are handed out, the longest first. */
static s2_status layer_makespan(const s2_pricing *pricing, const s2_layer_class *layer, s2_layer *sum)
{
    int64_t most = 0;
    for (int32_t tile = 0; tile < pricing->counts.dense.n_q_tiles; tile++) {
        const int64_t steps = s2_tile_steps(pricing->shape, pricing->counts.dense.visits[tile]);
        most = s2_max_i64(steps, most);
    }
    const s2_arena_mark_t mark = s2_arena_mark(pricing->scratch);
    int64_t *const count = S2_NEW(pricing->scratch, int64_t, most + 1);
    if (count == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < pricing->classes->pattern->n_heads; head++) {
        const s2_head_work *const work = &pricing->counts.work[layer->head_class[head]];
        if (!s2_work_spend(pricing->classes->work_left, work->n_q_tiles))
            return S2_ELIMIT;
        for (int32_t tile = 0; tile < work->n_q_tiles; tile++)
            count[s2_tile_steps(pricing->shape, work->visits[tile])] += pricing->options->batch;
    }
    sum->busiest_steps = (double)s2_makespan(count, (int32_t)most + 1, pricing->rates.n_sms);
    s2_arena_rewind(pricing->scratch, mark);
    return S2_OK;
}

static void note_density(s2_pricing *pricing, const s2_layer_class *layer, bool sparse, double blocks,
                         double executed)
{
    if (!sparse)
        return;
    const double n_heads = (double)pricing->classes->pattern->n_heads;
    pricing->out->n_sparse_layers += layer->n_layers;
    pricing->n_sparse_heads += (int64_t)n_heads * layer->n_layers;
    pricing->densities += blocks * layer->n_layers;
    pricing->executed += executed * layer->n_layers;
}

static void count_batch(const s2_pricing *pricing, s2_layer *sum)
{
    sum->pairs = for_batch(pricing, sum->pairs, 1);
    sum->blk_pairs = for_batch(pricing, sum->blk_pairs, 1);
    sum->tiles = for_batch(pricing, sum->tiles, 1);
}

static s2_status sum_prefill(s2_pricing *pricing, const s2_layer_class *layer, s2_layer *sum)
{
    const s2_pattern *const pattern = pricing->classes->pattern;
    const int64_t batch = pricing->options->batch,
                  n_new = pricing->options->len_tok - s2_sim_first_tok(pricing->options);
    bool sparse = false;
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        const s2_head_work *const work = &pricing->counts.work[layer->head_class[head]];
        sum->pairs += work->pairs;
        sum->blk_pairs += work->blk_pairs;
        sum->tiles += work->tiles;
        sum->steps += work->steps;
        sparse |= work->pairs != pricing->counts.dense.pairs;
    }
    note_density(pricing, layer, sparse, (double)sum->blk_pairs / (double)pricing->counts.dense.blk_pairs,
                 (double)sum->steps / (double)pricing->counts.dense.steps);
    int64_t keys;
    S2_TRY(layer_touched(pricing, layer, &keys));
    S2_TRY(layer_makespan(pricing, layer, sum));
    const int64_t rows = n_new * pattern->n_heads;
    sum->rows_per_step = pricing->shape.q_tok;
    sum->read_bytes = for_batch(pricing, rows, q_row_bytes(pricing));
    add_product(pricing->out, &sum->read_bytes, keys, kv_row_bytes(pricing), batch);
    sum->write_bytes = for_batch(pricing, rows, o_row_bytes(pricing) + (int64_t)sizeof(float));
    const int64_t q_loads =
        (int64_t)pricing->counts.dense.n_q_tiles * pricing->shape.q_tok * pattern->n_heads;
    sum->load_bytes = for_batch(pricing, sum->tiles, pricing->shape.k_tok * kv_load_bytes(pricing));
    add_product(pricing->out, &sum->load_bytes, q_loads, q_row_bytes(pricing), batch);
    sum->steps = for_batch(pricing, sum->steps, 1);
    count_batch(pricing, sum);
    return S2_OK;
}

/* Key blocks that the rows of a step can see. */
static int64_t visible_blocks(const s2_pricing *pricing, int64_t block_tok)
{
    const int64_t n_tok = pricing->options->len_tok;
    int64_t total = 0;
    for (int64_t q_tok = s2_sim_first_tok(pricing->options); q_tok < n_tok; q_tok++)
        total += s2_ceil_div(pricing->classes->pattern->causal ? q_tok + 1 : n_tok, block_tok);
    return total;
}

/* Few tokens: query heads of a KV head share its keys in groups of 8 rows; keys are spread over all SMs. */
static s2_status sum_decode(s2_pricing *pricing, const s2_layer_class *layer, s2_layer *sum)
{
    enum { ROWS = 8 };
    const s2_pattern *const pattern = pricing->classes->pattern;
    const int32_t n_group = s2_layer_group(layer, pattern->n_heads);
    const int64_t batch = pricing->options->batch, n_tok = pricing->options->len_tok,
                  first_tok = s2_sim_first_tok(pricing->options),
                  n_rows = pattern->n_heads * (n_tok - first_tok);
    int64_t keys = 0;
    for (int32_t kv = 0; kv < layer->n_kv_heads; kv++) {
        s2_step_work step;
        S2_TRY(s2_step_work_count(pricing->classes, layer->head_class + (int64_t)kv * n_group, n_group,
                                  first_tok, n_tok, pricing->shape.k_tok, &step));
        sum->pairs += step.pairs;
        sum->blk_pairs += step.blk_pairs;
        sum->tiles += step.tiles;
        keys += step.keys;
    }
    const bool sparse = sum->pairs != s2_dense_pairs(pattern->causal, first_tok, n_tok) * pattern->n_heads;
    const int64_t dense_tiles = s2_ceil_div(n_tok, pricing->shape.k_tok);
    note_density(pricing, layer, sparse,
                 (double)sum->blk_pairs / (double)visible_blocks(pricing, pattern->block_tok),
                 (double)sum->tiles * n_group / (double)dense_tiles);
    sum->rows_per_step = s2_round_up(n_group * (n_tok - first_tok), ROWS);
    sum->read_bytes = for_batch(pricing, n_rows, q_row_bytes(pricing));
    add_product(pricing->out, &sum->read_bytes, keys, kv_row_bytes(pricing), batch);
    sum->write_bytes = for_batch(pricing, n_rows, o_row_bytes(pricing) + (int64_t)sizeof(float));
    sum->load_bytes = for_batch(pricing, sum->tiles, pricing->shape.k_tok * kv_load_bytes(pricing));
    count_batch(pricing, sum);
    /* a step of decode is one key block */
    sum->steps = sum->tiles;
    sum->busiest_steps = (double)sum->steps / pricing->rates.n_sms;
    return S2_OK;
}

static void add_counts(s2_pricing *pricing, const s2_layer *sum, int64_t n_layers, int64_t step_pairs)
{
    s2_attention *const out = pricing->out;
    s2_counts *const counts = &out->counts;
    /* training adds the backward pass and repeats the exponentials */
    const bool train = pricing->options->phase == S2_TRAIN;
    const int64_t flop = pair_flop(pricing, false) + (train ? pair_flop(pricing, true) : 0);
    const int64_t n_exp = train ? 2 : 1;
    add_product(out, &counts->pairs, sum->pairs, n_layers, 1);
    add_product(out, &counts->blk_pairs, sum->blk_pairs, n_layers, 1);
    add_product(out, &counts->tiles, sum->tiles, n_layers, 1);
    add_product(out, &counts->steps, sum->steps, n_layers, 1);
    add_product(out, &counts->flop_useful, sum->pairs, n_layers, flop);
    add_product(out, &counts->exp_useful, sum->pairs, n_layers, n_exp);
    int64_t executed;
    if (!s2_mul_i64(sum->steps, step_pairs, &executed)) {
        out->overflow = true;
        return;
    }
    add_product(out, &counts->flop_executed, executed, n_layers, flop);
    add_product(out, &counts->exp_executed, executed, n_layers, n_exp);
    add_product(out, &counts->hbm_read, sum->read_bytes, n_layers, 1);
    add_product(out, &counts->hbm_write, sum->write_bytes, n_layers, 1);
    add_product(out, &counts->l2, sum->load_bytes, n_layers, train ? 2 : 1);
}

/* One kernel launch, of so many operations a pair: the plan's time and the floor of any kernel. */
static void add_times(s2_pricing *pricing, const s2_layer *sum, double n_layers, double step_pairs,
                      double flop, double bytes)
{
    s2_attention *const out = pricing->out;
    const s2_rates *const rates = &pricing->rates;
    const double hbm_us = bytes / rates->hbm;
    const double step_mma = flop * step_pairs / (rates->mma / rates->n_sms);
    const double step_exp = step_pairs / (rates->exp / rates->n_sms);
    const double mma_us = sum->busiest_steps * step_mma, exp_us = sum->busiest_steps * step_exp;
    const double time = rates->launch_us + s2_max_f64(s2_max_f64(mma_us, exp_us), hbm_us);
    const double useful = s2_max_f64((double)sum->pairs * flop / rates->mma, (double)sum->pairs / rates->exp);
    out->time_us += time * n_layers;
    out->bound_us += s2_max_f64(s2_max_f64(useful, hbm_us), rates->launch_us) * n_layers;
    out->busy_us[S2_MMA] += mma_us * n_layers;
    out->busy_us[S2_EXP] += exp_us * n_layers;
    out->busy_us[S2_HBM] += hbm_us * n_layers;
    out->busy_us[S2_LAUNCH] += rates->launch_us * n_layers;
}

static s2_status add_layer(s2_pricing *pricing, const s2_layer_class *layer)
{
    const bool decode = pricing->options->phase == S2_DECODE;
    s2_layer sum = {0};
    S2_TRY(decode ? sum_decode(pricing, layer, &sum) : sum_prefill(pricing, layer, &sum));
    const int64_t keys = decode ? pricing->shape.k_tok : pricing->shape.step_tok;
    const int64_t step_pairs = sum.rows_per_step * keys;
    const double mean = (double)sum.steps / pricing->rates.n_sms;
    if (mean > pricing->most_work) {
        pricing->most_work = mean;
        pricing->out->imbalance = sum.busiest_steps / mean;
    }
    const int64_t read = sum.read_bytes, write = sum.write_bytes;
    const double before_us = pricing->out->time_us;
    add_times(pricing, &sum, layer->n_layers, (double)step_pairs, (double)pair_flop(pricing, false),
              (double)read + (double)write);
    pricing->out->forward_us += pricing->out->time_us - before_us;
    if (pricing->options->phase == S2_TRAIN) {
        /* reads Q K V, O dO and two numbers a row; writes dQ dK dV */
        add_times(pricing, &sum, layer->n_layers, (double)step_pairs, (double)pair_flop(pricing, true),
                  2 * ((double)read + (double)write));
        add_product(pricing->out, &sum.read_bytes, read, 1, 1);
        add_product(pricing->out, &sum.read_bytes, write, 2, 1);
        add_product(pricing->out, &sum.write_bytes, read, 1, 1);
    }
    add_counts(pricing, &sum, layer->n_layers, step_pairs);
    return S2_OK;
}

static s2_status count_heads(s2_arena *arena, const s2_classes *classes, const s2_sim_options *options,
                             s2_tile_shape shape, s2_head_counts *out)
{
    const int64_t first_tok = s2_sim_first_tok(options), n_tok = options->len_tok;
    s2_head_counts counts = {0};
    if (options->phase != S2_DECODE) {
        S2_TRY(s2_dense_work(arena, classes->pattern->causal, classes->pattern->block_tok, first_tok, n_tok,
                             shape, &counts.dense));
        counts.work = S2_NEW(arena, s2_head_work, classes->n_reads);
        if (counts.work == NULL)
            return S2_ENOMEM;
        for (int32_t c = 0; c < classes->n_reads; c++)
            S2_TRY(s2_head_work_count(arena, &classes->reads[c], first_tok, n_tok, shape, classes->work_left,
                                      &counts.work[c]));
    }
    *out = counts;
    return S2_OK;
}

/* ---- choosing keys at run time */

/* What choosing costs, of one sequence. */
typedef struct s2_choosing {
    double flop;
    double bytes;
} s2_choosing;

static s2_choosing plus(s2_choosing a, s2_choosing b)
{
    return (s2_choosing){a.flop + b.flop, a.bytes + b.bytes};
}

/*
 * `pages`: each query scores the elementwise minimum and maximum of the keys of each page, 4 D operations; where
 * queries choose together, one product of means. The heads of a group read them together.
 */
static s2_choosing choose_pages(const s2_pricing *pricing, const s2_layer_class *layer, const s2_reads *reads,
                                double pairs)
{
    const s2_pattern *const pattern = pricing->classes->pattern;
    const int32_t pool_tok = pattern->computed != NULL ? pattern->computed->pool_tok : 0;
    const double pages = (double)pricing->options->len_tok / (double)reads->page_tok,
                 scored = pairs / (double)reads->page_tok / (pool_tok > 0 ? pool_tok : 1),
                 kept = (double)kv_row_bytes(pricing) * (pool_tok > 0 ? 0.5 : 1);
    return (s2_choosing){scored * (pool_tok > 0 ? 2.0 : 4.0) * layer->head_dim,
                         pages * kept * layer->n_kv_heads / pattern->n_heads};
}

/* The last queries of a head score every key, and what they find serves all. */
static s2_choosing choose_by_probe(const s2_pricing *pricing, const s2_layer_class *layer)
{
    const s2_pattern *const pattern = pricing->classes->pattern;
    const double n_tok = (double)pricing->options->len_tok,
                 n_new = n_tok - (double)s2_sim_first_tok(pricing->options),
                 rows = s2_min_f64(pattern->computed->probe_rows, n_new);
    return (s2_choosing){rows * n_tok * 2.0 * layer->head_dim,
                         n_tok * (double)kv_row_bytes(pricing) / 2 * layer->n_kv_heads / pattern->n_heads};
}

/* `topk`: one indexer for all heads of a layer scores an index key of each token for each query. */
static s2_choosing choose_by_index(const s2_pricing *pricing, double pairs)
{
    const s2_pattern *const pattern = pricing->classes->pattern;
    const s2_computed *const computed = pattern->computed;
    const bool said = computed != NULL && computed->index_heads > 0;
    const double heads = said ? computed->index_heads : S2_INDEX_HEADS,
                 dim = said ? computed->index_dim : S2_INDEX_DIM;
    return (s2_choosing){pairs * heads * dim * 2,
                         (double)pricing->options->len_tok * (double)s2_index_key_bytes(pattern)};
}

static s2_choosing choosing_of(const s2_pricing *pricing, const s2_layer_class *layer)
{
    const s2_pattern *const pattern = pricing->classes->pattern;
    const s2_sim_options *const options = pricing->options;
    const bool probes = pattern->computed != NULL && pattern->computed->probe_rows > 0;
    const double pairs = (double)s2_dense_pairs(pattern->causal, s2_sim_first_tok(options), options->len_tok);
    s2_choosing sum = {0, 0};
    bool indexed = false;
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        const s2_reads *const reads = &pricing->classes->reads[layer->head_class[head]];
        indexed |= reads->selects_tokens && !probes;
        if (reads->selects_pages)
            sum = plus(sum, choose_pages(pricing, layer, reads, pairs));
        if (probes && (reads->selects_tokens || reads->heavy_tok > 0))
            sum = plus(sum, choose_by_probe(pricing, layer));
    }
    return indexed ? plus(sum, choose_by_index(pricing, pairs)) : sum;
}

static void add_selection(s2_pricing *pricing, const s2_layer_class *layer)
{
    const s2_choosing choosing = choosing_of(pricing, layer);
    const double batch = (double)pricing->options->batch;
    const int32_t n_layers = (int32_t)s2_index_layers(pricing->classes->pattern, layer->n_layers);
    if (choosing.flop == 0)
        return;
    const double mma_us = choosing.flop * batch / pricing->rates.mma,
                 hbm_us = choosing.bytes * batch / pricing->rates.hbm;
    const double slower = s2_max_f64(mma_us, hbm_us);
    pricing->out->select_by = slower <= pricing->rates.launch_us ? S2_LAUNCH
                              : mma_us > hbm_us                  ? S2_MMA
                                                                 : S2_HBM;
    pricing->out->select_us += (slower + pricing->rates.launch_us) * n_layers;
    add_product(pricing->out, &pricing->out->counts.hbm_read, (int64_t)choosing.bytes,
                pricing->options->batch, n_layers);
}

static s2_status price_layers(s2_pricing *pricing)
{
    for (int32_t c = 0; c < pricing->classes->n_layer_classes; c++) {
        pricing->layer = &pricing->classes->layers[c];
        S2_TRY(add_layer(pricing, pricing->layer));
        add_selection(pricing, pricing->layer);
    }
    return S2_OK;
}

s2_status s2_attention_price_counted(s2_arena *scratch, const s2_classes *classes,
                                     const s2_head_counts *counts, const s2_sim_options *options,
                                     s2_tile_shape shape, s2_attention *out)
{
    s2_attention result = {.imbalance = 1};
    s2_pricing pricing = {.scratch = scratch,
                          .classes = classes,
                          .options = options,
                          .shape = shape,
                          .rates = rates_of(options),
                          .counts = *counts,
                          .out = &result};
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    const s2_status status = price_layers(&pricing);
    s2_arena_rewind(scratch, mark);
    S2_TRY(status);
    if (result.overflow)
        return S2_ELIMIT;
    const double n_heads = (double)pricing.n_sparse_heads;
    result.density = n_heads > 0 ? pricing.densities / n_heads : 1;
    result.executed_density = n_heads > 0 ? pricing.executed / n_heads : 1;
    *out = result;
    return S2_OK;
}

s2_status s2_attention_price(s2_arena *scratch, const s2_classes *classes, const s2_sim_options *options,
                             s2_tile_shape shape, s2_attention *out)
{
    s2_head_counts counts;
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_status status = count_heads(scratch, classes, options, shape, &counts);
    if (status == S2_OK)
        status = s2_attention_price_counted(scratch, classes, &counts, options, shape, out);
    s2_arena_rewind(scratch, mark);
    return status;
}

s2_status s2_attention_kv_work(const s2_classes *classes, const s2_head_counts *counts,
                               const s2_layer_class *layer, const s2_sim_options *options,
                               s2_tile_shape shape, int64_t *work)
{
    const int32_t n_group = s2_layer_group(layer, classes->pattern->n_heads);
    for (int32_t kv = 0; kv < layer->n_kv_heads; kv++) {
        const int32_t *const head_class = layer->head_class + (int64_t)kv * n_group;
        s2_step_work step = {0};
        if (options->phase == S2_DECODE)
            S2_TRY(s2_step_work_count(classes, head_class, n_group, s2_sim_first_tok(options),
                                      options->len_tok, shape.k_tok, &step));
        work[kv] = step.tiles;
        for (int32_t h = 0; h < n_group && counts->work != NULL; h++)
            work[kv] += counts->work[head_class[h]].steps;
    }
    return S2_OK;
}

s2_resource s2_attention_busiest(const s2_attention *attention)
{
    s2_resource most = S2_MMA;
    for (s2_resource r = S2_MMA; r < S2_N_RESOURCES; r++)
        if (attention->busy_us[r] > attention->busy_us[most])
            most = r;
    return most;
}

s2_status s2_attention_dense(s2_arena *arena, const s2_pattern *pattern, s2_pattern *out)
{
    enum { DENSE, NOTHING, N_BODIES };
    const int64_t n_heads = pattern->n_heads;
    s2_term *const term = S2_NEW(arena, s2_term, 1);
    s2_body *const bodies = S2_NEW(arena, s2_body, N_BODIES);
    uint16_t *const body_of = S2_NEW(arena, uint16_t, S2_N_RULE_PHASES * pattern->n_layers * n_heads);
    if (term == NULL || bodies == NULL || body_of == NULL)
        return S2_ENOMEM;
    *term = s2_term_init(S2_TERM_DENSE, 0);
    bodies[DENSE] = (s2_body){1, term};
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const uint16_t body = s2_pattern_is_state_layer(pattern, layer) ? NOTHING : DENSE;
        for (int64_t head = 0; head < n_heads; head++)
            body_of[layer * n_heads + head] = body_of[(pattern->n_layers + layer) * n_heads + head] = body;
    }
    *out = *pattern;
    out->n_bodies = N_BODIES;
    out->bodies = bodies;
    out->body_of = body_of;
    return S2_OK;
}

s2_status s2_attention_price_pair(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                                  s2_tile_shape shape, int64_t *work_left, s2_attention_pair *out)
{
    const s2_phase phase = s2_phase_rules(options->phase);
    S2_TRY(s2_classes_build(arena, pattern, phase, &out->classes));
    S2_TRY(s2_attention_dense(arena, pattern, &out->dense_pattern));
    S2_TRY(s2_classes_build(arena, &out->dense_pattern, phase, &out->dense_classes));
    out->classes.work_left = out->dense_classes.work_left = work_left;
    S2_TRY(count_heads(arena, &out->classes, options, shape, &out->counts));
    S2_TRY(count_heads(arena, &out->dense_classes, options, shape, &out->dense_counts));
    S2_TRY(s2_attention_price_counted(arena, &out->classes, &out->counts, options, shape, &out->own));
    return s2_attention_price_counted(arena, &out->dense_classes, &out->dense_counts, options, shape,
                                      &out->dense);
}
