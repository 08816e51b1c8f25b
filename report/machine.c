#include "report/machine.h"

#include <string.h>

#include "sim/links.h"
#include "sim/machine.h"
#include "sim/units.h"

int32_t s2_machine_gpus(const s2_sim_options *options)
{
    return options->n_ranks * options->n_context * options->n_stages;
}

/* Tables of GPUs do not say how many share a link: say what is taken for granted. */
bool s2_machine_one_node(const s2_sim_options *options)
{
    enum { USUAL_NODE = 8 };
    return s2_links_gpus(options) > USUAL_NODE && options->n_nodes == 1;
}

void s2_machine_put_one_node(const s2_sim_options *options, s2_buf *buf)
{
    s2_buf_printf(buf,
                  "all %lld GPUs are priced as one node, each linked to all others; --nodes N prices them on "
                  "several\n",
                  (long long)s2_links_gpus(options));
}

static const struct {
    s2_group group;
    const char *word, *text;
} groups[] = {{S2_GROUP_TENSOR, "tp", "the heads of a layer"},
              {S2_GROUP_CONTEXT, "cp", "a context"},
              {S2_GROUP_EXPERTS, "ep", "experts"},
              {S2_GROUP_STAGES, "pp", "the stages"},
              {S2_GROUP_REPLICAS, "dp", "replicas"}};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

/* A group of one GPU sends nothing, wherever it is. */
static bool sends_between_nodes(const s2_sim_options *options, s2_group group)
{
    return s2_links_size(options, group) > 1 && s2_links_cross(options, group);
}

static void line(s2_buf *buf)
{
    s2_buf_puts(buf, "\n                ");
}

static void text_stages(const s2_sim_options *options, const s2_machine *machine, s2_buf *buf)
{
    s2_buf_printf(buf,
                  "%d stages, %d microbatch%s of up to %lld: each takes %s on the slowest, stage %d, and %s "
                  "between two; a stage is idle %.1f %% of the step",
                  options->n_stages, machine->n_micro, machine->n_micro == 1 ? "" : "es",
                  (long long)s2_ceil_div(options->batch, machine->n_micro),
                  s2_time_text(machine->slot_us).text, machine->slowest,
                  s2_time_text(machine->boundary_us).text, 100 * machine->idle);
    line(buf);
}

static void text_context(const s2_sim_options *options, const s2_machine *machine, s2_buf *buf)
{
    const bool zigzag = options->cut == S2_CUT_ZIGZAG;
    if (zigzag)
        s2_buf_printf(buf, "%d GPUs share a context in %d pieces, the first and the last to one (zigzag): ",
                      options->n_context, 2 * options->n_context);
    else
        s2_buf_printf(buf, "%d GPUs share a context, its tokens in order (contiguous; or --cut zigzag): ",
                      options->n_context);
    s2_buf_printf(buf, "attention computes %s on the GPU with most, %.3f of the mean, %s in %s",
                  s2_time_text(machine->ring_compute_us).text, machine->imbalance,
                  zigzag ? "while keys go round" : "after the keys that it is sent",
                  s2_time_text(machine->ring_link_us).text);
    if (machine->ring_held_bytes > 0)
        s2_buf_printf(buf, "; a GPU holds up to %s of keys and values of others",
                      s2_bytes_text(machine->ring_held_bytes).text);
    line(buf);
}

static void text_experts(const s2_sim_options *options, const s2_expert_price *experts, s2_buf *buf)
{
    s2_buf_printf(buf, "%d replicas, each with the batch and %d of %d experts a layer; ",
                  options->n_expert_ranks, experts->n_each, options->net->n_experts);
    if (options->calibration == NULL)
        s2_buf_puts(buf, "as a bound, no token leaves its GPU and all GPUs are picked alike");
    else
        s2_buf_printf(
            buf, "where picks are equally likely, one GPU has %.3f of the mean, and one reads %.1f experts",
            experts->imbalance, experts->read);
    line(buf);
}

static void text_nodes(const s2_sim_options *options, s2_buf *buf)
{
    bool any = false;
    s2_buf_printf(buf, "%s on %d nodes", s2_count_text(s2_links_gpus(options), "GPU").text, options->n_nodes);
    for (size_t g = 0; g < N_GROUPS; g++)
        if (sends_between_nodes(options, groups[g].group)) {
            s2_buf_printf(buf, "%s%s", any ? ", " : "; between nodes are ", groups[g].text);
            any = true;
        }
    if (any)
        s2_buf_printf(buf, ", at %.0f GB/s a GPU one way", options->gpu.network_gb_s);
    line(buf);
}

/* Contiguous parts and nothing else. */
static bool is_contiguous(const s2_sim_options *options)
{
    return options->n_context > 1 && options->cut == S2_CUT_CONTIGUOUS && options->n_stages == 1 &&
           options->n_expert_ranks == 1 && options->n_nodes == 1 && options->n_ranks == 1;
}

void s2_machine_text(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const bool one_node = s2_machine_one_node(options);
    if (!s2_machine_asked(options) && !one_node)
        return;
    s2_buf_puts(buf, "  machine       ");
    if (one_node)
        s2_machine_put_one_node(options, buf);
    if (!s2_machine_asked(options))
        return;
    if (one_node)
        s2_buf_puts(buf, "                ");
    if (options->n_stages > 1)
        text_stages(options, &sim->machine, buf);
    if (options->n_context > 1)
        text_context(options, &sim->machine, buf);
    if (options->n_expert_ranks > 1)
        text_experts(options, &sim->experts, buf);
    if (options->n_nodes > 1)
        text_nodes(options, buf);
    s2_buf_puts(buf, is_contiguous(options)
                         ? "of such machines two H100s were measured; the links of others are assumed "
                           "(docs/simulator.md)\n"
                         : "no such machine was measured: its schedule and links are assumed "
                           "(docs/simulator.md)\n");
}

/* ---- what GPUs send one another in training */

static double sent_by(const s2_sim *sim, const char *part)
{
    for (int32_t at = 0; at < sim->n_parts; at++)
        if (s2_part_is(&sim->parts[at], part))
            return sim->parts[at].sent_bytes;
    return 0;
}

static void put_sent(double bytes, const char *what, bool *any, s2_buf *buf)
{
    if (bytes <= 0)
        return;
    s2_buf_printf(buf, "%s%s %s", *any ? ", " : "in a step a GPU sends ", s2_bytes_text(bytes).text, what);
    *any = true;
}

static void put_all_sent(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    bool any = false;
    put_sent(sent_by(sim, "all-reduce"),
             options->recompute ? "in all-reduces (of each layer 2 forward, 2 backward, 2 forward again)"
                                : "in all-reduces (of each layer 2 forward, 2 backward)",
             &any, buf);
    put_sent(sim->machine.ring_bytes, "of keys, values and their gradients to those that share the context",
             &any, buf);
    put_sent(sent_by(sim, "all-to-all"), "to experts of others and back (all-to-all)", &any, buf);
    put_sent(sent_by(sim, "between stages"), "between stages", &any, buf);
    put_sent(sent_by(sim, "gather, scatter"),
             options->n_stages > 1 ? "to gather weights twice and scatter gradients, for each microbatch"
                                   : "to gather weights twice and scatter gradients",
             &any, buf);
    put_sent(sent_by(sim, "sum over contexts"), "to sum the gradients of all that share a context", &any,
             buf);
    put_sent(sent_by(sim, "sum over copies"), "to sum those of copied KV heads", &any, buf);
    put_sent(sent_by(sim, "sum of embeddings"), "to sum those of the embedding", &any, buf);
    if (any)
        line(buf);
}

/* What is assumed of the links of a training step, and what of them is left out. */
void s2_links_text(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const int64_t n_gpus = s2_links_gpus(options);
    if (options->phase != S2_TRAIN || options->net == NULL || n_gpus == 1)
        return;
    s2_buf_puts(buf, "  links         ");
    put_all_sent(options, sim, buf);
    if (options->n_nodes == 1) {
        s2_buf_printf(buf, "all %lld GPUs are taken to share one host's %s (--nodes N deals them out)",
                      (long long)n_gpus, options->gpu.nvlink_gb_s > 0 ? "NVLink" : "PCIe");
        line(buf);
    }
    s2_buf_puts(buf, options->calibration != NULL
                         ? "assumed: only keys that go round hide behind computing\n"
                         : "as a bound, gathering, scattering and summing gradients hide and take no time\n");
    s2_buf_puts(buf, "  not counted   buffers, the latency of gathering and scattering, gradients of norms");
    if (options->n_ranks > 1)
        s2_buf_puts(buf, ", all-reduces of the embedding, the head and the loss");
    if (options->net->n_experts > 1 && options->n_expert_ranks == 1)
        s2_buf_puts(buf, "; no expert is sent to, since --tp divides each of them");
    s2_buf_puts(buf, "\n");
}

/* ---- JSON */

static void json_ring(const s2_sim_options *options, const s2_machine *machine, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "cut", s2_cut_word(options->cut));
    s2_json_key_num(buf, "compute_us", s2_rounded(machine->ring_compute_us));
    s2_json_key_num(buf, "link_us", s2_rounded(machine->ring_link_us));
    s2_json_key_num(buf, "imbalance", s2_rounded(machine->imbalance));
    s2_json_key_num(buf, "sent_bytes", s2_rounded(machine->ring_bytes));
    s2_json_key_num(buf, "held_bytes", s2_rounded(machine->ring_held_bytes));
    s2_json_end(buf, '}');
}

static void json_stages(const s2_machine *machine, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_int(buf, "microbatches", machine->n_micro);
    s2_json_key_int(buf, "slowest_stage", machine->slowest);
    s2_json_key_num(buf, "microbatch_us", s2_rounded(machine->slot_us));
    s2_json_key_num(buf, "between_us", s2_rounded(machine->boundary_us));
    s2_json_key_num(buf, "waiting_us", s2_rounded(machine->waiting_us));
    s2_json_key_num(buf, "idle", s2_rounded(machine->idle));
    s2_json_end(buf, '}');
}

static void json_experts(const s2_sim_options *options, const s2_expert_price *experts, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_int(buf, "each", experts->n_each);
    s2_json_key_int(buf, "of", options->net->n_experts);
    s2_json_key_num(buf, "picks", s2_rounded(experts->picks));
    s2_json_key_num(buf, "imbalance", s2_rounded(experts->imbalance));
    s2_json_key_num(buf, "read", s2_rounded(experts->read));
    s2_json_end(buf, '}');
}

void s2_machine_json(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const bool one_node = s2_machine_one_node(options);
    if (!s2_machine_asked(options) && !one_node)
        return;
    s2_json_key_begin(buf, "machine", '{');
    s2_json_key_int(buf, "gpus", s2_links_gpus(options));
    s2_json_key_int(buf, "pp", options->n_stages);
    s2_json_key_int(buf, "cp", options->n_context);
    s2_json_key_int(buf, "ep", options->n_expert_ranks);
    s2_json_key_int(buf, "nodes", options->n_nodes);
    s2_json_key_bool(buf, "one_node", one_node);
    s2_json_key_begin(buf, "between_nodes", '[');
    for (size_t g = 0; g < N_GROUPS; g++)
        if (sends_between_nodes(options, groups[g].group))
            s2_json_str(buf, groups[g].word);
    s2_json_end(buf, ']');
    s2_json_key(buf, "stages");
    if (options->n_stages > 1)
        json_stages(&sim->machine, buf);
    else
        s2_json_null(buf);
    s2_json_key(buf, "ring");
    if (options->n_context > 1)
        json_ring(options, &sim->machine, buf);
    else
        s2_json_null(buf);
    s2_json_key(buf, "experts");
    if (options->n_expert_ranks > 1)
        json_experts(options, &sim->experts, buf);
    else
        s2_json_null(buf);
    s2_json_key_bool(buf, "measured", false);
    s2_json_end(buf, '}');
}
