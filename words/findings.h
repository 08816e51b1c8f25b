/*
 * words/findings.h - what the prover found, as the JSON object that the commands and the library share.
 *
 * Threads: no state.
 */
#ifndef S2_WORDS_FINDINGS_H
#define S2_WORDS_FINDINGS_H

#include "base/text.h"
#include "coverage/prove.h"

/* One s2check/1 object and a line end. S2_ENOMEM. */
s2_status s2_findings_json(const s2_pattern *pattern, const char *name, const s2_finding *findings, int32_t n,
                           int64_t scope_tok, s2_buf *buf) S2_MUST_CHECK;

#endif /* S2_WORDS_FINDINGS_H */
