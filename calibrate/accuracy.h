/*
 * calibrate/accuracy.h - how good predictions are on measurements that were never fitted.
 *
 * Threads: no state.
 */
#ifndef S2_CALIBRATE_ACCURACY_H
#define S2_CALIBRATE_ACCURACY_H

#include "calibrate/rows.h"
#include "sim/calibration.h"

typedef struct s2_score {
    char name[24]; /* "forward", "strided", "roofline", ... */
    int32_t n;
    double mape; /* percent, of predicted / measured - 1 */
    double p90;
    double most;
    double bias;
    double spearman; /* rank correlations of predicted and measured times */
    double kendall;
} s2_score;

enum { S2_MOST_SCORES = 40, S2_NAIVE = 4 };

/* A row with what was predicted for it. */
typedef struct s2_accuracy_point {
    const s2_row *row;
    double us;       /* predicted */
    double clock_us; /* ... at the measured clock */
} s2_accuracy_point;

typedef struct s2_accuracy {
    int32_t n_rows;     /* measured, of the set "held-out" */
    int32_t n_unpriced; /* of which no kernel of the model accepts */
    int64_t seed;       /* of the draw */
    int32_t n_points;   /* priced */
    const s2_accuracy_point *points;
    int32_t n_passes;
    s2_score passes[S2_N_PASSES];
    s2_score cycles[S2_N_PASSES]; /* at the measured clock: the model without its clock law */
    int32_t n_families;
    s2_score families[S2_MOST_SCORES]; /* of each pass */
    s2_score kernels[S2_MODEL_KERNELS];
    s2_span_of_points spans[S2_MODEL_KERNELS][S2_N_EXTENTS];
    s2_score naive[S2_NAIVE]; /* on all rows, each scaled by its best constant for the same rows */
    double floor_pct;         /* mean difference between two measurements of a point */
    int32_t n_twice;
    double regret_fast;  /* by how many percent the top pick of the family "space" is slower than the best */
    double regret_pairs; /* the same when pairs a second are ranked */
    int32_t n_space;
    s2_pass space_pass; /* the pass that most of them have */
    int32_t n_counted;  /* rows with hardware counters */
    double dram_pct;    /* mean error of device memory bytes */
    double l2_pct;      /* ... and of bytes from L2 to the SMs */
    int32_t n_below;    /* predictions or measurements below the physical floor: must be 0 */
    double nearest;     /* least measured / floor */
} s2_accuracy;

/* S2_ENOMEM, or what pricing returns; *diag when a row is not a valid point. */
s2_status s2_accuracy_of(s2_arena *arena, const s2_row_file *file, const s2_gpu *gpu,
                         const s2_time_model *model, s2_accuracy *out, s2_diag *diag) S2_MUST_CHECK;

/* The built-in rows of a GPU, parsed into the arena; S2_EUNSUPPORTED when it has none. */
s2_status s2_accuracy_rows(s2_arena *arena, const char *gpu, s2_row_file *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_CALIBRATE_ACCURACY_H */
