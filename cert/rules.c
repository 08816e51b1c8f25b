/*
 * The canonical rules: each selector in its shortest form, and exactly the rules that the canonical printer
 * (docs/pattern-language.md, "Canonical text") makes for the heads and layers that they select.
 */
#include "cert/cert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- index lists */

typedef struct plan {
    int32_t n, n_all;
    int32_t index[S2_CERT_HEADS + 1]; /* ascending */
    int32_t run[S2_CERT_HEADS + 1];   /* evenly spaced indices from here on */
    int32_t cost[S2_CERT_HEADS + 1];  /* bytes of the shortest list from here on */
    int32_t first[S2_CERT_HEADS + 1]; /* indices in the first item of that list */
    uint8_t in[S2_CERT_HEADS + 1];
} plan;

static int32_t digits(int32_t value)
{
    int32_t n = 1;
    for (; value >= 10; value /= 10)
        n++;
    return n;
}

/* Bytes of the item that names n indices; "a", "a-b", "a::s" or "a:e:s". */
static int32_t item_bytes(const plan *p, int32_t from, int32_t n)
{
    const int32_t first = p->index[from], last = p->index[from + n - 1];
    if (n == 1)
        return digits(first);
    const int32_t step = p->index[from + 1] - first;
    if (step == 1)
        return digits(first) + 1 + digits(last);
    return digits(first) + 2 + digits(step) + (last + step < p->n_all ? digits(last + 1) : 0);
}

static int put_item(const plan *p, int32_t from, int32_t n, char *out, size_t room)
{
    const int32_t first = p->index[from], last = p->index[from + n - 1];
    if (n == 1)
        return snprintf(out, room, "%d", first);
    const int32_t step = p->index[from + 1] - first;
    if (step == 1)
        return snprintf(out, room, "%d-%d", first, last);
    if (last + step < p->n_all)
        return snprintf(out, room, "%d:%d:%d", first, last + 1, step);
    return snprintf(out, room, "%d::%d", first, step);
}

/* The shortest list that walks the indices once, with whole runs, runs less one, and single indices. */
static void plan_items(plan *p)
{
    p->cost[p->n] = -1; /* no comma after the last item */
    for (int32_t i = p->n - 1; i >= 0; i--) {
        const bool even = i + 2 < p->n && p->index[i + 2] - p->index[i + 1] == p->index[i + 1] - p->index[i];
        p->run[i] = i + 1 == p->n ? 1 : even ? p->run[i + 1] + 1 : 2;
        const int32_t sizes[] = {p->run[i], p->run[i] - 1, 1};
        p->cost[i] = INT32_MAX;
        for (int s = 0; s < 3; s++) {
            const int32_t size = sizes[s];
            if (size < 1 || (size == 2 && p->index[i + 1] - p->index[i] > 1))
                continue;
            const int32_t cost = item_bytes(p, i, size) + 1 + p->cost[i + size];
            if (cost < p->cost[i]) {
                p->cost[i] = cost;
                p->first[i] = size;
            }
        }
    }
}

/* The smallest period that the set repeats at least twice, or 0. */
static int32_t smallest_period(plan *p)
{
    memset(p->in, 0, (uint32_t)p->n_all);
    for (int32_t i = 0; i < p->n; i++)
        p->in[p->index[i]] = 1;
    for (int32_t period = 1; period * 2 <= p->n_all; period++)
        if (memcmp(p->in, p->in + period, (size_t)(p->n_all - period)) == 0)
            return period;
    return 0;
}

/* Append the indices of the set as the printer lists them; *out advances. */
static void put_list(plan *p, const uint64_t *set, int32_t n_all, char **out, const char *end)
{
    p->n = 0;
    p->n_all = n_all;
    for (int32_t x = 0; x < n_all; x++)
        if (s2_cert_in(set, x))
            p->index[p->n++] = x;
    plan_items(p);
    const int32_t period = smallest_period(p);
    int32_t residues = -1;
    for (int32_t i = 0; i < p->n && p->index[i] < period; i++)
        residues += digits(p->index[i]) + 2 + digits(period) + 1;
    const bool by_residue = period > 0 && residues < p->cost[0];
    const char *comma = "";
    for (int32_t i = 0; i < p->n && (!by_residue || p->index[i] < period); comma = ",") {
        *out += snprintf(*out, (size_t)(end - *out), "%s", comma);
        *out += by_residue ? snprintf(*out, (size_t)(end - *out), "%d::%d", p->index[i], period)
                           : put_item(p, i, p->first[i], *out, (size_t)(end - *out));
        i += by_residue ? 1 : p->first[i];
    }
}

/* ---- selectors */

static int64_t count(const uint64_t *set, int64_t n_all)
{
    int64_t n = 0;
    for (int64_t word = 0; word < (n_all + 63) / 64; word++)
        n += __builtin_popcountll(set[word]);
    return n;
}

/* The KV heads, if `heads` holds all heads of each and a KV head has more than one. */
static bool whole_groups(const s2_cert *c, const uint64_t *heads, uint64_t *kv)
{
    const int64_t size = c->n_heads / c->n_kv;
    memset(kv, 0, S2_CERT_HEADS / 8);
    for (int64_t head = 0; head < c->n_heads; head++) {
        if (s2_cert_in(heads, head) != s2_cert_in(heads, head - head % size))
            return false;
        if (s2_cert_in(heads, head))
            kv[head / size / 64] |= UINT64_C(1) << (head / size % 64);
    }
    return size > 1;
}

bool s2_cert_selector(s2_cert *c, const s2_cert_rule *rule, char **out, size_t *n_out)
{
    const size_t room =
        64 + 6 * (size_t)(c->n_layers + c->n_heads); /* "1234,": at most 5 bytes for an index */
    plan *const p = malloc(sizeof *p);
    char *const text = malloc(room);
    if (p == NULL || text == NULL) {
        free(p);
        free(text);
        return s2_cert_refuse(c, S2_CERT_NO_MEMORY, "out of memory");
    }
    char *rest = text;
    const char *const end = text + room;
    if (rule->phases != 3)
        rest += snprintf(rest, room, "%s", rule->phases == 1 ? "prefill" : "decode");
    if (count(rule->layers, c->n_layers) < c->n_layers) {
        rest += snprintf(rest, (size_t)(end - rest), "%slayers ", rest > text ? " " : "");
        put_list(p, rule->layers, (int32_t)c->n_layers, &rest, end);
    }
    if (count(rule->heads, c->n_heads) < c->n_heads) {
        uint64_t kv[S2_CERT_HEADS / 64];
        const bool groups = whole_groups(c, rule->heads, kv);
        rest +=
            snprintf(rest, (size_t)(end - rest), "%s%s ", rest > text ? " " : "", groups ? "kv" : "heads");
        put_list(p, groups ? kv : rule->heads, (int32_t)(groups ? c->n_kv : c->n_heads), &rest, end);
    }
    if (rest == text)
        rest += snprintf(rest, room, "layers all");
    free(p);
    *out = text;
    *n_out = (size_t)(rest - text);
    return true;
}

/* ---- which rules */

static bool not_canonical(s2_cert *c, const char *why)
{
    return s2_cert_refuse(c, S2_CERT_MALFORMED, "the rules are not the canonical ones: %s", why);
}

/* Every cell belongs to one rule; the rest belongs to the fallback. */
static bool fill_cells(s2_cert *c)
{
    for (int32_t r = 0; r < c->n_rules; r++) {
        const s2_cert_rule *const rule = &c->rules[r];
        for (int64_t row = 0; row < S2_CERT_PHASES * c->n_layers; row++) {
            if (!(rule->phases >> (row / c->n_layers) & 1) || !s2_cert_in(rule->layers, row % c->n_layers))
                continue;
            for (int64_t head = 0; head < c->n_heads; head++) {
                uint16_t *const cell = &c->body_of[row * c->n_heads + head];
                if (!s2_cert_in(rule->heads, head))
                    continue;
                if (*cell != 0)
                    return not_canonical(c, "two are for the same head");
                *cell = (uint16_t)(rule->body + 1);
            }
        }
    }
    bool used = c->fallback < 0;
    for (int64_t cell = 0; cell < S2_CERT_PHASES * c->n_layers * c->n_heads; cell++) {
        used = used || c->body_of[cell] == 0;
        if (c->body_of[cell] == 0 && c->fallback < 0)
            return not_canonical(c, "a head has none");
        c->body_of[cell] = (uint16_t)(c->body_of[cell] == 0 ? c->fallback : c->body_of[cell] - 1);
    }
    return used || not_canonical(c, "the first is never used");
}

static int32_t lowest(const uint64_t *set)
{
    int32_t word = 0;
    while (set[word] == 0)
        word++;
    return word * 64 + __builtin_ctzll(set[word]);
}

static bool same_heads(const s2_cert_rule *a, const s2_cert_rule *b)
{
    return memcmp(a->heads, b->heads, sizeof a->heads) == 0;
}

/* Sorted by first layer, first head, phase; no two rules that one selector could join. */
static bool check_order(s2_cert *c)
{
    for (int32_t r = 1; r < c->n_rules; r++) {
        const s2_cert_rule *const a = &c->rules[r - 1], *const b = &c->rules[r];
        const int32_t layer = lowest(a->layers) - lowest(b->layers),
                      head = lowest(a->heads) - lowest(b->heads);
        if (layer > 0 || (layer == 0 && (head > 0 || (head == 0 && a->phases >= b->phases))))
            return not_canonical(c, "they do not ascend by layer, head and phase");
        for (int32_t other = 0; other < r; other++)
            if (c->rules[other].body == b->body && c->rules[other].phases == b->phases &&
                same_heads(&c->rules[other], b))
                return not_canonical(c, "two of the same heads and body");
    }
    return true;
}

typedef struct owner {
    int32_t layer, rule; /* the rule that gave a body to heads of this layer */
} owner;

/* In a layer, the heads of one body are one rule: for both phases if they are the same in both, else one per
 * phase. */
static bool check_layer(s2_cert *c, owner (*owners)[S2_CERT_PHASES], int32_t layer)
{
    for (int32_t r = 0; r < c->n_rules; r++) {
        const s2_cert_rule *const rule = &c->rules[r];
        if (!s2_cert_in(rule->layers, layer))
            continue;
        owner *const own = owners[rule->body];
        for (int phase = 0; phase < S2_CERT_PHASES; phase++) {
            if (!(rule->phases >> phase & 1))
                continue;
            if (own[phase].layer == layer + 1)
                return not_canonical(c, "a layer has two of one body");
            own[phase] = (owner){layer + 1, r};
        }
        const owner other = own[rule->phases == 1];
        if (rule->phases != 3 && other.layer == layer + 1 && same_heads(rule, &c->rules[other.rule]))
            return not_canonical(c, "both phases are the same");
    }
    return true;
}

static bool check_layers(s2_cert *c)
{
    owner(*const owners)[S2_CERT_PHASES] = calloc((size_t)c->n_bodies, sizeof *owners);
    bool sound = owners != NULL || s2_cert_refuse(c, S2_CERT_NO_MEMORY, "out of memory");
    for (int32_t layer = 0; sound && layer < c->n_layers; layer++)
        sound = check_layer(c, owners, layer);
    free(owners);
    return sound;
}

/* ---- the fallback: the body whose rules save most bytes when one rule for everything replaces them */

enum { AROUND = 3, ALL_BYTES = 10 }; /* ": " and the line end; "layers all" */

typedef struct drafts {
    s2_cert_rule *rules;
    int32_t n, cap;
} drafts;

static bool add_draft(s2_cert *c, drafts *d, const s2_cert_rule *key, int64_t layer)
{
    int32_t r = 0;
    while (r < d->n && (d->rules[r].phases != key->phases || !same_heads(&d->rules[r], key)))
        r++;
    if (r == d->n) {
        s2_cert_rule *const grown = s2_cert_grow(c, d->rules, d->n, &d->cap, sizeof *grown);
        if (grown == NULL)
            return false;
        d->rules = grown;
        d->rules[d->n++] = *key;
    }
    d->rules[r].layers[layer / 64] |= UINT64_C(1) << (layer % 64);
    return true;
}

/* The rules that the fallback's body would need without a fallback. */
static bool fallback_drafts(s2_cert *c, drafts *d)
{
    for (int64_t layer = 0; layer < c->n_layers; layer++) {
        s2_cert_rule keys[S2_CERT_PHASES] = {{.body = c->fallback, .phases = 1},
                                             {.body = c->fallback, .phases = 2}};
        for (int64_t cell = 0; cell < S2_CERT_PHASES * c->n_heads; cell++) {
            const int64_t head = cell % c->n_heads;
            if (s2_cert_row(c, cell / c->n_heads, layer)[head] == c->fallback)
                keys[cell / c->n_heads].heads[head / 64] |= UINT64_C(1) << (head % 64);
        }
        const bool both = same_heads(&keys[0], &keys[1]);
        keys[0].phases = both ? 3 : 1;
        for (int phase = 0; phase < (both ? 1 : 2); phase++)
            if (count(keys[phase].heads, c->n_heads) > 0 && !add_draft(c, d, &keys[phase], layer))
                return false;
    }
    return true;
}

static bool fallback_saving(s2_cert *c, int64_t *saving)
{
    drafts d = {0};
    bool sound = fallback_drafts(c, &d);
    for (int32_t r = 0; sound && r < d.n; r++) {
        char *text;
        size_t n;
        sound = s2_cert_selector(c, &d.rules[r], &text, &n);
        if (sound) {
            *saving += (int64_t)(n + AROUND + c->bodies[c->fallback].n_text);
            free(text);
        }
    }
    free(d.rules);
    return sound;
}

/* The body that saves most; among equals the first in the order of phases, layers and heads. */
static int32_t best_body(const s2_cert *c, const int64_t *saving)
{
    int32_t best = -1;
    for (int64_t cell = 0; cell < S2_CERT_PHASES * c->n_layers * c->n_heads; cell++) {
        const int32_t body = c->body_of[cell];
        if (saving[body] > (best >= 0 ? saving[best] : 0))
            best = body;
    }
    return best;
}

static bool check_fallback(s2_cert *c)
{
    int64_t *const saving = calloc((size_t)c->n_bodies, sizeof *saving);
    if (saving == NULL)
        return s2_cert_refuse(c, S2_CERT_NO_MEMORY, "out of memory");
    for (int32_t body = 0; body < c->n_bodies; body++)
        saving[body] = -(int64_t)(ALL_BYTES + AROUND + c->bodies[body].n_text);
    bool uses = false;
    for (int32_t r = 0; r < c->n_rules; r++) {
        const s2_cert_rule *const rule = &c->rules[r];
        saving[rule->body] += (int64_t)(rule->n_selector + AROUND + c->bodies[rule->body].n_text);
        uses = uses || rule->body == c->fallback;
    }
    bool sound = !uses || not_canonical(c, "the first has the body of another");
    if (sound && c->fallback >= 0)
        sound = fallback_saving(c, &saving[c->fallback]);
    if (sound)
        sound = best_body(c, saving) == c->fallback || not_canonical(c, "another first one would be shorter");
    free(saving);
    return sound;
}

bool s2_cert_resolve(s2_cert *c)
{
    c->body_of = calloc((size_t)(S2_CERT_PHASES * c->n_layers * c->n_heads), sizeof *c->body_of);
    if (c->body_of == NULL)
        return s2_cert_refuse(c, S2_CERT_NO_MEMORY, "out of memory");
    if (c->n_rules > 1 && c->rules[0].n_selector == ALL_BYTES && c->rules[0].phases == 3 &&
        count(c->rules[0].layers, c->n_layers) == c->n_layers &&
        count(c->rules[0].heads, c->n_heads) == c->n_heads) {
        c->fallback = c->rules[0].body;
        memmove(c->rules, c->rules + 1, (size_t)--c->n_rules * sizeof *c->rules);
    }
    return fill_cells(c) && check_order(c) && check_layers(c) && check_fallback(c);
}
