#include "explorer/explorer.h"

#include <unistd.h>

#include "base/alloc.h"
#include "explorer/internal.h"

/* A view that needs a design or marks is shown with the first designs of the list. */
static void go_to(s2_explorer *e, s2_view_id view)
{
    static const char *const ways[S2_N_VIEWS] = {
        [S2_VIEW_DESIGN] = "\n", [S2_VIEW_RECORD] = "r",   [S2_VIEW_RUNS] = "6",
        [S2_VIEW_PARETO] = "5",  [S2_VIEW_OUTPUT] = "6\n", [S2_VIEW_COMPARE] = " j j c",
        [S2_VIEW_DESIGNS] = "",  [S2_VIEW_REACH] = "17"};
    s2_tui_state *const state = &e->session.state;
    if (ways[view] == NULL)
        state->views[++state->depth] = view;
    else
        for (const char *key = ways[view]; *key != '\0'; key++)
            s2_explorer_press(e, *key);
}

static s2_status run(s2_explorer *e, s2_diag *diag)
{
    const s2_explorer_options *const options = e->options;
    const bool tour = e->db == NULL && options->script == NULL;
    s2_explorer_formats(e);
    const int32_t most = (int32_t)(sizeof e->columns / sizeof e->columns[0]) - 1;
    for (int32_t nth = 0; nth < most && s2_db_column(nth) != NULL; nth++)
        e->columns[nth] = s2_db_column(nth);
    e->session.model.columns = e->columns;
    e->session.model.gpu = access("/dev/nvidiactl", F_OK) == 0;
    e->session.model.words = options->words;
    e->session.model.n_words = options->n_words;
    s2_explorer_take_up(e);
    s2_explorer_list(e);
    go_to(e, options->dumps ? options->view : tour ? S2_VIEW_TOUR : S2_VIEW_DESIGNS);
    if (e->db == NULL && options->db_named != NULL && !options->no_db)
        s2_explorer_say(e, "%.100s does not exist: these are samples; saving one creates it",
                        options->db_named);
    const s2_status status = options->dumps            ? s2_explorer_print(e, diag)
                             : options->script != NULL ? s2_explorer_script(e, options->script, diag)
                                                       : s2_explorer_terminal(e, diag);
    if (status == S2_OK)
        s2_explorer_keep(e);
    return status;
}

static void release(s2_explorer *e)
{
    s2_session_release(&e->session);
    s2_arena *const arenas[] = {&e->log,          &e->runs_arena, &e->output_arena,
                                &e->record_arena, &e->loss_arena, &e->choices_arena};
    for (size_t n = 0; n < sizeof arenas / sizeof arenas[0]; n++)
        s2_arena_release(arenas[n]);
    s2_buf_release(&e->database);
    if (e->db != NULL)
        s2_db_close(&e->db);
    s2_free(e);
}

static s2_status begin(s2_explorer *e, s2_diag *diag)
{
    const s2_explorer_options *const options = e->options;
    e->output_of = -1;
    s2_job_init(&e->trial);
    S2_TRY(s2_session_init(&e->session, options->rows, options->cols, options->ascii, S2_VIEW_DESIGNS));
    e->session.model.source = s2_explorer_samples;
    e->session.model.n_all = -1;
    s2_explorer_name(e);
    e->seen = s2_explorer_stamp(e); /* before it is opened: a change meanwhile is noticed then */
    return s2_explorer_open(e, diag);
}

s2_status s2_explorer_run(const s2_explorer_options *options, bool *left_behind, s2_diag *diag)
{
    s2_explorer *const e = s2_calloc(1, sizeof *e);
    *left_behind = false;
    if (e == NULL)
        return S2_ENOMEM;
    e->options = options;
    s2_status status = begin(e, diag);
    if (status == S2_OK)
        status = run(e, diag);
    s2_explorer_change_release(e);
    s2_explorer_jobs_release(e);
    s2_explorer_list_release(e);
    s2_explorer_front_release(e);
    *left_behind = e->left_behind;
    if (!e->left_behind)
        release(e);
    return status;
}
