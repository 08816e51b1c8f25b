#include "export/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "export/doc.h"

s2_status s2_fileset_add(s2_fileset *set, const char *name, const char *bytes, size_t n_bytes)
{
    S2_TRY(S2_ARENA_ROOM(set->arena, set->files, set->n_files, set->cap));
    const char *const kept_name = s2_arena_strndup(set->arena, name, strlen(name));
    char *const kept = s2_arena_alloc(set->arena, n_bytes + 1, 1);
    if (kept_name == NULL || kept == NULL)
        return S2_ENOMEM;
    if (n_bytes != 0)
        memcpy(kept, bytes, n_bytes);
    set->files[set->n_files++] = (s2_file){kept_name, kept, n_bytes};
    return S2_OK;
}

s2_status s2_fileset_add_buf(s2_fileset *set, const char *name, s2_buf *buf)
{
    s2_status status = buf->status;
    if (status == S2_OK)
        status = s2_fileset_add(set, name, buf->data, buf->len);
    s2_buf_release(buf);
    return status;
}

static const s2_file *fileset_find(const s2_fileset *set, const char *name)
{
    for (int32_t f = 0; f < set->n_files; f++)
        if (strcmp(set->files[f].name, name) == 0)
            return &set->files[f];
    return NULL;
}

static s2_status io_refuse(s2_diag *diag, const char *what, const char *path)
{
    return s2_diag_set(diag, S2_EIO, S2_CODE_FOREIGN, 0, 0, "%s %s: %s", what, path, s2_file_why(errno));
}

s2_status s2_file_read(s2_arena *arena, const char *path, size_t max_bytes, s2_file *out, s2_diag *diag)
{
    char *bytes;
    size_t n_bytes;
    const s2_status status = strcmp(path, "-") == 0
                                 ? s2_bytes_read_fd(arena, STDIN_FILENO, max_bytes, &bytes, &n_bytes)
                                 : s2_bytes_read(arena, path, max_bytes, &bytes, &n_bytes);
    if (status == S2_EIO)
        return io_refuse(diag, "cannot read", path);
    if (status == S2_OK && n_bytes > max_bytes)
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "%s is larger than %zu MiB", path,
                           max_bytes >> 20);
    if (status == S2_OK)
        *out = (s2_file){s2_path_base(path), bytes, n_bytes};
    return status;
}

static bool name_is_safe(const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20)
            return false;
    const char *up = name;
    while ((up = strstr(up, "..")) != NULL) {
        if ((up == name || up[-1] == '/') && (up[2] == '/' || up[2] == '\0'))
            return false;
        up += 2;
    }
    return name[0] != '/' && name[0] != '\0';
}

s2_status s2_finder_read(const s2_finder *finder, s2_arena *arena, const char *name, size_t max_bytes,
                         s2_file *out, s2_diag *diag)
{
    if (!name_is_safe(name))
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "the file names a neighbour outside its own directory; give that file itself");
    if (finder->set != NULL) {
        const s2_file *const found = fileset_find(finder->set, name);
        if (found == NULL)
            return s2_diag_set(diag, S2_EIO, S2_CODE_FOREIGN, 0, 0, "%s is not in the set", name);
        *out = *found;
        return S2_OK;
    }
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s", finder->dir != NULL ? finder->dir : ".", name);
    if (n < 0 || (size_t)n >= sizeof path)
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "the name of a neighbour is too long");
    return s2_file_read(arena, path, max_bytes, out, diag);
}

s2_status s2_file_write(const char *path, const char *bytes, size_t n_bytes, s2_diag *diag)
{
    s2_output output;
    s2_status status = s2_output_open(&output, path);
    if (status == S2_OK) {
        fwrite(bytes, 1, n_bytes, output.file);
        status = s2_output_close(&output, true);
    }
    return status == S2_EIO ? io_refuse(diag, "cannot write", path) : status;
}

/* ---- sets of files */

static const char SUMS[] = "s2.sha256";
enum { HEX = SHA256_DIGEST_STRING_LENGTH - 1, SUMS_BYTES = 1 << 20, TURN_MS = 30000 };

static s2_status put_sums(s2_fileset *with, const s2_fileset *set)
{
    s2_buf text = {0};
    for (int32_t f = 0; f < set->n_files; f++) {
        char hash[HEX + 1];
        SHA256Data((const uint8_t *)set->files[f].bytes, set->files[f].n_bytes, hash);
        s2_buf_printf(&text, "%s  %s\n", hash, set->files[f].name);
    }
    return s2_fileset_add_buf(with, SUMS, &text);
}

/* Write a file that has no name yet. */
static s2_status open_file(const s2_file *file, const char *dir, s2_output *out, s2_diag *diag)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", dir, file->name) >= (int)sizeof path)
        return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "the name of the directory is too long");
    const s2_status status = s2_output_open(out, path);
    if (status == S2_OK)
        fwrite(file->bytes, 1, file->n_bytes, out->file);
    return status == S2_EIO ? io_refuse(diag, "cannot write", path) : status;
}

static s2_status name_file(s2_output *out, bool whole, s2_diag *diag)
{
    if (out->file != NULL && fflush(out->file) != 0)
        whole = false;
    const int error = errno;
    const s2_status status = s2_output_close(out, whole);
    if (whole)
        return status == S2_EIO ? io_refuse(diag, "cannot write", out->target) : status;
    errno = error;
    return S2_EIO;
}

/* A directory that was made for a set goes with it; in one that was there, the files' hashes tell a part of a set. */
static void remove_made(const s2_fileset *set, const char *dir)
{
    char path[4096];
    for (int32_t f = 0; f < set->n_files; f++)
        if (snprintf(path, sizeof path, "%s/%s", dir, set->files[f].name) < (int)sizeof path)
            unlink(path);
    rmdir(dir);
}

/*
 * Two who write a set into one directory take turns, or the names of both would mix. *fd is a lock on the directory
 * itself, which closing it ends; -1 where its file system has none.
 */
static s2_status take_turn(const char *dir, int *fd, s2_diag *diag)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    const int64_t deadline_ms = s2_steady_ms() + TURN_MS;
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (*fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        const bool busy = errno == EWOULDBLOCK || errno == EINTR;
        if (busy && s2_steady_ms() < deadline_ms) {
            nanosleep(&pause, NULL);
            continue;
        }
        close(*fd);
        *fd = -1;
        if (busy)
            return s2_diag_set(diag, S2_EIO, 0, 0, 0, "%s: another export writes there", dir);
    }
    return S2_OK;
}

static bool has_set(const char *dir)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", dir, SUMS) < (int)sizeof path && access(path, F_OK) == 0;
}

/* One of several sets while it is written. */
typedef struct placing {
    const char *dir;
    s2_fileset with; /* its files and, last, the list of their hashes */
    s2_output *outs;
    int32_t n_open; /* the first so many are open */
    bool made;      /* the directory */
    int turn;
} placing;

static s2_status begin_set(s2_arena *arena, const s2_placed_set *placed, placing *p, s2_diag *diag)
{
    *p = (placing){.dir = placed->dir, .with = {.arena = arena}, .turn = -1};
    p->made = mkdir(p->dir, 0777) == 0;
    if (!p->made && errno != EEXIST)
        return io_refuse(diag, "cannot make", p->dir);
    S2_TRY(take_turn(p->dir, &p->turn, diag));
    p->made = p->made && !has_set(p->dir); /* by another, whose turn was first */
    for (int32_t f = 0; f < placed->set->n_files; f++) {
        const s2_file *const file = &placed->set->files[f];
        S2_TRY(s2_fileset_add(&p->with, file->name, file->bytes, file->n_bytes));
    }
    S2_TRY(put_sums(&p->with, placed->set));
    p->outs = S2_NEW(arena, s2_output, p->with.n_files);
    return p->outs != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status fill_set(placing *p, s2_diag *diag)
{
    for (; p->n_open < p->with.n_files; p->n_open++)
        S2_TRY(open_file(&p->with.files[p->n_open], p->dir, &p->outs[p->n_open], diag));
    for (int32_t f = 0; f < p->n_open; f++)
        if (fflush(p->outs[f].file) != 0)
            return io_refuse(diag, "cannot write", p->outs[f].target);
    return S2_OK;
}

/* Names, or after a failure drops, the last open files down to the one at `end`. */
static s2_status close_files(placing *p, int32_t end, s2_status status, s2_diag *diag)
{
    for (; p->n_open > end; p->n_open--) {
        const s2_status closed = name_file(&p->outs[p->n_open - 1], status == S2_OK, diag);
        status = status == S2_OK ? closed : status;
    }
    return status;
}

static s2_status write_sets(s2_arena *arena, const s2_placed_set *sets, placing *p, int32_t *n_begun,
                            int32_t n_sets, s2_diag *diag)
{
    s2_status status = S2_OK;
    for (; *n_begun < n_sets && status == S2_OK; (*n_begun)++)
        status = begin_set(arena, &sets[*n_begun], &p[*n_begun], diag);
    for (int32_t n = 0; n < n_sets && status == S2_OK; n++)
        status = fill_set(&p[n], diag);
    for (int32_t n = 0; n < n_sets && status == S2_OK; n++)
        status = close_files(&p[n], p[n].n_open - 1, status, diag); /* the list of hashes */
    for (int32_t n = 0; n < *n_begun; n++)
        status = close_files(&p[n], 0, status, diag);
    return status;
}

s2_status s2_filesets_write(const s2_placed_set *sets, int32_t n_sets, s2_diag *diag)
{
    s2_arena arena = {0};
    int32_t n_begun = 0;
    placing *const p = S2_NEW(&arena, placing, n_sets);
    const s2_status status = p != NULL ? write_sets(&arena, sets, p, &n_begun, n_sets, diag) : S2_ENOMEM;
    for (int32_t n = 0; n < n_begun; n++) {
        if (p[n].made && status != S2_OK)
            remove_made(&p[n].with, p[n].dir);
        if (p[n].turn >= 0)
            close(p[n].turn);
    }
    s2_arena_release(&arena);
    return status;
}

s2_status s2_fileset_write(const s2_fileset *set, const char *dir, s2_diag *diag)
{
    const s2_placed_set placed = {set, dir};
    return s2_filesets_write(&placed, 1, diag);
}

/* The next line "HASH  NAME"; NULL at the end, or at a line that is not of this form. */
static const char *next_sum(const char **rest, char *name, size_t room)
{
    const char *const line = *rest;
    const size_t n = strcspn(line, "\n");
    if (n < HEX + 3 || n - HEX - 2 >= room || strspn(line, "0123456789abcdef") != HEX)
        return NULL;
    snprintf(name, room, "%.*s", (int)(n - HEX - 2), line + HEX + 2);
    *rest += n + (line[n] == '\n');
    return line;
}

static s2_status check_sums(const s2_finder *finder, s2_arena *arena, const char *sums, s2_diag *diag)
{
    char name[1024], hash[HEX + 1];
    for (const char *line; (line = next_sum(&sums, name, sizeof name)) != NULL;) {
        s2_file file;
        const s2_status status = s2_finder_read(finder, arena, name, S2_FILE_BYTES, &file, diag);
        if (status == S2_ENOMEM)
            return status;
        if (status == S2_OK)
            SHA256Data((const uint8_t *)file.bytes, file.n_bytes, hash);
        if (status != S2_OK || strncmp(hash, line, HEX) != 0) {
            char clean[256];
            s2_text_clean(clean, sizeof clean, name);
            return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                               "%s is not the file that %s beside it lists: an export was interrupted, or "
                               "the file changed; export again, or remove %s",
                               clean, SUMS, SUMS);
        }
    }
    return S2_OK;
}

s2_status s2_finder_check(const s2_finder *finder, s2_arena *arena, s2_diag *diag)
{
    if (finder->dir == NULL || finder->path == NULL)
        return S2_OK;
    s2_file sums;
    s2_diag absent;
    char name[1024];
    const s2_status status = s2_finder_read(finder, arena, SUMS, SUMS_BYTES, &sums, &absent);
    if (status == S2_ENOMEM)
        return status;
    if (status != S2_OK)
        return S2_OK; /* not a set of ours */
    for (const char *at = sums.bytes; next_sum(&at, name, sizeof name) != NULL;)
        if (strcmp(name, s2_path_base(finder->path)) == 0)
            return check_sums(finder, arena, sums.bytes, diag);
    return S2_OK;
}

const char *s2_path_base(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

const char *s2_path_title(s2_arena *arena, const char *path)
{
    const char *const base = s2_path_base(path);
    const char *const dir = s2_path_dir(arena, path);
    if (strcmp(base, "config.json") != 0 || base == path || dir == NULL)
        return base;
    const char *const folder = s2_path_base(dir);
    if (folder[0] == '\0' || strcmp(folder, ".") == 0 || strcmp(folder, "..") == 0)
        return base;
    const size_t n = strlen(folder), cap = n + sizeof ".json";
    char *const title = s2_arena_alloc(arena, cap, 1);
    if (title == NULL)
        return base;
    snprintf(title, cap, "%s.json", folder);
    return title;
}

const char *s2_path_dir(s2_arena *arena, const char *path)
{
    const char *const base = s2_path_base(path);
    if (base == path)
        return s2_arena_strndup(arena, ".", 1);
    const size_t n = (size_t)(base - path) - 1;
    return s2_arena_strndup(arena, n != 0 ? path : "/", n != 0 ? n : 1);
}
