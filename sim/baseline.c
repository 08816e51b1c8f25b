#include "sim/baseline.h"

#include <string.h>

#include "base/arith.h"
#include "sim/capacity.h"

/* Half of the KV heads are every second one, so that ranks that share them have as many each, where they can. */
static const s2_baseline baselines[] = {
    {"dense", S2_BASELINE_PATTERN, "heads all: dense"},
    {"window 4096", S2_BASELINE_PATTERN, "heads all: local 4096t"},
    {"StreamingLLM", S2_BASELINE_PATTERN, "heads all: sink 4t | local 2000t"},
    {"DuoAttention", S2_BASELINE_PATTERN, "heads all: sink 64t | local 256t; kv :%H:2: dense"},
    {"LServe", S2_BASELINE_PATTERN,
     "prefill heads all: sink 128t | local 8192t; decode heads all: sink 128t | local 256t; kv :%H:2 "
     "prefill: dense; kv :%H:2 decode: pages 64 page 64"},
    {"H2O", S2_BASELINE_PATTERN, "heads all: heavy %T | local %Tt"},
    {"Quest", S2_BASELINE_PATTERN, "prefill: dense; decode: pages 64 page 16%L"},
    {"Hydra linear state", S2_BASELINE_LINEAR, "heads all: dense"},
    {"tiered memory", S2_BASELINE_TIERED, "heads all: dense"},
};

const s2_baseline *s2_baseline_at(int32_t nth)
{
    return nth >= 0 && nth < (int32_t)(sizeof baselines / sizeof baselines[0]) ? &baselines[nth] : NULL;
}

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

void s2_baseline_text(const s2_baseline *baseline, const s2_pattern *like, int64_t len_tok, s2_buf *buf)
{
    s2_buf_printf(buf, "name %s; layers %d; heads %d; kv-heads %d; head-dim %d; block %d; ", baseline->name,
                  like->n_layers, like->n_heads, like->n_kv_heads, like->head_dim, like->block_tok);
    for (const char *rest = baseline->rules; *rest != '\0'; rest++) {
        if (*rest != '%')
            s2_buf_add(buf, rest, 1);
        else if (*++rest == 'H')
            s2_buf_printf(buf, "%lld", (long long)at_least_one(like->n_kv_heads / 2 * 2));
        else if (*rest == 'T')
            s2_buf_printf(buf, "%lld", (long long)at_least_one(len_tok / 10));
        else if (like->n_layers > 2)
            s2_buf_puts(buf, "; layers 0,1: dense");
    }
}

/*
 * Attention with a new time, of which a training step takes a third forward, the rest backward, and the third once
 * more where it recomputes; the parts around it are unchanged, and those of the dense pattern alone go.
 */
static void set_time(s2_sim *sim, double time_us, double bound_us, s2_resource by)
{
    const bool trains = sim->n_parts > 1 && s2_part_is(&sim->parts[1], "attention backward");
    const double forward_us = trains ? time_us / 3 : time_us;
    double sum_us = 0;
    int32_t n_parts = 0;
    for (int32_t nth = 0; nth < sim->n_parts; nth++) {
        s2_part part = sim->parts[nth];
        const bool backward = s2_part_is(&part, "attention backward");
        if (s2_part_is(&part, "host memory") || s2_part_is(&part, "selection"))
            continue;
        if (backward || s2_part_is(&part, "attention") || s2_part_is(&part, "attention again")) {
            part.time_us = backward ? time_us - forward_us : forward_us;
            part.bound_by = by;
        }
        sum_us += part.time_us;
        sim->parts[n_parts++] = part;
    }
    sim->n_parts = n_parts;
    sim->end_to_end_us = sim->end_to_end_us > 0 ? sum_us : 0;
    sim->time_us = time_us;
    sim->bound_us = bound_us;
    sim->bound_by = by;
    if (!sim->predicted)
        return;
    /* a bound is compared with one */
    sim->predicted = false;
    if (sim->end_to_end_dense_us > 0)
        sim->end_to_end_dense_us += sim->dense_plan_us - sim->dense_time_us;
    sim->dense_time_us = sim->dense_plan_us;
}

/* What a method keeps in device memory: the newest tokens of a dense cache, and a state of all sequences. */
typedef struct s2_newest {
    int64_t window_tok;
    int64_t state_bytes;
} s2_newest;

static int64_t kept_at(const s2_sim_options *options, s2_newest kept, int64_t token_bytes, int64_t len_tok)
{
    return token_bytes * s2_min_i64(s2_round_up(len_tok, options->page_tok),
                                    s2_round_up(kept.window_tok, options->page_tok)) +
           kept.state_bytes;
}

/* The cache at this length and others, its peak, and what fits; nothing of the dense pattern's stays. */
static void set_cache(const s2_pattern *like, const s2_sim_options *options, s2_newest kept, s2_sim *sim)
{
    enum { SAMPLES = 64 }; /* as s2_kv_mean() */
    const int64_t n_tok = options->len_tok, pages_tok = s2_round_up(n_tok, options->page_tok),
                  token = sim->kv.dense / pages_tok, token_each = sim->kv_dense_each / pages_tok,
                  n_blk = s2_ceil_div(n_tok, like->block_tok), n_points = s2_min_i64(n_blk, SAMPLES),
                  now = kept_at(options, kept, token, n_tok);
    const s2_newest each = {kept.window_tok, kept.state_bytes / options->n_ranks};
    double total = 0;
    sim->kv = (s2_kv_bytes){sim->kv.dense, now, now, now, now};
    sim->kv_kept = now;
    sim->kv_fullest = sim->kv_peak = kept_at(options, each, token_each, n_tok);
    sim->kv_peak_tok = s2_clamp_i64(n_tok, 1, s2_max_i64(kept.window_tok, 1));
    sim->kv_peak_exact = true;
    if (n_tok > kept.window_tok)
        sim->kv_wasted[0] = sim->kv_wasted[1] = 0;
    for (int32_t p = 0; p < sim->n_kv_points; p++) {
        s2_kv_point *const point = &sim->kv_points[p];
        const int64_t own = kept_at(options, kept, token, point->len_tok);
        point->bytes = (s2_kv_bytes){point->bytes.dense, own, own, own, own};
    }
    for (int64_t point = 1; point <= n_points; point++)
        total += (double)kept_at(options, kept, token,
                                 s2_min_i64(n_blk * point / n_points * like->block_tok, n_tok));
    sim->kv_mean = total / (double)n_points;
    sim->host_bytes = sim->host_read_bytes = 0;
    sim->link_us = 0;
    sim->lack_bytes = s2_capacity_lack(options, (double)sim->kv_fullest);
    if (options->phase != S2_TRAIN)
        s2_capacity_fit_window(options, (double)token_each / (double)options->batch, kept.window_tok,
                               (double)each.state_bytes / (double)options->batch, sim);
}

/*
 * Each query multiplies a state elementwise and each key adds to it: 4 D operations per token and head.
 * Q, K, V and O pass through memory once.
 */
static void price_linear(const s2_pattern *like, const s2_sim_options *options, s2_sim *sim)
{
    const int64_t elem = s2_dtype_bytes(options->dtype), width = like->head_dim;
    const int64_t tokens = (options->phase == S2_DECODE ? 1 : options->len_tok) * options->batch;
    const int64_t heads = (int64_t)like->n_layers * like->n_heads;
    const int64_t state = heads * width * elem * options->batch;
    const int64_t passes = options->phase == S2_TRAIN ? 3 : 1;
    const int64_t rows = tokens * like->n_layers * (like->n_heads + 2 * (int64_t)like->n_kv_heads);
    sim->counts.pairs = 0;
    sim->counts.flop_useful = sim->counts.flop_executed = 4 * width * heads * tokens * passes;
    sim->counts.exp_useful = sim->counts.exp_executed = 0;
    sim->counts.hbm_read = rows * width * elem * passes + state;
    sim->counts.hbm_write = tokens * heads * width * elem * passes + state;
    sim->counts.l2 = sim->counts.hbm_read;
    set_cache(like, options, (s2_newest){0, state}, sim);
    sim->density = sim->token_density = 0; /* it reads a state and no keys */
    const double hbm_us =
        (double)(sim->counts.hbm_read + sim->counts.hbm_write) / (options->gpu.hbm_gb_s * 1e3);
    const double launch_us = options->gpu.launch_us * like->n_layers * (double)passes;
    const double bound_us = s2_max_f64(hbm_us, launch_us) / options->n_ranks;
    set_time(sim, bound_us, bound_us, hbm_us > launch_us ? S2_HBM : S2_LAUNCH);
}

/* Keys before the window cross the link at each decoded token; prefill runs from device memory. */
static void price_tiered(const s2_pattern *like, const s2_sim_options *options, s2_sim *sim)
{
    enum { WINDOW_TOK = 8192 };
    const int64_t far_tok = options->len_tok > WINDOW_TOK ? options->len_tok - WINDOW_TOK : 0,
                  far_bytes =
                      far_tok * (sim->kv_dense_each / s2_round_up(options->len_tok, options->page_tok));
    set_cache(like, options, (s2_newest){WINDOW_TOK, 0}, sim);
    if (options->phase != S2_DECODE || options->gpu.pcie_gb_s <= 0)
        return;
    const double link_us = (double)far_bytes / (options->gpu.pcie_gb_s * 1e3);
    sim->host_bytes = sim->host_read_bytes = far_bytes;
    sim->link_us = link_us;
    sim->kv_fullest += far_bytes;
    if (link_us > sim->time_us)
        set_time(sim, link_us, s2_max_f64(link_us, sim->bound_us), S2_LINK);
}

void s2_baseline_adjust(const s2_baseline *baseline, const s2_pattern *like, const s2_sim_options *options,
                        s2_sim *sim)
{
    if (baseline->kind == S2_BASELINE_LINEAR)
        price_linear(like, options, sim);
    if (baseline->kind == S2_BASELINE_TIERED)
        price_tiered(like, options, sim);
}
