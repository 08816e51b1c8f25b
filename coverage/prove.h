/*
 * coverage/prove.h - what a pattern guarantees, for one context length or for every one.
 *
 * s2_prove() decides properties. "Every length" is a theorem, not a large enumeration: the columns of
 * a static pattern repeat (docs/proof.md), so finitely many of them decide all lengths. Mask files
 * and random lists are decided for one length by bitsets. A second engine, s2_enumerate(), is plain
 * enumeration from the definition (pattern/dense.h) and shares nothing with the first.
 *
 * A property that the static part of a dynamic pattern (pages, heavy, topk) does not guarantee and
 * does not rule out is `unknown`, with the reason. Verdicts are results, not errors: the functions
 * return S2_OK with them.
 *
 * Ownership: findings live in the caller's arena. Threads: no state.
 */
#ifndef S2_COVERAGE_PROVE_H
#define S2_COVERAGE_PROVE_H

#include "base/arena.h"
#include "pattern/spec.h"

typedef enum s2_property {
    S2_ROWS,   /* every query of every head reads at least one key */
    S2_UNION,  /* for every query q and key k <= q some head of the layer reads k (not causal: every key) */
    S2_KV,     /* per head: a key that went unread by a query at or after it is never read again */
    S2_GROUP,  /* the query heads of a KV head read the same keys */
    S2_SHARDS, /* beyond the window that all KV heads share, each pair is read by exactly one KV head */
    S2_RANKS,  /* each of N tensor-parallel ranks of heads is union-complete on its own */
    S2_DEPTH,  /* within D layers every key reaches every later query */
    S2_N_PROPERTIES
} s2_property;

/* "rows", "union", ... without the argument. */
const char *s2_property_word(s2_property property);

typedef struct s2_requirement {
    s2_property property;
    int32_t arg;   /* N of ranks, D of depth, else 0 */
    bool required; /* false: reported, but not part of the verdict */
} s2_requirement;

typedef enum s2_verdict { S2_HOLDS, S2_VIOLATED, S2_UNKNOWN } s2_verdict;
const char *s2_verdict_word(s2_verdict verdict); /* "holds", "violated", "unknown" */

/*
 * Where a property fails: the smallest place of all layers and heads, by the context that it needs, then
 * query, then key; of equal ones that of the first layer, then (per-head properties) head. -1 where a field
 * does not apply.
 */
typedef struct s2_witness {
    s2_phase phase;
    int32_t layer;
    int32_t head;    /* rows, kv, group: query head */
    int32_t rank;    /* ranks */
    int32_t readers; /* shards: KV heads that read the pair */
    int64_t q_tok;
    int64_t k_tok;
    int64_t earlier_q_tok;  /* kv: a query in [k, q) that did not read the key */
    s2_phase earlier_phase; /* by these rules: decode may read what prefill left unread */
} s2_witness;

enum { S2_COMPLETE_UNKNOWN = -1 };

/* Why a verdict is `unknown`. */
typedef enum s2_reason {
    S2_REASON_NONE,
    S2_REASON_DYNAMIC, /* what dynamic terms choose is data */
    S2_REASON_RANDOM,  /* random lists are decided for one length only */
    S2_REASON_LIMIT,   /* the stated work limit was reached */
    S2_REASON_BEYOND,  /* holds up to reason_tok; beyond it neither proved nor refuted */
    S2_REASON_CAUSAL,  /* defined for causal patterns only */
    S2_REASON_STATE,   /* only state layers, which read no keys, are left to judge */
    S2_REASON_ENGINE   /* this engine does not judge dynamic terms, the other does */
} s2_reason;

typedef struct s2_finding {
    s2_requirement requirement;
    s2_verdict verdict;
    int64_t scope_tok;       /* S2_OPEN: every length; else the one length decided */
    int64_t complete_to_tok; /* violated: the longest context up to which the property holds, or
                                S2_COMPLETE_UNKNOWN: it may fail earlier where nothing was decided */
    s2_reason reason;        /* for unknown */
    int64_t reason_tok;
    s2_witness witness; /* for violated */
    int32_t n_failing_layers;
    const int32_t
        *failing_layers; /* ascending; the layers that have this verdict themselves; none for holds */
    bool undecided;      /* violated, and some other layer was not decided */
} s2_finding;

/* What one proof takes at most, unless its caller allows less. */
#define S2_PROVE_STEPS INT64_C(1600000000)
typedef struct s2_prove_options {
    int64_t n_tok;      /* S2_OPEN (every length), or 1 .. S2_LIMIT_CONTEXT_TOK */
    int64_t work_limit; /* elementary steps; 0: S2_PROVE_STEPS, a few seconds */
    int64_t *work_left; /* of several proofs (base/work.h), which this one spends from; NULL: its own */
} s2_prove_options;

/*
 * Decide n requirements; findings[n] in the same order. S2_EINVAL when an argument does not fit the
 * pattern (ranks that do not divide the heads, depth below 1); S2_ENOMEM. A work limit is a verdict
 * (`unknown`, S2_REASON_LIMIT), not a status.
 */
s2_status s2_prove(s2_arena *arena, const s2_pattern *pattern, const s2_requirement *requirements, int32_t n,
                   const s2_prove_options *options, s2_finding *findings) S2_MUST_CHECK;

/*
 * The same by plain enumeration of the definition. With n_tok S2_OPEN it uses the length that suffices
 * by the theorem of docs/proof.md. Where it exceeds S2_ENUMERATE_LIMIT_TOK (blocks, if every quantity is
 * in blocks and neither shards nor depth is requested), or a head is dynamic, the verdict is unknown.
 */
enum { S2_ENUMERATE_LIMIT_TOK = 4096 };
s2_status s2_enumerate(s2_arena *arena, const s2_pattern *pattern, const s2_requirement *requirements,
                       int32_t n, const s2_prove_options *options, s2_finding *findings) S2_MUST_CHECK;

/*
 * The length for which a question is decided: n_tok, or, where that is S2_OPEN and the pattern has mask
 * files, the length of the shortest file.
 */
int64_t s2_prove_scope(const s2_pattern *pattern, int64_t n_tok);

/* False when two findings of one requirement are both decided and differ in verdict, length or place. */
bool s2_finding_agrees(const s2_finding *a, const s2_finding *b);

/* A context such that checking it decides every context of the static part; S2_OPEN if huge. S2_ENOMEM. */
s2_status s2_sufficient_length(s2_arena *arena, const s2_pattern *pattern, int64_t *out) S2_MUST_CHECK;

#endif /* S2_COVERAGE_PROVE_H */
