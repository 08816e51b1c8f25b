/*
 * DuoAttention: full_attention_heads.tsv (a score per layer and KV head) with config.json next to it. LServe
 * and KVPress read the same table. A KV head with a score at or above the quantile of the wanted
 * sparsity is dense, the others keep a sink and a recent window.
 */
#include "export/format.h"
#include "export/model.h"
#include "export/origin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

#define TABLE_NAME "full_attention_heads.tsv"

typedef struct table {
    double *score; /* [layer][kv head], clipped to [0, 1] */
    int32_t n_layers;
    int32_t n_kv;
} table;

static s2_status table_refuse(const s2_source *source, int32_t line, size_t col, const char *msg)
{
    return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, line, (int32_t)col + 1, "%s", msg);
}

/* A single KV head leaves one column and no tab. No other kind of file has a first line of numbers alone. */
static bool looks_like_table(const char *bytes, size_t n_bytes)
{
    size_t byte = 0;
    bool digit = false;
    while (byte < n_bytes && bytes[byte] != '\n') {
        if (strchr("0123456789+-.eE\t\r ", bytes[byte]) == NULL || bytes[byte] == '\0')
            return false;
        digit |= bytes[byte] >= '0' && bytes[byte] <= '9';
        byte++;
    }
    return digit;
}

/* One line of numbers; *n: how many. */
static s2_status read_line(const s2_source *source, const char *line, size_t n_bytes, int32_t line_no,
                           double *out, int32_t cap, int32_t *n)
{
    size_t byte = 0;
    *n = 0;
    while (byte < n_bytes) {
        char word[64], *end;
        const char *const tab = memchr(line + byte, '\t', n_bytes - byte);
        const size_t len = tab != NULL ? (size_t)(tab - line) - byte : n_bytes - byte;
        if (len == 0 || len >= sizeof word)
            return table_refuse(source, line_no, byte, "expected a number");
        memcpy(word, line + byte, len);
        word[len] = '\0';
        const double value = strtod(word, &end);
        if (end == word || *end != '\0' || !isfinite(value))
            return table_refuse(source, line_no, byte, "expected a number");
        if (*n == cap)
            return table_refuse(source, line_no, byte, "too many columns");
        out[(*n)++] = s2_clamp_f64(value, 0, 1);
        byte += len + (tab != NULL);
    }
    return S2_OK;
}

static s2_status read_table(const s2_source *source, const char *bytes, size_t n_bytes, table *out)
{
    enum { MOST = S2_LIMIT_LAYERS * (S2_LIMIT_HEADS / 16) };
    /* a number and its separator take at least two bytes */
    const int32_t cap = n_bytes / 2 < MOST ? (int32_t)(n_bytes / 2) + 1 : MOST;
    table result = {.score = S2_NEW(source->arena, double, cap)};
    int32_t line_no = 0, used = 0;
    if (result.score == NULL)
        return S2_ENOMEM;
    for (size_t byte = 0; byte < n_bytes;) {
        size_t len;
        const char *const line = s2_text_line(bytes, n_bytes, &byte, &len);
        line_no++;
        if (len != 0 && line[len - 1] == '\r')
            len--;
        if (len == 0 && byte >= n_bytes)
            break;
        int32_t n = 0;
        S2_TRY(read_line(source, line, len, line_no, result.score + used, cap - used, &n));
        if (n == 0 || (result.n_kv != 0 && n != result.n_kv) || result.n_layers == S2_LIMIT_LAYERS)
            return table_refuse(source, line_no, 0, "every line must have the same number of columns");
        result.n_kv = n;
        result.n_layers++;
        used += n;
    }
    if (result.n_layers == 0)
        return table_refuse(source, 1, 0, "the table is empty");
    *out = result;
    return S2_OK;
}

/* ---- which heads are dense --------------------------------------------------------------------- */

/* NumPy's linear quantile. */
static double quantile(const double *sorted, int32_t n, double share)
{
    const double rank = share * (n - 1);
    const int32_t below = (int32_t)floor(rank);
    const int32_t above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (rank - below);
}

/* KVPress: round(heads * sparsity) heads of the lowest scores stream. */
static s2_status choose_as_kvpress(const s2_source *source, const table *scores, const double *sorted,
                                   double sparsity, uint16_t *role)
{
    const int32_t n = scores->n_layers * scores->n_kv, n_streaming = (int32_t)rint(n * sparsity);
    const double edge = n_streaming > 0 ? sorted[n_streaming - 1] : -1;
    int32_t n_below = 0;
    for (int32_t at = 0; at < n; at++)
        n_below += scores->score[at] < edge;
    int32_t ties_left = n_streaming - n_below;
    for (int32_t at = 0; at < n; at++)
        role[at] = scores->score[at] < edge || (scores->score[at] == edge && ties_left-- > 0);
    s2_note(source->notes,
            "roles by KVPress's rule: the %d lowest of %d scores stream, among equal ones the lowest layers "
            "and heads first (upstream's sort leaves that open); it masks, and frees no memory",
            n_streaming, n);
    return S2_OK;
}

static bool is_by_kvpress(const s2_source *source)
{
    const char *const rule = s2_setting_text(&source->settings, "rule");
    return rule != NULL && strcmp(rule, "kvpress") == 0;
}

static s2_status choose_roles(const s2_source *source, const table *scores, double sparsity, uint16_t *role)
{
    const int32_t n = scores->n_layers * scores->n_kv;
    double *const sorted = S2_NEW(source->arena, double, n);
    if (sorted == NULL)
        return S2_ENOMEM;
    memcpy(sorted, scores->score, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, s2_compare_f64);
    if (is_by_kvpress(source))
        return choose_as_kvpress(source, scores, sorted, sparsity, role);
    const char *const rule = s2_setting_text(&source->settings, "rule");
    if (rule != NULL && strcmp(rule, "duo") != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "--set rule must be duo or kvpress");
    const double threshold = quantile(sorted, n, sparsity);
    const char *const tie = s2_setting_text(&source->settings, "tie");
    const bool first = tie == NULL || strcmp(tie, "first") == 0;
    if (!first && strcmp(tie, "all") != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "--set tie must be all or first");
    int32_t n_full = 0, n_above = 0, n_ties = 0;
    for (int32_t at = 0; at < n; at++) {
        n_above += scores->score[at] > threshold;
        n_ties += scores->score[at] == threshold;
    }
    /* scores that differ, as upstream's noise ensures, leave this many at or above their quantile */
    int32_t ties_left = first ? n - (int32_t)ceil(sparsity * (n - 1)) - n_above : n_ties;
    for (int32_t head = 0; head < n; head++) {
        const bool tied = scores->score[head] == threshold;
        bool full = scores->score[head] > threshold || (tied && ties_left-- > 0);
        full = sparsity <= 0 || (full && sparsity < 1);
        role[head] = full ? 0 : 1;
        n_full += full;
    }
    s2_note(source->notes,
            "roles: full when the score, clipped to [0, 1], is at or above the linear quantile %s = %s: %d "
            "of %d KV heads are dense",
            s2_decimal(sparsity, 6).text, s2_decimal(threshold, 6).text, n_full, n);
    if (n_ties > 1)
        s2_note(source->notes,
                "ties: %d heads score exactly the threshold; upstream breaks ties with random noise, here %s "
                "(--set tie=%s)",
                n_ties, first ? "the lowest layers and heads become dense first" : "all of them are dense",
                first ? "all" : "first");
    return S2_OK;
}

/* ---- the config next to it --------------------------------------------------------------------- */

typedef struct deployment {
    double sparsity;
    int64_t sink_tok, recent_tok, chunk_tok;
    int64_t n_heads, head_dim;
    const char *model;
} deployment;

/* Query heads of the published models; their tables count KV heads only. */
static int64_t known_heads(const char *model)
{
    static const struct {
        const char *part;
        int64_t n_heads;
    } models[] = {{"Llama-2-7B", 32},
                  {"Llama-3-8B", 32},
                  {"Llama-3.1-8B", 32},
                  {"Mistral-7B", 32},
                  {"Mixtral-8x7B", 32}};
    for (size_t n = 0; model != NULL && n < sizeof models / sizeof *models; n++)
        if (strstr(model, models[n].part) != NULL)
            return models[n].n_heads;
    return 0;
}

static s2_status read_config(const s2_source *source, const s2_doc *doc, deployment *out)
{
    S2_TRY(s2_doc_int_or(doc, "/sink_size", 1, S2_LIMIT_CONTEXT_TOK, out->sink_tok, &out->sink_tok,
                         source->diag));
    S2_TRY(s2_doc_int_or(doc, "/recent_size", 1, S2_LIMIT_CONTEXT_TOK, out->recent_tok, &out->recent_tok,
                         source->diag));
    if (s2_doc_has(doc, "/sparsity"))
        S2_TRY(s2_doc_num(doc, "/sparsity", 0, 1, &out->sparsity, source->diag));
    const char *const model = s2_doc_text(doc, "/model_name");
    out->model = model != NULL ? s2_arena_strndup(source->arena, model, strlen(model)) : NULL;
    out->n_heads = known_heads(out->model);
    if (s2_doc_has(doc, "/num_attention_heads"))
        S2_TRY(s2_doc_int(doc, "/num_attention_heads", 1, S2_LIMIT_HEADS, &out->n_heads, source->diag));
    return s2_doc_int_or(doc, "/head_dim", 1, S2_LIMIT_HEAD_DIM, 128, &out->head_dim, source->diag);
}

static s2_status read_neighbour_config(const s2_source *source, const char *dir, deployment *out)
{
    char name[1024];
    s2_file file;
    s2_doc doc;
    snprintf(name, sizeof name, "%s%sconfig.json", dir, dir[0] != '\0' ? "/" : "");
    if (s2_finder_read(&source->finder, source->arena, name, S2_DOC_BYTES, &file, NULL) != S2_OK) {
        s2_note(source->notes, "there is no config.json beside the table: sink and recent tokens are those "
                               "of the published evaluation");
        return S2_OK;
    }
    s2_status status = s2_doc_parse(file.bytes, file.n_bytes, &doc, source->diag);
    if (status == S2_OK) {
        status = read_config(source, &doc, out);
        s2_doc_release(&doc);
    }
    return s2_neighbour_refuse(source, name, status);
}

static s2_status read_neighbour_table(const s2_source *source, const char *name, table *out)
{
    s2_file file;
    S2_TRY(s2_finder_read(&source->finder, source->arena, name, S2_DOC_BYTES, &file, source->diag));
    return s2_neighbour_refuse(source, name, read_table(source, file.bytes, file.n_bytes, out));
}

static s2_status apply_settings(const s2_source *source, const table *scores, deployment *out)
{
    const s2_settings *const set = &source->settings;
    if (out->n_heads == 0) {
        out->n_heads = scores->n_kv;
        if (s2_setting_text(set, "heads") == NULL)
            s2_note(source->notes,
                    "the table counts KV heads only; %d query heads are assumed (--set heads=N)",
                    scores->n_kv);
    }
    S2_TRY(s2_setting_num(set, "sparsity", 0, 1, out->sparsity, &out->sparsity, source->diag));
    S2_TRY(s2_setting_int(set, "sink", 1, S2_LIMIT_CONTEXT_TOK, out->sink_tok, &out->sink_tok, source->diag));
    S2_TRY(s2_setting_int(set, "recent", 1, S2_LIMIT_CONTEXT_TOK, out->recent_tok, &out->recent_tok,
                          source->diag));
    S2_TRY(s2_setting_int(set, "chunk", 0, S2_LIMIT_CONTEXT_TOK, 0, &out->chunk_tok, source->diag));
    S2_TRY(s2_setting_int(set, "heads", scores->n_kv, S2_LIMIT_HEADS, out->n_heads, &out->n_heads,
                          source->diag));
    if (out->n_heads < scores->n_kv || out->n_heads % scores->n_kv != 0)
        return table_refuse(source, 1, 0, "the number of columns does not divide the query heads");
    s2_note(source->notes,
            "streaming heads: sink %lld, recent %lld tokens, by sink_size and recent_size of config.json "
            "unless --set says otherwise; the published evaluation passes 64 and 256 (--set sink=, recent=)",
            (long long)out->sink_tok, (long long)out->recent_tok);
    if (out->chunk_tok == 0)
        s2_note(source->notes, "prefill in chunks is not modelled: upstream's first chunk is dense for every "
                               "head (--set chunk=N)");
    return S2_OK;
}

/*
 * Chunked prefill of a streaming head: the first chunk is dense, a later one sees itself and what the cache
 * held at its start. The window before a chunk does not move with the query, so it is a range of keys.
 */
static void chunked_body(const deployment *deploy, s2_buf *body)
{
    enum { MOST_CHUNKS = 64 };
    const int64_t chunk = deploy->chunk_tok;
    s2_buf_printf(body, "chunk %lldt | sink %lldt", (long long)chunk, (long long)deploy->sink_tok);
    for (int64_t c = 1; c < MOST_CHUNKS; c++) {
        const int64_t begin = s2_max_i64(c * chunk - deploy->recent_tok, 0);
        s2_buf_printf(body, " | dense when key %lldt..%lldt & query %lldt..%lldt", (long long)begin,
                      (long long)(c * chunk), (long long)(c * chunk), (long long)((c + 1) * chunk));
        if ((c + 1) * chunk > S2_LIMIT_CONTEXT_TOK / 2)
            break;
    }
}

static s2_status build(const s2_source *source, const table *scores, deployment *deploy, s2_pattern *out)
{
    uint16_t *const role = S2_NEW(source->arena, uint16_t, scores->n_layers * scores->n_kv);
    s2_buf text = {0}, body = {0}, prefill = {0};
    if (role == NULL)
        return S2_ENOMEM;
    S2_TRY(apply_settings(source, scores, deploy));
    S2_TRY(choose_roles(source, scores, deploy->sparsity, role));
    s2_buf_printf(&body, "sink %lldt | local %lldt", (long long)deploy->sink_tok,
                  (long long)deploy->recent_tok);
    s2_language_name(&text, deploy->model != NULL ? s2_path_base(deploy->model) : source->name);
    s2_language_shape(&text, scores->n_layers, deploy->n_heads, scores->n_kv, deploy->head_dim, 64);
    const char *const bodies[] = {"dense", s2_part_of(&text, &body)};
    s2_language_roles(&text, deploy->chunk_tok > 0 ? "decode " : "", "kv", scores->n_layers, scores->n_kv,
                      role, bodies, 2);
    if (deploy->chunk_tok > 0) {
        chunked_body(deploy, &prefill);
        const char *const chunked[] = {"dense", s2_part_of(&text, &prefill)};
        s2_language_roles(&text, "prefill ", "kv", scores->n_layers, scores->n_kv, role, chunked, 2);
        s2_note(source->notes, "prefill: chunks of %lld tokens, written out for the first 63 chunks",
                (long long)deploy->chunk_tok);
    }
    s2_buf_release(&prefill);
    s2_buf_release(&body);
    return s2_language_parse(source, &text, out);
}

/* ---- the three ways in -------------------------------------------------------------------------- */

/* A git symlink may be stored as a file whose one line is a path. */
static bool link_text(const s2_source *source, char *path, size_t cap)
{
    size_t n = source->n_bytes;
    while (n != 0 && (source->bytes[n - 1] == '\n' || source->bytes[n - 1] == '\r'))
        n--;
    if (n == 0 || n >= cap || memchr(source->bytes, '\n', n) != NULL ||
        memchr(source->bytes, '\t', n) != NULL || memchr(source->bytes, '\0', n) != NULL)
        return false;
    memcpy(path, source->bytes, n);
    path[n] = '\0';
    return strstr(path, "lr=") != NULL || strstr(path, TABLE_NAME) != NULL;
}

static s2_status import_link(const s2_source *source, char *path, deployment *deploy, s2_pattern *out)
{
    table scores;
    char name[1024];
    static const char config[] = "/config.json";
    size_t n = strlen(path);
    if (n >= sizeof config &&
        strcmp(path + n - (sizeof config - 1), config) == 0) /* the table is next to it */
        path[n -= sizeof config - 1] = '\0';
    const bool is_table = n > 4 && strcmp(path + n - 4, ".tsv") == 0;
    snprintf(name, sizeof name, "%.900s%s", path, is_table ? "" : "/" TABLE_NAME);
    s2_note(source->notes, "the file is the text of a symbolic link; %s is read instead", name);
    S2_TRY(read_neighbour_table(source, name, &scores));
    char *const slash = strrchr(name, '/');
    if (slash != NULL)
        *slash = '\0';
    S2_TRY(read_neighbour_config(source, slash != NULL ? name : "", deploy));
    return build(source, &scores, deploy, out);
}

static bool is_config(const s2_source *source)
{
    return source->doc != NULL && source->doc->kind != S2_DOC_SETTINGS &&
           s2_doc_has(source->doc, "/sink_size") && s2_doc_has(source->doc, "/recent_size");
}

static s2_status import_config(const s2_source *source, deployment *deploy, s2_pattern *out)
{
    s2_file file;
    table scores;
    const s2_status status =
        s2_finder_read(&source->finder, source->arena, TABLE_NAME, S2_DOC_BYTES, &file, source->diag);
    if (status == S2_EIO)
        return s2_doc_refuse(
            source->doc, "/sink_size", source->diag,
            "the config says how many tokens a streaming head keeps; which heads stream is in " TABLE_NAME
            ", and that is not beside it");
    S2_TRY(status);
    S2_TRY(read_config(source, source->doc, deploy));
    S2_TRY(s2_neighbour_refuse(source, TABLE_NAME, read_table(source, file.bytes, file.n_bytes, &scores)));
    return build(source, &scores, deploy, out);
}

/* The table has no room for provenance; the config next to it has that of both. */
static s2_status name_by_config(const s2_source *source, s2_pattern *pattern)
{
    s2_file file;
    s2_doc doc;
    s2_status status =
        s2_finder_read(&source->finder, source->arena, "config.json", S2_DOC_BYTES, &file, NULL);
    if (status != S2_OK)
        return status == S2_ENOMEM ? status : S2_OK;
    S2_TRY(s2_doc_parse(file.bytes, file.n_bytes, &doc, source->diag));
    status = s2_origin_apply(source, &doc, pattern);
    s2_doc_release(&doc);
    return status;
}

static int recognises(const s2_source *source)
{
    char path[900];
    if (is_config(source))
        return 90;
    if (link_text(source, path, sizeof path))
        return 80;
    return looks_like_table(source->bytes, source->n_bytes) ? 80 : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    char path[900];
    table scores;
    /* KVPress reads the sizes that all published configs have */
    deployment deploy = {
        .sparsity = 0.5, .sink_tok = is_by_kvpress(source) ? 128 : 64, .recent_tok = 256, .head_dim = 128};
    if (is_config(source))
        return import_config(source, &deploy, out);
    if (link_text(source, path, sizeof path))
        return import_link(source, path, &deploy, out);
    S2_TRY(read_table(source, source->bytes, source->n_bytes, &scores));
    S2_TRY(read_neighbour_config(source, "", &deploy));
    S2_TRY(build(source, &scores, &deploy, out));
    return name_by_config(source, out);
}

/* ---- out ---------------------------------------------------------------------------------------- */

/* sink and local in tokens of a streaming body; false for any other body. */
static bool streaming_form(const s2_pattern *pattern, const s2_body *body, int64_t *sink_tok,
                           int64_t *recent_tok)
{
    if (body->n_terms != 2)
        return false;
    *sink_tok = *recent_tok = 0;
    for (int t = 0; t < 2; t++) {
        const s2_term *const term = &body->terms[t];
        if (term->kind == S2_TERM_SINK)
            *sink_tok = term->n * (term->tok ? 1 : pattern->block_tok);
        else if (term->kind == S2_TERM_LOCAL && term->tok)
            *recent_tok = term->n;
    }
    return *sink_tok > 0 && *recent_tok > 0;
}

static s2_status print_scores(const s2_target *target, s2_buf *table_text, deployment *deploy,
                              int32_t *n_streaming)
{
    const s2_pattern *const pattern = target->pattern;
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        for (int32_t kv = 0; kv < pattern->n_kv_heads; kv++) {
            const s2_body *const body =
                &pattern->bodies[s2_pattern_body(pattern, S2_DECODE, layer, kv * group)];
            int64_t sink_tok, recent_tok;
            const bool streams = streaming_form(pattern, body, &sink_tok, &recent_tok);
            if (!streams && !s2_body_is_dense(body))
                return s2_target_refuse(
                    target, "layer %d KV head %d is neither dense nor sink and recent tokens", layer, kv);
            if (streams) {
                deploy->sink_tok = deploy->sink_tok != 0 ? deploy->sink_tok : sink_tok;
                deploy->recent_tok = deploy->recent_tok != 0 ? deploy->recent_tok : recent_tok;
                ++*n_streaming;
            }
            s2_buf_printf(table_text, "%s%.18e", kv != 0 ? "\t" : "", streams ? 0.0 : 1.0);
            if (kv + 1 == pattern->n_kv_heads)
                s2_buf_puts(table_text, "\n");
        }
    return S2_OK;
}

static s2_status export(const s2_target *target)
{
    const s2_pattern *const pattern = target->pattern;
    s2_buf table_text = {0}, config = {0};
    deployment deploy = {0};
    int32_t n_streaming = 0;
    const s2_status status = print_scores(target, &table_text, &deploy, &n_streaming);
    if (status != S2_OK) {
        s2_buf_release(&table_text);
        return status;
    }
    const double sparsity = (double)n_streaming / ((double)pattern->n_layers * pattern->n_kv_heads);
    s2_buf_printf(&config, "{\n  \"model_name\": ");
    s2_buf_puts(&config, "null,\n");
    s2_model_shape_print(&config, pattern, "  ");
    s2_buf_printf(&config, "  \"sink_size\": %lld,\n  \"recent_size\": %lld,\n",
                  (long long)(deploy.sink_tok != 0 ? deploy.sink_tok : 64),
                  (long long)(deploy.recent_tok != 0 ? deploy.recent_tok : 256));
    s2_buf_printf(&config, "  \"sparsity\": %.17g,\n", sparsity);
    s2_provenance_print(&config, target, "  ");
    s2_buf_puts(&config, "}\n");
    s2_note(target->notes,
            "scores are 0 and 1: the quantile at sparsity %s lies strictly between them, so the loader's "
            "random noise cannot change a role",
            s2_decimal(sparsity, 6).text);
    const s2_status table_status = s2_fileset_add_buf(target->files, TABLE_NAME, &table_text);
    const s2_status config_status = s2_fileset_add_buf(target->files, "config.json", &config);
    return table_status != S2_OK ? table_status : config_status;
}

const s2_format s2_format_duo = {
    .name = "duo",
    .summary = "DuoAttention full_attention_heads.tsv and config.json (LServe, KVPress)",
    .file_name = TABLE_NAME,
    .settings = "rule duo|kvpress (duo), sparsity (0.5), sink (64), recent (256), tie all|first (first), "
                "heads, chunk (0: none)",
    .reads_bytes = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
