/* Values of launchers' settings that are no scalars: lists of texts, lines of the shell, variables,
 * and the fabric, which is a file of its own. */
#include "core/base/shell.h"
#include "core/config/internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 256 };

static bool refuse(struct sw_config *c, const struct node *at, const char *message,
                   const char *help)
{
    if (at->kind != NODE_BROKEN)
        sw_config_error_at(c, at, message, help);
    return false;
}

/* ---- Lists of texts ---- */

/* Makes room for the items of a list, or for one; NULL: reported. */
static const char **make_items(struct sw_config *c, const struct field *field,
                               const struct node *value, int32_t count)
{
    if (count > MAX_ITEMS) {
        refuse(c, value,
               sw_config_format(c, "'%s' has %d items; at most %d are allowed", field->key,
                                (int)count, MAX_ITEMS),
               "combine some of them");
        return NULL;
    }
    return sw_config_alloc(c, sizeof(char *) * ((size_t)count + 1));
}

static bool read_item(struct sw_config *c, const struct field *field, const struct node *item,
                      const char **out)
{
    if (item->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, item, "a list of strings");
    if (!field->accept(item->text))
        return sw_config_wrong_text(c, field, item);
    *out = item->text;
    return true;
}

static bool read_texts(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_texts texts = {0};
    const bool list = value->kind == NODE_SEQUENCE;
    if (!list && value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, "a list of strings");
    const char **item = make_items(c, field, value, list ? value->count : 1);
    bool good = item != NULL;
    for (const struct node *node = list ? value->first : value; item != NULL && node != NULL;
         node = list ? node->next : NULL)
        good = read_item(c, field, node, &item[texts.count++]) && good;
    texts.item = item;
    if (good)
        memcpy((char *)base + field->offset, &texts, sizeof texts);
    return good;
}

static bool no_texts(const void *at)
{
    struct sw_texts texts;
    memcpy(&texts, at, sizeof texts);
    return texts.count == 0;
}

static void write_texts(struct writer *w, const struct field *field, const void *base)
{
    struct sw_texts texts;
    char *text = NULL;
    size_t bytes = 0;
    memcpy(&texts, (const char *)base + field->offset, sizeof texts);
    FILE *out = texts.count > 0 ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL)
        return;
    for (int32_t i = 0; i < texts.count; i++) {
        fputs(i == 0 ? "[" : ", ", out);
        sw_config_write_text(out, texts.item[i]);
    }
    fputs("]", out);
    if (fclose(out) == 0)
        w->value(w, field->key, text, STYLE_BARE);
    free(text);
}

static void schema_texts(struct sw_json *j, const struct field *field)
{
    (void)field;
    sw_config_schema_texts(j);
}

const struct field_type sw_type_texts = {read_texts, write_texts, schema_texts, INSIDE_NOTHING,
                                         no_texts};

/* Lines of the shell, a list or a text of several; the same or a later line must close every quote
 * and block. */
static bool read_lines(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    struct sw_texts texts = {0};
    const bool list = value->kind == NODE_SEQUENCE;
    const char *whole = "";
    if (!list && value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, "a string or a list of lines");
    int32_t count = 0;
    for (const struct node *node = list ? value->first : value; node != NULL;
         node = list ? node->next : NULL) {
        if (node->kind != NODE_SCALAR)
            return sw_config_wrong_type(c, field, node, "a list of lines");
        count++;
        for (const char *p = node->text; *p != '\0'; p++)
            count += *p == '\n';
    }
    const char **item = make_items(c, field, value, count);
    bool good = item != NULL;
    for (const struct node *node = list ? value->first : value; item != NULL && node != NULL;
         node = list ? node->next : NULL)
        for (const char *p = node->text; *p != '\0';) {
            const size_t length = strcspn(p, "\n");
            const char *line = sw_config_copy(c, p, length);
            const char *shown = line + strspn(line, "\t");
            if (!sw_text_is_value(shown))
                good = refuse(c, node,
                              sw_config_format(c, "'%s' must be %s, not %s", field->key,
                                               field->expects, sw_config_quote(c, line)),
                              sw_config_example(c, field));
            item[texts.count++] = line;
            whole = sw_config_format(c, "%s%s%s", whole, whole[0] != '\0' ? "\n" : "", line);
            p += length + (p[length] == '\n');
        }
    texts.item = item;
    const enum sw_shell_context open = good ? sw_shell_leaves_open(whole) : SW_SHELL_WORD;
    if (open != SW_SHELL_WORD)
        good = refuse(c, value,
                      sw_config_format(c, "'%s' ends inside %s, which would continue in the script",
                                       field->key, sw_shell_context_name(open)),
                      "close what is open");
    if (good)
        memcpy((char *)base + field->offset, &texts, sizeof texts);
    return good;
}

const struct field_type sw_type_lines = {read_lines, write_texts, schema_texts, INSIDE_NOTHING,
                                         no_texts};

/* ---- The environment ---- */

/* Reason why a variable is reserved, and help; NULL: it may be set. */
static const char *variable_is_taken(const struct sw_config *c, const char *name, const char **help)
{
    static const char *const shell[] = {"BASHOPTS",  "BASH_VERSINFO", "EUID",     "PPID",
                                        "SHELLOPTS", "UID",           "BASH_ENV", "ENV",
                                        "IFS",       "PS4",           "_"};
    *help = "set another one";
    for (int32_t i = 0; c->keys->launchers != NULL && c->keys->launchers->row[i] != NULL; i++) {
        const struct sw_launcher *row = c->keys->launchers->row[i];
        const char *why = row->variable_is_taken != NULL ? row->variable_is_taken(name) : NULL;
        if (row->variable_help != NULL)
            *help = row->variable_help;
        if (why != NULL)
            return why;
    }
    for (size_t i = 0; i < sizeof shell / sizeof *shell; i++)
        if (strcmp(name, shell[i]) == 0)
            return "belongs to the shell";
    return NULL;
}

/* Replaces the variable of that name, or appends it; value NULL removes it. */
static void put_variable(struct sw_variable *item, int32_t *count, const char *name,
                         const char *value)
{
    int32_t i = 0;
    while (i < *count && strcmp(item[i].name, name) != 0)
        i++;
    if (value != NULL) {
        item[i] = (struct sw_variable){name, value};
        *count += i == *count;
    } else if (i < *count) {
        memmove(&item[i], &item[i + 1], sizeof *item * (size_t)(*count - i - 1));
        --*count;
    }
}

static bool read_variable(struct sw_config *c, const struct field *field, const struct node *value)
{
    const char *name = value->key->text;
    if (value->key->kind == NODE_BROKEN || value->kind == NODE_BROKEN)
        return false;
    if (!sw_text_is_variable(name))
        return refuse(
            c, value->key,
            sw_config_format(c, "%s is not the name of a variable", sw_config_quote(c, name)),
            "letters, digits and _, no digit first");
    const char *help, *taken = variable_is_taken(c, name, &help);
    if (taken != NULL)
        return refuse(c, value->key, sw_config_format(c, "the variable '%s' %s", name, taken),
                      help);
    if (value->kind != NODE_SCALAR || !sw_text_is_value(value->text))
        return refuse(c, value,
                      sw_config_format(c,
                                       "'%s' must be one line of text without hidden "
                                       "characters, not %s",
                                       name, sw_node_describe(c, value)),
                      sw_config_example(c, field));
    for (const char *p = strchr(value->text, '$'); p != NULL && c->keys->kind != SW_CONFIG_PLAN;
         p = strchr(p + 1, '$'))
        if ((p[1] == '{' || p[1] == '(') && sw_shell_variable_length(p) == 0)
            return refuse(c, value,
                          sw_config_format(c, "'%s' has '$%c': only $NAME and ${NAME} are expanded",
                                           name, p[1]),
                          "set it in a line of setup: 'export NAME=...'");
    return true;
}

static bool read_environment(struct sw_config *c, const struct field *field, struct node *value,
                             void *base)
{
    struct sw_environment before;
    memcpy(&before, (const char *)base + field->offset, sizeof before);
    if (value->kind != NODE_MAPPING)
        return sw_config_wrong_type(c, field, value, "a mapping");
    if (value->count + before.count > MAX_ITEMS)
        return refuse(c, value,
                      sw_config_format(c, "'%s' has %d variables; at most %d are allowed",
                                       field->key, (int)(value->count + before.count), MAX_ITEMS),
                      "set the others in a line of setup");
    struct sw_variable *item =
        sw_config_alloc(c, sizeof *item * (size_t)(value->count + before.count + 1));
    if (item == NULL)
        return false;
    if (before.count > 0)
        memcpy(item, before.item, sizeof *item * (size_t)before.count);
    int32_t count = before.count;
    bool good = true;
    for (const struct node *entry = value->first; entry != NULL; entry = entry->next) {
        const bool fine = read_variable(c, field, entry);
        good = good && fine;
        if (fine)
            put_variable(item, &count, entry->key->text,
                         sw_node_is_null(entry) ? NULL : entry->text);
    }
    const struct sw_environment after = {item, count};
    memcpy((char *)base + field->offset, &after, sizeof after);
    return good;
}

static bool no_variables(const void *at)
{
    struct sw_environment environment;
    memcpy(&environment, at, sizeof environment);
    return environment.count == 0;
}

static void write_environment(struct writer *w, const struct field *field, const void *base)
{
    struct sw_environment environment;
    memcpy(&environment, (const char *)base + field->offset, sizeof environment);
    if (environment.count == 0) {
        if (field->required)
            w->value(w, field->key, "{}", STYLE_BARE);
        return;
    }
    w->open(w, field->key);
    for (int32_t i = 0; i < environment.count; i++)
        w->value(w, environment.item[i].name, environment.item[i].value, STYLE_TEXT);
    w->close(w);
}

static void schema_environment(struct sw_json *j, const struct field *field)
{
    static const char schema[] = "\"type\": \"object\", \"additionalProperties\": {\"type\": "
                                 "[\"string\", \"number\", \"null\"]}";
    (void)field;
    sw_json_raw(j, NULL, schema, sizeof schema - 1);
}

const struct field_type sw_type_environment = {read_environment, write_environment,
                                               schema_environment, INSIDE_ANY_KEY, no_variables};

/* ---- The fabric ---- */

#define AT(member) .offset = offsetof(struct sw_fabric_config, member)
const struct field sw_fabric_fields[] = {
    {.key = "name",
     .type = FIELD_TEXT,
     AT(name),
     .accept = sw_text_is_name,
     .expects = SW_NAME_EXPECTS,
     .example = "infiniband",
     .about = "name of the fabric, for the comment in the script; default: the file's"},
    {.key = "environment",
     .type = FIELD_CUSTOM,
     AT(environment),
     .required = true,
     .custom = &sw_type_environment,
     .expects = "mapping of variables to texts",
     .example = "{NCCL_SOCKET_IFNAME: '=ib0'}",
     .about = "variables that its libraries want"},
    {.key = "source",
     .type = FIELD_TEXT,
     .offset = FIELD_NOWHERE,
     .example = "'NCCL user guide 2.23'",
     .about = "where they come from"},
    {.key = NULL},
};
#undef AT

bool sw_config_describe_fabric(struct sw_config *c, struct node *root, struct sw_fabric_config *out)
{
    if (root->kind != NODE_MAPPING) {
        if (root->kind != NODE_BROKEN)
            sw_config_error_at(
                c, root,
                sw_config_format(c, "the description of a fabric must be a mapping, not %s",
                                 sw_node_describe(c, root)),
                "write 'environment: {NCCL_SOCKET_IFNAME: eth0}'");
        return false;
    }
    *out = (struct sw_fabric_config){.path = root->source->file};
    if (sw_config_read_section(c, root, sw_fabric_fields, out, UNKNOWN_ERROR).bad != 0)
        return false;
    if (out->name == NULL)
        out->name = "fabric";
    return true;
}

static bool read_fabric(struct sw_config *c, const struct field *field, struct node *value,
                        void *base)
{
    struct node *root = sw_config_follow(c, field, value);
    return root != NULL && c->hooks->is_kind(c, root, value, SW_CONFIG_FABRIC) &&
           sw_config_describe_fabric(
               c, root, (struct sw_fabric_config *)(void *)((char *)base + field->offset));
}

static bool no_fabric(const void *at)
{
    struct sw_fabric_config fabric;
    memcpy(&fabric, at, sizeof fabric);
    return fabric.name == NULL;
}

static void write_fabric(struct writer *w, const struct field *field, const void *base)
{
    const void *at = (const char *)base + field->offset;
    if (no_fabric(at))
        return;
    w->open(w, field->key);
    sw_config_write_fields(w, sw_fabric_fields, at);
    w->close(w);
}

static void schema_fabric(struct sw_json *j, const struct field *field)
{
    (void)field;
    sw_json_array(j, "anyOf");
    sw_json_inline(j, NULL);
    sw_json_text(j, "type", "string");
    sw_json_end(j);
    sw_config_schema_object(j, NULL, false, sw_fabric_fields);
    sw_json_end(j);
}

const struct field_type sw_type_fabric = {read_fabric, write_fabric, schema_fabric,
                                          INSIDE_DESCRIPTION, no_fabric};
