#include <stdio.h>
#include <string.h>

#include "export/model.h"

enum { PATH_BYTES = 128, N_FACTORS = 4, N_PRODUCTS = 5 };

/*
 * Elements that a layer keeps per sequence, as sums of products of config keys: `wide` ones are the recurrent
 * state, in 32 bits, `narrow` ones the last inputs of a convolution, in 16. A factor "2" is that number;
 * of two names separated by '|' the first one present counts; after a name, "=N" is its default, "-1"
 * subtracts one, ":2" halves.
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
#define SSM_HEADS  "mamba_n_heads|mamba_num_heads|num_heads"
#define SSM_DIM    "mamba_d_head|mamba_head_dim|head_dim"
#define SSM_STATE  "mamba_d_state|ssm_state_size|state_size"
#define SSM_GROUPS "mamba_n_groups|n_groups"
#define SSM_CONV   "mamba_d_conv|conv_kernel"
#define CCA_HEADS  "num_attention_heads", "head_dim"
#define CCA_KEYS   "num_key_value_heads", "head_dim"
#define SLIDING    "with a window"
#define SHORT_CONV "conv_kernel_size|sconv_kernel_size"

static const state_form forms[] = {
    {{"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid", NULL},
     {{"linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"}},
     {{"2", DELTA_KEYS}, {"linear_num_value_heads", "linear_value_head_dim", "linear_conv_kernel_dim"}}},
    {{"kimi_linear", NULL}, {{KDA_HEADS, KDA_DIM, KDA_DIM}}, {{"3", KDA_HEADS, KDA_DIM, KDA_CONV}}},
    {{"jamba", NULL},
     {{"mamba_expand", "hidden_size", "mamba_d_state"}},
     {{"mamba_expand", "hidden_size", "mamba_d_conv"}}},
    {{"mamba", "falcon_mamba", NULL},
     {{"expand=2", "hidden_size", "state_size"}},
     {{"expand=2", "hidden_size", "conv_kernel"}}},
    {{"bamba", "granitemoehybrid", "nemotron_h", "falcon_h1", "mamba2", NULL},
     {{SSM_HEADS, SSM_DIM, SSM_STATE}},
     {{SSM_HEADS, SSM_DIM, SSM_CONV}, {"2", SSM_GROUPS, SSM_STATE, SSM_CONV}}},
    {{"minimax", "minimax_m1", "minimax_text_01", NULL},
     {{"num_attention_heads", "head_dim", "head_dim"}},
     {{NULL}}},
    {{"lfm2", "lfm2_moe", "lfm3", NULL}, {{NULL}}, {{"hidden_size", "conv_L_cache"}}},
    {{"zaya", NULL},
     {{NULL}},
     {{CCA_HEADS, "cca_time0=2-1"},
      {CCA_HEADS, "cca_time1=2-1"},
      {CCA_KEYS, "cca_time0=2-1"},
      {CCA_KEYS, "cca_time1=2-1"},
      {"num_key_value_heads:2", "head_dim"}}},
    {{"inkling_text", "inkling2_text", NULL},
     {{"2", SHORT_CONV, CCA_KEYS}, {"2", SHORT_CONV, "hidden_size"}},
     {{NULL}}},
    {{"inkling_text " SLIDING, "inkling2_text " SLIDING, NULL},
     {{"2", SHORT_CONV, "swa_num_key_value_heads", "swa_head_dim"}, {"2", SHORT_CONV, "hidden_size"}},
     {{NULL}}},
    {{"recurrent_gemma", NULL}, {{"lru_width"}}, {{"lru_width", "conv1d_width=4"}}}};

/* What follows a name: its default, a number to subtract, or one to divide by. */
static void read_suffix(const char *text, const char *end, int64_t *fallback, int64_t *less, int64_t *part)
{
    for (; text < end; text += 2)
        *(text[0] == '=' ? fallback : text[0] == '-' ? less : part) = text[1] - '0';
}

/* One factor, read under the first of its names that the config has. */
static s2_status read_factor(const s2_source *source, const char *prefix, const char *names, int64_t *out)
{
    char path[PATH_BYTES];
    if (names[0] >= '0' && names[0] <= '9') {
        *out = names[0] - '0';
        return S2_OK;
    }
    for (const char *name = names; *name != '\0'; name += strcspn(name, "|") + (strchr(name, '|') != NULL)) {
        const int n = (int)strcspn(name, "|=-:");
        int64_t value = 0, less = 0, part = 1;
        read_suffix(name + n, name + strcspn(name, "|"), &value, &less, &part);
        snprintf(path, sizeof path, "%s/%.*s", prefix, n, name);
        if (s2_doc_has(source->doc, path))
            S2_TRY(s2_doc_int(source->doc, path, 1, 1 << 20, &value, source->diag));
        if (value > 0) {
            *out = (value - less) / part;
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
            int64_t factor = 0;
            S2_TRY(read_factor(source, prefix, products[p][f], &factor));
            if (factor > 0 && value > S2_LIMIT_STATE_BYTES / factor)
                return s2_doc_refuse(source->doc, prefix, source->diag, "a layer's state has too many bytes");
            value *= factor;
        }
        *out += value;
    }
    return S2_OK;
}

static const state_form *find_form(const char *type)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int t = 0; forms[f].types[t] != NULL; t++)
            if (strcmp(type, forms[f].types[t]) == 0)
                return &forms[f];
    return NULL;
}

s2_status s2_model_state_read(const s2_source *source, const char *prefix, const char *type, bool is_sliding,
                              int64_t *bytes)
{
    char own[PATH_BYTES];
    int64_t wide, narrow;
    snprintf(own, sizeof own, "%.80s " SLIDING, type);
    const state_form *const apart = is_sliding ? find_form(own) : NULL;
    const state_form *const form = apart != NULL ? apart : find_form(type);
    if (form == NULL)
        return s2_doc_refuse(source->doc, prefix, source->diag,
                             "the size of the state that layers of %.40s keep is not known here", type);
    S2_TRY(read_sum(source, prefix, form->wide, &wide));
    S2_TRY(read_sum(source, prefix, form->narrow, &narrow));
    *bytes = 4 * wide + 2 * narrow;
    s2_note(source->notes,
            "a layer %s keeps %lld elements of state in 32 bits and %lld inputs of its convolution in 16: "
            "%lld bytes a sequence",
            apart != NULL ? SLIDING : "that has a state", (long long)wide, (long long)narrow,
            (long long)*bytes);
    return S2_OK;
}
