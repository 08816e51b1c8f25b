/*
 * search/ranks.h - one command as several processes: an MPI job if built with MPI=1, else one process.
 *
 * Every rank makes the same calls in the same order; rank 0 alone writes files and speaks to people.
 * A message that cannot be sent, for lack of memory or otherwise, ends the whole job: afterwards the ranks
 * could not agree on anything.
 *
 * Threads: the one that joined.
 */
#ifndef S2_SEARCH_RANKS_H
#define S2_SEARCH_RANKS_H

#include <stdint.h>

#include "base/text.h"

typedef struct s2_ranks {
    int32_t own;    /* 0 .. n - 1 */
    int32_t n;      /* 1: a single process */
    int32_t n_here; /* on this machine, this one included */
} s2_ranks;

/* Joins the job that the launcher (mpirun, srun) started; a job of one without a launcher. */
s2_ranks s2_ranks_join(void);
void s2_ranks_leave(const s2_ranks *ranks);
/* How many processes a launcher started together that do not know of each other, because this program was
 * built without MPI; else 1. */
int64_t s2_ranks_apart(void);

/* The greatest of all ranks' values, on every rank. */
int64_t s2_ranks_most(const s2_ranks *ranks, int64_t value);
/* Rank 0 gets the text of every rank in all[0 .. n - 1], which it releases; the others' all is untouched. */
void s2_ranks_gather(const s2_ranks *ranks, const s2_buf *own, s2_buf *all);
/* Every rank gets rank 0's text. */
void s2_ranks_share(const s2_ranks *ranks, s2_buf *text);

#endif /* S2_SEARCH_RANKS_H */
