#include "pattern/recognise.h"

#include <string.h>

#include "pattern/parse.h"
#include "pattern/plane.h"

/* The language's default block: what forms larger blocks is written as chunks. */
enum { PLAIN_BLOCK_TOK = 64 };

/* The heads of one layer: what their masks were found to read. */
typedef struct heads {
    s2_arena *arena;
    const s2_pattern *pattern;
    int32_t layer;
    s2_body *found; /* [head]; no terms: not from a mask */
} heads;

/* ------------------------------------------------------------------ masks as planes */

static const s2_mask *mask_of(const s2_body *body)
{
    return body->n_terms == 1 && body->terms[0].kind == S2_TERM_MASK ? body->terms[0].mask : NULL;
}

static bool has_mask(const s2_body *body)
{
    for (int32_t t = 0; t < body->n_terms; t++)
        if (body->terms[t].kind == S2_TERM_MASK)
            return true;
    return false;
}

/* Require that all masks have one extent and are the only term of their bodies, without a condition. */
static s2_status check_masks(const s2_pattern *pattern, int32_t *n_blk, s2_diag *diag)
{
    *n_blk = 0;
    for (int32_t b = 0; b < pattern->n_bodies; b++) {
        const s2_body *const body = &pattern->bodies[b];
        const s2_mask *const mask = mask_of(body);
        if (!has_mask(body))
            continue;
        const s2_term plain = s2_term_init(S2_TERM_MASK, 0);
        if (mask == NULL || memcmp(plain.when, body->terms[0].when, sizeof plain.when) != 0)
            return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0,
                               "a mask stands beside other terms or under a condition");
        if (mask->n_q_blk != mask->n_k_blk || (*n_blk != 0 && mask->n_k_blk != *n_blk))
            return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "its masks are not squares of one size");
        *n_blk = mask->n_k_blk;
    }
    return S2_OK;
}

/* Whether the plane reads whole squares of `by` cells, apart from what causality cuts off. */
static bool is_coarse(const s2_plane *plane, int32_t by)
{
    for (int32_t query = 0; query < plane->n; query++)
        for (int32_t key = 0; key < s2_plane_n_keys(plane, query); key++) {
            const int32_t row = query / by * by + by - 1, column = key / by * by;
            if (plane->cell[(int64_t)query * plane->n + key] != plane->cell[(int64_t)row * plane->n + column])
                return false;
        }
    return true;
}

static s2_status unpack(s2_arena *arena, const s2_mask *mask, int32_t head, bool causal, s2_plane *out)
{
    const int32_t n = mask->n_k_blk;
    uint8_t *const cell = S2_NEW(arena, uint8_t, (int64_t)n * n);
    if (cell == NULL)
        return S2_ENOMEM;
    for (int32_t query = 0; query < n; query++)
        for (int32_t key = 0; key < n; key++)
            cell[(int64_t)query * n + key] = s2_mask_allows(mask, head, query, key);
    *out = (s2_plane){n, causal, cell};
    return S2_OK;
}

/* Keep every `by`-th cell of the rows that see their whole block. */
static s2_status shrink(s2_arena *arena, int32_t by, s2_plane *plane)
{
    const int32_t n = plane->n / by;
    uint8_t *const cell = S2_NEW(arena, uint8_t, (int64_t)n * n);
    if (cell == NULL)
        return S2_ENOMEM;
    for (int32_t query = 0; query < n; query++)
        for (int32_t key = 0; key < n; key++)
            cell[(int64_t)query * n + key] =
                plane->cell[((int64_t)query * by + by - 1) * plane->n + (int64_t)key * by];
    *plane = (s2_plane){n, plane->causal, cell};
    return S2_OK;
}

/* The largest power of two that fits all masks as a block; 1 if other bodies count in blocks too. */
static s2_status find_block(s2_arena *arena, const s2_pattern *pattern, int32_t n_blk, int32_t *by)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    *by = 1;
    for (int32_t b = 0; b < pattern->n_bodies; b++)
        if (mask_of(&pattern->bodies[b]) == NULL)
            return S2_OK;
    for (; n_blk % (*by * 2) == 0 && *by * 2 * pattern->block_tok <= PLAIN_BLOCK_TOK;) {
        bool coarse = true;
        for (int32_t b = 0; b < pattern->n_bodies && coarse; b++) {
            const s2_mask *const mask = mask_of(&pattern->bodies[b]);
            for (int32_t head = 0; head < mask->n_heads && coarse; head++) {
                s2_plane plane;
                S2_TRY(unpack(arena, mask, head, pattern->causal, &plane));
                coarse = is_coarse(&plane, *by * 2);
                s2_arena_rewind(arena, mark);
            }
        }
        if (!coarse)
            break;
        *by *= 2;
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ one body for many heads */

/* The same terms except for their constants. */
static bool same_form(const s2_body *a, const s2_body *b)
{
    if (a->n_terms != b->n_terms)
        return false;
    for (int32_t t = 0; t < a->n_terms; t++) {
        const s2_term *const x = &a->terms[t], *const y = &b->terms[t];
        const bool same_list =
            x->list.n_spans == y->list.n_spans &&
            (x->list.n_spans == 0 ||
             memcmp(x->list.spans, y->list.spans, (size_t)x->list.n_spans * sizeof(s2_span)) == 0);
        if (x->kind != y->kind || x->n != y->n || x->width != y->width || !same_list ||
            memcmp(x->when, y->when, sizeof x->when) != 0)
            return false;
    }
    return true;
}

static bool fits(const heads *h, const int32_t *group, int32_t n, int32_t t, const s2_offset_expr *offset)
{
    for (int32_t g = 0; g < n; g++) {
        s2_term term = h->found[group[g]].terms[t];
        const int64_t wanted = term.offset.constant;
        term.offset = *offset;
        if (s2_term_offset(&term, h->layer, group[g], s2_layer_kv_head(h->pattern, h->layer, group[g])) !=
            wanted)
            return false;
    }
    return true;
}

/* constant, head * A + constant or kv * A + constant, whichever fits the residues of these heads. */
static bool find_offset(const heads *h, const int32_t *group, int32_t n, int32_t t, s2_offset_expr *out)
{
    const s2_term *const first = &h->found[group[0]].terms[t];
    *out = first->offset;
    if (first->n == 0 || fits(h, group, n, t, out))
        return true;
    for (int by_kv = 0; by_kv < 2; by_kv++)
        for (int64_t coef = 1; coef < first->n; coef++) {
            s2_offset_expr offset = {0};
            const int64_t index = by_kv ? s2_layer_kv_head(h->pattern, h->layer, group[0]) : group[0];
            *(by_kv ? &offset.kv_coef : &offset.head_coef) = coef;
            offset.constant = ((first->offset.constant - coef * index) % first->n + first->n) % first->n;
            if (fits(h, group, n, t, &offset)) {
                *out = offset;
                return true;
            }
        }
    return false;
}

/* One body that reads what each head of the group was found to read; *joined: residues grow evenly. */
static s2_status join_bodies(const heads *h, const int32_t *group, int32_t n, s2_body *out, bool *joined)
{
    const s2_body *const first = &h->found[group[0]];
    s2_term *const terms = S2_NEW(h->arena, s2_term, first->n_terms);
    if (terms == NULL)
        return S2_ENOMEM;
    *joined = true;
    for (int32_t t = 0; t < first->n_terms && *joined; t++) {
        terms[t] = first->terms[t];
        *joined = find_offset(h, group, n, t, &terms[t].offset);
    }
    *out = (s2_body){first->n_terms, terms};
    return S2_OK;
}

static bool same_residues(const s2_body *a, const s2_body *b)
{
    for (int32_t t = 0; t < a->n_terms; t++)
        if (a->terms[t].offset.constant != b->terms[t].offset.constant)
            return false;
    return true;
}

/* ------------------------------------------------------------------ a pattern */

typedef struct result {
    int64_t n_bodies, cap;
    s2_body *bodies;
    uint16_t *body_of;
} result;

static s2_status add_body(s2_arena *arena, result *r, s2_body body)
{
    S2_TRY(S2_ARENA_ROOM(arena, r->bodies, r->n_bodies, r->cap));
    r->bodies[r->n_bodies++] = body;
    return S2_OK;
}

/* Heads of one form share a body if one phase expresses their residues; else only equal ones do. */
static s2_status share_bodies(const heads *h, int64_t first_cell, result *r)
{
    const int32_t n_heads = h->pattern->n_heads;
    bool *const done = S2_NEW(h->arena, bool, n_heads);
    int32_t *const group = S2_NEW(h->arena, int32_t, n_heads);
    if (done == NULL || group == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++) {
        int32_t n = 0;
        bool joined = false;
        s2_body body = h->found[head];
        if (done[head] || body.terms == NULL)
            continue;
        for (int32_t other = head; other < n_heads; other++)
            if (!done[other] && h->found[other].terms != NULL && same_form(&body, &h->found[other]))
                group[n++] = other;
        S2_TRY(join_bodies(h, group, n, &body, &joined));
        if (!joined)
            body = h->found[head];
        S2_TRY(add_body(h->arena, r, body));
        for (int32_t g = 0; g < n; g++) {
            done[group[g]] = joined || same_residues(&h->found[head], &h->found[group[g]]);
            if (done[group[g]])
                r->body_of[first_cell + group[g]] = (uint16_t)(r->n_bodies - 1);
        }
    }
    return S2_OK;
}

static bool same_cells(const s2_mask *a, int32_t a_head, const s2_mask *b, int32_t b_head)
{
    if (a->packed != b->packed)
        return false;
    const size_t n_bytes = (size_t)s2_mask_row_bytes(a) * (size_t)a->n_q_blk;
    return memcmp(s2_mask_row(a, a_head, 0), s2_mask_row(b, b_head, 0), n_bytes) == 0;
}

static s2_status solve(s2_arena *arena, s2_arena *scratch, const heads *h, int32_t head, const s2_mask *mask,
                       int32_t by, s2_body *out, s2_diag *diag)
{
    s2_plane plane;
    int32_t query = 0, key = 0;
    S2_TRY(unpack(scratch, mask, mask->n_heads > 1 ? head : 0, h->pattern->causal, &plane));
    S2_TRY(shrink(scratch, by, &plane));
    const s2_status status = s2_plane_terms(arena, scratch, &plane, S2_RECOGNISE_TERMS, out, &query, &key);
    if (status != S2_EUNSUPPORTED)
        return status;
    const int64_t block = (int64_t)h->pattern->block_tok * by;
    return s2_diag_set(
        diag, status, 0, 0, 0,
        "layer %d, head %d: %d terms do not say all that it reads, such as key %lld of query %lld",
        (int)h->layer, (int)head, S2_RECOGNISE_TERMS, (long long)(key * block), (long long)(query * block));
}

static s2_status find_terms(heads *h, s2_phase phase, int32_t head, int32_t by, s2_diag *diag)
{
    const s2_pattern *const from = h->pattern;
    const s2_mask *const mask = mask_of(&from->bodies[s2_pattern_body(from, phase, h->layer, head)]);
    for (int32_t before = 0; before < head; before++) {
        const s2_mask *const other = mask_of(&from->bodies[s2_pattern_body(from, phase, h->layer, before)]);
        if (other != NULL && same_cells(other, before, mask, head)) {
            h->found[head] = h->found[before];
            return S2_OK;
        }
    }
    s2_arena scratch = {0};
    const s2_status status = solve(h->arena, &scratch, h, head, mask, by, &h->found[head], diag);
    s2_arena_release(&scratch);
    return status;
}

static s2_status recognise_layer(heads *h, s2_phase phase, int32_t by, result *r, s2_diag *diag)
{
    const int32_t n_heads = h->pattern->n_heads;
    const int64_t first_cell = ((int64_t)phase * h->pattern->n_layers + h->layer) * n_heads;
    memset(h->found, 0, (size_t)n_heads * sizeof *h->found);
    for (int32_t head = 0; head < n_heads; head++) {
        const s2_body *const body = &h->pattern->bodies[s2_pattern_body(h->pattern, phase, h->layer, head)];
        if (mask_of(body) != NULL) {
            S2_TRY(find_terms(h, phase, head, by, diag));
            continue;
        }
        S2_TRY(add_body(h->arena, r, *body));
        r->body_of[first_cell + head] = (uint16_t)(r->n_bodies - 1);
    }
    return share_bodies(h, first_cell, r);
}

/* The row (phase, layer) of an earlier layer whose heads have the same bodies, or -1. */
static int32_t layer_alike(const s2_pattern *pattern, s2_phase phase, int32_t layer)
{
    const size_t n_bytes = (size_t)pattern->n_heads * sizeof *pattern->body_of;
    const uint16_t *const own =
        &pattern->body_of[((int64_t)phase * pattern->n_layers + layer) * pattern->n_heads];
    for (int32_t p = 0; p <= (int32_t)phase; p++)
        for (int32_t other = 0; other < (p == (int32_t)phase ? layer : pattern->n_layers); other++) {
            const int32_t row = p * pattern->n_layers + other;
            if (memcmp(&pattern->body_of[(int64_t)row * pattern->n_heads], own, n_bytes) == 0)
                return row;
        }
    return -1;
}

static s2_status recognise_all(heads *h, int32_t by, result *r, s2_diag *diag)
{
    const s2_pattern *const from = h->pattern;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (h->layer = 0; h->layer < from->n_layers; h->layer++) {
            const int32_t alike = layer_alike(from, (s2_phase)phase, h->layer);
            const int32_t row = phase * from->n_layers + h->layer;
            if (alike >= 0)
                memcpy(&r->body_of[(int64_t)row * from->n_heads], &r->body_of[(int64_t)alike * from->n_heads],
                       (size_t)from->n_heads * sizeof *r->body_of);
            else
                S2_TRY(recognise_layer(h, (s2_phase)phase, by, r, diag));
        }
    return S2_OK;
}

s2_status s2_pattern_recognise(s2_arena *arena, const s2_pattern *pattern, s2_pattern *out, int64_t *n_tok,
                               s2_diag *diag)
{
    int32_t n_blk, by = 1;
    result r = {
        .body_of = S2_NEW(arena, uint16_t, (int64_t)S2_N_RULE_PHASES * pattern->n_layers * pattern->n_heads)};
    heads h = {arena, pattern, 0, S2_NEW(arena, s2_body, pattern->n_heads)};
    if (r.body_of == NULL || h.found == NULL)
        return S2_ENOMEM;
    S2_TRY(check_masks(pattern, &n_blk, diag));
    *n_tok = (int64_t)n_blk * pattern->block_tok;
    if (n_blk == 0) {
        *out = *pattern;
        return S2_OK;
    }
    s2_arena scratch = {0};
    const s2_status status = n_blk <= S2_RECOGNISE_CELLS ? find_block(&scratch, pattern, n_blk, &by) : S2_OK;
    s2_arena_release(&scratch);
    S2_TRY(status);
    if (n_blk / by > S2_RECOGNISE_ROWS)
        return s2_diag_set(diag, S2_ELIMIT, 0, 0, 0, "a mask of %d rows is too large: at most %d", n_blk / by,
                           S2_RECOGNISE_ROWS);
    S2_TRY(recognise_all(&h, by, &r, diag));
    if (r.n_bodies > UINT16_MAX)
        return s2_diag_set(diag, S2_ELIMIT, 0, 0, 0, "its heads read in more than %d ways", UINT16_MAX);
    *out = *pattern;
    out->block_tok = pattern->block_tok * by;
    out->n_bodies = (int32_t)r.n_bodies;
    out->bodies = r.bodies;
    out->body_of = r.body_of;
    return S2_OK;
}
