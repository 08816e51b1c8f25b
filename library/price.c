#include "library/internal.h"

#include <math.h>

#include "pattern/spec.h"
#include "sim/net.h"
#include "sim/price.h"
#include "sim/share.h"

_Static_assert((int)S2_API_F32 == (int)S2_F32 && (int)S2_API_BF16 == (int)S2_BF16 &&
                   (int)S2_API_F16 == (int)S2_F16,
               "the types of s2.h are those of base/dtype.h");

static const char *fault_of(const s2_api_price_options *in)
{
    if (in->phase < 0 || in->phase >= S2_N_PHASES)
        return "phase: 0, 1 or 2";
    if (in->dtype < 0 || in->dtype >= (int32_t)S2_N_DTYPES)
        return "dtype: no s2_api_dtype";
    if (in->context_tok < 1 || in->context_tok > S2_LIMIT_CONTEXT_TOK)
        return "context_tok: not a length of a context";
    if (in->batch < 1 || in->batch > S2_LIMIT_BATCH)
        return "batch: out of range";
    if (in->page_tok < 1 || in->page_tok > 65536)
        return "page_tok: out of range";
    return in->ranks < 1 || in->ranks > S2_LIMIT_HEADS ? "ranks: out of range" : NULL;
}

/* Tables needed to compute a price; too large for the stack. */
typedef struct tables {
    s2_sim_options options;
    s2_calibration calibration;
    s2_net net;
    s2_sim sim;
} tables;

static s2_status look_up(const s2_api_price_options *in, tables *t, s2_diag *diag)
{
    S2_TRY(s2_sim_options_default(&t->options));
    const s2_status gpu = s2_gpu_find(in->gpu != NULL ? in->gpu : "h200", &t->options.gpu, diag);
    S2_TRY(s2_answer_names("gpu", gpu, diag));
    if (in->net != NULL) {
        S2_TRY(s2_answer_names("net", s2_net_find(in->net, &t->net, diag), diag));
        t->options.net = &t->net;
    }
    S2_TRY(s2_calibration_of(&t->options.gpu, &t->calibration));
    /* No kernel of a GPU takes fp32, so nothing was measured: there are bounds. */
    t->options.calibration = in->dtype == S2_API_F32 ? NULL : &t->calibration;
    t->options.phase = (s2_phase)in->phase;
    t->options.dtype = (s2_dtype)in->dtype;
    t->options.len_tok = in->context_tok;
    t->options.batch = in->batch;
    t->options.page_tok = in->page_tok;
    t->options.n_ranks = in->ranks;
    if (in->device_lists != 0)
        s2_sim_choose_blocks(&t->options);
    return S2_OK;
}

/* Arguments that do not go with the pattern, by their names; those who price it name none. */
static s2_status check_pattern(const s2_pattern *pattern, const s2_sim_options *options, s2_diag *diag)
{
    if (options->net != NULL)
        S2_TRY(s2_answer_names("ranks", s2_net_check_mixers(options->net, options->n_ranks, diag), diag));
    S2_TRY(s2_answer_names("ranks", s2_share_check(pattern, options->n_ranks, diag), diag));
    if (options->net == NULL || s2_net_check_shape(options->net, pattern, diag) != S2_EINVAL)
        return S2_OK;
    return s2_answer_names("net", S2_EINVAL, diag);
}

static s2_api_error_is error_of(const s2_sim *sim)
{
    return !s2_sim_error_known(sim) ? S2_API_ERROR_UNKNOWN
           : sim->error.allowed     ? S2_API_ERROR_ALLOWANCE
                                    : S2_API_ERROR_MEAN;
}

static s2_api_price put(const s2_sim *sim)
{
    return (s2_api_price){.predicted = sim->predicted,
                          .measured = sim->measured,
                          .time_us = sim->time_us,
                          .bound_us = sim->bound_us,
                          .dense_time_us = sim->dense_time_us,
                          .error_pct = s2_sim_error_known(sim) ? sim->error.pct : (double)NAN,
                          .end_to_end_us = sim->end_to_end_us,
                          .dense_end_to_end_us = sim->end_to_end_dense_us,
                          .density = sim->token_density,
                          .pairs = sim->counts.pairs,
                          .kv_bytes = sim->kv_kept,
                          .kv_used_bytes = sim->kv.used,
                          .kv_dense_bytes = sim->kv.dense,
                          .fit_batch = sim->fit_batch,
                          .dense_fit_batch = sim->fit_batch_dense,
                          .error_is = (int32_t)error_of(sim)};
}

int s2_api_pattern_price(const s2_api_pattern *pattern, const s2_api_price_options *options,
                         s2_api_price *price, s2_api_error *why)
{
    s2_api_price_options in;
    if (pattern == NULL)
        return s2_answer_argument(why, "pattern is NULL");
    if (!s2_struct_in(&in, sizeof in, options))
        return s2_answer_argument(why, "options: NULL, or its size is not that of any s2_api_price_options");
    const char *const fault = fault_of(&in);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    S2_IN_C_LOCALE;
    s2_arena arena = {0};
    s2_diag diag = {0};
    tables *const t = S2_NEW(&arena, tables, 1);
    s2_status status = t != NULL ? look_up(&in, t, &diag) : S2_ENOMEM;
    if (status == S2_OK)
        s2_sim_take_net(&pattern->pattern, &t->net, &t->options);
    if (status == S2_OK)
        status = check_pattern(&pattern->pattern, &t->options, &diag);
    if (status == S2_OK)
        status = s2_price(&arena, &pattern->pattern, &t->options, S2_PRICE_WHOLE, &t->sim, &diag);
    const s2_api_price found = status == S2_OK ? put(&t->sim) : (s2_api_price){0};
    s2_arena_release(&arena);
    if (status == S2_OK && !s2_struct_out(price, &found, sizeof found))
        return s2_answer_argument(why, "price: NULL, or its size is not that of any s2_api_price");
    return s2_answer(status, &diag, why);
}
