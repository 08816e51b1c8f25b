#include "judge/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

struct s2_watchdog {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double limit_s;
    struct timespec deadline;
    bool stopped;
    int (*expired)(void *user);
    void *user;
};

static void set_deadline(s2_watchdog *dog)
{
    clock_gettime(CLOCK_MONOTONIC, &dog->deadline);
    const double whole = floor(dog->limit_s);
    dog->deadline.tv_sec += (time_t)whole;
    dog->deadline.tv_nsec += (long)((dog->limit_s - whole) * 1e9);
    if (dog->deadline.tv_nsec >= 1000000000) {
        dog->deadline.tv_nsec -= 1000000000;
        dog->deadline.tv_sec++;
    }
}

static bool is_past(const struct timespec *deadline)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > deadline->tv_sec ||
           (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

/* The lock is held while expired() runs and never given back: the worker stays where it is. */
static void *watch(void *user)
{
    s2_watchdog *const dog = user;
    pthread_mutex_lock(&dog->lock);
    while (!dog->stopped && !is_past(&dog->deadline)) {
        const struct timespec deadline = dog->deadline;
        pthread_cond_timedwait(&dog->changed, &dog->lock, &deadline);
    }
    if (!dog->stopped) {
        const int code = dog->expired(dog->user);
        fflush(NULL);
        _exit(code);
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

static bool make_waiting(s2_watchdog *dog)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    const bool good = pthread_cond_init(&dog->changed, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    return good;
}

s2_status s2_watchdog_start(double limit_s, int (*expired)(void *user), void *user, s2_watchdog **out)
{
    s2_watchdog *const dog = s2_calloc(1, sizeof *dog);
    if (dog == NULL)
        return S2_ENOMEM;
    dog->limit_s = limit_s;
    dog->expired = expired;
    dog->user = user;
    set_deadline(dog);
    if (make_waiting(dog) && pthread_mutex_init(&dog->lock, NULL) == 0 &&
        pthread_create(&dog->thread, NULL, watch, dog) == 0) {
        *out = dog;
        return S2_OK;
    }
    s2_free(dog);
    return S2_ENOMEM;
}

void s2_watchdog_feed(s2_watchdog *dog)
{
    if (dog == NULL)
        return;
    pthread_mutex_lock(&dog->lock);
    set_deadline(dog);
    pthread_mutex_unlock(&dog->lock);
}

void s2_watchdog_stop(s2_watchdog **dog)
{
    s2_watchdog *const stopped = *dog;
    if (stopped == NULL)
        return;
    pthread_mutex_lock(&stopped->lock);
    stopped->stopped = true;
    pthread_cond_signal(&stopped->changed);
    pthread_mutex_unlock(&stopped->lock);
    pthread_join(stopped->thread, NULL);
    pthread_cond_destroy(&stopped->changed);
    pthread_mutex_destroy(&stopped->lock);
    s2_free(stopped);
    *dog = NULL;
}
