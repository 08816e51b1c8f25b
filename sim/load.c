#include "sim/load.h"

#include "base/alloc.h"
#include "plan/decode.h"
#include "plan/transpose.h"

static int64_t blocks_of(int64_t n, int64_t size)
{
    return n / size + (n % size != 0);
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* What the items of a generation, or of all, read of one (sequence, KV head) through one class. */
typedef struct s2_reach {
    int64_t least; /* blocks of the shortest list */
    int64_t most;  /* of the longest */
    double missed; /* share of the blocks that no list holds, when lists have no common order */
    int32_t first_tile, last_tile;
    int32_t stamp;
} s2_reach;

typedef struct s2_loader {
    const s2_plan *plan;
    s2_load *load;
    s2_load_class *classes;
    s2_generation *generations;
    int32_t *first_like; /* [head]: first head of its group with the same class */
    s2_reach *now;       /* of the generation, [seq * n_heads + first_like] */
    s2_reach *before;    /* of the one before */
    s2_reach *all;
    int32_t *active; /* entries of `now` in use */
    int32_t n_active;
} s2_loader;

static double blk_bytes(const s2_plan *plan)
{
    return 2.0 * plan->blk_tok * plan->pattern->head_dim * plan->options.elem_bytes;
}

static double all_blocks(const s2_plan *plan, int32_t slot)
{
    return (double)blocks_of(plan->seqs[slot / plan->pattern->n_heads].k_tok, plan->blk_tok);
}

static const s2_plan_class *class_at(const s2_plan *plan, int32_t slot)
{
    return &plan->classes[plan->class_of[slot % plan->pattern->n_heads]];
}

/*
 * Distinct blocks of several tiles of one head. Windows and stripes of neighbouring tiles overlap, but for
 * the way that the window slides over what is no stripe (what is one makes the list longer); lists from
 * memory are taken as drawn by chance.
 */
static double distinct_blocks(const s2_plan *plan, const s2_reach *reach, int32_t slot)
{
    const double all = all_blocks(plan, slot);
    const double slid =
        (double)(reach->last_tile - reach->first_tile) * plan->options.tile_tok / plan->blk_tok;
    if (!class_at(plan, slot)->periodic)
        return all * (1 - reach->missed);
    const double fresh = slid - (double)(reach->most - reach->least);
    return lesser((double)reach->most + (fresh > 0 ? fresh : 0), all);
}

static double shared_blocks(const s2_plan *plan, const s2_reach *a, const s2_reach *b, int32_t slot)
{
    const double one = distinct_blocks(plan, a, slot), other = distinct_blocks(plan, b, slot);
    if (!class_at(plan, slot)->periodic)
        return one * other / all_blocks(plan, slot);
    s2_reach both = *a;
    both.most = b->most > a->most ? b->most : a->most;
    both.least = b->least < a->least ? b->least : a->least;
    both.first_tile = b->first_tile < a->first_tile ? b->first_tile : a->first_tile;
    both.last_tile = b->last_tile > a->last_tile ? b->last_tile : a->last_tile;
    const double shared = one + other - distinct_blocks(plan, &both, slot);
    return shared > 0 ? lesser(shared, one) : 0;
}

static void note_reach(s2_reach *reach, const s2_plan_item *item, int32_t stamp, double all)
{
    if (reach->stamp != stamp)
        *reach = (s2_reach){item->n_blk, item->n_blk, 1, item->tile, item->tile, stamp};
    reach->most = item->n_blk > reach->most ? item->n_blk : reach->most;
    reach->least = item->n_blk < reach->least ? item->n_blk : reach->least;
    reach->missed *= 1 - lesser((double)item->n_blk, all) / all;
    reach->first_tile = item->tile < reach->first_tile ? item->tile : reach->first_tile;
    reach->last_tile = item->tile > reach->last_tile ? item->tile : reach->last_tile;
}

/* Heads of a KV head that differ have windows in common and stripes apart: as if each drew by chance. */
typedef struct s2_union {
    double apart; /* sum over the heads */
    double left;  /* share of the blocks that none of them reads */
} s2_union;

static void unite(s2_union *all, double blocks, double of)
{
    all->apart += blocks;
    all->left *= 1 - lesser(blocks, of) / of;
}

/* What one KV head adds to a generation. */
static void close_group(s2_loader *loader, int32_t first, s2_generation *own)
{
    const s2_plan *const plan = loader->plan;
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads,
                  stamp = loader->load->n_generations + 1;
    const double all = all_blocks(plan, first);
    s2_union distinct = {0, 1}, kept = {0, 1};
    double chance = 0;
    int32_t n = 0;
    for (int32_t slot = first; slot < first + group; slot++) {
        const s2_reach *const now = &loader->now[slot], *const before = &loader->before[slot];
        if (now->stamp != stamp)
            continue;
        const double blocks = distinct_blocks(plan, now, slot);
        unite(&distinct, blocks, all);
        chance += class_at(plan, slot)->periodic ? 0 : blocks;
        if (before->stamp == stamp - 1 && before->stamp > 0)
            unite(&kept, shared_blocks(plan, before, now, slot), all);
        n++;
    }
    const double bytes = n == 1 ? distinct.apart : all * (1 - distinct.left);
    own->distinct += bytes * blk_bytes(plan);
    own->kept += (n == 1 ? kept.apart : all * (1 - kept.left)) * blk_bytes(plan);
    own->chance += distinct.apart > 0 ? chance / distinct.apart * bytes * blk_bytes(plan) : 0;
}

static void close_generation(s2_loader *loader)
{
    const s2_plan *const plan = loader->plan;
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads,
                  stamp = loader->load->n_generations + 1;
    s2_generation *const own = &loader->generations[loader->load->n_generations];
    for (int32_t at = 0; at < loader->n_active; at++) {
        const int32_t first = loader->active[at] - loader->active[at] % group;
        bool seen = false;
        for (int32_t slot = first; slot < loader->active[at] && !seen; slot++)
            seen = loader->now[slot].stamp == stamp;
        if (!seen)
            close_group(loader, first, own);
    }
    for (int32_t at = 0; at < loader->n_active; at++)
        loader->before[loader->active[at]] = loader->now[loader->active[at]];
    loader->n_active = 0;
    loader->load->n_generations++;
}

static double touched_bytes(const s2_loader *loader)
{
    const s2_plan *const plan = loader->plan;
    const int32_t n_heads = plan->pattern->n_heads, group = n_heads / plan->pattern->n_kv_heads;
    double touched = 0;
    for (int32_t first = 0; first < plan->n_seqs * n_heads; first += group) {
        double blocks = 0;
        for (int32_t slot = first; slot < first + group; slot++)
            if (loader->all[slot].stamp != 0)
                blocks += distinct_blocks(plan, &loader->all[slot], slot);
        touched += lesser(blocks, all_blocks(plan, first)) * blk_bytes(plan);
    }
    return touched;
}

static void add_item(s2_loader *loader, const s2_plan_item *item)
{
    const s2_plan *const plan = loader->plan;
    s2_load *const load = loader->load;
    const int32_t n_subs = load->n_subs;
    /* as the kernels gather: padding and partial entries come first, and an empty list is one step */
    const int32_t found = (int32_t)blocks_of(item->n_blk, n_subs), n_steps = found > 0 ? found : 1;
    const int32_t n_pad = n_steps * n_subs - item->n_blk;
    const int32_t partial = (int32_t)blocks_of((int64_t)n_pad + item->n_partial, n_subs);
    const int32_t n_masked = partial > 0 ? partial : 1;
    s2_load_class *const last = load->n_classes > 0 ? &loader->classes[load->n_classes - 1] : NULL;
    if (last != NULL && last->n_full == n_steps - n_masked && last->n_masked == n_masked)
        last->n_items++;
    else
        loader->classes[load->n_classes++] = (s2_load_class){n_steps - n_masked, n_masked, 1};
    load->n_steps += n_steps;
    load->n_masked += n_masked;
    load->load_bytes += item->n_blk * blk_bytes(plan);
    const int32_t slot = item->seq * plan->pattern->n_heads + loader->first_like[item->head];
    const int32_t stamp = load->n_generations + 1;
    if (loader->now[slot].stamp != stamp)
        loader->active[loader->n_active++] = slot;
    note_reach(&loader->now[slot], item, stamp, all_blocks(plan, slot));
    note_reach(&loader->all[slot], item, 1, all_blocks(plan, slot));
}

static void add_items(s2_loader *loader, int32_t n_running)
{
    const s2_plan *const plan = loader->plan;
    for (int32_t at = 0; at < plan->n_items; at++) {
        add_item(loader, &plan->items[at]);
        if ((at + 1) % n_running == 0 || at + 1 == plan->n_items)
            close_generation(loader);
    }
    loader->load->kv_bytes = touched_bytes(loader);
}

static void add_rows(s2_load *load, const s2_plan *plan)
{
    double rows = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        rows += (double)plan->seqs[seq].q_tok * plan->pattern->n_heads;
    load->q_bytes = rows * plan->pattern->head_dim * plan->options.elem_bytes;
    load->out_bytes = rows * (plan->pattern->head_dim * 2.0 + 4);
    const double q_tiles = (double)load->n_items * load->rows * plan->options.elem_bytes;
    const double columns = (double)blocks_of(plan->pattern->head_dim, 64) * 64;
    load->load_bytes += q_tiles * plan->pattern->head_dim;
    load->whole_bytes =
        columns * (q_tiles + 2.0 * (double)load->n_steps * load->key_tok * plan->options.elem_bytes);
}

/* As the Hopper backward cuts its columns (kernels/cuda/bwd_sm90.cu). */
static s2_plan_column_options column_cut(const s2_plan *plan, int32_t n_sms)
{
    const bool grouped = plan->pattern->n_heads > plan->pattern->n_kv_heads;
    int32_t k_tok = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        k_tok = plan->seqs[seq].k_tok > k_tok ? plan->seqs[seq].k_tok : k_tok;
    if (k_tok < 16384 && !grouped)
        return (s2_plan_column_options){plan->options.key_tok, 0, 0, 0};
    const int32_t part_steps = grouped && k_tok >= 16384 ? 128 : 64;
    return (s2_plan_column_options){plan->options.key_tok, grouped || k_tok > 65536 ? part_steps : 0, n_sms,
                                    0};
}

/* Lists that heads share are flattened once. */
static bool is_transposable(const s2_plan *plan)
{
    enum { MOST_ENTRIES = 1 << 24 };
    const double lists = (double)plan->counts.n_blk_loaded * plan->n_classes / plan->pattern->n_heads;
    return plan->options.tile_tok % S2_COLUMN_STEP_TOK == 0 && lists <= MOST_ENTRIES &&
           plan->options.key_tok <= S2_COLUMN_LIMIT_SUBS * plan->blk_tok;
}

static s2_status add_columns(s2_arena *arena, const s2_plan *plan, int32_t n_sms, s2_load *load)
{
    const s2_plan_column_options cut = column_cut(plan, n_sms);
    s2_plan_flat flat;
    s2_plan_columns columns;
    S2_TRY(s2_plan_flatten(arena, plan, &flat));
    S2_TRY(s2_plan_transpose(arena, plan, &flat, &cut, &columns));
    s2_load_class *const classes = S2_NEW(arena, s2_load_class, (int64_t)columns.n_columns + 1);
    if (classes == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < columns.n_columns; at++) {
        const int32_t n = columns.columns[at].n * columns.columns[at].n_heads;
        if (load->n_columns > 0 && classes[load->n_columns - 1].n_full == n)
            classes[load->n_columns - 1].n_items++;
        else
            classes[load->n_columns++] = (s2_load_class){n, 0, 1};
    }
    load->columns = classes;
    return S2_OK;
}

/* Five products where forward has two; O and dO are read beside Q; three gradients are written. */
static s2_status add_gradients(s2_arena *arena, const s2_plan *plan, int32_t n_sms, s2_load *load)
{
    load->flop *= 2.5;
    load->q_bytes *= 3;
    load->out_bytes = load->q_bytes / 3 + load->kv_bytes;
    return is_transposable(plan) ? add_columns(arena, plan, n_sms, load) : S2_OK;
}

static s2_status build(s2_arena *arena, s2_loader *loader, int32_t n_running)
{
    const s2_plan *const plan = loader->plan;
    const int32_t n_heads = plan->pattern->n_heads, group = n_heads / plan->pattern->n_kv_heads;
    const int64_t n_slots = (int64_t)plan->n_seqs * n_heads;
    loader->classes = S2_NEW(arena, s2_load_class, plan->n_items + 1);
    loader->generations = S2_NEW(arena, s2_generation, plan->n_items / n_running + 2);
    loader->first_like = S2_NEW(arena, int32_t, n_heads);
    loader->now = S2_NEW(arena, s2_reach, n_slots);
    loader->before = S2_NEW(arena, s2_reach, n_slots);
    loader->all = S2_NEW(arena, s2_reach, n_slots);
    loader->active = S2_NEW(arena, int32_t, n_slots);
    if (loader->classes == NULL || loader->generations == NULL || loader->first_like == NULL ||
        loader->now == NULL || loader->before == NULL || loader->all == NULL || loader->active == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++) {
        int32_t like = head - head % group;
        while (plan->class_of[like] != plan->class_of[head])
            like++;
        loader->first_like[head] = like;
    }
    add_items(loader, n_running);
    loader->load->classes = loader->classes;
    loader->load->generations = loader->generations;
    return S2_OK;
}

s2_status s2_load_of(s2_arena *arena, const s2_plan *plan, s2_pass pass, s2_dtype dtype, int32_t n_running,
                     s2_load *out)
{
    s2_load load = {.pass = pass,
                    .dtype = dtype,
                    .head_dim = plan->pattern->head_dim,
                    .rows = plan->options.tile_tok * plan->pack_heads,
                    .key_tok = plan->options.key_tok,
                    .n_subs = plan->options.key_tok / plan->blk_tok,
                    .arithmetic = true,
                    .whole_blocks = true,
                    .even_group = plan->pattern->n_heads / plan->pattern->n_kv_heads % 2 == 0,
                    .n_items = plan->n_items,
                    .pairs = plan->counts.pairs};
    for (int32_t cls = 0; cls < plan->n_classes; cls++) {
        load.arithmetic = load.arithmetic && plan->classes[cls].periodic;
        load.whole_blocks = load.whole_blocks && plan->classes[cls].block_exact;
    }
    s2_loader loader = {.plan = plan, .load = &load};
    S2_TRY(build(arena, &loader, n_running));
    load.flop = 4.0 * load.head_dim * load.rows * load.key_tok * (double)load.n_steps;
    add_rows(&load, plan);
    if (pass == S2_PASS_BACKWARD)
        S2_TRY(add_gradients(arena, plan, n_running, &load));
    *out = load;
    return S2_OK;
}

/* Eight query rows are a tile of the decode kernel; it holds up to four at a time, two of wide heads. */
static int32_t row_tiles_of(int32_t row_cap, int32_t head_dim)
{
    if (row_cap <= 8)
        return 1;
    return row_cap <= 16 || head_dim > 128 ? 2 : 4;
}

static int32_t longest_step(const s2_plan *plan)
{
    int32_t most = 1;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        most = plan->seqs[seq].q_tok > most ? plan->seqs[seq].q_tok : most;
    return most;
}

/* Rows that a part finishes or leaves to be added up, over the lists that it works for. */
static int32_t rows_of(const s2_decode_plan *step, const s2_decode_part *part)
{
    int32_t n = 0;
    for (int32_t list = part->first_list;
         list < step->n_lists && step->lists[list].slab_begin < part->slab_end; list++)
        n += step->lists[list].slab_end > part->slab_begin ? step->lists[list].n_rows : 0;
    return n > 0 ? n : 1;
}

s2_status s2_load_of_step(s2_arena *arena, const s2_plan *plan, s2_dtype dtype, int32_t n_sms, s2_load *out)
{
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads, d = plan->pattern->head_dim;
    const int32_t row_cap = (int32_t)blocks_of((int64_t)longest_step(plan) * group, 8) * 8;
    const int32_t tiles = row_tiles_of(row_cap, d),
                  n_chunks = (int32_t)blocks_of(row_cap, 8 * (int64_t)tiles);
    const int32_t resident = n_sms * (d <= 128 ? 2 : 1) / n_chunks;
    s2_decode_plan step;
    S2_TRY(s2_decode_plan_build(arena, plan, NULL, resident > 0 ? resident : 1, &step, NULL));
    s2_load_class *const classes = S2_NEW(arena, s2_load_class, (int64_t)step.n_parts + 1);
    s2_generation *const once = S2_NEW(arena, s2_generation, 1);
    if (classes == NULL || once == NULL)
        return S2_ENOMEM;
    s2_load load = {.pass = S2_PASS_STEP,
                    .dtype = dtype,
                    .head_dim = d,
                    .rows = S2_DECODE_SLAB_TOK,
                    .key_tok = S2_DECODE_SLAB_TOK,
                    .n_subs = tiles + 1,
                    .even_group = group % 2 == 0,
                    .arithmetic = step.n_masks == 0,
                    .n_items = (int64_t)step.n_parts * n_chunks,
                    .n_steps = (int64_t)step.n_slabs * n_chunks,
                    .classes = classes,
                    .n_generations = 1,
                    .generations = once,
                    .pairs = plan->counts.pairs};
    for (int32_t part = 0; part < step.n_parts; part++) {
        const s2_decode_part *const own = &step.parts[part];
        const int32_t n_slabs = own->slab_end - own->slab_begin, n_rows = rows_of(&step, own);
        s2_load_class *const last = load.n_classes > 0 ? &classes[load.n_classes - 1] : NULL;
        if (last != NULL && last->n_full == n_slabs && last->n_masked == n_rows)
            last->n_items += n_chunks;
        else
            classes[load.n_classes++] = (s2_load_class){n_slabs, n_rows, n_chunks};
    }
    for (int32_t list = 0; list < step.n_lists; list++) {
        const double parts =
            step.lists[list].n_parts > 1 ? (double)step.lists[list].n_parts * step.lists[list].n_rows : 0;
        load.joined = parts > load.joined ? parts : load.joined;
    }
    const double rows = (double)step.n_lists * longest_step(plan) * group;
    load.flop = 4.0 * d * 8 * tiles * S2_DECODE_SLAB_TOK * (double)load.n_steps;
    load.q_bytes = rows * d * plan->options.elem_bytes;
    load.out_bytes = rows * (d * 2.0 + 4);
    load.kv_bytes = once->distinct = 2.0 * d * plan->options.elem_bytes * S2_DECODE_SLAB_TOK * step.n_slabs;
    /* what parts leave for one another goes through L2 in fp32, out and in */
    const double shared =
        step.n_parts > step.n_lists ? (double)step.n_parts * 8 * tiles * n_chunks * d * 8 : 0;
    load.load_bytes = load.whole_bytes = load.kv_bytes * n_chunks + load.q_bytes + shared;
    *out = load;
    return S2_OK;
}
