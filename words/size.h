/*
 * words/size.h - the shape of a pattern in a few words.
 *
 * Threads: no state.
 */
#ifndef S2_WORDS_SIZE_H
#define S2_WORDS_SIZE_H

#include "base/text.h"
#include "pattern/spec.h"

/* Appends "1 layer, 32 heads on 8 KV heads", plus layers that keep a state or read another layer's keys. */
void s2_pattern_print_size(const s2_pattern *pattern, s2_buf *buf);

/* Appends "8 KV heads", or "2 to 8 KV heads" where layers have numbers of their own. */
void s2_pattern_print_kv_heads(const s2_pattern *pattern, s2_buf *buf);

#endif /* S2_WORDS_SIZE_H */
