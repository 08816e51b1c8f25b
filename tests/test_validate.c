#include "tests/s2test.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "judge/telling.h"
#include "judge/counters.h"
#include "judge/steady.h"
#include "pattern/dense.h"
#include "sim/layer.h"
#include "judge/watchdog.h"
#include "judge/workload.h"
#include "pattern/parse.h"
#include "tests/s2parsed.h"

/* ------------------------------------------------------------------ the watchdog */

static void nap(long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int says_seven(void *user)
{
    (void)user;
    return 7;
}

/* The exit code of a child that works `n` times `ms` under a limit of `limit_s`, feeding in between; 0: it
 * came to its end. */
static int worked(double limit_s, int n, long ms)
{
    const pid_t child = fork();
    if (child == 0) {
        s2_watchdog *dog = NULL;
        if (s2_watchdog_start(limit_s, says_seven, NULL, &dog) != S2_OK)
            _exit(99);
        for (int at = 0; at < n; at++) {
            nap(ms);
            s2_watchdog_feed(dog);
        }
        s2_watchdog_stop(&dog);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_worker_without_a_sign_of_life_ends_with_the_watchdogs_code(void **state)
{
    (void)state;
    assert_int_equal(worked(0.05, 1, 20000), 7);
    assert_int_equal(worked(60.0, 4, 10), 0);
    assert_int_equal(worked(60.0, 0, 0), 0);
}

/* A kernel that never ends. */
static s2_status hang(s2_device *device, const s2_attn_problem *problem, void *own, s2_diag *why)
{
    (void)device;
    (void)problem;
    (void)own;
    (void)why;
    nap(60000);
    return S2_OK;
}

static void feed(void *user, const char *stage, int32_t done, int32_t all)
{
    (void)stage;
    (void)done;
    (void)all;
    s2_watchdog_feed(user);
}

static void a_hanging_kernel_is_ended(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_device *device = NULL;
        s2_kernel kernel = s2_kernel_cpu;
        s2_watchdog *dog = NULL;
        s2_validation verdict;
        const s2_plan_seq seq = {64, 64};
        kernel.run = hang;
        pattern = s2_parsed(&arena, "heads 2; head-dim 64; layers all: dense");
        if (s2_device_open("cpu", &device, NULL) != S2_OK ||
            s2_watchdog_start(0.2, says_seven, NULL, &dog) != S2_OK)
            _exit(99);
        s2_validate_request request = s2_validate_request_init(device, &pattern, &seq, 1);
        request.kernel = &kernel;
        request.progress = feed;
        request.user = dog;
        _exit(s2_validate(device, &request, &verdict) == S2_OK ? 0 : 98);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* ------------------------------------------------------------------ counters */

#define HEAD                                                                                                 \
    "\"ID\",\"Kernel Name\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\",\"gpu__time_duration.sum\","  \
    "\"lts__t_sectors_srcunit_tex.sum\"\n"
#define UNITS "\"\",\"\",\"byte\",\"byte\",\"ns\",\"sector\"\n"

static void a_profile_is_summed_over_its_kernels(void **state)
{
    (void)state;
    s2_counters got = {0};
    char two[] = "==PROF== Connected to process 7\n" HEAD UNITS
                 "\"0\",\"fwd<a, b>(int)\",\"1,000\",\"200\",\"5,000\",\"10\"\n"
                 "\"1\",\"combine\",\"24\",\"1\",\"1500\",\"2\"\n";
    assert_int_equal(s2_counters_parse(two, &got), S2_OK);
    assert_int_equal(got.n_kernels, 2);
    s2_assert_close(got.dram_read_bytes, 1024.0, 0.0);
    s2_assert_close(got.dram_write_bytes, 201.0, 0.0);
    s2_assert_close(got.l2_bytes, 384.0, 0.0);
    s2_assert_close(got.kernel_us, 6.5, 1e-9);
    char wide[8192];
    size_t n = 0;
    for (int line = 0; line < 2; line++) {
        for (int column = 0; column < 300; column++)
            n += (size_t)snprintf(wide + n, sizeof wide - n, line == 0 ? "\"a%d\"," : "\"%d\",", column);
        n += (size_t)snprintf(wide + n, sizeof wide - n, "%s",
                              line == 0 ? HEAD : "\"0\",\"k\",\"1\",\"2\",\"3\",\"4\"\n");
    }
    assert_int_equal(s2_counters_parse(wide, &got), S2_OK);
    s2_assert_close(got.l2_bytes, 128.0, 0.0);
    assert_int_equal(got.n_kernels, 1);
    const char *const bad[] = {"",
                               "==ERROR== ERR_NVGPUCTRPERM\n",
                               HEAD UNITS,
                               "\"ID\",\"dram__bytes_read.sum\"\n\"0\",\"5\"\n",
                               HEAD UNITS "\"0\",\"cut off\",\"10\n",
                               HEAD UNITS "\"0\",\"k\",\"n/a\",\"1\",\"1\",\"1\"\n",
                               HEAD UNITS "\"0\",\"k\",\"nan\",\"1\",\"1\",\"1\"\n",
                               HEAD UNITS "\"0\",\"k\",\"1\",\"1e999\",\"1\",\"1\"\n",
                               HEAD UNITS "\"0\",\"k\",\"1\",\"1\",\"-1\",\"1\"\n",
                               "\"dram__bytes_read.sum\",\"dram__bytes_read.sum\",\"dram__bytes_read.sum\","
                               "\"dram__bytes_read.sum\"\n\"1\",\"1\",\"1\",\"1\"\n"};
    for (size_t at = 0; at < sizeof bad / sizeof *bad; at++) {
        char text[512];
        snprintf(text, sizeof text, "%s", bad[at]);
        if (s2_counters_parse(text, &got) != S2_EPARSE)
            fail_msg("row %zu is taken for a profile", at);
    }
    assert_int_equal(got.n_kernels, 1);
}

/* Where the fake profilers find the name of the table that they write. */
#define FIND_TABLE "while [ \"$1\" != --log-file ]; do shift; done; table=$2; "
#define GOOD_TABLE                                                                                           \
    FIND_TABLE "printf '\"dram__bytes_read.sum\",\"dram__bytes_write.sum\",\"gpu__time_duration.sum\","      \
               "\"lts__t_sectors_srcunit_tex.sum\"\\n\"1\",\"2\",\"3\",\"4\"\\n' > \"$table\"; "

/* Write a program of this name in the folder. */
static void put_program(const char *folder, const char *name, const char *body)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", body);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static int32_t files_in(const char *folder)
{
    int32_t n = 0;
    DIR *const dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* Whatever a program called ncu says and however it ends: bytes, or one clean line that says why there are none. */
static void any_profiler_is_heard_clean_and_leaves_nothing(void **state)
{
    static const struct {
        const char *body;
        const char *why; /* NULL: it measures */
    } rows[] = {
        {"exit 0", "ncu measured nothing: it wrote no table"},
        {"exit 127", "ncu (NVIDIA Nsight Compute) is not on PATH"},
        {"echo python3: not found >&2; exit 127", "ncu measured nothing: python3: not found"},
        {"printf '\\033[31mred\\033]0;title\\007\\n\\033c' >&2; exit 1",
         "ncu measured nothing: ?[31mred?]0;title?"},
        {"printf 'nul\\000here\\n'; exit 1", "ncu measured nothing: nul?here"},
        {FIND_TABLE "printf '==ERROR== \\033[2Jno\\r\\nmore' > \"$table\"",
         "ncu measured nothing: ==ERROR== ?[2Jno"},
        {FIND_TABLE "printf '\\377\\376==ERROR== \\300\\n' > \"$table\"",
         "ncu measured nothing: ==ERROR== ?"},
        {FIND_TABLE "printf '\\000\"dram__bytes_read.sum\"' > \"$table\"",
         "ncu measured nothing: it wrote no table"},
        {FIND_TABLE "mkdir \"$table\"", "ncu measured nothing: it wrote no table"},
        {"kill -9 $$", "ncu was ended by signal 9 (Killed): it wrote no table"},
        {"echo slow >&2; kill -TERM $$", "ncu was ended by signal 15 (Terminated): slow"},
        {"head -c 100000000 /dev/zero; head -c 10000000 /dev/zero >&2; " GOOD_TABLE, NULL},
        {FIND_TABLE "head -c 100000000 /dev/zero > \"$table\"", "ncu measured nothing: it wrote no table"},
        {GOOD_TABLE "sleep 1000 & sleep 1001 >&- 2>&-& exit 0", NULL},
        {GOOD_TABLE "exit 3", NULL},
    };
    static const char *const args[] = {"--once", NULL};
    char folder[] = "/tmp/s2-ncu.XXXXXX", bin[64], scratch[64], name[80];
    s2_arena arena = {0};
    (void)state;
    const s2_pattern pattern = s2_parsed(&arena, "heads 2; layers all: local 1");
    assert_non_null(mkdtemp(folder));
    snprintf(bin, sizeof bin, "%s/bin", folder);
    snprintf(scratch, sizeof scratch, "%s/scratch", folder);
    assert_true(mkdir(bin, 0700) == 0 && mkdir(scratch, 0700) == 0);
    char *const path = strdup(getenv("PATH"));
    snprintf(name, sizeof name, "%s:/usr/bin:/bin", bin);
    assert_true(setenv("PATH", name, 1) == 0 && setenv("TMPDIR", scratch, 1) == 0);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_counters counters = {.n_kernels = -7};
        s2_diag why = {0};
        put_program(bin, "ncu", rows[row].body);
        const s2_status status = s2_counters_measure(&pattern, args, &counters, &why);
        assert_int_equal(status, rows[row].why == NULL ? S2_OK : S2_EUNSUPPORTED);
        assert_int_equal(counters.n_kernels, rows[row].why == NULL ? 1 : -7);
        assert_string_equal(why.msg, rows[row].why == NULL ? "" : rows[row].why);
        assert_int_equal(files_in(scratch), 0);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    assert_true(setenv("PATH", path, 1) == 0 && unsetenv("TMPDIR") == 0);
    free(path);
    snprintf(name, sizeof name, "%s/ncu", bin);
    assert_true(unlink(name) == 0 && rmdir(bin) == 0 && rmdir(scratch) == 0 && rmdir(folder) == 0);
    s2_arena_release(&arena);
}

/* ------------------------------------------------------------------ predictions */

static void a_device_is_found_among_the_simulators_gpus(void **state)
{
    (void)state;
    const struct {
        const char *device, *gpu;
    } rows[] = {
        {"NVIDIA H200", "h200"},
        {"NVIDIA H100 80GB HBM3", "h100-sxm"},
        {"NVIDIA H100 PCIe", "h100-pcie"},
        {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
        {"NVIDIA L40S", "l40s"},
        {"NVIDIA GeForce RTX 4090", "rtx4090"},
        {"NVIDIA RTX A6000", "a6000"},
        {"CPU", NULL},
        {"", NULL},
    };
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
        const char *const got = s2_gpu_of_device(rows[at].device);
        if ((got == NULL) != (rows[at].gpu == NULL) || (got != NULL && strcmp(got, rows[at].gpu) != 0))
            fail_msg("%s is taken for %s", rows[at].device, got != NULL ? got : "none");
    }
}

static void layers_are_priced_one_at_a_time(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_layer_price sparse, dense, batch;
    pattern = s2_parsed(
        &arena, "layers 2; heads 32; kv-heads 8; head-dim 128; layers all: local 16 | stride 8 phase head+1; "
                "layers 1: dense");
    s2_layer_ask ask = {
        .pattern = &pattern, .phase = S2_PREFILL, .dtype = S2_BF16, .len_tok = 32768, .batch = 1};
    assert_int_equal(s2_layer_predict("h200", &ask, &sparse), S2_OK);
    ask.batch = 3;
    assert_int_equal(s2_layer_predict("h200", &ask, &batch), S2_OK);
    ask.batch = 1;
    ask.layer = 1;
    assert_int_equal(s2_layer_predict("h200", &ask, &dense), S2_OK);
    assert_true(sparse.bound_us > 0 && 4 * sparse.bound_us < dense.bound_us);
    assert_true(batch.bound_us > 2.9 * sparse.bound_us && batch.bound_us < 3.1 * sparse.bound_us);
    assert_true(sparse.bound_us <= sparse.time_us && sparse.dram_read_bytes > 0);
    ask.dtype = S2_F32;
    assert_int_equal(s2_layer_predict("h200", &ask, &dense), S2_EUNSUPPORTED);
    s2_arena_release(&arena);
}

/* ------------------------------------------------------------------ trials */

static void every_phase_judges_or_says_that_it_cannot(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_device *device = NULL;
    const s2_plan_seq seq = {40, 40}, token = {1, 40};
    pattern = s2_parsed(&arena, "heads 2; head-dim 16; block 16; layers all: local 1 | stride 2");
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (int phase = 0; phase < S2_N_PASSES; phase++) {
        s2_validate_request request =
            s2_validate_request_init(device, &pattern, phase == S2_PASS_DECODE ? &token : &seq, 1);
        s2_validation verdict;
        request.pass = (s2_pass)phase;
        assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
        if (verdict.outcome == S2_OUTCOME_OK)
            assert_true(verdict.warm.n > 0 && verdict.flop_useful > 0.0 &&
                        verdict.flop_useful <= verdict.flop_executed && verdict.dense.n > 0);
        else if (verdict.outcome != S2_OUTCOME_UNSUPPORTED || verdict.reason[0] == '\0')
            fail_msg("%s: %s", s2_pass_word((s2_pass)phase), verdict.reason);
    }
    s2_device_close(&device);
    s2_arena_release(&arena);
}

static void a_light_look_sees_few_heads_and_windows(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_device *device = NULL;
    s2_validation verdict;
    const s2_plan_seq seq = {3000, 3000};
    pattern = s2_parsed(&arena, "heads 8; kv-heads 4; head-dim 16; block 16; layers all: local 2 | stride 4");
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (int major = 0; major < 2; major++) {
        s2_validate_request request = s2_validate_request_init(device, &pattern, &seq, 1);
        request.budget_flop = 0.0;
        request.budget_pairs = 600000;
        request.n_timed = 0;
        request.needles = false;
        request.few_heads = true;
        request.max_windows = 3;
        request.head_major = major == 1;
        assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
        if (verdict.outcome != S2_OUTCOME_OK)
            fail_msg("%s", verdict.reason);
        assert_true(verdict.touch_pairs > 0 && verdict.touch_pairs < 600000);
        assert_false(verdict.touch_exhaustive);
        assert_true(verdict.rows > 0);
    }
    s2_device_close(&device);
    s2_arena_release(&arena);
}

static void a_large_batch_of_decoding_is_timed_at_its_full_length(void **state)
{
    (void)state;
    enum { N_SEQS = 70 };
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_device *device = NULL;
    s2_validation verdict;
    s2_plan_seq seqs[N_SEQS];
    for (int32_t seq = 0; seq < N_SEQS; seq++)
        seqs[seq] = (s2_plan_seq){1, 64};
    pattern = s2_parsed(&arena, "heads 1; head-dim 16; block 16; layers all: dense");
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    s2_validate_request request = s2_validate_request_init(device, &pattern, seqs, N_SEQS);
    request.pass = S2_PASS_DECODE;
    request.phase = S2_DECODE;
    request.n_timed = 1;
    request.n_steps = 4;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    if (verdict.outcome != S2_OUTCOME_OK)
        fail_msg("%s", verdict.reason);
    assert_true(verdict.warm.n > 0);
    s2_device_close(&device);
    s2_arena_release(&arena);
}

static void the_dense_twin_has_the_same_shape_and_reads_everything(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern, dense;
    pattern = s2_parsed(
        &arena, "layers 3; heads 6; kv-heads 2; head-dim 96; block 32; causal no; layers all: local 2");
    assert_int_equal(s2_workload_dense_pattern(&arena, &pattern, &dense), S2_OK);
    assert_true(dense.n_heads == 6 && dense.n_kv_heads == 2 && dense.head_dim == 96 && dense.block_tok == 32);
    assert_true(!dense.causal && dense.n_layers == 1 && dense.n_bodies == 1);
    assert_int_equal(dense.bodies[0].terms[0].kind, S2_TERM_DENSE);
    s2_arena_release(&arena);
}

static bool head_reads_all(const s2_pattern *pattern, int32_t head, int64_t n_tok)
{
    for (int64_t q = 0; q < n_tok; q++)
        for (int64_t k = 0; k <= q; k++)
            if (!s2_pattern_reads(pattern, S2_PREFILL, 0, head, n_tok, q, k))
                return false;
    return true;
}

/* By the definition: who reads all of a context, and that none of these does from the named length on. */
static void a_length_at_which_a_pattern_reads_as_dense_is_told_with_one_at_which_it_does_not(void **state)
{
    (void)state;
    enum { LONGEST = 400 };
    s2_rng rng = {s2_test_seed(61)};
    for (int64_t at = 0; at < s2_test_cases(40); at++) {
        static const char *const texts[] = {"local %d | stride %d phase head", "local %d | stride %d",
                                            "local %dt | sink %d", "chunk %d | stride %d phase kv",
                                            "local %d | stride %d phase head; heads 2: dense"};
        char body[100], text[160];
        snprintf(body, sizeof body, "%s", texts[s2_rng_below(&rng, 5)]);
        snprintf(text, sizeof text, "heads 4; kv-heads 2; block 16; all: ");
        const size_t n = strlen(text);
        const int first = 1 + (int)s2_rng_below(&rng, 6), second = 2 + (int)s2_rng_below(&rng, 5);
        char *const holes[2] = {strstr(body, "%d"), strstr(strstr(body, "%d") + 1, "%d")};
        snprintf(text + n, sizeof text - n, "%.*s%d%.*s%d%s", (int)(holes[0] - body), body, first,
                 (int)(holes[1] - holes[0] - 2), holes[0] + 2, second, holes[1] + 2);
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_telling telling;
        const int64_t len_tok = 1 + (int64_t)s2_rng_below(&rng, 200);
        int32_t n_plain = 0;
        pattern = s2_parsed(&arena, text);
        if (s2_telling_find(&arena, &pattern, S2_PREFILL, 0, len_tok, &telling) != S2_OK)
            fail_msg("%s at %lld is not told", text, (long long)len_tok);
        for (int32_t head = 0; head < 4; head++) {
            if (!head_reads_all(&pattern, head, len_tok) || head_reads_all(&pattern, head, LONGEST))
                continue;
            n_plain++;
            if (telling.whole_tok < telling.least_tok || telling.least_tok <= len_tok ||
                head_reads_all(&pattern, head, telling.least_tok))
                fail_msg("%s: head %d still reads all of %lld tokens", text, head,
                         (long long)telling.least_tok);
        }
        /* and no shorter context, by more than a block, would do */
        bool shorter = n_plain > 0 && telling.least_tok - 16 > len_tok;
        for (int32_t head = 0; head < 4 && shorter; head++)
            shorter = !head_reads_all(&pattern, head, telling.least_tok - 16) ||
                      head_reads_all(&pattern, head, LONGEST);
        if (shorter)
            fail_msg("%s: %lld tokens are told, and a block less would do", text,
                     (long long)telling.least_tok);
        if (n_plain != telling.n_plain)
            fail_msg("%s at %lld: %d heads, not %d", text, (long long)len_tok, n_plain, telling.n_plain);
        s2_arena_release(&arena);
    }
}

/* ------------------------------------------------------------------ steady times */

/* A device that takes device_us for a launch, and a host that takes host_us to queue one or a recording. */
typedef struct s2_slow_host {
    double host_us, device_us, host_at, device_at, begun;
    bool recording;
    bool cannot; /* launches fail while they are recorded */
    int64_t n_recorded, n_replays, n_alone, n_forgotten;
} s2_slow_host;
static s2_slow_host slow;

static void queue_launches(int64_t n)
{
    slow.host_at += slow.host_us;
    slow.device_at = fmax(slow.device_at, slow.host_at) + (double)n * slow.device_us;
}
static s2_status count_launch(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    (void)device, (void)problem, (void)state, (void)why;
    if (slow.recording && slow.cannot)
        return S2_EUNSUPPORTED;
    if (slow.recording) {
        slow.n_recorded++;
    } else {
        slow.n_alone++;
        queue_launches(1);
    }
    return S2_OK;
}
static s2_status slow_begin(s2_device *device)
{
    (void)device;
    slow.begun = slow.device_at = slow.host_at = fmax(slow.device_at, slow.host_at);
    return S2_OK;
}
static s2_status slow_end(s2_device *device, double *ms)
{
    (void)device;
    *ms = (slow.device_at - slow.begun) * 1e-3;
    return S2_OK;
}
static s2_status slow_record(s2_device *device, s2_diag *why)
{
    (void)device, (void)why;
    slow.recording = true;
    return S2_OK;
}
static s2_status slow_recorded(s2_device *device, void **recording, s2_diag *why)
{
    (void)device, (void)why;
    slow.recording = false;
    *recording = &slow;
    return S2_OK;
}
static s2_status slow_replay(s2_device *device, void *recording, s2_diag *why)
{
    (void)device, (void)why;
    assert_ptr_equal(recording, &slow);
    slow.n_replays++;
    queue_launches(slow.n_recorded);
    return S2_OK;
}
static void slow_forget(s2_device *device, void **recording)
{
    (void)device;
    slow.n_forgotten += *recording != NULL;
    *recording = NULL;
}

/* The CPU, and a kernel of it, in the guise of that device. */
typedef struct s2_slow_device {
    s2_arena arena;
    s2_pattern pattern;
    s2_plan_seq seq;
    s2_device *device;
    const s2_device_ops *own_ops;
    s2_device_ops ops;
    s2_kernel kernel;
    s2_validate_request request;
} s2_slow_device;

static void open_slow(s2_pass pass, double host_us, double device_us, bool records, s2_slow_device *own)
{
    *own = (s2_slow_device){.seq = {pass == S2_PASS_DECODE ? 1 : 16, 16}};
    own->pattern = s2_parsed(&own->arena, "heads 2; head-dim 16; block 16; layers all: dense");
    assert_int_equal(s2_device_open("cpu", &own->device, NULL), S2_OK);
    own->request = s2_validate_request_init(own->device, &own->pattern, &own->seq, 1);
    own->request.pass = pass;
    own->request.phase = pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    own->own_ops = own->device->ops;
    own->ops = *own->own_ops;
    own->ops.time_begin = slow_begin;
    own->ops.time_end = slow_end;
    if (records) {
        own->ops.record_begin = slow_record;
        own->ops.record_end = slow_recorded;
        own->ops.replay = slow_replay;
        own->ops.forget = slow_forget;
    }
    slow = (s2_slow_host){.host_us = host_us, .device_us = device_us};
}

static void close_slow(s2_slow_device *own)
{
    own->device->ops = own->own_ops;
    own->device->kind = S2_DEVICE_CPU;
    s2_device_close(&own->device);
    s2_arena_release(&own->arena);
}

static s2_steady_time steady(s2_pass pass, double host_us, double device_us, bool records)
{
    s2_slow_device own;
    s2_harness harness = {0};
    s2_steady_time out = {0};
    open_slow(pass, host_us, device_us, records, &own);
    assert_int_equal(s2_harness_open(&harness, own.device, &own.request, NULL), S2_OK);
    const s2_kernel *const own_kernel = harness.kernel;
    own.kernel = *own_kernel;
    own.kernel.run = count_launch;
    own.device->ops = &own.ops;
    harness.kernel = &own.kernel;
    assert_int_equal(s2_steady_run(&harness, 5, 15, &out, NULL), S2_OK);
    harness.kernel = own_kernel;
    s2_harness_close(&harness);
    close_slow(&own);
    return out;
}

/* What `s2 validate` takes of it. */
static s2_times validated(s2_pass pass, double host_us, double device_us, bool records, bool cannot)
{
    s2_slow_device own;
    s2_times out = {0};
    open_slow(pass, host_us, device_us, records, &own);
    slow.cannot = cannot;
    own.kernel = *s2_kernel_find(pass == S2_PASS_DECODE ? "cpu_decode" : "cpu");
    own.kernel.run = count_launch;
    own.kernel.device = own.device->kind = S2_DEVICE_GPU;
    own.device->ops = &own.ops;
    own.request.kernel = &own.kernel;
    own.request.n_timed = 5;
    s2_diag why = {0};
    if (s2_validate_times(own.device, &own.request, &out, &why) != S2_OK)
        fail_msg("%s", why.msg);
    close_slow(&own);
    return out;
}

static void a_steady_time_is_the_devices_however_slow_the_host_is(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(62)};
    for (int64_t at = 0; at < s2_test_cases(60); at++) {
        const double host_us = 1 + (double)s2_rng_below(&rng, 12),
                     device_us = exp2((double)s2_rng_below(&rng, 11));
        const s2_pass pass = at % 2 == 0 ? S2_PASS_DECODE : S2_PASS_FORWARD;
        const s2_steady_time time = steady(pass, host_us, device_us, true);
        if (fabs(time.us / device_us - 1) > 0.02)
            fail_msg("%g us for %g, where the host takes %g", time.us, device_us, host_us);
        if ((slow.n_replays > 0) != (fmax(host_us, device_us) < 90))
            fail_msg("%lld replays of %g us, where the host takes %g", (long long)slow.n_replays, device_us,
                     host_us);
        assert_true(fabs(time.burst_us - fmax(host_us, device_us)) <
                    0.1 * fmax(host_us, device_us) + host_us);
        /* nothing to record on: as the host queues it */
        assert_true(steady(pass, host_us, device_us, false).us > 0.9 * fmax(host_us, device_us));
        assert_int_equal(slow.n_replays, 0);
        /* two events around a single launch take what the host takes as well */
        const double alone_us = host_us + device_us;
        const s2_times replayed = validated(pass, host_us, device_us, true, false);
        const double want_us = alone_us < 100 ? device_us : alone_us;
        if (fabs(replayed.median_ms * 1e3 / want_us - 1) > 0.02 || (replayed.n_each > 1) != (alone_us < 100))
            fail_msg("%g us of %lld launches for %g, where the host takes %g", replayed.median_ms * 1e3,
                     (long long)replayed.n_each, device_us, host_us);
        for (int cannot = 0; cannot < 2; cannot++) {
            const s2_times alone = validated(pass, host_us, device_us, cannot, cannot);
            assert_true(fabs(alone.median_ms * 1e3 / alone_us - 1) < 0.001 && alone.n_each == 1);
            assert_int_equal(slow.n_forgotten, cannot && alone_us < 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_without_a_sign_of_life_ends_with_the_watchdogs_code),
        cmocka_unit_test(a_hanging_kernel_is_ended),
        cmocka_unit_test(a_profile_is_summed_over_its_kernels),
        cmocka_unit_test(any_profiler_is_heard_clean_and_leaves_nothing),
        cmocka_unit_test(a_device_is_found_among_the_simulators_gpus),
        cmocka_unit_test(layers_are_priced_one_at_a_time),
        cmocka_unit_test(every_phase_judges_or_says_that_it_cannot),
        cmocka_unit_test(a_large_batch_of_decoding_is_timed_at_its_full_length),
        s2_long_test(a_light_look_sees_few_heads_and_windows),
        cmocka_unit_test(a_length_at_which_a_pattern_reads_as_dense_is_told_with_one_at_which_it_does_not),
        cmocka_unit_test(the_dense_twin_has_the_same_shape_and_reads_everything),
        cmocka_unit_test(a_steady_time_is_the_devices_however_slow_the_host_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
