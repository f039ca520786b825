/* Rows, the scanner, and a bounded walk over blanks, strings and brackets. */
#ifndef SPECSCOPE_CURSOR_H
#define SPECSCOPE_CURSOR_H

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

#endif
