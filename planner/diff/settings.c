#include "planner/diff/settings.h"

#include "core/base/text.h"
#include "core/plan/inputs.h"
#include "planner/diff/diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16, MAX_KEY = 512, SHOWN_BYTES = 200 };

struct flattener {
    struct sw_settings *out;
    char key[MAX_KEY];
    size_t length[MAX_DEPTH]; /* of the key above each depth */
};

/* Takes off quotes: '' is one quote. "Double" ones stay: only odd texts have them. */
static char *unquote(char *value)
{
    const size_t bytes = strlen(value);
    if (bytes < 2 || value[0] != '\'' || value[bytes - 1] != '\'')
        return value;
    char *to = value;
    for (const char *from = value + 1; from < value + bytes - 1; from++) {
        *to++ = *from;
        from += from[0] == '\'' && from[1] == '\'';
    }
    *to = '\0';
    return value;
}

static int add(struct sw_settings *out, const char *key, const char *value, struct sw_error *err)
{
    if (out->count == out->capacity) {
        const int32_t capacity = out->capacity == 0 ? 128 : 2 * out->capacity;
        struct sw_setting *grown = realloc(out->item, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
        out->item = grown;
        out->capacity = capacity;
    }
    char *copy = strdup(key);
    if (copy == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    out->item[out->count++] = (struct sw_setting){copy, value};
    return 0;
}

/* The end of one value in a flow mapping: the next ", " outside quotes and brackets. */
static char *value_end(char *at)
{
    int32_t depth = 0;
    bool quoted = false;
    for (; *at != '\0'; at++) {
        quoted = quoted != (*at == '\'');
        if (quoted)
            continue;
        depth += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
        if (*at == ',' && depth == 0)
            break;
    }
    return at;
}

/* "{name: nvlink, spans: 8}" of a list: keys carry the entry's name, so that an entry put before
 * another does not change them all. */
static int add_entry(struct flattener *f, size_t above, char *text, struct sw_error *err)
{
    char entry[80] = "";
    const size_t bytes = strlen(text);
    if (bytes < 2 || text[bytes - 1] != '}')
        return sw_fail(err, SW_ENVIRONMENT, "cannot compare '%.60s'", text);
    text[bytes - 1] = '\0';
    for (char *at = text + 1; *at != '\0';) {
        char *stop = value_end(at), *colon = strstr(at, ": ");
        const bool last = *stop == '\0';
        *stop = '\0';
        if (colon == NULL || colon > stop)
            return sw_fail(err, SW_ENVIRONMENT, "cannot compare '%.60s'", at);
        *colon = '\0';
        char *value = unquote(colon + 2);
        if (strcmp(at, "name") == 0)
            snprintf(entry, sizeof entry, "%.70s", value);
        snprintf(f->key + above, sizeof f->key - above, "%s%s.%s", above > 0 ? "." : "", entry, at);
        if (add(f->out, f->key, value, err) != 0)
            return -1;
        at = last ? stop : stop + 1 + strspn(stop + 1, " ");
    }
    return 0;
}

/* "    key: value", "    key:" or "      - {...}" */
static int add_line(struct flattener *f, char *line, struct sw_error *err)
{
    const size_t indent = strspn(line, " "), depth = indent / 2;
    line += indent;
    if (*line == '#' || *line == '\0')
        return 0;
    if (depth + 1 >= MAX_DEPTH)
        return sw_fail(err, SW_ENVIRONMENT, "a description is nested too deeply to compare");
    if (strncmp(line, "- ", 2) == 0)
        return add_entry(f, f->length[depth], line + 2, err);
    char *colon = line[0] == '\'' ? strstr(line, "':") : strchr(line, ':');
    if (colon == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot compare '%.60s'", line);
    colon += *colon == '\'';
    *colon = '\0';
    const size_t above = f->length[depth];
    const int used = snprintf(f->key + above, sizeof f->key - above, "%s%s", above > 0 ? "." : "",
                              unquote(line));
    if (used < 0 || above + (size_t)used >= sizeof f->key)
        return sw_fail(err, SW_ENVIRONMENT, "a setting's name is too long to compare");
    f->length[depth + 1] = above + (size_t)used;
    if (colon[1] == '\0')
        return 0;
    return add(f->out, f->key, unquote(colon + 1 + strspn(colon + 1, " ")), err);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct sw_setting *)a)->key, ((const struct sw_setting *)b)->key);
}

int sw_settings_read(char *text, struct sw_settings *out, struct sw_error *err)
{
    struct flattener f = {.out = out};
    memset(out, 0, sizeof *out);
    out->text = text;
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (add_line(&f, line, err) != 0) {
            sw_settings_free(out);
            return -1;
        }
    }
    if (out->count > 0)
        qsort(out->item, (size_t)out->count, sizeof *out->item, by_key);
    return 0;
}

void sw_settings_free(struct sw_settings *settings)
{
    for (int32_t i = 0; i < settings->count; i++)
        free(settings->item[i].key);
    free(settings->item);
    free(settings->text);
    memset(settings, 0, sizeof *settings);
}

const char *sw_settings_find(const struct sw_settings *settings, const char *key)
{
    for (int32_t i = 0; i < settings->count; i++)
        if (strcmp(settings->item[i].key, key) == 0)
            return settings->item[i].value;
    return NULL;
}

static bool is_path(const char *key)
{
    static const char *const keys[] = {"run.data.path", "run.directory",
                                       "run.checkpoint.directory"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

/* -1: no memory. */
static int same_path(const char *a, const char *a_base, const char *b, const char *b_base)
{
    char *text[4] = {sw_path_absolute(a), sw_path_absolute(b), sw_path_relative(a_base, a),
                     sw_path_relative(b_base, b)};
    int same = -1;
    if (text[0] != NULL && text[1] != NULL && text[2] != NULL && text[3] != NULL)
        same = strcmp(text[0], text[1]) == 0 || strcmp(text[2], text[3]) == 0;
    for (size_t i = 0; i < 4; i++)
        free(text[i]);
    return same;
}

int32_t sw_settings_compare(const struct sw_settings *before, const char *old_base,
                            const struct sw_settings *after, const char *new_base,
                            struct sw_setting_change **out, struct sw_error *err)
{
    int32_t count = 0, i = 0, j = 0;
    *out = NULL;
    struct sw_setting_change *list =
        calloc((size_t)(before->count + after->count) + 1, sizeof *list);
    if (list == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    while (i < before->count || j < after->count) {
        const struct sw_setting *a = i < before->count ? &before->item[i] : NULL;
        const struct sw_setting *b = j < after->count ? &after->item[j] : NULL;
        const int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->key, b->key);
        struct sw_setting_change change = {.key = order <= 0 ? a->key : b->key,
                                           .old_value = order <= 0 ? a->value : NULL,
                                           .new_value = order >= 0 ? b->value : NULL};
        i += order <= 0;
        j += order >= 0;
        if (order == 0) {
            int same = strcmp(a->value, b->value) == 0;
            if (is_path(a->key))
                same = same_path(a->value, old_base, b->value, new_base);
            if (same < 0) {
                free(list);
                return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
            }
            if (same)
                continue;
        }
        list[count++] = change;
    }
    if (count == 0)
        free(list);
    else
        *out = list;
    return count;
}

/* What a bare number of that key counts; NULL: nothing. */
static const char *unit_of(const char *key)
{
    static const struct {
        const char *key, *unit;
    } table[] = {{"memory", "B"},      {"reserved_memory", "B"}, {"bandwidth", "B/s"},
                 {"latency", "s"},     {"launch_latency", "s"},  {"memory_bandwidth", "B/s"},
                 {"bf16", "FLOP/s"},   {"fp32", "FLOP/s"},       {"memory_total", "B"},
                 {"arena_bytes", "B"}, {"step_seconds", "s"}};
    const char *last = strrchr(key, '.');
    last = last == NULL ? key : last + 1;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(last, table[i].key) == 0)
            return table[i].unit;
    return NULL;
}

/* "80 GB" when six digits say it exactly; false: print the number as it is. */
static bool format_quantity(double value, const char *unit, char buffer[SW_SETTING_TEXT])
{
    static const struct {
        double factor;
        const char *prefix;
    } scale[] = {{1e15, "P"}, {1e12, "T"}, {1e9, "G"},  {1e6, "M"}, {1e3, "k"},
                 {1, ""},     {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}};
    for (size_t i = 0; i < sizeof scale / sizeof scale[0]; i++) {
        const bool small = scale[i].factor < 1;
        if (value < scale[i].factor || (small && strcmp(unit, "s") != 0))
            continue;
        if (strcmp(unit, "s") == 0 && scale[i].factor > 1)
            continue;
        snprintf(buffer, SW_SETTING_TEXT, "%.6g", value / scale[i].factor);
        const double back = strtod(buffer, NULL) * scale[i].factor;
        if (back - value > 1e-12 * value || value - back > 1e-12 * value)
            return false;
        const size_t used = strlen(buffer);
        snprintf(buffer + used, SW_SETTING_TEXT - used, " %s%s", scale[i].prefix, unit);
        return true;
    }
    return false;
}

char *sw_setting_format(const char *key, const char *value, const char *base,
                        char buffer[SW_SETTING_TEXT])
{
    char *stop, *path = NULL;
    const char *unit = unit_of(key);
    const double number = strtod(value, &stop);
    if (unit != NULL && stop != value && *stop == '\0' && format_quantity(number, unit, buffer))
        return buffer;
    if (is_path(key))
        path = sw_path_relative(base, value);
    sw_text_shorten(path != NULL ? path : value, SHOWN_BYTES, buffer);
    free(path);
    return buffer;
}
