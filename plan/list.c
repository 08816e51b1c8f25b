#include "plan/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/work.h"

void s2_plan_list_release(s2_plan_list *list)
{
    s2_free(list->entries);
    s2_free(list->bits);
    s2_free(list->runs);
    *list = (s2_plan_list){0};
}

int32_t s2_plan_n_tiles(const s2_plan *plan, int32_t seq)
{
    const int64_t size = plan->options.tile_tok;
    const int64_t q_off = plan->seqs[seq].k_tok - plan->seqs[seq].q_tok;
    return (int32_t)(s2_ceil_div(plan->seqs[seq].k_tok, size) - q_off / size);
}

int64_t s2_plan_tile_begin(const s2_plan *plan, int32_t seq, int32_t tile)
{
    const int64_t size = plan->options.tile_tok;
    const int64_t q_off = plan->seqs[seq].k_tok - plan->seqs[seq].q_tok;
    return (q_off / size + tile) * size;
}

static s2_tile_rows tile_rows(const s2_plan *plan, int32_t seq, int32_t tile)
{
    const s2_plan_seq lens = plan->seqs[seq];
    const int64_t begin = s2_plan_tile_begin(plan, seq, tile);
    return (s2_tile_rows){begin, s2_max_i64(begin, lens.k_tok - lens.q_tok),
                          s2_min_i64(begin + plan->options.tile_tok, lens.k_tok)};
}

/* What one list is made for, and where its rows are. */
typedef struct s2_lister {
    const s2_plan *plan;
    const s2_plan_class *cls;
    s2_tile_rows rows;
    int64_t k_tok;
    s2_plan_list *list;
    uint32_t real; /* slabs with at least one real row */
} s2_lister;

static int32_t n_slabs(const s2_lister *lister)
{
    return lister->plan->options.tile_tok / S2_PLAN_SLAB_TOK;
}

/* The real rows of a slab; false when it has none. */
static bool slab_rows(const s2_lister *lister, int32_t slab, int64_t *begin, int64_t *end)
{
    const int64_t first = lister->rows.tile_begin + (int64_t)slab * S2_PLAN_SLAB_TOK;
    *begin = s2_max_i64(first, lister->rows.begin);
    *end = s2_min_i64(first + S2_PLAN_SLAB_TOK, lister->rows.end);
    return *begin < *end;
}

static s2_lister open_lister(const s2_plan *plan, int32_t cls, int32_t seq, int32_t tile, s2_plan_list *list)
{
    s2_lister lister = {.plan = plan,
                        .cls = &plan->classes[cls],
                        .rows = tile_rows(plan, seq, tile),
                        .k_tok = plan->seqs[seq].k_tok,
                        .list = list};
    for (int32_t slab = 0; slab < n_slabs(&lister); slab++) {
        int64_t begin, end;
        lister.real |= (uint32_t)slab_rows(&lister, slab, &begin, &end) << slab;
    }
    list->n_entries = list->n_partial = list->n_masks = 0;
    return lister;
}

static size_t mask_len(const s2_plan *plan)
{
    return (size_t)plan->options.tile_tok * (size_t)plan->mask_words;
}

static s2_status reserve_mask(const s2_plan *plan, s2_plan_list *list)
{
    S2_TRY(S2_RESERVE(list->bits, list->cap_words,
                      (int64_t)((size_t)list->n_masks + 1) * (int64_t)mask_len(plan)));
    memset(&list->bits[(size_t)list->n_masks * mask_len(plan)], 0, mask_len(plan) * sizeof *list->bits);
    return S2_OK;
}

static void set_bits(uint32_t *words, int64_t begin, int64_t end)
{
    for (int64_t at = begin; at < end; at++)
        words[at / 32] |= UINT32_C(1) << (at % 32);
}

/* Bits of the keys [k_begin, k_end) that position p reads through atoms with a comb form. */
static void atom_bits(const s2_lister *lister, int64_t p, int64_t k_begin, int64_t k_end, uint32_t *words)
{
    const s2_view *const view = &lister->cls->view;
    for (int32_t a = 0; a < view->n_atoms; a++) {
        s2_comb comb;
        if (!s2_atom_row(view, &view->atoms[a], p, lister->k_tok, &comb))
            continue;
        int64_t k = s2_comb_next(&comb, k_begin);
        while (k < k_end) {
            const int64_t run_end = s2_min_i64(s2_comb_run_end(&comb, k), k_end);
            set_bits(words, k - k_begin, run_end - k_begin);
            k = run_end < k_end ? s2_comb_next(&comb, run_end) : k_end;
        }
    }
}

/* End of the keys from k_begin on that position p could read: limited by the causal edge and the end. */
static int64_t visible_end(const s2_lister *lister, int64_t p, int64_t k_begin)
{
    const int64_t k_end = s2_min_i64(k_begin + lister->plan->blk_tok, lister->k_tok);
    return lister->plan->pattern->causal ? s2_min_i64(k_end, p + 1) : k_end;
}

static int64_t count_bits(const uint32_t *words, int32_t n_words)
{
    int64_t n = 0;
    for (int32_t w = 0; w < n_words; w++)
        n += __builtin_popcount(words[w]);
    return n;
}

static bool needs_edge(const s2_lister *lister, uint32_t slabs, int64_t k_begin)
{
    const int64_t k_end = k_begin + lister->plan->blk_tok;
    if (k_end > lister->k_tok)
        return true;
    int64_t begin, end;
    return lister->plan->pattern->causal && slabs != 0 &&
           slab_rows(lister, __builtin_ctz(slabs), &begin, &end) && k_end > begin + 1;
}

static s2_status push(s2_lister *lister, int64_t k_blk, uint32_t slabs, int32_t mask)
{
    if (slabs == 0)
        return S2_OK;
    if (!s2_work_spend(lister->plan->options.work_left, S2_BLOCK_WORK))
        return S2_ELIMIT;
    S2_TRY(S2_RESERVE(lister->list->entries, lister->list->cap_entries, lister->list->n_entries + 1));
    const bool edge = needs_edge(lister, slabs, k_blk * lister->plan->blk_tok);
    const bool full = !edge && mask < 0 && slabs == lister->real;
    lister->list->entries[lister->list->n_entries++] =
        (s2_plan_entry){.k_blk = (int32_t)k_blk, .slabs = slabs, .mask = mask, .edge = edge, .full = full};
    return S2_OK;
}

static uint32_t *mask_at(const s2_lister *lister, int32_t mask)
{
    return &lister->list->bits[(size_t)mask * mask_len(lister->plan)];
}

/*
 * Which of the slabs that a block may concern read something of it, by its mask; true where whole slabs describe
 * it, up to the causal edge and the end of the keys.
 */
static bool find_slabs(const s2_lister *lister, int64_t k_blk, const uint32_t *bits, uint32_t candidates,
                       uint32_t *slabs)
{
    const int32_t n_words = lister->plan->mask_words;
    const int64_t k_begin = k_blk * lister->plan->blk_tok;
    bool whole = true;
    *slabs = 0;
    for (int32_t slab = 0; slab < n_slabs(lister); slab++) {
        int64_t begin, end, seen = 0, possible = 0;
        if ((candidates >> slab & 1) == 0 || !slab_rows(lister, slab, &begin, &end))
            continue;
        for (int64_t p = begin; p < end; p++) {
            seen += count_bits(&bits[(p - lister->rows.tile_begin) * n_words], n_words);
            possible += s2_max_i64(visible_end(lister, p, k_begin) - k_begin, 0);
        }
        *slabs |= (uint32_t)(seen > 0) << slab;
        whole = whole && (seen == 0 || seen == possible);
    }
    return whole;
}

/* Push a block whose mask is the one behind those that are kept, and keep it only where it is needed. */
static s2_status push_masked(s2_lister *lister, int64_t k_blk, uint32_t candidates)
{
    uint32_t slabs;
    const uint32_t *const bits = mask_at(lister, lister->list->n_masks);
    if (find_slabs(lister, k_blk, bits, candidates, &slabs) || slabs == 0)
        return push(lister, k_blk, slabs, -1);
    return push(lister, k_blk, slabs, lister->list->n_masks++);
}

/* Read the block element by element. */
static s2_status push_examined(s2_lister *lister, int64_t k_blk, uint32_t candidates)
{
    const int64_t k_begin = k_blk * lister->plan->blk_tok;
    if (!s2_work_spend(lister->plan->options.work_left,
                       (int64_t)mask_len(lister->plan) * lister->cls->view.n_atoms))
        return S2_ELIMIT;
    S2_TRY(reserve_mask(lister->plan, lister->list));
    uint32_t *const bits = mask_at(lister, lister->list->n_masks);
    for (int32_t slab = 0; slab < n_slabs(lister); slab++) {
        int64_t begin, end;
        if ((candidates >> slab & 1) == 0 || !slab_rows(lister, slab, &begin, &end))
            continue;
        for (int64_t p = begin; p < end; p++) {
            const int64_t k_end = visible_end(lister, p, k_begin);
            if (k_end > k_begin)
                atom_bits(lister, p, k_begin, k_end,
                          &bits[(p - lister->rows.tile_begin) * lister->plan->mask_words]);
        }
    }
    return push_masked(lister, k_blk, candidates);
}

/* ------------------------------------------------------------------ heads whose rows exist only as runs */

/* Push a block with an empty mask, which read_rows() fills. */
static s2_status push_unread(s2_lister *lister, int64_t k_blk, uint32_t candidates)
{
    if (!s2_work_spend(lister->plan->options.work_left, (int64_t)mask_len(lister->plan)))
        return S2_ELIMIT;
    S2_TRY(reserve_mask(lister->plan, lister->list));
    return push(lister, k_blk, candidates, lister->list->n_masks++);
}

/* Set the keys of one row in all masks that it concerns: ascending runs, ascending blocks. */
static void set_row(const s2_lister *lister, int64_t p, int64_t n_runs)
{
    const s2_plan_list *const list = lister->list;
    const int64_t row = p - lister->rows.tile_begin;
    int64_t first = 0;
    for (int32_t e = 0; e < list->n_entries; e++) {
        const s2_plan_entry *const entry = &list->entries[e];
        const int64_t k_begin = (int64_t)entry->k_blk * lister->plan->blk_tok,
                      k_end = visible_end(lister, p, k_begin);
        while (first < n_runs && list->runs[first].end <= k_begin)
            first++;
        if (entry->mask < 0 || (entry->slabs >> row / S2_PLAN_SLAB_TOK & 1) == 0)
            continue;
        for (int64_t r = first; r < n_runs && list->runs[r].begin < k_end; r++)
            set_bits(mask_at(lister, entry->mask) + row * lister->plan->mask_words,
                     s2_max_i64(list->runs[r].begin, k_begin) - k_begin,
                     s2_min_i64(list->runs[r].end, k_end) - k_begin);
    }
}

/* Each row is made once, however many blocks need masks: to make it may take as long as all of its runs. */
static s2_status read_rows(const s2_lister *lister)
{
    s2_plan_list *const list = lister->list;
    int64_t *const work_left = lister->plan->options.work_left;
    for (int64_t p = lister->rows.begin; p < lister->rows.end && list->n_masks > 0; p++) {
        int64_t n_runs;
        S2_TRY(s2_view_row_whole(&lister->cls->view, p, lister->k_tok, work_left, &list->runs,
                                 &list->cap_runs, &n_runs));
        if (!s2_work_spend(work_left, list->n_entries))
            return S2_ELIMIT;
        set_row(lister, p, n_runs);
    }
    return S2_OK;
}

/* Keep the masks that are needed, and drop blocks that nobody reads. */
static s2_status keep_masks(s2_lister *lister)
{
    s2_plan_list *const list = lister->list;
    const int32_t n = list->n_entries;
    list->n_entries = list->n_masks = 0;
    for (int32_t e = 0; e < n; e++) {
        const s2_plan_entry entry = list->entries[e];
        if (entry.mask < 0) {
            list->entries[list->n_entries++] = entry;
            continue;
        }
        if (entry.mask != list->n_masks)
            memcpy(mask_at(lister, list->n_masks), mask_at(lister, entry.mask),
                   mask_len(lister->plan) * sizeof *list->bits);
        S2_TRY(push_masked(lister, entry.k_blk, entry.slabs));
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ arithmetic classes */

typedef enum s2_reads { S2_READS_NONE, S2_READS_SOME, S2_READS_ALL } s2_reads;

/* What the rows of one slab read of a block, ignoring causality. k_own: the pattern's block around it. */
static s2_reads slab_reads(const s2_lister *lister, int64_t begin, int64_t end, int64_t k_begin,
                           int64_t k_own)
{
    const s2_plan_periodic *const as = &lister->cls->as;
    const int64_t k_end = k_begin + lister->plan->blk_tok;
    if (begin / as->block_tok - k_own < as->local_blk || k_end <= as->sink_tok ||
        end - 1 - k_begin < as->window_tok)
        return S2_READS_ALL;
    const bool some = k_begin < as->sink_tok || begin - (k_end - 1) < as->window_tok;
    return some ? S2_READS_SOME : S2_READS_NONE;
}

static s2_status push_periodic(s2_lister *lister, int64_t k_blk)
{
    const s2_plan_periodic *const as = &lister->cls->as;
    const int64_t k_begin = k_blk * lister->plan->blk_tok, k_own = k_begin / as->block_tok;
    const bool always =
        as->dense || (as->stride_blk > 0 && (k_own + as->stride_shift) % as->stride_blk < as->stride_width);
    uint32_t all = 0, some = 0;
    for (int32_t slab = 0; slab < n_slabs(lister); slab++) {
        int64_t begin, end;
        if (!slab_rows(lister, slab, &begin, &end) || end <= k_begin)
            continue;
        const s2_reads reads = always ? S2_READS_ALL : slab_reads(lister, begin, end, k_begin, k_own);
        all |= (uint32_t)(reads == S2_READS_ALL) << slab;
        some |= (uint32_t)(reads == S2_READS_SOME) << slab;
    }
    return some != 0 ? push_examined(lister, k_blk, all | some) : push(lister, k_blk, all, -1);
}

static s2_status list_piece(s2_lister *lister, s2_plan_piece piece)
{
    const s2_comb stride = s2_plan_stride_comb(lister->plan, &lister->cls->as, piece.begin, piece.end);
    for (int64_t k_blk = piece.stride ? s2_comb_next(&stride, piece.begin) : piece.begin; k_blk < piece.end;
         k_blk = piece.stride ? s2_comb_next(&stride, k_blk + 1) : k_blk + 1)
        S2_TRY(piece.sure ? push(lister, k_blk, lister->real, -1) : push_periodic(lister, k_blk));
    return S2_OK;
}

/* Enumerates the pieces that must be examined, or all when `sure` is NULL; `sure` collects the others. */
static s2_status list_periodic(s2_lister *lister, s2_plan_piece *sure, int32_t *n_sure)
{
    s2_plan_piece pieces[S2_PLAN_MAX_PIECES];
    const int32_t n = s2_plan_pieces(lister->plan, &lister->cls->as, lister->rows, pieces);
    for (int32_t p = 0; p < n; p++)
        if (sure != NULL && pieces[p].sure)
            sure[(*n_sure)++] = pieces[p];
        else
            S2_TRY(list_piece(lister, pieces[p]));
    return S2_OK;
}

/* ------------------------------------------------------------------ block-list classes */

typedef struct s2_cursor {
    int64_t entry;
    int64_t end;
    uint32_t slabs; /* slabs of the tile in this row of blocks */
} s2_cursor;

/* One cursor per row of blocks that the tile's slabs touch; slabs ascend, so rows do. */
static int32_t open_cursors(const s2_lister *lister, s2_cursor cursors[S2_PLAN_LIMIT_SLABS])
{
    const s2_blocks *const blocks = &lister->cls->blocks;
    int64_t previous = -1;
    int32_t n = 0;
    for (int32_t slab = 0; slab < n_slabs(lister); slab++) {
        int64_t begin, end;
        if (!slab_rows(lister, slab, &begin, &end))
            continue;
        const int64_t q_blk = begin / blocks->block_tok;
        if (q_blk != previous)
            cursors[n++] = (s2_cursor){blocks->row_begin[q_blk], blocks->row_begin[q_blk + 1], 0};
        previous = q_blk;
        cursors[n - 1].slabs |= UINT32_C(1) << slab;
    }
    return n;
}

static s2_status list_blocks(s2_lister *lister)
{
    const s2_blocks *const blocks = &lister->cls->blocks;
    s2_cursor cursors[S2_PLAN_LIMIT_SLABS];
    const int32_t n = open_cursors(lister, cursors);
    for (;;) {
        int32_t k_blk = INT32_MAX;
        for (int32_t c = 0; c < n; c++)
            if (cursors[c].entry < cursors[c].end && blocks->k_blk[cursors[c].entry] < k_blk)
                k_blk = blocks->k_blk[cursors[c].entry];
        if (k_blk == INT32_MAX || (int64_t)k_blk * blocks->block_tok >= lister->k_tok)
            break;
        uint32_t slabs = 0;
        bool full = true;
        for (int32_t c = 0; c < n; c++) {
            if (cursors[c].entry == cursors[c].end || blocks->k_blk[cursors[c].entry] != k_blk)
                continue;
            slabs |= cursors[c].slabs;
            full = blocks->full[cursors[c].entry++] != 0 && full;
        }
        S2_TRY(full                             ? push(lister, k_blk, slabs, -1)
               : lister->cls->view.has_explicit ? push_unread(lister, k_blk, slabs)
                                                : push_examined(lister, k_blk, slabs));
    }
    if (lister->list->n_masks == 0 || !lister->cls->view.has_explicit)
        return S2_OK;
    S2_TRY(read_rows(lister));
    return keep_masks(lister);
}

/* Stable partition, partial entries first; the full ones wait in scratch memory. */
static s2_status partial_first(s2_plan_list *list)
{
    const int32_t n = list->n_entries;
    s2_plan_entry *const full = s2_malloc((size_t)n * sizeof *full);
    if (full == NULL)
        return S2_ENOMEM;
    int32_t n_partial = 0, n_full = 0;
    for (int32_t e = 0; e < n; e++) {
        if (list->entries[e].full)
            full[n_full++] = list->entries[e];
        else
            list->entries[n_partial++] = list->entries[e];
    }
    if (n_full > 0)
        memcpy(&list->entries[n_partial], full, (size_t)n_full * sizeof *full);
    list->n_partial = n_partial;
    s2_free(full);
    return S2_OK;
}

static s2_status find_entries(s2_lister *lister, s2_plan_piece *sure, int32_t *n_sure)
{
    return lister->cls->periodic ? list_periodic(lister, sure, n_sure) : list_blocks(lister);
}

static s2_status list_tile(s2_lister *lister, s2_plan_piece *sure, int32_t *n_sure)
{
    s2_plan_list *const list = lister->list;
    s2_status status = find_entries(lister, sure, n_sure);
    if (status == S2_OK)
        status = partial_first(list);
    if (status != S2_OK)
        list->n_entries = list->n_partial = list->n_masks = 0;
    return status;
}

s2_status s2_plan_tile_list(const s2_plan *plan, int32_t cls, int32_t seq, int32_t tile, s2_plan_list *list)
{
    s2_lister lister = open_lister(plan, cls, seq, tile, list);
    return list_tile(&lister, NULL, NULL);
}

s2_status s2_plan_tile_parts(const s2_plan *plan, int32_t cls, int32_t seq, int32_t tile, s2_plan_list *list,
                             s2_plan_piece sure[S2_PLAN_MAX_PIECES], int32_t *n_sure)
{
    s2_lister lister = open_lister(plan, cls, seq, tile, list);
    *n_sure = 0;
    return list_tile(&lister, sure, n_sure);
}

/* How many blocks a piece has. */
static int64_t piece_blocks(const s2_plan *plan, const s2_plan_periodic *as, const s2_plan_piece *piece)
{
    const s2_comb stride = s2_plan_stride_comb(plan, as, piece->begin, piece->end);
    return piece->stride ? s2_comb_count_below(&stride, piece->end) : piece->end - piece->begin;
}

s2_status s2_plan_tile_cost(const s2_plan *plan, int32_t cls, int32_t seq, int32_t tile,
                            s2_plan_list *scratch, int32_t *n_blk, int32_t *n_partial)
{
    const s2_plan_class *const one = &plan->classes[cls];
    s2_plan_piece sure[S2_PLAN_MAX_PIECES];
    int32_t n_sure = 0, n_found = 0;
    int64_t n_full = 0;
    s2_lister lister = open_lister(plan, cls, seq, tile, scratch);
    S2_TRY(find_entries(&lister, sure, &n_sure));
    for (int32_t e = 0; e < scratch->n_entries; e++)
        n_found += !scratch->entries[e].full;
    for (int32_t p = 0; p < n_sure; p++)
        n_full += piece_blocks(plan, &one->as, &sure[p]);
    *n_blk = (int32_t)(n_full + scratch->n_entries);
    *n_partial = n_found;
    return S2_OK;
}
