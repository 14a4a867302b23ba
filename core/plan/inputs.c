#include "core/plan/inputs.h"

#include "core/plan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *join(const char *directory, const char *path)
{
    const size_t bytes = strlen(directory) + strlen(path) + 2;
    char *out = malloc(bytes);
    if (out != NULL)
        snprintf(out, bytes, "%s/%s", directory, path);
    return out;
}

char *sw_path_absolute(const char *path)
{
    char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
    if (path[0] != '/' && here == NULL)
        return NULL;
    char *whole = here != NULL ? join(here, path) : strdup(path);
    free(here);
    if (whole == NULL)
        return NULL;
    size_t used = 0; /* what is written never overtakes what is read */
    for (const char *part = whole; *part != '\0';) {
        part += strspn(part, "/");
        const size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.') {
            while (used > 0 && whole[--used] != '/')
                continue;
        } else if (length > 0 && !(length == 1 && part[0] == '.')) {
            whole[used++] = '/';
            memmove(whole + used, part, length);
            used += length;
        }
        part += length;
    }
    if (used == 0)
        whole[used++] = '/';
    whole[used] = '\0';
    return whole;
}

/* The first part of a path and the slash after it. */
static size_t first_part(const char *path)
{
    const size_t length = strcspn(path, "/");
    return length + (path[length] == '/');
}

/* Whether two paths start with the same part. */
static bool same_part(const char *a, const char *b)
{
    const size_t length = strcspn(a, "/");
    return length > 0 && strcspn(b, "/") == length && memcmp(a, b, length) == 0;
}

/* Of two absolute paths without detours. */
static char *relative(const char *base, const char *path)
{
    size_t up = 0, used = 0;
    const char *from = base + 1, *to = path + 1;
    while (same_part(from, to)) {
        from += first_part(from);
        to += first_part(to);
    }
    for (; *from != '\0'; from += first_part(from))
        up++;
    char *out = malloc(3 * up + strlen(to) + 2);
    if (out == NULL)
        return NULL;
    for (size_t i = 0; i < up; i++, used += 3)
        memcpy(out + used, "../", 3);
    strcpy(out + used, to);
    used += strlen(to);
    if (used > 0 && out[used - 1] == '/')
        out[used - 1] = '\0';
    return used > 0 ? out : strcpy(out, ".");
}

char *sw_path_relative(const char *base, const char *path)
{
    char *from = sw_path_absolute(base), *to = sw_path_absolute(path);
    char *out = from != NULL && to != NULL ? relative(from, to) : NULL;
    free(from);
    free(to);
    return out;
}

/* FNV-1a 64 over a file's bytes; false: it cannot be read. */
static bool file_digest(const char *path, uint64_t *digest)
{
    char block[1 << 14];
    size_t bytes;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    *digest = SW_PLAN_FNV_START;
    while ((bytes = fread(block, 1, sizeof block, file)) > 0)
        *digest = sw_plan_fnv(*digest, block, bytes);
    const bool good = ferror(file) == 0;
    fclose(file);
    return good;
}

static int add(struct sw_plan_inputs *out, const char *directory, const char *path,
               struct sw_error *err)
{
    struct sw_plan_input *input = &out->input[out->count];
    if (path == NULL || !file_digest(path, &input->digest))
        return 0; /* read from a text: there is no file to change */
    /* real paths where there are any: '..' after a symbolic link is not what it looks like */
    char *from = realpath(directory, NULL), *to = realpath(path, NULL);
    input->path = sw_path_relative(from != NULL ? from : directory, to != NULL ? to : path);
    free(from);
    free(to);
    if (input->path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot name '%s' in the plan: %s", path,
                       strerror(errno));
    for (int32_t i = 0; i < out->count; i++)
        if (strcmp(out->input[i].path, input->path) == 0) {
            free(input->path);
            input->path = NULL;
            return 0;
        }
    out->count++;
    return 0;
}

int sw_plan_inputs_gather(const struct sw_run_config *run, const char *plan_directory,
                          struct sw_plan_inputs *out, struct sw_error *err)
{
    const char *const paths[SW_PLAN_MAX_INPUTS] = {run->path, run->model.path, run->cluster.path,
                                                   run->cluster.accelerator.path};
    memset(out, 0, sizeof *out);
    for (int32_t i = 0; i < SW_PLAN_MAX_INPUTS; i++)
        if (add(out, plan_directory, paths[i], err) != 0) {
            sw_plan_inputs_free(out);
            return -1;
        }
    return 0;
}

void sw_plan_inputs_free(struct sw_plan_inputs *inputs)
{
    for (int32_t i = 0; i < SW_PLAN_MAX_INPUTS; i++)
        free(inputs->input[i].path);
    memset(inputs, 0, sizeof *inputs);
}

enum sw_plan_input_state sw_plan_input_check(const char *plan_path,
                                             const struct sw_plan_input *input, char **path)
{
    const char *slash = strrchr(plan_path, '/');
    uint64_t digest;
    char *directory =
        slash == NULL ? strdup(".")
                      : strndup(plan_path, slash == plan_path ? 1 : (size_t)(slash - plan_path));
    char *whole = directory == NULL ? NULL : join(directory, input->path);
    *path = whole == NULL ? NULL : sw_path_absolute(whole);
    free(whole);
    free(directory);
    if (*path == NULL || !file_digest(*path, &digest))
        return SW_INPUT_MISSING;
    return digest == input->digest ? SW_INPUT_SAME : SW_INPUT_CHANGED;
}
