#include "export/widths.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"
#include "export/mixture.h"
#include "export/model.h"
#include "export/stored.h"

/* Products of these stay far below 2^63. */
enum { MOST_HIDDEN = 1 << 17, MOST_VOCAB = 1 << 24 };

typedef struct reader {
    const s2_doc *doc;
    const char *prefix;
    s2_diag *diag;
} reader;

/* The first spelling that the config has. */
static s2_status read_number(const reader *r, const char *const *names, int64_t most, int32_t *out)
{
    char path[S2_DOC_PATH];
    int64_t value;
    const char *const first = *names;
    while (*names != NULL && !s2_doc_has(r->doc, s2_doc_under(r->prefix, *names, path)))
        names++;
    if (*names == NULL && s2_model_is_params(r->doc))
        return s2_doc_refuse(r->doc, "", r->diag,
                             "a params.json is not read: name the config.json of the same model");
    if (*names == NULL)
        return s2_doc_refuse(r->doc, s2_doc_under(r->prefix, first, path), r->diag,
                             "\"%s\" is missing: without it the layers around attention have no price",
                             first);
    S2_TRY(s2_doc_int(r->doc, path, 1, most, &value, r->diag));
    *out = (int32_t)value;
    return S2_OK;
}

/* A checkpoint of TensorRT-LLM has an architecture for a model_type, and gates are told by its activation. */
static s2_status check_gated(const reader *r)
{
    static const char *const gates[] = {"silu", "swiglu", "geglu", "gegelu"};
    char path[S2_DOC_PATH];
    if (s2_doc_text(r->doc, s2_doc_under(r->prefix, "architecture", path)) == NULL)
        return S2_OK;
    const char *const activation = s2_doc_text(r->doc, s2_doc_under(r->prefix, "hidden_act", path));
    for (size_t n = 0; activation != NULL && n < sizeof gates / sizeof *gates; n++)
        if (strcmp(activation, gates[n]) == 0)
            return S2_OK;
    return s2_doc_refuse(
        r->doc, path, r->diag,
        "whether feed-forward layers with this activation are gated is not known here: name the "
        "config.json from which the checkpoint was made");
}

static bool is_named(const reader *r, const char *type)
{
    const char *const name = s2_model_type_name(r->doc, r->prefix);
    return name != NULL && strcmp(name, type) == 0;
}

/* Types that have no row and more than plain layers: global projections, another width of K and V, layers apart. */
static bool is_other(const reader *r)
{
    static const char *const types[] = {"bigbird_pegasus", "led", "longformer", "nemotron-nas"};
    bool other = false;
    for (size_t n = 0; n < sizeof types / sizeof *types; n++)
        other = other || is_named(r, types[n]);
    return other;
}

/* Formats of their own, whose layers are plain but for what they read; others are taken to be so, and that is said. */
static void read_assumed(const reader *r, s2_net *out)
{
    static const char *const plain[] = {
        "axk2",          "big_bird",   "deepseek_v32",       "glm_moe_dsa",         "hy_v4",
        "hy_v4_vl_text", "minimax_m3", "minimax_m3_vl_text", "mistral_large4_text", "phi3small"};
    const char *const name = s2_model_type_name(r->doc, r->prefix);
    bool known = name == NULL || s2_model_type_find(name) != NULL;
    for (size_t n = 0; n < sizeof plain / sizeof *plain; n++)
        known = known || is_named(r, plain[n]);
    if (!known)
        s2_text_clean(out->assumed, sizeof out->assumed, name);
}

/* What the code of the model_type does of itself. */
static int32_t flags_of(const reader *r)
{
    const s2_model_type *const type = s2_model_type_find(s2_model_type_name(r->doc, r->prefix));
    return type != NULL ? type->flags : is_named(r, "big_bird") ? S2_UNGATED | S2_TIED : 0;
}

/* What the code of a model_type does where its config says nothing. */
static s2_status read_habits(const reader *r, s2_net *out)
{
    char path[S2_DOC_PATH];
    const char *const name = s2_model_type_name(r->doc, r->prefix);
    const int32_t flags = flags_of(r);
    out->gated = (flags & S2_UNGATED) == 0;
    if (name == NULL)
        S2_TRY(check_gated(r));
    /* multimodal models have it outside the object of the text model */
    const char *const where = s2_doc_has(r->doc, "/tie_word_embeddings")
                                  ? "/tie_word_embeddings"
                                  : s2_doc_under(r->prefix, "tie_word_embeddings", path);
    /* Phi-3-small's code comes with the model: it keeps the one embedding that transformers' base config says */
    const bool tied = (flags & S2_TIED) != 0 || (name != NULL && strcmp(name, "phi3small") == 0);
    return s2_doc_bool_or(r->doc, where, tied, &out->tied, r->diag);
}

/* Sinks are among the weights, of which the config says nothing. A null caps nothing. */
static s2_status read_scores(const reader *r, s2_net *out)
{
    static const double most_cap = 1e6, default_cap = 50;
    char path[S2_DOC_PATH];
    const int32_t flags = flags_of(r);
    out->sinks = (flags & S2_SINKS) != 0;
    s2_doc_under(r->prefix, "attn_logit_softcapping", path);
    if (!s2_doc_has(r->doc, path)) {
        out->cap = (flags & S2_CAPPED) != 0 && !s2_doc_is_null(r->doc, path) ? default_cap : 0;
        return S2_OK;
    }
    return s2_doc_num(r->doc, path, 0, most_cap, &out->cap, r->diag);
}

/* Gemma 3's text models leave it out, as they do their heads. */
static s2_status read_vocab(const reader *r, int32_t *out)
{
    static const char *const names[] = {"vocab_size", NULL};
    const char *const type = s2_model_type_name(r->doc, r->prefix);
    char path[S2_DOC_PATH];
    *out = 262208;
    if (type != NULL && strcmp(type, "gemma3_text") == 0 &&
        !s2_doc_has(r->doc, s2_doc_under(r->prefix, *names, path)))
        return S2_OK;
    return read_number(r, names, MOST_VOCAB, out);
}

/* A width of latent attention; 0 where the config has none, or null. */
static s2_status read_width(const reader *r, const char *key, int32_t *out)
{
    char path[S2_DOC_PATH];
    int64_t value;
    S2_TRY(s2_doc_int_or(r->doc, s2_doc_under(r->prefix, key, path), 0, MOST_HIDDEN, 0, &value, r->diag));
    *out = (int32_t)value;
    return S2_OK;
}

/* All widths of latent attention, and its one KV head. */
static s2_status read_latent(const reader *r, const s2_source *source, s2_model_shape *shape, s2_latent *out)
{
    static const char *const needed[] = {"qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"};
    s2_latent own = {0};
    char path[S2_DOC_PATH];
    if (!s2_doc_has(r->doc, s2_doc_under(r->prefix, "kv_lora_rank", path)))
        return S2_OK;
    for (size_t n = 0; n < sizeof needed / sizeof *needed; n++)
        if (!s2_doc_has(r->doc, s2_doc_under(r->prefix, needed[n], path)))
            return s2_doc_refuse(r->doc, path, r->diag,
                                 "\"%s\" is missing: without it latent attention has no price", needed[n]);
    if (s2_model_type_find(s2_model_type_name(r->doc, r->prefix)) == NULL &&
        s2_doc_has(r->doc, s2_doc_under(r->prefix, "linear_attn_config", path)))
        return s2_doc_refuse(r->doc, path, r->diag,
                             "which layers have linear attention beside latent ones is not known here "
                             "without a model_type that is: price attention alone, without --model");
    S2_TRY(read_width(r, "kv_lora_rank", &own.latent_dim));
    S2_TRY(read_width(r, "qk_rope_head_dim", &own.rotary_dim));
    S2_TRY(read_width(r, "q_lora_rank", &own.query_dim));
    S2_TRY(read_width(r, "qk_nope_head_dim", &own.plain_dim));
    S2_TRY(read_width(r, "v_head_dim", &own.value_dim));
    S2_TRY(read_width(r, "index_n_heads", &own.index_heads));
    S2_TRY(read_width(r, "index_head_dim", &own.index_dim));
    if (own.index_heads == 0 || own.index_dim == 0)
        own.index_heads = own.index_dim = 0;
    S2_TRY(s2_model_indexers_read(r->doc, r->prefix, &own.n_indexers, &own.n_indexed, r->diag));
    *out = own;
    return s2_model_latent_read(source, r->prefix, shape);
}

/* OPT's smallest but one, ELECTRA and RemBERT have an embedding of another width, and a product to and from it. */
static s2_status check_embedding(const reader *r, int32_t hidden)
{
    static const char *const names[] = {"word_embed_proj_dim", "embedding_size", "input_embedding_size"};
    char path[S2_DOC_PATH];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        int64_t width;
        S2_TRY(s2_doc_int_or(r->doc, s2_doc_under(r->prefix, names[n], path), 1, MOST_HIDDEN, hidden, &width,
                             r->diag));
        if (width != hidden)
            return s2_doc_refuse(r->doc, path, r->diag,
                                 "an embedding of another width than the hidden state (%d) has no price here",
                                 hidden);
    }
    return S2_OK;
}

/* ---- models that are more than layers of one shape */

/* What a layer's heads are, as one of those of the net: its own, or others of which it lists a few. */
static s2_status take_heads(const reader *r, s2_net_heads heads, s2_net *out, s2_net_layer *layer)
{
    int32_t nth = 0;
    if (heads.n_kv_heads == out->n_kv_heads && heads.head_dim == out->head_dim && heads.n_matrices == 2)
        return S2_OK;
    while (nth < S2_NET_OTHERS && out->others[nth].head_dim > 0 &&
           memcmp(&out->others[nth], &heads, sizeof heads) != 0)
        nth++;
    if (nth == S2_NET_OTHERS)
        return s2_doc_refuse(r->doc, r->prefix, r->diag,
                             "layers of more than %d unlike numbers of KV heads or head dimensions have no "
                             "price here: price attention alone, without --model",
                             S2_NET_OTHERS + 1);
    out->others[nth] = heads;
    layer->heads = (unsigned)(nth + 1) & 7U;
    return S2_OK;
}

/* The heads of a layer that attends. Gemma 4: a full layer may have no matrix for V, which is K. */
static s2_status read_heads(const reader *r, const s2_model_layers *layers, int32_t layer, s2_net *net,
                            s2_net_layer *out)
{
    char path[S2_DOC_PATH];
    bool one;
    S2_TRY(s2_doc_bool_or(r->doc, s2_doc_under(r->prefix, "attention_k_eq_v", path), false, &one, r->diag));
    s2_net_heads heads = {net->n_kv_heads, net->head_dim,
                          one && layers->kind[layer] == S2_LAYER_FULL ? 1 : 2};
    if (layers->kv_heads != NULL && layers->kv_heads[layer] > 0)
        heads.n_kv_heads = layers->kv_heads[layer];
    if (layers->head_dim != NULL && layers->head_dim[layer] > 0)
        heads.head_dim = layers->head_dim[layer];
    out->shares =
        layers->kv_layer != NULL && layers->kv_layer[layer] >= 0 && layers->kv_layer[layer] != layer;
    return take_heads(r, heads, net, out);
}

/* Layers of feed-forward alone, which are no layers of the net: each counts to the one before it, or to the first. */
static s2_status add_apart(const reader *r, s2_layer_kind kind, const s2_net *net, s2_net_layer *out)
{
    enum { MOST_APART = 7 };
    if (out->n_plain == MOST_APART || out->n_mixtures == MOST_APART)
        return s2_doc_refuse(r->doc, r->prefix, r->diag,
                             "more than %d feed-forward layers one after another have no price here",
                             MOST_APART);
    if (kind == S2_LAYER_EXPERTS && net->n_experts == 1)
        return s2_doc_refuse(r->doc, r->prefix, r->diag,
                             "layers have experts, but not under a name that is known here how many");
    if (kind == S2_LAYER_EXPERTS || net->n_experts == 1)
        out->n_mixtures++;
    else
        out->n_plain++;
    return S2_OK;
}

/* A stack of layers apart that has no experts, whatever its config says of some. */
static void drop_experts(const s2_model_layers *layers, s2_net *net)
{
    for (int32_t layer = 0; layer < net->n_layers; layer++)
        if (layers->kind[layer] == S2_LAYER_EXPERTS)
            return;
    net->ffn = net->n_experts > 1 ? net->mixture.plain_ffn : net->ffn;
    net->n_experts = net->n_active = 1;
    net->mixture = (s2_mixture){0};
}

/* Gemma 4's small ones: layers that share keys have a feed-forward of twice the width. */
static s2_status read_wide(const reader *r, const s2_net *net, bool *out)
{
    char path[S2_DOC_PATH];
    S2_TRY(s2_doc_bool_or(r->doc, s2_doc_under(r->prefix, "use_double_wide_mlp", path), false, out, r->diag));
    if (!*out || net->n_experts == 1)
        return S2_OK;
    return s2_doc_refuse(r->doc, path, r->diag,
                         "a feed-forward that is wider beside experts in some layers has no price here: "
                         "price attention alone, without --model");
}

/* Layers with keys or a state are the net's, as they are the pattern's. */
static s2_status list_layers(const reader *r, const s2_model_layers *layers, bool apart, s2_net *out)
{
    s2_net_layer listed[S2_NET_LAYERS] = {0};
    int32_t n = 0;
    bool wide;
    S2_TRY(read_wide(r, out, &wide));
    for (int32_t layer = 0; layer < out->n_layers; layer++) {
        const s2_layer_kind kind = layers->kind[layer];
        if (kind >= S2_LAYER_IDLE) {
            S2_TRY(add_apart(r, kind, out, &listed[s2_max_i32(n - 1, 0)]));
            continue;
        }
        s2_net_layer *const own = &listed[n++];
        if (!apart)
            *own = out->layers[layer];
        own->attends = kind != S2_LAYER_RECURRENT;
        own->mixes = layers->state_bytes[kind] > 0;
        if (own->attends)
            S2_TRY(read_heads(r, layers, layer, out, own));
        own->is_wide = wide && own->shares;
        out->unlike |= own->mixes || apart || own->shares || own->heads > 0;
    }
    if (n == 0)
        return s2_doc_refuse(r->doc, r->prefix, r->diag, "no layer has attention or a state");
    out->n_layers = n;
    memcpy(out->layers, listed, sizeof listed);
    return S2_OK;
}

/* Hybrids, and what else is told layer by layer; the feed-forward was read. */
static s2_status read_unlike(const reader *r, const s2_source *source, const s2_model_type *type,
                             const s2_model_layers *layers, s2_net *out)
{
    const bool apart = out->apart = (type->flags & S2_APART) != 0;
    if (apart)
        drop_experts(layers, out);
    S2_TRY(list_layers(r, layers, apart, out));
    for (int32_t layer = 0; layer < out->n_layers && out->mixer.weights == 0; layer++)
        if (out->layers[layer].mixes)
            S2_TRY(s2_model_mixer_read(source, r->prefix, type->name, &out->mixer));
    return s2_model_beside_read(source, r->prefix, type->name, &out->beside);
}

/* Layers that read another input, such as an image, or run what no layer before them has. */
static s2_status refuse_idle(const reader *r, const s2_model_type *type, const s2_model_layers *layers,
                             const s2_model_shape *shape)
{
    for (int64_t layer = 0; layer < shape->n_layers; layer++)
        if (layers->kind[layer] >= S2_LAYER_IDLE && (type->flags & S2_APART) == 0)
            return s2_doc_refuse(
                r->doc, r->prefix, r->diag,
                "layer %lld has no attention of its own, and what is left of it has no price "
                "here: price attention alone, without --model",
                (long long)layer);
    return S2_OK;
}

/*
 * Gemma 3n: layers mix several copies of the hidden state, which are made at the first one and joined at the last, by a
 * matrix each; beside attention each has two that meet in a small rank.
 */
static s2_status read_copies(const reader *r, s2_net *out)
{
    enum { MOST_COPIES = 64 };
    char path[S2_DOC_PATH];
    int64_t n;
    int32_t rank;
    S2_TRY(s2_doc_int_or(r->doc, s2_doc_under(r->prefix, "altup_num_inputs", path), 1, MOST_COPIES, 1, &n,
                         r->diag));
    S2_TRY(read_width(r, "laurel_rank", &rank));
    out->beside += (int64_t)2 * rank * out->hidden;
    if (n == 1)
        return S2_OK;
    out->n_copies = (int32_t)n;
    out->once += 2 * (n - 1) * out->hidden * out->hidden;
    return S2_OK;
}

/* An embedding for each layer: a gate and a product in it, and one product for all of them (Gemma 4, small ones). */
static s2_status read_layer_inputs(const reader *r, s2_net *out)
{
    int32_t width, vocab = 0;
    S2_TRY(read_width(r, "hidden_size_per_layer_input", &width));
    if (width == 0)
        return S2_OK;
    S2_TRY(read_number(r, (const char *const[]){"vocab_size_per_layer_input", NULL}, MOST_VOCAB, &vocab));
    const int64_t all = (int64_t)width * out->n_layers;
    out->beside += (int64_t)2 * width * out->hidden;
    out->once += all * out->hidden;
    out->table = all * vocab;
    return S2_OK;
}

/* Of a type that is not in the table, keys that only layers with a state have. */
static s2_status refuse_unknown_states(const reader *r)
{
    static const char *const keys[] = {"layers_block_type",
                                       "hybrid_layer_ids",
                                       "hybrid_override_pattern",
                                       "attn_layer_indices",
                                       "mamba_d_state",
                                       "mamba_d_conv",
                                       "ssm_state_size",
                                       "linear_conv_kernel_dim",
                                       "linear_attn_config",
                                       "conv_L_cache",
                                       "lru_width"};
    char path[S2_DOC_PATH];
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
        if (s2_doc_has(r->doc, s2_doc_under(r->prefix, keys[n], path)))
            return s2_doc_refuse(
                r->doc, path, r->diag,
                "\"%s\": some layers keep a state, and of a model_type that is not in the table "
                "their matrices have no price here: price attention alone, without --model",
                keys[n]);
    return S2_OK;
}

/* A type that is not in the table is taken to be layers of attention and feed-forward. */
static s2_status check_layers(const reader *r, const s2_source *source, const s2_model_type *type,
                              const s2_model_shape *shape, s2_model_layers *layers)
{
    char path[S2_DOC_PATH];
    if (is_other(r))
        return s2_doc_refuse(r->doc, s2_doc_under(r->prefix, "model_type", path), r->diag,
                             "models of type \"%s\" have matrices besides those of attention and "
                             "feed-forward, which has no price here: price attention alone, without --model",
                             s2_model_type_name(r->doc, r->prefix));
    if (type == NULL)
        return refuse_unknown_states(r);
    S2_TRY(s2_model_layers_read(source, r->prefix, shape->n_layers, layers));
    S2_TRY(refuse_idle(r, type, layers, shape));
    if ((type->flags & S2_UNPRICED) != 0 || type->rule == S2_RULE_DECODER)
        return s2_doc_refuse(
            r->doc, s2_doc_under(r->prefix, "model_type", path), r->diag,
            "models of type \"%s\" have matrices besides those of attention and feed-forward, "
            "or share them, which has no price here: price attention alone, without --model",
            type->name);
    return S2_OK;
}

static s2_status read_all(const s2_doc *doc, s2_arena *arena, s2_buf *notes, s2_net *out, s2_diag *diag)
{
    static const char *const hidden[] = {"hidden_size", "n_embd", "d_model", "n_embed", NULL};
    const reader r = {doc, s2_model_prefix(doc), diag};
    const s2_source source = {.arena = arena, .doc = doc, .notes = notes, .diag = diag};
    const s2_model_type *const type = s2_model_type_find(s2_model_type_name(doc, r.prefix));
    s2_model_shape shape;
    s2_model_layers layers;
    S2_TRY(s2_model_refuse_states(&source, r.prefix));
    S2_TRY(s2_model_shape_read(&source, r.prefix, &shape));
    S2_TRY(read_latent(&r, &source, &shape, &out->latent));
    const s2_latent latent = out->latent;
    *out = (s2_net){.n_layers = (int32_t)shape.n_layers,
                    .n_heads = (int32_t)shape.n_heads,
                    .n_kv_heads = (int32_t)shape.n_kv_heads,
                    .head_dim = shape.head_dim > 0 ? (int32_t)shape.head_dim : 128,
                    .latent = latent};
    S2_TRY(check_layers(&r, &source, type, &shape, &layers));
    read_assumed(&r, out);
    S2_TRY(read_scores(&r, out));
    S2_TRY(read_number(&r, hidden, MOST_HIDDEN, &out->hidden));
    S2_TRY(check_embedding(&r, out->hidden));
    S2_TRY(read_vocab(&r, &out->vocab));
    S2_TRY(s2_mixture_read(doc, r.prefix, out, diag));
    if (type != NULL)
        S2_TRY(read_unlike(&r, &source, type, &layers, out));
    S2_TRY(read_layer_inputs(&r, out));
    S2_TRY(read_copies(&r, out));
    S2_TRY(read_habits(&r, out));
    out->beside_mlp = type != NULL && strncmp(type->name, "gemma4", 6) == 0;
    return s2_stored_read(doc, r.prefix, arena, out, diag);
}

s2_status s2_widths_read(const char *text, size_t n_bytes, s2_net *out, s2_diag *diag)
{
    s2_doc doc;
    s2_net read = {0};
    S2_TRY(s2_doc_parse(text, n_bytes, &doc, diag));
    s2_arena arena = {0};
    s2_buf notes = {0}; /* of a pattern, which this is none */
    s2_status status = read_all(&doc, &arena, &notes, &read, diag);
    if (status == S2_OK)
        status = notes.status;
    s2_arena_release(&arena);
    s2_buf_release(&notes);
    s2_doc_release(&doc);
    *out = read;
    return status;
}
