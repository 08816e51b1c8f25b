#include "cli/foreign.h"

#include <stdio.h>
#include <string.h>

s2_status s2_foreign_hook(s2_cli *cli, const char *path, const char *text, size_t n_bytes, s2_pattern *out,
                          s2_diag *diag)
{
    s2_buf notes = {0};
    s2_fileset side = {.arena = &cli->arena};
    const char *const dir = s2_path_dir(&cli->arena, path);
    s2_source source = {.arena = &cli->arena,
                        .name = s2_path_title(&cli->arena, path),
                        .bytes = text,
                        .n_bytes = n_bytes,
                        .finder = {.dir = dir},
                        .notes = &notes,
                        .side = &side,
                        .diag = diag};
    const s2_format *used = NULL;
    const s2_status status = dir != NULL ? s2_import_run(&source, NULL, &used, out) : S2_ENOMEM;
    if (status == S2_OK)
        s2_cli_error(cli, "%s is read as %s: %s (s2 import shows what it leaves unsaid)", path, used->name,
                     used->summary);
    s2_buf_release(&notes);
    return status;
}

int s2_foreign_settings(s2_cli *cli, const s2_args *args, s2_settings *out)
{
    enum { MOST = 64 };
    s2_setting *const list = S2_NEW(&cli->arena, s2_setting, MOST);
    int32_t at = 0, n = 0;
    if (list == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "--set");
    for (const char *text = s2_args_next(args, "set", &at); text != NULL;
         text = s2_args_next(args, "set", &at)) {
        const char *const equals = strchr(text, '=');
        if (equals == NULL || equals == text || n == MOST) {
            s2_cli_error(cli, "--set %s: expected KEY=VALUE", text);
            return S2_EXIT_USAGE;
        }
        const char *const key = s2_arena_strndup(&cli->arena, text, (size_t)(equals - text));
        if (key == NULL)
            return s2_cli_fail(cli, S2_ENOMEM, "--set");
        list[n++] = (s2_setting){key, equals + 1};
    }
    *out = (s2_settings){list, n};
    return S2_GO_ON;
}

void s2_foreign_names(s2_buf *buf, bool written)
{
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        if (written ? format->export != NULL : format->import != NULL)
            s2_buf_printf(buf, "%s%s", buf->len != 0 ? ", " : "", format->name);
    }
}

int s2_foreign_list(s2_cli *cli, bool written)
{
    s2_buf buf = {0};
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        if (written ? format->export == NULL : format->import == NULL)
            continue;
        s2_buf_printf(&buf, "%-14s %s\n", format->name, format->summary);
        if (format->settings != NULL && format->settings[0] != '\0')
            s2_buf_printf(&buf, "%-14s   --set: %s\n", "", format->settings);
    }
    const int end = s2_cli_print(cli, &buf);
    return end == S2_GO_ON ? S2_EXIT_OK : end;
}

int s2_foreign_write_side(s2_cli *cli, const s2_fileset *side, const char *path)
{
    const char *const dir = path != NULL ? s2_path_dir(&cli->arena, path) : ".";
    for (int32_t f = 0; f < side->n_files && dir != NULL; f++) {
        char target[4096];
        s2_diag diag = {0};
        snprintf(target, sizeof target, "%s/%s", dir, side->files[f].name);
        const s2_status status = s2_file_write(target, side->files[f].bytes, side->files[f].n_bytes, &diag);
        if (status != S2_OK) {
            s2_cli_error(cli, "%s", diag.msg);
            return s2_exit_of(status);
        }
    }
    return dir != NULL ? S2_GO_ON : s2_cli_fail(cli, S2_ENOMEM, "output");
}
