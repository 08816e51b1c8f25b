#include "sim/candidate.h"

static bool take_stride(const s2_term *term, s2_candidate *out)
{
    const s2_offset_expr *const offset = &term->offset;
    if (out->stride_blk != 0 || term->n < 2 || term->n > S2_FAST_STRIDE || term->width != 1 ||
        offset->layer_coef != 0 || (offset->head_coef != 0 && offset->kv_coef != 0))
        return false;
    out->stride_blk = (int32_t)term->n;
    out->by_kv = offset->head_coef == 0;
    out->step = (int32_t)((out->by_kv ? offset->kv_coef : offset->head_coef) % term->n);
    out->offset = (int32_t)(offset->constant % term->n);
    return true;
}

static bool take_count(const s2_term *term, int32_t *out)
{
    if (*out != 0 || term->n < 1 || term->n > S2_LIMIT_CONTEXT_TOK)
        return false;
    *out = (int32_t)term->n;
    return true;
}

static bool take_body(const s2_body *body, s2_candidate *out)
{
    *out = (s2_candidate){0};
    for (int32_t t = 0; t < body->n_terms; t++) {
        const s2_term *const term = &body->terms[t];
        const bool known = !term->tok && s2_term_is_whole(term) &&
                           ((term->kind == S2_TERM_LOCAL && take_count(term, &out->local_blk)) ||
                            (term->kind == S2_TERM_SINK && take_count(term, &out->sink_blk)) ||
                            (term->kind == S2_TERM_STRIDE && take_stride(term, out)));
        if (!known)
            return false;
    }
    return out->local_blk > 0;
}

/* Dense KV heads of a layer, which must be the last ones behind those of the other body; -1 when they are not. */
static int32_t dense_kv_heads(const s2_pattern *pattern, const uint16_t *row, int32_t dense_body,
                              int32_t other)
{
    const int32_t n_group = pattern->n_heads / pattern->n_kv_heads;
    int32_t n_dense = 0;
    while (n_dense < pattern->n_heads && row[pattern->n_heads - 1 - n_dense] == dense_body)
        n_dense++;
    for (int32_t head = 0; head < pattern->n_heads - n_dense; head++)
        if (row[head] != other)
            return -1;
    return n_dense % n_group == 0 ? n_dense / n_group : -1;
}

static bool take_layers(const s2_pattern *pattern, int32_t dense_body, int32_t other, s2_candidate *out)
{
    int32_t n_dense_kv = -1;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const uint16_t *const row = pattern->body_of + (int64_t)layer * pattern->n_heads;
        if (s2_pattern_is_state_layer(pattern, layer)) {
            out->n_state_layers++;
            continue;
        }
        const int32_t own = dense_kv_heads(pattern, row, dense_body, other);
        if (own == pattern->n_kv_heads) {
            out->n_dense_layers++;
            continue;
        }
        if (own < 0 || (n_dense_kv >= 0 && own != n_dense_kv))
            return false;
        n_dense_kv = own;
    }
    out->n_dense_kv = n_dense_kv;
    return n_dense_kv >= 0;
}

/* Layers that read keys have one shape, and keep their own. */
static bool are_alike(const s2_pattern *pattern)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (s2_pattern_kv_heads(pattern, layer) != pattern->n_kv_heads ||
            s2_pattern_head_dim(pattern, layer) != pattern->head_dim ||
            s2_pattern_kv_layer(pattern, layer) != layer)
            return false;
    return true;
}

bool s2_candidate_of(const s2_pattern *pattern, s2_candidate *out)
{
    int32_t dense_body = -1, other = -1, n_others = 0;
    if (!pattern->causal || !are_alike(pattern) || pattern->n_bodies > 3 || s2_pattern_has_phases(pattern))
        return false;
    for (int32_t body = 0; body < pattern->n_bodies; body++) {
        if (s2_body_is_dense(&pattern->bodies[body])) {
            dense_body = body;
        } else if (!s2_body_is_none(&pattern->bodies[body])) {
            other = body;
            n_others++;
        }
    }
    return n_others == 1 && take_body(&pattern->bodies[other], out) &&
           take_layers(pattern, dense_body, other, out);
}
