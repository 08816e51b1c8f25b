/*
 * tests/s2priced.h - the whole price of a pattern, in one call.
 */
#ifndef S2_TESTS_S2PRICED_H
#define S2_TESTS_S2PRICED_H

#include "sim/price.h"
#include "tests/s2test.h"

/* Fails the test where there is no price. */
static inline s2_sim s2_priced(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options)
{
    s2_sim sim;
    s2_diag diag = {0};
    if (s2_price(arena, pattern, options, S2_PRICE_WHOLE, &sim, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    return sim;
}

#endif /* S2_TESTS_S2PRICED_H */
