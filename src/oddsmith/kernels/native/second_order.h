/* The Hessian of dense rows as a preconditioner: its factor in single precision. */

#define NB 32      /* columns of a factor that are found together */
#define HELD 3e-6  /* share of the diagonal that is added: what single precision cannot tell from nothing */

typedef struct second_order {
    tiles_float rough;    /* copies of the rows */
    tiles_double exact;
    const double *w;      /* where the Hessian is taken */
    double *G;            /* P x P: sums over the rows, the lower half */
    float *factors, *L;   /* one for each class, and the one that is worked on: P rows, `apart` numbers each */
    float *y;             /* scratch of a solution */
    int64_t apart, column, copied, factored;
    double ratio;         /* of the Hessian to G */
    const double *prior, *free;
    float inverse[NB * NB]; /* transposed, of the diagonal block of the factor */
    void *memory;
} second_order;

static second_order *second_order_make(const dense_problem *p) {
    const int64_t P = p->m + 1, apart = round_up(P, NB) + 16; /* an odd number of cache lines */
    const tiles_float rough = cut_tiles_float(p, TILE);
    arena memory;
    if (!arena_make(&memory, line(sizeof(second_order)) + line(tiles_bytes_float(&rough)) + line(8 * rough.tiles * rough.ld)
                    + line(8 * P * P) + line(4 * p->C * P * apart) + line(4 * apart)))
        return NULL;
    second_order *s = arena_take(&memory, sizeof(second_order));
    *s = (second_order){.rough = rough, .apart = apart, .memory = memory.memory};
    s->rough.z = arena_take(&memory, tiles_bytes_float(&rough));
    s->rough.h = arena_take(&memory, 8 * rough.tiles * rough.ld);
    s->G = arena_take(&memory, 8 * P * P);
    s->factors = arena_take(&memory, 4 * p->C * P * apart);
    s->y = arena_take(&memory, 4 * apart);
    return s;
}

/* The curvature of each row of tile k at w; of more than two classes the weight of the row. */
#define WEIGH_TILE(REAL)                                                                                            \
    static void weigh_tile_##REAL(const dense_problem *p, const tiles_##REAL *t, const double *w, int64_t k) {      \
        const int64_t first = k * t->step, n = most(0, least(t->step, p->n - first)), ld = t->ld;                   \
        const double zero = 0.0;                                                                                    \
        double *h = t->h + k * ld, a[TILE + 64], sign[TILE + 64], r[TILE + 64];                                     \
        REAL rows[TILE + 64];                                                                                       \
        for (int64_t i = 0; i < ld; i++) h[i] = i < n ? (p->s ? p->s[first + i] : 1.0) : 0.0;                       \
        if (p->C > 1) return;                                                                                       \
        combine_##REAL(t->z + k * t->P * ld, ld, t->P, w, &zero, 1, rows);                                          \
        for (int64_t i = 0; i < ld; i++) {                                                                          \
            sign[i] = 1.0;                                                                                          \
            a[i] = (double)rows[i] + (p->offset && i < n ? p->offset[first + i] : 0.0);                             \
        }                                                                                                           \
        logistic_losses(a, sign, h, ld, r, h);                                                                      \
    }
WEIGH_TILE(float)
WEIGH_TILE(double)

/* An entry of the Hessian, j <= i; a weight that may not move has a row of its own. */
INLINE double entry(const second_order *s, int64_t i, int64_t j) {
    const double held = i == j ? 1.0 + HELD : 1.0;
    if (s->free && !(s->free[i] > 0.0 && s->free[j] > 0.0)) return i == j ? 1.0 : 0.0;
    return held * (s->ratio * s->G[i * s->rough.P + j] + (i == j ? s->prior[i] : 0.0));
}

INLINE void factor_begin(second_order *s, double ratio, const double *prior, const double *free) {
    s->ratio = ratio, s->prior = prior, s->free = free;
}

/* The block of the factor on the diagonal from `column` on, and its inverse; 0 where the Hessian is not definite. */
static int factor_diagonal(second_order *s) {
    const int64_t at = s->column, n = least(NB, s->rough.P - at);
    float *L = s->L + at * s->apart;
    double A[NB * NB] = {0}, inverse[NB * NB] = {0};
    dots_float(L, n, L, n, s->apart, at, A, NB);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) A[i * NB + j] = entry(s, at + i, at + j) - A[i * NB + j];
    for (int64_t j = 0; j < n; j++) { /* row by row, so that neighbours are worked on together */
        for (int64_t k = 0; k < j; k++)
            for (int64_t i = j; i < n; i++) A[i * NB + j] -= A[i * NB + k] * A[j * NB + k];
        const double pivot = A[j * NB + j];
        if (!(pivot > 0.1 * HELD * entry(s, at + j, at + j))) return 0;
        const double root = 1.0 / __builtin_sqrt(pivot);
        for (int64_t i = j; i < n; i++) A[i * NB + j] *= root;
    }
    for (int64_t i = 0; i < n; i++) { /* row i of the inverse, from those before */
        double *restrict row = inverse + i * NB;
        for (int64_t k = 0; k < i; k++)
            for (int64_t j = 0; j <= k; j++) row[j] -= A[i * NB + k] * inverse[k * NB + j];
        row[i] = 1.0;
        for (int64_t j = 0; j <= i; j++) row[j] /= A[i * NB + i];
    }
    for (int64_t i = 0; i < NB; i++)
        for (int64_t j = 0; j < NB; j++) {
            if (i < n) L[i * s->apart + at + j] = j <= i ? (float)A[i * NB + j] : 0.0f;
            s->inverse[j * NB + i] = (float)inverse[i * NB + j];
        }
    return 1;
}

/* Some rows of the factor: what is left of the Hessian (R, NB numbers a row) times the inverse of the diagonal block. */
INLINE void finish_rows(const second_order *s, const float *R, const int rows, float *L) {
    vector_float x[4][NB / LANES_float];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < NB / LANES_float; v++) x[i][v] = (vector_float){0};
    for (int64_t k = 0; k < NB; k++)
        for (int v = 0; v < NB / LANES_float; v++) {
            const vector_float inverse = load_float_float(s->inverse + k * NB + v * LANES_float);
            for (int i = 0; i < rows; i++) x[i][v] += R[i * NB + k] * inverse;
        }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < NB / LANES_float; v++) store_float(L + i * s->apart + v * LANES_float, x[i][v]);
}

/* BLOCK rows of the factor from `first` on, below that block. */
static void factor_rows(second_order *s, int64_t first) {
    const int64_t at = s->column, n = least(BLOCK, s->rough.P - first), wide = least(NB, first - at);
    double S[BLOCK * NB] = {0};
    float R[BLOCK * NB], *L = s->L + first * s->apart + at;
    dots_float(s->L + first * s->apart, n, s->L + at * s->apart, wide, s->apart, at, S, wide);
    for (int64_t i = 0; i < n; i++) {
        const double *restrict G = s->G + (first + i) * s->rough.P + at;
        for (int64_t k = 0; k < NB; k++) R[i * NB + k] = (float)(s->ratio * G[k] - S[i * wide + k]);
        for (int64_t k = 0; k < NB && s->free; k++) /* a weight that may not move has a row of its own */
            if (!(s->free[first + i] > 0.0 && s->free[at + k] > 0.0)) R[i * NB + k] = 0.0f;
    }
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) finish_rows(s, R + i * NB, 4, L + i * s->apart);
    for (; i < n; i++) finish_rows(s, R + i * NB, 1, L + i * s->apart);
}

/* x = A⁻¹ x by the factor of class c. */
static void solve_rough(const second_order *s, int64_t c, double *x) {
    const int64_t P = s->rough.P;
    const float *L = s->factors + c * P * s->apart;
    float *y = s->y;
    for (int64_t i = 0; i < s->apart; i++) y[i] = 0.0f;
    for (int64_t i = 0; i < P; i++, L += s->apart) {
        vector_float sum[4] = {{0}};
        int64_t k = 0;
        for (; k + 4 * LANES_float <= i; k += 4 * LANES_float)
            for (int v = 0; v < 4; v++) sum[v] += load_float_float(L + k + v * LANES_float) * load_float_float(y + k + v * LANES_float);
        for (; k < i; k += LANES_float) sum[0] += load_float_float(L + k) * load_float_float(y + k);
        y[i] = ((float)x[i] - (float)sum_float((sum[0] + sum[1]) + (sum[2] + sum[3]))) / L[i];
    }
    for (int64_t i = P - 1; i >= 0; i--) {
        L -= s->apart;
        const float last = y[i] / L[i];
        x[i] = (double)last;
        for (int64_t k = 0; k < i; k++) y[k] -= last * L[k];
    }
}
