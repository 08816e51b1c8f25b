#include "calibrate/solve.h"

#include <math.h>

bool s2_solve(double *a, double *b, int32_t n)
{
    for (int32_t col = 0; col < n; col++) {
        int32_t best = col;
        for (int32_t row = col + 1; row < n; row++)
            best = fabs(a[row * n + col]) > fabs(a[best * n + col]) ? row : best;
        if (fabs(a[best * n + col]) < 1e-14)
            return false;
        for (int32_t k = 0; k < n; k++) {
            const double held = a[col * n + k];
            a[col * n + k] = a[best * n + k];
            a[best * n + k] = held;
        }
        const double held = b[col];
        b[col] = b[best];
        b[best] = held;
        for (int32_t row = col + 1; row < n; row++) {
            const double by = a[row * n + col] / a[col * n + col];
            for (int32_t k = col; k < n; k++)
                a[row * n + k] -= by * a[col * n + k];
            b[row] -= by * b[col];
        }
    }
    for (int32_t row = n - 1; row >= 0; row--) {
        for (int32_t k = row + 1; k < n; k++)
            b[row] -= a[row * n + k] * b[k];
        b[row] /= a[row * n + row];
    }
    return true;
}
