#include "export/restriction.h"

#include <stdio.h>

#include "base/arith.h"

/* Formats of a fixed length are tried with at most this many tokens; what they refuse does not change. */
enum { WRITTEN_TOK = 4096 };

void s2_restriction_of(const s2_format *format, int64_t len_tok, int32_t n_ranks, s2_restriction *out)
{
    *out = (s2_restriction){.n_formats = format != NULL,
                            .formats = {format},
                            .n_dense_layers = S2_RESTRICT_ANY,
                            .n_tok = s2_min_i64(len_tok, WRITTEN_TOK),
                            .n_ranks = n_ranks};
}

const s2_format *s2_restriction_keeper(const s2_restriction *restriction)
{
    for (int32_t n = 0; n < restriction->n_formats; n++)
        if (restriction->formats[n]->keeps_all)
            return restriction->formats[n];
    return NULL;
}

bool s2_restriction_restricts(const s2_restriction *restriction)
{
    return restriction->n_formats > 0 || restriction->n_dense_layers != S2_RESTRICT_ANY;
}

static int64_t count_dense_layers(const s2_pattern *pattern)
{
    int64_t n = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        n += s2_pattern_is_dense(pattern, S2_PREFILL, layer);
    return n;
}

/* Whether the format, written and read back, has the same pairs; a lossy one would be another pattern. */
static s2_status can_write(const s2_restriction *restriction, const s2_format *format,
                           const s2_pattern *pattern, s2_diag *diag, bool *can)
{
    s2_arena arena = {0};
    s2_buf notes = {0};
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", restriction->n_ranks);
    const s2_setting tp = {.key = "tp", .value = ranks, .optional = true};
    s2_fileset files = {.arena = &arena};
    s2_export_report report = {0};
    s2_target target = {.arena = &arena,
                        .pattern = pattern,
                        .n_tok = restriction->n_tok,
                        .provenance = "",
                        .run = "",
                        .notes = &notes,
                        .files = &files,
                        .settings = {&tp, restriction->n_ranks > 1 ? 1 : 0},
                        .diag = diag};
    const s2_status status = s2_export_run(format, &target, &report);
    *can = status == S2_OK && !report.refused && !report.difference.differs;
    if (!*can && diag->msg[0] == '\0')
        (void)s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0,
                          "%s: what is written reads other pairs than the pattern", format->name);
    s2_buf_release(&notes);
    s2_arena_release(&arena);
    return status == S2_ENOMEM ? status : S2_OK;
}

s2_status s2_restriction_accepts(const void *user, const s2_pattern *pattern, bool *accepted)
{
    const s2_restriction *const restriction = user;
    bool good = restriction->n_dense_layers == S2_RESTRICT_ANY ||
                restriction->n_dense_layers == count_dense_layers(pattern);
    for (int32_t n = 0; n < restriction->n_formats && good; n++)
        S2_TRY(can_write(restriction, restriction->formats[n], pattern, &(s2_diag){0}, &good));
    *accepted = good;
    return S2_OK;
}

s2_status s2_restriction_refusal(const s2_restriction *restriction, const s2_pattern *pattern, s2_diag *diag)
{
    bool good = true;
    if (restriction->n_dense_layers != S2_RESTRICT_ANY &&
        restriction->n_dense_layers != count_dense_layers(pattern))
        (void)s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "%lld of its layers are dense, not %lld",
                          (long long)count_dense_layers(pattern), (long long)restriction->n_dense_layers);
    for (int32_t n = 0; n < restriction->n_formats && good && diag->msg[0] == '\0'; n++)
        S2_TRY(can_write(restriction, restriction->formats[n], pattern, diag, &good));
    return S2_OK;
}
