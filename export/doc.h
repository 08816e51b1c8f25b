/*
 * export/doc.h - a foreign configuration as one tree: JSON, HJSON, YAML, command-line flags, or keyword
 * lists.
 *
 * s2_doc_parse reads a text that starts with a bracket as strict JSON (duplicate keys refused), else as
 * HJSON. It reads any other block mapping as YAML, and anything else as settings written as `--key value`,
 * `key: value`, `key=value` or `Call(key=value, ...)`, which become an object of scalars (arrays where
 * several values follow one key). Dashes in keys of YAML and settings become underscores. Values are
 * addressed by slash paths: "/a/b/3".
 *
 * Invariants: at most S2_DOC_BYTES of text; every refusal has a line and a column.
 * Ownership:  s2_doc_release frees the tree; the text stays the caller's and must outlive it.
 * Threads:    one document, one thread.
 */
#ifndef S2_EXPORT_DOC_H
#define S2_EXPORT_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct json_t;

#define S2_DOC_BYTES ((size_t)16 << 20)
enum { S2_DOC_HASH = 65 };

/* The number printed as S2Pnnn for what an importer refuses. */
enum { S2_CODE_FOREIGN = 400 };

/* How a text was read; the tree is the same for all of them. */
typedef enum s2_doc_kind { S2_DOC_JSON, S2_DOC_HJSON, S2_DOC_YAML, S2_DOC_SETTINGS } s2_doc_kind;

typedef struct s2_doc {
    const char *text;
    size_t n_bytes;
    struct json_t *root;
    struct s2_mark *marks; /* positions of values that cannot be found again in the text */
    int64_t n_marks;
    s2_doc_kind kind;
    struct s2_asked *asked; /* what was looked for (export/asked.h); NULL: not recorded */
} s2_doc;

/*
 * What a file is whose contents stand in an archive, are compressed, or are text in another encoding, and what to do
 * about it; NULL: none of these. s2_doc_parse refuses it with these words.
 */
const char *s2_doc_wrapping(const char *bytes, size_t n_bytes);
/* S2_EPARSE with a position; S2_ENOMEM. */
s2_status s2_doc_parse(const char *text, size_t n_bytes, s2_doc *out, s2_diag *diag) S2_MUST_CHECK;
void s2_doc_release(s2_doc *doc);

/* The path of a member of the object at `prefix`. */
enum { S2_DOC_PATH = 128 };
const char *s2_doc_under(const char *prefix, const char *key, char path[S2_DOC_PATH]);

/* Present and not null. */
bool s2_doc_has(const s2_doc *doc, const char *path);
bool s2_doc_is_int(const s2_doc *doc, const char *path);
/* Written as null. */
bool s2_doc_is_null(const s2_doc *doc, const char *path);
/* Elements of an array, members of an object, else -1. */
int64_t s2_doc_len(const s2_doc *doc, const char *path);
bool s2_doc_is_array(const s2_doc *doc, const char *path);
/* The text of a string value, or NULL. */
const char *s2_doc_text(const s2_doc *doc, const char *path);
/* The key of the member of an object that follows that of key `after` in the file (NULL: the first), or NULL. */
const char *s2_doc_key(const s2_doc *doc, const char *path, const char *after);

/* A sibling of `path` that nobody looked for and that may be the missing key, misspelt; or NULL. */
const char *s2_doc_slip(const s2_doc *doc, const char *path);

/*
 * A value with its type and range checked. The plain forms need it present; the _or forms give the
 * fallback when it is absent or null. S2_EPARSE with the position of the value.
 */
s2_status s2_doc_int(const s2_doc *doc, const char *path, int64_t low, int64_t high, int64_t *out,
                     s2_diag *diag) S2_MUST_CHECK;
s2_status s2_doc_int_or(const s2_doc *doc, const char *path, int64_t low, int64_t high, int64_t fallback,
                        int64_t *out, s2_diag *diag) S2_MUST_CHECK;
s2_status s2_doc_num(const s2_doc *doc, const char *path, double low, double high, double *out,
                     s2_diag *diag) S2_MUST_CHECK;
s2_status s2_doc_bool_or(const s2_doc *doc, const char *path, bool fallback, bool *out,
                         s2_diag *diag) S2_MUST_CHECK;

/* SHA-256 of the values in hex, independent of the file's layout, without the root's member "s2". */
s2_status s2_doc_hash(const s2_doc *doc, char hex[S2_DOC_HASH]) S2_MUST_CHECK;

/* S2_EPARSE at the position of a value (of its nearest present parent when it is absent). */
s2_status s2_doc_refuse(const s2_doc *doc, const char *path, s2_diag *diag, const char *fmt, ...)
    S2_PRINTF(4, 5);

#endif /* S2_EXPORT_DOC_H */
