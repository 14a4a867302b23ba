/* Reads JSON (RFC 8259) event by event, with what Python's json module reads besides: NaN, Infinity
 * and -Infinity, escaped surrogates without their other half, and a byte order mark at the front.
 *
 *     struct sw_json_reader r;
 *     sw_json_reader_begin(&r, text, bytes);
 *     while ((event = sw_json_next(&r)) != SW_JSON_END && event < SW_JSON_MISTAKE)
 *         ... r.value, r.value_bytes ...
 *     sw_json_reader_free(&r);
 *
 * With `plain` set before the first event, neither such numbers nor halves of pairs are.
 *
 * Numbers are handed over as they are written, of any size. The text is the caller's and stays as
 * it is; a reader is for one thread. */
#ifndef SW_JSON_READ_H
#define SW_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sw_json_event {
    SW_JSON_OBJECT, /* its members follow: SW_JSON_KEY and a value, until SW_JSON_CLOSE */
    SW_JSON_ARRAY,  /* its elements follow, until SW_JSON_CLOSE */
    SW_JSON_CLOSE,
    SW_JSON_KEY,    /* value: the text without its escapes */
    SW_JSON_STRING, /* value: the text without its escapes */
    SW_JSON_NUMBER, /* value: as it is written; NaN, Infinity and -Infinity, too */
    SW_JSON_WORD,   /* value: true, false or null */
    SW_JSON_END,    /* of the text */
    SW_JSON_MISTAKE,
    SW_JSON_NO_MEMORY
};

enum { SW_JSON_READ_DEPTH = 2048 }; /* most containers within each other */

struct sw_json_reader {
    char *value;        /* of the last event, 0-terminated; valid until the next one */
    size_t value_bytes; /* a string may have NULs, too */
    size_t begin;       /* the byte at which the last event or the mistake begins */
    const char *mistake;
    bool plain;
    /* its own */
    const char *text;
    size_t bytes, at, room, seen;
    int32_t line, column; /* of the byte `seen` */
    int32_t depth, state;
    uint8_t is_object[SW_JSON_READ_DEPTH / 8]; /* a bit for each that is open */
};

void sw_json_reader_begin(struct sw_json_reader *reader, const char *text, size_t bytes);
void sw_json_reader_free(struct sw_json_reader *reader);
/* After SW_JSON_MISTAKE, whose words are in `mistake`, or SW_JSON_NO_MEMORY there is no next. */
enum sw_json_event sw_json_next(struct sw_json_reader *reader);
/* Line and column, from 1, in characters, at which the last event or the mistake begins. */
void sw_json_where(struct sw_json_reader *reader, int32_t *line, int32_t *column);

#endif
