/* Texts become codes: a code for each different text, in the order in which they first occur.

   The different texts so far are kept one after another in `bytes`, and looked up in a table of slots (open addressing,
   a power of two of them). Where room for one more is missing, the kernel stops: whoever calls makes more and goes on. */

#include <string.h>

#include "vector.h"

typedef struct {
    int64_t n, next;        /* texts, and the one to go on with */
    const void *offsets;    /* n + 1 */
    int64_t wide;           /* whether these are of 64 bits, or 32 */
    const uint8_t *data;
    int64_t size;           /* of data */
    const uint8_t *valid;   /* bits, from `first` on; NULL: none is missing */
    int64_t first;
    void *codes;            /* -1 where a text is missing */
    int64_t width;          /* of codes, in bytes: 1, 2 or 4 */
    int64_t levels, most;   /* different texts so far, and at most */
    int64_t *ends, *counts; /* of each different text: where it ends in `bytes`, and how often it is there */
    int64_t missing;
    uint8_t *bytes;
    int64_t room;           /* for bytes */
    uint64_t *keys;         /* of the slots: the text itself if it is short, else a hash */
    int64_t *slots;         /* the code in a slot and, 32 bits higher, the length of its text; -1 if it is free */
    int64_t slots_less_one;
} texts_problem;

#define SHORT 8
#define COPIES 4 /* of counts of few levels: a count must not wait for the one before */
#define FEW 128
#define ENTRY(code, length) ((int64_t)(code) | (int64_t)((length) > SHORT ? SHORT + 1 : (length)) << 32)
#define MIX 0x9e3779b97f4a7c15u

/* The first `length` bytes of at most eight, as a number. */
INLINE uint64_t short_text(const uint8_t *text, int64_t length, const uint8_t *end) {
    uint64_t value = 0;
    if (end - text >= SHORT) {
        memcpy(&value, text, SHORT);
        return length < SHORT ? value & (((uint64_t)1 << 8 * length) - 1) : value;
    }
    memcpy(&value, text, (size_t)length);
    return value;
}

INLINE uint64_t mixed(uint64_t x) {
    x *= MIX;
    return x ^ x >> 32;
}

static uint64_t long_text(const uint8_t *text, int64_t length) {
    uint64_t hash = (uint64_t)length, word;
    for (int64_t i = 0; i + SHORT < length; i += SHORT) {
        memcpy(&word, text + i, SHORT);
        hash = mixed(hash ^ word) * MIX;
    }
    memcpy(&word, text + length - SHORT, SHORT);
    return mixed(hash ^ word) * MIX;
}

INLINE uint64_t key_of(const uint8_t *text, int64_t length, const uint8_t *end) {
    return length <= SHORT ? short_text(text, length, end) : long_text(text, length);
}

INLINE const uint8_t *level_text(const texts_problem *p, int64_t code, int64_t *length) {
    const int64_t begin = code ? p->ends[code - 1] : 0;
    *length = p->ends[code] - begin;
    return p->bytes + begin;
}

/* The slot of a text, or the free one where it belongs. */
INLINE int64_t slot_of(const texts_problem *p, uint64_t key, const uint8_t *text, int64_t length) {
    int64_t slot = (int64_t)(mixed(key ^ (uint64_t)length << 56) & (uint64_t)p->slots_less_one);
    for (;; slot = (slot + 1) & p->slots_less_one) {
        const int64_t entry = p->slots[slot];
        if (entry < 0) return slot;
        if (p->keys[slot] != key || entry >> 32 != ENTRY(0, length) >> 32) continue;
        int64_t known;
        const uint8_t *level = level_text(p, (int32_t)entry, &known);
        if (length <= SHORT || (known == length && !memcmp(level, text, (size_t)length))) return slot;
    }
}

/* A new text: its code, or -1 if there is no room. */
static int32_t add_level(texts_problem *p, const uint8_t *text, int64_t length, uint64_t key, int64_t slot) {
    const int64_t used = p->levels ? p->ends[p->levels - 1] : 0;
    if (p->levels >= p->most || used + length > p->room) return -1;
    const int32_t code = (int32_t)p->levels++;
    memcpy(p->bytes + used, text, (size_t)length);
    p->ends[code] = used + length, p->counts[code] = 0;
    p->keys[slot] = key, p->slots[slot] = ENTRY(code, length);
    return code;
}

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
            int64_t slot = (int64_t)(mixed(key ^ (uint64_t)length << 56) & (uint64_t)last);                                \
            int32_t code = (int32_t)slots[slot];                                                                           \
            if (keys[slot] != key || length > SHORT || slots[slot] >> 32 != length) {                                      \
                slot = slot_of(p, key, text, length);                                                                      \
                code = (int32_t)slots[slot];                                                                               \
                if (code < 0 && (code = add_level(p, text, length, key, slot)) < 0) break;                                 \
            }                                                                                                              \
            if (sizeof(CODE) == 1)                                                                                         \
                few[i % COPIES][code]++;                                                                                   \
            else                                                                                                           \
                counts[code]++;                                                                                            \
            codes[i] = (CODE)code;                                                                                         \
        }                                                                                                                  \
    } while (0)

EXPORT int NAME(texts)(texts_problem *p) {
    const uint8_t *data = p->data, *end = data + p->size, *valid = p->valid;
    const int64_t n = p->n, first = p->first, last = p->slots_less_one;
    const uint64_t *keys = p->keys;
    const int64_t *slots = p->slots;
    int64_t i = p->next, missing = 0, *counts = p->counts, few[COPIES][FEW] = {{0}};
    for (int64_t slot = 0; slot <= last; slot++) p->slots[slot] = -1;
    for (int64_t code = 0; code < p->levels; code++) {
        int64_t length;
        const uint8_t *text = level_text(p, code, &length);
        const uint64_t key = key_of(text, length, p->bytes + p->room);
        const int64_t slot = slot_of(p, key, text, length);
        p->keys[slot] = key, p->slots[slot] = ENTRY(code, length);
    }
    if (p->wide) {
        if (p->width == 1) FIND(int8_t, int64_t);
        else if (p->width == 2) FIND(int16_t, int64_t);
        else FIND(int32_t, int64_t);
    } else {
        if (p->width == 1) FIND(int8_t, int32_t);
        else if (p->width == 2) FIND(int16_t, int32_t);
        else FIND(int32_t, int32_t);
    }
    for (int64_t code = 0; p->width == 1 && code < p->levels; code++)
        for (int copy = 0; copy < COPIES; copy++) counts[code] += few[copy][code];
    p->next = i;
    p->missing += missing;
    return 0;
}
