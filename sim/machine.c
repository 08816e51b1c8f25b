#include "sim/machine.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "sim/activations.h"
#include "sim/capacity.h"
#include "sim/classes.h"
#include "sim/experts.h"
#include "sim/links.h"
#include "sim/scores.h"
#include "sim/share.h"

/* The share of a link's peak that is reached, as in the all-reduce (sim/endtoend.c); a bound takes all of it. */
#define LINK_FRACTION 0.8

enum { CODE_MACHINE = 702, MOST_STAGES = 64, MOST_CONTEXT = 64 };

bool s2_machine_asked(const s2_sim_options *options)
{
    return options->n_stages > 1 || options->n_context > 1 || options->n_expert_ranks > 1 ||
           options->n_nodes > 1;
}

/* ---- what can be asked */

int32_t s2_machine_most_stages(int32_t n_layers)
{
    return s2_min_i32(n_layers, MOST_STAGES);
}

int32_t s2_machine_most_context(int64_t len_tok)
{
    return (int32_t)s2_min_i64(len_tok / 2, MOST_CONTEXT);
}

static s2_status check_stages(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    const int32_t p = options->n_stages, n_layers = pattern->n_layers,
                  most = s2_machine_most_stages(n_layers);
    if (options->net == NULL)
        return s2_diag_set(diag, S2_EINVAL, CODE_MACHINE, 0, 0,
                           "a pipeline needs a model (--model): its hidden state passes between the stages");
    if (p > most)
        return s2_diag_set(diag, S2_EINVAL, CODE_MACHINE, 0, 0, "%d layers make at most %d stages, not %d",
                           n_layers, most, p);
    return S2_OK;
}

static s2_status check_context(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    const int32_t c = options->n_context;
    if (options->phase == S2_DECODE || options->new_tok != 0)
        return s2_diag_set(diag, S2_EINVAL, CODE_MACHINE, 0, 0,
                           "--cp shares out the tokens of a whole prefill or training step, and not new "
                           "tokens behind a cache");
    if (c > s2_machine_most_context(options->len_tok))
        return s2_diag_set(diag, S2_EINVAL, CODE_MACHINE, 0, 0,
                           "at most %d GPUs share a context, of at least two tokens for each", MOST_CONTEXT);
    if (!pattern->causal)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_MACHINE, 0, 0,
                           "a shared context is priced for causal patterns only");
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (s2_pattern_state_bytes(pattern, layer) > 0)
            return s2_diag_set(
                diag, S2_EUNSUPPORTED, CODE_MACHINE, 0, 0,
                "layer %d keeps a state, which a GPU's tokens need from those before them: what GPUs "
                "that share a context send of it, and how long they wait, is not known",
                layer);
    return S2_OK;
}

s2_status s2_machine_check(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    const int64_t n_gpus = s2_links_gpus(options);
    if (options->n_stages > 1)
        S2_TRY(check_stages(pattern, options, diag));
    if (options->n_context > 1)
        S2_TRY(check_context(pattern, options, diag));
    if (options->n_expert_ranks > 1)
        S2_TRY(s2_experts_check(options, diag));
    if (n_gpus % options->n_nodes != 0)
        return s2_diag_set(diag, S2_EINVAL, CODE_MACHINE, 0, 0,
                           "%s cannot be shared out over %d nodes evenly", s2_count_text(n_gpus, "GPU").text,
                           options->n_nodes);
    if (options->n_nodes > 1 && options->gpu.network_gb_s <= 0)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_MACHINE, 0, 0,
                           "%s has no network_gb_s: what links its nodes is not known", options->gpu.name);
    if (s2_links_rate(options, S2_GROUP_EXPERTS) <= 0)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_MACHINE, 0, 0,
                           "%s has neither nvlink_gb_s nor pcie_gb_s: what links its GPUs is not known",
                           options->gpu.name);
    return S2_OK;
}

/* ---- one machine */

/* What a layer does of attention: forward, and in training backward. */
typedef struct s2_directions {
    double forward;
    double backward;
} s2_directions;

/* Attention of some layers on the GPU that takes longest. */
typedef struct s2_ring {
    s2_directions us, dense_us; /* with the keys that go round meanwhile, or are sent */
    double compute_us;          /* without; a forward pass that is run again counts twice, as it does below */
    double link_us;             /* of the keys alone */
    double sent_bytes;          /* by the GPU that sends most */
    double mean_us;             /* computing, over the GPUs */
    double plan_us, dense_plan_us;
    double bound_us;
    double dram_bytes, l2_bytes; /* of all GPUs */
} s2_ring;

typedef struct s2_machine_run {
    s2_arena *scratch;
    const s2_pattern *pattern;
    const s2_sim_options *options;
    s2_price_whole_fn *whole;
    int64_t *work_left;
    s2_diag *diag;
    int32_t n_micro;
    int64_t micro_batch; /* sequences of the largest */
    int32_t ring_layer;  /* the layer that was priced last, and its ring; -1: none */
    s2_ring ring;
} s2_machine_run;

static double rate_reached(const s2_calibration *calibration)
{
    return calibration != NULL ? LINK_FRACTION : 1;
}

static double link_rate(const s2_machine_run *run, s2_group group)
{
    return s2_links_rate(run->options, group) * rate_reached(run->options->calibration);
}

/* A whole price of some layers, on one GPU or tensor-parallel group of the machine. */
static s2_status price_part(const s2_machine_run *run, const s2_pattern *pattern,
                            const s2_sim_options *options, s2_sim *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(run->scratch);
    *out = (s2_sim){0};
    const s2_status status = run->whole(run->scratch, pattern, options, run->work_left, out, run->diag);
    s2_arena_rewind(run->scratch, mark);
    return status;
}

/* ---- a context that is shared out */

/* Attention of one layer, of the tokens of one GPU. */
typedef struct s2_attention_us {
    double time_us, dense_us, plan_us, dense_plan_us, bound_us;
    double dram_bytes, l2_bytes;
} s2_attention_us;

/* Tokens [begin, end). */
typedef struct s2_piece {
    int64_t begin, end;
} s2_piece;

static int64_t part_begin(const s2_sim_options *options, int64_t n_parts, int64_t nth)
{
    return options->len_tok * nth / n_parts;
}

/* The tokens of one GPU; returns how many pieces they are. */
static int32_t pieces_of(const s2_sim_options *options, int32_t rank, s2_piece out[2])
{
    const bool zigzag = options->cut == S2_CUT_ZIGZAG;
    const int64_t n_parts = (zigzag ? 2 : 1) * (int64_t)options->n_context,
                  parts[2] = {rank, n_parts - 1 - rank};
    for (int32_t n = 0; n < 2; n++)
        out[n] =
            (s2_piece){part_begin(options, n_parts, parts[n]), part_begin(options, n_parts, parts[n] + 1)};
    return zigzag ? 2 : 1;
}

/* What one GPU computes of a forward pass, each piece as a launch of its own. */
static s2_status price_pieces(const s2_machine_run *run, const s2_pattern *layer,
                              const s2_calibration *calibration, int32_t rank, s2_attention_us *out)
{
    s2_piece pieces[2];
    const int32_t n_pieces = pieces_of(run->options, rank, pieces);
    s2_sim_options own = *run->options;
    const s2_model_scores scores = s2_scores_of(&own, layer);
    own.scores = &scores;
    own.net = NULL;
    own.calibration = calibration;
    own.phase = S2_PREFILL;
    own.batch = run->micro_batch;
    *out = (s2_attention_us){0};
    for (int32_t n = 0; n < n_pieces; n++) {
        s2_sim sim;
        own.len_tok = pieces[n].end;
        own.new_tok = pieces[n].end - pieces[n].begin;
        S2_TRY(price_part(run, layer, &own, &sim));
        out->time_us += sim.time_us;
        out->plan_us += sim.plan_us;
        out->bound_us += sim.bound_us;
        out->dense_us += sim.dense_time_us;
        out->dense_plan_us += sim.dense_plan_us;
        out->dram_bytes += sim.dram_bytes;
        out->l2_bytes += sim.l2_bytes;
    }
    return S2_OK;
}

/* ---- keys and values that are sent */

/* K and V of a layer in one forward pass: what each GPU sends and is sent; and what it sends in a whole step. */
typedef struct s2_traffic {
    double sent[MOST_CONTEXT], received[MOST_CONTEXT], in_step[MOST_CONTEXT];
    double most; /* either way, by any of them */
} s2_traffic;

/* K and V of so many tokens and of one of the GPUs that share the heads. */
static double slot_bytes(const s2_machine_run *run, const s2_pattern *layer)
{
    return s2_share_kv_bytes(layer->n_kv_heads, layer->head_dim, run->options->n_ranks, run->options->dtype) *
           (double)run->micro_batch;
}

static void add_traffic(s2_traffic *sum, int32_t from, int32_t to, double bytes)
{
    sum->sent[from] += bytes;
    sum->received[to] += bytes;
    sum->most = fmax(sum->most, fmax(sum->sent[from], sum->received[to]));
}

/* Forward passes of a step. */
static double n_forward(const s2_sim_options *options)
{
    return options->phase == S2_TRAIN && options->recompute ? 2 : 1;
}

/* How often K and V of a layer, or gradients as large, take the link in a step. */
static double n_rounds(const s2_sim_options *options)
{
    return n_forward(options) + (options->phase != S2_TRAIN ? 0 : options->cut == S2_CUT_ZIGZAG ? 2 : 1);
}

/* Going back a contiguous part returns gradients for the keys that it was sent. */
static void count_step(const s2_sim_options *options, s2_traffic *traffic)
{
    const double back = n_rounds(options) - n_forward(options);
    for (int32_t rank = 0; rank < options->n_context; rank++)
        traffic->in_step[rank] = n_forward(options) * traffic->sent[rank] + back * traffic->received[rank];
}

static void take_most(const s2_traffic *own, s2_traffic *most)
{
    for (int32_t rank = 0; rank < MOST_CONTEXT; rank++) {
        most->sent[rank] = fmax(most->sent[rank], own->sent[rank]);
        most->received[rank] = fmax(most->received[rank], own->received[rank]);
        most->in_step[rank] = fmax(most->in_step[rank], own->in_step[rank]);
    }
    most->most = fmax(most->most, own->most);
}

/* All tokens but a GPU's own pass through it. */
static void go_round(const s2_machine_run *run, const s2_pattern *layer, s2_traffic *out)
{
    const double c = run->options->n_context, tokens = (double)run->options->len_tok;
    for (int32_t rank = 0; rank < run->options->n_context; rank++)
        add_traffic(out, rank, rank, (c - 1) / c * tokens * slot_bytes(run, layer));
    count_step(run->options, out);
}

/*
 * Of one share of the heads: each part is sent the earlier keys that a cache keeps at its first token, from each GPU
 * that has some.
 */
static s2_status send_share(const s2_machine_run *run, const s2_classes *classes, s2_traffic *out)
{
    const s2_sim_options *const options = run->options;
    const double elem_bytes = 2.0 * s2_dtype_bytes(options->dtype) * (double)run->micro_batch;
    *out = (s2_traffic){0};
    for (int32_t to = 1; to < options->n_context; to++) {
        const int64_t begin = part_begin(options, options->n_context, to);
        int64_t later = 0;
        for (int32_t from = to - 1; from >= 0; from--) {
            int64_t kept;
            S2_TRY(s2_kv_head_pages(classes, part_begin(options, options->n_context, from), begin, 1, &kept));
            add_traffic(out, from, to, (double)(kept - later) * elem_bytes);
            later = kept;
        }
    }
    count_step(options, out);
    return S2_OK;
}

/* Of the GPUs that share the heads of a part, each time the one that has most. */
static s2_status send_earlier(const s2_machine_run *run, const s2_pattern *layer, s2_traffic *out)
{
    s2_classes classes;
    S2_TRY(s2_classes_build(run->scratch, layer, S2_PREFILL, &classes));
    classes.work_left = run->work_left;
    for (int32_t rank = 0; rank < run->options->n_ranks; rank++) {
        s2_share_heads heads;
        s2_share share;
        s2_traffic own;
        S2_TRY(s2_share_deal(run->scratch, layer->n_heads, layer->n_kv_heads, run->options->n_ranks, rank,
                             NULL, &heads));
        S2_TRY(s2_share_classes(run->scratch, &classes, &heads, 0, classes.n_layer_classes, &share));
        S2_TRY(send_share(run, &share.classes, &own));
        take_most(&own, out);
    }
    return S2_OK;
}

static s2_status traffic_of(const s2_machine_run *run, const s2_pattern *layer, s2_traffic *out)
{
    s2_status status = S2_OK;
    const s2_arena_mark_t mark = s2_arena_mark(run->scratch);
    *out = (s2_traffic){0};
    if (s2_pattern_is_state_layer(layer, 0))
        return S2_OK;
    if (run->options->cut == S2_CUT_ZIGZAG)
        go_round(run, layer, out);
    else
        status = send_earlier(run, layer, out);
    s2_arena_rewind(run->scratch, mark);
    return status;
}

static double over(double a, double b)
{
    return b > 0 ? a / b : 1;
}

/*
 * The pieces are priced as prefill, and training by the ratio of the two where one GPU has all tokens, since pieces of
 * a backward pass are never priced. Where the layer is not predicted, all of them are bounds; *calibration says which
 * it was.
 */
static s2_status training_over_prefill(const s2_machine_run *run, const s2_pattern *layer,
                                       const s2_calibration **calibration, s2_attention_us *ratio)
{
    s2_sim_options own = *run->options;
    const s2_model_scores scores = s2_scores_of(&own, layer);
    s2_sim whole, prefill;
    *ratio = (s2_attention_us){.time_us = 1, .plan_us = 1, .bound_us = 1, .dense_us = 1, .dense_plan_us = 1};
    own.scores = &scores;
    own.net = NULL;
    own.batch = run->micro_batch;
    S2_TRY(price_part(run, layer, &own, &whole));
    if (!whole.predicted)
        own.calibration = NULL;
    *calibration = own.calibration;
    if (own.phase != S2_TRAIN)
        return S2_OK;
    own.phase = S2_PREFILL;
    S2_TRY(price_part(run, layer, &own, &prefill));
    ratio->time_us = over(whole.time_us, prefill.time_us);
    ratio->plan_us = over(whole.plan_us, prefill.plan_us);
    ratio->bound_us = over(whole.bound_us, prefill.bound_us);
    ratio->dense_us = over(whole.dense_time_us, prefill.dense_time_us);
    ratio->dense_plan_us = over(whole.dense_plan_us, prefill.dense_plan_us);
    return S2_OK;
}

/* What the pieces of a rank take of a whole step: training is so many times their prefill. */
static s2_directions directions_of(double forward_us, double ratio)
{
    return (s2_directions){forward_us, forward_us * fmax(ratio - 1, 0)};
}

/* Whether keys cross the link while attention computes; a bound takes any to do so. */
static bool link_hides(const s2_sim_options *options, const s2_calibration *calibration)
{
    return options->cut == S2_CUT_ZIGZAG || calibration == NULL;
}

/*
 * Attention of a rank and its keys on the link, of which gradients are as many: all that goes round does so while it
 * computes, going back K and V again and their gradients; what is sent to contiguous parts comes before, or, gradients,
 * after.
 */
static s2_directions join_link(const s2_machine_run *run, s2_directions compute, double link_us, bool hides)
{
    const double back_us = run->options->cut == S2_CUT_ZIGZAG ? 2 * link_us : link_us;
    s2_directions us = {fmax(compute.forward, link_us), fmax(compute.backward, back_us)};
    if (!hides)
        us = (s2_directions){compute.forward + link_us, compute.backward + back_us};
    if (run->options->phase != S2_TRAIN)
        us.backward = 0;
    return us;
}

static s2_directions most_of(s2_directions a, s2_directions b)
{
    return (s2_directions){fmax(a.forward, b.forward), fmax(a.backward, b.backward)};
}

static double both(s2_directions us)
{
    return us.forward + us.backward;
}

/* Dense attention: a contiguous part is sent all that is earlier, and sends its own to all that are later. */
static double dense_link_bytes(const s2_machine_run *run, const s2_pattern *layer, int32_t rank)
{
    const s2_sim_options *const options = run->options;
    const int64_t c = options->n_context, begin = part_begin(options, c, rank),
                  own = part_begin(options, c, rank + 1) - begin;
    const double slot = slot_bytes(run, layer);
    if (s2_pattern_is_state_layer(layer, 0))
        return 0;
    if (options->cut == S2_CUT_ZIGZAG)
        return (double)(c - 1) / (double)c * (double)options->len_tok * slot;
    return (double)s2_max_i64(begin, own * (c - 1 - rank)) * slot;
}

static s2_status ring_of_layer(const s2_machine_run *run, const s2_pattern *layer, s2_ring *out)
{
    const s2_sim_options *const options = run->options;
    const int32_t c = options->n_context;
    const double peak = s2_links_rate(options, S2_GROUP_CONTEXT), again = n_forward(options) - 1;
    s2_directions compute = {0};
    s2_attention_us ratio;
    s2_traffic traffic;
    s2_ring most = {0};
    s2_directions plan = {0}, dense_plan = {0};
    const s2_calibration *calibration;
    S2_TRY(traffic_of(run, layer, &traffic));
    S2_TRY(training_over_prefill(run, layer, &calibration, &ratio));
    const bool hides = link_hides(options, calibration);
    const double rate = peak * rate_reached(calibration);
    for (int32_t rank = 0; rank < c; rank++) {
        const double bytes = fmax(traffic.sent[rank], traffic.received[rank]);
        s2_attention_us own;
        S2_TRY(price_pieces(run, layer, calibration, rank, &own));
        const s2_directions us = directions_of(own.time_us, ratio.time_us),
                            dense_us = directions_of(own.dense_us, ratio.dense_us),
                            plan_us = directions_of(own.plan_us, ratio.plan_us),
                            dense_plan_us = directions_of(own.dense_plan_us, ratio.dense_plan_us);
        const double dense_bytes = dense_link_bytes(run, layer, rank);
        compute = most_of(compute, us);
        most.us = most_of(most.us, join_link(run, us, bytes / rate, hides));
        most.dense_us = most_of(most.dense_us, join_link(run, dense_us, dense_bytes / rate, hides));
        plan = most_of(plan, join_link(run, plan_us, bytes / peak, true));
        dense_plan = most_of(dense_plan, join_link(run, dense_plan_us, dense_bytes / peak, true));
        most.bound_us = fmax(most.bound_us, own.bound_us * ratio.bound_us);
        most.mean_us += own.time_us * (ratio.time_us + again) / c;
        most.dram_bytes += own.dram_bytes * ratio.time_us;
        most.l2_bytes += own.l2_bytes * ratio.time_us;
        most.sent_bytes = fmax(most.sent_bytes, traffic.in_step[rank]);
    }
    most.compute_us = both(compute) + again * compute.forward;
    most.link_us = n_rounds(options) * traffic.most / rate;
    most.plan_us = both(plan);
    most.dense_plan_us = both(dense_plan);
    *out = most;
    return S2_OK;
}

static void add_directions(s2_directions *sum, s2_directions own)
{
    sum->forward += own.forward;
    sum->backward += own.backward;
}

static void add_ring(s2_ring *sum, const s2_ring *own)
{
    add_directions(&sum->us, own->us);
    add_directions(&sum->dense_us, own->dense_us);
    sum->compute_us += own->compute_us;
    sum->link_us += own->link_us;
    sum->sent_bytes += own->sent_bytes;
    sum->mean_us += own->mean_us;
    sum->plan_us += own->plan_us;
    sum->dense_plan_us += own->dense_plan_us;
    sum->bound_us += own->bound_us;
    sum->dram_bytes += own->dram_bytes;
    sum->l2_bytes += own->l2_bytes;
}

static s2_status find_ring(s2_machine_run *run, int32_t layer)
{
    s2_pattern one;
    s2_ring own;
    if (run->ring_layer >= 0 && s2_share_layers_alike(run->pattern, run->ring_layer, layer))
        return S2_OK;
    const s2_arena_mark_t mark = s2_arena_mark(run->scratch);
    s2_status status = s2_share_layers(run->scratch, run->pattern, layer, layer + 1, &one, run->diag);
    if (status == S2_OK)
        status = ring_of_layer(run, &one, &own);
    s2_arena_rewind(run->scratch, mark);
    S2_TRY(status);
    run->ring = own;
    run->ring_layer = layer;
    return S2_OK;
}

/* Layers [begin, end): each waits for its own keys. */
static s2_status ring_of_stage(s2_machine_run *run, int32_t begin, int32_t end, s2_ring *out)
{
    s2_ring sum = {0};
    for (int32_t layer = begin; layer < end; layer++) {
        S2_TRY(find_ring(run, layer));
        add_ring(&sum, &run->ring);
    }
    *out = sum;
    return S2_OK;
}

/* ---- stages */

/* One stage and one microbatch. */
typedef struct s2_stage_price {
    s2_sim sim;
    double slot_us, dense_slot_us; /* of each microbatch */
    double once_us;                /* of each step */
} s2_stage_price;

static bool is_attention(const s2_part *part)
{
    return s2_part_is(part, "attention") || s2_part_is(part, "attention backward") ||
           s2_part_is(part, "attention again") || s2_part_is(part, "selection");
}

static double part_us(const s2_sim *sim, const char *name)
{
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (s2_part_is(&sim->parts[part], name))
            return sim->parts[part].time_us;
    return 0;
}

/* A GPU that has a share of the tokens: everything around attention is of these, attention is that of the ring. */
static void take_ring(const s2_sim_options *options, const s2_ring *ring, s2_sim *sim)
{
    const double again = n_forward(options) - 1,
                 forward = ring->us.forward / (part_us(sim, "attention") + part_us(sim, "selection")),
                 backward = over(ring->us.backward, part_us(sim, "attention backward"));
    const bool hides = options->cut == S2_CUT_ZIGZAG,
               waits = hides
                           ? ring->link_us > 0 && both(ring->us) + again * ring->us.forward > ring->compute_us
                           : ring->link_us > ring->compute_us;
    double before_us = 0, after_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++) {
        s2_part *const line = &sim->parts[part];
        if (!is_attention(line))
            continue;
        before_us += line->time_us;
        line->time_us *= s2_part_is(line, "attention backward") ? backward : forward;
        after_us += line->time_us;
        if (waits)
            line->bound_by = S2_LINK;
    }
    if (sim->end_to_end_us > 0) {
        const double others_us = sim->end_to_end_us - before_us;
        sim->end_to_end_dense_us = others_us + both(ring->dense_us) + again * ring->dense_us.forward;
        sim->end_to_end_us = others_us + after_us;
    }
    sim->time_us = both(ring->us);
    sim->dense_time_us = both(ring->dense_us);
    sim->plan_us = ring->plan_us;
    sim->dense_plan_us = ring->dense_plan_us;
    sim->bound_us = ring->bound_us;
    sim->dram_bytes = ring->dram_bytes;
    sim->l2_bytes = ring->l2_bytes;
    sim->bound_by = waits ? S2_LINK : sim->bound_by;
}

/* The layers of one stage, and the options of a GPU that has them. */
typedef struct s2_stage {
    int32_t layer_begin, layer_end;
    s2_pattern layers;
    s2_net net;
    s2_sim_options options; /* net leads into here: do not copy */
} s2_stage;

static int32_t stage_begin(const s2_sim_options *options, int32_t n_layers, int32_t nth)
{
    return (int32_t)((int64_t)n_layers * nth / options->n_stages);
}

void s2_machine_stage(const s2_sim_options *options, int32_t n_layers, int32_t nth, s2_net *net,
                      s2_sim_options *out)
{
    *out = *options;
    out->no_embedding = nth > 0;
    out->no_head = nth < options->n_stages - 1;
    if (options->net == NULL)
        return;
    *net = *options->net;
    net->mixture.from_layer = stage_begin(options, n_layers, nth);
    net->n_layers = stage_begin(options, n_layers, nth + 1) - net->mixture.from_layer;
    out->net = net;
}

double s2_sim_activation_bytes(const s2_sim_options *options)
{
    double most = options->n_stages == 1 ? s2_capacity_activations(options) : 0;
    for (int32_t nth = 0; nth < options->n_stages && options->n_stages > 1; nth++) {
        s2_net net;
        s2_sim_options own;
        s2_machine_stage(options, options->net != NULL ? options->net->n_layers : 1, nth, &net, &own);
        most = fmax(most, s2_capacity_activations(&own));
    }
    return most;
}

static s2_status stage_init(const s2_machine_run *run, int32_t nth, s2_stage *out)
{
    const int32_t n_layers = run->pattern->n_layers;
    out->layer_begin = stage_begin(run->options, n_layers, nth);
    out->layer_end = stage_begin(run->options, n_layers, nth + 1);
    s2_machine_stage(run->options, n_layers, nth, &out->net, &out->options);
    return s2_share_layers(run->scratch, run->pattern, out->layer_begin, out->layer_end, &out->layers,
                           run->diag);
}

/* One microbatch. */
static s2_status price_stage(s2_machine_run *run, s2_stage *stage, s2_ring *ring, s2_stage_price *out)
{
    s2_stage_price price = {0};
    s2_sim_options own = stage->options;
    own.batch = run->micro_batch;
    own.len_tok = s2_ceil_div(own.len_tok, own.n_context);
    S2_TRY(price_part(run, &stage->layers, &own, &price.sim));
    *ring = (s2_ring){0};
    if (own.n_context > 1) {
        S2_TRY(ring_of_stage(run, stage->layer_begin, stage->layer_end, ring));
        take_ring(run->options, ring, &price.sim);
    }
    for (int32_t part = 0; part < price.sim.n_parts; part++)
        *(price.sim.parts[part].once ? &price.once_us : &price.slot_us) += price.sim.parts[part].time_us;
    price.dense_slot_us = price.sim.dense_time_us;
    if (price.sim.end_to_end_us > 0)
        price.dense_slot_us = price.slot_us - price.sim.end_to_end_us + price.sim.end_to_end_dense_us;
    *out = price;
    return S2_OK;
}

/* ---- what is kept */

/* What the GPUs that share a context hold together: each has the weights, and its part of the cache. */
static s2_gpu joined_memory(const s2_sim_options *options)
{
    s2_gpu gpu = options->gpu;
    gpu.hbm_gb +=
        (options->n_context - 1) * s2_capacity_room(options) / (1e6 * (1000 - options->reserved_permille));
    return gpu;
}

/*
 * A decode step reads of host memory what all microbatches together leave no room for: on this stage a GPU waits so
 * long for it in each, beside attention. No kernel was measured doing so.
 */
static void read_host(const s2_machine_run *run, const s2_sim *all, s2_stage_price *out)
{
    s2_part host_memory = {.name = "host memory", .bound_by = S2_LINK};
    s2_sim *const sim = &out->sim;
    const double link_us = all->link_us / (double)run->n_micro,
                 dense_waits_us = fmax(all->link_dense_us / (double)run->n_micro - sim->dense_time_us, 0),
                 waits_us = fmax(link_us - sim->time_us, 0);
    sim->predicted &= all->host_bytes == 0;
    sim->plan_us = fmax(sim->plan_us, link_us);
    sim->bound_us = fmax(sim->bound_us, link_us);
    sim->time_us += waits_us;
    sim->dense_time_us += dense_waits_us;
    out->slot_us += waits_us;
    out->dense_slot_us += dense_waits_us;
    if (waits_us <= 0)
        return;
    sim->bound_by = S2_LINK;
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (s2_part_is(&sim->parts[part],
                       host_memory.name)) { /* what a microbatch by itself leaves no room for */
            sim->parts[part].time_us += waits_us;
            return;
        }
    host_memory.time_us = waits_us;
    sim->parts[sim->n_parts++] = host_memory;
}

/* The cache of all sequences, of which a GPU that shares their tokens has its part. */
static s2_status fit_cache(const s2_machine_run *run, const s2_stage *stage, s2_stage_price *out)
{
    s2_sim *const sim = &out->sim;
    const int64_t c = run->options->n_context;
    s2_sim_options own = stage->options;
    s2_sim all;
    own.calibration = NULL;
    own.peer = NULL;
    own.gpu = joined_memory(&own);
    S2_TRY(price_part(run, &stage->layers, &own, &all));
    sim->kv_fullest = s2_ceil_div(all.kv_fullest, c);
    sim->kv_dense_each = s2_ceil_div(all.kv_dense_each, c);
    sim->kv_peak = s2_ceil_div(all.kv_peak, c);
    sim->kv_peak_tok = all.kv_peak_tok;
    sim->host_bytes = s2_ceil_div(all.host_bytes, c);
    sim->host_dense_bytes = s2_ceil_div(all.host_dense_bytes, c);
    sim->lack_bytes = all.lack_bytes / (double)c;
    sim->host_read_bytes = all.host_read_bytes;
    sim->link_us = all.link_us;
    sim->link_dense_us = all.link_dense_us;
    sim->fit_batch = all.fit_batch;
    sim->fit_batch_dense = all.fit_batch_dense;
    sim->fit_len_tok = all.fit_len_tok;
    sim->fit_len_dense_tok = all.fit_len_dense_tok;
    if (run->options->phase == S2_DECODE)
        read_host(run, &all, out);
    return S2_OK;
}

/* The machine holds what its fullest GPU does, and fits what all of them fit. */
static void take_fullest(const s2_sim *own, s2_sim *sim, bool first)
{
    sim->weight_bytes = first ? own->weight_bytes : s2_max_i64(sim->weight_bytes, own->weight_bytes);
    sim->kv_fullest = first ? own->kv_fullest : s2_max_i64(sim->kv_fullest, own->kv_fullest);
    sim->kv_dense_each = first ? own->kv_dense_each : s2_max_i64(sim->kv_dense_each, own->kv_dense_each);
    if (first || own->kv_peak > sim->kv_peak) {
        sim->kv_peak = own->kv_peak;
        sim->kv_peak_tok = own->kv_peak_tok;
    }
    if (first || own->link_us > sim->link_us) {
        sim->link_us = own->link_us;
        sim->host_read_bytes = own->host_read_bytes;
    }
    sim->host_bytes = first ? own->host_bytes : s2_max_i64(sim->host_bytes, own->host_bytes);
    sim->lack_bytes = first ? own->lack_bytes : fmax(sim->lack_bytes, own->lack_bytes);
    sim->host_dense_bytes =
        first ? own->host_dense_bytes : s2_max_i64(sim->host_dense_bytes, own->host_dense_bytes);
    sim->link_dense_us = first ? own->link_dense_us : fmax(sim->link_dense_us, own->link_dense_us);
    int64_t *const to[] = {&sim->fit_batch, &sim->fit_batch_dense, &sim->fit_len_tok,
                           &sim->fit_len_dense_tok};
    const int64_t from[] = {own->fit_batch, own->fit_batch_dense, own->fit_len_tok, own->fit_len_dense_tok};
    for (size_t n = 0; n < sizeof to / sizeof *to; n++)
        *to[n] = first ? from[n] : s2_min_i64(*to[n], from[n]);
}

/* ---- the schedule */

/* Sums and maxima over the stages. */
typedef struct s2_schedule {
    s2_stage_price slowest; /* the stage whose microbatch takes longest */
    s2_ring ring;           /* of it */
    int32_t nth;
    double slots_us, dense_slots_us;
    double dram_bytes, l2_bytes;
    double dense_slot_us;                /* of the slowest there */
    double dense_time_us, dense_plan_us; /* of its attention */
    double once_us;
    s2_part once[S2_MAX_PARTS];
    int32_t n_once;
} s2_schedule;

static void add_stage(s2_schedule *sum, const s2_stage_price *own, const s2_ring *ring, int32_t nth)
{
    if (nth == 0 || own->slot_us > sum->slowest.slot_us) {
        sum->slowest = *own;
        sum->ring = *ring;
        sum->nth = nth;
    }
    sum->slots_us += own->slot_us;
    sum->dram_bytes += own->sim.dram_bytes;
    sum->l2_bytes += own->sim.l2_bytes;
    sum->dense_slots_us += own->dense_slot_us;
    if (nth == 0 || own->dense_slot_us > sum->dense_slot_us) {
        sum->dense_slot_us = own->dense_slot_us;
        sum->dense_time_us = own->sim.dense_time_us;
        sum->dense_plan_us = own->sim.dense_plan_us;
    }
    if (own->once_us <= sum->once_us)
        return;
    sum->once_us = own->once_us;
    sum->n_once = 0;
    for (int32_t part = 0; part < own->sim.n_parts; part++)
        if (own->sim.parts[part].once)
            sum->once[sum->n_once++] = own->sim.parts[part];
}

/* The hidden state of a microbatch, one way over one boundary. */
static double boundary_us(const s2_machine_run *run)
{
    const s2_sim_options *const options = run->options;
    if (options->n_stages == 1)
        return 0;
    const double tokens = (double)(options->len_tok - s2_sim_first_tok(options)) / options->n_context;
    return 2.0 * options->net->hidden * ceil(tokens) * (double)run->micro_batch /
           link_rate(run, S2_GROUP_STAGES);
}

/* A step of all microbatches, where one takes slot_us on the slowest stage and slots_us on all. */
static double step_us(const s2_machine_run *run, double slot_us, double slots_us)
{
    const double m = run->n_micro, p = run->options->n_stages,
                 link_us = boundary_us(run) * (run->options->phase == S2_TRAIN ? 2 : 1);
    const double period = fmax(slot_us, link_us);
    if (run->options->phase == S2_DECODE)
        return fmax(m * period, slots_us + (p > 1 ? p : 0) * link_us);
    return slots_us + (p - 1) * link_us + (m - 1) * period;
}

static void append(s2_sim *sim, s2_part part)
{
    if (part.time_us > 0)
        sim->parts[sim->n_parts++] = part;
}

/* Hidden states that a GPU sends on; in training one of an inner stage sends as much back. */
static double sent_between(const s2_machine_run *run)
{
    const s2_sim_options *const options = run->options;
    const double ways = options->phase == S2_TRAIN && options->n_stages > 2 ? 2 : 1;
    return ways * run->n_micro * boundary_us(run) * link_rate(run, S2_GROUP_STAGES);
}

/* Parts of the slowest stage, all microbatches, then what it waits for; they add up to the step. */
static void take_parts(const s2_machine_run *run, const s2_schedule *sum, s2_sim *sim)
{
    const s2_sim *const slot = &sum->slowest.sim;
    const double m = run->n_micro, us = step_us(run, sum->slowest.slot_us, sum->slots_us),
                 waits_us = us - m * sum->slowest.slot_us,
                 link_us = fmin(fmax(waits_us, 0), (run->options->n_stages - 1) * boundary_us(run) *
                                                       (run->options->phase == S2_TRAIN ? 2 : 1));
    sim->n_parts = 0;
    for (int32_t part = 0; part < slot->n_parts; part++) {
        s2_part own = slot->parts[part];
        if (own.once)
            continue;
        own.time_us *= m;
        own.sent_bytes *= m;
        append(sim, own);
    }
    append(sim, (s2_part){.name = "between stages",
                          .time_us = link_us,
                          .bound_by = S2_LINK,
                          .sent_bytes = sent_between(run)});
    append(sim,
           (s2_part){.name = "waiting for stages", .time_us = waits_us - link_us, .bound_by = S2_LATENCY});
    for (int32_t part = 0; part < sum->n_once; part++)
        append(sim, sum->once[part]);
    sim->machine.waiting_us = waits_us - link_us;
    sim->machine.idle = us > 0 ? 1 - m * sum->slots_us / (run->options->n_stages * us) : 0;
}

/* The tensor-parallel GPUs of that stage; no deal of heads was tried where they share a context too. */
static void take_ranks(const s2_machine_run *run, const s2_sim *slot, s2_sim *sim)
{
    s2_rank_price *const ranks = &sim->ranks;
    const double m = run->n_micro;
    *ranks = slot->ranks;
    ranks->hbm_bytes *= m;
    ranks->read_bytes *= m;
    ranks->flop_executed *= m;
    ranks->mended_us *= m;
    if (run->options->n_context > 1) {
        ranks->mended_us = 0;
        ranks->n_order = 0;
    }
}

static void take_times(const s2_machine_run *run, const s2_schedule *sum, s2_sim *sim)
{
    const s2_sim *const slot = &sum->slowest.sim;
    const double m = run->n_micro;
    sim->time_us = slot->time_us * m;
    sim->plan_us = slot->plan_us * m;
    sim->bound_us = slot->bound_us * m;
    sim->dense_time_us = sum->dense_time_us * m;
    sim->dense_plan_us = sum->dense_plan_us * m;
    sim->bound_by = slot->bound_by;
    sim->predicted = slot->predicted && (run->options->phase != S2_DECODE || sim->host_bytes == 0);
    sim->kernel = slot->kernel;
    sim->scored = slot->scored;
    sim->experts = slot->experts;
    sim->clock_mhz = slot->clock_mhz;
    sim->imbalance = slot->imbalance;
    sim->dram_bytes = sum->dram_bytes * m;
    sim->l2_bytes = sum->l2_bytes * m;
    sim->measured = false;
    sim->error = (s2_error){.pct = S2_ERROR_UNKNOWN_PCT, .allowed = true};
    take_ranks(run, slot, sim);
    take_parts(run, sum, sim);
    if (slot->end_to_end_us <= 0)
        return;
    sim->end_to_end_us = step_us(run, sum->slowest.slot_us, sum->slots_us) + sum->once_us;
    sim->end_to_end_dense_us = step_us(run, sum->dense_slot_us, sum->dense_slots_us) + sum->once_us;
}

static void describe(const s2_machine_run *run, const s2_schedule *sum, s2_sim *sim)
{
    sim->machine.n_micro = run->n_micro;
    sim->machine.slowest = sum->nth;
    sim->machine.slot_us = sum->slowest.slot_us;
    sim->machine.boundary_us = boundary_us(run);
    sim->machine.ring_compute_us = sum->ring.compute_us;
    sim->machine.ring_bytes = sum->ring.sent_bytes * run->n_micro;
    if (run->options->n_context == 1)
        return;
    sim->machine.ring_link_us = sum->ring.link_us;
    if (run->options->net != NULL)
        sim->machine.ring_held_bytes = s2_activations_sent(run->options) * (double)run->micro_batch *
                                       (double)s2_ceil_div(run->options->len_tok, run->options->n_context);
    sim->machine.imbalance = sum->ring.mean_us > 0 ? sum->ring.compute_us / sum->ring.mean_us : 1;
}

s2_status s2_machine_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                           s2_price_whole_fn *whole, int64_t *work_left, s2_sim *sim, s2_diag *diag)
{
    s2_machine_run run = {.scratch = scratch,
                          .pattern = pattern,
                          .options = options,
                          .whole = whole,
                          .work_left = work_left,
                          .diag = diag,
                          .ring_layer = -1};
    s2_schedule sum = {0};
    s2_sim_options counting = *options;
    S2_TRY(s2_machine_check(pattern, options, diag));
    if (options->n_stages == 1 && options->n_context == 1)
        return price_part(&run, pattern, options, sim); /* only links and parts around attention are others */
    s2_sim_microbatches(options, &run.n_micro, &run.micro_batch);
    /* counts and caches of all GPUs together; every time comes from the stages */
    counting.calibration = NULL;
    counting.peer = NULL;
    S2_TRY(price_part(&run, pattern, &counting, sim));
    for (int32_t nth = 0; nth < options->n_stages; nth++) {
        s2_stage stage;
        s2_stage_price price;
        s2_ring ring;
        const s2_arena_mark_t mark = s2_arena_mark(scratch);
        s2_status status = stage_init(&run, nth, &stage);
        if (status == S2_OK)
            status = price_stage(&run, &stage, &ring, &price);
        if (status == S2_OK)
            status = fit_cache(&run, &stage, &price);
        s2_arena_rewind(scratch, mark);
        S2_TRY(status);
        add_stage(&sum, &price, &ring, nth);
        take_fullest(&price.sim, sim, nth == 0);
    }
    take_times(&run, &sum, sim);
    describe(&run, &sum, sim);
    return S2_OK;
}
