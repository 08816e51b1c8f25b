#include "calibrate/fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "calibrate/solve.h"
#include "pattern/parse.h"
#include "plan/follow.h"
#include "sim/scores.h"

enum { CODE_FIT = 704, MOST_FREE = 48, MOST_ROUNDS = 60, MOST_ROWS = 4096 };
#define RESIDENTS 2.0 /* blocks of decoding on an SM */
#define LIKENESS  0.05
#define TIED      0.3
#define ALIKE     1.0
#define DRAW      0.3

s2_status s2_fit_load(s2_arena *arena, const s2_row *row, const s2_time_model *model, s2_kernel_load *out,
                      s2_diag *diag)
{
    const s2_run_point *const point = &row->point;
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    s2_plan_seq *const seqs = S2_NEW(arena, s2_plan_seq, point->batch);
    if (pattern == NULL || seqs == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_pattern_parse(arena, point->pattern, strlen(point->pattern), NULL, pattern, diag));
    for (int32_t seq = 0; seq < point->batch; seq++)
        seqs[seq] = (s2_plan_seq){point->q_tok, point->k_tok};
    const s2_plan_options options = {.tile_tok = row->tile_tok,
                                     .key_tok = row->key_tok,
                                     .pack_heads = row->pack_heads,
                                     .section_bytes = row->section_bytes,
                                     .elem_bytes = (int32_t)s2_dtype_bytes(point->dtype)};
    s2_plan plan;
    if (point->pass == S2_PASS_DECODE) {
        S2_TRY(
            s2_plan_build_classes(arena, pattern, S2_DECODE, 0, seqs, point->batch, &options, &plan, diag));
        return s2_load_of_step(arena, &plan, point->dtype, s2_model_chip(model), out);
    }
    const s2_kernel_traits *const traits = s2_kernel_traits_find(row->kernel);
    S2_TRY(s2_plan_build(arena, pattern, S2_PREFILL, 0, seqs, point->batch, &options, &plan, diag));
    S2_TRY(s2_load_of(arena, &plan, traits, point->pass, point->dtype, s2_model_running(model, traits, &plan),
                      out));
    if (point->sinks)
        s2_scores_add_sinks(traits, pattern->n_heads, (double)point->batch * point->q_tok, model->n_sms, out);
    return S2_OK;
}

const char *s2_fit_kernel(const s2_row *row, const s2_kernel_load *load)
{
    return load->wide && strcmp(row->kernel, s2_traits_decode.name) == 0 ? s2_traits_decode_wide.name
                                                                         : row->kernel;
}

/* ------------------------------------------------------------------ least squares */

typedef struct s2_fitter {
    s2_time_model *model;
    const s2_fit_point *points;
    int32_t n_points;
    int32_t kernel; /* whose rows count, or -1: all */
    double (*residual)(const struct s2_fitter *fitter, const s2_fit_point *point);
    int32_t n_free;
    double *free[MOST_FREE]; /* all positive: steps are in logarithms */
    double *like[MOST_FREE]; /* if not NULL: as far as the rows do not tell, `share` of this is assumed */
    double share[MOST_FREE];
    double trust[MOST_FREE]; /* how strongly */
    bool too_many;           /* more constants than MOST_FREE */
} s2_fitter;

static bool counts(const s2_fitter *fitter, const s2_fit_point *point)
{
    return point->kernel >= 0 && (fitter->kernel < 0 || point->kernel == fitter->kernel);
}

/* Rows far off pull less: the loss grows linearly beyond 10 %. */
static double soft(double r)
{
    const double knee = 0.1, x = fabs(r);
    return x <= knee ? r : copysign(sqrt(knee * (2 * x - knee)), r);
}

static double loss(const s2_fitter *fitter, double *residuals)
{
    double sum = 0;
    int32_t n = 0;
    for (int32_t p = 0; p < fitter->n_points; p++)
        if (counts(fitter, &fitter->points[p])) {
            const double r = soft(fitter->residual(fitter, &fitter->points[p]));
            if (residuals != NULL)
                residuals[n++] = r;
            sum += r * r;
        }
    for (int32_t v = 0; v < fitter->n_free; v++)
        if (fitter->like[v] != NULL) {
            const double r = fitter->trust[v] * log(*fitter->free[v] / (fitter->share[v] * *fitter->like[v]));
            if (residuals != NULL)
                residuals[n++] = r;
            sum += r * r;
        }
    return sum;
}

typedef struct s2_normal {
    double jacobian[MOST_FREE][MOST_ROWS + MOST_FREE];
    double residuals[MOST_ROWS + MOST_FREE];
    double moved[MOST_ROWS + MOST_FREE];
    double square[MOST_FREE * MOST_FREE];
    double damped[MOST_FREE * MOST_FREE];
    double gradient[MOST_FREE];
    double step[MOST_FREE];
    double before[MOST_FREE];
} s2_normal;

static int32_t count_rows(const s2_fitter *fitter)
{
    int32_t n = 0;
    for (int32_t at = 0; at < fitter->n_points; at++)
        n += counts(fitter, &fitter->points[at]);
    return n;
}

static void linearise(const s2_fitter *fitter, s2_normal *normal, int32_t n_rows)
{
    const double by = 1e-3;
    for (int32_t v = 0; v < fitter->n_free; v++) {
        const double before = *fitter->free[v];
        *fitter->free[v] = before * exp(by);
        (void)loss(fitter, normal->moved);
        *fitter->free[v] = before;
        for (int32_t row = 0; row < n_rows; row++)
            normal->jacobian[v][row] = (normal->moved[row] - normal->residuals[row]) / by;
    }
    for (int32_t v = 0; v < fitter->n_free; v++) {
        normal->gradient[v] = 0;
        for (int32_t row = 0; row < n_rows; row++)
            normal->gradient[v] -= normal->jacobian[v][row] * normal->residuals[row];
        for (int32_t w = 0; w < fitter->n_free; w++) {
            double sum = 0;
            for (int32_t row = 0; row < n_rows; row++)
                sum += normal->jacobian[v][row] * normal->jacobian[w][row];
            normal->square[v * fitter->n_free + w] = sum;
        }
    }
}

/* One damped step; true when it made the loss smaller. */
static bool try_step(const s2_fitter *fitter, s2_normal *normal, double damping, double *now)
{
    const int32_t n = fitter->n_free;
    memcpy(normal->damped, normal->square, sizeof normal->damped);
    memcpy(normal->step, normal->gradient, sizeof normal->step);
    for (int32_t v = 0; v < n; v++) {
        normal->damped[v * n + v] += damping * (normal->square[v * n + v] + 1e-6);
        normal->before[v] = *fitter->free[v];
    }
    if (!s2_solve(normal->damped, normal->step, n))
        return false;
    for (int32_t v = 0; v < n; v++)
        *fitter->free[v] *= exp(fmax(-1, fmin(1, normal->step[v])));
    const double then = loss(fitter, NULL);
    if (then < *now) {
        *now = then;
        return true;
    }
    for (int32_t v = 0; v < n; v++)
        *fitter->free[v] = normal->before[v];
    return false;
}

static void descend(const s2_fitter *fitter, s2_normal *normal, int32_t n_residuals, double *now)
{
    double damping = 1e-2;
    for (int32_t round = 0; round < MOST_ROUNDS; round++) {
        const double before = *now;
        (void)loss(fitter, normal->residuals);
        linearise(fitter, normal, n_residuals);
        while (damping < 1e6 && !try_step(fitter, normal, damping, now))
            damping *= 4;
        damping = fmax(damping / 8, 1e-6);
        if (before - *now <= 1e-6 * before)
            break;
    }
}

/* Each constant alone, a share more and less, as long as that makes the loss smaller. */
static void try_alone(const s2_fitter *fitter, double share, double *now)
{
    for (int32_t v = 0; v < fitter->n_free; v++)
        for (int32_t side = 0; side < 2; side++) {
            double before = *fitter->free[v], then = *now;
            do {
                *now = then;
                before = *fitter->free[v];
                *fitter->free[v] *= exp(side == 0 ? share : -share);
                then = loss(fitter, NULL);
            } while (then < *now * (1 - 1e-5));
            *fitter->free[v] = before;
        }
}

/* Where an order of work changes the loss jumps, and no derivative leads on: then constants are tried alone. */
static s2_status minimise(const s2_fitter *fitter, double *out, s2_diag *diag)
{
    const int32_t n_rows = count_rows(fitter);
    if (fitter->too_many)
        return s2_diag_set(diag, S2_ELIMIT, CODE_FIT, 0, 0, "more than %d constants at a time", MOST_FREE);
    if (n_rows < fitter->n_free || n_rows > MOST_ROWS)
        return s2_diag_set(diag, S2_EINVAL, CODE_FIT, 0, 0, "%d rows for %d constants", n_rows,
                           fitter->n_free);
    int32_t n_residuals = n_rows;
    for (int32_t v = 0; v < fitter->n_free; v++)
        n_residuals += fitter->like[v] != NULL;
    s2_normal *const normal = s2_malloc(sizeof *normal);
    if (normal == NULL)
        return S2_ENOMEM;
    double now = loss(fitter, NULL), before;
    do {
        before = now;
        descend(fitter, normal, n_residuals, &now);
        try_alone(fitter, 0.06, &now);
        try_alone(fitter, 0.02, &now);
    } while (now < 0.99 * before);
    s2_free(normal);
    *out = now;
    return S2_OK;
}

static void let_like(s2_fitter *fitter, double *value, double *like, double share, double trust)
{
    if (fitter->n_free == MOST_FREE) {
        fitter->too_many = true;
        return;
    }
    fitter->like[fitter->n_free] = like;
    fitter->share[fitter->n_free] = share;
    fitter->trust[fitter->n_free] = trust;
    fitter->free[fitter->n_free++] = value;
}

static void let(s2_fitter *fitter, double *value)
{
    let_like(fitter, value, NULL, 1, 0);
}

/* ------------------------------------------------------------------ stages */

static double cycle_residual(const s2_fitter *fitter, const s2_fit_point *point)
{
    s2_forecast forecast;
    s2_model_run(fitter->model, &fitter->model->kernels[point->kernel], &point->load, false, point->row->mhz,
                 &forecast);
    return log(forecast.us / point->row->us);
}

static double clock_residual(const s2_fitter *fitter, const s2_fit_point *point)
{
    const s2_kernel_model *const kernel = &fitter->model->kernels[point->kernel];
    const s2_bytes bytes = s2_model_bytes(fitter->model, kernel, &point->load, false);
    const double f =
        s2_model_clock(fitter->model, kernel, &point->load, &bytes, point->row->us, point->row->mhz);
    return log(f / point->row->mhz);
}

/* The fastest measured read of so many bytes; 0 where the file has none. */
static double read_best(const s2_row_file *file, double least, double most)
{
    double best = 0;
    for (int32_t at = 0; at < file->n_micros; at++) {
        const s2_micro_row *const row = &file->micros[at];
        if (strcmp(row->micro, "read") == 0 && row->size >= least && row->size <= most && row->value > best)
            best = row->value;
    }
    return best;
}

static void start(const s2_row_file *file, const s2_gpu *gpu, s2_time_model *model)
{
    const double l2 = read_best(file, 1, 8e7);
    *model = (s2_time_model){.l2_gb_s = l2 > 0 ? l2 : gpu->l2_tb_s * 1e3,
                             .cache_mb = gpu->l2_mib * 0.4,
                             .spill_mb = gpu->l2_mib * 0.8,
                             .whole_mb = gpu->l2_mib * 1.2,
                             .power = 5,
                             .max_mhz = gpu->boost_mhz,
                             .clock_base = 0.3,
                             .clock_q = 0.45,
                             .clock_fp16 = 1.1,
                             .clock_fp8 = 0.5,
                             .clock_l2 = 0.005,
                             .clock_hbm = 0.02,
                             .clock_limit = 0.7,
                             .n_sms = gpu->sms,
                             .capability = s2_gpu_capability(gpu),
                             .mma_flop = gpu->bf16_tflops * 1e6 / (gpu->sms * gpu->tensor_mhz)};
}

static s2_kernel_model *kernel_of(s2_time_model *model, const s2_fit_point *point)
{
    const char *const name = s2_fit_kernel(point->row, &point->load);
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (strcmp(model->kernels[k].name, name) == 0 && model->kernels[k].pass == point->row->point.pass)
            return &model->kernels[k];
    return NULL;
}

/* The first kernel that accepts a plan runs, so sort by rank, with the kernels of others last. */
static int by_rank(const void *left, const void *right)
{
    const s2_kernel_model *const a = left, *const b = right;
    const int32_t a_rank = a->traits != NULL ? a->traits->rank : -1;
    const int32_t b_rank = b->traits != NULL ? b->traits->rank : -1;
    if (a->pass != b->pass)
        return (a->pass > b->pass) - (a->pass < b->pass);
    return a_rank != b_rank ? (b_rank > a_rank) - (b_rank < a_rank) : strcmp(a->name, b->name);
}

static bool is_designed(const s2_row *row)
{
    return strcmp(row->set, "designed") == 0 && row->kernel[0] != '\0' && row->us > 0 && row->mhz > 0 &&
           !row->repeated;
}

static void find_kernels(const s2_row_file *file, const s2_fit_point *points, int32_t n_points,
                         const s2_gpu *gpu, s2_time_model *model)
{
    const double read = read_best(file, 2e8, 1e12);
    for (int32_t p = 0; p < n_points; p++) {
        const char *const name = s2_fit_kernel(points[p].row, &points[p].load);
        if (kernel_of(model, &points[p]) != NULL || model->n_kernels == S2_MODEL_KERNELS)
            continue;
        s2_kernel_model *const kernel = &model->kernels[model->n_kernels++];
        *kernel = (s2_kernel_model){.traits = s2_kernel_traits_find(name),
                                    .pass = points[p].row->point.pass,
                                    .whole_blocks = true,
                                    .residents = 1,
                                    .hbm_gb_s = read > 0 ? read : gpu->hbm_gb_s * gpu->hbm_fraction,
                                    .launch_us = 4,
                                    .miss_us = 1,
                                    .start = 2000,
                                    .sub = 10,
                                    .list = 10,
                                    .hit = 0.3,
                                    .warm_mb = gpu->l2_mib * 0.3,
                                    .lost_mb = gpu->l2_mib * 0.2,
                                    .gather = 1,
                                    .least_us = INFINITY};
        snprintf(kernel->name, sizeof kernel->name, "%s", name);
    }
    qsort(model->kernels, (size_t)model->n_kernels, sizeof *model->kernels, by_rank);
}

static void note_dim(s2_kernel_model *kernel, const s2_kernel_load *load, double mma_flop)
{
    const int32_t head_dim = s2_model_cost_dim(kernel->traits, load->head_dim);
    int32_t place = 0;
    while (place < kernel->n_dims && kernel->dims[place].head_dim < head_dim)
        place++;
    if (kernel->n_dims == S2_MODEL_DIMS ||
        (place < kernel->n_dims && kernel->dims[place].head_dim == head_dim))
        return;
    for (int32_t other = kernel->n_dims++; other > place; other--)
        kernel->dims[other] = kernel->dims[other - 1];
    /* a step computes; a slab comes from the cache, of which an SM gets some 43 bytes a cycle */
    const double ideal =
        4.0 * load->head_dim * load->rows * load->key_tok / mma_flop / (load->dtype == S2_F8 ? 2 : 1);
    const double step =
        load->pass == S2_PASS_DECODE ? 4.0 * load->head_dim * S2_DECODE_SLAB_TOK / 43 : 1.4 * ideal;
    kernel->dims[place] = (s2_dim_cost){head_dim, 3000, step, step, 6000 + 30 * head_dim};
}

static void note_cut(s2_kernel_model *kernel, const s2_row *row, const s2_kernel_load *load)
{
    const int32_t head_dim = s2_model_cost_dim(kernel->traits, load->head_dim);
    for (int32_t at = 0; at < kernel->n_cuts; at++)
        if (kernel->cuts[at].head_dim == head_dim && kernel->cuts[at].even_group == load->even_group)
            return;
    if (kernel->n_cuts < S2_MODEL_CUTS)
        kernel->cuts[kernel->n_cuts++] = (s2_cut){head_dim,     load->even_group, row->tile_tok,
                                                  row->key_tok, row->pack_heads,  row->section_bytes};
}

/* A kernel is assumed to accept what it was seen to accept: rows of a tile, patterns of whole blocks. */
static void note_limits(s2_kernel_model *kernel, const s2_row *row, const s2_kernel_load *load)
{
    if (kernel->n_points++ == 0)
        kernel->rows = load->rows;
    else if (kernel->rows != load->rows)
        kernel->rows = 0;
    kernel->whole_blocks = kernel->whole_blocks && load->whole_blocks;
    kernel->least_us = fmin(kernel->least_us, row->us);
    kernel->most_us = fmax(kernel->most_us, row->us);
}

/* What the rows of a kernel can show. */
typedef struct s2_seen {
    bool subs, lists, arithmetic, mixed, fine, columns, turns, parts, amid, trips, alone, fused, more, behind,
        idle, in_step, ragged;
} s2_seen;

static void see_classes(const s2_load_class *classes, int32_t n, s2_seen *seen)
{
    for (int32_t cls = 0; cls < n; cls++) {
        seen->fine = seen->fine || classes[cls].n_fine > 0;
        seen->mixed = seen->mixed || classes[cls].n_mixed > 0;
        seen->turns = seen->turns || classes[cls].n_turns > 0;
        seen->more = seen->more || classes[cls].n_more > 0;
    }
}

/* Whether most items have a few steps, and the next one begins under them: these show how long its chain is. */
static bool has_brief_items(const s2_kernel_load *load)
{
    int64_t n = 0;
    for (int32_t at = 0; load->halved && load->pass == S2_PASS_FORWARD && at < load->n_classes; at++) {
        const s2_load_class *const cls = &load->classes[at];
        const int32_t n_after = cls->n_full + cls->n_mixed;
        n += n_after > 0 && n_after + cls->n_masked <= 3 ? cls->n_items : 0;
    }
    return 2 * n > load->n_items;
}

static s2_seen see(const s2_fitter *fitter, int32_t index)
{
    s2_seen seen = {0};
    for (int32_t p = 0; p < fitter->n_points; p++) {
        const s2_kernel_load *const load = &fitter->points[p].load;
        if (fitter->points[p].kernel != index)
            continue;
        seen.subs = seen.subs || load->n_subs > 2;
        seen.lists = seen.lists || !load->arithmetic;
        seen.arithmetic = seen.arithmetic || load->arithmetic;
        seen.fused = seen.fused || load->fused;
        seen.columns = seen.columns || load->n_columns > 0;
        see_classes(load->classes, load->n_classes, &seen);
        seen.fine = seen.fine || (load->fused && load->n_columns > 0 && load->columns[0].n_fine > 0);
        seen.alone =
            seen.alone || (load->pass == S2_PASS_DECODE && load->n_items <= (int64_t)fitter->model->n_sms);
        seen.parts = seen.parts || load->n_chains > 0 || load->merges;
        seen.trips = seen.trips || load->long_trips > 0;
        seen.behind = seen.behind || has_brief_items(load);
        seen.amid = seen.amid || (load->pass == S2_PASS_DECODE && load->amid > 0);
        seen.ragged = seen.ragged || s2_kernel_load_is_ragged(load);
        seen.idle =
            seen.idle || (load->pass != S2_PASS_BACKWARD && load->n_items < (int64_t)fitter->model->n_sms);
        seen.in_step = seen.in_step || (load->pass == S2_PASS_FORWARD && load->in_step);
        for (int32_t column = 0; column < load->n_columns; column++)
            seen.mixed = seen.mixed || load->columns[column].n_half > 0;
        seen.mixed = seen.mixed || (load->pass == S2_PASS_DECODE && load->n_subs == 3);
    }
    /* a wide step has one size of tile, and a group of slabs with masks has `fine` */
    const bool wide = s2_model_is_wide(&fitter->model->kernels[index]);
    seen.subs = seen.subs && !wide;
    seen.amid = seen.amid && !wide;
    seen.lists = seen.lists && seen.arithmetic && !wide;
    return seen;
}

typedef struct s2_prior {
    bool seen;
    double *value;
    double like;
} s2_prior;

/* Assumed values of constants before any point is seen; the fitter points to them. */
typedef struct s2_beliefs {
    double scalar[24], hbm;
    double item[S2_MODEL_DIMS], floor[S2_MODEL_DIMS];
} s2_beliefs;

/* The kernel of decode steps that are not wide. */
static const s2_kernel_model *narrow_beside(const s2_time_model *model)
{
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (model->kernels[k].pass == S2_PASS_DECODE && !s2_model_is_wide(&model->kernels[k]))
            return &model->kernels[k];
    return NULL;
}

/* Wide steps read what others read, of which there are more points: their memory is that of the others. */
static bool takes_memory(const s2_time_model *model, s2_kernel_model *kernel)
{
    const s2_kernel_model *const narrow = s2_model_is_wide(kernel) ? narrow_beside(model) : NULL;
    if (narrow == NULL)
        return false;
    kernel->hbm_gb_s = narrow->hbm_gb_s;
    kernel->warm_mb = narrow->warm_mb;
    kernel->lost_mb = narrow->lost_mb;
    kernel->gather = narrow->gather;
    kernel->amid = narrow->amid;
    return true;
}

static bool is_of_panels(const s2_kernel_model *kernel)
{
    return kernel->traits != NULL && kernel->traits->eight_bits;
}

/* The kernel of 16 bits that works through planned lists in the same steps. */
static const s2_kernel_model *planned_beside(const s2_time_model *model, const s2_kernel_model *listed)
{
    for (int32_t k = 0; k < model->n_kernels; k++) {
        const s2_kernel_traits *const traits = model->kernels[k].traits;
        if (traits != NULL && model->kernels[k].pass == listed->pass && !traits->listed &&
            !traits->eight_bits && traits->halves_tok == listed->traits->halves_tok)
            return &model->kernels[k];
    }
    return NULL;
}

/* Free the constants of a kernel that the points can determine. */
static void free_scalars(s2_fitter *fitter, s2_kernel_model *kernel, bool floors, s2_beliefs *beliefs)
{
    const bool step = kernel->pass == S2_PASS_DECODE;
    static const double mixed_like[S2_N_PASSES] = {
        [S2_PASS_FORWARD] = 1.1, [S2_PASS_BACKWARD] = 0.7, [S2_PASS_DECODE] = 1.5};
    const bool wide = s2_model_is_wide(kernel);
    const s2_seen seen = see(fitter, fitter->kernel);
    const s2_prior priors[] = {
        {true, &kernel->launch_us, 4},
        {true, &kernel->miss_us, 1},
        {!seen.fused, &kernel->start, step ? 1000 : 2000},
        {floors, &kernel->hit, 0.3},
        {seen.subs, &kernel->sub, 10},
        {seen.lists, &kernel->list, 10},
        {seen.mixed, &kernel->mixed, mixed_like[kernel->pass]},
        {seen.alone, &kernel->alone, 1.5},
        {seen.fine, &kernel->fine, 200},
        {seen.columns || seen.turns, &kernel->column, step ? 2000 : 1000},
        {seen.parts, &kernel->part, 1000},
        {step ? seen.parts : seen.behind && seen.more, &kernel->more, step ? 1.4 : 500},
        {seen.trips, &kernel->trip, 300},
        {floors && seen.behind, &kernel->behind, 2000},
        {step && seen.parts, &kernel->adding, 0.35},
        {step && !wide && seen.trips, &kernel->join, 1000},
        {seen.alone, &kernel->crowd, 1.2},
        {(floors || step) && seen.idle, &kernel->early, step ? 0.3 : 1},
        {floors && seen.in_step, &kernel->in_step, 300},
        {floors && seen.subs, &kernel->first, 100},
        {seen.amid, &kernel->amid, 0.3},
        {step && !wide, &kernel->warp, 0.5}};
    for (size_t p = 0; p < sizeof priors / sizeof *priors; p++) {
        beliefs->scalar[p] = priors[p].like;
        *priors[p].value = priors[p].seen ? priors[p].like : 0;
        if (priors[p].seen)
            let_like(fitter, priors[p].value, &beliefs->scalar[p], 1, LIKENESS);
    }
    if (wide) /* four warps take 64 keys together */
        kernel->warp = 1;
    if (is_of_panels(kernel) && floors && !seen.more) { /* masks are read by the same code */
        const s2_kernel_model *const base = planned_beside(fitter->model, kernel);
        kernel->more = base != NULL ? base->more : 0;
    }
    beliefs->hbm = kernel->hbm_gb_s;
    if (!takes_memory(fitter->model, kernel))
        let_like(fitter, &kernel->hbm_gb_s, &beliefs->hbm, 1, LIKENESS);
}

/* Products in e4m3 are of panels of 128 columns at every head dimension, so what they cost is alike. */
static void free_panels(s2_fitter *fitter, s2_dim_cost *cost, s2_dim_cost *widest)
{
    double *const own[] = {&cost->item, &cost->step, &cost->masked, &cost->least};
    double *const like[] = {&widest->item, &widest->step, &widest->masked, &widest->least};
    *cost =
        (s2_dim_cost){cost->head_dim, 30 * widest->head_dim, widest->step, 0.8 * widest->step, widest->least};
    for (size_t n = 0; n < sizeof own / sizeof *own; n++)
        let_like(fitter, own[n], like[n], 1, ALIKE);
}

/* The costs of one head dimension. */
static void free_dim(s2_fitter *fitter, s2_kernel_model *kernel, s2_dim_cost *cost, bool floors, double *item,
                     double *floor)
{
    const bool step = kernel->pass == S2_PASS_DECODE, backward = kernel->pass == S2_PASS_BACKWARD;
    const bool halved = s2_kernel_halves(kernel->traits, kernel->cuts[0].key_tok);
    if (floors && is_of_panels(kernel) && cost != &kernel->dims[kernel->n_dims - 1]) {
        free_panels(fitter, cost, &kernel->dims[kernel->n_dims - 1]);
        return;
    }
    *item = cost->item = step ? 300 : 30 * cost->head_dim;
    *floor = cost->least;
    let_like(fitter, &cost->item, item, 1, LIKENESS);
    s2_dim_cost *const widest = &kernel->dims[kernel->n_dims - 1];
    if (step &&
        cost !=
            widest) /* few points show a slab at each dimension: half of its cost is taken as equal at all */
        let_like(fitter, &cost->step, &widest->step, (1 + (double)cost->head_dim / widest->head_dim) / 2,
                 ALIKE);
    else
        let(fitter, &cost->step);
    if (halved)
        cost->masked = 0.8 * cost->step;
    /* decode: the cost of a row of a list, which few points show: assume three quarters of a slab's, or that
       of 64 rows a group's of a wide step */
    const double row = s2_model_is_wide(kernel) ? 1.0 / 16 : 0.75;
    let_like(fitter, &cost->masked, &cost->step, halved ? 0.8 : step ? row : 1, step ? TIED : LIKENESS);
    if (backward && s2_model_is_apart(kernel)) {
        cost->least = 0;
    } else if (backward) {
        /* three products of 128 rows for dQ; four of 64 for dK and dV, 512 a step and byte of rows */
        cost->step *= 1.5;
        let_like(fitter, &cost->least, &cost->step, 0.9, TIED);
    } else if (floors) {
        let_like(fitter, &cost->least, floor, 1, LIKENESS);
    } else {
        cost->least = 0;
    }
}

/* A kernel of short windows: all of its items, or of its ranges' units, cost the same. */
static void free_short(s2_fitter *fitter, s2_kernel_model *kernel, s2_beliefs *beliefs)
{
    const bool backward = kernel->pass == S2_PASS_BACKWARD;
    s2_dim_cost *const cost = &kernel->dims[0];
    const s2_seen seen = see(fitter, fitter->kernel);
    const struct {
        bool seen;
        double *value;
        double like;
    } priors[] = {{true, &kernel->launch_us, 4},        {true, &kernel->miss_us, 1},
                  {true, &kernel->fine, 500},           {!backward, &kernel->start, 2000},
                  {true, &kernel->more, 500},           {!backward, &cost->item, 10000},
                  {backward, &kernel->column, 10000},   {backward, &cost->least, 4000},
                  {seen.ragged, &kernel->ragged, 0.05}, {true, &kernel->hbm_gb_s, kernel->hbm_gb_s}};
    *cost = (s2_dim_cost){.head_dim = cost->head_dim};
    kernel->start = kernel->sub = kernel->list = kernel->hit = kernel->part = kernel->ragged = 0;
    for (size_t p = 0; p < sizeof priors / sizeof *priors; p++) {
        beliefs->scalar[p] = *priors[p].value = priors[p].seen ? priors[p].like : *priors[p].value;
        if (priors[p].seen)
            let_like(fitter, priors[p].value, &beliefs->scalar[p], 1, LIKENESS);
    }
}

/*
 * How many items share an SM is found by trial, all else by descent; of decoding, which has several valleys, from a
 * launch of a host's time and one of the device's.
 */
static s2_status fit_residents(const s2_fitter *fitter, s2_kernel_model *kernel, s2_diag *diag)
{
    static const double residents[] = {2, 4}, launch_us[] = {4, 2};
    const bool step = kernel->pass == S2_PASS_DECODE, alone = kernel->rows >= 128 || step;
    const int32_t n = step                                 ? (int32_t)(sizeof launch_us / sizeof *launch_us)
                      : alone || s2_model_is_short(kernel) ? 1
                                                           : (int32_t)(sizeof residents / sizeof *residents);
    const s2_kernel_model begin = *kernel;
    s2_kernel_model best = begin;
    double least = INFINITY, value = 0;
    for (int32_t r = 0; r < n; r++) {
        *kernel = begin;
        kernel->residents = step ? RESIDENTS : n == 1 ? 1 : residents[r];
        kernel->launch_us = step ? launch_us[r] : kernel->launch_us;
        S2_TRY(minimise(fitter, &value, diag));
        if (value < least) {
            least = value;
            best = *kernel;
        }
    }
    *kernel = best;
    return S2_OK;
}

/*
 * What stays in the cache from one launch to the next, in shares of it: all or nothing of most launches, and where no
 * point lies between, a descent sees no slope. True when another value than before is best.
 */
static bool choose_warm(const s2_fitter *fitter, s2_kernel_model *kernel, double l2_mib)
{
    static const double lost[] = {0.1, 0.2, 0.4, 0.8}, gather[] = {1, 1.5, 2, 2.5, 3};
    enum { N_LOST = sizeof lost / sizeof *lost, N_GATHER = sizeof gather / sizeof *gather };
    const s2_kernel_model before = *kernel;
    s2_kernel_model best = before;
    double least = loss(fitter, NULL);
    for (int32_t step = 2; step <= 16; step++)
        for (int32_t choice = 0; choice < N_LOST * N_GATHER; choice++) {
            kernel->warm_mb = l2_mib * step / 20;
            kernel->lost_mb = l2_mib * lost[choice % N_LOST];
            kernel->gather = gather[choice / N_LOST];
            const double now = loss(fitter, NULL);
            if (now < least) {
                least = now;
                best = *kernel;
            }
        }
    *kernel = best;
    return best.warm_mb != before.warm_mb || best.lost_mb != before.lost_mb || best.gather != before.gather;
}

static s2_status fit_warm(const s2_fitter *fitter, s2_kernel_model *kernel, double l2_mib, s2_diag *diag)
{
    double value;
    for (int32_t round = 0; round < 4 && choose_warm(fitter, kernel, l2_mib); round++)
        S2_TRY(minimise(fitter, &value, diag));
    return S2_OK;
}

static double mean_error(const s2_fitter *fitter)
{
    double sum = 0;
    int32_t rows = 0;
    for (int32_t p = 0; p < fitter->n_points; p++)
        if (fitter->points[p].kernel == fitter->kernel) {
            sum += fabs(expm1(cycle_residual(fitter, &fitter->points[p])));
            rows++;
        }
    return 100 * sum / rows;
}

static const s2_kernel_model *find_alike(const s2_time_model *model, const s2_kernel_model *kernel)
{
    for (int32_t k = 0; model != NULL && k < model->n_kernels; k++)
        if (model->kernels[k].pass == kernel->pass && strcmp(model->kernels[k].name, kernel->name) == 0)
            return &model->kernels[k];
    return NULL;
}

/* Constants begin where the kernel stood, if it did and has the same head dimensions. */
static void begin_at(const s2_fitter *fitter, const s2_kernel_model *stood, s2_kernel_model *kernel)
{
    bool alike = stood != NULL && stood->n_dims == kernel->n_dims;
    for (int32_t d = 0; alike && d < kernel->n_dims; d++)
        alike = stood->dims[d].head_dim == kernel->dims[d].head_dim;
    for (int32_t v = 0; alike && v < fitter->n_free; v++) {
        const ptrdiff_t offset = (const char *)fitter->free[v] - (const char *)kernel;
        const double value = *(const double *)(const void *)((const char *)stood + offset);
        if (value > 0)
            *fitter->free[v] = value;
    }
    if (alike) {
        kernel->warm_mb = stood->warm_mb;
        kernel->lost_mb = stood->lost_mb;
        kernel->gather = stood->gather;
    }
}

static s2_status fit_kernel(s2_fitter *fitter, int32_t index, const s2_gpu *gpu, const s2_time_model *kept,
                            s2_diag *diag)
{
    s2_kernel_model *const kernel = &fitter->model->kernels[index];
    s2_beliefs beliefs;
    fitter->kernel = index;
    fitter->n_free = 0;
    fitter->residual = cycle_residual;
    /* the floor of an item needs points that show it */
    const bool floors = kernel->pass == S2_PASS_FORWARD && count_rows(fitter) > 5 * kernel->n_dims + 5;
    if (s2_model_is_short(kernel))
        free_short(fitter, kernel, &beliefs);
    else
        free_scalars(fitter, kernel, floors, &beliefs);
    for (int32_t d = 0; d < kernel->n_dims && !s2_model_is_short(kernel); d++)
        free_dim(fitter, kernel, &kernel->dims[d], floors, &beliefs.item[d], &beliefs.floor[d]);
    begin_at(fitter, find_alike(kept, kernel), kernel);
    S2_TRY(fit_residents(fitter, kernel, diag));
    if (!takes_memory(fitter->model, kernel))
        S2_TRY(fit_warm(fitter, kernel, gpu->l2_mib, diag));
    kernel->fit_pct = mean_error(fitter);
    return S2_OK;
}

/*
 * The law of the clock is that of kernels whose steps are long. Those of short windows, and those that add to dQ in
 * memory, do more beside their products; how much power that takes is theirs.
 */
static void free_draws(s2_fitter *fitter, double *belief)
{
    for (int32_t k = 0; k < fitter->model->n_kernels; k++) {
        s2_kernel_model *const kernel = &fitter->model->kernels[k];
        fitter->kernel = k;
        if (!s2_model_is_apart(kernel) || count_rows(fitter) == 0)
            continue;
        kernel->draw = *belief;
        let_like(fitter, &kernel->draw, belief, 1, LIKENESS);
    }
    fitter->kernel = -1;
}

static s2_status fit_clock(s2_fitter *fitter, s2_diag *diag)
{
    s2_time_model *const model = fitter->model;
    double value, beliefs[] = {model->clock_fp16, model->clock_fp8}, draw = DRAW;
    fitter->n_free = 0;
    fitter->residual = clock_residual;
    free_draws(fitter, &draw);
    let(fitter, &model->clock_base);
    let(fitter, &model->clock_limit);
    let(fitter, &model->clock_q);
    let_like(fitter, &model->clock_fp16, &beliefs[0], 1, LIKENESS);
    let_like(fitter, &model->clock_fp8, &beliefs[1], 1, LIKENESS);
    let(fitter, &model->clock_l2);
    let(fitter, &model->clock_hbm);
    return minimise(fitter, &value, diag);
}

/* Lists on the device: the kernel that plans beforehand works through them, after a launch that plans. */
static s2_status fit_listed(s2_fitter *fitter, int32_t index, s2_diag *diag)
{
    s2_kernel_model *const kernel = &fitter->model->kernels[index];
    const s2_kernel_model own = *kernel, *const base = planned_beside(fitter->model, kernel);
    double value, beliefs[] = {4, 10, 1};
    if (base == NULL)
        return s2_diag_set(diag, S2_EINVAL, CODE_FIT, 0, 0,
                           "%s without rows of a kernel that plans beforehand", own.name);
    *kernel = *base;
    memcpy(kernel->name, own.name, sizeof kernel->name);
    memcpy(kernel->cuts, own.cuts, sizeof kernel->cuts);
    kernel->traits = own.traits;
    kernel->n_cuts = own.n_cuts;
    kernel->n_points = own.n_points;
    kernel->least_us = own.least_us;
    kernel->most_us = own.most_us;
    kernel->launch_us += beliefs[0];
    kernel->part = beliefs[1];
    kernel->column = beliefs[2];
    beliefs[0] = kernel->launch_us;
    fitter->kernel = index;
    fitter->n_free = 0;
    fitter->residual = cycle_residual;
    let_like(fitter, &kernel->launch_us, &beliefs[0], 1, LIKENESS);
    let_like(fitter, &kernel->part, &beliefs[1], 1, LIKENESS);
    let_like(fitter, &kernel->column, &beliefs[2], 1, LIKENESS);
    S2_TRY(minimise(fitter, &value, diag));
    kernel->fit_pct = mean_error(fitter);
    return S2_OK;
}

/* Beside kernels that are kept: of the law of the clock, what none of these has. */
static s2_status fit_power(s2_fitter *fitter, s2_diag *diag)
{
    double value, beliefs[] = {fitter->model->clock_fp8, DRAW};
    fitter->residual = clock_residual;
    for (int32_t k = 0; k < fitter->model->n_kernels; k++) {
        s2_kernel_model *const kernel = &fitter->model->kernels[k];
        const bool eight_bits = is_of_panels(kernel);
        fitter->kernel = k;
        fitter->n_free = 0;
        if ((!eight_bits && !s2_model_is_apart(kernel)) || count_rows(fitter) == 0)
            continue;
        if (!eight_bits)
            kernel->draw = DRAW;
        let_like(fitter, eight_bits ? &fitter->model->clock_fp8 : &kernel->draw, &beliefs[!eight_bits], 1,
                 LIKENESS);
        S2_TRY(minimise(fitter, &value, diag));
    }
    return S2_OK;
}

/* The rows that are fitted, with what they demand of the chip of this model. */
static s2_status load_points(s2_arena *arena, const s2_row_file *file, const s2_time_model *model,
                             s2_fit_point *points, int32_t *n_out, s2_diag *diag)
{
    int32_t n = 0;
    for (int32_t row_no = 0; row_no < file->n_rows; row_no++)
        if (is_designed(&file->rows[row_no])) {
            points[n] = (s2_fit_point){.row = &file->rows[row_no], .kernel = -1};
            S2_TRY(s2_fit_load(arena, points[n].row, model, &points[n].load, diag));
            n++;
        }
    *n_out = n;
    return S2_OK;
}

static void note_points(s2_time_model *model, s2_fit_point *points, int32_t n_points)
{
    for (int32_t p = 0; p < n_points; p++) {
        s2_fit_point *const point = &points[p];
        s2_kernel_model *const kernel = kernel_of(model, point);
        if (kernel == NULL)
            continue;
        point->kernel = (int32_t)(kernel - model->kernels);
        note_dim(kernel, &point->load, model->mma_flop);
        note_cut(kernel, point->row, &point->load);
        note_limits(kernel, point->row, &point->load);
    }
}

/*
 * Whether tensor copies move whole steps or threads only what the lists name: whichever agrees with the
 * counters.
 */
static void fit_padding(const s2_fitter *fitter, int32_t index)
{
    double whole = 0, exact = 0;
    for (int32_t p = 0; p < fitter->n_points; p++) {
        const s2_fit_point *const point = &fitter->points[p];
        if (point->kernel != index || point->row->l2_bytes <= 0)
            continue;
        whole += fabs(log(point->load.whole_bytes / point->row->l2_bytes));
        exact += fabs(log(point->load.load_bytes / point->row->l2_bytes));
    }
    fitter->model->kernels[index].padded = whole < exact;
}

static double counted_loss(const s2_fitter *fitter)
{
    double sum = 0;
    for (int32_t p = 0; p < fitter->n_points; p++) {
        const s2_fit_point *const point = &fitter->points[p];
        if (point->row->dram_read <= 0)
            continue;
        const s2_bytes bytes =
            s2_model_counted(fitter->model, &fitter->model->kernels[point->kernel], &point->load);
        sum += fabs(
            log((bytes.dram_read + bytes.dram_write) / (point->row->dram_read + point->row->dram_write)));
    }
    return sum;
}

/* How much the cache keeps, as shares of it: three numbers on a grid, compared with counted bytes. */
static void fit_cache(const s2_fitter *fitter, const s2_gpu *gpu)
{
    s2_time_model *const model = fitter->model;
    s2_time_model best = *model;
    double least = INFINITY;
    for (int32_t cache = 4; cache <= 16; cache++)
        for (int32_t spill = cache + 2; spill <= 24; spill += 2)
            for (int32_t whole = 16; whole <= 28; whole += 2) {
                model->cache_mb = gpu->l2_mib * cache / 20;
                model->spill_mb = gpu->l2_mib * spill / 20;
                model->whole_mb = gpu->l2_mib * whole / 20;
                const double loss_now = counted_loss(fitter);
                if (loss_now < least) {
                    least = loss_now;
                    best = *model;
                }
            }
    *model = best;
}

static int by_number(const void *left, const void *right)
{
    const s2_row *const a = left, *const b = right;
    if (a->point.pass != b->point.pass)
        return (a->point.pass > b->point.pass) - (a->point.pass < b->point.pass);
    if (a->seed != b->seed)
        return (a->seed > b->seed) - (a->seed < b->seed);
    return a->nth != b->nth ? (a->nth > b->nth) - (a->nth < b->nth) : (a->us > b->us) - (a->us < b->us);
}

/* A descent ends elsewhere when its rows come in another order: what is fitted depends on the rows alone. */
static s2_status in_order(s2_arena *arena, const s2_row_file *file, s2_row_file *out)
{
    *out = *file;
    out->rows = S2_NEW(arena, s2_row, file->n_rows + 1);
    if (out->rows == NULL)
        return S2_ENOMEM;
    memcpy(out->rows, file->rows, (size_t)file->n_rows * sizeof *file->rows);
    qsort(out->rows, (size_t)file->n_rows, sizeof *out->rows, by_number);
    return S2_OK;
}

/* Leave of the kernels of `kept` those without rows of their own, and all that is no kernel's. */
static void keep(const s2_fit_point *points, int32_t n_points, s2_time_model *model)
{
    for (int32_t p = 0; p < n_points; p++) {
        s2_kernel_model *const own = kernel_of(model, &points[p]);
        if (own == NULL)
            continue;
        const size_t n_after = (size_t)(&model->kernels[model->n_kernels] - own - 1);
        memmove(own, own + 1, n_after * sizeof *own);
        model->n_kernels--;
    }
}

/* How a kernel moves bytes shows in counters, which rows that are fitted beside others need not have. */
static void keep_padding(const s2_time_model *kept, s2_time_model *model)
{
    for (int32_t k = 0; k < model->n_kernels; k++) {
        const s2_kernel_model *const stood = find_alike(kept, &model->kernels[k]);
        if (stood != NULL)
            model->kernels[k].padded = stood->padded;
    }
}

/* What no kernel has alone. */
static void fit_chip(s2_fitter *fitter, const s2_gpu *gpu)
{
    for (int32_t k = 0; k < fitter->model->n_kernels; k++)
        fit_padding(fitter, k);
    if (counted_loss(fitter) > 0)
        fit_cache(fitter, gpu);
}

static bool has_rows(s2_fitter *fitter, int32_t kernel)
{
    fitter->kernel = kernel;
    return count_rows(fitter) > 0;
}

/* Whether it takes constants of another kernel, which is fitted before it. */
static bool is_fitted_beside(const s2_kernel_model *kernel)
{
    return s2_model_plans_lists(kernel) || s2_model_is_wide(kernel);
}

static s2_status fit_kernels(s2_fitter *fitter, const s2_gpu *gpu, const s2_time_model *kept, s2_diag *diag)
{
    s2_time_model *const model = fitter->model;
    /* decode shows what stays in the cache between launches, so it comes first */
    for (int32_t k = model->n_kernels; k-- > 0;)
        if (has_rows(fitter, k) && !is_fitted_beside(&model->kernels[k]))
            S2_TRY(fit_kernel(fitter, k, gpu, kept, diag));
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (has_rows(fitter, k) && is_fitted_beside(&model->kernels[k]))
            S2_TRY(s2_model_is_wide(&model->kernels[k]) ? fit_kernel(fitter, k, gpu, kept, diag)
                                                        : fit_listed(fitter, k, diag));
    return S2_OK;
}

s2_status s2_fit_run(s2_arena *arena, const s2_row_file *rows, const s2_gpu *gpu, const s2_time_model *kept,
                     s2_time_model *out, s2_diag *diag)
{
    s2_time_model model;
    s2_row_file file;
    int32_t n_points;
    s2_fit_point *const points = S2_NEW(arena, s2_fit_point, rows->n_rows + 1);
    if (points == NULL)
        return S2_ENOMEM;
    S2_TRY(in_order(arena, rows, &file));
    if (kept != NULL)
        model = *kept;
    else
        start(&file, gpu, &model);
    S2_TRY(load_points(arena, &file, &model, points, &n_points, diag));
    keep(points, n_points, &model);
    find_kernels(&file, points, n_points, gpu, &model);
    note_points(&model, points, n_points);
    s2_fitter fitter = {.model = &model, .points = points, .n_points = n_points};
    if (kept == NULL)
        fit_chip(&fitter, gpu);
    else
        keep_padding(kept, &model);
    S2_TRY(fit_kernels(&fitter, gpu, kept, diag));
    S2_TRY(kept != NULL ? fit_power(&fitter, diag) : fit_clock(&fitter, diag));
    *out = model;
    return S2_OK;
}

static int32_t find_dim(const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    const int32_t head_dim = s2_model_cost_dim(kernel->traits, load->head_dim);
    int32_t d = 0;
    while (d < kernel->n_dims && kernel->dims[d].head_dim != head_dim)
        d++;
    return d;
}

static void forget_dim(s2_kernel_model *kernel, int32_t d)
{
    if (d < kernel->n_dims)
        kernel->n_dims--;
    for (; d < kernel->n_dims; d++)
        kernel->dims[d] = kernel->dims[d + 1];
}

/* Rows of a head dimension that was fitted before are no further points. */
static s2_status fit_dims(s2_fitter *fitter, int32_t index, s2_diag *diag)
{
    s2_kernel_model *const kernel = &fitter->model->kernels[index];
    const s2_kernel_model before = *kernel;
    double item[S2_MODEL_DIMS], floor[S2_MODEL_DIMS], loss_left;
    bool own[S2_MODEL_DIMS] = {false};
    for (int32_t p = 0; p < fitter->n_points; p++) {
        const s2_fit_point *const point = &fitter->points[p];
        if (point->kernel != index)
            continue;
        if (find_dim(&before, &point->load) == before.n_dims) {
            note_cut(kernel, point->row, &point->load);
            note_limits(kernel, point->row, &point->load);
        }
        forget_dim(kernel, find_dim(kernel, &point->load));
    }
    for (int32_t p = 0; p < fitter->n_points; p++)
        if (fitter->points[p].kernel == index)
            note_dim(kernel, &fitter->points[p].load, fitter->model->mma_flop);
    for (int32_t p = 0; p < fitter->n_points; p++)
        if (fitter->points[p].kernel == index)
            own[find_dim(kernel, &fitter->points[p].load)] = true;
    fitter->n_free = 0;
    fitter->residual = cycle_residual;
    for (int32_t d = 0; d < kernel->n_dims; d++)
        if (own[d])
            free_dim(fitter, kernel, &kernel->dims[d], kernel->pass == S2_PASS_FORWARD, &item[d], &floor[d]);
    return minimise(fitter, &loss_left, diag);
}

/* From what is kept, or where that is nothing, from some cycles: steps of the descent are in logarithms. */
static s2_status fit_constant(s2_fitter *fitter, int32_t index, const char *word, s2_diag *diag)
{
    s2_kernel_model *const kernel = &fitter->model->kernels[index];
    double *const value = s2_calibration_constant(kernel, word);
    double loss_left;
    if (value == NULL)
        return s2_diag_set(diag, S2_EINVAL, CODE_FIT, 0, 0, "no constant of a kernel is called %s", word);
    if (*value <= 0)
        *value = 100;
    fitter->n_free = 0;
    fitter->residual = cycle_residual;
    let(fitter, value);
    return minimise(fitter, &loss_left, diag);
}

/* What the head dimensions of the rows cost, with all else of their kernels kept. */
s2_status s2_fit_dims(s2_arena *arena, const s2_row_file *rows, const s2_time_model *kept, s2_time_model *out,
                      s2_diag *diag)
{
    s2_time_model model = *kept;
    s2_row_file file;
    int32_t n_points, n_fitted = 0;
    s2_fit_point *const points = S2_NEW(arena, s2_fit_point, rows->n_rows + 1);
    if (points == NULL)
        return S2_ENOMEM;
    S2_TRY(in_order(arena, rows, &file));
    S2_TRY(load_points(arena, &file, kept, points, &n_points, diag));
    for (int32_t p = 0; p < n_points; p++) {
        const s2_kernel_model *const kernel = kernel_of(&model, &points[p]);
        points[p].kernel = kernel == NULL ? -1 : (int32_t)(kernel - model.kernels);
    }
    s2_fitter fitter = {.model = &model, .points = points, .n_points = n_points};
    for (int32_t k = 0; k < model.n_kernels; k++)
        if (has_rows(&fitter, k)) {
            S2_TRY(fit_dims(&fitter, k, diag));
            n_fitted++;
        }
    if (n_fitted == 0)
        return s2_diag_set(diag, S2_EINVAL, CODE_FIT, 0, 0, "no row is of a kernel whose constants are kept");
    *out = model;
    return S2_OK;
}

s2_status s2_fit_constant(s2_arena *arena, const s2_row_file *rows, const s2_time_model *kept,
                          const char *word, s2_time_model *out, s2_diag *diag)
{
    s2_time_model model = *kept, noted = *kept;
    int32_t n_points, n_fitted = 0;
    s2_fit_point *const points = S2_NEW(arena, s2_fit_point, rows->n_rows + 1);
    if (points == NULL)
        return S2_ENOMEM;
    S2_TRY(load_points(arena, rows, kept, points, &n_points, diag));
    note_points(&noted, points, n_points);
    s2_fitter fitter = {.model = &model, .points = points, .n_points = n_points};
    for (int32_t k = 0; k < model.n_kernels; k++)
        if (has_rows(&fitter, k)) {
            S2_TRY(fit_constant(&fitter, k, word, diag));
            n_fitted++;
        }
    for (int32_t k = 0; k < model.n_kernels; k++) {
        s2_kernel_model *const listed = &model.kernels[k];
        const s2_kernel_model *const base =
            s2_model_plans_lists(listed) ? planned_beside(&model, listed) : NULL;
        if (base != NULL && !has_rows(&fitter, k) && has_rows(&fitter, (int32_t)(base - model.kernels)))
            *s2_calibration_constant(listed, word) =
                *s2_calibration_constant(&model.kernels[base - model.kernels], word);
    }
    if (n_fitted == 0)
        return s2_diag_set(diag, S2_EINVAL, CODE_FIT, 0, 0, "no row is of a kernel whose constants are kept");
    *out = model;
    return S2_OK;
}
