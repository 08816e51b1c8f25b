#include "sim/kv.h"

#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"

/* The query heads of one KV head or of a whole layer: [begin, end) in every layer that reads its keys. */
typedef struct s2_group {
    const s2_classes *classes;
    const s2_layer_class *layer;
    int32_t begin;
    int32_t end;
} s2_group;

static int32_t n_of(const s2_group *group)
{
    return group->layer->n_readers * (group->end - group->begin);
}

static int32_t class_at(const s2_group *group, int32_t nth)
{
    const int32_t n = group->end - group->begin;
    return group->layer->readers[nth / n][group->begin + nth % n];
}

static const s2_reads *reads_at(const s2_group *group, int32_t nth)
{
    return &group->classes->reads[class_at(group, nth)];
}

/* Slots of one KV head: a key and a value each. */
typedef struct s2_group_slots {
    int64_t used;
    int64_t paged;
    int64_t ring_stripes;
    int64_t meta;
} s2_group_slots;

/* Adds each distinct head once: stamps[class] == stamp marks those already added. */
static void add_kept(const s2_group *group, int64_t n_tok, int32_t *stamps, int32_t stamp, s2_combset *set)
{
    for (int32_t h = 0; h < n_of(group); h++) {
        const int32_t cls = class_at(group, h);
        if (stamps[cls] == stamp)
            continue;
        stamps[cls] = stamp;
        s2_reads_add_kept(&group->classes->reads[cls], n_tok, set);
    }
}

static int64_t heavy_of(const s2_group *group)
{
    int64_t heavy_tok = 0;
    for (int32_t h = 0; h < n_of(group); h++) {
        const int64_t own = reads_at(group, h)->heavy_tok;
        heavy_tok = s2_max_i64(own, heavy_tok);
    }
    return heavy_tok;
}

/* The pages, from `first` on, of the keys of `set` below `end`; `pages` is scratch. */
static int64_t count_pages(const s2_combset *set, int64_t first, int64_t end, int64_t page_tok,
                           s2_combset *pages)
{
    s2_combset_clear(pages);
    for (int32_t c = 0; c < set->n_combs; c++) {
        s2_comb comb = set->combs[c];
        comb.end = s2_min_i64(comb.end, end);
        s2_combset_add_tiles(pages, &comb, page_tok);
    }
    return s2_combset_count(pages, first, s2_ceil_div(end, page_tok));
}

/* The largest window of the group, or capacity 0. */
static s2_window window_of(const s2_group *group, int64_t n_tok)
{
    s2_window widest = {n_tok, 0};
    for (int32_t h = 0; h < n_of(group); h++) {
        const s2_window own = s2_reads_window(reads_at(group, h), n_tok);
        if (own.capacity_tok > widest.capacity_tok)
            widest = own;
    }
    return widest;
}

static int64_t smallest_page(const s2_group *group)
{
    int64_t page_tok = 0;
    for (int32_t h = 0; h < n_of(group); h++) {
        const int64_t own = reads_at(group, h)->page_tok;
        if (own != 0 && (page_tok == 0 || own < page_tok))
            page_tok = own;
    }
    return page_tok;
}

/* KV heads with the same query heads are counted once: the first of them, and their number. */
typedef struct s2_twins {
    int32_t first_kv;
    int32_t n;
} s2_twins;

typedef struct s2_kv_scratch {
    s2_combset kept;
    s2_combset pages;
    s2_twins *twins; /* one per KV head */
    int32_t *stamps; /* one per head class, and one more: there may be no class */
    int32_t stamp;
    int64_t first_page; /* earlier ones are not counted as head pages */
} s2_kv_scratch;

static s2_status count_group(const s2_group *group, int64_t n_tok, int64_t page_tok, s2_kv_scratch *scratch,
                             s2_group_slots *out)
{
    s2_combset_clear(&scratch->kept);
    add_kept(group, n_tok, scratch->stamps, ++scratch->stamp, &scratch->kept);
    const int64_t heavy_tok = heavy_of(group), used = s2_combset_count(&scratch->kept, 0, n_tok);
    const s2_window window = window_of(group, n_tok);
    const int64_t paged = count_pages(&scratch->kept, scratch->first_page, n_tok, page_tok, &scratch->pages);
    const int64_t far = count_pages(&scratch->kept, 0, window.begin, page_tok, &scratch->pages);
    if (used < 0 || paged < 0 || far < 0)
        return s2_combset_failure(&scratch->kept);
    const int64_t heavy_pages = s2_ceil_div(heavy_tok, page_tok), all_pages = s2_ceil_div(n_tok, page_tok);
    const int64_t summary_tok = smallest_page(group);
    *out = (s2_group_slots){
        .used = s2_min_i64(used + heavy_tok, n_tok),
        .paged = s2_min_i64(paged + heavy_pages, all_pages) * page_tok,
        .ring_stripes = (s2_min_i64(far + heavy_pages, all_pages) +
                         s2_ceil_div(s2_min_i64(window.capacity_tok, n_tok), page_tok)) *
                        page_tok,
        .meta = summary_tok != 0 ? 2 * s2_ceil_div(n_tok, summary_tok) : 0,
    };
    return S2_OK;
}

static bool are_twins(const s2_layer_class *layer, int32_t n_group, int32_t a, int32_t b)
{
    for (int32_t r = 0; r < layer->n_readers; r++)
        if (memcmp(layer->readers[r] + (int64_t)a * n_group, layer->readers[r] + (int64_t)b * n_group,
                   (size_t)n_group * sizeof *layer->readers[r]) != 0)
            return false;
    return true;
}

static int32_t find_twins(const s2_layer_class *layer, int32_t n_group, int64_t *work_left, s2_twins *twins)
{
    int32_t n_distinct = 0;
    for (int32_t kv = 0; kv < layer->n_kv_heads; kv++) {
        int32_t nth = 0;
        while (nth < n_distinct && !are_twins(layer, n_group, twins[nth].first_kv, kv))
            nth++;
        if (nth == n_distinct)
            twins[n_distinct++] = (s2_twins){kv, 0};
        twins[nth].n++;
        if (!s2_work_spend(work_left, (int64_t)(nth + 1) * layer->n_readers))
            break;
    }
    return n_distinct;
}

/* Add n times the slots of one head, as elements. */
static void add_slots(s2_kv_elems *elems, const s2_group_slots *slots, int64_t n)
{
    elems->used += slots->used * n;
    elems->head_pages += slots->paged * n;
    elems->ring_stripes += slots->ring_stripes * n;
    elems->meta += slots->meta * n;
}

static bool selects_tokens(const s2_group *group)
{
    for (int32_t h = 0; h < n_of(group); h++)
        if (reads_at(group, h)->selects_tokens)
            return true;
    return false;
}

/* What all heads of a layer hold together. */
static s2_status count_shared(const s2_classes *classes, const s2_layer_class *layer, int64_t n_tok,
                              int64_t page_tok, s2_kv_scratch *scratch, s2_kv_elems *elems)
{
    s2_group_slots all;
    const s2_group whole = {classes, layer, 0, classes->pattern->n_heads};
    S2_TRY(count_group(&whole, n_tok, page_tok, scratch, &all));
    elems->shared_pages += all.paged * layer->n_kv_heads * layer->head_dim * layer->n_layers;
    elems->index_bytes += selects_tokens(&whole) ? n_tok * s2_index_key_bytes(classes->pattern) *
                                                       s2_index_layers(classes->pattern, layer->n_layers)
                                                 : 0;
    return S2_OK;
}

static s2_status count_layer(const s2_classes *classes, const s2_layer_class *layer, int64_t n_tok,
                             int64_t page_tok, s2_kv_scratch *scratch, s2_kv_elems *elems)
{
    const int32_t n_heads = classes->pattern->n_heads, n_group = s2_layer_group(layer, n_heads);
    const int32_t n_distinct = find_twins(layer, n_group, classes->work_left, scratch->twins);
    if (!s2_work_spend(classes->work_left, (int64_t)n_heads * layer->n_readers))
        return S2_ELIMIT;
    elems->dense +=
        s2_ceil_div(n_tok, page_tok) * page_tok * layer->n_kv_heads * layer->head_dim * layer->n_layers;
    for (int32_t d = 0; d < n_distinct; d++) {
        const s2_twins twins = scratch->twins[d];
        const int32_t begin = twins.first_kv * n_group;
        const s2_group group = {classes, layer, begin, begin + n_group};
        s2_group_slots own;
        S2_TRY(count_group(&group, n_tok, page_tok, scratch, &own));
        add_slots(elems, &own, (int64_t)twins.n * layer->head_dim * layer->n_layers);
    }
    return S2_OK;
}

static s2_status count(const s2_classes *classes, int64_t first_tok, int64_t n_tok, int32_t page_tok,
                       bool shared, s2_kv_elems *out)
{
    const s2_pattern *const pattern = classes->pattern;
    s2_kv_elems elems = {.state_bytes = classes->state_bytes};
    s2_kv_scratch scratch = {.kept.work_left = classes->work_left,
                             .pages.work_left = classes->work_left,
                             .first_page = s2_ceil_div(first_tok, page_tok)};
    scratch.twins = s2_malloc((size_t)pattern->n_heads * sizeof *scratch.twins);
    scratch.stamps = s2_calloc((size_t)classes->n_reads + 1, sizeof *scratch.stamps);
    s2_status status = scratch.twins != NULL && scratch.stamps != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t c = 0; c < classes->n_layer_classes && status == S2_OK; c++) {
        const s2_layer_class *const layer = &classes->layers[c];
        if (layer->n_readers == 0)
            continue;
        status = count_layer(classes, layer, n_tok, page_tok, &scratch, &elems);
        if (status == S2_OK && shared)
            status = count_shared(classes, layer, n_tok, page_tok, &scratch, &elems);
    }
    s2_combset_release(&scratch.kept);
    s2_combset_release(&scratch.pages);
    s2_free(scratch.twins);
    s2_free(scratch.stamps);
    if (status == S2_OK)
        *out = elems;
    return status;
}

s2_status s2_kv_count(const s2_classes *classes, int64_t n_tok, int32_t page_tok, s2_kv_elems *out)
{
    return count(classes, 0, n_tok, page_tok, true, out);
}

s2_status s2_kv_head_pages(const s2_classes *classes, int64_t first_tok, int64_t n_tok, int32_t page_tok,
                           int64_t *out)
{
    s2_kv_elems elems;
    S2_TRY(count(classes, first_tok, n_tok, page_tok, false, &elems));
    *out = elems.head_pages;
    return S2_OK;
}

s2_status s2_kv_mean(const s2_classes *classes, int64_t n_tok, int32_t page_tok, double *out)
{
    enum { SAMPLES = 64 };
    const int64_t block = classes->pattern->block_tok, n_blk = s2_ceil_div(n_tok, block);
    const int64_t n_points = s2_min_i64(n_blk, SAMPLES);
    double total = 0;
    for (int64_t point = 1; point <= n_points; point++) {
        int64_t elems;
        S2_TRY(s2_kv_head_pages(classes, 0, s2_min_i64(n_blk * point / n_points * block, n_tok), page_tok,
                                &elems));
        total += (double)elems;
    }
    *out = total / (double)n_points;
    return S2_OK;
}

s2_status s2_kv_elems_bytes(const s2_kv_elems *elems, double elem_bytes, int64_t batch, s2_kv_bytes *out)
{
    const double slot = 2.0 * elem_bytes * (double)batch,
                 meta = (double)elems->meta * elem_bytes * (double)batch,
                 fixed = ((double)elems->state_bytes + (double)elems->index_bytes) * (double)batch;
    const int64_t largest = s2_max_i64(s2_max_i64(elems->dense, elems->shared_pages),
                                       s2_max_i64(elems->head_pages, elems->ring_stripes));
    if ((double)largest * slot + meta + fixed >= 0x1p63)
        return S2_ELIMIT;
    const int64_t state = elems->state_bytes * batch,
                  more = state + elems->index_bytes * batch + (int64_t)meta;
    *out = (s2_kv_bytes){
        .dense = (int64_t)((double)elems->dense * slot) + state,
        .used = (int64_t)((double)elems->used * slot) + more,
        .head_pages = (int64_t)((double)elems->head_pages * slot) + more,
        .shared_pages = (int64_t)((double)elems->shared_pages * slot) + more,
        .ring_stripes = (int64_t)((double)elems->ring_stripes * slot) + more,
    };
    return S2_OK;
}
