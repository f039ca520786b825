/* The Python type that collects the rows of many scans. */
#ifndef SPECSCOPE_COLUMNS_H
#define SPECSCOPE_COLUMNS_H

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

#endif
