#include "draw/picture.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/work.h"
#include "pattern/viewset.h"

/* ---- reads of several heads at once ------------------------------------------------------------------ */

typedef struct s2_readers {
    s2_view *views;
    int32_t n;
    s2_run *runs;
    int64_t cap;
    int64_t step;      /* queries that read alike; the last one represents them */
    bool chosen;       /* some head chooses keys at run time: its runs are what it certainly reads */
    int64_t work_left; /* base/work.h */
} s2_readers;

static s2_status readers_build(s2_arena *arena, const s2_pattern *pattern, int32_t layer, int32_t head_begin,
                               int32_t head_end, s2_readers *out)
{
    s2_view_shape shape;
    s2_readers readers = {.views = S2_NEW(arena, s2_view, head_end - head_begin),
                          .n = head_end - head_begin,
                          .work_left = S2_WORK_STEPS};
    if (readers.views == NULL)
        return S2_ENOMEM;
    s2_view_shape_init(&shape);
    for (int32_t head = head_begin; head < head_end; head++) {
        s2_view *const view = &readers.views[head - head_begin];
        S2_TRY(s2_view_build(arena, pattern, S2_PREFILL, layer, head, S2_AT_LEAST, view));
        s2_view_shape_add(&shape, view);
        readers.chosen = readers.chosen || view->has_dynamic;
    }
    readers.step = shape.block_aligned ? pattern->block_tok : 1;
    *out = readers;
    return S2_OK;
}

/* The keys of one query through one view; n: the number of runs. */
static s2_status readers_row(s2_readers *readers, int32_t which, int64_t q_tok, int64_t n_tok, int64_t *n)
{
    const s2_view *const view = &readers->views[which];
    return s2_view_row_whole(view, q_tok, n_tok, &readers->work_left, &readers->runs, &readers->cap, n);
}

/* ---- grids -------------------------------------------------------------------------------------------- */

typedef struct s2_filler {
    s2_picture *picture;
    s2_readers readers;
    int64_t n_tok;
    bool causal;
    bool by_head;   /* each view's reads count, else the pairs that some view reads */
    uint8_t *seen;  /* [key]: read by some view, for one query */
    int64_t *reads; /* [column]: reads of this row of cells */
    int64_t *pairs; /* [column]: pairs of this row of cells */
} s2_filler;

/* Keys that are cleared, set or counted in the time of a step. */
enum { STEP_KEYS = 64 };

/* Steps for the keys of runs and the columns in which they lie. */
static int64_t runs_work(const s2_filler *filler, int64_t n_runs)
{
    int64_t n_keys = 0;
    for (int64_t r = 0; r < n_runs; r++)
        n_keys += filler->readers.runs[r].end - filler->readers.runs[r].begin;
    return n_keys / STEP_KEYS + n_keys / filler->picture->col_tok;
}

static void add_runs(s2_filler *filler, int64_t n_runs)
{
    for (int64_t r = 0; r < n_runs; r++) {
        const s2_run run = filler->readers.runs[r];
        memset(filler->seen + run.begin, 1, (size_t)(run.end - run.begin));
        for (int64_t at = run.begin; at < run.end;) {
            const int64_t col = at / filler->picture->col_tok, end = (col + 1) * filler->picture->col_tok;
            filler->reads[col] += filler->by_head ? s2_min_i64(end, run.end) - at : 0;
            at = end;
        }
    }
}

static int64_t count_seen(const uint8_t *seen, int64_t begin, int64_t end)
{
    int64_t n = 0;
    for (int64_t key = begin; key < end; key++)
        n += seen[key];
    return n;
}

/* Count the pairs of the query, those that are read and, in a union, the unread ones. */
static void close_query(s2_filler *filler, int32_t row, int64_t key_end)
{
    s2_picture *const picture = filler->picture;
    for (int64_t col = 0; col * picture->col_tok < key_end; col++) {
        const int64_t begin = col * picture->col_tok;
        const int64_t end = s2_min_i64(begin + picture->col_tok, key_end);
        s2_picture_cell *const cell = &picture->cells[(int64_t)row * picture->n_cols + col];
        filler->pairs[col] += end - begin;
        cell->future = false;
        const int64_t n_seen = count_seen(filler->seen, begin, end);
        filler->reads[col] += filler->by_head ? 0 : n_seen;
        if (picture->is_union && n_seen < end - begin) {
            cell->hole = true;
            picture->n_holes += end - begin - n_seen;
        }
    }
}

static s2_status fill_query(s2_filler *filler, int32_t row, int64_t q_tok)
{
    const int64_t key_end = filler->causal ? q_tok + 1 : filler->n_tok;
    if (!s2_work_spend(&filler->readers.work_left,
                       2 * key_end / STEP_KEYS + key_end / filler->picture->col_tok))
        return S2_ELIMIT;
    memset(filler->seen, 0, (size_t)key_end);
    for (int32_t which = 0; which < filler->readers.n; which++) {
        int64_t n_runs;
        S2_TRY(readers_row(&filler->readers, which, q_tok, filler->n_tok, &n_runs));
        if (!s2_work_spend(&filler->readers.work_left, runs_work(filler, n_runs)))
            return S2_ELIMIT;
        add_runs(filler, n_runs);
    }
    close_query(filler, row, key_end);
    return S2_OK;
}

static void close_row(s2_filler *filler, int32_t row)
{
    s2_picture *const picture = filler->picture;
    for (int32_t col = 0; col < picture->n_cols; col++) {
        s2_picture_cell *const cell = &picture->cells[(int64_t)row * picture->n_cols + col];
        const double all = (double)filler->pairs[col] * (filler->by_head ? filler->readers.n : 1);
        cell->share = all > 0 ? (float)((double)filler->reads[col] / all) : 0;
        filler->reads[col] = filler->pairs[col] = 0;
    }
}

static s2_status filler_init(s2_arena *arena, s2_filler *filler)
{
    s2_picture *const picture = filler->picture;
    const int64_t n_cells = (int64_t)picture->n_rows * picture->n_cols;
    picture->cells = S2_NEW(arena, s2_picture_cell, n_cells);
    filler->seen = S2_NEW(arena, uint8_t, filler->n_tok + 1);
    filler->reads = S2_NEW(arena, int64_t, picture->n_cols);
    filler->pairs = S2_NEW(arena, int64_t, picture->n_cols);
    if (picture->cells == NULL || filler->seen == NULL || filler->reads == NULL || filler->pairs == NULL)
        return S2_ENOMEM;
    for (int64_t cell = 0; cell < n_cells; cell++)
        picture->cells[cell].future = true;
    return S2_OK;
}

/* Tokens per cell: whole blocks, as few as fit. */
static int64_t cell_tok(const s2_pattern *pattern, int64_t n_tok, int32_t max_cells)
{
    const int64_t blocks = s2_ceil_div(n_tok, pattern->block_tok);
    return s2_ceil_div(blocks, max_cells) * pattern->block_tok;
}

/* The same for reads that may end within a block: halves of blocks too, where more of them fit. */
static int64_t fine_cell_tok(const s2_pattern *pattern, int64_t n_tok, int32_t max_cells)
{
    int64_t size = cell_tok(pattern, n_tok, max_cells);
    while (size % 2 == 0 && size <= pattern->block_tok && s2_ceil_div(n_tok, size / 2) <= max_cells)
        size /= 2;
    return size;
}

static void head_range(const s2_pattern *pattern, s2_picture_of of, int32_t layer, int32_t index,
                       int32_t *begin, int32_t *end)
{
    const int32_t group = pattern->n_heads / s2_pattern_kv_heads(pattern, layer);
    *begin = of == S2_PICTURE_UNION ? 0 : of == S2_PICTURE_KV ? index * group : index;
    *end = of == S2_PICTURE_UNION ? pattern->n_heads : of == S2_PICTURE_KV ? *begin + group : index + 1;
}

/* What a picture of masks cannot show: keys that are chosen at run time, and what a state carries. */
static void add_nature(const s2_pattern *pattern, int32_t layer, bool chosen, s2_picture *picture)
{
    const size_t len = strlen(picture->title);
    picture->is_least = chosen;
    if (chosen)
        snprintf(picture->title + len, sizeof picture->title - len,
                 "  (keys are chosen at run time: shown is what is read for certain)");
    else if (s2_pattern_is_state_layer(pattern, layer))
        snprintf(picture->title + len, sizeof picture->title - len, "  (it keeps a state and reads no key)");
}

s2_status s2_picture_mask(s2_arena *arena, const s2_pattern *pattern, s2_picture_of of, int32_t layer,
                          int32_t index, int64_t n_tok, int32_t max_cells, s2_picture *out)
{
    if (layer < 0 || layer >= pattern->n_layers || n_tok < 1 || max_cells < 1)
        return S2_EINVAL;
    const int32_t n_index = of == S2_PICTURE_KV ? s2_pattern_kv_heads(pattern, layer) : pattern->n_heads;
    if (index < 0 || index >= n_index)
        return S2_EINVAL;
    s2_readers readers;
    int32_t begin, end;
    head_range(pattern, of, layer, index, &begin, &end);
    S2_TRY(readers_build(arena, pattern, layer, begin, end, &readers));
    const int64_t size = (readers.step > 1 ? cell_tok : fine_cell_tok)(pattern, n_tok, max_cells);
    s2_picture picture = {.x_label = "key, tokens",
                          .y_label = "query, tokens",
                          .row_tok = size,
                          .col_tok = size,
                          .n_tok = n_tok,
                          .is_union = of == S2_PICTURE_UNION};
    picture.n_rows = picture.n_cols = (int32_t)s2_ceil_div(n_tok, size);
    const char *const words[] = {"head ", "KV head ", "all heads"};
    snprintf(picture.title, sizeof picture.title, "%.200s  layer %d  %s", pattern->name, layer, words[of]);
    if (of != S2_PICTURE_UNION)
        snprintf(picture.title + strlen(picture.title), 16, "%d", index);
    add_nature(pattern, layer, readers.chosen, &picture);
    s2_filler filler = {.picture = &picture,
                        .readers = readers,
                        .n_tok = n_tok,
                        .causal = pattern->causal,
                        .by_head = of == S2_PICTURE_UNION};
    S2_TRY(filler_init(arena, &filler));
    s2_status status = S2_OK;
    for (int32_t row = 0; row < picture.n_rows && status == S2_OK; row++) {
        for (int64_t q = row * size; q < (row + 1) * size && q < n_tok && status == S2_OK;
             q += filler.readers.step) {
            const int64_t last =
                q + filler.readers.step - 1 < n_tok ? q + filler.readers.step - 1 : n_tok - 1;
            status = fill_query(&filler, row, last);
        }
        close_row(&filler, row);
    }
    s2_free(filler.readers.runs);
    S2_TRY(status);
    *out = picture;
    return S2_OK;
}

s2_status s2_picture_shards(s2_arena *arena, const s2_pattern *pattern, int32_t layer, int64_t n_tok,
                            int32_t max_cells, s2_picture *out)
{
    if (layer < 0 || layer >= pattern->n_layers || n_tok < 1 || max_cells < 1)
        return S2_EINVAL;
    s2_picture picture = {.x_label = "key, tokens",
                          .y_label = "KV head; last row: all",
                          .row_tok = 0,
                          .col_tok = cell_tok(pattern, n_tok, max_cells),
                          .n_tok = n_tok,
                          .n_rows = s2_pattern_kv_heads(pattern, layer) + 1};
    picture.n_cols = (int32_t)s2_ceil_div(n_tok, picture.col_tok);
    snprintf(picture.title, sizeof picture.title, "%.200s  layer %d  shards held for the last query",
             pattern->name, layer);
    s2_filler filler = {.picture = &picture, .n_tok = n_tok, .causal = pattern->causal};
    S2_TRY(filler_init(arena, &filler));
    s2_status status = S2_OK;
    for (int32_t row = 0; row < picture.n_rows && status == S2_OK; row++) {
        int32_t begin, end;
        const bool all = row + 1 == picture.n_rows;
        head_range(pattern, all ? S2_PICTURE_UNION : S2_PICTURE_KV, layer, row, &begin, &end);
        picture.is_union = all;
        s2_free(filler.readers.runs);
        filler.readers.runs = NULL;
        const int64_t work_left = row > 0 ? filler.readers.work_left : S2_WORK_STEPS;
        status = readers_build(arena, pattern, layer, begin, end, &filler.readers);
        filler.readers.work_left = work_left;
        if (status == S2_OK)
            status = fill_query(&filler, row, n_tok - 1);
        close_row(&filler, row);
        if (all)
            add_nature(pattern, layer, filler.readers.chosen, &picture);
    }
    s2_free(filler.readers.runs);
    S2_TRY(status);
    *out = picture;
    return S2_OK;
}

/* ---- flow over layers */

enum { FLOW_PARTS = 8, FLOW_LAYERS = 4 };

typedef struct s2_flow {
    int32_t n_layers;
    bool causal;
    bool chosen;                                    /* some head of these layers chooses keys at run time */
    bool state;                                     /* some of these layers keeps a state and reads no key */
    bool edge[FLOW_LAYERS][FLOW_PARTS][FLOW_PARTS]; /* [layer][query part][key part] */
} s2_flow;

static void flow_runs(const s2_readers *readers, int64_t n_runs, int64_t n_tok, bool *edges)
{
    for (int64_t r = 0; r < n_runs; r++) {
        const int64_t begin = readers->runs[r].begin * FLOW_PARTS / n_tok;
        const int64_t last = (readers->runs[r].end - 1) * FLOW_PARTS / n_tok;
        memset(edges + begin, 1, (size_t)(last - begin + 1));
    }
}

/* Heads that read alike make the same edges. */
static s2_status flow_readers(s2_arena *arena, const s2_pattern *pattern, int32_t layer, s2_readers *out)
{
    s2_view_set set = {0};
    s2_readers readers;
    S2_TRY(readers_build(arena, pattern, layer, 0, pattern->n_heads, &readers));
    for (int32_t which = 0; which < readers.n; which++) {
        int32_t index;
        S2_TRY(s2_view_set_add(arena, &set, &readers.views[which], &index));
    }
    readers.views = set.views;
    readers.n = set.n;
    *out = readers;
    return S2_OK;
}

/* How many parts of the keys a part of the queries may read. */
static int32_t flow_keys(const s2_flow *flow, int32_t part)
{
    return flow->causal ? part + 1 : FLOW_PARTS;
}

static bool has_all(const bool *edges, int64_t n)
{
    return memchr(edges, false, (size_t)n) == NULL;
}

/* There is an edge when some query of one part reads some key of the other through some head. */
static s2_status flow_layer(const s2_pattern *pattern, int32_t layer, int64_t n_tok, int64_t *work_left,
                            s2_flow *flow)
{
    s2_arena arena = {0};
    s2_readers readers = {0};
    s2_status status = flow_readers(&arena, pattern, layer, &readers);
    readers.work_left = *work_left;
    flow->chosen = flow->chosen || readers.chosen;
    flow->state = flow->state || s2_pattern_is_state_layer(pattern, layer);
    for (int64_t q = 0; q < n_tok && status == S2_OK; q += readers.step) {
        const int64_t last = q + readers.step - 1 < n_tok ? q + readers.step - 1 : n_tok - 1,
                      part = last * FLOW_PARTS / n_tok;
        bool *const edges = flow->edge[layer][part];
        for (int32_t which = 0;
             which < readers.n && status == S2_OK && !has_all(edges, flow_keys(flow, (int32_t)part));
             which++) {
            int64_t n_runs;
            status = readers_row(&readers, which, last, n_tok, &n_runs);
            if (status == S2_OK)
                flow_runs(&readers, n_runs, n_tok, edges);
        }
    }
    *work_left = readers.work_left;
    s2_free(readers.runs);
    s2_arena_release(&arena);
    return status;
}

static void flow_path(const s2_flow *flow, int32_t from[FLOW_LAYERS + 1][FLOW_PARTS])
{
    for (int32_t layer = 0; layer <= flow->n_layers; layer++)
        for (int32_t part = 0; part < FLOW_PARTS; part++)
            from[layer][part] = -1;
    from[0][0] = 0;
    for (int32_t layer = 0; layer < flow->n_layers; layer++)
        for (int32_t part = 0; part < FLOW_PARTS; part++) {
            if (from[layer][part] >= 0)
                from[layer + 1][part] = part;
            for (int32_t key = 0; key < FLOW_PARTS && from[layer + 1][part] < 0; key++)
                if (flow->edge[layer][part][key] && from[layer][key] >= 0)
                    from[layer + 1][part] = key;
        }
}

static void flow_nodes(int64_t n_tok, const s2_flow *flow, s2_buf *buf)
{
    for (int32_t layer = 0; layer <= flow->n_layers; layer++) {
        bool dense = layer > 0;
        for (int32_t part = 0; dense && part < FLOW_PARTS; part++)
            dense = has_all(flow->edge[layer - 1][part], flow_keys(flow, part));
        s2_buf_puts(buf, "  { rank=same; ");
        s2_buf_printf(buf, "l%d [shape=plaintext, label=\"", layer);
        if (layer == 0)
            s2_buf_puts(buf, "input");
        else
            s2_buf_printf(buf, "after layer %d%s", layer - 1, dense ? "\\nreads of all parts" : "");
        s2_buf_puts(buf, "\"]; ");
        for (int32_t part = 0; part < FLOW_PARTS; part++)
            s2_buf_printf(buf, "n%d_%d [group=p%d, label=\"%lld..%lld\"]; ", layer, part, part,
                          (long long)(n_tok * part / FLOW_PARTS),
                          (long long)(n_tok * (part + 1) / FLOW_PARTS));
        /* Graphviz keeps no order of its own: where edges lean to one side it swaps neighbours */
        s2_buf_printf(buf, "l%d", layer);
        for (int32_t part = 0; part < FLOW_PARTS; part++)
            s2_buf_printf(buf, " -> n%d_%d", layer, part);
        s2_buf_puts(buf, " [style=invis]; }\n");
    }
    for (int32_t layer = 0; layer < flow->n_layers; layer++)
        for (int32_t part = -1; part < FLOW_PARTS; part++) {
            if (part < 0)
                s2_buf_printf(buf, "  l%d -> l%d [style=invis, weight=100];\n", layer, layer + 1);
            else
                s2_buf_printf(buf, "  n%d_%d -> n%d_%d [style=invis, weight=100];\n", layer, part, layer + 1,
                              part);
        }
}

/* A claim that something does not arrive is made only where every way of it is drawn. */
static void flow_caption(const s2_flow *flow, bool arrives, int32_t depth, int32_t n_layers, s2_buf *buf)
{
    const bool all = !flow->chosen && !flow->state;
    const char *const most = all ? "no fewer than" : "at most";
    s2_buf_puts(buf, "  label=\"");
    if (arrives)
        s2_buf_printf(buf, "heavy: the first part of the context reaches the last in %s %s", most,
                      s2_count_text(depth, "layer").text);
    else
        s2_buf_printf(buf, "the first part of the context %s the last in %s",
                      all ? "does not reach" : "is not certain to reach",
                      s2_count_text(flow->n_layers, "layer").text);
    if (flow->chosen)
        s2_buf_puts(buf, "\\nkeys are chosen at run time: drawn is what is read for certain");
    if (flow->state)
        s2_buf_puts(buf, "\\nlayers that keep a state carry what they saw; no edge shows that");
    if (flow->n_layers < n_layers)
        s2_buf_printf(buf, "\\nthe first %d of %d layers are drawn", flow->n_layers, n_layers);
    s2_buf_puts(buf, "\";\n");
}

static void flow_edges(const s2_flow *flow, int32_t n_layers, s2_buf *buf)
{
    int32_t from[FLOW_LAYERS + 1][FLOW_PARTS], depth = 0;
    bool heavy[FLOW_LAYERS][FLOW_PARTS][FLOW_PARTS] = {{{false}}};
    flow_path(flow, from);
    while (depth < flow->n_layers && from[depth][FLOW_PARTS - 1] < 0)
        depth++;
    for (int32_t layer = depth, part = FLOW_PARTS - 1; layer > 0 && from[layer][part] >= 0; layer--) {
        heavy[layer - 1][part][from[layer][part]] = true;
        part = from[layer][part];
    }
    for (int32_t layer = 0; layer < flow->n_layers; layer++)
        for (int32_t part = 0; part < FLOW_PARTS; part++)
            for (int32_t key = 0; key < FLOW_PARTS; key++)
                if (flow->edge[layer][part][key])
                    s2_buf_printf(buf, "  n%d_%d -> n%d_%d%s;\n", layer, key, layer + 1, part,
                                  heavy[layer][part][key] ? " [penwidth=4, color=\"#d55e00\"]" : "");
    flow_caption(flow, from[depth][FLOW_PARTS - 1] >= 0, depth, n_layers, buf);
}

s2_status s2_picture_flow_dot(const s2_pattern *pattern, int64_t n_tok, s2_buf *buf)
{
    s2_flow flow = {.n_layers = s2_min_i32(pattern->n_layers, FLOW_LAYERS), .causal = pattern->causal};
    int64_t work_left = S2_WORK_STEPS;
    n_tok = s2_max_i64(n_tok, FLOW_PARTS);
    for (int32_t layer = 0; layer < flow.n_layers; layer++)
        S2_TRY(flow_layer(pattern, layer, n_tok, &work_left, &flow));
    s2_buf_puts(buf, "digraph flow {\n  rankdir=TB; splines=line; nodesep=0.15; ranksep=0.9; labelloc=b;\n"
                     "  graph [fontname=\"sans-serif\"]; node [shape=box, style=filled, "
                     "fillcolor=\"#e8ecf2\", color=\"#00204c\", fontname=\"sans-serif\", fontsize=10];\n  "
                     "edge [color=\"#7c7b78\", arrowsize=0.5];\n");
    flow_nodes(n_tok, &flow, buf);
    flow_edges(&flow, pattern->n_layers, buf);
    s2_buf_puts(buf, "}\n");
    return buf->status;
}
