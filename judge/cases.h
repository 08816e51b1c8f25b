/*
 * judge/cases.h - the same kernel at other shapes and ranges of scores than the one that was asked for.
 *
 * Many kernels are right for one sequence with as many queries as keys and wrong beside it. The cases are small,
 * whatever length was asked for (docs/judging-your-kernel.md has the table), and each is judged like a request of
 * its own. Threads: as the device.
 */
#ifndef S2_JUDGE_CASES_H
#define S2_JUDGE_CASES_H

#include "judge/workload.h"

/*
 * Judge every case but S2_CASE_BATCH of a forward, which judge/batch.c has judged; the first that convicts ends it,
 * and *out has its verdict. A kernel may refuse any: out->cases says which were judged.
 */
s2_status s2_cases_judge(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                         s2_validation *out, s2_diag *why) S2_MUST_CHECK;

/*
 * What became of a case: the status of its run, and its verdict. Moves a conviction into *out, its reason behind the
 * name of the case.
 */
s2_status s2_case_end(s2_case_kind which, s2_status status, const s2_diag *refusal, const s2_validation *one,
                      s2_validation *out);

#endif /* S2_JUDGE_CASES_H */
