/* Filters of texts and numbers, and arguments by position or name. */
#include "runner/text/jinja/internal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sw_jinja_has_argument(const struct jinja_arguments *a, size_t at, const char *name)
{
    for (size_t i = 0; i < a->named_count; i++)
        if (strcmp(a->named[i].name, name) == 0)
            return true;
    return at < a->count;
}

struct jinja_value sw_jinja_argument(const struct jinja_arguments *a, size_t at, const char *name,
                                     struct jinja_value otherwise)
{
    for (size_t i = 0; i < a->named_count; i++)
        if (strcmp(a->named[i].name, name) == 0)
            return a->named[i].value;
    return at < a->count ? a->item[at] : otherwise;
}

static struct jinja_value upper(struct jinja_run *run, struct jinja_value v,
                                const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, sw_jinja_as_text(run, v), JINJA_UPPER);
}

static struct jinja_value lower(struct jinja_run *run, struct jinja_value v,
                                const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, sw_jinja_as_text(run, v), JINJA_LOWER);
}

static struct jinja_value title(struct jinja_run *run, struct jinja_value v,
                                const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, sw_jinja_as_text(run, v), JINJA_TITLE);
}

static struct jinja_value capitalize(struct jinja_run *run, struct jinja_value v,
                                     const struct jinja_arguments *a)
{
    (void)a;
    return sw_jinja_recase(run, sw_jinja_as_text(run, v), JINJA_CAPITAL);
}

static struct jinja_value trim(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    const struct jinja_value chars = sw_jinja_argument(a, 0, "chars", jinja_none());
    return sw_jinja_strip(run, sw_jinja_as_text(run, v),
                          chars.kind == JINJA_TEXT ? chars.of.text : NULL, true, true);
}

static struct jinja_value replace(struct jinja_run *run, struct jinja_value v,
                                  const struct jinja_arguments *a)
{
    const struct jinja_value most = sw_jinja_argument(a, 2, "count", jinja_none());
    if (!sw_jinja_has_argument(a, 0, "old") || !sw_jinja_has_argument(a, 1, "new"))
        return sw_jinja_fail(run, "replace takes two values, the old and the new text");
    return sw_jinja_replace(run, sw_jinja_as_text(run, v),
                            sw_jinja_as_text(run, sw_jinja_argument(a, 0, "old", jinja_none())),
                            sw_jinja_as_text(run, sw_jinja_argument(a, 1, "new", jinja_none())),
                            most.kind == JINJA_INT ? most.of.integer : -1);
}

static struct jinja_value string(struct jinja_run *run, struct jinja_value v,
                                 const struct jinja_arguments *a)
{
    struct jinja_out out = {.run = run};
    (void)a;
    sw_jinja_put_value(&out, v);
    return sw_jinja_text_of(&out);
}

static struct jinja_value or_default(struct jinja_run *run, struct jinja_value v,
                                     const struct jinja_arguments *a)
{
    const bool loose = sw_jinja_is_true(sw_jinja_argument(a, 1, "boolean", jinja_bool(false)));
    if (v.kind != JINJA_UNDEFINED && !(loose && !sw_jinja_is_true(v)))
        return v;
    return sw_jinja_has_argument(a, 0, "default_value")
               ? sw_jinja_argument(a, 0, "default_value", jinja_none())
               : sw_jinja_text(run, "");
}

/* True if a text is a number, ignoring white space around it. */
static bool read_number(const struct jinja_text *text, double *number)
{
    char *end;
    const char *p = text->byte + strspn(text->byte, " \t\n\r\f\v");
    if (strspn(p, "+-0123456789.eE") == 0)
        return false;
    *number = strtod(p, &end);
    return end > p && *(end + strspn(end, " \t\n\r\f\v")) == '\0';
}

/* True if a text is digits after an optional sign, ignoring white space. */
static bool is_digits(const struct jinja_text *text, const char **digits, size_t *bytes)
{
    const char *p = text->byte + strspn(text->byte, " \t\n\r\f\v");
    const size_t sign = *p == '-' || *p == '+', count = strspn(p + sign, "0123456789");
    *digits = p;
    *bytes = sign + count;
    return count > 0 && *(p + *bytes + strspn(p + *bytes, " \t\n\r\f\v")) == '\0';
}

/* Reads digits of a base other than ten, with an optional prefix (0x, 0b, 0o). */
static bool read_digits(const struct jinja_text *text, int64_t base, int64_t *whole)
{
    static const char signs[] = "x\020b\002o\010";
    const char *p = text->byte + strspn(text->byte, " \t\n\r\f\v");
    const bool minus = *p == '-';
    char *end;
    p += minus || *p == '+';
    for (size_t i = 0; i + 1 < sizeof signs; i += 2)
        if (p[0] == '0' && (p[1] | 32) == signs[i] && signs[i + 1] == (char)base) {
            p += 2;
            break;
        }
    /* strtoll would skip a second 0x */
    if (!isalnum((unsigned char)*p) || base < 2 || base > 36 ||
        (base == 16 && *p == '0' && (p[1] | 32) == 'x'))
        return false;
    errno = 0;
    *whole = strtoll(p, &end, (int)base) * (minus ? -1 : 1);
    return errno == 0 && end > p && *(end + strspn(end, " \t\n\r\f\v")) == '\0';
}

static struct jinja_value integer(struct jinja_run *run, struct jinja_value v,
                                  const struct jinja_arguments *a)
{
    double number;
    int64_t whole;
    const char *digits;
    size_t bytes;
    const struct jinja_value base = sw_jinja_argument(a, 1, "base", jinja_int(10));
    (void)run;
    if (v.kind == JINJA_TEXT && base.kind == JINJA_INT && base.of.integer != 10)
        return read_digits(v.of.text, base.of.integer, &whole)
                   ? jinja_int(whole)
                   : sw_jinja_argument(a, 0, "default", jinja_int(0));
    if (v.kind == JINJA_INT || v.kind == JINJA_BOOLEAN)
        return jinja_int(v.of.integer);
    if (v.kind == JINJA_BIG)
        return v;
    if (v.kind == JINJA_REAL && !isnan(v.of.real))
        return sw_jinja_truncate(run, v.of.real);
    if (v.kind == JINJA_TEXT && is_digits(v.of.text, &digits, &bytes))
        return sw_jinja_integer(run, digits, bytes);
    if (v.kind == JINJA_TEXT && read_number(v.of.text, &number) && isfinite(number))
        return sw_jinja_truncate(run, number);
    return sw_jinja_argument(a, 0, "default", jinja_int(0));
}

static struct jinja_value real(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    double number;
    (void)run;
    if (jinja_is_number(v))
        return jinja_real(jinja_number(v));
    if (v.kind == JINJA_BIG)
        return jinja_real(strtod(v.of.text->byte, NULL));
    if (v.kind == JINJA_TEXT && read_number(v.of.text, &number))
        return jinja_real(number);
    return sw_jinja_argument(a, 0, "default", jinja_real(0));
}

static struct jinja_value absolute(struct jinja_run *run, struct jinja_value v,
                                   const struct jinja_arguments *a)
{
    (void)a;
    if (!sw_jinja_are_numbers(v, v))
        return sw_jinja_fail(run, "abs of %s", sw_jinja_kind_name(v));
    if (v.kind == JINJA_REAL)
        return jinja_real(fabs(v.of.real));
    return sw_jinja_compare(run, "<", v, jinja_int(0)) ? sw_jinja_negate(run, v)
           : v.kind == JINJA_BIG                       ? v
                                                       : jinja_int(v.of.integer);
}

static struct jinja_value safe(struct jinja_run *run, struct jinja_value v,
                               const struct jinja_arguments *a)
{
    struct jinja_out out = {.run = run};
    (void)a;
    sw_jinja_put_value(&out, v);
    return sw_jinja_safe(&out);
}

/* Indents a text's lines; empty ones stay empty unless `blank`. */
static struct jinja_value indent(struct jinja_run *run, struct jinja_value v,
                                 const struct jinja_arguments *a)
{
    const struct jinja_text *text = sw_jinja_as_text(run, v);
    const struct jinja_value width = sw_jinja_argument(a, 0, "width", jinja_int(4));
    const bool first = sw_jinja_is_true(sw_jinja_argument(a, 1, "first", jinja_bool(false)));
    const bool blank = sw_jinja_is_true(sw_jinja_argument(a, 2, "blank", jinja_bool(false)));
    struct jinja_out out = {.run = run}, space = {.run = run};
    if (width.kind == JINJA_TEXT)
        sw_jinja_put_value(&space, width);
    for (int64_t i = 0; width.kind == JINJA_INT && i < width.of.integer && !run->failed; i++)
        sw_jinja_put_words(&space, " ");
    for (size_t i = 0; i <= text->count && !run->failed;) {
        const char *newline =
            i < text->count ? memchr(text->byte + i, '\n', text->count - i) : NULL;
        const size_t end = newline != NULL ? (size_t)(newline - text->byte) : text->count;
        if (i == 0 ? first : end > i || blank)
            sw_jinja_put(&out, space.byte, space.count, false);
        sw_jinja_put_text(&out, text, i, end);
        if (newline != NULL)
            sw_jinja_put_text(&out, text, end, end + 1);
        i = end + 1;
    }
    return sw_jinja_text_of(&out);
}

/* Replaces each %s and %d of a text with the next value. */
static struct jinja_value format(struct jinja_run *run, struct jinja_value v,
                                 const struct jinja_arguments *a)
{
    const struct jinja_text *text = sw_jinja_as_text(run, v);
    struct jinja_out out = {.run = run};
    size_t next = 0;
    for (size_t i = 0; i < text->count && !run->failed; i++) {
        if (text->byte[i] != '%') {
            sw_jinja_put_text(&out, text, i, i + 1);
            continue;
        }
        const char what = text->byte[++i]; /* the text is 0-terminated */
        if (what == '%')
            sw_jinja_put_words(&out, "%");
        else if ((what == 's' || what == 'd') && next < a->count)
            sw_jinja_put_value(&out, a->item[next++]);
        else
            return sw_jinja_fail(run, "format has %%s, %%d and %%%%, and a value for each");
    }
    return sw_jinja_text_of(&out);
}

void sw_jinja_put_escaped(struct jinja_out *out, struct jinja_value v)
{
    static const char letters[] = "&<>'\"";
    static const char *const words[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const struct jinja_text *text = sw_jinja_as_text(out->run, v);
    for (size_t i = 0; i < text->count && !out->run->failed; i++) {
        const char *letter = text->byte[i] != '\0' ? strchr(letters, text->byte[i]) : NULL;
        if (letter != NULL)
            sw_jinja_put(out, words[letter - letters], strlen(words[letter - letters]),
                         jinja_mark(text, i));
        else
            sw_jinja_put_text(out, text, i, i + 1);
    }
}

static struct jinja_value escape(struct jinja_run *run, struct jinja_value v,
                                 const struct jinja_arguments *a)
{
    struct jinja_out out = {.run = run};
    if (v.kind == JINJA_TEXT && v.of.text->is_safe)
        return v;
    (void)a;
    sw_jinja_put_escaped(&out, v);
    return sw_jinja_safe(&out);
}

const struct jinja_filter sw_jinja_text_filters[] = {
    {"upper", upper},
    {"lower", lower},
    {"title", title},
    {"capitalize", capitalize},
    {"trim", trim},
    {"replace", replace},
    {"string", string},
    {"default", or_default},
    {"d", or_default},
    {"int", integer},
    {"float", real},
    {"abs", absolute},
    {"round", sw_jinja_filter_round},
    {"safe", safe},
    {"indent", indent},
    {"format", format},
    {"tojson", sw_jinja_filter_tojson},
    {"from_json", sw_jinja_filter_from_json},
    {"escape", escape},
    {"e", escape},
    {NULL, NULL},
};

const struct jinja_filter *sw_jinja_filter_find(const char *name)
{
    const struct jinja_filter *const tables[] = {sw_jinja_text_filters, sw_jinja_sequence_filters};
    for (size_t t = 0; t < 2; t++)
        for (const struct jinja_filter *f = tables[t]; f->name != NULL; f++)
            if (strcmp(f->name, name) == 0)
                return f;
    return NULL;
}
