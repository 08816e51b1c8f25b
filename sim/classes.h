/*
 * sim/classes.h - the distinct heads and layers of a pattern, each layer in its own shape.
 *
 * Models repeat themselves: Phi-3-small has 1024 (layer, head) pairs and 9 distinct heads. Everything
 * that is counted is counted per class and multiplied.
 *
 * Ownership: arrays live in the arena. Threads: immutable once built.
 */
#ifndef S2_SIM_CLASSES_H
#define S2_SIM_CLASSES_H

#include "sim/reads.h"

enum { S2_LIMIT_CLASSES = 1 << 14 };

typedef struct s2_layer_class {
    int32_t first_layer;
    int32_t n_layers;
    int32_t n_kv_heads;
    int32_t head_dim;
    const int32_t *head_class; /* n_heads entries */
    /*
     * The layers whose heads read the keys that this layer keeps: itself, then those that share its keys.
     * 0 where it keeps none.
     */
    int32_t n_readers;
    const int32_t *const *readers; /* the head_class of each */
} s2_layer_class;

/* Query heads on one KV head of the layer. */
static inline int32_t s2_layer_group(const s2_layer_class *layer, int32_t n_heads)
{
    return n_heads / layer->n_kv_heads;
}

typedef struct s2_classes {
    const s2_pattern *pattern;
    s2_phase phase;
    int32_t n_reads;
    const s2_reads *reads; /* distinct heads */
    int32_t n_layer_classes;
    const s2_layer_class *layers; /* without layers that have a state and read no key */
    int64_t state_bytes;          /* of all layers, a sequence */
    bool has_dynamic;
    int64_t *work_left; /* for counting (base/work.h), shared by all counts; NULL, as built: no limit */
} s2_classes;

/* S2_ENOMEM; S2_ELIMIT beyond S2_LIMIT_CLASSES distinct heads; *out untouched on failure. */
s2_status s2_classes_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase,
                           s2_classes *out) S2_MUST_CHECK;

#endif /* S2_SIM_CLASSES_H */
