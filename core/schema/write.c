/* Writes a description by its field tables, as YAML that reads back to the same description, or as
 * a list of paths and values. */
#include "core/base/text.h"
#include "core/schema/internal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_printable(const char *text)
{
    while (*text >= 0x20 && *text < 0x7f)
        text++;
    return *text == '\0';
}

/* Plain if unambiguous, 'single' if printable ASCII, "double" otherwise. */
void sw_config_write_text(FILE *out, const char *text)
{
    bool plain = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
    for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        plain = plain && (letter || (*p >= '0' && *p <= '9') || strchr("._/-", *p) != NULL);
    }
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; plain && i < sizeof words / sizeof words[0]; i++)
        plain = sw_text_distance(text, words[i]) != 0;
    if (plain) {
        fputs(text, out);
    } else if (is_printable(text)) {
        fputc('\'', out);
        for (const char *p = text; *p != 0; p++) {
            if (*p == '\'')
                fputc('\'', out);
            fputc(*p, out);
        }
        fputc('\'', out);
    } else {
        fputc('"', out);
        for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++) {
            bool c1 = p[0] == 0xc2 && p[1] <= 0xa0;
            bool separator = p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9);
            bool mark = p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf;
            bool noncharacter = p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe;
            if (c1) {
                fprintf(out, "\\u%04x", *++p);
            } else if (separator || mark || noncharacter) {
                fprintf(out, "\\u%04x",
                        (unsigned)(p[0] & 0xf) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu));
                p += 2;
            } else if (*p < 0x20 || *p == 0x7f) {
                fprintf(out, "\\x%02x", *p);
            } else {
                if (*p == '"' || *p == '\\')
                    fputc('\\', out);
                fputc(*p, out);
            }
        }
        fputc('"', out);
    }
}

/* True if a brief setting has its default (0 or false without one). */
static bool is_default(const struct field *field, const void *at)
{
    const char *fallback = field->fallback != NULL ? field->fallback : "0";
    int64_t wide = 0;
    int32_t narrow;
    double real;
    bool truth;
    switch (field->type) {
    case FIELD_WORD: /* an enum's default is its first word */
        memcpy(&narrow, at, sizeof narrow);
        if (field->fallback == NULL)
            return narrow == 0;
        return strcmp(fallback, field->vocabulary != NULL ? sw_word(field->vocabulary, narrow)
                                                          : field->words[narrow]) == 0;
    case FIELD_BOOL:
        memcpy(&truth, at, sizeof truth);
        return truth == (strcmp(fallback, "true") == 0);
    case FIELD_INTEGER32:
        memcpy(&narrow, at, sizeof narrow);
        return narrow == strtoll(fallback, NULL, 10);
    case FIELD_REAL:
    case FIELD_BANDWIDTH:
    case FIELD_SECONDS:
    case FIELD_FLOPS:
    case FIELD_DURATION:
    case FIELD_POWER:
    case FIELD_SHARE:
        memcpy(&real, at, sizeof real);
        return real == sw_field_default_number(field);
    case FIELD_TEXT:
    case FIELD_PATH: /* is set */
        return false;
    case FIELD_BYTES:
        memcpy(&wide, at, sizeof wide);
        return wide == llround(sw_field_default_number(field));
    default:
        assert(field->type == FIELD_INTEGER64);
        memcpy(&wide, at, sizeof wide);
        return wide == strtoll(fallback, NULL, 10);
    }
}

/* True if an optional setting without a default is unset, and so not written. base: struct of the
 * table. */
static bool is_unset(const struct field *field, const void *base)
{
    const void *at = (const char *)base + field->offset;
    const char *text;
    int32_t number;
    double real;
    struct sw_place place;
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_PATH:
        memcpy(&text, at, sizeof text);
        return text == NULL;
    case FIELD_INTEGER32:
        memcpy(&number, at, sizeof number);
        return number == 0 && !field->required && field->fallback == NULL;
    case FIELD_REAL: /* 0 is a usual value: the position tells */
        if (field->place == 0 || field->required || field->fallback != NULL)
            return false;
        memcpy(&real, at, sizeof real);
        memcpy(&place, (const char *)base + field->place, sizeof place);
        return real == 0 && place.file == NULL;
    default:
        return false;
    }
}

/* True if a setting is not written: unset, or brief and empty. */
static bool is_left_out(const struct field *field, const void *base)
{
    const void *at = (const char *)base + field->offset;
    if (field->type == FIELD_CUSTOM)
        return field->custom->empty != NULL && field->custom->empty(at);
    if (!field->brief || field->type != FIELD_SECTION)
        return is_unset(field, base) || (field->brief && is_default(field, at));
    const struct field *inside = field->fields;
    while (inside->key != NULL && is_left_out(inside, at))
        inside++;
    return inside->key == NULL;
}

static void write_scalar(struct writer *w, const struct field *field, const void *at)
{
    const char *text;
    int64_t wide;
    uint64_t natural;
    int32_t narrow;
    int word;
    double real;
    bool truth;
    char buffer[32];
    switch (field->type) {
    case FIELD_INTEGER32:
        memcpy(&narrow, at, sizeof narrow);
        snprintf(buffer, sizeof buffer, "%" PRId32, narrow);
        break;
    case FIELD_INTEGER64:
    case FIELD_BYTES:
        memcpy(&wide, at, sizeof wide);
        if (wide == 0 && field->zero_word != NULL)
            snprintf(buffer, sizeof buffer, "%s", field->zero_word);
        else if (wide < 0 && field->words != NULL)
            snprintf(buffer, sizeof buffer, "%s", field->words[-1 - wide]);
        else
            snprintf(buffer, sizeof buffer, "%" PRId64, wide);
        break;
    case FIELD_UNSIGNED64:
        memcpy(&natural, at, sizeof natural);
        snprintf(buffer, sizeof buffer, "%" PRIu64, natural);
        break;
    case FIELD_BOOL:
        memcpy(&truth, at, sizeof truth);
        snprintf(buffer, sizeof buffer, "%s", truth ? "true" : "false");
        break;
    case FIELD_TEXT:
    case FIELD_PATH:
        memcpy(&text, at, sizeof text);
        w->value(w, field->key, text, STYLE_TEXT);
        return;
    case FIELD_WORD:
        memcpy(&word, at, sizeof word);
        text = field->vocabulary != NULL ? sw_word(field->vocabulary, word) : field->words[word];
        w->value(w, field->key, text, field->quoted ? STYLE_QUOTED : STYLE_BARE);
        return;
    default:
        memcpy(&real, at, sizeof real);
        sw_real_format(real, buffer);
        break;
    }
    w->value(w, field->key, buffer, STYLE_BARE);
}

void sw_config_write_fields(struct writer *w, const struct field *fields, const void *base)
{
    for (const struct field *field = fields; field->key != NULL; field++) {
        if (field->elsewhere || field->old)
            continue;
        if (field->type == FIELD_CUSTOM) {
            if (field->custom->write != NULL)
                field->custom->write(w, field, base);
            continue;
        }
        if (field->offset == FIELD_NOWHERE)
            continue;
        const void *at = (const char *)base + field->offset;
        if (is_left_out(field, base))
            continue;
        if (field->type == FIELD_SECTION) {
            w->open(w, field->key);
            sw_config_write_fields(w, field->fields, at);
            w->close(w);
        } else {
            write_scalar(w, field, at);
        }
    }
}

/* ---- As YAML ---- */

struct yaml_writer {
    struct writer writer;
    FILE *out;
    int32_t indent;
    bool in_item, first; /* true inside the braces of an item; before its first key */
};

static void yaml_open(struct writer *w, const char *key)
{
    struct yaml_writer *y = (struct yaml_writer *)w;
    fprintf(y->out, "%*s", (int)y->indent, "");
    sw_config_write_text(y->out, key);
    fputs(":\n", y->out);
    y->indent += 2;
}

static void yaml_open_item(struct writer *w, const char *name)
{
    struct yaml_writer *y = (struct yaml_writer *)w;
    (void)name;
    fprintf(y->out, "%*s- {", (int)y->indent, "");
    y->in_item = y->first = true;
}

static void yaml_close(struct writer *w)
{
    struct yaml_writer *y = (struct yaml_writer *)w;
    if (y->in_item)
        fputs("}\n", y->out);
    else
        y->indent -= 2;
    y->in_item = false;
}

static void yaml_value(struct writer *w, const char *key, const char *text, enum style style)
{
    struct yaml_writer *y = (struct yaml_writer *)w;
    if (!y->in_item)
        fprintf(y->out, "%*s", (int)y->indent, "");
    else if (!y->first)
        fputs(", ", y->out);
    y->first = false;
    sw_config_write_text(y->out, key);
    fputs(": ", y->out);
    if (style == STYLE_TEXT)
        sw_config_write_text(y->out, text);
    else
        fprintf(y->out, style == STYLE_QUOTED ? "'%s'" : "%s", text);
    if (!y->in_item)
        fputc('\n', y->out);
}

void sw_config_write_yaml(FILE *out, int32_t indent, const struct field *fields, const void *base)
{
    struct yaml_writer y = {
        {yaml_open, yaml_open_item, yaml_close, yaml_value}, out, indent, false, false};
    sw_config_write_fields(&y.writer, fields, base);
}

/* NULL: out of memory. */
static char *yaml_of(const struct field *fields, const void *base)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    sw_config_write_yaml(out, 0, fields, base);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

bool sw_config_same_fields(const struct field *fields, const void *a, const void *b)
{
    char *one = yaml_of(fields, a), *other = yaml_of(fields, b);
    const bool same = one != NULL && other != NULL && strcmp(one, other) == 0;
    free(one);
    free(other);
    return same;
}

/* ---- As paths and values ---- */

enum { MAX_OPEN = 16, MAX_PATH_BYTES = 1024 };

struct lister {
    struct writer writer;
    sw_config_visitor visit;
    void *context;
    char path[MAX_PATH_BYTES];
    size_t length[MAX_OPEN]; /* length of the path at each depth */
    int32_t depth;
};

/* Appends ".key" to the path; tables and names are bounded, so there is room. */
static size_t extend(struct lister *l, const char *key)
{
    const size_t above = l->length[l->depth];
    const int used =
        snprintf(l->path + above, sizeof l->path - above, "%s%s", above > 0 ? "." : "", key);
    return above + (size_t)used;
}

static void list_open(struct writer *w, const char *key)
{
    struct lister *l = (struct lister *)w;
    const size_t length = extend(l, key);
    assert(l->depth + 1 < MAX_OPEN && length < sizeof l->path);
    l->length[++l->depth] = length;
}

static void list_close(struct writer *w)
{
    ((struct lister *)w)->depth--;
}

static void list_value(struct writer *w, const char *key, const char *text, enum style style)
{
    struct lister *l = (struct lister *)w;
    extend(l, key);
    if (style != STYLE_TEXT || is_printable(text)) {
        l->visit(l->context, l->path, text);
        return;
    }
    char *quoted = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&quoted, &bytes);
    if (out != NULL)
        sw_config_write_text(out, text);
    if (out != NULL && fclose(out) == 0)
        l->visit(l->context, l->path, quoted);
    free(quoted);
}

void sw_config_visit_fields(const char *prefix, const struct field *fields, const void *base,
                            sw_config_visitor visit, void *context)
{
    struct lister l = {{list_open, list_open, list_close, list_value}, visit, context, "", {0}, 0};
    if (prefix[0] != '\0')
        list_open(&l.writer, prefix);
    sw_config_write_fields(&l.writer, fields, base);
}
