/* Times and ids from their digits, exact. */
#ifndef SPECSCOPE_NUMBERS_H
#define SPECSCOPE_NUMBERS_H

/* ---- numbers ---------------------------------------------------------------------------------- */

INLINE int is_digit(uint8_t b) { return (uint8_t)(b - '0') <= 9; }

static int same_word(Text p, size_t n, const char *word)
{
    size_t i = 0;
    for (; i < n && word[i]; i++)
        if ((p[i] | 0x20) != (uint8_t)word[i]) return 0;
    return i == n && !word[i];
}

/* inf, nan and infinity in any case, with or without a sign. */
static int is_no_number(Text p, size_t n)
{
    if (n && (*p == '-' || *p == '+')) p++, n--;
    return same_word(p, n, "inf") || same_word(p, n, "nan") || same_word(p, n, "infinity");
}

typedef struct {
    int64_t ns;
    uint16_t flags; /* ROUNDED, ODD_DECIMALS, NULLED */
    int readable;
} Time;

/* A number with an exponent: digits and where the point stands among them. */
static int with_exponent(Time *t, int negative, const uint8_t *digits, int count, int point,
                         Text p, Text end)
{
    int sign = 1, exponent = 0;
    if (p < end && (*p == '-' || *p == '+')) sign = *p++ == '-' ? -1 : 1;
    if (p >= end || end - p > 3) return 0;
    for (; p < end; p++) {
        if (!is_digit(*p)) return 0;
        exponent = exponent * 10 + (*p - '0');
    }
    point += sign * exponent;
    int64_t ns = 0;
    for (int i = 0; i < point + 3; i++) {
        uint8_t d = i < count ? digits[i] : 0;
        if (ns > MAX_MICROSECONDS * 100) return 0;
        ns = ns * 10 + d;
    }
    if (ns > MAX_MICROSECONDS * 1000) return 0;
    if (count - point > 3) {
        t->flags |= ROUNDED;
        if (point + 3 >= 0 && point + 3 < count && digits[point + 3] >= 5) ns++;
    }
    t->flags |= ODD_DECIMALS;
    t->ns = negative ? -ns : ns;
    return t->readable = 1;
}

/* Digits at `p`, at most 16 of them: how many there are, and their value. A number of more
 * digits counts 16 here and is left to the slow way. */
typedef struct {
    uint64_t value;
    int count;
} Digits;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* Eight digits, the first in the lowest byte; bytes of 0 in front count as zeros. */
INLINE uint64_t eight_digits(uint64_t w)
{
    w = (w * 10) + (w >> 8);
    return (((w & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x000F424000000064)) +
            (((w >> 16) & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x0000271000000001))) >> 32;
}

INLINE int digits_in(uint64_t w)
{
    uint64_t low = w ^ UINT64_C(0x3030303030303030);
    uint64_t odd = (low | (low + UINT64_C(0x0606060606060606))) & UINT64_C(0xF0F0F0F0F0F0F0F0);
    return odd ? __builtin_ctzll(odd) >> 3 : 8;
}

INLINE uint64_t first_digits(uint64_t w, int count)
{
    w ^= UINT64_C(0x3030303030303030);
    return count ? eight_digits(w << (64 - 8 * count)) : 0;
}

INLINE Digits read_digits(Text p, Text lim)
{
    static const uint64_t power[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000,
                                      100000000};
    Digits d = {0, 0};
    if (UNLIKELY(lim - p < 16)) {
        while (p < lim && is_digit(*p) && d.count < 16) {
            d.value = d.value * 10 + (uint64_t)(*p++ - '0');
            d.count++;
        }
        return d;
    }
    uint64_t w = load8(p);
    d.count = digits_in(w);
    d.value = first_digits(w, d.count);
    if (d.count == 8) {
        uint64_t more = load8(p + 8);
        int n = digits_in(more);
        d.value = d.value * power[n] + first_digits(more, n);
        d.count += n;
    }
    return d;
}
#else
INLINE Digits read_digits(Text p, Text lim)
{
    Digits d = {0, 0};
    while (p < lim && is_digit(*p) && d.count < 16) {
        d.value = d.value * 10 + (uint64_t)(*p++ - '0');
        d.count++;
    }
    return d;
}
#endif

/* Microseconds as text into nanoseconds, by the digits, never through a float. */
NOINLINE Time read_time(Text p, size_t n)
{
    Time t = {0, 0, 0};
    uint8_t digits[MAX_NUMBER];
    int count = 0, point = -1, negative = 0;
    if (n > MAX_NUMBER) return t;
    Text end = p + n;
    if (is_no_number(p, n)) {
        t.flags = NULLED;
        return t;
    }
    if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
    for (; p < end; p++) {
        if (is_digit(*p)) {
            digits[count++] = (uint8_t)(*p - '0');
        } else if (*p == '.' && point < 0) {
            point = count;
        } else {
            break;
        }
    }
    if (point < 0) point = count;
    if (!count) return t;
    if (p < end) {
        if (*p != 'e' && *p != 'E') return t;
        with_exponent(&t, negative, digits, count, point, p + 1, end);
        return t;
    }
    int64_t us = 0;
    for (int i = 0; i < point; i++) {
        us = us * 10 + digits[i];
        if (us > MAX_MICROSECONDS) return t;
    }
    int64_t ns = us * 1000;
    int decimals = count - point;
    for (int i = 0, scale = 100; i < 3; i++, scale /= 10)
        if (i < decimals) ns += digits[point + i] * scale;
    if (decimals > 3) {
        t.flags |= ROUNDED;
        if (digits[point + 3] >= 5) ns++;
    } else if (decimals == 1 || decimals == 2) {
        t.flags |= ODD_DECIMALS;
    }
    t.ns = negative ? -ns : ns;
    t.readable = 1;
    return t;
}

typedef struct {
    int64_t value;  /* ABSENT when it is none */
    uint16_t flags; /* NULLED, NOT_INTEGER */
} Id;

static int all_zeros(Text p, Text end)
{
    if (p >= end) return 0;
    for (; p < end; p++)
        if (*p != '0') return 0;
    return 1;
}

/* A bare word as an integer: -?digits, also with .0 behind. */
NOINLINE Id read_integer(Text p, size_t n)
{
    Id id = {ABSENT, 0};
    Text end = p + n;
    uint64_t v = 0;
    int negative = 0;
    if (n == 4 && memcmp(p, "null", 4) == 0) return id;
    if (is_no_number(p, n)) {
        id.flags = NULLED;
        return id;
    }
    id.flags = NOT_INTEGER;
    if (p < end && *p == '-') negative = 1, p++;
    Text start = p;
    for (; p < end && is_digit(*p); p++) {
        if (p - start >= 19) return id;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    if (p == start || v > (uint64_t)INT64_MAX) return id;
    if (p < end && !(*p == '.' && all_zeros(p + 1, end))) return id;
    id.flags = 0;
    id.value = negative ? -(int64_t)v : (int64_t)v;
    return id;
}

/* An integer written as a text: -?digits or 0x and up to 15 hex digits; "" is absent. */
static Id read_quoted_integer(Text p, size_t n)
{
    Id id = {ABSENT, 0};
    if (n == 0) return id;
    if (n > 2 && n <= 17 && p[0] == '0' && (p[1] | 0x20) == 'x') {
        int64_t v = 0;
        for (size_t i = 2; i < n; i++) {
            uint8_t b = p[i], low = (uint8_t)(b | 0x20);
            if (is_digit(b)) v = v * 16 + (b - '0');
            else if (low >= 'a' && low <= 'f') v = v * 16 + (low - 'a' + 10);
            else {
                id.flags = NOT_INTEGER;
                return id;
            }
        }
        id.value = v;
        return id;
    }
    if (memchr(p, '.', n) || (n == 4 && memcmp(p, "null", 4) == 0)) {
        id.flags = NOT_INTEGER;
        return id;
    }
    return read_integer(p, n);
}

#endif
