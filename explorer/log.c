#include "explorer/internal.h"

#include <stdarg.h>
#include <string.h>

void s2_explorer_say(s2_explorer *e, const char *fmt, ...)
{
    s2_tui_model *const model = &e->session.model;
    char raw[400], clean[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    raw[strcspn(raw, "\n")] = '\0';
    s2_text_clean(clean, sizeof clean, raw);
    const char *const kept = s2_arena_strndup(&e->log, clean, strlen(clean));
    snprintf(e->session.state.message, sizeof e->session.state.message, "%s", clean);
    if (kept == NULL)
        return;
    if (model->n_log == S2_EXPLORER_LOG)
        memmove(e->lines, e->lines + 1, sizeof e->lines[0] * (S2_EXPLORER_LOG - 1));
    else
        model->n_log++;
    e->lines[model->n_log - 1] = kept;
    model->log = e->lines;
}

void s2_explorer_say_failure(s2_explorer *e, s2_status status, const s2_diag *diag)
{
    e->failed = status;
    s2_explorer_say(e, "%s", s2_diag_text(diag, status));
}
