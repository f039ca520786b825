/* The native scanner: trace events as text into flat columns, in one pass.
 *
 * The grammar ("T1" below) is specified in docs/design/scanner.md and implemented a second
 * time in scan_pure.py; tests/fuzz compares the two. Only events are read here: documents,
 * headers, repairs and losses are the business of scan.py, which is shared by both readers.
 *
 * A Scanner reads one stretch of a text into rows, without the interpreter lock and without
 * Python objects. A Columns collects the rows of many scans, in the order they are given.
 * So several scanners can read ahead in threads, and what was read on a wrong guess is
 * simply not collected.
 *
 * Every read is bounded by `lim`: the text may be a mapped file with nothing behind it.
 */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(__SSE2__)
#include <emmintrin.h>
#define HAVE_SSE2 1
#else
#define HAVE_SSE2 0
#endif

#if defined(__GNUC__)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
#else
#define LIKELY(x) (x)
#define UNLIKELY(x) (x)
#define INLINE static inline
#define NOINLINE static
#endif

typedef const uint8_t *Text;

/* ---- the contract of events.py and scan.py ---------------------------------------------- */

#define ABSENT INT64_MIN
#define TEXT_ID_BASE (-((int64_t)1 << 40))

enum {
    HAS_TS = 1,
    HAS_DUR = 2,
    QUOTED_NUMBER = 4,
    NEGATIVE_DUR = 8,
    ROUNDED = 16,
    ODD_DECIMALS = 32,
    DUPLICATE_KEY = 128,
    NULLED = 256,
    NOT_INTEGER = 512
};

/* How a scan ended; the numbers are shared with scan.py. */
enum {
    STOPPED = 0,  /* before an event at or after `stop` */
    ARRAY_END = 1, /* at the closing bracket */
    TEXT_END = 2, /* the text ended between events */
    MORE = 3,     /* the buffer ended, the text did not */
    BAD = 4,      /* at an event that T1 does not accept */
    GARBAGE = 5,  /* at something that is not an event */
    SUSPECT = 6   /* at an event that T1 accepts and that garbage follows */
};

#define MAX_EVENT ((size_t)16 << 20)
#define MAX_DEPTH 512
#define MAX_NUMBER 64
#define MAX_MICROSECONDS INT64_C(9000000000000000)
/* Names a scanner has met are forgotten when they take more than this. */
#define MAX_SCANNER_NAMES ((size_t)32 << 20)

/* ---- growing memory ---------------------------------------------------------------------- */

static void *grown(void *old, size_t *capacity, size_t needed, size_t item)
{
    size_t cap = *capacity ? *capacity : 64;
    while (cap < needed) {
        if (cap > SIZE_MAX / 2 / item) return NULL;
        cap += cap / 2 + 64;
    }
    void *fresh = realloc(old, cap * item);
    if (fresh) *capacity = cap;
    return fresh;
}

typedef struct {
    uint8_t *data;
    size_t len, cap;
} Bytes;

static int bytes_reserve(Bytes *b, size_t more)
{
    if (b->cap - b->len >= more) return 1;
    uint8_t *fresh = grown(b->data, &b->cap, b->len + more, 1);
    if (!fresh) return 0;
    b->data = fresh;
    return 1;
}

static int bytes_add(Bytes *b, const void *p, size_t n)
{
    if (!bytes_reserve(b, n)) return 0;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    return 1;
}

/* ---- interning ---------------------------------------------------------------------------- */

typedef struct {
    uint64_t hash;
    size_t at;
    size_t len;
    uint64_t count; /* free for the owner of the table */
    int32_t code;   /* likewise */
} Entry;

typedef struct {
    uint64_t *slots; /* upper half of the hash, entry number + 1 */
    size_t mask;
    Entry *entries;
    size_t n, cap;
    Bytes text;
    uint64_t seed;
} Table;

INLINE uint64_t load8(Text p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

INLINE uint64_t mixed(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 wide;
    wide m = (wide)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
#else
    uint64_t m = (a ^ (b << 32 | b >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return (m ^ (m >> 29)) * (b | 1);
#endif
}

/* Seeded, so that a file cannot be made whose names all collide. */
INLINE uint64_t hash_of(Text p, size_t n, uint64_t seed)
{
    uint64_t h = seed ^ n;
    if (LIKELY(n >= 8)) {
        Text last = p + n - 8;
        for (; p < last; p += 8) h = mixed(h ^ load8(p), UINT64_C(0xA0761D6478BD642F));
        h = mixed(h ^ load8(last), UINT64_C(0xE7037ED1A0B428DB));
    } else {
        uint64_t v = 0;
        for (size_t i = 0; i < n; i++) v = v << 8 | p[i];
        h = mixed(h ^ v, UINT64_C(0xE7037ED1A0B428DB));
    }
    return h ^ (h >> 32);
}

static void table_clear(Table *t)
{
    if (t->slots) memset(t->slots, 0, (t->mask + 1) * sizeof *t->slots);
    t->n = 0;
    t->text.len = 0;
}

static void table_free(Table *t)
{
    free(t->slots);
    free(t->entries);
    free(t->text.data);
    memset(t, 0, sizeof *t);
}

static int table_rehash(Table *t)
{
    size_t size = t->slots ? (t->mask + 1) * 2 : 256;
    uint64_t *slots = calloc(size, sizeof *slots);
    if (!slots) return 0;
    for (size_t i = 0; i < t->n; i++) {
        size_t at = (size_t)t->entries[i].hash & (size - 1);
        while (slots[at]) at = (at + 1) & (size - 1);
        slots[at] = (t->entries[i].hash >> 32 << 32) | (uint32_t)(i + 1);
    }
    free(t->slots);
    t->slots = slots;
    t->mask = size - 1;
    return 1;
}

/* The number of the text in the table, or -1 when memory or 31-bit numbers ran out. */
INLINE int32_t intern_hashed(Table *t, Text p, size_t n, uint64_t hash)
{
    if (UNLIKELY(!t->slots || t->n * 2 > t->mask) && !table_rehash(t)) return -1;
    size_t at = (size_t)hash & t->mask;
    for (uint64_t slot; (slot = t->slots[at]) != 0; at = (at + 1) & t->mask) {
        if ((slot ^ hash) >> 32) continue;
        size_t i = (size_t)(uint32_t)slot - 1;
        const Entry *e = &t->entries[i];
        if (e->hash == hash && e->len == n && memcmp(t->text.data + e->at, p, n) == 0)
            return (int32_t)i;
    }
    if (t->n >= INT32_MAX - 1) return -1;
    if (t->n == t->cap) {
        Entry *fresh = grown(t->entries, &t->cap, t->n + 1, sizeof *fresh);
        if (!fresh) return -1;
        t->entries = fresh;
    }
    size_t start = t->text.len;
    if (!bytes_add(&t->text, p, n)) return -1;
    if (!t->text.data && !bytes_reserve(&t->text, 1)) return -1;
    t->entries[t->n] = (Entry){.hash = hash, .at = start, .len = n, .count = 0, .code = -1};
    t->slots[at] = (hash >> 32 << 32) | (uint32_t)(t->n + 1);
    return (int32_t)t->n++;
}

INLINE int32_t intern(Table *t, Text p, size_t n)
{
    return intern_hashed(t, p, n, hash_of(p, n, t->seed));
}

/* ---- rows and the scanner ------------------------------------------------------------------ */

typedef struct {
    int64_t pid, tid, ts, dur;
    int64_t correlation, device, stream, graph_node, bytes, external_id;
    int64_t offset;
    int32_t cat, name;
    uint16_t flags;
    uint8_t ph;
    uint8_t pid_is_text, tid_is_text;
} Row;

/* Field by field: a copy of a constant would become a slow block move. */
INLINE void clear_row(Row *row)
{
    row->pid = row->tid = row->ts = ABSENT;
    row->dur = row->offset = 0;
    row->correlation = row->device = row->stream = ABSENT;
    row->graph_node = row->bytes = row->external_id = ABSENT;
    row->cat = row->name = -1;
    row->flags = 0;
    row->ph = row->pid_is_text = row->tid_is_text = 0;
}

typedef struct {
    size_t row;
    Text at;
    size_t len;
} ArgsSpan;

typedef struct {
    PyObject_HEAD
    /* options */
    int all_frames;
    Bytes needles;      /* joined */
    size_t *needle_end; /* end of each in `needles` */
    size_t needle_count;
    /* the last scan; `view` is held while `spans` point into it */
    Py_buffer view;
    int has_view;
    int busy;
    Row *rows;
    size_t n, cap;
    ArgsSpan *spans;
    size_t span_n, span_cap;
    uint64_t events;
    uint64_t event_bytes;
    uint64_t odd_separators;
    int64_t first_odd;
    uint64_t dropped_without_cat;
    /* over scans */
    Table cats, names, texts;
    Bytes scratch;
    int out_of_memory;
} Scanner;

/* What failed inside an event. */
typedef enum { FINE = 0, RAN_OUT, BROKEN } Fault;

typedef struct {
    Text p;   /* cursor */
    Text lim; /* nothing at or after it may be read */
    Fault fault;
} Cursor;

INLINE int fail(Cursor *c, Fault fault)
{
    c->fault = fault;
    return 0;
}

/* Blanks: every byte up to 0x20. Returns 0 at the end of the text. */
INLINE int skip_blanks(Cursor *c)
{
    Text p = c->p;
    while (p < c->lim && *p <= 0x20) p++;
    c->p = p;
    return p < c->lim ? 1 : fail(c, RAN_OUT);
}

/* From behind an opening quote to behind the closing one; *escaped tells of backslashes. */
INLINE int skip_string(Cursor *c, int *escaped)
{
    Text p = c->p, lim = c->lim;
#if HAVE_SSE2
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    while (lim - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        unsigned hits = (unsigned)_mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)));
        if (!hits) {
            p += 16;
            continue;
        }
        p += __builtin_ctz(hits);
        if (LIKELY(*p == '"')) {
            c->p = p + 1;
            return 1;
        }
        *escaped = 1;
        if (lim - p < 2) return fail(c, RAN_OUT);
        p += 2;
    }
#endif
    while (p < lim) {
        if (*p == '"') {
            c->p = p + 1;
            return 1;
        }
        if (*p == '\\') {
            *escaped = 1;
            if (lim - p < 2) break;
            p++;
        }
        p++;
    }
    return fail(c, RAN_OUT);
}

/* 1 for bytes that end a bare word. */
static uint8_t ends_bare[256];

static void fill_ends_bare(void)
{
    memset(ends_bare, 0, sizeof ends_bare);
    for (int i = 0; i <= 0x20; i++) ends_bare[i] = 1;
    for (const char *s = ",:{}[]\""; *s; s++) ends_bare[(uint8_t)*s] = 1;
}

/* Where the bare word at `p` ends; `lim` when it does not before. */
INLINE Text bare_end(Text p, Text lim)
{
#if HAVE_SSE2
    while (lim - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i f = _mm_or_si128(v, _mm_set1_epi8(0x20));
        __m128i blank = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x20)), v);
        __m128i comma = _mm_cmpeq_epi8(v, _mm_set1_epi8(','));
        __m128i colon = _mm_cmpeq_epi8(v, _mm_set1_epi8(':'));
        __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
        __m128i open = _mm_cmpeq_epi8(f, _mm_set1_epi8('{'));
        __m128i close = _mm_cmpeq_epi8(f, _mm_set1_epi8('}'));
        unsigned hits = (unsigned)_mm_movemask_epi8(
            _mm_or_si128(_mm_or_si128(_mm_or_si128(blank, comma), _mm_or_si128(colon, quote)),
                         _mm_or_si128(open, close)));
        if (LIKELY(hits)) return p + __builtin_ctz(hits);
        p += 16;
    }
#endif
    while (p < lim && !ends_bare[*p]) p++;
    return p;
}

INLINE int skip_bare(Cursor *c)
{
    Text start = c->p, p = bare_end(start, c->lim);
    c->p = p;
    if (UNLIKELY(p >= c->lim)) return fail(c, RAN_OUT);
    return LIKELY(p > start) ? 1 : fail(c, BROKEN);
}

/* From an opening bracket to behind its closing one; kinds of brackets are not told apart. */
static int skip_brackets(Cursor *c, int depth)
{
    Text p = c->p, lim = c->lim;
    int base = depth, unused = 0;
#if HAVE_SSE2
    const __m128i quote = _mm_set1_epi8('"'), fold = _mm_set1_epi8(0x20);
    const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}');
    while (lim - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i f = _mm_or_si128(v, fold);
        unsigned hits = (unsigned)_mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(v, quote),
                         _mm_or_si128(_mm_cmpeq_epi8(f, open), _mm_cmpeq_epi8(f, close))));
        Text block = p;
        p += 16;
        while (hits) {
            Text at = block + __builtin_ctz(hits);
            hits &= hits - 1;
            uint8_t b = *at;
            if (b == '"') {
                c->p = at + 1;
                if (!skip_string(c, &unused)) return 0;
                if (c->p >= block + 16) {
                    p = c->p;
                    break;
                }
                hits &= ~0u << (c->p - block);
            } else if ((b | 0x20) == '{') {
                if (++depth > MAX_DEPTH) return fail(c, BROKEN);
            } else if (--depth == base) {
                c->p = at + 1;
                return 1;
            }
        }
    }
#endif
    while (p < lim) {
        uint8_t b = *p++;
        if (b == '"') {
            c->p = p;
            if (!skip_string(c, &unused)) return 0;
            p = c->p;
        } else if ((b | 0x20) == '{') {
            if (++depth > MAX_DEPTH) return fail(c, BROKEN);
        } else if ((b | 0x20) == '}') {
            if (--depth == base) {
                c->p = p;
                return 1;
            }
        }
    }
    return fail(c, RAN_OUT);
}

typedef struct {
    Text p;
    Fault fault;
} Outcome;

/* Out of line, with a cursor of its own: the caller's stays in registers. */
NOINLINE Outcome container_outcome(Text p, Text lim, int depth)
{
    Cursor own = {p, lim, FINE};
    skip_brackets(&own, depth);
    return (Outcome){own.p, own.fault};
}

INLINE int skip_container(Cursor *c, int depth)
{
    Outcome out = container_outcome(c->p, c->lim, depth);
    c->p = out.p;
    c->fault = out.fault;
    return out.fault == FINE;
}

#if HAVE_SSE2
typedef struct {
    uint64_t quotes, slashes, opens, closes;
} Masks;

INLINE Masks masks_of(Text p)
{
    Masks m = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(p + 16 * i));
        __m128i f = _mm_or_si128(v, _mm_set1_epi8(0x20));
#define MASK(x, byte) \
    ((uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8(byte))) << (16 * i))
        m.quotes |= MASK(v, '"');
        m.slashes |= MASK(v, '\\');
        m.opens |= MASK(f, '{');
        m.closes |= MASK(f, '}');
#undef MASK
    }
    return m;
}
#endif

/* As skip_container at depth 1, 64 bytes at a time: for args that nobody wants. Where a
 * backslash turns up, skip_container does it all, from the start. */
NOINLINE Outcome unwanted_outcome(Text start, Text lim)
{
#if HAVE_SSE2
    uint64_t inside = 0; /* all ones while a text is open */
    int depth = 1;
    for (Text p = start; lim - p >= 64; p += 64) {
        Masks m = masks_of(p);
        if (UNLIKELY(m.slashes)) break;
        uint64_t in = m.quotes;
        for (int i = 1; i < 64; i <<= 1) in ^= in << i;
        in ^= inside;
        inside = (uint64_t)((int64_t)in >> 63);
        uint64_t closes = m.closes & ~in, opens = m.opens & ~in, both = opens | closes;
        while (both) {
            uint64_t bit = both & (~both + 1);
            both ^= bit;
            if (bit & opens) {
                if (++depth > MAX_DEPTH) return (Outcome){p, BROKEN};
            } else if (--depth == 1) {
                return (Outcome){p + __builtin_ctzll(bit) + 1, FINE};
            }
        }
    }
#endif
    return container_outcome(start, lim, 1);
}

/* `depth` counts the brackets that are open around the value. */
INLINE int skip_value(Cursor *c, int depth)
{
    uint8_t b = *c->p;
    if (b == '"') {
        int unused = 0;
        c->p++;
        return skip_string(c, &unused);
    }
    if (b == '{' || b == '[') return skip_container(c, depth);
    return skip_bare(c);
}

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

/* ---- texts ---------------------------------------------------------------------------------- */

static int hex4(Text p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t b = p[i], low = (uint8_t)(b | 0x20);
        if (is_digit(b)) v = v * 16 + (b - '0');
        else if (low >= 'a' && low <= 'f') v = v * 16 + (low - 'a' + 10);
        else return -1;
    }
    return v;
}

static uint8_t *put_utf8(uint8_t *out, uint32_t v)
{
    if (v < 0x80) {
        *out++ = (uint8_t)v;
    } else if (v < 0x800) {
        *out++ = (uint8_t)(0xC0 | v >> 6);
        *out++ = (uint8_t)(0x80 | (v & 63));
    } else if (v < 0x10000) {
        *out++ = (uint8_t)(0xE0 | v >> 12);
        *out++ = (uint8_t)(0x80 | (v >> 6 & 63));
        *out++ = (uint8_t)(0x80 | (v & 63));
    } else {
        *out++ = (uint8_t)(0xF0 | v >> 18);
        *out++ = (uint8_t)(0x80 | (v >> 12 & 63));
        *out++ = (uint8_t)(0x80 | (v >> 6 & 63));
        *out++ = (uint8_t)(0x80 | (v & 63));
    }
    return out;
}

/* Without its escapes, into `out`. A backslash that begins no escape stays a backslash;
 * half a surrogate pair becomes U+FFFD. The result is never longer than the input. */
static int unescape(Bytes *out, Text p, size_t n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    out->len = 0;
    if (!bytes_reserve(out, n + 1)) return 0;
    uint8_t *o = out->data;
    Text end = p + n;
    while (p < end) {
        if (*p != '\\' || end - p < 2) {
            *o++ = *p++;
            continue;
        }
        const char *known = p[1] ? strchr(from, p[1]) : NULL;
        if (known) {
            *o++ = (uint8_t)to[known - from];
            p += 2;
            continue;
        }
        int v = p[1] == 'u' && end - p >= 6 ? hex4(p + 2) : -1;
        if (v < 0) {
            *o++ = *p++;
            continue;
        }
        p += 6;
        if (v >= 0xD800 && v < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
            int low = hex4(p + 2);
            if (low >= 0xDC00 && low < 0xE000) {
                p += 6;
                o = put_utf8(o, 0x10000u + (((uint32_t)v - 0xD800u) << 10) +
                                    ((uint32_t)low - 0xDC00u));
                continue;
            }
        }
        o = put_utf8(o, v >= 0xD800 && v < 0xE000 ? 0xFFFDu : (uint32_t)v);
    }
    out->len = (size_t)(o - out->data);
    return 1;
}

typedef struct {
    Text at;
    size_t len;
    int escaped;
    int there; /* a text, and not something else or nothing */
} Span;

INLINE int32_t intern_span(Scanner *s, Table *t, const Span *span)
{
    int32_t i;
    if (UNLIKELY(span->escaped)) {
        if (!unescape(&s->scratch, span->at, span->len)) goto none;
        i = intern(t, s->scratch.data, s->scratch.len);
    } else {
        i = intern(t, span->at, span->len);
    }
    if (LIKELY(i >= 0)) return i;
none:
    s->out_of_memory = 1;
    return -1;
}

static int holds(Text p, size_t n, Text needle, size_t m)
{
    if (m == 0) return 1;
    while (n >= m) {
        Text at = memchr(p, needle[0], n - m + 1);
        if (!at) return 0;
        if (memcmp(at, needle, m) == 0) return 1;
        n -= (size_t)(at + 1 - p);
        p = at + 1;
    }
    return 0;
}

/* Does the name hold one of the needles? Asked once per distinct name; entry.count keeps
 * the answer: 0 not asked, 1 no, 2 yes. */
static int frame_wanted(Scanner *s, int32_t name)
{
    Entry *e = &s->names.entries[name];
    if (!e->count) {
        e->count = 1;
        size_t start = 0;
        for (size_t i = 0; i < s->needle_count && e->count == 1; i++) {
            size_t end = s->needle_end[i];
            if (holds(s->names.text.data + e->at, e->len, s->needles.data + start, end - start))
                e->count = 2;
            start = end;
        }
    }
    return e->count == 2;
}

/* ---- one event -------------------------------------------------------------------------------- */

typedef enum {
    K_OTHER, K_PH, K_CAT, K_NAME, K_PID, K_TID, K_TS, K_DUR, K_ARGS, K_NOT_EVENT,
    A_CORRELATION, A_DEVICE, A_STREAM, A_GRAPH_NODE, A_BYTES, A_EXTERNAL, A_COLLECTIVE
} Key;

#define IS(word) (memcmp(k, word, sizeof(word) - 1) == 0)

static Key event_key(Text k, size_t n)
{
    switch (n) {
    case 2: return IS("ph") ? K_PH : IS("ts") ? K_TS : K_OTHER;
    case 3:
        return IS("cat") ? K_CAT : IS("pid") ? K_PID : IS("tid") ? K_TID : IS("dur") ? K_DUR
                                                                                 : K_OTHER;
    case 4: return IS("name") ? K_NAME : IS("args") ? K_ARGS : K_OTHER;
    case 11: return IS("traceEvents") ? K_NOT_EVENT : K_OTHER;
    case 13: return IS("schemaVersion") ? K_NOT_EVENT : K_OTHER;
    default: return K_OTHER;
    }
}

INLINE Key args_key(Text k, size_t n)
{
    switch (n) {
    case 5: return IS("bytes") || IS("Bytes") ? A_BYTES : K_OTHER;
    case 6: return IS("device") ? A_DEVICE : IS("stream") ? A_STREAM : K_OTHER;
    case 11:
        return IS("correlation") ? A_CORRELATION
               : IS("External id") || IS("external id") ? A_EXTERNAL
                                                         : K_OTHER;
    case 13: return IS("graph node id") ? A_GRAPH_NODE : K_OTHER;
    case 15: return IS("Collective name") ? A_COLLECTIVE : K_OTHER;
    default: return K_OTHER;
    }
}

#define WORD4(a, b, c, d) \
    ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* A key of the common sort with its quote, read at a glance; its length, 0: something else. */
INLINE size_t glance(Text k, Key *key)
{
    uint32_t w = WORD4(k[0], k[1], k[2], k[3]);
    switch (w) {
    case WORD4('c', 'a', 't', '"'): *key = K_CAT; return 3;
    case WORD4('p', 'i', 'd', '"'): *key = K_PID; return 3;
    case WORD4('t', 'i', 'd', '"'): *key = K_TID; return 3;
    case WORD4('d', 'u', 'r', '"'): *key = K_DUR; return 3;
    case WORD4('n', 'a', 'm', 'e'): *key = K_NAME; return k[4] == '"' ? 4 : 0;
    case WORD4('a', 'r', 'g', 's'): *key = K_ARGS; return k[4] == '"' ? 4 : 0;
    case WORD4('p', 'h', '"', ':'): *key = K_PH; return 2;
    case WORD4('t', 's', '"', ':'): *key = K_TS; return 2;
    default: return 0;
    }
}

/* The key behind the quote at the cursor, its colon and blanks; the cursor ends on the value. */
INLINE int read_key(Scanner *s, Cursor *c, int in_args, Key *key)
{
    int escaped = 0;
    Text k = c->p;
    size_t n = !in_args && LIKELY(c->lim - k > 8) ? glance(k, key) : 0;
    if (LIKELY(n)) {
        c->p = k + n + 1;
        goto colon;
    }
    if (!skip_string(c, &escaped)) return 0;
    n = (size_t)(c->p - 1 - k);
    if (UNLIKELY(escaped)) {
        *key = K_OTHER;
        if (n <= 96) { /* six letters an escape, and no key we know is longer than 15 */
            if (!unescape(&s->scratch, k, n)) return fail(c, BROKEN);
            k = s->scratch.data;
            n = s->scratch.len;
            *key = in_args ? args_key(k, n) : event_key(k, n);
        }
    } else {
        *key = in_args ? args_key(k, n) : event_key(k, n);
    }
colon:
    if (LIKELY(c->lim - c->p > 2 && c->p[0] == ':')) {
        c->p++;
        if (*c->p == ' ') c->p++;
        return LIKELY(*c->p > 0x20) ? 1 : skip_blanks(c);
    }
    if (!skip_blanks(c)) return 0;
    if (*c->p != ':') return fail(c, BROKEN);
    c->p++;
    return skip_blanks(c);
}

/* What follows a member: 1 another member (cursor behind its quote), 2 the closing brace
 * (cursor behind it), 0 a fault. One comma may stand before the brace. */
INLINE int next_member(Cursor *c)
{
    if (!skip_blanks(c)) return 0;
    if (LIKELY(*c->p == ',')) {
        c->p++;
        if (!skip_blanks(c)) return 0;
        if (LIKELY(*c->p == '"')) {
            c->p++;
            return 1;
        }
    }
    if (*c->p == '}') {
        c->p++;
        return 2;
    }
    return fail(c, BROKEN);
}

/* Behind an opening brace: as next_member, but without a comma. */
INLINE int first_member(Cursor *c)
{
    if (!skip_blanks(c)) return 0;
    if (LIKELY(*c->p == '"')) {
        c->p++;
        return 1;
    }
    if (*c->p == '}') {
        c->p++;
        return 2;
    }
    return fail(c, BROKEN);
}

INLINE int read_text(Cursor *c, Span *span)
{
    if (*c->p != '"') {
        span->there = 0;
        return skip_value(c, 1);
    }
    Text start = ++c->p;
    span->escaped = 0;
    if (!skip_string(c, &span->escaped)) return 0;
    span->at = start;
    span->len = (size_t)(c->p - 1 - start);
    span->there = 1;
    return 1;
}

/* The decimals behind `point`, where they are other than three in number: where they end, or
 * NULL when they are more than 13 or something else follows. */
NOINLINE Text read_decimals(Text point, Text lim, uint64_t us, Time *t)
{
    static const uint32_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000,
                                     100000000, 1000000000};
    Digits f = read_digits(point + 1, lim);
    Text end = point + 1 + f.count;
    if (f.count > 13 || end >= lim || !ends_bare[*end]) return NULL;
    *t = (Time){0, 0, 1};
    if (f.count < 4) {
        t->ns = (int64_t)(us * 1000 + f.value * power[3 - f.count]);
        if (f.count == 1 || f.count == 2) t->flags = ODD_DECIMALS;
    } else {
        uint64_t four = f.value / power[f.count - 4];
        t->ns = (int64_t)(us * 1000 + four / 10 + (four % 10 >= 5));
        t->flags = ROUNDED;
    }
    return end;
}

INLINE int read_time_value(Cursor *c, Row *row, int is_dur)
{
    Text start = c->p;
    Time t;
    uint16_t seen = is_dur ? HAS_DUR : HAS_TS;
    row->flags &= (uint16_t)~seen;
    if (is_dur) row->dur = 0;
    else row->ts = ABSENT;
    /* Digits, a point, three digits: nearly every number there is. */
    Digits d = read_digits(start, c->lim);
    Text p = start + d.count;
    int small = d.count && d.value <= MAX_MICROSECONDS; /* a 17th digit fails below */
    if (LIKELY(c->lim - p > 5 && small && p[0] == '.' && is_digit(p[1]) &&
               is_digit(p[2]) && is_digit(p[3]) && ends_bare[p[4]])) {
        t.ns = (int64_t)d.value * 1000 + (p[1] - '0') * 100 + (p[2] - '0') * 10 + (p[3] - '0');
        t.flags = 0;
        t.readable = 1;
        c->p = p + 4;
    } else if (small && p < c->lim && *p == '.' &&
               (p = read_decimals(p, c->lim, d.value, &t)) != NULL) {
        c->p = p;
    } else if (p && small && p < c->lim && ends_bare[*p]) {
        t.ns = (int64_t)d.value * 1000;
        t.flags = 0;
        t.readable = 1;
        c->p = p;
    } else if (*start == '"') {
        Span span = {0};
        if (!read_text(c, &span)) return 0;
        row->flags |= QUOTED_NUMBER;
        t = read_time(span.at, span.len);
    } else {
        if (!skip_value(c, 1)) return 0;
        if (*start == '{' || *start == '[') return 1;
        t = read_time(start, (size_t)(c->p - start));
    }
    row->flags |= t.flags;
    if (!t.readable) return 1;
    row->flags |= seen;
    if (!is_dur) {
        row->ts = t.ns;
    } else if (t.ns < 0) {
        row->flags |= NEGATIVE_DUR;
    } else {
        row->dur = t.ns;
    }
    return 1;
}

/* An integer in args, bare or quoted. */
INLINE int read_args_integer(Cursor *c, Row *row, int64_t *out)
{
    Text start = c->p;
    *out = ABSENT;
    Digits d = read_digits(start, c->lim);
    Text p = start + d.count;
    if (LIKELY(d.count && p < c->lim && ends_bare[*p])) {
        *out = (int64_t)d.value;
        c->p = p;
        return 1;
    }
    Id id;
    if (*start == '"') {
        Span span = {0};
        if (!read_text(c, &span)) return 0;
        id = read_quoted_integer(span.at, span.len);
    } else {
        if (!skip_value(c, 2)) return 0;
        if (*start == '{' || *start == '[') id = (Id){ABSENT, NOT_INTEGER};
        else id = read_integer(start, (size_t)(c->p - start));
    }
    *out = id.value;
    row->flags |= id.flags;
    return 1;
}

/* pid or tid: an integer, or a text to be interned when the event is kept. */
INLINE int read_track(Cursor *c, Row *row, int64_t *out, Span *text)
{
    Text start = c->p;
    *out = ABSENT;
    text->there = 0;
    Digits d = read_digits(start, c->lim);
    Text p = start + d.count;
    if (LIKELY(d.count && p < c->lim && ends_bare[*p])) {
        *out = (int64_t)d.value;
        c->p = p;
        return 1;
    }
    if (*start == '"') return read_text(c, text);
    if (!skip_value(c, 1)) return 0;
    Id id = {ABSENT, NOT_INTEGER};
    if (*start != '{' && *start != '[') id = read_integer(start, (size_t)(c->p - start));
    if (id.value != ABSENT && id.value <= TEXT_ID_BASE) id = (Id){ABSENT, NOT_INTEGER};
    *out = id.value;
    row->flags |= id.flags;
    return 1;
}

/* The args object at the cursor. */
INLINE int read_args(Scanner *s, Cursor *c, Row *row, int *collective)
{
    unsigned seen = 0;
    c->p++;
    int more = first_member(c);
    while (more == 1) {
        Key key;
        if (!read_key(s, c, 1, &key)) return 0;
        int64_t *out = NULL;
        switch (key) {
        case A_CORRELATION: out = &row->correlation; break;
        case A_DEVICE: out = &row->device; break;
        case A_STREAM: out = &row->stream; break;
        case A_GRAPH_NODE: out = &row->graph_node; break;
        case A_BYTES: out = &row->bytes; break;
        case A_EXTERNAL: out = &row->external_id; break;
        case A_COLLECTIVE: *collective = 1; break;
        default: break;
        }
        if (key != K_OTHER) {
            if (seen & 1u << key) row->flags |= DUPLICATE_KEY;
            seen |= 1u << key;
        }
        if (!(out ? read_args_integer(c, row, out) : skip_value(c, 2))) return 0;
        more = next_member(c);
    }
    if (row->graph_node == 0) row->graph_node = ABSENT;
    return more;
}

typedef struct {
    Span cat, name, pid, tid, args;
    int32_t name_number; /* once interned for the needles, else -1 */
    int collective;
} Parts;

static const char FRAME[] = "python_function";

INLINE int is_frame(const Span *cat)
{
    return cat->there && cat->len == sizeof FRAME - 1 && memcmp(cat->at, FRAME, cat->len) == 0;
}

/* Is the event kept out by design, as far as is known now? */
INLINE int unwanted(Scanner *s, const Row *row, Parts *parts)
{
    if (row->ph == 's' || row->ph == 'f' || row->ph == 't') return 1;
    if (s->all_frames || !is_frame(&parts->cat)) return 0;
    if (!s->needle_count) return 1;
    if (!parts->name.there) return 1;
    if (parts->name_number < 0) parts->name_number = intern_span(s, &s->names, &parts->name);
    return parts->name_number < 0 || !frame_wanted(s, parts->name_number);
}

/* The last args of an event count, should there be several. */
INLINE void forget_args(Row *row, Parts *parts)
{
    row->correlation = row->device = row->stream = ABSENT;
    row->graph_node = row->bytes = row->external_id = ABSENT;
    parts->args.there = parts->collective = 0;
}

/* A category spelled with escapes may still be the one of frames. */
NOINLINE void plain_category(Scanner *s, Span *cat)
{
    if (unescape(&s->scratch, cat->at, cat->len) && s->scratch.len == sizeof FRAME - 1 &&
        memcmp(s->scratch.data, FRAME, s->scratch.len) == 0)
        *cat = (Span){(Text)FRAME, sizeof FRAME - 1, 0, 1};
}

/* The event at the cursor; the cursor ends behind it. */
static Outcome read_event(Scanner *s, Text at, Text lim, Row *row, Parts *parts)
{
    Cursor cursor = {at, lim, FINE}, *c = &cursor;
    unsigned seen = 0;
    parts->cat.there = parts->name.there = parts->pid.there = parts->tid.there = 0;
    parts->args.there = 0;
    parts->name_number = -1;
    parts->collective = 0;
    clear_row(row);
    c->p++;
    int more = first_member(c);
    while (more == 1) {
        Key key;
        if (!read_key(s, c, 0, &key)) goto end;
        if (key != K_OTHER) {
            if (seen & 1u << key) row->flags |= DUPLICATE_KEY;
            seen |= 1u << key;
        }
        int fine;
        switch (key) {
        case K_PH: {
            Span ph = {0};
            fine = read_text(c, &ph);
            row->ph = 0;
            if (fine && ph.there) {
                if (UNLIKELY(ph.escaped)) {
                    if (ph.len <= 6 && unescape(&s->scratch, ph.at, ph.len)) {
                        ph.at = s->scratch.data;
                        ph.len = s->scratch.len;
                    } else {
                        ph.len = 0;
                    }
                }
                if (ph.len == 1 && *ph.at < 0x80) row->ph = *ph.at;
            }
            break;
        }
        case K_CAT:
            fine = read_text(c, &parts->cat);
            if (UNLIKELY(fine && parts->cat.there && parts->cat.escaped))
                plain_category(s, &parts->cat);
            break;
        case K_NAME:
            fine = read_text(c, &parts->name);
            parts->name_number = -1;
            break;
        case K_PID: fine = read_track(c, row, &row->pid, &parts->pid); break;
        case K_TID: fine = read_track(c, row, &row->tid, &parts->tid); break;
        case K_TS: fine = read_time_value(c, row, 0); break;
        case K_DUR: fine = read_time_value(c, row, 1); break;
        case K_ARGS:
            forget_args(row, parts);
            if (*c->p != '{') {
                fine = skip_value(c, 1);
            } else if (unwanted(s, row, parts)) {
                Outcome out = unwanted_outcome(c->p, c->lim);
                c->p = out.p;
                c->fault = out.fault;
                fine = out.fault == FINE;
            } else {
                parts->args.at = c->p;
                fine = read_args(s, c, row, &parts->collective);
                parts->args.len = (size_t)(c->p - parts->args.at);
                parts->args.there = 1;
            }
            break;
        case K_NOT_EVENT: fail(c, BROKEN); goto end;
        default: fine = skip_value(c, 1);
        }
        if (UNLIKELY(!fine)) goto end;
        more = next_member(c);
    }
end:
    return (Outcome){cursor.p, cursor.fault};
}

/* Room for one more row. */
INLINE int row_room(Scanner *s)
{
    if (LIKELY(s->n < s->cap)) return 1;
    Row *fresh = grown(s->rows, &s->cap, s->n + 1, sizeof *fresh);
    if (!fresh) {
        s->out_of_memory = 1;
        return 0;
    }
    s->rows = fresh;
    return 1;
}

static int add_span(Scanner *s, size_t row, const Span *args)
{
    if (s->span_n == s->span_cap) {
        ArgsSpan *fresh = grown(s->spans, &s->span_cap, s->span_n + 1, sizeof *fresh);
        if (!fresh) {
            s->out_of_memory = 1;
            return 0;
        }
        s->spans = fresh;
    }
    s->spans[s->span_n++] = (ArgsSpan){row, args->at, args->len};
    return 1;
}

/* Keep the event in rows[n], or count it as dropped. */
INLINE void keep_event(Scanner *s, Row *row, Parts *parts)
{
    s->events++;
    if (unwanted(s, row, parts)) {
        if (parts->cat.there) {
            int32_t cat = intern_span(s, &s->cats, &parts->cat);
            if (cat >= 0) s->cats.entries[cat].count++;
        } else {
            s->dropped_without_cat++;
        }
        return;
    }
    if (LIKELY(parts->cat.there)) row->cat = intern_span(s, &s->cats, &parts->cat);
    if (LIKELY(parts->name.there))
        row->name = parts->name_number >= 0 ? parts->name_number
                                            : intern_span(s, &s->names, &parts->name);
    if (UNLIKELY(parts->pid.there)) {
        row->pid = intern_span(s, &s->texts, &parts->pid);
        row->pid_is_text = 1;
    }
    if (UNLIKELY(parts->tid.there)) {
        row->tid = intern_span(s, &s->texts, &parts->tid);
        row->tid_is_text = 1;
    }
    if (UNLIKELY(parts->args.there && (row->ph == 'M' || parts->collective)) &&
        !add_span(s, s->n, &parts->args))
        return;
    s->n++;
}

/* ---- a stretch of events ------------------------------------------------------------------------ */

typedef struct {
    Text buf, end;
    int64_t base;
    Text stop;
    int final; /* the text ends with the buffer */
    int fresh; /* do not check the separator before the first event */
    int force; /* read one event, whatever follows it */
} Stretch;

/* Reads events from `p` on; sets *at to where it ended. */
static int scan_events(Scanner *s, const Stretch *x, Text p, Text *at, int *fresh_out)
{
    int fresh = x->fresh;
    Text resume = p;
    *fresh_out = 0;
    for (;;) {
        unsigned commas = 0;
        Text q = p;
        while (q < x->end && (*q <= 0x20 || *q == ',')) commas += *q++ == ',';
        if (UNLIKELY(q >= x->end)) {
            *at = x->final ? x->end : resume;
            *fresh_out = fresh;
            return x->final ? TEXT_END : MORE;
        }
        *at = q;
        if (UNLIKELY(*q != '{')) {
            *fresh_out = 1;
            return *q == ']' ? ARRAY_END : GARBAGE;
        }
        if (UNLIKELY(commas != 1 && !fresh)) {
            if (!s->odd_separators++) s->first_odd = x->base + (q - x->buf);
        }
        fresh = 1; /* a second look at this event must not count its separator again */
        *fresh_out = 1;
        if (q >= x->stop) return STOPPED;
        if (!row_room(s)) return BAD;
        Row *row = &s->rows[s->n];
        Parts parts;
        size_t room = (size_t)(x->end - q);
        Outcome c = read_event(s, q, room > MAX_EVENT ? q + MAX_EVENT : x->end, row, &parts);
        if (UNLIKELY(c.fault != FINE)) {
            if (c.fault == RAN_OUT && room < MAX_EVENT && !x->final) return MORE;
            return BAD;
        }
        if (UNLIKELY(x->force)) {
            row->offset = x->base + (q - x->buf);
            keep_event(s, row, &parts);
            s->event_bytes += (uint64_t)(c.p - q);
            *at = c.p;
            return STOPPED;
        }
        /* An event must be followed by a separator or the end, else a quote broke it. */
        Text look = c.p;
        while (look < x->end && *look <= 0x20) look++;
        if (UNLIKELY(look >= x->end)) {
            if (!x->final) return MORE;
        } else if (UNLIKELY(*look != ',' && *look != ']' && *look != '{')) {
            return SUSPECT;
        }
        row->offset = x->base + (q - x->buf);
        keep_event(s, row, &parts);
        s->event_bytes += (uint64_t)(c.p - q);
        p = resume = c.p;
        fresh = 0;
    }
}

static void drop_view(Scanner *s)
{
    if (s->has_view) PyBuffer_Release(&s->view);
    s->has_view = 0;
}

static void clear_rows(Scanner *s)
{
    s->n = s->span_n = 0;
    s->events = s->event_bytes = s->odd_separators = s->dropped_without_cat = 0;
    s->first_odd = -1;
    for (size_t i = 0; i < s->cats.n; i++) s->cats.entries[i].count = 0;
    if (s->names.text.len + s->cats.text.len + s->texts.text.len > MAX_SCANNER_NAMES) {
        table_clear(&s->names);
        table_clear(&s->cats);
        table_clear(&s->texts);
    }
}

/* ---- Scanner, the type --------------------------------------------------------------------------- */

static PyObject *scanner_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"all_frames", "needles", "seed", NULL};
    int all_frames;
    PyObject *needles;
    unsigned long long seed;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "pO!K", names, &all_frames, &PyTuple_Type,
                                     &needles, &seed))
        return NULL;
    Scanner *s = (Scanner *)type->tp_alloc(type, 0);
    if (!s) return NULL;
    s->all_frames = all_frames;
    s->names.seed = s->cats.seed = s->texts.seed = seed;
    Py_ssize_t count = PyTuple_GET_SIZE(needles);
    s->needle_end = calloc((size_t)count + 1, sizeof *s->needle_end);
    if (!s->needle_end) goto no_memory;
    for (Py_ssize_t i = 0; i < count; i++) {
        char *text;
        Py_ssize_t len;
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(needles, i), &text, &len) < 0) goto error;
        if (!bytes_add(&s->needles, text, (size_t)len)) goto no_memory;
        s->needle_end[i] = s->needles.len;
    }
    s->needle_count = (size_t)count;
    return (PyObject *)s;
no_memory:
    PyErr_NoMemory();
error:
    Py_DECREF(s);
    return NULL;
}

static void scanner_dealloc(Scanner *s)
{
    drop_view(s);
    free(s->needles.data);
    free(s->needle_end);
    free(s->rows);
    free(s->spans);
    free(s->scratch.data);
    table_free(&s->names);
    table_free(&s->cats);
    table_free(&s->texts);
    PyTypeObject *type = Py_TYPE(s);
    type->tp_free((PyObject *)s);
    Py_DECREF(type);
}

static PyObject *scanner_scan(Scanner *s, PyObject *args)
{
    PyObject *source;
    long long base, start, stop;
    int final, fresh, force;
    if (!PyArg_ParseTuple(args, "OLLLppp", &source, &base, &start, &stop, &final, &fresh, &force))
        return NULL;
    if (s->busy) {
        PyErr_SetString(PyExc_RuntimeError, "this scanner is at work in another thread");
        return NULL;
    }
    drop_view(s);
    clear_rows(s);
    if (PyObject_GetBuffer(source, &s->view, PyBUF_SIMPLE) < 0) return NULL;
    s->has_view = 1;
    if (start < base || start - base > s->view.len || stop < base) {
        PyErr_SetString(PyExc_ValueError, "start or stop lies outside the buffer");
        return NULL;
    }
    Text buf = s->view.buf, at = NULL;
    Text end = buf + s->view.len;
    Text last = stop - base > s->view.len ? end + 1 : buf + (stop - base);
    Stretch x = {buf, end, base, last, final, fresh, force};
    int status, fresh_out;
    s->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = scan_events(s, &x, buf + (start - base), &at, &fresh_out);
    Py_END_ALLOW_THREADS
    s->busy = 0;
    if (s->out_of_memory) {
        s->out_of_memory = 0;
        return PyErr_NoMemory();
    }
    if (!s->span_n) drop_view(s);
    return Py_BuildValue("iLi", status, base + (long long)(at - buf), fresh_out);
}

static PyMethodDef scanner_methods[] = {
    {"scan", (PyCFunction)(void (*)(void))scanner_scan, METH_VARARGS,
     "scan(buffer, base, start, stop, final, fresh, force) -> (status, position, fresh)"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot scanner_slots[] = {
    {Py_tp_new, (void *)scanner_new},
    {Py_tp_dealloc, (void *)scanner_dealloc},
    {Py_tp_methods, scanner_methods},
    {Py_tp_doc, "Reads one stretch of events at a time into rows of its own."},
    {0, NULL}};

static PyType_Spec scanner_spec = {"specscope.traces._scan.Scanner", sizeof(Scanner), 0,
                                   Py_TPFLAGS_DEFAULT, scanner_slots};

/* ---- Columns --------------------------------------------------------------------------------------- */

enum {
    C_PID, C_TID, C_TS, C_DUR, C_CORRELATION, C_DEVICE, C_STREAM, C_GRAPH_NODE, C_BYTES,
    C_EXTERNAL, C_OFFSET, C_CAT, C_NAME, C_FLAGS, C_PH, COLUMN_COUNT
};

static const struct {
    const char *name;
    size_t size;
} COLUMN[COLUMN_COUNT] = {
    {"pid", 8}, {"tid", 8}, {"ts_ns", 8}, {"dur_ns", 8}, {"correlation", 8}, {"device", 8},
    {"stream", 8}, {"graph_node", 8}, {"bytes", 8}, {"external_id", 8}, {"offset", 8},
    {"cat", 4}, {"name", 4}, {"flags", 2}, {"ph", 1}};

typedef struct {
    PyObject_HEAD
    uint8_t *column[COLUMN_COUNT];
    size_t n, cap;
    Table names, cats, texts, dropped;
    uint64_t dropped_without_cat;
    int64_t *args_event;
    size_t *args_end;
    size_t args_n, args_event_cap, args_end_cap;
    Bytes args_text;
    uint64_t events, event_bytes, odd_separators;
    int64_t first_odd;
} Columns;

/* A column that was given away: owns its memory, shows it as a buffer. */
typedef struct {
    PyObject_HEAD
    uint8_t *data;
    size_t len;
} Block;

static void block_dealloc(Block *b)
{
    free(b->data);
    PyTypeObject *type = Py_TYPE(b);
    type->tp_free((PyObject *)b);
    Py_DECREF(type);
}

static int block_buffer(Block *b, Py_buffer *view, int flags)
{
    return PyBuffer_FillInfo(view, (PyObject *)b, b->data, (Py_ssize_t)b->len, 0, flags);
}

static PyType_Slot block_slots[] = {{Py_tp_dealloc, (void *)block_dealloc},
                                    {Py_bf_getbuffer, (void *)block_buffer},
                                    {Py_tp_doc, "Memory of a finished column."},
                                    {0, NULL}};

#if PY_VERSION_HEX >= 0x030A0000
#define NO_NEW Py_TPFLAGS_DISALLOW_INSTANTIATION
#else
#define NO_NEW 0
#endif

static PyType_Spec block_spec = {"specscope.traces._scan.Block", sizeof(Block), 0,
                                 Py_TPFLAGS_DEFAULT | NO_NEW, block_slots};

static PyTypeObject *block_type, *scanner_type;

static PyObject *columns_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"seed", NULL};
    unsigned long long seed;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K", names, &seed)) return NULL;
    Columns *c = (Columns *)type->tp_alloc(type, 0);
    if (!c) return NULL;
    c->names.seed = c->cats.seed = c->texts.seed = c->dropped.seed = seed;
    c->first_odd = -1;
    return (PyObject *)c;
}

static void columns_dealloc(Columns *c)
{
    for (int i = 0; i < COLUMN_COUNT; i++) free(c->column[i]);
    free(c->args_event);
    free(c->args_end);
    free(c->args_text.data);
    table_free(&c->names);
    table_free(&c->cats);
    table_free(&c->texts);
    table_free(&c->dropped);
    PyTypeObject *type = Py_TYPE(c);
    type->tp_free((PyObject *)c);
    Py_DECREF(type);
}

/* Large columns in huge pages, where the system has them: faults of fresh 4 KiB pages took a
 * tenth of a scan. A hint; nothing depends on it. */
static void prefer_huge_pages(uint8_t *data, size_t len)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = 4096, least = 4u << 20;
    if (len < least) return;
    uintptr_t start = ((uintptr_t)data + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)data + len) & ~(page - 1);
    (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
#else
    (void)data, (void)len;
#endif
}

static int columns_room(Columns *c, size_t needed)
{
    if (needed <= c->cap) return 1;
    size_t cap = c->cap < 4096 ? 4096 : c->cap * 2;
    if (cap < needed) cap = needed;
    if (cap > SIZE_MAX / 16) return 0;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        uint8_t *fresh = realloc(c->column[i], cap * COLUMN[i].size);
        if (!fresh) return 0;
        c->column[i] = fresh;
        prefer_huge_pages(fresh, cap * COLUMN[i].size);
    }
    c->cap = cap;
    return 1;
}

/* The number in `to` of what is number `i` in `from`; entry.code remembers it. -1: no memory. */
INLINE int32_t moved(Table *from, int32_t i, Table *to)
{
    Entry *e = &from->entries[i];
    if (UNLIKELY(e->code < 0))
        e->code = intern_hashed(to, from->text.data + e->at, e->len, e->hash);
    return e->code;
}

static void forget_codes(Table *t)
{
    for (size_t i = 0; i < t->n; i++) t->entries[i].code = -1;
}

INLINE int append_row(Columns *c, size_t at, Scanner *s, const Row *row, uint16_t extra,
                      int64_t shift)
{
#define PUT(col, type, value) ((type *)(void *)c->column[col])[at] = (value)
    int32_t cat = -1, name = -1;
    int64_t pid = row->pid, tid = row->tid;
    if (row->cat >= 0 && (cat = moved(&s->cats, row->cat, &c->cats)) < 0) return 0;
    if (row->name >= 0 && (name = moved(&s->names, row->name, &c->names)) < 0) return 0;
    if (UNLIKELY(row->pid_is_text)) {
        int32_t code = moved(&s->texts, (int32_t)pid, &c->texts);
        if (code < 0) return 0;
        pid = TEXT_ID_BASE - code;
    }
    if (UNLIKELY(row->tid_is_text)) {
        int32_t code = moved(&s->texts, (int32_t)tid, &c->texts);
        if (code < 0) return 0;
        tid = TEXT_ID_BASE - code;
    }
    PUT(C_PID, int64_t, pid);
    PUT(C_TID, int64_t, tid);
    PUT(C_TS, int64_t, row->ts);
    PUT(C_DUR, int64_t, row->dur);
    PUT(C_CORRELATION, int64_t, row->correlation);
    PUT(C_DEVICE, int64_t, row->device);
    PUT(C_STREAM, int64_t, row->stream);
    PUT(C_GRAPH_NODE, int64_t, row->graph_node);
    PUT(C_BYTES, int64_t, row->bytes);
    PUT(C_EXTERNAL, int64_t, row->external_id);
    PUT(C_OFFSET, int64_t, row->offset + shift);
    PUT(C_CAT, int32_t, cat);
    PUT(C_NAME, int32_t, name);
    PUT(C_FLAGS, uint16_t, (uint16_t)(row->flags | extra));
    PUT(C_PH, uint8_t, row->ph);
    return 1;
#undef PUT
}

static int append_args(Columns *c, const Scanner *s)
{
    for (size_t i = 0; i < s->span_n; i++) {
        const ArgsSpan *span = &s->spans[i];
        if (c->args_n == c->args_event_cap) {
            int64_t *fresh = grown(c->args_event, &c->args_event_cap, c->args_n + 1, 8);
            if (!fresh) return 0;
            c->args_event = fresh;
        }
        if (c->args_n == c->args_end_cap) {
            size_t *fresh = grown(c->args_end, &c->args_end_cap, c->args_n + 1, sizeof *fresh);
            if (!fresh) return 0;
            c->args_end = fresh;
        }
        if (!bytes_add(&c->args_text, span->at, span->len)) return 0;
        c->args_event[c->args_n] = (int64_t)(c->n + span->row);
        c->args_end[c->args_n++] = c->args_text.len;
    }
    return 1;
}

static int append_dropped(Columns *c, Scanner *s)
{
    c->dropped_without_cat += s->dropped_without_cat;
    for (size_t i = 0; i < s->cats.n; i++) {
        Entry *e = &s->cats.entries[i];
        if (!e->count) continue;
        int32_t code = intern_hashed(&c->dropped, s->cats.text.data + e->at, e->len, e->hash);
        if (code < 0) return 0;
        c->dropped.entries[code].count += e->count;
    }
    return 1;
}

/* The remembered codes belong to one Columns; they are forgotten when another one asks. */
static int append_scan(Columns *c, Scanner *s, uint16_t extra, int64_t shift)
{
    if (!columns_room(c, c->n + s->n)) return 0;
    for (size_t i = 0; i < s->n; i++)
        if (!append_row(c, c->n + i, s, &s->rows[i], extra, shift)) return 0;
    if (!append_args(c, s) || !append_dropped(c, s)) return 0;
    c->n += s->n;
    c->events += s->events;
    c->event_bytes += s->event_bytes;
    if (s->odd_separators && c->first_odd < 0) c->first_odd = s->first_odd + shift;
    c->odd_separators += s->odd_separators;
    return 1;
}

static PyObject *columns_append(Columns *c, PyObject *args)
{
    PyObject *other;
    int extra = 0;
    long long shift = 0;
    if (!PyArg_ParseTuple(args, "O!|iL", scanner_type, &other, &extra, &shift)) return NULL;
    Scanner *s = (Scanner *)other;
    if (s->busy) {
        PyErr_SetString(PyExc_RuntimeError, "this scanner is at work in another thread");
        return NULL;
    }
    int fine;
    s->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    fine = append_scan(c, s, (uint16_t)extra, shift);
    Py_END_ALLOW_THREADS
    s->busy = 0;
    drop_view(s);
    clear_rows(s);
    if (!fine) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Memory is only taken when it is written to, so too much asked for costs nothing, while every
 * time that columns grow they are copied. */
static PyObject *columns_reserve(Columns *c, PyObject *args)
{
    Py_ssize_t rows;
    if (!PyArg_ParseTuple(args, "n", &rows)) return NULL;
    if (rows > 0) (void)columns_room(c, (size_t)rows);
    Py_RETURN_NONE;
}

static PyObject *columns_rows(Columns *c, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(c->n);
}

static PyObject *columns_forget(Columns *Py_UNUSED(c), PyObject *args)
{
    PyObject *other;
    if (!PyArg_ParseTuple(args, "O!", scanner_type, &other)) return NULL;
    Scanner *s = (Scanner *)other;
    forget_codes(&s->names);
    forget_codes(&s->cats);
    forget_codes(&s->texts);
    Py_RETURN_NONE;
}

static PyObject *table_list(const Table *t)
{
    PyObject *list = PyList_New((Py_ssize_t)t->n);
    for (size_t i = 0; list && i < t->n; i++) {
        const Entry *e = &t->entries[i];
        PyObject *text = PyBytes_FromStringAndSize((const char *)t->text.data + e->at,
                                                   (Py_ssize_t)e->len);
        if (!text) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, text);
    }
    return list;
}

static PyObject *block_of(uint8_t **data, size_t len)
{
    Block *b = (Block *)block_type->tp_alloc(block_type, 0);
    if (!b) return NULL;
    uint8_t *fit = realloc(*data, len ? len : 1);
    b->data = fit ? fit : *data;
    b->len = len;
    *data = NULL;
    return (PyObject *)b;
}

static PyObject *dropped_dict(const Columns *c)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < c->dropped.n; i++) {
        const Entry *e = &c->dropped.entries[i];
        PyObject *key = PyBytes_FromStringAndSize((const char *)c->dropped.text.data + e->at,
                                                  (Py_ssize_t)e->len);
        PyObject *value = PyLong_FromUnsignedLongLong(e->count);
        if (!key || !value || PyDict_SetItem(dict, key, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *args_list(const Columns *c)
{
    PyObject *list = PyList_New((Py_ssize_t)c->args_n);
    size_t start = 0;
    for (size_t i = 0; list && i < c->args_n; i++) {
        PyObject *text = PyBytes_FromStringAndSize((const char *)c->args_text.data + start,
                                                   (Py_ssize_t)(c->args_end[i] - start));
        start = c->args_end[i];
        if (!text) Py_CLEAR(list);
        else PyList_SET_ITEM(list, (Py_ssize_t)i, text);
    }
    return list;
}

/* Adds `value` (stolen) to the dict; 0 when either failed. */
static int give(PyObject *dict, const char *key, PyObject *value)
{
    int fine = value && PyDict_SetItemString(dict, key, value) == 0;
    Py_XDECREF(value);
    return fine;
}

static PyObject *columns_finish(Columns *c, PyObject *Py_UNUSED(ignored))
{
    PyObject *out = PyDict_New();
    if (!out) return NULL;
    int fine = give(out, "names", table_list(&c->names)) &&
               give(out, "cats", table_list(&c->cats)) &&
               give(out, "texts", table_list(&c->texts)) &&
               give(out, "dropped", dropped_dict(c)) &&
               give(out, "dropped_without_cat",
                    PyLong_FromUnsignedLongLong(c->dropped_without_cat)) &&
               give(out, "args_text", args_list(c)) &&
               give(out, "events", PyLong_FromUnsignedLongLong(c->events)) &&
               give(out, "event_bytes", PyLong_FromUnsignedLongLong(c->event_bytes)) &&
               give(out, "odd_separators", PyLong_FromUnsignedLongLong(c->odd_separators)) &&
               give(out, "first_odd", PyLong_FromLongLong(c->first_odd));
    if (fine) {
        uint8_t *data = (uint8_t *)c->args_event;
        c->args_event = NULL;
        fine = give(out, "args_event", block_of(&data, c->args_n * 8));
        free(data);
    }
    for (int i = 0; fine && i < COLUMN_COUNT; i++)
        fine = give(out, COLUMN[i].name, block_of(&c->column[i], c->n * COLUMN[i].size));
    /* What is given away is gone: the object starts over. */
    c->n = c->cap = c->args_n = c->args_event_cap = 0;
    c->args_text.len = 0;
    c->events = c->event_bytes = c->odd_separators = c->dropped_without_cat = 0;
    c->first_odd = -1;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        free(c->column[i]);
        c->column[i] = NULL;
    }
    table_clear(&c->names);
    table_clear(&c->cats);
    table_clear(&c->texts);
    table_clear(&c->dropped);
    if (!fine) {
        Py_DECREF(out);
        return NULL;
    }
    return out;
}

static PyMethodDef columns_methods[] = {
    {"append", (PyCFunction)(void (*)(void))columns_append, METH_VARARGS,
     "append(scanner, extra_flags=0, shift=0): takes the rows of the scanner's last scan"},
    {"forget", (PyCFunction)(void (*)(void))columns_forget, METH_VARARGS,
     "forget(scanner): to be called before its first append to these columns"},
    {"reserve", (PyCFunction)(void (*)(void))columns_reserve, METH_VARARGS,
     "reserve(rows): a hint"},
    {"finish", (PyCFunction)(void (*)(void))columns_finish, METH_NOARGS,
     "finish() -> dict of columns (buffers, not copied), names and sums; starts over"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef columns_values[] = {
    {"rows", (getter)columns_rows, NULL, "rows so far", NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot columns_slots[] = {
    {Py_tp_getset, columns_values},
    {Py_tp_new, (void *)columns_new},
    {Py_tp_dealloc, (void *)columns_dealloc},
    {Py_tp_methods, columns_methods},
    {Py_tp_doc, "Collects the rows of many scans into columns."},
    {0, NULL}};

static PyType_Spec columns_spec = {"specscope.traces._scan.Columns", sizeof(Columns), 0,
                                   Py_TPFLAGS_DEFAULT, columns_slots};

/* ---- the module ----------------------------------------------------------------------------------- */

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    "_scan",
                                    "The native scanner; see scan_native.py.",
                                    -1,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL};

static int add_type(PyObject *m, const char *name, PyType_Spec *spec, PyTypeObject **keep)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type) return 0;
    if (keep) {
        Py_INCREF(type);
        *keep = (PyTypeObject *)type;
    }
    if (PyModule_AddObject(m, name, type) < 0) {
        Py_DECREF(type);
        return 0;
    }
    return 1;
}

PyMODINIT_FUNC PyInit__scan(void)
{
    fill_ends_bare();
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    if (!add_type(m, "Scanner", &scanner_spec, &scanner_type) ||
        !add_type(m, "Columns", &columns_spec, NULL) ||
        !add_type(m, "Block", &block_spec, &block_type)) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
