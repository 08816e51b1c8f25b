/*
 * judge/process.h - somebody else's kernel, a command that answers in lines of JSON, as an s2_kernel.
 *
 *     s2 validate DESIGN --device cpu --kernel 'python3 adapters/sdpa.py math'
 *
 * The command is started once, and again after each failure; it gets one line per call and maps the files
 * that the CPU device shares (s2_device_share). Its failures are statuses, with the s2_outcome as *why's
 * code, so that a timeout, an invalid answer and a result of the wrong shape are reported differently.
 *
 * Ownership: one process at a time, ended by s2_process_close or with the program. Threads: one.
 */
#ifndef S2_JUDGE_PROCESS_H
#define S2_JUDGE_PROCESS_H

#include "kernels/kernel.h"

/* S2_EUNSUPPORTED with the reason where the command does not introduce itself within limit_s; S2_ENOMEM. */
s2_status s2_process_open(const char *command, double limit_s, const s2_kernel **out,
                          s2_diag *why) S2_MUST_CHECK;
void s2_process_close(void);

#endif /* S2_JUDGE_PROCESS_H */
