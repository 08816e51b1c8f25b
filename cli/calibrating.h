/*
 * cli/calibrating.h - `s2 calibrate` of somebody else's kernel: a table of its times, read (--from) or measured
 * (--kernel), to which laws are fitted.
 */
#ifndef S2_CLI_CALIBRATING_H
#define S2_CLI_CALIBRATING_H

#include "cli/commands.h"
#include "cli/options.h"

typedef struct s2_table_source {
    const char *path;   /* what messages call the table */
    const char *kernel; /* its name, unless --name says another */
    const char *source; /* where its times are from */
    const char *gpu;    /* NULL: --gpu has to say it */
    bool measured;      /* here and now, so the unit of its times is known */
} s2_table_source;

/* Fit laws to the table with this text, judge them, print and write them. */
s2_exit s2_calibrate_table(s2_cli *cli, const s2_args *args, const s2_table_source *source, char *text,
                           size_t n_bytes);

/* Read the table of --from if its text is one. */
s2_exit s2_calibrate_from(s2_cli *cli, const s2_args *args, const char *path, bool *is_table);

/* Time the kernel of --kernel, which is not one of s2, on designed launches, and fit laws to its times. */
s2_exit s2_calibrate_kernel(s2_cli *cli, const s2_args *args);

#endif /* S2_CLI_CALIBRATING_H */
