/*
 * judge/reply.h - one line of a foreign process, a JSON object (members: docs/judging-your-kernel.md).
 *
 * Threads: no state.
 */
#ifndef S2_JUDGE_REPLY_H
#define S2_JUDGE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { S2_LIMIT_REPLY_SAMPLES = 64 };

/* Missing members are 0 or "". Texts are cleaned and cut. */
typedef struct s2_reply {
    int64_t s2; /* version of the protocol, in the first line */
    int64_t id;
    char outcome[24];
    char reason[200];
    char name[40];
    char passes[40];
    char versions[200];
    char rounds[16];
    char device[16];
    bool lse;
    bool deterministic;
    bool batch_invariant;
    bool recomputes;
    int32_t n_samples; /* of the runs that it was asked to time */
    float samples_ms[S2_LIMIT_REPLY_SAMPLES];
} s2_reply;

/* S2_EPARSE: the line is no JSON object; S2_ENOMEM. Unknown members are ignored. */
s2_status s2_reply_read(const char *line, s2_reply *out) S2_MUST_CHECK;

#endif /* S2_JUDGE_REPLY_H */
