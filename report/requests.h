/*
 * report/requests.h - what `s2 sim --requests` says of a mix of requests, served with the pattern and with the
 * dense one.
 */
#ifndef S2_REPORT_REQUESTS_H
#define S2_REPORT_REQUESTS_H

#include "report/report.h"
#include "sim/requests.h"

/* A page for people; check buf->status. */
void s2_requests_text(const s2_report_subject *subject, const s2_serving *serving,
                      const s2_sim_requests *requests, const s2_served *own, const s2_served *dense,
                      s2_buf *buf);
/* One object with a line end, schema s2requests/1. */
void s2_requests_json(const s2_report_subject *subject, const s2_serving *serving,
                      const s2_sim_requests *requests, const s2_served *own, const s2_served *dense,
                      s2_buf *buf);

#endif /* S2_REPORT_REQUESTS_H */
