#include "cli/foreign.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * --set in the form that formats expect. An export uses one list for two formats: the PATTERN's ignores what
 * only `target` knows, and the target ignores what the PATTERN's used.
 */
static s2_status read_settings(s2_cli *cli, const s2_format *target, s2_settings *out, s2_diag *diag)
{
    s2_setting *const list = S2_NEW(&cli->arena, s2_setting, cli->n_sets + 2);
    const bool taken = target == NULL && cli->sets_used;
    bool has_len = cli->len == NULL;
    if (list == NULL)
        return S2_ENOMEM;
    for (int32_t n = 0; n < cli->n_sets; n++) {
        const char *const equals = strchr(cli->sets[n], '=');
        if (equals == NULL || equals == cli->sets[n])
            return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "--set %.80s: expected KEY=VALUE", cli->sets[n]);
        const char *const key = s2_arena_strndup(&cli->arena, cli->sets[n], (size_t)(equals - cli->sets[n]));
        if (key == NULL)
            return S2_ENOMEM;
        for (int32_t other = 0; other < n; other++)
            if (strcmp(list[other].key, key) == 0)
                return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "--set %.80s is given twice", key);
        list[n] =
            (s2_setting){key, equals + 1, taken || (target != NULL && s2_format_takes(target, key)), false};
        has_len |= strcmp(key, "len") == 0;
    }
    if (!has_len)
        list[cli->n_sets] = (s2_setting){"len", cli->len, true, true};
    *out = (s2_settings){list, cli->n_sets + !has_len};
    return S2_OK;
}

void s2_foreign_said(s2_cli *cli, const char *path, s2_said *said)
{
    const char *rest = said->warnings.data != NULL ? said->warnings.data : "";
    while (*rest != '\0') {
        const size_t n = strcspn(rest, "\n");
        s2_cli_error(cli, "%s: %.*s", path, (int)n, rest);
        rest += n + (rest[n] == '\n');
    }
    if (said->most_tok > 0 && (cli->most.n_tok == 0 || said->most_tok < cli->most.n_tok)) {
        cli->most.n_tok = said->most_tok;
        cli->most.key = said->most_key;
        cli->most.path = path;
    }
    if (said->of_tok > 0) {
        cli->sized.n_tok = said->of_tok;
        cli->sized.path = path;
    }
    s2_buf_release(&said->warnings);
}

s2_status s2_foreign_hook(s2_cli *cli, const char *path, const char *text, size_t n_bytes, s2_pattern *out,
                          const s2_format **used, s2_diag *diag)
{
    s2_buf notes = {0};
    s2_said said = {0};
    s2_fileset side = {.arena = &cli->arena};
    const char *const dir = s2_path_dir(&cli->arena, path);
    s2_source source = {.arena = &cli->arena,
                        .name = s2_path_title(&cli->arena, path),
                        .bytes = text,
                        .n_bytes = n_bytes,
                        .finder = {.dir = dir, .path = path},
                        .notes = &notes,
                        .said = &said,
                        .side = &side,
                        .diag = diag};
    s2_status status = dir != NULL ? read_settings(cli, cli->export_to, &source.settings, diag) : S2_ENOMEM;
    if (status == S2_OK)
        status = s2_import_run(&source, NULL, used, out);
    cli->sets_used |= status != S2_EUNSUPPORTED;
    if (status == S2_OK)
        s2_cli_error(cli, "%s is read as %s: %s (s2 import shows what it leaves unsaid)", path, (*used)->name,
                     (*used)->summary);
    const char *const differs = status == S2_OK ? s2_format_differs(*used, out) : NULL;
    if (differs != NULL)
        s2_cli_error(cli, "%s: %s reads other pairs than the file says %s", path, (*used)->stack, differs);
    if (status == S2_OK)
        s2_foreign_said(cli, path, &said);
    if (status == S2_OK && said.of_tok > 0 && s2_setting_text(&source.settings, "len") == NULL)
        s2_cli_error(cli, "%s: it states shares of the length: the numbers are those of %s (--set len=N)",
                     path, s2_count_text(said.of_tok, "token").text);
    s2_buf_release(&said.warnings);
    s2_buf_release(&notes);
    return status;
}

const char *s2_foreign_in_folder(s2_cli *cli, const char *folder)
{
    return s2_format_in_folder(&cli->arena, folder, NULL);
}

s2_exit s2_foreign_settings(s2_cli *cli, s2_settings *out)
{
    s2_diag diag = {0};
    const s2_status status = read_settings(cli, NULL, out, &diag);
    cli->sets_used = true;
    return status == S2_OK ? S2_EXIT_OK : s2_cli_refuse(cli, status, &diag);
}

void s2_foreign_names(s2_buf *buf, bool written)
{
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        if (written ? format->write != NULL : format->read != NULL)
            s2_buf_printf(buf, "%s%s", buf->len != 0 ? ", " : "", format->name);
    }
}

static bool is_asked_for(const s2_format *format, int32_t n_names, const char *const *names)
{
    bool asked = n_names == 0;
    for (int32_t n = 0; n < n_names; n++)
        asked |= s2_format_find(names[n]) == format;
    return asked;
}

s2_exit s2_foreign_list(s2_cli *cli, bool written, int32_t n_names, const char *const *names)
{
    s2_buf buf = {0};
    for (int32_t n = 0; n < n_names; n++)
        if (s2_format_find(names[n]) == NULL) {
            s2_cli_error(cli, "no format %s; --list without a name shows all", names[n]);
            return S2_EXIT_USAGE;
        }
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        const s2_format *const format = s2_format_at(n);
        if ((written ? format->write == NULL : format->read == NULL) || !is_asked_for(format, n_names, names))
            continue;
        s2_buf_printf(&buf, "%-14s %s\n", format->name, format->summary);
        if (format->settings != NULL && format->settings[0] != '\0')
            s2_buf_printf(&buf, "%-14s   --set: %s\n", "", format->settings);
    }
    return s2_cli_print(cli, &buf);
}

s2_exit s2_foreign_write_side(s2_cli *cli, const s2_fileset *side, const char *path)
{
    const char *const dir = path != NULL ? s2_path_dir(&cli->arena, path) : ".";
    if (side->n_files > 0 && s2_cli_lacks_nothing() != S2_OK)
        return s2_cli_fail(cli, S2_ENOMEM, "output");
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
    return dir != NULL ? S2_EXIT_OK : s2_cli_fail(cli, S2_ENOMEM, "output");
}

static s2_exit read_format(s2_cli *cli, const char *word, size_t n, s2_restriction *out)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), word);
    const s2_format *const format = s2_format_find(name);
    if (format != NULL && format->write != NULL && out->n_formats < S2_RESTRICT_FORMATS) {
        out->formats[out->n_formats++] = format;
        return S2_EXIT_OK;
    }
    s2_buf names = {0};
    s2_foreign_names(&names, true);
    s2_cli_error(cli, "--exportable: '%s' is not a format that s2 writes; expected %s", name,
                 names.data != NULL ? names.data : "");
    s2_buf_release(&names);
    return S2_EXIT_USAGE;
}

s2_exit s2_foreign_restriction(s2_cli *cli, const s2_args *args, const char *formats, int64_t len_tok,
                               s2_restriction *out)
{
    s2_restriction_of(NULL, len_tok, 1, out);
    for (const char *at = formats; at != NULL && *at != '\0'; at += *at == ',') {
        const size_t n = strcspn(at, ",");
        S2_CLI_TRY(read_format(cli, at, n, out));
        at += n;
    }
    return s2_args_has(args, "dense-layers")
               ? s2_args_int(cli, args, "dense-layers", 0, S2_LIMIT_LAYERS, &out->n_dense_layers)
               : S2_EXIT_OK;
}
