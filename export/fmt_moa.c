/*
 * MoA: {"alphas": [[per head] per layer], "betas": the same}. The window of a head grows with the length N:
 * width = alpha + beta * N, at least 128 and at most N, rounded up to 64. The language has no window that
 * grows, so one N is imported (--set len=N).
 */
#include "export/format.h"

#include <math.h>
#include <stdio.h>

#include "base/arith.h"

enum { SINK_TOK = 64, LEAST_TOK = 128, ROUND_TOK = 64, DEFAULT_TOK = 8192 };

static int recognises(const s2_source *source)
{
    return source->doc != NULL && s2_doc_is_array(source->doc, "/alphas") &&
                   s2_doc_is_array(source->doc, "/betas")
               ? 95
               : 0;
}

static int64_t width_of(double alpha, double beta, int64_t n_tok)
{
    double width = trunc(alpha + beta * (double)n_tok); /* MoA truncates first */
    width = s2_max_f64(LEAST_TOK, width);
    width = ceil(width / ROUND_TOK) * ROUND_TOK;
    return width > (double)n_tok ? n_tok : (int64_t)width;
}

static s2_status read_entry(const s2_source *source, const char *list, int64_t layer, int64_t head,
                            double *out)
{
    char path[96];
    snprintf(path, sizeof path, "/%s/%lld/%lld", list, (long long)layer, (long long)head);
    return s2_doc_num(source->doc, path, -0x1p24, 0x1p24, out, source->diag);
}

static s2_status check_rows(const s2_source *source, const char *list, int64_t n_layers, int64_t n_heads)
{
    char path[96];
    snprintf(path, sizeof path, "/%s", list);
    if (s2_doc_len(source->doc, path) != n_layers)
        return s2_doc_refuse(source->doc, path, source->diag, "alphas and betas must have the same layers");
    for (int64_t layer = 0; layer < n_layers; layer++) {
        snprintf(path, sizeof path, "/%s/%lld", list, (long long)layer);
        if (!s2_doc_is_array(source->doc, path) || s2_doc_len(source->doc, path) != n_heads)
            return s2_doc_refuse(source->doc, path, source->diag, "layer %lld must list %lld heads",
                                 (long long)layer, (long long)n_heads);
    }
    return S2_OK;
}

/* Roles are distinct widths in units of ROUND_TOK; role 0 is dense. */
static s2_status read_widths(const s2_source *source, int64_t n_layers, int64_t n_heads, int64_t n_tok,
                             uint16_t *role, double *mean_share)
{
    double sum = 0;
    for (int64_t layer = 0; layer < n_layers; layer++)
        for (int64_t head = 0; head < n_heads; head++) {
            double alpha, beta;
            S2_TRY(read_entry(source, "alphas", layer, head, &alpha));
            S2_TRY(read_entry(source, "betas", layer, head, &beta));
            const int64_t width = width_of(alpha, beta, n_tok);
            sum += (double)width / (double)n_tok;
            role[layer * n_heads + head] = width >= n_tok ? 0 : (uint16_t)(width / ROUND_TOK);
        }
    *mean_share = sum / (double)(n_layers * n_heads);
    return S2_OK;
}

static s2_status role_bodies(const s2_source *source, const uint16_t *role, int64_t n, bool inside,
                             const char ***out, int32_t *n_roles)
{
    int32_t highest = 0;
    for (int64_t at = 0; at < n; at++)
        highest = s2_max_i32(role[at], highest);
    const char **const body = S2_NEW(source->arena, const char *, highest + 1);
    if (body == NULL)
        return S2_ENOMEM;
    body[0] = "dense";
    for (int32_t rounds = 1; rounds <= highest; rounds++) {
        char text[64];
        const int n_bytes = snprintf(text, sizeof text, "sink %dt | local %dt", SINK_TOK,
                                     rounds * ROUND_TOK - (inside ? SINK_TOK : 0));
        body[rounds] = s2_arena_strndup(source->arena, text, (size_t)n_bytes);
        if (body[rounds] == NULL)
            return S2_ENOMEM;
    }
    *out = body;
    *n_roles = highest + 1;
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t n_tok, head_dim, inside;
    double mean_share;
    const char **bodies;
    int32_t n_roles;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "{\"alphas\": [...], \"betas\": [...]}"));
    const int64_t n_layers = s2_doc_len(source->doc, "/alphas"),
                  n_heads = s2_doc_len(source->doc, "/alphas/0");
    if (n_layers < 1 || n_layers > S2_LIMIT_LAYERS || n_heads < 1 || n_heads > S2_LIMIT_HEADS)
        return s2_doc_refuse(source->doc, "/alphas", source->diag, "expected 1 to %d layers of 1 to %d heads",
                             S2_LIMIT_LAYERS, S2_LIMIT_HEADS);
    S2_TRY(check_rows(source, "alphas", n_layers, n_heads));
    S2_TRY(check_rows(source, "betas", n_layers, n_heads));
    S2_TRY(s2_setting_len(source, LEAST_TOK, 1 << 21, DEFAULT_TOK, &n_tok));
    S2_TRY(s2_setting_int(&source->settings, "head-dim", 1, S2_LIMIT_HEAD_DIM, 128, &head_dim, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "sink-inside", 0, 1, 1, &inside, source->diag));
    uint16_t *const role = S2_NEW(source->arena, uint16_t, n_layers * n_heads);
    if (role == NULL)
        return S2_ENOMEM;
    S2_TRY(read_widths(source, n_layers, n_heads, n_tok, role, &mean_share));
    S2_TRY(role_bodies(source, role, n_layers * n_heads, inside != 0, &bodies, &n_roles));
    s2_language_name(&text, source->name);
    s2_language_shape(&text, n_layers, n_heads, n_heads, head_dim, ROUND_TOK);
    s2_language_roles(&text, "", "heads", (int32_t)n_layers, (int32_t)n_heads, role, bodies, n_roles);
    s2_note(source->notes,
            "widths are those of N = %lld tokens, prompt and new ones together (--set len=N): mean width "
            "%.4f of N",
            (long long)n_tok, mean_share);
    s2_note(source->notes,
            inside != 0 ? "the %d sink tokens are counted inside the width, as MoA's cache does; its mask "
                          "generator puts them outside (--set sink-inside=0)"
                        : "the %d sink tokens are outside the width, as MoA's mask generator has them",
            SINK_TOK);
    s2_note(source->notes, "the file counts query heads only: MoA expands grouped KV heads first");
    return s2_language_parse(source, &text, out);
}

const s2_format s2_format_moa = {
    .name = "moa",
    .summary = "MoA elastic windows (moa_alpha_beta.json)",
    .file_name = "moa_alpha_beta.json",
    .settings = "len (8192), sink-inside 0|1 (1), head-dim (128)",
    .recognises = recognises,
    .read = import,
};
