#include "tui/input.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "tui/canvas.h"

enum { ESC = 27, BELL = 7, CTRL_H = 8, PASTE_BYTES = 1 << 16 };

/* In milliseconds. A key alone must act at once, so its wait is short; nobody waits for the end of the others. */
enum { ESCAPE_MS = 25, REST_MS = 100, STRING_MS = 100, PASTE_MS = 10000 };

void s2_typed_add(s2_typed *input, char byte)
{
    if (input->n == sizeof input->bytes)
        input->n = 0; /* a sequence of that length is no terminal's */
    input->bytes[input->n++] = byte;
}

void s2_typed_release(s2_typed *input)
{
    s2_buf_release(&input->pasted);
}

int32_t s2_typed_patience_ms(const s2_typed *input)
{
    switch (input->kind) {
    case S2_TYPED_PASTE: return PASTE_MS;
    case S2_TYPED_STRING: return STRING_MS;
    case S2_TYPED_KEYS: break;
    }
    return input->n > 1 ? REST_MS : ESCAPE_MS;
}

static void drop(s2_typed *input, size_t n)
{
    input->n -= n;
    memmove(input->bytes, input->bytes + n, input->n);
}

/* The bytes of the character that begins the text: 0 for one that lacks some of them, -1 where no character begins. */
static int32_t length_of(const char *text, size_t n)
{
    const unsigned char first = (unsigned char)text[0];
    const size_t whole = first < 0xc2 || first > 0xf4 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    const size_t len = s2_utf8_len(text, n);
    size_t given = 1;
    while (given < n && given < whole && ((unsigned char)text[given] & 0xc0) == 0x80)
        given++;
    return len > 0 ? (int32_t)len : given == n && n < whole ? 0 : -1;
}

/* One character, a key of its own; a byte that is none is dropped, and what follows it is not. */
static int32_t read_character(s2_typed *input, bool late)
{
    const int32_t len = length_of(input->bytes, input->n);
    if (len == 0 && !late)
        return S2_TERM_MORE;
    const int32_t key = len > 0 ? (int32_t)s2_utf8_decode(input->bytes, (size_t)len) : S2_TERM_NOTHING;
    drop(input, len > 0 ? (size_t)len : 1);
    return key == CTRL_H ? S2_KEY_BACKSPACE : key;
}

/* ---- sequences */

/* Keys that terminals encode in more than one way; with modifiers they are the same keys. */
static int32_t key_of_sequence(const char *parameters, char last)
{
    static const struct {
        char last;
        int32_t key;
    } letters[] = {{'A', S2_KEY_UP},   {'B', S2_KEY_DOWN}, {'C', S2_KEY_RIGHT}, {'D', S2_KEY_LEFT},
                   {'H', S2_KEY_HOME}, {'F', S2_KEY_END},  {'P', S2_KEY_F1},    {'M', S2_KEY_ENTER}};
    static const struct {
        int number;
        int32_t key;
    } numbers[] = {{1, S2_KEY_HOME},    {7, S2_KEY_HOME},      {4, S2_KEY_END}, {8, S2_KEY_END},
                   {5, S2_KEY_PAGE_UP}, {6, S2_KEY_PAGE_DOWN}, {11, S2_KEY_F1}};
    if (strchr("?<=>", parameters[0]) != NULL && parameters[0] != '\0')
        return S2_TERM_NOTHING;
    for (size_t n = 0; n < sizeof letters / sizeof letters[0]; n++)
        if (letters[n].last == last)
            return letters[n].key;
    for (size_t n = 0; last == '~' && n < sizeof numbers / sizeof numbers[0]; n++)
        if (atoi(parameters) == numbers[n].number)
            return numbers[n].key;
    return S2_TERM_NOTHING;
}

/* A button is told when it is let go, the wheel when it turns; all else that a mouse does is nothing. */
static int32_t click(s2_typed *input, int button, int col, int row, bool up)
{
    if (button != 0 && button != 64 && button != 65)
        return S2_TERM_NOTHING;
    if (button == 0 && !up)
        return S2_TERM_NOTHING;
    input->wheel = button == 64 ? -1 : button == 65 ? 1 : 0;
    input->row = row - 1;
    input->col = col - 1;
    return S2_TERM_CLICK;
}

/* "<button;column;row", counted from one. */
static int32_t read_mouse(s2_typed *input, const char *parameters, char last)
{
    char *end;
    const long button = strtol(parameters + 1, &end, 10);
    const long col = *end == ';' ? strtol(end + 1, &end, 10) : 0;
    const long row = *end == ';' ? strtol(end + 1, &end, 10) : 0;
    const bool sound = *end == '\0' && col > 0 && col < 1 << 16 && row > 0 && row < 1 << 16;
    return sound ? click(input, (int)button, (int)col, (int)row, last == 'm') : S2_TERM_NOTHING;
}

/* Three bytes behind ESC [ M, each 32 more than it means; button 3 is whichever was let go. */
static int32_t read_old_mouse(s2_typed *input, bool late)
{
    unsigned char told[3];
    if (input->n < 6 && !late)
        return S2_TERM_MORE;
    if (input->n < 6) {
        drop(input, input->n);
        return S2_TERM_NOTHING;
    }
    memcpy(told, input->bytes + 3, sizeof told);
    drop(input, 6);
    return told[0] < 32 ? S2_TERM_NOTHING
                        : click(input, told[0] == 32 + 3 ? 0 : told[0] - 32, told[1] - 32, told[2] - 32,
                                told[0] == 32 + 3);
}

/* Escape is the key, and what follows it is read next. */
static int32_t escape_alone(s2_typed *input)
{
    drop(input, 1);
    return S2_KEY_ESC;
}

/* What is not whole yet: wait, or read it as the keys that it consists of. */
static int32_t unfinished(s2_typed *input, bool late)
{
    return late ? escape_alone(input) : S2_TERM_MORE;
}

/* ESC [, parameters, and one last character from @ to ~. Without parameters it is one that terminals do send. */
static int32_t read_control(s2_typed *input, bool late)
{
    static const char bare[] = "ABCDEFHIMOPQRSZabcd[";
    char parameters[sizeof input->bytes] = "";
    size_t end = 2;
    while (end < input->n && input->bytes[end] >= ' ' && input->bytes[end] <= '?')
        end++;
    if (end == input->n)
        return unfinished(input, late);
    const char last = input->bytes[end];
    if (last < '@' || last > '~' || (end == 2 && strchr(bare, last) == NULL))
        return escape_alone(input);
    if (end == 2 && last == 'M')
        return read_old_mouse(input, late);
    if (end == 2 && last == '[') { /* the function keys of Linux */
        if (input->n == 3)
            return unfinished(input, late);
        const bool first = input->bytes[3] == 'A';
        drop(input, 4);
        return first ? S2_KEY_F1 : S2_TERM_NOTHING;
    }
    memcpy(parameters, input->bytes + 2, end - 2);
    drop(input, end + 1);
    if (last == '~' && strcmp(parameters, "200") == 0) {
        input->kind = S2_TYPED_PASTE;
        input->pasted.len = 0;
        return S2_TERM_NOTHING;
    }
    return parameters[0] == '<' && (last == 'M' || last == 'm') ? read_mouse(input, parameters, last)
                                                                : key_of_sequence(parameters, last);
}

/* ESC O and a letter that a terminal sends. */
static int32_t read_letter(s2_typed *input, bool late)
{
    static const char letters[] = "ABCDEFHIMPQRSXabcdjklmnopqrstuvwxy";
    if (input->n == 2)
        return unfinished(input, late);
    const char last = input->bytes[2];
    if (last == '\0' || strchr(letters, last) == NULL)
        return escape_alone(input);
    drop(input, 3);
    return key_of_sequence("", last);
}

/* ESC and a character that begins a string, where one follows that such a string begins with. */
static int32_t read_string(s2_typed *input, const char *begins, bool late)
{
    if (input->n == 2)
        return unfinished(input, late);
    if (input->bytes[2] == '\0' || strchr(begins, input->bytes[2]) == NULL)
        return escape_alone(input);
    drop(input, 2);
    input->kind = S2_TYPED_STRING;
    return S2_TERM_NOTHING;
}

static int32_t after_escape(s2_typed *input, bool late)
{
    if (input->n == 1)
        return unfinished(input, late);
    switch (input->bytes[1]) {
    case '[': return read_control(input, late);
    case 'O': return read_letter(input, late);
    case ']': return read_string(input, "0123456789", late);
    case 'P': return read_string(input, "0123456789>!$+", late);
    case '_': return read_string(input, "G", late);
    default: return escape_alone(input); /* keys, also from who holds Alt */
    }
}

/* ---- what is no key */

/* Skip to the string's end, BEL or ESC \. */
static int32_t skip_string(s2_typed *input, bool late)
{
    const bool escape = input->bytes[0] == ESC;
    if (escape && input->n == 1 && !late)
        return S2_TERM_MORE;
    const bool over = input->bytes[0] == BELL || (escape && input->n > 1 && input->bytes[1] == '\\');
    if (over || late)
        input->kind = S2_TYPED_KEYS;
    if (!late)
        drop(input, escape && over ? 2 : 1);
    return S2_TERM_NOTHING;
}

/* One character of a paste, or its end, ESC [ 201 ~; what there is no room for is dropped. */
static int32_t read_paste(s2_typed *input, bool late)
{
    static const char end[] = "\033[201~";
    const size_t n_end = sizeof end - 1, n = s2_min_size(input->n, n_end);
    const bool ends = memcmp(input->bytes, end, n) == 0;
    if (ends && n < n_end && !late)
        return S2_TERM_MORE;
    if ((ends && n == n_end) || late) {
        drop(input, late ? input->n : n_end); /* nothing of a paste becomes a key */
        input->kind = S2_TYPED_KEYS;
        s2_buf_add(&input->pasted, "", 1);
        return input->pasted.status == S2_OK ? S2_TERM_PASTE : S2_TERM_NOTHING;
    }
    const int32_t len = length_of(input->bytes, input->n);
    if (len == 0)
        return S2_TERM_MORE;
    char text[5] = "";
    const uint32_t code = len > 0 ? s2_utf8_decode(input->bytes, (size_t)len) : 0;
    const bool line_end = code == '\r' || code == '\n';
    if (line_end || code == '\t' || !s2_codepoint_is_hostile(code))
        s2_glyph_encode(line_end ? '\n' : code == '\t' ? ' ' : code, text);
    if (input->pasted.len < PASTE_BYTES)
        s2_buf_puts(&input->pasted, text);
    drop(input, len > 0 ? (size_t)len : 1);
    return S2_TERM_NOTHING;
}

static int32_t read_one(s2_typed *input, bool late)
{
    switch (input->kind) {
    case S2_TYPED_PASTE: return read_paste(input, late);
    case S2_TYPED_STRING: return skip_string(input, late);
    case S2_TYPED_KEYS: break;
    }
    return input->bytes[0] == ESC ? after_escape(input, late) : read_character(input, late);
}

int32_t s2_typed_key(s2_typed *input, bool late)
{
    int32_t key = S2_TERM_NOTHING;
    if (input->n == 0 && input->kind != S2_TYPED_KEYS)
        key = late ? read_one(input, late) : S2_TERM_MORE;
    while (input->n > 0 && key == S2_TERM_NOTHING) {
        key = read_one(input, late);
        late = false;
    }
    return key == S2_TERM_NOTHING && input->kind != S2_TYPED_KEYS ? S2_TERM_MORE : key;
}
