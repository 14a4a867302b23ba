#include "core/config/site.h"

#include "core/base/file.h"
#include "core/config/internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* An item of the list. */
struct item {
    const char *warn_if, *note_if, *say;
    struct sw_place warn_at, note_at;
};

static bool is_line(const char *text)
{
    return text[0] != '\0' && strpbrk(text, "\n\r") == NULL && strlen(text) <= 400;
}

#define TEXT(member, word, where, sample, what)                                                    \
    {                                                                                              \
        .key = (word), .type = FIELD_TEXT, .offset = offsetof(struct item, member),                \
        .place = (where), .accept = is_line, .expects = "one line of at most 400 characters",      \
        .example = (sample), .about = (what)                                                       \
    }
static const struct field item_fields[] = {
    TEXT(warn_if, "warn_if", offsetof(struct item, warn_at), "'accelerator_hours > 10000'",
         "condition, as of plan diff --fail-if, under which the sentence is a warning"),
    TEXT(note_if, "note_if", offsetof(struct item, note_at), "'partition == debug'",
         "the same, and the sentence is a note; one of the two"),
    TEXT(say, "say", 0, "'runs above 10,000 GPU-hours need an allocation'",
         "sentence that plan says where the condition holds"),
    {.key = NULL}};

/* One item; false: reported. */
static bool read_item(struct sw_config *c, struct node *value, struct sw_site_rule *out)
{
    struct item item = {.warn_if = NULL};
    const int32_t errors = c->error_count, stored = c->stored_count;
    if (value->kind != NODE_MAPPING) {
        if (value->kind != NODE_BROKEN)
            sw_config_error_at(c, value,
                               sw_config_format(c, "expected a condition and its sentence, not %s",
                                                sw_node_describe(c, value)),
                               "write it as in - {warn_if: 'nodes > 64', say: 'ask us first'}");
        return false;
    }
    sw_config_read_section(c, value, item_fields, &item, UNKNOWN_ERROR);
    if (c->error_count != errors || c->stored_count != stored)
        return false;
    if ((item.warn_if == NULL) == (item.note_if == NULL) || item.say == NULL) {
        sw_config_error_at(c, value,
                           item.say == NULL       ? "a condition without a sentence"
                           : item.warn_if == NULL ? "a sentence without a condition"
                                                  : "two conditions for one sentence",
                           "write 'warn_if' or 'note_if', and 'say'");
        return false;
    }
    const char *key = item.warn_if != NULL ? "warn_if" : "note_if";
    const struct node *condition = sw_node_find(value, key);
    *out = (struct sw_site_rule){.condition = item.warn_if != NULL ? item.warn_if : item.note_if,
                                 .say = item.say,
                                 .at = item.warn_if != NULL ? item.warn_at : item.note_at,
                                 .warns = item.warn_if != NULL};
    out->at.column += condition != NULL && !condition->plain;
    return true;
}

static void read_list(struct sw_config *c, const struct node *root, struct sw_site *out)
{
    if (root->kind != NODE_SEQUENCE) {
        if (root->kind != NODE_BROKEN)
            sw_config_error_at(c, root,
                               sw_config_format(c, "expected a list of conditions, not %s",
                                                sw_node_describe(c, root)),
                               "write it as in - {warn_if: 'nodes > 64', say: 'ask us first'}");
        return;
    }
    struct sw_site_rule *rule = sw_config_alloc(c, ((size_t)root->count + 1) * sizeof *rule);
    out->rule = rule;
    for (struct node *value = root->first; value != NULL && rule != NULL; value = value->next)
        if (read_item(c, value, &rule[out->count]))
            out->count++;
}

/* Returns the first mistake as an error. */
static int fail_first(const struct sw_config *c, struct sw_error *err)
{
    for (int32_t i = 0; i < c->diagnostic_count; i++) {
        const struct sw_diagnostic *d = &c->diagnostics[i];
        if (!d->is_note)
            return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){d->file, d->line, d->column},
                              "%s%s%s", d->message, d->help != NULL ? "; " : "",
                              d->help != NULL ? d->help : "");
    }
    return sw_fail(err, SW_BAD_INPUT, "the site's file cannot be read");
}

/* True if a file has only comments, and so no conditions. */
static bool is_blank(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    if (sw_file_read(path, false, SW_MAX_FILE_BYTES, &text, &bytes, NULL) != 0)
        return false;
    const char *p = text;
    for (p += strspn(p, " \t\r\n"); *p == '#'; p += strspn(p, " \t\r\n"))
        p += strcspn(p, "\n");
    const bool blank = p == text + bytes;
    free(text);
    return blank;
}

int sw_site_read(const char *path, const struct sw_launchers *launchers, struct sw_site *out,
                 struct sw_error *err)
{
    struct sw_config *c = sw_config_begin(SW_CONFIG_UNKNOWN, launchers, err);
    *out = (struct sw_site){.config = NULL};
    if (c == NULL)
        return -1;
    const struct node *root = is_blank(path) ? NULL : sw_config_load(c, path, NULL);
    if (root != NULL)
        read_list(c, root, out);
    out->config = sw_config_end(c, err);
    if (out->config == NULL)
        return -1;
    return out->config->error_count > 0 ? fail_first(out->config, err) : 0;
}

void sw_site_free(struct sw_site *site)
{
    sw_config_free(site->config);
    *site = (struct sw_site){.config = NULL};
}

void sw_site_schema(FILE *out)
{
    struct sw_json json = {.out = out, .style = SW_JSON_SPACES}, *j = &json;
    sw_json_object(j, NULL);
    sw_json_text(j, "$schema", "https://json-schema.org/draft/2020-12/schema");
    sw_json_text(j, "title", "Shardwright site");
    sw_json_text(j, "type", "array");
    sw_config_schema_object(j, "items", false, item_fields);
    sw_json_end(j);
    fputc('\n', out);
}
