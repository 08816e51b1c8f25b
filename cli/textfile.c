#include "cli/textfile.h"

#include <errno.h>

#include "base/file.h"

int s2_textfile_read(s2_cli *cli, const char *path, char **text, size_t *n_bytes)
{
    const s2_status status = s2_bytes_read(&cli->arena, path, S2_TEXTFILE_MOST, text, n_bytes);
    if (status == S2_OK && *n_bytes <= S2_TEXTFILE_MOST)
        return S2_GO_ON;
    if (status != S2_OK && status != S2_EIO)
        return s2_cli_fail(cli, status, path);
    s2_cli_error(cli, "%s: %s", path, status == S2_OK ? "is larger than 32 MiB" : s2_file_why(errno));
    return S2_EXIT_REFUSED;
}
