/*
 * library/cache.h - the handle of a cache, and what attention needs from it.
 */
#ifndef S2_LIBRARY_CACHE_H
#define S2_LIBRARY_CACHE_H

#include "cache/cache.h"
#include "library/internal.h"

/* After a failed append a sequence is neither what it was nor what it should be. */
enum { S2_SEQUENCE_NONE, S2_SEQUENCE_OPEN, S2_SEQUENCE_BROKEN };

struct s2_api_cache {
    s2_api_pattern *pattern;
    s2_cache *cache;
    int64_t stamp; /* identifies this opening: another cache may later get the same address */
    int32_t layer_begin, layer_end;
    int32_t step_tok; /* queries of a step whose keys are still held */
    uint8_t *states;  /* [sequence] */
    int64_t cap_states;
    s2_api_move *moves; /* from the last append */
    int64_t cap_moves;
    int32_t n_moves;
};

/* Whether the sequence is open and not broken. */
bool s2_handle_has_sequence(const s2_api_cache *cache, int32_t sequence);

#endif /* S2_LIBRARY_CACHE_H */
