#include "words/error.h"

static bool is_known(const s2_error *error)
{
    return error->pct < S2_ERROR_UNKNOWN_PCT;
}

static bool is_mean(const s2_error *error)
{
    return !error->allowed && error->n_judged > 0;
}

static void put_percent(double pct, s2_buf *buf)
{
    s2_buf_printf(buf, "%s %%", s2_decimal(pct, 2).text);
}

void s2_error_print_short(const s2_error *error, bool narrow, s2_buf *buf)
{
    if (!is_known(error)) {
        s2_buf_puts(buf, narrow ? "error ?" : "no error known");
        return;
    }
    s2_buf_puts(buf, is_mean(error) && !narrow ? "mean error " : "");
    put_percent(error->pct, buf);
    s2_buf_puts(buf, !is_mean(error) ? narrow ? " guess" : " allowed" : narrow ? " mean" : "");
}

void s2_error_print(const s2_error *error, bool spread, s2_buf *buf)
{
    if (is_known(error) && !is_mean(error)) {
        s2_buf_puts(buf, "no error was measured, ");
        put_percent(error->pct, buf);
        s2_buf_puts(buf, " is allowed for");
        return;
    }
    s2_error_print_short(error, false, buf);
    if (!is_known(error))
        return;
    s2_buf_printf(buf, " on %d point%s held out", error->n_judged, s2_text_plural(error->n_judged));
    if (spread && error->p90_pct > 0) {
        s2_buf_puts(buf, ", nine in ten within ");
        put_percent(error->p90_pct, buf);
    }
    if (spread && error->most_pct > 0) {
        s2_buf_puts(buf, ", the largest ");
        put_percent(error->most_pct, buf);
    }
}
