/*
 * words/error.h - what is said of an error of predictions: which one it is, and on how many points.
 *
 * A mean reads as a limit wherever nothing says that it is one, so no page prints the number without these words.
 *
 * Threads: no state.
 */
#ifndef S2_WORDS_ERROR_H
#define S2_WORDS_ERROR_H

#include "base/text.h"
#include "sim/model.h"

/*
 * Appends "mean error 3.3 % on 110 points held out", with `spread` also what nine in ten stay within and the
 * largest; or what is allowed for where no error was measured; or that none is known.
 */
void s2_error_print(const s2_error *error, bool spread, s2_buf *buf);

/* Appends "mean error 3.3 %", "30 % allowed" or "no error known"; where it is narrow "3.3 % mean",
 * "30 % allowed", "error ?". */
void s2_error_print_short(const s2_error *error, bool narrow, s2_buf *buf);

#endif /* S2_WORDS_ERROR_H */
