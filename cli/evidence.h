/*
 * cli/evidence.h - what the database knows of the last validation of a pattern, for exported files.
 *
 * Threads: those of the s2_cli given.
 */
#ifndef S2_CLI_EVIDENCE_H
#define S2_CLI_EVIDENCE_H

#include "cli/cli.h"
#include "pattern/parse.h"

/*
 * What the last run that judged the pattern found, over all layers and lengths of that run, or that there is none; an
 * exit code and a message where the database cannot be read. The database is neither waited for nor created. The
 * words live in the arena of cli.
 */
s2_exit s2_evidence_words(s2_cli *cli, const s2_pattern *pattern, const char **words) S2_MUST_CHECK;

#endif /* S2_CLI_EVIDENCE_H */
