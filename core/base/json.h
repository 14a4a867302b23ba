/* Writes JSON directly to a stream: it keeps nothing, so it cannot run out of memory.
 *
 *     struct sw_json j = {.out = stdout, .style = SW_JSON_TABS};
 *     sw_json_object(&j, NULL);
 *     sw_json_text(&j, "name", "llama");
 *     sw_json_array(&j, "sizes");
 *     sw_json_number(&j, NULL, 4096);
 *     sw_json_end(&j);
 *     sw_json_end(&j);
 *
 * `key` is a member's name; NULL in an array and for the root. The caller checks the stream's
 * errors, and is responsible for keys, nesting and ends. */
#ifndef SW_JSON_H
#define SW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sw_json_style {
    SW_JSON_LINE,  /* {"a":[1,2]}: a document is one line */
    SW_JSON_TABS,  /* a member a line, after tabs; an array's elements side by side */
    SW_JSON_SPACES /* the same after two spaces, arrays not counted; see sw_json_inline */
};

enum { SW_JSON_DEPTH = 32 };

struct sw_json {
    FILE *out;
    enum sw_json_style style;
    /* private: open containers, zero at first */
    int32_t depth;
    struct {
        uint8_t kind;
        bool has_members;
    } open[SW_JSON_DEPTH];
};

void sw_json_object(struct sw_json *json, const char *key);
void sw_json_array(struct sw_json *json, const char *key);
/* Opens an object whose members stand side by side in any style. */
void sw_json_inline(struct sw_json *json, const char *key);
/* Ends the innermost object or array. No newline follows the outermost. */
void sw_json_end(struct sw_json *json);

/* text NULL: null */
void sw_json_text(struct sw_json *json, const char *key, const char *text);
/* Writes 15 digits, or 17 if 15 would change the number by more than its rounding; NaN and
 * infinities become null. */
void sw_json_number(struct sw_json *json, const char *key, double value);
/* Writes that many digits. */
void sw_json_digits(struct sw_json *json, const char *key, double value, int32_t digits);
void sw_json_integer(struct sw_json *json, const char *key, int64_t value);
void sw_json_bool(struct sw_json *json, const char *key, bool value);
void sw_json_null(struct sw_json *json, const char *key);
/* Writes JSON text: a value, or, without a key in an object, its members. */
void sw_json_raw(struct sw_json *json, const char *key, const char *text, size_t bytes);

#endif
