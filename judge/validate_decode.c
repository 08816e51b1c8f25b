/*
 * The decode phase: a step at the requested length on contiguous keys, judged as a forward; then a generation
 * through a cache that evicts: its sampled steps are compared with fp64 over all tokens ever generated, and
 * its bytes with an independent count after every token. At the end the generation is forked, the fork goes
 * its own way, and then the parent goes on: neither may harm the other.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/text.h"
#include "kernels/decode.h"
#include "kernels/float16.h"
#include "judge/generation.h"
#include "kernels/oracle.h"
#include "judge/harness.h"
#include "judge/workload.h"

enum {
    FORK_STEPS = 24, /* of the fork, and then of its parent */
    LEAST_CHECKS = 6,
    MOST_CHECKS = 160,
    HEADS_A_CHECK = 4
};

/* One step's problem: on the device, and for the oracle. */
typedef struct s2_step {
    s2_generation gen;
    s2_validation *out;
    const s2_kernel *kernel;
    s2_plan_seq *seqs; /* of the step */
    s2_arena arena;    /* of the step's plan */
    s2_plan plan;
    s2_cached cached;
    s2_attn_problem problem;
    s2_attn_problem host;
    float *host_sink; /* NULL without sinks */
    int32_t q_cap;    /* most query tokens of a sequence */
    size_t q_bytes, lse_bytes;
    uint8_t *host_q, *host_o;
    float *host_lse;
    s2_oracle_row oracle;
    s2_oracle_row plain;            /* of e4m3: the same row over keys and values that were not rounded */
    double lost_square, all_square; /* ... of all such rows: of the difference, and of the plain output */
    int32_t n_steps;
    int32_t n_checks;  /* of them, roughly */
    int64_t peak_used; /* device bytes */
    int64_t checked, compared_bytes;
    s2_diag why;
} s2_step;

/* ------------------------------------------------------------------ the shape of a generation */

/* The number of tokens that sequence `index` starts with; a batch that generates is made uneven. */
static int32_t prefill_of(const s2_validate_request *request, int32_t n_steps, int32_t index)
{
    const int32_t behind = n_steps > 0 ? index : 0;
    const int64_t left = request->seqs[index].k_tok - (int64_t)n_steps * request->seqs[index].q_tok - behind;
    return left > 0 ? (int32_t)left : 0;
}

static int32_t steps_of(const s2_validate_request *request)
{
    const int32_t most = request->seqs[0].k_tok / request->seqs[0].q_tok;
    return s2_min_i32(request->n_steps, most);
}

static int64_t end_of(const s2_validate_request *request, int32_t n_steps)
{
    int64_t most = 0;
    for (int32_t index = 0; index < request->n_seqs; index++) {
        const int64_t end = prefill_of(request, n_steps, index) +
                            ((int64_t)n_steps + FORK_STEPS) * request->seqs[index].q_tok;
        most = s2_max_i64(end, most);
    }
    return most;
}

/* The same generation without keys: how many pages the pool will need. */
static s2_status rehearse(const s2_validate_request *request, int32_t n_steps, int64_t *pool_pages,
                          s2_diag *why)
{
    const s2_cache_options options = s2_generation_cache_options(request);
    s2_cache *cache = NULL;
    int32_t *const seqs = s2_calloc((size_t)request->n_seqs, sizeof *seqs);
    s2_status status = seqs != NULL ? s2_cache_create(request->pattern, &options, &cache, why) : S2_ENOMEM;
    for (int32_t index = 0; index < request->n_seqs && status == S2_OK; index++) {
        const int32_t prefill = prefill_of(request, n_steps, index);
        status = s2_cache_open(cache, &seqs[index]);
        if (status == S2_OK && prefill > 0)
            status = s2_cache_append(cache, seqs[index], prefill);
    }
    for (int32_t step = 0; step < n_steps && status == S2_OK; step++)
        for (int32_t index = 0; index < request->n_seqs && status == S2_OK; index++)
            status = s2_cache_append(cache, seqs[index], request->seqs[index].q_tok);
    int32_t child = 0;
    if (status == S2_OK)
        status = s2_cache_fork(cache, seqs[0], &child);
    for (int32_t step = 0; step < 2 * FORK_STEPS && status == S2_OK; step++)
        status = s2_cache_append(cache, step < FORK_STEPS ? child : seqs[0], request->seqs[0].q_tok);
    if (status == S2_OK)
        *pool_pages = s2_cache_use(cache).pool_pages;
    s2_cache_destroy(&cache);
    s2_free(seqs);
    return status;
}

/* ------------------------------------------------------------------ life */

static s2_status lay_out_sinks(s2_step *step)
{
    const s2_validate_request *const request = step->gen.request;
    const int32_t n_heads = request->pattern->n_heads;
    const size_t n_bytes = (size_t)n_heads * sizeof(float);
    void *sink = NULL;
    step->host_sink = s2_malloc(n_bytes);
    if (step->host_sink == NULL)
        return S2_ENOMEM;
    s2_harness_sinks(request->seed, n_heads, step->host_sink);
    S2_TRY(step->gen.device->ops->alloc(step->gen.device, n_bytes, &sink));
    step->problem.sink = sink;
    step->host.sink = step->host_sink;
    return step->gen.device->ops->copy_in(step->gen.device, sink, step->host_sink, n_bytes);
}

static s2_status allocate(s2_step *step)
{
    const s2_validate_request *const request = step->gen.request;
    const s2_pattern *const pattern = request->pattern;
    s2_device *const device = step->gen.device;
    const size_t rows = (size_t)request->n_seqs * (size_t)step->q_cap * (size_t)pattern->n_heads;
    step->q_bytes = rows * (size_t)pattern->head_dim * (size_t)s2_dtype_bytes(request->dtype);
    step->lse_bytes = rows * sizeof(float);
    step->host_q = s2_calloc(1, step->q_bytes);
    step->host_o = s2_calloc(1, step->q_bytes);
    step->host_lse = s2_calloc(1, step->lse_bytes);
    step->seqs = s2_calloc((size_t)request->n_seqs, sizeof *step->seqs);
    if (step->host_q == NULL || step->host_o == NULL || step->host_lse == NULL || step->seqs == NULL)
        return S2_ENOMEM;
    void *lse = NULL;
    S2_TRY(device->ops->alloc(device, step->q_bytes, &step->problem.q.data));
    S2_TRY(device->ops->alloc(device, step->q_bytes, &step->problem.o.data));
    S2_TRY(device->ops->alloc(device, step->lse_bytes, &lse));
    step->problem.lse.data = lse;
    return request->sinks ? lay_out_sinks(step) : S2_OK;
}

static void fill_problem(s2_step *step)
{
    const s2_validate_request *const request = step->gen.request;
    const s2_pattern *const pattern = request->pattern;
    s2_attn_problem *const p = &step->problem;
    const int64_t d = pattern->head_dim, q_tok = pattern->n_heads * d;
    p->pass = S2_PASS_DECODE;
    p->dtype = request->dtype;
    p->e4m3 = request->e4m3;
    p->k_scale = step->gen.k_scale;
    p->v_scale = step->gen.v_scale;
    p->n_seqs = request->n_seqs;
    p->n_heads = pattern->n_heads;
    p->n_kv_heads = pattern->n_kv_heads;
    p->head_dim = pattern->head_dim;
    p->scale = request->scale != 0.0f ? request->scale : 1.0f / sqrtf((float)pattern->head_dim);
    p->cap = request->cap;
    p->sinks = request->sinks;
    p->q = p->o = (s2_tensor){NULL, step->q_cap * q_tok, q_tok, d};
    p->lse = (s2_rows){NULL, (int64_t)step->q_cap * pattern->n_heads, step->q_cap};
    p->k = p->v = (s2_tensor){NULL, 0, d, 0};
    step->host = *p;
    step->host.k_scale = step->gen.host_k_scale;
    step->host.v_scale = step->gen.host_v_scale;
    step->host.k = step->host.v =
        (s2_tensor){NULL, step->gen.cap_tok * step->gen.row_elems, step->gen.row_elems, d};
}

/* A row of the oracle costs about as much as 8 + D / 2 look-ups for each token. */
static int32_t checks_of(const s2_validate_request *request, int64_t n_tok)
{
    const int64_t n = request->budget_pairs /
                      ((8 + request->pattern->head_dim / 2) * HEADS_A_CHECK * n_tok * request->n_seqs);
    return (int32_t)s2_clamp_i64(n, LEAST_CHECKS, MOST_CHECKS);
}

static s2_status open_step(s2_step *step, s2_device *device, const s2_validate_request *request,
                           int32_t n_steps)
{
    int64_t pool_pages = 0;
    step->n_steps = n_steps;
    step->n_checks = checks_of(request, end_of(request, n_steps));
    for (int32_t index = 0; index < request->n_seqs; index++)
        step->q_cap = s2_max_i32(request->seqs[index].q_tok, step->q_cap);
    S2_TRY(rehearse(request, n_steps, &pool_pages, &step->why));
    S2_TRY(s2_generation_open(&step->gen, device, request, end_of(request, n_steps), pool_pages, &step->why));
    fill_problem(step);
    S2_TRY(allocate(step));
    step->problem.k.data = step->gen.pool_k;
    step->problem.v.data = step->gen.pool_v;
    step->host.q.data = step->host_q;
    step->host.k.data = step->gen.host_k;
    step->host.v.data = step->gen.host_v;
    step->cached = (s2_cached){step->gen.cache, step->gen.seqs};
    step->problem.cached = &step->cached;
    return S2_OK;
}

static void close_step(s2_step *step)
{
    s2_device *const device = step->gen.device;
    if (device != NULL) {
        device->ops->release(device, step->problem.q.data);
        device->ops->release(device, step->problem.o.data);
        device->ops->release(device, step->problem.lse.data);
        device->ops->release(device, (float *)(uintptr_t)step->problem.sink);
    }
    s2_free(step->host_sink);
    s2_free(step->host_q);
    s2_free(step->host_o);
    s2_free(step->host_lse);
    s2_free(step->seqs);
    s2_oracle_row_release(&step->oracle);
    s2_oracle_row_release(&step->plain);
    s2_arena_release(&step->arena);
    s2_generation_close(&step->gen);
}

/* ------------------------------------------------------------------ one step on the device */

/* Make the step's plan as this kernel wants it cut, and see whether it then takes the step. */
static s2_status plan_for(void *user, const s2_kernel *kernel, s2_diag *why)
{
    s2_step *const step = user;
    const s2_validate_request *const request = step->gen.request;
    if (!s2_kernel_takes_pass(step->gen.device, kernel, S2_PASS_DECODE))
        return S2_EUNSUPPORTED; /* without a reason: that of a decode kernel says more */
    step->problem.plan = NULL;
    S2_TRY(s2_kernel_supports(step->gen.device, kernel, &step->problem, why));
    const s2_plan_options options = s2_kernel_cut(kernel->traits, step->problem.head_dim);
    for (int32_t index = 0; index < request->n_seqs; index++)
        step->seqs[index] =
            (s2_plan_seq){request->seqs[index].q_tok, s2_cache_n_tok(step->gen.cache, step->gen.seqs[index])};
    S2_TRY(s2_plan_build(&step->arena, request->pattern, request->phase, request->layer, step->seqs,
                         request->n_seqs, &options, &step->plan, why));
    step->problem.plan = step->host.plan = &step->plan;
    return s2_kernel_supports(step->gen.device, kernel, &step->problem, why);
}

static s2_status plan_step(s2_step *step)
{
    const s2_kernel *const only = step->kernel != NULL ? step->kernel : step->gen.request->kernel;
    return s2_kernel_choose(step->gen.device, only, plan_for, step, &step->kernel, &step->why);
}

static s2_status draw_queries(s2_step *step, int64_t number)
{
    const s2_validate_request *const request = step->gen.request;
    const int64_t n = (int64_t)step->q_bytes / s2_dtype_bytes(request->dtype);
    const uint64_t seed = request->seed * 16 + 7 + (uint64_t)number * 1024;
    for (int64_t at = 0; at < n; at++)
        s2_float_store(step->host_q, request->dtype, at,
                       s2_input_value(seed, (uint64_t)at) * request->spread);
    s2_device *const device = step->gen.device;
    return device->ops->copy_in(device, step->problem.q.data, step->host_q, step->q_bytes);
}

static s2_status run_kernel(s2_step *step)
{
    s2_device *const device = step->gen.device;
    const s2_device_ops *const ops = device->ops;
    void *state = NULL;
    S2_TRY(ops->fill(device, step->problem.o.data, 0xff, step->q_bytes));
    S2_TRY(ops->fill(device, step->problem.lse.data, 0xff, step->lse_bytes));
    S2_TRY(step->kernel->prepare(device, &step->problem, &state, &step->why));
    if (ops->memory_used != NULL && ops->memory_used(device) > step->peak_used)
        step->peak_used = ops->memory_used(device);
    s2_status status = step->kernel->run(device, &step->problem, state, &step->why);
    if (status == S2_OK)
        status = ops->sync(device, &step->why);
    step->kernel->finish(device, state);
    S2_TRY(status);
    S2_TRY(ops->copy_out(device, step->host_o, step->problem.o.data, step->q_bytes));
    return ops->copy_out(device, step->host_lse, step->problem.lse.data, step->lse_bytes);
}

/* ------------------------------------------------------------------ judging it */

static s2_outcome blame(s2_step *step, int32_t seq, int32_t q_tok, int32_t head, const char *what, double err,
                        double tol)
{
    const s2_plan_seq lens = step->seqs[seq];
    snprintf(step->out->reason, sizeof step->out->reason,
             "generation, layer %d, head %d, sequence %d at %d tokens, query %d: %s is off by %s, allowed %s",
             step->gen.request->layer, head, seq, lens.k_tok, lens.k_tok - lens.q_tok + q_tok, what,
             s2_decimal(err, 3).text, s2_decimal(tol, 3).text);
    return isnan(err) ? S2_OUTCOME_NAN : S2_OUTCOME_WRONG_VALUES;
}

/* What eight bits cost a row, whoever computes it: the distance of two fp64 results. */
static s2_status weigh_loss(s2_step *step, int32_t seq, int32_t q_tok, int32_t head)
{
    s2_attn_problem plain = step->host;
    plain.e4m3 = false;
    plain.k.data = step->gen.plain_k;
    plain.v.data = step->gen.plain_v;
    S2_TRY(s2_oracle_eval(&plain, seq, q_tok, head, S2_TOL_EXACT, &step->plain));
    for (int32_t d = 0; d < plain.head_dim; d++) {
        step->lost_square += pow(step->oracle.o[d] - step->plain.o[d], 2.0);
        step->all_square += pow(step->plain.o[d], 2.0);
    }
    return S2_OK;
}

static s2_outcome judge_row(s2_step *step, int32_t seq, int32_t q_tok, int32_t head)
{
    const s2_attn_problem *const p = &step->host;
    const double lse = (double)step->host_lse[s2_rows_at(&p->lse, NULL, seq, q_tok, head)];
    const s2_row_error error =
        s2_oracle_compare(p, &step->oracle, step->host_o, s2_tensor_at(&p->o, NULL, seq, q_tok, head), lse);
    s2_validation *const out = step->out;
    out->rows++;
    if (!(error.err < out->max_err)) {
        out->max_err = error.err;
        out->tol = error.tol;
    }
    if (!(error.err <= error.tol))
        return blame(step, seq, q_tok, head, "the output", error.err, error.tol);
    if (!(error.lse_err <= error.lse_tol))
        return blame(step, seq, q_tok, head, "the log-sum-exp", error.lse_err, error.lse_tol);
    out->lse_err = fmax(out->lse_err, error.lse_err);
    return S2_OUTCOME_OK;
}

/* Some heads of every sequence, different ones at each check; the newest and one older query token. */
static s2_status judge_rows(s2_step *step, int64_t number)
{
    const s2_validate_request *const request = step->gen.request;
    const int32_t n_heads = request->pattern->n_heads;
    const int32_t n = s2_min_i32(n_heads, HEADS_A_CHECK);
    for (int32_t seq = 0; seq < request->n_seqs; seq++)
        for (int32_t nth = 0; nth < n && step->out->outcome == S2_OUTCOME_OK; nth++) {
            const int32_t head = (int32_t)((number * 5 + (int64_t)nth * n_heads / n + seq) % n_heads);
            const int32_t n_q = request->seqs[seq].q_tok;
            const int32_t q_tok = nth % 2 == 0 ? n_q - 1 : (int32_t)((number * 3 + nth) % n_q);
            S2_TRY(s2_oracle_eval(&step->host, seq, q_tok, head, step->kernel->tolerance, &step->oracle));
            step->out->outcome = judge_row(step, seq, q_tok, head);
            if (request->e4m3)
                S2_TRY(weigh_loss(step, seq, q_tok, head));
        }
    return S2_OK;
}

static s2_status launch_step(s2_step *step, int64_t number)
{
    S2_TRY(plan_step(step));
    S2_TRY(draw_queries(step, number));
    return run_kernel(step);
}

/* S2_EINTERNAL from a layout: the cache has dropped a key that the step reads, which convicts. */
static s2_status check_step(s2_step *step, int64_t number)
{
    const s2_arena_mark_t mark = s2_arena_mark(&step->arena);
    s2_status status = launch_step(step, number);
    if (status == S2_OK) {
        status = judge_rows(step, number);
    } else if (status == S2_EINTERNAL) {
        snprintf(step->out->reason, sizeof step->out->reason, "%.230s", step->why.msg);
        step->out->outcome = S2_OUTCOME_WRONG_PAIRS;
        status = S2_OK;
    }
    s2_arena_rewind(&step->arena, mark);
    step->checked++;
    return status;
}

/* Compare what the cache holds with what it should hold. */
static s2_outcome check_bytes(s2_step *step)
{
    const s2_validate_request *const request = step->gen.request;
    if (request->cache_bytes == NULL || step->q_cap > 1)
        return S2_OUTCOME_OK;
    int64_t expected = 0;
    for (int32_t index = 0; index < request->n_seqs; index++) {
        const int32_t n_tok = s2_cache_n_tok(step->gen.cache, step->gen.seqs[index]);
        expected += n_tok > 0 ? request->cache_bytes(request->user, n_tok) : 0;
    }
    const int64_t held = s2_cache_bytes(step->gen.cache, s2_kv_dtype(&step->problem));
    step->compared_bytes++;
    if (held == expected)
        return S2_OUTCOME_OK;
    snprintf(step->out->reason, sizeof step->out->reason,
             "generation, layer %d at %d tokens: the cache holds %lld bytes, predicted %lld", request->layer,
             s2_cache_n_tok(step->gen.cache, step->gen.seqs[0]), (long long)held, (long long)expected);
    return S2_OUTCOME_WRONG_VALUES;
}

/* ------------------------------------------------------------------ a life */

/* The first steps, the last ones, the edges of pages, and some drawn. */
static bool is_sampled(const s2_step *step, int32_t number)
{
    const s2_validate_request *const request = step->gen.request;
    const int32_t n_tok = s2_cache_n_tok(step->gen.cache, step->gen.seqs[0]);
    const int32_t page_tok = s2_cache_page_tok(step->gen.cache);
    const int32_t left = step->n_steps - 1 - number;
    const uint64_t one_in = (uint64_t)step->n_steps / (uint64_t)step->n_checks + 1;
    if (number < 2 || left < 2)
        return true;
    const bool edge = n_tok % page_tok <= 1;
    return s2_input_bits(request->seed, (uint64_t)number) % (edge ? 1 + one_in / 8 : 2 * one_in) == 0;
}

static s2_status one_step(s2_step *step, int32_t number)
{
    const s2_validate_request *const request = step->gen.request;
    for (int32_t index = 0; index < request->n_seqs; index++)
        S2_TRY(s2_generation_append(&step->gen, index, request->seqs[index].q_tok, &step->why));
    step->out->outcome = check_bytes(step);
    if (is_sampled(step, number))
        S2_STAGE(step->out, check_step(step, number));
    if (request->progress != NULL && number % 64 == 0)
        request->progress(request->user, "generation", number, step->n_steps);
    return S2_OK;
}

static s2_status prefill(s2_step *step)
{
    for (int32_t index = 0; index < step->gen.n_seqs; index++) {
        const int32_t n_tok = prefill_of(step->gen.request, step->n_steps, index);
        if (n_tok > 0)
            S2_TRY(s2_generation_append(&step->gen, index, n_tok, &step->why));
    }
    return S2_OK;
}

/* Only sequence 0 goes on for a while; the others wait. */
static s2_status go_on(s2_step *step, int64_t number)
{
    for (int32_t nth = 0; nth < FORK_STEPS && step->out->outcome == S2_OUTCOME_OK; nth++) {
        S2_TRY(s2_generation_append(&step->gen, 0, step->gen.request->seqs[0].q_tok, &step->why));
        if (nth == 0 || nth == FORK_STEPS - 1)
            S2_TRY(check_step(step, number + nth));
    }
    return S2_OK;
}

static s2_status fork_and_go_on(s2_step *step)
{
    int32_t parent;
    S2_TRY(s2_generation_fork(&step->gen, 0, &parent));
    const int32_t child = step->gen.seqs[0];
    step->gen.stream = 1;
    s2_status status = go_on(step, step->n_steps);
    step->gen.stream = 0;
    step->gen.seqs[0] = parent;
    if (status == S2_OK)
        status = go_on(step, (int64_t)step->n_steps + FORK_STEPS);
    s2_cache_close(step->gen.cache, child);
    return status;
}

static void add_figures(s2_step *step)
{
    const s2_validate_request *const request = step->gen.request;
    const s2_cache_usage use = s2_cache_use(step->gen.cache);
    const s2_dtype stored = s2_kv_dtype(&step->problem);
    const int64_t slot_bytes = 2 * (int64_t)request->pattern->head_dim * s2_dtype_bytes(stored);
    int64_t dense_slots = 0;
    for (int32_t index = 0; index < request->n_seqs; index++)
        dense_slots +=
            (int64_t)s2_cache_n_tok(step->gen.cache, step->gen.seqs[index]) * request->pattern->n_kv_heads;
    s2_validation_add_figure(step->out, "generated", (double)step->n_steps * step->q_cap);
    s2_validation_add_figure(step->out, "steps_checked", (double)step->checked);
    if (step->compared_bytes > 0)
        s2_validation_add_figure(step->out, "bytes_checked", (double)step->compared_bytes);
    s2_validation_add_figure(step->out, "cache_bytes", (double)s2_cache_bytes(step->gen.cache, stored));
    s2_validation_add_figure(step->out, "cache_peak_bytes",
                             (double)(use.peak_pages * use.page_slots * slot_bytes));
    s2_validation_add_figure(step->out, "dense_cache_bytes", (double)(dense_slots * slot_bytes));
    if (request->e4m3 && step->all_square > 0.0)
        s2_validation_add_figure(step->out, "e4m3_error", sqrt(step->lost_square / step->all_square));
    if (step->gen.idle_bytes >= 0)
        s2_validation_add_figure(step->out, "device_bytes", (double)(step->peak_used - step->gen.idle_bytes));
}

static s2_status live(s2_step *step)
{
    S2_TRY(prefill(step));
    for (int32_t number = 0; number < step->n_steps && step->out->outcome == S2_OUTCOME_OK; number++)
        S2_TRY(one_step(step, number));
    if (step->out->outcome == S2_OUTCOME_OK)
        add_figures(step);
    S2_STAGE(step->out, fork_and_go_on(step));
    return S2_OK;
}

/* A pattern that no cache can hold, or a kernel that reads no cache, has no generation to judge. */
static s2_status judge_generation(s2_device *device, const s2_validate_request *request, s2_validation *out,
                                  s2_diag *why)
{
    s2_step step = {.out = out};
    const int32_t n_steps = steps_of(request);
    if (n_steps < 1 || request->pass != S2_PASS_DECODE)
        return S2_OK;
    s2_status status = open_step(&step, device, request, n_steps);
    if (status == S2_OK)
        status = live(&step);
    if (status == S2_EUNSUPPORTED) {
        snprintf(out->left_out, sizeof out->left_out, "no generation through a cache: %.200s", step.why.msg);
        status = S2_OK;
    }
    if (why != NULL)
        *why = step.why;
    close_step(&step);
    return status;
}

/* A step on contiguous keys. */
static s2_status values_decode(s2_device *device, const s2_validate_request *request, s2_validation *out,
                               s2_diag *why)
{
    return s2_judge_forward.values(device, request, out, why);
}

static s2_status judge_decode(s2_device *device, const s2_validate_request *request, s2_validation *out,
                              s2_diag *why)
{
    S2_TRY(s2_judge_forward.judge(device, request, out, why));
    S2_STAGE(out, judge_generation(device, request, out, why));
    return S2_OK;
}

/* ------------------------------------------------------------------ one launch, for timing */

typedef struct s2_decode_workload {
    s2_step step;
    void *state;
} s2_decode_workload;

static s2_status launch(void *self, s2_diag *why)
{
    s2_decode_workload *const workload = self;
    return workload->step.kernel->run(workload->step.gen.device, &workload->step.problem, workload->state,
                                      why);
}

static void close_trial(void *self)
{
    s2_decode_workload *const workload = self;
    if (workload->state != NULL)
        workload->step.kernel->finish(workload->step.gen.device, workload->state);
    close_step(&workload->step);
    s2_free(workload);
}

/* Make the cache as it is at the requested length; one step runs through it repeatedly. */
static s2_status make_trial(s2_decode_workload *workload, s2_device *device,
                            const s2_validate_request *request)
{
    s2_step *const step = &workload->step;
    S2_TRY(open_step(step, device, request, 0));
    for (int32_t index = 0; index < request->n_seqs; index++)
        S2_TRY(s2_generation_append(&step->gen, index, request->seqs[index].k_tok, &step->why));
    S2_TRY(plan_step(step));
    S2_TRY(draw_queries(step, 0));
    return step->kernel->prepare(device, &step->problem, &workload->state, &step->why);
}

static s2_status count_bytes(s2_decode_workload *workload, double *out)
{
    const s2_attn_problem *const p = &workload->step.problem;
    s2_decode_plan decode;
    S2_TRY(s2_decode_plan_build(&workload->step.arena, p->plan, NULL, 1, &decode, NULL));
    *out = 2.0 * (double)decode.n_live_keys * p->head_dim * s2_dtype_bytes(s2_kv_dtype(p));
    return S2_OK;
}

static s2_status open_cached(s2_device *device, const s2_validate_request *request, s2_workload *out,
                             s2_diag *why)
{
    s2_decode_workload *const workload = s2_calloc(1, sizeof *workload);
    double bytes = 0.0;
    if (workload == NULL)
        return S2_ENOMEM;
    s2_status status = make_trial(workload, device, request);
    if (status == S2_OK)
        status = count_bytes(workload, &bytes);
    if (status != S2_OK) {
        *why = workload->step.why;
        close_trial(workload);
        return status;
    }
    const double pair_flop = 4.0 * request->pattern->head_dim;
    *out = (s2_workload){.self = workload,
                         .launch = launch,
                         .close = close_trial,
                         .kernel = workload->step.kernel->traits->name,
                         .flop_useful = pair_flop * (double)workload->step.plan.counts.pairs,
                         .flop_executed = pair_flop * (double)workload->step.plan.counts.pairs_executed,
                         .bytes_useful = bytes,
                         .plan = &workload->step.plan};
    return S2_OK;
}

static s2_status open_decode(s2_device *device, const s2_validate_request *request, s2_workload *out,
                             s2_diag *why)
{
    s2_diag refusal = {0};
    const s2_status status = open_cached(device, request, out, &refusal);
    if (status == S2_EUNSUPPORTED)
        return s2_judge_forward.open(device, request, out, why);
    if (why != NULL)
        *why = refusal;
    return status;
}

const s2_pass_judge s2_judge_decode = {.judge = judge_decode, .values = values_decode, .open = open_decode};
