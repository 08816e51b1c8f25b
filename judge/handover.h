/*
 * judge/handover.h - a problem as one line of JSON for a foreign process, with the files that hold its
 * tensors and masks (docs/judging-your-kernel.md, *The protocol*).
 *
 * Ownership: s2_handover_close releases what open made. Threads: one.
 */
#ifndef S2_JUDGE_HANDOVER_H
#define S2_JUDGE_HANDOVER_H

#include "base/text.h"
#include "kernels/kernel.h"

enum { S2_LIMIT_MASK_BYTES = 1 << 30 };

/* Every pair of a problem, packed, and whether all heads read the same plain shape. */
typedef struct s2_handover {
    int file; /* the masks'; -1 before open */
    uint8_t *bits;
    size_t n_bytes;
    int64_t
        window_tok; /* each query reads its last window_tok keys, INT64_MAX: all of them; 0: no such shape */
    int64_t longest_tok; /* its longest row so far */
    bool full;           /* each query reads every key, later ones too */
} s2_handover;

/* S2_EUNSUPPORTED where the masks would take more than S2_LIMIT_MASK_BYTES; S2_ENOMEM. */
s2_status s2_handover_open(const s2_attn_problem *problem, s2_handover *out, s2_diag *why) S2_MUST_CHECK;
void s2_handover_close(s2_handover *handover);

/* Append the line with its newline; buf->status says whether there was memory. n_timed: extra runs to time, or 0. */
void s2_handover_print(const s2_handover *handover, const s2_device *device, const s2_attn_problem *problem,
                       int64_t id, int32_t n_timed, s2_buf *buf);

/* What a kernel of somebody else may be off by: it says that "output", "weights", "sums" or "scores" are rounded. */
bool s2_handover_tolerance(const char *rounds, s2_tolerance *out);

/* A digest of everything that the pass may only read: if it differs after the call, an input was changed. */
uint64_t s2_handover_inputs(const s2_device *device, const s2_attn_problem *problem);

#endif /* S2_JUDGE_HANDOVER_H */
