#include "coverage/certificate.h"

#include "pattern/parse.h"
#include "pattern/view.h"

/* What s2cert takes: steps of its definition, a few seconds of them, and terms. */
static const double MOST_STEPS = 2e9;
enum { MOST_CLAIMS = 16, MOST_TERMS = 60000 };

static s2_status check_findings(const s2_finding *findings, int32_t n, s2_diag *diag)
{
    if (n > MOST_CLAIMS)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "more than %d claims", MOST_CLAIMS);
    for (int32_t f = 0; f < n; f++) {
        const char *const word = s2_property_word(findings[f].requirement.property);
        if (findings[f].verdict != S2_HOLDS || findings[f].scope_tok != S2_OPEN)
            return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "%s is not proved for every length", word);
    }
    return S2_OK;
}

static s2_status check_terms(const s2_pattern *pattern, int64_t *n_terms, s2_diag *diag)
{
    *n_terms = 0;
    for (int32_t body = 0; body < pattern->n_bodies; body++) {
        for (int32_t t = 0; t < pattern->bodies[body].n_terms; t++) {
            const s2_term *const term = &pattern->bodies[body].terms[t];
            *n_terms += 1 + term->list.n_spans;
            if (s2_term_is_dynamic(term) || term->kind == S2_TERM_RANDOM || term->kind == S2_TERM_MASK)
                return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "a certificate cannot speak of `%s`",
                                   s2_term_word(term->kind));
        }
    }
    if (*n_terms > MOST_TERMS)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "more than %d terms", MOST_TERMS);
    return S2_OK;
}

/*
 * s2cert visits, in each layer, threshold + period keys with reach + period queries each, for all heads; for
 * shards a second time, up to where no shared window can end. Of a pattern that is not causal, reach + period
 * more of each.
 */
static s2_status check_size(s2_arena *arena, const s2_pattern *pattern, int64_t n_terms, bool shards,
                            s2_diag *diag)
{
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    for (int32_t phase = 0; phase < S2_N_PHASES; phase++) {
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
                s2_view view;
                const s2_arena_mark_t mark = s2_arena_mark(arena);
                S2_TRY(s2_view_build(arena, pattern, (s2_phase)phase, layer, head, S2_AT_LEAST, &view));
                s2_view_shape_add(&shape, &view);
                s2_arena_rewind(arena, mark);
            }
        }
    }
    const int64_t period = s2_period_lcm(shape.key_period, shape.query_period);
    const double unit = shape.block_aligned ? pattern->block_tok : 1;
    const double far =
        pattern->causal ? 0 : (double)shape.reach + (double)period; /* keys after their query */
    const double columns = ((double)shape.threshold + (double)period + far) / unit + 1;
    const double once = ((double)shape.threshold + (double)shape.reach + (double)period + far) / unit + 2;
    const double column = shards ? 3 * once + 1 : once;
    const double heads = 2.0 * pattern->n_heads * pattern->n_layers;
    const double terms = (double)n_terms / pattern->n_bodies + 1;
    if (period == S2_OPEN || columns * column * heads * terms > MOST_STEPS)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0,
                           "s2cert would take too long to check this pattern");
    return S2_OK;
}

static void put_claim(const s2_requirement *requirement, s2_buf *buf)
{
    s2_buf_printf(buf, " %s", s2_property_word(requirement->property));
    if (requirement->property == S2_RANKS || requirement->property == S2_DEPTH)
        s2_buf_printf(buf, ":%d", requirement->arg);
}

s2_status s2_certificate_write(s2_arena *arena, const s2_pattern *pattern, const s2_finding *findings,
                               int32_t n, s2_buf *out, s2_diag *diag)
{
    char hex[S2_HASH_HEX];
    int64_t n_terms = 0;
    S2_TRY(check_findings(findings, n, diag));
    S2_TRY(check_terms(pattern, &n_terms, diag));
    bool shards = false;
    for (int32_t f = 0; f < n; f++)
        shards |= findings[f].requirement.property == S2_SHARDS;
    S2_TRY(check_size(arena, pattern, n_terms, shards, diag));
    S2_TRY(s2_pattern_hash(pattern, hex));
    s2_buf text = {0}, whole = {0};
    s2_pattern_print(pattern, &text);
    s2_buf_printf(&whole, "s2cert 1 %s %zu\n", hex, text.len);
    s2_buf_add(&whole, text.data != NULL ? text.data : "", text.len);
    s2_buf_puts(&whole, "claims");
    for (int32_t f = 0; f < n; f++)
        put_claim(&findings[f].requirement, &whole);
    s2_buf_puts(&whole, "\nend\n");
    s2_status status = text.status != S2_OK ? text.status : whole.status;
    if (status == S2_OK) {
        const size_t n_before = out->len;
        s2_buf_add(out, whole.data, whole.len);
        status = out->status;
        out->len = status == S2_OK ? out->len : n_before;
    }
    s2_buf_release(&text);
    s2_buf_release(&whole);
    return status;
}
