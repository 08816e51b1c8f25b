#include "coverage/repair.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

typedef struct finder {
    s2_arena *arena;
    const s2_pattern *pattern;
    const s2_finding *finding;
    s2_repair *repairs;
    int32_t n;
} finder;

/* Whether the property holds for the same scope in the changed pattern. */
static s2_status would_hold(const finder *f, const s2_pattern *changed, bool *holds)
{
    const s2_prove_options options = {.n_tok = f->finding->scope_tok, .work_limit = 20000000};
    s2_finding after;
    S2_TRY(s2_prove(f->arena, changed, &f->finding->requirement, 1, &options, &after));
    *holds = after.verdict == S2_HOLDS;
    return S2_OK;
}

static s2_status keep(finder *f, const s2_pattern *changed, s2_repair repair)
{
    if (f->n == S2_REPAIRS)
        return S2_OK;
    repair.pattern = *changed;
    f->repairs[f->n++] = repair;
    return S2_OK;
}

/* ---- edits of every term */

static void edit_stride(s2_term *term, int64_t stride)
{
    if (term->kind == S2_TERM_STRIDE)
        term->n = s2_min_i64(term->n, stride);
}

static void edit_rotate_by_head(s2_term *term, int64_t arg)
{
    (void)arg;
    if (term->kind == S2_TERM_STRIDE && term->offset.head_coef == 0) {
        term->offset.head_coef = term->offset.kv_coef > 0 ? term->offset.kv_coef : (int32_t)term->width;
        term->offset.kv_coef = 0;
    }
}

/* Only strides whose phase is the same in every head. */
static void edit_rotate_by_kv(s2_term *term, int64_t arg)
{
    (void)arg;
    if (term->kind == S2_TERM_STRIDE && term->offset.head_coef == 0 && term->offset.kv_coef == 0)
        term->offset.kv_coef = (int32_t)term->width;
}

/* Heads whose offsets lie closer than the width read in part the same. */
static void edit_spread(s2_term *term, int64_t arg)
{
    (void)arg;
    if (term->kind != S2_TERM_STRIDE)
        return;
    if (term->offset.head_coef > 0)
        term->offset.head_coef = (int32_t)term->width;
    if (term->offset.kv_coef > 0)
        term->offset.kv_coef = (int32_t)term->width;
}

static void edit_dilated_to_stride(s2_term *term, int64_t arg)
{
    (void)arg;
    if (term->kind == S2_TERM_DILATED)
        term->kind = S2_TERM_STRIDE;
}

static int64_t largest_stride(const s2_pattern *pattern)
{
    int64_t largest = 0;
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (term->kind == S2_TERM_STRIDE)
            largest = s2_max_i64(largest, term->n);
    return largest;
}

static int64_t largest_width(const s2_pattern *pattern)
{
    int64_t largest = 1;
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (term->kind == S2_TERM_STRIDE)
            largest = s2_max_i64(largest, term->width);
    return largest;
}

static bool same_offset(const s2_offset_expr *a, const s2_offset_expr *b)
{
    return a->constant == b->constant && a->head_coef == b->head_coef && a->kv_coef == b->kv_coef &&
           a->layer_coef == b->layer_coef;
}

/* The stride that stands for all of them, or NULL: a line can state one change of one width, or of one phase. */
static const s2_term *common_stride(const s2_pattern *pattern, bool one_phase)
{
    const s2_term *first = NULL;
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;) {
        if (term->kind != S2_TERM_STRIDE)
            continue;
        first = first == NULL ? term : first;
        if (term->width != first->width || term->n != first->n ||
            (one_phase && !same_offset(&term->offset, &first->offset)))
            return NULL;
    }
    return first;
}

/* "stride 8", "stride 64 width 32"; returns what was written. */
static int put_stride(int64_t stride, int64_t width, char *out, size_t cap)
{
    return width > 1 ? snprintf(out, cap, "stride %lld width %lld", (long long)stride, (long long)width)
                     : snprintf(out, cap, "stride %lld", (long long)stride);
}

static void put_factor(const char *word, int64_t factor, char *out, size_t cap)
{
    const size_t n = strlen(out);
    const char *const before = n > 6 ? "+" : "";
    if (factor == 1)
        snprintf(out + n, cap - n, "%s%s", before, word);
    else if (factor > 1)
        snprintf(out + n, cap - n, "%s%s*%lld", before, word, (long long)factor);
}

/* The whole phase of a changed stride: "phase kv", "phase head*2+1". */
static void put_phase(const s2_pattern *changed, char *out, size_t cap)
{
    const s2_offset_expr *const offset = &common_stride(changed, true)->offset;
    snprintf(out, cap, "phase ");
    put_factor("head", offset->head_coef, out, cap);
    put_factor("kv", offset->kv_coef, out, cap);
    put_factor("layer", offset->layer_coef, out, cap);
    if (offset->constant > 0) {
        const size_t n = strlen(out);
        snprintf(out + n, cap - n, "+%lld", (long long)offset->constant);
    }
}

/* ---- what is tried */

/*
 * The largest smaller stride under which the pattern holds, rotated if `rotate` is given; 0: none. One that is
 * larger than what the heads read of it together cannot hold, and one of its own width is dense.
 */
static s2_status find_stride(const finder *f, s2_term_edit rotate, s2_pattern *out, int64_t *stride)
{
    enum { MOST_TRIED = 256 };
    const int64_t largest = largest_stride(f->pattern), width = largest_width(f->pattern);
    const int64_t most = s2_min_i64(f->pattern->n_heads * width, largest - 1);
    bool holds = false;
    for (*stride = s2_min_i64(most, width + MOST_TRIED); *stride > width; --*stride) {
        S2_TRY(s2_pattern_edited(f->arena, f->pattern, edit_stride, *stride, out));
        if (rotate != NULL)
            S2_TRY(s2_pattern_edited(f->arena, out, rotate, 0, out));
        S2_TRY(would_hold(f, out, &holds));
        if (holds)
            return S2_OK;
    }
    *stride = 0;
    return S2_OK;
}

static s2_status try_strides(finder *f)
{
    s2_pattern changed;
    s2_repair repair = {.kind = S2_REPAIR_STRIDE,
                        .stride_before = largest_stride(f->pattern),
                        .width = largest_width(f->pattern)};
    S2_TRY(find_stride(f, NULL, &changed, &repair.stride));
    if (repair.stride == 0)
        return S2_OK;
    put_stride(repair.stride, repair.width, repair.change, sizeof repair.change);
    return keep(f, &changed, repair);
}

static s2_status try_edit(finder *f, s2_term_edit edit, s2_repair repair)
{
    s2_pattern changed;
    bool holds;
    S2_TRY(s2_pattern_edited(f->arena, f->pattern, edit, 0, &changed));
    S2_TRY(would_hold(f, &changed, &holds));
    return holds ? keep(f, &changed, repair) : S2_OK;
}

/* For a stride that is too long even when rotated, or spread, over the heads: shorten and edit it at once. */
static s2_status try_rotated_strides(finder *f, s2_term_edit edit)
{
    s2_pattern changed;
    s2_repair repair = {.kind = S2_REPAIR_STRIDE_AND_ROTATE, .width = largest_width(f->pattern)};
    S2_TRY(find_stride(f, edit, &changed, &repair.stride));
    if (repair.stride == 0)
        return S2_OK;
    const int n = put_stride(repair.stride, repair.width, repair.change, sizeof repair.change);
    repair.change[n] = ' ';
    put_phase(&changed, repair.change + n + 1, sizeof repair.change - (size_t)n - 1);
    return keep(f, &changed, repair);
}

static bool fails(const s2_finding *finding, int32_t layer)
{
    for (int32_t nth = 0; nth < finding->n_failing_layers; nth++)
        if (finding->failing_layers[nth] == layer)
            return true;
    return false;
}

/* Bodies [n_bodies, 2 n_bodies) are the old ones plus `extra`, or only `extra`. */
static s2_status add_bodies(const finder *f, s2_term extra, bool keep_old, s2_body *bodies)
{
    const s2_pattern *const pattern = f->pattern;
    memcpy(bodies, pattern->bodies, (size_t)pattern->n_bodies * sizeof *bodies);
    for (int32_t body = 0; body < pattern->n_bodies; body++) {
        const int32_t n_old = keep_old ? pattern->bodies[body].n_terms : 0;
        s2_term *const terms = S2_NEW(f->arena, s2_term, n_old + 1);
        if (terms == NULL)
            return S2_ENOMEM;
        if (n_old > 0)
            memcpy(terms, pattern->bodies[body].terms, (size_t)n_old * sizeof *terms);
        terms[n_old] = extra;
        bodies[pattern->n_bodies + body] = (s2_body){n_old + 1, terms};
    }
    return S2_OK;
}

/* A copy in which the failing layers' heads from `begin` on get one more body, `extra`. */
static s2_status with_body(const finder *f, int32_t begin, s2_term extra, bool keep_old, s2_pattern *out)
{
    const s2_pattern *const pattern = f->pattern;
    const int64_t n = (int64_t)S2_N_RULE_PHASES * pattern->n_layers * pattern->n_heads;
    if (pattern->n_bodies * 2 >= UINT16_MAX)
        return S2_ELIMIT;
    s2_body *const bodies = S2_NEW(f->arena, s2_body, 2 * pattern->n_bodies);
    uint16_t *const body_of = S2_NEW(f->arena, uint16_t, n);
    if (bodies == NULL || body_of == NULL)
        return S2_ENOMEM;
    S2_TRY(add_bodies(f, extra, keep_old, bodies));
    for (int64_t at = 0; at < n; at++) {
        const int32_t layer = (int32_t)(at / pattern->n_heads % pattern->n_layers);
        const bool given = at % pattern->n_heads >= begin && fails(f->finding, layer);
        body_of[at] = (uint16_t)(pattern->body_of[at] + (given ? pattern->n_bodies : 0));
    }
    *out = *pattern;
    out->bodies = bodies;
    out->n_bodies = 2 * pattern->n_bodies;
    out->body_of = body_of;
    return S2_OK;
}

static s2_status try_body(finder *f, int32_t begin, s2_term extra, bool keep_old, s2_repair repair)
{
    s2_pattern changed;
    bool holds;
    const s2_status status = with_body(f, begin, extra, keep_old, &changed);
    if (status == S2_ELIMIT)
        return S2_OK;
    S2_TRY(status);
    S2_TRY(would_hold(f, &changed, &holds));
    return holds ? keep(f, &changed, repair) : S2_OK;
}

static bool rotates(const s2_pattern *pattern)
{
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (term->offset.head_coef + term->offset.kv_coef > 0)
            return true;
    return false;
}

/* An edit of the one phase that all strides have. */
static s2_status try_phase(finder *f, s2_term_edit edit, s2_repair repair)
{
    s2_pattern changed;
    bool holds;
    S2_TRY(s2_pattern_edited(f->arena, f->pattern, edit, 0, &changed));
    S2_TRY(would_hold(f, &changed, &holds));
    if (!holds)
        return S2_OK;
    put_phase(&changed, repair.change, sizeof repair.change);
    return keep(f, &changed, repair);
}

static s2_status try_rotations(finder *f)
{
    const s2_pattern *const pattern = f->pattern;
    const bool grouped = pattern->n_heads > pattern->n_kv_heads, rotated = rotates(pattern);
    const s2_term_edit edit = rotated ? edit_spread : edit_rotate_by_kv;
    const int32_t before = f->n;
    if (!rotated || largest_width(pattern) > 1)
        S2_TRY(try_phase(f, edit, (s2_repair){.kind = rotated ? S2_REPAIR_SPREAD : S2_REPAIR_ROTATE}));
    if (f->n == before && (rotated ? largest_width(pattern) > 1 : pattern->n_kv_heads > 1))
        S2_TRY(try_rotated_strides(f, edit));
    if (grouped)
        S2_TRY(try_phase(f, edit_rotate_by_head, (s2_repair){.kind = S2_REPAIR_ROTATE, .by_head = true}));
    return S2_OK;
}

/* Give a pattern without a stride one that is divided among the KV heads. */
static s2_status try_new_stride(finder *f)
{
    s2_term stride = s2_term_init(S2_TERM_STRIDE, f->pattern->n_kv_heads);
    s2_repair repair = {.kind = S2_REPAIR_NEW_STRIDE, .stride = f->pattern->n_kv_heads};
    stride.offset.kv_coef = 1;
    snprintf(repair.change, sizeof repair.change, "| stride %d phase kv", f->pattern->n_kv_heads);
    return try_body(f, 0, stride, true, repair);
}

static s2_status repair_union(finder *f)
{
    const s2_pattern *const pattern = f->pattern;
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    const bool differ = s2_pattern_layers_differ(pattern);
    s2_repair dense = {.kind = S2_REPAIR_DENSE_KV, .kv_head = pattern->n_kv_heads - 1};
    if (largest_stride(pattern) > 0) {
        if (common_stride(pattern, false) != NULL)
            S2_TRY(try_strides(f));
        if (common_stride(pattern, true) != NULL)
            S2_TRY(try_rotations(f));
    } else if (!differ && pattern->n_kv_heads > 1) {
        S2_TRY(try_new_stride(f));
    }
    if (differ)
        return S2_OK; /* layers with different KV heads have no common numbers for them */
    snprintf(dense.change, sizeof dense.change, "kv %d: dense", dense.kv_head);
    return try_body(f, pattern->n_heads - group, s2_term_init(S2_TERM_DENSE, 0), false, dense);
}

static s2_status find(finder *f)
{
    switch (f->finding->requirement.property) {
    case S2_UNION: return repair_union(f);
    case S2_RANKS: return common_stride(f->pattern, false) != NULL ? try_strides(f) : S2_OK;
    case S2_ROWS:
        return try_body(f, 0, s2_term_init(S2_TERM_LOCAL, 1), true,
                        (s2_repair){.kind = S2_REPAIR_LOCAL, .change = "| local 1"});
    case S2_KV:
        return try_edit(f, edit_dilated_to_stride,
                        (s2_repair){.kind = S2_REPAIR_STRIDE_FOR_DILATED, .change = "stride for dilated"});
    case S2_GROUP:
    case S2_SHARDS:
    case S2_DEPTH:
    case S2_N_PROPERTIES: break;
    }
    return S2_OK;
}

s2_status s2_repairs_find(s2_arena *arena, const s2_pattern *pattern, const s2_finding *finding,
                          s2_repair repairs[S2_REPAIRS], int32_t *n)
{
    finder f = {.arena = arena, .pattern = pattern, .finding = finding, .repairs = repairs};
    S2_TRY(find(&f));
    *n = f.n;
    return S2_OK;
}
