/*
 * judge/plug.h - somebody else's kernel (a shared object of judge/s2_kernel_plug.h) as an s2_kernel.
 *
 * Every call runs in a child process on shared memory of the CPU device (s2_device_share), so that a crash
 * becomes a status that names the signal, and stray writes are seen. A hang is ended. It computes whole
 * problems, not selections of items.
 *
 * Ownership: one plug per process, for as long as the process runs. Threads: one.
 */
#ifndef S2_JUDGE_PLUG_H
#define S2_JUDGE_PLUG_H

#include "kernels/kernel.h"

/*
 * S2_EUNSUPPORTED with the reason where the object cannot be loaded, exports no pass or was built with
 * another version of the header; S2_ENOMEM. A call that takes longer than limit_s seconds (0: any time) is
 * ended, and *why's code is then the s2_outcome.
 */
s2_status s2_plug_open(const char *path, double limit_s, const s2_kernel **out, s2_diag *why) S2_MUST_CHECK;

#endif /* S2_JUDGE_PLUG_H */
