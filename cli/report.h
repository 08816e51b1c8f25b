/*
 * cli/report.h - an s2_sim as JSON (schema s2sim/1), as a page for people, and as a row of a table.
 *
 * Threads: no state. Check buf->status afterwards.
 */
#ifndef S2_CLI_REPORT_H
#define S2_CLI_REPORT_H

#include "base/text.h"
#include "calibrate/public.h"
#include "export/format.h"
#include "reach/worth.h"
#include "sim/price.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a report is about; name is cleaned text, hash the design's. */
typedef struct s2_report_subject {
    const char *name;
    const char *hash;
    const s2_pattern *pattern;
    const s2_sim_options *options;
    const s2_format *format; /* of the file that it was read from; NULL: it is a pattern of our own */
} s2_report_subject;

/* Rounded to what a person may rely on, so that equal inputs give equal and short text. */
double s2_rounded(double value);

/* What the model does to its scores beside scaling them, which no time counts: a line, or nothing. */
void s2_report_scores(const s2_report_subject *subject, s2_buf *buf);

/* What a small model learns with it, each figure with its error; an object, or null where it is not judged. */
void s2_report_worth_json(const s2_worth *worth, s2_buf *buf);
void s2_report_worth_text(const s2_worth *worth, s2_buf *buf);

/* One object, without a line end. */
void s2_sim_report_json(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);
void s2_sim_report_text(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);

/* Several patterns side by side. */
void s2_sim_report_table_head(const s2_sim_options *options, s2_buf *buf);
void s2_sim_report_table_row(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);

/* What a stack that frees nothing keeps of the cache on all GPUs: every page. */
double s2_sim_all_pages_bytes(const s2_sim_options *options, const s2_sim *sim);

/* Counts one token a sequence for a decode step, all tokens of the context for any other. */
double s2_sim_tokens_per_s(const s2_sim_options *options, double us);

/* Predictions beside published figures: one object (schema s2public/1) with a line end, and tables. */
void s2_report_public_json(const s2_public *published, s2_buf *buf);
void s2_report_public_text(const s2_public *published, s2_buf *buf);

/* --phase all: a head for each pattern, and a line for each phase. */
void s2_sim_report_phase_head(const char *name, const s2_sim_options *options, s2_buf *buf);
void s2_sim_report_phase_row(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);

#ifdef __cplusplus
}
#endif
#endif /* S2_CLI_REPORT_H */
