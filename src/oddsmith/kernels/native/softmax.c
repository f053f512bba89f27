/* Softmax of activations that are known, row by row, and the vector functions for their tests. */

#include "losses.h"

#define SOFTMAX_TILE 64

/* A (n x C, against class 0) becomes residuals times weights; Y (n x (C + 1)) the probabilities, if it is not NULL. Both lie
   row by row, or class by class. */
EXPORT int NAME(softmax)(
    double *A, int64_t n, int64_t C, int64_t by_class, const int32_t *t, const double *s, double *Y, double *value
) {
    const int64_t column = line(8 * SOFTMAX_TILE), row = by_class ? 1 : C, apart = by_class ? n : 1, own = by_class ? 1 : C + 1;
    arena memory;
    if (!arena_make(&memory, (C + 7) * column)) return 1;
    double *T = arena_take(&memory, C * column), *weights = arena_take(&memory, column);
    softmax_scratch w = {
        arena_take(&memory, column), arena_take(&memory, column), arena_take(&memory, column), arena_take(&memory, column),
        arena_take(&memory, column), arena_take(&memory, column)};
    *value = 0.0;
    for (int64_t first = 0; first < n; first += SOFTMAX_TILE) {
        const int64_t rows = least(SOFTMAX_TILE, n - first), ld = round_up(rows, LANES_double);
        for (int64_t i = 0; i < ld; i++) {
            for (int64_t k = 0; k < C; k++) T[k * ld + i] = i < rows ? A[(first + i) * row + k * apart] : 0.0;
            weights[i] = i < rows && s ? s[first + i] : 0.0;
        }
        *value += softmax_losses(T, ld, C, t + first, s ? weights : NULL, rows, NULL, w);
        if (Y)
            for (int64_t i = 0; i < rows; i++) {
                Y[(first + i) * own] = w.first[i] * w.scale[i];
                for (int64_t k = 0; k < C; k++) Y[(first + i) * own + (k + 1) * apart] = T[k * ld + i];
            }
        softmax_residuals(T, ld, C, t + first, s ? weights : NULL, rows, w);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < C; k++) A[(first + i) * row + k * apart] = T[k * ld + i];
    }
    free(memory.memory);
    return 0;
}

/* Two classes at activations a: residuals r and curvatures h of n rows of weights s; `sign` is 1 or -1. */
EXPORT int NAME(logistic)(
    const double *a, int64_t n, const double *sign, const double *s, double *r, double *h, double *value
) {
    const int64_t whole = n / LANES_double * LANES_double;
    double tail[5][LANES_double] = {{0}};
    *value = logistic_losses(a, sign, s, whole, r, h);
    for (int64_t i = whole; i < n; i++)
        tail[0][i - whole] = a[i], tail[1][i - whole] = sign[i], tail[2][i - whole] = s[i];
    *value += logistic_losses(tail[0], tail[1], tail[2], LANES_double, tail[3], tail[4]);
    for (int64_t i = whole; i < n; i++) r[i] = tail[3][i - whole], h[i] = tail[4][i - whole];
    return 0;
}

INLINE vector_double times_log(vector_double c) { /* 0 at 0 */
    return -c * log_above_one(1.0 / select_double(c > 1e-300, c, splat_double(1e-300)));
}

/* The sum of s (c log c + (1 - c) log(1 - c)), c = shrink |theta| / s <= 1: the conjugate of the loss of two classes. */
EXPORT int NAME(logistic_conjugate)(const double *theta, int64_t n, const double *s, double shrink, double *value) {
    vector_double total = {0};
    for (int64_t i = 0; i < n; i += LANES_double) {
        double tail[2][LANES_double];
        const double *u = theta + i, *weight = s + i;
        if (i + LANES_double > n) {
            for (int64_t k = 0; k < LANES_double; k++)
                tail[0][k] = i + k < n ? theta[i + k] : 0.0, tail[1][k] = i + k < n ? s[i + k] : 1.0;
            u = tail[0], weight = tail[1];
        }
        const vector_double own = AT(weight), size = select_double(AT(u) < 0.0, -AT(u), AT(u));
        vector_double c = shrink * size / own;
        c = select_double(c > 1.0, splat_double(1.0), c);
        total += own * (times_log(c) + times_log(1.0 - c));
    }
    *value = sum_double(total);
    return 0;
}

/* out = exp(x) for x <= 0 (which = 0), log(1 + x) for x in [0, 1] (1), log(x) for x >= 1 (2); n is a multiple of 8. */
EXPORT int NAME(function)(int which, const double *x, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i += LANES_double) {
        vector_double v = AT(x + i);
        store_double(out + i, which == 0 ? exp_nonpositive(v) : which == 1 ? log1p_unit(v) : log_above_one(v));
    }
    return 0;
}
