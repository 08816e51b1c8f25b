#include "pattern/canon.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/parse.h"

static uint64_t hash_bytes(const void *bytes, size_t n)
{
    const unsigned char *const u = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t at = 0; at < n; at++)
        hash = (hash ^ u[at]) * UINT64_C(0x100000001b3);
    return hash ^ (hash >> 29);
}

/* --- text set --------------------------------------------------------------------------------- */

static s2_status text_set_grow(s2_arena *arena, s2_text_set *set)
{
    const int32_t cap = set->cap != 0 ? set->cap * 2 : 16;
    int32_t *const slot = S2_NEW(arena, int32_t, cap);
    uint64_t *const hash = s2_arena_grow(arena, set->hash, (size_t)set->n, (size_t)cap, sizeof *hash);
    const char **const text = s2_arena_grow(arena, set->text, (size_t)set->n, (size_t)cap, sizeof *text);
    size_t *const n_bytes = s2_arena_grow(arena, set->n_bytes, (size_t)set->n, (size_t)cap, sizeof *n_bytes);
    if (slot == NULL || hash == NULL || text == NULL || n_bytes == NULL)
        return S2_ENOMEM;
    for (int32_t t = 0; t < set->n; t++) {
        uint32_t place = (uint32_t)hash[t];
        while (slot[place & (uint32_t)(cap - 1)] != 0)
            place++;
        slot[place & (uint32_t)(cap - 1)] = t + 1;
    }
    *set = (s2_text_set){set->n, cap, slot, hash, text, n_bytes};
    return S2_OK;
}

s2_status s2_text_set_add(s2_arena *arena, s2_text_set *set, const char *text, size_t n_bytes, int32_t *out)
{
    if (set->n * 2 >= set->cap)
        S2_TRY(text_set_grow(arena, set));
    const uint64_t hash = hash_bytes(text, n_bytes);
    const uint32_t mask = (uint32_t)(set->cap - 1);
    uint32_t place = (uint32_t)hash & mask;
    for (; set->slot[place] != 0; place = (place + 1) & mask) {
        const int32_t t = set->slot[place] - 1;
        if (set->hash[t] == hash && set->n_bytes[t] == n_bytes && memcmp(set->text[t], text, n_bytes) == 0) {
            *out = t;
            return S2_OK;
        }
    }
    const char *const copy = s2_arena_strndup(arena, text, n_bytes);
    if (copy == NULL)
        return S2_ENOMEM;
    set->hash[set->n] = hash;
    set->text[set->n] = copy;
    set->n_bytes[set->n] = n_bytes;
    set->slot[place] = ++set->n;
    *out = set->n - 1;
    return S2_OK;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int compare_spans(const void *left, const void *right)
{
    const s2_span *const a = left, *const b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* A bounded span ends just behind its last element, and has a step only if it has three elements. */
static int32_t span_simplify(s2_span span, s2_span out[2])
{
    if (span.end == S2_OPEN || span.step == 1) {
        out[0] = span;
        return 1;
    }
    const int64_t n = s2_ceil_div(span.end - span.begin, span.step);
    const int64_t last = span.begin + (n - 1) * span.step;
    out[0] = n >= 3 ? (s2_span){span.begin, last + 1, span.step} : (s2_span){span.begin, span.begin + 1, 1};
    out[1] = (s2_span){last, last + 1, 1};
    return n == 2 ? 2 : 1;
}

/* Merge the sorted spans in place: step-1 spans that touch, and exact repetitions. */
static int32_t spans_merge(s2_span *spans, int32_t n)
{
    int32_t n_out = 0, last_plain = -1;
    for (int32_t s = 0; s < n; s++) {
        const s2_span span = spans[s];
        if (span.step == 1 && last_plain >= 0 && span.begin <= spans[last_plain].end) {
            if (span.end > spans[last_plain].end)
                spans[last_plain].end = span.end;
            continue;
        }
        if (n_out > 0 && compare_spans(&spans[n_out - 1], &span) == 0)
            continue;
        if (span.step == 1)
            last_plain = n_out;
        spans[n_out++] = span;
    }
    return n_out;
}

static bool spans_are_blocks(const s2_span_list *list, int64_t block)
{
    for (int32_t s = 0; s < list->n_spans; s++) {
        const s2_span span = list->spans[s];
        if (block > 1 &&
            (span.step != 1 || span.begin % block != 0 || (span.end != S2_OPEN && span.end % block != 0)))
            return false;
    }
    return true;
}

static s2_status list_canonical(s2_arena *arena, const s2_span_list *list, s2_span_list *out)
{
    s2_span *const spans = S2_NEW(arena, s2_span, 2 * (int64_t)list->n_spans);
    if (spans == NULL)
        return S2_ENOMEM;
    int32_t n = 0;
    for (int32_t s = 0; s < list->n_spans; s++)
        n += span_simplify(list->spans[s], spans + n);
    bool sorted = true;
    for (int32_t s = 1; s < n; s++)
        sorted = sorted && compare_spans(&spans[s - 1], &spans[s]) <= 0;
    if (!sorted)
        qsort(spans, (size_t)n, sizeof *spans, compare_spans);
    *out = (s2_span_list){spans_merge(spans, n), spans};
    return S2_OK;
}

/* Done in place, since list_canonical has just copied the spans. */
static void spans_to_blocks(s2_span_list *list, int64_t block)
{
    s2_span *const spans = (s2_span *)(uintptr_t)list->spans;
    for (int32_t s = 0; s < list->n_spans; s++) {
        spans[s].begin /= block;
        if (spans[s].end != S2_OPEN)
            spans[s].end /= block;
    }
}

/* --- terms ------------------------------------------------------------------------------------ */

static bool offset_is_blocks(const s2_offset_expr *offset, int64_t block)
{
    return offset->constant % block == 0 && offset->head_coef % block == 0 && offset->kv_coef % block == 0 &&
           offset->layer_coef % block == 0;
}

static bool quantities_are_blocks(const s2_term *term, int64_t block)
{
    switch (s2_term_row_of(term->kind)->args) {
    case S2_ARGS_EXTENT: return term->n % block == 0;
    case S2_ARGS_STRIDE:
        return term->n % block == 0 && term->width % block == 0 && offset_is_blocks(&term->offset, block);
    case S2_ARGS_LIST: return spans_are_blocks(&term->list, block);
    case S2_ARGS_NONE:
    case S2_ARGS_DRAW:
    case S2_ARGS_FILE:
    case S2_ARGS_PAGES:
    case S2_ARGS_COUNT: return true; /* no quantity in blocks or tokens */
    }
    return false;
}

/* Whether the term reads the same keys with all its quantities divided by the block size. */
static bool term_is_blocks(const s2_term *term, int64_t block)
{
    switch (s2_term_row_of(term->kind)->scale) {
    case S2_SCALE_ABSENT: return true;
    case S2_SCALE_PLACE: return quantities_are_blocks(term, block);
    case S2_SCALE_DISTANCE: return block == 1;
    }
    return false;
}

/* Turns a term in tokens into blocks, where term_is_blocks() holds; its list is a copy already. */
static void term_to_blocks(s2_term *term, int64_t block)
{
    term->tok = false;
    if (s2_term_row_of(term->kind)->scale == S2_SCALE_ABSENT || block == 1)
        return;
    spans_to_blocks(&term->list, block);
    term->n /= block;
    if (s2_term_row_of(term->kind)->args == S2_ARGS_STRIDE) {
        term->width /= block;
        term->offset.constant /= block;
        term->offset.head_coef /= block;
        term->offset.kv_coef /= block;
        term->offset.layer_coef /= block;
    }
}

/* Key and query ranges are thresholds on one axis: each bound is in blocks when whole, else in tokens. */
static void when_simplify(s2_range when[S2_N_UNITS], int64_t block)
{
    s2_range tok = when[S2_UNIT_BLK];
    tok.begin *= block;
    tok.end = tok.end == S2_OPEN ? S2_OPEN : tok.end * block;
    tok = s2_range_meet(tok, when[S2_UNIT_TOK]);
    s2_range blk = {0, S2_OPEN};
    if (tok.begin % block == 0) {
        blk.begin = tok.begin / block;
        tok.begin = 0;
    }
    if (tok.end != S2_OPEN && tok.end % block == 0) {
        blk.end = tok.end / block;
        tok.end = S2_OPEN;
    }
    when[S2_UNIT_BLK] = blk;
    when[S2_UNIT_TOK] = tok;
}

s2_status s2_term_canonical(s2_arena *arena, int32_t block_tok, const s2_term *term, s2_term *out)
{
    s2_term made = *term;
    if (s2_conditions_exclude(&made, block_tok))
        return S2_EINVAL;
    when_simplify(made.when[S2_WHEN_KEY], block_tok);
    when_simplify(made.when[S2_WHEN_QUERY], block_tok);
    if (block_tok == 1)
        when_simplify(made.when[S2_WHEN_DISTANCE], 1);
    if (term->list.n_spans > 0)
        S2_TRY(list_canonical(arena, &term->list, &made.list));
    if (made.tok && term_is_blocks(&made, block_tok))
        term_to_blocks(&made, block_tok);
    *out = made;
    return S2_OK;
}

static s2_status drop_repeated(s2_arena *scratch, s2_buf *text, const s2_body *body, s2_term *terms,
                               int32_t *n_terms)
{
    s2_text_set seen = {0};
    for (int32_t t = 0; t < body->n_terms; t++) {
        int32_t number;
        text->len = 0;
        s2_term_print(&body->terms[t], text);
        S2_TRY(text->status);
        S2_TRY(s2_text_set_add(scratch, &seen, text->data, text->len, &number));
        if (number == *n_terms)
            terms[(*n_terms)++] = body->terms[t];
    }
    return S2_OK;
}

s2_status s2_body_distinct(s2_arena *arena, const s2_body *body, s2_body *out)
{
    s2_term *const terms = S2_NEW(arena, s2_term, body->n_terms + 1);
    if (terms == NULL)
        return S2_ENOMEM;
    int32_t n_terms = 0;
    s2_status status = S2_OK;
    if (body->n_terms < 2) {
        terms[n_terms++] = body->n_terms == 0 ? s2_term_init(S2_TERM_NONE, 0) : body->terms[0];
    } else {
        s2_arena scratch = {0};
        s2_buf text = {0};
        status = drop_repeated(&scratch, &text, body, terms, &n_terms);
        s2_buf_release(&text);
        s2_arena_release(&scratch);
    }
    if (status == S2_OK)
        *out = (s2_body){n_terms, terms};
    return status;
}

s2_status s2_body_canonical(s2_arena *arena, int32_t block_tok, const s2_body *body, s2_body *out)
{
    s2_term *const terms = S2_NEW(arena, s2_term, body->n_terms);
    if (terms == NULL)
        return S2_ENOMEM;
    for (int32_t t = 0; t < body->n_terms; t++)
        S2_TRY(s2_term_canonical(arena, block_tok, &body->terms[t], &terms[t]));
    return s2_body_distinct(arena, &(s2_body){body->n_terms, terms}, out);
}

/* --- rules ------------------------------------------------------------------------------------ */

enum {
    BOTH_PHASES = 3,
    /* the fallback body removes at most one rule per layer and phase */
    MOST_RULES = S2_LIMIT_RULES + S2_N_RULE_PHASES * S2_LIMIT_LAYERS
};

typedef struct draft {
    int32_t body;
    uint32_t phases;
    int32_t n_heads;
    const int32_t *heads;
    uint64_t hash;
    uint64_t layer_bits[S2_LIMIT_LAYERS / 64];
} draft;

typedef struct rule_builder {
    s2_arena *arena;
    const s2_pattern *pattern;
    const int32_t *class_of;
    int32_t n_classes;
    int32_t n_drafts;
    int64_t cap_drafts;
    draft *drafts;
    int32_t cap_slots; /* a power of two */
    int32_t *slot;     /* draft + 1 by hash */
    int32_t
        *begin[S2_N_RULE_PHASES]; /* heads of body b in the current layer: sorted[begin[b]..begin[b + 1]) */
    int32_t *sorted[S2_N_RULE_PHASES];
    uint64_t *row_hash;
    int32_t *group; /* per layer: the lowest layer that equals it */
    int32_t layer_words;
    uint64_t *group_bits; /* per lowest layer: its whole group, layer_words words */
} rule_builder;

static s2_status builder_init(rule_builder *rb)
{
    const s2_pattern *const pattern = rb->pattern;
    rb->cap_slots = 64;
    rb->slot = S2_NEW(rb->arena, int32_t, rb->cap_slots);
    rb->row_hash = S2_NEW(rb->arena, uint64_t, pattern->n_layers);
    rb->group = S2_NEW(rb->arena, int32_t, pattern->n_layers);
    rb->layer_words = (pattern->n_layers + 63) / 64;
    rb->group_bits = S2_NEW(rb->arena, uint64_t, (int64_t)pattern->n_layers * rb->layer_words);
    bool whole = rb->slot != NULL && rb->row_hash != NULL && rb->group != NULL && rb->group_bits != NULL;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        rb->begin[phase] = S2_NEW(rb->arena, int32_t, rb->n_classes + 2);
        rb->sorted[phase] = S2_NEW(rb->arena, int32_t, pattern->n_heads);
        whole = whole && rb->begin[phase] != NULL && rb->sorted[phase] != NULL;
    }
    return whole ? S2_OK : S2_ENOMEM;
}

static const uint16_t *row_of(const s2_pattern *pattern, int phase, int32_t layer)
{
    return pattern->body_of + ((int64_t)phase * pattern->n_layers + layer) * pattern->n_heads;
}

static bool layers_equal(const rule_builder *rb, int32_t a, int32_t b)
{
    const s2_pattern *const pattern = rb->pattern;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        const uint16_t *const left = row_of(pattern, phase, a), *const right = row_of(pattern, phase, b);
        for (int32_t head = 0; head < pattern->n_heads; head++)
            if (rb->class_of[left[head]] != rb->class_of[right[head]])
                return false;
    }
    return true;
}

static void group_layers(rule_builder *rb)
{
    const s2_pattern *const pattern = rb->pattern;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        uint64_t hash = 0;
        for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
            const uint16_t *const row = row_of(pattern, phase, layer);
            for (int32_t head = 0; head < pattern->n_heads; head++)
                hash =
                    (hash ^ (uint64_t)rb->class_of[row[head]]) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 31);
        }
        rb->row_hash[layer] = hash;
        rb->group[layer] = layer;
        for (int32_t other = 0; other < layer; other++)
            if (rb->group[other] == other && rb->row_hash[other] == hash && layers_equal(rb, other, layer)) {
                rb->group[layer] = other;
                break;
            }
        rb->group_bits[(int64_t)rb->group[layer] * rb->layer_words + layer / 64] |= UINT64_C(1)
                                                                                    << (layer % 64);
    }
}

/* Counting sort of the heads of one layer by body, ascending within a body. */
static void sort_heads(rule_builder *rb, int phase, int32_t layer)
{
    const uint16_t *const row = row_of(rb->pattern, phase, layer);
    int32_t *const begin = rb->begin[phase];
    memset(begin, 0, ((size_t)rb->n_classes + 2) * sizeof *begin);
    for (int32_t head = 0; head < rb->pattern->n_heads; head++)
        begin[rb->class_of[row[head]] + 2]++;
    for (int32_t body = 0; body < rb->n_classes; body++)
        begin[body + 2] += begin[body + 1];
    for (int32_t head = 0; head < rb->pattern->n_heads; head++)
        rb->sorted[phase][begin[rb->class_of[row[head]] + 1]++] = head;
}

static s2_status slots_grow(rule_builder *rb)
{
    const int32_t cap = rb->cap_slots * 2;
    int32_t *const slot = S2_NEW(rb->arena, int32_t, cap);
    if (slot == NULL)
        return S2_ENOMEM;
    for (int32_t d = 0; d < rb->n_drafts; d++) {
        uint32_t place = (uint32_t)rb->drafts[d].hash & (uint32_t)(cap - 1);
        while (slot[place] != 0)
            place = (place + 1) & (uint32_t)(cap - 1);
        slot[place] = d + 1;
    }
    rb->slot = slot;
    rb->cap_slots = cap;
    return S2_OK;
}

static s2_status draft_new(rule_builder *rb, const draft *key, draft **out)
{
    if (rb->n_drafts == MOST_RULES)
        return S2_ELIMIT;
    S2_TRY(S2_ARENA_ROOM(rb->arena, rb->drafts, rb->n_drafts, rb->cap_drafts));
    draft *const made = &rb->drafts[rb->n_drafts];
    *made = *key;
    made->heads =
        s2_arena_grow(rb->arena, key->heads, (size_t)key->n_heads, (size_t)key->n_heads, sizeof *key->heads);
    if (made->heads == NULL)
        return S2_ENOMEM;
    rb->n_drafts++;
    *out = made;
    return S2_OK;
}

static bool draft_matches(const draft *a, const draft *b)
{
    return a->hash == b->hash && a->body == b->body && a->phases == b->phases && a->n_heads == b->n_heads &&
           memcmp(a->heads, b->heads, (size_t)a->n_heads * sizeof *a->heads) == 0;
}

/* Add the layers of one group to the rule (body, phases, heads), creating it if it is new. */
static s2_status draft_add(rule_builder *rb, int32_t body, uint32_t phases, int32_t group)
{
    const int phase = phases == 2 ? S2_DECODE : S2_PREFILL;
    const int32_t *const begin = rb->begin[phase];
    draft key = {.body = body,
                 .phases = phases,
                 .n_heads = begin[body + 1] - begin[body],
                 .heads = rb->sorted[phase] + begin[body]};
    key.hash = hash_bytes(key.heads, (size_t)key.n_heads * sizeof *key.heads) +
               ((uint64_t)body * 4 + phases) * UINT64_C(0x9e3779b97f4a7c15);
    if (rb->n_drafts * 2 >= rb->cap_slots)
        S2_TRY(slots_grow(rb));
    const uint32_t mask = (uint32_t)(rb->cap_slots - 1);
    uint32_t place = (uint32_t)key.hash & mask;
    while (rb->slot[place] != 0 && !draft_matches(&rb->drafts[rb->slot[place] - 1], &key))
        place = (place + 1) & mask;
    draft *found = rb->slot[place] != 0 ? &rb->drafts[rb->slot[place] - 1] : NULL;
    if (found == NULL) {
        S2_TRY(draft_new(rb, &key, &found));
        rb->slot[place] = rb->n_drafts;
    }
    for (int32_t word = 0; word < rb->layer_words; word++)
        found->layer_bits[word] |= rb->group_bits[(int64_t)group * rb->layer_words + word];
    return S2_OK;
}

static s2_status drafts_of_layer(rule_builder *rb, int32_t layer)
{
    sort_heads(rb, S2_PREFILL, layer);
    sort_heads(rb, S2_DECODE, layer);
    for (int32_t body = 0; body < rb->n_classes; body++) {
        const int32_t *const first = rb->sorted[S2_PREFILL] + rb->begin[S2_PREFILL][body];
        const int32_t *const second = rb->sorted[S2_DECODE] + rb->begin[S2_DECODE][body];
        const int32_t n_first = rb->begin[S2_PREFILL][body + 1] - rb->begin[S2_PREFILL][body];
        const int32_t n_second = rb->begin[S2_DECODE][body + 1] - rb->begin[S2_DECODE][body];
        if (n_first == n_second && memcmp(first, second, (size_t)n_first * sizeof *first) == 0) {
            if (n_first > 0)
                S2_TRY(draft_add(rb, body, BOTH_PHASES, layer));
            continue;
        }
        if (n_first > 0)
            S2_TRY(draft_add(rb, body, 1u << S2_PREFILL, layer));
        if (n_second > 0)
            S2_TRY(draft_add(rb, body, 1u << S2_DECODE, layer));
    }
    return S2_OK;
}

static int32_t lowest_bit(const uint64_t *words)
{
    int32_t word = 0;
    while (words[word] == 0)
        word++;
    return word * 64 + __builtin_ctzll(words[word]);
}

/* Order by first cell: layer, then head, then phase. Distinct rules of a pattern never share a cell. */
static int compare_drafts(const void *left, const void *right)
{
    const draft *const a = left, *const b = right;
    const int32_t layer_a = lowest_bit(a->layer_bits), layer_b = lowest_bit(b->layer_bits);
    if (layer_a != layer_b)
        return layer_a < layer_b ? -1 : 1;
    if (a->heads[0] != b->heads[0])
        return a->heads[0] < b->heads[0] ? -1 : 1;
    return a->phases < b->phases ? -1 : a->phases > b->phases;
}

static s2_status draft_finish(rule_builder *rb, const draft *from, s2_rule *out)
{
    int32_t n_layers = 0;
    int32_t *const layers = S2_NEW(rb->arena, int32_t, rb->pattern->n_layers);
    if (layers == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < rb->pattern->n_layers; layer++)
        if (from->layer_bits[layer / 64] >> (layer % 64) & 1)
            layers[n_layers++] = layer;
    *out = (s2_rule){from->body, from->phases, n_layers, layers, from->n_heads, from->heads};
    return S2_OK;
}

/* The body whose rules, replaced by one leading `layers all` rule, save the most text; -1 for none. */
static s2_status choose_fallback(rule_builder *rb, const s2_rule *rules, const size_t *text_bytes,
                                 int32_t *out)
{
    int64_t *const saving = S2_NEW(rb->arena, int64_t, rb->n_classes);
    if (saving == NULL)
        return S2_ENOMEM;
    const int64_t around = 3; /* ": " and the line end */
    for (int32_t body = 0; body < rb->n_classes; body++)
        saving[body] = -((int64_t)strlen("layers all") + around + (int64_t)text_bytes[body]);
    s2_buf text = {0};
    for (int32_t rule = 0; rule < rb->n_drafts; rule++) {
        text.len = 0;
        s2_selector_print(rb->pattern, &rules[rule], &text);
        saving[rules[rule].body] += (int64_t)text.len + around + (int64_t)text_bytes[rules[rule].body];
    }
    const s2_status status = text.status;
    s2_buf_release(&text);
    int32_t best = -1;
    for (int32_t body = 0; body < rb->n_classes && status == S2_OK; body++)
        if (saving[body] > 0 && (best < 0 || saving[body] > saving[best]))
            best = body;
    if (status == S2_OK)
        *out = best;
    return status;
}

s2_status s2_rules_build(s2_arena *arena, const s2_pattern *pattern, const int32_t *class_of,
                         int32_t n_classes, const size_t *text_bytes, s2_rule_list *out)
{
    rule_builder rb = {.arena = arena, .pattern = pattern, .class_of = class_of, .n_classes = n_classes};
    S2_TRY(builder_init(&rb));
    group_layers(&rb);
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (rb.group[layer] == layer)
            S2_TRY(drafts_of_layer(&rb, layer));
    if (rb.n_drafts > 1)
        qsort(rb.drafts, (size_t)rb.n_drafts, sizeof *rb.drafts, compare_drafts);
    s2_rule *const rules = S2_NEW(arena, s2_rule, rb.n_drafts);
    if (rules == NULL)
        return S2_ENOMEM;
    for (int32_t rule = 0; rule < rb.n_drafts; rule++)
        S2_TRY(draft_finish(&rb, &rb.drafts[rule], &rules[rule]));
    int32_t fallback;
    S2_TRY(choose_fallback(&rb, rules, text_bytes, &fallback));
    int32_t n_rules = 0;
    for (int32_t rule = 0; rule < rb.n_drafts; rule++)
        if (rules[rule].body != fallback)
            rules[n_rules++] = rules[rule];
    if (n_rules + (fallback >= 0) > S2_LIMIT_RULES)
        return S2_ELIMIT;
    *out = (s2_rule_list){n_rules, rules, fallback};
    return S2_OK;
}

/* The KV heads whose groups together are exactly the rule's heads, ascending; returns 0 if there are none. */
static int32_t whole_groups(const s2_pattern *pattern, const s2_rule *rule, int32_t *kv)
{
    const int32_t size = pattern->n_heads / pattern->n_kv_heads;
    if (size == 1 || rule->n_heads % size != 0)
        return 0;
    for (int32_t nth = 0; nth < rule->n_layers; nth++)
        if (s2_pattern_kv_heads(pattern, rule->layers[nth]) != pattern->n_kv_heads)
            return 0;
    for (int32_t at = 0; at < rule->n_heads; at += size) {
        if (rule->heads[at] % size != 0 || rule->heads[at + size - 1] != rule->heads[at] + size - 1)
            return 0;
        kv[at / size] = rule->heads[at] / size;
    }
    return rule->n_heads / size;
}

void s2_selector_print(const s2_pattern *pattern, const s2_rule *rule, s2_buf *buf)
{
    const size_t start = buf->len;
    if (rule->phases != BOTH_PHASES)
        s2_buf_puts(buf, rule->phases == 1u << S2_PREFILL ? "prefill" : "decode");
    if (rule->n_layers < pattern->n_layers) {
        s2_buf_puts(buf, buf->len > start ? " layers " : "layers ");
        s2_index_list_print(rule->layers, rule->n_layers, pattern->n_layers, buf);
    }
    if (rule->n_heads < pattern->n_heads) {
        int32_t kv[S2_LIMIT_HEADS];
        const int32_t n_kv = whole_groups(pattern, rule, kv);
        s2_buf_puts(buf, buf->len > start ? " " : "");
        s2_buf_puts(buf, n_kv > 0 ? "kv " : "heads ");
        if (n_kv > 0)
            s2_index_list_print(kv, n_kv, pattern->n_kv_heads, buf);
        else
            s2_index_list_print(rule->heads, rule->n_heads, pattern->n_heads, buf);
    }
    if (buf->len == start)
        s2_buf_puts(buf, "layers all");
}
