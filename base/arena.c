#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
enum { RED_ZONE = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)0)
enum { RED_ZONE = 0 };
#endif

enum { ALIGN = 16, FIRST_CHUNK = 4096, LARGEST_GROWTH = 1 << 26 };

struct s2_arena_chunk {
    s2_arena_chunk *prev;
    size_t size; /* bytes in data[] */
    size_t used;
    size_t pad; /* keeps data[] 16-byte aligned */
    unsigned char data[];
};

static s2_arena_chunk *chunk_add(s2_arena *arena, size_t need)
{
    size_t size = FIRST_CHUNK;
    if (arena->last != NULL && arena->last->size < LARGEST_GROWTH)
        size = arena->last->size * 2;
    if (size < need)
        size = need;
    if (arena->limit_bytes != 0 && arena->total_bytes + size > arena->limit_bytes) {
        size = need;
        if (arena->total_bytes + size > arena->limit_bytes)
            return NULL;
    }
    s2_arena_chunk *const chunk = s2_malloc(sizeof *chunk + size);
    if (chunk == NULL)
        return NULL;
    *chunk = (s2_arena_chunk){.prev = arena->last, .size = size};
    ASAN_POISON_MEMORY_REGION(chunk->data, size);
    arena->last = chunk;
    arena->total_bytes += size;
    return chunk;
}

void *s2_arena_alloc(s2_arena *arena, size_t n, size_t size)
{
    size_t n_bytes;
    if (!s2_mul_size(n, size, &n_bytes) || n_bytes > SIZE_MAX / 4)
        return NULL;
    const size_t need = (n_bytes + RED_ZONE + ALIGN - 1) / ALIGN * ALIGN;
    s2_arena_chunk *chunk = arena->last;
    if (chunk == NULL || chunk->size - chunk->used < need) {
        chunk = chunk_add(arena, need);
        if (chunk == NULL)
            return NULL;
    }
    void *const piece = chunk->data + chunk->used;
    chunk->used += need;
    ASAN_UNPOISON_MEMORY_REGION(piece, n_bytes);
    memset(piece, 0, n_bytes);
    return piece;
}

void *s2_arena_grow(s2_arena *arena, const void *old, size_t have, size_t want, size_t size)
{
    void *const piece = s2_arena_alloc(arena, want, size);
    if (piece != NULL && have != 0)
        memcpy(piece, old, have * size);
    return piece;
}

enum { FIRST_CAP = 8 };

s2_status s2_arena_room(s2_arena *arena, void *array, int64_t n, int64_t *cap, size_t size)
{
    void *old;
    if (n < *cap)
        return S2_OK;
    const int64_t wider = s2_max_i64(2 * n, FIRST_CAP);
    memcpy(&old, array, sizeof old);
    void *const grown = s2_arena_grow(arena, old, (size_t)n, (size_t)wider, size);
    if (grown == NULL)
        return S2_ENOMEM;
    memcpy(array, &grown, sizeof grown);
    *cap = wider;
    return S2_OK;
}

char *s2_arena_strndup(s2_arena *arena, const char *text, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *const copy = s2_arena_alloc(arena, n + 1, 1);
    if (copy != NULL && n != 0)
        memcpy(copy, text, n);
    return copy;
}

s2_arena_mark_t s2_arena_mark(const s2_arena *arena)
{
    return (s2_arena_mark_t){arena->last, arena->last != NULL ? arena->last->used : 0};
}

void s2_arena_rewind(s2_arena *arena, s2_arena_mark_t mark)
{
    while (arena->last != mark.chunk) {
        s2_arena_chunk *const chunk = arena->last;
        arena->last = chunk->prev;
        arena->total_bytes -= chunk->size;
        ASAN_UNPOISON_MEMORY_REGION(chunk->data, chunk->size);
        s2_free(chunk);
    }
    if (arena->last != NULL) {
        ASAN_POISON_MEMORY_REGION(arena->last->data + mark.used, arena->last->size - mark.used);
        arena->last->used = mark.used;
    }
}

void s2_arena_release(s2_arena *arena)
{
    s2_arena_rewind(arena, (s2_arena_mark_t){NULL, 0});
}
