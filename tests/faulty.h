/*
 * tests/faulty.h - what tests/test_everycall.c shares with the program that it makes fail: shared memory,
 * and the descriptor of the socket through which the program hands over its system calls.
 */
#ifndef S2_TESTS_FAULTY_H
#define S2_TESTS_FAULTY_H

#include <stdatomic.h>
#include <stdint.h>

enum { S2_FAULTY_PAGE_FD = 198, S2_FAULTY_SOCKET_FD = 199, S2_FAULTY_STACKS = 1 << 20 };

typedef struct s2_faulty_page {
    _Atomic int64_t n_allocs;
    int64_t failing_alloc;             /* -1: none */
    int64_t watch_calls;               /* not 0: hand over the system calls */
    int64_t record_stacks;             /* not 0: of each allocation, up to S2_FAULTY_STACKS */
    uint64_t stacks[S2_FAULTY_STACKS]; /* hashes of all return addresses up to main() */
} s2_faulty_page;

#endif /* S2_TESTS_FAULTY_H */
