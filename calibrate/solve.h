/*
 * calibrate/solve.h - a small system of linear equations.
 *
 * Threads: no state.
 */
#ifndef S2_CALIBRATE_SOLVE_H
#define S2_CALIBRATE_SOLVE_H

#include <stdbool.h>
#include <stdint.h>

/* Gauss with pivots: a is n by n, row after row; the answer replaces b, and a is used up. False when singular. */
bool s2_solve(double *a, double *b, int32_t n);

#endif /* S2_CALIBRATE_SOLVE_H */
