#include "sim/inner.h"

#include "base/arith.h"
#include "sim/net.h"

/* Tensors of a feed-forward layer's inner columns, and as many matrices; what one GPU has of each column. */
static double inner_share(const s2_sim_options *options)
{
    return (options->net->gated ? 3.0 : 2.0) / options->n_ranks;
}

/* Columns of so many experts in a layer. */
static double expert_columns(const s2_sim_options *options, double n)
{
    return n * options->net->ffn;
}

double s2_inner_width(const s2_sim_options *options, double picked)
{
    const s2_net *const net = options->net;
    const s2_net_counts counts = s2_net_count(net);
    return inner_share(options) * s2_net_columns(net, expert_columns(options, net->n_active * picked)) /
           s2_max_i32(counts.n_plain + counts.n_mixtures, 1);
}

double s2_inner_widest(const s2_sim_options *options, double picked)
{
    const s2_net *const net = options->net;
    return inner_share(options) * s2_net_widest(net, expert_columns(options, net->n_active * picked));
}

double s2_inner_of(const s2_sim_options *options, int32_t layer, double picked)
{
    const s2_net *const net = options->net;
    return inner_share(options) *
           s2_net_layer_columns(net, layer, expert_columns(options, net->n_active * picked));
}

double s2_inner_widest_of(const s2_sim_options *options, int32_t layer, double picked)
{
    const s2_net *const net = options->net;
    return inner_share(options) *
           s2_net_layer_widest(net, layer, expert_columns(options, net->n_active * picked));
}

double s2_inner_weights(const s2_sim_options *options, double n_experts)
{
    return options->net->hidden * inner_share(options) *
           s2_net_columns(options->net,
                          expert_columns(options, n_experts) * s2_net_expert_part(options->net));
}

double s2_inner_mean(const s2_sim_options *options, double n_experts, const double of[S2_N_STORED_PARTS])
{
    const s2_net_inner own =
        s2_net_inner_of(options->net, expert_columns(options, n_experts) * s2_net_expert_part(options->net));
    const double all = own.experts + own.shared + own.plain;
    return all > 0 ? (own.experts * of[S2_PART_EXPERTS] + own.shared * of[S2_PART_SHARED] +
                      own.plain * of[S2_PART_PLAIN]) /
                         all
                   : 0;
}
