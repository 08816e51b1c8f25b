/*
 * base/net.h - the widths of a transformer, which decide the weights and products around attention: one form
 * for code that reads configs and code that prices.
 */
#ifndef S2_BASE_NET_H
#define S2_BASE_NET_H

#include <stdbool.h>
#include <stdint.h>

/* The type of stored weights; products run in fp8 if weights are fp8, else in the type of activations. */
typedef enum s2_weights {
    S2_WEIGHTS_PUBLISHED, /* as the model's config says; in training, or if it says nothing, as dtype */
    S2_WEIGHTS_AS_DTYPE,
    S2_WEIGHTS_FP8,
    S2_WEIGHTS_INT8,
    S2_WEIGHTS_INT4,
    S2_WEIGHTS_MXFP4, /* those of the feed-forward layers; the others are as dtype */
    S2_WEIGHTS_NVFP4,
    S2_N_WEIGHTS
} s2_weights;

/* Bits of a weight as they usually are, with its part of a scale; 0: as dtype. */
double s2_weights_bits(s2_weights weights);

/* Weights that a checkpoint may store in types of their own. */
typedef enum s2_stored_part {
    S2_PART_ATTENTION,
    S2_PART_MIXER,
    S2_PART_EXPERTS,
    S2_PART_SHARED, /* experts that every token runs */
    S2_PART_PLAIN,  /* feed-forward layers without experts */
    S2_PART_HEAD,   /* but no embedding */
    S2_N_STORED_PARTS
} s2_stored_part;

/* The feed-forward layers of a mixture beside its experts. All 0: every layer has experts, and nothing else. */
typedef struct s2_mixture {
    int32_t
        shared_ffn; /* columns that every token runs in a layer with experts: of all shared experts together */
    int32_t plain_ffn; /* of a layer without experts */
    int32_t
        latent_dim; /* experts read and write this width; a matrix leads to it, and another one back. 0: the hidden
                           state's */
    int32_t first;      /* the first layer with experts */
    int32_t every;      /* each so many from there on have some, the others none; 0 is 1 */
    int32_t from_layer; /* the layer of the whole model that is this net's first: a stage of a pipeline */
} s2_mixture;

/*
 * Latent attention (MLA): a token's cache is a latent and a rotary key, of which K and V of all heads are made. The
 * net then has one KV head, whose K and V of half of both each make the cache right. All 0: attention is not latent.
 */
typedef struct s2_latent {
    int32_t latent_dim;
    int32_t rotary_dim;
    int32_t query_dim; /* of the latent that queries are made of; 0: they are made of the hidden state */
    int32_t plain_dim; /* of a head's query and key, without the rotary part */
    int32_t value_dim;
    int32_t index_heads, index_dim; /* of the indexer that chooses keys; 0: there is none */
    int32_t n_indexers, n_indexed;  /* so many layers of so many have one; 0: all */
} s2_latent;

/* A mixer keeps a state of fixed size and no keys: linear attention, Mamba, a convolution. All 0: there is none. */
typedef struct s2_mixer {
    int64_t weights;    /* of its matrices, in a layer that has one */
    int64_t n_elements; /* of a sequence's recurrent state, each of which a token changes and reads */
    int64_t grouped;    /* of `weights`, those of groups: a GPU has the groups that its heads read */
    int32_t n_groups;   /* 0: there are none */
    int32_t
        n_shares; /* heads or channels that GPUs divide: their number divides this one; 0: it is not known */
} s2_mixer;

/* What one layer has where layers are unlike. Feed-forward layers of their own count to the layer before them. */
enum { S2_NET_LAYERS = 1024 };
typedef struct s2_net_layer {
    uint16_t attends : 1;
    uint16_t mixes : 1;
    uint16_t shares : 1;     /* attention reads the keys of another layer, and makes none */
    uint16_t heads : 3;      /* of attention: 0: the net's, else its others from 1 on */
    uint16_t n_plain : 3;    /* feed-forward layers without experts */
    uint16_t n_mixtures : 3; /* and with experts, or as a model that has none has them */
    uint16_t is_wide : 1;    /* the latter has twice as many columns */
} s2_net_layer;

/* KV heads of layers that have their own, or another head dimension, on as many query heads. */
enum { S2_NET_OTHERS = 4 };
typedef struct s2_net_heads {
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t n_matrices; /* that make them: K's and V's; 1 where V is K */
} s2_net_heads;

typedef struct s2_net {
    char name[40];
    int32_t n_layers;
    int32_t hidden;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t ffn; /* per expert */
    int32_t vocab;
    bool gated;        /* three matrices in the feed-forward layer, not two */
    bool tied;         /* one embedding for input and output */
    int32_t n_experts; /* 1: dense */
    int32_t n_active;  /* experts per token */
    double cap;        /* scores become cap * tanh(score / cap); 0: they do not */
    bool sinks;        /* a learned logit per head in the softmax's denominator */
    s2_weights
        stored; /* as the config says, of several types that of most weights; S2_WEIGHTS_PUBLISHED: it says
                          nothing that is known here */
    uint32_t stored_in; /* a bit for each type of s2_weights in which layers store some */
    char method[24];    /* of its quantization, by the config's word; "": it names none */
    char untold[64];    /* of its lists, a name that is not understood; "": all are */
    float kept
        [S2_N_STORED_PARTS]; /* the share of a part's weights that a checkpoint leaves in the type of activations */
    float bits[S2_N_STORED_PARTS];   /* of a weight that it stores, with its part of a scale; 0: as usual */
    float in_fp8[S2_N_STORED_PARTS]; /* the share of what it stores whose products run in 8 bits */
    char cache[24]; /* the type of the KV cache that it names, by its word; "": it names none */
    char assumed
        [24]; /* a model_type that is not known here, so that its layers are taken to be plain; "": it is */
    int32_t n_copies; /* of the hidden state that layers mix and change (AltUp); 0: one, as usual */
    s2_mixture mixture;
    s2_latent latent;
    s2_mixer mixer;
    int64_t
        beside; /* weights that a layer's attention has beside Q, K, V and O, such as a gate of its output */
    int64_t table; /* weights of an embedding for each layer, of which a token takes one row */
    int64_t once;  /* weights of matrices behind it, which a token passes once in all layers */
    s2_net_heads others[S2_NET_OTHERS];
    bool beside_mlp; /* a file calls experts "experts", and "mlp" what all tokens run beside them (Gemma 4) */
    bool apart;      /* a file counts feed-forward layers as layers of their own */
    bool unlike; /* layers are as listed; else each has attention and a feed-forward, by the mixture's rule */
    s2_net_layer
        layers[S2_NET_LAYERS]; /* of the whole model: from mixture.from_layer on they are this net's */
} s2_net;

#endif /* S2_BASE_NET_H */
