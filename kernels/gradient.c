#include "kernels/gradient.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/float16.h"
#include "pattern/dense.h"

/* ------------------------------------------------------------------ pairs */

/* The addresses of one (query, key) pair of a head. */
typedef struct s2_pair {
    int64_t q, d_o, k, v;
} s2_pair;

static s2_pair pair_at(const s2_attn_problem *p, int32_t seq, int32_t q_tok, int32_t head, int32_t k_tok)
{
    const int32_t kv_head = s2_pattern_kv_head(p->plan->pattern, head);
    return (s2_pair){s2_tensor_at(&p->q, p->q_begin_tok, seq, q_tok, head),
                     s2_tensor_at(&p->d_o, p->q_begin_tok, seq, q_tok, head),
                     s2_tensor_at(&p->k, p->k_begin_tok, seq, k_tok, kv_head),
                     s2_tensor_at(&p->v, p->k_begin_tok, seq, k_tok, kv_head)};
}

/* The products of two rows: their sum, and the sum of their magnitudes. */
typedef struct s2_dot {
    double sum, size;
} s2_dot;

static s2_dot dot(const s2_attn_problem *p, const s2_tensor *a, int64_t a_at, const s2_tensor *b,
                  int64_t b_at)
{
    s2_dot out = {0.0, 0.0};
    for (int32_t d = 0; d < p->head_dim; d++) {
        const double product = (double)s2_float_load(a->data, p->dtype, a_at + d) *
                               (double)s2_float_load(b->data, p->dtype, b_at + d);
        out.sum += product;
        out.size += fabs(product);
    }
    return out;
}

/* ------------------------------------------------------------------ rows */

static s2_gradient_row *row_at(const s2_gradient *g, int32_t seq, int32_t q_tok, int32_t head)
{
    const int64_t n_q = g->problem->plan->seqs[seq].q_tok;
    return &g->rows[g->row_begin[seq] + head * n_q + q_tok];
}

/* Whether the plan has an item for this row: other rows contribute nothing to dK and dV. */
static bool row_counts(const s2_gradient *gradient, int32_t seq, int32_t q_tok, int32_t head)
{
    return row_at(gradient, seq, q_tok, head)->counts;
}

static void mark_item(s2_gradient *g, const s2_plan_item *item)
{
    const s2_plan *const plan = g->problem->plan;
    const s2_plan_seq lens = plan->seqs[item->seq];
    const int64_t begin = s2_plan_tile_begin(plan, item->seq, item->tile) - (lens.k_tok - lens.q_tok);
    for (int64_t q_tok = begin; q_tok < begin + plan->options.tile_tok; q_tok++)
        for (int32_t head = item->head; head < item->head + item->n_heads; head++)
            if (q_tok >= 0 && q_tok < lens.q_tok)
                row_at(g, item->seq, (int32_t)q_tok, head)->counts = true;
}

s2_status s2_gradient_open(s2_gradient *gradient, const s2_attn_problem *problem, s2_tolerance tolerance,
                           bool given)
{
    const s2_plan *const plan = problem->plan;
    const size_t dim = (size_t)problem->head_dim;
    int64_t n_rows = 0;
    *gradient = (s2_gradient){.problem = problem, .tolerance = tolerance, .given = given};
    gradient->row_begin = s2_calloc((size_t)plan->n_seqs, sizeof *gradient->row_begin);
    for (int32_t seq = 0; gradient->row_begin != NULL && seq < plan->n_seqs; seq++) {
        gradient->row_begin[seq] = n_rows;
        n_rows += (int64_t)plan->seqs[seq].q_tok * problem->n_heads;
    }
    gradient->rows = s2_calloc((size_t)n_rows + 1, sizeof *gradient->rows);
    gradient->scratch = s2_calloc(10 * dim, sizeof *gradient->scratch);
    if (gradient->row_begin == NULL || gradient->rows == NULL || gradient->scratch == NULL) {
        s2_gradient_close(gradient);
        return S2_ENOMEM;
    }
    double *next = gradient->scratch + 2 * dim;
    for (int32_t o = 0; o < 2; o++, next += 4 * dim)
        gradient->out[o] = (s2_gradient_out){next, next + dim, next + 2 * dim, next + 3 * dim};
    for (int32_t item = 0; item < plan->n_items; item++)
        mark_item(gradient, &plan->items[item]);
    return S2_OK;
}

void s2_gradient_close(s2_gradient *gradient)
{
    s2_free(gradient->rows);
    s2_free(gradient->row_begin);
    s2_free(gradient->scratch);
    s2_oracle_row_release(&gradient->oracle);
    *gradient = (s2_gradient){0};
}

static void take_row(const s2_gradient *g, s2_gradient_row *row, int32_t seq, int32_t q_tok, int32_t head,
                     const double *o, const double *plain_o)
{
    const s2_attn_problem *const p = g->problem;
    const int64_t first = s2_tensor_at(&p->d_o, p->q_begin_tok, seq, q_tok, head);
    /* Below it the spacing of numbers is constant; O gets there under a sink that outweighs all keys. */
    const double smallest_normal = p->dtype == S2_F16 ? 0x1p-14 : 0x1p-126;
    row->known = true;
    for (int32_t d = 0; d < p->head_dim; d++) {
        const float d_o = s2_float_load(p->d_o.data, p->dtype, first + d);
        row->delta += (double)d_o * o[d];
        row->plain_delta += d_o * (float)plain_o[d];
        const double moved = (double)d_o * fmax(fabs(o[d]), smallest_normal);
        row->delta_noise += moved * moved;
    }
    row->delta_noise = sqrt(row->delta_noise);
}

/* The forward rounds each weight: what that does to dO . o adds to what the rounding of o does. */
static double weights_noise(const s2_gradient *g, int32_t seq, int32_t q_tok, int32_t head)
{
    const s2_attn_problem *const p = g->problem;
    const s2_oracle_row *const row = &g->oracle;
    double noise = 0.0;
    for (int32_t n = 0; n < row->n_keys; n++) {
        const s2_pair pair = pair_at(p, seq, q_tok, head, row->keys[n]);
        const double moved = exp(row->score[n] - row->lse) * dot(p, &p->d_o, pair.d_o, &p->v, pair.v).sum;
        noise += moved * moved;
    }
    return sqrt(noise);
}

static s2_status know_row(s2_gradient *g, int32_t seq, int32_t q_tok, int32_t head, s2_gradient_row *row)
{
    const s2_attn_problem *const p = g->problem;
    if (!g->given) {
        S2_TRY(s2_oracle_eval(p, seq, q_tok, head, g->tolerance, &g->oracle));
        row->lse = g->oracle.lse;
        row->plain_lse = (float)g->oracle.rounded_lse;
        take_row(g, row, seq, q_tok, head, g->oracle.o, g->oracle.rounded);
        if (g->tolerance != S2_TOL_EXACT)
            row->delta_noise = hypot(row->delta_noise, weights_noise(g, seq, q_tok, head));
        return S2_OK;
    }
    const int64_t first = s2_tensor_at(&p->o, p->q_begin_tok, seq, q_tok, head);
    for (int32_t d = 0; d < p->head_dim; d++)
        g->scratch[d] = (double)s2_float_load(p->o.data, p->dtype, first + d);
    row->plain_lse = p->lse.data[s2_rows_at(&p->lse, p->q_begin_tok, seq, q_tok, head)];
    row->lse = (double)row->plain_lse;
    take_row(g, row, seq, q_tok, head, g->scratch, g->scratch);
    return S2_OK;
}

/* ------------------------------------------------------------------ terms */

/* The terms of one pair, exact and plain. */
typedef struct s2_pair_terms {
    double p, ds, ds_size;
    float plain_p, plain_ds;
} s2_pair_terms;

static s2_pair_terms terms_of(s2_gradient *g, const s2_gradient_row *row, s2_pair pair)
{
    const s2_attn_problem *const p = g->problem;
    const s2_dot dp = dot(p, &p->d_o, pair.d_o, &p->v, pair.v);
    double score = (double)p->scale * dot(p, &p->q, pair.q, &p->k, pair.k).sum;
    g->score_peak = fmax(fmax(g->score_peak, fabs(score)), (double)p->cap);
    double slope = 1.0;
    if (p->cap > 0.0f) {
        const double part = tanh(score / (double)p->cap);
        score = (double)p->cap * part;
        slope = 1.0 - part * part;
    }
    s2_pair_terms out = {.p = exp(score - row->lse)};
    out.ds = out.p * (dp.sum - row->delta) * slope;
    out.ds_size = out.p * (dp.size + row->delta_noise * sqrt((double)p->head_dim) + fabs(row->delta));
    out.plain_p = expf((float)score - row->plain_lse);
    out.plain_ds = out.plain_p * ((float)dp.sum - row->plain_delta) * (float)slope;
    if (g->tolerance != S2_TOL_EXACT) {
        out.plain_ds = s2_round_to(p->dtype, out.plain_ds);
        out.plain_p = s2_round_to(p->dtype, out.plain_p);
    }
    return out;
}

static void clear(const s2_gradient *g)
{
    memset(g->out[0].exact, 0, 8 * (size_t)g->problem->head_dim * sizeof *g->out[0].exact);
}

/* out += weight * x, exactly and plainly; records how large and how noisy the term is. */
static void add(const s2_gradient *g, s2_gradient_out *out, const s2_tensor *tensor, int64_t first,
                double weight, float plain, double size)
{
    for (int32_t d = 0; d < g->problem->head_dim; d++) {
        const float x = s2_float_load(tensor->data, g->problem->dtype, first + d);
        out->exact[d] += weight * (double)x;
        out->plain[d] = (double)((float)out->plain[d] + plain * x);
        out->noise[d] += weight * weight * (double)x * (double)x;
        out->size[d] += size * fabs((double)x);
    }
}

/* Scale the sums, round the plain one, and make noise a root. */
static void finish(const s2_gradient *g, s2_gradient_out *out, double scale)
{
    for (int32_t d = 0; d < g->problem->head_dim; d++) {
        out->exact[d] *= scale;
        out->plain[d] = (double)s2_round_to(g->problem->dtype, (float)out->plain[d] * (float)scale);
        out->noise[d] = sqrt(out->noise[d]) * fabs(scale);
        out->size[d] *= fabs(scale);
    }
}

static bool reads(const s2_attn_problem *p, int32_t seq, int32_t q_tok, int32_t head, int32_t k_tok)
{
    const s2_plan *const plan = p->plan;
    const s2_plan_seq lens = plan->seqs[seq];
    return s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, lens.k_tok,
                            lens.k_tok - lens.q_tok + q_tok, k_tok);
}

static s2_status row_of(s2_gradient *g, int32_t seq, int32_t q_tok, int32_t head, s2_gradient_row **out)
{
    *out = row_at(g, seq, q_tok, head);
    return (*out)->known ? S2_OK : know_row(g, seq, q_tok, head, *out);
}

s2_status s2_gradient_of_query(s2_gradient *gradient, int32_t seq, int32_t q_tok, int32_t head)
{
    const s2_attn_problem *const p = gradient->problem;
    const int32_t dim = p->head_dim;
    s2_gradient_row *row;
    S2_TRY(row_of(gradient, seq, q_tok, head, &row));
    clear(gradient);
    memset(gradient->scratch, 0, (size_t)dim * sizeof *gradient->scratch);
    gradient->score_peak = 0.0;
    for (int32_t k_tok = 0; k_tok < p->plan->seqs[seq].k_tok; k_tok++) {
        if (!reads(p, seq, q_tok, head, k_tok))
            continue;
        const s2_pair pair = pair_at(p, seq, q_tok, head, k_tok);
        const s2_pair_terms terms = terms_of(gradient, row, pair);
        add(gradient, &gradient->out[0], &p->k, pair.k, terms.ds, terms.plain_ds, terms.ds_size);
        for (int32_t d = 0; d < dim; d++)
            gradient->scratch[d] += terms.p * (double)s2_float_load(p->k.data, p->dtype, pair.k + d);
    }
    /* the rounding of delta is common to all keys of the row */
    for (int32_t d = 0; d < dim; d++) {
        const double common = gradient->scratch[d] * row->delta_noise;
        gradient->out[0].noise[d] += common * common;
    }
    finish(gradient, &gradient->out[0], (double)p->scale);
    return S2_OK;
}

static s2_status add_query(s2_gradient *g, int32_t seq, int32_t q_tok, int32_t head, int32_t k_tok)
{
    const s2_attn_problem *const p = g->problem;
    s2_gradient_row *row;
    S2_TRY(row_of(g, seq, q_tok, head, &row));
    const s2_pair pair = pair_at(p, seq, q_tok, head, k_tok);
    const s2_pair_terms terms = terms_of(g, row, pair);
    add(g, &g->out[0], &p->q, pair.q, terms.ds, terms.plain_ds, terms.ds_size);
    add(g, &g->out[1], &p->d_o, pair.d_o, terms.p, terms.plain_p, terms.p);
    for (int32_t d = 0; d < p->head_dim; d++) {
        const double moved =
            terms.p * row->delta_noise * (double)s2_float_load(p->q.data, p->dtype, pair.q + d);
        g->out[0].noise[d] += moved * moved;
    }
    return S2_OK;
}

s2_status s2_gradient_of_key(s2_gradient *gradient, int32_t seq, int32_t k_tok, int32_t kv_head)
{
    const s2_attn_problem *const p = gradient->problem;
    const int32_t group = p->n_heads / p->n_kv_heads;
    clear(gradient);
    gradient->score_peak = 0.0;
    for (int32_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int32_t q_tok = 0; q_tok < p->plan->seqs[seq].q_tok; q_tok++)
            if (row_counts(gradient, seq, q_tok, head) && reads(p, seq, q_tok, head, k_tok))
                S2_TRY(add_query(gradient, seq, q_tok, head, k_tok));
    finish(gradient, &gradient->out[0], (double)p->scale);
    finish(gradient, &gradient->out[1], 1.0);
    return S2_OK;
}

s2_status s2_gradient_of_sink(s2_gradient *gradient, int32_t head)
{
    const s2_attn_problem *const p = gradient->problem;
    s2_gradient_out *const out = &gradient->out[0];
    const double sink = (double)p->sink[head];
    clear(gradient);
    gradient->score_peak = isfinite(sink) ? fabs(sink) : 0.0;
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t q_tok = 0; q_tok < p->plan->seqs[seq].q_tok; q_tok++) {
            s2_gradient_row *row;
            if (!row_counts(gradient, seq, q_tok, head) || !(sink > -INFINITY))
                continue;
            S2_TRY(row_of(gradient, seq, q_tok, head, &row));
            const double weight = exp(sink - row->lse);
            out->exact[0] -= weight * row->delta;
            out->plain[0] -= (double)(expf((float)sink - row->plain_lse) * row->plain_delta);
            out->noise[0] += weight * weight * row->delta_noise * row->delta_noise;
            out->size[0] += weight * (row->delta_noise * sqrt((double)p->head_dim) + fabs(row->delta));
            gradient->score_peak = fmax(gradient->score_peak, fabs(row->lse));
        }
    out->noise[0] = sqrt(out->noise[0]);
    return S2_OK;
}
