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

/*
 * Appends "layer 3" or "layers 0::2", all that are alike to this one, where it is the first of them; else appends
 * nothing and returns false. first_alike as s2_layers_alike() fills it.
 */
bool s2_layers_print_alike(const s2_pattern *pattern, const int32_t *first_alike, int32_t layer, s2_buf *buf);

#endif /* S2_WORDS_SIZE_H */
