#include "reach/flow.h"

#include <math.h>

#include "base/arith.h"

double s2_flow_fading(double least)
{
    return isnan(least) ? least : fmin(fmax(1 / least, 1), S2_FADING_MOST);
}

typedef struct walk {
    const s2_flow_shape *shape;
    s2_flow_step now;
    double *dense;
    double *dense_next;
    int32_t exponent; /* the true counts are paths times 2^exponent */
} walk;

static int32_t row_length(const s2_stack *stack, const uint64_t *row)
{
    int32_t n = 0;
    for (int32_t word = 0; word < stack->n_words; word++)
        n += __builtin_popcountll(row[word]);
    return n;
}

/* Pass what query q has to the keys that n_heads heads read alike. */
static void pass_row(const s2_stack *stack, const s2_flow_step *step, const uint64_t *row, int32_t q,
                     int32_t n_heads)
{
    const int32_t n = row_length(stack, row);
    const double share = s2_flow_share(step->flow[q], n_heads, stack->pattern->n_heads, n);
    for (int32_t word = 0; n > 0 && word < stack->n_words; word++)
        for (uint64_t rest = row[word]; rest != 0; rest &= rest - 1) {
            const int32_t k = word * 64 + __builtin_ctzll(rest);
            step->flow_next[k] += share;
            step->paths_next[k] += step->paths[q] * n_heads;
        }
}

static void pass_rows(void *context, int32_t layer, const s2_flow_step *step)
{
    const s2_stack *const stack = *(const s2_stack *const *)context;
    const int32_t kind = stack->kind_of[layer];
    for (int32_t q = 0; q < stack->n_blk; q++)
        for (int32_t n = 0; n < stack->n_parts[kind] && step->flow[q] > 0; n++) {
            const s2_head_part part = stack->parts[kind][n];
            pass_row(stack, step, s2_stack_row(stack, stack->reads[part.class_id], q), q, part.n_heads);
        }
}

static void pass_dense(walk *w)
{
    const int32_t n_blk = w->shape->n_blk;
    double later = 0;
    for (int32_t k = n_blk - 1; k >= 0; k--) {
        later += 0.5 * w->dense[k] / (w->shape->causal ? k + 1 : n_blk);
        w->dense_next[k] = 0.5 * w->dense[k] + later;
    }
    for (int32_t k = 0; k < n_blk && !w->shape->causal; k++)
        w->dense_next[k] = 0.5 * w->dense[k] + later;
}

/* Keep the path counts in range by moving a power of two into the exponent. */
static void rescale(walk *w)
{
    double largest = 0;
    for (int32_t k = 0; k < w->shape->n_blk; k++)
        largest = s2_max_f64(w->now.paths[k], largest);
    if (largest < 0x1p300)
        return;
    for (int32_t k = 0; k < w->shape->n_blk; k++)
        w->now.paths[k] = ldexp(w->now.paths[k], -300);
    w->exponent += 300;
}

static void swap(double **a, double **b)
{
    double *const other = *a;
    *a = *b;
    *b = other;
}

static void pass_layer(walk *w, int32_t layer)
{
    s2_flow_step *const now = &w->now;
    for (int32_t k = 0; k < w->shape->n_blk; k++) {
        now->flow_next[k] = 0.5 * now->flow[k];
        now->paths_next[k] = now->paths[k];
    }
    w->shape->pass(w->shape->context, layer, now);
    pass_dense(w);
    swap(&now->flow, &now->flow_next);
    swap(&now->paths, &now->paths_next);
    swap(&w->dense, &w->dense_next);
    rescale(w);
}

static s2_flow sum_up(const walk *w)
{
    const int32_t n_blk = w->shape->n_blk;
    /* what arrives sums to at most that of dense attention, so that the least is 1 or below but for rounding */
    s2_flow out = {.least = 1, .least_log2_paths = INFINITY};
    for (int32_t k = 0; k < n_blk; k++) {
        const double log2_paths = w->now.paths[k] > 0 ? log2(w->now.paths[k]) + w->exponent : -1;
        s2_flow_at *const here = &out.octaves[s2_octave(n_blk - 1 - k)];
        here->n_keys++;
        here->flow += w->now.flow[k];
        here->dense += w->dense[k];
        here->log2_paths += log2_paths;
        out.least_log2_paths = s2_min_f64(log2_paths, out.least_log2_paths);
        if (w->now.flow[k] / w->dense[k] < out.least) {
            out.least = w->now.flow[k] / w->dense[k];
            out.least_key = k;
        }
    }
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        s2_flow_at *const here = &out.octaves[octave];
        const double n = here->n_keys > 0 ? here->n_keys : 1;
        here->flow /= n;
        here->dense /= n;
        here->log2_paths /= n;
    }
    return out;
}

s2_status s2_flow_walk(s2_arena *arena, const s2_flow_shape *shape, s2_flow *out)
{
    const int32_t last = shape->n_blk - 1;
    walk w = {.shape = shape};
    double **const vectors[] = {&w.now.flow,       &w.now.flow_next, &w.now.paths,
                                &w.now.paths_next, &w.dense,         &w.dense_next};
    for (size_t n = 0; n < sizeof vectors / sizeof vectors[0]; n++) {
        *vectors[n] = S2_NEW(arena, double, shape->n_blk);
        if (*vectors[n] == NULL)
            return S2_ENOMEM;
    }
    w.now.flow[last] = w.now.paths[last] = w.dense[last] = 1;
    for (int32_t layer = shape->pattern->n_layers - 1; layer >= 0; layer--)
        if (!s2_pattern_is_state_layer(shape->pattern, layer))
            pass_layer(&w, layer);
    *out = sum_up(&w);
    return S2_OK;
}

s2_status s2_flow_measure(s2_arena *arena, const s2_stack *stack, s2_flow *out)
{
    const s2_flow_shape shape = {.n_blk = stack->n_blk,
                                 .pattern = stack->pattern,
                                 .causal = stack->pattern->causal,
                                 .pass = pass_rows,
                                 .context = &stack};
    return s2_flow_walk(arena, &shape, out);
}
