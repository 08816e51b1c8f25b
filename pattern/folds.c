#include "pattern/folds.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/blocks.h"
#include "pattern/viewset.h"

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

s2_status s2_folds_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_bound bound,
                         s2_folds *out)
{
    s2_view_set set = {0};
    int32_t *const class_of = S2_NEW(arena, int32_t, (int64_t)pattern->n_layers * pattern->n_heads);
    if (class_of == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            const s2_arena_mark_t mark = s2_arena_mark(arena);
            const int32_t n_before = set.n;
            s2_view view;
            S2_TRY(s2_view_build(arena, pattern, phase, layer, head, bound, &view));
            S2_TRY(s2_view_set_add(arena, &set, &view, &class_of[(int64_t)layer * pattern->n_heads + head]));
            if (set.n == n_before)
                s2_arena_rewind(arena, mark);
        }
    *out = (s2_folds){set.n, set.views, class_of};
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
