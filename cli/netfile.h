/*
 * cli/netfile.h - the model of --model: a name of the built-in table, or the user's own config.json.
 */
#ifndef S2_CLI_NETFILE_H
#define S2_CLI_NETFILE_H

#include "cli/cli.h"
#include "sim/net.h"

/*
 * A name that is not in the table and is a file is read as a Hugging Face config, a folder by the one in it;
 * *is_file says which it was. The net of a file is called after it, or after its folder where it is a
 * config.json. S2_EXIT_OK, or the exit code after a message.
 */
s2_exit s2_netfile_read(s2_cli *cli, const char *name, s2_net *out, bool *is_file);

#endif /* S2_CLI_NETFILE_H */
