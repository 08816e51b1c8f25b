/*
 * What children write on their standard error arrives as clean lines under their name, in order, bounded; a child is never
 * kept waiting, nor is who waits for it.
 */
#include "tests/s2test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hear.h"
#include "base/text.h"

static void write_all(int to, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t put = write(to, (const char *)bytes + done, n - done);
        if (put <= 0)
            _exit(9);
        done += (size_t)put;
    }
}

/* What arrives of a child that writes these bytes; its length. */
static size_t heard(s2_hear *hear, void (*say)(int to, const void *about), const void *about, char *text,
                    size_t cap)
{
    FILE *const file = tmpfile();
    assert_non_null(file);
    assert_int_equal(s2_hear_open(hear, "child", fileno(file)), S2_OK);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(hear->child, STDERR_FILENO);
        say(STDERR_FILENO, about);
        _exit(0);
    }
    int ended = 1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    s2_hear_close(hear);
    assert_false(hear->open);
    rewind(file);
    const size_t n = fread(text, 1, cap - 1, file);
    text[n] = '\0';
    assert_int_equal(strlen(text), n);
    fclose(file);
    return n;
}

typedef struct words {
    const char *bytes;
    size_t n;
} words;

static void say_words(int to, const void *about)
{
    const words *const said = about;
    write_all(to, said->bytes, said->n);
}

static void words_arrive_clean_and_named(void **state)
{
    static const struct {
        words said;
        const char *heard;
    } rows[] = {
        {{"", 0}, ""},
        {{"one\ntwo\n", 8}, "child: one\nchild: two\n"},
        {{"no end", 6}, "child: no end\n"},
        {{"\n\n\r\n", 4}, ""},
        {{"10 %\r20 %\rdone\n", 15}, "child: 10 %\nchild: 20 %\nchild: done\n"},
        {{"a\033[31mred\033]0;title\007\n", 20}, "child: a?[31mred?]0;title?\n"},
        {{"nul\0here\n", 9}, "child: nul?here\n"},
        {{"\377\302\n\303\244\n", 6}, "child: ??\nchild: \303\244\n"},
        {{"\342\200\256drah\n", 8}, "child: ?drah\n"},
    };
    char text[1000];
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_hear hear = {0};
        heard(&hear, say_words, &rows[row].said, text, sizeof text);
        assert_string_equal(text, rows[row].heard);
    }
}

/* Every line is named and clean; ends the test where one is not. */
static void assert_clean(const char *text, size_t n)
{
    for (size_t byte = 0; byte < n;) {
        size_t length;
        const char *const line = s2_text_line(text, n, &byte, &length);
        assert_true(length > strlen("child: ") && memcmp(line, "child: ", strlen("child: ")) == 0);
        assert_true(length <= strlen("child: ") + S2_HEAR_LINE_BYTES);
        for (size_t at = 0; at < length;) {
            const size_t one = s2_utf8_len(line + at, length - at);
            assert_true(one > 0 && !s2_codepoint_is_hostile(s2_utf8_decode(line + at, one)));
            at += one;
        }
    }
}

static void say_much(int to, const void *about)
{
    static char bytes[1 << 20];
    s2_rng rng = {*(const uint64_t *)about};
    const int32_t n = *(const uint64_t *)about == 0 ? 100 : 2;
    for (int32_t nth = 0; nth < n; nth++) {
        for (size_t byte = 0; byte < sizeof bytes && nth < 2; byte++)
            bytes[byte] = (char)s2_rng_next(&rng);
        write_all(to, bytes, sizeof bytes);
    }
}

static void a_child_that_never_stops_is_heard_a_little(void **state)
{
    static char text[2 * S2_HEAR_BYTES];
    s2_hear hear = {0};
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        const size_t n = heard(&hear, say_much, &seed, text, sizeof text);
        assert_clean(text, n);
        if (seed > 0) /* the bound is of all children */
            assert_int_equal(n, 0);
        else
            assert_non_null(strstr(text, "child: (it says more, which is left out)\n"));
    }
}

/* Characters of 1 to 4 bytes at every place of the longest line. */
static void no_character_is_cut(void **state)
{
    static char bytes[8 * S2_HEAR_LINE_BYTES], text[sizeof bytes * 2];
    static const char *const letters[] = {"a", "\303\244", "\342\202\254", "\360\237\230\200"};
    (void)state;
    for (int32_t shift = 0; shift < 16; shift++) {
        size_t n = 0;
        for (int32_t nth = 0; nth < shift; nth++)
            bytes[n++] = 'x';
        for (int32_t nth = 0; n + 4 < sizeof bytes; nth++) {
            const char *const letter = letters[1 + (nth / 3 + shift) % 3];
            memcpy(bytes + n, letter, strlen(letter));
            n += strlen(letter);
        }
        s2_hear hear = {0};
        const words said = {bytes, n};
        assert_clean(text, heard(&hear, say_words, &said, text, sizeof text));
        assert_null(strchr(text, '?'));
        size_t n_back = 0;
        for (const char *from = text; *from != '\0'; from = strchr(from, '\n') + 1) {
            const size_t length = strcspn(from, "\n") - strlen("child: ");
            assert_memory_equal(from + strlen("child: "), bytes + n_back, length);
            n_back += length;
        }
        assert_int_equal(n_back, n);
    }
}

/* It outlives its parent and writes for ever, in a session of its own. */
static void leave_a_stranger(int to, const void *about)
{
    write_all(to, "first\n", 6);
    int ready[2];
    const pid_t *const where = about;
    if (pipe(ready) != 0)
        _exit(9);
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        write_all(ready[1], "x", 1);
        for (int32_t nth = 0; nth < 1 << 16; nth++)
            write_all(to, "stranger\n", 9);
        pause();
        _exit(0);
    }
    char byte;
    if (child < 0 || read(ready[0], &byte, 1) != 1)
        _exit(9);
    memcpy((void *)(uintptr_t)where, &child, sizeof child);
}

static void nobody_waits_for_a_child_of_a_child(void **state)
{
    static char text[2 * S2_HEAR_BYTES];
    s2_hear hear = {0};
    (void)state;
    FILE *const file = tmpfile();
    assert_non_null(file);
    assert_int_equal(s2_hear_open(&hear, "child", fileno(file)), S2_OK);
    int told[2];
    assert_int_equal(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) {
        pid_t stranger = 0;
        leave_a_stranger(hear.child, &stranger);
        write_all(told[1], &stranger, sizeof stranger);
        _exit(0);
    }
    pid_t stranger = 0;
    assert_int_equal(read(told[0], &stranger, sizeof stranger), sizeof stranger);
    assert_int_equal(waitpid(child, NULL, 0), child);
    s2_hear_close(&hear);
    kill(stranger, SIGKILL);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_non_null(strstr(text, "child: first\n"));
    fclose(file);
    close(told[0]);
    close(told[1]);
}

static void the_first_line_is_kept_for_a_reason(void **state)
{
    char text[100];
    s2_hear hear = {0};
    (void)state;
    const words said = {"\n\033[1m==ERROR== no\nmore\n", 23};
    heard(&hear, say_words, &said, text, sizeof text);
    assert_string_equal(hear.first, "?[1m==ERROR== no");
}

static void descriptors_are_given_back(void **state)
{
    char text[100];
    s2_hear hear = {0};
    (void)state;
    const words said = {"word\n", 5};
    const int before = dup(STDIN_FILENO);
    close(before);
    for (int32_t nth = 0; nth < 50; nth++)
        assert_int_equal(heard(&hear, say_words, &said, text, sizeof text), strlen("child: word\n"));
    const int after = dup(STDIN_FILENO);
    close(after);
    assert_int_equal(after, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_arrive_clean_and_named),
        s2_long_test(a_child_that_never_stops_is_heard_a_little),
        cmocka_unit_test(no_character_is_cut),
        cmocka_unit_test(nobody_waits_for_a_child_of_a_child),
        cmocka_unit_test(the_first_line_is_kept_for_a_reason),
        cmocka_unit_test(descriptors_are_given_back),
    };
    return cmocka_run_group_tests_name("hear", tests, NULL, NULL);
}
