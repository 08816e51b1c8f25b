/* The best design of a search in a file. */
#include "cli/commands.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/input.h"
#include "cli/searching.h"

/* Where -o writes: the file, or in a folder the file by its usual name there, if it has one. */
static s2_exit find_target(const s2_searching *r, const char *path, const char **target)
{
    const char *const name = r->restriction.n_formats > 0 ? r->restriction.formats[0]->file_name : NULL;
    const bool inside = r->restriction.n_formats > 0 && s2_file_is_folder(path);
    s2_buf buf = {0};
    *target = path;
    if (!inside)
        return S2_EXIT_OK;
    s2_buf_printf(&buf, "%s/%s", path, name != NULL ? name : "");
    *target = buf.status == S2_OK ? s2_arena_strndup(&r->cli->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    if (name == NULL && *target != NULL)
        *target = ""; /* s2 export names the files */
    return *target != NULL ? S2_EXIT_OK : s2_cli_fail(r->cli, S2_ENOMEM, "output");
}

s2_exit s2_search_output_check(const s2_searching *r)
{
    const char *const path = s2_args_str(&r->args, "output"), *target;
    s2_output probe = {0};
    if (path == NULL)
        return S2_EXIT_OK;
    S2_CLI_TRY(find_target(r, path, &target));
    if (target[0] == '\0')
        return S2_EXIT_OK;
    if (access(target, F_OK) == 0 && !s2_args_has(&r->args, "force")) {
        s2_cli_error(r->cli, "%s exists; --force overwrites it", target);
        return S2_EXIT_USAGE;
    }
    const s2_status status = s2_output_open(&probe, target);
    if (status == S2_OK)
        return s2_output_close(&probe, false) == S2_OK ? S2_EXIT_OK : S2_EXIT_ENVIRONMENT;
    s2_cli_error(r->cli, "%s: %s", target, s2_file_why(errno));
    return s2_exit_of(status);
}

/* Write the pattern itself: FILE.s2, whatever stacks it was searched for. */
static s2_exit write_best(const s2_searching *r, const char *path)
{
    s2_cli *const cli = r->cli;
    const s2_found_design *const best = &r->found.designs[0];
    s2_buf text = {0};
    s2_pattern_print(&best->pattern, &text);
    S2_CLI_TRY(s2_cli_save(cli, path, &text));
    fprintf(cli->err, "%s is written to %s\n", best->name, path);
    return S2_EXIT_OK;
}

/* A file that is read back as another design must not be taken for this one: say what it lacks. */
static s2_exit say_read_back(const s2_searching *r, const char *path)
{
    s2_cli *const cli = r->cli;
    const s2_found_design *const best = &r->found.designs[0];
    const s2_format *const format = r->restriction.formats[0];
    s2_pattern again;
    char hash[S2_HASH_HEX];
    s2_diag diag = {0};
    if (format->read == NULL || s2_found_import(cli, s2_input_path(cli, path), &again, &diag) != S2_OK)
        s2_cli_hint(cli, "s2 does not read such a file back as a design");
    else if (s2_pattern_hash(&again, hash) != S2_OK)
        return s2_cli_fail(cli, S2_ENOMEM, "output");
    else if (strcmp(hash, best->hash) != 0)
        s2_cli_hint(cli, "read back it is another design, %.8s: %s", hash,
                    r->found.search.options.n_ranks > 1 && s2_format_takes(format, "tp")
                        ? "the file has the heads of one GPU"
                        : "the format has no place for the pattern's name and model");
    return S2_EXIT_OK;
}

s2_exit s2_search_output_write(const s2_searching *r)
{
    const s2_found *const found = &r->found;
    s2_cli *const cli = r->cli;
    const char *const path = s2_args_str(&r->args, "output");
    if (path == NULL)
        return S2_EXIT_OK;
    if (found->n_designs == 0) {
        s2_cli_error(cli, "%s is not written: %s", path,
                     found->nearest != NULL ? "nothing found here beats what the model does without s2"
                                            : "no design was found");
        return S2_EXIT_OK;
    }
    if (s2_input_is_s2(path))
        return write_best(r, path);
    const s2_format *const format = r->restriction.formats[0];
    char len[24], ranks[24];
    s2_buf text = {0};
    s2_pattern_print(&found->designs[0].pattern, &text);
    s2_buf_add(&text, "", 1);
    if (text.status != S2_OK)
        return s2_cli_fail(cli, text.status, "export");
    snprintf(len, sizeof len, "%lld", (long long)found->search.options.len_tok);
    snprintf(ranks, sizeof ranks, "tp=%d", (int)found->search.options.n_ranks);
    const bool shared = found->search.options.n_ranks > 1 && s2_format_takes(format, "tp");
    const char *const words[] = {"export",  cli->no_db ? text.data : found->designs[0].name,
                                 "--to",    format->name,
                                 "--len",   len,
                                 "-o",      path,
                                 "--force", /* asked of the search before it began */
                                 "--set",   ranks};
    enum { WORDS = sizeof words / sizeof words[0] };
    char *argv[WORDS];
    memcpy(argv, words, sizeof words);
    const char *const command = cli->command;
    const s2_exit code = s2_cmd_export(cli, shared ? WORDS : WORDS - 2, argv);
    cli->command = command;
    s2_buf_release(&text);
    if (code != S2_EXIT_OK)
        return code;
    fprintf(cli->err, "%s is written to %s\n", found->designs[0].name, path);
    if (format->model != NULL && !s2_pattern_is_of(&found->designs[0].pattern, format->model))
        s2_cli_hint(
            cli, "no release of %s takes it for this model as it is: the model's code there must pass it on",
            format->stack);
    return say_read_back(r, path);
}
