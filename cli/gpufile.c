#include "cli/gpufile.h"

#include <string.h>

#include "cli/input.h"
#include "cli/textfile.h"

static s2_exit read_file(s2_cli *cli, const char *path, s2_gpu *gpu)
{
    char *text;
    size_t n;
    S2_CLI_TRY(s2_textfile_read(cli, path, &text, &n));
    const char *const slash = strrchr(path, '/');
    s2_diag diag = {0};
    const s2_status status = s2_gpu_parse(slash != NULL ? slash + 1 : path, text, n, gpu, &diag);
    return status == S2_OK ? S2_EXIT_OK : s2_input_refuse(cli, status, path, text, n, &diag);
}

/* "2 x h200", "8xH100": what s2 search takes in words. */
static bool counts_gpus(const char *name)
{
    const char *const rest = name + strspn(name, "0123456789");
    return rest > name && strchr("x* ", *rest) != NULL && *rest != '\0';
}

s2_exit s2_gpufile_read(s2_cli *cli, const char *name, s2_gpu *out)
{
    s2_diag diag = {0};
    if (strpbrk(name, "./") != NULL)
        return read_file(cli, name, out);
    const s2_status status = s2_gpu_find(name, out, &diag);
    if (status == S2_OK)
        return S2_EXIT_OK;
    const s2_exit code = s2_cli_refuse(cli, status, &diag);
    if (status == S2_EINVAL && counts_gpus(name))
        s2_cli_hint(cli,
                    "one kind of GPU is named here; --tp, --pp, --cp and --ep say how many share the work: "
                    "--gpu h200 --tp 2");
    else if (status == S2_EINVAL)
        s2_cli_hint(cli, "s2 sim --list shows the built-in ones; a file like those of sim/gpus is taken too: "
                         "--gpu ./FILE");
    return code;
}
