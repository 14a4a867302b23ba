/* Values: truth, equality and order as in Python, and texts whose bytes are marked as foreign or
 * generated. */
#include "core/base/text.h"
#include "runner/text/jinja/internal.h"
#include "runner/text/tokenizer/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jinja_value sw_jinja_fail(struct jinja_run *run, const char *format, ...)
{
    char text[400];
    va_list list;
    if (!run->failed) {
        va_start(list, format);
        vsnprintf(text, sizeof text, format, list);
        va_end(list);
        sw_text_show(text); /* names may come from a conversation */
        sw_fail_at(run->err, SW_BAD_INPUT,
                   sw_jinja_place(&run->jinja->source, run->at != NULL ? run->at->position : 0),
                   "%s", text);
    }
    run->failed = true;
    return jinja_undefined(NULL);
}

void sw_jinja_charge(struct jinja_run *run, size_t bytes)
{
    run->steps_left -= 1 + (int64_t)(bytes / 64);
    if (run->steps_left < 0)
        sw_jinja_fail(run, "the chat template takes too many steps");
}

void *sw_jinja_take(struct jinja_run *run, size_t bytes)
{
    void *memory = run->failed ? NULL : sw_jinja_arena_take(&run->arena, bytes);
    if (memory == NULL)
        sw_jinja_fail(run, "the chat template takes too much memory");
    return memory;
}

const char *sw_jinja_kind_name(struct jinja_value v)
{
    static const char *const names[] = {
        "undefined value", "None", "bool",     "int",    "float", "int", "str", "list", "dict",
        "namespace",       "loop", "function", "method", "macro"};
    if (v.kind == JINJA_SEQUENCE && (v.of.list->is_tuple || v.of.list->is_lazy))
        return v.of.list->is_lazy ? "generator" : "tuple";
    return names[v.kind];
}

bool sw_jinja_is_true(struct jinja_value v)
{
    switch (v.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOLEAN:
    case JINJA_INT:
        return v.of.integer != 0;
    case JINJA_REAL:
        return v.of.real != 0;
    case JINJA_TEXT:
        return v.of.text->count > 0;
    case JINJA_SEQUENCE:
        return v.of.list->count > 0;
    case JINJA_MAPPING:
        return v.of.dict->count > 0;
    default:
        return true;
    }
}

static bool equal_items(struct jinja_run *run, struct jinja_value a, struct jinja_value b)
{
    const struct jinja_list *x = a.of.list, *y = b.of.list;
    if (x->count != y->count || x->is_tuple != y->is_tuple)
        return false;
    for (size_t i = 0; i < x->count && !run->failed; i++)
        if (!sw_jinja_equal(run, x->item[i], y->item[i]))
            return false;
    return true;
}

static bool equal_keys(struct jinja_run *run, struct jinja_value a, struct jinja_value b)
{
    const struct jinja_dict *x = a.of.dict, *y = b.of.dict;
    for (size_t i = 0; x->count == y->count && i < x->count && !run->failed; i++) {
        const struct jinja_value *other = sw_jinja_dict_find(run, y, x->key[i]);
        if (other == NULL || !sw_jinja_equal(run, x->value[i], *other))
            return false;
    }
    return x->count == y->count;
}

bool sw_jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b)
{
    bool equal = false;
    sw_jinja_charge(run, 0);
    if (run->failed)
        return false;
    if (sw_jinja_are_numbers(a, b))
        return !sw_jinja_is_nan(a) && !sw_jinja_is_nan(b) && sw_jinja_order_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    if (a.kind == JINJA_TEXT) {
        sw_jinja_charge(run, a.of.text->count);
        return a.of.text->count == b.of.text->count &&
               memcmp(a.of.text->byte, b.of.text->byte, a.of.text->count) == 0;
    }
    if (a.kind == JINJA_NONE || a.kind == JINJA_UNDEFINED)
        return true;
    if (++run->depth > JINJA_DEPTH)
        sw_jinja_fail(run, "the chat template goes too deep");
    else if (a.kind == JINJA_SEQUENCE)
        equal = equal_items(run, a, b);
    else if (a.kind == JINJA_MAPPING)
        equal = equal_keys(run, a, b);
    else
        equal = a.of.loop == b.of.loop;
    run->depth--;
    return equal;
}

int32_t sw_jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b)
{
    if (run->failed)
        return 0;
    if (sw_jinja_are_numbers(a, b))
        return sw_jinja_order_numbers(a, b);
    if (a.kind == JINJA_TEXT && b.kind == JINJA_TEXT) {
        const struct jinja_text *x = a.of.text, *y = b.of.text;
        const size_t count = x->count < y->count ? x->count : y->count;
        const int32_t order = memcmp(x->byte, y->byte, count);
        sw_jinja_charge(run, count);
        return order != 0 ? (order > 0 ? 1 : -1) : (x->count > y->count) - (x->count < y->count);
    }
    if (a.kind == JINJA_SEQUENCE && b.kind == JINJA_SEQUENCE) {
        const struct jinja_list *x = a.of.list, *y = b.of.list;
        for (size_t i = 0; i < x->count && i < y->count && !run->failed; i++)
            if (!sw_jinja_equal(run, x->item[i], y->item[i])) {
                if (++run->depth > JINJA_DEPTH)
                    sw_jinja_fail(run, "the chat template goes too deep");
                const int32_t order = sw_jinja_order(run, x->item[i], y->item[i]);
                run->depth--;
                return order;
            }
        return (x->count > y->count) - (x->count < y->count);
    }
    sw_jinja_fail(run, "'%s' and '%s' have no order", sw_jinja_kind_name(a), sw_jinja_kind_name(b));
    return 0;
}

bool sw_jinja_compare(struct jinja_run *run, const char *op, struct jinja_value a,
                      struct jinja_value b)
{
    if (sw_jinja_are_numbers(a, b) && (sw_jinja_is_nan(a) || sw_jinja_is_nan(b)))
        return false;
    const int32_t order = sw_jinja_order(run, a, b);
    return op[0] == '<' ? order < (op[1] == '=') : order > -(op[1] == '=');
}

bool sw_jinja_contains(struct jinja_run *run, struct jinja_value in, struct jinja_value what)
{
    if (in.kind == JINJA_TEXT && what.kind == JINJA_TEXT) {
        sw_jinja_charge(run, in.of.text->count);
        return what.of.text->count == 0 || memmem(in.of.text->byte, in.of.text->count,
                                                  what.of.text->byte, what.of.text->count) != NULL;
    }
    if (in.kind == JINJA_MAPPING || in.kind == JINJA_NAMESPACE)
        return sw_jinja_dict_find(run, in.of.dict, what) != NULL;
    if (in.kind == JINJA_SEQUENCE) {
        for (size_t i = 0; i < in.of.list->count && !run->failed; i++)
            if (sw_jinja_equal(run, in.of.list->item[i], what))
                return true;
        return false;
    }
    if (in.kind != JINJA_UNDEFINED)
        sw_jinja_fail(run, "'in' cannot look into a value that is %s", sw_jinja_kind_name(in));
    return false;
}

/* ---- texts ---- */

/* Makes room; false: the run has failed. */
static bool reserve(struct jinja_out *out, size_t more, bool marked)
{
    if (more > out->capacity - out->count) {
        size_t capacity = out->capacity < 64 ? 64 : out->capacity;
        while (capacity - out->count < more && capacity < SIZE_MAX / 4)
            capacity *= 2;
        char *byte = sw_jinja_take(out->run, capacity + 1);
        unsigned char *mark = out->mark == NULL ? NULL : sw_jinja_take(out->run, capacity);
        if (byte == NULL || out->run->failed)
            return false;
        if (out->count > 0)
            memcpy(byte, out->byte, out->count);
        if (mark != NULL && out->count > 0)
            memcpy(mark, out->mark, out->count);
        out->byte = byte;
        out->mark = mark;
        out->capacity = capacity;
    }
    if (marked && out->mark == NULL)
        out->mark = sw_jinja_take(out->run, out->capacity);
    return !out->run->failed;
}

void sw_jinja_put(struct jinja_out *out, const char *text, size_t bytes, unsigned char mark)
{
    sw_jinja_charge(out->run, bytes);
    if (bytes == 0 || out->run->failed || !reserve(out, bytes, mark != 0))
        return;
    memcpy(out->byte + out->count, text, bytes);
    if (mark != 0)
        memset(out->mark + out->count, mark, bytes);
    out->count += bytes;
}

void sw_jinja_mark(struct jinja_out *out, size_t begin, unsigned char mark)
{
    if (begin == out->count || out->run->failed || !reserve(out, 0, true))
        return;
    sw_jinja_charge(out->run, out->count - begin);
    for (size_t i = begin; i < out->count; i++)
        out->mark[i] |= mark;
}

void sw_jinja_put_text(struct jinja_out *out, const struct jinja_text *text, size_t from, size_t to)
{
    sw_jinja_charge(out->run, to - from);
    if (to <= from || out->run->failed || !reserve(out, to - from, text->mark != NULL))
        return;
    memcpy(out->byte + out->count, text->byte + from, to - from);
    if (text->mark != NULL)
        memcpy(out->mark + out->count, text->mark + from, to - from);
    out->count += to - from;
}

void sw_jinja_put_words(struct jinja_out *out, const char *text)
{
    sw_jinja_put(out, text, strlen(text), 0);
}

struct jinja_value sw_jinja_text_of(const struct jinja_out *out)
{
    struct jinja_text *text = sw_jinja_take(out->run, sizeof *text);
    if (text == NULL)
        return jinja_undefined(NULL);
    *text = (struct jinja_text){out->count > 0 ? out->byte : "", out->mark, out->count, false};
    if (out->count > 0)
        out->byte[out->count] = '\0';
    return (struct jinja_value){JINJA_TEXT, {.text = text}};
}

struct jinja_value sw_jinja_safe(const struct jinja_out *out)
{
    const struct jinja_value v = sw_jinja_text_of(out);
    struct jinja_text *text = sw_jinja_take(out->run, sizeof *text);
    if (text == NULL)
        return v;
    *text = *v.of.text;
    text->is_safe = true;
    return (struct jinja_value){JINJA_TEXT, {.text = text}};
}

struct jinja_value sw_jinja_text(struct jinja_run *run, const char *text)
{
    struct jinja_text *made = sw_jinja_take(run, sizeof *made);
    if (made == NULL)
        return jinja_undefined(NULL);
    *made = (struct jinja_text){.byte = text, .count = strlen(text)};
    return (struct jinja_value){JINJA_TEXT, {.text = made}};
}

struct jinja_value sw_jinja_part(struct jinja_run *run, const struct jinja_text *text, size_t from,
                                 size_t to)
{
    struct jinja_out out = {.run = run};
    sw_jinja_put_text(&out, text, from, to);
    return sw_jinja_text_of(&out);
}

/* Writes the shortest digits, as d.ddde+xx, that read back as the same double. Up to 15 digits only
 * the nearest decimal can; with 16, a neighbour may. */
static int32_t write_shortest(double d, char text[48])
{
    for (int32_t digits = 1; digits < 17; digits++)
        for (int32_t step = 0; step < (digits < 16 ? 1 : 3); step++) {
            snprintf(text, 48, "%.*e", (int)digits - 1, d);
            char *last = strchr(text, 'e') - 1;
            if (step > 0 && *last == (step == 1 ? '9' : '0'))
                continue; /* fewer digits suffice */
            *last = (char)(*last + (step == 1) - (step == 2));
            if (strtod(text, NULL) == d)
                return digits;
        }
    snprintf(text, 48, "%.16e", d);
    return 17;
}

static void put_real(struct jinja_out *out, double d)
{
    char text[48], digit[20];
    int32_t count = 0;
    if (isnan(d) || isinf(d)) {
        sw_jinja_put_words(out, isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
        return;
    }
    write_shortest(fabs(d), text);
    const int32_t exponent = (int32_t)strtol(strchr(text, 'e') + 1, NULL, 10);
    sw_jinja_put(out, "-", signbit(d) != 0, 0);
    if (exponent < -4 || exponent >= 16) { /* kept: 1e+16, 1e-05 */
        sw_jinja_put_words(out, text);
        return;
    }
    for (const char *c = text; *c != 'e'; c++)
        if (*c != '.')
            digit[count++] = *c;
    /* the digit before the point is at `exponent`; missing digits are 0 */
    for (int32_t at = exponent < 0 ? exponent : 0; at < count || at < exponent + 2; at++) {
        if (at == exponent + 1)
            sw_jinja_put_words(out, exponent < 0 ? "0." : ".");
        if (at > exponent || exponent >= 0)
            sw_jinja_put(out, at >= 0 && at < count ? &digit[at] : "0", 1, 0);
    }
}

static void put_quoted(struct jinja_out *out, const struct jinja_text *text)
{
    const char *quote = memchr(text->byte, '\'', text->count) != NULL &&
                                memchr(text->byte, '"', text->count) == NULL
                            ? "\""
                            : "'";
    sw_jinja_put(out, quote, 1, 0);
    for (size_t i = 0; i < text->count && !out->run->failed; i++) {
        const unsigned char c = (unsigned char)text->byte[i];
        const unsigned char mark = jinja_mark(text, i);
        char escape[8] = {'\\', (char)c, '\0'};
        if (c == '\n' || c == '\r' || c == '\t')
            escape[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
        else if (c < 32 || c == 127)
            snprintf(escape, sizeof escape, "\\x%02x", (unsigned)c);
        else if (c != '\\' && c != (unsigned char)*quote)
            escape[0] = '\0';
        if (escape[0] != '\0')
            sw_jinja_put(out, escape, strlen(escape), mark);
        else
            sw_jinja_put_text(out, text, i, i + 1);
    }
    sw_jinja_put(out, quote, 1, 0);
}

static void put_items(struct jinja_out *out, struct jinja_value v)
{
    const bool dict = v.kind == JINJA_MAPPING;
    const bool tuple = !dict && v.of.list->is_tuple;
    const size_t count = dict ? v.of.dict->count : v.of.list->count;
    sw_jinja_put_words(out, dict ? "{" : tuple ? "(" : "[");
    for (size_t i = 0; i < count && !out->run->failed; i++) {
        if (i > 0)
            sw_jinja_put_words(out, ", ");
        if (dict) {
            sw_jinja_put_shown(out, v.of.dict->key[i]);
            sw_jinja_put_words(out, ": ");
        }
        sw_jinja_put_shown(out, dict ? v.of.dict->value[i] : v.of.list->item[i]);
    }
    sw_jinja_put_words(out, dict ? "}" : tuple ? (count == 1 ? ",)" : ")") : "]");
}

void sw_jinja_put_shown(struct jinja_out *out, struct jinja_value v)
{
    char text[32];
    if (++out->run->depth > JINJA_DEPTH)
        sw_jinja_fail(out->run, "the chat template goes too deep");
    if (out->run->failed || v.kind == JINJA_UNDEFINED) {
        if (!out->run->failed)
            sw_jinja_put_words(out, "Undefined");
    } else if (v.kind == JINJA_NONE || v.kind == JINJA_BOOLEAN) {
        sw_jinja_put_words(out, v.kind == JINJA_NONE ? "None" : v.of.integer ? "True" : "False");
    } else if (v.kind == JINJA_INT) {
        snprintf(text, sizeof text, "%" PRId64, v.of.integer);
        sw_jinja_put_words(out, text);
    } else if (v.kind == JINJA_REAL) {
        put_real(out, v.of.real);
    } else if (v.kind == JINJA_BIG) {
        sw_jinja_put_text(out, v.of.text, 0, v.of.text->count);
    } else if (v.kind == JINJA_TEXT) {
        put_quoted(out, v.of.text);
    } else if (v.kind == JINJA_SEQUENCE || v.kind == JINJA_MAPPING) {
        put_items(out, v);
    } else {
        sw_jinja_fail(out->run, "a %s is not written", sw_jinja_kind_name(v));
    }
    out->run->depth--;
}

void sw_jinja_put_value(struct jinja_out *out, struct jinja_value v)
{
    if (v.kind == JINJA_TEXT)
        sw_jinja_put_text(out, v.of.text, 0, v.of.text->count);
    else if (v.kind != JINJA_UNDEFINED)
        sw_jinja_put_shown(out, v);
}

const struct jinja_text *sw_jinja_as_text(struct jinja_run *run, struct jinja_value v)
{
    static const struct jinja_text empty = {.byte = ""};
    struct jinja_out out = {.run = run};
    if (v.kind != JINJA_TEXT) {
        sw_jinja_put_value(&out, v);
        v = sw_jinja_text_of(&out);
    }
    return run->failed ? &empty : v.of.text;
}

size_t sw_jinja_characters(struct jinja_run *run, const struct jinja_text *text)
{
    size_t count = 0;
    sw_jinja_charge(run, text->count);
    for (size_t i = 0; i < text->count; i++)
        count += ((unsigned char)text->byte[i] & 0xc0) != 0x80;
    return count;
}
