#include "plan/steps.h"

#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"
#include "plan/internal.h"

enum {
    S2_STEP_LIMIT_BLK = 16, /* blocks of a step */
    S2_STEP_LOOK_BACK = 32  /* masks among which one's like is looked for */
};

typedef struct s2_step_array {
    void *data;
    int64_t n, cap;
    size_t size; /* bytes of an element */
} s2_step_array;

typedef struct s2_step_builder {
    const s2_plan *plan;
    int32_t half_blk; /* blocks of one group in a half step */
    s2_plan_list list;
    s2_step_array words, blocks, bits;
    s2_step_array mask_of; /* of the masks of list: where their like is in bits */
    s2_step_array of[2];   /* partial entries that a group reads */
    int64_t *first;        /* [cls * n_seqs + seq]: its first tile in shapes */
    s2_step_item *shapes;  /* n_half 0: not made yet */
} s2_step_builder;

static void *append(s2_step_array *array, int64_t n)
{
    if (s2_reserve(&array->data, &array->cap, array->n + n, array->size) != S2_OK)
        return NULL;
    void *const out = (char *)array->data + (size_t)array->n * array->size;
    array->n += n;
    return out;
}

static s2_status append_block(s2_step_builder *builder, int64_t block)
{
    int32_t *const place = append(&builder->blocks, 1);
    if (place == NULL)
        return S2_ENOMEM;
    *place = (int32_t)block;
    return S2_OK;
}

static s2_status append_range(s2_step_builder *builder, const s2_comb *comb, int64_t end)
{
    for (int64_t block = s2_comb_next(comb, comb->begin); block < end; block = s2_comb_next(comb, block + 1))
        S2_TRY(append_block(builder, block));
    return S2_OK;
}

/* ------------------------------------------------------------------ whole blocks */

/* A stride whose runs are a power of two stays a comb, from its first uncut run on. */
static s2_status take_comb(s2_step_builder *builder, s2_comb comb, s2_step_item *item, int64_t *n)
{
    const int64_t run = comb.gran * comb.width, first = s2_comb_next(&comb, comb.begin);
    if (first >= comb.end)
        return S2_OK;
    if (!s2_is_power_of_two(run) || s2_comb_is_interval(&comb))
        return append_range(builder, &comb, comb.end);
    const int64_t whole =
        s2_comb_run_end(&comb, first) - first == run ? first : s2_comb_run_end(&comb, first);
    S2_TRY(append_range(builder, &comb, whole));
    comb.begin = whole;
    item->comb_begin = (int32_t)s2_min_i64(s2_comb_next(&comb, whole), comb.end);
    item->comb_period = (int32_t)(comb.period * comb.gran);
    while ((INT64_C(1) << item->comb_shift) < run)
        item->comb_shift++;
    *n = s2_comb_count_below(&comb, comb.end);
    return S2_OK;
}

/* The blocks that all real rows read; *n of them. */
static s2_status take_whole(s2_step_builder *builder, const s2_plan_class *cls, const s2_plan_piece *sure,
                            int32_t n_sure, s2_step_item *item, int64_t *n)
{
    const s2_plan_list *const list = &builder->list;
    const s2_plan_piece *run = NULL;
    int64_t n_comb = 0;
    item->list_begin = (int32_t)builder->blocks.n;
    for (int32_t e = list->n_partial; e < list->n_entries; e++)
        S2_TRY(append_block(builder, list->entries[e].k_blk));
    for (int32_t p = 0; p < n_sure; p++) {
        if (sure[p].stride)
            S2_TRY(take_comb(builder,
                             s2_plan_stride_comb(builder->plan, &cls->as, sure[p].begin, sure[p].end), item,
                             &n_comb));
        else
            run = &sure[p];
    }
    if (run != NULL) {
        item->run_begin = (int32_t)run->begin;
        item->n_run = (int32_t)(run->end - run->begin);
    }
    item->n_list = (int32_t)(builder->blocks.n - item->list_begin);
    *n = item->n_list + item->n_run + n_comb;
    return S2_OK;
}

/* ------------------------------------------------------------------ halves */

/* The slabs of a group of warps: half of the tile, or the whole tile of its own head. */
static uint32_t slabs_of(const s2_plan *plan, int32_t group)
{
    const int32_t n_slabs = plan->options.tile_tok / S2_PLAN_SLAB_TOK;
    const uint32_t all = (UINT32_C(1) << n_slabs) - 1, low = (UINT32_C(1) << (n_slabs / 2)) - 1;
    return plan->pack_heads == 2 ? all : group == 0 ? low : all & ~low;
}

static s2_status split_partial(s2_step_builder *builder)
{
    const s2_plan_list *const list = &builder->list;
    for (int32_t group = 0; group < 2; group++) {
        builder->of[group].n = 0;
        for (int32_t e = 0; e < list->n_partial; e++) {
            if ((list->entries[e].slabs & slabs_of(builder->plan, group)) == 0)
                continue;
            int32_t *const place = append(&builder->of[group], 1);
            if (place == NULL)
                return S2_ENOMEM;
            *place = e;
        }
    }
    return S2_OK;
}

/* Windows cut every tile alike: its masks are those of the tiles before it, and stay in a cache near the cores. */
static int64_t find_mask(const s2_step_builder *builder, const char *mask)
{
    const s2_step_array *const bits = &builder->bits;
    for (int64_t like = bits->n - 1; like >= 0 && like >= bits->n - S2_STEP_LOOK_BACK; like--)
        if (memcmp((const char *)bits->data + (size_t)like * bits->size, mask, bits->size) == 0)
            return like;
    return -1;
}

static s2_status take_masks(s2_step_builder *builder)
{
    const s2_plan_list *const list = &builder->list;
    builder->mask_of.n = 0;
    for (int32_t nth = 0; nth < list->n_masks; nth++) {
        const char *const mask = (const char *)list->bits + (size_t)nth * builder->bits.size;
        int32_t *const place = append(&builder->mask_of, 1);
        int64_t like = find_mask(builder, mask);
        if (place == NULL)
            return S2_ENOMEM;
        if (like < 0) {
            void *const bits = append(&builder->bits, 1);
            if (bits == NULL)
                return S2_ENOMEM;
            memcpy(bits, mask, builder->bits.size);
            like = builder->bits.n - 1;
        }
        *place = (int32_t)like;
    }
    return S2_OK;
}

static s2_step_word word_of(const s2_step_builder *builder, const s2_plan_entry *entry)
{
    return (s2_step_word){(uint32_t)entry->k_blk << S2_STEP_BLOCK_SHIFT |
                              (entry->edge ? (uint32_t)S2_STEP_EDGE : 0u) | entry->slabs,
                          entry->mask < 0 ? -1 : ((const int32_t *)builder->mask_of.data)[entry->mask]};
}

/* The index-th word of a group: partial blocks, then the whole ones that do not fill a step, then padding. */
static s2_step_word half_word(const s2_step_builder *builder, const s2_step_item *item, int32_t group,
                              int64_t index, int64_t n_whole, int64_t n_left)
{
    const s2_step_array *const of = &builder->of[group];
    const int64_t over = index - of->n;
    if (over < 0)
        return word_of(builder, &builder->list.entries[((const int32_t *)of->data)[index]]);
    if (over >= n_left)
        return (s2_step_word){(uint32_t)S2_STEP_NOWHERE << S2_STEP_BLOCK_SHIFT, -1};
    const int32_t block = s2_step_block(item, builder->blocks.data, (int32_t)(n_whole - n_left + over));
    return (s2_step_word){(uint32_t)block << S2_STEP_BLOCK_SHIFT | slabs_of(builder->plan, group), -1};
}

/* How many half steps n_own partial and n_whole whole blocks need. */
static int64_t halves_of(const s2_step_builder *builder, int64_t n_own, int64_t n_whole)
{
    return s2_max_i64(1, s2_ceil_div(n_own + n_whole % (2 * builder->half_blk), builder->half_blk));
}

/* Partial blocks that both groups read, which a mixed step is for. */
static int64_t count_shared(const s2_step_builder *builder)
{
    const s2_plan_list *const list = &builder->list;
    int64_t n = 0;
    for (int32_t e = 0; e < list->n_partial; e++)
        n += (list->entries[e].slabs & slabs_of(builder->plan, 0)) != 0 &&
             (list->entries[e].slabs & slabs_of(builder->plan, 1)) != 0;
    return s2_min_i64(n, 2 * builder->half_blk);
}

/*
 * Whether a mixed step of n_shared partial blocks, filled with whole ones, saves time. Measured on an H200, a
 * half step takes 0.8 of a whole one's time and a mixed one 1.1.
 */
static bool mixing_pays(const s2_step_builder *builder, int64_t n_shared, int64_t n_whole)
{
    const int64_t step = 2 * builder->half_blk, n_fill = step - n_shared, n_rest = n_whole - n_fill;
    const int64_t n_own = s2_max_i64(builder->of[0].n, builder->of[1].n);
    if (n_shared == 0 || n_rest < 0)
        return false;
    return 8 * halves_of(builder, n_own - n_shared, n_rest) + 10 * (n_rest / step) + 11 <
           8 * halves_of(builder, n_own, n_whole) + 10 * (n_whole / step);
}

/* Move the first n_shared shared blocks from the groups' lists into a mixed step's words, followed by whole
 * blocks. */
static void take_mixed(s2_step_builder *builder, const s2_step_item *item, int64_t n_shared, int64_t n_whole,
                       s2_step_word *words)
{
    const uint32_t low = slabs_of(builder->plan, 0), high = slabs_of(builder->plan, 1);
    int64_t n_moved = 0;
    for (int32_t group = 0; group < 2; group++) {
        s2_step_array *const of = &builder->of[group];
        int32_t *const entries = of->data;
        int64_t n_kept = 0;
        n_moved = 0;
        for (int64_t nth = 0; nth < of->n; nth++) {
            const s2_plan_entry *const entry = &builder->list.entries[entries[nth]];
            if (n_moved < n_shared && (entry->slabs & low) != 0 && (entry->slabs & high) != 0)
                words[n_moved++] = word_of(builder, entry);
            else
                entries[n_kept++] = entries[nth];
        }
        of->n = n_kept;
    }
    for (int64_t at = n_moved; at < 2 * builder->half_blk; at++) {
        const int64_t block =
            s2_step_block(item, builder->blocks.data, (int32_t)(n_whole - 1 - (at - n_moved)));
        words[at] = (s2_step_word){(uint32_t)block << S2_STEP_BLOCK_SHIFT | low | high, -1};
    }
}

static s2_status take_halves(s2_step_builder *builder, s2_step_item *item, int64_t n_blocks)
{
    const int32_t half = builder->half_blk;
    s2_step_word mixed[S2_STEP_LIMIT_BLK];
    S2_TRY(split_partial(builder));
    const int64_t n_shared = count_shared(builder);
    int64_t n_whole = n_blocks;
    if (mixing_pays(builder, n_shared, n_whole)) {
        take_mixed(builder, item, n_shared, n_whole, mixed);
        n_whole -= 2 * half - n_shared;
        item->n_mixed = 1;
    }
    const int64_t n_own = s2_max_i64(builder->of[0].n, builder->of[1].n), n_left = n_whole % (2 * half);
    item->n_half = (int32_t)halves_of(builder, n_own, n_whole);
    item->n_whole = (int32_t)(n_whole / (2 * half));
    item->half_begin = (int32_t)builder->words.n;
    s2_step_word *const words = append(&builder->words, ((int64_t)item->n_half + item->n_mixed) * 2 * half);
    if (words == NULL)
        return S2_ENOMEM;
    for (int64_t index = 0; index < (int64_t)item->n_half * half; index++)
        for (int32_t group = 0; group < 2; group++)
            words[(index / half * 2 + group) * half + index % half] =
                half_word(builder, item, group, index, n_whole, n_left);
    if (item->n_mixed > 0)
        memcpy(&words[(int64_t)item->n_half * 2 * half], mixed, (size_t)(2 * half) * sizeof *mixed);
    return S2_OK;
}

static s2_status make_shape(s2_step_builder *builder, const s2_plan_item *from, s2_step_item *out)
{
    const s2_plan *const plan = builder->plan;
    const s2_plan_seq len = plan->seqs[from->seq];
    s2_step_item item = {.pos = (int32_t)s2_plan_tile_begin(plan, from->seq, from->tile),
                         .seq = from->seq,
                         .k_tok = len.k_tok,
                         .q_off = len.k_tok - len.q_tok};
    s2_plan_piece sure[S2_PLAN_MAX_PIECES];
    int32_t n_sure;
    int64_t n_whole;
    S2_TRY(s2_plan_tile_parts(plan, from->cls, from->seq, from->tile, &builder->list, sure, &n_sure));
    S2_TRY(take_whole(builder, &plan->classes[from->cls], sure, n_sure, &item, &n_whole));
    S2_TRY(take_masks(builder));
    S2_TRY(take_halves(builder, &item, n_whole));
    *out = item;
    return S2_OK;
}

/* ------------------------------------------------------------------ the whole */

static s2_status number_shapes(s2_step_builder *builder)
{
    const s2_plan *const plan = builder->plan;
    const int64_t n_pairs = (int64_t)plan->n_classes * plan->n_seqs;
    int64_t n = 0;
    builder->first = s2_calloc((size_t)n_pairs, sizeof *builder->first);
    if (builder->first == NULL)
        return S2_ENOMEM;
    for (int64_t pair = 0; pair < n_pairs; pair++) {
        builder->first[pair] = n;
        n += s2_plan_n_tiles(plan, (int32_t)(pair % plan->n_seqs));
    }
    builder->shapes = s2_calloc((size_t)n, sizeof *builder->shapes);
    return builder->shapes != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status fill_items(s2_step_builder *builder, s2_step_item *items, s2_steps *out, s2_diag *why)
{
    const s2_plan *const plan = builder->plan;
    for (int32_t item_no = 0; item_no < plan->n_items; item_no++) {
        const s2_plan_item *const from = &plan->items[item_no];
        s2_step_item *const shape =
            &builder->shapes[builder->first[(int64_t)from->cls * plan->n_seqs + from->seq] + from->tile];
        if (shape->n_half == 0)
            S2_TRY(make_shape(builder, from, shape));
        if (builder->words.n >= INT32_MAX || builder->blocks.n >= INT32_MAX || builder->bits.n >= INT32_MAX)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the lists have more than 2^31 entries");
        items[item_no] = *shape;
        items[item_no].head = from->head;
        out->n_half += shape->n_half;
        out->n_mixed += shape->n_mixed;
        out->n_whole += shape->n_whole;
    }
    return S2_OK;
}

static void *kept(s2_arena *arena, const s2_step_array *array, bool *good)
{
    void *const out = s2_arena_alloc(arena, (size_t)array->n, array->size);
    *good = *good && out != NULL;
    if (out != NULL && array->n > 0)
        memcpy(out, array->data, (size_t)array->n * array->size);
    return out;
}

static s2_status keep(s2_arena *arena, const s2_step_builder *builder, s2_steps *out)
{
    bool good = true;
    out->words = kept(arena, &builder->words, &good);
    out->n_words = builder->words.n;
    out->list = kept(arena, &builder->blocks, &good);
    out->n_list = builder->blocks.n;
    out->bits = kept(arena, &builder->bits, &good);
    out->n_masks = builder->bits.n;
    return good ? S2_OK : S2_ENOMEM;
}

static void release(s2_step_builder *builder)
{
    s2_step_array *const arrays[] = {&builder->words, &builder->blocks, &builder->bits,
                                     &builder->of[0], &builder->of[1],  &builder->mask_of};
    for (size_t at = 0; at < sizeof arrays / sizeof *arrays; at++)
        s2_free(arrays[at]->data);
    s2_plan_list_release(&builder->list);
    s2_free(builder->first);
    s2_free(builder->shapes);
}

static s2_status check_shape(const s2_plan *plan, int32_t step_tok, s2_diag *why)
{
    if (plan->options.tile_tok > 8 * S2_PLAN_SLAB_TOK || plan->pack_heads > 2 ||
        plan->options.tile_tok % (2 * S2_PLAN_SLAB_TOK) != 0)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "no two halves in tiles of %d rows of %d heads",
                           plan->options.tile_tok, plan->pack_heads);
    if (step_tok % (2 * plan->blk_tok) != 0 || step_tok > S2_STEP_LIMIT_BLK * plan->blk_tok)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a step of %d keys is not 2 to 16 blocks of %d", step_tok,
                           plan->blk_tok);
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        if (plan->seqs[seq].k_tok / plan->blk_tok + 1 >= S2_STEP_NOWHERE)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes at most %d key blocks",
                               S2_STEP_NOWHERE - 2);
    return S2_OK;
}

s2_status s2_steps_build(s2_arena *arena, const s2_plan *plan, int32_t step_tok, s2_steps *out, s2_diag *why)
{
    S2_TRY(check_shape(plan, step_tok, why));
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const size_t mask_size = (size_t)plan->options.tile_tok * (size_t)plan->mask_words * sizeof(uint32_t);
    s2_step_builder builder = {.plan = plan,
                               .half_blk = step_tok / plan->blk_tok / 2,
                               .words.size = sizeof(s2_step_word),
                               .blocks.size = sizeof(int32_t),
                               .bits.size = mask_size,
                               .of = {{.size = sizeof(int32_t)}, {.size = sizeof(int32_t)}},
                               .mask_of.size = sizeof(int32_t)};
    s2_steps steps = {.n_items = plan->n_items};
    s2_step_item *const items = S2_NEW(arena, s2_step_item, plan->n_items);
    s2_status status = items != NULL ? number_shapes(&builder) : S2_ENOMEM;
    if (status == S2_OK)
        status = fill_items(&builder, items, &steps, why);
    if (status == S2_OK)
        status = keep(arena, &builder, &steps);
    release(&builder);
    if (status != S2_OK) {
        s2_arena_rewind(arena, mark);
        return status;
    }
    steps.items = items;
    *out = steps;
    return S2_OK;
}
