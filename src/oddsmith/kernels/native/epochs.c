/* Epochs that go from row to row, each step from where the last one ended: perceptron and stochastic gradients. */

#include "functions.h"

/* Rows, dense in C order (x) or CSR (x is NULL). */
typedef struct {
    const double *x, *data;
    const void *indices, *indptr;
    int64_t narrow, n, m; /* narrow: indices are int32_t */
} epoch_rows;

INLINE int64_t index_at(const epoch_rows *rows, const void *indices, int64_t i) {
    return rows->narrow ? ((const int32_t *)indices)[i] : ((const int64_t *)indices)[i];
}

static double row_dot(const epoch_rows *rows, int64_t n, const double *v) {
    double total = 0.0;
    if (rows->x) {
        const double *x = rows->x + n * rows->m;
        vector_double sum = {0};
        int64_t j = 0;
        for (; j + LANES_double <= rows->m; j += LANES_double) sum += load_double_double(x + j) * load_double_double(v + j);
        total = sum_double(sum);
        for (; j < rows->m; j++) total += x[j] * v[j];
        return total;
    }
    for (int64_t i = index_at(rows, rows->indptr, n), end = index_at(rows, rows->indptr, n + 1); i < end; i++)
        total += v[index_at(rows, rows->indices, i)] * rows->data[i];
    return total;
}

static void row_add(const epoch_rows *rows, int64_t n, double step, double *v) {
    if (rows->x)
        for (int64_t j = 0; j < rows->m; j++) v[j] += step * rows->x[n * rows->m + j];
    else
        for (int64_t i = index_at(rows, rows->indptr, n), end = index_at(rows, rows->indptr, n + 1); i < end; i++)
            v[index_at(rows, rows->indices, i)] += step * rows->data[i];
}

/* The class that beats or equals class k, -1 if none does. V is C x (m + 1), intercepts first. */
static int64_t rival_of(const epoch_rows *rows, int64_t n, int64_t k, const double *V, int64_t C, double bias, double *a) {
    for (int64_t c = 0; c < C; c++)
        a[c] = bias * V[c * (rows->m + 1)] + row_dot(rows, n, V + c * (rows->m + 1) + 1);
    if (C == 1) return (k == 1 ? a[0] <= 0.0 : a[0] >= 0.0) ? 1 - k : -1; /* NaN is no mistake */
    int64_t best = -1;
    for (int64_t c = 0; c < C; c++)
        if (c != k && (best < 0 || a[c] > a[best])) best = c;
    return a[k] <= a[best] ? best : -1;
}

/* An epoch of the perceptron; `state` holds mistakes, run without a mistake, longest run, fewest errors. */
EXPORT int NAME(perceptron)(
    const epoch_rows *rows, const int32_t *t, const int64_t *order, double step, double bias, int64_t C, double *V,
    double *best, int64_t *state
) {
    const int64_t P = rows->m + 1;
    double *a = malloc(8 * (size_t)C);
    if (!a) return 1;
    for (int64_t i = 0; i < rows->n; i++) {
        const int64_t n = order[i], k = t[n];
        if (rows->x && i + 16 < rows->n) /* rows in random order are far apart in memory */
            for (int64_t j = 0; j < rows->m; j += 8) PREFETCH(rows->x + order[i + 16] * rows->m + j);
        const int64_t rival = rival_of(rows, n, k, V, C, bias, a);
        if (rival < 0) {
            state[1]++;
            continue;
        }
        if (state[1] > 2 * state[2]) {
            int64_t errors = 0;
            for (int64_t row = 0; row < rows->n; row++) errors += rival_of(rows, row, t[row], V, C, bias, a) >= 0;
            if (errors < state[3]) {
                for (int64_t j = 0; j < C * P; j++) best[j] = V[j];
                state[3] = errors;
            }
            state[2] = state[1];
        }
        state[0]++;
        state[1] = 0;
        double up = C == 1 && k != 1 ? -step : step, *own = C == 1 ? V : V + k * P;
        own[0] += up * bias;
        row_add(rows, n, up, own + 1);
        if (C > 1) {
            V[rival * P] -= step * bias;
            row_add(rows, n, -step, V + rival * P + 1);
        }
    }
    free(a);
    return 0;
}

typedef struct {
    const double *x; /* n x m, C order */
    int64_t n, m, C;
    const int32_t *t;
    const double *s, *offset, *center, *scale, *T; /* n, n x C, m, m, C x C */
    const double *decay, *target, *steps;          /* C x (m + 1), C x (m + 1), n */
    double *V, *mean;                              /* C x (m + 1) */
} sgd_problem;

/* Residuals (y - t) s of a row from its activations, in place. */
static void row_residuals(double *a, int64_t C, int64_t t, double s) {
    double top = 0.0, total;
    for (int64_t c = 0; c < C; c++) top = a[c] > top ? a[c] : top;
    total = exp_nonpositive(splat_double(-top))[0];
    for (int64_t c = 0; c < C; c++) total += a[c] = exp_nonpositive(splat_double(a[c] - top))[0];
    for (int64_t c = 0; c < C; c++) a[c] = (a[c] / total - (t == c + 1)) * s;
}

/* See oddsmith.kernels.sgd.epoch, which this equals. */
EXPORT int NAME(sgd)(const sgd_problem *p) {
    const int64_t m = p->m, P = m + 1, C = p->C;
    double *z = malloc(8 * (size_t)(P + 2 * C));
    if (!z) return 1;
    double *a = z + P, *r = a + C;
    z[0] = 1.0;
    for (int64_t n = 0; n < p->n; n++) {
        for (int64_t j = 0; j < m; j++) z[1 + j] = (p->x[n * m + j] - p->center[j]) / p->scale[j];
        for (int64_t c = 0; c < C; c++) {
            r[c] = 0.0;
            for (int64_t j = 0; j < P; j++) r[c] += p->V[c * P + j] * z[j];
        }
        for (int64_t c = 0; c < C; c++) {
            a[c] = p->offset[n * C + c];
            for (int64_t k = 0; k < C; k++) a[c] += p->T[c * C + k] * r[k];
        }
        row_residuals(a, C, p->t[n], p->s[n]);
        const double step = p->steps[n];
        for (int64_t c = 0; c < C; c++) {
            r[c] = 0.0;
            for (int64_t k = 0; k < C; k++) r[c] += p->T[k * C + c] * a[k];
            for (int64_t j = c * P; j < (c + 1) * P; j++) {
                double decay = step * p->decay[j];
                p->V[j] -= step * r[c] * z[j - c * P];
                p->V[j] -= decay / (1.0 + decay) * (p->V[j] - p->target[j]);
                p->mean[j] += (p->V[j] - p->mean[j]) / (double)(n + 1);
            }
        }
    }
    free(z);
    return 0;
}
