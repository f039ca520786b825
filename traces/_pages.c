/* Columns of one SQLite table, read straight from the pages of its b-tree.
 *
 * An export of Nsight Systems is a few tables of integers with millions of rows. Fetched by SQL each
 * value becomes a text or an object first; here the leaves are walked in order and the wanted fields
 * go into arrays. Only what exports are made of is read: rowid tables in UTF-8, integers, NULL, and
 * texts. Whatever else is met ends the walk with `OddError`, and nsys_sqlite.py reads the table by SQL,
 * which also names what is wrong. The format: https://www.sqlite.org/fileformat2.html
 *
 * Files are hostile: each offset is checked against the page or the record it points into, no page is
 * visited twice as often as there are pages, and nothing is mapped, so that a file that shrinks
 * meanwhile is a short read and no fault.
 */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* pread */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef const uint8_t *Bytes;

#define CHUNK 65536u     /* bytes read at once; the largest page is as long */
#define MAX_DEPTH 40     /* of a b-tree; 20 are more than any file can need */
#define MAX_FIELDS 2000  /* columns of a table, SQLite's own default bound */
#define MAX_MARKS 8
#define ABSENT INT64_MIN

enum Outcome { FINE, ODD, NO_MEMORY, UNREADABLE };
enum Kind { SKIP, INTEGER, TEXT };

/* ---- growing memory ------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *at;
    size_t used, room;
} Store;

static int grow(Store *s, size_t more)
{
    if (more > SIZE_MAX / 2 - s->used) return 0;
    if (s->used + more <= s->room) return 1;
    size_t room = s->room ? s->room : 4096;
    while (room < s->used + more) room *= 2;
    uint8_t *at = realloc(s->at, room);
    if (!at) return 0;
    s->at = at, s->room = room;
    return 1;
}

/* ---- distinct texts ------------------------------------------------------------------------------- */

typedef struct {
    size_t at; /* in the arena */
    uint32_t length;
    uint32_t cut; /* 1 when it ended at a mark */
} Word;

typedef struct {
    Store arena, words;
    int32_t *slots;
    size_t n_slots, n;
} Words;

static uint64_t hash_of(Bytes text, size_t length, unsigned cut)
{
    uint64_t h = 0xcbf29ce484222325u ^ cut;
    while (length >= 8) {
        uint64_t part;
        memcpy(&part, text, 8);
        h = (h ^ part) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
        text += 8, length -= 8;
    }
    while (length--) h = (h ^ *text++) * 0x100000001b3u;
    return h ^ (h >> 32);
}

static int more_slots(Words *w)
{
    size_t n_slots = w->n_slots ? w->n_slots * 2 : 1024;
    int32_t *slots = malloc(n_slots * sizeof *slots);
    if (!slots) return 0;
    memset(slots, 0xff, n_slots * sizeof *slots);
    const Word *words = (const Word *)(void *)w->words.at;
    for (size_t i = 0; i < w->n; i++) {
        size_t slot = hash_of(w->arena.at + words[i].at, words[i].length, words[i].cut);
        for (slot &= n_slots - 1; slots[slot] >= 0; slot = (slot + 1) & (n_slots - 1)) {}
        slots[slot] = (int32_t)i;
    }
    free(w->slots);
    w->slots = slots, w->n_slots = n_slots;
    return 1;
}

/* Code of a text, -1: no memory. */
static int32_t code_of(Words *w, Bytes text, uint32_t length, unsigned cut)
{
    if (w->n * 2 >= w->n_slots && !more_slots(w)) return -1;
    size_t slot = hash_of(text, length, cut) & (w->n_slots - 1);
    const Word *words = (const Word *)(void *)w->words.at;
    for (; w->slots[slot] >= 0; slot = (slot + 1) & (w->n_slots - 1)) {
        const Word *one = &words[w->slots[slot]];
        if (one->length == length && one->cut == cut &&
            !memcmp(w->arena.at + one->at, text, length))
            return w->slots[slot];
    }
    if (w->n >= INT32_MAX || !grow(&w->arena, length + 1) || !grow(&w->words, sizeof(Word)))
        return -1;
    Word new = {w->arena.used, length, cut};
    memcpy(w->arena.at + w->arena.used, text, length);
    w->arena.used += length;
    memcpy(w->words.at + w->words.used, &new, sizeof new);
    w->words.used += sizeof new;
    w->slots[slot] = (int32_t)w->n;
    return (int32_t)w->n++;
}

/* ---- the walk ------------------------------------------------------------------------------------- */

typedef struct {
    int file;
    uint32_t page_bytes, usable, n_pages;
    uint8_t *chunk; /* the pages around the last one, and where they begin in the file */
    uint64_t chunk_at, chunk_bytes;
    uint8_t *page; /* the page that is walked: chunk may move on for overflow pages */
    Store record;
    int n_fields; /* columns of the table */
    uint8_t *kinds;
    int *target; /* column of the result for each field */
    Store *columns;
    Words *words;
    Py_ssize_t rows;
    uint64_t visited;
    int n_marks;
    Bytes marks[MAX_MARKS];
    size_t mark_bytes[MAX_MARKS];
} Walk;

/* Copies page `number` (from 1) to `into`. */
static enum Outcome fetch(Walk *w, uint32_t number, uint8_t *into)
{
    if (number < 1 || number > w->n_pages) return ODD;
    uint64_t at = (uint64_t)(number - 1) * w->page_bytes;
    if (at < w->chunk_at || at + w->page_bytes > w->chunk_at + w->chunk_bytes) {
        size_t got = 0;
        while (got < CHUNK) {
            ssize_t part = pread(w->file, w->chunk + got, CHUNK - got, (off_t)(at + got));
            if (part < 0 && errno == EINTR) continue;
            if (part < 0) return UNREADABLE;
            if (!part) break;
            got += (size_t)part;
        }
        w->chunk_at = at, w->chunk_bytes = got;
        if (got < w->page_bytes) return ODD;
    }
    memcpy(into, w->chunk + (at - w->chunk_at), w->page_bytes);
    return FINE;
}

static uint32_t big16(Bytes p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t big32(Bytes p) { return big16(p) << 16 | big16(p + 2); }

/* A number of up to 9 bytes; 0: it does not end before `end`. */
static int varint(Bytes p, Bytes end, uint64_t *value)
{
    uint64_t v = 0;
    for (int i = 0; i < 9; i++) {
        if (p + i >= end) return 0;
        if (i == 8) {
            *value = v << 8 | p[i];
            return 9;
        }
        v = v << 7 | (p[i] & 0x7f);
        if (!(p[i] & 0x80)) {
            *value = v;
            return i + 1;
        }
    }
    return 0;
}

static const uint8_t INTEGER_BYTES[10] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};

static int64_t integer(Bytes p, int bytes)
{
    uint64_t v = (p[0] & 0x80) ? UINT64_MAX : 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | p[i];
    return (int64_t)v;
}

static enum Outcome keep_text(Walk *w, int column, Bytes text, size_t length)
{
    unsigned cut = 0;
    for (int m = 0; m < w->n_marks && !cut; m++) {
        size_t bytes = w->mark_bytes[m];
        for (size_t i = 0; i + bytes <= length; i++) {
            Bytes found = memchr(text + i, w->marks[m][0], length - bytes + 1 - i);
            if (!found) break;
            i = (size_t)(found - text);
            if (!memcmp(found, w->marks[m], bytes)) {
                length = i, cut = 1;
                break;
            }
        }
    }
    if (length > UINT32_MAX) return ODD;
    int32_t code = code_of(&w->words[column], text, (uint32_t)length, cut);
    if (code < 0) return NO_MEMORY;
    memcpy(w->columns[column].at + w->columns[column].used, &code, sizeof code);
    w->columns[column].used += sizeof code;
    return FINE;
}

/* One row: its record lies whole in [p, end). */
static enum Outcome take(Walk *w, Bytes p, Bytes end)
{
    uint64_t header;
    int n = varint(p, end, &header);
    if (!n || header < (uint64_t)n || header > (uint64_t)(end - p)) return ODD;
    Bytes body = p + header, type_end = p + header, type_at = p + n;
    for (int field = 0; field < w->n_fields; field++) {
        uint64_t type;
        if (!(n = varint(type_at, type_end, &type))) return ODD; /* fewer fields: defaults */
        type_at += n;
        if (type == 10 || type == 11) return ODD;
        uint64_t bytes = type < 10 ? INTEGER_BYTES[type] : (type - 12) / 2;
        if (bytes > (uint64_t)(end - body)) return ODD;
        int column = w->target[field];
        if (w->kinds[field] == INTEGER) {
            int64_t value;
            if (type == 0) value = ABSENT;
            else if (type <= 6) value = integer(body, (int)bytes);
            else if (type == 8 || type == 9) value = (int64_t)type - 8;
            else return ODD;
            memcpy(w->columns[column].at + w->columns[column].used, &value, sizeof value);
            w->columns[column].used += sizeof value;
        } else if (w->kinds[field] == TEXT) {
            if (type == 0) {
                int32_t none = -1;
                memcpy(w->columns[column].at + w->columns[column].used, &none, sizeof none);
                w->columns[column].used += sizeof none;
            } else if (type >= 13 && (type & 1)) {
                enum Outcome done = keep_text(w, column, body, (size_t)bytes);
                if (done != FINE) return done;
            } else {
                return ODD;
            }
        }
        body += bytes;
    }
    w->rows++;
    return FINE;
}

/* The record of a cell whose end lies on overflow pages, put together. */
static enum Outcome gather(Walk *w, Bytes local, size_t n_local, uint64_t payload, uint32_t next)
{
    if (payload > (uint64_t)w->n_pages * w->page_bytes) return ODD;
    w->record.used = 0;
    if (!grow(&w->record, (size_t)payload)) return NO_MEMORY;
    memcpy(w->record.at, local, n_local);
    size_t got = n_local;
    uint8_t *page = malloc(w->page_bytes);
    if (!page) return NO_MEMORY;
    enum Outcome done = FINE;
    while (got < payload && done == FINE) {
        if (++w->visited > w->n_pages) done = ODD;
        else done = fetch(w, next, page);
        if (done != FINE) break;
        size_t part = w->usable - 4;
        if (part > payload - got) part = (size_t)(payload - got);
        memcpy(w->record.at + got, page + 4, part);
        got += part;
        next = big32(page);
    }
    free(page);
    return done;
}

static enum Outcome leaf(Walk *w, Bytes page, uint32_t first, uint32_t n_cells)
{
    Bytes end = page + w->usable;
    for (uint32_t i = 0; i < n_cells; i++) {
        uint32_t at = big16(page + first + 2 * i);
        if (at >= w->usable) return ODD;
        Bytes p = page + at;
        uint64_t payload, rowid;
        int n = varint(p, end, &payload);
        if (!n) return ODD;
        p += n;
        if (!(n = varint(p, end, &rowid))) return ODD;
        p += n;
        for (int f = 0; f < w->n_fields; f++)
            if (w->kinds[f] != SKIP && !grow(&w->columns[w->target[f]], 8)) return NO_MEMORY;
        uint64_t most = w->usable - 35;
        enum Outcome done;
        if (payload <= most) {
            if (payload > (uint64_t)(end - p)) return ODD;
            done = take(w, p, p + payload);
        } else {
            uint64_t least = (w->usable - 12) * 32 / 255 - 23;
            uint64_t local = least + (payload - least) % (w->usable - 4);
            if (local > most) local = least;
            if (local + 4 > (uint64_t)(end - p)) return ODD;
            done = gather(w, p, (size_t)local, payload, big32(p + local));
            if (done == FINE) done = take(w, w->record.at, w->record.at + payload);
        }
        if (done != FINE) return done;
    }
    return FINE;
}

/* All leaves below `root`, left to right. */
static enum Outcome walk(Walk *w, uint32_t root)
{
    struct {
        uint32_t page, next; /* an interior page, and which of its children comes next */
    } stack[MAX_DEPTH];
    int depth = 0;
    stack[0].page = root, stack[0].next = 0;
    while (depth >= 0) {
        if (++w->visited > 2 * (uint64_t)w->n_pages + 8) return ODD;
        enum Outcome done = fetch(w, stack[depth].page, w->page);
        if (done != FINE) return done;
        uint32_t header = stack[depth].page == 1 ? 100 : 0;
        Bytes h = w->page + header;
        uint32_t n_cells = big16(h + 3), kind = h[0];
        uint32_t first = header + (kind == 0x05 ? 12 : 8);
        if ((kind != 0x05 && kind != 0x0d) || first + 2 * n_cells > w->usable) return ODD;
        if (kind == 0x0d) {
            if (stack[depth].next) return ODD;
            if ((done = leaf(w, w->page, first, n_cells)) != FINE) return done;
            depth--;
            continue;
        }
        uint32_t child, next = stack[depth].next;
        if (next > n_cells) {
            depth--;
            continue;
        }
        if (next < n_cells) {
            uint32_t at = big16(w->page + first + 2 * next);
            if (at + 4 > w->usable) return ODD;
            child = big32(w->page + at);
        } else {
            child = big32(h + 8);
        }
        /* Coming back to a page counts for nothing: each of its children was a visit. */
        w->visited -= next > 0;
        stack[depth].next++;
        if (++depth >= MAX_DEPTH) return ODD;
        stack[depth].page = child, stack[depth].next = 0;
    }
    return FINE;
}

/* ---- the module ----------------------------------------------------------------------------------- */

static PyObject *Odd;

static PyObject *words_of(const Words *w, const char *suffix, Py_ssize_t n_suffix)
{
    PyObject *list = PyList_New((Py_ssize_t)w->n);
    const Word *words = (const Word *)(void *)w->words.at;
    for (size_t i = 0; list && i < w->n; i++) {
        const char *text = (const char *)w->arena.at + words[i].at;
        PyObject *one = PyUnicode_DecodeUTF8(text, words[i].length, "replace");
        if (one && words[i].cut) {
            PyObject *end = PyUnicode_DecodeUTF8(suffix, n_suffix, "replace");
            PyObject *both = end ? PyUnicode_Concat(one, end) : NULL;
            Py_XDECREF(end);
            Py_DECREF(one);
            one = both;
        }
        if (!one) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)i, one);
    }
    return list;
}

static PyObject *result(const Walk *w, int n_columns, const uint8_t *is_text, const char *suffix,
                        Py_ssize_t n_suffix)
{
    PyObject *columns = PyList_New(0);
    for (int c = 0; columns && c < n_columns; c++) {
        const Store *s = &w->columns[c];
        PyObject *values = PyByteArray_FromStringAndSize((const char *)s->at, (Py_ssize_t)s->used);
        PyObject *column = values;
        if (values && is_text[c]) {
            PyObject *words = words_of(&w->words[c], suffix, n_suffix);
            column = words ? PyTuple_Pack(2, values, words) : NULL;
            Py_XDECREF(words);
            Py_DECREF(values);
        }
        if (!column || PyList_Append(columns, column) < 0) Py_CLEAR(columns);
        Py_XDECREF(column);
    }
    if (!columns) return NULL;
    PyObject *both = Py_BuildValue("nN", w->rows, columns);
    return both;
}

PyDoc_STRVAR(read_doc,
             "read(file, root, kinds, marks, suffix) -> (rows, columns)\n\n"
             "Columns of the table whose b-tree begins at page `root` of the open file.\n"
             "`kinds` has a byte for each column of the table: 0 not wanted, 1 integers, 2 texts.\n"
             "Integers come as int64 with the least one for NULL, texts as (int32 codes with -1 for\n"
             "NULL, distinct texts); a text ends before the first of `marks` in it, with `suffix`\n"
             "in its place. Raises OddError for what is better read by SQL, OSError, MemoryError.");

static PyObject *read_table(PyObject *self, PyObject *args)
{
    (void)self;
    int file;
    unsigned int root;
    const char *kinds, *suffix;
    Py_ssize_t n_kinds, n_suffix;
    PyObject *marks;
    if (!PyArg_ParseTuple(args, "iIy#O!y#", &file, &root, &kinds, &n_kinds, &PyTuple_Type, &marks,
                          &suffix, &n_suffix))
        return NULL;
    uint8_t head[100];
    ssize_t got = pread(file, head, sizeof head, 0);
    if (got < 0) return PyErr_SetFromErrno(PyExc_OSError);
    Walk w = {.file = file};
    off_t size = lseek(file, 0, SEEK_END);
    uint32_t page_bytes = got == 100 ? big16(head + 16) : 0;
    w.page_bytes = page_bytes == 1 ? 65536 : page_bytes;
    int sound = got == 100 && !memcmp(head, "SQLite format 3", 16) && n_kinds >= 1 &&
                n_kinds <= MAX_FIELDS && w.page_bytes >= 512 && w.page_bytes <= CHUNK &&
                !(w.page_bytes & (w.page_bytes - 1)) && head[20] <= w.page_bytes - 480 &&
                big32(head + 56) == 1 /* UTF-8 */ && PyTuple_GET_SIZE(marks) <= MAX_MARKS &&
                size > 0 && (uint64_t)size / w.page_bytes <= UINT32_MAX;
    if (!sound) {
        PyErr_SetString(Odd, "not the database that was asked for");
        return NULL;
    }
    w.usable = w.page_bytes - head[20];
    w.n_pages = (uint32_t)((uint64_t)size / w.page_bytes);
    w.n_fields = (int)n_kinds;
    w.n_marks = (int)PyTuple_GET_SIZE(marks);
    for (int m = 0; m < w.n_marks; m++) {
        char *text;
        Py_ssize_t bytes;
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(marks, m), &text, &bytes) < 0) return NULL;
        if (bytes < 1) {
            PyErr_SetString(PyExc_ValueError, "an empty mark");
            return NULL;
        }
        w.marks[m] = (Bytes)text, w.mark_bytes[m] = (size_t)bytes;
    }
    uint8_t is_text[MAX_FIELDS] = {0};
    int target[MAX_FIELDS] = {0}, n_columns = 0;
    for (int f = 0; f < w.n_fields; f++) {
        if (kinds[f] == SKIP) continue;
        is_text[n_columns] = kinds[f] == TEXT;
        target[f] = n_columns++;
    }
    w.kinds = (uint8_t *)kinds, w.target = target;
    w.columns = calloc((size_t)n_columns + 1, sizeof *w.columns);
    w.words = calloc((size_t)n_columns + 1, sizeof *w.words);
    w.chunk = malloc(CHUNK);
    w.page = malloc(w.page_bytes);
    enum Outcome done = w.columns && w.words && w.chunk && w.page ? FINE : NO_MEMORY;
    int number = 0;
    if (done == FINE) {
        Py_BEGIN_ALLOW_THREADS;
        done = walk(&w, root);
        number = errno;
        Py_END_ALLOW_THREADS;
    }
    PyObject *found = NULL;
    if (done == FINE) {
        found = result(&w, n_columns, is_text, suffix, n_suffix);
    } else if (done == ODD) {
        PyErr_SetString(Odd, "something that is read by SQL");
    } else if (done == UNREADABLE) {
        errno = number;
        PyErr_SetFromErrno(PyExc_OSError);
    } else {
        PyErr_NoMemory();
    }
    for (int c = 0; c < n_columns; c++) {
        if (w.columns) free(w.columns[c].at);
        if (w.words) free(w.words[c].arena.at), free(w.words[c].words.at), free(w.words[c].slots);
    }
    free(w.columns), free(w.words), free(w.chunk), free(w.page), free(w.record.at);
    return found;
}

static PyMethodDef methods[] = {{"read", read_table, METH_VARARGS, read_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT,
                                    "_pages",
                                    "Tables of an SQLite file by its pages; see nsys_sqlite.py.",
                                    -1,
                                    methods,
                                    NULL,
                                    NULL,
                                    NULL,
                                    NULL};

PyMODINIT_FUNC PyInit__pages(void)
{
    PyObject *m = PyModule_Create(&module);
    if (!m) return NULL;
    Odd = PyErr_NewException("specscope.traces._pages.OddError", PyExc_Exception, NULL);
    Py_XINCREF(Odd);
    if (!Odd || PyModule_AddObject(m, "OddError", Odd) < 0) {
        Py_XDECREF(Odd);
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
