#include "base/status.h"

#include <stdio.h>

#include "base/text.h"

const char *s2_status_text(s2_status status)
{
    switch (status) {
#define S2_STATUS_CASE(code, value, text)                                                                    \
    case code: return text;
        S2_STATUS_TABLE(S2_STATUS_CASE)
#undef S2_STATUS_CASE
    }
    return "unknown status";
}

const char *s2_diag_text(const s2_diag *diag, s2_status status)
{
    return diag->msg[0] != '\0' ? diag->msg : s2_status_text(status);
}

s2_status s2_diag_set(s2_diag *diag, s2_status status, int32_t code, int32_t line, int32_t col,
                      const char *fmt, ...)
{
    if (diag == NULL)
        return status;
    char raw[sizeof diag->msg];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    diag->code = code;
    diag->line = line;
    diag->col = col;
    s2_text_clean(diag->msg, sizeof diag->msg, raw);
    return status;
}
