/*
 * words/explain.h - a finding in words: where, why for each head, how much, a picture, a repair.
 *
 * Text is appended to the caller's buffer, whose status says whether it fits. Threads: no state.
 */
#ifndef S2_WORDS_EXPLAIN_H
#define S2_WORDS_EXPLAIN_H

#include "base/text.h"
#include "coverage/repair.h"

/* Layers as a list that names its ends ("0-31", "1::2"), even when it is all of them. */
void s2_layers_print(const int32_t *layers, int32_t n, s2_buf *buf);

/* "query 1088 (block 17) reads key 64 (block 1) through no head of layer 0"; one line without its end. */
void s2_explain_witness(const s2_pattern *pattern, const s2_finding *finding, s2_buf *buf);

/* " of prefill" behind the earlier query of a witness whose pattern has phases, else nothing. */
void s2_explain_earlier_phase(const s2_pattern *pattern, const s2_witness *witness, s2_buf *buf);

/*
 * For each kind of head in the range: whether query q reads key k, and which term reads it or why each
 * does not. Lines begin with `indent`. S2_ENOMEM.
 */
s2_status s2_explain_pair(const s2_pattern *pattern, s2_phase phase, int32_t layer, s2_range heads,
                          int64_t q_tok, int64_t k_tok, const char *indent, s2_buf *buf) S2_MUST_CHECK;

/* How many pairs of the witness's layer no head reads, at a telling length; nothing if they cannot be
 * counted. */
s2_status s2_explain_extent(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                            s2_buf *buf) S2_MUST_CHECK;

/* Rows of queries by columns of keys around the witness: how many heads read, '.' none, 'X' the witness. */
s2_status s2_explain_picture(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                             s2_buf *buf) S2_MUST_CHECK;

/* For a union that fails in some layers alone: within how many layers every key still reaches every later
 * query, where that is proved; else nothing. */
s2_status s2_explain_depth(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                           s2_buf *buf) S2_MUST_CHECK;

/* What a repair changes, one sentence without its end. */
void s2_repair_print(const s2_repair *repair, s2_buf *buf);

/* Small changes of the pattern under which the property holds for the same scope, each proved; or nothing. */
s2_status s2_explain_repair(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                            s2_buf *buf) S2_MUST_CHECK;

/* Why a verdict is unknown, one line. */
void s2_explain_reason(const s2_finding *finding, s2_buf *buf);

#endif /* S2_WORDS_EXPLAIN_H */
