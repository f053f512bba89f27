/* Rows of plain delimited text as columns: whole numbers, decimal numbers, texts by code.

   Plain means: fields as many as columns, quotes only around whole fields on one line, numbers of digits, a sign, a point and an
   exponent. Anything else makes the kernel give up, and a reader that knows all of the format takes over. */

#include "texts.h"

enum { SKIP, WHOLE, DECIMAL, TEXT };
enum { DONE, MORE_LEVELS, GIVE_UP };

typedef struct {
    void *values;        /* int64, double, or int32 codes; the least int64 and NaN where a number is missing */
    text_levels *levels; /* of texts */
    int64_t kind, missing;
} csv_column;

typedef struct {
    const uint8_t *text;
    int64_t size, delimiter;
    csv_column *columns;
    int64_t count;      /* of columns */
    int64_t rows, room; /* read so far, and at most */
    int64_t next;       /* byte to go on with */
    int64_t status, column;
} csv_problem;

#define MISSING_DOUBLE 0x7ff8000000000000 /* NaN */

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Spellings of missing values, as Arrow has them. */
static int is_missing(const uint8_t *text, int64_t length) {
    static const char *const WORDS[] = {"",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
                                        "1.#QNAN", "N/A", "NA",       "NULL", "NaN",     "n/a",      "nan",  "null"};
    for (unsigned i = 0; i < sizeof(WORDS) / sizeof(*WORDS); i++)
        if ((int64_t)strlen(WORDS[i]) == length && !memcmp(WORDS[i], text, (size_t)length)) return 1;
    return 0;
}

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
static int long_decimal(const uint8_t *at, const uint8_t *end, double *value) {
    uint64_t number = 0, exponent = 0;
    const uint8_t *first = at;
    int64_t places = 0, digits;
    if (!(at = read_digits(at, end, &number))) return 0;
    digits = at - first;
    if (at < end && *at == '.') {
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

/* Read a number of up to eight bytes without a loop. */
INLINE int quick_number(const uint8_t *at, int64_t length, int decimal, uint64_t *number, int64_t *places) {
    uint64_t word;
    memcpy(&word, at, SHORT);
    *places = 0;
    if (decimal) {
        const uint64_t other = word ^ EIGHT('.'), found = (other - EIGHT(0x01)) & ~other & EIGHT(0x80);
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
INLINE int read_number(const uint8_t *at, const uint8_t *last, const uint8_t *end, const int decimal, void *value) {
    uint64_t number;
    int64_t places;
    double absolute = 0.0;
    const uint64_t negative = at < last && *at == '-';
    at += negative;
    const int64_t length = last - at;
    if (length <= SHORT && end - at >= SHORT && quick_number(at, length, decimal, &number, &places))
        absolute = (double)number / POWERS[places];
    else if (decimal ? !long_decimal(at, last, &absolute) : !long_whole(at, last, &number))
        return 0;
    if (!decimal) {
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
INLINE vector_uint64 read_words(const number_fields *f, int64_t k, const int decimal, void *values) {
    vector_uint64 word = *(const vector_uint64 *)(f->words + k);
    const vector_uint64 length = *(const vector_uint64 *)(f->lengths + k), negative = *(const vector_uint64 *)(f->negative + k);
    const vector_uint64 own = ~(vector_uint64){0} << ((64 - 8 * length) & 56);
    vector_uint64 places = {0}, bad = (vector_uint64)(length - 1 > 7);
    word = (word & own) | (EIGHT('0') & ~own);
    if (decimal) { /* leave out the point */
        const vector_uint64 other = word ^ EIGHT('.'), found = (other - EIGHT(0x01)) & ~other & EIGHT(0x80);
        const vector_uint64 point = (found & -found) >> 7, is = (vector_uint64)(found != 0), before = (point - 1) & is;
        word = (word & ~(before | ((point << 8) - point))) | (word & before) << 8 | (is & '0');
        places = point * 0x0706050403020100u >> 56;
        bad |= is & (vector_uint64)(length == 1);
    }
    bad |= ((word & EIGHT(0xf0)) | ((word + EIGHT(0x06)) & EIGHT(0xf0)) >> 4) ^ EIGHT(0x33);
    const vector_uint64 twos = (vector_uint64)((vector_uint16)(word & EIGHT(0x0f)) * 2561 >> 8);
    const vector_uint64 fours = (vector_uint64)((vector_uint32)twos * 6553601 >> 16);
    const vector_uint64 number = (fours & 0xffffffffu) * 10000 + (fours >> 32);
    if (!decimal) {
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

#define WINDOW 16384 /* bytes whose field ends are found at a time */
#define AHEAD 16     /* places may be written by so many, whatever their number: a loop of any length is hard to predict */

#if defined(__AVX512BW__)
#include <immintrin.h>
#define STEP 64
INLINE uint64_t find_marks(const uint8_t *at, uint8_t sign) {
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(at), _mm512_set1_epi8((char)sign));
}
INLINE void put_places(uint64_t found, int64_t first, uint32_t *places) {
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int i = 0; i < STEP; i += AHEAD, found >>= AHEAD) {
        const __m512i all = _mm512_add_epi32(steps, _mm512_set1_epi32((int)first + i));
        _mm512_storeu_si512(places, _mm512_maskz_compress_epi32((__mmask16)found, all));
        places += __builtin_popcountll(found & 0xffff);
    }
}
#elif defined(__SSE2__)
#include <immintrin.h>
#define STEP 16
INLINE uint64_t find_marks(const uint8_t *at, uint8_t sign) {
    const __m128i same = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8((char)sign));
    return (uint64_t)(unsigned)_mm_movemask_epi8(same);
}
#else
#define STEP 8
INLINE uint64_t find_marks(const uint8_t *at, uint8_t sign) {
    uint64_t found = 0;
    for (int i = 0; i < STEP; i++) found |= (uint64_t)(at[i] == sign) << i;
    return found;
}
#endif

#if !defined(__AVX512BW__)
INLINE void put_places(uint64_t found, int64_t first, uint32_t *places) {
    for (; found; places += AHEAD / 2)
        for (int k = 0; k < AHEAD / 2; k++, found &= found - 1)
            places[k] = (uint32_t)(first + __builtin_ctzll(found | (uint64_t)1 << 63));
}
#endif

/* The ends of fields in a window, as places in it, which of them are line ends, and where its rows begin: their first
   bytes, and the ends of their first fields. */
typedef struct {
    uint32_t ends[WINDOW + AHEAD], lines[WINDOW], row_bytes[WINDOW], row_ends[WINDOW];
    int64_t count, line_count, rows, quotes;
} window_ends;

/* Delimiters and line ends, as bits. */
INLINE uint64_t marks(const uint8_t *at, uint8_t delimiter, uint64_t *lines) {
    *lines = find_marks(at, '\n') | find_marks(at, '\r');
    return *lines | find_marks(at, delimiter);
}

/* For each bit, whether the bits up to it are an odd number. */
INLINE uint64_t odd_bits(uint64_t x) {
    for (int shift = 1; shift < STEP; shift *= 2) x ^= x << shift;
    return x;
}

/* Find the delimiters and line ends among `size` bytes, those outside quotes; returns 0 if a line ends within quotes. */
INLINE int find_ends(const uint8_t *text, int64_t size, uint8_t delimiter, window_ends *w, const int quoted) {
    uint32_t *ends = w->ends, *line_ends = w->lines;
    int64_t count = 0, rows = 0, i = 0;
    uint64_t inside = 0;
    for (; i + STEP <= size; i += STEP) {
        uint64_t lines, found = marks(text + i, delimiter, &lines);
        if (quoted) {
            const uint64_t within = odd_bits(find_marks(text + i, '"')) ^ -inside;
            if (lines & within) return 0;
            found &= ~within, inside = within >> (STEP - 1) & 1;
        }
        for (; lines; lines &= lines - 1)
            line_ends[rows++] = (uint32_t)(count + __builtin_popcountll(found & (lines ^ (lines - 1)) >> 1));
        put_places(found, i, ends + count);
        count += __builtin_popcountll(found);
    }
    for (; i < size; i++) {
        const int line = text[i] == '\n' || text[i] == '\r';
        inside ^= quoted && text[i] == '"';
        if (inside && line) return 0;
        if (line) line_ends[rows++] = (uint32_t)count;
        if (!inside && (line || text[i] == delimiter)) ends[count++] = (uint32_t)i;
    }
    w->count = count, w->line_count = rows;
    return 1;
}

static int64_t count_signs(const uint8_t *text, int64_t size, uint8_t sign) {
    int64_t count = 0, i = 0;
    for (; i + STEP <= size; i += STEP) count += __builtin_popcountll(find_marks(text + i, sign));
    for (; i < size; i++) count += text[i] == sign;
    return count;
}

INLINE int is_line_end(uint8_t sign) { return sign == '\n' || sign == '\r'; }

/* Field j of a row of a window: where it begins and ends, without quotes around it. */
INLINE const uint8_t *field(const uint8_t *text, const window_ends *w, int64_t row, int64_t j, const uint8_t **at) {
    const int64_t k = w->row_ends[row] + j;
    const uint8_t *first = text + (j ? w->ends[k - 1] + 1 : w->row_bytes[row]), *last = text + w->ends[k];
    const int64_t quote = w->quotes && first < last && *first == '"';
    *at = first + quote;
    return last - quote;
}

/* Whether all quotes of the rows of a window, which has some, are those around whole fields. */
static int quotes_are_around(const uint8_t *text, int64_t read, const window_ends *w, int64_t fields) {
    int64_t around = 0;
    for (int64_t row = 0; row < w->rows; row++)
        for (int64_t j = 0; j < fields; j++) {
            const uint8_t *at, *last = field(text, w, row, j, &at);
            if (at > text && at <= last && at[-1] == '"' && *last == '"') around += 2;
        }
    return around == count_signs(text, read, '"');
}

/* Read field j of some rows as numbers, one at a time. */
INLINE int64_t read_singly(
    csv_column *c, int64_t j, int64_t *values, int64_t i, int64_t end, const uint8_t *text, const csv_problem *p,
    const window_ends *w, const int decimal
) {
    for (; i < end; i++) {
        const uint8_t *at, *last = field(text, w, i, j, &at);
        if (read_number(at, last, p->text + p->size, decimal, values + i)) continue;
        if (!is_missing(at, last - at)) return GIVE_UP;
        values[i] = decimal ? MISSING_DOUBLE : INT64_MIN;
        c->missing++;
    }
    return DONE;
}

/* Read field j of the rows of a window as numbers, mostly many at a time: their bytes are collected first, since a vector that
   is made of single numbers takes longer than what it is for. */
INLINE int64_t read_numbers(
    csv_column *c, int64_t j, int64_t row, const uint8_t *text, const csv_problem *p, const window_ends *w, const int decimal
) {
    const int64_t lanes = LANES_double, first = text - p->text < SHORT ? least(SHORT, w->rows) : 0;
    int64_t *values = (int64_t *)c->values + row, i = first; /* before the first rows there are no eight bytes */
    int64_t status = read_singly(c, j, values, 0, first, text, p, w, decimal);
    number_fields f;
    while (i + lanes <= w->rows && status == DONE) {
        const int64_t n = least(FIELDS, w->rows - i) / lanes * lanes;
        for (int64_t l = 0; l < n; l++) {
            const uint8_t *at, *last = field(text, w, i + l, j, &at);
            const uint64_t negative = at < last && *at == '-';
            memcpy(f.words + l, last - SHORT, SHORT);
            f.negative[l] = negative, f.lengths[l] = (uint64_t)(last - at) - negative;
        }
        vector_uint64 bad = {0};
        for (int64_t l = 0; l < n; l += lanes) bad |= read_words(&f, l, decimal, values + i + l);
        if (is_any(bad))
            for (int64_t l = 0; l < n && status == DONE; l += lanes)
                if (is_any(read_words(&f, l, decimal, values + i + l)))
                    status = read_singly(c, j, values, i + l, i + l + lanes, text, p, w, decimal);
        i += n;
    }
    return status == DONE ? read_singly(c, j, values, i, w->rows, text, p, w, decimal) : status;
}

/* Read field j of the rows of a window as texts; `inside` says that eight bytes may be read of each. */
INLINE int64_t read_texts(
    csv_column *c, int64_t j, int64_t row, const uint8_t *text, const csv_problem *p, const window_ends *w, const int inside
) {
    text_levels *levels = c->levels;
    const text_slot *slots = levels->slots;
    const int shift = slot_shift(levels);
    const uint8_t *end = p->text + p->size;
    int32_t *restrict codes = (int32_t *)c->values + row;
    for (int64_t i = 0; i < w->rows; i++) {
        const uint8_t *at, *last = field(text, w, i, j, &at);
        const int64_t length = last - at;
        if (inside && length <= SHORT) {
            uint64_t key;
            memcpy(&key, at, SHORT);
            key = lowest_bytes(key, length);
            const text_slot *slot = slots + first_slot(key, shift);
            const int64_t entry = slot->entry;
            codes[i] = (int32_t)entry;
            if (slot->key == key && entry >> 32 == length) continue;
        }
        if ((codes[i] = find_code(levels, at, length, end)) < 0) return MORE_LEVELS;
    }
    return DONE;
}

/* Read field j of the rows of a window, which begin with row `row` of the column; returns the status. */
INLINE int64_t read_column(
    csv_column *c, int64_t j, int64_t row, const uint8_t *text, int64_t size, const csv_problem *p, const window_ends *w
) {
    if (c->kind == DECIMAL) return read_numbers(c, j, row, text, p, w, 1);
    if (c->kind == WHOLE) return read_numbers(c, j, row, text, p, w, 0);
    if (c->kind == SKIP) return DONE;
    if (p->text + p->size - (text + size) >= SHORT) return read_texts(c, j, row, text, p, w, 1);
    return read_texts(c, j, row, text, p, w, 0);
}

/* Find the rows of a window; return its bytes up to their end. The last row of all may lack its line end. */
INLINE int64_t find_rows(csv_problem *p, const uint8_t *text, int64_t size, int whole, window_ends *w) {
    const int64_t fields = p->count;
    int64_t at = 0, k = 0, line = 0, rows = 0;
    if (whole && size && !is_line_end(text[size - 1])) { /* as if it had one */
        w->lines[w->line_count++] = (uint32_t)w->count;
        w->ends[w->count++] = (uint32_t)size;
    }
    for (; line < w->line_count; line++) {
        const int64_t last = w->lines[line];
        if (last == k && w->ends[k] == at) { /* an empty line, or the line feed after a carriage return */
            at++, k++;
            continue;
        }
        if (last != k + fields - 1) { /* fields too many or too few */
            p->status = GIVE_UP;
            break;
        }
        w->row_bytes[rows] = (uint32_t)at, w->row_ends[rows++] = (uint32_t)k;
        at = w->ends[last] + 1, k += fields;
    }
    w->rows = rows;
    if (p->rows + rows > p->room) p->status = GIVE_UP;
    return least(at, size);
}

/* Read the rows of a window, column by column; return its bytes that were read: none if one does not succeed. */
INLINE int64_t read_window(csv_problem *p, const uint8_t *text, int64_t size, int whole, window_ends *w) {
    const int64_t read = find_rows(p, text, size, whole, w);
    if (w->quotes && p->status == DONE && !quotes_are_around(text, read, w, p->count)) p->status = GIVE_UP;
    for (int64_t j = 0; j < p->count && p->status == DONE; j++) {
        p->status = read_column(p->columns + j, j, p->rows, text, size, p, w);
        p->column = j;
    }
    if (p->status != DONE) return 0;
    p->rows += w->rows;
    return read;
}

/* Read the rows from `next` on; without columns, count line ends. */
EXPORT int NAME(csv)(csv_problem *p) {
    if (!p->columns) {
        p->rows = count_signs(p->text, p->size, '\n');
        if (!p->rows) p->rows = count_signs(p->text, p->size, '\r');
        return 0;
    }
    window_ends *ends = malloc(sizeof *ends);
    if (!ends) return 1;
    for (int64_t j = 0; j < p->count; j++)
        if (p->columns[j].kind == TEXT) fill_slots(p->columns[j].levels);
    p->status = DONE;
    while (p->next < p->size && p->status == DONE) {
        const int64_t size = least(WINDOW, p->size - p->next), whole = p->next + size == p->size;
        const uint8_t *text = p->text + p->next;
        const uint8_t delimiter = (uint8_t)p->delimiter;
        const int found = (ends->quotes = count_signs(text, size, '"')) ? find_ends(text, size, delimiter, ends, 1)
                                                                        : find_ends(text, size, delimiter, ends, 0);
        const int64_t read = found ? read_window(p, text, size, (int)whole, ends) : 0;
        if (!read && p->status == DONE) p->status = GIVE_UP; /* a row longer than a window, or with too few fields */
        p->next += read;
    }
    free(ends);
    return 0;
}
