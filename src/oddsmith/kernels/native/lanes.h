/* Template over REAL and INTEGER of the same size: a register of numbers. */

#define VECTOR GLUE(vector, REAL)
#define MASK GLUE(vector, INTEGER)
#define LANES GLUE(LANES, REAL)
#define OF(f) GLUE(f, REAL)
#define SHUFFLE(a, b, which) __builtin_shufflevector(a, b, GLUE(which, LANES))

typedef REAL VECTOR __attribute__((vector_size(WIDTH)));
typedef REAL OF(unaligned) __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));

INLINE VECTOR GLUE(OF(load), REAL)(const REAL *p) { return *(const OF(unaligned) *)p; }
INLINE void OF(store)(REAL *p, VECTOR v) { *(OF(unaligned) *)p = v; }
INLINE VECTOR OF(splat)(REAL x) { return x - (VECTOR){0}; }
INLINE VECTOR OF(select)(MASK mask, VECTOR yes, VECTOR no) {
    return (VECTOR)((mask & (MASK)yes) | (~mask & (MASK)no));
}
INLINE VECTOR OF(max)(VECTOR a, VECTOR b) { return OF(select)(a < b, b, a); }

/* Sums of neighbours: those of a, then those of b. */
INLINE VECTOR OF(pairs)(VECTOR a, VECTOR b) { return SHUFFLE(a, b, EVEN) + SHUFFLE(a, b, ODD); }

INLINE double OF(sum)(VECTOR v) {
    for (int width = LANES; width > 1; width /= 2) v = OF(pairs)(v, v);
    return (double)v[0];
}

/* Transpose as many vectors as each has lanes, by interleaving again and again. */
INLINE void OF(transpose)(VECTOR *v) {
    for (int width = 1; width < LANES; width *= 2) {
        VECTOR t[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            t[2 * i] = SHUFFLE(v[i], v[i + LANES / 2], LOW);
            t[2 * i + 1] = SHUFFLE(v[i], v[i + LANES / 2], HIGH);
        }
        for (int i = 0; i < LANES; i++) v[i] = t[i];
    }
}

#undef VECTOR
#undef MASK
#undef LANES
#undef OF
#undef SHUFFLE
#undef REAL
#undef INTEGER
