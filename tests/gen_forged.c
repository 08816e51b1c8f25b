#include "tests/gen_forged.h"

#include "pattern/models.h"

static int in(s2_rng *rng, int low, int high)
{
    return low + (int)s2_rng_below(rng, (uint64_t)(high - low + 1));
}

static int prime(s2_rng *rng)
{
    static const int primes[] = {2, 3, 5, 7, 11, 13};
    return primes[s2_rng_below(rng, sizeof primes / sizeof *primes)];
}

static const char *unit(s2_rng *rng)
{
    return in(rng, 0, 1) == 0 ? "t" : "";
}

static void put_shape(s2_rng *rng, int n_layers, int n_heads, int n_kv, s2_buf *out)
{
    static const int blocks[] = {1, 1, 2, 4, 64, 1024};
    s2_buf_printf(out, "layers %d; heads %d; kv-heads %d; block %d; ", n_layers, n_heads, n_kv,
                  blocks[s2_rng_below(rng, sizeof blocks / sizeof *blocks)]);
    if (in(rng, 0, 3) == 0)
        s2_buf_puts(out, "causal no; ");
}

/* Nothing, or a condition: half of them far out, where a bound that is a little short does not look. */
static void put_when(s2_rng *rng, s2_buf *out)
{
    static const char *const what[] = {"distance", "key", "query"};
    const int from = in(rng, 0, 1) == 0 ? in(rng, 1, 6) : in(rng, 10, 70);
    if (in(rng, 0, 2) != 0)
        return;
    s2_buf_printf(out, " when %s ", what[in(rng, 0, 2)]);
    if (in(rng, 0, 1) == 0)
        s2_buf_printf(out, "%d%s..", from, unit(rng));
    else
        s2_buf_printf(out, "..%d%s", from, unit(rng));
}

/* Combs that leave one residue each: what all leave is one key, or distance, in their product. */
static void coprime_holes(s2_rng *rng, s2_buf *out)
{
    put_shape(rng, 1, 2, in(rng, 1, 2), out);
    s2_buf_printf(out, "layers all: local %d%s", in(rng, 1, 4), unit(rng));
    for (int left = in(rng, 1, 3); left > 0; left--) {
        const int n = prime(rng);
        s2_buf_printf(out, " | %s %d width %d phase head*%d+%d", in(rng, 0, 2) == 0 ? "dilated" : "stride", n,
                      n - in(rng, 0, 1), in(rng, 0, 2), in(rng, 0, n));
        put_when(rng, out);
    }
    s2_buf_puts(out, "; ");
    if (in(rng, 0, 1) == 0) {
        s2_buf_puts(out, "heads 1: dense");
        put_when(rng, out);
        s2_buf_printf(out, " | %s %d::%d", in(rng, 0, 1) == 0 ? "columns" : "rows", in(rng, 0, 40),
                      prime(rng));
    }
}

/* A whole cut at one place of one quantity, the other part given to another head from a place nearby. */
static void near_cuts(s2_rng *rng, s2_buf *out)
{
    static const char *const what[] = {"distance", "key", "query"};
    const char *const word = what[in(rng, 0, 2)], *const u = unit(rng);
    const int cut = in(rng, 1, 90), n = prime(rng);
    put_shape(rng, 1, 2, in(rng, 1, 2), out);
    s2_buf_printf(out, "heads 0: dense when %s ..%d%s | stride %d phase %d; ", word, cut, u, n,
                  in(rng, 0, n));
    s2_buf_printf(out, "heads 1: dense when %s %d%s..", word, cut + (in(rng, 0, 3) == 0 ? in(rng, -1, 2) : 0),
                  u);
    if (in(rng, 0, 1) == 0)
        s2_buf_printf(out, " & %s ..%d%s", word[0] == 'd' ? "key" : "distance", in(rng, 40, 120), u);
    s2_buf_printf(out, " | local %d%s", in(rng, 1, 3), unit(rng));
}

/* What decoding reads and prefill dropped, perhaps far behind. */
static void phases_apart(s2_rng *rng, s2_buf *out)
{
    const int n = prime(rng), local = in(rng, 1, 9);
    const char *const u = unit(rng);
    put_shape(rng, in(rng, 1, 2), 2, 1, out);
    s2_buf_printf(out, "prefill: local %d%s | stride %d phase head", local, u, n);
    put_when(rng, out);
    s2_buf_printf(out, "; decode: local %d%s | stride %d phase head", local + in(rng, -1, 1) + (local == 1),
                  u, n * in(rng, 1, 2));
    put_when(rng, out);
    if (in(rng, 0, 1) == 0)
        s2_buf_printf(out, "; decode heads 1: sink %d%s", in(rng, 1, 60), unit(rng));
}

/* Each key for one KV head, beyond a window; with a share too few, too many, or moved by the layer. */
static void shares(s2_rng *rng, s2_buf *out)
{
    const int n_kv = in(rng, 2, 4), n = n_kv + (in(rng, 0, 4) == 0);
    put_shape(rng, in(rng, 1, 2), n_kv * in(rng, 1, 2), n_kv, out);
    s2_buf_printf(out, "layers all: local %d%s | stride %d phase kv*%d+%d", in(rng, 1, 12), unit(rng), n,
                  in(rng, 1, 3), in(rng, 0, 3));
    if (in(rng, 0, 1) == 0)
        put_when(rng, out);
    if (in(rng, 0, 2) == 0)
        s2_buf_printf(out, "; kv %d: sink %d%s | stride %d phase %d", in(rng, 0, n_kv - 1), in(rng, 1, 40),
                      unit(rng), n, in(rng, 0, n));
}

/* All layers hold but one, or a depth that one window misses. */
static void one_layer_of_many(s2_rng *rng, s2_buf *out)
{
    const int n_layers = in(rng, 3, 40), n = in(rng, 2, 4);
    put_shape(rng, n_layers, n, 1, out);
    s2_buf_printf(out, "layers all: local %d | stride %d phase head", in(rng, 1, 3), n);
    if (in(rng, 0, 1) == 0)
        s2_buf_printf(out, "+layer*%d", in(rng, 0, 3));
    s2_buf_printf(out, "; layers %d%s: local 2 | stride %d phase head*%d", in(rng, 0, n_layers - 1),
                  in(rng, 0, 1) == 0 ? "" : "::3", n, in(rng, 1, 2));
    if (in(rng, 0, 1) == 0)
        s2_buf_printf(out, "; layers %d::%d: dense", in(rng, 0, n_layers - 1), in(rng, 1, 5));
}

/* A model's numbers, some of them stated again. */
static void models(s2_rng *rng, s2_buf *out)
{
    const int n = in(rng, 1, 5), n_kv = in(rng, 1, 2), n_heads = n_kv * n;
    s2_buf_printf(out, "model %s; ", s2_model_at(in(rng, 0, s2_model_count() - 1))->net.name);
    if (in(rng, 0, 3) != 0)
        s2_buf_printf(out, "layers %d; ", in(rng, 1, 4));
    if (in(rng, 0, 7) != 0)
        s2_buf_printf(out, "heads %d; kv-heads %d; ", n_heads, n_kv);
    if (in(rng, 0, 1) == 0)
        s2_buf_printf(out, "head-dim %d; ", 1 << in(rng, 0, 12));
    s2_buf_printf(out, "layers all: local %d | stride %d phase %s", in(rng, 1, 4), in(rng, 1, 6),
                  in(rng, 0, 1) == 0 ? "head" : "kv");
}

/* Layers with a state, or with KV heads of their own: no certificate speaks of them. */
static void layers_differ(s2_rng *rng, s2_buf *out)
{
    put_shape(rng, 3, 4, 2, out);
    s2_buf_printf(out, "layers %d: kv-heads %d; ", in(rng, 0, 2), 1 << in(rng, 0, 2));
    if (in(rng, 0, 1) == 0)
        s2_buf_printf(out, "layers %d: state %d; ", in(rng, 0, 2), in(rng, 0, 70));
    if (in(rng, 0, 1) == 0)
        s2_buf_puts(out, "layers 2: kv-layer 0; ");
    s2_buf_printf(out, "layers all: local %d | stride %d phase kv", in(rng, 1, 3), in(rng, 1, 5));
}

/* Ends of ranges, and periods whose product no number holds. */
static void far_ends(s2_rng *rng, s2_buf *out)
{
    static const int far[] = {16777216, 16777215, 262144, 262143, 65536, 65535, 65521, 65519, 65497, 4096};
    put_shape(rng, 1, in(rng, 1, 2), 1, out);
    s2_buf_puts(out, "layers all: dense");
    put_when(rng, out);
    for (int left = in(rng, 1, 4); left > 0; left--) {
        const int n = far[s2_rng_below(rng, sizeof far / sizeof *far)];
        static const char *const what[] = {"local", "sink", "chunk", "stride", "dilated"};
        const int term = in(rng, 0, 4);
        s2_buf_printf(out, " | %s %d%s", what[term], n, term < 3 ? unit(rng) : "");
        if (term >= 3)
            s2_buf_printf(out, " width %d phase head*%d+%d", in(rng, 0, 1) == 0 ? n - 1 : in(rng, 1, 5),
                          far[in(rng, 0, 9)], far[in(rng, 0, 9)]);
    }
}

static const struct {
    const char *word;
    void (*put)(s2_rng *rng, s2_buf *out);
} KINDS[S2_N_FORGERIES] = {{"holes behind coprime periods", coprime_holes},
                           {"cuts near other cuts", near_cuts},
                           {"phases apart", phases_apart},
                           {"shares with a gap", shares},
                           {"one layer of many", one_layer_of_many},
                           {"models", models},
                           {"layers that differ", layers_differ},
                           {"far ends", far_ends}};

const char *s2_gen_forgery_word(int kind)
{
    return KINDS[kind].word;
}

void s2_gen_forged(s2_rng *rng, int kind, s2_buf *out)
{
    KINDS[kind].put(rng, out);
}
