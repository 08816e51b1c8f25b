#include "sim/model.h"

#include <math.h>

#include "sim/schedule.h"

/* Between known head dimensions costs lie on a line; outside they grow with the dimension. */
static s2_dim_cost cost_of(const s2_kernel_model *kernel, int32_t head_dim)
{
    const s2_dim_cost *const dims = kernel->dims;
    int32_t above = 0;
    while (above < kernel->n_dims && dims[above].head_dim < head_dim)
        above++;
    if (above < kernel->n_dims && dims[above].head_dim == head_dim)
        return dims[above];
    if (above == 0 || above == kernel->n_dims) {
        s2_dim_cost cost = dims[above == 0 ? 0 : above - 1];
        const double by = (double)head_dim / cost.head_dim;
        return (s2_dim_cost){head_dim, cost.item * by, cost.step * by, cost.masked * by, cost.least};
    }
    const s2_dim_cost *const a = &dims[above - 1], *const b = &dims[above];
    const double t = (double)(head_dim - a->head_dim) / (b->head_dim - a->head_dim);
    return (s2_dim_cost){head_dim, a->item + t * (b->item - a->item), a->step + t * (b->step - a->step),
                         a->masked + t * (b->masked - a->masked), a->least + t * (b->least - a->least)};
}

/* dK and dV: columns in their order; where they are not known, as many steps as dQ has, in balance. */
static double column_cycles(const s2_load *load, double step, int32_t n_sms, double *mean)
{
    *mean = 2.0 * (double)load->n_steps * step / n_sms;
    if (load->n_columns == 0)
        return *mean;
    double sum = 0;
    s2_workers workers;
    s2_workers_init(&workers, n_sms < S2_LIMIT_WORKERS ? n_sms : S2_LIMIT_WORKERS);
    for (int32_t at = 0; at < load->n_columns; at++) {
        s2_workers_give(&workers, load->columns[at].n_items,
                        (int64_t)llrint(step * load->columns[at].n_full));
        sum += step * load->columns[at].n_full * load->columns[at].n_items;
    }
    *mean = sum / n_sms;
    return (double)s2_workers_end(&workers);
}

double s2_model_cycles(const s2_kernel_model *kernel, const s2_load *load, double missed, int32_t n_sms,
                       double *mean)
{
    const s2_dim_cost cost = cost_of(kernel, load->head_dim);
    const double columns = ceil(load->head_dim / 64.0);
    const double extra = columns * (kernel->sub * (load->n_subs - 2) + (load->arithmetic ? 0 : kernel->list));
    const double step = cost.step + extra, masked = cost.masked + extra;
    const bool backward = load->pass == S2_PASS_BACKWARD;
    const double least = backward ? 0 : cost.least * (1 - kernel->hit * (1 - missed));
    double columns_mean = 0;
    const double columns_end = backward ? column_cycles(load, cost.least, n_sms, &columns_mean) : 0;
    const int32_t n_workers = (int32_t)(n_sms * kernel->residents);
    s2_workers workers;
    double sum = 0;
    bool steps = false;
    s2_workers_init(&workers, n_workers < S2_LIMIT_WORKERS ? n_workers : S2_LIMIT_WORKERS);
    for (int32_t at = 0; at < load->n_classes; at++) {
        const s2_load_class *const cls = &load->classes[at];
        const double cycles = fmax(least, cost.item + step * cls->n_full + masked * cls->n_masked);
        s2_workers_give(&workers, cls->n_items, (int64_t)llrint(cycles * kernel->residents));
        sum += cycles * cls->n_items;
        steps = steps || cls->n_full + cls->n_masked > 1;
    }
    if (mean != NULL)
        *mean = sum / n_sms + columns_mean;
    const double extra_end = load->pass == S2_PASS_STEP ? load->joined : steps ? 1 : 0;
    return (double)s2_workers_end(&workers) + columns_end + kernel->start * extra_end;
}

int32_t s2_model_running(const s2_time_model *model, const s2_plan *plan)
{
    return (int32_t)model->n_sms * (plan->options.tile_tok * plan->pack_heads >= 128 ? 1 : 4);
}

/* Common orders find all or nothing of the generation before; chance finds the share that is still there. */
static double fetched_bytes(const s2_time_model *model, const s2_generation *own)
{
    const double cache = model->cache_mb * 1e6, spill = model->spill_mb * 1e6;
    const double scan = fmax(0, fmin(1, (spill - own->distinct) / (spill - cache)));
    const double draw = own->distinct > spill ? spill / own->distinct : 1;
    const double chance = own->distinct > 0 ? own->chance / own->distinct : 0;
    return own->distinct - own->kept * (chance * draw + (1 - chance) * scan);
}

static double beyond(double all, double cache)
{
    return fmax(0, fmin(1, (all - cache) / cache));
}

double s2_model_missed(const s2_time_model *model, const s2_load *load)
{
    return beyond(load->q_bytes + load->kv_bytes + load->out_bytes, model->spill_mb * 1e6);
}

s2_bytes s2_model_bytes(const s2_time_model *model, const s2_kernel_model *kernel, const s2_load *load,
                        bool cold)
{
    const double all = load->q_bytes + load->kv_bytes + load->out_bytes, whole = model->whole_mb * 1e6;
    s2_bytes bytes = {.l2 = kernel->padded ? load->whole_bytes : load->load_bytes};
    double kv = 0;
    for (int32_t at = 0; at < load->n_generations; at++)
        kv += fetched_bytes(model, &load->generations[at]);
    /* launched again and again over the same tensors, the cache still holds its share of them */
    const double missed = cold ? 1 : s2_model_missed(model, load);
    const bool fits = load->kv_bytes <= model->cache_mb * 1e6;
    bytes.dram_read = (load->q_bytes + (fits ? load->kv_bytes : fmax(kv, load->kv_bytes))) * missed;
    bytes.dram_write = load->out_bytes * (all > whole ? 1 - whole / all : 0) * (cold ? 1 : missed);
    return bytes;
}

double s2_model_clock(const s2_time_model *model, const s2_load *load, const s2_bytes *bytes, double us,
                      double mhz)
{
    const double cycles = us * mhz * model->n_sms;
    const double matrix =
        load->flop / (model->mma_flop * cycles) * (load->dtype == S2_F16 ? model->clock_fp16 : 1);
    const double drawn = model->clock_base + matrix + model->clock_l2 * bytes->l2 / cycles +
                         model->clock_hbm * (bytes->dram_read + bytes->dram_write) / cycles;
    const double f = model->max_mhz * pow(model->clock_limit / drawn, model->clock_q);
    return f < model->max_mhz ? f : model->max_mhz;
}

static double power_sum(double a, double b, double c, double p)
{
    const double most = fmax(a, fmax(b, c));
    return most <= 0 ? 0 : most * pow(pow(a / most, p) + pow(b / most, p) + pow(c / most, p), 1 / p);
}

static void at_clock(const s2_time_model *model, const s2_kernel_model *kernel, double mhz,
                     s2_forecast *forecast)
{
    forecast->mhz = mhz;
    forecast->compute_us = forecast->cycles / mhz;
    forecast->hbm_us = (forecast->bytes.dram_read + forecast->bytes.dram_write) / (kernel->hbm_gb_s * 1e3);
    forecast->l2_us = forecast->bytes.l2 / (model->l2_gb_s * 1e3 * mhz / model->max_mhz);
    forecast->us = forecast->launch_us +
                   power_sum(forecast->compute_us, forecast->hbm_us, forecast->l2_us, model->power);
}

static s2_limit limit_of(const s2_forecast *forecast)
{
    s2_limit by = S2_LIMIT_COMPUTE;
    double most = forecast->compute_us;
    const struct {
        double us;
        s2_limit limit;
    } others[] = {{forecast->hbm_us, S2_LIMIT_HBM},
                  {forecast->l2_us, S2_LIMIT_L2},
                  {forecast->launch_us, S2_LIMIT_LAUNCH}};
    for (int32_t at = 0; at < 3; at++)
        if (others[at].us > most) {
            most = others[at].us;
            by = others[at].limit;
        }
    return by;
}

void s2_model_run(const s2_time_model *model, const s2_kernel_model *kernel, const s2_load *load, bool cold,
                  double mhz, s2_forecast *out)
{
    double mean;
    const double missed = cold ? 1 : s2_model_missed(model, load);
    s2_forecast forecast = {.launch_us = kernel->launch_us + kernel->miss_us * missed,
                            .bytes = s2_model_bytes(model, kernel, load, cold)};
    forecast.cycles = s2_model_cycles(kernel, load, missed, (int32_t)model->n_sms, &mean);
    forecast.imbalance = mean > 0 ? forecast.cycles / mean : 1;
    double f = mhz > 0 ? mhz : model->max_mhz;
    at_clock(model, kernel, f, &forecast);
    /* a lower clock makes the launch longer and so the chip less busy a second: the steps shrink */
    for (int32_t round = 0; mhz <= 0 && round < 8; round++) {
        f = s2_model_clock(model, load, &forecast.bytes, forecast.us, f);
        at_clock(model, kernel, f, &forecast);
    }
    forecast.by = limit_of(&forecast);
    *out = forecast;
}
