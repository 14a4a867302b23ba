/* A rank inside an image: pyxis' options of srun, or apptainer in front of the runner, with every
 * folder that the run needs at the same path as outside. */
#include "planner/emit/script.h"

#include "core/base/device.h"
#include "core/base/file.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FOLDERS = 16 };

struct folders {
    char *path[MOST_FOLDERS];
    int32_t count;
};

/* Whether `path` is `folder` or lies in it. */
static bool is_inside(const char *path, size_t bytes, const char *folder)
{
    const size_t length = strlen(folder);
    return length <= bytes && strncmp(path, folder, length) == 0 &&
           (length == bytes || path[length] == '/' || (length > 0 && folder[length - 1] == '/'));
}

/* Whether a mount of the user's shows the folder at its own path. */
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

/* Takes over `path`, which may be NULL: memory ran out. */
static int add(struct folders *f, const struct sw_texts *mounts, char *path, struct sw_error *err)
{
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
    bool there = is_mounted(mounts, path);
    for (int32_t i = 0; i < f->count && !there; i++)
        there = is_inside(path, strlen(path), f->path[i]);
    if (there) {
        free(path);
        return 0;
    }
    f->path[f->count++] = path;
    if (strpbrk(path, ",:") == NULL)
        return 0;
    return sw_fail(err, SW_BAD_INPUT,
                   "the folder '%s' cannot be mounted in a container: ',' and ':' separate mounts; "
                   "move it",
                   path);
}

static int gather(struct folders *f, const struct sw_script *s, const struct sw_run_config *run,
                  struct sw_error *err)
{
    const struct sw_container_config *container = &run->cluster.slurm.container;
    const struct sw_texts *mounts = &container->mounts;
    if (add(f, mounts, strdup(run->directory), err) != 0 ||
        add(f, mounts, strdup(run->checkpoint_directory), err) != 0 ||
        add(f, mounts, sw_path_folder(s->plan), err) != 0)
        return -1;
    if (run->data_path != NULL && add(f, mounts, sw_path_folder(run->data_path), err) != 0)
        return -1;
    if (run->init_from != NULL && add(f, mounts, strdup(run->init_from), err) != 0)
        return -1;
    const struct sw_job_config *job = &run->job;
    if (job->checkpoint != NULL && add(f, mounts, strdup(job->checkpoint), err) != 0)
        return -1;
    const char *const files[] = {job->input, job->output, job->token_file};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i] != NULL && add(f, mounts, sw_path_folder(files[i]), err) != 0)
            return -1;
    return container->runner != NULL ? 0 : add(f, mounts, sw_path_folder(s->runner), err);
}

/* One word: "/a:/a,/b:/b:ro". */
static void write_mounts(FILE *out, const char *option, const struct folders *f,
                         const struct sw_texts *mounts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *list = open_memstream(&text, &bytes);
    if (list == NULL)
        return;
    fputs(option, list);
    for (int32_t i = 0; i < f->count; i++)
        fprintf(list, "%s%s:%s", i > 0 ? "," : "", f->path[i], f->path[i]);
    for (int32_t i = 0; i < mounts->count; i++)
        fprintf(list, "%s%s", f->count + i > 0 ? "," : "", mounts->item[i]);
    if (fclose(list) == 0) {
        fputc(' ', out);
        sw_template_write_word(out, text);
    }
    free(text);
}

static void write_options(FILE *out, const struct sw_texts *options)
{
    for (int32_t i = 0; i < options->count; i++) {
        fputc(' ', out);
        sw_template_write_word(out, options->item[i]);
    }
}

/* https://github.com/NVIDIA/pyxis#usage */
static void write_pyxis(FILE *out, const struct sw_container_config *container,
                        const struct folders *f)
{
    char image[1100];
    snprintf(image, sizeof image, "--container-image=%s", container->image);
    fputc(' ', out);
    sw_template_write_word(out, image);
    write_mounts(out, "--container-mounts=", f, &container->mounts);
    write_options(out, &container->options);
}

/* https://apptainer.org/docs/user/latest/cli/apptainer_exec.html */
static void write_exec(FILE *out, const struct sw_container_config *container,
                       const struct folders *f, const char *flag)
{
    fprintf(out, " %s exec%s%s",
            container->kind == SW_CONTAINER_APPTAINER ? "apptainer" : "singularity",
            flag != NULL ? " " : "", flag != NULL ? flag : "");
    write_mounts(out, "--bind=", f, &container->mounts);
    write_options(out, &container->options);
    fputc(' ', out);
    sw_template_write_word(out, container->image);
}

bool sw_script_has_container(const struct sw_run_config *run)
{
    const struct sw_container_config *container = &run->cluster.slurm.container;
    return container->kind != SW_CONTAINER_NONE && container->image != NULL;
}

int sw_script_prepare_container(struct sw_script *s, const struct sw_run_config *run, FILE *options,
                                FILE *prefix, struct sw_error *err)
{
    const struct sw_container_config *container = &run->cluster.slurm.container;
    struct folders f = {.count = 0};
    if (!sw_script_has_container(run))
        return 0;
    const int status = gather(&f, s, run, err);
    if (status == 0 && container->kind == SW_CONTAINER_PYXIS)
        write_pyxis(options, container, &f);
    else if (status == 0)
        write_exec(prefix, container, &f,
                   sw_device_row(run->cluster.accelerator.device)->container_flag);
    for (int32_t i = 0; i < f.count; i++)
        free(f.path[i]);
    return status;
}
