#include "judge/counters.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/hear.h"
#include "pattern/parse.h"

enum { LIMIT_ARGS = 48, LIMIT_PATH = 512, LIMIT_TABLE_BYTES = 1 << 20, LIMIT_SECONDS = 100 };

/* ------------------------------------------------------------------ the run */

typedef struct s2_scratch {
    char dir[LIMIT_PATH];
    char pattern[LIMIT_PATH + 16];
    char table[LIMIT_PATH + 16];
    s2_hear hear; /* what the launch wrote to its streams */
} s2_scratch;

static bool make_scratch(s2_scratch *out)
{
    const char *const where = getenv("TMPDIR");
    const int n = snprintf(out->dir, sizeof out->dir, "%s/s2-counters.XXXXXX",
                           where != NULL && where[0] != '\0' ? where : "/tmp");
    if (n >= (int)sizeof out->dir || mkdtemp(out->dir) == NULL)
        return false;
    snprintf(out->pattern, sizeof out->pattern, "%s/pattern.s2", out->dir);
    snprintf(out->table, sizeof out->table, "%s/table.csv", out->dir);
    return true;
}

static void remove_scratch(const s2_scratch *scratch)
{
    (void)unlink(scratch->pattern);
    (void)remove(scratch->table); /* whatever was made of it */
    (void)rmdir(scratch->dir);
}

static s2_status write_pattern(const s2_pattern *pattern, const char *path)
{
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    FILE *const file = text.status == S2_OK ? fopen(path, "we") : NULL;
    bool good = file != NULL && fwrite(text.data, 1, text.len, file) == text.len;
    good = file != NULL && fclose(file) == 0 && good;
    s2_buf_release(&text);
    return good ? S2_OK : S2_EUNSUPPORTED;
}

/* At most LIMIT_TABLE_BYTES of a file, or NULL. */
static char *read_text(const char *path)
{
    FILE *const file = fopen(path, "re");
    char *const text = file != NULL ? s2_malloc(LIMIT_TABLE_BYTES + 1) : NULL;
    if (text != NULL)
        text[fread(text, 1, LIMIT_TABLE_BYTES, file)] = '\0';
    if (file != NULL)
        fclose(file);
    return text;
}

/* In the child. The profiler inherits no terminal. */
static void run_profiler(const s2_scratch *scratch, const char *const *args)
{
    char self[LIMIT_PATH];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[s2_max_i64(n, 0)] = '\0';
    const char *argv[LIMIT_ARGS] = {"ncu",
                                    "--profile-from-start",
                                    "off",
                                    "--clock-control",
                                    "none",
                                    "--metrics",
                                    s2_counters_metrics,
                                    "--csv",
                                    "--page",
                                    "raw",
                                    "--print-units",
                                    "base",
                                    "--log-file",
                                    scratch->table,
                                    self,
                                    "validate"};
    int n_args = 0;
    while (argv[n_args] != NULL)
        n_args++;
    for (; *args != NULL && n_args < LIMIT_ARGS - 2; args++)
        argv[n_args++] = *args;
    argv[n_args++] = scratch->pattern;
    if (dup2(scratch->hear.child, STDOUT_FILENO) >= 0 && dup2(scratch->hear.child, STDERR_FILENO) >= 0) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp("ncu", (char *const *)(uintptr_t)argv);
    }
    _exit(errno == ENOENT ? 127 : 126);
}

/* How the profiler ended. */
typedef struct s2_end {
    int wait_status;
    bool too_late; /* it was ended */
} s2_end;

static s2_status explain(const s2_scratch *scratch, s2_end end, s2_diag *why)
{
    if (end.too_late)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "ncu took longer than %d s", LIMIT_SECONDS);
    if (WIFEXITED(end.wait_status) && WEXITSTATUS(end.wait_status) == 127 && scratch->hear.first[0] == '\0')
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "ncu (NVIDIA Nsight Compute) is not on PATH");
    char *const table = read_text(scratch->table);
    const char *blame = table != NULL ? strstr(table, "==ERROR==") : NULL;
    if (blame == NULL)
        blame = scratch->hear.first[0] != '\0' ? scratch->hear.first : "it wrote no table";
    const int n = (int)strcspn(blame, "\r\n");
    if (WIFSIGNALED(end.wait_status))
        s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "ncu was ended by signal %d (%s): %.*s",
                    WTERMSIG(end.wait_status), strsignal(WTERMSIG(end.wait_status)), n, blame);
    else
        s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "ncu measured nothing: %.*s", n, blame);
    s2_free(table);
    return S2_EUNSUPPORTED;
}

/* The profiler and what it started form a process group, which ends with it, or when it takes too long. */
static s2_end wait_for(pid_t child)
{
    enum { STEP_MS = 20 };
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000};
    s2_end end = {.too_late = true};
    for (int32_t ms = 0; ms < LIMIT_SECONDS * 1000 && end.too_late; ms += STEP_MS) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
            end.too_late = false;
        else
            nanosleep(&step, NULL);
    }
    (void)kill(-child, SIGKILL); /* before the child is reaped and its number may be another's */
    while (waitpid(child, &end.wait_status, 0) < 0 && errno == EINTR) {
    }
    return end;
}

static s2_status profile(s2_scratch *scratch, const char *const *args, s2_counters *out, s2_diag *why)
{
    fflush(NULL);
    const pid_t child = s2_hear_open(&scratch->hear, "ncu", -1) == S2_OK ? fork() : -1;
    if (child == 0)
        run_profiler(scratch, args);
    const s2_end end = child > 0 ? wait_for(child) : (s2_end){0};
    s2_hear_close(&scratch->hear);
    if (child < 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "no process can be started: %s", strerror(errno));
    char *const table = read_text(scratch->table);
    const bool good = table != NULL && s2_counters_parse(table, out) == S2_OK;
    s2_free(table);
    return good ? S2_OK : explain(scratch, end, why);
}

s2_status s2_counters_measure(const s2_pattern *pattern, const char *const *args, s2_counters *out,
                              s2_diag *why)
{
    s2_scratch scratch = {0};
    if (!make_scratch(&scratch))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "no temporary files: %s", strerror(errno));
    s2_status status = write_pattern(pattern, scratch.pattern);
    if (status == S2_OK)
        status = profile(&scratch, args, out, why);
    else
        s2_diag_set(why, status, 0, 0, 0, "no temporary files in %s", scratch.dir);
    remove_scratch(&scratch);
    return status;
}
