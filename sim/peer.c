#include "sim/peer.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/work.h"
#include "pattern/blocks.h"
#include "sim/schedule.h"

enum { CODE_PEER = 706, ELEM_BYTES = 2 };

const char *s2_peer_group_word(s2_peer_group group)
{
    static const char *const words[S2_N_PEER_GROUPS] = {"any", "one", "many"};
    return words[group];
}

const char *s2_peer_caches_word(s2_peer_caches caches)
{
    static const char *const words[S2_N_PEER_CACHES] = {"unsaid", "warm", "cold"};
    return words[caches];
}

/* ---- what a launch demands */

/* Consecutive tiles of equal cost are one entry. */
typedef struct s2_tiling {
    s2_peer_tiles *tiles;
    int32_t n;
    int64_t cap;
    int64_t n_lists; /* equal ones, of dense launches; 0: the tiles are in no order */
    double most_steps;
} s2_tiling;

static void add_tiles(s2_tiling *tiling, double steps, double rows, double partial, int64_t n)
{
    s2_peer_tiles *const last = tiling->n > 0 ? &tiling->tiles[tiling->n - 1] : NULL;
    tiling->most_steps = fmax(tiling->most_steps, steps);
    if (last != NULL && last->steps == steps && last->rows == rows && last->partial == partial)
        last->n += n;
    else if (n > 0 && tiling->n < tiling->cap)
        tiling->tiles[tiling->n++] = (s2_peer_tiles){steps, rows, partial, n};
}

static s2_status tiling_new(s2_arena *arena, int64_t cap, s2_tiling *out)
{
    *out = (s2_tiling){.tiles = S2_NEW(arena, s2_peer_tiles, cap + 1), .cap = cap};
    return out->tiles == NULL ? S2_ENOMEM : S2_OK;
}

static bool is_chunk(const s2_peer_launch *launch)
{
    return launch->pass != S2_PASS_DECODE && launch->q_tok < launch->len_tok;
}

/* What a switch for causality does not say: a pattern, or fewer queries than keys. */
static bool is_masked(const s2_peer_launch *launch)
{
    return !launch->is_dense || is_chunk(launch);
}

static bool skips_later(const s2_peer_launch *launch, const s2_peer_cut *cut)
{
    return cut->skips != S2_SKIPS_NONE && !(cut->skips == S2_SKIPS_SWITCHED && is_masked(launch));
}

/* Of the steps of a dense tile: those with a key that its first row may not read; all, where the queries end. */
static int64_t dense_partial(const s2_peer_launch *launch, const s2_peer_cut *cut, int64_t steps,
                             int64_t first_token, int64_t n_rows)
{
    const int64_t all = launch->classes->pattern->causal ? launch->len_tok - launch->q_tok + first_token + 1
                                                         : launch->len_tok;
    if (!cut->asks)
        return 0;
    return n_rows < cut->tile_rows ? steps : steps - s2_min_i64(steps, all / cut->key_tok);
}

/* Rows of n_heads heads, token after token, in tiles; the last tiles are the longest. */
static s2_status tile_dense(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                            int64_t n_heads, int64_t n_lists, s2_tiling *out)
{
    const int64_t rows = n_heads * launch->q_tok, n = s2_ceil_div(rows, cut->tile_rows);
    if (!s2_work_spend(launch->classes->work_left, n))
        return S2_ELIMIT;
    S2_TRY(tiling_new(arena, s2_ceil_div(launch->len_tok, cut->key_tok) + 3, out));
    for (int64_t tile = n - 1; tile >= 0; tile--) {
        const int64_t begin = tile * cut->tile_rows, end = s2_min_i64(begin + cut->tile_rows, rows);
        const int64_t token = (end - 1) / n_heads;
        const int64_t keys = launch->classes->pattern->causal && skips_later(launch, cut)
                                 ? launch->len_tok - launch->q_tok + token + 1
                                 : launch->len_tok;
        const int64_t steps = s2_ceil_div(keys, cut->key_tok);
        add_tiles(out, (double)steps, (double)(end - begin) / cut->tile_rows,
                  (double)dense_partial(launch, cut, steps, begin / n_heads, end - begin), n_lists);
    }
    out->n_lists = n_lists;
    return S2_OK;
}

static bool group_alike(const int32_t *head_class, int32_t n_group)
{
    for (int32_t h = 1; h < n_group; h++)
        if (head_class[h] != head_class[0])
            return false;
    return true;
}

static bool packs(const s2_peer_launch *launch, const s2_peer_cut *cut)
{
    return cut->packing == S2_PACKS_ALWAYS || (cut->packing == S2_PACKS_ONE_TOKEN && launch->q_tok == 1);
}

/* The partial blocks of the rows from first_tok to end_tok, a mean over them. */
static double partial_of(const s2_blocks *blocks, bool causal, int64_t n_tok, int64_t first_tok,
                         int64_t end_tok)
{
    const int64_t first = first_tok / blocks->block_tok;
    const int64_t end = s2_ceil_div(s2_min_i64(end_tok, n_tok), blocks->block_tok);
    int64_t n = 0;
    for (int64_t row = first; row < end; row++)
        for (int64_t nth = blocks->row_begin[row]; nth < blocks->row_begin[row + 1]; nth++)
            n += blocks->full[nth] == 0 || end_tok > n_tok || (causal && blocks->k_blk[nth] == row);
    return end > first ? (double)n / (double)(end - first) : 0;
}

/* The tiles of one head, or of all heads of a group that read alike, in the order of their queries. */
typedef struct s2_head_tiles {
    int32_t n;
    const int32_t *steps;
    double *partial;
    /* share of a tile: below 1 where whole tokens leave rows empty, above 1 where one token fills several */
    double filled;
} s2_head_tiles;

static int32_t tile_tokens(const s2_peer_cut *cut, int32_t n_heads)
{
    return cut->tile_rows > n_heads ? cut->tile_rows / n_heads : 1;
}

static s2_status cut_head(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                          int32_t class_at, int32_t n_heads, s2_head_tiles *out)
{
    const s2_reads *const reads = &launch->classes->reads[class_at];
    const int32_t q_tok = tile_tokens(cut, n_heads);
    const s2_tile_shape shape = {q_tok, cut->key_tok, cut->key_tok};
    int64_t *const work_left = launch->classes->work_left;
    s2_head_work work;
    s2_blocks blocks;
    S2_TRY(s2_head_work_count(arena, reads, 0, launch->len_tok, shape, work_left, &work));
    *out = (s2_head_tiles){work.n_q_tiles, work.visits, S2_NEW(arena, double, work.n_q_tiles),
                           (double)q_tok * n_heads / cut->tile_rows};
    if (out->partial == NULL)
        return S2_ENOMEM;
    if (!cut->asks)
        return S2_OK;
    S2_TRY(s2_blocks_build(arena, &reads->view, launch->len_tok, cut->key_tok, work_left, &blocks));
    for (int64_t tile = 0; tile < out->n; tile++)
        out->partial[tile] = partial_of(&blocks, reads->view.pattern->causal, launch->len_tok, tile * q_tok,
                                        (tile + 1) * q_tok);
    return S2_OK;
}

/* Tiles of a number of steps, and how many of all their steps are partial. */
typedef struct s2_alike {
    double n, partial;
} s2_alike;

static void add_alike(const s2_head_tiles *head, s2_alike *alike)
{
    for (int32_t tile = 0; tile < head->n; tile++) {
        alike[head->steps[tile]].n += head->filled;
        alike[head->steps[tile]].partial += head->filled * head->partial[tile];
    }
}

/*
 * Each head, the last first: either counted by steps, or where alike is NULL added tile by tile, the last first.
 * Heads of one class are cut once.
 */
static s2_status cut_heads(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                           s2_alike *alike, s2_tiling *out)
{
    const int32_t n_group = s2_layer_group(launch->layer, launch->classes->pattern->n_heads);
    s2_head_tiles *const known = S2_NEW(arena, s2_head_tiles, 2 * (int64_t)launch->classes->n_reads);
    if (known == NULL)
        return S2_ENOMEM;
    for (int32_t kv = launch->layer->n_kv_heads - 1; kv >= 0; kv--) {
        const int32_t *const group = launch->layer->head_class + (int64_t)kv * n_group;
        const bool packed = packs(launch, cut) && group_alike(group, n_group);
        for (int32_t h = packed ? 0 : n_group - 1; h >= 0; h--) {
            s2_head_tiles *const head = &known[2 * group[h] + packed];
            if (head->steps == NULL)
                S2_TRY(cut_head(arena, launch, cut, group[h], packed ? n_group : 1, head));
            if (alike != NULL)
                add_alike(head, alike);
            for (int32_t tile = head->n - 1; tile >= 0 && alike == NULL; tile--)
                add_tiles(out, head->steps[tile], fmin(head->filled, 1), head->partial[tile],
                          (int64_t)ceil(head->filled));
        }
    }
    return S2_OK;
}

static s2_status tile_sparse(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                             s2_tiling *out)
{
    const int64_t n_blk = s2_ceil_div(launch->len_tok, cut->key_tok);
    const int64_t n_heads = launch->classes->pattern->n_heads, n_kv = launch->layer->n_kv_heads;
    if (cut->order == S2_HEAD_BY_HEAD) {
        const int64_t apart = n_heads * s2_ceil_div(launch->len_tok, cut->tile_rows);
        const int64_t together =
            n_kv * s2_ceil_div(launch->len_tok, tile_tokens(cut, (int32_t)(n_heads / n_kv)));
        S2_TRY(tiling_new(arena, s2_max_i64(apart, together), out));
        out->n_lists = launch->batch;
        S2_TRY(cut_heads(arena, launch, cut, NULL, out));
        for (int32_t t = 0; t < out->n; t++)
            out->tiles[t].n *= launch->batch;
        return S2_OK;
    }
    s2_alike *const alike = S2_NEW(arena, s2_alike, n_blk + 2);
    if (alike == NULL)
        return S2_ENOMEM;
    S2_TRY(cut_heads(arena, launch, cut, alike, NULL));
    S2_TRY(tiling_new(arena, n_blk + 2, out));
    for (int64_t steps = n_blk; steps >= 0; steps--)
        if (alike[steps].n > 0)
            add_tiles(out, (double)steps, 1, alike[steps].partial / alike[steps].n,
                      (int64_t)ceil(alike[steps].n - 1e-9) * launch->batch);
    return S2_OK;
}

/* One token: the heads of a group read together, in one list. */
static s2_status tile_step(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                           s2_tiling *out, int64_t *keys)
{
    const int32_t n_group = s2_layer_group(launch->layer, launch->classes->pattern->n_heads);
    const int32_t rows = packs(launch, cut) ? n_group : 1;
    S2_TRY(tiling_new(arena, launch->layer->n_kv_heads, out));
    *keys = 0;
    for (int32_t kv = 0; kv < launch->layer->n_kv_heads; kv++) {
        s2_step_work step;
        S2_TRY(s2_step_work_count(launch->classes, launch->layer->head_class + (int64_t)kv * n_group, n_group,
                                  launch->len_tok - 1, launch->len_tok, cut->key_tok, &step));
        const bool all = cut->skips != S2_SKIPS_UNREAD;
        *keys += all ? launch->len_tok : step.keys;
        add_tiles(out, all ? (double)s2_ceil_div(launch->len_tok, cut->key_tok) : (double)step.tiles,
                  fmin(1, (double)rows / cut->tile_rows), 0,
                  launch->batch * (n_group / rows) * s2_ceil_div(rows, cut->tile_rows));
    }
    return S2_OK;
}

static s2_status tile_launch(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                             s2_tiling *out, int64_t *keys)
{
    const int64_t n_kv = launch->layer->n_kv_heads;
    const int64_t n_group = s2_layer_group(launch->layer, launch->classes->pattern->n_heads);
    *keys = n_kv * launch->len_tok;
    if (launch->pass == S2_PASS_DECODE)
        return tile_step(arena, launch, cut, out, keys);
    if (!launch->is_dense && cut->skips == S2_SKIPS_UNREAD)
        return tile_sparse(arena, launch, cut, out);
    const bool packed = packs(launch, cut);
    return tile_dense(arena, launch, cut, packed ? n_group : 1, launch->batch * n_kv * (packed ? 1 : n_group),
                      out);
}

/*
 * In how many parts a kernel that splits cuts the keys of each tile: the fewest whose waves over the SMs are
 * nearly as full as the fullest, of numbers that make parts shorter (FlashAttention's rule).
 */
static int32_t n_parts_of(const s2_tiling *tiling, const s2_peer_cut *cut, int32_t n_workers)
{
    enum { MOST = 128, SHORT = 4 };
    double best = 0, full[MOST + 1] = {0}, n_tiles = 0;
    for (int32_t t = 0; t < tiling->n; t++)
        n_tiles += (double)tiling->tiles[t].n;
    if (!cut->splits || n_tiles >= 0.8 * n_workers || tiling->most_steps <= SHORT)
        return 1;
    const int32_t most = (int32_t)fmin(MOST, fmin(n_workers, tiling->most_steps));
    for (int32_t n = 1; n <= most; n++) {
        if (n > 1 && ceil(tiling->most_steps / n) == ceil(tiling->most_steps / (n - 1)))
            continue;
        const double waves = n_tiles * n / n_workers;
        full[n] = waves / ceil(waves);
        best = fmax(best, full[n]);
    }
    int32_t n = 1;
    while (n < most && full[n] < 0.85 * best)
        n++;
    return n;
}

static void split(s2_tiling *tiling, int32_t n_parts)
{
    for (int32_t t = 0; t < tiling->n; t++) {
        tiling->tiles[t].steps = ceil(tiling->tiles[t].steps / n_parts);
        tiling->tiles[t].partial /= n_parts;
        tiling->tiles[t].n *= n_parts;
    }
}

/* The least time of any kernel. Pairs are exact for dense heads; for others they count as 0. */
static double floor_of(const s2_peer_launch *launch, const s2_gpu *gpu, double bytes)
{
    const s2_pattern *const pattern = launch->classes->pattern;
    const double len = (double)launch->len_tok, q = (double)launch->q_tok;
    const double pairs = !launch->is_dense ? 0 : pattern->causal ? q * (len - q) + q * (q + 1) / 2 : q * len;
    const double flop = 4.0 * launch->layer->head_dim * pairs * pattern->n_heads * (double)launch->batch;
    return fmax(flop * (launch->pass == S2_PASS_BACKWARD ? 2.5 : 1) / (gpu->bf16_tflops * 1e6),
                bytes / (gpu->hbm_gb_s * 1e3));
}

/* What a mask_mod computes for a pair, beside causality: comparisons, quotients and remainders; a mean over heads. */
static double rules_of(const s2_peer_launch *launch)
{
    const int32_t n_heads = launch->classes->pattern->n_heads;
    double n = 0;
    for (int32_t head = 0; head < n_heads && !launch->is_dense; head++) {
        const s2_view *const view = &launch->classes->reads[launch->layer->head_class[head]].view;
        for (int32_t a = 0; a < view->n_atoms; a++) {
            const s2_atom *const atom = &view->atoms[a];
            n += atom->kind != S2_ATOM_PLAIN ? 3 : s2_range_is_whole(atom->distance_blk) ? 1 : 2;
        }
    }
    return n / n_heads;
}

/* No row of one was judged. */
static void allow_for_chunk(s2_error *error)
{
    error->pct = s2_max_f64(error->pct, S2_GUESS_PCT);
    error->allowed = true;
    error->causes |= S2_CAUSE_CHUNK;
}

s2_status s2_peer_work_of(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                          const s2_gpu *gpu, s2_peer_work *out)
{
    const s2_layer_class *const layer = launch->layer;
    const int32_t n_group = s2_layer_group(layer, launch->classes->pattern->n_heads);
    const int32_t n_workers = s2_min_i32((int32_t)gpu->sms * cut->resident, S2_LIMIT_WORKERS);
    const double batch = (double)launch->batch, row = layer->head_dim * (double)ELEM_BYTES;
    const double q_rows = batch * (double)launch->q_tok * launch->classes->pattern->n_heads;
    int64_t keys;
    s2_tiling tiling;
    S2_TRY(tile_launch(arena, launch, cut, &tiling, &keys));
    const int32_t n_parts = n_parts_of(&tiling, cut, n_workers);
    split(&tiling, n_parts);
    const double passes = launch->pass == S2_PASS_BACKWARD ? 2 : 1;
    const double bytes = passes * (batch * (double)keys * 2 + q_rows * 2) * row;
    *out = (s2_peer_work){
        .n_tiles = tiling.n,
        .tiles = tiling.tiles,
        .n_lists = cut->order == S2_HEAD_BY_HEAD && n_parts == 1 ? tiling.n_lists : 0,
        .n_workers = n_workers,
        .n_parts = n_parts,
        .ragged = launch->len_tok % cut->key_tok != 0,
        .rules = rules_of(launch),
        .copied = launch->q_tok == 1 && packs(launch, cut) && n_group > 1 && launch->batch > 1 &&
                  layer->n_kv_heads > 1,
        .masked = is_masked(launch),
        .read_bytes = bytes,
        .write_bytes = batch * (double)launch->q_tok * layer->n_kv_heads * 4 * row,
        .part_bytes = q_rows * n_parts * layer->head_dim * 2 * (double)sizeof(float),
        .floor_us = floor_of(launch, gpu, bytes),
        .extents = {.list_rows = n_group,
                    .q_tok = is_chunk(launch) ? (int32_t)launch->q_tok : 0,
                    .k_tok = (int32_t)launch->len_tok,
                    .n_lists = launch->batch * layer->n_kv_heads,
                    .head_dim = layer->head_dim,
                    .whole_blocks = true},
    };
    return S2_OK;
}

/* ---- how long it takes */

static const double tick_us = 1e-4;

static int64_t ticks_of(const double *constant, const s2_peer_work *work, const s2_peer_tiles *tile)
{
    const double step_us = constant[S2_PEER_step_us] * (work->masked ? constant[S2_PEER_mask_times] : 1);
    const double rules_us =
        constant[S2_PEER_rule_us] * work->rules * (work->ragged ? constant[S2_PEER_ragged_times] : 1);
    const double partial_us = constant[S2_PEER_partial_us] + rules_us;
    const double us = constant[S2_PEER_tile_us] + constant[S2_PEER_rows_us] * tile->rows +
                      step_us * tile->steps + partial_us * tile->partial;
    return llrint(fmax(us, constant[S2_PEER_least_us]) / tick_us);
}

/*
 * Of equal lists one after the other, each from its last tile. All but the last few tiles keep every worker busy,
 * whatever their order.
 */
static int64_t ticks_in_order(const double *constant, const s2_peer_work *work, int32_t n_workers,
                              int32_t times)
{
    int64_t of_list = 0, n_of_list = 0;
    for (int32_t t = 0; t < work->n_tiles; t++) {
        const int64_t n = work->tiles[t].n / work->n_lists;
        of_list += n * ticks_of(constant, work, &work->tiles[t]) * times;
        n_of_list += n;
    }
    int64_t n_early = s2_max_i64(0, n_of_list * work->n_lists - 3 * (int64_t)n_workers);
    const int64_t n_whole = n_early / n_of_list;
    int64_t early = n_whole * of_list;
    s2_queue queue; /* large: set where it begins */
    queue.n = 0;
    queue.end = 0;
    n_early %= n_of_list;
    for (int64_t list = n_whole; list < work->n_lists; list++)
        for (int32_t t = work->n_tiles - 1; t >= 0; t--) {
            const int64_t ticks = ticks_of(constant, work, &work->tiles[t]) * times;
            const int64_t n = work->tiles[t].n / work->n_lists;
            if (queue.n == 0 && n <= n_early) {
                n_early -= n;
                early += n * ticks;
                continue;
            }
            if (queue.n == 0)
                s2_queue_init(&queue, n_workers, early / n_workers);
            for (int64_t nth = 0; nth < n; nth++)
                s2_queue_give(&queue, ticks);
        }
    return queue.end;
}

/* Where each SM works on so many tiles at a time, and each takes so many times as long. */
static double makespan_us(const double *constant, const s2_peer_work *work, int32_t times)
{
    const int32_t n_workers = s2_min_i32(work->n_workers * times, S2_LIMIT_WORKERS);
    if (work->n_lists > 0)
        return (double)ticks_in_order(constant, work, n_workers, times) * tick_us;
    s2_workers workers;
    s2_workers_init(&workers, n_workers);
    for (int32_t t = 0; t < work->n_tiles; t++)
        s2_workers_give(&workers, work->tiles[t].n, ticks_of(constant, work, &work->tiles[t]) * times);
    return (double)s2_workers_end(&workers) * tick_us;
}

/* Below it the SMs are not asked what tiles cost each other. */
#define SHARED_LEAST 0.01

double s2_peer_busy_us(const double constant[S2_N_PEER_CONSTANTS], const s2_peer_work *work)
{
    const double alone = makespan_us(constant, work, 1), shared = fmin(constant[S2_PEER_shared], 1);
    return shared < SHARED_LEAST ? alone : alone + shared * (makespan_us(constant, work, 2) - alone);
}

bool s2_peer_busy_by(s2_peer_constant which, const double constant[S2_N_PEER_CONSTANTS],
                     const s2_peer_work *work)
{
    switch (which) {
    case S2_PEER_tile_us:
    case S2_PEER_rows_us:
    case S2_PEER_step_us:
    case S2_PEER_partial_us:
    case S2_PEER_least_us: return true;
    case S2_PEER_shared: return constant[which] >= SHARED_LEAST;
    case S2_PEER_rule_us: return work->rules > 0;
    case S2_PEER_ragged_times: return work->rules > 0 && work->ragged;
    case S2_PEER_mask_times: return work->masked;
    default: return false;
    }
}

double s2_peer_us(const double constant[S2_N_PEER_CONSTANTS], const s2_peer_work *work, double busy_us)
{
    const double memory = work->read_bytes / (constant[S2_PEER_read_gb_s] * 1e3);
    double us = constant[S2_PEER_launch_us] + pow(pow(busy_us, 4) + pow(memory, 4), 0.25) +
                work->write_bytes / (constant[S2_PEER_write_gb_s] * 1e3);
    if (work->n_parts > 1)
        us += constant[S2_PEER_join_us] + constant[S2_PEER_join_part_us] * work->n_parts +
              constant[S2_PEER_part_us_mb] * work->part_bytes * 1e-6;
    if (work->copied)
        us += constant[S2_PEER_copy_us];
    return fmax(us, work->floor_us);
}

/* ---- which law */

bool s2_peer_is_dense(const s2_pattern *pattern, s2_phase phase)
{
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (!s2_pattern_is_state_layer(pattern, layer) && !s2_pattern_is_dense(pattern, phase, layer))
            return false;
    return true;
}

const s2_peer_law *s2_peer_law_of(const s2_peer *peer, s2_pass pass, int32_t head_dim, int32_t n_group)
{
    const s2_peer_group group = n_group == 1 ? S2_GROUP_ONE : S2_GROUP_MANY;
    const s2_peer_law *found = NULL;
    for (int32_t l = 0; l < peer->n_laws; l++) {
        const s2_peer_law *const law = &peer->laws[l];
        if (law->kernel.pass == pass && law->head_dim == head_dim && (found == NULL || law->group == group))
            found = law;
    }
    return found;
}

static s2_status check_pattern(const s2_peer *peer, const s2_peer_law *law, const s2_pattern *pattern,
                               s2_phase phase, int32_t layer, s2_diag *diag)
{
    if (s2_peer_is_dense(pattern, phase))
        return S2_OK;
    if (!law->sparse)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_PEER, 0, 0,
                           "kernel model %s was fitted to dense rows of pass %s alone; nothing is known of "
                           "what that kernel makes of another pattern",
                           peer->name, s2_pass_word(law->kernel.pass));
    if (s2_pattern_chooses(pattern, phase, layer))
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_PEER, 0, 0,
                           "kernel model %s was fitted to patterns known before the launch; nothing is known "
                           "of what that kernel takes where keys are chosen at run time",
                           peer->name);
    if (law->most_blk_tok > 0 &&
        (pattern->block_tok < law->least_blk_tok || pattern->block_tok > law->most_blk_tok))
        return s2_diag_set(
            diag, S2_EUNSUPPORTED, CODE_PEER, 0, 0,
            "kernel model %s was fitted to no row with blocks of %d tokens, but to blocks of %d to %d",
            peer->name, pattern->block_tok, law->least_blk_tok, law->most_blk_tok);
    return S2_OK;
}

static s2_status check_law(const s2_peer *peer, const s2_pattern *pattern, s2_phase phase, s2_pass pass,
                           int32_t layer, s2_diag *diag)
{
    const int32_t head_dim = s2_pattern_head_dim(pattern, layer);
    const s2_peer_law *const law =
        s2_peer_law_of(peer, pass, head_dim, pattern->n_heads / s2_pattern_kv_heads(pattern, layer));
    if (law == NULL)
        return s2_diag_set(diag, S2_EUNSUPPORTED, CODE_PEER, 0, 0,
                           "kernel model %s was fitted to no row of pass %s at head dim %d", peer->name,
                           s2_pass_word(pass), head_dim);
    S2_TRY(check_pattern(peer, law, pattern, phase, layer, diag));
    if (pass != S2_PASS_DECODE && !(pattern->causal ? law->causal : law->full))
        return s2_diag_set(
            diag, S2_EUNSUPPORTED, CODE_PEER, 0, 0,
            "kernel model %s was fitted to %scausal rows of pass %s alone, and this pattern is %scausal",
            peer->name, law->causal ? "" : "non-", s2_pass_word(pass), pattern->causal ? "" : "not ");
    return S2_OK;
}

s2_status s2_peer_takes(const s2_peer *peer, const s2_pattern *pattern, s2_phase phase, bool train,
                        s2_diag *diag)
{
    const s2_pass pass = phase == S2_DECODE ? S2_PASS_DECODE : S2_PASS_FORWARD;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        if (s2_pattern_is_state_layer(pattern, layer))
            continue;
        S2_TRY(check_law(peer, pattern, phase, pass, layer, diag));
        if (train)
            S2_TRY(check_law(peer, pattern, phase, S2_PASS_BACKWARD, layer, diag));
    }
    return S2_OK;
}

s2_status s2_peer_price(s2_arena *scratch, const s2_peer *peer, const s2_peer_launch *launch,
                        const s2_gpu *gpu, s2_launch_price *out)
{
    const int32_t n_group = s2_layer_group(launch->layer, launch->classes->pattern->n_heads);
    const s2_peer_law *const law = s2_peer_law_of(peer, launch->pass, launch->layer->head_dim, n_group);
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_peer_work work;
    if (law == NULL)
        return S2_EINTERNAL;
    const s2_status status = s2_peer_work_of(scratch, launch, &law->cut, gpu, &work);
    if (status == S2_OK) {
        s2_launch_price made = {.kernel = &law->kernel};
        const double memory_us = work.read_bytes / (law->constant[S2_PEER_read_gb_s] * 1e3);
        made.forecast.us = s2_peer_us(law->constant, &work, s2_peer_busy_us(law->constant, &work));
        made.forecast.imbalance = 1;
        made.forecast.by = law->constant[S2_PEER_launch_us] > made.forecast.us / 2 ? S2_LIMIT_LAUNCH
                           : memory_us > made.forecast.us / 2                      ? S2_LIMIT_HBM
                                                                                   : S2_LIMIT_COMPUTE;
        s2_predict_error(&law->kernel, &work.extents, &made);
        if (is_chunk(launch) && law->kernel.spans[S2_EXTENT_NEW].greatest == 0)
            allow_for_chunk(&made.error);
        *out = made;
    }
    s2_arena_rewind(scratch, mark);
    return status;
}
