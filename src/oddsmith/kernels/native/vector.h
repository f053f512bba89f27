/* Vectors as wide as the registers of the instruction set that a file is compiled for, and names that carry its level.

   Every file but levels.c is compiled once for each level; NAME(f) is f_avx512, f_avx2 or f_baseline. */

#ifndef ODDSMITH_VECTOR_H
#define ODDSMITH_VECTOR_H

#include <stdint.h>
#include <stdlib.h>

#define GLUE_(a, b) a##_##b
#define GLUE(a, b) GLUE_(a, b)
#define NAME(f) GLUE(f, LEVEL)
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define INLINE static inline __attribute__((always_inline, unused))
#define LOCAL static __attribute__((unused)) /* not every file that includes a header uses all of it */

#if defined(__AVX512F__)
#define WIDTH 64
#define LANES_double 8
#define LANES_float 16
#elif defined(__AVX2__)
#define WIDTH 32
#define LANES_double 4
#define LANES_float 8
#else
#define WIDTH 16
#define LANES_double 2
#define LANES_float 4
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
#define LEFT 4 /* rows of a register block: 32 registers hold 4 × 4 sums, 16 registers 2 × 4 */
#else
#define LEFT 2
#endif
#if defined(__F16C__) || defined(__aarch64__)
#define HAS_HALF 1 /* half precision is converted by instructions */
#else
#define HAS_HALF 0
#endif

typedef int64_t vector_int64 __attribute__((vector_size(WIDTH)));
typedef int32_t vector_int32 __attribute__((vector_size(WIDTH)));
typedef uint64_t vector_uint64 __attribute__((vector_size(WIDTH)));
typedef float narrow_float __attribute__((vector_size(WIDTH / 2), aligned(4), may_alias));
typedef int32_t narrow_int32 __attribute__((vector_size(WIDTH / 2), aligned(4), may_alias));
typedef uint16_t half; /* the bits of a number in half precision */

/* Places in two vectors of so many lanes: interleaved (their lower halves, their upper halves), neighbours apart. */
#define LOW_2 0, 2
#define LOW_4 0, 4, 1, 5
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_2 1, 3
#define HIGH_4 2, 6, 3, 7
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVEN_2 0, 2
#define EVEN_4 EVEN_2, 4, 6
#define EVEN_8 EVEN_4, 8, 10, 12, 14
#define EVEN_16 EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_2 1, 3
#define ODD_4 ODD_2, 5, 7
#define ODD_8 ODD_4, 9, 11, 13, 15
#define ODD_16 ODD_8, 17, 19, 21, 23, 25, 27, 29, 31

#define REAL double
#define INTEGER int64
#include "lanes.h"
#define REAL float
#define INTEGER int32
#include "lanes.h"

/* load_S_R: as many numbers as a vector of R has lanes, stored as S. */
INLINE vector_double load_float_double(const float *p) {
    return __builtin_convertvector(*(const narrow_float *)p, vector_double);
}
INLINE vector_double codes(const int32_t *t) { /* class codes as numbers */
    return __builtin_convertvector(*(const narrow_int32 *)t, vector_double);
}
INLINE double number_double(double x) { return x; }
INLINE double number_float(float x) { return (double)x; }

#if HAS_HALF
#if defined(__aarch64__)
typedef __fp16 vector_half __attribute__((vector_size(WIDTH / 2), aligned(2), may_alias));
INLINE vector_float load_half_float(const half *p) { return __builtin_convertvector(*(const vector_half *)p, vector_float); }
INLINE void store_half(half *p, vector_double v) { /* LANES_double numbers */
    for (int i = 0; i < LANES_double; i++) ((__fp16 *)p)[i] = (__fp16)(float)v[i];
}
INLINE double number_half(half x) { return (double)*(const __fp16 *)&x; }
#else
#include <immintrin.h> /* compilers do not vectorise conversions of half precision without AVX512-FP16 */
#if WIDTH == 64
INLINE vector_float load_half_float(const half *p) {
    return (vector_float)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE void store_half(half *p, vector_double v) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(_mm512_cvtpd_ps((__m512d)v), 0));
}
#else
INLINE vector_float load_half_float(const half *p) {
    return (vector_float)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE void store_half(half *p, vector_double v) {
    _mm_storel_epi64((__m128i *)p, _mm_cvtps_ph(_mm256_cvtpd_ps((__m256d)v), 0));
}
#endif
INLINE double number_half(half x) { return (double)_cvtsh_ss(x); }
#endif
#endif
#define PREFETCH(p) __builtin_prefetch((p), 0, 2) /* into L2: L1 can have too few lines under way */
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Scratch memory in parts that begin with a cache line; AddressSanitizer watches a gap after each (at most 16). */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define GAP 64
#else
#define GAP 0
#endif
typedef struct {
    char *memory, *next;
    int64_t left;
} arena;
INLINE int64_t line(int64_t bytes) { return round_up(bytes, 64); }
INLINE int arena_make(arena *a, int64_t bytes) {
    a->memory = (char *)malloc((size_t)bytes + 64 + 16 * GAP);
    a->next = (char *)(((uintptr_t)a->memory + 63) & ~(uintptr_t)63);
    a->left = bytes;
    return a->memory != NULL;
}
INLINE void *arena_take(arena *a, int64_t bytes) {
    char *part = a->next;
    a->next += line(bytes) + GAP;
    a->left -= line(bytes);
#if GAP
    if (a->left < 0) abort();
    __asan_poison_memory_region(part + bytes, (size_t)(line(bytes) - bytes + GAP));
#endif
    return part;
}

#endif
