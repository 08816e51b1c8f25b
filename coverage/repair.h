/*
 * coverage/repair.h - small changes of a pattern under which a violated property holds, each proved.
 *
 * A repair is a changed pattern, so that it can be applied and priced, and a record of the change, which
 * words/explain.h puts in a sentence. Every repair offered was proved for the scope of the finding.
 *
 * Ownership: everything lives in the caller's arena. Threads: no state.
 */
#ifndef S2_COVERAGE_REPAIR_H
#define S2_COVERAGE_REPAIR_H

#include "coverage/prove.h"

typedef enum s2_repair_kind {
    S2_REPAIR_STRIDE,             /* a shorter stride */
    S2_REPAIR_ROTATE,             /* the stride rotated over heads, each its width from the last */
    S2_REPAIR_SPREAD,             /* a rotation in steps of the stride's width */
    S2_REPAIR_STRIDE_AND_ROTATE,  /* both, over KV heads */
    S2_REPAIR_NEW_STRIDE,         /* one divided among the KV heads, where there was none */
    S2_REPAIR_DENSE_KV,           /* a dense KV head in the failing layers */
    S2_REPAIR_LOCAL,              /* `local 1` */
    S2_REPAIR_STRIDE_FOR_DILATED, /* `stride` in place of `dilated` */
} s2_repair_kind;

typedef struct s2_repair {
    s2_repair_kind kind;
    bool by_head;          /* for S2_REPAIR_ROTATE: over query heads, else over KV heads */
    int32_t kv_head;       /* for S2_REPAIR_DENSE_KV */
    int64_t stride;        /* if the repair has one, in blocks */
    int64_t width;         /* of the strides that change, the largest */
    int64_t stride_before; /* for S2_REPAIR_STRIDE: the largest one */
    char change[64];       /* "stride 8", "phase kv", "kv 7: dense": the change in the language */
    s2_pattern pattern;
} s2_repair;

enum { S2_REPAIRS = 8 };

/* The repairs of a violated finding, smallest change first; *n is 0 if none is known. S2_ENOMEM. */
s2_status s2_repairs_find(s2_arena *arena, const s2_pattern *pattern, const s2_finding *finding,
                          s2_repair repairs[S2_REPAIRS], int32_t *n) S2_MUST_CHECK;

#endif /* S2_COVERAGE_REPAIR_H */
