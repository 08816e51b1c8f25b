#include <stdio.h>
#include <string.h>

#include "export/model.h"

enum { PATH_BYTES = 128, N_FACTORS = 4, N_PRODUCTS = 4 };

/*
 * Elements that a layer keeps per sequence, as sums of products of config keys: `wide` ones are the recurrent
 * state, in 32 bits, `narrow` ones the last inputs of a convolution, in 16. A factor "2" is the number; a key
 * of two names separated by '|' is the first one that is there; "=N" after a name is its default.
 */
typedef const char *const product[N_FACTORS];
typedef struct state_form {
    const char *const types[8];
    product wide[N_PRODUCTS];
    product narrow[N_PRODUCTS];
} state_form;

#define DELTA_KEYS "linear_num_key_heads", "linear_key_head_dim", "linear_conv_kernel_dim"
#define KDA_HEADS  "linear_num_heads|linear_attn_config/num_heads"
#define KDA_DIM    "linear_head_dim|linear_attn_config/head_dim"
#define KDA_CONV   "linear_conv_kernel_dim|linear_attn_config/short_conv_kernel_size"
#define SSM_HEADS  "mamba_n_heads|mamba_num_heads"
#define SSM_DIM    "mamba_d_head|mamba_head_dim"
#define SSM_STATE  "mamba_d_state|ssm_state_size"
#define SSM_GROUPS "mamba_n_groups|n_groups"
#define SSM_CONV   "mamba_d_conv|conv_kernel"

static const state_form forms[] = {
    {{"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid", NULL},
     {{"linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"}},
     {{"2", DELTA_KEYS}, {"linear_num_value_heads", "linear_value_head_dim", "linear_conv_kernel_dim"}}},
    {{"kimi_linear", NULL}, {{KDA_HEADS, KDA_DIM, KDA_DIM}}, {{"3", KDA_HEADS, KDA_DIM, KDA_CONV}}},
    {{"jamba", NULL},
     {{"mamba_expand", "hidden_size", "mamba_d_state"}},
     {{"mamba_expand", "hidden_size", "mamba_d_conv"}}},
    {{"bamba", "granitemoehybrid", "nemotron_h", "falcon_h1", NULL},
     {{SSM_HEADS, SSM_DIM, SSM_STATE}},
     {{SSM_HEADS, SSM_DIM, SSM_CONV}, {"2", SSM_GROUPS, SSM_STATE, SSM_CONV}}},
    {{"minimax", NULL}, {{"num_attention_heads", "head_dim", "head_dim"}}, {{NULL}}},
    {{"lfm2", "lfm2_moe", "lfm3", NULL}, {{NULL}}, {{"hidden_size", "conv_L_cache"}}},
    {{"recurrent_gemma", NULL}, {{"lru_width"}}, {{"lru_width", "conv1d_width=4"}}}};

/* One factor under the first of its names that the config has. */
static s2_status read_factor(const s2_source *source, const char *prefix, const char *names, int64_t *out)
{
    char path[PATH_BYTES];
    if (names[0] >= '0' && names[0] <= '9') {
        *out = names[0] - '0';
        return S2_OK;
    }
    for (const char *name = names; *name != '\0'; name += strcspn(name, "|") + (strchr(name, '|') != NULL)) {
        const int n = (int)strcspn(name, "|=");
        snprintf(path, sizeof path, "%s/%.*s", prefix, n, name);
        if (s2_doc_has(source->doc, path))
            return s2_doc_int(source->doc, path, 1, 1 << 20, out, source->diag);
        if (name[n] == '=') {
            *out = name[n + 1] - '0';
            return S2_OK;
        }
    }
    return s2_doc_refuse(source->doc, path, source->diag, "the size of a layer's state needs %s", names);
}

static s2_status read_sum(const s2_source *source, const char *prefix, const product *products, int64_t *out)
{
    *out = 0;
    for (int p = 0; p < N_PRODUCTS && products[p][0] != NULL; p++) {
        int64_t value = 1;
        for (int f = 0; f < N_FACTORS && products[p][f] != NULL; f++) {
            int64_t factor;
            S2_TRY(read_factor(source, prefix, products[p][f], &factor));
            if (value > S2_LIMIT_STATE_BYTES / factor)
                return s2_doc_refuse(source->doc, prefix, source->diag, "a layer's state has too many bytes");
            value *= factor;
        }
        *out += value;
    }
    return S2_OK;
}

s2_status s2_model_state_read(const s2_source *source, const char *prefix, const char *type, int64_t *bytes)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int t = 0; forms[f].types[t] != NULL; t++)
            if (strcmp(type, forms[f].types[t]) == 0) {
                int64_t wide, narrow;
                S2_TRY(read_sum(source, prefix, forms[f].wide, &wide));
                S2_TRY(read_sum(source, prefix, forms[f].narrow, &narrow));
                *bytes = 4 * wide + 2 * narrow;
                s2_note(source->notes,
                        "a layer without keys keeps %lld elements of state in 32 bits and %lld inputs of its "
                        "convolution in 16: %lld bytes a sequence",
                        (long long)wide, (long long)narrow, (long long)*bytes);
                return S2_OK;
            }
    return s2_doc_refuse(source->doc, prefix, source->diag,
                         "the size of the state that layers of %.40s keep is not known here", type);
}
