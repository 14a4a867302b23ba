/* `recompute`: a word, or values of a layer and the number of first layers that recompute them. */
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char values_help[] = "recompute: {values: [n1, n2, h], layers: 8}";

/* True for old words that stand for a set. */
static bool is_before_attention(const char *text)
{
    return strcmp(text, "before_attention") == 0 || strcmp(text, "attention") == 0;
}

static bool read_word(struct sw_config *c, const struct field *field, const struct node *value,
                      bool *automatic, struct sw_recompute_config *out)
{
    static const char *const words[] = {"none", "full", "auto"};
    const int32_t count = automatic != NULL ? 3 : 2;
    const bool none = strcmp(value->text, words[0]) == 0, full = strcmp(value->text, words[1]) == 0;
    const bool chosen = automatic != NULL && strcmp(value->text, words[2]) == 0;
    if (automatic != NULL)
        *automatic = chosen;
    if (none || full || chosen) {
        *out = full ? (struct sw_recompute_config){.values.all = true, .layers = SW_ALL_LAYERS}
                    : (struct sw_recompute_config){0};
        return true;
    }
    if (is_before_attention(value->text)) {
        *out = (struct sw_recompute_config){.layers = SW_ALL_LAYERS, .before_attention = true};
        sw_config_note_at(c, value,
                          sw_config_format(c,
                                           "'%s: %s' is an old name for the values before "
                                           "attention; write the values that 'plan search' prints",
                                           field->key, value->text));
        return true;
    }
    const char *near = sw_text_nearest(value->text, words, count);
    int32_t distance;
    /* other software's word for some of the values: auto recomputes as little as fits */
    if (near == NULL && automatic != NULL && sw_text_is_near(value->text, "selective", &distance))
        near = words[2];
    sw_config_error_at(c, value,
                       sw_config_format(c,
                                        "'%s' must be none, full%s or {values: [...], layers: "
                                        "...}, not %s%s%s%s",
                                        field->key, automatic != NULL ? ", auto" : "",
                                        sw_config_quote(c, value->text),
                                        near != NULL ? "; did you mean '" : "",
                                        near != NULL ? near : "", near != NULL ? "'?" : ""),
                       near == NULL ? sw_config_example(c, field) : NULL);
    return false;
}

static bool read_name(struct sw_config *c, const struct field *field, const struct node *item,
                      struct sw_name_config *out)
{
    if (item->kind == NODE_SCALAR) {
        *out = (struct sw_name_config){item->text, {item->source->file, item->line, item->column}};
        return true;
    }
    if (item->kind != NODE_BROKEN)
        sw_config_error_at(c, item,
                           sw_config_format(c, "a value of a layer must be a name, not %s",
                                            sw_node_describe(c, item)),
                           sw_config_example(c, field));
    return false;
}

static bool read_values(struct sw_config *c, const struct field *field, const struct node *list,
                        struct sw_values_config *out)
{
    bool good = true;
    int32_t count = 0;
    *out = (struct sw_values_config){.all = true};
    if (list->kind == NODE_SCALAR && strcmp(list->text, "all") == 0)
        return true;
    if (list->kind != NODE_SEQUENCE)
        return sw_config_wrong_type(c, field, list, "'all' or a list of values");
    for (const struct node *item = list->first; item != NULL; item = item->next)
        count++;
    struct sw_name_config *of = sw_config_alloc(c, (size_t)count * sizeof *of);
    if (of == NULL)
        return false;
    *out = (struct sw_values_config){.of = of};
    for (const struct node *item = list->first; item != NULL; item = item->next)
        good = read_name(c, field, item, &of[out->count++]) && good;
    return good;
}

static bool read_layers(struct sw_config *c, const struct field *field, const struct node *value,
                        int32_t *layers)
{
    double number;
    if (value->kind == NODE_SCALAR && strcmp(value->text, "all") == 0)
        return true;
    if (value->kind != NODE_SCALAR || !value->plain || !sw_number_parse(value->text, &number) ||
        number < 1 || number > 1 << 30 || number != (double)(int32_t)number)
        return sw_config_wrong_type(c, field, value, "'all' or a number of layers, at least 1");
    *layers = (int32_t)number;
    return true;
}

static const struct field inside[] = {{.key = "values", .example = "[n1, n2, h]"},
                                      {.key = "layers", .example = "8"},
                                      {.key = "rest", .example = "[n1]"}};

static bool read_mapping(struct sw_config *c, const struct node *map,
                         struct sw_recompute_config *out)
{
    bool good = true;
    *out = (struct sw_recompute_config){.values.all = true, .layers = SW_ALL_LAYERS};
    for (struct node *item = map->first; item != NULL; item = item->next) {
        if (item->key->kind == NODE_BROKEN || item->kind == NODE_BROKEN) {
            good = false;
        } else if (strcmp(item->key->text, "values") == 0) {
            good = read_values(c, &inside[0], item, &out->values) && good;
        } else if (strcmp(item->key->text, "layers") == 0) {
            good = read_layers(c, &inside[1], item, &out->layers) && good;
        } else if (strcmp(item->key->text, "rest") == 0) {
            good = read_values(c, &inside[2], item, &out->rest) && good;
        } else {
            sw_config_error_at(
                c, item->key,
                sw_config_format(c, "unknown key %s", sw_config_quote(c, item->key->text)),
                values_help);
            good = false;
        }
    }
    return good;
}

static bool read(struct sw_config *c, const struct field *field, const struct node *value,
                 bool *automatic, struct sw_recompute_config *out)
{
    if (value->kind == NODE_SCALAR)
        return read_word(c, field, value, automatic, out);
    if (automatic != NULL)
        *automatic = false;
    if (value->kind == NODE_MAPPING)
        return read_mapping(c, value, out);
    return sw_config_wrong_type(c, field, value, "a word or a mapping");
}

static bool read_of_run(struct sw_config *c, const struct field *field, struct node *value,
                        void *base)
{
    struct sw_run_config *run = base;
    return read(c, field, value, &run->recompute_auto, &run->recompute);
}

static bool read_of_plan(struct sw_config *c, const struct field *field, struct node *value,
                         void *base)
{
    struct sw_plan_config *plan = base;
    return read(c, field, value, NULL, &plan->recompute);
}

/* Characters of values' names: nothing else is written without quotes. */
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_+"

static void write_values(FILE *out, const char *key, const struct sw_values_config *values)
{
    fprintf(out, "%s: %s", key, values->all ? "all" : "[");
    for (int32_t i = 0; i < values->count; i++) {
        const char *name = values->of[i].name;
        fputs(i > 0 ? ", " : "", out);
        if (name[0] != '\0' && name[strspn(name, NAME_CHARACTERS)] == '\0')
            fputs(name, out);
        else
            sw_config_write_text(out, name);
    }
    fputs(values->all ? "" : "]", out);
}

static bool has_values(const struct sw_values_config *values)
{
    return values->all || values->count > 0;
}

/* The word for it, NULL: none. */
static const char *word_of(const struct sw_recompute_config *r)
{
    if (r->before_attention)
        return "before_attention";
    if (has_values(&r->rest))
        return NULL;
    if (r->layers == 0)
        return "none";
    return r->values.all && r->layers == SW_ALL_LAYERS ? "full" : NULL;
}

static void write(struct writer *w, const struct field *field, const struct sw_recompute_config *r)
{
    char *text = NULL;
    size_t bytes = 0;
    const char *word = word_of(r);
    FILE *memory = word == NULL ? open_memstream(&text, &bytes) : NULL;
    if (word != NULL)
        w->value(w, field->key, word, STYLE_BARE);
    if (memory == NULL)
        return;
    write_values(memory, "{values", &r->values);
    if (r->layers == SW_ALL_LAYERS)
        fputs(", layers: all", memory);
    else
        fprintf(memory, ", layers: %d", (int)r->layers);
    if (has_values(&r->rest))
        write_values(memory, ", rest", &r->rest);
    fputc('}', memory);
    if (fclose(memory) == 0)
        w->value(w, field->key, text, STYLE_BARE);
    free(text);
}

static void write_of_run(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_run_config *run = base;
    if (run->recompute_auto)
        w->value(w, field->key, "auto", STYLE_BARE);
    else
        write(w, field, &run->recompute);
}

static void write_of_plan(struct writer *w, const struct field *field, const void *base)
{
    const struct sw_plan_config *plan = base;
    write(w, field, &plan->recompute);
}

static void schema_choice(struct sw_json *j, const char *word, const char *const words[])
{
    sw_json_array(j, "anyOf");
    sw_json_inline(j, NULL);
    sw_json_array(j, "enum");
    for (; *words != NULL; words++)
        sw_json_text(j, NULL, *words);
    sw_json_end(j);
    sw_json_end(j);
    sw_json_inline(j, NULL);
    sw_json_text(j, "type", word);
}

static void schema_values(struct sw_json *j, const char *key)
{
    static const char *const all[] = {"all", NULL};
    sw_json_inline(j, key);
    schema_choice(j, "array", all);
    sw_json_inline(j, "items");
    sw_json_text(j, "type", "string");
    sw_json_end(j);
    sw_json_end(j);
    sw_json_end(j);
    sw_json_end(j);
}

static void schema(struct sw_json *j, const char *const words[])
{
    static const char *const all[] = {"all", NULL};
    schema_choice(j, "object", words);
    sw_json_object(j, "properties");
    schema_values(j, "values");
    sw_json_inline(j, "layers");
    schema_choice(j, "integer", all);
    sw_json_integer(j, "minimum", 1);
    sw_json_end(j);
    sw_json_end(j);
    sw_json_end(j);
    schema_values(j, "rest");
    sw_json_end(j);
    sw_json_bool(j, "additionalProperties", false);
    sw_json_end(j);
    sw_json_end(j);
}

static void schema_of_run(struct sw_json *j, const struct field *field)
{
    static const char *const words[] = {"none", "full", "auto", NULL};
    (void)field;
    schema(j, words);
}

static void schema_of_plan(struct sw_json *j, const struct field *field)
{
    static const char *const words[] = {"none", "full", NULL};
    (void)field;
    schema(j, words);
}

const struct field_type sw_type_recompute = {read_of_run, write_of_run, schema_of_run,
                                             INSIDE_ANY_KEY, NULL};
const struct field_type sw_type_decided_recompute = {read_of_plan, write_of_plan, schema_of_plan,
                                                     INSIDE_ANY_KEY, NULL};
