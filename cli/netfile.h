/*
 * cli/netfile.h - the model of --model: a name of the built-in table, or the user's own config.json.
 */
#ifndef S2_CLI_NETFILE_H
#define S2_CLI_NETFILE_H

#include "cli/cli.h"
#include "sim/net.h"

/*
 * A name that is not in the table but exists as a file is read as a Hugging Face config; for a folder, the
 * config in it. *is_file says whether it was a file. Its net is named after the file, or after the folder of
 * a config.json. S2_EXIT_OK, or the exit code after a message.
 */
s2_exit s2_netfile_read(s2_cli *cli, const char *name, s2_net *out, bool *is_file);

#endif /* S2_CLI_NETFILE_H */
