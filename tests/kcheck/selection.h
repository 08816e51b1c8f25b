/*
 * tests/kcheck/selection.h - a decode kernel that selects pages, judged by the definition in fp64.
 */
#ifndef S2_TESTS_KCHECK_SELECTION_H
#define S2_TESTS_KCHECK_SELECTION_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * True when a batch of two unequal sequences comes out right with `budget` pages a KV head; else the reason.
 */
bool s2_selection_judge(s2_device *device, const s2_kernel *kernel, int32_t budget, char *reason,
                        size_t reason_cap);

#ifdef __cplusplus
}
#endif

#endif /* S2_TESTS_KCHECK_SELECTION_H */
