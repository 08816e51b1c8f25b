/* Which designs of a long front its table shows: those that stand for all others. */
#include "report/found.h"

#include <math.h>

/* How far two designs are from one another, in the objective in which they differ most. */
static double distance(const s2_found *found, const double *range, int32_t a, int32_t b)
{
    double most = 0;
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (range[v] > 0)
            most = fmax(most, fabs(found->designs[a].shown[v] - found->designs[b].shown[v]) / range[v]);
    return most;
}

static void find_ranges(const s2_found *found, double range[S2_MAX_OBJECTIVES])
{
    for (int32_t v = 0; v < found->search.n_by; v++) {
        double least = found->designs[0].shown[v], greatest = least;
        for (int32_t n = 1; n < found->n_designs; n++) {
            least = fmin(least, found->designs[n].shown[v]);
            greatest = fmax(greatest, found->designs[n].shown[v]);
        }
        range[v] = greatest - least;
    }
}

/* The first two, then each that is farther than `radius` from all before it; at most `most` + 1. */
static int32_t spread(const s2_found *found, const double *range, double radius, int32_t most, int32_t *rows)
{
    int32_t n_rows = 0;
    for (int32_t n = 0; n < found->n_designs && n_rows <= most; n++) {
        bool near = false;
        for (int32_t row = 0; row < n_rows && n > 1; row++)
            near |= distance(found, range, rows[row], n) <= radius;
        if (!near)
            rows[n_rows++] = n;
    }
    return n_rows;
}

int32_t s2_found_thin(const s2_found *found, int32_t most, int32_t *rows, double *radius)
{
    enum { HALVINGS = 20 };
    double range[S2_MAX_OBJECTIVES], low = 0, high = 1;
    find_ranges(found, range);
    *radius = 0;
    int32_t n_rows = spread(found, range, 0, most, rows);
    for (int32_t step = 0; n_rows > most && step < HALVINGS; step++) {
        const double middle = (low + high) / 2;
        *(spread(found, range, middle, most, rows) > most ? &low : &high) = middle;
    }
    if (n_rows <= most)
        return n_rows;
    *radius = high;
    return spread(found, range, high, most, rows);
}
