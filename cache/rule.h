/*
 * cache/rule.h - how long a key is needed by the query heads that share a page table.
 *
 * The last query that reads a key is the end of the key's column (pattern/view.h), the latest one over the
 * heads. It is S2_OPEN where the column never ends, and also where a residue in the query brings the
 * key back again and again.
 *
 * Ownership: views live in the arena. Threads: a rule remembers its last answer, so one at a time.
 */
#ifndef S2_CACHE_RULE_H
#define S2_CACHE_RULE_H

#include "pattern/view.h"

/* No query reads the key. */
#define S2_CACHE_NEVER INT64_C(-1)

typedef struct s2_cache_rule {
    const s2_pattern *pattern;
    const s2_view *views; /* heads that differ */
    int32_t n_views;
    int64_t step_tok;     /* keys in one step of step_tok keys share their last query */
    int64_t capacity_tok; /* of the largest window that slides; 0: none */
    int64_t window_blk;   /* its length in blocks and in tokens; S2_OPEN where it has none */
    int64_t window_tok;
    int64_t known_group; /* the last answer */
    int64_t known_query;
} s2_cache_rule;

/* The rule of heads [head_begin, head_end) of a layer in decode. S2_EUNSUPPORTED for heavy and topk. */
s2_status s2_cache_rule_build(s2_arena *arena, const s2_pattern *pattern, int32_t layer, int32_t head_begin,
                              int32_t head_end, s2_cache_rule *out, s2_diag *why) S2_MUST_CHECK;

/* The last query that reads the key, S2_CACHE_NEVER or S2_OPEN. */
int64_t s2_cache_rule_last_query(s2_cache_rule *rule, int64_t k_tok);

/* The first key of the window of query n_tok - 1; n_tok when there is no window. */
int64_t s2_cache_rule_window_begin(const s2_cache_rule *rule, int64_t n_tok);

#endif /* S2_CACHE_RULE_H */
