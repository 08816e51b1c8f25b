/*
 * explorer/job.h - a command of this program, run in the background.
 *
 * A job is the command itself in a process of its own: it records what the command records, it can be
 * ended at any moment, even inside a kernel, and if it crashes, it crashes alone. Its messages go through a
 * pseudo-terminal, so that it shows the same progress as to people.
 *
 * Ownership: s2_job_release ends a job that is still running. Threads: one job, one thread.
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
    s2_arena arena; /* holds the words */
    int32_t n_words;
    char *words[S2_JOB_WORDS + 1]; /* "s2", "validate", ...; NULL after the last */
    s2_job_state state;
    bool cancelled;
    int32_t code;     /* exit code; 128 + n for signal n */
    int64_t began_us; /* Unix time */
    double wall_s;
    s2_buf text;                          /* its results and messages, in the order they came */
    char progress[S2_JOB_PROGRESS_BYTES]; /* its last line of progress, "" when there is none */
    pid_t pid;
    int out_fd;
    int err_fd;
    s2_buf line; /* the message line not ended yet */
    double clock_s;
} s2_job;

/* A job without words, not running. */
void s2_job_init(s2_job *job);
/* One more word of the command line, copied; S2_ELIMIT beyond S2_JOB_WORDS. */
s2_status s2_job_add(s2_job *job, const char *word) S2_MUST_CHECK;
/* Words between blanks; quotes are not special. */
s2_status s2_job_add_words(s2_job *job, const char *words) S2_MUST_CHECK;
/* S2_EIO with the reason in *diag: the system grants no further process, terminal or file. */
s2_status s2_job_start(s2_job *job, s2_diag *diag) S2_MUST_CHECK;
/* Read what it has said since the last call; true when something changed. Never waits. */
bool s2_job_pump(s2_job *job);
/* Ask it to end, as Ctrl-C does: a search keeps what it found. A second call kills it. */
void s2_job_cancel(s2_job *job);
void s2_job_release(s2_job *job);
/* The command line as a person would type it. */
void s2_job_print(const s2_job *job, s2_buf *buf);

#endif /* S2_EXPLORER_JOB_H */
