#include "coverage/certificate.h"

#include <string.h>

#include "pattern/parse.h"
#include "pattern/view.h"

/* What s2cert accepts, with room to spare: steps of the definition, columns of a head, bytes. */
static const int64_t MOST_STEPS = 1000000000;
enum { MOST_COLUMNS = 1 << 20, MOST_HEAD_KINDS = 8192, MOST_CLAIMS = 64, MOST_BYTES = 60 << 20 };

/* Everything in tokens. */
typedef struct s2_bounds {
    int64_t unit;      /* block_tok where every quantity is in blocks, else 1 */
    int64_t threshold; /* above every threshold on keys and queries */
    int64_t reach;     /* distances from here on decide every distance condition */
    int64_t period;    /* shifting query and key by it changes no residue */
    int64_t tail;      /* shifting the query by it changes no residue */
} s2_bounds;

static void raise_to(int64_t *most, int64_t value, int64_t by)
{
    if (value != S2_OPEN && value * by > *most)
        *most = value * by;
}

static void raise_distance(s2_bounds *bounds, s2_range range, int64_t size)
{
    if (range.begin > 0)
        raise_to(&bounds->reach, range.begin + 1, size);
    if (range.end != S2_OPEN)
        raise_to(&bounds->reach, range.end + 1, size);
}

static void add_restrictions(s2_bounds *bounds, const s2_term *term, int64_t block)
{
    for (int unit = 0; unit < S2_N_UNITS; unit++) {
        const int64_t size = unit == S2_UNIT_TOK ? 1 : block;
        raise_distance(bounds, term->when[S2_WHEN_DISTANCE][unit], size);
        for (int what = 0; what < S2_N_WHEN; what++) {
            const s2_range range = term->when[what][unit];
            if (what != S2_WHEN_DISTANCE) {
                raise_to(&bounds->threshold, range.begin, size);
                raise_to(&bounds->threshold, range.end, size);
            }
            if (unit == S2_UNIT_TOK && (range.begin > 0 || range.end != S2_OPEN))
                bounds->unit = 1;
        }
    }
}

static void add_list(s2_bounds *bounds, const s2_term *term, int64_t size)
{
    for (int32_t s = 0; s < term->list.n_spans; s++) {
        const s2_span span = term->list.spans[s];
        raise_to(&bounds->threshold, span.begin, size);
        raise_to(&bounds->threshold, span.end, size);
        bounds->period = s2_period_lcm(bounds->period, span.step * size);
        if (term->kind == S2_TERM_ROWS)
            bounds->tail = s2_period_lcm(bounds->tail, span.step * size);
    }
}

static void add_term(s2_bounds *bounds, const s2_term *term, int64_t block)
{
    const int64_t size = term->tok ? 1 : block, turn = term->n * size;
    add_restrictions(bounds, term, block);
    add_list(bounds, term, size);
    if (term->tok)
        bounds->unit = 1;
    if (term->kind == S2_TERM_SINK)
        raise_to(&bounds->threshold, turn, 1);
    if (term->kind == S2_TERM_LOCAL || term->kind == S2_TERM_CHUNK)
        raise_to(&bounds->reach, turn + size, 1);
    if (term->kind == S2_TERM_STRIDE || term->kind == S2_TERM_CHUNK)
        bounds->period = s2_period_lcm(bounds->period, turn);
    if (term->kind == S2_TERM_DILATED)
        bounds->tail = s2_period_lcm(bounds->tail, turn);
}

static s2_bounds find_bounds(const s2_pattern *pattern)
{
    const int64_t block = pattern->block_tok;
    s2_bounds bounds = {.unit = block, .period = block, .tail = 1};
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        for (int32_t t = 0; t < pattern->bodies[body].n_terms; t++)
            add_term(&bounds, &pattern->bodies[body].terms[t], block);
    bounds.tail = s2_period_lcm(bounds.tail, bounds.unit);
    return bounds;
}

static int64_t column_end(const s2_bounds *bounds, int64_t k_tok)
{
    const int64_t far = k_tok + bounds->reach;
    return (far > bounds->threshold ? far : bounds->threshold) + bounds->tail;
}

/* Keys [0, end) that the theorem asks for, S2_OPEN when the periods are huge. */
static int64_t columns_end(const s2_pattern *pattern, const s2_bounds *bounds)
{
    const int64_t cycle = s2_period_lcm(bounds->period, bounds->tail);
    if (cycle == S2_OPEN)
        return S2_OPEN;
    return bounds->threshold + (pattern->causal ? bounds->period : bounds->reach + 2 * cycle);
}

/* One head of each kind, in the order of cells. */
typedef struct s2_head_kinds {
    int32_t n;
    s2_view *views;
    int64_t n_terms; /* over all of them */
} s2_head_kinds;

static int32_t find_kind(const s2_head_kinds *kinds, const s2_view *view)
{
    for (int32_t kind = 0; kind < kinds->n; kind++)
        if (kinds->views[kind].body == view->body && kinds->views[kind].n_atoms == view->n_atoms &&
            (view->n_atoms == 0 ||
             memcmp(kinds->views[kind].atoms, view->atoms, (size_t)view->n_atoms * sizeof *view->atoms) == 0))
            return kind;
    return kinds->n;
}

static s2_status find_kinds(s2_arena *arena, const s2_pattern *pattern, s2_head_kinds *kinds, s2_diag *diag)
{
    kinds->views = S2_NEW(arena, s2_view, MOST_HEAD_KINDS);
    if (kinds->views == NULL)
        return S2_ENOMEM;
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
            for (int32_t head = 0; head < pattern->n_heads; head++) {
                const s2_arena_mark_t mark = s2_arena_mark(arena);
                s2_view view;
                S2_TRY(s2_view_build(arena, pattern, (s2_phase)phase, layer, head, S2_AT_LEAST, &view));
                if (find_kind(kinds, &view) < kinds->n) {
                    s2_arena_rewind(arena, mark);
                    continue;
                }
                if (kinds->n == MOST_HEAD_KINDS)
                    return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "the heads are of too many kinds");
                kinds->views[kinds->n++] = view;
                kinds->n_terms += view.body->n_terms;
            }
        }
    }
    return S2_OK;
}

static void put_column(const s2_view *view, const s2_bounds *bounds, int64_t k_tok, s2_comb *combs,
                       s2_buf *buf)
{
    const int64_t end = column_end(bounds, k_tok);
    int32_t n = 0;
    for (int32_t a = 0; a < view->n_atoms; a++)
        n += s2_atom_column(view, &view->atoms[a], k_tok, &combs[n]);
    s2_buf_printf(buf, "%lld:", (long long)k_tok);
    for (int64_t x = s2_combs_next(combs, n, 0); x < end;) {
        const int64_t stop = s2_combs_end(combs, n, x, end);
        s2_buf_printf(buf, " %lld %lld", (long long)x, (long long)(stop < end ? stop : end));
        x = stop < end ? s2_combs_next(combs, n, stop) : end;
    }
    s2_buf_puts(buf, "\n");
}

static s2_status put_tables(s2_arena *arena, const s2_pattern *pattern, const s2_bounds *bounds, s2_buf *buf,
                            s2_diag *diag)
{
    const int64_t end = columns_end(pattern, bounds);
    if (end == S2_OPEN || end / bounds->unit > MOST_COLUMNS)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0,
                           "the pattern repeats after too many columns to list");
    s2_head_kinds kinds = {0};
    S2_TRY(find_kinds(arena, pattern, &kinds, diag));
    const double steps = (double)(end / bounds->unit) * (double)(column_end(bounds, end) / bounds->unit);
    if (steps * (double)kinds.n_terms > (double)MOST_STEPS)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "the tables would take too long to check");
    s2_buf_printf(buf, "bounds unit %lld threshold %lld reach %lld period %lld tail %lld\n",
                  (long long)bounds->unit, (long long)bounds->threshold, (long long)bounds->reach,
                  (long long)bounds->period, (long long)bounds->tail);
    for (int32_t kind = 0; kind < kinds.n && buf->status == S2_OK; kind++) {
        const s2_view *const view = &kinds.views[kind];
        s2_comb *const combs = S2_NEW(arena, s2_comb, view->n_atoms);
        if (combs == NULL)
            return S2_ENOMEM;
        s2_buf_printf(buf, "head %d\n", kind);
        for (int64_t k_tok = 0; k_tok < end; k_tok += bounds->unit) {
            put_column(view, bounds, k_tok, combs, buf);
            if (buf->len > MOST_BYTES)
                return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "the tables are longer than 60 MiB");
        }
    }
    s2_buf_puts(buf, "end\n");
    return buf->status;
}

static void put_claim(const s2_requirement *requirement, s2_buf *buf)
{
    s2_buf_printf(buf, "claim %s", s2_property_word(requirement->property));
    if (requirement->property == S2_RANKS || requirement->property == S2_DEPTH)
        s2_buf_printf(buf, ":%d", requirement->arg);
    s2_buf_puts(buf, "\n");
}

static s2_status check_findings(const s2_finding *findings, int32_t n, s2_diag *diag)
{
    if (n > MOST_CLAIMS)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "more than %d claims", MOST_CLAIMS);
    for (int32_t f = 0; f < n; f++)
        if (findings[f].verdict != S2_HOLDS || findings[f].scope_tok != S2_OPEN)
            return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "%s is not proved for every length",
                               s2_property_word(findings[f].requirement.property));
    return S2_OK;
}

static s2_status check_terms(const s2_pattern *pattern, s2_diag *diag)
{
    for (int32_t body = 0; body < pattern->n_bodies; body++) {
        for (int32_t t = 0; t < pattern->bodies[body].n_terms; t++) {
            const s2_term *const term = &pattern->bodies[body].terms[t];
            if (s2_term_is_dynamic(term) || term->kind == S2_TERM_RANDOM || term->kind == S2_TERM_MASK)
                return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "a certificate cannot speak of `%s`",
                                   s2_term_word(term->kind));
        }
    }
    return S2_OK;
}

/* The tables are those of the text that the certificate carries, so the text is read back. */
static s2_status put_all(s2_arena *arena, const s2_pattern *pattern, const s2_finding *findings, int32_t n,
                         s2_buf *text, s2_buf *buf, s2_diag *diag)
{
    static const s2_parse_options options = {.no_files = true};
    char hex[S2_HASH_HEX];
    s2_pattern canonical;
    S2_TRY(s2_pattern_hash(pattern, hex));
    s2_pattern_print(pattern, text);
    S2_TRY(text->status);
    S2_TRY(s2_pattern_parse(arena, text->data, text->len, &options, &canonical, diag));
    s2_buf_printf(buf, "s2cert 1\nsha256 %s\n", hex);
    for (int32_t f = 0; f < n; f++)
        put_claim(&findings[f].requirement, buf);
    s2_buf_printf(buf, "pattern %lld\n", (long long)text->len);
    s2_buf_add(buf, text->data, text->len);
    const s2_bounds bounds = find_bounds(&canonical);
    if (bounds.period == S2_OPEN || bounds.tail == S2_OPEN)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "the strides have no manageable common period");
    return put_tables(arena, &canonical, &bounds, buf, diag);
}

s2_status s2_certificate_write(s2_arena *arena, const s2_pattern *pattern, const s2_finding *findings,
                               int32_t n, s2_buf *out, s2_diag *diag)
{
    S2_TRY(check_findings(findings, n, diag));
    S2_TRY(check_terms(pattern, diag));
    s2_buf text = {0}, whole = {0};
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_status status = put_all(arena, pattern, findings, n, &text, &whole, diag);
    s2_arena_rewind(arena, mark);
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
