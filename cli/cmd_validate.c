#include "cli/commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/input.h"
#include "cli/options.h"
#include "cli/store.h"
#include "kernels/validate.h"
#include "pattern/parse.h"

enum { LIMIT_LENGTHS = 64, LIMIT_BATCH = 4096 };

typedef struct s2_validate_state {
    s2_cli *cli;
    s2_args args;
    s2_device *device;
    const s2_kernel *kernel;
    s2_kernel_phase phase;
    s2_dtype dtype;
    int64_t len_tok[LIMIT_LENGTHS];
    int32_t n_lengths;
    int64_t batch;
    int64_t seed;
    int64_t n_runs;
    int64_t layer; /* -1: one of each kind */
    bool json;
    bool live; /* progress goes to a terminal */
} s2_validate_state;

/* One verdict with what it is about. */
typedef struct s2_subject {
    const s2_validate_state *state;
    const char *name;
    const char *hash;
    const s2_pattern *pattern;
    int32_t layer;
    int32_t n_like; /* layers of the design that read the same */
    int64_t len_tok;
    const s2_validation *verdict;
} s2_subject;

/* ------------------------------------------------------------------ options */

static int read_lengths(s2_validate_state *state)
{
    const char *at = s2_args_str(&state->args, "len");
    while (*at != '\0') {
        char word[32];
        const size_t n = strcspn(at, ",");
        int64_t len_tok = 0;
        if (n < sizeof word) {
            memcpy(word, at, n);
            word[n] = '\0';
        }
        if (n >= sizeof word || !s2_number_parse(word, &len_tok) || len_tok < 1 ||
            len_tok > S2_LIMIT_CONTEXT_TOK || state->n_lengths == LIMIT_LENGTHS) {
            s2_cli_error(state->cli, "--len wants up to %d numbers of tokens from 1 to %d", LIMIT_LENGTHS,
                         S2_LIMIT_CONTEXT_TOK);
            return S2_EXIT_USAGE;
        }
        state->len_tok[state->n_lengths++] = len_tok;
        at += n + (at[n] == ',');
    }
    return S2_GO_ON;
}

static int read_dtype(s2_validate_state *state)
{
    const char *const word = s2_args_str(&state->args, "dtype");
    state->dtype = S2_BF16;
    if (word != NULL && strcmp(word, "fp32") == 0)
        state->dtype = S2_F32;
    else if (word != NULL && strcmp(word, "fp16") == 0)
        state->dtype = S2_F16;
    else if (word != NULL && strcmp(word, "bf16") != 0) {
        s2_cli_error(state->cli, "no kernel of this build computes in %s", word);
        return S2_EXIT_ENVIRONMENT;
    }
    return S2_GO_ON;
}

static int read_kernel(s2_validate_state *state)
{
    const char *const name = s2_args_str(&state->args, "kernel");
    if (name == NULL)
        return S2_GO_ON;
    state->kernel = s2_kernel_find(name);
    if (state->kernel != NULL)
        return S2_GO_ON;
    s2_cli_error(state->cli, "there is no kernel '%s' in this build", name);
    for (int32_t at = 0; s2_kernel_at(at) != NULL; at++)
        s2_cli_hint(state->cli, "%s: %s", s2_kernel_at(at)->name, s2_kernel_at(at)->summary);
    return S2_EXIT_USAGE;
}

static int read_layer(s2_validate_state *state)
{
    state->layer = -1;
    if (strcmp(s2_args_str(&state->args, "layer"), "auto") == 0)
        return S2_GO_ON;
    return s2_args_int(state->cli, &state->args, "layer", 0, S2_LIMIT_LAYERS - 1, &state->layer);
}

static int read_options(s2_validate_state *state)
{
    s2_cli *const cli = state->cli;
    if (s2_args_int(cli, &state->args, "batch", 1, LIMIT_BATCH, &state->batch) != S2_GO_ON ||
        s2_args_int(cli, &state->args, "seed", 0, INT64_MAX / 32, &state->seed) != S2_GO_ON ||
        s2_args_int(cli, &state->args, "runs", 0, S2_LIMIT_SAMPLES, &state->n_runs) != S2_GO_ON)
        return S2_EXIT_USAGE;
    const char *const phase = s2_args_str(&state->args, "phase");
    state->phase = strcmp(phase, "train") == 0    ? S2_BACKWARD
                   : strcmp(phase, "decode") == 0 ? S2_DECODING
                                                  : S2_FORWARD;
    state->json = s2_args_has(&state->args, "json");
    state->live = !state->json && isatty(STDERR_FILENO);
    s2_store_set_seed(cli, state->seed);
    int end = read_lengths(state);
    if (end == S2_GO_ON)
        end = read_dtype(state);
    if (end == S2_GO_ON)
        end = read_kernel(state);
    return end == S2_GO_ON ? read_layer(state) : end;
}

/* "0" is the GPU of that number, as "gpu:0". */
static int open_device(s2_validate_state *state)
{
    char spec[32];
    s2_diag why = {0};
    const char *const word = s2_args_str(&state->args, "device");
    const bool number = word[0] != '\0' && strspn(word, "0123456789") == strlen(word);
    snprintf(spec, sizeof spec, "%s%.20s", number ? "gpu:" : "", word);
    const s2_status status = s2_device_open(spec, &state->device, &why);
    if (status != S2_OK) {
        s2_cli_error(state->cli, "--device %s: %s", word,
                     why.msg[0] != '\0' ? why.msg : s2_status_text(status));
        return status == S2_EINVAL ? S2_EXIT_USAGE : S2_EXIT_ENVIRONMENT;
    }
    int64_t n_threads = 0;
    if (s2_args_str(&state->args, "threads") != NULL) {
        const int end = s2_args_int(state->cli, &state->args, "threads", 1, 1024, &n_threads);
        if (end != S2_GO_ON)
            return end;
        if (state->device->kind == S2_DEVICE_CPU)
            state->device->n_units = (int32_t)n_threads;
    }
    return S2_GO_ON;
}

/* ------------------------------------------------------------------ reports */

static double tflops(double pairs, const s2_subject *subject)
{
    return 4.0 * pairs * subject->pattern->head_dim / (subject->verdict->warm.median_ms * 1e9);
}

static void json_tail(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    const bool timed = v->warm.n > 0;
    s2_json_key(buf, "time_ms");
    s2_json_begin(buf, '{');
    s2_json_key(buf, "median");
    s2_json_num(buf, timed ? v->warm.median_ms : NAN);
    s2_json_key(buf, "min");
    s2_json_num(buf, timed ? v->warm.min_ms : NAN);
    s2_json_key(buf, "p95");
    s2_json_num(buf, timed ? v->warm.p95_ms : NAN);
    s2_json_key(buf, "runs");
    s2_json_int(buf, v->warm.n);
    s2_json_key(buf, "sm_mhz");
    s2_json_num(buf, v->sm_mhz > 0.0 ? v->sm_mhz : NAN);
    s2_json_end(buf, '}');
    s2_json_key(buf, "tflops");
    s2_json_begin(buf, '{');
    s2_json_key(buf, "useful");
    s2_json_num(buf, timed ? tflops((double)v->counts.pairs, subject) : NAN);
    s2_json_key(buf, "executed");
    s2_json_num(buf, timed ? tflops((double)v->counts.pairs_executed, subject) : NAN);
    s2_json_end(buf, '}');
    s2_json_key(buf, "dense_ms");
    s2_json_null(buf);
    s2_json_key(buf, "bytes");
    s2_buf_puts(buf, "{\"dram_read\":null,\"dram_write\":null,\"l2\":null}");
}

static void json_grid(const s2_validation *v, s2_buf *buf)
{
    static const char glyphs[] = " #.!?";
    s2_json_key(buf, "grid");
    s2_json_begin(buf, '[');
    for (int32_t n = 0; n < v->n_lengths; n++) {
        char row[S2_NEEDLE_DEPTHS + 1] = {0};
        for (int32_t depth = 0; depth < S2_NEEDLE_DEPTHS; depth++)
            row[depth] = glyphs[v->needle[n][depth]];
        if (n > 0)
            s2_buf_puts(buf, ",");
        s2_buf_printf(buf, "{\"len\":%d,\"cells\":\"%s\"}", v->needle_len[n], row);
    }
    s2_json_end(buf, ']');
}

static void json_evidence(const s2_validation *v, s2_buf *buf)
{
    s2_json_key(buf, "touch");
    s2_json_begin(buf, '{');
    s2_json_key(buf, "pairs");
    s2_json_int(buf, v->touch_pairs);
    s2_json_key(buf, "wrong");
    s2_json_int(buf, v->touch_wrong);
    s2_json_key(buf, "exhaustive");
    s2_json_bool(buf, v->touch_exhaustive);
    s2_json_end(buf, '}');
    s2_json_key(buf, "numerics");
    s2_json_begin(buf, '{');
    s2_json_key(buf, "rows");
    s2_json_int(buf, v->rows);
    s2_json_key(buf, "max_err");
    s2_json_num(buf, v->max_err);
    s2_json_key(buf, "tol");
    s2_json_num(buf, v->tol);
    s2_json_key(buf, "lse_err");
    s2_json_num(buf, v->lse_err);
    s2_json_end(buf, '}');
    s2_json_key(buf, "needles");
    s2_json_begin(buf, '{');
    s2_json_key(buf, "cells");
    s2_json_int(buf, v->needle_cells);
    s2_json_key(buf, "found");
    s2_json_int(buf, v->needle_found);
    s2_json_key(buf, "expected");
    s2_json_int(buf, v->needle_expected);
    json_grid(v, buf);
    s2_json_end(buf, '}');
}

static void print_json(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    const struct {
        const char *key, *text;
    } words[] = {{"schema", "s2validate/1"}, {"name", subject->name},
                 {"hash", subject->hash},    {"device", subject->state->device->name},
                 {"kernel", v->kernel},      {"phase", s2_kernel_phase_word(subject->state->phase)}};
    s2_json_begin(buf, '{');
    for (size_t at = 0; at < sizeof words / sizeof *words; at++) {
        s2_json_key(buf, words[at].key);
        s2_json_str(buf, words[at].text);
    }
    s2_json_key(buf, "len");
    s2_json_int(buf, subject->len_tok);
    s2_json_key(buf, "batch");
    s2_json_int(buf, subject->state->batch);
    s2_json_key(buf, "dtype");
    s2_json_str(buf, s2_dtype_name(subject->state->dtype));
    s2_json_key(buf, "layer");
    s2_json_int(buf, subject->layer);
    s2_json_key(buf, "layers_alike");
    s2_json_int(buf, subject->n_like);
    s2_json_key(buf, "outcome");
    s2_json_str(buf, s2_outcome_word(v->outcome));
    s2_json_key(buf, "reason");
    s2_json_str(buf, v->outcome != S2_OUTCOME_OK ? v->reason : NULL);
    json_evidence(v, buf);
    json_tail(subject, buf);
    s2_json_end(buf, '}');
}

static void text_grid(const s2_validation *v, s2_buf *buf)
{
    static const char *const glyphs[] = {"  ", " #", " .", " !", " ?"};
    s2_buf_puts(
        buf,
        "            depth 0 % ......... 100 %   # comes back   . no head reads it   ! lost   ? leaked\n");
    for (int32_t n = 0; n < v->n_lengths; n++) {
        s2_buf_printf(buf, "  %9d ", v->needle_len[n]);
        for (int32_t depth = 0; depth < S2_NEEDLE_DEPTHS; depth++)
            s2_buf_puts(buf, glyphs[v->needle[n][depth]]);
        s2_buf_puts(buf, "\n");
    }
}

static void print_text(const s2_subject *subject, s2_buf *buf)
{
    const s2_validation *const v = subject->verdict;
    s2_buf_printf(buf, "%s  layer %d", subject->name, subject->layer);
    if (subject->n_like > 1)
        s2_buf_printf(buf, " (and %d that read the same)", subject->n_like - 1);
    s2_buf_printf(buf, "  %s  %lld tokens x %lld  %s  %s on %s\n",
                  s2_kernel_phase_word(subject->state->phase), (long long)subject->len_tok,
                  (long long)subject->state->batch, s2_dtype_name(subject->state->dtype),
                  v->kernel[0] != '\0' ? v->kernel : "no kernel", subject->state->device->name);
    if (v->touch_pairs > 0)
        s2_buf_printf(buf, "  touch     %lld pairs compared, %lld wrong; %d of %d work items run%s\n",
                      (long long)v->touch_pairs, (long long)v->touch_wrong, v->n_items_run, v->n_items,
                      v->touch_exhaustive ? ", every pair of the layer" : "");
    if (v->rows > 0)
        s2_buf_printf(buf, "  numerics  %lld rows against fp64: error %.2g, allowed %.2g; LSE %.2g\n",
                      (long long)v->rows, v->max_err, v->tol, v->lse_err);
    if (v->needle_cells > 0) {
        s2_buf_printf(buf, "  needles   %lld of %lld come back, %lld by the pattern\n",
                      (long long)v->needle_found, (long long)v->needle_cells, (long long)v->needle_expected);
        text_grid(v, buf);
    }
    if (v->warm.n > 0)
        s2_buf_printf(
            buf,
            "  time      median %.3f ms, min %.3f, p95 %.3f of %d runs; %.3f TFLOP/s useful, %.3f executed\n",
            v->warm.median_ms, v->warm.min_ms, v->warm.p95_ms, v->warm.n,
            tflops((double)v->counts.pairs, subject), tflops((double)v->counts.pairs_executed, subject));
    s2_buf_printf(buf, "  %s%s%s\n", s2_outcome_word(v->outcome), v->outcome != S2_OUTCOME_OK ? ": " : "",
                  v->outcome != S2_OUTCOME_OK ? v->reason : "");
}

static void progress(void *user, const char *stage, int32_t done, int32_t all)
{
    const s2_validate_state *const state = user;
    if (state->live)
        fprintf(state->cli->err, "\r%-10s %d of %d\033[K", stage, done + 1, all);
}

static int store(const s2_subject *subject, const s2_input *input, const char *json)
{
    const s2_validation *const v = subject->verdict;
    const s2_validate_state *const state = subject->state;
    const bool timed = v->warm.n > 0;
    const s2_db_validation row = {
        .device = state->device->kind == S2_DEVICE_CPU ? "cpu" : state->device->name,
        .device_uuid = "",
        .driver = "",
        .runtime = "",
        .kernel = v->kernel,
        .phase = s2_kernel_phase_word(state->phase),
        .dtype = s2_dtype_name(state->dtype),
        .outcome = s2_outcome_word(v->outcome),
        .reason = v->outcome != S2_OUTCOME_OK ? v->reason : NULL,
        .len_tok = subject->len_tok,
        .batch = state->batch,
        .seed = state->seed,
        .pairs = v->touch_pairs,
        .pairs_wrong = v->touch_wrong,
        .max_err = v->max_err,
        .tolerance = v->tol,
        .needles_found = v->needle_found,
        .needles_expected = v->needle_expected,
        .median_ms = timed ? v->warm.median_ms : NAN,
        .min_ms = timed ? v->warm.min_ms : NAN,
        .sm_mhz = v->sm_mhz > 0.0 ? v->sm_mhz : NAN,
        .n_samples = v->warm.n,
        .samples_ms = v->sample_ms,
        .layer = subject->layer,
        .layers_alike = subject->n_like,
        .json = json,
    };
    return s2_store_validation(state->cli, input, &row);
}

/* ------------------------------------------------------------------ work */

static int exit_of_outcome(s2_outcome outcome)
{
    if (outcome == S2_OUTCOME_OK)
        return S2_EXIT_OK;
    return outcome == S2_OUTCOME_UNSUPPORTED ? S2_EXIT_ENVIRONMENT : S2_EXIT_VIOLATED;
}

static int report(const s2_subject *subject, const s2_input *input)
{
    s2_cli *const cli = subject->state->cli;
    s2_buf json = {0}, text = {0};
    print_json(subject, &json);
    if (subject->state->live)
        fputs("\r\033[K", cli->err);
    if (subject->state->json)
        s2_buf_printf(&text, "%s\n", json.data != NULL ? json.data : "");
    else
        print_text(subject, &text);
    int code = s2_cli_print(cli, &text);
    const int stored = json.status == S2_OK ? store(subject, input, json.data) : s2_exit_of(json.status);
    s2_buf_release(&json);
    if (subject->verdict->outcome == S2_OUTCOME_UNSUPPORTED)
        s2_cli_error(cli, "%s", subject->verdict->reason);
    code = code == S2_GO_ON ? S2_EXIT_OK : code;
    code = s2_exit_combine(code, stored == S2_GO_ON ? S2_EXIT_OK : stored);
    return s2_exit_combine(code, exit_of_outcome(subject->verdict->outcome));
}

static int validate_one(s2_validate_state *state, s2_subject *subject, const s2_input *input)
{
    s2_plan_seq *const seqs = S2_NEW(&state->cli->arena, s2_plan_seq, state->batch);
    if (seqs == NULL)
        return s2_cli_fail(state->cli, S2_ENOMEM, "validate");
    const int32_t k_tok = (int32_t)subject->len_tok;
    for (int64_t seq = 0; seq < state->batch; seq++)
        seqs[seq] = (s2_plan_seq){state->phase == S2_DECODING ? 1 : k_tok, k_tok};
    s2_validate_request request =
        s2_validate_request_init(state->device, subject->pattern, seqs, (int32_t)state->batch);
    request.phase = state->phase == S2_DECODING ? S2_DECODE : S2_PREFILL;
    request.layer = subject->layer;
    request.kernel_phase = state->phase;
    request.kernel = state->kernel;
    request.dtype = state->dtype;
    request.seed = (uint64_t)state->seed;
    request.n_timed = (int32_t)state->n_runs;
    request.progress = progress;
    request.user = state;
    s2_validation verdict;
    const s2_status status = s2_validate(state->device, &request, &verdict);
    if (status != S2_OK)
        return s2_cli_fail(state->cli, status, "validate");
    subject->verdict = &verdict;
    return report(subject, input);
}

/* The layers to judge: the one asked for, or one of each kind. */
static int find_layers(s2_validate_state *state, const s2_pattern *pattern, const int32_t **layers,
                       int32_t *n, int32_t *layer_of)
{
    const s2_phase phase = state->phase == S2_DECODING ? S2_DECODE : S2_PREFILL;
    const s2_status status = s2_plan_distinct_layers(&state->cli->arena, pattern, phase, layers, n, layer_of);
    if (status != S2_OK)
        return s2_cli_fail(state->cli, status, "validate");
    if (state->layer < 0)
        return S2_GO_ON;
    if (state->layer >= pattern->n_layers) {
        s2_cli_error(state->cli, "--layer %lld: the pattern has %d", (long long)state->layer,
                     pattern->n_layers);
        return S2_EXIT_USAGE;
    }
    int32_t *const one = S2_NEW(&state->cli->arena, int32_t, 1);
    if (one == NULL)
        return s2_cli_fail(state->cli, S2_ENOMEM, "validate");
    *one = (int32_t)state->layer;
    *layers = one;
    *n = 1;
    return S2_GO_ON;
}

static int32_t count_alike(const int32_t *layer_of, int32_t n_layers, int32_t layer)
{
    int32_t n = 0;
    for (int32_t at = 0; at < n_layers; at++)
        n += layer_of[at] == layer_of[layer];
    return n;
}

static int validate_operand(s2_validate_state *state, const char *operand)
{
    s2_input input;
    char hash[S2_HASH_HEX];
    const int32_t *layers;
    int32_t n_layers;
    int end = s2_input_read(state->cli, operand, &input);
    if (end != S2_GO_ON)
        return end;
    const s2_pattern *const pattern = &input.pattern;
    int32_t *const layer_of = S2_NEW(&state->cli->arena, int32_t, pattern->n_layers);
    if (layer_of == NULL || s2_pattern_hash(pattern, hash) != S2_OK)
        return s2_cli_fail(state->cli, S2_ENOMEM, "validate");
    end = find_layers(state, pattern, &layers, &n_layers, layer_of);
    if (end != S2_GO_ON)
        return end;
    int code = S2_EXIT_OK;
    for (int32_t at = 0; at < n_layers; at++)
        for (int32_t n = 0; n < state->n_lengths; n++) {
            s2_subject subject = {.state = state,
                                  .name = s2_input_name(state->cli, &input),
                                  .hash = hash,
                                  .pattern = pattern,
                                  .layer = layers[at],
                                  .n_like = count_alike(layer_of, pattern->n_layers, layers[at]),
                                  .len_tok = state->len_tok[n]};
            code = s2_exit_combine(code, validate_one(state, &subject, &input));
        }
    return code;
}

int s2_cmd_validate(s2_cli *cli, int argc, char **argv)
{
    s2_validate_state state = {.cli = cli};
    int end = s2_args_parse(cli, "validate", argc, argv, &state.args);
    if (end == S2_GO_ON)
        end = read_options(&state);
    if (end == S2_GO_ON)
        end = open_device(&state);
    int code = end == S2_GO_ON ? S2_EXIT_OK : end;
    for (int32_t at = 0; end == S2_GO_ON && at < state.args.n_operands; at++)
        code = s2_exit_combine(code, validate_operand(&state, state.args.operands[at]));
    s2_device_close(&state.device);
    return code;
}
