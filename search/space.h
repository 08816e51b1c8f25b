/*
 * search/space.h - a design space: a pattern text with choices in braces.
 *
 *     block {16,32,64}; layers all: local {4..32:4} | stride 8 phase {head,kv}+{0,1}; {,layers 1::2: dense}
 *
 * A hole {...} holds alternatives separated by commas. A..B and A..B:STEP stand for every STEP-th number
 * from A up to B inclusive; anything else, even nothing, is text that is inserted verbatim. Holes do
 * not nest, and braces in comments and quoted texts are plain text. The digits of n in mixed radix are the
 * choices that candidate n makes in the holes; the last hole changes fastest.
 *
 * Ownership: the space lives in the arena given. Threads: immutable once parsed; share freely.
 */
#ifndef S2_SEARCH_SPACE_H
#define S2_SEARCH_SPACE_H

#include <stddef.h>

#include "base/arena.h"
#include "base/text.h"

enum {
    S2_SPACE_BYTES = 1 << 16,        /* length of the text */
    S2_SPACE_HOLES = 64,             /* holes in the text */
    S2_SPACE_ALTERNATIVES = 1 << 16, /* per hole, ranges counted in full */
    S2_SPACE_LOG2_CANDIDATES = 40    /* candidates in all */
};

/* One alternative of a hole: text, or the n numbers begin, begin + step, ... */
typedef struct s2_choice {
    const char *text; /* NULL: numbers */
    size_t n_bytes;
    int64_t begin;
    int64_t step;
    int64_t n; /* 1 for text */
} s2_choice;

/* Plain text, then a hole; the last piece has no hole and its n_values is 0. */
typedef struct s2_space_piece {
    const char *text;
    size_t n_bytes;
    int32_t n_choices;
    const s2_choice *choices;
    int64_t n_values;
} s2_space_piece;

typedef struct s2_space {
    int32_t n_pieces;
    const s2_space_piece *pieces;
    int64_t n_candidates; /* 1 .. 2^S2_SPACE_LOG2_CANDIDATES */
} s2_space;

/* S2_EPARSE with line and column (from 1, in characters) in *diag; S2_ENOMEM. */
s2_status s2_space_parse(s2_arena *arena, const char *text, size_t n_bytes, s2_space *out,
                         s2_diag *diag) S2_MUST_CHECK;

/* Append the text of candidate `index`; check buf->status afterwards. */
void s2_space_expand(const s2_space *space, int64_t index, s2_buf *buf);

/* -1: the candidate has the least number of a hole, 1: the greatest, 0: another, or the hole has text. */
int32_t s2_space_edge(const s2_space *space, int64_t index, int32_t piece, int64_t *value);

/* The layers of a model that read keys, in order, where others read none. */
typedef struct s2_space_attention {
    int32_t n;
    const int32_t *layers;
    int32_t n_layers; /* of the model */
} s2_space_attention;

/*
 * A space for a given shape: windows of 1024 tokens and more, sinks, strides rotated by head or by KV head,
 * dense KV heads and dense layers. dense_every: the last of every so many layers is dense; S2_PROPOSE_NONE:
 * no layer is; S2_PROPOSE_ANY: the space leaves the choice open. attention: which layers are counted for that;
 * NULL: all. S2_EINVAL for an invalid shape.
 */
enum { S2_PROPOSE_ANY = 0, S2_PROPOSE_NONE = -1 };
s2_status s2_space_propose(int32_t n_heads, int32_t n_kv_heads, int32_t dense_every,
                           const s2_space_attention *attention, s2_buf *buf) S2_MUST_CHECK;

#endif /* S2_SEARCH_SPACE_H */
