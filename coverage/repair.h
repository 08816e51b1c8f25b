/*
 * coverage/repair.h - small changes of a pattern under which a violated property holds, each proved.
 *
 * A repair is a pattern, so that it can be applied and priced, and the words that say what was changed. None
 * is offered that was not proved for the scope of the finding.
 *
 * Ownership: everything lives in the caller's arena. Threads: no state.
 */
#ifndef S2_COVERAGE_REPAIR_H
#define S2_COVERAGE_REPAIR_H

#include "coverage/prove.h"

typedef struct s2_repair {
    const char *change; /* "stride 8", "phase kv", "kv 7: dense": a few letters */
    const char *words;  /* a sentence */
    s2_pattern pattern;
} s2_repair;

enum { S2_REPAIRS = 8 };

/* Those of a finding that is violated, the smallest change first; *n is 0 where none is known. S2_ENOMEM. */
s2_status s2_repairs_find(s2_arena *arena, const s2_pattern *pattern, const s2_finding *finding,
                          s2_repair repairs[S2_REPAIRS], int32_t *n) S2_MUST_CHECK;

#endif /* S2_COVERAGE_REPAIR_H */
