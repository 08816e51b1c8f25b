#include "sim/net.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"
#include "pattern/models.h"

enum { CODE_MODEL = 701 };

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

bool s2_net_has_experts(const s2_net *net, int32_t layer)
{
    const s2_mixture *const mixture = &net->mixture;
    const int32_t beyond = mixture->from_layer + layer - mixture->first;
    return net->n_experts == 1 || (beyond >= 0 && beyond % s2_max_i32(mixture->every, 1) == 0);
}

int32_t s2_net_expert_layers(const s2_net *net)
{
    int32_t n = 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++)
        n += s2_net_has_experts(net, layer);
    return n;
}

double s2_net_columns(const s2_net *net, double expert_columns)
{
    const double n = s2_net_expert_layers(net);
    return n * (expert_columns + net->mixture.shared_ffn) + (net->n_layers - n) * net->mixture.plain_ffn;
}

double s2_net_widest(const s2_net *net, double expert_columns)
{
    const int32_t n = s2_net_expert_layers(net);
    return fmax(n > 0 ? expert_columns + net->mixture.shared_ffn : 0,
                n < net->n_layers ? net->mixture.plain_ffn : 0);
}

s2_latent_weights s2_net_latent_weights(const s2_net *net)
{
    const s2_latent *const own = &net->latent;
    const int64_t hidden = net->hidden, n_heads = net->n_heads,
                  asked = n_heads * (own->plain_dim + own->rotary_dim),
                  made = n_heads * (own->plain_dim + own->value_dim), given = n_heads * own->value_dim,
                  index_width = (int64_t)own->index_heads * own->index_dim,
                  from = own->query_dim > 0 ? own->query_dim : hidden;
    return (s2_latent_weights){.whole = hidden * (own->query_dim + own->latent_dim + own->rotary_dim) +
                                        from * index_width + hidden * (own->index_heads + own->index_dim),
                               .by_head = from * asked + own->latent_dim * made + hidden * given};
}

int64_t s2_net_projections(const s2_net *net)
{
    const int64_t q_width = (int64_t)net->n_heads * net->head_dim,
                  kv_width = (int64_t)net->n_kv_heads * net->head_dim;
    if (!s2_net_is_latent(net))
        return net->n_layers * net->hidden * (2 * q_width + 2 * kv_width);
    const s2_latent_weights layer = s2_net_latent_weights(net);
    return net->n_layers * (layer.whole + layer.by_head);
}

int64_t s2_net_weights(const s2_net *net)
{
    const int64_t embedding = (int64_t)net->vocab * net->hidden;
    const int64_t matrices = net->gated ? 3 : 2,
                  columns = (int64_t)s2_net_columns(net, (double)net->ffn * net->n_experts);
    return s2_net_projections(net) + matrices * net->hidden * columns + embedding * (net->tied ? 1 : 2);
}
