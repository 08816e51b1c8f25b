/*
 * cli/words.h - what the words on pages, in tables and on screens mean: the labels of reports, the columns of
 * lists, the objectives of a search. `s2 explain WORD` prints them.
 */
#ifndef S2_CLI_WORDS_H
#define S2_CLI_WORDS_H

#include <stddef.h>

typedef struct s2_word_entry {
    const char *words; /* "kv cache|kv_bytes": all words for it; the first is the title */
    const char *text;
} s2_word_entry;

extern const s2_word_entry s2_word_entries[]; /* ended by NULL */

/* Find an entry by any of its words, ignoring case, with '-' and '_' as blanks; NULL if there is none. */
const s2_word_entry *s2_word_find(const char *word);

#endif /* S2_CLI_WORDS_H */
