/*
 * export/registry.h - the table of formats, and the two operations on a row of it.
 *
 * s2_import_run() finds the format of a file and reads it. s2_export_run() writes a pattern, reads the result
 * back with the importer of the same row and compares pair for pair; a format that cannot hold the pattern is
 * refused with the first pair that would differ, or, for formats declared `lossy`, the pairs added and dropped
 * are counted.
 *
 * Ownership: results live in the arena of the source or target.
 * Threads:   no state; one source or target, one thread.
 */
#ifndef S2_EXPORT_REGISTRY_H
#define S2_EXPORT_REGISTRY_H

#include "export/compare.h"
#include "export/format.h"

/* Row n of the table, NULL past its end. */
const s2_format *s2_format_at(int32_t n);
const s2_format *s2_format_find(const char *name);
/* The writable format with the nearest name, and its distance; NULL and S2_NAME_FAR if none is near. */
const s2_format *s2_format_nearest(const char *word, int32_t *distance);
/*
 * The file in a folder that `format` reads there, or any format if NULL, under its usual name: a table next to its
 * config says more than the config does. The path is in the arena; NULL where there is none, or no memory.
 */
const char *s2_format_in_folder(s2_arena *arena, const char *folder, const s2_format *format);
/* Is `key` one that the format knows for `--set`? */
bool s2_format_takes(const s2_format *format, const char *key);

/*
 * Import source->bytes. name NULL: by content; then S2_EUNSUPPORTED means that no format knows it, and that it
 * does not begin as JSON does. *used is set on success. S2_EPARSE with a position; S2_EIO (a neighbour is missing);
 * S2_ENOMEM.
 */
s2_status s2_import_run(s2_source *source, const char *name, const s2_format **used,
                        s2_pattern *out) S2_MUST_CHECK;

typedef struct s2_export_report {
    bool refused; /* the file would not read the same pairs, and the format is not lossy */
    s2_difference difference;
    bool has_loss;
    s2_loss loss;     /* when the format is lossy and something differs */
    s2_pattern again; /* the export, read back */
} s2_export_report;

/*
 * Export, read back, compare. S2_OK with report->refused when the result is not to be written;
 * S2_EUNSUPPORTED when the pattern is not of the format's family (diag says why); S2_EINVAL for a setting;
 * S2_EINTERNAL when the format cannot read back what it wrote.
 */
s2_status s2_export_run(const s2_format *format, s2_target *target, s2_export_report *report) S2_MUST_CHECK;

#endif /* S2_EXPORT_REGISTRY_H */
