#include "plan/follow.h"

#include <string.h>

#include "base/work.h"
#include "plan/internal.h"

/* Extra room of a list: n / ROOM_SHARE + ROOM_SLABS. An empty slab costs some arithmetic but no bytes. */
enum { ROOM_SHARE = 32, ROOM_SLABS = 8 };

static int64_t aligned_block(const s2_plan *plan)
{
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    for (int32_t cls = 0; cls < plan->n_classes; cls++)
        s2_view_shape_add(&shape, &plan->classes[cls].view);
    return shape.block_aligned ? plan->pattern->block_tok : 1;
}

static const uint16_t *mask_of(const s2_decode_plan *plan, const s2_decode_slab *slab)
{
    return slab->mask >= 0 ? plan->bits + (int64_t)slab->mask * plan->row_cap : NULL;
}

static bool is_written(const s2_decode_follow *follow, int32_t slab, const s2_decode_slab *want,
                       const uint16_t *rows, int32_t n_rows)
{
    const s2_decode_slab *const have = &follow->slabs[slab];
    const uint16_t *const bits = follow->bits + (int64_t)slab * follow->plan.row_cap;
    return have->k_tok == want->k_tok && have->live == want->live && (have->mask < 0) == (rows == NULL) &&
           (rows == NULL || memcmp(bits, rows, (size_t)n_rows * sizeof *rows) == 0);
}

/* rows NULL: every row reads all 16 keys. Rows beyond n_rows have no bits, and never had. */
static void write_slab(s2_decode_follow *follow, int32_t slab, const s2_decode_slab *want,
                       const uint16_t *rows, int32_t n_rows)
{
    const int32_t row_cap = follow->plan.row_cap;
    uint16_t *const bits = follow->bits + (int64_t)slab * row_cap;
    follow->plan.n_live_keys += __builtin_popcount(want->live) - __builtin_popcount(follow->slabs[slab].live);
    memset(bits, 0, (size_t)row_cap * sizeof *bits);
    if (rows != NULL)
        memcpy(bits, rows, (size_t)n_rows * sizeof *bits);
    follow->slabs[slab] = (s2_decode_slab){want->k_tok, rows != NULL ? slab : -1, want->live};
}

static void note_change(s2_decode_follow *follow, int32_t slab)
{
    follow->changed[follow->n_changed++] = slab;
}

/*
 * Write a list as `made` has it. Slabs with keys from fresh_tok on, which the last step wrote, count as
 * changed. No mask has more rows than its list, so the rest of a wide row_cap is zeros.
 */
static s2_status write_list(s2_decode_follow *follow, int32_t index, const s2_decode_plan *made,
                            const s2_decode_list *from, int64_t fresh_tok)
{
    static const uint16_t none[S2_DECODE_SLAB_TOK] = {0};
    const s2_decode_list *const list = &follow->plan.lists[index];
    const int32_t n = from->slab_end - from->slab_begin;
    const int32_t n_before = follow->n_used[index];
    if (n > list->slab_end - list->slab_begin)
        return S2_EUNSUPPORTED;
    for (int32_t nth = 0; nth < n; nth++) {
        const s2_decode_slab *const want = &made->slabs[from->slab_begin + nth];
        const uint16_t *const rows = mask_of(made, want);
        const int32_t slab = list->slab_begin + nth;
        const bool same = is_written(follow, slab, want, rows, list->n_rows);
        if (!same)
            write_slab(follow, slab, want, rows, list->n_rows);
        if (!same || want->k_tok + S2_DECODE_SLAB_TOK > fresh_tok)
            note_change(follow, slab);
    }
    for (int32_t at = n; at < n_before; at++) {
        write_slab(follow, list->slab_begin + at, &(s2_decode_slab){0}, none, 0);
        note_change(follow, list->slab_begin + at);
    }
    follow->n_used[index] = n;
    return S2_OK;
}

/* ------------------------------------------------------------------ opening */

static int32_t room_of(const s2_decode_list *list)
{
    const int32_t n = list->slab_end - list->slab_begin;
    return n + n / ROOM_SHARE + ROOM_SLABS;
}

static s2_status make_room(const s2_plan *plan, const s2_decode_plan *made, s2_decode_follow *follow)
{
    s2_arena *const arena = &follow->arena;
    int64_t n_slabs = 0;
    follow->plan = *made;
    follow->plan.lists = S2_NEW(arena, s2_decode_list, made->n_lists);
    follow->n_used = S2_NEW(arena, int32_t, made->n_lists);
    follow->seqs = S2_NEW(arena, s2_plan_seq, plan->n_seqs);
    if (follow->plan.lists == NULL || follow->n_used == NULL || follow->seqs == NULL)
        return S2_ENOMEM;
    for (int32_t list_no = 0; list_no < made->n_lists; list_no++) {
        s2_decode_list *const list = &follow->plan.lists[list_no];
        *list = made->lists[list_no];
        list->slab_begin = (int32_t)n_slabs;
        n_slabs += room_of(&made->lists[list_no]);
        if (n_slabs > INT32_MAX)
            return S2_ENOMEM;
        list->slab_end = (int32_t)n_slabs;
    }
    /* every slab has a mask here, whatever it took to make it */
    if (!s2_work_spend(plan->options.work_left, n_slabs * (S2_BLOCK_WORK + made->row_cap)))
        return S2_ELIMIT;
    follow->slabs = S2_NEW(arena, s2_decode_slab, n_slabs);
    follow->bits = S2_NEW(arena, uint16_t, n_slabs * made->row_cap);
    follow->changed = S2_NEW(arena, int32_t, n_slabs);
    follow->own = S2_NEW(arena, bool, made->group);
    follow->rows = S2_NEW(arena, uint16_t, made->row_cap);
    if (follow->slabs == NULL || follow->bits == NULL || follow->changed == NULL || follow->own == NULL ||
        follow->rows == NULL)
        return S2_ENOMEM;
    for (int32_t slab = 0; slab < n_slabs; slab++)
        follow->slabs[slab].mask = slab;
    follow->plan.slabs = follow->slabs;
    follow->plan.bits = follow->bits;
    follow->plan.n_slabs = follow->plan.n_masks = (int32_t)n_slabs;
    follow->plan.n_live_keys = 0;
    return S2_OK;
}

s2_status s2_decode_follow_open(const s2_plan *plan, int32_t want_parts, s2_decode_follow *follow,
                                s2_diag *why)
{
    s2_arena scratch = {0};
    s2_decode_plan made;
    s2_status status = s2_decode_plan_build(&scratch, plan, NULL, want_parts, &made, why);
    if (status == S2_OK)
        status = make_room(plan, &made, follow);
    for (int32_t list = 0; status == S2_OK && list < made.n_lists; list++) {
        follow->n_changed = 0;
        status = write_list(follow, list, &made, &made.lists[list], S2_OPEN);
    }
    if (status == S2_OK)
        status = s2_decode_plan_split(&follow->arena, want_parts, &follow->plan);
    if (status == S2_OK) {
        follow->n_seqs = plan->n_seqs;
        follow->block_tok = aligned_block(plan);
        memcpy(follow->seqs, plan->seqs, (size_t)plan->n_seqs * sizeof *plan->seqs);
        follow->n_changed = 0;
    }
    s2_arena_release(&scratch);
    return status;
}

void s2_decode_follow_close(s2_decode_follow *follow)
{
    s2_arena_release(&follow->arena);
    *follow = (s2_decode_follow){0};
}

/* ------------------------------------------------------------------ a step */

/* Whether all queries of the previous step and of this one are in one block of the pattern. */
static bool stays_in_block(const s2_decode_follow *follow, s2_plan_seq from, s2_plan_seq to)
{
    return to.k_tok >= from.k_tok &&
           (from.k_tok - from.q_tok) / follow->block_tok == (to.k_tok - 1) / follow->block_tok;
}

/* The slab of a list that begins at k_tok, or -1; searches from the end. */
static int32_t find_slab(const s2_decode_follow *follow, int32_t list, int64_t k_tok)
{
    int32_t nth = follow->n_used[list] - 1;
    const s2_decode_slab *const slabs = follow->slabs + follow->plan.lists[list].slab_begin;
    while (nth >= 0 && slabs[nth].k_tok > k_tok)
        nth--;
    return nth >= 0 && slabs[nth].k_tok == k_tok ? follow->plan.lists[list].slab_begin + nth : -1;
}

static uint32_t row_bits(const s2_decode_follow *follow, int32_t slab, int32_t row)
{
    if (slab < 0)
        return 0;
    return follow->slabs[slab].mask < 0 ? 0xffffu : follow->bits[(int64_t)slab * follow->plan.row_cap + row];
}

/* The keys of [begin, end) among the 16 from k_tok on. */
static uint32_t keys_of(int64_t k_tok, int64_t begin, int64_t end)
{
    const int64_t first = s2_min_i64(s2_max_i64(begin - k_tok, 0), S2_DECODE_SLAB_TOK);
    const int64_t past = s2_min_i64(s2_max_i64(end - k_tok, first), S2_DECODE_SLAB_TOK);
    return (1u << past) - (1u << first);
}

/* The slab of one list that begins at k_tok; own[head of the group]: it reads the block that its queries are in. */
static s2_status grow_slab(s2_decode_follow *follow, int32_t index, s2_plan_seq to, int64_t k_tok)
{
    const s2_decode_list *const list = &follow->plan.lists[index];
    const int64_t first_tok = to.k_tok - to.q_tok,
                  block_begin = first_tok / follow->block_tok * follow->block_tok;
    const uint32_t before = keys_of(k_tok, 0, block_begin);
    const int32_t group = follow->plan.group;
    int32_t slab = find_slab(follow, index, k_tok);
    uint32_t any = 0, all = 0xffffu;
    for (int32_t row = 0; row < list->n_rows; row++) {
        uint32_t bits = row_bits(follow, slab, row) & before;
        if (follow->own[row % group])
            bits |= keys_of(k_tok, block_begin, first_tok + row / group + 1);
        follow->rows[row] = (uint16_t)bits;
        any |= bits;
        all &= bits;
    }
    if (any == 0)
        return S2_OK;
    if (slab < 0) {
        slab = list->slab_begin + follow->n_used[index]++;
        if (slab >= list->slab_end)
            return S2_EUNSUPPORTED;
    }
    const s2_decode_slab want = {.k_tok = (int32_t)k_tok, .live = (uint16_t)any};
    write_slab(follow, slab, &want, all == 0xffffu ? NULL : follow->rows, list->n_rows);
    note_change(follow, slab);
    return S2_OK;
}

/* A head reads the block of its queries if its last query read its own key. */
static s2_status grow_list(s2_decode_follow *follow, int32_t index, s2_plan_seq from, s2_plan_seq to)
{
    const int64_t last_tok = from.k_tok - 1, first_tok = from.k_tok - from.q_tok;
    const int32_t last = find_slab(follow, index, last_tok / S2_DECODE_SLAB_TOK * S2_DECODE_SLAB_TOK);
    const int32_t group = follow->plan.group;
    for (int32_t head = 0; head < group; head++)
        follow->own[head] =
            (row_bits(follow, last, (from.q_tok - 1) * group + head) >> last_tok % S2_DECODE_SLAB_TOK & 1u) !=
            0;
    for (int64_t k_tok = first_tok / S2_DECODE_SLAB_TOK * S2_DECODE_SLAB_TOK; k_tok < to.k_tok;
         k_tok += S2_DECODE_SLAB_TOK)
        S2_TRY(grow_slab(follow, index, to, k_tok));
    return S2_OK;
}

/* The lists of a single sequence, kept because most batches have several of one length. */
typedef struct renewal {
    s2_arena arena;
    s2_plan_seq of;
    bool is_made;
    s2_decode_plan made;
} renewal;

static s2_status renew_seq(s2_decode_follow *follow, const s2_plan *plan, int32_t seq, renewal *anew)
{
    const s2_plan_seq from = follow->seqs[seq], to = plan->seqs[seq];
    const int32_t n_kv = plan->pattern->n_kv_heads;
    if (!anew->is_made || anew->of.k_tok != to.k_tok || anew->of.q_tok != to.q_tok) {
        s2_plan one = *plan;
        one.n_seqs = 1;
        one.seqs = &to;
        s2_arena_release(&anew->arena);
        S2_TRY(s2_decode_plan_build(&anew->arena, &one, NULL, 1, &anew->made, NULL));
        anew->of = to;
        anew->is_made = true;
    }
    const int64_t fresh_tok = s2_min_i64(from.k_tok - from.q_tok, to.k_tok - to.q_tok);
    for (int32_t kv_head = 0; kv_head < n_kv; kv_head++)
        S2_TRY(write_list(follow, seq * n_kv + kv_head, &anew->made, &anew->made.lists[kv_head], fresh_tok));
    return S2_OK;
}

static s2_status step_seq(s2_decode_follow *follow, const s2_plan *plan, int32_t seq, renewal *anew)
{
    const s2_plan_seq from = follow->seqs[seq], to = plan->seqs[seq];
    const int32_t n_kv = plan->pattern->n_kv_heads;
    if (from.k_tok == to.k_tok)
        return S2_OK;
    if (!stays_in_block(follow, from, to))
        return renew_seq(follow, plan, seq, anew);
    for (int32_t kv_head = 0; kv_head < n_kv; kv_head++)
        S2_TRY(grow_list(follow, seq * n_kv + kv_head, from, to));
    return S2_OK;
}

s2_status s2_decode_follow_step(s2_decode_follow *follow, const s2_plan *plan)
{
    renewal anew = {0};
    s2_status status = S2_OK;
    bool same = true;
    for (int32_t seq = 0; seq < follow->n_seqs; seq++) {
        same = same && follow->seqs[seq].k_tok == plan->seqs[seq].k_tok;
        if (follow->seqs[seq].q_tok != plan->seqs[seq].q_tok)
            return S2_EUNSUPPORTED;
    }
    if (same)
        return S2_OK;
    follow->n_changed = 0;
    follow->n_steps++;
    for (int32_t seq = 0; seq < follow->n_seqs && status == S2_OK; seq++)
        status = step_seq(follow, plan, seq, &anew);
    if (status == S2_OK)
        memcpy(follow->seqs, plan->seqs, (size_t)follow->n_seqs * sizeof *follow->seqs);
    s2_arena_release(&anew.arena);
    return status;
}
