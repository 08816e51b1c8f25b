/*
 * tui/session.h - a session without a terminal: state, facts and canvas, kept in step.
 *
 * The terminal loop, scripts, `--dump` and the tests all drive this. After s2_session_key the state's
 * request says what the owner is to do; the owner changes session->model (rows, log) or calls
 * s2_session_open / s2_session_compare, then draws.
 *
 * Ownership: facts and canvas are the session's; rows and log the owner's. Threads: one.
 */
#ifndef S2_TUI_SESSION_H
#define S2_TUI_SESSION_H

#include "tui/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_session {
    s2_tui_model model;
    s2_tui_state state;
    s2_canvas canvas;
    s2_facts bench;
    s2_facts design;
    s2_facts compare[S2_TUI_COMPARE];
} s2_session;

/* S2_ENOMEM. Releasable in any case. */
s2_status s2_session_init(s2_session *session, int32_t rows, int32_t cols, bool ascii,
                          s2_view_id first) S2_MUST_CHECK;
void s2_session_release(s2_session *session);

void s2_session_key(s2_session *session, int32_t key);
s2_status s2_session_resize(s2_session *session, int32_t rows, int32_t cols) S2_MUST_CHECK;
/* Facts of a design's canonical text; the question is the workbench's. */
void s2_session_open(s2_session *session, const char *text);
void s2_session_close(s2_session *session);
/* One more column of the comparison; the name must outlive it. Begin with s2_session_compare_none. */
void s2_session_compare_none(s2_session *session);
void s2_session_compare_add(s2_session *session, const char *name, const char *text);
/* Brings facts up to date and draws. */
void s2_session_draw(s2_session *session);

#ifdef __cplusplus
}
#endif
#endif /* S2_TUI_SESSION_H */
