/*
 * tests/fuzz/fuzz_parse.c - any bytes are refused with a position, or survive the round trip.
 *
 * A refusal must carry a line, a column and a known code. An accepted text must pass
 * s2_pattern_check, print, parse again, and print the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pattern/codes.h"
#include "pattern/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const s2_parse_options options = {.no_files = true};
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    s2_buf once = {0}, twice = {0};
    if (s2_pattern_parse(&arena, (const char *)bytes, n, &options, &pattern, &diag) != S2_OK) {
        require(diag.line >= 1 && diag.col >= 1 && s2_code_explain(diag.code) != NULL && diag.msg[0] != '\0');
        s2_diag_print_caret(&diag, (const char *)bytes, n, &once);
        require(once.status == S2_OK);
    } else {
        require(s2_pattern_check(&pattern, &diag) == S2_OK);
        s2_pattern_print(&pattern, &once);
        require(once.status == S2_OK);
        s2_pattern again;
        require(s2_pattern_parse(&arena, once.data, once.len, &options, &again, &diag) == S2_OK);
        s2_pattern_print(&again, &twice);
        require(twice.status == S2_OK && once.len == twice.len &&
                memcmp(once.data, twice.data, once.len) == 0);
    }
    s2_buf_release(&once);
    s2_buf_release(&twice);
    s2_arena_release(&arena);
    return 0;
}
