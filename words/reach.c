#include "words/reach.h"

#include <math.h>
#include <stdio.h>

#include "base/arith.h"

/* What is told, and where. */
typedef struct teller {
    const s2_measures *m;
    const s2_lengths *lengths;
    s2_buf *buf;
} teller;

static int64_t tokens(const teller *t, int64_t n_blk)
{
    const int64_t n = n_blk * t->m->stack.pattern->block_tok;
    return s2_min_i64(n, t->m->stack.n_tok);
}

static bool keeps_state(const s2_pattern *pattern)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (s2_pattern_state_bytes(pattern, layer) > 0)
            return true;
    return false;
}

/* Whether information moves by the reads that are counted alone: else that it does not arrive is no fact. */
static bool counts_all(const s2_pattern *pattern)
{
    return s2_pattern_dynamic(pattern) == NULL && !keeps_state(pattern);
}

static void print_hops(teller *t)
{
    const s2_hops *const h = &t->m->hops;
    s2_buf *const buf = t->buf;
    if (h->layers == 0) {
        s2_buf_printf(buf, "hops       not %swithin the stack: query block %d %s key block %d\n",
                      counts_all(t->m->stack.pattern) ? "" : "certainly ", (int)h->q_blk,
                      counts_all(t->m->stack.pattern) ? "never learns of" : "need not learn of",
                      (int)h->k_blk);
        return;
    }
    s2_buf_printf(buf, "hops       every key reaches every later query within %s, wherever they begin\n",
                  s2_count_text(h->layers, "layer").text);
    for (int32_t n = 0; n < h->n_path && h->layers > 1; n++)
        s2_buf_printf(buf, "           %s layer %d, head %d: query block %d reads key block %d\n",
                      n == 0 ? "needs most:" : "           ", (int)h->path[n].layer, (int)h->path[n].head,
                      (int)h->path[n].q_blk, (int)h->path[n].k_blk);
}

static bool knows_all(const teller *t, int32_t layer)
{
    const s2_receptive field = t->m->hops.receptive[layer];
    return field.least == s2_stack_n_keys(&t->m->stack, field.least_query);
}

/* Leaves out layers that add nothing, and those above the layer after which everything is known. */
static void print_receptive(teller *t)
{
    const s2_receptive *const field = t->m->hops.receptive;
    const int32_t n_layers = t->m->stack.pattern->n_layers;
    s2_buf_puts(t->buf, "\nafter layer   last query knows   query block with the least share   knows\n");
    for (int32_t layer = 0; layer < n_layers; layer++) {
        if (knows_all(t, layer)) {
            s2_buf_printf(t->buf, "%11d   every query knows all that it may see\n", (int)layer);
            return;
        }
        if (layer > 0 && layer < n_layers - 1 && field[layer].last == field[layer - 1].last &&
            field[layer].least == field[layer - 1].least)
            continue;
        s2_buf_printf(t->buf, "%11d   %7d of %-5d   %32d   %d of %d\n", (int)layer, (int)field[layer].last,
                      (int)t->m->stack.n_blk, (int)field[layer].least_query, (int)field[layer].least,
                      (int)s2_stack_n_keys(&t->m->stack, field[layer].least_query));
    }
}

/* Above it a ratio is only large: thousands of paths of short rows, each row shared by few keys. */
enum { MOST_FLOW = 1000 };

static void put_range(int32_t octave, s2_buf *buf)
{
    char range[32];
    if (octave < 2)
        snprintf(range, sizeof range, "%d", (int)octave);
    else
        snprintf(range, sizeof range, "%d to %d", 1 << (octave - 1), (1 << octave) - 1);
    s2_buf_printf(buf, "%-13s", range);
}

static void put_flow(const s2_flow_at *flow, s2_buf *buf)
{
    const double ratio = flow->flow / flow->dense;
    if (ratio > MOST_FLOW)
        s2_buf_printf(buf, " %9s", "> 1000");
    else
        s2_buf_printf(buf, " %9.3f", ratio);
    s2_buf_printf(buf, " %9.1f", flow->log2_paths);
}

static void explain_most(s2_buf *buf)
{
    s2_buf_puts(
        buf, "                (above 1: a query reads fewer keys, so each weighs more; beyond 1000 no more "
             "is said)\n");
}

static void print_distances(teller *t)
{
    double most = 0;
    s2_buf_puts(t->buf,
                "\n                query heads        KV heads         chances in      flow   log2 of\n");
    s2_buf_puts(t->buf,
                "blocks away     mean, least     mean, least   the stack, least   / dense     paths\n");
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_readers_at *const here = &t->m->readers.octaves[octave];
        const s2_flow_at *const flow = &t->m->flow.octaves[octave];
        if (here->n_pairs == 0)
            continue;
        put_range(octave, t->buf);
        s2_buf_printf(t->buf, " %7.2f %5d  %8.2f %5d  %10.2f %7lld", here->heads, (int)here->least_heads,
                      here->kv_heads, (int)here->least_kv_heads, here->chances,
                      (long long)here->least_chances);
        if (flow->n_keys > 0)
            put_flow(flow, t->buf);
        most = flow->n_keys > 0 ? fmax(most, flow->flow / flow->dense) : most;
        s2_buf_puts(t->buf, "\n");
    }
    if (most > MOST_FLOW)
        explain_most(t->buf);
}

const char *s2_lengths_why(s2_lengths_answer answer)
{
    switch (answer) {
    case S2_LENGTHS_DECIDED: return NULL;
    case S2_LENGTHS_NOT_CAUSAL: return "the pattern is not causal";
    case S2_LENGTHS_LISTED: return "random lists and masks do not repeat";
    case S2_LENGTHS_PARTIAL: return "blocks are read in part, or chosen at run time";
    case S2_LENGTHS_STATE: return "a state carries what no head reads";
    case S2_LENGTHS_TOO_LARGE: return "the pattern repeats too late";
    }
    return NULL;
}

static void print_every_length(const s2_lengths *all, int64_t block_tok, s2_buf *buf)
{
    s2_buf_puts(buf, "any length ");
    if (all->answer != S2_LENGTHS_DECIDED) {
        s2_buf_printf(buf, "not decided: %s\n", s2_lengths_why(all->answer));
        return;
    }
    if (all->layers > 0)
        s2_buf_printf(buf, "every key reaches every later query within %s",
                      s2_count_text(all->layers, "layer").text);
    else
        s2_buf_printf(buf, "from %s on, some query never learns of some key",
                      s2_count_text(all->n_blk * block_tok, "token").text);
    if (all->least_heads == 0)
        s2_buf_puts(buf, "\n           some layer has pairs that no head reads; ");
    else
        s2_buf_printf(buf, "\n           in every layer at least %s on %s can read a pair; ",
                      s2_count_text(all->least_heads, "query head").text,
                      s2_count_text(all->least_kv_heads, "KV head").text);
    if (all->window == all->n_blk)
        s2_buf_puts(buf, "every head reads everything\n");
    else
        s2_buf_printf(buf, "every head reads a window of %s\n", s2_count_text(all->window, "block").text);
}

void s2_worth_tell(const s2_worth *worth, s2_buf *buf)
{
    if (worth->not_judged != NULL)
        s2_buf_printf(buf, "not judged: %s", worth->not_judged);
    else
        s2_buf_printf(buf,
                      "recall %.2f over the training (rms error %.2f), loss on text %.3f nats a byte (rms "
                      "error %.3f; docs/worth.md)",
                      worth->recall, s2_worth_recall_error, worth->loss, s2_worth_loss_error);
}

static void print_least_flow(const s2_flow *flow, s2_buf *buf)
{
    s2_buf_printf(buf, "flow       least %s of dense, from key block %d to the last query\n",
                  s2_decimal(flow->least, 3).text, (int)flow->least_key);
}

static void print_rest(teller *t)
{
    const s2_pattern *const p = t->m->stack.pattern;
    s2_buf *const buf = t->buf;
    int32_t first = 0;
    while (first < p->n_layers - 1 && s2_pattern_is_state_layer(p, first))
        first++;
    int32_t best = first;
    for (int32_t layer = first + 1; layer < p->n_layers; layer++)
        if (t->m->worth.layers[layer].coverage > t->m->worth.layers[best].coverage)
            best = layer;
    if (t->m->stack.exact)
        s2_buf_printf(buf, "window     %s, the query's own counted, that every head of every layer reads\n",
                      s2_count_text(t->m->readers.window, "block").text);
    else
        s2_buf_printf(buf, "window     at most %s: every head of every layer reads %s, whole or in part\n",
                      s2_count_text(tokens(t, t->m->readers.window), "token").text,
                      s2_count_text(t->m->readers.window, "block").text);
    print_least_flow(&t->m->flow, buf);
    if (t->m->stack.n_blk > 1) /* one block has no halves */
        s2_buf_printf(
            buf, "retrieval  layer %d reads %.1f %% of (second half, first half), a pair's reader %.1f %%\n",
            (int)first, 100 * t->m->worth.layers[first].coverage,
            100 * t->m->worth.layers[first].concentration);
    if (best > first && t->m->stack.n_blk > 1)
        s2_buf_printf(buf, "           layer %d reads most: %.1f %%, a pair's reader %.1f %%\n", (int)best,
                      100 * t->m->worth.layers[best].coverage, 100 * t->m->worth.layers[best].concentration);
    s2_buf_printf(
        buf, "resident   %.1f blocks a layer over KV heads, %.1f different ones: each kept %.2f times\n",
        t->m->readers.resident, t->m->readers.resident_once,
        t->m->readers.resident_once > 0 ? t->m->readers.resident / t->m->readers.resident_once : 0.0);
    s2_buf_puts(buf, "worth      ");
    s2_worth_tell(&t->m->worth, buf);
    s2_buf_puts(buf, "\n");
}

void s2_reach_tables(const s2_measures *measures, s2_buf *buf)
{
    teller t = {measures, NULL, buf};
    if (s2_pattern_dynamic(measures->stack.pattern) != NULL)
        s2_buf_puts(buf, "           keys are chosen at run time: counted is what heads read for certain\n");
    if (keeps_state(measures->stack.pattern))
        s2_buf_puts(buf, "           layers that keep a state carry what they saw: that is not counted\n");
    if (!measures->stack.exact)
        s2_buf_puts(buf, "           a block that is read in part counts as read\n");
    print_hops(&t);
    print_receptive(&t);
    print_distances(&t);
}

void s2_reach_lines(const s2_measures *measures, const s2_lengths *lengths, s2_buf *buf)
{
    teller t = {measures, lengths, buf};
    print_rest(&t);
    print_every_length(lengths, measures->stack.pattern->block_tok, buf);
}

void s2_reach_beyond_page(const s2_flow *flow, const s2_lengths *lengths, int64_t block_tok, s2_buf *buf)
{
    double most = 0;
    s2_buf_printf(buf,
                  "           beyond %d blocks only flow is followed; \"any length\" says what else holds\n",
                  S2_REACH_BLOCKS);
    s2_buf_puts(buf, "\n                   flow   log2 of\nblocks away     / dense     paths\n");
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_flow_at *const here = &flow->octaves[octave];
        if (here->n_keys == 0)
            continue;
        put_range(octave, buf);
        put_flow(here, buf);
        s2_buf_puts(buf, "\n");
        most = fmax(most, here->flow / here->dense);
    }
    if (most > MOST_FLOW)
        explain_most(buf);
    s2_buf_puts(buf, "\n");
    print_least_flow(flow, buf);
    print_every_length(lengths, block_tok, buf);
}
