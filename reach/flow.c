#include "reach/flow.h"

#include <math.h>

/* Vectors over key blocks; they move from the last layer to the first. */
typedef struct walk {
    const s2_stack *stack;
    double *flow;
    double *flow_next;
    double *paths;
    double *paths_next;
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
static void pass_row(walk *w, const uint64_t *row, int32_t q, int32_t n_heads)
{
    const int32_t n = row_length(w->stack, row);
    if (n == 0)
        return;
    const double share = 0.5 * w->flow[q] * n_heads / n / w->stack->pattern->n_heads;
    for (int32_t word = 0; word < w->stack->n_words; word++)
        for (uint64_t rest = row[word]; rest != 0; rest &= rest - 1) {
            const int32_t k = word * 64 + __builtin_ctzll(rest);
            w->flow_next[k] += share;
            w->paths_next[k] += w->paths[q] * n_heads;
        }
}

static void pass_dense(walk *w)
{
    const int32_t n_blk = w->stack->n_blk;
    double later = 0;
    for (int32_t k = n_blk - 1; k >= 0; k--) {
        later += 0.5 * w->dense[k] / s2_stack_n_keys(w->stack, k);
        w->dense_next[k] = 0.5 * w->dense[k] + later;
    }
    for (int32_t k = 0; k < n_blk && !w->stack->pattern->causal; k++)
        w->dense_next[k] = 0.5 * w->dense[k] + later;
}

/* Keep the path counts in range by moving a power of two into the exponent. */
static void rescale(walk *w)
{
    double largest = 0;
    for (int32_t k = 0; k < w->stack->n_blk; k++)
        largest = w->paths[k] > largest ? w->paths[k] : largest;
    if (largest < 0x1p300)
        return;
    for (int32_t k = 0; k < w->stack->n_blk; k++)
        w->paths[k] = ldexp(w->paths[k], -300);
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
    const s2_stack *const stack = w->stack;
    const int32_t kind = stack->kind_of[layer];
    for (int32_t k = 0; k < stack->n_blk; k++) {
        w->flow_next[k] = 0.5 * w->flow[k];
        w->paths_next[k] = w->paths[k];
    }
    for (int32_t q = 0; q < stack->n_blk; q++)
        for (int32_t n = 0; n < stack->n_parts[kind] && w->paths[q] > 0; n++) {
            const s2_head_part part = stack->parts[kind][n];
            pass_row(w, s2_stack_row(stack, stack->reads[part.class_id], q), q, part.n_heads);
        }
    pass_dense(w);
    swap(&w->flow, &w->flow_next);
    swap(&w->paths, &w->paths_next);
    swap(&w->dense, &w->dense_next);
    rescale(w);
}

static s2_flow sum_up(const walk *w)
{
    const int32_t n_blk = w->stack->n_blk;
    s2_flow out = {.least = INFINITY, .least_log2_paths = INFINITY};
    for (int32_t k = 0; k < n_blk; k++) {
        const double log2_paths = w->paths[k] > 0 ? log2(w->paths[k]) + w->exponent : -1;
        s2_flow_at *const here = &out.octaves[s2_octave(n_blk - 1 - k)];
        here->n_keys++;
        here->flow += w->flow[k];
        here->dense += w->dense[k];
        here->log2_paths += log2_paths;
        out.least_log2_paths = log2_paths < out.least_log2_paths ? log2_paths : out.least_log2_paths;
        if (w->flow[k] / w->dense[k] < out.least) {
            out.least = w->flow[k] / w->dense[k];
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

s2_status s2_flow_measure(s2_arena *arena, const s2_stack *stack, s2_flow *out)
{
    walk w = {.stack = stack};
    double **const vectors[] = {&w.flow, &w.flow_next, &w.paths, &w.paths_next, &w.dense, &w.dense_next};
    for (size_t n = 0; n < sizeof vectors / sizeof vectors[0]; n++) {
        *vectors[n] = S2_NEW(arena, double, stack->n_blk);
        if (*vectors[n] == NULL)
            return S2_ENOMEM;
    }
    w.flow[stack->n_blk - 1] = w.paths[stack->n_blk - 1] = w.dense[stack->n_blk - 1] = 1;
    for (int32_t layer = stack->pattern->n_layers - 1; layer >= 0; layer--)
        pass_layer(&w, layer);
    *out = sum_up(&w);
    return S2_OK;
}
