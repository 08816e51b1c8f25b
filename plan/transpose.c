#include "plan/transpose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "plan/internal.h"
#include "plan/turns.h"

enum { SLABS_OF_STEP = S2_COLUMN_STEP_TOK / S2_PLAN_SLAB_TOK, LONG_ENTRIES = 40 };

/* One query head of one item, as the transposition reads it. */
typedef struct s2_source {
    int32_t seq;
    int32_t head;
    int32_t tile;
    s2_plan_span span;
} s2_source;

/* The columns shared by KV heads that read alike, before they are given to each head. */
typedef struct s2_shape {
    int32_t from_head; /* the first KV head of the sequence with these lists */
    int64_t source_begin;
    int64_t source_end;
    int32_t column_begin; /* in transposer->made */
    int32_t column_end;
    int32_t n_heads;
} s2_shape;

typedef struct s2_transposer {
    const s2_plan *plan;
    const s2_plan_flat *flat;
    s2_plan_column_options options;
    int32_t group;
    int32_t n_sub;
    s2_source *sources; /* by seq, KV head, tile descending, head */
    int64_t n_sources;
    int32_t *place; /* [key block]: column * n_sub + sub, of the current shape */
    int64_t *count; /* [key block]: steps that read it */
    int64_t *fill;  /* [column]: entries so far */
    int64_t *last;  /* [column]: step * group + head of its last entry, or -1 */
    int32_t limit_blk;
    s2_plan_column *made;
    int64_t n_made, cap_made;
    int32_t *blocks;
    int64_t n_blocks, cap_blocks;
    s2_plan_column_entry *entries;
    int64_t n_entries, cap_entries;
    int32_t *masks;
    int64_t cap_masks;
    s2_shape *shapes; /* [kv_head] of the current sequence */
    int32_t *next_of; /* [section][turn of a head]: where its next entry goes, while a column is ordered */
} s2_transposer;

/* ------------------------------------------------------------------ sources */

static bool keeps_masks(const s2_transposer *build)
{
    return build->flat->n_masks > 0 && !build->options.window_edges;
}

static int32_t g_of(const s2_transposer *build, const s2_source *source)
{
    return source->head / build->group;
}

static int order_sources(const void *left, const void *right)
{
    const s2_source *const a = left, *const b = right;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    if (a->tile != b->tile)
        return a->tile > b->tile ? -1 : 1;
    return a->head < b->head ? -1 : a->head > b->head;
}

/* qsort passes no context, so KV heads are separated by a stable distribution after the sort. */
static s2_status spread_by_kv_head(s2_transposer *build)
{
    const int32_t n_kv = build->plan->pattern->n_kv_heads;
    const int64_t n_bins = (int64_t)build->plan->n_seqs * n_kv;
    int64_t *const begin = s2_calloc((size_t)n_bins + 1, sizeof *begin);
    s2_source *const out = s2_calloc((size_t)build->n_sources + 1, sizeof *out);
    if (begin != NULL && out != NULL) {
        for (int64_t s = 0; s < build->n_sources; s++)
            begin[(int64_t)build->sources[s].seq * n_kv + g_of(build, &build->sources[s]) + 1]++;
        for (int64_t bin = 0; bin < n_bins; bin++)
            begin[bin + 1] += begin[bin];
        for (int64_t s = 0; s < build->n_sources; s++)
            out[begin[(int64_t)build->sources[s].seq * n_kv + g_of(build, &build->sources[s])]++] =
                build->sources[s];
        s2_free(build->sources);
        build->sources = out;
    } else {
        s2_free(out);
    }
    const bool good = begin != NULL && out != NULL;
    s2_free(begin);
    return good ? S2_OK : S2_ENOMEM;
}

static s2_status find_sources(s2_transposer *build)
{
    const s2_plan *const plan = build->plan;
    for (int32_t item = 0; item < plan->n_items; item++)
        build->n_sources += plan->items[item].n_heads;
    build->sources = s2_calloc((size_t)build->n_sources + 1, sizeof *build->sources);
    if (build->sources == NULL)
        return S2_ENOMEM;
    int64_t n = 0;
    for (int32_t item = 0; item < plan->n_items; item++)
        for (int32_t h = 0; h < plan->items[item].n_heads; h++)
            build->sources[n++] = (s2_source){plan->items[item].seq, plan->items[item].head + h,
                                              plan->items[item].tile, build->flat->span_of[item]};
    qsort(build->sources, (size_t)n, sizeof *build->sources, order_sources);
    return spread_by_kv_head(build);
}

static bool reads_alike(const s2_source *a, const s2_source *b)
{
    return a->tile == b->tile && a->span.n == b->span.n && a->span.begin == b->span.begin;
}

/* Whether all query heads of the group read through one list in every tile of the KV head. */
static bool group_is_one(const s2_transposer *build, const s2_shape *shape)
{
    const int64_t n = shape->source_end - shape->source_begin;
    if (n % build->group != 0)
        return false;
    for (int64_t s = 0; s < n; s++) {
        const s2_source *const source = &build->sources[shape->source_begin + s];
        if (source->head % build->group != s % build->group ||
            !reads_alike(source, source - s % build->group))
            return false;
    }
    return true;
}

static bool shapes_equal(const s2_transposer *build, const s2_shape *a, const s2_shape *b)
{
    const int64_t n = a->source_end - a->source_begin;
    if (n != b->source_end - b->source_begin)
        return false;
    for (int64_t s = 0; s < n; s++) {
        const s2_source *const x = &build->sources[a->source_begin + s];
        const s2_source *const y = &build->sources[b->source_begin + s];
        if (x->head % build->group != y->head % build->group || !reads_alike(x, y))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------ which blocks share a column */

/* Step `step` of a tile, counted from its first row: the four bits of its slabs. */
static uint32_t slabs_of_step(const s2_plan_entry *entry, int32_t step)
{
    return entry->slabs >> (step * SLABS_OF_STEP) & 0xfu;
}

static int32_t steps_of_tile(const s2_transposer *build)
{
    return build->plan->options.tile_tok / S2_COLUMN_STEP_TOK;
}

static void count_reads(s2_transposer *build, const s2_shape *shape, int32_t n_blk)
{
    const int32_t stride = shape->n_heads; /* if the group is one, head 0 stands for all */
    memset(build->count, 0, (size_t)n_blk * sizeof *build->count);
    for (int64_t s = shape->source_begin; s < shape->source_end; s += stride)
        for (int32_t e = 0; e < build->sources[s].span.n; e++) {
            const s2_plan_entry *const entry = &build->flat->entries[build->sources[s].span.begin + e];
            for (int32_t step = 0; step < steps_of_tile(build); step++)
                build->count[entry->k_blk] += slabs_of_step(entry, step) != 0;
        }
}

static int order_counts(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* A block with more reads is read from far away: twice the median over blocks that are read. */
static int64_t long_limit(s2_transposer *build, int32_t n_blk, int64_t *scratch)
{
    int32_t n = 0;
    for (int32_t blk = 0; blk < n_blk; blk++)
        if (build->count[blk] > 0)
            scratch[n++] = build->count[blk];
    if (n == 0)
        return 0;
    qsort(scratch, (size_t)n, sizeof *scratch, order_counts);
    return 2 * scratch[n / 2];
}

static int32_t kind_of(const s2_transposer *build, int32_t blk, int64_t limit)
{
    if (build->count[blk] == 0)
        return 2;
    return build->count[blk] > limit ? 0 : 1;
}

/* Blocks are packed kind by kind, each in order: strided ones, those of the window, unread ones. */
static s2_status pack_blocks(s2_transposer *build, s2_shape *shape, int32_t n_blk, int64_t limit)
{
    const int64_t most = (int64_t)n_blk + 3 * build->n_sub;
    S2_TRY(S2_RESERVE(build->blocks, build->cap_blocks, build->n_blocks + most));
    S2_TRY(S2_RESERVE(build->made, build->cap_made, build->n_made + most));
    shape->column_begin = (int32_t)build->n_made;
    for (int32_t kind = 0; kind < 3; kind++) {
        int32_t sub = 0;
        for (int32_t blk = 0; blk < n_blk; blk++) {
            if (kind_of(build, blk, limit) != kind)
                continue;
            if (sub == 0) {
                build->made[build->n_made++] =
                    (s2_plan_column){.blocks = (int32_t)build->n_blocks, .n_heads = shape->n_heads};
                for (int32_t s = 0; s < build->n_sub; s++)
                    build->blocks[build->n_blocks + s] = -1;
                build->n_blocks += build->n_sub;
            }
            build->blocks[build->n_blocks - build->n_sub + sub] = blk;
            build->place[blk] = (int32_t)(build->n_made - 1 - shape->column_begin) * build->n_sub + sub;
            sub = sub + 1 < build->n_sub ? sub + 1 : 0;
        }
    }
    shape->column_end = (int32_t)build->n_made;
    return S2_OK;
}

/* ------------------------------------------------------------------ lists */

/* Visits entries by descending (step, head); a pass either counts the entries of columns or makes them. */
typedef struct s2_entry_pass {
    s2_transposer *build;
    s2_shape *shape;
    bool make;
} s2_entry_pass;

/* Whether some row of the step reads less than all of the block: for the end, for the causal edge or for a window. */
static bool needs_edge(const s2_transposer *build, const s2_source *source, const s2_plan_entry *entry,
                       int32_t step, uint32_t slabs)
{
    const s2_plan *const plan = build->plan;
    const int64_t k_begin = (int64_t)entry->k_blk * plan->blk_tok, k_end = k_begin + plan->blk_tok,
                  row = s2_plan_tile_begin(plan, source->seq, source->tile) + step * S2_COLUMN_STEP_TOK,
                  first = row + __builtin_ctz(slabs) * S2_PLAN_SLAB_TOK,
                  last = row + (32 - __builtin_clz(slabs)) * S2_PLAN_SLAB_TOK - 1;
    const bool ends = k_end > plan->seqs[source->seq].k_tok || (plan->pattern->causal && k_end > first + 1);
    return build->options.window_edges ? ends || last - k_begin >= s2_plan_window(plan) : entry->edge && ends;
}

static void add_reads(const s2_entry_pass *pass, const s2_source *source, const s2_plan_entry *entry,
                      int32_t step, uint32_t slabs)
{
    s2_transposer *const build = pass->build;
    const int32_t column = build->place[entry->k_blk] / build->n_sub,
                  sub = build->place[entry->k_blk] % build->n_sub;
    const int32_t head = pass->shape->n_heads > 1 ? 0 : source->head % build->group;
    const int32_t number = source->tile * steps_of_tile(build) + step;
    const int64_t key = (int64_t)number * build->group + head;
    const bool fresh = build->last[column] != key;
    build->last[column] = key;
    build->fill[column] += fresh;
    if (!pass->make)
        return;
    const int64_t index = build->made[pass->shape->column_begin + column].begin + build->fill[column] - 1;
    s2_plan_column_entry *const out = &build->entries[index];
    if (fresh) {
        *out = (s2_plan_column_entry){.step = number, .head = head};
        for (int32_t s = 0; s < build->n_sub && build->masks != NULL; s++)
            build->masks[index * build->n_sub + s] = -1;
    }
    out->reads |= slabs << (4 * sub);
    out->edge = out->edge || needs_edge(build, source, entry, step, slabs);
    if (build->masks != NULL)
        build->masks[index * build->n_sub + sub] = entry->mask;
    out->full =
        out->full || (entry->mask >= 0 && !build->options.window_edges); /* until settle(): has a mask */
}

static void walk_step(const s2_entry_pass *pass, const s2_source *source, int32_t step)
{
    for (int32_t e = 0; e < source->span.n; e++) {
        const s2_plan_entry *const entry = &pass->build->flat->entries[source->span.begin + e];
        const uint32_t slabs = slabs_of_step(entry, step);
        if (slabs != 0)
            add_reads(pass, source, entry, step, slabs);
    }
}

static void walk(const s2_entry_pass *pass)
{
    s2_transposer *const build = pass->build;
    const s2_shape *const shape = pass->shape;
    const int32_t n_columns = shape->column_end - shape->column_begin;
    for (int32_t column = 0; column < n_columns; column++) {
        build->fill[column] = 0;
        build->last[column] = -1;
    }
    for (int64_t s = shape->source_begin, end; s < shape->source_end; s = end) {
        for (end = s + 1; end < shape->source_end && build->sources[end].tile == build->sources[s].tile;)
            end++;
        for (int32_t step = steps_of_tile(build) - 1; step >= 0; step--)
            for (int64_t one = s; one < (shape->n_heads > 1 ? s + 1 : end); one++)
                walk_step(pass, &build->sources[one], step);
    }
}

static s2_status allot(s2_transposer *build, const s2_shape *shape)
{
    int64_t begin = build->n_entries;
    for (int32_t column = shape->column_begin; column < shape->column_end; column++) {
        build->made[column].begin = begin;
        begin += build->made[column].n = (int32_t)build->fill[column - shape->column_begin];
    }
    build->n_entries = begin;
    S2_TRY(S2_RESERVE(build->entries, build->cap_entries, begin));
    if (!keeps_masks(build))
        return S2_OK;
    return S2_RESERVE(build->masks, build->cap_masks, begin * build->n_sub + 1);
}

/* Whether an entry is full is known only once all its blocks are in. */
static void settle(s2_transposer *build, const s2_shape *shape)
{
    const uint32_t all = build->n_sub == 8 ? UINT32_MAX : (UINT32_C(1) << (4 * build->n_sub)) - 1;
    if (shape->column_begin == shape->column_end)
        return;
    for (int64_t e = build->made[shape->column_begin].begin; e < build->n_entries; e++)
        build->entries[e].full =
            !build->entries[e].full && !build->entries[e].edge && build->entries[e].reads == all;
}

static s2_status transpose(s2_transposer *build, s2_shape *shape, int32_t k_tok)
{
    const int32_t n_blk = (int32_t)s2_ceil_div(k_tok, build->plan->blk_tok);
    shape->n_heads = !build->options.window_edges && group_is_one(build, shape) ? build->group : 1;
    count_reads(build, shape, n_blk);
    const int64_t limit = long_limit(build, n_blk, build->last);
    S2_TRY(pack_blocks(build, shape, n_blk, limit));
    walk(&(s2_entry_pass){build, shape, false});
    S2_TRY(allot(build, shape));
    walk(&(s2_entry_pass){build, shape, true});
    settle(build, shape);
    return S2_OK;
}

/* ------------------------------------------------------------------ parts */

/* Steps per part for this column, or 0 if it stays whole. */
static int32_t part_width(const s2_transposer *build, const s2_plan_column *column, int32_t n_steps)
{
    const int64_t wish = build->options.part_steps, work = (int64_t)column->n * column->n_heads;
    if (wish == 0 || 2 * work <= 3 * wish)
        return 0;
    int32_t width = (int32_t)(wish / build->group);
    width = width > 0 ? width : 1;
    const int32_t least = n_steps / S2_COLUMN_LIMIT_PARTS + 1;
    return s2_max_i32(width, least);
}

/* The section of the list that an entry goes to. */
enum { PLACE_UPPER, PLACE_PARTIAL, PLACE_FULL, PLACE_TAIL, N_PLACES };

static bool reads_half(const s2_transposer *build, const s2_plan_column_entry *entry, bool upper)
{
    const uint32_t lower = (UINT32_C(1) << (2 * build->n_sub)) - 1;
    return build->options.halves > 0 && build->n_sub > 1 && (entry->reads & (upper ? lower : ~lower)) == 0;
}

/* *lower_left: how many more entries of the lower half stay, for want of room at the end of the list. */
static int32_t place_of(const s2_transposer *build, const s2_plan_column_entry *entry, int32_t *lower_left)
{
    if (reads_half(build, entry, true))
        return PLACE_UPPER;
    if (reads_half(build, entry, false) && --*lower_left < 0)
        return PLACE_TAIL;
    return entry->full ? PLACE_FULL : PLACE_PARTIAL;
}

static int32_t excess_lower(const s2_transposer *build, const s2_plan_column *column)
{
    int32_t n = 0;
    for (int32_t e = 0; e < column->n; e++)
        n += reads_half(build, &build->entries[column->begin + e], false);
    const int32_t most = build->options.halves / column->n_heads;
    return n > most ? n - most : 0;
}

/* In order: how many of the last steps compare, behind one that does not. */
static int32_t compared_last(const s2_transposer *build, const s2_plan_column *column)
{
    int32_t n = 0;
    while (build->options.in_order && n < column->n && !build->entries[column->begin + n].full)
        n++;
    return n < column->n ? n : 0;
}

/* How many heads have a place of their own in each section. */
static int32_t turns_of(const s2_transposer *build)
{
    return build->options.window_edges ? build->group : 1;
}

/* Sort the column's entries by section, stable or, in order, with ascending steps; of a window, head by head. */
static void order_entries(s2_transposer *build, s2_plan_column *column, s2_plan_column_entry *entries,
                          int32_t *masks)
{
    const int32_t excess = excess_lower(build, column), n_last = compared_last(build, column),
                  n_turns = turns_of(build);
    int32_t *const next = build->next_of;
    memset(next, 0, ((size_t)N_PLACES * (size_t)n_turns + 1) * sizeof *next);
    for (int32_t pass = 0; pass < 2; pass++) { /* counts, then puts */
        int32_t lower_left = excess;
        for (int32_t e = 0; e < column->n; e++) {
            const int32_t nth = build->options.in_order ? column->n - 1 - e : e;
            const int64_t from = column->begin + nth;
            const s2_plan_column_entry *const entry = &build->entries[from];
            const int32_t place = nth < n_last ? PLACE_TAIL : place_of(build, entry, &lower_left),
                          turn = place * n_turns + (n_turns > 1 ? entry->head : 0);
            if (pass == 0) {
                next[turn + 1]++;
                continue;
            }
            const int32_t to = next[turn]++;
            entries[to] = *entry;
            if (build->masks != NULL)
                memcpy(&masks[(int64_t)to * build->n_sub], &build->masks[from * build->n_sub],
                       (size_t)build->n_sub * sizeof *masks);
        }
        for (int32_t turn = 0; pass == 0 && turn < N_PLACES * n_turns; turn++)
            next[turn + 1] += next[turn];
    }
    /* each turn ends where the one after it begins */
    column->n_upper = next[PLACE_PARTIAL * n_turns - 1];
    column->n_partial = next[PLACE_FULL * n_turns - 1];
    column->n_tail = column->n - next[PLACE_TAIL * n_turns - 1];
    if (column->n == 0)
        return;
    memcpy(&build->entries[column->begin], entries, (size_t)column->n * sizeof *entries);
    if (build->masks != NULL)
        memcpy(&build->masks[column->begin * build->n_sub], masks,
               (size_t)column->n * (size_t)build->n_sub * sizeof *masks);
}

/* A part of a column, and what decides its order. */
typedef struct s2_work {
    s2_plan_column column;
    bool is_short;
    int32_t section;
    int32_t wave;   /* part by absolute position: columns of one wave read the same queries */
    int64_t length; /* the greatest first */
    int64_t index;
} s2_work;

typedef struct s2_emitter {
    s2_work *work;
    int64_t n, cap_work;
    s2_plan_column_entry *entries; /* scratch of order_entries */
    int32_t *masks;
    int64_t cap_entries, cap_masks;
    int32_t n_chains;
} s2_emitter;

static s2_status emit(s2_transposer *build, s2_emitter *out, s2_plan_column column, int32_t wave,
                      int64_t begin, int32_t n)
{
    S2_TRY(S2_RESERVE(out->work, out->cap_work, out->n + 1));
    S2_TRY(S2_RESERVE(out->entries, out->cap_entries, n));
    S2_TRY(S2_RESERVE(out->masks, out->cap_masks, (int64_t)n * build->n_sub));
    column.begin = begin;
    column.n = n;
    order_entries(build, &column, out->entries, out->masks);
    out->work[out->n] = (s2_work){.column = column, .wave = wave, .index = out->n};
    out->n++;
    return S2_OK;
}

/* Parts of equal length; none is longer than the one before it. */
static s2_status cut_evenly(s2_transposer *build, s2_emitter *out, s2_plan_column *column)
{
    const int64_t wish = build->options.part_steps, work = (int64_t)column->n * column->n_heads;
    int64_t n_parts = wish > 0 && 2 * work > 3 * wish ? s2_ceil_div(work, wish) : 1;
    n_parts = s2_min_i64(s2_min_i64(n_parts, column->n), S2_COLUMN_LIMIT_PARTS);
    column->n_parts = (int32_t)s2_max_i64(n_parts, 1);
    int64_t end = column->begin + column->n;
    for (column->part = 0; column->part < column->n_parts; column->part++) {
        const int32_t n = (column->n + column->n_parts - 1 - column->part) / column->n_parts;
        end -= n;
        S2_TRY(emit(build, out, *column, 0, end, n));
    }
    return S2_OK;
}

/* Cut one column of a shape; lists descend, so the last part is the lowest and comes first. */
static s2_status cut(s2_transposer *build, s2_emitter *out, s2_plan_column *column, int32_t n_steps)
{
    if (build->options.wave == 0)
        return cut_evenly(build, out, column);
    const int32_t width = part_width(build, column, n_steps);
    int64_t end = column->begin + column->n;
    column->n_parts = 1;
    if (width == 0)
        return emit(build, out, *column, 0, column->begin, column->n);
    const int64_t first = out->n;
    while (end > column->begin) {
        const int32_t wave = build->entries[end - 1].step / width;
        int64_t begin = end;
        while (begin > column->begin && build->entries[begin - 1].step / width == wave)
            begin--;
        column->part = (int32_t)(out->n - first);
        S2_TRY(emit(build, out, *column, wave, begin, (int32_t)(end - begin)));
        end = begin;
    }
    for (int64_t part = first; part < out->n; part++)
        out->work[part].column.n_parts = (int32_t)(out->n - first);
    return S2_OK;
}

/* ------------------------------------------------------------------ order of work */

static int order_work(const void *left, const void *right)
{
    const s2_work *const a = left, *const b = right;
    if (a->is_short != b->is_short)
        return a->is_short ? 1 : -1;
    if (a->section != b->section)
        return a->section < b->section ? -1 : 1;
    if (!a->is_short && a->wave != b->wave)
        return a->wave < b->wave ? -1 : 1;
    if (!a->is_short && a->length != b->length)
        return a->length > b->length ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void order_columns(s2_transposer *build, s2_emitter *out)
{
    const int64_t n_kv = (int64_t)build->plan->n_seqs * build->plan->pattern->n_kv_heads;
    const bool whole = build->options.wave == 0;
    int64_t n_long = 0, heads = build->options.section_heads;
    for (int64_t w = 0; w < out->n; w++) {
        const s2_plan_column *const column = &out->work[w].column;
        out->work[w].is_short =
            !whole && !build->options.in_order && column->n_parts == 1 && column->n <= LONG_ENTRIES;
        n_long += !out->work[w].is_short && column->part == 0;
    }
    if (heads == 0)
        heads = n_long > 0 ? build->options.wave * n_kv / n_long : n_kv;
    heads = whole ? n_kv : s2_max_i64(heads, 1);
    for (int64_t w = 0; w < out->n; w++) {
        const s2_plan_column *const column = &out->work[w].column;
        const int64_t head = (int64_t)column->seq * build->plan->pattern->n_kv_heads + column->kv_head;
        out->work[w].section = (int32_t)(head / heads);
        out->work[w].length = column->n;
        if (build->options.in_order) { /* late keys first, whatever queries they have */
            out->work[w].length = 0;
            out->work[w].index = -w;
        }
    }
    qsort(out->work, (size_t)out->n, sizeof *out->work, order_work);
}

/*
 * KV heads that share lists have the same columns in the same order, so each entry has one number. added[] counts by
 * sequence, KV head, head of the group and step.
 */
static s2_status number_turns(s2_arena *arena, const s2_transposer *build, s2_plan_columns *columns)
{
    const int64_t n_kv = build->plan->pattern->n_kv_heads;
    int64_t n_steps = 0;
    for (int32_t seq = 0; seq < build->plan->n_seqs; seq++)
        n_steps = s2_max_i64(n_steps, s2_plan_n_tiles(build->plan, seq) * steps_of_tile(build));
    int32_t *const turns = S2_NEW(arena, int32_t, columns->n_entries);
    int32_t *const added =
        s2_calloc((size_t)(build->plan->n_seqs * n_kv * build->group * n_steps) + 1, sizeof *added);
    for (int32_t c = 0; c < columns->n_columns && turns != NULL && added != NULL; c++) {
        const s2_plan_column *const column = &columns->columns[c];
        const int64_t first = ((int64_t)column->seq * n_kv + column->kv_head) * build->group;
        for (int64_t e = column->begin; e < column->begin + column->n; e++) {
            const s2_plan_column_entry *const entry = &columns->entries[e];
            turns[e] = added[(first + entry->head) * n_steps + entry->step]++;
        }
    }
    columns->turns = turns;
    const bool good = turns != NULL && added != NULL;
    s2_free(added);
    return good ? S2_OK : S2_ENOMEM;
}

/* ------------------------------------------------------------------ the whole */

static void find_shape(const s2_transposer *build, int32_t seq, int32_t kv_head, int64_t *source,
                       s2_shape *shape)
{
    *shape = (s2_shape){.from_head = kv_head, .source_begin = *source};
    while (*source < build->n_sources && build->sources[*source].seq == seq &&
           g_of(build, &build->sources[*source]) == kv_head)
        (*source)++;
    shape->source_end = *source;
}

/* Give the columns of its shape to one KV head. */
static s2_status give(const s2_emitter *parts, s2_emitter *out, const s2_shape *shape, int32_t seq,
                      int32_t kv_head)
{
    int32_t chain = -1;
    for (int64_t p = shape->column_begin; p < shape->column_end; p++) {
        S2_TRY(S2_RESERVE(out->work, out->cap_work, out->n + 1));
        s2_work *const work = &out->work[out->n];
        *work = parts->work[p];
        work->index = out->n++;
        work->column.seq = seq;
        work->column.kv_head = kv_head;
        if (work->column.n_parts > 1 && work->column.part == 0)
            chain = out->n_chains++;
        work->column.chain = work->column.n_parts > 1 ? chain : -1;
    }
    return S2_OK;
}

static s2_status one_sequence(s2_transposer *build, s2_emitter *parts, s2_emitter *out, int32_t seq,
                              int64_t *source)
{
    const s2_plan_seq lens = build->plan->seqs[seq];
    const int32_t n_steps = s2_plan_n_tiles(build->plan, seq) * steps_of_tile(build);
    for (int32_t kv_head = 0; kv_head < build->plan->pattern->n_kv_heads; kv_head++) {
        s2_shape *const shape = &build->shapes[kv_head];
        find_shape(build, seq, kv_head, source, shape);
        int32_t same = 0;
        while (same < kv_head &&
               !(build->shapes[same].from_head == same && shapes_equal(build, &build->shapes[same], shape)))
            same++;
        if (same < kv_head) {
            *shape = build->shapes[same];
        } else {
            S2_TRY(transpose(build, shape, lens.k_tok));
            const int32_t begin = shape->column_begin, end = shape->column_end;
            shape->column_begin = (int32_t)parts->n;
            for (int32_t column = begin; column < end; column++)
                S2_TRY(cut(build, parts, &build->made[column], n_steps));
            shape->column_end = (int32_t)parts->n;
        }
        S2_TRY(give(parts, out, shape, seq, kv_head));
    }
    return S2_OK;
}

static s2_status keep(s2_arena *arena, const s2_transposer *build, const s2_emitter *out,
                      s2_plan_columns *result)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const bool masked = keeps_masks(build);
    s2_plan_column *const columns = S2_NEW(arena, s2_plan_column, out->n);
    int32_t *const blocks = S2_NEW(arena, int32_t, build->n_blocks);
    s2_plan_column_entry *const entries = S2_NEW(arena, s2_plan_column_entry, build->n_entries);
    int32_t *const masks = masked ? S2_NEW(arena, int32_t, build->n_entries * build->n_sub) : NULL;
    if (columns == NULL || blocks == NULL || entries == NULL || (masked && masks == NULL) ||
        out->n > INT32_MAX) {
        s2_arena_rewind(arena, mark);
        return S2_ENOMEM;
    }
    for (int64_t w = 0; w < out->n; w++)
        columns[w] = out->work[w].column;
    if (build->n_blocks > 0)
        memcpy(blocks, build->blocks, (size_t)build->n_blocks * sizeof *blocks);
    if (build->n_entries > 0)
        memcpy(entries, build->entries, (size_t)build->n_entries * sizeof *entries);
    if (masked && build->n_entries > 0)
        memcpy(masks, build->masks, (size_t)build->n_entries * (size_t)build->n_sub * sizeof *masks);
    *result = (s2_plan_columns){.n_sub = build->n_sub,
                                .n_columns = (int32_t)out->n,
                                .columns = columns,
                                .blocks = blocks,
                                .entries = entries,
                                .n_entries = build->n_entries,
                                .masks = masks,
                                .n_chains = out->n_chains};
    return S2_OK;
}

static s2_status prepare(s2_transposer *build)
{
    const s2_plan *const plan = build->plan;
    int32_t k_tok = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        k_tok = s2_max_i32(plan->seqs[seq].k_tok, k_tok);
    build->limit_blk = (int32_t)s2_ceil_div(k_tok, plan->blk_tok) + 3 * S2_COLUMN_LIMIT_SUBS;
    build->place = s2_calloc((size_t)build->limit_blk, sizeof *build->place);
    build->count = s2_calloc((size_t)build->limit_blk, sizeof *build->count);
    build->fill = s2_calloc((size_t)build->limit_blk, sizeof *build->fill);
    build->last = s2_calloc((size_t)build->limit_blk, sizeof *build->last);
    build->shapes = s2_calloc((size_t)plan->pattern->n_kv_heads, sizeof *build->shapes);
    build->next_of = s2_calloc((size_t)N_PLACES * (size_t)turns_of(build) + 1, sizeof *build->next_of);
    if (build->place == NULL || build->count == NULL || build->fill == NULL || build->last == NULL ||
        build->shapes == NULL || build->next_of == NULL)
        return S2_ENOMEM;
    return find_sources(build);
}

static void release(s2_transposer *build, s2_emitter *emitter)
{
    void *const memory[] = {build->sources, build->place,  build->count,  build->fill,
                            build->last,    build->made,   build->blocks, build->entries,
                            build->masks,   build->shapes, build->next_of};
    for (size_t m = 0; m < sizeof memory / sizeof *memory; m++)
        s2_free(memory[m]);
    for (int32_t e = 0; e < 2; e++) {
        s2_free(emitter[e].work);
        s2_free(emitter[e].entries);
        s2_free(emitter[e].masks);
    }
}

static bool options_fit(const s2_plan *plan, const s2_plan_column_options *options)
{
    return plan->options.tile_tok % S2_COLUMN_STEP_TOK == 0 && options->key_tok >= plan->blk_tok &&
           options->key_tok <= S2_COLUMN_LIMIT_SUBS * plan->blk_tok &&
           options->key_tok % plan->blk_tok == 0 && options->section_heads >= 0 && options->wave >= 0 &&
           options->halves >= 0 && (!options->in_order || options->halves == 0) &&
           (!options->in_order || options->wave > 0 || options->part_steps == 0) &&
           (options->part_steps >= 0 || (options->part_steps == S2_COLUMN_BALANCED && options->wave == 0 &&
                                         options->units > 0 && options->costs.worth > 0));
}

static s2_status transpose_plan(s2_arena *arena, const s2_plan *plan, const s2_plan_flat *flat,
                                const s2_plan_column_options *options, s2_plan_columns *out)
{
    s2_transposer build = {.plan = plan,
                           .flat = flat,
                           .options = *options,
                           .group = plan->pattern->n_heads / plan->pattern->n_kv_heads,
                           .n_sub = options->key_tok / plan->blk_tok};
    s2_emitter emitter[2] = {{0}}; /* the parts of each shape, and those of each KV head */
    s2_plan_columns columns;
    s2_status status = prepare(&build);
    int64_t source = 0;
    for (int32_t seq = 0; seq < plan->n_seqs && status == S2_OK; seq++)
        status = one_sequence(&build, &emitter[0], &emitter[1], seq, &source);
    if (status == S2_OK) {
        order_columns(&build, &emitter[1]);
        status = keep(arena, &build, &emitter[1], &columns);
    }
    if (status == S2_OK && options->in_order)
        status = number_turns(arena, &build, &columns);
    if (status == S2_OK)
        *out = columns;
    release(&build, emitter);
    return status;
}

/* ------------------------------------------------------------------ the length of parts */

/* When `units` finish the columns, and when they would in perfect balance. */
static s2_status done_at(const s2_plan_columns *columns, int32_t units, const s2_column_costs *costs,
                         double *out, double *balanced)
{
    s2_unit *const all_units = s2_calloc((size_t)units, sizeof *all_units);
    double *const added = s2_calloc((size_t)columns->n_chains + 1, sizeof *added);
    const bool good = all_units != NULL && added != NULL;
    s2_turns turns = {.units = all_units, .added = added, .n_units = units, .sum = costs->sum};
    double all = 0;
    for (int32_t c = 0; c < columns->n_columns && good; c++) {
        const s2_plan_column *const column = &columns->columns[c];
        const int32_t n_half = column->n_upper + column->n_tail;
        const double own = costs->change + column->n_heads * (column->n - n_half + costs->half * n_half);
        all += own;
        (void)s2_turns_take(&turns, own, column->chain);
    }
    *out = turns.last;
    *balanced = all / units;
    s2_free(all_units);
    s2_free(added);
    return good ? S2_OK : S2_ENOMEM;
}

/* Chooses the length of parts with which the units finish first. No cut is tried first. */
static s2_status transpose_balanced(s2_arena *arena, const s2_plan *plan, const s2_plan_flat *flat,
                                    s2_plan_column_options options, s2_plan_columns *out)
{
    static const int32_t lengths[] = {0, 128, 96, 64, 48, 32, 24, 16};
    const double worth = options.costs.worth;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_plan_columns columns;
    int32_t best = 0;
    double least = INFINITY, balanced = 0;
    for (size_t length = 0; length < sizeof lengths / sizeof *lengths && worth * least > balanced; length++) {
        double end;
        options.part_steps = lengths[length];
        s2_arena_rewind(arena, mark);
        S2_TRY(transpose_plan(arena, plan, flat, &options, &columns));
        S2_TRY(done_at(&columns, options.units, &options.costs, &end, &balanced));
        if (end < worth * least) {
            least = end;
            best = lengths[length];
        }
    }
    if (best != options.part_steps) {
        options.part_steps = best;
        s2_arena_rewind(arena, mark);
        S2_TRY(transpose_plan(arena, plan, flat, &options, &columns));
    }
    *out = columns;
    return S2_OK;
}

s2_status s2_plan_transpose(s2_arena *arena, const s2_plan *plan, const s2_plan_flat *flat,
                            const s2_plan_column_options *options, s2_plan_columns *out)
{
    if (!options_fit(plan, options))
        return S2_EINVAL;
    if (options->part_steps == S2_COLUMN_BALANCED)
        return transpose_balanced(arena, plan, flat, *options, out);
    return transpose_plan(arena, plan, flat, options, out);
}
