#include "explorer/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static void finish_task(s2_worker *w)
{
    const uint64_t one = 1;
    w->run = NULL;
    w->done = true;
    const ssize_t n = write(w->event_fd, &one, sizeof one);
    (void)n;
    pthread_cond_broadcast(&w->changed);
}

static void *work(void *user)
{
    s2_worker *const w = user;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        if (w->run == NULL) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        void (*const run)(void *) = w->run;
        pthread_mutex_unlock(&w->lock);
        run(w->task);
        pthread_mutex_lock(&w->lock);
        finish_task(w);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Block signals: one that this thread received would neither wake the poster nor reach it in order. */
static bool start_deaf(s2_worker *w)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    sigset_t none, before;
    sigfillset(&none);
    for (size_t n = 0; n < sizeof crashes / sizeof *crashes; n++)
        sigdelset(&none, crashes[n]);
    pthread_sigmask(SIG_SETMASK, &none, &before);
    const bool started = pthread_create(&w->thread, NULL, work, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

s2_status s2_worker_start(s2_worker *w)
{
    pthread_condattr_t how;
    *w = (s2_worker){.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (w->event_fd < 0)
        return S2_EIO;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &how);
    pthread_condattr_destroy(&how);
    w->started = start_deaf(w);
    if (!w->started)
        close(w->event_fd);
    return w->started ? S2_OK : S2_EIO;
}

bool s2_worker_stop(s2_worker *w, double patience_ms)
{
    if (!w->started)
        return true;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->busy && !s2_worker_wait(w, s2_worker_now_ms() + patience_ms)) {
        pthread_detach(w->thread);
        return false;
    }
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    close(w->event_fd);
    w->started = false;
    return true;
}

void s2_worker_post(s2_worker *w, void (*run)(void *task), void *task)
{
    w->busy = true;
    if (!w->started) {
        run(task);
        w->done = true;
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->done = false;
    w->run = run;
    w->task = task;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

double s2_worker_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

bool s2_worker_wait(s2_worker *w, double until_ms)
{
    if (!w->busy || !w->started)
        return w->busy;
    const int64_t ms = (int64_t)until_ms;
    const struct timespec until = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    pthread_mutex_lock(&w->lock);
    while (!w->done && pthread_cond_timedwait(&w->changed, &w->lock, &until) != ETIMEDOUT)
        continue;
    const bool done = w->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

bool s2_worker_collect(s2_worker *w)
{
    uint64_t count;
    if (!s2_worker_wait(w, 0))
        return false;
    if (w->started) {
        const ssize_t n = read(w->event_fd, &count, sizeof count);
        (void)n;
    }
    w->busy = false;
    return true;
}
