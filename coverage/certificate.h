/*
 * coverage/certificate.h - a text that lets another program check a verdict of "holds for every length".
 *
 * A certificate holds the canonical pattern, its hash and the claims; the checker, s2cert
 * (cert/cert.h), tests every pair that the theorem of docs/proof.md leaves against its own reading
 * of the definition, and shares no code with this program.
 *
 * Ownership: the text is the caller's. Threads: no state.
 */
#ifndef S2_COVERAGE_CERTIFICATE_H
#define S2_COVERAGE_CERTIFICATE_H

#include "base/text.h"
#include "coverage/prove.h"

/*
 * Append the certificate of n >= 1 findings of this pattern to *out. S2_EUNSUPPORTED with the reason in
 * *diag when a finding is not "holds for every length", when a head has random, mask or dynamic terms, or
 * when s2cert would need more steps than it allows itself; S2_ENOMEM. A finding given twice is claimed once;
 * on failure *out keeps its contents.
 */
s2_status s2_certificate_write(const s2_pattern *pattern, const s2_finding *findings, int32_t n, s2_buf *out,
                               s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_COVERAGE_CERTIFICATE_H */
