#include "export/mixture.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"
#include "export/model.h"
#include "pattern/spec.h"

typedef struct reader {
    const s2_doc *doc;
    const char *prefix;
    s2_diag *diag;
    char path[S2_DOC_PATH]; /* of what was looked for last */
} reader;

static const char *under(reader *r, const char *key)
{
    return s2_doc_under(r->prefix, key, r->path);
}

static bool has(reader *r, const char *key)
{
    return s2_doc_has(r->doc, under(r, key));
}

/* A number, or a list of one number for each layer, all the same. */
static s2_status read_each(reader *r, const char *key, int64_t low, int64_t high, int32_t *out)
{
    int64_t value = 0, other;
    char path[S2_DOC_PATH + 24];
    if (!s2_doc_is_array(r->doc, under(r, key))) {
        S2_TRY(s2_doc_int(r->doc, r->path, low, high, &value, r->diag));
        *out = (int32_t)value;
        return S2_OK;
    }
    const int64_t n = s2_doc_len(r->doc, r->path);
    for (int64_t nth = 0; nth < n; nth++) {
        snprintf(path, sizeof path, "%s/%lld", r->path, (long long)nth);
        S2_TRY(s2_doc_int(r->doc, path, low, high, nth == 0 ? &value : &other, r->diag));
        if (nth > 0 && other != value)
            return s2_doc_refuse(r->doc, path, r->diag,
                                 "layers whose feed-forward differs have no price here");
    }
    if (n == 0)
        return s2_doc_refuse(r->doc, r->path, r->diag, "a list of none says nothing of any layer");
    *out = (int32_t)value;
    return S2_OK;
}

/* The first name that the config has, or NULL. */
static const char *named(reader *r, const char *const *names)
{
    while (*names != NULL && !has(r, *names))
        names++;
    return *names;
}

static s2_status read_first(reader *r, const char *const *names, int64_t low, int64_t high, int32_t *out)
{
    const char *const name = named(r, names);
    if (name == NULL)
        return s2_doc_refuse(r->doc, under(r, names[0]), r->diag,
                             "\"%s\" is missing: without it the layers around attention have no price",
                             names[0]);
    return read_each(r, name, low, high, out);
}

/* ---- no mixture */

static bool names_experts(const char *key)
{
    char lower[64];
    size_t n = 0;
    for (; key[n] != '\0' && n < sizeof lower - 1; n++)
        lower[n] = (char)tolower((unsigned char)key[n]);
    lower[n] = '\0';
    return strstr(lower, "expert") != NULL || strstr(lower, "moe_") == lower;
}

/* Every family that was seen has one of the names below; others may come. */
static s2_status refuse_unknown_experts(reader *r)
{
    int64_t value;
    for (const char *key = NULL; (key = s2_doc_key(r->doc, r->prefix, key)) != NULL;) {
        char clean[40];
        if (!names_experts(key) || !s2_doc_is_int(r->doc, under(r, key)) ||
            s2_doc_int(r->doc, r->path, INT64_MIN, INT64_MAX, &value, NULL) != S2_OK || value <= 1)
            continue;
        s2_text_clean(clean, sizeof clean, key);
        return s2_doc_refuse(
            r->doc, r->path, r->diag,
            "\"%s\" says that this is a mixture of experts, but not under a name that is known "
            "here how many experts a layer has (num_experts, num_local_experts, "
            "n_routed_experts or moe_num_experts)",
            clean);
    }
    return S2_OK;
}

/* Whether the code of the model makes the feed-forward four times as wide as the hidden state where nothing is said. */
static bool is_four_times(reader *r)
{
    static const char *const types[] = {"bloom", "falcon",     "gpt_neo",        "gpt_neox_japanese",
                                        "mpt",   "RefinedWeb", "RefinedWebModel"};
    const char *const type = s2_model_type_name(r->doc, r->prefix);
    bool known = has(r, "n_embd");
    for (size_t n = 0; type != NULL && n < sizeof types / sizeof *types; n++)
        known = known || strcmp(type, types[n]) == 0;
    return known;
}

/* MPT says how many times, and GPT-NeoX in Japanese in its own word. */
static s2_status read_multiple(reader *r, s2_net *net)
{
    enum { USUAL = 4, MOST = 64 };
    int64_t times;
    const char *const key =
        has(r, "intermediate_multiple_size") ? "intermediate_multiple_size" : "expansion_ratio";
    S2_TRY(s2_doc_int_or(r->doc, under(r, key), 1, MOST, USUAL, &times, r->diag));
    net->ffn = (int32_t)s2_min_i64(times * net->hidden, S2_MOST_FFN);
    if (times * net->hidden > S2_MOST_FFN)
        return s2_doc_refuse(r->doc, r->path, r->diag,
                             "a feed-forward of more than %d columns has no price here", S2_MOST_FFN);
    return S2_OK;
}

/* LFM2 takes two thirds of the stated width, times a factor, up to a multiple; RecurrentGemma half of it. */
static s2_status adjust_width(reader *r, s2_net *net)
{
    static const double most_factor = 16;
    const char *const type = s2_model_type_name(r->doc, r->prefix);
    bool adjusts;
    int64_t multiple;
    double factor = 1;
    if (type != NULL && strcmp(type, "recurrent_gemma") == 0)
        net->ffn = s2_max_i32(net->ffn / 2, 1);
    S2_TRY(s2_doc_bool_or(r->doc, under(r, "block_auto_adjust_ff_dim"),
                          type != NULL && strcmp(type, "lfm2") == 0, &adjusts, r->diag));
    if (!adjusts)
        return S2_OK;
    if (has(r, "block_ffn_dim_multiplier"))
        S2_TRY(s2_doc_num(r->doc, r->path, 0, most_factor, &factor, r->diag));
    S2_TRY(s2_doc_int_or(r->doc, under(r, "block_multiple_of"), 1, S2_MOST_FFN, 256, &multiple, r->diag));
    const int64_t width = (int64_t)(factor * (double)(2 * (int64_t)net->ffn / 3)),
                  whole = s2_round_up(s2_max_i64(width, 1), multiple);
    net->ffn = (int32_t)s2_min_i64(whole, S2_MOST_FFN);
    return S2_OK;
}

static s2_status read_plain(reader *r, bool none_stated, s2_net *net)
{
    static const char *const names[] = {
        "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "dff", NULL};
    net->n_experts = net->n_active = 1;
    if (none_stated && has(r, "shared_intermediate_size")) /* Granite: what is shared is all there is */
        return read_each(r, "shared_intermediate_size", 1, S2_MOST_FFN, &net->ffn);
    if (!none_stated)
        S2_TRY(refuse_unknown_experts(r));
    if (named(r, names) == NULL && is_four_times(r))
        return read_multiple(r, net);
    if (has(r, "block_ff_dim")) /* LFM2's older name goes before */
        S2_TRY(read_each(r, "block_ff_dim", 1, S2_MOST_FFN, &net->ffn));
    else
        S2_TRY(read_first(r, names, 1, S2_MOST_FFN, &net->ffn));
    return adjust_width(r, net);
}

/* ---- what every token runs beside the experts it picks */

static s2_status read_shared(reader *r, const char *type, s2_net *net)
{
    static const char *const widths[] = {"shared_expert_intermediate_size",
                                         "moe_shared_expert_intermediate_size", "shared_intermediate_size",
                                         "share_expert_dim", NULL},
                             *const counts[] = {"n_shared_experts", "num_shared_experts", "num_shared_expert",
                                                "moe_num_shared_experts", NULL};
    int32_t n_shared = 0;
    if (named(r, widths) != NULL)
        return read_first(r, widths, 0, S2_MOST_FFN, &net->mixture.shared_ffn);
    if (named(r, counts) != NULL)
        S2_TRY(read_first(r, counts, 0, S2_MOST_EXPERTS, &n_shared));
    else if (strncmp(type, "llama4", 6) == 0) /* its code has one in each such layer */
        n_shared = 1;
    if (strncmp(type, "gemma4", 6) == 0) /* runs a whole feed-forward layer beside its experts */
        return read_each(r, "intermediate_size", 1, S2_MOST_FFN, &net->mixture.shared_ffn);
    const int64_t columns = (int64_t)n_shared * net->ffn;
    net->mixture.shared_ffn = (int32_t)s2_min_i64(columns, S2_MOST_FFN);
    if (columns > S2_MOST_FFN)
        return s2_doc_refuse(r->doc, r->path, r->diag,
                             "shared experts of more than %d columns have no price here", S2_MOST_FFN);
    return S2_OK;
}

/* Experts may work on a latent of the hidden state, in Nemotron's word or in Kimi's. */
static s2_status read_latent(reader *r, s2_net *net)
{
    static const char *const names[] = {"moe_latent_size", "routed_expert_hidden_size", NULL};
    return named(r, names) != NULL ? read_first(r, names, 1, net->hidden, &net->mixture.latent_dim) : S2_OK;
}

/* ---- which layers have experts */

typedef struct flags {
    bool is_set[S2_LIMIT_LAYERS];
    int32_t n;
} flags;

/* A list of layers by number, which then have experts, or have none. */
static s2_status take_numbers(reader *r, const char *key, bool experts, flags *out)
{
    int64_t layer;
    char path[S2_DOC_PATH + 24];
    if (!has(r, key) || !s2_doc_is_array(r->doc, r->path))
        return S2_OK;
    const int64_t n = s2_doc_len(r->doc, r->path);
    for (int32_t at = 0; at < out->n && experts; at++)
        out->is_set[at] = false;
    for (int64_t at = 0; at < n; at++) {
        snprintf(path, sizeof path, "%s/%lld", r->path, (long long)at);
        S2_TRY(s2_doc_int(r->doc, path, 0, out->n - 1, &layer, r->diag));
        out->is_set[layer] = experts;
    }
    return S2_OK;
}

/* "3,4,5": the same as text. */
static s2_status take_text(reader *r, const char *key, flags *out)
{
    const char *text = s2_doc_text(r->doc, under(r, key));
    if (text == NULL)
        return S2_OK;
    for (int32_t at = 0; at < out->n; at++)
        out->is_set[at] = false;
    while (*text != '\0') {
        char *end;
        const long layer = strtol(text, &end, 10);
        if (end == text || layer < 0 || layer >= out->n || (*end != '\0' && *end != ','))
            return s2_doc_refuse(r->doc, r->path, r->diag, "expected layers of this model, as in \"3,4,5\"");
        out->is_set[layer] = true;
        text = *end == ',' ? end + 1 : end;
    }
    return S2_OK;
}

/* What an array says of one layer, at a path. */
typedef s2_status (*take_layer)(const reader *r, const char *path, bool *is_set);

/* A number or a boolean. */
static s2_status take_flag(const reader *r, const char *path, bool *is_set)
{
    int64_t value = 0;
    S2_TRY(s2_doc_int(r->doc, path, 0, 1, &value, r->diag));
    *is_set = value != 0;
    return S2_OK;
}

/* "dense" or "sparse". */
static s2_status take_word(const reader *r, const char *path, bool *is_set)
{
    const char *const word = s2_doc_text(r->doc, path);
    *is_set = word != NULL && strcmp(word, "sparse") == 0;
    if (!*is_set && (word == NULL || strcmp(word, "dense") != 0))
        return s2_doc_refuse(r->doc, path, r->diag, "expected dense or sparse");
    return S2_OK;
}

/* An array with one of `what` for each layer. */
static s2_status take_each(reader *r, const char *key, const char *what, take_layer take, flags *out)
{
    char path[S2_DOC_PATH + 24];
    if (!has(r, key) || !s2_doc_is_array(r->doc, r->path))
        return S2_OK;
    if (s2_doc_len(r->doc, r->path) != out->n)
        return s2_doc_refuse(r->doc, r->path, r->diag, "expected a %s for each of %d layers", what, out->n);
    for (int32_t layer = 0; layer < out->n; layer++) {
        snprintf(path, sizeof path, "%s/%d", r->path, (int)layer);
        S2_TRY(take(r, path, &out->is_set[layer]));
    }
    return S2_OK;
}

static s2_status number_or(reader *r, const char *key, int64_t low, int64_t fallback, int64_t *out)
{
    return s2_doc_int_or(r->doc, under(r, key), low, S2_LIMIT_LAYERS, fallback, out, r->diag);
}

/* Layer l has experts where l >= first, l <= last and (l + 1) % every == 0; Jamba says which remainder it has. */
static s2_status take_rule(reader *r, const char *type, flags *out)
{
    static const char *const firsts[] = {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index",
                                         NULL},
                             *const steps[] = {"decoder_sparse_step", "interleave_moe_layer_step",
                                               "moe_layer_interval", NULL};
    const bool jamba = strcmp(type, "jamba") == 0;
    int64_t first = strncmp(type, "ernie4_5_moe", 12) == 0 ? 1 : 0, last, every = 1, offset;
    const char *const named_first = named(r, firsts), *const named_step = named(r, steps);
    if (named_first != NULL)
        S2_TRY(number_or(r, named_first, 0, first, &first));
    if (named_step != NULL)
        S2_TRY(number_or(r, named_step, 1, every, &every));
    S2_TRY(number_or(r, "expert_layer_period", 1, jamba ? 2 : every, &every));
    S2_TRY(number_or(r, "expert_layer_offset", 0, every - 1, &offset));
    S2_TRY(number_or(r, "moe_layer_end_index", -1, -1, &last));
    for (int32_t layer = 0; layer < out->n; layer++)
        out->is_set[layer] = layer >= first && (last < 0 || layer <= last) && layer % every == offset;
    return S2_OK;
}

/* How the layers with experts lie: evenly from one of them on, or else as a list says. */
static void find_rule(const flags *of, s2_net *out)
{
    int32_t first = 0, every = 1;
    while (first < of->n && !of->is_set[first])
        first++;
    while (first + every < of->n && !of->is_set[first + every])
        every++;
    out->unlike = first == of->n;
    for (int32_t layer = 0; layer < of->n; layer++) {
        out->unlike |= layer >= first && of->is_set[layer] != ((layer - first) % every == 0);
        out->layers[layer].n_mixtures = of->is_set[layer];
        out->layers[layer].n_plain = !of->is_set[layer];
    }
    out->mixture.first = first;
    out->mixture.every = every;
}

static s2_status read_layers(reader *r, const char *type, s2_net *net)
{
    static const char *const names[] = {"intermediate_size_mlp", "intermediate_size", NULL};
    const s2_model_type *const known = s2_model_type_find(type);
    flags layers = {.n = s2_min_i32(net->n_layers, S2_LIMIT_LAYERS)};
    if (known != NULL && (known->flags & S2_APART) != 0) /* layers of feed-forward alone are listed as such */
        return read_first(r, names, 1, S2_MOST_FFN, &net->mixture.plain_ffn);
    S2_TRY(take_rule(r, type, &layers));
    S2_TRY(take_numbers(r, "mlp_only_layers", false, &layers));
    S2_TRY(take_numbers(r, "moe_layers", true, &layers));
    S2_TRY(take_text(r, "moe_layers_enum", &layers));
    S2_TRY(take_each(r, "moe_layer_freq", "number", take_flag, &layers));
    S2_TRY(take_each(r, "mlp_layer_types", "word", take_word, &layers));
    find_rule(&layers, net);
    if (net->mixture.first == 0 && net->mixture.every == 1 && !net->unlike)
        return S2_OK; /* no layer is without experts */
    return read_first(r, names, 1, S2_MOST_FFN, &net->mixture.plain_ffn);
}

/*
 * LongCat-Flash: each of its layers is two here, which both have a feed-forward that every token runs, and the first
 * experts beside it. Some of the experts that a token may pick give back their input; picks are taken to be even.
 */
static s2_status read_shortcut(reader *r, s2_net *net)
{
    static const char *const widths[] = {"ffn_hidden_size", "intermediate_size", NULL};
    int64_t n_empty;
    s2_mixture *const mixture = &net->mixture;
    S2_TRY(s2_doc_int_or(r->doc, under(r, "zero_expert_num"), 0, S2_MOST_EXPERTS, 0, &n_empty, r->diag));
    S2_TRY(read_first(r, widths, 1, S2_MOST_FFN, &mixture->plain_ffn));
    mixture->shared_ffn = mixture->plain_ffn;
    mixture->every = 2;
    const int64_t n_all = net->n_experts + n_empty;
    net->n_active = (int32_t)s2_max_i64(1, ((int64_t)net->n_active * net->n_experts + n_all / 2) / n_all);
    return S2_OK;
}

/* ---- all of it */

static s2_status read_mixture(reader *r, const char *experts, s2_net *net)
{
    static const char *const active[] = {"num_experts_per_tok",
                                         "experts_per_token",
                                         "num_experts_per_token",
                                         "moe_topk",
                                         "moe_top_k",
                                         "moe_k",
                                         "top_k_experts",
                                         "ffn_config/moe_top_k",
                                         "moe/top_k",
                                         NULL},
                             *const own[] = {"moe_intermediate_size", "expert_ffn_hidden_size",
                                             "ffn_config/ffn_hidden_size", "intermediate_size", NULL};
    const char *const found = s2_model_type_name(r->doc, r->prefix), *const type = found != NULL ? found : "";
    S2_TRY(read_each(r, experts, 1, S2_MOST_EXPERTS, &net->n_experts));
    S2_TRY(read_first(r, active, 1, net->n_experts, &net->n_active));
    S2_TRY(read_first(r, own, 1, S2_MOST_FFN, &net->ffn));
    if (strcmp(type, "longcat_flash") == 0)
        return read_shortcut(r, net);
    S2_TRY(read_shared(r, type, net));
    S2_TRY(read_latent(r, net));
    return read_layers(r, type, net);
}

s2_status s2_mixture_read(const s2_doc *doc, const char *prefix, s2_net *net, s2_diag *diag)
{
    static const char *const names[] = {
        "num_local_experts",          "num_experts", "n_routed_experts", "moe_num_experts", "moe/num_experts",
        "ffn_config/moe_num_experts", NULL};
    reader r = {.doc = doc, .prefix = prefix, .diag = diag};
    const char *const name = named(&r, names);
    int32_t n = 0;
    net->mixture = (s2_mixture){0};
    const s2_model_type *const type = s2_model_type_find(s2_model_type_name(doc, prefix));
    net->n_experts = net->n_active = 1;
    if (type != NULL && type->rule == S2_RULE_STATES) /* layers have a mixer and nothing else */
        return S2_OK;
    for (int32_t layer = 0; layer < net->n_layers; layer++)
        net->layers[layer] = (s2_net_layer){.attends = 1, .n_mixtures = 1};
    if (name != NULL)
        S2_TRY(read_each(&r, name, 0, S2_MOST_EXPERTS, &n));
    return n > 1 ? read_mixture(&r, name, net) : read_plain(&r, name != NULL, net);
}
