/* Laws of somebody else's kernels from a table (sim/peer.h): damped least squares on logarithms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "calibrate/solve.h"
#include "calibrate/table.h"

enum {
    CODE_TABLE_FIT = 709,
    LEAST_ROWS = 3,  /* of a law */
    GROUP_ROWS = 30, /* of each kind of group, to fit them separately */
    LOOK_ROWS = 128, /* on which a cut is chosen */
    LOOK_ROUNDS = 8,
    MOST_ROWS = 4096, /* of a law, sampled evenly */
    MOST_ROUNDS = 40,
    FAR = 4, /* times as slow as the data sheet: then it says nothing of a kernel's constants */
    N = S2_N_PEER_CONSTANTS
};
/* The unit of residuals; beyond it they count by their size, not by their square. */
#define SOFT 0.05

/* The rows of one law, with the work of each under the cut being tried. */
typedef struct s2_law_rows {
    s2_arena *arena;
    const s2_gpu *gpu;
    int32_t n;
    const s2_table_row **rows;
    s2_peer_work *works; /* n entries */
    double start[N];     /* constants before any row is seen; rows may move them by e^width */
    double width[N];
} s2_law_rows;

static s2_peer_launch launch_of(const s2_table_row *row)
{
    return (s2_peer_launch){.classes = &row->classes,
                            .layer = &row->classes.layers[0],
                            .pass = row->pass,
                            .is_dense = row->pattern == NULL,
                            .q_tok = row->q_tok,
                            .len_tok = row->n_tok,
                            .batch = row->batch};
}

/* ---- the sum to minimise */

static double busy_of(const s2_law_rows *law, const double *constant, int32_t r)
{
    return s2_peer_busy_us(constant, &law->works[r]);
}

static double residual(const s2_law_rows *law, const double *constant, double busy_us, int32_t r)
{
    return log(s2_peer_us(constant, &law->works[r], busy_us) / law->rows[r]->us) / SOFT;
}

static double weight_of(double e)
{
    return 1 / sqrt(1 + e * e);
}

static void constants_of(const double *logs, double *constant)
{
    for (int32_t c = 0; c < N; c++)
        constant[c] = exp(logs[c]);
}

static double loss(const s2_law_rows *law, const double *logs)
{
    double constant[N], sum = 0;
    constants_of(logs, constant);
    for (int32_t r = 0; r < law->n; r++) {
        const double e = residual(law, constant, busy_of(law, constant, r), r);
        sum += 2 * (sqrt(1 + e * e) - 1);
    }
    for (int32_t c = 0; c < N; c++) {
        const double e = (logs[c] - law->start[c]) / law->width[c];
        sum += e * e;
    }
    return sum;
}

typedef struct s2_law_normal {
    double square[N * N];
    double gradient[N];
} s2_law_normal;

static void linearise(const s2_law_rows *law, const double *logs, s2_law_normal *normal)
{
    const double by = 1e-3;
    double constant[N];
    constants_of(logs, constant);
    *normal = (s2_law_normal){0};
    for (int32_t r = 0; r < law->n; r++) {
        const double busy_us = busy_of(law, constant, r);
        const double e = residual(law, constant, busy_us, r), weight = weight_of(e);
        double slope[N];
        for (int32_t c = 0; c < N; c++) {
            const double before = constant[c];
            constant[c] *= exp(by);
            const double moved_us = s2_peer_busy_by((s2_peer_constant)c, constant, &law->works[r])
                                        ? busy_of(law, constant, r)
                                        : busy_us;
            slope[c] = (residual(law, constant, moved_us, r) - e) / by;
            constant[c] = before;
        }
        for (int32_t c = 0; c < N; c++) {
            normal->gradient[c] -= weight * slope[c] * e;
            for (int32_t d = 0; d < N; d++)
                normal->square[c * N + d] += weight * slope[c] * slope[d];
        }
    }
    for (int32_t c = 0; c < N; c++) {
        const double stiff = 1 / (law->width[c] * law->width[c]);
        normal->gradient[c] -= stiff * (logs[c] - law->start[c]);
        normal->square[c * N + c] += stiff;
    }
}

static bool try_step(const s2_law_rows *law, const s2_law_normal *normal, double damping, double *logs,
                     double *now)
{
    s2_law_normal damped = *normal;
    double moved[N];
    for (int32_t c = 0; c < N; c++)
        damped.square[c * N + c] *= 1 + damping;
    if (!s2_solve(damped.square, damped.gradient, N))
        return false;
    for (int32_t c = 0; c < N; c++)
        moved[c] = logs[c] + fmax(-1, fmin(1, damped.gradient[c]));
    const double then = loss(law, moved);
    if (!(then < *now))
        return false;
    memcpy(logs, moved, sizeof moved);
    *now = then;
    return true;
}

static double minimise(const s2_law_rows *law, int32_t n_rounds, double *logs)
{
    double damping = 1e-2, now = loss(law, logs);
    for (int32_t round = 0; round < n_rounds; round++) {
        const double before = now;
        s2_law_normal normal;
        linearise(law, logs, &normal);
        while (damping < 1e6 && !try_step(law, &normal, damping, logs, &now))
            damping *= 5;
        damping = fmax(damping / 8, 1e-6);
        if (before - now <= 1e-4 * before)
            break;
    }
    return now;
}

/* ---- one law */

static double steps_of(const s2_peer_work *work)
{
    double sum = 0;
    for (int32_t t = 0; t < work->n_tiles; t++)
        sum += work->tiles[t].steps * (double)work->tiles[t].n;
    return sum;
}

/* What the data sheet suggests; with few rows most constants stay near it. */
static void set_start(s2_law_rows *law, const s2_peer_cut *cut, s2_pass pass, int32_t head_dim)
{
    const s2_gpu *const gpu = law->gpu;
    const double flop = 4.0 * head_dim * cut->tile_rows * cut->key_tok * (pass == S2_PASS_BACKWARD ? 2.5 : 1);
    const double memory = gpu->hbm_gb_s * gpu->hbm_fraction;
    const double step_us = pass == S2_PASS_DECODE ? cut->key_tok * head_dim * 4.0 / (memory / gpu->sms * 1e3)
                                                  : flop / (gpu->bf16_tflops * 1e6 / gpu->sms) / 0.7;
    double least_us = INFINITY, most_speed = 0;
    for (int32_t r = 0; r < law->n; r++) {
        least_us = fmin(least_us, law->rows[r]->us);
        most_speed = fmax(most_speed, steps_of(&law->works[r]) / (law->rows[r]->us * gpu->sms));
    }
    /* a kernel that is far from the data sheet wherever it is timed is so in all that it does */
    const double slow = fmax(1, 1 / (FAR * step_us * most_speed));
    const double start[N] = {[S2_PEER_launch_us] = fmin(5, least_us / 2),
                             [S2_PEER_tile_us] = slow,
                             [S2_PEER_rows_us] = slow,
                             [S2_PEER_step_us] = slow * step_us,
                             [S2_PEER_partial_us] = 0.3 * slow * step_us,
                             [S2_PEER_ragged_times] = 1,
                             [S2_PEER_rule_us] = 0.1 * slow * step_us,
                             [S2_PEER_mask_times] = 1,
                             [S2_PEER_shared] = 0.1,
                             [S2_PEER_least_us] = 1,
                             [S2_PEER_read_gb_s] = memory,
                             [S2_PEER_write_gb_s] = 4 * memory,
                             [S2_PEER_join_us] = 2,
                             [S2_PEER_join_part_us] = 0.02,
                             [S2_PEER_copy_us] = 0.05,
                             [S2_PEER_part_us_mb] = 0.2};
    static const double width[N] = {
        [S2_PEER_launch_us] = 1,    [S2_PEER_tile_us] = 1,        [S2_PEER_rows_us] = 1,
        [S2_PEER_step_us] = 1,      [S2_PEER_partial_us] = 1.5,   [S2_PEER_shared] = 1.5,
        [S2_PEER_ragged_times] = 1, [S2_PEER_rule_us] = 1.5,      [S2_PEER_mask_times] = 1,
        [S2_PEER_least_us] = 1,     [S2_PEER_read_gb_s] = 1,      [S2_PEER_write_gb_s] = 3,
        [S2_PEER_join_us] = 1.5,    [S2_PEER_join_part_us] = 2.5, [S2_PEER_copy_us] = 3,
        [S2_PEER_part_us_mb] = 2};
    for (int32_t c = 0; c < N; c++) {
        law->start[c] = log(start[c]);
        law->width[c] = width[c];
    }
}

/* A fitted law: logarithms of its constants, and the minimised sum. */
typedef struct s2_law_fit {
    s2_peer_cut cut;
    double logs[N];
    double left;
    double error_pct; /* mean, on these rows */
} s2_law_fit;

static double mean_error(const s2_law_rows *law, const double *logs)
{
    double constant[N], sum = 0;
    constants_of(logs, constant);
    for (int32_t r = 0; r < law->n; r++)
        sum += fabs(exp(SOFT * residual(law, constant, busy_of(law, constant, r), r)) - 1);
    return 100 * sum / law->n;
}

/* Fit under out->cut, starting at `from`; NULL: at what the data sheet says, to look at a cut. */
static s2_status fit_cut(s2_law_rows *law, int32_t n_rounds, const double *from, s2_law_fit *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(law->arena);
    s2_status status = S2_OK;
    for (int32_t r = 0; r < law->n && status == S2_OK; r++) {
        const s2_peer_launch launch = launch_of(law->rows[r]);
        status = s2_peer_work_of(law->arena, &launch, &out->cut, law->gpu, &law->works[r]);
    }
    if (status == S2_OK) {
        set_start(law, &out->cut, law->rows[0]->pass, law->rows[0]->head_dim);
        if (from ==
            NULL) { /* what tiles on one SM cost each other is no part of a cut, and takes most of the time */
            law->start[S2_PEER_shared] = log(1e-3);
            law->width[S2_PEER_shared] = 1e-3;
        }
        memcpy(out->logs, from != NULL ? from : law->start, sizeof out->logs);
        out->logs[S2_PEER_shared] = law->start[S2_PEER_shared];
        out->left = minimise(law, n_rounds, out->logs);
        out->error_pct = mean_error(law, out->logs);
    }
    s2_arena_rewind(law->arena, mark);
    return status;
}

/* At most `most` of the rows, spread over all of them. */
static s2_status thin_out(const s2_law_rows *all, int32_t most, s2_law_rows *out)
{
    *out = *all;
    out->n = s2_min_i32(all->n, most);
    out->rows = S2_NEW(all->arena, const s2_table_row *, out->n);
    out->works = S2_NEW(all->arena, s2_peer_work, out->n);
    if (out->rows == NULL || out->works == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < out->n; r++)
        out->rows[r] = all->rows[(int64_t)r * all->n / out->n];
    return S2_OK;
}

enum { TILE, STEP, PACKING, SPLITTING, SKIPPING, ORDER, RESIDENT, ASKING, N_CUTS };
static const int32_t n_ways[N_CUTS] = {
    6, 4, S2_PACKS_ALWAYS + 1, 2, S2_N_PEER_SKIPS, S2_N_PEER_ORDERS, S2_PEER_RESIDENT, 2};

static s2_peer_cut changed(s2_peer_cut cut, int32_t what, int32_t nth)
{
    static const int32_t tiles[] = {64, 128, 192, 256, 32, 16}, keys[] = {64, 128, 32, 16};
    if (what == TILE)
        cut.tile_rows = tiles[nth];
    else if (what == STEP)
        cut.key_tok = keys[nth];
    else if (what == PACKING)
        cut.packing = (s2_peer_packing)nth;
    else if (what == SPLITTING)
        cut.splits = nth == 1;
    else if (what == SKIPPING)
        cut.skips = (s2_peer_skips)nth;
    else if (what == ORDER)
        cut.order = (s2_peer_order)nth;
    else if (what == RESIDENT)
        cut.resident = nth + 1;
    else
        cut.asks = nth == 1;
    return cut;
}

static bool same_cut(const s2_peer_cut *a, const s2_peer_cut *b)
{
    return a->tile_rows == b->tile_rows && a->key_tok == b->key_tok && a->packing == b->packing &&
           a->splits == b->splits && a->skips == b->skips && a->order == b->order &&
           a->resident == b->resident && a->asks == b->asks;
}

static bool has_patterns(const s2_law_rows *law)
{
    for (int32_t r = 0; r < law->n; r++)
        if (law->rows[r]->pattern != NULL)
            return true;
    return false;
}

/* Vary one property of the cut at a time, in two rounds; only a clearly better cut replaces the best. */
static s2_status vary_cut(s2_law_rows *look, s2_law_fit *best)
{
    const bool patterns = has_patterns(look); /* else nothing tells whether a mask is asked */
    const bool decode = look->rows[0]->pass == S2_PASS_DECODE; /* else what tiles cost each other is fitted */
    S2_TRY(fit_cut(look, LOOK_ROUNDS, NULL, best));
    for (int32_t turn = 0; turn < 2 * N_CUTS; turn++) {
        const int32_t what = N_CUTS - 1 - turn % N_CUTS;
        const s2_peer_cut from = best->cut;
        if (what == ASKING ? !patterns : what == RESIDENT && !decode)
            continue;
        for (int32_t nth = 0; nth < n_ways[what]; nth++) {
            s2_law_fit other = {.cut = changed(from, what, nth)};
            if (same_cut(&other.cut, &from))
                continue;
            S2_TRY(fit_cut(look, LOOK_ROUNDS, NULL, &other));
            if (other.left < 0.98 * best->left)
                *best = other;
        }
    }
    return S2_OK;
}

/* From each order of tiles, since what fits best beside the wrong one leads astray. */
static s2_status choose_cut(s2_law_rows *look, s2_law_fit *best)
{
    const s2_peer_cut from = best->cut;
    const bool decode = look->rows[0]->pass == S2_PASS_DECODE; /* whose tiles are alike */
    for (s2_peer_order order = 0; order < (decode ? S2_HEAD_BY_HEAD : S2_N_PEER_ORDERS); order++) {
        s2_law_fit other = {.cut = from};
        other.cut.order = order;
        S2_TRY(vary_cut(look, &other));
        if (order == 0 || other.left < 0.98 * best->left)
            *best = other;
    }
    return S2_OK;
}

static s2_status fit_law(const s2_law_rows *all, s2_law_fit *out)
{
    s2_law_rows look, most;
    const bool decode = all->rows[0]->pass == S2_PASS_DECODE;
    const int32_t tile_rows = decode ? 64 : 128;
    *out = (s2_law_fit){
        .cut = {tile_rows, 128, S2_PACKS_ALWAYS, decode, S2_SKIPS_UNREAD, S2_LONGEST_FIRST, 1, false}};
    S2_TRY(thin_out(all, LOOK_ROWS, &look));
    S2_TRY(choose_cut(&look, out));
    const s2_law_fit from = *out;
    S2_TRY(thin_out(all, MOST_ROWS, &most));
    return fit_cut(&most, MOST_ROUNDS, from.logs, out);
}

/* ---- all laws */

static s2_peer_group group_of(const s2_table_row *row)
{
    return row->heads == row->kv_heads ? S2_GROUP_ONE : S2_GROUP_MANY;
}

static bool same_law(const s2_table_row *a, const s2_table_row *b)
{
    return a->pass == b->pass && a->head_dim == b->head_dim;
}

/* The rows like `like`, of one kind of group or any, that are not held out. */
static s2_status rows_like(s2_arena *arena, const s2_table *table, const s2_gpu *gpu,
                           const s2_table_row *like, s2_peer_group group, s2_law_rows *out)
{
    *out =
        (s2_law_rows){.arena = arena, .gpu = gpu, .rows = S2_NEW(arena, const s2_table_row *, table->n_rows)};
    if (out->rows == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < table->n_rows; r++) {
        const s2_table_row *const row = &table->rows[r];
        if (!row->held && same_law(row, like) && (group == S2_GROUP_ANY || group == group_of(row)))
            out->rows[out->n++] = row;
    }
    return S2_OK;
}

static void note_blocks(const s2_table_row *row, s2_peer_law *law)
{
    if (row->pattern == NULL)
        return;
    const int32_t block_tok = row->made.block_tok;
    law->least_blk_tok = law->sparse ? s2_min_i32(law->least_blk_tok, block_tok) : block_tok;
    law->most_blk_tok = s2_max_i32(law->most_blk_tok, block_tok);
    law->sparse = true;
}

static s2_status add_law(s2_peer *peer, const s2_law_rows *rows, s2_peer_group group, const s2_law_fit *fit,
                         s2_diag *diag)
{
    if (peer->n_laws == S2_PEER_LAWS)
        return s2_diag_set(diag, S2_ELIMIT, CODE_TABLE_FIT, 0, 0,
                           "a kernel model holds %d laws: a pass, a head dim and a kind of group each",
                           S2_PEER_LAWS);
    s2_peer_law *const law = &peer->laws[peer->n_laws++];
    *law = (s2_peer_law){.head_dim = rows->rows[0]->head_dim, .group = group, .cut = fit->cut};
    law->kernel.pass = rows->rows[0]->pass;
    law->kernel.n_points = s2_min_i32(rows->n, MOST_ROWS);
    law->kernel.fit_pct = fit->error_pct;
    s2_text_clean(law->kernel.name, sizeof law->kernel.name, peer->name);
    constants_of(fit->logs, law->constant);
    for (int32_t r = 0; r < rows->n; r++) {
        note_blocks(rows->rows[r], law);
        law->causal |= rows->rows[r]->causal;
        law->full |= !rows->rows[r]->causal;
    }
    return S2_OK;
}

/* One law per kind of group if both have rows and fit better separately. */
static s2_status fit_groups(s2_arena *arena, const s2_table *table, const s2_gpu *gpu,
                            const s2_table_row *like, s2_peer *peer, s2_diag *diag)
{
    s2_law_rows rows[S2_N_PEER_GROUPS];
    s2_law_fit fits[S2_N_PEER_GROUPS];
    for (s2_peer_group g = 0; g < S2_N_PEER_GROUPS; g++)
        S2_TRY(rows_like(arena, table, gpu, like, g, &rows[g]));
    if (rows[S2_GROUP_ANY].n < LEAST_ROWS)
        return s2_diag_set(diag, S2_EINVAL, CODE_TABLE_FIT, 0, 0,
                           "pass %s at head dim %d has %d row%s to be fitted, and a law takes %d",
                           s2_pass_word(like->pass), like->head_dim, rows[0].n, s2_text_plural(rows[0].n),
                           LEAST_ROWS);
    const bool apart = rows[S2_GROUP_ONE].n >= GROUP_ROWS && rows[S2_GROUP_MANY].n >= GROUP_ROWS;
    for (s2_peer_group g = 0; g < (apart ? S2_N_PEER_GROUPS : S2_GROUP_ONE); g++)
        S2_TRY(fit_law(&rows[g], &fits[g]));
    if (!apart || fits[S2_GROUP_ONE].left + fits[S2_GROUP_MANY].left > 0.93 * fits[S2_GROUP_ANY].left)
        return add_law(peer, &rows[S2_GROUP_ANY], S2_GROUP_ANY, &fits[S2_GROUP_ANY], diag);
    S2_TRY(add_law(peer, &rows[S2_GROUP_ONE], S2_GROUP_ONE, &fits[S2_GROUP_ONE], diag));
    return add_law(peer, &rows[S2_GROUP_MANY], S2_GROUP_MANY, &fits[S2_GROUP_MANY], diag);
}

s2_status s2_table_fit(s2_arena *arena, const s2_table *table, const s2_gpu *gpu, s2_peer *out, s2_diag *diag)
{
    out->n_laws = 0;
    out->caches = table->caches;
    out->n_sms = gpu->sms;
    for (int32_t r = 0; r < table->n_rows; r++) {
        int32_t first = 0;
        while (!same_law(&table->rows[first], &table->rows[r]))
            first++;
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        if (first == r)
            S2_TRY(fit_groups(arena, table, gpu, &table->rows[r], out, diag));
        s2_arena_rewind(arena, mark);
    }
    return S2_OK;
}

/* ---- how far off it is */

static void note_errors(double *errors, int32_t n, s2_peer_law *law)
{
    double sum = 0;
    law->kernel.n_judged = n;
    law->kernel.error_pct = law->median_pct = law->kernel.p90_pct = 0;
    if (n == 0)
        return;
    qsort(errors, (size_t)n, sizeof *errors, s2_compare_f64);
    for (int32_t r = 0; r < n; r++)
        sum += errors[r];
    law->kernel.error_pct = sum / n;
    law->median_pct = errors[n / 2];
    law->kernel.p90_pct = errors[(int32_t)ceil(0.9 * n) - 1];
    law->kernel.most_pct = errors[n - 1];
}

static s2_status predict_row(s2_arena *arena, const s2_table_row *row, const s2_gpu *gpu,
                             const s2_peer_law *law, s2_kernel_load *extents, double *us)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const s2_peer_launch launch = launch_of(row);
    s2_peer_work work;
    const s2_status status = s2_peer_work_of(arena, &launch, &law->cut, gpu, &work);
    if (status == S2_OK) {
        *us = s2_peer_us(law->constant, &work, s2_peer_busy_us(law->constant, &work));
        *extents = work.extents;
    }
    s2_arena_rewind(arena, mark);
    return status;
}

static s2_status judge_law(s2_arena *arena, const s2_table *table, bool all, const s2_gpu *gpu,
                           const s2_peer *peer, s2_peer_law *law, s2_table_miss *worst)
{
    double *const errors = S2_NEW(arena, double, table->n_rows), most = -1;
    int32_t n = 0;
    if (errors == NULL)
        return S2_ENOMEM;
    memset(law->kernel.spans, 0, sizeof law->kernel.spans);
    for (int32_t r = 0; r < table->n_rows; r++) {
        const s2_table_row *const row = &table->rows[r];
        s2_kernel_load extents;
        double us;
        if ((!all && !row->held) ||
            s2_peer_law_of(peer, row->pass, row->head_dim, row->heads / row->kv_heads) != law)
            continue;
        S2_TRY(predict_row(arena, row, gpu, law, &extents, &us));
        s2_spans_note(&extents, law->kernel.spans);
        errors[n] = 100 * fabs(us / row->us - 1);
        if (errors[n] > most)
            *worst = (s2_table_miss){row->line, row->us, us};
        most = fmax(most, errors[n++]);
    }
    note_errors(errors, n, law);
    return S2_OK;
}

s2_status s2_table_judge(s2_arena *arena, const s2_table *table, bool all, const s2_gpu *gpu, s2_peer *peer,
                         s2_table_miss *worst)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_status status = S2_OK;
    for (int32_t l = 0; l < peer->n_laws && status == S2_OK; l++) {
        worst[l] = (s2_table_miss){0};
        status = judge_law(arena, table, all, gpu, peer, &peer->laws[l], &worst[l]);
        s2_arena_rewind(arena, mark);
    }
    return status;
}
