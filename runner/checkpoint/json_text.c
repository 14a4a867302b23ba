#include "runner/checkpoint/json_text.h"

#include "core/base/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BIG_KEY "\xff" /* invalid UTF-8, so in no text */

const char *sw_json_big(const json_t *value)
{
    return json_is_object(value) && json_object_size(value) == 1
               ? json_string_value(json_object_get(value, BIG_KEY))
               : NULL;
}

bool sw_json_is_object(const json_t *value)
{
    return json_is_object(value) && sw_json_big(value) == NULL;
}

static json_t *big(const char *digits)
{
    json_t *object = json_object();
    if (object == NULL || json_object_set_new_nocheck(object, BIG_KEY, json_string(digits)) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *number(const char *digits)
{
    const bool whole = digits[strspn(digits, "-0123456789")] == '\0';
    errno = 0;
    const long long integer = whole ? strtoll(digits, NULL, 10) : 0;
    if (whole)
        return errno == 0 ? json_integer(integer) : big(digits);
    const double real = strtod(digits, NULL);
    return isfinite(real) ? json_real(real) : big(digits);
}

/* NULL: no memory. */
static json_t *value_of(enum sw_json_event event, const struct sw_json_reader *r)
{
    switch (event) {
    case SW_JSON_OBJECT:
        return json_object();
    case SW_JSON_ARRAY:
        return json_array();
    case SW_JSON_STRING:
        return json_stringn_nocheck(r->value, r->value_bytes);
    case SW_JSON_NUMBER:
        return number(r->value);
    default:
        return r->value[0] == 'n' ? json_null() : json_boolean(r->value[0] == 't');
    }
}

/* Tree being built, with its open containers. */
struct tree {
    struct sw_json_reader reader;
    json_t *root, *open[SW_JSON_READ_DEPTH];
    int32_t depth;
    char *key; /* the next value's */
};

static bool take_key(struct tree *t)
{
    const struct sw_json_reader *r = &t->reader;
    size_t at = 0;
    char *key = malloc(2 * r->value_bytes + 1);
    free(t->key);
    t->key = key;
    if (key == NULL)
        return false;
    for (size_t i = 0; i < r->value_bytes; i++) {
        const bool nul = r->value[i] == '\0';
        key[at++] = nul ? '\xc0' : r->value[i];
        if (nul)
            key[at++] = '\x80';
    }
    key[at] = '\0';
    return true;
}

/* Attaches the value, which may be NULL, to the open container. */
static bool attach(struct tree *t, json_t *value, bool is_container)
{
    json_t *parent = t->depth > 0 ? t->open[t->depth - 1] : NULL;
    if (value == NULL)
        return false;
    if (is_container)
        t->open[t->depth++] = value;
    if (parent == NULL)
        t->root = value;
    else if (json_is_array(parent))
        return json_array_append_new(parent, value) == 0;
    else
        return json_object_set_new_nocheck(parent, t->key, value) == 0;
    return true;
}

json_t *sw_json_load(const char *text, size_t bytes, uint32_t refuses, struct sw_json_mistake *why)
{
    struct tree t = {.root = NULL};
    const char *mistake = NULL;
    enum sw_json_event event;
    bool good = true;
    sw_json_reader_begin(&t.reader, text, bytes);
    t.reader.plain = (refuses & SW_JSON_ODD) != 0;
    while (good && (event = sw_json_next(&t.reader)) != SW_JSON_END) {
        good = event < SW_JSON_MISTAKE;
        if (t.reader.plain && (event == SW_JSON_KEY || event == SW_JSON_STRING) &&
            strlen(t.reader.value) != t.reader.value_bytes) {
            mistake = "a string with a NUL character";
            good = false;
        } else if (event == SW_JSON_CLOSE) {
            t.depth--;
        } else if (event == SW_JSON_KEY) {
            good = take_key(&t);
            if (good && (refuses & SW_JSON_TWICE) != 0 &&
                json_object_get(t.open[t.depth - 1], t.key) != NULL) {
                mistake = "a duplicate key";
                good = false;
            }
        } else if (good) {
            good = attach(&t, value_of(event, &t.reader),
                          event == SW_JSON_OBJECT || event == SW_JSON_ARRAY);
        }
    }
    if (!good && why != NULL) {
        *why = (struct sw_json_mistake){.what = mistake != NULL ? mistake : t.reader.mistake,
                                        .byte = t.reader.begin};
        sw_json_where(&t.reader, &why->line, &why->column);
    }
    if (!good) {
        json_decref(t.root);
        t.root = NULL;
    }
    free(t.key);
    sw_json_reader_free(&t.reader);
    return t.root;
}
