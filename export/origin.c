#include "export/origin.h"

#include <stdio.h>
#include <string.h>

#include <sha2.h>

#include "pattern/models.h"
#include "pattern/parse.h"

static bool is_model(const char *name)
{
    const s2_model *const model = s2_model_find(name, strlen(name));
    return model != NULL && strcmp(model->net.name, name) == 0;
}

/*
 * Rename the pattern through its text, so that neither name can add to what the text says; where that has another
 * hash, *same is false. model may be NULL.
 */
static s2_status rename_as(const s2_source *source, s2_pattern *pattern, const char *name, const char *model,
                           const char *hash, bool *same)
{
    const s2_parse_options options = {.no_files = true};
    s2_pattern named = *pattern, read;
    s2_buf text = {0};
    char own[S2_HASH_HEX];
    s2_diag diag;
    named.name = name;
    if (model != NULL && is_model(model))
        named.model = model;
    s2_pattern_print(&named, &text);
    s2_status status = text.status;
    if (status == S2_OK)
        status = s2_pattern_parse(source->arena, text.data, text.len, &options, &read, &diag);
    if (status == S2_OK)
        status = s2_pattern_hash(&read, own);
    s2_buf_release(&text);
    if (status == S2_ENOMEM)
        return status;
    *same = status == S2_OK && strcmp(own, hash) == 0;
    if (*same)
        *pattern = read;
    return S2_OK;
}

#define CHANGED "the file was changed after s2 wrote it"
#define STANDS  "it is read as it stands, and no proof or run that it tells of is of that"

static void say_changed(const s2_source *source, const char *name, const char *hash, bool is_sure)
{
    char clean[2][100];
    s2_text_clean(clean[0], sizeof clean[0], name);
    s2_text_clean(clean[1], 13, hash);
    s2_note(&source->said->warnings,
            "%s: what it holds no longer has the hash %s that it states%s%s; " STANDS,
            is_sure ? CHANGED : "the file may have been changed after s2 wrote it", clean[1],
            clean[0][0] != '\0' ? " of " : "", clean[0]);
}

/* Warn of a changed number that is not the pattern's, such as the longest context. */
static void say_edited(const s2_source *source, const char *name)
{
    char clean[100];
    s2_text_clean(clean, sizeof clean, name);
    s2_note(&source->said->warnings,
            "%s, but still says the pattern%s%s: what else it says, such as the longest context, is no "
            "longer what s2 wrote",
            CHANGED, clean[0] != '\0' ? " of " : "", clean);
}

s2_status s2_origin_apply(const s2_source *source, const s2_doc *doc, s2_pattern *pattern)
{
    const char *const name = s2_doc_text(doc, "/s2/name"), *const hash = s2_doc_text(doc, "/s2/hash");
    const char *const contents = s2_doc_text(doc, "/s2/contents"), *const model =
                                                                       s2_doc_text(doc, "/s2/model");
    char now[S2_DOC_HASH];
    bool is_same;
    if (name == NULL || hash == NULL)
        return S2_OK;
    S2_TRY(s2_doc_hash(doc, now));
    S2_TRY(rename_as(source, pattern, name, model, hash, &is_same));
    const bool is_changed = contents != NULL && strcmp(now, contents) != 0;
    if (is_same && is_changed && source->said != NULL)
        say_edited(source, name);
    if (!is_same && (contents == NULL || is_changed) && source->said != NULL)
        say_changed(source, name, hash, contents != NULL);
    return S2_OK;
}

/* ---- files that are not configurations ----------------------------------------------------------- */

#define SEAL "what follows this comment has the SHA-256 "

static void hash_bytes(const char *bytes, size_t n_bytes, char hex[S2_HASH_HEX])
{
    SHA2_CTX state;
    SHA256Init(&state);
    SHA256Update(&state, (const uint8_t *)bytes, n_bytes);
    SHA256End(&state, hex);
}

void s2_origin_seal(s2_buf *buf, const char *before, const char *covered, size_t n_bytes)
{
    char hex[S2_HASH_HEX];
    hash_bytes(covered, n_bytes, hex);
    s2_buf_printf(buf, "%s" SEAL "%s\n", before, hex);
}

void s2_origin_check_seal(const s2_source *source, const char *comment_end)
{
    char hex[S2_HASH_HEX];
    const char *const end = source->bytes + source->n_bytes;
    const char *const close = memmem(source->bytes, source->n_bytes, comment_end, strlen(comment_end));
    const char *const seal =
        close != NULL ? memmem(source->bytes, (size_t)(close - source->bytes), SEAL, strlen(SEAL)) : NULL;
    if (seal == NULL || source->said == NULL)
        return;
    const char *const covered = close + strlen(comment_end), *const stated = seal + strlen(SEAL);
    hash_bytes(covered, (size_t)(end - covered), hex);
    if ((size_t)(close - stated) < S2_HASH_HEX - 1 || memcmp(stated, hex, S2_HASH_HEX - 1) != 0)
        s2_note(&source->said->warnings, CHANGED "; " STANDS);
}
