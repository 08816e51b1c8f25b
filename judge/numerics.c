#include "judge/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "kernels/float16.h"
#include "kernels/oracle.h"

typedef struct s2_numerics {
    s2_harness *harness;
    s2_validation *out;
    const s2_validate_request *request;
    bool twice; /* a second run must give the bits of the first */
    uint8_t *k; /* host copies of all keys and values, as the device lays them out */
    uint8_t *v;
    float *q_row;         /* room for one query in the problem's type */
    s2_probe_rows rows;   /* compared with fp64 */
    s2_attn_problem host; /* the problem with host addresses; its q is q_row for every query */
    s2_oracle_row oracle;
} s2_numerics;

enum { STREAM_Q = 1, STREAM_K = 2, STREAM_V = 3 };

static uint64_t stream(const s2_numerics *check, uint64_t which)
{
    return check->request->seed * 16 + which;
}

/* ------------------------------------------------------------------ poison */

/* Which keys of one KV head any row may read: 0 block in no list, 1 block in a list, key unread, 2 read. */
static s2_status mark_lists(const s2_plan *plan, int32_t seq, int32_t kv_head, uint8_t *mark,
                            s2_plan_list *list)
{
    for (int32_t nth = 0; nth < plan->n_items; nth++) {
        const s2_plan_item *const item = &plan->items[nth];
        if (item->seq != seq || s2_pattern_kv_head(plan->pattern, item->head) != kv_head)
            continue;
        S2_TRY(s2_plan_tile_list(plan, item->cls, item->seq, item->tile, list));
        for (int32_t e = 0; e < list->n_entries; e++) {
            const int64_t begin = (int64_t)list->entries[e].k_blk * plan->blk_tok;
            for (int64_t k_tok = begin; k_tok < begin + plan->blk_tok && k_tok < plan->seqs[seq].k_tok;
                 k_tok++)
                mark[k_tok] = mark[k_tok] == 2 || list->entries[e].full ? 2 : 1;
        }
    }
    return S2_OK;
}

static s2_status mark_row(const s2_plan *plan, const s2_plan_item *item, int64_t q_tok, uint8_t *mark,
                          s2_plan_list *scratch)
{
    const s2_plan_seq lens = plan->seqs[item->seq];
    const s2_view *const view = &plan->classes[item->cls].view;
    const int64_t position = lens.k_tok - lens.q_tok + q_tok;
    int64_t n;
    S2_TRY(s2_view_row_whole(view, position, lens.k_tok, NULL, &scratch->runs, &scratch->cap_runs, &n));
    for (int64_t r = 0; r < n; r++)
        memset(mark + scratch->runs[r].begin, 2, (size_t)(scratch->runs[r].end - scratch->runs[r].begin));
    return S2_OK;
}

static s2_status mark_rows(const s2_harness *harness, int32_t seq, int32_t kv_head, uint8_t *mark,
                           s2_plan_list *list)
{
    const s2_plan *const plan = &harness->some;
    for (int32_t nth = 0; nth < plan->n_items; nth++) {
        const s2_plan_item *const item = &plan->items[nth];
        if (item->seq != seq || s2_pattern_kv_head(plan->pattern, item->head) != kv_head)
            continue;
        int64_t end;
        for (int64_t q_tok = s2_harness_item_queries(plan, item, &end); q_tok < end; q_tok++)
            S2_TRY(mark_row(plan, item, q_tok, mark, list));
    }
    return S2_OK;
}

/*
 * NaN in blocks of no list; a large finite value in listed blocks where no row may read (0 times NaN is NaN).
 */
static void poison_keys(const s2_harness *harness, int32_t seq, int32_t kv_head, const uint8_t *mark,
                        bool rows_known, uint8_t *k, uint8_t *v)
{
    const s2_attn_problem *const p = &harness->problem;
    for (int32_t k_tok = 0; k_tok < harness->some.seqs[seq].k_tok; k_tok++) {
        if (mark[k_tok] == 2 || (mark[k_tok] == 1 && !rows_known))
            continue;
        const float value = mark[k_tok] == 0 && !harness->kernel->loads_all ? NAN : 30000.0f;
        const int64_t at_k = s2_tensor_at(&p->k, p->k_begin_tok, seq, k_tok, kv_head);
        const int64_t at_v = s2_tensor_at(&p->v, p->k_begin_tok, seq, k_tok, kv_head);
        for (int32_t d = 0; d < p->head_dim; d++) {
            s2_float_store(k, s2_kv_dtype(p), at_k + d, value);
            s2_float_store(v, s2_kv_dtype(p), at_v + d, value);
        }
    }
}

s2_status s2_probe_poison(const s2_harness *harness, const s2_plan *beside, uint8_t *k, uint8_t *v)
{
    const s2_plan *const plan = &harness->some;
    const bool rows_known = plan->n_items * (int64_t)plan->options.tile_tok <= 300000;
    s2_status status = S2_OK;
    s2_plan_list list = {0};
    for (int32_t seq = 0; status == S2_OK && seq < plan->n_seqs; seq++) {
        uint8_t *const mark = s2_malloc((size_t)plan->seqs[seq].k_tok);
        for (int32_t g = 0; mark != NULL && status == S2_OK && g < plan->pattern->n_kv_heads; g++) {
            memset(mark, 0, (size_t)plan->seqs[seq].k_tok);
            status = mark_lists(plan, seq, g, mark, &list);
            if (status == S2_OK && beside != NULL)
                status = mark_lists(beside, seq, g, mark, &list);
            if (status == S2_OK && rows_known)
                status = mark_rows(harness, seq, g, mark, &list);
            if (status == S2_OK)
                poison_keys(harness, seq, g, mark, rows_known, k, v);
        }
        status = mark == NULL ? S2_ENOMEM : status;
        s2_free(mark);
    }
    s2_plan_list_release(&list);
    return status;
}

/* ------------------------------------------------------------------ data */

static s2_status copy_and_poison(s2_numerics *check)
{
    s2_harness *const harness = check->harness;
    s2_device *const device = harness->device;
    const s2_device_ops *const ops = device->ops;
    S2_TRY(ops->copy_out(device, check->k, harness->problem.k.data, harness->k.n_bytes));
    S2_TRY(ops->copy_out(device, check->v, harness->problem.v.data, harness->v.n_bytes));
    S2_TRY(s2_probe_poison(check->harness, NULL, check->k, check->v));
    S2_TRY(ops->copy_in(device, harness->problem.k.data, check->k, harness->k.n_bytes));
    return ops->copy_in(device, harness->problem.v.data, check->v, harness->v.n_bytes);
}

/* One KV head of one sequence, which is contiguous when the layout is by heads. */
static s2_status copy_head(s2_numerics *check, int32_t seq, int32_t kv_head)
{
    const s2_attn_problem *const p = &check->harness->problem;
    const s2_device_ops *const ops = check->harness->device->ops;
    const int64_t bytes = s2_dtype_bytes(s2_kv_dtype(p)), n_tok = check->harness->some.seqs[seq].k_tok;
    const int64_t begin = s2_tensor_at(&p->k, p->k_begin_tok, seq, 0, kv_head) * bytes;
    const int64_t last = s2_tensor_at(&p->k, p->k_begin_tok, seq, n_tok - 1, kv_head) * bytes;
    const size_t n = (size_t)(last - begin + p->head_dim * bytes);
    S2_TRY(ops->copy_out(check->harness->device, check->k + begin, (uint8_t *)p->k.data + begin, n));
    return ops->copy_out(check->harness->device, check->v + begin, (uint8_t *)p->v.data + begin, n);
}

static s2_status copy_looked_at(s2_numerics *check)
{
    for (int64_t n = 0; n < check->rows.n; n++) {
        const int32_t seq = check->rows.row[n].seq;
        const int32_t kv_head = s2_pattern_kv_head(check->harness->some.pattern, check->rows.row[n].head);
        bool had = false;
        for (int64_t m = 0; m < n && !had; m++)
            had = check->rows.row[m].seq == seq &&
                  s2_pattern_kv_head(check->harness->some.pattern, check->rows.row[m].head) == kv_head;
        if (!had)
            S2_TRY(copy_head(check, seq, kv_head));
    }
    return S2_OK;
}

static s2_status fill(s2_numerics *check)
{
    s2_harness *const harness = check->harness;
    S2_TRY(s2_harness_fill_queries(harness, stream(check, STREAM_Q), check->request->spread));
    S2_TRY(s2_harness_scale(harness, S2_HARNESS_UNIT, S2_HARNESS_UNIT, true));
    S2_TRY(s2_harness_fill_keys(harness, stream(check, STREAM_K), 1.0f));
    S2_TRY(s2_harness_fill_values(harness, stream(check, STREAM_V)));
    S2_TRY(s2_harness_draw_sinks(harness, check->request->seed));
    S2_TRY(s2_harness_shift_scores(harness, check->request->shift));
    check->k = s2_malloc(harness->k.n_bytes);
    check->v = s2_malloc(harness->v.n_bytes);
    check->q_row = s2_calloc((size_t)harness->problem.head_dim, sizeof *check->q_row);
    if (check->k == NULL || check->v == NULL || check->q_row == NULL)
        return S2_ENOMEM;
    S2_TRY(check->request->few_heads ? copy_looked_at(check) : copy_and_poison(check));
    check->host = harness->problem;
    check->host.q = (s2_tensor){.data = check->q_row};
    check->host.k.data = check->k;
    check->host.v.data = check->v;
    check->host.sink = harness->host_sink;
    check->host.q_scale = harness->host_q_scale;
    check->host.k_scale = harness->host_k_scale;
    check->host.v_scale = harness->host_v_scale;
    return S2_OK;
}

/* The query as fill_normal made it: cheaper than a host copy of all of Q. */
static void make_query(s2_numerics *check, s2_probe_row row)
{
    const s2_attn_problem *const p = &check->harness->problem;
    const int64_t from = s2_tensor_at(&p->q, p->q_begin_tok, row.seq, row.q_tok, row.head);
    for (int32_t d = 0; d < p->head_dim; d++)
        s2_float_store(check->q_row, s2_q_dtype(p), d,
                       s2_input_value(stream(check, STREAM_Q), (uint64_t)(from + d)) *
                           (check->request->spread / check->harness->q_unit));
    if (check->request->shift != 0.0f)
        s2_float_store(check->q_row, s2_q_dtype(p), 0, s2_harness_shift_query(p, check->request->shift));
}

/* ------------------------------------------------------------------ verdicts */

static int64_t position_of(const s2_numerics *check, int32_t seq, int64_t q_tok)
{
    const s2_plan_seq lens = check->harness->some.seqs[seq];
    return lens.k_tok - lens.q_tok + q_tok;
}

static s2_outcome blame(s2_numerics *check, s2_outcome outcome, s2_probe_row row, const char *what,
                        double err, double tol)
{
    snprintf(check->out->reason, sizeof check->out->reason,
             "layer %d, head %d, sequence %d, query %lld: %s is off by %s where %s is allowed",
             check->harness->some.layer, row.head, row.seq, (long long)position_of(check, row.seq, row.q_tok),
             what, s2_decimal(err, 3).text, s2_decimal(tol, 3).text);
    return outcome;
}

static s2_outcome judge_row(s2_numerics *check, s2_probe_row row)
{
    const s2_attn_problem *const p = &check->harness->problem;
    const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
    const double lse = (double)s2_harness_lse(
        check->harness)[s2_rows_at(&p->lse, p->q_begin_tok, row.seq, row.q_tok, row.head)];
    const s2_row_error error = s2_oracle_compare(p, &check->oracle, s2_harness_o(check->harness), o_at, lse);
    if (!(error.err < check->out->max_err)) {
        check->out->max_err = error.err;
        check->out->tol = error.tol;
    }
    check->out->rows++;
    if (!(error.err <= error.tol))
        return blame(check, S2_OUTCOME_WRONG_VALUES, row, "the output", error.err, error.tol);
    if (check->harness->kernel->no_lse)
        return S2_OUTCOME_OK;
    if (check->oracle.n_keys == 0)
        return error.lse_err <= error.lse_tol
                   ? S2_OUTCOME_OK
                   : blame(check, S2_OUTCOME_WRONG_VALUES, row, "the LSE of an empty row", lse, 0.0);
    check->out->lse_err = fmax(check->out->lse_err, error.lse_err);
    if (!(error.lse_err <= error.lse_tol))
        return blame(check, S2_OUTCOME_WRONG_VALUES, row, "the log-sum-exp", error.lse_err, error.lse_tol);
    return S2_OUTCOME_OK;
}

/* An exponent of all ones is infinity or NaN; without calls the loop works on a vector at a time. */
static bool all_finite16(const uint16_t *bits, int32_t n, uint16_t exponent)
{
    int32_t n_bad = 0;
    for (int32_t d = 0; d < n; d++)
        n_bad += (bits[d] & exponent) == exponent;
    return n_bad == 0;
}

static bool row_is_finite(const s2_harness *harness, int64_t o_at)
{
    const s2_attn_problem *const p = &harness->problem;
    if (p->dtype != S2_F32)
        return all_finite16((const uint16_t *)s2_harness_o(harness) + o_at, p->head_dim,
                            p->dtype == S2_BF16 ? 0x7f80 : 0x7c00);
    bool good = true;
    for (int32_t d = 0; d < p->head_dim && good; d++)
        good = isfinite(((const float *)s2_harness_o(harness))[o_at + d]);
    return good;
}

/* Every output that the plan owns must be finite; only LSE may also be minus infinity. */
static s2_outcome find_nan(s2_numerics *check)
{
    const s2_attn_problem *const p = &check->harness->problem;
    const s2_plan *const plan = &check->harness->some;
    const int64_t bytes = s2_dtype_bytes(p->dtype);
    s2_row_walk walk = {.plan = plan};
    for (s2_probe_row row; s2_harness_next_row(&walk, &row);) {
        const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head);
        const float lse =
            s2_harness_lse(check->harness)[s2_rows_at(&p->lse, p->q_begin_tok, row.seq, row.q_tok, row.head)];
        const bool good_lse = check->harness->kernel->no_lse || (!isnan(lse) && lse < INFINITY);
        if (good_lse && row_is_finite(check->harness, o_at))
            continue;
        snprintf(check->out->reason, sizeof check->out->reason,
                 "layer %d, head %d, sequence %d, query %lld: the result is %s", plan->layer, row.head,
                 row.seq, (long long)position_of(check, row.seq, row.q_tok),
                 s2_harness_unwritten((const uint8_t *)s2_harness_o(check->harness) + o_at * bytes,
                                      (size_t)(p->head_dim * bytes))
                     ? "never written"
                     : "not a number");
        return S2_OUTCOME_NAN;
    }
    return S2_OUTCOME_OK;
}

static s2_outcome find_stray(s2_numerics *check)
{
    const char *buffer = "";
    const int64_t stray = s2_harness_stray_byte(check->harness, &buffer);
    if (stray == INT64_MIN)
        return S2_OUTCOME_OK;
    snprintf(check->out->reason, sizeof check->out->reason,
             "byte %lld of %s was written, which belongs to no row of the plan (the buffer has %lld bytes)",
             (long long)stray, buffer,
             (long long)(buffer[4] == 'o' ? check->harness->o.n_bytes : check->harness->lse.n_bytes));
    return S2_OUTCOME_OUT_OF_BOUNDS;
}

static s2_status judge_rows(s2_numerics *check)
{
    for (int64_t n = 0; n < check->rows.n && check->out->outcome == S2_OUTCOME_OK; n++) {
        const s2_probe_row row = check->rows.row[n];
        make_query(check, row);
        S2_TRY(s2_oracle_eval(&check->host, row.seq, row.q_tok, row.head, check->harness->kernel->tolerance,
                              &check->oracle));
        check->out->outcome = judge_row(check, row);
        if (check->request->progress != NULL && n % 16 == 0)
            check->request->progress(check->request->user, "numerics", (int32_t)n, (int32_t)check->rows.n);
    }
    return S2_OK;
}

/* The second run must give the bits of the first. */
static s2_status compare_again(s2_numerics *check, uint8_t *o, uint8_t *lse, s2_diag *why)
{
    s2_harness *const harness = check->harness;
    const size_t o_bytes = harness->o.n_bytes + 2 * S2_GUARD_BYTES,
                 lse_bytes = harness->lse.n_bytes + 2 * S2_GUARD_BYTES;
    memcpy(o, harness->host_o, o_bytes);
    memcpy(lse, harness->host_lse, lse_bytes);
    S2_TRY(s2_harness_run(harness, NULL, why));
    if (memcmp(o, harness->host_o, o_bytes) == 0 && memcmp(lse, harness->host_lse, lse_bytes) == 0)
        return S2_OK;
    snprintf(check->out->reason, sizeof check->out->reason,
             "layer %d: two runs on the same data differ in bits", harness->some.layer);
    check->out->outcome = S2_OUTCOME_NOT_REPEATABLE;
    return S2_OK;
}

static s2_status run_again(s2_numerics *check, s2_diag *why)
{
    uint8_t *const o = s2_malloc(check->harness->o.n_bytes + 2 * S2_GUARD_BYTES);
    uint8_t *const lse = s2_malloc(check->harness->lse.n_bytes + 2 * S2_GUARD_BYTES);
    const s2_status status = o != NULL && lse != NULL ? compare_again(check, o, lse, why) : S2_ENOMEM;
    s2_free(o);
    s2_free(lse);
    return status;
}

static s2_status judge(s2_numerics *check, s2_diag *why)
{
    const bool all = !check->request->few_heads;
    S2_TRY(fill(check));
    if (all)
        S2_TRY(s2_harness_run(check->harness, NULL, why));
    else
        S2_TRY(s2_harness_run_rows(check->harness, check->rows.row, check->rows.n, NULL, why));
    if (all)
        check->out->outcome = find_stray(check);
    if (all && check->out->outcome == S2_OUTCOME_OK)
        check->out->outcome = find_nan(check);
    S2_STAGE(check->out, judge_rows(check));
    if (all && check->twice)
        S2_STAGE(check->out, run_again(check, why));
    return S2_OK;
}

static s2_status probe(s2_harness *harness, const s2_validate_request *request, bool twice,
                       s2_validation *out, s2_diag *why)
{
    s2_numerics check = {.harness = harness, .out = out, .request = request, .twice = twice};
    /* a row costs about as much as head_dim / 16 pair look-ups per key */
    const int64_t budget = request->budget_pairs / (4 + harness->problem.head_dim / 4);
    s2_status status = s2_probe_rows_choose(harness, budget, request->seed, request->few_heads, &check.rows);
    if (status == S2_OK)
        status = judge(&check, why);
    s2_free(check.k);
    s2_free(check.v);
    s2_free(check.q_row);
    s2_free(check.rows.row);
    s2_oracle_row_release(&check.oracle);
    return status;
}

s2_status s2_probe_values(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                          s2_diag *why)
{
    return probe(harness, request, false, out, why);
}

s2_status s2_probe_numerics(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                            s2_diag *why)
{
    return probe(harness, request, harness->kernel->deterministic, out, why);
}
