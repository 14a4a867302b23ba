#include "core/base/json.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { OBJECT, INLINE, ARRAY };

static void write_text(FILE *out, const char *text)
{
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    fputc('"', out);
    for (; *text != '\0'; text++) {
        const char *found = strchr(named, *text);
        if (found != NULL)
            fprintf(out, "\\%c", letters[found - named]);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else if (text[0] == '\xc0' && text[1] == '\x80') /* encodes a NUL: core/base/json_read.h */
            fputs("\\u0000", out), text++;
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static bool has_lines(const struct sw_json *j)
{
    return j->style != SW_JSON_LINE && j->open[j->depth - 1].kind == OBJECT;
}

static void new_line(struct sw_json *j, int32_t depth)
{
    fputc('\n', j->out);
    for (int32_t i = 0; i < depth; i++)
        if (j->style == SW_JSON_TABS)
            fputc('\t', j->out);
        else if (j->open[i].kind != ARRAY)
            fputs("  ", j->out);
}

/* Writes separators before a value. */
static void lead(struct sw_json *j, const char *key)
{
    static const char *const colon[] = {
        [SW_JSON_LINE] = ":", [SW_JSON_TABS] = ":\t", [SW_JSON_SPACES] = ": "};
    if (j->depth > 0) {
        const bool lines = has_lines(j);
        if (j->open[j->depth - 1].has_members)
            fputs(lines || j->style == SW_JSON_LINE ? "," : ", ", j->out);
        j->open[j->depth - 1].has_members = true;
        if (lines)
            new_line(j, j->depth);
    }
    if (key != NULL) {
        write_text(j->out, key);
        fputs(colon[j->style], j->out);
    }
}

static void begin(struct sw_json *j, const char *key, enum kind kind)
{
    assert(j->depth < SW_JSON_DEPTH);
    lead(j, key);
    fputc(kind == ARRAY ? '[' : '{', j->out);
    j->open[j->depth].kind = (uint8_t)kind;
    j->open[j->depth++].has_members = false;
}

void sw_json_object(struct sw_json *j, const char *key)
{
    begin(j, key, OBJECT);
}

void sw_json_array(struct sw_json *j, const char *key)
{
    begin(j, key, ARRAY);
}

void sw_json_inline(struct sw_json *j, const char *key)
{
    begin(j, key, INLINE);
}

void sw_json_end(struct sw_json *j)
{
    assert(j->depth > 0);
    if (has_lines(j))
        new_line(j, j->depth - 1);
    fputc(j->open[--j->depth].kind == ARRAY ? ']' : '}', j->out);
}

void sw_json_raw(struct sw_json *j, const char *key, const char *text, size_t bytes)
{
    lead(j, key);
    fwrite(text, 1, bytes, j->out);
}

void sw_json_text(struct sw_json *j, const char *key, const char *text)
{
    lead(j, key);
    if (text == NULL)
        fputs("null", j->out);
    else
        write_text(j->out, text);
}

void sw_json_digits(struct sw_json *j, const char *key, double value, int32_t digits)
{
    lead(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.*g", (int)digits, value);
    else
        fputs("null", j->out);
}

/* True for a whole number of at most 15 digits, which %.15g writes quickly and exactly. */
static bool is_short_integer(double value)
{
    return fabs(value) < 1e15 && value == (double)(int64_t)value && (value != 0 || !signbit(value));
}

void sw_json_number(struct sw_json *j, const char *key, double value)
{
    char text[32];
    if (is_short_integer(value)) {
        sw_json_integer(j, key, (int64_t)value);
        return;
    }
    const int bytes = snprintf(text, sizeof text, "%.15g", value);
    const double back = strtod(text, NULL);
    const bool enough = fabs(back - value) <= fmax(fabs(back), fabs(value)) * DBL_EPSILON;
    if (enough && isfinite(value))
        sw_json_raw(j, key, text, (size_t)bytes);
    else
        sw_json_digits(j, key, value, 17);
}

void sw_json_integer(struct sw_json *j, const char *key, int64_t value)
{
    lead(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void sw_json_bool(struct sw_json *j, const char *key, bool value)
{
    lead(j, key);
    fputs(value ? "true" : "false", j->out);
}

void sw_json_null(struct sw_json *j, const char *key)
{
    sw_json_text(j, key, NULL);
}
