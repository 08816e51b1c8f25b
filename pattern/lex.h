/*
 * pattern/lex.h - a cursor over the text of a pattern: blanks, words, numbers, quoted texts, lists.
 *
 * Offsets are kept in bytes; line and column are computed only for a refusal. Every function that
 * fails has filled the cursor's diag.
 *
 * Ownership: the cursor borrows the text. Threads: one cursor, one thread.
 */
#ifndef S2_PATTERN_LEX_H
#define S2_PATTERN_LEX_H

#include <stdbool.h>
#include <stddef.h>

#include "pattern/codes.h"
#include "pattern/spec.h"

typedef struct s2_lex {
    const char *text;
    size_t n;
    size_t pos;
    s2_diag *diag;
} s2_lex;

typedef struct s2_word {
    const char *text;
    size_t n;
    size_t pos; /* offset in the text */
} s2_word;

/* A number as written. `tok`: it has the suffix t. */
typedef struct s2_number {
    int64_t value;
    bool tok;
    size_t pos;
} s2_number;

typedef enum s2_unit_rule { S2_UNIT_NONE, S2_UNIT_EITHER } s2_unit_rule;

/* Refuse at a byte offset; returns S2_EPARSE. */
s2_status s2_lex_refuse(const s2_lex *lex, s2_code code, size_t pos, const char *fmt, ...) S2_PRINTF(4, 5);

/* Refuse an unknown word, naming the nearest of the candidates (NULL-terminated) when there is one. */
s2_status s2_lex_refuse_word(const s2_lex *lex, s2_code code, s2_word word, const char *what,
                             const char *const *candidates);

/* The whole text at once: size, NUL, UTF-8, control and invisible characters. Skips a byte order mark. */
s2_status s2_lex_check_text(s2_lex *lex) S2_MUST_CHECK;

void s2_lex_skip_blanks(s2_lex *lex);    /* within a statement */
void s2_lex_skip_between(s2_lex *lex);   /* line ends, ';' and comments too */
void s2_lex_skip_statement(s2_lex *lex); /* to the end of the statement, past quoted texts */

/* After blanks: line end, ';', a comment, or the end of the text. */
bool s2_lex_at_end(s2_lex *lex);
/* After blanks: consume the byte if it is next. */
bool s2_lex_take(s2_lex *lex, char byte);
/* After blanks: the next byte, or 0 at the end of the statement. */
char s2_lex_peek(s2_lex *lex);

/* [A-Za-z][A-Za-z0-9_-]* or, without dashes, only the letters; n is 0 when no letter is next. */
s2_word s2_lex_word(s2_lex *lex, bool dashes);
bool s2_word_is(s2_word word, const char *text);

/* A run of bytes up to a blank or the end of the statement, for names of models. */
s2_word s2_lex_run(s2_lex *lex);

/* `what` names the quantity in messages. The value is not checked against any cap. */
s2_status s2_lex_number(s2_lex *lex, const char *what, s2_unit_rule units, s2_number *out) S2_MUST_CHECK;
/* Any 64-bit value, digits only. */
s2_status s2_lex_u64(s2_lex *lex, const char *what, uint64_t *out) S2_MUST_CHECK;

/* "..." with \" and \\; the content goes to the arena. */
s2_status s2_lex_quoted(s2_lex *lex, s2_arena *arena, const char *what, const char **out) S2_MUST_CHECK;

/* One item of a LIST. */
typedef struct s2_item {
    size_t pos;
    bool slice; /* begin:end:step, else n or a-b */
    bool has_begin, has_end, has_step;
    s2_number begin, end, step; /* in a-b, end is b, inclusive */
} s2_item;

/*
 * The next item; in a selector the colon that ends it is not consumed.
 */
s2_status s2_lex_item(s2_lex *lex, bool in_selector, s2_unit_rule units, s2_item *out) S2_MUST_CHECK;

#endif /* S2_PATTERN_LEX_H */
