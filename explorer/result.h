/*
 * explorer/result.h - a stored result in words, for screens, pictures and pages.
 *
 * What a database holds may come from anywhere: the texts are as stored, and whoever shows them cleans them.
 *
 * Threads: no state.
 */
#ifndef S2_EXPLORER_RESULT_H
#define S2_EXPLORER_RESULT_H

#include "base/text.h"
#include "db/db.h"

/* What it is of: a property, a phase, an outcome, a format, or "note". */
const char *s2_result_word(const s2_db_result *result);

/* What was found, on one line; of a note its body. */
void s2_result_print(const s2_db_result *result, s2_buf *buf);

#endif /* S2_EXPLORER_RESULT_H */
