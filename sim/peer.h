/*
 * sim/peer.h - somebody else's attention kernel, known only by its times.
 *
 * All that is read of such a kernel is a table of its times. Laws of a few constants are fitted to it
 * (calibrate/table.h), one for each pass, head dimension and kind of group:
 *
 *     tile   = max(l, a + r rows + c m steps + (p + e n) partial)    microseconds of one SM
 *     C      = makespan of the tiles over the SMs
 *     T      = t0 + (C^4 + (bytes / rate)^4)^(1/4) + bytes of new K and V / rate + parts + copies
 *
 * rows is the share of the tile that is filled. partial counts steps of which not every pair is read, where a
 * kernel takes longer for these: FlexAttention's asks its mask_mod there alone, which has n rules. Tiles are handed
 * out longest first, or as a plain grid does it: head by head in the order of the queries, so that the last head's
 * longest tile comes last. Query rows of all heads of a KV head share a tile where the kernel packs them; a single
 * token's rows are copied for that unless there is one sequence or one KV head. Where there are fewer tiles than SMs
 * take at a time, a kernel that splits gives the keys of each to several SMs and adds the parts up, one after
 * another. A kernel may mask what it computes and skip nothing. Which of these it does, and the size of its tiles,
 * is what fits best. A model assumes the caches of its rows: warm where they were measured warm.
 *
 * Ownership: an s2_peer is plain data; work lives in the arena. Threads: no state.
 */
#ifndef S2_SIM_PEER_H
#define S2_SIM_PEER_H

#include "sim/predict.h"
#include "sim/work.h"

/* Whether a kernel shares a tile between the heads of a group. */
typedef enum s2_peer_packing { S2_PACKS_NEVER, S2_PACKS_ONE_TOKEN, S2_PACKS_ALWAYS } s2_peer_packing;

/*
 * Which steps a kernel skips: those that the pattern leaves unread, only those of later keys, none, or those of
 * later keys where its switch for causality says them: for dense attention of as many queries as keys.
 */
typedef enum s2_peer_skips {
    S2_SKIPS_UNREAD,
    S2_SKIPS_LATER,
    S2_SKIPS_NONE,
    S2_SKIPS_SWITCHED,
    S2_N_PEER_SKIPS
} s2_peer_skips;

/* In which order tiles are handed to SMs: the longest first, or head by head in the order of the queries. */
typedef enum s2_peer_order { S2_LONGEST_FIRST, S2_HEAD_BY_HEAD, S2_N_PEER_ORDERS } s2_peer_order;
enum { S2_PEER_RESIDENT = 2 };

/* How it cuts its work: query rows of a tile, keys of a step. */
typedef struct s2_peer_cut {
    int32_t tile_rows;
    int32_t key_tok;
    s2_peer_packing packing;
    bool splits;
    s2_peer_skips skips;
    s2_peer_order order;
    int32_t resident; /* tiles that an SM works on at a time, 1 to S2_PEER_RESIDENT */
    bool asks;        /* a mask, in steps of which not every pair is read */
} s2_peer_cut;

/* The range of each constant: word, least, most. Times in microseconds, rates in GB/s. */
#define S2_PEER_CONSTANTS(X)                                                                                 \
    X(launch_us, 0, 1e6)                                                                                     \
    X(tile_us, 0, 1e6)                                                                                       \
    X(rows_us, 0, 1e6)                                                                                       \
    X(step_us, 1e-9, 1e6)                                                                                    \
    X(partial_us, 0, 1e6)                                                                                    \
    X(ragged_times, 0, 1e3)                                                                                  \
    X(rule_us, 0, 1e6)                                                                                       \
    X(mask_times, 1e-3, 1e3)                                                                                 \
    X(shared, 0, 1e3)                                                                                        \
    X(least_us, 0, 1e6)                                                                                      \
    X(read_gb_s, 1e-3, 1e12)                                                                                 \
    X(write_gb_s, 1e-3, 1e12)                                                                                \
    X(join_us, 0, 1e6)                                                                                       \
    X(join_part_us, 0, 1e6)                                                                                  \
    X(copy_us, 0, 1e6)                                                                                       \
    X(part_us_mb, 0, 1e6)
typedef enum s2_peer_constant {
#define S2_PEER_ENUM(word, least, most) S2_PEER_##word,
    S2_PEER_CONSTANTS(S2_PEER_ENUM)
#undef S2_PEER_ENUM
        S2_N_PEER_CONSTANTS
} s2_peer_constant;

/* One query head per KV head often has other kernels than groups have. */
typedef enum s2_peer_group { S2_GROUP_ANY, S2_GROUP_ONE, S2_GROUP_MANY, S2_N_PEER_GROUPS } s2_peer_group;
const char *s2_peer_group_word(s2_peer_group group); /* "any", "one", "many" */

typedef struct s2_peer_law {
    s2_kernel_model kernel; /* name, pass, rows fitted and judged, errors and spans; no constants */
    int32_t head_dim;
    s2_peer_group group;
    bool sparse;                         /* rows of patterns that are not dense were among those fitted */
    bool causal;                         /* ... and causal rows */
    bool full;                           /* ... and rows whose queries read later keys too */
    int32_t least_blk_tok, most_blk_tok; /* blocks of the rows that are not dense; 0: not known */
    double median_pct;
    s2_peer_cut cut;
    double constant[S2_N_PEER_CONSTANTS];
} s2_peer_law;

/* How the caches were when the rows were measured. */
typedef enum s2_peer_caches {
    S2_CACHES_UNSAID,
    S2_CACHES_WARM,
    S2_CACHES_COLD,
    S2_N_PEER_CACHES
} s2_peer_caches;
const char *s2_peer_caches_word(s2_peer_caches caches); /* "unsaid", "warm", "cold" */

enum { S2_PEER_LAWS = 24, S2_PEER_NAME = 16, S2_PEER_SOURCE = 120 };
typedef struct s2_peer {
    char name[S2_PEER_NAME];
    char gpu[40];
    char source[S2_PEER_SOURCE];
    char hash[20];
    double n_sms;
    s2_peer_caches caches;
    int32_t n_laws;
    s2_peer_law laws[S2_PEER_LAWS];
} s2_peer;

/* What a launch demands of a kernel that cuts it so. */
typedef struct s2_peer_tiles {
    double steps;
    double rows;
    double partial; /* of the steps; a mean over tiles that are alike else */
    int64_t n;
} s2_peer_tiles;
typedef struct s2_peer_work {
    int32_t n_tiles;
    const s2_peer_tiles *tiles; /* longest first */
    int64_t n_lists;   /* handed out one after the other, the tiles of each from the last; 0: longest first */
    int32_t n_workers; /* tiles at a time */
    int32_t n_parts;   /* of each tile */
    bool ragged;       /* steps do not divide the keys */
    double rules;      /* comparisons and remainders that a pair's mask takes, but for causality */
    bool copied;       /* rows of a group do not lie together */
    bool masked;       /* no switch for causality says it: its steps take mask_times as long */
    double read_bytes; /* Q, K, V and O, each once */
    double write_bytes;     /* new K and V in a cache: read and written */
    double part_bytes;      /* what parts write to be added up */
    double floor_us;        /* no kernel is faster */
    s2_kernel_load extents; /* only the fields that extents are made of */
} s2_peer_work;

/* One layer of a pattern, for `batch` sequences: the last q_tok of len_tok tokens. */
typedef struct s2_peer_launch {
    const s2_classes *classes;
    const s2_layer_class *layer;
    s2_pass pass;
    bool is_dense; /* every head reads all that it may */
    int64_t q_tok; /* below len_tok for dense layers only */
    int64_t len_tok;
    int64_t batch;
} s2_peer_launch;

/* S2_ENOMEM; S2_ELIMIT beyond classes->work_left. */
s2_status s2_peer_work_of(s2_arena *arena, const s2_peer_launch *launch, const s2_peer_cut *cut,
                          const s2_gpu *gpu, s2_peer_work *out) S2_MUST_CHECK;
/* What the SMs are busy for, in microseconds. */
double s2_peer_busy_us(const double constant[S2_N_PEER_CONSTANTS], const s2_peer_work *work);
/* Whether it is another than with a smaller constant[which]; may say so where it is not. */
bool s2_peer_busy_by(s2_peer_constant which, const double constant[S2_N_PEER_CONSTANTS],
                     const s2_peer_work *work);
/* The whole launch, in microseconds, where they are busy for busy_us; never below the floor. */
double s2_peer_us(const double constant[S2_N_PEER_CONSTANTS], const s2_peer_work *work, double busy_us);

/* The law for a pass and head dimension, for this kind of group if there is one; NULL: there is no law. */
const s2_peer_law *s2_peer_law_of(const s2_peer *peer, s2_pass pass, int32_t head_dim, int32_t n_group);

/* Whether every head of the phase reads all that it may. */
bool s2_peer_is_dense(const s2_pattern *pattern, s2_phase phase);

/* S2_EUNSUPPORTED with the reason in *diag where the model has no law for what would be priced. */
s2_status s2_peer_takes(const s2_peer *peer, const s2_pattern *pattern, s2_phase phase, bool train,
                        s2_diag *diag) S2_MUST_CHECK;

/* Price a launch that s2_peer_takes. S2_ENOMEM, S2_ELIMIT. scratch is rewound. */
s2_status s2_peer_price(s2_arena *scratch, const s2_peer *peer, const s2_peer_launch *launch,
                        const s2_gpu *gpu, s2_launch_price *out) S2_MUST_CHECK;

/* The model as a text file. S2_EPARSE with line and column in *diag, and *out untouched. */
void s2_peer_print(const s2_peer *peer, s2_buf *buf);
s2_status s2_peer_parse(const char *text, size_t n_bytes, s2_peer *out, s2_diag *diag) S2_MUST_CHECK;

/* A model built into the program (sim/peers/NAME.txt); S2_EINVAL. All names in order, NULL at the end. */
s2_status s2_peer_find(const char *name, s2_peer *out, s2_diag *diag) S2_MUST_CHECK;
const char *s2_peer_name(int32_t index);

#endif /* S2_SIM_PEER_H */
