/*
 * words/holed.h - what is said of designs on a front that leave keys unread by every head.
 *
 * All designs compete that the conditions leave, whatever is proved of them: layers of windows between dense ones
 * are such designs. Whoever shows a front says how many of it these are, in these words.
 *
 * Threads: no state.
 */
#ifndef S2_WORDS_HOLED_H
#define S2_WORDS_HOLED_H

#include "base/text.h"

/* Appends "2 of these violate the union: ..."; nothing where n is 0. */
void s2_holed_print(int32_t n, s2_buf *buf);
/* Appends the beginning of that alone, "2 of these violate the union", for the legend of a picture. */
void s2_holed_label(int32_t n, s2_buf *buf);

#endif /* S2_WORDS_HOLED_H */
