#include "kernels/crew.h"

#include <pthread.h>

int32_t s2_crew_run(int32_t n_threads, void *(*work)(void *job), void *jobs, size_t job_bytes)
{
    pthread_t threads[S2_CREW_LIMIT];
    char *const first = jobs;
    int32_t n_started = 1;
    while (n_started < n_threads && n_started < S2_CREW_LIMIT &&
           pthread_create(&threads[n_started], NULL, work, first + (size_t)n_started * job_bytes) == 0)
        n_started++;
    work(first);
    for (int32_t thread = 1; thread < n_started; thread++)
        pthread_join(threads[thread], NULL);
    return n_started;
}
