/*
 * sim/denses.h - what was computed of dense attention once, for the patterns of a search that are compared with
 * it: by the dense pattern, the phase, what is done to scores, and whether constants predict it.
 *
 * Ownership: s2_denses_release frees the copies. Threads: one at a time.
 */
#ifndef S2_SIM_DENSES_H
#define S2_SIM_DENSES_H

#include "pattern/parse.h"
#include "sim/price.h"

typedef struct s2_dense_key {
    char hash[S2_HASH_HEX];
    s2_phase phase;
    bool predicted;
    s2_model_scores scores;
} s2_dense_key;

enum { S2_MOST_DENSES = 32 };
typedef struct s2_denses {
    int32_t n;
    struct {
        s2_dense_key key;
        void *value;
    } kept[S2_MOST_DENSES];
} s2_denses;

/* What was kept; NULL if nothing was. */
const void *s2_denses_find(const s2_denses *denses, const s2_dense_key *key);
/* Keep a copy, unless there are too many. S2_ENOMEM. */
s2_status s2_denses_keep(s2_denses *denses, const s2_dense_key *key, const void *value,
                         size_t n_bytes) S2_MUST_CHECK;
void s2_denses_release(s2_denses *denses);

#endif /* S2_SIM_DENSES_H */
