/*
 * coverage/certificate.h - a text that lets another program check a verdict of "holds for every length".
 *
 * A certificate holds the canonical pattern, its hash and the claims; the checker, s2cert
 * (cli/main_s2cert.c), asks its own reading of the definition for every pair that the theorem of
 * docs/proof.md leaves, and shares no code with this one.
 *
 * Ownership: scratch comes from the caller's arena and is given back. Threads: no state.
 */
#ifndef S2_COVERAGE_CERTIFICATE_H
#define S2_COVERAGE_CERTIFICATE_H

#include "base/text.h"
#include "coverage/prove.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Append the certificate of n >= 1 findings of this pattern to *out. S2_EUNSUPPORTED with the reason in
 * *diag when a finding is not "holds for every length", when a head has random, mask or dynamic terms, or
 * when the pattern would take more than seconds to check; S2_ENOMEM. *out is untouched on failure.
 */
s2_status s2_certificate_write(s2_arena *arena, const s2_pattern *pattern, const s2_finding *findings,
                               int32_t n, s2_buf *out, s2_diag *diag) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_COVERAGE_CERTIFICATE_H */
