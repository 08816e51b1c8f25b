#include "reach/beyond.h"

#include "base/arith.h"
#include "reach/rhythm.h"

/* Additions of a walk: about a minute. */
static const double MOST_ADDITIONS = 0x1p35;
/* Runs and residues that all columns may list. */
enum { MOST_LISTED = 1 << 24 };

/* Queries at the distances [begin, end) from a key. */
typedef struct stretch {
    int32_t begin;
    int32_t end;
} stretch;

/* The queries that read a key block. Below the distance `far` they are listed as stretches; from there on they are
 * those whose distance is `far` plus a listed offset, modulo the period. */
typedef struct column {
    int64_t stretches; /* the first of its own */
    int32_t n_stretches;
    int32_t far;
    int64_t offsets;
    int32_t n_offsets;
} column;

/* Heads that read alike. */
typedef struct reader {
    column *columns; /* of the keys below threshold + period; later ones repeat */
    int32_t *rows;   /* [base blocks] keys of each query */
    int32_t *more;   /* [period] keys that a row gains in a period, by the query modulo the period */
} reader;

typedef struct beyond {
    s2_arena *arena;
    s2_stack base;
    int32_t threshold, period, reach, n_blk;
    reader *readers; /* [class] */
    stretch *stretches;
    int32_t *offsets;
    int64_t n_stretches, n_offsets;
    int64_t cap_stretches, cap_offsets;
    /* For one class and layer: what each query passes to every key that it reads, and sums of that. */
    double *passed; /* [n_blk] */
    double *in_64;  /* sums of 64 in a row */
    double *from;   /* [n_blk + 1] of all queries from here on */
    double *every;  /* [n_blk] of every period-th query from here on */
} beyond;

static bool is_read(const beyond *b, int32_t class_id, int32_t q, int32_t k)
{
    return s2_bit(s2_stack_row(&b->base, b->base.reads[class_id], q), k);
}

/* ------------------------------------------------------------------ columns of the base */

static s2_status add_stretch(beyond *b, column *out, stretch one)
{
    S2_TRY(S2_ARENA_ROOM(b->arena, b->stretches, b->n_stretches, b->cap_stretches));
    b->stretches[b->n_stretches++] = one;
    out->n_stretches++;
    return b->n_stretches > MOST_LISTED ? S2_ELIMIT : S2_OK;
}

static s2_status add_offset(beyond *b, column *out, int32_t offset)
{
    S2_TRY(S2_ARENA_ROOM(b->arena, b->offsets, b->n_offsets, b->cap_offsets));
    b->offsets[b->n_offsets++] = offset;
    out->n_offsets++;
    return b->n_offsets > MOST_LISTED ? S2_ELIMIT : S2_OK;
}

static s2_status list_column(beyond *b, int32_t class_id, int32_t k, column *out)
{
    const int32_t far = k + b->reach > b->threshold ? b->reach : b->threshold - k;
    *out = (column){.stretches = b->n_stretches, .offsets = b->n_offsets, .far = far};
    for (int32_t d = 0; d < far; d++) {
        const int32_t begin = d;
        while (d < far && is_read(b, class_id, k + d, k))
            d++;
        if (d > begin)
            S2_TRY(add_stretch(b, out, (stretch){begin, d}));
    }
    for (int32_t offset = 0; offset < b->period; offset++)
        if (is_read(b, class_id, k + far + offset, k))
            S2_TRY(add_offset(b, out, offset));
    return S2_OK;
}

static int32_t count_keys(const beyond *b, int32_t class_id, int32_t q, int32_t begin, int32_t end)
{
    int32_t n = 0;
    for (int32_t k = begin; k < end; k++)
        n += is_read(b, class_id, q, k);
    return n;
}

static s2_status list_class(beyond *b, int32_t class_id)
{
    reader *const r = &b->readers[class_id];
    const int32_t n_columns = b->threshold + b->period, n_base = b->base.n_blk;
    r->columns = S2_NEW(b->arena, column, n_columns);
    r->rows = S2_NEW(b->arena, int32_t, n_base);
    r->more = S2_NEW(b->arena, int32_t, b->period);
    if (r->columns == NULL || r->rows == NULL || r->more == NULL)
        return S2_ENOMEM;
    for (int32_t k = 0; k < n_columns; k++)
        S2_TRY(list_column(b, class_id, k, &r->columns[k]));
    for (int32_t q = 0; q < n_base; q++)
        r->rows[q] = count_keys(b, class_id, q, 0, q + 1);
    /* A row a period later has its own keys, a period on, and besides those of [threshold, threshold + period). */
    for (int32_t q = n_base - b->period; q < n_base; q++)
        r->more[q % b->period] = count_keys(b, class_id, q, b->threshold, n_columns);
    return S2_OK;
}

/* Keys of a query at any length. */
static int32_t row_of(const beyond *b, const reader *r, int32_t q)
{
    const int32_t n_base = b->base.n_blk;
    if (q < n_base)
        return r->rows[q];
    const int32_t periods = (q - n_base) / b->period + 1;
    return r->rows[q - periods * b->period] + periods * r->more[q % b->period];
}

/* ------------------------------------------------------------------ a layer */

/* Sums of what is positive only, so that a key that no query reads gets exactly nothing. */
static void sum_passed(beyond *b)
{
    b->from[b->n_blk] = 0;
    for (int32_t q = b->n_blk - 1; q >= 0; q--) {
        b->in_64[q / 64] = b->passed[q] + (q % 64 == 63 || q == b->n_blk - 1 ? 0 : b->in_64[q / 64]);
        b->from[q] = b->passed[q] + b->from[q + 1];
        b->every[q] = b->passed[q] + (q < b->n_blk - b->period ? b->every[q + b->period] : 0);
    }
}

static double sum_between(const beyond *b, int32_t begin, int32_t end)
{
    double sum = 0;
    while (begin < end)
        if (begin % 64 == 0 && end - begin >= 64) {
            sum += b->in_64[begin / 64];
            begin += 64;
        } else {
            sum += b->passed[begin++];
        }
    return sum;
}

/* What the queries that read key k pass to it. */
static double arrives(const beyond *b, const column *col, int32_t k)
{
    const int32_t n_blk = b->n_blk;
    double sum = 0;
    for (int32_t n = 0; n < col->n_stretches; n++) {
        const stretch one = b->stretches[col->stretches + n];
        sum += sum_between(b, s2_min_i32(k + one.begin, n_blk), s2_min_i32(k + one.end, n_blk));
    }
    if (k + col->far >= n_blk)
        return sum;
    if (col->n_offsets == b->period)
        return sum + b->from[k + col->far];
    for (int32_t n = 0; n < col->n_offsets; n++) {
        const int32_t q = k + col->far + b->offsets[col->offsets + n];
        sum += q < n_blk ? b->every[q] : 0;
    }
    return sum;
}

static void add_arriving(beyond *b, const reader *r, double *next)
{
    sum_passed(b);
    for (int32_t k = 0; k < b->n_blk; k++) {
        const int32_t column_no = k < b->threshold ? k : b->threshold + (k - b->threshold) % b->period;
        next[k] += arrives(b, &r->columns[column_no], k);
    }
}

static void pass_layer(void *context, int32_t layer, const s2_flow_step *step)
{
    beyond *const b = (beyond *)context;
    const int32_t kind = b->base.kind_of[layer];
    for (int32_t n = 0; n < b->base.n_parts[kind]; n++) {
        const s2_head_part part = b->base.parts[kind][n];
        const reader *const r = &b->readers[part.class_id];
        for (int32_t q = 0; q < b->n_blk; q++)
            b->passed[q] =
                s2_flow_share(step->flow[q], part.n_heads, b->base.pattern->n_heads, row_of(b, r, q));
        add_arriving(b, r, step->flow_next);
        for (int32_t q = 0; q < b->n_blk; q++)
            b->passed[q] = step->paths[q] * part.n_heads;
        add_arriving(b, r, step->paths_next);
    }
}

/* ------------------------------------------------------------------ the walk */

/* Additions of one layer's class for each block, as a mean over the columns that repeat. */
static double count_additions(const beyond *b, const reader *r)
{
    double sum = 0;
    for (int32_t k = b->threshold; k < b->threshold + b->period; k++) {
        const column *const col = &r->columns[k];
        for (int32_t n = 0; n < col->n_stretches; n++) {
            const stretch one = b->stretches[col->stretches + n];
            sum += s2_min_i32(one.end - one.begin, 128) + (one.end - one.begin) / 64;
        }
        sum += col->n_offsets < b->period ? col->n_offsets : 1;
    }
    return 8 + sum / b->period;
}

static bool is_affordable(const beyond *b)
{
    double sum = 0;
    for (int32_t layer = 0; layer < b->base.pattern->n_layers; layer++) {
        const int32_t kind = b->base.kind_of[layer];
        for (int32_t n = 0; n < b->base.n_parts[kind]; n++)
            sum += 2 * count_additions(b, &b->readers[b->base.parts[kind][n].class_id]);
    }
    return sum * b->n_blk <= MOST_ADDITIONS;
}

static s2_status walk_columns(beyond *b, s2_flow *out)
{
    b->readers = S2_NEW(b->arena, reader, b->base.n_classes);
    b->passed = S2_NEW(b->arena, double, b->n_blk);
    b->in_64 = S2_NEW(b->arena, double, b->n_blk / 64 + 1);
    b->from = S2_NEW(b->arena, double, b->n_blk + 1);
    b->every = S2_NEW(b->arena, double, b->n_blk);
    if (b->readers == NULL || b->passed == NULL || b->in_64 == NULL || b->from == NULL || b->every == NULL)
        return S2_ENOMEM;
    for (int32_t class_id = 0; class_id < b->base.n_classes; class_id++)
        S2_TRY(list_class(b, class_id));
    if (!is_affordable(b))
        return S2_ELIMIT;
    const s2_flow_shape shape = {
        .n_blk = b->n_blk, .pattern = b->base.pattern, .causal = true, .pass = pass_layer, .context = b};
    return s2_flow_walk(b->arena, &shape, out);
}

/* The length that shows how the pattern repeats. */
static s2_status build_base(beyond *b, const s2_pattern *pattern, s2_phase phase, s2_lengths_answer *answer)
{
    s2_rhythm r;
    S2_TRY(s2_stack_build(b->arena, pattern, phase, pattern->block_tok, &b->base));
    S2_TRY(s2_rhythm_find(b->arena, &b->base, phase, &r));
    const int64_t n_base = s2_rhythm_blocks(&r, 1);
    if (r.listed || n_base > S2_REACH_BLOCKS) {
        *answer = r.listed ? S2_LENGTHS_LISTED : S2_LENGTHS_TOO_LARGE;
        return S2_OK;
    }
    S2_TRY(s2_stack_build(b->arena, pattern, phase, n_base * pattern->block_tok, &b->base));
    b->threshold = (int32_t)r.threshold;
    b->period = (int32_t)r.period;
    b->reach = (int32_t)r.reach;
    *answer = b->base.exact ? S2_LENGTHS_DECIDED : S2_LENGTHS_PARTIAL;
    return S2_OK;
}

static s2_status find_flow(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_blk,
                           s2_lengths_answer *answer, s2_flow *out)
{
    beyond b = {.arena = arena, .n_blk = (int32_t)n_blk};
    s2_stack stack;
    S2_TRY(build_base(&b, pattern, phase, answer));
    if (*answer != S2_LENGTHS_DECIDED)
        return S2_OK;
    if (n_blk > b.base.n_blk)
        return walk_columns(&b, out);
    S2_TRY(s2_stack_build(arena, pattern, phase, n_blk * pattern->block_tok, &stack));
    return s2_flow_measure(arena, &stack, out);
}

s2_status s2_beyond_flow(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_tok,
                         s2_lengths_answer *answer, s2_flow *out)
{
    if (n_tok < 1)
        return S2_EINVAL;
    const int64_t n_blk = (n_tok - 1) / pattern->block_tok + 1;
    *answer = pattern->causal ? S2_LENGTHS_DECIDED : S2_LENGTHS_NOT_CAUSAL;
    if (!pattern->causal)
        return S2_OK;
    if (n_blk > S2_BEYOND_BLOCKS)
        return S2_ELIMIT;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const s2_status status = find_flow(arena, pattern, phase, n_blk, answer, out);
    s2_arena_rewind(arena, mark);
    return status;
}
