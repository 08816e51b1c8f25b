/*
 * export/slip.h - misspelt keys: what an importer looked for in vain, next to a key that nobody looked for.
 *
 * Threads: no state.
 */
#ifndef S2_EXPORT_SLIP_H
#define S2_EXPORT_SLIP_H

#include "export/format.h"

/* For a number missing under all of its names: S2_EPARSE at a key that misspells one, else S2_OK. */
s2_status s2_slip_refuse(const s2_source *source, const char *prefix, const char *const *names) S2_MUST_CHECK;

/* Warn of every key that was not read and is spelt nearly like a missing one. */
void s2_slips_say(const s2_source *source);

/* Warn of every key that says what a layer reads, in the formats known here, and that was not read. */
void s2_unread_say(const s2_source *source);

/* Warn of every other key that has a window in its name and was not read. */
void s2_windows_say(const s2_source *source);

#endif /* S2_EXPORT_SLIP_H */
