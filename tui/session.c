#include "tui/session.h"

#include <string.h>

static void build_bench(s2_session *session)
{
    s2_buf text = {0};
    const s2_question question = s2_knobs_question(&session->state.knobs);
    s2_knobs_text(&session->state.knobs, "\n", &text);
    s2_facts_release(&session->bench);
    s2_facts_build(text.data != NULL ? text.data : "", text.len, &question, &session->bench);
    s2_buf_release(&text);
    session->model.bench = &session->bench;
}

s2_status s2_session_init(s2_session *session, int32_t rows, int32_t cols, bool ascii, s2_view_id first)
{
    *session = (s2_session){.state = s2_tui_state_init(rows, cols, first)};
    session->model.source = "";
    build_bench(session);
    return s2_canvas_init(&session->canvas, session->state.rows, session->state.cols, ascii);
}

void s2_session_release(s2_session *session)
{
    s2_facts_release(&session->bench);
    s2_session_close(session);
    s2_session_compare_none(session);
    s2_canvas_release(&session->canvas);
}

void s2_session_key(s2_session *session, int32_t key)
{
    const s2_knobs before = session->state.knobs;
    s2_tui_step(&session->model, &session->state, key);
    if (memcmp(&before, &session->state.knobs, sizeof before) != 0)
        build_bench(session);
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

void s2_session_open(s2_session *session, const char *text)
{
    const s2_question question = s2_knobs_question(&session->state.knobs);
    s2_session_close(session);
    s2_facts_build(text, strlen(text), &question, &session->design);
    session->model.design = &session->design;
}

void s2_session_close(s2_session *session)
{
    if (session->model.design != NULL)
        s2_facts_release(&session->design);
    session->model.design = NULL;
}

void s2_session_compare_none(s2_session *session)
{
    for (int32_t at = 0; at < session->model.n_compare; at++)
        s2_facts_release(&session->compare[at]);
    session->model.n_compare = 0;
}

void s2_session_compare_add(s2_session *session, const char *name, const char *text)
{
    const int32_t at = session->model.n_compare;
    if (at == S2_TUI_COMPARE)
        return;
    const s2_question question = s2_knobs_question(&session->state.knobs);
    s2_facts_build(text, strlen(text), &question, &session->compare[at]);
    session->model.compare[at] = &session->compare[at];
    session->model.compare_name[at] = name;
    session->model.n_compare++;
}

void s2_session_draw(s2_session *session)
{
    s2_tui_draw(&session->model, &session->state, &session->canvas);
}
