/*
 * cli/foreign.h - the seam between PATTERN arguments and export/; recognises foreign configs by content.
 */
#ifndef S2_CLI_FOREIGN_H
#define S2_CLI_FOREIGN_H

#include "cli/options.h"
#include "export/restriction.h"

/*
 * The import hook of s2_cli_hooks (cli/cli.h). What the format leaves unsaid goes to stderr.
 */
s2_status s2_foreign_hook(s2_cli *cli, const char *path, const char *text, size_t n_bytes, s2_pattern *out,
                          const s2_format **used, s2_diag *diag);

/*
 * Print what a file says that a pattern cannot hold, one line each: that it was changed, a key that is
 * ignored. Keeps its longest context for s2_input_len() and releases `said`.
 */
void s2_foreign_said(s2_cli *cli, const char *path, s2_said *said);

/* The hook that finds the file representing a folder. */
const char *s2_foreign_in_folder(s2_cli *cli, const char *folder);

/*
 * The --set KEY=VALUE of a command line; S2_EXIT_OK, or S2_EXIT_USAGE after a message. Settings that a
 * PATTERN read before may have used are optional.
 */
s2_exit s2_foreign_settings(s2_cli *cli, s2_settings *out);

/*
 * List the formats that can be read (or written), one per line, with the settings they know: the named ones,
 * or all if no name is given. S2_EXIT_USAGE for an unknown name.
 */
s2_exit s2_foreign_list(s2_cli *cli, bool written, int32_t n_names, const char *const *names);

/* "hf, vllm, ..." in the order of the table: the formats that can be written, or read. */
void s2_foreign_names(s2_buf *buf, bool written);

/* --exportable (formats: its list, or NULL) and --dense-layers. S2_EXIT_OK, or S2_EXIT_USAGE after a message. */
s2_exit s2_foreign_restriction(s2_cli *cli, const s2_args *args, const char *formats, int64_t len_tok,
                               s2_restriction *out);

/* Write side files of an import next to `path` (NULL: the working directory); S2_EXIT_OK or an exit code. */
s2_exit s2_foreign_write_side(s2_cli *cli, const s2_fileset *side, const char *path);

#endif /* S2_CLI_FOREIGN_H */
