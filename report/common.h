/*
 * report/common.h - what the JSON, the page and the table of a price say alike.
 *
 * Threads: no state. Check buf->status afterwards.
 */
#ifndef S2_REPORT_COMMON_H
#define S2_REPORT_COMMON_H

#include "report/report.h"

/* The share of the bytes requested from L2 that need not come from device memory. */
double s2_report_hit_rate(const s2_sim *sim);
/* Tokens per second of one side, at its own batch. */
double s2_report_largest_rate(const s2_sim_options *options, const s2_largest *largest, bool dense);
/* "204: 5597 tokens/s; dense 31: 875.8, a ratio of 6.39". */
void s2_report_largest(const s2_sim_options *options, const s2_largest *largest, s2_buf *buf);
/* Tokens per second of a side, NAN where the GPU cannot run it. */
double s2_report_rate(const s2_sim_options *options, const s2_sim *sim, bool dense);
/* Replicas of a training step, or of a model whose experts they share; each has the batch. */
int32_t s2_report_replicas(const s2_sim_options *options);
/* ", 8 GPUs: 2 replicas of 4, each with this batch"; nothing for one GPU. */
void s2_report_gpus(const s2_sim_options *options, s2_buf *buf);
/* Of the parts of that name; 0: there is none. */
double s2_report_part_us(const s2_sim *sim, const char *name);
/* What a bound says of computing states, of which nothing was measured: moving them, and the scan. */
double s2_report_scan_us(const s2_sim *sim);
/* Whether decoding waits for a cache in host memory, so that its time is a bound. */
bool s2_report_reads_host(const s2_sim_options *options, const s2_sim *sim, bool dense);
/* What the pattern is worth at the length of its price; without layers. */
s2_worth s2_report_worth(const s2_report_subject *subject);

/* Begins a line of the page. */
void s2_report_line(const char *label, s2_buf *buf);
/* The lines of the page about memory. */
void s2_report_memory(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf);

#endif /* S2_REPORT_COMMON_H */
