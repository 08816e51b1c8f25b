/*
 * sim/schedule.h - the makespan of longest-processing-time-first on P equal workers.
 *
 * Pieces come as a histogram: count[n] pieces of cost n. The makespan is exactly that of handing out the
 * pieces one by one, longest first, each to the worker that is free first; but whole rounds of equal
 * pieces cost O(1).
 *
 * Threads: no state.
 */
#ifndef S2_SIM_SCHEDULE_H
#define S2_SIM_SCHEDULE_H

#include <stdint.h>

enum { S2_LIMIT_WORKERS = 4096, S2_QUEUE_SLACK = 512 };

/* Workers that take pieces one after another, each when it is free. Large: 32 KiB. */
typedef struct s2_workers {
    int64_t base;
    int32_t n;
    int64_t load[S2_LIMIT_WORKERS]; /* ascending, above base */
} s2_workers;

/* 1 <= n_workers <= S2_LIMIT_WORKERS; all idle. */
void s2_workers_init(s2_workers *workers, int32_t n_workers);
/* Hand out k pieces of cost w, each to the worker that is free first. */
void s2_workers_give(s2_workers *workers, int64_t k, int64_t w);
/* When the last worker is done. */
int64_t s2_workers_end(const s2_workers *workers);

/*
 * Workers that take pieces in the order in which they come, each when it is free: O(1) a piece where pieces cost
 * about the same, O(n) at worst. Large: 36 KiB.
 */
typedef struct s2_queue {
    int32_t n, first;
    int64_t end;                                        /* when the last piece given is done */
    int64_t free_at[S2_LIMIT_WORKERS + S2_QUEUE_SLACK]; /* n entries from `first` on, ascending */
} s2_queue;

/* 1 <= n_workers <= S2_LIMIT_WORKERS; all free at `start`. */
void s2_queue_init(s2_queue *queue, int32_t n_workers, int64_t start);
void s2_queue_give(s2_queue *queue, int64_t w);

/* count has n_costs entries, for costs 0 .. n_costs - 1. 1 <= n_workers <= S2_LIMIT_WORKERS. */
int64_t s2_makespan(const int64_t *count, int32_t n_costs, int32_t n_workers);

#endif /* S2_SIM_SCHEDULE_H */
