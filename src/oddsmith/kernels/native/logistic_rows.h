/* Template over KIND and REAL: value and gradient of two classes in one read of long rows in C order.

   A tile of rows stays in L1 between its activations and its gradient, while the next one is prefetched. */

INLINE int64_t GLUE(tile_rows, KIND)(int64_t m) {
    int64_t bytes = (int64_t)sizeof(KIND) * m, unit = GLUE(LANES, REAL);
    if (bytes <= 128) return least(384, 16384 / bytes / unit * unit);
    return least(96, most(32, 24576 / bytes / unit * unit));
}

/* Activations of the rows of a tile, and their norms if v is not NULL; u, c and v are in groups. */
INLINE void GLUE(tile_dots, KIND)(
    const dense_problem *p, const KIND *x, int64_t n, const double *W, const REAL *u, const REAL *c, const REAL *v,
    const KIND *ahead, double *a, double *q
) {
    const int64_t m = p->m, unit = GLUE(LANES, REAL);
    int64_t i = 0;
    if (v)
        for (; i + unit <= n; i += unit) GLUE(row_dots, KIND)(x + i * m, m, u, c, v, 1, ahead + i * m / 2, a + i, q + i);
    else
        for (; i + unit <= n; i += unit) GLUE(row_dots, KIND)(x + i * m, m, u, c, v, 0, ahead + i * m / 2, a + i, q + i);
    for (; i < n; i++) GLUE(row_dot, KIND)(x + i * m, m, W, p->center, v ? p->inverse : NULL, a + i, q + i);
}

static int GLUE(logistic_rows, KIND)(dense_problem *p) {
    const int64_t m = p->m, step = GLUE(tile_rows, KIND)(m), wide = round_up(m, GLUE(LANES, REAL));
    arena memory;
    if (!arena_make(&memory, 8 * line(8 * step) + 8 * line(8 * wide))) return 1;
    double *a = arena_take(&memory, 8 * step), *r = arena_take(&memory, 8 * step), *h = arena_take(&memory, 8 * step);
    targets tile = {arena_take(&memory, 8 * step), arena_take(&memory, 8 * step)};
    REAL *residuals = arena_take(&memory, 8 * step);
    REAL *u = arena_take(&memory, 8 * wide), *c = arena_take(&memory, 8 * wide), *v = arena_take(&memory, 8 * wide);
    REAL *ahead_u = arena_take(&memory, 8 * wide); /* the direction of a product */
    double *da = arena_take(&memory, 8 * step);
    double *sums = arena_take(&memory, 8 * wide);
    halves rows_to = {arena_take(&memory, 8 * wide), arena_take(&memory, 8 * wide), arena_take(&memory, 8 * wide)};
    GLUE(group, KIND)(p->W, m, 1, u);
    GLUE(group, KIND)(p->center, m, 0, c);
    if (p->inverse) GLUE(group, KIND)(p->inverse, m, 1, v);
    if (p->V) GLUE(group, KIND)(p->V, m, 1, ahead_u);
    if (p->half_rows) halves_groups(p, &rows_to);
    for (int64_t k = 0; k < wide; k++) sums[k] = 0.0;
    const KIND *x = p->x;
    for (tile_range at = first_tile(p, step), next; at.first < p->n; at = next) {
        next = next_tile(p, at, step);
        const KIND *rows = x + at.first * m, *ahead = x + (next.first + step <= p->n ? next.first : at.first) * m;
        const int64_t n = at.n, ld = round_up(n, LANES_double);
        GLUE(tile_dots, KIND)(p, rows, n, p->W, u, c, p->inverse && !p->half_rows ? v : NULL, ahead, a, h);
        if (p->V) GLUE(tile_dots, KIND)(p, rows, n, p->V, ahead_u, c, NULL, ahead, da, r);
        if (p->inverse && !p->half_rows) tile_longest(p, at, h);
#if HAS_HALF && !STORED_HALF
        if (p->half_rows) {
            double norm2 = GLUE(halve, KIND)(rows, m, n, rows_to.center, rows_to.inverse, rows_to.root, p->half_rows + at.first * m);
            p->max_norm2 = norm2 > p->max_norm2 ? norm2 : p->max_norm2;
        }
#endif
        tile_targets(p, at, ld, a, tile);
        double value = p->s || p->v ? __builtin_nan("") : logistic_residuals(a, tile.sign, n, ld, r, NULL);
        if (value != value) value = logistic_losses(a, tile.sign, p->s ? tile.s : NULL, ld, r, h);
        p->value += value;
        for (int64_t i = 0; p->v && i < n; i++) r[i] = h[i] * (p->V ? da[i] + p->v[0] : p->v[0]);
        double intercept = 0.0;
        for (int64_t i = 0; i < n; i++) {
            intercept += r[i];
            residuals[i] = (REAL)r[i];
        }
        p->g[0] += intercept;
        GLUE(add_rows, KIND)(rows, m, n, residuals, c, ahead + n * m / 2, sums);
    }
    const int64_t lanes = GLUE(LANES, REAL), whole = wide - lanes;
    for (int64_t k = 0; k < wide; k++) {
        int64_t j = k < whole ? k : k - wide + m;
        if (k < whole || j >= whole) p->g[1 + j] += sums[k];
    }
    free(memory.memory);
    return 0;
}
