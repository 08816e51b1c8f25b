#include "sim/schedule.h"

/*
 * Loads are kept ascending. For a class of k pieces of cost w: while the spread of the loads is at most w,
 * P pieces go one to each worker and leave the order unchanged, so whole rounds only raise the base.
 * The rest goes to the lowest loads, which are then merged back into order.
 */
/* Raise the k lowest loads by w and restore the order by one merge; k <= n, and all fit one round. */
static void raise_lowest(s2_workers *workers, int32_t k, int64_t w)
{
    int64_t merged[S2_LIMIT_WORKERS];
    int32_t low = 0, high = k;
    for (int32_t rank = 0; rank < workers->n; rank++) {
        const int64_t raised = low < k ? workers->load[low] + w : INT64_MAX;
        if (low < k && (high == workers->n || raised <= workers->load[high])) {
            merged[rank] = raised;
            low++;
        } else {
            merged[rank] = workers->load[high++];
        }
    }
    for (int32_t at = 0; at < workers->n; at++)
        workers->load[at] = merged[at];
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
    queue->end = start;
    for (int32_t worker = 0; worker < n_workers; worker++)
        queue->free_at[worker] = start;
}

void s2_queue_give(s2_queue *queue, int64_t w)
{
    int64_t *const heap = queue->free_at;
    const int64_t done = heap[0] + w;
    int32_t place = 0;
    for (int32_t next = 1; next < queue->n; next = 2 * place + 1) {
        next += next + 1 < queue->n && heap[next + 1] < heap[next];
        if (heap[next] >= done)
            break;
        heap[place] = heap[next];
        place = next;
    }
    heap[place] = done;
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
