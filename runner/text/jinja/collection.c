/* Lists, dicts and iteration. */
#include "runner/text/jinja/internal.h"

#include <string.h>

struct jinja_value sw_jinja_list(struct jinja_run *run, size_t room)
{
    struct jinja_list *list = sw_jinja_take(run, sizeof *list);
    if (list == NULL)
        return jinja_undefined(NULL);
    if (room > 0 && room <= SIZE_MAX / 64)
        list->item = sw_jinja_take(run, room * sizeof *list->item);
    list->capacity = list->item != NULL ? room : 0;
    return (struct jinja_value){JINJA_SEQUENCE, {.list = list}};
}

void sw_jinja_push(struct jinja_run *run, struct jinja_list *list, struct jinja_value v)
{
    if (run->failed)
        return;
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity < 4 ? 4 : 2 * list->capacity;
        struct jinja_value *grown = sw_jinja_take(run, capacity * sizeof *grown);
        if (grown == NULL)
            return;
        if (list->count > 0)
            memcpy(grown, list->item, list->count * sizeof *grown);
        list->item = grown;
        list->capacity = capacity;
    }
    list->item[list->count++] = v;
}

struct jinja_value sw_jinja_pair(struct jinja_run *run, struct jinja_value a, struct jinja_value b)
{
    struct jinja_value pair = sw_jinja_list(run, 2);
    if (run->failed)
        return pair;
    sw_jinja_push(run, pair.of.list, a);
    sw_jinja_push(run, pair.of.list, b);
    pair.of.list->is_tuple = true;
    return pair;
}

struct jinja_value sw_jinja_dict(struct jinja_run *run, size_t room)
{
    struct jinja_dict *dict = sw_jinja_take(run, sizeof *dict);
    if (dict == NULL)
        return jinja_undefined(NULL);
    if (room > 0 && room <= SIZE_MAX / 64) {
        dict->key = sw_jinja_take(run, room * sizeof *dict->key);
        dict->value = sw_jinja_take(run, room * sizeof *dict->value);
        dict->capacity = run->failed ? 0 : room;
    }
    return (struct jinja_value){JINJA_MAPPING, {.dict = dict}};
}

struct jinja_value *sw_jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                                       struct jinja_value key)
{
    if (key.kind == JINJA_SEQUENCE || key.kind == JINJA_MAPPING) {
        sw_jinja_fail(run, "a %s is not a key of a dict", sw_jinja_kind_name(key));
        return NULL;
    }
    sw_jinja_charge(run, 8 * dict->count);
    for (size_t i = 0; i < dict->count && !run->failed; i++) {
        const struct jinja_value other = dict->key[i];
        if (key.kind == JINJA_TEXT
                ? other.kind == JINJA_TEXT && other.of.text->count == key.of.text->count &&
                      memcmp(other.of.text->byte, key.of.text->byte, key.of.text->count) == 0
                : sw_jinja_equal(run, other, key))
            return &dict->value[i];
    }
    return NULL;
}

struct jinja_value *sw_jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict,
                                      const char *key)
{
    const struct jinja_text text = {.byte = key, .count = strlen(key)};
    return sw_jinja_dict_find(run, dict, (struct jinja_value){JINJA_TEXT, {.text = &text}});
}

/* Appends a key that is not yet in the dict. */
static void append(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                   struct jinja_value value)
{
    if (dict->count == dict->capacity) {
        const size_t capacity = dict->capacity < 4 ? 4 : 2 * dict->capacity;
        struct jinja_value *keys = sw_jinja_take(run, capacity * sizeof *keys);
        struct jinja_value *values = sw_jinja_take(run, capacity * sizeof *values);
        if (keys == NULL || values == NULL)
            return;
        if (dict->count > 0) {
            memcpy(keys, dict->key, dict->count * sizeof *keys);
            memcpy(values, dict->value, dict->count * sizeof *values);
        }
        dict->key = keys;
        dict->value = values;
        dict->capacity = capacity;
    }
    dict->key[dict->count] = key;
    dict->value[dict->count++] = value;
}

void sw_jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key,
                       struct jinja_value value)
{
    struct jinja_value *there = sw_jinja_dict_find(run, dict, key);
    if (run->failed)
        return;
    if (there != NULL)
        *there = value;
    else
        append(run, dict, key, value);
}

static struct jinja_list *characters(struct jinja_run *run, const struct jinja_text *text)
{
    const struct jinja_value list = sw_jinja_list(run, sw_jinja_characters(run, text));
    for (size_t i = 0, end; i < text->count && !run->failed; i = end) {
        for (end = i + 1; end < text->count && ((unsigned char)text->byte[end] & 0xc0) == 0x80;)
            end++;
        sw_jinja_push(run, list.of.list, sw_jinja_part(run, text, i, end));
    }
    return run->failed ? NULL : list.of.list;
}

const struct jinja_list *sw_jinja_items(struct jinja_run *run, struct jinja_value v)
{
    static const struct jinja_list none = {.count = 0};
    const struct jinja_list *list = NULL;
    if (run->failed)
        return &none;
    if (v.kind == JINJA_SEQUENCE)
        return v.of.list;
    if (v.kind == JINJA_TEXT) {
        list = characters(run, v.of.text);
    } else if (v.kind == JINJA_MAPPING || v.kind == JINJA_UNDEFINED) {
        const size_t count = v.kind == JINJA_MAPPING ? v.of.dict->count : 0;
        const struct jinja_value keys = sw_jinja_list(run, count);
        for (size_t i = 0; i < count && !run->failed; i++)
            sw_jinja_push(run, keys.of.list, v.of.dict->key[i]);
        list = run->failed ? NULL : keys.of.list;
    } else {
        sw_jinja_fail(run, "a value that is %s has no elements", sw_jinja_kind_name(v));
    }
    return list != NULL ? list : &none;
}
