/*
 * tui/input.h - keys out of the bytes that a terminal sends.
 *
 * The same bytes give the same keys in whatever pieces they come, and no byte that a person typed is lost: what
 * turns out to be no sequence is read as the keys that it consists of. Only where bytes may be a key or the
 * beginning of a sequence does time tell; the caller has it. Reads nothing and waits for nothing.
 */
#ifndef S2_TUI_INPUT_H
#define S2_TUI_INPUT_H

#include <stdbool.h>

#include "base/text.h"
#include "tui/keymap.h"

/* What is returned besides keys. MORE: what has come may be the beginning of something longer. */
enum {
    S2_TERM_NOTHING = 0,
    S2_TERM_RESIZED = -1,
    S2_TERM_END = -2,
    S2_TERM_CLICK = -3,
    S2_TERM_PASTE = -4,
    S2_TERM_MORE = -5
};

/* What a run of bytes belongs to: keys, a pasted text, or a string that is skipped (a title, a colour). */
typedef enum s2_typed_kind { S2_TYPED_KEYS, S2_TYPED_PASTE, S2_TYPED_STRING } s2_typed_kind;

typedef struct s2_typed {
    char bytes[256]; /* that have come and are not read yet */
    size_t n;
    s2_typed_kind kind;
    s2_buf pasted; /* the text of the last paste, in lines, without anything that a terminal would obey */
    int32_t row, col, wheel; /* of the last click; wheel: -1 up, 1 down, 0 a button */
} s2_typed;

/* Take a byte. Keys are asked for until S2_TERM_MORE or S2_TERM_NOTHING before the next one is added. */
void s2_typed_add(s2_typed *input, char byte);
/* The next key, or one of the above; `late`: nothing has come for so long that nothing belongs to it any more. */
int32_t s2_typed_key(s2_typed *input, bool late);
/* How long to wait for what belongs to the bytes that have come. */
int32_t s2_typed_patience_ms(const s2_typed *input);
void s2_typed_release(s2_typed *input);

#endif /* S2_TUI_INPUT_H */
