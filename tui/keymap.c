#include "tui/keymap.h"

#include <string.h>

#include "base/text.h"

#define IN(view) (1u << S2_VIEW_##view)
enum { EVERY = (1u << S2_N_VIEWS) - 1 };
#define MASKS (IN(BENCH) | IN(DESIGN))
/* views in which list keys move */
enum {
    LISTS = 0
#define SCROLLS(id, view, title, key, shown, key_help, request, scrolls, help) | (scrolls ? IN(id) : 0)
    S2_VIEW_TABLE(SCROLLS)
#undef SCROLLS
};
/* views of one stored design, and of any one design */
#define ROWS     (IN(DESIGNS) | IN(DESIGN) | IN(PARETO) | IN(RECORD))
#define SUBJECTS (IN(BENCH) | ROWS)

static const s2_binding BINDINGS[] = {
    {S2_ACT_UP,
     LISTS | IN(DESIGN),
     {S2_KEY_UP, 'k'},
     "up k",
     "up",
     "the knob, line or design above; an earlier query"},
    {S2_ACT_DOWN, LISTS | IN(DESIGN), {S2_KEY_DOWN, 'j'}, "down j", "down", "the one below; a later query"},
    {S2_ACT_LESS,
     MASKS,
     {S2_KEY_LEFT, 'h'},
     "left h",
     "less",
     "turn the knob down one notch; an earlier key"},
    {S2_ACT_MORE, MASKS, {S2_KEY_RIGHT, 'l'}, "right l", "more", "turn the knob up one notch; a later key"},
    {S2_ACT_HALVE, IN(BENCH), {'[', '-'}, "[ -", "halve", "half of the knob's value"},
    {S2_ACT_DOUBLE, IN(BENCH), {']', '+'}, "] +", "double", "twice the knob's value"},
    {S2_ACT_UNDO, SUBJECTS, {'z', 'u'}, "z u", "undo", "undo the last change"},
    {S2_ACT_REDO, IN(BENCH), {'Z', 'U', 18}, "Z U ^R", "redo", "redo what was undone"},
    {S2_ACT_REPAIR, MASKS, {'R'}, "R", "repair", "what was proved to mend it, with its price"},
    {S2_ACT_BASELINE,
     IN(BENCH) | IN(DESIGNS) | IN(DESIGN),
     {'b'},
     "b",
     "baseline",
     "pin this design: others are compared with it"},
    {S2_ACT_CROSS, MASKS, {'c'}, "c", "crosshair", "point at a pair: who reads it, why others do not"},
    {S2_ACT_PLACE, MASKS, {'@'}, "@", "place", "the crosshair at a query and key: 8191 64"},
    {S2_ACT_REACH, MASKS, {'T'}, "T", "reach", "reach by layer in place of the KV cache, and back"},
    {S2_ACT_SAVE, IN(BENCH), {'s'}, "s", "save", "save as a design in the database"},
    {S2_ACT_TEXT, IN(BENCH), {'E'}, "E", "edit text", "write the pattern itself: every term, live verdicts"},
    {S2_ACT_EDITOR,
     IN(BENCH),
     {S2_KEY_EDITOR},
     "^E",
     "editor",
     "the text in $VISUAL or $EDITOR; also as it is typed"},
    {S2_ACT_FILE, IN(BENCH), {'O'}, "O", "open file", "take the pattern of a file"},
    {S2_ACT_VALIDATE, SUBJECTS, {'v'}, "v", "validate", "run a kernel on it, in the background"},
    {S2_ACT_PROVE, SUBJECTS, {'p'}, "p", "prove", "s2 check it without the screen's limit"},
    {S2_ACT_PRICE, SUBJECTS, {'m'}, "m", "price", "s2 sim it, also where the screen gives no price"},
    {S2_ACT_MEASURE, IN(REACH), {'m'}, "m", "measure", "s2 reach at the whole length, beside the screen"},
    {S2_ACT_AROUND, IN(BENCH), {'a'}, "a", "search around", "prove and price the designs around this one"},
    {S2_ACT_EXPORT, SUBJECTS, {'x'}, "x", "export", "choose a format, see the loss, write the file"},
    {S2_ACT_RECORD, ROWS & ~IN(RECORD), {'r'}, "r", "record", "what is stored of it: notes, runs, needles"},
    {S2_ACT_HEAD_NEXT, MASKS, {'.', S2_KEY_TAB}, ". tab", "next head", "show the next query head"},
    {S2_ACT_HEAD_PREVIOUS, MASKS, {','}, ",", "previous head", "show the query head before"},
    {S2_ACT_LAYER_NEXT, MASKS, {'}', '>'}, "} >", "next layer", "show the next layer"},
    {S2_ACT_LAYER_PREVIOUS, MASKS, {'{', '<'}, "{ <", "previous layer", "show the layer before"},
    {S2_ACT_ZOOM_IN, MASKS, {'i'}, "i", "zoom in", "half as many blocks on the masks"},
    {S2_ACT_ZOOM_OUT, MASKS, {'o'}, "o", "zoom out", "twice as many"},
    {S2_ACT_FIT, MASKS, {'0'}, "0", "fit", "the whole context on the masks"},
    {S2_ACT_PAN_LEFT, MASKS, {'H'}, "H", "pan left", "earlier keys"},
    {S2_ACT_PAN_DOWN, MASKS, {'J'}, "J", "pan down", "later queries"},
    {S2_ACT_PAN_UP, MASKS, {'K'}, "K", "pan up", "earlier queries"},
    {S2_ACT_PAN_RIGHT, MASKS, {'L'}, "L", "pan right", "later keys"},
    {S2_ACT_WITNESS, MASKS, {'n', 'w'}, "n w", "witness", "zoom to the smallest counterexample"},
    {S2_ACT_PAGE_UP, LISTS & ~IN(BENCH), {S2_KEY_PAGE_UP, 2}, "pgup ^B", "page up", "a screen up"},
    {S2_ACT_PAGE_DOWN, LISTS & ~IN(BENCH), {S2_KEY_PAGE_DOWN, 6}, "pgdn ^F", "page down", "a screen down"},
    {S2_ACT_FIRST, LISTS, {S2_KEY_HOME, 'g'}, "home g", "first", "to the first line"},
    {S2_ACT_LAST, LISTS, {S2_KEY_END, 'G'}, "end G", "last", "to the last line"},
    {S2_ACT_OPEN,
     IN(DESIGNS) | IN(PARETO) | IN(RUNS) | IN(TOUR),
     {S2_KEY_ENTER},
     "enter",
     "open",
     "open the design or run; the tour's next step"},
    {S2_ACT_OPEN, IN(BENCH), {S2_KEY_ENTER}, "enter", "set", "type the knob's value: 12, 128k, kv+1"},
    {S2_ACT_TO_BENCH, ROWS, {'e'}, "e", "edit", "take the design to the workbench"},
    {S2_ACT_MARK, IN(DESIGNS), {' '}, "space", "mark", "mark for comparing, at most 8"},
    {S2_ACT_COMPARE, IN(DESIGNS), {'c'}, "c", "compare", "the marked designs side by side"},
    {S2_ACT_STAR, ROWS, {'*', 'f'}, "* f", "star", "star the design, or take the star away"},
    {S2_ACT_TAG, ROWS, {'t'}, "t", "tag", "tag the design with words; -word takes one away"},
    {S2_ACT_NOTE, ROWS, {'N'}, "N", "note", "add a note to the design"},
    {S2_ACT_TRASH, ROWS, {'D'}, "D", "trash", "move the design to the trash; z brings it back"},
    {S2_ACT_FILTER, IN(DESIGNS), {'/'}, "/", "filter", "conditions, as in s2 ls: union=holds us<900"},
    {S2_ACT_OF_RUN, IN(RUNS), {'/'}, "/", "its designs", "list the designs that this run stored first"},
    {S2_ACT_BRUSH, IN(PARETO), {'/'}, "/", "no worse", "list the designs that are nowhere worse than this"},
    {S2_ACT_COLUMNS, IN(DESIGNS), {'|'}, "|", "columns", "choose what the list shows of each design"},
    {S2_ACT_SORT, IN(DESIGNS), {'S'}, "S", "sort", "order by the next column"},
    {S2_ACT_REVERSE, IN(DESIGNS), {'R'}, "R", "reverse", "the other way round"},
    {S2_ACT_VIEWS, IN(DESIGNS), {'w'}, "w", "saved views", "choose a filter and order that was saved"},
    {S2_ACT_VIEW_SAVE, IN(DESIGNS), {'W'}, "W", "save view", "give this filter and order a name"},
    {S2_ACT_MINIMIZE, IN(PARETO), {'o'}, "o", "objectives", "what the front minimises: us,kv_bytes,unread"},
#define GO(id, view, title, key, shown, key_help, request, scrolls, help)                                    \
    {S2_ACT_GO_##id, (key) != 0 ? EVERY : 0, {key}, shown, title, key_help},
    S2_VIEW_TABLE(GO)
#undef GO
        {S2_ACT_CANCEL, EVERY, {'C'}, "C", "cancel", "end what runs in the background; twice kills it"},
    {S2_ACT_COMMAND, EVERY, {'='}, "=", "command", "the command that prints what is on screen"},
    {S2_ACT_COPY, EVERY, {'y'}, "y", "copy", "copy that command to the clipboard"},
    {S2_ACT_YANK, SUBJECTS, {'Y'}, "Y", "copy which", "copy command, hash, pattern or row of the design"},
    {S2_ACT_LOOK_UP, IN(HELP), {'/'}, "/", "look up", "what a word means, as s2 explain says it"},
    {S2_ACT_DUMP, EVERY, {'P'}, "P", "print screen", "write the screen to a file: .txt, .ans, .png"},
    {S2_ACT_PALETTE, EVERY, {':'}, ":", "palette", "find an action by its name"},
    {S2_ACT_GO_HELP, EVERY, {'?', S2_KEY_F1}, "? F1", "help", "these keys"},
    {S2_ACT_REDRAW, EVERY, {S2_KEY_REDRAW}, "^L", "redraw", "paint the screen anew"},
    {S2_ACT_BACK, EVERY, {'q', S2_KEY_ESC}, "q esc", "back", "to where you came from"},
    {S2_ACT_QUIT, EVERY, {'Q'}, "Q", "quit", "leave; asks where something is unsaved or runs"}};

static const s2_view_info VIEWS[S2_N_VIEWS] = {
#define INFO(id, view, title, key, shown, key_help, request, scrolls, help) {#view, title, help},
    S2_VIEW_TABLE(INFO)
#undef INFO
};

const s2_view_info *s2_view_info_of(s2_view_id id)
{
    return &VIEWS[id];
}

bool s2_view_find(const char *word, s2_view_id *out)
{
    for (int id = 0; id < S2_N_VIEWS; id++)
        if (strcmp(VIEWS[id].word, word) == 0) {
            *out = (s2_view_id)id;
            return true;
        }
    return false;
}

const s2_binding *s2_binding_of(s2_view_id view, s2_action action)
{
    for (int32_t nth = 0; nth < s2_binding_count(); nth++)
        if (BINDINGS[nth].action == action && (BINDINGS[nth].views & (1u << view)) != 0)
            return &BINDINGS[nth];
    return NULL;
}

int32_t s2_binding_count(void)
{
    return (int32_t)(sizeof BINDINGS / sizeof BINDINGS[0]);
}

const s2_binding *s2_binding_at(int32_t nth)
{
    return nth >= 0 && nth < s2_binding_count() ? &BINDINGS[nth] : NULL;
}

s2_action s2_keymap_find(s2_view_id view, int32_t key)
{
    for (int32_t nth = 0; nth < s2_binding_count() && key != 0; nth++)
        for (int32_t at = 0; at < S2_BINDING_KEYS; at++)
            if (BINDINGS[nth].keys[at] == key && (BINDINGS[nth].views & (1u << view)) != 0)
                return BINDINGS[nth].action;
    return S2_ACT_NONE;
}

int32_t s2_key_parse(const char *name, size_t n)
{
    static const struct {
        const char *name;
        int32_t key;
    } names[] = {{"up", S2_KEY_UP},
                 {"down", S2_KEY_DOWN},
                 {"left", S2_KEY_LEFT},
                 {"right", S2_KEY_RIGHT},
                 {"pgup", S2_KEY_PAGE_UP},
                 {"pgdn", S2_KEY_PAGE_DOWN},
                 {"home", S2_KEY_HOME},
                 {"end", S2_KEY_END},
                 {"f1", S2_KEY_F1},
                 {"enter", S2_KEY_ENTER},
                 {"tab", S2_KEY_TAB},
                 {"esc", S2_KEY_ESC},
                 {"backspace", S2_KEY_BACKSPACE},
                 {"space", ' '},
                 {"redraw", S2_KEY_REDRAW}};
    for (size_t at = 0; at < sizeof names / sizeof names[0]; at++)
        if (s2_text_is(names[at].name, name, n))
            return names[at].key;
    const size_t len = s2_utf8_len(name, n);
    return len > 0 && len == n ? (int32_t)s2_utf8_decode(name, len) : 0;
}
