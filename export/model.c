#include "export/model.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "export/model_types.h"
#include "export/slip.h"

#define S2_MODEL_ROW(type, rule, key, period, phase, window, dim, flags)                                     \
    {type, S2_RULE_##rule, key, period, phase, window, dim, flags},
static const s2_model_type types[] = {S2_MODEL_TYPES(S2_MODEL_ROW)};
#undef S2_MODEL_ROW

const s2_model_type *s2_model_type_find(const char *name)
{
    for (size_t t = 0; name != NULL && t < sizeof types / sizeof *types; t++)
        if (strcmp(name, types[t].name) == 0)
            return &types[t];
    return NULL;
}

const char *s2_model_type_name(const s2_doc *doc, const char *prefix)
{
    char path[128];
    snprintf(path, sizeof path, "%s/model_type", prefix);
    return s2_doc_text(doc, path);
}

bool s2_model_is_params(const s2_doc *doc)
{
    return s2_doc_has(doc, "/dim") && s2_doc_has(doc, "/n_layers") && s2_doc_has(doc, "/n_heads");
}

const char *s2_model_prefix(const s2_doc *doc)
{
    static const char *const inner[] = {"/text_config", "/llm_config", "/language_config",
                                        "/thinker_config/text_config", "/pretrained_config"};
    for (size_t n = 0; n < sizeof inner / sizeof *inner; n++)
        if (s2_doc_len(doc, inner[n]) > 0)
            return inner[n];
    return "";
}

/* The first of several spellings that the document has under prefix; NULL when it has none. */
static const char *spelled(const s2_doc *doc, const char *prefix, const char *const *names, char *path,
                           size_t cap)
{
    for (; *names != NULL; names++) {
        snprintf(path, cap, "%s/%s", prefix, *names);
        if (s2_doc_has(doc, path))
            return path;
    }
    return NULL;
}

static s2_status shape_number(const s2_source *source, const char *prefix, const char *const *names,
                              const char *key, int64_t high, int64_t fallback, int64_t *out)
{
    char path[128];
    const bool stated = spelled(source->doc, prefix, names, path, sizeof path) != NULL;
    int64_t value = fallback;
    if (stated)
        S2_TRY(s2_doc_int(source->doc, path, 1, high, &value, source->diag));
    else if (s2_setting_text(&source->settings, key) == NULL)
        S2_TRY(s2_slip_refuse(source, prefix, names));
    return s2_setting_int(&source->settings, key, 1, high, value, out, source->diag);
}

/* Gemma 3's text models leave their heads out. Some models have none: as many as GPUs may share then stand there. */
enum { NO_HEADS = 64 };
static s2_model_shape implied_shape(const s2_source *source, const char *prefix)
{
    const char *const name = s2_model_type_name(source->doc, prefix);
    const s2_model_type *const type = s2_model_type_find(name);
    s2_model_shape shape = {.head_dim = type != NULL ? type->head_dim : 0};
    if (type != NULL && strcmp(name, "gemma3_text") == 0) {
        shape.n_heads = 8;
        shape.n_kv_heads = 4;
    }
    if (type != NULL && type->rule == S2_RULE_STATES)
        shape.n_heads = shape.n_kv_heads = NO_HEADS;
    return shape;
}

s2_status s2_model_refuse_states(const s2_source *source, const char *prefix)
{
    static const char *const others[] = {"rwkv",   "rwkv5", "rwkv6", "rwkv7", "rwkv6qwen2",  "xlstm",
                                         "retnet", "hgrn",  "hyena", "gla",   "stripedhyena"};
    const char *const name = s2_model_type_name(source->doc, prefix);
    char clean[40], path[128];
    bool none = false;
    for (size_t n = 0; name != NULL && n < sizeof others / sizeof *others; n++)
        none |= strcmp(name, others[n]) == 0;
    if (!none)
        return S2_OK;
    s2_text_clean(clean, sizeof clean, name);
    snprintf(path, sizeof path, "%s/model_type", prefix);
    return s2_doc_refuse(
        source->doc, path, source->diag,
        "a model of type \"%s\" has no attention: its layers keep a state of fixed size and read no keys, so "
        "there is no pattern to search, and none of what surrounds attention is priced",
        clean);
}

bool s2_model_shape_is_implied(const s2_source *source, const char *prefix)
{
    return implied_shape(source, prefix).n_heads > 0;
}

s2_status s2_model_latent_read(const s2_source *source, const char *prefix, s2_model_shape *shape)
{
    int64_t latent, rotary;
    char latent_path[128], rotary_path[128];
    snprintf(latent_path, sizeof latent_path, "%s/kv_lora_rank", prefix);
    snprintf(rotary_path, sizeof rotary_path, "%s/qk_rope_head_dim", prefix);
    if (!s2_doc_has(source->doc, latent_path) || !s2_doc_has(source->doc, rotary_path))
        return S2_OK;
    S2_TRY(s2_doc_int(source->doc, latent_path, 2, S2_LIMIT_HEAD_DIM, &latent, source->diag));
    S2_TRY(s2_doc_int(source->doc, rotary_path, 0, S2_LIMIT_HEAD_DIM, &rotary, source->diag));
    shape->n_kv_heads = 1;
    shape->head_dim = (latent + rotary + 1) / 2;
    s2_note(source->notes,
            "MLA: a token's cache is a latent of %lld and a rotary key of %lld elements, written as one KV "
            "head of dimension %lld so that cache bytes are right",
            (long long)latent, (long long)rotary, (long long)shape->head_dim);
    return S2_OK;
}

static s2_status read_own(const s2_source *source, const char *prefix, const char *key, int32_t *out)
{
    char path[128];
    int64_t value;
    snprintf(path, sizeof path, "%s/%s", prefix, key);
    *out = 0;
    if (!s2_doc_has(source->doc, path))
        return S2_OK;
    S2_TRY(s2_doc_int(source->doc, path, 0, S2_LIMIT_HEAD_DIM, &value, source->diag));
    *out = (int32_t)value;
    return S2_OK;
}

s2_status s2_model_indexers_read(const s2_doc *doc, const char *prefix, int32_t *n_indexers,
                                 int32_t *n_indexed, s2_diag *diag)
{
    char path[128];
    snprintf(path, sizeof path, "%s/indexer_types", prefix);
    const int64_t n = s2_doc_is_array(doc, path) ? s2_doc_len(doc, path) : 0;
    *n_indexers = *n_indexed = 0;
    for (int64_t layer = 0; layer < n; layer++) {
        snprintf(path, sizeof path, "%s/indexer_types/%lld", prefix, (long long)layer);
        const char *const word = s2_doc_text(doc, path);
        const bool own = word != NULL && strcmp(word, "full") == 0;
        if (!own && (word == NULL || strcmp(word, "shared") != 0 || layer == 0))
            return s2_doc_refuse(doc, path, diag, "indexer_types: expected full, or after it shared");
        *n_indexers += own;
        ++*n_indexed;
    }
    return S2_OK;
}

/* Read all of the widths or none: nothing can be priced by half of them. */
s2_status s2_model_computed_read(const s2_source *source, const char *prefix, s2_pattern *out)
{
    s2_computed read = {0};
    int32_t plain_dim;
    S2_TRY(read_own(source, prefix, "kv_lora_rank", &read.latent_dim));
    S2_TRY(read_own(source, prefix, "qk_rope_head_dim", &read.rotary_dim));
    S2_TRY(read_own(source, prefix, "qk_nope_head_dim", &plain_dim));
    S2_TRY(read_own(source, prefix, "v_head_dim", &read.value_dim));
    S2_TRY(read_own(source, prefix, "index_n_heads", &read.index_heads));
    S2_TRY(read_own(source, prefix, "index_head_dim", &read.index_dim));
    S2_TRY(s2_model_indexers_read(source->doc, prefix, &read.n_indexers, &read.n_indexed, source->diag));
    read.score_dim = plain_dim + read.rotary_dim;
    if (plain_dim == 0 || read.value_dim == 0)
        read.latent_dim = 0;
    if (read.latent_dim == 0)
        read.rotary_dim = read.score_dim = read.value_dim = 0;
    if (read.index_heads == 0 || read.index_dim == 0)
        read.index_heads = read.index_dim = 0;
    s2_computed *const kept = S2_NEW(source->arena, s2_computed, 1);
    if (kept == NULL)
        return S2_ENOMEM;
    *kept = read;
    out->computed = kept;
    return S2_OK;
}

/* The names of one number in decoder configs, and in configs that also have an encoder. */
typedef struct spelling {
    const char *const plain[10];
    const char *const decoder[5];
} spelling;

static const spelling layer_names = {{"num_hidden_layers", "n_layer", "num_layers", "n_layers",
                                      "encoder_layers", "num_encoder_layers", NULL},
                                     {"decoder_layers", "num_decoder_layers", NULL}},
                      head_names = {{"num_attention_heads", "n_head", "num_heads", "n_heads",
                                     "attention_heads", "encoder_attention_heads", NULL},
                                    {"decoder_attention_heads", "num_decoder_attention_heads", NULL}},
                      kv_names = {{"attn_config/kv_n_heads", "num_key_value_heads", "num_kv_heads",
                                   "kv_num_heads", "n_kv_heads", "n_head_kv", "num_query_groups",
                                   "num_attention_groups", "multi_query_group_num", NULL},
                                  {NULL}},
                      dim_names = {{"head_dim", "attention_head_dim", "kv_channels", "d_head", "head_size",
                                    NULL},
                                   {NULL}},
                      hidden_names = {{"hidden_size", "n_embd", "d_model", "n_embed", "emb_dim", NULL},
                                      {NULL}};

static const char *const *names_of(const spelling *names, bool is_decoder)
{
    return is_decoder && names->decoder[0] != NULL ? names->decoder : names->plain;
}

/* A multi-query model has one KV head, whatever its other keys say; Falcon's newer architecture is not one. */
static s2_status is_multi_query(const s2_source *source, const char *prefix, bool *out)
{
    char path[128];
    bool grouped;
    snprintf(path, sizeof path, "%s/new_decoder_architecture", prefix);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &grouped, source->diag));
    snprintf(path, sizeof path, "%s/multi_query", prefix);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, out, source->diag));
    *out = *out && !grouped;
    return S2_OK;
}

/* Models whose code reads no number of KV heads have one for each head, whatever the file says. */
static s2_status refuse_groups(const s2_source *source, const char *prefix, const s2_model_shape *shape)
{
    const char *const name = s2_model_type_name(source->doc, prefix);
    const s2_model_type *const type = s2_model_type_find(name);
    char path[128];
    if (type == NULL || (type->flags & S2_UNGROUPED) == 0 || shape->n_kv_heads == shape->n_heads ||
        s2_setting_text(&source->settings, "kv-heads") != NULL ||
        spelled(source->doc, prefix, kv_names.plain, path, sizeof path) == NULL)
        return S2_OK;
    return s2_doc_refuse(
        source->doc, path, source->diag,
        "a model of type \"%s\" has a KV head for each of its %lld heads, and its code does not "
        "read this (leave it out, or --set kv-heads=N)",
        name, (long long)shape->n_heads);
}

static s2_status read_kv_heads(const s2_source *source, const char *prefix, int64_t n_implied,
                               s2_model_shape *shape)
{
    bool one;
    S2_TRY(is_multi_query(source, prefix, &one));
    if (one)
        return s2_setting_int(&source->settings, "kv-heads", 1, shape->n_heads, 1, &shape->n_kv_heads,
                              source->diag);
    const int64_t fallback = n_implied > 0 && shape->n_heads % n_implied == 0 ? n_implied : shape->n_heads;
    return shape_number(source, prefix, kv_names.plain, "kv-heads", shape->n_heads, fallback,
                        &shape->n_kv_heads);
}

/* The number of layers if the config lists their kinds and leaves their number out; else 0. */
static int64_t listed_layers(const s2_source *source, const char *prefix)
{
    static const char *const lists[] = {"layer_types", "layers_block_type", "hybrid_override_pattern"};
    s2_doc doc = *source->doc;
    doc.asked = NULL; /* counting them does not mean that their words were read */
    for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", prefix, lists[n]);
        const char *const letters = s2_doc_text(&doc, path);
        const int64_t count = letters != NULL ? (int64_t)strlen(letters) : s2_doc_len(&doc, path);
        if (count > 0 && count <= S2_LIMIT_LAYERS)
            return count;
    }
    return 0;
}

/* Settings of one attention may leave the number of layers out; the config of a whole model may not. */
static s2_status require_layers(const s2_source *source, const char *prefix, const char *const *names)
{
    char path[128];
    const bool is_model = s2_doc_has(source->doc, "/architectures") ||
                          s2_model_type_name(source->doc, prefix) != NULL ||
                          s2_model_type_name(source->doc, "") != NULL;
    if (!is_model || spelled(source->doc, prefix, names, path, sizeof path) != NULL ||
        listed_layers(source, prefix) > 0 || s2_setting_text(&source->settings, "layers") != NULL)
        return S2_OK;
    snprintf(path, sizeof path, "%s/%s", prefix, *names);
    return s2_doc_refuse(source->doc, path, source->diag, "\"%s\" is missing (or --set layers=N)", *names);
}

/* HRM-Text: files that transformers has not rewritten count the layers of one of its stacks. */
static s2_status count_cycles(const s2_source *source, const char *prefix, int64_t *n_layers)
{
    const char *const name = s2_model_type_name(source->doc, prefix);
    char path[128];
    int64_t n_high, n_low;
    snprintf(path, sizeof path, "%s/num_layers_per_stack", prefix);
    if (name == NULL || strcmp(name, "hrm_text") != 0 || s2_doc_has(source->doc, path))
        return S2_OK;
    snprintf(path, sizeof path, "%s/H_cycles", prefix);
    S2_TRY(s2_doc_int_or(source->doc, path, 1, S2_LIMIT_LAYERS, 2, &n_high, source->diag));
    snprintf(path, sizeof path, "%s/L_cycles", prefix);
    S2_TRY(s2_doc_int_or(source->doc, path, 1, S2_LIMIT_LAYERS, 3, &n_low, source->diag));
    *n_layers *= n_high * (n_low + 1);
    if (*n_layers > S2_LIMIT_LAYERS)
        return s2_doc_refuse(source->doc, path, source->diag, "more than %d layers", S2_LIMIT_LAYERS);
    s2_note(source->notes, "each pass through a layer has a cache of its own: %lld layers",
            (long long)*n_layers);
    return S2_OK;
}

/* LongCat-Flash: its code goes by num_layers, and each of them has two attentions with a cache of their own. */
static s2_status count_pairs(const s2_source *source, const char *prefix, int64_t *n_layers)
{
    const char *const name = s2_model_type_name(source->doc, prefix);
    char path[128];
    int64_t n_pairs;
    if (name == NULL || strcmp(name, "longcat_flash") != 0 ||
        s2_setting_text(&source->settings, "layers") != NULL)
        return S2_OK;
    snprintf(path, sizeof path, "%s/num_layers", prefix);
    S2_TRY(s2_doc_int(source->doc, path, 1, S2_LIMIT_LAYERS / 2, &n_pairs, source->diag));
    *n_layers = 2 * n_pairs;
    s2_note(source->notes, "each of num_layers has two attentions with a cache of their own: %lld layers",
            (long long)*n_layers);
    return S2_OK;
}

/* JetMoe's code computes its heads, whatever the file says about them. */
static s2_status count_expert_heads(const s2_source *source, const char *prefix, s2_model_shape *shape)
{
    const char *const name = s2_model_type_name(source->doc, prefix);
    char path[128];
    int64_t n_experts;
    if (name == NULL || strcmp(name, "jetmoe") != 0)
        return S2_OK;
    snprintf(path, sizeof path, "%s/num_experts_per_tok", prefix);
    S2_TRY(
        s2_doc_int_or(source->doc, path, 1, S2_LIMIT_HEADS / shape->n_kv_heads, 2, &n_experts, source->diag));
    shape->n_heads = shape->n_kv_heads * n_experts;
    s2_note(source->notes, "JetMoe has num_key_value_heads times num_experts_per_tok heads: %lld",
            (long long)shape->n_heads);
    return S2_OK;
}

/* Nothing says how wide a head is, and the hidden state has no whole share for each: rounded, as in transformers. */
static void note_rounded(const s2_source *source, const char *prefix, int64_t n_hidden,
                         const s2_model_shape *shape)
{
    static const char *const latent[] = {"kv_lora_rank", NULL};
    char path[128];
    if (shape->head_dim == n_hidden / shape->n_heads && n_hidden % shape->n_heads != 0 &&
        s2_setting_text(&source->settings, "head-dim") == NULL &&
        spelled(source->doc, prefix, latent, path, sizeof path) == NULL &&
        spelled(source->doc, prefix, dim_names.plain, path, sizeof path) == NULL)
        s2_note(
            source->notes,
            "\"head_dim\" is missing, and %lld heads do not divide a hidden state of %lld: %lld is taken, "
            "rounded down (--set head-dim=N)",
            (long long)shape->n_heads, (long long)n_hidden, (long long)shape->head_dim);
}

/* Zamba's attention reads the hidden state and the embedding side by side, whatever kv_channels says. */
static void widen_heads(const s2_source *source, const char *prefix, int64_t n_hidden, s2_model_shape *shape)
{
    const char *const name = s2_model_type_name(source->doc, prefix);
    char path[128];
    snprintf(path, sizeof path, "%s/attention_head_dim", prefix);
    if (name != NULL && strncmp(name, "zamba", 5) == 0 && !s2_doc_has(source->doc, path) &&
        s2_setting_text(&source->settings, "head-dim") == NULL &&
        2 * n_hidden / shape->n_heads <= S2_LIMIT_HEAD_DIM)
        shape->head_dim = s2_max_i64(2 * n_hidden / shape->n_heads, 1);
}

s2_status s2_model_shape_read(const s2_source *source, const char *prefix, s2_model_shape *out)
{
    const s2_model_shape implied = implied_shape(source, prefix);
    const s2_model_type *const type = s2_model_type_find(s2_model_type_name(source->doc, prefix));
    const bool is_decoder = type != NULL && type->rule == S2_RULE_DECODER;
    s2_model_shape shape;
    int64_t n_hidden;
    S2_TRY(shape_number(source, prefix, names_of(&layer_names, is_decoder), "layers", S2_LIMIT_LAYERS,
                        s2_max_i64(listed_layers(source, prefix), 1), &shape.n_layers));
    S2_TRY(require_layers(source, prefix, names_of(&layer_names, is_decoder)));
    S2_TRY(count_cycles(source, prefix, &shape.n_layers));
    S2_TRY(count_pairs(source, prefix, &shape.n_layers));
    S2_TRY(shape_number(source, prefix, names_of(&head_names, is_decoder), "heads", S2_LIMIT_HEADS,
                        implied.n_heads, &shape.n_heads));
    if (shape.n_heads == 0)
        S2_TRY(s2_model_refuse_states(source, prefix));
    if (shape.n_heads == 0) {
        char path[128];
        snprintf(path, sizeof path, "%s/num_attention_heads", prefix);
        return s2_doc_refuse(source->doc, path, source->diag,
                             "\"num_attention_heads\" is missing (or --set heads=N)");
    }
    S2_TRY(read_kv_heads(source, prefix, implied.n_kv_heads, &shape));
    S2_TRY(refuse_groups(source, prefix, &shape));
    S2_TRY(count_expert_heads(source, prefix, &shape));
    if (shape.n_heads % shape.n_kv_heads != 0)
        return s2_doc_refuse(source->doc, prefix, source->diag, "%lld KV heads do not divide %lld heads",
                             (long long)shape.n_kv_heads, (long long)shape.n_heads);
    S2_TRY(shape_number(source, prefix, hidden_names.plain, "hidden", INT32_MAX, 0, &n_hidden));
    int64_t dim = implied.head_dim > 0 ? implied.head_dim : n_hidden / shape.n_heads;
    if (dim > S2_LIMIT_HEAD_DIM)
        dim = 0;
    S2_TRY(
        shape_number(source, prefix, dim_names.plain, "head-dim", S2_LIMIT_HEAD_DIM, dim, &shape.head_dim));
    note_rounded(source, prefix, n_hidden, &shape);
    widen_heads(source, prefix, n_hidden, &shape);
    *out = shape;
    return S2_OK;
}

static s2_status agrees(const s2_source *source, const char *prefix, const char *const *names,
                        int64_t expected)
{
    char path[128];
    int64_t value;
    if (spelled(source->doc, prefix, names, path, sizeof path) == NULL)
        return S2_OK;
    S2_TRY(s2_doc_int(source->doc, path, 1, INT32_MAX, &value, source->diag));
    if (value == expected)
        return S2_OK;
    return s2_doc_refuse(source->doc, path, source->diag,
                         "\"%s\" is %lld, but by the rest of the file it is %lld", strrchr(path, '/') + 1,
                         (long long)value, (long long)expected);
}

s2_status s2_model_agrees(const s2_source *source, const char *prefix, int64_t n_heads, int64_t n_kv_heads)
{
    S2_TRY(agrees(source, prefix, head_names.plain, n_heads));
    return n_kv_heads > 0 ? agrees(source, prefix, kv_names.plain, n_kv_heads) : S2_OK;
}

void s2_model_shape_print(s2_buf *buf, const s2_pattern *pattern, const char *indent)
{
    s2_buf_printf(buf, "%s\"num_hidden_layers\": %d,\n%s\"num_attention_heads\": %d,\n", indent,
                  pattern->n_layers, indent, pattern->n_heads);
    s2_buf_printf(buf, "%s\"num_key_value_heads\": %d,\n%s\"head_dim\": %d,\n", indent, pattern->n_kv_heads,
                  indent, pattern->head_dim);
}
