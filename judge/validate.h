/*
 * judge/validate.h - does a kernel compute what the pattern says? Conviction, not hope.
 *
 * One run judges one kernel on one layer of one pattern, in this order; the first failure ends it:
 *   touch      Q = 0 makes every weight 1/n, and V holds powers of two, so that the output decodes to the
 *              exact set of keys that each row read; compared with pattern/dense.h, no tolerance
 *              (docs/numerics.md)
 *   numerics   random data against fp64 on sampled rows; outputs filled with NaN before, guard bands and rows
 *              outside the plan checked after, keys that no row may read poisoned; twice, bit for bit
 *   batch      the same sequence alone and among others, bit for bit; the others are judged like any run
 *   needles    a planted key at each depth of each length must come back through some head, exactly where the
 *              pattern says so
 *   cases      fewer queries than keys, different lengths, large and very negative scores: touch and numerics
 *   time       timed runs after warm-up, with a warm and with a cold cache; the dense pattern of the same
 *              shapes for comparison
 * The phase decides which of these stages it has (judge/workload.h).
 * Nothing here prints. Threads: one validation, one thread, one device.
 */
#ifndef S2_JUDGE_VALIDATE_H
#define S2_JUDGE_VALIDATE_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* value, word. Values are stable. */
#define S2_OUTCOME_TABLE(X)                                                                                  \
    X(S2_OUTCOME_OK, "ok")                                                                                   \
    X(S2_OUTCOME_WRONG_PAIRS, "wrong_pairs")                                                                 \
    X(S2_OUTCOME_WRONG_VALUES, "wrong_values")                                                               \
    X(S2_OUTCOME_NAN, "nan")                                                                                 \
    X(S2_OUTCOME_OUT_OF_BOUNDS, "out_of_bounds")                                                             \
    X(S2_OUTCOME_LAUNCH_FAILED, "launch_failed")                                                             \
    X(S2_OUTCOME_TIMEOUT, "timeout")                                                                         \
    X(S2_OUTCOME_OUT_OF_MEMORY, "out_of_memory")                                                             \
    X(S2_OUTCOME_UNSUPPORTED, "unsupported")                                                                 \
    X(S2_OUTCOME_BAD_REPLY, "bad_reply")                                                                     \
    X(S2_OUTCOME_WRONG_SHAPE, "wrong_shape")                                                                 \
    X(S2_OUTCOME_NOT_REPEATABLE, "not_repeatable")
typedef enum s2_outcome {
#define S2_OUTCOME_ENUM(name, word) name,
    S2_OUTCOME_TABLE(S2_OUTCOME_ENUM)
#undef S2_OUTCOME_ENUM
        S2_N_OUTCOMES
} s2_outcome;
const char *s2_outcome_word(s2_outcome outcome);
/* What a status means for the kernel: a machine that fails is an outcome too. */
s2_outcome s2_outcome_of(s2_status status);

/* A stage runs unless an earlier one convicted. Its status covers memory and device; *out has the verdict. */
#define S2_STAGE(out, stage)                                                                                 \
    do {                                                                                                     \
        if ((out)->outcome == S2_OUTCOME_OK)                                                                 \
            S2_TRY(stage);                                                                                   \
    } while (0)

enum { S2_NEEDLE_DEPTHS = 11, S2_NEEDLE_LENGTHS = 8, S2_LIMIT_SAMPLES = 64, S2_LIMIT_FIGURES = 16 };

typedef enum s2_needle {
    S2_NEEDLE_NONE,    /* not measured */
    S2_NEEDLE_FOUND,   /* read, as the pattern says */
    S2_NEEDLE_UNSEEN,  /* no head reads it, as the pattern says */
    S2_NEEDLE_MISSING, /* the pattern says that some head reads it, but none brought it */
    S2_NEEDLE_EXTRA    /* brought by a head that may not read it */
} s2_needle;

/* A sequence alone and as one of three, bit for bit. */
typedef enum s2_batch_verdict { S2_BATCH_UNKNOWN, S2_BATCH_SAME, S2_BATCH_DIFFERS } s2_batch_verdict;

/*
 * What is judged beside the shape that was asked for (judge/cases.h): word, what it is, what a fault in it alone means.
 */
#define S2_CASE_TABLE(X)                                                                                     \
    X(S2_CASE_BATCH, "batch", "three sequences", "right alone, wrong beside others: see `seq` of a tensor")  \
    X(S2_CASE_CHUNK, "chunk", "fewer queries than keys",                                                     \
      "right with as many queries as keys: see where the first query stands")                                \
    X(S2_CASE_LENGTHS, "lengths", "sequences of different lengths",                                          \
      "right where all are equally long: see `q_begin` and `k_begin`")                                       \
    X(S2_CASE_MIXED, "mixed", "different lengths with fewer queries than keys",                              \
      "right where either is so alone: see where the queries of each sequence stand")                        \
    X(S2_CASE_HIGH, "high", "scores near 120",                                                               \
      "right for scores near 0: subtract the largest score of a row before exp()")                           \
    X(S2_CASE_LOW, "low", "scores near -120",                                                                \
      "right for scores near 0: the largest score of a row may be far below 0")
typedef enum s2_case_kind {
#define S2_CASE_ENUM(name, word, what, look) name,
    S2_CASE_TABLE(S2_CASE_ENUM)
#undef S2_CASE_ENUM
        S2_N_CASES
} s2_case_kind;
const char *s2_case_word(s2_case_kind which);

typedef enum s2_case_state {
    S2_CASE_NONE,   /* it does not apply */
    S2_CASE_JUDGED, /* right, unless the verdict names it */
    S2_CASE_REFUSED /* unsupported, or no memory for it */
} s2_case_state;

/* What to judge. Start from s2_validate_request_init(). */
typedef struct s2_validate_request {
    const s2_pattern *pattern;
    s2_phase phase;
    int32_t layer;
    s2_pass pass;
    const s2_plan_seq *seqs;
    int32_t n_seqs;
    s2_dtype dtype;
    bool e4m3;               /* DECODING: K and V are e4m3, with scales that tell heads apart */
    const s2_kernel *kernel; /* NULL: the best that supports the problem */
    uint64_t seed;
    float spread;          /* factor on Q: 0 makes all scores equal, 8 makes one key dominate; 1 */
    float scale;           /* of the scores; 0: 1 / sqrt(D) */
    float cap;             /* of the scores: cap * tanh(score / cap); 0: none */
    bool sinks;            /* one sink logit per head; drawn where values are judged, else minus infinity */
    bool padded;           /* tokens are apart in memory, not back to back */
    bool head_major;       /* [head][token][d], not [token][head][d] */
    double budget_flop;    /* of one run; beyond it tiles are sampled. 0: run everything */
    int64_t budget_pairs;  /* most (query, key) pairs that the touch probe compares */
    double touch_limit_ms; /* for all its runs; beyond it windows are sampled. 0: none */
    int32_t max_windows;   /* runs of the touch probe, which each see some hundred keys; 0: all */
    bool few_heads;        /* look at four heads only, scan and poison nothing: for large problems */
    bool needles;
    bool cases;             /* judge other shapes and ranges of scores too (judge/cases.h) */
    float shift;            /* added to every score of random data; not in e4m3 */
    int32_t n_timed;        /* timed runs wanted; 0: none */
    bool dense_beside;      /* time the dense pattern of the same shapes too */
    int32_t n_steps;        /* DECODING: tokens generated one by one after the prefill; 0: none */
    s2_cache_layout layout; /* DECODING: the layout of the cache that they go into */
    int32_t page_tok;       /* ... 0: its default */
    /* ... somebody else's count of the layer's K and V bytes after n_tok tokens; NULL: nothing is compared */
    int64_t (*cache_bytes)(void *user, int64_t n_tok);
    s2_device *beside;    /* where our own kernel is timed too, next to somebody else's; NULL: not */
    double time_limit_ms; /* a run expected to take longer is not timed */
    void (*progress)(void *user, const char *stage, int32_t done, int32_t all); /* may be NULL */
    void *user;
} s2_validate_request;
s2_validate_request s2_validate_request_init(const s2_device *device, const s2_pattern *pattern,
                                             const s2_plan_seq *seqs, int32_t n_seqs);

/* The order statistics of repeated runs, in milliseconds of a launch. */
typedef struct s2_times {
    int32_t n; /* 0: not measured */
    int64_t
        n_each; /* a run is so many launches, replayed one after the other (judge/train.h), or a single one */
    double median_ms;
    double min_ms;
    double max_ms;
    double p95_ms;
} s2_times;

/* What a phase measures beyond the common fields. */
typedef struct s2_figure {
    char name[32]; /* one word, lower case */
    double value;
} s2_figure;

typedef struct s2_validation {
    s2_outcome outcome;
    char reason[240];   /* where and what, if the outcome is not ok */
    char symptom[240];  /* for a wrong forward: the rule that would explain it; "" when none does */
    char left_out[240]; /* which part of the phase was not judged, and why; "" when all was */
    const char *kernel; /* its name; "" when none was found */
    char versions[200]; /* of what somebody else's kernel runs on; "" for our own */
    s2_plan_counts counts;
    int32_t n_items; /* work items of the layer, and how many of them were run */
    int32_t n_items_run;
    int64_t touch_pairs;
    int64_t touch_wrong;
    bool touch_exhaustive; /* every pair of the layer was compared; else touch_wrong is the least there are */
    bool has_wrong_pair;   /* then a pair that contradicts the pattern, read alone too, is: */
    int32_t wrong_head;
    int64_t wrong_q_tok; /* position among the keys */
    int64_t wrong_k_tok;
    int64_t rows;   /* compared with fp64 */
    double max_err; /* of the output, absolute */
    double tol;     /* tolerance of the row with that error */
    double lse_err; /* NaN: no LSE was compared */
    s2_batch_verdict batch;
    int64_t batch_q_tok; /* for S2_BATCH_DIFFERS: the first query and head */
    int32_t batch_head;
    uint8_t cases[S2_N_CASES]; /* s2_case_state */
    char refused[160];         /* why the first case that was refused was; "" */
    int32_t n_lengths;
    int32_t needle_len[S2_NEEDLE_LENGTHS];
    uint8_t needle[S2_NEEDLE_LENGTHS][S2_NEEDLE_DEPTHS]; /* s2_needle; depth 0 is the first key */
    int64_t needle_cells;
    int64_t needle_found;
    int64_t needle_expected;
    double expected_ms;                /* of one launch, from the checks; 0 unknown */
    double flop_useful;                /* of one launch: visible pairs only */
    double flop_executed;              /* ... whole tiles */
    double bytes_useful;               /* ... that any kernel must move; 0: not counted */
    float sample_ms[S2_LIMIT_SAMPLES]; /* of `warm`, in order */
    s2_times warm;                     /* one launch after the other on the same data */
    s2_times cold;                     /* the last-level cache evicted before each */
    s2_times dense;                    /* warm, the dense pattern of the same shapes */
    const char *dense_kernel;          /* "" without one */
    char dense_wrong[240];   /* why somebody else's kernel was not timed on it: wrong there; or "" */
    s2_times ours;           /* warm, our own kernel next to somebody else's */
    const char *ours_kernel; /* "" without one */
    double sm_mhz;           /* right after the warm runs; 0 unknown */
    s2_sensors sensors;      /* during the warm runs */
    int32_t n_figures;
    s2_figure figures[S2_LIMIT_FIGURES];
} s2_validation;

/*
 * Judge. S2_OK with *out filled whatever the verdict; other statuses are only for requests that make no sense
 * (S2_EINVAL) and for host memory (S2_ENOMEM). A device that runs out of memory or faults is an outcome.
 */
s2_status s2_validate(s2_device *device, const s2_validate_request *request,
                      s2_validation *out) S2_MUST_CHECK;

/*
 * Time request->n_timed runs (S2_LIMIT_SAMPLES at most), warm, and judge nothing. out->n == 0: the kernel gives
 * no times. Statuses are those of the device and the kernel, with an s2_outcome as why->code where one says more.
 */
s2_status s2_validate_times(s2_device *device, const s2_validate_request *request, s2_times *out,
                            s2_diag *why) S2_MUST_CHECK;

/*
 * For a profiler: set up, launch once unprofiled and once between s2_device_ops.profile(true) and (false).
 * Nothing is judged or timed.
 */
s2_status s2_validate_launch(s2_device *device, const s2_validate_request *request,
                             s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_JUDGE_VALIDATE_H */
