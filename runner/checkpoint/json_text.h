/* Texts of JSON as jansson's values. core/base/json_read.h says which texts are JSON. */
#ifndef SW_JSON_TEXT_H
#define SW_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SW_JSON_TWICE = 1, /* a key that stands twice in an object; else the last one counts */
    SW_JSON_ODD = 2    /* what only Python's JSON has, sw_json_reader.plain, and NULs in strings */
};

struct sw_json_mistake {
    const char *what; /* static memory; NULL: memory ran out */
    int32_t line, column;
    size_t byte;
};

/* The value of a text, the caller's to json_decref; NULL: *why is set (may be NULL). refuses:
 * SW_JSON_TWICE, SW_JSON_ODD or both. A NUL in a key, which jansson's keys cannot have, becomes the
 * bytes c0 80.
 *
 * A number that is no int64_t or double (sw_json_big) is an object for jansson, with a key that no
 * text can have. */
json_t *sw_json_load(const char *text, size_t bytes, uint32_t refuses, struct sw_json_mistake *why);

/* A number that jansson has no value for, as it is written: an integer beyond 64 bits, 1e400, NaN,
 * Infinity or -Infinity. NULL: the value is another one. */
const char *sw_json_big(const json_t *value);
/* An object of the text: json_is_object would call such a number one, too. */
bool sw_json_is_object(const json_t *value);

#endif
