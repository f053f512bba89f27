/* The instruction sets of this machine, as bits: 1 baseline, 2 AVX2 with FMA and F16C, 4 AVX-512. */

#include "vector.h"

#if defined(__x86_64__)
#include <cpuid.h>

static int has(unsigned word, int bit) { return (word >> bit) & 1; }

EXPORT int oddsmith_levels(void) {
    unsigned a, b, c, d, low, high, leaf7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, 27) || !has(c, 12) || !has(c, 28) || !has(c, 29)) return 1;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* which registers the operating system saves */
    if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &leaf7, &c, &d) || !has(leaf7, 5) || !has(leaf7, 8)) return 1;
    int wide = has(leaf7, 16) && has(leaf7, 17) && has(leaf7, 30) && has(leaf7, 31) && (low & 0xe0) == 0xe0;
    return wide ? 7 : 3;
}
#else
EXPORT int oddsmith_levels(void) { return 1; }
#endif
