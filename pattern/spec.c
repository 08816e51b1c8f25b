#include "pattern/spec.h"

#include <string.h>

#include "base/arith.h"
#include "base/text.h"
#include "pattern/codes.h"

static const s2_term_row term_rows[S2_N_TERM_KINDS] = {
#define TERM_ROW(kind, word, args, scale, nature, in_certificate, number, form, help)                        \
    {word, S2_ARGS_##args, S2_SCALE_##scale, S2_NATURE_##nature, in_certificate, number, form, help},
    S2_TERM_TABLE(TERM_ROW)
#undef TERM_ROW
};

const s2_term_row *s2_term_row_of(s2_term_kind kind)
{
    return &term_rows[kind];
}

const char *s2_term_word(s2_term_kind kind)
{
    return (int)kind >= 0 && (int)kind < S2_N_TERM_KINDS ? term_rows[kind].word : "?";
}

const char *s2_when_word(s2_when_quantity quantity)
{
    static const char *const words[S2_N_WHEN] = {
#define WHEN_WORD(name, word) word,
        S2_WHEN_TABLE(WHEN_WORD)
#undef WHEN_WORD
    };
    return words[quantity];
}

const char *s2_phase_word(s2_phase phase)
{
    static const char *const words[S2_N_PHASES] = {"prefill", "decode", "train"};
    return words[phase];
}

s2_term s2_term_init(s2_term_kind kind, int64_t n)
{
    s2_term term = {.kind = kind, .n = n, .width = 1};
    for (int what = 0; what < S2_N_WHEN; what++)
        for (int unit = 0; unit < S2_N_UNITS; unit++)
            term.when[what][unit] = (s2_range){0, S2_OPEN};
    return term;
}

bool s2_term_is_dynamic(const s2_term *term)
{
    return s2_term_row_of(term->kind)->nature == S2_NATURE_DYNAMIC;
}

bool s2_term_is_whole(const s2_term *term)
{
    for (int what = 0; what < S2_N_WHEN; what++)
        for (int unit = 0; unit < S2_N_UNITS; unit++)
            if (!s2_range_is_whole(term->when[what][unit]))
                return false;
    return true;
}

bool s2_body_is_dense(const s2_body *body)
{
    return body->n_terms == 1 && body->terms[0].kind == S2_TERM_DENSE && s2_term_is_whole(&body->terms[0]);
}

bool s2_pattern_is_dense(const s2_pattern *pattern, s2_phase phase, int32_t layer)
{
    for (int32_t head = 0; head < pattern->n_heads; head++)
        if (!s2_body_is_dense(&pattern->bodies[s2_pattern_body(pattern, phase, layer, head)]))
            return false;
    return true;
}

/* The first dynamic term; NULL: all are static. */
static const s2_term *body_dynamic(const s2_body *body)
{
    for (int32_t t = 0; t < body->n_terms; t++)
        if (s2_term_is_dynamic(&body->terms[t]))
            return &body->terms[t];
    return NULL;
}

bool s2_pattern_chooses(const s2_pattern *pattern, s2_phase phase, int32_t layer)
{
    for (int32_t head = 0; head < pattern->n_heads; head++)
        if (body_dynamic(&pattern->bodies[s2_pattern_body(pattern, phase, layer, head)]) != NULL)
            return true;
    return false;
}

const s2_term *s2_pattern_dynamic(const s2_pattern *pattern)
{
    const s2_term *found = NULL;
    for (int32_t body = 0; body < pattern->n_bodies && found == NULL; body++)
        found = body_dynamic(&pattern->bodies[body]);
    return found;
}

const s2_term *s2_term_next(s2_term_walk *walk)
{
    for (; walk->body < walk->pattern->n_bodies; walk->body++, walk->n_taken = 0)
        if (walk->n_taken < walk->pattern->bodies[walk->body].n_terms)
            return &walk->pattern->bodies[walk->body].terms[walk->n_taken++];
    return NULL;
}

s2_status s2_pattern_edited(s2_arena *arena, const s2_pattern *pattern, s2_term_edit edit, int64_t arg,
                            s2_pattern *out)
{
    s2_body *const bodies = S2_NEW(arena, s2_body, pattern->n_bodies);
    if (bodies == NULL)
        return S2_ENOMEM;
    for (int32_t body = 0; body < pattern->n_bodies; body++) {
        const s2_body *const from = &pattern->bodies[body];
        s2_term *const terms = S2_NEW(arena, s2_term, from->n_terms + 1);
        if (terms == NULL)
            return S2_ENOMEM;
        for (int32_t t = 0; t < from->n_terms; t++) {
            terms[t] = from->terms[t];
            edit(&terms[t], arg);
        }
        bodies[body] = (s2_body){from->n_terms, terms};
    }
    *out = *pattern;
    out->bodies = bodies;
    return S2_OK;
}

int64_t s2_pattern_limit_tok(const s2_pattern *pattern)
{
    int64_t limit_tok = S2_OPEN;
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (term->mask != NULL) {
            const int64_t n_blk = s2_min_i32(term->mask->n_q_blk, term->mask->n_k_blk);
            limit_tok = s2_min_i64(limit_tok, n_blk * pattern->block_tok);
        }
    return limit_tok;
}

bool s2_pattern_layers_differ(const s2_pattern *pattern)
{
    for (int32_t layer = 0; pattern->layer_shapes != NULL && layer < pattern->n_layers; layer++) {
        const s2_layer_shape *const shape = &pattern->layer_shapes[layer];
        if (shape->n_kv_heads != pattern->n_kv_heads || shape->head_dim != pattern->head_dim ||
            shape->kv_layer != layer || shape->state_bytes != 0)
            return true;
    }
    return false;
}

s2_status s2_pattern_require_alike(const s2_pattern *pattern, const char *what, s2_diag *diag)
{
    if (!s2_pattern_layers_differ(pattern))
        return S2_OK;
    return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0,
                       "%s knows one shape for all layers; here some have other KV heads, another head "
                       "dimension, a state, or the keys of another layer",
                       what);
}

bool s2_body_is_none(const s2_body *body)
{
    for (int32_t t = 0; t < body->n_terms; t++)
        if (body->terms[t].kind != S2_TERM_NONE)
            return false;
    return true;
}

bool s2_pattern_is_state_layer(const s2_pattern *pattern, int32_t layer)
{
    if (s2_pattern_state_bytes(pattern, layer) == 0)
        return false;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (int32_t head = 0; head < pattern->n_heads; head++)
            if (!s2_body_is_none(&pattern->bodies[s2_pattern_body(pattern, (s2_phase)phase, layer, head)]))
                return false;
    return true;
}

bool s2_pattern_has_attention(const s2_pattern *pattern)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (!s2_pattern_is_state_layer(pattern, layer))
            return true;
    return false;
}

bool s2_pattern_has_phases(const s2_pattern *pattern)
{
    const size_t cells = (size_t)pattern->n_layers * (size_t)pattern->n_heads;
    return memcmp(pattern->body_of, pattern->body_of + cells, cells * sizeof *pattern->body_of) != 0;
}

s2_status s2_pattern_of_phase(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_pattern *out)
{
    const int64_t n_cells = (int64_t)pattern->n_layers * pattern->n_heads;
    const uint16_t *const own = pattern->body_of + phase * n_cells;
    s2_body *const bodies = S2_NEW(arena, s2_body, pattern->n_bodies);
    int32_t *const index = S2_NEW(arena, int32_t, pattern->n_bodies); /* of a body in the result, plus one */
    uint16_t *const body_of = S2_NEW(arena, uint16_t, S2_N_RULE_PHASES * n_cells);
    if (bodies == NULL || index == NULL || body_of == NULL)
        return S2_ENOMEM;
    int32_t n_bodies = 0;
    for (int64_t cell = 0; cell < n_cells; cell++) {
        if (index[own[cell]] == 0) {
            bodies[n_bodies] = pattern->bodies[own[cell]];
            index[own[cell]] = ++n_bodies;
        }
        body_of[cell] = body_of[n_cells + cell] = (uint16_t)(index[own[cell]] - 1);
    }
    *out = *pattern;
    out->n_bodies = n_bodies;
    out->bodies = bodies;
    out->body_of = body_of;
    return S2_OK;
}

/* --- checking --------------------------------------------------------------------------------- */

/* NULL, or what is wrong. Sentences name the field, for builders of patterns. */
static const char *shape_fault(const s2_pattern *pattern)
{
    const int32_t block = pattern->block_tok;
    if (pattern->name == NULL || pattern->model == NULL)
        return "name and model must be texts, \"\" where absent";
    if (strlen(pattern->name) > S2_LIMIT_NAME_BYTES)
        return "the name is longer than 200 bytes";
    if (pattern->n_layers < 1 || pattern->n_layers > S2_LIMIT_LAYERS)
        return "layers must be 1 to 1024";
    if (pattern->n_heads < 1 || pattern->n_heads > S2_LIMIT_HEADS)
        return "heads must be 1 to 4096";
    if (pattern->n_kv_heads < 1 || pattern->n_heads % pattern->n_kv_heads != 0)
        return "kv-heads must divide heads";
    if (pattern->head_dim < 1 || pattern->head_dim > S2_LIMIT_HEAD_DIM)
        return "head-dim must be 1 to 4096";
    if (block > S2_LIMIT_BLOCK_TOK || !s2_is_power_of_two(block))
        return "block must be a power of two from 1 to 1024";
    if (pattern->n_bodies < 1 || pattern->n_bodies > S2_LIMIT_RULES)
        return "there must be 1 to 4096 bodies";
    return NULL;
}

static const char *layer_shape_fault(const s2_pattern *pattern, int32_t layer)
{
    const s2_layer_shape *const shape = &pattern->layer_shapes[layer];
    if (shape->n_kv_heads < 1 || pattern->n_heads % shape->n_kv_heads != 0)
        return "kv-heads of a layer must divide heads";
    if (shape->head_dim < 1 || shape->head_dim > S2_LIMIT_HEAD_DIM)
        return "head-dim of a layer must be 1 to 4096";
    if (shape->state_bytes < 0 || shape->state_bytes > S2_LIMIT_STATE_BYTES)
        return "the state of a layer must be 0 to 2^32 bytes";
    if (shape->kv_layer < 0 || shape->kv_layer > layer)
        return "kv-layer must be a lower layer";
    const s2_layer_shape *const source = &pattern->layer_shapes[shape->kv_layer];
    if (source->kv_layer != shape->kv_layer || source->n_kv_heads != shape->n_kv_heads ||
        source->head_dim != shape->head_dim)
        return "a layer that reads another one's keys has its kv-heads and head-dim, and that one its own "
               "keys";
    return NULL;
}

static bool within(int64_t value, int64_t lowest, int64_t highest)
{
    return value >= lowest && value <= highest;
}

static bool distance_is_empty(const s2_range when[S2_N_UNITS], int64_t block)
{
    const s2_range blk = when[S2_UNIT_BLK], tok = when[S2_UNIT_TOK];
    if (blk.begin >= blk.end || tok.begin >= tok.end)
        return true;
    /* a block distance of d allows token distances in (d - 1) * block + 1 .. (d + 1) * block - 1 */
    const bool tok_below = tok.end != S2_OPEN && blk.begin > 0 && tok.end <= (blk.begin - 1) * block + 1;
    const bool tok_above = blk.end != S2_OPEN && tok.begin >= blk.end * block;
    return tok_below || tok_above;
}

static bool axis_is_empty(const s2_range when[S2_N_UNITS], int64_t block)
{
    const s2_range blk = when[S2_UNIT_BLK], tok = when[S2_UNIT_TOK];
    const int64_t begin = s2_max_i64(tok.begin, blk.begin * block);
    const int64_t blk_end = blk.end == S2_OPEN ? S2_OPEN : blk.end * block;
    return begin >= s2_min_i64(tok.end, blk_end);
}

bool s2_conditions_exclude(const s2_term *term, int64_t block_tok)
{
    return axis_is_empty(term->when[S2_WHEN_KEY], block_tok) ||
           axis_is_empty(term->when[S2_WHEN_QUERY], block_tok) ||
           distance_is_empty(term->when[S2_WHEN_DISTANCE], block_tok);
}

static const char *when_fault(const s2_term *term, int64_t block)
{
    for (int what = 0; what < S2_N_WHEN; what++)
        for (int unit = 0; unit < S2_N_UNITS; unit++) {
            const s2_range range = term->when[what][unit];
            const int64_t most = S2_LIMIT_CONTEXT_TOK / (unit == S2_UNIT_TOK ? 1 : block);
            if (range.begin < 0 || range.begin >= range.end)
                return "a when range is empty or negative";
            if (range.begin > most || (range.end != S2_OPEN && range.end > most))
                return "a when bound exceeds 2^24 tokens";
        }
    return s2_conditions_exclude(term, block) ? "its conditions exclude each other" : NULL;
}

static const char *list_fault(const s2_span_list *list, int64_t most)
{
    if (list->n_spans < 1 || list->spans == NULL)
        return "the list is empty";
    int64_t plain_end = 0;
    for (int32_t s = 0; s < list->n_spans; s++) {
        const s2_span span = list->spans[s];
        if (span.begin < 0 || span.begin >= span.end || !within(span.step, 1, most))
            return "a span of the list is empty, or its step is below 1";
        if (span.begin > most || (span.end != S2_OPEN && span.end > most))
            return "a span of the list exceeds 2^24 tokens";
        if (s > 0 && span.begin < list->spans[s - 1].begin)
            return "the spans of the list do not ascend";
        if (span.step == 1 && span.begin < plain_end)
            return "the spans of the list overlap";
        if (span.step == 1)
            plain_end = span.end;
    }
    return NULL;
}

static const char *stride_fault(const s2_term *term)
{
    const s2_offset_expr *const offset = &term->offset;
    if (!within(term->n, 1, S2_LIMIT_STRIDE))
        return "the stride must be 1 to 65536";
    if (!within(term->width, 1, term->n))
        return "the width must be 1 to the stride";
    if (!within(offset->constant, 0, S2_LIMIT_CONTEXT_TOK) ||
        !within(offset->head_coef, 0, S2_LIMIT_CONTEXT_TOK) ||
        !within(offset->kv_coef, 0, S2_LIMIT_CONTEXT_TOK) ||
        !within(offset->layer_coef, 0, S2_LIMIT_CONTEXT_TOK))
        return "the numbers of a phase must be 0 to 2^24";
    return NULL;
}

static const char *mask_fault(const s2_pattern *pattern, const s2_mask *mask)
{
    if (mask == NULL || mask->path == NULL || mask->path[0] == '\0' || mask->allowed == NULL)
        return "the mask has no file";
    if (mask->digest[0] == '\0')
        return "the mask is not sealed";
    if (mask->n_heads != 1 && mask->n_heads != pattern->n_heads)
        return "the mask has neither one plane nor one per head";
    const int64_t most = S2_LIMIT_CONTEXT_TOK / pattern->block_tok;
    if (!within(mask->n_q_blk, 1, most) || !within(mask->n_k_blk, 1, most))
        return "the mask is larger than 2^24 tokens: its rows and columns are blocks";
    return NULL;
}

static const char *count_fault(int64_t n, int64_t largest, const char *fault)
{
    return within(n, 1, largest) ? NULL : fault;
}

static const char *arguments_fault(const s2_pattern *pattern, const s2_term *term)
{
    const int64_t extent = S2_LIMIT_CONTEXT_TOK / (term->tok ? 1 : pattern->block_tok);
    switch (s2_term_row_of(term->kind)->args) {
    case S2_ARGS_NONE: return NULL;
    case S2_ARGS_EXTENT: return count_fault(term->n, extent, "the number must be 1 to 2^24 tokens");
    case S2_ARGS_STRIDE: return stride_fault(term);
    case S2_ARGS_LIST: return list_fault(&term->list, extent);
    case S2_ARGS_DRAW: return count_fault(term->n, S2_LIMIT_RANDOM, "random draws 1 to 1024 blocks");
    case S2_ARGS_FILE: return mask_fault(pattern, term->mask);
    case S2_ARGS_PAGES:
        if (!within(term->page_tok, 1, S2_LIMIT_CONTEXT_TOK))
            return "a page must be 1 to 2^24 tokens";
        return count_fault(term->n, S2_LIMIT_CONTEXT_TOK, "the number must be 1 to 2^24");
    case S2_ARGS_COUNT:
        return count_fault(term->n, S2_LIMIT_CONTEXT_TOK, "the number must be 1 to 2^24 tokens");
    }
    return "there is no such term";
}

static const char *term_fault(const s2_pattern *pattern, const s2_term *term)
{
    if ((int)term->kind < 0 || (int)term->kind >= S2_N_TERM_KINDS)
        return "there is no such term";
    const char *const fault = arguments_fault(pattern, term);
    return fault != NULL ? fault : when_fault(term, pattern->block_tok);
}

static s2_status bodies_check(const s2_pattern *pattern, s2_diag *diag)
{
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;) {
        const char *const fault = term_fault(pattern, term);
        if (fault != NULL)
            return s2_diag_set(diag, S2_EINVAL, S2P_INVARIANT, 0, 0, "body %d, term %d (%s): %s", walk.body,
                               walk.n_taken - 1, s2_term_word(term->kind), fault);
    }
    return S2_OK;
}

s2_status s2_pattern_check(const s2_pattern *pattern, s2_diag *diag)
{
    const char *const fault = shape_fault(pattern);
    if (fault != NULL)
        return s2_diag_set(diag, S2_EINVAL, S2P_INVARIANT, 0, 0, "%s", fault);
    char clean[S2_LIMIT_NAME_BYTES + 1];
    s2_text_clean(clean, sizeof clean, pattern->name);
    if (strcmp(clean, pattern->name) != 0)
        return s2_diag_set(diag, S2_EINVAL, S2P_INVARIANT, 0, 0,
                           "the name has characters that must not be shown");
    for (int32_t layer = 0; pattern->layer_shapes != NULL && layer < pattern->n_layers; layer++)
        if (layer_shape_fault(pattern, layer) != NULL)
            return s2_diag_set(diag, S2_EINVAL, S2P_INVARIANT, 0, 0, "layer %d: %s", layer,
                               layer_shape_fault(pattern, layer));
    const int64_t n_cells = (int64_t)S2_N_RULE_PHASES * pattern->n_layers * pattern->n_heads;
    uint8_t used[S2_LIMIT_RULES] = {0};
    for (int64_t cell = 0; cell < n_cells; cell++) {
        if (pattern->body_of[cell] >= pattern->n_bodies)
            return s2_diag_set(diag, S2_EINVAL, S2P_INVARIANT, 0, 0,
                               "body_of[%lld] is not the number of a body", (long long)cell);
        used[pattern->body_of[cell]] = 1;
    }
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        if (!used[body])
            return s2_diag_set(diag, S2_EINVAL, S2P_INVARIANT, 0, 0, "body %d is never used", body);
    return bodies_check(pattern, diag);
}
