/*
 * Page selection judged by its definition in fp64: which pages the bounds choose, then attention over them.
 */
#include "tests/kcheck/selection.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/float16.h"
#include "pattern/parse.h"

enum { HEADS = 8, KV_HEADS = 2, DIM = 128, PAGE_TOK = 64, LIMIT_PAGES = 160, N_SEQS = 2, CAP_TOK = 9000 };

typedef struct s2_judge {
    s2_device *device;
    s2_attn_problem problem; /* device addresses */
    s2_plan plan;
    s2_arena arena;
    uint16_t *q, *k, *v, *o;
    float *lse;
    int32_t budget;
} s2_judge;

static const s2_plan_seq seqs[N_SEQS] = {{1, CAP_TOK}, {1, 1500}};
static const int64_t kv_elems = (int64_t)N_SEQS * KV_HEADS * CAP_TOK * DIM,
                     q_elems = (int64_t)N_SEQS * HEADS * DIM;

static s2_status set_up(s2_judge *at, const s2_kernel *kernel)
{
    static const char text[] = "heads 8; kv-heads 2; head-dim 128; block 64; layers all: dense";
    s2_pattern *const pattern = S2_NEW(&at->arena, s2_pattern, 1);
    const s2_device_ops *const ops = at->device->ops;
    s2_attn_problem *const p = &at->problem;
    S2_TRY(s2_pattern_parse(&at->arena, text, sizeof text - 1, NULL, pattern, NULL));
    *p = (s2_attn_problem){.pass = S2_PASS_DECODE,
                           .dtype = S2_BF16,
                           .n_seqs = N_SEQS,
                           .n_heads = HEADS,
                           .n_kv_heads = KV_HEADS,
                           .head_dim = DIM,
                           .scale = 0.0883883f,
                           .select_pages = at->budget,
                           .select_page_tok = PAGE_TOK};
    const s2_plan_options options = s2_kernel_cut(kernel->traits, p->head_dim);
    S2_TRY(s2_plan_build(&at->arena, pattern, S2_DECODE, 0, seqs, N_SEQS, &options, &at->plan, NULL));
    p->plan = &at->plan;
    p->q = p->o = (s2_tensor){NULL, HEADS * DIM, HEADS * DIM, DIM};
    p->k = p->v = (s2_tensor){NULL, (int64_t)KV_HEADS * CAP_TOK * DIM, DIM, (int64_t)CAP_TOK * DIM};
    void *lse = NULL;
    void **const data[] = {&p->q.data, &p->k.data, &p->v.data, &p->o.data, &lse};
    for (int x = 0; x < 5; x++) {
        const int64_t n = x == 1 || x == 2 ? kv_elems : 2 * q_elems;
        S2_TRY(ops->alloc(at->device, (size_t)n * 2, data[x]));
        S2_TRY(ops->fill_normal(at->device, *data[x], x < 3 ? (x == 0 ? q_elems : n) : 0, S2_BF16,
                                (uint64_t)x + 40, x == 0 ? 2.0f : 1.0f));
    }
    p->lse = (s2_rows){lse, HEADS, 1};
    at->q = s2_calloc((size_t)q_elems, 2);
    at->k = s2_calloc((size_t)kv_elems, 2);
    at->v = s2_calloc((size_t)kv_elems, 2);
    at->o = s2_calloc((size_t)q_elems, 2);
    at->lse = s2_calloc(N_SEQS * HEADS, sizeof *at->lse);
    return at->q != NULL && at->k != NULL && at->v != NULL && at->o != NULL && at->lse != NULL ? S2_OK
                                                                                               : S2_ENOMEM;
}

static s2_status compute(s2_judge *at, const s2_kernel *kernel)
{
    const s2_device_ops *const ops = at->device->ops;
    const s2_attn_problem *const p = &at->problem;
    void *state = NULL;
    S2_TRY(ops->fill(at->device, p->o.data, 0xff, (size_t)q_elems * 2));
    S2_TRY(kernel->prepare(at->device, p, &state, NULL));
    s2_status status = S2_OK;
    for (int again = 0; again < 3 && status == S2_OK; again++)
        status = kernel->run(at->device, p, state, NULL);
    if (status == S2_OK)
        status = ops->sync(at->device, NULL);
    kernel->finish(at->device, state);
    S2_TRY(status);
    S2_TRY(ops->copy_out(at->device, at->q, p->q.data, (size_t)q_elems * 2));
    S2_TRY(ops->copy_out(at->device, at->k, p->k.data, (size_t)kv_elems * 2));
    S2_TRY(ops->copy_out(at->device, at->v, p->v.data, (size_t)kv_elems * 2));
    S2_TRY(ops->copy_out(at->device, at->o, p->o.data, (size_t)q_elems * 2));
    return ops->copy_out(at->device, at->lse, p->lse.data, N_SEQS * HEADS * sizeof(float));
}

static double key_at(const s2_judge *at, const uint16_t *data, int32_t seq, int32_t kv, int32_t k_tok,
                     int32_t d)
{
    const s2_tensor *const k = &at->problem.k;
    return (double)s2_float_load(data, S2_BF16, seq * k->seq + k_tok * k->tok + kv * k->head + d);
}

static double query_at(const s2_judge *at, int32_t seq, int32_t head, int32_t d)
{
    return (double)s2_float_load(at->q, S2_BF16, ((int64_t)seq * HEADS + head) * DIM + d);
}

static double score_page(const s2_judge *at, int32_t seq, int32_t kv, int32_t page)
{
    double scores[HEADS / KV_HEADS] = {0}, best = -INFINITY;
    for (int32_t d = 0; d < DIM; d++) {
        double low = INFINITY, high = -INFINITY;
        for (int32_t key = page * PAGE_TOK; key < (page + 1) * PAGE_TOK; key++) {
            low = fmin(low, key_at(at, at->k, seq, kv, key, d));
            high = fmax(high, key_at(at, at->k, seq, kv, key, d));
        }
        for (int32_t row = 0; row < HEADS / KV_HEADS; row++) {
            const double q = query_at(at, seq, kv * (HEADS / KV_HEADS) + row, d);
            scores[row] += fmax(q * low, q * high);
        }
    }
    for (int32_t row = 0; row < HEADS / KV_HEADS; row++)
        best = fmax(best, scores[row]);
    return best;
}

static int32_t choose(const s2_judge *at, int32_t seq, int32_t kv, bool *chosen)
{
    double scores[LIMIT_PAGES];
    const int32_t n = (seqs[seq].k_tok - 1) / PAGE_TOK + 1;
    for (int32_t page = 0; page < n - 1; page++)
        scores[page] = score_page(at, seq, kv, page);
    memset(chosen, 0, LIMIT_PAGES * sizeof *chosen);
    chosen[n - 1] = true;
    for (int32_t left = at->budget - 1; left > 0; left--) {
        int32_t best = -1;
        for (int32_t page = 0; page < n - 1; page++)
            if (!chosen[page] && (best < 0 || scores[page] > scores[best]))
                best = page;
        if (best >= 0)
            chosen[best] = true;
    }
    return n;
}

/* The worst difference of a row from attention over the chosen pages. */
static double judge_row(const s2_judge *at, int32_t seq, int32_t head, const bool *chosen)
{
    const int32_t kv = head / (HEADS / KV_HEADS);
    double o[DIM] = {0}, sum = 0.0, worst = 0.0;
    for (int32_t k_tok = 0; k_tok < seqs[seq].k_tok; k_tok++) {
        double dot = 0.0;
        if (!chosen[k_tok / PAGE_TOK])
            continue;
        for (int32_t d = 0; d < DIM; d++)
            dot += query_at(at, seq, head, d) * key_at(at, at->k, seq, kv, k_tok, d);
        const double weight = exp(dot * (double)at->problem.scale);
        sum += weight;
        for (int32_t d = 0; d < DIM; d++)
            o[d] += weight * key_at(at, at->v, seq, kv, k_tok, d);
    }
    for (int32_t d = 0; d < DIM; d++) {
        const double got = (double)s2_float_load(at->o, S2_BF16, ((int64_t)seq * HEADS + head) * DIM + d);
        const double diff = fabs(got - o[d] / sum);
        worst = isnan(diff) || diff > worst ? diff : worst;
    }
    const double lse = fabs((double)at->lse[seq * HEADS + head] - log(sum));
    return isnan(lse) || lse > 1e-3 ? INFINITY : worst;
}

static bool judge(const s2_judge *at, char *reason, size_t reason_cap)
{
    bool chosen[LIMIT_PAGES];
    for (int32_t seq = 0; seq < N_SEQS; seq++)
        for (int32_t head = 0; head < HEADS; head++) {
            choose(at, seq, head / (HEADS / KV_HEADS), chosen);
            const double err = judge_row(at, seq, head, chosen);
            if (err < 0.01)
                continue;
            snprintf(reason, reason_cap, "sequence %d, head %d: off by %.3g", seq, head, err);
            return false;
        }
    return true;
}

bool s2_selection_judge(s2_device *device, const s2_kernel *kernel, int32_t budget, char *reason,
                        size_t reason_cap)
{
    s2_judge at = {.device = device, .budget = budget};
    s2_status status = set_up(&at, kernel);
    if (status == S2_OK)
        status = compute(&at, kernel);
    bool good = status == S2_OK;
    if (good)
        good = judge(&at, reason, reason_cap);
    else
        snprintf(reason, reason_cap, "%s", s2_status_text(status));
    void *const device_memory[] = {at.problem.q.data, at.problem.k.data, at.problem.v.data, at.problem.o.data,
                                   at.problem.lse.data};
    for (size_t x = 0; x < sizeof device_memory / sizeof *device_memory; x++)
        device->ops->release(device, device_memory[x]);
    s2_free(at.q);
    s2_free(at.k);
    s2_free(at.v);
    s2_free(at.o);
    s2_free(at.lse);
    s2_arena_release(&at.arena);
    return good;
}
