/* Products of residuals with all columns, of which those are not read that cannot matter; and with a symmetric matrix. */

#include <math.h>
#include <string.h>

#include "columns.h"
#include "packed_columns.h"

/* v are residuals nearly a combination of `known` others, by `shares`, whose products with all columns are the rows of g.
   What is left of v has the sizes `euclidean` and `largest`: with the norms of a column they bound how far its product is
   from the combination. `estimate` are the products in the end, exact for columns whose product may be above the limit. */
typedef struct {
    columns_problem columns; /* with v */
    int64_t known, chosen_count, everything;
    const double *shares, *g, *norms, *sums, *limit;
    const int64_t *chosen; /* columns whose products are given */
    const double *products;
    double euclidean, largest, euclidean_all, largest_all, most_read;
    int8_t *mark;
    double *estimate;
    const void *low; /* dense columns in low precision, each in a unit, which are read instead; NULL: there are none */
    const double *units;
    const float *low_v;
    int64_t stored;
    team *team;
    int64_t *doubtful; /* entries of the columns that are read, and of all that are not chosen */
} known_problem;

enum { READ = 1, CHOSEN = 2 };

/* Read the columns that are marked, in low precision, with all threads. */
static int read_low(const known_problem *q) {
    const columns_problem *c = &q->columns;
    int64_t count = 0, *which = malloc(((size_t)c->count + 1) * sizeof(int64_t));
    double *result = malloc(((size_t)c->count + 1) * sizeof(double));
    if (which && result) {
        for (int64_t j = 0; j < c->count; j++)
            if (q->mark[j] == READ) which[count++] = j;
        const packed_problem low = {
            .n = c->n, .apart = c->n, .count = count, .stored = q->stored, .data = q->low, .which = which,
            .u = q->low_v, .result = result
        };
        NAME(packed)(q->team, &low, PACKED_DOTS);
        for (int64_t k = 0; k < count; k++) q->estimate[which[k]] = result[k] * q->units[which[k]];
    }
    const int failed = !which || !result;
    free(which), free(result);
    return failed;
}

enum { SOME_COLUMNS = 1024, SOME_READ = 64, MOST_UNITS = 1 << 15 }; /* a unit of work, and of reading; as many at most */

INLINE double lesser(double a, double b) { return a < b ? a : b; } /* fmin is a call */

/* Estimate some products, and mark the columns that must be read. */
static void estimate_some(const void *job, int64_t unit) {
    const known_problem *q = job;
    const columns_problem *c = &q->columns;
    int64_t doubtful = 0, outside = 0;
    const int64_t first = unit * SOME_COLUMNS, end = least(c->count, first + SOME_COLUMNS);
    for (int64_t j = first; j < end; j++) q->estimate[j] = 0.0;
    for (int64_t k = 0; k < q->known; k++) {
        const double share = q->shares[k], *g = q->g + k * c->count;
        for (int64_t j = first; j < end; j++) q->estimate[j] += share * g[j];
    }
    for (int64_t j = first; j < end; j++) {
        const double estimate = q->estimate[j];
        if (q->mark[j]) continue;
        const double far = lesser(q->euclidean * q->norms[j], q->largest * q->sums[j]);
        const double most = lesser(q->euclidean_all * q->norms[j], q->largest_all * q->sums[j]);
        outside += LENGTH(c, j);
        if (fabs(estimate) + far <= q->limit[j]) continue;
        if (most <= q->limit[j]) {
            q->estimate[j] = copysign(lesser(fabs(estimate), most), estimate);
            continue;
        }
        q->mark[j] = READ;
        doubtful += LENGTH(c, j);
    }
    __atomic_add_fetch(q->doubtful, doubtful, __ATOMIC_RELAXED);
    __atomic_add_fetch(q->doubtful + 1, outside, __ATOMIC_RELAXED);
}

/* The columns of a unit of reading: few, since the longest columns often follow each other. */
INLINE int64_t columns_read(const columns_problem *c) { return most(SOME_READ, c->count / MOST_UNITS + 1); }

/* Read some columns, those that are marked. */
static void read_some(const void *job, int64_t unit) {
    const known_problem *q = job;
    const columns_problem *c = &q->columns;
    const int64_t some = columns_read(c);
    for (int64_t j = unit * some; j < least(c->count, (unit + 1) * some); j++)
        if (q->mark[j] == READ) q->estimate[j] = column_dot(c, j, c->v);
}

/* `everything` becomes 1 where all columns are read. */
EXPORT int NAME(known_products)(known_problem *q) {
    const columns_problem *c = &q->columns;
    const int64_t units = (c->count + SOME_COLUMNS - 1) / SOME_COLUMNS;
    int64_t doubtful[2] = {0, 0};
    q->doubtful = doubtful;
    for (int64_t k = 0; k < q->chosen_count; k++) q->mark[q->chosen[k]] = CHOSEN;
    team_run(q->team, estimate_some, q, units);
    q->everything = !q->known || (double)doubtful[0] > q->most_read * (double)doubtful[1];
    for (int64_t k = 0; k < q->chosen_count; k++) q->estimate[q->chosen[k]] = q->products[k];
    if (q->everything)
        for (int64_t j = 0; j < c->count; j++) q->mark[j] = q->mark[j] ? q->mark[j] : READ;
    if (q->low) return read_low(q);
    team_run(q->team, read_some, q, (c->count + columns_read(c) - 1) / columns_read(c));
    return 0;
}

/* The Euclidean norm of each column, and the sum of the sizes of its entries. */
EXPORT int NAME(column_norms)(const columns_problem *q, double *norms, double *sums) {
    for (int64_t j = 0; j < q->count; j++) {
        const double *x = q->data + COLUMN(q, j);
        double square = 0.0, sum = 0.0;
        for (int64_t i = 0; i < LENGTH(q, j); i++) {
            square += x[i] * x[i];
            sum += fabs(x[i]);
        }
        norms[j] = sqrt(square), sums[j] = sum;
    }
    return 0;
}

typedef struct {
    const float *G, *d;
    int64_t stride, m, parts;
    float *product; /* of each part */
} symmetric_job;

/* The rows of G in part `unit` of its lower half, and their share of the columns. */
static void multiply_some(const void *job, int64_t unit) {
    const symmetric_job *t = job;
    const int64_t m = t->m;
    const double parts = (double)t->parts;
    const int64_t from = (int64_t)((double)m * sqrt((double)unit / parts)), to = (int64_t)((double)m * sqrt((double)(unit + 1) / parts));
    const float *d = t->d;
    float *product = t->product + unit * m;
    memset(product, 0, (size_t)m * sizeof(float));
    for (int64_t j = from; j < to; j++) {
        const float *row = t->G + j * t->stride, own = d[j];
        vector_float sum[2] = {{0}};
        int64_t k = 0;
        for (; k + 2 * LANES_float <= j; k += 2 * LANES_float)
            for (int b = 0; b < 2; b++) {
                const vector_float part = load_float_float(row + k + b * LANES_float);
                sum[b] += part * load_float_float(d + k + b * LANES_float);
                store_float(product + k + b * LANES_float, load_float_float(product + k + b * LANES_float) + own * part);
            }
        float total = sum_float(sum[0] + sum[1]) + row[j] * own;
        for (; k < j; k++) {
            total += row[k] * d[k];
            product[k] += own * row[k];
        }
        product[j] += total;
    }
}

enum { PARTS = 4, MANY_COLUMNS = 256 }; /* in which sums are made for a team, and columns from which they are */

/* product = G d, where G is symmetric, m rows that are `stride` apart; only its lower half is read. There is room for PARTS
   products. */
void NAME(symmetric_product)(team *, const float *, int64_t, int64_t, const float *, float *);
void NAME(symmetric_product)(team *team, const float *G, int64_t stride, int64_t m, const float *d, float *product) {
    const symmetric_job job = {G, d, stride, m, m < MANY_COLUMNS ? 1 : PARTS, product};
    team_run(team, multiply_some, &job, job.parts);
    for (int64_t part = 1; part < job.parts; part++)
        for (int64_t j = 0; j < m; j++) product[j] += product[part * m + j];
}
