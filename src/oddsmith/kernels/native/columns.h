/* The columns of a matrix, and sums over one of them. */

#ifndef ODDSMITH_COLUMNS_H
#define ODDSMITH_COLUMNS_H

#include "vector.h"

/* Columns of n rows: in CSC form, or one after another where `indices` is NULL. The model has the curvatures h of the
   rows; its gradient by the activations is v_i + h_i shift. Columns are less their mean under h, so that the intercept is
   at its minimum all the time, and `shift` is what the intercept moves by. */
typedef struct {
    int64_t n, count, sweeps;
    const double *data;
    const int32_t *indices;
    const int64_t *indptr;
    const double *h;
    double *v;
    double total, shift, tol; /* the sum of h; a sweep ends the descent in which no column gains more than tol */
    double *mean, *diagonal;
    const double *ridge, *penalty;
    double *x;
    int8_t *active;
    int64_t done;
    const int64_t *which; /* the columns of DOTS, all if it is NULL */
} columns_problem;

#define COLUMN(q, j) ((q)->indices ? (q)->indptr[j] : (j) * (q)->n)
/* Rows are divided into parts, of which a team shares the work; part k begins here. */
enum { ROW_PARTS = 4 };
INLINE int64_t row_part(int64_t n, int64_t k) { return n * k / ROW_PARTS; }

#define LENGTH(q, j) ((q)->indices ? (q)->indptr[(j) + 1] - (q)->indptr[j] : (q)->n)

/* sum of x_i u_i */
LOCAL double double_dot(const double *x, const double *u, int64_t n) {
    vector_double sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES_double <= n; i += 4 * LANES_double)
        for (int k = 0; k < 4; k++)
            sum[k] += load_double_double(x + i + k * LANES_double) * load_double_double(u + i + k * LANES_double);
    double total = sum_double((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < n; i++) total += x[i] * u[i];
    return total;
}

/* The same over a column. */
LOCAL double column_dot(const columns_problem *q, int64_t j, const double *u) {
    const double *x = q->data + COLUMN(q, j);
    const int64_t length = LENGTH(q, j);
    if (q->indices) {
        const int32_t *row = q->indices + COLUMN(q, j);
        double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
        int64_t i = 0;
        for (; i + 4 <= length; i += 4) {
            a += x[i] * u[row[i]];
            b += x[i + 1] * u[row[i + 1]];
            c += x[i + 2] * u[row[i + 2]];
            d += x[i + 3] * u[row[i + 3]];
        }
        for (; i < length; i++) a += x[i] * u[row[i]];
        return (a + b) + (c + d);
    }
    return double_dot(x, u, length);
}

/* u_i += step x_i over some entries of a sparse column */
LOCAL void add_entries(const columns_problem *q, int64_t from, int64_t to, double step, double *u) {
    const double *x = q->data;
    const int32_t *row = q->indices;
    int64_t t = from;
    for (; t + 4 <= to; t += 4) { /* rows differ, which a compiler does not know */
        const double a = u[row[t]] + step * x[t], b = u[row[t + 1]] + step * x[t + 1];
        const double c = u[row[t + 2]] + step * x[t + 2], d = u[row[t + 3]] + step * x[t + 3];
        u[row[t]] = a, u[row[t + 1]] = b, u[row[t + 2]] = c, u[row[t + 3]] = d;
    }
    for (; t < to; t++) u[row[t]] += step * x[t];
}

/* u_i += step w_i x_i over a column; w may be NULL */
LOCAL void column_add(const columns_problem *q, int64_t j, double step, const double *w, double *u) {
    const double *x = q->data + COLUMN(q, j);
    const int64_t length = LENGTH(q, j);
    if (q->indices) {
        const int32_t *row = q->indices + COLUMN(q, j);
        if (w)
            for (int64_t i = 0; i < length; i++) u[row[i]] += step * w[row[i]] * x[i];
        else add_entries(q, COLUMN(q, j), COLUMN(q, j) + length, step, u);
    } else if (w)
        for (int64_t i = 0; i < length; i++) u[i] += step * w[i] * x[i];
    else
        for (int64_t i = 0; i < length; i++) u[i] += step * x[i];
}

#endif
