#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/reach_chart.h"
#include "report/report.h"
#include "reach/lengths.h"

#include <math.h>
#include <string.h>

/* One pattern at one length, and all that was measured. */
typedef struct report {
    s2_cli *cli;
    s2_input input;
    int64_t n_tok;
    s2_measures m;
    s2_lengths lengths;
    s2_buf buf;
} report;

static int64_t tokens(const report *r, int64_t n_blk)
{
    const int64_t n = n_blk * r->m.stack.pattern->block_tok;
    return n < r->n_tok ? n : r->n_tok;
}

/* ------------------------------------------------------------------ a page */

static void print_hops(report *r)
{
    const s2_hops *const h = &r->m.hops;
    s2_buf *const buf = &r->buf;
    if (h->layers == 0) {
        s2_buf_printf(buf, "hops       not within the stack: query block %d never learns of key block %d\n",
                      (int)h->q_blk, (int)h->k_blk);
        return;
    }
    s2_buf_puts(buf, "hops       every key reaches every later query within ");
    s2_buf_count(buf, h->layers, "layer");
    s2_buf_puts(buf, ", wherever they begin\n");
    for (int32_t n = 0; n < h->n_path && h->layers > 1; n++)
        s2_buf_printf(buf, "           %s layer %d, head %d: query block %d reads key block %d\n",
                      n == 0 ? "needs most:" : "           ", (int)h->path[n].layer, (int)h->path[n].head,
                      (int)h->path[n].q_blk, (int)h->path[n].k_blk);
}

static bool knows_all(const report *r, int32_t layer)
{
    const s2_receptive field = r->m.hops.receptive[layer];
    return field.least == s2_stack_n_keys(&r->m.stack, field.least_query);
}

/* Leaves out layers that add nothing, and those above the layer after which everything is known. */
static void print_receptive(report *r)
{
    const s2_receptive *const field = r->m.hops.receptive;
    const int32_t n_layers = r->m.stack.pattern->n_layers;
    s2_buf_puts(&r->buf, "\nafter layer   last query knows   query block with the least share   knows\n");
    for (int32_t layer = 0; layer < n_layers; layer++) {
        if (knows_all(r, layer)) {
            s2_buf_printf(&r->buf, "%11d   every query knows all that it may see\n", (int)layer);
            return;
        }
        if (layer > 0 && layer < n_layers - 1 && field[layer].last == field[layer - 1].last &&
            field[layer].least == field[layer - 1].least)
            continue;
        s2_buf_printf(&r->buf, "%11d   %7d of %-5d   %32d   %d of %d\n", (int)layer, (int)field[layer].last,
                      (int)r->m.stack.n_blk, (int)field[layer].least_query, (int)field[layer].least,
                      (int)s2_stack_n_keys(&r->m.stack, field[layer].least_query));
    }
}

/* Above it a ratio is only large: thousands of paths of short rows, each row shared by few keys. */
enum { MOST_FLOW = 1000 };

static void put_flow(const s2_flow_at *flow, s2_buf *buf)
{
    const double ratio = flow->flow / flow->dense;
    if (ratio > MOST_FLOW)
        s2_buf_printf(buf, " %9s", "> 1000");
    else
        s2_buf_printf(buf, " %9.3f", ratio);
    s2_buf_printf(buf, " %9.1f", flow->log2_paths);
}

static void print_distances(report *r)
{
    double most = 0;
    s2_buf_puts(&r->buf,
                "\n                query heads        KV heads         chances in      flow   log2 of\n");
    s2_buf_puts(&r->buf,
                "blocks away     mean, least     mean, least   the stack, least   / dense     paths\n");
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_readers_at *const here = &r->m.readers.octaves[octave];
        const s2_flow_at *const flow = &r->m.flow.octaves[octave];
        char range[32];
        if (here->n_pairs == 0)
            continue;
        if (octave < 2)
            snprintf(range, sizeof range, "%d", (int)octave);
        else
            snprintf(range, sizeof range, "%d to %d", 1 << (octave - 1), (1 << octave) - 1);
        s2_buf_printf(&r->buf, "%-13s %7.2f %5d  %8.2f %5d  %10.2f %7lld", range, here->heads,
                      (int)here->least_heads, here->kv_heads, (int)here->least_kv_heads, here->chances,
                      (long long)here->least_chances);
        if (flow->n_keys > 0)
            put_flow(flow, &r->buf);
        most = flow->n_keys > 0 ? fmax(most, flow->flow / flow->dense) : most;
        s2_buf_puts(&r->buf, "\n");
    }
    if (most > MOST_FLOW)
        s2_buf_puts(&r->buf, "                (above 1: a query reads fewer keys, so each weighs more; "
                             "beyond 1000 no more is said)\n");
}

static const char *why_not_every_length(s2_lengths_answer answer)
{
    switch (answer) {
    case S2_LENGTHS_DECIDED: return NULL;
    case S2_LENGTHS_NOT_CAUSAL: return "the pattern is not causal";
    case S2_LENGTHS_LISTED: return "random lists and masks do not repeat";
    case S2_LENGTHS_PARTIAL: return "blocks are read in part, or chosen at run time";
    case S2_LENGTHS_TOO_LARGE: return "the pattern repeats too late";
    }
    return NULL;
}

static void print_every_length(report *r)
{
    const s2_lengths *const all = &r->lengths;
    const int64_t block_tok = r->m.stack.pattern->block_tok;
    s2_buf *const buf = &r->buf;
    s2_buf_puts(buf, "any length ");
    if (all->answer != S2_LENGTHS_DECIDED) {
        s2_buf_printf(buf, "not decided: %s\n", why_not_every_length(all->answer));
        return;
    }
    if (all->layers > 0) {
        s2_buf_puts(buf, "every key reaches every later query within ");
        s2_buf_count(buf, all->layers, "layer");
    } else {
        s2_buf_printf(buf, "from %lld tokens on, some query never learns of some key",
                      (long long)(all->n_blk * block_tok));
    }
    if (all->least_heads == 0) {
        s2_buf_puts(buf, "\n           some layer has pairs that no head reads; ");
    } else {
        s2_buf_puts(buf, "\n           in every layer at least ");
        s2_buf_count(buf, all->least_heads, "query head");
        s2_buf_puts(buf, " on ");
        s2_buf_count(buf, all->least_kv_heads, "KV head");
        s2_buf_puts(buf, " can read a pair; ");
    }
    if (all->window == all->n_blk)
        s2_buf_puts(buf, "every head reads everything\n");
    else
        s2_buf_printf(buf, "every head reads a window of %lld tokens\n",
                      (long long)(all->window * block_tok));
}

static void print_rest(report *r)
{
    const s2_pattern *const p = r->m.stack.pattern;
    s2_buf *const buf = &r->buf;
    int32_t best = 0;
    for (int32_t layer = 1; layer < p->n_layers; layer++)
        if (r->m.worth.layers[layer].coverage > r->m.worth.layers[best].coverage)
            best = layer;
    if (r->m.stack.exact)
        s2_buf_printf(buf, "\nwindow     %lld tokens that every head of every layer reads\n",
                      (long long)tokens(r, r->m.readers.window));
    else
        s2_buf_printf(
            buf,
            "\nwindow     at most %lld tokens: every head of every layer reads %d blocks, whole or in part\n",
            (long long)tokens(r, r->m.readers.window), (int)r->m.readers.window);
    s2_buf_printf(buf, "flow       least %s of dense, from key block %d to the last query\n",
                  s2_decimal(r->m.flow.least, 3).text, (int)r->m.flow.least_key);
    s2_buf_printf(buf,
                  "retrieval  layer 0 reads %.1f %% of (second half, first half), a pair's reader %.1f %%\n",
                  100 * r->m.worth.layers[0].coverage, 100 * r->m.worth.layers[0].concentration);
    if (best > 0)
        s2_buf_printf(buf, "           layer %d reads most: %.1f %%, a pair's reader %.1f %%\n", (int)best,
                      100 * r->m.worth.layers[best].coverage, 100 * r->m.worth.layers[best].concentration);
    s2_buf_printf(buf,
                  "resident   %.1f blocks a layer over KV heads, %.1f different ones: each kept %.2f times\n",
                  r->m.readers.resident, r->m.readers.resident_once,
                  r->m.readers.resident_once > 0 ? r->m.readers.resident / r->m.readers.resident_once : 0.0);
    s2_buf_puts(buf, "worth      ");
    s2_report_worth_text(&r->m.worth, buf);
    s2_buf_puts(buf, "\n");
}

static void print_page(report *r)
{
    const s2_pattern *const p = r->m.stack.pattern;
    s2_buf_printf(&r->buf, "%s: ", s2_input_name(r->cli, &r->input));
    s2_buf_count(&r->buf, p->n_layers, "layer");
    s2_buf_printf(&r->buf, ", %d query heads on %d KV heads, %d blocks of %d tokens\n", (int)p->n_heads,
                  (int)p->n_kv_heads, (int)r->m.stack.n_blk, (int)p->block_tok);
    if (!r->m.stack.exact)
        s2_buf_puts(&r->buf,
                    "           parts of blocks are read, or choices made at run time: a block read in part "
                    "counts as read\n");
    print_hops(r);
    print_receptive(r);
    print_distances(r);
    print_rest(r);
    print_every_length(r);
}

/* ------------------------------------------------------------------ JSON */

static void write_hops(report *r)
{
    const s2_hops *const h = &r->m.hops;
    s2_buf *const buf = &r->buf;
    s2_json_key_begin(buf, "hops", '{');
    s2_json_key(buf, "layers");
    if (h->layers > 0)
        s2_json_int(buf, h->layers);
    else
        s2_json_null(buf);
    s2_json_key_int(buf, "from_layer", h->from);
    s2_json_key_int(buf, "query_block", h->q_blk);
    s2_json_key_int(buf, "key_block", h->k_blk);
    s2_json_key_begin(buf, "path", '[');
    for (int32_t n = 0; n < h->n_path; n++) {
        s2_json_begin(buf, '{');
        s2_json_key_int(buf, "layer", h->path[n].layer);
        s2_json_key_int(buf, "head", h->path[n].head);
        s2_json_key_int(buf, "query_block", h->path[n].q_blk);
        s2_json_key_int(buf, "key_block", h->path[n].k_blk);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_end(buf, '}');
}

static void write_layers(report *r)
{
    s2_buf *const buf = &r->buf;
    s2_json_key_begin(buf, "by_layer", '[');
    for (int32_t layer = 0; layer < r->m.stack.pattern->n_layers; layer++) {
        s2_json_begin(buf, '{');
        s2_json_key_int(buf, "last", r->m.hops.receptive[layer].last);
        s2_json_key_int(buf, "least", r->m.hops.receptive[layer].least);
        s2_json_key_int(buf, "least_query", r->m.hops.receptive[layer].least_query);
        s2_json_key_num(buf, "coverage", r->m.worth.layers[layer].coverage);
        s2_json_key_num(buf, "concentration", r->m.worth.layers[layer].concentration);
        s2_json_key_num(buf, "signal", r->m.worth.layers[layer].signal);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
}

static void write_distances(report *r)
{
    s2_buf *const buf = &r->buf;
    s2_json_key_begin(buf, "by_distance", '[');
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_readers_at *const here = &r->m.readers.octaves[octave];
        const s2_flow_at *const flow = &r->m.flow.octaves[octave];
        if (here->n_pairs == 0)
            continue;
        s2_json_begin(buf, '{');
        s2_json_key_int(buf, "from_block", octave == 0 ? 0 : INT64_C(1) << (octave - 1));
        s2_json_key_num(buf, "heads", here->heads);
        s2_json_key_int(buf, "least_heads", here->least_heads);
        s2_json_key_num(buf, "kv_heads", here->kv_heads);
        s2_json_key_int(buf, "least_kv_heads", here->least_kv_heads);
        s2_json_key_int(buf, "layer", here->layer);
        s2_json_key_int(buf, "query_block", here->q_blk);
        s2_json_key_int(buf, "key_block", here->k_blk);
        s2_json_key_num(buf, "chances", here->chances);
        s2_json_key_int(buf, "least_chances", here->least_chances);
        s2_json_key_num(buf, "flow", flow->n_keys > 0 ? flow->flow : (double)NAN);
        s2_json_key_num(buf, "dense_flow", flow->n_keys > 0 ? flow->dense : (double)NAN);
        s2_json_key_num(buf, "log2_paths", flow->n_keys > 0 ? flow->log2_paths : (double)NAN);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
}

static void write_every_length(report *r)
{
    const s2_lengths *const all = &r->lengths;
    const int64_t block_tok = r->m.stack.pattern->block_tok;
    s2_buf *const buf = &r->buf;
    s2_json_key_begin(buf, "every_length", '{');
    s2_json_key_str(buf, "not_decided", why_not_every_length(all->answer));
    if (all->answer == S2_LENGTHS_DECIDED) {
        s2_json_key_int(buf, "decided_at_blocks", all->n_blk);
        s2_json_key_num(buf, "layers", all->layers > 0 ? all->layers : (double)NAN);
        s2_json_key_int(buf, "least_heads", all->least_heads);
        s2_json_key_int(buf, "least_kv_heads", all->least_kv_heads);
        s2_json_key_num(buf, "window_tok",
                        all->window < all->n_blk ? (double)(all->window * block_tok) : (double)NAN);
    }
    s2_json_end(buf, '}');
}

static void write_worth(report *r)
{
    const s2_worth *const w = &r->m.worth;
    s2_buf *const buf = &r->buf;
    s2_json_key_num(buf, "mean_window", w->window);
    s2_json_key_num(buf, "neighbour", w->neighbour);
    s2_json_key_num(buf, "far", w->far);
    s2_json_key_str(buf, "not_judged", w->not_judged);
    s2_report_worth_json(w, buf);
}

static void write_json(report *r)
{
    s2_buf *const buf = &r->buf;
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2reach/1");
    s2_json_key_str(buf, "name", s2_input_name(r->cli, &r->input));
    s2_json_key_int(buf, "len", r->n_tok);
    s2_json_key_int(buf, "blocks", r->m.stack.n_blk);
    s2_json_key_bool(buf, "exact", r->m.stack.exact);
    write_hops(r);
    write_layers(r);
    write_distances(r);
    s2_json_key_int(buf, "window_tok", tokens(r, r->m.readers.window));
    s2_json_key_num(buf, "least_flow", r->m.flow.least);
    s2_json_key_int(buf, "least_flow_key", r->m.flow.least_key);
    s2_json_key_num(buf, "least_log2_paths", r->m.flow.least_log2_paths);
    s2_json_key_num(buf, "resident", r->m.readers.resident);
    s2_json_key_num(buf, "resident_once", r->m.readers.resident_once);
    write_worth(r);
    write_every_length(r);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

static s2_exit report_operand(s2_cli *cli, const s2_args *args, const char *operand)
{
    report r = {.cli = cli};
    S2_CLI_TRY(s2_input_read(cli, operand, &r.input));
    S2_CLI_TRY(s2_input_len(cli, args, &r.input.pattern, &r.n_tok));
    const s2_phase phase = strcmp(s2_args_str(args, "phase"), "decode") == 0 ? S2_DECODE : S2_PREFILL;
    S2_CLI_TRY(s2_reach_measure(cli, operand, &r.input.pattern, phase, r.n_tok, &r.m));
    const s2_status status = s2_lengths_decide(&cli->arena, &r.input.pattern, phase, &r.lengths);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, operand);
    if (s2_args_has(args, "json"))
        write_json(&r);
    else
        print_page(&r);
    return s2_cli_print(cli, &r.buf);
}

s2_exit s2_cmd_reach(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "reach", argc, argv, &args));
    s2_exit code = S2_EXIT_OK;
    for (int32_t n = 0; n < args.n_operands; n++)
        code = s2_exit_combine(code, report_operand(cli, &args, args.operands[n]));
    return code;
}
