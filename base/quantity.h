/*
 * base/quantity.h - numbers with units as people write them: 128k, 4GiB, 30%, 1.5ms.
 *
 * Threads: no state.
 */
#ifndef S2_BASE_QUANTITY_H
#define S2_BASE_QUANTITY_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_quantity {
    S2_QUANTITY_COUNT, /* k, m, g: powers of 1024 */
    S2_QUANTITY_BYTES, /* k, m, g, t and KiB, MiB, ...: powers of 1024; kB, MB, GB, TB: of 1000 */
    S2_QUANTITY_SHARE, /* 0 to 1; %: hundredths */
    S2_QUANTITY_TIME   /* us, ms, s */
} s2_quantity;

/*
 * A number that is not negative; letters in any case. *out is in bytes, parts of one, or microseconds; a number
 * without a unit is multiplied by `bare`. False, with *out untouched, for anything else, a share above 1
 * included.
 */
bool s2_quantity_parse(s2_quantity quantity, const char *text, double bare, double *out);

#ifdef __cplusplus
}
#endif
#endif /* S2_BASE_QUANTITY_H */
