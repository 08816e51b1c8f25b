#include "explorer/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char PROGRAM[] = "/proc/self/exe";

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void s2_job_init(s2_job *job)
{
    *job = (s2_job){.out_fd = -1, .err_fd = -1};
}

s2_status s2_job_add(s2_job *job, const char *word)
{
    if (job->n_words == S2_JOB_WORDS)
        return S2_ELIMIT;
    char *const copy = s2_arena_strndup(&job->arena, word, strlen(word));
    if (copy == NULL)
        return S2_ENOMEM;
    job->words[job->n_words++] = copy;
    return S2_OK;
}

s2_status s2_job_add_words(s2_job *job, const char *words)
{
    while (*(words += strspn(words, " ")) != '\0') {
        const size_t n = strcspn(words, " ");
        char *const copy = s2_arena_strndup(&job->arena, words, n);
        if (copy == NULL)
            return S2_ENOMEM;
        S2_TRY(s2_job_add(job, copy));
        words += n;
    }
    return S2_OK;
}

void s2_job_print(const s2_job *job, s2_buf *buf)
{
    for (int32_t n = 0; n < job->n_words; n++) {
        s2_buf_puts(buf, n > 0 ? " " : "");
        s2_buf_shell(buf, job->words[n]);
    }
}

/* ---- starting ------------------------------------------------------------------------------------------ */

static s2_status fail(s2_diag *diag, const char *what)
{
    return s2_diag_set(diag, S2_EIO, 0, 0, 0, "%s: %s", what, strerror(errno));
}

/* Open both ends of a pseudo-terminal; *other is the end that the command sees as its terminal. */
static int open_pty(int *other)
{
    const int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[64];
    if (fd < 0 || grantpt(fd) != 0 || unlockpt(fd) != 0 || ptsname_r(fd, name, sizeof name) != 0 ||
        (*other = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static int spawn(s2_job *job, int out, int err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGTERM);
    sigaddset(&usual, SIGHUP);
    sigaddset(&usual, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    posix_spawnattr_setflags(&how, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    extern char **environ;
    const int error = posix_spawn(&job->pid, PROGRAM, &actions, &how, job->words, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&how);
    return error;
}

s2_status s2_job_start(s2_job *job, s2_diag *diag)
{
    int out[2], err_other = -1;
    if (pipe2(out, O_CLOEXEC) != 0)
        return fail(diag, "pipe");
    const int err = open_pty(&err_other);
    /* before it runs: the stored run is recognized by its later start */
    job->began_us = (int64_t)(seconds(CLOCK_REALTIME) * 1e6);
    job->clock_s = seconds(CLOCK_MONOTONIC);
    const int error = err >= 0 ? spawn(job, out[1], err_other) : errno;
    close(out[1]);
    if (err_other >= 0)
        close(err_other);
    if (error != 0) {
        close(out[0]);
        if (err >= 0)
            close(err);
        errno = error;
        return fail(diag, PROGRAM);
    }
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err, F_SETFL, O_NONBLOCK);
    job->out_fd = out[0];
    job->err_fd = err;
    job->state = S2_JOB_RUNNING;
    return S2_OK;
}

/* ---- listening ----------------------------------------------------------------------------------------- */

/* Keep only so much that a command that never stops talking cannot fill the memory. */
static void keep(s2_job *job, const char *bytes, size_t n)
{
    if (job->text.len + n <= S2_JOB_LIMIT_BYTES)
        s2_buf_add(&job->text, bytes, n);
}

/* Strip sequences that move the cursor or set colours. */
static size_t plain(const char *from, size_t n, char *to)
{
    size_t len = 0;
    for (size_t byte = 0; byte < n; byte++) {
        if (from[byte] == '\033' && byte + 1 < n && from[byte + 1] == '[') {
            for (byte += 2; byte < n && (from[byte] < '@' || from[byte] > '~');)
                byte++;
        } else if (from[byte] != '\r') {
            to[len++] = from[byte];
        }
    }
    return len;
}

static void end_line(s2_job *job)
{
    job->line.len = plain(job->line.data, job->line.len, job->line.data);
    if (job->line.len > 0) {
        keep(job, job->line.data, job->line.len);
        keep(job, "\n", 1);
    }
    job->line.len = 0;
    job->progress[0] = '\0';
}

/* Messages: a line restarted with '\r' is progress, one that ends with '\n' is kept. */
static void hear(s2_job *job, const char *bytes, size_t n)
{
    for (size_t byte = 0; byte < n; byte++) {
        if (bytes[byte] == '\n') {
            end_line(job);
        } else if (bytes[byte] == '\r' && !(byte + 1 < n && bytes[byte + 1] == '\n')) {
            job->line.len = 0;
        } else if (job->line.len < 4096) {
            s2_buf_add(&job->line, &bytes[byte], 1);
        }
    }
    if (job->line.len > 0) {
        char raw[4096];
        const size_t len =
            plain(job->line.data, job->line.len < sizeof raw ? job->line.len : sizeof raw - 1, raw);
        raw[len] = '\0';
        s2_text_clean(job->progress, sizeof job->progress, raw);
    }
}

/* False at end of file. */
static bool listen_to(s2_job *job, int *fd, bool results, bool *changed)
{
    char bytes[4096];
    while (*fd >= 0) {
        const ssize_t n = read(*fd, bytes, sizeof bytes);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0) {
            close(*fd);
            *fd = -1;
            return false;
        }
        *changed = true;
        if (results)
            keep(job, bytes, (size_t)n);
        else
            hear(job, bytes, (size_t)n);
    }
    return false;
}

static void reap(s2_job *job, int options)
{
    int status;
    if (waitpid(job->pid, &status, options) != job->pid)
        return;
    job->state = S2_JOB_ENDED;
    job->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    job->wall_s = seconds(CLOCK_MONOTONIC) - job->clock_s;
    job->progress[0] = '\0';
}

bool s2_job_pump(s2_job *job)
{
    bool changed = false;
    if (job->state != S2_JOB_RUNNING)
        return false;
    listen_to(job, &job->err_fd, false, &changed);
    listen_to(job, &job->out_fd, true, &changed);
    job->wall_s = seconds(CLOCK_MONOTONIC) - job->clock_s;
    if (job->out_fd < 0)
        reap(job, WNOHANG);
    if (job->state == S2_JOB_ENDED) {
        listen_to(job, &job->err_fd, false, &changed);
        if (job->line.len > 0)
            end_line(job);
    }
    return changed || job->state == S2_JOB_ENDED;
}

void s2_job_cancel(s2_job *job)
{
    if (job->state == S2_JOB_RUNNING)
        kill(job->pid, job->cancelled ? SIGKILL : SIGINT);
    if (job->state == S2_JOB_WAITING)
        job->state = S2_JOB_ENDED;
    job->cancelled = true;
}

void s2_job_release(s2_job *job)
{
    if (job->state == S2_JOB_RUNNING) {
        kill(job->pid, SIGKILL);
        reap(job, 0);
    }
    if (job->out_fd >= 0)
        close(job->out_fd);
    if (job->err_fd >= 0)
        close(job->err_fd);
    s2_buf_release(&job->text);
    s2_buf_release(&job->line);
    s2_arena_release(&job->arena);
    s2_job_init(job);
}
