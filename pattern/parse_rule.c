/*
 * Rules: selectors as bit sets, and the last rule that matches each cell.
 */
#include "pattern/parser.h"

#include "base/arith.h"

static const char *const selector_words[] = {
#define SELECTOR_WORD(name, word) word,
    S2_SELECTOR_TABLE(SELECTOR_WORD) "all", NULL
#undef SELECTOR_WORD
};

/* ---- rules */

static s2_status read_kv_list(s2_parser *p, uint64_t *heads)
{
    const int64_t n_kv = p->shape[S2_SHAPE_KV_HEADS], size = p->shape[S2_SHAPE_HEADS] / n_kv;
    uint64_t *const kv = S2_NEW(&p->scratch, uint64_t, (n_kv + 63) / 64);
    if (kv == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_parse_indices(p, "KV head", n_kv, kv));
    for (int64_t group = 0; group < n_kv; group++)
        if (kv[group / 64] >> (group % 64) & 1)
            s2_set_bits(heads, group * size, (group + 1) * size, 1);
    return S2_OK;
}

typedef struct selector_parts {
    bool layers, heads, phase;
    size_t kv; /* offset + 1 of 'kv' */
} selector_parts;

static s2_status read_selector_part(s2_parser *p, s2_word word, selector_parts *have, s2_parsed_rule *out)
{
    if (s2_word_is(word, "all"))
        return S2_OK;
    if (s2_word_is(word, "prefill") || s2_word_is(word, "decode")) {
        if (have->phase)
            return S2_REFUSE(p, S2P_DUPLICATE, word.pos,
                             "a rule names one phase; without one it is for both");
        have->phase = true;
        out->phases = 1u << (s2_word_is(word, "prefill") ? S2_PREFILL : S2_DECODE);
        return S2_OK;
    }
    if (s2_word_is(word, "layers")) {
        if (have->layers)
            return s2_parse_refuse_twice(p, word.pos, "layers");
        have->layers = true;
        return s2_parse_indices(p, "layer", p->shape[S2_SHAPE_LAYERS], out->layers);
    }
    if (have->heads)
        return S2_REFUSE(p, S2P_DUPLICATE, word.pos, "a rule names its heads once, by 'heads' or by 'kv'");
    have->heads = true;
    if (s2_word_is(word, "kv")) {
        have->kv = word.pos + 1;
        return read_kv_list(p, out->heads);
    }
    return s2_parse_indices(p, "head", p->shape[S2_SHAPE_HEADS], out->heads);
}

/* `kv` numbers are those of the shape, so they cannot refer to a layer with other KV heads. */
static s2_status check_kv_layers(s2_parser *p, const selector_parts *have, const s2_parsed_rule *rule)
{
    const int64_t n_kv = p->shape[S2_SHAPE_KV_HEADS];
    for (int64_t layer = 0; have->kv != 0 && layer < p->shape[S2_SHAPE_LAYERS]; layer++)
        if ((rule->layers[layer / 64] >> (layer % 64) & 1) && s2_parse_layer_kv_heads(p, layer) != n_kv)
            return S2_REFUSE(p, S2P_OUT_OF_RANGE, have->kv - 1,
                             "layer %lld has %lld KV heads, not %lld: select its heads by 'heads'",
                             (long long)layer, (long long)s2_parse_layer_kv_heads(p, layer), (long long)n_kv);
    return S2_OK;
}

static s2_status refuse_mixers(s2_parser *p, const s2_parsed_rule *rule)
{
    const int32_t n_layers = (int32_t)p->shape[S2_SHAPE_LAYERS];
    int32_t *const attention = S2_NEW(&p->scratch, int32_t, n_layers);
    s2_buf list = {0};
    int32_t n = 0;
    if (attention == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < n_layers; layer++)
        if (!(p->options->mixers[layer / 64] >> (layer % 64) & 1))
            attention[n++] = layer;
    s2_index_list_print(attention, n, n_layers, &list);
    s2_buf_add(&list, "", 1);
    s2_status status = list.status;
    if (status == S2_OK)
        status =
            S2_REFUSE(p, S2P_OUT_OF_RANGE, rule->begin,
                      "this rule names only layers that keep a state and read no keys: those with attention "
                      "are %.200s",
                      list.data);
    s2_buf_release(&list);
    return status;
}

/* Leave out the layers that read no keys. */
static s2_status leave_mixers(s2_parser *p, s2_parsed_rule *rule)
{
    uint64_t left = 0;
    if (p->options == NULL || p->options->mixers == NULL)
        return S2_OK;
    for (int32_t word = 0; word < p->layer_words; word++) {
        rule->layers[word] &= ~p->options->mixers[word];
        left |= rule->layers[word];
    }
    return left != 0 ? S2_OK : refuse_mixers(p, rule);
}

static s2_status read_selector(s2_parser *p, s2_parsed_rule *out)
{
    selector_parts have = {0};
    while (!s2_lex_take(&p->lex, ':')) {
        const s2_word word = s2_lex_word(&p->lex, true);
        if (word.n == 0)
            return S2_REFUSE(p, S2P_EXPECTED, word.pos, "expected ':' and a body after the selector");
        if (!s2_word_among(word, selector_words))
            return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "word in a selector:", selector_words);
        S2_TRY(read_selector_part(p, word, &have, out));
    }
    if (!have.layers)
        s2_set_bits(out->layers, 0, p->shape[S2_SHAPE_LAYERS], 1);
    if (!have.heads)
        s2_set_bits(out->heads, 0, p->shape[S2_SHAPE_HEADS], 1);
    return check_kv_layers(p, &have, out);
}

/* A statement that starts with a term is the body of a rule for everything. */
static bool starts_body(const s2_parser *p)
{
    s2_lex ahead = p->lex;
    return s2_parse_term_kind(s2_lex_word(&ahead, true)) != S2_N_TERM_KINDS;
}

static s2_status rule_new(s2_parser *p, s2_parsed_rule *out)
{
    *out = (s2_parsed_rule){.phases = (1u << S2_PREFILL) | (1u << S2_DECODE), .begin = p->lex.pos};
    if (p->n_rules == S2_LIMIT_RULES)
        return S2_REFUSE(p, S2P_TOO_MANY_RULES, p->lex.pos, "more than %d rules", S2_LIMIT_RULES);
    S2_TRY(S2_ARENA_ROOM(&p->scratch, p->rules, p->n_rules, p->cap_rules));
    out->layers = S2_NEW(&p->scratch, uint64_t, p->layer_words);
    out->heads = S2_NEW(&p->scratch, uint64_t, p->head_words);
    return out->layers != NULL && out->heads != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status read_rule(s2_parser *p)
{
    s2_parsed_rule made;
    S2_TRY(rule_new(p, &made));
    if (starts_body(p)) {
        s2_set_bits(made.layers, 0, p->shape[S2_SHAPE_LAYERS], 1);
        s2_set_bits(made.heads, 0, p->shape[S2_SHAPE_HEADS], 1);
    } else {
        S2_TRY(read_selector(p, &made));
    }
    S2_TRY(leave_mixers(p, &made));
    S2_TRY(s2_parse_body(p, &made.body));
    p->rules[p->n_rules++] = made;
    return S2_OK;
}

s2_status s2_parse_rules(s2_parser *p)
{
    s2_lex *const lex = &p->lex;
    p->layer_words = (int32_t)((p->shape[S2_SHAPE_LAYERS] + 63) / 64);
    p->head_words = (int32_t)((p->shape[S2_SHAPE_HEADS] + 63) / 64);
    for (s2_lex_skip_between(lex); lex->pos < lex->n; s2_lex_skip_between(lex)) {
        const size_t begin = lex->pos;
        s2_word word;
        const bool is_shape = s2_parse_starts_shape(p, &word);
        lex->pos = begin;
        if (is_shape || s2_parse_starts_layer_number(p))
            s2_parse_skip_statement(p);
        else
            S2_TRY(read_rule(p));
    }
    return S2_OK;
}

/* ---- resolving */

typedef struct resolver {
    const s2_parser *p;
    uint64_t *open[S2_N_RULE_PHASES]; /* heads without a rule yet, head_words per layer */
    uint64_t *open_layers[S2_N_RULE_PHASES];
    uint16_t *body_of;
} resolver;

static s2_status resolver_init(s2_parser *p, resolver *rs)
{
    const int64_t n_layers = p->shape[S2_SHAPE_LAYERS], n_heads = p->shape[S2_SHAPE_HEADS];
    rs->p = p;
    rs->body_of = S2_NEW(p->arena, uint16_t, S2_N_RULE_PHASES * n_layers * n_heads);
    if (rs->body_of == NULL)
        return S2_ENOMEM;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        rs->open[phase] = S2_NEW(&p->scratch, uint64_t, n_layers * p->head_words);
        rs->open_layers[phase] = S2_NEW(&p->scratch, uint64_t, p->layer_words);
        if (rs->open[phase] == NULL || rs->open_layers[phase] == NULL)
            return S2_ENOMEM;
        s2_set_bits(rs->open_layers[phase], 0, n_layers, 1);
        for (int64_t layer = 0; layer < n_layers; layer++)
            s2_set_bits(rs->open[phase] + layer * p->head_words, 0, n_heads, 1);
    }
    return S2_OK;
}

static void fill_cells(uint16_t *row, int32_t first_head, uint64_t heads, uint16_t body)
{
    if (heads == UINT64_MAX) {
        for (int32_t bit = 0; bit < 64; bit++)
            row[first_head + bit] = body;
        return;
    }
    for (; heads != 0; heads &= heads - 1)
        row[first_head + __builtin_ctzll(heads)] = body;
}

static void resolve_layer(resolver *rs, const s2_parsed_rule *from, int phase, int32_t layer)
{
    const s2_parser *const p = rs->p;
    uint64_t *const open = rs->open[phase] + (int64_t)layer * p->head_words;
    uint16_t *const row =
        rs->body_of + ((int64_t)phase * p->shape[S2_SHAPE_LAYERS] + layer) * p->shape[S2_SHAPE_HEADS];
    uint64_t left = 0;
    for (int32_t word = 0; word < p->head_words; word++) {
        const uint64_t taken = open[word] & from->heads[word];
        if (taken != 0)
            fill_cells(row, word * 64, taken, (uint16_t)from->body);
        open[word] &= ~taken;
        left |= open[word];
    }
    if (left == 0)
        rs->open_layers[phase][layer / 64] &= ~(UINT64_C(1) << (layer % 64));
}

static void resolve_rule(resolver *rs, const s2_parsed_rule *from)
{
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        if (!(from->phases >> phase & 1))
            continue;
        for (int32_t word = 0; word < rs->p->layer_words; word++)
            for (uint64_t bits = rs->open_layers[phase][word] & from->layers[word]; bits != 0;
                 bits &= bits - 1)
                resolve_layer(rs, from, phase, word * 64 + __builtin_ctzll(bits));
    }
}

static int32_t first_bit(const uint64_t *words, int32_t n_words)
{
    for (int32_t word = 0; word < n_words; word++)
        if (words[word] != 0)
            return word * 64 + __builtin_ctzll(words[word]);
    return -1;
}

/* Refuse with the lowest layer, then head, that has no rule in some phase. */
static s2_status check_all_ruled(s2_parser *p, const resolver *rs)
{
    int32_t layer = INT32_MAX, head = INT32_MAX;
    bool open[S2_N_RULE_PHASES] = {false};
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        const int32_t first = first_bit(rs->open_layers[phase], p->layer_words);
        layer = first >= 0 && first < layer ? first : layer;
    }
    if (layer == INT32_MAX)
        return S2_OK;
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++) {
        const int32_t first = first_bit(rs->open[phase] + (int64_t)layer * p->head_words, p->head_words);
        head = first >= 0 && first < head ? first : head;
    }
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        open[phase] = rs->open[phase][(int64_t)layer * p->head_words + head / 64] >> (head % 64) & 1;
    const bool both = open[S2_PREFILL] && open[S2_DECODE];
    return S2_REFUSE(p, S2P_NO_RULE, p->n_rules > 0 ? p->rules[p->n_rules - 1].begin : p->lex.n,
                     "layer %d, head %d has no rule%s%s", layer, head, both ? "" : " in ",
                     both ? "" : s2_phase_word(open[S2_PREFILL] ? S2_PREFILL : S2_DECODE));
}

/* Keep the bodies that some cell uses, numbered by first use. */
static s2_status number_bodies(s2_parser *p, uint16_t *body_of, s2_pattern *out)
{
    const int64_t n_cells = S2_N_RULE_PHASES * p->shape[S2_SHAPE_LAYERS] * p->shape[S2_SHAPE_HEADS];
    int32_t *const number = S2_NEW(&p->scratch, int32_t, p->body_texts.n);
    s2_body *const bodies = S2_NEW(p->arena, s2_body, p->body_texts.n);
    if (number == NULL || bodies == NULL)
        return S2_ENOMEM;
    int32_t n_used = 0;
    for (int64_t cell = 0; cell < n_cells; cell++) {
        const int32_t body = body_of[cell];
        if (number[body] == 0) {
            bodies[n_used] = p->bodies[body];
            number[body] = ++n_used;
        }
        body_of[cell] = (uint16_t)(number[body] - 1);
    }
    out->n_bodies = n_used;
    out->bodies = bodies;
    out->body_of = body_of;
    return S2_OK;
}

/* Heads without a rule in layers that keep a state read nothing. */
static s2_status resolve_states(s2_parser *p, resolver *rs)
{
    s2_parsed_rule rest = {.phases = (1u << S2_PREFILL) | (1u << S2_DECODE)};
    bool any = false;
    rest.layers = S2_NEW(&p->scratch, uint64_t, p->layer_words);
    rest.heads = S2_NEW(&p->scratch, uint64_t, p->head_words);
    if (rest.layers == NULL || rest.heads == NULL)
        return S2_ENOMEM;
    for (int64_t layer = 0; layer < p->shape[S2_SHAPE_LAYERS]; layer++)
        if (s2_parse_layer_has_state(p, layer)) {
            s2_set_bits(rest.layers, layer, layer + 1, 1);
            any = true;
        }
    if (!any)
        return S2_OK;
    s2_set_bits(rest.heads, 0, p->shape[S2_SHAPE_HEADS], 1);
    S2_TRY(s2_parse_empty_body(p, &rest.body));
    resolve_rule(rs, &rest);
    return S2_OK;
}

s2_status s2_parse_resolve(s2_parser *p, s2_pattern *out)
{
    resolver rs;
    S2_TRY(resolver_init(p, &rs));
    for (int32_t at = p->n_rules - 1; at >= 0; at--)
        resolve_rule(&rs, &p->rules[at]);
    S2_TRY(resolve_states(p, &rs));
    S2_TRY(check_all_ruled(p, &rs));
    return number_bodies(p, rs.body_of, out);
}
