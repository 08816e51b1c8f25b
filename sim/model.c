#include "sim/model.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "plan/turns.h"
#include "sim/schedule.h"

const char *s2_extent_words(s2_extent extent)
{
    static const char *const words[S2_N_EXTENTS] = {"query rows a list", "tokens", "KV heads times sequences",
                                                    "head dim", "query tokens"};
    return words[extent];
}

const char *s2_cause_words(int32_t bit)
{
    static const char *const words[S2_N_CAUSES - S2_N_EXTENTS] = {
        "blocks that are cut",         "the type of the cache",        "no kernel for the pattern",
        "capped scores or sinks",      "a kernel that was not judged", "fewer queries than keys",
        "a plan too long to make here"};
    return bit < S2_N_EXTENTS ? s2_extent_words((s2_extent)bit) : words[bit - S2_N_EXTENTS];
}

double s2_extent_of(const s2_kernel_load *load, s2_extent extent)
{
    const double of[S2_N_EXTENTS] = {load->list_rows, load->k_tok, (double)load->n_lists, load->head_dim,
                                     load->q_tok};
    return of[extent];
}

void s2_spans_note(const s2_kernel_load *load, s2_span_of_points *spans)
{
    for (int32_t e = 0; e < S2_N_EXTENTS; e++) {
        const double own = s2_extent_of(load, (s2_extent)e);
        if (own <= 0)
            continue; /* not known */
        spans[e].least = spans[e].greatest > 0 ? fmin(spans[e].least, own) : own;
        spans[e].greatest = fmax(spans[e].greatest, own);
    }
}

static bool is_apart(const s2_kernel_traits *traits)
{
    return traits != NULL && (traits->short_windows || (traits->cuts != NULL && traits->cuts->in_order));
}

int32_t s2_model_cost_dim(const s2_kernel_traits *traits, int32_t head_dim)
{
    return is_apart(traits) ? traits->most_dim : head_dim;
}

/* Between known head dimensions costs are interpolated; outside they are proportional to the dimension. */
static s2_dim_cost cost_of(const s2_kernel_model *kernel, int32_t of_dim)
{
    const int32_t head_dim = s2_model_cost_dim(kernel->traits, of_dim);
    const s2_dim_cost *const dims = kernel->dims;
    int32_t above = 0;
    while (above < kernel->n_dims && dims[above].head_dim < head_dim)
        above++;
    if (above < kernel->n_dims && dims[above].head_dim == head_dim)
        return dims[above];
    if (above == 0 || above == kernel->n_dims) {
        const s2_dim_cost cost = dims[above == 0 ? 0 : above - 1];
        const bool backward = kernel->pass == S2_PASS_BACKWARD;
        /* gradients: the narrowest instance is padded, and `least` is a step of a column */
        const double by = backward && above == 0 ? 1 : (double)head_dim / cost.head_dim;
        return (s2_dim_cost){head_dim, cost.item * by, cost.step * by, cost.masked * by,
                             cost.least * (backward ? by : 1)};
    }
    const s2_dim_cost *const a = &dims[above - 1], *const b = &dims[above];
    const double t = (double)(head_dim - a->head_dim) / (b->head_dim - a->head_dim);
    return (s2_dim_cost){head_dim, a->item + t * (b->item - a->item), a->step + t * (b->step - a->step),
                         a->masked + t * (b->masked - a->masked), a->least + t * (b->least - a->least)};
}

static s2_dim_cost cost_of_rows(const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    s2_dim_cost cost = cost_of(kernel, load->head_dim);
    if (s2_kernel_load_is_ragged(load)) {
        cost.item *= 1 + kernel->ragged;
        cost.least *= 1 + kernel->ragged;
    }
    return cost;
}

/* What items and columns of one launch cost, in cycles. */
typedef struct s2_costs {
    double item, full, masked, mixed, fine, more, turn;
    double warp;                /* decode: share of `full` that is a warp's own */
    double least, least_behind; /* of an item that is stored alone, or under the steps of the next one */
} s2_costs;

static double least_of(const s2_costs *costs, const s2_load_class *cls)
{
    return cls->n_full + cls->n_mixed > 0 ? costs->least_behind : costs->least;
}

static double cycles_of(const s2_costs *costs, const s2_load_class *cls)
{
    const double n_full = (1 - costs->warp) * cls->n_full + costs->warp * S2_DECODE_WARPS * cls->n_groups;
    const double cycles = costs->item + costs->full * n_full + costs->masked * (cls->n_masked + cls->n_rows) +
                          costs->mixed * cls->n_mixed + costs->fine * cls->n_fine +
                          costs->more * cls->n_more + costs->turn * cls->n_turns;
    return fmax(least_of(costs, cls), cycles);
}

/* Whether an item waits for its keys, at the highest clock. */
static bool any_waits(const s2_costs *costs, const s2_kernel_load *load)
{
    s2_costs own = *costs;
    own.least = own.least_behind = 0;
    for (int32_t at = 0; at < load->n_classes; at++)
        if (cycles_of(&own, &load->classes[at]) < least_of(costs, &load->classes[at]))
            return true;
    return false;
}

/* Cycles until the last worker is done; the mean worker's in *mean. */
static double run_classes(const s2_costs *costs, const s2_load_class *classes, int32_t n_classes,
                          int32_t n_sms, double residents, double *mean)
{
    const int32_t n_workers = (int32_t)(n_sms * residents);
    double sum = 0;
    s2_workers workers;
    s2_workers_init(&workers, s2_min_i32(n_workers, S2_LIMIT_WORKERS));
    for (int32_t at = 0; at < n_classes; at++) {
        const double cycles = cycles_of(costs, &classes[at]);
        s2_workers_give(&workers, classes[at].n_items, (int64_t)llrint(cycles * residents));
        sum += cycles * classes[at].n_items;
    }
    *mean = sum / n_sms;
    return (double)s2_workers_end(&workers);
}

/*
 * dK and dV: columns in their order. Where they add to dQ in turns, a column comes to a tile `turn` cycles after the
 * one before it at the earliest.
 */
static double run_columns(const s2_costs *costs, double part, const s2_kernel_load *load, int32_t n_sms,
                          double *mean)
{
    enum { MOST_UNITS = 1024, STAGES = 4 }; /* of Q and dO: so many steps are loaded ahead */
    s2_unit units[MOST_UNITS] = {{0}};
    const int32_t n = s2_min_i32(n_sms, MOST_UNITS);
    double sum = 0, begun = 0;
    memset(load->chain_ends, 0, ((size_t)load->n_chains + 1) * sizeof *load->chain_ends);
    s2_turns turns = {.units = units,
                      .added = load->chain_ends,
                      .n_units = n,
                      .sum = part,
                      .holds = true,
                      .ahead = STAGES * costs->full};
    for (int32_t column_no = 0; column_no < load->n_columns; column_no++) {
        const s2_load_column *const column = &load->columns[column_no];
        const double own = costs->item + costs->full * column->n_full + costs->masked * column->n_masked +
                           costs->mixed * column->n_half + costs->fine * column->n_fine;
        if (column->follows)
            units[0].idle = fmax(units[0].idle, begun + costs->turn - costs->full * column->later);
        begun = units[0].idle;
        sum += s2_turns_take(&turns, own, column->chain);
    }
    *mean = sum / n_sms;
    return turns.last;
}

enum { STEP_AREA = 64 * 128 }; /* queries times keys of a step of a column */

/* Where columns make all gradients, a step of theirs is what `step` says. */
static double fused_cycles(const s2_kernel_model *kernel, const s2_kernel_load *load, const s2_dim_cost *cost,
                           int32_t n_sms, double *mean)
{
    const s2_costs costs = {.item = cost->item,
                            .full = cost->step,
                            .masked = cost->masked,
                            .mixed = cost->step * kernel->mixed,
                            .fine = kernel->fine,
                            .turn = kernel->column};
    if (load->n_columns > 0)
        return run_columns(&costs, kernel->part, load, n_sms, mean);
    *mean = load->flop / (10.0 * STEP_AREA * cost->head_dim) * cost->step / n_sms;
    return *mean;
}

/* The narrowest instance that holds a head dimension, in 64 columns: parts are summed in its registers. */
static double instance_chunks(int32_t head_dim)
{
    static const int32_t instances[] = {64, 96, 128};
    for (size_t at = 0; at < sizeof instances / sizeof *instances; at++)
        if (head_dim <= instances[at])
            return instances[at] / 64.0;
    return 4;
}

/*
 * extra: cycles of a step for the blocks that it gathers; the keys of a column are gathered alike, K and then V.
 *
 * Where the columns are not known: two steps for each of dQ's, perfectly balanced. A step has four products;
 * in two passes, of which each has its own launch, five.
 */
static double column_cycles(const s2_kernel_model *kernel, const s2_kernel_load *load,
                            const s2_dim_cost *cost, double extra, int32_t n_sms, double *mean)
{
    if (load->fused)
        return fused_cycles(kernel, load, cost, n_sms, mean);
    const double chunks = ceil(load->head_dim / 64.0), passes = load->column_passes > 1 ? 2 : 1;
    const double step = cost->least * (3 + passes) / 4 / passes;
    const s2_costs costs = {.item = (kernel->column * chunks + 2 * extra) / passes,
                            .full = step,
                            .masked = s2_model_is_short(kernel)
                                          ? kernel->more
                                          : step * (cost->step > 0 ? fmax(1, cost->masked / cost->step) : 1),
                            .mixed = step * kernel->mixed,
                            .fine = kernel->fine};
    *mean = 2.0 * (double)load->n_steps * step * passes / n_sms;
    if (load->n_columns == 0)
        return *mean;
    const double end =
        run_columns(&costs, kernel->part * instance_chunks(load->head_dim) / passes, load, n_sms, mean) *
        passes;
    *mean *= passes;
    return end;
}

static bool any_of_several_steps(const s2_kernel_load *load)
{
    for (int32_t at = 0; at < load->n_classes; at++)
        if (load->classes[at].n_full + load->classes[at].n_masked + load->classes[at].n_mixed > 1)
            return true;
    return false;
}

/* What takes so many cycles each alone, and hides some of the other. */
static double beside(double a, double b)
{
    return b > 0 ? cbrt(a * a * a + b * b * b) : a;
}

/* Whether a part works for more than one list. */
static bool has_turns(const s2_kernel_load *load)
{
    for (int32_t at = 0; at < load->n_classes; at++)
        if (load->classes[at].n_turns > 0)
            return true;
    return false;
}

/* What the parts of lists take when all of them are there: twice where a part of one then goes on to another. */
static double tail_cycles(const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    const double sums =
        kernel->part + kernel->more * load->sum_blocks + kernel->adding * load->left_bytes / 1024;
    const double trips =
        kernel->start * load->trips + kernel->trip * load->long_trips * ceil(load->head_dim / 64.0);
    if (load->merges)
        return trips + sums;
    return load->trips > 0 ? (trips + kernel->join) * (has_turns(load) ? 2 : 1) : 0;
}

/* What a launch takes of the SMs. */
typedef struct s2_busy {
    double end;       /* cycles of the busiest SM */
    double imbalance; /* how much more it has to do than the mean one */
    bool waits;       /* an item waits for its keys, which is time and no cycles */
} s2_busy;

/* missed: share of the rows that come from device memory; slower: the highest clock over the one that runs. */
static s2_busy busy_of(const s2_kernel_model *kernel, const s2_kernel_load *load, double missed,
                       int32_t n_sms, double slower)
{
    const s2_dim_cost cost = cost_of_rows(kernel, load);
    const double extra = ceil(load->head_dim / 64.0) *
                         (kernel->sub * (load->n_subs - 2) + (load->arithmetic ? 0 : kernel->list));
    const bool backward = load->pass == S2_PASS_BACKWARD;
    /* products hide some of the tanh of each score; a half step has half of the scores */
    const double cap = load->cap_cycles, cap_masked = load->halved ? cap / 2 : cap;
    /* decode: the rows of a slab are in two tiles of 8 */
    const bool two_tiles = load->pass == S2_PASS_DECODE && load->n_subs == 3;
    const double step = two_tiles ? cost.step * fmax(1, kernel->mixed) : cost.step;
    const double waited = kernel->hit * (1 - missed), least = backward ? 0 : cost.least * (1 - waited),
                 behind = kernel->behind * (load->one_head ? 2 : 1) * (1 - waited);
    s2_costs costs = {.item = cost.item * (load->halved && !backward ? 1 - waited : 1) + load->sink_cycles +
                              (load->in_step ? kernel->in_step : 0) + kernel->first * (load->n_subs - 2),
                      .full = beside(step + extra, cap),
                      .warp = kernel->warp,
                      .masked = beside(cost.masked + extra, cap_masked),
                      .mixed = beside(cost.step * fmax(1, kernel->mixed) + extra, cap),
                      .fine = kernel->fine,
                      .more = kernel->more,
                      .turn = kernel->column,
                      .least = least,
                      .least_behind = load->halved ? least + behind : least};
    const bool waits = any_waits(&costs, load);
    costs.least /= slower;
    costs.least_behind /= slower;
    double items_mean, columns_mean = 0, end = 0;
    if (backward)
        end = column_cycles(kernel, load, &cost, extra, n_sms, &columns_mean);
    /* no more parts than SMs: no two share an SM */
    const bool alone = load->pass == S2_PASS_DECODE && load->n_items <= n_sms && kernel->alone > 0;
    const bool crowded = 2 * load->n_items > n_sms && load->n_items < n_sms;
    const double residents =
        alone ? kernel->alone * (crowded ? fmax(1, kernel->crowd) : 1) : kernel->residents;
    end += run_classes(&costs, load->classes, load->n_classes, n_sms, residents, &items_mean);
    if (s2_model_is_short(kernel)) /* the first items of all SMs are read at once */
        end += kernel->start * fmin(1, (double)load->n_items / n_sms);
    else if (load->pass != S2_PASS_DECODE)
        end += kernel->start * any_of_several_steps(load);
    const double mean = items_mean + columns_mean;
    const double worked = alone ? end / residents : end; /* waiting alone is no work */
    return (s2_busy){end, mean > 0 ? worked / mean : 1, waits};
}

bool s2_model_plans_lists(const s2_kernel_model *kernel)
{
    return kernel->traits != NULL && kernel->traits->listed;
}

bool s2_model_is_wide(const s2_kernel_model *kernel)
{
    return kernel->traits != NULL && kernel->traits->wide_steps;
}

bool s2_model_is_short(const s2_kernel_model *kernel)
{
    return kernel->traits != NULL && kernel->traits->short_windows;
}

bool s2_model_is_apart(const s2_kernel_model *kernel)
{
    return is_apart(kernel->traits);
}

s2_chip s2_model_chip(const s2_time_model *model)
{
    return (s2_chip){model->capability, (int32_t)model->n_sms};
}

int32_t s2_model_running(const s2_time_model *model, const s2_kernel_traits *traits, const s2_plan *plan)
{
    const bool alone =
        (traits != NULL && traits->short_windows) || plan->options.tile_tok * plan->pack_heads >= 128;
    return (int32_t)model->n_sms * (alone ? 1 : 4);
}

/* In a common order either all or nothing of the last generation is found; by chance, what is still there. */
static double fetched_bytes(const s2_time_model *model, const s2_wave *own, double lines)
{
    const double cache = model->cache_mb * 1e6 / lines, spill = model->spill_mb * 1e6 / lines;
    const double scan = fmax(0, fmin(1, (spill - own->distinct) / (spill - cache)));
    const double draw = own->distinct > spill ? spill / own->distinct : 1;
    const double chance = own->distinct > 0 ? own->chance / own->distinct : 0;
    return own->distinct - own->kept * (chance * draw + (1 - chance) * scan);
}

/*
 * Share of the tensors that the cache has lost when the same launch repeats. What is read of a tensor here and there
 * does not lie as evenly in the cache as a tensor that is read whole, but takes no more of it than all would.
 */
static double missed_share(const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    const double keys = fmax(load->kv_bytes, fmin(load->span_bytes, kernel->gather * load->kv_bytes));
    const double all = (load->q_bytes + keys + load->panel_bytes + load->dq_bytes + load->out_bytes) * 1e-6;
    return fmax(0, fmin(1, (all - kernel->warm_mb) / kernel->lost_mb));
}

/*
 * Columns start when a worker is free, so each is at another row of the same sweep, and what it finds cached
 * is chance; but what is read beside another column is still there.
 */
static double swept_bytes(double spill, const s2_sweep *own, double beside)
{
    const double found = own->distinct > spill ? spill / own->distinct : 1;
    return own->distinct - own->kept * found + (own->reads - own->distinct - beside) * (1 - found);
}

/*
 * Columns that add to dQ in order walk from their diagonals on, each longer than the one before, so that those that run
 * are spread over all queries: what the cache does not hold, none reads for another. What they add to is read, and
 * written back; the first of them stores it. O and dO are read for their sums before, and the copy of dQ to be rounded.
 */
static void add_fused_bytes(const s2_time_model *model, const s2_kernel_load *load, double gone,
                            double missed, s2_bytes *bytes)
{
    const double one = load->q_bytes / 3, dq = load->dq_bytes, spill = model->spill_mb * 1e6;
    double rows = 0;
    for (int32_t at = 0; at < load->n_sweeps; at++)
        rows += swept_bytes(spill, &load->sweeps[at], 0);
    const double again = fmax(rows - 2 * one - dq, 0), again_dq = again * dq / (2 * one + dq);
    bytes->l2 += load->column_bytes + load->sum_bytes + 3 * one + dq;
    bytes->dram_read += (again + gone * (one + dq)) * missed;
    bytes->dram_write += load->sum_bytes + (again_dq + gone * dq) * missed;
}

/*
 * A backward pass reads its rows three times: O and dO for their sums, Q and dO by columns, Q and dO by
 * tiles; keys by columns and by tiles. Each reading finds what the last one left in the cache, except the
 * share `gone`. All but the sums copy whole lines of the cache. Sums of parts are written back as far as they are
 * `evicted`.
 */
static void add_column_bytes(const s2_time_model *model, const s2_kernel_load *load, double gone,
                             double missed, double evicted, s2_bytes *bytes)
{
    const double one = load->q_bytes / 3, lines = 1 + load->amid, spill = model->spill_mb * 1e6 / lines;
    const double passes = load->column_passes > 1 ? 2 : 1;
    const double again = load->again_bytes > 0 ? one + lines * (load->again_bytes - one) : 0;
    double rows = 0;
    for (int32_t at = 0; at < load->n_sweeps; at++)
        rows += passes * swept_bytes(spill, &load->sweeps[at], load->sweeps[at].beside);
    const double beside = load->again_bytes > 0 ? 3 : 2; /* O, dQ, and dO where its sums read it too */
    bytes->l2 += passes * load->column_bytes + load->sum_bytes + beside * one;
    bytes->dram_write += load->sum_bytes * evicted;
    bytes->dram_read += (lines * fmax(rows - 2 * one, 0) + gone * again) * missed;
}

static s2_bytes bytes_of(const s2_time_model *model, const s2_kernel_model *kernel,
                         const s2_kernel_load *load, bool cold, bool counted)
{
    const double all = load->q_bytes + load->kv_bytes + load->dq_bytes + load->out_bytes,
                 whole = model->whole_mb * 1e6, evicted = all > whole ? 1 - whole / all : 0;
    const bool backward = load->pass == S2_PASS_BACKWARD;
    const double lines = backward ? 1 + load->amid : 1, copied = load->q_bytes * 2 / 3; /* but O */
    s2_bytes bytes = {.l2 = kernel->padded ? load->whole_bytes : load->load_bytes};
    double kv = 0;
    for (int32_t at = 0; at < load->n_generations; at++)
        kv += fetched_bytes(model, &load->generations[at], lines);
    /* when a launch repeats over the same tensors, the cache still holds a share of them */
    const double missed = cold ? 1 : missed_share(kernel, load);
    const bool fits = load->kv_bytes * lines <= model->cache_mb * 1e6;
    bytes.dram_read =
        (load->q_bytes + copied * (lines - 1) + (fits ? load->kv_bytes : fmax(kv, load->kv_bytes)) * lines) *
        missed;
    bytes.dram_write = load->out_bytes * evicted * (cold ? 1 : missed);
    const double gone = counted ? 1 : fmax(0, fmin(1, all / whole - 1));
    if (backward && load->fused)
        add_fused_bytes(model, load, gone, missed, &bytes);
    else if (backward)
        add_column_bytes(model, load, gone, missed, evicted, &bytes);
    return bytes;
}

s2_bytes s2_model_bytes(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                        bool cold)
{
    return bytes_of(model, kernel, load, cold, false);
}

s2_bytes s2_model_counted(const s2_time_model *model, const s2_kernel_model *kernel,
                          const s2_kernel_load *load)
{
    return bytes_of(model, kernel, load, true, true);
}

double s2_model_clock(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                      const s2_bytes *bytes, double us, double mhz)
{
    const double cycles = us * mhz * model->n_sms;
    const double product = load->dtype == S2_F16  ? model->clock_fp16
                           : load->dtype == S2_F8 ? model->clock_fp8
                                                  : 1;
    const double matrix =
        ((load->flop - load->zero_flop) * product + load->flop * kernel->draw) / (model->mma_flop * cycles);
    const double drawn = model->clock_base + matrix + model->clock_l2 * bytes->l2 / cycles +
                         model->clock_hbm * (bytes->dram_read + bytes->dram_write) / cycles;
    const double f = model->max_mhz * pow(model->clock_limit / drawn, model->clock_q);
    return s2_min_f64(f, model->max_mhz);
}

static double power_sum(double a, double b, double c, double p)
{
    const double most = fmax(a, fmax(b, c));
    return most <= 0 ? 0 : most * pow(pow(a / most, p) + pow(b / most, p) + pow(c / most, p), 1 / p);
}

static void at_clock(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                     double mhz, const s2_busy *busy, s2_forecast *forecast)
{
    forecast->mhz = mhz;
    forecast->cycles = busy->end;
    forecast->imbalance = busy->imbalance;
    forecast->compute_us = forecast->cycles / mhz;
    forecast->hbm_us = (forecast->bytes.dram_read * (1 + kernel->amid * load->amid) +
                        forecast->bytes.dram_write - forecast->before_bytes) /
                       (kernel->hbm_gb_s * 1e3);
    /* an SM draws no more than its share of the rate, so the busiest one decides */
    forecast->l2_us = forecast->bytes.l2 / (model->l2_gb_s * 1e3) * fmax(1, forecast->imbalance);
    forecast->us = forecast->launch_us + forecast->before_us +
                   power_sum(forecast->compute_us, forecast->hbm_us, forecast->l2_us, model->power) +
                   forecast->tail_cycles / mhz;
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

/*
 * A backward pass first computes the sums of O and dO, row by row, and reads both for that; one of short windows makes
 * them as it goes. The copy of dQ is rounded at the end.
 */
static void take_sums(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                      double missed, s2_forecast *forecast)
{
    const double bytes = load->q_bytes * (load->fused ? 3 : 2) / 3 + load->dq_bytes;
    forecast->before_us =
        bytes * missed / (kernel->hbm_gb_s * 1e3) + bytes * (1 - missed) / (model->l2_gb_s * 1e3);
    forecast->before_bytes =
        fmin(bytes * missed, forecast->bytes.dram_read + (load->fused ? forecast->bytes.dram_write : 0));
}

/*
 * The first blocks of a launch come to SMs that the one before left idle, and begin there; others come when it ends.
 * One SM has a block of a forward, or eight of those that turn V into panels.
 */
static double early_us(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load)
{
    enum { PANEL_BLOCKS = 8 };
    const double idle = fmax(0, model->n_sms - (double)load->n_items);
    if (load->pass == S2_PASS_DECODE) /* one after another have SMs of their own */
        return fmin(kernel->early, kernel->launch_us) * idle / model->n_sms;
    const double share =
        load->panel_blocks > 0 ? PANEL_BLOCKS * idle / load->panel_blocks : idle / (double)load->n_items;
    return fmin(kernel->early, kernel->launch_us) * fmin(1, share);
}

void s2_model_run(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                  bool cold, double mhz, s2_forecast *out)
{
    const double missed = cold ? 1 : missed_share(kernel, load);
    s2_forecast forecast = {.launch_us = kernel->launch_us + kernel->miss_us * missed + load->after_us -
                                         early_us(model, kernel, load),
                            .bytes = s2_model_bytes(model, kernel, load, cold)};
    forecast.tail_cycles = load->pass == S2_PASS_DECODE ? tail_cycles(kernel, load) : 0;
    if (load->pass == S2_PASS_BACKWARD && !s2_model_is_short(kernel))
        take_sums(model, kernel, load, missed, &forecast);
    if (load->panel_bytes > 0)
        forecast.before_us = load->panel_bytes * missed / (kernel->hbm_gb_s * 1e3) +
                             load->panel_bytes * (1 - missed) / (model->l2_gb_s * 1e3);
    if (s2_model_plans_lists(kernel)) /* by a launch of its own */
        forecast.before_us = (kernel->part * (double)load->n_listed + kernel->column * (double)load->n_seen) /
                             model->n_sms / model->max_mhz;
    double f = mhz > 0 ? mhz : model->max_mhz;
    s2_busy busy = busy_of(kernel, load, missed, (int32_t)model->n_sms, model->max_mhz / f);
    at_clock(model, kernel, load, f, &busy, &forecast);
    /* a lower clock makes the launch longer and the chip less busy, so the rounds converge */
    for (int32_t round = 0; mhz <= 0 && round < 8; round++) {
        f = s2_model_clock(model, kernel, load, &forecast.bytes, forecast.us, f);
        if (busy.waits)
            busy = busy_of(kernel, load, missed, (int32_t)model->n_sms, model->max_mhz / f);
        at_clock(model, kernel, load, f, &busy, &forecast);
    }
    forecast.by = limit_of(&forecast);
    *out = forecast;
}
