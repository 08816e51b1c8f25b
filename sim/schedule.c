#include "sim/schedule.h"

#include <string.h>

/*
 * Loads are kept ascending. For a class of k pieces of cost w: while the spread of the loads is at most w,
 * P pieces go one to each worker and leave the order unchanged, so whole rounds only raise the base.
 * The rest goes to the lowest loads, which are then merged back into order.
 */
/*
 * Raise the k lowest loads by w and restore the order by one merge; k <= n, and all fit one round. Not inlined: a
 * caller that holds workers would have both arrays in its frame.
 */
static __attribute__((noinline)) void raise_lowest(s2_workers *workers, int32_t k, int64_t w)
{
    int64_t merged[S2_LIMIT_WORKERS];
    int32_t low = 0, high = k;
    while (low < k) { /* what is left then stays where it is */
        const int64_t raised = workers->load[low] + w;
        if (high == workers->n || raised <= workers->load[high]) {
            merged[low + high - k] = raised;
            low++;
        } else {
            merged[low + high - k] = workers->load[high];
            high++;
        }
    }
    memcpy(workers->load, merged, (size_t)high * sizeof *merged);
}

/* How many of the lowest workers take a piece before one of them would take a second. */
static int32_t round_size(const s2_workers *workers, int64_t k, int64_t w)
{
    int32_t size = 1;
    while (size < workers->n && size < k && workers->load[size] <= workers->load[0] + w)
        size++;
    return size;
}

void s2_workers_give(s2_workers *workers, int64_t k, int64_t w)
{
    while (k > 0) {
        if (k >= workers->n && workers->load[workers->n - 1] - workers->load[0] <= w) {
            workers->base += k / workers->n * w;
            k %= workers->n;
            continue;
        }
        const int32_t size = round_size(workers, k, w);
        raise_lowest(workers, size, w);
        k -= size;
    }
}

void s2_workers_init(s2_workers *workers, int32_t n_workers)
{
    workers->base = 0;
    workers->n = n_workers;
    for (int32_t worker = 0; worker < n_workers; worker++)
        workers->load[worker] = 0;
}

int64_t s2_workers_end(const s2_workers *workers)
{
    return workers->base + workers->load[workers->n - 1];
}

void s2_queue_init(s2_queue *queue, int32_t n_workers, int64_t start)
{
    queue->n = n_workers;
    queue->first = 0;
    queue->end = start;
    for (int32_t worker = 0; worker < n_workers; worker++)
        queue->free_at[worker] = start;
}

/* Who takes a piece is mostly the last to be free again: its new place is looked for from the end. */
void s2_queue_give(s2_queue *queue, int64_t w)
{
    if (queue->first == S2_QUEUE_SLACK) {
        memmove(queue->free_at, queue->free_at + queue->first, (size_t)queue->n * sizeof *queue->free_at);
        queue->first = 0;
    }
    int64_t *const free_at = queue->free_at + queue->first++;
    const int64_t done = free_at[0] + w;
    int32_t place = queue->n;
    for (; free_at[place - 1] > done; place--)
        free_at[place] = free_at[place - 1];
    free_at[place] = done;
    if (done > queue->end)
        queue->end = done;
}

int64_t s2_makespan(const int64_t *count, int32_t n_costs, int32_t n_workers)
{
    s2_workers workers;
    s2_workers_init(&workers, n_workers);
    for (int32_t cost = n_costs - 1; cost > 0; cost--)
        if (count[cost] > 0)
            s2_workers_give(&workers, count[cost], cost);
    return s2_workers_end(&workers);
}
