/*
 * base/file.h - whole files: read within limits of size and time, written so that nobody finds half a file.
 *
 * System failures are S2_EIO; errno says why, and s2_file_why() puts it in words.
 *
 * Ownership: what was read lives in the given arena. An s2_output that was opened must be closed.
 * Threads: each object belongs to one thread.
 */
#ifndef S2_BASE_FILE_H
#define S2_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"

/*
 * Read all bytes of a file, or the first limit_bytes + 1 of a larger one; a zero byte is added at the end.
 * A pipe is waited for at most 10 seconds (errno ETIMEDOUT) and must not be empty (ENODATA), so that neither
 * a pipe without a writer nor one whose writer sleeps blocks a script for ever. EISDIR for a directory,
 * ENODEV for a socket, EMEDIUMTYPE for what s2_file_is_made_up says.
 * What is read of a regular file stood in it at one time: a file that changes meanwhile is read again, and one that
 * changes each time is refused (ETXTBSY). Whether its writer had finished, no reader can tell. S2_ENOMEM.
 */
s2_status s2_bytes_read(s2_arena *arena, const char *path, size_t limit_bytes, char **out,
                        size_t *n_bytes) S2_MUST_CHECK;

/* The same for an open descriptor, which stays open; it waits as long as it takes. */
s2_status s2_bytes_read_fd(s2_arena *arena, int fd, size_t limit_bytes, char **out,
                           size_t *n_bytes) S2_MUST_CHECK;

struct stat;
/* Whether an open file is as it was, for certain: false too where it changed so lately that its time may not say so. */
bool s2_file_is_unchanged(int fd, const struct stat *before);
/*
 * Whether a file holds these bytes from `from` on. Bytes that were read before and are found again stood in it
 * together, between the two.
 */
bool s2_file_still_holds(int fd, int64_t from, const void *data, size_t n_bytes);

/*
 * Whether the kernel makes this file up as it is read (procfs, sysfs and their like). Such a file passes for a regular
 * one, can wait for ever although it was opened not to (of two readers of /proc/kmsg one does), and holds nothing of a
 * user's. A link of /proc/self/fd is what it leads to.
 */
bool s2_file_is_made_up(const char *path);
bool s2_file_is_folder(const char *path); /* false also where nothing has that name */
/* Nothing has that name. False where nobody can tell, as in a folder without rights: who opens it learns why. */
bool s2_file_is_missing(const char *path);

/* What errno says, in words for a person; the errors of a pipe in our own words. */
const char *s2_file_why(int errnum);

/*
 * Where writing to `path` ends up: a link is followed, even to a target that does not exist yet; any other path is
 * kept as it is. S2_EIO: a name is too long, or links lead in a circle.
 */
enum { S2_PATH_BYTES = 4096 };
s2_status s2_link_follow(const char *path, char out[S2_PATH_BYTES]) S2_MUST_CHECK;

/* A file being written. `file` is open for writing between open and close. */
typedef struct s2_output {
    FILE *file;
    char target[S2_PATH_BYTES]; /* links followed */
    char beside[S2_PATH_BYTES +
                32]; /* its draft's name until it is complete; empty when written to the target directly */
    bool unnamed;    /* it gets even that name only at the end, if the file system can do that */
} s2_output;

/*
 * A regular file is written without a name, or as TARGET.s2-tmp next to the target where the file system cannot do
 * that, and is moved to the target once complete; it keeps the mode of the file it replaces. Of two who write one file
 * at once the second waits a moment (EALREADY); what a killed process left of that name is taken away by the next.
 * Links are followed, even dangling ones. A device, a terminal or a pipe is written directly: renaming over
 * /dev/null would replace the device.
 */
s2_status s2_output_open(s2_output *out, const char *path) S2_MUST_CHECK;

/* Open a file to write to it as it goes, from its beginning; a pipe without a reader is waited for a second (ENXIO). */
s2_status s2_stream_open(const char *path, FILE **out) S2_MUST_CHECK;

/* Finish: the file is kept when `whole`, otherwise the temporary one is removed. S2_EIO: not kept, and no
 * temporary file is left. */
s2_status s2_output_close(s2_output *out, bool whole) S2_MUST_CHECK;

#endif /* S2_BASE_FILE_H */
