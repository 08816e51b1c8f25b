#include "cli/textfile.h"

#include <string.h>

#include "base/file.h"
#include "cli/input.h"

s2_exit s2_textfile_read(s2_cli *cli, const char *path, char **text, size_t *n_bytes)
{
    const s2_status status = s2_bytes_read(&cli->arena, path, S2_TEXTFILE_MOST, text, n_bytes);
    if (status != S2_OK)
        return s2_input_unreadable(cli, status, path);
    if (*n_bytes <= S2_TEXTFILE_MOST && memchr(*text, '\0', *n_bytes) == NULL)
        return S2_EXIT_OK;
    s2_cli_error(cli, "%s: %s", path,
                 *n_bytes <= S2_TEXTFILE_MOST ? "this is a binary file (it has a NUL byte), not text"
                                              : "the file is larger than 32 MiB");
    return S2_EXIT_REFUSED;
}
