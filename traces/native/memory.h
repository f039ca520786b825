/* Memory that grows, and a table that gives each distinct text a number. */
#ifndef SPECSCOPE_MEMORY_H
#define SPECSCOPE_MEMORY_H

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

#endif
