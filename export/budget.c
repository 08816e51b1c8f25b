#include "export/budget.h"
#include "base/arith.h"
#include "export/model.h"

#include <string.h>

static const char *const no_model = "the model is not in the settings; %lld layers of %lld heads on %lld KV "
                                    "heads are assumed (--set layers=, heads=, kv-heads=, head-dim=)";

#define LAYERS   S2_PATHS("/num_hidden_layers", "/num_layers")
#define HEADS    S2_PATHS("/num_attention_heads", "/num_heads", "/num_q_heads", "/heads")
#define KV_HEADS S2_PATHS("/num_key_value_heads", "/num_kv_heads", "/kv_heads")
#define HEAD_DIM S2_PATHS("/head_dim", "/dim_head")

bool s2_budget_has_any(const s2_source *source, const char *const *paths)
{
    for (; source->doc != NULL && *paths != NULL; paths++)
        if (s2_doc_has(source->doc, *paths))
            return true;
    return false;
}

const char *s2_budget_word(const s2_source *source, const char *const *paths)
{
    const char *word = NULL;
    for (; source->doc != NULL && word == NULL && *paths != NULL; paths++)
        word = s2_doc_text(source->doc, *paths);
    return word;
}

bool s2_budget_has_all(const s2_source *source, const char *const *paths)
{
    for (; *paths != NULL; paths++)
        if (source->doc == NULL || !s2_doc_has(source->doc, *paths))
            return false;
    return true;
}

/* The first of several spellings; S2_EUNSUPPORTED where the document has none. */
static s2_status first_stated(const s2_source *source, const char *const *paths, int64_t low, int64_t high,
                              int64_t *out)
{
    for (; *paths != NULL; paths++)
        if (s2_doc_has(source->doc, *paths))
            return s2_doc_int(source->doc, *paths, low, high, out, source->diag);
    return S2_EUNSUPPORTED;
}

s2_status s2_budget_read(const s2_source *source, const char *const *paths, int64_t low, int64_t high,
                         int64_t fallback, int64_t *out)
{
    const s2_status status = first_stated(source, paths, low, high, out);
    if (status != S2_EUNSUPPORTED)
        return status;
    *out = fallback;
    if (fallback > 0)
        s2_note(source->notes, "%s is not stated; it is taken as %lld", s2_path_base(paths[0]),
                (long long)fallback);
    return S2_OK;
}

/* Of the model: what all of it lacks is said in one note. */
static s2_status read_shape(const s2_source *source, const char *const *paths, int64_t high, int64_t fallback,
                            int64_t *out)
{
    const s2_status status = first_stated(source, paths, 1, high, out);
    if (status != S2_EUNSUPPORTED)
        return status;
    *out = fallback;
    return S2_OK;
}

/* Nothing of the model is stated, or a number alone is not. A latent is one KV head, of which its reader tells. */
static void note_shape(const s2_source *source, const s2_model_shape *shape)
{
    const bool has_kv = s2_budget_has_any(source, KV_HEADS) || s2_doc_has(source->doc, "/kv_lora_rank");
    if (!s2_budget_has_any(source, HEADS) && s2_setting_text(&source->settings, "heads") == NULL)
        s2_note(source->notes, no_model, (long long)shape->n_layers, (long long)shape->n_heads,
                (long long)shape->n_kv_heads);
    else if (!s2_budget_has_any(source, LAYERS) && s2_setting_text(&source->settings, "layers") == NULL)
        s2_note(source->notes, "num_hidden_layers is not stated; it is taken as %lld (--set layers=)",
                (long long)shape->n_layers);
    if (s2_budget_has_any(source, HEADS) && !has_kv && s2_setting_text(&source->settings, "kv-heads") == NULL)
        s2_note(source->notes, "num_key_value_heads is not stated; it is taken as %lld (--set kv-heads=)",
                (long long)shape->n_kv_heads);
}

s2_status s2_budget_shape(const s2_source *source, s2_model_shape *out)
{
    const s2_settings *const set = &source->settings;
    s2_model_shape shape;
    S2_TRY(read_shape(source, LAYERS, S2_LIMIT_LAYERS, 32, &shape.n_layers));
    S2_TRY(read_shape(source, HEADS, S2_LIMIT_HEADS, 32, &shape.n_heads));
    S2_TRY(read_shape(source, KV_HEADS, shape.n_heads, shape.n_heads % 8 == 0 ? 8 : shape.n_heads,
                      &shape.n_kv_heads));
    S2_TRY(read_shape(source, HEAD_DIM, S2_LIMIT_HEAD_DIM, 128, &shape.head_dim));
    S2_TRY(s2_setting_int(set, "layers", 1, S2_LIMIT_LAYERS, shape.n_layers, &shape.n_layers, source->diag));
    S2_TRY(s2_setting_int(set, "heads", 1, S2_LIMIT_HEADS, shape.n_heads, &shape.n_heads, source->diag));
    S2_TRY(s2_setting_int(set, "kv-heads", 1, shape.n_heads, s2_min_i64(shape.n_kv_heads, shape.n_heads),
                          &shape.n_kv_heads, source->diag));
    S2_TRY(
        s2_setting_int(set, "head-dim", 1, S2_LIMIT_HEAD_DIM, shape.head_dim, &shape.head_dim, source->diag));
    if (shape.n_heads % shape.n_kv_heads != 0)
        return s2_doc_refuse(
            source->doc, s2_doc_has(source->doc, "/num_kv_heads") ? "/num_kv_heads" : "/num_key_value_heads",
            source->diag, "%lld KV heads do not divide %lld heads", (long long)shape.n_kv_heads,
            (long long)shape.n_heads);
    note_shape(source, &shape);
    *out = shape;
    return S2_OK;
}

s2_status s2_budget_begin(const s2_source *source, int64_t block_tok, s2_model_shape *out, s2_buf *text)
{
    s2_model_shape shape;
    S2_TRY(s2_budget_shape(source, &shape));
    if (out != NULL)
        *out = shape;
    s2_language_name(text, source->name);
    s2_language_shape(text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, block_tok);
    return S2_OK;
}

s2_status s2_budget_finish(const s2_source *source, s2_status status, s2_buf *text, s2_pattern *out)
{
    if (status == S2_OK)
        return s2_language_parse(source, text, out);
    s2_buf_release(text);
    return status;
}
