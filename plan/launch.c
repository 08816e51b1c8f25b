#include "plan/launch.h"

#include <string.h>

#include "plan/internal.h"

/*
 * Measured on an H200 (docs/notes/kernels.md, the ladder of the gradients). Columns of long contexts that run
 * at the same time read the same queries while these are in the cache; parts at absolute positions keep them
 * together. The same holds at any length for grouped heads that add to dQ. Other short contexts need
 * balance: the longest first, cut where a column is longer than its share.
 */
static const s2_column_rule split_columns = {
    .short_tok = 16384,
    .long_tok = 65536,
    .part_steps = {[S2_COLUMN_GROUPED] = {S2_COLUMN_BALANCED, 128, 128},
                   [S2_COLUMN_DENSE] = {S2_COLUMN_BALANCED, 0, 64},
                   [S2_COLUMN_SPARSE] = {S2_COLUMN_BALANCED, 0, 64}},
    .halves = 1,
    .costs = {.half = 0.8, .change = 0.3, .sum = 0.65, .worth = 0.98},
};
static const s2_column_rule fused_columns = {
    .short_tok = 16384,
    .long_tok = 65536,
    .part_steps = {[S2_COLUMN_GROUPED] = {32, 32, 128},
                   [S2_COLUMN_DENSE] = {192, 192, 384},
                   [S2_COLUMN_SPARSE] = {0, 64, 64}},
    .halves = INT32_MAX,
    .window_edges = true,
};

/*
 * Columns that add to dQ in turns. One KV head at a time, or those in flight would be too far apart in its
 * queries to find them in the cache.
 */
static const s2_column_rule ordered_columns = {
    .section_heads = 1,
    .in_order = true,
    .window_edges = true,
};

/*
 * Work of a part, which adds in turns. Two parts wait for one another, so the longest column has four at least or
 * stays whole. Parts of as much work as the longest column has steps queue least behind the first tile of a part; more
 * than 384 leave the cache.
 */
static int32_t ordered_part_steps(int32_t longest_tok, int32_t group)
{
    const int64_t steps = s2_ceil_div(longest_tok, S2_COLUMN_STEP_TOK), least = group > 1 ? 96 : 256;
    const int64_t wish = s2_min_i64(s2_min_i64(steps, steps * group / 4), 384);
    if (wish < least)
        return 0;
    const int64_t parts = steps * group / wish;
    return (int32_t)(s2_ceil_div(steps, parts) * group);
}

const s2_kernel_traits s2_traits_ref_f64 = {
    .name = "ref_f64", .rank = 0, .tile_tok = 16, .pack_heads = 1, .key_tok = 128, .wide_key_tok = 128};
const s2_kernel_traits s2_traits_cpu = {
    .name = "cpu", .rank = 10, .tile_tok = 64, .pack_heads = 1, .key_tok = 64, .wide_key_tok = 64};
const s2_kernel_traits s2_traits_cpu_bwd = {.name = "cpu_bwd",
                                            .rank = 5,
                                            .tile_tok = 64,
                                            .pack_heads = 1,
                                            .key_tok = 64,
                                            .wide_key_tok = 64,
                                            .column_tok = 64};
/* Decode kernels ignore items: the tile only has to be one that every pattern can be cut into. */
const s2_kernel_traits s2_traits_cpu_decode = {.name = "cpu_decode",
                                               .rank = 9,
                                               .tile_tok = S2_PLAN_SLAB_TOK,
                                               .pack_heads = 1,
                                               .key_tok = 64,
                                               .wide_key_tok = 64,
                                               .decode_parts = 32}; /* the bits of a result depend on it */
const s2_kernel_traits s2_traits_decode = {.name = "decode",
                                           .rank = 79,
                                           .tile_tok = S2_PLAN_SLAB_TOK,
                                           .pack_heads = 1,
                                           .key_tok = 64,
                                           .wide_key_tok = 64,
                                           .dim_step = 8,
                                           .most_dim = 256,
                                           .first_chip = 80,
                                           .large_chips = true};
/* The instance of `decode` for wide steps on Hopper (kernels/cuda/decode_sm90.cuh), which has constants of its own. */
const s2_kernel_traits s2_traits_decode_wide = {.name = "decode_wide",
                                                .rank = 78,
                                                .tile_tok = S2_PLAN_SLAB_TOK,
                                                .pack_heads = 1,
                                                .key_tok = 64,
                                                .wide_key_tok = 64,
                                                .dim_step = 8,
                                                .most_dim = 256,
                                                .first_chip = 90,
                                                .last_chip = 90,
                                                .wide_steps = true};
const s2_kernel_traits s2_traits_sm80 = {.name = "sm80",
                                         .rank = 80,
                                         .tile_tok = 64,
                                         .pack_heads = 1,
                                         .key_tok = 64,
                                         .wide_key_tok = 64,
                                         .section_bytes = S2_SECTION_BYTES,
                                         .dim_step = 8,
                                         .most_dim = 256,
                                         .first_chip = 80};
const s2_kernel_traits s2_traits_sm90 = {.name = "sm90",
                                         .rank = 90,
                                         .tile_tok = 128,
                                         .tile_rows = 128,
                                         .pack_heads = 2,
                                         .key_tok = 64,
                                         .wide_key_tok = 32,
                                         .section_bytes = S2_SECTION_BYTES,
                                         .halves_tok = 64,
                                         .dim_step = 8,
                                         .most_dim = 256,
                                         .first_chip = 90,
                                         .last_chip = 90};
const s2_kernel_traits s2_traits_sm90_window = {.name = "sm90_window",
                                                .rank = 92,
                                                .tile_tok = 64,
                                                .pack_heads = 8,
                                                .key_tok = 64,
                                                .wide_key_tok = 64,
                                                .dim_step = 8,
                                                .most_dim = 64,
                                                .first_chip = 90,
                                                .last_chip = 90,
                                                .short_windows = true};
const s2_kernel_traits s2_traits_sm90_e4m3 = {.name = "sm90_e4m3",
                                              .rank = 91,
                                              .tile_tok = 128,
                                              .tile_rows = 128,
                                              .pack_heads = 2,
                                              .key_tok = 64,
                                              .wide_key_tok = 64,
                                              .section_bytes = S2_SECTION_BYTES,
                                              .halves_tok = 64,
                                              .dim_step = 16,
                                              .most_dim = 128,
                                              .first_chip = 90,
                                              .last_chip = 90,
                                              .eight_bits = true};
/* sm90 over lists: it is given the plan of a dense layer (sim/load.c). */
static const s2_kernel_traits traits_sm90_lists = {.name = "sm90_lists",
                                                   .rank = 89,
                                                   .tile_tok = 128,
                                                   .tile_rows = 128,
                                                   .pack_heads = 2,
                                                   .key_tok = 64,
                                                   .wide_key_tok = 32,
                                                   .section_bytes = S2_SECTION_BYTES,
                                                   .halves_tok = 64,
                                                   .dim_step = 8,
                                                   .most_dim = 256,
                                                   .first_chip = 90,
                                                   .last_chip = 90,
                                                   .listed = true};
const s2_kernel_traits s2_traits_sm80_bwd = {.name = "sm80_bwd",
                                             .rank = 41,
                                             .tile_tok = 64,
                                             .pack_heads = 1,
                                             .key_tok = 64,
                                             .wide_key_tok = 64,
                                             .section_bytes = S2_SECTION_BYTES,
                                             .column_tok = 64,
                                             .dim_step = 8,
                                             .most_dim = 256,
                                             .small_dim = 128,
                                             .first_chip = 80};
const s2_kernel_traits s2_traits_sm90_bwd = {.name = "sm90_bwd",
                                             .rank = 48,
                                             .tile_tok = 128,
                                             .pack_heads = 1,
                                             .key_tok = 64,
                                             .wide_key_tok = 32,
                                             .section_bytes = S2_SECTION_BYTES,
                                             .halves_tok = 64,
                                             .column_tok = 128,
                                             .cuts = &split_columns,
                                             .joint_dim = 128,
                                             .dim_step = 8,
                                             .most_dim = 256,
                                             .first_chip = 90,
                                             .last_chip = 90};
const s2_kernel_traits s2_traits_sm90_bwd_window = {.name = "sm90_bwd_window",
                                                    .rank = 50,
                                                    .tile_tok = 64,
                                                    .pack_heads = 1,
                                                    .key_tok = 64,
                                                    .wide_key_tok = 64,
                                                    .column_tok = 64,
                                                    .dim_step = 8,
                                                    .most_dim = 64,
                                                    .first_chip = 90,
                                                    .last_chip = 90,
                                                    .short_windows = true};
const s2_kernel_traits s2_traits_sm90_bwd_fused = {.name = "sm90_bwd_fused",
                                                   .rank = 45,
                                                   .tile_tok = 128,
                                                   .pack_heads = 1,
                                                   .key_tok = 64,
                                                   .wide_key_tok = 64,
                                                   .section_bytes = S2_SECTION_BYTES,
                                                   .column_tok = 128,
                                                   .cuts = &fused_columns,
                                                   .dim_step = 8,
                                                   .most_dim = 128,
                                                   .first_chip = 90,
                                                   .last_chip = 90};

const s2_kernel_traits s2_traits_sm90_bwd_ordered = {.name = "sm90_bwd_ordered",
                                                     .rank = 49,
                                                     .tile_tok = 128,
                                                     .pack_heads = 1,
                                                     .key_tok = 64,
                                                     .wide_key_tok = 64,
                                                     .section_bytes = S2_SECTION_BYTES,
                                                     .column_tok = 128,
                                                     .cuts = &ordered_columns,
                                                     .dim_step = 8,
                                                     .least_dim = 104,
                                                     .most_dim = 128,
                                                     .least_tok = 4096,
                                                     .first_chip = 90,
                                                     .last_chip = 90};

static const s2_kernel_traits *const all_traits[] = {&s2_traits_ref_f64,
                                                     &s2_traits_cpu,
                                                     &s2_traits_cpu_bwd,
                                                     &s2_traits_cpu_decode,
                                                     &s2_traits_decode,
                                                     &s2_traits_decode_wide,
                                                     &s2_traits_sm80,
                                                     &s2_traits_sm90,
                                                     &s2_traits_sm90_e4m3,
                                                     &traits_sm90_lists,
                                                     &s2_traits_sm80_bwd,
                                                     &s2_traits_sm90_bwd,
                                                     &s2_traits_sm90_bwd_fused,
                                                     &s2_traits_sm90_window,
                                                     &s2_traits_sm90_bwd_window,
                                                     &s2_traits_sm90_bwd_ordered};

const s2_kernel_traits *s2_kernel_traits_find(const char *name)
{
    for (size_t index = 0; index < sizeof all_traits / sizeof *all_traits; index++)
        if (strcmp(all_traits[index]->name, name) == 0)
            return all_traits[index];
    return NULL;
}

bool s2_kernel_is_special(const s2_kernel_traits *traits)
{
    return traits->eight_bits || traits->listed || traits->short_windows || traits->wide_steps;
}

/* The consumer parts of each generation. */
static bool is_small(int32_t capability)
{
    return (capability > 80 && capability < 90) || capability >= 120;
}

bool s2_kernel_runs_on(const s2_kernel_traits *traits, int32_t capability)
{
    return capability >= traits->first_chip && (traits->last_chip == 0 || capability <= traits->last_chip) &&
           !(traits->large_chips && is_small(capability));
}

int32_t s2_kernel_most_dim(const s2_kernel_traits *traits, int32_t capability)
{
    return traits->small_dim > 0 && is_small(capability) ? traits->small_dim : traits->most_dim;
}

bool s2_kernel_takes_dim(const s2_kernel_traits *traits, int32_t capability, int32_t head_dim)
{
    const int32_t most = s2_kernel_most_dim(traits, capability);
    return head_dim >= traits->least_dim && (most == 0 || head_dim <= most) &&
           (traits->dim_step == 0 || head_dim % traits->dim_step == 0);
}

int32_t s2_kernel_least_tok(const s2_kernel_traits *traits, int32_t group)
{
    /* Whole columns of larger groups end too far apart, and only longer ones are worth parts. */
    return group <= 2 ? traits->least_tok : 2 * traits->least_tok;
}

bool s2_kernel_takes_lengths(const s2_kernel_traits *traits, const s2_plan *plan)
{
    const int32_t least_tok = s2_kernel_least_tok(traits, plan->pattern->n_heads / plan->pattern->n_kv_heads);
    bool takes = true;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        takes = takes && plan->seqs[seq].k_tok >= least_tok;
    return takes;
}

int32_t s2_kernel_least_window(int32_t group)
{
    return group == 1 ? 256 : 512;
}

bool s2_kernel_follows(const s2_plan *plan)
{
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads;
    return s2_plan_reads_all(plan) ||
           (s2_plan_is_whole(plan) && s2_plan_window(plan) >= s2_kernel_least_window(group));
}

/* ------------------------------------------------------------------ prefill and gradients */

int32_t s2_kernel_column_passes(const s2_kernel_traits *traits, int32_t head_dim)
{
    return traits != NULL && traits->joint_dim > 0 && head_dim > traits->joint_dim ? 2 : 1;
}

s2_plan_options s2_kernel_cut(const s2_kernel_traits *traits, int32_t head_dim)
{
    s2_plan_options options = s2_plan_options_default();
    options.tile_tok = traits->tile_tok;
    options.tile_rows = traits->tile_rows;
    options.pack_heads = traits->pack_heads;
    options.key_tok = head_dim > 128 ? traits->wide_key_tok : traits->key_tok;
    options.section_bytes = traits->section_bytes;
    return options;
}

bool s2_kernel_halves(const s2_kernel_traits *traits, int32_t key_tok)
{
    return traits != NULL && key_tok <= traits->halves_tok;
}

s2_plan_column_options s2_kernel_columns(const s2_kernel_traits *traits, const s2_plan *plan, int32_t n_units)
{
    const int32_t wanted = traits != NULL ? traits->column_tok : plan->options.key_tok;
    const int32_t key_tok = s2_min_i32(wanted, plan->blk_tok * S2_COLUMN_LIMIT_SUBS);
    if (traits == NULL || traits->cuts == NULL)
        return (s2_plan_column_options){.key_tok = key_tok};
    const s2_column_rule *const rule = traits->cuts;
    const int32_t k_tok = s2_plan_longest(plan->seqs, plan->n_seqs);
    const bool is_short = k_tok < rule->short_tok;
    const int32_t length = is_short ? 0 : k_tok > rule->long_tok ? 2 : 1;
    const s2_column_heads heads = plan->pattern->n_heads > plan->pattern->n_kv_heads   ? S2_COLUMN_GROUPED
                                  : 2 * plan->counts.pairs > plan->counts.pairs_causal ? S2_COLUMN_DENSE
                                                                                       : S2_COLUMN_SPARSE;
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads;
    const int32_t window = rule->window_edges ? s2_plan_window(plan) : 0,
                  longest = window > 0 ? s2_min_i32(k_tok, window + key_tok) : k_tok;
    const int32_t part_steps =
        rule->in_order || window > 0 ? ordered_part_steps(longest, group) : rule->part_steps[heads][length];
    return (s2_plan_column_options){.key_tok = key_tok,
                                    .part_steps = part_steps,
                                    .units = n_units,
                                    .wave = is_short && part_steps <= 0 ? 0 : n_units,
                                    .section_heads = rule->section_heads,
                                    .halves = rule->halves,
                                    .in_order = rule->in_order,
                                    .window_edges = window > 0,
                                    .costs = rule->costs};
}

/* ------------------------------------------------------------------ gradients of short windows */

int32_t s2_window_ranges(const s2_plan *plan, int32_t seq, int32_t longest)
{
    const int32_t n = s2_window_units(plan, seq), wanted = (int32_t)s2_ceil_div(n, longest),
                  most = n / S2_WINDOW_LEAST_RANGE;
    return s2_max_i32(1, s2_min_i32(wanted, most));
}

static int64_t count_ranges(const s2_plan *plan, int32_t longest)
{
    int64_t n = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n += (int64_t)s2_window_ranges(plan, seq, longest) * plan->pattern->n_kv_heads;
    return n;
}

int32_t s2_window_longest_range(const s2_plan *plan, int32_t n_blocks)
{
    int32_t low = 1, high = 1;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        high = s2_max_i32(high, s2_window_units(plan, seq));
    const int64_t slots = s2_round_up(count_ranges(plan, high), n_blocks);
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (count_ranges(plan, middle) <= slots)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ------------------------------------------------------------------ decode */

enum { TILE_ROWS = 8, FEW_ROW_TILES = 2 };

/*
 * Lists of up to 8 rows can leave their parts to a launch of their own too, by the instance for 16 rows. The launch
 * takes as long as a trip, and four slabs of a part take that much longer there (docs/results/h200-few-lists.jsonl).
 * Before Hopper, where no launch begins before the one before it has ended, it was not measured.
 */
enum { LAUNCH_TRIPS = 1, TRIP_SLABS = 4 };

/* What an SM could read in the time that it takes a block of threads to go from one list to the next. */
enum { LIST_BYTES = 48 << 10 };

static int32_t row_cap_of(const s2_plan *plan)
{
    int32_t q_tok = 1;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        q_tok = s2_max_i32(q_tok, plan->seqs[seq].q_tok);
    return (int32_t)s2_round_up((int64_t)q_tok * plan->pattern->n_heads / plan->pattern->n_kv_heads,
                                TILE_ROWS);
}

/* As many tiles as the registers of a kernel instance hold; Hopper's wide one has eight, and reads no e4m3. */
static int32_t row_tiles_of(s2_chip chip, int32_t row_cap, int32_t head_dim, bool e4m3)
{
    if (row_cap <= TILE_ROWS)
        return 1;
    if (row_cap <= FEW_ROW_TILES * TILE_ROWS)
        return FEW_ROW_TILES;
    return chip.capability == 90 && !e4m3 ? 8 : head_dim > 128 ? 2 : 4;
}

/*
 * Steps run two blocks per SM where it holds two, so that enough is in flight, unless one costs less: there are fewer
 * parts to combine, and the next launch takes the room of the second block and fills its rings while this one combines
 * and ends.
 */
s2_decode_launch s2_decode_launch_of(s2_chip chip, const s2_plan *plan, int32_t head_dim, bool selects,
                                     bool e4m3)
{
    const int32_t row_cap = row_cap_of(plan), row_tiles = row_tiles_of(chip, row_cap, head_dim, e4m3);
    const int32_t n_chunks = (int32_t)s2_ceil_div(row_cap, (int64_t)TILE_ROWS * row_tiles);
    const int32_t residents = head_dim <= 128 && chip.capability >= 90 ? 2 : 1;
    const int32_t single_parts = s2_max_i32(1, chip.n_units / n_chunks);
    return (s2_decode_launch){
        .row_tiles = row_tiles,
        .many_rows = row_cap > FEW_ROW_TILES * TILE_ROWS && !selects,
        .n_chunks = n_chunks,
        .residents = residents,
        .n_parts = s2_max_i32(1, chip.n_units * residents / n_chunks),
        .single_parts = single_parts,
        .trip_parts = head_dim <= S2_DECODE_TRIP_DIM ? S2_DECODE_TRIP_PARTS : S2_DECODE_TRIP_PARTS_WIDE,
        .row_trips = head_dim <= S2_DECODE_TRIP_DIM ? 1 : 2,
        .list_slabs = s2_max_i32(1, LIST_BYTES / (head_dim * (e4m3 ? 1 : 2) * 2 * S2_DECODE_SLAB_TOK)),
        .may_merge = chip.capability >= 90};
}

/* Trips of a warp that adds up so many parts of a list, each with all of its rows, but for the last `without` parts. */
static int32_t most_trips(const s2_decode_launch *launch, const s2_decode_plan *step, bool merges,
                          int32_t without)
{
    const int32_t chunk_rows = launch->row_tiles * TILE_ROWS;
    int64_t most = 0;
    for (int32_t list_no = 0; list_no < step->n_lists; list_no++) {
        const s2_decode_list *const list = &step->lists[list_no];
        const int32_t n_parts = list->n_parts < 2 ? 0 : s2_max_i32(list->n_parts - without, 0);
        const int64_t n_rows =
            merges ? 1 : s2_ceil_div(s2_min_i32(list->n_rows, chunk_rows), S2_DECODE_WARPS);
        most = s2_max_i64(most, n_rows * launch->row_trips * s2_ceil_div(n_parts, launch->trip_parts));
    }
    return (int32_t)most;
}

int32_t s2_decode_launch_trips(const s2_decode_launch *launch, const s2_decode_plan *step, bool merges)
{
    return most_trips(launch, step, merges, 0);
}

int32_t s2_decode_launch_long_trips(const s2_decode_launch *launch, const s2_decode_plan *step, bool merges)
{
    return most_trips(launch, step, merges, S2_DECODE_SHORT_TRIP);
}

static int32_t most_slabs(const s2_decode_plan *plan)
{
    int32_t most = 0;
    for (int32_t part = 0; part < plan->n_parts; part++)
        most = s2_max_i32(most, plan->parts[part].slab_end - plan->parts[part].slab_begin);
    return most;
}

/* Lists that the part with the most of them reads. */
static int32_t most_lists(const s2_decode_plan *plan)
{
    int32_t most = 0, n = 0, part = -1;
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++) {
        const s2_decode_list *const list = &plan->lists[list_no];
        if (list->slab_begin == list->slab_end)
            continue;
        n = list->first_part == part ? n + 1 : 1;
        most = s2_max_i32(most, n);
        if (list->n_parts > 1)
            n = 1; /* in the last part */
        part = list->first_part + list->n_parts - 1;
    }
    return most;
}

static bool is_merging_faster(const s2_decode_launch *launch, const s2_decode_plan *plan)
{
    const int32_t saved =
        s2_decode_launch_trips(launch, plan, false) - s2_decode_launch_trips(launch, plan, true);
    return (saved - LAUNCH_TRIPS) * TRIP_SLABS > most_slabs(plan);
}

/* The cut of a step into parts: what s2_decode_plan_split() changes. */
static s2_status copy_cut(s2_arena *arena, const s2_decode_plan *plan, s2_decode_plan *out)
{
    *out = *plan;
    out->lists = S2_NEW(arena, s2_decode_list, plan->n_lists);
    if (out->lists == NULL)
        return S2_ENOMEM;
    memcpy(out->lists, plan->lists, (size_t)plan->n_lists * sizeof *plan->lists);
    return S2_OK;
}

static void take_cut(const s2_decode_plan *cut, s2_decode_plan *plan)
{
    memcpy(plan->lists, cut->lists, (size_t)plan->n_lists * sizeof *plan->lists);
    plan->parts = cut->parts;
    plan->n_parts = cut->n_parts;
}

/*
 * What a cut takes, in tenths of a slab: two blocks of an SM have about half of its bandwidth each, one alone cannot
 * use all of it. A part that reads on when others are done has their bandwidth, up to twice its own: a quarter of what
 * it has more than the mean counts. Each list of a part costs what list_slabs slabs do, and each trip of whoever adds
 * up that `trip` times. Chosen by 361 steps that were timed with each of these cuts (docs/notes/kernels.md).
 */
static int64_t cost_of(const s2_decode_launch *launch, const s2_decode_plan *plan, int32_t trip)
{
    enum { ALONE = 11, SHARED = 19, TENTHS = 10 };
    const int32_t trips = s2_decode_launch_trips(launch, plan, s2_decode_launch_merges(launch, plan));
    const int64_t slab = plan->n_parts > launch->single_parts ? SHARED : ALONE, most = most_slabs(plan);
    return s2_max_i64(slab * (3 * plan->n_slabs / plan->n_parts + most) / 4, slab * most / 2) +
           ((int64_t)most_lists(plan) + trip * trips) * launch->list_slabs * TENTHS;
}

/*
 * With many rows one block an SM leaves bandwidth unused however short the step: two are up to three times as fast, but
 * where adding up twice the parts takes longer than half of the slabs of a part (docs/notes/kernels.md).
 */
static int32_t many_rows_cost(const s2_decode_launch *launch, const s2_decode_plan *plan)
{
    return most_slabs(plan) + TRIP_SLABS * s2_decode_launch_trips(launch, plan, true);
}

/*
 * In a short step the next launch begins meanwhile where one block has an SM: each of a part's first slabs then costs
 * EARLY tenths less, since some of them have come before it, and trips of two blocks cost more than they take.
 */
static bool is_single_better(const s2_decode_launch *launch, const s2_decode_plan *single,
                             const s2_decode_plan *plan)
{
    enum { SHORT_SLABS = 128, TRIP_OF_SHORT = 3, EARLY_SLABS = 20, EARLY = 3 };
    const bool is_short = plan->n_slabs <= (int64_t)SHORT_SLABS * launch->single_parts;
    const int32_t trip = is_short ? TRIP_OF_SHORT : 1,
                  early = is_short ? EARLY * s2_min_i32(most_slabs(single), EARLY_SLABS) : 0;
    return launch->many_rows ? many_rows_cost(launch, single) <= many_rows_cost(launch, plan)
                             : cost_of(launch, single, trip) - early < cost_of(launch, plan, trip);
}

/* One block an SM. */
static s2_status try_single(s2_arena *arena, const s2_decode_launch *launch, s2_decode_plan *plan)
{
    s2_decode_plan single;
    S2_TRY(copy_cut(arena, plan, &single));
    S2_TRY(s2_decode_plan_split(arena, launch->single_parts, &single));
    if (is_single_better(launch, &single, plan))
        take_cut(&single, plan);
    return S2_OK;
}

/* Whole lists, whose parts nobody adds up. */
static s2_status try_whole(s2_arena *arena, const s2_decode_launch *launch, s2_decode_plan *plan)
{
    s2_decode_plan whole;
    S2_TRY(copy_cut(arena, plan, &whole));
    S2_TRY(s2_decode_plan_split_whole(arena, launch->n_parts, launch->list_slabs, &whole));
    if (cost_of(launch, &whole, 1) < cost_of(launch, plan, 1))
        take_cut(&whole, plan);
    return S2_OK;
}

s2_status s2_decode_launch_fit(s2_arena *arena, s2_decode_launch *launch, s2_decode_plan *plan)
{
    if (launch->may_merge && plan->n_slabs > 0) {
        S2_TRY(try_single(arena, launch, plan));
        S2_TRY(try_whole(arena, launch, plan));
    }
    if (launch->row_tiles == 1 && launch->may_merge && is_merging_faster(launch, plan))
        launch->row_tiles = 2;
    return S2_OK;
}

bool s2_decode_launch_merges(const s2_decode_launch *launch, const s2_decode_plan *step)
{
    bool cut = false;
    for (int32_t list = 0; list < step->n_lists; list++)
        cut = cut || step->lists[list].n_parts > 1;
    return cut && launch->row_tiles > 1;
}

int64_t s2_decode_launch_fetches(const s2_decode_launch *launch, const s2_decode_plan *step)
{
    int64_t n = 0;
    for (int32_t list_no = 0; list_no < step->n_lists; list_no++) {
        const s2_decode_list *const list = &step->lists[list_no];
        for (int32_t left = list->n_parts > 1 ? list->n_parts : 0; left > 0; left -= launch->trip_parts)
            n += (int64_t)list->n_rows *
                 (left <= S2_DECODE_SHORT_TRIP ? S2_DECODE_SHORT_TRIP : launch->trip_parts);
    }
    return n;
}

int32_t s2_decode_launch_list_blocks(const s2_decode_launch *launch, const s2_decode_plan *step)
{
    int32_t n_rows = 1;
    for (int32_t list = 0; list < step->n_lists; list++)
        n_rows = s2_max_i32(n_rows, step->lists[list].n_rows);
    return (int32_t)s2_ceil_div(s2_min_i32(n_rows, launch->row_tiles * TILE_ROWS), S2_DECODE_WARPS);
}

int64_t s2_decode_launch_blocks(const s2_decode_launch *launch, const s2_decode_plan *step)
{
    return (int64_t)step->n_lists * s2_decode_launch_list_blocks(launch, step) * launch->n_chunks;
}

bool s2_decode_launch_leaves_room(s2_chip chip, const s2_decode_launch *launch, int32_t n_parts)
{
    return launch->residents > 1 && n_parts * launch->n_chunks <= chip.n_units;
}

int32_t s2_select_blocks(int32_t n_units, int32_t n_lists, int32_t n_pages, int32_t block_pages)
{
    return s2_min_i32(s2_max_i32(1, n_units / n_lists), (int32_t)s2_ceil_div(n_pages, block_pages));
}
