#include "base/arith.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/reach_chart.h"
#include "cli/store.h"
#include "reach/beyond.h"
#include "report/report.h"
#include "words/reach.h"
#include "words/size.h"

#include <math.h>
#include <string.h>

/* One pattern at one length, and all that was measured. */
typedef struct report {
    s2_cli *cli;
    s2_input input;
    int64_t n_tok;
    int32_t n_blk;
    bool is_beyond; /* more blocks than a stack holds: m has nothing but flow, and why there is no worth */
    s2_measures m;
    s2_lengths lengths;
    s2_buf buf;
} report;

static int64_t tokens(const report *r, int64_t n_blk)
{
    const int64_t n = n_blk * r->input.pattern.block_tok;
    return s2_min_i64(n, r->n_tok);
}

static void print_page(report *r)
{
    const s2_pattern *const p = &r->input.pattern;
    s2_buf_printf(&r->buf, "%s: %s, %s on ", s2_input_name(r->cli, &r->input),
                  s2_count_text(p->n_layers, "layer").text, s2_count_text(p->n_heads, "query head").text);
    s2_pattern_print_kv_heads(p, &r->buf);
    s2_buf_printf(&r->buf, ", %s of %s\n", s2_count_text(r->n_blk, "block").text,
                  s2_count_text(p->block_tok, "token").text);
    if (r->is_beyond) {
        s2_reach_beyond_page(&r->m.flow, &r->lengths, p->block_tok, &r->buf);
        return;
    }
    s2_reach_tables(&r->m, &r->buf);
    s2_buf_puts(&r->buf, "\n");
    s2_reach_lines(&r->m, &r->lengths, &r->buf);
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
    for (int32_t layer = 0; layer < r->input.pattern.n_layers; layer++) {
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

static void write_flow(report *r, int32_t octave)
{
    const s2_flow_at *const flow = &r->m.flow.octaves[octave];
    s2_json_key_num(&r->buf, "flow", flow->n_keys > 0 ? flow->flow : (double)NAN);
    s2_json_key_num(&r->buf, "dense_flow", flow->n_keys > 0 ? flow->dense : (double)NAN);
    s2_json_key_num(&r->buf, "log2_paths", flow->n_keys > 0 ? flow->log2_paths : (double)NAN);
}

static void write_octave(report *r, int32_t octave)
{
    s2_json_key_int(&r->buf, "from_block", octave == 0 ? 0 : INT64_C(1) << (octave - 1));
}

static void write_distances(report *r)
{
    s2_buf *const buf = &r->buf;
    s2_json_key_begin(buf, "by_distance", '[');
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_readers_at *const here = &r->m.readers.octaves[octave];
        if (here->n_pairs == 0)
            continue;
        s2_json_begin(buf, '{');
        write_octave(r, octave);
        s2_json_key_num(buf, "heads", here->heads);
        s2_json_key_int(buf, "least_heads", here->least_heads);
        s2_json_key_num(buf, "kv_heads", here->kv_heads);
        s2_json_key_int(buf, "least_kv_heads", here->least_kv_heads);
        s2_json_key_int(buf, "layer", here->layer);
        s2_json_key_int(buf, "query_block", here->q_blk);
        s2_json_key_int(buf, "key_block", here->k_blk);
        s2_json_key_num(buf, "chances", here->chances);
        s2_json_key_int(buf, "least_chances", here->least_chances);
        write_flow(r, octave);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
}

static void write_every_length(report *r)
{
    const s2_lengths *const all = &r->lengths;
    const int64_t block_tok = r->input.pattern.block_tok;
    s2_buf *const buf = &r->buf;
    s2_json_key_begin(buf, "every_length", '{');
    s2_json_key_str(buf, "not_decided", s2_lengths_why(all->answer));
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

static void write_least_flow(report *r)
{
    s2_json_key_num(&r->buf, "least_flow", r->m.flow.least);
    s2_json_key_int(&r->buf, "least_flow_key", r->m.flow.least_key);
    s2_json_key_num(&r->buf, "least_log2_paths", r->m.flow.least_log2_paths);
}

static void write_measures(report *r)
{
    s2_buf *const buf = &r->buf;
    s2_json_key_bool(buf, "exact", r->m.stack.exact);
    write_hops(r);
    write_layers(r);
    write_distances(r);
    s2_json_key_int(buf, "window_tok", tokens(r, r->m.readers.window));
    write_least_flow(r);
    s2_json_key_num(buf, "resident", r->m.readers.resident);
    s2_json_key_num(buf, "resident_once", r->m.readers.resident_once);
    write_worth(r);
}

/* Members of what is not measured there are null, and its lists empty. */
static void write_beyond(report *r)
{
    static const char *const not_measured[] = {"resident", "resident_once", "mean_window", "neighbour",
                                               "far"};
    s2_buf *const buf = &r->buf;
    s2_json_key_bool(buf, "exact", true);
    s2_json_key(buf, "hops");
    s2_json_null(buf);
    s2_json_key_begin(buf, "by_layer", '[');
    s2_json_end(buf, ']');
    s2_json_key_begin(buf, "by_distance", '[');
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        if (r->m.flow.octaves[octave].n_keys == 0)
            continue;
        s2_json_begin(buf, '{');
        write_octave(r, octave);
        write_flow(r, octave);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_key_num(buf, "window_tok", (double)NAN);
    write_least_flow(r);
    for (size_t n = 0; n < sizeof not_measured / sizeof not_measured[0]; n++)
        s2_json_key_num(buf, not_measured[n], (double)NAN);
    s2_json_key_str(buf, "not_judged", r->m.worth.not_judged);
    s2_report_worth_json(&r->m.worth, buf);
}

static void write_json(report *r)
{
    s2_buf *const buf = &r->buf;
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2reach/1");
    s2_json_key_str(buf, "name", s2_input_name(r->cli, &r->input));
    s2_json_key_int(buf, "len", r->n_tok);
    s2_json_key_int(buf, "blocks", r->n_blk);
    if (r->is_beyond)
        write_beyond(r);
    else
        write_measures(r);
    write_every_length(r);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

static s2_exit refuse_beyond(s2_cli *cli, const char *operand, s2_lengths_answer answer)
{
    if (answer == S2_LENGTHS_DECIDED)
        s2_cli_error(cli,
                     "%s is too large: reach follows the flow of at most %d blocks, and some minutes of work",
                     operand, S2_BEYOND_BLOCKS);
    else
        s2_cli_error(cli, "%s is too large: reach follows at most %d blocks where %s", operand,
                     S2_REACH_BLOCKS, s2_lengths_why(answer));
    s2_cli_hint(cli, "try a shorter --len or a larger block");
    return S2_EXIT_UNDECIDED;
}

static s2_exit measure_beyond(s2_cli *cli, const char *operand, s2_phase phase, report *r)
{
    s2_lengths_answer answer = S2_LENGTHS_DECIDED;
    s2_status status = s2_beyond_flow(&cli->arena, &r->input.pattern, phase, r->n_tok, &answer, &r->m.flow);
    if (status == S2_ELIMIT || (status == S2_OK && answer != S2_LENGTHS_DECIDED))
        return refuse_beyond(cli, operand, status == S2_ELIMIT ? S2_LENGTHS_DECIDED : answer);
    if (status == S2_OK)
        status = s2_worth_figures(&cli->arena, &r->input.pattern, r->n_tok, &r->m.worth);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, operand);
}

/* Columns of lists hold what prefill's rules do, as those of worth. */
static s2_exit store(report *r, s2_phase phase)
{
    const bool decided = r->lengths.answer == S2_LENGTHS_DECIDED && r->n_blk >= r->lengths.n_blk;
    const int32_t layers = r->is_beyond ? r->lengths.layers : r->m.hops.layers;
    const s2_db_reach row = {.len_tok = r->n_tok,
                             .hops = r->is_beyond && !decided ? S2_DB_NONE
                                     : layers > 0             ? layers
                                                              : r->input.pattern.n_layers + 1,
                             .flow = r->m.flow.least};
    return phase == S2_PREFILL ? s2_store_reach(r->cli, &r->input, &row) : S2_EXIT_OK;
}

static s2_exit report_operand(s2_cli *cli, const s2_args *args, const char *operand)
{
    report r = {.cli = cli};
    S2_CLI_TRY(s2_input_read(cli, operand, &r.input));
    if (!s2_pattern_has_attention(&r.input.pattern)) {
        s2_cli_error(
            cli,
            "%s: all of its layers keep a state and read no keys, so nothing is to be said of what they read",
            operand);
        return S2_EXIT_USAGE;
    }
    S2_CLI_TRY(s2_input_len(cli, args, &r.input.pattern, &r.n_tok));
    const s2_phase phase = strcmp(s2_args_str(args, "phase"), "decode") == 0 ? S2_DECODE : S2_PREFILL;
    const int64_t n_blk = (r.n_tok - 1) / r.input.pattern.block_tok + 1;
    r.is_beyond = n_blk > S2_REACH_BLOCKS;
    if (r.is_beyond)
        S2_CLI_TRY(measure_beyond(cli, operand, phase, &r));
    else
        S2_CLI_TRY(s2_reach_measure(cli, operand, &r.input.pattern, phase, r.n_tok, &r.m));
    r.n_blk = (int32_t)n_blk;
    const s2_status status = s2_lengths_decide(&cli->arena, &r.input.pattern, phase, &r.lengths);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, operand);
    if (s2_args_has(args, "json"))
        write_json(&r);
    else
        print_page(&r);
    S2_CLI_TRY(s2_cli_print(cli, &r.buf));
    return store(&r, phase);
}

s2_exit s2_cmd_reach(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "reach", argc, argv, &args));
    s2_exit code = S2_EXIT_OK;
    for (int32_t n = 0; n < args.n_operands; n++) {
        const s2_arena_mark_t mark = s2_arena_mark(&cli->arena);
        code = s2_exit_combine(code, report_operand(cli, &args, args.operands[n]));
        s2_arena_rewind(&cli->arena, mark);
    }
    return code;
}
