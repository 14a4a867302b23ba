/* Chat templates in a model's folder, chosen as in `transformers`: template files before
 * tokenizer_config.json; of several the one named 'default', and 'tool_use' for conversations with
 * tools. chat_template.json, made for image and sound processors, is last. */
#include "core/base/file.h"
#include "core/base/text.h"
#include "runner/checkpoint/json_text.h"
#include "runner/text/tokenizer/internal.h"
#include "runner/text/tokenizer/special.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char further[] = "additional_chat_templates", ending[] = ".jinja";

static int fail_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the chat template");
}

void sw_chat_text_free(struct sw_chat_text *text)
{
    free(text->name);
    free(text->text);
    *text = (struct sw_chat_text){0};
}

/* Reads a file as a template; if it is absent, *out is unchanged. */
static int read_file(const char *folder, const char *file, struct sw_chat_text *out,
                     struct sw_error *err)
{
    struct sw_chat_text read = {.name = sw_path_join(folder, file)};
    int status = read.name == NULL ? fail_memory(err) : 0;
    if (status == 0 &&
        sw_file_read(read.name, true, SW_TEXT_CONFIG_BYTES, &read.text, &read.bytes, NULL) != 0) {
        read.text = NULL;
        if (errno != ENOENT && errno != ENOTDIR)
            status = sw_fail_at(err, errno == EFBIG ? SW_BAD_INPUT : SW_ENVIRONMENT,
                                (struct sw_place){.file = read.name}, "cannot read it: %s",
                                strerror(errno));
    }
    if (status != 0 || read.text == NULL) {
        sw_chat_text_free(&read);
        return status;
    }
    sw_chat_text_free(out);
    *out = read;
    return 0;
}

/* Finds a template with a name of its own, as "FOLDER/NAME.jinja", freed by the caller; NULL:
 * none. */
static char *find_further(const char *folder)
{
    char *path = sw_path_join(folder, further), *found = NULL;
    DIR *stream = path != NULL ? opendir(path) : NULL;
    for (struct dirent *entry;
         stream != NULL && found == NULL && (entry = readdir(stream)) != NULL;) {
        const size_t bytes = strlen(entry->d_name), end = sizeof ending - 1;
        if (bytes > end && strcmp(entry->d_name + bytes - end, ending) == 0)
            found = sw_path_join(path, entry->d_name);
    }
    if (stream != NULL)
        closedir(stream);
    free(path);
    return found;
}

static int of_files(const char *folder, struct sw_chat_texts *out, struct sw_error *err)
{
    if (read_file(folder, "chat_template.jinja", &out->plain, err) != 0)
        return -1;
    char *found = find_further(folder);
    if (found == NULL)
        return 0;
    out->several = true;
    int status =
        read_file(folder, "additional_chat_templates/default.jinja", &out->plain, err) != 0 ||
                read_file(folder, "additional_chat_templates/tool_use.jinja", &out->tool_use,
                          err) != 0
            ? -1
            : 0;
    if (status == 0 && out->plain.text == NULL && out->tool_use.text == NULL)
        status = sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){found, 1, 1},
                            "none of the templates there is named 'default' or 'tool_use'; put one "
                            "in chat_template.jinja");
    free(found);
    return status;
}

/* Takes a template inside a JSON file. Its places have a prefix, "FILE:12:20: chat_template", since
 * it counts lines itself. */
static int take_value(const struct sw_beside *b, const char *file, const json_t *value,
                      struct sw_chat_text *out, struct sw_error *err)
{
    char *path = sw_path_join(sw_beside_folder(b), file);
    if (!json_is_string(value) || path == NULL) {
        free(path);
        return value == NULL ? 0 : fail_memory(err);
    }
    const struct sw_place at = sw_text_place_of(path, "chat_template", true);
    out->bytes = json_string_length(value);
    out->text = malloc(out->bytes + 1);
    if (out->text == NULL ||
        asprintf(&out->name, "%s:%d:%d: chat_template", path, (int)at.line, (int)at.column) < 0) {
        out->name = NULL;
        free(path);
        return fail_memory(err);
    }
    memcpy(out->text, json_string_value(value), out->bytes + 1);
    free(path);
    return 0;
}

static const json_t *named(const json_t *value, const char *wanted)
{
    const json_t *one, *found = NULL;
    size_t i;
    if (sw_json_is_object(value))
        return json_object_get(value, wanted);
    json_array_foreach((json_t *)value, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, wanted) == 0)
            found = json_object_get(one, "template"); /* the last one wins */
    }
    return found;
}

static int of_value(const struct sw_beside *b, const char *file, const json_t *value,
                    struct sw_chat_texts *out, struct sw_error *err)
{
    out->several = !json_is_string(value);
    const json_t *plain = out->several ? named(value, "default") : value;
    const json_t *tool_use = out->several ? named(value, "tool_use") : NULL;
    if ((plain != NULL && !json_is_string(plain)) ||
        (tool_use != NULL && !json_is_string(tool_use)) || (plain == NULL && tool_use == NULL))
        return sw_beside_refuse(b, file, "chat_template", err,
                                "its chat_template is neither a text nor a list with one named "
                                "'default'");
    return take_value(b, file, plain, &out->plain, err) != 0 ||
                   take_value(b, file, tool_use, &out->tool_use, err) != 0
               ? -1
               : 0;
}

static int of_processor(const struct sw_beside *b, struct sw_chat_texts *out, struct sw_error *err)
{
    static const char file[] = "chat_template.json";
    json_t *root = NULL;
    if (sw_text_load_json(sw_beside_folder(b), file, &root, err) != 0)
        return -1;
    const json_t *value = json_object_get(root, "chat_template");
    const int status =
        value == NULL || json_is_null(value) ? 0 : of_value(b, file, value, out, err);
    out->of_processor = true;
    json_decref(root);
    return status;
}

int sw_chat_find(const struct sw_beside *b, struct sw_chat_texts *out, struct sw_error *err)
{
    const json_t *value = json_object_get(sw_beside_config(b), "chat_template");
    if (of_files(sw_beside_folder(b), out, err) != 0)
        return -1;
    if (out->plain.text != NULL || out->tool_use.text != NULL)
        return 0;
    if (value != NULL && !json_is_null(value))
        return of_value(b, "tokenizer_config.json", value, out, err);
    return of_processor(b, out, err);
}
