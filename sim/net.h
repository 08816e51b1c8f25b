/*
 * sim/net.h - what the layers around attention weigh: widths, experts, mixers, vocabulary.
 *
 * Built-in models are those of pattern/models.h. Threads: no state.
 */
#ifndef S2_SIM_NET_H
#define S2_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net.h"
#include "base/status.h"
#include "pattern/spec.h"

/* The built-in name nearest to a word, and how far it is; "" and S2_NAME_FAR where none is near. */
const char *s2_net_nearest(const char *word, int32_t *distance);
/* S2_EINVAL with the nearest known name, if one is near, in *diag. */
s2_status s2_net_find(const char *name, s2_net *out, s2_diag *diag) S2_MUST_CHECK;

/* What a layer has. The feed-forward of a model that is no mixture counts as one expert that all tokens pick. */
s2_net_layer s2_net_layer_at(const s2_net *net, int32_t layer);

/* The heads of its attention; n_matrices is 0 where it reads the keys of another layer. */
s2_net_heads s2_net_heads_at(const s2_net *net, int32_t layer);

/* How many layers have attention and a mixer; how many feed-forwards are without experts, with some, and wide. */
typedef struct s2_net_counts {
    int32_t n_attention;
    int32_t n_mixers;
    int32_t n_plain;
    int32_t n_mixtures;
    int32_t n_wide;
} s2_net_counts;
s2_net_counts s2_net_count(const s2_net *net);

/* Of all layers, so many columns of the experts of each layer that has some; a model without experts has plain ones. */
typedef struct s2_net_inner {
    double experts;
    double shared; /* with what leads to the experts' latent and back */
    double plain;
} s2_net_inner;
s2_net_inner s2_net_inner_of(const s2_net *net, double expert_columns);
/*
 * Inner columns of the feed-forward of all layers: so many of the experts of each layer that has some, those of
 * shared experts and of layers without experts.
 */
double s2_net_columns(const s2_net *net, double expert_columns);
/* The same of the layer that has most of them. */
double s2_net_widest(const s2_net *net, double expert_columns);
/* The same of one layer: of all its feed-forwards, and of the widest of them. */
double s2_net_layer_columns(const s2_net *net, int32_t layer, double expert_columns);
double s2_net_layer_widest(const s2_net *net, int32_t layer, double expert_columns);
/* What a token's input of an expert is wide, and what an expert's column weighs of one of the hidden state. */
int32_t s2_net_expert_input(const s2_net *net);
double s2_net_expert_part(const s2_net *net);

static inline bool s2_net_is_latent(const s2_net *net)
{
    return net->latent.latent_dim > 0;
}

/*
 * Weights of the projections of one layer of latent attention: those that every GPU has which shares its heads, since
 * they make latents, the rotary key and the indexer's choice, and those that are shared with the heads.
 */
typedef struct s2_latent_weights {
    int64_t whole;
    int64_t by_head;
} s2_latent_weights;
s2_latent_weights s2_net_latent_weights(const s2_net *net);

/* Weights of attention's projections in all layers, of all mixers, and of the whole model. */
int64_t s2_net_projections(const s2_net *net);
int64_t s2_net_mixers(const s2_net *net);
int64_t s2_net_weights(const s2_net *net);
/* Weights of all mixers that one of so many GPUs has: its heads, with the group that these read. */
double s2_net_mixers_each(const s2_net *net, int32_t n_ranks);
/* S2_EINVAL, with the reason in *diag, for GPUs that cannot share the heads, channels or groups of mixers evenly. */
s2_status s2_net_check_mixers(const s2_net *net, int32_t n_ranks, s2_diag *diag) S2_MUST_CHECK;

/*
 * Requires that each layer of the pattern reads and keeps what that of the model does. S2_EINVAL with both shapes
 * in *diag, or S2_EUNSUPPORTED with the layer.
 */
s2_status s2_net_check_shape(const s2_net *net, const s2_pattern *pattern, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_SIM_NET_H */
