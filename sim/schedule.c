#include "sim/schedule.h"

/*
 * Loads are kept ascending. A class of k pieces of cost w: when the spread of the loads is at most w,
 * P pieces go one to each worker and leave the order as it was, so whole rounds only raise the base.
 * What is left over goes to the lowest loads, which then are merged back into order.
 */
typedef struct s2_loads {
    int64_t base;
    int32_t n;
    int64_t load[S2_LIMIT_WORKERS]; /* ascending, above base */
} s2_loads;

/* Raise the k lowest loads by w and restore the order by one merge; k <= n, and all fit one round. */
static void raise_lowest(s2_loads *loads, int32_t k, int64_t w)
{
    int64_t merged[S2_LIMIT_WORKERS];
    int32_t low = 0, high = k;
    for (int32_t at = 0; at < loads->n; at++) {
        const int64_t raised = low < k ? loads->load[low] + w : INT64_MAX;
        if (low < k && (high == loads->n || raised <= loads->load[high])) {
            merged[at] = raised;
            low++;
        } else {
            merged[at] = loads->load[high++];
        }
    }
    for (int32_t at = 0; at < loads->n; at++)
        loads->load[at] = merged[at];
}

/* How many of the lowest workers take a piece before one of them would take a second. */
static int32_t round_size(const s2_loads *loads, int64_t k, int64_t w)
{
    int32_t size = 1;
    while (size < loads->n && size < k && loads->load[size] <= loads->load[0] + w)
        size++;
    return size;
}

static void hand_out(s2_loads *loads, int64_t k, int64_t w)
{
    while (k > 0) {
        if (k >= loads->n && loads->load[loads->n - 1] - loads->load[0] <= w) {
            loads->base += k / loads->n * w;
            k %= loads->n;
            continue;
        }
        const int32_t size = round_size(loads, k, w);
        raise_lowest(loads, size, w);
        k -= size;
    }
}

int64_t s2_makespan(const int64_t *count, int32_t n_costs, int32_t n_workers)
{
    s2_loads loads;
    loads.base = 0;
    loads.n = n_workers;
    for (int32_t worker = 0; worker < n_workers; worker++)
        loads.load[worker] = 0;
    for (int32_t cost = n_costs - 1; cost > 0; cost--)
        if (count[cost] > 0)
            hand_out(&loads, count[cost], cost);
    return loads.base + loads.load[n_workers - 1];
}

int64_t s2_makespan_floor(const int64_t *count, int32_t n_costs, int32_t n_workers)
{
    int64_t sum = 0, longest = 0, seen = 0, doubled = 0;
    for (int32_t cost = n_costs - 1; cost > 0; cost--) {
        sum += count[cost] * cost;
        longest = longest == 0 && count[cost] > 0 ? cost : longest;
        if (seen <= n_workers && seen + count[cost] > n_workers)
            doubled = 2 * (int64_t)cost;
        seen += count[cost];
    }
    const int64_t mean = sum / n_workers + (sum % n_workers != 0);
    const int64_t most = mean > longest ? mean : longest;
    return most > doubled ? most : doubled;
}
