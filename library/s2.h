/*
 * s2.h - sparse attention patterns from C: read, prove, price, run, and keep keys and values no longer than needed.
 *
 * The one public header of libs2. docs/library.md has a program; `pkg-config --cflags --libs s2` has the flags.
 *
 * Results:   functions return an s2_api_code, S2_API_OK or below zero. *why (NULL is allowed) then has the words; outputs
 *            are untouched. A verdict is no failure: s2_api_pattern_check() returns S2_API_OK and says what it found.
 * Ownership: an object belongs to whoever opened it, until it is closed; closing NULL does nothing. Texts are released
 *            with s2_api_text_free(). A plan or cache holds its pattern, which may be closed before it.
 * Threads:   a pattern may be used by any number of threads. A device, a plan or a cache belongs to one thread at a time.
 *            The library has no state of its own: what two threads do with different objects never meets.
 * Versions:  structures that callers fill begin with their own size, as the caller's compiler knew it. Later versions
 *            only append to them; the soname changes when anything else does.
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
    S2_API_ARGUMENT = -1,    /* an argument is outside of what is stated here */
    S2_API_MEMORY = -2,      /* no memory, or a cache whose pages are all in use */
    S2_API_REFUSED = -3,     /* an input is refused: line and column say where */
    S2_API_LIMIT = -4,       /* a stated limit of work was hit first */
    S2_API_UNSUPPORTED = -5, /* not possible here: why says what stands against it */
    S2_API_FILE = -6,        /* a file could not be read or written */
    S2_API_GPU = -8,         /* the GPU reported an error */
    S2_API_INTERNAL = -9     /* two computations of one fact disagree: a fault of the library */
} s2_api_code;

/* What there is to say of a failure: one line, harmless to a terminal. */
typedef struct s2_api_error {
    int32_t code;
    int32_t line; /* from 1; 0: not known */
    int32_t column;
    char message[240];
} s2_api_error;

/* A text of the library's; data[size] is zero. */
typedef struct s2_api_text {
    char *data;
    size_t size;
} s2_api_text;
S2_API void s2_api_text_free(s2_api_text *text);

/* The version of this interface: the soname's number times 1000, and what was appended since. */
#define S2_API_VERSION 1004
S2_API int32_t s2_api_version(void);

/* ------------------------------------------------------------------ patterns */

typedef struct s2_api_pattern s2_api_pattern;

/*
 * Of a text in the language of docs/pattern-language.md, or of any format that `s2 import` reads: `format` is its name, or NULL:
 * found by the content. `path` is the file that the text is from, or NULL: neighbours (masks, tables) are looked for
 * beside it. A text without a path may not name files.
 */
S2_API int s2_api_pattern_open(const char *text, size_t size, const char *path, const char *format,
                               s2_api_pattern **out, s2_api_error *why);
S2_API void s2_api_pattern_close(s2_api_pattern *pattern);

typedef struct s2_api_shape {
    uint32_t size; /* of this structure */
    int32_t layers;
    int32_t heads;
    int32_t kv_heads;
    int32_t head_dim;
    int32_t block;
    int32_t causal;
    int32_t has_phases; /* prefill and decoding read differently */
    int64_t limit_tok;  /* tokens that its mask files cover; 0: any number */
    char hash[65];      /* of the canonical text */
    char name[201];
} s2_api_shape;
S2_API int s2_api_pattern_shape(const s2_api_pattern *pattern, s2_api_shape *shape, s2_api_error *why);

/* The canonical text. */
S2_API int s2_api_pattern_text(const s2_api_pattern *pattern, s2_api_text *out, s2_api_error *why);
/* What its import left unsaid, a sentence a line; empty for a text in the language. */
S2_API int s2_api_pattern_notes(const s2_api_pattern *pattern, s2_api_text *out, s2_api_error *why);

typedef enum s2_api_phase { S2_API_PREFILL, S2_API_DECODE } s2_api_phase;

/*
 * out[query - query_begin][key], a byte a pair: 1 where query head `head` reads the key, in a context of context_tok
 * tokens; keys 0 to context_tok. Straight from the definition of every term. Terms that choose at run time read nothing.
 */
S2_API int s2_api_pattern_mask(const s2_api_pattern *pattern, s2_api_phase phase, int32_t layer, int32_t head,
                               int64_t context_tok, int64_t query_begin, int64_t query_end, uint8_t *out,
                               s2_api_error *why);

/*
 * kind_of[layer], of all layers: the lowest layer whose heads read the same in this phase. Layers of a kind share plans.
 */
S2_API int s2_api_pattern_kinds(const s2_api_pattern *pattern, s2_api_phase phase, int32_t *kind_of,
                                s2_api_error *why);

/*
 * What one GPU of several has, as a pattern of its own: layers [layer_begin, layer_end) of its equal number of KV heads and their query heads.
 * order[layer - layer_begin][KV head] is the order in which they are dealt out, `ranks` equal runs of it; NULL: as they are
 * numbered. With fewer KV heads than ranks, each lies on several, and its query heads are split. S2_API_UNSUPPORTED for
 * layers of different shapes, masks and random lists.
 */
S2_API int s2_api_pattern_share(const s2_api_pattern *pattern, int32_t ranks, int32_t rank,
                                int32_t layer_begin, int32_t layer_end, const int32_t *order,
                                s2_api_pattern **out, s2_api_error *why);

typedef enum s2_api_verdict { S2_API_HOLDS, S2_API_VIOLATED, S2_API_UNKNOWN } s2_api_verdict;
/*
 * Decide properties ("rows,union,kv,ranks:2"; `s2 explain` has them all) for contexts up to context_tok tokens, 0: of
 * every length. *verdict is over all of them; *json, where not NULL, is the s2check/1 object of docs/json.md.
 */
S2_API int s2_api_pattern_check(const s2_api_pattern *pattern, const char *properties, int64_t context_tok,
                                s2_api_verdict *verdict, s2_api_text *json, s2_api_error *why);

typedef enum s2_api_dtype { S2_API_F32, S2_API_BF16, S2_API_F16 } s2_api_dtype;

typedef struct s2_api_price_options {
    uint32_t size;   /* of this structure */
    const char *gpu; /* "h200", ...; NULL: h200 */
    const char *net; /* a model around attention, as `s2 sim --model` names it; NULL: attention alone */
    int32_t phase;   /* 0 prefill, 1 decoding, 2 training */
    int32_t dtype;   /* s2_api_dtype */
    int64_t context_tok;
    int64_t batch;
    int32_t page_tok; /* of the cache */
    int32_t ranks;    /* tensor-parallel GPUs */
} s2_api_price_options;

/* What docs/simulator.md explains; times in microseconds. */
typedef struct s2_api_price {
    uint32_t size;     /* of this structure */
    int32_t predicted; /* time_us is a prediction, else a bound */
    int32_t measured;  /* with constants that were measured on this GPU, not guessed for it */
    double time_us;    /* attention of all layers */
    double bound_us;   /* no kernel can be faster */
    double dense_time_us;
    double error_pct;     /* of predictions, on points that were not fitted */
    double end_to_end_us; /* with a net, else 0 */
    double dense_end_to_end_us;
    double density; /* pairs read of those that a dense pattern reads */
    int64_t pairs;
    int64_t kv_bytes; /* pages of single heads, as this library's cache holds them */
    int64_t kv_used_bytes;
    int64_t kv_dense_bytes;
    int64_t fit_batch; /* sequences that fit the GPU beside the weights */
    int64_t dense_fit_batch;
} s2_api_price;
S2_API int s2_api_pattern_price(const s2_api_pattern *pattern, const s2_api_price_options *options,
                                s2_api_price *price, s2_api_error *why);

/*
 * Write a format that `s2 export` knows to a file, or to a directory where it is several files (or one is there). The result
 * is read back and compared first; S2_API_UNSUPPORTED when it would not read the same pairs. context_tok is
 * for formats of a fixed length. *notes, where not NULL, has what the format leaves unsaid.
 */
S2_API int s2_api_pattern_write(const s2_api_pattern *pattern, const char *format, int64_t context_tok,
                                const char *path, s2_api_text *notes, s2_api_error *why);

/* A line for each format: name, "read", "write" or "read write", summary; separated by tabs. */
S2_API int s2_api_formats(s2_api_text *out, s2_api_error *why);

/* ------------------------------------------------------------------ the cache that evicts */

typedef struct s2_api_cache s2_api_cache;

typedef enum s2_api_cache_layout {
    S2_API_CACHE_PAGES,  /* of each KV head by itself */
    S2_API_CACHE_RING,   /* the largest window in a ring, the rest in pages */
    S2_API_CACHE_SHARED, /* of all KV heads of a layer */
} s2_api_cache_layout;

typedef struct s2_api_cache_options {
    uint32_t size; /* of this structure */
    int32_t layout;
    int32_t page_tok;    /* 0: the pattern's block, at least 16; GPU kernels want multiples of 16 */
    int32_t layer_begin; /* layers [layer_begin, layer_end); both 0: all */
    int32_t layer_end;
    int32_t step_tok;  /* tokens of a step: the last so many queries are still asked; 0: 1 */
    int64_t cap_pages; /* 0: as many as are asked for */
} s2_api_cache_options;

/*
 * It says in which slots keys and values lie; the two arrays, K[slot][d] and V[slot][d], are the caller's. A page is
 * held while a query that is still to come may read one of its keys, as the proof says, and no longer. options NULL:
 * pages, all layers. S2_API_UNSUPPORTED for patterns whose keys are chosen by what happened.
 */
S2_API int s2_api_cache_open(const s2_api_pattern *pattern, const s2_api_cache_options *options,
                             s2_api_cache **out, s2_api_error *why);
S2_API void s2_api_cache_close(s2_api_cache *cache);

S2_API int s2_api_cache_sequence(s2_api_cache *cache, int32_t *sequence, s2_api_error *why);
S2_API int s2_api_cache_drop(s2_api_cache *cache, int32_t sequence, s2_api_error *why);
/* A second sequence with the same tokens, sharing every page until one of the two writes. */
S2_API int s2_api_cache_fork(s2_api_cache *cache, int32_t sequence, int32_t *out, s2_api_error *why);

/* n_slots slots of K and of V go from one place to another, before anything new is written. */
typedef struct s2_api_move {
    int64_t from_slot;
    int64_t to_slot;
    int64_t n_slots;
} s2_api_move;
/*
 * Room for n_tok more tokens; pages that nobody needs any more go back. *moves, *n_moves (valid until the next append)
 * are to be carried out in order, on both arrays; with pages of single heads only after a fork. S2_API_MEMORY: the pool is
 * full; the sequence can then only be dropped.
 */
S2_API int s2_api_cache_append(s2_api_cache *cache, int32_t sequence, int32_t n_tok,
                               const s2_api_move **moves, int32_t *n_moves, s2_api_error *why);
/* slots[key - key_begin]: where a key of a KV head lies, or -1: it is not held, because no later query reads it. */
S2_API int s2_api_cache_slots(const s2_api_cache *cache, int32_t sequence, int32_t layer, int32_t kv_head,
                              int64_t key_begin, int64_t key_end, int64_t *slots, s2_api_error *why);
/*
 * The same for the last n_tok tokens of several sequences and of layers [layer_begin, layer_end), where a step writes:
 * slots[layer - layer_begin][sequence][KV head][token].
 */
S2_API int s2_api_cache_places(const s2_api_cache *cache, const int32_t *sequences, int32_t n_sequences,
                               int32_t layer_begin, int32_t layer_end, int32_t n_tok, int64_t *slots,
                               s2_api_error *why);
S2_API int s2_api_cache_tokens(const s2_api_cache *cache, int32_t sequence, int32_t *tokens,
                               s2_api_error *why);

typedef struct s2_api_usage {
    uint32_t size;      /* of this structure */
    int32_t page_slots; /* slots of a page */
    int64_t pages;      /* in use */
    int64_t peak_pages;
    int64_t pool_slots; /* slots that the two arrays must have */
    int64_t slots;      /* in use; bytes are slots * 2 * head_dim * bytes of an element */
} s2_api_usage;
S2_API int s2_api_cache_usage(const s2_api_cache *cache, s2_api_usage *usage, s2_api_error *why);

/* ------------------------------------------------------------------ attention */

typedef struct s2_api_device s2_api_device;
typedef struct s2_api_plan s2_api_plan;

/* "cpu", "gpu" or "gpu:N". S2_API_UNSUPPORTED with the reason where there is none. */
S2_API int s2_api_device_open(const char *spec, s2_api_device **out, s2_api_error *why);
S2_API void s2_api_device_close(s2_api_device *device);
/* From now on work is queued on this cudaStream_t (NULL: the default stream). Nothing to do on a CPU. */
S2_API int s2_api_device_stream(s2_api_device *device, void *stream, s2_api_error *why);
/* Wait for what was queued. */
S2_API int s2_api_device_wait(s2_api_device *device, s2_api_error *why);

typedef enum s2_api_pass { S2_API_FORWARD, S2_API_BACKWARD, S2_API_DECODING } s2_api_pass;

typedef struct s2_api_plan_options {
    uint32_t size; /* of this structure */
    int32_t pass;
    int32_t phase; /* whose rules; decoding usually has S2_API_DECODE */
    int32_t layer;
    int32_t dtype;
    int32_t head_dim;
    int32_t n_sequences;
    int32_t deterministic;  /* not 0: only kernels that give the same bits every time */
    const int32_t *q_tok;   /* n_sequences: queries, the last positions of ... */
    const int32_t *k_tok;   /* ... so many keys */
    const int32_t *q_begin; /* NULL, or n_sequences + 1: where a sequence begins in packed tensors */
    const int32_t *k_begin; /* both or none */
    float cap;              /* > 0: scores are cap * tanh(scale * q . k / cap); 0: they are not capped */
    int32_t sinks; /* not 0: the softmax's denominator has one learned logit a head more; calls give it */
} s2_api_plan_options;

/*
 * All that can be known before there is data: which kernel, with which lists. It serves any number of calls, for all
 * layers whose heads read the same; what the kernel prepared serves all with the same distances and scale. Of a cache it
 * follows the sequences in place: a step costs what it changes, once for all layers of one plan. One call at a time: the next one on another stream waits for it. A graph that was captured of
 * calls may run as long as the plan is there and has served no other distances, scale or lengths since. The device
 * must outlive it.
 */
S2_API int s2_api_plan_open(s2_api_device *device, const s2_api_pattern *pattern,
                            const s2_api_plan_options *options, s2_api_plan **out, s2_api_error *why);
S2_API void s2_api_plan_close(s2_api_plan *plan);
/* The kernel's name, which lives as long as the library. */
S2_API const char *s2_api_plan_kernel(const s2_api_plan *plan);

/* [sequence][token][head][d] anywhere in the device's memory; distances in elements, d contiguous; 16-byte aligned. */
typedef struct s2_api_tensor {
    void *data;
    int64_t sequence; /* not used with q_begin and k_begin */
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
    float scale;   /* of q . k; usually 1 / sqrt(head_dim) */
    s2_api_tensor q, k, v;
    s2_api_tensor o; /* written by FORWARD and DECODING, read by BACKWARD */
    s2_api_rows
        lse; /* likewise: ln of the softmax's denominator; minus infinity where nothing is read, and o is 0 */
    s2_api_tensor d_o, d_q, d_k, d_v; /* BACKWARD: d_o is read, the others are written */
    const s2_api_cache *cache; /* DECODING: NULL, or k and v are its two arrays; token is a slot's distance */
    const int32_t *sequences;  /* then: n_sequences of the cache's; the plan follows them as they grow */
    const float *sink; /* of a plan with sinks: [head], natural logarithm, minus infinity: none; else NULL */
    float *d_sink;     /* ... BACKWARD: [head], written */
    int32_t of_layer;  /* with a cache: 0: the plan's; n: its layer n - 1, whose heads read the same */
} s2_api_call;

/*
 * Compute once, queued on the device's stream. The same inputs give the same bits with the same plan, where its kernel is
 * deterministic. All of d_k and d_v are written; of o, lse and d_q every row.
 */
S2_API int s2_api_plan_run(s2_api_plan *plan, const s2_api_call *call, s2_api_error *why);
/*
 * What s2_api_plan_run() does before it computes, and nothing more: the lists of a call with a cache become those of the cache
 * as it is, in place where that can be, queued on the device's stream. *made counts what had to be made anew: a graph that was
 * captured of calls when it was the same number, for sequences of the same cache, may run again, and reads the cache as it is.
 */
S2_API int s2_api_plan_follow(s2_api_plan *plan, const s2_api_call *call, int64_t *made, s2_api_error *why);

#ifdef __cplusplus
}
#endif
#endif /* S2_LIBRARY_S2_H */
