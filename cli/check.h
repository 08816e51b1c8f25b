/*
 * cli/check.h - findings as text and as JSON, for `s2 check`, s2check and whoever shows a verdict.
 */
#ifndef S2_CLI_CHECK_H
#define S2_CLI_CHECK_H

#include "base/text.h"
#include "coverage/prove.h"
#include "db/db.h"

enum { S2_MOST_REQUIREMENTS = 16 };

/*
 * "rows,union,ranks:2" to requirements; S2_EINVAL with the reason in *diag (column of the word). The
 * arguments are checked against the pattern by s2_prove().
 */
s2_status s2_requirements_parse(const char *list, s2_requirement *out, int32_t *n,
                                s2_diag *diag) S2_MUST_CHECK;

/* "ranks:2"; at least 32 bytes. */
void s2_requirement_name(const s2_requirement *requirement, char *out, size_t cap);

/* violated, unknown or holds, over the required findings. */
s2_verdict s2_findings_verdict(const s2_finding *findings, int32_t n);

/* One s2check/1 object and a line end. */
s2_status s2_findings_json(const s2_pattern *pattern, const char *name, const s2_finding *findings, int32_t n,
                           int64_t scope_tok, s2_buf *buf) S2_MUST_CHECK;

/* For people; `operand` is how the pattern was named, for the command that replays a witness. */
s2_status s2_findings_text(const s2_pattern *pattern, const char *name, const char *operand,
                           const s2_finding *findings, int32_t n, s2_buf *buf) S2_MUST_CHECK;

/* As it is stored, its texts in the arena; wall_us S2_DB_NONE where it was not measured. */
s2_db_check s2_finding_row(s2_arena *arena, const s2_finding *finding, const char *engine, int64_t wall_us);

#endif /* S2_CLI_CHECK_H */
