/* Reads JSON (RFC 8259) event by event, and the extensions of Python's json module: NaN, Infinity
 * and -Infinity, escaped surrogates without their other half, and a byte order mark at the front.
 *
 *     struct sw_json_reader r;
 *     sw_json_reader_begin(&r, text, bytes);
 *     while ((event = sw_json_next(&r)) != SW_JSON_END && event < SW_JSON_MISTAKE)
 *         ... r.value, r.value_bytes ...
 *     sw_json_reader_free(&r);
 *
 * Setting `plain` before the first event disables these numbers and single surrogates.
 *
 * Numbers are returned as written, of any size. The caller owns the text, which is not changed; a
 * reader is for one thread. */
#ifndef SW_JSON_READ_H
#define SW_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_json_event {
    SW_JSON_OBJECT, /* its members follow: SW_JSON_KEY and a value, until SW_JSON_CLOSE */
    SW_JSON_ARRAY,  /* its elements follow, until SW_JSON_CLOSE */
    SW_JSON_CLOSE,
    SW_JSON_KEY,    /* value: text without escapes */
    SW_JSON_STRING, /* value: text without escapes */
    SW_JSON_NUMBER, /* value: as written; also NaN, Infinity and -Infinity */
    SW_JSON_WORD,   /* value: true, false or null */
    SW_JSON_END,    /* end of the text */
    SW_JSON_MISTAKE,
    SW_JSON_NO_MEMORY
};

enum { SW_JSON_READ_DEPTH = 2048 }; /* most containers within each other */

struct sw_json_reader {
    char *value;        /* value of the last event, 0-terminated; valid until the next one */
    size_t value_bytes; /* length; a string may contain NULs */
    size_t begin;       /* byte at which the last event or the mistake begins */
    const char *mistake;
    bool plain;
    /* private */
    const char *text;
    size_t bytes, at, room, seen;
    int32_t line, column; /* position of the byte `seen` */
    int32_t depth, state;
    uint8_t is_object[SW_JSON_READ_DEPTH / 8]; /* a bit for each open container */
};

void sw_json_reader_begin(struct sw_json_reader *reader, const char *text, size_t bytes);
void sw_json_reader_free(struct sw_json_reader *reader);
/* No call may follow SW_JSON_MISTAKE, whose text is in `mistake`, or SW_JSON_NO_MEMORY. */
enum sw_json_event sw_json_next(struct sw_json_reader *reader);
/* Line and column, from 1, in characters, of the last event's or the mistake's begin. */
void sw_json_where(struct sw_json_reader *reader, int32_t *line, int32_t *column);

#endif
