/*
 * cli/pricing.h - the options of a price that s2 sim and s2 search share: what is stored in which type, how a
 * training step is divided, whose constants.
 */
#ifndef S2_CLI_PRICING_H
#define S2_CLI_PRICING_H

#include "cli/options.h"
#include "sim/price.h"

/*
 * --tp, --page, --dtype, --weights, --kv-dtype, --fusion, --dp, --recompute, --pp, --micro, --cp, --cut, --ep, --nodes;
 * S2_EXIT_USAGE after a message.
 */
s2_exit s2_pricing_options(s2_cli *cli, const s2_args *args, s2_sim_options *options);
/* A word of --weights, which the caller knows to be one. */
s2_weights s2_pricing_weights(const char *word);
enum { S2_MOST_NODES = 1 << 16 };
/* Whether --micro has a pipeline; S2_EXIT_USAGE after a message. */
s2_exit s2_pricing_check_machine(s2_cli *cli, const s2_sim_options *options);
/*
 * --dp and --recompute change nothing unless a training step is priced, which keeps no weights of few bits;
 * S2_EXIT_USAGE after a message.
 */
s2_exit s2_pricing_refuse_training(s2_cli *cli, const s2_sim_options *options, const char *phases,
                                   bool trains);
/*
 * --device-lists. S2_EXIT_USAGE after a message where it stands beside an option of the command that it excludes, or
 * another phase than prefill is priced; what else cannot be priced so, s2_price() says.
 */
s2_exit s2_pricing_listed(s2_cli *cli, const s2_args *args, bool prefill, s2_sim_options *options);
/* The user's own constants, the GPU's, or, not measured, a guess from its data sheet. */
s2_exit s2_pricing_constants(s2_cli *cli, const s2_args *args, const s2_gpu *gpu, s2_calibration *out,
                             bool *measured);

#endif /* S2_CLI_PRICING_H */
