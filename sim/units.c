#include "sim/units.h"

#include <math.h>

void s2_bytes_print(double bytes, s2_buf *buf)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++)
        bytes /= 1024;
    s2_buf_printf(buf, unit == 0 ? "%.0f %s" : "%.4g %s", bytes, units[unit]);
}

void s2_rate_print(double rate, s2_buf *buf)
{
    double unit = 1;
    for (; rate / unit >= 1e4; unit *= 10)
        ;
    if (unit > 1)
        s2_buf_printf(buf, "%.0f", rint(rate / unit) * unit);
    else
        s2_buf_printf(buf, rate >= 0.1 ? "%.4g" : "%.4f", rate);
}

void s2_time_print(double us, s2_buf *buf)
{
    /* 999.6 rounds to 1000 at three digits, which belongs to the next unit */
    if (us >= 999.5 * 3600e6)
        s2_buf_printf(buf, "%.0f h", us / 3600e6);
    else if (us >= 3600e6)
        s2_buf_printf(buf, "%.3g h", us / 3600e6);
    else if (us >= 999.5e6)
        s2_buf_printf(buf, "%.3g min", us / 60e6);
    else if (us >= 999.5e3)
        s2_buf_printf(buf, "%.3g s", us / 1e6);
    else if (us >= 999.5)
        s2_buf_printf(buf, "%.3g ms", us / 1e3);
    else
        s2_buf_printf(buf, "%.3g us", us);
}
