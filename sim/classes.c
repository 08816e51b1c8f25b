#include "sim/classes.h"

#include <string.h>

#include "base/alloc.h"
#include "pattern/layers.h"

enum { N_SLOTS = 4 * S2_LIMIT_CLASSES };

typedef struct s2_classifier {
    s2_arena *arena;
    s2_classes classes;
    s2_reads *reads;
    uint64_t *keys; /* one per class: unequal keys, unequal heads */
    int32_t cap;
    int32_t slots[N_SLOTS]; /* open addressing by key: class + 1, 0 where free */
} s2_classifier;

static uint64_t mixed(uint64_t key, int64_t value)
{
    key = (key ^ (uint64_t)value) * UINT64_C(0x9e3779b97f4a7c15);
    return key ^ key >> 29;
}

static uint64_t reads_key(const s2_reads *reads)
{
    uint64_t key = mixed((uint64_t)reads->budget_tok, reads->view.n_atoms);
    for (int32_t a = 0; a < reads->view.n_atoms; a++) {
        const s2_atom *const atom = &reads->view.atoms[a];
        key = mixed(mixed(mixed(key, (int64_t)atom->kind), atom->shift), atom->period);
        key = mixed(mixed(key, atom->distance_blk.end), atom->key_tok.end);
        /* explicit heads of different places are hardly ever equal, so keep them apart early */
        if (atom->kind == S2_ATOM_RANDOM)
            key = mixed(mixed(key, reads->view.layer), reads->view.head);
    }
    return key;
}

static s2_status classify_head(s2_classifier *to, int32_t layer, int32_t head, int32_t *out)
{
    s2_classes *const classes = &to->classes;
    s2_reads reads;
    const s2_arena_mark_t mark = s2_arena_mark(to->arena);
    S2_TRY(s2_reads_build(to->arena, classes->pattern, classes->phase, layer, head, &reads));
    const uint64_t key = reads_key(&reads);
    size_t slot = key % N_SLOTS;
    for (; to->slots[slot] != 0; slot = (slot + 1) % N_SLOTS) {
        const int32_t known = to->slots[slot] - 1;
        if (to->keys[known] == key && s2_reads_equal(&to->reads[known], &reads)) {
            s2_arena_rewind(to->arena, mark);
            *out = known;
            return S2_OK;
        }
    }
    if (classes->n_reads == S2_LIMIT_CLASSES)
        return S2_ELIMIT;
    if (classes->n_reads == to->cap) {
        const size_t have = (size_t)to->cap, want = have * 2 + 16;
        s2_reads *const grown = s2_arena_grow(to->arena, to->reads, have, want, sizeof *grown);
        uint64_t *const keys = s2_arena_grow(to->arena, to->keys, have, want, sizeof *keys);
        if (grown == NULL || keys == NULL)
            return S2_ENOMEM;
        to->reads = grown;
        to->keys = keys;
        to->cap = (int32_t)want;
    }
    classes->has_dynamic |= reads.budget_tok > 0;
    to->keys[classes->n_reads] = key;
    to->reads[classes->n_reads] = reads;
    *out = classes->n_reads++;
    to->slots[slot] = classes->n_reads;
    return S2_OK;
}

static s2_status add_layer(s2_classifier *to, int32_t layer, s2_layer_class *out)
{
    const int32_t n_heads = to->classes.pattern->n_heads;
    int32_t *const head_class = S2_NEW(to->arena, int32_t, n_heads);
    if (head_class == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++)
        S2_TRY(classify_head(to, layer, head, &head_class[head]));
    *out = (s2_layer_class){layer, 1, head_class};
    return S2_OK;
}

static s2_status build(s2_classifier *to, s2_layer_class *layers)
{
    s2_classes *const classes = &to->classes;
    const s2_pattern *const pattern = classes->pattern;
    int32_t *const first_alike = S2_NEW(to->arena, int32_t, pattern->n_layers);
    int32_t *const class_of = S2_NEW(to->arena, int32_t, pattern->n_layers);
    if (first_alike == NULL || class_of == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_layers_alike(to->arena, pattern, 1u << classes->phase, first_alike));
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        if (first_alike[layer] != layer) {
            class_of[layer] = class_of[first_alike[layer]];
            layers[class_of[layer]].n_layers++;
            continue;
        }
        S2_TRY(add_layer(to, layer, &layers[classes->n_layer_classes]));
        class_of[layer] = classes->n_layer_classes++;
    }
    classes->reads = to->reads;
    return S2_OK;
}

s2_status s2_classes_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_classes *out)
{
    S2_TRY(s2_pattern_require_alike(pattern, "the simulator", NULL));
    s2_layer_class *const layers = S2_NEW(arena, s2_layer_class, pattern->n_layers);
    s2_classifier *const to = s2_calloc(1, sizeof *to);
    if (layers == NULL || to == NULL) {
        s2_free(to);
        return S2_ENOMEM;
    }
    to->arena = arena;
    to->classes = (s2_classes){.pattern = pattern, .phase = phase, .layers = layers};
    const s2_status status = build(to, layers);
    if (status == S2_OK)
        *out = to->classes;
    s2_free(to);
    return status;
}
