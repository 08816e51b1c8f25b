/*
 * export/origin.h - whether a file that s2 wrote still is what was written.
 *
 * Such a file names the pattern that it was written from (its member "s2"). One whose pattern, under that name, has the
 * hash that it states is that design, whatever the file is called. One that was changed since is noticed: its values no
 * longer have the hash `contents`.
 *
 * Ownership: results live in the arena of the source. Threads: no state.
 */
#ifndef S2_EXPORT_ORIGIN_H
#define S2_EXPORT_ORIGIN_H

#include "export/format.h"

/*
 * Give what was read the name that the file's configuration states, where it is the design that it names; else warn, if
 * the file was changed. S2_ENOMEM.
 */
s2_status s2_origin_apply(const s2_source *source, const s2_doc *doc, s2_pattern *pattern) S2_MUST_CHECK;

/*
 * For files that are no configuration: a line, after `before`, with the hash of all that will stand behind the comment
 * that it is part of, and a warning where that is no longer so.
 */
void s2_origin_seal(s2_buf *buf, const char *before, const char *covered, size_t n_bytes);
void s2_origin_check_seal(const s2_source *source, const char *comment_end);

#endif /* S2_EXPORT_ORIGIN_H */
