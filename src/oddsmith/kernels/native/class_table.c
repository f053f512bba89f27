/* Sums over the rows of a table for several classes, in one reading. */

#include "table.h"

enum { GRADIENT, PRODUCT, PAIRS, OWN };

/* The classes of a place lie side by side, `C` numbers: whole vectors of them are read and added, of which those beyond the
   classes belong to the next place. They are zero where they are added, and ignored where they are read. */
#define WHOLE(k, wide) for (int64_t k = 0; k < (wide); k += LANES_double)

/* A (n rows, `wide` apart) = the rows of a tile times the weights w of all places. */
INLINE void class_activations(const table_problem *p, int64_t n, table_tile t, const double *w, int64_t C, int64_t wide, double *A) {
    for (int64_t i = 0; i < n; i++)
        WHOLE(c, wide) {
            vector_double a = AT(w + c);
            for (int64_t j = 0; j < p->m; j++) a += t.Z[j * TABLE_TILE + i] * AT(w + p->numbers[j] * C + c);
            for (int64_t k = 0; k < p->f; k++) {
                const vector_double u = AT(w + t.at[k * TABLE_TILE + i] * C + c);
                a += p->values[k] ? t.V[k * TABLE_TILE + i] * u : u;
            }
            store_double(A + i * wide + c, a);
        }
}

/* Add the rows of a tile, or their squares, times R (n rows, `wide` apart) to the sums g of all places, `count` each. */
INLINE void add_classes(
    const table_problem *p, int64_t n, table_tile t, const double *R, int64_t count, int64_t wide, int squares, double *g
) {
    for (int64_t j = -1; j < p->m; j++) /* a column of numbers at a time: its sums stay in registers */
        WHOLE(c, wide) {
            double *u = g + (j < 0 ? 0 : p->numbers[j]) * count + c;
            vector_double sum = AT(u);
            for (int64_t i = 0; i < n; i++) {
                const double z = j < 0 ? 1.0 : t.Z[j * TABLE_TILE + i];
                sum += (squares ? z * z : z) * AT(R + i * wide + c);
            }
            store_double(u, sum);
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < p->f; k++) {
            double *u = g + t.at[k * TABLE_TILE + i] * count;
            const double v = p->values[k] ? t.V[k * TABLE_TILE + i] : 1.0;
            WHOLE(c, wide) store_double(u + c, AT(u + c) + (squares ? v * v : v) * AT(R + i * wide + c));
        }
}

/* From rows that are `wide` apart to columns that are `ld` apart, or back. */
INLINE void to_columns(const double *A, int64_t wide, int64_t n, int64_t ld, int64_t C, double *T) {
    for (int64_t k = 0; k < C; k++)
        for (int64_t i = 0; i < ld; i++) T[k * ld + i] = i < n ? A[i * wide + k] : 0.0;
}
INLINE void to_rows(const double *T, int64_t ld, int64_t n, int64_t C, int64_t wide, double *A) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < C; k++) A[i * wide + k] = T[k * ld + i];
}

/* The second derivatives of each row in all pairs of classes, (0, 0), (1, 0), (1, 1) ..., from the probabilities Y. */
INLINE void pair_rows(const double *Y, const double *D, const double *s, int64_t ld, int64_t n, int64_t C, int64_t wide, double *R) {
    for (int64_t j = 0, pair = 0; j < C; j++)
        for (int64_t k = 0; k <= j; k++, pair++)
            for (int64_t i = 0; i < n; i++) {
                const double h = j == k ? D[k * ld + i] : -Y[j * ld + i] * Y[k * ld + i];
                R[i * wide + pair] = s ? s[i] * h : h;
            }
}

/* Gradient and value at the weights w, the Hessian there times v, or the sums of the second derivatives of all pairs of
   classes, or of each class alone, then of the squares, too. Weights (read up to a vector beyond their end) and sums (written so far) are by place, offsets by row. */
EXPORT int NAME(class_table)(table_problem *p, int64_t C, const double *v, int task) {
    const int64_t count = task == PAIRS ? C * (C + 1) / 2 : C, column = line(8 * TABLE_TILE);
    const int64_t wide = round_up(C, LANES_double), sums_wide = round_up(count, LANES_double), row = 8 * TABLE_TILE;
    arena memory;
    if (!arena_make(&memory, (p->m + p->f + 3 * C + 7) * column + line(4 * TABLE_TILE * (p->f + 1)) + line(4 * TABLE_TILE)
                                 + wide * row + sums_wide * row + line((int64_t)sizeof(factor_sums) * p->f)))
        return 1;
    table_tile t = {.Z = arena_take(&memory, p->m * column), .V = arena_take(&memory, p->f * column),
                    .at = arena_take(&memory, 4 * TABLE_TILE * (p->f + 1)), .s = arena_take(&memory, column),
                    .factors = arena_take(&memory, (int64_t)sizeof(factor_sums) * p->f)};
    double *A = arena_take(&memory, wide * row), *R = arena_take(&memory, sums_wide * row);
    double *T = arena_take(&memory, 3 * C * column), *U = T + C * TABLE_TILE, *D = U + C * TABLE_TILE;
    int32_t *codes = arena_take(&memory, 4 * TABLE_TILE);
    double *scratch = arena_take(&memory, 6 * column);
    softmax_scratch w = {scratch, scratch + TABLE_TILE, scratch + 2 * TABLE_TILE, scratch + 3 * TABLE_TILE,
                         scratch + 4 * TABLE_TILE, scratch + 5 * TABLE_TILE};
    const double *s = p->s ? t.s : NULL;
    for (int64_t k = 0; k < p->f; k++) t.factors[k].copies = 0;
    for (int64_t i = 0; i < sums_wide * TABLE_TILE; i++) R[i] = 0.0;
    p->value = 0.0;
    for (int64_t first = 0, n; first < p->n; first += n) {
        n = least(TABLE_TILE, p->n - first);
        const int64_t ld = round_up(n, LANES_double);
        load_tile(p, first, n, t);
        prefetch_tile(p, first + n, n);
        load_column(p->t, p->t_kind, 1, first, n, NULL, 0.0, w.top);
        for (int64_t i = 0; i < ld; i++) codes[i] = i < n ? (int32_t)w.top[i] : 0;
        for (int64_t i = n; i < ld; i++) t.s[i] = 0.0;
        class_activations(p, n, t, p->w, C, wide, A);
        for (int64_t i = 0; i < n && p->offset; i++)
            for (int64_t k = 0; k < C; k++) A[i * wide + k] += p->offset[(first + i) * C + k];
        to_columns(A, wide, n, ld, C, T);
        p->value += softmax_losses(T, ld, C, codes, s, n, task == PAIRS || task == OWN ? D : NULL, w);
        if (task == PRODUCT) {
            class_activations(p, n, t, v, C, wide, A);
            to_columns(A, wide, n, ld, C, U);
            product_residuals(T, U, ld, C, s, n, w);
            to_rows(U, ld, n, C, sums_wide, R);
        } else if (task == GRADIENT) {
            softmax_residuals(T, ld, C, codes, s, n, w);
            to_rows(T, ld, n, C, sums_wide, R);
        } else if (task == PAIRS) {
            pair_rows(T, D, s, ld, n, C, sums_wide, R);
        } else {
            for (int64_t k = 0; k < C; k++)
                for (int64_t i = 0; i < n && s; i++) D[k * ld + i] *= s[i];
            to_rows(D, ld, n, C, sums_wide, R);
        }
        add_classes(p, n, t, R, count, sums_wide, 0, p->g);
        if (p->squares) add_classes(p, n, t, R, count, sums_wide, 1, p->squares);
    }
    free(memory.memory);
    return 0;
}
