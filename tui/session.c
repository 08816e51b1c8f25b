#include "tui/session.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "tui/view.h"

enum { TOUR_TOK = 8192 };

/* What could not be derived for want of memory is missing on the screen, so the screen says it. */
static void note(s2_session *session, s2_status status)
{
    if (status != S2_ENOMEM)
        return;
    session->lacked_memory = true;
    snprintf(session->state.message, sizeof session->state.message,
             "memory ran out: some of what belongs here is missing");
}

static void want(s2_session *session, int32_t slot, const char *text, size_t n)
{
    s2_buf *const wanted = &session->text[slot];
    if (wanted->status != S2_OK)
        s2_buf_release(wanted);
    wanted->len = 0;
    s2_buf_add(wanted, text, n);
    note(session, wanted->status);
    session->stale[slot] = true;
}

static void show_waiting(s2_session *session)
{
    session->model.bench_waits = session->stale[S2_SLOT_BENCH] || session->building == S2_SLOT_BENCH;
    session->model.design_waits = session->stale[S2_SLOT_DESIGN] || session->building == S2_SLOT_DESIGN;
}

/* Carry out every order for facts here and now. */
static void catch_up(s2_session *session)
{
    s2_order order;
    bool pending = false;
    for (int32_t slot = 0; slot < S2_N_SLOTS; slot++)
        pending = pending || session->stale[slot];
    while (pending && s2_session_next(session, &order)) {
        pending = order.slot >= 0;
        s2_order_do(&order);
        s2_session_take(session, &order);
    }
}

static void changed(s2_session *session)
{
    if (!session->deferred)
        catch_up(session);
    show_waiting(session);
}

static void want_bench(s2_session *session)
{
    s2_buf text = {0};
    s2_tui_pattern(&session->state, &text);
    note(session, text.status);
    want(session, S2_SLOT_BENCH, text.data != NULL ? text.data : "", text.len);
    s2_buf_release(&text);
    changed(session);
}

/* The baseline answers the same question as the workbench, and what is shown beside it the same. */
static void follow_base(s2_session *session, bool asked_anew)
{
    if (session->model.design != NULL && session->beside_base != (session->state.base[0] != '\0')) {
        session->stale[S2_SLOT_DESIGN] = true;
        changed(session);
    }
    const s2_buf *const have = &session->text[S2_SLOT_BASE];
    const char *const base = session->state.base;
    const size_t n = strlen(base);
    if (n == 0) {
        session->model.base = NULL;
        return;
    }
    if (!asked_anew && have->len == n && memcmp(have->data, base, n) == 0)
        return;
    want(session, S2_SLOT_BASE, base, n);
    changed(session);
}

/* Derive the workbench anew if a key changed its pattern or its question. */
static void follow_bench(s2_session *session, const s2_knobs *before)
{
    const s2_buf *const have = &session->text[S2_SLOT_BENCH];
    s2_buf now = {0};
    s2_tui_pattern(&session->state, &now);
    const bool same = now.len == have->len && (now.len == 0 || memcmp(now.data, have->data, now.len) == 0) &&
                      memcmp(before, &session->state.knobs, sizeof *before) == 0;
    s2_buf_release(&now);
    if (!same)
        want_bench(session);
    else if (!session->stale[S2_SLOT_BENCH])
        session->state.brought = false;
    follow_base(session, !same);
}

s2_status s2_session_init(s2_session *session, int32_t rows, int32_t cols, bool ascii, s2_view_id first)
{
    memset(session, 0, sizeof *session);
    s2_tui_state_init(&session->state, rows, cols, first);
    session->building = -1;
    session->n_refused = s2_alloc_n_refused();
    session->model.source = session->model.database = "";
    session->model.grids = &session->grids;
    want_bench(session);
    return s2_canvas_init(&session->canvas, session->state.rows, session->state.cols, ascii);
}

void s2_session_release(s2_session *session)
{
    for (int32_t slot = 0; slot < S2_N_SLOTS; slot++) {
        s2_facts_release(&session->facts[slot]);
        s2_buf_release(&session->text[slot]);
    }
    s2_grids_release(&session->grids);
    s2_canvas_release(&session->canvas);
}

void s2_session_key(s2_session *session, int32_t key)
{
    const s2_knobs before = session->state.knobs;
    s2_tui_step(&session->model, &session->state, key);
    follow_bench(session, &before);
}

void s2_session_click(s2_session *session, int32_t row, int32_t col, int32_t wheel)
{
    const s2_knobs before = session->state.knobs;
    s2_tui_click(&session->model, &session->state, row, col, wheel);
    follow_bench(session, &before);
}

void s2_session_paste(s2_session *session, const char *text)
{
    const s2_knobs before = session->state.knobs;
    s2_tui_paste(&session->model, &session->state, text);
    follow_bench(session, &before);
}

s2_status s2_session_resize(s2_session *session, int32_t rows, int32_t cols)
{
    s2_canvas canvas;
    s2_tui_resize(&session->state, rows, cols);
    S2_TRY(s2_canvas_init(&canvas, session->state.rows, session->state.cols, session->canvas.ascii));
    s2_canvas_release(&session->canvas);
    session->canvas = canvas;
    s2_tui_settle(&session->model, &session->state);
    return S2_OK;
}

void s2_session_open(s2_session *session, int64_t id, const char *text, const s2_question *asked)
{
    session->wanted_id = id;
    session->asked = asked != NULL ? *asked : (s2_question){0};
    want(session, S2_SLOT_DESIGN, text, strlen(text));
    changed(session);
}

bool s2_session_bring(s2_session *session, const s2_pattern *pattern)
{
    const s2_knobs before = session->state.knobs;
    const bool fits = s2_bench_take(&session->state, pattern);
    follow_bench(session, &before);
    return fits;
}

void s2_session_to_bench(s2_session *session, const s2_pattern *pattern)
{
    const s2_knobs before = session->state.knobs;
    s2_subject_to_bench(&session->state, pattern);
    follow_bench(session, &before);
}

void s2_session_type(s2_session *session, const char *text, int32_t caret)
{
    s2_tui_state *const state = &session->state;
    const s2_knobs before = state->knobs;
    s2_prompt_open(state, S2_MODE_TEXT, text);
    state->caret = s2_min_i32(caret, state->caret);
    follow_bench(session, &before);
}

void s2_session_leave_typing(s2_session *session)
{
    const s2_knobs before = session->state.knobs;
    session->state.mode = S2_MODE_KEYS;
    follow_bench(session, &before);
}

void s2_session_restore(s2_session *session, const s2_knobs *knobs, const char *text)
{
    s2_tui_state *const state = &session->state;
    const s2_knobs before = state->knobs;
    state->knobs = *knobs;
    s2_bench_take_text(state, text);
    state->n_steps = state->n_undo = 0;
    state->brought = true;
    state->knobs_saved = state->knobs;
    memcpy(state->text_saved, state->text, sizeof state->text_saved);
    follow_bench(session, &before);
}

void s2_session_saved(s2_session *session, const s2_knobs *knobs, const char *text, const char *name)
{
    const s2_knobs before = session->state.knobs;
    s2_tui_saved(&session->state, knobs, text, name);
    follow_bench(session, &before);
}

/* The facts stay until others replace them: an order may be reading them. */
void s2_session_close(s2_session *session)
{
    session->stale[S2_SLOT_DESIGN] = false;
    session->model.design = NULL;
    show_waiting(session);
}

void s2_session_compare_none(s2_session *session)
{
    for (int32_t at = 0; at < S2_TUI_COMPARE; at++)
        session->stale[S2_SLOT_COMPARE + at] = false;
    session->model.n_compare = 0;
}

void s2_session_compare_add(s2_session *session, const char *name, const char *text)
{
    const int32_t nth = session->model.n_compare;
    if (nth == S2_TUI_COMPARE)
        return;
    session->model.compare[nth] = NULL;
    session->model.compare_name[nth] = name;
    session->model.n_compare++;
    want(session, S2_SLOT_COMPARE + nth, text, strlen(text));
    changed(session);
}

/* ---- orders */

static bool next_facts(s2_session *session, s2_order *order)
{
    for (int32_t slot = 0; slot < S2_N_SLOTS; slot++) {
        if (!session->stale[slot])
            continue;
        *order = (s2_order){
            .slot = slot, .id = session->wanted_id, .question = s2_knobs_question(&session->state.knobs)};
        if (slot == S2_SLOT_TOUR)
            order->question = s2_question_default(TOUR_TOK);
        if (slot == S2_SLOT_DESIGN) {
            session->beside_base = session->state.base[0] != '\0';
            if (session->asked.len_tok > 0 && !session->beside_base)
                order->question = session->asked;
        }
        s2_buf_add(&order->text, session->text[slot].data, session->text[slot].len);
        note(session, order->text.status);
        if (slot == S2_SLOT_BENCH) {
            order->brought = session->state.brought;
            session->state.brought = false;
        }
        session->stale[slot] = false;
        session->building = slot;
        return true;
    }
    return false;
}

static bool next_mask(s2_session *session, s2_order *order)
{
    const s2_grid_key *const key = &session->grids.lacked;
    const s2_facts *of = NULL;
    for (int32_t slot = 0; slot < S2_N_SLOTS; slot++)
        if (session->facts[slot].serial == key->source && session->facts[slot].status == S2_OK)
            of = &session->facts[slot];
    if (!session->grids.lacks || of == NULL)
        return false;
    *order = (s2_order){.slot = S2_ORDER_MASK, .of = of, .grid = {.key = *key}};
    return true;
}

/* The slot of the facts that the view mainly shows, -1 for none. */
static int32_t shown_slot(const s2_session *session)
{
    const s2_view_id view = session->state.views[session->state.depth];
    if (view == S2_VIEW_BENCH)
        return S2_SLOT_BENCH;
    return (view == S2_VIEW_DESIGN || view == S2_VIEW_DESIGNS) &&
                   s2_subject_facts(&session->model, &session->state) != NULL
               ? S2_SLOT_DESIGN
               : -1;
}

/* no heads: not built yet */
static bool is_built(const s2_facts *facts)
{
    return facts->status == S2_OK && facts->pattern.n_heads > 0;
}

static bool lacks_late(const s2_session *session, int32_t slot)
{
    return is_built(&session->facts[slot]) && !session->facts[slot].late.asked;
}

/* The first of the compared designs whose late facts are missing, -1 for none. */
static int32_t late_compared(const s2_session *session)
{
    for (int32_t at = 0; at < session->model.n_compare; at++)
        if (session->model.compare[at] != NULL && lacks_late(session, S2_SLOT_COMPARE + at))
            return S2_SLOT_COMPARE + at;
    return -1;
}

/* The slot whose late facts are to be derived next, -1 for none. */
static int32_t late_slot(const s2_session *session)
{
    if (session->state.views[session->state.depth] == S2_VIEW_COMPARE)
        return late_compared(session);
    const int32_t shown = shown_slot(session);
    if (shown < 0 || lacks_late(session, shown))
        return shown;
    return shown == S2_SLOT_BENCH && session->model.base != NULL && lacks_late(session, S2_SLOT_BASE)
               ? S2_SLOT_BASE
               : -1;
}

/* The facts whose reach is shown, but was not followed yet; else NULL. */
static const s2_facts *unfollowed(const s2_session *session)
{
    const s2_facts *const facts = session->state.views[session->state.depth] == S2_VIEW_REACH
                                      ? s2_view_facts(&session->model, &session->state)
                                      : NULL;
    return facts != NULL && is_built(facts) && !facts->followed.asked ? facts : NULL;
}

bool s2_session_longs(const s2_session *session)
{
    return late_slot(session) >= 0 || unfollowed(session) != NULL;
}

/* Late facts and reach come last, when no knob is being turned: they need the plans of all layers, or all pairs. */
static bool next_late(s2_session *session, s2_order *order)
{
    if ((session->deferred && !session->calm) || !s2_session_longs(session))
        return false;
    const int32_t late = late_slot(session);
    *order = late >= 0 ? (s2_order){.slot = S2_ORDER_LATE, .of = &session->facts[late]}
                       : (s2_order){.slot = S2_ORDER_REACH, .of = unfollowed(session)};
    return true;
}

bool s2_session_next(s2_session *session, s2_order *order)
{
    return next_facts(session, order) || next_mask(session, order) || next_late(session, order);
}

void s2_order_do(s2_order *order)
{
    const char *const text = order->text.data != NULL ? order->text.data : "";
    if (order->slot == S2_ORDER_LATE) {
        s2_facts_late(order->of, &order->late);
    } else if (order->slot == S2_ORDER_REACH) {
        s2_facts_follow(order->of, &order->followed);
    } else if (order->slot >= 0) {
        s2_facts_build(text, order->text.len, &order->question, &order->facts);
    } else {
        s2_facts_grid(order->of, &order->grid);
    }
}

static void take_facts(s2_session *session, s2_order *order)
{
    s2_facts *const slot = &session->facts[order->slot];
    if (order->slot == S2_SLOT_BENCH && order->brought)
        session->model.before = (s2_tally){0};
    else if (order->slot == S2_SLOT_BENCH && slot->serial != 0 && slot->status == S2_OK)
        session->model.before = s2_facts_tally(slot);
    s2_facts_release(slot);
    *slot = order->facts;
    slot->serial = ++session->last_serial;
    if (order->slot == S2_SLOT_BENCH)
        session->model.bench = slot;
    else if (order->slot == S2_SLOT_DESIGN) {
        session->model.design = slot;
        session->model.design_id = order->id;
    } else if (order->slot == S2_SLOT_TOUR)
        session->model.tour = slot;
    else if (order->slot == S2_SLOT_BASE)
        session->model.base = slot;
    else
        session->model.compare[order->slot - S2_SLOT_COMPARE] = slot;
}

/* Only an order replaces facts, and only one is out at a time, so these are the facts it was made for. */
static void take_late(s2_session *session, const s2_order *order)
{
    for (int32_t slot = 0; slot < S2_N_SLOTS; slot++)
        if (&session->facts[slot] == order->of && order->slot == S2_ORDER_LATE)
            session->facts[slot].late = order->late;
        else if (&session->facts[slot] == order->of)
            session->facts[slot].followed = order->followed;
}

void s2_session_take(s2_session *session, s2_order *order)
{
    note(session, order->slot >= 0               ? order->facts.status
                  : order->slot == S2_ORDER_LATE ? order->late.status
                                                 : order->grid.status);
    if (order->slot >= 0)
        take_facts(session, order);
    else if (order->slot != S2_ORDER_MASK)
        take_late(session, order);
    else
        s2_grids_put(&session->grids, &order->grid);
    s2_buf_release(&order->text);
    session->building = -1;
    show_waiting(session);
}

/* The tour brings its own designs. */
static void want_tour(s2_session *session)
{
    const s2_tui_state *const state = &session->state;
    if (state->views[state->depth] != S2_VIEW_TOUR || session->tour == state->tour + 1)
        return;
    const char *const text = s2_tour_pattern(state->tour);
    session->tour = state->tour + 1;
    session->model.tour = NULL;
    want(session, S2_SLOT_TOUR, text, strlen(text));
    changed(session);
}

/* Each view is drawn from many small pieces; those that memory ran out for are told here for all of them. */
static void tell_refused(s2_session *session)
{
    const bool refused = s2_alloc_n_refused() != session->n_refused;
    if (refused) {
        note(session, S2_ENOMEM);
        s2_tui_draw(&session->model, &session->state, &session->canvas);
    }
    session->canvas.status = refused ? S2_ENOMEM : S2_OK;
    session->n_refused = s2_alloc_n_refused();
}

void s2_session_draw(s2_session *session)
{
    s2_order order;
    want_tour(session);
    session->grids.lacks = false;
    s2_tui_draw(&session->model, &session->state, &session->canvas);
    while (!session->deferred && (next_mask(session, &order) || next_late(session, &order))) {
        s2_order_do(&order);
        s2_session_take(session, &order);
        session->grids.lacks = false;
        s2_tui_draw(&session->model, &session->state, &session->canvas);
    }
    tell_refused(session);
}
