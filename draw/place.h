/*
 * draw/place.h - words on a picture: folded to its width, none over another, none beyond its edges.
 *
 * Threads: no state. Ownership: a place borrows its surface.
 */
#ifndef S2_DRAW_PLACE_H
#define S2_DRAW_PLACE_H

#include "draw/surface.h"

enum { S2_PLACES = 2048, S2_PLACE_LINE = 18, S2_TITLE_BYTES = 512 };

/* The words that stand on a surface. */
typedef struct s2_place {
    s2_surface *to;
    int32_t n;
    struct {
        int32_t x, y, width;
    } words[S2_PLACES];
} s2_place;

/*
 * Put one line of words where it does not touch others, moved sideways if it would cross an edge. False, and
 * nothing is drawn, where there is no room. y is the top of the letters.
 */
bool s2_place_words(s2_place *place, int32_t x, int32_t y, s2_anchor anchor, const char *text);

/* The lines that a text takes if it is folded at blanks to `width` pixels; at least one. advance: of the surface. */
int32_t s2_place_count(int32_t advance, int32_t width, const char *text);
/* Put all of a text, line below line. */
void s2_place_lines(s2_place *place, int32_t x, int32_t y, s2_anchor anchor, int32_t width, const char *text);

#endif /* S2_DRAW_PLACE_H */
