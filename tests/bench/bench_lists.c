/*
 * Times of lists that lie on the device (kernel sm90_lists), as rows of calibrate/rows.h:
 *     bench_lists COMMIT [--plain] [--held-out N SEED] > ROWS.jsonl
 *
 * Query blocks of 64 or 128, key blocks of 16 to 128, few entries and many, lists of query heads and of KV heads. A launch
 * plans its lists first. --plain times the same points on sm90, with plans made beforehand; --held-out draws N points instead. Exit codes: 0, 1 a point failed, 77 no GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure.h"
#include "tests/kcheck/listed.h"

typedef struct s2_listed_design {
    int32_t heads, kv_heads, head_dim, block_tok;
    const char *rules;
    int32_t len_tok[4]; /* 0 ends them */
    int32_t batch;
} s2_listed_design;

static const s2_listed_design designs[] = {
    {32, 32, 128, 64, "local 1 | random 7 seed 1", {2048, 8192, 32768}, 1},
    {32, 32, 128, 64, "local 1 | random 15 seed 1", {4096, 16384}, 1},
    {32, 32, 128, 64, "local 1 | random 31 seed 1", {8192, 32768}, 1},
    {16, 16, 128, 64, "local 1 | random 63 seed 1", {8192, 32768}, 1},
    {16, 16, 128, 64, "local 1 | random 127 seed 1", {16384}, 1},
    {32, 32, 128, 128, "local 1 | random 7 seed 1", {4096, 16384}, 1},
    {32, 32, 128, 128, "local 1 | random 15 seed 1", {8192, 32768}, 1},
    {16, 16, 128, 128, "local 1 | random 31 seed 1", {8192, 65536}, 1},
    {32, 32, 128, 32, "local 2 | random 30 seed 1", {8192}, 1},
    {16, 16, 128, 16, "local 4 | random 60 seed 1", {8192}, 1},
    {32, 8, 128, 64, "local 16 | stride 8 phase kv", {2048, 8192, 32768}, 1},
    {32, 4, 128, 64, "local 4 | random 28 seed 1", {4096, 16384}, 1},
    {32, 8, 128, 128, "local 2 | random 14 seed 1", {8192, 32768}, 1},
    {32, 32, 128, 64, "stride 8 phase head", {8192, 32768}, 1},
    {8, 8, 128, 64, "stride 16 phase head", {65536}, 1},
    {32, 8, 128, 64, "local 1 | random 15 seed 1", {2048, 4096}, 4},
    {32, 32, 64, 64, "local 1 | random 31 seed 1", {4096, 16384}, 1},
    {32, 32, 64, 128, "local 1 | random 15 seed 1", {16384}, 1},
    {64, 8, 64, 64, "local 2 | random 30 seed 1", {8192, 32768}, 1},
    {32, 8, 64, 64, "local 8 | stride 16 phase kv", {8192, 65536}, 1},
    {32, 32, 128, 64, "dense", {2048, 8192}, 1},
};
enum { N_DESIGNS = sizeof designs / sizeof *designs };

static s2_row row_of(const s2_listed_design *design, int32_t len_tok, int32_t nth)
{
    s2_row row = {.nth = nth,
                  .point = {.family = "listed",
                            .pass = S2_PASS_FORWARD,
                            .q_tok = len_tok,
                            .k_tok = len_tok,
                            .batch = design->batch,
                            .dtype = S2_BF16}};
    snprintf(row.set, sizeof row.set, "designed");
    snprintf(row.point.pattern, sizeof row.point.pattern,
             "heads %d; kv-heads %d; head-dim %d; block %d; layers all: %s", design->heads, design->kv_heads,
             design->head_dim, design->block_tok, design->rules);
    return row;
}

static bool time_row(s2_device *device, const s2_measure_options *options, s2_row *row)
{
    s2_buf buf = {0};
    const bool taken = s2_measure_point(device, options, row) == S2_OK && row->kernel[0] != '\0';
    s2_row_print(row, &buf);
    if (buf.status == S2_OK)
        printf("%s\n", buf.data);
    fflush(stdout);
    s2_buf_release(&buf);
    return taken;
}

static void print_head(const s2_device *device, const char *commit)
{
    s2_provenance head = {0};
    s2_buf buf = {0};
    s2_measure_head(device, NULL, commit, &head);
    s2_rows_head_print(&head, &buf);
    if (buf.status == S2_OK)
        printf("%s\n", buf.data);
    s2_buf_release(&buf);
}

static int32_t time_designed(s2_device *device, const s2_measure_options *options)
{
    int32_t nth = 0, n_failed = 0;
    for (int32_t design = 0; design < N_DESIGNS; design++)
        for (int32_t at = 0; at < 4 && designs[design].len_tok[at] != 0; at++) {
            s2_row row = row_of(&designs[design], designs[design].len_tok[at], nth++);
            n_failed += !time_row(device, options, &row);
        }
    return n_failed;
}

static int32_t time_drawn(s2_device *device, const s2_measure_options *options, int32_t n, int64_t seed)
{
    int32_t n_failed = 0;
    for (int32_t nth = 0; nth < n; nth++) {
        s2_row row = {.set = "held-out", .seed = seed, .nth = nth};
        if (s2_run_point_drawn_of("listed", S2_PASS_FORWARD, (uint64_t)seed, nth, &row.point))
            n_failed += !time_row(device, options, &row);
    }
    return n_failed;
}

int main(int argc, char **argv)
{
    s2_device *device;
    s2_diag why = {0};
    s2_measure_options options = s2_measure_options_default();
    const char *held_out[2] = {NULL, NULL};
    options.kernel = &s2_listed_sm90;
    for (int arg = 2; arg < argc; arg++)
        if (strcmp(argv[arg], "--plain") == 0)
            options.kernel = s2_kernel_find("sm90");
        else if (strcmp(argv[arg], "--held-out") == 0 && arg + 2 < argc)
            memcpy(held_out, &argv[arg + 1], sizeof held_out);
    if (s2_device_open("gpu", &device, &why) != S2_OK) {
        fprintf(stderr, "bench_lists: %s\n", why.msg);
        return 77;
    }
    print_head(device, argc > 1 ? argv[1] : "unknown");
    const int32_t n_failed = held_out[0] == NULL
                                 ? time_designed(device, &options)
                                 : time_drawn(device, &options, atoi(held_out[0]), atoll(held_out[1]));
    s2_device_close(&device);
    return n_failed != 0;
}
