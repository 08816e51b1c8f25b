#include "sim/endtoend.h"

/* Backward of a product is two products of the same size. */
#define TRAIN_FLOP 3.0
/* Mixed-precision Adam: master weight, two moments read and written in fp32, gradient read, weight written.
 */
#define OPTIMIZER_BYTES 28.0

int64_t s2_end_to_end_weight_bytes(const s2_sim_options *options)
{
    if (options->net == NULL)
        return 0;
    return s2_net_weights(options->net) * s2_dtype_bytes(options->dtype) / options->n_ranks;
}

typedef struct s2_around {
    const s2_sim_options *options;
    s2_sim *sim;
    double tokens; /* that pass through the layers */
    double mma;    /* flop a microsecond */
    double hbm;    /* bytes a microsecond */
    double train;  /* 3 in training, else 1 */
} s2_around;

/*
 * With a calibration the lines are estimates: 1.25 times the roofline and 3.6 us a launch, which is 8.5 % off
 * (mean) on the 23 579 bf16 products that AIConfigurator's tables hold of an H200.
 */
#define PRODUCT_SLOWER 1.25
#define PRODUCT_US     3.6

static void add_part(s2_around *around, const char *name, double mma_us, double hbm_us, double n_launches)
{
    const double launch_us = n_launches * around->options->gpu.launch_us;
    if (around->options->calibration != NULL) {
        const double bound = mma_us > hbm_us ? mma_us : hbm_us, own_us = n_launches * PRODUCT_US;
        const s2_resource most = bound * PRODUCT_SLOWER < own_us ? S2_LAUNCH
                                 : mma_us > hbm_us               ? S2_MMA
                                                                 : S2_HBM;
        around->sim->parts[around->sim->n_parts++] = (s2_part){name, own_us + PRODUCT_SLOWER * bound, most};
        return;
    }
    const double slower = mma_us > hbm_us ? mma_us : hbm_us;
    const s2_resource by = slower < launch_us ? S2_LAUNCH : mma_us > hbm_us ? S2_MMA : S2_HBM;
    around->sim->parts[around->sim->n_parts++] = (s2_part){name, slower > launch_us ? slower : launch_us, by};
}

/* n products that read `weights` in all; `active` of them for each token. */
static void add_products(s2_around *around, const char *name, double weights, double active, double rows,
                         double n)
{
    const double ranks = around->options->n_ranks;
    const double elem = s2_dtype_bytes(around->options->dtype);
    add_part(around, name, 2 * active * rows * around->train / ranks / around->mma,
             weights * elem * around->train / ranks / around->hbm, n * around->train);
}

/* Experts that at least one of the tokens visits, at most. */
static double experts_read(const s2_net *net, double tokens)
{
    const double visited = tokens * net->n_active;
    return visited < net->n_experts ? visited : net->n_experts;
}

static void add_layers(s2_around *around)
{
    const s2_net *const net = around->options->net;
    const double hidden = net->hidden, n_layers = net->n_layers;
    const double width = 2.0 * (net->n_heads + net->n_kv_heads) * net->head_dim;
    const double expert = (net->gated ? 3.0 : 2.0) * hidden * net->ffn;
    const double elem = s2_dtype_bytes(around->options->dtype);
    add_products(around, "projections", n_layers * hidden * width, n_layers * hidden * width, around->tokens,
                 2 * n_layers);
    add_products(around, "feed-forward", n_layers * expert * experts_read(net, around->tokens),
                 n_layers * expert * net->n_active, around->tokens, 2 * n_layers);
    /* two norms with their residuals read and write the hidden state */
    add_part(around, "norms", 0, 4 * n_layers * hidden * around->tokens * elem * around->train / around->hbm,
             2 * n_layers * around->train);
    const bool train = around->options->phase == S2_SIM_TRAIN;
    const double head_rows = train ? around->tokens : (double)around->options->batch;
    add_products(around, "lm head", hidden * net->vocab, hidden * net->vocab, head_rows, 1);
}

/* Two all-reduces a layer over a ring: 2 (n - 1) / n of the hidden state, one way of the link. */
static void add_links(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    const double n = options->n_ranks;
    const double one_way =
        options->gpu.nvlink_gb_s > 0 ? options->gpu.nvlink_gb_s / 2 : options->gpu.pcie_gb_s;
    if (options->n_ranks == 1 || one_way <= 0)
        return;
    const double bytes = 2.0 * options->net->n_layers * options->net->hidden * around->tokens * 2;
    const double link_us = bytes * 2 * (n - 1) / n * around->train / (one_way * 1e3);
    /* vLLM's all-reduce in AIConfigurator's H200 tables: 4.5 us at least, and 0.73 to 1.04 of the link */
    const double own_us =
        options->calibration == NULL ? 0 : 2.0 * options->net->n_layers * around->train * 4.5;
    around->sim->parts[around->sim->n_parts++] =
        (s2_part){"all-reduce", options->calibration == NULL ? link_us : own_us + link_us / 0.8, S2_LINK};
}

void s2_end_to_end_add(const s2_sim_options *options, s2_sim *sim)
{
    if (options->net == NULL)
        return;
    const bool fp8 = options->dtype == S2_F8 && options->gpu.fp8_tflops > 0;
    const double per_sequence = options->phase == S2_SIM_DECODE ? 1 : (double)options->len_tok;
    s2_around around = {options,
                        sim,
                        per_sequence * (double)options->batch,
                        (fp8 ? options->gpu.fp8_tflops : options->gpu.bf16_tflops) * 1e6,
                        options->gpu.hbm_gb_s * 1e3,
                        options->phase == S2_SIM_TRAIN ? TRAIN_FLOP : 1};
    double attention_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++)
        attention_us += sim->parts[part].time_us;
    add_layers(&around);
    add_links(&around);
    if (options->phase == S2_SIM_TRAIN)
        add_part(&around, "optimizer", 0,
                 (double)s2_net_weights(options->net) * OPTIMIZER_BYTES / options->n_ranks / around.hbm, 1);
    sim->end_to_end_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++)
        sim->end_to_end_us += sim->parts[part].time_us;
    sim->end_to_end_dense_us = sim->end_to_end_us - attention_us + sim->dense_time_us;
}
