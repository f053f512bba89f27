/* Texts become codes: a code for each different text, in the order in which they first occur. */

#include "texts.h"

#define COPIES 4 /* of counts of few levels: a count must not wait for the one before */
#define FEW 128

typedef struct {
    int64_t n, next;      /* texts, and the one to go on with */
    const void *offsets;  /* n + 1 */
    int64_t wide;         /* whether these are of 64 bits, or 32 */
    const uint8_t *data;
    int64_t size;         /* of data */
    const uint8_t *valid; /* bits, from `first` on; NULL: none is missing */
    int64_t first;
    void *codes;          /* -1 where a text is missing */
    int64_t width;        /* of codes, in bytes: 1, 2 or 4 */
    int64_t *counts;      /* of each different text; zeros at first */
    int64_t missing;
    text_levels levels;
} texts_problem;

/* Find the codes of the texts from `next` on; stop where room is missing. Fields are read once: codes of one byte could be
   any of them, for all that a compiler knows. */
#define FIND(CODE, OFFSET)                                                                                                 \
    do {                                                                                                                   \
        const OFFSET *offsets = p->offsets;                                                                                \
        CODE *codes = p->codes;                                                                                            \
        for (; i < n; i++) {                                                                                               \
            if (valid && !(valid[(first + i) >> 3] >> ((first + i) & 7) & 1)) {                                            \
                codes[i] = -1;                                                                                             \
                missing++;                                                                                                 \
                continue;                                                                                                  \
            }                                                                                                              \
            const int64_t length = offsets[i + 1] - offsets[i];                                                            \
            const uint8_t *text = data + offsets[i];                                                                       \
            const uint64_t key = key_of(text, length, end);                                                                \
            int64_t slot = first_slot(key, shift);                                                                         \
            int32_t code = (int32_t)slots[slot].entry;                                                                     \
            if (slots[slot].key != key || length > SHORT || slots[slot].entry >> 32 != length) {                           \
                slot = slot_of(levels, key, text, length);                                                                      \
                code = (int32_t)slots[slot].entry;                                                                         \
                if (code < 0 && (code = add_level(levels, text, length, key, slot)) < 0) break;                                 \
            }                                                                                                              \
            if (sizeof(CODE) == 1)                                                                                         \
                few[i % COPIES][code]++;                                                                                   \
            else                                                                                                           \
                counts[code]++;                                                                                            \
            codes[i] = (CODE)code;                                                                                         \
        }                                                                                                                  \
    } while (0)

EXPORT int NAME(texts)(texts_problem *p) {
    text_levels *levels = &p->levels;
    const uint8_t *data = p->data, *end = data + p->size, *valid = p->valid;
    const int64_t n = p->n, first = p->first;
    const int shift = slot_shift(levels);
    const text_slot *slots = levels->slots;
    int64_t i = p->next, missing = 0, *counts = p->counts, few[COPIES][FEW] = {{0}};
    fill_slots(levels);
    if (p->wide) {
        if (p->width == 1) FIND(int8_t, int64_t);
        else if (p->width == 2) FIND(int16_t, int64_t);
        else FIND(int32_t, int64_t);
    } else {
        if (p->width == 1) FIND(int8_t, int32_t);
        else if (p->width == 2) FIND(int16_t, int32_t);
        else FIND(int32_t, int32_t);
    }
    for (int64_t code = 0; p->width == 1 && code < levels->levels; code++)
        for (int copy = 0; copy < COPIES; copy++) counts[code] += few[copy][code];
    p->next = i;
    p->missing += missing;
    return 0;
}

#define RECODE(FROM, TO)                                                                                                   \
    for (int64_t k = 0; k < parts; k++) {                                                                                  \
        const int32_t *place = places[k];                                                                                  \
        for (int64_t i = rows[k]; i < rows[k + 1]; i++) {                                                                  \
            const int32_t code = place[((const FROM *)codes)[i]];                                                          \
            ((TO *)found)[i] = (TO)code;                                                                                   \
            if (counts) sums[(i & (COPIES - 1)) * apart + code + 1]++;                                                     \
        }                                                                                                                  \
    }
#define RECODE_FROM(FROM)                                                                                                  \
    do {                                                                                                                   \
        if (to == 1) RECODE(FROM, int8_t)                                                                                  \
        else if (to == 2) RECODE(FROM, int16_t)                                                                            \
        else RECODE(FROM, int32_t)                                                                                         \
    } while (0)

/* Other codes for codes, `from` and `to` bytes wide (1, 2 or 4); none is negative. Part k of the rows, from rows[k] on, has
   its own places. If there are `counts`, of `levels` + 1, the new codes are counted, from -1 on. */
EXPORT int NAME(recode)(
    int64_t parts, const int64_t *rows, const int32_t *const *places, const void *codes, int64_t from, void *found, int64_t to,
    int64_t levels, int64_t *counts
) {
    int64_t few[COPIES][FEW] = {{0}}, *sums = levels < FEW ? few[0] : counts;
    const int64_t apart = levels < FEW ? FEW : 0;
    if (from == 1) RECODE_FROM(int8_t);
    else if (from == 2) RECODE_FROM(int16_t);
    else RECODE_FROM(int32_t);
    for (int64_t code = 0; counts && levels < FEW && code <= levels; code++)
        for (int copy = 0; copy < COPIES; copy++) counts[code] += few[copy][code];
    return 0;
}

#define COUNT(CODE)                                                                                                        \
    for (; levels < FEW && i + COPIES <= n; i += COPIES) { /* a mask keeps a code out of range from other memory */        \
        for (int copy = 0; copy < COPIES; copy++) {                                                                        \
            const uint64_t entry = (uint64_t)((int64_t)((const CODE *)codes)[i + copy] + 1);                               \
            beyond |= entry > (uint64_t)levels;                                                                            \
            few[copy][entry & (FEW - 1)]++;                                                                                \
        }                                                                                                                  \
    }                                                                                                                      \
    for (; i < n; i++) {                                                                                                   \
        const int64_t code = ((const CODE *)codes)[i];                                                                     \
        if (code < -1 || code >= levels) return 2;                                                                         \
        if (levels < FEW) few[i % COPIES][code + 1]++;                                                                     \
        else counts[code + 1]++;                                                                                           \
    }

/* Count the codes, from -1 on, of `width` bytes; a code out of range is an error. */
EXPORT int NAME(count)(int64_t n, const void *codes, int64_t width, int64_t levels, int64_t *counts) {
    int64_t few[COPIES][FEW] = {{0}}, i = 0, beyond = 0;
    if (width == 1) {
        COUNT(int8_t)
    } else if (width == 2) {
        COUNT(int16_t)
    } else {
        COUNT(int32_t)
    }
    if (beyond) return 2;
    for (int64_t code = 0; levels < FEW && code <= levels; code++)
        for (int copy = 0; copy < COPIES; copy++) counts[code] += few[copy][code];
    return 0;
}

/* Whether each of n texts comes after the one before, in the order of their bytes. */
EXPORT int NAME(ascending)(int64_t n, const void *offsets, int64_t wide, const char *data, int64_t *found) {
    *found = 1;
    for (int64_t i = 0, last = 0, size = 0; i < n && *found; i++) {
        const int64_t begin = wide ? ((const int64_t *)offsets)[i] : ((const int32_t *)offsets)[i];
        const int64_t end = wide ? ((const int64_t *)offsets)[i + 1] : ((const int32_t *)offsets)[i + 1];
        const int order = __builtin_memcmp(data + last, data + begin, (size_t)least(size, end - begin));
        *found = !i || order < 0 || (order == 0 && size < end - begin);
        last = begin, size = end - begin;
    }
    return 0;
}
