#include "sim/net.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"
#include "pattern/models.h"

enum { CODE_MODEL = 701, CODE_SHAPE = 702 };

static_assert((int)S2_NET_LAYERS == (int)S2_LIMIT_LAYERS, "a pattern's layers are a model's");

const char *s2_net_nearest(const char *word, int32_t *distance)
{
    const char *nearest = "";
    const char *const slash = strrchr(word, '/'); /* "meta-llama/Llama-3.1-8B" */
    *distance = S2_NAME_FAR;
    for (int32_t m = 0; m < s2_model_count(); m++)
        nearest =
            s2_text_nearer(slash != NULL ? slash + 1 : word, s2_model_at(m)->net.name, nearest, distance);
    return nearest;
}

s2_status s2_net_find(const char *name, s2_net *out, s2_diag *diag)
{
    const s2_model *const model = s2_model_find(name, strlen(name));
    if (model != NULL) {
        *out = model->net;
        return S2_OK;
    }
    int32_t distance;
    const char *const nearest = s2_net_nearest(name, &distance);
    char clean[60];
    s2_text_clean(clean, sizeof clean, name);
    return s2_diag_set(diag, S2_EINVAL, CODE_MODEL, 0, 0, "no model %s is built in%s%s", clean,
                       distance < S2_NAME_FAR ? "; the nearest is " : "", nearest);
}

s2_net_layer s2_net_layer_at(const s2_net *net, int32_t layer)
{
    const s2_mixture *const mixture = &net->mixture;
    if (net->unlike)
        return net->layers[mixture->from_layer + layer];
    const int32_t beyond = mixture->from_layer + layer - mixture->first;
    const bool experts = net->n_experts == 1 || (beyond >= 0 && beyond % s2_max_i32(mixture->every, 1) == 0);
    return (s2_net_layer){.attends = 1, .n_plain = !experts, .n_mixtures = experts};
}

s2_net_heads s2_net_heads_at(const s2_net *net, int32_t layer)
{
    const s2_net_layer own = s2_net_layer_at(net, layer);
    s2_net_heads heads = {net->n_kv_heads, net->head_dim, 2};
    if (own.heads > 0)
        heads = net->others[own.heads - 1];
    if (own.shares)
        heads.n_matrices = 0;
    return heads;
}

s2_net_counts s2_net_count(const s2_net *net)
{
    s2_net_counts counts = {0};
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        const s2_net_layer own = s2_net_layer_at(net, layer);
        counts.n_attention += own.attends;
        counts.n_mixers += own.mixes;
        counts.n_plain += own.n_plain;
        counts.n_mixtures += own.n_mixtures;
        counts.n_wide += own.is_wide;
    }
    return counts;
}

/* What leads to a latent of the hidden state and back is two matrices, as so many columns of all that a column has. */
static double mixture_columns(const s2_net *net, double expert_columns)
{
    return expert_columns + net->mixture.shared_ffn + net->mixture.latent_dim * 2.0 / (net->gated ? 3 : 2);
}

s2_net_inner s2_net_inner_of(const s2_net *net, double expert_columns)
{
    const s2_net_counts counts = s2_net_count(net);
    const double n = counts.n_mixtures + counts.n_wide, picked = n * expert_columns;
    const bool dense = net->n_experts == 1;
    return (s2_net_inner){.experts = dense ? 0 : picked,
                          .shared = n * mixture_columns(net, 0),
                          .plain = (dense ? picked : 0) + (double)counts.n_plain * net->mixture.plain_ffn};
}

double s2_net_columns(const s2_net *net, double expert_columns)
{
    const s2_net_inner inner = s2_net_inner_of(net, expert_columns);
    return inner.experts + inner.shared + inner.plain;
}

double s2_net_widest(const s2_net *net, double expert_columns)
{
    const s2_net_counts counts = s2_net_count(net);
    const double experts = mixture_columns(net, expert_columns);
    return fmax(counts.n_mixtures == 0 ? 0
                : counts.n_wide > 0    ? 2 * experts
                                       : experts,
                counts.n_plain > 0 ? net->mixture.plain_ffn : 0);
}

double s2_net_layer_columns(const s2_net *net, int32_t layer, double expert_columns)
{
    const s2_net_layer own = s2_net_layer_at(net, layer);
    return (own.n_mixtures + own.is_wide) * mixture_columns(net, expert_columns) +
           (double)own.n_plain * net->mixture.plain_ffn;
}

double s2_net_layer_widest(const s2_net *net, int32_t layer, double expert_columns)
{
    const s2_net_layer own = s2_net_layer_at(net, layer);
    const double experts = (1 + own.is_wide) * mixture_columns(net, expert_columns);
    return fmax(own.n_mixtures > 0 ? experts : 0, own.n_plain > 0 ? net->mixture.plain_ffn : 0);
}

int32_t s2_net_expert_input(const s2_net *net)
{
    return net->mixture.latent_dim > 0 ? net->mixture.latent_dim : net->hidden;
}

double s2_net_expert_part(const s2_net *net)
{
    return (double)s2_net_expert_input(net) / net->hidden;
}

s2_latent_weights s2_net_latent_weights(const s2_net *net)
{
    const s2_latent *const own = &net->latent;
    const int64_t hidden = net->hidden, n_heads = net->n_heads,
                  asked = n_heads * (own->plain_dim + own->rotary_dim),
                  made = n_heads * (own->plain_dim + own->value_dim), given = n_heads * own->value_dim,
                  index_width = (int64_t)own->index_heads * own->index_dim,
                  from = own->query_dim > 0 ? own->query_dim : hidden,
                  index = from * index_width + hidden * (own->index_heads + own->index_dim);
    return (s2_latent_weights){.whole =
                                   hidden * (own->query_dim + own->latent_dim + own->rotary_dim) +
                                   (own->n_indexed > 0 ? index * own->n_indexers / own->n_indexed : index),
                               .by_head = from * asked + own->latent_dim * made + hidden * given};
}

int64_t s2_net_projections(const s2_net *net)
{
    const s2_latent_weights latent = s2_net_latent_weights(net);
    int64_t columns = 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        const s2_net_heads own = s2_net_heads_at(net, layer);
        if (s2_net_layer_at(net, layer).attends)
            columns += ((int64_t)2 * net->n_heads + (int64_t)own.n_matrices * own.n_kv_heads) * own.head_dim;
    }
    const int64_t n_layers = s2_net_count(net).n_attention;
    return n_layers * net->beside +
           (s2_net_is_latent(net) ? n_layers * (latent.whole + latent.by_head) : net->hidden * columns);
}

int64_t s2_net_mixers(const s2_net *net)
{
    return s2_net_count(net).n_mixers * net->mixer.weights;
}

double s2_net_mixers_each(const s2_net *net, int32_t n_ranks)
{
    const s2_mixer *const own = &net->mixer;
    const int32_t n_parts = own->n_groups == 1 ? 1 : n_ranks;
    return s2_net_count(net).n_mixers *
           ((double)(own->weights - own->grouped) / n_ranks + (double)own->grouped / n_parts);
}

s2_status s2_net_check_mixers(const s2_net *net, int32_t n_ranks, s2_diag *diag)
{
    const s2_mixer *const own = &net->mixer;
    if (s2_net_count(net).n_mixers == 0)
        return S2_OK;
    const bool of_heads = own->n_shares > 0 && own->n_shares % n_ranks != 0,
               of_groups = own->n_groups > 1 && own->n_groups % n_ranks != 0;
    if (!of_heads && !of_groups)
        return S2_OK;
    return s2_diag_set(diag, S2_EINVAL, CODE_SHAPE, 0, 0,
                       "%d GPUs cannot share the mixers of %s: their number must divide %s%d%s", n_ranks,
                       net->name, of_heads ? "" : "the ", of_heads ? own->n_shares : own->n_groups,
                       of_heads ? ", as the heads or channels of a state"
                                : " groups (one group alone is copied to each)");
}

int64_t s2_net_weights(const s2_net *net)
{
    const int64_t embedding = (int64_t)net->vocab * net->hidden;
    const double matrices = net->gated ? 3 : 2,
                 columns = s2_net_columns(net, (double)net->ffn * net->n_experts * s2_net_expert_part(net));
    return s2_net_projections(net) + s2_net_mixers(net) + llround(matrices * net->hidden * columns) +
           embedding * (net->tied ? 1 : 2) + net->table + net->once;
}

/* What one layer has, of the model or of the pattern: numbers alone, so that two are compared as they lie. */
typedef struct layer_facts {
    int32_t attends, n_kv_heads, head_dim, shares, mixes;
} layer_facts;

static layer_facts facts_of(const s2_net *net, int32_t layer)
{
    const s2_net_layer own = s2_net_layer_at(net, layer);
    const s2_net_heads heads = s2_net_heads_at(net, layer);
    return own.attends ? (layer_facts){1, heads.n_kv_heads, heads.head_dim, own.shares, own.mixes}
                       : (layer_facts){.mixes = own.mixes};
}

static layer_facts facts_in(const s2_pattern *pattern, int32_t layer)
{
    const bool mixes = s2_pattern_state_bytes(pattern, layer) > 0;
    if (s2_pattern_is_state_layer(pattern, layer))
        return (layer_facts){.mixes = mixes};
    return (layer_facts){1, s2_pattern_kv_heads(pattern, layer), s2_pattern_head_dim(pattern, layer),
                         s2_pattern_kv_layer(pattern, layer) != layer, mixes};
}

/* Each layer of the pattern reads keys and keeps a state where that of the model does. */
static s2_status check_layers(const s2_pattern *pattern, const s2_net *net, s2_diag *diag)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const layer_facts wanted = facts_of(net, layer), found = facts_in(pattern, layer);
        if (memcmp(&wanted, &found, sizeof wanted) != 0)
            return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_SHAPE, 0, 0,
                               "layer %d of %s has %d KV heads of %d%s and %s; that of the pattern has %d of "
                               "%d%s and %s: s2 import writes the pattern of a config.json",
                               layer, net->name, wanted.n_kv_heads, wanted.head_dim,
                               wanted.shares ? " of another layer" : "",
                               wanted.mixes ? "keeps a state" : "keeps no state", found.n_kv_heads,
                               found.head_dim, found.shares ? " of another layer" : "",
                               found.mixes ? "keeps one" : "keeps none");
    }
    return S2_OK;
}

s2_status s2_net_check_shape(const s2_net *net, const s2_pattern *pattern, s2_diag *diag)
{
    if (s2_net_is_latent(net) != s2_pattern_is_latent(pattern))
        return s2_diag_set(
            diag, S2_EINVAL, CODE_SHAPE, 0, 0,
            "attention of %s is %slatent, that of the pattern is %s: its widths have no law here", net->name,
            s2_net_is_latent(net) ? "" : "not ", s2_net_is_latent(net) ? "not" : "latent");
    if (net->n_layers == pattern->n_layers && net->n_heads == pattern->n_heads &&
        net->n_kv_heads == pattern->n_kv_heads && net->head_dim == pattern->head_dim)
        return check_layers(pattern, net, diag);
    return s2_diag_set(
        diag, S2_EINVAL, CODE_SHAPE, 0, 0,
        "model %s has %d layers, %d heads, %d KV heads of %d; the pattern has %d, %d, %d of %d", net->name,
        net->n_layers, net->n_heads, net->n_kv_heads, net->head_dim, pattern->n_layers, pattern->n_heads,
        pattern->n_kv_heads, pattern->head_dim);
}
