#include "coverage/bits.h"

#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"

/* Depth holds two whole matrices of bits: 64 MiB at this many units. */
enum { MOST_FLOW_UNITS = 1 << 14 };

/* Rows of n_units bits; a unit is a block where everything is block-aligned, else a token. */
typedef struct s2_grid {
    s2_column_search *search;
    int64_t unit;
    int64_t n_units;
    int64_t n_words;
    bool causal;
    s2_run *runs;
    int64_t cap;
} s2_grid;

static s2_status grid_init(s2_column_search *search, const s2_view *views, int32_t n, s2_grid *grid)
{
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    for (int32_t v = 0; v < n; v++)
        s2_view_shape_add(&shape, &views[v]);
    const s2_pattern *const pattern = views[0].pattern;
    *grid = (s2_grid){.search = search, .unit = shape.block_aligned ? pattern->block_tok : 1, .cap = 256};
    grid->n_units = s2_ceil_div(search->n_tok, grid->unit);
    grid->n_words = (grid->n_units + 63) / 64;
    grid->causal = pattern->causal;
    grid->runs = s2_malloc((size_t)grid->cap * sizeof *grid->runs);
    return grid->runs != NULL ? S2_OK : S2_ENOMEM;
}

static uint64_t *words_new(s2_grid *grid, int64_t n_rows)
{
    int64_t n;
    return s2_mul_i64(grid->n_words, n_rows, &n) ? S2_NEW(grid->search->scratch, uint64_t, n) : NULL;
}

/* Bits [begin, end) of one word-aligned row. */
static void set_bits(uint64_t *row, int64_t begin, int64_t end)
{
    for (int64_t word = begin / 64; word * 64 < end; word++) {
        const int64_t from = begin > word * 64 ? begin - word * 64 : 0;
        const int64_t to = end < word * 64 + 64 ? end - word * 64 : 64;
        row[word] |= (to == 64 ? ~UINT64_C(0) : (UINT64_C(1) << to) - 1) & (~UINT64_C(0) << from);
    }
}

/* The mask, if it is all that the head reads, else NULL. */
static const s2_mask *only_mask(const s2_view *view)
{
    const s2_atom *const atom = view->atoms;
    if (view->n_atoms != 1 || atom->kind != S2_ATOM_MASK || !s2_range_is_whole(atom->distance_blk) ||
        !s2_range_is_whole(atom->distance_tok) || !s2_range_is_whole(atom->key_tok) ||
        !s2_range_is_whole(atom->query_tok))
        return NULL;
    return view->body->terms[atom->term].mask;
}

/* Eight bytes of 0 or 1 to eight bits: the multiplication gathers bit 0 of each byte in the top byte. */
static uint64_t gather_byte(const uint8_t *bytes)
{
    uint64_t eight;
    memcpy(&eight, bytes, sizeof eight);
    return eight * UINT64_C(0x0102040810204080) >> 56;
}

/* Eight bytes of np.packbits to 64 bits, first key lowest: each byte is reversed. */
static uint64_t turn_bytes(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    word = (word >> 1 & UINT64_C(0x5555555555555555)) | (word & UINT64_C(0x5555555555555555)) << 1;
    word = (word >> 2 & UINT64_C(0x3333333333333333)) | (word & UINT64_C(0x3333333333333333)) << 2;
    return (word >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (word & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
}

static void add_packed_row(const uint8_t *restrict bytes, int64_t end, uint64_t *restrict row)
{
    int64_t bit = 0;
    for (; bit + 64 <= end; bit += 64)
        row[bit / 64] |= turn_bytes(bytes + bit / 8);
    for (; bit < end; bit++)
        row[bit / 64] |= (uint64_t)(bytes[bit / 8] >> (7 - bit % 8) & 1) << bit % 64;
}

static void pack_mask_row(const s2_grid *grid, const s2_mask *mask, int32_t head, int64_t q_blk,
                          uint64_t *row)
{
    if (q_blk >= mask->n_q_blk)
        return;
    const uint8_t *const bytes = s2_mask_row(mask, head, q_blk);
    int64_t end = s2_min_i64(mask->n_k_blk, grid->n_units);
    if (grid->causal && q_blk + 1 < end)
        end = q_blk + 1;
    if (mask->packed) {
        add_packed_row(bytes, end, row);
        return;
    }
    int64_t bit = 0;
    for (; bit + 64 <= end; bit += 64)
        for (int64_t byte = 0; byte < 8; byte++)
            row[bit / 64] |= gather_byte(bytes + bit + byte * 8) << byte * 8;
    for (; bit < end; bit++)
        row[bit / 64] |= (uint64_t)(bytes[bit] != 0) << bit % 64;
}

/* The mask to read whole rows of units from, or NULL. */
static const s2_mask *row_mask(const s2_grid *grid, const s2_view *view)
{
    return grid->unit > 1 || view->pattern->block_tok == 1 ? only_mask(view) : NULL;
}

/* One bit tells most rows of a mask from empty ones without reading the whole row. */
static bool reads_itself(const s2_grid *grid, const s2_view *view, int64_t q_unit)
{
    const s2_mask *const mask = row_mask(grid, view);
    return mask != NULL && q_unit < mask->n_q_blk && q_unit < mask->n_k_blk &&
           s2_mask_allows(mask, view->head, q_unit, q_unit);
}

/* OR the keys of query unit q into row. S2_ELIMIT where no work is left: then the row lacks some of them. */
static s2_status add_row(s2_grid *grid, const s2_view *view, int64_t q_unit, uint64_t *row)
{
    const s2_mask *const mask = row_mask(grid, view);
    grid->search->work_left -= grid->n_words + 1;
    if (mask != NULL) {
        pack_mask_row(grid, mask, view->head, q_unit, row);
        return S2_OK;
    }
    int64_t q_tok = (q_unit + 1) * grid->unit - 1;
    q_tok = q_tok < grid->search->n_tok ? q_tok : grid->search->n_tok - 1;
    int64_t n_runs;
    S2_TRY(s2_view_row_whole(view, q_tok, grid->search->n_tok, &grid->search->work_left, &grid->runs,
                             &grid->cap, &n_runs));
    for (int64_t r = 0; r < n_runs; r++)
        set_bits(row, grid->runs[r].begin / grid->unit, s2_ceil_div(grid->runs[r].end, grid->unit));
    return S2_OK;
}

/* What any of the views reads in the row. */
static s2_status load_rows(s2_grid *grid, const s2_view *views, int32_t n, int64_t q_unit, uint64_t *row)
{
    memset(row, 0, (size_t)grid->n_words * sizeof *row);
    for (int32_t v = 0; v < n; v++)
        S2_TRY(add_row(grid, &views[v], q_unit, row));
    return S2_OK;
}

/* The keys that query q could read: [0, q] when causal, all otherwise. */
static int64_t row_end(const s2_grid *grid, int64_t q_unit)
{
    return grid->causal ? q_unit + 1 : grid->n_units;
}

/* First bit of [0, end) set in `row ^ flip`, or -1. */
static int64_t first_bit(const uint64_t *row, uint64_t flip, int64_t end)
{
    for (int64_t word = 0; word * 64 < end; word++) {
        uint64_t bits = row[word] ^ flip;
        if (end - word * 64 < 64)
            bits &= (UINT64_C(1) << (end - word * 64)) - 1;
        if (bits != 0)
            return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

static bool out_of_work(s2_grid *grid, s2_violation *best)
{
    best->limited |= grid->search->work_left <= 0;
    return best->limited;
}

static void keep_unit(const s2_grid *grid, s2_violation *best, int64_t q_unit, int64_t k_unit, int64_t other)
{
    s2_violation_keep(best, q_unit * grid->unit, k_unit * grid->unit, other);
}

/* The first pair that just one of views[n] together and `other` reads; other NULL reads everything. */
static s2_status first_odd(s2_grid *grid, const s2_view *views, int32_t n, const s2_view *other,
                           s2_violation *best)
{
    uint64_t *const row = words_new(grid, 2);
    if (row == NULL)
        return S2_ENOMEM;
    uint64_t *const others = row + grid->n_words;
    for (int64_t q_unit = 0; q_unit < grid->n_units && !out_of_work(grid, best); q_unit++) {
        S2_TRY(load_rows(grid, views, n, q_unit, row));
        if (other != NULL)
            S2_TRY(load_rows(grid, other, 1, q_unit, others));
        for (int64_t word = 0; other != NULL && word < grid->n_words; word++)
            row[word] ^= others[word];
        const int64_t k_unit = first_bit(row, other != NULL ? 0 : ~UINT64_C(0), row_end(grid, q_unit));
        if (k_unit >= 0)
            keep_unit(grid, best, q_unit, k_unit, -1);
        if (best->found && grid->causal)
            break;
    }
    return S2_OK;
}

/* First query unit from k on that does not read it; the caller knows that there is one. */
static s2_status first_unread(s2_grid *grid, const s2_view *view, int64_t k_unit, uint64_t *row, int64_t *out)
{
    for (int64_t q_unit = k_unit; q_unit < grid->n_units; q_unit++) {
        S2_TRY(load_rows(grid, view, 1, q_unit, row));
        if ((row[k_unit / 64] >> k_unit % 64 & 1) == 0) {
            *out = q_unit;
            return S2_OK;
        }
    }
    return S2_EINTERNAL;
}

/* Prefill may end inside a block: its first query leaves a key unread that the second, decoding, reads. */
static void revival_in_unit(s2_grid *grid, uint64_t *again, const uint64_t *dropped, int64_t q_unit,
                            s2_violation *best)
{
    const int64_t q_tok = q_unit * grid->unit;
    if (grid->unit == 1 || q_tok + 1 >= grid->search->n_tok)
        return;
    for (int64_t word = 0; word < grid->n_words; word++)
        again[word] &= ~dropped[word];
    const int64_t k_unit = first_bit(again, 0, q_unit + 1);
    if (k_unit >= 0)
        s2_violation_keep(best, q_tok + 1, k_unit * grid->unit, q_tok);
}

static s2_status revival(s2_grid *grid, const s2_view *dropped, const s2_view *again, s2_violation *best)
{
    uint64_t *const dead = words_new(grid, 3);
    if (dead == NULL)
        return S2_ENOMEM;
    uint64_t *const row = dead + grid->n_words, *const reader = row + grid->n_words;
    for (int64_t q_unit = 0; q_unit < grid->n_units && !out_of_work(grid, best); q_unit++) {
        S2_TRY(load_rows(grid, again, 1, q_unit, reader));
        for (int64_t word = 0; word < grid->n_words; word++)
            row[word] = reader[word] & dead[word];
        const int64_t k_unit = first_bit(row, 0, q_unit);
        if (k_unit >= 0) {
            int64_t unread = 0;
            S2_TRY(first_unread(grid, dropped, k_unit, row, &unread));
            keep_unit(grid, best, q_unit, k_unit, unread * grid->unit);
            break;
        }
        if (dropped != again) {
            memcpy(row, reader, (size_t)grid->n_words * sizeof *row);
            S2_TRY(load_rows(grid, dropped, 1, q_unit, reader));
            revival_in_unit(grid, row, reader, q_unit, best);
            if (best->found)
                break;
        }
        for (int64_t word = 0; word * 64 <= q_unit; word++) {
            const int64_t rest = q_unit + 1 - word * 64;
            dead[word] |= ~reader[word] & (rest >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << rest) - 1);
        }
    }
    return S2_OK;
}

static s2_status empty_row(s2_grid *grid, const s2_view *view, s2_violation *best)
{
    uint64_t *const row = words_new(grid, 1);
    if (row == NULL)
        return S2_ENOMEM;
    best->k_tok = best->other = -1;
    for (int64_t q_unit = 0; q_unit < grid->n_units && !out_of_work(grid, best); q_unit++) {
        if (reads_itself(grid, view, q_unit))
            continue;
        S2_TRY(load_rows(grid, view, 1, q_unit, row));
        if (best->other < 0 && first_bit(row, 0, q_unit + 1) < 0)
            best->other = q_unit * grid->unit;
        if (first_bit(row, 0, row_end(grid, q_unit)) < 0) {
            best->found = true;
            best->q_tok = q_unit * grid->unit;
            break;
        }
    }
    return S2_OK;
}

/* `once` gets the bits read by exactly one KV head, `twice` those read by more. */
static s2_status count_readers(s2_grid *grid, const s2_view *views, int32_t n, int32_t group, int64_t q_unit,
                               uint64_t *once, uint64_t *twice, uint64_t *row)
{
    memset(once, 0, (size_t)grid->n_words * sizeof *once);
    memset(twice, 0, (size_t)grid->n_words * sizeof *twice);
    for (int32_t v = 0; v < n; v += group) {
        S2_TRY(load_rows(grid, &views[v], group, q_unit, row));
        for (int64_t word = 0; word < grid->n_words; word++) {
            twice[word] |= once[word] & row[word];
            once[word] |= row[word];
        }
    }
    return S2_OK;
}

/* Exactly how many KV heads read one pair. */
static s2_status readers_of(s2_grid *grid, const s2_view *views, int32_t n, int32_t group, int64_t q_unit,
                            int64_t k_unit, uint64_t *row, int32_t *out)
{
    int32_t n_readers = 0;
    for (int32_t v = 0; v < n; v += group) {
        S2_TRY(load_rows(grid, &views[v], group, q_unit, row));
        n_readers += (int32_t)(row[k_unit / 64] >> k_unit % 64 & 1);
    }
    *out = n_readers;
    return S2_OK;
}

/* Nearest unread key of any KV head over all rows, in units and (exact for tokens) in tokens. */
static s2_status shared_window(s2_grid *grid, const s2_view *views, int32_t n, int32_t group, uint64_t *row,
                               int64_t block, int64_t *window_blk, int64_t *window_tok)
{
    for (int64_t q_unit = 0; q_unit < grid->n_units && grid->search->work_left > 0; q_unit++) {
        for (int32_t v = 0; v < n; v += group) {
            S2_TRY(load_rows(grid, &views[v], group, q_unit, row));
            int64_t k_unit = q_unit;
            while (k_unit >= 0 && (row[k_unit / 64] >> k_unit % 64 & 1) != 0)
                k_unit--;
            if (k_unit < 0)
                continue;
            const int64_t blk = q_unit * grid->unit / block - k_unit * grid->unit / block;
            *window_blk = s2_min_i64(blk, *window_blk);
            *window_tok = s2_min_i64((q_unit - k_unit) * grid->unit, *window_tok);
        }
    }
    if (grid->unit > 1)
        *window_tok = 0;
    return S2_OK;
}

static s2_status shards(s2_grid *grid, const s2_view *views, int32_t n, int32_t group, s2_violation *best)
{
    const int64_t block = views[0].pattern->block_tok;
    uint64_t *const once = words_new(grid, 3);
    if (once == NULL)
        return S2_ENOMEM;
    uint64_t *const twice = once + grid->n_words, *const row = twice + grid->n_words;
    int64_t window_blk = S2_OPEN, window_tok = S2_OPEN;
    S2_TRY(shared_window(grid, views, n, group, row, block, &window_blk, &window_tok));
    if (out_of_work(grid, best) || window_blk == S2_OPEN)
        return S2_OK;
    for (int64_t q_unit = 0; q_unit < grid->n_units && !out_of_work(grid, best); q_unit++) {
        S2_TRY(count_readers(grid, views, n, group, q_unit, once, twice, row));
        for (int64_t k_unit = 0; k_unit <= q_unit; k_unit++) {
            const int64_t q_tok = q_unit * grid->unit, k_tok = k_unit * grid->unit;
            if (q_tok / block - k_tok / block < window_blk || q_tok - k_tok < window_tok)
                break;
            if (((once[k_unit / 64] & ~twice[k_unit / 64]) >> k_unit % 64 & 1) == 0) {
                int32_t n_readers;
                S2_TRY(readers_of(grid, views, n, group, q_unit, k_unit, row, &n_readers));
                keep_unit(grid, best, q_unit, k_unit, n_readers);
                return S2_OK;
            }
        }
    }
    return S2_OK;
}

/* One layer: afterwards each query holds what it held and what every key that it reads held before. */
static s2_status flow_layer(s2_grid *grid, const s2_view *views, int32_t n_heads, const uint64_t *before,
                            uint64_t *after, uint64_t *row)
{
    for (int64_t q_unit = 0; q_unit < grid->n_units && grid->search->work_left > 0; q_unit++) {
        uint64_t *const held = after + q_unit * grid->n_words;
        memcpy(held, before + q_unit * grid->n_words, (size_t)grid->n_words * sizeof *held);
        S2_TRY(load_rows(grid, views, n_heads, q_unit, row));
        for (int64_t word = 0; word < grid->n_words; word++)
            held[word] |= row[word];
        for (int64_t k_unit = 0; k_unit < row_end(grid, q_unit); k_unit++) {
            if ((row[k_unit / 64] >> k_unit % 64 & 1) == 0)
                continue;
            const uint64_t *const from = before + k_unit * grid->n_words;
            for (int64_t word = 0; word < grid->n_words; word++)
                held[word] |= from[word];
            grid->search->work_left -= grid->n_words / 4 + 1;
        }
    }
    return S2_OK;
}

/* A block that does not reach itself: its first two tokens are the smallest pair, if the context has both. */
static void keep_neighbours(const s2_grid *grid, s2_violation *best, int64_t first_tok)
{
    if (first_tok + 1 < grid->search->n_tok)
        s2_violation_keep(best, grid->causal ? first_tok + 1 : first_tok,
                          grid->causal ? first_tok : first_tok + 1, -1);
}

static s2_status unreached(s2_grid *grid, const s2_view *views, int32_t n_layers, int32_t n_heads,
                           s2_violation *best)
{
    if (grid->n_units > MOST_FLOW_UNITS) {
        best->limited = true;
        return S2_OK;
    }
    uint64_t *before = words_new(grid, grid->n_units), *after = words_new(grid, grid->n_units);
    uint64_t *const row = words_new(grid, 1);
    if (before == NULL || after == NULL || row == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < n_layers && !out_of_work(grid, best); layer++) {
        S2_TRY(flow_layer(grid, views + (int64_t)layer * n_heads, n_heads, before, after, row));
        uint64_t *const swap = before;
        before = after;
        after = swap;
    }
    for (int64_t q_unit = 0; q_unit < grid->n_units && !out_of_work(grid, best); q_unit++) {
        uint64_t *const held = before + q_unit * grid->n_words;
        /* a token keeps itself; a block holds other tokens too, which only a read brings */
        if (grid->unit == 1)
            set_bits(held, q_unit, q_unit + 1);
        const int64_t k_unit = first_bit(held, ~UINT64_C(0), row_end(grid, q_unit));
        if (k_unit >= 0 && k_unit != q_unit)
            keep_unit(grid, best, q_unit, k_unit, -1);
        if (k_unit == q_unit)
            keep_neighbours(grid, best, q_unit * grid->unit);
        if (best->found && grid->causal)
            break;
    }
    return S2_OK;
}

/* Open a grid, run one question on it, close it. Nothing is said of a row that was not read whole. */
#define ON_GRID(search, views, n, call)                                                                      \
    do {                                                                                                     \
        const s2_arena_mark_t grid_mark_ = s2_arena_mark((search)->scratch);                                 \
        s2_grid grid;                                                                                        \
        s2_violation best = {0};                                                                             \
        s2_status grid_status_ = grid_init((search), (views), (n), &grid);                                   \
        if (grid_status_ == S2_OK)                                                                           \
            grid_status_ = (call);                                                                           \
        best.limited |= grid_status_ == S2_ELIMIT;                                                           \
        grid_status_ = grid_status_ == S2_ELIMIT ? S2_OK : grid_status_;                                     \
        s2_free(grid.runs);                                                                                  \
        s2_arena_rewind((search)->scratch, grid_mark_);                                                      \
        if (grid_status_ == S2_OK)                                                                           \
            *out = best;                                                                                     \
        return grid_status_;                                                                                 \
    } while (0)

s2_status s2_bits_hole(s2_column_search *search, const s2_view *views, int32_t n, s2_violation *out)
{
    ON_GRID(search, views, n, first_odd(&grid, views, n, NULL, &best));
}

s2_status s2_bits_revival(s2_column_search *search, const s2_view *dropped, const s2_view *again,
                          s2_violation *out)
{
    const s2_view both[2] = {*dropped, *again};
    ON_GRID(search, both, 2, revival(&grid, dropped, again, &best));
}

s2_status s2_bits_difference(s2_column_search *search, const s2_view *a, const s2_view *b, s2_violation *out)
{
    const s2_view both[2] = {*a, *b};
    ON_GRID(search, both, 2, first_odd(&grid, a, 1, b, &best));
}

s2_status s2_bits_empty_row(s2_column_search *search, const s2_view *view, s2_violation *out)
{
    ON_GRID(search, view, 1, empty_row(&grid, view, &best));
}

s2_status s2_bits_shards(s2_column_search *search, const s2_view *views, int32_t n, int32_t group,
                         s2_violation *out)
{
    ON_GRID(search, views, n, shards(&grid, views, n, group, &best));
}

s2_status s2_bits_unreached(s2_column_search *search, const s2_view *views, int32_t n_layers, int32_t n_heads,
                            s2_violation *out)
{
    ON_GRID(search, views, n_layers * n_heads, unreached(&grid, views, n_layers, n_heads, &best));
}
