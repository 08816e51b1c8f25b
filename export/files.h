/*
 * export/files.h - the files of a foreign format: in memory, read from a directory, written to one.
 *
 * An exporter fills an s2_fileset, and the importer reads that set back for the comparison, so nothing
 * touches the disk before it has been found equal. Importers reach the neighbours of a file (the config next
 * to a table) through an s2_finder.
 *
 * Ownership: names and bytes live in the arena of the set or of the reader. Threads: none shared.
 */
#ifndef S2_EXPORT_FILES_H
#define S2_EXPORT_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

typedef struct s2_file {
    const char *name; /* relative, no directory part that leads upwards */
    const char *bytes;
    size_t n_bytes;
} s2_file;

typedef struct s2_fileset {
    s2_arena *arena;
    s2_file *files;
    int32_t n_files;
    int64_t cap;
} s2_fileset;

/* Copies name and bytes into the arena. */
s2_status s2_fileset_add(s2_fileset *set, const char *name, const char *bytes, size_t n_bytes) S2_MUST_CHECK;
/* As above from a buffer, which is released on every outcome. */
s2_status s2_fileset_add_buf(s2_fileset *set, const char *name, s2_buf *buf) S2_MUST_CHECK;

/* Where an importer finds other files: in a set (when set is not NULL), else under dir. */
typedef struct s2_finder {
    const s2_fileset *set;
    const char *dir;
    const char *path; /* of the imported file, or NULL */
} s2_finder;

/*
 * If s2_fileset_write() wrote the imported file, its whole set must still be as written: S2_EPARSE when an
 * interrupted export, or somebody, changed a part of it.
 */
s2_status s2_finder_check(const s2_finder *finder, s2_arena *arena, s2_diag *diag) S2_MUST_CHECK;

/*
 * A neighbour by its relative name. S2_EIO when there is none; S2_EPARSE for a name that is absolute, leads
 * upwards or has control characters, and for files above max_bytes.
 */
s2_status s2_finder_read(const s2_finder *finder, s2_arena *arena, const char *name, size_t max_bytes,
                         s2_file *out, s2_diag *diag) S2_MUST_CHECK;

/* The largest file that is imported, arrays included. */
#define S2_FILE_BYTES ((size_t)64 << 20)

/* A whole file of at most max_bytes ("-" reads standard input). S2_EIO, S2_EPARSE (too large), S2_ENOMEM. */
s2_status s2_file_read(s2_arena *arena, const char *path, size_t max_bytes, s2_file *out,
                       s2_diag *diag) S2_MUST_CHECK;

/* Write next to the target and rename over it, so that a reader sees the old file or the new one. */
s2_status s2_file_write(const char *path, const char *bytes, size_t n_bytes, s2_diag *diag) S2_MUST_CHECK;

/*
 * Write several files into a directory, made if it is not there. All are written before any gets its name.
 * The list of their hashes (s2.sha256, in sha256sum's format) is named first; the first file of the set,
 * which leads to the others, is named last. An overwritten set is therefore the old one, the new one, or
 * refused by s2_finder_check(). Who writes there at the same time waits for his turn, S2_EIO after 30 s.
 */
s2_status s2_fileset_write(const s2_fileset *set, const char *dir, s2_diag *diag) S2_MUST_CHECK;

/*
 * Several sets that belong together, each into a directory of its own: all are written before any file gets its name,
 * and all lists of hashes are named before any other file. So of sets that were overwritten in part one at least is
 * refused by s2_finder_check(). The directories lie in one that is there.
 */
typedef struct s2_placed_set {
    const s2_fileset *set;
    const char *dir;
} s2_placed_set;
s2_status s2_filesets_write(const s2_placed_set *sets, int32_t n_sets, s2_diag *diag) S2_MUST_CHECK;

/* The directory part of a path ("." when there is none), in the arena; NULL when memory ran out. */
const char *s2_path_dir(s2_arena *arena, const char *path);
/* The last component; never NULL. */
const char *s2_path_base(const char *path);
/* The name to call a config by: its file's, or its folder's if the file is config.json, as most are. */
const char *s2_path_title(s2_arena *arena, const char *path);

#endif /* S2_EXPORT_FILES_H */
