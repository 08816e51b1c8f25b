#include "sim/kv.h"

#include <string.h>

#include "base/alloc.h"

static int64_t pages_of(int64_t n_tok, int64_t page_tok)
{
    return n_tok / page_tok + (n_tok % page_tok != 0);
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The query heads of one KV head, or of a whole layer. */
typedef struct s2_group {
    const s2_classes *classes;
    const int32_t *head_class;
    int32_t n_heads;
} s2_group;

typedef struct s2_group_slots {
    int64_t used;
    int64_t paged;
    int64_t ring_stripes;
    int64_t meta_elems;
} s2_group_slots;

/* Distinct heads once each: stamps[class] == stamp marks those already added. */
static void add_kept(const s2_group *group, int64_t n_tok, int32_t *stamps, int32_t stamp, s2_combset *set)
{
    for (int32_t h = 0; h < group->n_heads; h++) {
        const int32_t cls = group->head_class[h];
        const s2_reads *const reads = &group->classes->reads[cls];
        if (stamps[cls] == stamp)
            continue;
        stamps[cls] = stamp;
        s2_reads_add_kept(reads, n_tok, set);
    }
}

static int64_t heavy_of(const s2_group *group)
{
    int64_t heavy_tok = 0;
    for (int32_t h = 0; h < group->n_heads; h++) {
        const int64_t own = group->classes->reads[group->head_class[h]].heavy_tok;
        heavy_tok = own > heavy_tok ? own : heavy_tok;
    }
    return heavy_tok;
}

/* The pages of the keys of `set` below `end`; `pages` is scratch. */
static int64_t count_pages(const s2_combset *set, int64_t end, int64_t page_tok, s2_combset *pages)
{
    s2_combset_clear(pages);
    for (int32_t c = 0; c < set->n_combs; c++) {
        s2_comb comb = set->combs[c];
        comb.end = lesser(comb.end, end);
        s2_combset_add_tiles(pages, &comb, page_tok);
    }
    return s2_combset_count(pages, 0, pages_of(end, page_tok));
}

/* The largest window of the group, or capacity 0. */
static s2_window window_of(const s2_group *group, int64_t n_tok)
{
    s2_window widest = {n_tok, 0};
    for (int32_t h = 0; h < group->n_heads; h++) {
        const s2_window own = s2_reads_window(&group->classes->reads[group->head_class[h]], n_tok);
        if (own.capacity_tok > widest.capacity_tok)
            widest = own;
    }
    return widest;
}

static int64_t smallest_page(const s2_group *group)
{
    int64_t page_tok = 0;
    for (int32_t h = 0; h < group->n_heads; h++) {
        const int64_t own = group->classes->reads[group->head_class[h]].page_tok;
        if (own != 0 && (page_tok == 0 || own < page_tok))
            page_tok = own;
    }
    return page_tok;
}

/* KV heads with the same query heads are counted once: their first, and how many they are. */
typedef struct s2_twins {
    int32_t first_kv;
    int32_t n;
} s2_twins;

typedef struct s2_kv_scratch {
    s2_combset kept;
    s2_combset pages;
    s2_twins *twins; /* n_kv_heads entries */
    int32_t *stamps; /* one per head class */
    int32_t stamp;
} s2_kv_scratch;

static s2_status count_group(const s2_group *group, int64_t n_tok, int64_t page_tok, s2_kv_scratch *scratch,
                             s2_group_slots *out)
{
    s2_combset_clear(&scratch->kept);
    add_kept(group, n_tok, scratch->stamps, ++scratch->stamp, &scratch->kept);
    const int64_t heavy_tok = heavy_of(group), used = s2_combset_count(&scratch->kept, 0, n_tok);
    const s2_window window = window_of(group, n_tok);
    const int64_t paged = count_pages(&scratch->kept, n_tok, page_tok, &scratch->pages);
    const int64_t far = count_pages(&scratch->kept, window.begin, page_tok, &scratch->pages);
    if (used < 0 || paged < 0 || far < 0)
        return s2_combset_failure(&scratch->kept);
    const int64_t heavy_pages = pages_of(heavy_tok, page_tok), all_pages = pages_of(n_tok, page_tok);
    const int64_t summary_tok = smallest_page(group);
    *out = (s2_group_slots){
        .used = lesser(used + heavy_tok, n_tok),
        .paged = lesser(paged + heavy_pages, all_pages) * page_tok,
        .ring_stripes =
            (lesser(far + heavy_pages, all_pages) + pages_of(lesser(window.capacity_tok, n_tok), page_tok)) *
            page_tok,
        .meta_elems = summary_tok != 0 ? 2 * pages_of(n_tok, summary_tok) : 0,
    };
    return S2_OK;
}

static int32_t find_twins(const int32_t *head_class, int32_t n_kv, int32_t n_group, int64_t *work_left,
                          s2_twins *twins)
{
    const size_t n_bytes = (size_t)n_group * sizeof *head_class;
    int32_t n_distinct = 0;
    for (int32_t kv = 0; kv < n_kv; kv++) {
        int32_t at = 0;
        while (at < n_distinct && memcmp(head_class + (int64_t)twins[at].first_kv * n_group,
                                         head_class + (int64_t)kv * n_group, n_bytes) != 0)
            at++;
        if (at == n_distinct)
            twins[n_distinct++] = (s2_twins){kv, 0};
        twins[at].n++;
        if (!s2_work_spend(work_left, at + 1))
            break;
    }
    return n_distinct;
}

static void add_slots(s2_kv_slots *slots, const s2_group_slots *group, int64_t n)
{
    slots->used += group->used * n;
    slots->head_pages += group->paged * n;
    slots->ring_stripes += group->ring_stripes * n;
    slots->meta_elems += group->meta_elems * n;
}

static bool selects_tokens(const s2_group *group)
{
    for (int32_t head = 0; head < group->n_heads; head++)
        if (group->classes->reads[group->head_class[head]].selects_tokens)
            return true;
    return false;
}

/* What all heads of a layer hold together. */
static s2_status count_shared(const s2_classes *classes, const s2_layer_class *layer, int64_t n_tok,
                              int64_t page_tok, s2_kv_scratch *scratch, s2_kv_slots *slots)
{
    enum { INDEX_KEY_BYTES = 132 };
    s2_group_slots all;
    const s2_group whole = {classes, layer->head_class, classes->pattern->n_heads};
    S2_TRY(count_group(&whole, n_tok, page_tok, scratch, &all));
    slots->shared_pages += all.paged * classes->pattern->n_kv_heads * layer->n_layers;
    slots->index_bytes += selects_tokens(&whole) ? n_tok * INDEX_KEY_BYTES * layer->n_layers : 0;
    return S2_OK;
}

static s2_status count_layer(const s2_classes *classes, const s2_layer_class *layer, int64_t n_tok,
                             int64_t page_tok, s2_kv_scratch *scratch, s2_kv_slots *slots)
{
    const int32_t n_kv = classes->pattern->n_kv_heads, n_group = classes->pattern->n_heads / n_kv;
    const int32_t n_distinct =
        find_twins(layer->head_class, n_kv, n_group, classes->work_left, scratch->twins);
    if (!s2_work_spend(classes->work_left, classes->pattern->n_heads))
        return S2_ELIMIT;
    for (int32_t d = 0; d < n_distinct; d++) {
        const s2_twins twins = scratch->twins[d];
        const s2_group group = {classes, layer->head_class + (int64_t)twins.first_kv * n_group, n_group};
        s2_group_slots own;
        S2_TRY(count_group(&group, n_tok, page_tok, scratch, &own));
        add_slots(slots, &own, (int64_t)twins.n * layer->n_layers);
    }
    return S2_OK;
}

static s2_status count(const s2_classes *classes, int64_t n_tok, int32_t page_tok, bool shared,
                       s2_kv_slots *out)
{
    const s2_pattern *const pattern = classes->pattern;
    s2_kv_slots slots = {.dense = n_tok * pattern->n_kv_heads * pattern->n_layers};
    s2_kv_scratch scratch = {.kept.work_left = classes->work_left, .pages.work_left = classes->work_left};
    scratch.twins = s2_malloc((size_t)pattern->n_kv_heads * sizeof *scratch.twins);
    scratch.stamps = s2_calloc((size_t)classes->n_reads, sizeof *scratch.stamps);
    s2_status status = scratch.twins != NULL && scratch.stamps != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t c = 0; c < classes->n_layer_classes && status == S2_OK; c++) {
        status = count_layer(classes, &classes->layers[c], n_tok, page_tok, &scratch, &slots);
        if (status == S2_OK && shared)
            status = count_shared(classes, &classes->layers[c], n_tok, page_tok, &scratch, &slots);
    }
    s2_combset_release(&scratch.kept);
    s2_combset_release(&scratch.pages);
    s2_free(scratch.twins);
    s2_free(scratch.stamps);
    if (status == S2_OK)
        *out = slots;
    return status;
}

s2_status s2_kv_count(const s2_classes *classes, int64_t n_tok, int32_t page_tok, s2_kv_slots *out)
{
    return count(classes, n_tok, page_tok, true, out);
}

s2_status s2_kv_head_pages(const s2_classes *classes, int64_t n_tok, int32_t page_tok, int64_t *out)
{
    s2_kv_slots slots;
    S2_TRY(count(classes, n_tok, page_tok, false, &slots));
    *out = slots.head_pages;
    return S2_OK;
}

s2_status s2_kv_mean(const s2_classes *classes, int64_t n_tok, int32_t page_tok, double *out)
{
    enum { SAMPLES = 64 };
    const int64_t block = classes->pattern->block_tok, n_blk = pages_of(n_tok, block);
    const int64_t n_points = lesser(n_blk, SAMPLES);
    double total = 0;
    for (int64_t point = 1; point <= n_points; point++) {
        int64_t slots;
        S2_TRY(s2_kv_head_pages(classes, lesser(n_blk * point / n_points * block, n_tok), page_tok, &slots));
        total += (double)slots;
    }
    *out = total / (double)n_points;
    return S2_OK;
}

s2_kv_bytes s2_kv_slots_bytes(const s2_pattern *pattern, const s2_kv_slots *slots, double elem_bytes,
                              int64_t batch)
{
    const double slot = 2.0 * pattern->head_dim * elem_bytes * (double)batch;
    const int64_t meta =
        (int64_t)((double)slots->meta_elems * pattern->head_dim * elem_bytes * (double)batch) +
        slots->index_bytes * batch;
    return (s2_kv_bytes){
        .dense = (int64_t)((double)slots->dense * slot),
        .used = (int64_t)((double)slots->used * slot) + meta,
        .head_pages = (int64_t)((double)slots->head_pages * slot) + meta,
        .shared_pages = (int64_t)((double)slots->shared_pages * slot) + meta,
        .ring_stripes = (int64_t)((double)slots->ring_stripes * slot) + meta,
    };
}
