/* Sums over rows in CSR form, two classes. */

#include "losses.h"

#define CSR_TILE 64

enum { LOGISTIC, PRODUCT, SQUARES, LONGEST, GRAM };

typedef struct {
    const void *data, *indices, *indptr;
    int64_t single, narrow, n, m; /* data are float, indices int32_t; n rows of m columns */
    const int32_t *t;
    const double *s, *offset; /* or NULL */
    const double *w;
    double b;
    const double *v; /* direction of a Hessian product, or NULL */
    double v0;
    double *g, *h, *H; /* m + 1 sums; n curvatures of rows; see each function */
    double value;
} csr_problem;

#define KIND double
#define INDEX int32_t
#include "sparse_rows.h"
#undef INDEX
#define INDEX int64_t
#include "sparse_rows.h"
#undef KIND
#define KIND float
#include "sparse_rows.h"
#undef INDEX
#define INDEX int32_t
#include "sparse_rows.h"

#define CHOOSE(f)                                                                                                          \
    (q->single ? (q->narrow ? f##_float_int32_t(q) : f##_float_int64_t(q))                                                 \
               : (q->narrow ? f##_double_int32_t(q) : f##_double_int64_t(q)))

EXPORT int NAME(csr)(csr_problem *q, int task) {
    q->value = 0.0;
    if (task == LOGISTIC) CHOOSE(csr_logistic);
    else if (task == PRODUCT) CHOOSE(csr_product);
    else if (task == SQUARES) CHOOSE(csr_squares);
    else if (task == LONGEST) CHOOSE(csr_longest);
    else if (task == GRAM) CHOOSE(csr_gram);
    else return 2;
    return 0;
}
