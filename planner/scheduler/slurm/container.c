/* Ranks inside an image: pyxis' options of srun, or apptainer in front of the runner, with every
 * folder that the run needs at the same path as outside. */
#include "planner/scheduler/slurm/ranks.h"
#include "planner/scheduler/slurm/settings.h"

#include "core/base/device.h"
#include "core/base/file.h"
#include "core/plan/data_files.h"

#include <limits.h>
#include <stdio.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_FOLDERS = 64 };

struct folders {
    char *path[MOST_FOLDERS];
    int32_t count;
};

/* True if `path` is `folder` or lies in it. */
static bool is_inside(const char *path, size_t bytes, const char *folder)
{
    const size_t length = strlen(folder);
    return length <= bytes && strncmp(path, folder, length) == 0 &&
           (length == bytes || path[length] == '/' || (length > 0 && folder[length - 1] == '/'));
}

/* True if a user's mount shows the folder at its own path. */
static bool is_mounted(const struct sw_texts *mounts, const char *folder)
{
    for (int32_t i = 0; i < mounts->count; i++) {
        const char *from = mounts->item[i], *to = strchr(from, ':') + 1;
        const size_t length = (size_t)(to - 1 - from);
        char source[PATH_MAX];
        if (length >= sizeof source || strncmp(from, to, length) != 0 ||
            (to[length] != '\0' && to[length] != ':'))
            continue;
        memcpy(source, from, length);
        source[length] = '\0';
        if (is_inside(folder, strlen(folder), source))
            return true;
    }
    return false;
}

/* Takes ownership of `path`; NULL: out of memory. */
static int add(struct folders *f, const struct sw_texts *mounts, char *path, struct sw_error *err)
{
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the folders of a container");
    bool there = is_mounted(mounts, path);
    for (int32_t i = 0; i < f->count && !there; i++)
        there = is_inside(path, strlen(path), f->path[i]);
    if (there) {
        free(path);
        return 0;
    }
    if (f->count == MOST_FOLDERS) {
        free(path);
        return sw_fail(err, SW_BAD_INPUT,
                       "more than %d folders to mount in a container; keep the data in fewer",
                       MOST_FOLDERS);
    }
    f->path[f->count++] = path;
    if (strpbrk(path, ",:") == NULL)
        return 0;
    return sw_fail(err, SW_BAD_INPUT,
                   "the folder '%s' cannot be mounted in a container: ',' and ':' separate mounts; "
                   "move it",
                   path);
}

static int gather(struct folders *f, const char *plan, const char *runner,
                  const struct sw_run_config *run, struct sw_error *err)
{
    const struct sw_container_config *container = &sw_slurm_settings(&run->cluster)->container;
    const struct sw_texts *mounts = &container->mounts;
    if (add(f, mounts, strdup(run->directory), err) != 0 ||
        add(f, mounts, strdup(run->checkpoint_directory), err) != 0 ||
        add(f, mounts, sw_path_folder(plan), err) != 0)
        return -1;
    const struct sw_paths *const data[2] = {&run->data_paths, &run->data_validation};
    for (int i = 0; i < 2; i++)
        for (int32_t j = 0; j < data[i]->count; j++)
            if (add(f, mounts, sw_data_folder(data[i]->item[j].text), err) != 0)
                return -1;
    if (run->stage.from != NULL && run->stage.count == 0 &&
        add(f, mounts, strdup(run->stage.from), err) != 0)
        return -1;
    if (run->init_from != NULL && add(f, mounts, strdup(run->init_from), err) != 0)
        return -1;
    if (run->init_adapter != NULL && add(f, mounts, strdup(run->init_adapter), err) != 0)
        return -1;
    const struct sw_job_config *job = &run->job;
    if (job->checkpoint != NULL && add(f, mounts, strdup(job->checkpoint), err) != 0)
        return -1;
    const char *const files[] = {job->input, job->output, job->token_file};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] != NULL && add(f, mounts, sw_path_folder(files[i]), err) != 0)
            return -1;
    return container->runner != NULL ? 0 : add(f, mounts, sw_path_folder(runner), err);
}

/* One word: "/a:/a,/b:/b:ro". */
static void add_mounts(struct sw_argv *out, const char *option, const struct folders *f,
                       const struct sw_texts *mounts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *list = open_memstream(&text, &bytes);
    if (list == NULL) {
        out->failed = true;
        return;
    }
    fputs(option, list);
    for (int32_t i = 0; i < f->count; i++)
        fprintf(list, "%s%s:%s", i > 0 ? "," : "", f->path[i], f->path[i]);
    for (int32_t i = 0; i < mounts->count; i++)
        fprintf(list, "%s%s", f->count + i > 0 ? "," : "", mounts->item[i]);
    if (fclose(list) == 0)
        sw_argv_add(out, "%s", text);
    else
        out->failed = true;
    free(text);
}

static void add_options(struct sw_argv *out, const struct sw_texts *options)
{
    for (int32_t i = 0; i < options->count; i++)
        sw_argv_add(out, "%s", options->item[i]);
}

/* https://github.com/NVIDIA/pyxis#usage */
static void add_pyxis(struct sw_argv *out, const struct sw_container_config *container,
                      const struct folders *f)
{
    sw_argv_add(out, "--container-image=%s", container->image);
    add_mounts(out, "--container-mounts=", f, &container->mounts);
    add_options(out, &container->options);
}

/* https://apptainer.org/docs/user/latest/cli/apptainer_exec.html */
static void add_exec(struct sw_argv *out, const struct sw_container_config *container,
                     const struct folders *f, const char *flag)
{
    sw_argv_add(out, "%s", container->kind == SW_CONTAINER_APPTAINER ? "apptainer" : "singularity");
    sw_argv_add(out, "exec");
    if (flag != NULL)
        sw_argv_add(out, "%s", flag);
    add_mounts(out, "--bind=", f, &container->mounts);
    add_options(out, &container->options);
    sw_argv_add(out, "%s", container->image);
}

bool sw_slurm_has_container(const struct sw_run_config *run)
{
    const struct sw_container_config *container = &sw_slurm_settings(&run->cluster)->container;
    return container->kind != SW_CONTAINER_NONE && container->image != NULL;
}

static int add_container(const struct sw_run_config *run, const char *plan, const char *runner,
                         struct sw_argv *options, struct sw_argv *prefix, struct sw_error *err)
{
    const struct sw_container_config *container = &sw_slurm_settings(&run->cluster)->container;
    struct folders f = {.count = 0};
    if (!sw_slurm_has_container(run))
        return 0;
    const int status = gather(&f, plan, runner, run, err);
    if (status == 0 && container->kind == SW_CONTAINER_PYXIS)
        add_pyxis(options, container, &f);
    else if (status == 0)
        add_exec(prefix, container, &f,
                 sw_device_row(run->cluster.accelerator.device)->container_flag);
    for (int32_t i = 0; i < f.count; i++)
        free(f.path[i]);
    return status;
}

int sw_slurm_rank_words(const struct sw_run_config *run, const char *plan, const char *runner,
                        struct sw_argv *options, struct sw_argv *prefix, struct sw_error *err)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    if (slurm->cpu_bind != NULL)
        sw_argv_add(options, "--cpu-bind=%s", slurm->cpu_bind);
    if (slurm->gpu_bind != NULL)
        sw_argv_add(options, "--gpu-bind=%s", slurm->gpu_bind);
    if (add_container(run, plan, runner, options, prefix, err) != 0)
        return -1;
    add_options(options, &slurm->srun_options);
    return sw_argv_check(options, err) != 0 ? -1 : sw_argv_check(prefix, err);
}
