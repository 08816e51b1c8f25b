#include "library/internal.h"

#include <string.h>

#include "base/file.h"
#include "coverage/prove.h"
#include "export/registry.h"
#include "pattern/parse.h"
#include "words/difference.h"

/* One line for the file's header: the verdicts for every length. */
static const char *provenance(s2_arena *arena, const s2_pattern *pattern)
{
    static const s2_requirement asked[] = {{S2_ROWS, 0, true}, {S2_UNION, 0, true}, {S2_KV, 0, true}};
    enum { N_ASKED = sizeof asked / sizeof asked[0] };
    const s2_prove_options options = {.n_tok = S2_OPEN};
    s2_finding findings[N_ASKED];
    s2_buf words = {0};
    s2_buf_puts(&words, "libs2");
    if (s2_prove(arena, pattern, asked, N_ASKED, &options, findings) == S2_OK)
        for (int32_t n = 0; n < N_ASKED; n++)
            s2_buf_printf(&words, "%s %s %s", n == 0 ? ":" : ",", s2_property_word(asked[n].property),
                          s2_verdict_word(findings[n].verdict));
    const char *const kept = words.status == S2_OK ? s2_arena_strndup(arena, words.data, words.len) : NULL;
    s2_buf_release(&words);
    return kept != NULL ? kept : "";
}

static s2_status write_set(s2_arena *arena, const s2_fileset *files, const char *path, s2_diag *diag)
{
    if (files->n_files > 1)
        return s2_fileset_write(files, path, diag);
    s2_buf inside = {0};
    s2_buf_puts(&inside, path);
    if (s2_file_is_folder(path))
        s2_buf_printf(&inside, "/%s", files->files[0].name);
    const char *const target =
        inside.status == S2_OK ? s2_arena_strndup(arena, inside.data, inside.len) : NULL;
    s2_buf_release(&inside);
    return target != NULL ? s2_file_write(target, files->files[0].bytes, files->files[0].n_bytes, diag)
                          : S2_ENOMEM;
}

static s2_status write_foreign(s2_target *target, const char *name, const char *path, s2_diag *diag)
{
    const s2_format *const format = s2_format_find(name);
    s2_export_report report = {0};
    if (format == NULL || format->write == NULL) {
        int32_t distance;
        const s2_format *const near = s2_format_nearest(name, &distance);
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "format: nothing of this name can be written%s%s",
                           near != NULL ? "; the nearest is " : "", near != NULL ? near->name : "");
    }
    S2_TRY(s2_export_run(format, target, &report));
    if (report.refused) {
        s2_buf words = {0};
        s2_difference_print(&report.difference, "the pattern", format->name, &words);
        const s2_status status =
            s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "format: %s",
                        words.data != NULL ? words.data : "it would not read the same pairs");
        s2_buf_release(&words);
        return status;
    }
    return write_set(target->arena, target->files, path, diag);
}

static s2_status write_language(const s2_pattern *pattern, const char *path, s2_diag *diag)
{
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    const s2_status status =
        text.status == S2_OK ? s2_file_write(path, text.data, text.len, diag) : text.status;
    s2_buf_release(&text);
    return status;
}

int s2_api_pattern_write(const s2_api_pattern *pattern, const char *format, int64_t context_tok,
                         const char *path, s2_api_text *notes, s2_api_error *why)
{
    if (pattern == NULL || format == NULL || path == NULL)
        return s2_answer_argument(why, "pattern, format or path is NULL");
    if (context_tok < 1 || context_tok > S2_LIMIT_CONTEXT_TOK)
        return s2_answer_argument(why, "context_tok: not a length of a context");
    S2_IN_C_LOCALE;
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_buf said = {0};
    s2_fileset files = {.arena = &arena};
    s2_target target = {.arena = &arena,
                        .pattern = &pattern->pattern,
                        .n_tok = context_tok,
                        .provenance = provenance(&arena, &pattern->pattern),
                        .run = "",
                        .notes = &said,
                        .files = &files,
                        .diag = &diag};
    const bool own = strcmp(format, "s2") == 0;
    s2_status status =
        own ? write_language(&pattern->pattern, path, &diag) : write_foreign(&target, format, path, &diag);
    if (status == S2_OK && notes != NULL)
        status = s2_answer_text(&said, notes);
    else
        s2_buf_release(&said);
    s2_arena_release(&arena);
    return s2_answer(status, &diag, why);
}

int s2_api_formats(s2_api_text *out, s2_api_error *why)
{
    const s2_diag none = {0};
    s2_buf buf = {0};
    if (out == NULL)
        return s2_answer_argument(why, "out is NULL");
    s2_buf_puts(&buf, "s2\tread write\tthe pattern language\n");
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        s2_buf_printf(&buf, "%s\t%s%s%s\t%s\n", format->name, format->read != NULL ? "read" : "",
                      format->read != NULL && format->write != NULL ? " " : "",
                      format->write != NULL ? "write" : "", format->summary);
    }
    return s2_answer(s2_answer_text(&buf, out), &none, why);
}
