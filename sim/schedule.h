/*
 * sim/schedule.h - how long the last of P equal workers is busy, longest piece first.
 *
 * Pieces come as a histogram: count[n] pieces of cost n. Exact: the same makespan as handing out the
 * pieces one by one, longest first, each to the worker that is free first; but whole rounds of equal
 * pieces cost O(1).
 */
#ifndef S2_SIM_SCHEDULE_H
#define S2_SIM_SCHEDULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { S2_LIMIT_WORKERS = 4096 };

/* count has n_costs entries, for costs 0 .. n_costs - 1. 1 <= n_workers <= S2_LIMIT_WORKERS. */
int64_t s2_makespan(const int64_t *count, int32_t n_costs, int32_t n_workers);

/* No schedule is shorter: the mean load, the longest piece, and the piece that must come second somewhere. */
int64_t s2_makespan_floor(const int64_t *count, int32_t n_costs, int32_t n_workers);

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_SCHEDULE_H */
