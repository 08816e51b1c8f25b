#include "search/dilution.h"

#include <math.h>
#include <stdlib.h>

#include "base/arith.h"
#include "pattern/comb.h"
#include "reach/worth.h"
#include "sim/candidate.h"

/* Heads of a layer that read alike; heads with a stride differ only in their first stripe. */
typedef struct head_class {
    int64_t first;   /* stripe */
    int64_t stripes; /* retrieval pairs that only a stripe reads, not window or sink */
    double signal;
} head_class;

/* Rows from..n_blk - 1 of a form, and the keys below n_keys. */
typedef struct part {
    const s2_candidate *form;
    int64_t from;
    int64_t n_blk;
    int64_t n_keys;
} part;

/* Stripes below a key; then the same, summed over keys 0..key. */
static int64_t stripes_below(const s2_candidate *form, int64_t first, int64_t key)
{
    return key > first ? (key - first - 1) / form->stride_blk + 1 : 0;
}

static int64_t stripes_summed(const s2_candidate *form, int64_t first, int64_t key)
{
    const int64_t v = form->stride_blk, n = s2_max_i64(key - first, 0), whole = n / v, rest = n % v;
    return v * whole * (whole + 1) / 2 + rest * (whole + 1);
}

/* Pairs that only the stripes read: after the sink and before the window. */
static int64_t striped(const part *in, int64_t first)
{
    const s2_candidate *const form = in->form;
    const int64_t sink = s2_min_i64(form->sink_blk, in->n_keys), local = form->local_blk;
    const int64_t begin = s2_max_i64(in->from, sink + local), end = s2_min_i64(in->n_blk, in->n_keys + local);
    if (form->stride_blk == 0 || begin >= in->n_blk)
        return 0;
    int64_t n = (in->n_blk - s2_max_i64(begin, end)) * stripes_below(form, first, in->n_keys);
    if (begin < end)
        n += stripes_summed(form, first, end - local) - stripes_summed(form, first, begin - local);
    return n - (in->n_blk - begin) * stripes_below(form, first, sink);
}

/* Pairs that the window and the sink read. */
static int64_t near(const part *in)
{
    int64_t n = 0;
    for (int64_t q = in->from; q < in->n_blk; q++) {
        const int64_t end = s2_min_i64(q + 1, in->n_keys), sink = s2_min_i64(in->form->sink_blk, end);
        n += sink + s2_max_i64(end - s2_max_i64(q - in->form->local_blk + 1, sink), 0);
    }
    return n;
}

static int by_signal(const void *left, const void *right)
{
    const double a = ((const head_class *)left)->signal, b = ((const head_class *)right)->signal;
    return (a < b) - (a > b);
}

static int by_first(const void *left, const void *right)
{
    const int64_t a = ((const head_class *)left)->first, b = ((const head_class *)right)->first;
    return (a > b) - (a < b);
}

/* The distinct classes of the heads that are not dense. */
static int32_t find_classes(const s2_pattern *pattern, const s2_candidate *form, head_class *out)
{
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    const int32_t n_heads = pattern->n_heads - form->n_dense_kv * group;
    int32_t n = 0;
    for (int32_t head = 0; head < n_heads; head++) {
        const int64_t rotated_head = form->by_kv ? head / group : head;
        out[head].first =
            form->stride_blk > 0 ? s2_mod(-(rotated_head * form->step + form->offset), form->stride_blk) : 0;
    }
    qsort(out, (size_t)n_heads, sizeof *out, by_first);
    for (int32_t head = 0; head < n_heads; head++)
        if (head == 0 || out[head].first != out[n - 1].first)
            out[n++] = out[head];
    return n;
}

/* The signal of a layer: each retrieval pair counts for its best reader. */
static double layer_signal(const s2_candidate *form, int64_t n_blk, head_class *classes, int32_t n_classes,
                           double dense)
{
    const int64_t half = n_blk / 2;
    const part far = {form, n_blk - half, n_blk, half}, rows = {form, half, n_blk, n_blk};
    const int64_t near_far = near(&far), near_rows = near(&rows);
    for (int32_t n = 0; n < n_classes; n++) {
        head_class *const one = &classes[n];
        const double row = (double)(near_rows + striped(&rows, one->first)) / (double)(n_blk - half);
        one->stripes = striped(&far, one->first);
        one->signal = s2_worth_signal((double)(near_far + one->stripes) / ((double)half * (double)half), row,
                                      (double)half);
    }
    qsort(classes, (size_t)n_classes, sizeof *classes, by_signal);
    const double left = (double)half * (double)half;
    double sum = (double)near_far * classes[0].signal, covered = (double)near_far;
    int32_t n = 0;
    if (form->n_dense_kv > 0 && dense >= classes[0].signal)
        return dense;
    for (; n < n_classes && (form->n_dense_kv == 0 || classes[n].signal > dense); n++) {
        sum += (double)classes[n].stripes * classes[n].signal;
        covered += (double)classes[n].stripes;
    }
    return (sum + (form->n_dense_kv > 0 ? (left - covered) * dense : 0)) / left;
}

/* The signal of a layer that reads everything. */
static double dense_signal(const s2_pattern *pattern, int64_t n_blk)
{
    const double half = (double)(n_blk / 2);
    return s2_worth_signal(1, pattern->causal ? (half + 1 + (double)n_blk) / 2 : (double)n_blk, half);
}

static s2_status signal_by_form(s2_arena *arena, const s2_pattern *pattern, const s2_candidate *form,
                                int64_t n_blk, double dense, double *out)
{
    head_class *const classes = S2_NEW(arena, head_class, pattern->n_heads);
    if (classes == NULL)
        return S2_ENOMEM;
    const int32_t n_classes = find_classes(pattern, form, classes);
    const double share = (double)form->n_dense_layers / (pattern->n_layers - form->n_state_layers);
    *out = share * dense + (1 - share) * layer_signal(form, n_blk, classes, n_classes, dense);
    return S2_OK;
}

/* Layers that keep a state have no pairs. */
static s2_status signal_by_rows(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok, double *out)
{
    s2_stack stack;
    s2_worth worth;
    double sum = 0;
    int32_t n_layers = 0;
    S2_TRY(s2_stack_build(arena, pattern, S2_PREFILL, n_tok, &stack));
    S2_TRY(s2_worth_judge(arena, &stack, &worth));
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (!s2_pattern_is_state_layer(pattern, layer)) {
            sum += worth.layers[layer].signal;
            n_layers++;
        }
    *out = n_layers > 0 ? sum / n_layers : 0;
    return S2_OK;
}

s2_status s2_dilution_of(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok, double *out)
{
    const int64_t n_blk = s2_ceil_div(n_tok, pattern->block_tok);
    const double dense = dense_signal(pattern, n_blk);
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_candidate form;
    double signal = 0;
    s2_status status = S2_OK;
    if (n_blk > 1)
        status = s2_candidate_of(pattern, &form)
                     ? signal_by_form(arena, pattern, &form, n_blk, dense, &signal)
                     : signal_by_rows(arena, pattern, n_tok, &signal);
    s2_arena_rewind(arena, mark);
    S2_TRY(status);
    *out = n_blk > 1 ? fmin(dense / signal, S2_DILUTION_MOST) : 1;
    return S2_OK;
}
