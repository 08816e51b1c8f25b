/*
 * pattern/words.h - the words of the language, each written once.
 *
 * A row of S2_TERM_TABLE is a term: parser, printer, canonical form, checks, help and the generators of the
 * property tests read it from here. Only what a row means is defined elsewhere: pattern/dense.c,
 * pattern/view.c and the sentences of words/explain.c and export/predicate.c, which do not compile while a
 * row has no case. docs/adding-a-term.md explains how to add a row.
 *
 * Threads: no state.
 */
#ifndef S2_PATTERN_WORDS_H
#define S2_PATTERN_WORDS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What follows the word of a term. */
typedef enum s2_term_args {
    S2_ARGS_NONE,   /* nothing */
    S2_ARGS_EXTENT, /* N, in blocks or tokens */
    S2_ARGS_STRIDE, /* V [width W] [phase P] */
    S2_ARGS_LIST,   /* LIST, in blocks or tokens */
    S2_ARGS_DRAW,   /* N seed S, in blocks */
    S2_ARGS_FILE,   /* "FILE.npy" [digest D] */
    S2_ARGS_PAGES,  /* N page P */
    S2_ARGS_COUNT   /* N, in tokens with or without t */
} s2_term_args;

/* When a term in tokens reads the same keys with every quantity divided by the block size. */
typedef enum s2_term_scale {
    S2_SCALE_ABSENT,   /* no quantity has a unit */
    S2_SCALE_PLACE,    /* quantities are positions of keys or queries: when all are whole blocks */
    S2_SCALE_DISTANCE, /* quantities are distances: never, for blocks count the edges between them */
} s2_term_scale;

typedef enum s2_term_nature {
    S2_NATURE_STATIC,   /* thresholds and residues: atoms that have columns, decided for every length */
    S2_NATURE_EXPLICIT, /* listed row by row: decided for one length by bitsets */
    S2_NATURE_DYNAMIC   /* chosen at run time: bounded from both sides */
} s2_term_nature;

/*
 * enumerator, word, arguments, scale, nature, may stand in a certificate (cli/main_s2cert.c defines it),
 * its number in messages, how it is written, what it reads
 */
#define S2_TERM_TABLE(X)                                                                                     \
    X(DENSE, "dense", NONE, ABSENT, STATIC, true, "", "dense", "every key")                                  \
    X(NONE, "none", NONE, ABSENT, STATIC, true, "", "none", "no key")                                        \
    X(LOCAL, "local", EXTENT, DISTANCE, STATIC, true, "the local window", "local N",                         \
      "the N newest blocks, the query's own counted as one; local 2000t: 2000 tokens")                       \
    X(SINK, "sink", EXTENT, PLACE, STATIC, true, "the sink", "sink N",                                       \
      "the first N blocks; sink 4t: 4 tokens")                                                               \
    X(STRIDE, "stride", STRIDE, PLACE, STATIC, true, "the stride", "stride V [width W] [phase P]",           \
      "W of every V blocks, at fixed places: block j with (j + P) mod V < W")                                \
    X(DILATED, "dilated", STRIDE, DISTANCE, STATIC, true, "the stride", "dilated V [width W] [phase P]",     \
      "W of every V blocks, counted back from the query's block i: (i - j + P) mod V < W")                   \
    X(COLUMNS, "columns", LIST, PLACE, STATIC, true, "", "columns LIST",                                     \
      "these key blocks, from every query")                                                                  \
    X(ROWS, "rows", LIST, PLACE, STATIC, true, "", "rows LIST",                                              \
      "every key, from the queries of these blocks")                                                         \
    X(CHUNK, "chunk", EXTENT, PLACE, STATIC, true, "the chunk", "chunk N",                                   \
      "the aligned chunk of N blocks that the query is in")                                                  \
    X(RANDOM, "random", DRAW, ABSENT, EXPLICIT, false, "the number of random blocks", "random N seed S",     \
      "N blocks, drawn for each layer, head and query block")                                                \
    X(MASK, "mask", FILE, ABSENT, EXPLICIT, false, "", "mask \"FILE.npy\" [digest D]",                       \
      "what a bool array [heads, rows, columns] of blocks says")                                             \
    X(PAGES, "pages", PAGES, ABSENT, DYNAMIC, false, "the number of pages", "pages N page P",                \
      "the N pages of P tokens that are chosen at run time (Quest)")                                         \
    X(HEAVY, "heavy", COUNT, ABSENT, DYNAMIC, false, "the number of heavy keys", "heavy N",                  \
      "the N keys with most attention so far, chosen at run time (H2O)")                                     \
    X(TOPK, "topk", COUNT, ABSENT, DYNAMIC, false, "the number of best tokens", "topk N",                    \
      "the N tokens that an indexer chooses at run time (DSA)")

typedef enum s2_term_kind {
#define S2_TERM_ENUM(kind, ...) S2_TERM_##kind,
    S2_TERM_TABLE(S2_TERM_ENUM)
#undef S2_TERM_ENUM
} s2_term_kind;

enum {
    S2_N_TERM_KINDS = 0
#define S2_TERM_COUNT(...) +1
    S2_TERM_TABLE(S2_TERM_COUNT)
#undef S2_TERM_COUNT
};

typedef struct s2_term_row {
    const char *word;
    s2_term_args args;
    s2_term_scale scale;
    s2_term_nature nature;
    bool in_certificate;
    const char *number; /* "the local window"; "" where messages need none */
    const char *form;   /* "local N" */
    const char *help;   /* one line */
} s2_term_row;

/* The row of a valid kind. */
const s2_term_row *s2_term_row_of(s2_term_kind kind);

/* The word of a term ("stride"); "?" for anything that is not a kind. */
const char *s2_term_word(s2_term_kind kind);

/*
 * The numbers of the shape: enumerator, word, field of s2_pattern, value where the text leaves it out
 * (0: heads must be stated, kv-heads default to heads), the largest.
 */
#define S2_SHAPE_TABLE(X)                                                                                    \
    X(LAYERS, "layers", n_layers, 1, S2_LIMIT_LAYERS)                                                        \
    X(HEADS, "heads", n_heads, 0, S2_LIMIT_HEADS)                                                            \
    X(KV_HEADS, "kv-heads", n_kv_heads, 0, S2_LIMIT_HEADS)                                                   \
    X(HEAD_DIM, "head-dim", head_dim, 128, S2_LIMIT_HEAD_DIM)                                                \
    X(BLOCK, "block", block_tok, 64, S2_LIMIT_BLOCK_TOK)

typedef enum s2_shape_word {
#define S2_SHAPE_ENUM(name, ...) S2_SHAPE_##name,
    S2_SHAPE_TABLE(S2_SHAPE_ENUM)
#undef S2_SHAPE_ENUM
        S2_N_SHAPE_WORDS
} s2_shape_word;

/*
 * Numbers that a layer may set for itself, `layers LIST: WORD N`: enumerator, word, field of s2_layer_shape,
 * the smallest and the largest.
 */
#define S2_LAYER_TABLE(X)                                                                                    \
    X(KV_HEADS, "kv-heads", n_kv_heads, 1, S2_LIMIT_HEADS)                                                   \
    X(HEAD_DIM, "head-dim", head_dim, 1, S2_LIMIT_HEAD_DIM)                                                  \
    X(KV_LAYER, "kv-layer", kv_layer, 0, S2_LIMIT_LAYERS - 1)                                                \
    X(STATE, "state", state_bytes, 1, S2_LIMIT_STATE_BYTES)

typedef enum s2_layer_word {
#define S2_LAYER_ENUM(name, ...) S2_LAYER_##name,
    S2_LAYER_TABLE(S2_LAYER_ENUM)
#undef S2_LAYER_ENUM
        S2_N_LAYER_WORDS
} s2_layer_word;

/* The words that begin a part of a selector; `all` is the selector without any. */
#define S2_SELECTOR_TABLE(X)                                                                                 \
    X(LAYERS, "layers")                                                                                      \
    X(HEADS, "heads")                                                                                        \
    X(KV, "kv")                                                                                              \
    X(PREFILL, "prefill")                                                                                    \
    X(DECODE, "decode")

/* What a condition of `when` restricts. */
#define S2_WHEN_TABLE(X)                                                                                     \
    X(DISTANCE, "distance")                                                                                  \
    X(KEY, "key")                                                                                            \
    X(QUERY, "query")

/* The indices that an offset may multiply: word, field of s2_offset_expr. */
#define S2_OFFSET_TABLE(X)                                                                                   \
    X("head", head_coef)                                                                                     \
    X("kv", kv_coef)                                                                                         \
    X("layer", layer_coef)

#ifdef __cplusplus
}
#endif
#endif /* S2_PATTERN_WORDS_H */
