#include "plan/decode.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/work.h"
#include "plan/internal.h"

/* Steps (base/work.h); a slab takes S2_BLOCK_WORK. */
enum { A_LIST = 8 };

/* The keys of one class at one query token, shared by rows of that class and token. */
typedef struct s2_reader {
    int32_t cls;
    int32_t q_tok;
    s2_run *runs;
    int64_t n_runs;
    int64_t cap_runs;
    int64_t first_run; /* the first run that does not end before the slab */
    uint16_t bits;     /* of the current slab */
} s2_reader;

typedef struct s2_builder {
    const s2_plan *plan;
    const int64_t *cut_tok; /* [list] or NULL */
    int32_t group;
    int32_t row_cap;
    s2_reader *readers; /* row_cap entries */
    int32_t n_readers;
    int32_t *reader_of; /* [row] of the current list */
    s2_decode_slab *slabs;
    int64_t n_slabs, cap_slabs;
    uint16_t *bits;
    int64_t n_masks, cap_masks;
    int64_t n_live_keys;
} s2_builder;

static s2_status spend(const s2_builder *build, int64_t n_steps)
{
    return s2_work_spend(build->plan->options.work_left, n_steps) ? S2_OK : S2_ELIMIT;
}

static s2_status read_runs(const s2_builder *build, int32_t seq, s2_reader *reader)
{
    const s2_plan_seq lens = build->plan->seqs[seq];
    const s2_view *const view = &build->plan->classes[reader->cls].view;
    const int64_t position = lens.k_tok - lens.q_tok + reader->q_tok;
    S2_TRY(s2_view_row_whole(view, position, lens.k_tok, build->plan->options.work_left, &reader->runs,
                             &reader->cap_runs, &reader->n_runs));
    reader->first_run = 0;
    return S2_OK;
}

static int32_t find_reader(s2_builder *build, int32_t cls, int32_t q_tok)
{
    int32_t nth = 0;
    while (nth < build->n_readers && (build->readers[nth].cls != cls || build->readers[nth].q_tok != q_tok))
        nth++;
    if (nth == build->n_readers) {
        build->readers[nth].cls = cls;
        build->readers[nth].q_tok = q_tok;
        build->n_readers++;
    }
    return nth;
}

static s2_status set_readers(s2_builder *build, int32_t seq, int32_t kv_head)
{
    const int32_t n_rows = build->plan->seqs[seq].q_tok * build->group;
    build->n_readers = 0;
    for (int32_t row = 0; row < n_rows; row++) {
        const int32_t head = kv_head * build->group + row % build->group;
        S2_TRY(spend(build, build->n_readers));
        build->reader_of[row] = find_reader(build, build->plan->class_of[head], row / build->group);
    }
    for (int32_t at = 0; at < build->n_readers; at++)
        S2_TRY(read_runs(build, seq, &build->readers[at]));
    return S2_OK;
}

/* Bits of the slab that begins at k_tok; skips runs that end before it. */
static void read_slab(s2_reader *reader, int64_t k_tok)
{
    uint32_t bits = 0;
    while (reader->first_run < reader->n_runs && reader->runs[reader->first_run].end <= k_tok)
        reader->first_run++;
    for (int64_t r = reader->first_run; r < reader->n_runs; r++) {
        const s2_run run = reader->runs[r];
        if (run.begin >= k_tok + S2_DECODE_SLAB_TOK)
            break;
        const int64_t begin = s2_max_i64(run.begin - k_tok, 0);
        const int64_t end = s2_min_i64(run.end - k_tok, S2_DECODE_SLAB_TOK);
        bits |= (1u << end) - (1u << begin);
    }
    reader->bits = (uint16_t)bits;
}

/* The first slab from k_tok on that any row reads, or S2_OPEN. */
static int64_t next_slab(const s2_builder *build, int64_t k_tok)
{
    int64_t next = S2_OPEN;
    for (int32_t nth = 0; nth < build->n_readers; nth++) {
        const s2_reader *const reader = &build->readers[nth];
        int64_t run = reader->first_run;
        while (run < reader->n_runs && reader->runs[run].end <= k_tok)
            run++;
        if (run < reader->n_runs)
            next = s2_min_i64(next, s2_max_i64(reader->runs[run].begin, k_tok));
    }
    return next == S2_OPEN ? next : next / S2_DECODE_SLAB_TOK * S2_DECODE_SLAB_TOK;
}

static s2_status add_mask(s2_builder *build, int32_t n_rows, uint32_t side, int32_t *mask)
{
    if (build->n_masks == INT32_MAX)
        return S2_ENOMEM;
    S2_TRY(spend(build, build->row_cap));
    S2_TRY(s2_reserve(&build->bits, &build->cap_masks, build->n_masks + 1,
                      sizeof *build->bits * (size_t)build->row_cap));
    uint16_t *const bits = build->bits + build->n_masks * build->row_cap;
    memset(bits, 0, sizeof *bits * (size_t)build->row_cap);
    for (int32_t row = 0; row < n_rows; row++)
        bits[row] = (uint16_t)(build->readers[build->reader_of[row]].bits & side);
    *mask = (int32_t)build->n_masks++;
    return S2_OK;
}

/* Add the slab's keys that are in `side`. */
static s2_status add_side(s2_builder *build, int64_t k_tok, int32_t n_rows, uint32_t side)
{
    uint32_t any = 0, all = side;
    for (int32_t at = 0; at < build->n_readers; at++) {
        any |= build->readers[at].bits & side;
        all &= build->readers[at].bits;
    }
    if (any == 0)
        return S2_OK;
    s2_decode_slab slab = {.k_tok = (int32_t)k_tok, .mask = -1, .live = (uint16_t)any};
    if (build->n_slabs == INT32_MAX)
        return S2_ENOMEM;
    S2_TRY(S2_RESERVE(build->slabs, build->cap_slabs, build->n_slabs + 1));
    if (all != 0xffff)
        S2_TRY(add_mask(build, n_rows, side, &slab.mask));
    build->slabs[build->n_slabs++] = slab;
    build->n_live_keys += __builtin_popcount(any);
    return S2_OK;
}

static s2_status add_slab(s2_builder *build, int64_t k_tok, int32_t n_rows, int64_t cut_tok)
{
    const int64_t n_before = s2_min_i64(s2_max_i64(cut_tok - k_tok, 0), S2_DECODE_SLAB_TOK);
    const uint32_t before = (1u << n_before) - 1u;
    S2_TRY(spend(build, S2_BLOCK_WORK + 2 * (int64_t)build->n_readers));
    for (int32_t at = 0; at < build->n_readers; at++)
        read_slab(&build->readers[at], k_tok);
    S2_TRY(add_side(build, k_tok, n_rows, before));
    return add_side(build, k_tok, n_rows, 0xffffu & ~before);
}

static s2_status add_list(s2_builder *build, int32_t seq, int32_t kv_head, s2_decode_list *list)
{
    const int32_t index = seq * build->plan->pattern->n_kv_heads + kv_head;
    const int64_t cut_tok = build->cut_tok != NULL ? build->cut_tok[index] : 0;
    const int32_t n_rows = build->plan->seqs[seq].q_tok * build->group;
    *list = (s2_decode_list){
        .slab_begin = (int32_t)build->n_slabs, .seq = seq, .kv_head = kv_head, .n_rows = n_rows};
    S2_TRY(set_readers(build, seq, kv_head));
    for (int64_t k_tok = next_slab(build, 0); k_tok != S2_OPEN;
         k_tok = next_slab(build, k_tok + S2_DECODE_SLAB_TOK))
        S2_TRY(add_slab(build, k_tok, n_rows, cut_tok));
    list->slab_end = (int32_t)build->n_slabs;
    return S2_OK;
}

/* Repeat a list of the same positions and classes, with mask numbers of its own. */
static s2_status repeat_list(s2_builder *build, const s2_decode_list *like, int32_t seq, s2_decode_list *list)
{
    const size_t mask_bytes = sizeof *build->bits * (size_t)build->row_cap;
    *list = *like;
    list->seq = seq;
    list->slab_begin = (int32_t)build->n_slabs;
    const int64_t n_slabs = like->slab_end - like->slab_begin;
    if (build->n_slabs + n_slabs > INT32_MAX)
        return S2_ENOMEM;
    S2_TRY(spend(build, S2_BLOCK_WORK * n_slabs));
    S2_TRY(S2_RESERVE(build->slabs, build->cap_slabs, build->n_slabs + n_slabs));
    for (int32_t slab_no = like->slab_begin; slab_no < like->slab_end; slab_no++) {
        s2_decode_slab slab = build->slabs[slab_no];
        if (slab.mask >= 0) {
            S2_TRY(spend(build, build->row_cap));
            S2_TRY(s2_reserve(&build->bits, &build->cap_masks, build->n_masks + 1, mask_bytes));
            memcpy(build->bits + build->n_masks * build->row_cap,
                   build->bits + (int64_t)slab.mask * build->row_cap, mask_bytes);
            slab.mask = (int32_t)build->n_masks++;
        }
        build->slabs[build->n_slabs++] = slab;
        build->n_live_keys += __builtin_popcount(slab.live);
    }
    list->slab_end = (int32_t)build->n_slabs;
    return S2_OK;
}

/* Most batches are priced and measured with sequences of one length, whose lists are equal. */
static bool is_like_before(const s2_builder *build, int32_t seq)
{
    const s2_plan_seq *const seqs = build->plan->seqs;
    return seq > 0 && build->cut_tok == NULL && seqs[seq].q_tok == seqs[seq - 1].q_tok &&
           seqs[seq].k_tok == seqs[seq - 1].k_tok;
}

static s2_status check(const s2_plan *plan, s2_diag *why)
{
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        if (plan->seqs[seq].q_tok > S2_DECODE_LIMIT_Q_TOK)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                               "a decode step takes at most %d query tokens, sequence %d has %d",
                               S2_DECODE_LIMIT_Q_TOK, seq, plan->seqs[seq].q_tok);
    return S2_OK;
}

static s2_status init_builder(s2_builder *build)
{
    int32_t most = 1;
    for (int32_t seq = 0; seq < build->plan->n_seqs; seq++)
        most = s2_max_i32(build->plan->seqs[seq].q_tok, most);
    const int32_t n_rows = most * build->group;
    build->row_cap = (n_rows + 7) / 8 * 8;
    build->readers = s2_calloc((size_t)build->row_cap, sizeof *build->readers);
    build->reader_of = s2_calloc((size_t)build->row_cap, sizeof *build->reader_of);
    return build->readers != NULL && build->reader_of != NULL ? S2_OK : S2_ENOMEM;
}

static void release_builder(s2_builder *build)
{
    for (int32_t at = 0; build->readers != NULL && at < build->row_cap; at++)
        s2_free(build->readers[at].runs);
    s2_free(build->readers);
    s2_free(build->reader_of);
    s2_free(build->slabs);
    s2_free(build->bits);
}

/* Copy the grown arrays to the arena. */
static s2_status keep(s2_arena *arena, const s2_builder *build, s2_decode_plan *plan)
{
    s2_decode_slab *const slabs = S2_NEW(arena, s2_decode_slab, build->n_slabs + 1);
    uint16_t *const bits = S2_NEW(arena, uint16_t, build->n_masks * build->row_cap + 1);
    if (slabs == NULL || bits == NULL)
        return S2_ENOMEM;
    if (build->n_slabs > 0)
        memcpy(slabs, build->slabs, (size_t)build->n_slabs * sizeof *slabs);
    if (build->n_masks > 0)
        memcpy(bits, build->bits, (size_t)(build->n_masks * build->row_cap) * sizeof *bits);
    plan->group = build->group;
    plan->row_cap = build->row_cap;
    plan->n_slabs = (int32_t)build->n_slabs;
    plan->slabs = slabs;
    plan->n_masks = (int32_t)build->n_masks;
    plan->bits = bits;
    plan->n_live_keys = build->n_live_keys;
    return S2_OK;
}

static s2_status build_lists(s2_arena *arena, s2_builder *build, s2_decode_plan *plan)
{
    const int32_t n_kv = build->plan->pattern->n_kv_heads;
    const int64_t n_lists = (int64_t)build->plan->n_seqs * n_kv;
    S2_TRY(spend(build, n_lists * (A_LIST + build->row_cap / 4)));
    s2_decode_list *const lists = n_lists <= INT32_MAX ? S2_NEW(arena, s2_decode_list, n_lists) : NULL;
    if (lists == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < build->plan->n_seqs; seq++)
        for (int32_t kv_head = 0; kv_head < n_kv; kv_head++) {
            s2_decode_list *const list = &lists[(int64_t)seq * n_kv + kv_head];
            S2_TRY(is_like_before(build, seq) ? repeat_list(build, list - n_kv, seq, list)
                                              : add_list(build, seq, kv_head, list));
        }
    plan->n_lists = (int32_t)n_lists;
    plan->lists = lists;
    return keep(arena, build, plan);
}

/* The part that owns slab number `slab`: the parts begin at floor(part * n_slabs / n_parts). */
static int32_t part_of(const s2_decode_plan *plan, int64_t slab)
{
    return (int32_t)(((slab + 1) * plan->n_parts - 1) / plan->n_slabs);
}

/* Cut all slabs at equal distances, whatever lists they belong to. */
static void split_flat(s2_decode_plan *plan, s2_decode_part *parts)
{
    for (int64_t part = 0; part < plan->n_parts; part++) {
        parts[part].slab_begin = (int32_t)(part * plan->n_slabs / plan->n_parts);
        parts[part].slab_end = (int32_t)((part + 1) * plan->n_slabs / plan->n_parts);
    }
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++) {
        s2_decode_list *const list = &plan->lists[list_no];
        list->first_part = list->n_parts = 0;
        if (list->slab_begin == list->slab_end)
            continue;
        list->first_part = part_of(plan, list->slab_begin);
        list->n_parts = part_of(plan, list->slab_end - 1) - list->first_part + 1;
        /* a part that begins inside the list, or at its first slab, begins with it */
        for (int32_t part = list->first_part; part < list->first_part + list->n_parts; part++)
            if (parts[part].slab_begin >= list->slab_begin)
                parts[part].first_list = list_no;
    }
}

static int32_t slabs_of(const s2_decode_list *list)
{
    return list->slab_end - list->slab_begin;
}

/* Give the list with the longest parts one more; false when no list has enough slabs for that. */
static bool widen(s2_decode_plan *plan)
{
    s2_decode_list *longest = NULL;
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++) {
        s2_decode_list *const list = &plan->lists[list_no];
        if (slabs_of(list) > list->n_parts * S2_DECODE_LEAST_SLABS &&
            (longest == NULL ||
             (int64_t)slabs_of(list) * longest->n_parts > (int64_t)slabs_of(longest) * list->n_parts))
            longest = list;
    }
    if (longest != NULL)
        longest->n_parts++;
    return longest != NULL;
}

static int64_t count_parts(const s2_decode_plan *plan, int32_t most_slabs)
{
    int64_t n = 0;
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++)
        n += s2_ceil_div(slabs_of(&plan->lists[list_no]), most_slabs);
    return n;
}

/*
 * Choose the number of parts per list so that the longest part is as short as want_parts allow: where many lists are
 * short, the long ones have fewer parts for it, since an SM with two parts would keep all others waiting.
 */
static int32_t share_parts(s2_decode_plan *plan, int32_t want_parts)
{
    int32_t low = S2_DECODE_LEAST_SLABS, high = s2_max_i32(low, plan->n_slabs), n_parts = 0;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (count_parts(plan, middle) <= want_parts)
            high = middle;
        else
            low = middle + 1;
    }
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++) {
        s2_decode_list *const list = &plan->lists[list_no];
        list->n_parts = (int32_t)s2_ceil_div(slabs_of(list), low);
        n_parts += list->n_parts;
    }
    while (n_parts < want_parts && widen(plan))
        n_parts++;
    return n_parts;
}

/* Cut so that every part stays within one list. */
static void split_lists(s2_decode_plan *plan, s2_decode_part *parts)
{
    int32_t part = 0;
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++) {
        s2_decode_list *const list = &plan->lists[list_no];
        list->first_part = part;
        for (int64_t own = 0; own < list->n_parts; own++, part++)
            parts[part] = (s2_decode_part){
                list->slab_begin + (int32_t)(own * slabs_of(list) / list->n_parts),
                list->slab_begin + (int32_t)((own + 1) * slabs_of(list) / list->n_parts), list_no};
    }
}

/*
 * Give whole lists to parts in turn, each as many as most_cost allows, a list costing its slabs and list_slabs more.
 * Returns how many parts that takes; sets first_part of lists that have slabs, and their n_parts, where `set`.
 */
static int64_t fill_parts(s2_decode_plan *plan, int64_t most_cost, int32_t list_slabs, bool set)
{
    int64_t part = 0, cost = 0;
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++) {
        s2_decode_list *const list = &plan->lists[list_no];
        const int64_t own = slabs_of(list) > 0 ? slabs_of(list) + list_slabs : 0;
        if (cost > 0 && cost + own > most_cost) {
            part++;
            cost = 0;
        }
        cost += own;
        if (set) {
            list->first_part = own > 0 ? (int32_t)part : 0;
            list->n_parts = own > 0;
        }
    }
    return part + 1;
}

/* The least that the part which costs most can cost when no list is cut. */
static int64_t least_cost(s2_decode_plan *plan, int32_t want_parts, int32_t list_slabs)
{
    int64_t low = 1, high = plan->n_slabs + (int64_t)plan->n_lists * list_slabs;
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++)
        low = s2_max_i64(low, slabs_of(&plan->lists[list_no]) + list_slabs);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (fill_parts(plan, middle, list_slabs, false) <= want_parts)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

s2_status s2_decode_plan_split_whole(s2_arena *arena, int32_t want_parts, int32_t list_slabs,
                                     s2_decode_plan *plan)
{
    const int64_t most_cost = least_cost(plan, want_parts, list_slabs);
    plan->n_parts = (int32_t)fill_parts(plan, most_cost, list_slabs, true);
    s2_decode_part *const parts = S2_NEW(arena, s2_decode_part, plan->n_parts);
    if (parts == NULL)
        return S2_ENOMEM;
    for (int32_t list_no = plan->n_lists - 1; list_no >= 0; list_no--) {
        const s2_decode_list *const list = &plan->lists[list_no];
        s2_decode_part *const part = &parts[list->first_part];
        if (list->n_parts == 0)
            continue;
        if (part->slab_end == 0)
            part->slab_end = list->slab_end;
        part->slab_begin = list->slab_begin;
        part->first_list = list_no;
    }
    plan->parts = parts;
    return S2_OK;
}

s2_status s2_decode_plan_split(s2_arena *arena, int32_t want_parts, s2_decode_plan *plan)
{
    const int64_t most = s2_ceil_div(plan->n_slabs, S2_DECODE_LEAST_SLABS);
    const bool by_list = plan->n_slabs > 0 && 2 * (int64_t)plan->n_lists <= want_parts;
    plan->n_parts = (int32_t)s2_max_i64(1, s2_min_i64(want_parts, most));
    if (by_list)
        plan->n_parts = share_parts(plan, want_parts);
    s2_decode_part *const parts = S2_NEW(arena, s2_decode_part, plan->n_parts);
    if (parts == NULL)
        return S2_ENOMEM;
    if (by_list)
        split_lists(plan, parts);
    else
        split_flat(plan, parts);
    plan->parts = parts;
    return S2_OK;
}

s2_status s2_decode_plan_build(s2_arena *arena, const s2_plan *plan, const int64_t *cut_tok,
                               int32_t want_parts, s2_decode_plan *out, s2_diag *why)
{
    S2_TRY(check(plan, why));
    s2_builder build = {
        .plan = plan, .cut_tok = cut_tok, .group = plan->pattern->n_heads / plan->pattern->n_kv_heads};
    s2_decode_plan made = {0};
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_status status = init_builder(&build);
    if (status == S2_OK)
        status = build_lists(arena, &build, &made);
    if (status == S2_OK)
        status = s2_decode_plan_split(arena, want_parts, &made);
    release_builder(&build);
    if (status == S2_OK)
        *out = made;
    else
        s2_arena_rewind(arena, mark);
    return status;
}
