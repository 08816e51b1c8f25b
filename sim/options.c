#include "sim/price.h"

const char *s2_weights_word(s2_weights weights)
{
    static const char *const words[S2_N_WEIGHTS] = {"published", "as-dtype", "fp8",  "int8",
                                                    "int4",      "mxfp4",    "nvfp4"};
    return words[weights];
}

s2_weights s2_sim_weights(const s2_sim_options *options)
{
    if (options->weights != S2_WEIGHTS_PUBLISHED)
        return options->weights;
    const bool known = options->net != NULL && options->net->stored != S2_WEIGHTS_PUBLISHED;
    return known && options->phase != S2_TRAIN ? options->net->stored : S2_WEIGHTS_AS_DTYPE;
}

bool s2_sim_has_fp8(const s2_sim_options *options)
{
    const s2_weights weights = s2_sim_weights(options);
    const bool published = options->weights == S2_WEIGHTS_PUBLISHED && weights != S2_WEIGHTS_AS_DTYPE;
    return weights == S2_WEIGHTS_FP8 || (published && (options->net->stored_in >> S2_WEIGHTS_FP8 & 1U) != 0);
}

const char *s2_cache_type_word(s2_cache_type type)
{
    static const char *const words[S2_N_CACHE_TYPES] = {"as-dtype", "bf16", "e4m3", "int8"};
    return words[type];
}

const char *s2_training_peak_word(s2_training_peak peak)
{
    static const char *const words[S2_N_PEAKS] = {"loss", "last layer", "first layer", "update", "layer"};
    return words[peak];
}

const char *s2_cut_word(s2_context_cut cut)
{
    static const char *const words[S2_N_CUTS] = {"contiguous", "zigzag"};
    return words[cut];
}

const char *s2_fusion_word(s2_fusion fusion)
{
    static const char *const words[S2_N_FUSIONS] = {"fused", "eager"};
    return words[fusion];
}

int64_t s2_sim_first_tok(const s2_sim_options *options)
{
    if (options->new_tok > 0)
        return options->len_tok - options->new_tok;
    return options->phase == S2_DECODE ? options->len_tok - 1 : 0;
}

void s2_sim_microbatches(const s2_sim_options *options, int32_t *n_micro, int64_t *micro_batch)
{
    int64_t n = options->n_micro;
    if (n == 0)
        n = options->n_stages == 1 ? 1 : options->phase == S2_DECODE ? options->n_stages : options->batch;
    *n_micro = (int32_t)s2_min_i64(n, options->batch);
    *micro_batch = s2_ceil_div(options->batch, *n_micro);
}

double s2_sim_cache_bytes(const s2_sim_options *options)
{
    if (options->cache == S2_CACHE_AS_DTYPE)
        return s2_dtype_bytes(options->dtype);
    return options->cache == S2_CACHE_BF16 ? 2 : 1;
}

bool s2_sim_cache_differs(const s2_sim_options *options)
{
    return s2_sim_cache_bytes(options) != s2_dtype_bytes(options->dtype);
}

const char *s2_resource_word(s2_resource resource)
{
    static const char *const words[S2_N_RESOURCES] = {"mma", "exp", "hbm", "l2", "link", "launch", "latency"};
    return words[resource];
}

double s2_sim_memory_bytes(const s2_sim_options *options)
{
    return options->gpu.hbm_gb * 1e6 * (1000 - options->reserved_permille);
}

s2_status s2_sim_options_default(s2_sim_options *out)
{
    s2_sim_options options = {.phase = S2_PREFILL,
                              .dtype = S2_BF16,
                              .len_tok = 8192,
                              .batch = 1,
                              .page_tok = 16,
                              .n_ranks = 1,
                              .n_stages = 1,
                              .n_context = 1,
                              .n_expert_ranks = 1,
                              .n_nodes = 1,
                              .n_shards = 1};
    S2_TRY(s2_gpu_find("h200", &options.gpu, NULL));
    *out = options;
    return S2_OK;
}

void s2_sim_choose_blocks(s2_sim_options *options)
{
    options->listed = options->keeps_all = true;
}

/* Training is left to the plan: transposing the lists of a long context costs a large part of a second. */
bool s2_sim_predicts(const s2_sim_options *options, s2_phase phase)
{
    return options->calibration != NULL && options->dtype != S2_F8 && phase != S2_TRAIN;
}
