/*
 * base/arena.h - memory that is released all at once.
 *
 *     chunk 0                 chunk 1 (twice as large)
 *     [head|aaaa bbb ccccc]-> [head|dddddddd ee ........free........]
 *                                            ^ used               ^ size
 *
 * Results of an operation go to an arena that the caller supplies; scratch goes to a second arena
 * or between s2_arena_mark and s2_arena_rewind. Pieces are aligned to 16 bytes and zeroed. Under
 * AddressSanitizer memory not handed out is poisoned, and a red zone separates the pieces.
 *
 * Ownership: s2_arena_release frees every piece. Threads: one arena, one thread at a time.
 */
#ifndef S2_BASE_ARENA_H
#define S2_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_arena_chunk s2_arena_chunk;

/* Zero-initialise. limit_bytes, when not 0, bounds what the arena may hold in all. */
typedef struct s2_arena {
    s2_arena_chunk *last;
    size_t total_bytes;
    size_t limit_bytes;
} s2_arena;

typedef struct s2_arena_mark_t {
    s2_arena_chunk *chunk;
    size_t used;
} s2_arena_mark_t;

/* Zeroed memory for n objects of `size` bytes, or NULL (out of memory, limit, or overflow). */
void *s2_arena_alloc(s2_arena *arena, size_t n, size_t size);
/* Grow an array from `have` to `want` objects: a fresh zeroed piece holding the old objects. */
void *s2_arena_grow(s2_arena *arena, const void *old, size_t have, size_t want, size_t size);
/*
 * Room for one more behind the n elements of an array that has room for `cap` (NULL and 0 at first), as in
 * S2_TRY(S2_ARENA_ROOM(arena, set->files, set->n, set->cap)). It moves to twice the room when full. S2_ENOMEM leaves
 * the array and its room untouched. S2_RESERVE in base/alloc.h does the same on the heap.
 */
#define S2_ARENA_ROOM(arena, array, n, cap) s2_arena_room(arena, &(array), n, &(cap), sizeof *(array))
/* array: where the pointer to the elements is, each of `size` bytes. */
s2_status s2_arena_room(s2_arena *arena, void *array, int64_t n, int64_t *cap, size_t size) S2_MUST_CHECK;
/* A terminated copy of n bytes, or NULL. */
char *s2_arena_strndup(s2_arena *arena, const char *text, size_t n);

s2_arena_mark_t s2_arena_mark(const s2_arena *arena); /* rewinding to it frees what was drawn since */
void s2_arena_rewind(s2_arena *arena, s2_arena_mark_t mark);
void s2_arena_release(s2_arena *arena); /* frees everything; the arena can be used again */

#define S2_NEW(arena, type, n) ((type *)s2_arena_alloc((arena), (size_t)(n), sizeof(type)))

#ifdef __cplusplus
}
#endif
#endif /* S2_BASE_ARENA_H */
