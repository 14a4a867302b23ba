/* Parses JSON into trees of nodes: a config.json has syntax that YAML lacks, such as escapes of
 * characters beyond U+FFFF. */
#include "core/base/json_read.h"
#include "core/schema/internal.h"

#include <string.h>

bool sw_config_is_json(const struct source *source)
{
    struct sw_json_reader reader;
    enum sw_json_event event;
    const char *dot = strrchr(source->file, '.');
    size_t at = 0;
    while (at < source->bytes && strchr(" \t\r\n", source->text[at]) != NULL)
        at++;
    if (source->is_override || at == source->bytes || source->text[at] != '{')
        return false;
    if (dot != NULL && strcmp(dot, ".json") == 0)
        return true;
    sw_json_reader_begin(&reader, source->text, source->bytes);
    do
        event = sw_json_next(&reader);
    while (event < SW_JSON_END);
    sw_json_reader_free(&reader);
    return event == SW_JSON_END;
}

struct parse {
    struct sw_config *c;
    const struct source *source;
    struct sw_json_reader reader;
    struct node *open[SW_MAX_DEPTH]; /* open containers */
    struct node *root, *key;         /* key: key of the next value */
    int32_t depth;
};

/* Text of a scalar, with U+FFFD for a NUL, which no key or word contains. */
static const char *copy_value(struct parse *p)
{
    const char *from = p->reader.value;
    const size_t bytes = p->reader.value_bytes;
    size_t nuls = 0, at = 0;
    for (size_t i = 0; i < bytes; i++)
        nuls += from[i] == '\0';
    if (nuls == 0)
        return sw_config_copy(p->c, from, bytes);
    char *text = sw_config_alloc(p->c, bytes + 2 * nuls + 1);
    for (size_t i = 0; text != NULL && i < bytes; i++) {
        const bool nul = from[i] == '\0';
        memcpy(text + at, nul ? "\xef\xbf\xbd" : &from[i], nul ? 3 : 1);
        at += nul ? 3 : 1;
    }
    return text != NULL ? text : "";
}

static struct node *new_node(struct parse *p, enum sw_json_event event)
{
    int32_t line, column;
    const enum node_kind kind = event == SW_JSON_OBJECT  ? NODE_MAPPING
                                : event == SW_JSON_ARRAY ? NODE_SEQUENCE
                                                         : NODE_SCALAR;
    sw_json_where(&p->reader, &line, &column);
    struct node *node = sw_node_new(p->c, p->source, kind, line, column);
    if (node != NULL && kind == NODE_SCALAR) {
        node->plain = event == SW_JSON_NUMBER || event == SW_JSON_WORD;
        node->text = copy_value(p);
    }
    return node;
}

/* Puts a value into the open container. False: impossible (reported). */
static bool attach(struct parse *p, enum sw_json_event event)
{
    struct node *node = new_node(p, event);
    struct node *parent = p->depth > 0 ? p->open[p->depth - 1] : NULL;
    if (node == NULL)
        return false;
    if (parent == NULL) {
        p->root = node;
    } else {
        node->key = parent->kind == NODE_MAPPING ? p->key : NULL;
        sw_node_append(parent, node);
    }
    if (node->kind == NODE_SCALAR)
        return true;
    if (p->depth == SW_MAX_DEPTH) {
        sw_config_error_at(p->c, node,
                           sw_config_format(p->c, "nested deeper than %d levels", SW_MAX_DEPTH),
                           "no description nests so deep: check the brackets");
        return false;
    }
    p->open[p->depth++] = node;
    return true;
}

static bool take(struct parse *p, enum sw_json_event event)
{
    int32_t line, column;
    switch (event) {
    case SW_JSON_NO_MEMORY:
        p->c->failed = true;
        return false;
    case SW_JSON_MISTAKE:
        sw_json_where(&p->reader, &line, &column);
        sw_config_error(p->c, p->source, line, column,
                        sw_config_format(p->c, "not valid JSON: %s", p->reader.mistake),
                        "check the quotes, brackets and commas before this place");
        return false;
    case SW_JSON_CLOSE:
        if (p->open[--p->depth]->kind == NODE_MAPPING)
            sw_node_check_duplicates(p->c, p->open[p->depth]);
        return true;
    case SW_JSON_KEY:
        return (p->key = new_node(p, event)) != NULL;
    default:
        return attach(p, event);
    }
}

struct node *sw_config_parse_json(struct sw_config *c, const struct source *source)
{
    struct parse p = {.c = c, .source = source};
    enum sw_json_event event;
    bool good = true;
    sw_json_reader_begin(&p.reader, source->text, source->bytes);
    while (good && (event = sw_json_next(&p.reader)) != SW_JSON_END)
        good = take(&p, event);
    sw_json_reader_free(&p.reader);
    return good ? p.root : NULL;
}
