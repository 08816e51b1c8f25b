/*
 * judge/harness.h - a problem set up on a device for judging: guarded buffers, a plan, a prepared kernel.
 *
 *     | guard 0xFF | data ............................ | guard 0xFF |
 *
 * 0xFF bytes are NaN in every type. Outputs are 0xFF throughout before a run, so any byte that no row of the
 * plan owns must still be 0xFF afterwards.
 *
 * Ownership: s2_harness_close releases all. Threads: as the device.
 */
#ifndef S2_JUDGE_HARNESS_H
#define S2_JUDGE_HARNESS_H

#include "base/arith.h"
#include "judge/validate.h"

enum { S2_GUARD_BYTES = 4096 };

typedef struct s2_guarded {
    uint8_t *base; /* device; data begins at base + S2_GUARD_BYTES */
    size_t n_bytes;
} s2_guarded;

/* One row of the output: a query of a sequence in a head. */
typedef struct s2_probe_row {
    int32_t seq;
    int32_t q_tok; /* from 0 in its sequence */
    int32_t head;
} s2_probe_row;

typedef struct s2_harness {
    s2_device *device;
    const s2_kernel *kernel;
    s2_arena arena;
    s2_attn_problem problem; /* runs `some` */
    s2_plan whole;
    s2_plan some;
    int64_t n_q_tok; /* in the batch */
    int64_t n_k_tok;
    s2_guarded q, k, v, o, lse;
    s2_guarded d_o, d_q, d_k, d_v;        /* only for a backward, else NULL */
    s2_guarded sink, d_sink;              /* only with sinks */
    s2_guarded q_scale, k_scale, v_scale; /* only of e4m3; of queries only in a forward */
    float *host_q_scale, *host_k_scale, *host_v_scale;
    float q_unit, k_unit, v_unit; /* what a stored 1 stands for in the first head; 1 unless e4m3 */
    float *host_sink;             /* [H]: minus infinity until they are drawn */
    uint8_t *host_o;              /* copies with guards */
    uint8_t *host_lse;
    void *state;
} s2_harness;

/*
 * Choose the kernel, plan, sample items (budget_flop, seed), allocate, prepare. Always close the harness,
 * even after a failure. S2_EUNSUPPORTED when no kernel takes the problem, or what memory and device report.
 */
s2_status s2_harness_open(s2_harness *harness, s2_device *device, const s2_validate_request *request,
                          s2_diag *why) S2_MUST_CHECK;
void s2_harness_close(s2_harness *harness);

/* Queue one run of `harness`: the launch of a train (judge/train.h) or a workload (judge/workload.h). */
s2_status s2_harness_launch(void *harness, s2_diag *why) S2_MUST_CHECK;
/* Run once and wait. ms may be NULL, here and below. */
s2_status s2_harness_time(s2_harness *harness, double *ms, s2_diag *why) S2_MUST_CHECK;

/* Fill the outputs with NaN, run once, copy them back. */
s2_status s2_harness_run(s2_harness *harness, double *ms, s2_diag *why) S2_MUST_CHECK;

/* The same, but only these rows come back when they are a small part of the output. */
s2_status s2_harness_run_rows(s2_harness *harness, const s2_probe_row *rows, int64_t n_rows, double *ms,
                              s2_diag *why) S2_MUST_CHECK;

/* Sinks that matter for n_heads heads: small ones, dominating ones, none. */
void s2_harness_sinks(uint64_t seed, int32_t n_heads, float *out);
/* Drawn sinks replace the harness's. Does nothing without sinks. */
s2_status s2_harness_draw_sinks(s2_harness *harness, uint64_t seed) S2_MUST_CHECK;

/*
 * In e4m3 a stored 1 stands for k_unit and v_unit in the first KV head, and for more in others if they are to be
 * told apart. Does nothing for other types.
 */
s2_status s2_harness_scale(s2_harness *harness, float k_unit, float v_unit, bool apart) S2_MUST_CHECK;

/* The scales of n_heads KV heads that are told apart. */
void s2_harness_scales(int32_t n_heads, float k_unit, float v_unit, float *k, float *v);

/* A stored 1 for keys and values that are near normal: the largest, 3.5, is far below 448 of it. */
static const float S2_HARNESS_UNIT = 0x1p-6f;

/*
 * In e4m3 a stored 1 of a query stands for `unit` in the first head, and for more in others if they are to be told
 * apart. Does nothing for other types.
 */
s2_status s2_harness_scale_queries(s2_harness *harness, float unit, bool apart) S2_MUST_CHECK;
/* All of Q drawn, near normal with this standard deviation in the first head; scales follow it, heads apart. */
s2_status s2_harness_fill_queries(s2_harness *harness, uint64_t seed, float spread) S2_MUST_CHECK;

/* All of K or of V drawn, near normal; `spread` is the standard deviation in the first head, 1 for V. */
s2_status s2_harness_fill_keys(s2_harness *harness, uint64_t seed, float spread) S2_MUST_CHECK;
s2_status s2_harness_fill_values(s2_harness *harness, uint64_t seed) S2_MUST_CHECK;

/*
 * Add so much to every score of drawn data: column 0 of Q and of K becomes the same number in all rows, so that
 * weights stay and only the LSE moves. 0: nothing. Not for e4m3.
 */
s2_status s2_harness_shift_scores(s2_harness *harness, float shift) S2_MUST_CHECK;
/* What column 0 of Q is then. */
float s2_harness_shift_query(const s2_attn_problem *problem, float shift);

/* Inputs and sinks drawn from request->seed; dO too, where the harness has it. */
s2_status s2_harness_fill(s2_harness *harness, const s2_validate_request *request) S2_MUST_CHECK;

/* The offset of the first changed byte that no row of `some` owns, guards included; INT64_MIN: none. */
int64_t s2_harness_stray_byte(const s2_harness *harness, const char **buffer);

/* The work of the whole plan over that of the items that are run for their values. */
double s2_harness_whole_over_some(const s2_harness *harness);

static inline const void *s2_harness_o(const s2_harness *harness)
{
    return harness->host_o + S2_GUARD_BYTES;
}
static inline const float *s2_harness_lse(const s2_harness *harness)
{
    return (const float *)(const void *)(harness->host_lse + S2_GUARD_BYTES);
}
/* Whether all bytes are still what an output holds before a run: nobody has written them. */
static inline bool s2_harness_unwritten(const void *bytes, size_t n)
{
    for (size_t at = 0; at < n; at++)
        if (((const uint8_t *)bytes)[at] != 0xff)
            return false;
    return true;
}
/* First query of an item, from 0 in its sequence, and the end of its real queries. */
static inline int64_t s2_harness_item_queries(const s2_plan *plan, const s2_plan_item *item, int64_t *end)
{
    const s2_plan_seq lens = plan->seqs[item->seq];
    const int64_t first = s2_plan_tile_begin(plan, item->seq, item->tile) - (lens.k_tok - lens.q_tok);
    *end = s2_min_i64(first + plan->options.tile_tok, lens.q_tok);
    return s2_max_i64(first, 0);
}

/* All rows of a plan's items, in order: a walk begins with the plan alone. False after the last row. */
typedef struct s2_row_walk {
    const s2_plan *plan;
    int32_t item;
    bool begun; /* the rest is of this item */
    int32_t head;
    int64_t q_tok, end_tok;
} s2_row_walk;
bool s2_harness_next_row(s2_row_walk *walk, s2_probe_row *row);

#endif /* S2_JUDGE_HARNESS_H */
