#include "cli/input.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/file.h"
#include "pattern/models.h"
#include "pattern/parse.h"

enum {
    /* Foreign configs carry more than a pattern does (per-head tables of a model). */
    FOREIGN_LIMIT_BYTES = 16 << 20
};

/* A file's bytes, read up to a limit. */
typedef struct bytes {
    char *data;
    size_t n;
} bytes;

static s2_exit refuse_file(s2_cli *cli, const char *path, const char *why, s2_exit code)
{
    s2_cli_error(cli, "%s: %s", path, why);
    return code;
}

s2_exit s2_input_unreadable(s2_cli *cli, s2_status status, const char *label)
{
    const int error = errno;
    if (status != S2_EIO)
        return s2_cli_fail(cli, status, label);
    if (error == EISDIR) {
        s2_cli_error(cli, "%s: a folder, where a file is expected", label);
        if (cli->hooks != NULL)
            s2_cli_hint(cli,
                        "a folder is read as a pattern if it holds a config.json or what s2 export wrote");
        return S2_EXIT_REFUSED;
    }
    const bool environment = error == EIO || error == EMFILE || error == ENFILE || error == ESTALE;
    return refuse_file(cli, label, s2_file_why(error), environment ? S2_EXIT_ENVIRONMENT : S2_EXIT_REFUSED);
}

static size_t limit_of(const s2_cli *cli)
{
    return cli->hooks != NULL && cli->hooks->import != NULL ? FOREIGN_LIMIT_BYTES : S2_LIMIT_TEXT_BYTES;
}

static s2_exit read_file(s2_cli *cli, const char *path, bytes *out)
{
    const s2_status status = s2_bytes_read(&cli->arena, path, limit_of(cli), &out->data, &out->n);
    return status == S2_OK ? S2_EXIT_OK : s2_input_unreadable(cli, status, path);
}

static s2_exit read_stdin(s2_cli *cli, bytes *out)
{
    const s2_status status =
        s2_bytes_read_fd(&cli->arena, fileno(cli->in), limit_of(cli), &out->data, &out->n);
    return status == S2_OK ? S2_EXIT_OK : s2_input_unreadable(cli, status, "-");
}

/* Nobody reads an excerpt of an array or a picture. */
static bool is_binary(const char *text, size_t n_bytes)
{
    enum { LOOKED_AT = 512, ODD = 4 };
    size_t n_odd = 0;
    for (size_t n = 0; n < n_bytes && n < LOOKED_AT; n++)
        n_odd += (unsigned char)text[n] < ' ' && (text[n] == '\0' || strchr("\t\n\r", text[n]) == NULL);
    return n_odd >= ODD || (n_bytes > 6 && memcmp(text, "\x93NUMPY", 6) == 0);
}

s2_exit s2_input_refuse(s2_cli *cli, s2_status status, const char *label, const char *text, size_t n_bytes,
                        const s2_diag *diag)
{
    char name[512], msg[2 * sizeof diag->msg];
    s2_text_clean(name, sizeof name, label);
    s2_text_clean(msg, sizeof msg, s2_diag_text(diag, status));
    fprintf(cli->err, "%s:", name);
    /* a fault of the whole file points to its beginning */
    fprintf(cli->err, "%d:%d:", diag->line > 0 ? (int)diag->line : 1, diag->line > 0 ? (int)diag->col : 1);
    if (diag->code > 0)
        fprintf(cli->err, " S2P%03d", (int)diag->code);
    fprintf(cli->err, " %s\n", msg);
    s2_buf caret = {0};
    if (!is_binary(text, n_bytes))
        s2_diag_print_caret(diag, text, n_bytes, &caret);
    if (caret.status == S2_OK && caret.data != NULL)
        fputs(caret.data, cli->err);
    s2_buf_release(&caret);
    return s2_exit_of(status);
}

/* Directory of a path, for the relative names of mask files; NULL: the working directory. */
static const char *dir_of(s2_cli *cli, const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash == NULL ? NULL
                         : s2_arena_strndup(&cli->arena, path, (size_t)(slash - path) + (slash == path));
}

static s2_status try_text(s2_cli *cli, const char *path, const s2_parse_options *options, s2_input *input,
                          s2_diag *diag)
{
    s2_status status = S2_EUNSUPPORTED;
    if (cli->hooks != NULL && cli->hooks->import != NULL && path != NULL)
        status =
            cli->hooks->import(cli, path, input->text, input->n_bytes, &input->pattern, &input->format, diag);
    if (status == S2_EUNSUPPORTED) {
        const s2_diag foreign = *diag;
        *diag = (s2_diag){0};
        status = s2_pattern_parse(&cli->arena, input->text, input->n_bytes, options, &input->pattern, diag);
        /* a config that no importer knows: what is wrong with it, not what a pattern would begin with */
        const char first = input->text[strspn(input->text, " \t\r\n")];
        if (status == S2_EPARSE && foreign.line > 0 && (first == '{' || first == '['))
            *diag = foreign;
    }
    return status;
}

/* What try_text() answered, as an exit code. */
static s2_exit say(s2_cli *cli, const s2_input *input, s2_status status, const s2_diag *diag)
{
    if (status == S2_EINVAL)
        s2_cli_error(cli, "%s: %s", input->label, diag->msg);
    return status == S2_OK ? S2_EXIT_OK
           : status == S2_EINVAL
               ? S2_EXIT_USAGE
               : s2_input_refuse(cli, status, input->label, input->text, input->n_bytes, diag);
}

/* "missing.json" or "runs/a" can only mean a file. */
static bool looks_like_path(const char *text)
{
    const char *const dot = strrchr(text, '.');
    return strchr(text, '/') != NULL ||
           (dot != NULL && dot > text && isalpha((unsigned char)dot[1]) && strpbrk(dot, " |,") == NULL);
}

/* The design of a name or hash; input->text is NULL where there is none. */
static s2_exit find_design(s2_cli *cli, const char *key, s2_input *input)
{
    const char *text = NULL, *name = key;
    if (cli->hooks != NULL && cli->hooks->design != NULL)
        S2_CLI_TRY(cli->hooks->design(cli, key, &text, &name));
    *input = (s2_input){.label = name, .text = text};
    if (text == NULL)
        return S2_EXIT_OK;
    input->n_bytes = strlen(text);
    const s2_parse_options options = {.no_files = true}; /* the file may have been merged from anywhere */
    s2_diag diag = {0};
    return say(cli, input, try_text(cli, NULL, &options, input, &diag), &diag);
}

static s2_exit read_design(s2_cli *cli, const char *key, s2_input *input)
{
    S2_CLI_TRY(find_design(cli, key, input));
    if (input->text == NULL) {
        s2_cli_error(cli, "%s: no such file%s", key[strspn(key, " \t")] == '\0' ? "an empty name" : key,
                     cli->hooks != NULL ? ", and no design of that name or hash" : "");
        const s2_model *const model = s2_model_find(key, strlen(key));
        if (model != NULL)
            s2_cli_hint(
                cli, "a model's name alone is no pattern; 'model %s; layers all: dense' is one of its shape",
                model->net.name);
        else if (!looks_like_path(key))
            s2_cli_hint(cli, "an inline pattern holds ';' or ':', as in 'heads 8; layers all: local 16 | "
                             "stride 8 phase head'");
        return S2_EXIT_REFUSED;
    }
    return S2_EXIT_OK;
}

/* A pattern has no brackets, but library calls and configs do. A file name may have some, as in "draft (1)". */
static bool is_foreign(const char *text)
{
    return strpbrk(text, "({") != NULL && strpbrk(text, ",=:") != NULL;
}

static bool is_inline(const char *operand)
{
    return strpbrk(operand, ":;\n") != NULL || is_foreign(operand);
}

const char *s2_input_path(s2_cli *cli, const char *path)
{
    if (cli->hooks == NULL || !s2_file_is_folder(path))
        return path;
    const char *const found = cli->hooks->in_folder(cli, path);
    return found != NULL ? found : path;
}

s2_exit s2_input_read(s2_cli *cli, const char *operand, s2_input *out)
{
    operand = s2_input_path(cli, operand);
    const bool is_stdin = strcmp(operand, "-") == 0;
    struct stat info;
    const bool is_file = !is_stdin && stat(operand, &info) == 0;
    const bool blocked =
        !is_stdin && !is_file && errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG;
    if (blocked)
        return s2_input_unreadable(cli, S2_EIO, operand);
    s2_input input = {.label = operand};
    bytes read = {0};
    if (is_stdin || is_file) {
        S2_CLI_TRY(is_stdin ? read_stdin(cli, &read) : read_file(cli, operand, &read));
        input.text = read.data;
        input.n_bytes = read.n;
    } else if (is_inline(operand)) {
        input = (s2_input){.label = "inline", .text = operand, .n_bytes = strlen(operand)};
    } else {
        S2_CLI_TRY(read_design(cli, operand, &input));
        *out = input;
        return S2_EXIT_OK;
    }
    const s2_parse_options options = {.dir = is_file ? dir_of(cli, operand) : NULL};
    const bool may_import = is_stdin || is_file || is_foreign(operand);
    s2_diag diag = {0};
    const s2_status status = try_text(cli, may_import ? input.label : NULL, &options, &input, &diag);
    if (status == S2_EPARSE && !is_stdin && !is_file) { /* a name may hold what patterns do */
        S2_CLI_TRY(find_design(cli, operand, out));
        if (out->text != NULL)
            return S2_EXIT_OK;
    }
    S2_CLI_TRY(say(cli, &input, status, &diag));
    *out = input;
    return S2_EXIT_OK;
}

/* Beyond that length figures hold for the pattern, but the stack that runs the file refuses the context. */
static void warn_beyond(s2_cli *cli, int64_t len_tok)
{
    if (cli->most.n_tok == 0 || len_tok <= cli->most.n_tok)
        return;
    s2_cli_error(cli, "%s: %s are more than the file is written for (%s %lld)", cli->most.path,
                 s2_count_text(len_tok, "token").text, cli->most.key, (long long)cli->most.n_tok);
    cli->most.n_tok = 0; /* once is enough */
}

/* Shares of the length became numbers when the file was read, and stay those of that length. */
static void warn_sized(s2_cli *cli, int64_t len_tok)
{
    if (cli->sized.n_tok == 0 || len_tok == cli->sized.n_tok)
        return;
    s2_cli_error(cli, "%s: its numbers are those of %s, not of %lld (--set len=%lld)", cli->sized.path,
                 s2_count_text(cli->sized.n_tok, "token").text, (long long)len_tok, (long long)len_tok);
    cli->sized.n_tok = 0; /* once is enough */
}

s2_exit s2_input_fits(s2_cli *cli, const s2_pattern *pattern, int64_t len_tok)
{
    const int64_t limit_tok = s2_pattern_limit_tok(pattern);
    warn_beyond(cli, len_tok);
    warn_sized(cli, len_tok);
    if (len_tok <= limit_tok)
        return S2_EXIT_OK;
    s2_cli_error(cli, "--len %lld: the mask of this pattern ends at %s", (long long)len_tok,
                 s2_count_text(limit_tok, "token").text);
    return S2_EXIT_USAGE;
}

s2_exit s2_input_len(s2_cli *cli, const s2_args *args, const s2_pattern *pattern, int64_t *len_tok)
{
    const int64_t limit_tok = s2_pattern_limit_tok(pattern);
    S2_CLI_TRY(s2_args_int(cli, args, "len", 1, S2_LIMIT_CONTEXT_TOK, len_tok));
    if (!s2_args_has(args, "len"))
        *len_tok = s2_min_i64(*len_tok, limit_tok);
    return s2_input_fits(cli, pattern, *len_tok);
}

bool s2_input_is_s2(const char *path)
{
    const size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".s2") == 0;
}

const char *s2_input_name(s2_cli *cli, const s2_input *input)
{
    if (input->pattern.name[0] != '\0')
        return input->pattern.name;
    const char *const slash = strrchr(input->label, '/');
    const char *const base = slash != NULL ? slash + 1 : input->label;
    size_t n = strlen(base);
    if (s2_input_is_s2(base))
        n -= 3;
    char *const copy = s2_arena_strndup(&cli->arena, base, n);
    if (copy == NULL)
        return "";
    const size_t cap = 3 * n + 1;
    char *const clean = s2_arena_alloc(&cli->arena, cap, 1);
    if (clean == NULL)
        return "";
    s2_text_clean(clean, cap, copy);
    return clean;
}
