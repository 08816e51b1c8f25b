#include "sim/units.h"

#include <math.h>
#include <stdio.h>

static s2_figure_text with_unit(double value, int digits, const char *unit)
{
    s2_figure_text out;
    snprintf(out.text, sizeof out.text, "%.40s %s", s2_decimal(value, digits).text, unit);
    return out;
}

s2_figure_text s2_bytes_text(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++)
        bytes /= 1024;
    return unit == 0 ? with_unit(rint(bytes), 15, units[0]) : with_unit(bytes, 4, units[unit]);
}

s2_figure_text s2_rate_text(double rate)
{
    return s2_decimal(rate, 4);
}

s2_figure_text s2_time_text(double us)
{
    /* 999.6 rounds to 1000 at three digits, which belongs to the next unit */
    if (us >= 999.5 * 3600e6)
        return with_unit(rint(us / 3600e6), 15, "h");
    if (us >= 3600e6)
        return with_unit(us / 3600e6, 3, "h");
    if (us >= 999.5e6)
        return with_unit(us / 60e6, 3, "min");
    if (us >= 999.5e3)
        return with_unit(us / 1e6, 3, "s");
    return us >= 999.5 ? with_unit(us / 1e3, 3, "ms") : with_unit(us, 3, "us");
}

s2_figure_text s2_tok_text(int64_t n_tok)
{
    const bool m = n_tok >= 1048576 && n_tok % 1048576 == 0, k = !m && n_tok >= 1024 && n_tok % 1024 == 0;
    s2_figure_text out;
    snprintf(out.text, sizeof out.text, "%lld%s",
             (long long)(m   ? n_tok / 1048576
                         : k ? n_tok / 1024
                             : n_tok),
             m   ? "m"
             : k ? "k"
                 : "");
    return out;
}
