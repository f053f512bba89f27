/* A stand-in until the kernels arrive: the sum of n numbers, once for each level. */

#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define JOIN_OF(name, level) name##_##level
#define JOIN(name, level) JOIN_OF(name, level)

typedef double vector __attribute__((vector_size(64)));

EXPORT double JOIN(oddsmith_sum, LEVEL)(const double *x, long long n)
{
    vector total = {0};
    double rest = 0;
    long long i = 0;
    for (; i + 8 <= n; i += 8) {
        vector part;
        memcpy(&part, x + i, sizeof part);
        total += part;
    }
    for (; i < n; i++) rest += x[i];
    for (int k = 0; k < 8; k++) rest += total[k];
    return rest;
}
