/*
 * cli/check.h - findings as text and as rows, for `s2 check`, s2check and others that show verdicts.
 */
#ifndef S2_CLI_CHECK_H
#define S2_CLI_CHECK_H

#include "base/text.h"
#include "coverage/answer.h"
#include "db/db.h"

/* The command that shows a witness again: the parts before and after the option that names it. */
typedef struct s2_replay {
    const char *program;
    const char *words; /* quoted for a shell */
} s2_replay;

/* For people. */
s2_status s2_findings_text(const s2_pattern *pattern, const char *name, s2_replay replay,
                           const s2_finding *findings, int32_t n, s2_buf *buf) S2_MUST_CHECK;

/* The row to store, with its texts in the arena; wall_us is S2_DB_NONE if not measured. */
s2_db_check s2_finding_row(s2_arena *arena, const s2_finding *finding, const char *engine, int64_t wall_us);

#endif /* S2_CLI_CHECK_H */
