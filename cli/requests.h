/*
 * cli/requests.h - `s2 sim --requests`: a mix of requests, served with the pattern and with the dense one.
 */
#ifndef S2_CLI_REQUESTS_H
#define S2_CLI_REQUESTS_H

#include "cli/limit.h"
#include "report/report.h"
#include "sim/requests.h"

/* S2_EXIT_OK, or the exit code after a message. */
s2_exit s2_requests_read(s2_cli *cli, const char *path, s2_sim_requests *out);

/* Tokens of the longest request, prompt and output. */
int64_t s2_requests_longest(const s2_sim_requests *requests);

/* Serves both sides and prints a page, or a JSON object. Its steps are the pattern's part of the pool. */
s2_exit s2_requests_answer(s2_cli *cli, const s2_report_subject *subject, const s2_serving *serving,
                           const s2_sim_requests *requests, s2_limit_pool *pool, bool json);

#endif /* S2_CLI_REQUESTS_H */
