#include "sim/links.h"

/* GPUs that the groups up to this one number through. */
static int64_t reach_of(const s2_sim_options *options, s2_group group)
{
    const int64_t sizes[] = {options->n_ranks, options->n_context, options->n_stages, options->n_shards};
    int64_t reach = 1;
    for (s2_group inner = S2_GROUP_TENSOR; inner <= group; inner++)
        reach *= sizes[inner];
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
