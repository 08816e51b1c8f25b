#include "sim/share.h"

bool s2_share_is_even(const s2_pattern *pattern, int32_t n_ranks)
{
    const int32_t n_kv = pattern->n_kv_heads;
    return n_ranks >= 1 && pattern->n_heads % n_ranks == 0 && (n_kv % n_ranks == 0 || n_ranks % n_kv == 0);
}

s2_status s2_share_deal(s2_arena *arena, const s2_pattern *pattern, int32_t n_ranks, int32_t rank,
                        const int32_t *order, s2_share_heads *out)
{
    const int32_t n = pattern->n_heads / n_ranks, n_kv = pattern->n_kv_heads;
    const int32_t group = pattern->n_heads / n_kv;
    int32_t *const heads = S2_NEW(arena, int32_t, n);
    if (heads == NULL)
        return S2_ENOMEM;
    for (int32_t h = 0; h < n; h++) {
        const int32_t place = rank * n + h, kv = place / group;
        heads[h] = (order != NULL ? order[kv] : kv) * group + place % group;
    }
    *out = (s2_share_heads){n, n_kv > n_ranks ? n_kv / n_ranks : 1, heads};
    return S2_OK;
}

s2_status s2_share_classes(s2_arena *arena, const s2_classes *whole, const s2_share_heads *heads,
                           int32_t class_begin, int32_t class_end, s2_share *out)
{
    const int32_t n_classes = class_end - class_begin;
    s2_layer_class *const layers = S2_NEW(arena, s2_layer_class, n_classes);
    int32_t *const head_class = S2_NEW(arena, int32_t, (int64_t)n_classes * heads->n_heads);
    if (layers == NULL || head_class == NULL)
        return S2_ENOMEM;
    for (int32_t c = 0; c < n_classes; c++) {
        const s2_layer_class *const from = &whole->layers[class_begin + c];
        int32_t *const own = head_class + (int64_t)c * heads->n_heads;
        for (int32_t h = 0; h < heads->n_heads; h++)
            own[h] = from->head_class[heads->heads[h]];
        layers[c] = (s2_layer_class){from->first_layer, from->n_layers, own};
    }
    out->shape = *whole->pattern;
    out->shape.n_heads = heads->n_heads;
    out->shape.n_kv_heads = heads->n_kv_heads;
    out->classes = *whole;
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

/* The term as head `head` of a layer has it, whatever the head's number will be. */
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
        S2_TRY(fold_term(arena, &from->terms[t], layer, head, s2_pattern_kv_head(whole, head), &terms[t]));
    }
    *out = (s2_body){from->n_terms, terms};
    return S2_OK;
}

s2_status s2_share_pattern(s2_arena *arena, const s2_pattern *whole, s2_phase phase, int32_t layer,
                           const s2_share_heads *heads, s2_pattern *out)
{
    const int32_t n = heads->n_heads;
    s2_body *const bodies = S2_NEW(arena, s2_body, n);
    uint16_t *const body_of = S2_NEW(arena, uint16_t, (int64_t)S2_N_PHASES * n);
    int32_t *const made_of =
        S2_NEW(arena, int32_t, whole->n_bodies); /* its place + 1, where heads share it */
    if (bodies == NULL || body_of == NULL || made_of == NULL)
        return S2_ENOMEM;
    s2_pattern share = *whole;
    share.n_layers = 1;
    share.n_heads = n;
    share.n_kv_heads = heads->n_kv_heads;
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
