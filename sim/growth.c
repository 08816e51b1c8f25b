#include "sim/growth.h"

#include <math.h>

#include "base/arith.h"

/* How many lengths and steps of work (base/work.h) one question may take: some milliseconds. */
enum { LENGTHS = 4096, STEPS = 1 << 21 };

/* ---- what repeats */

static void add_summary(s2_growth *growth, int64_t page_tok, int64_t n_elems)
{
    int32_t s = 0;
    while (s < growth->n_summaries && growth->summary_tok[s] != page_tok)
        s++;
    if (s == S2_GROWTH_SUMMARIES) {
        growth->exact = false; /* the smallest page has the most summaries */
        s = 0;
        page_tok = s2_min_i64(page_tok, growth->summary_tok[0]);
    }
    growth->n_summaries += s == growth->n_summaries;
    growth->summary_tok[s] = page_tok;
    growth->summary_elems[s] += n_elems;
}

static void note_group(s2_growth *growth, const s2_layer_class *layer, int32_t kv, int32_t n_group,
                       bool *selects_tokens)
{
    int64_t page_tok = 0;
    for (int32_t nth = 0; nth < layer->n_readers * n_group; nth++) {
        const int32_t *const head_class = layer->readers[nth / n_group];
        const s2_reads *const reads = &growth->classes.reads[head_class[kv * n_group + nth % n_group]];
        if (reads->page_tok != 0 && (page_tok == 0 || reads->page_tok < page_tok))
            page_tok = reads->page_tok;
        *selects_tokens |= reads->selects_tokens;
        growth->exact &= reads->heavy_tok == 0;
    }
    if (page_tok != 0)
        add_summary(growth, page_tok, (int64_t)layer->head_dim * layer->n_layers);
}

static void note_layers(s2_growth *growth)
{
    const int32_t n_heads = growth->classes.pattern->n_heads;
    for (int32_t c = 0; c < growth->classes.n_layer_classes; c++) {
        const s2_layer_class *const layer = &growth->classes.layers[c];
        bool selects_tokens = false;
        if (layer->n_readers == 0)
            continue;
        for (int32_t kv = 0; kv < layer->n_kv_heads; kv++)
            note_group(growth, layer, kv, s2_layer_group(layer, n_heads), &selects_tokens);
        growth->token_elems += (int64_t)layer->n_kv_heads * layer->head_dim * layer->n_layers;
        growth->n_index_layers +=
            selects_tokens ? s2_index_layers(growth->classes.pattern, layer->n_layers) : 0;
    }
}

/* A mask file decides up to its last row and column; nothing beyond is read. */
static void note_masks(const s2_view *view, s2_view_shape *shape)
{
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_mask *const mask = view->body->terms[view->atoms[a].term].mask;
        if (view->atoms[a].kind != S2_ATOM_MASK)
            continue;
        const int64_t n_blk = s2_max_i32(mask->n_q_blk, mask->n_k_blk);
        const int64_t end = n_blk * view->pattern->block_tok;
        shape->threshold = s2_max_i64(end, shape->threshold);
    }
}

static void note_heads(s2_growth *growth)
{
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    int64_t period = growth->page_tok, heavy_tok = 0;
    for (int32_t c = 0; c < growth->classes.n_reads; c++) {
        const s2_reads *const reads = &growth->classes.reads[c];
        s2_view_shape_add(&shape, &reads->view);
        if (reads->may.n_atoms > 0)
            s2_view_shape_add(&shape, &reads->may);
        note_masks(&reads->view, &shape);
        heavy_tok = s2_max_i64(reads->heavy_tok, heavy_tok);
    }
    for (int32_t s = 0; s < growth->n_summaries; s++)
        period = s2_period_lcm(period, growth->summary_tok[s]);
    period = s2_period_lcm(s2_period_lcm(period, shape.key_period), shape.query_period);
    const int64_t block = growth->classes.pattern->block_tok;
    growth->step_tok = shape.block_aligned ? block : 1;
    growth->settled_tok = growth->period_tok = S2_OPEN;
    if (period >= S2_LIMIT_CONTEXT_TOK || shape.threshold >= S2_LIMIT_CONTEXT_TOK ||
        shape.reach >= S2_LIMIT_CONTEXT_TOK)
        return;
    /* shared tokens settle once no window reaches them */
    const int64_t settled =
        growth->shared_tok + shape.threshold + shape.reach + heavy_tok + growth->page_tok + period;
    if (settled + period < S2_LIMIT_CONTEXT_TOK) {
        growth->settled_tok = s2_round_up(settled, period);
        growth->period_tok = period;
    }
}

/* ---- bytes at a length */

/* Bytes of one element of K and one of V; a summary also has two. */
static double pair_bytes(const s2_growth *growth)
{
    return 2.0 * growth->elem_bytes;
}

static double meta_bytes(const s2_growth *growth, int64_t n_tok)
{
    double bytes =
        (double)growth->n_index_layers * (double)n_tok * (double)s2_index_key_bytes(growth->classes.pattern);
    for (int32_t s = 0; s < growth->n_summaries; s++)
        bytes += pair_bytes(growth) * (double)growth->summary_elems[s] *
                 (double)s2_ceil_div(n_tok, growth->summary_tok[s]);
    return bytes;
}

static s2_status counted_bytes(s2_growth *growth, int64_t n_tok, double *out)
{
    int64_t elems;
    *out = 0;
    if (n_tok <= growth->shared_tok)
        return S2_OK;
    S2_TRY(s2_kv_head_pages(&growth->classes, growth->shared_tok, n_tok, growth->page_tok, &elems));
    *out = (double)elems * pair_bytes(growth) + meta_bytes(growth, n_tok) -
           meta_bytes(growth, growth->shared_tok);
    return S2_OK;
}

static s2_status bytes_at(s2_growth *growth, int64_t n_tok, double *out)
{
    const int64_t beyond = n_tok - growth->settled_tok;
    if (growth->settled_tok == S2_OPEN || beyond <= growth->period_tok)
        return counted_bytes(growth, n_tok, out);
    const int64_t n = (beyond - 1) / growth->period_tok;
    S2_TRY(counted_bytes(growth, n_tok - n * growth->period_tok, out));
    *out += (double)n * growth->gain_bytes;
    return S2_OK;
}

/* The most that can be gained between two lengths. */
static double gained_bytes(const s2_growth *growth, int64_t from, int64_t to)
{
    const int64_t pages = s2_ceil_div(to, growth->page_tok) - from / growth->page_tok;
    return pair_bytes(growth) * (double)(growth->token_elems * pages * growth->page_tok) +
           meta_bytes(growth, to) - meta_bytes(growth, from);
}

s2_status s2_growth_init(const s2_classes *classes, int64_t shared_tok, int32_t page_tok, double elem_bytes,
                         s2_growth *out)
{
    *out = (s2_growth){.classes = *classes,
                       .work_left = STEPS,
                       .page_tok = page_tok,
                       .shared_tok = shared_tok / page_tok * page_tok,
                       .elem_bytes = elem_bytes,
                       .exact = true};
    out->classes.work_left = &out->work_left;
    note_layers(out);
    note_heads(out);
    if (out->settled_tok == S2_OPEN)
        return S2_OK;
    double before, after;
    s2_status status = counted_bytes(out, out->settled_tok, &before);
    if (status == S2_OK)
        status = counted_bytes(out, out->settled_tok + out->period_tok, &after);
    if (status == S2_OK)
        out->gain_bytes = after - before;
    else if (status == S2_ELIMIT)
        out->settled_tok = out->period_tok = S2_OPEN;
    return status == S2_ELIMIT ? S2_OK : status;
}

int64_t s2_growth_spent(const s2_growth *growth)
{
    return STEPS - s2_max_i64(growth->work_left, 0);
}

/* ---- the peak */

typedef struct s2_stretch {
    int64_t from, to;
    double from_bytes, to_bytes;
} s2_stretch;

/* Where to halve: at multiples of the coarsest step that fits inside. */
static int64_t middle_of(const s2_growth *growth, const s2_stretch *stretch)
{
    const int64_t coarse[] = {growth->step_tok * growth->page_tok, growth->step_tok, growth->page_tok, 1};
    const int64_t middle = stretch->from + (stretch->to - stretch->from) / 2;
    for (size_t n = 0; n < sizeof coarse / sizeof *coarse; n++) {
        const int64_t below = middle / coarse[n] * coarse[n];
        if (below > stretch->from)
            return below;
        if (below + coarse[n] < stretch->to)
            return below + coarse[n];
    }
    return middle;
}

/* Whether no length inside holds more than the longer end: within one block keys are only added. */
static bool only_grows(const s2_growth *growth, const s2_stretch *stretch)
{
    return growth->step_tok > 1 && stretch->from / growth->step_tok == (stretch->to - 1) / growth->step_tok;
}

static void raise_peak(s2_growth_peak *peak, double bytes, int64_t tok)
{
    if (bytes > peak->bytes || (bytes == peak->bytes && tok < peak->tok))
        *peak = (s2_growth_peak){bytes, tok, peak->exact};
}

/* The peak in (from, to]; the bound replaces it where work runs out. */
static s2_status search_stretch(s2_growth *growth, int64_t from, int64_t to, s2_growth_peak *peak)
{
    enum { DEPTH = 64 };
    s2_stretch stack[DEPTH] = {{.from = from, .to = to}};
    int32_t n = 1, lengths = LENGTHS;
    if (from > 0)
        S2_TRY(bytes_at(growth, from, &stack[0].from_bytes));
    S2_TRY(bytes_at(growth, to, &stack[0].to_bytes));
    raise_peak(peak, stack[0].to_bytes, to);
    while (n > 0) {
        const s2_stretch own = stack[--n];
        const double limit = own.from_bytes + gained_bytes(growth, own.from, own.to);
        if (own.to - own.from <= 1 || limit <= peak->bytes || only_grows(growth, &own))
            continue;
        const int64_t middle = middle_of(growth, &own);
        double bytes;
        const s2_status status =
            lengths-- > 0 && n + 2 <= DEPTH ? bytes_at(growth, middle, &bytes) : S2_ELIMIT;
        if (status == S2_ELIMIT) {
            *peak = (s2_growth_peak){limit, own.to, false};
            continue;
        }
        S2_TRY(status);
        raise_peak(peak, bytes, middle);
        stack[n++] = (s2_stretch){own.from, middle, own.from_bytes, bytes};
        stack[n++] = (s2_stretch){middle, own.to, bytes, own.to_bytes};
    }
    return S2_OK;
}

s2_status s2_growth_find_peak(s2_growth *growth, int64_t n_tok, s2_growth_peak *out)
{
    s2_growth_peak peak = {0, 0, true};
    const int64_t settled = growth->settled_tok;
    growth->work_left = STEPS;
    /* no length between the settled one and the last period holds more than the last period does */
    const bool folds = settled != S2_OPEN && n_tok > settled + growth->period_tok;
    s2_status status = search_stretch(growth, 0, folds ? settled : n_tok, &peak);
    if (status == S2_OK && folds)
        status = search_stretch(growth, n_tok - growth->period_tok, n_tok, &peak);
    if (status == S2_ELIMIT)
        peak = (s2_growth_peak){gained_bytes(growth, 0, n_tok), n_tok, false};
    else if (status != S2_OK)
        return status;
    peak.exact = peak.exact && (growth->exact || !folds);
    *out = peak;
    return S2_OK;
}

/* ---- the longest context */

/* The longest length that certainly fits, when `from` takes from_bytes. */
static int64_t leap(const s2_growth *growth, int64_t from, double from_bytes, double room_bytes,
                    int64_t limit)
{
    int64_t fits = from, beyond = limit + 1;
    while (beyond - fits > 1) {
        const int64_t middle = fits + (beyond - fits) / 2;
        if (from_bytes + gained_bytes(growth, from, middle) <= room_bytes)
            fits = middle;
        else
            beyond = middle;
    }
    return fits;
}

/* From a length that fits, go on to the last one before one that does not, or to `limit`. */
static s2_status walk(s2_growth *growth, double room_bytes, int64_t limit, int32_t *lengths, int64_t *tok)
{
    double bytes = 0;
    if (*tok > 0)
        S2_TRY(bytes_at(growth, *tok, &bytes));
    while (*tok < limit && bytes <= room_bytes && (*lengths)-- > 0) {
        int64_t next = leap(growth, *tok, bytes, room_bytes, limit);
        next = next > *tok ? next : *tok + 1;
        S2_TRY(bytes_at(growth, next, &bytes));
        if (bytes <= room_bytes)
            *tok = next;
    }
    return S2_OK;
}

/* Skip whole periods after the settled length that fit: each one adds the same gain. */
static s2_status skip_periods(s2_growth *growth, double room_bytes, int64_t *tok)
{
    s2_growth_peak peak = {0, 0, true};
    const int64_t settled = growth->settled_tok, period = growth->period_tok;
    S2_TRY(search_stretch(growth, settled, settled + period, &peak));
    const int64_t most = (S2_LIMIT_CONTEXT_TOK - settled) / period;
    if (peak.bytes > room_bytes)
        return S2_OK;
    const double n =
        growth->gain_bytes > 0 ? floor((room_bytes - peak.bytes) / growth->gain_bytes) + 1 : (double)most;
    *tok = settled + period * (n < (double)most ? (int64_t)n : most);
    return S2_OK;
}

s2_status s2_growth_find_longest(s2_growth *growth, double room_bytes, int64_t *out)
{
    int64_t tok = 0;
    int32_t lengths = LENGTHS;
    const bool folds = growth->settled_tok != S2_OPEN;
    const int64_t limit = S2_LIMIT_CONTEXT_TOK, first = folds ? growth->settled_tok : limit;
    growth->work_left = STEPS;
    s2_status status = room_bytes >= 0 ? walk(growth, room_bytes, first, &lengths, &tok) : S2_OK;
    if (status == S2_OK && folds && tok == first)
        status = skip_periods(growth, room_bytes, &tok);
    if (status == S2_OK && folds && tok >= first)
        status = walk(growth, room_bytes, limit, &lengths, &tok);
    if (status != S2_OK && status != S2_ELIMIT)
        return status;
    *out = tok;
    return S2_OK;
}
