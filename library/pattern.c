#include "library/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "coverage/answer.h"
#include "export/registry.h"
#include "pattern/dense.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "plan/plan.h"
#include "sim/share.h"
#include "words/findings.h"

/* ------------------------------------------------------------------ life */

s2_api_pattern *s2_handle_hold(const s2_api_pattern *pattern)
{
    s2_api_pattern *const own = (s2_api_pattern *)(uintptr_t)pattern; /* only the count changes, atomically */
    __atomic_fetch_add(&own->n_holders, 1, __ATOMIC_RELAXED);
    return own;
}

static void unload_masks(const s2_pattern *pattern)
{
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (term->mask != NULL)
            s2_mask_unload((s2_mask *)(uintptr_t)term->mask); /* in our own arena, which is released next */
}

void s2_api_pattern_close(s2_api_pattern *pattern)
{
    if (pattern == NULL || __atomic_fetch_sub(&pattern->n_holders, 1, __ATOMIC_ACQ_REL) != 1)
        return;
    if (pattern->reads_masks)
        unload_masks(&pattern->pattern);
    s2_arena_release(&pattern->arena);
    s2_free(pattern);
}

/* ------------------------------------------------------------------ reading */

/* The caller's arguments. */
typedef struct given {
    const char *text;
    size_t size;
    const char *path;
    const char *format;
    s2_settings settings;
} given;

static s2_status read_language(const given *in, s2_api_pattern *own, s2_diag *diag)
{
    if (in->settings.n > 0)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                           "settings: a text in the pattern language leaves nothing unsaid");
    const s2_parse_options options = {.dir = in->path != NULL ? s2_path_dir(&own->arena, in->path) : NULL,
                                      .no_files = in->path == NULL};
    own->reads_masks = in->path != NULL;
    return s2_pattern_parse(&own->arena, in->text, in->size, &options, &own->pattern, diag);
}

static s2_status read_foreign(const given *in, s2_api_pattern *own, s2_diag *diag)
{
    const s2_fileset none = {.arena = &own->arena};
    s2_fileset side = {.arena = &own->arena};
    s2_buf notes = {0};
    const s2_format *used;
    s2_source source = {.arena = &own->arena,
                        .name = in->path != NULL ? s2_path_title(&own->arena, in->path) : "",
                        .bytes = in->text,
                        .n_bytes = in->size,
                        .settings = in->settings,
                        .notes = &notes,
                        .side = &side,
                        .diag = diag};
    if (in->path == NULL)
        source.finder.set = &none;
    else
        source.finder = (s2_finder){.dir = s2_path_dir(&own->arena, in->path), .path = in->path};
    s2_status status = s2_import_run(&source, in->format, &used, &own->pattern);
    if (status == S2_OK && notes.len > 0) {
        own->notes = s2_arena_strndup(&own->arena, notes.data, notes.len);
        status = own->notes != NULL ? notes.status : S2_ENOMEM;
    }
    s2_buf_release(&notes);
    return status;
}

/* Text without a file is a configuration only if it begins with a bracket; no text in the language does. */
static bool is_language(const given *in)
{
    size_t byte = 0;
    if (in->format != NULL)
        return strcmp(in->format, "s2") == 0;
    while (byte < in->size && strchr(" \t\r\n", in->text[byte]) != NULL && in->text[byte] != '\0')
        byte++;
    return in->path == NULL && (byte == in->size || (in->text[byte] != '{' && in->text[byte] != '['));
}

static s2_status read_any(const given *in, s2_api_pattern *own, s2_diag *diag)
{
    if (is_language(in))
        return read_language(in, own, diag);
    s2_diag foreign = {0};
    const s2_status status = read_foreign(in, own, &foreign);
    if (status == S2_EUNSUPPORTED && in->format == NULL && in->path != NULL)
        return read_language(in, own, diag);
    *diag = foreign;
    if (in->format == NULL || s2_format_find(in->format) != NULL)
        return status;
    return s2_answer_names("format", status == S2_EUNSUPPORTED ? S2_EINVAL : status, diag);
}

static s2_status read_file(given *in, s2_api_pattern *own, s2_diag *diag)
{
    char *bytes = NULL;
    if (s2_file_is_folder(in->path)) {
        const s2_format *const format = in->format != NULL ? s2_format_find(in->format) : NULL;
        const char *const found = s2_format_in_folder(&own->arena, in->path, format);
        if (found == NULL)
            return s2_diag_set(diag, S2_EIO, 0, 0, 0, "%s: a folder without a file of %s", in->path,
                               format != NULL ? format->name : "any format");
        in->path = found;
    }
    const s2_status status = s2_bytes_read(&own->arena, in->path, S2_FILE_BYTES, &bytes, &in->size);
    in->text = bytes;
    if (status == S2_EIO)
        return s2_diag_set(diag, S2_EIO, 0, 0, 0, "%s: %s", in->path, s2_file_why(errno));
    if (status == S2_OK && in->size > S2_FILE_BYTES)
        return s2_diag_set(diag, S2_EIO, 0, 0, 0, "%s: larger than %zu MiB", in->path, S2_FILE_BYTES >> 20);
    return status;
}

/* "KEY=VALUE" each. */
static s2_status take_settings(const s2_api_source *source, s2_arena *arena, s2_settings *out, s2_diag *diag)
{
    s2_setting *const list = S2_NEW(arena, s2_setting, (size_t)source->n_settings + 1);
    if (list == NULL)
        return S2_ENOMEM;
    for (int32_t n = 0; n < source->n_settings; n++) {
        const char *const whole = source->settings[n], *const equals =
                                                           whole != NULL ? strchr(whole, '=') : NULL;
        if (equals == NULL || equals == whole)
            return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "settings: \"%.80s\" is not KEY=VALUE",
                               whole != NULL ? whole : "");
        list[n] = (s2_setting){.key = s2_arena_strndup(arena, whole, (size_t)(equals - whole)),
                               .value = s2_arena_strndup(arena, equals + 1, strlen(equals + 1))};
        if (list[n].key == NULL || list[n].value == NULL)
            return S2_ENOMEM;
    }
    *out = (s2_settings){list, source->n_settings};
    return S2_OK;
}

static s2_status read_source(const s2_api_source *source, s2_api_pattern *own, s2_diag *diag)
{
    given in = {.size = source->text_size, .path = source->path, .format = source->format};
    S2_TRY(take_settings(source, &own->arena, &in.settings, diag));
    if (source->text == NULL)
        S2_TRY(read_file(&in, own, diag));
    else
        in.text =
            s2_arena_strndup(&own->arena, source->text, in.size); /* NUL-terminated, as the readers require */
    return in.text != NULL ? read_any(&in, own, diag) : S2_ENOMEM;
}

int s2_api_pattern_read(const s2_api_source *source, s2_api_pattern **out, s2_api_error *why)
{
    S2_IN_C_LOCALE;
    s2_api_source own_source;
    s2_diag diag = {0};
    if (!s2_struct_in(&own_source, sizeof own_source, source))
        return s2_answer_argument(why, "source: NULL, or its size is not that of any s2_api_source");
    if (out == NULL)
        return s2_answer_argument(why, "out is NULL");
    if (own_source.text == NULL && own_source.path == NULL)
        return s2_answer_argument(why, "source: neither a text nor a path");
    if (own_source.n_settings < 0 || (own_source.n_settings > 0 && own_source.settings == NULL))
        return s2_answer_argument(why, "settings: NULL, or less than none");
    if (own_source.text != NULL && own_source.text_size > S2_FILE_BYTES)
        return s2_answer_argument(why, "size: a pattern's file has at most %zu bytes", S2_FILE_BYTES);
    s2_api_pattern *const own = s2_calloc(1, sizeof *own);
    if (own == NULL)
        return s2_answer(S2_ENOMEM, &diag, why);
    own->n_holders = 1;
    own->notes = "";
    const s2_status status = read_source(&own_source, own, &diag);
    if (status == S2_OK)
        *out = own;
    else
        s2_api_pattern_close(own);
    return s2_answer(status, &diag, why);
}

int s2_api_pattern_open(const char *text, size_t size, const char *path, const char *format,
                        s2_api_pattern **out, s2_api_error *why)
{
    const s2_api_source source = {
        .size = sizeof source, .text = text, .text_size = size, .path = path, .format = format};
    if (text == NULL)
        return s2_answer_argument(why, "text is NULL");
    return s2_api_pattern_read(&source, out, why);
}

/* ------------------------------------------------------------------ what it is */

int s2_api_pattern_shape(const s2_api_pattern *pattern, s2_api_shape *shape, s2_api_error *why)
{
    if (pattern == NULL)
        return s2_answer_argument(why, "pattern is NULL");
    S2_IN_C_LOCALE;
    const s2_pattern *const p = &pattern->pattern;
    const s2_diag none = {0};
    s2_api_shape own = {.layers = p->n_layers,
                        .heads = p->n_heads,
                        .kv_heads = p->n_kv_heads,
                        .head_dim = p->head_dim,
                        .block = p->block_tok,
                        .causal = p->causal,
                        .has_phases = s2_pattern_has_phases(p)};
    const int64_t limit = s2_pattern_limit_tok(p);
    own.limit_tok = limit == S2_OPEN ? 0 : limit;
    const s2_status status = s2_pattern_hash(p, own.hash);
    if (status != S2_OK)
        return s2_answer(status, &none, why);
    snprintf(own.name, sizeof own.name, "%s", p->name);
    if (!s2_struct_out(shape, &own, sizeof own))
        return s2_answer_argument(why, "shape: NULL, or its size is not that of any s2_api_shape");
    return S2_API_OK;
}

static int answer_in_words(const s2_api_pattern *pattern, bool notes, s2_api_text *out, s2_api_error *why)
{
    S2_IN_C_LOCALE;
    const s2_diag none = {0};
    s2_buf buf = {0};
    if (pattern == NULL || out == NULL)
        return s2_answer_argument(why, "%s is NULL", pattern == NULL ? "pattern" : "out");
    if (notes)
        s2_buf_puts(&buf, pattern->notes);
    else
        s2_pattern_print(&pattern->pattern, &buf);
    return s2_answer(s2_answer_text(&buf, out), &none, why);
}

int s2_api_pattern_text(const s2_api_pattern *pattern, s2_api_text *out, s2_api_error *why)
{
    return answer_in_words(pattern, false, out, why);
}

int s2_api_pattern_notes(const s2_api_pattern *pattern, s2_api_text *out, s2_api_error *why)
{
    return answer_in_words(pattern, true, out, why);
}

static const char *mask_fault(const s2_pattern *p, int phase, int32_t layer, int32_t head,
                              int64_t context_tok)
{
    if (phase != S2_API_PREFILL && phase != S2_API_DECODE)
        return "phase: neither prefill nor decode";
    if (layer < 0 || layer >= p->n_layers)
        return "layer: the pattern has no such layer";
    if (head < 0 || head >= p->n_heads)
        return "head: the pattern has no such head";
    if (context_tok < 1 || context_tok > S2_LIMIT_CONTEXT_TOK)
        return "context_tok: not a length of a context";
    return NULL;
}

int s2_api_pattern_mask(const s2_api_pattern *pattern, s2_api_phase phase, int32_t layer, int32_t head,
                        int64_t context_tok, int64_t query_begin, int64_t query_end, uint8_t *out,
                        s2_api_error *why)
{
    if (pattern == NULL || out == NULL)
        return s2_answer_argument(why, "%s is NULL", pattern == NULL ? "pattern" : "out");
    const s2_pattern *const p = &pattern->pattern;
    const char *const fault = mask_fault(p, (int)phase, layer, head, context_tok);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    if (query_begin < 0 || query_end < query_begin || query_end > context_tok)
        return s2_answer_argument(why, "query_begin, query_end: not a range of queries in this context");
    for (int64_t query = query_begin; query < query_end; query++)
        for (int64_t key = 0; key < context_tok; key++)
            *out++ = s2_pattern_reads(p, (s2_phase)phase, layer, head, context_tok, query, key);
    return S2_API_OK;
}

int s2_api_pattern_kinds(const s2_api_pattern *pattern, s2_api_phase phase, int32_t *kind_of,
                         s2_api_error *why)
{
    const s2_diag none = {0};
    const int32_t *layers;
    int32_t n_layers;
    s2_arena arena = {0};
    if (pattern == NULL || kind_of == NULL)
        return s2_answer_argument(why, "%s is NULL", pattern == NULL ? "pattern" : "kind_of");
    if (phase != S2_API_PREFILL && phase != S2_API_DECODE)
        return s2_answer_argument(why, "phase: neither prefill nor decode");
    const s2_status status =
        s2_plan_distinct_layers(&arena, &pattern->pattern, (s2_phase)phase, &layers, &n_layers, kind_of);
    s2_arena_release(&arena);
    return s2_answer(status, &none, why);
}

/* ------------------------------------------------------------------ one GPU's */

/* Whether each layer lists each KV head exactly once. */
static bool is_order(const int32_t *order, int32_t n_layers, int32_t n_kv_heads)
{
    for (int64_t place = 0; place < (int64_t)n_layers * n_kv_heads; place++) {
        const int64_t row = place / n_kv_heads * n_kv_heads;
        if (order[place] < 0 || order[place] >= n_kv_heads)
            return false;
        for (int64_t before = row; before < place; before++)
            if (order[before] == order[place])
                return false;
    }
    return true;
}

static s2_status check_share(const s2_pattern *whole, const s2_share_of *of, s2_diag *diag)
{
    s2_diag uneven = {0};
    const char *fault = NULL;
    if (s2_share_check(whole, of->n_ranks, &uneven) != S2_OK)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "ranks: %s", uneven.msg);
    if (of->rank < 0 || of->rank >= of->n_ranks)
        fault = "rank: there is no such rank";
    else if (of->layer_begin < 0 || of->layer_end > whole->n_layers || of->layer_begin >= of->layer_end)
        fault = "layer_begin, layer_end: not a range of the pattern's layers";
    else if (of->order != NULL && !is_order(of->order, of->layer_end - of->layer_begin, whole->n_kv_heads))
        fault = "order: must list each KV head once in each layer";
    return fault == NULL ? S2_OK : s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "%s", fault);
}

int s2_api_pattern_share(const s2_api_pattern *pattern, int32_t ranks, int32_t rank, int32_t layer_begin,
                         int32_t layer_end, const int32_t *order, s2_api_pattern **out, s2_api_error *why)
{
    const s2_share_of of = {ranks, rank, layer_begin, layer_end, order};
    if (pattern == NULL || out == NULL)
        return s2_answer_argument(why, "%s is NULL", pattern == NULL ? "pattern" : "out");
    S2_IN_C_LOCALE;
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_buf text = {0};
    s2_pattern share;
    s2_status status = check_share(&pattern->pattern, &of, &diag);
    if (status == S2_OK)
        status = s2_share_whole(&arena, &pattern->pattern, &of, &share);
    if (status == S2_EUNSUPPORTED)
        (void)s2_diag_set(&diag, status, 0, 0, 0,
                          "pattern: a share of masks, random lists or layers of different shapes is not a "
                          "pattern of its own");
    if (status == S2_OK) {
        s2_pattern_print(&share, &text);
        status = text.status;
    }
    s2_arena_release(&arena);
    const int code = status == S2_OK ? s2_api_pattern_open(text.data, text.len, NULL, "s2", out, why)
                                     : s2_answer(status, &diag, why);
    s2_buf_release(&text);
    return code;
}

/* ------------------------------------------------------------------ what it guarantees */

/* The only argument that may not fit is that of ranks:N. */
static s2_status refuse_ranks(const s2_pattern *p, const s2_requirement *asked, int32_t n, s2_diag *diag)
{
    int32_t uneven = 0;
    while (uneven < n - 1 && (asked[uneven].property != S2_RANKS || p->n_heads % asked[uneven].arg == 0))
        uneven++;
    return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                       "properties: ranks:%d: the number of GPUs must divide the %d heads", asked[uneven].arg,
                       p->n_heads);
}

static s2_status decide(const s2_pattern *p, const char *properties, int64_t context_tok, s2_arena *arena,
                        s2_verdict *verdict, s2_buf *json, s2_diag *diag)
{
    s2_requirement asked[S2_MOST_REQUIREMENTS];
    s2_finding findings[S2_MOST_REQUIREMENTS];
    int32_t n = 0;
    S2_TRY(s2_answer_names("properties", s2_requirements_parse(properties, asked, &n, diag), diag));
    const int64_t n_tok = context_tok > 0 ? context_tok : S2_OPEN;
    const s2_prove_options options = {.n_tok = n_tok};
    const s2_status status = s2_prove(arena, p, asked, n, &options, findings);
    if (status == S2_EINVAL)
        return refuse_ranks(p, asked, n, diag);
    S2_TRY(status);
    *verdict = s2_findings_verdict(findings, n);
    return s2_findings_json(p, p->name, findings, n, s2_prove_scope(p, n_tok), json);
}

int s2_api_pattern_check(const s2_api_pattern *pattern, const char *properties, int64_t context_tok,
                         s2_api_verdict *verdict, s2_api_text *json, s2_api_error *why)
{
    if (pattern == NULL || properties == NULL || verdict == NULL)
        return s2_answer_argument(why, "pattern, properties or verdict is NULL");
    if (context_tok < 0 || context_tok > S2_LIMIT_CONTEXT_TOK)
        return s2_answer_argument(why, "context_tok: not a length of a context");
    S2_IN_C_LOCALE;
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_buf buf = {0};
    s2_verdict found = S2_UNKNOWN;
    s2_status status = decide(&pattern->pattern, properties, context_tok, &arena, &found, &buf, &diag);
    if (status == S2_OK && json != NULL)
        status = s2_answer_text(&buf, json);
    else
        s2_buf_release(&buf);
    s2_arena_release(&arena);
    if (status == S2_OK)
        *verdict = (s2_api_verdict)found;
    return s2_answer(status, &diag, why);
}
