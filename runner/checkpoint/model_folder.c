#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/config.h"
#include "runner/checkpoint/folder.h"
#include "core/checkpoint/store.h"
#include "runner/checkpoint/model_index.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN_BYTES = 100, INDEX_MOST_BYTES = 100000000 };

static int out_of_memory(const char *path, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for '%s'", path);
}

char *sw_folder_path(const struct sw_model_folder *folder, const char *name, struct sw_error *err)
{
    char *path = sw_path_join(folder->path, name);
    if (path == NULL)
        out_of_memory(folder->path, err);
    return path;
}

/* True if FOLDER/NAME exists. */
static bool has(const char *folder, const char *name)
{
    struct stat status;
    char *path = sw_path_join(folder, name);
    const bool is = path != NULL && stat(path, &status) == 0;
    free(path);
    return is;
}

/* ---- Tensors by name ---- */

static int compare_tensors(const void *left, const void *right)
{
    const struct sw_folder_tensor *a = left, *b = right;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->file > b->file) - (a->file < b->file);
}

int sw_folder_tensors(const struct sw_model_folder *folder, enum sw_stored_group group,
                      struct sw_folder_tensor **out, int32_t *count, struct sw_error *err)
{
    size_t all = 0;
    for (int32_t f = 0; f < folder->count; f++)
        all += folder->file[f].group == group ? (size_t)folder->file[f].header.count : 0;
    struct sw_folder_tensor *tensor = calloc(all + 1, sizeof *tensor);
    if (tensor == NULL)
        return out_of_memory(folder->path, err);
    int32_t n = 0;
    for (int32_t f = 0; f < folder->count; f++)
        for (int32_t t = 0; folder->file[f].group == group && t < folder->file[f].header.count; t++)
            tensor[n++] = (struct sw_folder_tensor){folder->file[f].header.tensor[t].name, f, t};
    qsort(tensor, (size_t)n, sizeof *tensor, compare_tensors);
    for (int32_t i = 1; i < n; i++)
        if (strcmp(tensor[i].name, tensor[i - 1].name) == 0) {
            char shown[SHOWN_BYTES + 4];
            char *path = sw_folder_path(folder, folder->file[tensor[i].file].name, err);
            if (path != NULL)
                sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                           "tensor '%s' is in '%s', too",
                           sw_text_shown(tensor[i].name, SHOWN_BYTES, shown),
                           folder->file[tensor[i - 1].file].name);
            free(path);
            free(tensor);
            return -1;
        }
    *out = tensor;
    *count = n;
    return 0;
}

static int compare_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct sw_folder_tensor *)tensor)->name);
}

const struct sw_folder_tensor *sw_folder_find(const struct sw_folder_tensor *tensor, int32_t count,
                                              const char *name)
{
    return bsearch(name, tensor, (size_t)count, sizeof *tensor, compare_name);
}

/* ---- Names of files ---- */

/* Growing list that owns its texts. */
struct names {
    char **name;
    int32_t count, room;
};

static void free_names(struct names *names)
{
    for (int32_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
}

static int add_name(struct names *names, const char *text, struct sw_error *err)
{
    if (names->count == names->room) {
        const int32_t room = names->room * 2 + 16;
        char **grown = realloc(names->name, (size_t)room * sizeof *grown);
        if (grown == NULL)
            return out_of_memory(text, err);
        names->name = grown;
        names->room = room;
    }
    names->name[names->count] = strdup(text);
    if (names->name[names->count] == NULL)
        return out_of_memory(text, err);
    names->count++;
    return 0;
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Lists names in a folder that match a pattern (NULL-terminated), sorted; none if the folder is
 * absent. */
static int list(const char *path, const char *const *patterns, struct names *out,
                struct sw_error *err)
{
    int status = -1;
    DIR *folder = opendir(path);
    if (folder == NULL && errno == ENOENT)
        return 0;
    if (folder == NULL)
        return sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path},
                          "cannot be read: %s", strerror(errno));
    for (struct dirent *entry; (errno = 0, entry = readdir(folder)) != NULL;)
        for (const char *const *pattern = patterns; *pattern != NULL; pattern++)
            if (fnmatch(*pattern, entry->d_name, FNM_PERIOD) == 0) {
                if (add_name(out, entry->d_name, err) != 0)
                    goto out;
                break;
            }
    if (errno != 0) {
        sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path}, "cannot be read: %s",
                   strerror(errno));
        goto out;
    }
    if (out->count > 0)
        qsort(out->name, (size_t)out->count, sizeof *out->name, compare_texts);
    status = 0;
out:
    closedir(folder);
    return status;
}

/* ---- The files ---- */

static int find_folder(struct sw_model_folder *folder, const char *path, struct sw_error *err)
{
    const struct sw_place place = {.file = path};
    struct stat status;
    if (stat(path, &status) != 0)
        return sw_fail_at(err, sw_path_status(errno, false), place,
                          "%s; a Hugging Face model directory or a checkpoint is needed",
                          strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return sw_fail_at(
            err, SW_BAD_INPUT, place,
            "is not a folder; a Hugging Face model directory or a checkpoint is needed");
    bool here = false, latest = false;
    for (const char *const *name = sw_store_model_files; *name != NULL; name++) {
        char within[64];
        snprintf(within, sizeof within, "latest/%s", *name);
        here = here || has(path, *name);
        latest = latest || has(path, within);
    }
    if (!latest && !here)
        return sw_fail_at(err, SW_BAD_INPUT, place,
                          "has no config.json; a Hugging Face model directory or a checkpoint is "
                          "needed");
    folder->path = here ? strdup(path) : sw_path_join(path, "latest");
    if (folder->path == NULL)
        return out_of_memory(path, err);
    folder->adapter = has(folder->path, SW_ADAPTER_CONFIG) && !has(folder->path, SW_MODEL_FILE) &&
                      !has(folder->path, SW_MODEL_INDEX_FILE);
    return 0;
}

/* Compares our checkpoint's small files with the manifest before using them. */
static int check_written(const struct sw_model_folder *folder, bool optimizer, struct sw_error *err)
{
    struct sw_manifest manifest;
    if (!has(folder->path, SW_MANIFEST_NAME))
        return 0;
    if (sw_manifest_read(folder->path, &manifest, NULL, NULL, err) != 0)
        return -1;
    const int status = sw_manifest_check_small(&manifest, folder->path, optimizer, err);
    sw_manifest_free(&manifest);
    return status;
}

static int read_model(struct sw_model_folder *folder, struct sw_error *err)
{
    char *path = sw_folder_path(folder, "config.json", err);
    if (path == NULL)
        return -1;
    int status = -1;
    struct sw_config *config = sw_config_read(path, SW_CONFIG_MODEL, NULL, NULL, 0, err);
    const struct sw_model_config *model = config != NULL ? sw_config_model(config) : NULL;
    if (model != NULL) {
        folder->model = model->shape;
        status = 0;
    }
    for (int32_t i = 0; status != 0 && config != NULL && i < sw_config_diagnostic_count(config);
         i++) {
        const struct sw_diagnostic *d = sw_config_diagnostic(config, i);
        if (!d->is_note) /* reports only the first */
            sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){d->file, d->line, d->column}, "%s%s%s",
                       d->message, d->help != NULL ? "; " : "", d->help != NULL ? d->help : "");
    }
    sw_config_free(config);
    free(path);
    return status;
}

/* Reads the header of FOLDER/NAME into the next entry, which has room. named: true if the index
 * names it. */
static int open_file(struct sw_model_folder *folder, const char *name, enum sw_stored_group group,
                     bool named, struct sw_error *err)
{
    struct sw_folder_file *file = &folder->file[folder->count];
    char *path = sw_folder_path(folder, name, err);
    int status = -1;
    if (path == NULL)
        return -1;
    if (named && !has(folder->path, name)) {
        sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                   "is missing, and " SW_MODEL_INDEX_FILE " names it; copy the whole model");
        goto out;
    }
    if (sw_safetensors_open(path, &file->header, NULL, err) != 0)
        goto out;
    file->group = group;
    file->name = strdup(name);
    if (file->name == NULL) {
        sw_safetensors_free(&file->header);
        out_of_memory(path, err);
        goto out;
    }
    folder->count++;
    status = 0;
out:
    free(path);
    return status;
}

static int make_room(struct sw_model_folder *folder, int32_t more, struct sw_error *err)
{
    struct sw_folder_file *grown =
        realloc(folder->file, (size_t)(folder->count + more + 1) * sizeof *grown);
    if (grown == NULL)
        return out_of_memory(folder->path, err);
    memset(grown + folder->count, 0, (size_t)(more + 1) * sizeof *grown);
    folder->file = grown;
    return 0;
}

/* Checks that every tensor is in the file named by the index. */
static int check_index(const struct sw_model_folder *folder, const char *path,
                       const struct sw_model_index *index, struct sw_error *err)
{
    struct sw_folder_tensor *tensor = NULL;
    int32_t count = 0;
    if (sw_folder_tensors(folder, SW_STORED_MODEL, &tensor, &count, err) != 0)
        return -1;
    int status = 0;
    for (int32_t i = 0; i < index->count && status == 0; i++) {
        char shown[SHOWN_BYTES + 4];
        const struct sw_folder_tensor *t = sw_folder_find(tensor, count, index->tensor[i].name);
        if (t == NULL || t->file != index->tensor[i].file)
            status = sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
                                "tensor '%s' is not in '%s'",
                                sw_text_shown(index->tensor[i].name, SHOWN_BYTES, shown),
                                index->file[index->tensor[i].file]);
    }
    free(tensor);
    return status;
}

static int open_index(struct sw_model_folder *folder, struct sw_error *err)
{
    struct sw_model_index index = {0};
    char *text = NULL, *path = sw_folder_path(folder, SW_MODEL_INDEX_FILE, err);
    size_t bytes;
    int status = -1;
    if (path == NULL)
        return -1;
    if (sw_file_read(path, true, INDEX_MOST_BYTES, &text, &bytes, NULL) != 0) {
        sw_fail_at(err, SW_ENVIRONMENT, (struct sw_place){.file = path}, "cannot be read: %s",
                   strerror(errno));
        goto out;
    }
    if (sw_model_index_parse(path, text, bytes, &index, err) != 0 ||
        make_room(folder, index.file_count, err) != 0)
        goto out;
    for (int32_t i = 0; i < index.file_count; i++)
        if (open_file(folder, index.file[i], SW_STORED_MODEL, true, err) != 0)
            goto out;
    status = check_index(folder, path, &index, err);
out:
    sw_model_index_free(&index);
    free(text);
    free(path);
    return status;
}

/* Reports another format found instead of safetensors. */
static int refuse_other_formats(const struct sw_model_folder *folder, struct sw_error *err)
{
    static const char *const pickles[] = {"*.bin", "*.pt", "*.pth", "*.ckpt", NULL};
    const struct sw_place place = {.file = folder->path};
    struct names found = {0};
    int status = list(folder->path, pickles, &found, err);
    char shown[SHOWN_BYTES + 4];
    if (status == 0 && found.count > 0)
        status =
            sw_fail_at(err, SW_BAD_INPUT, place,
                       "has no " SW_MODEL_FILE ", only '%s', which can run code when it is read; "
                       "convert it to safetensors",
                       sw_text_shown(found.name[0], SHOWN_BYTES, shown));
    else if (status == 0)
        status = sw_fail_at(err, SW_BAD_INPUT, place,
                            "has neither " SW_MODEL_FILE " nor " SW_MODEL_INDEX_FILE);
    free_names(&found);
    return status;
}

static int open_model(struct sw_model_folder *folder, struct sw_error *err)
{
    struct sw_folder_tensor *tensor = NULL;
    int32_t count = 0;
    if (!has(folder->path, SW_MODEL_FILE))
        return has(folder->path, SW_MODEL_INDEX_FILE) ? open_index(folder, err)
                                                      : refuse_other_formats(folder, err);
    if (make_room(folder, 1, err) != 0 ||
        open_file(folder, SW_MODEL_FILE, SW_STORED_MODEL, false, err) != 0 ||
        sw_folder_tensors(folder, SW_STORED_MODEL, &tensor, &count, err) != 0)
        return -1;
    free(tensor);
    return 0;
}

static int open_adapter(struct sw_model_folder *folder, struct sw_error *err)
{
    const struct sw_place place = {.file = folder->path};
    if (!has(folder->path, SW_ADAPTER_FILE))
        return has(folder->path, "adapter_model.bin")
                   ? sw_fail_at(err, SW_BAD_INPUT, place,
                                "has no " SW_ADAPTER_FILE ", only adapter_model.bin, which can run "
                                "code when it is read; save it again with safe_serialization=True")
                   : sw_fail_at(err, SW_BAD_INPUT, place, "has no " SW_ADAPTER_FILE);
    return sw_adapter_config_read(folder->path, &folder->config, err) == 0 &&
                   make_room(folder, 1, err) == 0
               ? open_file(folder, SW_ADAPTER_FILE, SW_STORED_MODEL, false, err)
               : -1;
}

static int open_optimizer(struct sw_model_folder *folder, enum sw_stored_group group,
                          struct sw_error *err)
{
    static const char *const exp_avg[] = {"exp_avg-*.safetensors", NULL},
                             *const exp_avg_sq[] = {"exp_avg_sq-*.safetensors", NULL};
    struct names found = {0};
    struct sw_folder_tensor *tensor = NULL;
    int32_t count = 0;
    int status = -1;
    char *path = sw_folder_path(folder, "optimizer", err);
    if (path == NULL ||
        list(path, group == SW_STORED_EXP_AVG ? exp_avg : exp_avg_sq, &found, err) != 0 ||
        make_room(folder, found.count, err) != 0)
        goto out;
    for (int32_t i = 0; i < found.count; i++) {
        char *name = sw_path_join("optimizer", found.name[i]);
        const int opened =
            name != NULL ? open_file(folder, name, group, false, err) : out_of_memory(path, err);
        free(name);
        if (opened != 0)
            goto out;
    }
    status = sw_folder_tensors(folder, group, &tensor, &count, err);
out:
    free(tensor);
    free_names(&found);
    free(path);
    return status;
}

/* Adds regular files, also through links, of the folder or its subfolder `within` ("": none). */
static int add_other(struct sw_model_folder *folder, const char *within,
                     const char *const *patterns, struct sw_error *err)
{
    struct names found = {0};
    char *path = sw_path_join(folder->path, within), **grown = NULL;
    int status = path == NULL ? out_of_memory(folder->path, err) : 0;
    if (status == 0)
        status = list(path, patterns, &found, err);
    if (status == 0 && found.count > 0) {
        grown = realloc(folder->other, (size_t)(folder->other_count + found.count) * sizeof *grown);
        status = grown == NULL ? out_of_memory(path, err) : 0;
        folder->other = grown != NULL ? grown : folder->other;
    }
    for (int32_t i = 0; status == 0 && i < found.count; i++) {
        char *name = *within != '\0' ? sw_path_join(within, found.name[i]) : strdup(found.name[i]);
        char *file = name != NULL ? sw_path_join(folder->path, name) : NULL;
        struct stat info;
        if (file == NULL)
            status = out_of_memory(path, err);
        else if (stat(file, &info) == 0 && S_ISREG(info.st_mode) && sw_manifest_takes(name)) {
            folder->other[folder->other_count++] = name;
            name = NULL;
        }
        free(name);
        free(file);
    }
    free_names(&found);
    free(path);
    return status;
}

static int find_other(struct sw_model_folder *folder, struct sw_error *err)
{
    static const char *const patterns[] = {"tokenizer*",        "special_tokens_map.json",
                                           "added_tokens.json", "vocab.json",
                                           "vocab.txt",         "merges.txt",
                                           "spiece.model",      "generation_config.json",
                                           "chat_template.*",   NULL},
                             *const templates[] = {"*.jinja", NULL};
    static const char within[] = "additional_chat_templates";
    struct stat info;
    char *path = sw_path_join(folder->path, within);
    const bool has_templates = path != NULL && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const int status = path == NULL ? out_of_memory(folder->path, err) : 0;
    free(path);
    return status != 0 || add_other(folder, "", patterns, err) != 0 ||
                   (has_templates && add_other(folder, within, templates, err) != 0)
               ? -1
               : 0;
}

int sw_model_folder_open(const char *path, bool optimizer, struct sw_model_folder *out,
                         struct sw_error *err)
{
    *out = (struct sw_model_folder){0};
    if (find_folder(out, path, err) == 0 && check_written(out, optimizer, err) == 0 &&
        (out->adapter ? open_adapter(out, err) == 0
                      : read_model(out, err) == 0 && open_model(out, err) == 0) &&
        (!optimizer || (open_optimizer(out, SW_STORED_EXP_AVG, err) == 0 &&
                        open_optimizer(out, SW_STORED_EXP_AVG_SQ, err) == 0)) &&
        find_other(out, err) == 0)
        return 0;
    sw_model_folder_free(out);
    return -1;
}

void sw_model_folder_free(struct sw_model_folder *folder)
{
    for (int32_t i = 0; i < folder->count; i++) {
        free(folder->file[i].name);
        sw_safetensors_free(&folder->file[i].header);
    }
    for (int32_t i = 0; i < folder->other_count; i++)
        free(folder->other[i]);
    sw_adapter_config_free(&folder->config);
    free(folder->file);
    free(folder->other);
    free(folder->path);
    *folder = (struct sw_model_folder){0};
}
