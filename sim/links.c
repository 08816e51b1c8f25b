#include "sim/links.h"
#include "base/arith.h"

int64_t s2_links_size(const s2_sim_options *options, s2_group group)
{
    const int32_t replicas = options->n_shards / options->n_expert_ranks;
    const int64_t sizes[S2_N_GROUPS] = {[S2_GROUP_TENSOR] = options->n_ranks,
                                        [S2_GROUP_CONTEXT] = options->n_context,
                                        [S2_GROUP_EXPERTS] = options->n_expert_ranks,
                                        [S2_GROUP_STAGES] = options->n_stages,
                                        [S2_GROUP_REPLICAS] = s2_max_i32(replicas, 1)};
    return sizes[group];
}

/* GPUs that the groups up to this one number through. */
static int64_t reach_of(const s2_sim_options *options, s2_group group)
{
    int64_t reach = 1;
    for (s2_group inner = S2_GROUP_TENSOR; inner <= group; inner++)
        reach *= s2_links_size(options, inner);
    return reach;
}

int64_t s2_links_gpus(const s2_sim_options *options)
{
    return reach_of(options, S2_GROUP_REPLICAS);
}

bool s2_links_cross(const s2_sim_options *options, s2_group group)
{
    const int64_t node = s2_links_gpus(options) / options->n_nodes;
    return node % reach_of(options, group) != 0;
}

double s2_links_rate(const s2_sim_options *options, s2_group group)
{
    const s2_gpu *const gpu = &options->gpu;
    if (s2_links_cross(options, group))
        return gpu->network_gb_s * 1e3;
    return (gpu->nvlink_gb_s > 0 ? gpu->nvlink_gb_s / 2 : gpu->pcie_gb_s) * 1e3;
}
