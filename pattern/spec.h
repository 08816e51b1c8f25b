/*
 * pattern/spec.h - the pattern as data: shape, rules, bodies, terms.
 *
 * A pattern says, for each layer, query head and phase, which keys each query reads. It is what
 * pattern/parse.h makes from text, what importers build, and what every other module receives.
 *
 * Units: a quantity of the language is in blocks of `block_tok` tokens, or in tokens where its
 * `tok` flag is set. Everything derived from it (pattern/view.h) is in tokens.
 * Invariants: those of s2_pattern_check(). Ranges are half-open.
 * Ownership: all pointers lead into the arena that the pattern was built in.
 * Threads: immutable once built; share freely.
 */
#ifndef S2_PATTERN_SPEC_H
#define S2_PATTERN_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/arith.h"
#include "base/status.h"
#include "pattern/words.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Caps, so that every derived quantity fits its type and every input costs bounded work. */
enum {
    S2_LIMIT_HEADS = 4096,
    S2_LIMIT_LAYERS = 1024,
    S2_LIMIT_BLOCK_TOK = 1024,
    S2_LIMIT_HEAD_DIM = 4096,
    S2_LIMIT_CONTEXT_TOK = 1 << 24,
    S2_LIMIT_STRIDE = 1 << 16,
    S2_LIMIT_TEXT_BYTES = 1 << 20,
    S2_LIMIT_RULES = 4096,
    S2_LIMIT_RANDOM = 1024, /* blocks per row of a random list */
    S2_LIMIT_NAME_BYTES = 200
};

#define S2_LIMIT_STATE_BYTES (INT64_C(1) << 32)

/* End of a range that the text left open. */
#define S2_OPEN INT64_MAX

/* Elements begin, begin + step, ... below end (S2_OPEN: no end). step >= 1. */
typedef struct s2_span {
    int64_t begin;
    int64_t end;
    int64_t step;
} s2_span;

typedef struct s2_span_list {
    int32_t n_spans;
    const s2_span *spans; /* ascending by begin, disjoint where step is 1 */
} s2_span_list;

/* P = constant + head_coef * head + kv_coef * kv + layer_coef * layer, all >= 0. */
typedef struct s2_offset_expr {
    int64_t constant;
    int64_t head_coef;
    int64_t kv_coef;
    int64_t layer_coef;
} s2_offset_expr;

/* `when` restrictions: one range per quantity and unit; whole = {0, S2_OPEN} where absent. */
typedef enum s2_when_quantity {
#define S2_WHEN_ENUM(name, word) S2_WHEN_##name,
    S2_WHEN_TABLE(S2_WHEN_ENUM)
#undef S2_WHEN_ENUM
        S2_N_WHEN
} s2_when_quantity;
const char *s2_when_word(s2_when_quantity quantity); /* "distance", "key", "query" */
typedef struct s2_range {
    int64_t begin;
    int64_t end;
} s2_range;

/* What both hold; it may be empty. */
static inline s2_range s2_range_meet(s2_range a, s2_range b)
{
    return (s2_range){s2_max_i64(a.begin, b.begin), s2_min_i64(a.end, b.end)};
}
static inline bool s2_range_is_whole(s2_range range)
{
    return range.begin <= 0 && range.end == S2_OPEN;
}

enum { S2_UNIT_BLK, S2_UNIT_TOK, S2_N_UNITS };

enum { S2_HASH_HEX = 65 }; /* a SHA-256 in hexadecimal digits, terminated */

/*
 * A mask, read from a file or made in the arena: allowed[head][q_blk][k_blk], one byte each, 0 or 1; or,
 * packed, one bit each as np.packbits writes them: rows of whole bytes, the first key in bit 7.
 * n_heads is 1 when one mask serves all heads. Read it with s2_mask_allows() where speed allows.
 */
typedef struct s2_mask {
    const char *path;         /* as written in the pattern */
    char digest[S2_HASH_HEX]; /* of shape and cells (s2_mask_seal) */
    int32_t n_heads;
    int32_t n_q_blk;
    int32_t n_k_blk;
    const uint8_t *allowed;
    int64_t n_later; /* of a file: cells of a key after its query, which a causal pattern never reads */
    bool packed;
} s2_mask;

static inline int64_t s2_mask_row_bytes(const s2_mask *mask)
{
    return mask->packed ? ((int64_t)mask->n_k_blk + 7) / 8 : mask->n_k_blk;
}

/* The row of one query block; q_blk < n_q_blk. */
static inline const uint8_t *s2_mask_row(const s2_mask *mask, int32_t head, int64_t q_blk)
{
    const int64_t plane = mask->n_heads > 1 ? head : 0;
    return mask->allowed + (plane * mask->n_q_blk + q_blk) * s2_mask_row_bytes(mask);
}

/* Both blocks must be inside the file. */
static inline bool s2_mask_allows(const s2_mask *mask, int32_t head, int64_t q_blk, int64_t k_blk)
{
    const uint8_t *const row = s2_mask_row(mask, head, q_blk);
    return mask->packed ? (row[k_blk / 8] >> (7 - k_blk % 8) & 1) != 0 : row[k_blk] != 0;
}

typedef struct s2_term {
    s2_term_kind kind;
    bool tok;              /* n, width and list are in tokens, else in blocks */
    int64_t n;             /* the number after the word: N, or V of stride and dilated */
    int64_t width;         /* W of stride and dilated */
    s2_offset_expr offset; /* P of stride and dilated */
    int64_t page_tok;      /* P of pages: tokens per page */
    uint64_t seed;         /* of random */
    s2_span_list list;     /* of columns and rows */
    const s2_mask *mask;   /* of mask */
    s2_range when[S2_N_WHEN][S2_N_UNITS];
} s2_term;

/* A term with no `when` and width 1; the one way to start filling a term. */
s2_term s2_term_init(s2_term_kind kind, int64_t n);
/* Whether the conditions of a term leave it no pair, so that it could never read. */
bool s2_conditions_exclude(const s2_term *term, int64_t block_tok);

/* The residue P of a stride for one head, the indices filled in: 0 <= P < V. */
static inline int64_t s2_term_offset(const s2_term *term, int32_t layer, int32_t head, int32_t kv_head)
{
    const s2_offset_expr *const offset = &term->offset;
    return (offset->constant + offset->head_coef * head + offset->kv_coef * kv_head +
            offset->layer_coef * layer) %
           term->n;
}

/* pages, heavy and topk choose keys at run time; everything else is static. */
bool s2_term_is_dynamic(const s2_term *term);

typedef struct s2_body {
    int32_t n_terms;
    const s2_term *terms;
} s2_body;

/* Whether no `when` leaves out a pair. */
bool s2_term_is_whole(const s2_term *term);
/* Whether it reads nothing. */
bool s2_body_is_none(const s2_body *body);
/* Whether it is `dense`, the canonical form of all that reads everything; `dense when ...` is not. */
bool s2_body_is_dense(const s2_body *body);

/* What a user does. Prefill and decode have their own rules; training follows those of prefill. */
typedef enum s2_phase { S2_PREFILL, S2_DECODE, S2_TRAIN, S2_N_PHASES } s2_phase;
enum { S2_N_RULE_PHASES = S2_TRAIN };
const char *s2_phase_word(s2_phase phase); /* "prefill", "decode", "train" */

static inline s2_phase s2_phase_rules(s2_phase phase)
{
    return phase == S2_TRAIN ? S2_PREFILL : phase;
}

/* What a layer keeps per token and per sequence, where layers differ. */
typedef struct s2_layer_shape {
    int32_t n_kv_heads; /* divides the query heads */
    int32_t head_dim;
    int32_t kv_layer;    /* whose keys and values it reads: itself, or a lower layer that keeps its own */
    int64_t state_bytes; /* per sequence, of fixed size, besides the keys; 0: none */
} s2_layer_shape;

/*
 * How the stack of an imported file computes what the pattern reads. No statement says it, so no text, hash or
 * stored design keeps it; an importer that knows it adds it to the pattern.
 */
typedef struct s2_computed {
    /* Latent attention: elements of a token's latent and rotary key, of a query and key, of a value; 0: none. */
    int32_t latent_dim, rotary_dim;
    int32_t score_dim, value_dim;
    /* The indexer behind `topk`; 0: not said. */
    int32_t index_heads, index_dim;
    /* So many layers of so many have an indexer; the others take the choice of one before them. 0: all have one. */
    int32_t n_indexers, n_indexed;
    int32_t
        probe_rows; /* so many last queries choose the keys of `topk` and `heavy` for all; 0: each its own */
    int32_t pool_tok; /* so many queries choose their `pages` together; 0: each its own */
} s2_computed;

/*
 * The resolved pattern. body_of[(phase * n_layers + layer) * n_heads + head] indexes bodies: rules
 * with selectors are resolved by whoever builds a pattern (last matching rule wins).
 */
typedef struct s2_pattern {
    const char *name;  /* cleaned, may be "" */
    const char *model; /* entry of the built-in model table, or "" */
    int32_t n_layers;
    int32_t n_heads;    /* query heads H */
    int32_t n_kv_heads; /* KV heads G, divides H; for layers without a number of their own */
    int32_t head_dim;   /* D, likewise */
    int32_t block_tok;  /* B, a power of two */
    bool causal;
    int32_t n_bodies; /* distinct, each used at least once */
    const s2_body *bodies;
    const uint16_t *body_of;
    const s2_layer_shape *layer_shapes; /* one per layer; NULL: all layers are as above, without a state */
    const s2_computed *computed;        /* NULL: not known */
} s2_pattern;

/* Whether attention is known to be latent: a token's cache is one vector, from which K and V are made. */
static inline bool s2_pattern_is_latent(const s2_pattern *pattern)
{
    return pattern->computed != NULL && pattern->computed->latent_dim > 0;
}

static inline int32_t s2_pattern_body(const s2_pattern *pattern, s2_phase phase, int32_t layer, int32_t head)
{
    const int64_t rules = s2_phase_rules(phase);
    return pattern->body_of[(rules * pattern->n_layers + layer) * pattern->n_heads + head];
}

/* All terms of all bodies in order: a walk begins with the pattern alone, and ends with NULL. */
typedef struct s2_term_walk {
    const s2_pattern *pattern;
    int32_t body;
    int32_t n_taken; /* terms of that body */
} s2_term_walk;
const s2_term *s2_term_next(s2_term_walk *walk);

/* A copy of the pattern, which may be *out, with every term edited; all but its bodies is shared. S2_ENOMEM. */
typedef void (*s2_term_edit)(s2_term *term, int64_t arg);
s2_status s2_pattern_edited(s2_arena *arena, const s2_pattern *pattern, s2_term_edit edit, int64_t arg,
                            s2_pattern *out) S2_MUST_CHECK;

/* One layer's numbers. Code that reads n_kv_heads or head_dim of the pattern refuses layers that differ. */
static inline int32_t s2_pattern_kv_heads(const s2_pattern *pattern, int32_t layer)
{
    return pattern->layer_shapes != NULL ? pattern->layer_shapes[layer].n_kv_heads : pattern->n_kv_heads;
}
static inline int32_t s2_pattern_head_dim(const s2_pattern *pattern, int32_t layer)
{
    return pattern->layer_shapes != NULL ? pattern->layer_shapes[layer].head_dim : pattern->head_dim;
}
static inline int32_t s2_pattern_kv_layer(const s2_pattern *pattern, int32_t layer)
{
    return pattern->layer_shapes != NULL ? pattern->layer_shapes[layer].kv_layer : layer;
}
static inline int64_t s2_pattern_state_bytes(const s2_pattern *pattern, int32_t layer)
{
    return pattern->layer_shapes != NULL ? pattern->layer_shapes[layer].state_bytes : 0;
}

/* KV head of a query head: in one layer, and for patterns whose layers are all alike. */
static inline int32_t s2_layer_kv_head(const s2_pattern *pattern, int32_t layer, int32_t head)
{
    return head / (pattern->n_heads / s2_pattern_kv_heads(pattern, layer));
}
static inline int32_t s2_pattern_kv_head(const s2_pattern *pattern, int32_t head)
{
    return head / (pattern->n_heads / pattern->n_kv_heads);
}

/* Whether some layer has its own KV heads, head dimension or state, or shares keys. */
bool s2_pattern_layers_differ(const s2_pattern *pattern);

/*
 * S2_EUNSUPPORTED when layers differ, for code that knows one shape for all layers; `what` begins the
 * sentence: "a plan".
 */
s2_status s2_pattern_require_alike(const s2_pattern *pattern, const char *what, s2_diag *diag) S2_MUST_CHECK;

/* Whether a layer keeps a state and its heads read no keys in any phase (linear attention, Mamba). */
bool s2_pattern_is_state_layer(const s2_pattern *pattern, int32_t layer);
/* Whether any layer reads keys: no question about what heads read has an answer where none does. */
bool s2_pattern_has_attention(const s2_pattern *pattern);

/* Whether all heads of a layer read everything. */
bool s2_pattern_is_dense(const s2_pattern *pattern, s2_phase phase, int32_t layer);

/* Whether a head of the layer has one, so that what no head reads of it is not decided. */
bool s2_pattern_chooses(const s2_pattern *pattern, s2_phase phase, int32_t layer);

/* The first dynamic term of any body; NULL: what is read is known before the launch. */
const s2_term *s2_pattern_dynamic(const s2_pattern *pattern);

/* Tokens that the shortest of its mask files covers; S2_OPEN without one. */
int64_t s2_pattern_limit_tok(const s2_pattern *pattern);

/* True when some (layer, head) has different bodies in prefill and decode. */
bool s2_pattern_has_phases(const s2_pattern *pattern);

/*
 * The same pattern with the rules of one phase in both; bodies used only by the other are dropped. It points
 * into the arena and into *pattern. S2_ENOMEM.
 */
s2_status s2_pattern_of_phase(s2_arena *arena, const s2_pattern *pattern, s2_phase phase,
                              s2_pattern *out) S2_MUST_CHECK;

/*
 * Check every invariant and cap. Builders of patterns (importers, search, the workbench) call it;
 * the parser's results always pass. S2_EINVAL with the reason in *diag.
 */
s2_status s2_pattern_check(const s2_pattern *pattern, s2_diag *diag) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PATTERN_SPEC_H */
