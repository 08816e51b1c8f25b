#include "cache/table.h"

#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"

/* ------------------------------------------------------------------ the pool */

/* Both arrays grow together, so that returning a page never needs memory. */
static s2_status grow_pool(s2_cache_pool *pool)
{
    int64_t cap = pool->cap;
    if (pool->n_pages == INT32_MAX)
        return S2_ENOMEM;
    S2_TRY(S2_RESERVE(pool->refs, cap, pool->n_pages + 1));
    int64_t cap_free = pool->cap;
    S2_TRY(S2_RESERVE(pool->free_pages, cap_free, pool->n_pages + 1));
    pool->cap = cap;
    return S2_OK;
}

S2_MUST_CHECK static s2_status pool_take(s2_cache_pool *pool, int32_t *page)
{
    if (pool->n_free > 0) {
        *page = pool->free_pages[--pool->n_free];
    } else {
        if (pool->limit > 0 && pool->n_pages >= pool->limit)
            return S2_ENOMEM;
        S2_TRY(grow_pool(pool));
        *page = (int32_t)pool->n_pages++;
    }
    pool->refs[*page] = 1;
    pool->n_changes++;
    if (pool->n_pages - pool->n_free > pool->peak)
        pool->peak = pool->n_pages - pool->n_free;
    return S2_OK;
}

static void pool_share(s2_cache_pool *pool, int32_t page)
{
    pool->refs[page]++;
}

static void pool_drop(s2_cache_pool *pool, int32_t page)
{
    pool->n_changes++;
    if (--pool->refs[page] == 0)
        pool->free_pages[pool->n_free++] = page;
}

void s2_cache_pool_release(s2_cache_pool *pool)
{
    s2_free(pool->refs);
    s2_free(pool->free_pages);
    *pool = (s2_cache_pool){0};
}

static s2_status add_move(const s2_cache_step *step, int64_t from_slot, int64_t to_slot, int64_t n_slots)
{
    s2_cache_moves_list *const list = step->moves;
    s2_cache_move *const last_move = list->n > 0 ? &list->moves[list->n - 1] : NULL;
    if (last_move != NULL && last_move->from_slot + last_move->n_slots == from_slot &&
        last_move->to_slot + last_move->n_slots == to_slot) {
        last_move->n_slots += (int32_t)n_slots;
        return S2_OK;
    }
    S2_TRY(S2_RESERVE(list->moves, list->cap, list->n + 1));
    list->moves[list->n++] = (s2_cache_move){from_slot, to_slot, (int32_t)n_slots};
    return S2_OK;
}

/* Make *page this table's own: a shared one is copied before anything is written into it. */
static s2_status own_page(const s2_cache_step *step, int32_t *page)
{
    if (step->pool->refs[*page] == 1)
        return S2_OK;
    int32_t fresh;
    S2_TRY(pool_take(step->pool, &fresh));
    const s2_status status =
        add_move(step, *page * step->page_slots, fresh * step->page_slots, step->page_slots);
    pool_drop(step->pool, status == S2_OK ? *page : fresh);
    if (status == S2_OK)
        *page = fresh;
    return status;
}

/* ------------------------------------------------------------------ the heap of waiting pages */

static s2_status push_wait(s2_cache_table *table, s2_cache_wait wait)
{
    S2_TRY(S2_RESERVE(table->heap, table->cap_heap, table->n_heap + 1));
    int64_t hole = table->n_heap++;
    while (hole > 0 && table->heap[(hole - 1) / 2].last_query > wait.last_query) {
        table->heap[hole] = table->heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    table->heap[hole] = wait;
    return S2_OK;
}

static void pop_wait(s2_cache_table *table)
{
    const s2_cache_wait wait = table->heap[--table->n_heap];
    int64_t hole = 0;
    for (int64_t child = 1; child < table->n_heap; child = 2 * hole + 1) {
        if (child + 1 < table->n_heap && table->heap[child + 1].last_query < table->heap[child].last_query)
            child++;
        if (table->heap[child].last_query >= wait.last_query)
            break;
        table->heap[hole] = table->heap[child];
        hole = child;
    }
    table->heap[hole] = wait;
}

/* ------------------------------------------------------------------ entries */

static s2_cache_entry *find_entry(const s2_cache_table *table, int64_t page)
{
    int64_t low = 0, high = table->n_entries;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (table->entries[middle].page < page)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->n_entries && table->entries[low].page == page ? &table->entries[low] : NULL;
}

static void close_holes(s2_cache_table *table)
{
    if (table->n_entries <= 2 * table->n_held + 16)
        return;
    int64_t n = 0;
    for (int64_t at = 0; at < table->n_entries; at++)
        if (table->entries[at].pool_page >= 0)
            table->entries[n++] = table->entries[at];
    table->n_entries = n;
}

static void drop_page(s2_cache_table *table, s2_cache_pool *pool, int64_t page)
{
    s2_cache_entry *const entry = find_entry(table, page);
    if (entry == NULL || entry->pool_page < 0)
        return;
    pool_drop(pool, entry->pool_page);
    entry->pool_page = -1;
    table->n_held--;
    close_holes(table);
}

/* The page of the far side that keys now enter: the last entry, added if need be. */
static s2_status hold_open(s2_cache_table *table, const s2_cache_step *step, s2_cache_entry **out)
{
    const bool known = table->n_entries > 0 && table->entries[table->n_entries - 1].page == table->open_page;
    S2_TRY(S2_RESERVE(table->entries, table->cap_entries, table->n_entries + !known));
    s2_cache_entry *const entry = &table->entries[table->n_entries - known];
    if (!known || entry->pool_page < 0) {
        int32_t taken;
        S2_TRY(pool_take(step->pool, &taken));
        *entry = (s2_cache_entry){(int32_t)table->open_page, taken};
        table->n_entries += !known;
        table->n_held++;
    }
    *out = entry;
    return S2_OK;
}

/* ------------------------------------------------------------------ one step */

void s2_cache_table_expire(s2_cache_table *table, const s2_cache_step *step)
{
    if (step->n_tok - 1 < table->next_tok)
        return;
    while (table->n_heap > 0 && table->heap[0].last_query < step->query) {
        drop_page(table, step->pool, table->heap[0].page);
        pop_wait(table);
    }
    if (table->open_page >= 0 && table->open_query < step->query)
        drop_page(table, step->pool, table->open_page);
}

static s2_status close_page(s2_cache_table *table)
{
    if (table->open_page < 0 || table->open_query == S2_OPEN || table->open_query == S2_CACHE_NEVER)
        return S2_OK;
    return push_wait(table, (s2_cache_wait){table->open_query, (int32_t)table->open_page});
}

static int64_t ring_slot(const s2_cache_table *table, const s2_cache_step *step, int64_t k_tok)
{
    const int64_t place = k_tok % (step->ring_pages * step->page_tok);
    return table->ring[place / step->page_tok] * step->page_slots + place % step->page_tok;
}

/* Key k_tok leaves the window (or was never in one); it is kept if some query from now on reads it. */
static s2_status enter_far(s2_cache_table *table, const s2_cache_step *step, int64_t k_tok)
{
    const int64_t page = k_tok / step->page_tok, last_query = s2_cache_rule_last_query(step->rule, k_tok);
    if (page != table->open_page) {
        S2_TRY(close_page(table));
        table->open_page = page;
        table->open_query = S2_CACHE_NEVER;
    }
    if (last_query > table->open_query)
        table->open_query = last_query;
    if (last_query < step->query)
        return S2_OK;
    s2_cache_entry *entry;
    S2_TRY(hold_open(table, step, &entry));
    S2_TRY(own_page(step, &entry->pool_page));
    if (step->ring_pages == 0 || k_tok >= step->moved_tok)
        return S2_OK;
    const int64_t to_slot = entry->pool_page * step->page_slots + k_tok % step->page_tok;
    return add_move(step, ring_slot(table, step, k_tok), to_slot, 1);
}

/* Room in the ring for the newest key. */
static s2_status enter_ring(s2_cache_table *table, const s2_cache_step *step)
{
    const int64_t page = (step->n_tok - 1) / step->page_tok % step->ring_pages;
    if (page < table->n_ring)
        return own_page(step, &table->ring[page]);
    S2_TRY(S2_RESERVE(table->ring, table->cap_ring, page + 1));
    S2_TRY(pool_take(step->pool, &table->ring[page]));
    table->n_ring = page + 1;
    return S2_OK;
}

/* The next key whose arrival can change something: a block or page begins, or a page expires. */
static int64_t next_event(const s2_cache_table *table, const s2_cache_step *step)
{
    const int64_t n_tok = step->n_tok, step_tok = step->rule->step_tok, more = step->n_queries;
    int64_t next = s2_min_i64(s2_round_up(n_tok, step_tok), s2_round_up(n_tok, step->page_tok));
    if (step->ring_pages > 0) /* the window of the first query moves at the end of its block */
        next = s2_min_i64(next, s2_round_up(step->query + 1, step_tok) + more - 1);
    if (table->n_heap > 0)
        next = s2_min_i64(next, table->heap[0].last_query + more);
    if (table->open_page >= 0 && table->open_query != S2_OPEN && table->open_query >= step->query)
        next = s2_min_i64(next, table->open_query + more);
    return next;
}

s2_status s2_cache_table_admit(s2_cache_table *table, const s2_cache_step *step)
{
    if (step->n_tok - 1 < table->next_tok)
        return S2_OK;
    const int64_t far_end =
        step->ring_pages > 0 ? s2_cache_rule_window_begin(step->rule, step->query + 1) : step->n_tok;
    for (; table->far_tok < far_end; table->far_tok++)
        S2_TRY(enter_far(table, step, table->far_tok));
    if (step->ring_pages > 0)
        S2_TRY(enter_ring(table, step));
    table->next_tok = next_event(table, step);
    return S2_OK;
}

/* ------------------------------------------------------------------ queries and life */

int32_t s2_cache_table_find(const s2_cache_table *table, const s2_cache_step *step, int64_t k_tok,
                            int64_t *inside)
{
    *inside = k_tok % step->page_tok;
    if (step->ring_pages > 0 && k_tok >= s2_cache_rule_window_begin(step->rule, step->query + 1))
        return table->ring[k_tok / step->page_tok % step->ring_pages];
    const s2_cache_entry *const entry = find_entry(table, k_tok / step->page_tok);
    return entry != NULL ? entry->pool_page : -1;
}

static s2_status copy_array(void **out, const void *from, int64_t n, size_t size)
{
    *out = NULL;
    if (n == 0)
        return S2_OK;
    *out = s2_malloc((size_t)n * size);
    if (*out == NULL)
        return S2_ENOMEM;
    memcpy(*out, from, (size_t)n * size);
    return S2_OK;
}

static void free_arrays(s2_cache_table *table)
{
    s2_free(table->entries);
    s2_free(table->heap);
    s2_free(table->ring);
    *table = (s2_cache_table){.open_page = -1};
}

s2_status s2_cache_table_fork(const s2_cache_table *table, s2_cache_pool *pool, s2_cache_table *out)
{
    *out = *table;
    out->entries = NULL;
    out->heap = NULL;
    out->ring = NULL;
    s2_status status =
        copy_array((void **)&out->entries, table->entries, table->n_entries, sizeof *table->entries);
    if (status == S2_OK)
        status = copy_array((void **)&out->heap, table->heap, table->n_heap, sizeof *table->heap);
    if (status == S2_OK)
        status = copy_array((void **)&out->ring, table->ring, table->n_ring, sizeof *table->ring);
    if (status != S2_OK) {
        free_arrays(out);
        return status;
    }
    out->cap_entries = out->n_entries;
    out->cap_heap = out->n_heap;
    out->cap_ring = out->n_ring;
    for (int64_t at = 0; at < out->n_entries; at++)
        if (out->entries[at].pool_page >= 0)
            pool_share(pool, out->entries[at].pool_page);
    for (int64_t at = 0; at < out->n_ring; at++)
        pool_share(pool, out->ring[at]);
    return S2_OK;
}

void s2_cache_table_release(s2_cache_table *table, s2_cache_pool *pool)
{
    for (int64_t at = 0; at < table->n_entries; at++)
        if (table->entries[at].pool_page >= 0)
            pool_drop(pool, table->entries[at].pool_page);
    for (int64_t at = 0; at < table->n_ring; at++)
        pool_drop(pool, table->ring[at]);
    free_arrays(table);
}
