#include "plan/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"
#include "base/work.h"
#include "pattern/layers.h"
#include "pattern/viewset.h"
#include "plan/follow.h"

s2_plan_options s2_plan_options_default(void)
{
    return (s2_plan_options){.tile_tok = 128, .key_tok = 128, .pack_heads = 1, .elem_bytes = 2};
}

static s2_status check_options(const s2_plan_options *options, s2_diag *why)
{
    const int32_t tile_limit = S2_PLAN_SLAB_TOK * S2_PLAN_LIMIT_SLABS;
    if (options->tile_tok < S2_PLAN_SLAB_TOK || options->tile_tok > tile_limit ||
        options->tile_tok % S2_PLAN_SLAB_TOK != 0)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a tile of %d rows is not a multiple of 16 up to %d",
                           options->tile_tok, tile_limit);
    if (!s2_is_power_of_two(options->key_tok) || options->key_tok < S2_PLAN_SLAB_TOK)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a step of %d keys: must be a power of two, 16 or more",
                           options->key_tok);
    if (options->tile_rows < 0 || options->tile_rows > tile_limit)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a tile of %d rows in all: out of range 0..%d",
                           options->tile_rows, tile_limit);
    if (options->pack_heads < 1 || options->section_bytes < 0 || options->elem_bytes < 1)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "packing, section or element size out of range");
    return S2_OK;
}

static s2_status check_seqs(const s2_plan_seq *seqs, int32_t n_seqs, bool causal, s2_diag *why)
{
    if (n_seqs < 1)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a batch has at least one sequence");
    for (int32_t seq = 0; seq < n_seqs; seq++) {
        const s2_plan_seq lens = seqs[seq];
        if (lens.q_tok < 1 || lens.q_tok > lens.k_tok || lens.k_tok > S2_LIMIT_CONTEXT_TOK)
            return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "sequence %d: %d queries on %d keys", seq, lens.q_tok,
                               lens.k_tok);
        if (!causal && lens.k_tok != seqs[0].k_tok)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                               "a pattern that is not causal needs sequences of equal length");
    }
    return S2_OK;
}

int32_t s2_plan_longest(const s2_plan_seq *seqs, int32_t n_seqs)
{
    int32_t k_tok = 0;
    for (int32_t seq = 0; seq < n_seqs; seq++)
        k_tok = s2_max_i32(seqs[seq].k_tok, k_tok);
    return k_tok;
}

/* ------------------------------------------------------------------ classes */

/* with_blocks: build the block list if the class is not arithmetic. */
static s2_status fill_class(s2_arena *arena, const s2_plan *plan, const s2_view *view, bool with_blocks,
                            s2_plan_class *cls)
{
    *cls = (s2_plan_class){.first_head = view->head, .view = *view};
    if (!with_blocks)
        return S2_OK;
    cls->periodic = s2_plan_periodic_of(view, &cls->as);
    if (cls->periodic) {
        cls->block_exact = cls->as.window_tok == 0 && cls->as.sink_tok % plan->blk_tok == 0;
        return S2_OK;
    }
    S2_TRY(s2_blocks_build(arena, view, s2_plan_longest(plan->seqs, plan->n_seqs), plan->blk_tok,
                           plan->options.work_left, &cls->blocks));
    cls->block_exact = true;
    for (int64_t e = 0; e < cls->blocks.row_begin[cls->blocks.n_q_blk]; e++)
        cls->block_exact = cls->block_exact && cls->blocks.full[e] != 0;
    return S2_OK;
}

static s2_status build_classes(s2_arena *arena, s2_plan *plan, bool with_blocks, s2_diag *why)
{
    const int32_t n_heads = plan->pattern->n_heads;
    s2_view_set set = {0};
    s2_plan_class *const classes = S2_NEW(arena, s2_plan_class, n_heads);
    int32_t *const class_of = S2_NEW(arena, int32_t, n_heads);
    if (classes == NULL || class_of == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++) {
        s2_view view;
        S2_TRY(s2_view_build(arena, plan->pattern, plan->phase, plan->layer, head, S2_AT_LEAST, &view));
        if (view.has_dynamic)
            return s2_diag_set(
                why, S2_EUNSUPPORTED, 0, 0, 0,
                "layer %d, head %d chooses its keys at run time; only static terms are planned", plan->layer,
                head);
        int32_t cls;
        S2_TRY(s2_view_set_add(arena, &set, &view, &cls));
        if (cls == plan->n_classes) {
            S2_TRY(fill_class(arena, plan, &view, with_blocks, &classes[cls]));
            plan->n_classes++;
        }
        classes[cls].n_heads++;
        class_of[head] = cls;
    }
    plan->classes = classes;
    plan->class_of = class_of;
    return S2_OK;
}

/* The largest divisor of the group up to options.pack_heads if every group shares one class, else 1. */
static int32_t packing(const s2_plan *plan)
{
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads;
    for (int32_t head = 0; head < plan->pattern->n_heads; head++)
        if (plan->class_of[head] != plan->class_of[head - head % group])
            return 1;
    int32_t pack = s2_min_i32(plan->options.pack_heads, group);
    while (group % pack != 0)
        pack--;
    return pack;
}

/* ------------------------------------------------------------------ costs and sections */

/* cost[(cls * n_seqs + seq)][tile], and how many of the entries are partial. */
typedef struct s2_tile_cost {
    int32_t n_blk;
    int32_t n_partial;
} s2_tile_cost;

typedef struct s2_costs {
    s2_tile_cost *of;
    int64_t *begin; /* [cls * n_seqs + seq] */
} s2_costs;

static void release_costs(s2_costs *costs)
{
    s2_free(costs->of);
    s2_free(costs->begin);
}

static s2_tile_cost cost_at(const s2_plan *plan, const s2_costs *costs, int32_t cls, int32_t seq,
                            int32_t tile)
{
    return costs->of[costs->begin[(int64_t)cls * plan->n_seqs + seq] + tile];
}

static s2_status measure_tiles(const s2_plan *plan, s2_costs *costs)
{
    int64_t n = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n += s2_plan_n_tiles(plan, seq);
    if (!s2_work_spend(plan->options.work_left, n * plan->n_classes))
        return S2_ELIMIT;
    costs->of = s2_calloc((size_t)(n * plan->n_classes), sizeof *costs->of);
    costs->begin = s2_calloc((size_t)plan->n_classes * (size_t)plan->n_seqs, sizeof *costs->begin);
    if (costs->of == NULL || costs->begin == NULL)
        return S2_ENOMEM;
    s2_plan_list scratch = {0};
    s2_status status = S2_OK;
    int64_t n_measured = 0;
    for (int32_t cls = 0; status == S2_OK && cls < plan->n_classes; cls++)
        for (int32_t seq = 0; status == S2_OK && seq < plan->n_seqs; seq++) {
            costs->begin[(int64_t)cls * plan->n_seqs + seq] = n_measured;
            const int32_t n_tiles = s2_plan_n_tiles(plan, seq);
            for (int32_t tile = 0; status == S2_OK && tile < n_tiles; tile++, n_measured++)
                status = s2_plan_tile_cost(plan, cls, seq, tile, &scratch, &costs->of[n_measured].n_blk,
                                           &costs->of[n_measured].n_partial);
        }
    s2_plan_list_release(&scratch);
    return status;
}

/* K and V bytes of one KV head that its longest tiles touch, which should stay in the cache. */
static int64_t live_bytes(const s2_plan *plan, const s2_costs *costs, int32_t seq, int32_t kv_head)
{
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads;
    const int64_t blk_bytes = 2 * (int64_t)plan->blk_tok * plan->pattern->head_dim * plan->options.elem_bytes;
    int64_t n_blk = 0;
    for (int32_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        if (head == kv_head * group || plan->class_of[head] != plan->class_of[head - 1])
            n_blk += cost_at(plan, costs, plan->class_of[head], seq, s2_plan_n_tiles(plan, seq) - 1).n_blk;
    const int64_t all = s2_ceil_div(plan->seqs[seq].k_tok, plan->blk_tok);
    return s2_min_i64(n_blk, all) * blk_bytes;
}

/*
 * section_of[seq * G + kv_head], ascending: sections of equal size, as near to section_bytes as their number
 * allows. A small last section would end with long items, with nothing short left to fill the last wave.
 */
static s2_status assign_sections(const s2_plan *plan, const s2_costs *costs, int32_t *section_of)
{
    const int32_t n_kv = plan->pattern->n_kv_heads;
    const int64_t n = (int64_t)plan->n_seqs * n_kv, wanted = plan->options.section_bytes;
    int64_t *const begin = s2_malloc(((size_t)n + 1) * sizeof *begin);
    if (begin == NULL)
        return S2_ENOMEM;
    begin[0] = 0;
    for (int64_t at = 0; at < n; at++)
        begin[at + 1] = begin[at] + live_bytes(plan, costs, (int32_t)(at / n_kv), (int32_t)(at % n_kv));
    const int64_t n_sections = wanted > 0 ? s2_max_i64(1, (begin[n] + wanted / 2) / wanted) : 1,
                  size = s2_max_i64(1, s2_ceil_div(begin[n], n_sections));
    int64_t part = 0; /* the section, by size alone, that contains the middle of a head */
    for (int64_t at = 0; at < n; at++) {
        const int64_t before = part;
        part = (begin[at] + begin[at + 1]) / 2 / size;
        section_of[at] = at == 0 ? 0 : section_of[at - 1] + (part > before);
    }
    s2_free(begin);
    return S2_OK;
}

/* ------------------------------------------------------------------ items and counts */

/* Stable sort by section or descending list length. `out` gets the n items, `first` has an entry per key. */
static void sort_items(const s2_plan_item *items, int32_t n, bool by_section, int32_t n_keys, int32_t *first,
                       s2_plan_item *out)
{
    memset(first, 0, ((size_t)n_keys + 1) * sizeof *first);
    for (int32_t at = 0; at < n; at++)
        first[(by_section ? items[at].section : n_keys - 1 - items[at].n_blk) + 1]++;
    for (int32_t key = 0; key < n_keys; key++)
        first[key + 1] += first[key];
    for (int32_t at = 0; at < n; at++)
        out[first[by_section ? items[at].section : n_keys - 1 - items[at].n_blk]++] = items[at];
}

/* Items come by sequence, from the last tile on, then by head; within a list length that order stays. */
static s2_status order_items(s2_plan_item *items, int32_t n)
{
    int32_t longest_list = 0, last_section = 0;
    for (int32_t at = 0; at < n; at++) {
        longest_list = s2_max_i32(items[at].n_blk, longest_list);
        last_section = s2_max_i32(items[at].section, last_section);
    }
    const int32_t most = s2_max_i32(longest_list, last_section);
    s2_plan_item *const other = s2_malloc(((size_t)n + 1) * sizeof *other);
    int32_t *const first = s2_malloc(((size_t)most + 2) * sizeof *first);
    if (other != NULL && first != NULL) {
        sort_items(items, n, false, longest_list + 1, first, other);
        sort_items(other, n, true, last_section + 1, first, items);
    }
    const s2_status status = other != NULL && first != NULL ? S2_OK : S2_ENOMEM;
    s2_free(other);
    s2_free(first);
    return status;
}

static void add_item_counts(s2_plan *plan, const s2_plan_item *item, int32_t n_partial)
{
    s2_plan_counts *const counts = &plan->counts;
    const int64_t n_steps = s2_ceil_div((int64_t)item->n_blk * plan->blk_tok, plan->options.key_tok);
    counts->n_tiles += item->n_heads;
    counts->n_blk_loaded += item->n_blk;
    counts->n_blk_partial += n_partial;
    counts->n_steps += n_steps;
    counts->pairs_executed += n_steps * plan->options.key_tok * plan->options.tile_tok * item->n_heads;
}

enum { AN_ITEM = 8 }; /* steps (base/work.h) */

static s2_status build_items(s2_arena *arena, s2_plan *plan, const s2_costs *costs, const int32_t *section_of)
{
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads;
    int64_t n = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n += (int64_t)s2_plan_n_tiles(plan, seq) * (plan->pattern->n_heads / plan->pack_heads);
    if (!s2_work_spend(plan->options.work_left, n * AN_ITEM))
        return S2_ELIMIT;
    s2_plan_item *const items = n <= INT32_MAX ? S2_NEW(arena, s2_plan_item, n) : NULL;
    if (items == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        for (int32_t tile = s2_plan_n_tiles(plan, seq); tile-- > 0;)
            for (int32_t head = 0; head < plan->pattern->n_heads; head += plan->pack_heads) {
                const int32_t cls = plan->class_of[head];
                const s2_tile_cost cost = cost_at(plan, costs, cls, seq, tile);
                s2_plan_item *const item = &items[plan->n_items++];
                *item = (s2_plan_item){.seq = seq,
                                       .head = head,
                                       .n_heads = plan->pack_heads,
                                       .tile = tile,
                                       .cls = cls,
                                       .section = section_of[seq * plan->pattern->n_kv_heads + head / group],
                                       .n_blk = cost.n_blk,
                                       .n_partial = cost.n_partial};
                add_item_counts(plan, item, cost.n_partial);
            }
    plan->items = items;
    return order_items(items, plan->n_items);
}

/* Pairs of the last q_tok rows, row by row. Without causality a context is not part of a longer one. */
static s2_status count_rows(const s2_view *view, s2_plan_seq lens, int64_t *work_left, int64_t *out)
{
    int64_t total = 0, cap = 0, n_runs = 0;
    s2_run *runs = NULL;
    s2_status status = S2_OK;
    for (int64_t q_tok = lens.k_tok - lens.q_tok; q_tok < lens.k_tok && status == S2_OK; q_tok++) {
        status = s2_view_row_whole(view, q_tok, lens.k_tok, work_left, &runs, &cap, &n_runs);
        for (int64_t r = 0; status == S2_OK && r < n_runs; r++)
            total += runs[r].end - runs[r].begin;
    }
    s2_free(runs);
    if (status == S2_OK)
        *out = total;
    return status;
}

/* Pairs in whole blocks: all rows read those before the diagonal; each row reads the one on it up to its own key. */
static int64_t count_blocks(const s2_blocks *blocks, s2_plan_seq lens)
{
    const int64_t size = blocks->block_tok, first = lens.k_tok - lens.q_tok;
    int64_t total = 0;
    for (int64_t q_blk = first / size; q_blk * size < lens.k_tok; q_blk++) {
        const int64_t begin = s2_max_i64(first, q_blk * size),
                      end = s2_min_i64(lens.k_tok, (q_blk + 1) * size);
        const int64_t entry_begin = blocks->row_begin[q_blk], past = blocks->row_begin[q_blk + 1];
        const bool diagonal = past > entry_begin && blocks->k_blk[past - 1] == q_blk;
        total += (past - entry_begin - diagonal) * size * (end - begin);
        if (diagonal)
            total += (end - begin) * (begin + end + 1 - 2 * q_blk * size) / 2;
    }
    return total;
}

static s2_status count_class(const s2_plan_class *cls, s2_plan_seq lens, int64_t *work_left, int64_t *out)
{
    enum { FEW_ROWS = 16 };
    const bool causal = cls->view.pattern->causal;
    int64_t all, before = 0;
    if (causal && !cls->periodic && cls->block_exact) {
        *out = count_blocks(&cls->blocks, lens);
        return S2_OK;
    }
    if (lens.q_tok < lens.k_tok && (!causal || lens.q_tok <= FEW_ROWS))
        return count_rows(&cls->view, lens, work_left, out);
    S2_TRY(s2_view_count_pairs(&cls->view, lens.k_tok, work_left, &all));
    if (lens.q_tok < lens.k_tok)
        S2_TRY(s2_view_count_pairs(&cls->view, lens.k_tok - lens.q_tok, work_left, &before));
    *out = all - before;
    return S2_OK;
}

static s2_status count_pairs(s2_plan *plan)
{
    for (int32_t seq = 0; seq < plan->n_seqs; seq++) {
        const s2_plan_seq lens = plan->seqs[seq];
        const int64_t k_tok = lens.k_tok, q_tok = lens.q_tok, off = k_tok - q_tok;
        plan->counts.pairs_causal += plan->pattern->n_heads * (k_tok * (k_tok + 1) / 2 - off * (off + 1) / 2);
        for (int32_t cls = 0; cls < plan->n_classes; cls++) {
            int64_t pairs = 0;
            S2_TRY(count_class(&plan->classes[cls], lens, plan->options.work_left, &pairs));
            plan->counts.pairs += pairs * plan->classes[cls].n_heads;
        }
    }
    return S2_OK;
}

static s2_status schedule(s2_arena *arena, s2_plan *plan)
{
    s2_costs costs = {0};
    int32_t *const section_of =
        s2_calloc((size_t)plan->n_seqs * (size_t)plan->pattern->n_kv_heads, sizeof *section_of);
    s2_status status = section_of != NULL ? measure_tiles(plan, &costs) : S2_ENOMEM;
    if (status == S2_OK)
        status = assign_sections(plan, &costs, section_of);
    if (status == S2_OK)
        status = build_items(arena, plan, &costs, section_of);
    release_costs(&costs);
    s2_free(section_of);
    return status;
}

static s2_status build(s2_arena *arena, s2_plan *plan, const s2_plan_seq *seqs, s2_diag *why)
{
    s2_plan_seq *const copy = S2_NEW(arena, s2_plan_seq, plan->n_seqs);
    if (copy == NULL)
        return S2_ENOMEM;
    memcpy(copy, seqs, (size_t)plan->n_seqs * sizeof *copy);
    plan->seqs = copy;
    S2_TRY(build_classes(arena, plan, true, why));
    plan->pack_heads = packing(plan);
    if (plan->options.tile_rows > 0)
        plan->options.tile_tok = plan->options.tile_rows / plan->pack_heads;
    S2_TRY(check_options(&plan->options, why));
    S2_TRY(schedule(arena, plan));
    return count_pairs(plan);
}

/* An empty plan. */
static s2_status begin_plan(const s2_pattern *pattern, s2_phase phase, int32_t layer, const s2_plan_seq *seqs,
                            int32_t n_seqs, const s2_plan_options *options, s2_plan *plan, s2_diag *why)
{
    S2_TRY(check_options(options, why));
    S2_TRY(s2_pattern_require_alike(pattern, "a plan", why));
    S2_TRY(check_seqs(seqs, n_seqs, pattern->causal, why));
    if (layer < 0 || layer >= pattern->n_layers)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "layer %d of %d", layer, pattern->n_layers);
    *plan =
        (s2_plan){.pattern = pattern, .phase = phase, .layer = layer, .options = *options, .n_seqs = n_seqs};
    plan->blk_tok = s2_max_i32(pattern->block_tok, S2_PLAN_SLAB_TOK);
    plan->blk_tok = s2_min_i32(plan->blk_tok, options->key_tok);
    plan->mask_words = plan->blk_tok > 32 ? plan->blk_tok / 32 : 1;
    return S2_OK;
}

s2_status s2_plan_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                        const s2_plan_seq *seqs, int32_t n_seqs, const s2_plan_options *options, s2_plan *out,
                        s2_diag *why)
{
    s2_plan plan;
    S2_TRY(begin_plan(pattern, phase, layer, seqs, n_seqs, options, &plan, why));
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const s2_status status = build(arena, &plan, seqs, why);
    if (status != S2_OK) {
        s2_arena_rewind(arena, mark);
        return status;
    }
    *out = plan;
    return S2_OK;
}

s2_status s2_plan_build_classes(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                                const s2_plan_seq *seqs, int32_t n_seqs, const s2_plan_options *options,
                                s2_plan *out, s2_diag *why)
{
    s2_plan plan;
    S2_TRY(begin_plan(pattern, phase, layer, seqs, n_seqs, options, &plan, why));
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const s2_status status = build_classes(arena, &plan, false, why);
    if (status != S2_OK) {
        s2_arena_rewind(arena, mark);
        return status;
    }
    plan.seqs = seqs;
    *out = plan;
    return S2_OK;
}

s2_status s2_plan_select(s2_arena *arena, const s2_plan *plan,
                         bool (*keep)(void *user, const s2_plan_item *item), void *user, s2_plan *out)
{
    s2_plan_item *const items = S2_NEW(arena, s2_plan_item, plan->n_items);
    if (items == NULL)
        return S2_ENOMEM;
    s2_plan kept = *plan;
    kept.n_items = 0;
    for (int32_t at = 0; at < plan->n_items; at++)
        if (keep(user, &plan->items[at]))
            items[kept.n_items++] = plan->items[at];
    kept.items = items;
    *out = kept;
    return S2_OK;
}

bool s2_plan_is_whole(const s2_plan *plan)
{
    bool whole = true;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        whole = whole && plan->seqs[seq].q_tok == plan->seqs[seq].k_tok;
    return whole;
}

int32_t s2_plan_window(const s2_plan *plan)
{
    if (plan->n_classes != 1 || !plan->classes[0].periodic)
        return 0;
    const s2_plan_periodic *const as = &plan->classes[0].as;
    return as->dense || as->local_blk > 0 || as->sink_tok > 0 || as->stride_blk > 0 ? 0 : as->window_tok;
}

bool s2_plan_reads_window(const s2_plan *plan, int32_t most_tok)
{
    return s2_plan_window(plan) >= 1 && s2_plan_window(plan) <= most_tok;
}

bool s2_plan_reads_all(const s2_plan *plan)
{
    const int32_t k_tok = s2_plan_longest(plan->seqs, plan->n_seqs);
    bool all = s2_plan_is_whole(plan);
    for (int32_t cls = 0; cls < plan->n_classes; cls++) {
        const s2_plan_periodic *const as = &plan->classes[cls].as;
        all = all && plan->classes[cls].periodic && plan->classes[cls].block_exact &&
              (as->dense || (int64_t)as->local_blk * as->block_tok >= k_tok);
    }
    return all;
}

/* The layers found so far: the distinct heads of each, and a hash of these. */
typedef struct s2_found_layers {
    s2_view_set set;
    int32_t n;
    int32_t **heads; /* [layer found][head], indices in the set */
    uint64_t *hashes;
} s2_found_layers;

static s2_status fold_layer(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                            s2_found_layers *found)
{
    int32_t *const heads = S2_NEW(arena, int32_t, pattern->n_heads);
    uint64_t hash = 0;
    if (heads == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        const int32_t n_before = found->set.n;
        s2_view view;
        S2_TRY(s2_view_build(arena, pattern, phase, layer, head, S2_AT_MOST, &view));
        S2_TRY(s2_view_set_add(arena, &found->set, &view, &heads[head]));
        if (found->set.n == n_before)
            s2_arena_rewind(arena, mark);
        hash = (hash ^ (uint64_t)heads[head]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 31;
    }
    found->heads[found->n] = heads;
    found->hashes[found->n] = hash;
    return S2_OK;
}

/* The first layer found that reads as the one that was folded last; n: that one. */
static int32_t find_layer(const s2_found_layers *found, int32_t n_heads)
{
    int32_t known = 0;
    while (known < found->n && (found->hashes[known] != found->hashes[found->n] ||
                                memcmp(found->heads[known], found->heads[found->n],
                                       (size_t)n_heads * sizeof **found->heads) != 0))
        known++;
    return known;
}

s2_status s2_plan_distinct_layers(s2_arena *arena, const s2_pattern *pattern, s2_phase phase,
                                  const int32_t **layers, int32_t *n_out, int32_t *layer_of)
{
    const int32_t n_layers = pattern->n_layers;
    int32_t *const first = S2_NEW(arena, int32_t, n_layers), *const alike = S2_NEW(arena, int32_t, n_layers);
    int32_t *const same_as = layer_of != NULL ? layer_of : S2_NEW(arena, int32_t, n_layers);
    s2_found_layers found = {.heads = S2_NEW(arena, int32_t *, n_layers),
                             .hashes = S2_NEW(arena, uint64_t, n_layers)};
    if (first == NULL || alike == NULL || same_as == NULL || found.heads == NULL || found.hashes == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_layers_alike(arena, pattern, 1u << phase, alike));
    for (int32_t layer = 0; layer < n_layers; layer++) {
        if (alike[layer] != layer) {
            same_as[layer] = same_as[alike[layer]];
            continue;
        }
        S2_TRY(fold_layer(arena, pattern, phase, layer, &found));
        const int32_t known = find_layer(&found, pattern->n_heads);
        if (known == found.n)
            first[found.n++] = layer;
        same_as[layer] = first[known];
    }
    *layers = first;
    *n_out = found.n;
    return S2_OK;
}
