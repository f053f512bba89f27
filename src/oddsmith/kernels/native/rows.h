/* Template over KIND, how numbers are stored, and REAL, in which they are summed: reading rows of an array. */

#define VECTOR GLUE(vector, REAL)
#define LANES GLUE(LANES, REAL)
#define LOAD GLUE(GLUE(load, KIND), REAL)
#define PAIRS GLUE(pairs, REAL)
#define OF(f) GLUE(f, KIND)

/* z_j = x_j - center_j, column by column: n rows that begin at x, then zeros up to `ld`. */
LOCAL void OF(pack)(
    const KIND *x, int64_t row, int64_t column, int64_t n, int64_t m, const double *center, REAL *z, int64_t ld
) {
    int64_t whole = row == 1 || column == 1 ? n / LANES * LANES : 0;
    if (row == 1)
        for (int64_t j = 0; j < m; j++) {
            const KIND *ahead = x + least(j + 1, m - 1) * column; /* columns lie far apart */
            for (int64_t i = 0; i < whole; i += LANES) {
                PREFETCH(ahead + i);
                GLUE(store, REAL)(z + j * ld + i, LOAD(x + j * column + i) - (REAL)center[j]);
            }
        }
    else if (m >= LANES)
        for (int64_t i = 0; i < whole; i += LANES)
            for (int64_t k = 0; k < m; k += LANES) { /* the last columns overlap those before */
                const int64_t j = least(k, m - LANES);
                VECTOR v[LANES];
                for (int lane = 0; lane < LANES; lane++) v[lane] = LOAD(x + (i + lane) * row + j);
                GLUE(transpose, REAL)(v);
                for (int lane = 0; lane < LANES; lane++)
                    GLUE(store, REAL)(z + (j + lane) * ld + i, v[lane] - (REAL)center[j + lane]);
            }
    else
        whole = 0;
    for (int64_t j = 0; j < m; j++) {
        for (int64_t i = whole; i < n; i++)
            z[j * ld + i] = (REAL)GLUE(number, KIND)(x[i * row + j * column]) - (REAL)center[j];
        for (int64_t i = n; i < ld; i++) z[j * ld + i] = 0;
    }
}

/* Columns in groups of lanes: the last group ends with the row, and what it shares with the one before counts once. */
INLINE void OF(group)(const double *values, int64_t m, int once, REAL *out) {
    int64_t size = round_up(m, LANES), whole = size - LANES;
    for (int64_t k = 0; k < size; k++) {
        int64_t j = k < whole ? k : k - size + m;
        out[k] = once && k >= whole && j < whole ? (REAL)0 : (REAL)values[j];
    }
}

/* a_i = sum_j u_j (x_ij - c_j) of LANES rows; with `norms` also q_i = sum_j v_j (x_ij - c_j)^2. u, c and v are in groups.
   As many numbers as half the rows have are prefetched from `ahead` on. */
INLINE void OF(row_dots)(
    const KIND *x, int64_t m, const REAL *u, const REAL *c, const REAL *v, const int norms, const KIND *ahead, double *a,
    double *q
) {
    VECTOR sum[LANES], square[LANES];
    for (int i = 0; i < LANES; i++) sum[i] = square[i] = (VECTOR){0};
    for (int64_t k = 0; k < m; k += LANES) {
        int64_t j = least(k, m - LANES);
        VECTOR weight = GLUE(GLUE(load, REAL), REAL)(u + k), center = GLUE(GLUE(load, REAL), REAL)(c + k), inverse = weight;
        if (norms) inverse = GLUE(GLUE(load, REAL), REAL)(v + k);
        for (int line = 0; line < LANES / 2 * LANES; line += 64 / (int)sizeof(KIND)) PREFETCH(ahead + k * (LANES / 2) + line);
        for (int i = 0; i < LANES; i++) {
            VECTOR z = LOAD(x + i * m + j) - center;
            sum[i] += z * weight;
            if (norms) square[i] += z * z * inverse;
        }
    }
    for (int width = LANES; width > 1; width /= 2)
        for (int i = 0; i < width / 2; i++) {
            sum[i] = PAIRS(sum[2 * i], sum[2 * i + 1]);
            if (norms) square[i] = PAIRS(square[2 * i], square[2 * i + 1]);
        }
    for (int i = 0; i < LANES; i++) a[i] = (double)sum[0][i];
    if (norms)
        for (int i = 0; i < LANES; i++) q[i] = (double)square[0][i];
}

/* The same of one row. */
INLINE void OF(row_dot)(
    const KIND *x, int64_t m, const double *u, const double *c, const double *v, double *a, double *q
) {
    double sum = 0.0, square = 0.0;
    for (int64_t j = 0; j < m; j++) {
        double z = GLUE(number, KIND)(x[j]) - c[j];
        sum += z * u[j];
        if (v) square += z * z * v[j];
    }
    *a = sum;
    if (v) *q = square;
}

/* g (in groups) += sum_i r_i (x_i - c) over n rows; as many numbers as half of them have are prefetched. */
INLINE void OF(add_rows)(const KIND *x, int64_t m, int64_t n, const REAL *r, const REAL *c, const KIND *ahead, double *g) {
    for (int64_t k = 0; k < m; k += LANES) {
        const KIND *p = x + least(k, m - LANES);
        VECTOR center = GLUE(GLUE(load, REAL), REAL)(c + k), sum[4] = {{0}};
        const KIND *next = ahead + k * (n / 2);
        int64_t i = 0;
        for (; i + 4 <= n; i += 4, p += 4 * m) {
            for (int line = 0; line < 2 * LANES; line += 64 / (int)sizeof(KIND)) PREFETCH(next + i / 2 * LANES + line);
            for (int row = 0; row < 4; row++) sum[row] += r[i + row] * (LOAD(p + row * m) - center);
        }
        for (; i < n; i++, p += m) sum[0] += r[i] * (LOAD(p) - center);
        VECTOR total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        for (int lane = 0; lane < LANES; lane++) g[k + lane] += (double)total[lane];
    }
}

#if HAS_HALF && !STORED_HALF
/* Write (x - c) root to `out` for n rows; return the largest sum_j v_j (x_j - c_j)^2. c, v and root are in groups. */
LOCAL double OF(halve)(
    const KIND *x, int64_t m, int64_t n, const double *c, const double *v, const double *root, half *out
) {
    vector_double longest = {0};
    for (int64_t i = 0; i < n; i++, x += m, out += m) {
        vector_double square = {0};
        for (int64_t k = 0; k < m; k += LANES_double) {
            int64_t j = least(k, m - LANES_double);
            vector_double z = GLUE(GLUE(load, KIND), double)(x + j) - load_double_double(c + k);
            store_half(out + j, z * load_double_double(root + k));
            square += z * z * load_double_double(v + k);
        }
        longest = max_double(longest, splat_double(sum_double(square)));
    }
    return longest[0];
}
#endif

#undef VECTOR
#undef LANES
#undef LOAD
#undef PAIRS
#undef OF
