#include "cli/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "cli/calibrating.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/plugged.h"
#include "cli/textfile.h"
#include "kernels/kernel.h"
#include "kernels/micro.h"
#include "sim/layer.h"
#include "calibrate/accuracy.h"
#include "calibrate/fit.h"

enum { LIMIT_POINTS = 4096, FLOOR_SHARE = 10 };

typedef struct s2_calibrate {
    s2_cli *cli;
    s2_args args;
    s2_device *device;
    const s2_kernel *kernel; /* NULL: the best for each point */
    s2_row_file file;        /* measured or read */
    bool passes[S2_N_PASSES];
    bool once;
    int64_t n_drawn; /* 0: the designed points */
    int64_t seed;
    FILE *rows; /* where measurements are written as they are made, or NULL */
} s2_calibrate;

/* ------------------------------------------------------------------ which points */

static void read_passes(s2_calibrate *state)
{
    const char *const word = s2_args_str(&state->args, "pass");
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        state->passes[pass] = strcmp(word, "all") == 0 || strcmp(word, s2_pass_word((s2_pass)pass)) == 0;
}

static s2_exit add_row(s2_calibrate *state, const s2_run_point *point, int32_t nth)
{
    s2_row_file *const file = &state->file;
    const char *const family = s2_args_str(&state->args, "family");
    if (family != NULL && strcmp(family, point->family) != 0)
        return S2_EXIT_OK;
    if (file->rows == NULL)
        file->rows = S2_NEW(&state->cli->arena, s2_row, LIMIT_POINTS);
    if (file->rows == NULL || file->n_rows == LIMIT_POINTS)
        return s2_cli_fail(state->cli, file->rows == NULL ? S2_ENOMEM : S2_ELIMIT, "points");
    s2_row *const row = &file->rows[file->n_rows++];
    row->point = *point;
    row->nth = nth;
    row->seed = state->n_drawn > 0 ? state->seed : 0;
    snprintf(row->set, sizeof row->set, "%s", state->n_drawn > 0 ? "held-out" : "designed");
    return S2_EXIT_OK;
}

/* Families that a kernel of their own runs are drawn apart. */
static void draw_point(const s2_calibrate *state, s2_pass pass, int32_t nth, s2_run_point *out)
{
    const char *const family = s2_args_str(&state->args, "family");
    if (family == NULL || !s2_run_point_drawn_of(family, pass, (uint64_t)state->seed, nth, out))
        s2_run_point_drawn(pass, (uint64_t)state->seed, nth, out);
}

static s2_exit list_points(s2_calibrate *state)
{
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++) {
        s2_run_point point;
        if (!state->passes[pass])
            continue;
        for (int32_t nth = 0; nth < state->n_drawn; nth++) {
            draw_point(state, (s2_pass)pass, nth, &point);
            S2_CLI_TRY(add_row(state, &point, nth));
        }
        for (int32_t nth = 0; state->n_drawn == 0 && s2_run_point_designed((s2_pass)pass, nth, &point); nth++)
            S2_CLI_TRY(add_row(state, &point, nth));
    }
    return S2_EXIT_OK;
}

/* Repeat one point in ten at the end, to find the noise floor. */
static s2_exit list_repeats(s2_calibrate *state)
{
    const int32_t n = state->file.n_rows;
    for (int32_t nth = FLOOR_SHARE / 2; nth < n; nth += FLOOR_SHARE) {
        S2_CLI_TRY(add_row(state, &state->file.rows[nth].point, state->file.rows[nth].nth));
        state->file.rows[state->file.n_rows - 1].repeated = true;
    }
    return S2_EXIT_OK;
}

/* Neighbours in the list would heat the device alike, so shuffle their order, with a fixed seed. */
static void shuffle(int32_t *order, int32_t n)
{
    s2_rng rng = {41};
    for (int32_t nth = n - 1; nth > 0; nth--) {
        const int32_t other = (int32_t)s2_rng_below(&rng, (uint64_t)nth + 1);
        const int32_t held = order[nth];
        order[nth] = order[other];
        order[other] = held;
    }
}

/* ------------------------------------------------------------------ measuring */

/* Write a line of results to the rows file if there is one, else to stdout. */
static s2_exit put(s2_calibrate *state, s2_buf *buf)
{
    s2_buf_puts(buf, "\n");
    if (state->rows == NULL)
        return s2_cli_print(state->cli, buf);
    const bool good = buf->status == S2_OK && fwrite(buf->data, 1, buf->len, state->rows) == buf->len &&
                      fflush(state->rows) == 0;
    s2_buf_release(buf);
    if (good)
        return S2_EXIT_OK;
    s2_cli_error(state->cli, "the rows cannot be written");
    return S2_EXIT_ENVIRONMENT;
}

static s2_exit run_micros(s2_calibrate *state)
{
    static const struct {
        s2_micro micro;
        int64_t size;
    } runs[] = {
        {S2_MICRO_LAUNCH, 2000},   {S2_MICRO_COPY, 1 << 24},          {S2_MICRO_COPY, 1 << 26},
        {S2_MICRO_COPY, 1 << 28},  {S2_MICRO_COPY, 1 << 30},          {S2_MICRO_READ, 4 << 20},
        {S2_MICRO_READ, 16 << 20}, {S2_MICRO_READ, 24 << 20},         {S2_MICRO_READ, 32 << 20},
        {S2_MICRO_READ, 40 << 20}, {S2_MICRO_READ, 48 << 20},         {S2_MICRO_READ, 56 << 20},
        {S2_MICRO_READ, 64 << 20}, {S2_MICRO_READ, 96 << 20},         {S2_MICRO_READ, 1 << 28},
        {S2_MICRO_READ, 1 << 30},  {S2_MICRO_READ, INT64_C(4) << 30}, {S2_MICRO_MATRIX, 3000},
        {S2_MICRO_MATRIX, 60000},
    };
    const int32_t n = sizeof runs / sizeof *runs;
    state->file.micros = S2_NEW(&state->cli->arena, s2_micro_row, n);
    if (state->file.micros == NULL)
        return s2_cli_fail(state->cli, S2_ENOMEM, "calibrate");
    for (int32_t nth = 0; nth < n; nth++) {
        s2_micro_row row = {.size = (double)runs[nth].size};
        s2_diag why = {0};
        snprintf(row.micro, sizeof row.micro, "%s", s2_micro_word(runs[nth].micro));
        if (s2_micro_run(state->device, runs[nth].micro, runs[nth].size, &row.value, &why) != S2_OK)
            continue;
        s2_buf buf = {0};
        state->file.micros[state->file.n_micros++] = row;
        s2_micro_row_print(&row, s2_micro_unit(runs[nth].micro), &buf);
        S2_CLI_TRY(put(state, &buf));
    }
    return S2_EXIT_OK;
}

static s2_exit run_points(s2_calibrate *state)
{
    const int32_t n = state->file.n_rows;
    s2_measure_options options = s2_measure_options_default();
    int32_t *const order = S2_NEW(&state->cli->arena, int32_t, n + 1);
    if (order == NULL)
        return s2_cli_fail(state->cli, S2_ENOMEM, "calibrate");
    int32_t n_first = 0;
    for (int32_t nth = 0; nth < n; nth++) {
        order[nth] = nth;
        n_first += !state->file.rows[nth].repeated;
    }
    if (!state->once)
        shuffle(order, n_first);
    options.once = state->once;
    options.kernel = state->kernel;
    for (int32_t i = 0; i < n; i++) {
        s2_row *const row = &state->file.rows[order[i]];
        if (s2_measure_point(state->device, &options, row) != S2_OK) {
            s2_cli_error(state->cli, "%s of %d, %s: %s", s2_pass_word(row->point.pass), row->point.k_tok,
                         row->point.pattern, row->why);
            return S2_EXIT_ENVIRONMENT;
        }
        s2_buf buf = {0};
        s2_row_print(row, &buf);
        S2_CLI_TRY(put(state, &buf));
        if (isatty(STDERR_FILENO))
            fprintf(state->cli->err, "\r%d of %d points", i + 1, n);
    }
    return S2_EXIT_OK;
}

static s2_exit measure_all(s2_calibrate *state)
{
    s2_buf head = {0};
    s2_measure_head(state->device, s2_args_str(&state->args, "gpu"), s2_version_commit(), &state->file.head);
    s2_rows_head_print(&state->file.head, &head);
    S2_CLI_TRY(put(state, &head));
    if (!state->once && state->n_drawn == 0)
        S2_CLI_TRY(run_micros(state));
    if (!state->once)
        S2_CLI_TRY(list_repeats(state));
    return run_points(state);
}

static s2_exit open_and_measure(s2_calibrate *state)
{
    s2_cli *const cli = state->cli;
    s2_diag why = {0};
    const char *const path = s2_args_str(&state->args, "rows");
    const s2_status status = s2_device_open(s2_args_str(&state->args, "device"), &state->device, &why);
    if (status != S2_OK) {
        s2_cli_error(cli, "%s", s2_diag_text(&why, status));
        return status == S2_EINVAL ? S2_EXIT_USAGE : S2_EXIT_ENVIRONMENT;
    }
    s2_exit end = S2_EXIT_ENVIRONMENT;
    if (path != NULL && s2_stream_open(path, &state->rows) != S2_OK)
        s2_cli_error(cli, "%s: cannot be written: %s", path, s2_file_why(errno));
    else
        end = measure_all(state);
    if (state->rows != NULL)
        fclose(state->rows);
    s2_device_close(&state->device);
    return end;
}

/* ------------------------------------------------------------------ fitting */

static s2_exit read_rows(s2_calibrate *state, const char *path, s2_row_file *out)
{
    char *text;
    size_t n_bytes;
    s2_diag diag = {0};
    S2_CLI_TRY(s2_textfile_read(state->cli, path, &text, &n_bytes));
    const s2_status status = s2_rows_parse(&state->cli->arena, text, n_bytes, out, &diag);
    if (status != S2_OK)
        return s2_cli_refuse_file(state->cli, status, path, &diag);
    if (out->n_rows > 0 && out->head.gpu[0] != '\0')
        return S2_EXIT_OK;
    s2_cli_error(state->cli, "%s: %s", path,
                 out->n_rows > 0
                     ? "its first line must say the GPU and the schema s2points/1"
                     : "there is no row: neither a table of times nor measurements of s2 calibrate");
    return S2_EXIT_REFUSED;
}

static int32_t count_judging(const s2_row_file *file)
{
    int32_t n = 0;
    for (int32_t r = 0; r < file->n_rows; r++)
        n += s2_row_judges(&file->rows[r]);
    return n;
}

/* What was fitted judges nothing, whatever the file that it is in. */
static s2_exit drop_fitted(s2_calibrate *state, const char *path, s2_row_file *held)
{
    const int32_t n = count_judging(held);
    if (s2_rows_drop_fitted(&state->cli->arena, &state->file, held) != S2_OK)
        return s2_cli_fail(state->cli, S2_ENOMEM, path);
    const int32_t n_left = count_judging(held);
    if (n_left == 0) {
        s2_cli_error(
            state->cli,
            n > 0 ? "%s: every row of the set held-out is of a point that was fitted, so none can judge"
                  : "%s: no measured row is of the set held-out (--held-out N, or --leave-out SEED --rows "
                    "FILE, makes them), so none can judge",
            path);
        return S2_EXIT_REFUSED;
    }
    if (n_left < n)
        s2_cli_error(state->cli, "%s: %d row%s judged nothing: their points were fitted", path, n - n_left,
                     s2_text_plural(n - n_left));
    return S2_EXIT_OK;
}

static s2_exit judge(s2_calibrate *state, const s2_gpu *gpu, s2_calibration *calibration)
{
    const char *const path = s2_args_str(&state->args, "judge");
    s2_row_file held;
    s2_accuracy accuracy;
    s2_diag diag = {0};
    if (path == NULL)
        return S2_EXIT_OK;
    S2_CLI_TRY(read_rows(state, path, &held));
    S2_CLI_TRY(drop_fitted(state, path, &held));
    const s2_status status =
        s2_accuracy_of(&state->cli->arena, &held, gpu, &calibration->model, &accuracy, &diag);
    if (status != S2_OK)
        return s2_cli_refuse_file(state->cli, status, path, &diag);
    for (int32_t k = 0; k < calibration->model.n_kernels; k++) {
        s2_kernel_model *const kernel = &calibration->model.kernels[k];
        kernel->n_judged = accuracy.kernels[k].n;
        kernel->error_pct = accuracy.kernels[k].mape;
        kernel->p90_pct = accuracy.kernels[k].p90;
        kernel->most_pct = accuracy.kernels[k].most;
        memcpy(kernel->spans, accuracy.spans[k], sizeof kernel->spans);
    }
    return S2_EXIT_OK;
}

static s2_exit write_constants(s2_calibrate *state, const s2_calibration *calibration)
{
    const char *const path = s2_args_str(&state->args, "out");
    s2_buf buf = {0};
    s2_calibration_print(calibration, &buf);
    return path == NULL ? s2_cli_print(state->cli, &buf) : s2_cli_save(state->cli, path, &buf);
}

static s2_exit read_kept(s2_calibrate *state, const char *path, s2_calibration *out)
{
    char *text;
    size_t n_bytes;
    s2_diag diag = {0};
    S2_CLI_TRY(s2_textfile_read(state->cli, path, &text, &n_bytes));
    const s2_status status = s2_calibration_parse(text, n_bytes, out, &diag);
    if (status != S2_OK)
        return s2_cli_refuse_file(state->cli, status, path, &diag);
    if (strcmp(out->head.gpu, state->file.head.gpu) == 0)
        return S2_EXIT_OK;
    s2_cli_error(state->cli, "--keep %s: these are constants of %s, and the rows are of %s", path,
                 out->head.gpu, state->file.head.gpu);
    return S2_EXIT_REFUSED;
}

static s2_exit fit(s2_calibrate *state)
{
    s2_calibration calibration = {.head = state->file.head}, kept;
    s2_gpu gpu;
    s2_diag diag = {0};
    const char *const keep = s2_args_str(&state->args, "keep"), *const only =
                                                                    s2_args_str(&state->args, "only");
    if (only != NULL && keep == NULL) {
        s2_cli_error(state->cli, "--only %s needs the constants that it belongs to: add --keep FILE", only);
        return S2_EXIT_USAGE;
    }
    if (keep != NULL) {
        S2_CLI_TRY(read_kept(state, keep, &kept));
        if (only != NULL) /* the file stays one of the rows that all its other constants are of */
            calibration.head = kept.head;
    }
    s2_status status = s2_gpu_find(state->file.head.gpu, &gpu, &diag);
    if (status == S2_OK && only != NULL && strcmp(only, "dims") == 0)
        status = s2_fit_dims(&state->cli->arena, &state->file, &kept.model, &calibration.model, &diag);
    else if (status == S2_OK && only != NULL)
        status =
            s2_fit_constant(&state->cli->arena, &state->file, &kept.model, only, &calibration.model, &diag);
    else if (status == S2_OK)
        status = s2_fit_run(&state->cli->arena, &state->file, &gpu, keep != NULL ? &kept.model : NULL,
                            &calibration.model, &diag);
    if (status != S2_OK)
        return s2_cli_refuse_file(state->cli, status, "fit", &diag);
    S2_CLI_TRY(judge(state, &gpu, &calibration));
    return write_constants(state, &calibration);
}

/* ------------------------------------------------------------------ the command */

static s2_exit print_list(s2_calibrate *state)
{
    s2_buf buf = {0};
    for (int32_t row = 0; row < state->file.n_rows; row++) {
        const s2_run_point *const point = &state->file.rows[row].point;
        s2_buf_printf(&buf, "%-8s %-9s %6d of %6d x %-2d %s  %s%s\n", s2_pass_word(point->pass),
                      point->family, point->q_tok, point->k_tok, point->batch, s2_dtype_word(point->dtype),
                      point->pattern, point->sinks ? ", with sinks" : "");
    }
    s2_buf_printf(&buf, "%d points, about %d s on the GPU\n", state->file.n_rows, 5 + state->file.n_rows / 5);
    return s2_cli_print(state->cli, &buf);
}

/* Which points are left out depends only on the seed and the point, not on the order of the rows. */
static bool is_left_out(const s2_row *row, int64_t seed)
{
    s2_rng rng = {(uint64_t)seed * 4099 + (uint64_t)row->nth * 8 + (uint64_t)row->point.pass};
    return s2_rng_below(&rng, 3) == 0;
}

static s2_exit write_left_out(s2_calibrate *state)
{
    const char *const path = s2_args_str(&state->args, "rows");
    s2_buf buf = {0};
    if (path == NULL)
        return S2_EXIT_OK;
    s2_rows_head_print(&state->file.head, &buf);
    s2_buf_puts(&buf, "\n");
    for (int32_t row = 0; row < state->file.n_rows; row++) {
        if (strcmp(state->file.rows[row].set, "held-out") != 0)
            continue;
        s2_row_print(&state->file.rows[row], &buf);
        s2_buf_puts(&buf, "\n");
    }
    return s2_cli_save(state->cli, path, &buf);
}

static s2_exit leave_out(s2_calibrate *state)
{
    int64_t seed;
    if (s2_args_str(&state->args, "leave-out") == NULL)
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_args_int(state->cli, &state->args, "leave-out", 0, INT64_MAX / 8192, &seed));
    for (int32_t nth = 0; nth < state->file.n_rows; nth++) {
        s2_row *const row = &state->file.rows[nth];
        if (strcmp(row->set, "designed") != 0 || !is_left_out(row, seed))
            continue;
        snprintf(row->set, sizeof row->set, "held-out");
        row->seed = seed;
    }
    return write_left_out(state);
}

static s2_exit measure_or_read(s2_calibrate *state)
{
    const char *const from = s2_args_str(&state->args, "from");
    if (from != NULL) {
        S2_CLI_TRY(read_rows(state, from, &state->file));
        return leave_out(state);
    }
    S2_CLI_TRY(list_points(state));
    return open_and_measure(state);
}

s2_exit s2_cmd_calibrate(s2_cli *cli, int argc, char **argv)
{
    s2_calibrate state = {.cli = cli};
    S2_CLI_TRY(s2_args_parse(cli, "calibrate", argc, argv, &state.args));
    const char *const kernel = s2_args_str(&state.args, "kernel");
    if (kernel != NULL && s2_plugged_is(kernel))
        return s2_calibrate_kernel(cli, &state.args);
    if (kernel != NULL)
        S2_CLI_TRY(s2_kernel_of_name(cli, kernel, &state.kernel));
    state.once = s2_args_has(&state.args, "once");
    S2_CLI_TRY(s2_args_int(cli, &state.args, "held-out", 0, LIMIT_POINTS / 4, &state.n_drawn));
    S2_CLI_TRY(s2_args_int(cli, &state.args, "seed", 0, INT64_MAX / 32, &state.seed));
    const bool fits = s2_args_has(&state.args, "from") || s2_args_has(&state.args, "out");
    if (fits && (state.n_drawn > 0 || state.once)) {
        s2_cli_error(cli, "--held-out and --once fit nothing: omit --out and --from");
        return S2_EXIT_USAGE;
    }
    read_passes(&state);
    if (s2_args_has(&state.args, "dry-run")) {
        S2_CLI_TRY(list_points(&state));
        return print_list(&state);
    }
    const char *const from = s2_args_str(&state.args, "from");
    if (from != NULL) {
        bool is_table = false;
        const s2_exit code = s2_calibrate_from(cli, &state.args, from, &is_table);
        if (code != S2_EXIT_OK || is_table)
            return code;
    }
    S2_CLI_TRY(measure_or_read(&state));
    return fits ? fit(&state) : S2_EXIT_OK;
}
