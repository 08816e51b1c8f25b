#include "export/rotation.h"
#include "base/arith.h"
#include "export/model.h"

#include <stdio.h>
#include <string.h>

#include "pattern/parse.h"

int64_t s2_rotation_step(int64_t stride_blk, int64_t n_heads)
{
    return s2_max_i64(stride_blk / n_heads, 1);
}

const char *s2_rotation_holder(const s2_source *source, const char *key, const char *wrapper)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", wrapper, key);
    if (source->doc != NULL && s2_doc_has(source->doc, path))
        return wrapper;
    snprintf(path, sizeof path, "/%s", key);
    return source->doc != NULL && s2_doc_has(source->doc, path) ? "" : NULL;
}

static s2_status read_key(const s2_source *source, const char *prefix, const char *key, int64_t low,
                          int64_t high, int64_t *out)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", prefix, key);
    return s2_doc_int(source->doc, path, low, high, out, source->diag);
}

s2_status s2_rotation_read(const s2_source *source, const char *prefix, const char *block_key,
                           const char *local_key, const char *stride_key, int64_t least_stride,
                           s2_rotation *out)
{
    enum { MOST_LOCAL = S2_LIMIT_CONTEXT_TOK };
    s2_rotation rotation = {.n_layers = 1};
    S2_TRY(read_key(source, prefix, block_key, 1, S2_LIMIT_BLOCK_TOK, &rotation.block_tok));
    if (!s2_is_power_of_two(rotation.block_tok)) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", prefix, block_key);
        return s2_doc_refuse(source->doc, path, source->diag, "\"%s\" is %lld, but must be a power of two",
                             block_key, (long long)rotation.block_tok);
    }
    S2_TRY(read_key(source, prefix, local_key, 1, MOST_LOCAL / rotation.block_tok, &rotation.local_blk));
    S2_TRY(read_key(source, prefix, stride_key, least_stride, S2_LIMIT_STRIDE, &rotation.stride_blk));
    *out = rotation;
    return S2_OK;
}

s2_status s2_rotation_read_model(const s2_source *source, const char *prefix, s2_rotation *rotation)
{
    char path[160];
    s2_model_shape shape;
    S2_TRY(s2_model_shape_read(source, prefix, &shape));
    snprintf(path, sizeof path, "%s/dense_attention_every_n_layers", prefix);
    S2_TRY(s2_doc_int_or(source->doc, path, 1, S2_LIMIT_LAYERS, 0, &rotation->dense_every, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "dense-every", 0, S2_LIMIT_LAYERS, rotation->dense_every,
                          &rotation->dense_every, source->diag));
    rotation->n_layers = shape.n_layers;
    rotation->n_heads = shape.n_heads;
    rotation->n_kv_heads = shape.n_kv_heads;
    rotation->head_dim = shape.head_dim;
    return S2_OK;
}

s2_status s2_rotation_read_extras(const s2_source *source, const s2_rotation *heads, s2_rotation *rotation)
{
    const char *const prefix = s2_doc_has(source->doc, "/model") ? "/model" : "";
    s2_setting stated[8];
    char number[2][24];
    s2_source with = *source;
    if (heads == NULL)
        return s2_rotation_read_model(source, prefix, rotation);
    int32_t n = 0;
    for (int32_t at = 0; at < source->settings.n && n < 6; at++)
        stated[n++] = source->settings.list[at];
    snprintf(number[0], sizeof number[0], "%lld", (long long)heads->n_heads);
    stated[n++] = (s2_setting){.key = "heads", .value = number[0]};
    const bool repeats = heads->n_kv_heads == heads->n_heads && !heads->over_kv;
    if (prefix[0] != '\0') /* otherwise `heads` was read from these numbers */
        S2_TRY(s2_model_agrees(source, prefix, heads->n_heads, repeats ? 0 : heads->n_kv_heads));
    if (!repeats) {
        snprintf(number[1], sizeof number[1], "%lld", (long long)heads->n_kv_heads);
        stated[n++] = (s2_setting){.key = "kv-heads", .value = number[1]};
    }
    with.settings = (s2_settings){stated, n};
    return s2_rotation_read_model(&with, prefix, rotation);
}

/* Whether --set tp was given for this file, rather than for the one that the command writes. */
static bool is_said(const s2_source *source)
{
    for (int32_t n = 0; n < source->settings.n; n++)
        if (strcmp(source->settings.list[n].key, "tp") == 0)
            return !source->settings.list[n].optional;
    return false;
}

/* Files that s2 writes state their ranks; a file that states none has those of --set tp. */
s2_status s2_rotation_read_ranks(const s2_source *source, const char *path, int64_t *n_ranks)
{
    int64_t said;
    S2_TRY(s2_setting_int(&source->settings, "tp", 1, S2_LIMIT_HEADS, 1, &said, source->diag));
    S2_TRY(s2_doc_int_or(source->doc, path, 1, S2_LIMIT_HEADS, said, n_ranks, source->diag));
    if (is_said(source) && said != *n_ranks)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "the file is for %lld tensor-parallel rank%s, which --set tp=%lld contradicts",
                             (long long)*n_ranks, s2_text_plural(*n_ranks), (long long)said);
    if (*n_ranks > 1 && source->said != NULL)
        s2_note(&source->said->warnings,
                "the file is for %lld GPUs that share the heads; what is read are all heads of the model (s2 "
                "sim --tp %lld prices them as shared by these GPUs)",
                (long long)*n_ranks, (long long)*n_ranks);
    return S2_OK;
}

static void print_body(s2_buf *text, const s2_rotation *rotation, const char *axis, int64_t step,
                       int64_t offset)
{
    const char *bar = "";
    if (rotation->local_blk > 0) {
        s2_buf_printf(text, "local %lld", (long long)rotation->local_blk);
        bar = " | ";
    }
    if (rotation->stride_blk > 0) {
        s2_buf_printf(text, "%sstride %lld phase ", bar, (long long)rotation->stride_blk);
        if (step > 0)
            s2_buf_printf(text, "%s*%lld+", axis, (long long)step);
        s2_buf_printf(text, "%lld", (long long)offset);
    }
    s2_buf_puts(text, "\n");
}

/* Where the heads of each GPU are counted from 0, its phases begin anew; often that is where they stood. */
static void print_ranks(s2_buf *text, const s2_rotation *rotation, int64_t step)
{
    const int64_t n_own = rotation->n_ranks > 1 ? rotation->n_heads / rotation->n_ranks : 0;
    for (int64_t rank = 1; rank < rotation->n_ranks; rank++) {
        const int64_t gone = rank * n_own * step % rotation->stride_blk;
        if (gone == 0)
            continue;
        s2_buf_printf(text, "heads %lld-%lld: ", (long long)(rank * n_own),
                      (long long)((rank + 1) * n_own - 1));
        print_body(text, rotation, "head", step,
                   (rotation->offset + rotation->stride_blk - gone) % rotation->stride_blk);
    }
}

s2_status s2_rotation_import(const s2_source *source, const s2_rotation *rotation, s2_pattern *out)
{
    s2_buf text = {0};
    const int64_t step = rotation->homogeneous ? 0 : rotation->step;
    s2_language_name(&text, source->name);
    s2_language_shape(&text, rotation->n_layers, rotation->n_heads, rotation->n_kv_heads, rotation->head_dim,
                      rotation->block_tok);
    s2_buf_puts(&text, "layers all: ");
    print_body(&text, rotation, rotation->over_kv ? "kv" : "head", step, rotation->offset);
    print_ranks(&text, rotation, step);
    if (rotation->decode_kv_step > 0) {
        s2_buf_puts(&text, "decode layers all: ");
        print_body(&text, rotation, "kv", rotation->decode_kv_step, rotation->offset);
    }
    if (rotation->n_dense_kv > 0)
        s2_buf_printf(&text, "kv %lld-%lld: dense\n",
                      (long long)(rotation->n_kv_heads - rotation->n_dense_kv),
                      (long long)(rotation->n_kv_heads - 1));
    if (rotation->dense_every > 0 && rotation->dense_every <= rotation->n_layers)
        s2_buf_printf(&text, "layers %lld::%lld: dense\n", (long long)(rotation->dense_every - 1),
                      (long long)rotation->dense_every);
    return s2_language_parse(source, &text, out);
}

/* ---- from a pattern --------------------------------------------------------------------------- */

/* local and stride of one body; false when it has any other term. */
static bool body_form(const s2_body *body, int64_t *local_blk, const s2_term **stride)
{
    *local_blk = 0;
    *stride = NULL;
    for (int32_t t = 0; t < body->n_terms; t++) {
        const s2_term *const term = &body->terms[t];
        if (term->tok || !s2_term_is_whole(term))
            return false;
        if (term->kind == S2_TERM_LOCAL && *local_blk == 0)
            *local_blk = term->n;
        else if (term->kind == S2_TERM_STRIDE && *stride == NULL && term->width == 1)
            *stride = term;
        else
            return false;
    }
    return *local_blk > 0;
}

static int64_t offset_at(const s2_pattern *pattern, const s2_term *stride, int32_t layer, int32_t head)
{
    return s2_term_offset(stride, layer, head, s2_pattern_kv_head(pattern, head));
}

/*
 * The period whose last layers are exactly the dense ones; else the one whose number of dense layers is
 * nearest, and among those the one with most of them in the same layers.
 */
static int64_t dense_period(const s2_pattern *pattern)
{
    bool is_dense_layer[S2_LIMIT_LAYERS];
    int64_t best = 0, least = INT64_MAX, n_dense = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        n_dense += is_dense_layer[layer] = s2_pattern_is_dense(pattern, S2_PREFILL, layer);
    for (int32_t every = 0; every <= pattern->n_layers; every++) {
        int64_t n_wrong = 0, surplus = -n_dense;
        for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
            const bool is_last = every > 0 && (layer + 1) % every == 0;
            n_wrong += is_dense_layer[layer] != is_last;
            surplus += is_last;
        }
        const int64_t apart = n_wrong + 2 * S2_LIMIT_LAYERS * (surplus < 0 ? -surplus : surplus);
        if (apart <= least) {
            least = apart;
            best = every;
        }
    }
    return best;
}

static void derive_dense(const s2_pattern *pattern, int32_t sparse_layer, s2_rotation *out)
{
    out->dense_every = dense_period(pattern);
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    while (out->n_dense_kv < pattern->n_kv_heads) {
        const int32_t head = (int32_t)(pattern->n_kv_heads - out->n_dense_kv) * group - 1;
        if (!s2_body_is_dense(&pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, sparse_layer, head)]))
            break;
        out->n_dense_kv++;
    }
}

/* Whether the phases rotate over query heads or KV heads, or not at all. */
static s2_status derive_phases(const s2_target *target, int32_t layer, s2_rotation *out)
{
    const s2_pattern *const pattern = target->pattern;
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    const int32_t n_sparse = (int32_t)(out->n_kv_heads - out->n_dense_kv) * group;
    int64_t first = 0, previous = 0;
    out->homogeneous = true;
    out->over_kv = group > 1;
    for (int32_t head = 0; head < n_sparse; head++) {
        const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, head)];
        const s2_term *stride;
        int64_t local_blk;
        if (!body_form(body, &local_blk, &stride) || local_blk != out->local_blk ||
            (stride != NULL ? stride->n : 0) != out->stride_blk)
            return s2_target_refuse(target, "layer %d head %d is not of the form local %lld | stride %lld",
                                    layer, head, (long long)out->local_blk, (long long)out->stride_blk);
        const int64_t phase = stride != NULL ? offset_at(pattern, stride, layer, head) : 0;
        first = head == 0 ? phase : first;
        out->homogeneous &= phase == first;
        out->over_kv &= head % group == 0 || phase == previous;
        previous = phase;
    }
    out->offset = first;
    /* if all other heads are dense, the single sparse one has its offset whatever the step */
    out->homogeneous &= out->n_dense_kv == 0 || n_sparse > group;
    return S2_OK;
}

s2_status s2_rotation_derive(const s2_target *target, s2_rotation *out)
{
    const s2_pattern *const pattern = target->pattern;
    int32_t layer = 0;
    while (layer < pattern->n_layers && s2_pattern_is_dense(pattern, S2_PREFILL, layer))
        layer++;
    if (layer == pattern->n_layers)
        return s2_target_refuse(target, "every layer is dense: there is no stride to name");
    if (!pattern->causal)
        return s2_target_refuse(target, "the pattern is not causal");
    s2_rotation rotation = {.n_layers = pattern->n_layers,
                            .n_heads = pattern->n_heads,
                            .n_kv_heads = pattern->n_kv_heads,
                            .head_dim = pattern->head_dim,
                            .block_tok = pattern->block_tok};
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, 0)];
    const s2_term *stride;
    if (!body_form(body, &rotation.local_blk, &stride)) {
        s2_buf shown = {0};
        s2_body_print(body, &shown);
        const s2_status status =
            shown.status != S2_OK
                ? shown.status
                : s2_target_refuse(
                      target, "layer %d head 0 reads \"%.80s\", which is not local N | stride V in blocks",
                      layer, shown.data);
        s2_buf_release(&shown);
        return status;
    }
    rotation.stride_blk = stride != NULL ? stride->n : 0;
    derive_dense(pattern, layer, &rotation);
    S2_TRY(derive_phases(target, layer, &rotation));
    rotation.step = s2_rotation_step(rotation.stride_blk, rotation.n_heads);
    *out = rotation;
    return S2_OK;
}

s2_status s2_rotation_derive_alike(const s2_target *target, s2_rotation *out)
{
    s2_rotation rotation;
    S2_TRY(s2_rotation_derive(target, &rotation));
    if (rotation.stride_blk == 0 || rotation.n_dense_kv > 0)
        return s2_target_refuse(target, "this format has no %s",
                                rotation.stride_blk == 0 ? "window without a stride" : "dense heads");
    *out = rotation;
    return S2_OK;
}

void s2_rotation_print_model(s2_buf *buf, const s2_target *target, const s2_rotation *rotation)
{
    s2_buf_puts(buf, "  \"model\": {\n");
    s2_model_shape_print(buf, target->pattern, "    ");
    if (rotation->dense_every > 0)
        s2_buf_printf(buf, "    \"dense_attention_every_n_layers\": %lld\n  },\n",
                      (long long)rotation->dense_every);
    else
        s2_buf_puts(buf, "    \"dense_attention_every_n_layers\": null\n  },\n");
    s2_provenance_print(buf, target, "  ");
    s2_buf_puts(buf, "}\n");
}

s2_status s2_rotation_check_dkernel(const s2_target *target, const s2_rotation *rotation)
{
    if (rotation->block_tok < 16)
        return s2_target_refuse(target, "DKernel takes blocks of 16 tokens and more; these have %lld",
                                (long long)rotation->block_tok);
    if (rotation->homogeneous && rotation->n_dense_kv > 0)
        return s2_target_refuse(target, "DKernel has no dense heads beside several heads of one phase");
    return S2_OK;
}

s2_status s2_rotation_refuse_homogeneous(const s2_source *source, const char *path,
                                         const s2_rotation *rotation)
{
    if (rotation->homogeneous && rotation->n_dense_kv > 0)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "DKernel refuses dense heads where all heads have one pattern");
    return S2_OK;
}
