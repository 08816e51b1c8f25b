#include "calibrate/launches.h"

#include <math.h>
#include <stdlib.h>

#include "base/arith.h"

/* In every period of kinds half of the launches are dense and causal, which every kernel takes. */
enum { PERIOD = 12, TURNS = 4 };

typedef struct s2_launch_kind {
    const char *body;
    int32_t block_tok;
    bool causal;
    bool chunk; /* fewer queries than keys */
} s2_launch_kind;
static const s2_launch_kind kinds[S2_LAUNCH_KINDS] = {{NULL, 64, true, false},
                                                      {"local 4 | sink 1", 64, true, false},
                                                      {"local 256t", 64, true, false},
                                                      {"local 2 | stride 8 phase kv", 64, true, false},
                                                      {NULL, 64, false, false},
                                                      {NULL, 64, true, true},
                                                      {"local 2 | sink 1", 128, true, false},
                                                      {"local 4 | stride 4 phase head", 64, true, false}};
static const int32_t kind_of[PERIOD] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 6, 7};

/* The digits of n in a base, mirrored at the point: spread evenly over 0 to 1, however many are taken. */
static double mirrored(int32_t n, int32_t base)
{
    double value = 0, digit = 1.0 / base;
    for (; n > 0; n /= base, digit /= base)
        value += digit * (n % base);
    return value;
}

/* Whole tiles, whole slabs, and lengths that nothing divides. */
static int64_t length(double octaves, int32_t nth)
{
    static const int32_t grains[] = {128, 16, 1};
    const int32_t grain = grains[nth % 3];
    return s2_max_i64((int64_t)exp2(octaves) / grain * grain, grain == 128 ? 128 : 16);
}

static double pairs_of(const s2_launch_ask *ask)
{
    const double len = (double)ask->n_tok, q = (double)ask->q_tok;
    return ask->causal ? q * (len - q) + q * (q + 1) / 2 : q * len;
}

static double flop_of(const s2_launch_ask *ask)
{
    return 4.0 * ask->head_dim * ask->heads * (double)ask->batch * pairs_of(ask) *
           (ask->pass == S2_PASS_BACKWARD ? 2.5 : 1);
}

/* What a process is handed grows with pairs (masks, a bit each) and with tokens (tensors). */
static bool too_large(const s2_launch_ask *ask)
{
    const double most_flop = ask->pass == S2_PASS_BACKWARD ? 2e12 : 4e12;
    const double cached = (double)ask->batch * ask->kv_heads * (double)ask->n_tok;
    const double bits = (double)ask->batch * ask->heads * (double)ask->q_tok * (double)ask->n_tok;
    return flop_of(ask) > most_flop || cached > 0x1p20 || bits > 0x1p32;
}

static s2_launch_ask shape(s2_pass pass, int32_t nth)
{
    static const int32_t heads[] = {8, 16, 32, 40}, groups[] = {1, 4, 1, 8}, batches[] = {1, 2, 1, 4, 8};
    const bool decode = pass == S2_PASS_DECODE;
    const int32_t half = nth / 2, kind = kind_of[half % PERIOD];
    s2_launch_ask ask = {
        .pass = pass,
        .batch = decode ? 1 << half % 7 : batches[nth % 5],
        .heads = heads[(half + half / PERIOD) % 4],
        .head_dim = nth % 2 == 0 ? 128 : 64,
        .block_tok = kinds[kind].block_tok,
        .n_tok = length(decode ? 6 + 10 * mirrored(nth + 1, 3) : 5 + 9.2 * mirrored(nth + 1, 3), nth),
        .causal = kinds[kind].causal || decode,
        .body = kinds[kind].body,
        .kind = kind};
    ask.kv_heads = ask.heads / groups[half / 2 % 4];
    ask.q_tok = decode ? 1 : kinds[kind].chunk && pass == S2_PASS_FORWARD ? ask.n_tok / 4 + 1 : ask.n_tok;
    while (too_large(&ask) && ask.batch > 1)
        ask.batch /= 2;
    while (too_large(&ask)) {
        ask.n_tok = ask.n_tok * 3 / 4;
        ask.q_tok = s2_min_i64(ask.q_tok, ask.n_tok);
    }
    ask.flop = flop_of(&ask);
    return ask;
}

static int by_flop(const void *left, const void *right)
{
    const double a = ((const s2_launch_ask *)left)->flop, b = ((const s2_launch_ask *)right)->flop;
    return (a > b) - (a < b);
}

void s2_launches_design(s2_pass pass, s2_launch_ask *out)
{
    s2_launch_ask all[S2_LAUNCHES];
    int32_t n = 0;
    for (int32_t nth = 0; nth < S2_LAUNCHES; nth++)
        all[nth] = shape(pass, nth);
    qsort(all, S2_LAUNCHES, sizeof *all, by_flop);
    for (int32_t turn = 0; turn < TURNS; turn++)
        for (int32_t nth = turn; nth < S2_LAUNCHES; nth += TURNS)
            out[n++] = all[nth];
}

/* ---- as text */

void s2_launch_print_pattern(const s2_launch_ask *ask, s2_buf *buf)
{
    s2_buf_printf(buf, "heads %d; kv-heads %d; head-dim %d; block %d; %s layers all: %s", ask->heads,
                  ask->kv_heads, ask->head_dim, ask->block_tok, ask->causal ? "" : "causal no;",
                  ask->body != NULL ? ask->body : "dense");
}

void s2_launch_print_head(s2_buf *buf)
{
    s2_buf_puts(buf, "pass,batch,heads,kv_heads,head_dim,q_tok,n_tok,causal,pattern,block,us,caches\n");
}

void s2_launch_print_row(const s2_launch_ask *ask, double us, s2_buf *buf)
{
    s2_buf_printf(buf, "%s,%d,%d,%d,%d,%lld,%lld,%d,%s,%d,%.3f,warm\n", s2_pass_word(ask->pass), ask->batch,
                  ask->heads, ask->kv_heads, ask->head_dim, (long long)ask->q_tok, (long long)ask->n_tok,
                  ask->causal, ask->body != NULL ? ask->body : "", ask->block_tok, us);
}
