/* Dense columns one after another, and a factor of products between some of them. */

#ifndef ODDSMITH_PACKED_COLUMNS_H
#define ODDSMITH_PACKED_COLUMNS_H

#include "team.h"

enum { STORED_DOUBLE, STORED_SINGLE, STORED_AS_HALF };

/* Columns of n numbers, `apart` from the next, as they are `stored`. `which` are those that count, NULL: the first. */
typedef struct {
    int64_t n, apart, count, stored;
    const void *data;
    const int64_t *which;
    const void *u;    /* n numbers, double if the columns are, else single; or count weights in double */
    double *result;   /* count products, or n sums */
} packed_problem;

enum { PACKED_DOTS, PACKED_ACTIVATIONS };

/* DOTS: the product of u with each column. ACTIVATIONS: the sum of the columns times their weights u, not of halves. */
int NAME(packed)(team *t, const packed_problem *q, int task);

/* The products of u with columns of doubles, and a, the sum of the columns times weights x, in one reading. */
int NAME(packed_both)(team *t, const packed_problem *q, const double *x, double *a);

/* A symmetric matrix A = L S L' of products G, S of signs, L in rows that are `apart` numbers from the next: LANES_float more
   than there are columns, all finite. There is room for a quarter more rows than columns, and `unused` ones. A column that
   comes is another row of L. One that goes stays there, and a row is added that holds its weight at zero; if it comes back,
   that row is held at zero by a third one. */
typedef struct {
    int64_t size, more, apart, weak; /* rows of L; rows that come next; small pivots */
    float *L, *inverse;              /* 1 over the diagonal */
    float *sign;
    double least; /* of a pivot, against the entry of A */
    const float *G;
    int64_t between, count, unused; /* rows of G, and how many */
    int64_t *columns;               /* of G, for each row of L; -1 - k for a row that holds the row k at zero */
    int64_t *place, *held;          /* the row of each column of G, and the row that holds it at zero; -1 if there is none */
} factor_problem;

/* x = the solution of G x = b over the columns in `support`, zero elsewhere, in single precision. */
int NAME(factor_solve)(team *t, factor_problem *q, const int8_t *support, const double *b, double *x);

#endif
