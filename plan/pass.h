/*
 * plan/pass.h - the three ways in which attention is run.
 *
 * FORWARD also covers chunked prefill (fewer queries than keys). DECODE has at most 16 queries and splits the
 * keys over the chip. A phase (prefill, decode, train) is what a user does; a pass is what a kernel does.
 *
 * Threads: no state.
 */
#ifndef S2_PLAN_PASS_H
#define S2_PLAN_PASS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_pass { S2_PASS_FORWARD, S2_PASS_BACKWARD, S2_PASS_DECODE, S2_N_PASSES } s2_pass;

/* "forward", "backward", "decode"; never NULL for a valid pass. */
const char *s2_pass_word(s2_pass pass);

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_PASS_H */
