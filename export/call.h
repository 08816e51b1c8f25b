/*
 * export/call.h - the arguments of one call in a Python text, as settings that export/doc.h reads.
 *
 * Positional arguments get the names that the caller lists; a name that stands for a number is looked up
 * among the assignments of the text. Nothing is evaluated.
 *
 * Ownership: the buffer is the caller's. Threads: no state.
 */
#ifndef S2_EXPORT_CALL_H
#define S2_EXPORT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

typedef struct s2_call {
    size_t begin;    /* where the callee's name begins */
    int32_t n_calls; /* in the whole text */
} s2_call;

/* The first `callee(` outside comments; false: there is none. */
bool s2_call_find(const char *text, size_t n_bytes, const char *callee, s2_call *out);

/*
 * Its arguments as "name=value" lines. S2_EPARSE with a position: more positional arguments than names, a
 * bracket that does not close, or `*` and `**`.
 */
s2_status s2_call_arguments(const char *text, size_t n_bytes, const char *callee, const s2_call *call,
                            const char *const *names, int32_t n_names, s2_buf *out,
                            s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_EXPORT_CALL_H */
