/*
 * explorer/samples.h - designs that `s2 tui` opens on when there is no database: known ones, and broken ones.
 *
 * Threads: constant data.
 */
#ifndef S2_EXPLORER_SAMPLES_H
#define S2_EXPLORER_SAMPLES_H

/* Texts of the pattern language, each with its name; ended by NULL. */
extern const char *const s2_samples[];

#endif /* S2_EXPLORER_SAMPLES_H */
