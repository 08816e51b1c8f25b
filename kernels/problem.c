#include "kernels/kernel.h"

#include <math.h>

#include "base/text.h"

s2_chip s2_device_chip(const s2_device *device)
{
    return (s2_chip){device->capability, device->n_units};
}

s2_status s2_traits_support(const s2_kernel_traits *traits, const s2_device *device,
                            const s2_attn_problem *problem, s2_diag *why)
{
    if (!s2_kernel_runs_on(traits, device->capability))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs compute capability %d.%d%s%s",
                           traits->first_chip / 10, traits->first_chip % 10,
                           traits->last_chip > 0 ? "" : " or newer",
                           traits->large_chips ? ", and 164 KiB of shared memory an SM" : "");
    if (problem->dtype != S2_BF16 && problem->dtype != S2_F16)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes bf16 and f16");
    if (problem->head_dim < traits->least_dim)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes head dimensions of %d and more",
                           traits->least_dim);
    if (!s2_kernel_takes_dim(traits, device->capability, problem->head_dim))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "takes head dimensions up to %d on this GPU, multiples of %d",
                           s2_kernel_most_dim(traits, device->capability), traits->dim_step);
    return S2_OK;
}

bool s2_data_is_placed(const void *data)
{
    return data != NULL && (uintptr_t)data % 16 == 0;
}

static bool begins_fit(const int32_t *begin_tok, int32_t seq, int32_t n_tok)
{
    return begin_tok == NULL || begin_tok[seq + 1] - begin_tok[seq] == n_tok;
}

static bool is_dense(const s2_plan *plan)
{
    int64_t all = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        all += (int64_t)plan->seqs[seq].q_tok * plan->seqs[seq].k_tok * plan->pattern->n_heads;
    return plan->counts.pairs == (plan->pattern->causal ? plan->counts.pairs_causal : all);
}

s2_status s2_lists_check(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_listed *const listed = problem->listed;
    const int32_t q_tok = listed->q_block_tok;
    if (problem->pass != S2_PASS_FORWARD || !is_dense(problem->plan))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                           "layer: lists of blocks are for the forward of a dense layer");
    if (listed->q_blocks < 1 || listed->most < 1)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "list_q_blocks, list_most: no room for a list");
    if (listed->n_heads != problem->n_heads && listed->n_heads != problem->n_kv_heads)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                           "list_heads: %d heads have lists: must be those of queries, %d, or of keys, %d",
                           listed->n_heads, problem->n_heads, problem->n_kv_heads);
    if (q_tok < 16 || (q_tok % 128 != 0 && (q_tok > 64 || 64 % q_tok != 0)))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                           "list_q_tok: query blocks of %d tokens: must be 16, 32, 64 or a multiple of 128",
                           q_tok);
    if (listed->k_block_tok < 16 || listed->k_block_tok != problem->plan->pattern->block_tok)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                           "key blocks of %d tokens: must be 16 or more, and the pattern's (%d)",
                           listed->k_block_tok, problem->plan->pattern->block_tok);
    return S2_OK;
}

s2_status s2_problem_check(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    if (plan == NULL || problem->n_seqs != plan->n_seqs || problem->n_heads != plan->pattern->n_heads ||
        problem->n_kv_heads != plan->pattern->n_kv_heads)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "the problem and its plan have different shapes");
    if (problem->head_dim < 1 || problem->head_dim > S2_LIMIT_HEAD_DIM || !isfinite(problem->scale))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "head dimension %d or scale %s out of range",
                           problem->head_dim, s2_decimal((double)problem->scale, 6).text);
    if (!(problem->cap >= 0.0f) || isinf(problem->cap))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "cap %s: 0 or positive and finite",
                           s2_decimal((double)problem->cap, 6).text);
    if (problem->sinks &&
        (problem->sink == NULL || (problem->pass == S2_PASS_BACKWARD && problem->d_sink == NULL)))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "sink logits or their gradient are missing");
    if (problem->e4m3 &&
        (problem->pass == S2_PASS_BACKWARD || problem->k_scale == NULL || problem->v_scale == NULL ||
         (problem->pass == S2_PASS_FORWARD && problem->q_scale == NULL)))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                           "e4m3 is for forwards and decode steps, and needs its scales");
    if (!s2_data_is_placed(problem->q.data) || !s2_data_is_placed(problem->k.data) ||
        !s2_data_is_placed(problem->v.data) || !s2_data_is_placed(problem->o.data) ||
        problem->lse.data == NULL)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a tensor is missing or not aligned to 16 bytes");
    if (problem->pass == S2_PASS_BACKWARD &&
        (!s2_data_is_placed(problem->d_o.data) || !s2_data_is_placed(problem->d_q.data) ||
         !s2_data_is_placed(problem->d_k.data) || !s2_data_is_placed(problem->d_v.data)))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a gradient is missing or not aligned to 16 bytes");
    if (problem->listed != NULL) {
        S2_TRY(s2_lists_check(problem, why));
        if (problem->listed->counts == NULL || problem->listed->indices == NULL)
            return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "lists of blocks are missing");
    }
    if ((problem->q_begin_tok == NULL) != (problem->k_begin_tok == NULL))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                           "unequal lengths need the beginnings of queries and of keys");
    for (int32_t seq = 0; seq < problem->n_seqs; seq++)
        if (!begins_fit(problem->q_begin_tok, seq, plan->seqs[seq].q_tok) ||
            (problem->cached == NULL && !begins_fit(problem->k_begin_tok, seq, plan->seqs[seq].k_tok)))
            return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "sequence %d begins where the plan does not say",
                               seq);
    return S2_OK;
}
