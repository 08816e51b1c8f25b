#include "cli/limit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "cli/options.h"

enum { A_PART = 8 }; /* of what nobody else has been promised */
enum { USUAL_SECONDS = 10, MOST_SECONDS = 1000000 };
enum { USUAL_MIB = 1000, MOST_MIB = 1 << 24, MIB = 1 << 20, LOOK_EVERY_BYTES = 8 * MIB };

/*
 * Messages are composed in advance: a signal handler must not format, and the other one is needed when memory
 * is short.
 */
static char time_word[160], memory_word[160];
static int64_t most_seconds = USUAL_SECONDS;
static int64_t most_bytes;
static _Atomic size_t asked_bytes; /* since memory in use was last checked */

static void end_undecided(const char *word)
{
    if (write(STDERR_FILENO, word, strlen(word)) < 0)
        _exit(S2_EXIT_ENVIRONMENT);
    _exit(S2_EXIT_UNDECIDED);
}

static void end_of_time(int number)
{
    (void)number;
    end_undecided(time_word);
}

/* Resident bytes of this process; 0: the system does not say. */
static int64_t held_bytes(void)
{
    char text[128];
    long long n_pages = 0;
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t n = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    return sscanf(text, "%*s %lld", &n_pages) == 1 ? n_pages * sysconf(_SC_PAGESIZE) : 0;
}

static bool within_memory(void *user, size_t n_bytes)
{
    (void)user;
    if (atomic_fetch_add(&asked_bytes, n_bytes) + n_bytes < LOOK_EVERY_BYTES)
        return true;
    atomic_store(&asked_bytes, 0);
    if (n_bytes > (size_t)most_bytes || held_bytes() > most_bytes - (int64_t)n_bytes)
        end_undecided(memory_word);
    return true;
}

/* Read a whole number from 1 to `most` from the environment. */
static s2_exit read_variable(s2_cli *cli, const char *name, const char *unit, int64_t most, int64_t *out)
{
    const char *const asked = getenv(name);
    if (asked == NULL || (s2_number_parse(asked, out) && *out >= 1 && *out <= most))
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s=%s: expected whole %s, 1 to %lld", name, asked, unit, (long long)most);
    return S2_EXIT_USAGE;
}

static void limit_time(int64_t seconds)
{
    const struct sigaction ended = {.sa_handler = end_of_time};
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_cur <= (rlim_t)seconds)
        return; /* our parent allows less, and expects the default end */
    limit.rlim_cur = (rlim_t)seconds;
    if (sigaction(SIGXCPU, &ended, NULL) == 0)
        (void)setrlimit(RLIMIT_CPU, &limit);
}

static s2_exit begin(s2_cli *cli, const char *less, bool with_time, bool with_memory)
{
    int64_t seconds = USUAL_SECONDS, mib = USUAL_MIB;
    S2_CLI_TRY(read_variable(cli, "S2_CPU_SECONDS", "seconds", MOST_SECONDS, &seconds));
    S2_CLI_TRY(read_variable(cli, "S2_MEMORY_MIB", "MiB", MOST_MIB, &mib));
    snprintf(time_word, sizeof time_word,
             "%s: not decided within %lld s of processor time; try %s, or allow more: "
             "S2_CPU_SECONDS=%lld\n",
             cli->program, (long long)seconds, less, (long long)seconds * 10);
    snprintf(memory_word, sizeof memory_word,
             "%s: not decided within %lld MiB of memory; try %s, or allow more: S2_MEMORY_MIB=%lld\n",
             cli->program, (long long)mib, less, (long long)mib * 4);
    most_seconds = seconds;
    most_bytes = mib * MIB;
    if (with_time)
        limit_time(seconds);
    if (with_memory)
        s2_alloc_set_hook(within_memory, NULL);
    return S2_EXIT_OK;
}

s2_exit s2_limit_begin(s2_cli *cli, const char *less)
{
    return begin(cli, less, true, true);
}

s2_exit s2_limit_begin_asked(s2_cli *cli)
{
    return begin(cli, "a smaller --len", getenv("S2_CPU_SECONDS") != NULL, getenv("S2_MEMORY_MIB") != NULL);
}

/* As many as given for the usual time, in proportion to what is allowed. */
static int64_t steps_allowed(int64_t n_steps)
{
    return n_steps * most_seconds / USUAL_SECONDS;
}

s2_limit_pool s2_limit_share(int64_t n_steps, int32_t n_inputs)
{
    const int64_t left = steps_allowed(n_steps);
    return (s2_limit_pool){.left = left,
                           .even = left / 2 / s2_max_i32(n_inputs, 1),
                           .taken = -1,
                           .n_inputs = n_inputs,
                           .n_to_come = n_inputs};
}

int64_t s2_limit_take(s2_limit_pool *pool, int64_t most)
{
    const int64_t beside = s2_max_i64(pool->left - pool->even * pool->n_to_come, 0);
    const int64_t share =
        pool->n_to_come > 1 ? pool->even + beside / s2_min_i32(pool->n_to_come, A_PART) : pool->left;
    pool->n_to_come--;
    pool->taken = pool->n_inputs > 1 ? s2_max_i64(s2_min_i64(share, most), 1) : most;
    return pool->taken;
}

void s2_limit_spent(s2_limit_pool *pool, int64_t left)
{
    pool->left = s2_max_i64(pool->left - pool->taken + s2_max_i64(left, 0), 0);
}

void s2_limit_hint(s2_cli *cli, const s2_limit_pool *pool)
{
    s2_cli_hint(cli, "%sS2_CPU_SECONDS=%lld allows more",
                pool->n_inputs > 1 ? "the patterns of a command share its steps: ask for this one alone, or "
                                   : "",
                (long long)most_seconds * 10);
}

void s2_limit_lift(void)
{
    struct rlimit limit;
    s2_alloc_set_hook(NULL, NULL);
    if (getrlimit(RLIMIT_CPU, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_CPU, &limit);
}
