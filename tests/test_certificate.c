#include "tests/s2test.h"

#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "coverage/certificate.h"
#include "pattern/parse.h"
#include "tests/gen_spec.h"

/* ---- the checker as its own process ------------------------------------------------------------------- */

static char checker_path[PATH_MAX + 16];
static char file_path[] = "/tmp/s2certXXXXXX";

static int set_up(void **state)
{
    (void)state;
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return -1;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(checker_path, sizeof checker_path, "%s/../s2cert", self);
    const int fd = mkstemp(file_path);
    return fd >= 0 ? close(fd) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(file_path);
}

/* Exit code of s2cert on these bytes; its words go to said[]. */
static int check_bytes(const char *bytes, size_t n, char said[256])
{
    char command[PATH_MAX + 64];
    FILE *const file = fopen(file_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "'%s' %s 2>&1", checker_path, file_path);
    FILE *const pipe = popen(command, "r");
    assert_non_null(pipe);
    const size_t n_said = fread(said, 1, 255, pipe);
    said[n_said] = '\0';
    const int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* ---- patterns and their certificates --------------------------------------------------------------------
 */

enum { N_ASKED = 7 };

static int32_t prove_all(s2_arena *arena, const s2_pattern *pattern, int32_t n_ranks, s2_finding *held)
{
    const s2_prove_options options = {.n_tok = S2_OPEN};
    s2_requirement asked[N_ASKED];
    s2_finding findings[N_ASKED];
    for (int32_t property = 0; property < N_ASKED; property++)
        asked[property] = (s2_requirement){(s2_property)property, 0, true};
    asked[S2_RANKS].arg = n_ranks;
    asked[S2_DEPTH].arg = 2;
    assert_int_equal(s2_prove(arena, pattern, asked, N_ASKED, &options, findings), S2_OK);
    int32_t n_held = 0;
    for (int32_t property = 0; property < N_ASKED; property++)
        if (findings[property].verdict == S2_HOLDS)
            held[n_held++] = findings[property];
    return n_held;
}

/* The certificate of all that holds, or NULL data where it is too large. */
static s2_buf certify(const char *text, int32_t n_ranks, int32_t *n_claims)
{
    s2_arena arena = {0};
    s2_buf buf = {0};
    s2_diag diag = {0};
    s2_pattern pattern;
    s2_finding held[N_ASKED];
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
    *n_claims = prove_all(&arena, &pattern, n_ranks, held);
    const s2_status status = s2_certificate_write(&arena, &pattern, held, *n_claims, &buf, &diag);
    if (status != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    s2_arena_release(&arena);
    return buf;
}

static void patterns_that_people_use_are_certified(void **state)
{
    (void)state;
    static const struct {
        const char *label, *text;
        int32_t n_ranks, n_claims;
    } rows[] = {
        {"phi-3-small",
         "layers 32;heads 32;kv-heads 8;layers all: local 16|stride 8 phase head+1;layers 1::2: dense", 4, 5},
        {"dkernel", "heads 32;kv-heads 8;layers all: local 16 | stride 8 phase kv+1", 1, 5},
        {"duo", "heads 8;kv-heads 4;heads all: sink 64t | local 256t;kv 0,2: dense", 2, 6},
        {"streaming", "heads 4;layers all: sink 4t | local 2000t;heads 0: dense", 1, 4},
        {"streaming, one dense layer", "layers 2;heads 2;layers all: sink 4t|local 2000t;layers 1: dense", 1,
         3},
        {"token-exact window", "heads 8;layers all: sink 4t | local 1000t | stride 8 phase head", 1, 4},
        {"hybrid ranges",
         "heads 8;layers all: local 16|stride 4 phase kv when distance 16..128|stride 8 phase kv when "
         "distance 128..",
         2, 4},
        {"longformer", "heads 2;block 16;layers all: local 512t | columns 0 | rows 0", 1, 2},
        {"deepspeed", "heads 8;layers all: chunk 8 | stride 8 phase 1", 1, 2},
        {"dilated", "heads 4;layers all: local 2 | dilated 4 phase head", 1, 3},
        {"not causal", "heads 4;block 4;causal no;layers all: local 2 | stride 4 phase head", 1, 4},
        {"two phases", "heads 2;heads all: dense;decode: local 4 | stride 2 phase head", 1, 3},
        {"nothing but rows", "heads 2;layers all: local 1", 2, 2},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        char said[256];
        int32_t n_claims;
        s2_buf buf = certify(rows[row].text, rows[row].n_ranks, &n_claims);
        const int code = check_bytes(buf.data, buf.len, said);
        if (code != 0 || n_claims < rows[row].n_claims)
            fail_msg("%s: exit %d, %d claims: %s", rows[row].label, code, n_claims, said);
        s2_buf_release(&buf);
    }
}

static void every_verdict_that_holds_is_certified_on_random_patterns(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(77000);
    const int64_t n_cases = s2_test_cases(600);
    const s2_gen_spec options = {2, 4, false, false, true};
    int64_t n_claims = 0, n_large = 0;
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_rng rng = {seed + (uint64_t)at};
        s2_buf buf = {0};
        s2_diag diag;
        s2_finding held[N_ASKED];
        char said[256];
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        const int32_t n = prove_all(&arena, pattern, pattern->n_heads % 2 == 0 ? 2 : 1, held);
        const s2_status status =
            n > 0 ? s2_certificate_write(&arena, pattern, held, n, &buf, &diag) : S2_EUNSUPPORTED;
        n_large += n > 0 && status != S2_OK;
        if (status == S2_OK) {
            n_claims += n;
            const int code = check_bytes(buf.data, buf.len, said);
            if (code != 0)
                fail_msg("case seed %llu: exit %d: %s\n%.3000s", (unsigned long long)(seed + (uint64_t)at),
                         code, said, buf.data);
        }
        s2_buf_release(&buf);
        s2_arena_release(&arena);
    }
    printf("# s2: %lld claims on random patterns certified and accepted by s2cert, %lld patterns too large\n",
           (long long)n_claims, (long long)n_large);
    assert_true(n_claims > n_cases / 4);
}

/* ---- a verdict that does not hold, under a table that is right --------------------------------------------
 */

/* A certificate of `rows` whose claim line is replaced by each property; s2cert must agree with the prover.
 */
static void a_false_claim_over_true_tables_is_refused(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(99000);
    const int64_t n_cases = s2_test_cases(150);
    const s2_gen_spec options = {2, 4, false, false, true};
    int64_t n_refused = 0;
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_rng rng = {seed + (uint64_t)at};
        s2_diag diag;
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        for (int32_t property = 0; property < S2_RANKS; property++) {
            const s2_prove_options how = {.n_tok = S2_OPEN};
            const s2_requirement asked = {(s2_property)property, 0, true};
            s2_finding finding;
            s2_buf buf = {0};
            char said[256];
            assert_int_equal(s2_prove(&arena, pattern, &asked, 1, &how, &finding), S2_OK);
            const bool violated = finding.verdict == S2_VIOLATED;
            finding.verdict = S2_HOLDS;
            if (violated && s2_certificate_write(&arena, pattern, &finding, 1, &buf, &diag) == S2_OK) {
                const int code = check_bytes(buf.data, buf.len, said);
                n_refused++;
                if (code != 1)
                    fail_msg("case seed %llu: %s exits %d: %s\n%.3000s",
                             (unsigned long long)(seed + (uint64_t)at), s2_property_word(asked.property),
                             code, said, buf.data);
            }
            s2_buf_release(&buf);
        }
        s2_arena_release(&arena);
    }
    printf("# s2: %lld false claims refused by s2cert\n", (long long)n_refused);
    assert_true(n_refused > 0);
}

/* ---- tampering
 * ---------------------------------------------------------------------------------------------- */

static const char *const victim = "name victim;layers 2;heads 4;kv-heads 2;block 16;layers all: sink 1 | "
                                  "local 3 | stride 4 phase head;layers 1: dense";

/* Replace the first `old` after `after`; the result has the same or another length. */
static s2_buf replaced(const s2_buf *whole, const char *after, const char *old, const char *new)
{
    s2_buf out = {0};
    const char *const from = strstr(whole->data, after);
    if (from == NULL)
        fail_msg("no \"%s\"", after);
    const char *const at = strstr(from, old);
    if (at == NULL)
        fail_msg("no \"%s\" after \"%s\"", old, after);
    s2_buf_add(&out, whole->data, (size_t)(at - whole->data));
    s2_buf_puts(&out, new);
    s2_buf_puts(&out, at + strlen(old));
    return out;
}

static void refuse(const char *label, s2_buf *forged)
{
    char said[256];
    const int code = check_bytes(forged->data, forged->len, said);
    if (code != 1 && code != 3)
        fail_msg("%s: exit %d: %s", label, code, said);
    if (strstr(said, "s2cert") == NULL)
        fail_msg("%s: no reason said", label);
    s2_buf_release(forged);
}

static void every_kind_of_tampering_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *label, *after, *old, *new;
    } rows[] = {
        {"another version", "", "s2cert 1", "s2cert 2"},
        {"another hash", "sha256", "sha256 ", "sha256 0"},
        {"a digit of the hash", "sha256", "sha256", "sha25 6"},
        {"an unknown claim", "claim", "claim rows", "claim riches"},
        {"a claim that does not hold", "claim", "claim rows", "claim shards"},
        {"no claim", "claim", "claim rows\nclaim union\nclaim kv\nclaim depth:2\n", ""},
        {"a claim that is cut", "claim", "claim rows\n", "claim\n"},
        {"a number that begins with 0", "head 0", "16: 16", "16: 016"},
        {"ranks that are not complete", "claim", "claim rows", "claim ranks:4"},
        {"ranks that do not divide", "claim", "claim rows", "claim ranks:3"},
        {"ranks of nothing", "claim", "claim rows", "claim ranks:0"},
        {"another name in the text", "name", "victim", "victor"},
        {"another stride in the text", "pattern", "stride 4", "stride 5"},
        {"another window in the text", "pattern", "local 3", "local 4"},
        {"another selector in the text", "pattern", "layers 2\n", "layers 3\n"},
        {"a text that is no pattern", "pattern", "heads 4", "heads x"},
        {"a length that cuts the text", "pattern", "pattern 1", "pattern 2"},
        {"a huge length", "pattern", "pattern 1", "pattern 99999999991"},
        {"a smaller threshold", "bounds", "threshold 16", "threshold 0"},
        {"a smaller reach", "bounds", "reach 64", "reach 16"},
        {"a smaller period", "bounds", "period 64", "period 16"},
        {"a period of no blocks", "bounds", "period 64", "period 65"},
        {"a huge period", "bounds", "period 64", "period 1099511627712"},
        {"a smaller unit", "bounds", "unit 16", "unit 1"},
        {"a larger unit", "bounds", "unit 16", "unit 32"},
        {"no tail", "bounds", "tail 16", "tail 0"},
        {"a longer run", "head 1", " 64 ", " 80 "},
        {"a shorter run", "head 0", "\n16: 16 64", "\n16: 16 48"},
        {"a missing run", "head 0", " 16 64", ""},
        {"a run too many", "head 0", "16: 16 64", "16: 16 64 80 96"},
        {"a column under another key", "head 0", "\n16:", "\n32:"},
        {"a dropped column", "head 0", "\n16: 16 64", ""},
        {"a dropped head", "head 0", "head 1\n", "head 2\n"},
        {"an overflowing number", "head 0", "16: 16", "16: 99999999999999999999999"},
        {"a negative number", "head 0", "16: 16", "16: -16"},
        {"text after the end", "end", "end\n", "end\nend\n"},
        {"no end", "end", "end\n", ""},
    };
    char said[256];
    int32_t n_claims;
    s2_buf whole = certify(victim, 2, &n_claims);
    assert_int_equal(check_bytes(whole.data, whole.len, said), 0);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_buf forged = replaced(&whole, rows[row].after, rows[row].old, rows[row].new);
        refuse(rows[row].label, &forged);
    }
    printf("# s2: %zu kinds of tampering refused by s2cert\n", sizeof rows / sizeof *rows);
    s2_buf_release(&whole);
}

/* Heads 0 and 1 exchanged as whole tables. */
static void swapped_heads_are_refused(void **state)
{
    (void)state;
    int32_t n_claims;
    s2_buf whole = certify(victim, 2, &n_claims), forged = {0};
    const char *const table[3] = {strstr(whole.data, "head 0\n"), strstr(whole.data, "head 1\n"),
                                  strstr(whole.data, "head 2\n")};
    const size_t n_title = strlen("head 0\n");
    s2_buf_add(&forged, whole.data, (size_t)(table[0] - whole.data));
    s2_buf_puts(&forged, "head 0\n");
    s2_buf_add(&forged, table[1] + n_title, (size_t)(table[2] - table[1]) - n_title);
    s2_buf_puts(&forged, "head 1\n");
    s2_buf_add(&forged, table[0] + n_title, (size_t)(table[1] - table[0]) - n_title);
    s2_buf_puts(&forged, table[2]);
    assert_int_equal(forged.len, whole.len);
    refuse("swapped heads", &forged);
    s2_buf_release(&whole);
}

static void every_truncation_and_every_changed_digit_of_the_tables_is_refused(void **state)
{
    (void)state;
    char said[256];
    int32_t n_claims;
    s2_buf whole = certify("heads 2;block 4;layers all: local 2 | stride 2 phase head", 1, &n_claims);
    for (size_t n = 0; n < whole.len; n += 1 + n / 16)
        assert_in_range(check_bytes(whole.data, n, said), 1, 3);
    for (char *at = strstr(whole.data, "head 0\n"); *at != '\0'; at++) {
        if (*at < '0' || *at > '9')
            continue;
        *at = *at == '9' ? '8' : (char)(*at + 1);
        if (check_bytes(whole.data, whole.len, said) == 0)
            fail_msg("a changed digit at byte %td was accepted", at - whole.data);
        *at = *at == '8' ? '9' : (char)(*at - 1);
    }
    s2_buf_release(&whole);
}

static void noise_never_passes_and_never_crashes(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(5);
    const int64_t n_cases = s2_test_cases(300);
    char said[256];
    int32_t n_claims;
    s2_rng rng = {seed};
    s2_buf whole = certify(victim, 2, &n_claims);
    const size_t n_head = (size_t)(strstr(whole.data, "head 1\n") - whole.data);
    const size_t n_claims_at = (size_t)(strstr(whole.data, "claim") - whole.data);
    const size_t n_pattern_at = (size_t)(strstr(whole.data, "pattern") - whole.data);
    for (int64_t at = 0; at < n_cases; at++) {
        s2_buf forged = {0};
        s2_buf_add(&forged, whole.data, whole.len);
        const size_t where = (size_t)s2_rng_below(&rng, n_head);
        forged.data[where] = (char)s2_rng_below(&rng, 256);
        const int code = check_bytes(forged.data, forged.len, said);
        /* a claim may become another true one; every other byte counts */
        const bool is_claim = where >= n_claims_at && where < n_pattern_at;
        if (code != 1 && code != 3 && forged.data[where] != whole.data[where] && !(code == 0 && is_claim))
            fail_msg("case %lld: byte %zu changed to %d: exit %d: %s", (long long)at, where,
                     (unsigned char)forged.data[where], code, said);
        s2_buf_release(&forged);
    }
    s2_buf_release(&whole);
}

/* ---- refusals of the writer
 * ----------------------------------------------------------------------------------- */

static void what_is_not_proved_for_every_length_has_no_certificate(void **state)
{
    (void)state;
    static const struct {
        const char *label, *text;
        s2_property property;
        int64_t n_tok;
    } rows[] = {
        {"violated", "heads 2;layers all: local 2", S2_UNION, S2_OPEN},
        {"one length", "heads 2;layers all: local 2", S2_ROWS, 100},
        {"dynamic", "heads 2;layers all: dense | topk 4", S2_ROWS, S2_OPEN},
        {"random", "heads 2;layers all: dense | random 2 seed 1", S2_ROWS, S2_OPEN},
        {"huge period", "heads 2;layers all: local 1|stride 65521|stride 65519|stride 65497|stride 65479",
         S2_ROWS, S2_OPEN},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_arena arena = {0};
        s2_buf buf = {0};
        s2_diag diag = {0};
        s2_pattern pattern;
        s2_finding finding;
        const s2_requirement asked = {rows[row].property, 0, true};
        const s2_prove_options how = {.n_tok = rows[row].n_tok};
        s2_buf_puts(&buf, "kept");
        assert_int_equal(
            s2_pattern_parse(&arena, rows[row].text, strlen(rows[row].text), NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &how, &finding), S2_OK);
        const s2_status status = s2_certificate_write(&arena, &pattern, &finding, 1, &buf, &diag);
        if (status != S2_EUNSUPPORTED || diag.msg[0] == '\0' || strcmp(buf.data, "kept") != 0)
            fail_msg("%s: status %d, \"%s\"", rows[row].label, status, diag.msg);
        s2_buf_release(&buf);
        s2_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_that_people_use_are_certified),
        cmocka_unit_test(every_verdict_that_holds_is_certified_on_random_patterns),
        cmocka_unit_test(a_false_claim_over_true_tables_is_refused),
        cmocka_unit_test(every_kind_of_tampering_is_refused),
        cmocka_unit_test(swapped_heads_are_refused),
        cmocka_unit_test(every_truncation_and_every_changed_digit_of_the_tables_is_refused),
        cmocka_unit_test(noise_never_passes_and_never_crashes),
        cmocka_unit_test(what_is_not_proved_for_every_length_has_no_certificate),
    };
    return cmocka_run_group_tests_name("certificate", tests, set_up, tear_down);
}
