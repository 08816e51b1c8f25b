/*
 * library/internal.h - what the files of library/ share: handles, and how a failure inside becomes an answer outside.
 */
#ifndef S2_LIBRARY_INTERNAL_H
#define S2_LIBRARY_INTERNAL_H

#include <stdbool.h>

#include "base/text.h"
#include "library/s2.h"
#include "pattern/spec.h"

/* Counted: plans and caches hold it too. */
struct s2_api_pattern {
    int32_t n_holders; /* changed atomically; no atomic type, which C++ would not read */
    s2_arena arena;
    s2_pattern pattern;
    bool maps_files;   /* its masks are mapped files of the language's own */
    const char *notes; /* of its import, "" */
};
s2_api_pattern *s2_handle_hold(const s2_api_pattern *pattern);

/* Fill *why (NULL is allowed) and give the code. */
int s2_answer(s2_status status, const s2_diag *diag, s2_api_error *why);
/* S2_API_ARGUMENT with these words. */
int s2_answer_argument(s2_api_error *why, const char *fmt, ...) S2_PRINTF(2, 3);

/* The buffer's bytes become *out, or are released; S2_ENOMEM where the buffer had failed. */
s2_status s2_answer_text(s2_buf *buf, s2_api_text *out) S2_MUST_CHECK;

/*
 * A structure of the caller's, whose first member is its size, as this version knows it: what the caller's is shorter
 * by is zero. False when the caller's is NULL, larger than ours, or has no room for its own size.
 */
bool s2_struct_in(void *ours, uint32_t our_size, const void *theirs);
/* The other way: the members that the caller knows. */
bool s2_struct_out(void *theirs, const void *ours, uint32_t our_size);

#endif /* S2_LIBRARY_INTERNAL_H */
