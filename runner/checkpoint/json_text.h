/* JSON texts as jansson values. core/base/json_read.h defines the accepted texts. */
#ifndef SW_JSON_TEXT_H
#define SW_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SW_JSON_TWICE = 1, /* duplicate keys of an object; else the last one wins */
    SW_JSON_ODD = 2    /* extensions of Python's JSON (sw_json_reader.plain), and NULs in strings */
};

struct sw_json_mistake {
    const char *what; /* static memory; NULL: out of memory */
    int32_t line, column;
    size_t byte;
};

/* Parses a text; the caller calls json_decref. NULL: *why is set (may be NULL). refuses:
 * SW_JSON_TWICE, SW_JSON_ODD or both. A NUL in a key, impossible in jansson, becomes the bytes c0
 * 80.
 *
 * A number that fits no int64_t or double (sw_json_big) becomes an object with a key that no text
 * can have. */
json_t *sw_json_load(const char *text, size_t bytes, uint32_t refuses, struct sw_json_mistake *why);

/* Text of a number that jansson cannot represent: an integer beyond 64 bits, 1e400, NaN, Infinity
 * or -Infinity. NULL: another value. */
const char *sw_json_big(const json_t *value);
/* True for an object of the text; json_is_object would include such numbers. */
bool sw_json_is_object(const json_t *value);

#endif
