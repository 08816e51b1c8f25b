#include "export/stored.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "export/kept.h"

enum { HERE = S2_DOC_PATH + 80 }; /* a path of the quantization, and what stands in it */

typedef struct reader {
    const s2_doc *doc;
    char holder[S2_DOC_PATH]; /* the object that says how weights are stored */
    s2_arena *arena;
    s2_net *net;
    s2_diag *diag;
    s2_module_names targets, ignored;
} reader;

static const char *under(const reader *r, const char *key, char path[HERE])
{
    snprintf(path, HERE, "%.120s/%.79s", r->holder, key);
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

static void take(reader *r, s2_weights stored, double bits)
{
    r->net->stored = stored;
    r->net->stored_bits = (float)bits;
}

/* Whole numbers in groups that share `shared` bits; 0 or less: a group is a column. */
static void take_whole(reader *r, int64_t n_bits, int64_t group, double shared)
{
    if (n_bits == 4 || n_bits == 8)
        take(r, n_bits == 8 ? S2_WEIGHTS_INT8 : S2_WEIGHTS_INT4,
             (double)n_bits + (group > 0 ? shared / (double)group : 0));
}

/* ---- methods */

typedef s2_status (*read_method)(reader *r);
enum { SCALE = 16 }; /* bits of a scale */

static s2_status read_fp8(reader *r)
{
    const char *const experts = word(r, "expert_dtype");
    const char *const model = s2_doc_text(r->doc, "/expert_dtype"); /* DeepSeek-V4 */
    const bool apart =
        (experts[0] != '\0' && strcmp(experts, "fp8") != 0) || (model != NULL && strcmp(model, "fp8") != 0);
    if (!apart)
        take(r, S2_WEIGHTS_FP8, 0);
    return S2_OK;
}

static s2_status read_mxfp4(reader *r)
{
    take(r, S2_WEIGHTS_MXFP4, 0);
    return S2_OK;
}

static s2_status read_nvfp4(reader *r)
{
    take(r, S2_WEIGHTS_NVFP4, 0);
    return S2_OK;
}

static s2_status read_mxfp8(reader *r)
{
    take(r, S2_WEIGHTS_FP8, 8.25);
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
    take_whole(r, n_bits, group, SCALE + (double)n_bits);
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
        take(r, S2_WEIGHTS_INT4, twice ? 4 + 8.0 / 64 + 32.0 / 64 / 256 : 4.5);
    else if (in_eight)
        take(r, S2_WEIGHTS_INT8, 8);
    return S2_OK;
}

static s2_status read_hqq(reader *r)
{
    static const char *const bits[] = {"quant_config/weight_quant_params/nbits", NULL},
                             *const groups[] = {"quant_config/weight_quant_params/group_size", NULL};
    int64_t n_bits, group;
    S2_TRY(number(r, bits, 0, &n_bits));
    S2_TRY(number(r, groups, 64, &group));
    take_whole(r, n_bits, group, 2 * SCALE);
    return S2_OK;
}

/* A type by its word, as several methods write it. */
static void take_word(reader *r, const char *type)
{
    static const struct {
        const char *word;
        s2_weights stored;
    } rows[] = {{"int8", S2_WEIGHTS_INT8},   {"int4", S2_WEIGHTS_INT4},    {"uint4", S2_WEIGHTS_INT4},
                {"float8", S2_WEIGHTS_FP8},  {"fp8_e4m3", S2_WEIGHTS_FP8}, {"fp8", S2_WEIGHTS_FP8},
                {"mxfp4", S2_WEIGHTS_MXFP4}, {"nvfp4", S2_WEIGHTS_NVFP4}};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (strcmp(type, rows[n].word) == 0)
            take(r, rows[n].stored, 0);
}

static s2_status read_weights_word(reader *r) /* quanto, EETQ */
{
    take_word(r, word(r, "weights"));
    return S2_OK;
}

static s2_status read_forward_word(reader *r) /* FP-Quant */
{
    take_word(r, word(r, "forward_dtype"));
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
            take(r, rows[row].stored, 0);
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
    take_word(r, strcmp(type, "fp4") == 0 ? "mxfp4" : type);
    return S2_OK;
}

/* One group of compressed-tensors, at a path; others may add no other type. */
static s2_status read_group(reader *r, const char *group)
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
    if (floats && n_bits == 8)
        take(r, S2_WEIGHTS_FP8, 0);
    else if (floats && n_bits == 4 && size == 32)
        take(r, S2_WEIGHTS_MXFP4, 0);
    else if (floats && n_bits == 4 && size == 16)
        take(r, S2_WEIGHTS_NVFP4, 0);
    else if (!floats)
        take_whole(r, n_bits, size, SCALE + (symmetric ? 0 : (double)n_bits));
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

/* compressed-tensors, and modelopt in its words: groups of modules, all of whose weights must have one type. */
static s2_status read_config_groups(reader *r)
{
    char path[HERE], key[HERE];
    s2_weights first = S2_WEIGHTS_PUBLISHED;
    bool unlike = false, any = false;
    float bits = 0;
    r->targets.all = false;
    under(r, "config_groups", path);
    for (const char *group = NULL; (group = s2_doc_key(r->doc, path, group)) != NULL;) {
        take(r, S2_WEIGHTS_PUBLISHED, 0);
        snprintf(key, sizeof key, "config_groups/%.20s/weights", group);
        if (!has(r, key)) /* activations or the cache alone */
            continue;
        S2_TRY(read_group(r, group));
        unlike |= any && (r->net->stored != first || fabsf(r->net->stored_bits - bits) > 0);
        first = r->net->stored;
        bits = r->net->stored_bits;
        any = true;
        snprintf(key, sizeof key, "config_groups/%.20s/targets", group);
        S2_TRY(add_list(r, key, &r->targets));
    }
    if (!any) {
        if (!has(r, "sparsity_config")) /* what is left is whole */
            r->net->method[0] = '\0';
        return S2_OK;
    }
    take(r, first, bits);
    if (r->targets.n == 0)
        r->targets.all = true;
    const char *const packed = word(r, "format");
    if (strcmp(packed, "mxfp4-pack-quantized") == 0)
        take(r, S2_WEIGHTS_MXFP4, 0);
    if (strcmp(packed, "nvfp4-pack-quantized") == 0)
        take(r, S2_WEIGHTS_NVFP4, 0);
    if (unlike)
        take(r, S2_WEIGHTS_PUBLISHED, 0);
    return S2_OK;
}

/* modelopt and TensorRT-LLM: of their words those for whole weights in one type. */
static s2_status read_algo(reader *r)
{
    static const struct {
        const char *word;
        s2_weights stored;
    } rows[] = {{"FP8", S2_WEIGHTS_FP8},
                {"FP8_PB_WO", S2_WEIGHTS_FP8},
                {"FP8_PER_CHANNEL_PER_TOKEN", S2_WEIGHTS_FP8},
                {"FP8_BLOCK_SCALES", S2_WEIGHTS_FP8},
                {"NVFP4", S2_WEIGHTS_NVFP4},
                {"NVFP4_AWQ", S2_WEIGHTS_NVFP4},
                {"W4A16_NVFP4", S2_WEIGHTS_NVFP4},
                {"W4A16_MXFP4", S2_WEIGHTS_MXFP4},
                {"W4A8_MXFP4_FP8", S2_WEIGHTS_MXFP4},
                {"W8A16", S2_WEIGHTS_INT8},
                {"W4A16", S2_WEIGHTS_INT4},
                {"W4A16_AWQ", S2_WEIGHTS_INT4},
                {"W4A16_GPTQ", S2_WEIGHTS_INT4}};
    const char *const algo = word(r, "quant_algo");
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (strcmp(algo, rows[n].word) == 0)
            take(r, rows[n].stored, 0);
    if (r->net->stored == S2_WEIGHTS_INT4 && has(r, "group_size"))
        return read_groups(r);
    return S2_OK;
}

/* What a method means, and where it takes the head too unless its list names it. */
static const struct {
    const char *method;
    read_method read;
    bool takes_head;
} methods[] = {{"fp8", read_fp8, false},
               {"fbgemm_fp8", read_fp8, false},
               {"mxfp8", read_mxfp8, false},
               {"mxfp4", read_mxfp4, false},
               {"nvfp4", read_nvfp4, false},
               {"gptq", read_groups, false},
               {"awq", read_groups, false},
               {"auto-round", read_groups, false},
               {"bitsandbytes", read_bitsandbytes, false},
               {"hqq", read_hqq, false},
               {"quanto", read_weights_word, false},
               {"eetq", read_weights_word, false},
               {"fp_quant", read_forward_word, false},
               {"torchao", read_torchao, false},
               {"quark", read_quark, true},
               {"compressed-tensors", read_config_groups, true},
               {"modelopt", read_algo, true},
               {"modelopt_fp4", read_algo, true}};

/* ---- which modules */

/* Members of an object: AutoRound's layers with other bits, and GPTQ's, which begin with "-:" where they have none. */
static s2_status add_layers(reader *r, const char *key)
{
    char path[HERE], inner[HERE + 160];
    under(r, key, path);
    for (const char *name = NULL; (name = s2_doc_key(r->doc, path, name)) != NULL;) {
        int64_t n_bits;
        snprintf(inner, sizeof inner, "%s/%.150s/bits", path, name);
        S2_TRY(s2_doc_int_or(r->doc, inner, 1, 64, 0, &n_bits, r->diag));
        if (strncmp(name, "-:", 2) == 0)
            S2_TRY(s2_module_names_add_regex(&r->ignored, name + 2));
        else if (n_bits >= 16)
            S2_TRY(s2_module_names_add(&r->ignored, name));
        else
            r->ignored.unclear = true;
    }
    return S2_OK;
}

static s2_status read_ignored(reader *r)
{
    static const char *const keys[] = {
        "ignore",  "ignored_layers",        "modules_to_not_convert", "exclude_modules",
        "exclude", "llm_int8_skip_modules", "skip_modules",           "linear_weights_not_to_quantize"};
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
        S2_TRY(add_list(r, keys[n], &r->ignored));
    S2_TRY(add_layers(r, "dynamic"));
    return add_layers(r, "extra_config");
}

/* A method that takes the head too does so where its list does not name it. */
static s2_status read_head(reader *r, bool takes_head)
{
    bool packed;
    S2_TRY(flag(r, "lm_head", &packed));
    bool named = !takes_head || !r->targets.all;
    for (int32_t nth = 0; nth < r->ignored.n; nth++)
        named = named || strstr(r->ignored.names[nth].text, "lm_head") != NULL;
    r->net->kept[S2_PART_HEAD] = packed || !named ? 0 : 1;
    return S2_OK;
}

static void forget(reader *r)
{
    take(r, S2_WEIGHTS_PUBLISHED, 0);
    memset(r->net->kept, 0, sizeof r->net->kept);
}

static s2_status read_kept(reader *r, bool takes_head)
{
    const bool listed_by_type =
        r->net->stored == S2_WEIGHTS_MXFP4 && r->ignored.n == 0 && r->targets.n == 0 && !takes_head;
    if (!s2_kept_read(&r->targets, &r->ignored, r->net)) {
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
    s2_text_clean(r->net->method, sizeof r->net->method, method);
    r->targets = (s2_module_names){.arena = r->arena, .all = true};
    r->ignored = (s2_module_names){.arena = r->arena};
    forget(r);
    S2_TRY(read_cache(r));
    read_method read = has(r, "quant_algo") ? read_algo : NULL;
    for (size_t n = 0; n < sizeof methods / sizeof *methods; n++)
        if (strcmp(method, methods[n].method) == 0) {
            read = methods[n].read;
            takes_head = methods[n].takes_head;
        }
    if (read == NULL)
        return S2_OK;
    S2_TRY(read(r));
    if (r->net->stored == S2_WEIGHTS_PUBLISHED)
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
    const bool whole = s2_doc_is_null(doc, under(&r, "quant_algo", path)) || strcmp(method, "NO_QUANT") == 0;
    if (method[0] == '\0' && !whole) /* MLX writes bits and groups without a method */
        method = "an unnamed method";
    return whole ? read_cache(&r) : read_by(&r, method);
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
