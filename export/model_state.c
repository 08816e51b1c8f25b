#include <stdio.h>
#include <string.h>

#include "export/model.h"

enum { PATH_BYTES = 128, N_FACTORS = 4, N_PRODUCTS = 7 };
static const int64_t MOST_WEIGHTS = (int64_t)1 << 40;

/*
 * What a layer that keeps a state has, as sums of products of config keys. Elements per sequence: `wide` ones are the
 * recurrent state, in 32 bits, `narrow` ones the last inputs of a convolution, in 16. Weights: `mixer` ones are of the
 * matrices that compute it, without short convolutions of single channels; no such row: they are not known. `beside`
 * ones are what the type's attention has beside Q, K, V and O. How GPUs share a mixer is that of vLLM's classes.
 * A factor "2" is that number; of two names separated by '|' the first one present counts; after a name, "=N" is
 * its default, "-1" subtracts one, ":2" halves. HEADS and DIM are of attention, under any of their names.
 */
typedef const char *const product[N_FACTORS];
typedef struct state_form {
    const char *const types[8];
    product wide[N_PRODUCTS];
    product narrow[N_PRODUCTS];
    product mixer[N_PRODUCTS];
    product beside[N_PRODUCTS];
    const char *const shares[2]; /* heads or channels that GPUs divide */
    product grouped[N_PRODUCTS]; /* weights of groups, which are then SSM_GROUPS */
} state_form;

#define HEADS      "#heads"
#define KV_HEADS   "#kv_heads"
#define DIM        "#head_dim"
#define HIDDEN     "hidden_size"
#define DELTA_K    "linear_num_key_heads", "linear_key_head_dim"
#define DELTA_V    "linear_num_value_heads", "linear_value_head_dim"
#define DELTA_CONV "linear_conv_kernel_dim"
#define KDA_HEADS  "linear_num_heads|linear_attn_config/num_heads|num_attention_heads"
#define KDA_DIM    "linear_head_dim|linear_attn_config/head_dim|head_dim"
#define KDA_CONV   "linear_conv_kernel_dim|linear_attn_config/short_conv_kernel_size|short_conv_kernel_size=4"
#define LRU        "lru_width|hidden_size"
#define SSM_HEADS  "mamba_n_heads|mamba_num_heads|num_heads"
#define SSM_DIM    "mamba_d_head|mamba_head_dim|head_dim"
#define SSM_STATE  "mamba_d_state|ssm_state_size|state_size"
#define SSM_GROUPS "mamba_n_groups|n_groups"
#define SSM_CONV   "mamba_d_conv|conv_kernel"
#define MAMBA      "mamba_expand", HIDDEN
#define INNER      "mamba_expand|expansion_factor=2", HIDDEN
#define CCA_Q      HEADS, DIM
#define CCA_KV     KV_HEADS, DIM
#define SLIDING    "with a window"
#define FULL_GATE  "with a whole gate"
#define OUT_GATE   "with a gate of its output"
#define SHORT_CONV "conv_kernel_size|sconv_kernel_size"
#define DELTA_STATE                                                                                          \
    {{"linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"}},                            \
        {{"2", DELTA_K, DELTA_CONV}, {DELTA_V, DELTA_CONV}},                                                 \
    {                                                                                                        \
        {"2", HIDDEN, DELTA_K}, {"3", HIDDEN, DELTA_V},                                                      \
        {                                                                                                    \
            "2", HIDDEN, "linear_num_value_heads"                                                            \
        }                                                                                                    \
    }

static const state_form forms[] = {
    {{"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", NULL},
     DELTA_STATE,
     {{HIDDEN, HEADS, DIM}},
     {"linear_num_key_heads", "linear_num_value_heads"},
     {{NULL}}},
    {{"olmo_hybrid", "lara_mini", NULL},
     DELTA_STATE,
     {{NULL}},
     {"linear_num_key_heads", "linear_num_value_heads"},
     {{NULL}}},
    {{"kimi_linear", NULL},
     {{KDA_HEADS, KDA_DIM, KDA_DIM}},
     {{"3", KDA_HEADS, KDA_DIM, KDA_CONV}},
     {{"4", HIDDEN, KDA_HEADS, KDA_DIM},
      {"2", HIDDEN, KDA_DIM},
      {"2", KDA_DIM, KDA_HEADS, KDA_DIM},
      {HIDDEN, KDA_HEADS}},
     {{NULL}},
     {KDA_HEADS, NULL},
     {{NULL}}},
    {{"jamba", NULL},
     {{MAMBA, "mamba_d_state"}},
     {{MAMBA, "mamba_d_conv"}},
     {{"3", HIDDEN, MAMBA}, {"3", MAMBA, "mamba_d_state"}, {"2", MAMBA, "mamba_dt_rank"}},
     {{NULL}},
     {HIDDEN, NULL},
     {{NULL}}},
    {{"kimi_linear " FULL_GATE, NULL},
     {{KDA_HEADS, KDA_DIM, KDA_DIM}},
     {{NULL}},
     {{"5", HIDDEN, KDA_HEADS, KDA_DIM},
      {HIDDEN, KDA_DIM},
      {KDA_DIM, KDA_HEADS, KDA_DIM},
      {HIDDEN, KDA_HEADS}},
     {{NULL}},
     {KDA_HEADS, NULL},
     {{NULL}}},
    {{"kimi_linear " OUT_GATE, NULL},
     {{NULL}},
     {{NULL}},
     {{NULL}},
     {{HIDDEN, HEADS, "v_head_dim"}},
     {NULL},
     {{NULL}}},
    {{"bailing_hybrid", NULL},
     {{KDA_HEADS, KDA_DIM, KDA_DIM}},
     {{"3", KDA_HEADS, KDA_DIM, KDA_CONV}},
     {{"6", HIDDEN, KDA_HEADS, KDA_DIM}, {HIDDEN, KDA_HEADS}},
     {{HIDDEN, HEADS}},
     {KDA_HEADS, NULL},
     {{NULL}}},
    {{"mamba", "falcon_mamba", NULL},
     {{"expand=2", HIDDEN, "state_size"}},
     {{"expand=2", HIDDEN, "conv_kernel"}},
     {{"3", HIDDEN, "expand=2", HIDDEN},
      {"3", "expand=2", HIDDEN, "state_size"},
      {"2", "expand=2", HIDDEN, "time_step_rank"}},
     {{NULL}},
     {HIDDEN, NULL},
     {{NULL}}},
    {{"bamba", "granitemoehybrid", "nemotron_h", "falcon_h1", "mamba2", NULL},
     {{SSM_HEADS, SSM_DIM, SSM_STATE}},
     {{SSM_HEADS, SSM_DIM, SSM_CONV}, {"2", SSM_GROUPS, SSM_STATE, SSM_CONV}},
     {{"3", HIDDEN, SSM_HEADS, SSM_DIM}, {"2", HIDDEN, SSM_GROUPS, SSM_STATE}, {HIDDEN, SSM_HEADS}},
     {{NULL}},
     {SSM_HEADS, NULL},
     {{"2", HIDDEN, SSM_GROUPS, SSM_STATE}}},
    {{"minimax", "minimax_m1", "minimax_text_01", NULL},
     {{HEADS, DIM, DIM}},
     {{NULL}},
     {{"5", HIDDEN, HEADS, DIM}},
     {{NULL}},
     {HEADS, NULL},
     {{NULL}}},
    {{"lfm2", "lfm2_moe", "lfm3", NULL},
     {{NULL}},
     {{HIDDEN, "conv_L_cache"}},
     {{"4", HIDDEN, HIDDEN}},
     {{NULL}},
     {HIDDEN, NULL},
     {{NULL}}},
    {{"zamba", NULL},
     {{INNER, "mamba_d_state"}},
     {{INNER, "mamba_d_conv=4"}},
     {{NULL}},
     {{NULL}},
     {NULL},
     {{NULL}}},
    {{"zamba2", NULL},
     {{INNER, SSM_STATE}},
     {{INNER, "mamba_d_conv|conv_dimension=4"},
      {"2", "mamba_ngroups=1", SSM_STATE, "mamba_d_conv|conv_dimension=4"}},
     {{NULL}},
     {{NULL}},
     {NULL},
     {{NULL}}},
    {{"zaya", NULL},
     {{NULL}},
     {{CCA_Q, "cca_time0=2-1"},
      {CCA_Q, "cca_time1=2-1"},
      {CCA_KV, "cca_time0=2-1"},
      {CCA_KV, "cca_time1=2-1"},
      {"#kv_heads:2", DIM}},
     {{CCA_Q, DIM, "cca_time1=2"}, {CCA_KV, DIM, "cca_time1=2"}},
     {{NULL}},
     {NULL},
     {{NULL}}},
    {{"inkling_text", NULL},
     {{"2", SHORT_CONV, CCA_KV}, {"2", SHORT_CONV, HIDDEN}},
     {{NULL}},
     {{"0"}}, /* convolutions of single channels alone */
     {{HIDDEN, HEADS, "d_rel"}},
     {NULL},
     {{NULL}}},
    {{"inkling2_text", NULL},
     {{"2", SHORT_CONV, CCA_KV}, {"2", SHORT_CONV, HIDDEN}},
     {{NULL}},
     {{NULL}},
     {{NULL}},
     {NULL},
     {{NULL}}},
    {{"step3p5", NULL}, {{NULL}}, {{NULL}}, {{NULL}}, {{HIDDEN, HEADS}}, {NULL}, {{NULL}}},
    {{"inkling_text " SLIDING, "inkling2_text " SLIDING, NULL},
     {{"2", SHORT_CONV, "swa_num_key_value_heads", "swa_head_dim"}, {"2", SHORT_CONV, HIDDEN}},
     {{NULL}},
     {{NULL}},
     {{NULL}},
     {NULL},
     {{NULL}}},
    {{"recurrent_gemma", NULL},
     {{LRU}},
     {{LRU, "conv1d_width=4"}},
     {{"3", HIDDEN, LRU}, {"2", LRU, DIM}}, /* gates of a head are as wide as those of attention */
     {{NULL}},
     {NULL},
     {{NULL}}}};

/* What follows a name: its default, a number to subtract, or one to divide by. */
static void read_suffix(const char *text, const char *end, int64_t *fallback, int64_t *less, int64_t *part)
{
    for (; text < end; text += 2)
        *(text[0] == '=' ? fallback : text[0] == '-' ? less : part) = text[1] - '0';
}

/* A number of attention's shape, such as HEADS; 0: the config neither states nor implies it. */
static s2_status read_shape(const s2_source *source, const char *prefix, const char *name, int64_t *out)
{
    s2_model_shape shape;
    int64_t unused, part = 1;
    const size_t n = strcspn(name, ":");
    S2_TRY(s2_model_shape_read(source, prefix, &shape));
    read_suffix(name + n, name + strlen(name), &unused, &unused, &part);
    *out = strncmp(name, HEADS, n) == 0 ? shape.n_heads
           : strncmp(name, DIM, n) == 0 ? shape.head_dim
                                        : shape.n_kv_heads / part;
    return S2_OK;
}

/* One factor, read under the first of its names that the config has. */
static s2_status read_factor(const s2_source *source, const char *prefix, const char *names, int64_t *out)
{
    char path[PATH_BYTES];
    if (names[0] == '#')
        return read_shape(source, prefix, names, out);
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
    return s2_doc_refuse(source->doc, path, source->diag,
                         "the size of a layer's state, or of its matrices, needs %s", names);
}

static s2_status read_sum(const s2_source *source, const char *prefix, const product *products, int64_t most,
                          int64_t *out)
{
    *out = 0;
    for (int p = 0; p < N_PRODUCTS && products[p][0] != NULL; p++) {
        int64_t value = 1;
        for (int f = 0; f < N_FACTORS && products[p][f] != NULL; f++) {
            int64_t factor = 0;
            S2_TRY(read_factor(source, prefix, products[p][f], &factor));
            if (factor > 0 && value > most / factor)
                return s2_doc_refuse(source->doc, prefix, source->diag,
                                     "a layer's state or its matrices are too large");
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

/* The form of a type, or its variant where a key of the config is true. */
static s2_status find_variant(const s2_source *source, const char *prefix, const char *type, const char *key,
                              const char *words, const state_form **out)
{
    char own[PATH_BYTES], path[PATH_BYTES];
    bool on;
    snprintf(path, sizeof path, "%s/%s", prefix, key);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &on, source->diag));
    snprintf(own, sizeof own, "%.80s %s", type, words);
    const state_form *const variant = on ? find_form(own) : NULL;
    *out = variant != NULL ? variant : find_form(type);
    return S2_OK;
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
    S2_TRY(read_sum(source, prefix, form->wide, S2_LIMIT_STATE_BYTES, &wide));
    S2_TRY(read_sum(source, prefix, form->narrow, S2_LIMIT_STATE_BYTES, &narrow));
    *bytes = 4 * wide + 2 * narrow;
    s2_note(source->notes,
            "a layer %s keeps %lld elements of state in 32 bits and %lld inputs of its convolution in 16: "
            "%lld bytes a sequence",
            apart != NULL ? SLIDING : "that has a state", (long long)wide, (long long)narrow,
            (long long)*bytes);
    return S2_OK;
}

/* Heads of two kinds are shared where the number of GPUs divides both. Mamba's channels are a multiple of HIDDEN. */
static s2_status read_shares(const s2_source *source, const char *prefix, const state_form *form,
                             s2_mixer *out)
{
    int64_t shares = 0, own, groups;
    for (int32_t nth = 0; nth < 2 && form->shares[nth] != NULL; nth++) {
        S2_TRY(read_factor(source, prefix, form->shares[nth], &own));
        for (int64_t rest; own != 0 && shares != 0; own = rest) { /* Euclid */
            rest = shares % own;
            shares = own;
        }
        shares = shares == 0 ? own : shares;
    }
    out->n_shares = (int32_t)shares;
    if (form->grouped[0][0] == NULL)
        return S2_OK;
    S2_TRY(read_factor(source, prefix, SSM_GROUPS, &groups));
    S2_TRY(read_sum(source, prefix, form->grouped, MOST_WEIGHTS, &out->grouped));
    out->n_groups = (int32_t)groups;
    return S2_OK;
}

s2_status s2_model_mixer_read(const s2_source *source, const char *prefix, const char *type, s2_mixer *out)
{
    const state_form *form;
    char path[PATH_BYTES];
    S2_TRY(find_variant(source, prefix, type, "linear_attn_config/use_full_rank_gate", FULL_GATE, &form));
    if (form == NULL || form->mixer[0][0] == NULL) {
        snprintf(path, sizeof path, "%s/model_type", prefix);
        return s2_doc_refuse(source->doc, path, source->diag,
                             "the matrices of layers that keep a state are not known here for models of type "
                             "%.40s: price attention alone, without --model",
                             type);
    }
    S2_TRY(read_sum(source, prefix, form->wide, S2_LIMIT_STATE_BYTES, &out->n_elements));
    S2_TRY(read_sum(source, prefix, form->mixer, MOST_WEIGHTS, &out->weights));
    return read_shares(source, prefix, form, out);
}

s2_status s2_model_beside_read(const s2_source *source, const char *prefix, const char *type, int64_t *out)
{
    const state_form *form;
    *out = 0;
    S2_TRY(find_variant(source, prefix, type, "mla_use_output_gate", OUT_GATE, &form));
    return form != NULL ? read_sum(source, prefix, form->beside, MOST_WEIGHTS, out) : S2_OK;
}
