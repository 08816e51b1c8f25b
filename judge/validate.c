#include "judge/validate.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "judge/cases.h"

/* A phase is one file judge/validate_<phase>.c and one line here. */
static const s2_pass_judge *const phases[S2_N_PASSES] = {
    [S2_PASS_FORWARD] = &s2_judge_forward,
    [S2_PASS_BACKWARD] = &s2_judge_backward,
    [S2_PASS_DECODE] = &s2_judge_decode,
};

static s2_status judge(s2_device *device, const s2_validate_request *request, s2_validation *out,
                       s2_diag *why)
{
    const s2_pass_judge *const phase = phases[request->pass];
    S2_TRY(phase->judge(device, request, out, why));
    if (request->cases)
        S2_STAGE(out, s2_cases_judge(device, phase, request, out, why));
    if (request->n_timed > 0)
        S2_STAGE(out, s2_workload_time(device, phase, request, out, why));
    return S2_OK;
}

/* An allocation that failed has no words: what is known is how much the tensors take, and what makes them smaller. */
static void say_lack(const s2_device *device, const s2_validate_request *request, char *text, size_t size)
{
    const s2_pattern *const pattern = request->pattern;
    double numbers = 0;
    for (int32_t seq = 0; seq < request->n_seqs; seq++)
        numbers += 2.0 * pattern->head_dim *
                   ((double)request->seqs[seq].q_tok * pattern->n_heads +
                    (double)request->seqs[seq].k_tok * pattern->n_kv_heads);
    const double gib = numbers * (double)s2_dtype_bytes(request->dtype) / (double)(1 << 30);
    snprintf(
        text, size,
        "%.40s has too little memory free: Q, K, V and O alone take %s GiB; fewer tokens, sequences or heads "
        "need less",
        device->name, s2_decimal(gib, 4).text);
}

s2_status s2_validate(s2_device *device, const s2_validate_request *request, s2_validation *out)
{
    if (request->n_seqs < 1 || !isfinite(request->spread) || !isfinite(request->scale))
        return S2_EINVAL;
    s2_validation made = {.kernel = "", .dense_kernel = "", .ours_kernel = "", .lse_err = NAN};
    s2_diag why = {0};
    const s2_status status = judge(device, request, &made, &why);
    if (status != S2_OK) {
        made.outcome = why.code > 0 ? (s2_outcome)why.code : s2_outcome_of(status);
        if (status == S2_ENOMEM && why.msg[0] == '\0')
            say_lack(device, request, made.reason, sizeof made.reason);
        else
            snprintf(made.reason, sizeof made.reason, "%s", s2_diag_text(&why, status));
    }
    if (request->kernel != NULL && request->kernel->elsewhere != NULL)
        snprintf(made.versions, sizeof made.versions, "%s", request->kernel->elsewhere->versions);
    *out = made;
    return S2_OK;
}

s2_status s2_validate_times(s2_device *device, const s2_validate_request *request, s2_times *out,
                            s2_diag *why)
{
    return s2_workload_times(device, phases[request->pass], request, out, why);
}

s2_status s2_validate_launch(s2_device *device, const s2_validate_request *request, s2_diag *why)
{
    return s2_workload_profile(device, phases[request->pass], request, why);
}
