/*
 * Certificates that somebody forged: texts and claims changed at random, under a hash made anew. What the
 * checker takes as a text must be, byte for byte, what the printer of s2 writes; what it verifies must hold
 * by the prover and by plain enumeration of the definition. `make campaign-cert` runs a million of them.
 */
#include "tests/s2test.h"

#include <sha2.h>
#include <string.h>

#include "cert/cert.h"
#include "coverage/prove.h"
#include "pattern/dense.h"
#include "pattern/models.h"
#include "pattern/parse.h"
#include "pattern/words.h"
#include "tests/gen_forged.h"
#include "tests/gen_pattern.h"
#include "tests/gen_spec.h"
#include "tests/gen_split.h"

/* ---- texts */

static const s2_parse_options NO_FILES = {.no_files = true};

static const char *const WORDS[] = {
    "name ",
    "model ",
    "layers ",
    "heads ",
    "kv-heads ",
    "head-dim ",
    "block ",
    "causal no\n",
    "causal yes\n",
    "kv ",
    "prefill ",
    "decode ",
    "all",
    "layers all: ",
    "dense",
    "none",
    "local ",
    "sink ",
    "stride ",
    "dilated ",
    "columns ",
    "rows ",
    "chunk ",
    " | ",
    " width ",
    " phase ",
    "head",
    "kv",
    "layer",
    "*",
    "+",
    " when ",
    "distance ",
    "key ",
    "query ",
    " & ",
    "..",
    "-",
    ":",
    "::",
    ",",
    ", ",
    "t",
    "k",
    "kt",
    "m",
    "; ",
    ";",
    "#",
    " # x",
    "\"",
    "\\",
    "\n",
    "\r\n",
    "\t",
    "  ",
    "\033[31m",
    "\xc3\xa4",
    "\xe2\x80\xae",
    "\xed\xa0\x80",
    "\xff",
    "0",
    "00",
    "1",
    "64t",
    "topk 4",
    "mask \"a.npy\"",
    "random 2 seed 1",
    "heavy 2",
};
static const char *const NUMBERS[] = {"0",
                                      "1",
                                      "2",
                                      "3",
                                      "7",
                                      "16",
                                      "64",
                                      "65",
                                      "128",
                                      "1024",
                                      "1025",
                                      "4096",
                                      "4097",
                                      "65536",
                                      "65537",
                                      "16777215",
                                      "16777216",
                                      "16777217",
                                      "2147483647",
                                      "2147483649",
                                      "4294967296",
                                      "4294967298",
                                      "1099511627776",
                                      "9223372036854775807",
                                      "9223372036854775809",
                                      "18446744073709551616",
                                      "18446744073709551618",
                                      "007"};
#define PICK(rng, list) (list)[s2_rng_below(rng, sizeof(list) / sizeof *(list))]

static size_t any_place(s2_rng *rng, const s2_buf *text)
{
    return (size_t)s2_rng_below(rng, text->len + 1);
}

static void splice(s2_buf *text, size_t begin, size_t end, const char *with, size_t n_with)
{
    s2_buf out = {0};
    s2_buf_add(&out, text->data != NULL ? text->data : "", begin);
    s2_buf_add(&out, with, n_with);
    s2_buf_add(&out, text->data != NULL ? text->data + end : "", text->len - end);
    s2_buf_release(text);
    *text = out;
}

/* The run of digits that starts at or behind a random place. */
static bool any_number(s2_rng *rng, const s2_buf *text, size_t *begin, size_t *end)
{
    *begin = any_place(rng, text);
    while (*begin > 0 && *begin < text->len && strchr("0123456789", text->data[*begin - 1]) != NULL)
        --*begin;
    while (*begin < text->len && (text->data[*begin] < '0' || text->data[*begin] > '9'))
        ++*begin;
    for (*end = *begin; *end < text->len && text->data[*end] >= '0' && text->data[*end] <= '9';)
        ++*end;
    return *begin < *end;
}

static void change_number(s2_rng *rng, s2_buf *text)
{
    size_t begin, end;
    char digits[32];
    if (!any_number(rng, text, &begin, &end))
        return;
    const long long value = strtoll(text->data + begin, NULL, 10);
    const long long changed[] = {value + 1, value - 1, value * 2, value / 2, value + 64, value * 10};
    if (s2_rng_below(rng, 4) == 0)
        snprintf(digits, sizeof digits, "%s", PICK(rng, NUMBERS));
    else
        snprintf(digits, sizeof digits, "%lld", PICK(rng, changed));
    splice(text, begin, end, digits, strlen(digits));
}

static void lines_of(s2_rng *rng, const s2_buf *text, char separator, size_t *begin, size_t *end)
{
    *begin = any_place(rng, text);
    while (*begin > 0 && text->data[*begin - 1] != separator)
        --*begin;
    for (*end = *begin; *end < text->len && text->data[*end] != separator;)
        ++*end;
    *end += *end < text->len;
}

/* A statement or a term: dropped, said twice, or moved. */
static void move_piece(s2_rng *rng, s2_buf *text)
{
    size_t begin, end;
    lines_of(rng, text, s2_rng_below(rng, 3) == 0 ? '|' : '\n', &begin, &end);
    s2_buf piece = {0};
    s2_buf_add(&piece, text->data != NULL ? text->data + begin : "", end - begin);
    const uint64_t how = s2_rng_below(rng, 3);
    if (how != 0)
        splice(text, begin, end, "", 0);
    if (how != 1) {
        size_t to, ignored;
        lines_of(rng, text, '\n', &to, &ignored);
        splice(text, to, to, piece.data != NULL ? piece.data : "", piece.len);
    }
    s2_buf_release(&piece);
}

static void mutate_text(s2_rng *rng, s2_buf *text)
{
    const size_t at = any_place(rng, text);
    const size_t end = at + (size_t)s2_rng_below(rng, 1 + (text->len - at < 6 ? text->len - at : 6));
    const char byte = (char)s2_rng_below(rng, 256);
    const char *const word = PICK(rng, WORDS);
    switch (s2_rng_below(rng, 8)) {
    case 0: splice(text, at, at, word, strlen(word)); break;
    case 1: splice(text, at, end, word, strlen(word)); break;
    case 2: splice(text, at, at < text->len ? at + 1 : at, &byte, 1); break;
    case 3: splice(text, at, end, "", 0); break;
    case 4: move_piece(rng, text); break;
    default: change_number(rng, text); break;
    }
}

/* A canonical text, or one that is decorated. */
static s2_buf any_text(s2_rng *rng, bool canonical)
{
    s2_buf text = {0}, printed = {0};
    s2_arena arena = {0};
    s2_pattern parsed;
    const s2_gen_split split = {s2_rng_below(rng, 5) == 0, s2_rng_below(rng, 2) == 0,
                                s2_rng_below(rng, 3) == 0};
    const s2_gen_spec spec = {.most_layers = 3, .most_heads = 4, .not_causal = true, .certified = true};
    s2_gen_options options = s2_gen_defaults();
    options.explicit_random = options.dynamic = s2_rng_below(rng, 8) == 0;
    const uint64_t which = s2_rng_below(rng, 4);
    if (which == 0)
        s2_pattern_print(s2_gen_split_pattern(rng, &split, &arena), &text);
    else if (which == 1)
        s2_pattern_print(s2_gen_spec_pattern(rng, &spec, &arena), &text);
    else
        s2_gen_pattern(rng, &options, &text);
    if (canonical && which > 1) {
        assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, &NO_FILES, &parsed, NULL), S2_OK);
        s2_pattern_print(&parsed, &printed);
        s2_buf_release(&text);
        text = printed;
    }
    s2_arena_release(&arena);
    return text;
}

static s2_buf sealed(const s2_buf *text, const char *claims)
{
    char hash[SHA256_DIGEST_STRING_LENGTH];
    s2_buf out = {0};
    const char *const bytes = text->data != NULL ? text->data : "";
    SHA256Data((const uint8_t *)bytes, text->len, hash);
    s2_buf_printf(&out, "s2cert 1 %s %zu\n", hash, text->len);
    s2_buf_add(&out, bytes, text->len);
    s2_buf_printf(&out, "claims%s\nend\n", claims);
    return out;
}

/* ---- the grammar */

/* What the checker knows: static terms, and one shape for all layers. */
static bool is_static(const s2_pattern *pattern)
{
    if (pattern->layer_shapes != NULL)
        return false;
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        for (int32_t t = 0; t < pattern->bodies[body].n_terms; t++)
            if (!s2_term_row_of(pattern->bodies[body].terms[t].kind)->in_certificate)
                return false;
    return true;
}

/* Whether s2 reads the text and prints it again as it was. */
static bool reprints(const s2_buf *text, s2_arena *arena, s2_pattern *out)
{
    s2_buf printed = {0};
    if (s2_pattern_parse(arena, text->data != NULL ? text->data : "", text->len, &NO_FILES, out, NULL) !=
        S2_OK)
        return false;
    s2_pattern_print(out, &printed);
    assert_int_equal(printed.status, S2_OK);
    const bool same = printed.len == text->len && memcmp(printed.data, text->data, text->len) == 0;
    s2_buf_release(&printed);
    return same;
}

typedef enum reading { NOT_CANONICAL, CANONICAL, UNKNOWN_WORD } reading;

/* With no step allowed the checker reads everything and decides nothing. */
static reading read_by_checker(const s2_buf *text, s2_cert_answer *answer)
{
    s2_buf certificate = sealed(text, " rows");
    s2_cert_check(certificate.data, certificate.len, 0, answer);
    s2_buf_release(&certificate);
    if (answer->verdict == S2_CERT_MALFORMED)
        return NOT_CANONICAL;
    assert_int_equal(answer->verdict, S2_CERT_UNDECIDED);
    return strstr(answer->reason, "knows no such") != NULL ? UNKNOWN_WORD : CANONICAL;
}

/* The checker's reading and the printer's agree on this text. */
static reading compare_readings(const s2_buf *text, uint64_t seed)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_cert_answer answer;
    const reading by_checker = read_by_checker(text, &answer);
    const bool same = reprints(text, &arena, &pattern);
    const bool expected = same && is_static(&pattern);
    if (by_checker == CANONICAL ? !expected : by_checker == NOT_CANONICAL ? same : expected)
        fail_msg("seed %llu: %s by the printer, but the checker says \"%s\":\n%.*s", (unsigned long long)seed,
                 same ? "canonical" : "not canonical", answer.reason, (int)text->len, text->data);
    s2_arena_release(&arena);
    return by_checker;
}

static void the_checker_reads_what_the_printer_writes_and_nothing_else(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20261123);
    const int64_t n_cases = s2_test_cases(20000);
    int64_t n_of[3] = {0};
    for (int64_t n = 0; n < n_cases; n++) {
        s2_rng rng = {seed + (uint64_t)n};
        const bool canonical = s2_rng_below(&rng, 8) != 0;
        s2_buf text = any_text(&rng, canonical);
        for (uint64_t left = s2_rng_below(&rng, 4); left > 0; left--)
            mutate_text(&rng, &text);
        n_of[compare_readings(&text, seed + (uint64_t)n)]++;
        s2_buf_release(&text);
    }
    printf("# s2: %lld texts: %lld canonical, %lld not, %lld with words unknown to the checker, seed %llu\n",
           (long long)n_cases, (long long)n_of[CANONICAL], (long long)n_of[NOT_CANONICAL],
           (long long)n_of[UNKNOWN_WORD], (unsigned long long)seed);
    assert_true(n_of[CANONICAL] > n_cases / 8 && n_of[NOT_CANONICAL] > n_cases / 8);
}

/* Not by chance: a number that wraps to another at 2^31, 2^32, 2^63 or 2^64 would let one text pass for another. */
static void each_number_at_each_edge_is_read_as_the_printer_writes_it(void **state)
{
    (void)state;
    static const char written[] = "name 7;layers 4;heads 8;kv-heads 4;head-dim 64;block 16;causal no;"
                                  "layers all: local 3t | stride 4 width 2 phase head*2+kv*3+layer*5+1 when "
                                  "distance 2..9 & key 1..40t & query 3..;layers 1-2: columns 1,4-6,9:20:3 | "
                                  "dilated 6t width 5t;layers 3 heads 0::3: rows 2:: | chunk 5 | sink 17t;"
                                  "decode layers 0 kv 1,3: none";
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_buf text = {0};
    int64_t n_of[3] = {0};
    assert_int_equal(s2_pattern_parse(&arena, written, sizeof written - 1, &NO_FILES, &pattern, NULL), S2_OK);
    s2_pattern_print(&pattern, &text);
    for (size_t begin = 0, end; begin < text.len; begin = end) {
        begin += strcspn(text.data + begin, "0123456789");
        end = begin + strspn(text.data + begin, "0123456789");
        for (size_t edge = 0; begin < text.len && edge < sizeof NUMBERS / sizeof *NUMBERS; edge++) {
            s2_buf changed = {0};
            s2_buf_add(&changed, text.data, text.len);
            splice(&changed, begin, end, NUMBERS[edge], strlen(NUMBERS[edge]));
            n_of[compare_readings(&changed, begin)]++;
            s2_buf_release(&changed);
        }
    }
    assert_true(n_of[CANONICAL] > 100 && n_of[NOT_CANONICAL] > 500 && n_of[UNKNOWN_WORD] == 0);
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

/* Many heads and layers, few bodies: selectors, lists and the fallback. */
static void selectors_of_large_shapes_are_read_as_the_printer_writes_them(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(4);
    const int64_t n_cases = s2_test_cases(1500);
    int64_t n_canonical = 0;
    for (int64_t n = 0; n < n_cases; n++) {
        s2_rng rng = {seed + (uint64_t)n};
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_buf text = {0}, printed = {0};
        const int group = 1 << s2_rng_below(&rng, 3), kv = 1 + (int)s2_rng_below(&rng, 24);
        const int n_layers = 1 + (int)s2_rng_below(&rng, 40);
        s2_buf_printf(&text, "layers %d;heads %d;kv-heads %d;layers all: dense;", n_layers, kv * group, kv);
        for (uint64_t left = s2_rng_below(&rng, 8); left > 0; left--) {
            static const char *const phases[] = {"", "", "prefill ", "decode "};
            s2_buf_printf(&text, "%slayers %d::%d %s %d::%d: local %d;", PICK(&rng, phases),
                          (int)s2_rng_below(&rng, (uint64_t)n_layers), 1 + (int)s2_rng_below(&rng, 5),
                          s2_rng_below(&rng, 2) == 0 ? "kv" : "heads", (int)s2_rng_below(&rng, (uint64_t)kv),
                          1 + (int)s2_rng_below(&rng, 4), 1 + (int)s2_rng_below(&rng, 3));
        }
        assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, NULL), S2_OK);
        s2_pattern_print(&pattern, &printed);
        assert_int_equal(compare_readings(&printed, seed + (uint64_t)n), CANONICAL);
        mutate_text(&rng, &printed);
        n_canonical += compare_readings(&printed, seed + (uint64_t)n) == CANONICAL;
        s2_buf_release(&text);
        s2_buf_release(&printed);
        s2_arena_release(&arena);
    }
    assert_true(n_canonical > 0 || n_cases < 25); /* of a few, none may stay canonical */
}

static void the_checker_knows_every_model(void **state)
{
    (void)state;
    for (int32_t m = 0; m < s2_model_count(); m++) {
        s2_buf text = {0};
        s2_buf_printf(&text, "model %s\nlayers 2\nheads 4\nkv-heads 2\nhead-dim 128\nlayers all: dense\n",
                      s2_model_at(m)->net.name);
        assert_int_equal(compare_readings(&text, 0), CANONICAL);
        s2_buf_release(&text);
    }
}

/* The first line of each is small; what it asks for is not. */
static void hostile_numbers_are_answered_at_once(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "heads 1\nlayers all: sink 262144\n",
        "heads 4096\nlayers all: stride 65521 | stride 65519\n",
        "layers 1024\nheads 4096\nlayers all: local 262144\n",
        "heads 2\nblock 1\ncausal no\nlayers all: dilated 65536 width 65536 phase layer*16777216\n",
        "heads 2\nlayers all: chunk 16777215t | rows 262143\n",
        "heads 2\nlayers all: columns 0:262143:2 | dense when distance ..16777215t\n",
    };
    for (size_t row = 0; row < sizeof texts / sizeof *texts; row++) {
        s2_buf text = {0};
        s2_cert_answer answer;
        s2_buf_puts(&text, texts[row]);
        s2_buf whole = sealed(&text, " rows union kv group shards depth:2");
        s2_cert_check(whole.data, whole.len, S2_CERT_MOST_STEPS, &answer);
        assert_true(answer.verdict == S2_CERT_UNDECIDED || answer.verdict == S2_CERT_MALFORMED ||
                    answer.verdict == S2_CERT_REFUTED);
        s2_buf_release(&text);
        s2_buf_release(&whole);
    }
}

/* ---- mutants of whole certificates */

static const struct {
    const char *word;
    s2_property property;
} CLAIMS[] = {{"rows", S2_ROWS},     {"union", S2_UNION}, {"kv", S2_KV},      {"group", S2_GROUP},
              {"shards", S2_SHARDS}, {"ranks", S2_RANKS}, {"depth", S2_DEPTH}};
enum { N_CLAIMS = sizeof CLAIMS / sizeof *CLAIMS };

/* The requirements of "claims rows ranks:2". */
static int32_t requirements_of(const char *claims, s2_requirement *out)
{
    int32_t n = 0;
    for (const char *at = strchr(claims, ' '); at != NULL; at = strchr(at + 1, ' '))
        for (int c = 0; c < N_CLAIMS; c++)
            if (strncmp(at + 1, CLAIMS[c].word, strlen(CLAIMS[c].word)) == 0) {
                const char *const tail = at + 1 + strlen(CLAIMS[c].word);
                out[n++] = (s2_requirement){CLAIMS[c].property, *tail == ':' ? atoi(tail + 1) : 0, true};
            }
    return n;
}

static void random_claims(s2_rng *rng, char *out, size_t room)
{
    int n = 0;
    for (uint64_t left = 1 + s2_rng_below(rng, 3); left > 0; left--) {
        const int c = (int)s2_rng_below(rng, N_CLAIMS);
        const bool arg = CLAIMS[c].property == S2_RANKS || CLAIMS[c].property == S2_DEPTH;
        n += snprintf(out + n, room - (size_t)n, " %s", CLAIMS[c].word);
        if (arg)
            n += snprintf(out + n, room - (size_t)n, ":%d", (int)s2_rng_below(rng, 5));
    }
}

typedef struct tally {
    int64_t n, verified, refuted, malformed, undecided, enumerated, unproved;
} tally;

/* All claims of a verified certificate hold: by the prover, and by enumeration of a context of their own. */
static void confirm(const s2_buf *whole, const s2_cert_answer *answer, uint64_t seed, tally *sum)
{
    enum { BRUTE_TOK = 192, LESS_TOK = 48, MANY_CELLS = 12 };
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_requirement asked[S2_CERT_MOST_CLAIMS];
    s2_finding proved[S2_CERT_MOST_CLAIMS], listed[S2_CERT_MOST_CLAIMS];
    char hash[S2_HASH_HEX];
    const char *const text = strchr(whole->data, '\n') + 1;
    const size_t n_text = (size_t)strtoull(whole->data + 9 + 64, NULL, 10);
    const int32_t n = requirements_of(answer->claims, asked);
    const s2_prove_options open = {.n_tok = S2_OPEN};
    s2_prove_options brief = {.n_tok = BRUTE_TOK};
    assert_true(n > 0);
    if (s2_pattern_parse(&arena, text, n_text, &NO_FILES, &pattern, NULL) != S2_OK)
        fail_msg("seed %llu: verified, but s2 refuses the text:\n%s", (unsigned long long)seed, whole->data);
    if (pattern.n_layers * pattern.n_heads > MANY_CELLS)
        brief.n_tok = LESS_TOK;
    assert_int_equal(s2_pattern_hash(&pattern, hash), S2_OK);
    assert_string_equal(hash, answer->hash);
    assert_int_equal(s2_prove(&arena, &pattern, asked, n, &open, proved), S2_OK);
    assert_int_equal(s2_enumerate(&arena, &pattern, asked, n, &brief, listed), S2_OK);
    for (int32_t f = 0; f < n; f++) {
        sum->unproved += proved[f].verdict == S2_UNKNOWN;
        sum->enumerated += listed[f].verdict == S2_HOLDS;
        if (proved[f].verdict == S2_VIOLATED || listed[f].verdict == S2_VIOLATED)
            fail_msg("seed %llu: verified, but %s is violated:\n%s", (unsigned long long)seed,
                     s2_property_word(asked[f].property), whole->data);
    }
    s2_arena_release(&arena);
}

/* A refuted certificate has a claim that the prover does not find to hold. */
static void confirm_refusal(const s2_buf *whole, const s2_cert_answer *answer, uint64_t seed)
{
    if (strstr(answer->reason, "hash") != NULL)
        return;
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_requirement asked[S2_CERT_MOST_CLAIMS];
    s2_finding proved[S2_CERT_MOST_CLAIMS];
    const s2_prove_options open = {.n_tok = S2_OPEN};
    const char *const text = strchr(whole->data, '\n') + 1;
    const size_t n_text = (size_t)strtoull(whole->data + 9 + 64, NULL, 10);
    const int32_t n = requirements_of(strchr(text + n_text, ' '), asked);
    assert_int_equal(s2_pattern_parse(&arena, text, n_text, &NO_FILES, &pattern, NULL), S2_OK);
    assert_int_equal(s2_prove(&arena, &pattern, asked, n, &open, proved), S2_OK);
    bool all = true;
    for (int32_t f = 0; f < n; f++)
        all = all && proved[f].verdict == S2_HOLDS;
    if (all)
        fail_msg("seed %llu: refuted (%s), but all of it holds:\n%s", (unsigned long long)seed,
                 answer->reason, whole->data);
    s2_arena_release(&arena);
}

/* One claim, or several, that suit the shape more often than not. */
static void likely_claims(s2_rng *rng, char *out, size_t room)
{
    static const char *const sets[] = {" union",   " kv",           " rows",          " shards",
                                       " group",   " ranks:2",      " depth:2",       " depth:3",
                                       " kv rows", " union shards", " rows union kv", " depth:4 union"};
    snprintf(out, room, "%s", PICK(rng, sets));
}

/* A forged text with a number or two changed, in canonical form; false where s2 refuses it, or enumeration would take long. */
static bool forged_text(s2_rng *rng, int kind, s2_buf *text)
{
    enum { MOST_CELLS = 64 };
    s2_arena arena = {0};
    s2_pattern parsed;
    s2_buf printed = {0};
    s2_gen_forged(rng, kind, text);
    for (uint64_t left = s2_rng_below(rng, 3); left > 0; left--)
        change_number(rng, text);
    const bool good = s2_pattern_parse(&arena, text->data, text->len, &NO_FILES, &parsed, NULL) == S2_OK &&
                      parsed.n_layers * parsed.n_heads <= MOST_CELLS;
    if (good)
        s2_pattern_print(&parsed, &printed);
    s2_buf_release(text);
    *text = printed;
    s2_arena_release(&arena);
    return good;
}

/* A certificate with its text, its claims, or its bytes changed; mostly under a hash made anew. */
static s2_buf any_mutant(s2_rng *rng)
{
    char claims[128];
    s2_buf text = any_text(rng, true);
    for (uint64_t left = s2_rng_below(rng, 4); left > 0; left--)
        mutate_text(rng, &text);
    random_claims(rng, claims, sizeof claims);
    s2_buf whole = sealed(&text, claims);
    if (s2_rng_below(rng, 8) == 0)
        mutate_text(rng, &whole);
    if (s2_rng_below(rng, 32) == 0)
        whole.len = (size_t)s2_rng_below(rng, whole.len + 1);
    s2_buf_release(&text);
    return whole;
}

/* What the checker says of one certificate is held against the prover and plain enumeration. */
static void judge(const s2_buf *whole, double most_steps, uint64_t seed, tally *sum)
{
    s2_cert_answer answer;
    s2_cert_check(whole->data, whole->len, most_steps, &answer);
    sum->n++;
    sum->verified += answer.verdict == S2_CERT_VERIFIED;
    sum->refuted += answer.verdict == S2_CERT_REFUTED;
    sum->malformed += answer.verdict == S2_CERT_MALFORMED;
    sum->undecided += answer.verdict == S2_CERT_UNDECIDED;
    for (const char *byte = answer.reason; *byte != '\0'; byte++)
        assert_in_range(*byte, ' ', '~');
    if (answer.verdict == S2_CERT_VERIFIED)
        confirm(whole, &answer, seed, sum);
    if (answer.verdict == S2_CERT_REFUTED)
        confirm_refusal(whole, &answer, seed);
}

static void no_mutant_that_is_verified_is_violated(void **state)
{
    (void)state;
    const double most_steps = 1e6;
    const uint64_t seed = s2_test_seed(1);
    const int64_t n_cases = s2_test_cases(20000);
    tally sum = {0};
    while (sum.n < n_cases) {
        s2_rng rng = {seed * UINT64_C(1000000007) + (uint64_t)sum.n};
        s2_buf whole = any_mutant(&rng);
        judge(&whole, most_steps, (uint64_t)sum.n, &sum);
        s2_buf_release(&whole);
    }
    printf("# s2: %lld mutants, seed %llu: %lld verified (%lld claims also by enumeration, %lld not decided "
           "by the "
           "prover), %lld refuted, %lld malformed, %lld beyond the work allowed or unknown\n",
           (long long)sum.n, (unsigned long long)seed, (long long)sum.verified, (long long)sum.enumerated,
           (long long)sum.unproved, (long long)sum.refuted, (long long)sum.malformed,
           (long long)sum.undecided);
    assert_true(sum.verified > n_cases / 100 && sum.refuted > n_cases / 100 && sum.malformed > n_cases / 10);
}

/* The same of texts that are made to fool, kind by kind. */
static void no_forgery_that_is_verified_is_violated(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(1);
    const int64_t n_cases = s2_test_cases(1600) / S2_N_FORGERIES;
    for (int kind = 0; kind < S2_N_FORGERIES; kind++) {
        tally sum = {0};
        for (int64_t at = 0; sum.n < n_cases; at++) {
            s2_rng rng = {(seed * S2_N_FORGERIES + (uint64_t)kind) * UINT64_C(1000000007) + (uint64_t)at};
            char claims[64];
            s2_buf text = {0};
            if (forged_text(&rng, kind, &text)) {
                likely_claims(&rng, claims, sizeof claims);
                s2_buf whole = sealed(&text, claims);
                judge(&whole, 3e6, (uint64_t)at, &sum);
                s2_buf_release(&whole);
            }
            s2_buf_release(&text);
            assert_true(at < 100 * n_cases + 100);
        }
        printf(
            "# s2: %s: %lld forgeries, seed %llu: %lld verified (%lld claims also by enumeration, %lld not "
            "decided by the prover), %lld refuted, %lld malformed, %lld beyond the work allowed or unknown\n",
            s2_gen_forgery_word(kind), (long long)sum.n, (unsigned long long)seed, (long long)sum.verified,
            (long long)sum.enumerated, (long long)sum.unproved, (long long)sum.refuted,
            (long long)sum.malformed, (long long)sum.undecided);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checker_reads_what_the_printer_writes_and_nothing_else),
        cmocka_unit_test(each_number_at_each_edge_is_read_as_the_printer_writes_it),
        cmocka_unit_test(selectors_of_large_shapes_are_read_as_the_printer_writes_them),
        cmocka_unit_test(the_checker_knows_every_model),
        cmocka_unit_test(hostile_numbers_are_answered_at_once),
        cmocka_unit_test(no_mutant_that_is_verified_is_violated),
        cmocka_unit_test(no_forgery_that_is_verified_is_violated),
    };
    return cmocka_run_group_tests_name("forgery", tests, NULL, NULL);
}
