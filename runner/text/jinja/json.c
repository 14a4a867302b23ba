/* JSON to values, and values to JSON like Python's json.dumps(ensure_ascii=False). */
#include "runner/checkpoint/json_text.h"
#include "runner/text/jinja/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct jinja_value copy_text(struct jinja_run *run, const char *text, size_t bytes,
                                    bool marked)
{
    struct jinja_out out = {.run = run};
    sw_jinja_put(&out, text, bytes, marked);
    return sw_jinja_text_of(&out);
}

/* True for a role of one word: templates make special tokens of it, "<|user|>". */
static bool is_role(const char *key, const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && strcmp(key, "role") == 0 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") ==
               json_string_length(value);
}

/* Number too large for jansson. */
static struct jinja_value from_big(struct jinja_run *run, const char *digits)
{
    return digits[strspn(digits, "-0123456789")] == '\0'
               ? sw_jinja_integer(run, digits, strlen(digits))
               : jinja_real(strtod(digits, NULL));
}

static struct jinja_value from_object(struct jinja_run *run, const json_t *value, bool marked)
{
    struct jinja_value made = sw_jinja_dict(run, json_object_size(value));
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        if (run->failed)
            break;
        struct jinja_dict *dict = made.of.dict; /* has room; JSON keys are distinct */
        dict->key[dict->count] = copy_text(run, key, strlen(key), marked);
        dict->value[dict->count] = sw_jinja_from_json(run, member, marked && !is_role(key, member));
        dict->count++;
    }
    return made;
}

struct jinja_value sw_jinja_from_json(struct jinja_run *run, const json_t *value, bool marked)
{
    struct jinja_value made = jinja_none();
    if (++run->depth > JINJA_DEPTH)
        sw_jinja_fail(run, "the chat template goes too deep");
    if (run->failed) {
        made = jinja_undefined(NULL);
    } else if (sw_json_big(value) != NULL) {
        made = from_big(run, sw_json_big(value));
    } else if (sw_json_is_object(value)) {
        made = from_object(run, value, marked);
    } else if (json_is_array(value)) {
        made = sw_jinja_list(run, json_array_size(value));
        for (size_t i = 0; i < json_array_size(value) && !run->failed; i++)
            sw_jinja_push(run, made.of.list,
                          sw_jinja_from_json(run, json_array_get(value, i), marked));
    } else if (json_is_string(value)) {
        made = copy_text(run, json_string_value(value), json_string_length(value), marked);
    } else if (json_is_integer(value)) {
        made = jinja_int(json_integer_value(value));
    } else if (json_is_real(value)) {
        made = jinja_real(json_real_value(value));
    } else if (json_is_boolean(value)) {
        made = jinja_bool(json_is_true(value));
    }
    run->depth--;
    return made;
}

/* ---- and back ---- */

struct dumping {
    struct jinja_out out;
    const struct jinja_text *item, *key; /* separators */
    const struct jinja_text *indent;     /* NULL: one line */
    bool sorts, ascii;
    size_t level;
};

static void put_escaped(struct jinja_out *out, const struct jinja_text *text, bool ascii)
{
    static const char letters[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    size_t from = 0, bytes;
    sw_jinja_put_words(out, "\"");
    for (size_t i = 0; i < text->count && !out->run->failed; i += bytes) {
        const uint32_t c = sw_utf8_get(text->byte + i, &bytes);
        char escape[16] = "";
        if (c >= 32 && c != '"' && c != '\\' && (c < 127 || !ascii))
            continue;
        if (c < 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        else
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x",
                     (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xdc00 + ((c - 0x10000) & 0x3ff)));
        for (size_t k = 0; k + 1 < sizeof letters; k += 2)
            if ((uint32_t)letters[k] == c)
                snprintf(escape, sizeof escape, "\\%c", letters[k + 1]);
        sw_jinja_put_text(out, text, from, i);
        sw_jinja_put(out, escape, strlen(escape), jinja_mark(text, i));
        from = i + bytes;
    }
    sw_jinja_put_text(out, text, from, text->count);
    sw_jinja_put_words(out, "\"");
}

static void new_line(struct dumping *d)
{
    if (d->indent == NULL)
        return;
    sw_jinja_put_words(&d->out, "\n");
    for (size_t i = 0; i < d->level && !d->out.run->failed; i++)
        sw_jinja_put_text(&d->out, d->indent, 0, d->indent->count);
}

static void dump(struct dumping *d, struct jinja_value v);

static void dump_key(struct dumping *d, struct jinja_value key)
{
    if (key.kind == JINJA_TEXT) {
        put_escaped(&d->out, key.of.text, d->ascii);
        return;
    }
    sw_jinja_put_words(&d->out, "\"");
    dump(d, key);
    sw_jinja_put_words(&d->out, "\"");
}

/* Indices of a dict's keys in sorted order. */
static size_t *sorted_keys(struct jinja_run *run, const struct jinja_dict *dict)
{
    size_t *order = sw_jinja_take(run, (dict->count + 1) * sizeof *order);
    for (size_t i = 0; order != NULL && i < dict->count; i++) {
        size_t at = i;
        for (; at > 0 && sw_jinja_order(run, dict->key[order[at - 1]], dict->key[i]) > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
        sw_jinja_charge(run, 0);
    }
    return order;
}

static void dump_members(struct dumping *d, struct jinja_value v)
{
    const bool dict = v.kind == JINJA_MAPPING;
    const size_t count = dict ? v.of.dict->count : v.of.list->count;
    const size_t *order = dict && d->sorts ? sorted_keys(d->out.run, v.of.dict) : NULL;
    sw_jinja_put_words(&d->out, dict ? "{" : "[");
    d->level++;
    for (size_t i = 0; i < count && !d->out.run->failed; i++) {
        const size_t at = order != NULL ? order[i] : i;
        if (i > 0)
            sw_jinja_put_text(&d->out, d->item, 0, d->item->count);
        new_line(d);
        if (dict) {
            dump_key(d, v.of.dict->key[at]);
            sw_jinja_put_text(&d->out, d->key, 0, d->key->count);
        }
        dump(d, dict ? v.of.dict->value[at] : v.of.list->item[at]);
    }
    d->level--;
    if (count > 0)
        new_line(d);
    sw_jinja_put_words(&d->out, dict ? "}" : "]");
}

static void dump(struct dumping *d, struct jinja_value v)
{
    struct jinja_out *out = &d->out;
    if (++out->run->depth > JINJA_DEPTH)
        sw_jinja_fail(out->run, "the chat template goes too deep");
    if (!out->run->failed) {
        if (v.kind == JINJA_TEXT)
            put_escaped(out, v.of.text, d->ascii);
        else if (v.kind == JINJA_NONE || v.kind == JINJA_BOOLEAN)
            sw_jinja_put_words(out, v.kind == JINJA_NONE ? "null"
                                    : v.of.integer != 0  ? "true"
                                                         : "false");
        else if (v.kind == JINJA_REAL && (isnan(v.of.real) || isinf(v.of.real)))
            sw_jinja_put_words(out, isnan(v.of.real) ? "NaN"
                                    : v.of.real > 0  ? "Infinity"
                                                     : "-Infinity");
        else if (v.kind == JINJA_INT || v.kind == JINJA_REAL || v.kind == JINJA_BIG)
            sw_jinja_put_value(out, v);
        else if ((v.kind == JINJA_SEQUENCE && !v.of.list->is_lazy) || v.kind == JINJA_MAPPING)
            dump_members(d, v);
        else
            sw_jinja_fail(out->run, "a value that is %s cannot be JSON", sw_jinja_kind_name(v));
    }
    out->run->depth--;
}

struct jinja_value sw_jinja_filter_tojson(struct jinja_run *run, struct jinja_value v,
                                          const struct jinja_arguments *a)
{
    const struct jinja_value indent = sw_jinja_argument(a, 1, "indent", jinja_none());
    const struct jinja_value separators = sw_jinja_argument(a, 2, "separators", jinja_none());
    struct dumping d = {.out = {.run = run}};
    const bool lines = indent.kind != JINJA_NONE;
    d.sorts = sw_jinja_is_true(sw_jinja_argument(a, 3, "sort_keys", jinja_bool(false)));
    d.item = sw_jinja_as_text(run, sw_jinja_text(run, lines ? "," : ", "));
    d.key = sw_jinja_as_text(run, sw_jinja_text(run, ": "));
    d.ascii = sw_jinja_is_true(sw_jinja_argument(a, 0, "ensure_ascii", jinja_bool(false)));
    if (separators.kind == JINJA_SEQUENCE && separators.of.list->count == 2) {
        d.item = sw_jinja_as_text(run, separators.of.list->item[0]);
        d.key = sw_jinja_as_text(run, separators.of.list->item[1]);
    }
    if (lines) {
        struct jinja_out spaces = {.run = run};
        if (indent.kind == JINJA_TEXT)
            sw_jinja_put_value(&spaces, indent);
        for (int64_t i = 0; indent.kind == JINJA_INT && i < indent.of.integer && !run->failed; i++)
            sw_jinja_put_words(&spaces, " ");
        d.indent = sw_jinja_as_text(run, sw_jinja_text_of(&spaces));
    }
    dump(&d, v);
    return sw_jinja_text_of(&d.out);
}

struct jinja_value sw_jinja_filter_from_json(struct jinja_run *run, struct jinja_value v,
                                             const struct jinja_arguments *a)
{
    struct jinja_value made = jinja_undefined(NULL);
    (void)a;
    if (v.kind != JINJA_TEXT)
        return sw_jinja_fail(run, "from_json takes a string, not %s", sw_jinja_kind_name(v));
    sw_jinja_charge(run, v.of.text->count);
    json_t *value = run->failed ? NULL : sw_json_load(v.of.text->byte, v.of.text->count, 0, NULL);
    if (value == NULL)
        return sw_jinja_fail(run, "from_json of a string that is not JSON");
    made = sw_jinja_from_json(run, value, v.of.text->mark != NULL);
    json_decref(value);
    return made;
}
