/*
 * report/found_words.h - what the files behind report/found.h share; nothing else includes it.
 *
 * found_show.c puts the page together: counts, how times were compared, the table. found_winner.c says what the first
 * design is and gives up, found_times.c what it takes in a phase. Threads: no state.
 */
#ifndef S2_REPORT_FOUND_WORDS_H
#define S2_REPORT_FOUND_WORDS_H

#include "report/found.h"

#define S2_OWN_WORDS   "the model's own layers"
#define S2_DENSE_WORDS "dense attention"

/* A bound among predictions; where all are bounds, a line above the table says so. */
bool s2_found_odd_bound(const s2_found *found, const s2_found_design *design, s2_objective objective);

/* The times of one phase, against those of the rivals, and whether a training step fits. */
s2_status s2_found_put_phase(const s2_found *found, const s2_found_design *best, int32_t p,
                             s2_buf *buf) S2_MUST_CHECK;

/* The best design: its times by phase, and what it gains and gives up against each rival. S2_ENOMEM. */
s2_status s2_found_put_winner(const s2_found *found, s2_buf *buf) S2_MUST_CHECK;

/* Every design of the front loses to what the model would do without s2: say so, and by how much the best. */
void s2_found_put_nothing(const s2_found *found, s2_buf *buf);

#endif /* S2_REPORT_FOUND_WORDS_H */
