/* Keys of a terminal, and what is done while none comes. */
#include "explorer/internal.h"

#include <time.h>

enum { IDLE_MS = 250, FRAME_MS = 12, BUSY_MS = 100 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void do_order(void *order)
{
    s2_order_do(order);
}

/* Draws until nothing is lacking, or a frame's time is over; what is left is done while keys are awaited. */
static void settle(s2_explorer *e)
{
    const double until = now_ms() + FRAME_MS;
    for (;;) {
        const double left = until - now_ms();
        if (e->facts_worker.busy && !s2_worker_wait(&e->facts_worker, left > 0 ? left : 0))
            break;
        if (s2_worker_collect(&e->facts_worker))
            s2_session_take(&e->session, &e->order);
        s2_session_draw(&e->session);
        if (!s2_session_next(&e->session, &e->order))
            return;
        s2_worker_post(&e->facts_worker, do_order, &e->order);
    }
    s2_session_draw(&e->session);
}

static void show(s2_explorer *e)
{
    settle(e);
    s2_terminal_show(e->term, &e->session.canvas);
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

/* Whatever speaks when something is done. */
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

/* Wait for a key, what a job says, or what a worker finished; true when the screen is to be drawn. */
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
    if (now_ms() - *looked < IDLE_MS)
        return changed;
    *looked = now_ms();
    return s2_explorer_follow(e) || changed;
}

/* A frame's time for what the preview lacks, unless a key comes before. */
static int32_t await_facts(s2_explorer *e)
{
    if (!e->facts_worker.busy && s2_session_next(&e->session, &e->order))
        s2_worker_post(&e->facts_worker, do_order, &e->order);
    return s2_terminal_key(e->term, FRAME_MS, &e->facts_worker.event_fd, e->facts_worker.started ? 1 : 0);
}

static void loop(s2_explorer *e)
{
    double looked = now_ms();
    int32_t key = S2_TERM_RESIZED;
    bool go_on = true;
    while (go_on && key != S2_TERM_END) {
        bool changed = key != S2_TERM_NOTHING;
        if (changed)
            go_on = take_key(e, key);
        if (!go_on)
            break;
        if (changed)
            show(e);
        /* the preview waits until no key does, so that moving through the list never does */
        key = s2_terminal_key(e->term, 0, NULL, 0);
        if (key != S2_TERM_NOTHING)
            continue;
        if (s2_explorer_preview(e)) {
            key = await_facts(e);
            if (key != S2_TERM_NOTHING)
                continue;
            show(e);
        }
        if (idle(e, &key, &looked))
            show(e);
    }
}

/* Nobody waits for what nobody will see. */
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
    /* without threads it waits where it would otherwise go on; that is all */
    e->session.deferred = s2_worker_start(&e->facts_worker) == S2_OK;
    (void)!s2_worker_start(&e->list_worker);
    (void)!s2_worker_start(&e->front_worker);
    (void)!s2_worker_start(&e->change_worker);
    loop(e);
    s2_terminal_close(&e->term);
    leave_facts(e);
    return S2_OK;
}
