/* Sums over dense rows: loss, gradient, Hessian, Hessian product, moments; two classes and more, any strides. */

#include <string.h>

#include "dense.h"
#include "real_rows.h"
#if HAS_HALF
#define REAL float
#define KIND half
#define STORED_HALF 1
#include "rows.h"
#undef KIND
#undef STORED_HALF
#undef REAL
#endif

/* Signs of the classes and weights of a tile's rows, `ld` each. */
typedef struct {
    double *sign, *s;
} targets;

/* Prepare the rows of a tile for `logistic_losses`: offsets are added; rows beyond the tile get no loss. */
static void tile_targets(const dense_problem *p, tile_range at, int64_t ld, double *a, targets to) {
    const int64_t n = at.n;
    int64_t i = 0;
    for (; i + LANES_double <= n; i += LANES_double) store_double(to.sign + i, 2.0 * codes(p->t + at.seen + i) - 1.0);
    for (; i < n; i++) to.sign[i] = 2.0 * p->t[at.seen + i] - 1.0;
    for (i = 0; i < n; i++) a[i] += p->b[0];
    if (p->offset)
        for (i = 0; i < n; i++) a[i] += p->offset[at.seen + i];
    if (p->s)
        for (i = 0; i < n; i++) to.s[i] = p->s[at.seen + i];
    for (i = n; i < ld; i++) {
        to.sign[i] = 1.0;
        to.s[i] = 0.0;
        a[i] = 1e300;
    }
}

static void tile_longest(dense_problem *p, tile_range at, const double *norms2) {
    for (int64_t i = 0; i < at.n; i++)
        if (norms2[i] > p->max_norm2 && (!p->s || p->s[at.seen + i] > 0.0)) p->max_norm2 = norms2[i];
}

/* What rows in half precision are made with: center, inverse and its root, in groups. */
typedef struct {
    double *center, *inverse, *root;
} halves;

static void halves_groups(const dense_problem *p, halves *rows) {
    group_double(p->center, p->m, 0, rows->center);
    group_double(p->inverse, p->m, 0, rows->root);
    group_double(p->inverse, p->m, 1, rows->inverse);
    for (int64_t k = 0; k < round_up(p->m, LANES_double); k++) rows->root[k] = __builtin_sqrt(rows->root[k]);
}

#define REAL double
#define KIND double
#define STORED_HALF 0
#include "logistic_rows.h"
#undef KIND
#define KIND float
#include "logistic_rows.h"
#undef KIND
#undef STORED_HALF
#undef REAL
#if HAS_HALF
#define REAL float
#define KIND half
#define STORED_HALF 1
#include "logistic_rows.h"
#undef KIND
#undef STORED_HALF
#undef REAL
#endif

/* Rows of a tile that lies column by column, and the distance of its columns: an odd number of cache lines, or columns
   would compete for the same places of the cache. */
INLINE int64_t columns_tile(const dense_problem *p) {
    const int64_t rows = most(1, least(p->n, p->run)), room = p->m < 64 ? 256 : most(128, least(512, 81920 / p->m));
    const int64_t tiles = (rows + room - 1) / room; /* of equal size: sums take as long for the rows that are missing */
    return round_up((rows + tiles - 1) / tiles, 16);
}
INLINE int64_t columns_apart(int64_t rows, int64_t size) {
    int64_t lines = (rows * size + 63) / 64;
    return (lines | 1) * 64 / size;
}

/* The centred rows of a tile, column by column, after a column of ones. */
static void pack_tile(const dense_problem *p, tile_range at, double *z, int64_t ld) {
    int64_t from = at.first * p->row;
    for (int64_t i = 0; i < ld; i++) z[i] = i < at.n ? 1.0 : 0.0;
    if (p->kind == STORED_AS_DOUBLE)
        pack_double((const double *)p->x + from, p->row, p->column, at.n, p->m, p->center, z + ld, ld);
    else
        pack_float((const float *)p->x + from, p->row, p->column, at.n, p->m, p->center, z + ld, ld);
}

static void pack_norms(dense_problem *p, tile_range at, const double *z, int64_t ld, double *q) {
    EACH(i) {
        vector_double sum = {0};
        for (int64_t j = 0; j < p->m; j++) {
            vector_double x = AT(z + (j + 1) * ld + i);
            sum += x * x * p->inverse[j];
        }
        store_double(q + i, sum);
    }
    tile_longest(p, at, q);
}

/* H (rows `apart`) += Z diag(h) Zᵀ, on and below the diagonal; `hz` is scratch for LEFT columns. */
static void add_gram(const double *z, int64_t ld, int64_t P, const double *h, double *hz, double *H, int64_t apart) {
    for (int64_t i = 0; i < P; i += LEFT) {
        int64_t left = least(LEFT, P - i);
        for (int64_t l = 0; l < left; l++) EACH(k) store_double(hz + l * ld + k, AT(h + k) * AT(z + (i + l) * ld + k));
        dots_double(hz, left, z, i + left, ld, ld, H + i * apart, apart);
    }
}

/* The rows sqrt(h) (1, z) of a tile: from the rows themselves where these lie one after the other. */
static void write_root_rows(const dense_problem *p, tile_range at, const double *z, int64_t ld, const double *h) {
    const int64_t P = p->m + 1;
    const int in_place = p->kind == STORED_AS_DOUBLE && p->column == 1;
    for (int64_t i = 0; i < at.n; i++) {
        const double root = __builtin_sqrt(h[i]), *x = (const double *)p->x + (at.first + i) * p->row;
        double *to = p->root_rows + (at.seen + i) * P;
        to[0] = root;
        if (in_place)
            for (int64_t j = 0; j < p->m; j++) to[j + 1] = root * (x[j] - p->center[j]);
        else
            for (int64_t j = 1; j < P; j++) to[j] = root * z[j * ld + i];
    }
}

/* Two classes: everything but the value and gradient of long rows. */
static int logistic_columns(dense_problem *p) {
    const int64_t P = p->m + 1, step = columns_tile(p), ld = columns_apart(step, 8);
    const double zero = 0.0;
    arena memory;
    if (!arena_make(&memory, (P + LEFT + 6) * line(8 * ld))) return 1;
    double *z = arena_take(&memory, P * line(8 * ld)), *hz = arena_take(&memory, LEFT * line(8 * ld));
    double *a = arena_take(&memory, 8 * ld), *r = arena_take(&memory, 8 * ld), *h = arena_take(&memory, 8 * ld);
    double *da = arena_take(&memory, 8 * ld);
    targets tile = {arena_take(&memory, 8 * ld), arena_take(&memory, 8 * ld)};
    for (tile_range at = first_tile(p, step), next; at.first < p->n; at = next) {
        next = next_tile(p, at, step);
        pack_tile(p, at, z, ld);
        if (p->inverse) pack_norms(p, at, z, ld, a);
        if (p->t) {
            combine_double(z + ld, ld, p->m, p->W, &zero, 1, a);
            tile_targets(p, at, ld, a, tile);
            double value = p->s ? __builtin_nan("") : logistic_residuals(a, tile.sign, at.n, ld, r, h);
            if (value != value) value = logistic_losses(a, tile.sign, p->s ? tile.s : NULL, ld, r, h);
            p->value += value;
        } else
            for (int64_t i = 0; i < ld; i++) r[i] = h[i] = i < at.n ? (p->s ? p->s[at.seen + i] : 1.0) : 0.0;
        if (p->V) {
            combine_double(z + ld, ld, p->m, p->V, p->v, 1, da);
            for (int64_t i = 0; i < ld; i++) r[i] = h[i] * da[i];
        } else if (p->v)
            for (int64_t i = 0; i < ld; i++) r[i] = h[i] * p->v[0];
        for (int64_t i = at.n; i < ld; i++) r[i] = h[i] = 0.0;
        dots_double(r, 1, z, P, ld, ld, p->g, P);
        if (p->H) add_gram(z, ld, P, h, hz, p->H, P);
        if (p->root_rows) write_root_rows(p, at, z, ld, h);
    }
    if (p->H)
        for (int64_t i = 0; i < P; i++)
            for (int64_t j = 0; j < i; j++) p->H[j * P + i] = p->H[i * P + j];
    free(memory.memory);
    return 0;
}

/* Add the Hessian of a tile: blocks of pairs of classes k <= j, the lower half of each. */
static void add_softmax_gram(
    const double *z, int64_t ld, int64_t P, int64_t C, const double *Y, const double *D, const double *s, int64_t n, double *h,
    double *hz, double *H
) {
    for (int64_t j = 0; j < C; j++)
        for (int64_t k = 0; k <= j; k++) {
            EACH(i) {
                vector_double value = j == k ? AT(D + k * ld + i) : -AT(Y + j * ld + i) * AT(Y + k * ld + i);
                store_double(h + i, s ? value * AT(s + i) : value);
            }
            for (int64_t i = n; i < ld; i++) h[i] = 0.0;
            add_gram(z, ld, P, h, hz, H + j * P * C * P + k * P, C * P);
        }
}

/* Fill a Hessian of C classes from the lower halves of its blocks k <= j. */
static void mirror(double *H, int64_t C, int64_t P) {
    const int64_t size = C * P;
    for (int64_t j = 0; j < C; j++)
        for (int64_t k = 0; k <= j; k++)
            for (int64_t a = 0; a < P; a++)
                for (int64_t b = 0; b <= a; b++) {
                    double value = H[(j * P + a) * size + k * P + b];
                    H[(j * P + b) * size + k * P + a] = value;
                    H[(k * P + a) * size + j * P + b] = H[(k * P + b) * size + j * P + a] = value;
                }
}

/* Several classes. */
static int softmax_columns(dense_problem *p) {
    const int64_t C = p->C, P = p->m + 1, step = columns_tile(p), ld = columns_apart(step, 8), column = line(8 * ld);
    arena memory;
    if (!arena_make(&memory, (P + LEFT + 3 * C + 9) * column + 3 * line(8 * round_up(p->m, LANES_double)))) return 1;
    double *z = arena_take(&memory, P * column), *hz = arena_take(&memory, LEFT * column), *A = arena_take(&memory, C * column);
    double *D = arena_take(&memory, C * column), *dA = arena_take(&memory, C * column), *s = arena_take(&memory, column);
    double *h = arena_take(&memory, column);
    softmax_scratch w = {
        arena_take(&memory, column), arena_take(&memory, column), arena_take(&memory, column), arena_take(&memory, column),
        arena_take(&memory, column), arena_take(&memory, column)};
#if HAS_HALF
    const int64_t wide = 8 * round_up(p->m, LANES_double);
    halves rows_to = {arena_take(&memory, wide), arena_take(&memory, wide), arena_take(&memory, wide)};
    if (p->half_rows) halves_groups(p, &rows_to);
#endif
    for (tile_range at = first_tile(p, step), next; at.first < p->n; at = next) {
        next = next_tile(p, at, step);
        const double *weights = p->s ? s : NULL;
        pack_tile(p, at, z, ld);
        if (p->inverse && !p->half_rows) pack_norms(p, at, z, ld, h);
#if HAS_HALF
        if (p->half_rows) {
            half *to = p->half_rows + at.first * p->m;
            double norm2 = p->kind == STORED_AS_DOUBLE
                ? halve_double((const double *)p->x + at.first * p->m, p->m, at.n, rows_to.center, rows_to.inverse, rows_to.root, to)
                : halve_float((const float *)p->x + at.first * p->m, p->m, at.n, rows_to.center, rows_to.inverse, rows_to.root, to);
            p->max_norm2 = norm2 > p->max_norm2 ? norm2 : p->max_norm2;
        }
#endif
        combine_double(z + ld, ld, p->m, p->W, p->b, C, A);
        if (p->offset)
            for (int64_t i = 0; i < at.n; i++)
                for (int64_t k = 0; k < C; k++) A[k * ld + i] += p->offset[(at.seen + i) * C + k];
        for (int64_t i = 0; i < ld; i++) s[i] = p->s && i < at.n ? p->s[at.seen + i] : 0.0;
        p->value += softmax_losses(A, ld, C, p->t + at.seen, weights, at.n, p->H ? D : NULL, w);
        if (p->V) {
            combine_double(z + ld, ld, p->m, p->V, p->v, C, dA);
            product_residuals(A, dA, ld, C, weights, at.n, w);
            dots_double(dA, C, z, P, ld, ld, p->g, P);
            continue;
        }
        if (p->H) add_softmax_gram(z, ld, P, C, A, D, weights, at.n, h, hz, p->H);
        softmax_residuals(A, ld, C, p->t + at.seen, weights, at.n, w);
        dots_double(A, C, z, P, ld, ld, p->g, P);
    }
    if (p->H) mirror(p->H, C, P);
    free(memory.memory);
    return 0;
}

enum { MODELS = 32 }; /* models whose activations are there at a time */

/* Models next to each other with the columns that have a weight in one of them, and these weights. */
typedef struct {
    int64_t first, count, used;
    int32_t *which;
    double *W;
} model_group;

static int64_t group_models(const dense_problem *p, model_group *groups, int32_t *which, double *W) {
    int64_t found = 0;
    for (int64_t c = 0, next; c < p->C; c = next, found++) {
        next = c + LEFT <= p->C ? c + LEFT : c + 1;
        model_group *group = groups + found;
        *group = (model_group){c, next - c, 0, which + found * p->m, W + c * p->m};
        for (int64_t j = 0; j < p->m; j++) {
            int any = 0;
            for (int64_t k = c; k < next; k++) any |= p->W[k * p->m + j] != 0.0;
            if (any) group->which[group->used++] = (int32_t)j;
        }
        for (int64_t k = 0; k < group->count; k++)
            for (int64_t j = 0; j < group->used; j++)
                group->W[k * group->used + j] = p->W[(c + k) * p->m + group->which[j]];
    }
    return found;
}

/* Hessians of models over some of their coordinates each: 0 is the intercept, j the column before j. */
typedef struct {
    const int64_t *first; /* C + 1: where the coordinates of a model begin */
    const int32_t *member;
    const int64_t *at; /* where its Hessian begins */
    double *H;
} model_hessians;

static int64_t most_members(const model_hessians *to, int64_t C) {
    int64_t found = 0;
    for (int64_t k = 0; to && k < C; k++) found = most(found, to->first[k + 1] - to->first[k]);
    return found;
}

/* Add the Hessian of model k of a tile; `some` and `hz` are scratch. */
static void add_model_gram(const model_hessians *to, int64_t k, const double *z, int64_t ld, const double *h, double *some, double *hz) {
    const int64_t from = to->first[k], count = to->first[k + 1] - from;
    for (int64_t j = 0; j < count; j++) memcpy(some + j * ld, z + to->member[from + j] * ld, (size_t)ld * sizeof(double));
    add_gram(some, ld, count, h, hz, to->H + to->at[k], count);
}

/* C models of two classes at once: add to the values of each, to g (or NULL), and to Hessians (or NULL). Rows in single or
   double precision. */
EXPORT int NAME(models)(dense_problem *p, double *values, const model_hessians *to) {
    const int64_t C = p->C, P = p->m + 1, step = columns_tile(p), ld = columns_apart(step, 8), column = line(8 * ld);
    const int64_t room = least(C, MODELS), wide = most_members(to, C);
    arena memory;
    if (p->kind == STORED_AS_HALF) return 2;
    if (!arena_make(&memory, (P + 2 * room + wide + LEFT + 3) * column + line(C * sizeof(model_group)) + 2 * line(8 * C * p->m)))
        return 1;
    model_group *groups = arena_take(&memory, C * sizeof(model_group));
    int32_t *which = arena_take(&memory, 4 * C * p->m);
    const int64_t count = group_models(p, groups, which, arena_take(&memory, 8 * C * p->m));
    double *z = arena_take(&memory, P * column), *A = arena_take(&memory, room * column), *R = arena_take(&memory, room * column);
    double *sign = arena_take(&memory, column), *s = arena_take(&memory, column), *h = arena_take(&memory, column);
    double *some = arena_take(&memory, wide * column), *hz = arena_take(&memory, LEFT * column);
    for (tile_range at = first_tile(p, step), next; at.first < p->n; at = next) {
        next = next_tile(p, at, step);
        pack_tile(p, at, z, ld);
        for (int64_t i = 0; i < ld; i++) {
            sign[i] = i < at.n && p->t[at.seen + i] != 1 ? -1.0 : 1.0;
            s[i] = i < at.n && p->s ? p->s[at.seen + i] : 0.0;
        }
        const model_group *group = groups;
        for (int64_t from = 0, end; from < C; from = end) { /* activations and residuals of some models fit into the cache */
            end = least(C, from + MODELS);
            for (; group < groups + count && group->first < end; group++)
                if (group->count == LEFT)
                    combine_rows_double(
                        z + ld, ld, group->used, group->which, group->W, p->b + group->first, LEFT, A + (group->first - from) * ld);
                else
                    combine_rows_double(
                        z + ld, ld, group->used, group->which, group->W, p->b + group->first, 1, A + (group->first - from) * ld);
            for (int64_t k = from; k < end; k++) {
                double *a = A + (k - from) * ld, *r = R + (k - from) * ld;
                if (p->offset)
                    for (int64_t i = 0; i < at.n; i++) a[i] += p->offset[at.seen + i];
                for (int64_t i = at.n; i < ld; i++) a[i] = 1e300;
                double value = p->s ? __builtin_nan("") : logistic_residuals(a, sign, at.n, ld, r, to ? h : NULL);
                if (value != value) value = logistic_losses(a, sign, p->s ? s : NULL, ld, r, h);
                values[k] += value;
                for (int64_t i = at.n; i < ld; i++) r[i] = h[i] = 0.0;
                if (to) add_model_gram(to, k, z, ld, h, some, hz);
            }
            if (p->g) dots_double(R, end - from, z, P, ld, ld, p->g + from * P, P);
        }
    }
    for (int64_t k = 0; to && k < C; k++) {
        const int64_t n = to->first[k + 1] - to->first[k];
        double *H = to->H + to->at[k];
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++) H[j * n + i] = H[i * n + j];
    }
    free(memory.memory);
    return 0;
}

#if HAS_HALF
/* Several classes, rows of half precision that are centred and of weight 1, in single precision. */
static int softmax_half(dense_problem *p) {
    const int64_t C = p->C, m = p->m, step = columns_tile(p), ld = columns_apart(step, 4), column = line(4 * ld);
    arena memory;
    if (!arena_make(&memory, (m + 1 + C + 2) * column)) return 1;
    float *z = arena_take(&memory, (m + 1) * column), *A = arena_take(&memory, C * column);
    float *top = arena_take(&memory, column), *total = arena_take(&memory, column);
    for (tile_range at = first_tile(p, step), next; at.first < p->n; at = next) {
        next = next_tile(p, at, step);
        for (int64_t i = 0; i < ld; i++) z[i] = i < at.n ? 1.0f : 0.0f;
        pack_half((const half *)p->x + at.first * p->row, p->row, p->column, at.n, m, p->center, z + ld, ld);
        combine_float(z + ld, ld, m, p->W, p->b, C, A);
        p->value += softmax_single(A, ld, C, p->t + at.seen, at.n, top, total);
        dots_float(A, C, z, m + 1, ld, ld, p->g, m + 1);
    }
    free(memory.memory);
    return 0;
}
#endif

/* Whether this level reads and writes half precision. */
EXPORT int NAME(has_half)(void) { return HAS_HALF; }

/* Add to g and H; set value and max_norm2. Returns 0, 1 if memory is short, 2 if this level cannot read such rows. */
EXPORT int NAME(dense)(dense_problem *p) {
    p->value = p->max_norm2 = 0.0;
    const int whole_rows = p->column == 1 && p->row == p->m, plain = !p->H && (!p->V || p->C == 1) && !p->root_rows && p->t;
    if (p->kind == STORED_AS_HALF) {
#if HAS_HALF
        if (p->C == 1 && plain && whole_rows && p->m >= LANES_float) return logistic_rows_half(p);
        if (p->C > 1 && plain && !p->s && !p->offset && !p->inverse) return softmax_half(p);
#endif
        return 2;
    }
    if (p->half_rows && !(HAS_HALF && whole_rows && p->m >= LANES_double && p->run == p->apart)) return 2;
    if (p->C > 1) return softmax_columns(p);
    if (plain && whole_rows && p->m >= LANES_double)
        return p->kind == STORED_AS_DOUBLE ? logistic_rows_double(p) : logistic_rows_float(p);
    return logistic_columns(p);
}
