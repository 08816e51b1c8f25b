/*
 * export/origin.h - whether a file that s2 wrote is still as it was written.
 *
 * Such a file names the pattern that it was written from (its member "s2"). If its pattern, under that
 * name, has the stated hash, it is that design, whatever the file is called. A later change is noticed
 * because the values no longer have the hash `contents`.
 *
 * Ownership: results live in the arena of the source. Threads: no state.
 */
#ifndef S2_EXPORT_ORIGIN_H
#define S2_EXPORT_ORIGIN_H

#include "export/format.h"

/*
 * Give the pattern that was read the name, and the model, that the file's configuration states, if it is that
 * design; else warn if the file was changed. S2_ENOMEM.
 */
s2_status s2_origin_apply(const s2_source *source, const s2_doc *doc, s2_pattern *pattern) S2_MUST_CHECK;

/*
 * For files that are not configurations: print, after `before`, a line with the hash of everything that will
 * follow the comment it is in; and warn where that hash no longer matches.
 */
void s2_origin_seal(s2_buf *buf, const char *before, const char *covered, size_t n_bytes);
void s2_origin_check_seal(const s2_source *source, const char *comment_end);

#endif /* S2_EXPORT_ORIGIN_H */
