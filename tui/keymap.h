/*
 * tui/keymap.h - every key, what it does, and where: the one table that dispatches keys, draws the help
 * screen and fills the command palette.
 *
 * A key is a code point, or one of S2_KEY_*. Threads: constant data.
 */
#ifndef S2_TUI_KEYMAP_H
#define S2_TUI_KEYMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Every view: enumerator, word (s2 tui --dump WORD, and s2_view_WORD in its file), title, the key that goes
 * there from anywhere, as a number and as the help shows it (0 and "": none), what that key does, the request
 * that it then makes to the owner, whether list keys move in the view, one sentence of help.
 */
#define S2_VIEW_TABLE(X)                                                                                     \
    X(BENCH, bench, "workbench", '1', "1", "to the workbench", S2_REQUEST_NONE, true,                        \
      "turn a knob and see verdict, holes, cache and cost follow")                                           \
    X(DESIGNS, designs, "designs", '2', "2", "to the list of designs", S2_REQUEST_NONE, true,                \
      "what is in the database: filter, sort, mark, open")                                                   \
    X(LOG, log, "log", '3', "3", "what was done", S2_REQUEST_NONE, true, "what was done, newest first")      \
    X(TOUR, tour, "tour", '4', "4", "the tour in five steps", S2_REQUEST_NONE, false,                        \
      "what can be done here, in five steps")                                                                \
    X(PARETO, pareto, "pareto", '5', "5", "the front of the whole database, or of the filter",               \
      S2_REQUEST_FRONT, true, "designs that no other one beats, walked from end to end")                     \
    X(RUNS, runs, "runs", '6', "6", "what runs in the background, and what ran", S2_REQUEST_RUNS, true,      \
      "what runs in the background, and what ran")                                                           \
    X(REACH, reach, "reach", '7', "7", "how far information gets, layer by layer", S2_REQUEST_NONE, true,    \
      "how far information gets through the layers, and the worth")                                          \
    X(DESIGN, design, "design", 0, "", "", S2_REQUEST_NONE, false,                                           \
      "one design: what it reads, proves and costs")                                                         \
    X(COMPARE, compare, "compare", 0, "", "", S2_REQUEST_NONE, true, "the marked designs side by side")      \
    X(RECORD, record, "record", 0, "", "", S2_REQUEST_NONE, true, "what is stored of one design")            \
    X(OUTPUT, output, "output", 0, "", "", S2_REQUEST_NONE, true, "what a run said")                         \
    X(HELP, help, "help", 0, "", "", S2_REQUEST_NONE, true, "keys")

typedef enum s2_view_id {
#define S2_VIEW_ENUM(id, ...) S2_VIEW_##id,
    S2_VIEW_TABLE(S2_VIEW_ENUM)
#undef S2_VIEW_ENUM
        S2_N_VIEWS
} s2_view_id;

typedef struct s2_view_info {
    const char *word;
    const char *title;
    const char *help;
} s2_view_info;
const s2_view_info *s2_view_info_of(s2_view_id id); /* its row in the table of views */
/* The view with this word, as in `s2 tui --dump`; false if there is none. */
bool s2_view_find(const char *word, s2_view_id *out);

enum {
    S2_KEY_UP = 0x200000,
    S2_KEY_DOWN,
    S2_KEY_LEFT,
    S2_KEY_RIGHT,
    S2_KEY_PAGE_UP,
    S2_KEY_PAGE_DOWN,
    S2_KEY_HOME,
    S2_KEY_END,
    S2_KEY_F1,
    S2_KEY_ENTER = '\n',
    S2_KEY_TAB = '\t',
    S2_KEY_ESC = 27,
    S2_KEY_BACKSPACE = 127,
    S2_KEY_REDRAW = 12,
    S2_KEY_EDITOR = 5
};

typedef enum s2_action {
    S2_ACT_NONE,
    S2_ACT_UP,
    S2_ACT_DOWN,
    S2_ACT_LESS,
    S2_ACT_MORE,
    S2_ACT_HALVE,
    S2_ACT_DOUBLE,
    S2_ACT_PAGE_UP,
    S2_ACT_PAGE_DOWN,
    S2_ACT_FIRST,
    S2_ACT_LAST,
    S2_ACT_OPEN,
    S2_ACT_BACK,
    S2_ACT_QUIT,
    S2_ACT_HEAD_NEXT,
    S2_ACT_HEAD_PREVIOUS,
    S2_ACT_LAYER_NEXT,
    S2_ACT_LAYER_PREVIOUS,
    S2_ACT_ZOOM_IN,
    S2_ACT_ZOOM_OUT,
    S2_ACT_FIT,
    S2_ACT_PAN_LEFT,
    S2_ACT_PAN_DOWN,
    S2_ACT_PAN_UP,
    S2_ACT_PAN_RIGHT,
    S2_ACT_WITNESS,
    S2_ACT_UNDO,
    S2_ACT_REDO,
    S2_ACT_FILE,
    S2_ACT_CROSS,
    S2_ACT_PLACE,
    S2_ACT_REPAIR,
    S2_ACT_BASELINE,
    S2_ACT_BRUSH,
    S2_ACT_OF_RUN,
    S2_ACT_REACH,
    S2_ACT_MEASURE,
    S2_ACT_SAVE,
    S2_ACT_MARK,
    S2_ACT_COMPARE,
    S2_ACT_STAR,
    S2_ACT_FILTER,
    S2_ACT_SORT,
    S2_ACT_REVERSE,
    S2_ACT_TO_BENCH,
    S2_ACT_MINIMIZE,
    S2_ACT_TEXT,
    S2_ACT_EDITOR,
    S2_ACT_YANK,
    S2_ACT_COLUMNS,
    S2_ACT_LOOK_UP,
    S2_ACT_PALETTE,
    S2_ACT_COMMAND,
    S2_ACT_COPY,
    S2_ACT_DUMP,
    S2_ACT_VALIDATE,
    S2_ACT_PROVE,
    S2_ACT_PRICE,
    S2_ACT_AROUND,
    S2_ACT_EXPORT,
    S2_ACT_RECORD,
    S2_ACT_TAG,
    S2_ACT_NOTE,
    S2_ACT_TRASH,
    S2_ACT_VIEW_SAVE,
    S2_ACT_VIEWS,
    S2_ACT_CANCEL,
    S2_ACT_REDRAW,
    S2_ACT_GO, /* plus the number of a view: go to that view */
#define S2_ACT_GO_ENUM(id, ...) S2_ACT_GO_##id = S2_ACT_GO + S2_VIEW_##id,
    S2_VIEW_TABLE(S2_ACT_GO_ENUM)
#undef S2_ACT_GO_ENUM
} s2_action;

enum { S2_BINDING_KEYS = 3 };

typedef struct s2_binding {
    s2_action action;
    uint32_t views;                /* bit 1 << s2_view_id */
    int32_t keys[S2_BINDING_KEYS]; /* 0: none */
    const char *shown;             /* the keys as the help shows them */
    const char *name;              /* in the palette */
    const char *help;
} s2_binding;

int32_t s2_binding_count(void); /* rows of the table of keys */
const s2_binding *s2_binding_at(int32_t nth);
/* The keys of an action in a view; NULL if it has none. */
const s2_binding *s2_binding_of(s2_view_id view, s2_action action);
/* The action of a key in a view; S2_ACT_NONE if it has none. */
s2_action s2_keymap_find(s2_view_id view, int32_t key);

/*
 * The key with the name that scripts use ("up", "enter", "esc", "x"): n bytes, not terminated. 0 if no key
 * has this name.
 */
int32_t s2_key_parse(const char *name, size_t n);

#endif /* S2_TUI_KEYMAP_H */
