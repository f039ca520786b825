/* Escapes, names, and which frames are kept. */
#ifndef SPECSCOPE_TEXTS_H
#define SPECSCOPE_TEXTS_H

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

#endif
