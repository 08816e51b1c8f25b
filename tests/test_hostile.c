/*
 * Every reader of other people's bytes against bytes that are cut anywhere, damaged, mixed and exaggerated:
 * importers on tests/data/foreign/ and on what the exporters write, and the readers of patterns, certificates,
 * arrays, spaces, filters, GPU tables, constants and measured points. The same cases in every run.
 *
 * A reader answers: what it takes is whole, what it refuses has a place and a reason, and no claim of a size
 * makes it ask for memory without bound. When its caller has released what it was given, nothing is left: no
 * piece of memory, of a library neither, and no open file. Bytes lie in pieces of exactly their size (tests/gen_mutant.h), so a
 * build with AddressSanitizer sees what is read behind them. A crash names its case, which S2_SEED, S2_SAMPLE
 * and S2_CASE repeat alone.
 */
#include "tests/s2test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sha2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cert/cert.h"
#include "db/filter.h"
#include "export/registry.h"
#include "export/widths.h"
#include "judge/reply.h"
#include "pattern/codes.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "search/space.h"
#include "sim/calibration.h"
#include "sim/gpu.h"
#include "calibrate/rows.h"
#include "tests/gen_mutant.h"
#include "tests/s2import.h"
#include "tests/s2time.h"

#define FOREIGN  "tests/data/foreign"
#define PATTERNS "tests/data/patterns"
#define HOSTILE  "tests/data/hostile"
#define MASKS    "tests/data/masks"

enum { DEFAULT_SEED = 20261121, MOST_SAMPLES = 512, MOST_CUTS = 200, SAMPLE_BYTES = 1 << 20 };

/* Far above what any sample needs, far below what a machine has. */
#define MOST_ASKED_BYTES ((size_t)1 << 30)

typedef struct reader reader;

/* One file, read by one reader. Of several files `main` is the one that is named and `at` the damaged one. */
typedef struct sample {
    char label[160];
    const reader *reader;
    const s2_format *format; /* of importers */
    s2_fileset set;
    int32_t main, at;
    s2_settings settings;
} sample;

struct reader {
    const char *name;
    const char *const *seeds; /* ended by NULL */
    void (*read)(const sample *from, const char *bytes, size_t n, int64_t nth);
};

static struct {
    s2_arena arena;
    sample list[MOST_SAMPLES];
    int32_t n;
    uint64_t seed;
    size_t asked_bytes; /* by the case that runs */
    size_t most_asked_bytes;
    int64_t n_cases, n_taken;
    double slowest_ms;
    char slowest[200];
} all;

/* What runs now, in memory that outlives a process that dies of it. */
typedef struct running {
    char label[160];
    int64_t nth;
} running;
static running *now;

/* ---- a case ------------------------------------------------------------------------------------------- */

#define FAIL(from, nth, ...)                                                                                 \
    do {                                                                                                     \
        char fail_text_[600];                                                                                \
        snprintf(fail_text_, sizeof fail_text_, __VA_ARGS__);                                                \
        fail_msg("S2_SEED=%llu S2_SAMPLE='%s' S2_CASE=%lld: %s", (unsigned long long)all.seed,               \
                 (from)->label, (long long)(nth), fail_text_);                                               \
    } while (0)

/*
 * What a case holds. Tests are linked so that malloc and the others come here first (tests/link.mk), from the
 * libraries in the archives too.
 */
static struct {
    bool counting;
    int64_t n_held;  /* pieces */
    int64_t left;    /* the allocation that fails; 0: none */
    bool lasts;      /* and all after it */
    bool has_failed; /* it was asked for */
    bool is_said;    /* and the reader says so */
} memory;

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t n_bytes);
char *__real_strdup(const char *text);
void __real_free(void *piece);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t n_bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *piece);

static bool fails_now(void)
{
    if (!memory.counting || memory.left == 0 || --memory.left > 0)
        return false;
    memory.left = memory.lasts;
    memory.has_failed = true;
    return true;
}

static void *counted(void *piece)
{
    memory.n_held += memory.counting && piece != NULL;
    return piece;
}

void *__wrap_malloc(size_t n_bytes)
{
    return counted(fails_now() ? NULL : __real_malloc(n_bytes));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return counted(fails_now() ? NULL : __real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t n_bytes)
{
    void *const piece = fails_now() ? NULL : __real_realloc(old, n_bytes);
    return old == NULL ? counted(piece) : piece;
}

char *__wrap_strdup(const char *text)
{
    return counted(fails_now() ? NULL : __real_strdup(text));
}

void __wrap_free(void *piece)
{
    memory.n_held -= memory.counting && piece != NULL;
    __real_free(piece);
}

/* What the test does before the reader does not fail: the allocation that shall, for later. */
static int64_t put_off(void)
{
    const int64_t left = memory.left;
    memory.left = 0;
    return left;
}

/* A reader has answered: what the test does with the answer does not fail. */
static s2_status answered(s2_status status)
{
    (void)put_off();
    memory.is_said = status == S2_ENOMEM;
    return status;
}

/* The number that the next file to be opened gets. */
static int next_file(void)
{
    const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    close(fd);
    return fd;
}

static bool count_asked(void *user, size_t n_bytes)
{
    (void)user;
    all.asked_bytes += n_bytes;
    return all.asked_bytes <= MOST_ASKED_BYTES;
}

/* A place lies in the file, or one line behind it: what ends too early is refused where it ends. */
static void check_place(const sample *from, int64_t nth, const s2_diag *diag, const char *bytes, size_t n)
{
    int64_t n_lines = 1;
    if (memory.has_failed)
        return; /* that has no place */
    for (size_t at = 0; at < n; at++)
        n_lines += bytes[at] == '\n';
    if (diag->line < 1 || diag->col < 1 || diag->line > n_lines + 1 || diag->msg[0] == '\0')
        FAIL(from, nth, "refused at %d:%d of %lld lines, \"%s\"", diag->line, diag->col, (long long)n_lines,
             diag->msg);
}

static void run_case(const sample *from, int64_t nth, const char *bytes, size_t n)
{
    memcpy(now->label, from->label, sizeof now->label);
    now->nth = nth;
    all.asked_bytes = 0;
    const int before = next_file();
    const double begin_ms = s2_now_ms();
    s2_alloc_set_hook(count_asked, NULL);
    memory.has_failed = memory.is_said = false;
    memory.n_held = 0;
    memory.counting = true;
    from->reader->read(from, bytes, n, nth);
    memory.counting = false;
    memory.left = 0;
    s2_alloc_set_hook(NULL, NULL);
    const double took_ms = s2_now_ms() - begin_ms;
    now->label[0] = '\0';
    all.n_cases++;
    if (memory.has_failed && !memory.is_said)
        FAIL(from, nth, "runs out of memory and does not say so");
    if (memory.n_held != 0 || next_file() != before)
        FAIL(from, nth, "leaves %lld pieces of memory%s behind", (long long)memory.n_held,
             next_file() != before ? " and an open file" : "");
    if (all.asked_bytes > MOST_ASKED_BYTES)
        FAIL(from, nth, "asks for more than %zu MiB", MOST_ASKED_BYTES >> 20);
    if (all.asked_bytes > all.most_asked_bytes)
        all.most_asked_bytes = all.asked_bytes;
    if (took_ms > all.slowest_ms) {
        all.slowest_ms = took_ms;
        snprintf(all.slowest, sizeof all.slowest, "%s, case %lld", from->label, (long long)nth);
    }
}

/* ---- importers */

/* A pattern that was taken is one: it passes its check, prints, and its text is taken again. */
static void check_pattern(const sample *from, int64_t nth, const s2_pattern *pattern, bool has_side)
{
    s2_arena arena = {0};
    s2_buf text = {0};
    s2_diag diag = {0};
    s2_pattern again;
    if (s2_pattern_check(pattern, &diag) != S2_OK)
        FAIL(from, nth, "what is taken is no pattern: %s", diag.msg);
    s2_pattern_print(pattern, &text);
    if (text.status == S2_OK && !has_side &&
        s2_pattern_parse(&arena, text.data, text.len, NULL, &again, &diag) != S2_OK)
        FAIL(from, nth, "its text is refused: %s", diag.msg);
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

/* Its own format and recognition by content in turn; now and then another format. */
static const char *format_of(const sample *from, int64_t nth)
{
    if (nth % 16 == 15)
        return s2_format_at((int32_t)((nth / 16) % 31))->name;
    return nth % 2 == 0 ? from->format->name : NULL;
}

/* An array of later keys is refused until a setting says what they mean, and settings that it cannot have. */
static bool asks(const sample *from, s2_status status, const s2_diag *diag)
{
    return status == S2_EINVAL && (from->settings.n > 0 || strstr(diag->msg, "--set ") != NULL);
}

static void read_import(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    s2_arena arena = {0};
    s2_buf notes = {0};
    s2_said said = {0};
    s2_diag diag = {0};
    const s2_format *used = NULL;
    s2_pattern pattern;
    s2_file files[64];
    assert_true(from->set.n_files <= 64);
    memcpy(files, from->set.files, (size_t)from->set.n_files * sizeof *files);
    files[from->at].bytes = bytes;
    files[from->at].n_bytes = n;
    const s2_fileset set = {&arena, files, from->set.n_files, 64};
    const s2_file *const file = &files[from->main];
    s2_fileset side = {.arena = &arena};
    s2_source source = {.arena = &arena,
                        .name = file->name,
                        .bytes = file->bytes,
                        .n_bytes = file->n_bytes,
                        .finder = {.set = &set},
                        .settings = from->settings,
                        .notes = &notes,
                        .said = &said,
                        .side = &side,
                        .diag = &diag};
    const s2_status status = answered(s2_import_run(&source, format_of(from, nth), &used, &pattern));
    if (status == S2_OK)
        check_pattern(from, nth, &pattern, side.n_files != 0);
    else if (status == S2_EPARSE)
        check_place(from, nth, &diag, file->bytes, file->n_bytes);
    else if (!(memory.has_failed && status == S2_ENOMEM) &&
             ((status != S2_EUNSUPPORTED && status != S2_EIO && !asks(from, status, &diag)) ||
              diag.msg[0] == '\0'))
        FAIL(from, nth, "status %d, \"%s\"", status, diag.msg);
    all.n_taken += status == S2_OK;
    s2_buf_release(&said.warnings);
    s2_buf_release(&notes);
    s2_arena_release(&arena);
}

/* ---- the other readers */

static void read_pattern(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    const s2_parse_options options = {.no_files = true};
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_buf caret = {0};
    s2_pattern pattern;
    const s2_status status = answered(s2_pattern_parse(&arena, bytes, n, &options, &pattern, &diag));
    if (status == S2_OK) {
        check_pattern(from, nth, &pattern, false);
        all.n_taken++;
    } else if (!memory.has_failed) {
        check_place(from, nth, &diag, bytes, n);
        assert_non_null(s2_code_explain(diag.code));
        s2_diag_print_caret(&diag, bytes, n, &caret);
    }
    s2_buf_release(&caret);
    s2_arena_release(&arena);
}

static void read_space(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_space space;
    const s2_status status = answered(s2_space_parse(&arena, bytes, n, &space, &diag));
    if (status == S2_OK) {
        const int64_t some[] = {0, space.n_candidates / 3, space.n_candidates - 1};
        for (size_t at = 0; at < sizeof some / sizeof *some; at++) {
            s2_buf text = {0};
            s2_space_expand(&space, some[at], &text);
            assert_int_equal(text.status, S2_OK);
            s2_buf_release(&text);
        }
        all.n_taken++;
    } else {
        check_place(from, nth, &diag, bytes, n);
    }
    s2_arena_release(&arena);
}

/* Filters come from a command line, which ends at a NUL. */
static void read_filter(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    const size_t n_text = n != 0 ? strnlen(bytes, n) : 0;
    char *const text = __real_malloc(n_text + 1);
    s2_filter filter;
    s2_diag diag = {0};
    assert_non_null(text);
    memcpy(text, bytes, n_text);
    text[n_text] = '\0';
    const s2_status status = answered(s2_filter_build(text, nth % 2 != 0, &filter, &diag));
    if (status != S2_OK)
        check_place(from, nth, &diag, text, n_text);
    assert_true(status == S2_OK || status == S2_EINVAL || (status == S2_ENOMEM && memory.has_failed));
    assert_in_range(filter.n_values, 0, S2_FILTER_CONDITIONS);
    all.n_taken += status == S2_OK;
    s2_filter_release(&filter);
    __real_free(text);
}

static void read_gpu(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    s2_gpu gpu;
    s2_diag diag = {0};
    const s2_status status = s2_gpu_parse("mine", bytes, n, &gpu, &diag);
    if (status != S2_OK)
        check_place(from, nth, &diag, bytes, n);
    all.n_taken += status == S2_OK;
}

static void read_widths(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    s2_net widths;
    s2_diag diag = {0};
    const s2_status status = answered(s2_widths_read(bytes, n, &widths, &diag));
    if (status != S2_OK)
        check_place(from, nth, &diag, bytes, n);
    else if (widths.hidden < 1 || widths.ffn < 1 || widths.n_active > widths.n_experts ||
             widths.n_heads % widths.n_kv_heads != 0)
        FAIL(from, nth, "widths %d, %d", widths.hidden, widths.ffn);
    all.n_taken += status == S2_OK;
}

static void read_points(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_row_file file;
    if (answered(s2_rows_parse(&arena, bytes, n, &file, &diag)) == S2_OK) {
        for (int32_t row = 0; row < file.n_rows; row++) {
            s2_buf text = {0};
            s2_row_print(&file.rows[row], &text);
            s2_buf_release(&text);
        }
        all.n_taken++;
    } else {
        check_place(from, nth, &diag, bytes, n);
    }
    s2_arena_release(&arena);
}

/* The text is sealed under its own hash in every second case, and else is the whole certificate. */
static void read_certificate(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    const int64_t left = put_off();
    char hash[SHA256_DIGEST_STRING_LENGTH];
    s2_buf text = {0};
    s2_cert_answer answer;
    SHA256Data((const uint8_t *)bytes, n, hash);
    s2_buf_printf(&text, "s2cert 1 %s %zu\n", hash, n);
    s2_buf_add(&text, bytes, n);
    s2_buf_puts(&text, "claims rows union\nend\n");
    memory.left = left;
    s2_cert_check(nth % 2 == 0 ? text.data : bytes, nth % 2 == 0 ? text.len : n, 1e5, &answer);
    (void)answered(answer.verdict == S2_CERT_NO_MEMORY ? S2_ENOMEM : S2_OK);
    if (answer.verdict != S2_CERT_VERIFIED && answer.reason[0] == '\0')
        FAIL(from, nth, "verdict %d without a reason", answer.verdict);
    all.n_taken += answer.verdict == S2_CERT_VERIFIED;
    s2_buf_release(&text);
}

/* What is refused has no place: a line of the protocol is one line. */
static void read_reply(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    const int64_t left = put_off();
    s2_reply reply;
    char *const line = malloc(n + 1);
    assert_non_null(line);
    memcpy(line, bytes, n);
    line[n] = '\0';
    memory.left = left;
    const s2_status status = answered(s2_reply_read(line, &reply));
    if (status == S2_OK && (reply.n_samples < 0 || reply.n_samples > S2_LIMIT_REPLY_SAMPLES))
        FAIL(from, nth, "%d samples", reply.n_samples);
    all.n_taken += status == S2_OK;
    free(line);
}

static void read_mask(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    char path[32];
    const int fd = memfd_create("npy", MFD_CLOEXEC);
    s2_arena arena = {0};
    s2_mask mask;
    s2_diag diag = {0};
    assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const s2_status status = answered(s2_mask_load(&arena, path, &mask, &diag));
    if (status == S2_OK)
        s2_mask_unload(&mask);
    else if (!memory.has_failed && diag.msg[0] == '\0')
        FAIL(from, nth, "status %d without a reason", status);
    all.n_taken += status == S2_OK;
    close(fd);
    s2_arena_release(&arena);
}

/* The hash of the constants is made anew in every second case: a file that is no accident carries it. */
static s2_mutant hash_anew(const char *bytes, size_t n)
{
    s2_mutant mutant = s2_mutant_copy(bytes, n);
    char *const line = n != 0 ? memmem(mutant.bytes, n, "\nhash ", 6) : NULL;
    char *const below = line != NULL ? memchr(line + 1, '\n', n - (size_t)(line + 1 - mutant.bytes)) : NULL;
    if (below == NULL || below - line < 6 + 16)
        return mutant;
    const size_t n_below = n - (size_t)(below + 1 - mutant.bytes);
    const char *const judged = n_below != 0 ? memmem(below, n_below + 1, "\njudged ", 8) : NULL;
    char digest[SHA256_DIGEST_STRING_LENGTH];
    SHA256Data((const uint8_t *)below + 1, judged != NULL ? (size_t)(judged - below) : n_below, digest);
    memcpy(line + 6, digest, 16);
    return mutant;
}

static void read_constants(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    const int64_t left = put_off();
    s2_calibration calibration, again;
    s2_diag diag = {0};
    s2_mutant mutant = nth % 2 != 0 ? hash_anew(bytes, n) : s2_mutant_copy(bytes, n);
    memory.left = left;
    if (answered(s2_calibration_parse(mutant.bytes, mutant.n, &calibration, &diag)) == S2_OK) {
        s2_buf text = {0};
        for (int32_t k = 0; k < calibration.model.n_kernels; k++)
            for (int32_t d = 0; d < calibration.model.kernels[k].n_dims; d++)
                if (!(calibration.model.kernels[k].dims[d].least <= 1e8))
                    FAIL(from, nth, "a cost that the sums of a launch cannot hold");
        s2_calibration_print(&calibration, &text);
        if (s2_calibration_parse(text.data, text.len, &again, &diag) != S2_OK)
            FAIL(from, nth, "its own print is refused: %d: %s", diag.line, diag.msg);
        s2_buf_release(&text);
        all.n_taken++;
    } else {
        check_place(from, nth, &diag, mutant.bytes, mutant.n);
    }
    s2_mutant_release(&mutant);
}

static const char *const space_seeds[] = {
    "heads 8; kv-heads 2; block {16,32,64}; layers all: local {4..32:4} | stride 8 phase {head,kv}+{0,1}; "
    "{,layers 1::2: dense}",
    "heads 4 # {not a hole}\nlayers all: local {1..16} | columns {0,\"a\",3..5}\n", NULL};
static const char *const filter_seeds[] = {
    "union=holds kv_mib<4096 us<900 !tag:rejected family=ls name~phi star",
    "!star name!=\"two words\" density>=0.5 heads=32 created>1.7e9 len=8k tag=best", NULL};
static const char *const gpu_seeds[] = {
    "# a chip\ntitle My GPU\nsms 132 # sheet\nboost_mhz 1980 # sheet\ntensor_mhz 1830 # sheet\n"
    "bf16_tflops 989 # sheet\nmufu_per_clk_sm 16 # sheet\nsmem_kib 228 # sheet\nl2_mib 50 # sheet\n"
    "hbm_gb 141 # sheet\nhbm_gb_s 4800 # sheet\nhbm_fraction 0.9 # sheet\npower_w 700 # sheet\n"
    "launch_us 3 # sheet\n",
    NULL};
static const char *const point_seeds[] = {
    "{\"schema\":\"s2points/1\",\"gpu\":\"h200\",\"device\":\"NVIDIA H200\",\"uuid\":\"GPU-1\",\"driver\":"
    "\"580\",\"commit\":\"abc\",\"date\":\"2026-01-01\"}\n"
    "{\"micro\":\"copy\",\"size\":1073741824,\"value\":4312.1,\"unit\":\"GB/s\"}\n"
    "{\"set\":\"designed\",\"seed\":0,\"nth\":3,\"repeated\":1,\"family\":\"dense\",\"pass\":\"forward\","
    "\"pattern\":\"heads 8; layers all: dense\",\"q_tok\":4096,\"k_tok\":4096,\"batch\":1,\"dtype\":\"bf16\","
    "\"kernel\":\"sm90\",\"tile_tok\":128,\"key_tok\":128,\"pack_heads\":1,\"section_bytes\":16777216,"
    "\"us\":123.5,\"spread\":0.01,\"mhz\":1830,\"burst_us\":120,\"burst_mhz\":1980,\"dram_read\":1e9,"
    "\"dram_write\":1e8,\"l2_bytes\":2e9}\n"
    "{\"set\":\"held-out\",\"seed\":7,\"nth\":0,\"pass\":\"decode\",\"pattern\":\"heads 8; layers all: "
    "dense\",\"q_tok\":1,\"k_tok\":512,\"batch\":2,\"kernel\":\"\",\"why\":\"nobody\"}\n",
    NULL};
static const char *const width_seeds[] = {
    "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\", \"num_hidden_layers\": "
    "34, "
    "\"hidden_size\": 2560, \"intermediate_size\": 10240, \"vocab_size\": 262208}}",
    "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 4, \"num_attention_heads\": 8, \"hidden_size\": "
    "64, "
    "\"num_experts\": 8, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32, \"vocab_size\": 99, "
    "\"tie_word_embeddings\": true}",
    NULL};
static const char *const reply_seeds[] = {
    "{\"s2\": 1, \"name\": \"mine\", \"passes\": \"forward decode\", \"versions\": \"torch 2.9\", \"lse\": "
    "true, "
    "\"rounds\": \"p\", \"device\": \"cuda\", \"deterministic\": true, \"recomputes\": false}",
    "{\"id\": 7, \"outcome\": \"ok\", \"samples_ms\": [1.5, 1.25, 1e-3], \"reason\": \"\\u00e9 and a long "
    "one: "
    "what a process writes here may be of any length and have any letters\", \"more\": {\"a\": [[]]}}",
    NULL};
static const char *const certificate_seeds[] = {
    "layers 2\nheads 4\nkv-heads 2\nblock 64\nlayers all: local 128t | stride 4 phase head+1\n", NULL};
static const char *const no_seeds[] = {NULL};

/* ---- samples ------------------------------------------------------------------------------------------- */

static const reader importer = {"import", no_seeds, read_import};
static const reader pattern_reader = {"pattern", no_seeds, read_pattern};
static const reader constants_reader = {"constants", no_seeds, read_constants};
static const reader mask_reader = {"mask", no_seeds, read_mask};
static const reader text_readers[] = {{"certificate", certificate_seeds, read_certificate},
                                      {"space", space_seeds, read_space},
                                      {"filter", filter_seeds, read_filter},
                                      {"gpu", gpu_seeds, read_gpu},
                                      {"points", point_seeds, read_points},
                                      {"widths", width_seeds, read_widths},
                                      {"reply", reply_seeds, read_reply}};

static sample *add_sample(const reader *by, const char *label)
{
    assert_true(all.n < MOST_SAMPLES);
    sample *const added = &all.list[all.n++];
    *added = (sample){.reader = by, .set = {.arena = &all.arena}};
    snprintf(added->label, sizeof added->label, "%s %.140s", by->name, label);
    return added;
}

static void add_text(const reader *by, const char *label, const char *text, size_t n)
{
    sample *const added = add_sample(by, label);
    assert_int_equal(s2_fileset_add(&added->set, "text", text, n), S2_OK);
}

/* The files under dir, by names relative to it, in an order of their own. */
static void read_folder(const char *dir, const char *below, s2_fileset *set)
{
    char path[512], name[300];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", dir, below);
    const int n = scandir(path, &entries, NULL, alphasort);
    for (int e = 0; e < n; e++) {
        struct stat info;
        s2_file file;
        snprintf(name, sizeof name, "%s%s%s", below, below[0] != '\0' ? "/" : "", entries[e]->d_name);
        snprintf(path, sizeof path, "%s/%s", dir, name);
        if (entries[e]->d_name[0] != '.' && stat(path, &info) == 0) {
            if (S_ISDIR(info.st_mode)) {
                read_folder(dir, name, set);
            } else {
                assert_int_equal(s2_file_read(&all.arena, path, SAMPLE_BYTES, &file, NULL), S2_OK);
                assert_int_equal(s2_fileset_add(set, name, file.bytes, file.n_bytes), S2_OK);
            }
        }
        free(entries[e]);
    }
    if (n >= 0)
        free(entries);
}

static void add_foreign(const char *root, const s2_format *format)
{
    char dir[128], label[160];
    s2_fileset set = {.arena = &all.arena};
    snprintf(dir, sizeof dir, "%s/%s", root, format->name);
    read_folder(dir, "", &set);
    for (int32_t f = 0; f < set.n_files; f++) {
        snprintf(label, sizeof label, "%s %.100s", format->name, set.files[f].name);
        sample *const added = add_sample(&importer, label);
        added->format = format;
        added->set = set;
        added->main = added->at = f;
    }
}

static const char *const texts[] = {
    "name a; layers 2; heads 4; kv-heads 2; block 64; layers all: local 2 | stride 4 phase head+1; "
    "layers 1::2: dense",
    "name b; layers 2; heads 4; kv-heads 2; layers all: sink 64t | local 128t; kv 1: dense",
    "name c; layers 3; heads 4; layers all: local 64t; layers 2: chunk 128t",
    "name d; layers 1; heads 4; block 64; prefill layers all: sink 64t | local 128t; decode layers all: "
    "dense",
    "name e; heads 4; block 64; layers all: chunk 2 | stride 2 phase 1"};
enum { N_TEXTS = sizeof texts / sizeof *texts };

/* The files that an exporter makes of a text; the allocation that `left` counts may fail in it. */
static s2_status export_text(const s2_format *format, const char *bytes, size_t n, int64_t left,
                             s2_fileset *files, s2_export_report *report, s2_diag *diag)
{
    s2_buf notes = {0};
    s2_pattern pattern;
    s2_target target = {.arena = files->arena,
                        .pattern = &pattern,
                        .n_tok = 256,
                        .provenance = "a test",
                        .notes = &notes,
                        .files = files,
                        .diag = diag};
    assert_int_equal(s2_pattern_parse(files->arena, bytes, n, NULL, &pattern, NULL), S2_OK);
    memory.left = left;
    const s2_status status = answered(s2_export_run(format, &target, report));
    s2_buf_release(&notes);
    return status;
}

static void add_written(const s2_format *format)
{
    int32_t n_held = 0;
    for (size_t t = 0; t < N_TEXTS && n_held < 2 && format->write != NULL; t++) {
        s2_diag diag = {0};
        s2_export_report report;
        s2_fileset files = {.arena = &all.arena};
        const bool held =
            export_text(format, texts[t], strlen(texts[t]), 0, &files, &report, &diag) == S2_OK &&
            !report.refused;
        for (int32_t f = 0; held && f < files.n_files; f++) {
            char label[160];
            snprintf(label, sizeof label, "%s written %zu %.80s", format->name, t, files.files[f].name);
            sample *const added = add_sample(&importer, label);
            added->format = format;
            added->set = files;
            added->at = f;
        }
        n_held += held;
    }
}

static void add_folder(const reader *by, const char *dir)
{
    s2_fileset files = {.arena = &all.arena};
    read_folder(dir, "", &files);
    for (int32_t f = 0; f < files.n_files; f++)
        add_text(by, files.files[f].name, files.files[f].bytes, files.files[f].n_bytes);
}

static int set_up(void **state)
{
    (void)state;
    all.seed = s2_test_seed(DEFAULT_SEED);
    for (int32_t n = 0; s2_format_at(n) != NULL; n++) {
        add_foreign(FOREIGN, s2_format_at(n));
        add_foreign(HOSTILE, s2_format_at(n));
        add_written(s2_format_at(n));
    }
    add_folder(&pattern_reader, PATTERNS);
    add_folder(&mask_reader, MASKS);
    for (size_t r = 0; r < sizeof text_readers / sizeof *text_readers; r++)
        for (const char *const *seed = text_readers[r].seeds; *seed != NULL; seed++)
            add_text(&text_readers[r], "seed", *seed, strlen(*seed));
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++)
        if (strcmp(text->name, "calibration/h200") == 0)
            add_text(&constants_reader, text->name, text->text, strlen(text->text));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    s2_arena_release(&all.arena);
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

/* Case numbers: cuts are 2 * length and 2 * length + 1 (two readings), mutants follow behind a million. */
enum { FIRST_MUTANT = 1000000000 };

static void cut_sample(const sample *from)
{
    const s2_file *const file = &from->set.files[from->at];
    size_t *cuts;
    const size_t n_cuts = s2_mutant_cuts(file->bytes, file->n_bytes, MOST_CUTS, &cuts);
    for (size_t c = 0; c < 2 * n_cuts; c++) {
        s2_mutant piece = s2_mutant_copy(file->bytes, cuts[c / 2]);
        run_case(from, (int64_t)(cuts[c / 2] * 32 + c % 2), piece.bytes, piece.n);
        s2_mutant_release(&piece);
    }
    free(cuts);
}

/* A generator of its own for each case, so that one can be repeated alone. */
static void mutate_sample(const sample *from, int64_t nth)
{
    s2_rng rng = {all.seed + (uint64_t)nth * UINT64_C(0x9e3779b97f4a7c15)};
    for (const char *c = from->label; *c != '\0'; c++)
        rng.state = rng.state * 31 + (unsigned char)*c;
    const sample *const other = &all.list[s2_rng_below(&rng, (uint64_t)all.n)];
    const s2_file *const a = &from->set.files[from->at], *const b = &other->set.files[other->at];
    s2_mutant mutant = s2_mutant_draw(&rng, a->bytes, a->n_bytes, b->bytes, b->n_bytes);
    run_case(from, FIRST_MUTANT + nth, mutant.bytes, mutant.n);
    s2_mutant_release(&mutant);
}

static void report(const char *what)
{
    printf("# s2: %s: %lld cases of %d samples, %lld taken, at most %zu MiB asked for, slowest %.0f ms (%s), "
           "seed %llu\n",
           what, (long long)all.n_cases, all.n, (long long)all.n_taken, all.most_asked_bytes >> 20,
           all.slowest_ms, all.slowest, (unsigned long long)all.seed);
    all.n_cases = all.n_taken = 0;
    all.most_asked_bytes = 0;
    all.slowest_ms = 0;
}

static void whole_samples_are_answered_by_every_importer(void **state)
{
    (void)state;
    for (int32_t s = 0; s < all.n; s++) {
        const s2_file *const file = &all.list[s].set.files[all.list[s].at];
        for (int32_t n = 0; n < (all.list[s].reader == &importer ? 31 : 1); n++)
            run_case(&all.list[s], 16 * n + 15, file->bytes, file->n_bytes);
    }
    report("whole");
}

static void files_cut_anywhere_are_answered(void **state)
{
    (void)state;
    for (int32_t s = 0; s < all.n; s++)
        cut_sample(&all.list[s]);
    report("cut");
}

/*
 * Small files that claim much: every one is refused, and what it made the reader ask for is no more than
 * arrays of the size that is allowed (S2_GRID_CELLS) and their copies. What is read beside them is empty.
 */
static void claims_of_a_size_ask_for_no_more_than_is_allowed(void **state)
{
    (void)state;
    enum { MOST_MIB = 300 };
    static const char shape[] = "\"num_attention_heads\": 4, \"num_hidden_layers\": 3, \"block_size\": 1, ";
    static const struct {
        const char *format, *rest;
    } rows[] = {
        {"csr",
         "\"len\": 16777216, \"layouts\": [{\"layers\": [0, 1, 2], \"crow\": \"a\", \"col\": \"b\"}]}"},
        {"csr", "\"len\": 4096, \"layouts\": [{\"layers\": [0]}, {\"layers\": [1]}, {\"layers\": [2]}]}"},
        {"csr", "\"len\": 4, \"layouts\": [{\"layers\": [0, 1, 2, 2], \"crow\": \"a\", \"col\": \"b\"}]}"},
        {"bsa", "\"len\": 4096, \"layouts\": [{\"layers\": [0, 1, 2], \"head_mask_type\": \"a\"}]}"},
        {"flashinfer",
         "\"M\": 16777216, \"N\": 16777216, \"R\": 1, \"C\": 1, \"indptr\": \"a\", \"indices\": \"b\"}"},
        {"flashinfer",
         "\"len\": 2, \"layouts\": [{\"layers\": [0, 1, 2]}], \"plans\": [{\"indptr\": [0, 0, 0], "
         "\"indices\": [], \"heads\": [[0, 0], [0, 0]]}]}"},
        {"flashinfer",
         "\"len\": 2, \"layouts\": [{\"layers\": [0, 1, 2]}], \"plans\": [{\"indptr\": [0, 0, 0], "
         "\"indices\": [], \"heads\": []}]}"},
        {"flex", "\"len\": 4194304, \"layouts\": [{\"layers\": [0, 1, 2]}], \"pattern\": \"heads 4; layers "
                 "3; dense\"}"},
        {"minference", "\"0\": []}"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_buf text = {0};
        imported at = {0};
        s2_buf_printf(&text, "{%s%s", shape, rows[r].rest);
        all.asked_bytes = 0;
        s2_alloc_set_hook(count_asked, NULL);
        const s2_status status = try_import(&at, rows[r].format, text.data, text.len, "", NULL);
        s2_alloc_set_hook(NULL, NULL);
        if ((status != S2_EPARSE && status != S2_EIO) || at.diag.msg[0] == '\0' ||
            all.asked_bytes >> 20 > MOST_MIB)
            fail_msg("%s, row %zu: status %d after %zu MiB: %s", rows[r].format, r, status,
                     all.asked_bytes >> 20, at.diag.msg);
        imported_release(&at);
        s2_buf_release(&text);
    }
}

/* A header of a kilobyte whose layers are all different claims a grid for each. */
static void a_header_has_no_more_grids_than_are_allowed(void **state)
{
    (void)state;
    enum { LAYERS = 64, HEADS = 8, N_BLK = 1024 };
    s2_buf text = {0};
    imported at = {0};
    s2_buf_printf(&text,
                  "/* s2 block lists 1 */\nenum { S2_N_LAYERS = %d, S2_N_HEADS = %d, S2_N_KV_HEADS = 1, "
                  "S2_HEAD_DIM = 64, S2_BLOCK_TOK = 1, S2_N_BLK = %d, S2_N_LISTS = 2, S2_CAUSAL = 1 };\n"
                  "int s2_list_of[] = {",
                  LAYERS, HEADS, N_BLK);
    for (int32_t layer = 0; layer < LAYERS; layer++)
        for (int32_t head = 0; head < HEADS; head++)
            s2_buf_printf(&text, "%d,", layer >> head & 1);
    s2_buf_puts(&text, "};\nint s2_row_begin[] = {");
    for (int32_t row = 0; row < 2 * (N_BLK + 1); row++)
        s2_buf_puts(&text, "0,");
    s2_buf_puts(&text, "};\nint s2_k_blk[] = {};\n");
    all.asked_bytes = 0;
    s2_alloc_set_hook(count_asked, NULL);
    const s2_status status = try_import(&at, "c", text.data, text.len, "", NULL);
    s2_alloc_set_hook(NULL, NULL);
    if (status != S2_EPARSE || strstr(at.diag.msg, "too many") == NULL)
        fail_msg("status %d after %zu MiB: %s", status, all.asked_bytes >> 20, at.diag.msg);
    imported_release(&at);
    s2_buf_release(&text);
}

static void damaged_files_are_answered(void **state)
{
    (void)state;
    const char *const only = getenv("S2_SAMPLE"), *const nth = getenv("S2_CASE");
    const int64_t n_cases = s2_test_cases(100);
    for (int32_t s = 0; s < all.n; s++) {
        if (only != NULL && strcmp(only, all.list[s].label) != 0)
            continue;
        if (nth != NULL)
            mutate_sample(&all.list[s], strtoll(nth, NULL, 10) - FIRST_MUTANT);
        for (int64_t c = 0; nth == NULL && c < n_cases; c++)
            mutate_sample(&all.list[s], c);
    }
    report("damaged");
}

/* Each setting that a format takes, with values that a person might try, is used or refused. */
static void settings_are_used_or_refused(void **state)
{
    (void)state;
    static const char *const values[] = {"", "no", "0", "-1", "3", "0.5", "99999999999"};
    for (int32_t s = 0; s < all.n; s++) {
        sample with = all.list[s];
        const s2_file *const file = &with.set.files[with.at];
        const char *word =
            with.reader == &importer && with.format->settings != NULL ? with.format->settings : "";
        while (*word != '\0') {
            char key[64];
            snprintf(key, sizeof key, "%.*s", (int)strcspn(word, " ,"), word);
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                const s2_setting setting = {.key = key, .value = values[v]};
                with.settings = (s2_settings){&setting, 1};
                run_case(&with, 0, file->bytes, file->n_bytes);
            }
            word += strcspn(word, ",");
            word += strspn(word, ", ");
        }
    }
    report("with settings");
}

/* Each allocation of a case fails, in a run of its own, alone and with all that follow. */
static void fail_each(const sample *from, const char *bytes, size_t n)
{
    const int64_t most = s2_test_cases(100000);
    int64_t fails = 1;
    memory.has_failed = true;
    for (int64_t c = 0; c < most && memory.has_failed; c++) {
        memory.left = fails;
        memory.lasts = c % 2 != 0;
        run_case(from, 0, bytes, n);
        fails += c % 2 == 0 ? 0 : s2_test_sampled() ? 1 + fails / 4 : 1;
    }
}

static void readers_that_run_out_of_memory_say_so(void **state)
{
    (void)state;
    for (int32_t s = 0; s < all.n; s++) {
        const s2_file *const file = &all.list[s].set.files[all.list[s].at];
        fail_each(&all.list[s], file->bytes, file->n_bytes);
    }
    report("read without memory");
}

static void write_text(const sample *from, const char *bytes, size_t n, int64_t nth)
{
    const int64_t left = put_off();
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_export_report written;
    s2_fileset files = {.arena = &arena};
    const s2_status status = export_text(from->format, bytes, n, left, &files, &written, &diag);
    if (status != S2_OK && status != S2_EUNSUPPORTED && !(status == S2_ENOMEM && memory.has_failed))
        FAIL(from, nth, "status %d, \"%s\"", status, diag.msg);
    all.n_taken += status == S2_OK;
    s2_arena_release(&arena);
}

/* Of what a format holds; what it refuses needs no memory. */
static void writers_that_run_out_of_memory_say_so(void **state)
{
    (void)state;
    static const reader writer = {"export", no_seeds, write_text};
    for (int32_t n = 0; s2_format_at(n) != NULL; n++)
        for (size_t t = 0; s2_format_at(n)->write != NULL && t < N_TEXTS; t++) {
            sample one = {.reader = &writer, .format = s2_format_at(n)};
            snprintf(one.label, sizeof one.label, "export %s %zu", one.format->name, t);
            const int64_t n_before = all.n_taken;
            run_case(&one, 0, texts[t], strlen(texts[t]));
            if (all.n_taken > n_before)
                fail_each(&one, texts[t], strlen(texts[t]));
        }
    report("written without memory");
}

/* Tests run in a child, since what a hostile file kills cannot say which file that was. */
static int watch(pid_t child)
{
    int status = 0;
    const pid_t ended = waitpid(child, &status, 0);
    if (ended == child && WIFEXITED(status) && now->label[0] == '\0')
        return WEXITSTATUS(status);
    fprintf(stderr, "test_hostile: died of S2_SEED=%llu S2_SAMPLE='%s' S2_CASE=%lld\n",
            (unsigned long long)s2_test_seed(DEFAULT_SEED), now->label, (long long)now->nth);
    return 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_samples_are_answered_by_every_importer),
        cmocka_unit_test(files_cut_anywhere_are_answered),
        cmocka_unit_test(damaged_files_are_answered),
        cmocka_unit_test(settings_are_used_or_refused),
        cmocka_unit_test(readers_that_run_out_of_memory_say_so),
        cmocka_unit_test(writers_that_run_out_of_memory_say_so),
        cmocka_unit_test(claims_of_a_size_ask_for_no_more_than_is_allowed),
        cmocka_unit_test(a_header_has_no_more_grids_than_are_allowed),
    };
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t child = now != MAP_FAILED ? fork() : -1;
    if (child < 0)
        return 1;
    return child > 0 ? watch(child) : cmocka_run_group_tests_name("hostile", tests, set_up, tear_down);
}
