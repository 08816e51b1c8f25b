/*
 * tui/bench.h - the workbench's knobs, and what follows from a pattern: verdicts, KV cache, cost.
 *
 * Knobs are turned by s2_knobs_turn and written as a text of the pattern language; nothing else builds
 * a pattern here, so what is on screen is what the equivalent command reads.
 *
 * Facts are derived from a text and a question (context, GPU, phase); they are immutable once built.
 * Ownership: facts own an arena; release them. Threads: no state.
 */
#ifndef S2_TUI_BENCH_H
#define S2_TUI_BENCH_H

#include "coverage/prove.h"
#include "pattern/parse.h"
#include "pattern/view.h"
#include "sim/price.h"
#include "tui/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

/* field, label, what the help says */
#define S2_KNOB_TABLE(X)                                                                                     \
    X(LOCAL, "local", "window of every head, in blocks")                                                     \
    X(STRIDE, "stride", "one block in so many; 0: no stripes")                                               \
    X(PHASE, "phase", "where a head's stripes start: head, kv, +0 or +1")                                    \
    X(SINK, "sink", "first blocks that every query reads")                                                   \
    X(HEADS, "heads", "query heads")                                                                         \
    X(KV_HEADS, "kv-heads", "KV heads; divides heads")                                                       \
    X(BLOCK, "block", "tokens of a block")                                                                   \
    X(LAYERS, "layers", "layers")                                                                            \
    X(DENSE_LAYERS, "dense layers", "none, every second, every fourth, the first two")                       \
    X(DENSE_KV, "dense kv", "last KV heads that read everything")                                            \
    X(LEN, "context", "tokens that masks, KV cache and price are shown for")                                 \
    X(GPU, "gpu", "the GPU that prices")                                                                     \
    X(PRICE, "price", "prefill of the context, or decoding its last token")

typedef enum s2_knob {
#define S2_KNOB_ENUM(name, label, help) S2_KNOB_##name,
    S2_KNOB_TABLE(S2_KNOB_ENUM)
#undef S2_KNOB_ENUM
        S2_N_KNOBS
} s2_knob;

/* PHASE: 0 head, 1 head+1, 2 kv, 3 kv+1, 4 none. DENSE_LAYERS: 0 .. 3 in the order of the table. */
typedef struct s2_knobs {
    int64_t value[S2_N_KNOBS];
} s2_knobs;

/* Phi-3-small at 128k on an h200. */
s2_knobs s2_knobs_default(void);
const char *s2_knob_label(s2_knob knob);
const char *s2_knob_help(s2_knob knob);
/* One notch (by = +1, -1), or twice and half as much (+2, -2); stays in the legal range. */
void s2_knobs_turn(s2_knobs *knobs, s2_knob knob, int32_t by);
/* The value as a person reads it: "128k", "kv+1", "every 2nd". */
void s2_knob_print(const s2_knobs *knobs, s2_knob knob, s2_buf *buf);
/* The pattern, statements separated by `separator` ("\n" or "; "). */
void s2_knobs_text(const s2_knobs *knobs, const char *separator, s2_buf *buf);
/* The designs around: each knob of the pattern half, as it is and double, other phases; for s2 search. */
void s2_knobs_space(const s2_knobs *knobs, s2_buf *buf);
/* The knobs that say the same as this pattern; false when it is none of theirs. Question knobs stay. */
bool s2_knobs_of(const s2_pattern *pattern, s2_knobs *knobs);

typedef struct s2_question {
    int64_t len_tok;
    char gpu[40];
    bool decode;
} s2_question;
s2_question s2_knobs_question(const s2_knobs *knobs);
/* "--gpu h200 --len 128k --phase prefill": as commands ask it. */
void s2_question_print(const s2_question *question, s2_buf *buf);

/* What the simulator is asked, with the constants of the GPU or a guess of them in the arena. */
s2_status s2_question_options(const s2_question *question, s2_arena *arena, s2_sim_options *options,
                              s2_diag *diag) S2_MUST_CHECK;

enum { S2_KV_POINTS = 48, S2_N_VERDICTS = 3 };

/* What the kernels of this repository would take (docs/simulator.md); derived apart, it needs whole plans. */
typedef struct s2_expected {
    bool asked; /* the rest is final */
    bool known; /* false: nothing predicts it */
    double time_us;
    double dense_us;
    double error_pct; /* mean error of such predictions on points that were not fitted */
} s2_expected;

typedef struct s2_facts {
    s2_arena arena;
    int64_t serial; /* tells them from others of this session; 0: they are alone */
    s2_question question;
    s2_status status; /* of reading the text and deriving; S2_OK: everything below is there */
    s2_diag diag;
    s2_pattern pattern;
    char hash[S2_HASH_HEX];
    s2_finding findings[S2_N_VERDICTS]; /* rows, union, kv, for every length where that can be decided */
    int64_t kv_len[S2_KV_POINTS];
    int64_t kv_bytes[S2_KV_POINTS]; /* head pages after kv_len tokens, all layers */
    int64_t kv_dense[S2_KV_POINTS];
    bool cached;    /* kv_bytes and kv_dense are there */
    bool priced;    /* false: random lists or mask files at a length that takes too long */
    double time_us; /* lower bounds, as sim/price.h has them */
    double bound_us;
    double dense_us;
    double busy_us[S2_N_RESOURCES];
    s2_resource bound_by;
    double density;
    double token_density;
    double imbalance;
    s2_expected expected;
} s2_facts;

/* Always releasable; facts->status says how it went. */
void s2_facts_build(const char *text, size_t n_bytes, const s2_question *question, s2_facts *facts);
void s2_facts_release(s2_facts *facts);

/* From facts that are priced; asked is true afterwards. */
s2_expected s2_facts_expect(const s2_facts *facts);
/* The heads of one layer, n_heads of them in the arena; dynamic terms read what they certainly read. */
s2_status s2_facts_views(const s2_facts *facts, s2_arena *arena, int32_t layer,
                         const s2_view **views) S2_MUST_CHECK;
/* The mask of grid->key: fills its status and, where that is S2_OK, its cells, which s2_free() ends. */
void s2_facts_grid(const s2_facts *facts, s2_mask_image *grid);
/* The layer worth looking at: of the witness of a violated union, else the first whose heads differ. */
int32_t s2_facts_layer(const s2_facts *facts);

/* What would repair a violated union, as a sentence; appends nothing where none is known. */
void s2_facts_repair(const s2_facts *facts, s2_buf *buf);

/* "131072" as "128k". */
void s2_tok_print(int64_t n_tok, s2_buf *buf);

#ifdef __cplusplus
}
#endif
#endif /* S2_TUI_BENCH_H */
