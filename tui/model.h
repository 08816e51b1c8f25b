/*
 * tui/model.h - what the screens show (model), where the person is in them (state), and the two pure
 * functions.
 *
 * s2_tui_step and s2_tui_draw read nothing but their arguments. The model is plain data that cli/ hands
 * over: lists, facts, log lines. What a step cannot do itself (open, save, star, filter in the
 * database) it leaves in state->request for the owner, who answers by changing the model.
 *
 * Ownership: a model points to what its owner keeps; a state is a plain value. Threads: none.
 */
#ifndef S2_TUI_MODEL_H
#define S2_TUI_MODEL_H

#include "tui/bench.h"
#include "tui/canvas.h"
#include "tui/grid.h"
#include "tui/keymap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A verdict of a list: as s2_verdict, or none. */
enum { S2_TUI_NOT_CHECKED = -1 };

/* One design of the list. Numbers that are not known are NAN; texts may come from anywhere. */
typedef struct s2_tui_row {
    int64_t id;
    const char *hash;
    const char *name;
    const char *family;
    const char *tags;
    const char *outcome; /* of the last validation, "" */
    int64_t n_layers;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t block_tok;
    int32_t rows;
    int32_t unions;
    int32_t kv;
    double density;
    double sim_us;
    double kv_bytes;
    double gpu_us;
    bool starred;
    const char *text; /* canonical, or NULL until it was asked for */
} s2_tui_row;

enum { S2_TUI_COMPARE = 8 };

typedef struct s2_tui_model {
    const char *source; /* the database's path, or "samples" */
    bool writable;      /* saving and starring are possible */
    int32_t n_rows;     /* loaded so far */
    bool more;          /* the list goes on */
    const s2_tui_row *rows;
    const char *list_error; /* why the filter is refused, or NULL */
    const s2_facts *bench;  /* of state->knobs */
    const s2_facts *design; /* of the design that is open, or NULL */
    int32_t n_compare;
    const s2_facts *compare[S2_TUI_COMPARE];
    const char *compare_name[S2_TUI_COMPARE];
    int32_t n_log;
    const char *const *log; /* oldest first */
} s2_tui_model;

typedef enum s2_request {
    S2_REQUEST_NONE,
    S2_REQUEST_QUIT,
    S2_REQUEST_LIST, /* the filter or the order changed */
    S2_REQUEST_MORE, /* the next page of the list */
    S2_REQUEST_OPEN, /* facts of the design under the cursor (request_id) */
    S2_REQUEST_COMPARE,
    S2_REQUEST_SAVE, /* the workbench's design under the name in state->prompt */
    S2_REQUEST_STAR,
    S2_REQUEST_UNDO,
    S2_REQUEST_COPY, /* the command of this screen */
    S2_REQUEST_REDRAW
} s2_request;

typedef enum s2_mode { S2_MODE_KEYS, S2_MODE_FILTER, S2_MODE_NAME, S2_MODE_PALETTE, S2_MODE_COMMAND } s2_mode;

enum { S2_TUI_STACK = 8, S2_TUI_UNDO = 32, S2_TUI_PROMPT_BYTES = 200 };

typedef struct s2_tui_state {
    int32_t rows; /* of the screen */
    int32_t cols;
    int32_t depth; /* views[depth] is shown */
    s2_view_id views[S2_TUI_STACK];
    s2_mode mode;
    char prompt[S2_TUI_PROMPT_BYTES]; /* being typed */
    int32_t palette_at;
    char filter[S2_TUI_PROMPT_BYTES];
    int32_t sort; /* index of s2_tui_sorts */
    bool ascending;
    int32_t cursor; /* row of the list */
    int32_t top;
    int32_t n_marked;
    int64_t marked[S2_TUI_COMPARE];
    int64_t design_id; /* open design */
    char design_name[S2_LIMIT_NAME_BYTES + 1];
    s2_knobs knobs;
    s2_knob knob; /* that keys turn */
    int32_t n_undo;
    s2_knobs undo[S2_TUI_UNDO];
    int32_t layer; /* -1: the one worth looking at */
    int32_t head;
    bool zoomed;
    s2_zoom zoom;      /* blocks, where zoomed */
    int32_t scroll;    /* of help, log, compare */
    int32_t tour;      /* step */
    char message[160]; /* said in the footer until the next key */
    s2_request request;
    int64_t request_id;
} s2_tui_state;

/* Columns of the filter language that the list can be ordered by. */
extern const char *const s2_tui_sorts[];
enum { S2_TUI_SORTS = 6 };

s2_tui_state s2_tui_state_init(int32_t rows, int32_t cols, s2_view_id first);

/* One key, or a new size. Sets state->request, or S2_REQUEST_NONE. */
void s2_tui_step(const s2_tui_model *model, s2_tui_state *state, int32_t key);
void s2_tui_resize(s2_tui_state *state, int32_t rows, int32_t cols);
/* Keep cursor and zoom inside what there is; the owner calls it after it changed the model. */
void s2_tui_settle(const s2_tui_model *model, s2_tui_state *state);

/* The whole screen; the canvas has the size of the state, or is drawn to its own. */
void s2_tui_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas);

/* The command that prints what this screen shows. */
void s2_tui_command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf);

#ifdef __cplusplus
}
#endif
#endif /* S2_TUI_MODEL_H */
