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
    bool is_bound; /* sim_us is one, and no prediction */
    double kv_bytes;
    double gpu_us;
    const char *phase; /* of the numbers above; "" where there are none */
    int64_t len_tok;
    const char *priced_on; /* "8 x h200 b32 e4m3": GPUs, batch, and what else of the price is not usual */
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

/* A command that runs beside the screen, or one that was stored. */
typedef enum s2_tui_run_state {
    S2_RUN_QUEUED,
    S2_RUN_RUNNING,
    S2_RUN_ENDED,
    S2_RUN_CANCELLED,
    S2_RUN_CUT /* it did not end by itself */
} s2_tui_run_state;
typedef struct s2_tui_run {
    int32_t job; /* of this session, counted from 1; 0: stored */
    int64_t id;  /* of the database, where stored */
    s2_tui_run_state state;
    int32_t code;     /* exit code of one that ended */
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
    const char *path;   /* of a format: a file to write */
    const char *filter; /* of a view */
    const char *sort;
    bool ascending;
} s2_tui_choice;

/* What may be minimised, and how its values are written. */
typedef enum s2_tui_unit { S2_TUI_TIME, S2_TUI_BYTES, S2_TUI_SHARE } s2_tui_unit;
typedef struct s2_tui_objective {
    const char *name;  /* of the column */
    const char *words; /* "predicted time" */
    s2_tui_unit unit;
} s2_tui_objective;

enum { S2_TUI_OBJECTIVES = 4 };

/* A design of the scatter; NAN: no value. */
typedef struct s2_tui_point {
    int64_t id;
    float value[S2_TUI_OBJECTIVES]; /* in the order of the objectives */
    bool holds;                     /* its union, for every length: only these compete */
    bool violated;
} s2_tui_point;

/*
 * The front of all designs that the list's filter leaves and whose union holds, at one phase and length: what
 * `s2 pareto union=holds` prints.
 */
typedef struct s2_tui_front {
    bool searching;    /* what is shown is older, or nothing yet */
    const char *error; /* why there is none, or NULL */
    int32_t n_objectives;
    s2_tui_objective objectives[S2_TUI_OBJECTIVES];
    const char *phase; /* of the prices; "" where the objectives have none */
    int64_t len_tok;
    const char
        *kind; /* the conditions that leave prices of one kind, which alone compete; NULL: none has one */
    int32_t n_left;    /* prices of other kinds that would compete otherwise */
    int32_t n_holding; /* designs that compete */
    int32_t n_points;  /* designs that the filter leaves, with those that do not compete */
    const s2_tui_point *points;
    int32_t n_rows;
    const s2_tui_row *rows; /* on the front, by the first objective; values[n_rows][n_objectives] */
    const double *values;
} s2_tui_front;

/* A word of the glossary. */
typedef struct s2_tui_word {
    const char *name;
    const char *text;
} s2_tui_word;

typedef struct s2_tui_model {
    const char *source;         /* the database's path, or "samples" */
    bool stored;                /* designs are those of a database, known there by hash */
    const char *database;       /* the words that name it in a command: "", " --db FILE" or " --no-db" */
    int32_t n_rows;             /* loaded so far */
    bool more;                  /* the list goes on */
    bool less;                  /* it begins before the first row that is loaded */
    int64_t n_all;              /* designs that the filter leaves; -1: not counted yet */
    const char *filter_error;   /* why what is typed is no filter yet, or NULL */
    const char *const *columns; /* of the filter language, NULL behind the last */
    const s2_tui_row *rows;
    const char *list_error; /* why the list could not be made, or NULL */
    const s2_facts *bench;  /* of state->knobs, or of what they were while bench_waits */
    const s2_facts *design; /* of the design that is open, or NULL */
    const s2_facts *base;   /* of the baseline, or NULL */
    s2_tally before;        /* of what the workbench had before its last change */
    const s2_facts *tour;   /* of the design that the tour's step shows, or NULL */
    bool bench_waits;       /* newer facts are being derived */
    bool design_waits;
    s2_grids *grids; /* masks that were computed aside; NULL: each draw computes them */
    int32_t n_compare;
    const s2_facts *compare[S2_TUI_COMPARE];
    const char *compare_name[S2_TUI_COMPARE];
    int32_t n_log;
    const char *const *log; /* oldest first */
    s2_tui_text record;     /* what is stored of the open design */
    int32_t n_runs;         /* this session's first, latest first */
    const s2_tui_run *runs;
    s2_tui_text output; /* of the run under the cursor */
    const char *busy;   /* what runs in the background and how far it is; NULL: nothing does */
    bool searching;     /* the list is being made; what is shown is older */
    bool gpu;           /* this build and machine can validate on a GPU */
    s2_tui_front front;
    int32_t n_views;
    const s2_tui_choice *views;
    int32_t n_formats;
    const s2_tui_choice *formats;
    int32_t n_words;
    const s2_tui_word *words;
    s2_tui_text loss; /* what the export that is being chosen would lose */
} s2_tui_model;

typedef enum s2_request {
    S2_REQUEST_NONE,
    S2_REQUEST_QUIT,
    S2_REQUEST_LIST,   /* the filter or the order changed */
    S2_REQUEST_MORE,   /* the next page of the list */
    S2_REQUEST_BEFORE, /* the page before the first row that is loaded */
    S2_REQUEST_LAST,   /* the end of the list in place of what is loaded */
    S2_REQUEST_FRONT,  /* bring model->front up to date: state->minimize, of state->filter */
    S2_REQUEST_OPEN,   /* facts of the design under the cursor (request_id) */
    S2_REQUEST_COMPARE,
    S2_REQUEST_SAVE, /* the workbench's design under the name in state->prompt */
    S2_REQUEST_STAR,
    S2_REQUEST_UNDO,
    S2_REQUEST_FILE,   /* the pattern of the file in state->prompt to the workbench */
    S2_REQUEST_COPY,   /* the command of this screen */
    S2_REQUEST_YANK,   /* state->yank of the design request_id */
    S2_REQUEST_EDITOR, /* the workbench's pattern to the person's editor */
    /* of the design request_id, or of the workbench where it is 0; words in state->prompt */
    S2_REQUEST_VALIDATE,
    S2_REQUEST_PROVE,
    S2_REQUEST_PRICE,
    S2_REQUEST_AROUND,
    S2_REQUEST_TRY_EXPORT, /* compare only: state->format */
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

/* What keys mean: actions; text for a prompt; a choice from a list; anything ends the command's display. */
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
    S2_MODE_FILE,  /* of a pattern */
    S2_MODE_PLACE, /* query and key of the crosshair */
    S2_MODE_PALETTE,
    S2_MODE_FORMATS,
    S2_MODE_VIEWS,
    S2_MODE_REPAIRS,
    S2_MODE_COLUMNS,
    S2_MODE_YANK,
    S2_MODE_WORDS, /* of the glossary */
    S2_MODE_COMMAND,
    S2_MODE_QUIT, /* state->message asks */
    S2_N_MODES
} s2_mode;

enum {
    S2_TUI_STACK = S2_N_VIEWS,
    S2_TUI_UNDO = 32,
    S2_TUI_HISTORY = 16,
    S2_TUI_PROMPT_BYTES = 200,
    S2_TUI_TEXT_BYTES = 8192
};

/* What of a design is handed to the clipboard. */
typedef enum s2_tui_yank {
    S2_TUI_YANK_COMMAND,
    S2_TUI_YANK_HASH,
    S2_TUI_YANK_PATTERN,
    S2_TUI_YANK_ROW,
    S2_TUI_N_YANKS
} s2_tui_yank;

enum { S2_FORM_FIELDS = 12, S2_FORM_BYTES = 80 };

/* What is filled in of the options of a command, one field each. */
typedef struct s2_form_values {
    bool begun;
    char field[S2_FORM_FIELDS][S2_FORM_BYTES];
} s2_form_values;

/* A pattern of the workbench: its text, or "" and what the knobs say; and the question. */
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
    int32_t caret;                              /* byte of it that the next letter goes before */
    char kept[S2_N_MODES][S2_TUI_PROMPT_BYTES]; /* typed for a prompt, and not used */
    int32_t palette_at;                         /* of the list that is chosen from */
    s2_form_values validate;
    s2_form_values around;
    int32_t field; /* of the form, being filled in */
    s2_tui_yank yank;
    int32_t format;     /* of model->formats, being exported */
    int64_t subject_id; /* the design that a prompt is about; 0: the workbench */
    int32_t run;        /* cursor of the runs */
    char filter[S2_TUI_PROMPT_BYTES];
    char filter_before[S2_TUI_PROMPT_BYTES];           /* it is typed: esc brings this back */
    char history[S2_TUI_HISTORY][S2_TUI_PROMPT_BYTES]; /* filters that were used, the latest first */
    int32_t history_at;                                /* of them, while one is typed; -1: none */
    char minimize[S2_TUI_PROMPT_BYTES];                /* the objectives of the front: "us,kv_bytes,unread" */
    int32_t front;                                     /* row of it that keys act on */
    uint32_t columns;                                  /* of the list */
    int32_t sort;                                      /* index of s2_tui_sorts */
    bool ascending;
    int32_t cursor; /* row of the list */
    int32_t top;
    int32_t n_marked;
    int64_t marked[S2_TUI_COMPARE];
    int64_t design_id; /* open design */
    char design_name[S2_LIMIT_NAME_BYTES + 1];
    s2_knobs knobs;
    s2_knobs knobs_saved;               /* as they were taken from a design, or saved as one */
    char name[S2_LIMIT_NAME_BYTES + 1]; /* of the pattern that `named` says: read, or saved under it */
    s2_knobs named;
    char text[S2_TUI_TEXT_BYTES]; /* the workbench's pattern in place of the knobs; "": theirs */
    char text_saved[S2_TUI_TEXT_BYTES];
    char base[S2_TUI_TEXT_BYTES]; /* the baseline's pattern; "": none is pinned */
    bool reach;                   /* the lowest panel shows reach by layer in place of the KV cache */
    s2_knob knob;                 /* that keys turn */
    int32_t n_steps;              /* of the workbench's history; what is at hand stands between the two: */
    int32_t n_undo; /* the first so many can be gone back to, the last first; the others can be done again */
    s2_bench_step steps[S2_TUI_UNDO];
    int32_t layer; /* -1: the one worth looking at */
    int32_t head;
    bool zoomed;
    s2_zoom zoom;      /* blocks, where zoomed */
    bool cross;        /* a pair of tokens of the masks is pointed at */
    int64_t cross_q;   /* its query */
    int64_t cross_k;   /* and key */
    int32_t scroll;    /* of texts and compare */
    int32_t tour;      /* step */
    char message[400]; /* said in the footer until the next key */
    s2_request request;
    int64_t request_id;
} s2_tui_state;

/* Columns of the list beside the name, by the words of the chooser; bit 1 << index of state->columns. */
enum { S2_TUI_COLUMNS = 13, S2_TUI_COLUMNS_USUAL = 0x11f9 };
extern const char *const s2_tui_columns[S2_TUI_COLUMNS];

/* Columns of the filter language that the list can be ordered by. */
extern const char *const s2_tui_sorts[];
enum { S2_TUI_SORTS = 6 };

/* Before the first key, on a screen of this size, in this view. */
s2_tui_state s2_tui_state_init(int32_t rows, int32_t cols, s2_view_id first);

/* One key, or a new size. Sets state->request, or S2_REQUEST_NONE. */
void s2_tui_step(const s2_tui_model *model, s2_tui_state *state, int32_t key);
/* Pasted text goes into what is being typed, lines joined by "; "; elsewhere it is refused with a message. */
void s2_tui_paste(const s2_tui_model *model, s2_tui_state *state, const char *text);
void s2_tui_resize(s2_tui_state *state, int32_t rows, int32_t cols);
/* Keep cursor and zoom inside what there is; the owner calls it after it changed the model. */
void s2_tui_settle(const s2_tui_model *model, s2_tui_state *state);

/* What was asked for could not be done: its words are there when its prompt is opened again. */
void s2_tui_keep(s2_tui_state *state, s2_request request, const char *words);

/* A filter that was used, the latest of the history. */
void s2_tui_used(s2_tui_state *state, const char *filter);

/* A pattern that the workbench had, the knobs' or this text, is stored under a name; "": its own. */
void s2_tui_saved(s2_tui_state *state, const s2_knobs *knobs, const char *text, const char *name);

/* A click on a cell of the screen that was drawn last; wheel: -1 up, 1 down, 0 a button. */
void s2_tui_click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col, int32_t wheel);

/* The pattern that a step of the tour shows. */
enum { S2_TOUR_STEPS = 5 };
const char *s2_tour_pattern(int32_t step);

/* The whole screen; the canvas has the size of the state, or is drawn to its own. */
void s2_tui_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas);

/* The workbench's pattern, as it is being typed, as it was, or as the knobs say; statements apart by "; ". */
void s2_tui_pattern(const s2_tui_state *state, s2_buf *buf);

/* The command that prints what this screen shows. */
void s2_tui_command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf);

#ifdef __cplusplus
}
#endif
#endif /* S2_TUI_MODEL_H */
