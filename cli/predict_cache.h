/*
 * cli/predict_cache.h - the simulator's count of a KV cache, for the validator to hold the real one against.
 *
 * Ownership: what init builds lives in the arena. Threads: one at a time.
 */
#ifndef S2_CLI_PREDICT_CACHE_H
#define S2_CLI_PREDICT_CACHE_H

#include "base/dtype.h"
#include "cache/cache.h"
#include "sim/kv.h"

typedef struct s2_predict_cache {
    s2_classes classes; /* of one layer */
    s2_layer_class layer;
    s2_cache_layout layout;
    int32_t page_tok;
    int32_t elem_bytes;
} s2_predict_cache;

/* One layer in one layout. S2_ENOMEM, S2_ELIMIT. */
s2_status s2_predict_cache_init(s2_predict_cache *cache, s2_arena *arena, const s2_pattern *pattern,
                                int32_t layer, s2_dtype dtype, s2_cache_layout layout,
                                int32_t page_tok) S2_MUST_CHECK;

/* Bytes after n_tok >= 1 tokens of one sequence, or -1 when memory ran out. */
int64_t s2_predict_cache_bytes(const s2_predict_cache *cache, int64_t n_tok);

#endif /* S2_CLI_PREDICT_CACHE_H */
