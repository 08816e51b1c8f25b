#include "sim/net.h"

#include <string.h>

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

static int64_t layer_weights(const s2_net *net, int32_t n_experts)
{
    const int64_t hidden = net->hidden, q_width = (int64_t)net->n_heads * net->head_dim;
    const int64_t kv_width = (int64_t)net->n_kv_heads * net->head_dim;
    const int64_t matrices = net->gated ? 3 : 2;
    return hidden * (2 * q_width + 2 * kv_width) + matrices * hidden * net->ffn * n_experts;
}

int64_t s2_net_weights(const s2_net *net)
{
    const int64_t embedding = (int64_t)net->vocab * net->hidden;
    return net->n_layers * layer_weights(net, net->n_experts) + embedding * (net->tied ? 1 : 2);
}
