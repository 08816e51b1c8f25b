#include "sim/units.h"

#include <math.h>

void s2_bytes_print(double bytes, s2_buf *buf)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++)
        bytes /= 1024;
    s2_buf_printf(buf, "%s %s", s2_decimal(unit == 0 ? rint(bytes) : bytes, unit == 0 ? 15 : 4).text,
                  units[unit]);
}

void s2_rate_print(double rate, s2_buf *buf)
{
    s2_buf_puts(buf, s2_decimal(rate, 4).text);
}

void s2_time_print(double us, s2_buf *buf)
{
    /* 999.6 rounds to 1000 at three digits, which belongs to the next unit */
    if (us >= 999.5 * 3600e6)
        s2_buf_printf(buf, "%.0f h", us / 3600e6);
    else if (us >= 3600e6)
        s2_buf_printf(buf, "%s h", s2_decimal(us / 3600e6, 3).text);
    else if (us >= 999.5e6)
        s2_buf_printf(buf, "%s min", s2_decimal(us / 60e6, 3).text);
    else if (us >= 999.5e3)
        s2_buf_printf(buf, "%s s", s2_decimal(us / 1e6, 3).text);
    else if (us >= 999.5)
        s2_buf_printf(buf, "%s ms", s2_decimal(us / 1e3, 3).text);
    else
        s2_buf_printf(buf, "%s us", s2_decimal(us, 3).text);
}
