/* Parses files and texts into trees of nodes with their positions. The only user of libyaml. */
#include "core/base/file.h"
#include "core/schema/internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

struct parse {
    struct sw_config *c;
    const struct source *source;
    yaml_parser_t yaml;
    bool failed;
};

bool sw_node_is_null(const struct node *node)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    if (node->kind != NODE_SCALAR || !node->plain)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(node->text, words[i]) == 0)
            return true;
    return false;
}

struct node *sw_node_find(const struct node *map, const char *key)
{
    if (map == NULL || map->kind != NODE_MAPPING)
        return NULL;
    struct node *entry = map->first;
    while (entry != NULL && strcmp(entry->key->text, key) != 0)
        entry = entry->next;
    return entry;
}

const char *sw_node_describe(struct sw_config *c, const struct node *node)
{
    double number;
    switch (node->kind) {
    case NODE_SEQUENCE:
        return "a list";
    case NODE_MAPPING:
        return "a mapping";
    case NODE_BROKEN:
        return "a mistake";
    case NODE_SCALAR:
        break;
    }
    if (sw_node_is_null(node))
        return "nothing";
    if (node->plain && sw_number_parse(node->text, &number))
        return sw_config_format(c, "the number %s", sw_config_shown(c, node->text));
    return sw_config_format(c, "the string %s", sw_config_quote(c, node->text));
}

struct source *sw_config_new_source(struct sw_config *c, const char *file, const char *text,
                                    size_t bytes)
{
    struct source *source = sw_config_alloc(c, sizeof *source);
    if (source == NULL)
        return NULL;
    source->file = sw_config_copy(c, file, strlen(file));
    source->text = text;
    source->bytes = bytes;
    source->index = c->source_count++;
    return source;
}

static int32_t clamp(size_t value)
{
    return value >= INT32_MAX ? INT32_MAX : (int32_t)value + 1;
}

struct node *sw_node_new(struct sw_config *c, const struct source *source, enum node_kind kind,
                         int32_t line, int32_t column)
{
    if (++c->node_count > SW_MAX_NODES) {
        sw_config_error(c, source, line, column,
                        sw_config_format(c, "more than %d values", SW_MAX_NODES),
                        "no description needs as many: is it the right file?");
        return NULL;
    }
    struct node *node = sw_config_alloc(c, sizeof *node);
    if (node == NULL)
        return NULL;
    node->kind = kind;
    node->source = source;
    node->line = line;
    node->column = column;
    return node;
}

static struct node *new_node(struct parse *p, enum node_kind kind, yaml_mark_t mark)
{
    struct node *node =
        p->failed ? NULL : sw_node_new(p->c, p->source, kind, clamp(mark.line), clamp(mark.column));
    p->failed = p->failed || node == NULL;
    return node;
}

static void fail(struct parse *p, yaml_mark_t mark, const char *message, const char *help)
{
    int32_t line = clamp(mark.line), column = clamp(mark.column);
    if (p->source->is_override && line > 1) { /* a --set text has no second line: point at its
                                                 end */
        line = 1;
        column = clamp(p->source->bytes);
    }
    if (!p->failed)
        sw_config_error(p->c, p->source, line, column, message, help);
    p->failed = true;
}

static void syntax_error(struct parse *p)
{
    const char *problem = p->yaml.problem != NULL ? p->yaml.problem : "unreadable";
    yaml_mark_t mark = p->yaml.problem_mark;
    if (p->yaml.error == YAML_MEMORY_ERROR) {
        p->c->failed = p->failed = true;
        return;
    }
    if (p->yaml.context != NULL && strstr(p->yaml.context, "simple key") != NULL &&
        strstr(problem, "expected ':'") != NULL) { /* noticed only in the next line */
        fail(p, p->yaml.context_mark, "not valid YAML: no 'key: value'",
             "write a space behind the colon, as in 'sequence_length: 4096'");
        return;
    }
    const char *help = "check the quotes, brackets and indentation before this place";
    if (mark.index < p->source->bytes && strstr(problem, "cannot start any token") != NULL) {
        /* libyaml's columns count characters, its index too: find the byte by walking. */
        const char *at = p->source->text, *end = at + p->source->bytes;
        for (size_t i = 0; at < end && i < mark.index; i++)
            do
                at++;
            while (at < end && ((unsigned char)*at & 0xc0) == 0x80);
        if (at < end && *at == '\t')
            help = "indent with spaces, not with a tab";
        else if (at < end && (*at == '@' || *at == '`' || *at == '%'))
            help = "put the string in quotes";
    } else if (strstr(problem, "tab character") != NULL) {
        help = "indent with spaces, not with a tab";
    } else if (p->yaml.context != NULL && strstr(p->yaml.context, "a tag") != NULL) {
        help = "put a string that starts with '!' in quotes: '!1,-1,4,1'";
    } else if (strstr(problem, "mapping values are not allowed") != NULL) {
        help = "put a string that contains ': ' in quotes, and check the indentation";
    } else if (strstr(problem, "expected ',' or") != NULL) {
        help = "a bracket or brace is not closed, or a comma is missing";
    } else if (strstr(problem, "did not find expected key") != NULL) {
        help = "check the indentation: the keys of a mapping start in the same column";
    }
    if (p->yaml.context != NULL && p->yaml.context_mark.line != mark.line)
        fail(p, mark,
             sw_config_format(p->c, "not valid YAML: %s, %s that starts in line %d", problem,
                              p->yaml.context, (int)clamp(p->yaml.context_mark.line)),
             help);
    else
        fail(p, mark, sw_config_format(p->c, "not valid YAML: %s", problem), help);
}

static bool next_event(struct parse *p, yaml_event_t *event)
{
    if (p->failed)
        return false;
    if (yaml_parser_parse(&p->yaml, event) == 0) {
        syntax_error(p);
        return false;
    }
    return true;
}

static struct node *parse_value(struct parse *p, const yaml_event_t *event, int32_t depth);

/* value: text after the tag; NULL: a list or a mapping. A string may look like a tag. */
static void refuse_tag(struct parse *p, struct node *node, const char *tag, const char *value)
{
    static const char yaml[] = "tag:yaml.org,2002:"; /* prefix that libyaml makes of '!!' */
    const bool is_yaml = strncmp(tag, yaml, sizeof yaml - 1) == 0;
    const char *written = is_yaml ? sw_config_format(p->c, "!!%s", tag + sizeof yaml - 1)
                                  : sw_config_copy(p->c, tag, strlen(tag));
    const char *help = "leave it out";
    if (value != NULL && value[0] != '\0' && is_yaml)
        help = sw_config_format(p->c, "leave it out: %s", sw_config_shown(p->c, value));
    else if (value != NULL && !is_yaml)
        help = sw_config_format(
            p->c, "put the string in quotes: %s",
            sw_config_quote(
                p->c, sw_config_format(p->c, "%s%s%s", tag, value[0] != '\0' ? " " : "", value)));
    sw_config_error_at(p->c, node,
                       sw_config_format(p->c,
                                        "%s is read as a YAML tag, which is not supported here",
                                        sw_config_quote(p->c, written)),
                       help);
    node->kind = NODE_BROKEN;
}

static struct node *parse_scalar(struct parse *p, const yaml_event_t *event)
{
    struct node *node = new_node(p, NODE_SCALAR, event->start_mark);
    if (node == NULL)
        return NULL;
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = sw_config_copy(p->c, text, length);
    if (event->data.scalar.tag != NULL) {
        refuse_tag(p, node, (const char *)event->data.scalar.tag, text);
    } else if (strlen(text) != length) {
        sw_config_error_at(p->c, node, "a string with a NUL character", "remove it");
        node->kind = NODE_BROKEN;
    }
    return node;
}

void sw_node_append(struct node *parent, struct node *child)
{
    child->next = NULL;
    if (parent->last == NULL)
        parent->first = child;
    else
        parent->last->next = child;
    parent->last = child;
    parent->count++;
}

static int compare_keys(const void *left, const void *right)
{
    const struct node *a = *(struct node *const *)left, *b = *(struct node *const *)right;
    int order = strcmp(a->key->text, b->key->text);
    if (order != 0)
        return order;
    if (a->key->line != b->key->line)
        return a->key->line < b->key->line ? -1 : 1;
    return a->key->column < b->key->column ? -1 : a->key->column > b->key->column;
}

void sw_node_check_duplicates(struct sw_config *c, struct node *map)
{
    if (map->count < 2)
        return;
    struct node **sorted = malloc((size_t)map->count * sizeof *sorted);
    if (sorted == NULL) {
        c->failed = true;
        return;
    }
    int32_t n = 0;
    for (struct node *entry = map->first; entry != NULL; entry = entry->next)
        sorted[n++] = entry;
    qsort(sorted, (size_t)n, sizeof *sorted, compare_keys);
    const struct node *first = sorted[0];
    for (int32_t i = 1; i < n; i++) {
        /* U+FFFD stands for several characters, so such keys may differ */
        if (strcmp(sorted[i]->key->text, first->key->text) != 0 ||
            strstr(first->key->text, "\xef\xbf\xbd") != NULL) {
            first = sorted[i];
            continue;
        }
        sw_config_error_at(c, sorted[i]->key,
                           sw_config_format(c, "duplicate key %s, first in line %d",
                                            sw_config_quote(c, first->key->text),
                                            (int)first->key->line),
                           "leave one of them out");
        sorted[i]->kind = NODE_BROKEN;
    }
    free(sorted);
    /* sw_node_find returns the first one; the others stay in the list as broken entries. */
}

static struct node *parse_key(struct parse *p, const yaml_event_t *event)
{
    if (event->type != YAML_SCALAR_EVENT) {
        fail(p, event->start_mark,
             event->type == YAML_ALIAS_EVENT ? "a YAML alias cannot be a key"
                                             : "a key must be a string, not a list or a mapping",
             event->type == YAML_ALIAS_EVENT
                 ? "write the key out"
                 : "put a string that starts with a bracket or brace in quotes");
        return NULL;
    }
    struct node *key = parse_scalar(p, event);
    if (key != NULL && key->kind == NODE_SCALAR && key->plain && strcmp(key->text, "<<") == 0) {
        sw_config_error_at(p->c, key, "YAML merge keys are not supported",
                           "write the keys out, or name another file");
        key->kind = NODE_BROKEN;
    }
    return key;
}

static struct node *parse_mapping(struct parse *p, const yaml_event_t *start, int32_t depth)
{
    struct node *map = new_node(p, NODE_MAPPING, start->start_mark);
    const char *tag = (const char *)start->data.mapping_start.tag;
    yaml_event_t event;
    while (map != NULL && next_event(p, &event)) {
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            sw_node_check_duplicates(p->c, map);
            if (tag != NULL)
                refuse_tag(p, map, tag, NULL);
            return map;
        }
        struct node *key = parse_key(p, &event);
        yaml_event_delete(&event);
        if (key == NULL || !next_event(p, &event))
            break;
        struct node *value = parse_value(p, &event, depth + 1);
        yaml_event_delete(&event);
        if (value == NULL)
            break;
        value->key = key;
        sw_node_append(map, value);
    }
    return NULL;
}

static struct node *parse_sequence(struct parse *p, const yaml_event_t *start, int32_t depth)
{
    struct node *list = new_node(p, NODE_SEQUENCE, start->start_mark);
    const char *tag = (const char *)start->data.sequence_start.tag;
    yaml_event_t event;
    while (list != NULL && next_event(p, &event)) {
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            if (tag != NULL)
                refuse_tag(p, list, tag, NULL);
            return list;
        }
        struct node *value = parse_value(p, &event, depth + 1);
        yaml_event_delete(&event);
        if (value == NULL)
            break;
        sw_node_append(list, value);
    }
    return NULL;
}

static struct node *parse_value(struct parse *p, const yaml_event_t *event, int32_t depth)
{
    if (depth > SW_MAX_DEPTH) {
        fail(p, event->start_mark,
             sw_config_format(p->c, "nested deeper than %d levels", SW_MAX_DEPTH),
             "no description nests so deep: check the brackets and the indentation");
        return NULL;
    }
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return parse_scalar(p, event);
    case YAML_SEQUENCE_START_EVENT:
        return parse_sequence(p, event, depth);
    case YAML_MAPPING_START_EVENT:
        return parse_mapping(p, event, depth);
    case YAML_ALIAS_EVENT: {
        struct node *node = new_node(p, NODE_BROKEN, event->start_mark);
        if (node != NULL)
            sw_config_error_at(
                p->c, node,
                sw_config_format(p->c, "YAML aliases are not supported: '*%s'",
                                 sw_config_shown(p->c, (const char *)event->data.alias.anchor)),
                "write the value out, or name another file");
        return node;
    }
    default:
        fail(p, event->start_mark, "not valid YAML", "write 'key: value' lines");
        return NULL;
    }
}

/* Bytes of the UTF-8 character at p that YAML allows; 0: none. */
static size_t character_length(const unsigned char *p, size_t left, const char **reason)
{
    *reason = "not UTF-8 text";
    if (p[0] < 0x80) {
        bool allowed =
            (p[0] >= 0x20 && p[0] != 0x7f) || p[0] == '\t' || p[0] == '\n' || p[0] == '\r';
        if (!allowed)
            *reason = p[0] == 0 ? "a NUL character" : "a control character";
        return allowed ? 1 : 0;
    }
    size_t length = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
                    : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                    : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || length > left)
        return 0;
    uint32_t value = p[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (p[i] & 0x3fu);
    }
    if ((length == 3 && value < 0x800) || (length == 4 && (value < 0x10000 || value > 0x10ffff)) ||
        (value >= 0xd800 && value < 0xe000))
        return 0;
    if ((value < 0xa0 && value != 0x85) || value == 0xfffe || value == 0xffff || value == 0xfeff) {
        *reason = "a control character";
        return 0;
    }
    return length;
}

/* Finds bad bytes before libyaml, which reports only their offset, to give them a line and a
 * column. */
bool sw_config_check_characters(struct sw_config *c, const struct source *source)
{
    int32_t line = 1, column = 1;
    for (size_t i = 0; i < source->bytes;) {
        const char *reason;
        const unsigned char *p = (const unsigned char *)source->text + i;
        size_t length = character_length(p, source->bytes - i, &reason);
        if (length == 0) {
            bool utf16 = i == 0 && source->bytes >= 2 &&
                         ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff));
            sw_config_error(c, source, line, column,
                            sw_config_format(c, "%s (byte 0x%02x)", reason, p[0]),
                            utf16 ? "save the file as UTF-8, not as UTF-16"
                                  : "descriptions are plain UTF-8 text");
            return false;
        }
        bool lone_return = p[0] == '\r' && (i + 1 == source->bytes || p[1] != '\n');
        bool other_break = (length == 2 && p[0] == 0xc2 && p[1] == 0x85) ||
                           (length == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] | 1) == 0xa9);
        if (p[0] == '\n' || lone_return || other_break) {
            line++;
            column = 1;
        } else {
            column++;
        }
        i += length;
    }
    return true;
}

static struct node *parse_stream(struct parse *p)
{
    struct node *root = NULL;
    yaml_event_t event;
    while (next_event(p, &event)) {
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && root != NULL) {
            fail(p, event.start_mark, "a second document in the file",
                 "keep one description in a file");
        } else if (type == YAML_ALIAS_EVENT || type == YAML_SCALAR_EVENT ||
                   type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT) {
            root = parse_value(p, &event, 1);
        }
        yaml_event_delete(&event);
        if (type == YAML_STREAM_END_EVENT)
            break;
    }
    if (p->failed)
        return NULL;
    if (root == NULL || sw_node_is_null(root)) {
        sw_config_error(
            p->c, p->source, 1, 1, "the file is empty",
            "a model has 'hidden_size', an accelerator 'peak', a cluster 'nodes', a run "
            "'global_batch_size'; copy one of configs/");
        return NULL;
    }
    return root->kind == NODE_BROKEN ? NULL : root;
}

struct node *sw_config_parse(struct sw_config *c, struct source *source)
{
    struct parse p = {.c = c, .source = source};
    if (source->bytes >= 3 && memcmp(source->text, "\xef\xbb\xbf", 3) == 0) {
        source->text += 3; /* a byte order mark does not belong to the first line */
        source->bytes -= 3;
    }
    if (sw_config_is_json(source))
        return sw_config_parse_json(c, source);
    if (!sw_config_check_characters(c, source))
        return NULL;
    if (yaml_parser_initialize(&p.yaml) == 0) {
        c->failed = true;
        return NULL;
    }
    yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p.yaml, (const unsigned char *)source->text, source->bytes);
    struct node *root = parse_stream(&p);
    yaml_parser_delete(&p.yaml);
    return root;
}

/* Reads the whole file into the arena. -1 with errno set, EFBIG: too large, ESPIPE: no file. A file
 * that another file names must be a regular one: reading a pipe or a terminal could wait for
 * ever. */
static ssize_t read_file(struct sw_config *c, const char *path, bool regular, struct stat *status,
                         const char **text)
{
    char *buffer;
    size_t bytes;
    if (sw_file_read(path, regular, SW_MAX_FILE_BYTES, &buffer, &bytes, status) != 0) {
        c->failed = c->failed || errno == ENOMEM;
        return -1;
    }
    *text = sw_config_copy(c, buffer, bytes);
    free(buffer);
    return c->failed ? -1 : (ssize_t)bytes;
}

static const char *open_reason(struct sw_config *c, int number)
{
    char buffer[128];
    switch (number) {
    case ENOENT:
        return "no such file";
    case EISDIR:
        return "it is a directory";
    case ESPIPE:
        return "it is not a regular file";
    case EACCES:
        return "permission denied";
    case EFBIG:
        return sw_config_format(c, "larger than %d MiB", SW_MAX_FILE_BYTES >> 20);
    default: {
        const char *text = strerror_r(number, buffer, sizeof buffer);
        return sw_config_format(c, "%c%s", tolower((unsigned char)text[0]),
                                text[0] != 0 ? text + 1 : "");
    }
    }
}

/* "run.yaml -> cluster.yaml -> run.yaml" if the file just opened is already being read; else
 * NULL. */
static const char *find_cycle(struct sw_config *c, const struct source *opened)
{
    const char *chain = opened->file;
    for (const struct source *s = opened->parent; s != NULL; s = s->parent) {
        chain = sw_config_format(c, "%s -> %s", s->file, chain);
        if (s->has_identity && s->device == opened->device && s->inode == opened->inode)
            return chain;
    }
    return NULL;
}

struct node *sw_config_load(struct sw_config *c, const char *path, const struct node *named_by)
{
    struct source *source = sw_config_new_source(c, path, NULL, 0);
    if (source == NULL)
        return NULL;
    struct stat status = {0};
    ssize_t bytes = read_file(c, path, named_by != NULL, &status, &source->text);
    int reason = errno;
    if (bytes < 0) {
        const char *message = sw_config_format(
            c, "cannot open '%s': %s", sw_config_shown_path(c, path), open_reason(c, reason));
        const char *help =
            reason == ENOENT && named_by != NULL ? c->hooks->no_file(named_by) : NULL;
        if (named_by == NULL)
            sw_config_error(c, source, 0, 0, message,
                            reason == ENOENT ? "a path is relative to the working directory"
                                             : "name a YAML file of text that you may read");
        else
            sw_config_error_at(c, named_by, message,
                               help != NULL ? help
                               : named_by->source->is_override
                                   ? "a path after --set is relative to the working directory"
                                   : "a path is relative to the file that names it");
        return NULL;
    }
    source->bytes = (size_t)bytes;
    source->has_identity = true;
    source->device = status.st_dev;
    source->inode = status.st_ino;
    source->parent = named_by != NULL ? named_by->source : NULL;
    const char *chain = find_cycle(c, source);
    if (chain != NULL) {
        sw_config_error_at(
            c, named_by,
            sw_config_format(c, "cyclic reference: %s", sw_config_shown_path(c, chain)),
            "name another file here, or write its keys in place of its name");
        return NULL;
    }
    return sw_config_parse(c, source);
}
