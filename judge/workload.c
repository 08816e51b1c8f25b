#include "judge/workload.h"

#include <stdio.h>

#include "pattern/parse.h"

const char *s2_outcome_word(s2_outcome outcome)
{
    static const char *const words[S2_N_OUTCOMES] = {
#define S2_OUTCOME_WORD(name, word) [name] = word,
        S2_OUTCOME_TABLE(S2_OUTCOME_WORD)
#undef S2_OUTCOME_WORD
    };
    return words[outcome];
}

const char *s2_case_word(s2_case_kind which)
{
    static const char *const words[S2_N_CASES] = {
#define S2_CASE_WORD(name, word, what, look) [name] = word,
        S2_CASE_TABLE(S2_CASE_WORD)
#undef S2_CASE_WORD
    };
    return words[which];
}

s2_outcome s2_outcome_of(s2_status status)
{
    switch (status) {
    case S2_OK: return S2_OUTCOME_OK;
    case S2_ENOMEM: return S2_OUTCOME_OUT_OF_MEMORY;
    case S2_EUNSUPPORTED: return S2_OUTCOME_UNSUPPORTED;
    default: return S2_OUTCOME_LAUNCH_FAILED;
    }
}

s2_validate_request s2_validate_request_init(const s2_device *device, const s2_pattern *pattern,
                                             const s2_plan_seq *seqs, int32_t n_seqs)
{
    const bool gpu = device->kind == S2_DEVICE_GPU;
    return (s2_validate_request){.pattern = pattern,
                                 .pass = S2_PASS_FORWARD,
                                 .seqs = seqs,
                                 .n_seqs = n_seqs,
                                 .dtype = S2_BF16,
                                 .seed = 1,
                                 .spread = 1.0f,
                                 .budget_flop = gpu ? 0.0 : 8e8 * device->n_units,
                                 .budget_pairs = gpu ? 100000000 : 40000000,
                                 .touch_limit_ms = gpu ? 10000.0 : 0.0,
                                 .needles = true,
                                 .cases = true,
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

s2_status s2_workload_dense_pattern(s2_arena *arena, const s2_pattern *like, s2_pattern *out)
{
    char text[200];
    const int n = snprintf(
        text, sizeof text, "heads %d; kv-heads %d; head-dim %d; block %d; causal %s; layers all: dense",
        like->n_heads, like->n_kv_heads, like->head_dim, like->block_tok, like->causal ? "yes" : "no");
    return s2_pattern_parse(arena, text, (size_t)n, NULL, out, NULL);
}
