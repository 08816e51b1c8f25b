/*
 * sim/links.h - which link the GPUs of a group use.
 *
 * GPUs are numbered so that those of a tensor-parallel group are neighbours, then those that share a context,
 * replicas that share experts, the stages of a pipeline, then other replicas. Nodes have equally many. A group that
 * does not lie in one node is as fast as the network.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_LINKS_H
#define S2_SIM_LINKS_H

#include "sim/price.h"

typedef enum s2_group {
    S2_GROUP_TENSOR,
    S2_GROUP_CONTEXT,
    S2_GROUP_EXPERTS,
    S2_GROUP_STAGES,
    S2_GROUP_REPLICAS,
    S2_N_GROUPS
} s2_group;

/* GPUs that the group alone numbers; of replicas those that share no experts. */
int64_t s2_links_size(const s2_sim_options *options, s2_group group);
int64_t s2_links_gpus(const s2_sim_options *options);
bool s2_links_cross(const s2_sim_options *options, s2_group group);

/* Bytes that a GPU sends in a microsecond, at the peak of the link; 0: no link is known. */
double s2_links_rate(const s2_sim_options *options, s2_group group);

#endif /* S2_SIM_LINKS_H */
