#include "sim/denses.h"

#include <string.h>

#include "base/alloc.h"

const void *s2_denses_find(const s2_denses *denses, const s2_dense_key *key)
{
    for (int32_t n = 0; n < denses->n; n++) {
        const s2_dense_key *const own = &denses->kept[n].key;
        if (own->phase == key->phase && own->predicted == key->predicted &&
            own->scores.cap == key->scores.cap && own->scores.sinks == key->scores.sinks &&
            strcmp(own->hash, key->hash) == 0)
            return denses->kept[n].value;
    }
    return NULL;
}

s2_status s2_denses_keep(s2_denses *denses, const s2_dense_key *key, const void *value, size_t n_bytes)
{
    if (denses->n == S2_MOST_DENSES)
        return S2_OK;
    void *const copy = s2_malloc(n_bytes);
    if (copy == NULL)
        return S2_ENOMEM;
    memcpy(copy, value, n_bytes);
    denses->kept[denses->n].key = *key;
    denses->kept[denses->n++].value = copy;
    return S2_OK;
}

void s2_denses_release(s2_denses *denses)
{
    for (int32_t n = 0; n < denses->n; n++)
        s2_free(denses->kept[n].value);
    denses->n = 0;
}
