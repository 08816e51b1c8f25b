#include "sim/price.h"

#include <string.h>

#include "base/arith.h"
#include "base/work.h"
#include "sim/capacity.h"
#include "sim/endtoend.h"
#include "sim/floor.h"
#include "sim/machine.h"
#include "sim/share.h"
#include "sim/states.h"
#include "sim/time.h"
#include "sim/training.h"
#include "plan/decode.h"

enum { CODE_SIM = 702 };

/* The times of somebody else's kernel are known for one GPU and for 16-bit numbers only. */
static s2_status check_peer(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    const s2_peer *const peer = options->peer;
    if (strcmp(peer->gpu, options->gpu.name) != 0)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                           "kernel model %s was fitted to times of %s; nothing is known of it on %s",
                           peer->name, peer->gpu, options->gpu.name);
    if (options->dtype == S2_F8 || options->dtype == S2_F32)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                           "kernel model %s was fitted to 16-bit numbers, not to %s", peer->name,
                           s2_dtype_word(options->dtype));
    if (s2_pattern_is_latent(pattern))
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                           "kernel model %s was fitted to heads of one width, not to latent attention",
                           peer->name);
    return s2_peer_takes(peer, pattern, s2_phase_rules(options->phase), options->phase == S2_TRAIN, diag);
}

/* Only some tokens are queries: a chunk of a prompt, what follows a prefix, or several tokens of a step. */
static s2_status check_new(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    const long long n_new = (long long)options->new_tok;
    if (n_new < 1 || n_new > options->len_tok)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0, "%lld new tokens of %lld", n_new,
                           (long long)options->len_tok);
    if (options->phase == S2_TRAIN)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0, "in training every token is new");
    if (options->phase == S2_DECODE && n_new > S2_DECODE_LIMIT_Q_TOK)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0,
                           "a step of decode takes at most %d new tokens of a sequence; more are a prefill",
                           S2_DECODE_LIMIT_Q_TOK);
    if (!pattern->causal && n_new > 1 && n_new < options->len_tok)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                           "in a pattern that is not causal earlier tokens read the new ones too, so none "
                           "can be left out");
    if (options->peer != NULL && n_new != (options->phase == S2_DECODE ? 1 : options->len_tok) &&
        !s2_peer_is_dense(pattern, s2_phase_rules(options->phase)))
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                           "kernel model %s knows new tokens behind a cache for dense patterns only",
                           options->peer->name);
    return S2_OK;
}

/* Blocks chosen at run time are priced as they were measured: in whole prefills, in 16 bits. */
s2_status s2_sim_check_listed(const s2_sim_options *options, s2_diag *diag)
{
    const char *why = NULL;
    if (options->phase != S2_PREFILL)
        why = "in prefill: no kernel takes such lists in decoding or training";
    else if (options->new_tok != 0)
        why = "of whole contexts: no chunk of a prompt was measured with them";
    else if (options->n_context > 1)
        why = "on GPUs that have whole contexts: no part of one was measured with them";
    else if (options->dtype == S2_F8)
        why = "in 16 bits: no kernel takes them in fp8";
    else if (options->peer != NULL)
        why = "of s2's own kernel, which takes such lists";
    else if (options->calibration == NULL)
        why = "with predictions: bounds do not tell how a launch is planned";
    return why == NULL ? S2_OK
                       : s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                                     "lists of blocks on the device are priced only %s", why);
}

/* Nothing is guessed of them. */
static s2_status check_listed_priced(const s2_sim_options *options, const s2_sim *sim, s2_diag *diag)
{
    if (sim->predicted && (sim->error.causes & (S2_CAUSE_KERNEL | S2_CAUSE_PLAN)) == 0)
        return S2_OK;
    if ((sim->error.causes & S2_CAUSE_PLAN) != 0)
        return s2_diag_set(
            diag, S2_ELIMIT, CODE_SIM, 0, 0,
            "making the plan of a launch from these lists takes more steps than a price may "
            "(2^28); a smaller batch, a shorter context, larger blocks or fewer distinct heads "
            "take less");
    return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                       "no kernel with constants for %s takes it in lists on the device: a pattern of whole "
                       "blocks says how many "
                       "a query block reads, as 'local 1 | random 7 seed 1' does; windows in tokens, topk, "
                       "pages and heavy do not",
                       options->gpu.title);
}

s2_status s2_sim_check_trained(const s2_sim_options *options, s2_diag *diag)
{
    if (s2_sim_cache_differs(options))
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0,
                           "training keeps no KV cache, whose type --kv-dtype %s says: its keys and values "
                           "are those of --dtype",
                           s2_cache_type_word(options->cache));
    if (options->weights < S2_WEIGHTS_INT8)
        return S2_OK;
    return s2_diag_set(
        diag, S2_EINVAL, CODE_SIM, 0, 0,
        "training keeps its weights in 16 bits, and not in %s; fp8 says that its products run in 8",
        s2_weights_word(options->weights));
}

void s2_sim_take_net(const s2_pattern *pattern, s2_net *own, s2_sim_options *options)
{
    if (options->net == NULL && pattern->model[0] != '\0' &&
        s2_net_find(pattern->model, own, NULL) == S2_OK && !s2_pattern_layers_differ(pattern) &&
        s2_net_check_shape(own, pattern, NULL) == S2_OK)
        options->net = own;
}

/* What a training step keeps is known of layers whose attention has the shape of the net, and keys of its own. */
static s2_status check_trained_layers(const s2_net *net, s2_diag *diag)
{
    bool alike = net->table == 0 && net->n_copies == 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        const s2_net_layer own = s2_net_layer_at(net, layer);
        alike = alike && !own.shares && own.heads == 0;
    }
    if (alike)
        return S2_OK;
    return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
                       "%s has layers that have heads or an embedding of their own, or share keys: what "
                       "training keeps of each "
                       "token there is not known; without --model its attention is priced",
                       net->name);
}

static s2_status check_options(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    const s2_net *const net = options->net;
    if (options->len_tok < 1 || options->len_tok > S2_LIMIT_CONTEXT_TOK || options->batch < 1 ||
        options->batch > S2_LIMIT_BATCH || options->page_tok < 1 || options->page_tok > 65536)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0, "length, batch or page is out of range");
    if (options->n_shards < 1 || options->n_shards > S2_LIMIT_BATCH)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0, "1 to %d GPUs can share the optimizer",
                           S2_LIMIT_BATCH);
    if (options->new_tok != 0)
        S2_TRY(check_new(pattern, options, diag));
    if (options->phase == S2_TRAIN)
        S2_TRY(s2_sim_check_trained(options, diag));
    if (net != NULL && options->phase == S2_TRAIN)
        S2_TRY(check_trained_layers(net, diag));
    if (net != NULL)
        S2_TRY(s2_net_check_mixers(net, options->n_ranks, diag));
    S2_TRY(s2_share_check(pattern, options->n_ranks, diag));
    return net != NULL ? s2_net_check_shape(net, pattern, diag) : S2_OK;
}

bool s2_sim_error_known(const s2_sim *sim)
{
    return sim->predicted && sim->error.pct < S2_ERROR_UNKNOWN_PCT;
}

static bool weights_fit(const s2_sim_options *options, const s2_sim *sim)
{
    return (double)sim->weight_bytes <= s2_sim_memory_bytes(options);
}

static bool step_fits(const s2_sim_options *options, const s2_sim *sim)
{
    return sim->training.bytes <= 0 || sim->fit_batch >= options->batch;
}

bool s2_sim_runs(const s2_sim_options *options, const s2_sim *sim, bool dense)
{
    if (options->phase == S2_TRAIN) /* what a step keeps is the same for every pattern */
        return step_fits(options, sim);
    return dense ? sim->host_dense_bytes == 0 : sim->host_bytes == 0 && sim->lack_bytes <= 0;
}

s2_no_ratio s2_sim_no_ratio(const s2_sim_options *options, const s2_sim *sim)
{
    if (options->phase == S2_TRAIN)
        return step_fits(options, sim) ? S2_RATIO_HOLDS : S2_NO_ROOM;
    if (s2_sim_runs(options, sim, false))
        return s2_sim_runs(options, sim, true) ? S2_RATIO_HOLDS : S2_DENSE_SPILLS;
    if (!weights_fit(options, sim))
        return S2_NO_WEIGHTS;
    return (double)sim->weight_bytes + s2_sim_activation_bytes(options) > s2_sim_memory_bytes(options)
               ? S2_NO_ROOM
               : S2_SPILLS;
}

const char *s2_no_ratio_word(s2_no_ratio why)
{
    static const char *const words[S2_N_NO_RATIOS] = {[S2_DENSE_SPILLS] = "dense_spills",
                                                      [S2_SPILLS] = "spills",
                                                      [S2_NO_ROOM] = "no_room",
                                                      [S2_NO_WEIGHTS] = "no_weights"};
    return words[why];
}

bool s2_sim_plan_is_coarser(const s2_sim *sim)
{
    return sim->predicted && sim->plan_us > sim->time_us * (1 + 1e-9);
}

const char *s2_sim_figure_word(const s2_sim *sim)
{
    return !sim->predicted ? "bound" : sim->measured ? "predicted" : "guessed";
}

const char *s2_no_ratio_label(s2_no_ratio why)
{
    return why == S2_NO_ROOM || why == S2_NO_WEIGHTS ? "no room"
           : why == S2_DENSE_SPILLS                  ? "no dense"
                                                     : "spills";
}

/* The physical floor: no output may claim less work or time than the pattern needs. */
static bool floors_hold(const s2_sim *sim)
{
    const double slack = 1 + 1e-9;
    return sim->bound_us <= sim->time_us * slack && sim->counts.flop_useful <= sim->counts.flop_executed &&
           sim->counts.exp_useful <= sim->counts.exp_executed && sim->kv.used <= sim->kv.head_pages &&
           sim->kv.head_pages <= sim->kv.shared_pages && sim->bound_us > 0 &&
           sim->bound_us <= sim->plan_us * slack;
}

/* The time and traffic of attention, states included. */
static s2_status price_attention(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                                 int64_t *work_left, s2_sim *sim)
{
    sim->tile = s2_tile_shape_default(pattern);
    S2_TRY(s2_time_attention(scratch, pattern, options, work_left, sim));
    s2_states_add(pattern, options, sim);
    return S2_OK;
}

static s2_status price_whole(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                             int64_t *work_left, s2_sim *sim, s2_diag *diag)
{
    S2_TRY(check_options(pattern, options, diag));
    S2_TRY(price_attention(scratch, pattern, options, work_left, sim));
    S2_TRY(s2_capacity_price(scratch, pattern, options, work_left, sim));
    s2_capacity_spill(options, sim);
    s2_end_to_end_add(options, sim);
    if (!floors_hold(sim))
        return s2_diag_set(diag, S2_EINTERNAL, CODE_SIM, 0, 0,
                           "a physical floor is broken: %s us below %s us", s2_decimal(sim->time_us, 9).text,
                           s2_decimal(sim->bound_us, 9).text);
    return S2_OK;
}

static s2_status price_bounds(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                              int64_t *work_left, s2_sim *sim)
{
    s2_sim_options own = *options;
    own.calibration = NULL;
    return price_attention(scratch, pattern, &own, work_left, sim);
}

/* Not a part of a machine, whose memory is that of all its parts. */
static s2_status price_one(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                           int64_t *work_left, s2_sim *sim, s2_diag *diag)
{
    S2_TRY(price_whole(scratch, pattern, options, work_left, sim, diag));
    s2_training_price(options, sim);
    return S2_OK;
}

static s2_status price_machine(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                               int64_t *work_left, s2_sim *sim, s2_diag *diag)
{
    S2_TRY(s2_machine_price(scratch, pattern, options, price_whole, work_left, sim, diag));
    if (!floors_hold(sim))
        return s2_diag_set(diag, S2_EINTERNAL, CODE_SIM, 0, 0, "a physical floor is broken on a machine");
    s2_training_price(options, sim);
    return S2_OK;
}

/*
 * The shortcuts price all heads on one GPU, and all tokens and layers. Where several GPUs share them, KV heads are
 * copied and the slowest GPU decides, so each fidelity takes its part from the whole price. No floor is known
 * then, so none rules anything out.
 */
static s2_status price_shared(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                              s2_fidelity fidelity, int64_t *work_left, s2_sim *sim, s2_diag *diag)
{
    if (fidelity == S2_PRICE_FLOOR || fidelity == S2_PRICE_RAISED)
        return S2_OK;
    S2_TRY(check_options(pattern, options, diag));
    if (fidelity == S2_PRICE_CACHE)
        return s2_capacity_price(scratch, pattern, options, work_left, sim);
    if (options->phase == S2_DECODE)
        return price_whole(scratch, pattern, options, work_left, sim, diag);
    return price_attention(scratch, pattern, options, work_left, sim);
}

static s2_status run(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                     s2_fidelity fidelity, int64_t *work_left, s2_sim *sim, s2_diag *diag)
{
    static const s2_price_part_fn parts[] = {
        [S2_PRICE_FLOOR] = s2_floor_price, [S2_PRICE_RAISED] = s2_floor_raise,
        [S2_PRICE_CACHE] = s2_cache_price, [S2_PRICE_PLAN] = s2_plan_price,
        [S2_PRICE_BOUNDS] = price_bounds,  [S2_PRICE_TIME] = s2_prediction_price,
    };
    const bool machine = s2_machine_asked(options);
    if (fidelity == S2_PRICE_WHOLE && machine)
        return price_machine(scratch, pattern, options, work_left, sim, diag);
    if (fidelity == S2_PRICE_WHOLE)
        return price_one(scratch, pattern, options, work_left, sim, diag);
    /* by whichever road: a plan takes no constants, and a time takes them only where it is a prediction */
    s2_sim_options own = *options;
    own.times_only = true;
    if (fidelity != S2_PRICE_TIME || !s2_sim_predicts(options, options->phase))
        own.calibration = NULL;
    const bool stages = options->n_stages > 1 && fidelity == S2_PRICE_CACHE; /* each has its own cache */
    if (machine && (fidelity >= S2_PRICE_PLAN || stages))
        return price_machine(scratch, pattern, &own, work_left, sim, diag);
    if ((machine || options->n_ranks > 1 || options->new_tok != 0) && fidelity != S2_PRICE_BOUNDS)
        return price_shared(scratch, pattern, &own, fidelity, work_left, sim, diag);
    const s2_status status = parts[fidelity](scratch, pattern, options, work_left, sim);
    if (status != S2_EUNSUPPORTED)
        return status;
    *sim = (s2_sim){0};
    return price_one(scratch, pattern, &own, work_left, sim, diag);
}

static double dense_flop(const s2_pattern *pattern, const s2_sim_options *options)
{
    double sum = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (!s2_pattern_is_state_layer(pattern, layer))
            sum += 4.0 * s2_pattern_head_dim(pattern, layer) * pattern->n_heads;
    const double pairs = (double)s2_dense_pairs(pattern->causal, s2_sim_first_tok(options), options->len_tok);
    return sum * pairs * (double)options->batch * (options->phase == S2_TRAIN ? 3.5 : 1);
}

/* Which of the limits of a price was met. */
static s2_status refuse_limit(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                              s2_diag *diag)
{
    s2_classes classes;
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    const s2_status built = s2_classes_build(scratch, pattern, s2_phase_rules(options->phase), &classes);
    s2_arena_rewind(scratch, mark);
    if (built == S2_ELIMIT)
        return s2_diag_set(diag, S2_ELIMIT, CODE_SIM, 0, 0,
                           "more than %d heads are distinct; a part of the layers has fewer",
                           S2_LIMIT_CLASSES);
    const double flop = dense_flop(pattern, options);
    if (flop >= 0x1p62)
        return s2_diag_set(
            diag, S2_ELIMIT, CODE_SIM, 0, 0,
            "dense attention of %s of %lld tokens takes %s * 10^18 FLOP, more in whole tiles, and "
            "totals may have 2^63 (9.22 * 10^18); a smaller batch or a shorter context has less",
            s2_count_text(options->batch, "sequence").text, (long long)options->len_tok,
            s2_decimal(flop / 1e18, 3).text);
    return s2_diag_set(
        diag, S2_ELIMIT, CODE_SIM, 0, 0,
        "a total of bytes or operations exceeds 2^63; a smaller batch or a shorter context has "
        "smaller totals");
}

s2_status s2_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                   s2_fidelity fidelity, s2_sim *out, s2_diag *diag)
{
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_sim sim = {0};
    int64_t own_work = S2_WORK_STEPS, *const work_left =
                                          options->work_left != NULL ? options->work_left : &own_work;
    const int64_t allowed = *work_left;
    const bool listed = options->listed && fidelity >= S2_PRICE_TIME;
    s2_status status = listed ? s2_sim_check_listed(options, diag) : S2_OK;
    if (status == S2_OK && options->peer != NULL)
        status = check_peer(pattern, options, diag);
    if (status == S2_OK)
        status = run(scratch, pattern, options, fidelity, work_left, &sim, diag);
    s2_arena_rewind(scratch, mark);
    if (!s2_work_goes_on(work_left))
        return s2_diag_set(diag, S2_ELIMIT, CODE_SIM, 0, 0,
                           "counting what it reads at %lld tokens takes more than %s" S2_WORK_WORDS
                           "; a shorter context, larger blocks or fewer terms take less",
                           (long long)options->len_tok, allowed < S2_WORK_STEPS ? "is left of " : "");
    if (status == S2_ELIMIT)
        return refuse_limit(scratch, pattern, options, diag);
    if (status == S2_OK && listed)
        status = check_listed_priced(options, &sim, diag);
    if (status == S2_OK)
        *out = sim;
    return status;
}

static double step_us(const s2_sim *sim, bool dense)
{
    if (sim->end_to_end_us > 0)
        return dense ? sim->end_to_end_dense_us : sim->end_to_end_us;
    return dense ? sim->dense_time_us : sim->time_us;
}

static s2_status price_at_most(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                               s2_sim *out, s2_diag *diag)
{
    s2_diag why = {0};
    const s2_status status = s2_price(scratch, pattern, options, S2_PRICE_WHOLE, out, &why);
    if (status == S2_OK)
        return S2_OK;
    return s2_diag_set(diag, status, CODE_SIM, 0, 0, "at the largest batch that fits: %s", why.msg);
}

s2_status s2_price_largest(s2_arena *scratch, const s2_pattern *pattern, s2_sim_options *options, s2_sim *out,
                           s2_diag *diag)
{
    s2_sim sim, dense;
    s2_sim_options own = *options;
    int64_t work_left = S2_WORK_STEPS;
    if (own.work_left == NULL)
        own.work_left = &work_left; /* of all three prices */
    own.batch = 1;
    S2_TRY(s2_price(scratch, pattern, &own, S2_PRICE_WHOLE, &sim, diag));
    if (options->phase == S2_TRAIN && options->net == NULL)
        return s2_diag_set(
            diag, S2_EINVAL, CODE_SIM, 0, 0,
            "the largest batch of a training step needs a model (--model): its weights, optimizer and "
            "activations decide");
    if (sim.training.at_least && sim.fit_batch > 0)
        return s2_diag_set(
            diag, S2_EUNSUPPORTED, CODE_SIM, 0, 0,
            "the largest batch of a training step of %s is not known, since what the scans of its "
            "mixers keep is not: no more than %lld fit",
            options->net->name, (long long)sim.fit_batch);
    if (sim.fit_batch == 0 && options->phase == S2_TRAIN)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0,
                           "a step of one sequence of %lld tokens takes %.1f GiB, and a GPU has %.1f GiB: a "
                           "shorter one, more "
                           "GPUs (--dp, --tp, --pp)%s may fit",
                           (long long)options->len_tok, sim.training.bytes / 0x1p30,
                           s2_sim_memory_bytes(&own) / 0x1p30, own.recompute ? "" : " or --recompute");
    if (sim.fit_batch == 0 && !weights_fit(&own, &sim))
        return s2_diag_set(
            diag, S2_EINVAL, CODE_SIM, 0, 0,
            "%.1f GiB of weights are more than the %.1f GiB of a GPU that they may take: more GPUs "
            "(--tp, --pp) or fewer bits (--weights) do",
            (double)sim.weight_bytes / 0x1p30, s2_sim_memory_bytes(&own) / 0x1p30);
    if (sim.fit_batch == 0)
        return s2_diag_set(
            diag, S2_EINVAL, CODE_SIM, 0, 0,
            "not one sequence of %lld tokens fits (%s): a shorter one, more GPUs or fewer bits do",
            (long long)options->len_tok, s2_phase_word(options->phase));
    if (options->phase == S2_TRAIN && options->n_stages > 1 && sim.fit_batch == S2_LIMIT_BATCH)
        return s2_diag_set(diag, S2_EINVAL, CODE_SIM, 0, 0,
                           "every batch fits these stages, which work on a microbatch at a time: say "
                           "which one (--batch N), or into how many it is cut (--micro M)");
    const int64_t batch = sim.fit_batch, batch_dense = sim.fit_batch_dense;
    own.batch = batch_dense > 0 ? batch_dense : 1;
    S2_TRY(price_at_most(scratch, pattern, &own, &dense, diag));
    own.batch = batch;
    S2_TRY(price_at_most(scratch, pattern, &own, &sim, diag));
    sim.largest = (s2_largest){batch, batch_dense, step_us(&sim, false), step_us(&dense, true)};
    options->batch = batch;
    *out = sim;
    return S2_OK;
}
