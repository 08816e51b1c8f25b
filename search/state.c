/*
 * A state as lines of text. Doubles are written in hexadecimal, so reading gives the same bits; the
 * last line is a checksum (FNV-1a) of what precedes it, so a cut or changed file is refused.
 */
#include "search/search.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static uint64_t checksum(const char *text, size_t n)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t at = 0; at < n; at++)
        sum = (sum ^ (unsigned char)text[at]) * UINT64_C(0x100000001b3);
    return sum;
}

/* The key may contain line ends; the file has one line for it. */
static void put_key(const char *key, s2_buf *buf)
{
    s2_buf_puts(buf, "key ");
    for (; *key != '\0'; key++)
        s2_buf_puts(buf, *key == '\n' || *key == '\r' ? " " : (char[]){*key, '\0'});
    s2_buf_puts(buf, "\n");
}

static void put_head(const s2_search *search, const char *key, s2_buf *buf)
{
    s2_buf_puts(buf, "s2 search state 3\n");
    put_key(key, buf);
    s2_buf_printf(buf, "shard %" PRId64 " %" PRId64 "\n", search->begin, search->end);
}

void s2_search_state_print(const s2_search *search, const s2_search_state *state, const char *key,
                           s2_buf *buf)
{
    const s2_search_counts *const counts = &state->counts;
    const size_t begin = buf->len;
    put_head(search, key, buf);
    s2_buf_printf(buf, "next %" PRId64 " %" PRId64 "\ncounts", state->next, state->refused_index);
    s2_buf_printf(buf, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
                  counts->refused, counts->unknown, counts->outside, counts->unaccepted, counts->beaten,
                  counts->priced, counts->priced_slowly);
    for (int p = 0; p < S2_N_PROPERTIES; p++)
        s2_buf_printf(buf, " %" PRId64, counts->violated[p]);
    s2_buf_printf(buf, "\nfront %d\n", (int)state->front.n);
    for (int32_t p = 0; p < state->front.n; p++) {
        s2_buf_printf(buf, "%" PRId64, state->front.points[p].index);
        for (int32_t v = 0; v < state->front.n_values; v++)
            s2_buf_printf(buf, " %a", state->front.points[p].value[v]);
        s2_buf_puts(buf, "\n");
    }
    if (buf->status == S2_OK)
        s2_buf_printf(buf, "end %016" PRIx64 "\n", checksum(buf->data + begin, buf->len - begin));
}

static bool take_word(const char **rest, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*rest, word, n) != 0)
        return false;
    *rest += n;
    return true;
}

static bool take_int(const char **rest, int64_t *out)
{
    char *end;
    *out = strtoll(*rest, &end, 10);
    const bool taken = end != *rest;
    *rest = end;
    return taken;
}

static bool take_counts(const char **rest, s2_search_counts *out)
{
    bool good = take_int(rest, &out->refused) && take_int(rest, &out->unknown) &&
                take_int(rest, &out->outside) && take_int(rest, &out->unaccepted) &&
                take_int(rest, &out->beaten) && take_int(rest, &out->priced) &&
                take_int(rest, &out->priced_slowly);
    for (int p = 0; p < S2_N_PROPERTIES && good; p++)
        good = take_int(rest, &out->violated[p]);
    return good;
}

static bool take_point(const char **rest, const s2_search *search, s2_point *out)
{
    *out = (s2_point){0};
    bool good = take_int(rest, &out->index) && out->index >= 0 && out->index < search->space->n_candidates;
    for (int32_t v = 0; v < search->n_by && good; v++) {
        char *end;
        out->value[v] = strtod(*rest, &end);
        good = end != *rest && out->value[v] >= 0;
        *rest = end;
    }
    return good;
}

/* Points are added to the front one by one, so its order holds whatever the file says. */
static s2_status take_front(const char **rest, const s2_search *search, int64_t n, s2_front *front)
{
    s2_point *const points = s2_malloc((size_t)(n + 1) * sizeof *points);
    if (points == NULL)
        return S2_ENOMEM;
    s2_status status = S2_OK;
    for (int64_t p = 0; p < n && status == S2_OK; p++)
        status = take_point(rest, search, &points[p]) ? S2_OK : S2_EPARSE;
    if (status == S2_OK)
        status = s2_front_add(front, points, (int32_t)n);
    s2_free(points);
    return status;
}

static s2_status take_state(const char *rest, size_t n_bytes, const s2_search *search, s2_search_state *state)
{
    int64_t n_front;
    const bool good = take_word(&rest, "next ") && take_int(&rest, &state->next) &&
                      take_int(&rest, &state->refused_index) && take_word(&rest, "\ncounts") &&
                      take_counts(&rest, &state->counts) && take_word(&rest, "\nfront ") &&
                      take_int(&rest, &n_front);
    if (!good || n_front < 0 || n_front > (int64_t)n_bytes || state->next < search->begin ||
        state->next > search->end)
        return S2_EPARSE;
    return take_front(&rest, search, n_front, &state->front);
}

/* The length of the text before its checksum line; 0 when the checksum is wrong. */
static size_t checked_bytes(const char *text, size_t n_bytes)
{
    enum { LINE = sizeof "end 0123456789abcdef\n" - 1 };
    if (n_bytes <= LINE || memchr(text, '\0', n_bytes) != NULL)
        return 0;
    const size_t n = n_bytes - LINE;
    char line[LINE + 1];
    snprintf(line, sizeof line, "end %016" PRIx64 "\n", checksum(text, n));
    return memcmp(line, text + n, LINE) == 0 ? n : 0;
}

s2_status s2_search_state_parse(const s2_search *search, const char *key, const char *text, size_t n_bytes,
                                s2_search_state *out, s2_diag *diag)
{
    const size_t n = checked_bytes(text, n_bytes);
    if (n == 0)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "it is cut or was changed");
    s2_buf head = {0}, copy = {0};
    s2_search_state state;
    s2_search_state_init(search, &state);
    put_head(search, key, &head);
    s2_buf_add(&copy, text, n);
    s2_buf_add(&copy, "", 1);
    s2_status status = head.status != S2_OK ? head.status : copy.status;
    if (status == S2_OK && (n < head.len || memcmp(text, head.data, head.len) != 0))
        status = s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "it belongs to another search");
    if (status == S2_OK) {
        status = take_state(copy.data + head.len, n, search, &state);
        if (status == S2_EPARSE)
            status = s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "its values do not fit this search");
    }
    s2_buf_release(&head);
    s2_buf_release(&copy);
    if (status == S2_OK)
        *out = state;
    else
        s2_search_state_release(&state);
    return status;
}
