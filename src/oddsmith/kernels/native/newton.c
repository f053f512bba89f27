/* Newton's method for two classes on dense rows, as long as every step is a plain one.

   Small tables take a few microseconds a step here. Whatever needs judgement is left to the caller, who goes on from the
   last point: a step that must be shortened, a Hessian that has no factor, the end. */

#include "dense.h"
#include "real_rows.h"

typedef struct {
    dense_problem *rows;                 /* g and H are sums, one after the other; W and b are not used */
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
    int64_t rough;                       /* whether Hessians before the last ones may be in single precision */
} newton_problem;

#define ROUNDING 1e-10      /* share of the diagonal below which a pivot is nothing but rounding, */
#define ROUGH_ROUNDING 1e-3 /* and in single precision has too few digits for a step */
#define ROUGH_RATIO 1e-2    /* of decrements: from there on a step is as good as the Hessian that it is from */

/* L Lᵀ = A, on and below the diagonal, in place; 0 where a pivot is below a share of the diagonal. */
static int factor(double *restrict A, int64_t P, double share, double *restrict diagonal, double *restrict column) {
    for (int64_t k = 0; k < P; k++) diagonal[k] = A[k * P + k];
    for (int64_t k = 0; k < P; k++) {
        const double pivot = A[k * P + k];
        if (!(pivot > share * diagonal[k])) return 0;
        A[k * P + k] = __builtin_sqrt(pivot);
        const double inverse = 1.0 / A[k * P + k];
        for (int64_t i = k + 1; i < P; i++) column[i] = A[i * P + k] *= inverse;
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

/* A copy of the rows, centred and in the units of the weights, that every pass reads: tile after tile of `step` rows, in
   which columns are `ld` (in single precision `wide`) apart, an odd number of cache lines; the first column is all ones.
   Rows beyond the last are zero. */
typedef struct {
    int64_t ld, wide, step;
    double *z, *sign;       /* P columns a tile; -1 or 1 for each row */
    float *rough;           /* the same columns in single precision, if there is room */
    double *a, *r, *h, *hz; /* scratch of a tile; hz is LEFT columns */
    float *hf, *rough_hz;   /* the same in single precision */
    void *memory;
} table;

static int copy_table(newton_problem *q, table *to) {
    const dense_problem *p = q->rows;
    const int64_t n = p->n, m = p->m, P = m + 1, tiles = most(1, (n + 255) / 256), step = round_up(most(1, (n + tiles - 1) / tiles), 16);
    const int64_t ld = (step / 8 | 1) * 8, wide = (step / 16 | 1) * 16, single = q->rough ? 4 * wide : 0, size = element(p);
    arena memory;
    if (!arena_make(&memory, 8 * tiles * (P * ld + step) + 8 * LEFT * ld + (tiles * P + LEFT) * single + 4 * line(8 * step))) return 1;
    double *z = arena_take(&memory, 8 * tiles * P * ld), *sign = arena_take(&memory, 8 * tiles * step);
    double *a = arena_take(&memory, 8 * step), *r = arena_take(&memory, 8 * step), *h = arena_take(&memory, 8 * step);
    double *hz = arena_take(&memory, 8 * LEFT * ld);
    float *hf = arena_take(&memory, 4 * step), *rough = arena_take(&memory, tiles * P * single);
    *to = (table){ld, wide, step, z, sign, rough, a, r, h, hz, hf, arena_take(&memory, LEFT * single), memory.memory};
    for (int64_t first = 0; first < n; first += step, z += P * ld, rough += q->rough ? P * wide : 0) {
        const int64_t here = least(step, n - first);
        const char *x = (const char *)p->x + first * p->row * size;
        if (p->kind == STORED_AS_DOUBLE)
            pack_double((const double *)x, p->row, p->column, here, m, p->center, z + ld, ld);
        else
            pack_float((const float *)x, p->row, p->column, here, m, p->center, z + ld, ld);
        for (int64_t i = 0; i < ld; i++) z[i] = i < here ? 1.0 : 0.0;
        for (int64_t i = 0; i < step; i++) sign[first + i] = i < here ? 2.0 * p->t[first + i] - 1.0 : 1.0;
        for (int64_t j = 0; j < P; j++) {
            const double scale = 1.0 / q->unit[j];
            for (int64_t i = 0; i < ld; i++) z[j * ld + i] *= scale;
            for (int64_t i = 0; i < wide && q->rough; i++) rough[j * wide + i] = i < ld ? (float)z[j * ld + i] : 0.0f;
        }
    }
    return 0;
}

/* H += Z diag(h) Zᵀ of n rows of a tile, on and below the diagonal. */
static void add_tile(const table *t, const double *z, int64_t n, int64_t P, double *H) {
    for (int64_t i = 0; i < P; i += LEFT) {
        const int64_t left = least(LEFT, P - i);
        for (int64_t l = 0; l < left; l++)
            for (int64_t k = 0; k < n; k += LANES_double)
                store_double(t->hz + l * t->ld + k, AT(t->h + k) * AT(z + (i + l) * t->ld + k));
        dots_double(t->hz, left, z, i + left, t->ld, n, H + i * P, P);
    }
}

/* The same in single precision. */
static void add_rough_tile(const table *t, const float *rough, int64_t n, int64_t P, double *H) {
    for (int64_t k = 0; k < n; k++) t->hf[k] = (float)t->h[k];
    for (int64_t i = 0; i < P; i += LEFT) {
        const int64_t left = least(LEFT, P - i);
        for (int64_t l = 0; l < left; l++) {
            const float *restrict z = rough + (i + l) * t->wide, *restrict h = t->hf;
            float *restrict hz = t->rough_hz + l * t->wide;
            for (int64_t k = 0; k < n; k++) hz[k] = h[k] * z[k];
        }
        dots_float(t->rough_hz, left, rough, i + left, t->wide, n, H + i * P, P);
    }
}

/* The sums at w, with the prior added; also the longest row if `longest`. */
static void evaluate(newton_problem *q, const table *t, int rough, int longest) {
    dense_problem *p = q->rows;
    const int64_t P = p->m + 1, ld = t->ld;
    const double zero = 0.0;
    double *a = t->a;
    for (int64_t k = 0; k < P + P * P; k++) p->g[k] = 0.0;
    p->value = 0.0;
    q->evaluations++;
    const double *z = t->z;
    for (int64_t first = 0, tile = 0; first < p->n; first += t->step, tile++, z += P * ld) {
        const int64_t here = least(t->step, p->n - first), n = round_up(here, 16);
        const double *s = p->s ? p->s + first : NULL;
        int64_t i = 0;
        for (; i + 4 * LANES_double <= n; i += 4 * LANES_double) combine_block_double(z + i, ld, P, NULL, q->w, &zero, 1, 4, a + i);
        for (; i < n; i += LANES_double) combine_block_double(z + i, ld, P, NULL, q->w, &zero, 1, 1, a + i);
        for (i = 0; i < here && p->offset; i++) a[i] += p->offset[first + i];
        for (i = here; i < n; i++) a[i] = 1e300; /* no loss */
        double value = s ? __builtin_nan("") : logistic_residuals(a, t->sign + first, here, n, t->r, t->h);
        if (value != value) {
            for (i = 0; i < n && s; i++) t->hz[i] = i < here ? s[i] : 0.0;
            value = logistic_losses(a, t->sign + first, s ? t->hz : NULL, n, t->r, t->h);
        }
        p->value += value;
        dots_double(t->r, 1, z, P, ld, n, p->g, P);
        if (rough)
            add_rough_tile(t, t->rough + tile * P * t->wide, n, P, p->H);
        else
            add_tile(t, z, n, P, p->H);
        if (longest) /* in the units of the rows */
            for (i = 0; i < here; i++) {
                double square = 0.0;
                for (int64_t j = 1; j < P; j++) square += z[j * ld + i] * z[j * ld + i] * (q->unit[j] * q->unit[j] * q->inverse[j - 1]);
                if (square > p->max_norm2 && (!s || s[i] > 0.0)) p->max_norm2 = square;
            }
    }
    for (int64_t i = 0; i < P; i++) {
        p->g[i] += q->prior[i] * (q->w[i] - q->mean[i]);
        p->H[i * P + i] += q->prior[i];
    }
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
    q->factored = q->factored && factor(L, P, ROUNDING, scratch, scratch + P);
    if (q->factored) {
        double total = 0.0;
        for (int64_t i = 0; i < P; i++) { /* row i of L⁻¹ */
            double *restrict row = inverse + i * P;
            for (int64_t j = 0; j < P; j++) row[j] = 0.0;
            for (int64_t k = 0; k < i; k++)
                for (int64_t j = 0; j <= k; j++) row[j] -= L[i * P + k] * inverse[k * P + j];
            row[i] = 1.0;
            for (int64_t j = 0; j <= i; j++) row[j] /= L[i * P + i];
        }
        for (int64_t j = 0; j < P; j++) scratch[j] = 1.0 / (d[j] * d[j]);
        for (int64_t i = 0; i < P; i++)
            for (int64_t j = 0; j <= i; j++) total += inverse[i * P + j] * inverse[i * P + j] * scratch[j];
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
    table rows;
    if (copy_table(q, &rows)) return 1;
    if (!arena_make(&memory, 3 * line(8 * P) + line(16 * P))) {
        free(rows.memory);
        return 1;
    }
    double *step = arena_take(&memory, 16 * P), *from = arena_take(&memory, 8 * P), *diagonal = arena_take(&memory, 8 * P);
    double *column = arena_take(&memory, 8 * P);
    double before = 0.0, slope = 0.0;
    int alike = 0, rough = q->rough && !q->known;
    p->max_norm2 = 0.0;
    q->done = q->evaluations = q->ended = 0;
    while (!q->ended) {
        if (!q->known) evaluate(q, &rows, rough, 0);
        const double value = objective(q), last = slope;
        q->known = 0;
        if (!is_finite(value) || (q->done && value > before - q->armijo * slope + q->rounding * __builtin_fabs(before))) {
            for (int64_t j = 0; j < P && q->done; j++) q->w[j] = from[j]; /* too long a step: back to where it began */
            q->done -= q->done > 0;
            break;
        }
        if (!factor(p->H, P, rough ? ROUGH_ROUNDING : ROUNDING, diagonal, column)) {
            if (!rough) break;
            rough = q->rough = 0;
            evaluate(q, &rows, rough, 0);
            if (!factor(p->H, P, ROUNDING, diagonal, column)) break;
        }
        solve(p->H, P, p->g, step);
        double norm2 = slope = 0.0;
        for (int64_t j = 0; j < P; j++) norm2 += p->g[j] * p->g[j], slope += p->g[j] * step[j];
        if (!is_finite(norm2) || !(slope > q->small * q->small)) break;
        double *trace = q->trace + 4 * q->done++;
        trace[0] = before = value, trace[1] = p->value, trace[2] = __builtin_sqrt(norm2), trace[3] = __builtin_sqrt(slope);
        for (int64_t j = 0; j < P; j++) from[j] = q->w[j], q->w[j] -= step[j];
        rough = q->rough && !(slope < ROUGH_RATIO * ROUGH_RATIO * last);
        alike = slope > q->least * last && slope < q->most * last ? alike + 1 : 0;
        const int near = last > 0.0 && trace[3] / last * slope <= q->small; /* decrements square from step to step */
        q->ended = near || (alike > 2 && q->done > 4) || q->done == q->steps;
    }
    int status = 0;
    if (q->ended) {
        evaluate(q, &rows, 0, q->inverse != NULL);
        objective(q);
        for (int64_t i = 0; i < P; i++)
            for (int64_t j = 0; j < i; j++) p->H[j * P + i] = p->H[i * P + j];
        status = factor_last(q, step);
    }
    free(memory.memory);
    free(rows.memory);
    return status;
}
