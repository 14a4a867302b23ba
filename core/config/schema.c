/* JSON Schema (draft 2020-12) from the field tables. */
#include "core/config/internal.h"

#include <string.h>

static void write_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *p = text; *p != 0; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', out);
        fputc(*p, out);
    }
    fputc('"', out);
}

static void write_limits(FILE *out, const struct field *field)
{
    if (field->min == 0 && field->max == 0 && !field->above_min)
        return;
    fprintf(out, ", \"%s\": %.17g, \"maximum\": %.17g",
            field->above_min ? "exclusiveMinimum" : "minimum", field->min, field->max);
}

static void write_words(FILE *out, const char *const *words)
{
    fputs("\"enum\": [", out);
    for (int32_t i = 0; words[i] != NULL; i++) {
        fputs(i > 0 ? ", " : "", out);
        write_json_text(out, words[i]);
    }
    fputc(']', out);
}

static void write_custom(FILE *out, const struct field *field, int32_t indent)
{
    if (field->custom->schema != NULL)
        field->custom->schema(out, field, indent);
    else /* the row holds a whole object: its inside goes here */
        fprintf(out, "%.*s", (int)strlen(field->schema) - 2, field->schema + 1);
}

static void write_type(FILE *out, const struct field *field, int32_t indent)
{
    switch (field->type) {
    case FIELD_INTEGER32:
    case FIELD_INTEGER64:
    case FIELD_UNSIGNED64:
        if (field->zero_word != NULL) {
            fputs("\"anyOf\": [{\"const\": ", out);
            write_json_text(out, field->zero_word);
            fputs("}, {\"type\": \"integer\"", out);
            write_limits(out, field);
            fputs("}]", out);
            break;
        }
        fputs("\"type\": \"integer\"", out);
        if (field->type == FIELD_UNSIGNED64)
            fputs(", \"minimum\": 0", out);
        else
            write_limits(out, field);
        break;
    case FIELD_REAL:
        fputs("\"type\": \"number\"", out);
        write_limits(out, field);
        break;
    case FIELD_BOOL:
        fputs("\"type\": \"boolean\"", out);
        break;
    case FIELD_TEXT:
        /* Names and Slurm's settings may be written as bare numbers. */
        fputs("\"type\": [\"string\", \"number\"]", out);
        break;
    case FIELD_PATH:
        fputs("\"type\": \"string\"", out);
        break;
    case FIELD_WORD:
        write_words(out, field->words);
        break;
    case FIELD_BYTES:
    case FIELD_BANDWIDTH:
    case FIELD_SECONDS:
    case FIELD_FLOPS:
        fputs("\"anyOf\": [{\"type\": \"number\"}, {\"type\": \"string\", \"pattern\": "
              "\"^[-+]?[0-9.]+([eE][-+]?[0-9]+)?[ ]*[^ ]*$\"}]",
              out);
        break;
    case FIELD_SECTION:
        /* The braces of write_object would nest: refer to an object in allOf. */
        fputs("\"allOf\": [", out);
        sw_config_schema_object(out, false, field->fields, indent + 2);
        fputc(']', out);
        break;
    case FIELD_CUSTOM:
        write_custom(out, field, indent);
        break;
    }
}

/* A default that is a number or a truth stands bare, a text in quotes. */
static void write_default(FILE *out, const struct field *field)
{
    double number;
    if (field->fallback == NULL)
        return;
    fputs(", \"default\": ", out);
    if (sw_number_parse(field->fallback, &number) || field->type == FIELD_BOOL)
        fputs(field->fallback, out);
    else
        write_json_text(out, field->fallback);
}

void sw_config_schema_object(FILE *out, bool open_ended, const struct field *fields, int32_t indent)
{
    fprintf(out, "{\n%*s\"type\": \"object\",\n%*s\"properties\": {", (int)indent + 2, "",
            (int)indent + 2, "");
    for (const struct field *field = fields; field->key != NULL; field++) {
        fprintf(out, "%s\n%*s", field > fields ? "," : "", (int)indent + 4, "");
        write_json_text(out, field->key);
        fputs(": {", out);
        /* A config.json says null for what is not set. */
        const bool null = open_ended && !field->required && field->type != FIELD_CUSTOM;
        fputs(null ? "\"anyOf\": [{\"type\": \"null\"}, {" : "", out);
        write_type(out, field, indent + 4);
        fputs(null ? "}]" : "", out);
        write_default(out, field);
        fputs(", \"description\": ", out);
        write_json_text(out, field->about);
        fputc('}', out);
    }
    fprintf(out, "\n%*s},\n%*s\"required\": [", (int)indent + 2, "", (int)indent + 2, "");
    bool first = true;
    for (const struct field *field = fields; field->key != NULL; field++) {
        if (!field->required)
            continue;
        fputs(first ? "" : ", ", out);
        write_json_text(out, field->key);
        first = false;
    }
    /* A config.json from a hub has keys that no table can foresee. */
    fprintf(out, "],\n%*s\"additionalProperties\": %s\n%*s}", (int)indent + 2, "",
            open_ended ? "true" : "false", (int)indent, "");
}

void sw_config_schema(FILE *out, enum sw_config_kind kind)
{
    const struct field *fields = sw_config_fields(kind);
    const char *name = sw_config_kind_name(kind);
    fprintf(out,
            "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
            "  \"title\": \"Shardwright %s\",\n  \"allOf\": [",
            name);
    sw_config_schema_object(out, kind == SW_CONFIG_MODEL, fields, 2);
    fputs("]\n}\n", out);
}
