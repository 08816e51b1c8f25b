#include "export/asked.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

s2_asked *s2_asked_new(void)
{
    s2_asked *const asked = s2_malloc(sizeof *asked);
    if (asked != NULL)
        asked->n = 0;
    return asked;
}

void s2_asked_release(s2_asked *asked)
{
    s2_free(asked);
}

void s2_asked_clear(s2_asked *asked)
{
    if (asked != NULL)
        asked->n = 0;
}

void s2_asked_note(s2_asked *asked, const char *path, bool found)
{
    const char *const slash = strrchr(path, '/');
    if (asked == NULL || slash == NULL || isdigit((unsigned char)slash[1]) || strlen(path) >= S2_ASKED_BYTES)
        return;
    for (int32_t at = 0; at < asked->n; at++)
        if (strcmp(asked->path[at], path) == 0) {
            asked->found[at] |= found;
            return;
        }
    if (asked->n == S2_ASKED_PATHS)
        return;
    strcpy(asked->path[asked->n], path);
    asked->found[asked->n++] = found;
}

bool s2_asked_uses(const s2_asked *asked, const char *path)
{
    const size_t n = strlen(path);
    for (int32_t at = 0; asked != NULL && at < asked->n; at++)
        if (asked->found[at] && strncmp(asked->path[at], path, n) == 0 &&
            strchr("/", asked->path[at][n]) != NULL)
            return true;
    return false;
}

/* How many edits leave a word of n letters recognisable. */
static int32_t most_edits(size_t n)
{
    return n < 3 ? 0 : n < 8 ? 1 : 2;
}

bool s2_asked_near(const char *written, const char *meant)
{
    enum { MOST = 2, FAR = 100 };
    int32_t n_edits = 0;
    if (s2_text_same_name(written, meant))
        return true;
    for (;;) {
        char word[40];
        const size_t n = strcspn(written, "_-"), n_meant = strcspn(meant, "_-");
        if (n_meant >= sizeof word)
            return false;
        memcpy(word, meant, n_meant);
        word[n_meant] = '\0';
        const int32_t own = s2_text_distance(written, n, word, FAR);
        n_edits += own;
        if (own > most_edits(n_meant) || n_edits > MOST)
            return false;
        written += n;
        meant += n_meant;
        if (*written == '\0' || *meant == '\0')
            return *written == *meant;
        written++;
        meant++;
    }
}
