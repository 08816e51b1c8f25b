/*
 * base/text.h - strings: cleaning what came from outside, and a growing buffer for what goes out.
 *
 * Text from files, databases and command lines passes s2_text_clean() before it reaches a terminal
 * or another format: control characters, invalid UTF-8, bidirectional overrides and zero-width
 * characters become '?'. Nothing else in the project decides what is safe to show.
 */
#ifndef S2_BASE_TEXT_H
#define S2_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Copy src into dst (cap bytes, always terminated, never cut inside a character), made harmless. */
void s2_text_clean(char *dst, size_t cap, const char *src);

/* The ending of a noun counted n times: "" or "s". */
const char *s2_text_plural(int64_t n);
/* How many words blanks part. */
int32_t s2_text_words(const char *text);

/* Length in bytes of the UTF-8 character at s (n bytes left), or 0 when it is not well formed. */
size_t s2_utf8_len(const char *s, size_t n);

/* How many bytes to go on by at s (n >= 1 left): a character's, or 1 where none is well formed. */
size_t s2_utf8_step(const char *s, size_t n);

/*
 * The code point of the well-formed character of `len` bytes at s (len from s2_utf8_len).
 */
uint32_t s2_utf8_decode(const char *s, size_t len);

/* True for what must never be shown raw: C0/C1 controls, bidi marks, zero-width, line separators. */
bool s2_codepoint_is_hostile(uint32_t cp);
/* Whether n bytes have such a code point that is none of `allowed` (ASCII), or are no UTF-8. */
bool s2_text_is_hostile(const char *text, size_t n, const char *allowed);

/* Columns of a terminal that a code point takes: 0 combining, 2 East Asian wide, else 1. */
int32_t s2_codepoint_width(uint32_t cp);
/* The bytes of the longest beginning of whole characters that takes at most so many columns; *taken may be NULL. */
size_t s2_text_fit(const char *text, int32_t columns, int32_t *taken);

/*
 * Line and column of an offset, from 1. Columns are characters, a byte that belongs to none is one of its own, and a
 * byte order mark in front of the text is none.
 */
void s2_text_position(const char *text, size_t n_bytes, size_t offset, int32_t *line, int32_t *col);
/* The line that begins at *byte: its bytes without their end, n of them. *byte moves to the next line. */
const char *s2_text_line(const char *text, size_t n_bytes, size_t *byte, size_t *n);
/* The same as a terminated copy; false where the line has a NUL or leaves no room for the terminator. */
bool s2_text_copy_line(const char *text, size_t n_bytes, size_t *byte, char *line, size_t cap);

/* Edit distance (insert, delete, replace), for "did you mean"; at most `cap` is returned. */
int32_t s2_text_distance(const char *a, size_t a_len, const char *b, int32_t cap);

/* Are the names equal, ignoring case, dashes, underscores and blanks? "H100 SXM" and "h100-sxm". */
bool s2_text_same_name(const char *a, const char *b);
/* Whether the n bytes at text are this word. */
bool s2_text_is(const char *word, const char *text, size_t n);
/*
 * For "did you mean": the edit distance of the names, also ignoring these and dots; 0 for the beginning of the known
 * one. S2_NAME_FAR where so many edits could turn any word into any other, and for numbers and sizes, which
 * are not names.
 */
#define S2_NAME_FAR INT32_MAX
int32_t s2_text_name_distance(const char *name, const char *known);
/* For known names offered one after another: the nearer of `known` and the nearest so far. *distance begins far. */
const char *s2_text_nearer(const char *name, const char *known, const char *nearest, int32_t *distance);

/*
 * A growing string. Zero-initialise; the first failure sticks in `status` and later appends do
 * nothing, so a writer checks once at the end. data is NULL until something was appended.
 */
typedef struct s2_buf {
    char *data;
    size_t len;
    size_t cap;
    s2_status status;
} s2_buf;

void s2_buf_add(s2_buf *buf, const char *bytes, size_t n); /* n bytes; data is always terminated */
void s2_buf_puts(s2_buf *buf, const char *text);
void s2_buf_printf(s2_buf *buf, const char *fmt, ...) S2_PRINTF(2, 3);
/* One word, safe for a shell and a terminal: unchanged where nothing in it is special, else in single quotes,
 * or as $'...' with escapes (bash, zsh, POSIX 2024) where it holds bytes that must not reach a terminal. */
void s2_buf_shell(s2_buf *buf, const char *word);
void s2_buf_release(s2_buf *buf);

/* A figure for people, by value: it needs no memory. Used within one statement: s2_decimal(x, 3).text */
typedef struct s2_figure_text {
    char text[48];
} s2_figure_text;

/*
 * `digits` significant ones (1 to 17) without zeros behind them and without an exponent, as in "0.00012" and
 * "12350000"; beyond 10^20 and below 10^-20 as "1.5*10^30".
 */
s2_figure_text s2_decimal(double value, int digits);
/* "1 layer", "2 layers"; the noun has at most 26 letters. */
s2_figure_text s2_count_text(int64_t n, const char *noun);

/*
 * JSON. Values are appended to an s2_buf; s2_json_key writes the comma where one is due by looking
 * at the last byte, so there is no writer state to get wrong. Strings are escaped; text that is not
 * UTF-8 is cleaned. Numbers that are not finite are written as null.
 */
/* Rounded to the digits that a person may rely on, so that equal inputs give equal, short text. */
double s2_rounded(double value);
void s2_json_begin(s2_buf *buf, char bracket);   /* '{' or '[' ; as an array element too */
void s2_json_end(s2_buf *buf, char bracket);     /* '}' or ']' */
void s2_json_key(s2_buf *buf, const char *key);  /* then exactly one value */
void s2_json_str(s2_buf *buf, const char *text); /* value or array element; NULL -> null */
void s2_json_int(s2_buf *buf, int64_t value);
void s2_json_num(s2_buf *buf, double value); /* shortest text that reads back as the same */
void s2_json_bool(s2_buf *buf, bool value);
void s2_json_null(s2_buf *buf);
/* A key and its value. */
void s2_json_key_str(s2_buf *buf, const char *key, const char *text);
void s2_json_key_int(s2_buf *buf, const char *key, int64_t value);
void s2_json_key_num(s2_buf *buf, const char *key, double value);
void s2_json_key_bool(s2_buf *buf, const char *key, bool value);
void s2_json_key_begin(s2_buf *buf, const char *key, char bracket);

#endif /* S2_BASE_TEXT_H */
