/*
 * Every window of keys is shown to all chosen rows (judge/sight.h). A row whose columns are the pattern's is
 * right, and costs no more. Others are looked at once more without assuming how many keys they read, and the
 * pair that is named is one that a run on this pair alone confirms. A row that reads what it should and still
 * gives another mean or LSE has wrong values.
 */
#include "judge/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "base/text.h"
#include "judge/sight.h"
#include "kernels/float16.h"

/* ------------------------------------------------------------------ rows */

/* Which heads are looked at: all, or every head_step-th. */
static bool is_looked_at(const s2_plan_item *item, int32_t head_step)
{
    return item->head % head_step < item->n_heads;
}

static int64_t count_rows(const s2_harness *harness, int32_t head_step, int64_t *pairs, int64_t *n_items)
{
    int64_t n = 0;
    *pairs = 0;
    *n_items = 0;
    for (int32_t nth = 0; nth < harness->some.n_items; nth++) {
        const s2_plan_item *const item = &harness->some.items[nth];
        int64_t end;
        const int64_t begin = s2_harness_item_queries(&harness->some, item, &end);
        if (!is_looked_at(item, head_step))
            continue;
        *n_items += 1;
        n += (end - begin) * item->n_heads;
        *pairs += (end - begin) * item->n_heads * harness->some.seqs[item->seq].k_tok;
    }
    return n;
}

/* per_item rows of each item's heads: both ends, the rest drawn; 0: all. */
static int64_t add_item(const s2_plan *plan, const s2_plan_item *item, int64_t per_item, s2_rng *rng,
                        s2_probe_row *rows)
{
    int64_t end, n = 0;
    const int64_t begin = s2_harness_item_queries(plan, item, &end), n_rows = end - begin;
    for (int32_t head = item->head; head < item->head + item->n_heads; head++)
        for (int64_t row = 0; row < (per_item > 0 && per_item < n_rows ? per_item : n_rows); row++) {
            int64_t q_tok = begin + row;
            if (per_item > 0 && per_item < n_rows && row == 1)
                q_tok = end - 1;
            else if (per_item > 0 && per_item < n_rows)
                q_tok = begin + (int64_t)s2_rng_below(rng, (uint64_t)n_rows);
            rows[n++] = (s2_probe_row){item->seq, (int32_t)q_tok, head};
        }
    return n;
}

s2_status s2_probe_rows_choose(const s2_harness *harness, int64_t budget_pairs, uint64_t seed, bool few_heads,
                               s2_probe_rows *rows)
{
    int64_t pairs, n_items, per_item = 0, step = 1, n = 0, nth = 0;
    const s2_plan *const plan = &harness->some;
    const int32_t head_step = few_heads && plan->pattern->n_heads > 4 ? plan->pattern->n_heads / 4 : 1;
    const int64_t n_all = count_rows(harness, head_step, &pairs, &n_items);
    s2_rng rng = {seed ^ UINT64_C(0x726f7773)};
    if (pairs > budget_pairs) {
        int64_t wanted = (int64_t)((double)n_all * ((double)budget_pairs / (double)pairs));
        wanted = s2_max_i64(wanted, 8);
        per_item = s2_max_i64(wanted / n_items, 2);
        step = wanted < 2 * n_items ? 2 * n_items / wanted + 1 : 1;
    }
    s2_probe_row *const row = s2_calloc((size_t)n_all, sizeof *row);
    if (row == NULL)
        return S2_ENOMEM;
    for (int64_t item = 0; item < plan->n_items; item++)
        if (is_looked_at(&plan->items[item], head_step) && nth++ % step == 0)
            n += add_item(plan, &plan->items[item], per_item, &rng, &row[n]);
    *rows =
        (s2_probe_rows){row, n, per_item == 0 && head_step == 1 && plan->n_items == harness->whole.n_items};
    return S2_OK;
}

/* ------------------------------------------------------------------ which rows are off */

enum { OFF_OUTPUT = 1, OFF_LSE = 2 };

typedef struct s2_touch {
    s2_harness *harness;
    const s2_validate_request *request;
    s2_validation *out;
    s2_probe_rows rows;
    s2_sight sight; /* of all rows: what is due */
    s2_windows windows;
    uint8_t *off;    /* [row] */
    int64_t *window; /* those that are looked at */
    int64_t n_windows;
} s2_touch;

static int64_t position_of(const s2_touch *touch, s2_probe_row row)
{
    const s2_plan_seq lens = touch->harness->some.seqs[row.seq];
    return lens.k_tok - lens.q_tok + row.q_tok;
}

static float lse_of(const s2_touch *touch, s2_probe_row row)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    return s2_harness_lse(touch->harness)[s2_rows_at(&p->lse, p->q_begin_tok, row.seq, row.q_tok, row.head)];
}

/* The integer that the pattern expects in an output column times the number of keys. */
static int64_t wanted(const s2_touch *touch, int64_t nth, int64_t window, int32_t d)
{
    const int64_t dim = touch->harness->problem.head_dim;
    const int64_t k_tok_end = touch->harness->some.seqs[touch->rows.row[nth].seq].k_tok;
    int64_t want = 0;
    for (int32_t bit = 0; bit < touch->windows.n_bits; bit++) {
        const int64_t k_tok = window * touch->windows.n_tok + bit * dim + d;
        want |= (int64_t)(k_tok < k_tok_end && s2_sight_bit(&touch->sight, touch->sight.due, nth, k_tok))
                << bit;
    }
    return want;
}

/* Whether a row's columns are the pattern's; *is_nan: one is not a number. */
static bool row_agrees(const s2_touch *touch, int64_t nth, int64_t window, bool *is_nan)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    const s2_probe_row row = touch->rows.row[nth];
    const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
    const double n = touch->sight.n_due[nth] > 0 ? touch->sight.n_due[nth] : 1e9; /* no keys: 0 is due */
    bool agrees = true;
    for (int32_t d = 0; d < p->head_dim && !*is_nan; d++) {
        const float o = s2_float_load(s2_harness_o(touch->harness), p->dtype, o_at + d);
        *is_nan = isnan(o);
        agrees = agrees && fabs((double)o * n - (double)wanted(touch, nth, window, d)) <= 0.3;
    }
    return agrees;
}

/* With equal scores the LSE is ln n: it counts the keys of the whole row at once. */
static bool lse_agrees(const s2_touch *touch, int64_t nth, double lse)
{
    const int32_t n = touch->sight.n_due[nth];
    return n == 0 ? lse == -INFINITY : fabs(lse - log(n)) <= fmax(0.4 / n, 4e-6);
}

/* The NaN of a row, or of its LSE, is what stood there before the run. */
static bool is_unwritten(const s2_touch *touch, s2_probe_row row, bool of_output)
{
    const s2_attn_problem *const p = &touch->harness->problem;
    const int64_t bytes = s2_dtype_bytes(p->dtype);
    const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
    const float lse = lse_of(touch, row);
    return of_output ? s2_harness_unwritten((const uint8_t *)s2_harness_o(touch->harness) + o_at * bytes,
                                            (size_t)(p->head_dim * bytes))
                     : s2_harness_unwritten(&lse, sizeof lse);
}

static bool check_row(s2_touch *touch, int64_t nth, int64_t window)
{
    const s2_probe_row row = touch->rows.row[nth];
    const double lse = (double)lse_of(touch, row);
    const bool has_lse = !touch->harness->kernel->no_lse;
    bool is_nan = false;
    if (!row_agrees(touch, nth, window, &is_nan))
        touch->off[nth] |= OFF_OUTPUT;
    if (has_lse && !lse_agrees(touch, nth, lse))
        touch->off[nth] |= OFF_LSE;
    if (!is_nan && !(has_lse && isnan(lse)))
        return true;
    snprintf(touch->out->reason, sizeof touch->out->reason, "layer %d, head %d, sequence %d: %s%lld %s",
             touch->harness->some.layer, row.head, row.seq, is_nan ? "query " : "the LSE of query ",
             (long long)position_of(touch, row),
             is_unwritten(touch, row, is_nan) ? "is never written" : "gives NaN for equal scores");
    touch->out->outcome = S2_OUTCOME_NAN;
    return false;
}

/* Count the pairs that a window compares. */
static void count_pairs(s2_touch *touch, int64_t window)
{
    for (int64_t nth = 0; nth < touch->rows.n; nth++) {
        const int64_t left =
            touch->harness->some.seqs[touch->rows.row[nth].seq].k_tok - window * touch->windows.n_tok;
        touch->out->touch_pairs += s2_max_i64(s2_min_i64(left, touch->windows.n_tok), 0);
    }
}

static s2_status run_window(s2_touch *touch, int64_t window, double *ms, s2_diag *why)
{
    S2_TRY(s2_windows_set(&touch->windows, window, false));
    S2_TRY(s2_harness_run_rows(touch->harness, touch->rows.row, touch->rows.n, ms, why));
    count_pairs(touch, window);
    for (int64_t nth = 0; nth < touch->rows.n && check_row(touch, nth, window); nth++) {
    }
    return s2_windows_set(&touch->windows, window, true);
}

/* All windows, or as many as the request and its time allow, but always a few. */
static int64_t count_windows(const s2_validate_request *request, int64_t n_windows, double ms)
{
    enum { FEWEST = 6 };
    int64_t n = n_windows;
    if (request->max_windows > 0 && request->max_windows < n)
        n = request->max_windows;
    const double in_time = request->touch_limit_ms / fmax(ms, 1e-3);
    if (request->touch_limit_ms > 0.0 && in_time < (double)n)
        n = in_time > FEWEST ? (int64_t)in_time : s2_min_i64(n, FEWEST);
    return n;
}

static s2_status all_windows(s2_touch *touch, s2_diag *why)
{
    const s2_validate_request *const request = touch->request;
    const int64_t all = touch->windows.n;
    touch->n_windows = all;
    for (int64_t nth = 0; nth < touch->n_windows && touch->out->outcome == S2_OUTCOME_OK; nth++) {
        /* where not all windows are looked at, the first and the last are */
        touch->window[nth] = touch->n_windows > 1 ? nth * (all - 1) / (touch->n_windows - 1) : 0;
        double ms = 0.0;
        if (request->progress != NULL)
            request->progress(request->user, "touch", (int32_t)nth, (int32_t)touch->n_windows);
        S2_TRY(run_window(touch, touch->window[nth], &ms, why));
        if (nth == 0)
            touch->n_windows = count_windows(request, all, ms);
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ which pairs are wrong */

static void name_pair(s2_touch *touch, const s2_sight *sight, int64_t nth, int64_t k_tok, bool read)
{
    const s2_probe_row row = sight->row[nth];
    s2_validation *const out = touch->out;
    char counts[80] = "";
    out->outcome = S2_OUTCOME_WRONG_PAIRS;
    out->has_wrong_pair = true;
    out->wrong_head = row.head;
    out->wrong_q_tok = position_of(touch, row);
    out->wrong_k_tok = k_tok;
    if (sight->n_seen[nth] >= 0 && sight->n_seen[nth] != sight->n_due[nth])
        snprintf(counts, sizeof counts, "; it reads %d key%s, the pattern %d", sight->n_seen[nth],
                 sight->n_seen[nth] == 1 ? "" : "s", sight->n_due[nth]);
    snprintf(out->reason, sizeof out->reason, "layer %d, head %d, sequence %d: query %lld %s key %lld%s",
             touch->harness->some.layer, row.head, row.seq, (long long)out->wrong_q_tok,
             read ? "reads, against the pattern," : "does not read", (long long)k_tok, counts);
}

/* The first key of a row that seems wrong becomes the named pair, if a run on this pair alone says so too. */
static s2_status try_row(s2_touch *touch, const s2_sight *sight, int64_t nth, s2_diag *why)
{
    const int64_t k_tok_end = touch->harness->some.seqs[sight->row[nth].seq].k_tok;
    bool reads = false;
    for (int64_t k_tok = 0; k_tok < k_tok_end; k_tok++) {
        const bool due = s2_sight_bit(sight, sight->due, nth, k_tok);
        if (due == s2_sight_bit(sight, sight->seen, nth, k_tok))
            continue;
        S2_TRY(s2_sight_reads(&touch->windows, sight->row[nth], k_tok, &reads, why));
        if (reads != due)
            name_pair(touch, sight, nth, k_tok, reads);
        break;
    }
    return S2_OK;
}

static bool is_looked_at_key(const s2_touch *touch, int64_t k_tok)
{
    for (int64_t nth = 0; nth < touch->n_windows; nth++)
        if (touch->window[nth] == k_tok / touch->windows.n_tok)
            return true;
    return false;
}

/* Keys outside of the windows were not compared: they count as read as they should be. */
static void count_wrong(s2_touch *touch, s2_sight *sight)
{
    for (int64_t byte = 0; byte < sight->row_bytes; byte++) {
        uint8_t looked = 0;
        for (int bit = 0; bit < 8; bit++)
            looked |=
                (uint8_t)((touch->n_windows == touch->windows.n || is_looked_at_key(touch, byte * 8 + bit))
                          << bit);
        for (int64_t nth = 0; nth < sight->n_rows; nth++) {
            uint8_t *const seen = &sight->seen[nth * sight->row_bytes + byte];
            const uint8_t due = sight->due[nth * sight->row_bytes + byte];
            *seen = (uint8_t)((*seen & looked) | (due & ~looked));
            if (sight->n_seen[nth] >= 0)
                touch->out->touch_wrong += __builtin_popcount((unsigned)(*seen ^ due));
        }
    }
}

/* Rows whose keys are known come first, then guesses. */
static s2_status name_one(s2_touch *touch, const s2_sight *sight, s2_diag *why)
{
    int32_t n_tries = 0;
    for (int known = 1; known >= 0; known--)
        for (int64_t nth = 0; nth < sight->n_rows && n_tries < 16 && !touch->out->has_wrong_pair; nth++) {
            if ((sight->n_seen[nth] >= 0) != (known == 1) ||
                memcmp(sight->seen + nth * sight->row_bytes, sight->due + nth * sight->row_bytes,
                       (size_t)sight->row_bytes) == 0)
                continue;
            n_tries++;
            S2_TRY(try_row(touch, sight, nth, why));
        }
    return S2_OK;
}

static void blame_values(s2_touch *touch, s2_probe_row row)
{
    touch->out->outcome = S2_OUTCOME_WRONG_VALUES;
    touch->out->touch_wrong = 0;
    snprintf(touch->out->reason, sizeof touch->out->reason,
             "layer %d, head %d, sequence %d: for equal scores query %lld gives neither the mean of the keys "
             "that it has to read nor that of other keys",
             touch->harness->some.layer, row.head, row.seq, (long long)position_of(touch, row));
}

static s2_status look_closer(s2_touch *touch, const s2_probe_row *row, int64_t n_rows, bool all, s2_diag *why)
{
    s2_sight sight = {0};
    bool known = all;
    s2_status status = s2_sight_open(touch->harness, row, n_rows, &sight);
    if (status == S2_OK)
        status = s2_sight_look(&sight, &touch->windows, touch->window, touch->n_windows, why);
    if (status == S2_OK) {
        count_wrong(touch, &sight);
        for (int64_t nth = 0; nth < n_rows; nth++)
            known = known && sight.n_seen[nth] >= 0;
        status = name_one(touch, &sight, why);
    }
    if (status == S2_OK && touch->out->has_wrong_pair)
        touch->out->touch_wrong = s2_max_i64(touch->out->touch_wrong, 1);
    else if (status == S2_OK)
        blame_values(touch, row[0]);
    touch->rows.all = touch->rows.all && known;
    s2_sight_close(&sight);
    return status;
}

/* All rows whose output is off, or as many as memory allows. */
static s2_status judge_outputs(s2_touch *touch, s2_diag *why)
{
    const int64_t n_columns = touch->n_windows * touch->harness->problem.head_dim;
    const int64_t limit = s2_max_i64((INT64_C(1) << 25) / n_columns, 1);
    int64_t n = 0, n_off = 0;
    for (int64_t nth = 0; nth < touch->rows.n; nth++)
        n_off += (touch->off[nth] & OFF_OUTPUT) != 0;
    if (n_off == 0)
        return S2_OK;
    s2_probe_row *const row = s2_calloc((size_t)n_off, sizeof *row);
    if (row == NULL)
        return S2_ENOMEM;
    for (int64_t nth = 0; nth < touch->rows.n && n < limit; nth++)
        if ((touch->off[nth] & OFF_OUTPUT) != 0)
            row[n++] = touch->rows.row[nth];
    const s2_status status = look_closer(touch, row, n, n == n_off, why);
    s2_free(row);
    return status;
}

/* ------------------------------------------------------------------ the LSE */

/* By what factor, and by how much, the LSE of rows of two keys and more exceeds the logarithm of their keys. */
typedef struct lse_range {
    double least[2], most[2];
    int32_t fewest, n_most; /* keys */
} lse_range;

static bool head_is_off(const s2_touch *touch, int32_t head)
{
    for (int64_t nth = 0; nth < touch->rows.n; nth++)
        if (touch->off[nth] != 0 && touch->rows.row[nth].head == head)
            return true;
    return false;
}

static lse_range range_of_lse(const s2_touch *touch, const uint8_t *is_off)
{
    lse_range all = {{INFINITY, INFINITY}, {-INFINITY, -INFINITY}, INT32_MAX, 0};
    for (int64_t nth = 0; nth < touch->rows.n; nth++) {
        const int32_t n = touch->sight.n_due[nth];
        const double lse = (double)lse_of(touch, touch->rows.row[nth]),
                     both[2] = {lse / log(n), lse - log(n)};
        if (n < 2 || is_off[touch->rows.row[nth].head] == 0)
            continue;
        all.fewest = s2_min_i32(n, all.fewest);
        all.n_most = s2_max_i32(n, all.n_most);
        for (int way = 0; way < 2; way++) {
            all.least[way] = fmin(all.least[way], both[way]);
            all.most[way] = fmax(all.most[way], both[way]);
        }
    }
    return all;
}

/* One number that is the same for all rows would explain the LSE: a factor on it, or something added. */
static void say_lse(const s2_touch *touch, const lse_range *all, const char *where)
{
    enum { CLOSE = 1000 };
    char *const to = touch->out->symptom;
    const size_t cap = sizeof touch->out->symptom;
    const double factor = all->least[0], added = all->least[1];
    const bool one_length = all->fewest == all->n_most;
    const bool steady[2] = {all->most[0] - factor < 1.0 / CLOSE, all->most[1] - added < 1.0 / CLOSE};
    if (steady[0] && fabs(factor - 1.0) < 1.0 / CLOSE) /* rows of one key are off, or none */
        return;
    if (steady[0] && fabs(factor - 1.0 / log(2.0)) < 1.0 / CLOSE)
        snprintf(to, cap, "gives the LSE in base 2, not the natural logarithm%s", where);
    else if (one_length) /* a factor and a sum look the same, unless it is a known one */
        return;
    else if (steady[0])
        snprintf(to, cap, "the LSE of every row is %s times what it has to be%s", s2_decimal(factor, 4).text,
                 where);
    else if (steady[1])
        snprintf(to, cap, "the LSE of every row is %s too %s%s", s2_decimal(fabs(added), 4).text,
                 added > 0.0 ? "large" : "small", where);
}

static bool only_empty_rows_are_off(const s2_touch *touch)
{
    for (int64_t nth = 0; nth < touch->rows.n; nth++)
        if (touch->off[nth] != 0 && touch->sight.n_due[nth] > 0)
            return false;
    return true;
}

/* Heads whose LSE is right are left out. */
static s2_status explain_lse(s2_touch *touch)
{
    const int32_t n_heads = touch->harness->problem.n_heads;
    uint8_t *const is_off = s2_calloc((size_t)n_heads, 1);
    char where[60] = "";
    int32_t n_off = 0, first = -1;
    if (is_off == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++) {
        is_off[head] = head_is_off(touch, head);
        first = is_off[head] != 0 && n_off++ == 0 ? head : first;
    }
    if (n_off == 1 && n_heads > 1)
        snprintf(where, sizeof where, ", in head %d alone", first);
    else if (n_off < n_heads)
        snprintf(where, sizeof where, ", in %d of %d heads, first in head %d", n_off, n_heads, first);
    const lse_range all = range_of_lse(touch, is_off);
    s2_free(is_off);
    if (only_empty_rows_are_off(touch))
        snprintf(touch->out->symptom, sizeof touch->out->symptom,
                 "gives rows without keys another LSE than minus infinity%s", where);
    else if (all.n_most > 1)
        say_lse(touch, &all, where);
    return S2_OK;
}

/* Reached where every output is right. */
static s2_status judge_lse(s2_touch *touch)
{
    for (int64_t nth = 0; nth < touch->rows.n; nth++) {
        const s2_probe_row row = touch->rows.row[nth];
        const int32_t n = touch->sight.n_due[nth];
        if (touch->off[nth] == 0)
            continue;
        const int said =
            snprintf(touch->out->reason, sizeof touch->out->reason,
                     "layer %d, head %d, sequence %d: the LSE of query %lld is %s for equal scores, where ",
                     touch->harness->some.layer, row.head, row.seq, (long long)position_of(touch, row),
                     s2_decimal((double)lse_of(touch, row), 6).text);
        char *const end = touch->out->reason + said;
        const size_t left = sizeof touch->out->reason - (size_t)said;
        if (n == 0)
            snprintf(end, left, "a row without keys has minus infinity");
        else
            snprintf(end, left, "%s is due, the logarithm of its %d key%s%s", s2_decimal(log(n), 6).text, n,
                     n == 1 ? "" : "s",
                     touch->n_windows < touch->windows.n ? "; not all keys were compared" : "");
        touch->out->outcome = S2_OUTCOME_WRONG_VALUES;
        return explain_lse(touch);
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ the stage */

static s2_status reserve(s2_touch *touch)
{
    const s2_validate_request *const request = touch->request;
    S2_TRY(s2_probe_rows_choose(touch->harness, request->budget_pairs, request->seed, request->few_heads,
                                &touch->rows));
    S2_TRY(s2_sight_open(touch->harness, touch->rows.row, touch->rows.n, &touch->sight));
    S2_TRY(s2_windows_open(touch->harness, request->seed, &touch->windows));
    touch->off = s2_calloc((size_t)touch->rows.n, 1);
    touch->window = s2_calloc((size_t)touch->windows.n, sizeof *touch->window);
    return touch->off != NULL && touch->window != NULL ? S2_OK : S2_ENOMEM;
}

s2_status s2_probe_touch(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                         s2_diag *why)
{
    s2_touch touch = {.harness = harness, .request = request, .out = out};
    s2_status status = reserve(&touch);
    if (status == S2_OK)
        status = all_windows(&touch, why);
    touch.rows.all = touch.rows.all && touch.n_windows == touch.windows.n && out->outcome == S2_OUTCOME_OK;
    if (status == S2_OK && out->outcome == S2_OUTCOME_OK)
        status = judge_outputs(&touch, why);
    if (status == S2_OK && out->outcome == S2_OUTCOME_OK)
        status = judge_lse(&touch);
    out->touch_exhaustive = touch.rows.all;
    s2_free(touch.rows.row);
    s2_sight_close(&touch.sight);
    s2_windows_close(&touch.windows);
    s2_free(touch.off);
    s2_free(touch.window);
    return status;
}
