/*
 * cli/check.h - findings as text and as rows, for `s2 check`, s2check and whoever shows a verdict.
 */
#ifndef S2_CLI_CHECK_H
#define S2_CLI_CHECK_H

#include "base/text.h"
#include "coverage/answer.h"
#include "db/db.h"

/* The command that shows a witness again: what comes before the option that names it, and what behind. */
typedef struct s2_replay {
    const char *program;
    const char *words; /* as a shell takes them */
} s2_replay;

/* For people. */
s2_status s2_findings_text(const s2_pattern *pattern, const char *name, s2_replay replay,
                           const s2_finding *findings, int32_t n, s2_buf *buf) S2_MUST_CHECK;

/* As it is stored, its texts in the arena; wall_us S2_DB_NONE where it was not measured. */
s2_db_check s2_finding_row(s2_arena *arena, const s2_finding *finding, const char *engine, int64_t wall_us);

#endif /* S2_CLI_CHECK_H */
