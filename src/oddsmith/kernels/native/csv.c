/* Rows of plain delimited text as columns: whole numbers, decimal numbers, texts by code, dates.

   Plain means: fields as many as columns, quotes only around whole fields on one line, numbers of digits, a sign, a point (or a
   comma) and an exponent, dates as ISO 8601 has them. Anything else makes the kernel give up, and a reader that knows all of the format takes over. */

#include "csv_dates.h"
#include "csv_numbers.h"

enum { SKIP, WHOLE, DECIMAL, TEXT, DAYS, TIMES }; /* TIMES: seconds; then three digits more each, and a zone or none in turn */
enum { DONE, MORE_LEVELS, GIVE_UP };

typedef struct {
    void *values;        /* int64, double, or int32 codes; the least int64 and NaN where a number or a date is missing */
    text_levels *levels; /* of texts */
    int64_t kind, missing;
} csv_column;

typedef struct {
    const uint8_t *text;
    int64_t size, delimiter, point; /* of decimal numbers: a point or a comma */
    csv_column *columns;
    int64_t count;      /* of columns */
    int64_t rows, room; /* read so far, and at most */
    int64_t next;       /* byte to go on with */
    int64_t status, column;
} csv_problem;

/* Spellings of missing values, as Arrow has them. */
static int is_missing(const uint8_t *text, int64_t length) {
    static const char *const WORDS[] = {"#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
                                        "1.#QNAN", "N/A", "NA",       "NULL", "NaN",     "n/a",      "nan",  "null"};
    if (!length || (length == 2 && text[0] == 'N' && text[1] == 'A')) return 1; /* the likeliest */
    for (unsigned i = 0; i < sizeof(WORDS) / sizeof(*WORDS); i++)
        if ((int64_t)strlen(WORDS[i]) == length && !memcmp(WORDS[i], text, (size_t)length)) return 1;
    return 0;
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
    int64_t count, line_count, rows, quotes, open; /* whether quotes are open at the end */
} window_ends;

INLINE int is_line_end(uint8_t sign) { return sign == '\n' || sign == '\r'; }

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

/* Find the delimiters and line ends among `size` bytes, those outside quotes; returns 0 if a line ends within quotes, or if
   quotes are not around whole fields: one must follow a mark, the next one must come before one. */
INLINE int find_ends(const uint8_t *text, int64_t size, uint8_t delimiter, window_ends *w, const int quoted) {
    uint32_t *ends = w->ends, *line_ends = w->lines;
    int64_t count = 0, rows = 0, i = 0;
    uint64_t inside = 0, marked = 1, closed = 0; /* of the byte before */
    for (; i + STEP <= size; i += STEP) {
        uint64_t lines, found = marks(text + i, delimiter, &lines);
        if (quoted) {
            const uint64_t quotes = find_marks(text + i, '"'), within = odd_bits(quotes) ^ -inside;
            const uint64_t closing = quotes & ~within, every = ~(uint64_t)0 >> (64 - STEP);
            found &= ~within;
            if ((lines & within) | (quotes & within & ~(found << 1 | marked)) | ((closing << 1 | closed) & ~found & every)) return 0;
            inside = within >> (STEP - 1) & 1, marked = found >> (STEP - 1), closed = closing >> (STEP - 1);
        }
        for (; lines; lines &= lines - 1)
            line_ends[rows++] = (uint32_t)(count + __builtin_popcountll(found & (lines ^ (lines - 1)) >> 1));
        put_places(found, i, ends + count);
        count += __builtin_popcountll(found);
    }
    for (; i < size; i++) {
        const int line = is_line_end(text[i]), mark = line || text[i] == delimiter, quote = quoted && text[i] == '"';
        if ((inside && line) || (closed && !mark) || (quote && !inside && !marked)) return 0;
        closed = quote && inside, inside ^= (uint64_t)quote, marked = mark && !inside;
        if (line) line_ends[rows++] = (uint32_t)count;
        if (marked) ends[count++] = (uint32_t)i;
    }
    w->count = count, w->line_count = rows, w->open = (int64_t)inside;
    return 1;
}

static int64_t count_signs(const uint8_t *text, int64_t size, uint8_t sign) {
    int64_t count = 0, i = 0;
    for (; i + STEP <= size; i += STEP) count += __builtin_popcountll(find_marks(text + i, sign));
    for (; i < size; i++) count += text[i] == sign;
    return count;
}

/* Field j of a row of a window: where it begins and ends, without quotes around it. */
INLINE const uint8_t *field(const uint8_t *text, const window_ends *w, int64_t row, int64_t j, const uint8_t **at) {
    const int64_t k = w->row_ends[row] + j;
    const uint8_t *first = text + (j ? w->ends[k - 1] + 1 : w->row_bytes[row]), *last = text + w->ends[k];
    const int64_t quote = w->quotes && first < last && *first == '"';
    *at = first + quote;
    return last - quote;
}

/* Read field j of some rows as numbers, one at a time; `point` is 0 for whole numbers. */
INLINE int64_t read_singly(
    csv_column *c, int64_t j, int64_t *values, int64_t i, int64_t end, const uint8_t *text, const csv_problem *p,
    const window_ends *w, const uint8_t point
) {
    for (; i < end; i++) {
        const uint8_t *at, *last = field(text, w, i, j, &at);
        if (read_number(at, last, p->text + p->size, point, values + i)) continue;
        if (!is_missing(at, last - at)) return GIVE_UP;
        values[i] = point ? MISSING_DOUBLE : INT64_MIN;
        c->missing++;
    }
    return DONE;
}

/* Read field j of the rows of a window as numbers, mostly many at a time: their bytes are collected first, since a vector that
   is made of single numbers takes longer than what it is for. */
INLINE int64_t read_numbers(
    csv_column *c, int64_t j, int64_t row, const uint8_t *text, const csv_problem *p, const window_ends *w, const uint8_t point
) {
    const int64_t lanes = LANES_double, first = text - p->text < SHORT ? least(SHORT, w->rows) : 0;
    int64_t *values = (int64_t *)c->values + row, i = first; /* before the first rows there are no eight bytes */
    int64_t status = read_singly(c, j, values, 0, first, text, p, w, point);
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
        for (int64_t l = 0; l < n; l += lanes) bad |= read_words(&f, l, point, values + i + l);
        if (is_any(bad))
            for (int64_t l = 0; l < n && status == DONE; l++) {
                if (l % lanes == 0) bad = read_words(&f, l, point, values + i + l);
                if (bad[l % lanes]) status = read_singly(c, j, values, i + l, i + l + 1, text, p, w, point);
            }
        i += n;
    }
    return status == DONE ? read_singly(c, j, values, i, w->rows, text, p, w, point) : status;
}

/* Read field j of the rows of a window as dates or times. */
static int64_t read_dates(csv_column *c, int64_t j, int64_t row, const uint8_t *text, const window_ends *w) {
    const int64_t digits = c->kind == DAYS ? -1 : (c->kind - TIMES) / 2 * 3;
    int64_t *values = (int64_t *)c->values + row;
    for (int64_t i = 0; i < w->rows; i++) {
        const uint8_t *at, *last = field(text, w, i, j, &at);
        if (read_date(at, last, digits, (c->kind - TIMES) & 1, values + i)) continue;
        if (!is_missing(at, last - at)) return GIVE_UP;
        values[i] = INT64_MIN;
        c->missing++;
    }
    return DONE;
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
    if (c->kind == DECIMAL && p->point == ',') return read_numbers(c, j, row, text, p, w, ',');
    if (c->kind == DECIMAL) return read_numbers(c, j, row, text, p, w, '.');
    if (c->kind == WHOLE) return read_numbers(c, j, row, text, p, w, 0);
    if (c->kind >= DAYS) return read_dates(c, j, row, text, w);
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
    if (whole && w->open) p->status = GIVE_UP;
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
