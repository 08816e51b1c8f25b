/*
 * export/budget.h - methods that have no pattern file, only numbers, read from JSON, YAML or a command line.
 *
 * What such a method chooses at run time becomes a dynamic term of the same budget; the importer's notes say
 * what the budget leaves out. The model is rarely in such a file, so its shape comes from what the file
 * has, then from the user's settings, then from Llama-3-8B with a note.
 *
 * Threads: no state.
 */
#ifndef S2_EXPORT_BUDGET_H
#define S2_EXPORT_BUDGET_H

#include "export/format.h"
#include "export/model.h"

/* Several spellings of a value, as slash paths, ended by NULL. */
#define S2_PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The --set keys that s2_budget_begin() reads. */
#define S2_BUDGET_SETTINGS "layers, heads, kv-heads, head-dim"

/* Whether the document has one of these paths, or each. */
bool s2_budget_has_any(const s2_source *source, const char *const *paths);
bool s2_budget_has_all(const s2_source *source, const char *const *paths);

/* The first text value under one of several spellings, or NULL. */
const char *s2_budget_word(const s2_source *source, const char *const *paths);

/*
 * The first of several spellings that the document has, else the fallback, which is noted where it is not 0: a budget
 * that nobody stated is no fact of the file. S2_EPARSE with the position.
 */
s2_status s2_budget_read(const s2_source *source, const char *const *paths, int64_t low, int64_t high,
                         int64_t fallback, int64_t *out) S2_MUST_CHECK;

/* The model's shape, and the statements that say it; `shape` may be NULL. */
s2_status s2_budget_shape(const s2_source *source, s2_model_shape *out) S2_MUST_CHECK;
s2_status s2_budget_begin(const s2_source *source, int64_t block_tok, s2_model_shape *shape,
                          s2_buf *text) S2_MUST_CHECK;

/* Parse the text when status is S2_OK; releases it on every outcome. */
s2_status s2_budget_finish(const s2_source *source, s2_status status, s2_buf *text,
                           s2_pattern *out) S2_MUST_CHECK;

#endif /* S2_EXPORT_BUDGET_H */
