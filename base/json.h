/*
 * base/json.h - jansson as the project needs it: it allocates as everything here does, and says when memory ran out.
 *
 * Ownership: what is loaded is the caller's, released with json_decref(). Threads: each has a state of its own.
 */
#ifndef S2_BASE_JSON_H
#define S2_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* Forward, so that a header needs none of jansson. */
struct json_t;
struct json_error_t;

/*
 * Between the two of a thread every failed allocation of jansson is noted: not all of them are seen where they
 * happen. Before the first, jansson is made to allocate as the project does.
 */
void s2_json_watch(void);
bool s2_json_ran_out(void);

/*
 * As json_loadb, in a text that is watched; NULL also when memory runs out, and then nothing is left and `error`
 * says nothing.
 */
struct json_t *s2_json_load(const char *text, size_t n_bytes, size_t flags, struct json_error_t *error);

#endif /* S2_BASE_JSON_H */
