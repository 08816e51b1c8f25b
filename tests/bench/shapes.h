/*
 * tests/bench/shapes.h - the table of `make bench-gpu`: one line a row group, of any phase.
 *
 * A shape is checked first (touch and values on sampled rows) and then timed, at every length it names.
 */
#ifndef S2_TESTS_BENCH_SHAPES_H
#define S2_TESTS_BENCH_SHAPES_H

#include "kernels/kernel.h"

typedef struct s2_bench_shape {
    const char *name;
    const char *rules; /* of every layer */
    s2_pass pass;
    int32_t heads, kv_heads, head_dim, block_tok;
    s2_dtype dtype; /* S2_F8: Q, K and V in e4m3, O in bf16 */
    int32_t batch;
    const char *kernel;  /* NULL: the best */
    const char *lengths; /* "8k,32k" */
    float cap;           /* of scores; 0: none */
    bool sinks;
} s2_bench_shape;

#define L8V16  "local 8 | stride 16 phase head"
#define L16V32 "local 16 | stride 32 phase head"
#define PHI3   "local 16 | stride 8 phase kv"
/*
 * The sparse layers of Phi-3-small as published: the rotation is by query head, so a KV head's group differs.
 */
#define PHI3_SMALL "local 16 | stride 8 phase head+1"

#define ALL_LENGTHS "2k,4k,8k,16k,32k,64k,128k,256k,512k"

static const s2_bench_shape s2_bench_shapes[] = {
    {"L8V16", L8V16, S2_PASS_FORWARD, 32, 32, 128, 64, S2_BF16, 1, NULL, ALL_LENGTHS, 0.0f, false},
    {"L16V32", L16V32, S2_PASS_FORWARD, 32, 32, 128, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"phi3", PHI3, S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "2k,8k,32k,128k,256k", 0.0f, false},
    {"dense", "dense", S2_PASS_FORWARD, 32, 32, 128, 64, S2_BF16, 1, NULL, "2k,4k,8k,16k,32k,64k,128k", 0.0f,
     false},
    {"phi3_small", PHI3_SMALL, S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"phi3_small_dense", "dense", S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"block16", "local 32 | stride 16 phase head", S2_PASS_FORWARD, 32, 32, 128, 16, S2_BF16, 1, NULL,
     "8k,32k,128k", 0.0f, false},
    {"block32", "local 16 | stride 16 phase head", S2_PASS_FORWARD, 32, 32, 128, 32, S2_BF16, 1, NULL,
     "8k,32k,128k", 0.0f, false},
    {"block128", "local 4 | stride 16 phase head", S2_PASS_FORWARD, 32, 32, 128, 128, S2_BF16, 1, NULL,
     "8k,32k,128k", 0.0f, false},
    {"L8V16_d64", L8V16, S2_PASS_FORWARD, 32, 32, 64, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"L8V16_d96", L8V16, S2_PASS_FORWARD, 32, 32, 96, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"L8V16_d256", L8V16, S2_PASS_FORWARD, 16, 16, 256, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"dense_d64", "dense", S2_PASS_FORWARD, 32, 32, 64, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"dense_d96", "dense", S2_PASS_FORWARD, 32, 32, 96, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"dense_d256", "dense", S2_PASS_FORWARD, 16, 16, 256, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"L8V16_f16", L8V16, S2_PASS_FORWARD, 32, 32, 128, 64, S2_F16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"L8V16_gqa8", L8V16, S2_PASS_FORWARD, 64, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"phi3_batch4", PHI3, S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 4, NULL, "2k,8k", 0.0f, false},
    {"stream", "sink 1 | local 32", S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "32k", 0.0f, false},
    {"window", "local 1024t", S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    /* Products of eight bits; what turns V into panels before each is part of the time. */
    {"dense_e4m3", "dense", S2_PASS_FORWARD, 32, 32, 128, 64, S2_F8, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"phi3_e4m3", PHI3, S2_PASS_FORWARD, 32, 8, 128, 64, S2_F8, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"L8V16_e4m3", L8V16, S2_PASS_FORWARD, 32, 32, 128, 64, S2_F8, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"L8V16", L8V16, S2_PASS_FORWARD, 32, 32, 128, 64, S2_BF16, 1, "sm80", "8k,32k", 0.0f, false},
    {"phi3", PHI3, S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 1, "sm80", "32k", 0.0f, false},
    {"dense", "dense", S2_PASS_FORWARD, 32, 32, 128, 64, S2_BF16, 1, "sm80", "32k", 0.0f, false},
    {"L8V16_d64", L8V16, S2_PASS_FORWARD, 32, 32, 64, 64, S2_BF16, 1, "sm80", "32k", 0.0f, false},
    {"L8V16_d256", L8V16, S2_PASS_FORWARD, 16, 16, 256, 64, S2_BF16, 1, "sm80", "32k", 0.0f, false},
    /* What gpt-oss and Gemma 2 add to attention, and the same without. */
    {"gpt_oss", "local 128t", S2_PASS_FORWARD, 64, 8, 64, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, true},
    {"window128", "local 128t", S2_PASS_FORWARD, 64, 8, 64, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"gemma2", "dense", S2_PASS_FORWARD, 32, 16, 128, 64, S2_BF16, 1, NULL, "8k,32k", 50.0f, false},
    {"gemma2_uncapped", "dense", S2_PASS_FORWARD, 32, 16, 128, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"gemma2_d256", "dense", S2_PASS_FORWARD, 16, 8, 256, 64, S2_BF16, 1, NULL, "8k", 50.0f, false},
    /* Lists on the device: planned there at each launch. Every query block has its own, but for the last row. */
    {"chosen64", "local 1 | random 63 seed 1", S2_PASS_FORWARD, 32, 32, 128, 64, S2_BF16, 1, "sm90_lists",
     "8k,32k", 0.0f, false},
    {"chosen128", "local 1 | random 31 seed 1", S2_PASS_FORWARD, 32, 32, 128, 128, S2_BF16, 1, "sm90_lists",
     "8k,32k", 0.0f, false},
    {"chosen64_groups", PHI3, S2_PASS_FORWARD, 32, 8, 128, 64, S2_BF16, 1, "sm90_lists", "8k,32k", 0.0f,
     false},
    {"chosen64_alike", "stride 8 phase head", S2_PASS_FORWARD, 32, 32, 128, 64, S2_BF16, 1, "sm90_lists",
     "8k,32k,64k", 0.0f, false},
    /* Gradients: deterministic by default; fused sums dQ as it comes. */
    {"L8V16", L8V16, S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"phi3", PHI3, S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"L16V32", L16V32, S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"dense", "dense", S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 1, NULL, "8k,32k,128k", 0.0f, false},
    {"L8V16", L8V16, S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k,128k", 0.0f,
     false},
    {"phi3", PHI3, S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k,128k", 0.0f,
     false},
    {"L16V32", L16V32, S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k,128k", 0.0f,
     false},
    {"dense", "dense", S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k,128k", 0.0f,
     false},
    {"dense", "dense", S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 1, "sm90_bwd", "8k,32k,128k", 0.0f, false},
    {"dense_groups", "dense", S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"dense_groups", "dense", S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, "sm90_bwd", "8k,32k", 0.0f,
     false},
    {"dense_groups", "dense", S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k", 0.0f,
     false},
    {"dense_short", "dense", S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 8, NULL, "1k,1000", 0.0f, false},
    {"dense_short", "dense", S2_PASS_BACKWARD, 32, 32, 128, 64, S2_BF16, 8, "sm90_bwd", "1k,1000", 0.0f,
     false},
    {"phi3_small", PHI3_SMALL, S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"block16", "local 32 | stride 16 phase head", S2_PASS_BACKWARD, 32, 32, 128, 16, S2_BF16, 1, NULL,
     "8k,32k", 0.0f, false},
    {"block128", "local 4 | stride 16 phase head", S2_PASS_BACKWARD, 32, 32, 128, 128, S2_BF16, 1, NULL,
     "8k,32k", 0.0f, false},
    {"L8V16_d64", L8V16, S2_PASS_BACKWARD, 32, 32, 64, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"L8V16_d64", L8V16, S2_PASS_BACKWARD, 32, 32, 64, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k", 0.0f,
     false},
    {"dense_d64", "dense", S2_PASS_BACKWARD, 32, 32, 64, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"dense_d64", "dense", S2_PASS_BACKWARD, 32, 32, 64, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k", 0.0f,
     false},
    {"dense_d64", "dense", S2_PASS_BACKWARD, 32, 32, 64, 64, S2_BF16, 1, "sm90_bwd", "8k,32k", 0.0f, false},
    {"dense_d80", "dense", S2_PASS_BACKWARD, 32, 32, 80, 64, S2_BF16, 1, NULL, "8k", 0.0f, false},
    {"dense_d80", "dense", S2_PASS_BACKWARD, 32, 32, 80, 64, S2_BF16, 1, "sm90_bwd", "8k", 0.0f, false},
    {"dense_d80", "dense", S2_PASS_BACKWARD, 32, 32, 80, 64, S2_BF16, 1, "sm90_bwd_fused", "8k", 0.0f, false},
    {"dense_d192", "dense", S2_PASS_BACKWARD, 16, 16, 192, 64, S2_BF16, 1, NULL, "8k", 0.0f, false},
    {"dense_d256", "dense", S2_PASS_BACKWARD, 16, 16, 256, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"dense_d256", "dense", S2_PASS_BACKWARD, 16, 16, 256, 64, S2_BF16, 1, "sm80_bwd", "8k", 0.0f, false},
    {"L8V16_d256", L8V16, S2_PASS_BACKWARD, 16, 16, 256, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"L8V16_f16", L8V16, S2_PASS_BACKWARD, 32, 32, 128, 64, S2_F16, 1, NULL, "8k,32k", 0.0f, false},
    {"window", "local 1024t", S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"window", "local 1024t", S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, "sm90_bwd_fused", "8k,32k", 0.0f,
     false},
    {"window", "local 1024t", S2_PASS_BACKWARD, 32, 8, 128, 64, S2_BF16, 1, "sm90_bwd", "8k,32k", 0.0f,
     false},
    {"gpt_oss", "local 128t", S2_PASS_BACKWARD, 64, 8, 64, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, true},
    {"window128", "local 128t", S2_PASS_BACKWARD, 64, 8, 64, 64, S2_BF16, 1, NULL, "8k,32k", 0.0f, false},
    {"gemma2", "dense", S2_PASS_BACKWARD, 32, 16, 128, 64, S2_BF16, 1, NULL, "8k", 50.0f, false},
};

#endif /* S2_TESTS_BENCH_SHAPES_H */
