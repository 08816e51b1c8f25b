/*
 * export/asked.h - which keys of a configuration an importer looked for, so that a misspelt one is noticed: a key
 * that nobody looked for, spelt nearly like a sibling that was looked for in vain.
 *
 * Invariants: at most S2_ASKED_PATHS paths are kept, the first ones; elements that are addressed by number
 * are not.
 * Ownership:  s2_asked_release frees it. Threads: one record, one thread.
 */
#ifndef S2_EXPORT_ASKED_H
#define S2_EXPORT_ASKED_H

#include <stdbool.h>
#include <stdint.h>

enum { S2_ASKED_PATHS = 512, S2_ASKED_BYTES = 112 };

typedef struct s2_asked {
    int32_t n;
    bool found[S2_ASKED_PATHS];
    char path[S2_ASKED_PATHS][S2_ASKED_BYTES];
} s2_asked;

/* NULL when memory ran out; the other functions treat NULL as a record that keeps nothing. */
s2_asked *s2_asked_new(void);
void s2_asked_release(s2_asked *asked);
void s2_asked_clear(s2_asked *asked);

/* Record that the importer looked for the value at `path`. */
void s2_asked_note(s2_asked *asked, const char *path, bool found);
/* Was the value at `path`, or one inside it, looked for and found? */
bool s2_asked_uses(const s2_asked *asked, const char *path);

/* May `written` be `meant`, misspelt? Compares word by word: "num_kv_heads" is not "num_q_heads". */
bool s2_asked_near(const char *written, const char *meant);

#endif /* S2_EXPORT_ASKED_H */
