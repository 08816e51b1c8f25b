/*
 * cli/measure.h - run points of calibrate/points.h on a device, with the rig that validation uses.
 *
 * Each point is timed as judge/steady.h says.
 *
 * Threads: as the device.
 */
#ifndef S2_CLI_MEASURE_H
#define S2_CLI_MEASURE_H

#include "kernels/kernel.h"
#include "calibrate/rows.h"

typedef struct s2_measure_options {
    bool once;               /* one launch and no timing: for a profiler that counts */
    double settle_ms;        /* launches before the windows */
    double window_ms;        /* length of each of the three windows */
    const s2_kernel *kernel; /* NULL: the best that takes the point */
} s2_measure_options;
s2_measure_options s2_measure_options_default(void);

/* The first line of a file of rows, of now. `gpu` names the card; NULL: the table's name of it, else its own. */
void s2_measure_head(const s2_device *device, const char *gpu, const char *commit, s2_provenance *out);

/* Fills row->kernel, plan, times and clocks from row->point; if no kernel takes it, only why. */
s2_status s2_measure_point(s2_device *device, const s2_measure_options *options, s2_row *row) S2_MUST_CHECK;

#endif /* S2_CLI_MEASURE_H */
