/*
 * sim/growth.h - how the KV cache grows with the context: its peak, and the longest context that fits.
 *
 * Between two lengths a cache gains at most a page of each KV head for each page of tokens, so an interval is
 * decided by its ends where the bound and a target agree, and is halved elsewhere. And from some length on
 * every head repeats itself (pattern/view.h): with P the common period of heads and pages, bytes(t + P) =
 * bytes(t) + c      for all t >= settled_tok,  c >= 0, because keys that stay for good repeat with P and all
 * others lie in a window that moves along. So nothing beyond settled_tok + P is counted, however long the
 * context.
 *
 * Bytes are those of head pages of one sequence, metadata included, states left out; pages of the first shared_tok
 * tokens are another's. Threads: one growth, one thread.
 */
#ifndef S2_SIM_GROWTH_H
#define S2_SIM_GROWTH_H

#include "sim/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { S2_GROWTH_SUMMARIES = 8 };

typedef struct s2_growth {
    s2_classes classes; /* with a limit of work of its own */
    int64_t work_left;
    int32_t page_tok;
    int64_t shared_tok; /* whole pages */
    double elem_bytes;
    int64_t step_tok;    /* kept keys change alike at multiples of it: whole blocks, or 1 */
    int64_t settled_tok; /* and period_tok; S2_OPEN: never, or later than any context */
    int64_t period_tok;
    double gain_bytes; /* c */
    bool exact;        /* budgets of `heavy` may be full below a folded length */
    int32_t n_summaries;
    int64_t summary_tok[S2_GROWTH_SUMMARIES];   /* pages that have summaries, and of the KV heads in which */
    int64_t summary_elems[S2_GROWTH_SUMMARIES]; /* head dimensions added up */
    int64_t token_elems;                        /* of K, that a token may add: over all layers and KV heads */
    int64_t n_index_layers;
} s2_growth;

/* S2_ENOMEM. Point nothing to *out before: classes.work_left points into it, so do not copy it. */
s2_status s2_growth_init(const s2_classes *classes, int64_t shared_tok, int32_t page_tok, double elem_bytes,
                         s2_growth *out) S2_MUST_CHECK;

/* The most bytes at any length 1 .. n_tok, and the length; exact: no more than that, and reached there. */
typedef struct s2_growth_peak {
    double bytes;
    int64_t tok;
    bool exact;
} s2_growth_peak;
s2_status s2_growth_find_peak(s2_growth *growth, int64_t n_tok, s2_growth_peak *out) S2_MUST_CHECK;

/*
 * The longest context, at most S2_LIMIT_CONTEXT_TOK, up to which every length takes at most room_bytes; 0:
 * none. Never too long; shorter than it could be where counting took more than a fixed number of steps.
 */
s2_status s2_growth_find_longest(s2_growth *growth, double room_bytes, int64_t *out) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_GROWTH_H */
