#include "sim/share.h"

#include <string.h>

#include "base/arith.h"
#include "pattern/mask.h"

static bool is_even(const s2_pattern *pattern, int32_t n_ranks)
{
    if (n_ranks < 1 || pattern->n_heads % n_ranks != 0)
        return false;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int32_t n_kv = s2_pattern_kv_heads(pattern, layer);
        if (n_kv % n_ranks != 0 && n_ranks % n_kv != 0)
            return false;
    }
    return true;
}

s2_status s2_share_check(const s2_pattern *pattern, int32_t n_ranks, s2_diag *diag)
{
    if (is_even(pattern, n_ranks))
        return S2_OK;
    return s2_diag_set(diag, S2_EINVAL, S2_CODE_SHARE, 0, 0,
                       "%d GPUs cannot share %d heads on %d KV heads evenly%s; the number of GPUs must "
                       "divide the heads, and divide the KV heads or be a multiple of them",
                       n_ranks, pattern->n_heads, pattern->n_kv_heads,
                       s2_pattern_layers_differ(pattern) ? ", or on those of a layer with its own" : "");
}

s2_status s2_share_deal(s2_arena *arena, int32_t n_heads, int32_t n_kv_heads, int32_t n_ranks, int32_t rank,
                        const int32_t *order, s2_share_heads *out)
{
    const int32_t n = n_heads / n_ranks, group = n_heads / n_kv_heads;
    int32_t *const heads = S2_NEW(arena, int32_t, n);
    if (heads == NULL)
        return S2_ENOMEM;
    for (int32_t h = 0; h < n; h++) {
        const int32_t place = rank * n + h, kv = place / group;
        heads[h] = (order != NULL ? order[kv] : kv) * group + place % group;
    }
    *out = (s2_share_heads){n, heads};
    return S2_OK;
}

int32_t s2_share_kv_heads(int32_t n_kv_heads, int32_t n_ranks)
{
    return s2_max_i32(n_kv_heads / n_ranks, 1);
}

double s2_share_kv_width(int32_t n_kv_heads, int32_t head_dim, int32_t n_ranks)
{
    return 2.0 * s2_share_kv_heads(n_kv_heads, n_ranks) * head_dim;
}

double s2_share_kv_bytes(int32_t n_kv_heads, int32_t head_dim, int32_t n_ranks, s2_dtype dtype)
{
    return s2_share_kv_width(n_kv_heads, head_dim, n_ranks) * (double)s2_dtype_bytes(dtype);
}

static int32_t own_kv_heads(const s2_pattern *whole, const s2_share_heads *heads, int32_t n_kv_heads)
{
    return s2_share_kv_heads(n_kv_heads, whole->n_heads / heads->n_heads);
}

static const int32_t *share_row(s2_arena *arena, const int32_t *head_class, const s2_share_heads *heads)
{
    int32_t *const own = S2_NEW(arena, int32_t, heads->n_heads);
    for (int32_t h = 0; own != NULL && h < heads->n_heads; h++)
        own[h] = head_class[heads->heads[h]];
    return own;
}

static s2_status share_layer(s2_arena *arena, const s2_pattern *whole, const s2_layer_class *from,
                             const s2_share_heads *heads, s2_layer_class *out)
{
    *out = *from;
    out->n_kv_heads = own_kv_heads(whole, heads, from->n_kv_heads);
    out->head_class = share_row(arena, from->head_class, heads);
    const int32_t **const readers = S2_NEW(arena, const int32_t *, from->n_readers);
    if (out->head_class == NULL || (readers == NULL && from->n_readers > 0))
        return S2_ENOMEM;
    for (int32_t r = 0; r < from->n_readers; r++)
        if ((readers[r] = share_row(arena, from->readers[r], heads)) == NULL)
            return S2_ENOMEM;
    out->readers = readers;
    return S2_OK;
}

s2_status s2_share_classes(s2_arena *arena, const s2_classes *whole, const s2_share_heads *heads,
                           int32_t class_begin, int32_t class_end, s2_share *out)
{
    const int32_t n_classes = class_end - class_begin;
    s2_layer_class *const layers = S2_NEW(arena, s2_layer_class, n_classes);
    if (layers == NULL && n_classes > 0)
        return S2_ENOMEM;
    for (int32_t c = 0; c < n_classes; c++)
        S2_TRY(share_layer(arena, whole->pattern, &whole->layers[class_begin + c], heads, &layers[c]));
    out->shape = *whole->pattern;
    out->shape.n_heads = heads->n_heads;
    out->classes = *whole;
    out->classes.state_bytes = s2_ceil_div(whole->state_bytes, whole->pattern->n_heads / heads->n_heads);
    out->classes.pattern = &out->shape;
    out->classes.n_layer_classes = n_classes;
    out->classes.layers = layers;
    return S2_OK;
}

static bool depends_on_head(const s2_term *term)
{
    return term->offset.head_coef != 0 || term->offset.kv_coef != 0 ||
           (term->mask != NULL && term->mask->n_heads > 1);
}

/* The term as it applies to head `head` of a layer, whatever the head's new number. */
static s2_status fold_term(s2_arena *arena, const s2_term *term, int32_t layer, int32_t head, int32_t kv,
                           s2_term *out)
{
    *out = *term;
    out->offset = (s2_offset_expr){.constant = term->n > 0 ? s2_term_offset(term, layer, head, kv) : 0};
    if (term->mask == NULL || term->mask->n_heads == 1)
        return S2_OK;
    s2_mask *const plane = S2_NEW(arena, s2_mask, 1);
    if (plane == NULL)
        return S2_ENOMEM;
    *plane = *term->mask;
    plane->n_heads = 1;
    plane->allowed = s2_mask_row(term->mask, head, 0);
    s2_mask_seal(plane);
    out->mask = plane;
    return S2_OK;
}

static s2_status fold_body(s2_arena *arena, const s2_pattern *whole, int32_t body, int32_t layer,
                           int32_t head, s2_body *out, bool *shared)
{
    const s2_body *const from = &whole->bodies[body];
    s2_term *const terms = S2_NEW(arena, s2_term, from->n_terms);
    if (terms == NULL && from->n_terms > 0)
        return S2_ENOMEM;
    *shared = true;
    for (int32_t t = 0; t < from->n_terms; t++) {
        *shared = *shared && !depends_on_head(&from->terms[t]);
        S2_TRY(
            fold_term(arena, &from->terms[t], layer, head, s2_layer_kv_head(whole, layer, head), &terms[t]));
    }
    *out = (s2_body){from->n_terms, terms};
    return S2_OK;
}

s2_status s2_share_pattern(s2_arena *arena, const s2_pattern *whole, s2_phase phase, int32_t layer,
                           const s2_share_heads *heads, s2_pattern *out)
{
    const int32_t n = heads->n_heads;
    s2_body *const bodies = S2_NEW(arena, s2_body, n);
    uint16_t *const body_of = S2_NEW(arena, uint16_t, (int64_t)S2_N_RULE_PHASES * n);
    int32_t *const made_of =
        S2_NEW(arena, int32_t, whole->n_bodies); /* its index + 1, where heads share it */
    if (bodies == NULL || body_of == NULL || made_of == NULL)
        return S2_ENOMEM;
    s2_pattern share = *whole;
    share.n_layers = 1;
    share.n_heads = n;
    share.n_kv_heads = own_kv_heads(whole, heads, s2_pattern_kv_heads(whole, layer));
    share.head_dim = s2_pattern_head_dim(whole, layer);
    share.layer_shapes = NULL;
    share.n_bodies = 0;
    for (int32_t h = 0; h < n; h++) {
        const int32_t body = s2_pattern_body(whole, phase, layer, heads->heads[h]);
        bool shared = true;
        int32_t place = made_of[body] - 1;
        if (place < 0) {
            place = share.n_bodies++;
            S2_TRY(fold_body(arena, whole, body, layer, heads->heads[h], &bodies[place], &shared));
            made_of[body] = shared ? place + 1 : 0;
        }
        body_of[h] = body_of[n + h] = (uint16_t)place;
    }
    share.bodies = bodies;
    share.body_of = body_of;
    *out = share;
    return S2_OK;
}

bool s2_share_alike(const int32_t *head_class, const s2_share_heads *a, const s2_share_heads *b)
{
    for (int32_t h = 0; h < a->n_heads; h++)
        if (head_class[a->heads[h]] != head_class[b->heads[h]])
            return false;
    return true;
}

static bool can_be_shared(const s2_pattern *whole)
{
    bool can = whole->layer_shapes == NULL;
    s2_term_walk walk = {.pattern = whole};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        can = can && s2_term_row_of(term->kind)->nature != S2_NATURE_EXPLICIT;
    return can;
}

s2_status s2_share_whole(s2_arena *arena, const s2_pattern *whole, const s2_share_of *of, s2_pattern *out)
{
    const int32_t n_layers = of->layer_end - of->layer_begin, n_heads = whole->n_heads / of->n_ranks;
    const int64_t n_cells = (int64_t)S2_N_RULE_PHASES * n_layers * n_heads;
    if (!can_be_shared(whole) || n_cells > UINT16_MAX)
        return S2_EUNSUPPORTED;
    s2_body *const bodies = S2_NEW(arena, s2_body, n_cells);
    uint16_t *const body_of = S2_NEW(arena, uint16_t, n_cells);
    s2_pattern share = *whole;
    if (bodies == NULL || body_of == NULL)
        return S2_ENOMEM;
    int32_t n_bodies = 0;
    int64_t cell = 0;
    for (int32_t row = 0; row < S2_N_RULE_PHASES * n_layers; row++) {
        const int32_t layer = row % n_layers;
        const int32_t *const order =
            of->order != NULL ? of->order + (int64_t)layer * whole->n_kv_heads : NULL;
        s2_share_heads heads;
        S2_TRY(s2_share_deal(arena, whole->n_heads, whole->n_kv_heads, of->n_ranks, of->rank, order, &heads));
        S2_TRY(s2_share_pattern(arena, whole, (s2_phase)(row / n_layers), of->layer_begin + layer, &heads,
                                &share));
        memcpy(bodies + n_bodies, share.bodies, (size_t)share.n_bodies * sizeof *bodies);
        for (int32_t head = 0; head < n_heads; head++)
            body_of[cell++] = (uint16_t)(n_bodies + share.body_of[head]);
        n_bodies += share.n_bodies;
    }
    *out = share;
    out->n_layers = n_layers;
    out->n_bodies = n_bodies;
    out->bodies = bodies;
    out->body_of = body_of;
    out->model = ""; /* the model has other heads than these */
    return S2_OK;
}

static bool is_layered(const s2_body *body)
{
    bool layered = false;
    for (int32_t t = 0; t < body->n_terms; t++)
        layered |= body->terms[t].offset.layer_coef != 0 || body->terms[t].kind == S2_TERM_RANDOM;
    return layered;
}

bool s2_share_layers_alike(const s2_pattern *pattern, int32_t a, int32_t b)
{
    if (s2_pattern_kv_heads(pattern, a) != s2_pattern_kv_heads(pattern, b) ||
        s2_pattern_head_dim(pattern, a) != s2_pattern_head_dim(pattern, b) ||
        s2_pattern_state_bytes(pattern, a) != s2_pattern_state_bytes(pattern, b))
        return false;
    for (int32_t phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            const int32_t own = s2_pattern_body(pattern, (s2_phase)phase, a, head);
            if (own != s2_pattern_body(pattern, (s2_phase)phase, b, head) ||
                is_layered(&pattern->bodies[own]))
                return false;
        }
    return true;
}

/* Bodies count layers from the first that is left. */
static void shift_layers(s2_term *term, int64_t begin)
{
    term->offset.constant += term->offset.layer_coef * begin;
}

static s2_status shift_shapes(s2_arena *arena, const s2_pattern *whole, int32_t begin, s2_pattern *out,
                              s2_diag *diag)
{
    if (whole->layer_shapes == NULL)
        return S2_OK;
    s2_layer_shape *const shapes = S2_NEW(arena, s2_layer_shape, out->n_layers);
    if (shapes == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < out->n_layers; layer++) {
        shapes[layer] = whole->layer_shapes[begin + layer];
        if (shapes[layer].kv_layer < begin)
            return s2_diag_set(diag, S2_EUNSUPPORTED, S2_CODE_SHARE, 0, 0,
                               "layer %d reads the keys of layer %d, which would be on another GPU",
                               begin + layer, shapes[layer].kv_layer);
        shapes[layer].kv_layer -= begin;
    }
    out->layer_shapes = shapes;
    return S2_OK;
}

s2_status s2_share_layers(s2_arena *arena, const s2_pattern *whole, int32_t begin, int32_t end,
                          s2_pattern *out, s2_diag *diag)
{
    s2_pattern share;
    S2_TRY(s2_pattern_edited(arena, whole, shift_layers, begin, &share));
    share.n_layers = end - begin;
    const int64_t n_cells = (int64_t)share.n_layers * whole->n_heads;
    uint16_t *const body_of = S2_NEW(arena, uint16_t, S2_N_RULE_PHASES * n_cells);
    if (body_of == NULL)
        return S2_ENOMEM;
    for (int64_t phase = 0; phase < S2_N_RULE_PHASES; phase++)
        memcpy(body_of + phase * n_cells, whole->body_of + (phase * whole->n_layers + begin) * whole->n_heads,
               (size_t)n_cells * sizeof *body_of);
    share.body_of = body_of;
    S2_TRY(shift_shapes(arena, whole, begin, &share, diag));
    *out = share;
    return S2_OK;
}
