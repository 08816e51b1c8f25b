#include "export/kept.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

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

/* Whether what stands before its layer says that a module is of a part that has no price: a tower, layers of MTP. */
static bool is_outside(const char *text, const char *layer)
{
    static const char *const words[] = {"vision", "visual", "image",   "audio",
                                        "tower",  "mtp",    "encoder", "speech"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        const char *const found = strstr(text, words[w]);
        if (found != NULL && found < layer)
            return true;
    }
    return false;
}

static s2_status add(s2_module_names *list, const char *text, bool is_glob)
{
    s2_module_name name = {.text = text, .is_glob = is_glob};
    const char *const from = find_layer(text, &name.layer);
    int64_t room = list->room;
    if (from != NULL && is_outside(text, from))
        return S2_OK;
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

/* A file that names experts one by one: they are counted, and all but the first are left out. */
static bool is_other_expert(s2_module_names *list, const char *text)
{
    static const char word[] = ".experts.";
    const char *const found = strstr(text, word), *const number =
                                                      found != NULL ? found + sizeof word - 1 : NULL;
    if (number == NULL || !isdigit((unsigned char)*number) || is_outside(text, found))
        return false;
    const bool first = strtol(number, NULL, 10) == 0;
    list->n_experts++;
    list->n_first += first;
    return !first;
}

s2_status s2_module_names_add(s2_module_names *list, const char *text)
{
    if (strcmp(text, "Linear") == 0) {
        list->all = true;
        return S2_OK;
    }
    if (strncmp(text, "re:", 3) == 0)
        return s2_module_names_add_regex(list, text + 3);
    if (strpbrk(text, "*?[") != NULL)
        return add(list, text, true);
    return is_other_expert(list, text) ? S2_OK : add(list, text, false);
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
    return anywhere || here;
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
    const char *holders[9];
    const char *leaves[5];
} matrix;

/* Gemma 4 calls experts "experts", beside what all tokens run, which it calls "mlp". */
#define BESIDE_MLP "experts"
#define SHARED_MLP "mlp"
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
            "feed_forward.experts", "feed_forward.experts.0", BESIDE_MLP, BESIDE_MLP ".0", NULL              \
    }
#define SHARED                                                                                               \
    S2_PART_SHARED,                                                                                          \
    {                                                                                                        \
        "mlp.shared_experts", "mlp.shared_expert", "mixer.shared_experts", "feed_forward.shared_expert",     \
            "shared_mlp", "share_expert", "block_sparse_moe.shared_experts", SHARED_MLP, NULL                \
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
                                  {MIXER, {"in_proj_z", "in_proj_qkvz", "in_proj", "g_proj", NULL}},
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
    if (nth < FIRST_MIXER + 3) /* about; Mamba-2 has all that comes in in one matrix */
        return nth == FIRST_MIXER ? 2 : nth == FIRST_MIXER + 1 && net->mixer.grouped > 0 ? 0 : 1;
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
    s2_stored_groups *groups;
    bool twice; /* two groups name the same matrix */
    double kept[S2_N_STORED_PARTS], whole[S2_N_STORED_PARTS];
    double bits[S2_N_STORED_PARTS]; /* of all that are not kept */
    double in[S2_N_STORED_PARTS][S2_N_WEIGHTS];
} counted;

/* Whether modules of a holder are what this model calls so; others are only looked for, so that they are understood. */
static bool is_called(const counted *c, s2_stored_part part, const char *holder)
{
    const bool beside = strncmp(holder, BESIDE_MLP, sizeof BESIDE_MLP - 1) == 0;
    if (c->net->apart)
        return strncmp(holder, "mixer", 5) == 0;
    if (part == S2_PART_EXPERTS)
        return beside == c->net->beside_mlp;
    if (part == S2_PART_SHARED)
        return (strcmp(holder, SHARED_MLP) == 0) == c->net->beside_mlp;
    /* linear attention beside latent attention is called as that is */
    return part != S2_PART_MIXER || strcmp(holder, "self_attn") != 0 || c->net->latent.latent_dim > 0;
}

/* Whether a list names a matrix, under one of the names that it may have. */
static bool names(const counted *c, s2_module_names *list, const matrix *of, int32_t number)
{
    char name[MOST_TEXT / 2];
    bool named = false;
    for (int32_t h = 0; of->holders[h] != NULL; h++)
        for (int32_t leaf = 0; of->leaves[leaf] != NULL; leaf++) {
            const bool called = is_called(c, of->part, of->holders[h]);
            snprintf(name, sizeof name, "layers.%d.%s.%s", (int)number, of->holders[h], of->leaves[leaf]);
            named |= matches(list, name) && called;
        }
    return named;
}

/* The group that stores a matrix; NULL: it stays in 16 bits. */
static const s2_stored_group *group_of(counted *c, const matrix *of, int32_t number)
{
    const s2_stored_group *found = NULL, *all = NULL;
    for (int32_t g = 0; g < c->groups->n; g++) {
        s2_stored_group *const group = &c->groups->list[g];
        if (group->targets.all)
            all = group;
        if (!names(c, &group->targets, of, number))
            continue;
        c->twice |= found != NULL;
        found = group;
    }
    if (names(c, &c->groups->ignored, of, number))
        return NULL;
    return found != NULL ? found : all;
}

/* The matrices of what the file calls a layer. */
static void count(counted *c, int32_t number, s2_net_layer own)
{
    for (int32_t g = 0; g < c->groups->n; g++)
        look_at(&c->groups->list[g].targets, number);
    look_at(&c->groups->ignored, number);
    for (int32_t nth = 0; nth < N_MATRICES; nth++) {
        const s2_stored_part part = matrices[nth].part;
        const double weight = has_part(c->net, own, part) ? weight_of(c->net, nth) : 0;
        const s2_stored_group *const group = group_of(c, &matrices[nth], number);
        c->whole[part] += weight;
        if (group == NULL) {
            c->kept[part] += weight;
            continue;
        }
        c->bits[part] += weight * group->bits;
        c->in[part][group->stored] += weight;
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

/* "model.layers.61*": a number that goes on with a wildcard names no layer below it. */
static bool names_beyond(const char *text, int32_t n_layers)
{
    static const char word[] = "layers.";
    const char *const found = strstr(text, word);
    if (found == NULL || !isdigit((unsigned char)found[sizeof word - 1]))
        return false;
    return strtol(found + sizeof word - 1, NULL, 10) >= n_layers;
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
                                        "index",
                                        "A_log",
                                        "dt_bias",
                                        "bias",
                                        "sinks",
                                        "in_proj_ba",
                                        "in_proj_a",
                                        "in_proj_b",
                                        "connector",
                                        "merge",
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
    if (own->layer >= n_layers || names_beyond(own->text, n_layers))
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

static bool is_understood(const s2_module_names *list, s2_net *net, int32_t n_layers)
{
    bool all = !list->unclear;
    for (int32_t nth = 0; nth < list->n; nth++) {
        const s2_module_name *const own = &list->names[nth];
        if (own->used || is_beside(own, n_layers))
            continue;
        if (net->untold[0] == '\0')
            s2_text_clean(net->untold, sizeof net->untold, own->text);
        all = false;
    }
    return all;
}

/* Of experts that are named one by one, all are where the first is. */
static bool names_all_experts(const s2_module_names *list, const s2_net *net)
{
    return list->n_experts == list->n_first * (int64_t)net->n_experts;
}

/* What is stored of a part, or of its few weights as most of the model's. */
static void take_part(const counted *c, int32_t part, s2_net *net)
{
    const double stored = c->whole[part] - c->kept[part];
    net->kept[part] = c->whole[part] > 0 ? (float)(c->kept[part] / c->whole[part]) : 0;
    net->bits[part] = (float)(stored > 0 ? c->bits[part] / stored : c->groups->list[0].bits);
    net->in_fp8[part] = (float)(stored > 0 ? c->in[part][S2_WEIGHTS_FP8] / stored
                                           : c->groups->list[0].stored == S2_WEIGHTS_FP8);
    for (int32_t type = 0; type < S2_N_WEIGHTS; type++)
        if (c->in[part][type] > 0)
            net->stored_in |= 1U << type;
}

/* The type of most of the weights: those of feed-forward layers, or what else there is. */
static s2_weights most_of(const counted *c)
{
    static const s2_stored_part parts[] = {S2_PART_EXPERTS, S2_PART_PLAIN, S2_PART_SHARED, S2_PART_MIXER,
                                           S2_PART_ATTENTION};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        int32_t most = 0;
        for (int32_t type = 1; type < S2_N_WEIGHTS; type++)
            if (c->in[parts[p]][type] > c->in[parts[p]][most])
                most = type;
        if (c->in[parts[p]][most] > 0)
            return (s2_weights)most;
    }
    return c->groups->list[0].stored;
}

bool s2_kept_read(s2_stored_groups *groups, s2_net *net)
{
    counted c = {.net = net, .groups = groups};
    sort(&groups->ignored);
    for (int32_t g = 0; g < groups->n; g++)
        sort(&groups->list[g].targets);
    const int32_t n_layers = count_layers(&c);
    bool all = is_understood(&groups->ignored, net, n_layers) && names_all_experts(&groups->ignored, net);
    for (int32_t g = 0; g < groups->n; g++) {
        const s2_module_names *const targets = &groups->list[g].targets;
        all = is_understood(targets, net, n_layers) && names_all_experts(targets, net) && all;
    }
    all = all && !c.twice;
    net->stored = most_of(&c);
    for (int32_t part = 0; part < S2_PART_HEAD; part++)
        take_part(&c, part, net);
    return all;
}
