#include "export/registry.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/work.h"
#include "export/asked.h"
#include "export/model.h"
#include "export/origin.h"
#include "export/slip.h"
#include "pattern/parse.h"

/* The table: one row per format, in the order shown to people. */
#define S2_FORMAT_TABLE(X)                                                                                   \
    X(hf)                                                                                                    \
    X(vllm)                                                                                                  \
    X(trtllm)                                                                                                \
    X(dkernel)                                                                                               \
    X(megatron)                                                                                              \
    X(duo)                                                                                                   \
    X(layers)                                                                                                \
    X(minference)                                                                                            \
    X(moa)                                                                                                   \
    X(deepspeed)                                                                                             \
    X(longformer)                                                                                            \
    X(bigbird)                                                                                               \
    X(streamingllm)                                                                                          \
    X(h2o)                                                                                                   \
    X(quest)                                                                                                 \
    X(lserve)                                                                                                \
    X(snapkv)                                                                                                \
    X(pyramidkv)                                                                                             \
    X(headkv)                                                                                                \
    X(kvpress)                                                                                               \
    X(rocket)                                                                                                \
    X(doublesparse)                                                                                          \
    X(nsa)                                                                                                   \
    X(chosen)                                                                                                \
    X(dsa)                                                                                                   \
    X(csr)                                                                                                   \
    X(flashinfer)                                                                                            \
    X(flex)                                                                                                  \
    X(cute)                                                                                                  \
    X(bsa)                                                                                                   \
    X(npy)                                                                                                   \
    X(c)

#define S2_FORMAT_DECLARE(id) extern const s2_format s2_format_##id;
S2_FORMAT_TABLE(S2_FORMAT_DECLARE)
#undef S2_FORMAT_DECLARE

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
        if (s2_text_same_name(formats[n]->name, name) ||
            (formats[n]->also != NULL && s2_text_same_name(formats[n]->also, name)))
            return formats[n];
    return NULL;
}

const s2_format *s2_format_nearest(const char *word, int32_t *distance)
{
    const s2_format *nearest = NULL;
    *distance = S2_NAME_FAR;
    for (int32_t n = 0; n < N_FORMATS; n++) {
        const int32_t own = s2_text_name_distance(word, formats[n]->name);
        if (formats[n]->write == NULL || own >= *distance)
            continue;
        *distance = own;
        nearest = formats[n];
    }
    return nearest;
}

/* The pattern that s2.transformers.use() gave a model stands in its config, and is no format of anybody else's. */
static s2_status read_kept(const s2_source *source, s2_pattern *out)
{
    const char *const text = s2_doc_text(source->doc, "/s2_pattern");
    const s2_parse_options options = {.no_files = true};
    s2_diag why = {0};
    s2_note(source->notes,
            "its field s2_pattern is the pattern; what else the file says of attention is not read");
    const s2_status status = s2_pattern_parse(source->arena, text, strlen(text), &options, out, &why);
    return status == S2_OK
               ? S2_OK
               : s2_diag_set(source->diag, status, S2_CODE_FOREIGN, 1, 1, "\"s2_pattern\": %s", why.msg);
}

static const s2_format kept_in_config = {
    .name = "s2_pattern",
    .summary = "the pattern that s2.transformers.use() keeps in a model's config",
    .read = read_kept};

static const s2_format *recognise(const s2_source *source)
{
    if (source->doc != NULL && s2_doc_text(source->doc, "/s2_pattern") != NULL)
        return &kept_in_config;
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

/* Is `key` the first word of an item in the format's list? */
bool s2_format_takes(const s2_format *format, const char *key)
{
    const size_t n = strlen(key);
    const char *rest = format->settings != NULL ? format->settings : "";
    while (*rest != '\0') {
        if (strncmp(rest, key, n) == 0 && strchr(", ", rest[n]) != NULL)
            return true;
        rest += strcspn(rest, ",");
        rest += strspn(rest, ", ");
    }
    return false;
}

static const char *file_in(s2_arena *arena, const char *folder, const char *name)
{
    s2_buf path = {0};
    s2_buf_printf(&path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    const char *const found = path.status == S2_OK ? s2_arena_strndup(arena, path.data, path.len) : NULL;
    s2_buf_release(&path);
    return found != NULL && access(found, F_OK) == 0 ? found : NULL;
}

const char *s2_format_in_folder(s2_arena *arena, const char *folder, const s2_format *format)
{
    const char *found = NULL;
    for (int32_t n = 0; folder[0] != '\0' && s2_format_at(n) != NULL; n++) {
        const char *const name = s2_format_at(n)->file_name;
        const bool may = name != NULL && (format == NULL || s2_format_at(n) == format);
        const char *const other = may ? file_in(arena, folder, name) : NULL;
        if (other != NULL && (found == NULL || strcmp(s2_path_base(found), "config.json") == 0))
            found = other;
    }
    return found;
}

/* Leave the format only the settings that it takes: the others are meant for another format, or a mistake. */
static s2_status keep_settings(const s2_format *format, s2_arena *arena, s2_settings *settings, s2_diag *diag)
{
    s2_setting *const kept = S2_NEW(arena, s2_setting, settings->n + 1);
    int32_t n_kept = 0;
    if (kept == NULL)
        return S2_ENOMEM;
    for (int32_t n = 0; n < settings->n; n++) {
        if (s2_format_takes(format, settings->list[n].key)) {
            kept[n_kept++] = settings->list[n];
        } else if (!settings->list[n].optional) {
            const bool none = format->settings == NULL || format->settings[0] == '\0';
            const bool ranks = strcmp(settings->list[n].key, "tp") == 0;
            return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "%s knows no --set %s%s; it takes %s",
                               format->name, settings->list[n].key,
                               ranks ? ": its files are of all heads, however many GPUs share them" : "",
                               none ? "none" : format->settings);
        }
    }
    *settings = (s2_settings){kept, n_kept};
    return S2_OK;
}

/* No other kind of file, ours included, begins with a bracket. */
static bool starts_like_json(const s2_source *source)
{
    size_t byte = 0;
    while (byte < source->n_bytes && isspace((unsigned char)source->bytes[byte]))
        byte++;
    return byte < source->n_bytes && (source->bytes[byte] == '{' || source->bytes[byte] == '[');
}

/* What a person can do about a file that no importer knows. */
static s2_status refuse_unknown(const s2_source *source, const char *name, const s2_diag *doc_diag)
{
    s2_diag *const diag = source->diag;
    if (name != NULL) {
        int32_t distance;
        const s2_format *const near = s2_format_nearest(name, &distance);
        return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, doc_diag->line, doc_diag->col,
                           "there is no import of that name%s%s%s", near != NULL ? "; the nearest is " : "",
                           near != NULL ? near->name : "",
                           near != NULL && near->read == NULL ? ", which is only written" : "");
    }
    if (doc_diag->line > 0)
        return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, doc_diag->line, doc_diag->col, "%s",
                           doc_diag->msg);
    return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, 0, 0,
                       source->doc != NULL && s2_model_is_params(source->doc)
                           ? "a params.json is not read: name the config.json of the same model"
                           : "no known format has this content (s2 import --list shows them)");
}

/* A file that states shares of the length is another pattern at each, and no two designs have one name. */
static s2_status name_by_length(const s2_source *source, s2_pattern *out)
{
    char name[S2_LIMIT_NAME_BYTES + 1], length[24];
    if (source->said == NULL || source->said->of_tok == 0 || out->name[0] == '\0')
        return S2_OK;
    snprintf(length, sizeof length, "-%lld", (long long)source->said->of_tok);
    snprintf(name, sizeof name, "%.*s%s", (int)(S2_LIMIT_NAME_BYTES - strlen(length)), out->name, length);
    out->name = s2_arena_strndup(source->arena, name, strlen(name));
    return out->name != NULL ? S2_OK : S2_ENOMEM;
}

/* Read with one format, including what the file says besides the pattern. */
static s2_status read_as(const s2_format *format, const s2_source *source, s2_pattern *out)
{
    if (source->doc == NULL)
        return format->read(source, out);
    s2_asked_clear(source->doc->asked); /* forget what other formats looked for */
    S2_TRY(format->read(source, out));
    if (source->said != NULL)
        s2_slips_say(source);
    if (source->said != NULL &&
        format != &s2_format_layers) /* the rule for its model_type decides which keys count */
        s2_unread_say(source);
    if (source->said != NULL && format->read == s2_format_layers.read)
        s2_windows_say(source);
    S2_TRY(name_by_length(source, out));
    return s2_origin_apply(source, source->doc, out);
}

/* Whoever deploys a file has to know this as well as whoever reads it. */
static void note_stack(const s2_format *format, const s2_pattern *pattern, s2_buf *notes)
{
    const char *const differs = s2_format_differs(format, pattern);
    if (differs != NULL)
        s2_note(notes, "%s reads other pairs than this %s", format->stack, differs);
    if (format->keeps_all)
        s2_note(notes, "%s frees no page of the KV cache, whatever the pattern drops", format->stack);
}

/* A file is not read or written without the sentences that belong to it. */
static s2_status status_of_notes(const s2_buf *notes)
{
    return notes != NULL ? notes->status : S2_OK;
}

static s2_status read_file(s2_source *source, const char *name, const s2_format **used, s2_pattern *out)
{
    s2_doc doc = {0};
    s2_diag doc_diag = {0};
    S2_TRY(s2_finder_check(&source->finder, source->arena, source->diag));
    const char *const wrapped = s2_doc_wrapping(source->bytes, source->n_bytes);
    if (wrapped != NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "%s", wrapped);
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
    if (format == NULL || format->read == NULL) {
        status = refuse_unknown(source, name, &doc_diag);
        if (name == NULL && starts_like_json(source))
            status = S2_EPARSE; /* it is not a pattern's text either, which the caller would try next */
    } else if (source->doc == NULL && !format->reads_bytes) {
        status = s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, doc_diag.line, doc_diag.col, "%s",
                             doc_diag.msg);
    } else {
        status = keep_settings(format, source->arena, &source->settings, source->diag);
        if (status == S2_OK)
            status = read_as(format, source, out);
        if (status == S2_EPARSE && source->doc == NULL && doc_diag.line > 0 && source->diag != NULL &&
            source->diag->msg[0] == '\0')
            *source->diag = doc_diag;
    }
    if (status == S2_OK && source->doc != NULL && doc.kind == S2_DOC_HJSON)
        s2_note(source->notes, "the file is not strict JSON: comments and names without quotes are read as "
                               "HJSON, single quotes and Infinity as Python's");
    if (status == S2_OK)
        note_stack(format, out, source->notes);
    if (status == S2_OK)
        status = status_of_notes(source->notes);
    if (status == S2_OK && source->said != NULL)
        status = source->said->warnings.status;
    if (status == S2_OK)
        *used = format;
    else if (status != S2_EINVAL && source->diag != NULL && source->diag->line == 0)
        source->diag->line = source->diag->col = 1; /* a refusal of the whole file is reported at its start */
    if (source->doc != NULL)
        s2_doc_release(&doc);
    source->doc = NULL;
    return status;
}

/* Steps of its own for a task that was given none; what it was given. */
static int64_t *begin_work(int64_t **work_left, int64_t *own)
{
    int64_t *const given = *work_left;
    *own = S2_WORK_STEPS;
    *work_left = given != NULL ? given : own;
    return given;
}

/* Whether the task ended for want of steps; *work_left is what was given again. */
static bool ran_out_of_work(int64_t **work_left, int64_t *given, s2_status status)
{
    const bool ran_out = status == S2_ELIMIT && !s2_work_goes_on(*work_left);
    *work_left = given;
    return ran_out;
}

s2_status s2_import_run(s2_source *source, const char *name, const s2_format **used, s2_pattern *out)
{
    int64_t own, *const given = begin_work(&source->work_left, &own);
    const s2_status status = read_file(source, name, used, out);
    if (!ran_out_of_work(&source->work_left, given, status))
        return status;
    return s2_diag_set(source->diag, status, S2_CODE_FOREIGN, 1, 1,
                       "to compare the arrays with the pattern beside them takes more than " S2_WORK_WORDS
                       ": its heads differ in too much; take the pattern's own text");
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
                        .work_left = target->work_left,
                        .diag = &why};
    const s2_format *used = NULL;
    const s2_status status = s2_import_run(&source, format->name, &used, out);
    s2_buf_release(&notes);
    if (status == S2_OK || status == S2_ENOMEM || status == S2_ELIMIT)
        return status;
    return s2_diag_set(target->diag, S2_EINTERNAL, S2_CODE_FOREIGN, 0, 0,
                       "what was written for %s cannot be read back: line %d: %s", format->name, why.line,
                       why.msg);
}

static s2_status write_and_compare(const s2_format *format, s2_target *target, s2_export_report *report)
{
    s2_export_report result = {0};
    if (format->write == NULL)
        return s2_target_refuse(target, "%s is read but not written", format->name);
    S2_TRY(s2_pattern_require_alike(target->pattern, format->name, target->diag));
    S2_TRY(keep_settings(format, target->arena, &target->settings, target->diag));
    S2_TRY(format->write(target));
    if (format->model != NULL && !s2_pattern_is_of(target->pattern, format->model))
        s2_note(target->notes, "only the code of %s reads such a file: another model needs code of its own",
                format->model);
    note_stack(format, target->pattern, target->notes);
    S2_TRY(status_of_notes(target->notes));
    S2_TRY(read_back(format, target, &result.again));
    S2_TRY(s2_patterns_compare(target->pattern, &result.again, format->fixed_length ? target->n_tok : 0,
                               target->work_left, &result.difference));
    if (result.difference.differs) {
        result.refused = !format->lossy || result.difference.what[0] != '\0';
        if (!result.refused) {
            S2_TRY(s2_patterns_loss(target->pattern, &result.again, target->n_tok, target->work_left,
                                    &result.loss));
            result.has_loss = true;
        }
    }
    *report = result;
    return S2_OK;
}

s2_status s2_export_run(const s2_format *format, s2_target *target, s2_export_report *report)
{
    int64_t own, *const given = begin_work(&target->work_left, &own);
    const s2_status status = write_and_compare(format, target, report);
    if (!ran_out_of_work(&target->work_left, given, status))
        return status;
    return s2_diag_set(
        target->diag, status, S2_CODE_FOREIGN, 0, 0,
        "not written: to list what all heads read at %lld tokens, and to compare it with what was "
        "written, takes more than " S2_WORK_WORDS "; fewer layers or heads that differ, or a shorter --len",
        (long long)target->n_tok);
}
