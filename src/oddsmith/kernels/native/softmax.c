/* Softmax of activations that are known, row by row, and the vector functions for their tests. */

#include "losses.h"

#define SOFTMAX_TILE 64

/* A (n x C, against class 0) becomes residuals times weights; Y (n x (C + 1)) the probabilities, if it is not NULL. */
EXPORT int NAME(softmax)(double *A, int64_t n, int64_t C, const int32_t *t, const double *s, double *Y, double *value) {
    const int64_t column = line(8 * SOFTMAX_TILE);
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
            for (int64_t k = 0; k < C; k++) T[k * ld + i] = i < rows ? A[(first + i) * C + k] : 0.0;
            weights[i] = i < rows && s ? s[first + i] : 0.0;
        }
        *value += softmax_losses(T, ld, C, t + first, s ? weights : NULL, rows, NULL, w);
        if (Y)
            for (int64_t i = 0; i < rows; i++) {
                Y[(first + i) * (C + 1)] = w.first[i] * w.scale[i];
                for (int64_t k = 0; k < C; k++) Y[(first + i) * (C + 1) + k + 1] = T[k * ld + i];
            }
        softmax_residuals(T, ld, C, t + first, s ? weights : NULL, rows, w);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < C; k++) A[(first + i) * C + k] = T[k * ld + i];
    }
    free(memory.memory);
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
