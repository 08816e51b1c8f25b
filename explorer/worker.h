/*
 * explorer/worker.h - one thread that does one slow thing at a time, so that a screen never waits for it.
 *
 * Only one thread posts, waits and collects, and signals reach only that one. Until the worker is started,
 * and when no thread can be created, a post does its work at once: scripts and tests then see what a person
 * sees who waits.
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
    bool busy; /* as the poster sees it: posted and not collected */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*run)(void *task); /* guarded by the lock; NULL when there is nothing to do */
    void *task;
    bool done;
    bool stop;
    int event_fd; /* readable when a task is done */
} s2_worker;

/* On S2_EIO and S2_ENOMEM it stays unstarted and usable. */
s2_status s2_worker_start(s2_worker *worker) S2_MUST_CHECK;
/*
 * False: the current task took longer than that and is left behind. It ends with the process; until then the
 * worker and everything that the task uses must stay as they are.
 */
bool s2_worker_stop(s2_worker *worker, double patience_ms) S2_MUST_CHECK;
void s2_worker_post(s2_worker *worker, void (*run)(void *task), void *task);
/* True when the task is done; waits until `until_ms` at most, and not at all for 0. */
bool s2_worker_wait(s2_worker *worker, double until_ms);
/* A monotonic clock. */
double s2_worker_now_ms(void);
/* True once for each finished task. */
bool s2_worker_collect(s2_worker *worker);

#endif /* S2_EXPLORER_WORKER_H */
