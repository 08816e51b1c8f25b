/*
 * explorer/job.h - a command of this program, run beside the one that started it.
 *
 * A job is the command itself in a process of its own: it records what the command records, it can be
 * ended at any moment, also inside a kernel, and a crash of it is its own. Its messages go through a
 * pseudo-terminal, so that it shows the progress that it shows to people.
 *
 * Ownership: s2_job_release ends a job that still runs. Threads: one job, one thread.
 */
#ifndef S2_EXPLORER_JOB_H
#define S2_EXPLORER_JOB_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

enum { S2_JOB_WORDS = 40, S2_JOB_PROGRESS_BYTES = 120, S2_JOB_LIMIT_BYTES = 1 << 20 };

typedef enum s2_job_state { S2_JOB_WAITING, S2_JOB_RUNNING, S2_JOB_ENDED } s2_job_state;

typedef struct s2_job {
    s2_arena arena; /* of the words */
    int32_t n_words;
    char *words[S2_JOB_WORDS + 1]; /* "s2", "validate", ...; NULL behind the last */
    s2_job_state state;
    bool cancelled;
    int32_t code;     /* exit code; 128 + n of signal n */
    int64_t began_us; /* Unix time */
    double wall_s;
    s2_buf text;                          /* what it said, results and messages as they came */
    char progress[S2_JOB_PROGRESS_BYTES]; /* its last line of progress, "" when there is none */
    pid_t pid;
    int out_fd;
    int err_fd;
    s2_buf line; /* of messages, not ended yet */
    double clock_s;
} s2_job;

/* A job without words; nothing runs. */
void s2_job_init(s2_job *job);
/* One more word of the command line, copied; S2_ELIMIT beyond S2_JOB_WORDS. */
s2_status s2_job_add(s2_job *job, const char *word) S2_MUST_CHECK;
/* Words between blanks; quotes are not special. */
s2_status s2_job_add_words(s2_job *job, const char *words) S2_MUST_CHECK;
/* S2_EIO with the reason in *diag: there is no more process, terminal or file to be had. */
s2_status s2_job_start(s2_job *job, s2_diag *diag) S2_MUST_CHECK;
/* Take what it said since; true when something changed. Never waits. */
bool s2_job_pump(s2_job *job);
/* Ask it to end, as Ctrl-C does: a search keeps what it found. Asked twice, it is killed. */
void s2_job_cancel(s2_job *job);
void s2_job_release(s2_job *job);
/* The command line as a person would type it. */
void s2_job_print(const s2_job *job, s2_buf *buf);

#endif /* S2_EXPLORER_JOB_H */
