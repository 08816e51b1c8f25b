/*
 * calibrate/table.h - a table of what somebody else's kernels took, and the laws fitted to it (sim/peer.h).
 *
 * Text separated by commas, or where the names have none by semicolons or tabs; the first line that is not a
 * comment ('#') names the columns, in any order:
 *
 *     batch, heads, kv_heads, head_dim, n_tok, us    required: whole numbers, and microseconds
 *     pass      forward (or prefill), backward, decode; without it the caller sets the pass of all rows
 *     q_tok     the last so many of n_tok tokens are queries; if left out n_tok, in decode 1
 *     pattern   a body of the pattern language, such as `local 16 | stride 8 phase head`; empty: dense
 *     block     tokens of a block of that pattern, 64 if left out
 *     caches    warm or cold, the same in all rows
 *     causal    1 (or yes, true; if left out), or 0
 *
 * Other columns (a clock, a spread, an engine) are ignored. A row that is not of this form, or that is faster
 * than its products at the peak of the GPU, is refused with its line.
 *
 * Ownership: rows live in the arena. Threads: no state.
 */
#ifndef S2_CALIBRATE_TABLE_H
#define S2_CALIBRATE_TABLE_H

#include "base/arena.h"
#include "sim/peer.h"

enum { S2_TABLE_ROWS = 65536 };

typedef struct s2_table_row {
    int32_t line;
    s2_pass pass;
    int32_t heads, kv_heads, head_dim;
    int64_t batch, q_tok, n_tok;
    double us;
    bool causal;
    int32_t block_tok;
    const char *pattern; /* a body; NULL: dense */
    uint64_t design;     /* first bits of its hash */
    double floor_us;     /* no kernel is faster; 0 where nothing is known of that */
    bool held;           /* held out: judges, is not fitted */
    s2_classes classes;  /* of `made` */
    s2_pattern made;
} s2_table_row;

typedef struct s2_table {
    s2_peer_caches caches;
    int32_t n_rows;
    s2_table_row *rows;
} s2_table;

/* Whether a text is such a table, not rows of s2 calibrate. */
bool s2_table_is(const char *text, size_t n_bytes);

/*
 * pass: for rows that do not name one; S2_N_PASSES: all must. S2_EPARSE with line and column in *diag;
 * S2_ENOMEM; S2_ELIMIT beyond S2_TABLE_ROWS. The text must outlive the rows.
 */
s2_status s2_table_parse(s2_arena *arena, char *text, size_t n_bytes, const s2_gpu *gpu, s2_pass pass,
                         s2_table *out, s2_diag *diag) S2_MUST_CHECK;

/* Hold out about 1 in n of the rows, chosen by the seed and each row's launch. */
void s2_table_leave_out(s2_table *table, uint64_t seed, int32_t n);

/* Drop the rows of launches that `fitted` fits: what was fitted judges nothing. S2_ENOMEM. */
s2_status s2_table_drop_fitted(s2_arena *arena, const s2_table *fitted, s2_table *judging) S2_MUST_CHECK;

/* How many times as long as any kernel needs the fastest dense row took, a call aside; 0: nothing says. */
double s2_table_slowness(const s2_table *table);

/*
 * Fit a law to the rows of each pass, head dimension and kind of group that are not held out. Deterministic.
 * S2_EINVAL where there are too few, with the reason in *diag.
 */
s2_status s2_table_fit(s2_arena *arena, const s2_table *table, const s2_gpu *gpu, s2_peer *out,
                       s2_diag *diag) S2_MUST_CHECK;

/* Error of each law on the rows held out (all: on all rows); its worst row in worst[S2_PEER_LAWS]. */
typedef struct s2_table_miss {
    int32_t line;
    double us, predicted;
} s2_table_miss;
s2_status s2_table_judge(s2_arena *arena, const s2_table *table, bool all, const s2_gpu *gpu, s2_peer *peer,
                         s2_table_miss *worst) S2_MUST_CHECK;

#endif /* S2_CALIBRATE_TABLE_H */
