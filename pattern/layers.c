#include "pattern/layers.h"

#include <string.h>

static bool body_depends_on_layer(const s2_body *body)
{
    for (int32_t t = 0; t < body->n_terms; t++)
        if (body->terms[t].offset.layer_coef != 0 ||
            s2_term_row_of(body->terms[t].kind)->args == S2_ARGS_DRAW)
            return true;
    return false;
}

typedef struct layer_key {
    uint64_t hash;
    bool alone;    /* some head's reads depend on the layer */
    bool is_state; /* nothing is claimed of it: not alike a layer of `none`, which reads nothing either */
} layer_key;

static layer_key key_of(const s2_pattern *pattern, uint32_t phases, const bool *depends, int32_t layer)
{
    layer_key key = {.hash = (uint64_t)s2_pattern_kv_heads(pattern, layer),
                     .is_state = s2_pattern_is_state_layer(pattern, layer)};
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        const uint16_t *const bodies = s2_layer_bodies(pattern, (s2_phase)phase, layer);
        for (int32_t head = 0; (phases >> phase & 1) && head < pattern->n_heads; head++) {
            key.hash = (key.hash ^ bodies[head]) * UINT64_C(0x9e3779b97f4a7c15);
            key.hash ^= key.hash >> 31;
            key.alone |= depends[bodies[head]];
        }
    }
    return key;
}

static bool same_bodies(const s2_pattern *pattern, uint32_t phases, int32_t a, int32_t b)
{
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        if ((phases >> phase & 1) &&
            memcmp(s2_layer_bodies(pattern, (s2_phase)phase, a), s2_layer_bodies(pattern, (s2_phase)phase, b),
                   (size_t)pattern->n_heads * sizeof *pattern->body_of) != 0)
            return false;
    return s2_pattern_kv_heads(pattern, a) == s2_pattern_kv_heads(pattern, b);
}

s2_status s2_layers_alike(s2_arena *scratch, const s2_pattern *pattern, uint32_t phases, int32_t *first_alike)
{
    bool *const depends = S2_NEW(scratch, bool, pattern->n_bodies);
    layer_key *const keys = S2_NEW(scratch, layer_key, pattern->n_layers);
    if (depends == NULL || keys == NULL)
        return S2_ENOMEM;
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        depends[body] = body_depends_on_layer(&pattern->bodies[body]);
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        keys[layer] = key_of(pattern, phases, depends, layer);
        first_alike[layer] = layer;
        for (int32_t other = 0; other < layer && !keys[layer].alone; other++)
            if (first_alike[other] == other && keys[other].hash == keys[layer].hash &&
                keys[other].is_state == keys[layer].is_state && !keys[other].alone &&
                same_bodies(pattern, phases, other, layer)) {
                first_alike[layer] = other;
                break;
            }
    }
    return S2_OK;
}
