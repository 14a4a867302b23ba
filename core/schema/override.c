/* --set key.path=value: changes the tree before it is described, so that every check still applies.
 */
#include "core/base/text.h"
#include "core/schema/internal.h"

#include <string.h>

/* Puts the content of a node into another, which keeps its key and its neighbours. */
static void replace(struct node *entry, const struct node *content)
{
    const struct node *key = entry->key;
    struct node *next = entry->next;
    *entry = *content;
    entry->key = key;
    entry->next = next;
}

static struct node *make_node(struct sw_config *c, const struct source *source, size_t at,
                              enum node_kind kind)
{
    struct node *node = sw_config_alloc(c, sizeof *node);
    if (node == NULL)
        return NULL;
    node->kind = kind;
    node->plain = true;
    node->source = source;
    node->line = 1;
    node->column = 1;
    for (size_t i = 0; i < at; i++)
        node->column += ((unsigned char)source->text[i] & 0xc0) != 0x80;
    return node;
}

/* The value behind '='. Brackets and quotes are YAML; any other text is taken literally, so that
 * '!1,-1,4,1' needs no second pair of quotes. */
static struct node *parse_value(struct sw_config *c, struct source *source, size_t at)
{
    const char *text = source->text;
    at += strspn(text + at, " ");
    if (text[at] == 0 || strchr("[{\"'", text[at]) == NULL) {
        struct node *node = make_node(c, source, at, NODE_SCALAR);
        size_t length = strlen(text + at);
        while (length > 0 && text[at + length - 1] == ' ')
            length--;
        if (node != NULL)
            node->text = sw_config_copy(c, text + at, length);
        return node;
    }
    /* Blanks in place of the key keep libyaml's columns right. */
    char *blanked = sw_config_alloc(c, source->bytes + 1);
    if (blanked == NULL)
        return NULL;
    size_t characters = 0;
    for (size_t i = 0; i < at; i++)
        characters += ((unsigned char)text[i] & 0xc0) != 0x80;
    memset(blanked, ' ', characters);
    memcpy(blanked + characters, text + at, source->bytes - at);
    size_t bytes = source->bytes;
    source->text = blanked;
    source->bytes = characters + bytes - at;
    struct node *value = sw_config_parse(c, source);
    source->text = text;
    source->bytes = bytes;
    return value;
}

static struct node *add_entry(struct sw_config *c, struct node *map, const struct source *source,
                              size_t at, const char *name)
{
    struct node *key = make_node(c, source, at, NODE_SCALAR);
    struct node *entry = make_node(c, source, at, NODE_MAPPING);
    if (key == NULL || entry == NULL)
        return NULL;
    key->text = name;
    entry->key = key;
    sw_node_append(map, entry);
    return entry;
}

static void unknown_key(struct sw_config *c, const struct source *source, size_t at,
                        const char *name, const struct field *fields)
{
    const struct field *near = sw_field_meant(c, fields, name, NULL);
    const char *list = "known keys: ";
    for (const struct field *f = fields; f->key != NULL; f++)
        if (!f->old)
            list = sw_config_format(c, "%s%s%s", list, f > fields ? ", " : "", f->key);
    const struct node *made = make_node(c, source, at, NODE_SCALAR);
    if (made == NULL)
        return;
    const char *quoted = sw_config_quote(c, name);
    if (near != NULL)
        sw_config_error_at(
            c, made, sw_config_format(c, "unknown key %s; did you mean '%s'?", quoted, near->key),
            NULL);
    else
        sw_config_error_at(c, made, sw_config_format(c, "unknown key %s", quoted), list);
}

/* Makes the entry a mapping that --set can step into; false: impossible, reported. */
static bool open_entry(struct sw_config *c, const struct field *field, struct node *entry,
                       const struct source *source, size_t at)
{
    const enum inside inside = field->type == FIELD_CUSTOM ? field->custom->inside : INSIDE_NOTHING;
    struct node *made = make_node(c, source, at, NODE_MAPPING);
    if (made == NULL || entry->kind == NODE_BROKEN)
        return false;
    if (field->type != FIELD_SECTION && inside == INSIDE_NOTHING) {
        sw_config_error_at(c, made, sw_config_format(c, "'%s' has no keys inside", field->key),
                           sw_config_format(c, "set it as a whole: --set %.*s=...",
                                            (int)(at + strlen(field->key)), source->text));
        return false;
    }
    const bool is_auto = entry->kind == NODE_SCALAR && field->zero_word != NULL &&
                         strcmp(entry->text, field->zero_word) == 0;
    if (is_auto || sw_node_is_null(entry)) {
        replace(entry, made);
    } else if (inside == INSIDE_DESCRIPTION) {
        struct node *root = sw_config_follow(c, field, entry);
        if (root == NULL || root->kind != NODE_MAPPING) {
            entry->kind = NODE_BROKEN;
            return false;
        }
        if (root != entry)
            replace(entry, root);
    }
    return entry->kind ==
           NODE_MAPPING; /* anything else is a wrong type, which describing reports */
}

/* Replaces an entry by the value behind '='. */
static void put_value(struct sw_config *c, struct source *source, size_t at, struct node *entry)
{
    struct node *value = parse_value(c, source, at);
    if (value != NULL)
        replace(entry, value);
    else
        entry->kind = NODE_BROKEN;
}

/* The list item that the path names at `at`; NULL: none, reported. */
static struct node *find_item(struct sw_config *c, const struct field *field, struct node *list,
                              const struct source *source, size_t at, const char *name)
{
    const char *names = "";
    struct node *found = NULL;
    int32_t i = 0;
    for (struct node *item = list->kind == NODE_SEQUENCE ? list->first : NULL; item != NULL;
         item = item->next, i++) {
        const struct node *own = sw_node_find(item, "name");
        const char *text = own != NULL && own->kind == NODE_SCALAR ? own->text : "";
        if (found == NULL && name[0] != '\0' &&
            (strcmp(name, text) == 0 || strcmp(name, sw_config_format(c, "%d", (int)i)) == 0))
            found = item;
        names = sw_config_format(c, "%s%s%s", names, i > 0 ? ", " : "", sw_config_shown(c, text));
    }
    if (found == NULL || found->kind != NODE_MAPPING) {
        const struct node *made = make_node(c, source, at, NODE_SCALAR);
        if (made != NULL)
            sw_config_error_at(
                c, made,
                sw_config_format(c, "'%s' has no %s", field->key, sw_config_quote(c, name)),
                i > 0 ? sw_config_format(c, "it has: %s", names) : sw_config_example(c, field));
        return NULL;
    }
    return found;
}

/* Appends a mapping with a new name to a list. False: it has no name, or the list has that name. */
static bool add_item(struct sw_config *c, struct node *list, struct source *source, size_t at,
                     size_t value_at, const char *name)
{
    if (list->kind != NODE_SEQUENCE || list->last == NULL || source->text[value_at] != '{')
        return false;
    for (const struct node *item = list->first; item != NULL; item = item->next) {
        const struct node *own = sw_node_find(item, "name");
        if (own != NULL && own->kind == NODE_SCALAR && strcmp(own->text, name) == 0)
            return false;
    }
    struct node *item = make_node(c, source, at, NODE_MAPPING);
    if (item == NULL)
        return false;
    put_value(c, source, value_at, item);
    const struct node *own = item->kind == NODE_MAPPING ? sw_node_find(item, "name") : NULL;
    if (own == NULL || own->kind != NODE_SCALAR || strcmp(own->text, name) != 0)
        return false;
    list->last->next = item;
    list->last = item;
    list->count++;
    return true;
}

/* Follows the keys of 'key.path=value' from the root, creating missing ones, and sets the value. */
static void set_at_path(struct sw_config *c, struct node *root, const struct field *fields,
                        const struct field *known, struct source *source)
{
    const char *text = source->text;
    struct node *map = root;
    for (size_t at = 0;;) {
        size_t length = strcspn(text + at, ".=");
        const char *name = sw_config_copy(c, text + at, length);
        const struct field *field = fields != NULL ? sw_field_find(fields, name) : NULL;
        if (length == 0 || (fields != NULL && field == NULL)) {
            unknown_key(c, source, at, name, fields != NULL ? fields : known);
            return;
        }
        struct node *entry = sw_node_find(map, name);
        bool is_new = entry == NULL;
        if (is_new)
            entry = add_entry(c, map, source, at, name);
        if (entry == NULL)
            return;
        if (text[at + length] == '=') {
            put_value(c, source, at + length + 1, entry);
            return;
        }
        const bool items =
            field != NULL && field->type == FIELD_CUSTOM && field->custom->inside == INSIDE_ITEMS;
        if (items && (is_new || entry->kind != NODE_BROKEN)) {
            at += length + 1;
            length = strcspn(text + at, ".=");
            name = sw_config_copy(c, text + at, length);
            if (text[at + length] == '=' && add_item(c, entry, source, at, at + length + 1, name))
                return;
            struct node *item = find_item(c, field, entry, source, at, name);
            if (item == NULL) {
                entry->kind = NODE_BROKEN;
                return;
            }
            if (text[at + length] == '=') {
                put_value(c, source, at + length + 1, item);
                return;
            }
            map = item;
            fields = field->fields;
            at += length + 1;
            continue;
        }
        if (field == NULL || !open_entry(c, field, entry, source, at)) {
            if (field == NULL || is_new)
                entry->kind = NODE_BROKEN;
            if (field == NULL)
                sw_config_error(
                    c, source, 1, entry->column,
                    sw_config_format(c, "%s has no keys inside", sw_config_quote(c, name)),
                    "set it as a whole: --set KEY=VALUE");
            return;
        }
        map = entry;
        fields = field->fields != NULL                         ? field->fields
                 : field->custom->inside == INSIDE_DESCRIPTION ? field->described
                                                               : NULL; /* any name */
        at += length + 1;
    }
}

void sw_config_apply_override(struct sw_config *c, struct node *root, const struct field *fields,
                              const struct field *known, const char *text, int32_t index)
{
    size_t bytes = strlen(text);
    struct source *source = sw_config_new_source(c, "--set", sw_config_copy(c, text, bytes), bytes);
    if (source == NULL || c->failed)
        return;
    source->is_override = true;
    source->index = SW_OVERRIDE_INDEX + index;
    if (!sw_config_check_characters(c, source))
        return;
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || strchr(text, '\n') != NULL) {
        sw_config_error(c, source, 1, 1,
                        sw_config_format(c, "%s is not 'key=value'", sw_config_quote(c, text)),
                        "for example: --set optimizer.learning_rate=1e-4");
        return;
    }
    set_at_path(c, root, fields, known, source);
}
