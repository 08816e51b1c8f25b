/*
 * pattern/view.h - one head of a pattern with its constants folded, in tokens.
 *
 * A view is the union of atoms. An atom is a conjunction of thresholds and at most one residue
 * condition, so that seen from one key (a column) it is a comb of queries and seen from one query
 * (a row) a comb of keys. The prover, block lists and the simulator read views; the oracle does
 * not: pattern/dense.h is written straight from the definition.
 *
 * Random lists and mask files are explicit: an atom of those kinds has no comb form, and its reads
 * are enumerated row by row with s2_view_row_whole().
 *
 * Ownership: atoms live in the arena given to s2_view_build(). Threads: immutable once built.
 */
#ifndef S2_PATTERN_VIEW_H
#define S2_PATTERN_VIEW_H

#include "pattern/comb.h"
#include "pattern/spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_atom_kind {
    S2_ATOM_PLAIN,    /* thresholds only */
    S2_ATOM_KEY,      /* (k / gran + shift) mod period < width */
    S2_ATOM_DISTANCE, /* (q / gran - k / gran + shift) mod period < width */
    S2_ATOM_QUERY,    /* (q / gran + shift) mod period < width */
    S2_ATOM_CHUNK,    /* q / gran == k / gran */
    S2_ATOM_RANDOM,   /* explicit, drawn per row */
    S2_ATOM_MASK      /* explicit, from a file */
} s2_atom_kind;

typedef struct s2_atom {
    s2_atom_kind kind;
    int32_t term; /* index in the body: which term this atom comes from */
    int64_t gran;
    int64_t period;
    int64_t width;
    int64_t shift;
    s2_range distance_blk; /* of q/B - k/B; begin may be negative (not causal) */
    s2_range distance_tok; /* of q - k */
    s2_range key_tok;
    s2_range query_tok;
} s2_atom;

/* How dynamic terms enter a view: what they certainly read, or all they might read. */
typedef enum s2_bound { S2_AT_LEAST, S2_AT_MOST } s2_bound;

typedef struct s2_view {
    const s2_pattern *pattern;
    const s2_body *body;
    s2_phase phase;
    int32_t layer;
    int32_t head;
    int32_t n_atoms;
    const s2_atom *atoms;
    bool has_explicit; /* random or mask: no comb form */
    bool has_dynamic;  /* pages, heavy, topk: the two bounds differ */
} s2_view;

/*
 * Fold one head. The reads of a static head are exact under either bound. topk and heavy N certainly
 * read everything while q < N (tokens), pages N page P while q < N * P.
 * S2_ENOMEM; on failure *out is untouched.
 */
s2_status s2_view_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                        int32_t head, s2_bound bound, s2_view *out) S2_MUST_CHECK;

/* A window slides with every query: only the distance has thresholds, and the diagonal is in it. */
bool s2_atom_is_window(const s2_atom *atom);

/* The same condition, whatever term it comes from. Not enough for explicit atoms: see s2_view_equal. */
bool s2_atom_equal(const s2_atom *a, const s2_atom *b);

/*
 * True when both read the same pairs by construction: the same atoms in the same order, random lists drawn
 * alike, and masks from the same plane of one file. Views that are not equal may still read the same pairs.
 */
bool s2_view_equal(const s2_view *a, const s2_view *b);

/* The queries that read key k_tok through this atom (causal: from k_tok on). Not for explicit atoms. */
bool s2_atom_column(const s2_view *view, const s2_atom *atom, int64_t k_tok, s2_comb *out);

/* The keys that query q_tok reads through this atom in a context of n_tok tokens. Not for explicit atoms. */
bool s2_atom_row(const s2_view *view, const s2_atom *atom, int64_t q_tok, int64_t n_tok, s2_comb *out);

/* What the columns of a set of views depend on, in tokens (proof in docs/proof.md). */
typedef struct s2_view_shape {
    int64_t threshold;     /* columns k >= threshold repeat with key_period, as shifted copies */
    int64_t key_period;    /* S2_OPEN when it does not fit 2^40 */
    int64_t reach;         /* beyond distance `reach` (and q >= threshold) a column repeats ... */
    int64_t query_period;  /* ... with query_period; S2_OPEN as above */
    bool query_thresholds; /* there are query thresholds: columns below `threshold` do not repeat */
    bool block_aligned;    /* all quantities are whole blocks: one column per block decides */
} s2_view_shape;
/* Least common multiple, S2_OPEN when an argument is or the result exceeds 2^40. */
int64_t s2_period_lcm(int64_t a, int64_t b);
void s2_view_shape_init(s2_view_shape *shape);
void s2_view_shape_add(s2_view_shape *shape, const s2_view *view);

/* A run of consecutive keys [begin, end) that one query reads. */
typedef struct s2_run {
    int64_t begin;
    int64_t end;
} s2_run;

/*
 * The keys of query q_tok in a context of n_tok tokens as maximal ascending runs, explicit atoms included:
 * *n of them in *runs, an array of *cap from s2_malloc or NULL, which grows as needed and which the caller
 * frees. S2_ENOMEM; S2_ELIMIT when it takes more than *work_left (base/work.h; NULL: no limit), some steps for each
 * atom and each stretch of one. On failure *n is untouched.
 */
s2_status s2_view_row_whole(const s2_view *view, int64_t q_tok, int64_t n_tok, int64_t *work_left,
                            s2_run **runs, int64_t *cap, int64_t *n) S2_MUST_CHECK;

/*
 * Pairs (q, k) that the head reads in a context of n_tok tokens; exact. S2_ENOMEM; S2_ELIMIT when it takes
 * more than *work_left (base/work.h), a step per stretch requested from an atom; NULL: no limit.
 */
s2_status s2_view_count_pairs(const s2_view *view, int64_t n_tok, int64_t *work_left,
                              int64_t *out) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PATTERN_VIEW_H */
