/*
 * words/lost.h - the keys that a query does not read, as ranges: per layer through any head, and per KV
 * head.
 */
#ifndef S2_WORDS_LOST_H
#define S2_WORDS_LOST_H

#include "base/text.h"
#include "pattern/spec.h"

/*
 * A line for each kind of layer and each kind of KV head in it. q_tok < S2_LIMIT_CONTEXT_TOK. S2_ENOMEM,
 * S2_ELIMIT; check buf->status too.
 */
s2_status s2_lost_print(const s2_pattern *pattern, int64_t q_tok, s2_buf *buf) S2_MUST_CHECK;

#endif /* S2_WORDS_LOST_H */
