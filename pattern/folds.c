#include "pattern/folds.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/blocks.h"

enum {
    /* Rows of a block list that are counted one by one; beyond this the figure is left out. */
    COUNT_ROWS = 4096,
    /* Rows of tokens that are enumerated for heads without a closed form. */
    COUNT_EXPLICIT_TOK = 1 << 15,
    /* Keys or rows times conditions, for a second or so; runs of a row are walked for each condition. */
    COUNT_STEPS = 1 << 28,
    COUNT_ALL_STEPS = 1 << 28, /* for all classes, some seconds */
    COUNT_BLOCK_STEPS = 1 << 24
};

static uint64_t hash_view(const s2_view *view)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int32_t n = 0; n < view->n_atoms; n++) {
        const s2_atom *const a = &view->atoms[n];
        const int64_t field[] = {(int64_t)a->kind,
                                 a->gran,
                                 a->period,
                                 a->width,
                                 a->shift,
                                 a->distance_blk.begin,
                                 a->distance_blk.end,
                                 a->distance_tok.begin,
                                 a->distance_tok.end,
                                 a->key_tok.begin,
                                 a->key_tok.end,
                                 a->query_tok.begin,
                                 a->query_tok.end,
                                 a->kind == S2_ATOM_RANDOM ? (int64_t)view->layer << 32 | view->head : 0};
        for (size_t f = 0; f < sizeof field / sizeof field[0]; f++)
            hash = (hash ^ (uint64_t)field[f]) * UINT64_C(0x100000001b3) + (hash >> 29);
    }
    return hash;
}

/* Classes found so far, with an open-addressed table from hash to class + 1. */
typedef struct builder {
    s2_view *views;
    int32_t n_classes;
    int64_t cap;
    int32_t *slots;
    uint64_t mask;
    s2_arena *arena;
} builder;

static s2_status find_class(builder *b, const s2_view *view, int32_t *out, bool *is_new)
{
    uint64_t slot = hash_view(view) & b->mask;
    for (; b->slots[slot] != 0; slot = (slot + 1) & b->mask)
        if (s2_view_equal(&b->views[b->slots[slot] - 1], view)) {
            *out = b->slots[slot] - 1;
            *is_new = false;
            return S2_OK;
        }
    S2_TRY(S2_ARENA_ROOM(b->arena, b->views, b->n_classes, b->cap));
    b->views[b->n_classes] = *view;
    b->slots[slot] = ++b->n_classes;
    *out = b->n_classes - 1;
    *is_new = true;
    return S2_OK;
}

s2_status s2_folds_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_bound bound,
                         s2_folds *out)
{
    const int64_t n_heads = (int64_t)pattern->n_layers * pattern->n_heads;
    int64_t n_slots = 64;
    while (n_slots < 2 * n_heads)
        n_slots *= 2;
    builder b = {.slots = S2_NEW(arena, int32_t, n_slots), .mask = (uint64_t)n_slots - 1, .arena = arena};
    int32_t *const class_of = S2_NEW(arena, int32_t, n_heads);
    if (b.slots == NULL || class_of == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            const s2_arena_mark_t mark = s2_arena_mark(arena);
            s2_view view;
            bool is_new;
            S2_TRY(s2_view_build(arena, pattern, phase, layer, head, bound, &view));
            S2_TRY(find_class(&b, &view, &class_of[(int64_t)layer * pattern->n_heads + head], &is_new));
            if (!is_new)
                s2_arena_rewind(arena, mark);
        }
    *out = (s2_folds){b.n_classes, b.views, class_of};
    return S2_OK;
}

/* One class: pairs and block pairs read, NAN where they are not counted. */
typedef struct counts {
    double pairs;
    double blocks;
    bool dense;
} counts;

static s2_status count_class(const s2_view *view, int64_t n_tok, bool with_blocks, int64_t *work_left,
                             counts *out)
{
    const int64_t block_tok = view->pattern->block_tok, n_blk = s2_ceil_div(n_tok, block_tok);
    const double all =
        view->pattern->causal ? (double)n_tok * (double)(n_tok + 1) / 2 : (double)n_tok * (double)n_tok;
    const int64_t steps = n_tok * view->n_atoms;
    *out = (counts){(double)NAN, (double)NAN, false};
    if (steps > COUNT_STEPS || (view->has_explicit && n_tok > COUNT_EXPLICIT_TOK))
        return S2_OK;
    int64_t pairs;
    s2_status status = s2_view_count_pairs(view, n_tok, work_left, &pairs);
    if (status != S2_OK)
        return status == S2_ELIMIT ? S2_OK : status;
    out->pairs = (double)pairs;
    out->dense = out->pairs >= all;
    if (!with_blocks || n_blk > COUNT_ROWS || steps > COUNT_BLOCK_STEPS)
        return S2_OK;
    s2_arena scratch = {0};
    s2_blocks blocks;
    status = s2_blocks_build(&scratch, view, n_tok, (int32_t)block_tok, work_left, &blocks);
    if (status == S2_OK)
        out->blocks = (double)blocks.row_begin[blocks.n_q_blk];
    s2_arena_release(&scratch);
    return status == S2_ELIMIT ? S2_OK : status;
}

static s2_status sum_classes(const s2_pattern *pattern, const s2_folds *folds, const counts *of,
                             int64_t n_tok, s2_density *out)
{
    const double n = (double)n_tok, n_blk = (double)s2_ceil_div(n_tok, pattern->block_tok);
    const double all = pattern->causal ? n * (n + 1) / 2 : n * n;
    const double all_blk = pattern->causal ? n_blk * (n_blk + 1) / 2 : n_blk * n_blk;
    double pairs = 0, blocks = 0;
    int32_t n_sparse = 0, n_layers = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int32_t *const class_of = folds->class_of + (int64_t)layer * pattern->n_heads;
        if (s2_pattern_is_state_layer(pattern, layer))
            continue; /* the layer has no attention that could be dense */
        n_layers++;
        bool dense = true;
        double layer_blocks = 0;
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            pairs += of[class_of[head]].pairs;
            layer_blocks += of[class_of[head]].blocks;
            dense = dense && of[class_of[head]].dense;
        }
        blocks += dense ? 0 : layer_blocks;
        n_sparse += !dense;
    }
    out->tokens = n_layers > 0 ? pairs / all / n_layers / pattern->n_heads : 1;
    out->sparse_blocks = n_sparse > 0 ? blocks / all_blk / n_sparse / pattern->n_heads : 1;
    return S2_OK;
}

s2_status s2_density_count(const s2_pattern *pattern, const s2_folds *folds, int64_t n_tok, bool blocks,
                           s2_density *out)
{
    s2_arena scratch = {0};
    counts *const of = S2_NEW(&scratch, counts, folds->n_classes);
    s2_status status = of != NULL ? S2_OK : S2_ENOMEM;
    int64_t work_left = COUNT_ALL_STEPS;
    for (int32_t n = 0; n < folds->n_classes && status == S2_OK; n++)
        status = count_class(&folds->views[n], n_tok, blocks, &work_left, &of[n]);
    if (status == S2_OK)
        status = sum_classes(pattern, folds, of, n_tok, out);
    s2_arena_release(&scratch);
    return status;
}
