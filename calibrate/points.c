#include "calibrate/points.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/rng.h"
#include "plan/launch.h"

/* One rule over several lengths; 0 ends them. */
typedef struct s2_design {
    const char *family;
    int32_t heads, kv_heads, head_dim, block_tok;
    const char *rules;
    int32_t len_tok[7];
    int32_t q_tok; /* 0: all */
    int32_t batch;
    s2_dtype dtype;
} s2_design;

#define L8V16  "local 8 | stride 16 phase head"
#define L16V32 "local 16 | stride 32 phase head"
#define PHI3   "local 16 | stride 8 phase kv"

/* For the purpose of each row see docs/simulator.md, "Calibration". */
static const s2_design forward[] = {
    {"waves", 33, 33, 128, 64, "local 1", {128, 512, 1024, 4096, 16384}, 0, 1, S2_BF16},
    {"waves", 33, 33, 128, 64, "local 4", {512, 2048, 8192}, 0, 1, S2_BF16},
    {"dense", 32, 32, 128, 64, "dense", {1024, 2048, 4096, 8192, 16384, 32768}, 0, 1, S2_BF16},
    {"dense", 32, 8, 128, 64, "dense", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"dense", 8, 8, 128, 64, "dense", {4096, 16384, 65536}, 0, 1, S2_BF16},
    {"dense", 32, 8, 128, 64, "dense", {512, 2048}, 0, 8, S2_BF16},
    {"strided", 32, 32, 128, 64, L8V16, {2048, 4096, 8192, 16384, 32768, 65536, 131072}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 64, L16V32, {4096, 16384, 65536}, 0, 1, S2_BF16},
    {"strided", 32, 8, 128, 64, PHI3, {2048, 8192, 32768, 131072}, 0, 1, S2_BF16},
    {"strided", 12, 12, 128, 64, L8V16, {8192, 32768}, 0, 1, S2_BF16},
    {"window", 32, 32, 128, 64, "local 16", {8192, 65536}, 0, 1, S2_BF16},
    {"window", 32, 8, 128, 64, "local 64 | sink 1", {16384, 65536}, 0, 1, S2_BF16},
    {"window", 32, 32, 128, 64, "local 3", {32768, 131072}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 16, "local 32 | stride 16 phase head", {4096, 32768}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 32, "local 16 | stride 16 phase head", {4096, 32768}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 128, "local 4 | stride 16 phase head", {4096, 32768}, 0, 1, S2_BF16},
    {"window", 32, 32, 128, 16, "local 64", {16384}, 0, 1, S2_BF16},
    {"window", 32, 32, 128, 128, "local 8", {16384}, 0, 1, S2_BF16},
    {"lists", 32, 32, 128, 64, "local 4 | random 12 seed 1", {4096, 16384}, 0, 1, S2_BF16},
    {"lists", 16, 16, 128, 32, "local 4 | random 24 seed 2", {4096, 16384}, 0, 1, S2_BF16},
    {"mixed", 32, 32, 128, 64, L8V16 "; heads 0: dense", {4096, 16384}, 0, 1, S2_BF16},
    {"chunk", 32, 8, 128, 64, "dense", {32768, 131072}, 2048, 1, S2_BF16},
    {"chunk", 32, 32, 128, 64, L8V16, {131072}, 4096, 1, S2_BF16},
    {"strided", 32, 32, 128, 64, L8V16, {8192, 32768}, 0, 1, S2_F16},
    {"dense", 32, 32, 128, 64, "dense", {8192}, 0, 1, S2_F16},
    {"waves", 33, 33, 64, 64, "local 1", {512, 4096, 16384}, 0, 1, S2_BF16},
    {"dense", 32, 32, 64, 64, "dense", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"strided", 32, 32, 64, 64, L8V16, {8192, 32768, 131072}, 0, 1, S2_BF16},
    {"window", 64, 8, 64, 64, "local 2", {8192, 65536}, 0, 1, S2_BF16},
    {"strided", 32, 32, 64, 32, "local 16 | stride 16 phase head", {16384}, 0, 1, S2_BF16},
    {"waves", 33, 33, 96, 64, "local 1", {512, 4096, 16384}, 0, 1, S2_BF16},
    {"dense", 32, 32, 96, 64, "dense", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"strided", 32, 32, 96, 64, L8V16, {8192, 32768}, 0, 1, S2_BF16},
    {"window", 32, 32, 96, 64, "local 8", {16384}, 0, 1, S2_BF16},
    {"waves", 33, 33, 256, 64, "local 1", {512, 4096, 16384}, 0, 1, S2_BF16},
    {"dense", 16, 16, 256, 64, "dense", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"strided", 16, 16, 256, 64, L8V16, {8192, 32768}, 0, 1, S2_BF16},
    {"window", 16, 8, 256, 64, "local 8", {16384}, 0, 1, S2_BF16},
    {"strided", 16, 16, 256, 16, "local 32 | stride 16 phase head", {16384}, 0, 1, S2_BF16},
    {"rotation", 32, 8, 128, 64, "local 16 | stride 8 phase head", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"rotation", 32, 8, 64, 64, "local 8 | stride 16 phase head", {8192, 32768}, 0, 1, S2_BF16},
    {"tokens", 32, 32, 128, 64, "local 1000t", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"tokens", 32, 8, 64, 64, "local 500t | sink 4t", {4096, 16384}, 0, 1, S2_BF16},
    {"tokens", 16, 16, 80, 64, L8V16, {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"tokens", 33, 33, 128, 64, "local 60t", {256, 1024, 8192}, 0, 1, S2_BF16},
    {"tokens", 33, 33, 64, 64, "local 60t", {256, 8192}, 0, 1, S2_BF16},
    {"tokens", 32, 32, 64, 64, "local 1000t", {2048, 16384}, 0, 1, S2_BF16},
    {"tokens", 32, 32, 96, 64, "local 1000t", {2048, 16384}, 0, 1, S2_BF16},
    {"tokens", 33, 33, 96, 64, "local 60t", {4096}, 0, 1, S2_BF16},
    {"tokens", 16, 16, 256, 64, "local 1000t", {2048, 16384}, 0, 1, S2_BF16},
    {"tokens", 33, 33, 256, 64, "local 60t", {4096}, 0, 1, S2_BF16},
    {"rotation", 32, 8, 96, 32, "local 16 | stride 16 phase head", {4096, 16384}, 0, 1, S2_BF16},
    {"rotation", 16, 4, 256, 64, "local 8 | stride 8 phase head", {4096, 16384}, 0, 1, S2_BF16},
    {"rotation", 32, 8, 128, 16, "local 64 | stride 8 phase head", {8192}, 0, 1, S2_BF16},
    {"rotation", 32, 8, 128, 64, "local 4 | random 12 seed 3", {8192}, 0, 1, S2_F16},
    {"few", 8, 8, 128, 64, "dense", {256, 512, 1024, 2048}, 0, 1, S2_BF16},
    {"few", 16, 4, 64, 64, "dense", {256, 640, 1280}, 0, 1, S2_BF16},
    {"few", 16, 4, 96, 64, "dense", {256, 640, 1280}, 0, 1, S2_BF16},
    {"few", 8, 2, 256, 64, "dense", {384, 768}, 0, 2, S2_BF16},
    {"few", 16, 16, 128, 16, "local 16 | stride 24 phase head", {512, 1024}, 0, 1, S2_BF16},
    {"few", 24, 24, 128, 16, "local 56 | stride 24 phase head", {896}, 0, 1, S2_BF16},
    {"few", 32, 32, 128, 16, "local 16 | sink 4", {2048, 16384}, 512, 1, S2_BF16},
    {"few", 12, 12, 128, 32, "local 48", {8192}, 512, 2, S2_BF16},
    {"few", 8, 4, 128, 64, "local 12 | random 24 seed 4", {16384}, 1280, 1, S2_BF16},
    {"few", 16, 4, 128, 64, "local 16 | stride 16 phase kv", {8192, 65536}, 512, 1, S2_BF16},
    {"few", 32, 32, 96, 128, "local 5 | stride 16 phase head", {8192, 65536}, 512, 1, S2_BF16},
    {"few", 48, 48, 64, 64, "local 24 | stride 24 phase head", {8192, 32768}, 256, 1, S2_BF16},
    {"few", 16, 4, 64, 32, "local 21 | sink 1", {16384}, 768, 2, S2_BF16},
    {"e4m3", 33, 33, 128, 64, "local 1", {128, 512, 4096, 16384}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 128, 64, "dense", {1024, 2048, 4096, 8192, 16384, 32768}, 0, 1, S2_F8},
    {"e4m3", 32, 8, 128, 64, "dense", {2048, 8192, 32768}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 128, 64, L8V16, {4096, 8192, 32768, 131072}, 0, 1, S2_F8},
    {"e4m3", 32, 8, 128, 64, PHI3, {4096, 16384, 65536}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 128, 64, "local 16", {8192, 65536}, 0, 1, S2_F8},
    {"e4m3", 32, 8, 128, 64, "local 16 | stride 8 phase head", {4096, 16384}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 128, 16, "local 32 | stride 16 phase head", {4096, 32768}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 128, 32, "local 16 | stride 16 phase head", {16384}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 128, 64, "local 4 | random 12 seed 1", {8192}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 128, 64, "local 1000t", {4096, 16384}, 0, 1, S2_F8},
    {"e4m3", 8, 8, 128, 64, "dense", {512, 2048}, 0, 1, S2_F8},
    {"e4m3", 32, 8, 128, 64, "dense", {16384}, 1024, 2, S2_F8},
    {"e4m3", 32, 32, 64, 64, "dense", {2048, 8192, 32768}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 64, 64, L8V16, {8192, 32768}, 0, 1, S2_F8},
    {"e4m3", 33, 33, 64, 64, "local 1", {512, 8192}, 0, 1, S2_F8},
    {"e4m3", 64, 8, 64, 64, "local 2", {8192}, 0, 1, S2_F8},
    {"e4m3", 24, 8, 96, 64, "dense", {2048, 16384}, 0, 1, S2_F8},
    {"e4m3", 32, 32, 96, 64, L8V16, {8192, 32768}, 0, 1, S2_F8},
    {"e4m3", 33, 33, 96, 64, "local 1", {4096}, 0, 1, S2_F8},
};

/* Items of one, two and three steps: when the keys of the next one come decides how long they take. */
static const s2_design forward_brief[] = {
    {"brief", 8, 8, 64, 64, "local 3", {2048, 8192, 28672, 65536}, 0, 1, S2_BF16},
    {"brief", 33, 33, 64, 64, "local 3", {2048, 8192}, 0, 1, S2_BF16},
    {"brief", 32, 32, 64, 64, "local 5", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"brief", 16, 16, 64, 64, "local 7", {4096, 32768}, 0, 1, S2_BF16},
    {"brief", 32, 32, 64, 16, "local 9", {4096, 32768}, 0, 1, S2_BF16},
    {"brief", 8, 8, 64, 64, "local 3 | sink 2", {8192, 32768}, 0, 1, S2_BF16},
    {"brief", 32, 8, 64, 64, "local 3", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"brief", 32, 8, 64, 64, "local 5", {4096, 32768}, 0, 1, S2_BF16},
    {"brief", 16, 4, 64, 64, "local 3 | sink 1", {8192, 65536}, 0, 1, S2_BF16},
    {"brief", 64, 64, 64, 64, "local 3", {32768}, 8192, 1, S2_BF16},
    {"brief", 16, 16, 96, 64, "local 3", {2048, 16384}, 0, 1, S2_BF16},
    {"brief", 32, 8, 96, 64, "local 3", {16384}, 0, 1, S2_BF16},
    {"brief", 8, 8, 128, 64, "local 3", {2048, 8192}, 0, 1, S2_BF16},
    {"brief", 32, 8, 128, 64, "local 3", {2048, 16384}, 0, 1, S2_BF16},
    {"brief", 32, 8, 128, 64, "local 5", {16384}, 0, 1, S2_BF16},
    {"brief", 16, 16, 256, 64, "local 2", {4096}, 0, 1, S2_BF16},
};

/* Short windows of groups of heads (plan/launch.h). */
static const s2_design forward_short[] = {
    {"short", 64, 8, 64, 64, "local 128t", {1024, 2048, 4096, 8192, 16384, 32768, 131072}, 0, 1, S2_BF16},
    {"short", 8, 1, 64, 64, "local 128t", {1024, 4096, 16384, 65536}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {1024, 4096}, 0, 8, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {2048}, 0, 16, S2_BF16},
    {"short", 64, 4, 64, 64, "local 128t", {8192}, 0, 1, S2_BF16},
    {"short", 24, 1, 64, 64, "local 128t", {4096, 32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 64t", {4096, 16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 16t", {16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 100t", {8192}, 0, 1, S2_BF16},
    {"short", 64, 8, 32, 64, "local 128t", {8192, 32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 40, 64, "local 96t", {16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 16, "local 128t", {8192}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 32, "local 128t", {16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {65536}, 2048, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {8192, 32768}, 0, 1, S2_F16},
};

static const s2_design forward_sinks[] = {
    {"short", 64, 8, 64, 64, "local 128t", {1024, 8192, 32768}, 0, 1, S2_BF16},
    {"short", 8, 1, 64, 64, "local 128t", {16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {4096}, 0, 4, S2_BF16},
    {"short", 64, 8, 64, 64, "local 64t", {8192}, 0, 1, S2_BF16},
};

static const s2_design backward[] = {
    {"waves", 33, 33, 128, 64, "local 1", {512, 1024, 4096, 16384}, 0, 1, S2_BF16},
    {"dense", 32, 32, 128, 64, "dense", {1024, 2048, 4096, 8192, 16384}, 0, 1, S2_BF16},
    {"dense", 32, 8, 128, 64, "dense", {2048, 8192}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 64, L8V16, {2048, 8192, 16384, 32768, 65536}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 64, L16V32, {4096, 16384, 65536}, 0, 1, S2_BF16},
    {"strided", 32, 8, 128, 64, PHI3, {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"window", 32, 32, 128, 64, "local 16", {8192, 65536}, 0, 1, S2_BF16},
    {"window", 32, 8, 128, 64, "local 64 | sink 1", {16384}, 0, 1, S2_BF16},
    {"window", 32, 32, 128, 64, "local 3", {32768}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 16, "local 32 | stride 16 phase head", {4096, 16384}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 32, "local 16 | stride 16 phase head", {4096, 16384}, 0, 1, S2_BF16},
    {"strided", 32, 32, 128, 128, "local 4 | stride 16 phase head", {4096, 16384}, 0, 1, S2_BF16},
    {"lists", 32, 32, 128, 64, "local 4 | random 12 seed 1", {4096, 16384}, 0, 1, S2_BF16},
    {"waves", 33, 33, 64, 64, "local 1", {512, 4096, 16384}, 0, 1, S2_BF16},
    {"dense", 32, 32, 64, 64, "dense", {2048, 8192}, 0, 1, S2_BF16},
    {"strided", 32, 32, 64, 64, L8V16, {8192, 32768}, 0, 1, S2_BF16},
    {"rotation", 32, 8, 128, 64, "local 16 | stride 8 phase head", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"rotation", 16, 8, 64, 64, "local 4 | stride 8 phase head", {4096, 16384}, 0, 1, S2_BF16},
    {"dense", 32, 8, 64, 64, "dense", {2048, 8192}, 0, 1, S2_BF16},
    {"dense", 32, 32, 96, 64, "dense", {2048, 8192}, 0, 1, S2_BF16},
    {"strided", 32, 32, 96, 64, L8V16, {8192, 32768}, 0, 1, S2_BF16},
    {"strided", 16, 4, 96, 32, "local 16 | stride 8 phase kv", {4096, 16384}, 0, 1, S2_BF16},
    {"waves", 33, 33, 96, 64, "local 1", {1024, 8192}, 0, 1, S2_BF16},
    {"tokens", 32, 32, 128, 64, "local 1000t", {2048, 16384}, 0, 1, S2_BF16},
    {"tokens", 32, 8, 64, 64, "local 500t | sink 4t", {4096, 16384}, 0, 1, S2_BF16},
    {"lists", 16, 4, 128, 32, "local 4 | random 12 seed 2", {4096}, 0, 1, S2_BF16},
    {"lists", 32, 8, 64, 64, "local 4 | random 8 seed 3", {4096}, 0, 1, S2_BF16},
    {"few", 8, 8, 128, 64, "dense", {512, 1024, 2048}, 0, 1, S2_BF16},
    {"few", 12, 3, 64, 32, "dense", {768, 2304}, 0, 1, S2_BF16},
    {"few", 16, 4, 96, 64, "dense", {640, 1280}, 0, 1, S2_BF16},
    {"few", 16, 4, 64, 32, "local 16 | stride 16 phase kv", {640, 1920}, 0, 1, S2_BF16},
    {"few", 24, 6, 128, 64, "local 3 | stride 4 phase kv", {640, 1280}, 0, 1, S2_BF16},
};

static const s2_design backward_short[] = {
    {"short", 64, 8, 64, 64, "local 128t", {1024, 2048, 4096, 8192, 16384, 32768, 131072}, 0, 1, S2_BF16},
    {"short", 8, 1, 64, 64, "local 128t", {1024, 4096, 16384, 65536}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {1024, 4096}, 0, 8, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {2048}, 0, 16, S2_BF16},
    {"short", 64, 4, 64, 64, "local 128t", {8192}, 0, 1, S2_BF16},
    {"short", 24, 1, 64, 64, "local 128t", {4096, 32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 64t", {4096, 16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 16t", {16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 32, 64, "local 128t", {8192, 32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 16, "local 128t", {8192}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {8192}, 0, 1, S2_F16},
    /* several sets of heads a KV head, with few SMs at work and all, and what windows, columns and types change */
    {"short", 32, 1, 64, 64, "local 128t", {4096, 16384, 32768, 131072}, 0, 1, S2_BF16},
    {"short", 128, 4, 64, 64, "local 128t", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"short", 64, 4, 64, 64, "local 128t", {2048, 32768, 131072}, 0, 1, S2_BF16},
    {"short", 96, 4, 64, 64, "local 128t", {2048, 8192}, 0, 1, S2_BF16},
    {"short", 24, 1, 64, 64, "local 128t", {16384, 131072}, 0, 1, S2_BF16},
    {"short", 120, 5, 64, 64, "local 128t", {4096}, 0, 16, S2_BF16},
    {"short", 128, 4, 64, 64, "local 64t", {2048, 8192, 32768}, 0, 1, S2_BF16},
    {"short", 128, 4, 64, 64, "local 16t", {8192}, 0, 1, S2_BF16},
    {"short", 128, 4, 64, 64, "local 100t", {6144}, 0, 1, S2_BF16},
    {"short", 32, 1, 64, 64, "local 64t", {4096, 32768}, 0, 1, S2_BF16},
    {"short", 64, 4, 64, 64, "local 32t", {2048, 32768}, 0, 1, S2_BF16},
    {"short", 24, 1, 64, 64, "local 64t", {4096, 32768}, 0, 1, S2_BF16},
    {"short", 8, 1, 64, 64, "local 32t", {4096, 16384, 65536}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 64t", {2048, 32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 100t", {32768}, 0, 1, S2_BF16},
    {"short", 128, 4, 32, 64, "local 128t", {2048, 8192, 65536}, 0, 1, S2_BF16},
    {"short", 128, 4, 32, 64, "local 32t", {8192, 65536}, 0, 1, S2_BF16},
    {"short", 64, 8, 32, 64, "local 64t", {2048, 32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 40, 64, "local 128t", {2048, 16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 40, 64, "local 32t", {32768}, 0, 1, S2_BF16},
    {"short", 120, 5, 40, 64, "local 128t", {32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {2048, 32768}, 0, 1, S2_F16},
    {"short", 8, 1, 64, 64, "local 128t", {4096, 16384}, 0, 1, S2_F16},
    {"short", 32, 1, 64, 64, "local 128t", {4096, 32768}, 0, 1, S2_F16},
    {"short", 24, 1, 64, 64, "local 128t", {4096}, 0, 16, S2_F16},
    {"short", 64, 4, 64, 64, "local 128t", {16384}, 0, 1, S2_F16},
    {"short", 64, 8, 64, 64, "local 64t", {32768}, 0, 1, S2_F16},
};

static const s2_design backward_sinks[] = {
    {"short", 64, 8, 64, 64, "local 128t", {1024, 4096, 8192, 32768, 131072}, 0, 1, S2_BF16},
    {"short", 8, 1, 64, 64, "local 128t", {16384}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {4096}, 0, 8, S2_BF16},
    {"short", 128, 16, 64, 64, "local 128t", {8192}, 0, 1, S2_BF16},
    {"short", 32, 1, 64, 64, "local 128t", {4096, 32768}, 0, 1, S2_BF16},
    {"short", 64, 4, 64, 64, "local 128t", {2048, 16384}, 0, 1, S2_BF16},
    {"short", 128, 8, 64, 64, "local 128t", {4096, 32768}, 0, 1, S2_BF16},
    {"short", 120, 5, 40, 64, "local 128t", {32768}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 64t", {2048, 32768}, 0, 1, S2_BF16},
    {"short", 8, 1, 64, 64, "local 32t", {4096}, 0, 1, S2_BF16},
    {"short", 64, 8, 64, 64, "local 128t", {32768}, 0, 1, S2_F16},
    {"short", 24, 1, 64, 64, "local 128t", {4096}, 0, 16, S2_F16},
};

static const s2_design step[] = {
    {"dense", 32, 8, 128, 64, "dense", {1024, 4096, 16384, 65536, 131072}, 1, 1, S2_BF16},
    {"dense", 32, 8, 128, 64, "dense", {1024, 4096, 16384, 65536}, 1, 16, S2_BF16},
    {"dense", 32, 8, 128, 64, "dense", {1024, 8192}, 1, 64, S2_BF16},
    {"dense", 32, 32, 128, 64, "dense", {1024, 8192, 65536}, 1, 4, S2_BF16},
    {"strided", 32, 8, 128, 64, PHI3, {2048, 8192, 32768, 131072}, 1, 1, S2_BF16},
    {"strided", 32, 8, 128, 64, PHI3, {8192, 65536}, 1, 16, S2_BF16},
    {"strided", 32, 32, 128, 64, L8V16, {8192, 131072}, 1, 1, S2_BF16},
    {"strided", 32, 32, 128, 64, L8V16, {8192, 131072}, 1, 16, S2_BF16},
    {"window", 32, 8, 128, 64, "local 16 | sink 1", {8192, 65536}, 1, 1, S2_BF16},
    {"window", 32, 8, 128, 64, "local 64 | sink 1", {65536}, 1, 32, S2_BF16},
    {"dense", 64, 8, 64, 64, "dense", {4096, 65536}, 1, 1, S2_BF16},
    {"dense", 64, 8, 64, 64, "dense", {16384}, 1, 16, S2_BF16},
    {"dense", 32, 8, 128, 64, "dense", {16384}, 4, 8, S2_BF16},
    {"strided", 32, 8, 128, 16, "local 64 | stride 8 phase kv", {16384, 131072}, 1, 4, S2_BF16},
    {"rotation", 32, 8, 128, 64, "local 16 | stride 8 phase head", {8192, 65536}, 1, 8, S2_BF16},
    {"rotation", 32, 16, 64, 64, "local 8 | stride 16 phase head", {8192, 65536}, 1, 16, S2_BF16},
    {"dense", 24, 12, 96, 64, "dense", {2048, 16384}, 1, 4, S2_BF16},
    {"strided", 24, 12, 96, 64, "local 8 | stride 8 phase kv", {4096, 16384}, 1, 32, S2_BF16},
    {"mixed", 24, 12, 96, 16, "local 64 | stride 6 phase kv; kv 0: dense", {8192}, 1, 32, S2_BF16},
    {"lists", 32, 16, 128, 64, "local 4 | random 16 seed 2", {4096, 8192}, 1, 8, S2_BF16},
    {"tokens", 32, 8, 128, 64, "local 1000t | sink 4t", {8192}, 2, 8, S2_BF16},
    {"few", 48, 12, 128, 64, "dense", {1024, 2048, 3072, 4096, 5120, 6144, 8192}, 1, 1, S2_BF16},
    {"few", 32, 16, 64, 64, "dense", {3072, 6144, 9216}, 1, 1, S2_BF16},
    {"few", 8, 2, 128, 16, "local 9 | sink 2 | stride 21 phase kv", {16384, 65536}, 4, 1, S2_BF16},
    {"few", 16, 4, 128, 64, "local 1279t | sink 1t", {10240}, 4, 1, S2_BF16},
    {"few", 32, 8, 128, 32, "local 24 | stride 8 phase kv", {32768}, 1, 1, S2_BF16},
};

/* More than 16 rows a list, for which Hopper has a kernel: one list, some, and more than there are parts. */
static const s2_design step_wide[] = {
    {"wide", 32, 1, 128, 64, "dense", {64, 1024, 8192, 65536}, 1, 1, S2_BF16},
    {"wide", 64, 2, 128, 64, "dense", {64, 256, 2048}, 1, 64, S2_BF16},
    {"wide", 128, 2, 96, 16, "dense", {64, 1024}, 1, 64, S2_BF16},
    {"wide", 128, 2, 96, 16, "local 2 | stride 8 phase kv", {64, 1024}, 1, 64, S2_BF16},
    {"wide", 128, 1, 64, 64, "dense", {1024, 16384}, 1, 8, S2_BF16},
    {"wide", 64, 1, 64, 64, "dense", {256, 4096}, 1, 32, S2_BF16},
    {"wide", 64, 1, 64, 64, "local 4 | random 8 seed 1", {4096}, 1, 32, S2_BF16},
    {"wide", 64, 8, 128, 64, "dense", {1024, 8192}, 4, 8, S2_BF16},
    {"wide", 64, 2, 128, 64, "local 4 | stride 8 phase head", {2048, 16384}, 1, 16, S2_BF16},
    {"wide", 48, 2, 128, 16, "local 100t | sink 4t", {512, 4096}, 1, 32, S2_BF16},
    {"wide", 128, 32, 128, 16, "local 16 | stride 8 phase kv", {512}, 8, 4, S2_BF16},
    {"wide", 64, 8, 128, 64, "dense", {64, 512}, 4, 64, S2_BF16},
    {"wide", 128, 4, 128, 16, "dense", {128, 1024}, 1, 64, S2_BF16},
    {"wide", 96, 4, 64, 64, "local 4 | stride 8 phase head", {512, 4096}, 2, 64, S2_BF16},
};

/* The same of few slabs a part, of one part and of many, and of more rows than a block takes. */
static const s2_design step_wide_few[] = {
    {"wide", 64, 1, 128, 64, "dense", {128, 256, 512, 1024, 4096}, 1, 1, S2_BF16},
    {"wide", 64, 1, 128, 64, "dense", {256, 1024}, 1, 8, S2_BF16},
    {"wide", 48, 1, 128, 64, "dense", {128, 464, 1024}, 4, 16, S2_BF16},
    {"wide", 128, 1, 128, 64, "dense", {128, 512, 2048}, 2, 8, S2_BF16},
    {"wide", 128, 1, 128, 64, "dense", {256, 1024}, 4, 16, S2_BF16},
    {"wide", 128, 1, 64, 64, "dense", {128, 512, 2048}, 4, 8, S2_BF16},
    {"wide", 96, 1, 64, 64, "dense", {96, 464}, 2, 16, S2_BF16},
    {"wide", 80, 1, 96, 64, "dense", {256, 2048}, 1, 8, S2_BF16},
    {"wide", 20, 1, 128, 64, "dense", {512, 1024, 1536}, 1, 16, S2_BF16},
    {"wide", 64, 2, 64, 64, "dense", {128, 256, 1024}, 1, 4, S2_BF16},
    {"wide", 128, 4, 128, 64, "local 8 | random 24 seed 5", {2048}, 4, 16, S2_BF16},
    {"wide", 128, 4, 128, 64, "dense", {64, 256}, 1, 128, S2_BF16},
    {"wide", 96, 4, 64, 64, "dense", {128, 512}, 2, 96, S2_BF16},
    {"wide", 64, 2, 128, 64, "local 100t | sink 4t", {4096}, 1, 256, S2_BF16},
};

/* Of few keys a list, up to 16 rows: fewer lists than SMs and many, which no part or several parts share. */
static const s2_design step_brief[] = {
    {"brief", 32, 8, 128, 64, "dense", {1, 16, 32, 64, 128, 256, 512}, 1, 32, S2_BF16},
    {"brief", 32, 8, 128, 64, "dense", {16, 64, 128, 256, 512}, 1, 128, S2_BF16},
    {"brief", 32, 8, 128, 64, "dense", {16, 128, 512}, 1, 12, S2_BF16},
    {"brief", 32, 8, 128, 64, "dense", {64, 256}, 4, 24, S2_BF16},
    {"brief", 32, 32, 128, 64, "dense", {16, 65, 128, 256, 512}, 1, 3, S2_BF16},
    {"brief", 32, 32, 128, 64, "dense", {16, 64, 256}, 1, 16, S2_BF16},
    {"brief", 64, 8, 64, 64, "local 128t", {4096}, 1, 8, S2_BF16},
    {"brief", 64, 8, 64, 64, "local 128t", {4096}, 1, 32, S2_BF16},
    {"brief", 64, 8, 64, 64, "local 128t", {4096}, 1, 128, S2_BF16},
    {"brief", 64, 8, 64, 64, "dense", {64, 256, 1024}, 1, 64, S2_BF16},
    {"brief", 32, 8, 128, 64, "local 4 | sink 1", {8192}, 1, 20, S2_BF16},
    {"brief", 32, 8, 128, 64, "local 8 | sink 1", {8192}, 1, 48, S2_BF16},
    {"brief", 24, 12, 96, 64, "dense", {48, 192, 768}, 1, 16, S2_BF16},
    {"brief", 16, 16, 64, 64, "dense", {100, 400}, 1, 12, S2_F16},
    {"brief", 32, 8, 128, 64, "dense", {512, 1024, 2048}, 1, 20, S2_BF16},
};

/* What gradients in order take (plan/launch.h): few columns and many, lengths that leave the cache, other blocks. */
static const s2_design backward_ordered[] = {
    {"ordered", 1, 1, 128, 64, "dense", {8192, 16384, 32768, 65536, 131072}, 0, 1, S2_BF16},
    {"ordered", 2, 2, 128, 64, "dense", {12288, 98304}, 0, 1, S2_BF16},
    {"ordered", 4, 4, 128, 64, "dense", {8192, 16384, 32768, 65536}, 0, 1, S2_BF16},
    {"ordered", 8, 8, 128, 64, "dense", {8192, 12288, 24576, 49152, 131072}, 0, 1, S2_BF16},
    {"ordered", 16, 16, 128, 64, "dense", {8192, 20480}, 0, 1, S2_BF16},
    {"ordered", 32, 32, 128, 64, "dense", {10240, 32768}, 0, 1, S2_BF16},
    {"ordered", 4, 4, 128, 64, "dense", {9001, 33333, 77777}, 0, 1, S2_BF16},
    {"ordered", 4, 4, 128, 64, "dense", {8192, 16384}, 0, 4, S2_BF16},
    {"ordered", 1, 1, 128, 64, "dense", {8192, 32768}, 0, 3, S2_BF16},
    {"ordered", 16, 16, 128, 16, "dense", {8192}, 0, 1, S2_BF16},
    {"ordered", 4, 4, 128, 32, "dense", {32768}, 0, 1, S2_BF16},
    {"ordered", 8, 8, 128, 128, "dense", {16384}, 0, 1, S2_BF16},
    {"ordered", 16, 16, 128, 64, "dense", {8192}, 0, 1, S2_F16},
    {"ordered", 2, 2, 128, 64, "dense", {65536}, 0, 1, S2_F16},
    {"ordered", 4, 4, 104, 64, "dense", {8192, 32768, 65536}, 0, 1, S2_BF16},
    {"ordered", 24, 24, 104, 64, "dense", {8192, 16384}, 0, 1, S2_BF16},
    {"ordered", 8, 8, 112, 64, "dense", {16384}, 0, 1, S2_BF16},
    {"ordered", 2, 2, 120, 64, "dense", {8192, 49152}, 0, 1, S2_BF16},
    {"ordered", 32, 32, 128, 64, "dense", {4096}, 0, 1, S2_BF16},
    {"ordered", 8, 8, 128, 64, "dense", {4096}, 0, 4, S2_BF16},
    {"ordered", 32, 8, 128, 64, "dense", {8192, 16384, 32768, 65536}, 0, 1, S2_BF16},
    {"ordered", 64, 8, 128, 64, "dense", {8192, 16384}, 0, 1, S2_BF16},
    {"ordered", 16, 8, 128, 64, "dense", {8192, 16384, 32768}, 0, 1, S2_BF16},
    {"ordered", 32, 4, 128, 64, "dense", {8192, 24576}, 0, 1, S2_BF16},
    {"ordered", 8, 1, 128, 64, "dense", {8192, 32768}, 0, 1, S2_BF16},
    {"ordered", 8, 2, 128, 64, "dense", {10240}, 0, 3, S2_BF16},
    {"ordered", 28, 4, 128, 64, "dense", {8192}, 0, 1, S2_BF16},
    {"ordered", 24, 8, 104, 64, "dense", {12288}, 0, 1, S2_BF16},
};

/* Gradients of windows in tokens: few columns and many, narrow and wide, cut by blocks or amid them. */
static const s2_design backward_sliding[] = {
    {"sliding", 32, 8, 128, 64, "local 1024t", {8192, 16384, 32768, 65536}, 0, 1, S2_BF16},
    {"sliding", 32, 32, 128, 64, "local 1024t", {8192, 32768}, 0, 1, S2_BF16},
    {"sliding", 8, 8, 128, 64, "local 1024t", {8192, 65536}, 0, 1, S2_BF16},
    {"sliding", 2, 2, 128, 64, "local 1024t", {8192, 32768, 131072}, 0, 1, S2_BF16},
    {"sliding", 64, 8, 128, 64, "local 256t", {8192, 32768}, 0, 1, S2_BF16},
    {"sliding", 16, 16, 128, 64, "local 256t", {16384}, 0, 1, S2_BF16},
    {"sliding", 32, 8, 128, 64, "local 256t", {8192, 32768}, 0, 1, S2_BF16},
    {"sliding", 16, 16, 128, 64, "local 300t", {20000}, 0, 1, S2_BF16},
    {"sliding", 32, 8, 128, 64, "local 512t", {8192, 32768}, 0, 1, S2_BF16},
    {"sliding", 16, 16, 128, 64, "local 512t", {8192, 32768}, 0, 1, S2_BF16},
    {"sliding", 16, 8, 128, 16, "local 777t", {12345}, 0, 2, S2_BF16},
    {"sliding", 32, 8, 128, 64, "local 2048t", {8192, 32768}, 0, 1, S2_BF16},
    {"sliding", 32, 8, 128, 64, "local 4096t", {8192, 32768, 131072}, 0, 1, S2_BF16},
    {"sliding", 8, 8, 128, 64, "local 4096t", {16384, 65536}, 0, 1, S2_BF16},
    {"sliding", 32, 4, 128, 128, "local 4096t", {32768}, 0, 1, S2_BF16},
    {"sliding", 8, 8, 128, 64, "local 16384t", {65536}, 0, 1, S2_BF16},
    {"sliding", 28, 4, 104, 64, "local 1024t", {8192, 32768}, 0, 1, S2_BF16},
    {"sliding", 8, 8, 112, 64, "local 4000t", {16384}, 0, 1, S2_F16},
    {"sliding", 4, 4, 128, 64, "local 1024t", {8192}, 0, 4, S2_BF16},
};

/* Head dimension 256, whose dK and dV take two passes: one step a column and many, cut columns, all kinds of step. */
static const s2_design backward_256[] = {
    {"dim256", 33, 33, 256, 64, "local 1", {512, 4096, 16384}, 0, 1, S2_BF16},
    {"dim256", 16, 16, 256, 64, "dense", {1024, 4096, 16384}, 0, 1, S2_BF16},
    {"dim256", 16, 4, 256, 64, "dense", {2048, 8192}, 0, 1, S2_BF16},
    {"dim256", 16, 16, 256, 64, L8V16, {4096, 16384}, 0, 1, S2_BF16},
    {"dim256", 16, 8, 256, 64, "local 16", {4096, 16384}, 0, 1, S2_BF16},
    {"dim256", 16, 4, 256, 32, "local 16 | stride 8 phase kv", {4096, 16384}, 0, 1, S2_BF16},
    {"dim256", 16, 4, 256, 64, "local 8 | stride 8 phase head", {4096, 16384}, 0, 1, S2_BF16},
    {"dim256", 16, 16, 256, 16, "local 32 | stride 16 phase head", {8192}, 0, 1, S2_BF16},
    {"dim256", 16, 16, 256, 64, "local 1000t", {2048, 8192}, 0, 1, S2_BF16},
    {"dim256", 16, 16, 256, 64, "local 4 | random 12 seed 1", {4096}, 0, 1, S2_BF16},
    {"dim256", 8, 2, 256, 64, "dense", {640}, 0, 1, S2_BF16},
    {"dim256", 16, 16, 256, 64, "dense", {4096}, 0, 1, S2_F16},
};

/* The rows of each pass, in order; sinks are learnt logits, which the language does not say. */
#define ROWS(of) of, sizeof(of) / sizeof *(of)
static const struct {
    s2_pass pass;
    bool sinks;
    const s2_design *rows;
    size_t n;
} designs[] = {
    {S2_PASS_FORWARD, false, ROWS(forward)},
    {S2_PASS_FORWARD, false, ROWS(forward_brief)},
    {S2_PASS_FORWARD, false, ROWS(forward_short)},
    {S2_PASS_FORWARD, true, ROWS(forward_sinks)},
    {S2_PASS_BACKWARD, false, ROWS(backward)},
    {S2_PASS_BACKWARD, false, ROWS(backward_short)},
    {S2_PASS_BACKWARD, true, ROWS(backward_sinks)},
    {S2_PASS_BACKWARD, false, ROWS(backward_ordered)},
    {S2_PASS_BACKWARD, false, ROWS(backward_sliding)},
    {S2_PASS_BACKWARD, false, ROWS(backward_256)},
    {S2_PASS_DECODE, false, ROWS(step)},
    {S2_PASS_DECODE, false, ROWS(step_wide)},
    {S2_PASS_DECODE, false, ROWS(step_wide_few)},
    {S2_PASS_DECODE, false, ROWS(step_brief)},
};

static s2_run_point point_of(const s2_design *design, s2_pass pass, int32_t len_tok)
{
    s2_run_point point = {.pass = pass,
                          .q_tok = design->q_tok == 0 ? len_tok : s2_min_i32(design->q_tok, len_tok),
                          .k_tok = len_tok,
                          .batch = design->batch,
                          .dtype = design->dtype};
    snprintf(point.family, sizeof point.family, "%s", design->family);
    snprintf(point.pattern, sizeof point.pattern,
             "heads %d; kv-heads %d; head-dim %d; block %d; layers all: %s", design->heads, design->kv_heads,
             design->head_dim, design->block_tok, design->rules);
    return point;
}

/*
 * After the designed rows: points drawn with their own seed, so that the corners of every family are fitted
 * too.
 */
enum { DESIGN_SEED = 20261121 };
static const int32_t n_drawn[S2_N_PASSES] = {
    [S2_PASS_FORWARD] = 40, [S2_PASS_BACKWARD] = 40, [S2_PASS_DECODE] = 48};

/* Row and length number *nth of a design, which is counted down. */
static bool find_designed(size_t design, int32_t *nth, s2_run_point *out)
{
    const size_t n_lengths = sizeof designs->rows->len_tok / sizeof *designs->rows->len_tok;
    for (size_t row = 0; row < designs[design].n; row++)
        for (size_t len = 0; len < n_lengths && designs[design].rows[row].len_tok[len] != 0; len++)
            if ((*nth)-- == 0) {
                const s2_design *const found = &designs[design].rows[row];
                *out = point_of(found, designs[design].pass, found->len_tok[len]);
                out->sinks = designs[design].sinks;
                return true;
            }
    return false;
}

bool s2_run_point_designed(s2_pass pass, int32_t nth, s2_run_point *out)
{
    for (size_t design = 0; design < sizeof designs / sizeof *designs; design++)
        if (designs[design].pass == pass && find_designed(design, &nth, out))
            return true;
    if (nth >= n_drawn[pass])
        return false;
    s2_run_point_drawn(pass, DESIGN_SEED, nth, out);
    return true;
}

/* ------------------------------------------------------------------ drawn points */

static int32_t pick(s2_rng *rng, const int32_t *from, int32_t n)
{
    return from[s2_rng_below(rng, (uint64_t)n)];
}
#define PICK(rng, ...)                                                                                       \
    pick(rng, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* Uniform in the logarithm. */
static int32_t between(s2_rng *rng, double least, double most)
{
    const double unit = (double)s2_rng_below(rng, 1 << 20) / (1 << 20);
    return (int32_t)(least * pow(most / least, unit));
}

/* Rules in blocks of the drawn size; windows of about 128 to 2048 tokens, one key block in 4 to 48. */
static void draw_rules(s2_rng *rng, s2_design *design, char *text, size_t cap)
{
    const int32_t local = 1 + between(rng, 128, 2048) / design->block_tok, stride = between(rng, 4, 48);
    const char *const phase = design->heads == design->kv_heads ? "head" : "kv";
    design->rules = text;
    switch (s2_rng_below(rng, 12)) {
    case 0:
        design->family = "dense";
        snprintf(text, cap, "dense");
        return;
    case 1:
        design->family = "window";
        snprintf(text, cap, "local %d", local);
        return;
    case 2:
        design->family = "window";
        snprintf(text, cap, "local %d | sink %d", local, PICK(rng, 1, 2, 4));
        return;
    case 3:
        design->family = "mixed";
        snprintf(text, cap, "local %d | stride %d phase %s; kv 0: dense", local, stride, phase);
        return;
    case 4:
        design->family = "lists";
        snprintf(text, cap, "local %d | random %d seed %d", local, PICK(rng, 4, 8, 16, 24),
                 PICK(rng, 1, 2, 3, 4, 5));
        return;
    case 5:
        design->family = "sinks";
        snprintf(text, cap, "local %d | sink %d | stride %d phase %s*%d+%d", local, PICK(rng, 1, 2), stride,
                 phase, PICK(rng, 1, 1, 3), PICK(rng, 0, 1, 5));
        return;
    case 6:
        design->family = "rotation";
        snprintf(text, cap, "local %d | stride %d phase head", local, stride);
        return;
    case 7:
        design->family = "tokens";
        snprintf(text, cap, "local %dt | sink %dt", local * design->block_tok - 1, PICK(rng, 1, 4, 16));
        return;
    default:
        design->family = "strided";
        snprintf(text, cap, "local %d | stride %d phase %s", local, stride, phase);
        return;
    }
}

/* Drawing the lists of a long context takes the host longer than reading them takes the GPU. */
static int32_t plannable(const s2_design *design, s2_pass pass, int32_t len_tok)
{
    const int32_t most = strcmp(design->family, "lists") != 0 ? 131072
                         : pass == S2_PASS_DECODE             ? 8192
                                                              : 24576;
    return s2_min_i32(len_tok, most);
}

/* Work that a run may take: about 40 ms of a large GPU. */
static int32_t affordable(const s2_design *design, int32_t len_tok)
{
    const double share =
        strcmp(design->family, "dense") == 0 || strcmp(design->family, "mixed") == 0 ? 1 : 0.2;
    double flop, bytes;
    do {
        const double n = len_tok, rows = n * design->heads * design->batch;
        flop = 2.0 * rows * n * design->head_dim * share;
        bytes = rows * design->head_dim * 2;
        if (flop <= 25e12 && bytes <= 2.2e9)
            return len_tok;
        len_tok = len_tok * 3 / 4;
    } while (len_tok > 256);
    return len_tok;
}

static void draw_shape(s2_rng *rng, s2_pass pass, s2_design *design)
{
    design->head_dim = PICK(rng, 64, 64, 96, 128, 128, 128, 128, 128, 256);
    design->heads = PICK(rng, 8, 12, 16, 24, 32, 32, 40, 48, 64);
    design->kv_heads = design->heads / PICK(rng, 1, 1, 2, 4, 4);
    design->block_tok = PICK(rng, 16, 32, 64, 64, 64, 128);
    design->batch = PICK(rng, 1, 1, 1, 2, 4);
    design->dtype = s2_rng_below(rng, 5) == 0 ? S2_F16 : S2_BF16;
    if (pass == S2_PASS_DECODE) {
        design->batch = PICK(rng, 1, 1, 2, 4, 8, 16, 32, 64);
        design->kv_heads = design->heads / PICK(rng, 1, 2, 4, 4, 4);
    }
    if (pass != S2_PASS_FORWARD && design->head_dim == 256)
        design->head_dim = 128;
}

/*
 * Every fourth point has one shape and length, so that choosing among patterns can be judged: 32 heads on 8
 * KV heads, 32768 tokens; windows, stripes and blocks differ.
 */
static void draw_space(s2_rng *rng, s2_pass pass, s2_design *design, char *rules, size_t cap)
{
    *design = (s2_design){
        .family = "space", .heads = 32, .kv_heads = 8, .head_dim = 128, .batch = 1, .dtype = S2_BF16};
    design->rules = rules;
    design->block_tok = PICK(rng, 16, 32, 64, 64, 128);
    design->q_tok = pass == S2_PASS_DECODE ? 1 : 0;
    const int32_t sinks = PICK(rng, 0, 0, 1);
    const int32_t local = between(rng, 256, 2048) / design->block_tok, stride = between(rng, 4, 48);
    const int n = snprintf(rules, cap, "local %d | stride %d phase kv", local, stride);
    if (sinks > 0 && n > 0)
        snprintf(rules + n, cap - (size_t)n, " | sink %d", sinks);
}

void s2_run_point_drawn(s2_pass pass, uint64_t seed, int32_t nth, s2_run_point *out)
{
    s2_rng rng = {seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)nth * 1024 + (uint64_t)pass};
    s2_design design = {0};
    char rules[120];
    if (nth % 4 == 3) {
        draw_space(&rng, pass, &design, rules, sizeof rules);
        *out = point_of(&design, pass, 32768);
        return;
    }
    draw_shape(&rng, pass, &design);
    draw_rules(&rng, &design, rules, sizeof rules);
    int32_t len_tok = between(&rng, 512, 131072);
    if (s2_rng_below(&rng, 2) == 0)
        len_tok = (len_tok + 127) / 128 * 128;
    len_tok = affordable(&design, plannable(&design, pass, len_tok));
    if (pass == S2_PASS_DECODE)
        design.q_tok = PICK(&rng, 1, 1, 1, 1, 1, 2, 4);
    else if (pass == S2_PASS_FORWARD && s2_rng_below(&rng, 8) == 0)
        design.q_tok = between(&rng, 128, 4096);
    *out = point_of(&design, pass, len_tok);
    if (pass == S2_PASS_FORWARD && design.q_tok != 0)
        snprintf(out->family, sizeof out->family, "chunk");
}

static void draw_e4m3(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_shape(rng, S2_PASS_FORWARD, design);
    design->head_dim = PICK(rng, 64, 96, 128, 128, 128);
    design->dtype = S2_F8;
    draw_rules(rng, design, rules, cap);
}

/* What a program that chooses blocks lists: so many of each query block, or some in a fixed order. */
static void draw_listed(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_shape(rng, S2_PASS_FORWARD, design);
    design->heads = PICK(rng, 8, 16, 32, 32);
    design->kv_heads = design->heads / PICK(rng, 1, 1, 4);
    design->head_dim = PICK(rng, 64, 128, 128);
    design->batch = PICK(rng, 1, 1, 2);
    design->dtype = S2_BF16;
    design->family = "lists"; /* as long as such lists may be */
    design->rules = rules;
    const int32_t n = between(rng, 256, 4096) / design->block_tok;
    if (s2_rng_below(rng, 3) > 0)
        snprintf(rules, cap, "local 1 | random %d seed %d", n, PICK(rng, 1, 2, 3, 4, 5));
    else
        snprintf(rules, cap, "local %d | stride %d phase %s", PICK(rng, 1, 4, 16), between(rng, 4, 48),
                 design->heads == design->kv_heads ? "head" : "kv");
}

/* Where rows are long a launch takes memory, not time. */
static int32_t storable(const s2_design *design, int32_t len_tok)
{
    const double row_bytes = 2.0 * design->heads * design->head_dim * design->batch;
    while (row_bytes * len_tok > 1.1e9)
        len_tok = len_tok * 3 / 4;
    return len_tok;
}

enum { NARROW_ROWS = 16 }; /* of a list, up to which no other kernel runs */

/* What the kernels of short windows take. */
static void draw_short(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    const int32_t group = S2_WINDOW_HEADS * PICK(rng, 1, 1, 1, 1, 2, 3, 4);
    design->kv_heads = PICK(rng, 1, 1, 2, 4, 8, 8);
    design->heads = group * s2_min_i32(design->kv_heads, 128 / group);
    design->kv_heads = design->heads / group;
    design->head_dim = PICK(rng, 64, 64, 64, 64, 64, 32, 40);
    design->block_tok = PICK(rng, 16, 32, 64, 64, 64, 128);
    design->batch = PICK(rng, 1, 1, 1, 2, 4, 8, 16);
    design->dtype = s2_rng_below(rng, 5) == 0 ? S2_F16 : S2_BF16;
    design->rules = rules;
    const int32_t other = between(rng, 16, S2_WINDOW_MOST_TOK);
    snprintf(rules, cap, "local %dt", s2_rng_below(rng, 3) > 0 ? S2_WINDOW_MOST_TOK : other);
}

/* More than 16 rows a list, of one token or several. */
static void draw_wide(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_shape(rng, S2_PASS_DECODE, design);
    design->head_dim = PICK(rng, 64, 64, 96, 128, 128, 128);
    const int32_t group = PICK(rng, 8, 16, 20, 24, 32, 32, 48, 64, 64, 128);
    design->kv_heads = s2_min_i32(PICK(rng, 1, 1, 2, 2, 4, 8, 32), 128 / group);
    design->heads = group * design->kv_heads;
    draw_rules(rng, design, rules, cap);
    design->q_tok = PICK(rng, 1, 1, 1, 2, 4);
    while (group * design->q_tok <= NARROW_ROWS)
        design->q_tok *= 2;
}

/* Few keys a list, of up to 16 rows: short contexts, or short windows of long ones, in batches. */
static void draw_brief_step(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_shape(rng, S2_PASS_DECODE, design);
    design->batch = PICK(rng, 1, 2, 4, 8, 16, 24, 32, 64, 128);
    design->head_dim = PICK(rng, 64, 64, 96, 128, 128, 128);
    design->q_tok = PICK(rng, 1, 1, 1, 1, 2);
    design->rules = rules;
    switch (s2_rng_below(rng, 4)) {
    case 0: snprintf(rules, cap, "local %dt", between(rng, 16, 512)); return;
    case 1: snprintf(rules, cap, "local %d | sink 1", PICK(rng, 1, 2, 4, 8)); return;
    default: snprintf(rules, cap, "dense"); return;
    }
}

/* What gradients in order take. */
static void draw_ordered(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_shape(rng, S2_PASS_BACKWARD, design);
    design->kv_heads = PICK(rng, 1, 2, 4, 8, 8, 16, 24, 32);
    design->heads = design->kv_heads * PICK(rng, 1, 1, 2, 4);
    design->head_dim = PICK(rng, 104, 112, 120, 128, 128, 128, 128, 128);
    design->family = "dense"; /* as long as such layers may be */
    design->rules = rules;
    snprintf(rules, cap, "dense");
}

/* The same of windows in tokens, shorter ones among them that two passes take. */
static void draw_sliding(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_ordered(rng, design, rules, cap);
    const int32_t whole = PICK(rng, 256, 512, 512, 1024, 1024, 1024, 2048, 4096, 4096, 8192);
    snprintf(rules, cap, "local %dt",
             s2_rng_below(rng, 2) == 0 ? whole : between(rng, s2_max_i32(whole / 2, 256), whole));
}

/* Windows of a few blocks or of so many tokens, with and without sinks. */
static void draw_brief(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_shape(rng, S2_PASS_FORWARD, design);
    design->head_dim = PICK(rng, 64, 64, 64, 96, 128, 128, 256);
    design->rules = rules;
    const int32_t wide = between(rng, 64, 512), local = 1 + wide / design->block_tok;
    switch (s2_rng_below(rng, 4)) {
    case 0: snprintf(rules, cap, "local %dt", wide); return;
    case 1: snprintf(rules, cap, "local %d | sink %d", local, PICK(rng, 1, 2)); return;
    default: snprintf(rules, cap, "local %d", local); return;
    }
}

/* Gradients of the head dimension that other draws have none of. */
static void draw_dim256(s2_rng *rng, s2_design *design, char *rules, size_t cap)
{
    draw_shape(rng, S2_PASS_BACKWARD, design);
    design->head_dim = 256;
    draw_rules(rng, design, rules, cap);
}

/* Each has a stream of numbers of its own. */
typedef struct s2_draw {
    const char *family;
    s2_pass pass;
    uint64_t stream;
    int32_t least_tok, most_tok;
    void (*draw)(s2_rng *rng, s2_design *design, char *rules, size_t cap);
    uint32_t is;
} s2_draw;
enum { IS_SHORT = 1, IS_IN_ORDER = 2, IS_CHUNKED = 4 };

static const s2_draw draws[] = {
    {"e4m3", S2_PASS_FORWARD, 8, 512, 65536, draw_e4m3, IS_CHUNKED},
    {"listed", S2_PASS_FORWARD, 9, 512, 65536, draw_listed, 0},
    {"short", S2_PASS_FORWARD, 10, 1024, 131072, draw_short, IS_SHORT | IS_CHUNKED},
    {"short", S2_PASS_BACKWARD, 11, 1024, 131072, draw_short, IS_SHORT},
    {"wide", S2_PASS_DECODE, 14, 64, 65536, draw_wide, 0},
    {"brief", S2_PASS_DECODE, 19, 16, 1024, draw_brief_step, 0},
    {"ordered", S2_PASS_BACKWARD, 15, 4096, 131072, draw_ordered, IS_IN_ORDER},
    {"sliding", S2_PASS_BACKWARD, 16, 4096, 131072, draw_sliding, IS_IN_ORDER},
    {"brief", S2_PASS_FORWARD, 17, 512, 65536, draw_brief, 0},
    {"dim256", S2_PASS_BACKWARD, 18, 512, 65536, draw_dim256, 0},
};

static int32_t draw_length(s2_rng *rng, const s2_draw *of, const s2_design *design)
{
    const int32_t least = (of->is & IS_IN_ORDER) != 0 && design->heads > design->kv_heads ? 2 * of->least_tok
                                                                                          : of->least_tok,
                  drawn = between(rng, least, of->most_tok);
    return (of->is & IS_SHORT) != 0 ? storable(design, drawn)
                                    : affordable(design, plannable(design, of->pass, drawn));
}

bool s2_run_point_drawn_of(const char *family, s2_pass pass, uint64_t seed, int32_t nth, s2_run_point *out)
{
    const s2_draw *of = NULL;
    for (size_t at = 0; at < sizeof draws / sizeof *draws; at++)
        if (draws[at].pass == pass && strcmp(draws[at].family, family) == 0)
            of = &draws[at];
    if (of == NULL)
        return false;
    s2_rng rng = {seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)nth * 1024 + of->stream};
    s2_design design = {.family = of->family};
    char rules[120];
    of->draw(&rng, &design, rules, sizeof rules);
    const int32_t len_tok = draw_length(&rng, of, &design);
    design.family = of->family;
    if ((of->is & IS_CHUNKED) != 0 && s2_rng_below(&rng, 8) == 0)
        design.q_tok = between(&rng, 128, 4096);
    *out = point_of(&design, pass, len_tok);
    out->sinks = (of->is & IS_SHORT) != 0 && s2_rng_below(&rng, 2) == 0;
    return true;
}
