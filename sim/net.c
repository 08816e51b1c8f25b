#include "sim/net.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "sim/gpu.h"

enum { CODE_MODEL = 701, NAME_BYTES = 40 };

static bool parse_row(const char *row, s2_net *out)
{
    s2_net net = {0};
    int gated, tied;
    const int n = sscanf(row, "%39s %d %d %d %d %d %d %d %d %d %d %d", net.name, &net.n_layers, &net.hidden,
                         &net.n_heads, &net.n_kv_heads, &net.head_dim, &net.ffn, &net.vocab, &gated, &tied,
                         &net.n_experts, &net.n_active);
    if (n != 12)
        return false;
    net.gated = gated != 0;
    net.tied = tied != 0;
    *out = net;
    return true;
}

static const char *models_text(void)
{
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++)
        if (strcmp(text->name, "models") == 0)
            return text->text;
    return "";
}

bool s2_net_at(int32_t nth, s2_net *out)
{
    const char *row = models_text();
    while (row != NULL && *row != '\0') {
        if (*row != '#' && *row != '\n' && nth-- == 0)
            return parse_row(row, out);
        row = strchr(row, '\n');
        row += row != NULL;
    }
    return false;
}

s2_status s2_net_find(const char *name, s2_net *out, s2_diag *diag)
{
    char nearest[NAME_BYTES] = "";
    int32_t least = INT32_MAX, line = 0;
    for (const char *row = models_text(); *row != '\0';) {
        const char *const stop = strchr(row, '\n');
        line++;
        s2_net net;
        if (*row != '#' && *row != '\n') {
            if (!parse_row(row, &net))
                return s2_diag_set(diag, S2_EPARSE, CODE_MODEL, line, 1, "the model table is damaged");
            if (strcmp(net.name, name) == 0) {
                *out = net;
                return S2_OK;
            }
            const int32_t distance = s2_text_distance(name, strlen(name), net.name, 1000);
            if (distance < least) {
                least = distance;
                memcpy(nearest, net.name, sizeof nearest);
            }
        }
        if (stop == NULL)
            break;
        row = stop + 1;
    }
    char clean[60];
    s2_text_clean(clean, sizeof clean, name);
    return s2_diag_set(diag, S2_EINVAL, CODE_MODEL, 0, 0, "no model %s is built in; the nearest is %s", clean,
                       nearest);
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
