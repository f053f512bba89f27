/* Sums over the rows of a table: columns of numbers, each an array of its own, and factors by their codes.

   Weights and sums are in the order of the columns, the intercept first; one entry more at the end takes what belongs to no
   column (the level dropped, rows without a level). Whoever calls has checked that codes are in range. */

#include "losses.h"

#define TABLE_TILE 128

enum { LOGISTIC, PRODUCT, GIVEN, ACTIVATIONS };
enum { FLOAT64, FLOAT32, INT64, INT32, INT16, INT8, UINT8 };

typedef struct {
    int64_t n, m, f; /* rows, columns of numbers, factors */
    const void *const *columns;
    const int64_t *column_kinds;
    const void *const *codes;
    const int64_t *code_kinds;
    const double *const *values;  /* of each factor: what stands in the level's column, NULL for ones */
    const int32_t *const *places; /* of each factor: the place in the sums by code + 1 */
    const int64_t *numbers;       /* m: the place of each column of numbers */
    const double *center;         /* m */
    const int32_t *t;
    const double *s, *offset; /* or NULL */
    const double *w;          /* weights or direction; NULL: none needed */
    const double *inverse;    /* to find the longest row, or NULL */
    double *rows;             /* n: curvatures written by LOGISTIC and read by PRODUCT (or NULL), given r, or activations */
    double *g, *squares;      /* sums of r (1, z) and of r (1, z²), or NULL */
    double *A;                /* the Hessian, each pair once, without the factor eliminated; or NULL */
    int64_t size, eliminated; /* order of A, one more than the columns; the factor eliminated, or -1 */
    int64_t start, levels;    /* of that factor: its first place, the number of its places */
    double *D, *B;            /* its diagonal, and its rows of the Hessian (levels + 1 by size) */
    double value, max_norm2;
} table_problem;

typedef struct {
    double *Z;       /* m columns of TABLE_TILE numbers, centred */
    double *V;       /* f columns: values of the factors */
    int32_t *places; /* f columns: places in the sums */
    double *a, *r, *h, *sign, *s;
} table_tile;

#define COLUMN(KIND)                                                                                                       \
    do {                                                                                                                   \
        const KIND *restrict from = (const KIND *)x + first;                                                               \
        for (int64_t i = 0; i < n; i++) to[i] = (double)from[i] - c;                                                       \
    } while (0)

INLINE void load_column(const void *x, int64_t kind, int64_t first, int64_t n, double c, double *restrict to) {
    switch (kind) {
    case FLOAT64: COLUMN(double); break;
    case FLOAT32: COLUMN(float); break;
    case INT64: COLUMN(int64_t); break;
    case INT32: COLUMN(int32_t); break;
    case INT16: COLUMN(int16_t); break;
    case INT8: COLUMN(int8_t); break;
    default: COLUMN(uint8_t);
    }
}

#define CODES(KIND)                                                                                                        \
    do {                                                                                                                   \
        const KIND *restrict from = (const KIND *)x + first;                                                               \
        for (int64_t i = 0; i < n; i++) to[i] = places[from[i]];                                                           \
    } while (0)

INLINE void load_codes(
    const void *x, int64_t kind, int64_t first, int64_t n, const int32_t *places, int32_t *restrict to
) {
    places++; /* code -1 comes first */
    switch (kind) {
    case INT32: CODES(int32_t); break;
    case INT16: CODES(int16_t); break;
    default: CODES(int8_t);
    }
}

INLINE void load_tile(const table_problem *p, int64_t first, int64_t n, table_tile t) {
    for (int64_t j = 0; j < p->m; j++)
        load_column(p->columns[j], p->column_kinds[j], first, n, p->center[j], t.Z + j * TABLE_TILE);
    for (int64_t k = 0; k < p->f; k++) {
        load_codes(p->codes[k], p->code_kinds[k], first, n, p->places[k], t.places + k * TABLE_TILE);
        if (p->values[k])
            for (int64_t i = 0; i < n; i++) t.V[k * TABLE_TILE + i] = p->values[k][first + i];
    }
}

INLINE void activations(const table_problem *p, int64_t first, int64_t n, table_tile t) {
    for (int64_t i = 0; i < n; i++) t.a[i] = p->w[0] + (p->offset ? p->offset[first + i] : 0.0);
    for (int64_t j = 0; j < p->m; j++) {
        const double w = p->w[p->numbers[j]], *restrict z = t.Z + j * TABLE_TILE;
        for (int64_t i = 0; i < n; i++) t.a[i] += w * z[i];
    }
    for (int64_t k = 0; k < p->f; k++) {
        const int32_t *restrict at = t.places + k * TABLE_TILE;
        const double *restrict v = t.V + k * TABLE_TILE;
        if (p->values[k])
            for (int64_t i = 0; i < n; i++) t.a[i] += p->w[at[i]] * v[i];
        else
            for (int64_t i = 0; i < n; i++) t.a[i] += p->w[at[i]];
    }
}

INLINE void longest(table_problem *p, int64_t first, int64_t n, table_tile t) {
    for (int64_t i = 0; i < n; i++) {
        double total = 0.0;
        for (int64_t j = 0; j < p->m; j++) {
            const double z = t.Z[j * TABLE_TILE + i];
            total += p->inverse[p->numbers[j]] * z * z;
        }
        for (int64_t k = 0; k < p->f; k++) {
            const double v = p->values[k] ? t.V[k * TABLE_TILE + i] : 1.0;
            total += p->inverse[t.places[k * TABLE_TILE + i]] * v * v;
        }
        if (total > p->max_norm2 && !(p->s && p->s[first + i] == 0.0)) p->max_norm2 = total;
    }
}

/* Sums of r (1, z), and of r (1, z²) if they are asked for. */
INLINE void add_gradient(table_problem *p, int64_t n, table_tile t) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) total += t.r[i];
    p->g[0] += total;
    if (p->squares) p->squares[0] += total;
    for (int64_t j = 0; j < p->m; j++) {
        const double *restrict z = t.Z + j * TABLE_TILE;
        vector_double sum = {0};
        for (int64_t i = 0; i < round_up(n, LANES_double); i += LANES_double) sum += AT(t.r + i) * AT(z + i);
        p->g[p->numbers[j]] += sum_double(sum);
        if (!p->squares) continue;
        double squares = 0.0;
        for (int64_t i = 0; i < n; i++) squares += t.r[i] * z[i] * z[i];
        p->squares[p->numbers[j]] += squares;
    }
    for (int64_t k = 0; k < p->f; k++) {
        const int32_t *restrict at = t.places + k * TABLE_TILE;
        const double *restrict v = t.V + k * TABLE_TILE;
        for (int64_t i = 0; i < n; i++) {
            const double x = p->values[k] ? v[i] : 1.0;
            p->g[at[i]] += t.r[i] * x;
            if (p->squares) p->squares[at[i]] += t.r[i] * x * x;
        }
    }
}

/* A place in A: those of the factor eliminated are not there. */
INLINE int64_t place_in(const table_problem *p, int64_t place) {
    return place < p->start ? place : place - p->levels;
}

INLINE void add_numbers(table_problem *p, int64_t n, table_tile t, double *restrict hz) {
    const int64_t ld = round_up(n, LANES_double);
    for (int64_t j = -1; j < p->m; j++) {
        const double *z = t.Z + j * TABLE_TILE;
        double *row = p->A + (j < 0 ? 0 : place_in(p, p->numbers[j])) * p->size, total = 0.0;
        for (int64_t i = 0; i < n; i++) hz[i] = j < 0 ? t.h[i] : t.h[i] * z[i];
        for (int64_t i = 0; i < n; i++) total += hz[i];
        row[0] += total;
        for (int64_t k = 0; k <= j; k++) {
            vector_double sum = {0};
            const double *y = t.Z + k * TABLE_TILE;
            for (int64_t i = 0; i < ld; i += LANES_double) sum += AT(hz + i) * AT(y + i);
            row[place_in(p, p->numbers[k])] += sum_double(sum);
        }
    }
}

/* Add the rows of the Hessian of one factor: with the numbers, with the factors before it (all others, if it is the one
   eliminated), and its diagonal. */
INLINE void add_factor(table_problem *p, int64_t k, int64_t n, table_tile t, const int64_t *numbers) {
    const int64_t size = p->size, m = p->m, apart = k == p->eliminated;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = t.places[k * TABLE_TILE + i], trash = p->size - 1 + p->levels;
        const int64_t place = !apart ? place_in(p, at) : at == trash ? p->levels : at - p->start;
        const double v = p->values[k] ? t.V[k * TABLE_TILE + i] : 1.0, hv = t.h[i] * v;
        double *restrict row = (apart ? p->B : p->A) + place * size;
        row[0] += hv;
        for (int64_t j = 0; j < m; j++) row[numbers[j]] += hv * t.Z[j * TABLE_TILE + i];
        for (int64_t l = 0; l < (apart ? p->f : k); l++) {
            if (l == p->eliminated) continue;
            const double x = p->values[l] ? t.V[l * TABLE_TILE + i] : 1.0;
            row[place_in(p, t.places[l * TABLE_TILE + i])] += hv * x;
        }
        *(apart ? p->D + place : row + place) += hv * v;
    }
}

EXPORT int NAME(table)(table_problem *p, int task) {
    arena memory;
    const int64_t column = line(8 * TABLE_TILE);
    if (!arena_make(&memory, (p->m + p->f + 6) * column + line(4 * TABLE_TILE * (p->f + 1)) + line(8 * p->m))) return 1;
    table_tile t = {arena_take(&memory, p->m * column), arena_take(&memory, p->f * column),
                    arena_take(&memory, 4 * TABLE_TILE * (p->f + 1)), arena_take(&memory, column),
                    arena_take(&memory, column), arena_take(&memory, column), arena_take(&memory, column),
                    arena_take(&memory, column)};
    double *hz = arena_take(&memory, column);
    int64_t *numbers = arena_take(&memory, 8 * p->m);
    for (int64_t j = 0; j < p->m; j++) numbers[j] = place_in(p, p->numbers[j]);
    for (int64_t i = 0; i < p->m * TABLE_TILE; i++) t.Z[i] = 0.0;
    for (int64_t i = 0; i < TABLE_TILE; i++) hz[i] = 0.0;
    p->value = 0.0;
    p->max_norm2 = 0.0;
    for (int64_t first = 0; first < p->n; first += TABLE_TILE) {
        const int64_t n = least(TABLE_TILE, p->n - first), ld = round_up(n, LANES_double);
        load_tile(p, first, n, t);
        if (p->inverse) longest(p, first, n, t);
        if (p->w) activations(p, first, n, t);
        for (int64_t i = n; i < ld; i++) t.r[i] = t.h[i] = hz[i] = 0.0;
        if (task == LOGISTIC) {
            for (int64_t i = 0; i < ld; i++) {
                t.sign[i] = i < n ? 2.0 * p->t[first + i] - 1.0 : 1.0;
                t.s[i] = i < n && p->s ? p->s[first + i] : 0.0;
                if (i >= n) t.a[i] = 1e300; /* no loss */
            }
            p->value += logistic_losses(t.a, t.sign, p->s ? t.s : NULL, ld, t.r, t.h);
            if (p->rows)
                for (int64_t i = 0; i < n; i++) p->rows[first + i] = t.h[i];
        } else if (task == PRODUCT) {
            for (int64_t i = 0; i < n; i++) t.r[i] = p->rows[first + i] * t.a[i];
        } else if (task == GIVEN) {
            for (int64_t i = 0; i < n; i++) t.r[i] = t.h[i] = p->rows[first + i];
        } else {
            for (int64_t i = 0; i < n; i++) p->rows[first + i] = t.a[i];
        }
        if (p->g) add_gradient(p, n, t);
        if (!p->A) continue;
        add_numbers(p, n, t, hz);
        for (int64_t k = 0; k < p->f; k++) add_factor(p, k, n, t, numbers);
    }
    free(memory.memory);
    return 0;
}
