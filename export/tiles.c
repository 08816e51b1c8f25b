#include "export/tiles.h"

#include "base/arith.h"
#include "plan/plan.h"

enum { LIMIT_ENTRIES = 1 << 22 };

void s2_c_array_print(s2_buf *buf, const char *type, const char *name, const int64_t *values, int64_t n)
{
    s2_buf_printf(buf, "static const %s %s[%lld] = {", type, name, (long long)(n > 0 ? n : 1));
    for (int64_t at = 0; at < n; at++) {
        s2_buf_puts(buf, at % 24 == 0 ? "\n    " : " ");
        s2_buf_printf(buf, "%lld%s", (long long)values[at], at + 1 < n ? "," : "");
    }
    s2_buf_puts(buf, n > 0 ? "\n};\n" : "0};\n");
}

/* A column of numbers, one for each item or entry. */
typedef struct column {
    const char *type, *name, *about;
    int64_t *values;
} column;

enum { ITEM_HEAD, ITEM_HEADS, ITEM_TILE, ITEM_BEGIN, ITEM_N, ITEM_PARTIAL, N_ITEM_COLUMNS };
enum { ENTRY_K_BLK, ENTRY_SLABS, ENTRY_MASK, ENTRY_EDGE, N_ENTRY_COLUMNS };

typedef struct tables {
    int64_t n_items, n_entries, n_words;
    column items[N_ITEM_COLUMNS];
    column entries[N_ENTRY_COLUMNS];
    int64_t *words;              /* element masks of all plans, concatenated */
    int64_t *item_begin, *pairs; /* [plan + 1], [plan] */
} tables;

static const column ITEM_COLUMNS[N_ITEM_COLUMNS] = {
    {"int32_t", "s2_plan_item_head", "first query head", NULL},
    {"int32_t", "s2_plan_item_heads", "query heads that share it", NULL},
    {"int32_t", "s2_plan_item_tile", "its rows are positions [tile * S2_PLAN_TILE_TOK, the next one)", NULL},
    {"int32_t", "s2_plan_item_begin", "its first entry", NULL},
    {"int32_t", "s2_plan_item_n", "its entries", NULL},
    {"int32_t", "s2_plan_item_partial", "the first so many of them need comparisons", NULL},
};
static const column ENTRY_COLUMNS[N_ENTRY_COLUMNS] = {
    {"int32_t", "s2_plan_k_blk", "key block, of S2_PLAN_BLK_TOK keys", NULL},
    {"uint32_t", "s2_plan_slabs", "bit s: rows 16 s to 16 s + 15 of the tile read it", NULL},
    {"int32_t", "s2_plan_mask",
     "-1, or the element mask: row r, word w at ((mask * S2_PLAN_TILE_TOK + r) * S2_PLAN_MASK_WORDS + w) of "
     "s2_plan_bits",
     NULL},
    {"uint8_t", "s2_plan_edge", "1: compare every element with causality and the end of the keys", NULL},
};

typedef struct plans {
    const int32_t *layers;
    int32_t n;
    int32_t *of_layer; /* [layer], as the layer that represents it */
    s2_plan *plan;
    s2_plan_flat *flat;
} plans;

static s2_status read_options(const s2_target *target, s2_plan_options *out)
{
    int64_t tile, key, pack;
    *out = s2_plan_options_default();
    S2_TRY(s2_setting_int(&target->settings, "tile", 16, 512, out->tile_tok, &tile, target->diag));
    S2_TRY(s2_setting_int(&target->settings, "key", 16, 1024, out->key_tok, &key, target->diag));
    S2_TRY(
        s2_setting_int(&target->settings, "pack", 1, S2_LIMIT_HEADS, out->pack_heads, &pack, target->diag));
    out->tile_tok = (int32_t)tile;
    out->key_tok = (int32_t)key;
    out->pack_heads = (int32_t)pack;
    out->work_left = target->work_left;
    if (tile % 16 != 0 || !s2_is_power_of_two(key))
        return s2_target_refuse(target, "--set tile must be a multiple of 16, --set key a power of two");
    return S2_OK;
}

static s2_status build_plans(const s2_target *target, int64_t n_tok, const s2_plan_options *options,
                             plans *out, tables *sizes)
{
    const s2_plan_seq seq = {(int32_t)n_tok, (int32_t)n_tok};
    s2_diag why = {0};
    out->of_layer = S2_NEW(target->arena, int32_t, target->pattern->n_layers);
    if (out->of_layer == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_plan_distinct_layers(target->arena, target->pattern, S2_PREFILL, &out->layers, &out->n,
                                   out->of_layer));
    out->plan = S2_NEW(target->arena, s2_plan, out->n);
    out->flat = S2_NEW(target->arena, s2_plan_flat, out->n);
    if (out->plan == NULL || out->flat == NULL)
        return S2_ENOMEM;
    for (int32_t p = 0; p < out->n; p++) {
        const s2_status status = s2_plan_build(target->arena, target->pattern, S2_PREFILL, out->layers[p],
                                               &seq, 1, options, &out->plan[p], &why);
        if (status == S2_EUNSUPPORTED)
            return s2_target_refuse(target, "%s", why.msg);
        S2_TRY(status);
        S2_TRY(s2_plan_flatten(target->arena, &out->plan[p], &out->flat[p]));
        sizes->n_items += out->plan[p].n_items;
        sizes->n_entries += out->flat[p].n_entries;
        sizes->n_words += out->flat[p].n_masks * options->tile_tok * out->plan[p].mask_words;
    }
    if (sizes->n_entries > LIMIT_ENTRIES || sizes->n_items > LIMIT_ENTRIES || sizes->n_words > LIMIT_ENTRIES)
        return s2_target_refuse(target, "the plan has %lld entries, too many for a header (--len N)",
                                (long long)sizes->n_entries);
    return S2_OK;
}

static s2_status tables_init(s2_arena *arena, int32_t n_plans, tables *out)
{
    for (int c = 0; c < N_ITEM_COLUMNS; c++) {
        out->items[c] = ITEM_COLUMNS[c];
        out->items[c].values = S2_NEW(arena, int64_t, out->n_items + 1);
        if (out->items[c].values == NULL)
            return S2_ENOMEM;
    }
    for (int c = 0; c < N_ENTRY_COLUMNS; c++) {
        out->entries[c] = ENTRY_COLUMNS[c];
        out->entries[c].values = S2_NEW(arena, int64_t, out->n_entries + 1);
        if (out->entries[c].values == NULL)
            return S2_ENOMEM;
    }
    out->words = S2_NEW(arena, int64_t, out->n_words + 1);
    out->item_begin = S2_NEW(arena, int64_t, n_plans + 1);
    out->pairs = S2_NEW(arena, int64_t, n_plans);
    return out->words != NULL && out->item_begin != NULL && out->pairs != NULL ? S2_OK : S2_ENOMEM;
}

/* Entries and masks of a plan are numbered from zero; in the header they follow those of the plans before. */
static void fill_tables(const plans *from, int64_t tile_tok, tables *out)
{
    int64_t n_items = 0, n_entries = 0, n_masks = 0, n_words = 0;
    for (int32_t p = 0; p < from->n; p++) {
        const s2_plan *const plan = &from->plan[p];
        const s2_plan_flat *const flat = &from->flat[p];
        out->item_begin[p] = n_items;
        out->pairs[p] = plan->counts.pairs;
        for (int32_t item = 0; item < plan->n_items; item++, n_items++) {
            const s2_plan_span span = flat->span_of[item];
            const int64_t row[N_ITEM_COLUMNS] = {plan->items[item].head,
                                                 plan->items[item].n_heads,
                                                 plan->items[item].tile,
                                                 n_entries + span.begin,
                                                 span.n,
                                                 span.n_partial};
            for (int c = 0; c < N_ITEM_COLUMNS; c++)
                out->items[c].values[n_items] = row[c];
        }
        for (int64_t e = 0; e < flat->n_entries; e++, n_entries++) {
            const s2_plan_entry *const entry = &flat->entries[e];
            out->entries[ENTRY_K_BLK].values[n_entries] = entry->k_blk;
            out->entries[ENTRY_SLABS].values[n_entries] = entry->slabs;
            out->entries[ENTRY_MASK].values[n_entries] = entry->mask < 0 ? -1 : n_masks + entry->mask;
            out->entries[ENTRY_EDGE].values[n_entries] = entry->edge;
        }
        for (int64_t w = 0; w < flat->n_masks * tile_tok * plan->mask_words; w++)
            out->words[n_words++] = flat->bits[w];
        n_masks += flat->n_masks;
    }
    out->item_begin[from->n] = n_items;
}

static void print_columns(const column *columns, int n_columns, int64_t n, s2_buf *buf)
{
    for (int c = 0; c < n_columns; c++) {
        s2_buf_printf(buf, "/* %s */\n", columns[c].about);
        s2_c_array_print(buf, columns[c].type, columns[c].name, columns[c].values, n);
    }
}

static s2_status print_layers(const s2_target *target, const plans *from, s2_buf *buf)
{
    int64_t *const of_layer = S2_NEW(target->arena, int64_t, target->pattern->n_layers);
    if (of_layer == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < target->pattern->n_layers; layer++)
        while (from->layers[of_layer[layer]] != from->of_layer[layer])
            of_layer[layer]++;
    s2_buf_puts(buf, "/* The plan of each layer. */\n");
    s2_c_array_print(buf, "int32_t", "s2_plan_of", of_layer, target->pattern->n_layers);
    return S2_OK;
}

s2_status s2_tiles_print(const s2_target *target, int64_t n_tok, s2_buf *buf)
{
    s2_plan_options options;
    plans from = {0};
    tables all = {0};
    S2_TRY(read_options(target, &options));
    S2_TRY(build_plans(target, n_tok, &options, &from, &all));
    S2_TRY(tables_init(target->arena, from.n, &all));
    fill_tables(&from, options.tile_tok, &all);
    s2_buf_printf(
        buf,
        "\n/* ---- the plan: tiles of %d queries against key blocks, exact to the element ---- */\n\n"
        "enum {\n    S2_PLAN_N = %d, /* kinds of layers */\n    S2_PLAN_TILE_TOK = %d,\n"
        "    S2_PLAN_BLK_TOK = %d,\n    S2_PLAN_MASK_WORDS = %d\n};\n\n",
        options.tile_tok, from.n, options.tile_tok, from.plan[0].blk_tok, from.plan[0].mask_words);
    S2_TRY(print_layers(target, &from, buf));
    s2_buf_puts(buf, "/* Items of plan p: [s2_plan_first[p], s2_plan_first[p + 1]), longest first. */\n");
    s2_c_array_print(buf, "int32_t", "s2_plan_first", all.item_begin, from.n + 1);
    s2_buf_puts(buf, "/* (query, key) pairs that a layer of plan p reads, over its heads. */\n");
    s2_c_array_print(buf, "int64_t", "s2_plan_pairs", all.pairs, from.n);
    s2_buf_puts(buf, "\n/* Items. */\n");
    print_columns(all.items, N_ITEM_COLUMNS, all.n_items, buf);
    s2_buf_puts(buf, "\n/* Entries. */\n");
    print_columns(all.entries, N_ENTRY_COLUMNS, all.n_entries, buf);
    s2_c_array_print(buf, "uint32_t", "s2_plan_bits", all.words, all.n_words);
    return buf->status;
}
