#include "sim/price.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/attention.h"
#include "sim/endtoend.h"
#include "sim/predict.h"

enum { CODE_SIM = 702 };

const char *s2_sim_phase_word(s2_sim_phase phase)
{
    static const char *const words[S2_N_SIM_PHASES] = {"prefill", "decode", "train"};
    return words[phase];
}

const char *s2_dtype_word(s2_dtype dtype)
{
    static const char *const words[S2_N_PRICED_DTYPES] = {"fp32", "bf16", "fp16", "fp8"};
    return words[dtype];
}

int32_t s2_dtype_bytes(s2_dtype dtype)
{
    return dtype == S2_F8 ? 1 : dtype == S2_F32 ? 4 : 2;
}

const char *s2_resource_word(s2_resource resource)
{
    static const char *const words[S2_N_RESOURCES] = {"mma", "exp", "hbm", "l2", "link", "launch"};
    return words[resource];
}

s2_status s2_sim_options_default(s2_sim_options *out)
{
    s2_sim_options options = {
        .phase = S2_SIM_PREFILL, .dtype = S2_BF16, .len_tok = 8192, .batch = 1, .page_tok = 16, .n_ranks = 1};
    S2_TRY(s2_gpu_find("h200", &options.gpu, NULL));
    *out = options;
    return S2_OK;
}

static s2_status check_options(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    const s2_net *const net = options->net;
    if (options->len_tok < 1 || options->len_tok > S2_LIMIT_CONTEXT_TOK || options->batch < 1 ||
        options->batch > 65536 || options->page_tok < 1 || options->page_tok > 65536)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0, "length, batch or page is out of range");
    if (options->n_ranks < 1 || pattern->n_kv_heads % options->n_ranks != 0)
        return s2_diag_set(
            diag, S2_EINVAL, CODE_SIM, 0, 0,
            "%d GPUs cannot share %d KV heads evenly; copies of a KV head on several are not priced",
            options->n_ranks, pattern->n_kv_heads);
    if (net != NULL && (net->n_layers != pattern->n_layers || net->n_heads != pattern->n_heads ||
                        net->n_kv_heads != pattern->n_kv_heads || net->head_dim != pattern->head_dim))
        return s2_diag_set(
            diag, S2_EINVAL, CODE_SIM, 0, 0,
            "model %s has %d layers, %d heads, %d KV heads of %d; the pattern has %d, %d, %d of %d",
            net->name, net->n_layers, net->n_heads, net->n_kv_heads, net->head_dim, pattern->n_layers,
            pattern->n_heads, pattern->n_kv_heads, pattern->head_dim);
    return S2_OK;
}

/* One rank of tensor parallelism runs 1/n of the heads; the slowest cannot beat the mean. */
static double per_rank(double us, const s2_sim_options *options, double launch_us)
{
    return options->n_ranks == 1 ? us : launch_us + (us - launch_us) / options->n_ranks;
}

static void add_attention_parts(const s2_attention *attention, const s2_sim_options *options, s2_sim *sim)
{
    const double launch_us = attention->busy_us[S2_LAUNCH];
    const double share = per_rank(attention->time_us, options, launch_us) / attention->time_us;
    const double forward_us = attention->forward_us * share;
    sim->parts[sim->n_parts++] = (s2_part){"attention", forward_us, s2_attention_busiest(attention)};
    if (options->phase == S2_SIM_TRAIN)
        sim->parts[sim->n_parts++] = (s2_part){"attention backward", attention->time_us * share - forward_us,
                                               s2_attention_busiest(attention)};
    if (attention->select_us > 0)
        sim->parts[sim->n_parts++] =
            (s2_part){"selection", attention->select_us / options->n_ranks, attention->select_by};
}

static void take_attention(const s2_attention *attention, const s2_attention *dense,
                           const s2_sim_options *options, s2_sim *sim)
{
    sim->counts = attention->counts;
    sim->dense = dense->counts;
    sim->density = attention->density;
    sim->executed_density = attention->executed_density;
    sim->token_density = (double)attention->counts.pairs / (double)dense->counts.pairs;
    sim->n_sparse_layers = attention->n_sparse_layers;
    sim->imbalance = attention->imbalance;
    add_attention_parts(attention, options, sim);
    for (int32_t part = 0; part < sim->n_parts; part++)
        sim->time_us += sim->parts[part].time_us;
    sim->plan_us = sim->time_us;
    /* the floor of a rank: its share of the work, and at least its launches */
    const double launch_us = dense->busy_us[S2_LAUNCH];
    const double floor_us = attention->bound_us / options->n_ranks;
    sim->bound_us = options->n_ranks == 1 ? attention->bound_us : fmax(floor_us, launch_us);
    sim->dense_time_us = per_rank(dense->time_us, options, launch_us);
    sim->bound_by =
        attention->select_us > attention->time_us ? attention->select_by : s2_attention_busiest(attention);
}

/* Predictions of all layers of a pattern. */
typedef struct s2_outlook {
    double us[S2_N_PASSES]; /* of one rank */
    s2_resource by[S2_N_PASSES];
    const char *kernel;
    double most_us; /* of one layer */
    double clock_mhz;
    double imbalance;
    double error_pct; /* the largest of the kernels used */
    s2_bytes bytes;
} s2_outlook;

static s2_resource resource_of(s2_limit limit, const s2_attention *attention)
{
    switch (limit) {
    case S2_LIMIT_HBM: return S2_HBM;
    case S2_LIMIT_L2: return S2_L2;
    case S2_LIMIT_LAUNCH: return S2_LAUNCH;
    case S2_LIMIT_COMPUTE: break;
    }
    return attention->busy_us[S2_EXP] > attention->busy_us[S2_MMA] ? S2_EXP : S2_MMA;
}

/* The work of a launch is planned item by item, and a step slab by slab: beyond this it would take a
 * gigabyte. */
static bool fits_planning(const s2_launch *launch)
{
    enum { MOST_ITEMS = 1 << 24, MOST_SLABS = 1 << 25 };
    const double heads = (double)launch->batch * launch->pattern->n_heads,
                 kv_heads = (double)launch->batch * launch->pattern->n_kv_heads;
    return launch->pass == S2_PASS_STEP ? kv_heads * (launch->k_tok / 16 + 1) <= MOST_SLABS
                                        : heads * (launch->k_tok / 64 + 1) <= MOST_ITEMS;
}

s2_status s2_sim_predict_layer(s2_arena *scratch, const s2_classes *classes, const s2_layer_class *layer,
                               s2_pass pass, const s2_sim_options *options, int64_t *work_left,
                               s2_launch_price *out, double *us)
{
    const bool step = pass == S2_PASS_STEP;
    const s2_launch launch = {.pattern = classes->pattern,
                              .phase = classes->phase,
                              .layer = layer->first_layer,
                              .pass = pass,
                              .q_tok = step ? 1 : (int32_t)options->len_tok,
                              .k_tok = (int32_t)options->len_tok,
                              .batch = (int32_t)options->batch,
                              .dtype = options->dtype,
                              .work_left = work_left};
    if (!fits_planning(&launch))
        return S2_EUNSUPPORTED;
    const s2_status status = s2_predict_launch(scratch, &options->calibration->model, &launch, out);
    if (status != S2_OK)
        return status == S2_ELIMIT ? S2_EUNSUPPORTED : status;
    *us = out->forecast.launch_us + (out->forecast.us - out->forecast.launch_us) / options->n_ranks;
    return S2_OK;
}

static s2_status predict_layer(s2_arena *arena, const s2_classes *classes, const s2_layer_class *layer,
                               s2_pass pass, const s2_sim_options *options, const s2_attention *attention,
                               int64_t *work_left, s2_outlook *all)
{
    s2_launch_price made;
    double own;
    S2_TRY(s2_sim_predict_layer(arena, classes, layer, pass, options, work_left, &made, &own));
    all->us[pass] += own * layer->n_layers;
    all->bytes.dram_read += made.forecast.bytes.dram_read * layer->n_layers;
    all->bytes.dram_write += made.forecast.bytes.dram_write * layer->n_layers;
    all->bytes.l2 += made.forecast.bytes.l2 * layer->n_layers;
    all->error_pct = fmax(all->error_pct, made.error_pct);
    if (own > all->most_us) {
        all->most_us = own;
        all->kernel = made.kernel->name;
        all->clock_mhz = made.forecast.mhz;
        all->imbalance = made.forecast.imbalance;
        all->by[pass] = resource_of(made.forecast.by, attention);
    }
    return S2_OK;
}

static s2_status predict_layers(s2_arena *arena, const s2_classes *classes, const s2_sim_options *options,
                                const s2_attention *attention, s2_outlook *out)
{
    s2_outlook all = {.kernel = ""};
    int64_t work_left = S2_SIM_PLAN_WORK;
    const s2_pass first = options->phase == S2_SIM_DECODE ? S2_PASS_STEP : S2_PASS_FORWARD;
    for (int32_t c = 0; c < classes->n_layer_classes; c++) {
        S2_TRY(
            predict_layer(arena, classes, &classes->layers[c], first, options, attention, &work_left, &all));
        if (options->phase == S2_SIM_TRAIN)
            S2_TRY(predict_layer(arena, classes, &classes->layers[c], S2_PASS_BACKWARD, options, attention,
                                 &work_left, &all));
    }
    *out = all;
    return S2_OK;
}

static double sum_of(const s2_outlook *outlook)
{
    return outlook->us[S2_PASS_FORWARD] + outlook->us[S2_PASS_BACKWARD] + outlook->us[S2_PASS_STEP];
}

/* Replace the bounds of the attention lines by what was predicted; selection stays a bound. */
static void take_outlook(const s2_outlook *own, const s2_outlook *dense, s2_sim *sim)
{
    sim->time_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++) {
        s2_part *const line = &sim->parts[part];
        const bool forward = strcmp(line->name, "attention") == 0;
        const s2_pass pass = own->us[S2_PASS_STEP] > 0 ? S2_PASS_STEP
                             : forward                 ? S2_PASS_FORWARD
                                                       : S2_PASS_BACKWARD;
        if (strcmp(line->name, "selection") != 0) {
            line->time_us = own->us[pass];
            line->bound_by = own->by[pass];
        }
        sim->time_us += line->time_us;
    }
    /* constants of other memory promise more than this one has; no time is below the bound */
    if (sim->time_us < sim->bound_us) {
        sim->parts[0].time_us += sim->bound_us - sim->time_us;
        sim->time_us = sim->bound_us;
    }
    sim->dense_time_us = sum_of(dense);
    sim->predicted = true;
    sim->error_pct = own->error_pct;
    sim->kernel = own->kernel;
    sim->clock_mhz = own->clock_mhz;
    sim->imbalance = own->imbalance;
    sim->bound_by = sim->parts[0].bound_by;
    sim->dram_bytes = own->bytes.dram_read + own->bytes.dram_write;
    sim->l2_bytes = own->bytes.l2;
}

/*
 * Where kernels were calibrated. Terms that choose at run time have no plan, so such a layer takes its bound
 * times what the dense pattern takes of its own, and the error is wide.
 */
static s2_status predict_attention(s2_arena *arena, const s2_classes *classes,
                                   const s2_classes *dense_classes, const s2_attention *attention,
                                   const s2_attention *dense, const s2_sim_options *options, s2_sim *sim)
{
    s2_outlook own, other;
    sim->kernel = "";
    if (options->calibration == NULL || options->dtype == S2_F8)
        return S2_OK;
    s2_status status = predict_layers(arena, dense_classes, options, dense, &other);
    if (status == S2_EUNSUPPORTED)
        return S2_OK;
    S2_TRY(status);
    status = predict_layers(arena, classes, options, attention, &own);
    if (status == S2_EUNSUPPORTED) {
        const double share = attention->time_us / dense->time_us;
        own = other;
        for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
            own.us[pass] *= share;
        own.bytes.dram_read *= share;
        own.bytes.dram_write *= share;
        own.bytes.l2 *= share;
        own.error_pct = S2_GUESS_PCT;
        status = S2_OK;
    }
    if (status == S2_OK)
        take_outlook(&own, &other, sim);
    return status;
}

static s2_status price_attention(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                                 int64_t *work_left, s2_sim *sim)
{
    s2_attention_pair pair;
    S2_TRY(s2_attention_price_pair(arena, pattern, options, sim->tile, work_left, &pair));
    sim->n_head_classes = pair.classes.n_reads;
    take_attention(&pair.own, &pair.dense, options, sim);
    return predict_attention(arena, &pair.classes, &pair.dense_classes, &pair.own, &pair.dense, options, sim);
}

/* Bytes of one rank. */
static s2_status kv_bytes_at(const s2_classes *classes, const s2_sim_options *options, int64_t len_tok,
                             int64_t batch, s2_kv_bytes *out)
{
    s2_kv_slots slots;
    S2_TRY(s2_kv_count(classes, len_tok, options->page_tok, &slots));
    *out = s2_kv_slots_bytes(classes->pattern, &slots, s2_dtype_bytes(options->dtype), batch);
    return S2_OK;
}

/* Head pages of the rank that holds most: KV heads are dealt out in equal parts, what they keep may differ.
 */
static s2_status fullest_at(const s2_classes *classes, const s2_sim_options *options, int64_t len_tok,
                            int64_t batch, int64_t *out)
{
    const int32_t own = classes->pattern->n_kv_heads / options->n_ranks;
    int64_t most = 0;
    for (int32_t rank = 0; rank < options->n_ranks; rank++) {
        s2_kv_slots slots;
        S2_TRY(s2_kv_count_heads(classes, rank * own, (rank + 1) * own, len_tok, options->page_tok, &slots));
        const s2_kv_bytes bytes =
            s2_kv_slots_bytes(classes->pattern, &slots, s2_dtype_bytes(options->dtype), batch);
        most = bytes.head_pages > most ? bytes.head_pages : most;
    }
    *out = most;
    return S2_OK;
}

static s2_status price_waste(const s2_classes *classes, const s2_sim_options *options, s2_sim *sim)
{
    static const int32_t pages[2] = {16, 64};
    for (int32_t p = 0; p < 2; p++) {
        s2_kv_slots slots;
        S2_TRY(s2_kv_count(classes, options->len_tok, pages[p], &slots));
        const s2_kv_bytes bytes =
            s2_kv_slots_bytes(classes->pattern, &slots, s2_dtype_bytes(options->dtype), options->batch);
        sim->kv_wasted[p] = bytes.head_pages - bytes.used;
    }
    return S2_OK;
}

/* The longest context (whole blocks) whose head pages fit. */
static s2_status longest_fit(const s2_classes *classes, const s2_sim_options *options, double room,
                             int64_t *out)
{
    const int64_t block = classes->pattern->block_tok;
    int64_t fits = 0, beyond = S2_LIMIT_CONTEXT_TOK / block + 1;
    while (beyond - fits > 1) {
        const int64_t middle = fits + (beyond - fits) / 2;
        int64_t bytes;
        S2_TRY(fullest_at(classes, options, middle * block, options->batch, &bytes));
        if ((double)bytes <= room)
            fits = middle;
        else
            beyond = middle;
    }
    *out = fits * block;
    return S2_OK;
}

/* The same when every key stays: whole blocks of a cache that grows evenly. */
static int64_t longest_dense_fit(const s2_pattern *pattern, const s2_sim_options *options, double room)
{
    const double token = 2.0 * pattern->head_dim * s2_dtype_bytes(options->dtype) * pattern->n_kv_heads *
                         pattern->n_layers * (double)options->batch / options->n_ranks;
    const double blocks = fmin(room / token, (double)S2_LIMIT_CONTEXT_TOK) / pattern->block_tok;
    return (int64_t)blocks * pattern->block_tok;
}

static s2_status price_capacity(const s2_classes *classes, const s2_sim_options *options, s2_sim *sim)
{
    const double room = options->gpu.hbm_gb * 1e9 - (double)s2_end_to_end_weight_bytes(options);
    sim->weight_bytes = s2_end_to_end_weight_bytes(options);
    if (room <= 0)
        return S2_OK;
    s2_kv_bytes one;
    int64_t own;
    S2_TRY(kv_bytes_at(classes, options, options->len_tok, 1, &one));
    S2_TRY(fullest_at(classes, options, options->len_tok, 1, &own));
    sim->fit_batch = own > 0 ? (int64_t)(room / (double)own) : 0;
    sim->fit_batch_dense = (int64_t)(room / ((double)one.dense / options->n_ranks));
    sim->fit_len_dense_tok = longest_dense_fit(classes->pattern, options, room);
    return longest_fit(classes, options, room, &sim->fit_len_tok);
}

/* Halves of the length, down to one block. */
static s2_status price_points(const s2_classes *classes, const s2_sim_options *options, s2_sim *sim)
{
    int32_t n = 1;
    while (n < S2_MAX_KV_POINTS && options->len_tok >> n >= classes->pattern->block_tok)
        n++;
    for (int32_t point = 0; point < n; point++) {
        s2_kv_point *const at = &sim->kv_points[point];
        at->len_tok = options->len_tok >> (n - 1 - point);
        S2_TRY(kv_bytes_at(classes, options, at->len_tok, options->batch, &at->bytes));
    }
    sim->n_kv_points = n;
    return S2_OK;
}

static s2_status price_kv(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                          int64_t *work_left, s2_sim *sim)
{
    s2_classes classes;
    s2_kv_line line;
    /* what stays after prefill is what decoding may still read */
    S2_TRY(s2_classes_build(arena, pattern, S2_DECODE, &classes));
    classes.work_left = work_left;
    S2_TRY(kv_bytes_at(&classes, options, options->len_tok, options->batch, &sim->kv));
    S2_TRY(fullest_at(&classes, options, options->len_tok, options->batch, &sim->kv_fullest));
    S2_TRY(price_waste(&classes, options, sim));
    S2_TRY(price_capacity(&classes, options, sim));
    S2_TRY(price_points(&classes, options, sim));
    S2_TRY(s2_kv_over_context(&classes, options->len_tok, options->page_tok, &line));
    const double slot = 2.0 * pattern->head_dim * s2_dtype_bytes(options->dtype) * (double)options->batch;
    sim->kv_peak = (int64_t)((double)line.peak_slots * slot);
    sim->kv_peak_tok = line.peak_tok;
    sim->kv_mean = line.mean_slots * slot;
    sim->kv_every_block = line.every_block;
    return S2_OK;
}

/* Bytes of a cache of one rank beyond the memory beside the weights. */
static double beyond_memory(const s2_sim_options *options, double own)
{
    const double room = options->gpu.hbm_gb * 1e9 - (double)s2_end_to_end_weight_bytes(options);
    const double kept = room > 0 ? room : 0;
    return own > kept ? own - kept : 0;
}

/* Time to read the host's share of what a step reads: every kept key is read alike. */
static double link_us(const s2_sim_options *options, double read_bytes, double host_bytes, double kv_bytes)
{
    if (options->gpu.pcie_gb_s <= 0 || kv_bytes <= 0)
        return 0;
    return read_bytes * (host_bytes / kv_bytes) / (options->gpu.pcie_gb_s * 1e3);
}

/* A cache that does not fit spills to host memory, and each token waits for the link. */
static void add_host_memory(const s2_sim_options *options, s2_sim *sim)
{
    const double kv = (double)sim->kv.head_pages, dense = (double)sim->kv.dense;
    const double host = beyond_memory(options, (double)sim->kv_fullest),
                 dense_host = beyond_memory(options, dense / options->n_ranks);
    sim->host_bytes = (int64_t)host;
    sim->host_dense_bytes = (int64_t)dense_host;
    if (options->phase != S2_SIM_DECODE)
        return;
    sim->dense_time_us =
        fmax(sim->dense_time_us, link_us(options, (double)sim->dense.hbm_read, dense_host, dense));
    const double us = link_us(options, (double)sim->counts.hbm_read, host, kv);
    sim->host_read_bytes = (int64_t)(us * options->gpu.pcie_gb_s * 1e3);
    if (us <= sim->time_us)
        return;
    sim->parts[sim->n_parts++] = (s2_part){"host memory", us - sim->time_us, S2_LINK};
    sim->time_us = us;
    sim->bound_us = fmax(sim->bound_us, us);
    sim->bound_by = S2_LINK;
}

bool s2_sim_dense_spills(const s2_sim_options *options, const s2_sim *sim)
{
    return options->phase == S2_SIM_DECODE && sim->host_dense_bytes > 0;
}

/* The physical floor: no output may claim less work or time than the pattern needs. */
static bool floors_hold(const s2_sim *sim)
{
    const double slack = 1 + 1e-9;
    return sim->bound_us <= sim->time_us * slack && sim->counts.flop_useful <= sim->counts.flop_executed &&
           sim->counts.exp_useful <= sim->counts.exp_executed && sim->kv.used <= sim->kv.head_pages &&
           sim->kv.head_pages <= sim->kv.shared_pages && sim->bound_us > 0;
}

static s2_status run(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                     int64_t *work_left, s2_sim *sim, s2_diag *diag)
{
    S2_TRY(check_options(pattern, options, diag));
    sim->tile = s2_tile_shape_default(pattern);
    S2_TRY(price_attention(scratch, pattern, options, work_left, sim));
    S2_TRY(price_kv(scratch, pattern, options, work_left, sim));
    add_host_memory(options, sim);
    s2_end_to_end_add(options, sim);
    if (!floors_hold(sim))
        return s2_diag_set(diag, S2_EINTERNAL, CODE_SIM, 0, 0,
                           "a physical floor is broken: %.9g us below %.9g us", sim->time_us, sim->bound_us);
    return S2_OK;
}

s2_status s2_sim_run(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options, s2_sim *out,
                     s2_diag *diag)
{
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_sim sim = {0};
    int64_t work_left = S2_SIM_WORK;
    const s2_status status = run(scratch, pattern, options, &work_left, &sim, diag);
    s2_arena_rewind(scratch, mark);
    if (!s2_work_goes_on(&work_left))
        return s2_diag_set(
            diag, S2_ELIMIT, CODE_SIM, 0, 0,
            "counting what it reads at %lld tokens takes more than 2^29 steps; a shorter context, "
            "larger blocks or fewer terms take less",
            (long long)options->len_tok);
    if (status == S2_ELIMIT)
        return s2_diag_set(diag, S2_ELIMIT, CODE_SIM, 0, 0,
                           "a total exceeds 2^63, or more than %d heads are distinct", S2_LIMIT_CLASSES);
    if (status == S2_OK)
        *out = sim;
    return status;
}
