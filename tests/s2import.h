/*
 * tests/s2import.h - imports a foreign text for tests, with settings as "key=value key=value" and neighbours
 * from a set or a directory, and keeps everything that the import said.
 */
#ifndef S2_TESTS_S2IMPORT_H
#define S2_TESTS_S2IMPORT_H

#include <string.h>

#include "export/registry.h"
#include "tests/s2test.h"

typedef struct imported {
    s2_arena arena;
    s2_buf notes;
    s2_said said;
    s2_diag diag;
    s2_fileset side;
    const s2_format *format;
    s2_pattern pattern;
    s2_setting set[8];
    int32_t n_set;
} imported;

/* settings: "key=value key=value", or "". */
static inline void split_settings(imported *at, const char *settings)
{
    while (*settings != '\0') {
        const size_t key = strcspn(settings, "="), value = strcspn(settings + key + 1, " ");
        at->set[at->n_set++] = (s2_setting){.key = s2_arena_strndup(&at->arena, settings, key),
                                            .value = s2_arena_strndup(&at->arena, settings + key + 1, value)};
        settings += key + 1 + value;
        settings += *settings == ' ';
    }
}

static inline s2_status try_import(imported *at, const char *from, const char *bytes, size_t n_bytes,
                                   const char *settings, const s2_fileset *neighbours)
{
    split_settings(at, settings);
    at->side.arena = &at->arena;
    s2_source source = {.arena = &at->arena,
                        .name = "test.json",
                        .bytes = bytes,
                        .n_bytes = n_bytes,
                        .finder = {.set = neighbours, .dir = "/nonexistent"},
                        .settings = {at->set, at->n_set},
                        .notes = &at->notes,
                        .said = &at->said,
                        .side = &at->side,
                        .diag = &at->diag};
    return s2_import_run(&source, from, &at->format, &at->pattern);
}

static inline void import_text(imported *at, const char *text, const char *settings)
{
    *at = (imported){0};
    if (try_import(at, NULL, text, strlen(text), settings, NULL) != S2_OK)
        fail_msg("%d:%d: %s in %s", at->diag.line, at->diag.col, at->diag.msg, text);
}

static inline void imported_release(imported *at)
{
    s2_buf_release(&at->said.warnings);
    s2_buf_release(&at->notes);
    s2_arena_release(&at->arena);
}

static inline bool says(const imported *at, const char *words)
{
    return at->notes.data != NULL && strstr(at->notes.data, words) != NULL;
}

static inline bool warns(const imported *at, const char *words)
{
    return at->said.warnings.data != NULL && strstr(at->said.warnings.data, words) != NULL;
}

#endif /* S2_TESTS_S2IMPORT_H */
