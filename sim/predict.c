#include "sim/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/follow.h"
#include "sim/scores.h"

/* Keys of the kernel's steps at this head dimension; 0 where not known. */
static int32_t key_tok_of(const s2_kernel_model *kernel, int32_t head_dim)
{
    return kernel->traits != NULL ? s2_kernel_cut(kernel->traits, head_dim).key_tok : 0;
}

/*
 * The cut of this head dimension, else of the nearest one with the kernel's steps at this dimension. The
 * parity of the group counts more than the dimension.
 */
static const s2_cut *cut_of(const s2_kernel_model *kernel, const s2_pattern *pattern)
{
    const bool even = pattern->n_heads / pattern->n_kv_heads % 2 == 0;
    const s2_cut *best = NULL;
    int32_t least = INT32_MAX;
    for (int32_t c = 0; c < kernel->n_cuts; c++) {
        const s2_cut *const cut = &kernel->cuts[c];
        const bool same_step = key_tok_of(kernel, cut->head_dim) == key_tok_of(kernel, pattern->head_dim);
        const int32_t far = abs(cut->head_dim - pattern->head_dim) + (same_step ? 0 : 10000) +
                            (cut->even_group != even ? 100000 : 0);
        if (far < least) {
            least = far;
            best = cut;
        }
    }
    return best;
}

/* Whether the launch is like those measured: in whole blocks if all of them were. */
static bool is_like_measured(const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    return !kernel->whole_blocks || load->whole_blocks;
}

static bool has_wide(const s2_time_model *model)
{
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (s2_model_is_wide(&model->kernels[k]))
            return true;
    return false;
}

/*
 * A kernel may have learnt finer masks since its calibration; only the shape of its tile is fixed. Where nothing was
 * fitted to wide decode steps they have the constants of the others, and no known error.
 */
static bool takes(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    const bool wide = load->wide && has_wide(model);
    return (kernel->rows == 0 || kernel->rows == load->rows) && s2_model_is_wide(kernel) == wide;
}

bool s2_predict_takes_dtype(const s2_kernel_model *kernel, s2_dtype dtype)
{
    return (dtype == S2_F8) == (kernel->traits != NULL && kernel->traits->eight_bits);
}

bool s2_predict_takes_dim(const s2_time_model *model, const s2_kernel_model *kernel, int32_t head_dim)
{
    return kernel->traits == NULL || s2_kernel_takes_dim(kernel->traits, model->capability, head_dim);
}

s2_plan_options s2_predict_cut(const s2_kernel_model *kernel, const s2_pattern *pattern)
{
    const s2_cut *const cut = cut_of(kernel, pattern);
    return (s2_plan_options){.tile_tok = cut->tile_tok,
                             .key_tok = cut->key_tok,
                             .pack_heads = cut->pack_heads,
                             .tile_rows =
                                 kernel->rows >= 128 && !s2_model_is_short(kernel) ? kernel->rows : 0,
                             .section_bytes = cut->section_bytes,
                             .elem_bytes = 2};
}

/* plan/launch.h and kernels/registry.c choose them where they take the launch: of short windows, and of all keys. */
static const char *faster_kernel(const s2_time_model *model, const s2_launch *launch, const s2_plan *plan)
{
    const bool backward = launch->pass == S2_PASS_BACKWARD;
    const int32_t group = launch->pattern->n_heads / launch->pattern->n_kv_heads;
    const bool is_short = s2_plan_reads_window(plan, S2_WINDOW_MOST_TOK) && group % S2_WINDOW_HEADS == 0;
    const s2_kernel_traits *const traits = !is_short  ? &s2_traits_sm90_bwd_ordered
                                           : backward ? &s2_traits_sm90_bwd_window
                                                      : &s2_traits_sm90_window;
    const bool takes = s2_kernel_runs_on(traits, model->capability) &&
                       s2_kernel_takes_dim(traits, model->capability, launch->pattern->head_dim) &&
                       (launch->dtype == S2_BF16 || launch->dtype == S2_F16) && launch->scores.cap == 0 &&
                       (is_short || (backward && s2_kernel_follows(plan))) &&
                       s2_kernel_takes_lengths(traits, plan) && (!backward || launch->q_tok == launch->k_tok);
    return takes ? traits->name : NULL;
}

static const s2_kernel_model *kernel_called(const s2_time_model *model, const char *name)
{
    for (int32_t k = 0; name != NULL && k < model->n_kernels; k++)
        if (strcmp(model->kernels[k].name, name) == 0)
            return &model->kernels[k];
    return NULL;
}

static s2_status plan_for(s2_arena *arena, const s2_kernel_model *kernel, const s2_launch *launch,
                          s2_plan *out)
{
    s2_plan_options options = s2_predict_cut(kernel, launch->pattern);
    options.elem_bytes = (int32_t)s2_dtype_bytes(launch->dtype);
    options.work_left = launch->work_left;
    s2_plan_seq *const seqs = S2_NEW(arena, s2_plan_seq, launch->batch);
    if (seqs == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < launch->batch; seq++)
        seqs[seq] = (s2_plan_seq){launch->q_tok, launch->k_tok};
    return (launch->pass == S2_PASS_DECODE ? s2_plan_build_classes : s2_plan_build)(
        arena, launch->pattern, launch->phase, launch->layer, seqs, launch->batch, &options, out, NULL);
}

/* *kernel becomes the one that runs the launch faster, where it has constants; *runs_on, where it has none. */
static s2_status load_for(s2_arena *arena, const s2_time_model *model, const s2_kernel_model **kernel,
                          const s2_launch *launch, s2_kernel_load *out, const char **runs_on)
{
    s2_plan plan;
    if (launch->lists != NULL)
        return s2_load_of_lists(arena, launch->pattern, launch->lists, launch->batch, launch->dtype,
                                s2_model_chip(model), out);
    S2_TRY(plan_for(arena, *kernel, launch, &plan));
    if (launch->pass == S2_PASS_DECODE)
        return s2_load_of_step(arena, &plan, launch->dtype, s2_model_chip(model), out);
    *runs_on = s2_model_is_apart(*kernel) ? NULL : faster_kernel(model, launch, &plan);
    const s2_kernel_model *const faster = kernel_called(model, *runs_on);
    if (faster != NULL) {
        *kernel = faster;
        *runs_on = NULL;
        S2_TRY(plan_for(arena, faster, launch, &plan));
    }
    return s2_load_of(arena, &plan, (*kernel)->traits, launch->pass, launch->dtype,
                      s2_model_running(model, (*kernel)->traits, &plan), out);
}

/*
 * An extent this little outside of the points judged counts as inside: points are drawn at random and seldom
 * end on a power of two. A head dimension was measured or was not.
 */
#define HARDLY_OUTSIDE 1.05

enum { NARROW_ROWS = 16 };

/* How often it must be halved or doubled to be inside; 0: it is. */
static double how_far(s2_span_of_points span, double asked, s2_extent extent)
{
    const double margin = extent == S2_EXTENT_DIM ? 1 : HARDLY_OUTSIDE;
    if (span.least <= 0 || (asked * margin >= span.least && asked <= span.greatest * margin))
        return 0;
    return log2(asked < span.least ? span.least / asked : asked / span.greatest);
}

static void note_beyond(s2_extent extent, double asked, s2_span_of_points span, double beyond,
                        s2_launch_price *out)
{
    if (beyond > 0)
        out->error.causes |= 1U << extent;
    if (beyond > out->far.beyond)
        out->far = (s2_far){beyond, extent, asked, span};
}

/* Costs at a head dimension between those measured are interpolated, which no point judges. */
static bool find_other_dim(const s2_kernel_model *kernel, int32_t head_dim, s2_launch_price *out)
{
    s2_span_of_points nearest = {0};
    for (int32_t d = 0; d < kernel->n_dims; d++) {
        const double own = kernel->dims[d].head_dim;
        if (own == s2_model_cost_dim(kernel->traits, head_dim))
            return false;
        if (own < head_dim)
            nearest.least = own;
        else if (nearest.greatest == 0)
            nearest.greatest = own;
    }
    if (nearest.least == 0 || nearest.greatest == 0)
        return kernel->n_dims > 0; /* outside of all of them: find_beyond() says how far */
    note_beyond(S2_EXTENT_DIM, head_dim, nearest,
                fmin(log2(head_dim / nearest.least), log2(nearest.greatest / head_dim)), out);
    return true;
}

/* The extent in which the launch is farthest from the points that judged the kernel. */
static void find_beyond(const s2_kernel_model *kernel, const s2_kernel_load *load, s2_launch_price *out)
{
    const bool whole = load->q_tok == 0 || load->q_tok == load->k_tok; /* then tokens say it */
    for (int32_t e = 0; e < (whole ? S2_EXTENT_NEW : S2_N_EXTENTS); e++) {
        const double asked = s2_extent_of(load, (s2_extent)e);
        note_beyond((s2_extent)e, asked, kernel->spans[e], how_far(kernel->spans[e], asked, (s2_extent)e),
                    out);
    }
}

/* Whether points judged the kernel for so many rows a list, which no other kernel's points do. */
static bool is_judged(const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    return !load->wide || kernel->spans[S2_EXTENT_ROWS].greatest > NARROW_ROWS;
}

void s2_predict_error(const s2_kernel_model *kernel, const s2_kernel_load *load, s2_launch_price *out)
{
    s2_error error = {.pct = kernel->error_pct,
                      .p90_pct = kernel->p90_pct,
                      .most_pct = kernel->most_pct,
                      .n_judged = kernel->n_judged};
    if (kernel->n_judged == 0) {
        error = (s2_error){
            .pct = fmax(kernel->error_pct, S2_GUESS_PCT), .allowed = true, .causes = S2_CAUSE_POINTS};
    } else if (!is_like_measured(kernel, load)) {
        error.pct = kernel->p90_pct;
        error.allowed = true;
        error.causes = S2_CAUSE_BLOCKS;
    }
    out->error = error;
    find_beyond(kernel, load, out);
    if (!is_judged(kernel, load))
        error.pct = S2_ERROR_UNKNOWN_PCT;
    if (find_other_dim(kernel, load->head_dim, out))
        error.pct = fmax(error.pct, S2_GUESS_PCT);
    if (out->far.beyond > 0) {
        error.pct = fmax(kernel->p90_pct, error.pct * exp2(out->far.beyond));
        error.allowed = true;
    }
    error.pct = fmin(error.pct, S2_ERROR_UNKNOWN_PCT);
    error.causes |= out->error.causes;
    out->error = error;
}

/* Tiles of 64 queries, and slabs of 16 keys, of one sequence. */
static double pieces_of(const s2_launch *launch)
{
    return launch->pass == S2_PASS_DECODE ? launch->pattern->n_kv_heads * (launch->k_tok / 16 + 1.0)
                                          : launch->pattern->n_heads * (launch->k_tok / 64 + 1.0);
}

/* Sequences that fill every SM thousands of times over: each further one takes as long as the one before. */
static int32_t planned_batch(const s2_launch *launch)
{
    if (launch->lists != NULL)
        return launch->batch;
    const double many = launch->pass == S2_PASS_DECODE ? 1 << 21 : 1 << 18;
    return (int32_t)fmin(launch->batch, fmax(2, floor(many / pieces_of(launch))));
}

bool s2_predict_can_plan(const s2_launch *launch)
{
    return pieces_of(launch) * planned_batch(launch) <= (launch->pass == S2_PASS_DECODE ? 1 << 25 : 1 << 24);
}

/* Extrapolate *b: it grew from a to b, and grows by as much `more` times again. */
static void grow(const s2_forecast *a, double more, s2_forecast *b)
{
    const double *const from[] = {
        &a->us,        &a->cycles,       &a->compute_us,      &a->hbm_us,           &a->l2_us,
        &a->before_us, &a->before_bytes, &a->bytes.dram_read, &a->bytes.dram_write, &a->bytes.l2};
    double *const to[] = {
        &b->us,        &b->cycles,       &b->compute_us,      &b->hbm_us,           &b->l2_us,
        &b->before_us, &b->before_bytes, &b->bytes.dram_read, &b->bytes.dram_write, &b->bytes.l2};
    for (size_t at = 0; at < sizeof to / sizeof *to; at++)
        *to[at] += more * (*to[at] - *from[at]);
}

/* On this kernel, or on one apart that is faster. S2_EINVAL: it does not take the launch. */
static s2_status predict_on(s2_arena *arena, const s2_time_model *model, const s2_kernel_model *kernel,
                            const s2_launch *launch, s2_launch_price *out)
{
    s2_launch part = *launch;
    s2_kernel_load load;
    s2_forecast half;
    part.batch = planned_batch(launch);
    S2_TRY(load_for(arena, model, &kernel, &part, &load, &out->runs_on));
    if (!takes(model, kernel, &load) || (launch->listed && !load.whole_blocks))
        return S2_EINVAL;
    load.n_lists = load.n_lists / part.batch * launch->batch;
    out->kernel = kernel;
    s2_predict_error(kernel, &load, out);
    s2_scores_add(&part, kernel, model, &load, out);
    s2_model_run(model, kernel, &load, true, 0, &out->forecast);
    if (part.batch == launch->batch)
        return S2_OK;
    const int32_t n = part.batch;
    part.batch = n / 2;
    S2_TRY(load_for(arena, model, &kernel, &part, &load, &out->runs_on));
    s2_launch_price unused = {0};
    s2_scores_add(&part, kernel, model, &load, &unused);
    s2_model_run(model, kernel, &load, true, 0, &half);
    grow(&half, (double)(launch->batch - n) / (n - part.batch), &out->forecast);
    return S2_OK;
}

static s2_status predict(s2_arena *arena, const s2_time_model *model, const s2_launch *launch,
                         s2_launch_price *out)
{
    for (int32_t k = 0; k < model->n_kernels; k++) {
        const s2_kernel_model *const kernel = &model->kernels[k];
        if (kernel->pass != launch->pass || s2_model_plans_lists(kernel) != launch->listed ||
            s2_model_is_apart(kernel) || !s2_predict_takes_dtype(kernel, launch->dtype) ||
            !s2_scores_known(launch->scores, kernel) ||
            !s2_predict_takes_dim(model, kernel, s2_pattern_head_dim(launch->pattern, launch->layer)))
            continue;
        const s2_status status = predict_on(arena, model, kernel, launch, out);
        if (status != S2_EINVAL)
            return status;
    }
    return S2_EUNSUPPORTED;
}

s2_status s2_predict_launch(s2_arena *scratch, const s2_time_model *model, const s2_launch *launch,
                            s2_launch_price *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_launch_price made = {0};
    const s2_status status = predict(scratch, model, launch, &made);
    s2_arena_rewind(scratch, mark);
    if (status == S2_OK)
        *out = made;
    return status;
}
