/*
 * words/difference.h - how two patterns differ, in a sentence.
 *
 * Threads: no state.
 */
#ifndef S2_WORDS_DIFFERENCE_H
#define S2_WORDS_DIFFERENCE_H

#include "export/compare.h"

/* One sentence without its end, appended to *buf; the names are what the sentence calls the two patterns. */
void s2_difference_print(const s2_difference *difference, const char *first_name, const char *second_name,
                         s2_buf *buf);

#endif /* S2_WORDS_DIFFERENCE_H */
