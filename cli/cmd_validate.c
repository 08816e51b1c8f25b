#include "cli/commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "judge/counters.h"
#include "base/arith.h"
#include "base/quantity.h"
#include "cli/color.h"
#include "cli/input.h"
#include "cli/options.h"
#include "sim/layer.h"
#include "cli/plugged.h"
#include "cli/store.h"
#include "cli/validating.h"
#include "judge/watchdog.h"
#include "judge/validate.h"
#include "pattern/parse.h"

enum {
    LIMIT_LENGTHS = 64,
    LIMIT_BATCH = 4096,
    QUIET_SECONDS = 10,
    LIMIT_SECONDS = 86400,
    LIGHT_WINDOWS = 6,
    LIGHT_PAIRS = 4000000,
    LIMIT_CAP = 1000000
};

typedef struct s2_validate_state {
    s2_cli *cli;
    s2_args args;
    s2_device *device;
    const s2_kernel *kernel;
    s2_phase phase;
    s2_dtype dtype;
    int64_t len_tok[LIMIT_LENGTHS];
    int64_t usual_tok; /* the length when --len is not given */
    int32_t n_lengths;
    int64_t batch;
    int64_t seed;
    int64_t n_runs;
    int64_t n_pairs;   /* 0: the device's default */
    int64_t layer;     /* -1: one of each kind */
    int64_t timeout_s; /* 0: never */
    int64_t n_steps;   /* -1: the device's default */
    int64_t page_tok;
    double cap;        /* negative: the model's */
    const char *sinks; /* "yes", "no"; NULL: the model's */
    s2_cache_layout layout;
    bool e4m3;             /* of keys and values; of queries too but in decode steps */
    const char *gpu;       /* the simulator's name for the device, or NULL */
    bool plugged;          /* kernel is somebody else's */
    s2_device *gpu_beside; /* where our kernel is timed for comparison; NULL: not opened */
    bool json;
    bool once;
    bool counters;
    bool live; /* progress goes to a terminal */
    s2_verdict_sum sum;
    time_t said_at; /* when progress was last logged, if there is no terminal */
    char stage[48]; /* the current stage of the verdict in progress */
    char begun[24]; /* on a terminal: the current stage, when it began, and at which step */
    double begun_s;
    int32_t begun_at;
    s2_watchdog *dog;
    s2_subject *subject; /* the verdict in progress, for the watchdog */
    s2_layer_kv cache;
    const s2_input *input;
    s2_verdict_fn take; /* receives each verdict; NULL: they are printed */
    void *user;
} s2_validate_state;

/* ------------------------------------------------------------------ options */

static s2_exit read_lengths(s2_validate_state *state)
{
    const char *rest = s2_args_str(&state->args, "len");
    while (*rest != '\0') {
        char word[32];
        const size_t n = strcspn(rest, ",");
        int64_t len_tok = 0;
        if (n < sizeof word) {
            memcpy(word, rest, n);
            word[n] = '\0';
        }
        if (n >= sizeof word || !s2_number_parse(word, &len_tok) || len_tok < 1 ||
            len_tok > S2_LIMIT_CONTEXT_TOK || state->n_lengths == LIMIT_LENGTHS) {
            s2_cli_error(state->cli, "--len: expected at most %d lengths, each from 1 to %d tokens",
                         LIMIT_LENGTHS, S2_LIMIT_CONTEXT_TOK);
            return S2_EXIT_USAGE;
        }
        state->len_tok[state->n_lengths++] = len_tok;
        rest += n + (rest[n] == ',');
    }
    state->usual_tok = state->len_tok[0];
    if (state->n_lengths > 0)
        return S2_EXIT_OK;
    s2_cli_error(state->cli, "--len: expected at least one length in tokens");
    return S2_EXIT_USAGE;
}

static s2_exit read_dtype(s2_validate_state *state)
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
    return S2_EXIT_OK;
}

static s2_exit read_kernel(s2_validate_state *state)
{
    const char *const name = s2_args_str(&state->args, "kernel");
    if (name == NULL)
        return S2_EXIT_OK;
    if (s2_plugged_is(name))
        return S2_EXIT_OK; /* opened when the device is known */
    return s2_kernel_of_name(state->cli, name, &state->kernel);
}

static s2_exit read_layer(s2_validate_state *state)
{
    state->layer = -1;
    if (strcmp(s2_args_str(&state->args, "layer"), "auto") == 0)
        return S2_EXIT_OK;
    return s2_args_int(state->cli, &state->args, "layer", 0, S2_LIMIT_LAYERS - 1, &state->layer);
}

/* The cache that a generation goes through. */
static s2_exit read_cache(s2_validate_state *state)
{
    s2_cli *const cli = state->cli;
    const char *const word = s2_args_str(&state->args, "cache");
    for (int layout = 0; layout < S2_N_CACHE_LAYOUTS; layout++)
        if (strcmp(word, s2_cache_layout_word((s2_cache_layout)layout)) == 0)
            state->layout = (s2_cache_layout)layout;
    state->e4m3 = strcmp(s2_args_str(&state->args, "kv-dtype"), "e4m3") == 0;
    if (state->e4m3 && state->phase == S2_TRAIN) {
        s2_cli_error(cli,
                     "--kv-dtype e4m3: gradients have no eight bits, so it needs --phase prefill or decode");
        return S2_EXIT_USAGE;
    }
    state->n_steps = -1;
    if (s2_args_str(&state->args, "steps") != NULL)
        S2_CLI_TRY(s2_args_int(cli, &state->args, "steps", 0, S2_LIMIT_CONTEXT_TOK, &state->n_steps));
    return s2_args_int(cli, &state->args, "page", 0, 1 << 16, &state->page_tok);
}

/* What is done to scores; what is not given is decided by the pattern's model. */
static s2_exit read_scores(s2_validate_state *state)
{
    const char *const cap = s2_args_str(&state->args, "soft-cap");
    state->cap = -1.0;
    state->sinks = s2_args_str(&state->args, "sink-logits");
    if (cap != NULL && (!s2_quantity_parse(S2_QUANTITY_COUNT, cap, 1.0, &state->cap) ||
                        state->cap > LIMIT_CAP || (state->cap > 0.0 && state->cap < 1.0 / LIMIT_CAP))) {
        s2_cli_error(state->cli, "--soft-cap %s: expected 0, or a number from 1/%d to %d", cap, LIMIT_CAP,
                     LIMIT_CAP);
        return S2_EXIT_USAGE;
    }
    return S2_EXIT_OK;
}

static s2_exit read_options(s2_validate_state *state)
{
    s2_cli *const cli = state->cli;
    S2_CLI_TRY(s2_args_int(cli, &state->args, "batch", 1, LIMIT_BATCH, &state->batch));
    S2_CLI_TRY(s2_args_int(cli, &state->args, "seed", 0, INT64_MAX / 32, &state->seed));
    S2_CLI_TRY(s2_args_int(cli, &state->args, "runs", 0, S2_LIMIT_SAMPLES, &state->n_runs));
    S2_CLI_TRY(s2_args_int(cli, &state->args, "timeout", 0, LIMIT_SECONDS, &state->timeout_s));
    if (s2_args_str(&state->args, "pairs") != NULL)
        S2_CLI_TRY(s2_args_int(cli, &state->args, "pairs", 1, INT64_MAX / 4, &state->n_pairs));
    const char *const phase = s2_args_str(&state->args, "phase");
    while (state->phase < S2_N_PHASES - 1 && strcmp(phase, s2_phase_word(state->phase)) != 0)
        state->phase++;
    state->json = s2_args_has(&state->args, "json");
    state->once = s2_args_has(&state->args, "once");
    state->counters = s2_args_has(&state->args, "counters");
    s2_color_read(cli, &state->args);
    state->live = isatty(STDERR_FILENO) && !cli->quiet;
    state->said_at = time(NULL);
    s2_store_set_seed(cli, state->seed);
    S2_CLI_TRY(read_lengths(state));
    S2_CLI_TRY(read_scores(state));
    S2_CLI_TRY(read_cache(state));
    S2_CLI_TRY(read_dtype(state));
    S2_CLI_TRY(read_kernel(state));
    return read_layer(state);
}

/* Where our kernel is timed next to somebody else's: on the GPU if theirs computes there. A shared object is
 * called in forks of this process, which no GPU driver survives. */
static s2_device *beside(s2_validate_state *state)
{
    if (!state->kernel->elsewhere->on_gpu)
        return state->device;
    if (state->gpu_beside == NULL && s2_device_open("gpu:0", &state->gpu_beside, NULL) != S2_OK)
        return NULL;
    return state->gpu_beside;
}

/* Open somebody else's kernel, which is judged as a whole. */
static s2_exit open_plug(s2_validate_state *state)
{
    const char *const path = s2_args_str(&state->args, "kernel");
    if (path == NULL || !s2_plugged_is(path))
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_plugged_open(state->cli, state->device, path, (double)state->timeout_s, &state->kernel));
    state->plugged = true;
    state->timeout_s = 0; /* the limit applies to each call instead */
    return S2_EXIT_OK;
}

/* "0" means the same as "gpu:0". */
static s2_exit open_device(s2_validate_state *state)
{
    char spec[32];
    s2_diag why = {0};
    const char *const word = s2_args_str(&state->args, "device");
    const bool number = word[0] != '\0' && strspn(word, "0123456789") == strlen(word);
    snprintf(spec, sizeof spec, "%s%.20s", number ? "gpu:" : "", word);
    const s2_status status = s2_device_open(spec, &state->device, &why);
    if (status != S2_OK) {
        s2_cli_error(state->cli, "--device %s: %s", word, s2_diag_text(&why, status));
        return status == S2_EINVAL ? S2_EXIT_USAGE : S2_EXIT_ENVIRONMENT;
    }
    int64_t n_threads = 0;
    if (s2_args_str(&state->args, "threads") != NULL) {
        S2_CLI_TRY(s2_args_int(state->cli, &state->args, "threads", 1, 1024, &n_threads));
        if (state->device->kind == S2_DEVICE_CPU)
            state->device->n_units = (int32_t)n_threads;
    }
    state->gpu = state->device->kind == S2_DEVICE_GPU ? s2_gpu_of_device(state->device->name) : NULL;
    return open_plug(state);
}

/* ------------------------------------------------------------------ reports */

/* Show what is done, and how long the rest of the stage takes at its pace so far. */
static void show_stage(s2_validate_state *state, const char *stage, int32_t done, int32_t all)
{
    const double now = s2_steady_s();
    if (done == 0 || strncmp(state->begun, stage, sizeof state->begun - 1) != 0) {
        snprintf(state->begun, sizeof state->begun, "%.20s", stage);
        state->begun_s = now;
        state->begun_at = done;
    }
    const int32_t n = done - state->begun_at;
    const double took = now - state->begun_s;
    fprintf(state->cli->err, "\rlayer %d, %s: %s", state->subject->layer,
            s2_count_text(state->subject->len_tok, "token").text, state->stage);
    if (n > 0 && took >= 1)
        fprintf(state->cli->err, ", %.0f s left of %.20s", took / n * (all - done), stage);
    fputs("\033[K", state->cli->err);
    fflush(state->cli->err);
}

/* On a terminal a line that moves; elsewhere a line now and then, so that a log shows life. */
static void progress(void *user, const char *stage, int32_t done, int32_t all)
{
    s2_validate_state *const state = user;
    const time_t now = time(NULL);
    s2_watchdog_feed(state->dog);
    snprintf(state->stage, sizeof state->stage, "%.20s %d of %d", stage, done + 1, all);
    if (state->live)
        show_stage(state, stage, done, all);
    else if (now - state->said_at >= QUIET_SECONDS && !state->cli->quiet)
        fprintf(state->cli->err, "layer %d, %s: %s\n", state->subject->layer,
                s2_count_text(state->subject->len_tok, "token").text, state->stage);
    if (state->live || now - state->said_at >= QUIET_SECONDS)
        state->said_at = now;
}

static s2_exit exit_of_outcome(s2_outcome outcome)
{
    if (outcome == S2_OUTCOME_OK)
        return S2_EXIT_OK;
    if (outcome == S2_OUTCOME_OUT_OF_MEMORY)
        return s2_exit_of(S2_ENOMEM); /* nothing was found to be wrong */
    return outcome == S2_OUTCOME_UNSUPPORTED ? S2_EXIT_ENVIRONMENT : S2_EXIT_VIOLATED;
}

/* With --quiet a pass prints nothing, but one that proves little must say so. */
static void say_little(s2_cli *cli, const s2_subject *subject)
{
    const s2_telling *const telling = &subject->telling;
    if (!cli->quiet || subject->verdict->outcome != S2_OUTCOME_OK || telling->n_plain == 0)
        return;
    fprintf(cli->err,
            "%s, layer %d: ok proves little at %s, where %d of %d heads read what dense attention "
            "reads: --len %lld or more tells them apart\n",
            subject->name, subject->layer, s2_count_text(subject->len_tok, "token").text, telling->n_plain,
            subject->pattern->n_heads, (long long)telling->least_tok);
}

/* Points into the subject and json. */
static s2_db_validation row_of(const s2_subject *subject, const char *json)
{
    /* the time of one cache is not that of another: they must not be found for one another */
    static const char *const of_cache[S2_N_DTYPES] = {"fp32/e4m3", "bf16/e4m3", "fp16/e4m3"};
    const s2_validation *const v = subject->verdict;
    const bool timed = v->warm.n > 0;
    return (s2_db_validation){
        .device = subject->device->kind == S2_DEVICE_CPU ? "cpu" : subject->device->name,
        .device_uuid = subject->device->uuid,
        .driver = subject->device->driver,
        .runtime = subject->device->runtime,
        .kernel = v->kernel,
        .phase = s2_pass_word(subject->pass),
        .dtype = subject->e4m3 ? of_cache[subject->dtype] : s2_dtype_word(subject->dtype),
        .outcome = s2_outcome_word(v->outcome),
        .reason = v->outcome != S2_OUTCOME_OK ? v->reason : NULL,
        .len_tok = subject->len_tok,
        .batch = subject->batch,
        .seed = subject->seed,
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
        .gpu = subject->device->kind == S2_DEVICE_GPU ? s2_gpu_of_device(subject->device->name) : NULL,
        .kernels = subject->plugged ? v->kernel : S2_DB_OURS,
    };
}

static s2_exit report(s2_validate_state *state, const s2_subject *subject)
{
    s2_cli *const cli = state->cli;
    s2_buf json = {0}, text = {0};
    s2_verdict_json(subject, &json);
    if (state->live)
        fputs("\r\033[K", cli->err);
    if (state->take != NULL)
        state->take(state->user, subject);
    else if (state->json)
        s2_buf_printf(&text, "%s\n", json.data != NULL ? json.data : "");
    else
        s2_verdict_print(subject, &text);
    s2_exit code = s2_color_print(cli, &text, 2);
    say_little(cli, subject);
    fflush(cli->out); /* verdicts may be hours apart, and Ctrl-C loses what is not flushed */
    s2_exit stored = S2_EXIT_OK;
    if (json.status != S2_OK) {
        stored = s2_cli_fail(cli, json.status, "the row to store");
    } else {
        const s2_db_validation row = row_of(subject, json.data);
        stored = s2_store_validation(cli, state->input, &row);
    }
    s2_buf_release(&json);
    s2_verdict_sum_add(&state->sum, subject->verdict);
    if (subject->verdict->outcome == S2_OUTCOME_UNSUPPORTED)
        s2_cli_error(cli, "%s", subject->verdict->reason);
    code = s2_exit_combine(code, stored);
    return s2_exit_combine(code, exit_of_outcome(subject->verdict->outcome));
}

/* ------------------------------------------------------------------ work */

/* On the watchdog's thread; the worker is stuck in a kernel and will not come back. */
static int expired(void *user)
{
    s2_validate_state *const state = user;
    s2_validation verdict = {
        .outcome = S2_OUTCOME_TIMEOUT, .kernel = "", .dense_kernel = "", .ours_kernel = "", .lse_err = NAN};
    if (state->kernel != NULL)
        verdict.kernel = state->kernel->traits->name;
    snprintf(verdict.reason, sizeof verdict.reason, "layer %d, %s: no progress for %lld s in stage \"%s\"",
             state->subject->layer, s2_count_text(state->subject->len_tok, "token").text,
             (long long)state->timeout_s, state->stage);
    state->subject->verdict = &verdict;
    const s2_exit code = report(state, state->subject);
    s2_cli_error(state->cli, "%s; the process ends here", verdict.reason);
    return s2_store_finish(state->cli, code);
}

/* For a profiler, which should look at the second launch. */
static s2_exit launch_once(const s2_validate_state *state, const s2_validate_request *request)
{
    s2_diag why = {0};
    const s2_status status = s2_validate_launch(state->device, request, &why);
    const s2_outcome outcome = s2_outcome_of(status);
    if (status != S2_OK)
        s2_cli_error(state->cli, "%s: %s", s2_outcome_word(outcome), s2_diag_text(&why, status));
    return exit_of_outcome(outcome);
}

static void predict(const s2_validate_state *state, s2_subject *subject, s2_layer_price *room)
{
    const s2_layer_ask ask = {.pattern = subject->pattern,
                              .layer = subject->layer,
                              .phase = state->phase,
                              .dtype = subject->dtype,
                              .cache = subject->e4m3 ? S2_CACHE_E4M3 : S2_CACHE_AS_DTYPE,
                              .len_tok = subject->len_tok,
                              .batch = subject->batch};
    if (subject->e4m3 && subject->pass == S2_PASS_FORWARD) /* priced from rows that nobody has measured */
        return;
    if (state->gpu != NULL && s2_layer_predict(state->gpu, &ask, room) == S2_OK)
        subject->predicted = room;
}

static void count_bytes(const s2_validate_state *state, s2_subject *subject, s2_counters *room, s2_diag *why)
{
    char len[24], layer[16], batch[24], seed[24], cap[24];
    snprintf(len, sizeof len, "%lld", (long long)subject->len_tok);
    snprintf(layer, sizeof layer, "%d", subject->layer);
    snprintf(batch, sizeof batch, "%lld", (long long)subject->batch);
    snprintf(seed, sizeof seed, "%lld", (long long)subject->seed);
    snprintf(cap, sizeof cap, "%.9f", subject->scores.cap);
    const char *const dtype = s2_args_str(&state->args, "dtype");
    const char *const args[] = {"--once",
                                "--no-db",
                                "--device",
                                s2_args_str(&state->args, "device"),
                                "--len",
                                len,
                                "--layer",
                                layer,
                                "--batch",
                                batch,
                                "--seed",
                                seed,
                                "--soft-cap",
                                cap,
                                "--sink-logits",
                                subject->scores.sinks ? "yes" : "no",
                                "--phase",
                                s2_phase_word(state->phase),
                                "--kernel",
                                subject->verdict->kernel,
                                "--kv-dtype",
                                s2_args_str(&state->args, "kv-dtype"),
                                dtype != NULL ? "--dtype" : NULL,
                                dtype,
                                NULL};
    if (state->device->kind != S2_DEVICE_GPU)
        subject->no_counters = "a CPU's caches are not counted";
    else if (s2_counters_measure(subject->pattern, args, room, why) == S2_OK)
        subject->counters = room;
    else
        subject->no_counters = why->msg;
}

static s2_exit judge(s2_validate_state *state, s2_subject *subject, const s2_validate_request *request)
{
    s2_validation verdict;
    s2_layer_price predicted;
    s2_counters counters;
    s2_diag why = {0};
    snprintf(state->stage, sizeof state->stage, "plan");
    if (state->timeout_s > 0 &&
        s2_watchdog_start((double)state->timeout_s, expired, state, &state->dog) != S2_OK)
        return s2_cli_fail(state->cli, S2_ENOMEM, "validate");
    const s2_status status = s2_validate(state->device, request, &verdict);
    s2_watchdog_stop(&state->dog);
    if (status != S2_OK)
        return s2_cli_fail(state->cli, status, "validate");
    subject->verdict = &verdict;
    predict(state, subject, &predicted);
    if (state->counters && verdict.outcome == S2_OUTCOME_OK)
        count_bytes(state, subject, &counters, &why);
    return report(state, subject);
}

static int64_t cache_bytes(void *user, int64_t n_tok)
{
    const s2_validate_state *const state = user;
    s2_kv_bytes bytes;
    if (s2_layer_kv_count(&state->cache, n_tok, &bytes) != S2_OK)
        return -1;
    switch (state->layout) {
    case S2_CACHE_HEAD_PAGES: return bytes.head_pages;
    case S2_CACHE_RING: return bytes.ring_stripes;
    case S2_CACHE_SHARED_PAGES: return bytes.shared_pages;
    case S2_N_CACHE_LAYOUTS: break;
    }
    return -1;
}

/* The simulator counts what the cache of a generation must hold; if it cannot, the kernel is judged without
 * that count. */
static void predict_cache(s2_validate_state *state, s2_validate_request *request)
{
    const s2_cache_options options = s2_cache_options_default(request->pattern);
    const int32_t page_tok = request->page_tok > 0 ? request->page_tok : options.page_tok;
    if (request->pass == S2_PASS_DECODE &&
        s2_layer_kv_init(&state->cache, &state->cli->arena, request->pattern, request->layer,
                         request->e4m3 ? S2_F8 : request->dtype, page_tok) == S2_OK)
        request->cache_bytes = cache_bytes;
}

static s2_exit validate_one(s2_validate_state *state, s2_subject *subject)
{
    s2_plan_seq *const seqs = S2_NEW(&state->cli->arena, s2_plan_seq, state->batch);
    if (seqs == NULL)
        return s2_cli_fail(state->cli, S2_ENOMEM, "validate");
    const int32_t k_tok = (int32_t)subject->len_tok;
    for (int64_t seq = 0; seq < state->batch; seq++)
        seqs[seq] = (s2_plan_seq){subject->pass == S2_PASS_DECODE ? 1 : k_tok, k_tok};
    s2_validate_request request =
        s2_validate_request_init(state->device, subject->pattern, seqs, (int32_t)state->batch);
    request.phase = s2_phase_rules(state->phase);
    request.layer = subject->layer;
    request.pass = subject->pass;
    request.kernel = state->kernel;
    request.dtype = state->dtype;
    request.e4m3 = state->e4m3;
    request.cap = (float)subject->scores.cap;
    request.sinks = subject->scores.sinks;
    request.seed = (uint64_t)state->seed;
    request.n_timed = (int32_t)state->n_runs;
    request.budget_flop = state->plugged ? 0.0 : request.budget_flop;
    request.beside = state->plugged && state->n_runs > 0 ? beside(state) : NULL;
    request.budget_pairs = state->n_pairs > 0 ? state->n_pairs : request.budget_pairs;
    if (s2_args_has(&state->args, "light")) {
        request.few_heads = true;
        request.max_windows = LIGHT_WINDOWS;
        request.budget_pairs = state->n_pairs > 0 ? state->n_pairs : LIGHT_PAIRS;
        request.needles = false;
    }
    request.progress = progress;
    request.user = state;
    request.n_steps = state->n_steps >= 0 ? (int32_t)state->n_steps : request.n_steps;
    request.layout = state->layout;
    request.page_tok = (int32_t)state->page_tok;
    state->subject = subject;
    predict_cache(state, &request);
    return state->once ? launch_once(state, &request) : judge(state, subject, &request);
}

/* The layers to judge: the one asked for, or one of each kind. */
static s2_exit find_layers(s2_validate_state *state, const s2_pattern *pattern, const int32_t **layers,
                           int32_t *n, int32_t *layer_of)
{
    const s2_status status = s2_plan_distinct_layers(&state->cli->arena, pattern,
                                                     s2_phase_rules(state->phase), layers, n, layer_of);
    if (status != S2_OK)
        return s2_cli_fail(state->cli, status, "validate");
    if (state->layer < 0)
        return S2_EXIT_OK;
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
    return S2_EXIT_OK;
}

static int32_t count_alike(const int32_t *layer_of, int32_t n_layers, int32_t layer)
{
    int32_t n = 0;
    for (int32_t at = 0; at < n_layers; at++)
        n += layer_of[at] == layer_of[layer];
    return n;
}

/* The union property at a length; NULL if the prover gives up. */
static const s2_finding *prove_union(s2_validate_state *state, const s2_pattern *pattern, int64_t len_tok)
{
    static const s2_requirement asked = {S2_UNION, 0, true};
    const s2_prove_options options = {.n_tok = len_tok};
    s2_finding *const finding = S2_NEW(&state->cli->arena, s2_finding, 1);
    const bool decided = !state->once && finding != NULL &&
                         s2_prove(&state->cli->arena, pattern, &asked, 1, &options, finding) == S2_OK;
    return decided && finding->verdict != S2_UNKNOWN ? finding : NULL;
}

static s2_telling tell(const s2_validate_state *state, const s2_pattern *pattern, int32_t layer,
                       int64_t len_tok)
{
    s2_telling telling = {0};
    s2_arena scratch = {0};
    if (s2_telling_find(&scratch, pattern, s2_phase_rules(state->phase), layer, len_tok, &telling) != S2_OK)
        telling = (s2_telling){0};
    s2_arena_release(&scratch);
    return telling;
}

static s2_model_scores scores_of(const s2_validate_state *state, const s2_pattern *pattern)
{
    s2_model_scores scores = s2_model_scores_of(pattern->model);
    if (state->cap >= 0.0)
        scores.cap = state->cap;
    if (state->sinks != NULL)
        scores.sinks = strcmp(state->sinks, "yes") == 0;
    return scores;
}

static s2_exit validate_input(s2_validate_state *state, const s2_input *input)
{
    char hash[S2_HASH_HEX];
    const int32_t *layers;
    int32_t n_layers;
    const s2_pattern *const pattern = &input->pattern;
    const s2_phase_passes *const passes = &s2_passes_of[state->phase];
    int32_t *const layer_of = S2_NEW(&state->cli->arena, int32_t, pattern->n_layers);
    if (layer_of == NULL || s2_pattern_hash(pattern, hash) != S2_OK)
        return s2_cli_fail(state->cli, S2_ENOMEM, "validate");
    S2_CLI_TRY(find_layers(state, pattern, &layers, &n_layers, layer_of));
    s2_exit code = S2_EXIT_OK;
    state->input = input;
    const s2_finding *all_read[LIMIT_LENGTHS];
    for (int32_t n = 0; n < state->n_lengths; n++)
        all_read[n] = prove_union(state, pattern, state->len_tok[n]);
    for (int32_t nth = 0; nth < n_layers; nth++)
        for (int32_t n = 0; n < state->n_lengths; n++) {
            s2_subject subject = {.name = s2_input_name(state->cli, input),
                                  .hash = hash,
                                  .commit = s2_version_commit(),
                                  .pattern = pattern,
                                  .device = state->device,
                                  .pass = passes->pass[passes->n - 1],
                                  .dtype = state->dtype,
                                  .e4m3 = state->e4m3,
                                  .scores = scores_of(state, pattern),
                                  .batch = state->batch,
                                  .seed = state->seed,
                                  .layer = layers[nth],
                                  .n_like = count_alike(layer_of, pattern->n_layers, layers[nth]),
                                  .plugged = state->plugged,
                                  .len_tok = state->len_tok[n],
                                  .all_read = all_read[n],
                                  .telling = tell(state, pattern, layers[nth], state->len_tok[n])};
            code = s2_exit_combine(code, validate_one(state, &subject));
        }
    return code;
}

/*
 * Without --len: the usual length, or a longer one that tells the heads from dense ones if that is cheap, but
 * never beyond the end of mask files.
 */
static s2_exit choose_length(s2_validate_state *state, const s2_pattern *pattern)
{
    enum { CHEAP_TOK = 4096 };
    const int64_t limit_tok = s2_pattern_limit_tok(pattern), usual_tok = state->usual_tok;
    const int32_t *layers;
    int32_t n_layers, *const layer_of = S2_NEW(&state->cli->arena, int32_t, pattern->n_layers);
    if (layer_of == NULL)
        return s2_cli_fail(state->cli, S2_ENOMEM, "validate");
    S2_CLI_TRY(find_layers(state, pattern, &layers, &n_layers, layer_of));
    int64_t len_tok = usual_tok;
    for (int32_t nth = 0; nth < n_layers; nth++) {
        const int64_t whole_tok = tell(state, pattern, layers[nth], usual_tok).whole_tok;
        if (whole_tok <= CHEAP_TOK)
            len_tok = s2_max_i64(len_tok, whole_tok);
    }
    state->len_tok[0] = s2_min_i64(len_tok, limit_tok);
    return S2_EXIT_OK;
}

static s2_exit fit_lengths(s2_validate_state *state, const s2_pattern *pattern)
{
    if (!s2_args_has(&state->args, "len"))
        S2_CLI_TRY(choose_length(state, pattern));
    for (int32_t n = 0; n < state->n_lengths; n++)
        S2_CLI_TRY(s2_input_fits(state->cli, pattern, state->len_tok[n]));
    return S2_EXIT_OK;
}

static s2_exit validate_operand(s2_validate_state *state, const char *operand)
{
    s2_input input;
    S2_CLI_TRY(s2_input_read(state->cli, operand, &input));
    S2_CLI_TRY(fit_lengths(state, &input.pattern));
    return validate_input(state, &input);
}

/* The caller must close the device, whatever this returns. */
static s2_exit prepare(s2_validate_state *state, int argc, char **argv)
{
    S2_CLI_TRY(s2_args_parse(state->cli, "validate", argc, argv, &state->args));
    S2_CLI_TRY(read_options(state));
    return open_device(state);
}

s2_exit s2_validate_inputs(s2_cli *cli, int argc, char **argv, const s2_input *inputs, int32_t n_inputs,
                           s2_wanted_fn wanted, s2_verdict_fn take, void *user)
{
    s2_validate_state state = {.cli = cli, .take = take, .user = user};
    const char *const command = cli->command;
    const s2_exit ready = prepare(&state, argc, argv);
    s2_exit code = ready;
    cli->command = command;
    for (int32_t n = 0; ready == S2_EXIT_OK && n < n_inputs; n++)
        if (wanted(user, n))
            code = s2_exit_combine(code, validate_input(&state, &inputs[n]));
    s2_plugged_close();
    s2_device_close(&state.gpu_beside);
    s2_device_close(&state.device);
    return code;
}

static s2_exit print_sum(s2_validate_state *state)
{
    s2_buf text = {0};
    if (state->sum.n < 2)
        return S2_EXIT_OK;
    s2_verdict_sum_print(&state->sum, state->json, &text);
    return s2_color_print(state->cli, &text, 2);
}

s2_exit s2_cmd_validate(s2_cli *cli, int argc, char **argv)
{
    s2_validate_state state = {.cli = cli};
    const s2_exit ready = prepare(&state, argc, argv);
    s2_exit code = ready;
    for (int32_t n = 0; ready == S2_EXIT_OK && n < state.args.n_operands; n++)
        code = s2_exit_combine(code, validate_operand(&state, state.args.operands[n]));
    s2_plugged_close();
    s2_device_close(&state.gpu_beside);
    s2_device_close(&state.device);
    return s2_exit_combine(code, print_sum(&state));
}
