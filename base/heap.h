/*
 * base/heap.h - a binary min-heap of times.
 *
 * Threads: no state.
 */
#ifndef S2_BASE_HEAP_H
#define S2_BASE_HEAP_H

#include <stdint.h>

/* Call after heap[0], the least of n, has grown: it sinks until heap[0] is the least again. n equal numbers
 * are already a heap. */
static inline void s2_heap_sink(double *heap, int32_t n)
{
    const double own = heap[0];
    int32_t hole = 0;
    for (int32_t child = 1; child < n; child = 2 * hole + 1) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= own)
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = own;
}

#endif /* S2_BASE_HEAP_H */
