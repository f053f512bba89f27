/* Different texts and their codes, in the order in which they first occur.

   They are kept one after another in `bytes`, and looked up in a table of slots (open addressing, a power of two of
   them). Where room for one more is missing, kernels stop: whoever calls makes more and goes on. */

#ifndef ODDSMITH_TEXTS_H
#define ODDSMITH_TEXTS_H

#include <string.h>

#include "vector.h"
#if defined(__BMI2__)
#include <immintrin.h>
#endif

typedef struct {
    uint64_t key;  /* the text itself if it is short, else a hash */
    int64_t entry; /* its code and, 32 bits higher, its length; -1 if the slot is free */
} text_slot;

typedef struct {
    int64_t levels, most; /* different texts so far, and at most */
    int64_t *ends;        /* where each of them ends in `bytes` */
    uint8_t *bytes;
    int64_t room;         /* for bytes */
    text_slot *slots;
    int64_t slots_less_one;
    int64_t filled;       /* whether the slots have the levels */
} text_levels;

#define SHORT 8
#define ENTRY(code, length) ((int64_t)(code) | (int64_t)((length) > SHORT ? SHORT + 1 : (length)) << 32)
#define MIX 0x9e3779b97f4a7c15u

/* The `length` lowest bytes, eight at most. */
INLINE uint64_t lowest_bytes(uint64_t value, int64_t length) {
#if defined(__BMI2__)
    return _bzhi_u64(value, (unsigned)(8 * length));
#else
    return length < SHORT ? value & (((uint64_t)1 << 8 * length) - 1) : value;
#endif
}

/* The first `length` bytes of at most eight, as a number. */
INLINE uint64_t short_text(const uint8_t *text, int64_t length, const uint8_t *end) {
    uint64_t value = 0;
    if (end - text >= SHORT) {
        memcpy(&value, text, SHORT);
        return lowest_bytes(value, length);
    }
    memcpy(&value, text, (size_t)length);
    return value;
}

/* Spread a key over all bits: a product moves bits up only, so the upper half is folded down before and after it. */
INLINE uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 32) * MIX;
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

/* The slot where the search for a key begins, of 2^(64 - shift): the upper bits of a product depend on all bits. */
INLINE int64_t first_slot(uint64_t key, int shift) { return (int64_t)(key * MIX >> shift); }
INLINE int slot_shift(const text_levels *p) { return __builtin_clzll((unsigned long long)p->slots_less_one); }

INLINE uint64_t key_of(const uint8_t *text, int64_t length, const uint8_t *end) {
    return length <= SHORT ? short_text(text, length, end) : long_text(text, length);
}

INLINE const uint8_t *level_text(const text_levels *p, int64_t code, int64_t *length) {
    const int64_t begin = code ? p->ends[code - 1] : 0;
    *length = p->ends[code] - begin;
    return p->bytes + begin;
}

/* The slot of a text, or the free one where it belongs. */
INLINE int64_t slot_of(const text_levels *p, uint64_t key, const uint8_t *text, int64_t length) {
    int64_t slot = first_slot(key, slot_shift(p));
    for (;; slot = (slot + 1) & p->slots_less_one) {
        const int64_t entry = p->slots[slot].entry;
        if (entry < 0) return slot;
        if (p->slots[slot].key != key || entry >> 32 != ENTRY(0, length) >> 32) continue;
        int64_t known;
        const uint8_t *level = level_text(p, (int32_t)entry, &known);
        if (length <= SHORT || (known == length && !memcmp(level, text, (size_t)length))) return slot;
    }
}

/* A new text: its code, or -1 if there is no room. */
static int32_t add_level(text_levels *p, const uint8_t *text, int64_t length, uint64_t key, int64_t slot) {
    const int64_t used = p->levels ? p->ends[p->levels - 1] : 0;
    if (p->levels >= p->most || used + length > p->room) return -1;
    const int32_t code = (int32_t)p->levels++;
    memcpy(p->bytes + used, text, (size_t)length);
    p->ends[code] = used + length;
    p->slots[slot] = (text_slot){key, ENTRY(code, length)};
    return code;
}

/* Make the table of slots of the levels that are known, unless it is there. */
static void fill_slots(text_levels *p) {
    if (p->filled) return;
    p->filled = 1;
    for (int64_t slot = 0; slot <= p->slots_less_one; slot++) p->slots[slot] = (text_slot){0, -1};
    for (int64_t code = 0; code < p->levels; code++) {
        int64_t length;
        const uint8_t *text = level_text(p, code, &length);
        const uint64_t key = key_of(text, length, p->bytes + p->room);
        const int64_t slot = slot_of(p, key, text, length);
        p->slots[slot] = (text_slot){key, ENTRY(code, length)};
    }
}

/* The code of a text that is not in its first slot, which mostly is a new one; -1 if there is no room for it. `end` is that of
   the memory that may be read. */
static __attribute__((noinline, unused)) int32_t find_code(text_levels *p, const uint8_t *text, int64_t length, const uint8_t *end) {
    const uint64_t key = key_of(text, length, end);
    const int64_t slot = slot_of(p, key, text, length);
    const int32_t code = (int32_t)p->slots[slot].entry;
    return code >= 0 ? code : add_level(p, text, length, key, slot);
}

#endif
