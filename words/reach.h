/*
 * words/reach.h - what was measured of a pattern's layers, as s2 reach prints it.
 *
 * Text is appended to the caller's buffer, whose status says whether it fits. Threads: no state.
 */
#ifndef S2_WORDS_REACH_H
#define S2_WORDS_REACH_H

#include "base/text.h"
#include "reach/lengths.h"
#include "reach/measures.h"

/* Hops with their path, the receptive field by layer, readers and flow by distance. */
void s2_reach_tables(const s2_measures *measures, s2_buf *buf);
/* A line or two each: window, flow, retrieval, resident, worth, every length. */
void s2_reach_lines(const s2_measures *measures, const s2_lengths *lengths, s2_buf *buf);

/* What can be said of more than S2_REACH_BLOCKS blocks (reach/beyond.h). */
void s2_reach_beyond_page(const s2_flow *flow, const s2_lengths *lengths, int64_t block_tok, s2_buf *buf);

/* Why nothing is said of every length; NULL where it was decided. */
const char *s2_lengths_why(s2_lengths_answer answer);

/* The figures with their errors, or why there are none; one line without its end. */
void s2_worth_tell(const s2_worth *worth, s2_buf *buf);

#endif /* S2_WORDS_REACH_H */
