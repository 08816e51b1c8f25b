/*
 * What a plan reads, as lists: marks [seq][head][slab][block] from the plan's own lists first, then query blocks
 * as long as all slabs of each read the same.
 */
#include "tests/kcheck/listed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"

enum { LONGEST_Q_BLOCK = 256, EXTRA = 3 }; /* entries of a list that name nothing */

typedef struct s2_marks {
    const s2_plan *plan;
    int32_t n_slabs, n_blk; /* of the longest sequence */
    uint8_t *read;          /* [seq][head][slab][block] */
} s2_marks;

typedef struct s2_by_lists {
    s2_arena arena;
    s2_plan dense;
    s2_listed listed;
    s2_attn_problem problem; /* that was prepared */
    void *counts, *indices, *state;
} s2_by_lists;

static uint8_t *marks_at(const s2_marks *marks, int32_t seq, int32_t head, int32_t slab)
{
    const int64_t row = ((int64_t)seq * marks->plan->pattern->n_heads + head) * marks->n_slabs + slab;
    return &marks->read[row * marks->n_blk];
}

static void mark_item(const s2_marks *marks, const s2_plan_item *item, const s2_plan_list *list)
{
    const int32_t first =
        (int32_t)(s2_plan_tile_begin(marks->plan, item->seq, item->tile) / S2_PLAN_SLAB_TOK);
    for (int32_t e = 0; e < list->n_entries; e++)
        for (int32_t slab = 0; slab < marks->plan->options.tile_tok / S2_PLAN_SLAB_TOK; slab++)
            for (int32_t head = item->head; head < item->head + item->n_heads; head++)
                if ((list->entries[e].slabs >> slab & 1) != 0 && first + slab < marks->n_slabs)
                    marks_at(marks, item->seq, head, first + slab)[list->entries[e].k_blk] = 1;
}

static s2_status make_marks(const s2_plan *plan, s2_marks *marks)
{
    s2_plan_list list = {0};
    s2_status status = S2_OK;
    int32_t k_tok = 1;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        k_tok = s2_max_i32(k_tok, plan->seqs[seq].k_tok);
    *marks = (s2_marks){.plan = plan,
                        .n_slabs = (int32_t)s2_round_up(k_tok, LONGEST_Q_BLOCK) / S2_PLAN_SLAB_TOK,
                        .n_blk = (int32_t)s2_ceil_div(k_tok, plan->blk_tok)};
    marks->read = s2_calloc((size_t)plan->n_seqs * (size_t)plan->pattern->n_heads * (size_t)marks->n_slabs,
                            (size_t)marks->n_blk);
    if (marks->read == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < plan->n_items && status == S2_OK; at++) {
        const s2_plan_item *const item = &plan->items[at];
        status = s2_plan_tile_list(plan, item->cls, item->seq, item->tile, &list);
        if (status == S2_OK)
            mark_item(marks, item, &list);
    }
    s2_plan_list_release(&list);
    return status;
}

/* Blocks of which the rows of a slab see any key. */
static int32_t seen_blocks(const s2_plan *plan, int32_t seq, int32_t slab)
{
    const int32_t k_tok = plan->seqs[seq].k_tok, end = (slab + 1) * S2_PLAN_SLAB_TOK;
    return (int32_t)s2_ceil_div(plan->pattern->causal ? s2_min_i32(end, k_tok) : k_tok, plan->blk_tok);
}

static bool has_rows(const s2_plan *plan, int32_t seq, int32_t slab)
{
    const s2_plan_seq lens = plan->seqs[seq];
    return (slab + 1) * S2_PLAN_SLAB_TOK > lens.k_tok - lens.q_tok && slab * S2_PLAN_SLAB_TOK < lens.k_tok;
}

/* Whether a slab reads what a later one does, as far as it sees. */
static bool alike(const s2_marks *marks, int32_t seq, int32_t head, int32_t slab, int32_t last)
{
    return memcmp(marks_at(marks, seq, head, slab), marks_at(marks, seq, head, last),
                  (size_t)seen_blocks(marks->plan, seq, slab)) == 0;
}

static int32_t last_slab(const s2_marks *marks, int32_t seq, int32_t slab, int32_t n)
{
    return s2_min_i32(slab / n * n + n, (marks->plan->seqs[seq].k_tok - 1) / S2_PLAN_SLAB_TOK + 1) - 1;
}

/* Heads that share a tile have one list: where a tile has fewer than all of a group, so has the group. */
static bool groups_share(const s2_plan *plan)
{
    return plan->pack_heads > 1 && plan->pattern->n_heads > plan->pattern->n_kv_heads;
}

/* The longest query blocks whose slabs all read what the last of them does. */
static int32_t q_block_of(const s2_marks *marks)
{
    const s2_plan *const plan = marks->plan;
    int32_t n = LONGEST_Q_BLOCK / S2_PLAN_SLAB_TOK;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        for (int32_t head = 0; head < plan->pattern->n_heads; head++)
            for (int32_t slab = 0; slab < marks->n_slabs; slab++)
                while (n > 1 && has_rows(plan, seq, slab) &&
                       !alike(marks, seq, head, slab, last_slab(marks, seq, slab, n)))
                    n /= 2;
    return n * S2_PLAN_SLAB_TOK;
}

/* Whether a slab reads all or none that it sees of `cut` blocks. */
static bool reads_evenly(const s2_marks *marks, int32_t seq, int32_t head, int32_t slab, int32_t cut)
{
    const uint8_t *const read = marks_at(marks, seq, head, slab);
    for (int32_t blk = 0; blk < seen_blocks(marks->plan, seq, slab); blk++)
        if (read[blk] != read[blk / cut * cut])
            return false;
    return true;
}

/* How many blocks of the plan are one of the lists: those of the pattern, where it reads them whole. */
static int32_t cut_of(const s2_marks *marks)
{
    const s2_plan *const plan = marks->plan;
    const int32_t cut = s2_max_i32(1, plan->pattern->block_tok / plan->blk_tok);
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        for (int32_t head = 0; head < plan->pattern->n_heads; head++)
            for (int32_t slab = 0; slab < marks->n_slabs; slab++)
                if (has_rows(plan, seq, slab) && !reads_evenly(marks, seq, head, slab, cut))
                    return 1;
    return cut;
}

/* One list, backwards, with what must be passed over. Returns its count. */
static int32_t write_list(const s2_marks *marks, int32_t cut, int32_t seq, int32_t head, int32_t slab,
                          int32_t *to)
{
    static const int32_t nothing[EXTRA] = {-1, INT32_MIN, INT32_MAX};
    const uint8_t *const read = marks_at(marks, seq, head, slab);
    int32_t n = 0;
    for (int32_t blk = seen_blocks(marks->plan, seq, slab); blk-- > 0;)
        if (read[blk] != 0)
            to[n++] = blk / cut;
    if (n == 0)
        return -7;
    for (int32_t e = 0; e < EXTRA; e++)
        to[n + e] = e == head % EXTRA ? to[0] : nothing[e];
    return n + EXTRA;
}

static void write_lists(const s2_marks *marks, const s2_listed *listed, int32_t *counts, int32_t *indices)
{
    const s2_plan *const plan = marks->plan;
    const int32_t n = listed->q_block_tok / S2_PLAN_SLAB_TOK, cut = listed->k_block_tok / plan->blk_tok;
    int64_t at = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        for (int32_t head = 0; head < plan->pattern->n_heads;
             head += plan->pattern->n_heads / listed->n_heads)
            for (int32_t nth = 0; nth < listed->q_blocks; nth++, at++) {
                const int32_t q_off = plan->seqs[seq].k_tok - plan->seqs[seq].q_tok;
                const int32_t slab = (q_off / listed->q_block_tok + nth) * n;
                if (slab * S2_PLAN_SLAB_TOK >= plan->seqs[seq].k_tok)
                    continue;
                counts[at] = write_list(marks, cut, seq, head, last_slab(marks, seq, slab, n),
                                        &indices[at * listed->most]);
                if (counts[at] == listed->most)
                    counts[at] = INT32_MAX;
            }
}

static s2_status upload(s2_device *device, const void *host, size_t n_bytes, void **out)
{
    S2_TRY(device->ops->alloc(device, n_bytes, out));
    return device->ops->copy_in(device, *out, host, n_bytes);
}

static s2_status upload_lists(s2_device *device, const s2_marks *marks, s2_by_lists *by)
{
    const s2_plan *const plan = marks->plan;
    const int32_t q_tok = q_block_of(marks);
    s2_listed *const listed = &by->listed;
    *listed = (s2_listed){.n_heads = groups_share(plan) ? plan->pattern->n_kv_heads : plan->pattern->n_heads,
                          .q_blocks = marks->n_slabs / (q_tok / S2_PLAN_SLAB_TOK),
                          .most = marks->n_blk + EXTRA,
                          .q_block_tok = q_tok,
                          .k_block_tok = plan->blk_tok * cut_of(marks)};
    const size_t n_lists = (size_t)plan->n_seqs * (size_t)listed->n_heads * (size_t)listed->q_blocks,
                 n_entries = n_lists * (size_t)listed->most;
    int32_t *const counts = s2_calloc(n_lists, sizeof *counts), *const indices =
                                                                    s2_calloc(n_entries, sizeof *indices);
    s2_status status = counts == NULL || indices == NULL ? S2_ENOMEM : S2_OK;
    if (status == S2_OK) {
        write_lists(marks, listed, counts, indices);
        status = upload(device, counts, n_lists * sizeof *counts, &by->counts);
    }
    if (status == S2_OK)
        status = upload(device, indices, n_entries * sizeof *indices, &by->indices);
    listed->counts = by->counts;
    listed->indices = by->indices;
    s2_free(counts);
    s2_free(indices);
    return status;
}

static bool is_wanted(void *user, const s2_plan_item *item)
{
    const s2_plan *const wanted = user;
    for (int32_t at = 0; at < wanted->n_items; at++) {
        const s2_plan_item *const own = &wanted->items[at];
        if (own->seq == item->seq && own->tile == item->tile && own->head == item->head)
            return true;
    }
    return false;
}

/* The dense plan of the same shape and items, in blocks of the lists. */
static s2_status make_dense(const s2_plan *plan, s2_by_lists *by)
{
    s2_pattern *const pattern = S2_NEW(&by->arena, s2_pattern, 1);
    s2_term *const term = S2_NEW(&by->arena, s2_term, 1);
    s2_body *const body = S2_NEW(&by->arena, s2_body, 1);
    uint16_t *const body_of = S2_NEW(&by->arena, uint16_t, S2_N_RULE_PHASES * plan->pattern->n_heads);
    s2_plan whole;
    if (pattern == NULL || term == NULL || body == NULL || body_of == NULL)
        return S2_ENOMEM;
    *term = s2_term_init(S2_TERM_DENSE, 0);
    *body = (s2_body){1, term};
    *pattern = *plan->pattern;
    pattern->n_layers = 1;
    pattern->n_bodies = 1;
    pattern->bodies = body;
    pattern->body_of = body_of;
    pattern->block_tok = by->listed.k_block_tok;
    s2_plan_options options = plan->options;
    options.pack_heads = plan->pack_heads;
    S2_TRY(
        s2_plan_build(&by->arena, pattern, S2_PREFILL, 0, plan->seqs, plan->n_seqs, &options, &whole, NULL));
    return s2_plan_select(&by->arena, &whole, is_wanted, (void *)(uintptr_t)plan, &by->dense);
}

/* The kernel that takes the lists; NULL: this build has none for the device. */
static const s2_kernel *under(const s2_device *device)
{
    return s2_kernel_find(device->kind == S2_DEVICE_GPU ? "sm90" : "cpu");
}

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    const s2_kernel *const kernel = under(device);
    if (kernel == NULL)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "this build has no CUDA");
    for (int32_t cls = 0; problem->plan != NULL && cls < problem->plan->n_classes; cls++)
        if (!problem->plan->classes[cls].block_exact)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the pattern is finer than lists of blocks");
    return kernel->supports(device, problem, why);
}

static void finish(s2_device *device, void *raw)
{
    s2_by_lists *const by = raw;
    if (by == NULL)
        return;
    under(device)->finish(device, by->state);
    device->ops->release(device, by->counts);
    device->ops->release(device, by->indices);
    s2_arena_release(&by->arena);
    s2_free(by);
}

/* The problem that the kernel is given. */
static s2_attn_problem problem_by(const s2_attn_problem *problem, const s2_by_lists *by)
{
    s2_attn_problem own = *problem;
    own.plan = &by->dense;
    own.listed = &by->listed;
    return own;
}

static s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **out, s2_diag *why)
{
    s2_marks marks;
    s2_by_lists *const by = s2_calloc(1, sizeof *by);
    if (by == NULL)
        return S2_ENOMEM;
    s2_status status = make_marks(problem->plan, &marks);
    if (status == S2_OK)
        status = upload_lists(device, &marks, by);
    if (status == S2_OK)
        status = make_dense(problem->plan, by);
    if (status == S2_OK) {
        by->problem = problem_by(problem, by);
        status = under(device)->prepare(device, &by->problem, &by->state, why);
    }
    s2_free(marks.read);
    if (status == S2_OK)
        *out = by;
    else
        finish(device, by);
    return status;
}

const s2_attn_problem *s2_listed_under(void *raw, void **state)
{
    s2_by_lists *const by = raw;
    *state = by->state;
    return &by->problem;
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    s2_by_lists *const by = raw;
    const s2_attn_problem own = problem_by(problem, by);
    return under(device)->run(device, &own, by->state, why);
}

static const s2_kernel_traits traits_cpu = {
    .name = "cpu_lists", .rank = 1, .tile_tok = 64, .pack_heads = 1, .key_tok = 64, .wide_key_tok = 64};
/* Those of sm90, which is what a user's lists run on (library/attend.c). */
static const s2_kernel_traits traits = {.name = "sm90_lists",
                                        .rank = 1,
                                        .tile_tok = 128,
                                        .tile_rows = 128,
                                        .pack_heads = 2,
                                        .key_tok = 64,
                                        .wide_key_tok = 32,
                                        .section_bytes = S2_SECTION_BYTES,
                                        .dim_step = 8,
                                        .most_dim = 256};

const s2_kernel s2_listed_cpu = {.traits = &traits_cpu,
                                 .summary = "the CPU kernel over lists",
                                 .device = S2_DEVICE_CPU,
                                 .tolerance = S2_TOL_EXACT,
                                 .deterministic = true,
                                 .supports = supports,
                                 .prepare = prepare,
                                 .run = run,
                                 .finish = finish,
                                 .takes = S2_TAKES_CAP | S2_TAKES_SINKS};
const s2_kernel s2_listed_sm90 = {.traits = &traits,
                                  .summary = "the Hopper forward over lists on the device",
                                  .device = S2_DEVICE_GPU,
                                  .tolerance = S2_TOL_ROUNDED_P,
                                  .deterministic = true,
                                  .supports = supports,
                                  .prepare = prepare,
                                  .run = run,
                                  .finish = finish,
                                  .takes = S2_TAKES_CAP | S2_TAKES_SINKS};
