#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

#include "cli/foreign.h"
#include "cli/input.h"
#include "cli/store.h"
#include "pattern/parse.h"
#include "pattern/recognise.h"

/* One imported file: the pattern, and what to say about it. */
typedef struct imported {
    const s2_format *format; /* NULL: a pattern of our own */
    s2_pattern pattern;
    s2_buf notes;
    s2_said said;
    s2_fileset side;
} imported;

/* A file that no foreign format recognises may be a pattern of our own, which is accepted as it is. If
 * its name says so, it is refused as such. */
static bool is_native(s2_cli *cli, const char *path, const s2_file *file, imported *result, s2_diag *diag)
{
    const s2_parse_options options = {.dir = s2_path_dir(&cli->arena, path)};
    s2_diag own = {0};
    if (result->format != NULL)
        return false;
    const s2_status status =
        s2_pattern_parse(&cli->arena, file->bytes, file->n_bytes, &options, &result->pattern, &own);
    if (status == S2_EPARSE && s2_input_is_s2(path))
        *diag = own;
    return status == S2_OK;
}

static s2_exit import_file(s2_cli *cli, const char *path, const char *from, const s2_settings *settings,
                           imported *result)
{
    s2_file file;
    s2_diag diag = {0};
    s2_status status = s2_file_read(&cli->arena, path, S2_FILE_BYTES, &file, &diag);
    if (status != S2_OK) {
        if (status == S2_EIO)
            return s2_input_unreadable(cli, status, path);
        return s2_input_refuse(cli, status, path, "", 0, &diag);
    }
    result->side = (s2_fileset){.arena = &cli->arena};
    s2_source source = {.arena = &cli->arena,
                        .name = s2_path_title(&cli->arena, path),
                        .bytes = file.bytes,
                        .n_bytes = file.n_bytes,
                        .finder = {.dir = s2_path_dir(&cli->arena, path), .path = path},
                        .settings = *settings,
                        .notes = &result->notes,
                        .said = &result->said,
                        .side = &result->side,
                        .diag = &diag};
    status = s2_import_run(&source, from, &result->format, &result->pattern);
    if (status == S2_OK)
        s2_foreign_said(cli, path, &result->said);
    if (status == S2_OK || (from == NULL && is_native(cli, path, &file, result, &diag)))
        return S2_EXIT_OK;
    if (status == S2_EINVAL) { /* a --set that the format does not take */
        s2_cli_error(cli, "%s", diag.msg);
        return S2_EXIT_USAGE;
    }
    const s2_exit code = s2_input_refuse(cli, status, path, file.bytes, file.n_bytes, &diag);
    if (status == S2_EUNSUPPORTED || status == S2_EIO)
        return S2_EXIT_REFUSED;
    return code;
}

/* The canonical text, preceded by comments on what the format leaves unsaid. */
static void print_text(const imported *result, const char *path, s2_buf *buf)
{
    char clean[512];
    s2_text_clean(clean, sizeof clean, s2_path_base(path));
    if (result->format != NULL)
        s2_buf_printf(buf, "# %s, read as %s: %s\n", clean, result->format->name, result->format->summary);
    else
        s2_buf_printf(buf, "# %s is a pattern already; this is its canonical text\n", clean);
    const char *rest = result->notes.data != NULL ? result->notes.data : "";
    while (*rest != '\0') {
        const size_t n = strcspn(rest, "\n");
        s2_buf_printf(buf, "# - %.*s\n", (int)n, rest);
        rest += n + (rest[n] == '\n');
    }
    s2_pattern_print(&result->pattern, buf);
}

static s2_exit store(s2_cli *cli, const char *path, const imported *result)
{
    s2_buf text = {0};
    s2_pattern_print(&result->pattern, &text);
    const char *const kept = text.status == S2_OK ? s2_arena_strndup(&cli->arena, text.data, text.len) : NULL;
    const s2_input input = {.label = path, .text = kept, .n_bytes = text.len, .pattern = result->pattern};
    s2_buf_release(&text);
    return kept != NULL ? s2_store_design(cli, &input) : s2_cli_fail(cli, S2_ENOMEM, path);
}

/* Express the same pairs in terms, which need no mask file. */
static s2_exit say_in_terms(s2_cli *cli, const char *path, imported *result)
{
    int64_t n_tok;
    s2_diag diag = {0};
    const s2_status status =
        s2_pattern_recognise(&cli->arena, &result->pattern, &result->pattern, &n_tok, &diag);
    if (status != S2_OK) {
        s2_cli_error(cli, "%s: %s: without --terms it is kept as a mask", path, s2_diag_text(&diag, status));
        return status == S2_EUNSUPPORTED ? S2_EXIT_REFUSED : s2_exit_of(status);
    }
    result->side.n_files = 0;
    if (n_tok > 0)
        s2_note(&result->notes,
                "these terms read the mask's pairs and no others in its %lld tokens; the terms also read "
                "beyond them, where the mask says nothing",
                (long long)n_tok);
    return S2_EXIT_OK;
}

static s2_exit import_one(s2_cli *cli, const char *path, const s2_args *args, const s2_settings *settings)
{
    imported result = {0};
    const char *const output = s2_args_str(args, "output");
    path = s2_input_path(cli, path);
    s2_exit end = import_file(cli, path, s2_args_str(args, "from"), settings, &result);
    if (end == S2_EXIT_OK && s2_args_has(args, "terms"))
        end = say_in_terms(cli, path, &result);
    if (end == S2_EXIT_OK && result.side.n_files > 0 && output == NULL) {
        s2_cli_error(
            cli,
            "%s needs a mask file beside its text: name the text with -o FILE, or say it in terms (--terms)",
            path);
        end = S2_EXIT_USAGE;
    }
    if (end == S2_EXIT_OK)
        end = s2_foreign_write_side(cli, &result.side, output);
    if (end == S2_EXIT_OK) {
        s2_buf buf = {0};
        print_text(&result, path, &buf);
        end = output != NULL ? s2_cli_save(cli, output, &buf) : s2_cli_print(cli, &buf);
    }
    if (end == S2_EXIT_OK)
        end = store(cli, path, &result);
    s2_buf_release(&result.said.warnings);
    s2_buf_release(&result.notes);
    return end;
}

s2_exit s2_cmd_import(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_settings settings;
    S2_CLI_TRY(s2_args_parse(cli, "import", argc, argv, &args));
    if (s2_args_has(&args, "list"))
        return s2_foreign_list(cli, false, args.n_operands, args.operands);
    S2_CLI_TRY(s2_foreign_settings(cli, &settings));
    const char *const from = s2_args_str(&args, "from");
    if (args.n_operands == 0 || (args.n_operands > 1 && s2_args_has(&args, "output"))) {
        s2_cli_error(cli, args.n_operands == 0 ? "name a FILE (s2 import --list shows the formats)"
                                               : "-o takes one FILE to import");
        return S2_EXIT_USAGE;
    }
    if (from != NULL && s2_format_find(from) == NULL) {
        s2_buf names = {0};
        s2_foreign_names(&names, false);
        s2_cli_error(cli, "no format %s; there are %s", from, names.data != NULL ? names.data : "none");
        s2_buf_release(&names);
        return S2_EXIT_USAGE;
    }
    s2_exit code = S2_EXIT_OK;
    for (int32_t n = 0; n < args.n_operands; n++)
        code = s2_exit_combine(code, import_one(cli, args.operands[n], &args, &settings));
    return code;
}
