#include "cli/limit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/options.h"

enum { USUAL_SECONDS = 10, MOST_SECONDS = 1000000 };

static char word[160]; /* composed before: a signal handler may not */

static void end_undecided(int number)
{
    (void)number;
    if (write(STDERR_FILENO, word, strlen(word)) < 0)
        _exit(S2_EXIT_ENVIRONMENT);
    _exit(S2_EXIT_UNDECIDED);
}

s2_exit s2_limit_time(s2_cli *cli)
{
    const char *const asked = getenv("S2_CPU_SECONDS");
    const struct sigaction ended = {.sa_handler = end_undecided};
    struct rlimit limit;
    int64_t seconds = USUAL_SECONDS;
    if (asked != NULL && (!s2_number_parse(asked, &seconds) || seconds < 1 || seconds > MOST_SECONDS)) {
        s2_cli_error(cli, "S2_CPU_SECONDS=%s: expected whole seconds, 1 to %d", asked, MOST_SECONDS);
        return S2_EXIT_USAGE;
    }
    snprintf(word, sizeof word,
             "%s: not decided within %lld s of processor time; try a smaller --len, or allow more: "
             "S2_CPU_SECONDS=%lld\n",
             cli->program, (long long)seconds, (long long)seconds * 10);
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_cur <= (rlim_t)seconds)
        return S2_EXIT_OK; /* whoever started us allows less, and wants the usual end */
    limit.rlim_cur = (rlim_t)seconds;
    if (sigaction(SIGXCPU, &ended, NULL) == 0)
        (void)setrlimit(RLIMIT_CPU, &limit);
    return S2_EXIT_OK;
}

void s2_limit_lift(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_CPU, &limit);
}
