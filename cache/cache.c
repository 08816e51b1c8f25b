#include "cache/cache.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "cache/table.h"

typedef struct s2_cache_seq {
    bool open;
    int32_t n_tok;
    int64_t next_tok; /* the least of its tables */
    int64_t version;
    int64_t moved_version;
    s2_cache_table *tables;
} s2_cache_seq;

/* Tables are [layer - layer_begin][table of the layer]; a layer has one, or one for each KV head. */
struct s2_cache {
    const s2_pattern *pattern;
    s2_cache_options options;
    int32_t n_layer_tables;
    int32_t n_tables;
    int64_t page_slots;
    s2_arena arena;
    s2_cache_rule *rules; /* [table] */
    int64_t *summary_tok; /* [layer][KV head]: tokens of a page of its `pages` terms, 0 without one */
    s2_cache_pool pool;
    s2_cache_moves_list moves;
    s2_cache_seq *seqs;
    int32_t n_seqs;
    int64_t n_versions; /* ever given */
};

const char *s2_cache_layout_word(s2_cache_layout layout)
{
    static const char *const words[S2_N_CACHE_LAYOUTS] = {"pages", "ring", "shared"};
    return words[layout];
}

s2_cache_options s2_cache_options_default(const s2_pattern *pattern)
{
    return (s2_cache_options){.layout = S2_CACHE_HEAD_PAGES,
                              .page_tok = s2_max_i32(pattern->block_tok, 16),
                              .layer_end = pattern->n_layers};
}

/* ------------------------------------------------------------------ life */

static s2_status check_options(const s2_pattern *pattern, const s2_cache_options *options, s2_diag *why)
{
    if (options->page_tok < 1 || options->page_tok > S2_LIMIT_CONTEXT_TOK || options->cap_pages < 0 ||
        options->layer_begin < 0 || options->layer_begin >= options->layer_end ||
        options->layer_end > pattern->n_layers || options->n_queries < 0 ||
        options->layout >= S2_N_CACHE_LAYOUTS)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "pages, layers or bound of the cache out of range");
    if (!pattern->causal)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "a pattern that is not causal is not generated token by token");
    return S2_OK;
}

/* The smallest page that a KV head's query heads select by. */
static int64_t summary_of(const s2_pattern *pattern, int32_t layer, int32_t kv_head)
{
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    int64_t least = 0;
    for (int32_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_DECODE, layer, head)];
        for (int32_t t = 0; t < body->n_terms; t++)
            if (body->terms[t].kind == S2_TERM_PAGES && (least == 0 || body->terms[t].page_tok < least))
                least = body->terms[t].page_tok;
    }
    return least;
}

static s2_status build_summaries(s2_cache *cache)
{
    const int32_t n_kv = cache->pattern->n_kv_heads;
    const int32_t n_layers = cache->options.layer_end - cache->options.layer_begin;
    cache->summary_tok = S2_NEW(&cache->arena, int64_t, (int64_t)n_layers * n_kv);
    if (cache->summary_tok == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < n_layers * n_kv; at++)
        cache->summary_tok[at] =
            summary_of(cache->pattern, cache->options.layer_begin + at / n_kv, at % n_kv);
    return S2_OK;
}

static s2_status build_rules(s2_cache *cache, s2_diag *why)
{
    const s2_pattern *const pattern = cache->pattern;
    const int32_t n_heads = pattern->n_heads / cache->n_layer_tables;
    cache->rules = S2_NEW(&cache->arena, s2_cache_rule, cache->n_tables);
    if (cache->rules == NULL)
        return S2_ENOMEM;
    for (int32_t table = 0; table < cache->n_tables; table++) {
        const int32_t layer = cache->options.layer_begin + table / cache->n_layer_tables;
        const int32_t head = table % cache->n_layer_tables * n_heads;
        S2_TRY(s2_cache_rule_build(&cache->arena, pattern, layer, head, head + n_heads, &cache->rules[table],
                                   why));
    }
    return S2_OK;
}

s2_status s2_cache_create(const s2_pattern *pattern, const s2_cache_options *options, s2_cache **out,
                          s2_diag *why)
{
    S2_TRY(check_options(pattern, options, why));
    S2_TRY(s2_pattern_require_alike(pattern, "the cache", why));
    s2_cache *cache = s2_calloc(1, sizeof *cache);
    if (cache == NULL)
        return S2_ENOMEM;
    const bool shared = options->layout == S2_CACHE_SHARED_PAGES;
    cache->pattern = pattern;
    cache->options = *options;
    cache->options.n_queries = s2_max_i32(options->n_queries, 1);
    cache->n_layer_tables = shared ? 1 : pattern->n_kv_heads;
    cache->n_tables = (options->layer_end - options->layer_begin) * cache->n_layer_tables;
    cache->page_slots = (int64_t)options->page_tok * (shared ? pattern->n_kv_heads : 1);
    cache->pool.limit = options->cap_pages;
    s2_status status = build_rules(cache, why);
    if (status == S2_OK)
        status = build_summaries(cache);
    if (status != S2_OK)
        s2_cache_destroy(&cache);
    else
        *out = cache;
    return status;
}

void s2_cache_destroy(s2_cache **cache)
{
    s2_cache *const own = *cache;
    *cache = NULL;
    if (own == NULL)
        return;
    for (int32_t seq = 0; seq < own->n_seqs; seq++)
        s2_cache_close(own, seq);
    s2_free(own->seqs);
    s2_free(own->moves.moves);
    s2_cache_pool_release(&own->pool);
    s2_arena_release(&own->arena);
    s2_free(own);
}

/* The number of a closed sequence, or a new one. */
static s2_status free_seq(s2_cache *cache, int32_t *seq)
{
    int32_t closed = 0;
    while (closed < cache->n_seqs && cache->seqs[closed].open)
        closed++;
    if (closed == cache->n_seqs) {
        s2_cache_seq *const grown = s2_realloc(cache->seqs, ((size_t)closed * 2 + 1) * sizeof *grown);
        if (grown == NULL)
            return S2_ENOMEM;
        memset(grown + closed, 0, ((size_t)closed + 1) * sizeof *grown);
        cache->seqs = grown;
        cache->n_seqs = closed * 2 + 1;
    }
    *seq = closed;
    return S2_OK;
}

s2_status s2_cache_open(s2_cache *cache, int32_t *seq)
{
    int32_t opened;
    S2_TRY(free_seq(cache, &opened));
    s2_cache_table *const tables = s2_calloc((size_t)cache->n_tables, sizeof *tables);
    if (tables == NULL)
        return S2_ENOMEM;
    for (int32_t table = 0; table < cache->n_tables; table++)
        tables[table].open_page = -1;
    const int64_t version = ++cache->n_versions;
    cache->seqs[opened] =
        (s2_cache_seq){.open = true, .tables = tables, .version = version, .moved_version = version};
    *seq = opened;
    return S2_OK;
}

void s2_cache_close(s2_cache *cache, int32_t seq)
{
    s2_cache_seq *const own = &cache->seqs[seq];
    for (int32_t table = 0; own->open && table < cache->n_tables; table++)
        s2_cache_table_release(&own->tables[table], &cache->pool);
    s2_free(own->tables);
    *own = (s2_cache_seq){0};
}

/* Both sequences must look again at their next token: the pages that it writes are now shared. */
static void look_again(const s2_cache *cache, s2_cache_seq *seq)
{
    seq->next_tok = 0;
    for (int32_t table = 0; table < cache->n_tables; table++)
        seq->tables[table].next_tok = 0;
}

s2_status s2_cache_fork(s2_cache *cache, int32_t seq, int32_t *out)
{
    int32_t child;
    S2_TRY(s2_cache_open(cache, &child));
    s2_cache_seq *const from = &cache->seqs[seq], *const to = &cache->seqs[child];
    s2_status status = S2_OK;
    for (int32_t table = 0; table < cache->n_tables && status == S2_OK; table++)
        status = s2_cache_table_fork(&from->tables[table], &cache->pool, &to->tables[table]);
    if (status != S2_OK) {
        s2_cache_close(cache, child);
        return status;
    }
    to->n_tok = from->n_tok;
    look_again(cache, from);
    look_again(cache, to);
    *out = child;
    return S2_OK;
}

/* ------------------------------------------------------------------ growing */

static s2_cache_step step_of(const s2_cache *cache, int32_t table, int64_t n_tok)
{
    s2_cache_rule *const rule = &cache->rules[table];
    const int32_t page_tok = cache->options.page_tok;
    const int64_t n_queries = cache->options.n_queries;
    /* the last n_queries windows overlap: their union is n_queries - 1 wider than one */
    const int64_t span = rule->capacity_tok > 0 ? rule->capacity_tok + n_queries - 1 : 0;
    const bool ring = cache->options.layout == S2_CACHE_RING;
    return (s2_cache_step){.rule = rule,
                           .page_tok = page_tok,
                           .page_slots = cache->page_slots,
                           .ring_pages = ring ? span / page_tok + (span % page_tok != 0) : 0,
                           .n_tok = n_tok,
                           .n_queries = n_queries,
                           .query = n_tok > n_queries ? n_tok - n_queries : 0};
}

/* One token in every table; pages expire first, so that they can be reused for what arrives. */
static s2_status append_one(s2_cache *cache, s2_cache_seq *seq, int64_t moved_tok)
{
    for (int32_t table = 0; table < cache->n_tables; table++) {
        s2_cache_step step = step_of(cache, table, seq->n_tok);
        step.pool = &cache->pool;
        s2_cache_table_expire(&seq->tables[table], &step);
    }
    seq->next_tok = S2_OPEN;
    for (int32_t table = 0; table < cache->n_tables; table++) {
        s2_cache_step step = step_of(cache, table, seq->n_tok);
        step.pool = &cache->pool;
        step.moves = &cache->moves;
        step.moved_tok = moved_tok;
        S2_TRY(s2_cache_table_admit(&seq->tables[table], &step));
        if (seq->tables[table].next_tok < seq->next_tok)
            seq->next_tok = seq->tables[table].next_tok;
    }
    return S2_OK;
}

s2_status s2_cache_append(s2_cache *cache, int32_t seq, int32_t n_tok)
{
    s2_cache_seq *const own = &cache->seqs[seq];
    const int64_t before = own->n_tok, end = before + n_tok, n_changes = cache->pool.n_changes;
    s2_status status = S2_OK;
    cache->moves.n = 0;
    if (n_tok < 1 || end > S2_LIMIT_CONTEXT_TOK)
        return S2_EINVAL;
    while (own->n_tok < end && status == S2_OK) {
        if (own->next_tok > own->n_tok) {
            own->n_tok = (int32_t)s2_min_i64(own->next_tok, end);
            continue;
        }
        own->n_tok++;
        status = append_one(cache, own, before);
    }
    if (cache->pool.n_changes != n_changes)
        own->version = ++cache->n_versions;
    if (cache->moves.n > 0)
        own->moved_version = own->version;
    return status;
}

int64_t s2_cache_version(const s2_cache *cache, int32_t seq)
{
    return cache->seqs[seq].version;
}

int64_t s2_cache_moved_version(const s2_cache *cache, int32_t seq)
{
    return cache->seqs[seq].moved_version;
}

s2_cache_layout s2_cache_layout_of(const s2_cache *cache)
{
    return cache->options.layout;
}

const s2_cache_move *s2_cache_moves(const s2_cache *cache, int32_t *n_moves)
{
    *n_moves = (int32_t)cache->moves.n;
    return cache->moves.moves;
}

/* ------------------------------------------------------------------ looking */

int64_t s2_cache_find(const s2_cache *cache, int32_t seq, int32_t layer, int32_t kv_head, int64_t k_tok)
{
    const bool shared = cache->options.layout == S2_CACHE_SHARED_PAGES;
    const s2_cache_seq *const own = &cache->seqs[seq];
    const int32_t table =
        (layer - cache->options.layer_begin) * cache->n_layer_tables + (shared ? 0 : kv_head);
    const s2_cache_step step = step_of(cache, table, own->n_tok);
    int64_t inside;
    if (k_tok < 0 || k_tok >= own->n_tok)
        return -1;
    const int32_t page = s2_cache_table_find(&own->tables[table], &step, k_tok, &inside);
    if (page < 0)
        return -1;
    return page * cache->page_slots + (shared ? (int64_t)kv_head * cache->options.page_tok : 0) + inside;
}

int64_t s2_cache_cut(const s2_cache *cache, int32_t seq, int32_t layer, int32_t kv_head)
{
    if (cache->options.layout != S2_CACHE_RING)
        return 0;
    const int32_t table = (layer - cache->options.layer_begin) * cache->n_layer_tables + kv_head;
    const s2_cache_step step = step_of(cache, table, cache->seqs[seq].n_tok);
    return step.ring_pages > 0 ? s2_cache_rule_window_begin(step.rule, step.query + 1) : 0;
}

int32_t s2_cache_page_tok(const s2_cache *cache)
{
    return cache->options.page_tok;
}

int32_t s2_cache_n_tok(const s2_cache *cache, int32_t seq)
{
    return cache->seqs[seq].n_tok;
}

/* Minimum and maximum of every page of the `pages` terms; each KV head has its own, unshared. */
static int64_t count_meta(const s2_cache *cache, const s2_cache_seq *seq)
{
    const int32_t n_heads =
        (cache->options.layer_end - cache->options.layer_begin) * cache->pattern->n_kv_heads;
    int64_t n = 0;
    for (int32_t at = 0; seq->open && at < n_heads; at++) {
        const int64_t summary = cache->summary_tok[at];
        if (summary != 0)
            n += 2 * (seq->n_tok / summary + (seq->n_tok % summary != 0));
    }
    return n;
}

s2_cache_usage s2_cache_use(const s2_cache *cache)
{
    s2_cache_usage use = {.page_slots = cache->page_slots,
                          .pages = cache->pool.n_pages - cache->pool.n_free,
                          .peak_pages = cache->pool.peak,
                          .pool_pages = cache->pool.n_pages};
    use.slots = use.pages * use.page_slots;
    for (int32_t seq = 0; seq < cache->n_seqs; seq++)
        use.meta_elems += count_meta(cache, &cache->seqs[seq]);
    return use;
}

int64_t s2_cache_bytes(const s2_cache *cache, s2_dtype dtype)
{
    const s2_cache_usage use = s2_cache_use(cache);
    return (2 * use.slots + use.meta_elems) * cache->pattern->head_dim * s2_dtype_bytes(dtype);
}
