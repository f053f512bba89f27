/* The problem that a dense kernel sums: rows of an array, their targets, the weights, and where the sums go. */

#ifndef ODDSMITH_DENSE_H
#define ODDSMITH_DENSE_H

#include "losses.h"

enum { STORED_AS_DOUBLE, STORED_AS_FLOAT, STORED_AS_HALF };

typedef struct {
    const void *x; /* n rows of m numbers; neighbours are `row` and `column` numbers apart */
    int64_t kind, n, m, row, column;
    int64_t run, apart; /* the first `run` rows of every `apart` count; targets are theirs alone */
    const int32_t *t;   /* class codes; NULL sums the weights' moments instead of a loss */
    const double *s, *offset; /* weights, n x C offsets, or NULL */
    int64_t C;
    const double *W, *b, *center, *inverse; /* C x m, C, m, m; inverse may be NULL */
    const double *V, *v;                    /* direction of a Hessian product, or NULL; of two classes V alone may be */
    double *g, *H;                          /* C x (m + 1); C (m + 1) squared, or NULL */
    half *half_rows;                        /* n x m, or NULL: (x - center) sqrt(inverse) */
    double *root_rows;                      /* n x (m + 1), or NULL: sqrt(h) (1, x - center), two classes */
    double value, max_norm2;                /* results */
} dense_problem;

/* A tile: n rows from row `first` of the array, `seen` of the targets, on; its run ends at `end`. */
typedef struct {
    int64_t first, n, end, seen;
} tile_range;

INLINE tile_range first_tile(const dense_problem *p, int64_t step) {
    int64_t end = least(p->run, p->n);
    return (tile_range){0, least(step, end), end, 0};
}

INLINE tile_range next_tile(const dense_problem *p, tile_range at, int64_t step) {
    int64_t first = at.first + at.n, end = at.end;
    if (first >= end) {
        first = end + p->apart - p->run;
        end = least(first + p->run, p->n);
    }
    return (tile_range){first, least(step, end - first), end, at.seen + at.n};
}

INLINE int is_finite(double x) { return x - x == 0.0; }

INLINE int64_t element(const dense_problem *p) { return p->kind == STORED_AS_DOUBLE ? 8 : p->kind == STORED_AS_FLOAT ? 4 : 2; }

#endif
