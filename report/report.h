/*
 * report/report.h - an s2_sim as JSON (schema s2sim/1), as a page for people, and as a row of a table.
 *
 * Threads: no state. Check buf->status afterwards.
 */
#ifndef S2_REPORT_REPORT_H
#define S2_REPORT_REPORT_H

#include "base/text.h"
#include "calibrate/public.h"
#include "export/format.h"
#include "pattern/models.h"
#include "reach/worth.h"
#include "sim/price.h"

/* The subject of a report; name is cleaned text, hash the design's. */
typedef struct s2_report_subject {
    const char *name;
    const char *hash;
    const s2_pattern *pattern;
    const s2_sim_options *options;
    const s2_format *format; /* the format of the file it was read from; NULL: our own language */
    const char *not_judged;  /* why it is not worth what its pattern is; NULL: it is */
} s2_report_subject;

/*
 * What a model does to its scores besides scaling, and how times count that; and the member `scores`. Nothing
 * where it only scales.
 */
void s2_report_scores_text(const char *begin, s2_model_scores scores, s2_scored scored, s2_buf *buf);
void s2_report_scores_json(s2_model_scores scores, s2_scored scored, s2_buf *buf);
/*
 * The states of layers that keep some: their size, and what computes them. Without a model no time includes that;
 * with one, that of the scan is a bound. Nothing where no layer keeps one.
 */
void s2_report_states_text(const char *begin, const s2_sim *sim, s2_buf *buf);
void s2_report_states_json(const s2_sim *sim, s2_buf *buf);
/* The error of a prediction; NULL: the time is not one. */
/* "extrapolated": what was asked beyond the measured range; null if it is inside. */
void s2_report_beyond_json(const s2_far *far, s2_buf *buf);
void s2_report_error_json(const s2_error *error, s2_buf *buf);

/* The members that a report of any schema begins with, and the types of its price. */
void s2_report_subject_json(const s2_report_subject *subject, const char *schema, s2_buf *buf);
void s2_report_types_json(const s2_sim_options *options, s2_buf *buf);

/* What a small model learns with the pattern, each figure with its error; null if it was not judged. */
void s2_report_worth_json(const s2_worth *worth, s2_buf *buf);

/* The member `stack` where the subject is a foreign file: what its stack frees, and so keeps. */
void s2_report_stack_json(const s2_report_subject *subject, double kept_bytes, s2_buf *buf);

/* The same for people, and that times are not the stack's. drops: the pattern lets keys go. */
void s2_report_stack_text(const s2_report_subject *subject, bool drops, s2_buf *buf);

/*
 * A line: what the stack of a format makes of a cache that is priced as read from host memory, which is a
 * computation of s2. Only where sim->host_bytes > 0 and format->stack is not NULL.
 */
void s2_report_stack_host(const s2_format *format, const s2_sim *sim, s2_buf *buf);

/* What lies outside of the points measured, without an end of line; only where far->beyond > 0. */
void s2_report_beyond(const s2_far *far, bool measured, s2_buf *buf);

/* One object, without a line end. */
void s2_sim_report_json(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);
void s2_sim_report_text(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);

/* "mxfp4 as published", "fp8 as published but for attention", "fp8", or the type of activations and why. */
void s2_report_weights(const s2_sim_options *options, s2_buf *buf);
/* " bf16, weights int4, cache e4m3": the type, and the others where they are not the same. */
void s2_report_types(const s2_sim_options *options, s2_buf *buf);

/* Several patterns side by side. In a head, batch 0 says that each row has its own. */
void s2_sim_report_table_head(const s2_sim_options *options, s2_buf *buf);
void s2_sim_report_table_row(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);

/* Counts one token per sequence for a decode step, and all tokens of the context for other phases. */
double s2_sim_tokens_per_s(const s2_sim_options *options, double us);

/* Predictions next to published figures: one object (schema s2public/1) with a line end, and tables. */
void s2_report_public_json(const s2_public *published, s2_buf *buf);
void s2_report_public_text(const s2_public *published, s2_buf *buf);

/* --phase all: a heading for each pattern, and a line for each phase. */
void s2_sim_report_phase_head(const char *name, const s2_sim_options *options, s2_buf *buf);
void s2_sim_report_phase_row(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);

#endif /* S2_REPORT_REPORT_H */
