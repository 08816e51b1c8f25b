/*
 * sim/units.h - bytes, times and rates with three significant digits and the fitting unit.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_UNITS_H
#define S2_SIM_UNITS_H

#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "1.50 GiB", "12.3 ms". Check buf->status. */
void s2_bytes_print(double bytes, s2_buf *buf);
void s2_time_print(double us, s2_buf *buf);
/* Four digits and never an exponent: "11590", "0.0123". */
void s2_rate_print(double rate, s2_buf *buf);

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_UNITS_H */
