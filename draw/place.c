#include "draw/place.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

enum { GAP = 6, LETTERS = 14, CLEAN_BYTES = 2 * S2_TITLE_BYTES };

static bool is_free(const s2_place *place, int32_t x, int32_t y, int32_t width)
{
    for (int32_t n = 0; n < place->n; n++)
        if (x < place->words[n].x + place->words[n].width + GAP && place->words[n].x < x + width + GAP &&
            y < place->words[n].y + LETTERS && place->words[n].y < y + LETTERS)
            return false;
    return true;
}

bool s2_place_words(s2_place *place, int32_t x, int32_t y, s2_anchor anchor, const char *text)
{
    char clean[CLEAN_BYTES];
    s2_text_clean(clean, sizeof clean, text);
    const int32_t width = s2_surface_words_width(place->to, clean), most = place->to->width - width;
    const int32_t left = anchor == S2_ANCHOR_BEGIN ? x : anchor == S2_ANCHOR_END ? x - width : x - width / 2;
    const int32_t inside = s2_clamp_i32(left, 0, most);
    if (most < 0 || y < 0 || y + LETTERS > place->to->height || place->n == S2_PLACES ||
        !is_free(place, inside, y, width))
        return false;
    place->words[place->n].x = inside;
    place->words[place->n].y = y;
    place->words[place->n++].width = width;
    if (inside == left)
        s2_surface_words(place->to, x, y, anchor, clean);
    else
        s2_surface_words(place->to, inside, y, S2_ANCHOR_BEGIN, clean);
    return true;
}

/* The bytes of a clean text that fit on one line: up to a blank if there is one, and no part of a letter. */
static size_t line_of(int32_t advance, int32_t width, const char *text)
{
    const size_t n = strlen(text), fit = s2_text_fit(text, width / advance, NULL);
    const size_t most = s2_max_size(fit, s2_utf8_len(text, n));
    if (n <= most)
        return n;
    for (size_t at = most; at > 0; at--)
        if (text[at] == ' ')
            return at;
    return most;
}

static const char *next_line(const char *text, size_t n)
{
    return text + n + (text[n] == ' ');
}

int32_t s2_place_count(int32_t advance, int32_t width, const char *text)
{
    char clean[CLEAN_BYTES];
    int32_t n = 1;
    s2_text_clean(clean, sizeof clean, text);
    for (const char *at = clean; (at = next_line(at, line_of(advance, width, at)))[0] != '\0';)
        n++;
    return n;
}

void s2_place_lines(s2_place *place, int32_t x, int32_t y, s2_anchor anchor, int32_t width, const char *text)
{
    char clean[CLEAN_BYTES], line[CLEAN_BYTES];
    s2_text_clean(clean, sizeof clean, text);
    for (const char *rest = clean; rest[0] != '\0'; y += S2_PLACE_LINE) {
        const size_t n = line_of(place->to->advance, width, rest);
        snprintf(line, sizeof line, "%.*s", (int)n, rest);
        (void)!s2_place_words(place, x, y, anchor, line);
        rest = next_line(rest, n);
    }
}
