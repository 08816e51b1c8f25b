#include "cli/plugged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "judge/plug.h"
#include "judge/process.h"

bool s2_plugged_is(const char *kernel)
{
    return strpbrk(kernel, "/ ") != NULL;
}

s2_exit s2_kernel_of_name(s2_cli *cli, const char *name, const s2_kernel **out)
{
    *out = s2_kernel_find(name);
    if (*out != NULL)
        return S2_EXIT_OK;
    s2_cli_error(cli, "there is no kernel '%s' in this build", name);
    if (access(name, F_OK) == 0 || strchr(name, '.') != NULL) {
        const bool python = strlen(name) > 3 && strcmp(name + strlen(name) - 3, ".py") == 0;
        s2_cli_hint(cli,
                    python ? "a program is named as the command that starts it: --kernel 'python3 %s'"
                           : "a file is named with a slash, --kernel ./%s; a program as a command",
                    name);
        return S2_EXIT_USAGE;
    }
    int32_t distance = S2_NAME_FAR;
    const char *nearest = NULL;
    for (int32_t at = 0; s2_kernel_at(at) != NULL; at++)
        nearest = s2_text_nearer(name, s2_kernel_at(at)->traits->name, nearest, &distance);
    if (nearest != NULL)
        s2_cli_hint(cli, "did you mean %s?", nearest);
    s2_cli_hint(cli, "somebody else's kernel is a file or the command that starts it: --kernel "
                     "./mine.so, --kernel 'python3 adapters/flex.py compiled'");
    for (int32_t at = 0; s2_kernel_at(at) != NULL; at++)
        s2_cli_hint(cli, "%s: %s", s2_kernel_at(at)->traits->name, s2_kernel_at(at)->summary);
    return S2_EXIT_USAGE;
}

static bool is_object(const char *kernel)
{
    const size_t n = strlen(kernel);
    return n > 3 && strcmp(kernel + n - 3, ".so") == 0 && strchr(kernel, ' ') == NULL;
}

/* Let any command `import s2_adapter`, from the tree's folder or the one next to the installed program. */
static void find_adapters(void)
{
    static const char *const places[] = {"../../adapters", "../share/s2/adapters"};
    char self[2048], folder[2200], file[2300], path[6400];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    const char *const old = getenv("PYTHONPATH");
    if (n <= 0)
        return;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t place = 0; place < sizeof places / sizeof *places; place++) {
        snprintf(folder, sizeof folder, "%s/%s", self, places[place]);
        snprintf(file, sizeof file, "%s/s2_adapter.py", folder);
        if (access(file, R_OK) != 0)
            continue;
        snprintf(path, sizeof path, "%.4000s%s%s", old != NULL ? old : "", old != NULL ? ":" : "", folder);
        setenv("PYTHONPATH", path, 1);
        return;
    }
}

s2_exit s2_plugged_open(s2_cli *cli, s2_device *device, const char *kernel, double limit_s,
                        const s2_kernel **out)
{
    const bool live = isatty(STDERR_FILENO) && !cli->quiet;
    s2_diag why = {0};
    s2_status status = s2_device_share(device, &why);
    if (!is_object(kernel))
        find_adapters();
    if (live)
        fprintf(cli->err, "\r%.60s is started\033[K", kernel);
    if (status == S2_OK)
        status = is_object(kernel) ? s2_plug_open(kernel, limit_s, out, &why)
                                   : s2_process_open(kernel, limit_s, out, &why);
    if (live)
        fputs("\r\033[K", cli->err);
    if (status == S2_OK)
        return S2_EXIT_OK;
    s2_cli_error(cli, "--kernel %s: %s", kernel, s2_diag_text(&why, status));
    return S2_EXIT_ENVIRONMENT;
}

void s2_plugged_close(void)
{
    s2_process_close();
}
