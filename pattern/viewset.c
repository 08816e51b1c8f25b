#include "pattern/viewset.h"

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

/* Where the view is, or the free slot where it belongs. */
static int64_t slot_of(const s2_view_set *set, const s2_view *view)
{
    int64_t slot = (int64_t)(hash_view(view) & (uint64_t)(set->n_slots - 1));
    while (set->slots[slot] != 0 && !s2_view_equal(&set->views[set->slots[slot] - 1], view))
        slot = (slot + 1) & (set->n_slots - 1);
    return slot;
}

/* More than half of the slots stay free. */
static s2_status make_room(s2_arena *arena, s2_view_set *set)
{
    enum { LEAST_SLOTS = 64 };
    S2_TRY(S2_ARENA_ROOM(arena, set->views, set->n, set->cap));
    if (2 * ((int64_t)set->n + 1) < set->n_slots)
        return S2_OK;
    s2_view_set grown = *set;
    grown.n_slots = set->n_slots > 0 ? 2 * set->n_slots : LEAST_SLOTS;
    grown.slots = S2_NEW(arena, int32_t, grown.n_slots);
    if (grown.slots == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < set->n; at++)
        grown.slots[slot_of(&grown, &set->views[at])] = at + 1;
    *set = grown;
    return S2_OK;
}

s2_status s2_view_set_add(s2_arena *arena, s2_view_set *set, const s2_view *view, int32_t *index)
{
    int64_t slot = set->n_slots > 0 ? slot_of(set, view) : 0;
    if (set->n_slots > 0 && set->slots[slot] != 0) {
        *index = set->slots[slot] - 1;
        return S2_OK;
    }
    S2_TRY(make_room(arena, set));
    slot = slot_of(set, view);
    set->views[set->n] = *view;
    *index = set->n++;
    set->slots[slot] = set->n;
    return S2_OK;
}
