/* Reads mappings by their field tables. */
#include "core/base/text.h"
#include "core/schema/internal.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IGNORED_SHOWN = 100 };

const struct field *sw_field_find(const struct field *fields, const char *key)
{
    while (fields->key != NULL && strcmp(fields->key, key) != 0)
        fields++;
    return fields->key != NULL ? fields : NULL;
}

const char *sw_config_example(struct sw_config *c, const struct field *field)
{
    if (field->example == NULL)
        return NULL;
    return sw_config_format(c, "for example: %s: %s", field->key, field->example);
}

/* True if text[0..length) is a word that the field takes: one that `accept` takes, or without
 * `accept`, one in quotes. */
static bool is_choice(const struct field *field, bool opened, const char *text, size_t length,
                      char word[32])
{
    if (length < 2 || length >= 32)
        return false;
    memcpy(word, text, length);
    word[length] = '\0';
    return field->accept != NULL ? field->accept(word) : opened && text[length] == '\'';
}

/* "; did you mean 'auto'?" if a word in `expected` resembles the text; else "". same: true if the
 * text is that word. */
static const char *meant(struct sw_config *c, const struct field *field, const char *expected,
                         const char *text, bool *same)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *near = NULL;
    int32_t best = 1000, distance;
    char word[32];
    for (const char *at = expected + strcspn(expected, letters); *at != '\0';
         at += strcspn(at, letters)) {
        const size_t length = strspn(at, letters);
        if (is_choice(field, at > expected && at[-1] == '\'', at, length, word) &&
            sw_text_is_near(text, word, &distance) && distance < best) {
            best = distance;
            near = sw_config_copy(c, word, length);
        }
        at += length;
    }
    *same = best == 0;
    return near != NULL && best > 0 ? sw_config_format(c, "; did you mean '%s'?", near) : "";
}

static bool is_quoted_number(const struct field *field, const struct node *value)
{
    double number;
    const bool wants = field->type == FIELD_INTEGER32 || field->type == FIELD_INTEGER64 ||
                       field->type == FIELD_UNSIGNED64 || field->type == FIELD_REAL;
    return wants && value->kind == NODE_SCALAR && sw_number_parse(value->text, &number);
}

bool sw_config_wrong_type(struct sw_config *c, const struct field *field, const struct node *value,
                          const char *expected)
{
    if (value->kind == NODE_BROKEN)
        return false;
    bool same = false;
    const char *near =
        value->kind == NODE_SCALAR ? meant(c, field, expected, value->text, &same) : "";
    sw_config_error_at(c, value,
                       sw_config_format(c, "'%s' must be %s, not %s%s", field->key, expected,
                                        sw_node_describe(c, value), near),
                       (same || is_quoted_number(field, value)) && !value->plain
                           ? "write it without quotes"
                       : near[0] == '\0' ? sw_config_example(c, field)
                                         : NULL);
    return false;
}

bool sw_config_wrong_text(struct sw_config *c, const struct field *field, const struct node *value)
{
    bool same;
    const char *near = meant(c, field, field->expects, value->text, &same);
    sw_config_error_at(c, value,
                       sw_config_format(c, "'%s' must be %s, not %s%s", field->key, field->expects,
                                        sw_config_quote(c, value->text), near),
                       near[0] == '\0' ? sw_config_example(c, field) : NULL);
    return false;
}

static void put(const struct field *field, void *base, const void *value, size_t bytes)
{
    if (field->offset != FIELD_NOWHERE)
        memcpy((char *)base + field->offset, value, bytes);
}

/* A limit in readable form: 4096, 0.5, 1e+18; 90 % beside a percentage. */
static const char *limit_text(struct sw_config *c, const struct node *node, double limit)
{
    char buffer[32];
    if (strchr(node->text, '%') != NULL)
        return sw_config_format(c, "%.6g %%", 100 * limit);
    if (fabs(limit) < 1e16 && limit == floor(limit))
        return sw_config_format(c, "%.0f", limit);
    return sw_config_format(c, "%s", sw_real_format(limit, buffer));
}

static bool in_range(struct sw_config *c, const struct field *field, const struct node *node,
                     double value)
{
    if (field->min == 0 && field->max == 0 && !field->above_min)
        return true;
    const char *wants = NULL;
    if (field->above_min && value <= field->min)
        wants = sw_config_format(c, "more than %s", limit_text(c, node, field->min));
    else if (value < field->min)
        wants = sw_config_format(c, "at least %s", limit_text(c, node, field->min));
    else if (value > field->max)
        wants = sw_config_format(c, "at most %s", limit_text(c, node, field->max));
    if (wants == NULL)
        return true;
    sw_config_error_at(c, node,
                       sw_config_format(c, "'%s' must be %s, not %s", field->key, wants,
                                        sw_config_shown(c, node->text)),
                       sw_config_example(c, field));
    return false;
}

/* The number for a word of an integer's row: 0, or -1, -2, ...; false: no such word. */
static bool integer_word(const struct field *field, const char *text, int64_t *number)
{
    *number = 0;
    if (field->zero_word != NULL && strcmp(text, field->zero_word) == 0)
        return true;
    for (int32_t i = 0; field->words != NULL && field->words[i] != NULL; i++) {
        *number = -1 - i;
        if (strcmp(text, field->words[i]) == 0)
            return true;
    }
    return false;
}

static const char *expected_integer(struct sw_config *c, const struct field *field)
{
    const char *expected = field->zero_word != NULL
                               ? sw_config_format(c, "an integer or '%s'", field->zero_word)
                               : "an integer";
    for (int32_t i = 0; field->words != NULL && field->words[i] != NULL; i++)
        expected = sw_config_format(c, "%s%s '%s'", expected,
                                    field->words[i + 1] == NULL ? " or" : ",", field->words[i]);
    return expected;
}

static bool read_integer(struct sw_config *c, const struct field *field, struct node *value,
                         void *base)
{
    const char *expected = expected_integer(c, field);
    if (value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, expected);
    int64_t number = 0;
    if (!integer_word(field, value->text, &number)) {
        const char *digits = value->text + (value->text[0] == '-' || value->text[0] == '+');
        if (!value->plain || digits[0] == 0 || digits[strspn(digits, "0123456789")] != 0)
            return sw_config_wrong_type(c, field, value, expected);
        if (field->type == FIELD_UNSIGNED64) {
            errno = 0;
            uint64_t wide = strtoull(digits, NULL, 10);
            if (value->text[0] == '-' || errno == ERANGE) {
                sw_config_error_at(
                    c, value,
                    sw_config_format(c, "'%s' must be 0 to 18446744073709551615, not %s",
                                     field->key, sw_config_shown(c, value->text)),
                    sw_config_example(c, field));
                return false;
            }
            put(field, base, &wide, sizeof wide);
            return true;
        }
        /* Saturates outside int64_t; every row's limits are far inside. */
        number = strtoll(value->text, NULL, 10);
        if (!in_range(c, field, value, (double)number))
            return false;
    }
    int32_t narrow = (int32_t)number;
    if (field->type == FIELD_INTEGER32)
        put(field, base, &narrow, sizeof narrow);
    else
        put(field, base, &number, sizeof number);
    return true;
}

static bool read_real(struct sw_config *c, const struct field *field, struct node *value,
                      void *base)
{
    double number;
    if (value->kind != NODE_SCALAR || !value->plain || !sw_number_parse(value->text, &number))
        return sw_config_wrong_type(c, field, value, "a number");
    if (!in_range(c, field, value, number))
        return false;
    put(field, base, &number, sizeof number);
    return true;
}

static bool read_bool(struct sw_config *c, const struct field *field, struct node *value,
                      void *base)
{
    static const char *const words[] = {"false", "False", "FALSE", "true", "True", "TRUE"};
    size_t i = 0;
    while (i < 6 && (value->kind != NODE_SCALAR || strcmp(value->text, words[i]) != 0))
        i++;
    if (i == 6 || !value->plain)
        return sw_config_wrong_type(c, field, value, "'true' or 'false'");
    bool truth = i >= 3;
    put(field, base, &truth, sizeof truth);
    return true;
}

/* Reads a list that is stored as one text with commas. */
static bool read_commas(struct sw_config *c, const struct field *field, const struct node *value,
                        void *base)
{
    const char *text = NULL;
    bool good = true;
    for (const struct node *item = value->first; item != NULL; item = item->next) {
        if (item->kind != NODE_SCALAR) {
            good = sw_config_wrong_type(c, field, item, "a string or a list of strings");
        } else if (!field->accept(item->text)) {
            good = sw_config_wrong_text(c, field, item);
        } else {
            text = text == NULL ? item->text : sw_config_format(c, "%s,%s", text, item->text);
        }
    }
    if (good)
        put(field, base, &text, sizeof text);
    return good;
}

static bool read_text(struct sw_config *c, const struct field *field, struct node *value,
                      void *base)
{
    if (value->kind == NODE_SEQUENCE && field->commas)
        return read_commas(c, field, value, base);
    if (value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value,
                                    field->type == FIELD_PATH ? "a path"
                                    : field->commas           ? "a string or a list of strings"
                                                              : "a string");
    const char *text = value->text;
    if (field->type == FIELD_PATH) {
        if (text[0] == 0) {
            sw_config_error_at(c, value, sw_config_format(c, "'%s' is an empty path", field->key),
                               sw_config_example(c, field));
            return false;
        }
        if (!sw_config_path_is_plain(c, value))
            return false;
        if (field->offset != FIELD_NOWHERE)
            text = sw_config_resolve(c, value->source, text);
    } else if (field->accept != NULL && !field->accept(text)) {
        return sw_config_wrong_text(c, field, value);
    }
    put(field, base, &text, sizeof text);
    return true;
}

const char *sw_field_word(const struct field *field, int32_t i, int32_t *value)
{
    *value = i;
    if (field->vocabulary == NULL)
        return field->words[i];
    const struct sw_word *word = &field->vocabulary[i];
    *value = word->value;
    const bool hidden = word->why != NULL ||
                        (field->decided && word->text != NULL && strcmp(word->text, "auto") == 0);
    return hidden ? NULL : word->text;
}

/* True if the value is an old word, replaced by a new one. */
static bool read_old_word(struct sw_config *c, const struct field *field, const struct node *value,
                          void *base)
{
    const struct sw_word *word = field->vocabulary;
    while (word != NULL && word->text != NULL &&
           (word->why == NULL || strcmp(word->text, value->text) != 0))
        word++;
    if (word == NULL || word->text == NULL)
        return false;
    put(field, base, &word->value, sizeof word->value);
    sw_config_note_at(c, value,
                      sw_config_format(c, "'%s: %s' is now called '%s'; %s", field->key, word->text,
                                       sw_word(field->vocabulary, word->value), word->why));
    return true;
}

static bool read_word(struct sw_config *c, const struct field *field, struct node *value,
                      void *base)
{
    const char *list = "", *near = NULL;
    int32_t best = 1000;
    const char *word;
    int32_t count = 0;
    for (int32_t stored, distance; (word = sw_field_word(field, count, &stored)) != NULL; count++) {
        if (value->kind == NODE_SCALAR && strcmp(value->text, word) == 0) {
            put(field, base, &stored, sizeof stored); /* every enum has the size of an int */
            return true;
        }
        list = sw_config_format(c, "%s%s%s", list, count > 0 ? ", " : "", word);
        if (value->kind == NODE_SCALAR && sw_text_is_near(value->text, word, &distance) &&
            distance < best) {
            best = distance;
            near = word;
        }
    }
    const char *expected = count == 1 ? list : sw_config_format(c, "one of %s", list);
    if (value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, expected);
    if (read_old_word(c, field, value, base))
        return true;
    sw_config_error_at(c, value,
                       sw_config_format(c, "'%s' must be %s, not %s%s%s%s", field->key, expected,
                                        sw_config_quote(c, value->text),
                                        near != NULL ? "; did you mean '" : "",
                                        near != NULL ? near : "", near != NULL ? "'?" : ""),
                       near != NULL ? NULL : sw_config_example(c, field));
    return false;
}

/* Dimensions of FIELD_BYTES and the quantities behind it. */
static const struct {
    char dimension;
    const char *expected;
} quantities[] = {{'B', "a size with a unit"},        {'b', "a bandwidth with a unit"},
                  {'s', "a time with a unit"},        {'f', "a rate with a unit"},
                  {'t', "a duration with a unit"},    {'W', "a power with a unit"},
                  {'%', "a percentage or a fraction"}};

double sw_field_default_number(const struct field *field)
{
    double number = 0;
    const char *unit;
    if (field->fallback == NULL)
        return 0;
    if (field->type < FIELD_BYTES || field->type > FIELD_SHARE)
        sw_number_parse(field->fallback, &number);
    else
        sw_quantity_scan(field->fallback, quantities[field->type - FIELD_BYTES].dimension, &number,
                         &unit);
    return number;
}

static bool read_quantity(struct sw_config *c, const struct field *field, struct node *value,
                          void *base)
{
    int kind = (int)field->type - (int)FIELD_BYTES;
    char dimension = quantities[kind].dimension;
    if (value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, quantities[kind].expected);
    const char *unit, *meant;
    char spelled[48];
    double number = 0;
    switch (sw_quantity_scan(value->text, dimension, &number, &unit)) {
    case QUANTITY_NO_NUMBER:
        return sw_config_wrong_type(c, field, value, quantities[kind].expected);
    case QUANTITY_BAD_UNIT:
        meant = sw_quantity_meant(value->text, dimension, spelled, sizeof spelled);
        sw_config_error_at(
            c, value,
            sw_config_format(c, "'%s' has the unknown unit %s in %s%s", field->key,
                             sw_config_quote(c, unit), sw_config_quote(c, value->text),
                             meant != NULL ? sw_config_format(c, "; did you mean '%s'?", meant)
                                           : ""),
            sw_config_format(c, "units: %s", sw_quantity_units(dimension)));
        return false;
    case QUANTITY_OVERFLOW:
        number = INFINITY;
        break;
    case QUANTITY_OK:
        break;
    }
    if (!in_range(c, field, value, number))
        return false;
    sw_config_warn_of_quantity(c, field, value, number, unit);
    int64_t bytes = dimension == 'B' ? llround(number) : 0;
    if (dimension == 'B')
        put(field, base, &bytes, sizeof bytes);
    else
        put(field, base, &number, sizeof number);
    return true;
}

static bool read_subsection(struct sw_config *c, const struct field *field, struct node *value,
                            void *base)
{
    if (value->kind != NODE_MAPPING)
        return sw_config_wrong_type(c, field, value, "a mapping");
    return sw_config_read_section(c, value, field->fields, (char *)base + field->offset,
                                  UNKNOWN_ERROR)
               .bad == 0;
}

bool sw_config_read_field(struct sw_config *c, const struct field *field, struct node *value,
                          void *base)
{
    if (value->kind == NODE_BROKEN)
        return false;
    switch (field->type) {
    case FIELD_INTEGER32:
    case FIELD_INTEGER64:
    case FIELD_UNSIGNED64:
        return read_integer(c, field, value, base);
    case FIELD_REAL:
        return read_real(c, field, value, base);
    case FIELD_BOOL:
        return read_bool(c, field, value, base);
    case FIELD_TEXT:
    case FIELD_PATH:
        return read_text(c, field, value, base);
    case FIELD_WORD:
        return read_word(c, field, value, base);
    case FIELD_BYTES:
    case FIELD_BANDWIDTH:
    case FIELD_SECONDS:
    case FIELD_FLOPS:
    case FIELD_DURATION:
    case FIELD_POWER:
    case FIELD_SHARE:
        return read_quantity(c, field, value, base);
    case FIELD_SECTION:
        return read_subsection(c, field, value, base);
    case FIELD_CUSTOM:
        return field->custom->read(c, field, value, base);
    case FIELD_SETTINGS: /* replaced by sections */
        break;
    }
    return false;
}

/* Reads the default of an absent field with the code for a present one. */
static void read_fallback(struct sw_config *c, const struct field *field, void *base)
{
    if (field->fallback != NULL && field->type != FIELD_CUSTOM) {
        struct node text = {.kind = NODE_SCALAR, .plain = true, .text = field->fallback};
        sw_config_read_field(c, field, &text, base);
    } else if (field->type == FIELD_SECTION) {
        sw_config_read_section(c, NULL, field->fields, (char *)base + field->offset, UNKNOWN_ERROR);
    }
}

static const char *known_keys(struct sw_config *c, const struct field *fields)
{
    const char *list = "known keys: ";
    for (const struct field *f = fields; f->key != NULL; f++)
        if (!f->old)
            list = sw_config_format(c, "%s%s%s", list, f > fields ? ", " : "", f->key);
    return list;
}

/* Keys listed by the one note. */
struct ignored {
    const char *list;
    int32_t count;
};

static void ignore(struct sw_config *c, struct ignored *ignored, const char *key)
{
    if (ignored->count++ < MAX_IGNORED_SHOWN)
        ignored->list = sw_config_format(c, "%s%s%s", ignored->list, ignored->count > 1 ? ", " : "",
                                         sw_config_shown(c, key));
}

/* The first of at most two keys that begin with this word: hidden is hidden_size. If there are
 * more, the list of all keys helps better. */
static const struct field *field_beginning(const struct field *fields, const char *word)
{
    const size_t length = strlen(word);
    const struct field *first = NULL;
    int32_t count = 0;
    for (const struct field *f = fields; length > 0 && f->key != NULL; f++)
        if (!f->old && strncmp(f->key, word, length) == 0 && f->key[length] == '_' && count++ == 0)
            first = f;
    return count <= 2 ? first : NULL;
}

const struct field *sw_field_meant(struct sw_config *c, const struct field *fields, const char *key,
                                   const struct node *written)
{
    const char *elsewhere = c->hooks->own_name(key);
    const struct field *near =
        written == NULL && elsewhere != NULL ? sw_field_find(fields, elsewhere) : NULL;
    int32_t best = 1000, distance;
    if (near != NULL)
        return near;
    for (const struct field *f = fields; f->key != NULL; f++)
        if (!f->old && sw_text_is_near(key, f->key, &distance) && distance < best &&
            !(written != NULL && (distance > 2 || sw_node_find(written, f->key) != NULL))) {
            best = distance;
            near = f;
        }
    return near != NULL || written != NULL ? near : field_beginning(fields, key);
}

/* Reports keys without a row; `meant` gets the bits of the rows that they probably meant. */
static void check_unknown_keys(struct sw_config *c, struct node *map, const struct field *fields,
                               enum unknown_keys unknown, uint64_t *meant)
{
    struct ignored ignored = {.list = ""};
    const char *known = NULL;
    bool hub = unknown == UNKNOWN_ASKED && c->hooks->is_foreign(map);
    for (const struct node *entry = map->first; entry != NULL; entry = entry->next) {
        const char *key = entry->key->text;
        if (entry->key->kind == NODE_BROKEN || sw_field_find(fields, key) != NULL)
            continue;
        bool duplicate = entry->kind == NODE_BROKEN && sw_node_find(map, key) != entry;
        if (duplicate)
            continue;
        if (unknown == UNKNOWN_MAPPINGS && (entry->kind == NODE_MAPPING || sw_node_is_null(entry)))
            continue;
        const enum key_fate fate =
            unknown == UNKNOWN_ASKED ? c->hooks->fate(c, entry) : KEY_UNKNOWN;
        if (fate == KEY_NOTED)
            ignore(c, &ignored, key);
        if (fate != KEY_UNKNOWN)
            continue;
        const struct field *near = sw_field_meant(c, fields, key, hub ? map : NULL);
        if (hub && near == NULL) {
            ignore(c, &ignored, key);
            continue;
        }
        const char *quoted = sw_config_quote(c, key);
        if (near != NULL) {
            *meant |= UINT64_C(1) << (near - fields);
            sw_config_error_at(
                c, entry->key,
                sw_config_format(c, "unknown key %s; did you mean '%s'?", quoted, near->key), NULL);
        } else {
            known = known != NULL ? known : known_keys(c, fields);
            sw_config_error_at(c, entry->key, sw_config_format(c, "unknown key %s", quoted), known);
        }
    }
    if (ignored.count > MAX_IGNORED_SHOWN)
        sw_config_note_at(c, map,
                          sw_config_format(c, "ignored keys: %s and %d more", ignored.list,
                                           (int)ignored.count - MAX_IGNORED_SHOWN));
    else if (ignored.count > 0)
        sw_config_note_at(c, map, sw_config_format(c, "ignored keys: %s", ignored.list));
}

/* Called before the value is read, since following a reference finds a better position. */
static void put_place(const struct field *field, void *base, const struct node *value)
{
    const struct sw_place at = {value->source->file, value->line, value->column};
    if (field->place != 0)
        memcpy((char *)base + field->place, &at, sizeof at);
}

struct section sw_config_read_section(struct sw_config *c, struct node *map,
                                      const struct field *fields, void *base,
                                      enum unknown_keys unknown)
{
    struct section section = {.map = map, .fields = fields};
    uint64_t meant = 0;
    if (map != NULL)
        check_unknown_keys(c, map, fields, unknown, &meant);
    for (const struct field *field = fields; field->key != NULL; field++) {
        uint64_t bit = UINT64_C(1) << (field - fields);
        struct node *value = sw_node_find(map, field->key);
        if (value != NULL && !sw_node_is_null(value)) {
            section.written |= bit;
            put_place(field, base, value);
            if (!sw_config_read_field(c, field, value, base))
                section.bad |= bit;
            continue;
        }
        if (!field->required) {
            if (value != NULL)
                c->hooks->forget(c, fields, field, base);
            read_fallback(c, field, base);
            section.bad |= meant & bit;
            continue;
        }
        section.bad |= bit;
        if (map == NULL || (meant & bit) != 0)
            continue;
        const struct node *place = value != NULL ? value : map;
        sw_config_error_at(c, place,
                           value != NULL ? sw_config_format(c, "'%s' has no value", field->key)
                                         : sw_config_format(c, "missing key '%s'", field->key),
                           sw_config_example(c, field));
    }
    return section;
}

bool sw_section_good(const struct section *section, const char *key, ...)
{
    bool good = true;
    va_list keys;
    va_start(keys, key);
    for (; key != NULL; key = va_arg(keys, const char *)) {
        const struct field *field = sw_field_find(section->fields, key);
        good = good && field != NULL && (section->bad >> (field - section->fields) & 1) == 0;
    }
    va_end(keys);
    return good;
}

bool sw_section_wrote(const struct section *section, const char *key)
{
    const struct field *field = sw_field_find(section->fields, key);
    return field != NULL && (section->written >> (field - section->fields) & 1) != 0;
}

const struct node *sw_section_place(const struct section *section, const char *key)
{
    const struct node *value = sw_node_find(section->map, key);
    return value != NULL ? value : section->map;
}
