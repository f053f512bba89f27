/* Losses of a tile of rows and their derivatives, in place of the activations.

   Arrays have `ld` entries, a multiple of the lanes; those beyond the tile's rows have weight 0 and class 0. */

#ifndef ODDSMITH_LOSSES_H
#define ODDSMITH_LOSSES_H

#include "functions.h"

#define EACH(i) for (int64_t i = 0; i < ld; i += LANES_double)
#define AT(p) load_double_double(p)

/* Two classes, margin m = sign a: loss log(1 + e^-m), residual -sign / (1 + e^m), curvature e^-|m| / (1 + e^-|m|)^2, each
   times the weight s (or 1, where s is NULL). Returns the sum of the losses. */
INLINE double logistic_losses(
    const double *a, const double *sign, const double *s, int64_t ld, double *r, double *h
) {
    vector_double value = {0};
    EACH(i) {
        vector_double m = AT(sign + i) * AT(a + i), weight = s ? AT(s + i) : splat_double(1.0);
        vector_int64 right = m >= 0.0;
        vector_double e = exp_nonpositive(select_double(right, -m, m)), d = 1.0 / (1.0 + e);
        store_double(r + i, -AT(sign + i) * select_double(right, e * d, d) * weight);
        store_double(h + i, e * d * d * weight);
        value += weight * (log1p_unit(e) + select_double(right, splat_double(0.0), -m));
    }
    return sum_double(value);
}

/* Residuals, and curvatures unless h is NULL, of rows of weight 1. The sum of the losses comes from one logarithm of a
   product; returns NaN where that loses digits, since the losses are far below 1. */
INLINE double logistic_residuals(const double *a, const double *sign, int64_t n, int64_t ld, double *r, double *h) {
    vector_double product = splat_double(1.0), beyond = {0};
    EACH(i) {
        vector_double m = AT(sign + i) * AT(a + i);
        vector_int64 right = m >= 0.0;
        vector_double e = exp_nonpositive(select_double(right, -m, m)), d = 1.0 / (1.0 + e);
        store_double(r + i, -AT(sign + i) * select_double(right, e * d, d));
        if (h) store_double(h + i, e * d * d);
        product *= 1.0 + e;
        beyond += select_double(right, splat_double(0.0), -m);
    }
    double value = sum_double(log_above_one(product) + beyond);
    return value >= 0.01 * (double)n ? value : __builtin_nan("");
}

/* Scratch of the softmax of a tile: `ld` numbers each. */
typedef struct {
    double *top, *own, *first, *total, *rest, *scale;
} softmax_scratch;

/* Several classes: A (C x ld, activations against class 0) becomes residuals. If D is not NULL, A becomes probabilities
   and D the own curvatures p (1 - p), both without weights. Returns the sum of the losses.

   1 - p comes from the other classes, without cancellation: the largest class has e = 1, and `rest` is the sum of all
   others; of any other class p is at most 1/2. */
LOCAL double softmax_losses(
    double *A, int64_t ld, int64_t C, const int32_t *t, const double *s, int64_t n, double *D, softmax_scratch w
) {
    EACH(i) {
        vector_double top = {0};
        for (int64_t k = 0; k < C; k++) top = max_double(top, AT(A + k * ld + i));
        store_double(w.top + i, top);
    }
    for (int64_t i = 0; i < n; i++) w.own[i] = t[i] > 0 ? A[(t[i] - 1) * ld + i] - w.top[i] : -w.top[i];
    EACH(i) {
        vector_double top = AT(w.top + i), e = exp_nonpositive(-top), total = e;
        vector_double rest = select_double(e == 1.0, splat_double(0.0), e), ones = e - rest;
        store_double(w.first + i, e);
        for (int64_t k = 0; k < C; k++) {
            e = exp_nonpositive(AT(A + k * ld + i) - top);
            store_double(A + k * ld + i, e);
            vector_double small = select_double(e == 1.0, splat_double(0.0), e);
            total += e;
            rest += small;
            ones += e - small;
        }
        store_double(w.total + i, total);
        store_double(w.rest + i, rest + (ones - 1.0));
        store_double(w.scale + i, 1.0 / total);
    }
    for (int64_t i = n; i < ld; i++) w.own[i] = 0.0;
    vector_double value = {0};
    EACH(i) {
        vector_double own = AT(w.own + i), rest = AT(w.rest + i);
        vector_int64 near = (own == 0.0) & (rest <= 1.0);
        vector_double small = log1p_unit(select_double(near, rest, splat_double(0.0)));
        vector_double loss = select_double(near, small, log_above_one(AT(w.total + i)) - own);
        store_double(w.top + i, loss);
    }
    for (int64_t i = n; i < ld; i++) w.top[i] = 0.0;
    EACH(i) value += s ? AT(w.top + i) * AT(s + i) : AT(w.top + i);
    for (int64_t k = 0; k < C; k++) EACH(i) {
            vector_double e = AT(A + k * ld + i), scale = AT(w.scale + i), p = e * scale;
            if (D) {
                vector_double others = select_double(e == 1.0, AT(w.rest + i), AT(w.total + i) - e);
                store_double(D + k * ld + i, p * others * scale);
            }
            store_double(A + k * ld + i, p);
        }
    return sum_double(value);
}

/* Probabilities (C x ld) become residuals: less 1 for the own class, from the others; times the weights. */
LOCAL void softmax_residuals(
    double *A, int64_t ld, int64_t C, const int32_t *t, const double *s, int64_t n, softmax_scratch w
) {
    for (int64_t i = 0; i < n; i++)
        if (t[i] > 0) {
            double others = w.own[i] == 0.0 ? w.rest[i] : w.total[i] - w.total[i] * A[(t[i] - 1) * ld + i];
            A[(t[i] - 1) * ld + i] = -others * w.scale[i];
        }
    for (int64_t k = 0; k < C; k++) {
        if (s) EACH(i) store_double(A + k * ld + i, AT(A + k * ld + i) * AT(s + i));
        for (int64_t i = n; i < ld; i++) A[k * ld + i] = 0.0;
    }
}

/* The same in single precision, of rows of weight 1: residuals in place of activations; returns the sum of the losses. */
LOCAL double softmax_single(float *A, int64_t ld, int64_t C, const int32_t *t, int64_t n, float *top, float *total) {
    double value = 0.0;
    for (int64_t i = 0; i < ld; i += LANES_float) {
        vector_float most = {0};
        for (int64_t k = 0; k < C; k++) most = max_float(most, load_float_float(A + k * ld + i));
        store_float(top + i, most);
    }
    for (int64_t i = 0; i < n; i++) value += (double)(top[i] - (t[i] > 0 ? A[(t[i] - 1) * ld + i] : 0.0f));
    for (int64_t i = 0; i < ld; i += LANES_float) {
        vector_float most = load_float_float(top + i), sum = exp_nonpositive_float(-most);
        for (int64_t k = 0; k < C; k++) {
            vector_float e = exp_nonpositive_float(load_float_float(A + k * ld + i) - most);
            store_float(A + k * ld + i, e);
            sum += e;
        }
        store_float(total + i, sum);
        vector_float scale = 1.0f / sum;
        for (int64_t k = 0; k < C; k++) store_float(A + k * ld + i, load_float_float(A + k * ld + i) * scale);
    }
    for (int64_t i = n; i < ld; i++) total[i] = 1.0f;
    vector_double product = splat_double(1.0), logs = {0};
    EACH(i) { /* totals are at most C + 1: a logarithm for 16 of them */
        product *= load_float_double(total + i);
        if (i / LANES_double % 16 == 15) {
            logs += log_above_one(product);
            product = splat_double(1.0);
        }
    }
    value += sum_double(logs + log_above_one(product));
    for (int64_t i = 0; i < n; i++)
        if (t[i] > 0) A[(t[i] - 1) * ld + i] -= 1.0f;
    for (int64_t k = 0; k < C; k++)
        for (int64_t i = n; i < ld; i++) A[k * ld + i] = 0.0f;
    return value;
}

/* Residuals of a Hessian product: y_j (da_j - mean), with da relative to that of the likeliest class. */
LOCAL void product_residuals(
    const double *Y, double *dA, int64_t ld, int64_t C, const double *s, int64_t n, softmax_scratch w
) {
    EACH(i) {
        vector_double best = AT(w.first + i) * AT(w.scale + i), shift = {0}, mean = {0};
        for (int64_t k = 0; k < C; k++) {
            vector_double y = AT(Y + k * ld + i);
            shift = select_double(y > best, AT(dA + k * ld + i), shift);
            best = max_double(best, y);
        }
        mean = AT(w.first + i) * AT(w.scale + i) * -shift;
        for (int64_t k = 0; k < C; k++) mean += AT(Y + k * ld + i) * (AT(dA + k * ld + i) - shift);
        vector_double weight = s ? AT(s + i) : splat_double(1.0);
        for (int64_t k = 0; k < C; k++)
            store_double(dA + k * ld + i, AT(Y + k * ld + i) * ((AT(dA + k * ld + i) - shift) - mean) * weight);
    }
    for (int64_t k = 0; k < C; k++)
        for (int64_t i = n; i < ld; i++) dA[k * ld + i] = 0.0;
}

#endif
