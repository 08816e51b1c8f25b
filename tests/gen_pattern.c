#include "tests/gen_pattern.h"

#include <stddef.h>

#include "pattern/words.h"

typedef struct gen {
    s2_rng *rng;
    const s2_gen_options *options;
    s2_buf *out;
    int32_t n_layers, n_heads, n_kv_heads, block_tok;
} gen;

s2_gen_options s2_gen_defaults(void)
{
    return (s2_gen_options){.max_heads = 8,
                            .max_layers = 4,
                            .max_block_tok = 8,
                            .max_blk = 6,
                            .max_stride = 6,
                            .max_terms = 4,
                            .max_rules = 4,
                            .tokens = true,
                            .when = true,
                            .phases = true,
                            .not_causal = true,
                            .layers_differ = true,
                            .explicit_random = true,
                            .dynamic = true,
                            .decorated = true};
}

static int32_t below(gen *g, int32_t n)
{
    return (int32_t)s2_rng_below(g->rng, (uint64_t)n);
}

static bool chance(gen *g, int32_t percent)
{
    return below(g, 100) < percent;
}

static int32_t between(gen *g, int32_t lowest, int32_t highest)
{
    return lowest + below(g, highest - lowest + 1);
}

static void put(gen *g, const char *text)
{
    s2_buf_puts(g->out, text);
}

static void put_blank(gen *g)
{
    static const char *const blanks[] = {" ", "  ", "\t", " \t "};
    put(g, g->options->decorated && chance(g, 15) ? blanks[below(g, 4)] : " ");
}

/* A number with the unit, in thousands where that is exact. */
static void put_number(gen *g, int32_t value, bool tok)
{
    if (g->options->decorated && value != 0 && value % 1024 == 0)
        s2_buf_printf(g->out, "%dk", value / 1024);
    else
        s2_buf_printf(g->out, "%d", value);
    put(g, tok ? "t" : "");
}

static bool pick_unit(gen *g)
{
    return g->options->tokens && chance(g, 35);
}

/* In the unit: 1 to most_blk blocks; half of the token numbers are whole blocks. */
static int32_t pick_extent(gen *g, bool tok, int32_t most_blk)
{
    const int32_t blocks = between(g, 1, most_blk);
    if (!tok)
        return blocks;
    return chance(g, 50) ? blocks * g->block_tok : between(g, 1, most_blk * g->block_tok);
}

/* --- conditions ------------------------------------------------------------------------------- */

static void put_range(gen *g)
{
    const int32_t most = g->options->max_blk, block = g->block_tok;
    const bool low_tok = pick_unit(g), high_tok = pick_unit(g);
    const int32_t low = pick_extent(g, low_tok, most) - chance(g, 30);
    /* beyond the low bound in every unit and for distances too, so that no range is empty */
    const int32_t low_blk = low_tok ? low / block + 1 : low;
    const int32_t high_blk = low_blk + between(g, 1, most);
    const int32_t high = high_tok ? high_blk * block + 1 + below(g, block) : high_blk;
    const int32_t form = below(g, 3);
    if (form != 0)
        put_number(g, low, low_tok);
    put(g, "..");
    if (form != 1)
        put_number(g, high, high_tok);
}

static void put_when(gen *g)
{
    static const char *const words[] = {
#define WHEN_WORD(name, word) word,
        S2_WHEN_TABLE(WHEN_WORD)
#undef WHEN_WORD
    };
    const char *join = "when";
    const int32_t first = below(g, 3);
    for (int32_t nth = 0; nth < 3; nth++) {
        if (nth > 0 && !chance(g, 30))
            continue;
        put_blank(g);
        put(g, join);
        put_blank(g);
        put(g, words[(first + nth) % 3]);
        put_blank(g);
        put_range(g);
        join = "&";
    }
}

/* --- terms -------------------------------------------------------------------------------------- */

static void put_phase(gen *g)
{
    static const char *const words[] = {"head", "kv", "layer"};
    const int32_t most = g->options->max_stride;
    put(g, " phase ");
    const int32_t n = between(g, 1, 3);
    for (int32_t part = 0; part < n; part++) {
        put(g, part > 0 ? (chance(g, 20) ? " + " : "+") : "");
        const int32_t word = below(g, 4);
        if (word == 3)
            put_number(g, below(g, most + 1), false);
        else if (chance(g, 50))
            put(g, words[word]);
        else if (chance(g, 50))
            s2_buf_printf(g->out, "%s*%d", words[word], below(g, most + 1));
        else
            s2_buf_printf(g->out, "%d*%s", below(g, most + 1), words[word]);
    }
}

static void put_stride(gen *g, const char *word)
{
    const bool tok = pick_unit(g);
    const int32_t stride = pick_extent(g, tok, g->options->max_stride);
    put(g, word);
    put_blank(g);
    put_number(g, stride, tok);
    const bool phase_first = g->options->decorated && chance(g, 20);
    if (phase_first)
        put_phase(g);
    if (chance(g, 40)) {
        put(g, " width ");
        const bool whole = tok && stride % g->block_tok == 0 && chance(g, 60);
        const int32_t unit = whole ? g->block_tok : 1;
        put_number(g, between(g, 1, stride / unit) * unit, tok);
    }
    if (!phase_first && chance(g, 70))
        put_phase(g);
}

static void put_list(gen *g, const char *word)
{
    const bool tok = pick_unit(g);
    const int32_t scale = tok && chance(g, 50) ? g->block_tok : 1;
    const int32_t most = g->options->max_blk * (tok ? g->block_tok / scale : 1);
    put(g, word);
    const int32_t n = between(g, 1, 4);
    for (int32_t item = 0; item < n; item++) {
        put(g, item > 0 ? (chance(g, 20) ? ", " : ",") : " ");
        const int32_t low = below(g, most), high = low + between(g, 1, most);
        const int32_t form = below(g, 16);
        if (form == 0) {
            put(g, "all");
        } else if (form < 6) {
            put_number(g, low * scale, tok);
        } else if (form < 10) {
            put_number(g, low * scale, tok);
            put(g, "-");
            put_number(g, high * scale - (scale > 1), tok);
        } else {
            if (form < 13)
                put_number(g, low * scale, tok);
            put(g, ":");
            if (form != 10)
                put_number(g, high * scale, tok);
            if (form % 2 == 0) {
                put(g, ":");
                put_number(g, between(g, 1, 4), tok);
            }
        }
    }
}

static void put_extent(gen *g, const char *word)
{
    const bool tok = pick_unit(g);
    put(g, word);
    put_blank(g);
    put_number(g, pick_extent(g, tok, g->options->max_blk), tok);
}

static bool is_allowed(const gen *g, s2_term_kind kind)
{
    switch (s2_term_row_of(kind)->nature) {
    case S2_NATURE_STATIC: return true;
    case S2_NATURE_EXPLICIT: return g->options->explicit_random && kind != S2_TERM_MASK; /* has no file */
    case S2_NATURE_DYNAMIC: return g->options->dynamic;
    }
    return false;
}

/* Every row of the table occurs; windows and strides, which most patterns are made of, more often. */
static s2_term_kind pick_kind(gen *g)
{
    static const s2_term_kind common[] = {S2_TERM_LOCAL, S2_TERM_STRIDE, S2_TERM_SINK};
    if (chance(g, 35))
        return common[below(g, 3)];
    s2_term_kind kind;
    do
        kind = (s2_term_kind)below(g, S2_N_TERM_KINDS);
    while (!is_allowed(g, kind));
    return kind;
}

static void put_term(gen *g)
{
    const s2_term_row *const row = s2_term_row_of(pick_kind(g));
    const int32_t most = g->options->max_blk;
    switch (row->args) {
    case S2_ARGS_NONE:
    case S2_ARGS_FILE: put(g, row->word); break;
    case S2_ARGS_EXTENT: put_extent(g, row->word); break;
    case S2_ARGS_STRIDE: put_stride(g, row->word); break;
    case S2_ARGS_LIST: put_list(g, row->word); break;
    case S2_ARGS_DRAW:
        s2_buf_printf(g->out, "%s %d seed %llu", row->word, between(g, 1, most),
                      (unsigned long long)s2_rng_next(g->rng) >> below(g, 64));
        break;
    case S2_ARGS_PAGES:
        s2_buf_printf(g->out, "%s %d page %d", row->word, between(g, 1, most),
                      between(g, 1, 2 * g->block_tok));
        break;
    case S2_ARGS_COUNT: s2_buf_printf(g->out, "%s %d", row->word, between(g, 1, most * g->block_tok)); break;
    }
    if (g->options->when && chance(g, 25))
        put_when(g);
}

static void put_body(gen *g)
{
    const int32_t n = between(g, 1, g->options->max_terms);
    for (int32_t term = 0; term < n; term++) {
        put(g, term > 0 ? (chance(g, 10) ? "|" : " | ") : "");
        put_term(g);
    }
}

/* --- selectors and statements --------------------------------------------------------------------- */

static void put_indices(gen *g, int32_t n_all)
{
    const int32_t n = chance(g, 70) ? 1 : between(g, 2, 3);
    for (int32_t item = 0; item < n; item++) {
        put(g, item > 0 ? "," : " ");
        const int32_t low = below(g, n_all), high = between(g, low + 1, n_all);
        switch (below(g, 6)) {
        case 0: put(g, "all"); break;
        case 1: s2_buf_printf(g->out, "%d-%d", low, high - 1); break;
        case 2: s2_buf_printf(g->out, "%d::%d", low, between(g, 1, 3)); break;
        case 3: s2_buf_printf(g->out, "%d:%d:%d", low, high, between(g, 1, 3)); break;
        case 4: s2_buf_printf(g->out, ":%d", high); break;
        default: s2_buf_printf(g->out, "%d", low); break;
        }
    }
}

static void put_selector(gen *g)
{
    const size_t start = g->out->len;
    if (g->options->phases && chance(g, 20))
        put(g, chance(g, 50) ? "prefill" : "decode");
    if (chance(g, 60)) {
        put(g, g->out->len > start ? " layers" : "layers");
        put_indices(g, g->n_layers);
    }
    if (chance(g, 60)) {
        const bool kv = chance(g, 40);
        put(g, g->out->len > start ? " " : "");
        put(g, kv ? "kv" : "heads");
        put_indices(g, kv ? g->n_kv_heads : g->n_heads);
    }
    if (g->out->len == start)
        put(g, "layers all");
}

static void end_statement(gen *g)
{
    if (g->options->decorated && chance(g, 8))
        put(g, " # a comment; with a semicolon");
    else if (g->options->decorated && chance(g, 15)) {
        put(g, " ; ");
        return;
    }
    put(g, g->options->decorated && chance(g, 5) ? "\r\n" : "\n");
}

static void put_shape_number(gen *g, const char *word, int32_t value)
{
    put(g, word);
    put_blank(g);
    s2_buf_printf(g->out, "%d", value);
    end_statement(g);
}

static void put_shape(gen *g)
{
    const s2_gen_options *const options = g->options;
    g->n_layers = between(g, 1, options->max_layers);
    g->n_heads = between(g, 1, options->max_heads);
    do
        g->n_kv_heads = between(g, 1, g->n_heads);
    while (g->n_heads % g->n_kv_heads != 0);
    g->block_tok = 1;
    while (g->block_tok < options->max_block_tok && chance(g, 70))
        g->block_tok *= 2;
    if (options->decorated && chance(g, 20)) {
        put(g, chance(g, 50) ? "name a random pattern" : "name \"quoted; # \\\" \\\\ text\"");
        end_statement(g);
    }
    if (g->n_layers != 1 || chance(g, 30))
        put_shape_number(g, "layers", g->n_layers);
    put_shape_number(g, "heads", g->n_heads);
    if (g->n_kv_heads != g->n_heads || chance(g, 30))
        put_shape_number(g, "kv-heads", g->n_kv_heads);
    put_shape_number(g, "block", g->block_tok);
    if (options->not_causal && chance(g, 20)) {
        put(g, "causal no");
        end_statement(g);
    }
}

/* Numbers that layers have of their own; those of kv-layer last, so that they fit what they share. */
static void put_layer_numbers(gen *g)
{
    for (int32_t left = below(g, 4); left > 0; left--) {
        put(g, "layers");
        put_indices(g, g->n_layers);
        put(g, chance(g, 50) ? ": " : ":");
        if (chance(g, 40))
            s2_buf_printf(g->out, "state %d", between(g, 1, 9) * (chance(g, 50) ? 1 : 1024));
        else
            s2_buf_printf(g->out, "head-dim %d", 64 * between(g, 1, 3));
        end_statement(g);
    }
}

void s2_gen_pattern(s2_rng *rng, const s2_gen_options *options, s2_buf *out)
{
    gen g = {.rng = rng, .options = options, .out = out};
    put_shape(&g);
    if (options->layers_differ && chance(&g, 25))
        put_layer_numbers(&g);
    put(&g, chance(&g, 20) ? "" : "layers all: ");
    put_body(&g);
    end_statement(&g);
    for (int32_t left = below(&g, options->max_rules); left > 0; left--) {
        put_selector(&g);
        put(&g, ": ");
        put_body(&g);
        end_statement(&g);
    }
}
