/*
 * calibrate/public.h - predictions compared with what others have published: attention of other kernels and
 * GPUs, and whole models. Nothing is fitted to these rows (docs/results/public/).
 *
 * Threads: no state.
 */
#ifndef S2_CALIBRATE_PUBLIC_H
#define S2_CALIBRATE_PUBLIC_H

#include "base/arena.h"
#include "base/text.h"

enum { S2_PUBLIC_GROUPS = 16 };

/* Rows of one table. */
typedef struct s2_public_group {
    char name[60];
    bool measured; /* the constants are of this GPU, not guessed */
    int32_t n;
    double median_ratio; /* predicted / published */
    double mape;         /* percent */
    double median_error;
    double p90;
} s2_public_group;

/* One published figure of a whole model, in its own unit, so more may be better. */
typedef struct s2_public_figure {
    char name[100];
    char source[120];
    double published;
    double predicted;
    double ratio; /* time predicted / time published: above 1 is too slow */
} s2_public_figure;

typedef struct s2_public {
    int32_t n_groups;
    s2_public_group groups[S2_PUBLIC_GROUPS];
    int32_t n_figures;
    s2_public_figure *figures; /* in the arena */
    double median_error;       /* of the figures' times, percent */
    double mean_error;
} s2_public;

/* S2_EPARSE where a built-in table is damaged, and what pricing returns. */
s2_status s2_public_judge(s2_arena *arena, s2_public *out, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_CALIBRATE_PUBLIC_H */
