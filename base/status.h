/*
 * base/status.h - what a fallible function returns, and the text that explains a refusal.
 *
 * Every function that can fail returns s2_status and is S2_MUST_CHECK; outputs are trailing
 * pointers, untouched unless the status is S2_OK. A verdict ("head 3 leaves keys unseen") is not
 * an error: it is S2_OK plus a report. Exit codes are chosen in cli/ only.
 *
 * Threads: everything here is stateless.
 */
#ifndef S2_BASE_STATUS_H
#define S2_BASE_STATUS_H

#include <stdarg.h>
#include <stdint.h>

/* code, value, sentence. Values are stable: they are stored in databases. */
#define S2_STATUS_TABLE(X)                                                                                   \
    X(S2_OK, 0, "ok")                                                                                        \
    X(S2_EINVAL, -1, "an argument is outside its stated range")                                              \
    X(S2_ENOMEM, -2, "out of memory")                                                                        \
    X(S2_EPARSE, -3, "the input is refused")                                                                 \
    X(S2_ELIMIT, -4, "a stated limit was hit before the answer was known")                                   \
    X(S2_EUNSUPPORTED, -5, "not available here")                                                             \
    X(S2_EIO, -6, "a file could not be read or written")                                                     \
    X(S2_EDB, -7, "the database could not be used")                                                          \
    X(S2_ECUDA, -8, "the GPU reported an error")                                                             \
    X(S2_EINTERNAL, -9, "internal error: two computations of one fact disagree")

typedef enum s2_status {
#define S2_STATUS_ENUM(code, value, text) code = value,
    S2_STATUS_TABLE(S2_STATUS_ENUM)
#undef S2_STATUS_ENUM
} s2_status;

#if defined(__GNUC__)
#define S2_MUST_CHECK       __attribute__((warn_unused_result))
#define S2_PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))
#else
#define S2_MUST_CHECK
#define S2_PRINTF(fmt, arg)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The sentence of a status; never NULL, even for values outside the table. */
const char *s2_status_text(s2_status status);

/* Return early on failure. Who holds something lets another function take the steps, and releases it afterwards. */
#define S2_TRY(expr)                                                                                         \
    do {                                                                                                     \
        const s2_status s2_try_status_ = (expr);                                                             \
        if (s2_try_status_ != S2_OK)                                                                         \
            return s2_try_status_;                                                                           \
    } while (0)

/*
 * Where and why an input was refused. Caller-owned, plain data. line and col count from 1 (0: not
 * known); code is the number printed as S2Pnnn; msg is cleaned text, safe for a terminal.
 */
typedef struct s2_diag {
    int32_t line;
    int32_t col;
    int32_t code;
    char msg[240];
} s2_diag;

/* The words for a failure: the diagnostic's, else the status's. */
const char *s2_diag_text(const s2_diag *diag, s2_status status);

/* Fill *diag (NULL is allowed) and return `status`, so that `return s2_diag_set(...)` reads well. */
s2_status s2_diag_set(s2_diag *diag, s2_status status, int32_t code, int32_t line, int32_t col,
                      const char *fmt, ...) S2_PRINTF(6, 7);

#ifdef __cplusplus
}
#endif
#endif /* S2_BASE_STATUS_H */
