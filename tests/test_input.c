/*
 * Keys out of bytes (tui/input.h): whatever was sent, in pieces of any size, gives the keys that were meant.
 */
#include "tests/s2test.h"

#include <string.h>

#include "base/rng.h"
#include "tui/input.h"

enum { MOST = 400 };

/* What terminals send, and the key that it is; NOTHING: none of ours. */
static const struct {
    const char *bytes;
    int32_t key;
} SENT[] = {{"j", 'j'},
            {"C", 'C'},
            {"[", '['},
            {"O", 'O'},
            {"]", ']'},
            {"P", 'P'},
            {" ", ' '},
            {"\r", '\r'},
            {"\t", '\t'},
            {"\f", S2_KEY_REDRAW},
            {"\177", S2_KEY_BACKSPACE},
            {"\b", S2_KEY_BACKSPACE},
            {"\xc3\xa9", 0xe9},
            {"\xe6\xbc\xa2", 0x6f22},
            {"\xf0\x9f\x8c\xb3", 0x1f333},
            {"\033OA", S2_KEY_UP},
            {"\033[B", S2_KEY_DOWN},
            {"\033[1;5C", S2_KEY_RIGHT},
            {"\033[D", S2_KEY_LEFT},
            {"\033[5~", S2_KEY_PAGE_UP},
            {"\033[6;2~", S2_KEY_PAGE_DOWN},
            {"\033[1~", S2_KEY_HOME},
            {"\033OF", S2_KEY_END},
            {"\033[8~", S2_KEY_END},
            {"\033OP", S2_KEY_F1},
            {"\033[[A", S2_KEY_F1},
            {"\033OM", S2_KEY_ENTER},
            {"\033[<0;10;5m", S2_TERM_CLICK},
            {"\033[<65;10;5M", S2_TERM_CLICK},
            {"\033[M#*%", S2_TERM_CLICK},
            {"\033[200~rm\r\033[31m -rf\033[201~", S2_TERM_PASTE},
            {"\033[<0;10;5M", S2_TERM_NOTHING},
            {"\033[I", S2_TERM_NOTHING},
            {"\033[97;5u", S2_TERM_NOTHING},
            {"\033[?62;c", S2_TERM_NOTHING},
            {"\033[[B", S2_TERM_NOTHING},
            {"\033]11;rgb:0000/0000/0000\a", S2_TERM_NOTHING},
            {"\033P1+r436f=31\033\\", S2_TERM_NOTHING},
            {"\033_Gi=1;OK\033\\", S2_TERM_NOTHING},
            {"\xff", S2_TERM_NOTHING}};
enum { N_SENT = sizeof SENT / sizeof SENT[0] };

typedef struct keys {
    int32_t n;
    int32_t key[2 * MOST];
} keys;

static void add(keys *all, int32_t key)
{
    if (key != S2_TERM_NOTHING && key != S2_TERM_MORE)
        all->key[all->n++] = key;
}

/* All keys that bytes give, cut at random or, with rng NULL, in one piece; nothing is late but at the end. */
static void feed(s2_typed *input, const char *bytes, size_t n, s2_rng *rng, keys *got)
{
    for (size_t at = 0; at < n; at++) {
        int32_t key;
        s2_typed_add(input, bytes[at]);
        while ((key = s2_typed_key(input, false)) > 0 || key < S2_TERM_NOTHING) {
            if (key == S2_TERM_MORE)
                break;
            add(got, key);
        }
        /* somebody looks again before anything has come */
        if (rng != NULL && s2_rng_below(rng, 3) == 0)
            add(got, s2_typed_key(input, false));
    }
}

static void let_time_pass(s2_typed *input, keys *got)
{
    int32_t key;
    while ((key = s2_typed_key(input, true)) != S2_TERM_NOTHING && key != S2_TERM_MORE)
        add(got, key);
}

static void expect_same(const keys *got, const keys *meant, const char *bytes, size_t n, uint64_t seed)
{
    if (got->n == meant->n && memcmp(got->key, meant->key, (size_t)got->n * sizeof got->key[0]) == 0)
        return;
    for (size_t at = 0; at < n; at++)
        printf(bytes[at] > 32 && bytes[at] < 127 ? "%c" : "<%02x>", (unsigned char)bytes[at]);
    printf("\n");
    fail_msg("seed %llu: %d keys, %d were meant", (unsigned long long)seed, got->n, meant->n);
}

/* An escape alone is one at once where its next byte begins no sequence, and after a while anywhere. */
static void any_keys_in_any_pieces_are_the_keys_that_were_sent(void **state)
{
    (void)state;
    static char bytes[MOST * 32];
    static keys meant, got;
    const uint64_t first = s2_test_seed(17);
    const int64_t n_cases = s2_test_cases(2000);
    for (uint64_t seed = first; seed < first + (uint64_t)n_cases; seed++) {
        s2_rng rng = {seed};
        s2_typed input = {0};
        size_t n = 0;
        meant.n = got.n = 0;
        for (uint64_t left = 1 + s2_rng_below(&rng, 30); left > 0; left--) {
            const size_t at = s2_rng_below(&rng, N_SENT);
            const bool begins = strchr("[O]P_", SENT[at].bytes[0]) != NULL;
            if (s2_rng_below(&rng, 4) == 0) {
                bytes[n++] = '\033';
                add(&meant, S2_KEY_ESC);
                if (begins) { /* then it must have been seen to be alone */
                    feed(&input, bytes, n, &rng, &got);
                    let_time_pass(&input, &got);
                    n = 0;
                }
            }
            memcpy(bytes + n, SENT[at].bytes, strlen(SENT[at].bytes));
            n += strlen(SENT[at].bytes);
            add(&meant, SENT[at].key);
        }
        feed(&input, bytes, n, &rng, &got);
        let_time_pass(&input, &got);
        expect_same(&got, &meant, bytes, n, seed);
        assert_int_equal(input.n, 0);
        s2_typed_release(&input);
    }
}

/* Sequences that never end, or are none: what a person typed is there, and what comes later too. */
static void what_is_no_sequence_is_keys(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        const char *keys;
    } rows[] = {{"\033", "\033"},     {"\033\033", "\033\033"}, {"\033C", "\033C"},     {"\033x", "\033x"},
                {"\033[", "\033["},   {"\033[j", "\033[j"},     {"\033[\r", "\033[\r"}, {"\033[1", "\033[1"},
                {"\033O", "\033O"},   {"\033O\r", "\033O\r"},   {"\033]", "\033]"},     {"\033]j", "\033]j"},
                {"\033Px", "\033Px"}, {"\xc3j", "j"},           {"\xe6\xbc", ""},       {"\xff\xfej", "j"}};
    for (size_t at = 0; at < sizeof rows / sizeof rows[0]; at++) {
        keys got = {0}, meant = {0};
        s2_typed input = {0};
        for (const char *key = rows[at].keys; *key != '\0'; key++)
            add(&meant, *key);
        feed(&input, rows[at].bytes, strlen(rows[at].bytes), NULL, &got);
        let_time_pass(&input, &got);
        add(&meant, 'q');
        feed(&input, "q", 1, NULL, &got);
        expect_same(&got, &meant, rows[at].bytes, strlen(rows[at].bytes), at);
        s2_typed_release(&input);
    }
}

/* Nothing of a paste becomes a key, however slowly it comes; it ends by itself only after much longer than a key. */
static void a_paste_is_text_to_its_end(void **state)
{
    (void)state;
    keys got = {0};
    s2_typed input = {0};
    static const char begun[] = "\033[200~one\r\ttwo \033[201 \033[20 \xc3\xa9\xff\xe2\x80\xae.",
                      more[] = "Qy\033[201~";
    feed(&input, begun, sizeof begun - 1, NULL, &got);
    assert_int_equal(got.n, 0);
    assert_true(s2_typed_patience_ms(&input) > 1000);
    feed(&input, more, sizeof more - 1, NULL, &got);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.key[0], S2_TERM_PASTE);
    assert_string_equal(input.pasted.data, "one\n two [201 [20 \xc3\xa9.Qy");
    /* an end that never comes */
    feed(&input, "\033[200~cut\033[20", 13, NULL, &got);
    let_time_pass(&input, &got);
    feed(&input, "j", 1, NULL, &got);
    assert_int_equal(got.n, 3);
    assert_int_equal(got.key[2], 'j');
    assert_string_equal(input.pasted.data, "cut");
    s2_typed_release(&input);
}

static void clicks_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        int32_t row, col, wheel;
    } rows[] = {{"\033[<0;10;5m", 4, 9, 0},
                {"\033[<64;200;100M", 99, 199, -1},
                {"\033[<65;1;1M", 0, 0, 1},
                {"\033[M#*%", 4, 9, 0},
                {"\033[M`!!", 0, 0, -1}};
    for (size_t at = 0; at < sizeof rows / sizeof rows[0]; at++) {
        keys got = {0};
        s2_typed input = {0};
        feed(&input, rows[at].bytes, strlen(rows[at].bytes), NULL, &got);
        assert_int_equal(got.n, 1);
        assert_int_equal(got.key[0], S2_TERM_CLICK);
        assert_true(input.row == rows[at].row && input.col == rows[at].col && input.wheel == rows[at].wheel);
        s2_typed_release(&input);
    }
}

/* Any bytes: nothing breaks, nothing is kept forever, and the next key comes. */
static void random_bytes_end_in_order(void **state)
{
    (void)state;
    static const char likely[] = "\033\033[[]OP_200201~;<Mm\\\a:0j\xc3\xe6\xff";
    const uint64_t first = s2_test_seed(18);
    for (uint64_t seed = first; seed < first + (uint64_t)s2_test_cases(2000); seed++) {
        static keys got;
        s2_rng rng = {seed};
        s2_typed input = {0};
        got.n = 0;
        for (uint64_t left = s2_rng_below(&rng, MOST); left > 0; left--) {
            const char byte = s2_rng_below(&rng, 8) == 0 ? (char)s2_rng_below(&rng, 256)
                                                         : likely[s2_rng_below(&rng, sizeof likely - 1)];
            feed(&input, &byte, 1, &rng, &got);
            if (s2_rng_below(&rng, 50) == 0)
                let_time_pass(&input, &got);
        }
        for (int n = 0; n < 3; n++)
            let_time_pass(&input, &got);
        assert_int_equal(input.n, 0);
        feed(&input, "j", 1, NULL, &got);
        assert_int_equal(got.key[got.n - 1], 'j');
        s2_typed_release(&input);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_keys_in_any_pieces_are_the_keys_that_were_sent),
        cmocka_unit_test(what_is_no_sequence_is_keys), cmocka_unit_test(a_paste_is_text_to_its_end),
        cmocka_unit_test(clicks_say_where), cmocka_unit_test(random_bytes_end_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
