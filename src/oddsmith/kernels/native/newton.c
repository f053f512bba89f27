/* Newton's method for two classes on dense rows, as long as every step is a plain one.

   Small tables take a few microseconds a step here. Whatever needs judgement is left to the caller, who goes on from the
   last point: a step that must be shortened, a Hessian that has no factor, the end. */

#include "dense.h"

int NAME(dense)(dense_problem *p);

typedef struct {
    dense_problem *rows;                 /* W and b are written, g and H are sums */
    const double *unit, *prior, *mean;   /* P each: units of the weights, precisions of the prior and its mean */
    double *w, *trace;                   /* P: the start, and the end; four numbers for each step taken */
    const double *inverse;               /* m, or NULL: to find the longest row at the end */
    int64_t known, steps, done, evaluations, ended; /* whether the sums at the start are; the most steps; results */
    double small, armijo, rounding;      /* the decrement to end at; as in a line search */
    double least, most;                  /* ratios of squared decrements that are those of separated classes */
    double *diagonal, *step;             /* P each: the roots of the diagonal of the last Hessian, and the step from there */
    double *scaled, *lower;              /* P x P each: that Hessian scaled to unit diagonal, its factor by columns */
    double penalty, floor, condition;    /* of the prior; a bound of the smallest eigenvalue; of the scaled Hessian */
    int64_t factored;                    /* whether the last Hessian has a factor */
} newton_problem;

INLINE int is_finite(double x) { return x - x == 0.0; }

/* L Lᵀ = A, on and below the diagonal, in place; 0 where a pivot is nothing but rounding. */
static int factor(double *A, int64_t P, double *diagonal, double *column) {
    for (int64_t k = 0; k < P; k++) diagonal[k] = A[k * P + k];
    for (int64_t k = 0; k < P; k++) {
        const double pivot = A[k * P + k];
        if (!(pivot > 1e-10 * diagonal[k])) return 0;
        A[k * P + k] = __builtin_sqrt(pivot);
        for (int64_t i = k + 1; i < P; i++) column[i] = A[i * P + k] /= A[k * P + k];
        for (int64_t i = k + 1; i < P; i++)
            for (int64_t j = k + 1; j <= i; j++) A[i * P + j] -= column[i] * column[j];
    }
    return 1;
}

/* x = A⁻¹ b from the factor. */
static void solve(const double *L, int64_t P, const double *b, double *x) {
    for (int64_t k = 0; k < P; k++) {
        double sum = b[k];
        for (int64_t j = 0; j < k; j++) sum -= L[k * P + j] * x[j];
        x[k] = sum / L[k * P + k];
    }
    for (int64_t k = P - 1; k >= 0; k--) {
        x[k] /= L[k * P + k];
        for (int64_t j = 0; j < k; j++) x[j] -= L[k * P + j] * x[k];
    }
}

/* The sums at w, in the units of w, with the prior added. */
static int evaluate(newton_problem *q) {
    dense_problem *p = q->rows;
    const int64_t P = p->m + 1;
    double *W = (double *)p->W;
    *(double *)p->b = q->w[0] / q->unit[0];
    for (int64_t j = 1; j < P; j++) W[j - 1] = q->w[j] / q->unit[j];
    for (int64_t k = 0; k < P + P * P; k++) p->g[k] = 0.0;
    q->evaluations++;
    if (NAME(dense)(p)) return 0;
    for (int64_t i = 0; i < P; i++) {
        p->g[i] = p->g[i] / q->unit[i] + q->prior[i] * (q->w[i] - q->mean[i]);
        for (int64_t j = 0; j <= i; j++) p->H[i * P + j] /= q->unit[i] * q->unit[j];
        p->H[i * P + i] += q->prior[i];
    }
    return 1;
}

/* The loss and the penalty. */
static double objective(newton_problem *q) {
    q->penalty = 0.0;
    for (int64_t i = 0; i <= q->rows->m; i++) q->penalty += 0.5 * q->prior[i] * (q->w[i] - q->mean[i]) * (q->w[i] - q->mean[i]);
    return q->rows->value + q->penalty;
}

/* The largest sum of a row's absolute values: the 1-norm of a symmetric matrix of which the lower half is given. */
static double norm1(const double *A, int64_t P, double *sums) {
    double largest = 0.0;
    for (int64_t i = 0; i < P; i++) {
        sums[i] = 0.0;
        for (int64_t j = 0; j <= i; j++) {
            const double x = __builtin_fabs(A[i * P + j]);
            sums[i] += x;
            if (j < i) sums[j] += x;
        }
    }
    for (int64_t i = 0; i < P; i++) largest = sums[i] > largest ? sums[i] : largest;
    return largest;
}

/* The factor of the last Hessian, scaled to unit diagonal, and what follows from it. Returns 0, 1 if memory is short. */
static int factor_last(newton_problem *q, double *scratch) {
    const int64_t P = q->rows->m + 1;
    const double *H = q->rows->H;
    double *R = q->scaled, *d = q->diagonal;
    arena memory;
    if (!arena_make(&memory, 2 * line(8 * P * P))) return 1;
    double *L = arena_take(&memory, 8 * P * P), *inverse = arena_take(&memory, 8 * P * P);
    q->factored = 1;
    for (int64_t i = 0; i < P; i++) d[i] = __builtin_sqrt(H[i * P + i]), q->factored &= d[i] > 0.0 && is_finite(d[i]);
    for (int64_t i = 0; i < P; i++)
        for (int64_t j = 0; j < P; j++) L[i * P + j] = R[i * P + j] = H[i * P + j] / (d[i] * d[j]);
    q->factored = q->factored && factor(L, P, scratch, scratch + P);
    if (q->factored) {
        double total = 0.0;
        for (int64_t i = 0; i < P; i++) { /* row i of L⁻¹ */
            double *row = inverse + i * P;
            for (int64_t j = 0; j < P; j++) row[j] = 0.0;
            for (int64_t k = 0; k < i; k++)
                for (int64_t j = 0; j <= k; j++) row[j] -= L[i * P + k] * inverse[k * P + j];
            row[i] = 1.0;
            for (int64_t j = 0; j <= i; j++) row[j] /= L[i * P + i], total += row[j] * row[j] / (d[j] * d[j]);
        }
        q->floor = 1.0 / total;
        for (int64_t j = 0; j < P; j++)
            for (int64_t i = 0; i < P; i++) q->lower[j * P + i] = i < j ? 0.0 : L[i * P + j];
        for (int64_t i = 0; i < P; i++) scratch[i] = q->rows->g[i] / d[i];
        solve(L, P, scratch, q->step);
        for (int64_t i = 0; i < P; i++) q->step[i] /= d[i];
        for (int64_t k = 0; k < P * P; k++) L[k] = 0.0; /* now L⁻ᵀ L⁻¹ */
        for (int64_t k = 0; k < P; k++)
            for (int64_t i = 0; i <= k; i++)
                for (int64_t j = 0; j <= i; j++) L[i * P + j] += inverse[k * P + i] * inverse[k * P + j];
        q->condition = norm1(R, P, scratch) * norm1(L, P, scratch);
    }
    free(memory.memory);
    return 0;
}

/* Take steps until the next evaluation is likely to be the last, or a step cannot be taken. Returns 0, 1 if memory is
   short. A step's trace: objective, loss of the rows, norm of the gradient, decrement. If `ended`, the sums are those at
   the end, and so is the factor of the Hessian. */
EXPORT int NAME(newton)(newton_problem *q) {
    dense_problem *p = q->rows;
    const int64_t P = p->m + 1;
    arena memory;
    if (!arena_make(&memory, 3 * line(8 * P) + line(16 * P))) return 1;
    double *step = arena_take(&memory, 16 * P), *from = arena_take(&memory, 8 * P), *diagonal = arena_take(&memory, 8 * P);
    double *column = arena_take(&memory, 8 * P);
    double before = 0.0, slope = 0.0;
    int alike = 0;
    q->done = q->evaluations = q->ended = 0;
    while (!q->ended) {
        const int summed = q->known ? 1 : evaluate(q);
        const double value = objective(q), last = slope;
        q->known = 0;
        if (!summed || !is_finite(value) || (q->done && value > before - q->armijo * slope + q->rounding * __builtin_fabs(before))) {
            for (int64_t j = 0; j < P && q->done; j++) q->w[j] = from[j]; /* too long a step: back to where it began */
            q->done -= q->done > 0;
            break;
        }
        if (!factor(p->H, P, diagonal, column)) break;
        solve(p->H, P, p->g, step);
        double norm2 = slope = 0.0;
        for (int64_t j = 0; j < P; j++) norm2 += p->g[j] * p->g[j], slope += p->g[j] * step[j];
        if (!is_finite(norm2) || !(slope > q->small * q->small)) break;
        double *trace = q->trace + 4 * q->done++;
        trace[0] = before = value, trace[1] = p->value, trace[2] = __builtin_sqrt(norm2), trace[3] = __builtin_sqrt(slope);
        for (int64_t j = 0; j < P; j++) from[j] = q->w[j], q->w[j] -= step[j];
        alike = slope > q->least * last && slope < q->most * last ? alike + 1 : 0;
        const int near = last > 0.0 && trace[3] / last * slope <= q->small; /* decrements square from step to step */
        q->ended = near || (alike > 2 && q->done > 4) || q->done == q->steps;
    }
    int status = 0;
    if (q->ended) {
        p->inverse = q->inverse;
        q->ended = evaluate(q);
        objective(q);
        for (int64_t i = 0; i < P; i++)
            for (int64_t j = 0; j < i; j++) p->H[j * P + i] = p->H[i * P + j];
        status = q->ended ? factor_last(q, step) : 0;
    }
    free(memory.memory);
    return status;
}
