/*
 * cli/found.h - what a command adds to the front of a search (search/found.h): the model that it is for, read
 * from a file or a table (found_own.c), and a place in the database (found_store.c).
 */
#ifndef S2_CLI_FOUND_H
#define S2_CLI_FOUND_H

#include "cli/cli.h"
#include "search/found.h"

/* A foreign file as a pattern; prints only what its reader must hear whatever the pattern is for. */
s2_status s2_found_import(s2_cli *cli, const char *path, s2_pattern *out, s2_diag *diag) S2_MUST_CHECK;
/*
 * The model whose shape the candidates have, by its name or its config, and its own layers; says why they are
 * not known. A config without the widths of the whole model is searched for attention alone.
 */
s2_exit s2_found_read_model(s2_cli *cli, s2_found *found, const char *model, bool *is_file);
s2_exit s2_found_store(s2_cli *cli, const s2_found *found);

#endif /* S2_CLI_FOUND_H */
