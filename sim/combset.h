/*
 * sim/combset.h - a union of combs, counted without visiting its elements.
 *
 * What one query (or one tile of queries) reads, and what a cache must hold, are unions of combs.
 * s2_combset_count() costs O(c log c) in the number of combs c where at most one comb with a residue
 * is active at a time, and one cycle of the active combs where several are.
 *
 * Ownership: the set owns its arrays; release it. A failed allocation or an exhausted work limit sticks and
 * makes counts -1: s2_combset_failure() says which it was.
 * Threads: one set, one thread.
 */
#ifndef S2_SIM_COMBSET_H
#define S2_SIM_COMBSET_H

#include "base/status.h"
#include "base/work.h"
#include "pattern/comb.h"

/* Zero-initialise. */
typedef struct s2_combset {
    s2_comb *combs;
    int32_t n_combs;
    int64_t cap;
    bool failed;
    int64_t
        *work_left; /* base/work.h: a step per comb added or looked at, n log n per sort; NULL: no limit */
} s2_combset;

/* Empty the set and keep its memory, or give that back. */
void s2_combset_clear(s2_combset *set);
void s2_combset_release(s2_combset *set);

/* Add a comb; empty ranges are ignored. */
void s2_combset_add(s2_combset *set, const s2_comb *comb);
void s2_combset_add_range(s2_combset *set, int64_t begin, int64_t end);

/*
 * Add the tiles of tile_tok tokens that hold at least one element of the comb: x / tile_tok for every
 * element x. The comb must be bounded. O(1) where one of gran and tile_tok divides the other and the period
 * allows it, else one range per run.
 */
void s2_combset_add_tiles(s2_combset *set, const s2_comb *comb, int64_t tile_tok);

/* Join ranges that meet, so that a long enumeration stays small. */
void s2_combset_merge(s2_combset *set);

/* Elements of the union in [begin, end); reorders and joins the combs. -1 on failure. */
int64_t s2_combset_count(s2_combset *set, int64_t begin, int64_t end);

/* After a count of -1: S2_ELIMIT when no work is left, else S2_ENOMEM. */
s2_status s2_combset_failure(const s2_combset *set);

#endif /* S2_SIM_COMBSET_H */
