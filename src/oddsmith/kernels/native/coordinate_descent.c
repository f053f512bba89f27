/* Coordinate descent on a quadratic function with a sparse penalty. */

#include <math.h>

#include "vector.h"

/* Minimise r'd + d'Hd / 2 + sum_b penalty_b |x_b| over x = x0 + d, block by block.

   Block b has the coordinates member[first[b]], ..., member[first[b + 1] - 1], and H is at most bound_b times the identity
   in it. r is the gradient of the quadratic function at x, and follows it. */
typedef struct {
    int64_t size, blocks, sweeps, stride, single; /* rows of H are so many numbers apart, in single precision or not */
    const void *H;
    const int64_t *first, *member;
    const double *penalty, *bound;
    double *x, *r;
    double tol; /* a sweep ends the descent in which no block gains more than this */
    int8_t *active;
    int64_t done;      /* sweeps made */
    double negligible; /* a coordinate that would gain less stays, unless it becomes zero */
} quadratic_problem;

INLINE void add_row(const quadratic_problem *q, int64_t j, double step) {
    const double *row = (const double *)q->H + j * q->stride;
    const float *low = (const float *)q->H + j * q->stride;
    if (q->single)
        for (int64_t k = 0; k < q->size; k++) q->r[k] += step * low[k];
    else
        for (int64_t k = 0; k < q->size; k++) q->r[k] += step * row[k];
}

/* Move one coordinate to its minimum; return twice what that gains, at most. */
static double move_coordinate(quadratic_problem *q, int64_t b) {
    const int64_t j = q->member[q->first[b]];
    const double h = q->bound[b], old = q->x[j], z = h * old - q->r[j], size = fabs(z) - q->penalty[b];
    const double new = size > 0.0 ? copysign(size, z) / h : 0.0, step = new - old;
    q->active[b] = new != 0.0;
    if (step == 0.0 || (h * step * step < q->negligible && (new != 0.0 || old == 0.0))) return 0.0;
    q->x[j] = new;
    add_row(q, j, step);
    return h * step * step;
}

/* Move the coordinates of a block towards their minimum: exactly so where H is the bound times the identity. */
static double move_block(quadratic_problem *q, int64_t b) {
    const int64_t *member = q->member + q->first[b], n = q->first[b + 1] - q->first[b];
    const double h = q->bound[b];
    double square = 0.0, gain = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double z = q->x[member[i]] - q->r[member[i]] / h;
        square += z * z;
    }
    const double norm = sqrt(square), shrink = norm * h > q->penalty[b] ? 1.0 - q->penalty[b] / (h * norm) : 0.0;
    q->active[b] = shrink != 0.0;
    double moved[64], *step = n <= 64 ? moved : malloc((size_t)n * sizeof(double));
    if (!step) return -1.0;
    for (int64_t i = 0; i < n; i++) {
        const double old = q->x[member[i]];
        q->x[member[i]] = shrink * (old - q->r[member[i]] / h);
        step[i] = q->x[member[i]] - old;
    }
    for (int64_t i = 0; i < n; i++)
        if (step[i] != 0.0) {
            gain += h * step[i] * step[i];
            add_row(q, member[i], step[i]);
        }
    if (step != moved) free(step);
    return gain;
}

static double sweep(quadratic_problem *q, int only_active) {
    double most = 0.0;
    for (int64_t b = 0; b < q->blocks; b++) {
        if ((only_active && !q->active[b]) || !(q->bound[b] > 0.0)) continue;
        const double gain = q->first[b + 1] - q->first[b] == 1 ? move_coordinate(q, b) : move_block(q, b);
        if (gain < 0.0) return gain;
        if (gain > most) most = gain;
    }
    q->done++;
    return most;
}

EXPORT int NAME(quadratic)(quadratic_problem *q) {
    q->done = 0;
    while (q->done < q->sweeps) {
        double gain = sweep(q, 0);
        if (gain < 0.0) return 1;
        if (gain <= q->tol) break;
        while (q->done < q->sweeps && gain > q->tol)
            if ((gain = sweep(q, 1)) < 0.0) return 1;
    }
    return 0;
}
