#include "sim/layer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sim/share.h"

/* Letters and digits only, in lower case: "NVIDIA GeForce RTX 4090" becomes "nvidiageforcertx4090". */
static void squeeze(const char *text, size_t n, char *out, size_t cap)
{
    size_t to = 0;
    for (size_t at = 0; at < n && to + 1 < cap; at++)
        if (isalnum((unsigned char)text[at]))
            out[to++] = (char)tolower((unsigned char)text[at]);
    out[to] = '\0';
}

/* How many of the words of "h100-sxm" the device's name has; 0 unless it has the first. */
static int words_in(const char *gpu, const char *device)
{
    char word[40];
    int n = 0;
    for (const char *word_begin = gpu; *word_begin != '\0';) {
        const size_t len = strcspn(word_begin, "-");
        squeeze(word_begin, len, word, sizeof word);
        const bool has = strstr(device, word) != NULL;
        if (word_begin == gpu && !has)
            return 0;
        n += has;
        word_begin += len + (word_begin[len] == '-');
    }
    return n;
}

const char *s2_gpu_of_device(const char *device_name)
{
    char device[96];
    const char *best = NULL;
    int best_n = 1; /* the last of equal matches: an H100 that does not say how it is mounted is an SXM */
    squeeze(device_name, strlen(device_name), device, sizeof device);
    for (int32_t gpu = 0; s2_gpu_name(gpu) != NULL; gpu++) {
        const int n = words_in(s2_gpu_name(gpu), device);
        if (n >= best_n) {
            best = s2_gpu_name(gpu);
            best_n = n;
        }
    }
    return best;
}

/* The layer as a pattern of its own. */
static s2_status one_layer(s2_arena *arena, const s2_layer_ask *ask, s2_pattern *out)
{
    const s2_phase phase = s2_phase_rules(ask->phase);
    const int32_t n_heads = ask->pattern->n_heads;
    s2_share_heads all;
    S2_TRY(s2_share_deal(arena, n_heads, n_heads, 1, 0, NULL, &all));
    S2_TRY(s2_share_pattern(arena, ask->pattern, phase, ask->layer, &all, out));
    out->computed = NULL; /* what runs here computes as it stands */
    return S2_OK;
}

static s2_status price(s2_arena *arena, const s2_pattern *layer, const s2_layer_ask *ask,
                       s2_sim_options *options, s2_sim *out)
{
    options->dtype = ask->dtype;
    options->cache = ask->cache;
    options->len_tok = ask->len_tok;
    options->batch = ask->batch;
    s2_diag diag;
    return s2_price(arena, layer, options, S2_PRICE_WHOLE, out, &diag);
}

s2_status s2_layer_predict(const char *gpu, const s2_layer_ask *ask, s2_layer_price *out)
{
    s2_arena arena = {0};
    s2_pattern layer;
    s2_sim_options options;
    s2_sim sim, forward = {0};
    if (ask->dtype == S2_F32)
        return S2_EUNSUPPORTED;
    s2_status status = s2_sim_options_default(&options);
    if (status == S2_OK)
        status = s2_gpu_find(gpu, &options.gpu, NULL);
    if (status == S2_OK)
        status = one_layer(&arena, ask, &layer);
    options.phase = S2_PREFILL;
    if (status == S2_OK && ask->phase == S2_TRAIN)
        status = price(&arena, &layer, ask, &options, &forward);
    options.phase = ask->phase;
    if (status == S2_OK)
        status = price(&arena, &layer, ask, &options, &sim);
    s2_arena_release(&arena);
    if (status != S2_OK)
        return status == S2_ENOMEM ? status : S2_EUNSUPPORTED;
    *out = (s2_layer_price){.bound_us = sim.bound_us - forward.bound_us,
                            .time_us = sim.time_us - forward.time_us,
                            .dram_read_bytes = (double)(sim.counts.hbm_read - forward.counts.hbm_read),
                            .dram_write_bytes = (double)(sim.counts.hbm_write - forward.counts.hbm_write),
                            .l2_bytes = (double)(sim.counts.l2 - forward.counts.l2)};
    snprintf(out->gpu, sizeof out->gpu, "%s", gpu);
    return S2_OK;
}

/* The class of a layer: the one whose heads read what this layer's do. */
static s2_status find_class(s2_arena *arena, const s2_classes *classes, int32_t layer, int32_t *out)
{
    const s2_pattern *const pattern = classes->pattern;
    s2_reads *const own = S2_NEW(arena, s2_reads, pattern->n_heads);
    if (own == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < pattern->n_heads; head++)
        S2_TRY(s2_reads_build(arena, pattern, S2_DECODE, layer, head, &own[head]));
    for (int32_t nth = 0; nth < classes->n_layer_classes; nth++) {
        int32_t head = 0;
        while (head < pattern->n_heads &&
               s2_reads_equal(&classes->reads[classes->layers[nth].head_class[head]], &own[head]))
            head++;
        if (head == pattern->n_heads) {
            *out = nth;
            return S2_OK;
        }
    }
    return S2_EINTERNAL;
}

s2_status s2_layer_kv_init(s2_layer_kv *kv, s2_arena *arena, const s2_pattern *pattern, int32_t layer,
                           s2_dtype dtype, int32_t page_tok)
{
    int32_t nth;
    S2_TRY(s2_classes_build(arena, pattern, S2_DECODE, &kv->classes));
    S2_TRY(find_class(arena, &kv->classes, layer, &nth));
    kv->layer = kv->classes.layers[nth];
    kv->layer.n_layers = 1;
    kv->classes.layers = &kv->layer;
    kv->classes.n_layer_classes = 1;
    kv->page_tok = page_tok;
    kv->elem_bytes = s2_dtype_bytes(dtype);
    return S2_OK;
}

s2_status s2_layer_kv_count(const s2_layer_kv *kv, int64_t n_tok, s2_kv_bytes *out)
{
    s2_kv_elems elems;
    S2_TRY(s2_kv_count(&kv->classes, n_tok, kv->page_tok, &elems));
    return s2_kv_elems_bytes(&elems, (double)kv->elem_bytes, 1, out);
}
