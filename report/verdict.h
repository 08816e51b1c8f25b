/*
 * report/verdict.h - one verdict of `s2 validate` as text and as JSON.
 */
#ifndef S2_REPORT_VERDICT_H
#define S2_REPORT_VERDICT_H

#include "base/text.h"
#include "coverage/prove.h"
#include "judge/counters.h"
#include "judge/telling.h"
#include "judge/validate.h"
#include "pattern/models.h"
#include "sim/layer.h"

/* The kernel passes that a phase runs. */
typedef struct s2_phase_passes {
    s2_pass pass[2]; /* in the order in which they run; the last one is judged */
    int32_t n;
} s2_phase_passes;
extern const s2_phase_passes s2_passes_of[S2_N_PHASES];

/* A verdict and its subject. The caller owns what pointers point to. */
typedef struct s2_subject {
    const char *name;
    const char *hash;
    const char *commit; /* of the program that judged */
    const s2_pattern *pattern;
    const s2_device *device;
    s2_pass pass;
    s2_dtype dtype;
    bool e4m3; /* of the cache that a decode step reads */
    int32_t layer;
    int32_t n_like; /* layers of the design that read the same */
    bool plugged;   /* the kernel is somebody else's */
    int64_t len_tok;
    s2_model_scores scores;
    int64_t batch;
    int64_t seed;
    const s2_validation *verdict;
    const s2_finding *all_read;      /* the union property at this length; NULL: not decided */
    s2_telling telling;              /* heads that read what dense ones read at this length */
    const s2_layer_price *predicted; /* NULL: the simulator does not know this GPU or problem */
    const s2_counters *counters;     /* NULL: not requested, or not measured */
    const char *no_counters;         /* why not, if they were requested; else NULL */
} s2_subject;

/* As a page for people. */
void s2_verdict_print(const s2_subject *subject, s2_buf *buf);
void s2_verdict_json(const s2_subject *subject, s2_buf *buf); /* schema s2validate/1, no line end */

/* Totals over several verdicts. */
typedef struct s2_verdict_sum {
    int32_t n;
    int32_t n_ok;
    int64_t pairs;
    int64_t pairs_wrong;
    bool at_least; /* more pairs may be wrong */
    int64_t rows;
    int64_t needles_found;
    int64_t needles_expected;
} s2_verdict_sum;
void s2_verdict_sum_add(s2_verdict_sum *sum, const s2_validation *verdict);
void s2_verdict_sum_print(const s2_verdict_sum *sum, bool json, s2_buf *buf);

/* The rows of a needle grid: a glyph for each depth. */
void s2_needles_heading(s2_buf *buf);
void s2_needles_line(int64_t len_tok, const char *cells, s2_buf *buf);

#endif /* S2_REPORT_VERDICT_H */
