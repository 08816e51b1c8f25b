#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/work.h"
#include "export/mask_file.h"

/* More cells than this are a mistyped length, not a mask that anyone would read. */
#define LIMIT_CELLS (INT64_C(1) << 36)

/* --head: which heads are read together. Without it npy and csr stack the heads, pictures show the union. */
static s2_exit choose_heads(s2_cli *cli, const char *text, bool picture, s2_mask_ask *out)
{
    const s2_pattern *const p = out->pattern;
    const int32_t n_kv = s2_pattern_kv_heads(p, out->layer), group = p->n_heads / n_kv;
    const bool kv = text != NULL && strncmp(text, "kv:", 3) == 0;
    int64_t n = 0;
    out->stacked = text == NULL && !picture;
    out->head_end = p->n_heads;
    if (text == NULL || strcmp(text, "union") == 0)
        return S2_EXIT_OK;
    if (!s2_number_parse(kv ? text + 3 : text, &n) || n >= (kv ? n_kv : p->n_heads)) {
        s2_cli_error(cli, "--head %s: expected 0 to %d, kv:0 to kv:%d, or union", text, (int)p->n_heads - 1,
                     (int)n_kv - 1);
        return S2_EXIT_USAGE;
    }
    out->head_begin = (int32_t)n * (kv ? group : 1);
    out->head_end = out->head_begin + (kv ? group : 1);
    return S2_EXIT_OK;
}

static s2_exit refuse_output(s2_cli *cli, const char *path)
{
    s2_cli_error(cli, "%s: %s", path, s2_file_why(errno));
    return S2_EXIT_ENVIRONMENT;
}

/* Write to standard output, or to a file that appears under its name only when complete. */
static s2_exit write_mask(s2_cli *cli, const s2_mask_ask *ask, const char *format, const char *path)
{
    s2_output output;
    const bool is_folder =
        path != NULL && (s2_file_is_folder(path) || (path[0] != '\0' && path[strlen(path) - 1] == '/'));
    if (is_folder) {
        s2_cli_error(cli, "%s: a folder, where -o names a file", path);
        s2_cli_hint(cli, "a mask is one file, as in -o mask.%s; s2 export writes folders", format);
        return S2_EXIT_USAGE;
    }
    if (path != NULL && s2_output_open(&output, path) != S2_OK)
        return refuse_output(cli, path);
    s2_status status = s2_mask_write(&cli->arena, ask, format, path != NULL ? output.file : cli->out);
    if (status == S2_OK)
        status = s2_cli_lacks_nothing();
    if (path != NULL && s2_output_close(&output, status == S2_OK) != S2_OK)
        return refuse_output(cli, path);
    if (status != S2_ELIMIT || s2_work_goes_on(ask->work_left))
        return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "mask");
    s2_cli_error(cli,
                 "to list what the heads read at %s takes more than " S2_WORK_WORDS "; a shorter --len%s",
                 s2_count_text(ask->n_tok, "token").text, ask->stacked ? ", or one head (--head 0)" : "");
    return S2_EXIT_UNDECIDED;
}

static s2_exit check_size(s2_cli *cli, const s2_mask_ask *ask)
{
    const int64_t n_rows = s2_mask_rows(ask), n_planes = s2_mask_planes(ask);
    if (n_rows * n_rows <= LIMIT_CELLS / n_planes)
        return S2_EXIT_OK;
    s2_cli_error(
        cli, "%lld x %lld x %lld cells are more than 2^36; a shorter --len, or blocks instead of --tokens",
        (long long)n_planes, (long long)n_rows, (long long)n_rows);
    return S2_EXIT_UNDECIDED;
}

static void warn_dynamic(s2_cli *cli, const s2_folds *folds)
{
    for (int32_t n = 0; n < folds->n_classes; n++)
        if (folds->views[n].has_dynamic) {
            fprintf(cli->err,
                    "note: pages, heavy and topk choose keys from data; shown is what they certainly read\n");
            return;
        }
}

s2_exit s2_cmd_mask(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    s2_input input;
    s2_folds folds;
    int64_t layer, work = S2_WORK_STEPS;
    s2_mask_ask ask = {.pattern = &input.pattern, .folds = &folds, .work_left = &work};
    S2_CLI_TRY(s2_args_parse(cli, "mask", argc, argv, &args));
    S2_CLI_TRY(s2_input_read(cli, args.operands[0], &input));
    S2_CLI_TRY(s2_input_len(cli, &args, &input.pattern, &ask.n_tok));
    S2_CLI_TRY(s2_args_int(cli, &args, "layer", 0, input.pattern.n_layers - 1, &layer));
    const char *const format = s2_args_str(&args, "format");
    ask.layer = (int32_t)layer;
    ask.tokens = s2_args_has(&args, "tokens");
    S2_CLI_TRY(choose_heads(cli, s2_args_str(&args, "head"), format[0] == 't' || format[0] == 'p', &ask));
    S2_CLI_TRY(check_size(cli, &ask));
    const s2_phase phase = strcmp(s2_args_str(&args, "phase"), "decode") == 0 ? S2_DECODE : S2_PREFILL;
    const s2_status status = s2_folds_build(&cli->arena, &input.pattern, phase, S2_AT_LEAST, &folds);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "mask");
    warn_dynamic(cli, &folds);
    return write_mask(cli, &ask, format, s2_args_str(&args, "output"));
}
