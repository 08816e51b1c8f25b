/*
 * A warp for each tile. The key blocks of all of the tile's lists are marked in shared memory, a byte each
 * with the slabs of rows that read it: duplicates fall together, and the blocks come out in ascending
 * order. Blocks that all rows read whole become whole steps; the others, and what is left of an uneven
 * number, become half steps. Two heads with one list share a tile of half as many positions; their half
 * steps are one and the same.
 */
#include "kernels/cuda/lists.cuh"

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/cuda/bwd_host.cuh"
#include "plan/steps.h"

namespace
{

enum { SLAB_TOK = 16, ALL_SLABS = 0xFF, WARPS = 4, LIMIT_MAP_BYTES = 48 * 1024 };

struct Params {
    s2_step_item *items;
    s2_step_word *words;
    int32_t *list;
    s2_listed listed;
    int32_t n_items;
    int32_t tile_tok;
    int32_t sharing;     /* query heads of a list */
    int32_t shares_tile; /* two heads do */
    int32_t cut;         /* blocks of the plan in one of the lists */
    int32_t shift;       /* log2 of a block of the plan */
    int32_t half;        /* blocks of the plan in a half step */
    int32_t causal;
    int32_t list_cap, word_cap; /* of an item */
    int32_t map_words;          /* 32-bit words of a warp's marks */
};

/* What a warp knows of its tile. Positions are of the sequence. */
struct Tile {
    int seq, head, pos, k_tok, q_off;
    int first, last; /* rows that exist */
    int n_blk;       /* blocks of the plan that any of them may read */
    uint32_t real;   /* slabs with such rows */
};

/* Slabs [from, to) of a tile. */
__device__ uint32_t slabs_between(int from, int to)
{
    return ((1u << to) - 1) & ~((1u << from) - 1);
}

__device__ Tile tile_of(const Params &p, const s2_step_item *item)
{
    Tile tile = {item->seq, item->head, item->pos, item->k_tok, item->q_off, 0, 0, 0, 0};
    tile.first = max(tile.pos, tile.q_off);
    tile.last = min(tile.pos + p.tile_tok, tile.k_tok) - 1;
    tile.n_blk = ((p.causal ? tile.last : tile.k_tok - 1) >> p.shift) + 1;
    tile.real = slabs_between((tile.first - tile.pos) / SLAB_TOK, (tile.last - tile.pos) / SLAB_TOK + 1);
    return tile;
}

/* Marks what one list reads. Numbers that name no block are passed over. */
__device__ void mark_list(const Params &p, const Tile &tile, int q_blk, uint32_t slabs, uint32_t *map,
                          int lane)
{
    const s2_listed &listed = p.listed;
    const int nth = q_blk - tile.q_off / listed.q_block_tok;
    if (nth >= listed.q_blocks)
        return;
    const int64_t at = ((int64_t)tile.seq * listed.n_heads + tile.head / p.sharing) * listed.q_blocks + nth;
    const int n = min(max(__ldg(listed.counts + at), 0), listed.most);
    for (int e = lane; e < n; e += 32) {
        const int64_t blk = (int64_t)__ldg(listed.indices + at * listed.most + e) * p.cut;
        for (int64_t own = blk; blk >= 0 && own < min(blk + p.cut, (int64_t)tile.n_blk); ++own) {
            const int after = max(((int)own << p.shift) - tile.pos, 0) / SLAB_TOK;
            const uint32_t readers = p.causal ? slabs & ALL_SLABS << after : slabs;
            if (readers != 0)
                atomicOr(map + own / 4, readers << own % 4 * 8);
        }
    }
}

__device__ void mark(const Params &p, const Tile &tile, uint32_t *map, int lane)
{
    const int q_tok = p.listed.q_block_tok;
    for (int word = lane; word < (tile.n_blk + 3) / 4; word += 32)
        map[word] = 0;
    __syncwarp();
    for (int q_blk = tile.first / q_tok; q_blk <= tile.last / q_tok; ++q_blk) {
        const int from = max(q_blk * q_tok - tile.pos, 0),
                  to = min((q_blk + 1) * q_tok - tile.pos, p.tile_tok);
        mark_list(p, tile, q_blk, tile.real & slabs_between(from / SLAB_TOK, to / SLAB_TOK), map, lane);
    }
    __syncwarp();
}

/* How one block is read: by whom, and whether keys have to be compared with positions or the end. */
struct Read {
    uint32_t slabs;
    bool edge, whole;
};
__device__ Read read_of(const Params &p, const Tile &tile, const uint32_t *map, int blk)
{
    Read read = {};
    if (blk >= tile.n_blk)
        return read;
    const int end = (blk + 1) << p.shift;
    read.slabs = map[blk / 4] >> blk % 4 * 8 & ALL_SLABS;
    read.edge = end > tile.k_tok || (p.causal && end - 1 > tile.first);
    read.whole = read.slabs == tile.real && !read.edge;
    return read;
}

/* The slabs of a group of warps; where heads share a tile, the second has no half steps of its own. */
__device__ uint32_t slabs_of(const Params &p, int group)
{
    return p.shares_tile ? (group == 0 ? (uint32_t)ALL_SLABS : 0u) : 0xFu << 4 * group;
}

/* Where the blocks of a tile go. All groups of warps read what is left over from whole steps. */
struct Shares {
    int n_whole, n_own[2]; /* blocks */
    int n_left;            /* the last of the whole ones, which are read in half steps */
    int n_half;            /* steps */
};
__device__ Shares shares_of(const Params &p, const Tile &tile, const uint32_t *map, int lane)
{
    Shares shares = {};
    for (int blk = lane; blk - lane < tile.n_blk; blk += 32) {
        const Read read = read_of(p, tile, map, blk);
        shares.n_whole += __popc(__ballot_sync(0xffffffffu, read.whole));
        shares.n_own[0] += __popc(__ballot_sync(0xffffffffu, !read.whole && (read.slabs & slabs_of(p, 0))));
        shares.n_own[1] += __popc(__ballot_sync(0xffffffffu, !read.whole && (read.slabs & slabs_of(p, 1))));
    }
    const int own = max(shares.n_own[0], shares.n_own[1]);
    shares.n_left = shares.n_whole % (2 * p.half);
    if (own + shares.n_left == 0 && shares.n_whole > 0)
        shares.n_left = 2 * p.half;
    shares.n_half = max(1, (own + shares.n_left + p.half - 1) / p.half);
    return shares;
}

/* The nth block of a group's half steps. */
__device__ void put_word(const Params &p, int64_t begin, int group, int nth, uint32_t word)
{
    p.words[begin + nth / p.half * 2 * p.half + group * p.half + nth % p.half] = {word, -1};
}

__device__ void put_blocks(const Params &p, const Tile &tile, const uint32_t *map, int at,
                           const Shares &shares, int lane)
{
    const uint32_t before = (1u << lane) - 1;
    const int n_kept = shares.n_whole - shares.n_left;
    const int64_t begin = (int64_t)at * p.word_cap;
    int n_whole = 0, n_own[2] = {};
    for (int blk = lane; blk - lane < tile.n_blk; blk += 32) {
        const Read read = read_of(p, tile, map, blk);
        const uint32_t whole = __ballot_sync(0xffffffffu, read.whole);
        const int nth = n_whole + __popc(whole & before);
        if (read.whole && nth < n_kept)
            p.list[(int64_t)at * p.list_cap + nth] = blk;
        const uint32_t word = (uint32_t)blk << S2_STEP_BLOCK_SHIFT | (read.edge ? S2_STEP_EDGE : 0u);
        for (int group = 0; group < 2; ++group) {
            const uint32_t own = read.slabs & slabs_of(p, group);
            const uint32_t owners = __ballot_sync(0xffffffffu, !read.whole && own != 0);
            if (!read.whole && own != 0)
                put_word(p, begin, group, n_own[group] + __popc(owners & before), word | own);
            if (read.whole && nth >= n_kept)
                put_word(p, begin, group, shares.n_own[group] + nth - n_kept, word | ALL_SLABS);
            n_own[group] += __popc(owners);
        }
        n_whole += __popc(whole);
    }
    for (int group = 0; group < 2; ++group)
        for (int nth = shares.n_own[group] + shares.n_left + lane; nth < shares.n_half * p.half; nth += 32)
            put_word(p, begin, group, nth, (uint32_t)S2_STEP_NOWHERE << S2_STEP_BLOCK_SHIFT);
}

__global__ void plan_lists(const __grid_constant__ Params p)
{
    extern __shared__ uint32_t maps[];
    const int warp = (int)threadIdx.x / 32, lane = threadIdx.x % 32,
              at = (int)(blockIdx.x * (blockDim.x / 32)) + warp;
    if (at >= p.n_items)
        return;
    uint32_t *const map = maps + warp * p.map_words;
    s2_step_item *const item = p.items + at;
    const Tile tile = tile_of(p, item);
    mark(p, tile, map, lane);
    const Shares shares = shares_of(p, tile, map, lane);
    put_blocks(p, tile, map, at, shares, lane);
    if (lane != 0)
        return;
    item->n_list = shares.n_whole - shares.n_left;
    item->n_whole = item->n_list / (2 * p.half);
    item->n_half = shares.n_half;
    item->half_begin = at * p.word_cap;
    item->list_begin = at * p.list_cap;
}

/* ------------------------------------------------------------------ the host's side */

int64_t longest_blocks(const s2_plan *plan)
{
    int64_t k_tok = 1;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        k_tok = s2_max_i64(k_tok, plan->seqs[seq].k_tok);
    return s2_ceil_div(k_tok, plan->blk_tok);
}

int64_t list_cap_of(const s2_attn_problem *problem)
{
    const s2_listed *const listed = problem->listed;
    const int64_t lists = s2_ceil_div(problem->plan->options.tile_tok, listed->q_block_tok);
    const int64_t entries = lists * listed->most * (listed->k_block_tok / problem->plan->blk_tok);
    return s2_min_i64(longest_blocks(problem->plan), entries);
}

/* Where one list has all rows of a tile, only blocks at the diagonal or the end are compared. */
int64_t word_cap_of(const s2_attn_problem *problem, int32_t half)
{
    const s2_plan *const plan = problem->plan;
    const int64_t all = list_cap_of(problem), diagonal = plan->options.tile_tok / plan->blk_tok + 1;
    const int64_t own =
        problem->listed->q_block_tok >= plan->options.tile_tok ? s2_min_i64(all, diagonal) : all;
    return 2 * s2_round_up(own + 2 * half, half);
}

/* The tiles of a plan; how they are read is still to be found. */
s2_status upload_tiles(s2_device *device, const s2_attn_problem *problem, s2_sm90_rows_fn rows_of, void **out,
                       s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    s2_step_item *const items = (s2_step_item *)s2_calloc((size_t)plan->n_items + 1, sizeof *items);
    if (items == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < plan->n_items; at++) {
        const s2_plan_item *const from = &plan->items[at];
        const s2_plan_seq lens = plan->seqs[from->seq];
        items[at].pos = (int32_t)s2_plan_tile_begin(plan, from->seq, from->tile);
        items[at].head = from->head;
        items[at].seq = from->seq;
        items[at].k_tok = lens.k_tok;
        items[at].q_off = lens.k_tok - lens.q_tok;
        items[at].rows = rows_of(problem, at);
        items[at].comb_period = 1;
    }
    const s2_status status =
        s2_cuda_upload(device, items, ((size_t)plan->n_items + 1) * sizeof *items, out, why);
    s2_free(items);
    return status;
}

Params params_of(const s2_attn_problem *problem, int32_t half_tok, const s2_sm90_steps *steps)
{
    const s2_plan *const plan = problem->plan;
    Params params = {};
    params.items = (s2_step_item *)steps->items;
    params.words = (s2_step_word *)steps->words;
    params.list = (int32_t *)steps->list;
    params.listed = *problem->listed;
    params.n_items = plan->n_items;
    params.tile_tok = plan->options.tile_tok;
    params.shares_tile = plan->pack_heads == 2;
    params.sharing = problem->n_heads / problem->listed->n_heads;
    params.cut = problem->listed->k_block_tok / plan->blk_tok;
    params.shift = s2_bwd_log2(plan->blk_tok);
    params.half = half_tok / plan->blk_tok;
    params.causal = plan->pattern->causal;
    params.list_cap = (int32_t)list_cap_of(problem);
    params.word_cap = (int32_t)word_cap_of(problem, params.half);
    params.map_words = (int32_t)s2_ceil_div(longest_blocks(plan), 4);
    return params;
}

} // namespace

s2_status s2_cuda_lists_support(const s2_attn_problem *problem, int32_t half_tok, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const int64_t most = s2_max_i64(list_cap_of(problem), word_cap_of(problem, half_tok / plan->blk_tok));
    if (plan->pack_heads != 1 && problem->listed->n_heads != problem->n_kv_heads)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "needs a plan that packs no heads where each has lists of its own");
    if (longest_blocks(plan) > LIMIT_MAP_BYTES)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "plans lists over at most %d blocks of %d tokens",
                           LIMIT_MAP_BYTES, plan->blk_tok);
    if ((int64_t)plan->n_items * most > INT32_MAX)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the lists have room for more than 2^31 blocks");
    return S2_OK;
}

s2_status s2_cuda_lists_open(s2_device *device, const s2_attn_problem *problem, int32_t half_tok,
                             s2_sm90_rows_fn rows_of, s2_sm90_steps *out, s2_diag *why)
{
    const int64_t n = problem->plan->n_items;
    const Params params = params_of(problem, half_tok, out);
    S2_TRY(upload_tiles(device, problem, rows_of, &out->items, why));
    S2_TRY(s2_bwd_zeroed(device, n * params.list_cap * (int64_t)sizeof(int32_t), &out->list, why));
    return s2_bwd_zeroed(device, n * params.word_cap * (int64_t)sizeof(s2_step_word), &out->words, why);
}

s2_status s2_cuda_lists_plan(s2_device *device, const s2_attn_problem *problem, int32_t half_tok,
                             const s2_sm90_steps *steps, s2_diag *why)
{
    const Params params = params_of(problem, half_tok, steps);
    const int32_t map_bytes = params.map_words * 4,
                  warps = s2_max_i32(1, s2_min_i32(WARPS, LIMIT_MAP_BYTES / map_bytes));
    const unsigned blocks = (unsigned)s2_ceil_div(params.n_items, warps);
    plan_lists<<<blocks, 32 * warps, (size_t)(warps * map_bytes), s2_cuda_stream(device)>>>(params);
    return s2_cuda_try(cudaGetLastError(), why);
}
