#include "sim/capacity.h"

#include <math.h>

#include "base/arith.h"
#include "base/work.h"
#include "sim/activations.h"
#include "sim/attention.h"
#include "sim/endtoend.h"
#include "sim/experts.h"
#include "sim/growth.h"
#include "sim/share.h"

double s2_capacity_room(const s2_sim_options *options)
{
    return fmax(0, s2_sim_memory_bytes(options) - (double)s2_end_to_end_weight_bytes(options));
}

/* ---- what a pass of inference holds */

double s2_capacity_pass(const s2_sim_options *options, double n_tok, double n_logits)
{
    if (options->net == NULL)
        return 0;
    const double picked = s2_experts_deal(options, n_tok / options->n_context).imbalance;
    return n_tok * s2_activations_passing(options, picked) +
           options->n_context * (n_logits * s2_activations_chosen(options) + s2_activations_parts(options));
}

/*
 * Of all sequences that are computed at a time: all of a batch, or of one microbatch of a pipeline. A prompt needs
 * the logits of its last token, a decode step those of every token.
 */
static double activations_at(const s2_sim_options *options, int64_t batch, int64_t len_tok)
{
    const bool decode = options->phase == S2_DECODE;
    const int64_t new_tok = options->new_tok, n_tok = decode        ? s2_max_i64(new_tok, 1)
                                                      : new_tok > 0 ? s2_min_i64(new_tok, len_tok)
                                                                    : len_tok;
    s2_sim_options own = *options;
    int32_t n_micro;
    int64_t n_seqs;
    if (options->phase == S2_TRAIN)
        return 0;
    own.batch = batch;
    s2_sim_microbatches(&own, &n_micro, &n_seqs);
    return s2_capacity_pass(options, (double)(n_seqs * n_tok), (double)(n_seqs * (decode ? n_tok : 1)));
}

double s2_capacity_activations(const s2_sim_options *options)
{
    return activations_at(options, options->batch, options->len_tok) / options->n_context;
}

/* What they leave for the cache. */
static double room_at(const s2_sim_options *options, int64_t batch, int64_t len_tok)
{
    return s2_capacity_room(options) - activations_at(options, batch, len_tok);
}

double s2_capacity_beyond(const s2_sim_options *options, double cache_bytes)
{
    return fmax(0, cache_bytes - fmax(0, room_at(options, options->batch, options->len_tok)));
}

double s2_capacity_lack(const s2_sim_options *options, double cache_bytes)
{
    return fmax(0, cache_bytes + activations_at(options, options->batch, options->len_tok) +
                       (double)s2_end_to_end_weight_bytes(options) - s2_sim_memory_bytes(options));
}

/* ---- which GPUs hold alike */

/* GPUs with the same heads are counted once. */
typedef struct s2_holder {
    s2_share share;
    int32_t n_gpus;
} s2_holder;

typedef struct s2_holders {
    const s2_sim_options *options;
    s2_holder *holders;
    int32_t n;
} s2_holders;

static bool hold_alike(const s2_share *a, const s2_share *b)
{
    for (int32_t c = 0; c < a->classes.n_layer_classes; c++)
        for (int32_t h = 0; h < a->shape.n_heads; h++)
            if (a->classes.layers[c].head_class[h] != b->classes.layers[c].head_class[h])
                return false;
    return true;
}

static s2_status add_holder(s2_arena *arena, const s2_classes *classes, int32_t rank, s2_holders *to)
{
    s2_share_heads heads;
    s2_holder *const own = &to->holders[to->n];
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    S2_TRY(s2_share_deal(arena, classes->pattern->n_heads, classes->pattern->n_kv_heads, to->options->n_ranks,
                         rank, NULL, &heads));
    S2_TRY(s2_share_classes(arena, classes, &heads, 0, classes->n_layer_classes, &own->share));
    for (int32_t n = 0; n < to->n; n++) {
        if (!s2_work_spend(classes->work_left, heads.n_heads))
            return S2_ELIMIT;
        if (!hold_alike(&to->holders[n].share, &own->share))
            continue;
        to->holders[n].n_gpus++;
        s2_arena_rewind(arena, mark);
        return S2_OK;
    }
    own->n_gpus = 1;
    to->n++;
    return S2_OK;
}

static s2_status find_holders(s2_arena *arena, const s2_classes *classes, const s2_sim_options *options,
                              s2_holders *out)
{
    s2_holders made = {options, S2_NEW(arena, s2_holder, options->n_ranks), 0};
    if (made.holders == NULL)
        return S2_ENOMEM;
    for (int32_t rank = 0; rank < options->n_ranks; rank++)
        S2_TRY(add_holder(arena, classes, rank, &made));
    *out = made;
    return S2_OK;
}

/* After prefill the cache keeps what decoding may still read. */
static s2_status holders_of(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t *work_left, s2_holders *out)
{
    s2_classes *const classes = S2_NEW(arena, s2_classes, 1);
    if (classes == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_classes_build(arena, pattern, S2_DECODE, classes));
    classes->work_left = work_left;
    return find_holders(arena, classes, options, out);
}

/* ---- the cache at a length */

static bool add_products(int64_t own, int64_t n, int64_t *sum)
{
    return s2_mul_i64(own, n, &own) && s2_add_i64(*sum, own, sum);
}

static bool add_bytes(s2_kv_bytes *sum, const s2_kv_bytes *own, int64_t n)
{
    return add_products(own->dense, n, &sum->dense) && add_products(own->used, n, &sum->used) &&
           add_products(own->head_pages, n, &sum->head_pages) &&
           add_products(own->shared_pages, n, &sum->shared_pages) &&
           add_products(own->ring_stripes, n, &sum->ring_stripes);
}

static int64_t kept_of(const s2_sim_options *options, const s2_kv_bytes *bytes)
{
    return options->keeps_all ? bytes->dense : bytes->head_pages;
}

/* Bytes of all GPUs together, and what is kept by the GPU that keeps the most. */
static s2_status bytes_at(const s2_holders *holders, int64_t len_tok, int32_t page_tok, s2_kv_bytes *all,
                          int64_t *fullest)
{
    const s2_sim_options *const options = holders->options;
    s2_kv_bytes sum = {0};
    int64_t most = 0;
    for (int32_t n = 0; n < holders->n; n++) {
        const s2_classes *const classes = &holders->holders[n].share.classes;
        s2_kv_elems elems;
        S2_TRY(s2_kv_count(classes, len_tok, page_tok, &elems));
        s2_kv_bytes own;
        S2_TRY(s2_kv_elems_bytes(&elems, s2_sim_cache_bytes(options), options->batch, &own));
        if (!add_bytes(&sum, &own, holders->holders[n].n_gpus))
            return S2_ELIMIT;
        most = s2_max_i64(most, kept_of(options, &own));
    }
    *all = sum;
    *fullest = most;
    return S2_OK;
}

static s2_status price_waste(const s2_holders *holders, s2_sim *sim)
{
    static const int32_t pages[2] = {16, 64};
    for (int32_t p = 0; p < 2; p++) {
        s2_kv_bytes bytes;
        int64_t fullest;
        S2_TRY(bytes_at(holders, holders->options->len_tok, pages[p], &bytes, &fullest));
        sim->kv_wasted[p] = bytes.head_pages - bytes.used;
    }
    return S2_OK;
}

/* The length, halved again and again down to one block. */
static s2_status price_points(const s2_holders *holders, int32_t block_tok, s2_sim *sim)
{
    const s2_sim_options *const options = holders->options;
    int32_t n = 1;
    while (n < S2_MAX_KV_POINTS && options->len_tok >> n >= block_tok)
        n++;
    for (int32_t p = 0; p < n; p++) {
        s2_kv_point *const point = &sim->kv_points[p];
        int64_t fullest;
        point->len_tok = options->len_tok >> (n - 1 - p);
        S2_TRY(bytes_at(holders, point->len_tok, options->page_tok, &point->bytes, &fullest));
    }
    sim->n_kv_points = n;
    return S2_OK;
}

/* ---- peak, and what fits */

/* The GPU that holds the most decides. */
static s2_status find_peak(const s2_holders *holders, s2_sim *sim)
{
    const s2_sim_options *const options = holders->options;
    s2_growth growth;
    double total = 0;
    sim->kv_peak_exact = true;
    for (int32_t n = 0; n < holders->n; n++) {
        s2_growth_peak own;
        double mean;
        const s2_classes *const classes = &holders->holders[n].share.classes;
        S2_TRY(s2_growth_init(classes, 0, options->page_tok, s2_sim_cache_bytes(options), &growth));
        S2_TRY(s2_growth_find_peak(&growth, options->len_tok, &own));
        sim->kv_peak_exact = sim->kv_peak_exact && own.exact;
        own.bytes += (double)classes->state_bytes;
        if (own.bytes * (double)options->batch >= 0x1p63)
            return S2_ELIMIT;
        if (own.bytes * (double)options->batch > (double)sim->kv_peak) {
            sim->kv_peak = (int64_t)(own.bytes * (double)options->batch);
            sim->kv_peak_tok = s2_max_i64(own.tok, 1);
        }
        S2_TRY(s2_kv_mean(classes, options->len_tok, options->page_tok, &mean));
        total += (mean * 2.0 * s2_sim_cache_bytes(options) + (double)classes->state_bytes) *
                 holders->holders[n].n_gpus;
    }
    sim->kv_mean = total * (double)options->batch;
    return S2_OK;
}

/* The pattern that says what stays: where nothing is freed, a dense one of the same shape. */
static s2_status find_kept(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                           s2_pattern *dense, const s2_pattern **out)
{
    if (options->keeps_all)
        S2_TRY(s2_attention_dense(arena, pattern, dense));
    *out = options->keeps_all ? dense : pattern;
    return S2_OK;
}

static s2_status peaks_of(const s2_classes *classes, const s2_sim_options *options, int64_t shared_tok,
                          int32_t n, const int64_t *len_tok, double *bytes)
{
    s2_growth growth;
    S2_TRY(s2_growth_init(classes, shared_tok, options->page_tok, s2_sim_cache_bytes(options), &growth));
    for (int32_t nth = 0; nth < n; nth++) {
        s2_growth_peak own;
        S2_TRY(s2_growth_find_peak(&growth, len_tok[nth], &own));
        if (!s2_work_spend(classes->work_left, s2_growth_spent(&growth)))
            return S2_ELIMIT;
        bytes[nth] = fmax(bytes[nth], own.bytes + (double)classes->state_bytes);
    }
    return S2_OK;
}

s2_status s2_capacity_peaks(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t shared_tok, int32_t n, const int64_t *len_tok, double *bytes)
{
    s2_pattern dense;
    s2_holders holders;
    int64_t own_work = S2_WORK_STEPS;
    S2_TRY(find_kept(arena, pattern, options, &dense, &pattern));
    S2_TRY(holders_of(arena, pattern, options, options->work_left != NULL ? options->work_left : &own_work,
                      &holders));
    for (int32_t at = 0; at < n; at++)
        bytes[at] = 0;
    for (int32_t h = 0; h < holders.n; h++)
        S2_TRY(peaks_of(&holders.holders[h].share.classes, options, shared_tok, n, len_tok, bytes));
    return S2_OK;
}

/* The longest context up to which the caches of `batch` sequences fit into so many bytes. */
static s2_status longest_in(const s2_holders *holders, int64_t batch, double bytes, int64_t *out)
{
    const s2_sim_options *const options = holders->options;
    int64_t least = S2_LIMIT_CONTEXT_TOK;
    for (int32_t n = 0; n < holders->n && least > 0; n++) {
        s2_growth growth;
        int64_t own;
        const s2_classes *const classes = &holders->holders[n].share.classes;
        const double room = bytes / (double)batch - (double)classes->state_bytes;
        S2_TRY(s2_growth_init(classes, 0, options->page_tok, s2_sim_cache_bytes(options), &growth));
        S2_TRY(s2_growth_find_longest(&growth, room, &own));
        least = s2_min_i64(own, least);
    }
    *out = least;
    return S2_OK;
}

/*
 * The longest context of `batch` sequences for which every shorter length fits too. Activations grow with the
 * length, so the room for caches shrinks: a length fits when the caches that fit beside its own activations are as
 * long. What one trial finds bounds the answer from the other side too, so that few are needed.
 */
static s2_status longest_fit(const s2_holders *holders, int64_t batch, int64_t *out)
{
    int64_t fits = 0, most, own;
    S2_TRY(longest_in(holders, batch, room_at(holders->options, batch, 0), &most));
    for (int64_t tried = most; fits < most; tried = most - (most - fits) / 2) {
        S2_TRY(longest_in(holders, batch, room_at(holders->options, batch, tried), &own));
        if (own >= tried) {
            fits = tried;
            most = s2_min_i64(most, own);
        } else {
            fits = s2_max_i64(fits, own);
            most = tried - 1;
        }
    }
    *out = fits;
    return S2_OK;
}

static double dense_token_bytes(const s2_holders *holders)
{
    const s2_classes *const classes = &holders->holders[0].share.classes;
    double elems = 0;
    for (int32_t c = 0; c < classes->n_layer_classes; c++) {
        const s2_layer_class *const layer = &classes->layers[c];
        if (layer->n_readers > 0)
            elems += (double)layer->n_kv_heads * layer->head_dim * layer->n_layers;
    }
    return 2.0 * elems * s2_sim_cache_bytes(holders->options);
}

static double in_pages(const s2_sim_options *options, int64_t len_tok)
{
    return (double)s2_round_up(len_tok, options->page_tok);
}

static double state_bytes(const s2_holders *holders)
{
    return (double)holders->holders[0].share.classes.state_bytes;
}

/* The most sequences of so many bytes each that fit beside what a pass of them holds. */
static int64_t batch_of(const s2_sim_options *options, double each)
{
    int64_t fits = 0, beyond = S2_LIMIT_BATCH + 1;
    while (beyond - fits > 1) {
        const int64_t tried = fits + (beyond - fits) / 2;
        if ((double)tried * each <= room_at(options, tried, options->len_tok))
            fits = tried;
        else
            beyond = tried;
    }
    return fits;
}

/* By the rule of longest_fit(), of a cache that takes as much for each of its pages. */
static int64_t longest_dense(const s2_sim_options *options, double token, double states)
{
    const double batch = (double)options->batch;
    int64_t fits = 0, beyond = S2_LIMIT_CONTEXT_TOK + 1;
    while (beyond - fits > 1) {
        const int64_t tried = fits + (beyond - fits) / 2;
        if (token * in_pages(options, tried) <= room_at(options, options->batch, tried) / batch - states)
            fits = tried;
        else
            beyond = tried;
    }
    return fits;
}

void s2_capacity_fit_window(const s2_sim_options *options, double token, int64_t window_tok, double state,
                            s2_sim *sim)
{
    const double window = token * in_pages(options, window_tok);
    sim->fit_batch = sim->fit_len_tok = 0;
    if (s2_capacity_room(options) <= 0)
        return;
    sim->fit_batch = batch_of(options, fmin(window, token * in_pages(options, options->len_tok)) + state);
    sim->fit_len_tok = longest_dense(options, token, state);
    if (sim->fit_len_tok >= window_tok)
        sim->fit_len_tok = longest_dense(options, 0, window + state);
}

/* The most sequences for which the walk along the lengths comes to this one; few: as many as the bound allows. */
static s2_status walked_batch(const s2_holders *holders, int64_t few, const s2_sim *sim, int64_t *out)
{
    const s2_sim_options *const options = holders->options;
    int64_t fits = few, beyond = batch_of(options, (double)sim->kv_fullest / (double)options->batch) + 1;
    while (beyond - fits > 1) {
        const int64_t tried = fits + (beyond - fits) / 2;
        int64_t longest;
        S2_TRY(longest_fit(holders, tried, &longest));
        if (longest >= options->len_tok)
            fits = tried;
        else
            beyond = tried;
    }
    *out = fits;
    return S2_OK;
}

/*
 * A batch only counts as fitting if the search for the longest context agrees at this length, so that the two
 * never contradict each other.
 */
static s2_status find_fit(const s2_holders *holders, s2_sim *sim)
{
    const s2_sim_options *const options = holders->options;
    const double token = dense_token_bytes(holders);
    int64_t batch = batch_of(options, (double)sim->kv_peak / (double)options->batch), longest;
    if (s2_capacity_room(options) <= 0)
        return S2_OK;
    S2_TRY(longest_fit(holders, options->batch, &sim->fit_len_tok));
    if (!sim->kv_peak_exact)
        S2_TRY(walked_batch(holders, batch, sim, &batch));
    for (; batch > 0; batch = batch * 15 / 16) {
        S2_TRY(longest_fit(holders, batch, &longest));
        if (longest >= options->len_tok)
            break;
    }
    sim->fit_batch = batch;
    if (sim->fit_len_tok >= options->len_tok && batch < options->batch)
        sim->fit_batch = options->batch;
    if (sim->fit_batch >= options->batch && sim->fit_len_tok < options->len_tok)
        sim->fit_len_tok = options->len_tok;
    sim->fit_batch_dense =
        batch_of(options, token * in_pages(options, options->len_tok) + state_bytes(holders));
    sim->fit_len_dense_tok = longest_dense(options, token, state_bytes(holders));
    return S2_OK;
}

static s2_status price_fit(const s2_holders *kept, s2_sim *sim)
{
    const s2_sim_options *const options = kept->options;
    S2_TRY(find_peak(kept, sim));
    /* training keeps activations and no cache (sim/training.h) */
    if (options->phase != S2_TRAIN)
        S2_TRY(find_fit(kept, sim));
    /* of a peak that is only a bound the walk along the lengths may know better */
    if (sim->kv_peak_exact || sim->fit_batch < options->batch)
        sim->lack_bytes = fmax(sim->lack_bytes, s2_capacity_lack(options, (double)sim->kv_peak));
    return S2_OK;
}

s2_status s2_capacity_price(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t *work_left, s2_sim *sim)
{
    s2_pattern dense;
    s2_holders holders;
    S2_TRY(holders_of(arena, pattern, options, work_left, &holders));
    sim->weight_bytes = s2_end_to_end_weight_bytes(options);
    S2_TRY(bytes_at(&holders, options->len_tok, options->page_tok, &sim->kv, &sim->kv_fullest));
    sim->kv_kept = kept_of(options, &sim->kv);
    sim->kv_dense_each = (int64_t)((dense_token_bytes(&holders) * in_pages(options, options->len_tok) +
                                    state_bytes(&holders)) *
                                   (double)options->batch);
    sim->lack_bytes = s2_capacity_lack(options, (double)sim->kv_fullest);
    sim->host_bytes = (int64_t)ceil(s2_capacity_beyond(options, (double)sim->kv_fullest));
    sim->host_dense_bytes = (int64_t)ceil(s2_capacity_beyond(options, (double)sim->kv_dense_each));
    if (options->times_only)
        return S2_OK;
    S2_TRY(price_waste(&holders, sim));
    S2_TRY(price_points(&holders, pattern->block_tok, sim));
    if (options->keeps_all) {
        S2_TRY(find_kept(arena, pattern, options, &dense, &pattern));
        S2_TRY(holders_of(arena, pattern, options, work_left, &holders));
    }
    return price_fit(&holders, sim);
}

/* ---- host memory */

/* Time to read the host's share of a step's reads, as if every kept key were read equally often. */
static double link_us(const s2_sim_options *options, double read_bytes, double host_bytes, double kv_bytes)
{
    if (options->gpu.pcie_gb_s <= 0 || kv_bytes <= 0)
        return 0;
    return read_bytes * (host_bytes / kv_bytes) / (options->gpu.pcie_gb_s * 1e3);
}

/* Attention and the reading over the link are assumed to overlap; no kernel here was measured doing so. */
void s2_capacity_spill(const s2_sim_options *options, s2_sim *sim)
{
    const double each = (double)sim->kv_dense_each, full = (double)sim->kv_fullest;
    const double host = (double)sim->host_bytes, dense_host = (double)sim->host_dense_bytes;
    if (options->phase != S2_DECODE)
        return;
    sim->link_dense_us = link_us(options, (double)sim->dense.hbm_read / options->n_ranks, dense_host, each);
    sim->dense_time_us = fmax(sim->dense_time_us, sim->link_dense_us);
    sim->link_us = link_us(options, sim->ranks.read_bytes, host, full);
    sim->host_read_bytes = (int64_t)(sim->link_us * options->gpu.pcie_gb_s * 1e3);
    if (host > 0) {
        sim->predicted = false;
        sim->error = (s2_error){.pct = S2_ERROR_UNKNOWN_PCT, .allowed = true};
    }
    if (sim->link_us <= sim->plan_us)
        return;
    /* neither the plan nor any other kernel can avoid the link */
    sim->plan_us = sim->link_us;
    sim->bound_us = fmax(sim->bound_us, sim->link_us);
    if (sim->link_us <= sim->time_us)
        return;
    sim->parts[sim->n_parts++] =
        (s2_part){.name = "host memory", .time_us = sim->link_us - sim->time_us, .bound_by = S2_LINK};
    sim->time_us = sim->link_us;
    sim->bound_by = S2_LINK;
}
