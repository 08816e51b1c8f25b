#include "kernels/validate.h"

#include <math.h>
#include <stdio.h>

#include "kernels/trial.h"
#include "pattern/parse.h"

/* A phase is one file kernels/validate_<phase>.c and one line here. */
static const s2_trial_phase *const phases[S2_N_KERNEL_PHASES] = {
    [S2_FORWARD] = &s2_trial_forward,
    [S2_BACKWARD] = &s2_trial_train,
    [S2_DECODING] = &s2_trial_decode,
};

const s2_trial_phase *s2_trial_phase_of(s2_kernel_phase phase)
{
    return phases[phase];
}

const char *s2_outcome_word(s2_outcome outcome)
{
    static const char *const words[S2_N_OUTCOMES] = {
#define S2_OUTCOME_WORD(name, word) [name] = word,
        S2_OUTCOME_TABLE(S2_OUTCOME_WORD)
#undef S2_OUTCOME_WORD
    };
    return words[outcome];
}

s2_validate_request s2_validate_request_init(const s2_device *device, const s2_pattern *pattern,
                                             const s2_plan_seq *seqs, int32_t n_seqs)
{
    const bool gpu = device->kind == S2_DEVICE_GPU;
    return (s2_validate_request){.pattern = pattern,
                                 .kernel_phase = S2_FORWARD,
                                 .seqs = seqs,
                                 .n_seqs = n_seqs,
                                 .dtype = S2_BF16,
                                 .seed = 1,
                                 .spread = 1.0f,
                                 .budget_flop = gpu ? 0.0 : 8e8 * device->n_units,
                                 .budget_pairs = gpu ? 100000000 : 40000000,
                                 .touch_limit_ms = gpu ? 10000.0 : 0.0,
                                 .needles = true,
                                 .n_timed = gpu ? 20 : 3,
                                 .dense_beside = true,
                                 .n_steps = gpu ? 4096 : 512,
                                 .time_limit_ms = gpu ? 20000.0 : 1500.0};
}

void s2_validation_add_figure(s2_validation *out, const char *name, double value)
{
    if (out->n_figures == S2_LIMIT_FIGURES)
        return;
    s2_figure *const figure = &out->figures[out->n_figures++];
    snprintf(figure->name, sizeof figure->name, "%s", name);
    figure->value = value;
}

s2_status s2_trial_dense_pattern(s2_arena *arena, const s2_pattern *like, s2_pattern *out)
{
    char text[200];
    const int n = snprintf(
        text, sizeof text, "heads %d; kv-heads %d; head-dim %d; block %d; causal %s; layers all: dense",
        like->n_heads, like->n_kv_heads, like->head_dim, like->block_tok, like->causal ? "yes" : "no");
    return s2_pattern_parse(arena, text, (size_t)n, NULL, out, NULL);
}

s2_status s2_validate(s2_device *device, const s2_validate_request *request, s2_validation *out)
{
    if (request->n_seqs < 1 || !isfinite(request->spread) || !isfinite(request->scale))
        return S2_EINVAL;
    s2_validation made = {.kernel = "", .dense_kernel = ""};
    const s2_trial_phase *const phase = s2_trial_phase_of(request->kernel_phase);
    if (phase == NULL) {
        made.outcome = S2_OUTCOME_UNSUPPORTED;
        snprintf(made.reason, sizeof made.reason, "nothing in this build judges the %s phase",
                 s2_kernel_phase_word(request->kernel_phase));
    } else {
        made.outcome = phase->judge(device, request, &made);
    }
    if (made.outcome == S2_OUTCOME_OK && request->n_timed > 0)
        made.outcome = s2_trial_time(device, phase, request, &made);
    *out = made;
    return S2_OK;
}
