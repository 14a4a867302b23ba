/* Helpers to read all parts of tokenizer.json. */
#include "core/base/text.h"
#include "runner/text/tokenizer/internal.h"

#include <string.h>

int sw_read_flag(const struct sw_tokenizer *t, const json_t *object, const char *key, bool usual,
                 bool *out, struct sw_error *err)
{
    const json_t *value = json_object_get(object, key);
    *out = value == NULL || json_is_null(value) ? usual : json_is_true(value);
    if (value != NULL && !json_is_null(value) && !json_is_boolean(value))
        return sw_refuse(t, err, "'%s' must be true or false", key);
    return 0;
}

int sw_read_text(const struct sw_tokenizer *t, const json_t *object, const char *key, size_t most,
                 char *out, size_t *bytes, struct sw_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return sw_refuse(t, err, "'%s' is missing or not a string", key);
    *bytes = json_string_length(value);
    if (*bytes > most)
        return sw_refuse(t, err, "'%s' has %zu bytes, of %zu at most", key, *bytes, most);
    memcpy(out, json_string_value(value), *bytes + 1);
    return 0;
}

const char *sw_read_type(const struct sw_tokenizer *t, const json_t *object, const char *where,
                         struct sw_error *err)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    if (type == NULL)
        sw_refuse(t, err, "a part of the '%s' has no type", where);
    return type;
}

int sw_refuse_type(const struct sw_tokenizer *t, const char *type, const char *what,
                   const char *known, struct sw_error *err)
{
    char shown[SW_TEXT_SHOWN_BYTES + 4];
    sw_text_shown(type, SW_TEXT_SHOWN_BYTES, shown);
    return sw_refuse(t, err, "the %s '%s' is not supported; supported are %s", what, shown, known);
}

int sw_read_pattern(const struct sw_tokenizer *t, const json_t *value, const char *where,
                    struct sw_pattern *out, struct sw_error *err)
{
    const json_t *plain = json_object_get(value, "String");
    const json_t *expression = json_object_get(value, "Regex");
    if (json_is_string(plain))
        return sw_pattern_plain(json_string_value(plain), json_string_length(plain), out) == 0
                   ? 0
                   : sw_out_of_memory(t, err);
    if (!json_is_string(expression))
        return sw_refuse(t, err, "the pattern of a '%s' is neither a String nor a Regex", where);
    return sw_pattern_compile(t->path, json_string_value(expression),
                              json_string_length(expression), out, err);
}

/* depth: sequences may nest as deep as the limit of stages. */
static int read_within(struct sw_tokenizer *t, const json_t *part, const char *where,
                       const char *key, sw_read_part *read, int32_t depth, struct sw_error *err)
{
    const char *type = sw_read_type(t, part, where, err);
    if (type == NULL)
        return -1;
    if (strcmp(type, "Sequence") != 0)
        return read(t, part, type, err);
    const json_t *list = json_object_get(part, key), *member;
    size_t i;
    if (!json_is_array(list))
        return sw_refuse(t, err, "the Sequence of the '%s' has no list '%s'", where, key);
    if (depth == SW_TEXT_STAGES)
        return sw_refuse(t, err, "the '%s' has Sequences within Sequences %d deep", where,
                         (int)SW_TEXT_STAGES);
    json_array_foreach((json_t *)list, i, member) if (read_within(t, member, where, key, read,
                                                                  depth + 1, err) != 0) return -1;
    return 0;
}

int sw_read_sequence(struct sw_tokenizer *t, const json_t *part, const char *where, const char *key,
                     sw_read_part *read, struct sw_error *err)
{
    if (part == NULL || json_is_null(part))
        return 0;
    return read_within(t, part, where, key, read, 0, err);
}
