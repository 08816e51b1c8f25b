/*
 * explorer/result.h - a stored result in words, for screens, pictures and pages.
 *
 * A database may come from anywhere: the texts are as stored, and the caller must clean them for display.
 *
 * Threads: no state.
 */
#ifndef S2_EXPLORER_RESULT_H
#define S2_EXPLORER_RESULT_H

#include "base/text.h"
#include "db/db.h"

/* One word for it: a property, a phase, an outcome, a format, or "note". */
const char *s2_result_word(const s2_db_result *result);

/* What was found, on one line; for a note, its body. */
void s2_result_print(const s2_db_result *result, s2_buf *buf);

#endif /* S2_EXPLORER_RESULT_H */
