/*
 * judge/watchdog.h - ends a process whose work shows no sign of life: a hanging kernel cannot be cancelled.
 *
 * After limit_s seconds without s2_watchdog_feed() the watchdog's thread calls expired(user), which says so,
 * records what it can and returns the exit code; the process then ends at once with it. Once expired() has
 * been called, feeding never returns, so a worker that was merely slow touches nothing meanwhile.
 *
 * Threads: one worker feeds and stops; expired() runs on another thread while the worker is stuck.
 */
#ifndef S2_JUDGE_WATCHDOG_H
#define S2_JUDGE_WATCHDOG_H

#include "base/status.h"

typedef struct s2_watchdog s2_watchdog;

/* S2_ENOMEM when there is no memory or no thread. */
s2_status s2_watchdog_start(double limit_s, int (*expired)(void *user), void *user,
                            s2_watchdog **out) S2_MUST_CHECK;
void s2_watchdog_feed(s2_watchdog *dog);  /* NULL is allowed */
void s2_watchdog_stop(s2_watchdog **dog); /* afterwards expired() is never called */

#endif /* S2_JUDGE_WATCHDOG_H */
