/*
 * Carries a session over to the next one, in a text file of "key=value" lines.
 *
 * The file may be damaged, or written by another version or person: a line that makes no sense is skipped,
 * a workbench that does not parse is not restored, and every text is cleaned before it is used.
 */
#include "explorer/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "export/files.h"
#include "pattern/parse.h"

enum { KEPT_BYTES = 1 << 17 };

/* ---- writing */

static void put(s2_buf *buf, const char *key, const char *value)
{
    if (value[0] != '\0')
        s2_buf_printf(buf, "%s=%s\n", key, value);
}

static void put_knobs(const s2_tui_state *state, s2_buf *buf)
{
    for (s2_knob knob = 0; knob < S2_N_KNOBS; knob++) {
        s2_buf_printf(buf, "knob %s=", s2_knob_label(knob));
        s2_knob_print(&state->knobs, knob, buf);
        s2_buf_puts(buf, "\n");
    }
}

/* The database's path, if it has a file: the filter is kept for that database only. */
static bool find_database(const s2_explorer *e, char path[PATH_MAX])
{
    return !e->options->no_db && realpath(e->options->db_path, path) != NULL;
}

static void put_list(const s2_explorer *e, s2_buf *buf)
{
    char path[PATH_MAX];
    const s2_tui_state *const state = &e->session.state;
    put(buf, "sort", s2_tui_sorts[state->sort]);
    put(buf, "up", state->ascending ? "yes" : "no");
    put(buf, "minimize", state->minimize);
    s2_buf_puts(buf, "columns=");
    for (int at = 0; at < S2_TUI_COLUMNS; at++)
        if (state->columns & 1u << at)
            s2_buf_printf(buf, "%s ", s2_tui_columns[at]);
    s2_buf_puts(buf, "\n");
    for (int32_t at = S2_TUI_HISTORY - 1; at >= 0; at--)
        put(buf, "used", state->history[at]);
    if (!find_database(e, path))
        return;
    put(buf, "database", path);
    put(buf, "filter", state->filter);
}

static void put_bench(const s2_tui_state *state, s2_buf *buf)
{
    const s2_zoom *const zoom = &state->zoom;
    s2_buf text = {0};
    put_knobs(state, buf);
    s2_tui_pattern(state, &text);
    s2_buf_add(&text, "", 1);
    if (text.status == S2_OK)
        put(buf, "pattern", text.data);
    s2_buf_release(&text);
    put(buf, "baseline", state->base);
    s2_buf_printf(buf, "at=%s\nreach=%d\nlayer=%d\nhead=%d\n", s2_knob_label(state->knob), state->reach,
                  state->layer, state->head);
    if (state->zoomed)
        s2_buf_printf(buf, "zoom=%lld %lld %lld %lld\n", (long long)zoom->q_begin, (long long)zoom->q_end,
                      (long long)zoom->k_begin, (long long)zoom->k_end);
}

/* Create the directory of a path and those above it. */
static void make_directory(const char *path)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", path);
    for (char *at = strchr(dir + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)!mkdir(dir, 0700);
        *at = '/';
    }
}

void s2_explorer_keep(const s2_explorer *e)
{
    const char *const path = e->options->session_path;
    s2_buf buf = {0};
    s2_diag diag;
    if (path == NULL)
        return;
    put_bench(&e->session.state, &buf);
    put_list(e, &buf);
    make_directory(path);
    /* if it cannot be written, the next session starts like a first one */
    if (buf.status == S2_OK)
        (void)!s2_file_write(path, buf.data, buf.len, &diag);
    s2_buf_release(&buf);
}

/* ---- reading */

/* What a file says about the workbench, used as a whole or not at all. */
typedef struct kept {
    s2_knobs knobs;
    bool wrong; /* some knob does not accept its value */
    const char *pattern;
    const char *baseline;
    const char *filter;
    bool same_database;
} kept;

static void read_knob(kept *k, const char *label, const char *value)
{
    for (s2_knob knob = 0; knob < S2_N_KNOBS; knob++)
        if (strcmp(label, s2_knob_label(knob)) == 0)
            k->wrong = !s2_knob_set(&k->knobs, knob, value) || k->wrong;
}

static void read_columns(s2_tui_state *state, char *words)
{
    uint32_t columns = 0;
    char *save = NULL;
    for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        for (int at = 0; at < S2_TUI_COLUMNS; at++)
            columns |= strcmp(word, s2_tui_columns[at]) == 0 ? 1u << at : 0u;
    state->columns = columns;
}

static void read_zoom(s2_tui_state *state, const char *value)
{
    long long n[4];
    if (sscanf(value, "%lld %lld %lld %lld", &n[0], &n[1], &n[2], &n[3]) != 4)
        return;
    const s2_zoom zoom = {n[0], n[1], n[2], n[3]};
    state->zoomed = zoom.q_begin >= 0 && zoom.q_begin < zoom.q_end && zoom.k_begin >= 0 &&
                    zoom.k_begin < zoom.k_end && zoom.q_end <= INT32_MAX && zoom.k_end <= INT32_MAX;
    state->zoom = state->zoomed ? zoom : (s2_zoom){0};
}

static int32_t small_number(const char *value, int32_t least)
{
    enum { MOST = 1 << 16 };
    const long n = strtol(value, NULL, 10);
    return n < least || n > MOST ? least : (int32_t)n;
}

static void read_view(s2_tui_state *state, const char *key, char *value)
{
    for (int at = 0; strcmp(key, "sort") == 0 && at < S2_TUI_SORTS; at++)
        state->sort = strcmp(value, s2_tui_sorts[at]) == 0 ? at : state->sort;
    for (s2_knob knob = 0; strcmp(key, "at") == 0 && knob < S2_N_KNOBS; knob++)
        state->knob = strcmp(value, s2_knob_label(knob)) == 0 ? knob : state->knob;
    if (strcmp(key, "up") == 0)
        state->ascending = strcmp(value, "yes") == 0;
    else if (strcmp(key, "minimize") == 0)
        snprintf(state->minimize, sizeof state->minimize, "%s", value);
    else if (strcmp(key, "columns") == 0)
        read_columns(state, value);
    else if (strcmp(key, "used") == 0)
        s2_tui_used(state, value);
    else if (strcmp(key, "reach") == 0)
        state->reach = strcmp(value, "1") == 0;
    else if (strcmp(key, "layer") == 0)
        state->layer = small_number(value, -1);
    else if (strcmp(key, "head") == 0)
        state->head = small_number(value, 0);
    else if (strcmp(key, "zoom") == 0)
        read_zoom(state, value);
}

static void read_line(s2_explorer *e, s2_arena *arena, kept *k, char *line)
{
    static const char knob[] = "knob ";
    char path[PATH_MAX], *const equals = strchr(line, '=');
    const size_t n = equals != NULL ? strlen(equals) : 0;
    char *const value = n > 0 ? s2_arena_alloc(arena, n, 1) : NULL;
    if (value == NULL)
        return;
    *equals = '\0';
    s2_text_clean(value, n, equals + 1);
    if (strncmp(line, knob, sizeof knob - 1) == 0)
        read_knob(k, line + sizeof knob - 1, value);
    else if (strcmp(line, "pattern") == 0)
        k->pattern = value;
    else if (strcmp(line, "baseline") == 0)
        k->baseline = value;
    else if (strcmp(line, "filter") == 0)
        k->filter = value;
    else if (strcmp(line, "database") == 0)
        k->same_database = find_database(e, path) && strcmp(path, value) == 0;
    else
        read_view(&e->session.state, line, value);
}

/* A pattern that the workbench can edit. */
static bool is_pattern(const char *text)
{
    const s2_parse_options parse = {.no_files = true};
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag;
    const bool is = text != NULL && strlen(text) < S2_TUI_TEXT_BYTES &&
                    s2_pattern_parse(&arena, text, strlen(text), &parse, &pattern, &diag) == S2_OK;
    s2_arena_release(&arena);
    return is;
}

static void take(s2_explorer *e, const kept *k)
{
    s2_tui_state *const state = &e->session.state;
    if (k->same_database && k->filter != NULL && strlen(k->filter) < sizeof state->filter)
        snprintf(state->filter, sizeof state->filter, "%s", k->filter);
    if (is_pattern(k->baseline))
        snprintf(state->base, sizeof state->base, "%s", k->baseline);
    if (!k->wrong && is_pattern(k->pattern))
        s2_session_restore(&e->session, &k->knobs, k->pattern);
}

void s2_explorer_take_up(s2_explorer *e)
{
    s2_arena arena = {0};
    char *text = NULL, *save = NULL;
    size_t n = 0;
    kept k = {.knobs = s2_knobs_default()};
    struct stat info;
    const char *const path = e->options->session_path;
    /* heads and KV heads are set one after the other, and KV heads must divide heads at every step */
    k.knobs.value[S2_KNOB_KV_HEADS] = 1;
    if (path != NULL && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
        s2_bytes_read(&arena, path, KEPT_BYTES, &text, &n) == S2_OK && n <= KEPT_BYTES) {
        for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
            read_line(e, &arena, &k, line);
        take(e, &k);
    }
    s2_arena_release(&arena);
}
