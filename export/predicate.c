#include "export/predicate.h"

#include "pattern/parse.h"

s2_status s2_predicate_check(const s2_target *target)
{
    s2_term_walk walk = {.pattern = target->pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (s2_term_row_of(term->kind)->nature == S2_NATURE_EXPLICIT)
            return s2_target_refuse(target, "a %s term has no predicate; csr, flashinfer and bsa hold it",
                                    s2_term_word(term->kind));
    return S2_OK;
}

static void py_unit(const s2_pattern *pattern, bool tok, const char *name, s2_buf *buf)
{
    if (tok || pattern->block_tok == 1)
        s2_buf_puts(buf, name);
    else
        s2_buf_printf(buf, "%s // %d", name, pattern->block_tok);
}

static void py_range(const char *expr, s2_range range, s2_buf *buf)
{
    if (range.begin > 0)
        s2_buf_printf(buf, " & (%s >= %lld)", expr, (long long)range.begin);
    if (range.end != S2_OPEN)
        s2_buf_printf(buf, " & (%s < %lld)", expr, (long long)range.end);
}

static void py_when(const s2_pattern *pattern, const s2_term *term, s2_buf *buf)
{
    for (int unit = 0; unit < S2_N_UNITS; unit++) {
        s2_buf q = {0}, k = {0}, distance = {0};
        py_unit(pattern, unit == S2_UNIT_TOK, "q", &q);
        py_unit(pattern, unit == S2_UNIT_TOK, "k", &k);
        s2_buf_printf(&distance, "abs((%s) - (%s))", s2_part_of(buf, &q), s2_part_of(buf, &k));
        py_range(s2_part_of(buf, &distance), term->when[S2_WHEN_DISTANCE][unit], buf);
        py_range(s2_part_of(buf, &k), term->when[S2_WHEN_KEY][unit], buf);
        py_range(s2_part_of(buf, &q), term->when[S2_WHEN_QUERY][unit], buf);
        s2_buf_release(&q);
        s2_buf_release(&k);
        s2_buf_release(&distance);
    }
}

static void py_list(const char *expr, const s2_span_list *list, s2_buf *buf)
{
    s2_buf_puts(buf, "(");
    for (int32_t s = 0; s < list->n_spans; s++) {
        const s2_span span = list->spans[s];
        s2_buf_printf(buf, "%s((%s >= %lld)", s != 0 ? " | " : "", expr, (long long)span.begin);
        if (span.end != S2_OPEN)
            s2_buf_printf(buf, " & (%s < %lld)", expr, (long long)span.end);
        if (span.step > 1)
            s2_buf_printf(buf, " & ((%s - %lld) %% %lld == 0)", expr, (long long)span.begin,
                          (long long)span.step);
        s2_buf_puts(buf, ")");
    }
    s2_buf_puts(buf, ")");
}

static void py_offset(const s2_pattern *pattern, const s2_offset_expr *offset, s2_buf *buf)
{
    s2_buf_printf(buf, "%lld", (long long)offset->constant);
    if (offset->head_coef != 0)
        s2_buf_printf(buf, " + %lld * h", (long long)offset->head_coef);
    if (offset->kv_coef != 0)
        s2_buf_printf(buf, " + %lld * (h // %d)", (long long)offset->kv_coef,
                      pattern->n_heads / pattern->n_kv_heads);
    if (offset->layer_coef != 0)
        s2_buf_printf(buf, " + %lld * layer", (long long)offset->layer_coef);
}

/* One term as an expression in layer, h, q, k; comparisons are in brackets, since & and | bind tighter. */
static void py_term(const s2_pattern *pattern, const s2_term *term, s2_buf *buf)
{
    s2_buf q_text = {0}, k_text = {0};
    py_unit(pattern, term->tok, "q", &q_text);
    py_unit(pattern, term->tok, "k", &k_text);
    const char *const q = s2_part_of(buf, &q_text), *const k = s2_part_of(buf, &k_text);
    s2_buf_puts(buf, "(");
    switch (term->kind) {
    case S2_TERM_LOCAL: s2_buf_printf(buf, "(abs((%s) - (%s)) < %lld)", q, k, (long long)term->n); break;
    case S2_TERM_SINK: s2_buf_printf(buf, "((%s) < %lld)", k, (long long)term->n); break;
    case S2_TERM_STRIDE:
    case S2_TERM_DILATED:
        if (term->kind == S2_TERM_STRIDE)
            s2_buf_printf(buf, "(((%s) + ", k);
        else
            s2_buf_printf(buf, "(((%s) - (%s) + ", q, k);
        py_offset(pattern, &term->offset, buf);
        s2_buf_printf(buf, ") %% %lld < %lld)", (long long)term->n, (long long)term->width);
        break;
    case S2_TERM_COLUMNS: py_list(k, &term->list, buf); break;
    case S2_TERM_ROWS: py_list(q, &term->list, buf); break;
    case S2_TERM_CHUNK:
        s2_buf_printf(buf, "((%s) // %lld == (%s) // %lld)", q, (long long)term->n, k, (long long)term->n);
        break;
    case S2_TERM_NONE: s2_buf_puts(buf, "(q < 0)"); break;
    case S2_TERM_DENSE:
    case S2_TERM_PAGES:
    case S2_TERM_HEAVY:
    case S2_TERM_TOPK: s2_buf_puts(buf, "(q >= 0)"); break;
    case S2_TERM_RANDOM:
    case S2_TERM_MASK: break; /* refused earlier */
    }
    py_when(pattern, term, buf);
    s2_buf_puts(buf, ")");
    s2_buf_release(&q_text);
    s2_buf_release(&k_text);
}

static void py_body(const s2_pattern *pattern, int32_t index, s2_buf *buf)
{
    const s2_body *const body = &pattern->bodies[index];
    s2_buf_printf(buf, "def body_%d(layer, h, q, k):\n    # ", index);
    s2_body_print(body, buf);
    s2_buf_puts(buf, "\n    return ");
    if (pattern->causal)
        s2_buf_puts(buf, "(k <= q) & ");
    s2_buf_puts(buf, "(");
    for (int32_t t = 0; t < body->n_terms; t++) {
        s2_buf_puts(buf, t != 0 ? "\n        | " : "");
        py_term(pattern, &body->terms[t], buf);
    }
    s2_buf_puts(buf, ")\n\n\n");
}

static void py_tables(const s2_target *target, const s2_layouts *layouts, s2_buf *buf)
{
    const s2_pattern *const pattern = target->pattern;
    s2_buf_printf(buf, "N_LAYERS, N_HEADS, N_KV_HEADS, HEAD_DIM = %d, %d, %d, %d\n", pattern->n_layers,
                  pattern->n_heads, pattern->n_kv_heads, pattern->head_dim);
    s2_buf_printf(buf, "LEN, BLOCK = %lld, %d\n", (long long)layouts->n_tok, layouts->block_tok);
    s2_buf_puts(buf, "LAYER_CLASS = [");
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        s2_buf_printf(buf, "%s%d", layer != 0 ? ", " : "", layouts->class_of[layer]);
    s2_buf_puts(buf, "]\nBODY_OF = [  # [layer][head]\n");
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        s2_buf_puts(buf, "    [");
        for (int32_t head = 0; head < pattern->n_heads; head++)
            s2_buf_printf(buf, "%s%d", head != 0 ? ", " : "",
                          s2_pattern_body(pattern, S2_PREFILL, layer, head));
        s2_buf_puts(buf, "],\n");
    }
    s2_buf_puts(buf, "]\n\n\n");
}

static const char py_mask_mod[] = "def make_mask_mod(layer, device=None):\n"
                                  "    \"\"\"mask_mod(b, h, q_idx, kv_idx) of one layer. With device the "
                                  "table of bodies is a tensor there,\n"
                                  "    as FlexAttention needs; without, plain integers work too.\"\"\"\n"
                                  "    bodies = sorted(set(BODY_OF[layer]))\n"
                                  "    if len(bodies) == 1:\n"
                                  "        only = BODIES[bodies[0]]\n"
                                  "        return lambda b, h, q, k: only(layer, h, q, k)\n"
                                  "    table = BODY_OF[layer]\n"
                                  "    if device is not None:\n"
                                  "        import torch\n"
                                  "        table = torch.tensor(table, dtype=torch.int32, device=device)\n\n"
                                  "    def mask_mod(b, h, q, k):\n"
                                  "        which = table[h]\n"
                                  "        out = q < 0\n"
                                  "        for n in bodies:\n"
                                  "            out = out | ((which == n) & BODIES[n](layer, h, q, k))\n"
                                  "        return out\n\n"
                                  "    return mask_mod\n\n\n";

void s2_predicate_print(const s2_target *target, const s2_layouts *layouts, s2_buf *buf)
{
    const s2_pattern *const pattern = target->pattern;
    py_tables(target, layouts, buf);
    for (int32_t b = 0; b < pattern->n_bodies; b++)
        py_body(pattern, b, buf);
    s2_buf_puts(buf, "BODIES = [");
    for (int32_t b = 0; b < pattern->n_bodies; b++)
        s2_buf_printf(buf, "%sbody_%d", b != 0 ? ", " : "", b);
    s2_buf_puts(buf, "]\n\n\n");
    s2_buf_puts(buf, py_mask_mod);
}
