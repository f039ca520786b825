/* One event: its keys, its args, its row. */
#ifndef SPECSCOPE_EVENT_H
#define SPECSCOPE_EVENT_H

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

#endif
