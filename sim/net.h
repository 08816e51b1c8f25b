/*
 * sim/net.h - what the layers around attention weigh: widths, experts, vocabulary.
 *
 * Built-in models are those of pattern/models.h. Threads: no state.
 */
#ifndef S2_SIM_NET_H
#define S2_SIM_NET_H

#include <stdint.h>

#include "base/net.h"
#include "base/status.h"

/* The built-in name nearest to a word, and how far it is; "" and S2_NAME_FAR where none is near. */
const char *s2_net_nearest(const char *word, int32_t *distance);
/* S2_EINVAL with the nearest known name, if one is near, in *diag. */
s2_status s2_net_find(const char *name, s2_net *out, s2_diag *diag) S2_MUST_CHECK;

/* Weights of the whole model. */
int64_t s2_net_weights(const s2_net *net);

#endif /* S2_SIM_NET_H */
