/* s2cert - check a certificate by the theorem of docs/proof.md, sharing no code with the rest. */
#include <ctype.h>
#include <err.h>
#include <sha2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUTED = 1, USAGE, MALFORMED };
enum { DENSE, NONE, LOCAL, SINK, STRIDE, DILATED, CHUNK, COLUMNS, ROWS };
enum { UNION, RANKS, DEPTH, SHARDS, ROWS_CLAIM, KV, GROUP };
enum {
    MOST_BYTES = 4 << 20,
    MOST_TERMS = 65000,
    MOST_LAYERS = 1024,
    MOST_HEADS = 4096,
    MOST_CLAIMS = 16,
    MOST_PHASE = 1 << 24
};
static const int64_t OPEN = INT64_MAX, MOST = INT64_C(1) << 40;
static const char *const CLAIMS[] = {"union", "ranks:", "depth:", "shards", "rows", "kv", "group", 0};
static struct range {
    int64_t begin, end, step;
} ranges[MOST_TERMS + 1];
static struct term {
    int kind, list, n_list;          /* ranges[list .. list + n_list) of columns and rows */
    int64_t size, n, width, coef[4]; /* size: tokens per unit; coef: head, kv, layer, constant */
    struct range when[3][2];         /* of distance, key, query; in blocks, in tokens */
} terms[MOST_TERMS + 1];
static int first_term[MOST_TERMS + 1], cost[MOST_TERMS + 1], n_terms, n_ranges, n_bodies, claims[MOST_CLAIMS],
    n_claims;
static int64_t n_layers = 1, n_heads, n_kv, block = 64, args[MOST_CLAIMS];
static uint16_t body_of[2 * MOST_LAYERS * MOST_HEADS]; /* [phase][layer][head]: body + 1, 0 without a rule */
static int64_t threshold, reach, period = 1, step, n_steps; /* tokens; see docs/proof.md */
static int64_t near[2][2],
    hole[2]; /* of a layer: first skipped distances (blocks, tokens); a pair not read */
static bool causal = true;
static char *at;

static bool take(const char *word)
{
    const size_t n = strlen(word);
    const bool letters = n > 0 && islower((unsigned char)word[n - 1]);
    at += strspn(at, " ");
    if (strncmp(at, word, n) != 0 || (letters && islower((unsigned char)at[n])))
        return false;
    at += n + strspn(at + n, " ");
    return true;
}

#define expect(word) choice((const char *const[]){word, 0})
static int choice(const char *const *words)
{
    for (int w = 0; words[w] != NULL; w++)
        if (take(words[w]))
            return w;
    errx(MALFORMED, "\"%s\" or the like expected at \"%.20s\"", words[0], at);
}

/* A number; *size becomes 1 after the suffix t, else the block, and *bound covers it, in tokens. */
static int64_t number(int64_t most, int64_t *size, int64_t *bound)
{
    const int64_t value = isdigit((unsigned char)*at) ? strtoll(at, &at, 10) : OPEN;
    if (value > most)
        errx(MALFORMED, "a number of at most %lld expected at \"%.20s\"", (long long)most, at);
    if (size != NULL) {
        *size = *at == 't' ? (at++, step = 1) : block;
        *bound = (value + 1) * *size > *bound ? (value + 1) * *size : *bound;
    }
    take("");
    return value;
}

static void spend(int64_t n)
{
    if ((n_steps += n) > INT64_C(4000000000))
        errx(REFUTED, "not verified: the check would take too long");
}

/* "all", n, a-b or begin:end:step */
static struct range item(int64_t n_all, int64_t *size)
{
    const bool all = take("all"), first = isdigit((unsigned char)*at);
    struct range r = {first ? number(MOST, size, &threshold) : 0, n_all, 1};
    if (first && (*at != ':' || (n_all != OPEN && at[1] == ' '))) { /* a rule's colon has a blank behind it */
        r.end = (take("-") ? number(MOST, size, &threshold) : r.begin) + 1;
    } else if (!all) {
        expect(":");
        r.end = isdigit((unsigned char)*at) ? number(MOST, size, &threshold) : n_all;
        r.step = take(":") && isdigit((unsigned char)*at) ? number(MOST, size, &threshold) : 1;
    }
    if (r.end > n_all || r.step < 1)
        errx(MALFORMED, "a range goes too far or stands still");
    return r;
}

static void add_period(int64_t n)
{
    int64_t x = period, y = n;
    for (int64_t rest; y != 0; x = y, y = rest)
        rest = x % y;
    if (n < 1 || period / x > MOST / n)
        errx(REFUTED, "not verified: the pattern has no manageable period");
    period = period / x * n;
}

static void read_term(void)
{
    static const char *const kinds[] = {"dense",   "none",  "local",   "sink", "stride",
                                        "dilated", "chunk", "columns", "rows", 0};
    struct term t = {.kind = choice(kinds), .list = n_ranges, .size = block, .n = 1};
    for (int w = 0; w < 6; w++)
        t.when[w / 2][w % 2] = (struct range){0, OPEN, 1};
    if (t.kind >= LOCAL && t.kind <= CHUNK)
        t.n = number(MOST, &t.size, t.kind == SINK ? &threshold : &reach);
    for (bool more = t.kind >= COLUMNS; more; more = n_ranges < MOST_TERMS && take(",")) {
        ranges[n_ranges] = item(OPEN, &t.size);
        add_period(ranges[n_ranges++].step * t.size);
    }
    t.n_list = n_ranges - t.list;
    t.width = take("width") ? number(t.n, &(int64_t){0}, &reach) : 1;
    for (bool more = take("phase"); more; more = take("+")) {
        const int c =
            isdigit((unsigned char)*at) ? 3 : choice((const char *const[]){"head", "kv", "layer", 0});
        t.coef[c] += c == 3 || take("*") ? number(MOST_PHASE, NULL, NULL) : 1;
        if (t.coef[c] > MOST_PHASE)
            errx(MALFORMED, "the numbers of a phase add up to more than %d", MOST_PHASE);
    }
    for (bool more = take("when"); more; more = take("&")) {
        const int what = choice((const char *const[]){"distance", "key", "query", 0});
        for (int side = 0; side < 2; side++) {
            if (side == 1)
                expect("..");
            if (!isdigit((unsigned char)*at))
                continue;
            int64_t size;
            const int64_t x = number(MOST, &size, what == 0 ? &reach : &threshold);
            int64_t *const edge = side == 0 ? &t.when[what][size == 1].begin : &t.when[what][size == 1].end;
            *edge = side == 0 ? (x > *edge ? x : *edge) : (x < *edge ? x : *edge);
        }
    }
    if (n_terms == MOST_TERMS || n_ranges == MOST_TERMS || t.n < 1)
        errx(MALFORMED, "too many terms, or a term of nothing");
    add_period(block);
    add_period(t.kind >= STRIDE && t.kind <= CHUNK ? t.n * t.size : block);
    terms[n_terms++] = t;
}

static void read_rule(void)
{
    static uint8_t in[2][MOST_HEADS]; /* layers, heads */
    bool phase[2] = {true, true};
    memset(in, 1, sizeof in);
    for (int w;
         (w = choice((const char *const[]){":", "prefill", "decode", "layers", "heads", "kv", 0})) != 0;) {
        const int64_t sizes[] = {0, 0, 0, n_layers, n_heads, n_kv}, n_all = sizes[w];
        const int64_t times = w == 5 ? n_heads / n_kv : 1;
        if (w < 3)
            phase[2 - w] = false;
        else
            memset(in[w > 3], 0, (size_t)(n_all * times));
        for (bool more = w >= 3; more; more = take(","))
            for (struct range r = item(n_all, NULL); r.begin < r.end; r.begin += r.step)
                memset(in[w > 3] + r.begin * times, 1, (size_t)times);
    }
    const int before = n_terms + n_ranges;
    for (bool more = true; more; more = take("|"))
        read_term();
    first_term[++n_bodies] = n_terms;
    cost[n_bodies] = n_terms + n_ranges - before + 1;
    spend(2 * n_layers * n_heads);
    for (int64_t c = 0; c < 2 * n_layers * n_heads; c++)
        if (phase[c / n_heads / n_layers] && in[0][c / n_heads % n_layers] && in[1][c % n_heads])
            body_of[c] = (uint16_t)n_bodies;
}

static void read_pattern(const char *end)
{
    static const char *const words[] = {"layers", "heads", "kv-heads", "head-dim", "block", 0};
    int64_t head_dim, *const into[] = {&n_layers, &n_heads, &n_kv, &head_dim, &block};
    for (; at < end; expect("\n")) {
        if (take("name") || take("model")) {
            at += strcspn(at, "\n");
        } else if (n_bodies == 0 && take("causal")) {
            expect("no");
            causal = false;
        } else if (memchr(at, ':', strcspn(at, "\n")) == NULL && n_bodies == 0) {
            *into[choice(words)] = number(MOST_HEADS, NULL, NULL);
        } else {
            n_kv = n_kv != 0 ? n_kv : n_heads;
            step = step != 0 ? step : block;
            if (n_kv < 1 || n_heads < n_kv || n_heads % n_kv != 0 || n_layers < 1 || n_layers > MOST_LAYERS ||
                block < 1)
                errx(MALFORMED, "an impossible shape");
            read_rule();
        }
    }
}

static bool term_reads(const struct term *t, int64_t layer, int64_t head, int64_t q, int64_t k)
{
    const int64_t i = q / t->size, j = k / t->size, x = t->kind == COLUMNS ? j : i;
    const int64_t turn = (i - j) % t->n + t->n; /* not negative where the key comes after the query */
    const int64_t shift =
        t->coef[0] * head + t->coef[1] * (head / (n_heads / n_kv)) + t->coef[2] * layer + t->coef[3];
    for (int w = 0; w < 6; w++) {
        const int64_t size = w % 2 != 0 ? 1 : block,
                      value[] = {llabs(q / size - k / size), k / size, q / size};
        if (value[w / 2] < t->when[w / 2][w % 2].begin || value[w / 2] >= t->when[w / 2][w % 2].end)
            return false;
    }
    for (const struct range *r = ranges + t->list; r < ranges + t->list + t->n_list; r++)
        if (x >= r->begin && x < r->end && (x - r->begin) % r->step == 0)
            return true;
    return t->kind == DENSE || (t->kind == LOCAL && llabs(i - j) < t->n) || (t->kind == SINK && j < t->n) ||
           (t->kind == STRIDE && (j + shift) % t->n < t->width) ||
           (t->kind == CHUNK && i / t->n == j / t->n) ||
           (t->kind == DILATED && (turn + shift) % t->n < t->width);
}

/* Column `row` of the two tables side by side: prefill heads, then decode heads. */
static bool reads(int64_t row, int64_t layer, int64_t q, int64_t k)
{
    const int body = body_of[(row / n_heads * n_layers + layer) * n_heads + row % n_heads];
    if (body == 0)
        errx(REFUTED, "not verified: a head has no rule");
    spend(cost[body]);
    for (int t = first_term[body - 1]; t < first_term[body]; t++)
        if (term_reads(&terms[t], layer, row % n_heads, q, k))
            return true;
    return false;
}

#define refute(claim, layer, q, k)                                                                           \
    errx(REFUTED, "not verified: %s, layer %d, query %lld, key %lld", claim, (int)(layer), (long long)(q),   \
         (long long)(k))

/* One key of one layer: every query up to where its column repeats; the first time for near[] alone. */
static void check_column(int64_t layer, int64_t k, bool again)
{
    static bool now[2 * MOST_HEADS], dead[2 * MOST_HEADS];
    const int64_t far = k + reach > threshold ? k + reach : threshold, group = n_heads / n_kv;
    const int64_t end = far + period + (again ? threshold + reach + period + block : 0);
    for (int64_t q = causal ? k : 0; q < end; q += step) {
        for (int64_t row = 0; row < 2 * n_heads; row++) {
            dead[row] = q > k && (dead[row] || !now[row]);
            now[row] = reads(row, layer, q, k);
        }
        for (int c = 0; c < n_claims; c++) {
            const int64_t rank = claims[c] == RANKS    ? n_heads / args[c]
                                 : claims[c] == SHARDS ? group
                                                       : n_heads;
            int64_t n_read = 0; /* ranks of this phase that read the pair; a rank of shards is a KV head */
            for (int64_t row = 0, h = 0, any = 0; row < 2 * n_heads; row++, h = row % n_heads) {
                /* prefill may end inside a block: what it drops there is lost to decoding */
                const bool lost = q >= k && (dead[row] || dead[h] || (step > 1 && !now[h]));
                const bool ends = (row + 1) % rank == 0;
                int64_t *const least = near[row / n_heads], blk = q / block - k / block;
                any = now[row] || (any && row % rank != 0);
                n_read = (h == 0 ? 0 : n_read) + (ends && any);
                if (claims[c] == DEPTH && ends && !any)
                    hole[0] = q, hole[1] = k;
                if (claims[c] == SHARDS && ends && !any && !again) {
                    least[0] = blk < least[0] ? blk : least[0];
                    least[1] = q - k < least[1] ? q - k : least[1];
                }
                if ((claims[c] == KV && now[row] && lost) || (claims[c] <= RANKS && ends && !any) ||
                    (claims[c] == GROUP && now[row] != now[row - row % group]) ||
                    (claims[c] == SHARDS && again && h + 1 == n_heads && n_read != 1 && blk >= least[0] &&
                     q - k >= least[1]))
                    refute(CLAIMS[claims[c]], layer, q, k);
            }
        }
    }
}

static void check_rows(int64_t layer)
{
    for (int64_t q = 0; q < threshold + reach + period; q += step)
        for (int64_t row = 0, k = q; row < 2 * n_heads; row++, k = q)
            while (!reads(row, layer, q, k))
                if ((k -= step) < 0)
                    refute("rows", layer, q, k);
}

int main(int argc, char **argv)
{
    static char text[MOST_BYTES], hash[65], computed[65];
    unsigned n_text = 0, n_head = 0;
    const bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (argc != 2 || help) {
        fputs("usage: s2cert CERTIFICATE\n\nCheck what s2check --certificate wrote.\nexit codes: 0 verified, "
              "1 not "
              "verified, 2 called wrongly, 3 no certificate\n",
              help ? stdout : stderr);
        return help ? 0 : USAGE;
    }
    FILE *const file = fopen(argv[1], "rb");
    const size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    sscanf(text, "s2cert 1 %64[0-9a-f] %9u%n", hash, &n_text, (int *)&n_head);
    if (strlen(text) != n || text[n_head] != '\n' || (size_t)n_text + n_head >= n)
        errx(MALFORMED, "this file is no certificate");
    at = text + n_head + 1;
    if (strcmp(SHA256Data((const uint8_t *)at, n_text, computed), hash) != 0)
        errx(REFUTED, "not verified: the hash is not that of the pattern");
    read_pattern(at + n_text);
    char *const claimed = at;
    for (expect("claims "); *at != '\n' && n_claims < MOST_CLAIMS; n_claims++) {
        const int claim = claims[n_claims] = choice(CLAIMS);
        args[n_claims] = claim == RANKS || claim == DEPTH ? number(MOST_HEADS, NULL, NULL) : 1;
        if (!causal && claim == SHARDS)
            errx(REFUTED, "not verified: shards are defined for causal patterns");
        if (args[n_claims] < 1 || (claim == RANKS && n_heads % args[n_claims] != 0))
            errx(MALFORMED, "ranks that do not divide the heads, or no depth");
    }
    if (strcmp(at, "\nend\n") != 0 || n_claims == 0 || n_bodies == 0)
        errx(MALFORMED, "the claims or the end are missing");
    const int64_t last = causal ? threshold + period : threshold + reach + 2 * period;
    for (int64_t layer = 0, n_holey = 0; layer < n_layers; layer++) {
        hole[0] = -1, near[0][0] = near[0][1] = near[1][0] = near[1][1] = OPEN;
        for (int64_t k = 0; k < last || (k < 2 * last && (near[0][1] < OPEN || near[1][1] < OPEN)); k += step)
            check_column(layer, k % last, k >= last);
        n_holey = hole[0] >= 0 ? n_holey + 1 : 0;
        for (int c = 0; c < n_claims; c++)
            if (claims[c] == ROWS_CLAIM)
                check_rows(layer);
            else if (claims[c] == DEPTH && n_holey >= (args[c] < n_layers ? args[c] : n_layers))
                refute("depth", layer, hole[0], hole[1]);
    }
    printf("verified for every context length: %.*s\npattern %s\n", (int)(at - claimed), claimed, hash);
    return 0;
}
