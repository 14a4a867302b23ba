#include "core/plan/inputs.h"

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/plan/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* FNV-1a 64 over a file's bytes; false: it cannot be read. */
static bool file_digest(const char *path, uint64_t *digest)
{
    char block[1 << 14];
    size_t bytes;
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false; /* reading a pipe or a device might never end */
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    *digest = SW_HASH_START;
    while ((bytes = fread(block, 1, sizeof block, file)) > 0)
        *digest = sw_hash_bytes(*digest, block, bytes);
    const bool good = ferror(file) == 0;
    fclose(file);
    return good;
}

static int add(struct sw_plan_inputs *out, const char *directory, const char *path,
               struct sw_error *err)
{
    struct sw_plan_input *input = &out->input[out->count];
    if (path == NULL || !file_digest(path, &input->digest))
        return 0; /* read from a text: no file can change */
    input->path = sw_path_seen_from(directory, path);
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
    const char *paths[SW_PLAN_MAX_INPUTS] = {run->path,
                                             run->model.path,
                                             run->cluster.path,
                                             run->cluster.accelerator.path,
                                             run->cluster.profile.path,
                                             sw_cluster_fabric_path(&run->cluster)};
    for (int32_t i = 0; i < run->cluster.link_count; i++)
        paths[SW_PLAN_MAX_INPUTS - SW_MAX_LINKS + i] = run->cluster.link[i].efficiency_path;
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
    uint64_t digest;
    char *directory = sw_path_folder(plan_path);
    char *whole = directory == NULL ? NULL : sw_path_join(directory, input->path);
    *path = whole == NULL ? NULL : sw_path_absolute(whole);
    /* not by *path: '..' behind a symbolic link misleads */
    const bool there = whole != NULL && file_digest(whole, &digest);
    free(whole);
    free(directory);
    if (!there)
        return SW_INPUT_MISSING;
    return digest == input->digest ? SW_INPUT_SAME : SW_INPUT_CHANGED;
}
