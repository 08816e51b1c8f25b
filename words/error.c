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
    s2_buf_puts(buf, !is_mean(error) ? " allowed" : narrow ? " mean" : "");
}

/* One extent alone is named with its numbers where the time is; that a GPU was not measured is said there too. */
static void put_causes(const s2_error *error, s2_buf *buf)
{
    const uint32_t causes = error->causes, extents = (1U << S2_N_EXTENTS) - 1;
    const bool one = (causes & (causes - 1)) == 0;
    if (causes == 0 || (one && (causes & (extents | S2_CAUSE_POINTS)) != 0))
        return;
    int32_t n = 0;
    for (int32_t bit = 0; bit < S2_N_CAUSES; bit++)
        if ((causes >> bit & 1U) != 0)
            s2_buf_printf(buf, "%s%s", n++ == 0 ? " because of " : ", ", s2_cause_words(bit));
}

static void print_allowance(const s2_error *error, bool spread, s2_buf *buf)
{
    s2_buf_puts(buf, "no error was measured, ");
    put_percent(error->pct, buf);
    s2_buf_puts(buf, " is allowed for");
    if (!spread)
        return;
    put_causes(error, buf);
    if (error->most_pct <= error->pct)
        return;
    s2_buf_puts(buf, "; among what was measured the largest error was ");
    put_percent(error->most_pct, buf);
}

void s2_error_print(const s2_error *error, bool spread, s2_buf *buf)
{
    if (is_known(error) && !is_mean(error)) {
        print_allowance(error, spread, buf);
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
    if (spread && error->n_passes > 1)
        s2_buf_puts(buf, ", each the worse of both passes");
}
