/*
 * tests/bench/words.h - lists on the command lines of the benchmarks: "a,b,c", "8k,32k".
 */
#ifndef S2_TESTS_BENCH_WORDS_H
#define S2_TESTS_BENCH_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The next word of a list: its begin, with *n its length; NULL at the end. *at goes on behind it. */
static inline const char *s2_words_next(const char **at, size_t *n)
{
    const char *const word = *at;
    if (word == NULL || *word == '\0')
        return NULL;
    *n = strcspn(word, ",");
    *at = word + *n + (word[*n] == ',');
    return word;
}

/* True when `word` is one of the words of "a,b,c"; NULL holds every word. */
static inline bool s2_words_hold(const char *list, const char *word)
{
    size_t n;
    for (const char *at = list, *one; (one = s2_words_next(&at, &n)) != NULL;)
        if (n == strlen(word) && strncmp(one, word, n) == 0)
            return true;
    return list == NULL;
}

/* "32k" is 32768, "1m" 1048576. */
static inline int32_t s2_words_tokens(const char *word)
{
    char *end;
    const long number = strtol(word, &end, 10);
    return (int32_t)(*end == 'k' ? number * 1024 : *end == 'm' ? number * 1048576 : number);
}

/* True when n_tok is one of the lengths of "8k,32k"; NULL holds every length. */
static inline bool s2_words_hold_tokens(const char *list, int32_t n_tok)
{
    size_t n;
    for (const char *at = list, *one; (one = s2_words_next(&at, &n)) != NULL;)
        if (s2_words_tokens(one) == n_tok)
            return true;
    return list == NULL;
}

#endif /* S2_TESTS_BENCH_WORDS_H */
