/* Dense columns one after another, as they are and in single precision, and a factor of products between some of them. */

#include <math.h>
#include <string.h>

#include "columns.h"
#include "packed_columns.h"

#define AT_ONCE 2048   /* numbers whose products are summed in single precision, before they are added in double */
#define WEAK 100.0     /* times the least pivot: columns that hardly differ */
#define TOGETHER 4     /* columns or rows that are read together */
#define SOME_COLUMNS 64 /* a unit of work on columns, */
#define SOME_ROWS 512  /* and on rows */
#define SOLVED_ROWS 16 /* a unit of work on rows of a factor, */
#define SOLVED_COLUMNS 128 /* and on columns */
#define DEPTH 1024     /* numbers of columns whose products are summed at a time: two blocks of them are in L2 */

/* Take a share of the work of other threads, until the team ends. */
EXPORT int NAME(team_help)(team *t) {
    int waited = 0;
    __atomic_add_fetch(&t->helpers, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&t->turn, __ATOMIC_ACQUIRE) != TEAM_ENDED)
        if (team_step(t, 1)) waited = 0;
        else team_wait(&waited);
    return 0;
}

EXPORT int NAME(team_end)(team *t) {
    __atomic_store_n(&t->turn, TEAM_ENDED, __ATOMIC_RELEASE);
    return 0;
}

INLINE int64_t packed_column(const packed_problem *q, int64_t k) { return (q->which ? q->which[k] : k) * q->apart; }

/* sum of x_i u_i in parts, of numbers that are stored as KIND */
#define DEFINE_DOT(NAME_, KIND, LOAD, NUMBER)                                                         \
    static double NAME_(const KIND *x, const float *u, int64_t n) {                                   \
        double total = 0.0;                                                                           \
        for (int64_t from = 0; from < n; from += AT_ONCE) {                                           \
            const int64_t to = least(n, from + AT_ONCE);                                              \
            vector_float sum[4] = {{0}};                                                              \
            int64_t i = from;                                                                         \
            for (; i + 4 * LANES_float <= to; i += 4 * LANES_float)                                   \
                for (int k = 0; k < 4; k++)                                                           \
                    sum[k] += LOAD(x + i + k * LANES_float) * load_float_float(u + i + k * LANES_float); \
            for (; i + LANES_float <= to; i += LANES_float) sum[0] += LOAD(x + i) * load_float_float(u + i); \
            double rest = 0.0;                                                                        \
            for (; i < to; i++) rest += NUMBER(x[i]) * (double)u[i];                                  \
            total += sum_float((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;                         \
        }                                                                                             \
        return total;                                                                                 \
    }
DEFINE_DOT(low_dot, float, load_float_float, (double))
#if HAS_HALF
DEFINE_DOT(half_dot, half, load_half_float, number_half)
#endif

#if HAS_HALF
INLINE vector_double larger(vector_double a, vector_double b) { return select_double(a > b, a, b); }

/* A column in half precision, in units of the power of 2 above its largest number; returns the unit. */
static double halve_column(const double *x, int64_t n, half *out, double *norm) {
    const int64_t whole = n / LANES_double * LANES_double;
    double rest[LANES_double] = {0}, most = 0.0;
    half low[LANES_double];
    int exponent = 0;
    for (int64_t i = whole; i < n; i++) rest[i - whole] = x[i];
    const vector_double last = load_double_double(rest);
    vector_double sum = {0}, top = larger(last, -last);
    for (int64_t i = 0; i < whole; i += LANES_double) {
        const vector_double v = load_double_double(x + i);
        top = larger(top, larger(v, -v));
    }
    for (int k = 0; k < LANES_double; k++) most = top[k] > most ? top[k] : most;
    frexp(most, &exponent);
    const double down = ldexp(1.0, -exponent);
    for (int64_t i = 0; i < whole; i += LANES_double) {
        const vector_double v = load_double_double(x + i) * down;
        sum += v * v;
        store_half(out + i, v);
    }
    sum += last * down * (last * down);
    store_half(low, last * down);
    for (int64_t i = whole; i < n; i++) out[i] = low[i - whole];
    *norm = ldexp(sqrt(sum_double(sum)), exponent);
    return ldexp(1.0, exponent);
}
#endif

/* Columns in half precision, their units and their Euclidean norms. */
EXPORT int NAME(halve_columns)(const double *x, int64_t n, int64_t count, half *out, double *units, double *norms) {
#if HAS_HALF
    for (int64_t j = 0; j < count; j++) units[j] = halve_column(x + j * n, n, out + j * n, norms + j);
    return 0;
#else
    return (void)x, (void)n, (void)count, (void)out, (void)units, (void)norms, 2;
#endif
}

static void some_dots(const void *job, int64_t unit) {
    const packed_problem *q = job;
    const int64_t end = least(q->count, (unit + 1) * SOME_COLUMNS);
    for (int64_t k = unit * SOME_COLUMNS; k < end; k++) {
        const int64_t at = packed_column(q, k);
        if (q->stored == STORED_DOUBLE) q->result[k] = double_dot((const double *)q->data + at, q->u, q->n);
        else if (q->stored == STORED_SINGLE) q->result[k] = low_dot((const float *)q->data + at, q->u, q->n);
#if HAS_HALF
        else q->result[k] = half_dot((const half *)q->data + at, q->u, q->n);
#endif
    }
}

/* a += the sum of TOGETHER columns of length n, each times a weight */
INLINE void add_low(const float *const *x, const double *w, int64_t n, double *restrict a) {
    const float w0 = (float)w[0], w1 = (float)w[1], w2 = (float)w[2], w3 = (float)w[3];
    for (int64_t i = 0; i < n; i++)
        a[i] += (double)((x[0][i] * w0 + x[1][i] * w1) + (x[2][i] * w2 + x[3][i] * w3));
}
INLINE void add_double(const double *const *x, const double *w, int64_t n, double *restrict a) {
    for (int64_t i = 0; i < n; i++)
        a[i] += (x[0][i] * w[0] + x[1][i] * w[1]) + (x[2][i] * w[2] + x[3][i] * w[3]);
}

static void some_activations(const void *job, int64_t unit) {
    const packed_problem *q = job;
    const int64_t first = unit * SOME_ROWS, n = least(SOME_ROWS, q->n - first);
    const double *weights = q->u;
    const float *low[TOGETHER];
    const double *full[TOGETHER];
    double w[TOGETHER], *a = q->result + first;
    int filled = 0;
    for (int64_t i = 0; i < n; i++) a[i] = 0.0;
    for (int64_t k = 0; k < q->count; k++) {
        if (weights[k] != 0.0) {
            const int64_t at = packed_column(q, k) + first;
            low[filled] = (const float *)q->data + (q->stored ? at : 0);
            full[filled] = (const double *)q->data + (q->stored ? 0 : at);
            w[filled++] = weights[k];
        }
        if (filled == 0 || (filled < TOGETHER && k + 1 < q->count)) continue;
        for (int f = filled; f < TOGETHER; f++) low[f] = low[0], full[f] = full[0], w[f] = 0.0;
        if (q->stored) add_low(low, w, n, a);
        else add_double(full, w, n, a);
        filled = 0;
    }
}

EXPORT int NAME(packed)(team *t, const packed_problem *q, int task) {
    if (q->stored == STORED_AS_HALF && (!HAS_HALF || task != PACKED_DOTS)) return 2;
    if (task == PACKED_DOTS) team_run(t, some_dots, q, (q->count + SOME_COLUMNS - 1) / SOME_COLUMNS);
    else team_run(t, some_activations, q, (q->n + SOME_ROWS - 1) / SOME_ROWS);
    return 0;
}

typedef struct {
    const packed_problem *q;
    const double *x;
    double *sums; /* n for each unit of columns */
} both_problem;

static void some_of_both(const void *job, int64_t unit) {
    const both_problem *p = job;
    const packed_problem *q = p->q;
    const int64_t n = q->n, end = least(q->count, (unit + 1) * SOME_COLUMNS);
    const double *full[TOGETHER];
    double w[TOGETHER], *a = p->sums + unit * n;
    int filled = 0;
    memset(a, 0, (size_t)n * sizeof(double));
    for (int64_t k = unit * SOME_COLUMNS; k < end; k++) {
        const double *column = (const double *)q->data + packed_column(q, k);
        q->result[k] = double_dot(column, q->u, n);
        if (p->x[k] != 0.0) full[filled] = column, w[filled++] = p->x[k];
        if (filled == 0 || (filled < TOGETHER && k + 1 < end)) continue;
        for (int f = filled; f < TOGETHER; f++) full[f] = full[0], w[f] = 0.0;
        add_double(full, w, n, a);
        filled = 0;
    }
}

int NAME(packed_both)(team *t, const packed_problem *q, const double *x, double *a) {
    const int64_t units = (q->count + SOME_COLUMNS - 1) / SOME_COLUMNS;
    double *sums = malloc(((size_t)(units * q->n) + 1) * sizeof(double));
    if (!sums) return 1;
    team_run(t, some_of_both, &(both_problem){q, x, sums}, units);
    memset(a, 0, (size_t)q->n * sizeof(double));
    for (int64_t unit = 0; unit < units; unit++)
        for (int64_t i = 0; i < q->n; i++) a[i] += sums[unit * q->n + i];
    free(sums);
    return 0;
}

/* Products of columns under the curvatures h of the rows: `scaled` are columns of `data` less their mean, times the root of h.
   Those before the first are there; the others are written, and their products with all into the rows and columns of G. A
   column of `scaled` has `width` numbers, a multiple of LANES_float, of which those after the first n are zero; TOGETHER - 1 columns after the last may be
   read. */
typedef struct {
    int64_t n, first, count, apart, width; /* rows of G are `apart` */
    const double *data;
    const int64_t *which; /* the columns of `data` */
    const double *h, *root;
    double total, *mean; /* the sum of h; it is 0 if columns are not centred */
    float *scaled, *G;
} gram_problem;

static void scale_some(const void *job, int64_t unit) {
    const gram_problem *q = job;
    const int64_t n = q->n, end = least(q->count, q->first + (unit + 1) * SOME_COLUMNS);
    for (int64_t j = q->first + unit * SOME_COLUMNS; j < end; j++) {
        const double *x = q->data + q->which[j] * n;
        const double mean = q->mean[j] = q->total > 0.0 ? double_dot(x, q->h, n) / q->total : 0.0;
        float *to = q->scaled + j * q->width;
        for (int64_t i = 0; i < n; i++) to[i] = (float)((x[i] - mean) * q->root[i]);
        for (int64_t i = n; i < q->width; i++) to[i] = 0.0f;
    }
}

/* The first `count` numbers at p, zeros in the other lanes. */
INLINE vector_float load_first(const float *p, int64_t count) {
    vector_int32 lane;
    for (int k = 0; k < LANES_float; k++) lane[k] = k;
    return select_float(lane < (int32_t)count - (vector_int32){0}, load_float_float(p), (vector_float){0});
}

/* sums[b * wide + r] += products of TOGETHER columns from x on with as many from y on, of n numbers; as many as
   LANES_float may be read beyond them. */
INLINE void multiply_tile(const float *x, const float *y, int64_t apart, int64_t n, float *sums, int64_t wide) {
    vector_float sum[TOGETHER][TOGETHER];
    for (int b = 0; b < TOGETHER; b++)
        for (int r = 0; r < TOGETHER; r++) sum[b][r] = (vector_float){0};
    int64_t t = 0;
#define MULTIPLY(LOAD)                                                                  \
    do {                                                                                \
        vector_float own[TOGETHER];                                                     \
        for (int b = 0; b < TOGETHER; b++) own[b] = LOAD;                               \
        for (int r = 0; r < TOGETHER; r++) {                                            \
            const vector_float other = load_float_float(y + r * apart + t);             \
            for (int b = 0; b < TOGETHER; b++) sum[b][r] += other * own[b];             \
        }                                                                               \
    } while (0)
    for (; t + LANES_float <= n; t += LANES_float) MULTIPLY(load_float_float(x + b * apart + t));
    if (t < n) MULTIPLY(load_first(x + b * apart + t, n - t));
#undef MULTIPLY
    for (int b = 0; b < TOGETHER; b++) {
        vector_float total = pairs_float(pairs_float(sum[b][0], sum[b][1]), pairs_float(sum[b][2], sum[b][3]));
        for (int width = LANES_float / TOGETHER; width > 1; width /= 2) total = pairs_float(total, total);
        for (int r = 0; r < TOGETHER; r++) sums[b * wide + r] += total[r];
    }
}

/* The block `unit` of G: rows from the first on in blocks, each with the columns up to its own. */
static void multiply_some(const void *job, int64_t unit) {
    const gram_problem *q = job;
    int64_t block = 0, wide = 0; /* of rows; columns in blocks up to its last row */
    for (;; block++) {
        wide = (least(q->count, q->first + (block + 1) * SOME_COLUMNS) + SOME_COLUMNS - 1) / SOME_COLUMNS;
        if (unit < wide) break;
        unit -= wide;
    }
    const int64_t rows = q->first + block * SOME_COLUMNS, end = least(q->count, rows + SOME_COLUMNS);
    const int64_t columns = unit * SOME_COLUMNS, last = least(end, columns + SOME_COLUMNS);
    float sums[SOME_COLUMNS * SOME_COLUMNS];
    for (int64_t i = 0; i < SOME_COLUMNS * SOME_COLUMNS; i++) sums[i] = 0.0f;
    for (int64_t from = 0; from < q->width; from += DEPTH) {
        const float *x = q->scaled + from;
        const int64_t n = least(DEPTH, q->width - from);
        for (int64_t j = rows; j < end; j += TOGETHER)
            for (int64_t k = columns; k < last; k += TOGETHER) {
                float *to = sums + (j - rows) * SOME_COLUMNS + k - columns;
                multiply_tile(x + j * q->width, x + k * q->width, q->width, n, to, SOME_COLUMNS);
            }
    }
    for (int64_t j = rows; j < end; j++)
        for (int64_t k = columns; k < least(last, j + 1); k++)
            q->G[j * q->apart + k] = sums[(j - rows) * SOME_COLUMNS + k - columns];
    for (int64_t k = columns; k < last; k++)
        for (int64_t j = most(rows, k); j < end; j++)
            q->G[k * q->apart + j] = sums[(j - rows) * SOME_COLUMNS + k - columns];
}

EXPORT int NAME(gram)(team *t, const gram_problem *q) {
    if (q->width % LANES_float) return 2;
    int64_t units = 0, blocks = (q->count - q->first + SOME_COLUMNS - 1) / SOME_COLUMNS;
    team_run(t, scale_some, q, blocks);
    for (int64_t block = 0; block < blocks; block++)
        units += (least(q->count, q->first + (block + 1) * SOME_COLUMNS) + SOME_COLUMNS - 1) / SOME_COLUMNS;
    if (units > 0xffff) return 2;
    team_run(t, multiply_some, q, units);
    return 0;
}

/* The row j of A. */
static void enter_row(const factor_problem *q, int64_t j) {
    float *row = q->L + j * q->apart;
    const int64_t own = q->columns[j];
    if (own < 0) {
        for (int64_t i = 0; i <= j; i++) row[i] = 0.0f;
        row[-1 - own] = 1.0f;
        return;
    }
    const float *from = q->G + own * q->between;
    for (int64_t i = 0; i < j; i++) row[i] = q->columns[i] >= 0 ? from[q->columns[i]] : 0.0f;
    row[j] = from[own] * (float)(1.0 + q->least);
}

INLINE float plain_dot(const float *x, const float *y, int64_t n) {
    vector_float sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES_float <= n; i += 4 * LANES_float)
        for (int k = 0; k < 4; k++)
            sum[k] += load_float_float(x + i + k * LANES_float) * load_float_float(y + i + k * LANES_float);
    for (; i + LANES_float <= n; i += LANES_float) sum[0] += load_float_float(x + i) * load_float_float(y + i);
    if (i < n) sum[1] += load_first(x + i, n - i) * load_float_float(y + i);
    return (float)sum_float((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* sum of sign_i x_i x_i, in double precision */
INLINE double signed_square(const float *x, const float *sign, int64_t n) {
    vector_double sum[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * LANES_double <= n; i += 2 * LANES_double)
        for (int k = 0; k < 2; k++) {
            const vector_double v = load_float_double(x + i + k * LANES_double);
            sum[k] += v * v * load_float_double(sign + i + k * LANES_double);
        }
    double total = sum_double(sum[0] + sum[1]);
    for (; i < n; i++) total += (double)(x[i] * x[i] * sign[i]);
    return total;
}

/* Entries i, ..., i + 3 of four rows from y on: less what those before them account for. */
INLINE void eliminate(const factor_problem *q, int64_t i, float *y) {
    const float *L = q->L + i * q->apart;
    float total[TOGETHER * TOGETHER] = {0};
    multiply_tile(y, L, q->apart, i, total, TOGETHER);
    for (int b = 0; b < TOGETHER; b++) {
        float *own = y + b * q->apart;
        for (int r = 0; r < TOGETHER; r++) {
            float rest = own[i + r] - total[b * TOGETHER + r];
            for (int k = 0; k < r; k++) rest -= L[r * q->apart + i + k] * own[i + k];
            own[i + r] = rest * q->inverse[i + r];
        }
    }
}

/* Entries of one row, from `known` to the end: less what those before them account for. */
static void eliminate_row(const factor_problem *q, int64_t j, int64_t known, int64_t end) {
    float *row = q->L + j * q->apart;
    for (int64_t i = known; i < end; i++) row[i] = (row[i] - plain_dot(q->L + i * q->apart, row, i)) * q->inverse[i];
}

/* Eliminate the rows of L before `known`, the first `size` rows or a few less, from a group of new ones. */
static void enter_some(const void *job, int64_t unit) {
    const factor_problem *q = job;
    const int64_t groups = q->more / TOGETHER, known = q->size / TOGETHER * TOGETHER;
    if (unit < groups) {
        const int64_t first = q->size + unit * TOGETHER;
        for (int64_t j = first; j < first + TOGETHER; j++) enter_row(q, j);
        for (int64_t i = 0; i < known; i += TOGETHER) eliminate(q, i, q->L + first * q->apart);
        return;
    }
    const int64_t j = q->size + unit - groups * (1 - TOGETHER); /* rows that are no group are a unit each */
    enter_row(q, j);
    eliminate_row(q, j, 0, known);
}

/* Turn a row of A into one of L, whose entries before `known` are there. */
static void finish_row(factor_problem *q, int64_t j, int64_t known) {
    float *row = q->L + j * q->apart;
    eliminate_row(q, j, known, j);
    double pivot = row[j];
    const double size = fabs(pivot);
    pivot -= signed_square(row, q->sign, j);
    for (int64_t i = 0; i < j; i++) row[i] *= q->sign[i];
    if (!(fabs(pivot) > WEAK * q->least * size)) q->weak++;
    if (!(fabs(pivot) > q->least * size)) pivot = size > 0.0 ? q->least * size : 1.0;
    q->sign[j] = pivot > 0.0 ? 1.0f : -1.0f;
    row[j] = (float)sqrt(fabs(pivot));
    q->inverse[j] = 1.0f / row[j];
}

/* Turn the rows of A after the first `size` into rows of L, SOME_COLUMNS at a time. */
static void append_rows(team *t, factor_problem *q) {
    const int64_t end = q->size + q->more;
    while (q->size < end) {
        q->more = least(SOME_COLUMNS, end - q->size);
        team_run(t, enter_some, q, q->more / TOGETHER + q->more % TOGETHER);
        for (int64_t next = q->size; next < q->size + q->more; next += TOGETHER) {
            const int64_t last = least(q->size + q->more, next + TOGETHER);
            int64_t known = q->size / TOGETHER * TOGETHER;
            if (last - next == TOGETHER)
                for (; known + TOGETHER <= next; known += TOGETHER) eliminate(q, known, q->L + next * q->apart);
            for (int64_t j = next; j < last; j++) finish_row(q, j, known);
        }
        q->size += q->more;
    }
}

INLINE int is_in_factor(const factor_problem *q, int64_t j) { return q->place[j] >= 0 && q->held[j] < 0; }

/* Let the factor be that of the columns in `support`: forget all where too many of its rows would stand for nothing. */
static void change_support(team *t, factor_problem *q, const int8_t *support) {
    int64_t changed = 0, wanted = 0;
    for (int64_t j = 0; j < q->count; j++) {
        changed += !support[j] != !is_in_factor(q, j);
        wanted += support[j] != 0;
    }
    if (q->size && q->size + changed > wanted + wanted / 4 + q->unused) {
        q->size = q->weak = 0;
        for (int64_t j = 0; j < q->count; j++) q->place[j] = q->held[j] = -1;
    }
    int64_t end = q->size;
    for (int64_t j = 0; j < q->count; j++)
        if (support[j] && q->place[j] < 0) q->columns[q->place[j] = end++] = j;
    for (int64_t j = 0; j < q->count; j++)
        if (!support[j] != !is_in_factor(q, j)) {
            const int64_t row = q->held[j] >= 0 ? q->held[j] : q->place[j];
            q->columns[end] = -1 - row;
            q->held[j] = q->held[j] >= 0 ? -1 : end;
            end++;
        }
    q->more = end - q->size;
    append_rows(t, q);
}

/* A block of rows of L, before and at which numbers of x change. */
typedef struct {
    const factor_problem *q;
    float *x;
    int64_t first, end;
} factor_block;

/* x_i -= what the numbers before the block account for, over some rows of it. */
static void subtract_before(const void *job, int64_t unit) {
    const factor_block *k = job;
    const int64_t end = least(k->end, k->first + (unit + 1) * SOLVED_ROWS);
    for (int64_t i = k->first + unit * SOLVED_ROWS; i < end; i++)
        k->x[i] -= plain_dot(k->q->L + i * k->q->apart, k->x, k->first);
}

/* x_k -= what the block accounts for, over some numbers before it. */
static void subtract_after(const void *job, int64_t unit) {
    const factor_block *k = job;
    const int64_t from = unit * SOLVED_COLUMNS, end = least(k->first, from + SOLVED_COLUMNS);
    for (int64_t i = k->first; i < k->end; i++) {
        const float *row = k->q->L + i * k->q->apart, step = k->x[i];
        for (int64_t t = from; t < end; t++) k->x[t] -= step * row[t];
    }
}

/* Solve L S L' x = b in place, block by block of rows; x has room for LANES_float more. */
static void solve_factor(team *t, const factor_problem *q, float *x) {
    for (int64_t first = 0; first < q->size; first += SOME_COLUMNS) {
        const factor_block k = {q, x, first, least(q->size, first + SOME_COLUMNS)};
        if (first) team_run(t, subtract_before, &k, (k.end - first + SOLVED_ROWS - 1) / SOLVED_ROWS);
        for (int64_t i = first; i < k.end; i++) {
            const float *row = q->L + i * q->apart;
            x[i] = (x[i] - plain_dot(row + first, x + first, i - first)) * q->inverse[i];
        }
    }
    for (int64_t i = 0; i < q->size; i++) x[i] *= q->sign[i];
    for (int64_t first = (q->size - 1) / SOME_COLUMNS * SOME_COLUMNS; first >= 0; first -= SOME_COLUMNS) {
        const factor_block k = {q, x, first, least(q->size, first + SOME_COLUMNS)};
        for (int64_t i = k.end; i-- > first;) {
            const float *row = q->L + i * q->apart, step = x[i] *= q->inverse[i];
            for (int64_t j = first; j < i; j++) x[j] -= step * row[j];
        }
        if (first) team_run(t, subtract_after, &k, (first + SOLVED_COLUMNS - 1) / SOLVED_COLUMNS);
    }
}

EXPORT int NAME(factor_solve)(team *t, factor_problem *q, const int8_t *support, const double *b, double *x) {
    change_support(t, q, support);
    float *z = calloc((size_t)q->size + LANES_float, sizeof(float));
    if (!z) return 1;
    for (int64_t j = 0; j < q->count; j++)
        if (support[j]) z[q->place[j]] = (float)b[j];
    if (q->size) solve_factor(t, q, z);
    for (int64_t j = 0; j < q->count; j++) x[j] = support[j] ? (double)z[q->place[j]] : 0.0;
    free(z);
    return 0;
}
