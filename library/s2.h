/*
 * s2.h - sparse attention patterns from C: read, prove, price, run, and hold keys and values while needed.
 *
 * The only public header of libs2. Example: docs/library.md. Flags: `pkg-config --cflags --libs s2`.
 *
 * Results:   functions return an s2_api_code: S2_API_OK, or a negative code on failure; then outputs are
 *            untouched and *why, if not NULL, says what failed. A verdict is not a failure:
 *            s2_api_pattern_check() returns S2_API_OK and reports what it found.
 * Ownership: the caller owns an object from opening it until closing it; closing NULL does nothing. Texts are
 *            released with s2_api_text_free(). A plan or cache keeps its pattern alive, so that the pattern
 *            may be closed first.
 * Threads:   any number of threads may use a pattern. A device, plan or cache belongs to one thread at a
 *            time. The library has no state of its own: threads that use different objects never affect
 *            each other.
 * Versions:  structures that begin with their own size have it set by the caller, to what the caller's compiler
 *            knew, also those that the library fills. Later versions only append to them, and a library refuses
 *            one that is larger than its own; the soname changes when anything else does.
 */
#ifndef S2_LIBRARY_S2_H
#define S2_LIBRARY_S2_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define S2_API __attribute__((visibility("default")))
#else
#define S2_API
#endif

typedef enum s2_api_code {
    S2_API_OK = 0,
    S2_API_ARGUMENT = -1,    /* an argument is outside the range stated here */
    S2_API_MEMORY = -2,      /* no memory, or a cache whose pages are all in use */
    S2_API_REFUSED = -3,     /* an input is refused: line and column say where */
    S2_API_LIMIT = -4,       /* a stated limit of work was hit first */
    S2_API_UNSUPPORTED = -5, /* not possible here: why gives the reason */
    S2_API_FILE = -6,        /* a file could not be read or written */
    S2_API_GPU = -8,         /* the GPU reported an error */
    S2_API_INTERNAL = -9     /* two computations of the same fact disagree: a bug in the library */
} s2_api_code;

/* Describes a failure: the message is one line, safe to print on a terminal. */
typedef struct s2_api_error {
    int32_t code;
    int32_t line; /* counts from 1; 0: unknown */
    int32_t column;
    char message[240];
} s2_api_error;

/* A text that the library allocated; data[size] is zero. */
typedef struct s2_api_text {
    char *data;
    size_t size;
} s2_api_text;
S2_API void s2_api_text_free(s2_api_text *text);

/* The version of this interface: 1000 times the soname's number, plus one for each addition since. */
#define S2_API_VERSION 1007
/* S2_API_VERSION of the library that is linked, which may be newer than this header. */
S2_API int32_t s2_api_version(void);

/* ------------------------------------------------------------------ patterns */

typedef struct s2_api_pattern s2_api_pattern;

/*
 * Parse a text in the language of docs/pattern-language.md or in any format that `s2 import` reads. `format`
 * names it, S2_API_ARGUMENT if nobody knows that name; NULL detects it from the content. `path` is the file that
 * the text came from, or NULL; files that the text names (masks, tables) are looked up next to it. A text without
 * a path must not name files, and where its format is not named either, it is in the language unless it begins
 * with '{' or '['.
 */
S2_API int s2_api_pattern_open(const char *text, size_t size, const char *path, const char *format,
                               s2_api_pattern **out, s2_api_error *why);
/*
 * Where a pattern is read from; members that are zero are not given. Without a text it is that of the file `path`,
 * or in a folder of what s2_api_pattern_write put there, or of a config.json. A setting is "KEY=VALUE": what the
 * format leaves unsaid, as `s2 import --set` takes it.
 */
typedef struct s2_api_source {
    uint32_t size; /* of this structure */
    const char *text;
    size_t text_size;
    const char *path;
    const char *format;
    const char *const *settings;
    int32_t n_settings;
} s2_api_source;
/* The same with settings, or of a file: one of at most 64 MiB, or a pipe, which is waited for 10 seconds. */
S2_API int s2_api_pattern_read(const s2_api_source *source, s2_api_pattern **out, s2_api_error *why);
S2_API void s2_api_pattern_close(s2_api_pattern *pattern);

typedef struct s2_api_shape {
    uint32_t size; /* of this structure */
    int32_t layers;
    int32_t heads;
    int32_t kv_heads; /* of layers that state no number of their own */
    int32_t head_dim; /* likewise */
    int32_t block;    /* tokens */
    int32_t causal;
    int32_t has_phases; /* prefill and decoding read different pairs */
    int64_t limit_tok;  /* tokens that its mask files cover; 0: any number */
    char hash[65];      /* hash of the canonical text */
    char name[201];
} s2_api_shape;
S2_API int s2_api_pattern_shape(const s2_api_pattern *pattern, s2_api_shape *shape, s2_api_error *why);

/* The canonical text; it reads as the same pattern. */
S2_API int s2_api_pattern_text(const s2_api_pattern *pattern, s2_api_text *out, s2_api_error *why);
/* What the imported format left unsaid, one sentence per line; empty for a text in the language. */
S2_API int s2_api_pattern_notes(const s2_api_pattern *pattern, s2_api_text *out, s2_api_error *why);

typedef enum s2_api_phase { S2_API_PREFILL, S2_API_DECODE } s2_api_phase;

/*
 * out[query - query_begin][key] is one byte per pair: 1 where query head `head` reads the key, for keys 0 to
 * context_tok (exclusive), so (query_end - query_begin) * context_tok bytes of the caller's. Evaluates the
 * definition of every term directly. Terms that choose keys at run time read nothing.
 */
S2_API int s2_api_pattern_mask(const s2_api_pattern *pattern, s2_api_phase phase, int32_t layer, int32_t head,
                               int64_t context_tok, int64_t query_begin, int64_t query_end, uint8_t *out,
                               s2_api_error *why);

/*
 * Sets kind_of[layer] for every layer: the lowest layer whose heads read the same in this phase. Such layers
 * share plans.
 */
S2_API int s2_api_pattern_kinds(const s2_api_pattern *pattern, s2_api_phase phase, int32_t *kind_of,
                                s2_api_error *why);

/*
 * The share of GPU `rank` out of `ranks`, as a pattern of its own: layers [layer_begin, layer_end), with an
 * equal number of KV heads per GPU and their query heads. order[layer - layer_begin] lists each layer's KV
 * heads in the order in which they are dealt out, in `ranks` equal runs; NULL: numerical order. With fewer KV
 * heads than ranks, each KV head is on several GPUs, which split its query heads. S2_API_UNSUPPORTED for
 * layers of different shapes, masks and random lists.
 */
S2_API int s2_api_pattern_share(const s2_api_pattern *pattern, int32_t ranks, int32_t rank,
                                int32_t layer_begin, int32_t layer_end, const int32_t *order,
                                s2_api_pattern **out, s2_api_error *why);

typedef enum s2_api_verdict { S2_API_HOLDS, S2_API_VIOLATED, S2_API_UNKNOWN } s2_api_verdict;
/*
 * Decide properties ("rows,union,kv,ranks:2"; `s2 explain` lists them all) for contexts of up to context_tok
 * tokens; 0: of every length. *verdict covers all of them; json, if not NULL, receives the s2check/1 object
 * of docs/json.md.
 */
S2_API int s2_api_pattern_check(const s2_api_pattern *pattern, const char *properties, int64_t context_tok,
                                s2_api_verdict *verdict, s2_api_text *json, s2_api_error *why);

typedef enum s2_api_dtype { S2_API_F32, S2_API_BF16, S2_API_F16 } s2_api_dtype;

typedef struct s2_api_price_options {
    uint32_t size;   /* of this structure */
    const char *gpu; /* "h200", ...; NULL: h200 */
    const char
        *net; /* the model around attention, as in `s2 sim --model`; NULL: what the pattern names, if any */
    int32_t phase;        /* 0 prefill, 1 decoding, 2 training */
    int32_t dtype;        /* s2_api_dtype; of F32 there are bounds alone: nothing of it was measured */
    int64_t context_tok;  /* 1 to 2^24 */
    int64_t batch;        /* sequences, 1 to 65536 */
    int32_t page_tok;     /* of the cache, 1 to 65536 */
    int32_t ranks;        /* tensor-parallel GPUs, 1 to 4096 */
    int32_t device_lists; /* not 0: as `s2 sim --device-lists`, blocks are chosen at run time; prefill */
} s2_api_price_options;

/* What error_pct of a price is. */
typedef enum s2_api_error_is {
    S2_API_ERROR_UNKNOWN, /* error_pct is no number: the time is a bound, or far from all that was measured */
    S2_API_ERROR_MEAN,    /* the mean error on points that were measured and not fitted */
    S2_API_ERROR_ALLOWANCE /* so much is allowed for, since no error was measured */
} s2_api_error_is;

/* docs/simulator.md explains these figures; times are in microseconds. */
typedef struct s2_api_price {
    uint32_t size;     /* of this structure */
    int32_t predicted; /* not 0: time_us is a prediction; 0: a bound */
    int32_t measured;  /* not 0: the constants were measured on this GPU; 0: guessed */
    double time_us;    /* attention of all layers */
    double bound_us;   /* no kernel can be faster */
    double dense_time_us;
    double error_pct;     /* how far off time_us may be; error_is says in what sense */
    double end_to_end_us; /* 0 without a model around attention */
    double dense_end_to_end_us;
    double density; /* pairs read, as a fraction of those that a dense pattern reads */
    int64_t pairs;
    int64_t
        kv_bytes; /* in pages per KV head, as this library's cache holds them by default; device_lists: all */
    int64_t kv_used_bytes;  /* of the keys that are kept, without what is unused of their pages */
    int64_t kv_dense_bytes; /* of all keys */
    /* Sequences that fit beside the weights; 65536: or more; to train without a model: 0. */
    int64_t fit_batch;
    int64_t dense_fit_batch;
    int32_t error_is; /* s2_api_error_is */
} s2_api_price;
S2_API int s2_api_pattern_price(const s2_api_pattern *pattern, const s2_api_price_options *options,
                                s2_api_price *price, s2_api_error *why);

/*
 * Write the text in the language ("s2") to the file `path`; or a format that `s2 export` knows, to that file, or
 * into the directory `path` if the format has several files or the directory exists. What is foreign is first read
 * back and compared; S2_API_UNSUPPORTED when it would not read the same pairs. context_tok, 1 to 2^24, is for
 * formats of a fixed length. notes, if not NULL, receives what the format leaves unsaid.
 */
S2_API int s2_api_pattern_write(const s2_api_pattern *pattern, const char *format, int64_t context_tok,
                                const char *path, s2_api_text *notes, s2_api_error *why);

/* One line per format, separated by tabs: name; "read", "write" or "read write"; summary. */
S2_API int s2_api_formats(s2_api_text *out, s2_api_error *why);

/* ------------------------------------------------------------------ the cache that evicts */

typedef struct s2_api_cache s2_api_cache;

typedef enum s2_api_cache_layout {
    S2_API_CACHE_PAGES,  /* separate pages for each KV head */
    S2_API_CACHE_RING,   /* the largest window in a ring, the rest in pages */
    S2_API_CACHE_SHARED, /* pages shared by all KV heads of a layer */
} s2_api_cache_layout;

typedef struct s2_api_cache_options {
    uint32_t size; /* of this structure */
    int32_t layout;
    int32_t page_tok;    /* 0: the pattern's block, at least 16; GPU kernels want multiples of 16 */
    int32_t layer_begin; /* layers [layer_begin, layer_end); both 0: all */
    int32_t layer_end;
    int32_t step_tok;  /* tokens per step: keys that the last step_tok queries read are kept; 0: 1 */
    int64_t cap_pages; /* 0: no limit */
} s2_api_cache_options;

/*
 * The cache assigns slots to keys and values; the caller owns the two arrays, K[slot][d] and V[slot][d]. A
 * page is held exactly as long as the pattern allows some later query to read one of its keys. options NULL:
 * S2_API_CACHE_PAGES, all layers. S2_API_UNSUPPORTED for patterns that are not causal or decide at run time
 * which keys to keep.
 */
S2_API int s2_api_cache_open(const s2_api_pattern *pattern, const s2_api_cache_options *options,
                             s2_api_cache **out, s2_api_error *why);
S2_API void s2_api_cache_close(s2_api_cache *cache);

/* Open an empty sequence, or end one and give back what no other sequence shares with it. */
S2_API int s2_api_cache_sequence(s2_api_cache *cache, int32_t *sequence, s2_api_error *why);
S2_API int s2_api_cache_drop(s2_api_cache *cache, int32_t sequence, s2_api_error *why);
/* Open a second sequence with the same tokens; the two share every page until one of them writes to it. */
S2_API int s2_api_cache_fork(s2_api_cache *cache, int32_t sequence, int32_t *out, s2_api_error *why);

/* Copy n_slots slots of both K and V from one position to another, before anything new is written. */
typedef struct s2_api_move {
    int64_t from_slot;
    int64_t to_slot;
    int64_t n_slots;
} s2_api_move;
/*
 * Make room for n_tok more tokens and free the pages that no query needs any more. Carry out the *n_moves
 * moves in order, on both arrays; they are valid until the next append. S2_API_CACHE_PAGES has moves only
 * after a fork. On S2_API_MEMORY the pool is full, and the sequence can then only be dropped.
 */
S2_API int s2_api_cache_append(s2_api_cache *cache, int32_t sequence, int32_t n_tok,
                               const s2_api_move **moves, int32_t *n_moves, s2_api_error *why);
/* slots[key - key_begin]: the slot of a KV head's key, or -1: not held, because no later query reads it. */
S2_API int s2_api_cache_slots(const s2_api_cache *cache, int32_t sequence, int32_t layer, int32_t kv_head,
                              int64_t key_begin, int64_t key_end, int64_t *slots, s2_api_error *why);
/*
 * The same for the last n_tok tokens of several sequences in layers [layer_begin, layer_end): the slots that
 * a step writes, as slots[layer - layer_begin][sequence][KV head][token].
 */
S2_API int s2_api_cache_places(const s2_api_cache *cache, const int32_t *sequences, int32_t n_sequences,
                               int32_t layer_begin, int32_t layer_end, int32_t n_tok, int64_t *slots,
                               s2_api_error *why);
/* How many tokens the sequence has; S2_API_ARGUMENT where there is no such sequence. */
S2_API int s2_api_cache_tokens(const s2_api_cache *cache, int32_t sequence, int32_t *tokens,
                               s2_api_error *why);

typedef struct s2_api_usage {
    uint32_t size;      /* of this structure */
    int32_t page_slots; /* slots per page */
    int64_t pages;      /* in use */
    int64_t peak_pages;
    int64_t pool_slots; /* slots that the two arrays must have */
    int64_t slots;      /* in use; bytes are slots * 2 * head_dim * bytes per element */
} s2_api_usage;
S2_API int s2_api_cache_usage(const s2_api_cache *cache, s2_api_usage *usage, s2_api_error *why);

/* ------------------------------------------------------------------ attention */

typedef struct s2_api_device s2_api_device;
typedef struct s2_api_plan s2_api_plan;

/* spec: "cpu", "gpu" or "gpu:N". S2_API_UNSUPPORTED, with the reason, if there is no such device. */
S2_API int s2_api_device_open(const char *spec, s2_api_device **out, s2_api_error *why);
S2_API void s2_api_device_close(s2_api_device *device);
/* From now on queue work on this cudaStream_t (NULL: the default stream). Does nothing on a CPU. */
S2_API int s2_api_device_stream(s2_api_device *device, void *stream, s2_api_error *why);
/* Wait for all queued work. */
S2_API int s2_api_device_wait(s2_api_device *device, s2_api_error *why);

typedef enum s2_api_pass { S2_API_FORWARD, S2_API_BACKWARD, S2_API_DECODING } s2_api_pass;

typedef struct s2_api_plan_options {
    uint32_t size; /* of this structure */
    int32_t pass;
    int32_t phase; /* selects the rules; usually S2_API_DECODE for S2_API_DECODING */
    int32_t layer;
    int32_t dtype;
    int32_t head_dim;
    int32_t n_sequences;
    int32_t deterministic; /* not 0: only kernels that give the same bits every time */
    /*
     * [n_sequences]: number of queries, at the last positions of this many keys; at least one query. A packed
     * sequence may have neither, except in DECODING and with lists; some sequence must have tokens.
     */
    const int32_t *q_tok;
    const int32_t *k_tok;
    const int32_t *q_begin; /* NULL, or [n_sequences + 1]: where each sequence begins in packed tensors */
    const int32_t *k_begin; /* NULL if and only if q_begin is */
    float cap;              /* > 0: scores are cap * tanh(scale * q . k / cap); 0: not capped */
    int32_t sinks; /* not 0: the softmax's denominator adds a learned logit per head; calls give it */
    /*
     * FORWARD of a dense layer, which then reads only blocks that calls list; 0: there are no lists. Lists are
     * per query head, or per KV head for all its query heads. The list of a query block names key blocks of
     * the pattern's `block`, in any order; a row reads those at or before its position if the pattern is
     * causal. Duplicates count once, numbers of no block nothing; a count is taken into 0 to list_most.
     */
    int32_t list_heads;    /* the pattern's heads or KV heads */
    int32_t list_q_tok;    /* tokens of a query block, from multiples of it on: 16, 32, 64 or 128 n */
    int32_t list_q_blocks; /* lists of a head; the first is that of the first query */
    int32_t list_most;     /* entries that a list has room for */
} s2_api_plan_options;

/*
 * A plan fixes what can be decided before there is data: the kernel and its lists. It serves any number of
 * calls, for all layers whose heads read the same; calls with the same strides and scale share what the
 * kernel prepared. With a cache, the plan updates its lists in place as sequences grow: a step costs what it
 * changes, once for all layers of the plan. Calls run one at a time: a call on another stream waits for the
 * one before. A captured graph of calls may run as long as the plan is open and has since served no other
 * strides, scale or lengths. The device must outlive the plan.
 */
S2_API int s2_api_plan_open(s2_api_device *device, const s2_api_pattern *pattern,
                            const s2_api_plan_options *options, s2_api_plan **out, s2_api_error *why);
S2_API void s2_api_plan_close(s2_api_plan *plan);
/* The kernel's name, "" of NULL; valid as long as the library is loaded. */
S2_API const char *s2_api_plan_kernel(const s2_api_plan *plan);

/*
 * [sequence][token][head][d] anywhere in device memory; strides in elements, d contiguous; 16-byte aligned, and on
 * a GPU strides are multiples of 16 bytes
 */
typedef struct s2_api_tensor {
    void *data;
    int64_t sequence; /* ignored when q_begin and k_begin are given */
    int64_t token;
    int64_t head;
} s2_api_tensor;
/* fp32 [sequence][head][token], tokens contiguous. */
typedef struct s2_api_rows {
    float *data;
    int64_t sequence;
    int64_t head;
} s2_api_rows;

typedef struct s2_api_call {
    uint32_t size; /* of this structure */
    float scale;   /* multiplies q . k; usually 1 / sqrt(head_dim) */
    s2_api_tensor q, k, v;
    s2_api_tensor o; /* written by FORWARD and DECODING, read by BACKWARD */
    s2_api_rows
        lse; /* likewise: ln of the softmax's denominator; minus infinity and o = 0 where nothing is read */
    s2_api_tensor d_o, d_q, d_k, d_v; /* BACKWARD: d_o is read, the others are written */
    const s2_api_cache *cache; /* DECODING: NULL, or k and v are its two arrays; token is a slot's stride */
    const int32_t *sequences;  /* then: [n_sequences] of that cache; the plan follows them as they grow */
    const float *sink; /* for a plan with sinks: [head], natural logarithm, minus infinity: none; else NULL */
    float *d_sink;     /* likewise, BACKWARD: [head], written */
    int32_t of_layer;  /* with a cache: 0: the plan's layer; n: layer n - 1, whose heads must read the same */
    const int32_t *list_counts; /* for a plan with lists, in device memory: [sequence][head][list] */
    const int32_t *list_blocks; /* likewise: [sequence][head][list][list_most] */
} s2_api_call;

/*
 * Queue one computation on the device's stream. With a deterministic kernel, the same inputs and the same
 * plan give the same bits. d_k and d_v are written completely; in o, lse and d_q every row is written.
 */
S2_API int s2_api_plan_run(s2_api_plan *plan, const s2_api_call *call, s2_api_error *why);
/*
 * Do only what s2_api_plan_run() does before it computes: for a call with a cache, bring the lists up to date
 * with the cache, in place where possible, queued on the device's stream. *made counts the rebuilds so far: a
 * graph that was captured at the same count, for sequences of the same cache, may run again and reads the
 * cache as it now is.
 */
S2_API int s2_api_plan_follow(s2_api_plan *plan, const s2_api_call *call, int64_t *made, s2_api_error *why);

#ifdef __cplusplus
}
#endif
#endif /* S2_LIBRARY_S2_H */
