/* Obeys the keys of a terminal, and does other work while none comes. */
#include "explorer/internal.h"

/* A key shows within a frame of 16 ms: half for deriving facts, half for painting and a busy machine. */
enum { IDLE_MS = 250, FRAME_MS = 8, BUSY_MS = 100 };

static void do_order(void *order)
{
    s2_order_do(order);
}

static void begin_frame(s2_explorer *e)
{
    e->due_ms = s2_worker_now_ms() + FRAME_MS;
}

/* Wait for the facts being derived, until the frame is over or a key comes; returns that key. */
static int32_t await_facts(s2_explorer *e)
{
    const int32_t left = (int32_t)(e->due_ms - s2_worker_now_ms());
    const bool wanted = !s2_explorer_lacks_preview(e) && !s2_worker_wait(&e->facts_worker, 0);
    return wanted && left > 0 ? s2_terminal_key(e->term, left, &e->facts_worker.event_fd, 1)
                              : S2_TERM_NOTHING;
}

/*
 * Draw until nothing is missing, a key comes (which is returned) or the frame is over; the rest is done while
 * waiting for keys.
 */
static int32_t settle(s2_explorer *e)
{
    int32_t key = S2_TERM_NOTHING;
    for (;;) {
        if (e->facts_worker.busy) {
            key = await_facts(e);
            if (!s2_worker_collect(&e->facts_worker))
                break;
            s2_session_take(&e->session, &e->order);
        }
        s2_session_draw(&e->session);
        if (key != S2_TERM_NOTHING || !s2_session_next(&e->session, &e->order))
            return key;
        s2_worker_post(&e->facts_worker, do_order, &e->order);
    }
    s2_session_draw(&e->session);
    return key;
}

static void paint(s2_explorer *e)
{
    s2_terminal_show(e->term, &e->session.canvas);
}

/* Show what changed without a key, unless a key comes before it can be seen: that key is returned. */
static int32_t show_change(s2_explorer *e)
{
    begin_frame(e);
    const int32_t key = settle(e);
    if (key == S2_TERM_NOTHING)
        paint(e);
    return key;
}

static bool resize(s2_explorer *e)
{
    int32_t rows, cols;
    s2_terminal_size(e->term, &rows, &cols);
    return s2_session_resize(&e->session, rows, cols) == S2_OK;
}

static bool take_key(s2_explorer *e, int32_t key)
{
    int32_t row, col, wheel;
    e->session.calm = false;
    if (key == S2_TERM_RESIZED)
        return resize(e);
    if (key == S2_TERM_PASTE)
        return s2_explorer_paste(e, s2_terminal_pasted(e->term));
    if (key != S2_TERM_CLICK)
        return s2_explorer_press(e, key);
    s2_terminal_clicked(e->term, &row, &col, &wheel);
    return s2_explorer_click(e, row, col, wheel);
}

/* The descriptors that become readable when something is done. */
static int32_t files_of(const s2_explorer *e, int *files, int32_t cap)
{
    const s2_worker *const workers[] = {&e->list_worker, &e->front_worker, &e->facts_worker,
                                        &e->change_worker};
    int32_t n = s2_explorer_job_files(e, files, cap);
    for (size_t w = 0; w < sizeof workers / sizeof workers[0]; w++)
        if (workers[w]->busy && n < cap)
            files[n++] = workers[w]->event_fd;
    return n;
}

/* Wait for a key, a job's output or a worker's result; true when the screen must be redrawn. */
static bool idle(s2_explorer *e, int32_t *key, double *looked)
{
    int files[8];
    const int32_t n_files = files_of(e, files, 8);
    const bool longs = !e->session.calm && !e->facts_worker.busy && s2_session_longs(&e->session);
    *key = s2_terminal_key(e->term, longs || s2_explorer_works(e) ? BUSY_MS : IDLE_MS, files, n_files);
    e->session.calm = longs && *key == S2_TERM_NOTHING;
    bool changed = s2_explorer_change_collect(e) || e->session.calm;
    changed = s2_explorer_pump(e) || changed;
    changed = s2_explorer_list_collect(e) || changed;
    changed = s2_explorer_front_collect(e) || changed;
    changed = (e->facts_worker.busy && s2_worker_wait(&e->facts_worker, 0)) || changed;
    if (s2_worker_now_ms() - *looked < IDLE_MS)
        return changed;
    *looked = s2_worker_now_ms();
    return s2_explorer_follow(e) || changed;
}

/* Show what a key does before taking the next key; returns that one if it is already there. */
static int32_t obey(s2_explorer *e, int32_t key, bool *go_on)
{
    begin_frame(e);
    *go_on = take_key(e, key);
    if (!*go_on)
        return S2_TERM_END;
    key = settle(e);
    paint(e);
    return key != S2_TERM_NOTHING ? key : s2_terminal_key(e->term, 0, NULL, 0);
}

static void loop(s2_explorer *e)
{
    double looked = s2_worker_now_ms();
    int32_t key = S2_TERM_RESIZED;
    bool go_on = true;
    while (go_on && key != S2_TERM_END) {
        if (key != S2_TERM_NOTHING) {
            key = obey(e, key, &go_on);
            continue;
        }
        /* the preview waits until no key is pending, so that moving through the list never waits for it */
        if (s2_explorer_preview(e))
            key = show_change(e);
        if (key == S2_TERM_NOTHING && idle(e, &key, &looked) && key == S2_TERM_NOTHING)
            key = show_change(e);
    }
}

/* Do not wait for facts that nobody will see. */
static void leave_facts(s2_explorer *e)
{
    enum { PATIENCE_MS = 50 };
    if (!s2_worker_stop(&e->facts_worker, PATIENCE_MS))
        e->left_behind = true;
    else if (s2_worker_collect(&e->facts_worker))
        s2_session_take(&e->session, &e->order);
}

s2_status s2_explorer_terminal(s2_explorer *e, s2_diag *diag)
{
    const s2_explorer_options *const given = e->options;
    const s2_terminal_options options = {
        .ascii = given->ascii, .mono = given->mono, .mouse = given->mouse, .palette = given->palette};
    S2_TRY(s2_terminal_open(&options, &e->term, diag));
    e->session.canvas.ascii = s2_terminal_is_ascii(e->term);
    /* without threads the session works too: it waits where it would otherwise go on */
    e->session.deferred = s2_worker_start(&e->facts_worker) == S2_OK;
    (void)!s2_worker_start(&e->list_worker);
    (void)!s2_worker_start(&e->front_worker);
    (void)!s2_worker_start(&e->change_worker);
    loop(e);
    s2_terminal_close(&e->term);
    leave_facts(e);
    return S2_OK;
}
