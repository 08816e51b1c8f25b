/*
 * pattern/parse.h - text to pattern and back.
 *
 * s2_pattern_parse reads the language of docs/pattern-language.md. s2_pattern_print writes the
 * canonical text: fixed statement order, defaults left out, one rule per distinct body with the
 * smallest selector, numbers without suffixes where exact. parse(print(p)) equals p, and the
 * design's hash is the SHA-256 of that text.
 *
 * Threads: no state. Ownership: results live in the given arena.
 */
#ifndef S2_PATTERN_PARSE_H
#define S2_PATTERN_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "pattern/spec.h"

typedef struct s2_parse_options {
    const char *dir; /* where relative mask files are looked up; NULL: the working directory */
    bool no_files;   /* refuse `mask` terms: text that came from a database or another machine */
    const uint64_t
        *mixers; /* bits of layers that read no keys in the model that the text is for: no rule changes
                               them, and one that names no other layer is refused; NULL: there are none */
} s2_parse_options;

/*
 * S2_EPARSE with line, column, code and message in *diag (line and column count from 1, columns in
 * characters); S2_ENOMEM. Nothing of a refused text is used; *out is untouched. n_bytes may exceed
 * S2_LIMIT_TEXT_BYTES only to be refused. options may be NULL.
 */
s2_status s2_pattern_parse(s2_arena *arena, const char *text, size_t n_bytes, const s2_parse_options *options,
                           s2_pattern *out, s2_diag *diag) S2_MUST_CHECK;

/* Append the canonical text; check buf->status afterwards. */
void s2_pattern_print(const s2_pattern *pattern, s2_buf *buf);
/* The statements of the canonical text that give layers their own numbers; nothing if no layer has any. */
void s2_pattern_print_layers(const s2_pattern *pattern, s2_buf *buf);

/* One body, or one term, in canonical form ("local 16 | stride 8 phase head+1"), for messages and screens. */
void s2_body_print(const s2_body *body, s2_buf *buf);
void s2_term_print(const s2_term *term, s2_buf *buf);

/* Indices as the shortest LIST of the language ("all", "0-15", "1::2", "0,4,9-12") out of n_all. */
void s2_index_list_print(const int32_t *index, int32_t n, int32_t n_all, s2_buf *buf);

/* Lower-case hex SHA-256 of the canonical text, terminated. */
s2_status s2_pattern_hash(const s2_pattern *pattern, char hex[S2_HASH_HEX]) S2_MUST_CHECK;

/*
 * The source line of a diagnostic with a caret under its column, two lines, cleaned; nothing is
 * appended when the position is unknown.
 */
void s2_diag_print_caret(const s2_diag *diag, const char *text, size_t n_bytes, s2_buf *buf);

#endif /* S2_PATTERN_PARSE_H */
