#include "sim/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"
#include "plan/steps.h"
#include "sim/attention.h"
#include "sim/short.h"

/* What the items of a generation, or all items, read of one (sequence, KV head) through one class. */
typedef struct s2_reach {
    int64_t least; /* blocks of the shortest list */
    int64_t most;  /* of the longest */
    int64_t sum;   /* of all of them */
    double missed; /* share of the blocks that no list holds, when lists have no common order */
    int32_t first_tile, last_tile;
    int32_t stamp;
} s2_reach;

typedef struct s2_loader {
    const s2_kernel_traits *traits; /* NULL: not a kernel of this repository */
    const s2_plan *plan;
    const s2_steps *steps;    /* of a halved kernel, or NULL */
    const s2_plan_flat *flat; /* of a plan that is also transposed, or NULL */
    s2_kernel_load *load;
    s2_load_class *classes;
    s2_wave *generations;
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
    return (double)s2_ceil_div(plan->seqs[slot / plan->pattern->n_heads].k_tok, plan->blk_tok);
}

static const s2_plan_class *class_at(const s2_plan *plan, int32_t slot)
{
    return &plan->classes[plan->class_of[slot % plan->pattern->n_heads]];
}

/*
 * Distinct blocks of several tiles of one head. Windows and stripes of neighbouring tiles overlap, except
 * where the window slides over blocks that are not stripes (stripes make the list longer); lists from memory
 * are treated as random.
 */
static double distinct_blocks(const s2_plan *plan, const s2_reach *reach, int32_t slot)
{
    const double all = all_blocks(plan, slot);
    const double slid =
        (double)(reach->last_tile - reach->first_tile) * plan->options.tile_tok / plan->blk_tok;
    if (!class_at(plan, slot)->periodic)
        return all * (1 - reach->missed);
    const double fresh = slid - (double)(reach->most - reach->least);
    /* tiles of one generation may lie far apart: those cut by the end of a sequence are the last of all */
    return s2_min_f64(s2_min_f64((double)reach->most + s2_max_f64(fresh, 0), (double)reach->sum), all);
}

/* Of what two generations read, as if it were one. */
static s2_reach both_of(const s2_reach *a, const s2_reach *b)
{
    return (s2_reach){.least = s2_min_i64(b->least, a->least),
                      .most = s2_max_i64(b->most, a->most),
                      .sum = a->sum + b->sum,
                      .missed = a->missed * b->missed,
                      .first_tile = s2_min_i32(b->first_tile, a->first_tile),
                      .last_tile = s2_max_i32(b->last_tile, a->last_tile)};
}

static void note_reach(s2_reach *reach, const s2_plan_item *item, int32_t stamp, double all)
{
    if (reach->stamp != stamp)
        *reach = (s2_reach){item->n_blk, item->n_blk, 0, 1, item->tile, item->tile, stamp};
    reach->most = s2_max_i64(item->n_blk, reach->most);
    reach->least = s2_min_i64(item->n_blk, reach->least);
    reach->sum += item->n_blk;
    reach->missed *= 1 - s2_min_f64((double)item->n_blk, all) / all;
    reach->first_tile = s2_min_i32(item->tile, reach->first_tile);
    reach->last_tile = s2_max_i32(item->tile, reach->last_tile);
}

/*
 * Different heads of a KV head share windows but not stripes: treated as independent random draws. Returns the share of
 * the blocks that none of them reads.
 */
static double left_by(double left, double blocks, double of)
{
    return left * (1 - s2_min_f64(blocks, of) / of);
}

/* What one KV head adds to a generation, and how much of it the generation before read, by whichever of its heads. */
static void close_group(s2_loader *loader, int32_t first, s2_wave *own)
{
    const s2_plan *const plan = loader->plan;
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads,
                  stamp = loader->load->n_generations + 1;
    const double all = all_blocks(plan, first);
    double left = 1, left_before = 1, left_by_both = 1, apart = 0, chance = 0;
    for (int32_t slot = first; slot < first + group; slot++) {
        const s2_reach *const now = &loader->now[slot], *const before = &loader->before[slot];
        const bool runs = now->stamp == stamp, ran = before->stamp == stamp - 1 && before->stamp > 0;
        const s2_reach both = runs && ran ? both_of(before, now) : runs ? *now : *before;
        if (!runs && !ran)
            continue;
        left_by_both = left_by(left_by_both, distinct_blocks(plan, &both, slot), all);
        if (ran)
            left_before = left_by(left_before, distinct_blocks(plan, before, slot), all);
        if (!runs)
            continue;
        const double blocks = distinct_blocks(plan, now, slot);
        left = left_by(left, blocks, all);
        apart += blocks;
        chance += class_at(plan, slot)->periodic ? 0 : blocks;
    }
    const double bytes = all * (1 - left) * blk_bytes(plan);
    own->distinct += bytes;
    own->kept +=
        s2_max_f64(0, s2_min_f64(1 - left, 1 - left - left_before + left_by_both)) * all * blk_bytes(plan);
    own->chance += apart > 0 ? chance / apart * bytes : 0;
}

static void close_generation(s2_loader *loader)
{
    const s2_plan *const plan = loader->plan;
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads,
                  stamp = loader->load->n_generations + 1;
    s2_wave *const own = &loader->generations[loader->load->n_generations];
    for (int32_t a = 0; a < loader->n_active; a++) {
        const int32_t first = loader->active[a] - loader->active[a] % group;
        bool seen = false;
        for (int32_t slot = first; slot < loader->active[a] && !seen; slot++)
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
        touched += s2_min_f64(blocks, all_blocks(plan, first)) * blk_bytes(plan);
    }
    return touched;
}

/* As the kernels gather: padding and partial entries first; an empty list is one step. */
static s2_load_class whole_steps(const s2_loader *loader, int32_t item_no)
{
    const s2_plan_item *const item = &loader->plan->items[item_no];
    const int32_t n_subs = loader->load->n_subs;
    const int32_t found = (int32_t)s2_ceil_div(item->n_blk, n_subs), n_steps = found > 0 ? found : 1;
    const int32_t n_pad = n_steps * n_subs - item->n_blk;
    const int32_t partial = (int32_t)s2_ceil_div((int64_t)n_pad + item->n_partial, n_subs);
    s2_load_class made = {.n_masked = partial > 0 ? partial : 1, .n_items = 1};
    made.n_full = n_steps - made.n_masked;
    if (loader->flat == NULL)
        return made;
    const s2_plan_span *const span = &loader->flat->span_of[item_no];
    int32_t n_fine = 0;
    for (int32_t e = 0; e < span->n_partial; e++)
        n_fine += loader->flat->entries[span->begin + e].mask >= 0;
    made.n_fine = (int32_t)s2_min_f64((double)n_fine, (double)made.n_masked);
    return made;
}

/* Blocks named by the words of an item's compared steps: two heads that share a list load them once. */
static s2_load_class half_steps(const s2_loader *loader, int32_t item_no, double *n_blk)
{
    const s2_step_item *const item = &loader->steps->items[item_no];
    const int32_t n_subs = loader->load->n_subs, n_compared = item->n_half + item->n_mixed;
    const bool shared = loader->plan->pack_heads == 2;
    s2_load_class made = {
        .n_full = item->n_whole, .n_masked = item->n_half, .n_mixed = item->n_mixed, .n_items = 1};
    *n_blk = (double)item->n_whole * n_subs;
    for (int32_t step = 0; step < n_compared; step++) {
        const s2_step_word *const words = &loader->steps->words[item->half_begin + step * n_subs];
        const bool is_half = step < item->n_half;
        int32_t n_masks[2] = {0, 0}; /* of each group of warps; a mixed step has the same for both */
        for (int32_t word = 0; word < (shared && is_half ? n_subs / 2 : n_subs); word++) {
            *n_blk += words[word].word >> S2_STEP_BLOCK_SHIFT != S2_STEP_NOWHERE;
            n_masks[is_half && word >= n_subs / 2] += words[word].mask >= 0;
        }
        const int32_t most = s2_max_i32(n_masks[0], n_masks[1]);
        made.n_fine += most > 0;
        made.n_more += s2_max_i32(most - (is_half ? 1 : 2), 0);
    }
    return made;
}

static void add_class(s2_kernel_load *load, s2_load_class *classes, const s2_load_class *own)
{
    s2_load_class *const last = load->n_classes > 0 ? &classes[load->n_classes - 1] : NULL;
    if (last != NULL && last->n_full == own->n_full && last->n_masked == own->n_masked &&
        last->n_rows == own->n_rows && last->n_turns == own->n_turns && last->n_mixed == own->n_mixed &&
        last->n_fine == own->n_fine && last->n_more == own->n_more && last->n_groups == own->n_groups)
        last->n_items += own->n_items;
    else
        classes[load->n_classes++] = *own;
}

static void add_item(s2_loader *loader, int32_t item_no)
{
    const s2_plan *const plan = loader->plan;
    const s2_plan_item *const item = &plan->items[item_no];
    s2_kernel_load *const load = loader->load;
    double n_blk = item->n_blk;
    const s2_load_class own =
        load->halved ? half_steps(loader, item_no, &n_blk) : whole_steps(loader, item_no);
    add_class(load, loader->classes, &own);
    load->n_steps += own.n_full + own.n_masked + own.n_mixed;
    load->n_masked += own.n_masked + own.n_mixed;
    load->flop += own.n_full + own.n_mixed + (load->halved ? 0.5 : 1) * own.n_masked;
    load->load_bytes += n_blk * blk_bytes(plan);
    load->n_listed += item->n_blk;
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
        add_item(loader, at);
        if ((at + 1) % n_running == 0 || at + 1 == plan->n_items)
            close_generation(loader);
    }
    loader->load->kv_bytes = touched_bytes(loader);
}

/* Rows follow one another, so they begin at all multiples of what their length has in common with a line's. */
static double beyond_row(int32_t row_bytes)
{
    enum { LINE_BYTES = 128 };
    return (double)(LINE_BYTES - s2_gcd(LINE_BYTES, row_bytes)) / row_bytes;
}

static void add_rows(s2_kernel_load *load, const s2_plan *plan)
{
    double rows = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        rows += (double)plan->seqs[seq].q_tok * plan->pattern->n_heads;
    load->q_bytes = rows * plan->pattern->head_dim * plan->options.elem_bytes;
    load->out_bytes = rows * (plan->pattern->head_dim * 2.0 + 4);
    const double q_tiles = (double)load->n_items * load->rows * plan->options.elem_bytes;
    const double columns = (double)s2_ceil_div(plan->pattern->head_dim, 64) * 64;
    const double keys = load->halved ? load->load_bytes / (2.0 * plan->pattern->head_dim)
                                     : (double)load->n_steps * load->key_tok * plan->options.elem_bytes;
    load->whole_bytes = columns * (q_tiles + 2.0 * keys);
    load->load_bytes += q_tiles * plan->pattern->head_dim;
}

/* V is read whole, and its panels are as wide as the widest head dimension. A block of threads turns 128 keys. */
static void add_panels(const s2_plan *plan, const s2_kernel_traits *traits, s2_kernel_load *load)
{
    enum { PANEL_BLOCK_TOK = 128 };
    load->panel_bytes = load->span_bytes / 2 * (1 + (double)traits->most_dim / load->head_dim);
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        load->panel_blocks +=
            (double)s2_ceil_div(plan->seqs[seq].k_tok, PANEL_BLOCK_TOK) * plan->pattern->n_kv_heads;
}

/* Lists that heads share are flattened once; columns are swept for each head. */
static bool is_transposable(const s2_plan *plan, int32_t key_tok)
{
    enum { MOST_ENTRIES = 1 << 24, MOST_SWEPT = 1 << 28 };
    const double lists = (double)plan->counts.n_blk_loaded * plan->n_classes / plan->pattern->n_heads;
    return plan->options.tile_tok % S2_COLUMN_STEP_TOK == 0 && lists <= MOST_ENTRIES &&
           plan->counts.n_blk_loaded <= MOST_SWEPT / plan->pack_heads &&
           key_tok <= S2_COLUMN_LIMIT_SUBS * plan->blk_tok;
}

static int32_t fine_entries(const s2_plan_columns *columns, const s2_plan_column *column)
{
    int32_t n = 0;
    for (int32_t e = 0; columns->masks != NULL && e < column->n; e++) {
        if (e >= column->n_partial && e < column->n - column->n_tail)
            continue;
        const int32_t *const masks = &columns->masks[(column->begin + e) * columns->n_sub];
        bool fine = false;
        for (int32_t sub = 0; sub < columns->n_sub; sub++)
            fine = fine || masks[sub] >= 0;
        n += fine;
    }
    return n;
}

/* What a generation of columns reads within so many bytes is read from memory once. */
#define BESIDE_BYTES 32e6

/* The read of a step that came last: by which generation of columns, and how many a column of it had read before. */
typedef struct s2_read {
    int32_t generation;
    int32_t nth;
} s2_read;

/* Rows that columns read, as items read keys: a step has Q and dO of 64 queries of one head. */
typedef struct s2_sweeper {
    const s2_plan *plan;
    s2_kernel_load *load;
    s2_read *last; /* [(seq * n_heads + head) * most + step] */
    int32_t most;  /* steps of the longest sequence */
    int32_t n_running;
    double step_bytes;
    double read_bytes; /* of which a column loads */
    s2_sweep *sweeps;
} s2_sweeper;

static void read_step(s2_sweeper *sweeper, int64_t step, int32_t generation, int32_t nth)
{
    s2_sweep *const own = &sweeper->sweeps[generation - 1];
    s2_read *const last = &sweeper->last[step];
    own->reads += sweeper->step_bytes;
    if (last->generation != generation) {
        own->distinct += sweeper->step_bytes;
        own->kept += last->generation > 0 && last->generation == generation - 1 ? sweeper->step_bytes : 0;
    } else if (abs(nth - last->nth) * sweeper->n_running * sweeper->step_bytes <= BESIDE_BYTES) {
        own->beside += sweeper->step_bytes;
    }
    *last = (s2_read){generation, nth};
}

static void sweep_column(s2_sweeper *sweep, const s2_plan_columns *columns, int32_t column_no)
{
    const s2_plan_column *const column = &columns->columns[column_no];
    const s2_pattern *const pattern = sweep->plan->pattern;
    const int32_t group = pattern->n_heads / pattern->n_kv_heads,
                  generation = column_no / sweep->n_running + 1;
    for (int32_t e = 0; e < column->n; e++) {
        const s2_plan_column_entry *const entry = &columns->entries[column->begin + e];
        for (int32_t h = 0; h < column->n_heads; h++) {
            const int64_t head = (int64_t)column->seq * pattern->n_heads + column->kv_head * group +
                                 (column->n_heads > 1 ? h : entry->head);
            read_step(sweep, head * sweep->most + entry->step, generation, e * column->n_heads + h);
        }
    }
    const double key_bytes =
        2.0 * columns->n_sub * sweep->plan->blk_tok * pattern->head_dim * sweep->plan->options.elem_bytes;
    sweep->load->column_bytes += (double)column->n * column->n_heads * sweep->read_bytes + key_bytes;
}

/* The copy of dQ that columns add to has whole 64 columns. */
static double dq_row_bytes(int32_t head_dim)
{
    return (double)s2_round_up(head_dim, 64) * sizeof(float);
}

/* Steps of the queries of the longest sequence. */
static int32_t most_column_steps(const s2_plan *plan)
{
    int32_t most = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        most = s2_max_i32(s2_plan_n_tiles(plan, seq), most);
    return most * plan->options.tile_tok / S2_COLUMN_STEP_TOK;
}

/* 128-row tiles are anchored at absolute positions, which bounds the number of steps. */
static s2_status sweep_columns(s2_arena *arena, const s2_plan *plan, const s2_plan_columns *columns,
                               int32_t n_running, s2_kernel_load *load)
{
    s2_sweeper sweep = {.plan = plan, .load = load, .n_running = n_running};
    sweep.most = most_column_steps(plan);
    sweep.read_bytes =
        S2_COLUMN_STEP_TOK * (2.0 * plan->pattern->head_dim * plan->options.elem_bytes + 2 * sizeof(float));
    sweep.step_bytes = sweep.read_bytes +
                       (load->fused ? (double)S2_COLUMN_STEP_TOK * dq_row_bytes(plan->pattern->head_dim) : 0);
    sweep.last = S2_NEW(arena, s2_read, (int64_t)plan->n_seqs * plan->pattern->n_heads * sweep.most);
    sweep.sweeps = S2_NEW(arena, s2_sweep, columns->n_columns / n_running + 2);
    if (sweep.last == NULL || sweep.sweeps == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < columns->n_columns; at++)
        sweep_column(&sweep, columns, at);
    load->n_sweeps = (int32_t)s2_ceil_div(columns->n_columns, n_running);
    load->sweeps = sweep.sweeps;
    return S2_OK;
}

/*
 * In order: by how many steps more than the column before it a column comes to a tile of dQ that both add to, at least.
 * Lists ascend, but for steps that compare between others that do not, which come first.
 */
typedef struct s2_followed {
    const s2_plan_columns *columns;
    int32_t group;
    int32_t *nth, *stamp; /* [step][head of the group]: of the column that came to it last */
} s2_followed;

static void follow(const s2_followed *followed, int32_t column_no, s2_load_column *out)
{
    const s2_plan_column *const own = &followed->columns->columns[column_no], *const before = column_no > 0
                                                                                                  ? own - 1
                                                                                                  : NULL;
    const bool alike = before != NULL && own->seq == before->seq && own->kv_head == before->kv_head;
    out->follows = false;
    out->later = INT32_MAX;
    for (int32_t nth = 0; nth < own->n; nth++) {
        const s2_plan_column_entry *const entry = &followed->columns->entries[own->begin + nth];
        const int64_t tile = (int64_t)entry->step * followed->group + entry->head;
        if (alike && followed->stamp[tile] == column_no) {
            out->follows = true;
            out->later = s2_min_i32(out->later, (nth - followed->nth[tile]) * own->n_heads);
        }
        followed->nth[tile] = nth;
        followed->stamp[tile] = column_no + 1;
    }
}

static s2_status follow_columns(s2_arena *arena, const s2_plan *plan, const s2_plan_columns *columns,
                                s2_load_column *made)
{
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads;
    const int64_t n_tiles = (int64_t)most_column_steps(plan) * group + 1;
    const s2_followed followed = {columns, group, S2_NEW(arena, int32_t, n_tiles),
                                  S2_NEW(arena, int32_t, n_tiles)};
    if (followed.nth == NULL || followed.stamp == NULL)
        return S2_ENOMEM;
    for (int32_t column_no = 0; column_no < columns->n_columns; column_no++)
        follow(&followed, column_no, &made[column_no]);
    return S2_OK;
}

static s2_status add_columns(s2_arena *arena, const s2_loader *loader, int32_t n_sms, s2_kernel_load *load)
{
    const s2_plan *const plan = loader->plan;
    const s2_plan_column_options cut = s2_kernel_columns(loader->traits, plan, n_sms);
    s2_plan_columns columns;
    S2_TRY(s2_plan_transpose(arena, plan, loader->flat, &cut, &columns));
    s2_load_column *const made = S2_NEW(arena, s2_load_column, (int64_t)columns.n_columns + 1);
    load->chain_ends = S2_NEW(arena, double, (int64_t)columns.n_chains + 1);
    if (made == NULL || load->chain_ends == NULL)
        return S2_ENOMEM;
    /* fused: rows of Q and dO that do not begin with a line of the cache touch one more */
    const bool amid_lines = load->fused && plan->pattern->head_dim * plan->options.elem_bytes % 128 != 0;
    for (int32_t column_no = 0; column_no < columns.n_columns; column_no++) {
        const s2_plan_column *const column = &columns.columns[column_no];
        const int32_t n_compared = columns.turns != NULL ? column->n_tail : 0;
        const int32_t n_half = column->n_upper + column->n_tail - n_compared;
        made[column_no] =
            (s2_load_column){.n_full = (column->n - column->n_partial - column->n_tail) * column->n_heads,
                             .n_masked = (column->n_partial - column->n_upper + n_compared) * column->n_heads,
                             .n_half = n_half * column->n_heads,
                             .n_fine = amid_lines ? column->n * column->n_heads
                                                  : fine_entries(&columns, column) * column->n_heads,
                             .chain = column->chain};
        if (column->part > 0) /* dK and dV in fp32 */
            load->sum_bytes += 2.0 * cut.key_tok * plan->pattern->head_dim * sizeof(float);
    }
    if (columns.turns != NULL)
        S2_TRY(follow_columns(arena, plan, &columns, made));
    load->column_tok = cut.key_tok;
    load->n_columns = columns.n_columns;
    load->n_chains = columns.n_chains;
    load->columns = made;
    return sweep_columns(arena, plan, &columns, n_sms, load);
}

/* The kernels that cut columns and run no tiles in half steps. */
static bool is_fused(const s2_kernel_traits *traits)
{
    return traits != NULL && traits->cuts != NULL && traits->halves_tok == 0;
}

/*
 * Five products, in steps of an instance that is as wide as the widest head dimension; those of its missing columns are
 * of zeros. What items would load, columns do.
 */
static void take_columns_alone(const s2_kernel_traits *traits, double product, double column_product,
                               s2_kernel_load *load)
{
    const double dim = load->head_dim;
    load->flop = 5 * (load->n_columns > 0 ? column_product : product) * traits->most_dim / dim;
    load->dq_bytes =
        load->q_bytes / 3 / (dim * (double)s2_dtype_bytes(load->dtype)) * dq_row_bytes(load->head_dim);
    load->again_bytes = load->load_bytes = load->whole_bytes = 0;
    load->n_classes = load->n_generations = 0;
}

/* Three products for dQ and four for dK and dV, or five in two passes; forward has two. O and dO are read as
 * well as Q; three gradients are written. */
static s2_status add_gradients(s2_arena *arena, const s2_loader *loader, int32_t n_sms, s2_kernel_load *load)
{
    const double product = load->flop / 2;
    load->q_bytes *= 3;
    load->out_bytes = load->q_bytes / 3 + load->kv_bytes;
    load->again_bytes = load->q_bytes + load->kv_bytes;
    load->flop = (6 + load->column_passes) * product;
    load->fused = is_fused(loader->traits);
    if (!load->fused)
        load->amid = beyond_row(load->head_dim * loader->plan->options.elem_bytes);
    if (loader->flat != NULL)
        S2_TRY(add_columns(arena, loader, n_sms, load));
    double n_steps = 0;
    for (int32_t at = 0; at < load->n_columns; at++)
        n_steps += load->columns[at].n_full + load->columns[at].n_masked + 0.5 * load->columns[at].n_half;
    const double products = 3 + load->column_passes,
                 column_product = 2.0 * load->head_dim * S2_COLUMN_STEP_TOK * load->column_tok * n_steps;
    if (load->fused)
        take_columns_alone(loader->traits, product, column_product, load);
    else if (loader->flat != NULL)
        load->flop = 3 * product + products * column_product;
    return S2_OK;
}

static s2_status build(s2_arena *arena, s2_loader *loader, int32_t n_running)
{
    const s2_plan *const plan = loader->plan;
    const int32_t n_heads = plan->pattern->n_heads, group = n_heads / plan->pattern->n_kv_heads;
    const int64_t n_slots = (int64_t)plan->n_seqs * n_heads;
    loader->classes = S2_NEW(arena, s2_load_class, plan->n_items + 1);
    loader->generations = S2_NEW(arena, s2_wave, plan->n_items / n_running + 2);
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

static void note_extent(const s2_plan *plan, int32_t q_tok, s2_kernel_load *load)
{
    const double row = 2.0 * plan->pattern->n_kv_heads * plan->pattern->head_dim * plan->options.elem_bytes;
    load->list_rows = plan->pattern->n_heads / plan->pattern->n_kv_heads * q_tok;
    load->n_lists = (int64_t)plan->n_seqs * plan->pattern->n_kv_heads;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++) {
        load->q_tok = s2_max_i32(plan->seqs[seq].q_tok, load->q_tok);
        load->k_tok = s2_max_i32(plan->seqs[seq].k_tok, load->k_tok);
    }
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        load->span_bytes += row * plan->seqs[seq].k_tok;
}

static int64_t slot_of(const s2_plan *plan, const s2_plan_item *item, int32_t n_tiles)
{
    return ((int64_t)item->seq * n_tiles + item->tile) * plan->pattern->n_heads + item->head;
}

/* Lists on the device: a launch is given the plan of a dense layer, and works through its items as they come there. */
static s2_status order_as_dense(s2_arena *arena, const s2_plan *plan, s2_plan *out, int64_t *n_seen)
{
    s2_pattern pattern;
    s2_plan dense;
    s2_plan_options options = plan->options;
    int32_t n_tiles = 0;
    options.pack_heads = plan->pack_heads;
    options.work_left = NULL;
    S2_TRY(s2_attention_dense(arena, plan->pattern, &pattern));
    S2_TRY(s2_plan_build(arena, &pattern, S2_PREFILL, 0, plan->seqs, plan->n_seqs, &options, &dense, NULL));
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n_tiles = s2_max_i32(n_tiles, s2_plan_n_tiles(plan, seq));
    int32_t *const item_of = S2_NEW(arena, int32_t, (int64_t)plan->n_seqs * n_tiles * plan->pattern->n_heads);
    s2_plan_item *const items = S2_NEW(arena, s2_plan_item, plan->n_items + 1);
    if (item_of == NULL || items == NULL)
        return S2_ENOMEM;
    for (int32_t item = 0; item < plan->n_items; item++)
        item_of[slot_of(plan, &plan->items[item], n_tiles)] = item;
    for (int32_t item = 0; item < plan->n_items; item++)
        items[item] = plan->items[item_of[slot_of(plan, &dense.items[item], n_tiles)]];
    *out = *plan;
    out->items = items;
    *n_seen = dense.counts.n_blk_loaded;
    return S2_OK;
}

static s2_status load_plan(s2_arena *arena, const s2_plan *plan, const s2_kernel_traits *traits, s2_pass pass,
                           s2_dtype dtype, int32_t n_running, s2_kernel_load *out)
{
    enum {
        STAGGERED_DIM = 64
    }; /* up to it, kernels/cuda/fwd_sm90.cuh lets one half of a head's tile follow the other */
    const bool halved = s2_kernel_halves(traits, plan->options.key_tok),
               eight_bits = traits != NULL && traits->eight_bits;
    s2_kernel_load load = {.pass = pass,
                           .dtype = dtype,
                           .head_dim = plan->pattern->head_dim,
                           .rows = plan->options.tile_tok * plan->pack_heads,
                           .key_tok = plan->options.key_tok * (halved ? 2 : 1),
                           .arithmetic = true,
                           .whole_blocks = true,
                           .one_head = plan->pack_heads == 1,
                           .in_step = halved && !eight_bits && plan->pack_heads == 2 &&
                                      plan->pattern->head_dim <= STAGGERED_DIM,
                           .halved = halved,
                           .even_group = plan->pattern->n_heads / plan->pattern->n_kv_heads % 2 == 0,
                           .column_passes = s2_kernel_column_passes(traits, plan->pattern->head_dim),
                           .n_items = plan->n_items,
                           .pairs = plan->counts.pairs};
    note_extent(plan, 1, &load);
    load.n_subs = load.key_tok / plan->blk_tok;
    for (int32_t cls = 0; cls < plan->n_classes; cls++) {
        load.arithmetic = load.arithmetic && plan->classes[cls].periodic;
        load.whole_blocks = load.whole_blocks && plan->classes[cls].block_exact;
    }
    if (traits != NULL && traits->short_windows) {
        S2_TRY(s2_load_short(arena, plan, n_running, &load));
        *out = load;
        return S2_OK;
    }
    s2_loader loader = {.traits = traits, .plan = plan, .load = &load};
    s2_steps steps;
    s2_plan_flat flat;
    if (halved) {
        S2_TRY(s2_steps_build(arena, plan, load.key_tok, &steps, NULL));
        loader.steps = &steps;
    }
    if (pass == S2_PASS_BACKWARD && is_transposable(plan, load.key_tok)) {
        S2_TRY(s2_plan_flatten(arena, plan, &flat));
        loader.flat = &flat;
    }
    S2_TRY(build(arena, &loader, n_running));
    load.flop *= 4.0 * load.head_dim * load.rows * load.key_tok;
    add_rows(&load, plan);
    if (eight_bits)
        add_panels(plan, traits, &load);
    if (pass == S2_PASS_BACKWARD)
        S2_TRY(add_gradients(arena, &loader, n_running, &load));
    *out = load;
    return S2_OK;
}

bool s2_kernel_load_is_ragged(const s2_kernel_load *load)
{
    enum { SECTOR_BYTES = 32 };
    return load->head_dim * (int32_t)s2_dtype_bytes(load->dtype) % SECTOR_BYTES != 0;
}

s2_status s2_load_of(s2_arena *arena, const s2_plan *plan, const s2_kernel_traits *traits, s2_pass pass,
                     s2_dtype dtype, int32_t n_running, s2_kernel_load *out)
{
    s2_plan ordered;
    if (traits == NULL || !traits->listed)
        return load_plan(arena, plan, traits, pass, dtype, n_running, out);
    int64_t n_seen;
    S2_TRY(order_as_dense(arena, plan, &ordered, &n_seen));
    S2_TRY(load_plan(arena, &ordered, traits, pass, dtype, n_running, out));
    out->n_seen = n_seen;
    return S2_OK;
}

static int32_t longest_step(const s2_plan *plan)
{
    int32_t most = 1;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        most = s2_max_i32(plan->seqs[seq].q_tok, most);
    return most;
}

enum { WIDE_TILES = 8 }; /* of the kernel for more than 16 rows, which no other has */

/* A decode step: with its slabs, or with what was counted of each list. */
typedef struct s2_load_step {
    const s2_plan *plan;
    s2_decode_plan step;
    const s2_load_list *counted; /* NULL: slabs */
} s2_load_step;

/* Groups of n_slabs slabs with masks that a part has of a list. */
static double fine_groups(const s2_load_step *made, int32_t list_no, int32_t begin, int32_t end,
                          int32_t n_slabs)
{
    const s2_decode_list *const list = &made->step.lists[list_no];
    int32_t n = 0;
    if (made->counted != NULL)
        return fmin((double)made->counted[list_no].n_fine * (end - begin) /
                        (list->slab_end - list->slab_begin),
                    (double)s2_ceil_div(end - begin, n_slabs));
    for (int32_t slab = begin; slab < end; slab++)
        if (made->step.slabs[slab].mask >= 0) {
            slab += n_slabs - 1 - (slab - begin) % n_slabs; /* the others of its group make no difference */
            n++;
        }
    return n;
}

/* A part of a decode step: its slabs, and the lists that it works for. */
static s2_load_class part_class(const s2_load_step *of, const s2_decode_part *part, bool wide,
                                int32_t chunk_rows)
{
    s2_load_class made = {.n_full = part->slab_end - part->slab_begin};
    int32_t n_lists = 0;
    double n_fine = 0;
    for (int32_t list_no = part->first_list;
         list_no < of->step.n_lists && of->step.lists[list_no].slab_begin < part->slab_end; list_no++) {
        const s2_decode_list *const list = &of->step.lists[list_no];
        const int32_t begin = s2_max_i32(list->slab_begin, part->slab_begin),
                      end = s2_min_i32(list->slab_end, part->slab_end);
        if (begin >= end)
            continue;
        made.n_groups += (int32_t)s2_ceil_div(end - begin, S2_DECODE_WARPS);
        made.n_rows += s2_min_i32(list->n_rows, chunk_rows); /* finished, or left to be added up */
        n_fine += fine_groups(of, list_no, begin, end, wide ? S2_DECODE_WARPS : 1);
        n_lists++;
    }
    made.n_rows = s2_max_i32(made.n_rows, 1);
    made.n_turns = s2_max_i32(n_lists - 1, 0);
    made.n_fine = (int32_t)lround(n_fine);
    return made;
}

/* (row, key) pairs of a list. */
static int64_t list_pairs(const s2_decode_plan *step, const s2_decode_list *list)
{
    int64_t n = 0;
    for (int32_t slab = list->slab_begin; slab < list->slab_end; slab++) {
        const int64_t mask = step->slabs[slab].mask;
        if (mask < 0)
            n += (int64_t)S2_DECODE_SLAB_TOK * list->n_rows;
        for (int32_t row = 0; mask >= 0 && row < list->n_rows; row++)
            n += __builtin_popcount(step->bits[mask * step->row_cap + row]);
    }
    return n;
}

static int64_t step_pairs(const s2_load_step *of)
{
    int64_t n = 0;
    for (int32_t list_no = 0; list_no < of->step.n_lists; list_no++)
        n += of->counted != NULL ? of->counted[list_no].n_pairs
                                 : list_pairs(&of->step, &of->step.lists[list_no]);
    return n;
}

/* What parts of lists leave in memory to be added up, and what a launch of its own fetches of it. */
static double left_bytes(const s2_decode_launch *launch, const s2_decode_plan *step, int32_t head_dim)
{
    double n_rows = (double)s2_decode_launch_fetches(launch, step);
    for (int32_t list_no = 0; list_no < step->n_lists; list_no++)
        if (step->lists[list_no].n_parts > 1)
            n_rows += (double)step->lists[list_no].n_parts * step->lists[list_no].n_rows;
    return n_rows * head_dim * 4;
}

static s2_status load_step(s2_arena *arena, s2_load_step *of, s2_decode_launch *launch, s2_dtype dtype,
                           s2_kernel_load *out)
{
    const s2_plan *const plan = of->plan;
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads, d = plan->pattern->head_dim;
    s2_decode_plan *const step = &of->step;
    S2_TRY(s2_decode_launch_fit(arena, launch, step));
    const int32_t tiles = launch->row_tiles, n_chunks = launch->n_chunks;
    s2_load_class *const classes = S2_NEW(arena, s2_load_class, (int64_t)step->n_parts + 1);
    s2_wave *const once = S2_NEW(arena, s2_wave, 1);
    if (classes == NULL || once == NULL)
        return S2_ENOMEM;
    s2_kernel_load load = {.pass = S2_PASS_DECODE,
                           .dtype = dtype,
                           .head_dim = d,
                           .rows = S2_DECODE_SLAB_TOK,
                           .key_tok = S2_DECODE_SLAB_TOK,
                           .n_subs = tiles + 1,
                           .wide = tiles == WIDE_TILES,
                           .even_group = group % 2 == 0,
                           .arithmetic = step->n_masks == 0,
                           .n_items = (int64_t)step->n_parts * n_chunks,
                           .n_steps = (int64_t)step->n_slabs * n_chunks,
                           .classes = classes,
                           .n_generations = 1,
                           .generations = once,
                           .pairs = step_pairs(of)};
    note_extent(plan, longest_step(plan), &load);
    for (int32_t part = 0; part < step->n_parts; part++) {
        s2_load_class made = part_class(of, &step->parts[part], tiles == WIDE_TILES, 8 * tiles);
        made.n_items = n_chunks;
        add_class(&load, classes, &made);
    }
    load.merges = s2_decode_launch_merges(launch, step);
    load.trips = s2_decode_launch_trips(launch, step, load.merges);
    load.long_trips = s2_decode_launch_long_trips(launch, step, load.merges);
    load.left_bytes = load.merges ? left_bytes(launch, step, d) : 0;
    load.sum_blocks = load.merges ? (double)s2_decode_launch_blocks(launch, step) : 0;
    load.amid = beyond_row(d * plan->options.elem_bytes);
    const double rows = (double)step->n_lists * longest_step(plan) * group;
    load.flop = 4.0 * d * 8 * tiles * S2_DECODE_SLAB_TOK * (double)load.n_steps;
    load.q_bytes = rows * d * plan->options.elem_bytes;
    load.out_bytes = rows * (d * 2.0 + 4);
    load.kv_bytes = once->distinct = 2.0 * d * plan->options.elem_bytes * S2_DECODE_SLAB_TOK * step->n_slabs;
    /* what parts write for one another is read back from L2 in fp32 */
    const double shared =
        step->n_parts > step->n_lists ? (double)step->n_parts * 8 * tiles * n_chunks * d * 4 : 0;
    load.load_bytes = load.whole_bytes = load.kv_bytes * n_chunks + load.q_bytes + shared;
    *out = load;
    return S2_OK;
}

s2_status s2_load_of_step(s2_arena *arena, const s2_plan *plan, s2_dtype dtype, s2_chip chip,
                          s2_kernel_load *out)
{
    s2_decode_launch launch = s2_decode_launch_of(chip, plan, plan->pattern->head_dim, false, false);
    s2_load_step of = {.plan = plan};
    S2_TRY(s2_decode_plan_build(arena, plan, NULL, launch.n_parts, &of.step, NULL));
    return load_step(arena, &of, &launch, dtype, out);
}

s2_status s2_load_count_lists(s2_arena *scratch, const s2_plan *plan, s2_load_list *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_decode_plan step;
    S2_TRY(s2_decode_plan_build(scratch, plan, NULL, 1, &step, NULL));
    for (int32_t list_no = 0; list_no < step.n_lists; list_no++) {
        const s2_decode_list *const list = &step.lists[list_no];
        s2_load_list *const own = &out[list_no];
        *own = (s2_load_list){.k_tok = plan->seqs[list->seq].k_tok,
                              .n_slabs = list->slab_end - list->slab_begin,
                              .n_pairs = list_pairs(&step, list)};
        for (int32_t slab = list->slab_begin; slab < list->slab_end; slab++)
            own->n_fine += step.slabs[slab].mask >= 0;
    }
    s2_arena_rewind(scratch, mark);
    return S2_OK;
}

/* The step of a plan that was never made: lists without slabs. */
static s2_status put_lists(s2_arena *arena, const s2_pattern *pattern, const s2_load_list *counted,
                           int32_t n_seqs, s2_decode_plan *out)
{
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    const int64_t n_lists = (int64_t)n_seqs * pattern->n_kv_heads;
    s2_decode_list *const lists = n_lists <= INT32_MAX ? S2_NEW(arena, s2_decode_list, n_lists) : NULL;
    int64_t n_slabs = 0;
    if (lists == NULL)
        return S2_ENOMEM;
    *out = (s2_decode_plan){.group = group, .n_lists = (int32_t)n_lists, .lists = lists};
    for (int32_t list_no = 0; list_no < out->n_lists; list_no++) {
        const int64_t end = n_slabs + counted[list_no].n_slabs;
        if (end > INT32_MAX)
            return S2_EUNSUPPORTED;
        lists[list_no] = (s2_decode_list){.slab_begin = (int32_t)n_slabs,
                                          .slab_end = (int32_t)end,
                                          .seq = list_no / pattern->n_kv_heads,
                                          .kv_head = list_no % pattern->n_kv_heads,
                                          .n_rows = group};
        out->n_masks += counted[list_no].n_fine > 0;
        n_slabs = end;
    }
    out->n_slabs = (int32_t)n_slabs;
    return S2_OK;
}

s2_status s2_load_of_lists(s2_arena *arena, const s2_pattern *pattern, const s2_load_list *lists,
                           int32_t n_seqs, s2_dtype dtype, s2_chip chip, s2_kernel_load *out)
{
    s2_plan_seq *const seqs = S2_NEW(arena, s2_plan_seq, n_seqs);
    if (seqs == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < n_seqs; seq++)
        seqs[seq] = (s2_plan_seq){1, lists[(int64_t)seq * pattern->n_kv_heads].k_tok};
    const s2_plan plan = {.pattern = pattern,
                          .options.elem_bytes = (int32_t)s2_dtype_bytes(dtype),
                          .n_seqs = n_seqs,
                          .seqs = seqs};
    s2_decode_launch launch = s2_decode_launch_of(chip, &plan, pattern->head_dim, false, false);
    s2_load_step of = {.plan = &plan, .counted = lists};
    S2_TRY(put_lists(arena, pattern, lists, n_seqs, &of.step));
    S2_TRY(s2_decode_plan_split(arena, launch.n_parts, &of.step));
    return load_step(arena, &of, &launch, dtype, out);
}
