#include "export/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "export/doc.h"

s2_status s2_fileset_add(s2_fileset *set, const char *name, const char *bytes, size_t n_bytes)
{
    if (set->n_files == set->cap) {
        const int32_t cap = set->cap * 2 + 4;
        s2_file *const grown =
            s2_arena_grow(set->arena, set->files, (size_t)set->n_files, (size_t)cap, sizeof *grown);
        if (grown == NULL)
            return S2_ENOMEM;
        set->files = grown;
        set->cap = cap;
    }
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

const s2_file *s2_fileset_find(const s2_fileset *set, const char *name)
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
        const s2_file *const found = s2_fileset_find(finder->set, name);
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
