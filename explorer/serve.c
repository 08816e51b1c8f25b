/* Answers the requests of the views. */
#include "explorer/internal.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "pattern/parse.h"

static void open_design(s2_explorer *e, int64_t id)
{
    s2_arena scratch = {0};
    const char *const text = s2_explorer_text(e, &scratch, id);
    e->shown_id = id;
    const s2_tui_row *const row = s2_explorer_row(e, id);
    if (text != NULL)
        s2_session_open(&e->session, id, text, row != NULL ? &row->asked : NULL);
    else
        s2_session_close(&e->session);
    s2_arena_release(&scratch);
}

bool s2_explorer_lacks_preview(const s2_explorer *e)
{
    const s2_tui_state *const state = &e->session.state;
    return state->views[state->depth] == S2_VIEW_DESIGNS && state->cursor < e->session.model.n_rows &&
           e->rows[state->cursor].id != e->shown_id;
}

bool s2_explorer_preview(s2_explorer *e)
{
    const s2_tui_state *const state = &e->session.state;
    const s2_view_id view = state->views[state->depth];
    const int32_t output = e->output_of;
    const int64_t record = e->record_of;
    bool changed = false;
    if (s2_explorer_lacks_preview(e)) {
        open_design(e, e->rows[state->cursor].id);
        changed = true;
    }
    if (view == S2_VIEW_RUNS || view == S2_VIEW_OUTPUT)
        s2_explorer_output(e);
    if (view == S2_VIEW_DESIGN || view == S2_VIEW_RECORD)
        s2_explorer_record(e, state->design_id);
    return changed || output != e->output_of || record != e->record_of;
}

/* Take the name from the design's row if that is loaded, else from its text. */
static const char *name_of(s2_explorer *e, int64_t id, const char *text)
{
    static const char name[] = "name ";
    const s2_tui_row *const row = s2_explorer_row(e, id);
    const char *shown = row != NULL && row->name[0] != '\0' ? row->name : row != NULL ? row->hash : "unnamed";
    size_t n = strlen(shown);
    if (row == NULL && strncmp(text, name, sizeof name - 1) == 0) {
        shown = text + sizeof name - 1;
        n = strcspn(shown, "\n;");
    }
    return s2_arena_strndup(&e->log, shown, n);
}

static void compare(s2_explorer *e)
{
    s2_arena scratch = {0};
    s2_session_compare_none(&e->session);
    for (int32_t nth = 0; nth < e->session.state.n_marked; nth++) {
        const int64_t id = e->session.state.marked[nth];
        const char *const text = s2_explorer_text(e, &scratch, id);
        const char *const name = text != NULL ? name_of(e, id, text) : NULL;
        if (name != NULL)
            s2_session_compare_add(&e->session, name, text);
    }
    s2_arena_release(&scratch);
}

static void take_to_bench(s2_explorer *e, int64_t id)
{
    const s2_parse_options parse = {.no_files = true};
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    const char *const text = s2_explorer_text(e, &arena, id);
    const s2_status status =
        text == NULL ? S2_OK : s2_pattern_parse(&arena, text, strlen(text), &parse, &pattern, &diag);
    if (text != NULL && status == S2_OK)
        s2_session_to_bench(&e->session, &pattern);
    else if (status != S2_OK)
        s2_explorer_say_failure(e, status, &diag);
    s2_arena_release(&arena);
}

/* A file without a pattern leaves the workbench unchanged, and its name in the prompt for correction. */
static void open_file(s2_explorer *e)
{
    const s2_parse_options parse = {.no_files = true};
    char path[S2_TUI_PROMPT_BYTES];
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    char *text;
    size_t n = 0;
    snprintf(path, sizeof path, "%.*s", (int)sizeof path - 1, e->session.state.prompt);
    s2_status status = s2_bytes_read(&arena, path, S2_LIMIT_TEXT_BYTES, &text, &n);
    if (status == S2_EIO)
        (void)!s2_diag_set(&diag, status, 0, 0, 0, "%.100s", s2_file_why(errno));
    if (status == S2_OK)
        status = s2_pattern_parse(&arena, text, n, &parse, &pattern, &diag);
    if (status != S2_OK) {
        s2_tui_keep(&e->session.state, S2_REQUEST_FILE, path);
        s2_explorer_say(e, "%s:%d:%d: %s", path, (int)diag.line, (int)diag.col, s2_diag_text(&diag, status));
    } else {
        const bool fits = s2_session_bring(&e->session, &pattern);
        s2_explorer_say(e, fits ? "%s: z goes back" : "%s: its text is too long for the workbench", path);
    }
    s2_arena_release(&arena);
}

static void copy_command(s2_explorer *e)
{
    s2_buf buf = {0};
    s2_tui_command(&e->session.model, &e->session.state, &buf);
    const bool whole = buf.len > 0 && buf.status == S2_OK;
    if (e->term != NULL && whole)
        s2_terminal_copy(e->term, buf.data);
    s2_buf_release(&buf);
    s2_explorer_say(e, whole ? "the command was handed to the terminal's clipboard"
                             : "nothing was copied: the design is still being derived");
}

/*
 * Cancel what the title names, and where it names nothing the query of the list: a query begins without a word whenever
 * another process writes, so it must not take the key from what the screen says that the key ends.
 */
static void cancel(s2_explorer *e)
{
    if (s2_explorer_change_give_up(e) || s2_explorer_job_cancel(e))
        return;
    if (e->list_worker.busy && !e->list.counts)
        s2_explorer_list_give_up(e);
    else
        s2_explorer_say(e, "nothing runs in the background");
}

/* False: the session ends. */
static bool serve(s2_explorer *e)
{
    const s2_request request = e->session.state.request;
    e->session.state.request = S2_REQUEST_NONE;
    switch (request) {
    case S2_REQUEST_QUIT: return false;
    case S2_REQUEST_LIST: s2_explorer_list(e); break;
    case S2_REQUEST_MORE: s2_explorer_list_more(e); break;
    case S2_REQUEST_BEFORE: s2_explorer_list_less(e); break;
    case S2_REQUEST_LAST: s2_explorer_list_last(e); break;
    case S2_REQUEST_FRONT: s2_explorer_front(e); break;
    case S2_REQUEST_OPEN:
    case S2_REQUEST_RECORD: open_design(e, e->session.state.request_id); break;
    case S2_REQUEST_TO_BENCH: take_to_bench(e, e->session.state.request_id); break;
    case S2_REQUEST_COMPARE: compare(e); break;
    case S2_REQUEST_FILE: open_file(e); break;
    case S2_REQUEST_COPY: copy_command(e); break;
    case S2_REQUEST_YANK: s2_explorer_yank(e); break;
    case S2_REQUEST_EDITOR: s2_explorer_edit(e); break;
    case S2_REQUEST_VALIDATE: s2_explorer_command(e, "validate"); break;
    case S2_REQUEST_PROVE: s2_explorer_command(e, "check"); break;
    case S2_REQUEST_PRICE: s2_explorer_command(e, "sim"); break;
    case S2_REQUEST_MEASURE: s2_explorer_command(e, "reach"); break;
    case S2_REQUEST_AROUND: s2_explorer_around(e); break;
    case S2_REQUEST_TRY_EXPORT: s2_explorer_try_export(e); break;
    case S2_REQUEST_EXPORT: s2_explorer_export(e); break;
    case S2_REQUEST_VIEWS: s2_explorer_views(e); break;
    case S2_REQUEST_RUNS: s2_explorer_runs(e); break;
    case S2_REQUEST_CANCEL: cancel(e); break;
    case S2_REQUEST_DUMP: s2_explorer_dump_prompted(e); break;
    case S2_REQUEST_REDRAW:
        if (e->term != NULL)
            s2_terminal_forget(e->term);
        break;
    case S2_REQUEST_NONE: break;
    default: s2_explorer_change(e, request);
    }
    return true;
}

bool s2_explorer_press(s2_explorer *e, int32_t key)
{
    s2_explorer_change_await(e);
    s2_session_key(&e->session, key);
    return serve(e);
}

bool s2_explorer_click(s2_explorer *e, int32_t row, int32_t col, int32_t wheel)
{
    s2_explorer_change_await(e);
    s2_session_click(&e->session, row, col, wheel);
    return serve(e);
}

bool s2_explorer_paste(s2_explorer *e, const char *text)
{
    s2_explorer_change_await(e);
    s2_session_paste(&e->session, text);
    return serve(e);
}
