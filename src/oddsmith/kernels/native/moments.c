/* Sums by class over dense rows in one read: weights, totals, squares or products.

   Rows of weight 0 are skipped; the first row of a class becomes its base, which is subtracted from its rows. */

#include "vector.h"

#define REAL double
#include "tile.h"
#undef REAL

typedef struct {
    const void *x; /* n rows of m numbers; neighbours are `row` and `column` numbers apart */
    int64_t single, n, m, row, column;
    const int32_t *t; /* class codes, or NULL: one class */
    const double *s;  /* weights, or NULL */
    int64_t K, G;     /* classes, groups of classes */
    const int64_t *rank, *group; /* order of the classes, in which those of a group are neighbours; group of each */
    uint8_t *seen;
    double *base, *weight, *total;   /* K x m, K, K x m */
    double *squares, *products;      /* K x m or NULL; G x m x m or NULL */
} moments_problem;

INLINE double number(const moments_problem *p, int64_t i, int64_t j) {
    int64_t k = i * p->row + j * p->column;
    return p->single ? (double)((const float *)p->x)[k] : ((const double *)p->x)[k];
}

INLINE int64_t class_of(const moments_problem *p, int64_t i) { return p->t ? p->t[i] : 0; }

/* The base of a row's class, which the row becomes if it is the first one. */
INLINE const double *base_of(moments_problem *p, int64_t i, int64_t k) {
    double *base = p->base + k * p->m;
    if (!p->seen[k]) {
        p->seen[k] = 1;
        for (int64_t j = 0; j < p->m; j++) base[j] = number(p, i, j);
    }
    return base;
}

#define ROW_TILE 64
#define FLAT_COLUMNS 64 /* up to so many columns, the sums of LANES rows at a time stay in the first-level cache */

/* One class of rows that follow each other without weights: vectors run through LANES rows as one list of numbers. */
static int flat_diagonal(moments_problem *p) {
    const int64_t m = p->m, size = m * LANES_double, whole = p->n / LANES_double * LANES_double;
    const double *x = p->x, *base = base_of(p, 0, 0);
    arena memory;
    if (!arena_make(&memory, 3 * line(8 * size))) return 1;
    double *from = arena_take(&memory, 8 * size), *total = arena_take(&memory, 8 * size), *squares = arena_take(&memory, 8 * size);
    for (int64_t k = 0; k < size; k++) from[k] = base[k % m], total[k] = squares[k] = 0.0;
    for (int64_t i = 0; i < whole; i += LANES_double)
        for (int64_t k = 0; k < size; k += LANES_double) {
            vector_double z = load_double_double(x + i * m + k) - load_double_double(from + k);
            store_double(total + k, load_double_double(total + k) + z);
            store_double(squares + k, load_double_double(squares + k) + z * z);
        }
    for (int64_t k = 0; k < (p->n - whole) * m; k++) {
        const double z = x[whole * m + k] - from[k];
        total[k] += z;
        squares[k] += z * z;
    }
    p->weight[0] += (double)p->n;
    for (int64_t k = 0; k < size; k++) p->total[k % m] += total[k], p->squares[k % m] += squares[k];
    free(memory.memory);
    return 0;
}

/* The same for the columns of a matrix that are contiguous, one after another. */
static int column_diagonal(moments_problem *p) {
    const double *base = base_of(p, 0, 0);
    for (int64_t j = 0; j < p->m; j++) {
        const double *x = (const double *)p->x + j * p->column, from = base[j];
        vector_double total[2] = {{0}}, squares[2] = {{0}};
        int64_t i = 0;
        for (; i + 2 * LANES_double <= p->n; i += 2 * LANES_double)
            for (int k = 0; k < 2; k++) {
                const vector_double z = load_double_double(x + i + k * LANES_double) - from;
                total[k] += z;
                squares[k] += z * z;
            }
        p->total[j] += sum_double(total[0] + total[1]), p->squares[j] += sum_double(squares[0] + squares[1]);
        for (; i < p->n; i++) p->total[j] += x[i] - from, p->squares[j] += (x[i] - from) * (x[i] - from);
    }
    p->weight[0] += (double)p->n;
    return 0;
}

static int diagonal(moments_problem *p) {
    const int64_t m = p->m;
    if (p->K == 1 && !p->s && !p->single && p->row == 1 && p->n > 1) return column_diagonal(p);
    if (p->K == 1 && !p->s && !p->single && p->column == 1 && p->row == m && p->n > 0 && m <= FLAT_COLUMNS) return flat_diagonal(p);
    arena memory;
    if (!arena_make(&memory, line(8 * ROW_TILE * m))) return 1;
    double *rows = arena_take(&memory, 8 * ROW_TILE * m);
    for (int64_t first = 0; first < p->n; first += ROW_TILE) {
        const int64_t n = least(ROW_TILE, p->n - first);
        const int in_place = p->column == 1 && !p->single;
        for (int64_t j = 0; j < m && !in_place; j++)
            for (int64_t i = 0; i < n; i++) rows[i * m + j] = number(p, first + i, j);
        for (int64_t i = 0; i < n; i++) {
            const double w = p->s ? p->s[first + i] : 1.0;
            const double *x = in_place ? (const double *)p->x + (first + i) * p->row : rows + i * m;
            if (w == 0.0) continue;
            const int64_t k = class_of(p, first + i);
            const double *base = base_of(p, first + i, k);
            double *restrict total = p->total + k * m, *restrict squares = p->squares + k * m;
            p->weight[k] += w;
            for (int64_t j = 0; j < m; j++) {
                double z = x[j] - base[j];
                total[j] += w * z;
                squares[j] += w * z * z;
            }
        }
    }
    free(memory.memory);
    return 0;
}

/* Find the place of each row of a tile (-1: none), sorted by the rank of its class; ranks begin at edges, groups at
   multiples of the lanes. */
static void sort_tile(
    moments_problem *p, int64_t first, int64_t n, const int64_t *classes, int64_t *edges, int64_t *next, int64_t *place
) {
    for (int64_t c = 0; c < p->K; c++) next[c] = 0;
    for (int64_t i = 0; i < n; i++) {
        place[i] = -1;
        if (p->s && p->s[first + i] == 0.0) continue;
        const int64_t k = class_of(p, first + i);
        base_of(p, first + i, k);
        place[i] = p->rank[k];
        next[p->rank[k]]++;
    }
    int64_t begin = 0;
    for (int64_t c = 0; c < p->K; c++) {
        if (c > 0 && p->group[classes[c]] != p->group[classes[c - 1]]) begin = round_up(begin, LANES_double);
        edges[c] = begin;
        begin += next[c];
        next[c] = edges[c];
    }
    edges[p->K] = begin;
    for (int64_t i = 0; i < n; i++)
        if (place[i] >= 0) place[i] = next[place[i]]++;
}

/* Per tile: (1) rows are sorted by the rank of their class; (2) columns of the sorted rows, centred and scaled by the root
   of the weight, become rows of a buffer that stays in the cache; (3) sums and products run along these. */
static int full(moments_problem *p) {
    const int64_t m = p->m, K = p->K, step = most(64, least(512, 65536 / most(m, 1) / 8 * 8)), ld = step + p->G * LANES_double;
    arena memory;
    if (!arena_make(&memory, line(8 * m * ld) + 2 * line(8 * ld) + 3 * line(8 * (K + 1)))) return 1;
    double *z = arena_take(&memory, 8 * m * ld), *root = arena_take(&memory, 8 * ld);
    int64_t *place = arena_take(&memory, 8 * ld), *edges = arena_take(&memory, 8 * (K + 1));
    int64_t *next = arena_take(&memory, 8 * (K + 1)), *classes = arena_take(&memory, 8 * (K + 1));
    for (int64_t k = 0; k < K; k++) classes[p->rank[k]] = k;
    for (int64_t first = 0; first < p->n; first += step) {
        const int64_t n = least(step, p->n - first);
        sort_tile(p, first, n, classes, edges, next, place); /* 1 */
        for (int64_t c = 0; c < K; c++) { /* what is between groups counts nothing */
            int64_t end = c + 1 < K ? edges[c + 1] : round_up(edges[K], LANES_double);
            for (int64_t j = 0; j < m; j++)
                for (int64_t i = next[c]; i < end; i++) z[j * ld + i] = 0.0;
        }
        for (int64_t i = 0; i < n; i++) { /* 2 */
            if (place[i] < 0) continue;
            const double w = p->s ? __builtin_sqrt(p->s[first + i]) : 1.0, *base = p->base + class_of(p, first + i) * m;
            root[place[i]] = w;
            for (int64_t j = 0; j < m; j++) z[j * ld + place[i]] = w * (number(p, first + i, j) - base[j]);
        }
        int64_t start = 0;
        for (int64_t c = 0; c < K; c++) { /* 3 */
            const int64_t k = classes[c], g = p->group[k];
            for (int64_t i = edges[c]; i < next[c]; i++) p->weight[k] += root[i] * root[i];
            for (int64_t j = 0; j < m && next[c] > edges[c]; j++) {
                double sum = 0.0;
                for (int64_t i = edges[c]; i < next[c]; i++) sum += root[i] * z[j * ld + i];
                p->total[k * m + j] += sum;
            }
            if (c + 1 < K && p->group[classes[c + 1]] == g) continue;
            const int64_t count = round_up(next[c], LANES_double) - start;
            for (int64_t i = 0; i < m && count > 0; i += LEFT) {
                int64_t left = least(LEFT, m - i);
                dots_double(z + i * ld + start, left, z + start, i + left, ld, count, p->products + (g * m + i) * m, m);
            }
            start = round_up(next[c], LANES_double);
        }
    }
    for (int64_t g = 0; g < p->G; g++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < i; j++) p->products[(g * m + j) * m + i] = p->products[(g * m + i) * m + j];
    free(memory.memory);
    return 0;
}

/* Add to weight, total and squares or products. Returns 0, or 1 if memory is short. */
EXPORT int NAME(moments)(moments_problem *p) { return p->products ? full(p) : diagonal(p); }

/* The mean of a class relative to its base, in one column. */
INLINE double rest(const moments_problem *p, int64_t k, int64_t j) {
    return p->total[k * p->m + j] / (p->weight[k] > 0.0 ? p->weight[k] : 1.0);
}

/* Whether the distance between base and mean is more than a share of some squares. */
static int is_far(const moments_problem *p, double share) {
    for (int64_t k = 0; k < p->K; k++)
        for (int64_t j = 0; j < p->m; j++) {
            const double squares = p->squares[k * p->m + j];
            if (p->weight[k] * rest(p, k, j) * rest(p, k, j) > share * squares && squares > 0.0) return 1;
        }
    return 0;
}

/* The weight, mean (in place of the base) and squares about the mean of each class, from sums that are zero. The rows are
   read again about their mean if that is `exact`, or the first sums lose digits. Returns 0, or 1 if memory is short. */
EXPORT int NAME(centred_moments)(moments_problem *p, int exact, double far) {
    if (diagonal(p)) return 1;
    if (exact || is_far(p, far)) {
        for (int64_t k = 0; k < p->K; k++) {
            for (int64_t j = 0; j < p->m; j++) p->base[k * p->m + j] += rest(p, k, j);
            p->weight[k] = 0.0;
        }
        for (int64_t k = 0; k < p->K * p->m; k++) p->total[k] = p->squares[k] = 0.0;
        if (diagonal(p)) return 1;
    }
    for (int64_t k = 0; k < p->K; k++)
        for (int64_t j = 0; j < p->m; j++) {
            const double more = rest(p, k, j), squares = p->squares[k * p->m + j] - p->weight[k] * more * more;
            p->base[k * p->m + j] += more;
            p->squares[k * p->m + j] = squares < 0.0 ? 0.0 : squares; /* rounding, where nothing varies */
        }
    return 0;
}
