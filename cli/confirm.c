#include "cli/confirm.h"

#include <math.h>
#include <string.h>

#include "cli/validating.h"
#include "sim/report.h"

/* One design in one phase: what was foretold of all its layers, and what they took. */
typedef struct pair {
    int32_t design;
    s2_sim_phase phase;
    double predicted_us;
    double measured_us; /* NAN: some layer was not timed */
    int64_t n_layers;   /* that the timed ones stand for */
    const char *outcome;
} pair;

typedef struct confirmation {
    const s2_found *found;
    const s2_confirm_options *options;
    const char *device; /* as it calls itself */
    int32_t n;
    const int32_t *order; /* of the front's points */
    s2_input *inputs;
    pair *pairs; /* n for each phase */
    pair *now;   /* those of the phase being judged */
} confirmation;

/* Layers of a kind stand for all that read the same; a design's time is the sum over its kinds. */
static void take(void *user, const s2_subject *subject)
{
    confirmation *const c = user;
    const s2_validation *const v = subject->verdict;
    c->device = s2_arena_strndup(&c->found->cli->arena, subject->device->name, strlen(subject->device->name));
    for (int32_t n = 0; n < c->n; n++) {
        if (&c->inputs[n].pattern != subject->pattern)
            continue;
        pair *const p = &c->now[n];
        if (p->outcome == NULL || v->outcome != S2_OUTCOME_OK)
            p->outcome = s2_outcome_word(v->outcome);
        p->measured_us += v->warm.n > 0 ? v->warm.median_ms * 1e3 * subject->n_like : (double)NAN;
        p->n_layers += subject->n_like;
    }
}

/* A command line of `s2 validate`, for one of its phases. */
static int judge(confirmation *c, const char *phase)
{
    const s2_sim_options *const options = &c->found->search.options;
    char len[24], batch[24], runs[24], seed[24];
    snprintf(len, sizeof len, "%lld", (long long)options->len_tok);
    snprintf(batch, sizeof batch, "%lld", (long long)options->batch);
    snprintf(runs, sizeof runs, "%lld", (long long)c->options->n_runs);
    snprintf(seed, sizeof seed, "%lld", (long long)c->found->search.seed);
    const char *const words[] = {"validate", "front", "--device", c->options->device,
                                 "--phase",  phase,   "--len",    len,
                                 "--batch",  batch,   "--runs",   runs,
                                 "--seed",   seed,    "--dtype",  s2_dtype_word(options->dtype)};
    enum { WORDS = sizeof words / sizeof words[0] };
    char *argv[WORDS];
    memcpy(argv, words, sizeof words);
    return s2_validate_inputs(c->found->cli, WORDS, argv, c->inputs, c->n, take, c);
}

/* The simulator's train is forward and gradients; the kernels are two. */
static int judge_phase(confirmation *c, s2_sim_phase phase)
{
    const int code = phase == S2_SIM_TRAIN ? judge(c, "prefill") : S2_EXIT_OK;
    return s2_exit_combine(code, judge(c, s2_sim_phase_word(phase)));
}

static s2_status prepare(confirmation *c)
{
    const s2_found *const found = c->found;
    s2_arena *const arena = &found->cli->arena;
    const s2_front *const front = &found->state.front;
    int32_t *const order = S2_NEW(arena, int32_t, front->n);
    c->n = c->options->n < front->n ? (int32_t)c->options->n : front->n;
    c->inputs = S2_NEW(arena, s2_input, c->n);
    c->pairs = S2_NEW(arena, pair, (int64_t)c->n * found->n_phases);
    if (order == NULL || c->inputs == NULL || c->pairs == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_front_order(front, order));
    c->order = order;
    for (int32_t n = 0; n < c->n; n++) {
        const s2_point *const point = &front->points[order[n]];
        c->inputs[n] = (s2_input){.label = s2_found_name(found, point->index)};
        S2_TRY(s2_search_pattern(&found->search, point->index, arena, &c->inputs[n].pattern, NULL));
        for (int32_t p = 0; p < found->n_phases; p++) {
            pair *const one = &c->pairs[p * c->n + n];
            *one = (pair){.design = n, .phase = found->phases[p]};
            S2_TRY(s2_found_time(found, point, one->phase, &one->predicted_us));
        }
    }
    return S2_OK;
}

static bool is_whole(const pair *p)
{
    return p->outcome != NULL && isfinite(p->measured_us) && p->measured_us > 0;
}

/* Over the designs that were timed; *n says how many. */
static double tau_of(const confirmation *c, const pair *pairs, int32_t *n)
{
    double *const x = S2_NEW(&c->found->cli->arena, double, 2 * (int64_t)c->n);
    *n = 0;
    for (int32_t at = 0; x != NULL && at < c->n; at++)
        if (is_whole(&pairs[at])) {
            x[*n] = pairs[at].predicted_us;
            x[c->n + (*n)++] = pairs[at].measured_us;
        }
    return x != NULL ? s2_kendall_tau(x, x + c->n, *n) : (double)NAN;
}

static int64_t index_of(const confirmation *c, const pair *p)
{
    return c->found->state.front.points[c->order[p->design]].index;
}

static void put_time(double us, s2_buf *buf)
{
    s2_buf cell = {0};
    if (isfinite(us))
        s2_time_print(us, &cell);
    s2_buf_add(&cell, "", 1);
    s2_buf_printf(buf, " %12s", cell.data != NULL && cell.data[0] != '\0' ? cell.data : "-");
    s2_buf_release(&cell);
}

static void put_text(const confirmation *c, s2_buf *buf)
{
    s2_buf_printf(buf, "\nvalidated on %s: the %d best of the front\n%12s %-8s %12s %12s %9s  outcome\n",
                  c->device != NULL ? c->device : c->options->device, (int)c->n, "candidate", "phase",
                  "predicted", "measured", "ratio");
    for (int32_t p = 0; p < c->found->n_phases; p++) {
        const pair *const pairs = c->pairs + (int64_t)p * c->n;
        for (int32_t n = 0; n < c->n; n++) {
            s2_buf_printf(buf, "%12lld %-8s", (long long)index_of(c, &pairs[n]),
                          s2_sim_phase_word(pairs[n].phase));
            put_time(pairs[n].predicted_us, buf);
            put_time(is_whole(&pairs[n]) ? pairs[n].measured_us : (double)NAN, buf);
            if (is_whole(&pairs[n]))
                s2_buf_printf(buf, " %9.3f", pairs[n].measured_us / pairs[n].predicted_us);
            else
                s2_buf_printf(buf, " %9s", "-");
            s2_buf_printf(buf, "  %s\n", pairs[n].outcome != NULL ? pairs[n].outcome : "not run");
        }
        int32_t n_timed;
        const double tau = tau_of(c, pairs, &n_timed);
        s2_buf_printf(buf, "  %s: ", s2_sim_phase_word(pairs[0].phase));
        if (isnan(tau))
            s2_buf_printf(buf, "%d designs were timed: no order to compare\n", (int)n_timed);
        else
            s2_buf_printf(buf, "Kendall tau %.3f between predicted and measured order of %d designs\n", tau,
                          (int)n_timed);
    }
}

static void put_json_pairs(const confirmation *c, const pair *pairs, s2_buf *buf)
{
    s2_json_key(buf, "designs");
    s2_json_begin(buf, '[');
    for (int32_t n = 0; n < c->n; n++) {
        s2_json_begin(buf, '{');
        s2_json_key(buf, "candidate");
        s2_json_int(buf, index_of(c, &pairs[n]));
        s2_json_key(buf, "predicted_us");
        s2_json_num(buf, pairs[n].predicted_us);
        s2_json_key(buf, "measured_us");
        s2_json_num(buf, is_whole(&pairs[n]) ? pairs[n].measured_us : (double)NAN);
        s2_json_key(buf, "outcome");
        s2_json_str(buf, pairs[n].outcome);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
}

/* A line for each phase. */
static void put_json(const confirmation *c, s2_buf *buf)
{
    for (int32_t p = 0; p < c->found->n_phases; p++) {
        const pair *const pairs = c->pairs + (int64_t)p * c->n;
        int32_t n_timed;
        const double tau = tau_of(c, pairs, &n_timed);
        s2_json_begin(buf, '{');
        s2_json_key(buf, "schema");
        s2_json_str(buf, "s2confirm/1");
        s2_json_key(buf, "device");
        s2_json_str(buf, c->device);
        s2_json_key(buf, "phase");
        s2_json_str(buf, s2_sim_phase_word(pairs[0].phase));
        s2_json_key(buf, "timed");
        s2_json_int(buf, n_timed);
        s2_json_key(buf, "kendall_tau");
        s2_json_num(buf, tau);
        put_json_pairs(c, pairs, buf);
        s2_json_end(buf, '}');
        s2_buf_puts(buf, "\n");
    }
}

int s2_found_confirm(const s2_found *found, const s2_confirm_options *options)
{
    confirmation c = {.found = found, .options = options};
    if (found->state.front.n == 0 || options->n == 0)
        return S2_EXIT_OK;
    const s2_status status = prepare(&c);
    if (status != S2_OK)
        return s2_cli_fail(found->cli, status, "validate");
    int code = S2_EXIT_OK;
    for (int32_t p = 0; p < found->n_phases; p++) {
        c.now = c.pairs + (int64_t)p * c.n;
        code = s2_exit_combine(code, judge_phase(&c, found->phases[p]));
    }
    s2_buf buf = {0};
    if (found->json)
        put_json(&c, &buf);
    else
        put_text(&c, &buf);
    const int printed = s2_cli_print(found->cli, &buf);
    return s2_exit_combine(code, printed == S2_GO_ON ? S2_EXIT_OK : printed);
}
