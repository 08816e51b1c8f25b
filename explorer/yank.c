/* Copies a design to the clipboard: its hash, its text, or what the list knows about it. */
#include "explorer/internal.h"

#include <math.h>
#include <string.h>

/* NULL if nothing is stored. */
static const char *verdict_word(int32_t verdict)
{
    const bool stored = verdict >= S2_DB_HOLDS && verdict <= S2_DB_UNKNOWN;
    return stored ? s2_db_verdict_word((s2_db_verdict)verdict) : NULL;
}

/* A JSON object whose keys are the filter's column names. */
static void put_row(const s2_tui_row *row, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "hash", row->hash);
    s2_json_key_str(buf, "name", row->name);
    s2_json_key_str(buf, "family", row->family);
    s2_json_key_int(buf, "layers", row->n_layers);
    s2_json_key_int(buf, "heads", row->n_heads);
    s2_json_key_int(buf, "kv_heads", row->n_kv_heads);
    s2_json_key_int(buf, "block", row->block_tok);
    s2_json_key_str(buf, "rows", verdict_word(row->rows));
    s2_json_key_str(buf, "union", verdict_word(row->unions));
    s2_json_key_str(buf, "kv", verdict_word(row->kv));
    s2_json_key_num(buf, "density", row->density);
    s2_json_key_num(buf, "us", row->sim_us);
    s2_json_key_str(buf, "priced", row->figure[0] != '\0' ? row->figure : NULL);
    s2_json_key_num(buf, "kv_bytes", row->kv_bytes);
    s2_json_key_num(buf, "gpu_us", row->gpu_us);
    s2_json_key_num(buf, "recall", row->recall);
    s2_json_key_num(buf, "loss", row->loss);
    s2_json_key_num(buf, "hops", row->hops == S2_DB_NONE ? (double)NAN : (double)row->hops);
    s2_json_key_num(buf, "flow", row->flow);
    s2_json_key_str(buf, "phase", row->phase);
    s2_json_key_num(buf, "len", row->len_tok > 0 ? (double)row->len_tok : (double)NAN);
    s2_json_key_str(buf, "tags", row->tags);
    s2_json_end(buf, '}');
}

static const s2_tui_row *row_of(const s2_explorer *e, int64_t id)
{
    const s2_tui_front *const front = &e->session.model.front;
    for (int32_t nth = 0; nth < front->n_rows; nth++)
        if (front->rows[nth].id == id)
            return &front->rows[nth];
    return s2_explorer_row(e, id);
}

/* The design's text on one line, as a command accepts it. */
static void put_text(s2_explorer *e, int64_t id, s2_buf *buf)
{
    s2_arena scratch = {0};
    if (id == 0) {
        s2_tui_pattern(&e->session.state, buf);
    } else {
        const char *const text = s2_explorer_text(e, &scratch, id);
        for (const char *rest = text != NULL ? text : ""; *rest != '\0'; rest++)
            if (*rest != '\n')
                s2_buf_add(buf, rest, 1);
            else if (rest[1] != '\0')
                s2_buf_puts(buf, "; ");
    }
    s2_arena_release(&scratch);
}

static void put_hash(const s2_explorer *e, int64_t id, s2_buf *buf)
{
    const s2_tui_row *const row = row_of(e, id);
    const s2_facts *const bench = e->session.model.bench;
    if (row != NULL)
        s2_buf_puts(buf, row->hash);
    else if (id == 0 && bench != NULL && bench->status == S2_OK && !e->session.model.bench_waits)
        s2_buf_puts(buf, bench->hash);
}

void s2_explorer_yank(s2_explorer *e)
{
    static const char *const what[S2_TUI_N_YANKS] = {"command", "hash", "pattern", "row"};
    const int64_t id = e->session.state.request_id;
    const s2_tui_yank yank = e->session.state.yank;
    const s2_tui_row *const row = row_of(e, id);
    s2_buf text = {0};
    if (yank == S2_TUI_YANK_HASH)
        put_hash(e, id, &text);
    else if (yank == S2_TUI_YANK_PATTERN)
        put_text(e, id, &text);
    else if (row != NULL)
        put_row(row, &text);
    const bool some = text.len > 0;
    s2_buf_add(&text, "", 1);
    if (some && text.status == S2_OK && e->term != NULL)
        s2_terminal_copy(e->term, text.data);
    s2_explorer_say(
        e, !some ? "nothing was copied: no %s is there" : "the %s was handed to the terminal's clipboard",
        what[yank]);
    s2_buf_release(&text);
}
