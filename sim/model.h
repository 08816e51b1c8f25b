/*
 * sim/model.h - how long a launch takes: cycles of an exact schedule, bytes over rates, and the clock.
 *
 *     item   = a + n_full c + n_masked (c + m)               cycles of one SM, per head dimension
 *     C      = makespan(items in plan order, SMs x residents)
 *     M      = HBM bytes / rate,   L = L2 bytes / rate
 *     T      = t0 + (( C / f)^p + M^p + L^p)^(1/p) + tail / f
 *     f      = f_max min(1, (limit / (base + matrix + bytes per cycle))^q)    the power limit
 *
 * T depends on f and f on how busy T leaves the chip, so both are solved together. The constants are fitted
 * (calibrate/fit.h) on measurements of the kernels of this repository and stored in one text file per GPU
 * (sim/calibration.h).
 *
 * Threads: no state.
 */
#ifndef S2_SIM_MODEL_H
#define S2_SIM_MODEL_H

#include "sim/gpu.h"
#include "sim/load.h"

/* What one head dimension costs, in cycles. */
typedef struct s2_dim_cost {
    int32_t head_dim;
    double item;   /* change of items: ramp, epilogue; short windows: the whole item */
    double step;   /* a step without mask code */
    double masked; /* a step with it; halved: a half step; decode: a row of a list */
    double least;  /* least of an item whose rows come from device memory: its chain of latencies;
                      backward: a 64-row step of a column of keys, or a unit of a short window;
                      fused: 0, and the others are of columns */
} s2_dim_cost;

/* How a kernel wanted its plan cut when it was measured. */
typedef struct s2_cut {
    int32_t head_dim;
    bool even_group; /* an even number of query heads per KV head */
    int32_t tile_tok;
    int32_t key_tok;
    int32_t pack_heads;
    int64_t section_bytes;
} s2_cut;

/* Measures of a launch; their range over the launches that judged a kernel is kept. */
typedef enum s2_extent {
    S2_EXTENT_ROWS,
    S2_EXTENT_TOK,
    S2_EXTENT_LISTS,
    S2_EXTENT_DIM,
    S2_EXTENT_NEW,
    S2_N_EXTENTS
} s2_extent;
const char *s2_extent_words(s2_extent extent); /* "rows a list" */
const char *s2_cause_words(int32_t bit);       /* of error.causes: "tokens", "the type of the cache" */
double s2_extent_of(const s2_kernel_load *load, s2_extent extent);
typedef struct s2_span_of_points {
    double least, greatest; /* both 0: not known */
} s2_span_of_points;

/* Widen spans[S2_N_EXTENTS] to hold a launch. */
void s2_spans_note(const s2_kernel_load *load, s2_span_of_points *spans);

/* How far off predictions were, or may be. */
typedef struct s2_error {
    double pct;       /* mean over the points judged, or what is allowed for */
    double p90_pct;   /* nine in ten of them were within; 0: not known */
    double most_pct;  /* the largest; 0: not known */
    int32_t n_judged; /* points that were never fitted */
    bool allowed;     /* pct is an allowance: such launches were not among the points judged */
    uint32_t causes;  /* then: all that it allows for; the bit 1 << extent for each extent of s2_extent */
    int32_t n_passes; /* of as many kinds of launch each figure is the worst; 0, 1: of one */
} s2_error;
enum {
    S2_CAUSE_BLOCKS = 1 << S2_N_EXTENTS,       /* blocks that are not whole */
    S2_CAUSE_CACHE = 1 << (S2_N_EXTENTS + 1),  /* a cache of another type */
    S2_CAUSE_KERNEL = 1 << (S2_N_EXTENTS + 2), /* no kernel takes the pattern: scaled from the dense one */
    S2_CAUSE_SCORES = 1 << (S2_N_EXTENTS + 3), /* scores that are capped, or have sinks */
    S2_CAUSE_POINTS = 1 << (S2_N_EXTENTS + 4), /* no point judged the kernel */
    S2_CAUSE_CHUNK = 1 << (S2_N_EXTENTS + 5),  /* fewer queries than keys, where no such row was judged */
    S2_CAUSE_PLAN =
        1 << (S2_N_EXTENTS + 6), /* a plan that takes too long to make: scaled from the dense one */
    S2_N_CAUSES = S2_N_EXTENTS + 7
};
#define S2_ERROR_UNKNOWN_PCT 100.0 /* and above: an error that says nothing */

enum { S2_MODEL_DIMS = 8, S2_MODEL_CUTS = 16, S2_MODEL_KERNELS = 12 };

typedef struct s2_kernel_model {
    char name[S2_KERNEL_NAME];
    const s2_kernel_traits *traits; /* how it launches; NULL: not a kernel of this repository */
    s2_pass pass;
    int32_t rows;      /* that a tile must have; 0: any */
    bool padded;       /* moves whole steps and whole 64-column pieces */
    bool whole_blocks; /* accepts only patterns of whole key blocks */
    double hit;        /* share of `least` that is saved when its rows are in the cache */
    double residents;  /* items at a time on an SM */
    double warm_mb;    /* tensors up to this size are all cached when the same launch repeats */
    double lost_mb;    /* ... and none of them when they are larger by this much */
    double gather; /* keys read here and there take up to this many times their bytes of the cache; 0: once */
    double hbm_gb_s;  /* bandwidth that its accesses reach */
    double launch_us; /* t0 */
    double miss_us;   /* extra when the first rows come from device memory */
    double start;     /* extra cycles where any item has more than one step: nothing overlaps the first;
                          decode: for each trip of the warp that adds up most parts;
                          short windows: where all SMs read their first items at once */
    double sub;       /* cycles per step and 64 columns for each key block gathered beyond the second */
    double list;      /* cycles per step and 64 columns when lists come from memory */
    double mixed;     /* a full-width step with comparisons, in whole steps (plan/steps.h);
                          backward: a step that reads half of a column's keys;
                          decode: a slab of 9 to 16 rows, in slabs of up to 8; 0: as they are */
    double alone;     /* decode: replaces `residents` when each part has an SM to itself; 0: does not */
    double fine;      /* extra cycles of a step that compares with element masks from memory;
                          gradients in order: of a step whose rows do not begin with a line of the cache;
                          short windows: of an item, or a unit of gradients, that compares all of its keys */
    double more; /* ... and of each mask beyond one for a half step's keys: they are read one after another;
                    decode: of the whole chip for each block of the launch of its own that adds up parts;
                    short windows: of an item at the beginning of a sequence; gradients of these: of a position,
                    whose sums move on once for all sets of its heads */
    double
        column;  /* backward: cycles to change columns, per 64 columns of a head, or ranges of a short window;
                          decode: to go on to another list inside a part;
                          gradients in order: by which a column adds to a tile later than the one before it;
                          lists on the device: of an SM for each block that they might name */
    double part; /* backward: and to add a part to others, through memory;
                          decode: the launch of its own that adds up parts;
                          lists on the device: cycles of an SM to plan a block that they name;
                          gradients of short windows: of an SM to sum a row of O and dO, beside its bytes */
    double
        trip; /* decode: more cycles of a trip that adds up more than S2_DECODE_SHORT_TRIP parts, for 64 columns */
    double
        warp; /* decode: share of a slab's cycles that are its warp's own: of four slabs, which four warps take at
                    once, those of the first; what is left is of all of the part's slabs */
    double
        behind; /* forward on Hopper: added to `least` where an item is stored under the steps of the next, whose slot
                      is free only then; twice where a tile has rows of one head */
    double
        adding; /* decode: cycles of the whole chip for a KiB that parts leave, or that is fetched for sums */
    double
        crowd; /* decode: times `alone` where more than half of the SMs have a part, but not all: the next launch
                     then begins where two of its parts share an SM; 0: as alone */
    double join;  /* decode: cycles in which parts of a list find out that all of them are there */
    double early; /* forward: us that a launch begins before the last one ends, where that leaves SMs idle */
    double in_step; /* forward: extra cycles of an item whose two heads keep step */
    double first; /* forward on Hopper: cycles of an item for each block beyond the second that its first step
                       gathers, one copy after another: no products hide them yet */
    double
        ragged; /* short windows: the share by which items, or units of gradients, take longer where rows do not
                       fill whole sectors of 32 bytes */
    double amid; /* decode: the share that costs time of what lines of the cache have beside their rows */
    double draw; /* power of what it does beside products, in that of its products; 0: as the others */
    int32_t n_dims;
    s2_dim_cost dims[S2_MODEL_DIMS]; /* ascending head_dim */
    int32_t n_cuts;
    s2_cut cuts[S2_MODEL_CUTS];
    int32_t n_points; /* fitted, and their range */
    double least_us, most_us;
    double fit_pct;   /* mean absolute error on the points fitted */
    double error_pct; /* the same on points never fitted; 0: not judged */
    double p90_pct;
    double most_pct; /* the largest; 0: the file does not say */
    int32_t n_judged;
    s2_span_of_points spans[S2_N_EXTENTS]; /* of the points judged */
} s2_kernel_model;

typedef struct s2_time_model {
    double l2_gb_s;  /* at the highest clock */
    double cache_mb; /* a generation of items up to this size finds all that the one before read */
    double spill_mb; /* ... and from this size on, nothing */
    double whole_mb; /* the whole cache: what was written stays there in proportion */
    double power;    /* p of the sum of bottlenecks */
    double max_mhz;
    double clock_base; /* power at the limit, in units of a matrix unit busy all the time */
    double clock_q;
    double clock_fp16; /* power of a product in fp16 relative to bf16 */
    double clock_fp8;  /* the same of a product in e4m3 */
    double clock_l2;   /* of an L2 byte per cycle and SM */
    double clock_hbm;  /* of a device memory byte per cycle and SM */
    double clock_limit;
    double n_sms;
    double mma_flop;    /* per clock and SM */
    int32_t capability; /* compute capability of the GPU that the kernels were measured on */
    int32_t n_kernels;
    s2_kernel_model kernels[S2_MODEL_KERNELS];
} s2_time_model;

typedef struct s2_bytes {
    double dram_read;
    double dram_write;
    double l2;
} s2_bytes;

/* Whether the kernel plans lists that lie on the device in each launch, and takes nothing else. */
bool s2_model_plans_lists(const s2_kernel_model *kernel);
/* Whether it takes wide decode steps, of more than 16 rows a list, and nothing else. */
bool s2_model_is_wide(const s2_kernel_model *kernel);
/* Whether it takes short windows (sim/short.h), and nothing else. */
bool s2_model_is_short(const s2_kernel_model *kernel);
/* Whether it takes that alone, or what reads everything alone: there it is faster than kernels that take all. */
bool s2_model_is_apart(const s2_kernel_model *kernel);

/* The chip that launches are chosen for. */
s2_chip s2_model_chip(const s2_time_model *model);

/* Items of a plan that run at a time, for s2_load_of: per SM one of 128 rows or of a short window, or four others. */
int32_t s2_model_running(const s2_time_model *model, const s2_kernel_traits *traits, const s2_plan *plan);

/* Whose costs a head dimension has: kernels apart have one instance, which works on as many columns at each of them. */
int32_t s2_model_cost_dim(const s2_kernel_traits *traits, int32_t head_dim);

/* Bytes of one launch; cold: the cache holds nothing before it. */
s2_bytes s2_model_bytes(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                        bool cold);
/* As hardware counters see them: the profiler empties the cache before each kernel of the launch. */
s2_bytes s2_model_counted(const s2_time_model *model, const s2_kernel_model *kernel,
                          const s2_kernel_load *load);

typedef enum s2_limit { S2_LIMIT_COMPUTE, S2_LIMIT_HBM, S2_LIMIT_L2, S2_LIMIT_LAUNCH } s2_limit;

typedef struct s2_forecast {
    double us;
    double mhz;
    double cycles;      /* of the busiest SM, without t0 and what comes after */
    double tail_cycles; /* decode: what adds up the parts of lists, when all of them are there */
    double compute_us;  /* parts, each alone */
    double hbm_us;
    double l2_us;
    double launch_us;
    double before_us;    /* what everything else waits for: backward, sums of rows; the planning of lists */
    double before_bytes; /* of device memory for them */
    double imbalance;    /* busiest SM / mean */
    s2_limit by;
    s2_bytes bytes;
} s2_forecast;

/* cold: the cache holds nothing before it. mhz > 0 fixes the clock, else it is solved for. */
void s2_model_run(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                  bool cold, double mhz, s2_forecast *out);

/* The clock that the power limit leaves, when a launch of so many microseconds repeats at `mhz`. */
double s2_model_clock(const s2_time_model *model, const s2_kernel_model *kernel, const s2_kernel_load *load,
                      const s2_bytes *bytes, double us, double mhz);

#endif /* S2_SIM_MODEL_H */
