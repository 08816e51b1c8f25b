#include "tests/s2test.h"

#include <sha2.h>
#include <string.h>

#include "base/text.h"
#include "cert/cert.h"
#include "coverage/certificate.h"
#include "pattern/parse.h"
#include "tests/gen_spec.h"
#include "tests/gen_split.h"

/* Exit code of s2cert on these bytes; its words go to said[]. */
static int check_bytes(const char *bytes, size_t n, char said[256])
{
    s2_cert_answer answer;
    s2_cert_check(bytes, n, S2_CERT_MOST_STEPS, &answer);
    snprintf(said, 256, "%s", answer.reason);
    return (int)answer.verdict;
}

/* ---- patterns and their certificates */

static const s2_property KNOWN[] = {S2_ROWS, S2_UNION, S2_KV, S2_GROUP, S2_RANKS, S2_SHARDS, S2_DEPTH};
enum { N_ASKED = sizeof KNOWN / sizeof KNOWN[0], DEPTH_ASKED = 2 };

static int32_t argument(s2_property property, int32_t n_ranks)
{
    return property == S2_RANKS ? n_ranks : property == S2_DEPTH ? DEPTH_ASKED : 0;
}

static int32_t prove_all(s2_arena *arena, const s2_pattern *pattern, int32_t n_ranks, s2_finding *held)
{
    const s2_prove_options options = {.n_tok = S2_OPEN};
    s2_requirement asked[N_ASKED];
    s2_finding findings[N_ASKED];
    for (int32_t property = 0; property < N_ASKED; property++)
        asked[property] = (s2_requirement){KNOWN[property], argument(KNOWN[property], n_ranks), true};
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
    const s2_status status = s2_certificate_write(&pattern, held, *n_claims, &buf, &diag);
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
         "layers 32;heads 32;kv-heads 8;layers all: local 16|stride 8 phase head+1;layers 1::2: dense", 4, 4},
        {"dkernel", "heads 32;kv-heads 8;layers all: local 16 | stride 8 phase kv+1", 1, 4},
        {"duo", "heads 8;kv-heads 4;heads all: sink 64t | local 256t;kv 0,2: dense", 2, 4},
        {"streaming", "heads 4;layers all: sink 4t | local 2000t;heads 0: dense", 1, 3},
        {"streaming, one dense layer", "layers 2;heads 2;layers all: sink 4t|local 2000t;layers 1: dense", 1,
         2},
        {"token-exact window", "heads 8;layers all: sink 4t | local 1000t | stride 8 phase head", 1, 4},
        {"hybrid ranges",
         "heads 8;layers all: local 16|stride 4 phase kv when distance 16..128|stride 8 phase kv when "
         "distance 128..",
         2, 4},
        {"longformer", "heads 2;block 16;layers all: local 512t | columns 0 | rows 0", 1, 2},
        {"deepspeed", "heads 8;layers all: chunk 8 | stride 8 phase 1", 1, 2},
        {"dilated", "heads 4;layers all: local 2 | dilated 4 phase head", 1, 3},
        {"two phases", "heads 2;heads all: dense;decode: local 4 | stride 2 phase head", 1, 3},
        {"nothing but rows", "heads 2;layers all: local 1", 2, 2},
        {"perfect shards", "heads 8;layers all: local 2 | stride 8 phase head", 1, 7},
        {"shards of grouped heads", "heads 8;kv-heads 4;layers all: local 100t | stride 4 phase kv+1", 1, 7},
        {"shards beside dense layers",
         "layers 4;heads 4;layers all: local 3 | stride 4 phase head;layers 1::2: dense", 1, 6},
        {"shards of two phases", "heads 4;layers all: dense;decode: local 2 | stride 4 phase head", 1, 5},
        {"both ways, every pair", "heads 4;causal no;layers all: local 2 | stride 4 phase head", 1, 3},
        {"longformer both ways",
         "heads 2;causal no;block 16;layers all: local 512t | columns 0 | rows 0;heads 1: dense", 1, 2},
        {"both ways, relative strides",
         "heads 4;causal no;layers all: dilated 4 phase head;layers all: dilated 4 phase head | rows 0", 1,
         1},
        {"both ways, two phases", "heads 1;causal no;layers all: local 2;decode: local 2 | rows 0", 1, 3},
        {"both ways, through windows", "layers 2;heads 2;causal no;layers all: local 100t;layers 1: dense", 2,
         3},
        {"a period of one token", "heads 2;block 1;layers all: dense;decode heads 0: local 1", 1, 2},
        {"depth through windows", "layers 4;heads 2;layers all: local 300t;layers 1::2: dense", 2, 4},
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

/* Every second one cut out of a whole, so that much of it holds; every fifth not causal. */
static const s2_pattern *any_pattern(uint64_t seed, s2_arena *arena)
{
    s2_rng rng = {seed};
    const s2_gen_spec options = {.most_layers = 2, .most_heads = 4, .not_causal = true, .certified = true};
    const s2_gen_split split = {seed % 5 == 0, seed % 4 == 1, seed % 3 == 0};
    return seed % 2 == 0 ? s2_gen_spec_pattern(&rng, &options, arena)
                         : s2_gen_split_pattern(&rng, &split, arena);
}

/* The property was put to use: more than one case in `one_in` met it. Few cases may all miss it. */
static void assert_met(int64_t n_met, int64_t n_cases, int64_t one_in)
{
    enum { JUDGED_FROM = 60 };
    if (n_cases >= JUDGED_FROM)
        assert_true(n_met > n_cases / one_in);
}

static void every_verdict_that_holds_is_certified_on_random_patterns(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(77000);
    const int64_t n_cases = s2_test_cases(600);
    int64_t n_claims = 0, n_large = 0, n_both_ways = 0;
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_buf buf = {0};
        s2_diag diag;
        s2_finding held[N_ASKED];
        char said[256];
        const s2_pattern *const pattern = any_pattern(seed + (uint64_t)at, &arena);
        const int32_t n = prove_all(&arena, pattern, pattern->n_heads % 2 == 0 ? 2 : 1, held);
        const s2_status status =
            n > 0 ? s2_certificate_write(pattern, held, n, &buf, &diag) : S2_EUNSUPPORTED;
        n_large += n > 0 && status != S2_OK;
        if (status == S2_OK) {
            n_claims += n;
            n_both_ways += pattern->causal ? 0 : n;
            const int code = check_bytes(buf.data, buf.len, said);
            if (code != 0)
                fail_msg("case seed %llu: exit %d: %s\n%.3000s", (unsigned long long)(seed + (uint64_t)at),
                         code, said, buf.data);
        }
        s2_buf_release(&buf);
        s2_arena_release(&arena);
    }
    printf("# s2: %lld claims on random patterns certified and accepted, %lld of them not causal; "
           "%lld patterns too large\n",
           (long long)n_claims, (long long)n_both_ways, (long long)n_large);
    assert_met(n_claims, n_cases, 4);
    assert_met(n_both_ways, n_cases, 40);
}

/* ---- a verdict that does not hold */

/*
 * A certificate of `rows` whose claim line is replaced by each property; s2cert must agree with the prover.
 */
static void a_false_claim_is_refused(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(99000);
    const int64_t n_cases = s2_test_cases(150);
    int64_t n_refused = 0;
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_diag diag;
        const s2_pattern *const pattern = any_pattern(seed + (uint64_t)at, &arena);
        for (int32_t which = 0; which < N_ASKED; which++) {
            const s2_prove_options how = {.n_tok = S2_OPEN};
            const s2_requirement asked = {KNOWN[which], argument(KNOWN[which], 1), true};
            s2_finding finding;
            s2_buf buf = {0};
            char said[256];
            assert_int_equal(s2_prove(&arena, pattern, &asked, 1, &how, &finding), S2_OK);
            const bool violated = finding.verdict == S2_VIOLATED;
            finding.verdict = S2_HOLDS;
            if (violated && s2_certificate_write(pattern, &finding, 1, &buf, &diag) == S2_OK) {
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
    assert_met(n_refused, n_cases, 4);
}

/* Random near-misses of perfect shards: where the prover decides, s2cert says the same. */
static void shards_are_accepted_and_refused_as_the_prover_decides(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "", " | sink 1", " | columns 3", " | local 70t", " | stride 3", " | chunk 2"};
    const uint64_t seed = s2_test_seed(4711);
    const int64_t n_cases = s2_test_cases(300);
    int64_t n_of[2] = {0};
    s2_rng rng = {seed};
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_buf buf = {0};
        s2_diag diag = {0};
        s2_pattern pattern;
        s2_finding finding;
        char text[256], said[256];
        const s2_requirement asked = {S2_SHARDS, 0, true};
        const s2_prove_options how = {.n_tok = S2_OPEN};
        const int kv = 2 + (int)s2_rng_below(&rng, 3), group = 1 + (int)s2_rng_below(&rng, 2);
        const bool plain = s2_rng_below(&rng, 2) == 0, tokens = s2_rng_below(&rng, 3) == 0;
        snprintf(text, sizeof text,
                 "heads %d;kv-heads %d;block %d;layers all: local %d%s | stride %d phase kv*%d+%d%s",
                 kv * group, kv, 1 << s2_rng_below(&rng, 5), 1 + (int)s2_rng_below(&rng, 30),
                 tokens ? "t" : "", plain ? kv : kv + (int)s2_rng_below(&rng, 2),
                 plain ? 1 : 1 + (int)s2_rng_below(&rng, 3), (int)s2_rng_below(&rng, 4),
                 plain ? "" : parts[s2_rng_below(&rng, 6)]);
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
        assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &how, &finding), S2_OK);
        const s2_verdict verdict = finding.verdict;
        finding.verdict = S2_HOLDS;
        if (verdict != S2_UNKNOWN && s2_certificate_write(&pattern, &finding, 1, &buf, &diag) == S2_OK) {
            const int code = check_bytes(buf.data, buf.len, said);
            n_of[verdict == S2_HOLDS]++;
            if (code != (verdict == S2_HOLDS ? 0 : 1))
                fail_msg("\"%s\" %s and s2cert exits %d: %s", text, s2_verdict_word(verdict), code, said);
        }
        s2_buf_release(&buf);
        s2_arena_release(&arena);
    }
    printf("# s2: shards: %lld that hold accepted, %lld that do not refused by s2cert, seed %llu\n",
           (long long)n_of[1], (long long)n_of[0], (unsigned long long)seed);
    assert_met(n_of[0], n_cases, 40);
    assert_met(n_of[1], n_cases, 40);
}

/* A window of D layers needs one that reads everything; s2cert refuses the first run of D that has none. */
static void depth_is_accepted_as_far_as_a_layer_reads_everything(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t depth;
        int code;
    } rows[] = {
        {"layers 4;heads 2;layers all: local 3;layers 1::2: dense", 2, 0},
        {"layers 4;heads 2;layers all: local 3;layers 1::2: dense", 1, 1},
        {"layers 5;heads 2;layers all: local 3;layers 2: dense", 3, 0},
        {"layers 5;heads 2;layers all: local 3;layers 2: dense", 2, 1},
        {"layers 6;heads 2;layers all: local 3;layers 2: dense", 3, 1},
        {"layers 3;heads 2;layers all: local 3;layers 0: dense", 9, 0},
        {"layers 2;heads 2;layers all: local 3", 9, 1},
        {"layers 2;heads 2;layers all: local 3;prefill layers 1: dense", 2, 1},
        {"layers 2;heads 4;layers all: local 3 | stride 4 phase head;layers 1: local 2t", 2, 0},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_arena arena = {0};
        s2_buf buf = {0};
        s2_diag diag = {0};
        s2_pattern pattern;
        char said[256];
        const s2_requirement asked = {S2_DEPTH, rows[row].depth, true};
        const s2_prove_options how = {.n_tok = S2_OPEN};
        s2_finding finding;
        assert_int_equal(
            s2_pattern_parse(&arena, rows[row].text, strlen(rows[row].text), NULL, &pattern, &diag), S2_OK);
        assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &how, &finding), S2_OK);
        assert_int_equal(finding.verdict == S2_HOLDS, rows[row].code == 0);
        finding.verdict = S2_HOLDS;
        finding.scope_tok = S2_OPEN;
        assert_int_equal(s2_certificate_write(&pattern, &finding, 1, &buf, &diag), S2_OK);
        const int code = check_bytes(buf.data, buf.len, said);
        if (code != rows[row].code)
            fail_msg("\"%s\" depth %d: exit %d: %s", rows[row].text, rows[row].depth, code, said);
        s2_buf_release(&buf);
        s2_arena_release(&arena);
    }
}

/* ---- tampering */

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
    if (code != 1 && code != 3 && code != 4)
        fail_msg("%s: exit %d: %s", label, code, said);
    if (said[0] == '\0')
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
        {"a hash too long", "", "s2cert 1 ", "s2cert 1 0"},
        {"a length that cuts the text", "", "\n", "9\n"},
        {"an unknown claim", "claims", "rows", "riches"},
        {"shards that are not", "claims", "rows", "shards"},
        {"a depth of nothing", "claims", "rows", "depth:0"},
        {"a depth without a number", "claims", "rows", "depth:"},
        {"a claim that does not hold", "claims", "rows", "group"},
        {"ranks that are not complete", "claims", "rows", "ranks:4"},
        {"ranks that do not divide", "claims", "rows", "ranks:3"},
        {"ranks of nothing", "claims", "rows", "ranks:0"},
        {"more ranks than heads", "claims", "rows", "ranks:8"},
        {"ranks without a number", "claims", "rows", "ranks:"},
        {"no claims", "claims", "claims", "claim"},
        {"another name in the text", "name", "victim", "victor"},
        {"another stride in the text", "name", "stride 4", "stride 5"},
        {"another window in the text", "name", "local 3", "local 4"},
        {"another sink in the text", "name", "sink 1", "sink 2"},
        {"another phase in the text", "name", "phase head", "phase kv"},
        {"another block in the text", "name", "block 16", "block 32"},
        {"more heads in the text", "name", "heads 4", "heads 8"},
        {"more KV heads in the text", "name", "kv-heads 2", "kv-heads 4"},
        {"another selector in the text", "name", "layers 2\n", "layers 3\n"},
        {"another term in the text", "name", "dense", "none"},
        {"a text that is no pattern", "name", "heads 4", "heads x"},
        {"a text that is cut", "name", "layers 1", ""},
        {"text after the end", "claims", "end\n", "end\nend\n"},
        {"no end", "claims", "end\n", ""},
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

/* The hash of the text does not save a text that a prover would never write: it is made anew for each. */
static void texts_that_are_no_patterns_are_refused_under_their_own_hash(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "heads 2\n",
        "layers all: dense\n",
        "heads 0\nlayers all: dense\n",
        "heads 3\nkv-heads 2\nlayers all: dense\n",
        "heads 2\nkv-heads 4\nlayers all: dense\n",
        "heads 2\nlayers 0: dense\nheads 4\n",
        "heads 2\nheads 0: dense\n",
        "heads 2\nheads 0-7: dense\n",
        "heads 2\nlayers 0::0: dense\n",
        "heads 2\nlayers all: stride 0\n",
        "heads 2\nlayers all: local 99999999999999999999\n",
        "heads 2\nlayers all: dense |\n",
        "heads 2\nlayers all dense\n",
        "heads 2\nlayers all: stride 1000003 | stride 1000033 | dilated 1000037\n",
        "heads 2\ncausal yes\nlayers all: dense\n",
        "heads 2\nlayers all: dense\ncausal no\n",
        "heads 2\ncausal no\nlayers all: dense when query 1.. | columns 0\n",
        "heads 2\ncausal no\nlayers all: local 2\n",
        "heads 2\nlayers all: topk 4\n",
        "heads 2\nblock 0\nlayers all: dense\n",
        "heads 2\nlayers all: stride 7 phase head*1099511627776\n",
        "heads 2\nlayers all: stride 7 phase head*16777216+head*16777216\n",
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        char hash[SHA256_DIGEST_STRING_LENGTH];
        s2_buf forged = {0};
        SHA256Data((const uint8_t *)rows[row], strlen(rows[row]), hash);
        s2_buf_printf(&forged, "s2cert 1 %s %zu\n%sclaims rows union\nend\n", hash, strlen(rows[row]),
                      rows[row]);
        refuse(rows[row], &forged);
    }
}

/* A certificate in these words, `#` in its first line being the hash of its text and `@` the length. */
static s2_buf headed(const char *header, const char *text, const char *claims, const char *tail)
{
    char hash[SHA256_DIGEST_STRING_LENGTH];
    s2_buf forged = {0};
    SHA256Data((const uint8_t *)text, strlen(text), hash);
    for (const char *c = header; *c != '\0'; c++) {
        if (*c == '#')
            s2_buf_puts(&forged, hash);
        else if (*c == '@')
            s2_buf_printf(&forged, "%zu", strlen(text));
        else
            s2_buf_add(&forged, c, 1);
    }
    s2_buf_printf(&forged, "%s%s%s", text, claims, tail);
    return forged;
}

/* Numbers and words written otherwise, said twice or too large, which another reader might take for the same. */
static void what_another_reader_would_take_for_the_same_is_refused_with_its_reason(void **state)
{
    (void)state;
#define HEAD      "s2cert 1 # @\n"
#define TEXT      "heads 2\nlayers all: dense\n"
#define CLAIMS    "claims rows union\n"
#define END       "end\n"
#define NO_LENGTH "expected a number from 1 to 1048576"
#define NO_HASH   "the hash is not that of the pattern"
    static const struct {
        const char *label, *header, *text, *claims, *tail, *reason;
    } rows[] = {
        {"a length with an exponent", "s2cert 1 # 26e0\n", TEXT, CLAIMS, END,
         "column 77: expected the end of the line"},
        {"a length with a zero before", "s2cert 1 # 026\n", TEXT, CLAIMS, END, NO_LENGTH},
        {"a length with a sign", "s2cert 1 # +26\n", TEXT, CLAIMS, END, NO_LENGTH},
        {"a length in base 16", "s2cert 1 # 0x1a\n", TEXT, CLAIMS, END, NO_LENGTH},
        {"a length plus 2^64", "s2cert 1 # 18446744073709551642\n", TEXT, CLAIMS, END, NO_LENGTH},
        {"a length plus 2^32", "s2cert 1 # 4294967322\n", TEXT, CLAIMS, END, NO_LENGTH},
        {"a length less one", "s2cert 1 # 25\n", TEXT, CLAIMS, END, NO_HASH},
        {"a length that takes in the claims", "s2cert 1 # 44\n", TEXT, CLAIMS, END, NO_HASH},
        {"a version with an exponent", "s2cert 1e0 # @\n", TEXT, CLAIMS, END, "expected a certificate"},
        {"a mark of byte order", "\xef\xbb\xbfs2cert 1 # @\n", TEXT, CLAIMS, END, "expected a certificate"},
        {"two spaces", "s2cert 1  # @\n", TEXT, CLAIMS, END, "expected a hash"},
        {"a hash of a zero more", "s2cert 1 0# @\n", TEXT, CLAIMS, END, "column 74"},
        {"a carriage return", "s2cert 1 # @\r\n", TEXT, CLAIMS, END,
         "column 77: expected the end of the line"},
        {"two first lines", "s2cert 1 # @\ns2cert 1 # @\n", TEXT, CLAIMS, END, NO_HASH},
        {"heads with an exponent", HEAD, "heads 2e0\nlayers all: dense\n", CLAIMS, END, "line 2, column 8"},
        {"heads with a zero before", HEAD, "heads 02\nlayers all: dense\n", CLAIMS, END, "line 2, column 7"},
        {"heads as a fraction", HEAD, "heads 2.0\nlayers all: dense\n", CLAIMS, END, "line 2, column 8"},
        {"heads in wide digits", HEAD, "heads \xef\xbc\x92\nlayers all: dense\n", CLAIMS, END,
         "line 2, column 7"},
        {"heads as an escape", HEAD, "heads \\u0032\nlayers all: dense\n", CLAIMS, END, "line 2, column 7"},
        {"a letter that looks like e", HEAD,
         "h\xd0\xb5"
         "ads 2\nlayers all: dense\n",
         CLAIMS, END, "line 2, column 1"},
        {"a name that turns the line", HEAD,
         "name \xe2\x80\xae"
         "abc\nheads 2\nlayers all: dense\n",
         CLAIMS, END, "harmless UTF-8"},
        {"heads plus 2^64", HEAD, "heads 18446744073709551618\nlayers all: dense\n", CLAIMS, END,
         "from 1 to 4096"},
        {"layers plus 2^32", HEAD, "layers 4294967297\nheads 2\nlayers all: dense\n", CLAIMS, END,
         "from 1 to 1024"},
        {"a window plus 2^64", HEAD, "heads 2\nlayers all: local 18446744073709551617\n", CLAIMS, END,
         "from 1 to 16777216"},
        {"heads twice", HEAD, "heads 2\nheads 2\nlayers all: dense\n", CLAIMS, END, "line 3, column 7"},
        {"a rule twice", HEAD, "heads 2\nlayers all: dense\nlayers all: dense\n", CLAIMS, END,
         "the first is never used"},
        {"a comment", HEAD, "heads 2\nlayers all: dense\n# x\n", CLAIMS, END,
         "line 4, column 1: expected a statement"},
        {"a text without its last line end", HEAD, "heads 2\nlayers all: dense", CLAIMS, END,
         "line 3, column 18"},
        {"claims twice", HEAD, TEXT, CLAIMS CLAIMS, END, "a last line `end`"},
        {"a claim twice", HEAD, TEXT, "claims rows rows\n", END, "expected no claim twice"},
        {"no claim", HEAD, TEXT, "claims\n", END, "expected 1 to 16 claims"},
        {"a depth with an exponent", HEAD, TEXT, "claims depth:1e0\n", END, "line 4, column 15"},
        {"a depth plus 2^64", HEAD, TEXT, "claims depth:18446744073709551617\n", END, "from 1 to 4096"},
        {"ranks plus 2^32", HEAD, TEXT, "claims ranks:4294967297\n", END, "from 1 to 2"},
        {"a claim of one length", HEAD, TEXT, "claims rows@4096 union\n", END, "line 4, column 12"},
        {"a space behind the end", HEAD, TEXT, CLAIMS, "end \n", "a last line `end`"},
        {"a line behind the end", HEAD, TEXT, CLAIMS, "end\n\n", "expected nothing after the line `end`"},
        {"a second certificate", HEAD, TEXT, CLAIMS, "end\ns2cert 1 \n",
         "expected nothing after the line `end`"},
        {"an end that is cut", HEAD, TEXT, CLAIMS, "en", "a last line `end`"},
        {"another pattern under this hash",
         "s2cert 1 dfd2f1a77318074f1f45f194d7afa1a06c9e9c409aaac05b8d3fa231890f98a4 @\n",
         "heads 4\nlayers all: dense\n", CLAIMS, END, NO_HASH},
    };
    char said[256];
    s2_buf whole = headed(HEAD, TEXT, CLAIMS, END);
    assert_int_equal(check_bytes(whole.data, whole.len, said), 0);
    s2_buf_release(&whole);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_buf forged = headed(rows[row].header, rows[row].text, rows[row].claims, rows[row].tail);
        const int code = check_bytes(forged.data, forged.len, said);
        if (code != (strcmp(rows[row].reason, NO_HASH) == 0 ? 1 : 3) ||
            strstr(said, rows[row].reason) == NULL)
            fail_msg("%s: exit %d: %s", rows[row].label, code, said);
        s2_buf_release(&forged);
    }
    printf("# s2: %zu ways to write the same refused by s2cert, each with its reason\n",
           sizeof rows / sizeof *rows);
}

/* What holds of a causal pattern is no claim on the same text without causality, nor the other way round. */
static void what_prefill_drops_decoding_cannot_read_by_a_period_of_one_token(void **state)
{
    (void)state;
    static const char text[] = "heads 6\nblock 1\nlayers all: none\ndecode heads 0: dense\n";
    char hash[SHA256_DIGEST_STRING_LENGTH];
    s2_buf forged = {0};
    SHA256Data((const uint8_t *)text, strlen(text), hash);
    s2_buf_printf(&forged, "s2cert 1 %s %zu\n%sclaims kv\nend\n", hash, strlen(text), text);
    refuse("a key dropped in prefill and read in decode", &forged);
}

static void causality_cannot_be_forged(void **state)
{
    (void)state;
    static const char *const text = "heads 1;causal no;layers all: local 1 | dense when query 1.. | rows 0";
    char said[256];
    int32_t n_claims;
    s2_buf whole = certify(text, 1, &n_claims);
    assert_int_equal(check_bytes(whole.data, whole.len, said), 0);
    s2_buf forged = replaced(&whole, "heads", "causal no\n", "");
    refuse("causal after all", &forged);
    s2_buf shards = replaced(&whole, "claims", "claims", "claims shards");
    refuse("shards without causality", &shards);
    s2_buf_release(&whole);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    char said[256];
    int32_t n_claims;
    s2_buf whole = certify("heads 2;block 4;layers all: local 2 | stride 2 phase head", 1, &n_claims);
    for (size_t n = 0; n < whole.len; n++)
        assert_int_equal(check_bytes(whole.data, n, said), 3);
    /* nor may anything follow, behind a zero either */
    s2_buf_add(&whole, "\0more", 5);
    assert_int_equal(check_bytes(whole.data, whole.len, said), 3);
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
    const size_t n_claims_at = (size_t)(strstr(whole.data, "claims") - whole.data);
    const size_t n_text_at = (size_t)(strchr(whole.data, '\n') - whole.data) + 1;
    for (int64_t at = 0; at < n_cases; at++) {
        s2_buf forged = {0};
        s2_buf_add(&forged, whole.data, whole.len);
        const size_t where = (size_t)s2_rng_below(&rng, whole.len);
        forged.data[where] = (char)s2_rng_below(&rng, 256);
        const int code = check_bytes(forged.data, forged.len, said);
        /* a claim may become another true one, a blank of the title another blank; every other byte counts */
        const bool may_pass = where >= n_claims_at || where < n_text_at;
        if (code != 1 && code != 3 && forged.data[where] != whole.data[where] && !(code == 0 && may_pass))
            fail_msg("case %lld: byte %zu changed to %d: exit %d: %s", (long long)at, where,
                     (unsigned char)forged.data[where], code, said);
        s2_buf_release(&forged);
    }
    s2_buf_release(&whole);
}

/* ---- refusals of the writer */

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
        {"shards of one length", "heads 2;layers all: dense", S2_SHARDS, 100},
        {"shards, not causal", "heads 2;causal no;layers all: dense", S2_SHARDS, S2_OPEN},
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
        const s2_status status = s2_certificate_write(&pattern, &finding, 1, &buf, &diag);
        if (status != S2_EUNSUPPORTED || diag.msg[0] == '\0' || strcmp(buf.data, "kept") != 0)
            fail_msg("%s: status %d, \"%s\"", rows[row].label, status, diag.msg);
        s2_buf_release(&buf);
        s2_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        s2_long_test(patterns_that_people_use_are_certified),
        cmocka_unit_test(every_verdict_that_holds_is_certified_on_random_patterns),
        cmocka_unit_test(a_false_claim_is_refused),
        cmocka_unit_test(shards_are_accepted_and_refused_as_the_prover_decides),
        cmocka_unit_test(depth_is_accepted_as_far_as_a_layer_reads_everything),
        cmocka_unit_test(every_kind_of_tampering_is_refused),
        cmocka_unit_test(texts_that_are_no_patterns_are_refused_under_their_own_hash),
        cmocka_unit_test(what_another_reader_would_take_for_the_same_is_refused_with_its_reason),
        cmocka_unit_test(what_prefill_drops_decoding_cannot_read_by_a_period_of_one_token),
        cmocka_unit_test(causality_cannot_be_forged),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(noise_never_passes_and_never_crashes),
        cmocka_unit_test(what_is_not_proved_for_every_length_has_no_certificate),
    };
    return cmocka_run_group_tests_name("certificate", tests, NULL, NULL);
}
