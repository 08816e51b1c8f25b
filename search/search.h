/*
 * search/search.h - a whole space: expand, prove or drop, bound, price, keep the front.
 *
 * Candidates are visited in a fixed order that the seed chooses (a permutation that needs no memory), in
 * batches that grow from 64 to 8192, or until about 256 of them are expensive to price. Within a batch only
 * the front of earlier batches prunes, so counts and front are the same for any number of threads. Pruning
 * drops a candidate only when a point of the front is at least as good as its lower bounds, so no point of
 * the front is ever lost.
 *
 * A shard is a range of visits; a state is the next visit, the counts, and the front. A search whose state
 * is written after any batch and read back goes on as if it had never stopped.
 *
 * Ownership: a state owns its front; release it. Threads: s2_search_run starts and ends its own.
 */
#ifndef S2_SEARCH_SEARCH_H
#define S2_SEARCH_SEARCH_H

#include "coverage/prove.h"
#include "search/objective.h"
#include "search/space.h"

enum { S2_SEARCH_REQUIREMENTS = 16, S2_SEARCH_JOBS = 1024 };

/* An upper limit on one objective for every candidate on the front. */
typedef struct s2_search_limit {
    s2_objective of;
    double most;
    bool of_dense; /* kv_bytes: `most` is a fraction of what a dense pattern of the same shape keeps */
} s2_search_limit;

/*
 * May the candidate be on the front, by criteria unknown to the search? Called by several threads, for
 * candidates that are neither beaten nor outside. S2_ENOMEM.
 */
typedef s2_status (*s2_search_accept_fn)(const void *user, const s2_pattern *pattern, bool *accepted);

typedef struct s2_search {
    const s2_space *space;
    s2_sim_options options;
    int32_t n_by;
    s2_objective by[S2_MAX_OBJECTIVES];
    int32_t n_limits; /* objectives here and in `by`: at most S2_MAX_OBJECTIVES in all */
    s2_search_limit limits[S2_MAX_OBJECTIVES];
    int32_t n_requirements;
    s2_requirement requirements[S2_SEARCH_REQUIREMENTS];
    uint64_t seed;
    int64_t begin; /* visits of this shard; s2_search_shard */
    int64_t end;
    int32_t n_jobs;
    s2_search_accept_fn accept; /* NULL: all are accepted */
    const void *accept_user;
    const uint64_t
        *mixers;     /* bits of the model's layers that read no keys: candidates leave them as they are */
    bool no_pruning; /* price everything; for tests */
} s2_search;

/* Visits of shard `shard` of n_shards (1 <= shard <= n_shards): disjoint, together all of them. */
void s2_search_shard(s2_search *search, int64_t shard, int64_t n_shards);

/* Every visited candidate is in exactly one of these. */
typedef struct s2_search_counts {
    int64_t refused; /* no valid pattern, or a requirement or price does not fit its shape */
    int64_t violated[S2_N_PROPERTIES]; /* by the first requirement that does not hold */
    int64_t unknown;                   /* a requirement was not decided, or pricing takes too long */
    int64_t outside;                   /* above a limit, by its bounds or priced */
    int64_t unaccepted;                /* by s2_search.accept */
    int64_t beaten;                    /* by its bounds, so not priced */
    int64_t priced;
    int64_t priced_slowly; /* of those priced or outside: had no fast form */
} s2_search_counts;

/* Adds each count of *part to *sum. */
void s2_search_counts_add(s2_search_counts *sum, const s2_search_counts *part);

typedef struct s2_search_state {
    int64_t next; /* visit, from s2_search.begin on */
    s2_search_counts counts;
    s2_front front;
    int64_t refused_index; /* the lowest candidate refused, -1: none */
} s2_search_state;

/* The state before the first visit: counts are 0 and the front is empty. */
void s2_search_state_init(const s2_search *search, s2_search_state *out);
void s2_search_state_release(s2_search_state *state);

/*
 * Called on the calling thread: after each of its visits within a batch, when all before `visit` have been
 * handed out, and after the batch, when visit == state->next. False stops the search; an unfinished batch
 * then counts as not begun.
 */
typedef bool (*s2_search_watch_fn)(void *user, const s2_search_state *state, int64_t visit);

/*
 * Visit up to visit `until` (clipped to the shard), or until `watch` (or NULL) says no. S2_ENOMEM,
 * S2_ELIMIT: the state is that of the last whole batch.
 */
s2_status s2_search_run(const s2_search *search, s2_search_state *state, int64_t until,
                        s2_search_watch_fn watch, void *user) S2_MUST_CHECK;

/* The candidate of a visit: a permutation of 0 .. n_candidates - 1. */
int64_t s2_search_candidate(const s2_search *search, int64_t visit);

/* The pattern of a candidate, in the arena; S2_EPARSE with *diag, S2_ENOMEM. */
s2_status s2_search_pattern(const s2_search *search, int64_t index, s2_arena *arena, s2_pattern *out,
                            s2_diag *diag) S2_MUST_CHECK;

/* Why a candidate is refused: the status and *diag of the first reason; S2_OK: it is not refused. */
s2_status s2_search_refusal(const s2_search *search, int64_t index, s2_arena *arena,
                            s2_diag *diag) S2_MUST_CHECK;

/*
 * The values of any pattern in the objectives of the search, as a candidate with it would have them, and
 * whether they are within all limits. Sets all of *out but the index. S2_ENOMEM, S2_ELIMIT and S2_EINVAL as
 * for s2_price.
 */
s2_status s2_search_price(const s2_search *search, const s2_pattern *pattern, s2_point *out,
                          bool *within) S2_MUST_CHECK;

/*
 * A state as text; `key` says to which search it belongs. Reading refuses text that is cut, changed, or
 * from another key or shard: S2_EPARSE with the reason in *diag; *out is then untouched.
 */
void s2_search_state_print(const s2_search *search, const s2_search_state *state, const char *key,
                           s2_buf *buf);
s2_status s2_search_state_parse(const s2_search *search, const char *key, const char *text, size_t n_bytes,
                                s2_search_state *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_SEARCH_SEARCH_H */
