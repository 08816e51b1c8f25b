/*
 * tests/s2set.h - a set of files that an export writes into one folder, all parts with one text, so that a mixture of
 * two sets is told.
 */
#ifndef S2_TESTS_S2SET_H
#define S2_TESTS_S2SET_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "export/files.h"

enum { S2_SET_PARTS = 3 };
static const char *const s2_set_parts[S2_SET_PARTS] = {"set.json", "columns.npy", "rows.npy"};

/* The same set into the first n of these folders, as sets that belong together. */
static inline s2_status s2_sets_write(const char *const *to, int32_t n, const char *text)
{
    s2_arena arena = {0};
    s2_placed_set placed[4];
    s2_fileset set = {.arena = &arena};
    s2_status status = S2_OK;
    for (int part = 0; part < S2_SET_PARTS && status == S2_OK; part++)
        status = s2_fileset_add(&set, s2_set_parts[part], text, strlen(text));
    for (int32_t at = 0; at < n; at++)
        placed[at] = (s2_placed_set){&set, to[at]};
    if (status == S2_OK)
        status = n == 1 ? s2_fileset_write(&set, to[0], NULL) : s2_filesets_write(placed, n, NULL);
    s2_arena_release(&arena);
    return status;
}

static inline s2_status s2_set_write(const char *to, const char *text)
{
    return s2_sets_write(&to, 1, text);
}

/* What an import finds: the text of all parts, "" where there is no set to begin with, "refused", or "mixed". */
static inline const char *s2_set_read(const char *from, s2_arena *arena)
{
    char path[400];
    const char *text = "";
    snprintf(path, sizeof path, "%s/%s", from, s2_set_parts[0]);
    if (access(path, F_OK) != 0)
        return text;
    const s2_finder finder = {.dir = from, .path = path};
    const s2_status status = s2_finder_check(&finder, arena, NULL);
    if (status != S2_OK)
        return "refused";
    for (int part = 0; part < S2_SET_PARTS; part++) {
        s2_file file;
        if (s2_finder_read(&finder, arena, s2_set_parts[part], 1000, &file, NULL) != S2_OK)
            return "mixed";
        if (part > 0 && strcmp(text, file.bytes) != 0)
            return "mixed";
        text = file.bytes;
    }
    return text;
}

#endif /* S2_TESTS_S2SET_H */
