/* Products of the rows of a matrix that are mostly zero: a few whole columns, and some numbers in others. */

#include "vector.h"

/* Add q b bᵀ for each row b to `sums` (columns by columns), each pair of numbers once: on one side of the diagonal or the
   other. `numbers` has m numbers of each row, in the columns `places`; the others are a CSR matrix. */
EXPORT int NAME(border)(
    int64_t rows, int64_t m, const double *numbers, const int64_t *places, const double *data, const int32_t *indices,
    const int32_t *indptr, const double *q, int64_t columns, double *sums
) {
    arena memory;
    if (!arena_make(&memory, 2 * line(8 * columns))) return 1;
    double *restrict x = arena_take(&memory, 8 * columns);
    int64_t *restrict at = arena_take(&memory, 8 * columns);
    for (int64_t j = 0; j < m; j++) at[j] = places[j];
    for (int64_t row = 0; row < rows; row++) {
        int64_t count = m;
        for (int64_t j = 0; j < m; j++) x[j] = numbers[row * m + j];
        for (int64_t k = indptr[row]; k < indptr[row + 1]; k++, count++) x[count] = data[k], at[count] = indices[k];
        for (int64_t i = 0; i < count; i++) {
            const double y = q[row] * x[i];
            double *restrict to = sums + at[i] * columns;
            for (int64_t j = 0; j <= i; j++) to[at[j]] += y * x[j];
        }
    }
    free(memory.memory);
    return 0;
}
