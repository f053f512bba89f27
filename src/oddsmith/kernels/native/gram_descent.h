/* Coordinate descent on the products of a gram_step_problem, a block of columns after the other. */

enum { BLOCK = 64, MANY_PRODUCTS = 1 << 14 }; /* columns of a block of the descent, and products that a team adds */

typedef struct {
    const gram_step_problem *q;
    double *slope;
    int64_t first, last, count, parts;
    const float *rows[BLOCK]; /* of G, `count` of them */
    float steps[BLOCK];
} block_job;

/* slope += the rows of G times their steps, in a part of the columns outside the block. */
static void add_some_rows(const void *job, int64_t part) {
    const block_job *b = job;
    const int64_t m = b->q->columns.count, from = m * part / b->parts, to = m * (part + 1) / b->parts;
    const int64_t ends[2] = {least(to, b->first), to}, starts[2] = {from, most(from, b->last)};
    for (int side = 0; side < 2; side++)
        for (int64_t c = 0; c < b->count; c += 4) {
            const float *r0 = b->rows[c], *r1 = b->rows[c + 1], *r2 = b->rows[c + 2], *r3 = b->rows[c + 3], *s = b->steps + c;
            const float s0 = s[0], s1 = s[1], s2 = s[2], s3 = s[3];
            for (int64_t k = starts[side]; k < ends[side]; k++)
                b->slope[k] += (double)(s0 * r0[k] + s1 * r1[k] + s2 * r2[k] + s3 * r3[k]);
        }
}

/* Descend over the columns of a block in turn; their steps move the slopes of the others at the end. Returns the largest gain. */
static double descend_block(const gram_step_problem *q, const scratch *z, double negligible, int all, block_job *b) {
    double most = 0.0;
    b->count = 0;
    for (int64_t j = b->first; j < b->last; j++) {
        const double d = q->diagonal[j], old = z->x[j];
        if ((!all && !z->bound[j]) || !(d > 0.0)) continue;
        const double to = d * old - z->slope[j], size = fabs(to) - z->penalty[j];
        const double new = size > 0.0 ? copysign(size, to) / d : 0.0, step = new - old;
        z->bound[j] = new != 0.0;
        if (step == 0.0 || (d * step * step < negligible && (new != 0.0 || old == 0.0))) continue;
        z->x[j] = new;
        const float *row = q->G + j * q->stride;
        for (int64_t k = b->first; k < b->last; k++) z->slope[k] += step * row[k];
        b->rows[b->count] = row, b->steps[b->count++] = (float)step;
        if (d * step * step > most) most = d * step * step;
    }
    if (!b->count) return most;
    b->parts = b->count * q->columns.count < MANY_PRODUCTS ? 1 : ROW_PARTS;
    for (; b->count % 4; b->count++) b->rows[b->count] = b->rows[0], b->steps[b->count] = 0.0f;
    team_run(b->parts == 1 ? NULL : q->team, add_some_rows, b, b->parts);
    return most;
}

/* Coordinate descent on the products; z->slope is that at z->x, z->bound the columns that are not zero. A coordinate that
   would gain less than `negligible` stays, unless it becomes zero. Returns the number of sweeps after which no coordinate
   gains more than `gain`, 0 if there is none. */
static int descend(const gram_step_problem *q, const scratch *z, double gain, double negligible, int sweeps) {
    const int64_t m = q->columns.count;
    memset(z->bound, 0, (size_t)m);
    for (int done = 0, all = 1; done < sweeps; done++) {
        double most = 0.0;
        for (int64_t first = 0; first < m; first += BLOCK) {
            block_job block = {.q = q, .slope = z->slope, .first = first, .last = least(m, first + BLOCK)};
            most = fmax(most, descend_block(q, z, negligible, all, &block));
        }
        if (most <= gain && all) return done + 1;
        all = most <= gain;
    }
    return 0;
}
