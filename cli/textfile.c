#include "cli/textfile.h"

#include <string.h>

#include "base/file.h"
#include "cli/input.h"

static bool starts_with(const char *text, size_t n_bytes, const char *mark)
{
    return n_bytes >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0;
}

/* Why this is not text that can be read; NULL where it is. */
static const char *fault_of(const char *text, size_t n_bytes)
{
    if (n_bytes > S2_TEXTFILE_MOST)
        return "the file is larger than 32 MiB";
    if (starts_with(text, n_bytes, "\xff\xfe") || starts_with(text, n_bytes, "\xfe\xff"))
        return "this is UTF-16 text: save it as UTF-8";
    return memchr(text, '\0', n_bytes) != NULL ? "this is a binary file (it has a NUL byte), not text" : NULL;
}

s2_exit s2_textfile_read(s2_cli *cli, const char *path, char **text, size_t *n_bytes)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8: spreadsheets write it */
    const s2_status status = s2_bytes_read(&cli->arena, path, S2_TEXTFILE_MOST, text, n_bytes);
    if (status != S2_OK)
        return s2_input_unreadable(cli, status, path);
    const char *const fault = fault_of(*text, *n_bytes);
    if (fault != NULL) {
        s2_cli_error(cli, "%s: %s", path, fault);
        return S2_EXIT_REFUSED;
    }
    if (starts_with(*text, *n_bytes, mark)) {
        *text += sizeof mark - 1;
        *n_bytes -= sizeof mark - 1;
    }
    return S2_EXIT_OK;
}
