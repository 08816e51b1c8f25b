/*
 * explorer/worker.h - one thread that does one slow thing at a time, so that a screen never waits for it.
 *
 * Only one thread posts, waits and collects, and signals reach none but it. Until it is started, and where no
 * thread is to be had, a post does its work at once: scripts and tests then see the same as a person who
 * waits.
 *
 *     s2_worker_post(w, run, task);              (only while idle)
 *     ... poll() on w->event_fd, or s2_worker_wait(w, s2_worker_now_ms() + 8) ...
 *     if (s2_worker_collect(w)) use *task;       (idle again)
 */
#ifndef S2_EXPLORER_WORKER_H
#define S2_EXPLORER_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct s2_worker {
    bool started;
    bool busy; /* of the poster: posted and not collected */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*run)(void *task); /* under the lock: NULL when there is nothing to do */
    void *task;
    bool done;
    bool stop;
    int event_fd; /* readable when a task is done */
} s2_worker;

/* S2_EIO, S2_ENOMEM: it stays unstarted and usable. */
s2_status s2_worker_start(s2_worker *worker) S2_MUST_CHECK;
/*
 * False: the task under way took longer than that and is left behind. It ends with the process; until then
 * the worker and all that the task uses must stay as they are.
 */
bool s2_worker_stop(s2_worker *worker, double patience_ms) S2_MUST_CHECK;
void s2_worker_post(s2_worker *worker, void (*run)(void *task), void *task);
/* True when the task is done; waits at most until then, and not at all for 0. */
bool s2_worker_wait(s2_worker *worker, double until_ms);
/* A clock that nobody sets. */
double s2_worker_now_ms(void);
/* True once for each task that was done. */
bool s2_worker_collect(s2_worker *worker);

#endif /* S2_EXPLORER_WORKER_H */
