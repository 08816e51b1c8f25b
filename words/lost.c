#include "words/lost.h"

#include <string.h>

#include "base/alloc.h"
#include "pattern/layers.h"
#include "pattern/view.h"
#include "words/size.h"

enum { SHOWN_RANGES = 12 };

/* The keys that some of the heads read from the query, one byte each. */
typedef struct reach {
    const s2_pattern *pattern;
    s2_phase phase;
    int64_t q_tok;
    int64_t n_keys; /* keys up to the query */
    uint8_t *read;
    s2_run *runs;
    int64_t runs_cap;
    s2_arena arena;
} reach;

static s2_status add_head(reach *r, int32_t layer, int32_t head)
{
    s2_view view;
    int64_t n = 0;
    const s2_arena_mark_t mark = s2_arena_mark(&r->arena);
    s2_status status = s2_view_build(&r->arena, r->pattern, r->phase, layer, head, S2_AT_LEAST, &view);
    if (status == S2_OK)
        status = s2_view_row_whole(&view, r->q_tok, r->n_keys, NULL, &r->runs, &r->runs_cap, &n);
    for (int64_t run = 0; run < n && status == S2_OK; run++)
        memset(r->read + r->runs[run].begin, 1, (size_t)(r->runs[run].end - r->runs[run].begin));
    s2_arena_rewind(&r->arena, mark);
    return status;
}

static s2_status read_heads(reach *r, int32_t layer, int32_t begin, int32_t end)
{
    memset(r->read, 0, (size_t)r->n_keys);
    for (int32_t head = begin; head < end; head++)
        S2_TRY(add_head(r, layer, head));
    return S2_OK;
}

/* "0-63, 128-191, ... (4096 of 8192 keys)"; false: there are none. */
static bool put_ranges(const reach *r, s2_buf *buf)
{
    int64_t n_lost = 0, n_ranges = 0;
    for (int64_t begin = 0, end; begin < r->n_keys; begin = end) {
        for (end = begin; end < r->n_keys && r->read[end] == r->read[begin]; end++)
            n_lost += r->read[end] == 0;
        if (r->read[begin] != 0)
            continue;
        if (n_ranges < SHOWN_RANGES)
            s2_buf_printf(buf, end - begin == 1 ? "%s%lld" : "%s%lld-%lld", n_ranges > 0 ? ", " : "",
                          (long long)begin, (long long)end - 1);
        n_ranges++;
    }
    if (n_ranges > SHOWN_RANGES)
        s2_buf_printf(buf, " and %lld ranges more", (long long)(n_ranges - SHOWN_RANGES));
    s2_buf_printf(buf, n_lost > 0 ? " (%lld of %lld keys)\n" : "none\n", (long long)n_lost,
                  (long long)r->n_keys);
    return n_lost > 0;
}

static s2_status put_layer(reach *r, int32_t layer, const int32_t *first_alike, s2_buf *buf)
{
    const s2_pattern *const p = r->pattern;
    const int32_t n_kv = s2_pattern_kv_heads(p, layer), group = p->n_heads / n_kv;
    S2_TRY(read_heads(r, layer, 0, p->n_heads));
    if (s2_pattern_has_phases(p))
        s2_buf_printf(buf, "%s, ", s2_phase_word(r->phase));
    (void)s2_layers_print_alike(p, first_alike, layer, buf);
    if (s2_pattern_is_state_layer(p, layer)) {
        s2_buf_puts(buf, ": no key is read; what a state carries is not counted\n");
        return buf->status;
    }
    s2_buf_printf(buf, ", query %lld: unread by every head: ", (long long)r->q_tok);
    if (put_ranges(r, buf) && s2_pattern_chooses(p, r->phase, layer))
        s2_buf_puts(buf, "  pages, heavy and topk may choose some of these at run time\n");
    for (int32_t kv = 0; kv < n_kv; kv++) {
        S2_TRY(read_heads(r, layer, kv * group, (kv + 1) * group));
        s2_buf_printf(buf, "  KV head %-3d unread: ", (int)kv);
        (void)put_ranges(r, buf);
    }
    return buf->status;
}

/* Layers that read the same are printed once. */
static s2_status put_layers(reach *r, s2_buf *buf)
{
    const s2_pattern *const p = r->pattern;
    int32_t *const first_alike = S2_NEW(&r->arena, int32_t, p->n_layers);
    if (first_alike == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_layers_alike(&r->arena, p, 1U << r->phase, first_alike));
    for (int32_t layer = 0; layer < p->n_layers; layer++)
        if (first_alike[layer] == layer)
            S2_TRY(put_layer(r, layer, first_alike, buf));
    return S2_OK;
}

s2_status s2_lost_print(const s2_pattern *pattern, int64_t q_tok, s2_buf *buf)
{
    const int n_phases = s2_pattern_has_phases(pattern) ? S2_N_RULE_PHASES : 1;
    reach r = {.pattern = pattern, .q_tok = q_tok, .n_keys = q_tok + 1};
    r.read = s2_malloc((size_t)r.n_keys);
    s2_status status = r.read != NULL ? S2_OK : S2_ENOMEM;
    for (int phase = 0; phase < n_phases && status == S2_OK; phase++) {
        r.phase = (s2_phase)phase;
        status = put_layers(&r, buf);
    }
    s2_free(r.read);
    s2_free(r.runs);
    s2_arena_release(&r.arena);
    return status == S2_OK ? buf->status : status;
}
