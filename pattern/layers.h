/*
 * pattern/layers.h - layers that read alike, so that work per layer is done once for all of them.
 *
 * Threads: no state.
 */
#ifndef S2_PATTERN_LAYERS_H
#define S2_PATTERN_LAYERS_H

#include "pattern/spec.h"

/* The bodies of the heads of one layer, as indices. */
static inline const uint16_t *s2_layer_bodies(const s2_pattern *pattern, s2_phase phase, int32_t layer)
{
    return pattern->body_of + ((int64_t)phase * pattern->n_layers + layer) * pattern->n_heads;
}

enum { S2_BOTH_PHASES = (1 << S2_PREFILL) | (1 << S2_DECODE) };

/*
 * first_alike[layer], n_layers entries: the lowest layer whose heads read the same keys in the phases of the
 * mask, or the layer itself. Layers are alike when they have the same bodies and KV heads, are both state
 * layers or both not, no body names the layer and no random list is drawn. S2_ENOMEM.
 */
s2_status s2_layers_alike(s2_arena *scratch, const s2_pattern *pattern, uint32_t phases,
                          int32_t *first_alike) S2_MUST_CHECK;

#endif /* S2_PATTERN_LAYERS_H */
