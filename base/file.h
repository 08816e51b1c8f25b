/*
 * base/file.h - whole files: read within bounds of bytes and time, written so that no half one is ever found.
 *
 * Failures of the system are S2_EIO with errno saying why, and s2_file_why() in words.
 *
 * Ownership: what was read lives in the arena given. An s2_output that was opened must be closed.
 * Threads: each object belongs to one thread.
 */
#ifndef S2_BASE_FILE_H
#define S2_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * All bytes of a file, or the first limit_bytes + 1 of a larger one; one byte more is allocated and zero.
 * A pipe is waited for 10 seconds at most (errno ETIMEDOUT) and must not be empty (ENODATA), so that neither
 * a pipe without a writer nor one whose writer sleeps holds a script for ever. EISDIR for a directory.
 * S2_ENOMEM.
 */
s2_status s2_bytes_read(s2_arena *arena, const char *path, size_t limit_bytes, char **out,
                        size_t *n_bytes) S2_MUST_CHECK;

/* The same of an open descriptor, which stays open; it is waited for as long as it takes. */
s2_status s2_bytes_read_fd(s2_arena *arena, int fd, size_t limit_bytes, char **out,
                           size_t *n_bytes) S2_MUST_CHECK;

/* What errno says, in words for a person; those of a pipe in ours. */
const char *s2_file_why(int errnum);

/* A file being written. `file` is open for writing between open and close. */
typedef struct s2_output {
    FILE *file;
    char target[4096]; /* links followed */
    char beside[4128]; /* its name until it is whole; empty when it goes to the target directly */
    bool unnamed;      /* it gets even that name at the end, where the file system can */
} s2_output;

/*
 * A regular file is written without a name, or beside its place where the file system cannot, and appears in its place
 * when it is whole; it keeps the mode of the one that it replaces. Links are followed, also to where nothing is yet. A device, a terminal or a pipe is written as it is: renaming over /dev/null would replace
 * the device.
 */
s2_status s2_output_open(s2_output *out, const char *path) S2_MUST_CHECK;

/* End it: kept when `whole`, else what was written beside is removed. S2_EIO: not kept, and nothing is left
 * beside. */
s2_status s2_output_close(s2_output *out, bool whole) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_BASE_FILE_H */
