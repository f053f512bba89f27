/* The rows of a table, a tile at a time: columns of numbers, each an array of its own, and factors by their codes.

   Weights and sums are in the order of the columns, the intercept first; one entry more at the end takes what belongs to no
   column (the level dropped, rows without a level). Whoever calls has checked that codes are in range. */

#ifndef ODDSMITH_TABLE_H
#define ODDSMITH_TABLE_H

#include "losses.h"

#define TABLE_TILE 128

enum { FLOAT64, FLOAT32, INT64, INT32, INT16, INT8, UINT8 };
static const int64_t BYTES[] = {8, 4, 8, 4, 2, 1, 1};

typedef struct {
    uint64_t bits, before; /* columns in which there are cells, and the cells of all words before */
} cell_word;

typedef struct {
    int64_t n, m, f; /* rows, columns of numbers, factors */
    const void *const *columns;
    const int64_t *column_kinds, *column_steps; /* numbers from one row to the next */
    const double *fills; /* m: what stands for NaN, or NaN; NULL: nothing does */
    const void *const *codes;
    const int64_t *code_kinds;
    const int64_t *code_levels;   /* of each factor: codes are -1 ... code_levels - 1 */
    const double *const *values;  /* of each factor: what stands in the level's column, NULL for ones */
    const int32_t *const *entries; /* of each factor: its column by code + 1, -1 for none */
    const int64_t *firsts;         /* of each factor: the place in the sums of its first column */
    const int64_t *numbers;       /* m: the place of each column of numbers */
    const double *center;         /* m */
    const void *t, *s;        /* s may be NULL */
    int64_t t_kind, s_kind;
    const double *offset;     /* or NULL */
    const double *w;          /* weights or direction; NULL: none needed */
    const double *inverse;    /* to find the longest row, or NULL */
    double *rows;             /* n: curvatures written by LOGISTIC and read by PRODUCT (or NULL), given r (NULL: curvatures at
                                 zero weights), or activations */
    double *g, *squares;      /* sums of r (1, z) and of r (1, z²), or NULL */
    double *A;                /* the Hessian, each pair once, without the factor eliminated; or NULL */
    int64_t nowhere;          /* the place of what belongs to no column */
    int64_t size, eliminated; /* order of A, one more than the columns; the factor eliminated, or -1 */
    int64_t start, levels;    /* of that factor: its first place, the number of its places */
    int64_t first_level, end_level; /* with level_g: only rows with these of its levels; the last one is that of no column */
    double *level_g;          /* its sums of r by place: then g is by row of A, and nobody else writes to these levels */
    double *D, *B;            /* its diagonal, and its rows of the Hessian (levels + 1 by size) */
    double *N, *C;            /* in place of B: of each level the sums of h (1, z), and those of its cells */
    cell_word *cells;         /* levels of other factors that occur beside a level: so many `words` for each */
    int64_t words, spare;     /* and a sum for what is in no cell, beyond those of the cells */
    int32_t *indices;         /* the columns of the cells */
    double value, max_norm2, widest; /* the last is the largest activation of WIDEST, of either sign */
} table_problem;

/* A factor in a pass. With few levels for the rows, weights and sums are in tables by code + 1 of its own, several copies of
   the sums taking turns: rows that follow each other mostly have the same level, and a sum would wait for the one before.
   With many, they are those of the problem, by place. */
typedef struct {
    int64_t entries, copies; /* levels + 1; 0 copies: by place */
    const double *w, *inverse;
    double *g;
    double *u;           /* sums of h (1, z) by code + 1, and what a row of them takes */
    const int32_t *rows; /* by code + 1: the row of A or B; NULL: to be looked up */
} factor_sums;

typedef struct {
    double *Z;             /* m columns of TABLE_TILE numbers, centred */
    double *V;             /* f columns: values of the factors */
    int32_t *at, *rows;    /* f columns: where weights and sums of the factors are, and their rows of the Hessian */
    double *Y;             /* rows of h (1, z), `wide` apart */
    double *a, *r, *h, *sign, *s, *hz;
    int64_t *some; /* the rows of the tile; NULL: they follow each other */
    int64_t wide;
    factor_sums *factors;
} table_tile;

/* Numbers less c, of `n` rows from `first` on, or of those `some`, `step` apart. */
#define COLUMN(KIND)                                                                                                       \
    do {                                                                                                                   \
        const KIND *restrict from = (const KIND *)x + (some ? 0 : first * step);                                           \
        if (some && step == 1)                                                                                             \
            for (int64_t i = 0; i < n; i++) to[i] = (double)from[some[i]] - c;                                             \
        else if (step == 1)                                                                                                \
            for (int64_t i = 0; i < n; i++) to[i] = (double)from[i] - c;                                                   \
        else                                                                                                               \
            for (int64_t i = 0; i < n; i++) to[i] = (double)from[(some ? some[i] : i) * step] - c;                         \
    } while (0)

INLINE void load_column(const void *x, int64_t kind, int64_t step, int64_t first, int64_t n, const int64_t *restrict some,
                        double c, double *restrict to) {
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
        const KIND *restrict from = (const KIND *)x + (some ? 0 : first);                                                  \
        if (some)                                                                                                          \
            for (int64_t i = 0; i < n; i++) to[i] = (int32_t)from[some[i]] + 1;                                            \
        else                                                                                                               \
            for (int64_t i = 0; i < n; i++) to[i] = (int32_t)from[i] + 1;                                                  \
    } while (0)

/* Codes + 1. */
INLINE void load_codes(const void *x, int64_t kind, int64_t first, int64_t n, const int64_t *restrict some,
                       int32_t *restrict to) {
    switch (kind) {
    case INT32: CODES(int32_t); break;
    case INT16: CODES(int16_t); break;
    default: CODES(int8_t);
    }
}

/* Prefetch `n` numbers from `first` on. */
INLINE void prefetch_column(const void *x, int64_t kind, int64_t first, int64_t n) {
    const int64_t size = BYTES[kind];
    const char *from = (const char *)x + first * size;
    for (int64_t at = 0; at < n * size; at += 64) PREFETCH(from + at);
}

/* Prefetch `rows` from `first` on, or those that are left. */
INLINE void prefetch_tile(const table_problem *p, int64_t first, int64_t rows) {
    const int64_t n = least(rows, p->n - first);
    for (int64_t j = 0; j < p->m; j++)
        if (p->column_steps[j] == 1) prefetch_column(p->columns[j], p->column_kinds[j], first, n);
    for (int64_t k = 0; k < p->f; k++) prefetch_column(p->codes[k], p->code_kinds[k], first, n);
}

/* The place in the sums of a level, by code + 1. */
INLINE int32_t place_of(const table_problem *p, int64_t k, int64_t i) {
    const int32_t entry = p->entries[k][i];
    return (int32_t)(entry < 0 ? p->nowhere : p->firsts[k] + entry);
}

/* The row of an entry of a tile. */
INLINE int64_t row_in(table_tile t, int64_t first, int64_t i) { return t.some ? t.some[i] : first + i; }

/* Where the sums of a factor are in a tile, and its values. */
INLINE void load_factor(const table_problem *p, int64_t k, int64_t first, int64_t n, table_tile t) {
    int32_t *restrict at = t.at + k * TABLE_TILE;
    load_codes(p->codes[k], p->code_kinds[k], first, n, t.some, at);
    if (!t.factors[k].copies)
        for (int64_t i = 0; i < n; i++) at[i] = place_of(p, k, at[i]);
    if (p->values[k])
        for (int64_t i = 0; i < n; i++) t.V[k * TABLE_TILE + i] = p->values[k][row_in(t, first, i)];
}

INLINE void load_tile(const table_problem *p, int64_t first, int64_t n, table_tile t) {
    for (int64_t j = 0; j < p->m; j++) {
        double *restrict z = t.Z + j * TABLE_TILE, fill = p->fills ? p->fills[j] : 0.0, c = p->center[j];
        load_column(p->columns[j], p->column_kinds[j], p->column_steps[j], first, n, t.some, c, z);
        for (int64_t i = 0; i < n && p->fills && fill == fill; i++) z[i] = z[i] == z[i] ? z[i] : fill - c;
    }
    for (int64_t k = 0; k < p->f; k++) load_factor(p, k, first, n, t);
    if (p->s) load_column(p->s, p->s_kind, 1, first, n, t.some, 0.0, t.s);
}

#define CHOOSE(KIND)                                                                                                       \
    {                                                                                                                      \
        const KIND *restrict codes = p->codes[k];                                                                          \
        for (; row < n && count < TABLE_TILE; row++) {                                                                     \
            const uint32_t level = (uint32_t)entries[codes[row] + 1];                                                      \
            some[count] = row;                                                                                             \
            count += (level < levels ? level : levels) - first < width;                                                    \
        }                                                                                                                  \
    }

/* The next rows with levels of the factor eliminated that are asked for, as many as a tile takes; return their number. */
INLINE int64_t choose_rows(const table_problem *p, int64_t *next, int64_t *restrict some) {
    const int64_t k = p->eliminated, n = p->n;
    const int32_t *restrict entries = p->entries[k];
    const uint32_t levels = (uint32_t)p->levels, first = (uint32_t)p->first_level, width = (uint32_t)p->end_level - first;
    int64_t count = 0, row = *next;
    switch (p->code_kinds[k]) {
    case INT32: CHOOSE(int32_t) break;
    case INT16: CHOOSE(int16_t) break;
    default: CHOOSE(int8_t)
    }
    *next = row;
    return count;
}

#endif
