/*
 * tests/bench/bench_prove.c - how fast verdicts come. Prints figures, judges nothing.
 *
 * usage: bench_prove PATH-OF-S2CHECK COMMIT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/text.h"
#include "coverage/prove.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "tests/s2time.h"

enum { N_RUNS = 5, N_BATCH = 20000, N_PROCESS = 50, MASK_BLOCKS = 16384, MASK_HEADS = 32 };

static void report(const char *what, double *samples, int n, const char *unit)
{
    qsort(samples, (size_t)n, sizeof *samples, s2_by_value);
    printf("%-58s median %.4g %s, min %.4g, max %.4g (%d runs)\n", what, samples[n / 2], unit, samples[0],
           samples[n - 1], n);
}

static void print_device(const char *commit)
{
    char line[256], model[256] = "unknown CPU\n";
    FILE *const file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            snprintf(model, sizeof model, "%s", strchr(line, ':') + 2);
            break;
        }
    if (file != NULL)
        fclose(file);
    printf("device: one core of %scommit: %s\n", model, commit);
}

static const s2_requirement usual[] = {{S2_ROWS, 0, true}, {S2_UNION, 0, true}, {S2_KV, 0, true}};

static void must(s2_status status, const char *what)
{
    if (status != S2_OK) {
        fprintf(stderr, "%s: %s\n", what, s2_status_text(status));
        exit(1);
    }
}

/* sink | local | stride over 32 heads, one body for all: L, V and the phase vary. */
static int32_t build_and_prove(s2_arena *arena, s2_rng *rng)
{
    static uint16_t body_of[2 * 32];
    s2_term terms[3] = {s2_term_init(S2_TERM_SINK, 1 + (int64_t)s2_rng_below(rng, 4)),
                        s2_term_init(S2_TERM_LOCAL, 1 + (int64_t)s2_rng_below(rng, 64)),
                        s2_term_init(S2_TERM_STRIDE, 1 + (int64_t)s2_rng_below(rng, 40))};
    terms[2].offset = (s2_offset_expr){.constant = (int64_t)s2_rng_below(rng, 8), .head_coef = 1};
    const s2_body body = {3, terms};
    const s2_pattern pattern = {.name = "",
                                .model = "",
                                .n_layers = 1,
                                .n_heads = 32,
                                .n_kv_heads = 8,
                                .head_dim = 128,
                                .block_tok = 64,
                                .causal = true,
                                .n_bodies = 1,
                                .bodies = &body,
                                .body_of = body_of};
    const s2_prove_options options = {.n_tok = S2_OPEN};
    s2_finding findings[3];
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    must(s2_prove(arena, &pattern, usual, 3, &options, findings), "prove");
    s2_arena_rewind(arena, mark);
    return findings[1].verdict == S2_HOLDS;
}

static void bench_families(void)
{
    double rates[N_RUNS];
    int32_t n_complete = 0;
    s2_rng rng = {2024};
    s2_arena arena = {0};
    for (int run = 0; run < N_RUNS; run++) {
        const double begin = s2_now_ms();
        for (int at = 0; at < N_BATCH; at++)
            n_complete += build_and_prove(&arena, &rng);
        rates[run] = N_BATCH / (s2_now_ms() - begin) * 1e3;
    }
    s2_arena_release(&arena);
    report("32-head local+stride+sink, rows,union,kv, every length", rates, N_RUNS, "patterns/s");
    printf("  (%d of %d union-complete)\n", n_complete, N_RUNS * N_BATCH);
}

static double time_process(char *const argv[])
{
    const double begin = s2_now_ms();
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) != NULL)
            execv(argv[0], argv);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) > 1) {
        fprintf(stderr, "%s cannot be run\n", argv[0]);
        exit(1);
    }
    return s2_now_ms() - begin;
}

static void bench_process(char *s2check, const char *label, char *file)
{
    double samples[N_PROCESS];
    char *const argv[] = {s2check, file, NULL};
    for (int run = 0; run < N_PROCESS; run++)
        samples[run] = time_process(argv);
    report(label, samples, N_PROCESS, "ms");
}

static void release_mask(const s2_mask *mask)
{
    if (mask == NULL)
        return;
    s2_mask mapped = *mask;
    s2_mask_unload(&mapped);
}

static void bench_text(const char *label, const char *text)
{
    double samples[N_RUNS];
    for (int run = 0; run < N_RUNS; run++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_finding findings[3];
        s2_diag diag = {0};
        const s2_prove_options options = {.n_tok = S2_OPEN};
        const double begin = s2_now_ms();
        must(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), diag.msg);
        must(s2_prove(&arena, &pattern, usual, 3, &options, findings), "prove");
        samples[run] = s2_now_ms() - begin;
        if (run == 0)
            printf("  rows %s, union %s, kv %s\n", s2_verdict_word(findings[0].verdict),
                   s2_verdict_word(findings[1].verdict), s2_verdict_word(findings[2].verdict));
        for (int32_t body = 0; body < pattern.n_bodies; body++)
            for (int32_t t = 0; t < pattern.bodies[body].n_terms; t++)
                release_mask(pattern.bodies[body].terms[t].mask);
        s2_arena_release(&arena);
    }
    report(label, samples, N_RUNS, "ms");
}

/* 32 strided heads of 16384 x 16384 blocks, one bit each, as np.packbits writes them. */
static void write_mask(const char *path)
{
    enum { ROW_BYTES = MASK_BLOCKS / 8 };
    static uint8_t row[ROW_BYTES];
    s2_buf header = {0};
    const int64_t shape[] = {MASK_HEADS, MASK_BLOCKS, ROW_BYTES};
    must(s2_npy_header("|u1", shape, 3, &header), "header");
    FILE *const file = fopen(path, "wb");
    bool good = file != NULL && fwrite(header.data, 1, header.len, file) == header.len;
    for (int head = 0; head < MASK_HEADS && good; head++) {
        for (int q_blk = 0; q_blk < MASK_BLOCKS && good; q_blk++) {
            for (int byte = 0; byte < ROW_BYTES; byte++)
                row[byte] = byte % 4 == head / 8 ? (uint8_t)(0x80 >> head % 8) : 0;
            for (int k_blk = q_blk > 16 ? q_blk - 16 : 0; k_blk <= q_blk; k_blk++)
                row[k_blk / 8] |= (uint8_t)(0x80 >> k_blk % 8);
            good = fwrite(row, 1, sizeof row, file) == sizeof row;
        }
    }
    s2_buf_release(&header);
    if (file == NULL || fclose(file) != 0 || !good)
        must(S2_EIO, path);
}

static void bench_mask(void)
{
    char path[] = "/tmp/s2benchXXXXXX", text[128];
    const int fd = mkstemp(path);
    if (fd < 0)
        must(S2_EIO, path);
    close(fd);
    write_mask(path);
    snprintf(text, sizeof text, "heads %d;layers all: mask \"%s\"", MASK_HEADS, path);
    bench_text("packed mask, 32 heads, 1M tokens (16384 x 16384 blocks)", text);
    unlink(path);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("  largest resident set so far %.0f MiB\n", (double)usage.ru_maxrss / 1024);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    print_device(argv[2]);
    bench_families();
    bench_process(argv[1], "s2check on Phi-3-small, whole process",
                  (char[]){"tests/data/patterns/phi-3-small.s2"});
    bench_text("token-exact, 8k window, 8 heads",
               "heads 8;layers all: sink 4t | local 8192t | stride 8 phase head");
    bench_mask();
    return 0;
}
