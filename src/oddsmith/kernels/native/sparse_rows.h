/* Template over KIND (float, double) and INDEX (int32_t, int64_t): sums over rows in CSR form. */

#define OF(f) GLUE(GLUE(f, KIND), INDEX)

/* sum_p data_p u[indices_p], in four sums (one would wait for itself). */
INLINE double OF(csr_dot)(const KIND *data, const INDEX *indices, int64_t first, int64_t last, const double *u) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    int64_t p = first;
    for (; p + 4 <= last; p += 4) {
        PREFETCH(data + p + 384);
        PREFETCH(indices + p + 384);
        s0 += data[p] * u[indices[p]];
        s1 += data[p + 1] * u[indices[p + 1]];
        s2 += data[p + 2] * u[indices[p + 2]];
        s3 += data[p + 3] * u[indices[p + 3]];
    }
    for (; p < last; p++) s0 += data[p] * u[indices[p]];
    return (s0 + s1) + (s2 + s3);
}

INLINE void OF(csr_add)(const KIND *data, const INDEX *indices, int64_t first, int64_t last, double w, double *g) {
    for (int64_t p = first; p < last; p++) g[indices[p]] += w * data[p];
}

static void OF(csr_logistic)(csr_problem *q) {
    const KIND *data = q->data;
    const INDEX *indices = q->indices, *indptr = q->indptr;
    double a[CSR_TILE], sign[CSR_TILE], s[CSR_TILE], r[CSR_TILE], h[CSR_TILE];
    for (int64_t first = 0; first < q->n; first += CSR_TILE) {
        const int64_t n = least(CSR_TILE, q->n - first), ld = round_up(n, LANES_double);
        for (int64_t i = 0; i < ld; i++) {
            a[i] = i < n ? q->b + OF(csr_dot)(data, indices, indptr[first + i], indptr[first + i + 1], q->w) : 1e300;
            sign[i] = i < n ? 2.0 * q->t[first + i] - 1.0 : 1.0;
            s[i] = i < n && q->s ? q->s[first + i] : 0.0;
            if (i < n && q->offset) a[i] += q->offset[first + i];
        }
        q->value += logistic_losses(a, sign, q->s ? s : NULL, ld, r, h);
        if (q->v)
            for (int64_t i = 0; i < n; i++)
                r[i] = h[i] * (q->v0 + OF(csr_dot)(data, indices, indptr[first + i], indptr[first + i + 1], q->v));
        for (int64_t i = 0; i < n; i++) {
            if (q->h) q->h[first + i] = h[i];
            q->g[0] += r[i];
            OF(csr_add)(data, indices, indptr[first + i], indptr[first + i + 1], r[i], q->g + 1);
        }
    }
}

/* g += sum_i h_i (v0 + xᵀv) (1, x). */
static void OF(csr_product)(csr_problem *q) {
    const INDEX *indptr = q->indptr;
    for (int64_t i = 0; i < q->n; i++) {
        double r = q->h[i] * (q->v0 + OF(csr_dot)(q->data, q->indices, indptr[i], indptr[i + 1], q->v));
        q->g[0] += r;
        OF(csr_add)(q->data, q->indices, indptr[i], indptr[i + 1], r, q->g + 1);
    }
}

/* Add sum_i h_i (1, x²) to g and sum_i h_i (1, x) to H, both of m + 1 numbers. */
static void OF(csr_squares)(csr_problem *q) {
    const KIND *data = q->data;
    const INDEX *indices = q->indices, *indptr = q->indptr;
    for (int64_t i = 0; i < q->n; i++) {
        q->g[0] += q->h[i];
        q->H[0] += q->h[i];
        for (int64_t p = indptr[i]; p < indptr[i + 1]; p++) {
            double hx = q->h[i] * data[p];
            q->g[1 + indices[p]] += hx * data[p];
            q->H[1 + indices[p]] += hx;
        }
    }
}

/* max_i sum_j inverse_j (x_ij - c_j)² over rows of positive weight. `b` is the value of a row of zeros; `w` is the center,
   NULL if all columns have one inverse and no center; `v` is inverse. */
static void OF(csr_longest)(csr_problem *q) {
    const KIND *data = q->data;
    const INDEX *indices = q->indices, *indptr = q->indptr;
    for (int64_t i = 0; i < q->n; i++) {
        if (q->s && q->s[i] == 0.0) continue;
        double total = q->b;
        for (int64_t p = indptr[i]; p < indptr[i + 1]; p++)
            total += q->w ? q->v[indices[p]] * data[p] * (data[p] - 2.0 * q->w[indices[p]]) : q->v[0] * data[p] * data[p];
        if (total > q->value) q->value = total;
    }
}

/* H_jk += sum_i h_i x_ij x_ik once for each pair of non-zeros of a row: H + Hᵀ - diag(H) is the Gram matrix. */
static void OF(csr_gram)(csr_problem *q) {
    const KIND *data = q->data;
    const INDEX *indices = q->indices, *indptr = q->indptr;
    for (int64_t i = 0; i < q->n; i++)
        for (int64_t a = indptr[i]; a < indptr[i + 1]; a++) {
            double left = q->h[i] * data[a], *row = q->H + (int64_t)indices[a] * q->m;
            for (int64_t b = indptr[i]; b <= a; b++) row[indices[b]] += left * data[b];
        }
}

#undef OF
