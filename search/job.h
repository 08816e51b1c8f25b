/*
 * search/job.h - one search run by the ranks of a job: each visits its part, rank 0 keeps the states of all
 * in a file from which the job can resume, and at the end they become one state of the whole.
 *
 * The file is a line with the time at which a run began to store the front (0: none did), then one state for
 * each rank, preceded by its length. It is replaced atomically.
 *
 * Every rank makes the same calls. A result called agreed is the same on every rank; others may differ.
 * Ownership: s2_search_job_release frees the states. Threads: the one that joined the ranks.
 */
#ifndef S2_SEARCH_JOB_H
#define S2_SEARCH_JOB_H

#include "search/ranks.h"
#include "search/search.h"

typedef struct s2_search_job {
    s2_ranks ranks;
    s2_buf *states;   /* rank 0: the latest of each rank, as text; room for ranks.n, zero at first */
    int64_t begin;    /* where the visits of all ranks begin, */
    int64_t end;      /* where they would end without a limit, */
    int64_t until;    /* and where they end */
    const char *key;  /* everything on which the front depends */
    const char *path; /* of the file; NULL: no file is written */
} s2_search_job;

/* Frees the states; the rest belongs to the caller. */
void s2_search_job_release(s2_search_job *job);

/* The visits of one rank: disjoint ranges that together cover the job. A job of one rank changes nothing. */
void s2_search_job_part(const s2_search_job *job, int32_t rank, s2_search *search);

/* Gather the states of all ranks on rank 0. The status is not agreed. S2_ENOMEM. */
s2_status s2_search_job_collect(s2_search_job *job, const s2_search *search,
                                const s2_search_state *state) S2_MUST_CHECK;

/*
 * On rank 0, after collecting: join the states of all ranks to one of the whole job and give *search the
 * visits of all; visits count from its begin. S2_ENOMEM, S2_EPARSE: both are unchanged.
 */
s2_status s2_search_job_join(const s2_search_job *job, s2_search *search,
                             s2_search_state *state) S2_MUST_CHECK;

/* Rank 0: write what was collected. stored_us: when the run that stores the front began; 0: none yet. S2_EIO
 * with errno. */
s2_status s2_search_job_write(const s2_search_job *job, int64_t stored_us) S2_MUST_CHECK;

/* What s2_search_job_resume read. */
typedef struct s2_search_resumed {
    bool found;        /* false: there is no file; the search starts from the beginning */
    int64_t stored_us; /* as it was written */
} s2_search_resumed;

/*
 * Rank 0 reads the file, and every rank takes its own state from it. Not agreed: S2_EPARSE with the reason
 * in *diag if this rank cannot resume from it, S2_EIO on rank 0, S2_ENOMEM; *state is then untouched.
 */
s2_status s2_search_job_resume(const s2_search_job *job, const s2_search *search, s2_arena *arena,
                               s2_search_state *state, s2_search_resumed *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_SEARCH_JOB_H */
