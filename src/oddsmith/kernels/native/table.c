/* Sums over the rows of a table: gradients, and Hessians in which one factor may be eliminated. */

#include "table.h"

#define COPIES 4       /* of the sums of a factor */
#define FEW_LEVELS 256 /* with fewer, its sums are kept in copies */

enum { LOGISTIC, PRODUCT, GIVEN, ACTIVATIONS, FIND_CELLS, COUNT_CELLS, WIDEST };

INLINE void activations(const table_problem *p, int64_t first, int64_t n, table_tile t) {
    for (int64_t i = 0; i < n; i++) t.a[i] = p->w[0] + (p->offset ? p->offset[row_in(t, first, i)] : 0.0);
    for (int64_t j = 0; j < p->m; j++) {
        const double w = p->w[p->numbers[j]], *restrict z = t.Z + j * TABLE_TILE;
        for (int64_t i = 0; i < n; i++) t.a[i] += w * z[i];
    }
    for (int64_t k = 0; k < p->f; k++) {
        const int32_t *restrict at = t.at + k * TABLE_TILE;
        const double *restrict v = t.V + k * TABLE_TILE, *restrict w = t.factors[k].w;
        if (p->values[k])
            for (int64_t i = 0; i < n; i++) t.a[i] += w[at[i]] * v[i];
        else
            for (int64_t i = 0; i < n; i++) t.a[i] += w[at[i]];
    }
}

/* The longest row; `q` takes the squares of the tile's. */
INLINE void longest(table_problem *p, int64_t n, table_tile t, double *restrict q) {
    for (int64_t i = 0; i < n; i++) q[i] = 0.0;
    for (int64_t j = 0; j < p->m; j++) {
        const double scale = p->inverse[p->numbers[j]], *restrict z = t.Z + j * TABLE_TILE;
        for (int64_t i = 0; i < n; i++) q[i] += scale * z[i] * z[i];
    }
    for (int64_t k = 0; k < p->f; k++) {
        const int32_t *restrict at = t.at + k * TABLE_TILE;
        const double *restrict v = t.V + k * TABLE_TILE, *restrict scale = t.factors[k].inverse;
        if (p->values[k])
            for (int64_t i = 0; i < n; i++) q[i] += scale[at[i]] * v[i] * v[i];
        else
            for (int64_t i = 0; i < n; i++) q[i] += scale[at[i]];
    }
    for (int64_t i = 0; i < n; i++)
        if (q[i] > p->max_norm2 && !(p->s && t.s[i] == 0.0)) p->max_norm2 = q[i];
}

/* Sums of r by level. */
INLINE void add_levels(factor_sums sums, const int32_t *restrict at, const double *restrict r, int64_t n) {
    int64_t i = 0;
    if (sums.copies == COPIES) {
        double *restrict g0 = sums.g, *restrict g1 = g0 + sums.entries, *restrict g2 = g1 + sums.entries;
        double *restrict g3 = g2 + sums.entries;
        for (; i + COPIES <= n; i += COPIES) {
            g0[at[i]] += r[i];
            g1[at[i + 1]] += r[i + 1];
            g2[at[i + 2]] += r[i + 2];
            g3[at[i + 3]] += r[i + 3];
        }
    }
    for (; i < n; i++) sums.g[at[i]] += r[i];
}

/* The sum of `ld` numbers. */
INLINE double tile_sum(const double *x, int64_t ld) {
    vector_double sum = {0};
    EACH(i) sum += AT(x + i);
    return sum_double(sum);
}

/* Sums of r (1, z), and of r (1, z²) if they are asked for. Those of factors in tables are the same, and added at the end. */
INLINE void add_gradient(table_problem *p, int64_t n, table_tile t, const int32_t *numbers) {
    const double total = tile_sum(t.r, round_up(n, LANES_double));
    p->g[0] += total;
    if (p->squares) p->squares[0] += total;
    for (int64_t j = 0; j < p->m; j++) {
        const double *restrict z = t.Z + j * TABLE_TILE;
        vector_double sum = {0}, squares = {0};
        for (int64_t i = 0; i < round_up(n, LANES_double); i += LANES_double) {
            const vector_double rz = AT(t.r + i) * AT(z + i);
            sum += rz;
            squares += rz * AT(z + i);
        }
        p->g[p->level_g ? numbers[j] : p->numbers[j]] += sum_double(sum);
        if (p->squares) p->squares[p->numbers[j]] += sum_double(squares);
    }
    for (int64_t k = 0; k < p->f; k++) {
        const int32_t *restrict at = t.at + k * TABLE_TILE;
        const double *restrict v = t.V + k * TABLE_TILE;
        if (t.factors[k].copies || !(p->values[k] || p->squares)) {
            add_levels(t.factors[k], at, t.r, n);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            const double x = p->values[k] ? v[i] : 1.0;
            p->g[at[i]] += t.r[i] * x;
            if (p->squares) p->squares[at[i]] += t.r[i] * x * x;
        }
    }
}

/* A place in A: those of the factor eliminated are not there. */
INLINE int32_t place_in(const table_problem *p, int32_t place) {
    return (int32_t)(place < p->start ? place : place - p->levels);
}

/* The row of A, or of B for the factor eliminated, of a place of factor k. */
INLINE int32_t row_of(const table_problem *p, int64_t k, int32_t place) {
    if (k != p->eliminated) return place_in(p, place);
    return (int32_t)(place == p->size - 1 + p->levels ? p->levels : place - p->start);
}

INLINE void add_numbers(table_problem *p, int64_t n, table_tile t) {
    const int64_t ld = round_up(n, LANES_double);
    for (int64_t j = -1; j < p->m; j++) {
        const double *z = t.Z + j * TABLE_TILE;
        double *row = p->A + (j < 0 ? 0 : place_in(p, (int32_t)p->numbers[j])) * p->size;
        for (int64_t i = 0; i < n; i++) t.hz[i] = j < 0 ? t.h[i] : t.h[i] * z[i];
        for (int64_t i = 0; i < n; i++) t.Y[i * t.wide + 1 + j] = t.hz[i];
        row[0] += tile_sum(t.hz, ld);
        for (int64_t k = 0; k <= j; k++) {
            vector_double sum = {0};
            const double *y = t.Z + k * TABLE_TILE;
            for (int64_t i = 0; i < ld; i += LANES_double) sum += AT(t.hz + i) * AT(y + i);
            row[place_in(p, (int32_t)p->numbers[k])] += sum_double(sum);
        }
    }
}

/* Sums of h (1, z) by level, whole rows of them at a time. */
INLINE void add_rows(factor_sums sums, const int32_t *at, int64_t n, const double *Y, const int64_t wide) {
    const int64_t apart = sums.copies == COPIES ? sums.entries : 0;
    for (int64_t i = 0; i < n; i++) {
        double *u = sums.u + (at[i] + (i & 1) * apart) * wide;
        for (int64_t j = 0; j < wide; j += LANES_double) store_double(u + j, AT(u + j) + AT(Y + i * wide + j));
    }
}

/* Add the sums of the factor eliminated: h (1, z), in whole vectors (what is beyond is zero), and h for each cell, which is
   found by counting those before it. What belongs to no column has the place after the last. */
INLINE void add_cells(table_problem *p, int64_t n, table_tile t) {
    const int64_t e = p->eliminated;
    const int32_t *restrict rows = t.rows + e * TABLE_TILE;
    const double *restrict v = p->values[e] ? t.V + e * TABLE_TILE : NULL;
    double *restrict hv = t.hz, *restrict sums = p->C;
    const int64_t whole = p->level_g ? p->end_level - (t.wide + p->m) / (1 + p->m) : p->levels;
    for (int64_t i = 0; i < n; i++) {
        double *u = p->N + rows[i] * (1 + p->m);
        const double *y = t.Y + i * t.wide, scale = v ? v[i] : 1.0;
        if (rows[i] > whole) /* a whole vector would reach into the sums of another */
            for (int64_t j = 0; j <= p->m; j++) u[j] += scale * y[j];
        else
            for (int64_t j = 0; j < t.wide; j += LANES_double) store_double(u + j, AT(u + j) + scale * AT(y + j));
    }
    for (int64_t i = 0; i < n; i++) hv[i] = v ? t.h[i] * v[i] : t.h[i];
    for (int64_t i = 0; i < n && v; i++) p->D[rows[i]] += hv[i] * v[i];
    const uint64_t last = p->f > 1 ? p->cells[p->levels * p->words].before + (uint64_t)p->spare : 0;
    const int32_t nowhere = (int32_t)p->size - 1;
    for (int64_t l = 0; l < p->f; l++) {
        if (l == e) continue;
        const int32_t *restrict columns = t.rows + l * TABLE_TILE;
        const double *restrict x = p->values[l] ? t.V + l * TABLE_TILE : NULL;
        for (int64_t i = 0; i < n; i++) {
            const cell_word *word = p->cells + rows[i] * p->words + (columns[i] >> 6);
            const uint64_t earlier = word->bits << (~columns[i] & 63) << 1; /* the bits below that of the column */
            const uint64_t none = -(uint64_t)(columns[i] == nowhere), cell = word->before + (uint64_t)__builtin_popcountll(earlier);
            const uint64_t at = (cell & ~none) | (last & none);
            sums[at] += x ? hv[i] * x[i] : hv[i];
        }
    }
}

/* Add the rows of the Hessian of one factor: with the numbers, with the factors before it (all others, if it is the one
   eliminated), and its diagonal. */
INLINE void add_factor(table_problem *p, int64_t k, int64_t n, table_tile t, const int32_t *numbers) {
    const int64_t size = p->size, m = p->m, apart = k == p->eliminated;
    const int32_t *restrict rows = t.rows + k * TABLE_TILE;
    const double *restrict v = t.V + k * TABLE_TILE;
    double *restrict H = apart ? p->B : p->A, *restrict hv = t.hz;
    for (int64_t i = 0; i < n; i++) hv[i] = p->values[k] ? t.h[i] * v[i] : t.h[i];
    if (t.factors[k].u && t.wide == LANES_double)
        add_rows(t.factors[k], t.at + k * TABLE_TILE, n, t.Y, LANES_double);
    else if (t.factors[k].u)
        add_rows(t.factors[k], t.at + k * TABLE_TILE, n, t.Y, t.wide);
    else
        for (int64_t i = 0; i < n; i++) {
            double *restrict row = H + rows[i] * size;
            row[0] += hv[i];
            for (int64_t j = 0; j < m; j++) row[numbers[j]] += hv[i] * t.Z[j * TABLE_TILE + i];
            *(apart ? p->D + rows[i] : row + rows[i]) += p->values[k] ? hv[i] * v[i] : hv[i];
        }
    for (int64_t l = 0; l < (apart ? p->f : k); l++) {
        if (l == p->eliminated) continue;
        const int32_t *restrict columns = t.rows + l * TABLE_TILE;
        const double *restrict x = t.V + l * TABLE_TILE;
        if (p->values[l])
            for (int64_t i = 0; i < n; i++) H[rows[i] * size + columns[i]] += hv[i] * x[i];
        else
            for (int64_t i = 0; i < n; i++) H[rows[i] * size + columns[i]] += hv[i];
    }
}

/* The rows of the Hessian of a factor's levels in a tile: where its sums are becomes its rows. */
INLINE void find_rows(const table_problem *p, int64_t k, int64_t n, table_tile t) {
    const int32_t *restrict at = t.at + k * TABLE_TILE, *restrict of = t.factors[k].rows;
    int32_t *restrict rows = t.rows + k * TABLE_TILE;
    if (of)
        for (int64_t i = 0; i < n; i++) rows[i] = of[at[i]];
    else
        for (int64_t i = 0; i < n; i++) rows[i] = row_of(p, k, at[i]);
}

INLINE void add_hessian(table_problem *p, int64_t n, table_tile t, const int32_t *numbers) {
    add_numbers(p, n, t);
    for (int64_t k = 0; k < p->f; k++) find_rows(p, k, n, t);
    for (int64_t k = 0; k < p->f; k++)
        if (k == p->eliminated && p->N)
            add_cells(p, n, t);
        else
            add_factor(p, k, n, t, numbers);
}

/* Set the bits of the cells that occur in a tile. */
INLINE void find_cells(const table_problem *p, int64_t first, int64_t n, table_tile t) {
    const int64_t e = p->eliminated;
    const int32_t *restrict rows = t.rows + e * TABLE_TILE;
    for (int64_t k = 0; k < p->f; k++) {
        load_factor(p, k, first, n, t);
        find_rows(p, k, n, t);
    }
    for (int64_t k = 0; k < p->f; k++) {
        const int32_t *restrict columns = t.rows + k * TABLE_TILE;
        for (int64_t i = 0; i < n && k != e; i++) {
            const uint64_t there = rows[i] != p->levels && columns[i] != p->size - 1;
            p->cells[rows[i] * p->words + (columns[i] >> 6)].bits |= there << (columns[i] & 63);
        }
    }
}

/* Count the cells before each word, and list their columns, if that is asked for. */
static void count_cells(table_problem *p) {
    uint64_t count = 0;
    for (int64_t row = 0; row <= p->levels; row++)
        for (int64_t k = 0; k < p->words; k++) {
            cell_word *word = p->cells + row * p->words + k;
            word->before = count;
            for (uint64_t left = p->indices ? word->bits : 0; left; left &= left - 1)
                p->indices[count++] = (int32_t)(64 * k + __builtin_ctzll(left));
            count = word->before + (uint64_t)__builtin_popcountll(word->bits);
        }
}

/* Whether a factor has tables of its own: what they cost must be little against the rows. */
INLINE int has_tables(const table_problem *p, int64_t k) {
    if (p->level_g) return k != p->eliminated;
    return !p->values[k] && 16 * (p->code_levels[k] + 1) <= p->n && !(k == p->eliminated && p->N);
}

INLINE int64_t copies_of(const table_problem *p, int64_t k) {
    return has_tables(p, k) ? (p->code_levels[k] < FEW_LEVELS ? COPIES : 1) : 0;
}

/* Numbers in the sums of h (1, z) of a factor. */
INLINE int64_t row_numbers(const table_problem *p, int64_t k, int64_t wide) {
    const int64_t copies = copies_of(p, k);
    return p->A ? (copies > 1 ? 2 : copies) * (p->code_levels[k] + 1) * wide : 0;
}

INLINE int64_t factor_bytes(const table_problem *p, int64_t k, int64_t wide) {
    const int64_t entries = p->code_levels[k] + 1, copies = copies_of(p, k);
    if (!copies) return 0;
    int64_t bytes = line(8 * entries) * ((p->w != NULL) + (p->inverse != NULL)) + line(4 * entries);
    if (p->g) bytes += line(8 * copies * entries);
    return bytes + line(8 * row_numbers(p, k, wide)) + 5 * GAP;
}

static factor_sums make_factor(const table_problem *p, int64_t k, int64_t wide, arena *memory) {
    const int64_t entries = p->code_levels[k] + 1, copies = copies_of(p, k), size = row_numbers(p, k, wide);
    factor_sums sums = {entries, copies, p->w, p->inverse, p->level_g ? p->level_g : p->g, NULL, NULL};
    if (!copies) return sums;
    double *w = p->w ? arena_take(memory, 8 * entries) : NULL, *inverse = p->inverse ? arena_take(memory, 8 * entries) : NULL;
    int32_t *rows = arena_take(memory, 4 * entries);
    sums.w = w, sums.inverse = inverse, sums.rows = rows, sums.g = p->g ? arena_take(memory, 8 * copies * entries) : NULL;
    for (int64_t i = 0; i < entries; i++) {
        const int32_t place = place_of(p, k, i);
        if (w) w[i] = p->w[place];
        if (inverse) inverse[i] = p->inverse[place];
        rows[i] = row_of(p, k, place);
    }
    for (int64_t i = 0; i < copies * entries && sums.g; i++) sums.g[i] = 0.0;
    if (size) sums.u = arena_take(memory, 8 * size);
    for (int64_t i = 0; i < size; i++) sums.u[i] = 0.0;
    return sums;
}

/* Add a factor's own tables to the sums of the problem. */
static void end_factor(table_problem *p, int64_t k, int64_t wide, factor_sums sums, const int32_t *numbers) {
    if (!sums.copies) return;
    const int64_t entries = sums.entries, apart = k == p->eliminated;
    for (int64_t i = 0; i < entries && p->g; i++) {
        double total = 0.0;
        for (int64_t c = 0; c < sums.copies; c++) total += sums.g[c * entries + i];
        p->g[p->level_g ? place_in(p, place_of(p, k, i)) : place_of(p, k, i)] += total;
        if (p->squares) p->squares[place_of(p, k, i)] += total;
    }
    for (int64_t i = 0; i < entries && sums.u; i++) {
        double *u = sums.u + i * wide, *row = (apart ? p->B : p->A) + sums.rows[i] * p->size;
        if (sums.copies > 1)
            for (int64_t j = 0; j < wide; j++) u[j] += u[j + entries * wide];
        row[0] += u[0];
        for (int64_t j = 0; j < p->m; j++) row[numbers[j]] += u[1 + j];
        *(apart ? p->D + sums.rows[i] : row + sums.rows[i]) += u[0];
    }
}

/* Losses of a tile: residuals, and curvatures where they are needed. */
INLINE void add_losses(table_problem *p, int64_t first, int64_t n, table_tile t) {
    const int64_t ld = round_up(n, LANES_double), curved = p->A || p->rows;
    load_column(p->t, p->t_kind, 1, first, n, t.some, 0.5, t.sign);
    for (int64_t i = 0; i < n; i++) t.sign[i] *= 2.0;
    for (int64_t i = n; i < ld; i++) t.sign[i] = 1.0, t.s[i] = 0.0, t.a[i] = 1e300; /* no loss */
    double value = __builtin_nan("");
    if (!p->s) value = curved ? logistic_residuals(t.a, t.sign, n, ld, t.r, t.h) : logistic_residuals(t.a, t.sign, n, ld, t.r, NULL);
    if (value != value) value = logistic_losses(t.a, t.sign, p->s ? t.s : NULL, ld, t.r, t.h);
    p->value += value;
    if (p->rows)
        for (int64_t i = 0; i < n; i++) p->rows[row_in(t, first, i)] = t.h[i];
}

EXPORT int NAME(table)(table_problem *p, int task) {
    if (task == COUNT_CELLS) {
        count_cells(p);
        return 0;
    }
    arena memory;
    const int64_t column = line(8 * TABLE_TILE), wide = round_up(1 + p->m, LANES_double), m = p->m, f = p->f;
    int64_t bytes = (m + f + 8) * column + 2 * line(4 * TABLE_TILE * (f + 1)) + (p->A ? line(8 * TABLE_TILE * wide) : 0);
    bytes += line(4 * m) + line((int64_t)sizeof(factor_sums) * f) + 2 * GAP;
    for (int64_t k = 0; k < f; k++) bytes += factor_bytes(p, k, wide);
    if (!arena_make(&memory, bytes)) return 1;
    table_tile t = {arena_take(&memory, m * column), arena_take(&memory, f * column),
                    arena_take(&memory, 4 * TABLE_TILE * (f + 1)), arena_take(&memory, 4 * TABLE_TILE * (f + 1)),
                    p->A ? arena_take(&memory, 8 * TABLE_TILE * wide) : NULL, arena_take(&memory, column),
                    arena_take(&memory, column), arena_take(&memory, column), arena_take(&memory, column),
                    arena_take(&memory, column), arena_take(&memory, column),
                    p->level_g ? arena_take(&memory, column) : NULL, wide,
                    arena_take(&memory, (int64_t)sizeof(factor_sums) * f)};
    double *q = arena_take(&memory, column);
    int32_t *numbers = arena_take(&memory, 4 * m);
    for (int64_t j = 0; j < m; j++) numbers[j] = place_in(p, (int32_t)p->numbers[j]);
    for (int64_t k = 0; k < f; k++) t.factors[k] = make_factor(p, k, wide, &memory);
    for (int64_t i = 0; i < m * TABLE_TILE; i++) t.Z[i] = 0.0;
    for (int64_t i = 0; i < TABLE_TILE; i++) t.hz[i] = 0.0;
    for (int64_t i = 0; i < TABLE_TILE * wide && t.Y; i++) t.Y[i] = 0.0;
    p->value = 0.0;
    p->max_norm2 = p->widest = 0.0;
    for (int64_t first = 0, before = 0, n; first < p->n; first += t.some ? 0 : TABLE_TILE) {
        before = first;
        n = t.some ? choose_rows(p, &first, t.some) : least(TABLE_TILE, p->n - first);
        if (!n) break;
        const int64_t ld = round_up(n, LANES_double);
        if (task == FIND_CELLS) {
            find_cells(p, first, n, t);
            continue;
        }
        load_tile(p, first, n, t);
        prefetch_tile(p, t.some ? first : first + n, t.some ? first - before : n); /* of some rows, as many as were passed */
        if (p->inverse) longest(p, n, t, q);
        if (p->w) activations(p, first, n, t);
        if (task == LOGISTIC) {
            add_losses(p, first, n, t);
        } else if (task == PRODUCT) {
            for (int64_t i = 0; i < n; i++) t.r[i] = p->rows[first + i] * t.a[i];
        } else if (task == GIVEN) {
            for (int64_t i = 0; i < n; i++) t.r[i] = t.h[i] = p->rows ? p->rows[first + i] : p->s ? 0.25 * t.s[i] : 0.25;
        } else if (task == WIDEST) {
            for (int64_t i = 0; i < n; i++) p->widest = __builtin_fabs(t.a[i]) <= p->widest ? p->widest : __builtin_fabs(t.a[i]);
        } else {
            for (int64_t i = 0; i < n; i++) p->rows[first + i] = t.a[i];
        }
        for (int64_t i = n; i < ld; i++) t.r[i] = t.h[i] = t.hz[i] = 0.0;
        if (p->g) add_gradient(p, n, t, numbers);
        if (p->A) add_hessian(p, n, t, numbers);
    }
    for (int64_t k = 0; k < f; k++) end_factor(p, k, wide, t.factors[k], numbers);
    free(memory.memory);
    return 0;
}
