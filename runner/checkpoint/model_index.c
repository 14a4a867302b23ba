#include "runner/checkpoint/model_index.h"

#include "core/base/json.h"
#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"
#include "runner/checkpoint/model_folder.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 100 };

static int out_of_memory(const char *path, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", path);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Checks that a file's name stays in the folder. */
static int check_file(const char *path, const char *tensor, const char *name, struct sw_error *err)
{
    const struct sw_place place = {.file = path};
    char shown[SHOWN_BYTES + 4], shown_tensor[SHOWN_BYTES + 4];
    sw_text_shown(tensor, SHOWN_BYTES, shown_tensor);
    if (name == NULL)
        return sw_fail_at(err, SW_BAD_INPUT, place, "tensor '%s' has no file name", shown_tensor);
    sw_text_shown(name, SHOWN_BYTES, shown);
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL ||
        strlen(name) >= SW_STORED_FILE_BYTES || strlen(shown) != strlen(name) ||
        strcmp(shown, name) != 0)
        return sw_fail_at(
            err, SW_BAD_INPUT, place,
            "tensor '%s' is in '%s', which is not the name of a file beside the index",
            shown_tensor, shown);
    if (ends_with(name, ".bin"))
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "tensor '%s' is in '%s', which is not a safetensors file; convert it to "
                          "safetensors",
                          shown_tensor, shown);
    if (strlen(tensor) >= SW_SAFETENSORS_NAME_BYTES || tensor[0] == '\0')
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "'%s' is not the name of a tensor: it has %zu bytes, of 1 to %d",
                          shown_tensor, strlen(tensor), (int)SW_SAFETENSORS_NAME_BYTES - 1);
    if (strstr(tensor, "\xc0\x80") != NULL) /* a NUL in a key (json_text.h) */
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "'%s' is not the name of a tensor: it has a NUL", shown_tensor);
    return 0;
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Collects the unique file names. */
static int collect_files(const char *path, const json_t *map, struct sw_model_index *out,
                         struct sw_error *err)
{
    const char *tensor;
    json_t *value;
    const char **all = calloc(json_object_size(map) + 1, sizeof *all);
    size_t count = 0;
    int status = -1;
    if (all == NULL)
        return out_of_memory(path, err);
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (check_file(path, tensor, name, err) != 0)
            goto out;
        all[count++] = name;
    }
    qsort(all, count, sizeof *all, compare_texts);
    out->file = calloc(count + 1, sizeof *out->file);
    if (out->file == NULL) {
        out_of_memory(path, err);
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(all[i], all[i - 1]) == 0)
            continue;
        out->file[out->file_count] = strdup(all[i]);
        if (out->file[out->file_count++] == NULL) {
            out_of_memory(path, err);
            goto out;
        }
    }
    status = 0;
out:
    free(all);
    return status;
}

static int collect_tensors(const char *path, const json_t *map, struct sw_model_index *out,
                           struct sw_error *err)
{
    const char *tensor;
    json_t *value;
    out->tensor = calloc(json_object_size(map) + 1, sizeof *out->tensor);
    if (out->tensor == NULL)
        return out_of_memory(path, err);
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *name = json_string_value(value);
        char **file =
            bsearch(&name, out->file, (size_t)out->file_count, sizeof *out->file, compare_texts);
        struct sw_indexed_tensor *t = &out->tensor[out->count];
        t->file = (int32_t)(file - out->file);
        t->name = strdup(tensor);
        if (t->name == NULL)
            return out_of_memory(path, err);
        out->count++;
    }
    return 0;
}

int sw_model_index_parse(const char *path, const char *text, size_t bytes,
                         struct sw_model_index *out, struct sw_error *err)
{
    struct sw_place place = {.file = path};
    struct sw_json_mistake why;
    int status = -1;
    *out = (struct sw_model_index){0};
    json_t *root = sw_json_load(text, bytes, SW_JSON_TWICE | SW_JSON_ODD, &why);
    if (root == NULL) {
        place.line = why.line;
        place.column = why.column;
        return why.what == NULL
                   ? out_of_memory(path, err)
                   : sw_fail_at(err, SW_BAD_INPUT, place, "not valid JSON: %s", why.what);
    }
    const json_t *map = json_object_get(root, "weight_map");
    if (!sw_json_is_object(map) || json_object_size(map) == 0)
        sw_fail_at(err, SW_BAD_INPUT, place, "has no 'weight_map' of tensors to files");
    else if (collect_files(path, map, out, err) == 0)
        status = collect_tensors(path, map, out, err);
    json_decref(root);
    if (status != 0)
        sw_model_index_free(out);
    return status;
}

void sw_model_index_free(struct sw_model_index *index)
{
    for (int32_t i = 0; i < index->file_count; i++)
        free(index->file[i]);
    for (int32_t i = 0; i < index->count; i++)
        free(index->tensor[i].name);
    free(index->file);
    free(index->tensor);
    *index = (struct sw_model_index){0};
}

int sw_model_index_write(const struct sw_index_entry *entry, int32_t count, int64_t total_bytes,
                         char **out, struct sw_error *err)
{
    size_t bytes = 0;
    *out = NULL;
    struct sw_json j = {.out = open_memstream(out, &bytes), .style = SW_JSON_SPACES};
    if (j.out == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the index of the model's files");
    sw_json_object(&j, NULL);
    sw_json_object(&j, "metadata");
    sw_json_integer(&j, "total_size", total_bytes);
    sw_json_end(&j);
    sw_json_object(&j, "weight_map");
    for (int32_t i = 0; i < count; i++)
        sw_json_text(&j, entry[i].tensor, entry[i].file);
    sw_json_end(&j);
    sw_json_end(&j);
    fputc('\n', j.out);
    const bool failed = ferror(j.out) != 0;
    if (fclose(j.out) == 0 && !failed)
        return 0;
    free(*out);
    *out = NULL;
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the index of the model's files");
}

int sw_model_index_json(const struct sw_placement *placement, char **out, struct sw_error *err)
{
    int64_t bytes = 0;
    int32_t count = 0;
    struct sw_index_entry *entry = calloc((size_t)placement->tensor_count + 1, sizeof *entry);
    *out = NULL;
    if (entry == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the index of the model's files");
    for (int32_t i = 0; i < placement->tensor_count; i++) {
        const struct sw_stored_tensor *t = &placement->tensor[i];
        if (t->group != SW_STORED_MODEL)
            continue;
        if (t->first_row == 0) /* one entry for all parts of a tensor */
            entry[count++] = (struct sw_index_entry){t->name, placement->file[t->file].name};
        bytes += t->bytes;
    }
    const int status = sw_model_index_write(entry, count, bytes, out, err);
    free(entry);
    return status;
}
