#include "core/plan/data_files.h"

#include "core/base/file.h"
#include "core/base/token_index.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t pattern_begins(const char *path)
{
    return strcspn(path, "*?[");
}

bool sw_data_is_pattern(const char *path)
{
    return path[pattern_begins(path)] != '\0' && access(path, F_OK) != 0;
}

char *sw_data_folder(const char *path)
{
    char *before = sw_data_is_pattern(path) ? strndup(path, pattern_begins(path)) : strdup(path);
    char *slash = before != NULL && sw_data_is_pattern(path) ? strrchr(before, '/') : NULL;
    if (slash != NULL)
        slash[1] = '\0';
    char *folder = before == NULL                     ? NULL
                   : slash != NULL && slash != before ? strndup(before, (size_t)(slash - before))
                                                      : sw_path_folder(before);
    free(before);
    return folder;
}

static bool is_index(const char *path)
{
    const size_t length = strlen(path), tail = strlen(SW_TOKEN_INDEX_ENDING);
    return length > tail && strcmp(path + length - tail, SW_TOKEN_INDEX_ENDING) == 0;
}

static bool add(struct sw_data_files *f, const char *path)
{
    if ((f->count & (f->count - 1)) == 0) { /* 0 or a power of two: full */
        const size_t room = f->count == 0 ? 1 : 2 * (size_t)f->count;
        char **more = realloc(f->path, room * sizeof *more);
        if (more == NULL)
            return false;
        f->path = more;
    }
    f->path[f->count] = strdup(path);
    return f->path[f->count++] != NULL;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int no_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory for the data");
}

static int add_matches(struct sw_data_files *f, const struct sw_path *item, struct sw_error *err)
{
    glob_t found = {0};
    const int32_t first = f->count;
    const int status = glob(item->text, GLOB_NOSORT, NULL, &found);
    bool good = status != GLOB_NOSPACE;
    for (size_t i = 0; status == 0 && good && i < found.gl_pathc; i++)
        if (is_index(item->text) || !is_index(found.gl_pathv[i]))
            good = add(f, found.gl_pathv[i]);
    globfree(&found);
    if (!good)
        return no_memory(err);
    if (status == GLOB_ABORTED)
        return sw_fail_at(err, SW_ENVIRONMENT, item->place, "cannot look for '%.300s': %s",
                          item->text, strerror(errno));
    if (f->count == first)
        return sw_fail_at(err, SW_BAD_INPUT, item->place,
                          "no file matches '%.300s'; name files that every node has", item->text);
    qsort(f->path + first, (size_t)(f->count - first), sizeof *f->path, by_name);
    return 0;
}

int sw_data_files_find(const struct sw_paths *paths, struct sw_data_files *out,
                       struct sw_error *err)
{
    int status = 0;
    *out = (struct sw_data_files){.begin = calloc((size_t)paths->count + 1, sizeof *out->begin),
                                  .items = paths->count};
    if (out->begin == NULL)
        return no_memory(err);
    for (int32_t i = 0; status == 0 && i < paths->count; i++) {
        const struct sw_path *item = &paths->item[i];
        if (sw_data_is_pattern(item->text))
            status = add_matches(out, item, err);
        else if (!add(out, item->text))
            status = no_memory(err);
        out->begin[i + 1] = out->count;
    }
    if (status != 0)
        sw_data_files_free(out);
    return status;
}

void sw_data_files_free(struct sw_data_files *f)
{
    for (int32_t i = 0; i < f->count; i++)
        free(f->path[i]);
    free(f->path);
    free(f->begin);
    *f = (struct sw_data_files){0};
}
