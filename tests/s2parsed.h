/*
 * tests/s2parsed.h - a pattern from its text, in one call.
 */
#ifndef S2_TESTS_S2PARSED_H
#define S2_TESTS_S2PARSED_H

#include <string.h>

#include "pattern/parse.h"
#include "tests/s2test.h"

/* Fails the test where the text is refused. */
static inline s2_pattern s2_parsed(s2_arena *arena, const char *text)
{
    s2_pattern pattern = {0};
    s2_diag diag = {0};
    if (s2_pattern_parse(arena, text, strlen(text), NULL, &pattern, &diag) != S2_OK)
        fail_msg("%d:%d S2P%03d %s in:\n%s", diag.line, diag.col, diag.code, diag.msg, text);
    return pattern;
}

#endif /* S2_TESTS_S2PARSED_H */
