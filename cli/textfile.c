#include "cli/textfile.h"

enum { CHUNK = 1 << 16 };

static bool read_all(s2_cli *cli, FILE *file, s2_buf *buf)
{
    char *const chunk = s2_arena_alloc(&cli->arena, CHUNK, 1);
    size_t n = chunk != NULL ? fread(chunk, 1, CHUNK, file) : 0;
    while (n > 0 && buf->len <= S2_TEXTFILE_MOST) {
        s2_buf_add(buf, chunk, n);
        n = fread(chunk, 1, CHUNK, file);
    }
    return chunk != NULL && ferror(file) == 0 && buf->status == S2_OK;
}

int s2_textfile_read(s2_cli *cli, const char *path, char **text, size_t *n_bytes)
{
    FILE *const file = fopen(path, "rbe");
    s2_buf buf = {0};
    if (file == NULL) {
        s2_cli_error(cli, "%s: cannot be read", path);
        return S2_EXIT_USAGE;
    }
    const bool good = read_all(cli, file, &buf);
    fclose(file);
    int end = S2_GO_ON;
    if (!good || buf.len > S2_TEXTFILE_MOST) {
        s2_cli_error(cli, good ? "%s: is larger than 32 MiB" : "%s: cannot be read", path);
        end = good ? S2_EXIT_REFUSED : S2_EXIT_USAGE;
    } else {
        *text = s2_arena_strndup(&cli->arena, buf.len > 0 ? buf.data : "", buf.len);
        *n_bytes = buf.len;
        end = *text != NULL ? S2_GO_ON : s2_cli_fail(cli, S2_ENOMEM, path);
    }
    s2_buf_release(&buf);
    return end;
}
