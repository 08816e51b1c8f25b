/*
 * library/internal.h - what the files of library/ share: handles, and how a failure inside becomes the
 * caller's error.
 */
#ifndef S2_LIBRARY_INTERNAL_H
#define S2_LIBRARY_INTERNAL_H

#include <locale.h>
#include <stdbool.h>

#include "base/text.h"
#include "library/s2.h"
#include "pattern/spec.h"

/* Reference-counted: plans and caches hold it too. */
struct s2_api_pattern {
    int32_t n_holders; /* changed atomically; not of an atomic type, which C++ could not parse */
    s2_arena arena;
    s2_pattern pattern;
    bool reads_masks;  /* its masks were read from files and are unloaded with it */
    const char *notes; /* from its import; "" if none */
};
s2_api_pattern *s2_handle_hold(const s2_api_pattern *pattern);

/*
 * From here to the end of the block this thread reads and writes numbers as C does, whatever locale the program
 * has chosen: a decimal comma would change what files say. Without memory for that it stays as it is.
 */
typedef struct s2_locale {
    locale_t own, before;
} s2_locale;
s2_locale s2_locale_enter(void);
void s2_locale_leave(s2_locale *locale);
#define S2_IN_C_LOCALE                                                                                       \
    __attribute__((cleanup(s2_locale_leave), unused)) s2_locale in_c_locale = s2_locale_enter()

/* Fill *why (which may be NULL) and return the code. */
int s2_answer(s2_status status, const s2_diag *diag, s2_api_error *why);
/* Returns the status; *diag of a failure then names the argument before its message. */
s2_status s2_answer_names(const char *argument, s2_status status, s2_diag *diag);
/* Answer S2_API_ARGUMENT with this message. */
int s2_answer_argument(s2_api_error *why, const char *fmt, ...) S2_PRINTF(2, 3);

/* Move the buffer's bytes to *out; on failure release them. S2_ENOMEM if the buffer had already failed. */
s2_status s2_answer_text(s2_buf *buf, s2_api_text *out) S2_MUST_CHECK;

/*
 * Copy the caller's structure, whose first member is its size, to this version's layout: members that it
 * lacks become zero. False when the caller's is NULL, larger than ours, or has no room for its own size.
 */
bool s2_struct_in(void *ours, uint32_t our_size, const void *theirs);
/* The other direction: copies only the members that the caller knows. */
bool s2_struct_out(void *theirs, const void *ours, uint32_t our_size);

#endif /* S2_LIBRARY_INTERNAL_H */
