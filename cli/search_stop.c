/* The first Ctrl-C ends a search in good order, wherever it is, the second at once. */
#include "cli/searching.h"

#include <signal.h>

/* All that a signal handler may change. */
static volatile sig_atomic_t stop_asked;
static struct sigaction before_int, before_term;

static void ask_stop(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

void s2_search_stop_catch(void)
{
    const struct sigaction ask = {.sa_handler = ask_stop, .sa_flags = (int)SA_RESETHAND};
    stop_asked = 0;
    sigaction(SIGINT, &ask, &before_int);
    sigaction(SIGTERM, &ask, &before_term);
}

void s2_search_stop_release(void)
{
    sigaction(SIGINT, &before_int, NULL);
    sigaction(SIGTERM, &before_term, NULL);
}

bool s2_search_stopped(void)
{
    return stop_asked != 0;
}
