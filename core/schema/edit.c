#include "core/schema/edit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static int no_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory while editing a YAML file");
}

/* A text and its parse by libyaml. */
struct edit {
    const char *text;
    size_t skipped; /* bytes of a byte order mark */
    yaml_document_t document;
    bool loaded;
};

static int load(const char *text, struct edit *e, struct sw_error *err)
{
    yaml_parser_t parser;
    *e = (struct edit){.text = text, .skipped = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0};
    if (yaml_parser_initialize(&parser) == 0)
        return no_memory(err);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text + e->skipped,
                                 strlen(text) - e->skipped);
    e->loaded = yaml_parser_load(&parser, &e->document) != 0;
    if (!e->loaded)
        sw_fail(err, SW_BAD_INPUT, "line %d: not valid YAML: %s", (int)parser.problem_mark.line + 1,
                parser.problem != NULL ? parser.problem : "it cannot be read");
    yaml_parser_delete(&parser);
    return e->loaded ? 0 : -1;
}

static void unload(struct edit *e)
{
    if (e->loaded)
        yaml_document_delete(&e->document);
    e->loaded = false;
}

/* Byte offset of a mark, which counts characters. */
static size_t byte_of(const struct edit *e, yaml_mark_t mark)
{
    size_t at = e->skipped;
    for (size_t characters = mark.index; e->text[at] != '\0'; at++)
        if (((unsigned char)e->text[at] & 0xc0) != 0x80 && characters-- == 0)
            break;
    return at;
}

static yaml_node_t *find_key(struct edit *e, const yaml_node_t *map, const char *key, size_t length)
{
    const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = yaml_document_get_node(&e->document, pair->key);
        if (name->type == YAML_SCALAR_NODE && name->data.scalar.length == length &&
            memcmp(name->data.scalar.value, key, length) == 0)
            return yaml_document_get_node(&e->document, pair->value);
    }
    return NULL;
}

/* The node at a path, or NULL with the innermost existing mapping and the rest of the path. */
static yaml_node_t *follow(struct edit *e, const char *path, yaml_node_t **map, const char **left)
{
    yaml_node_t *node = yaml_document_get_root_node(&e->document);
    *map = NULL;
    for (const char *key = path; node != NULL && node->type == YAML_MAPPING_NODE;) {
        const size_t length = strcspn(key, ".");
        *map = node;
        *left = key;
        node = find_key(e, node, key, length);
        if (key[length] == '\0')
            return node;
        key += length + 1;
    }
    if (node != NULL)
        *map = NULL; /* a scalar or a list blocks the path */
    return node;
}

char *sw_yaml_get(const char *text, const char *path, struct sw_error *err)
{
    struct edit e;
    yaml_node_t *map = NULL;
    const char *left = NULL;
    char *out = NULL;
    if (load(text, &e, err) != 0)
        return NULL;
    const yaml_node_t *node = follow(&e, path, &map, &left);
    if (node != NULL && map != NULL && node->type == YAML_SCALAR_NODE) {
        out = strndup((const char *)node->data.scalar.value, node->data.scalar.length);
        if (out == NULL)
            no_memory(err);
    }
    unload(&e);
    return out;
}

/* The byte behind everything that belongs to a node. libyaml's own mark of a block stands behind
 * the comments that follow. */
static size_t end_of(struct edit *e, const yaml_node_t *node)
{
    const yaml_node_t *last = NULL;
    if (node->type == YAML_MAPPING_NODE && node->data.mapping.style != YAML_FLOW_MAPPING_STYLE &&
        node->data.mapping.pairs.top > node->data.mapping.pairs.start)
        last = yaml_document_get_node(&e->document, node->data.mapping.pairs.top[-1].value);
    if (node->type == YAML_SEQUENCE_NODE && node->data.sequence.style != YAML_FLOW_SEQUENCE_STYLE &&
        node->data.sequence.items.top > node->data.sequence.items.start)
        last = yaml_document_get_node(&e->document, node->data.sequence.items.top[-1]);
    return last != NULL ? end_of(e, last) : byte_of(e, node->end_mark);
}

/* text[0, from) + between + text[to, end) */
static char *splice(const char *text, size_t from, const char *between, size_t to,
                    struct sw_error *err)
{
    const size_t middle = strlen(between), rest = strlen(text + to);
    char *out = malloc(from + middle + rest + 1);
    if (out == NULL) {
        no_memory(err);
        return NULL;
    }
    memcpy(out, text, from);
    memcpy(out + from, between, middle);
    memcpy(out + from + middle, text + to, rest + 1);
    return out;
}

/* "a: {b: value}" of "a.b"; malloc'ed. */
static char *entry_text(const char *before, const char *path, const char *value, const char *after)
{
    char *text = NULL;
    size_t bytes = 0, depth = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    fputs(before, out);
    for (const char *key = path;; depth++) {
        const size_t length = strcspn(key, ".");
        fprintf(out, "%.*s: ", (int)length, key);
        if (key[length] == '\0')
            break;
        fputc('{', out);
        key += length + 1;
    }
    fputs(value, out);
    while (depth-- > 0)
        fputc('}', out);
    fputs(after, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Line ending of the text: that of its first line. */
static const char *line_end(const char *text)
{
    const char *first = strchr(text, '\n');
    return first != NULL && first > text && first[-1] == '\r' ? "\r\n" : "\n";
}

/* Appends an entry to a mapping. */
static char *insert(struct edit *e, yaml_node_t *map, const char *path, const char *value,
                    struct sw_error *err)
{
    const bool flow = map->data.mapping.style == YAML_FLOW_MAPPING_STYLE;
    const bool empty = map->data.mapping.pairs.top == map->data.mapping.pairs.start;
    char before[256], *entry = NULL, *out = NULL;
    size_t at = 0;
    const char *after = "";
    if (flow) {
        at = byte_of(e, map->end_mark) - 1;
        /* right behind the last value: text before the brace stays */
        if (!empty)
            at = end_of(
                e, yaml_document_get_node(&e->document, map->data.mapping.pairs.top[-1].value));
        snprintf(before, sizeof before, "%s", empty ? "" : ", ");
    } else {
        const int column = (int)map->start_mark.column;
        at = end_of(e, map);
        const bool starts_line = at > 0 && e->text[at - 1] == '\n';
        if (!starts_line)
            at += strcspn(e->text + at, "\r\n");
        snprintf(before, sizeof before, "%s%*s", starts_line ? "" : line_end(e->text), column, "");
        after = starts_line ? line_end(e->text) : "";
    }
    entry = entry_text(before, path, value, after);
    if (entry == NULL)
        no_memory(err);
    else
        out = splice(e->text, at, entry, at, err);
    free(entry);
    return out;
}

/* Replaces a scalar's text; if empty ("links:"), inserts a space before. */
static char *replace(struct edit *e, const yaml_node_t *node, const char *with,
                     struct sw_error *err)
{
    const size_t from = byte_of(e, node->start_mark), to = byte_of(e, node->end_mark);
    char *spaced = NULL, *out = NULL;
    if (from != to || (from > 0 && e->text[from - 1] == ' '))
        return splice(e->text, from, with, to, err);
    const size_t bytes = strlen(with) + 2;
    spaced = malloc(bytes);
    if (spaced == NULL) {
        no_memory(err);
        return NULL;
    }
    snprintf(spaced, bytes, " %s", with);
    out = splice(e->text, from, spaced, to, err);
    free(spaced);
    return out;
}

static char *set(struct edit *e, const char *path, const char *value, struct sw_error *err)
{
    yaml_node_t *map = NULL;
    const char *left = NULL;
    yaml_node_t *node = follow(e, path, &map, &left);
    if (node != NULL && node->type == YAML_SCALAR_NODE && map != NULL)
        return replace(e, node, value, err);
    if (node == NULL && map != NULL)
        return insert(e, map, left, value, err);
    /* "links:" without a value is an empty mapping */
    const char *dot = strrchr(path, '.');
    if (node != NULL && node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0 &&
        dot != NULL) {
        char *entry = entry_text("{", dot + 1, value, "}");
        if (entry == NULL) {
            no_memory(err);
            return NULL;
        }
        char *out = replace(e, node, entry, err);
        free(entry);
        return out;
    }
    sw_fail(err, SW_BAD_INPUT, "'%s' cannot be set: a value of another kind is there", path);
    return NULL;
}

char *sw_yaml_set(const char *text, const char *path, const char *value, struct sw_error *err)
{
    struct edit e;
    if (load(text, &e, err) != 0)
        return NULL;
    char *out = set(&e, path, value, err);
    unload(&e);
    return out;
}
