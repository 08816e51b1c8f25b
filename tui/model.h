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

#include "base/quantity.h"
#include "tui/bench.h"
#include "tui/canvas.h"
#include "tui/grid.h"
#include "tui/keymap.h"

/* A verdict in a list: an s2_verdict, or this. */
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
    const char
        *figure; /* what sim_us is: "bound", "guessed", "predicted", "unknown", "" where there is none */
    double kv_bytes;
    double unread; /* share of the pairs that a head could read but does not, mean over heads and layers */
    double gpu_us;
    const char *phase; /* of the numbers above; "" where there are none */
    int64_t len_tok;
    const char *priced_on; /* "8 x h200 b32 e4m3": GPUs, batch, and what else of the price is not usual */
    s2_question asked;     /* what the numbers answer, as far as a question says it; of no tokens: nothing */
    double recall;         /* NAN: not judged (docs/worth.md) */
    double loss;
    int64_t hops; /* n_layers + 1: more than there are; INT64_MIN: not measured */
    double flow;  /* the least of dense; NAN: not measured */
    bool starred;
    const char *text; /* canonical, or NULL until it was asked for */
} s2_tui_row;

enum { S2_TUI_COMPARE = 8 };

/* Lines that a view shows as they are, folded at the screen's edge. */
typedef enum s2_tui_line_kind {
    S2_LINE_TEXT,
    S2_LINE_HEAD,
    S2_LINE_DIM,
    S2_LINE_GOOD,
    S2_LINE_BAD,
    S2_LINE_UNSURE,
    S2_LINE_NEEDLES /* a length, then a cell for each depth: # . ! ? or blank */
} s2_tui_line_kind;
typedef struct s2_tui_line {
    s2_tui_line_kind kind;
    const char *text;
} s2_tui_line;
typedef struct s2_tui_text {
    int32_t n_lines;
    const s2_tui_line *lines;
} s2_tui_text;

/* A command that runs in the background, or a stored one. */
typedef enum s2_tui_run_state {
    S2_RUN_QUEUED,
    S2_RUN_RUNNING,
    S2_RUN_ENDED,
    S2_RUN_CANCELLED,
    S2_RUN_CUT /* stored without an exit code: it was cut off */
} s2_tui_run_state;
typedef struct s2_tui_run {
    int32_t job; /* its number in this session, from 1; 0: a stored run */
    int64_t id;  /* in the database, if stored */
    s2_tui_run_state state;
    int32_t code;     /* exit code, if it ended */
    const char *when; /* "11-21 07:12" */
    const char *what; /* the command line */
    const char *now;  /* progress, "" */
    double wall_s;    /* NAN: not known */
    int64_t n_results;
} s2_tui_run;

/* Something to choose by name: a format, a saved view. */
typedef struct s2_tui_choice {
    const char *name;
    const char *help;
    const char *path;   /* for a format: the file to write */
    const char *filter; /* for a view */
    const char *sort;
    bool ascending;
} s2_tui_choice;

/* A column that can be minimised, and how its values are written. */
typedef struct s2_tui_objective {
    const char *name; /* of the column */
    s2_quantity quantity;
} s2_tui_objective;

enum { S2_TUI_OBJECTIVES = 4 };

/* A design in the scatter plot; NAN: no value. */
typedef struct s2_tui_point {
    int64_t id;
    float value[S2_TUI_OBJECTIVES]; /* in the order of the objectives */
    bool violated;                  /* its union: some key has no head that reads it */
} s2_tui_point;

/* The front of all designs that pass the list's filter, at one phase and length: what `s2 pareto` prints. */
typedef struct s2_tui_front {
    bool searching;    /* what is shown is older, or nothing yet */
    const char *error; /* why there is none, or NULL */
    int32_t n_objectives;
    s2_tui_objective objectives[S2_TUI_OBJECTIVES];
    const char *phase; /* of the prices; "" where the objectives have none */
    int64_t len_tok;
    const char *kind; /* the conditions for the only kind of price that competes; NULL: none has one */
    int32_t n_left;   /* prices of other kinds that would compete otherwise */
    int32_t n_holed;  /* on the front with a violated union */
    int32_t n_points; /* designs that pass the filter */
    const s2_tui_point *points;
    int32_t n_rows;
    const s2_tui_row *rows; /* on the front, ordered by the first objective; values[n_rows][n_objectives] */
    const double *values;
} s2_tui_front;

/* A word of the glossary. */
typedef struct s2_tui_word {
    const char *name;
    const char *text;
} s2_tui_word;

typedef struct s2_tui_model {
    const char *source;         /* the database's path, or "samples" */
    bool stored;                /* the designs are in a database, which knows them by hash */
    const char *database;       /* the words that name it in a command: "", " --db FILE" or " --no-db" */
    int32_t n_rows;             /* loaded so far */
    bool more;                  /* the list goes on */
    bool less;                  /* it begins before the first row that is loaded */
    int64_t n_all;              /* designs that pass the filter; -1: not counted yet */
    const char *filter_error;   /* why the typed text is not a filter yet, or NULL */
    const char *const *columns; /* of the filter language, ended by NULL */
    const s2_tui_row *rows;
    const char *list_error; /* why the list could not be made, or NULL */
    const s2_facts *bench;  /* of state->knobs, or while bench_waits of their last setting */
    const s2_facts
        *design; /* of the design that was opened last, or while design_waits of one before it; or NULL */
    int64_t design_id;    /* whose these are */
    const s2_facts *base; /* of the baseline, or NULL */
    s2_tally before; /* of the workbench's pattern before its last step; not there where it was brought */
    const s2_facts *tour; /* of the design that the tour's step shows, or NULL */
    bool bench_waits;     /* newer facts are being derived */
    bool design_waits;
    s2_grids *grids; /* masks computed between draws */
    int32_t n_compare;
    const s2_facts *compare[S2_TUI_COMPARE];
    const char *compare_name[S2_TUI_COMPARE];
    int32_t n_log;
    const char *const *log; /* oldest first */
    s2_tui_text record;     /* what is stored of the open design */
    int32_t n_runs;         /* this session's before stored ones, each latest first */
    const s2_tui_run *runs;
    s2_tui_text output; /* of the run under the cursor */
    const char *busy;   /* what runs in the background and its progress; NULL: nothing does */
    bool searching;     /* the list is being made; what is shown is older */
    bool gpu;           /* this build and machine can validate on a GPU */
    s2_tui_front front;
    int32_t n_views;
    const s2_tui_choice *views;
    int32_t n_formats;
    const s2_tui_choice *formats;
    int32_t n_words;
    const s2_tui_word *words;
    s2_tui_text loss;  /* what the export that is being chosen would lose */
    bool loss_refused; /* it would write nothing */
} s2_tui_model;

typedef enum s2_request {
    S2_REQUEST_NONE,
    S2_REQUEST_QUIT,
    S2_REQUEST_LIST,     /* the filter or the order changed */
    S2_REQUEST_MORE,     /* the next page of the list */
    S2_REQUEST_BEFORE,   /* the page before the first row that is loaded */
    S2_REQUEST_LAST,     /* the end of the list in place of what is loaded */
    S2_REQUEST_FRONT,    /* bring model->front up to date: state->minimize, of state->filter */
    S2_REQUEST_OPEN,     /* facts of the design under the cursor (request_id) */
    S2_REQUEST_TO_BENCH, /* the design request_id on the workbench */
    S2_REQUEST_COMPARE,
    S2_REQUEST_SAVE, /* the workbench's design under the name in state->prompt */
    S2_REQUEST_STAR,
    S2_REQUEST_UNDO,
    S2_REQUEST_FILE,   /* bring the pattern of the file in state->prompt to the workbench */
    S2_REQUEST_COPY,   /* the command of this screen */
    S2_REQUEST_YANK,   /* state->yank of the design request_id */
    S2_REQUEST_EDITOR, /* open the workbench's pattern in the person's editor */
    /* for the design request_id, or for the workbench if that is 0; the words are in state->prompt */
    S2_REQUEST_VALIDATE,
    S2_REQUEST_PROVE,
    S2_REQUEST_PRICE,
    S2_REQUEST_MEASURE,
    S2_REQUEST_AROUND,
    S2_REQUEST_TRY_EXPORT, /* to state->format, only to say what that would lose */
    S2_REQUEST_EXPORT,
    S2_REQUEST_RECORD,
    S2_REQUEST_TAG,
    S2_REQUEST_NOTE,
    S2_REQUEST_TRASH,
    S2_REQUEST_VIEW_SAVE,
    S2_REQUEST_VIEWS, /* bring model->views up to date */
    S2_REQUEST_RUNS,  /* bring model->runs up to date */
    S2_REQUEST_CANCEL,
    S2_REQUEST_DUMP,
    S2_REQUEST_REDRAW
} s2_request;

/* What keys do: actions, typing into a prompt, choosing from a list; any key closes the command's display. */
typedef enum s2_mode {
    S2_MODE_KEYS,
    S2_MODE_FILTER,
    S2_MODE_NAME,
    S2_MODE_VALIDATE,
    S2_MODE_PROVE,
    S2_MODE_PRICE,
    S2_MODE_AROUND,
    S2_MODE_PATH,
    S2_MODE_TAG,
    S2_MODE_NOTE,
    S2_MODE_VIEW_NAME,
    S2_MODE_DUMP,
    S2_MODE_MINIMIZE,
    S2_MODE_TEXT,  /* the workbench's pattern */
    S2_MODE_KNOB,  /* the value of one knob */
    S2_MODE_FILE,  /* the name of a pattern's file */
    S2_MODE_PLACE, /* query and key of the crosshair */
    S2_MODE_PALETTE,
    S2_MODE_FORMATS,
    S2_MODE_VIEWS,
    S2_MODE_REPAIRS,
    S2_MODE_COLUMNS,
    S2_MODE_YANK,
    S2_MODE_WORDS, /* of the glossary */
    S2_MODE_COMMAND,
    S2_MODE_QUIT, /* state->message asks for confirmation */
    S2_N_MODES
} s2_mode;

enum {
    S2_TUI_STACK = S2_N_VIEWS,
    S2_TUI_UNDO = 32,
    S2_TUI_HISTORY = 16,
    S2_TUI_PROMPT_BYTES = 200,
    S2_TUI_TEXT_BYTES = 8192
};

/* Which part of a design is copied to the clipboard. */
typedef enum s2_tui_yank {
    S2_TUI_YANK_COMMAND,
    S2_TUI_YANK_HASH,
    S2_TUI_YANK_PATTERN,
    S2_TUI_YANK_ROW,
    S2_TUI_N_YANKS
} s2_tui_yank;

enum { S2_FORM_FIELDS = 12, S2_FORM_BYTES = 80 };

/* The values filled in for a command's options, one field each. */
typedef struct s2_form_values {
    bool begun;
    char field[S2_FORM_FIELDS][S2_FORM_BYTES];
} s2_form_values;

/* A state of the workbench: its pattern as text ("": as knobs), and its question in the knobs. */
typedef struct s2_bench_step {
    s2_knobs knobs;
    char text[S2_TUI_TEXT_BYTES];
} s2_bench_step;

typedef struct s2_tui_state {
    int32_t rows; /* of the screen */
    int32_t cols;
    int32_t depth; /* views[depth] is shown */
    s2_view_id views[S2_TUI_STACK];
    s2_mode mode;
    char prompt[S2_TUI_TEXT_BYTES];             /* being typed; only patterns use all of it */
    int32_t caret;                              /* the byte of it before which the next letter goes */
    char kept[S2_N_MODES][S2_TUI_PROMPT_BYTES]; /* typed into a prompt, but not used */
    int32_t palette_at;                         /* the line chosen in a list of choices */
    s2_form_values validate;
    s2_form_values around;
    int32_t field; /* of the form: the one being filled in */
    s2_tui_yank yank;
    int32_t format;     /* of model->formats: the one to export to */
    int64_t subject_id; /* the design that a prompt is about; 0: the workbench */
    int32_t run;        /* cursor of the runs */
    char filter[S2_TUI_PROMPT_BYTES];
    char filter_before[S2_TUI_PROMPT_BYTES];           /* while one is typed, esc restores this */
    char history[S2_TUI_HISTORY][S2_TUI_PROMPT_BYTES]; /* used filters, the latest first */
    int32_t history_at;                                /* the used filter recalled while typing; -1: none */
    char minimize[S2_TUI_PROMPT_BYTES];                /* the objectives of the front: "us,kv_bytes,unread" */
    int32_t front;                                     /* the row of the front that keys act on */
    uint32_t columns;                                  /* shown in the list */
    bool mixed;                                        /* prices of several kinds are on the screen */
    bool lengths;                                      /* and figures of several phases or lengths */
    int32_t on_cols;                                   /* what the longest "on" of the list takes */
    int32_t sort;                                      /* index of s2_tui_sorts */
    bool ascending;
    int32_t cursor; /* row of the list */
    int32_t top;
    int32_t n_marked;
    int64_t marked[S2_TUI_COMPARE];
    int64_t design_id; /* open design */
    char design_name[S2_LIMIT_NAME_BYTES + 1];
    s2_knobs knobs;
    s2_knobs knobs_saved;               /* the knobs as last taken from a design or saved as one */
    char name[S2_LIMIT_NAME_BYTES + 1]; /* under which the pattern of `named` was read or saved */
    s2_knobs named;
    char text[S2_TUI_TEXT_BYTES]; /* the workbench's pattern in place of the knobs'; "": theirs */
    char text_saved[S2_TUI_TEXT_BYTES];
    char base[S2_TUI_TEXT_BYTES]; /* the baseline's pattern; "": none is pinned */
    bool reach;                   /* the lowest panel shows reach by layer in place of the KV cache */
    s2_knob knob;                 /* the one that keys turn */
    bool brought;                 /* the pattern at hand came from elsewhere: no step led to it */
    int32_t n_steps;              /* in the workbench's history; the present is between */
    int32_t n_undo; /* the first n_undo, which can be undone, the last first, and the others, to be redone */
    s2_bench_step steps[S2_TUI_UNDO];
    int32_t layer; /* -1: the one worth looking at */
    int32_t head;
    bool zoomed;
    s2_zoom zoom;      /* in blocks, if zoomed */
    bool cross;        /* the crosshair points at a pair of tokens: */
    int64_t cross_q;   /* its query */
    int64_t cross_k;   /* and key */
    int32_t scroll;    /* of texts and compare */
    int32_t tour;      /* step */
    char message[400]; /* shown in the footer until the next key */
    s2_request request;
    int64_t request_id;
} s2_tui_state;

/* The list's columns besides the name, as its chooser calls them; bit 1 << index of state->columns. */
enum { S2_TUI_COLUMNS = 17, S2_TUI_COLUMNS_USUAL = 0x101f9 };
extern const char *const s2_tui_columns[S2_TUI_COLUMNS];

/* Columns of the filter language that the list can be ordered by. */
extern const char *const s2_tui_sorts[];
enum { S2_TUI_SORTS = 6 };

/* The state before the first key, on a screen of this size, in this view. */
void s2_tui_state_init(s2_tui_state *state, int32_t rows, int32_t cols, s2_view_id first);

/* Handle one key. Sets state->request, to S2_REQUEST_NONE if the owner has nothing to do. */
void s2_tui_step(const s2_tui_model *model, s2_tui_state *state, int32_t key);
/* Pasted text goes into what is being typed, lines joined by "; "; elsewhere it is refused with a message. */
void s2_tui_paste(const s2_tui_model *model, s2_tui_state *state, const char *text);
void s2_tui_resize(s2_tui_state *state, int32_t rows, int32_t cols);
/* Keep cursors inside what there is; the owner calls this after changing the model. */
void s2_tui_settle(const s2_tui_model *model, s2_tui_state *state);

/* A request could not be fulfilled: offer its words again when its prompt is next opened. */
void s2_tui_keep(s2_tui_state *state, s2_request request, const char *words);

/* A filter was used: make it the latest of the history. */
void s2_tui_used(s2_tui_state *state, const char *filter);

/* A pattern of the workbench, the knobs' or this text, was stored under a name; "": under its own. */
void s2_tui_saved(s2_tui_state *state, const s2_knobs *knobs, const char *text, const char *name);

/* Handle a click on a cell of the screen drawn last; wheel: -1 up, 1 down, 0 a button. */
void s2_tui_click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col, int32_t wheel);

/* The pattern that a step of the tour shows. */
enum { S2_TOUR_STEPS = 5 };
const char *s2_tour_pattern(int32_t step);

/* Draw the whole screen at the canvas's size, which should be the state's. */
void s2_tui_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas);

/* The workbench's pattern: the text being typed, else its text, else the knobs'; joined by "; ". */
void s2_tui_pattern(const s2_tui_state *state, s2_buf *buf);

/* The command that prints what this screen shows. */
void s2_tui_command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf);

#endif /* S2_TUI_MODEL_H */
