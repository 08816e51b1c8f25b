/*
 * base/quantity.h - numbers with units as people write them: 128k, 4GiB, 30%, 1.5ms.
 *
 * Threads: no state.
 */
#ifndef S2_BASE_QUANTITY_H
#define S2_BASE_QUANTITY_H

#include <stdbool.h>

typedef enum s2_quantity {
    S2_QUANTITY_COUNT, /* k, m, g: powers of 1024 */
    S2_QUANTITY_BYTES, /* k, m, g, t and KiB, MiB, ...: powers of 1024; kB, MB, GB, TB: of 1000 */
    S2_QUANTITY_SHARE, /* 0 to 1; %: hundredths */
    S2_QUANTITY_TIME   /* us, ms, s */
} s2_quantity;

/*
 * Parse a non-negative number; case does not matter. *out is in bytes, a share of 1, or microseconds; a
 * number without a unit is multiplied by `bare`. False, with *out untouched, for anything else, including a
 * share above 1.
 */
bool s2_quantity_parse(s2_quantity quantity, const char *text, double bare, double *out);

#endif /* S2_BASE_QUANTITY_H */
