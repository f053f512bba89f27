/* L-BFGS on dense rows of two classes or more, in one call; preconditioned by independent columns, and where these are slow
   by Hessians in single precision.

   The rules are those of solvers/lbfgs.py and solvers/line_search.py. What needs judgement is left to the caller, who finds
   the last point that was accepted: a preconditioner that misleads, sums that are not finite, a search that stalls.

   Rows come in slices, whose sums are added in their order. Other threads may take units of the work by team_help: helpers
   take the last ones, so that their caches hold the same rows in every pass. Who takes which changes no bit of a result. */

#include "dense.h"
#include "real_rows.h"
#include "team.h"

#define TILE 512  /* rows of a tile, at most */
#define COPIED 64 /* rows that are copied at a time */
#define BLOCK 16  /* rows of a Hessian that are a unit of work */
#define REAL double
#include "gram.h"
#undef REAL
#define REAL float
#include "gram.h"
#undef REAL

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
    dense_problem *parts;
    int64_t failed;
    int64_t hessians, keeps;        /* how many Hessians may become the preconditioner; whether H is wanted */
    double cost, *H;                /* of such a Hessian, in passes; P x P, or NULL: that at the end, of two classes */
    int64_t task;                   /* what a unit is */
    struct second_order *second;
    team team;
} lbfgs_problem;

#define RATE_STEPS 2    /* steps by which progress is judged, at least, */
#define HESSIAN_STEPS 3 /* and those that follow a Hessian, at least, */
#define CLASSES_STEPS 60 /* or that of several classes */

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

#include "second_order.h"

enum { SUM, COPY, WEIGH, GRAM, COLUMN, COPY_DOUBLE, WEIGH_DOUBLE, GRAM_DOUBLE };

/* Sum the slice k. */
static void sum_slice(lbfgs_problem *q, int64_t k) {
    dense_problem *p = q->parts + k;
    for (int64_t i = 0; i < p->C * (p->m + 1); i++) p->g[i] = 0.0;
    if (NAME(dense)(p)) __atomic_store_n(&q->failed, 1, __ATOMIC_RELAXED);
}

/* Do the unit k of the task. */
static void work(const void *job, int64_t k) {
    lbfgs_problem *q = (lbfgs_problem *)job;
    second_order *s = q->second;
    switch (q->task) {
        case SUM: sum_slice(q, k); break;
        case COPY: copy_tile_float(q->rows, q->unit, &s->rough, k); break;
        case WEIGH: weigh_tile_float(q->rows, &s->rough, s->w, k); break;
        case GRAM: gram_block_float(&s->rough, k * BLOCK, s->G, s->rough.P); break;
        case COLUMN: factor_rows(s, s->column + NB + k * BLOCK); break;
        case COPY_DOUBLE: copy_tile_double(q->rows, q->unit, &s->exact, k); break;
        case WEIGH_DOUBLE: weigh_tile_double(q->rows, &s->exact, s->w, k); break;
        case GRAM_DOUBLE: gram_block_double(&s->exact, k * BLOCK, q->H, s->exact.P); break;
    }
}

/* Do all units of a task, with the others. */
static void share(lbfgs_problem *q, int64_t task, int64_t units) {
    q->task = task;
    team_run(&q->team, work, q, units);
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
    share(q, SUM, q->slices);
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
    double *y = q->vectors ? scratch : x;
    if (q->vectors) mix(q->vectors, 1, b, C, P, y);
    else
        for (int64_t i = 0; i < P; i++) y[i] = b[i];
    if (q->second && q->second->factored)
        for (int64_t c = 0; c < C; c++) solve_rough(q->second, c, y + c * P);
    else
        for (int64_t i = 0; i < C * P; i++) y[i] /= q->diagonal[i];
    if (q->vectors) mix(q->vectors, 0, scratch, C, P, x);
}

/* Make the Hessian at w, in single precision, the preconditioner; of several classes as if the curvature between them were
   the same in all rows. Returns whether it has a factor. */
static int precondition(lbfgs_problem *q) {
    const dense_problem *p = q->rows;
    const int64_t C = p->C, P = p->m + 1, blocks = (P + BLOCK - 1) / BLOCK;
    if (!q->second && !(q->second = second_order_make(p))) return 0;
    second_order *s = q->second;
    if (!s->copied) share(q, COPY, s->rough.tiles);
    s->copied = 1, s->factored = 0, s->w = q->w;
    share(q, WEIGH, s->rough.tiles);
    share(q, GRAM, blocks);
    q->evaluations++;
    for (int64_t c = 0; c < C; c++) {
        s->L = s->factors + c * P * s->apart;
        factor_begin(s, C > 1 ? (q->diagonal[c * P + P - 1] - q->prior[P - 1]) / s->G[0] : 1.0, q->prior, q->free);
        for (s->column = 0; s->column < P; s->column += NB) {
            if (!factor_diagonal(s)) return 0;
            if (s->column + NB < P) share(q, COLUMN, (P - s->column - NB + BLOCK - 1) / BLOCK);
        }
    }
    return s->factored = 1;
}

/* The Hessian at w in H, with the prior added: two classes. Returns 0, 1 if memory is short. */
static int last_hessian(lbfgs_problem *q) {
    const dense_problem *p = q->rows;
    const int64_t P = p->m + 1;
    double *H = q->H;
    arena memory;
    second_order here = {.exact = cut_tiles_double(p, TILE), .w = q->w}, *before = q->second;
    if (!arena_make(&memory, line(tiles_bytes_double(&here.exact)) + line(8 * here.exact.tiles * here.exact.ld))) return 1;
    here.exact.z = arena_take(&memory, tiles_bytes_double(&here.exact));
    here.exact.h = arena_take(&memory, 8 * here.exact.tiles * here.exact.ld);
    q->second = &here;
    share(q, COPY_DOUBLE, here.exact.tiles);
    share(q, WEIGH_DOUBLE, here.exact.tiles);
    share(q, GRAM_DOUBLE, (P + BLOCK - 1) / BLOCK);
    q->evaluations++;
    for (int64_t i = 0; i < P; i++) {
        H[i * P + i] += q->prior[i];
        for (int64_t j = 0; j < i; j++) H[j * P + i] = H[i * P + j];
    }
    q->second = before;
    free(memory.memory);
    return 0;
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

/* Whether a Hessian is worth its cost: more steps would be left at the rate of the last ones. */
static int is_slow(const lbfgs_problem *q, int64_t since) {
    const double *d = q->distances + q->points - 1;
    const int64_t window = most(RATE_STEPS, since / 3);
    const double rate = __builtin_log(d[-window] / d[0]) / (double)window;
    const double worth = q->cost + (double)(q->rows->C > 1 ? CLASSES_STEPS : HESSIAN_STEPS);
    return !(rate * worth > __builtin_log(d[0]));
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
    if (kept->count && (q->T || !q->second || !q->second->factored)) { /* a Hessian of two classes has its scale */
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
    const int64_t first = q->rows->C > 1 ? q->few : HESSIAN_STEPS;
    int64_t since = 0, wait = most(first, (int64_t)(q->cost / 3.0)); /* steps so far, and before they are judged */
    double halvings = 0.0, step = 0.0, value = evaluate(q, q->w, g, scratch), loss = q->rows->value;
    for (int64_t k = 0; k < q->slices; k++) q->parts[k].inverse = NULL; /* the longest row is known now */
    for (;;) {
        const double norm2 = dot(g, g, size);
        double *trace = q->trace + 5 * q->points;
        q->value = value;
        if (!is_finite(value) || !is_finite(norm2)) return;
        trace[0] = value, trace[1] = loss, trace[2] = __builtin_sqrt(norm2), trace[3] = step, trace[4] = (double)q->evaluations;
        q->distances[q->points++] = distance(q, g, value, x, scratch);
        if (q->distances[q->points - 1] <= 1.0) return;
        int failed = halvings > q->halvings;
        for (;;) {
            if (q->hessians && (failed || (since >= wait && is_slow(q, since)))) {
                if (!precondition(q)) q->hessians = 1;
                q->hessians--, kept->count = since = 0, wait = RATE_STEPS, halvings = 0.0;
            } else if (failed || (!q->hessians && ends(q)))
                return;
            direction(q, kept, g, p, x, scratch);
            const double slope = dot(p, g, size), noise = q->rounding * __builtin_fabs(value);
            double next = __builtin_nan("");
            for (step = 1.0; is_finite(slope) && step > q->smallest; step *= 0.5, halvings += 1.0) {
                for (int64_t i = 0; i < size; i++) f[i] = q->w[i] - step * p[i];
                next = evaluate(q, f, h, scratch);
                if (is_finite(next) && next <= value - q->armijo * step * slope + noise) break;
            }
            if (q->failed) return;
            failed = !(is_finite(slope) && step > q->smallest);
            if (!failed) {
                keep_pair(q, kept, q->w, f, g, h);
                value = next, loss = q->rows->value;
                break;
            }
            q->rows->value = loss;
        }
        since++;
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
    q->second = NULL;
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
        if (q->second) free(q->second->memory);
        q->second = NULL;
        if (!status && q->keeps && q->points && q->distances[q->points - 1] <= 1.0) status = last_hessian(q);
        else q->keeps = 0;
    }
    __atomic_store_n(&q->team.turn, TEAM_ENDED, __ATOMIC_RELEASE);
    free(memory.memory);
    return status;
}
