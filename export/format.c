#include "export/format.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern/parse.h"

#define S2_FORMAT_ADDRESS(id) &s2_format_##id,
static const s2_format *const formats[] = {S2_FORMAT_TABLE(S2_FORMAT_ADDRESS)};
#undef S2_FORMAT_ADDRESS
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

const s2_format *s2_format_at(int32_t n)
{
    return n >= 0 && n < N_FORMATS ? formats[n] : NULL;
}

const s2_format *s2_format_find(const char *name)
{
    for (int32_t n = 0; n < N_FORMATS; n++)
        if (strcmp(formats[n]->name, name) == 0)
            return formats[n];
    return NULL;
}

static const s2_format *recognise(const s2_source *source)
{
    const s2_format *best = NULL;
    int best_confidence = 0;
    for (int32_t n = 0; n < N_FORMATS; n++) {
        const int confidence = formats[n]->recognises != NULL ? formats[n]->recognises(source) : 0;
        if (confidence > best_confidence) {
            best = formats[n];
            best_confidence = confidence;
        }
    }
    return best;
}

/* Is key the first word of an item of the format's list? */
static bool knows_setting(const s2_format *format, const char *key)
{
    const size_t n = strlen(key);
    const char *at = format->settings != NULL ? format->settings : "";
    while (*at != '\0') {
        if (strncmp(at, key, n) == 0 && strchr(", ", at[n]) != NULL)
            return true;
        at += strcspn(at, ",");
        at += strspn(at, ", ");
    }
    return false;
}

static s2_status check_settings(const s2_format *format, const s2_settings *settings, s2_diag *diag)
{
    for (int32_t n = 0; n < settings->n; n++)
        if (!knows_setting(format, settings->list[n].key)) {
            const bool none = format->settings == NULL || format->settings[0] == '\0';
            return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "%s knows no --set %s; it takes %s",
                               format->name, settings->list[n].key, none ? "none" : format->settings);
        }
    return S2_OK;
}

/* No other kind of file, ours included, begins with a bracket. */
static bool starts_like_json(const s2_source *source)
{
    size_t at = 0;
    while (at < source->n_bytes && isspace((unsigned char)source->bytes[at]))
        at++;
    return at < source->n_bytes && (source->bytes[at] == '{' || source->bytes[at] == '[');
}

/* What a person can do about a file that no importer knows. */
static s2_status refuse_unknown(const s2_source *source, const char *name, const s2_diag *doc_diag)
{
    const char *const type = source->doc != NULL ? s2_model_type(source->doc, "") : NULL;
    s2_diag *const diag = source->diag;
    if (name != NULL)
        return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, doc_diag->line, doc_diag->col,
                           "there is no import of that name");
    if (doc_diag->line > 0)
        return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, doc_diag->line, doc_diag->col, "%s",
                           doc_diag->msg);
    if (type != NULL)
        return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, 0, 0,
                           "model_type %.40s says nothing of which keys are read; if every layer is full: "
                           "s2 import --from layers --set full-every=1",
                           type);
    return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, 0, 0,
                       "no format is known by this content (s2 import --list shows them)");
}

s2_status s2_import_run(s2_source *source, const char *name, const s2_format **used, s2_pattern *out)
{
    s2_doc doc = {0};
    s2_diag doc_diag = {0};
    const s2_status doc_status = s2_doc_parse(source->bytes, source->n_bytes, &doc, &doc_diag);
    if (doc_status == S2_ENOMEM)
        return S2_ENOMEM;
    if (doc_status == S2_EPARSE && starts_like_json(source)) {
        if (source->diag != NULL)
            *source->diag = doc_diag;
        return S2_EPARSE;
    }
    source->doc = doc_status == S2_OK ? &doc : NULL;
    const s2_format *const format = name != NULL ? s2_format_find(name) : recognise(source);
    s2_status status = S2_OK;
    if (format == NULL || format->import == NULL) {
        status = refuse_unknown(source, name, &doc_diag);
    } else if (source->doc == NULL && !format->reads_bytes) {
        status = s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, doc_diag.line, doc_diag.col, "%s",
                             doc_diag.msg);
    } else {
        status = check_settings(format, &source->settings, source->diag);
        if (status == S2_OK)
            status = format->import(source, out);
        if (status == S2_EPARSE && source->doc == NULL && doc_diag.line > 0 && source->diag != NULL &&
            source->diag->line == 0)
            *source->diag = doc_diag;
    }
    if (status == S2_OK && source->doc != NULL && doc.kind == S2_DOC_HJSON)
        s2_note(source->notes, "the file is not strict JSON: comments and names without quotes are read as "
                               "HJSON, single quotes as Python's");
    if (status == S2_OK)
        *used = format;
    if (source->doc != NULL)
        s2_doc_release(&doc);
    source->doc = NULL;
    return status;
}

static s2_status read_back(const s2_format *format, s2_target *target, s2_pattern *out)
{
    s2_buf notes = {0};
    s2_diag why = {0};
    s2_fileset side = {.arena = target->arena};
    const s2_file *const file = &target->files->files[0];
    s2_source source = {.arena = target->arena,
                        .name = file->name,
                        .bytes = file->bytes,
                        .n_bytes = file->n_bytes,
                        .finder = {.set = target->files},
                        .settings = target->settings,
                        .notes = &notes,
                        .side = &side,
                        .diag = &why};
    const s2_format *used = NULL;
    const s2_status status = s2_import_run(&source, format->name, &used, out);
    s2_buf_release(&notes);
    if (status == S2_OK || status == S2_ENOMEM)
        return status;
    return s2_diag_set(target->diag, S2_EINTERNAL, S2_CODE_FOREIGN, 0, 0,
                       "what was written for %s cannot be read back: line %d: %s", format->name, why.line,
                       why.msg);
}

s2_status s2_export_run(const s2_format *format, s2_target *target, s2_export_report *report)
{
    s2_export_report result = {0};
    s2_pattern again;
    if (format->export == NULL)
        return s2_target_refuse(target, "%s is read but not written", format->name);
    S2_TRY(check_settings(format, &target->settings, target->diag));
    S2_TRY(format->export(target));
    S2_TRY(read_back(format, target, &again));
    const s2_status status = s2_patterns_compare(
        target->pattern, &again, format->fixed_length ? target->n_tok : 0, &result.difference);
    if (status == S2_ELIMIT)
        return s2_diag_set(target->diag, status, S2_CODE_FOREIGN, 0, 0,
                           "not written: to compare it with the pattern takes more rows than are looked at; "
                           "fewer layers or heads, or a shorter --len");
    S2_TRY(status);
    if (result.difference.differs) {
        result.refused = !format->lossy || result.difference.what[0] != '\0';
        if (!result.refused) {
            S2_TRY(s2_patterns_loss(target->pattern, &again, target->n_tok, &result.loss));
            result.has_loss = true;
        }
    }
    *report = result;
    return S2_OK;
}

void s2_note(s2_buf *notes, const char *fmt, ...)
{
    char sentence[512], clean[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    s2_text_clean(clean, sizeof clean, sentence);
    s2_buf_puts(notes, clean);
    s2_buf_puts(notes, "\n");
}

const char *s2_setting_text(const s2_settings *settings, const char *key)
{
    for (int32_t n = 0; n < settings->n; n++)
        if (strcmp(settings->list[n].key, key) == 0)
            return settings->list[n].value;
    return NULL;
}

s2_status s2_setting_num(const s2_settings *settings, const char *key, double low, double high,
                         double fallback, double *out, s2_diag *diag)
{
    const char *const text = s2_setting_text(settings, key);
    if (text == NULL) {
        *out = fallback;
        return S2_OK;
    }
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low && value <= high))
        return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "--set %s must be a number from %.10g to %.10g", key, low, high);
    *out = value;
    return S2_OK;
}

s2_status s2_setting_int(const s2_settings *settings, const char *key, int64_t low, int64_t high,
                         int64_t fallback, int64_t *out, s2_diag *diag)
{
    double value;
    S2_TRY(s2_setting_num(settings, key, (double)low, (double)high, (double)fallback, &value, diag));
    if (value != floor(value))
        return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "--set %s must be a whole number", key);
    *out = (int64_t)value;
    return S2_OK;
}

s2_status s2_setting_block(const s2_settings *settings, int64_t fallback, int64_t *out, s2_diag *diag)
{
    int64_t block_tok = fallback;
    S2_TRY(s2_setting_int(settings, "block", 1, S2_LIMIT_BLOCK_TOK, fallback, &block_tok, diag));
    if ((block_tok & (block_tok - 1)) != 0)
        return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "--set block must be a power of two");
    *out = block_tok;
    return S2_OK;
}

void s2_language_name(s2_buf *text, const char *name)
{
    char word[64];
    size_t n = 0;
    for (const char *c = name; *c != '\0' && n + 1 < sizeof word; c++)
        if (isalnum((unsigned char)*c) || (n != 0 && strchr("._-", *c) != NULL))
            word[n++] = (char)tolower((unsigned char)*c);
    word[n] = '\0';
    char *const dot = strrchr(word, '.');
    if (dot != NULL && strlen(dot) <= 5)
        *dot = '\0';
    if (word[0] != '\0')
        s2_buf_printf(text, "name %s\n", word);
}

void s2_language_shape(s2_buf *text, int64_t n_layers, int64_t n_heads, int64_t n_kv_heads, int64_t head_dim,
                       int64_t block_tok)
{
    s2_buf_printf(text, "layers %lld\nheads %lld\nkv-heads %lld\n", (long long)n_layers, (long long)n_heads,
                  (long long)n_kv_heads);
    if (head_dim > 0)
        s2_buf_printf(text, "head-dim %lld\n", (long long)head_dim);
    s2_buf_printf(text, "block %lld\n", (long long)block_tok);
}

static void print_rule(s2_buf *text, const char *before, const char *axis, int32_t layer_begin,
                       int32_t layer_end, const uint16_t *roles, int32_t n_columns, uint16_t role,
                       const char *body)
{
    int32_t n = 0;
    for (int32_t column = 0; column < n_columns; column++)
        n += roles[column] == role;
    s2_buf_printf(text, "%slayers %d", before, layer_begin);
    if (layer_end > layer_begin + 1)
        s2_buf_printf(text, "-%d", layer_end - 1);
    if (n < n_columns) {
        s2_buf_printf(text, " %s ", axis);
        const char *comma = "";
        for (int32_t column = 0; column < n_columns; column++)
            if (roles[column] == role) {
                s2_buf_printf(text, "%s%d", comma, column);
                comma = ",";
            }
    }
    s2_buf_printf(text, ": %s\n", body);
}

void s2_language_roles(s2_buf *text, const char *before, const char *axis, int32_t n_layers,
                       int32_t n_columns, const uint16_t *role_of, const char *const *body, int32_t n_roles)
{
    for (int32_t begin = 0; begin < n_layers;) {
        const uint16_t *const roles = role_of + (int64_t)begin * n_columns;
        int32_t end = begin + 1;
        while (end < n_layers &&
               memcmp(roles, role_of + (int64_t)end * n_columns, (size_t)n_columns * sizeof *roles) == 0)
            end++;
        bool used[UINT16_MAX + 1] = {false};
        for (int32_t column = 0; column < n_columns; column++)
            used[roles[column]] = true;
        /* what is longer than a pattern may be is refused by the parser; it need not be printed in full */
        for (int32_t role = 0; role < n_roles && text->len <= S2_LIMIT_TEXT_BYTES; role++)
            if (used[role])
                print_rule(text, before, axis, begin, end, roles, n_columns, (uint16_t)role, body[role]);
        begin = end;
    }
}

s2_status s2_language_parse(const s2_source *source, s2_buf *text, s2_pattern *out)
{
    s2_status status = text->status;
    s2_diag why = {0};
    if (status == S2_OK)
        status = s2_pattern_parse(source->arena, text->data, text->len, NULL, out, &why);
    s2_buf_release(text);
    if (status == S2_EPARSE)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "it asks for what the language does not hold: %s", why.msg);
    return status;
}

s2_status s2_source_needs(const s2_source *source, bool known, const char *expected)
{
    if (source->doc != NULL && known)
        return S2_OK;
    return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, source->doc != NULL, source->doc != NULL,
                       "expected %s", expected);
}

s2_status s2_neighbour_refuse(const s2_source *source, const char *name, s2_status status)
{
    if (status != S2_EPARSE || source->diag == NULL)
        return status;
    const s2_diag there = *source->diag;
    return s2_diag_set(source->diag, status, there.code, 1, 1, "%.80s:%d:%d: %s", name, there.line, there.col,
                       there.msg);
}

s2_status s2_target_refuse(const s2_target *target, const char *fmt, ...)
{
    char msg[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    return s2_diag_set(target->diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, 0, 0, "%s", msg);
}

/* First of several spellings that the document has, under prefix; NULL when none is there. */
static const char *spelled(const s2_doc *doc, const char *prefix, const char *const *names, char *path,
                           size_t cap)
{
    for (; *names != NULL; names++) {
        snprintf(path, cap, "%s/%s", prefix, *names);
        if (s2_doc_has(doc, path))
            return path;
    }
    return NULL;
}

static s2_status shape_number(const s2_source *source, const char *prefix, const char *const *names,
                              const char *key, int64_t high, int64_t fallback, int64_t *out)
{
    char path[128];
    const bool stated = spelled(source->doc, prefix, names, path, sizeof path) != NULL;
    int64_t value = fallback;
    if (stated)
        S2_TRY(s2_doc_int(source->doc, path, 1, high, &value, source->diag));
    return s2_setting_int(&source->settings, key, 1, high, value, out, source->diag);
}

const char *s2_model_type(const s2_doc *doc, const char *prefix)
{
    char path[128];
    snprintf(path, sizeof path, "%s/model_type", prefix);
    return s2_doc_text(doc, path);
}

/* Shapes that configs leave to the code of their model_type; 0: as for all models. */
static s2_model_shape implied_shape(const s2_source *source, const char *prefix)
{
    static const struct {
        const char *model;
        s2_model_shape shape;
    } implied[] = {{"gemma3_text", {.n_heads = 8, .n_kv_heads = 4, .head_dim = 256}},
                   {"gemma2", {.head_dim = 256}},
                   {"gemma", {.head_dim = 256}}};
    const char *const model = s2_model_type(source->doc, prefix);
    for (size_t n = 0; model != NULL && n < sizeof implied / sizeof *implied; n++)
        if (strcmp(model, implied[n].model) == 0)
            return implied[n].shape;
    return (s2_model_shape){0};
}

bool s2_model_shape_is_implied(const s2_source *source, const char *prefix)
{
    return implied_shape(source, prefix).n_heads > 0;
}

s2_status s2_model_latent_read(const s2_source *source, const char *prefix, s2_model_shape *shape)
{
    int64_t latent, rotary;
    char latent_path[128], rotary_path[128];
    snprintf(latent_path, sizeof latent_path, "%s/kv_lora_rank", prefix);
    snprintf(rotary_path, sizeof rotary_path, "%s/qk_rope_head_dim", prefix);
    if (!s2_doc_has(source->doc, latent_path) || !s2_doc_has(source->doc, rotary_path))
        return S2_OK;
    S2_TRY(s2_doc_int(source->doc, latent_path, 2, S2_LIMIT_HEAD_DIM, &latent, source->diag));
    S2_TRY(s2_doc_int(source->doc, rotary_path, 0, S2_LIMIT_HEAD_DIM, &rotary, source->diag));
    shape->n_kv_heads = 1;
    shape->head_dim = (latent + rotary + 1) / 2;
    s2_note(source->notes,
            "MLA: a token's cache is a latent of %lld and a rotary key of %lld elements, written as one KV "
            "head of dimension %lld so that cache bytes are right",
            (long long)latent, (long long)rotary, (long long)shape->head_dim);
    return S2_OK;
}

s2_status s2_model_shape_read(const s2_source *source, const char *prefix, s2_model_shape *out)
{
    const s2_model_shape implied = implied_shape(source, prefix);
    static const char *const layers[] = {"num_hidden_layers", "n_layer", "num_layers", "n_layers", NULL};
    static const char *const heads[] = {"num_attention_heads", "n_head", "num_heads", "n_heads", NULL};
    static const char *const kv[] = {"num_key_value_heads", "num_kv_heads",     "kv_num_heads",
                                     "n_kv_heads",          "num_query_groups", NULL};
    static const char *const dim[] = {"head_dim", "attention_head_dim", "kv_channels", NULL};
    static const char *const hidden[] = {"hidden_size", "n_embd", NULL};
    s2_model_shape shape;
    int64_t n_hidden;
    S2_TRY(shape_number(source, prefix, layers, "layers", S2_LIMIT_LAYERS, 1, &shape.n_layers));
    S2_TRY(shape_number(source, prefix, heads, "heads", S2_LIMIT_HEADS, implied.n_heads, &shape.n_heads));
    if (shape.n_heads == 0) {
        char path[128];
        snprintf(path, sizeof path, "%s/num_attention_heads", prefix);
        return s2_doc_refuse(source->doc, path, source->diag,
                             "\"num_attention_heads\" is missing (or --set heads=N)");
    }
    const bool kv_implied = implied.n_kv_heads > 0 && shape.n_heads % implied.n_kv_heads == 0;
    const int64_t kv_fallback = kv_implied ? implied.n_kv_heads : shape.n_heads;
    S2_TRY(shape_number(source, prefix, kv, "kv-heads", shape.n_heads, kv_fallback, &shape.n_kv_heads));
    if (shape.n_heads % shape.n_kv_heads != 0)
        return s2_doc_refuse(source->doc, prefix, source->diag, "%lld KV heads do not divide %lld heads",
                             (long long)shape.n_kv_heads, (long long)shape.n_heads);
    S2_TRY(shape_number(source, prefix, hidden, "hidden", INT32_MAX, 0, &n_hidden));
    int64_t dim_fallback = implied.head_dim > 0 ? implied.head_dim : n_hidden / shape.n_heads;
    if (dim_fallback > S2_LIMIT_HEAD_DIM)
        dim_fallback = 0;
    S2_TRY(shape_number(source, prefix, dim, "head-dim", S2_LIMIT_HEAD_DIM, dim_fallback, &shape.head_dim));
    *out = shape;
    return S2_OK;
}

void s2_model_shape_print(s2_buf *buf, const s2_pattern *pattern, const char *indent)
{
    s2_buf_printf(buf, "%s\"num_hidden_layers\": %d,\n%s\"num_attention_heads\": %d,\n", indent,
                  pattern->n_layers, indent, pattern->n_heads);
    s2_buf_printf(buf, "%s\"num_key_value_heads\": %d,\n%s\"head_dim\": %d,\n", indent, pattern->n_kv_heads,
                  indent, pattern->head_dim);
}

void s2_provenance_print(s2_buf *buf, const s2_target *target, const char *indent)
{
    char hash[S2_HASH_HEX] = "";
    if (s2_pattern_hash(target->pattern, hash) != S2_OK)
        hash[0] = '\0';
    s2_buf_printf(buf, "%s\"s2\":", indent);
    s2_json_begin(buf, '{');
    s2_json_key(buf, "name");
    s2_json_str(buf, target->pattern->name);
    s2_json_key(buf, "hash");
    s2_json_str(buf, hash);
    s2_json_key(buf, "by");
    s2_json_str(buf, target->provenance);
    s2_json_key(buf, "run");
    s2_json_str(buf, target->run != NULL ? target->run : "");
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

/* Names and stored sentences are anybody's text: none of it may end the comment or string it stands in. */
static void put_inert(s2_buf *buf, const char *text)
{
    char before = '\0';
    for (; *text != '\0'; before = *text++) {
        const bool odd = *text < ' ' || *text > '~' || *text == '\\' || *text == '"' || *text == '\'' ||
                         (before == '*' && *text == '/') || (before == '/' && *text == '*');
        s2_buf_add(buf, odd ? "?" : text, 1);
    }
}

void s2_provenance_lines(s2_buf *buf, const s2_target *target, const char *before)
{
    char hash[S2_HASH_HEX] = "";
    const char *const lines[] = {target->provenance, target->run};
    if (s2_pattern_hash(target->pattern, hash) != S2_OK)
        hash[0] = '\0';
    s2_buf_printf(buf, "%spattern ", before);
    put_inert(buf, target->pattern->name);
    s2_buf_printf(buf, ", SHA-256 %s\n", hash);
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++)
        if (lines[n] != NULL && lines[n][0] != '\0') {
            s2_buf_puts(buf, before);
            put_inert(buf, lines[n]);
            s2_buf_puts(buf, "\n");
        }
}
