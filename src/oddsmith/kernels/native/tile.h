/* Template over REAL: products of a tile of rows that lies column by column, `ld` numbers a column.

   `ld` is a multiple of the lanes, and what is beyond the rows of the tile is zero. Lanes hold rows, so that no number
   of columns or classes leaves lanes unused. */

#define VECTOR GLUE(vector, REAL)
#define LANES GLUE(LANES, REAL)
#define LOAD GLUE(GLUE(load, REAL), REAL)
#define SPLAT GLUE(splat, REAL)
#define STORE GLUE(store, REAL)

/* A_c = b_c + sum_j W_cj z_j for `count` classes, of the rows from z on, some vectors. With `which`, z_j is that column. */
INLINE void GLUE(combine_block, REAL)(
    const REAL *z, int64_t ld, int64_t m, const int32_t *which, const double *W, const double *b, const int count,
    const int vectors, REAL *A
) {
    VECTOR sum[LEFT][4];
    for (int c = 0; c < count; c++)
        for (int v = 0; v < vectors; v++) sum[c][v] = SPLAT((REAL)b[c]);
    for (int64_t j = 0; j < m; j++) {
        const REAL *column = z + (which ? which[j] : j) * ld;
        VECTOR x[4];
        for (int v = 0; v < vectors; v++) x[v] = LOAD(column + v * LANES);
        for (int c = 0; c < count; c++) {
            VECTOR w = SPLAT((REAL)W[c * m + j]);
            for (int v = 0; v < vectors; v++) sum[c][v] += w * x[v];
        }
    }
    for (int c = 0; c < count; c++)
        for (int v = 0; v < vectors; v++) STORE(A + c * ld + v * LANES, sum[c][v]);
}

/* The same for all rows of a tile. */
INLINE void GLUE(combine_rows, REAL)(
    const REAL *z, int64_t ld, int64_t m, const int32_t *which, const double *W, const double *b, const int count, REAL *A
) {
    int64_t i = 0;
    for (; i + 4 * LANES <= ld; i += 4 * LANES) GLUE(combine_block, REAL)(z + i, ld, m, which, W, b, count, 4, A + i);
    for (; i < ld; i += LANES) GLUE(combine_block, REAL)(z + i, ld, m, which, W, b, count, 1, A + i);
}

/* A = W Z + b: weights W (C x m) times a tile. */
LOCAL void GLUE(combine, REAL)(
    const REAL *z, int64_t ld, int64_t m, const double *W, const double *b, int64_t C, REAL *A
) {
    int64_t c = 0;
    for (; c + LEFT <= C; c += LEFT) GLUE(combine_rows, REAL)(z, ld, m, NULL, W + c * m, b + c, LEFT, A + c * ld);
    for (; c < C; c++) GLUE(combine_rows, REAL)(z, ld, m, NULL, W + c * m, b + c, 1, A + c * ld);
}

/* The sums of four vectors. */
INLINE void GLUE(four_sums, REAL)(const VECTOR *v, double *out) {
    VECTOR a = GLUE(pairs, REAL)(v[0], v[1]), b = GLUE(pairs, REAL)(v[2], v[3]);
    if (LANES > 2) {
        a = GLUE(pairs, REAL)(a, b);
        for (int width = LANES / 4; width > 1; width /= 2) a = GLUE(pairs, REAL)(a, a);
        for (int j = 0; j < 4; j++) out[j] = (double)a[j];
    } else
        for (int j = 0; j < 2; j++) out[j] = (double)a[j], out[2 + j] = (double)b[j];
}

/* out[i * apart + j] += sum over rows of x_i y_j for i < left, j < right. */
INLINE void GLUE(dots_block, REAL)(
    const REAL *x, const REAL *y, int64_t ld, int64_t n, const int left, const int right, double *out, int64_t apart
) {
    VECTOR sum[LEFT][4];
    for (int i = 0; i < left; i++)
        for (int j = 0; j < right; j++) sum[i][j] = SPLAT(0);
    for (int64_t k = 0; k < n; k += LANES) {
        VECTOR b[4];
        for (int j = 0; j < right; j++) b[j] = LOAD(y + j * ld + k);
        for (int i = 0; i < left; i++) {
            VECTOR a = LOAD(x + i * ld + k);
            for (int j = 0; j < right; j++) sum[i][j] += a * b[j];
        }
    }
    for (int i = 0; i < left; i++) {
        double total[4];
        if (right == 4) GLUE(four_sums, REAL)(sum[i], total);
        for (int j = 0; j < right; j++) out[i * apart + j] += right == 4 ? total[j] : GLUE(sum, REAL)(sum[i][j]);
    }
}

/* out (m x k, rows `apart`) += X Yᵀ: sums over n rows of a tile, a multiple of the lanes, of products of columns. */
LOCAL void GLUE(dots, REAL)(
    const REAL *x, int64_t m, const REAL *y, int64_t k, int64_t ld, int64_t n, double *out, int64_t apart
) {
    int64_t i = 0;
    for (; i + LEFT <= m; i += LEFT) {
        int64_t j = 0;
        for (; j + 4 <= k; j += 4) GLUE(dots_block, REAL)(x + i * ld, y + j * ld, ld, n, LEFT, 4, out + i * apart + j, apart);
        for (; j < k; j++) GLUE(dots_block, REAL)(x + i * ld, y + j * ld, ld, n, LEFT, 1, out + i * apart + j, apart);
    }
    for (; i < m; i++) {
        int64_t j = 0;
        for (; j + 4 <= k; j += 4) GLUE(dots_block, REAL)(x + i * ld, y + j * ld, ld, n, 1, 4, out + i * apart + j, apart);
        for (; j < k; j++) GLUE(dots_block, REAL)(x + i * ld, y + j * ld, ld, n, 1, 1, out + i * apart + j, apart);
    }
}

#undef VECTOR
#undef LANES
#undef LOAD
#undef SPLAT
#undef STORE
