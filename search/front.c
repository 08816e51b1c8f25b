#include "search/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Unused values are 0 in every point, so all values can be compared. */
static int compare(const void *left, const void *right)
{
    const s2_point *const a = left, *const b = right;
    for (int32_t v = 0; v < S2_MAX_OBJECTIVES; v++)
        if (a->value[v] != b->value[v])
            return a->value[v] < b->value[v] ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static bool nowhere_worse(const s2_front *front, const s2_point *a, const s2_point *b)
{
    for (int32_t v = 0; v < front->n_values; v++)
        if (a->value[v] > b->value[v])
            return false;
    return true;
}

/* An earlier point in the order beats its equals too. */
static int32_t keep(const s2_front *front, s2_point *sorted, int32_t n)
{
    int32_t kept = 0;
    for (int32_t candidate = 0; candidate < n; candidate++) {
        bool beaten = false;
        for (int32_t k = kept; k-- > 0 && !beaten;)
            beaten = nowhere_worse(front, &sorted[k], &sorted[candidate]);
        if (!beaten)
            sorted[kept++] = sorted[candidate];
    }
    return kept;
}

s2_status s2_front_add(s2_front *front, const s2_point *points, int32_t n)
{
    if (n == 0)
        return S2_OK;
    const int32_t total = front->n + n;
    S2_TRY(S2_RESERVE(front->points, front->cap, total));
    memcpy(front->points + front->n, points, (size_t)n * sizeof *points);
    qsort(front->points, (size_t)total, sizeof *front->points, compare);
    front->n = keep(front, front->points, total);
    return S2_OK;
}

/* From the first point with a greater first value on, no point can beat it. */
bool s2_front_beats(const s2_front *front, const s2_point *at_least)
{
    for (int32_t p = 0; p < front->n; p++) {
        const s2_point *const point = &front->points[p];
        if (point->value[0] > at_least->value[0])
            return false;
        if (!nowhere_worse(front, point, at_least))
            continue;
        /* an equal point with a lower index would replace it */
        if (point->index < at_least->index || !nowhere_worse(front, at_least, point))
            return true;
    }
    return false;
}

static void find_least(const s2_front *front, double *least)
{
    for (int32_t v = 0; v < front->n_values; v++) {
        least[v] = INFINITY;
        for (int32_t p = 0; p < front->n; p++)
            least[v] = fmin(least[v], front->points[p].value[v]);
    }
}

/* The logarithm of the mean, up to a factor; an objective that is 0 somewhere is left out. */
static double score(const s2_front *front, const double *least, int32_t p)
{
    double sum = 0;
    for (int32_t v = 0; v < front->n_values; v++)
        sum += least[v] > 0 ? log(front->points[p].value[v] / least[v]) : 0;
    return sum;
}

typedef struct scored {
    double score;
    int32_t point;
} scored;

static int by_score(const void *left, const void *right)
{
    const scored *const a = left, *const b = right;
    return a->score != b->score ? (a->score < b->score ? -1 : 1)
                                : (a->point > b->point) - (a->point < b->point);
}

s2_status s2_front_order(const s2_front *front, int32_t *order)
{
    double least[S2_MAX_OBJECTIVES];
    scored *const all = s2_malloc((size_t)(front->n + 1) * sizeof *all);
    if (all == NULL)
        return S2_ENOMEM;
    find_least(front, least);
    for (int32_t p = 0; p < front->n; p++)
        all[p] = (scored){score(front, least, p), p};
    qsort(all, (size_t)front->n, sizeof *all, by_score);
    for (int32_t p = 0; p < front->n; p++)
        order[p] = all[p].point;
    s2_free(all);
    return S2_OK;
}

static int sign(double value)
{
    return (value > 0) - (value < 0);
}

double s2_kendall_tau(const double *x, const double *y, int32_t n)
{
    int64_t sum = 0, by_x = 0, by_y = 0;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = a + 1; b < n; b++) {
            const int dx = sign(x[a] - x[b]), dy = sign(y[a] - y[b]);
            sum += dx * dy;
            by_x += dx != 0;
            by_y += dy != 0;
        }
    return by_x > 0 && by_y > 0 ? (double)sum / sqrt((double)by_x * (double)by_y) : (double)NAN;
}

void s2_front_release(s2_front *front)
{
    s2_free(front->points);
    *front = (s2_front){.n_values = front->n_values};
}
