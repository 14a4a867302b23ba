#include "planner/diff/settings.h"

#include "core/base/recompute.h"
#include "core/base/text.h"
#include "core/plan/inputs.h"
#include "planner/diff/diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 200 };

int sw_settings_add(struct sw_settings *out, const char *key, const char *value,
                    struct sw_error *err)
{
    if (out->count == out->capacity) {
        const int32_t capacity = out->capacity == 0 ? 128 : 2 * out->capacity;
        struct sw_setting *grown = realloc(out->item, (size_t)capacity * sizeof *grown);
        if (grown == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
        out->item = grown;
        out->capacity = capacity;
    }
    struct sw_setting *item = &out->item[out->count];
    *item = (struct sw_setting){strdup(key), strdup(value)};
    out->count++;
    if (item->key == NULL || item->value == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while comparing");
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct sw_setting *)a)->key, ((const struct sw_setting *)b)->key);
}

void sw_settings_sort(struct sw_settings *settings)
{
    if (settings->count > 0)
        qsort(settings->item, (size_t)settings->count, sizeof *settings->item, by_key);
}

void sw_settings_free(struct sw_settings *settings)
{
    for (int32_t i = 0; i < settings->count; i++) {
        free(settings->item[i].key);
        free(settings->item[i].value);
    }
    free(settings->item);
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
    static const char *const keys[] = {"run.data.path", "run.init.from", "run.stage.from",
                                       "run.directory", "run.checkpoint.directory"};
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

/* Unit of a bare number of that key; NULL: none. */
static const char *unit_of(const char *key)
{
    static const struct {
        const char *key, *unit;
    } table[] = {{"memory", "B"},         {"reserved_memory", "B"},
                 {"host_memory", "B"},    {"bandwidth", "B/s"},
                 {"latency", "s"},        {"launch", "s"},
                 {"launch_latency", "s"}, {"memory_bandwidth", "B/s"},
                 {"bf16", "FLOP/s"},      {"fp32", "FLOP/s"},
                 {"memory_total", "B"},   {"arena_bytes", "B"},
                 {"step_seconds", "s"},   {"save_seconds", "s"},
                 {"memory_headroom", "%"}};
    const char *last = strrchr(key, '.');
    last = last == NULL ? key : last + 1;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(last, table[i].key) == 0)
            return table[i].unit;
    return NULL;
}

/* Writes binary units if round in them, as memory is: "81559 MiB". */
static bool format_binary(double value, char buffer[SW_SETTING_TEXT])
{
    static const struct {
        double factor;
        const char *unit;
    } scale[] = {{1LL << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
    for (size_t i = 0; i < sizeof scale / sizeof scale[0]; i++) {
        char digits[32];
        snprintf(digits, sizeof digits, "%.6g", value / scale[i].factor);
        if (value < scale[i].factor || strtod(digits, NULL) * scale[i].factor != value)
            continue;
        snprintf(buffer, SW_SETTING_TEXT, "%s %s", digits, scale[i].unit);
        return true;
    }
    return false;
}

/* "80 GB" if six digits are exact, or "81559 MiB"; false: print the plain number. */
static bool format_quantity(double value, const char *unit, char buffer[SW_SETTING_TEXT])
{
    if (strcmp(unit, "%") == 0) {
        snprintf(buffer, SW_SETTING_TEXT, "%.10g %%", value * 100);
        return true;
    }
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
            return strcmp(unit, "B") == 0 && format_binary(value, buffer);
        const size_t used = strlen(buffer);
        snprintf(buffer + used, SW_SETTING_TEXT - used, " %s%s", scale[i].prefix, unit);
        return true;
    }
    return false;
}

/* Reads the set of a list, "[n1, h]" or "all", behind a key; empty if the key is missing. False:
 * unknown names. */
static bool read_values(const char *text, const char *key, struct sw_layer_values *set)
{
    const char *at = strstr(text, key);
    *set = (struct sw_layer_values){0};
    if (at == NULL)
        return true;
    at += strlen(key);
    if (*at != '[') {
        *set = sw_layer_values_all();
        return true;
    }
    for (at++; *at != '\0' && *at != ']';) {
        char name[SW_LAYER_NAME_BYTES];
        const size_t length = strcspn(at, ", ]");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        const int32_t ordinal = sw_layer_value_find(name);
        if (ordinal < 0)
            return false;
        sw_layer_values_add(set, ordinal);
        at += length;
        at += strspn(at, ", ");
    }
    return true;
}

/* "{values: [n1, h], layers: 56, rest: [n1]}" in the words of `plan search`. */
static bool format_recompute(const char *value, char buffer[SW_SETTING_TEXT])
{
    char text[SW_RECOMPUTE_BYTES];
    const char *layers = strstr(value, "layers: ");
    const long count = layers != NULL ? strtol(layers + strlen("layers: "), NULL, 10) : 0;
    struct sw_recompute recompute = {.layers = count > 0 ? (int32_t)count : SW_ALL_LAYERS};
    if (!read_values(value, "values: ", &recompute.values) ||
        !read_values(value, "rest: ", &recompute.rest))
        return false;
    sw_text_shorten(sw_recompute_describe(recompute, 0, text), SHOWN_BYTES, buffer);
    return true;
}

char *sw_setting_format(const char *key, const char *value, const char *base,
                        char buffer[SW_SETTING_TEXT])
{
    char *stop, *path = NULL;
    const char *unit = unit_of(key);
    const double number = strtod(value, &stop);
    if (unit != NULL && stop != value && *stop == '\0' && format_quantity(number, unit, buffer))
        return buffer;
    const char *last = strrchr(key, '.');
    if (strcmp(last != NULL ? last + 1 : key, "recompute") == 0 && value[0] == '{' &&
        format_recompute(value, buffer))
        return buffer;
    if (is_path(key))
        path = sw_path_relative(base, value);
    sw_text_shorten(path != NULL ? path : value, SHOWN_BYTES, buffer);
    free(path);
    return buffer;
}
