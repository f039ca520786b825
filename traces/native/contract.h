/* The contract of events.py and scan.py: codes, flags, limits. */
#ifndef SPECSCOPE_CONTRACT_H
#define SPECSCOPE_CONTRACT_H

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

#endif
