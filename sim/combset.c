#include "sim/combset.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/arith.h"

void s2_combset_clear(s2_combset *set)
{
    set->n_combs = 0;
}

void s2_combset_release(s2_combset *set)
{
    s2_free(set->combs);
    *set = (s2_combset){.work_left = set->work_left};
}

void s2_combset_add(s2_combset *set, const s2_comb *comb)
{
    if (comb->begin >= comb->end || set->failed || !s2_work_spend(set->work_left, 1))
        return;
    set->failed = S2_RESERVE(set->combs, set->cap, set->n_combs + 1) != S2_OK;
    if (!set->failed)
        set->combs[set->n_combs++] = *comb;
}

void s2_combset_add_range(s2_combset *set, int64_t begin, int64_t end)
{
    s2_combset_add(set, &(s2_comb){begin, end, 1, 1, 1, 0});
}

static int64_t tile_ceil(int64_t x, int64_t tile)
{
    return x / tile + (x % tile != 0);
}

/* Tiles of each run; runs whose tiles meet are joined, or a fine stride would need a range per key. */
static void add_tiles_by_runs(s2_combset *set, const s2_comb *comb, int64_t tile_tok)
{
    int64_t begin = 0, past = 0;
    for (int64_t x = s2_comb_next(comb, 0); x != S2_OPEN && s2_work_spend(set->work_left, 1);) {
        const int64_t end = s2_comb_run_end(comb, x);
        if (x / tile_tok > past) {
            s2_combset_add_range(set, begin, past);
            begin = x / tile_tok;
        }
        past = tile_ceil(end, tile_tok);
        x = s2_comb_next(comb, end);
    }
    s2_combset_add_range(set, begin, past);
}

/* A tile that [begin, end) cuts: it counts if an element is in the part inside. */
static void add_cut_tile(s2_combset *set, const s2_comb *comb, int64_t tile, int64_t tile_tok)
{
    const int64_t x = s2_comb_next(comb, tile * tile_tok);
    if (x != S2_OPEN && x / tile_tok == tile)
        s2_combset_add_range(set, tile, tile + 1);
}

/* The two tiles that the ends of a comb cut; tiles between them are whole. */
static void add_cut_tiles(s2_combset *set, const s2_comb *comb, int64_t tile_tok)
{
    if (comb->begin % tile_tok != 0)
        add_cut_tile(set, comb, comb->begin / tile_tok, tile_tok);
    if (comb->end % tile_tok != 0)
        add_cut_tile(set, comb, comb->end / tile_tok, tile_tok);
}

/*
 * Tiles of m groups each, of a period that m does not divide: together they repeat after period / gcd tiles,
 * in which m / gcd runs begin. Each of these is a comb of tiles.
 */
static void add_tiles_of_cycle(s2_combset *set, const s2_comb *comb, int64_t tile_tok)
{
    const int64_t m = tile_tok / comb->gran, common = s2_gcd(comb->period, m);
    const int64_t n_tiles = comb->period / common, n_groups = n_tiles * m;
    const int64_t begin = tile_ceil(comb->begin, tile_tok), end = comb->end / tile_tok;
    for (int64_t run = 0; run < m / common; run++) {
        const int64_t first = ((run + 1) * comb->period - comb->shift) % n_groups;
        const int64_t tile = first / m, width = (first + comb->width - 1) / m - tile + 1;
        const bool always = width >= n_tiles;
        s2_combset_add(set, &(s2_comb){begin, end, 1, always ? 1 : n_tiles, always ? 1 : width,
                                       always ? 0 : (n_tiles - tile) % n_tiles});
    }
    add_cut_tiles(set, comb, tile_tok);
}

/*
 * Tiles of m groups each. Tile b holds groups mb .. mb+m-1, so it is touched when
 * (mb + shift + m-1) mod period < width + m-1; with m dividing the period this is again a comb.
 */
static void add_tiles_of_groups(s2_combset *set, const s2_comb *comb, int64_t tile_tok)
{
    const int64_t m = tile_tok / comb->gran, reach = comb->width + m - 1;
    const bool always = reach >= comb->period;
    if (!always && comb->period % m != 0) {
        const int64_t n_runs = (comb->end - comb->begin) / (comb->gran * comb->period);
        const bool few = n_runs <= m / s2_gcd(comb->period, m);
        (few ? add_tiles_by_runs : add_tiles_of_cycle)(set, comb, tile_tok);
        return;
    }
    const int64_t begin = tile_ceil(comb->begin, tile_tok), end = comb->end / tile_tok;
    const int64_t shift = comb->shift + m - 1, period = always ? 1 : comb->period / m;
    const int64_t width = always ? 1 : s2_ceil_div(reach - shift % m, m);
    s2_combset_add(set, &(s2_comb){begin, end, 1, period, width, shift / m % period});
    add_cut_tiles(set, comb, tile_tok);
}

void s2_combset_add_tiles(s2_combset *set, const s2_comb *comb, int64_t tile_tok)
{
    if (comb->begin >= comb->end)
        return;
    const int64_t begin = comb->begin / tile_tok, end = tile_ceil(comb->end, tile_tok);
    if (s2_comb_is_interval(comb))
        s2_combset_add_range(set, begin, end);
    else if (comb->gran % tile_tok == 0)
        s2_combset_add(set,
                       &(s2_comb){begin, end, comb->gran / tile_tok, comb->period, comb->width, comb->shift});
    else if (tile_tok % comb->gran == 0)
        add_tiles_of_groups(set, comb, tile_tok);
    else
        add_tiles_by_runs(set, comb, tile_tok);
}

/* The residue at which the runs of a comb begin. */
static int64_t residue_of(const s2_comb *comb)
{
    return (comb->period - comb->shift % comb->period) % comb->period;
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/*
 * Intervals first, ascending, then combs with a residue; those that differ only in it are adjacent.
 */
static int by_kind_then_begin(const void *left, const void *right)
{
    const s2_comb *const a = left, *const b = right;
    const bool a_comb = !s2_comb_is_interval(a), b_comb = !s2_comb_is_interval(b);
    if (a_comb != b_comb)
        return a_comb - b_comb;
    if (a->begin != b->begin || !a_comb)
        return compare(a->begin, b->begin);
    if (a->end != b->end || a->gran != b->gran)
        return a->end != b->end ? compare(a->end, b->end) : compare(a->gran, b->gran);
    return a->period != b->period ? compare(a->period, b->period) : compare(residue_of(a), residue_of(b));
}

static void sort_combs(s2_comb *combs, int32_t n)
{
    enum { SMALL = 16 };
    if (n > SMALL) {
        qsort(combs, (size_t)n, sizeof *combs, by_kind_then_begin);
        return;
    }
    for (int32_t from = 1; from < n; from++) {
        const s2_comb moved = combs[from];
        int32_t to = from;
        for (; to > 0 && by_kind_then_begin(&combs[to - 1], &moved) > 0; to--)
            combs[to] = combs[to - 1];
        combs[to] = moved;
    }
}

/* The work of sorting: n log n comparisons. */
static int64_t sort_work(int32_t n)
{
    int64_t n_levels = 1;
    for (int32_t rest = n; rest > 1; rest /= 2)
        n_levels++;
    return n * n_levels;
}

void s2_combset_merge(s2_combset *set)
{
    if (!s2_work_spend(set->work_left, sort_work(set->n_combs)))
        return;
    sort_combs(set->combs, set->n_combs);
    int32_t kept = 0;
    for (int32_t c = 0; c < set->n_combs; c++) {
        const s2_comb comb = set->combs[c];
        s2_comb *const before = kept > 0 ? &set->combs[kept - 1] : NULL;
        if (before != NULL && s2_comb_is_interval(&comb) && comb.begin <= before->end)
            before->end = s2_max_i64(comb.end, before->end);
        else
            set->combs[kept++] = comb;
    }
    set->n_combs = kept;
}

/* Join sorted combs whose residues meet: the phases of a group of heads are often neighbours. */
static int32_t join_residues(s2_comb *combs, int32_t n)
{
    int32_t kept = 0;
    for (int32_t c = 0; c < n; c++) {
        const s2_comb comb = combs[c];
        s2_comb *const before = kept > 0 ? &combs[kept - 1] : NULL;
        const bool alike = before != NULL && before->begin == comb.begin && before->end == comb.end &&
                           before->gran == comb.gran && before->period == comb.period;
        const int64_t ahead = alike ? residue_of(&comb) - residue_of(before) : 0;
        if (!alike || ahead > before->width)
            combs[kept++] = comb;
        else if (ahead + comb.width > before->width)
            before->width = s2_min_i64(ahead + comb.width, comb.period);
    }
    return kept;
}

/* Each run looks at every comb for its begin and the next one, and at least twice for its end. */
static int64_t count_runs(const s2_comb *combs, int32_t n, int64_t begin, int64_t end, int64_t *work_left)
{
    enum { LOOKS = 4 };
    int64_t total = 0;
    for (int64_t x = s2_combs_next(combs, n, begin); x < end && s2_work_spend(work_left, LOOKS * n);) {
        const int64_t run_end = s2_combs_end(combs, n, x, end);
        total += run_end - x;
        x = s2_combs_next(combs, n, run_end);
    }
    return total;
}

/* The cycle after which all combs repeat together, or S2_OPEN when it is longer than `most`. */
static int64_t common_cycle(const s2_comb *combs, int32_t n, int64_t most)
{
    int64_t cycle = 1;
    for (int32_t c = 0; c < n; c++) {
        const int64_t own = combs[c].gran * combs[c].period, a = s2_gcd(cycle, own);
        if (own > most || cycle / a > most / own)
            return S2_OPEN;
        cycle = cycle / a * own;
    }
    return cycle;
}

/* Several combs, all active over the whole of [begin, end). */
static int64_t count_overlap(const s2_comb *combs, int32_t n, int64_t begin, int64_t end, int64_t *work_left)
{
    const int64_t length = end - begin, cycle = common_cycle(combs, n, length);
    if (cycle == S2_OPEN || cycle * 2 > length)
        return count_runs(combs, n, begin, end, work_left);
    const int64_t whole = count_runs(combs, n, begin, begin + cycle, work_left);
    return whole * (length / cycle) + count_runs(combs, n, begin, begin + length % cycle, work_left);
}

static int64_t comb_between(const s2_comb *comb, int64_t begin, int64_t end)
{
    return begin < end ? s2_comb_count_below(comb, end) - s2_comb_count_below(comb, begin) : 0;
}

/* Combs with residues in [begin, end): cut where one starts or stops, so that each piece is uniform. */
static int64_t count_residues(s2_comb *combs, int32_t n, int64_t begin, int64_t end, int64_t *work_left)
{
    if (n == 1)
        return comb_between(combs, begin, end);
    int64_t total = 0;
    for (int64_t x = begin; x < end && s2_work_spend(work_left, n);) {
        int64_t stop = end;
        int32_t n_active = 0;
        for (int32_t c = 0; c < n; c++) {
            const s2_comb comb = combs[c];
            if (comb.begin > x && comb.begin < stop)
                stop = comb.begin;
            if (comb.begin > x || comb.end <= x)
                continue;
            if (comb.end < stop)
                stop = comb.end;
            combs[c] = combs[n_active];
            combs[n_active++] = comb;
        }
        total += n_active == 1  ? comb_between(combs, x, stop)
                 : n_active > 1 ? count_overlap(combs, n_active, x, stop, work_left)
                                : 0;
        x = stop;
    }
    return total;
}

int64_t s2_combset_count(s2_combset *set, int64_t begin, int64_t end)
{
    if (set->failed || !s2_work_spend(set->work_left, sort_work(set->n_combs)))
        return -1;
    sort_combs(set->combs, set->n_combs);
    int32_t n_ranges = 0;
    while (n_ranges < set->n_combs && s2_comb_is_interval(&set->combs[n_ranges]))
        n_ranges++;
    s2_comb *const residues = set->combs + n_ranges;
    const int32_t n_residues = join_residues(residues, set->n_combs - n_ranges);
    set->n_combs = n_ranges + n_residues;
    int64_t total = 0, covered = begin; /* everything below `covered` is counted */
    for (int32_t r = 0; r <= n_ranges && covered < end; r++) {
        int64_t from = r < n_ranges ? set->combs[r].begin : end;
        from = s2_min_i64(from, end);
        if (from > covered && n_residues > 0)
            total += count_residues(residues, n_residues, covered, from, set->work_left);
        covered = s2_max_i64(from, covered);
        int64_t to = r < n_ranges ? set->combs[r].end : end;
        to = s2_min_i64(to, end);
        if (to > covered) {
            total += to - covered;
            covered = to;
        }
    }
    return s2_work_goes_on(set->work_left) ? total : -1;
}

s2_status s2_combset_failure(const s2_combset *set)
{
    return s2_work_goes_on(set->work_left) ? S2_ENOMEM : S2_ELIMIT;
}
