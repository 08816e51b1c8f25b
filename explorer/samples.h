/*
 * explorer/samples.h - designs that `s2 tui` shows when there is no database: known ones and broken ones.
 *
 * Threads: constant data.
 */
#ifndef S2_EXPLORER_SAMPLES_H
#define S2_EXPLORER_SAMPLES_H

/* Patterns in the pattern language, each with its name; the last is NULL. */
extern const char *const s2_samples[];

#endif /* S2_EXPLORER_SAMPLES_H */
