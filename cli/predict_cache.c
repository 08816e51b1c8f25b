#include "cli/predict_cache.h"

/* The class of a layer: the one whose heads read what this layer's do. */
static s2_status find_class(s2_arena *arena, const s2_classes *classes, int32_t layer, int32_t *out)
{
    const s2_pattern *const pattern = classes->pattern;
    s2_reads *const own = S2_NEW(arena, s2_reads, pattern->n_heads);
    if (own == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < pattern->n_heads; head++)
        S2_TRY(s2_reads_build(arena, pattern, S2_DECODE, layer, head, &own[head]));
    for (int32_t at = 0; at < classes->n_layer_classes; at++) {
        int32_t head = 0;
        while (head < pattern->n_heads &&
               s2_reads_equal(&classes->reads[classes->layers[at].head_class[head]], &own[head]))
            head++;
        if (head == pattern->n_heads) {
            *out = at;
            return S2_OK;
        }
    }
    return S2_EINTERNAL;
}

s2_status s2_predict_cache_init(s2_predict_cache *cache, s2_arena *arena, const s2_pattern *pattern,
                                int32_t layer, s2_dtype dtype, s2_cache_layout layout, int32_t page_tok)
{
    int32_t at;
    S2_TRY(s2_classes_build(arena, pattern, S2_DECODE, &cache->classes));
    S2_TRY(find_class(arena, &cache->classes, layer, &at));
    cache->layer = cache->classes.layers[at];
    cache->layer.n_layers = 1;
    cache->classes.layers = &cache->layer;
    cache->classes.n_layer_classes = 1;
    cache->layout = layout;
    cache->page_tok = page_tok;
    cache->elem_bytes = s2_dtype_bytes(dtype);
    return S2_OK;
}

int64_t s2_predict_cache_bytes(const s2_predict_cache *cache, int64_t n_tok)
{
    s2_kv_elems elems;
    if (s2_kv_count(&cache->classes, n_tok, cache->page_tok, &elems) != S2_OK)
        return -1;
    const s2_kv_bytes bytes = s2_kv_elems_bytes(&elems, (double)cache->elem_bytes, 1);
    switch (cache->layout) {
    case S2_CACHE_HEAD_PAGES: return bytes.head_pages;
    case S2_CACHE_RING: return bytes.ring_stripes;
    case S2_CACHE_SHARED_PAGES: return bytes.shared_pages;
    case S2_N_CACHE_LAYOUTS: break;
    }
    return -1;
}
