/*
 * calibrate/rows.h - measurements of points, one flat JSON object per line (schema s2points/1).
 *
 * The first line of a file is its provenance; then come ceilings of the device, then one row per point:
 *     {"schema":"s2points/1","gpu":"h200","device":...,"uuid":...,"driver":...,"commit":...,"date":...}
 *     {"micro":"copy","size":1073741824,"value":4312.1,"unit":"GB/s"}
 *     {"set":"designed","seed":0,"nth":0,"family":"dense","pass":"forward","pattern":...,"us":...}
 * Unknown keys are ignored, so files of later versions can be read. Files can be joined: the first line of the
 * first one then stands for all.
 *
 * Ownership: rows live in the arena. Threads: no state.
 */
#ifndef S2_CALIBRATE_ROWS_H
#define S2_CALIBRATE_ROWS_H

#include "base/arena.h"
#include "base/text.h"
#include "calibrate/points.h"
#include "sim/calibration.h"

typedef struct s2_row {
    s2_run_point point;
    char set[12]; /* "designed" or "held-out" */
    int64_t seed;
    int32_t nth;
    bool repeated;               /* measured a second time, at the end: for the noise floor */
    char kernel[S2_KERNEL_NAME]; /* "" when none accepted it */
    char why[120];               /* then the reason */
    int32_t tile_tok;            /* the plan that the kernel asked for (plan/plan.h) */
    int32_t key_tok;
    int32_t pack_heads;
    int64_t section_bytes;
    double us;       /* back to back, median of windows */
    double spread;   /* (longest - shortest window) / median */
    double mhz;      /* the clock right after each window, median */
    double burst_us; /* a few launches, after a pause */
    double burst_mhz;
    double dram_read; /* hardware counters, bytes; 0: not counted */
    double dram_write;
    double l2_bytes;
} s2_row;

enum { S2_MICRO_ROW_WORD = 12 };
typedef struct s2_micro_row {
    char micro[S2_MICRO_ROW_WORD];
    double size;
    double value;
} s2_micro_row;

typedef struct s2_row_file {
    s2_provenance head;
    int32_t n_micros;
    int64_t cap_micros;
    s2_micro_row *micros;
    int32_t n_rows;
    int64_t cap_rows;
    s2_row *rows;
} s2_row_file;

/* One line of the file each; check buf->status. */
void s2_rows_head_print(const s2_provenance *head, s2_buf *buf);
void s2_micro_row_print(const s2_micro_row *row, const char *unit, s2_buf *buf);
void s2_row_print(const s2_row *row, s2_buf *buf);

/* Read a file's text. S2_EPARSE with line and column in *diag; S2_ENOMEM. */
s2_status s2_rows_parse(s2_arena *arena, const char *text, size_t n_bytes, s2_row_file *out,
                        s2_diag *diag) S2_MUST_CHECK;

/* Whether a row judges: it is held out, measured, and no repetition. */
bool s2_row_judges(const s2_row *row);

/* Take out of `judging` the rows that judge and whose points `fitted` has designed: what was fitted judges
 * nothing. S2_ENOMEM. */
s2_status s2_rows_drop_fitted(s2_arena *arena, const s2_row_file *fitted, s2_row_file *judging) S2_MUST_CHECK;

#endif /* S2_CALIBRATE_ROWS_H */
