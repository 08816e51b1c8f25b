/*
 * Statements `layers LIST: WORD N`: numbers that some layers set for themselves.
 */
#include <string.h>

#include "pattern/parser.h"

typedef struct layer_row {
    const char *word;
    int64_t smallest;
    int64_t largest;
} layer_row;
static const layer_row layer_rows[S2_N_LAYER_WORDS] = {
#define LAYER_ROW(name, word, field, smallest, largest) {word, smallest, largest},
    S2_LAYER_TABLE(LAYER_ROW)
#undef LAYER_ROW
};

static int layer_word_index(s2_word word)
{
    int what = 0;
    while (what < S2_N_LAYER_WORDS && !s2_word_is(word, layer_rows[what].word))
        what++;
    return what;
}

/* Whether a colon of the statement is followed by one of the words, none of which is a term. */
bool s2_parse_starts_layer_number(const s2_parser *p)
{
    s2_lex ahead = p->lex;
    if (!s2_word_is(s2_lex_word(&ahead, true), "layers"))
        return false;
    for (char byte = s2_lex_peek(&ahead); byte != '\0' && byte != '"'; byte = s2_lex_peek(&ahead)) {
        ahead.pos++;
        s2_lex after = ahead;
        if (byte == ':' && layer_word_index(s2_lex_word(&after, true)) < S2_N_LAYER_WORDS)
            return true;
    }
    return false;
}

static s2_status check_number(s2_parser *p, int what, s2_number number)
{
    const layer_row *const row = &layer_rows[what];
    const int64_t n_heads = p->shape[S2_SHAPE_HEADS], n_layers = p->shape[S2_SHAPE_LAYERS];
    if (number.value < row->smallest)
        return S2_REFUSE(p, S2P_TOO_SMALL, number.pos, "%s must be at least %lld", row->word,
                         (long long)row->smallest);
    if (number.value > row->largest)
        return S2_REFUSE(p, S2P_LIMIT, number.pos, "%s is at most %lld", row->word, (long long)row->largest);
    if (what == S2_LAYER_KV_HEADS && n_heads % number.value != 0)
        return S2_REFUSE(p, S2P_KV_HEADS, number.pos, "kv-heads %lld does not divide heads %lld",
                         (long long)number.value, (long long)n_heads);
    if (what == S2_LAYER_KV_LAYER && number.value >= n_layers)
        return S2_REFUSE(p, S2P_OUT_OF_RANGE, number.pos,
                         "layer %lld is out of range: there are %lld, counted from 0",
                         (long long)number.value, (long long)n_layers);
    return S2_OK;
}

static s2_status own_numbers_init(s2_parser *p)
{
    const int64_t n_layers = p->shape[S2_SHAPE_LAYERS];
    if (p->own[0] != NULL)
        return S2_OK;
    for (int what = 0; what < S2_N_LAYER_WORDS; what++) {
        p->own[what] = S2_NEW(&p->scratch, s2_own_number, n_layers);
        if (p->own[what] == NULL)
            return S2_ENOMEM;
    }
    return S2_OK;
}

static s2_status read_layer_number(s2_parser *p)
{
    const int64_t n_layers = p->shape[S2_SHAPE_LAYERS];
    uint64_t bits[S2_LIMIT_LAYERS / 64] = {0};
    s2_number number;
    S2_TRY(own_numbers_init(p));
    s2_lex_word(&p->lex, true);
    S2_TRY(s2_parse_indices(p, "layer", n_layers, bits));
    if (!s2_lex_take(&p->lex, ':'))
        return S2_REFUSE(p, S2P_EXPECTED, p->lex.pos,
                         "expected ':': a layer's own number is for all its heads");
    const s2_word word = s2_lex_word(&p->lex, true);
    const int what = layer_word_index(word);
    if (what == S2_N_LAYER_WORDS)
        return S2_REFUSE(p, S2P_EXPECTED, word.pos, "expected kv-heads, head-dim, kv-layer or state");
    S2_TRY(s2_lex_number(&p->lex, layer_rows[what].word, S2_UNIT_NONE, &number));
    S2_TRY(check_number(p, what, number));
    for (int64_t layer = 0; layer < n_layers; layer++) {
        if (!(bits[layer / 64] >> (layer % 64) & 1))
            continue;
        if (what == S2_LAYER_KV_LAYER && number.value >= layer)
            return S2_REFUSE(p, S2P_OUT_OF_RANGE, number.pos,
                             "layer %lld cannot read the keys of layer %lld: only those of a lower layer",
                             (long long)layer, (long long)number.value);
        p->own[what][layer] = (s2_own_number){number.value, number.pos + 1};
    }
    return s2_parse_expect_end(p, layer_rows[what].word);
}

s2_status s2_parse_layer_numbers(s2_parser *p)
{
    s2_lex *const lex = &p->lex;
    const size_t begin = lex->pos;
    for (s2_lex_skip_between(lex); lex->pos < lex->n; s2_lex_skip_between(lex)) {
        if (s2_parse_starts_layer_number(p))
            S2_TRY(read_layer_number(p));
        else
            s2_parse_skip_statement(p);
    }
    lex->pos = begin;
    return S2_OK;
}

bool s2_parse_layer_has_state(const s2_parser *p, int64_t layer)
{
    return p->own[S2_LAYER_STATE] != NULL && p->own[S2_LAYER_STATE][layer].stated != 0;
}

int64_t s2_parse_layer_kv_heads(const s2_parser *p, int64_t layer)
{
    if (p->own[0] == NULL)
        return p->shape[S2_SHAPE_KV_HEADS];
    const s2_own_number source = p->own[S2_LAYER_KV_LAYER][layer];
    const s2_own_number own = p->own[S2_LAYER_KV_HEADS][source.stated != 0 ? source.value : layer];
    return own.stated != 0 ? own.value : p->shape[S2_SHAPE_KV_HEADS];
}

/* A layer may repeat, but not change, what it takes from the layer whose keys it reads. */
static s2_status check_shared(s2_parser *p, int64_t layer, int what, int64_t value)
{
    const s2_own_number own = p->own[what][layer];
    if (own.stated == 0 || own.value == value)
        return S2_OK;
    return S2_REFUSE(p, S2P_LAYER, own.stated - 1,
                     "layer %lld reads the keys of layer %lld, so its %s is %lld", (long long)layer,
                     (long long)p->own[S2_LAYER_KV_LAYER][layer].value, layer_rows[what].word,
                     (long long)value);
}

static s2_status fill_layer(s2_parser *p, int32_t layer, s2_layer_shape *shapes)
{
    s2_layer_shape *const shape = &shapes[layer];
    *shape = (s2_layer_shape){(int32_t)p->shape[S2_SHAPE_KV_HEADS], (int32_t)p->shape[S2_SHAPE_HEAD_DIM],
                              layer, 0};
    if (p->own[S2_LAYER_STATE][layer].stated != 0)
        shape->state_bytes = p->own[S2_LAYER_STATE][layer].value;
    const s2_own_number source = p->own[S2_LAYER_KV_LAYER][layer];
    if (source.stated != 0) {
        const s2_layer_shape *const from = &shapes[source.value];
        if (from->kv_layer != source.value)
            return S2_REFUSE(p, S2P_LAYER, source.stated - 1,
                             "layer %lld keeps no keys of its own: name layer %d, whose keys it reads",
                             (long long)source.value, from->kv_layer);
        S2_TRY(check_shared(p, layer, S2_LAYER_KV_HEADS, from->n_kv_heads));
        S2_TRY(check_shared(p, layer, S2_LAYER_HEAD_DIM, from->head_dim));
        shape->kv_layer = (int32_t)source.value;
        shape->n_kv_heads = from->n_kv_heads;
        shape->head_dim = from->head_dim;
        return S2_OK;
    }
    if (p->own[S2_LAYER_KV_HEADS][layer].stated != 0)
        shape->n_kv_heads = (int32_t)p->own[S2_LAYER_KV_HEADS][layer].value;
    if (p->own[S2_LAYER_HEAD_DIM][layer].stated != 0)
        shape->head_dim = (int32_t)p->own[S2_LAYER_HEAD_DIM][layer].value;
    return S2_OK;
}

s2_status s2_parse_layer_shapes(s2_parser *p, s2_pattern *out)
{
    if (p->own[0] == NULL)
        return S2_OK;
    s2_layer_shape *const shapes = S2_NEW(p->arena, s2_layer_shape, out->n_layers);
    if (shapes == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < out->n_layers; layer++)
        S2_TRY(fill_layer(p, layer, shapes));
    out->layer_shapes = shapes;
    if (!s2_pattern_layers_differ(out))
        out->layer_shapes = NULL;
    return S2_OK;
}
