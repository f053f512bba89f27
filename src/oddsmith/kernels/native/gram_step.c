/* A step of two classes over some columns, by their products: its model, its residuals, and the gap over the columns. */

#include <math.h>
#include <string.h>

#include "columns.h"

/* The model has the products G (single precision, rows `stride` apart) of the columns less their `mean` under curvatures h
   with the sum `total`. Weights x, activations a and the intercept's `shift` begin at the point and end at the next. */
typedef struct {
    columns_problem columns;
    int64_t stride, intercept, settled; /* settled: the columns that are not zero are known */
    const float *G;
    const double *h, *mean, *diagonal, *sign, *s, *offset, *penalty, *ridge;
    double total, drift, gain, precision, rounding;
    double *a, *x, *theta, *g, *r, *curvature;
    double shift, loss, value, gap;
    int64_t outcome;
} gram_step_problem;

enum { DONE, DRIFTED, HARD };
enum { SWEEPS = 60, REFINEMENTS = 3, SUPPORT_STEPS = 20 };
static const double SUPPORT_RESIDUAL = 1e-5, FLAT = 1e-12;

int NAME(logistic)(const double *, int64_t, const double *, const double *, double *, double *, double *);
int NAME(logistic_conjugate)(const double *, int64_t, const double *, double, double *);

static double dot(const double *a, const double *b, int64_t n) {
    vector_double sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES_double <= n; i += 4 * LANES_double)
        for (int k = 0; k < 4; k++)
            sum[k] += load_double_double(a + i + k * LANES_double) * load_double_double(b + i + k * LANES_double);
    double total = sum_double((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < n; i++) total += a[i] * b[i];
    return total;
}

static double total_of(const double *a, int64_t n) {
    vector_double sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES_double <= n; i += 4 * LANES_double)
        for (int k = 0; k < 4; k++) sum[k] += load_double_double(a + i + k * LANES_double);
    double total = sum_double((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < n; i++) total += a[i];
    return total;
}

static void dots(const gram_step_problem *q, const double *u, double *g) {
    for (int64_t j = 0; j < q->columns.count; j++) g[j] = column_dot(&q->columns, j, u);
}

/* out = X d */
static void activations(const gram_step_problem *q, const double *d, double *out) {
    memset(out, 0, (size_t)q->columns.n * sizeof(double));
    for (int64_t j = 0; j < q->columns.count; j++)
        if (d[j] != 0.0) column_add(&q->columns, j, d[j], NULL, out);
}

static double penalty_at(const gram_step_problem *q, const double *x) {
    double total = 0.0;
    for (int64_t j = 0; j < q->columns.count; j++) total += q->penalty[j] * fabs(x[j]) + 0.5 * q->ridge[j] * x[j] * x[j];
    return total;
}

/* product = G d over all columns; G is symmetric, and only its lower half is read. */
static void multiply(const gram_step_problem *q, const float *d, float *product) {
    for (int64_t j = 0; j < q->columns.count; j++) {
        const float *row = q->G + j * q->stride, own = d[j];
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
        product[j] = total;
    }
}

/* Solve for the columns that are `bound` by conjugate gradients, all others zero; `work` has room for 4 vectors. Returns 0
   where they are slow. */
static int solve_bound(
    const gram_step_problem *q, const int8_t *bound, const double *slope, double residual, double *p, double *work
) {
    const int64_t m = q->columns.count;
    double *r = work, *direction = work + m, rz = 0.0, enough;
    float *low = (float *)(work + 2 * m), *product = (float *)(work + 3 * m);
    for (int64_t j = 0; j < m; j++) {
        p[j] = 0.0;
        r[j] = bound[j] ? slope[j] : 0.0;
        direction[j] = r[j] / (q->diagonal[j] > 0.0 ? q->diagonal[j] : 1.0);
        rz += r[j] * direction[j];
    }
    enough = residual * residual * rz;
    for (int step = 0; step < SUPPORT_STEPS; step++) {
        double curved = 0.0, next = 0.0;
        for (int64_t j = 0; j < m; j++) low[j] = (float)direction[j];
        multiply(q, low, product);
        for (int64_t j = 0; j < m; j++) {
            if (!bound[j]) product[j] = 0.0f;
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

/* Coordinate descent on the products; `r` is the slope at x. Returns 0 where it is slow. */
static int minimise(const gram_step_problem *q, double *x, double *r, int8_t *active) {
    const int64_t m = q->columns.count;
    memset(active, 0, (size_t)m);
    for (int done = 0, all = 1; done < SWEEPS; done++) {
        double most = 0.0;
        for (int64_t j = 0; j < m; j++) {
            const double d = q->diagonal[j];
            if ((!all && !active[j]) || !(d > 0.0)) continue;
            const double z = d * x[j] - r[j], size = fabs(z) - q->penalty[j];
            const double new = size > 0.0 ? copysign(size, z) / d : 0.0, step = new - x[j];
            active[j] = new != 0.0;
            if (step == 0.0) continue;
            x[j] = new;
            const float *row = q->G + j * q->stride;
            for (int64_t k = 0; k < m; k++) r[k] += step * row[k];
            if (d * step * step > most) most = d * step * step;
        }
        if (most <= q->gain && all) return 1;
        all = most <= q->gain;
    }
    return 0;
}

/* Residuals that stand for probabilities and, with an intercept, sum to zero: the class with more is shrunk. */
static void make_feasible(const gram_step_problem *q) {
    double total[2] = {0.0, 0.0};
    for (int64_t i = 0; i < q->columns.n; i++) {
        double wrong = -q->sign[i] * q->theta[i];
        wrong = wrong > 0.0 ? wrong < q->s[i] ? wrong : q->s[i] : 0.0;
        q->theta[i] = -q->sign[i] * wrong;
        total[q->sign[i] > 0.0] += wrong;
    }
    if (!q->intercept) return;
    const double least = total[0] < total[1] ? total[0] : total[1];
    const double share[2] = {total[0] > 0.0 ? least / total[0] : 0.0, total[1] > 0.0 ? least / total[1] : 0.0};
    for (int64_t i = 0; i < q->columns.n; i++) q->theta[i] *= share[q->sign[i] > 0.0];
}

/* The objective less the value of the dual at theta, whose products with the columns are g, shrunk until it is feasible. */
static double gap_of(const gram_step_problem *q) {
    double over = 0.0, entropy, more = 0.0;
    for (int64_t j = 0; j < q->columns.count; j++)
        if (q->ridge[j] == 0.0 && fabs(q->g[j]) > over * q->penalty[j]) over = fabs(q->g[j]) / q->penalty[j];
    const double shrink = over > 1.0 ? 1.0 / over : 1.0;
    for (int64_t j = 0; j < q->columns.count; j++)
        if (q->ridge[j] > 0.0) {
            const double rest = shrink * fabs(q->g[j]) - q->penalty[j];
            if (rest > 0.0) more += rest * rest / (2.0 * q->ridge[j]);
        }
    NAME(logistic_conjugate)(q->theta, q->columns.n, q->s, shrink, &entropy);
    const double gap = q->value - (shrink * dot(q->theta, q->offset, q->columns.n) - entropy - more);
    return gap > 0.0 ? gap : 0.0;
}

/* Correct x and theta until the conditions of an optimum are met over the columns that are not zero or whose gradient is too
   large; the activations follow in `change`. In the end theta is feasible and g are its products. Returns 0 where that is
   slow. */
static int correct(gram_step_problem *q, double *x, double *change, double *work, int8_t *bound) {
    const int64_t n = q->columns.n, m = q->columns.count;
    double *rest = work, *missed = work + m, *new = work + 2 * m, *moved = q->r;
    for (int round = 0;; round++) {
        double most = 0.0;
        int kept = 1;
        make_feasible(q);
        dots(q, q->theta, q->g);
        for (int64_t j = 0; j < m; j++) {
            const double g = q->g[j] + q->ridge[j] * x[j];
            bound[j] = x[j] != 0.0 || fabs(g) > q->penalty[j];
            missed[j] = g + copysign(q->penalty[j], x[j] != 0.0 ? x[j] : -g);
            if (bound[j] && fabs(missed[j]) > most * q->penalty[j]) most = fabs(missed[j]) / q->penalty[j];
        }
        if (most <= q->precision || round == REFINEMENTS) return 1;
        const double residual = 0.2 * q->precision / most > SUPPORT_RESIDUAL ? 0.2 * q->precision / most : SUPPORT_RESIDUAL;
        if (!solve_bound(q, bound, missed, residual, rest, work + 3 * m)) return 0;
        for (int64_t j = 0; j < m; j++) {
            const double sign = x[j] != 0.0 ? x[j] : -q->g[j], to = x[j] - rest[j];
            new[j] = bound[j] && to * sign > 0.0 ? to : bound[j] ? 0.0 : x[j];
            kept &= !bound[j] || new[j] != 0.0;
        }
        activations(q, rest, moved);
        const double mean = dot(q->mean, rest, m);
        for (int64_t i = 0; i < n; i++) q->theta[i] -= q->h[i] * (moved[i] - mean);
        if (!kept) {
            for (int64_t j = 0; j < m; j++) missed[j] = x[j] - new[j];
            activations(q, missed, moved);
        }
        for (int64_t i = 0; i < n; i++) change[i] -= moved[i];
        memcpy(x, new, (size_t)m * sizeof(double));
    }
}

static double mean_change(const gram_step_problem *q, const double *x) { /* less that of the point */
    double total = 0.0;
    for (int64_t j = 0; j < q->columns.count; j++) total += q->mean[j] * (x[j] - q->x[j]);
    return total;
}

static int step(gram_step_problem *q, double *room, int8_t *bound) {
    const int64_t n = q->columns.n, m = q->columns.count;
    double *change = room, *new_a = room + n, *best_a = room + 2 * n, *x = room + 3 * n, *best_x = x + m, *work = x + 2 * m;
    double loss, far = 0.0, own = 0.0, best_loss = 0.0, best_step = 0.0;
    NAME(logistic)(q->a, n, q->sign, q->s, q->r, q->curvature, &loss);
    for (int64_t i = 0; i < n; i++) {
        if (q->curvature[i] < FLAT * q->s[i]) q->curvature[i] = FLAT * q->s[i];
        far += (q->curvature[i] - q->h[i]) * (q->curvature[i] - q->h[i]);
        own += q->h[i] * q->h[i];
    }
    if (!(far <= q->drift * q->drift * own)) return DRIFTED;
    const double sum = total_of(q->r, n), old = loss + penalty_at(q, q->x);
    double shift = q->intercept ? -sum / q->total : 0.0, value = old;
    int better = 0;
    memcpy(x, q->x, (size_t)m * sizeof(double));
    memset(change, 0, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++) q->theta[i] = q->r[i] + q->h[i] * shift;
    if (!q->settled) {
        dots(q, q->r, q->g);
        for (int64_t j = 0; j < m; j++) work[j] = q->g[j] - q->mean[j] * sum + q->ridge[j] * x[j];
        if (!minimise(q, x, work, bound)) return HARD;
        for (int64_t j = 0; j < m; j++) work[j] = x[j] - q->x[j];
        activations(q, work, change);
        const double by = shift - mean_change(q, x);
        for (int64_t i = 0; i < n; i++) {
            q->theta[i] = q->r[i] + q->h[i] * (change[i] + by);
            best_a[i] = q->a[i] + change[i] + by;
        }
        NAME(logistic)(best_a, n, q->sign, q->s, q->r, q->curvature, &loss);
        const double reached = loss + penalty_at(q, x);
        if (reached < value) { /* residuals there, not those of the model */
            const double more = q->intercept ? -total_of(q->r, n) / q->total : 0.0;
            better = 1, value = reached, best_loss = loss, best_step = by, shift += more;
            memcpy(best_x, x, (size_t)m * sizeof(double));
            for (int64_t i = 0; i < n; i++) q->theta[i] = q->r[i] + q->h[i] * more;
        }
    }
    if (!correct(q, x, change, work, bound)) return HARD;
    const double by = shift - mean_change(q, x);
    for (int64_t i = 0; i < n; i++) new_a[i] = q->a[i] + change[i] + by;
    NAME(logistic)(new_a, n, q->sign, q->s, q->r, q->curvature, &loss);
    q->value = loss + penalty_at(q, x), q->loss = loss, q->shift = by;
    if (better && q->value > value) q->value = value, q->loss = best_loss, q->shift = best_step, x = best_x, new_a = best_a;
    if (!(q->value <= old + q->rounding * fabs(old))) return HARD;
    memcpy(q->x, x, (size_t)m * sizeof(double));
    memcpy(q->a, new_a, (size_t)n * sizeof(double));
    q->gap = gap_of(q);
    return DONE;
}

/* DRIFTED: the curvatures at the point, now in `curvature`, are too far from those of the products. HARD: the columns need
   more than this; nothing has changed. */
EXPORT int NAME(gram_step)(gram_step_problem *q) {
    const size_t m = (size_t)q->columns.count, n = (size_t)q->columns.n;
    double *room = malloc((3 * n + 9 * m + 1) * sizeof(double));
    int8_t *bound = malloc(m + 1);
    if (!room || !bound) {
        free(room), free(bound);
        return 1;
    }
    q->outcome = step(q, room, bound);
    free(room), free(bound);
    return 0;
}
