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
    int64_t cap_reads, cap_keys;
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
        /* explicit heads at different positions are hardly ever equal, so separate them early */
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
    S2_TRY(S2_ARENA_ROOM(to->arena, to->reads, classes->n_reads, to->cap_reads));
    S2_TRY(S2_ARENA_ROOM(to->arena, to->keys, classes->n_reads, to->cap_keys));
    classes->has_dynamic |= reads.budget_tok > 0;
    to->keys[classes->n_reads] = key;
    to->reads[classes->n_reads] = reads;
    *out = classes->n_reads++;
    to->slots[slot] = classes->n_reads;
    return S2_OK;
}

static s2_status add_layer(s2_classifier *to, int32_t layer, s2_layer_class *out)
{
    const s2_pattern *const pattern = to->classes.pattern;
    int32_t *const head_class = S2_NEW(to->arena, int32_t, pattern->n_heads);
    if (head_class == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < pattern->n_heads; head++)
        S2_TRY(classify_head(to, layer, head, &head_class[head]));
    *out = (s2_layer_class){.first_layer = layer,
                            .n_layers = 1,
                            .n_kv_heads = s2_pattern_kv_heads(pattern, layer),
                            .head_dim = s2_pattern_head_dim(pattern, layer),
                            .head_class = head_class};
    return S2_OK;
}

/* What a layer keeps, apart from what it reads. */
typedef struct s2_layer_note {
    bool is_state;
    int32_t n_readers; /* layers that read the keys it keeps; 0: it keeps none */
} s2_layer_note;

static void note_layers(const s2_pattern *pattern, s2_layer_note *notes)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        notes[layer].is_state = s2_pattern_is_state_layer(pattern, layer);
        if (!notes[layer].is_state)
            notes[s2_pattern_kv_layer(pattern, layer)].n_readers++;
    }
}

static bool same_class(const s2_pattern *pattern, const s2_layer_note *notes, int32_t a, int32_t b)
{
    return notes[a].is_state == notes[b].is_state && notes[a].n_readers < 2 &&
           notes[a].n_readers == notes[b].n_readers &&
           s2_pattern_head_dim(pattern, a) == s2_pattern_head_dim(pattern, b);
}

/* Layers that read alike are one class only if they also keep alike. */
static void split_by_shape(const s2_pattern *pattern, const s2_layer_note *notes, int32_t *first_alike)
{
    for (int32_t layer = pattern->n_layers - 1; layer > 0 && pattern->layer_shapes != NULL; layer--) {
        int32_t like = first_alike[layer];
        while (like < layer &&
               (first_alike[like] != first_alike[layer] || !same_class(pattern, notes, like, layer)))
            like++;
        first_alike[layer] = like;
    }
}

/* The head classes of all layers that read what this layer keeps. */
static s2_status add_readers(s2_classifier *to, const s2_layer_note *notes, const int32_t *class_of,
                             const s2_layer_class *layers, s2_layer_class *keeper)
{
    const s2_pattern *const pattern = to->classes.pattern;
    const int32_t own = keeper->first_layer;
    const int32_t **const readers = S2_NEW(to->arena, const int32_t *, notes[own].n_readers);
    if (readers == NULL && notes[own].n_readers > 0)
        return S2_ENOMEM;
    for (int32_t layer = own; layer < pattern->n_layers && keeper->n_readers < notes[own].n_readers; layer++)
        if (s2_pattern_kv_layer(pattern, layer) == own && !notes[layer].is_state)
            readers[keeper->n_readers++] = layers[class_of[layer]].head_class;
    keeper->readers = readers;
    return S2_OK;
}

static s2_status build(s2_classifier *to, s2_layer_class *layers)
{
    s2_classes *const classes = &to->classes;
    const s2_pattern *const pattern = classes->pattern;
    int32_t *const first_alike = S2_NEW(to->arena, int32_t, pattern->n_layers);
    int32_t *const class_of = S2_NEW(to->arena, int32_t, pattern->n_layers);
    s2_layer_note *const notes = S2_NEW(to->arena, s2_layer_note, pattern->n_layers);
    if (first_alike == NULL || class_of == NULL || notes == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_layers_alike(to->arena, pattern, 1u << classes->phase, first_alike));
    note_layers(pattern, notes);
    split_by_shape(pattern, notes, first_alike);
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        classes->state_bytes += s2_pattern_state_bytes(pattern, layer);
        if (notes[layer].is_state)
            continue;
        if (first_alike[layer] != layer) {
            class_of[layer] = class_of[first_alike[layer]];
            layers[class_of[layer]].n_layers++;
            continue;
        }
        S2_TRY(add_layer(to, layer, &layers[classes->n_layer_classes]));
        class_of[layer] = classes->n_layer_classes++;
    }
    for (int32_t c = 0; c < classes->n_layer_classes; c++)
        S2_TRY(add_readers(to, notes, class_of, layers, &layers[c]));
    classes->reads = to->reads;
    return S2_OK;
}

s2_status s2_classes_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_classes *out)
{
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
