#include "coverage/certificate.h"

#include "pattern/layers.h"
#include "pattern/parse.h"
#include "pattern/view.h"

/* s2cert's limits: steps of its definition (a few seconds), and claims. */
static const double MOST_STEPS = 2e9;
enum { MOST_CLAIMS = 16 };
static const int64_t LONGEST_PERIOD = INT64_C(1) << 40;

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

static s2_status check_terms(const s2_pattern *pattern, s2_diag *diag)
{
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (!s2_term_row_of(term->kind)->in_certificate)
            return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "a certificate cannot speak of `%s`",
                               s2_term_word(term->kind));
    return S2_OK;
}

/* ---- how long s2cert would take, in the steps that docs/proof.md counts */

typedef struct extent {
    int64_t threshold, reach, period, step; /* tokens; period S2_OPEN: too long */
} extent;

static void cover(int64_t *bound, int64_t value, int64_t size)
{
    if (value > 0 && value != S2_OPEN && (value + 1) * size > *bound)
        *bound = (value + 1) * size;
}

static void cover_period(extent *e, int64_t n)
{
    e->period = e->period == S2_OPEN ? S2_OPEN : s2_period_lcm(e->period, n);
    if (e->period > LONGEST_PERIOD)
        e->period = S2_OPEN;
}

static void cover_conditions(extent *e, const s2_term *term, int64_t block)
{
    for (int what = 0; what < S2_N_WHEN; what++)
        for (int unit = 0; unit < S2_N_UNITS; unit++) {
            const s2_range range = term->when[what][unit];
            int64_t *const bound = what == S2_WHEN_DISTANCE ? &e->reach : &e->threshold;
            const int64_t size = unit == S2_UNIT_BLK ? block : 1;
            cover(bound, range.begin, size);
            cover(bound, range.end, size);
            if (unit == S2_UNIT_TOK && (range.begin > 0 || range.end != S2_OPEN))
                e->step = 1;
        }
}

static void cover_term(extent *e, const s2_term *term, int64_t block)
{
    const int64_t size = term->tok ? 1 : block;
    const bool residue =
        term->kind == S2_TERM_STRIDE || term->kind == S2_TERM_DILATED || term->kind == S2_TERM_CHUNK;
    if (term->tok)
        e->step = 1;
    cover(term->kind == S2_TERM_SINK ? &e->threshold : &e->reach, term->n, size);
    for (int32_t s = 0; s < term->list.n_spans; s++) {
        const s2_span span = term->list.spans[s];
        cover(&e->threshold, span.end == S2_OPEN ? span.begin : span.end, size);
        cover_period(e, span.step * size);
    }
    if (residue)
        cover_period(e, term->n * size);
    cover_conditions(e, term, block);
}

static extent pattern_extent(const s2_pattern *pattern)
{
    extent e = {.period = pattern->block_tok, .step = pattern->block_tok};
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        cover_term(&e, term, pattern->block_tok);
    return e;
}

/* Terms and ranges evaluated for one pair of this layer, in all heads of both phases. */
static double layer_cost(const s2_pattern *pattern, int32_t layer)
{
    double cost = 0;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        const uint16_t *const bodies = s2_layer_bodies(pattern, (s2_phase)phase, layer);
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            const s2_body *const body = &pattern->bodies[bodies[head]];
            cost += 1 + body->n_terms;
            for (int32_t t = 0; t < body->n_terms; t++)
                cost += body->terms[t].list.n_spans;
        }
    }
    return cost;
}

static s2_status check_work(s2_arena *scratch, const s2_pattern *pattern, const s2_finding *findings,
                            int32_t n, s2_diag *diag)
{
    int32_t *const first_alike = S2_NEW(scratch, int32_t, pattern->n_layers);
    if (first_alike == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_layers_alike(scratch, pattern, S2_BOTH_PHASES, first_alike));
    const extent e = pattern_extent(pattern);
    const double far = pattern->causal ? 0 : (double)e.reach + (double)e.period, step = (double)e.step;
    const double columns = ((double)e.threshold + (double)e.period + far) / step + 1;
    const double before = pattern->causal ? 0 : columns;
    const double queries = ((double)(e.threshold + e.reach) + 2 * (double)e.period) / step + 1 + before;
    double pairs = columns * queries, rows = 0, steps = 0;
    for (int32_t f = 0; f < n; f++) {
        pairs = findings[f].requirement.property == S2_SHARDS ? 3 * columns * queries : pairs;
        rows = findings[f].requirement.property == S2_ROWS ? queries * queries / 2 : rows;
    }
    for (int32_t layer = 0; layer < pattern->n_layers && steps <= MOST_STEPS && e.period != S2_OPEN; layer++)
        if (first_alike[layer] == layer)
            steps += (pairs + rows) * (layer_cost(pattern, layer) + 2.0 * n * pattern->n_heads);
    if (e.period == S2_OPEN || steps > MOST_STEPS)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0,
                           "s2cert would take too long to check this pattern");
    return S2_OK;
}

static bool claimed_before(const s2_finding *findings, int32_t f)
{
    for (int32_t other = 0; other < f; other++)
        if (findings[other].requirement.property == findings[f].requirement.property &&
            findings[other].requirement.arg == findings[f].requirement.arg)
            return true;
    return false;
}

static void put_claim(const s2_requirement *requirement, s2_buf *buf)
{
    s2_buf_printf(buf, " %s", s2_property_word(requirement->property));
    if (requirement->property == S2_RANKS || requirement->property == S2_DEPTH)
        s2_buf_printf(buf, ":%d", requirement->arg);
}

static void put_certificate(const s2_pattern *pattern, const char *hash, const s2_finding *findings,
                            int32_t n, s2_buf *out)
{
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    s2_buf_printf(out, "s2cert 1 %s %zu\n", hash, text.len);
    s2_buf_add(out, text.data != NULL ? text.data : "", text.len);
    s2_buf_puts(out, "claims");
    for (int32_t f = 0; f < n; f++)
        if (!claimed_before(findings, f))
            put_claim(&findings[f].requirement, out);
    s2_buf_puts(out, "\nend\n");
    if (text.status != S2_OK)
        out->status = text.status;
    s2_buf_release(&text);
}

s2_status s2_certificate_write(const s2_pattern *pattern, const s2_finding *findings, int32_t n, s2_buf *out,
                               s2_diag *diag)
{
    char hash[S2_HASH_HEX];
    S2_TRY(check_findings(findings, n, diag));
    S2_TRY(s2_pattern_require_alike(pattern, "a certificate", diag));
    S2_TRY(check_terms(pattern, diag));
    s2_arena scratch = {0};
    const s2_status work = check_work(&scratch, pattern, findings, n, diag);
    s2_arena_release(&scratch);
    S2_TRY(work);
    S2_TRY(s2_pattern_hash(pattern, hash));
    const size_t n_before = out->len;
    put_certificate(pattern, hash, findings, n, out);
    if (out->status != S2_OK)
        out->len = n_before;
    return out->status;
}
