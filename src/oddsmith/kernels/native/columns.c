/* Coordinate descent by the columns of a matrix: a weighted least-squares model of a loss with a sparse penalty. */

#include <math.h>

#include "columns.h"
#include "team.h"

/* sums of h x and h x x over a column */
static void column_moments(const columns_problem *q, int64_t j, double *first, double *second) {
    const double *x = q->data + COLUMN(q, j), *h = q->h;
    const int64_t length = LENGTH(q, j);
    vector_double one[2] = {{0}}, two[2] = {{0}};
    int64_t i = 0;
    *first = *second = 0.0;
    if (q->indices) {
        const int32_t *row = q->indices + COLUMN(q, j);
        for (; i < length; i++) {
            const double hx = h[row[i]] * x[i];
            *first += hx;
            *second += hx * x[i];
        }
        return;
    }
    for (; i + 2 * LANES_double <= length; i += 2 * LANES_double)
        for (int k = 0; k < 2; k++) {
            const vector_double v = load_double_double(x + i + k * LANES_double);
            const vector_double hx = v * load_double_double(h + i + k * LANES_double);
            one[k] += hx;
            two[k] += hx * v;
        }
    *first = sum_double(one[0] + one[1]), *second = sum_double(two[0] + two[1]);
    for (; i < length; i++) *first += h[i] * x[i], *second += h[i] * x[i] * x[i];
}

static double column_sweep(columns_problem *q, int only_active) {
    double most = 0.0;
    for (int64_t j = 0; j < q->count; j++) {
        if ((only_active && !q->active[j]) || !(q->diagonal[j] > 0.0)) continue;
        const double d = q->diagonal[j], old = q->x[j];
        const double slope = column_dot(q, j, q->v) + q->shift * q->mean[j] * q->total + q->ridge[j] * old;
        const double z = d * old - slope, size = fabs(z) - q->penalty[j];
        const double new = size > 0.0 ? copysign(size, z) / d : 0.0, step = new - old;
        q->active[j] = new != 0.0;
        if (step == 0.0) continue;
        q->x[j] = new;
        column_add(q, j, step, q->h, q->v);
        q->shift -= q->mean[j] * step;
        if (d * step * step > most) most = d * step * step;
    }
    q->done++;
    return most;
}

enum { DESCEND, SUMS, DOTS, ACTIVATIONS };

/* DESCEND: the descent. SUMS: mean and diagonal (ridge included) of each column under h. DOTS: mean_j = sum of x v.
   ACTIVATIONS: v += sum of x_j times each column. */
EXPORT int NAME(columns)(columns_problem *q, int task) {
    if (task == DESCEND) {
        q->done = 0;
        while (q->done < q->sweeps) {
            double gain = column_sweep(q, 0);
            if (gain <= q->tol) break;
            while (q->done < q->sweeps && gain > q->tol) gain = column_sweep(q, 1);
        }
    } else if (task == SUMS) {
        for (int64_t j = 0; j < q->count; j++) {
            double first, second;
            column_moments(q, j, &first, &second);
            q->mean[j] = first / q->total;
            const double centred = second - first * q->mean[j];
            q->diagonal[j] = (centred > 1e-12 * second ? centred : 0.0) + q->ridge[j];
        }
    } else if (task == DOTS) {
        for (int64_t j = 0; j < q->count; j++) q->mean[j] = column_dot(q, q->which ? q->which[j] : j, q->v);
    } else if (task == ACTIVATIONS) {
        for (int64_t j = 0; j < q->count; j++)
            if (q->x[j] != 0.0) column_add(q, j, q->x[j], NULL, q->v);
    } else
        return 2;
    return 0;
}

/* The same for C classes: row i has probabilities p_i, residuals r_i and the curvature s_i (diag p_i - p_i p_i'). The model's
   activations are z_i, and center_i = p_i'z_i. Columns are as they are; intercepts are coordinates too. */
typedef struct {
    int64_t n, count, C, sweeps, grouped;
    const double *inverse; /* of the curvature of the intercepts, C x C; NULL if there are none */
    const double *data;
    const int32_t *indices;
    const int64_t *indptr;
    const double *p, *r, *s;
    double *z, *center;
    double *diagonal; /* count x C, filled first; grouped: a bound for each column, count */
    const double *ridge, *penalty;
    double *x, *b; /* count x C; the change of the intercepts */
    int8_t *active;
    double tol;
    int64_t done;
} classes_problem;

/* The slope of class k along column j. */
static double class_slope(const classes_problem *q, const double *x, const int32_t *row, int64_t length, int64_t k) {
    double total = 0.0;
    for (int64_t t = 0; t < length; t++) {
        const int64_t i = row ? row[t] : t, at = i * q->C + k;
        total += x[t] * (q->r[at] + q->s[i] * q->p[at] * (q->z[at] - q->center[i]));
    }
    return total;
}

static void class_add(classes_problem *q, const double *x, const int32_t *row, int64_t length, int64_t k, double step) {
    for (int64_t t = 0; t < length; t++) {
        const int64_t i = row ? row[t] : t, at = i * q->C + k;
        const double change = x[t] * step;
        q->z[at] += change;
        q->center[i] += q->p[at] * change;
    }
}

/* Move all intercepts to their minimum; `inverse` (C x C) is that of their curvature. Returns twice what that gains. */
static double move_intercepts(classes_problem *q) {
    const int64_t C = q->C;
    double slopes[C], steps[C], gain = 0.0;
    for (int64_t k = 0; k < C; k++) slopes[k] = 0.0;
    for (int64_t i = 0; i < q->n; i++) {
        const double *r = q->r + i * C, *p = q->p + i * C, *z = q->z + i * C, center = q->center[i], s = q->s[i];
        for (int64_t k = 0; k < C; k++) slopes[k] += r[k] + s * p[k] * (z[k] - center);
    }
    for (int64_t k = 0; k < C; k++) {
        steps[k] = 0.0;
        for (int64_t l = 0; l < C; l++) steps[k] -= q->inverse[k * C + l] * slopes[l];
        q->b[k] += steps[k];
        gain -= steps[k] * slopes[k];
    }
    for (int64_t i = 0; i < q->n; i++) {
        const double *p = q->p + i * C;
        double *z = q->z + i * C, change = 0.0;
        for (int64_t k = 0; k < C; k++) {
            z[k] += steps[k];
            change += p[k] * steps[k];
        }
        q->center[i] += change;
    }
    return gain;
}

typedef double eight __attribute__((vector_size(64), aligned(8)));
#define EIGHT(a) (*(const eight *)(a))

/* The slopes of some blocks of eight classes along a column; without z those of the residuals alone. */
INLINE void slopes_of_blocks(
    const classes_problem *q, const double *x, const int32_t *row, int64_t length, const int64_t *begin, const int blocks,
    double *slopes
) {
    eight sum[4] = {{0}, {0}, {0}, {0}};
    for (int64_t t = 0; t < length; t++) {
        const int64_t i = row ? row[t] : t, at = i * q->C;
        const double own = x[t];
        if (!q->z) {
            for (int b = 0; b < blocks; b++) sum[b] += own * EIGHT(q->r + at + begin[b]);
            continue;
        }
        const double center = q->center[i], weight = q->s[i] * own;
        for (int b = 0; b < blocks; b++) {
            const int64_t k = at + begin[b];
            sum[b] += own * EIGHT(q->r + k) + weight * (EIGHT(q->p + k) * (EIGHT(q->z + k) - center));
        }
    }
    for (int b = 0; b < blocks; b++) *(eight *)(slopes + begin[b]) = sum[b];
}

/* The slopes of all classes along a column. The last block of eight classes may overlap the one before. */
static void class_slopes(const classes_problem *q, const double *x, const int32_t *row, int64_t length, double *slopes) {
    const int64_t C = q->C;
    for (int64_t k = 0; k < C; k += 32) {
        int64_t begin[4], blocks = 0;
        for (int64_t b = k; C >= 8 && b < C && blocks < 4; b += 8) begin[blocks++] = b + 8 <= C ? b : C - 8;
        if (blocks == 4) slopes_of_blocks(q, x, row, length, begin, 4, slopes);
        else if (blocks == 3) slopes_of_blocks(q, x, row, length, begin, 3, slopes);
        else if (blocks == 2) slopes_of_blocks(q, x, row, length, begin, 2, slopes);
        else if (blocks == 1) slopes_of_blocks(q, x, row, length, begin, 1, slopes);
    }
    if (C >= 8) return;
    for (int64_t k = 0; k < C; k++) slopes[k] = 0.0;
    for (int64_t t = 0; t < length; t++) {
        const int64_t i = row ? row[t] : t, at = i * C;
        const double center = q->z ? q->center[i] : 0.0, weight = q->z ? q->s[i] * x[t] : 0.0;
        for (int64_t k = 0; k < C; k++)
            slopes[k] += x[t] * q->r[at + k] + (q->z ? weight * q->p[at + k] * (q->z[at + k] - center) : 0.0);
    }
}

/* sums of x x s p (1 - p), or of x x s p, of all classes */
static void class_diagonals(const classes_problem *q, const double *x, const int32_t *row, int64_t length, double *sums) {
    const int64_t C = q->C;
    for (int64_t k = 0; k < C; k++) sums[k] = 0.0;
    for (int64_t t = 0; t < length; t++) {
        const int64_t i = row ? row[t] : t;
        const double *p = q->p + i * C, weight = q->s[i] * x[t] * x[t], own = q->grouped ? 0.0 : 1.0;
        int64_t k = 0;
        for (; k + 8 <= C; k += 8) *(eight *)(sums + k) += weight * (EIGHT(p + k) * (1.0 - own * EIGHT(p + k)));
        for (; k < C; k++) sums[k] += weight * p[k] * (1.0 - own * p[k]);
    }
}

static double move_classes(
    classes_problem *q, int64_t j, const double *x, const int32_t *row, int64_t length, int only_active
) {
    const int64_t C = q->C;
    double *own = q->x + j * C, most = 0.0, square = 0.0, slopes[C];
    if (!only_active || q->grouped) class_slopes(q, x, row, length, slopes);
    if (!q->grouped) {
        for (int64_t k = 0; k < C; k++) {
            const double d = q->diagonal[j * C + k], old = own[k];
            if (!(d > 0.0) || (only_active && old == 0.0)) continue;
            if (!only_active && most == 0.0 && old == 0.0 && fabs(slopes[k]) <= q->penalty[j]) continue; /* nothing moved yet */
            const double z = d * old - class_slope(q, x, row, length, k) - q->ridge[j] * old, size = fabs(z) - q->penalty[j];
            const double new = size > 0.0 ? copysign(size, z) / d : 0.0, step = new - old;
            if (new != 0.0) square = 1.0;
            if (step == 0.0) continue;
            own[k] = new;
            class_add(q, x, row, length, k, step);
            if (d * step * step > most) most = d * step * step;
        }
        q->active[j] = square != 0.0;
        return most;
    }
    const double d = q->diagonal[j];
    if (!(d > 0.0)) return 0.0;
    double target[C];
    for (int64_t k = 0; k < C; k++) {
        target[k] = own[k] - (slopes[k] + q->ridge[j] * own[k]) / d;
        square += target[k] * target[k];
    }
    const double norm = sqrt(square), shrink = norm * d > q->penalty[j] ? 1.0 - q->penalty[j] / (d * norm) : 0.0;
    q->active[j] = shrink != 0.0;
    for (int64_t k = 0; k < C; k++) {
        const double step = shrink * target[k] - own[k];
        if (step == 0.0) continue;
        own[k] = shrink * target[k];
        class_add(q, x, row, length, k, step);
        most += d * step * step;
    }
    return most;
}

static double classes_sweep(classes_problem *q, int only_active) {
    double most = q->inverse ? move_intercepts(q) : 0.0;
    for (int64_t j = 0; j < q->count; j++) {
        if (only_active && !q->active[j]) continue;
        const int64_t from = COLUMN(q, j);
        const double gain = move_classes(q, j, q->data + from, q->indices ? q->indices + from : NULL, LENGTH(q, j), only_active);
        if (gain > most) most = gain;
    }
    q->done++;
    return most;
}

EXPORT int NAME(classes)(classes_problem *q) {
    for (int64_t j = 0; j < q->count; j++) {
        const int64_t from = COLUMN(q, j), length = LENGTH(q, j);
        const int32_t *row = q->indices ? q->indices + from : NULL;
        double most = 0.0, sums[q->C];
        class_diagonals(q, q->data + from, row, length, sums);
        for (int64_t k = 0; k < q->C; k++) {
            if (!q->grouped) q->diagonal[j * q->C + k] = sums[k] + q->ridge[j];
            if (sums[k] > most) most = sums[k];
        }
        if (q->grouped) q->diagonal[j] = most + q->ridge[j];
    }
    q->done = 0;
    while (q->done < q->sweeps) {
        double gain = classes_sweep(q, 0);
        if (gain <= q->tol) break;
        while (q->done < q->sweeps && gain > q->tol) gain = classes_sweep(q, 1);
    }
    return 0;
}

/* The dual norms of the products of all columns with the residuals r (n x C): the largest of a column, or their length. */
EXPORT int NAME(class_norms)(const classes_problem *q, double *norms) {
    const int64_t C = q->C;
    for (int64_t j = 0; j < q->count; j++) {
        const int64_t from = COLUMN(q, j), length = LENGTH(q, j);
        const double *x = q->data + from;
        double sums[C], most = 0.0;
        class_slopes(q, x, q->indices ? q->indices + from : NULL, length, sums);
        for (int64_t k = 0; k < C; k++)
            if (q->grouped)
                most += sums[k] * sums[k];
            else if (fabs(sums[k]) > most)
                most = fabs(sums[k]);
        norms[j] = q->grouped ? sqrt(most) : most;
    }
    return 0;
}

/* An entry of a row: the value of the column at a place. */
typedef struct {
    int32_t place;
    float value;
} row_entry;

/* Products of sparse columns under the curvatures h, less their means: G_jk = sum of h (x_j - mean_j) (x_k - mean_k), k <= j,
   in the rows of G from the first on. Row i of the columns is entries[starts[i]], ...: lengths[i] of them so far. */
typedef struct {
    int64_t count, first, stride; /* rows of G are `stride` numbers apart */
    double total; /* the sum of h */
    double *data;
    int32_t *indices;
    const int64_t *indptr, *starts;
    int32_t *lengths;
    row_entry *entries;
    const double *h, *mean;
    float *G;
    const columns_problem *all; /* the matrix that the columns `which` are taken from, rows ascending in each */
    int64_t *splits; /* where the entries of each part of the rows begin, and the last ends: ROW_PARTS + 1 for each column */
    team *team;
} products_problem;

enum { ENTER, MULTIPLY };
#define AHEAD 8
#define SOME_PRODUCTS 8 /* rows of G that are a unit of work, */
#define SOME_COPIED 64  /* and rows or columns that are copied together */

/* Some rows of the lower half of G from the first on. */
static void form_some(const void *job, int64_t unit) {
    const products_problem *q = job;
    const int64_t last = least(q->count, q->first + (unit + 1) * SOME_PRODUCTS);
    double sums[last];
    for (int64_t j = q->first + unit * SOME_PRODUCTS; j < last; j++) {
        for (int64_t k = 0; k <= j; k++) sums[k] = 0.0;
        for (int64_t t = q->indptr[j], end = q->indptr[j + 1]; t < end; t++) {
            const int64_t i = q->indices[t];
            if (t + AHEAD < end) {
                const char *next = (const char *)(q->entries + q->starts[q->indices[t + AHEAD]]);
                for (int k = 0; k < 4; k++) __builtin_prefetch(next + 64 * k);
            }
            const double weight = q->h[i] * q->data[t];
            const row_entry *e = q->entries + q->starts[i];
            for (; e->place < j; e++) sums[e->place] += weight * (double)e->value;
            sums[j] += weight * (double)e->value;
        }
        const double shift = q->total * q->mean[j];
        float *row = q->G + j * q->stride;
        for (int64_t k = 0; k <= j; k++) row[k] = (float)(sums[k] - shift * q->mean[k]);
    }
}

/* The upper half of some rows of G, where the lower one is new. */
static void copy_some(const void *job, int64_t unit) {
    const products_problem *q = job;
    for (int64_t from = q->first; from < q->count; from += SOME_COPIED)
        for (int64_t k = unit * SOME_COPIED; k < least(q->count, (unit + 1) * SOME_COPIED); k++)
            for (int64_t j = most(from, k + 1); j < least(q->count, from + SOME_COPIED); j++)
                q->G[k * q->stride + j] = q->G[j * q->stride + k];
}

/* The first of some ascending rows that is not below `row`. */
static int64_t first_row(const int32_t *rows, int64_t from, int64_t to, int64_t row) {
    while (from < to) {
        const int64_t middle = from + (to - from) / 2;
        if (rows[middle] < row) from = middle + 1;
        else to = middle;
    }
    return from;
}

/* Copy the entries of the new columns in a part of the rows, and enter them into these. */
static void enter_some(const void *job, int64_t part) {
    const products_problem *q = job;
    const int64_t begins = row_part(q->all->n, part), ends = row_part(q->all->n, part + 1);
    for (int64_t j = q->first; j < q->count; j++) {
        const int64_t *column = q->all->indptr + q->all->which[j - q->first], shift = q->indptr[j] - column[0];
        const int64_t from = first_row(q->all->indices, column[0], column[1], begins);
        const int64_t to = first_row(q->all->indices, from, column[1], ends);
        q->splits[j * (ROW_PARTS + 1) + part] = from + shift;
        if (part == ROW_PARTS - 1) q->splits[j * (ROW_PARTS + 1) + ROW_PARTS] = to + shift;
        for (int64_t t = from; t < to; t++) {
            const int64_t i = q->indices[t + shift] = q->all->indices[t];
            q->data[t + shift] = q->all->data[t];
            q->entries[q->starts[i] + q->lengths[i]++] = (row_entry){(int32_t)j, (float)q->all->data[t]};
        }
    }
}

/* ENTER: the columns from the first on are copied, and become entries of the rows. MULTIPLY: the products. */
EXPORT int NAME(products)(const products_problem *q, int task) {
    if (task == MULTIPLY) {
        team_run(q->team, form_some, q, (q->count - q->first + SOME_PRODUCTS - 1) / SOME_PRODUCTS);
        team_run(q->team, copy_some, q, (q->count + SOME_COPIED - 1) / SOME_COPIED);
        return 0;
    }
    team_run(q->team, enter_some, q, ROW_PARTS);
    return 0;
}

/* The number of entries of each of n rows of a sparse matrix. */
EXPORT int NAME(row_lengths)(const columns_problem *q, int64_t *lengths) {
    for (int64_t t = q->indptr[0]; t < q->indptr[q->count]; t++) lengths[q->indices[t]]++;
    return 0;
}
