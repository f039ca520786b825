/* A stretch of events, and the Python type that scans it. */
#ifndef SPECSCOPE_SCANNER_H
#define SPECSCOPE_SCANNER_H

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

#endif
