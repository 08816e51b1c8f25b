/*
 * export/model.h - a model as its Hugging Face config describes it: the shape, and what each layer caches
 * and reads.
 *
 * What a config leaves to the code of its model_type is looked up in export/model_types.h. A type
 * that is not in the table is refused unless the user names its rule: a guess would be read as a fact.
 *
 * `prefix` is "" or the object that holds the text model's fields ("/text_config").
 * Ownership: results live in the arena of the source. Threads: no state.
 */
#ifndef S2_EXPORT_MODEL_H
#define S2_EXPORT_MODEL_H

#include "base/net.h"
#include "export/format.h"

/* Which keys of a config decide what a layer reads. */
typedef enum s2_model_rule {
    S2_RULE_FULL,           /* none: every layer is full */
    S2_RULE_WINDOW,         /* sliding_window, in every layer */
    S2_RULE_TYPES,          /* layer_types, else a period of full layers */
    S2_RULE_LISTED,         /* layer_types, and nothing is known without it */
    S2_RULE_HALVES,         /* as TYPES with a window of local_attention / 2 */
    S2_RULE_CHUNKS,         /* as TYPES with attention_chunk_size, else no_rope_layers */
    S2_RULE_UPPER,          /* layer_types, else sliding_window from layer max_window_layers on */
    S2_RULE_SWITCHED,       /* sliding_window in every layer, if use_sliding_window */
    S2_RULE_SWITCHED_UPPER, /* as UPPER, if use_sliding_window */
    S2_RULE_SWITCHED_EVEN,  /* layer_types, else even layers below max_window_layers, if use_sliding_window */
    S2_RULE_SWITCHED_ROTARY, /* layer_types, else layers without rotary positions, if use_sliding_window */
    S2_RULE_MIMO,            /* layer_types, else hybrid_layer_pattern, else layer 0 and every sixth full */
    S2_RULE_HYBRID,          /* lists of layers with and without keys, else a period; see the code */
    S2_RULE_PARALLEL, /* layer_types, else as it derives; every layer has a state, most or all keys too */
    S2_RULE_STATES,   /* every layer keeps a state, and none has keys */
    S2_RULE_CROSSED,  /* every layer is full; those of cross_attention_layers read only an image */
    S2_RULE_GPT_NEO,  /* attention_types with window_size */
    S2_RULE_DECODER,  /* every layer of the decoder is full */
    S2_RULE_ENCODER,  /* every layer is full, and causal if is_decoder, or the key of the row */
    S2_N_RULES
} s2_model_rule;

enum {
    S2_UNGATED = 1,
    S2_TIED = 2,
    S2_SINKS = 4,
    S2_CAPPED = 8,
    S2_UNPRICED = 16,
    S2_UNGROUPED = 32,
    S2_APART = 64
};

typedef struct s2_model_type {
    const char *name;
    s2_model_rule rule;
    const char *period_key;
    int32_t period, phase;
    int32_t window_tok;
    int32_t head_dim;
    int32_t flags;
} s2_model_type;

/* The row of a model_type; NULL: not in the table, or name is NULL. */
const s2_model_type *s2_model_type_find(const char *name);
/* The config's own model_type, or NULL. */
const char *s2_model_type_name(const s2_doc *doc, const char *prefix);
/* A params.json, as Mistral and Meta write beside their weights: other words for the same numbers, not read here. */
bool s2_model_is_params(const s2_doc *doc);
/* "/text_config" when the text model's fields are there, else "". */
const char *s2_model_prefix(const s2_doc *doc);

/* num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, under any of their names. */
typedef struct s2_model_shape {
    int64_t n_layers;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim; /* 0: neither stated nor to be derived */
} s2_model_shape;
s2_status s2_model_shape_read(const s2_source *source, const char *prefix, s2_model_shape *out) S2_MUST_CHECK;
/* Refuses a model whose every layer keeps a state and reads no keys, by what it is. */
s2_status s2_model_refuse_states(const s2_source *source, const char *prefix) S2_MUST_CHECK;
/* The config leaves the heads out, and its model_type implies them. */
bool s2_model_shape_is_implied(const s2_source *source, const char *prefix);
/*
 * Multi-head latent attention caches one latent and one rotary key per token. One KV head whose K and V are
 * half of that each gives a pattern's cache the right number of bytes. Other models keep their shape.
 */
s2_status s2_model_latent_read(const s2_source *source, const char *prefix,
                               s2_model_shape *shape) S2_MUST_CHECK;
/* The widths that such a model computes with, and those of its indexer, where the config has them. */
s2_status s2_model_computed_read(const s2_source *source, const char *prefix, s2_pattern *out) S2_MUST_CHECK;
/*
 * Layers that have an indexer, of how many: indexer_types says which take the choice of one before them. 0 and 0: it is
 * not said.
 */
s2_status s2_model_indexers_read(const s2_doc *doc, const char *prefix, int32_t *n_indexers,
                                 int32_t *n_indexed, s2_diag *diag) S2_MUST_CHECK;
/* S2_EPARSE where the object states other heads, or other KV heads (0: any number is right). */
s2_status s2_model_agrees(const s2_source *source, const char *prefix, int64_t n_heads,
                          int64_t n_kv_heads) S2_MUST_CHECK;
/* Print members of an open JSON object, one per line, each ended by a comma. */
void s2_model_shape_print(s2_buf *buf, const s2_pattern *pattern, const char *indent);

typedef enum s2_layer_kind {
    S2_LAYER_FULL,
    S2_LAYER_SLIDING,
    S2_LAYER_CHUNKED,
    S2_LAYER_RECURRENT, /* reads no keys, keeps a state of fixed size */
    S2_LAYER_IDLE,      /* neither: a feed-forward layer alone, or one that reads another input */
    S2_LAYER_EXPERTS,   /* neither: a layer of experts alone */
    S2_N_LAYER_KINDS
} s2_layer_kind;

/* The word of layer_types for a kind. */
const char *s2_layer_kind_word(s2_layer_kind kind);

typedef struct s2_model_layers {
    uint16_t *kind;                        /* [n_layers], of s2_layer_kind */
    int64_t window_tok;                    /* of sliding layers, the query included; 0: there are none */
    int64_t chunk_tok;                     /* of chunked layers; 0: there are none */
    int64_t state_bytes[S2_N_LAYER_KINDS]; /* kept by a layer of this kind; 0: none */
    int32_t *kv_heads;                     /* [n_layers], 0: as in the shape; NULL: 0 everywhere */
    int32_t *head_dim;                     /* the same */
    int32_t *kv_layer; /* [n_layers], the layer whose keys it reads, -1: its own; NULL: -1 everywhere */
    bool causal;       /* else windows reach window_tok - 1 tokens to both sides */
} s2_model_layers;

/*
 * What each layer reads, with a note for whatever the config leaves unsaid. `--set rule=full|window|types`
 * replaces a model_type that is not in the table. S2_EPARSE, S2_EUNSUPPORTED (the type is not known, or says
 * more than a pattern can hold) with a position; S2_EINVAL; S2_ENOMEM.
 */
s2_status s2_model_layers_read(const s2_source *source, const char *prefix, int64_t n_layers,
                               s2_model_layers *out) S2_MUST_CHECK;

/*
 * Bytes of state that a layer of such a model keeps per sequence; is_sliding: for a layer with a window.
 * S2_EPARSE names a key that it needs.
 */
s2_status s2_model_state_read(const s2_source *source, const char *prefix, const char *type, bool is_sliding,
                              int64_t *bytes) S2_MUST_CHECK;

/* The matrices that compute such a state. S2_EPARSE names a key, or the model_type where they are not known. */
s2_status s2_model_mixer_read(const s2_source *source, const char *prefix, const char *type,
                              s2_mixer *out) S2_MUST_CHECK;
/* Weights that attention of the type has beside Q, K, V and O. */
s2_status s2_model_beside_read(const s2_source *source, const char *prefix, const char *type,
                               int64_t *out) S2_MUST_CHECK;

#endif /* S2_EXPORT_MODEL_H */
