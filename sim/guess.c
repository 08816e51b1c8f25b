/* Constants for a GPU that nobody measured. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/calibration.h"

/*
 * Cycles of a 64 x 64 step of the portable forward kernel, and of changing items, on an SM at 2048 matrix
 * operations a clock, which mma.sync reaches there. From the rows of `sm80` in docs/kernels.md: dense and
 * L8V16 at 32k, head dims 64, 128 and 256, at the clocks measured with them.
 */
static const s2_dim_cost PORTABLE[] = {
    {64, 3000, 1230, 1230, 0}, {128, 4000, 1950, 1950, 0}, {256, 8000, 3800, 3800, 0}};

/* On an SM with slower matrix products a step waits for them; the rest takes equally long on every SM. */
static double step_cycles(const s2_dim_cost *cost, double sync_flop)
{
    enum { STEP_PAIRS = 64 * 64, MEASURED_FLOP = 2048 };
    const double p = 3, flop = 4.0 * cost->head_dim * STEP_PAIRS;
    const double rest = pow(cost->step, p) - pow(flop / MEASURED_FLOP, p);
    return pow(fmax(rest, 0) + pow(flop / sync_flop, p), 1 / p);
}

static void make_portable(const s2_gpu *gpu, double flop, s2_kernel_model *kernel)
{
    const double sync_flop = fmin(flop, 2048);
    const bool backward = kernel->pass == S2_PASS_BACKWARD;
    *kernel = (s2_kernel_model){.pass = kernel->pass,
                                .traits = backward ? &s2_traits_sm80_bwd : &s2_traits_sm80,
                                .residents = backward ? 1 : 3,
                                .hbm_gb_s = gpu->hbm_gb_s * gpu->hbm_fraction,
                                .launch_us = kernel->launch_us,
                                .miss_us = kernel->miss_us,
                                .column = kernel->column,
                                .warm_mb = kernel->warm_mb,
                                .lost_mb = kernel->lost_mb,
                                .n_dims = sizeof PORTABLE / sizeof *PORTABLE};
    snprintf(kernel->name, sizeof kernel->name, "%s", kernel->traits->name);
    for (int32_t d = 0; d < kernel->n_dims; d++) {
        s2_dim_cost cost = PORTABLE[d];
        cost.step = cost.masked = step_cycles(&PORTABLE[d], sync_flop);
        /* three products per tile for dQ and four per column for dK and dV; forward has two */
        cost.least = backward ? 2 * cost.step : 0;
        cost.step *= backward ? 1.5 : 1;
        cost.masked = cost.step;
        kernel->dims[d] = cost;
        const s2_plan_options cut = s2_kernel_cut(kernel->traits, cost.head_dim);
        for (int32_t even = 0; even < 2; even++)
            kernel->cuts[kernel->n_cuts++] = (s2_cut){cost.head_dim, even == 1,      cut.tile_tok,
                                                      cut.key_tok,   cut.pack_heads, cut.section_bytes};
    }
}

/* The clock under the power limit: watts per cycle and SM relative to what a busy matrix unit draws. Chips below
 * capability 89 are made in an older process, whose matrix units draw about twice as much for the same
 * work. */
static void scale_clock(const s2_gpu *from, const s2_gpu *gpu, double flop, s2_time_model *model)
{
    const double matrix = flop / model->mma_flop, process = s2_gpu_capability(gpu) < 89 ? 2 : 1;
    const double watts = gpu->power_w / (gpu->sms * gpu->boost_mhz),
                 measured = from->power_w / (from->sms * from->boost_mhz);
    model->clock_limit *= watts / measured / (matrix * process);
    model->clock_l2 /= matrix * process;
    model->clock_hbm /= matrix * process;
}

static void scale_memory(const s2_gpu *from, const s2_gpu *gpu, s2_time_model *model)
{
    const double cache = gpu->l2_mib / from->l2_mib;
    const double clocks = gpu->sms * gpu->boost_mhz / (from->sms * from->boost_mhz);
    model->l2_gb_s *= gpu->l2_tb_s > 0 ? gpu->l2_tb_s / from->l2_tb_s : clocks;
    model->cache_mb *= cache;
    model->spill_mb *= cache;
    model->whole_mb *= cache;
    for (int32_t k = 0; k < model->n_kernels; k++) {
        s2_kernel_model *const kernel = &model->kernels[k];
        kernel->hbm_gb_s *= gpu->hbm_gb_s * gpu->hbm_fraction / (from->hbm_gb_s * from->hbm_fraction);
        kernel->warm_mb *= cache;
        kernel->lost_mb *= cache;
    }
}

/* Where a kernel of one kind of launch does not run, there is no guess of it. */
static void drop_special(int32_t capability, s2_time_model *model)
{
    int32_t n = 0;
    for (int32_t k = 0; k < model->n_kernels; k++)
        if ((!s2_kernel_is_special(model->kernels[k].traits) && !s2_model_is_apart(&model->kernels[k])) ||
            s2_kernel_runs_on(model->kernels[k].traits, capability))
            model->kernels[n++] = model->kernels[k];
    model->n_kernels = n;
}

s2_status s2_calibration_guess(const s2_gpu *gpu, s2_calibration *out)
{
    s2_calibration made;
    s2_gpu from;
    S2_TRY(s2_calibration_find("h200", &made));
    S2_TRY(s2_gpu_find("h200", &from, NULL));
    s2_time_model *const model = &made.model;
    const double flop = gpu->bf16_tflops * 1e6 / (gpu->sms * gpu->tensor_mhz);
    const int32_t capability = s2_gpu_capability(gpu);
    const bool hopper = capability == 90;
    scale_clock(&from, gpu, flop, model);
    scale_memory(&from, gpu, model);
    drop_special(capability, model);
    for (int32_t k = 0; k < model->n_kernels; k++) {
        s2_kernel_model *const kernel = &model->kernels[k];
        if (kernel->pass != S2_PASS_DECODE && !s2_kernel_runs_on(kernel->traits, capability))
            make_portable(gpu, flop, kernel);
        kernel->error_pct = kernel->p90_pct = hopper ? S2_GUESS_PCT : S2_FAR_GUESS_PCT;
        kernel->n_judged = 0;
    }
    model->n_sms = gpu->sms;
    model->mma_flop = flop;
    model->max_mhz = gpu->boost_mhz;
    model->capability = capability;
    made.head = (s2_provenance){0};
    *out = made;
    return S2_OK;
}

s2_status s2_calibration_of(const s2_gpu *gpu, s2_calibration *out)
{
    const s2_status status = s2_calibration_find(gpu->name, out);
    return status == S2_EUNSUPPORTED ? s2_calibration_guess(gpu, out) : status;
}

bool s2_calibration_is_measured(const s2_calibration *calibration)
{
    return calibration->head.gpu[0] != '\0';
}
