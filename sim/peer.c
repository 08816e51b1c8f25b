#include "sim/peer.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/work.h"
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
    double most_steps;
} s2_tiling;

static void add_tiles(s2_tiling *tiling, double steps, double rows, int64_t n)
{
    s2_peer_tiles *const last = tiling->n > 0 ? &tiling->tiles[tiling->n - 1] : NULL;
    tiling->most_steps = fmax(tiling->most_steps, steps);
    if (last != NULL && last->steps == steps && last->rows == rows)
        last->n += n;
    else if (n > 0 && tiling->n < tiling->cap)
        tiling->tiles[tiling->n++] = (s2_peer_tiles){steps, rows, n};
}

static s2_status tiling_new(s2_arena *arena, int64_t cap, s2_tiling *out)
{
    *out = (s2_tiling){.tiles = S2_NEW(arena, s2_peer_tiles, cap + 1), .cap = cap};
    return out->tiles == NULL ? S2_ENOMEM : S2_OK;
}

/* What a switch for causality does not say: a pattern, or fewer queries than keys. */
static bool is_masked(const s2_peer_launch *launch)
{
    return !launch->is_dense || (launch->pass != S2_PASS_DECODE && launch->q_tok < launch->len_tok);
}

static bool skips_later(const s2_peer_launch *launch, const s2_peer_cut *cut)
{
    return cut->skips != S2_SKIPS_NONE && !(cut->skips == S2_SKIPS_SWITCHED && is_masked(launch));
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
        add_tiles(out, (double)s2_ceil_div(keys, cut->key_tok), (double)(end - begin) / cut->tile_rows,
                  n_lists);
    }
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

/* Tiles of one head, or of all heads of a group that read alike, by their steps: n_of_steps[steps]. */
static s2_status count_tiles(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                             int32_t class_at, int32_t n_heads, double *n_of_steps)
{
    const int32_t q_tok = cut->tile_rows > n_heads ? cut->tile_rows / n_heads : 1;
    const s2_tile_shape shape = {q_tok, cut->key_tok, cut->key_tok};
    /* below 1: whole tokens leave rows empty; above 1: one token fills several tiles */
    const double filled = (double)q_tok * n_heads / cut->tile_rows;
    s2_head_work work;
    S2_TRY(s2_head_work_count(arena, &launch->classes->reads[class_at], 0, launch->len_tok, shape,
                              launch->classes->work_left, &work));
    for (int32_t tile = 0; tile < work.n_q_tiles; tile++)
        n_of_steps[work.visits[tile]] += filled;
    return S2_OK;
}

static s2_status tile_sparse(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                             s2_tiling *out)
{
    const int32_t n_group = s2_layer_group(launch->layer, launch->classes->pattern->n_heads);
    const int64_t n_blk = s2_ceil_div(launch->len_tok, cut->key_tok);
    double *const n_of_steps = S2_NEW(arena, double, n_blk + 2);
    if (n_of_steps == NULL)
        return S2_ENOMEM;
    for (int32_t kv = 0; kv < launch->layer->n_kv_heads; kv++) {
        const int32_t *const group = launch->layer->head_class + (int64_t)kv * n_group;
        const bool packed = packs(launch, cut) && group_alike(group, n_group);
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        for (int32_t h = 0; h < (packed ? 1 : n_group); h++)
            S2_TRY(count_tiles(arena, launch, cut, group[h], packed ? n_group : 1, n_of_steps));
        s2_arena_rewind(arena, mark);
    }
    S2_TRY(tiling_new(arena, n_blk + 2, out));
    for (int64_t steps = n_blk; steps >= 0; steps--)
        add_tiles(out, (double)steps, 1, (int64_t)ceil(n_of_steps[steps] - 1e-9) * launch->batch);
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
                  fmin(1, (double)rows / cut->tile_rows),
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
 * nearly as full as the fullest (FlashAttention's rule).
 */
static int32_t n_parts_of(const s2_tiling *tiling, const s2_peer_cut *cut, int32_t n_sms)
{
    enum { MOST = 128, SHORT = 4 };
    double best = 0, full[MOST + 1] = {0}, n_tiles = 0;
    for (int32_t t = 0; t < tiling->n; t++)
        n_tiles += (double)tiling->tiles[t].n;
    if (!cut->splits || n_tiles >= 0.8 * n_sms || tiling->most_steps <= SHORT)
        return 1;
    const int32_t most = (int32_t)fmin(MOST, fmin(n_sms, tiling->most_steps));
    for (int32_t n = 1; n <= most; n++) {
        const double waves = n_tiles * n / n_sms;
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

s2_status s2_peer_work_of(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                          const s2_gpu *gpu, s2_peer_work *out)
{
    const s2_layer_class *const layer = launch->layer;
    const double batch = (double)launch->batch, row = layer->head_dim * (double)ELEM_BYTES;
    const double q_rows = batch * (double)launch->q_tok * launch->classes->pattern->n_heads;
    int64_t keys;
    s2_tiling tiling;
    S2_TRY(tile_launch(arena, launch, cut, &tiling, &keys));
    const int32_t n_parts = n_parts_of(&tiling, cut, (int32_t)gpu->sms);
    split(&tiling, n_parts);
    const double passes = launch->pass == S2_PASS_BACKWARD ? 2 : 1;
    const double bytes = passes * (batch * (double)keys * 2 + q_rows * 2) * row;
    *out = (s2_peer_work){
        .n_tiles = tiling.n,
        .tiles = tiling.tiles,
        .n_parts = n_parts,
        .masked = is_masked(launch),
        .read_bytes = bytes,
        .write_bytes = batch * (double)launch->q_tok * layer->n_kv_heads * 4 * row,
        .part_bytes = q_rows * n_parts * layer->head_dim * 2 * (double)sizeof(float),
        .floor_us = floor_of(launch, gpu, bytes),
        .extents = {.list_rows = s2_layer_group(layer, launch->classes->pattern->n_heads),
                    .k_tok = (int32_t)launch->len_tok,
                    .n_lists = launch->batch * layer->n_kv_heads,
                    .head_dim = layer->head_dim,
                    .whole_blocks = true},
    };
    return S2_OK;
}

/* ---- how long it takes */

static double makespan_us(const double *constant, const s2_peer_work *work, int32_t n_sms)
{
    const double tick_us = 1e-4;
    const double step_us = constant[S2_PEER_step_us] * (work->masked ? constant[S2_PEER_mask_times] : 1);
    s2_workers workers;
    s2_workers_init(&workers, s2_min_i32(n_sms, S2_LIMIT_WORKERS));
    for (int32_t t = 0; t < work->n_tiles; t++) {
        const s2_peer_tiles *const tile = &work->tiles[t];
        const double us =
            constant[S2_PEER_tile_us] + constant[S2_PEER_rows_us] * tile->rows + step_us * tile->steps;
        s2_workers_give(&workers, tile->n, llrint(fmax(us, constant[S2_PEER_least_us]) / tick_us));
    }
    return (double)s2_workers_end(&workers) * tick_us;
}

double s2_peer_us(const double constant[S2_N_PEER_CONSTANTS], const s2_peer_work *work, int32_t n_sms)
{
    const double busy = makespan_us(constant, work, n_sms),
                 memory = work->read_bytes / (constant[S2_PEER_read_gb_s] * 1e3);
    double us = constant[S2_PEER_launch_us] + pow(pow(busy, 4) + pow(memory, 4), 0.25) +
                work->write_bytes / (constant[S2_PEER_write_gb_s] * 1e3);
    if (work->n_parts > 1)
        us += constant[S2_PEER_join_us] + constant[S2_PEER_part_us_mb] * work->part_bytes * 1e-6;
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

static bool chooses(const s2_pattern *pattern, s2_phase phase, int32_t layer)
{
    for (int32_t head = 0; head < pattern->n_heads; head++)
        if (s2_body_dynamic(&pattern->bodies[s2_pattern_body(pattern, phase, layer, head)]) != NULL)
            return true;
    return false;
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
    if (chooses(pattern, phase, layer))
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
        made.forecast.us = s2_peer_us(law->constant, &work, (int32_t)gpu->sms);
        made.forecast.imbalance = 1;
        made.forecast.by = law->constant[S2_PEER_launch_us] > made.forecast.us / 2 ? S2_LIMIT_LAUNCH
                           : memory_us > made.forecast.us / 2                      ? S2_LIMIT_HBM
                                                                                   : S2_LIMIT_COMPUTE;
        s2_predict_error(&law->kernel, &work.extents, &made);
        *out = made;
    }
    s2_arena_rewind(scratch, mark);
    return status;
}
