/* The front of the whole database or filter, by the code of `s2 pareto` (db/front.h). */
#include "explorer/internal.h"

#include <string.h>

#include "base/work.h"

enum { PAGE = 20000 };

/* Designs on the front so far, with room for one more page. */
typedef struct contest {
    s2_arena arena; /* of the rows' texts */
    s2_db_row *rows;
    int32_t n;
    int64_t work_left; /* for all pages */
} contest;

/* ---- on the worker */

static s2_status add_point(s2_front_task *t, const s2_db_row *row)
{
    S2_TRY(S2_ARENA_ROOM(&t->arena, t->points, t->found.n_points, t->cap_points));
    s2_tui_point *const point = &t->points[t->found.n_points++];
    *point = (s2_tui_point){.id = row->id, .violated = row->unions == S2_DB_VIOLATED};
    for (int32_t o = 0; o < t->spec.n_by; o++)
        point->value[o] = (float)t->spec.by[o]->value(row);
    return S2_OK;
}

/* Copy every text that a row of the front needs to the contest's own memory. */
static s2_status copy_texts(s2_arena *arena, s2_db_row *row)
{
    const char **const texts[] = {&row->hash,     &row->name,    &row->family, &row->model,   &row->phase,
                                  &row->outcome,  &row->tags,    &row->gpu,    &row->llm,     &row->dtype,
                                  &row->kv_dtype, &row->weights, &row->kernel, &row->settings};
    for (size_t nth = 0; nth < sizeof texts / sizeof texts[0]; nth++) {
        const char *const text = *texts[nth] != NULL ? *texts[nth] : "";
        *texts[nth] = s2_arena_strndup(arena, text, strlen(text));
        if (*texts[nth] == NULL)
            return S2_ENOMEM;
    }
    return S2_OK;
}

/* Let the front so far compete with one more page: the front of fronts is the front of everything. */
static s2_status compete(s2_front_task *t, contest *c, const s2_db_row *page, int32_t n_page)
{
    s2_arena scratch = {0}, next = {0};
    s2_db_row *const all = S2_NEW(&scratch, s2_db_row, c->n + n_page + 1);
    int32_t *const kept = S2_NEW(&scratch, int32_t, c->n + n_page + 1);
    int32_t n = 0, n_kept = 0;
    s2_status status = all != NULL && kept != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t nth = 0; status == S2_OK && nth < c->n; nth++)
        all[n++] = c->rows[nth];
    for (int32_t nth = 0; status == S2_OK && nth < n_page; nth++)
        all[n++] = page[nth];
    if (status == S2_OK)
        status = s2_front_keep(&scratch, &t->spec, all, n, &c->work_left, kept, &n_kept);
    s2_db_row *const rows = status == S2_OK ? S2_NEW(&next, s2_db_row, n_kept + 1) : NULL;
    status = rows != NULL ? S2_OK : status == S2_OK ? S2_ENOMEM : status;
    for (int32_t nth = 0; status == S2_OK && nth < n_kept; nth++) {
        rows[nth] = all[kept[nth]];
        status = copy_texts(&next, &rows[nth]);
    }
    s2_arena_release(&scratch);
    s2_arena_release(&c->arena);
    *c = (contest){next, rows, status == S2_OK ? n_kept : 0, c->work_left};
    return status;
}

static s2_status take_page(s2_front_task *t, contest *c, const s2_db_row *rows, int32_t n)
{
    for (int32_t nth = 0; nth < n; nth++)
        S2_TRY(add_point(t, &rows[nth]));
    return compete(t, c, rows, n);
}

/* Bounds do not compete with predictions: keep the most frequent kind, as `s2 pareto` does. */
static s2_status choose_rivals(s2_front_task *t, s2_db_query *query)
{
    s2_front_kind kinds[S2_FRONT_KINDS];
    int32_t n = 0;
    S2_TRY(s2_front_rivals(t->db, &t->arena, &t->spec, query, kinds, &n, &t->diag));
    for (int32_t k = 1; k < n; k++)
        t->found.n_left += (int32_t)kinds[k].n;
    t->found.kind = n > 0 ? kinds[0].words : NULL;
    return S2_OK;
}

/* Read the filter's designs page by page, and keep only their points and the front in memory. */
static s2_status read_pages(s2_front_task *t, contest *c)
{
    s2_db_query query = {.filter = t->filter, .limit = PAGE};
    S2_TRY(s2_db_common_price(t->db, &t->arena, t->filter, &query.phase, &query.len_tok, &t->diag));
    t->found.phase = query.phase != NULL ? query.phase : "";
    t->found.len_tok = query.len_tok;
    if (s2_front_fit(&t->spec, t->found.phase) > 0 && t->spec.n_by < 2)
        return s2_diag_set(&t->diag, S2_EINVAL, 0, 0, 0,
                           "a training step keeps no cache; minimise us,unread");
    S2_TRY(choose_rivals(t, &query));
    for (;;) {
        s2_arena page = {0};
        const s2_db_row *rows;
        int32_t n = 0;
        s2_status status = s2_db_list(t->db, &page, &query, &rows, &n, &t->diag);
        if (status == S2_OK)
            status = take_page(t, c, rows, n);
        query.after_id = status == S2_OK && n > 0 ? rows[n - 1].id : 0;
        s2_arena_release(&page);
        if (status != S2_OK || n < PAGE)
            return status;
    }
}

static s2_status read_samples(s2_front_task *t, contest *c)
{
    s2_arena scratch = {0};
    s2_db_row *const rows = S2_NEW(&scratch, s2_db_row, t->n_samples + 1);
    s2_status status = rows != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t nth = 0; status == S2_OK && nth < t->n_samples; nth++) {
        const s2_tui_row *const row = &t->samples[nth];
        rows[nth] = (s2_db_row){.id = row->id,
                                .hash = row->hash,
                                .name = row->name,
                                .unions = row->unions,
                                .density = row->density,
                                .phase = row->phase,
                                .len_tok = row->len_tok,
                                .sim_us = row->sim_us,
                                .priced = S2_DB_BOUND,
                                .gpu = row->priced_on,
                                .batch = 1,
                                .kv_bytes = row->kv_bytes,
                                .unread = row->unread,
                                .gpu_us = row->gpu_us,
                                .recall = row->recall,
                                .loss = row->loss,
                                .hops = row->hops,
                                .flow = row->flow,
                                .rows = row->rows,
                                .kv = row->kv,
                                .n_layers = row->n_layers,
                                .n_heads = row->n_heads,
                                .n_kv_heads = row->n_kv_heads,
                                .block_tok = row->block_tok};
    }
    if (status == S2_OK)
        status = take_page(t, c, rows, t->n_samples);
    t->found.phase = t->n_samples > 0 ? t->samples[0].phase : "";
    t->found.len_tok = t->n_samples > 0 ? t->samples[0].len_tok : 0;
    t->found.kind = "priced=bound gpu=h200 batch=1"; /* as s2_question_default asks */
    s2_arena_release(&scratch);
    return status;
}

/* Put the front in the screen's form. */
static s2_status show(s2_front_task *t, const contest *c)
{
    const int32_t n_by = t->spec.n_by;
    s2_tui_row *const rows = S2_NEW(&t->arena, s2_tui_row, c->n + 1);
    double *const values = S2_NEW(&t->arena, double, (int64_t)(c->n + 1) * n_by);
    if (rows == NULL || values == NULL)
        return S2_ENOMEM;
    for (int32_t nth = 0; nth < c->n; nth++) {
        rows[nth] = s2_explorer_copy_row(&t->arena, &c->rows[nth]);
        for (int32_t o = 0; o < n_by; o++)
            values[nth * n_by + o] = t->spec.by[o]->value(&c->rows[nth]);
        t->found.n_holed += c->rows[nth].unions == S2_DB_VIOLATED;
    }
    t->found.n_rows = c->n;
    t->found.rows = rows;
    t->found.values = values;
    t->found.points = t->points;
    t->found.n_objectives = n_by;
    for (int32_t o = 0; o < n_by; o++)
        t->found.objectives[o] = (s2_tui_objective){t->spec.by[o]->name, t->spec.by[o]->quantity};
    return S2_OK;
}

static s2_status find(s2_front_task *t)
{
    contest c = {.work_left = S2_WORK_STEPS};
    S2_TRY(s2_front_parse(t->minimize, &t->spec, &t->diag));
    if (t->spec.n_by < 2)
        return s2_diag_set(&t->diag, S2_EINVAL, 0, 0, 0, "%.40s: a picture has two axes", t->minimize);
    s2_status status = t->db == NULL ? read_samples(t, &c) : read_pages(t, &c);
    if (status == S2_OK)
        status = show(t, &c);
    s2_arena_release(&c.arena);
    return status;
}

static void run(void *user)
{
    s2_front_task *const t = user;
    t->status = find(t);
}

/* ---- on the session's thread */

static void take(s2_explorer *e)
{
    s2_front_task *const t = &e->front;
    s2_tui_front *const shown = &e->session.model.front;
    s2_arena_release(&e->front_shown);
    *shown = t->status == S2_OK ? t->found : (s2_tui_front){0};
    if (t->status == S2_OK) {
        e->front_shown = t->arena;
        t->arena = (s2_arena){0};
    } else {
        s2_explorer_say_failure(e, t->status, &t->diag);
        shown->error = s2_diag_text(&t->diag, t->status);
    }
    s2_tui_settle(&e->session.model, &e->session.state);
}

/* Eight samples are done at once; a database is read by the worker. */
static void post(s2_explorer *e)
{
    const s2_tui_state *const state = &e->session.state;
    s2_front_task *const t = &e->front;
    s2_arena_release(&t->arena);
    *t = (s2_front_task){.db = t->db, .samples = e->session.model.rows, .n_samples = e->session.model.n_rows};
    memcpy(t->filter, state->filter, sizeof t->filter);
    memcpy(t->minimize, state->minimize, sizeof t->minimize);
    if (e->db != NULL && t->db == NULL)
        t->status = s2_db_open(e->options->db_path, S2_DB_READ, &t->db, &t->diag);
    if (t->status == S2_OK && e->db != NULL) {
        e->session.model.front.searching = true;
        s2_worker_post(&e->front_worker, run, t);
        s2_worker_wait(&e->front_worker, e->due_ms);
        s2_explorer_front_collect(e);
        return;
    }
    if (t->status == S2_OK)
        run(t);
    take(e);
}

void s2_explorer_front(s2_explorer *e)
{
    e->front_asked = true;
    e->front_wanted = e->front_worker.busy;
    if (e->front_worker.busy)
        s2_db_interrupt(e->front.db);
    else
        post(e);
}

bool s2_explorer_front_collect(s2_explorer *e)
{
    if (!e->front_worker.busy || !s2_worker_collect(&e->front_worker))
        return false;
    /* before the next one starts: it may end, and be collected, before post returns */
    const bool again = e->front_wanted;
    e->session.model.front.searching = e->front_wanted = false;
    if (again)
        post(e);
    else
        take(e);
    return true;
}

void s2_explorer_front_close(s2_explorer *e)
{
    /* repeated, since interrupting a query that has not begun does nothing */
    while (e->front_worker.busy && !s2_worker_collect(&e->front_worker)) {
        s2_db_interrupt(e->front.db);
        s2_worker_wait(&e->front_worker, s2_worker_now_ms() + 20);
    }
    e->session.model.front.searching = false;
    e->front_wanted = false;
    if (e->front.db != NULL)
        s2_db_close(&e->front.db);
}

void s2_explorer_front_release(s2_explorer *e)
{
    s2_explorer_front_close(e);
    (void)!s2_worker_stop(&e->front_worker, 0);
    s2_arena_release(&e->front.arena);
    s2_arena_release(&e->front_shown);
}
