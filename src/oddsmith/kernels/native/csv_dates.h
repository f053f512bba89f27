/* Dates and times in delimited text, as ISO 8601 has them: 2026-01-31, 2026-01-31 05:00, 2026-01-31T05:00:00.25+01:00. */

#ifndef ODDSMITH_CSV_DATES_H
#define ODDSMITH_CSV_DATES_H

#include "texts.h"

enum { DATE = 10, TIME = 19, MOST_DIGITS = 9, MOST_DAYS = 100000 }; /* bytes of a date and of one with a time */

/* Numbers of two digits where an eight byte form has two zeros, each in the byte of its first digit; 0 if another sign differs.
   A digit exceeds the form by nine at most, other signs not at all; `limits` let what exceeds that reach the highest bit. */
INLINE int digit_pairs(const uint8_t *text, uint64_t form, uint64_t limits, uint64_t *pairs) {
    uint64_t word;
    memcpy(&word, text, SHORT);
    word ^= form;
    if (((word + limits) | word) & 0x8080808080808080u) return 0;
    *pairs = 10 * word + (word >> 8);
    return 1;
}

/* Days since 1970-01-01 of a date of ten bytes, from the year 1 on; returns 0 if it is none. */
INLINE int read_day(const uint8_t *at, int64_t *days) {
    uint64_t pairs;
    if (!digit_pairs(at, 0x2d30302d30303030u, 0x7f76767f76767676u, &pairs)) return 0; /* 0000-00- */
    const unsigned tens = (unsigned)at[8] - '0', ones = (unsigned)at[9] - '0';
    const int64_t year = (int64_t)(100 * (pairs & 0xff) + (pairs >> 16 & 0xff)), month = pairs >> 40 & 0xff;
    const int64_t day = 10 * tens + ones, leap = !(year % 4) && (year % 100 || !(year % 400));
    if (tens > 9 || ones > 9 || !year || month < 1 || month > 12 || day < 1) return 0;
    if (day > (month == 2 ? 28 + leap : 30 + ((month + (month >> 3)) & 1))) return 0;
    const int64_t since = month > 2 ? month - 3 : month + 9, y = month > 2 ? year : year - 1; /* years begin in March */
    *days = 365 * y + y / 4 - y / 100 + y / 400 + (306 * since + 5) / 10 + day - 719469;
    return 1;
}

/* Seconds of a time of five bytes (05:00) or eight; returns 0 if it is none. */
INLINE int read_clock(const uint8_t *at, int64_t length, int64_t *seconds) {
    uint8_t clock[SHORT] = "00:00:00";
    uint64_t pairs;
    if (length < SHORT) at = memcpy(clock, at, 5);
    if (!digit_pairs(at, 0x30303a30303a3030u, 0x76767f76767f7676u, &pairs)) return 0;
    const int64_t hour = pairs & 0xff, minute = pairs >> 24 & 0xff, second = pairs >> 48 & 0xff;
    *seconds = 3600 * hour + 60 * minute + second;
    return hour < 24 && minute < 60 && second < 60;
}

/* Seconds by which a zone (Z, +01, +0100 or +01:00) is ahead; returns 0 if it is none. */
static int read_zone(const uint8_t *at, int64_t length, int64_t *ahead) {
    uint8_t clock[] = "00:00";
    *ahead = 0;
    if (length == 1) return *at == 'Z';
    if ((*at != '+' && *at != '-') || length < 3 || length > 6 || length == 4) return 0;
    memcpy(clock, at + 1, 2);
    if (length > 3) memcpy(clock + 3, at + length - 2, 2);
    if (length == 6 && at[3] != ':') return 0;
    const int found = read_clock(clock, 5, ahead);
    if (*at == '-') *ahead = -*ahead;
    return found;
}

/* Read a date, or a time in ticks of ten to the power `-digits` seconds, with a zone or without; `digits` < 0: days. Returns
   0 if it is none, or has more digits. */
INLINE int read_date(const uint8_t *at, const uint8_t *last, const int64_t digits, const int zoned, int64_t *value) {
    static const int64_t TICKS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    const int64_t length = last - at;
    int64_t seconds = 0, ahead = 0, fraction = 0, days, k = 0;
    if (length < DATE || !read_day(at, &days)) return 0;
    if (digits < 0) {
        *value = days;
        return length == DATE;
    }
    if (digits == MOST_DIGITS && (days < -MOST_DAYS || days > MOST_DAYS)) return 0; /* nearly out of range */
    const uint8_t *rest = last;
    if (length > DATE) {
        if ((at[DATE] != ' ' && at[DATE] != 'T') || length < TIME - 3) return 0;
        const int64_t clock = length >= TIME && at[TIME - 3] == ':' ? SHORT : 5;
        if (!read_clock(at + DATE + 1, clock, &seconds)) return 0;
        rest = at + DATE + 1 + clock;
        if (clock == SHORT && rest < last && *rest == '.') {
            for (rest++; rest < last && k < digits && (unsigned)(*rest - '0') <= 9; rest++, k++)
                fraction = 10 * fraction + (*rest - '0');
            if (!k) return 0;
        }
    }
    if (zoned ? !(last > rest && read_zone(rest, last - rest, &ahead)) : rest < last) return 0;
    *value = (86400 * days + seconds - ahead) * TICKS[digits] + fraction * TICKS[digits - k];
    return 1;
}

#endif
