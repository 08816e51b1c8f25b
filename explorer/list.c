#include "explorer/internal.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "explorer/samples.h"

const char s2_explorer_samples[] = "samples, at 8k";

/* ---- rows */

static s2_tui_row *add_row(s2_explorer *e)
{
    s2_tui_model *const model = &e->session.model;
    if (S2_ARENA_ROOM(&e->pages, e->rows, model->n_rows, e->cap_rows) != S2_OK)
        return NULL;
    model->rows = e->rows;
    return &e->rows[model->n_rows++];
}

static int32_t verdict_of(int64_t stored)
{
    return stored == S2_DB_NONE ? S2_TUI_NOT_CHECKED : (int32_t)stored;
}

/* Cut texts at 200 bytes, even a name of 10 KB: nothing shows more. */
static const char *copy(s2_arena *arena, const char *text)
{
    enum { MOST = 200 };
    const char *const kept = text != NULL ? s2_arena_strndup(arena, text, strnlen(text, MOST)) : "";
    return kept != NULL ? kept : "";
}

static void put_unusual(const char *value, const char *usual, s2_buf *buf)
{
    if (value[0] != '\0' && strcmp(value, usual) != 0)
        s2_buf_printf(buf, " %s", value);
}

/* "8 x h200 b32 e4m3": what tells a price from another of the same phase and length. */
static const char *priced_on(s2_arena *arena, const s2_db_row *from)
{
    s2_buf buf = {0};
    if (from->tp > 1)
        s2_buf_printf(&buf, "%lld x ", (long long)from->tp);
    s2_buf_puts(&buf, from->gpu);
    if (from->batch > 1)
        s2_buf_printf(&buf, " b%lld", (long long)from->batch);
    put_unusual(from->dtype, "bf16", &buf);
    put_unusual(from->kv_dtype, from->dtype, &buf);
    put_unusual(from->weights, from->dtype, &buf);
    put_unusual(from->kernel, S2_DB_OURS, &buf);
    put_unusual(from->settings, S2_DB_USUAL, &buf);
    const char *const kept = copy(arena, buf.status == S2_OK ? buf.data : NULL);
    s2_buf_release(&buf);
    return kept;
}

static s2_question asked(const s2_db_row *from)
{
    s2_question question = {.len_tok = from->len_tok, .batch = (int32_t)from->batch};
    s2_gpu gpu;
    s2_diag diag;
    snprintf(question.gpu, sizeof question.gpu, "%s", from->gpu);
    while (question.phase < S2_N_PHASES && strcmp(from->phase, s2_phase_word(question.phase)) != 0)
        question.phase++;
    while (question.dtype <= S2_F8 && strcmp(from->dtype, s2_dtype_word(question.dtype)) != 0)
        question.dtype++;
    for (s2_cache_type type = S2_CACHE_BF16; type < S2_N_CACHE_TYPES; type++)
        if (strcmp(from->kv_dtype, s2_cache_type_word(type)) == 0 && strcmp(from->kv_dtype, from->dtype) != 0)
            question.cache = type;
    question.listed = strcmp(from->settings, "device-lists=1") == 0;
    const bool known = question.phase < S2_N_PHASES && question.dtype <= S2_F8 && from->batch >= 1 &&
                       from->batch <= INT32_MAX && s2_gpu_find(question.gpu, &gpu, &diag) == S2_OK;
    return known ? question : (s2_question){0};
}

s2_tui_row s2_explorer_copy_row(s2_arena *arena, const s2_db_row *from)
{
    return (s2_tui_row){.id = from->id,
                        .hash = copy(arena, from->hash),
                        .name = copy(arena, from->name),
                        .family = copy(arena, from->family),
                        .tags = copy(arena, from->tags),
                        .outcome = copy(arena, from->outcome),
                        .n_layers = from->n_layers,
                        .n_heads = from->n_heads,
                        .n_kv_heads = from->n_kv_heads,
                        .block_tok = from->block_tok,
                        .rows = verdict_of(from->rows),
                        .unions = verdict_of(from->unions),
                        .kv = verdict_of(from->kv),
                        .density = from->density,
                        .sim_us = from->sim_us,
                        .figure = from->priced == S2_DB_NONE || isnan(from->sim_us)
                                      ? ""
                                      : s2_db_figure_word((s2_db_figure)from->priced),
                        .kv_bytes = from->kv_bytes,
                        .unread = from->unread,
                        .gpu_us = from->gpu_us,
                        .phase = copy(arena, from->phase),
                        .len_tok = from->len_tok,
                        .recall = from->recall,
                        .loss = from->loss,
                        .hops = from->hops,
                        .flow = from->flow,
                        .priced_on = from->phase[0] != '\0' ? priced_on(arena, from) : "",
                        .asked = asked(from),
                        .starred = from->starred};
}

static void add_db_row(s2_explorer *e, const s2_db_row *from)
{
    s2_tui_row *const row = add_row(e);
    if (row != NULL)
        *row = s2_explorer_copy_row(&e->pages, from);
}

static void forget_rows(s2_explorer *e)
{
    s2_arena_release(&e->pages);
    e->rows = NULL;
    e->cap_rows = 0;
    e->shown_id = 0;
    e->session.model.rows = NULL;
    e->session.model.n_rows = 0;
    e->session.model.more = e->session.model.less = false;
    e->session.model.list_error = NULL;
}

static void add_sample(s2_explorer *e, const char *text, int64_t id)
{
    const s2_question question = s2_question_default(8192);
    s2_facts facts;
    s2_facts_build(text, strlen(text), &question, &facts);
    s2_tui_row *const row = facts.status == S2_OK ? add_row(e) : NULL;
    if (row != NULL)
        *row = (s2_tui_row){.id = id,
                            .hash = s2_arena_strndup(&e->pages, facts.hash, 12),
                            .name = copy(&e->pages, facts.pattern.name),
                            .family = "",
                            .tags = "",
                            .outcome = "",
                            .n_layers = facts.pattern.n_layers,
                            .n_heads = facts.pattern.n_heads,
                            .n_kv_heads = facts.pattern.n_kv_heads,
                            .block_tok = facts.pattern.block_tok,
                            .rows = (int32_t)facts.findings[0].verdict,
                            .unions = (int32_t)facts.findings[1].verdict,
                            .kv = (int32_t)facts.findings[2].verdict,
                            .density = facts.priced ? facts.density : (double)NAN,
                            .sim_us = facts.priced ? facts.time_us : (double)NAN,
                            .figure = s2_db_figure_word(S2_DB_BOUND),
                            .kv_bytes = (double)facts.kv_bytes[S2_KV_POINTS - 1],
                            .unread = facts.priced ? 1 - facts.token_density : (double)NAN,
                            .gpu_us = (double)NAN,
                            .recall = (double)NAN,
                            .loss = (double)NAN,
                            .hops = S2_DB_NONE,
                            .flow = (double)NAN,
                            .phase = "prefill",
                            .len_tok = question.len_tok,
                            .priced_on = copy(&e->pages, question.gpu),
                            .asked = question,
                            .text = text};
    s2_facts_release(&facts);
}

static void list_samples(s2_explorer *e)
{
    forget_rows(e);
    for (int64_t at = 0; s2_samples[at] != NULL; at++)
        add_sample(e, s2_samples[at], at + 1);
    if (e->session.state.filter[0] != '\0')
        s2_explorer_say(e, "samples cannot be filtered; a database can");
    e->session.state.filter[0] = '\0';
    e->session.model.n_all = e->session.model.n_rows;
    s2_tui_settle(&e->session.model, &e->session.state);
}

/* ---- queries, on the worker */

static void query(void *user)
{
    s2_list_task *const t = user;
    t->status = t->counts ? s2_db_tally(t->db, &t->query, &t->n_all, &t->diag)
                          : s2_db_list(t->db, &t->arena, &t->query, &t->rows, &t->n_rows, &t->diag);
}

/* With the list in place, count all its designs in the background, unless all of them are loaded. */
static void count(s2_explorer *e)
{
    s2_tui_model *const model = &e->session.model;
    model->n_all = model->more || model->less ? -1 : model->n_rows;
    if (model->n_all >= 0 || e->list_worker.busy)
        return;
    e->list.counts = true;
    s2_worker_post(&e->list_worker, query, &e->list);
    s2_worker_wait(&e->list_worker, e->due_ms);
    s2_explorer_list_collect(e);
}

static void post(s2_explorer *e, int64_t after_id, bool backward, int32_t limit)
{
    const s2_tui_state *const state = &e->session.state;
    s2_list_task *const t = &e->list;
    s2_arena_release(&t->arena);
    t->diag = (s2_diag){0};
    t->given_up = t->counts = false;
    const s2_status opened =
        t->db != NULL ? S2_OK : s2_db_open(e->options->db_path, S2_DB_READ, &t->db, &t->diag);
    if (opened != S2_OK) {
        s2_explorer_say_failure(e, opened, &t->diag);
        return;
    }
    t->order = (s2_list_order){.sort = state->sort, .ascending = state->ascending};
    memcpy(t->order.filter, state->filter, sizeof t->order.filter);
    t->query = (s2_db_query){.filter = t->order.filter,
                             .sort = s2_tui_sorts[state->sort],
                             .descending = !state->ascending,
                             .limit = limit,
                             .after_id = after_id,
                             .backward = backward};
    e->session.model.searching = true;
    s2_worker_post(&e->list_worker, query, t);
    s2_worker_wait(&e->list_worker, e->due_ms);
    s2_explorer_list_collect(e);
}

static void begin(s2_explorer *e, bool backward, int32_t limit)
{
    if (e->db == NULL) {
        list_samples(e);
    } else if (e->list_worker.busy) {
        s2_db_interrupt(e->list.db);
        e->list_wanted = limit;
        e->list_backward = backward;
    } else {
        post(e, 0, backward, limit);
    }
}

void s2_explorer_list(s2_explorer *e)
{
    e->follow = false;
    begin(e, false, S2_EXPLORER_PAGE);
}

void s2_explorer_list_last(s2_explorer *e)
{
    e->follow = false;
    begin(e, true, S2_EXPLORER_PAGE);
}

void s2_explorer_list_more(s2_explorer *e)
{
    const int32_t n = e->session.model.n_rows;
    if (e->db != NULL && n > 0 && !e->list_worker.busy)
        post(e, e->rows[n - 1].id, false, S2_EXPLORER_PAGE);
}

void s2_explorer_list_less(s2_explorer *e)
{
    if (e->db != NULL && e->session.model.n_rows > 0 && !e->list_worker.busy)
        post(e, e->rows[0].id, true, S2_EXPLORER_PAGE);
}

void s2_explorer_list_remember(s2_explorer *e)
{
    const int32_t cursor = e->session.state.cursor, n_rows = e->session.model.n_rows;
    if (e->db == NULL || cursor >= n_rows)
        return;
    snprintf(e->left.hash, sizeof e->left.hash, "%s", e->rows[cursor].hash);
    e->left.n_rows = n_rows;
}

void s2_explorer_list_again(s2_explorer *e)
{
    const int32_t n = s2_max_i32(e->session.model.n_rows, e->left.n_rows);
    const int32_t pages = n / S2_EXPLORER_PAGE + (n % S2_EXPLORER_PAGE != 0 || n == 0);
    e->follow = true;
    begin(e, e->session.model.less, pages * S2_EXPLORER_PAGE);
}

/* Return to the order of the list shown; pressing / brings back the words that were typed. */
static void take_back(s2_explorer *e, const char *filter)
{
    s2_tui_state *const state = &e->session.state;
    s2_tui_keep(state, S2_REQUEST_LIST, state->filter);
    snprintf(state->filter, sizeof state->filter, "%s", filter);
    state->sort = e->listed.sort;
    state->ascending = e->listed.ascending;
}

/* Restore the filter from before typing, and list it again if typing has listed something else since. */
static void refuse_typed(s2_explorer *e)
{
    take_back(e, e->session.state.filter_before);
    if (strcmp(e->session.state.filter, e->listed.filter) != 0)
        e->list_wanted = S2_EXPLORER_PAGE;
}

static void refuse(s2_explorer *e, const s2_list_task *t)
{
    const bool other = strcmp(t->order.filter, e->listed.filter) != 0;
    if (e->session.state.mode == S2_MODE_FILTER && other && !t->given_up) {
        snprintf(e->filter_said, sizeof e->filter_said, "%s", t->diag.msg);
        e->session.model.filter_error = e->filter_said;
        return;
    }
    if (t->given_up) {
        take_back(e, e->listed.filter);
        s2_explorer_say(e, "the query was cancelled; the list is out of date");
        return;
    }
    s2_explorer_say_failure(e, t->status, &t->diag);
    if (other) {
        refuse_typed(e);
        return;
    }
    e->session.model.list_error =
        e->session.model.n_log > 0 ? e->lines[e->session.model.n_log - 1] : "out of memory";
}

/* Move the n rows added last before the others; the cursor stays on its design. */
static void put_first(s2_explorer *e, int32_t n)
{
    s2_arena scratch = {0};
    const int32_t n_before = e->session.model.n_rows - n;
    s2_tui_row *const added = S2_NEW(&scratch, s2_tui_row, n > 0 ? n : 1);
    if (added != NULL) {
        memcpy(added, e->rows + n_before, (size_t)n * sizeof *added);
        memmove(e->rows + n, e->rows, (size_t)n_before * sizeof *added);
        memcpy(e->rows, added, (size_t)n * sizeof *added);
        e->session.state.cursor += n;
        e->session.state.top += n;
    }
    s2_arena_release(&scratch);
}

/* Replace the list; if it is only reloaded, the cursor stays on its design, whatever number another file gives it. */
static void put_anew(s2_explorer *e, const s2_list_task *t)
{
    s2_tui_model *const model = &e->session.model;
    s2_tui_state *const state = &e->session.state;
    if (e->follow && e->left.n_rows == 0)
        s2_explorer_list_remember(e);
    forget_rows(e);
    for (int32_t n = 0; n < t->n_rows; n++) {
        add_db_row(e, &t->rows[n]);
        if (e->follow && e->left.n_rows > 0 && strcmp(t->rows[n].hash, e->left.hash) == 0)
            state->cursor = n;
    }
    e->left.n_rows = 0;
    if (t->query.backward && !e->follow)
        state->cursor = model->n_rows > 0 ? model->n_rows - 1 : 0;
    model->less = t->query.backward && t->n_rows == t->query.limit;
    model->more = !t->query.backward && t->n_rows == t->query.limit;
}

static void put_page(s2_explorer *e, const s2_list_task *t)
{
    s2_tui_model *const model = &e->session.model;
    const int32_t n_before = model->n_rows;
    for (int32_t n = 0; n < t->n_rows; n++)
        add_db_row(e, &t->rows[n]);
    if (t->query.backward)
        put_first(e, model->n_rows - n_before);
    *(t->query.backward ? &model->less : &model->more) = t->n_rows == t->query.limit;
}

/* Repeated, since interrupting a query that has not begun does nothing. */
static void interrupt(s2_explorer *e)
{
    if (e->list.given_up || e->list_wanted != 0)
        s2_db_interrupt(e->list.db);
}

bool s2_explorer_list_collect(s2_explorer *e)
{
    s2_list_task *const t = &e->list;
    if (!e->list_worker.busy)
        return false;
    if (!s2_worker_collect(&e->list_worker)) {
        interrupt(e);
        return false;
    }
    e->session.model.searching = false;
    if (t->counts && t->status == S2_OK)
        e->session.model.n_all = t->n_all;
    if (e->list_wanted) {
        const int32_t limit = e->list_wanted;
        e->list_wanted = 0;
        post(e, 0, e->list_backward, limit);
        return true;
    }
    if (t->counts)
        return true;
    if (t->status != S2_OK) {
        refuse(e, t);
        if (e->list_wanted) {
            e->list_wanted = 0;
            post(e, 0, false, S2_EXPLORER_PAGE);
        }
        return true;
    }
    e->session.model.filter_error = NULL;
    /* another order has the same count; a reload counts again, since others may have added designs */
    const bool counted =
        !e->follow && e->session.model.n_all >= 0 && strcmp(e->listed.filter, t->order.filter) == 0;
    e->listed = t->order;
    if (t->query.after_id == 0)
        put_anew(e, t);
    else
        put_page(e, t);
    s2_arena_release(&t->arena);
    s2_tui_settle(&e->session.model, &e->session.state);
    if (t->query.after_id == 0 && !counted)
        count(e);
    return true;
}

void s2_explorer_list_close(s2_explorer *e)
{
    /* repeated, since interrupting a query that has not begun does nothing */
    while (e->list_worker.busy && !s2_worker_collect(&e->list_worker)) {
        s2_db_interrupt(e->list.db);
        s2_worker_wait(&e->list_worker, s2_worker_now_ms() + 20);
    }
    e->session.model.searching = false;
    e->session.model.n_all = -1;
    if (e->list.db != NULL)
        s2_db_close(&e->list.db);
    s2_arena_release(&e->list.arena);
}

void s2_explorer_list_give_up(s2_explorer *e)
{
    e->list.given_up = true;
    e->list_wanted = 0;
    interrupt(e);
}

void s2_explorer_list_release(s2_explorer *e)
{
    s2_explorer_list_close(e);
    (void)!s2_worker_stop(&e->list_worker, 0);
    s2_arena_release(&e->pages);
}

/* ---- designs */

static const s2_tui_row *row_of(const s2_tui_row *rows, int32_t n, int64_t id)
{
    for (int32_t nth = 0; nth < n; nth++)
        if (rows[nth].id == id)
            return &rows[nth];
    return NULL;
}

const s2_tui_row *s2_explorer_row(const s2_explorer *e, int64_t id)
{
    const s2_tui_model *const model = &e->session.model;
    const s2_tui_row *const listed = row_of(model->rows, model->n_rows, id);
    return listed != NULL ? listed : row_of(model->front.rows, model->front.n_rows, id);
}

const char *s2_explorer_text(s2_explorer *e, s2_arena *arena, int64_t id)
{
    const char *text = NULL;
    s2_diag diag = {0};
    if (e->db == NULL) {
        const s2_tui_row *const row = s2_explorer_row(e, id);
        return row != NULL ? row->text : NULL;
    }
    const s2_status status = s2_db_text(e->db, arena, id, &text, &diag);
    if (status == S2_OK)
        return text;
    s2_explorer_say_failure(e, status, &diag);
    return NULL;
}
