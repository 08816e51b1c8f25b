#include "plan/internal.h"

#include <string.h>

#include "base/alloc.h"

/* The result's arrays while they grow; copied to the arena once their size is known. */
typedef struct s2_flattener {
    const s2_plan *plan;
    s2_plan_list list;
    s2_plan_entry *entries;
    int64_t n_entries;
    int64_t cap_entries;
    uint32_t *bits;
    int64_t n_masks;
    int64_t cap_masks;
    int64_t *first_list; /* [cls * n_seqs + seq]: first list of that pair; one per tile */
    s2_plan_span *lists; /* n < 0: not made yet */
} s2_flattener;

static size_t mask_bytes(const s2_plan *plan)
{
    return (size_t)plan->options.tile_tok * (size_t)plan->mask_words * sizeof(uint32_t);
}

static s2_status append(s2_flattener *flat, s2_plan_span *span)
{
    const s2_plan_list *const list = &flat->list;
    const int64_t n = flat->n_entries + list->n_entries, n_masks = flat->n_masks + list->n_masks;
    S2_TRY(S2_RESERVE(flat->entries, flat->cap_entries, n));
    S2_TRY(s2_reserve(&flat->bits, &flat->cap_masks, n_masks, mask_bytes(flat->plan)));
    *span = (s2_plan_span){flat->n_entries, list->n_entries, list->n_partial};
    for (int32_t e = 0; e < list->n_entries; e++) {
        s2_plan_entry entry = list->entries[e];
        entry.mask += entry.mask >= 0 ? (int32_t)flat->n_masks : 0;
        flat->entries[flat->n_entries + e] = entry;
    }
    if (list->n_masks > 0)
        memcpy((char *)flat->bits + (size_t)flat->n_masks * mask_bytes(flat->plan), list->bits,
               (size_t)list->n_masks * mask_bytes(flat->plan));
    flat->n_entries = n;
    flat->n_masks = n_masks;
    return S2_OK;
}

static s2_status span_of_item(s2_flattener *flat, const s2_plan_item *item, s2_plan_span *out)
{
    const int64_t pair = (int64_t)item->cls * flat->plan->n_seqs + item->seq;
    s2_plan_span *const span = &flat->lists[flat->first_list[pair] + item->tile];
    if (span->n < 0) {
        S2_TRY(s2_plan_tile_list(flat->plan, item->cls, item->seq, item->tile, &flat->list));
        S2_TRY(append(flat, span));
    }
    *out = *span;
    return S2_OK;
}

static s2_status number_lists(s2_flattener *flat)
{
    const s2_plan *const plan = flat->plan;
    const int64_t n_pairs = (int64_t)plan->n_classes * plan->n_seqs;
    int64_t n = 0;
    flat->first_list = s2_calloc((size_t)n_pairs, sizeof *flat->first_list);
    if (flat->first_list == NULL)
        return S2_ENOMEM;
    for (int64_t pair = 0; pair < n_pairs; pair++) {
        flat->first_list[pair] = n;
        n += s2_plan_n_tiles(plan, (int32_t)(pair % plan->n_seqs));
    }
    flat->lists = s2_calloc((size_t)n, sizeof *flat->lists);
    if (flat->lists == NULL)
        return S2_ENOMEM;
    for (int64_t at = 0; at < n; at++)
        flat->lists[at].n = -1;
    return S2_OK;
}

static s2_status keep(s2_arena *arena, const s2_flattener *flat, const s2_plan_span *spans, s2_plan_flat *out)
{
    s2_plan_entry *const entries = S2_NEW(arena, s2_plan_entry, flat->n_entries);
    uint32_t *const bits = s2_arena_alloc(arena, (size_t)flat->n_masks, mask_bytes(flat->plan));
    if (entries == NULL || bits == NULL)
        return S2_ENOMEM;
    if (flat->n_entries > 0)
        memcpy(entries, flat->entries, (size_t)flat->n_entries * sizeof *entries);
    if (flat->n_masks > 0)
        memcpy(bits, flat->bits, (size_t)flat->n_masks * mask_bytes(flat->plan));
    *out = (s2_plan_flat){entries, flat->n_entries, bits, flat->n_masks, spans};
    return S2_OK;
}

s2_status s2_plan_flatten(s2_arena *arena, const s2_plan *plan, s2_plan_flat *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_flattener flat = {.plan = plan};
    s2_plan_span *const spans = S2_NEW(arena, s2_plan_span, plan->n_items);
    s2_status status = spans != NULL ? number_lists(&flat) : S2_ENOMEM;
    for (int32_t item = 0; status == S2_OK && item < plan->n_items; item++)
        status = span_of_item(&flat, &plan->items[item], &spans[item]);
    if (status == S2_OK)
        status = keep(arena, &flat, spans, out);
    if (status != S2_OK)
        s2_arena_rewind(arena, mark);
    s2_plan_list_release(&flat.list);
    s2_free(flat.entries);
    s2_free(flat.bits);
    s2_free(flat.first_list);
    s2_free(flat.lists);
    return status;
}
