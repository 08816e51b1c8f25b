#include "base/hear.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* Of what a stranger still writes when the children are gone. */
enum { LIMIT_REST_BYTES = 1 << 20 };

static bool put(int to, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(to, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

/* What stands on a terminal's last line, a progress for example, makes room. */
static void tell(s2_hear *hear, const char *words)
{
    char text[sizeof hear->name + S2_HEAR_LINE_BYTES + 16];
    const int n =
        snprintf(text, sizeof text, "%s%s: %s\n", isatty(hear->to) == 1 ? "\r\033[K" : "", hear->name, words);
    if (!put(hear->to, text, (size_t)n))
        hear->to = -1;
}

static void end_line(s2_hear *hear)
{
    char raw[S2_HEAR_LINE_BYTES + 1], clean[sizeof raw];
    for (size_t byte = 0; byte < hear->n; byte++)
        raw[byte] = hear->line[byte] == '\0' ? '\1' : hear->line[byte];
    raw[hear->n] = '\0';
    s2_text_clean(clean, sizeof clean, raw);
    hear->n = 0;
    if (hear->first[0] == '\0')
        s2_text_clean(hear->first, sizeof hear->first, clean);
    if (clean[0] == '\0' || hear->to < 0 || hear->n_said >= S2_HEAR_BYTES)
        return;
    tell(hear, clean);
    hear->n_said += strlen(clean) + 1;
    if (hear->n_said >= S2_HEAR_BYTES)
        tell(hear, "(it says more, which is left out)");
}

/* A line that is too long is several, each of whole characters. */
static void split_line(s2_hear *hear)
{
    char rest[4];
    size_t n = hear->n;
    while (n > hear->n - sizeof rest && (hear->line[n - 1] & 0xc0) == 0x80)
        n--;
    n -= (hear->line[n - 1] & 0xc0) == 0xc0;
    const size_t n_rest =
        s2_utf8_len(hear->line + n, hear->n - n) == 0 && n > hear->n - sizeof rest ? hear->n - n : 0;
    memcpy(rest, hear->line + hear->n - n_rest, n_rest);
    hear->n -= n_rest;
    end_line(hear);
    memcpy(hear->line, rest, n_rest);
    hear->n = n_rest;
}

static void take(s2_hear *hear, const char *bytes, size_t n)
{
    for (size_t byte = 0; byte < n; byte++) {
        if (bytes[byte] == '\n' || bytes[byte] == '\r') {
            end_line(hear);
            continue;
        }
        if (hear->n == sizeof hear->line)
            split_line(hear);
        hear->line[hear->n++] = bytes[byte];
    }
}

static void *listen_to(void *argument)
{
    s2_hear *const hear = argument;
    struct pollfd fds[] = {{.fd = hear->from, .events = POLLIN}, {.fd = hear->stop[0], .events = POLLIN}};
    char bytes[1 << 14];
    for (size_t n_rest = 0; n_rest < LIMIT_REST_BYTES;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        const bool stopped = fds[1].revents != 0;
        const ssize_t n = read(hear->from, bytes, sizeof bytes);
        if (n > 0)
            take(hear, bytes, (size_t)n);
        else if (n == 0 || stopped)
            break;
        n_rest += stopped && n > 0 ? (size_t)n : 0;
    }
    end_line(hear);
    return NULL;
}

static void close_all(s2_hear *hear)
{
    close(hear->child);
    close(hear->from);
    close(hear->stop[0]);
    close(hear->stop[1]);
    hear->open = false;
}

/* Signals are for who waits for the child. */
static bool begin(s2_hear *hear)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool begun = pthread_create(&hear->thread, NULL, listen_to, hear) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return begun;
}

s2_status s2_hear_open(s2_hear *hear, const char *name, int to)
{
    int words[2];
    if (pipe2(words, O_CLOEXEC) != 0)
        return S2_ENOMEM;
    if (pipe2(hear->stop, O_CLOEXEC) != 0) {
        close(words[0]);
        close(words[1]);
        return S2_ENOMEM;
    }
    hear->from = words[0];
    hear->child = words[1];
    hear->to = to;
    hear->n = 0;
    hear->first[0] = '\0';
    s2_text_clean(hear->name, sizeof hear->name, name);
    fcntl(hear->from, F_SETFL, O_NONBLOCK);
    hear->open = begin(hear);
    if (hear->open)
        return S2_OK;
    close_all(hear);
    return S2_ENOMEM;
}

void s2_hear_close(s2_hear *hear)
{
    if (!hear->open)
        return;
    (void)put(hear->stop[1], "", 1); /* to close it would say nothing where a child of a child has it, too */
    pthread_join(hear->thread, NULL);
    close_all(hear);
}
