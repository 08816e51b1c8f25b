#include "reach/worth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "reach/readers.h"

/*
 * Fitted by experiments/judge.py: recall on docs/results/worth-fit.jsonl, loss on worth-drawn.jsonl too. The errors are
 * the largest of those on patterns drawn later: worth-again.jsonl, worth-sealed.jsonl and, for recall,
 * worth-drawn.jsonl.
 */
static const double RECALL[] = {-0.0074, 0.4435, 0.6337};
static const double LOSS[] = {-1.8931, -0.0783, -0.2734, -0.3252};
static const double LOSS_FLOOR = 1.15;
const double s2_worth_recall_error = 0.09;
const double s2_worth_loss_error = 0.052;

/* Facts about each class of heads. */
typedef struct class_facts {
    double *share;  /* share of the retrieval pairs that it reads */
    double *signal; /* sqrt(share) * purity */
    double *row;    /* mean length of its rows in the second half */
    double *window; /* blocks, 0.5 for none */
    double *neighbour;
} class_facts;

typedef struct ranked {
    int32_t class_id;
    double value;
} ranked;

/* The bits of a word of a row that are below n. */
static uint64_t below(const uint64_t *row, int32_t word, int32_t n)
{
    const int32_t left = n - word * 64;
    return left >= 64 ? row[word] : left <= 0 ? 0 : row[word] & ((UINT64_C(1) << left) - 1);
}

static double share_of(const s2_stack *stack, int32_t class_id)
{
    const int32_t half = stack->n_blk / 2;
    int64_t n = 0;
    for (int32_t q = stack->n_blk - half; q < stack->n_blk; q++)
        for (int32_t word = 0; word * 64 < half; word++)
            n += __builtin_popcountll(below(s2_stack_row(stack, stack->reads[class_id], q), word, half));
    return half > 0 ? (double)n / ((double)half * half) : 0;
}

static int by_value(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x < y) - (x > y);
}

/*
 * The mean over retrieval pairs of the largest value of any class that reads the pair, and the share of pairs
 * read. Classes are visited by descending value, so a pair belongs to the first that reads it.
 */
static double best_of(const s2_stack *stack, int32_t kind, const double *value, ranked *parts, uint64_t *seen,
                      double *coverage)
{
    const int32_t n_parts = stack->n_parts[kind], half = stack->n_blk / 2;
    double sum = 0, covered = 0;
    for (int32_t n = 0; n < n_parts; n++) {
        const int32_t class_id = stack->parts[kind][n].class_id;
        parts[n] = (ranked){class_id, value[class_id]};
    }
    qsort(parts, (size_t)n_parts, sizeof *parts, by_value);
    for (int32_t q = stack->n_blk - half; q < stack->n_blk; q++) {
        memset(seen, 0, (size_t)stack->n_words * sizeof *seen);
        for (int32_t n = 0; n < n_parts; n++)
            for (int32_t word = 0; word * 64 < half; word++) {
                const uint64_t row =
                    below(s2_stack_row(stack, stack->reads[parts[n].class_id], q), word, half);
                const int fresh = __builtin_popcountll(row & ~seen[word]);
                covered += fresh;
                sum += fresh * parts[n].value;
                seen[word] |= row;
            }
    }
    const double n_pairs = half > 0 ? (double)half * half : 1;
    *coverage = covered / n_pairs;
    return sum / n_pairs;
}

/* Mean length of the rows in the second half. */
static double mean_row(const s2_stack *stack, int32_t class_id)
{
    const int32_t half = stack->n_blk - stack->n_blk / 2;
    int64_t n = 0;
    for (int32_t q = stack->n_blk - half; q < stack->n_blk; q++)
        for (int32_t word = 0; word < stack->n_words; word++)
            n += __builtin_popcountll(s2_stack_row(stack, stack->reads[class_id], q)[word]);
    return (double)n / half;
}

double s2_worth_signal(double share, double row, double half)
{
    return sqrt(share) * share * half / fmax(row, 1);
}

/* Share of the queries after the first that read the block before their own. */
static double neighbour_of(const s2_stack *stack, int32_t class_id)
{
    int32_t n = 0;
    for (int32_t q = 1; q < stack->n_blk; q++)
        n += s2_bit(s2_stack_row(stack, stack->reads[class_id], q), q - 1);
    return stack->n_blk > 1 ? (double)n / (stack->n_blk - 1) : 0;
}

static s2_status find_facts(s2_arena *arena, const s2_stack *stack, class_facts *out)
{
    double **const columns[] = {&out->share, &out->signal, &out->row, &out->window, &out->neighbour};
    for (size_t n = 0; n < sizeof columns / sizeof columns[0]; n++) {
        *columns[n] = S2_NEW(arena, double, stack->n_classes);
        if (*columns[n] == NULL)
            return S2_ENOMEM;
    }
    for (int32_t c = 0; c < stack->n_classes; c++) {
        out->share[c] = share_of(stack, c);
        out->row[c] = mean_row(stack, c);
        out->signal[c] = s2_worth_signal(out->share[c], out->row[c], stack->n_blk / 2);
        out->window[c] = fmax(s2_readers_window(stack, c), 0.5);
        out->neighbour[c] = neighbour_of(stack, c);
    }
    return S2_OK;
}

/* Means and maxima over the heads of all layers. */
static void sum_heads(const s2_stack *stack, const class_facts *facts, s2_worth *worth)
{
    const s2_pattern *const p = stack->pattern;
    const double n_heads = (double)p->n_layers * p->n_heads;
    for (int32_t layer = 0; layer < p->n_layers; layer++) {
        const int32_t kind = stack->kind_of[layer];
        for (int32_t n = 0; n < stack->n_parts[kind]; n++) {
            const s2_head_part part = stack->parts[kind][n];
            worth->window += part.n_heads * log2(facts->window[part.class_id]) / n_heads;
            worth->neighbour += part.n_heads * facts->neighbour[part.class_id] / n_heads;
            worth->far = fmax(worth->far, facts->share[part.class_id]);
        }
    }
}

static const char *why_not_shape(const s2_pattern *p, int64_t n_blk)
{
    if (s2_pattern_limit_tok(p) != S2_OPEN)
        return "no pattern with a mask file was trained";
    if (!p->causal)
        return "only causal patterns were trained";
    if (p->n_layers != S2_WORTH_LAYERS || p->n_heads != S2_WORTH_HEADS || p->n_kv_heads != S2_WORTH_KV_HEADS)
        return "the models trained had 4 layers of 8 query heads on 4 KV heads";
    if (s2_pattern_layers_differ(p))
        return "no model whose layers keep states or have shapes of their own was trained";
    return n_blk != S2_WORTH_BLOCKS ? "the models trained had a context of 64 blocks" : NULL;
}

/* Some query of some head reads nothing. */
static bool has_idle_query(const s2_stack *stack)
{
    for (int32_t class_id = 0; class_id < stack->n_classes; class_id++)
        for (int32_t q = 0; q < stack->n_blk; q++) {
            const uint64_t *const row = s2_stack_row(stack, stack->reads[class_id], q);
            uint64_t any = 0;
            for (int32_t word = 0; word < stack->n_words; word++)
                any |= row[word];
            if (any == 0)
                return true;
        }
    return false;
}

static const char *why_not_judged(const s2_stack *stack)
{
    const char *const why = why_not_shape(stack->pattern, stack->n_blk);
    if (why != NULL)
        return why;
    if (!stack->exact)
        return "the pattern reads parts of blocks";
    return has_idle_query(stack) ? "no pattern was trained in which a query of some head reads nothing"
                                 : NULL;
}

static void set_figures(s2_worth *worth)
{
    const s2_retrieval first = worth->layers[0];
    const double recall = RECALL[0] + RECALL[1] * first.signal + RECALL[2] * first.coverage;
    worth->recall = fmin(fmax(recall, 0), 1);
    worth->loss = LOSS_FLOOR + exp(LOSS[0] + LOSS[1] * worth->window +
                                   LOSS[2] * log2(worth->neighbour + 0.02) + LOSS[3] * worth->far);
}

s2_status s2_worth_judge(s2_arena *arena, const s2_stack *stack, s2_worth *out)
{
    const s2_pattern *const p = stack->pattern;
    s2_worth worth = {.layers = S2_NEW(arena, s2_retrieval, p->n_layers)};
    ranked *const parts = S2_NEW(arena, ranked, p->n_heads);
    uint64_t *const seen = S2_NEW(arena, uint64_t, stack->n_words);
    class_facts facts;
    if (worth.layers == NULL || parts == NULL || seen == NULL)
        return S2_ENOMEM;
    S2_TRY(find_facts(arena, stack, &facts));
    for (int32_t layer = 0; layer < p->n_layers; layer++) {
        const int32_t kind = stack->kind_of[layer], first = stack->first_of_kind[kind];
        s2_retrieval *const here = &worth.layers[layer];
        if (first < layer) {
            *here = worth.layers[first];
            continue;
        }
        here->concentration = best_of(stack, kind, facts.share, parts, seen, &here->coverage);
        here->signal = best_of(stack, kind, facts.signal, parts, seen, &here->coverage);
    }
    sum_heads(stack, &facts, &worth);
    worth.not_judged = why_not_judged(stack);
    set_figures(&worth);
    *out = worth;
    return S2_OK;
}

s2_status s2_worth_figures(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok, s2_worth *out)
{
    s2_stack stack;
    const char *const why = why_not_shape(pattern, s2_ceil_div(n_tok, pattern->block_tok));
    if (why != NULL) {
        *out = (s2_worth){.not_judged = why};
        return S2_OK;
    }
    S2_TRY(s2_stack_build(arena, pattern, S2_PREFILL, n_tok, &stack));
    return s2_worth_judge(arena, &stack, out);
}
