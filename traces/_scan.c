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
 * One translation unit: the headers under native/ are its chapters, in reading order.
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

#include "native/contract.h"
#include "native/memory.h"
#include "native/cursor.h"
#include "native/numbers.h"
#include "native/texts.h"
#include "native/event.h"
#include "native/scanner.h"
#include "native/columns.h"

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
