#include "export/kept.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NAMES = 1 << 16,
    MOST_ANYWHERE = 64, /* names that hold for every layer */
    MOST_TEXT = 160,
    MOST_GLOB = 3 * MOST_TEXT, /* a class of digits is five characters for two */
    MOST_GROUPS = 4
};

/* ---- names */

/* Where "layers.7" begins, or NULL; *layer is then 7. */
static const char *find_layer(const char *text, int32_t *layer)
{
    static const char word[] = "layers.";
    for (const char *found = strstr(text, word); found != NULL; found = strstr(found + 1, word)) {
        char *end;
        if ((found != text && found[-1] != '.' && found[-1] != '*') ||
            !isdigit((unsigned char)found[sizeof word - 1]))
            continue;
        const long number = strtol(found + sizeof word - 1, &end, 10);
        if (number > INT32_MAX || (*end != '\0' && *end != '.'))
            continue;
        *layer = (int32_t)number;
        return found;
    }
    *layer = -1;
    return NULL;
}

static s2_status add(s2_module_names *list, const char *text, bool is_glob)
{
    s2_module_name name = {.text = text, .is_glob = is_glob};
    const char *const from = find_layer(text, &name.layer);
    int64_t room = list->room;
    if (from != NULL && !is_glob)
        name.text = from;
    if (list->n == MOST_NAMES || (name.layer < 0 && list->n_anywhere == MOST_ANYWHERE) ||
        strlen(text) >= MOST_TEXT) {
        list->unclear = true;
        return S2_OK;
    }
    S2_TRY(S2_ARENA_ROOM(list->arena, list->names, list->n, room));
    list->room = (int32_t)room;
    list->n_anywhere += name.layer < 0;
    list->names[list->n++] = name;
    return S2_OK;
}

/* One expression without groups, as wildcards; false where it has more than these can say. */
static bool to_glob(const char *regex, char glob[MOST_GLOB])
{
    char *out = glob;
    bool ends = false;
    for (const char *from = regex + (*regex == '^'); *from != '\0'; from++) {
        const bool repeats = from[0] != '\0' && (from[1] == '*' || from[1] == '+');
        if (*from == '\\' && from[1] == 'd') {
            out = stpcpy(out, "[0-9]");
            from++;
        } else if (*from == '\\' && ispunct((unsigned char)from[1])) {
            *out++ = *++from;
            continue;
        } else if (*from == '[') {
            const size_t n = strcspn(from, "]");
            if (from[n] == '\0' || memchr(from, '\\', n) != NULL)
                return false;
            memcpy(out, from, n + 1);
            out += n + 1;
            from += n;
        } else if (*from == '.') {
            if (!(repeats && from[1] == '*'))
                *out++ = '?';
            if (!repeats)
                continue;
            *out++ = '*';
            from++;
            continue;
        } else if (*from == '$' && from[1] == '\0') {
            ends = true;
            continue;
        } else if (strchr("*+?(){}|^$", *from) != NULL) {
            return false;
        } else {
            *out++ = *from;
            continue;
        }
        if (from[1] == '+') { /* of digits or a set: from least one, and then whatever follows */
            *out++ = '*';
            from++;
        }
    }
    if (!ends)
        *out++ = '*';
    *out = '\0';
    return true;
}

/* An expression, with its first group taken apart into one for each alternative. */
static s2_status add_alternatives(s2_module_names *list, const char *regex, int32_t n_groups)
{
    char one[MOST_TEXT], glob[MOST_GLOB];
    const size_t before = strcspn(regex, "("), n = strcspn(regex + before, ")");
    if (regex[before] == '\0') {
        if (!to_glob(regex, glob)) {
            list->unclear = true;
            return S2_OK;
        }
        const char *const kept = s2_arena_strndup(list->arena, glob, strlen(glob));
        return kept != NULL ? add(list, kept, true) : S2_ENOMEM;
    }
    if (n_groups == MOST_GROUPS || regex[before + n] == '\0' || regex[before + n + 1] == '?' ||
        memchr(regex + before + 1, '(', n - 1) != NULL || (before > 0 && regex[before - 1] == '\\')) {
        list->unclear = true;
        return S2_OK;
    }
    const char *from = regex + before + 1, *const end = regex + before + n;
    if (strncmp(from, "?:", 2) == 0)
        from += 2;
    for (;;) {
        const char *const bar = memchr(from, '|', (size_t)(end - from));
        const int length = (int)((bar != NULL ? bar : end) - from);
        snprintf(one, sizeof one, "%.*s%.*s%s", (int)before, regex, length, from, end + 1);
        S2_TRY(add_alternatives(list, one, n_groups + 1));
        if (bar == NULL)
            return S2_OK;
        from = bar + 1;
    }
}

s2_status s2_module_names_add_regex(s2_module_names *list, const char *text)
{
    if (strlen(text) < MOST_TEXT)
        return add_alternatives(list, text, 0);
    list->unclear = true;
    return S2_OK;
}

s2_status s2_module_names_add(s2_module_names *list, const char *text)
{
    if (strcmp(text, "Linear") == 0) {
        list->all = true;
        return S2_OK;
    }
    if (strncmp(text, "re:", 3) == 0)
        return s2_module_names_add_regex(list, text + 3);
    return add(list, text, strpbrk(text, "*?[") != NULL);
}

/* ---- matching */

/* One character of a glob, and where the next one begins. */
static bool takes(const char *glob, char c, const char **next)
{
    bool taken = false;
    if (*glob != '[') {
        *next = glob + (*glob != '\0');
        return *glob == '?' || (*glob != '\0' && *glob == c);
    }
    const bool except = glob[1] == '!' || glob[1] == '^';
    const char *set = glob + 1 + except;
    for (; *set != '\0' && *set != ']'; set++) {
        const char last = set[1] == '-' && set[2] != '\0' && set[2] != ']' ? set[2] : *set;
        taken |= c >= *set && c <= last;
        set += last == *set ? 0 : 2;
    }
    *next = set + (*set == ']');
    return taken != except;
}

/*
 * A star gives way to the next one, so each is tried at every place once at most. What names a module names what it
 * holds.
 */
static bool glob_takes(const char *glob, const char *text)
{
    const char *star = NULL, *from = NULL, *next;
    while (*text != '\0') {
        if (*glob == '\0' && *text == '.')
            return true;
        if (*glob == '*') {
            star = ++glob;
            from = text;
        } else if (takes(glob, *text, &next)) {
            glob = next;
            text++;
        } else if (star != NULL) {
            glob = star;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

/* Whether the parts of `part`, between dots, stand one after another in the name. */
static bool has_parts(const char *name, const char *part)
{
    const size_t n = strlen(part);
    for (const char *at = strstr(name, part); n > 0 && at != NULL; at = strstr(at + 1, part))
        if ((at == name || at[-1] == '.') && (at[n] == '\0' || at[n] == '.'))
            return true;
    return false;
}

static bool name_takes(const s2_module_name *own, const char *name)
{
    static const char *const roots[] = {"model.", "model.language_model.", "language_model.model.",
                                        "backbone.", ""};
    char whole[MOST_TEXT];
    if (!own->is_glob)
        return has_parts(name, own->text);
    for (size_t r = 0; r < sizeof roots / sizeof *roots; r++) {
        snprintf(whole, sizeof whole, "%s%s", roots[r], name);
        if (glob_takes(own->text, whole))
            return true;
    }
    return false;
}

static bool match_range(s2_module_names *list, int32_t begin, int32_t end, const char *name)
{
    bool named = false;
    for (int32_t nth = begin; nth < end; nth++)
        if (name_takes(&list->names[nth], name))
            named = list->names[nth].used = true;
    return named;
}

/* Whether one of those of no layer, or of the layer that is looked at, names the module. */
static bool matches(s2_module_names *list, const char *name)
{
    const bool anywhere = match_range(list, 0, list->n_anywhere, name),
               here = match_range(list, list->begin, list->end, name);
    return list->all || anywhere || here;
}

static int by_layer(const void *a, const void *b)
{
    const int32_t first = ((const s2_module_name *)a)->layer, second = ((const s2_module_name *)b)->layer;
    return (first > second) - (first < second);
}

static void sort(s2_module_names *list)
{
    if (list->n > 0)
        qsort(list->names, (size_t)list->n, sizeof *list->names, by_layer);
    list->begin = list->end = list->n_anywhere;
}

/* Layers are looked at in ascending order. */
static void look_at(s2_module_names *list, int32_t layer)
{
    list->begin = list->end;
    while (list->begin < list->n && list->names[list->begin].layer < layer)
        list->begin++;
    list->end = list->begin;
    while (list->end < list->n && list->names[list->end].layer == layer)
        list->end++;
}

/* ---- the matrices of a layer */

/* Names of one matrix, each with its holder; what it weighs beside others of its part is said by the net. */
typedef struct matrix {
    s2_stored_part part;
    const char *holders[7];
    const char *leaves[5];
} matrix;

#define ATTENTION                                                                                            \
    S2_PART_ATTENTION,                                                                                       \
    {                                                                                                        \
        "self_attn", "attn", "attention", "mixer", NULL                                                      \
    }
#define MIXER                                                                                                \
    S2_PART_MIXER,                                                                                           \
    {                                                                                                        \
        "linear_attn", "self_attn", "mamba", "mixer", "conv", "temporal_block", NULL                         \
    }
#define EXPERTS                                                                                              \
    S2_PART_EXPERTS,                                                                                         \
    {                                                                                                        \
        "mlp.experts.0", "mlp.experts", "block_sparse_moe.experts.0", "mixer.experts.0",                     \
            "feed_forward.experts", "feed_forward.experts.0"                                                 \
    }
#define SHARED                                                                                               \
    S2_PART_SHARED,                                                                                          \
    {                                                                                                        \
        "mlp.shared_experts", "mlp.shared_expert", "mixer.shared_experts", "feed_forward.shared_expert",     \
            "shared_mlp", "share_expert"                                                                     \
    }
#define PLAIN                                                                                                \
    S2_PART_PLAIN,                                                                                           \
    {                                                                                                        \
        "mlp", "feed_forward", "mixer", NULL                                                                 \
    }
#define GATE                                                                                                 \
    {                                                                                                        \
        "gate_proj", "w1", "gate_up_proj", NULL                                                              \
    }
#define UP                                                                                                   \
    {                                                                                                        \
        "up_proj", "w3", "gate_up_proj", NULL                                                                \
    }
#define DOWN                                                                                                 \
    {                                                                                                        \
        "down_proj", "w2", NULL                                                                              \
    }
static const matrix matrices[] = {{ATTENTION, {"q_proj", "q_b_proj", "qkv_proj", NULL}},
                                  {ATTENTION, {"k_proj", "kv_b_proj", "qkv_proj", NULL}},
                                  {ATTENTION, {"v_proj", "kv_b_proj", "qkv_proj", NULL}},
                                  {ATTENTION, {"o_proj", NULL}},
                                  {ATTENTION, {"q_a_proj", "fused_qkv_a_proj", NULL}},
                                  {ATTENTION, {"kv_a_proj_with_mqa", "fused_qkv_a_proj", NULL}},
                                  {MIXER, {"in_proj", "in_proj_qkvz", "in_proj_qkv", "q_proj", NULL}},
                                  {MIXER, {"out_proj", "o_proj", NULL}},
                                  {EXPERTS, GATE},
                                  {EXPERTS, UP},
                                  {EXPERTS, DOWN},
                                  {SHARED, GATE},
                                  {SHARED, UP},
                                  {SHARED, DOWN},
                                  {PLAIN, GATE},
                                  {PLAIN, UP},
                                  {PLAIN, DOWN}};
enum { N_MATRICES = sizeof matrices / sizeof *matrices, N_ATTENTION = 6, FIRST_MIXER = N_ATTENTION };

/* What a matrix weighs, over the width of the hidden state; 0: the model has none such. */
static double weight_of(const s2_net *net, int32_t nth)
{
    const s2_latent *const latent = &net->latent;
    const double hidden = net->hidden, n_heads = net->n_heads, kv = (double)net->n_kv_heads * net->head_dim,
                 score = latent->plain_dim + latent->rotary_dim,
                 plain[N_ATTENTION] = {n_heads * net->head_dim, kv, kv, n_heads * net->head_dim, 0, 0},
                 through[N_ATTENTION] = {n_heads * score *
                                             (latent->query_dim > 0 ? latent->query_dim / hidden : 1),
                                         n_heads * latent->plain_dim * latent->latent_dim / hidden,
                                         n_heads * latent->value_dim * latent->latent_dim / hidden,
                                         n_heads * latent->value_dim,
                                         latent->query_dim,
                                         latent->latent_dim + latent->rotary_dim};
    if (nth < N_ATTENTION)
        return latent->latent_dim > 0 ? through[nth] : plain[nth];
    if (nth < FIRST_MIXER + 2)
        return nth == FIRST_MIXER ? 2 : 1; /* about */
    return matrices[nth].leaves[0][0] == 'g' && !net->gated ? 0 : 1;
}

static bool has_part(const s2_net *net, s2_net_layer own, s2_stored_part part)
{
    const bool experts = net->n_experts > 1;
    switch (part) {
    case S2_PART_ATTENTION: return own.attends;
    case S2_PART_MIXER: return own.mixes;
    case S2_PART_EXPERTS: return experts && own.n_mixtures > 0;
    case S2_PART_SHARED: return experts && own.n_mixtures > 0 && net->mixture.shared_ffn > 0;
    case S2_PART_PLAIN: return own.n_plain > 0 || (!experts && own.n_mixtures > 0);
    case S2_PART_HEAD:
    case S2_N_STORED_PARTS: break;
    }
    return false;
}

/* A model, and what was counted of it. */
typedef struct counted {
    const s2_net *net;
    s2_module_names *targets, *ignored;
    double kept[S2_N_STORED_PARTS], whole[S2_N_STORED_PARTS];
} counted;

/* Whether modules of a holder are what this model calls so; others are only looked for, so that they are understood. */
static bool is_called(const counted *c, s2_stored_part part, const char *holder)
{
    if (c->net->apart)
        return strncmp(holder, "mixer", 5) == 0;
    /* linear attention beside latent attention is called as that is */
    return part != S2_PART_MIXER || strcmp(holder, "self_attn") != 0 || c->net->latent.latent_dim > 0;
}

/* Whether a checkpoint leaves it in 16 bits; under one of its names a list may name it. */
static bool stays(const counted *c, const matrix *of, int32_t number)
{
    char name[MOST_TEXT / 2];
    bool targeted = false, kept = false;
    for (int32_t h = 0; h < 7 && of->holders[h] != NULL; h++)
        for (int32_t leaf = 0; of->leaves[leaf] != NULL; leaf++) {
            const bool called = is_called(c, of->part, of->holders[h]);
            snprintf(name, sizeof name, "layers.%d.%s.%s", (int)number, of->holders[h], of->leaves[leaf]);
            targeted |= matches(c->targets, name) && called;
            kept |= matches(c->ignored, name) && called;
        }
    return kept || !targeted;
}

/* The matrices of what the file calls a layer. */
static void count(counted *c, int32_t number, s2_net_layer own)
{
    look_at(c->targets, number);
    look_at(c->ignored, number);
    for (int32_t nth = 0; nth < N_MATRICES; nth++) {
        const s2_stored_part part = matrices[nth].part;
        const double weight = has_part(c->net, own, part) ? weight_of(c->net, nth) : 0;
        c->kept[part] += stays(c, &matrices[nth], number) ? weight : 0;
        c->whole[part] += weight;
    }
}

/* All layers, and how many numbers they have. */
static int32_t count_layers(counted *c)
{
    int32_t number = 0;
    for (int32_t layer = 0; layer < c->net->n_layers; layer++) {
        const s2_net_layer own = c->net->layers[layer];
        if (!c->net->apart) {
            count(c, number++, own);
            continue;
        }
        count(c, number++, (s2_net_layer){.attends = own.attends, .mixes = own.mixes});
        for (unsigned nth = 0; nth < own.n_plain; nth++)
            count(c, number++, (s2_net_layer){.n_plain = 1});
        for (unsigned nth = 0; nth < own.n_mixtures; nth++)
            count(c, number++, (s2_net_layer){.n_mixtures = 1});
    }
    return number;
}

/* What a list may name that has no price here, or is never quantized. */
static bool is_beside(const s2_module_name *own, int32_t n_layers)
{
    static const char *const words[] = {"lm_head",
                                        "embed",
                                        "router",
                                        "vision",
                                        "visual",
                                        "image",
                                        "audio",
                                        "tower",
                                        "norm",
                                        "conv1d",
                                        "mtp",
                                        "nextn",
                                        "projector",
                                        "indexer",
                                        "A_log",
                                        "dt_bias",
                                        "bias",
                                        "sinks",
                                        "in_proj_ba",
                                        "in_proj_a",
                                        "in_proj_b",
                                        "connector",
                                        "merger",
                                        "shared_expert_gate",
                                        "eh_proj",
                                        "conv",
                                        "projection",
                                        "dt_proj",
                                        "x_proj",
                                        "kv_cache",
                                        "output_embeddings",
                                        "cross_attn",
                                        "per_layer",
                                        "score"};
    const size_t n = strlen(own->text);
    if (own->layer >= n_layers)
        return true;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (strstr(own->text, words[w]) != NULL)
            return true;
    for (size_t end = n; end >= 4; end--) { /* ends in "gate", whatever wildcards follow */
        if (memcmp(own->text + end - 4, "gate", 4) == 0)
            return true;
        if (strchr("*?.", own->text[end - 1]) == NULL)
            break;
    }
    return false;
}

static bool is_understood(const s2_module_names *list, int32_t n_layers)
{
    bool all = !list->unclear;
    for (int32_t nth = 0; nth < list->n; nth++)
        all = all && (list->names[nth].used || is_beside(&list->names[nth], n_layers));
    return all;
}

bool s2_kept_read(s2_module_names *targets, s2_module_names *ignored, s2_net *net)
{
    counted c = {.net = net, .targets = targets, .ignored = ignored};
    sort(targets);
    sort(ignored);
    const int32_t n_layers = count_layers(&c);
    for (int32_t part = 0; part < S2_PART_HEAD; part++)
        net->kept[part] = c.whole[part] > 0 ? (float)(c.kept[part] / c.whole[part]) : 0;
    return is_understood(targets, n_layers) && is_understood(ignored, n_layers);
}
