#include "export/slip.h"

#include <stdio.h>
#include <string.h>

#include "export/asked.h"

s2_status s2_slip_refuse(const s2_source *source, const char *prefix, const char *const *names)
{
    for (; *names != NULL; names++) {
        char path[S2_ASKED_BYTES];
        int64_t none;
        snprintf(path, sizeof path, "%s/%s", prefix, *names);
        if (s2_doc_slip(source->doc, path) != NULL)
            return s2_doc_int(source->doc, path, 0, 0, &none,
                              source->diag); /* it is missing: refuses, and says what is there */
    }
    return S2_OK;
}

/* Each limits or chooses the keys of a query, where its value is not null, false, 0, empty or "full". */
static const char *const reading[] = {
    "sliding_window",       "sliding_window_size", "layer_types",
    "attention_chunk_size", "attention_window",    "blocksparse_vert_stride",
    "sparse_attention",     "sparse_config",       "sparse_attention_config",
    "index_topk",           "moba_topk",           "window_size"};

static bool says_full(const s2_doc *doc, const char *path)
{
    const int64_t n = s2_doc_len(doc, path);
    bool full = true;
    for (int64_t nth = 0; nth < n && full && s2_doc_is_array(doc, path); nth++) {
        char element[S2_ASKED_BYTES + 24];
        snprintf(element, sizeof element, "%s/%lld", path, (long long)nth);
        const char *const word = s2_doc_text(doc, element);
        full = word != NULL && strcmp(word, "full_attention") == 0;
    }
    return n == 0 || (s2_doc_is_array(doc, path) && full);
}

static bool is_off(const s2_doc *doc, const char *path)
{
    bool on = true;
    int64_t number = 1;
    s2_diag none;
    if (!s2_doc_has(doc, path) || says_full(doc, path))
        return true;
    if (s2_doc_bool_or(doc, path, true, &on, &none) == S2_OK)
        return !on;
    return s2_doc_int(doc, path, INT32_MIN, INT32_MAX, &number, &none) == S2_OK && number <= 0;
}

void s2_unread_say(const s2_source *source)
{
    static const char *const holders[] = {"", "/text_config"};
    s2_doc doc = *source->doc;
    doc.asked = NULL; /* looking for slips does not count as reading */
    for (size_t h = 0; h < sizeof holders / sizeof *holders; h++) {
        char use[S2_ASKED_BYTES];
        bool slides = true;
        s2_diag none;
        snprintf(use, sizeof use, "%s/use_sliding_window", holders[h]);
        if (s2_doc_bool_or(&doc, use, true, &slides, &none) != S2_OK)
            slides = true;
        for (size_t n = 0; n < sizeof reading / sizeof *reading; n++) {
            char path[S2_ASKED_BYTES];
            snprintf(path, sizeof path, "%s/%s", holders[h], reading[n]);
            const bool off = is_off(&doc, path) || (!slides && strncmp(reading[n], "sliding", 7) == 0);
            if (!off && !s2_asked_uses(source->doc->asked, path))
                s2_note(&source->said->warnings,
                        "\"%s\" is not read: what it makes of attention is not in the pattern", path + 1);
        }
    }
}

/* A name that is not known here may still be one of windows, as of code that comes with a model. */
static bool is_strange_window(const char *key)
{
    static const char *const known[] = {"use_sliding_window", "max_window_layers", "sliding_window_pattern",
                                        "_sliding_window_pattern", "window_attn_skip_freq"};
    if (strstr(key, "window") == NULL)
        return false;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (strcmp(key, known[n]) == 0)
            return false;
    for (size_t n = 0; n < sizeof reading / sizeof *reading; n++)
        if (strcmp(key, reading[n]) == 0)
            return false;
    return true;
}

void s2_windows_say(const s2_source *source)
{
    static const char *const holders[] = {"", "/text_config"};
    enum { MOST_SAID = 16 };
    s2_doc doc = *source->doc;
    int n_said = 0;
    doc.asked = NULL;
    for (size_t h = 0; h < sizeof holders / sizeof *holders; h++) {
        const char *key = NULL;
        while (n_said < MOST_SAID && (key = s2_doc_key(&doc, holders[h], key)) != NULL) {
            char path[S2_ASKED_BYTES];
            snprintf(path, sizeof path, "%s/%.60s", holders[h], key);
            if (!is_strange_window(key) || is_off(&doc, path) || s2_asked_uses(source->doc->asked, path))
                continue;
            s2_note(
                &source->said->warnings,
                "\"%.60s\" is not read: if it gives layers windows of their own, write them as rules in a "
                "pattern file (docs/pattern-language.md)",
                key);
            n_said++;
        }
    }
}

void s2_slips_say(const s2_source *source)
{
    const s2_asked *const asked = source->doc->asked;
    const int32_t n_asked = asked != NULL ? asked->n : 0; /* this function adds to it while it looks */
    for (int32_t nth = 0; nth < n_asked; nth++) {
        const char *const key = asked->found[nth] ? NULL : s2_doc_slip(source->doc, asked->path[nth]);
        if (key != NULL)
            s2_note(&source->said->warnings, "\"%.100s\" is not read; did you mean \"%s\"?", key,
                    strrchr(asked->path[nth], '/') + 1);
    }
}
