/* Values of a run's `data` that are no scalars, paths and weights, and checks between keys of
 * `data`. */
#include "core/config/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 4096 };

static bool has_too_many(struct sw_config *c, const struct field *field, const struct node *value)
{
    if (value->count <= MAX_ITEMS)
        return false;
    sw_config_error_at(c, value,
                       sw_config_format(c, "'%s' has %d items; at most %d are allowed", field->key,
                                        (int)value->count, MAX_ITEMS),
                       "name them by patterns, as in data/*.bin");
    return true;
}

/* ---- Paths: one, or a list ---- */

static bool read_path(struct sw_config *c, const struct field *field, const struct node *value,
                      struct sw_path *out)
{
    double number;
    if (value->kind != NODE_SCALAR)
        return sw_config_wrong_type(c, field, value, "a path or a list of paths");
    if (value->text[0] == 0) {
        sw_config_error_at(c, value, sw_config_format(c, "'%s' is an empty path", field->key),
                           sw_config_example(c, field));
        return false;
    }
    if (strcmp(field->key, "validation") == 0 && value->plain &&
        sw_number_parse(value->text, &number)) {
        sw_config_error_at(c, value, "'validation' names files, not a share of the data",
                           sw_config_format(c, "use holdout: %s for a share", value->text));
        return false;
    }
    if (!sw_config_path_is_plain(c, value))
        return false;
    *out = (struct sw_path){.text = sw_config_resolve(c, value->source, value->text),
                            .is_absolute = value->text[0] == '/',
                            .place = {value->source->file, value->line, value->column}};
    return true;
}

static bool read_paths(struct sw_config *c, const struct field *field, struct node *value,
                       void *base)
{
    const bool list = value->kind == NODE_SEQUENCE;
    struct sw_paths paths = {0};
    if (list && value->count == 0)
        return sw_config_wrong_type(c, field, value, "a path or a list of paths");
    if (list && has_too_many(c, field, value))
        return false;
    struct sw_path *item = sw_config_alloc(c, sizeof *item * (list ? (size_t)value->count : 1));
    bool good = item != NULL;
    for (const struct node *node = list ? value->first : value; item != NULL && node != NULL;
         node = list ? node->next : NULL)
        good = read_path(c, field, node, &item[paths.count++]) && good;
    paths.item = item;
    if (good)
        memcpy((char *)base + field->offset, &paths, sizeof paths);
    return good;
}

static bool no_paths(const void *at)
{
    struct sw_paths paths;
    memcpy(&paths, at, sizeof paths);
    return paths.count == 0;
}

static void write_paths(struct writer *w, const struct field *field, const void *base)
{
    struct sw_paths paths;
    char *text = NULL;
    size_t bytes = 0;
    memcpy(&paths, (const char *)base + field->offset, sizeof paths);
    if (paths.count == 1)
        w->value(w, field->key, paths.item[0].text, STYLE_TEXT);
    FILE *out = paths.count > 1 ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL)
        return;
    for (int32_t i = 0; i < paths.count; i++) {
        fputs(i == 0 ? "[" : ", ", out);
        sw_config_write_text(out, paths.item[i].text);
    }
    fputs("]", out);
    if (fclose(out) == 0)
        w->value(w, field->key, text, STYLE_BARE);
    free(text);
}

static void schema_paths(struct sw_json *j, const struct field *field)
{
    static const char schema[] = "\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"array\", "
                                 "\"minItems\": 1, \"items\": {\"type\": \"string\"}}]";
    (void)field;
    sw_json_raw(j, NULL, schema, sizeof schema - 1);
}

const struct field_type sw_type_paths = {read_paths, write_paths, schema_paths, INSIDE_NOTHING,
                                         no_paths};

/* ---- Weights ---- */

static bool read_weights(struct sw_config *c, const struct field *field, struct node *value,
                         void *base)
{
    struct sw_numbers weights = {0};
    if (value->kind != NODE_SEQUENCE || value->count == 0)
        return sw_config_wrong_type(c, field, value, "a list of numbers");
    if (has_too_many(c, field, value))
        return false;
    double *item = sw_config_alloc(c, sizeof *item * (size_t)value->count);
    bool good = item != NULL;
    for (const struct node *node = value->first; item != NULL && node != NULL; node = node->next) {
        double *number = &item[weights.count++];
        if (node->kind != NODE_SCALAR || !sw_number_parse(node->text, number))
            good = sw_config_wrong_type(c, field, node, "a number");
        else if (!(*number >= 1e-9 && *number <= 1e9)) {
            sw_config_error_at(c, node,
                               sw_config_format(c, "a weight must be 1e-9 to 1e9, not %s",
                                                sw_config_shown(c, node->text)),
                               sw_config_example(c, field));
            good = false;
        }
    }
    weights.item = item;
    if (good)
        memcpy((char *)base + field->offset, &weights, sizeof weights);
    return good;
}

static bool no_weights(const void *at)
{
    struct sw_numbers weights;
    memcpy(&weights, at, sizeof weights);
    return weights.count == 0;
}

static void write_weights(struct writer *w, const struct field *field, const void *base)
{
    struct sw_numbers weights;
    char *text = NULL, number[32];
    size_t bytes = 0;
    memcpy(&weights, (const char *)base + field->offset, sizeof weights);
    FILE *out = weights.count > 0 ? open_memstream(&text, &bytes) : NULL;
    if (out == NULL)
        return;
    for (int32_t i = 0; i < weights.count; i++)
        fprintf(out, "%s%s", i == 0 ? "[" : ", ", sw_real_format(weights.item[i], number));
    fputs("]", out);
    if (fclose(out) == 0)
        w->value(w, field->key, text, STYLE_BARE);
    free(text);
}

const struct field_type sw_type_weights = {read_weights, write_weights, NULL, INSIDE_NOTHING,
                                           no_weights};

/* ---- Checks between keys ---- */

static bool refuse(struct sw_config *c, const struct node *at, const char *message,
                   const char *help)
{
    sw_config_error_at(c, at, message, help);
    return false;
}

bool sw_config_check_data(struct sw_config *c, const struct node *root,
                          const struct sw_run_config *run)
{
    const struct node *data = sw_node_find(root, "data");
    const struct node *weights = sw_node_find(data, "weights"), *pack = sw_node_find(data, "pack"),
                      *validation = sw_node_find(data, "validation");
    bool good = true;
    if (run->data_weights.count > 0 && run->data_weights.count != run->data_paths.count)
        good = refuse(c, weights,
                      sw_config_format(c, "'weights' has %d number%s for %d of 'path'",
                                       (int)run->data_weights.count,
                                       run->data_weights.count == 1 ? "" : "s",
                                       (int)run->data_paths.count),
                      "give one for each file or pattern of the list");
    if (run->data_validation.count > 0 && run->data_holdout > 0)
        good = refuse(c, validation, "'validation' and 'holdout' both say what is evaluated",
                      "remove one of them");
    if (run->data_pack && run->data_format == SW_DATA_BYTES)
        good = refuse(c, pack, "'pack' needs documents, which data.format: bytes has not",
                      "make tokens and an index with 'runner tokenize'");
    return good;
}
