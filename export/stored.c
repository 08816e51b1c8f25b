#include "export/stored.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "export/kept.h"

enum { NAME = 200, HERE = S2_DOC_PATH + NAME + 40 }; /* a path of the quantization, and what stands in it */

typedef struct reader {
    const s2_doc *doc;
    char holder[S2_DOC_PATH]; /* the object that says how weights are stored */
    s2_arena *arena;
    s2_net *net;
    s2_diag *diag;
    s2_stored_groups groups;
} reader;

static const char *under(const reader *r, const char *key, char path[HERE])
{
    snprintf(path, HERE, "%.120s/%.239s", r->holder, key);
    return path;
}

static const char *word(const reader *r, const char *key)
{
    char path[HERE];
    const char *const found = s2_doc_text(r->doc, under(r, key, path));
    return found != NULL ? found : "";
}

static bool has(const reader *r, const char *key)
{
    char path[HERE];
    return s2_doc_has(r->doc, under(r, key, path));
}

/* A number under the first of its names; `fallback` where there is none. */
static s2_status number(const reader *r, const char *const *keys, int64_t fallback, int64_t *out)
{
    char path[HERE];
    while (keys[1] != NULL && !has(r, *keys))
        keys++;
    return s2_doc_int_or(r->doc, under(r, *keys, path), -1, 1 << 20, fallback, out, r->diag);
}

static s2_status flag(const reader *r, const char *key, bool *out)
{
    char path[HERE];
    return s2_doc_bool_or(r->doc, under(r, key, path), false, out, r->diag);
}

/* The group of a type, which is made where it is not there; NULL: there are too many. */
static s2_stored_group *group_in(reader *r, s2_weights stored, double bits)
{
    s2_stored_groups *const groups = &r->groups;
    for (int32_t g = 0; g < groups->n; g++)
        if (groups->list[g].stored == stored && fabs(groups->list[g].bits - bits) <= 0)
            return &groups->list[g];
    if (groups->n == S2_MOST_STORED) {
        groups->ignored.unclear = true;
        return NULL;
    }
    s2_stored_group *const group = &groups->list[groups->n++];
    *group = (s2_stored_group){stored, bits, {.arena = r->arena}};
    return group;
}

/* A type; PUBLISHED: it is not known here. */
typedef struct kind {
    s2_weights stored;
    double bits;
} kind;
static const kind unknown = {S2_WEIGHTS_PUBLISHED, 0};

static kind usual(s2_weights stored)
{
    return (kind){stored, s2_weights_bits(stored)};
}

/* Whole numbers in groups that share `shared` bits; 0 or less: a group is a column. */
static kind whole(int64_t n_bits, int64_t group, double shared)
{
    return n_bits == 4 || n_bits == 8 ? (kind){n_bits == 8 ? S2_WEIGHTS_INT8 : S2_WEIGHTS_INT4,
                                               (double)n_bits + (group > 0 ? shared / (double)group : 0)}
                                      : unknown;
}

/* All matrices of the layers are of this type. */
static void take(reader *r, kind own)
{
    s2_stored_group *const group =
        own.stored != S2_WEIGHTS_PUBLISHED ? group_in(r, own.stored, own.bits) : NULL;
    if (group != NULL)
        group->targets.all = true;
}

/* Those of a name are; of a type that is not known nothing is. */
static s2_status take_named(reader *r, kind own, const char *name)
{
    s2_stored_group *const group =
        own.stored != S2_WEIGHTS_PUBLISHED ? group_in(r, own.stored, own.bits) : NULL;
    if (group != NULL)
        return s2_module_names_add(&group->targets, name);
    r->groups.ignored.unclear = true;
    return S2_OK;
}

/* ---- methods */

typedef s2_status (*read_method)(reader *r);
enum { SCALE = 16 }; /* bits of a scale */
#define MXFP8_BITS 8.25

static s2_status read_fp8(reader *r)
{
    const char *const experts = word(r, "expert_dtype");
    const char *const model = s2_doc_text(r->doc, "/expert_dtype"); /* DeepSeek-V4 */
    const bool apart =
        (experts[0] != '\0' && strcmp(experts, "fp8") != 0) || (model != NULL && strcmp(model, "fp8") != 0);
    if (!apart)
        take(r, usual(S2_WEIGHTS_FP8));
    return S2_OK;
}

/* GPTQ, AWQ, AutoRound: a scale and a zero of as many bits as a weight for each group. */
static s2_status read_groups(reader *r)
{
    static const char *const bits[] = {"bits", "w_bit", NULL}, *const groups[] = {"group_size",
                                                                                  "q_group_size", NULL};
    int64_t n_bits, group;
    S2_TRY(number(r, bits, 0, &n_bits));
    S2_TRY(number(r, groups, 128, &group));
    take(r, whole(n_bits, group, SCALE + (double)n_bits));
    return S2_OK;
}

/* bitsandbytes: 64 weights share a scale of 32 bits, or with a double quantization of 8 and a 256th of 32. */
static s2_status read_bitsandbytes(reader *r)
{
    bool in_four, in_eight, twice;
    S2_TRY(flag(r, "load_in_4bit", &in_four));
    S2_TRY(flag(r, "load_in_8bit", &in_eight));
    S2_TRY(flag(r, "bnb_4bit_use_double_quant", &twice));
    if (in_four)
        take(r, (kind){S2_WEIGHTS_INT4, twice ? 4 + 8.0 / 64 + 32.0 / 64 / 256 : 4.5});
    else if (in_eight)
        take(r, usual(S2_WEIGHTS_INT8));
    return S2_OK;
}

static s2_status read_hqq(reader *r)
{
    static const char *const bits[] = {"quant_config/weight_quant_params/nbits", NULL},
                             *const groups[] = {"quant_config/weight_quant_params/group_size", NULL};
    int64_t n_bits, group;
    S2_TRY(number(r, bits, 0, &n_bits));
    S2_TRY(number(r, groups, 64, &group));
    take(r, whole(n_bits, group, 2 * SCALE));
    return S2_OK;
}

/* A type by its word, as several methods write it. */
static kind kind_of_word(const char *type)
{
    static const struct {
        const char *word;
        s2_weights stored;
    } rows[] = {{"int8", S2_WEIGHTS_INT8},   {"int4", S2_WEIGHTS_INT4},    {"uint4", S2_WEIGHTS_INT4},
                {"float8", S2_WEIGHTS_FP8},  {"fp8_e4m3", S2_WEIGHTS_FP8}, {"fp8", S2_WEIGHTS_FP8},
                {"mxfp4", S2_WEIGHTS_MXFP4}, {"nvfp4", S2_WEIGHTS_NVFP4}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (strcmp(type, rows[n].word) == 0)
            return usual(rows[n].stored);
    return unknown;
}

static s2_status read_weights_word(reader *r) /* quanto, EETQ */
{
    take(r, kind_of_word(word(r, "weights")));
    return S2_OK;
}

static s2_status read_forward_word(reader *r) /* FP-Quant */
{
    take(r, kind_of_word(word(r, "forward_dtype")));
    return S2_OK;
}

/* torchao: Int8DynamicActivationInt4WeightConfig, or int8_dynamic_activation_int4_weight. */
static s2_status read_torchao(reader *r)
{
    static const struct {
        const char *ends;
        s2_weights stored;
    } rows[] = {{"int4weight", S2_WEIGHTS_INT4},  {"int4weightonly", S2_WEIGHTS_INT4},
                {"int8weight", S2_WEIGHTS_INT8},  {"int8weightonly", S2_WEIGHTS_INT8},
                {"float8weight", S2_WEIGHTS_FP8}, {"float8weightonly", S2_WEIGHTS_FP8}};
    const char *type = word(r, "quant_type/default/_type");
    char plain[80];
    size_t n = 0;
    if (type[0] == '\0')
        type = word(r, "quant_type");
    for (; *type != '\0' && n < sizeof plain - 1; type++)
        if (*type != '_')
            plain[n++] = (char)tolower((unsigned char)*type);
    if (n > 6 && memcmp(plain + n - 6, "config", 6) == 0)
        n -= 6;
    plain[n] = '\0';
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        const size_t own = strlen(rows[row].ends);
        if (n >= own && strcmp(plain + n - own, rows[row].ends) == 0)
            take(r, usual(rows[row].stored));
    }
    return S2_OK;
}

/* Quark: types by layer have no price here. */
static s2_status read_quark(reader *r)
{
    char path[HERE];
    if (s2_doc_len(r->doc, under(r, "layer_quant_config", path)) > 0)
        return S2_OK;
    const char *const type = word(r, "global_quant_config/weight/dtype");
    take(r, kind_of_word(strcmp(type, "fp4") == 0 ? "mxfp4" : type));
    return S2_OK;
}

/* The type of one group of compressed-tensors. */
static s2_status read_group(const reader *r, const char *group, kind *out)
{
    char path[HERE], key[HERE];
    int64_t n_bits, size;
    bool symmetric;
    snprintf(key, sizeof key, "config_groups/%.20s/weights/num_bits", group);
    S2_TRY(s2_doc_int_or(r->doc, under(r, key, path), 1, 64, 0, &n_bits, r->diag));
    snprintf(key, sizeof key, "config_groups/%.20s/weights/group_size", group);
    S2_TRY(s2_doc_int_or(r->doc, under(r, key, path), -1, 1 << 20, 0, &size, r->diag));
    snprintf(key, sizeof key, "config_groups/%.20s/weights/symmetric", group);
    S2_TRY(s2_doc_bool_or(r->doc, under(r, key, path), true, &symmetric, r->diag));
    snprintf(key, sizeof key, "config_groups/%.20s/weights/type", group);
    const bool floats = strcmp(word(r, key), "float") == 0;
    const char *const packed = word(r, "format");
    *out = !floats                     ? whole(n_bits, size, SCALE + (symmetric ? 0 : (double)n_bits))
           : n_bits == 8 && size == 32 ? (kind){S2_WEIGHTS_FP8, MXFP8_BITS}
           : n_bits == 8               ? usual(S2_WEIGHTS_FP8)
           : n_bits != 4               ? unknown
           : size == 32 || strncmp(packed, "mxfp4", 5) == 0 ? usual(S2_WEIGHTS_MXFP4)
           : size == 16 || strncmp(packed, "nvfp4", 5) == 0 ? usual(S2_WEIGHTS_NVFP4)
                                                            : unknown;
    return S2_OK;
}

static s2_status add_list(reader *r, const char *key, s2_module_names *list)
{
    char path[HERE], element[HERE + 24];
    if (!s2_doc_is_array(r->doc, under(r, key, path)))
        return S2_OK;
    const int64_t n = s2_doc_len(r->doc, path);
    for (int64_t nth = 0; nth < n; nth++) {
        snprintf(element, sizeof element, "%s/%lld", path, (long long)nth);
        const char *const text = s2_doc_text(r->doc, element);
        if (text == NULL)
            list->unclear = true;
        else
            S2_TRY(s2_module_names_add(list, text));
    }
    return S2_OK;
}

/* compressed-tensors, and modelopt in its words: groups of modules. */
static s2_status read_config_groups(reader *r)
{
    char path[HERE], key[HERE];
    bool any = false;
    under(r, "config_groups", path);
    for (const char *group = NULL; (group = s2_doc_key(r->doc, path, group)) != NULL;) {
        kind own;
        snprintf(key, sizeof key, "config_groups/%.20s/weights", group);
        if (!has(r, key)) /* activations or the cache alone */
            continue;
        any = true;
        S2_TRY(read_group(r, group, &own));
        s2_stored_group *const into =
            own.stored != S2_WEIGHTS_PUBLISHED ? group_in(r, own.stored, own.bits) : NULL;
        if (into == NULL) {
            r->groups.ignored.unclear = true;
            continue;
        }
        const int32_t n = into->targets.n;
        snprintf(key, sizeof key, "config_groups/%.20s/targets", group);
        S2_TRY(add_list(r, key, &into->targets));
        into->targets.all = into->targets.all || into->targets.n == n;
    }
    if (!any && !has(r, "sparsity_config")) /* what is left is whole */
        r->net->method[0] = '\0';
    return S2_OK;
}

/* modelopt and TensorRT-LLM: of their words those for whole weights in one type. */
static s2_status read_algo_word(const reader *r, const char *algo, const char *size, kind *out)
{
    static const struct {
        const char *word;
        s2_weights stored;
        double bits; /* 0: as usual */
    } rows[] = {{"FP8", S2_WEIGHTS_FP8, 0},
                {"FP8_PB_WO", S2_WEIGHTS_FP8, 0},
                {"FP8_PER_CHANNEL_PER_TOKEN", S2_WEIGHTS_FP8, 0},
                {"FP8_BLOCK_SCALES", S2_WEIGHTS_FP8, 0},
                {"MXFP8", S2_WEIGHTS_FP8, MXFP8_BITS},
                {"NVFP4", S2_WEIGHTS_NVFP4, 0},
                {"NVFP4_AWQ", S2_WEIGHTS_NVFP4, 0},
                {"W4A16_NVFP4", S2_WEIGHTS_NVFP4, 0},
                {"W4A8_NVFP4_FP8", S2_WEIGHTS_NVFP4, 0},
                {"W4A16_MXFP4", S2_WEIGHTS_MXFP4, 0},
                {"W4A8_MXFP4_FP8", S2_WEIGHTS_MXFP4, 0},
                {"W8A16", S2_WEIGHTS_INT8, 0},
                {"W4A16", S2_WEIGHTS_INT4, 0},
                {"W4A16_AWQ", S2_WEIGHTS_INT4, 0},
                {"W4A16_GPTQ", S2_WEIGHTS_INT4, 0}};
    char path[HERE];
    int64_t group;
    *out = unknown;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (strcmp(algo, rows[n].word) == 0)
            *out = rows[n].bits > 0 ? (kind){rows[n].stored, rows[n].bits} : usual(rows[n].stored);
    S2_TRY(s2_doc_int_or(r->doc, under(r, size, path), -1, 1 << 20, 0, &group, r->diag));
    if (out->stored == S2_WEIGHTS_INT4 && group > 0)
        *out = whole(4, group, SCALE + (strcmp(algo, "W4A16_GPTQ") == 0 ? 4 : 0));
    return S2_OK;
}

/* MIXED_PRECISION: a word for each module. */
static s2_status read_modules(reader *r)
{
    char path[HERE], key[HERE], size[HERE];
    under(r, "quantized_layers", path);
    for (const char *name = NULL; (name = s2_doc_key(r->doc, path, name)) != NULL;) {
        kind own;
        snprintf(key, sizeof key, "quantized_layers/%.*s/quant_algo", NAME, name);
        snprintf(size, sizeof size, "quantized_layers/%.*s/group_size", NAME, name);
        S2_TRY(read_algo_word(r, word(r, key), size, &own));
        S2_TRY(take_named(r, own, name));
    }
    return S2_OK;
}

static s2_status read_algo(reader *r)
{
    char path[HERE];
    kind own;
    S2_TRY(read_algo_word(r, word(r, "quant_algo"), "group_size", &own));
    take(r, own);
    if (own.stored != S2_WEIGHTS_PUBLISHED)
        return S2_OK;
    if (s2_doc_len(r->doc, under(r, "quantized_layers", path)) > 0)
        return read_modules(r);
    return s2_doc_len(r->doc, under(r, "config_groups", path)) > 0 ? read_config_groups(r) : S2_OK;
}

/* What a method means: a type, or what reads it. Some take the head too unless their list names it. */
static const struct {
    const char *method;
    read_method read;
    bool takes_head;
    kind own; /* of one that has no reader */
} methods[] = {{"fp8", read_fp8, false, {0}},
               {"fbgemm_fp8", read_fp8, false, {0}},
               {"mxfp8", NULL, false, {S2_WEIGHTS_FP8, MXFP8_BITS}},
               {"mxfp4", NULL, false, {S2_WEIGHTS_MXFP4, 0}},
               {"nvfp4", NULL, false, {S2_WEIGHTS_NVFP4, 0}},
               {"gptq", read_groups, false, {0}},
               {"awq", read_groups, false, {0}},
               {"auto-round", read_groups, false, {0}},
               {"bitsandbytes", read_bitsandbytes, false, {0}},
               {"hqq", read_hqq, false, {0}},
               {"quanto", read_weights_word, false, {0}},
               {"eetq", read_weights_word, false, {0}},
               {"fp_quant", read_forward_word, false, {0}},
               {"torchao", read_torchao, false, {0}},
               {"quark", read_quark, true, {0}},
               {"compressed-tensors", read_config_groups, true, {0}},
               {"modelopt", read_algo, true, {0}},
               {"modelopt_fp4", read_algo, true, {0}}};

/* ---- which modules */

/* One member: a module, and how many bits its weights have, or "-:" before a name for none, "+:" for some. */
static s2_status add_layer(reader *r, const char *name, int64_t n_bits, int64_t group)
{
    char own[HERE];
    const bool apart = strncmp(name, "+:", 2) == 0;
    if (strncmp(name, "-:", 2) == 0)
        return s2_module_names_add_regex(&r->groups.ignored, name + 2);
    if (n_bits >= 16)
        return s2_module_names_add(&r->groups.ignored, name);
    snprintf(own, sizeof own, "re:%.*s", NAME, name + 2);
    const char *const text = apart ? s2_arena_strndup(r->arena, own, strlen(own)) : name;
    return text != NULL ? take_named(r, whole(n_bits, group, SCALE + (double)n_bits), text) : S2_ENOMEM;
}

/* Members of an object: AutoRound's layers with other bits, and GPTQ's. */
static s2_status add_layers(reader *r, const char *key)
{
    static const char *const groups[] = {"group_size", NULL};
    char path[HERE], inner[HERE + NAME + 20];
    int64_t usual_group;
    S2_TRY(number(r, groups, 128, &usual_group));
    under(r, key, path);
    for (const char *name = NULL; (name = s2_doc_key(r->doc, path, name)) != NULL;) {
        int64_t n_bits, group;
        snprintf(inner, sizeof inner, "%s/%.*s/bits", path, NAME, name);
        S2_TRY(s2_doc_int_or(r->doc, inner, 1, 64, 0, &n_bits, r->diag));
        snprintf(inner, sizeof inner, "%s/%.*s/group_size", path, NAME, name);
        S2_TRY(s2_doc_int_or(r->doc, inner, -1, 1 << 20, usual_group, &group, r->diag));
        S2_TRY(add_layer(r, name, n_bits, group));
    }
    return S2_OK;
}

static s2_status read_ignored(reader *r)
{
    static const char *const keys[] = {
        "ignore",  "ignored_layers",        "modules_to_not_convert", "exclude_modules",
        "exclude", "llm_int8_skip_modules", "skip_modules",           "linear_weights_not_to_quantize"};
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
        S2_TRY(add_list(r, keys[n], &r->groups.ignored));
    S2_TRY(add_layers(r, "dynamic"));
    return add_layers(r, "extra_config");
}

static bool names_head(const s2_module_names *list)
{
    for (int32_t nth = 0; nth < list->n; nth++)
        if (strstr(list->names[nth].text, "lm_head") != NULL)
            return true;
    return false;
}

/* The group that stores the head: one that names it, or that of all where the method takes it and no list keeps it. */
static s2_status read_head(reader *r, bool takes_head)
{
    const s2_stored_groups *const groups = &r->groups;
    const s2_stored_group *found = NULL;
    bool packed;
    S2_TRY(flag(r, "lm_head", &packed));
    for (int32_t g = 0; g < groups->n; g++) {
        const s2_module_names *const own = &groups->list[g].targets;
        if (packed || names_head(own) || (takes_head && own->all && found == NULL))
            found = &groups->list[g];
    }
    if (!packed && names_head(&groups->ignored))
        found = NULL;
    r->net->kept[S2_PART_HEAD] = found != NULL ? 0 : 1;
    r->net->bits[S2_PART_HEAD] = found != NULL ? (float)found->bits : 0;
    r->net->in_fp8[S2_PART_HEAD] = found != NULL && found->stored == S2_WEIGHTS_FP8 ? 1 : 0;
    return S2_OK;
}

static void forget(reader *r)
{
    s2_net *const net = r->net;
    net->stored = S2_WEIGHTS_PUBLISHED;
    net->stored_in = 0;
    memset(net->kept, 0, sizeof net->kept);
    memset(net->bits, 0, sizeof net->bits);
    memset(net->in_fp8, 0, sizeof net->in_fp8);
}

static s2_status read_kept(reader *r, bool takes_head)
{
    const s2_stored_group *const first = r->groups.list;
    const bool listed_by_type = r->groups.n == 1 && first->stored == S2_WEIGHTS_MXFP4 &&
                                r->groups.ignored.n == 0 && first->targets.n == 0 && !takes_head;
    if (!s2_kept_read(&r->groups, r->net)) {
        forget(r);
        return S2_OK;
    }
    if (listed_by_type) /* gpt-oss: experts alone, whether or not its list says so */
        r->net->kept[S2_PART_ATTENTION] = r->net->kept[S2_PART_MIXER] = 1;
    return read_head(r, takes_head);
}

/* ---- the cache */

static s2_status read_cache(reader *r)
{
    char path[HERE];
    int64_t n_bits;
    const char *algo = word(r, "kv_cache_quant_algo");
    S2_TRY(s2_doc_int_or(r->doc, under(r, "kv_cache_scheme/num_bits", path), 1, 64, 0, &n_bits, r->diag));
    const bool floats = strcmp(word(r, "kv_cache_scheme/type"), "float") == 0;
    if (n_bits > 0)
        snprintf(r->net->cache, sizeof r->net->cache, "%s%d", floats ? "FP" : "INT", (int)n_bits);
    else if (s2_doc_len(r->doc, under(r, "export/kv_cache_group", path)) > 0)
        algo = "kv_cache_group";
    if (n_bits == 0)
        s2_text_clean(r->net->cache, sizeof r->net->cache, algo);
    return S2_OK;
}

/* ---- all of it */

static s2_status read_by(reader *r, const char *method)
{
    bool takes_head = true;
    kind own = unknown;
    s2_text_clean(r->net->method, sizeof r->net->method, method);
    r->groups = (s2_stored_groups){.ignored = {.arena = r->arena}};
    forget(r);
    S2_TRY(read_cache(r));
    read_method read = has(r, "quant_algo") ? read_algo : NULL;
    for (size_t n = 0; n < sizeof methods / sizeof *methods; n++)
        if (strcmp(method, methods[n].method) == 0) {
            read = methods[n].read;
            own = methods[n].own;
            takes_head = methods[n].takes_head;
        }
    if (read != NULL)
        S2_TRY(read(r));
    else
        take(r, own.bits > 0 ? own : usual(own.stored));
    if (r->groups.n == 0)
        return S2_OK;
    S2_TRY(read_ignored(r));
    return read_kept(r, takes_head);
}

/* Where a config names it; multimodal models may have it outside the object of the text model. */
static bool find(const s2_doc *doc, const char *prefix, reader *r)
{
    static const char *const keys[] = {"quantization_config", "compression_config", "quantization"};
    const char *const prefixes[] = {prefix, ""};
    for (int p = 0; p < 2; p++)
        for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
            if (s2_doc_len(doc, s2_doc_under(prefixes[p], keys[n], r->holder)) > 0)
                return true;
    return false;
}

s2_status s2_stored_read(const s2_doc *doc, const char *prefix, s2_arena *arena, s2_net *net, s2_diag *diag)
{
    reader r = {.doc = doc, .arena = arena, .net = net, .diag = diag};
    char path[HERE];
    if (!find(doc, prefix, &r))
        return S2_OK;
    const char *method = word(&r, "quant_method");
    if (method[0] == '\0')
        method = word(&r, "quant_algo");
    const bool is_whole =
        s2_doc_is_null(doc, under(&r, "quant_algo", path)) || strcmp(method, "NO_QUANT") == 0;
    if (method[0] == '\0' && !is_whole) /* MLX writes bits and groups without a method */
        method = "an unnamed method";
    return is_whole ? read_cache(&r) : read_by(&r, method);
}

s2_status s2_stored_read_apart(const char *text, size_t n_bytes, s2_net *net, s2_diag *diag)
{
    s2_doc doc;
    s2_net read = *net;
    S2_TRY(s2_doc_parse(text, n_bytes, &doc, diag));
    s2_arena arena = {0};
    const s2_status status = s2_stored_read(&doc, "", &arena, &read, diag);
    s2_arena_release(&arena);
    s2_doc_release(&doc);
    if (status == S2_OK)
        *net = read;
    return status;
}
