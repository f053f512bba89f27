/* A step of two classes over some columns, by their products: its model, its residuals, and the gap over the columns. */

#include <math.h>
#include <string.h>

#include "columns.h"
#include "packed_columns.h"

/* The model has `share` times the products G (single precision, rows `stride` apart) of the columns less their `mean` under
   curvatures h with the sum `total`. Weights x, activations a and the intercept b begin at the point and end at the next.

   Dense columns have a factor of the products over a support, a team, and `scaled`: less their mean, times `root`, the square
   root of h, in single precision, `width` numbers apart. What is nearly right is enough for all but the end of a step, which
   is exact: activations of the weights, and products with the residuals. */
typedef struct {
    columns_problem columns;
    int64_t stride, intercept, settled; /* settled: the columns that are not zero are known */
    const float *G;
    const double *h, *mean, *diagonal, *sign, *s, *offset, *penalty, *ridge;
    double total, drift, gain, precision, rounding;
    double *a, *x, *theta, *g, *r, *curvature;
    double b, share, loss, value, gap;
    int64_t outcome, width;
    const float *scaled;
    const double *root;
    factor_problem *factor;
    const int64_t *splits; /* of sparse columns: see products_problem */
    team *team;
} gram_step_problem;

/* Scratch arrays: of a number for each row, and of one for each column. */
typedef struct {
    double *change, *new_a, *best_a, *h;
    float *low_rows;
    double *x, *best_x, *slope, *penalty, *rest, *missed, *moved, *work; /* work: 5 numbers for each column */
    int8_t *bound;
} scratch;

enum { DONE, DRIFTED, HARD };
enum { SOME_COLUMNS = 16 }; /* whose products are a unit of work */
enum { MANY_ENTRIES = 1 << 14 }; /* from which a team makes sums */
enum { SWEEPS = 60, REFINEMENTS = 3, SUPPORT_STEPS = 20 };
enum { ROUNDS = 8, MORE_SWEEPS = 30 }; /* of solves for a support, and of descent after those that do not gain */
static const double SUPPORT_RESIDUAL = 1e-5, FLAT = 1e-12;

void NAME(symmetric_product)(team *, const float *, int64_t, int64_t, const float *, float *);
int NAME(logistic)(const double *, int64_t, const double *, const double *, double *, double *, double *);
int NAME(logistic_conjugate)(const double *, int64_t, const double *, double, double *);

static double total_of(const double *a, int64_t n) {
    vector_double sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES_double <= n; i += 4 * LANES_double)
        for (int k = 0; k < 4; k++) sum[k] += load_double_double(a + i + k * LANES_double);
    double total = sum_double((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < n; i++) total += a[i];
    return total;
}

typedef struct {
    const gram_step_problem *q;
    const double *u; /* activations, or residuals */
    double shrink;
    double *sums; /* of each part */
} rows_job;

static void some_losses(const void *job, int64_t part) {
    const rows_job *k = job;
    const gram_step_problem *q = k->q;
    const int64_t i = row_part(q->columns.n, part), n = row_part(q->columns.n, part + 1) - i;
    NAME(logistic)(k->u + i, n, q->sign + i, q->s + i, q->r + i, q->curvature + i, k->sums + part);
}

static void some_conjugates(const void *job, int64_t part) {
    const rows_job *k = job;
    const int64_t i = row_part(k->q->columns.n, part), n = row_part(k->q->columns.n, part + 1) - i;
    NAME(logistic_conjugate)(k->u + i, n, k->q->s + i, k->shrink, k->sums + part);
}

/* The loss at activations, with the residuals r and the curvatures there; or its conjugate at residuals times `shrink`. */
static double sum_of_rows(const gram_step_problem *q, void (*work)(const void *, int64_t), const double *u, double shrink) {
    double sums[ROW_PARTS];
    team_run(q->team, work, &(rows_job){q, u, shrink, sums}, ROW_PARTS);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
static double loss_at(const gram_step_problem *q, const double *a) { return sum_of_rows(q, some_losses, a, 1.0); }

#define DENSE(X) .n = (X)->n, .apart = (X)->n, .count = (X)->count, .data = (X)->data, .which = (X)->which

typedef struct {
    const gram_step_problem *q;
    const double *u;
    double *result;
} columns_job;

static void some_dots(const void *job, int64_t unit) {
    const columns_job *k = job;
    const columns_problem *X = &k->q->columns;
    for (int64_t j = unit * SOME_COLUMNS; j < least(X->count, (unit + 1) * SOME_COLUMNS); j++)
        k->result[j] = column_dot(X, j, k->u);
}

/* g = X' u */
static void dots(const gram_step_problem *q, const double *u, double *g) {
    const columns_problem *X = &q->columns;
    const columns_job job = {q, u, g};
    if (X->indices) team_run(q->team, some_dots, &job, (X->count + SOME_COLUMNS - 1) / SOME_COLUMNS);
    else NAME(packed)(q->team, &(packed_problem){DENSE(X), .u = u, .result = g}, PACKED_DOTS);
}

/* The sum of the columns over a part of the rows. */
static void some_activations(const void *job, int64_t part) {
    const columns_job *k = job;
    const columns_problem *X = &k->q->columns;
    const int64_t from = row_part(X->n, part), to = row_part(X->n, part + 1), *split = k->q->splits + part;
    memset(k->result + from, 0, (size_t)(to - from) * sizeof(double));
    for (int64_t j = 0; j < X->count; j++, split += ROW_PARTS + 1)
        if (k->u[j] != 0.0) add_entries(X, split[0], split[1], k->u[j], k->result);
}

/* out = X d */
static void activations(const gram_step_problem *q, const double *d, double *out) {
    const columns_problem *X = &q->columns;
    const columns_job job = {q, d, out};
    if (X->indices) team_run(X->indptr[X->count] < MANY_ENTRIES ? NULL : q->team, some_activations, &job, ROW_PARTS);
    else NAME(packed)(q->team, &(packed_problem){DENSE(X), .u = d, .result = out}, PACKED_ACTIVATIONS);
}

/* The same of columns less their mean, nearly. */
static void centred_dots(const gram_step_problem *q, const scratch *z, const double *u, double *g) {
    const int64_t n = q->columns.n, m = q->columns.count;
    if (q->scaled) {
        const packed_problem low = {
            .n = n, .apart = q->width, .count = m, .stored = STORED_SINGLE, .data = q->scaled, .u = z->low_rows, .result = g
        };
        for (int64_t i = 0; i < n; i++) z->low_rows[i] = (float)(u[i] / q->root[i]);
        NAME(packed)(q->team, &low, PACKED_DOTS);
        return;
    }
    const double sum = total_of(u, n);
    dots(q, u, g);
    for (int64_t j = 0; j < m; j++) g[j] -= q->mean[j] * sum;
}

static void centred_activations(const gram_step_problem *q, const double *d, double *out) {
    const int64_t n = q->columns.n, m = q->columns.count;
    if (q->scaled) {
        const packed_problem low = {
            .n = n, .apart = q->width, .count = m, .stored = STORED_SINGLE, .data = q->scaled, .u = d, .result = out
        };
        NAME(packed)(q->team, &low, PACKED_ACTIVATIONS);
        for (int64_t i = 0; i < n; i++) out[i] /= q->root[i];
        return;
    }
    const double mean = double_dot(q->mean, d, m);
    activations(q, d, out);
    for (int64_t i = 0; i < n; i++) out[i] -= mean;
}

static double penalty_at(const gram_step_problem *q, const double *x) {
    double total = 0.0;
    for (int64_t j = 0; j < q->columns.count; j++) total += q->penalty[j] * fabs(x[j]) + 0.5 * q->ridge[j] * x[j] * x[j];
    return total;
}

/* Solve for the columns that are `bound`, all others zero: by the factor, or by conjugate gradients. Returns 0 where they are
   slow, or where columns hardly differ. */
static int solve_bound(const gram_step_problem *q, const scratch *z, const double *slope, double residual, double *p) {
    const int64_t m = q->columns.count;
    double *r = z->work, *direction = z->work + m, rz = 0.0, enough;
    float *low = (float *)(z->work + 2 * m), *product = (float *)(z->work + 3 * m);
    if (q->factor) return !NAME(factor_solve)(q->team, q->factor, z->bound, slope, p) && !q->factor->weak;
    for (int64_t j = 0; j < m; j++) {
        p[j] = 0.0;
        r[j] = z->bound[j] ? slope[j] : 0.0;
        direction[j] = r[j] / (q->diagonal[j] > 0.0 ? q->diagonal[j] : 1.0);
        rz += r[j] * direction[j];
    }
    enough = residual * residual * rz;
    for (int step = 0; step < SUPPORT_STEPS; step++) {
        double curved = 0.0, next = 0.0;
        for (int64_t j = 0; j < m; j++) low[j] = (float)direction[j];
        NAME(symmetric_product)(q->team, q->G, q->stride, m, low, product);
        for (int64_t j = 0; j < m; j++) {
            if (!z->bound[j]) product[j] = 0.0f;
            curved += direction[j] * product[j];
        }
        if (!(curved > 0.0)) return rz == 0.0;
        const double length = rz / curved;
        for (int64_t j = 0; j < m; j++) {
            p[j] += length * direction[j];
            r[j] -= length * product[j];
            next += r[j] * r[j] / (q->diagonal[j] > 0.0 ? q->diagonal[j] : 1.0);
        }
        if (next <= enough) return 1;
        for (int64_t j = 0; j < m; j++)
            direction[j] = r[j] / (q->diagonal[j] > 0.0 ? q->diagonal[j] : 1.0) + next / rz * direction[j];
        rz = next;
    }
    return 0;
}

#include "gram_descent.h"

/* change = G d, where d solves for a support and G d is -z->missed there: only rows of G outside the support are read. */
static void follow_solve(const gram_step_problem *q, const scratch *z, const double *d, double *change) {
    const int64_t m = q->columns.count;
    int64_t outside = 0, *which = (int64_t *)z->work;
    double *result = z->work + m;
    float *low = (float *)(z->work + 2 * m);
    for (int64_t j = 0; j < m; j++) {
        low[j] = (float)d[j];
        change[j] = -z->missed[j];
        if (!z->bound[j]) which[outside++] = j;
    }
    const packed_problem G = {
        .n = m, .apart = q->stride, .count = outside, .stored = STORED_SINGLE, .data = q->G, .which = which, .u = low, .result = result
    };
    NAME(packed)(q->team, &G, PACKED_DOTS);
    for (int64_t k = 0; k < outside; k++) change[which[k]] = result[k];
}

/* Move to the minimum over the columns that are not zero, or to zero where a sign would change. Returns whether that gains:
   0 where it does not, -1 where columns hardly differ. */
static int solve_support(const gram_step_problem *q, const scratch *z) {
    const int64_t m = q->columns.count;
    double *d = z->rest, *change = z->moved, gain = 0.0;
    for (int64_t j = 0; j < m; j++) {
        z->bound[j] = z->x[j] != 0.0;
        z->missed[j] = z->bound[j] ? z->slope[j] + copysign(z->penalty[j], z->x[j]) : 0.0;
    }
    if (!solve_bound(q, z, z->missed, 0.0, d)) return -1;
    for (int64_t j = 0; j < m; j++) d[j] = -d[j];
    follow_solve(q, z, d, change);
    for (int64_t j = 0; j < m; j++)
        if ((z->x[j] + d[j]) * z->x[j] < 0.0) {
            const double less = -z->x[j] - d[j];
            const float *row = q->G + j * q->stride;
            for (int64_t k = 0; k < m; k++) change[k] += less * row[k];
            d[j] = -z->x[j];
        }
    for (int64_t j = 0; j < m; j++)
        gain -= d[j] * (z->slope[j] + 0.5 * change[j]) + z->penalty[j] * (fabs(z->x[j] + d[j]) - fabs(z->x[j]));
    if (!(gain > 0.0)) return 0;
    for (int64_t j = 0; j < m; j++) z->x[j] += d[j], z->slope[j] += change[j];
    return 1;
}

/* Minimise the model plus the penalty from z->x, where its slope is z->slope. With a factor, solves for the columns that are
   not zero come before sweeps that change which these are. Returns 0 where that is slow. */
static int minimise(const gram_step_problem *q, const scratch *z) {
    const int64_t m = q->columns.count;
    const double gain = q->gain / (q->share * q->share);
    for (int64_t j = 0; j < m; j++) z->slope[j] /= q->share, z->penalty[j] = q->penalty[j] / q->share;
    if (!q->factor) return descend(q, z, gain, gain, SWEEPS);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t used = 0;
        for (int64_t j = 0; j < m; j++) used += z->x[j] != 0.0;
        const int gains = solve_support(q, z);
        if (gains < 0) return 0;
        /* signs that change, or columns that hardly differ, take more than a sweep */
        if (descend(q, z, gain, gain, gains || !used ? 1 : MORE_SWEEPS) == 1) break;
    }
    return 1;
}

/* Residuals that stand for probabilities and, with an intercept, sum to zero: the class with more is shrunk. */
static void make_feasible(const gram_step_problem *q) {
    const int64_t n = q->columns.n;
    double *theta = q->theta;
    for (int64_t i = 0; i < n; i++) {
        double wrong = -q->sign[i] * theta[i];
        wrong = wrong > 0.0 ? wrong : 0.0;
        theta[i] = -q->sign[i] * (wrong < q->s[i] ? wrong : q->s[i]);
    }
    if (!q->intercept) return;
    const double both = -double_dot(q->sign, theta, n), difference = -total_of(theta, n);
    const double first = fmax(0.5 * (both - difference), 0.0), second = fmax(0.5 * (both + difference), 0.0);
    const double least = fmin(first, second), one = first > 0.0 ? least / first : 0.0, two = second > 0.0 ? least / second : 0.0;
    for (int64_t i = 0; i < n; i++) theta[i] *= 0.5 * (two + one + q->sign[i] * (two - one));
}

/* The objective less the value of the dual at theta, whose products with the columns are g, shrunk until it is feasible. */
static double gap_of(const gram_step_problem *q) {
    double over = 0.0, more = 0.0;
    for (int64_t j = 0; j < q->columns.count; j++)
        if (q->ridge[j] == 0.0 && fabs(q->g[j]) > over * q->penalty[j]) over = fabs(q->g[j]) / q->penalty[j];
    const double shrink = over > 1.0 ? 1.0 / over : 1.0;
    for (int64_t j = 0; j < q->columns.count; j++)
        if (q->ridge[j] > 0.0) {
            const double rest = shrink * fabs(q->g[j]) - q->penalty[j];
            if (rest > 0.0) more += rest * rest / (2.0 * q->ridge[j]);
        }
    const double entropy = sum_of_rows(q, some_conjugates, q->theta, shrink);
    const double gap = q->value - (shrink * double_dot(q->theta, q->offset, q->columns.n) - entropy - more);
    return gap > 0.0 ? gap : 0.0;
}

/* Correct z->x and theta until the conditions of an optimum are met over the columns that are not zero or whose gradient is
   too large; the activations follow in z->change, of dense columns z->new_a are the sums at z->x. In the end theta is feasible
   and g are its products. Returns 0 where that is slow. */
static int correct(const gram_step_problem *q, const scratch *z) {
    const int64_t n = q->columns.n, m = q->columns.count;
    for (int round = 0;; round++) {
        double most = 0.0;
        int kept = 1;
        make_feasible(q);
        if (!q->scaled || !round) dots(q, q->theta, q->g); /* it is hardly ever the last round */
        else if (NAME(packed_both)(q->team, &(packed_problem){DENSE(&q->columns), .u = q->theta, .result = q->g}, z->x, z->new_a))
            return 0;
        for (int64_t j = 0; j < m; j++) {
            const double g = q->g[j] + q->ridge[j] * z->x[j];
            z->bound[j] = z->x[j] != 0.0 || fabs(g) > q->penalty[j];
            z->missed[j] = (g + copysign(q->penalty[j], z->x[j] != 0.0 ? z->x[j] : -g)) / q->share;
            const double far = fabs(z->missed[j]) * q->share;
            if (z->bound[j] && far > most * q->penalty[j]) most = far / q->penalty[j];
        }
        if (most <= q->precision || round == REFINEMENTS) {
            if (q->scaled && !round) activations(q, z->x, z->new_a);
            return 1;
        }
        const double residual = 0.2 * q->precision / most > SUPPORT_RESIDUAL ? 0.2 * q->precision / most : SUPPORT_RESIDUAL;
        if (!solve_bound(q, z, z->missed, residual, z->rest)) return 0;
        for (int64_t j = 0; j < m; j++) {
            const double sign = z->x[j] != 0.0 ? z->x[j] : -q->g[j], to = z->x[j] - z->rest[j];
            const double new = z->bound[j] && to * sign > 0.0 ? to : z->bound[j] ? 0.0 : z->x[j];
            kept &= !z->bound[j] || new != 0.0;
            z->missed[j] = z->bound[j] && new == 0.0 ? z->rest[j] - z->x[j] : 0.0;
            z->x[j] = new;
        }
        double *moved = q->r;
        centred_activations(q, z->rest, moved);
        for (int64_t i = 0; i < n; i++) q->theta[i] -= z->h[i] * moved[i];
        if (q->scaled) continue;
        for (int64_t i = 0; i < n; i++) z->change[i] -= moved[i];
        if (kept) continue; /* others go only as far as zero */
        centred_activations(q, z->missed, moved);
        for (int64_t i = 0; i < n; i++) z->change[i] += moved[i];
    }
}

/* The step of the intercept where that of the centred columns is `shift`. */
static double intercept_step(const gram_step_problem *q, const double *x, double shift) {
    for (int64_t j = 0; j < q->columns.count; j++) shift -= q->mean[j] * (x[j] - q->x[j]);
    return shift;
}

/* Curvatures at the point, and those of the model: the multiple of the products that is nearest, if there is no ridge. Returns
   whether they are near enough. */
static int scale_model(gram_step_problem *q, const scratch *z) {
    const int64_t n = q->columns.n;
    double far = 0.0;
    int ridged = 0;
    for (int64_t j = 0; j < q->columns.count; j++) ridged |= q->ridge[j] != 0.0;
    for (int64_t i = 0; i < n; i++)
        if (q->curvature[i] < FLAT * q->s[i]) q->curvature[i] = FLAT * q->s[i];
    const double own = double_dot(q->h, q->h, n);
    q->share = ridged ? 1.0 : double_dot(q->curvature, q->h, n) / own;
    for (int64_t i = 0; i < n; i++) {
        z->h[i] = q->share * q->h[i];
        far += (q->curvature[i] - z->h[i]) * (q->curvature[i] - z->h[i]);
    }
    return far <= q->drift * q->drift * q->share * q->share * own;
}

typedef struct {
    double value, loss, b;
} point;

/* Activations of weights x and an intercept b, and the objective there: those of dense columns from their sums in `a`, since
   what rounding adds along a path must not count, others by their change. */
static void set_point(
    const gram_step_problem *q, const double *x, double b, const double *change, double shift, double *a, point *to
) {
    const int64_t n = q->columns.n;
    for (int64_t i = 0; i < n; i++) a[i] = q->scaled ? q->offset[i] + b + a[i] : q->a[i] + change[i] + shift;
    to->loss = loss_at(q, a), to->value = to->loss + penalty_at(q, x), to->b = b;
}

static int step(gram_step_problem *q, scratch *z) {
    const int64_t n = q->columns.n, m = q->columns.count;
    point at, best = {0};
    double loss = loss_at(q, q->a);
    if (!scale_model(q, z)) return DRIFTED;
    const double sum = total_of(q->r, n), total = q->share * q->total, old = loss + penalty_at(q, q->x);
    double shift = q->intercept ? -sum / total : 0.0;
    int better = 0;
    memcpy(z->x, q->x, (size_t)m * sizeof(double));
    memset(z->change, 0, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++) q->theta[i] = q->r[i] + z->h[i] * shift;
    if (!q->settled) {
        centred_dots(q, z, q->r, z->slope);
        for (int64_t j = 0; j < m; j++) z->slope[j] += q->ridge[j] * z->x[j];
        if (!minimise(q, z)) return HARD;
        for (int64_t j = 0; j < m; j++) z->rest[j] = z->x[j] - q->x[j];
        centred_activations(q, z->rest, z->change);
        for (int64_t i = 0; i < n; i++) {
            q->theta[i] = q->r[i] + z->h[i] * (z->change[i] + shift);
            z->best_a[i] = q->a[i] + z->change[i] + shift;
        }
        loss = loss_at(q, z->best_a);
        const double reached = loss + penalty_at(q, z->x);
        if (reached < old) { /* residuals there, not those of the model */
            const double more = q->intercept ? -total_of(q->r, n) / total : 0.0;
            better = 1, best = (point){reached, loss, q->b + intercept_step(q, z->x, shift)}, shift += more;
            memcpy(z->best_x, z->x, (size_t)m * sizeof(double));
            for (int64_t i = 0; i < n; i++) q->theta[i] = q->r[i] + z->h[i] * more;
        }
    }
    if (!correct(q, z)) return HARD;
    set_point(q, z->x, q->b + intercept_step(q, z->x, shift), z->change, shift, z->new_a, &at);
    if (better && at.value > best.value) {
        if (q->scaled) {
            activations(q, z->best_x, z->best_a);
            set_point(q, z->best_x, best.b, NULL, 0.0, z->best_a, &best);
        }
        if (best.value < at.value) at = best, z->x = z->best_x, z->new_a = z->best_a;
    }
    q->value = at.value, q->loss = at.loss, q->b = at.b;
    if (!(q->value <= old + q->rounding * fabs(old))) return HARD;
    memcpy(q->x, z->x, (size_t)m * sizeof(double));
    memcpy(q->a, z->new_a, (size_t)n * sizeof(double));
    q->gap = gap_of(q);
    return DONE;
}

/* DRIFTED: the curvatures at the point, now in `curvature`, are too far from those of the products. HARD: the columns need
   more than this; nothing has changed. */
EXPORT int NAME(gram_step)(gram_step_problem *q) {
    const size_t m = (size_t)q->columns.count, n = (size_t)q->columns.n;
    double *room = malloc((5 * n + 12 * m + 1) * sizeof(double));
    int8_t *bound = malloc(m + 1);
    if (!room || !bound) {
        free(room), free(bound);
        return 1;
    }
    double *columns = room + 5 * n, b = q->b;
    scratch z = {
        .change = room, .new_a = room + n, .best_a = room + 2 * n, .h = room + 3 * n, .low_rows = (float *)(room + 4 * n),
        .x = columns, .best_x = columns + m, .slope = columns + 2 * m, .penalty = columns + 3 * m, .rest = columns + 4 * m,
        .missed = columns + 5 * m, .moved = columns + 6 * m, .work = columns + 7 * m, .bound = bound,
    };
    q->outcome = step(q, &z);
    if (q->outcome != DONE) q->b = b;
    free(room), free(bound);
    return 0;
}
