/* Numbers in delimited text: whole numbers, and the doubles nearest to decimal ones, whose `point` is a sign of choice. */

#ifndef ODDSMITH_CSV_NUMBERS_H
#define ODDSMITH_CSV_NUMBERS_H

#include "texts.h"

#define MISSING_DOUBLE 0x7ff8000000000000 /* NaN */

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Powers of five below 2^64. */
static const uint64_t FIVES[] = {
    1u, 5u, 25u, 125u, 625u, 3125u, 15625u, 78125u, 390625u, 1953125u, 9765625u, 48828125u, 244140625u, 1220703125u, 6103515625u,
    30517578125u, 152587890625u, 762939453125u, 3814697265625u, 19073486328125u, 95367431640625u, 476837158203125u,
    2384185791015625u, 11920928955078125u, 59604644775390625u, 298023223876953125u, 1490116119384765625u, 7450580596923828125u};
#define MOST_NUMBER 1000000000000000000u /* of 18 digits, and one */
enum { MOST_FIVES = sizeof FIVES / sizeof *FIVES - 1, MOST_TENS = sizeof POWERS / sizeof *POWERS - 1 };

/* The double nearest to `number`, of up to 18 digits, over ten to the power `places`; returns 0 if that is out of range.

   A number of up to 2^53 and a power of ten up to 22 are doubles, so that their quotient is rounded once. Otherwise the first
   62 or 63 bits of the quotient by, or product with, a power of five are rounded once; the last stands for all that follow. */
static int nearest_double(uint64_t number, int64_t places, double *value) {
    if (number <= (uint64_t)1 << 53 && places >= -MOST_TENS && places <= MOST_TENS) {
        *value = places < 0 ? (double)number * POWERS[-places] : (double)number / POWERS[places];
        return 1;
    }
    *value = 0.0;
    if (!number) return 1;
    if (places < -MOST_FIVES || places > MOST_FIVES) return 0;
    const uint64_t five = FIVES[places < 0 ? -places : places];
    const int bits = 64 - __builtin_clzll(number), divisor = 64 - __builtin_clzll(five);
    unsigned __int128 kept, lost;
    int shift; /* of the bits that are kept, to the left */
    if (places >= 0) {
        shift = 62 + divisor - bits;
        const unsigned __int128 over = (unsigned __int128)number << shift;
        kept = over / five, lost = over % five;
    } else {
        const unsigned __int128 product = (unsigned __int128)number * five;
        shift = most(0, bits + divisor - 62);
        kept = product >> shift, lost = product - (kept << shift), shift = -shift;
    }
    *value = __builtin_ldexp((double)(int64_t)((uint64_t)kept | (lost != 0)), -shift - (int)places);
    return 1;
}

#define EIGHT(byte) ((uint64_t)0x0101010101010101u * (byte))

/* The number of up to eight digits in the lowest bytes of a word; 0 digits are no number. */
INLINE int short_number(uint64_t word, int64_t digits, uint64_t *number) {
    if (digits < 1) return 0;
    const int64_t shift = 8 * (SHORT - digits);
    word = shift ? word << shift | (EIGHT(0x30) & (((uint64_t)1 << shift) - 1)) : word;
    if (((word & EIGHT(0xf0)) | ((word + EIGHT(0x06)) & EIGHT(0xf0)) >> 4) != EIGHT(0x33)) return 0;
    word = (word & EIGHT(0x0f)) * 2561 >> 8;
    word = (word & 0x00ff00ff00ff00ffu) * 6553601 >> 16;
    *number = (word & 0x0000ffff0000ffffu) * 42949672960001u >> 32;
    return 1;
}

/* Read digits, at most 18 after leading zeros, on from `number`; returns where they end, or NULL if they are more. */
static const uint8_t *read_digits(const uint8_t *at, const uint8_t *end, uint64_t *number) {
    uint64_t word, eight;
    for (; end - at >= SHORT && *number < MOST_NUMBER / 100000000; at += SHORT) {
        memcpy(&word, at, SHORT);
        if (!short_number(word, SHORT, &eight)) break;
        *number = 100000000 * *number + eight;
    }
    for (; at < end && (unsigned)(*at - '0') <= 9; at++) {
        if (*number >= MOST_NUMBER / 10) return NULL;
        *number = 10 * *number + (unsigned)(*at - '0');
    }
    return at;
}

/* Read a decimal number of any length, with an exponent or not; returns 0 if it is not plain. */
static int long_decimal(const uint8_t *at, const uint8_t *end, uint8_t point, double *value) {
    uint64_t number = 0, exponent = 0;
    const uint8_t *first = at;
    int64_t places = 0, digits;
    if (!(at = read_digits(at, end, &number))) return 0;
    digits = at - first;
    if (at < end && *at == point) {
        first = ++at;
        if (!(at = read_digits(at, end, &number))) return 0;
        digits += places = at - first;
    }
    if (!digits) return 0;
    if (at < end) {
        if ((*at | 0x20) != 'e') return 0;
        at++;
        const int negative = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        if (at == end || end - at > 3 || read_digits(at, end, &exponent) != end) return 0;
        places += negative ? (int64_t)exponent : -(int64_t)exponent;
    }
    return nearest_double(number, places, value);
}

/* Read a whole number of up to 18 digits; returns 0 if it is not plain. */
static int long_whole(const uint8_t *at, const uint8_t *end, uint64_t *number) {
    *number = 0;
    return at < end && end - at <= 18 && read_digits(at, end, number) == end;
}

/* Read a number of up to eight bytes without a loop; `point` is 0 for whole numbers. */
INLINE int quick_number(const uint8_t *at, int64_t length, const uint8_t point, uint64_t *number, int64_t *places) {
    uint64_t word;
    memcpy(&word, at, SHORT);
    *places = 0;
    if (point) {
        const uint64_t other = word ^ EIGHT(point), found = (other - EIGHT(0x01)) & ~other & EIGHT(0x80);
        const int64_t place = found ? __builtin_ctzll(found) / 8 : SHORT;
        if (place < length) {
            const uint64_t before = ((uint64_t)1 << 8 * place) - 1;
            word = (word & before) | (word >> 8 & ~before);
            *places = --length - place;
        }
    }
    if (length < SHORT) word &= ((uint64_t)1 << 8 * length) - 1;
    return short_number(word, length, number);
}

/* Read a number between `at` and `last`; returns 0 if it is not plain. Signs are as likely as not: no branch depends on
   them. */
INLINE int read_number(const uint8_t *at, const uint8_t *last, const uint8_t *end, const uint8_t point, void *value) {
    uint64_t number;
    int64_t places;
    double absolute = 0.0;
    const uint64_t negative = at < last && *at == '-';
    at += negative;
    const int64_t length = last - at;
    if (length <= SHORT && end - at >= SHORT && quick_number(at, length, point, &number, &places))
        absolute = (double)number / POWERS[places];
    else if (point ? !long_decimal(at, last, point, &absolute) : !long_whole(at, last, &number))
        return 0;
    if (!point) {
        *(int64_t *)value = ((int64_t)number ^ -(int64_t)negative) + (int64_t)negative;
        return 1;
    }
    uint64_t bits;
    memcpy(&bits, &absolute, sizeof bits);
    bits |= negative << 63;
    memcpy(value, &bits, sizeof bits);
    return 1;
}

typedef uint16_t vector_uint16 __attribute__((vector_size(WIDTH)));
typedef uint32_t vector_uint32 __attribute__((vector_size(WIDTH)));
typedef uint64_t unaligned_uint64 __attribute__((vector_size(WIDTH), aligned(8), may_alias));

/* Ten to the power of numbers up to seven. */
INLINE vector_double power_of(vector_uint64 places) {
#if defined(__AVX512F__)
    return (vector_double)_mm512_permutexvar_pd((__m512i)places, _mm512_loadu_pd(POWERS));
#else
    const vector_double one = splat_double(1.0);
    vector_double power = select_double((places & 1) != 0, splat_double(1e1), one);
    power *= select_double((places & 2) != 0, splat_double(1e2), one);
    return power * select_double((places & 4) != 0, splat_double(1e4), one);
#endif
}

#define FIELDS 64 /* numbers that are read at a time */

/* The last eight bytes of some fields, their lengths without a sign, and the signs (0: positive, 1). */
typedef struct {
    uint64_t words[FIELDS] __attribute__((aligned(WIDTH))), lengths[FIELDS] __attribute__((aligned(WIDTH)));
    uint64_t negative[FIELDS] __attribute__((aligned(WIDTH)));
} number_fields;

/* Read and store the numbers of a vector of fields, from k on; not zero where one is not plain, or longer than eight bytes. */
INLINE vector_uint64 read_words(const number_fields *f, int64_t k, const uint8_t point, void *values) {
    vector_uint64 word = *(const vector_uint64 *)(f->words + k);
    const vector_uint64 length = *(const vector_uint64 *)(f->lengths + k), negative = *(const vector_uint64 *)(f->negative + k);
    const vector_uint64 own = ~(vector_uint64){0} << ((64 - 8 * length) & 56);
    vector_uint64 places = {0}, bad = (vector_uint64)(length - 1 > 7);
    word = (word & own) | (EIGHT('0') & ~own);
    if (point) { /* leave it out */
        const vector_uint64 other = word ^ EIGHT(point), found = (other - EIGHT(0x01)) & ~other & EIGHT(0x80);
        const vector_uint64 at = (found & -found) >> 7, is = (vector_uint64)(found != 0), before = (at - 1) & is;
        word = (word & ~(before | ((at << 8) - at))) | (word & before) << 8 | (is & '0');
        places = at * 0x0706050403020100u >> 56;
        bad |= is & (vector_uint64)(length == 1);
    }
    bad |= ((word & EIGHT(0xf0)) | ((word + EIGHT(0x06)) & EIGHT(0xf0)) >> 4) ^ EIGHT(0x33);
    const vector_uint64 twos = (vector_uint64)((vector_uint16)(word & EIGHT(0x0f)) * 2561 >> 8);
    const vector_uint64 fours = (vector_uint64)((vector_uint32)twos * 6553601 >> 16);
    const vector_uint64 number = (fours & 0xffffffffu) * 10000 + (fours >> 32);
    if (!point) {
        *(unaligned_uint64 *)values = (number ^ -negative) + negative;
        return bad;
    }
    const vector_double power = power_of(places);
    const vector_double value = ((vector_double)(number | 0x4330000000000000u) - 0x1p52) / power;
    *(unaligned_uint64 *)values = (vector_uint64)value | negative << 63;
    return bad;
}

INLINE int is_any(vector_uint64 bits) {
    uint64_t any = 0;
    for (int i = 0; i < LANES_double; i++) any |= bits[i];
    return any != 0;
}

#endif
