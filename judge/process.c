#include "judge/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/alloc.h"
#include "base/hear.h"
#include "base/text.h"
#include "judge/handover.h"
#include "judge/reply.h"
#include "judge/validate.h"

enum { LINE_BYTES = 1 << 16, PROTOCOL = 1, SHELL_FAILED = 127 };

/* An s2_kernel has no data of its own, so there is one process at a time. */
static struct {
    char command[1000];
    double limit_s;
    pid_t pid; /* 0: none runs */
    int to, from;
    int64_t id; /* of the last request */
    int32_t passes;
    char name[40];
    char versions[200];
    s2_hear hear;
    s2_kernel_elsewhere elsewhere;
    char line[LINE_BYTES]; /* received, but not yet consumed */
    size_t n;
} process;

/* ------------------------------------------------------------------ its life */

/* It and everything that it starts form one process group; it ends together with this program. */
static void become_child(const int to[2], const int from[2])
{
    char words[sizeof process.command + 16];
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    dup2(process.hear.child, STDERR_FILENO);
    snprintf(words, sizeof words, "exec env %s", process.command);
    execl("/bin/sh", "sh", "-c", words, (char *)NULL);
    _exit(SHELL_FAILED);
}

static s2_status start(s2_diag *why)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0)
        return s2_diag_set(why, S2_ENOMEM, 0, 0, 0, "no pipe for %s", process.name);
    if (pipe2(from, O_CLOEXEC) == 0) {
        fflush(NULL); /* otherwise both processes write what is buffered */
        const pid_t child =
            s2_hear_open(&process.hear, process.command, STDERR_FILENO) == S2_OK ? fork() : -1;
        if (child == 0)
            become_child(to, from);
        close(to[0]);
        close(from[1]);
        process.to = to[1];
        process.from = from[0];
        process.pid = s2_max_i32(child, 0);
        process.n = 0;
        if (child > 0)
            return S2_OK;
        s2_hear_close(&process.hear);
        close(from[0]);
    } else {
        close(to[0]);
    }
    close(to[1]);
    return s2_diag_set(why, S2_ENOMEM, 0, 0, 0, "no process for %s", process.name);
}

/* Returns its exit status; a process that does not end within a moment is killed: -1. */
static int end(bool at_once)
{
    int ended = 0;
    pid_t gone = 0;
    const double deadline = s2_steady_s() + (at_once ? 0.0 : 1.0);
    if (process.pid == 0)
        return 0;
    close(process.to);
    while (gone == 0 && s2_steady_s() < deadline) {
        gone = waitpid(process.pid, &ended, WNOHANG);
        if (gone == 0)
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    const bool alive = gone == 0;
    kill(-process.pid, SIGKILL);
    kill(process.pid, SIGKILL);
    while (gone <= 0 && waitpid(process.pid, &ended, 0) < 0 && errno == EINTR) {
    }
    s2_hear_close(&process.hear);
    close(process.from);
    process.pid = 0;
    return alive ? -1 : ended;
}

void s2_process_close(void)
{
    end(false);
}

/* ------------------------------------------------------------------ lines */

static s2_status blame(s2_diag *why, s2_outcome outcome, const char *what, const char *detail)
{
    return s2_diag_set(why, S2_ECUDA, (int32_t)outcome, 0, 0, "%s %s%s%.150s", process.name, what,
                       detail[0] != '\0' ? ": " : "", detail);
}

/* Reports how a process that closed its pipe died, if it did. */
static s2_status mourn(s2_diag *why)
{
    char detail[80];
    const int ended = end(false);
    if (ended == -1)
        return blame(why, S2_OUTCOME_LAUNCH_FAILED, "closed its output and went on without an answer", "");
    if (WIFSIGNALED(ended))
        snprintf(detail, sizeof detail, "signal %d (%s)%s", WTERMSIG(ended), strsignal(WTERMSIG(ended)),
                 WTERMSIG(ended) == SIGKILL ? ", which is also what a machine without memory sends" : "");
    else
        snprintf(detail, sizeof detail, "exit code %d%s", WEXITSTATUS(ended),
                 WEXITSTATUS(ended) == SHELL_FAILED ? "; there is no such program" : "");
    return blame(why, S2_OUTCOME_LAUNCH_FAILED, "ended without an answer", detail);
}

/* Wait until the pipe can be read or written, or the deadline has passed. */
static s2_status await(int pipe, short events, double deadline, s2_diag *why)
{
    struct pollfd fd = {.fd = pipe, .events = events};
    for (;;) {
        const double left = deadline - s2_steady_s();
        const int n = left > 0.0 ? poll(&fd, 1, (int)fmin(ceil(left * 1e3), 1e9)) : 0;
        if (n > 0)
            return S2_OK;
        if (n < 0 && errno == EINTR)
            continue;
        end(true);
        char limit[64];
        snprintf(limit, sizeof limit, "within %s s", s2_decimal(process.limit_s, 6).text);
        return blame(why, S2_OUTCOME_TIMEOUT, "gave no answer", limit);
    }
}

/* Reads the next line, without its newline, into process.line; the next read consumes it. */
static s2_status read_line(double deadline, s2_diag *why)
{
    process.n = 0;
    while (process.n == 0 || process.line[process.n - 1] != '\n') {
        if (process.n == sizeof process.line - 1) {
            end(true);
            return blame(why, S2_OUTCOME_BAD_REPLY, "answers with a line that does not end", "");
        }
        S2_TRY(await(process.from, POLLIN, deadline, why));
        const ssize_t n = read(process.from, process.line + process.n, sizeof process.line - 1 - process.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return mourn(why);
        process.n += (size_t)n;
    }
    process.line[process.n - 1] = '\0';
    return S2_OK;
}

/* One object on one line and nothing else: a second line or a zero byte is not a valid answer. */
static s2_status read_reply(double deadline, s2_reply *out, s2_diag *why)
{
    S2_TRY(read_line(deadline, why));
    const bool one_line = strlen(process.line) == process.n - 1;
    const s2_status status = one_line ? s2_reply_read(process.line, out) : S2_EPARSE;
    if (status == S2_ENOMEM)
        end(true);
    if (status != S2_EPARSE)
        return status;
    char said[80];
    process.line[process.n - 1] = '\0';
    process.line[strcspn(process.line, "\n")] = '\0';
    s2_text_clean(said, sizeof said, process.line);
    end(true);
    return blame(why, S2_OUTCOME_BAD_REPLY, "answers with a line that is not of the protocol", said);
}

/* A process that dies during a write is noticed by its missing answer; one that does not read, by the deadline, since
   a pipe that can be written takes PIPE_BUF bytes without waiting. */
static s2_status write_line(const s2_buf *line, double deadline, s2_diag *why)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    s2_status status = S2_OK;
    for (size_t n_written = 0; status == S2_OK && n_written < line->len;) {
        status = await(process.to, POLLOUT, deadline, why);
        const size_t piece = s2_min_size(line->len - n_written, PIPE_BUF);
        const ssize_t n = status == S2_OK ? write(process.to, line->data + n_written, piece) : 0;
        if (n < 0 && errno != EINTR)
            break;
        n_written += n > 0 ? (size_t)n : 0;
    }
    sigaction(SIGPIPE, &before, NULL);
    return status;
}

/* ------------------------------------------------------------------ what it says about itself */

static s2_kernel *own_kernel(void)
{
    static s2_kernel_traits traits = {.name = process.name,
                                      .tile_tok = 64,
                                      .pack_heads = 1,
                                      .key_tok = 64,
                                      .wide_key_tok = 64,
                                      .column_tok = 64};
    static s2_kernel kernel = {.traits = &traits,
                               .summary = "a kernel of somebody else, in a process",
                               .device = S2_DEVICE_CPU,
                               .loads_all = true};
    return &kernel;
}

static void introduce(const s2_reply *hello)
{
    s2_kernel *const kernel = own_kernel();
    memcpy(process.name, hello->name, sizeof process.name);
    memcpy(process.versions, hello->versions, sizeof process.versions);
    process.passes = 0;
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        process.passes |= (strstr(hello->passes, s2_pass_word((s2_pass)pass)) != NULL) << pass;
    kernel->no_lse = !hello->lse;
    kernel->deterministic = hello->deterministic;
    process.elsewhere.batch_invariant = hello->batch_invariant;
    process.elsewhere.recomputes = hello->recomputes;
    process.elsewhere.on_gpu = strcmp(hello->device, "cuda") == 0;
    if (!s2_handover_tolerance(hello->rounds, &kernel->tolerance))
        kernel->tolerance = S2_TOL_ROUNDED_P;
}

static s2_status decline(s2_diag *why, const s2_reply *reply, const char *unsaid)
{
    return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s",
                       reply->reason[0] != '\0' ? reply->reason : unsaid);
}

/* Ensures that a process runs and has introduced itself. */
static s2_status ready(s2_diag *why)
{
    s2_reply hello;
    if (process.pid != 0)
        return S2_OK;
    S2_TRY(start(why));
    S2_TRY(read_reply(s2_steady_s() + process.limit_s, &hello, why));
    if (strcmp(hello.outcome, "unsupported") == 0) {
        end(true);
        return decline(why, &hello, "it does not work on this machine");
    }
    if (hello.s2 != PROTOCOL || hello.name[0] == '\0' || hello.passes[0] == '\0') {
        end(true);
        return blame(why, S2_OUTCOME_BAD_REPLY, "does not say its version of the protocol, name and passes",
                     "");
    }
    introduce(&hello);
    return S2_OK;
}

/* ------------------------------------------------------------------ the contract */

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if ((process.passes >> problem->pass & 1) == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s has no %s", process.name,
                           s2_pass_word(problem->pass));
    if (problem->cached != NULL || problem->select_pages > 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "a process reads no cache");
    return S2_OK;
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    if (state != NULL)
        s2_handover_close(state);
    s2_free(state);
}

static s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **state, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    S2_TRY(supports(device, problem, why));
    s2_handover *const handover = s2_calloc(1, sizeof *handover);
    if (handover == NULL)
        return S2_ENOMEM;
    const s2_status status = s2_handover_open(problem, handover, why);
    if (status == S2_OK)
        *state = handover;
    else
        finish(device, handover);
    return status;
}

/* Its answer to a call; after a failure its state is unknown, so it is ended. */
static s2_status conclude(const s2_reply *reply, s2_diag *why)
{
    static const struct {
        const char *word;
        s2_outcome outcome;
        const char *text;
    } failures[] = {{"failed", S2_OUTCOME_LAUNCH_FAILED, "failed"},
                    {"out_of_memory", S2_OUTCOME_OUT_OF_MEMORY, "is out of memory"},
                    {"wrong_shape", S2_OUTCOME_WRONG_SHAPE, "gives a result of another shape"}};
    if (reply->id == process.id && strcmp(reply->outcome, "ok") == 0)
        return S2_OK;
    if (reply->id == process.id && strcmp(reply->outcome, "unsupported") == 0)
        return decline(why, reply, "it does not take this problem");
    end(true);
    for (size_t nth = 0; nth < sizeof failures / sizeof *failures && reply->id == process.id; nth++)
        if (strcmp(reply->outcome, failures[nth].word) == 0)
            return blame(why, failures[nth].outcome, failures[nth].text, reply->reason);
    return blame(why, S2_OUTCOME_BAD_REPLY, "answers another question, or with no outcome of the protocol",
                 reply->outcome);
}

static s2_status exchange(const s2_buf *request, s2_reply *reply, s2_diag *why)
{
    const double deadline = s2_steady_s() + process.limit_s;
    S2_TRY(write_line(request, deadline, why));
    S2_TRY(read_reply(deadline, reply, why));
    return conclude(reply, why);
}

static s2_status ask(s2_device *device, const s2_attn_problem *problem, void *state, int32_t n_timed,
                     s2_reply *reply, s2_diag *why)
{
    s2_buf request = {0};
    S2_TRY(ready(why));
    s2_handover_print(state, device, problem, ++process.id, n_timed, &request);
    s2_status status = request.status;
    if (status == S2_OK)
        status = exchange(&request, reply, why);
    s2_buf_release(&request);
    return status;
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    s2_reply reply;
    const uint64_t inputs = s2_handover_inputs(device, problem);
    const s2_status status = ask(device, problem, state, 0, &reply, why);
    if (status == S2_OK && inputs != s2_handover_inputs(device, problem))
        return blame(why, S2_OUTCOME_OUT_OF_BOUNDS, "changed what it may only read", "an input tensor");
    return status;
}

static s2_status time_there(s2_device *device, const s2_attn_problem *problem, void *state, int32_t n,
                            float *ms, int32_t *n_made, s2_diag *why)
{
    s2_reply reply;
    S2_TRY(ask(device, problem, state, n, &reply, why));
    *n_made = s2_min_i32(reply.n_samples, n);
    memcpy(ms, reply.samples_ms, (size_t)*n_made * sizeof *ms);
    return S2_OK;
}

s2_status s2_process_open(const char *command, double limit_s, const s2_kernel **out, s2_diag *why)
{
    s2_kernel *const kernel = own_kernel();
    if (strlen(command) >= sizeof process.command)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the command is too long");
    memcpy(process.command, command, strlen(command) + 1);
    snprintf(process.name, sizeof process.name, "the command");
    process.limit_s = limit_s > 0.0 ? limit_s : 1e9;
    S2_TRY(ready(why));
    kernel->supports = supports;
    kernel->prepare = prepare;
    kernel->run = run;
    kernel->finish = finish;
    kernel->elsewhere = &process.elsewhere;
    process.elsewhere.versions = process.versions;
    process.elsewhere.time = time_there;
    *out = kernel;
    return S2_OK;
}
