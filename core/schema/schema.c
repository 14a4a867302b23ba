/* JSON Schema (draft 2020-12) from the field tables. */
#include "core/base/json.h"
#include "core/schema/internal.h"

#include <string.h>

static void write_limits(struct sw_json *j, const struct field *field)
{
    if (field->min == 0 && field->max == 0 && !field->above_min)
        return;
    sw_json_digits(j, field->above_min ? "exclusiveMinimum" : "minimum", field->min, 17);
    sw_json_digits(j, "maximum", field->max, 17);
}

/* Writes one of several: {key: value}; pattern of a text (NULL: any). */
static void write_choice(struct sw_json *j, const char *key, const char *value, const char *pattern)
{
    sw_json_inline(j, NULL);
    sw_json_text(j, key, value);
    if (pattern != NULL)
        sw_json_text(j, "pattern", pattern);
    sw_json_end(j);
}

static void write_integer(struct sw_json *j, const struct field *field)
{
    const bool words = field->zero_word != NULL || field->words != NULL;
    if (words) {
        sw_json_array(j, "anyOf");
        if (field->zero_word != NULL)
            write_choice(j, "const", field->zero_word, NULL);
        for (int32_t i = 0; field->words != NULL && field->words[i] != NULL; i++)
            write_choice(j, "const", field->words[i], NULL);
        sw_json_inline(j, NULL);
    }
    sw_json_text(j, "type", "integer");
    if (field->type == FIELD_UNSIGNED64 && !words)
        sw_json_integer(j, "minimum", 0);
    else
        write_limits(j, field);
    if (words) {
        sw_json_end(j);
        sw_json_end(j);
    }
}

static void write_words(struct sw_json *j, const struct field *field)
{
    const char *word;
    sw_json_array(j, "enum");
    for (int32_t i = 0, value; (word = sw_field_word(field, i, &value)) != NULL; i++) {
        /* words that YAML reads as booleans */
        if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0)
            sw_json_raw(j, NULL, word, strlen(word));
        else
            sw_json_text(j, NULL, word);
    }
    sw_json_end(j);
}

void sw_config_schema_texts(struct sw_json *j)
{
    static const char schema[] =
        "\"anyOf\": [{\"type\": [\"string\", \"number\"]}, {\"type\": \"array\", \"items\": "
        "{\"type\": [\"string\", \"number\"]}}]";
    sw_json_raw(j, NULL, schema, sizeof schema - 1);
}

static void write_type(struct sw_json *j, const struct field *field)
{
    switch (field->type) {
    case FIELD_INTEGER32:
    case FIELD_INTEGER64:
    case FIELD_UNSIGNED64:
        write_integer(j, field);
        break;
    case FIELD_REAL:
        sw_json_text(j, "type", "number");
        write_limits(j, field);
        break;
    case FIELD_BOOL:
        sw_json_text(j, "type", "boolean");
        break;
    case FIELD_TEXT:
        if (field->commas) {
            sw_config_schema_texts(j);
            break;
        }
        /* Names and settings may be written as bare numbers. */
        sw_json_array(j, "type");
        sw_json_text(j, NULL, "string");
        sw_json_text(j, NULL, "number");
        sw_json_end(j);
        break;
    case FIELD_PATH:
        sw_json_text(j, "type", "string");
        break;
    case FIELD_WORD:
        write_words(j, field);
        break;
    case FIELD_BYTES:
    case FIELD_BANDWIDTH:
    case FIELD_SECONDS:
    case FIELD_FLOPS:
    case FIELD_DURATION:
    case FIELD_POWER:
    case FIELD_SHARE:
        sw_json_array(j, "anyOf");
        write_choice(j, "type", "number", NULL);
        write_choice(j, "type", "string", "^[-+]?[0-9.]+([eE][-+]?[0-9]+)?[ ]*[^ ]*$");
        sw_json_end(j);
        break;
    case FIELD_SECTION:
        /* an object inside this one's braces: refer to it in allOf */
        sw_json_array(j, "allOf");
        sw_config_schema_object(j, NULL, false, field->fields);
        sw_json_end(j);
        break;
    case FIELD_SETTINGS: /* replaced by sections */
        break;
    case FIELD_CUSTOM:
        if (field->custom->schema != NULL)
            field->custom->schema(j, field);
        else /* the row has a whole object: its contents go here */
            sw_json_raw(j, NULL, field->schema + 1, strlen(field->schema) - 2);
        break;
    }
}

/* Writes a default: a number or a boolean bare, a text in quotes. */
static void write_default(struct sw_json *j, const struct field *field)
{
    double number;
    if (field->fallback == NULL)
        return;
    if (sw_number_parse(field->fallback, &number) || field->type == FIELD_BOOL)
        sw_json_raw(j, "default", field->fallback, strlen(field->fallback));
    else
        sw_json_text(j, "default", field->fallback);
}

void sw_config_schema_object(struct sw_json *j, const char *key, bool open_ended,
                             const struct field *fields)
{
    sw_json_object(j, key);
    sw_json_text(j, "type", "object");
    sw_json_object(j, "properties");
    for (const struct field *field = fields; field->key != NULL; field++) {
        if (field->old)
            continue;
        sw_json_inline(j, field->key);
        /* A config.json has null for unset keys. */
        const bool null = open_ended && !field->required && field->type != FIELD_CUSTOM;
        if (null) {
            sw_json_array(j, "anyOf");
            write_choice(j, "type", "null", NULL);
            sw_json_inline(j, NULL);
        }
        write_type(j, field);
        if (null) {
            sw_json_end(j);
            sw_json_end(j);
        }
        write_default(j, field);
        sw_json_text(j, "description", field->about);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_array(j, "required");
    for (const struct field *field = fields; field->key != NULL; field++)
        if (field->required)
            sw_json_text(j, NULL, field->key);
    sw_json_end(j);
    /* A config.json from a hub has keys that no table can foresee. */
    sw_json_bool(j, "additionalProperties", open_ended);
    sw_json_end(j);
}
