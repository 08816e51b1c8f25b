/*
 * base/hear.h - what a child process says on its standard error, on its way to ours.
 *
 * A child that is given our terminal can make it obey: escape sequences, bells, another title. It gets a pipe
 * instead, and a thread here copies its lines as they come, cleaned (base/text.h), each under the child's name. Of
 * all children of one s2_hear S2_HEAR_BYTES are copied; the rest is read, so that no child waits, and left out.
 *
 *     s2_hear hear = {0};
 *     s2_hear_open(&hear, "dot", STDERR_FILENO);
 *     ...                             in the child: dup2(hear.child, STDERR_FILENO)
 *     s2_hear_close(&hear);           when the child was waited for
 *
 * Threads: one that opens and closes.
 */
#ifndef S2_BASE_HEAR_H
#define S2_BASE_HEAR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { S2_HEAR_BYTES = 1 << 16, S2_HEAR_LINE_BYTES = 1000 };

/* All zeros before it is opened, and again after it was closed, but for what was said. */
typedef struct s2_hear {
    int child; /* what a child's standard error becomes */
    int from;
    int stop[2]; /* a byte in it says that the children are gone */
    int to;
    bool open;
    pthread_t thread;
    char name[64];
    size_t n_said; /* bytes of all children */
    size_t n;      /* of the line that has no end yet */
    char line[S2_HEAR_LINE_BYTES];
    char first[240]; /* cleaned: the first line that is not empty, for a reason; "" where there is none */
} s2_hear;

/*
 * Lines go to the descriptor `to`; -1: nowhere, `first` alone is kept. S2_ENOMEM: no pipe or no thread, and nothing
 * is open.
 */
s2_status s2_hear_open(s2_hear *hear, const char *name, int to) S2_MUST_CHECK;
/* All that was written before is copied when it returns, also where a child of a child holds the pipe open. */
void s2_hear_close(s2_hear *hear);

#endif /* S2_BASE_HEAR_H */
