/* exp and log for vectors. Errors are at most 2 units in the last place (tests/kernels/test_functions.py).

   exp(x) = 2^k exp(r), |r| <= log(2) / 2; log(m) = 2 artanh((m - 1) / (m + 1)), m between the roots of 1/2 and 2. The
   polynomials are Chebyshev fits on these intervals. */

#ifndef ODDSMITH_FUNCTIONS_H
#define ODDSMITH_FUNCTIONS_H

#include "vector.h"

#define LOG2E 0x1.71547652b82fep+0
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define ROUND 0x1.8p52 /* adding it rounds to an integer, in the lowest bits */

/* exp(x) for x <= 0; results below the normal numbers have the digits that such numbers have. */
INLINE vector_double exp_nonpositive(vector_double x) {
    x = select_double(x < -746.0, splat_double(-746.0), x);
    vector_double shifted = x * LOG2E + ROUND, k = shifted - ROUND;
    vector_double r = (x - k * LN2_HIGH) - k * LN2_LOW, r2 = r * r, r4 = r2 * r2;
    vector_double a = 0x1.0000000000001p-1 + r * 0x1.5555555555556p-3, b = 0x1.5555555553d63p-5 + r * 0x1.11111111109b3p-7;
    vector_double c = 0x1.6c16c1788bd90p-10 + r * 0x1.a01a01a7c41d5p-13, d = 0x1.a019b90d2ae7ap-16 + r * 0x1.71de0dae63bb3p-19;
    vector_double e = 0x1.289185613a3d6p-22 + r * 0x1.af38a9b0ec855p-26;
    vector_double series = 1.0 + (r + r2 * ((a + r2 * b) + r4 * ((c + r2 * d) + r4 * e)));
    vector_int64 deep = k < -1000.0; /* 2^k in two steps: the first stays normal */
    vector_int64 power = (vector_int64)shifted + (deep & 64) + 1023;
    return series * (vector_double)(power << 52) * select_double(deep, splat_double(0x1p-64), splat_double(1.0));
}

/* The same in single precision, zero below -87. */
INLINE vector_float exp_nonpositive_float(vector_float x) {
    const float round = 0x1.8p23f;
    vector_int32 zero = x < -87.0f;
    x = select_float(zero, splat_float(-87.0f), x);
    vector_float shifted = x * (float)LOG2E + round, k = shifted - round;
    vector_float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    vector_float high = (0x1.555518p-5f + r * 0x1.120be2p-7f) + r * r * 0x1.6d117cp-10f;
    vector_float series = 1.0f + (r + r * r * ((0.5f + r * 0x1.5554dcp-3f) + r * r * high));
    vector_float value = series * (vector_float)(((vector_int32)shifted + 127) << 23);
    return select_float(zero, splat_float(0.0f), value);
}

/* 2 artanh(z), |z| <= 0.1716. */
INLINE vector_double log_series(vector_double z) {
    vector_double w = z * z, w2 = w * w;
    vector_double a = 0x1.5555555555558p-1 + w * 0x1.99999999952d8p-2, b = 0x1.2492492df26cep-2 + w * 0x1.c71c62e40b94ep-3;
    vector_double c = 0x1.7462b5152e8a6p-3 + w * 0x1.39fe52a20dc69p-3;
    return 2.0 * z + z * w * ((a + w2 * b) + w2 * w2 * (c + w2 * 0x1.2b58f4c8d5f63p-3));
}

/* log(1 + e) for 0 <= e <= 1. */
INLINE vector_double log1p_unit(vector_double e) {
    vector_int64 over = e > 0x1.a827999fcef32p-2; /* then log(2) + log((1 + e) / 2) */
    vector_double f = select_double(over, e - 1.0, e), to = select_double(over, splat_double(3.0), splat_double(2.0));
    vector_double part = log_series(f / (to + e));
    return select_double(over, LN2_HIGH + (part + LN2_LOW), part);
}

/* log(x) for normal x >= 1. */
INLINE vector_double log_above_one(vector_double x) {
    vector_int64 bits = (vector_int64)x - 0x3fe6a09e667f3bcd; /* less the root of 1/2 */
    vector_int64 power = (vector_int64)((vector_uint64)bits >> 52);
    vector_double m = (vector_double)((vector_int64)x - (power << 52));
    vector_double k = (vector_double)(power | 0x4330000000000000) - 0x1p52;
    return k * LN2_HIGH + (log_series((m - 1.0) / (m + 1.0)) + k * LN2_LOW) + (x - x); /* NaN stays NaN */
}

#endif
