/*
 * cli/gpufile.h - the GPU of --gpu: a name of the built-in table, or the user's own file.
 */
#ifndef S2_CLI_GPUFILE_H
#define S2_CLI_GPUFILE_H

#include "cli/cli.h"
#include "sim/gpu.h"

/*
 * A name with a dot or a slash is a file like those of sim/gpus. S2_EXIT_OK, or the exit code after a message.
 */
s2_exit s2_gpufile_read(s2_cli *cli, const char *name, s2_gpu *out);

#endif /* S2_CLI_GPUFILE_H */
