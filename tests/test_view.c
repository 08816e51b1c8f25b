/*
 * Properties of every view of S2_VIEW_TABLE, with nothing stored and nothing running: what docs/adding-a-view.md
 * promises of a new one.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tests/s2test.h"
#include "tui/session.h"
#include "tui/view.h"

static const s2_view_ops *const OPS[S2_N_VIEWS] = {
#define OPS_OF(id, view, ...) &s2_view_##view,
    S2_VIEW_TABLE(OPS_OF)
#undef OPS_OF
};
static const int32_t KEYS[S2_N_VIEWS] = {
#define KEY_OF(id, view, title, key, ...) key,
    S2_VIEW_TABLE(KEY_OF)
#undef KEY_OF
};

/* One session for all: the facts of its workbench are what takes longest. */
static s2_session session;
static s2_tui_state started;

static int start(void **state)
{
    (void)state;
    if (s2_session_init(&session, 24, 80, true, S2_VIEW_DESIGNS) != S2_OK)
        return -1;
    session.deferred = true;
    session.model.source = "samples";
    session.model.database = "";
    started = session.state;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    s2_session_release(&session);
    return 0;
}

/* As it was at the start, in another view and of another size. */
static void begin(int32_t rows, int32_t cols, int view)
{
    session.state = started;
    session.state.views[0] = (s2_view_id)view;
    assert_int_equal(s2_session_resize(&session, rows, cols), S2_OK);
}

static const char *drawn(s2_buf *screen)
{
    screen->len = 0;
    s2_session_draw(&session);
    s2_canvas_dump(&session.canvas, false, screen);
    s2_buf_add(screen, "", 1);
    assert_int_equal(screen->status, S2_OK);
    return screen->data;
}

static void every_view_is_drawn_under_its_title_at_any_size(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(3)};
    s2_buf screen = {0};
    for (int view = 0; view < S2_N_VIEWS; view++) {
        const s2_view_info *const info = s2_view_info_of((s2_view_id)view);
        for (int64_t n = s2_test_cases(20); n > 0; n--) {
            const int32_t rows = 5 + (int32_t)s2_rng_below(&rng, 56),
                          cols = 30 + (int32_t)s2_rng_below(&rng, 171);
            begin(rows, cols, view);
            const char *const text = drawn(&screen), *const title = strstr(text, info->title);
            if (session.canvas.n_overlaps > 0)
                fail_msg("%s at %dx%d writes over its own text:\n%s", info->word, (int)cols, (int)rows, text);
            if (session.canvas.n_lost > 0)
                fail_msg("%s at %dx%d writes where nothing is seen:\n%s", info->word, (int)cols, (int)rows,
                         text);
            if (title == NULL || title > strchr(text, '\n'))
                fail_msg("%s has no title in its first line:\n%s", info->word, text);
        }
        print_message("view %s\n", info->word);
    }
    s2_buf_release(&screen);
}

static void its_key_goes_to_a_view_from_every_other_and_q_comes_back(void **state)
{
    (void)state;
    for (int from = 0; from < S2_N_VIEWS; from++)
        for (int to = 0; to < S2_N_VIEWS; to++) {
            if (KEYS[to] == 0 || from == to)
                continue;
            begin(24, 80, from);
            s2_session_key(&session, KEYS[to]);
            if (s2_view_shown(&session.state) != (s2_view_id)to)
                fail_msg("key %c does not lead to %s", (char)KEYS[to], s2_view_info_of((s2_view_id)to)->word);
            s2_session_key(&session, 'q');
            assert_int_equal(s2_view_shown(&session.state), from);
        }
}

static void every_key_of_a_view_is_taken_and_its_footer_names_keys_that_it_has(void **state)
{
    (void)state;
    s2_buf screen = {0};
    for (int view = 0; view < S2_N_VIEWS; view++) {
        for (int32_t nth = 0; nth < s2_binding_count(); nth++) {
            const s2_binding *const b = s2_binding_at(nth);
            if ((b->views & (1u << view)) == 0)
                continue;
            begin(24, 80, view);
            s2_session_key(&session, b->keys[0]);
            drawn(&screen);
        }
        const s2_action *const footer = OPS[view]->footer;
        assert_int_not_equal(footer[0], S2_ACT_NONE);
        for (int32_t at = 0; at < S2_FOOTER_KEYS && footer[at] != S2_ACT_NONE; at++)
            if (s2_binding_of((s2_view_id)view, footer[at]) == NULL)
                fail_msg("the footer of %s names a key that it does not have",
                         s2_view_info_of((s2_view_id)view)->word);
    }
    s2_buf_release(&screen);
}

/* Wherever it is, a click leaves a state that can be drawn; where the view takes none, nothing changes in its body. */
static void a_click_on_any_cell_of_a_view_leaves_what_can_be_drawn(void **state)
{
    (void)state;
    s2_buf screen = {0};
    for (int view = 0; view < S2_N_VIEWS; view++) {
        begin(24, 80, view);
        const s2_rect body = s2_layout_frame(24, 80).body;
        const s2_tui_state before = session.state;
        for (int32_t row = 0; row < 24; row++)
            for (int32_t col = 0; col < 80; col += 3) {
                session.state = before;
                s2_session_click(&session, row, col, 0);
                if (OPS[view]->click == NULL && s2_rect_holds(body, row, col))
                    assert_memory_equal(&session.state, &before, sizeof before);
                if (memcmp(&session.state, &before, sizeof before) != 0)
                    drawn(&screen);
            }
    }
    s2_buf_release(&screen);
}

/* Draw while the nth allocation is refused; true if there was one. */
static bool drawn_without(int64_t nth, s2_buf *screen)
{
    int64_t left = nth - 1;
    s2_alloc_set_hook(s2_test_fail_one, &left);
    s2_session_draw(&session);
    s2_alloc_set_hook(NULL, NULL);
    screen->len = 0;
    s2_canvas_dump(&session.canvas, true, screen);
    assert_int_equal(screen->status, S2_OK);
    return left < 0;
}

/* Each allocation of a drawing is refused once: the drawing is whole, or says that memory ran out. */
static void refuse_each(int view, s2_mode mode, s2_buf *whole, s2_buf *screen, int64_t *n_refused)
{
    begin(30, 100, view);
    session.state.mode = mode;
    assert_false(drawn_without(INT64_MAX, whole));
    assert_int_equal(session.canvas.status, S2_OK);
    for (int64_t nth = 1; session.state.message[0] = '\0', drawn_without(nth, screen); nth++, ++*n_refused) {
        const bool same = screen->len == whole->len && memcmp(screen->data, whole->data, whole->len) == 0;
        if (session.canvas.status != S2_ENOMEM ? !same
                                               : strstr(session.state.message, "memory ran out") == NULL)
            fail_msg("%s without allocation %lld, status %d:\n%s", s2_view_info_of((s2_view_id)view)->word,
                     (long long)nth, (int)session.canvas.status, screen->data);
    }
}

static void a_drawing_for_which_memory_ran_out_says_so(void **state)
{
    (void)state;
    static const char text[] = "name a\nheads 4\nlayers all: local 2 | stride 4 phase head\n";
    s2_buf whole = {0}, screen = {0};
    int64_t n_refused = 0;
    session.deferred = false;
    s2_session_open(&session, session.state.design_id, text, NULL);
    s2_session_compare_none(&session);
    s2_session_compare_add(&session, "one", text);
    s2_session_compare_add(&session, "other", "heads 2; layers all: local 3");
    for (int view = 0; view < S2_N_VIEWS; view++) {
        refuse_each(view, S2_MODE_KEYS, &whole, &screen, &n_refused);
        refuse_each(view, S2_MODE_COMMAND, &whole, &screen, &n_refused);
    }
    assert_true(n_refused >= 2 * S2_N_VIEWS);
    print_message("# s2: %lld allocations of %d views refused, each told\n", (long long)n_refused,
                  (int)S2_N_VIEWS);
    s2_session_close(&session);
    s2_session_compare_none(&session);
    session.deferred = true;
    s2_buf_release(&whole);
    s2_buf_release(&screen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_view_is_drawn_under_its_title_at_any_size),
        cmocka_unit_test(its_key_goes_to_a_view_from_every_other_and_q_comes_back),
        cmocka_unit_test(every_key_of_a_view_is_taken_and_its_footer_names_keys_that_it_has),
        cmocka_unit_test(a_click_on_any_cell_of_a_view_leaves_what_can_be_drawn),
        cmocka_unit_test(a_drawing_for_which_memory_ran_out_says_so),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
