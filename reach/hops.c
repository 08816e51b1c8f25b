#include "reach/hops.h"

#include <string.h>

#include "base/work.h"

/* Limit of all words joined: some seconds. */
#define LIMIT_WORK (INT64_C(1) << 35)

/* Which keys reached which queries since a layer. Each query is in its own row at the start (residual). */
typedef struct field {
    const s2_stack *stack;
    uint64_t *rows;
    uint64_t *next;
    bool *own; /* [q_blk] have the tokens of the query's own block learnt of each other? true for one token */
    int64_t work;
    int32_t q_blk; /* the first pair still apart, while not complete */
    int32_t k_blk;
} field;

static int64_t n_words(const s2_stack *stack)
{
    return (int64_t)stack->n_blk * stack->n_words;
}

static s2_status create(s2_arena *arena, const s2_stack *stack, field *out)
{
    *out = (field){.stack = stack, .work = LIMIT_WORK};
    out->rows = S2_NEW(arena, uint64_t, n_words(stack));
    out->next = S2_NEW(arena, uint64_t, n_words(stack));
    out->own = S2_NEW(arena, bool, stack->n_blk);
    return out->rows == NULL || out->next == NULL || out->own == NULL ? S2_ENOMEM : S2_OK;
}

static void start(field *f)
{
    const int64_t block_tok = f->stack->pattern->block_tok;
    memset(f->rows, 0, (size_t)n_words(f->stack) * sizeof *f->rows);
    for (int32_t q = 0; q < f->stack->n_blk; q++) {
        f->rows[(int64_t)q * f->stack->n_words + q / 64] |= UINT64_C(1) << (q % 64);
        f->own[q] = block_tok == 1 || f->stack->n_tok - q * block_tok == 1;
    }
}

/* The first key missing from the row, or -1. */
static int32_t first_missing(const field *f, int32_t q)
{
    const uint64_t *const row = s2_stack_row(f->stack, f->rows, q);
    const int32_t n_keys = s2_stack_n_keys(f->stack, q);
    for (int32_t word = 0; word * 64 < n_keys; word++) {
        const int32_t left = n_keys - word * 64;
        const uint64_t missing = ~row[word] & (left >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1);
        if (missing != 0)
            return word * 64 + __builtin_ctzll(missing);
    }
    return f->own[q] ? -1 : q;
}

static bool is_complete(field *f)
{
    for (int32_t q = 0; q < f->stack->n_blk; q++) {
        const int32_t k = first_missing(f, q);
        if (k >= 0) {
            f->q_blk = q;
            f->k_blk = k;
            return false;
        }
    }
    return true;
}

static void join_row(field *f, int32_t q, const uint64_t *reads)
{
    const int32_t words = f->stack->n_words;
    uint64_t *const into = f->next + (int64_t)q * words;
    memcpy(into, f->rows + (int64_t)q * words, (size_t)words * sizeof *into);
    if (first_missing(f, q) < 0)
        return;
    for (int32_t word = 0; word < words; word++)
        for (uint64_t rest = reads[word]; rest != 0; rest &= rest - 1) {
            const uint64_t *const from = s2_stack_row(f->stack, f->rows, word * 64 + __builtin_ctzll(rest));
            f->own[q] = f->own[q] || s2_bit(from, q); /* directly, or through a block that has read it */
            for (int32_t w = 0; w < words; w++)
                into[w] |= from[w];
            (void)s2_work_spend(&f->work, words);
        }
}

static s2_status pass_layer(field *f, int32_t layer)
{
    const uint64_t *const any = f->stack->any[f->stack->kind_of[layer]];
    for (int32_t q = 0; q < f->stack->n_blk; q++)
        join_row(f, q, s2_stack_row(f->stack, any, q));
    uint64_t *const old = f->rows;
    f->rows = f->next;
    f->next = old;
    return s2_work_goes_on(&f->work) ? S2_OK : S2_ELIMIT;
}

/* Layers from `begin` until all pairs are joined, 0 if the stack ends first. *f keeps the last pair. */
static s2_status count_from(field *f, int32_t begin, int32_t *out)
{
    start(f);
    if (is_complete(f)) {
        *out = 1; /* there is one token, and nothing has to move */
        return S2_OK;
    }
    for (int32_t layer = begin; layer < f->stack->pattern->n_layers; layer++) {
        S2_TRY(pass_layer(f, layer));
        if (is_complete(f)) {
            *out = layer - begin + 1;
            return S2_OK;
        }
    }
    *out = 0;
    return S2_OK;
}

static s2_receptive measure(const field *f)
{
    s2_receptive out = {0};
    double least = 2;
    for (int32_t q = 0; q < f->stack->n_blk; q++) {
        int32_t n = 0;
        for (int32_t word = 0; word < f->stack->n_words; word++)
            n += __builtin_popcountll(s2_stack_row(f->stack, f->rows, q)[word]);
        n -= !f->own[q];
        const double share = (double)n / s2_stack_n_keys(f->stack, q);
        if (share < least) {
            least = share;
            out.least = n;
            out.least_query = q;
        }
        out.last = n;
    }
    return out;
}

static s2_status measure_layers(s2_arena *arena, field *f, s2_hops *out)
{
    const int32_t n_layers = f->stack->pattern->n_layers;
    s2_receptive *const receptive = S2_NEW(arena, s2_receptive, n_layers);
    if (receptive == NULL)
        return S2_ENOMEM;
    bool whole = false;
    start(f);
    for (int32_t layer = 0; layer < n_layers; layer++) {
        if (!whole)
            S2_TRY(pass_layer(f, layer));
        receptive[layer] = whole ? receptive[layer - 1] : measure(f);
        whole = whole || is_complete(f);
    }
    out->receptive = receptive;
    return S2_OK;
}

/* Whether the n layers from a on and those from b on are alike. */
static bool alike(const s2_stack *stack, int32_t a, int32_t b, int32_t n)
{
    return a + n <= stack->pattern->n_layers && b + n <= stack->pattern->n_layers &&
           memcmp(stack->kind_of + a, stack->kind_of + b, (size_t)n * sizeof *stack->kind_of) == 0;
}

/* The layers needed from `begin` on, copied from an earlier start if the layers are the same. */
static s2_status need_of(field *f, int32_t begin, const int32_t *need, int32_t *out)
{
    for (int32_t before = 0; before < begin; before++)
        if (need[before] > 0 && alike(f->stack, before, begin, need[before])) {
            *out = need[before];
            return S2_OK;
        }
    return count_from(f, begin, out);
}

/*
 * The least n such that any start followed by n layers needs no more than n. A start that reaches the top of
 * the stack too early sets a bound too: n layers from there must not exist.
 */
static s2_status find_least(s2_arena *arena, field *f, s2_hops *out)
{
    const int32_t n_layers = f->stack->pattern->n_layers;
    int32_t *const need = S2_NEW(arena, int32_t, n_layers);
    if (need == NULL)
        return S2_ENOMEM;
    out->layers = 0;
    for (int32_t begin = 0; begin < n_layers && begin + out->layers <= n_layers; begin++) {
        S2_TRY(need_of(f, begin, need, &need[begin]));
        const int32_t least = need[begin] > 0 ? need[begin] : n_layers - begin + 1;
        if (least > n_layers) {
            out->layers = 0;
            out->from = begin;
            return S2_OK;
        }
        if (least > out->layers) {
            out->layers = least;
            out->from = begin;
        }
    }
    return S2_OK;
}

static int32_t reader(const s2_stack *stack, int32_t layer, int32_t q, int32_t k)
{
    const int32_t *const heads = s2_stack_heads(stack, layer);
    for (int32_t head = 0; head < stack->pattern->n_heads; head++)
        if (s2_bit(s2_stack_row(stack, stack->reads[heads[head]], q), k))
            return head;
    return -1;
}

/* seen[n]: the queries that key k has reached before layer from + n. */
static void spread(const s2_stack *stack, int32_t from, int32_t n_layers, int32_t k, uint64_t *seen)
{
    const int32_t words = stack->n_words;
    seen[k / 64] |= UINT64_C(1) << (k % 64);
    for (int32_t n = 0; n < n_layers; n++) {
        const uint64_t *const before = seen + (int64_t)n * words;
        uint64_t *const after = seen + (int64_t)(n + 1) * words;
        const uint64_t *const any = stack->any[stack->kind_of[from + n]];
        memcpy(after, before, (size_t)words * sizeof *after);
        for (int32_t q = 0; q < stack->n_blk; q++)
            for (int32_t word = 0; word < words; word++)
                if (s2_stack_row(stack, any, q)[word] & before[word])
                    after[q / 64] |= UINT64_C(1) << (q % 64);
    }
}

/* Trace back from query q along `seen`: a read wherever the key had not reached the query before. */
static int32_t trace_back(const s2_stack *stack, const s2_hops *hops, int32_t q, int32_t n_layers,
                          const uint64_t *seen, s2_hop *path)
{
    int32_t n_path = 0;
    for (int32_t n = n_layers - 1; n >= 0 && q != hops->k_blk; n--) {
        const uint64_t *const before = seen + (int64_t)n * stack->n_words;
        const int32_t layer = hops->from + n;
        if (s2_bit(before, q))
            continue;
        for (int32_t k = 0; k < stack->n_blk; k++)
            if (s2_bit(before, k) && s2_bit(s2_stack_row(stack, stack->any[stack->kind_of[layer]], q), k)) {
                path[n_path++] = (s2_hop){layer, reader(stack, layer, q, k), q, k};
                q = k;
                break;
            }
    }
    for (int32_t n = 0; n < n_path / 2; n++) {
        const s2_hop other = path[n];
        path[n] = path[n_path - 1 - n];
        path[n_path - 1 - n] = other;
    }
    return n_path;
}

/*
 * A pair inside one block needs one read of the block, in the first of the layers that has it, or of another block
 * that the key has reached, which is possible where queries read later keys.
 */
static int32_t own_path(const s2_stack *stack, const s2_hops *hops, const uint64_t *seen, s2_hop *path)
{
    const int32_t q = hops->q_blk;
    for (int32_t n = 0; n < hops->layers; n++) {
        const int32_t layer = hops->from + n;
        const uint64_t *const before = seen + (int64_t)n * stack->n_words;
        const uint64_t *const reads = s2_stack_row(stack, stack->any[stack->kind_of[layer]], q);
        for (int32_t nth = 0; nth < stack->n_blk; nth++) {
            const int32_t k = (q + nth) % stack->n_blk; /* its own block first */
            if (!s2_bit(before, k) || !s2_bit(reads, k))
                continue;
            const int32_t n_path = trace_back(stack, hops, k, n, seen, path);
            path[n_path] = (s2_hop){layer, reader(stack, layer, q, k), q, k};
            return n_path + 1;
        }
    }
    return 0;
}

static s2_status find_path(s2_arena *arena, const s2_stack *stack, s2_hops *hops)
{
    uint64_t *const seen = S2_NEW(arena, uint64_t, (int64_t)(hops->layers + 1) * stack->n_words);
    s2_hop *const path = S2_NEW(arena, s2_hop, hops->layers + 1);
    if (seen == NULL || path == NULL)
        return S2_ENOMEM;
    spread(stack, hops->from, hops->layers, hops->k_blk, seen);
    hops->n_path = hops->q_blk == hops->k_blk
                       ? own_path(stack, hops, seen, path)
                       : trace_back(stack, hops, hops->q_blk, hops->layers, seen, path);
    hops->path = path;
    return S2_OK;
}

s2_status s2_hops_find(s2_arena *arena, const s2_stack *stack, s2_hops *out)
{
    s2_hops hops = {0};
    field f;
    S2_TRY(create(arena, stack, &f));
    S2_TRY(find_least(arena, &f, &hops));
    int32_t need;
    S2_TRY(count_from(&f, hops.from, &need));
    hops.q_blk = f.q_blk;
    hops.k_blk = f.k_blk;
    if (need > 0 && hops.layers > 0)
        S2_TRY(find_path(arena, stack, &hops));
    S2_TRY(measure_layers(arena, &f, &hops));
    *out = hops;
    return S2_OK;
}
