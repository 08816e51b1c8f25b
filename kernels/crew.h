/*
 * kernels/crew.h - how the CPU kernels use the machine: several threads, wide vectors.
 *
 * Threads: s2_crew_run returns when every thread has ended; what the jobs share must be atomic.
 */
#ifndef S2_KERNELS_CREW_H
#define S2_KERNELS_CREW_H

#include <stddef.h>
#include <stdint.h>

/*
 * Functions marked with this are compiled once for every x86-64 and once for AVX2; which one runs is decided
 * when the program starts. Neither fuses a product with a sum, so both give the same bits. Sanitizers would
 * instrument the function that picks, which runs before they are ready: for them everything is compiled once.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define S2_FOR_WIDE_CPUS __attribute__((target_clones("avx2", "default")))
#else
#define S2_FOR_WIDE_CPUS
#endif

enum { S2_CREW_LIMIT = 64 };

/*
 * Calls work(job) for jobs[0] on the calling thread and for up to n_threads - 1 more, each on its own thread;
 * jobs are job_bytes apart. Returns how many ran, at least 1: a job whose thread cannot be created does not
 * run. Jobs must therefore take their work from a common counter, so that the calling thread alone would do.
 */
int32_t s2_crew_run(int32_t n_threads, void *(*work)(void *job), void *jobs, size_t job_bytes);

#endif /* S2_KERNELS_CREW_H */
