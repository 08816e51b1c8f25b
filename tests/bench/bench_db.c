/*
 * A database of many designs, and what a page of it costs: as a call, and as `s2 ls` from process start to
 * exit. Prints; judges nothing. usage: bench_db S2 DATABASE N     the file is made unless it is there
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "db/sql.h"
#include "tests/s2time.h"

enum { BATCH = 10000, ROUNDS = 5, WORDS = 16 };

static void stop(const char *what, const s2_diag *diag)
{
    fprintf(stderr, "bench_db: %s: %s\n", what, diag->msg);
    exit(1);
}

/* Numbers that look drawn but follow from n. */
static int64_t mix(int64_t n, int64_t below)
{
    return (int64_t)(((uint64_t)n * UINT64_C(0x9e3779b97f4a7c15) >> 20) % (uint64_t)below);
}

/* Every fourth design has the shape whose worth is judged. */
static bool is_judged(int64_t n)
{
    return n % 4 == 0;
}

static s2_status put_design(s2_db *db, int64_t run_id, int64_t n, int64_t *id, s2_diag *diag)
{
    static const char *const families[] = {"local+stride", "sink+local", "local+stride+dense", "dense"};
    char text[120], name[32], hash[S2_HASH_HEX];
    snprintf(text, sizeof text,
             is_judged(n) ? "name d%lld\nlayers 4\nheads 8\nkv-heads 4\nblock 1024\nlayers all: local %lld\n"
                          : "name d%lld\nheads 32\nlayers all: local %lld\n",
             (long long)n, (long long)n % 63 + 1);
    snprintf(name, sizeof name, "design-%07lld", (long long)n);
    s2_db_sha256(text, strlen(text), hash);
    const s2_db_design design = {.hash = hash,
                                 .name = name,
                                 .text = text,
                                 .model = mix(n, 2) == 0 ? "llama-3.1-8b" : "phi-3-small",
                                 .family = families[mix(n, 4)],
                                 .origin = "bench",
                                 .n_layers = is_judged(n) ? 4 : 32,
                                 .n_heads = is_judged(n) ? 8 : 32,
                                 .n_kv_heads = is_judged(n) ? 4 : 8,
                                 .head_dim = 128,
                                 .block_tok = is_judged(n) ? 1024 : 64,
                                 .density = (double)mix(n + 7, 1000000) * 1e-6,
                                 .density_tok = 8192};
    return s2_db_put_design(db, run_id, &design, id, diag);
}

static s2_status put_results(s2_db *db, int64_t run_id, int64_t n, int64_t id, s2_diag *diag)
{
    const s2_db_check check = s2_db_check_of("union", mix(n, 3) == 0 ? S2_DB_VIOLATED : S2_DB_HOLDS);
    s2_db_sim sim = {.gpu = "h200",
                     .model = "llama-3.1-8b",
                     .phase = "prefill",
                     .dtype = "bf16",
                     .len_tok = is_judged(n) ? 65536 : 131072,
                     .batch = 1,
                     .time_us = (double)mix(n + 1, 100000000) * 0.01,
                     .bound_us = 1,
                     .dense_us = 1,
                     .bound_by = "mma",
                     .kv_head_pages_bytes = (double)mix(n + 3, 16384) * 1048576.0,
                     .json = "{\"schema\":\"s2sim/1\"}"};
    S2_TRY(s2_db_put_check(db, run_id, id, &check, diag));
    S2_TRY(s2_db_put_sim(db, run_id, id, &sim, diag));
    if (mix(n, 100) != 0)
        return S2_OK;
    const s2_db_validation v = {.device = "NVIDIA H200",
                                .device_uuid = "GPU-1",
                                .driver = "580",
                                .runtime = "13.0",
                                .kernel = "sm90",
                                .phase = "forward",
                                .dtype = "bf16",
                                .outcome = "ok",
                                .len_tok = sim.len_tok,
                                .batch = 1,
                                .seed = 1,
                                .median_ms = sim.time_us * 1.2e-3,
                                .layers_alike = is_judged(n) ? 4 : 32,
                                .json = "{}"};
    return s2_db_put_validation(db, run_id, id, &v, diag);
}

static s2_status put_batch(s2_db *db, int64_t run_id, int64_t from, int64_t to, s2_diag *diag)
{
    for (int64_t n = from; n < to; n++) {
        int64_t id;
        S2_TRY(put_design(db, run_id, n, &id, diag));
        S2_TRY(put_results(db, run_id, n, id, diag));
    }
    return S2_OK;
}

static void make(const char *path, int64_t n_designs)
{
    const s2_db_run run = {.tool_version = "bench",
                           .commit = "",
                           .command = "search",
                           .argv_json = "[]",
                           .host = "",
                           .seed = S2_DB_NONE,
                           .started_us = 1};
    s2_db *db;
    s2_diag diag = {0};
    int64_t run_id = 0;
    const double began = s2_now_ms();
    if (s2_db_open(path, S2_DB_WRITE, &db, &diag) != S2_OK)
        stop(path, &diag);
    for (int64_t n = 0; n < n_designs; n += BATCH) {
        s2_status status = s2_db_begin(db, &diag);
        if (status == S2_OK && run_id == 0)
            status = s2_db_put_run(db, &run, &run_id, &diag);
        if (status == S2_OK)
            status = put_batch(db, run_id, n, n + BATCH < n_designs ? n + BATCH : n_designs, &diag);
        if (status != S2_OK || s2_db_end(db, S2_OK, &diag) != S2_OK)
            stop(path, &diag);
    }
    s2_db_close(&db);
    printf("made %lld designs in %.0f s\n", (long long)n_designs, (s2_now_ms() - began) / 1e3);
}

static double time_call(s2_db *db, const s2_db_query *query, int32_t *n_rows)
{
    double best = 1e300;
    for (int round = 0; round < ROUNDS; round++) {
        s2_arena arena = {0};
        s2_diag diag = {0};
        const s2_db_row *rows;
        const double began = s2_now_ms();
        if (s2_db_list(db, &arena, query, &rows, n_rows, &diag) != S2_OK)
            stop(query->filter, &diag);
        const double took = s2_now_ms() - began;
        best = took < best ? took : best;
        s2_arena_release(&arena);
    }
    return best;
}

/* From fork to exit, the best of several; -1 when it failed. */
static double time_process(char *const *words)
{
    double best = 1e300;
    for (int round = 0; round < ROUNDS; round++) {
        fflush(NULL);
        const double began = s2_now_ms();
        const pid_t child = fork();
        if (child == 0) {
            const int nowhere = open("/dev/null", O_WRONLY);
            if (dup2(nowhere, STDOUT_FILENO) < 0 || dup2(nowhere, STDERR_FILENO) < 0)
                _exit(1);
            execv(words[0], words);
            _exit(1);
        }
        int ended;
        if (child < 0 || waitpid(child, &ended, 0) != child || ended != 0)
            return -1;
        const double took = s2_now_ms() - began;
        best = took < best ? took : best;
    }
    return best;
}

/* A filter and an order, each also asked of one phase and length. */
static void show(s2_db *db, const char *s2, const char *path, const char *filter, const char *sort,
                 bool priced)
{
    s2_db_query query = {.filter = filter, .sort = sort[0] == '-' ? sort + 1 : sort, .limit = 50};
    query.descending = sort[0] == '-';
    if (priced) {
        query.phase = "prefill";
        query.len_tok = 131072;
    }
    int32_t n_rows;
    const double call = time_call(db, &query, &n_rows);
    const char *words[WORDS] = {s2, "ls", "--db", path, "--filter", filter, "--sort", sort};
    if (priced) {
        static const char *const more[] = {"--phase", "prefill", "--len", "128k"};
        memcpy(words + 8, more, sizeof more);
    }
    char *argv[WORDS];
    memcpy(argv, words, sizeof argv);
    printf("%-34s %-9s %-12s %8.2f %10.1f %6d\n", filter[0] != '\0' ? filter : "(all)", sort,
           priced ? "prefill 128k" : "", call, time_process(argv), (int)n_rows);
}

/* The same file as the schema before this one left it, brought up to date. */
static void time_migration(s2_db *db, const char *path)
{
    char old[4096];
    s2_diag diag = {0};
    snprintf(old, sizeof old, "%.4000s-old", path);
    if (s2_db_backup(db, old, true, &diag) != S2_OK || s2_db_open(old, S2_DB_WRITE, &db, &diag) != S2_OK ||
        s2_sql_exec(db,
                    "ALTER TABLE price DROP COLUMN recall; ALTER TABLE price DROP COLUMN loss;"
                    "ALTER TABLE design DROP COLUMN sim_recall; ALTER TABLE design DROP COLUMN sim_loss;"
                    "DELETE FROM migration WHERE version=10; PRAGMA user_version=9",
                    &diag) != S2_OK)
        stop(old, &diag);
    s2_db_close(&db);
    const double begin = s2_now_ms();
    const clock_t worked = clock();
    if (s2_db_open(old, S2_DB_WRITE, &db, &diag) != S2_OK)
        stop(old, &diag);
    int64_t n = 0;
    const double end = s2_now_ms(), cpu_s = (double)(clock() - worked) / CLOCKS_PER_SEC;
    const s2_db_query judged = {.filter = "loss>0"};
    if (s2_db_tally(db, &judged, &n, &diag) != S2_OK)
        stop(old, &diag);
    printf("brought up to date from schema 9 in %.1f s (%.1f s of processor time), %lld designs judged\n",
           (end - begin) / 1000, cpu_s, (long long)n);
    s2_db_close(&db);
    unlink(old);
}

int main(int argc, char **argv)
{
    static const char *const filters[] = {"",
                                          "union=holds",
                                          "union=violated",
                                          "us<900",
                                          "us>999000",
                                          "kv_mib<16",
                                          "gpu_us<900",
                                          "density<0.001",
                                          "family=dense",
                                          "name=design-0000077",
                                          "created>0",
                                          "union=holds kv_mib<1k us<100ms",
                                          "loss<1.3"};
    static const char *const sorts[] = {"-created", "us", "kv_mib", "name"};
    if (argc != 4) {
        fprintf(stderr, "usage: bench_db S2 DATABASE N\n");
        return 2;
    }
    if (access(argv[2], F_OK) != 0)
        make(argv[2], atoll(argv[3]));
    struct stat info;
    if (stat(argv[2], &info) == 0)
        printf("%s: %.0f MiB\n", argv[2], (double)info.st_size / 1048576);
    s2_db *db;
    s2_diag diag = {0};
    if (s2_db_open(argv[2], S2_DB_READ, &db, &diag) != S2_OK)
        stop(argv[2], &diag);
    printf("%-34s %-9s %-12s %8s %10s %6s\n", "filter", "sort", "prices of", "call ms", "process ms", "rows");
    for (size_t f = 0; f < sizeof filters / sizeof filters[0]; f++)
        for (size_t s = 0; s < sizeof sorts / sizeof sorts[0]; s++) {
            show(db, argv[1], argv[2], filters[f], sorts[s], false);
            if (s < 2)
                show(db, argv[1], argv[2], filters[f], sorts[s], true);
        }
    time_migration(db, argv[2]);
    s2_db_close(&db);
    return 0;
}
