/* Which of the compiled instruction sets this processor and its operating system can run.
 *
 * Compiled once, for the baseline: it must run anywhere. Asks the processor itself, since not every compiler brings the
 * runtime behind __builtin_cpu_supports.
 */

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { BASELINE = 1, AVX2 = 2, AVX512 = 4 };

#if defined(__x86_64__)
#include <cpuid.h>

/* Register states that the operating system saves: XMM and YMM; with AVX-512 also the masks and both halves of ZMM. */
enum { YMM_STATE = 0x06, ZMM_STATE = 0xE6 };

static unsigned saved_states(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int has(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

static int levels(void)
{
    const unsigned osxsave_avx_fma_f16c = 1u << 27 | 1u << 28 | 1u << 12 | 1u << 29; /* leaf 1, ecx */
    const unsigned avx2_bmi2 = 1u << 5 | 1u << 8;                                    /* leaf 7, ebx */
    const unsigned avx512_f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;    /* leaf 7, ebx */
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, osxsave_avx_fma_f16c)) return BASELINE;
    const unsigned states = saved_states();
    if (!has(states, YMM_STATE) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has(b, avx2_bmi2)) return BASELINE;
    if (!has(states, ZMM_STATE) || !has(b, avx512_f_dq_bw_vl)) return BASELINE | AVX2;
    return BASELINE | AVX2 | AVX512;
}
#else
static int levels(void)
{
    return BASELINE;
}
#endif

/* A bit mask: 1 the baseline, 2 AVX2 with FMA, F16C and BMI2, 4 AVX-512 F, DQ, BW and VL. */
EXPORT int oddsmith_levels(void)
{
    return levels();
}
