/*
 * coverage/answer.h - properties by the names that a person uses, and the verdict over several.
 *
 * Threads: no state.
 */
#ifndef S2_COVERAGE_ANSWER_H
#define S2_COVERAGE_ANSWER_H

#include "coverage/prove.h"

enum { S2_MOST_REQUIREMENTS = 16 };

/*
 * Parse "rows,union,ranks:2" into requirements; S2_EINVAL with the reason in *diag (column of the word). The
 * arguments are checked against the pattern by s2_prove().
 */
s2_status s2_requirements_parse(const char *list, s2_requirement *out, int32_t *n,
                                s2_diag *diag) S2_MUST_CHECK;

/* "ranks:2"; `out` needs at least 32 bytes. */
void s2_requirement_name(const s2_requirement *requirement, char *out, size_t cap);

/* violated, unknown or holds, over the required findings. */
s2_verdict s2_findings_verdict(const s2_finding *findings, int32_t n);

/*
 * One more than the longest run of layers that fail `finding`, or keep a state and no keys: of so many layers in a row
 * one is not known to lack anything.
 */
int32_t s2_finding_depth(const s2_pattern *pattern, const s2_finding *finding);

#endif /* S2_COVERAGE_ANSWER_H */
