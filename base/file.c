#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    PIPE_WAIT_MS = 10000,
    PARTNER_WAIT_MS = 1000,
    RETRY_MS = 10,
    DRAFT_WAIT_MS = 2000,
    FIRST_BYTES = 1 << 16
};
enum { RECENT_S = 2, MOST_READINGS = 5 };

static s2_status io_error(int error)
{
    errno = error;
    return error == ENOMEM ? S2_ENOMEM : S2_EIO;
}

/* Wait until fd has bytes or its end; false at the deadline. deadline_ms < 0: for ever. */
static bool wait_readable(int fd, int64_t deadline_ms)
{
    for (;;) {
        const int64_t left = deadline_ms < 0 ? -1 : deadline_ms - s2_steady_ms();
        if (deadline_ms >= 0 && left <= 0)
            return false;
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        const int n = poll(&entry, 1, (int)left);
        if (n > 0 || (n < 0 && errno != EINTR))
            return true;
    }
}

/* Grows with what arrives: a size is only a hint, since pipes and devices have none and files change. */
static s2_status read_all(s2_arena *arena, int fd, size_t limit_bytes, size_t hint_bytes, int64_t deadline_ms,
                          char **out, size_t *n_bytes)
{
    const size_t most = limit_bytes + 1;
    size_t cap = hint_bytes < most ? hint_bytes + 1 : most, n = 0;
    char *data = s2_arena_alloc(arena, cap + 1, 1);
    bool patient = deadline_ms >= 0;
    while (data != NULL) {
        const ssize_t got = read(fd, data + n, cap - n);
        if (got == 0 && n == 0 && patient) {
            /* a pipe whose writer may be about to open it; other files wait for nothing. Reading again shows
             * a writer that has opened but not written yet, which is waited for like any other. */
            patient = false;
            (void)wait_readable(fd, s2_steady_ms() + PARTNER_WAIT_MS);
            continue;
        }
        if (got > 0)
            n += (size_t)got;
        else if (got < 0 && errno == EAGAIN && !wait_readable(fd, deadline_ms))
            return io_error(ETIMEDOUT);
        else if (got < 0 && errno != EAGAIN && errno != EINTR)
            return io_error(errno);
        if (got == 0 || n == most) {
            data[n] = '\0';
            *out = data;
            *n_bytes = n;
            return S2_OK;
        }
        if (n == cap) {
            cap = cap < most / 2 ? cap * 2 : most;
            data = s2_arena_grow(arena, data, n, cap + 1, 1);
        }
    }
    return S2_ENOMEM;
}

/* Times have the grain of a file system, up to two seconds: only one that is older says that nothing changed since. */
bool s2_file_is_unchanged(int fd, const struct stat *before)
{
    struct stat now;
    struct timespec clock;
    return fstat(fd, &now) == 0 && clock_gettime(CLOCK_REALTIME, &clock) == 0 &&
           now.st_size == before->st_size && now.st_ctim.tv_sec == before->st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == before->st_ctim.tv_nsec && clock.tv_sec - now.st_ctim.tv_sec > RECENT_S;
}

bool s2_file_still_holds(int fd, int64_t from, const void *data, size_t n_bytes)
{
    char again[4096];
    size_t n = 0;
    while (n < n_bytes) {
        const size_t left = n_bytes - n, ask = left < sizeof again ? left : sizeof again;
        const ssize_t got = pread(fd, again, ask, from + (int64_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || memcmp(again, (const char *)data + n, (size_t)got) != 0)
            return false;
        n += (size_t)got;
    }
    return true;
}

/* Reads a regular file again until what was read stood in it at one time. */
static s2_status read_whole(s2_arena *arena, int fd, const struct stat *before, size_t limit_bytes,
                            int64_t deadline_ms, char **out, size_t *n_bytes)
{
    const int64_t from = S_ISREG(before->st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    for (int nth = 0; nth < MOST_READINGS; nth++) {
        s2_arena_rewind(arena, mark);
        S2_TRY(read_all(arena, fd, limit_bytes,
                        S_ISREG(before->st_mode) ? (size_t)before->st_size : FIRST_BYTES, deadline_ms, out,
                        n_bytes));
        if (from < 0 || s2_file_is_unchanged(fd, before) || s2_file_still_holds(fd, from, *out, *n_bytes))
            return S2_OK;
        if (lseek(fd, from, SEEK_SET) < 0)
            return io_error(errno);
    }
    return io_error(ETXTBSY);
}

s2_status s2_bytes_read_fd(s2_arena *arena, int fd, size_t limit_bytes, char **out, size_t *n_bytes)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return io_error(errno);
    return read_whole(arena, fd, &info, limit_bytes, -1, out, n_bytes);
}

bool s2_file_is_made_up(const char *path)
{
    struct statfs where;
    return statfs(path, &where) == 0 && (where.f_type == PROC_SUPER_MAGIC || where.f_type == SYSFS_MAGIC ||
                                         where.f_type == DEBUGFS_MAGIC || where.f_type == TRACEFS_MAGIC ||
                                         where.f_type == SECURITYFS_MAGIC);
}

/* Opens without blocking: opening a pipe without a writer would wait for one. */
s2_status s2_bytes_read(s2_arena *arena, const char *path, size_t limit_bytes, char **out, size_t *n_bytes)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return io_error(errno == ENXIO ? ENODEV : errno);
    struct stat info;
    char *data = NULL;
    size_t n = 0;
    s2_status status = S2_OK;
    if (fstat(fd, &info) != 0)
        status = io_error(errno);
    else if (S_ISDIR(info.st_mode))
        status = io_error(EISDIR);
    else if (S_ISREG(info.st_mode) && s2_file_is_made_up(path))
        status = io_error(EMEDIUMTYPE);
    else
        status = read_whole(arena, fd, &info, limit_bytes, s2_steady_ms() + PIPE_WAIT_MS, &data, &n);
    if (status == S2_OK && n == 0 && S_ISFIFO(info.st_mode))
        status = io_error(ENODATA);
    const int error = errno;
    close(fd);
    errno = error;
    if (status == S2_OK) {
        *out = data;
        *n_bytes = n;
    }
    return status;
}

const char *s2_file_why(int errnum)
{
    switch (errnum) {
    case ETIMEDOUT: return "nothing was written to this pipe for 10 seconds";
    case ENODATA: return "nothing was written to this pipe";
    case ETXTBSY: return "it changed each time that it was read";
    case ENODEV: return "a socket, or a device that is not there";
    case EMEDIUMTYPE: return "the kernel makes it up as it is read: it is no file of a user";
    case ENXIO: return "nobody reads this pipe";
    case EALREADY: return "another process writes it";
    default: return strerror(errnum);
    }
}

/* A pipe without a reader cannot be opened (ENXIO); one may be about to open it. */
static s2_status open_directly(const char *path, int flags, FILE **out)
{
    const int64_t deadline_ms = s2_steady_ms() + PARTNER_WAIT_MS;
    int fd = -1;
    while ((fd = open(path, flags | O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666)) < 0 &&
           errno == ENXIO && s2_steady_ms() < deadline_ms)
        nanosleep(&(struct timespec){0, RETRY_MS * 1000000}, NULL);
    if (fd < 0)
        return io_error(errno);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    *out = fdopen(fd, "w");
    if (*out != NULL)
        return S2_OK;
    close(fd);
    return S2_ENOMEM;
}

s2_status s2_stream_open(const char *path, FILE **out)
{
    return open_directly(path, O_CREAT | O_TRUNC, out);
}

s2_status s2_link_follow(const char *path, char out[S2_PATH_BYTES])
{
    enum { MOST_LINKS = 40 };
    char link[S2_PATH_BYTES];
    if (snprintf(out, S2_PATH_BYTES, "%s", path) >= S2_PATH_BYTES)
        return io_error(ENAMETOOLONG);
    for (int n_links = 0; n_links < MOST_LINKS; n_links++) {
        const ssize_t n = readlink(out, link, sizeof link - 1);
        if (n < 0)
            return S2_OK;
        link[n] = '\0';
        char *const slash = strrchr(out, '/');
        const size_t n_dir = link[0] == '/' || slash == NULL ? 0 : (size_t)(slash + 1 - out);
        if (n_dir + (size_t)n >= S2_PATH_BYTES)
            return io_error(ENAMETOOLONG);
        memcpy(out + n_dir, link, (size_t)n + 1);
    }
    return io_error(ELOOP);
}

/* A file without a name, which nobody has to remove when this process is killed; -1 if unsupported. */
static int open_unnamed(const char *target)
{
    char dir[S2_PATH_BYTES];
    const char *const slash = strrchr(target, '/');
    if (access("/proc/self/fd", X_OK) != 0)
        return -1;
    snprintf(dir, sizeof dir, "%.*s",
             slash == NULL     ? 1
             : slash == target ? 1
                               : (int)(slash - target),
             slash == NULL ? "." : target);
    return open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

static bool has_name(int fd, const char *path)
{
    struct stat opened, named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/*
 * Takes away the name of a draft that nobody has locked: a killed process left it. One that is being written is waited
 * for. Where the file system has no locks every draft counts as left: its writer then finds its name gone, and says so.
 */
static bool clear_draft(const char *beside, int64_t deadline_ms)
{
    const int fd = open(beside, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT;
    bool busy;
    while ((busy = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) && s2_steady_ms() < deadline_ms)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    const bool gone = !busy && (!has_name(fd, beside) || unlink(beside) == 0);
    const int error = busy ? EALREADY : errno;
    close(fd);
    errno = error;
    return gone;
}

static int open_named(const char *beside)
{
    const int64_t deadline_ms = s2_steady_ms() + DRAFT_WAIT_MS;
    for (;;) {
        const int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && (errno != EEXIST || !clear_draft(beside, deadline_ms)))
            return -1;
        const bool locked = fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
        if (locked && has_name(fd, beside))
            return fd;
        if (fd >= 0)
            close(fd); /* somebody took it for a left one before it was locked */
    }
}

static s2_status open_beside(s2_output *out, const char *path, const struct stat *old)
{
    S2_TRY(s2_link_follow(path, out->target));
    if (snprintf(out->beside, sizeof out->beside, "%s.s2-tmp", out->target) >= (int)sizeof out->beside)
        return io_error(ENAMETOOLONG);
    int fd = open_unnamed(out->target);
    out->unnamed = fd >= 0;
    if (fd < 0)
        fd = open_named(out->beside);
    if (fd < 0)
        return io_error(errno);
    if (old != NULL && fchmod(fd, old->st_mode & 07777) != 0) {
        /* we may not be allowed to set the mode of somebody else's file */
    }
    out->file = fdopen(fd, "w");
    if (out->file != NULL)
        return S2_OK;
    close(fd);
    if (!out->unnamed)
        remove(out->beside);
    return S2_ENOMEM;
}

s2_status s2_output_open(s2_output *out, const char *path)
{
    s2_output made = {0};
    struct stat old;
    const bool exists = stat(path, &old) == 0;
    if (exists && S_ISDIR(old.st_mode))
        return io_error(EISDIR);
    const s2_status status = exists && !S_ISREG(old.st_mode) ? open_directly(path, 0, &made.file)
                                                             : open_beside(&made, path, exists ? &old : NULL);
    if (status == S2_OK)
        *out = made;
    return status;
}

/* Data must be on disk before the file gets its name. Pipes and devices have no disk. */
static int end_of_writing(FILE *file)
{
    int error = fflush(file) != 0 || ferror(file) != 0 ? (errno != 0 ? errno : EIO) : 0;
    if (error == 0 && fsync(fileno(file)) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
        error = errno;
    return error;
}

/* Give a file without a name that of its draft, which nothing but the draft of another process may have. */
static int name_it(s2_output *out)
{
    const int64_t deadline_ms = s2_steady_ms() + DRAFT_WAIT_MS;
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fileno(out->file));
    (void)flock(fileno(out->file), LOCK_EX | LOCK_NB);
    while (linkat(AT_FDCWD, self, AT_FDCWD, out->beside, AT_SYMLINK_FOLLOW) != 0)
        if (errno != EEXIST || !clear_draft(out->beside, deadline_ms))
            return errno;
    out->unnamed = false;
    return 0;
}

s2_status s2_output_close(s2_output *out, bool whole)
{
    int error = end_of_writing(out->file);
    const bool beside = out->beside[0] != '\0';
    if (beside && error == 0 && whole && out->unnamed)
        error = name_it(out);
    if (beside && error == 0 && whole && rename(out->beside, out->target) != 0)
        error = errno;
    if (beside && !out->unnamed && (error != 0 || !whole))
        remove(out->beside);
    if (fclose(out->file) != 0 && error == 0) /* last, as that ends the lock of the draft */
        error = errno;
    out->file = NULL;
    return error == 0 || !whole ? S2_OK : io_error(error);
}

bool s2_file_is_missing(const char *path)
{
    return access(path, F_OK) != 0 && errno == ENOENT;
}

bool s2_file_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}
