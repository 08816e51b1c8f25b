#include "tests/s2test.h"

#include <string.h>

#include "pattern/parse.h"

static char *print_text(const char *text)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    if (s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag) != S2_OK)
        fail_msg("%d:%d S2P%03d %s in: %s", diag.line, diag.col, diag.code, diag.msg, text);
    s2_buf buf = {0};
    s2_pattern_print(&pattern, &buf);
    assert_int_equal(buf.status, S2_OK);
    s2_arena_release(&arena);
    return buf.data;
}

static void canonical_text_is_a_fixed_point(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "layers 32\nheads 32\nkv-heads 8\nlayers all: local 16 | stride 8 phase head+1\nlayers 1::2: dense",
        "model llama-3-8b; kv 0,3,5: dense; kv 1-2,4,6::1: sink 64t | local 256t",
    };
    for (size_t row = 0; row < sizeof texts / sizeof texts[0]; row++) {
        char *const once = print_text(texts[row]);
        char *const twice = print_text(once);
        assert_string_equal(once, twice);
        free(once);
        free(twice);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_is_a_fixed_point),
    };
    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
