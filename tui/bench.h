/*
 * tui/bench.h - the workbench's knobs, and what follows from a pattern: verdicts, KV cache, cost.
 *
 * s2_knobs_turn turns the knobs and s2_knobs_text writes them in the pattern language; nothing else builds
 * a pattern here, so the screen shows what the equivalent command reads.
 *
 * Facts are derived from a text and a question (context, GPU, phase); they are immutable once built.
 * Ownership: facts own an arena; release them. Threads: no state.
 */
#ifndef S2_TUI_BENCH_H
#define S2_TUI_BENCH_H

#include "coverage/prove.h"
#include "pattern/parse.h"
#include "pattern/view.h"
#include "reach/hops.h"
#include "sim/price.h"
#include "tui/grid.h"

/* field, label, what the help says */
#define S2_KNOB_TABLE(X)                                                                                     \
    X(LOCAL, "local", "window of every head, in blocks")                                                     \
    X(STRIDE, "stride", "one block in this many; 0: no stripes")                                             \
    X(PHASE, "phase", "where a head's stripes start: head, kv, +0 or +1")                                    \
    X(SINK, "sink", "first blocks that every query reads")                                                   \
    X(HEADS, "heads", "query heads")                                                                         \
    X(KV_HEADS, "kv-heads", "KV heads; divides heads")                                                       \
    X(BLOCK, "block", "tokens of a block")                                                                   \
    X(HEAD_DIM, "head dim", "numbers of a key and of a value")                                               \
    X(LAYERS, "layers", "layers")                                                                            \
    X(DENSE_LAYERS, "dense layers", "none, every second, every fourth, the first two")                       \
    X(DENSE_KV, "dense kv", "last KV heads that read everything")                                            \
    X(LEN, "context", "tokens that masks, KV cache and price are shown for")                                 \
    X(BATCH, "batch", "sequences at once")                                                                   \
    X(DTYPE, "type", "what Q, K and V are stored in")                                                        \
    X(CACHE, "cache type", "what the KV cache is stored in; as-dtype: as Q, K and V")                        \
    X(GPU, "gpu", "the GPU that prices")                                                                     \
    X(PRICE, "price", "prefill, a decoded token, a training step; device-lists: blocks chosen at run time")

typedef enum s2_knob {
#define S2_KNOB_ENUM(name, label, help) S2_KNOB_##name,
    S2_KNOB_TABLE(S2_KNOB_ENUM)
#undef S2_KNOB_ENUM
        S2_N_KNOBS
} s2_knob;

/*
 * PHASE: 0 head, 1 head+1, 2 kv, 3 kv+1, 4 none. DENSE_LAYERS: 0 .. 3 in the order of the table. DTYPE: 0
 * bf16, 1 fp16, 2 fp8. CACHE: an s2_cache_type. PRICE: 0 prefill, 1 decode, 2 train, 3 device-lists. DENSE_KV above
 * KV_HEADS stands for all KV heads, and for more once there are more.
 */
typedef struct s2_knobs {
    int64_t value[S2_N_KNOBS];
} s2_knobs;

/* Phi-3-small at 128k on an h200. */
s2_knobs s2_knobs_default(void);
const char *s2_knob_label(s2_knob knob);
const char *s2_knob_help(s2_knob knob);
/*
 * Turn by one notch (by = +1, -1), double (+2) or halve (-2). A knob at the end of its range stays there and
 * no knob moves another, so every turn is undone by its opposite, except for halving an odd number.
 */
void s2_knobs_turn(s2_knobs *knobs, s2_knob knob, int32_t by);
/* Set the value from words ("128k", "kv+1"); false, changing nothing, if the knob has no such value. */
bool s2_knob_set(s2_knobs *knobs, s2_knob knob, const char *words);
/* The values that it accepts, for people: "1 to 4096", "prefill, decode, train". */
void s2_knob_print_range(const s2_knobs *knobs, s2_knob knob, s2_buf *buf);
/* The value as a person reads it: "128k", "kv+1", "every 2nd". */
void s2_knob_print(const s2_knobs *knobs, s2_knob knob, s2_buf *buf);
/* The pattern, statements separated by `separator` ("\n" or "; "). */
void s2_knobs_text(const s2_knobs *knobs, const char *separator, s2_buf *buf);
/* The designs around these knobs, for s2 search: values halved, kept and doubled, other phases. */
void s2_knobs_space(const s2_knobs *knobs, s2_buf *buf);
/* The knobs that express this pattern; false if no setting does. The question's knobs do not change. */
bool s2_knobs_of(const s2_pattern *pattern, s2_knobs *knobs);

typedef struct s2_question {
    int64_t len_tok;
    char gpu[40];
    s2_phase phase;
    s2_dtype dtype;
    s2_cache_type cache;
    int32_t batch;
    bool listed; /* s2_sim_choose_blocks() */
} s2_question;
/* Prefill of so many tokens on an h200, one sequence, bf16. */
s2_question s2_question_default(int64_t len_tok);
s2_question s2_knobs_question(const s2_knobs *knobs);
/* "--gpu h200 --len 128k --phase prefill": the question as options of a command. */
void s2_question_print(const s2_question *question, s2_buf *buf);
/* "decode 32k x 8 on h200, cache e4m3": what a price is of, for people. */
void s2_question_tell(const s2_question *question, s2_buf *buf);
bool s2_question_is(const s2_question *a, const s2_question *b);

/* The question as options for the simulator; the model that the pattern names, and the GPU's calibration, or a guess
 * at it, are in the arena. */
s2_status s2_question_options(const s2_question *question, const s2_pattern *pattern, s2_arena *arena,
                              s2_sim_options *options, s2_diag *diag) S2_MUST_CHECK;

enum { S2_KV_POINTS = 48, S2_N_VERDICTS = 3 };

/* How long the kernels of this repository would take (docs/simulator.md). */
typedef struct s2_expected {
    bool known;   /* false: nothing predicts it */
    bool guessed; /* the GPU's constants are of its data sheet */
    bool sized;   /* no_ratio is known: the memory that each side takes was counted */
    s2_no_ratio no_ratio;
    double time_us;
    double dense_us;
    double plan_us; /* sized: bounds, of what is read over the host's link too */
    double bound_us;
    s2_error error;
    s2_resource bound_by;
} s2_expected;

/* The figures by which designs are compared. */
typedef struct s2_tally {
    bool there;
    s2_question question;
    bool cached;
    bool priced;
    bool expected; /* expected_us is known */
    bool judged;   /* recall and loss are known (docs/worth.md) */
    char hash[S2_HASH_HEX];
    double time_us; /* lower bound */
    double expected_us;
    double kv_bytes;
    double unread; /* share of the pairs that a head could read but does not, mean over heads and layers */
    double recall;
    double loss;
} s2_tally;

/* A proved repair and its cost. */
typedef struct s2_offer {
    const char *change;
    const char *words;
    const char *text; /* the pattern on one line */
    s2_tally tally;
} s2_offer;

/* After a layer and all layers before it: the share of its visible keys that a query knows. */
typedef struct s2_known {
    double last;  /* the last query */
    double least; /* the query that knows the least */
} s2_known;

enum { S2_OFFERS = 8 };

/* The facts that take longer than a frame, derived where nobody waits. */
typedef struct s2_late {
    s2_arena arena;
    bool asked;       /* the rest is final */
    s2_status status; /* S2_ENOMEM: a part of the rest is missing for want of memory */
    s2_expected expected;
    int32_t n_offers;
    s2_offer offers[S2_OFFERS];
    const s2_known *reach; /* [n_layers], in a context of reach_tok; NULL: it could not be followed */
    int64_t reach_tok;
    int32_t hops;           /* layers until every key has reached every later query; 0: more than there are */
    const char *not_judged; /* why there is no worth; NULL: it is in recall and loss */
    double recall;
    double loss;
} s2_late;

/* What `s2 reach` says, derived where nobody waits, for the view that shows it. */
typedef struct s2_followed {
    s2_arena arena;
    bool asked;               /* the rest is final */
    s2_status status;         /* S2_OK: everything below is set; S2_ELIMIT: too large to follow */
    int64_t n_tok;            /* followed: the question's context, or its beginning where that is long */
    const char *page;         /* lines */
    const s2_known *known;    /* [n_layers] */
    int32_t n_octaves;        /* of distance (reach/stack.h): */
    double heads[S2_OCTAVES]; /* that read a pair, mean */
    double least_heads[S2_OCTAVES]; /* of the pair with the least */
    double flow[S2_OCTAVES];        /* to the last query, relative to dense */
} s2_followed;

typedef struct s2_facts {
    s2_arena arena;
    int64_t serial; /* identifies them in their session; 0: they belong to none */
    s2_question question;
    s2_status status; /* of reading the text and deriving; S2_OK: everything below is set */
    s2_diag diag;
    s2_pattern pattern;
    char hash[S2_HASH_HEX];
    s2_finding findings[S2_N_VERDICTS]; /* rows, union, kv, for every length where that can be decided */
    int64_t kv_len[S2_KV_POINTS];
    int64_t kv_bytes[S2_KV_POINTS]; /* head pages after kv_len tokens, all layers */
    int64_t kv_dense[S2_KV_POINTS];
    bool cached; /* kv_bytes and kv_dense are set; not in training, which keeps no cache */
    bool priced;
    bool slow;      /* random lists or mask files at a length that takes too long to price here */
    double time_us; /* lower bounds, as in sim/price.h */
    double bound_us;
    double dense_us;
    double busy_us[S2_N_RESOURCES];
    s2_resource bound_by;
    double density;          /* of the layers that are not dense */
    int32_t n_sparse_layers; /* how many these are */
    double token_density;
    double imbalance;
    s2_late late;
    s2_followed followed;
} s2_facts;

/* The facts can always be released; facts->status says how it went. */
void s2_facts_build(const char *text, size_t n_bytes, const s2_question *question, s2_facts *facts);
void s2_facts_release(s2_facts *facts);

/* From facts whose status is S2_OK; asked is true afterwards. */
void s2_facts_late(const s2_facts *facts, s2_late *out);
/* The same for what `s2 reach` says; a long context is followed only at its beginning. */
void s2_facts_follow(const s2_facts *facts, s2_followed *out);
/* What queries know after a layer. */
s2_known s2_known_after(const s2_stack *stack, const s2_hops *hops, int32_t layer);
s2_tally s2_facts_tally(const s2_facts *facts);
/* "0.1386", and " 16 dense" where so many layers are left out of it. */
s2_figure_text s2_facts_density(const s2_facts *facts, int32_t digits);
/* The plan's time at peak rates: of what is read over the host's link too, once the late facts tell. */
double s2_facts_plan_us(const s2_facts *facts);
/*
 * Dense attention's time / the pattern's, predicted or else of bounds: "1.44x", or why the two do not divide, as in a
 * table of s2 sim. Nothing before the late facts, which count the memory that each takes.
 */
s2_figure_text s2_facts_ratio(const s2_facts *facts, bool predicted);
/* The n_heads heads of one layer, in the arena; dynamic terms count only what they certainly read. */
s2_status s2_facts_views(const s2_facts *facts, s2_arena *arena, int32_t layer,
                         const s2_view **views) S2_MUST_CHECK;
/* Compute the mask of grid->key: its status and, on S2_OK, its cells, which the caller must s2_free(). */
void s2_facts_grid(const s2_facts *facts, s2_mask_image *grid);
/* The layer worth looking at: that of a violation's witness, else the first with a head that is not dense. */
int32_t s2_facts_layer(const s2_facts *facts);

#endif /* S2_TUI_BENCH_H */
