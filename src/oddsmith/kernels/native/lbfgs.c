/* L-BFGS on dense rows of two classes or more, preconditioned by independent columns, in one call.

   The rules are those of solvers/lbfgs.py and solvers/line_search.py. What needs judgement is left to the caller, who finds
   the last point that was accepted: a preconditioner that misleads, sums that are not finite, a search that stalls.

   Rows come in slices, whose sums are added in their order. Other threads may call lbfgs_help to sum some of them: a pass
   is a turn, and whoever takes a slice of it counts it in the same number. */

#include "dense.h"
#if !defined(_WIN32)
#include <sched.h>
#endif

int NAME(dense)(dense_problem *p);

typedef struct {
    dense_problem *rows;            /* W, b, inverse and g are those of all slices */
    int64_t slices;                 /* at most 256 */
    const double *T;                /* C x C contrasts against class 0, or NULL */
    const double *unit, *prior;     /* P each: units of the weights, precisions of the prior */
    const double *free;             /* P, or NULL: 1 for columns that may move, 0 for others */
    const double *mean;             /* C x P: the prior's */
    const double *vectors;          /* C x C, or NULL: the preconditioner is V diag(diagonal) Vᵀ in each column */
    const double *diagonal;         /* C x P */
    const double *measure;          /* P, or NULL: weights of squared gradients; without them, the preconditioner's norm */
    double *w, *trace;              /* C x P: the start, and the end; five numbers for each point */
    double *distances;              /* one for each point: 1 is the end */
    int64_t memory, steps, few, relative; /* pairs; the most steps; points until progress is judged */
    double near, patience;          /* square of the distance 1, relative to the objective if asked for */
    double armijo, rounding, smallest, halvings;
    int64_t points, evaluations;    /* results, with the sums at the end in rows */
    double value;
    uint64_t turn;                  /* number of the pass, then the ends of the slices that nobody took, 16 bits each */
    int64_t left;                   /* slices of this pass that are not summed yet */
    dense_problem *parts;
    int64_t failed;
} lbfgs_problem;

#define ENDED (~(uint64_t)0)
#define PAUSES 2000 /* before a thread that waits lets others have its core */

INLINE void wait_a_little(int *waited) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
#if !defined(_WIN32)
    if (++*waited > PAUSES) sched_yield();
#endif
}

static double dot(const double *x, const double *y, int64_t n) {
    vector_double sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES_double <= n; i += 4 * LANES_double)
        for (int k = 0; k < 4; k++) sum[k] += AT(x + i + k * LANES_double) * AT(y + i + k * LANES_double);
    double total = sum_double((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < n; i++) total += x[i] * y[i];
    return total;
}

/* y += a x */
static void add(double a, const double *x, int64_t n, double *y) {
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* Y = A X, or Aᵀ X: a matrix between the classes times C x P. */
static void mix(const double *A, int transposed, const double *X, int64_t C, int64_t P, double *Y) {
    for (int64_t c = 0; c < C; c++) {
        for (int64_t j = 0; j < P; j++) Y[c * P + j] = 0.0;
        for (int64_t k = 0; k < C; k++) add(transposed ? A[k * C + c] : A[c * C + k], X + k * P, P, Y + c * P);
    }
}

/* Sum the slice k. */
static void sum_slice(lbfgs_problem *q, int64_t k) {
    dense_problem *p = q->parts + k;
    for (int64_t i = 0; i < p->C * (p->m + 1); i++) p->g[i] = 0.0;
    if (NAME(dense)(p)) __atomic_store_n(&q->failed, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&q->left, 1, __ATOMIC_RELEASE);
}

/* Take a slice that nobody has: the first one, or the last one for helpers, whose caches then hold the same rows in every
   pass. Returns its number, or -1. */
INLINE int64_t take_slice(lbfgs_problem *q, int helper) {
    uint64_t turn = __atomic_load_n(&q->turn, __ATOMIC_ACQUIRE);
    while (turn != ENDED && (turn >> 16 & 0xffff) < (turn & 0xffff)) {
        const uint64_t next = helper ? turn - 1 : turn + (1 << 16);
        const int64_t k = helper ? (int64_t)(next & 0xffff) : (int64_t)(turn >> 16 & 0xffff);
        if (__atomic_compare_exchange_n(&q->turn, &turn, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return k;
    }
    return -1;
}

/* Sum slices for another thread that runs lbfgs on the same problem, until that ends. */
EXPORT int NAME(lbfgs_help)(lbfgs_problem *q) {
    int waited = 0;
    while (__atomic_load_n(&q->turn, __ATOMIC_ACQUIRE) != ENDED) {
        const int64_t k = take_slice(q, 1);
        if (k >= 0) {
            sum_slice(q, k);
            waited = 0;
        } else
            wait_a_little(&waited);
    }
    return 0;
}

/* The rows in slices of whole groups of 32 rows, each with sums of its own. */
static void cut_slices(lbfgs_problem *q, double *sums) {
    const dense_problem *p = q->rows;
    const int64_t size = p->C * (p->m + 1);
    for (int64_t k = 0; k < q->slices; k++) {
        const int64_t first = p->n * k / q->slices / 32 * 32;
        const int64_t end = k + 1 < q->slices ? p->n * (k + 1) / q->slices / 32 * 32 : p->n;
        dense_problem *part = q->parts + k;
        *part = *p;
        part->x = (const char *)p->x + first * p->row * element(p);
        part->t = p->t + first;
        part->s = p->s ? p->s + first : NULL;
        part->offset = p->offset ? p->offset + first * p->C : NULL;
        part->n = part->run = part->apart = end - first;
        part->g = sums + k * size;
    }
}

/* Value and gradient at w, with the prior added. `scratch` has room for C x P. */
static double evaluate(lbfgs_problem *q, const double *w, double *g, double *scratch) {
    dense_problem *p = q->rows;
    const int64_t C = p->C, P = p->m + 1, size = C * P;
    double *W = (double *)p->W, *b = (double *)p->b;
    const double *x = w;
    if (q->T) mix(q->T, 0, w, C, P, scratch), x = scratch;
    for (int64_t c = 0; c < C; c++) {
        b[c] = x[c * P];
        for (int64_t j = 1; j < P; j++) W[c * p->m + j - 1] = x[c * P + j] / q->unit[j];
    }
    q->evaluations++;
    q->left = q->slices;
    __atomic_store_n(&q->turn, ((uint64_t)q->evaluations << 32) + (uint64_t)q->slices, __ATOMIC_RELEASE);
    for (int64_t k; (k = take_slice(q, 0)) >= 0;) sum_slice(q, k);
    for (int waited = 0; __atomic_load_n(&q->left, __ATOMIC_ACQUIRE) > 0;) wait_a_little(&waited);
    double *sums = q->T ? scratch : g, penalty = 0.0;
    p->value = 0.0;
    for (int64_t i = 0; i < size; i++) sums[i] = 0.0;
    for (const dense_problem *part = q->parts; part < q->parts + q->slices; part++) {
        p->value += part->value;
        p->max_norm2 = part->max_norm2 > p->max_norm2 ? part->max_norm2 : p->max_norm2;
        add(1.0, part->g, size, sums);
    }
    if (q->T) mix(q->T, 1, scratch, C, P, g);
    for (int64_t c = 0; c < C; c++)
        for (int64_t j = 0, i = c * P; j < P; j++, i++) {
            const double from = w[i] - q->mean[i];
            penalty += from * (q->prior[j] * from);
            g[i] = (g[i] / q->unit[j] + q->prior[j] * from) * (q->free ? q->free[j] : 1.0);
        }
    return p->value + 0.5 * penalty;
}

/* x = A⁻¹ b for the preconditioner A. */
static void solve(const lbfgs_problem *q, const double *b, double *x, double *scratch) {
    const int64_t C = q->rows->C, P = q->rows->m + 1;
    if (!q->vectors) {
        for (int64_t i = 0; i < C * P; i++) x[i] = b[i] / q->diagonal[i];
        return;
    }
    mix(q->vectors, 1, b, C, P, scratch);
    for (int64_t i = 0; i < C * P; i++) scratch[i] /= q->diagonal[i];
    mix(q->vectors, 0, scratch, C, P, x);
}

/* How far the end is: 1 there. */
static double distance(const lbfgs_problem *q, const double *g, double value, double *x, double *scratch) {
    const int64_t C = q->rows->C, P = q->rows->m + 1;
    double square = 0.0, size = __builtin_fabs(value);
    if (!q->measure) {
        solve(q, g, x, scratch);
        square = dot(g, x, C * P);
    } else
        for (int64_t c = 0; c < C; c++)
            for (int64_t j = 0; j < P; j++) square += g[c * P + j] * g[c * P + j] * q->measure[j];
    return __builtin_sqrt(square / (q->near * (q->relative && size > 1.0 ? size : 1.0)));
}

/* Whether the search ends at the last of `points`: the distance is at most 1, or falls too slowly. */
static int ends(const lbfgs_problem *q) {
    const double *d = q->distances;
    const int64_t n = q->points, window = most(q->few, n / 3);
    if (d[n - 1] <= 1.0 || n <= q->few) return d[n - 1] <= 1.0;
    double before = d[0], now;
    for (int64_t i = 0; i < n - window; i++) before = d[i] < before ? d[i] : before;
    now = before;
    for (int64_t i = n - window; i < n; i++) now = d[i] < now ? d[i] : now;
    return !(__builtin_log(before / now) * q->patience > __builtin_log(now) * (double)window);
}

/* The last pairs: steps, changes of the gradient, and the products of the two. */
typedef struct {
    double *dx, *dg, *curvature;
    int64_t first, count; /* the oldest, and how many */
} pairs;

INLINE int64_t pair_at(const lbfgs_problem *q, const pairs *kept, int64_t k) { return (kept->first + k) % q->memory; }

/* p = H⁻¹ g by the two-loop recursion. */
static void direction(const lbfgs_problem *q, const pairs *kept, const double *g, double *p, double *x, double *scratch) {
    const int64_t size = q->rows->C * (q->rows->m + 1);
    double alpha[64];
    for (int64_t i = 0; i < size; i++) x[i] = g[i];
    for (int64_t k = kept->count - 1; k >= 0; k--) {
        const int64_t at = pair_at(q, kept, k);
        alpha[k] = dot(kept->dx + at * size, x, size) / kept->curvature[at];
        add(-alpha[k], kept->dg + at * size, size, x);
    }
    solve(q, x, p, scratch);
    if (kept->count) {
        const int64_t at = pair_at(q, kept, kept->count - 1);
        solve(q, kept->dg + at * size, x, scratch);
        const double scale = kept->curvature[at] / dot(kept->dg + at * size, x, size);
        for (int64_t i = 0; i < size; i++) p[i] *= scale;
    }
    for (int64_t k = 0; k < kept->count; k++) {
        const int64_t at = pair_at(q, kept, k);
        add(alpha[k] - dot(kept->dg + at * size, p, size) / kept->curvature[at], kept->dx + at * size, size, p);
    }
}

/* Keep the pair of a step, if its curvature is positive. */
static void keep_pair(const lbfgs_problem *q, pairs *kept, const double *w, const double *f, const double *g, const double *h) {
    const int64_t size = q->rows->C * (q->rows->m + 1), full = kept->count == q->memory;
    const int64_t at = pair_at(q, kept, full ? 0 : kept->count); /* the oldest one makes room */
    double *dx = kept->dx + q->memory * size, *dg = kept->dg + q->memory * size;
    for (int64_t i = 0; i < size; i++) dx[i] = f[i] - w[i], dg[i] = h[i] - g[i];
    const double curvature = dot(dx, dg, size);
    if (!(curvature > 1e-12 * __builtin_sqrt(dot(dx, dx, size) * dot(dg, dg, size)))) return;
    for (int64_t i = 0; i < size; i++) kept->dx[at * size + i] = dx[i], kept->dg[at * size + i] = dg[i];
    kept->curvature[at] = curvature;
    if (full) kept->first = (kept->first + 1) % q->memory;
    else kept->count++;
}

/* Iterate from w until the distance is 1 or progress stalls. A point's trace: objective, loss of the rows, norm of the
   gradient, step to it, evaluations so far. */
static void iterate(lbfgs_problem *q, pairs *kept, double *g, double *h, double *f, double *p, double *x, double *scratch) {
    const int64_t size = q->rows->C * (q->rows->m + 1);
    double halvings = 0.0, step = 0.0, value = evaluate(q, q->w, g, scratch), loss = q->rows->value;
    for (int64_t k = 0; k < q->slices; k++) q->parts[k].inverse = NULL; /* the longest row is known now */
    for (;;) {
        const double norm2 = dot(g, g, size);
        double *trace = q->trace + 5 * q->points;
        q->value = value;
        if (!is_finite(value) || !is_finite(norm2)) return;
        trace[0] = value, trace[1] = loss, trace[2] = __builtin_sqrt(norm2), trace[3] = step, trace[4] = (double)q->evaluations;
        q->distances[q->points++] = distance(q, g, value, x, scratch);
        if (ends(q) || halvings > q->halvings) return;
        direction(q, kept, g, p, x, scratch);
        const double slope = dot(p, g, size), noise = q->rounding * __builtin_fabs(value);
        if (!is_finite(slope)) return;
        double next = __builtin_nan("");
        for (step = 1.0; step > q->smallest; step *= 0.5, halvings += 1.0) {
            for (int64_t i = 0; i < size; i++) f[i] = q->w[i] - step * p[i];
            next = evaluate(q, f, h, scratch);
            if (is_finite(next) && next <= value - q->armijo * step * slope + noise) break;
        }
        if (!(step > q->smallest) || q->failed) {
            q->rows->value = loss;
            return;
        }
        keep_pair(q, kept, q->w, f, g, h);
        value = next, loss = q->rows->value;
        for (int64_t i = 0; i < size; i++) q->w[i] = f[i], g[i] = h[i];
        q->value = value;
        if (q->points > q->steps) return; /* as solvers/lbfgs.py, which looks at the last point no more */
    }
}

/* Run L-BFGS; g of the rows becomes the gradient at the end. Returns 0, 1 if memory is short, 3 for too many pairs. */
EXPORT int NAME(lbfgs)(lbfgs_problem *q) {
    const int64_t size = q->rows->C * (q->rows->m + 1), kept_bytes = 8 * (q->memory + 1) * size;
    arena memory = {NULL, NULL, 0};
    int status = q->memory > 64 || q->memory < 1 || q->slices < 1 || q->slices > 256 ? 3 : 0;
    q->points = q->evaluations = q->failed = 0;
    q->rows->max_norm2 = 0.0;
    if (!status && !arena_make(&memory, 2 * line(kept_bytes) + line(8 * q->memory) + 5 * line(8 * size)
                               + line(8 * q->slices * size) + line(q->slices * (int64_t)sizeof(dense_problem))))
        status = 1;
    if (!status) {
        pairs kept = {arena_take(&memory, kept_bytes), arena_take(&memory, kept_bytes), arena_take(&memory, 8 * q->memory), 0, 0};
        double *h = arena_take(&memory, 8 * size), *f = arena_take(&memory, 8 * size), *p = arena_take(&memory, 8 * size);
        double *x = arena_take(&memory, 8 * size), *scratch = arena_take(&memory, 8 * size);
        double *sums = arena_take(&memory, 8 * q->slices * size);
        q->parts = arena_take(&memory, q->slices * (int64_t)sizeof(dense_problem));
        cut_slices(q, sums);
        iterate(q, &kept, q->rows->g, h, f, p, x, scratch);
        status = q->failed ? 1 : 0;
    }
    __atomic_store_n(&q->turn, ENDED, __ATOMIC_RELEASE);
    free(memory.memory);
    return status;
}
