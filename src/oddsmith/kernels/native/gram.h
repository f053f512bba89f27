/* Template over REAL: a copy of dense rows in tiles, and sums of products of its columns.

   A copy is centred and in the units of the weights. In a tile of `step` rows columns are `ld` numbers apart, an odd number
   of cache lines; the first column is all ones, and rows beyond the last are zero. */

#define OF(f) GLUE(f, REAL)

typedef struct {
    int64_t step, ld, tiles, P;
    REAL *z;   /* P columns a tile */
    double *h; /* ld numbers a tile: the weights of its rows in the sums */
} OF(tiles);

/* The copy of rows in tiles of at most `room` rows; its memory is left to the caller. */
INLINE OF(tiles) OF(cut_tiles)(const dense_problem *p, int64_t room) {
    const int64_t lanes = 64 / (int64_t)sizeof(REAL), tiles = most(1, (p->n + room - 1) / room);
    const int64_t step = round_up(most(1, (p->n + tiles - 1) / tiles), lanes);
    return (OF(tiles)){step, (step / lanes | 1) * lanes, tiles, p->m + 1, NULL, NULL};
}
INLINE int64_t OF(tiles_bytes)(const OF(tiles) *t) { return t->tiles * t->P * t->ld * (int64_t)sizeof(REAL); }

/* Copy tile k. */
LOCAL void OF(copy_tile)(const dense_problem *p, const double *unit, const OF(tiles) *t, int64_t k) {
    const int64_t first = k * t->step, n = most(0, least(t->step, p->n - first)), ld = t->ld, m = p->m;
    const char *x = (const char *)p->x + first * p->row * element(p);
    REAL *z = t->z + k * t->P * ld;
    double some[8 * COPIED];
    for (int64_t i = 0; i < ld; i++) z[i] = i < n ? (REAL)1 : (REAL)0;
    for (int64_t from = 0; from < n; from += COPIED) {
        const int64_t rows = least(COPIED, n - from), apart = round_up(rows, 8);
        for (int64_t next = 0; next < m; next += 8) { /* the last columns overlap those before */
            const int64_t j = m < 8 ? 0 : least(next, m - 8), columns = least(8, m), place = from * p->row + j * p->column;
            if (p->kind == STORED_AS_DOUBLE)
                pack_double((const double *)x + place, p->row, p->column, rows, columns, p->center + j, some, apart);
            else
                pack_float((const float *)x + place, p->row, p->column, rows, columns, p->center + j, some, apart);
            for (int64_t c = 0; c < columns; c++) {
                const double scale = 1.0 / unit[1 + j + c];
                REAL *restrict to = z + (1 + j + c) * ld + from;
                for (int64_t i = 0; i < rows; i++) to[i] = (REAL)(scale * some[c * apart + i]);
            }
        }
    }
    for (int64_t j = 0; j <= m; j++)
        for (int64_t i = n; i < ld; i++) z[j * ld + i] = 0;
}

/* G (rows `apart`) = sum over rows of h z zᵀ: BLOCK of its rows from i on, up to the diagonal and a little beyond. */
LOCAL void OF(gram_block)(const OF(tiles) *t, int64_t i, double *G, int64_t apart) {
    const int64_t count = least(BLOCK, t->P - i), ld = t->ld, end = i + count;
    REAL hz[BLOCK * (TILE + 64)];
    for (int64_t l = 0; l < count; l++)
        for (int64_t j = 0; j < end; j++) G[(i + l) * apart + j] = 0.0;
    for (int64_t k = 0; k < t->tiles; k++) {
        const REAL *z = t->z + k * t->P * ld;
        const double *restrict h = t->h + k * ld;
        for (int64_t l = 0; l < count; l++) {
            const REAL *restrict from = z + (i + l) * ld;
            REAL *restrict to = hz + l * ld;
            for (int64_t row = 0; row < ld; row++) to[row] = (REAL)h[row] * from[row];
        }
        for (int64_t j = 0; j < end; j += 2 * BLOCK)
            for (int64_t l = 0; l < count; l += LEFT) {
                const int64_t left = least(LEFT, count - l), right = least(2 * BLOCK, i + l + left - j);
                if (right > 0) OF(dots)(hz + l * ld, left, z + j * ld, right, ld, ld, G + (i + l) * apart + j, apart);
            }
    }
}

#undef OF
