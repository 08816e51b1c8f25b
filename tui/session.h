/*
 * tui/session.h - a session without a terminal: state, facts, masks and canvas, kept in step.
 *
 * The terminal loop, scripts, `--dump` and the tests all drive this. After s2_session_key the state's
 * request says what the owner is to do; the owner changes session->model (rows, log) or calls
 * s2_session_open / s2_session_compare_add, then draws.
 *
 * Facts and masks take from a millisecond to seconds. By default the session derives them when they are
 * needed. An owner with a thread to spare sets `deferred` and carries out the orders of s2_session_next,
 * one at a time, wherever it likes; until then the views say that work is under way.
 *
 * Ownership: facts, masks and canvas are the session's; rows and log the owner's. Threads: one; orders may
 * be done on another, between s2_session_next and s2_session_take.
 */
#ifndef S2_TUI_SESSION_H
#define S2_TUI_SESSION_H

#include "tui/model.h"

/* Whose facts a slot holds; one slot from S2_SLOT_COMPARE on for each compared design. */
enum {
    S2_SLOT_BENCH,
    S2_SLOT_DESIGN,
    S2_SLOT_TOUR,
    S2_SLOT_BASE, /* the baseline's, at the workbench's question */
    S2_SLOT_COMPARE,
    S2_N_SLOTS = S2_SLOT_COMPARE + S2_TUI_COMPARE
};

/* A slow piece of work: to derive the facts of a slot or, from existing facts, a mask, their late part or reach. */
enum { S2_ORDER_MASK = -1, S2_ORDER_LATE = -2, S2_ORDER_REACH = -3 };
typedef struct s2_order {
    int32_t slot; /* or S2_ORDER_... */
    int64_t id;   /* of the design that is opened */
    s2_buf text;
    s2_question question;
    s2_facts facts;
    bool brought; /* its text is a design from elsewhere, not a step of the one before */
    const s2_facts *of;
    s2_mask_image grid;
    s2_late late;
    s2_followed followed;
} s2_order;

typedef struct s2_session {
    s2_tui_model model;
    s2_tui_state state;
    s2_canvas canvas;
    bool deferred;
    bool lacked_memory; /* something that belongs on the screen could not be derived or drawn */
    int64_t n_refused;  /* allocations of the process when the screen was last drawn, or the session began */
    bool calm;          /* if deferred: nobody is typing just now, so late facts may be derived */
    int64_t last_serial;
    s2_facts facts[S2_N_SLOTS];
    s2_buf text[S2_N_SLOTS]; /* the pattern wanted in each slot */
    bool stale[S2_N_SLOTS];  /* the slot's facts are those of another text or question */
    int64_t wanted_id;       /* of the design whose text is wanted */
    s2_question asked;       /* what the list tells of it; of no tokens: nothing */
    bool beside_base;        /* it was wanted while a baseline was pinned */
    int32_t tour;            /* 1 + the step whose design is wanted or derived; 0: none yet */
    int32_t building;        /* the slot whose facts are being derived; -1: none */
    s2_grids grids;
} s2_session;

/* S2_ENOMEM. The session can be released in any case. */
s2_status s2_session_init(s2_session *session, int32_t rows, int32_t cols, bool ascii,
                          s2_view_id first) S2_MUST_CHECK;
void s2_session_release(s2_session *session);

/* A key, a click or pasted text as the terminal hands it over; a new size. */
void s2_session_key(s2_session *session, int32_t key);
void s2_session_click(s2_session *session, int32_t row, int32_t col, int32_t wheel);
void s2_session_paste(s2_session *session, const char *text);
s2_status s2_session_resize(s2_session *session, int32_t rows, int32_t cols) S2_MUST_CHECK;
/*
 * Open the design of this id by its canonical text. Its facts answer the question that the list's numbers
 * answer; where it is NULL or of no tokens, or a baseline is pinned, that of the workbench.
 */
void s2_session_open(s2_session *session, int64_t id, const char *text, const s2_question *asked);
void s2_session_close(s2_session *session);
/* Put a pattern on the workbench, as a change that can be undone; false if its text is too long to edit. */
bool s2_session_bring(s2_session *session, const s2_pattern *pattern);
/* Take a stored design to the workbench, as `e` does of one whose facts are there. */
void s2_session_to_bench(s2_session *session, const s2_pattern *pattern);
/* Begin typing a pattern, from this text and with the caret before this byte of it; stop typing. */
void s2_session_type(s2_session *session, const char *text, int32_t caret);
void s2_session_leave_typing(s2_session *session);
/* Begin with these knobs and this pattern, as text if no knobs express it; both count as saved. */
void s2_session_restore(s2_session *session, const s2_knobs *knobs, const char *text);
/* As s2_tui_saved. */
void s2_session_saved(s2_session *session, const s2_knobs *knobs, const char *text, const char *name);
/* Empty the comparison; add a column to it, whose name must outlive it. */
void s2_session_compare_none(s2_session *session);
void s2_session_compare_add(s2_session *session, const char *name, const char *text);
/*
 * Draw the screen; unless deferred, what it lacks is derived first. Where an allocation was refused since the last
 * drawing, be it for a row of the list or a word, the screen says so, and the canvas has the status S2_ENOMEM.
 */
void s2_session_draw(s2_session *session);

/*
 * The next order after a draw; false: there is nothing left to do. Carry the order out with s2_order_do and
 * hand it back with s2_session_take before asking for another.
 */
bool s2_session_next(s2_session *session, s2_order *order);
/* Would there be more to do if the session were calm? */
bool s2_session_longs(const s2_session *session);
void s2_order_do(s2_order *order);
void s2_session_take(s2_session *session, s2_order *order);

#endif /* S2_TUI_SESSION_H */
