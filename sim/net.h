/*
 * sim/net.h - what the layers around attention weigh: widths, experts, vocabulary.
 *
 * Read from sim/models.txt, which is built into the program. Threads: no state.
 */
#ifndef S2_SIM_NET_H
#define S2_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* S2_EINVAL with the nearest known name in *diag; S2_EPARSE for a damaged table. */
s2_status s2_net_find(const char *name, s2_net *out, s2_diag *diag) S2_MUST_CHECK;

/* Row number `nth` of the table, in order; false past its end. */
bool s2_net_at(int32_t nth, s2_net *out);

/* Weights of the whole model. */
int64_t s2_net_weights(const s2_net *net);

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_NET_H */
