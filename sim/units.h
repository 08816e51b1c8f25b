/*
 * sim/units.h - bytes, times and rates with three significant digits and the fitting unit.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_UNITS_H
#define S2_SIM_UNITS_H

#include "base/text.h"

s2_figure_text s2_bytes_text(double bytes); /* "1.5 GiB" */
s2_figure_text s2_time_text(double us);     /* "12.3 ms" */
s2_figure_text s2_rate_text(double rate);   /* four digits: "11590", "0.0123" */
s2_figure_text s2_tok_text(int64_t n_tok);  /* "128k", "1000" */

#endif /* S2_SIM_UNITS_H */
