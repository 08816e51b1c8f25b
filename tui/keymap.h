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

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_view_id {
    S2_VIEW_BENCH,
    S2_VIEW_DESIGNS,
    S2_VIEW_DESIGN,
    S2_VIEW_COMPARE,
    S2_VIEW_PARETO,
    S2_VIEW_RECORD,
    S2_VIEW_RUNS,
    S2_VIEW_OUTPUT,
    S2_VIEW_LOG,
    S2_VIEW_HELP,
    S2_VIEW_TOUR,
    S2_N_VIEWS
} s2_view_id;

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
    S2_KEY_REDRAW = 12
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
    S2_ACT_SAVE,
    S2_ACT_MARK,
    S2_ACT_COMPARE,
    S2_ACT_STAR,
    S2_ACT_FILTER,
    S2_ACT_SORT,
    S2_ACT_REVERSE,
    S2_ACT_TO_BENCH,
    S2_ACT_BENCH,
    S2_ACT_DESIGNS,
    S2_ACT_LOG,
    S2_ACT_TOUR,
    S2_ACT_PARETO,
    S2_ACT_HELP,
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
    S2_ACT_RUNS,
    S2_ACT_CANCEL,
    S2_ACT_REDRAW
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

int32_t s2_binding_count(void);
const s2_binding *s2_binding_at(int32_t nth);
/* The action of a key in a view, S2_ACT_NONE when it has none there. */
s2_action s2_keymap_find(s2_view_id view, int32_t key);

/*
 * A key by the name that scripts use ("up", "enter", "esc", "x"): n bytes, not terminated. 0 when there
 * is none of this name.
 */
int32_t s2_key_parse(const char *name, size_t n);

#ifdef __cplusplus
}
#endif
#endif /* S2_TUI_KEYMAP_H */
