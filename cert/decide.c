/*
 * The claims, pair by pair, for as many columns and queries as the theorem of docs/proof.md requires. The
 * bounds come from the numbers of the text alone: T of keys and queries, D of distances, and one period of
 * everything.
 */
#include "cert/cert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bounds {
    int64_t threshold, reach, period; /* T, D and the common period; tokens */
    int64_t step;                     /* the block where every quantity is in blocks, else 1 */
    int64_t n_columns;                /* columns that decide all others; tokens */
} bounds;

typedef struct decision {
    s2_cert *c;
    bounds b;
    bool *now, *dead; /* [phase][head]: reads the pair at hand; did not read an earlier one of the column */
    int64_t near[S2_CERT_PHASES]
                [S2_CERT_UNITS]; /* in this layer, the shortest distance that some KV head skips */
    bool holey;                  /* this layer leaves a pair unread */
    bool again;                  /* the second round, only for shards */
} decision;

typedef struct pair {
    int64_t layer, q, k;
} pair;

/* ---- the definition of each term */

static bool in_list(const s2_cert *c, const s2_cert_term *t, int64_t x)
{
    for (int32_t n = t->list; n < t->list + t->n_list; n++) {
        const s2_cert_range *const r = &c->ranges[n];
        if (x >= r->begin && x < r->end && (x - r->begin) % r->step == 0)
            return true;
    }
    return false;
}

static int64_t phase_of(const s2_cert *c, const s2_cert_term *t, int64_t layer, int64_t head)
{
    return t->coef[0] * head + t->coef[1] * (head / (c->n_heads / c->n_kv)) + t->coef[2] * layer + t->coef[3];
}

static bool conditions_hold(const s2_cert *c, const s2_cert_term *t, const pair *p)
{
    for (int unit = 0; unit < S2_CERT_UNITS; unit++) {
        const int64_t size = unit == S2_CERT_IN_BLOCKS ? c->block : 1, i = p->q / size, j = p->k / size;
        const int64_t value[S2_CERT_QUANTITIES] = {i > j ? i - j : j - i, j, i};
        for (int what = 0; what < S2_CERT_QUANTITIES; what++)
            if (value[what] < t->when[what][unit].begin || value[what] >= t->when[what][unit].end)
                return false;
    }
    return true;
}

static bool term_reads(const s2_cert *c, const s2_cert_term *t, const pair *p, int64_t head)
{
    const int64_t size = t->tok ? 1 : c->block, i = p->q / size, j = p->k / size;
    if (!conditions_hold(c, t, p))
        return false;
    switch (t->kind) {
    case S2_CERT_DENSE: return true;
    case S2_CERT_NONE: return false;
    case S2_CERT_LOCAL: return i - j < t->n && j - i < t->n;
    case S2_CERT_SINK: return j < t->n;
    case S2_CERT_STRIDE: return (j + phase_of(c, t, p->layer, head)) % t->n < t->width;
    case S2_CERT_DILATED: /* the first part may be negative */
        return ((i - j) % t->n + t->n + phase_of(c, t, p->layer, head)) % t->n < t->width;
    case S2_CERT_CHUNK: return i / t->n == j / t->n;
    case S2_CERT_COLUMNS: return in_list(c, t, j);
    case S2_CERT_ROWS_TERM: return in_list(c, t, i);
    }
    return false;
}

/* `row` counts the heads of prefill, then those of decode. */
static bool reads(const s2_cert *c, int64_t row, const pair *p)
{
    const int64_t head = row % c->n_heads;
    const s2_cert_body *const body = &c->bodies[s2_cert_row(c, row / c->n_heads, p->layer)[head]];
    for (int32_t t = body->first_term; t < body->first_term + body->n_terms; t++)
        if (term_reads(c, &c->terms[t], p, head))
            return true;
    return false;
}

/* ---- bounds */

static const int64_t LONGEST_PERIOD = INT64_C(1) << 40;

static bool add_period(s2_cert *c, bounds *b, int64_t n)
{
    int64_t x = b->period, y = n;
    for (int64_t rest; y != 0; x = y, y = rest)
        rest = x % y;
    if (b->period / x > LONGEST_PERIOD / n)
        return s2_cert_refuse(c, S2_CERT_UNDECIDED, "the pattern has no manageable period");
    b->period = b->period / x * n;
    return true;
}

static void cover(int64_t *bound, int64_t value)
{
    *bound = value > *bound ? value : *bound;
}

static void cover_conditions(const s2_cert *c, const s2_cert_term *t, bounds *b)
{
    for (int w = 0; w < S2_CERT_QUANTITIES * S2_CERT_UNITS; w++) {
        const int what = w / S2_CERT_UNITS, unit = w % S2_CERT_UNITS;
        const int64_t size = unit == S2_CERT_IN_BLOCKS ? c->block : 1;
        const s2_cert_range *const r = &t->when[what][unit];
        int64_t *const bound = what == S2_CERT_DISTANCE ? &b->reach : &b->threshold;
        if (r->begin > 0)
            cover(bound, (r->begin + 1) * size);
        if (r->end != S2_CERT_OPEN)
            cover(bound, (r->end + 1) * size);
        if (unit == S2_CERT_IN_TOKENS && (r->begin > 0 || r->end != S2_CERT_OPEN))
            b->step = 1;
    }
}

static bool cover_term(s2_cert *c, const s2_cert_term *t, bounds *b)
{
    const int64_t size = t->tok ? 1 : c->block;
    const bool residue = t->kind == S2_CERT_STRIDE || t->kind == S2_CERT_DILATED || t->kind == S2_CERT_CHUNK;
    if (t->tok)
        b->step = 1;
    if (t->kind == S2_CERT_SINK)
        cover(&b->threshold, (t->n + 1) * size);
    else if (t->kind >= S2_CERT_LOCAL && t->kind <= S2_CERT_CHUNK)
        cover(&b->reach, (t->n + 1) * size);
    for (int32_t n = t->list; n < t->list + t->n_list; n++) {
        const s2_cert_range *const r = &c->ranges[n];
        cover(&b->threshold, ((r->end == S2_CERT_OPEN ? r->begin : r->end) + 1) * size);
        if (!add_period(c, b, r->step * size))
            return false;
    }
    cover_conditions(c, t, b);
    return !residue || add_period(c, b, t->n * size);
}

static bool find_bounds(s2_cert *c, bounds *b)
{
    *b = (bounds){.period = 1, .step = c->block};
    if (!add_period(c, b, c->block))
        return false;
    for (int32_t t = 0; t < c->n_terms; t++)
        if (!cover_term(c, &c->terms[t], b))
            return false;
    b->n_columns = c->causal ? b->threshold + b->period : b->threshold + b->reach + 2 * b->period;
    return true;
}

/* ---- layers that are the same */

static bool depends_on_layer(const s2_cert *c, int64_t layer)
{
    for (int64_t row = 0; row < S2_CERT_PHASES * c->n_heads; row++) {
        const s2_cert_body *const body =
            &c->bodies[s2_cert_row(c, row / c->n_heads, layer)[row % c->n_heads]];
        for (int32_t t = body->first_term; t < body->first_term + body->n_terms; t++)
            if (c->terms[t].coef[2] != 0)
                return true;
    }
    return false;
}

/* The first layer with the same bodies, if none of their terms depends on the layer. */
static int64_t alike(const s2_cert *c, int64_t layer)
{
    const size_t n = (size_t)c->n_heads * sizeof *c->body_of;
    for (int64_t other = 0; other < layer; other++)
        if (memcmp(s2_cert_row(c, 0, other), s2_cert_row(c, 0, layer), n) == 0 &&
            memcmp(s2_cert_row(c, 1, other), s2_cert_row(c, 1, layer), n) == 0)
            return depends_on_layer(c, layer) ? layer : other;
    return layer;
}

/* ---- work */

static bool claims_property(const s2_cert *c, s2_cert_property property)
{
    for (int32_t n = 0; n < c->n_claims; n++)
        if (c->claims[n].property == property)
            return true;
    return false;
}

/*
 * The end of the queries of column k: one period where the column repeats, and one more, since a head may
 * read in the second what it skipped in the first.
 */
static int64_t column_end(const decision *d, int64_t k)
{
    const bounds *const b = &d->b;
    const int64_t far = k + b->reach > b->threshold ? k + b->reach : b->threshold;
    return far + 2 * b->period + (d->again ? b->threshold + b->reach + b->period + d->c->block : 0);
}

/* A lower bound of the steps that the layer will take. */
static double layer_steps(const decision *d, int64_t layer)
{
    const s2_cert *const c = d->c;
    const bounds *const b = &d->b;
    double pair_steps = (double)(c->n_claims * S2_CERT_PHASES * c->n_heads);
    for (int64_t row = 0; row < S2_CERT_PHASES * c->n_heads; row++)
        pair_steps += c->bodies[s2_cert_row(c, row / c->n_heads, layer)[row % c->n_heads]].cost;
    const double step = (double)b->step, columns = (double)b->n_columns / step + 1;
    const double before = c->causal ? 0 : (double)b->n_columns;
    const double queries = ((double)(b->threshold + b->reach + 2 * b->period) + before) / step + 1;
    const double rounds = claims_property(c, S2_CERT_SHARDS) ? 3 : 1;
    const double rows = claims_property(c, S2_CERT_ROWS) ? queries * queries / 2 : 0;
    return (columns * queries * rounds + rows) * pair_steps;
}

static bool check_work(const decision *d, double most_steps)
{
    double steps = 0;
    for (int64_t layer = 0; layer < d->c->n_layers && steps <= most_steps; layer++)
        if (alike(d->c, layer) == layer)
            steps += layer_steps(d, layer);
    return steps <= most_steps ||
           s2_cert_refuse(d->c, S2_CERT_UNDECIDED, "the check would take more than %.0f steps", most_steps);
}

/* ---- claims */

static bool refute(s2_cert *c, s2_cert_property property, const pair *p)
{
    return s2_cert_refuse(c, S2_CERT_REFUTED, "%s: layer %lld, query %lld, key %lld",
                          s2_cert_properties[property], (long long)p->layer, (long long)p->q,
                          (long long)p->k);
}

/* Whether some head of the group that starts at this row reads the pair. */
static bool group_reads(const decision *d, int64_t row, int64_t size)
{
    for (int64_t head = row; head < row + size; head++)
        if (d->now[head])
            return true;
    return false;
}

static bool every_group_reads(const decision *d, int64_t size)
{
    for (int64_t row = 0; row < S2_CERT_PHASES * d->c->n_heads; row += size)
        if (!group_reads(d, row, size))
            return false;
    return true;
}

/* A head reads what it skipped before. Decoding cannot read what prefill dropped, even if prefill ends inside
 * a block. */
static bool reads_what_is_lost(const decision *d, const pair *p)
{
    for (int64_t row = 0; row < S2_CERT_PHASES * d->c->n_heads && p->q >= p->k; row++) {
        const int64_t prefill = row % d->c->n_heads;
        if (d->now[row] && (d->dead[row] || d->dead[prefill] || (d->b.step > 1 && !d->now[prefill])))
            return true;
    }
    return false;
}

static bool groups_agree(const decision *d, int64_t size)
{
    for (int64_t row = 0; row < S2_CERT_PHASES * d->c->n_heads; row++)
        if (d->now[row] != d->now[row - row % size])
            return false;
    return true;
}

/* The first round finds the window that all KV heads read; beyond it the second requires exactly one. */
static bool shards_hold(decision *d, const pair *p)
{
    const int64_t size = d->c->n_heads / d->c->n_kv, n_heads = d->c->n_heads;
    const int64_t distance[S2_CERT_UNITS] = {p->q / d->c->block - p->k / d->c->block, p->q - p->k};
    for (int phase = 0; phase < S2_CERT_PHASES; phase++) {
        int64_t *const near = d->near[phase], n_readers = 0;
        for (int64_t row = phase * n_heads; row < (phase + 1) * n_heads; row += size)
            n_readers += group_reads(d, row, size);
        for (int unit = 0; unit < S2_CERT_UNITS && !d->again && n_readers < d->c->n_kv; unit++)
            near[unit] = distance[unit] < near[unit] ? distance[unit] : near[unit];
        if (d->again && n_readers != 1 && distance[0] >= near[0] && distance[1] >= near[1])
            return false;
    }
    return true;
}

static bool claim_holds(decision *d, const s2_cert_claim *claim, const pair *p)
{
    const s2_cert *const c = d->c;
    switch (claim->property) {
    case S2_CERT_UNION: return every_group_reads(d, c->n_heads);
    case S2_CERT_RANKS: return every_group_reads(d, c->n_heads / claim->arg);
    case S2_CERT_DEPTH: d->holey = d->holey || !every_group_reads(d, c->n_heads); return true;
    case S2_CERT_SHARDS: return shards_hold(d, p);
    case S2_CERT_ROWS: return true; /* row by row, in check_rows */
    case S2_CERT_KV: return !reads_what_is_lost(d, p);
    case S2_CERT_GROUP: return groups_agree(d, c->n_heads / c->n_kv);
    }
    return false;
}

static bool check_column(decision *d, int64_t layer, int64_t k)
{
    s2_cert *const c = d->c;
    const int64_t end = column_end(d, k);
    for (pair p = {layer, c->causal ? k : 0, k}; p.q < end; p.q += d->b.step) {
        for (int64_t row = 0; row < S2_CERT_PHASES * c->n_heads; row++) {
            d->dead[row] = p.q > k && (d->dead[row] || !d->now[row]);
            d->now[row] = reads(c, row, &p);
        }
        for (int32_t n = 0; n < c->n_claims; n++)
            if (!claim_holds(d, &c->claims[n], &p))
                return refute(c, c->claims[n].property, &p);
    }
    return true;
}

static bool check_row(const decision *d, int64_t row, int64_t layer, int64_t q)
{
    for (pair p = {layer, q, q}; p.k >= 0; p.k -= d->b.step)
        if (reads(d->c, row, &p))
            return true;
    return refute(d->c, S2_CERT_ROWS, &(pair){layer, q, 0});
}

static bool check_rows(const decision *d, int64_t layer)
{
    const int64_t end = d->b.threshold + d->b.reach + d->b.period;
    for (int64_t q = 0; q < end; q += d->b.step)
        for (int64_t row = 0; row < S2_CERT_PHASES * d->c->n_heads; row++)
            if (!check_row(d, row, layer, q))
                return false;
    return true;
}

static bool check_layer(decision *d, int64_t layer)
{
    const bool shards = claims_property(d->c, S2_CERT_SHARDS);
    d->holey = false;
    for (int phase = 0; phase < S2_CERT_PHASES; phase++)
        d->near[phase][0] = d->near[phase][1] = S2_CERT_OPEN;
    for (int round = 0; round < (shards ? 2 : 1); round++) {
        d->again = round == 1;
        for (int64_t k = 0; k < d->b.n_columns; k += d->b.step)
            if (!check_column(d, layer, k))
                return false;
    }
    return !claims_property(d->c, S2_CERT_ROWS) || check_rows(d, layer);
}

/* Every window of D layers, or the whole model where it has fewer, needs a layer that reads everything. */
static bool check_depth(s2_cert *c, const bool *holey)
{
    int64_t n = 0;
    for (int64_t layer = 0; layer < c->n_layers; layer++) {
        n = holey[layer] ? n + 1 : 0;
        for (int32_t claim = 0; claim < c->n_claims; claim++) {
            const int64_t arg = c->claims[claim].arg;
            if (c->claims[claim].property == S2_CERT_DEPTH && n >= (arg < c->n_layers ? arg : c->n_layers))
                return s2_cert_refuse(c, S2_CERT_REFUTED, "depth: no layer up to layer %lld reads everything",
                                      (long long)layer);
        }
    }
    return true;
}

static bool check_layers(decision *d, bool *holey)
{
    for (int64_t layer = 0; layer < d->c->n_layers; layer++) {
        const int64_t other = alike(d->c, layer);
        if (other == layer && !check_layer(d, layer))
            return false;
        holey[layer] = other == layer ? d->holey : holey[other];
    }
    return check_depth(d->c, holey);
}

bool s2_cert_decide(s2_cert *c, double most_steps)
{
    decision d = {.c = c};
    if (!c->causal && claims_property(c, S2_CERT_SHARDS))
        return s2_cert_refuse(c, S2_CERT_REFUTED, "shards: defined for causal patterns only");
    if (!find_bounds(c, &d.b) || !check_work(&d, most_steps))
        return false;
    const size_t n_rows = (size_t)(S2_CERT_PHASES * c->n_heads);
    bool *const room = calloc(2 * n_rows + (size_t)c->n_layers, sizeof *room);
    if (room == NULL)
        return s2_cert_refuse(c, S2_CERT_NO_MEMORY, "out of memory");
    d.now = room;
    d.dead = room + n_rows;
    const bool sound = check_layers(&d, room + 2 * n_rows);
    free(room);
    return sound;
}
