#include "planner/command/command.h"

#include "core/base/text.h"
#include "core/plan/data_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *sw_version(void)
{
    return SW_VERSION;
}

int sw_command_fail(const struct sw_error *err)
{
    char text[SW_ERROR_TEXT_BYTES];
    fprintf(stderr, "%s\n", sw_error_format(err, "plan", text));
    return err->status == SW_OK ? SW_ENVIRONMENT : (int)err->status;
}

int32_t sw_command_diagnose(const struct sw_config *config, enum sw_notes notes)
{
    const bool colour = isatty(STDERR_FILENO) && getenv("NO_COLOR") == NULL;
    int32_t shown = 0;
    for (int32_t i = 0; i < sw_config_diagnostic_count(config); i++) {
        struct sw_diagnostic d = *sw_config_diagnostic(config, i);
        if (d.is_note && notes == SW_NOTES_HIDDEN)
            continue;
        if (d.is_note && notes == SW_NOTES_SHORT)
            d.source_line = NULL;
        sw_diagnostic_print(stderr, &d, colour);
        shown += !d.is_note;
    }
    const int32_t errors = sw_config_error_count(config);
    if (errors > shown)
        fprintf(stderr, "plan: error: %d more mistakes are not shown\n", errors - shown);
    return errors;
}

enum { MAX_INPUT_BYTES = 16 << 20 };

const char *sw_command_shown(const char *path)
{
    return strcmp(path, "-") == 0 ? "<stdin>" : path;
}

struct sw_config *sw_command_read(const char *path, enum sw_config_kind kind,
                                  const struct sw_options *options, struct sw_error *err)
{
    struct sw_config *config = NULL;
    char *text = NULL;
    size_t bytes = 0, room = 0;
    if (strcmp(path, "-") != 0)
        return sw_config_read(path, kind, options->launchers, options->override,
                              options->override_count, err);
    for (size_t got = 1; got > 0 && bytes <= MAX_INPUT_BYTES; bytes += got) {
        if (bytes == room) {
            char *grown = realloc(text, room = room * 2 + 65536);
            if (grown == NULL) {
                sw_fail(err, SW_ENVIRONMENT, "out of memory while reading standard input");
                goto out;
            }
            text = grown;
        }
        got = fread(text + bytes, 1, room - bytes, stdin);
    }
    if (ferror(stdin))
        sw_fail(err, SW_ENVIRONMENT, "cannot read standard input: %s", strerror(errno));
    else if (bytes > MAX_INPUT_BYTES)
        sw_fail(err, SW_BAD_INPUT, "standard input is larger than %d MiB; is it a run?",
                MAX_INPUT_BYTES >> 20);
    else
        config = sw_config_read_text(sw_command_shown(path), text, bytes, kind, options->launchers,
                                     options->override, options->override_count, err);
out:
    free(text);
    return config;
}

/* Applies options of the command line that are no overrides. */
static void apply_options(const struct sw_options *options, struct sw_run_config *run)
{
    if (options->mesh_dim != NULL) {
        run->mesh_dim = options->mesh_dim;
        run->mesh_dim_place = (struct sw_place){"--mesh_dim", 0, 0};
    }
    if (options->purpose != NULL ? strcmp(options->purpose, "serve") == 0
                                 : run->job.type != SW_JOB_TRAIN)
        sw_profile_for_serving(&run->cluster);
    else
        sw_profile_for_training(&run->cluster);
    for (int32_t i = 0; options->prefer != NULL && sw_prefer_words[i] != NULL; i++)
        if (strcmp(options->prefer, sw_prefer_words[i]) == 0)
            run->prefer = (enum sw_prefer)i;
}

struct sw_run_config sw_run_file_stage(const struct sw_options *options,
                                       const struct sw_run_file *run_file, int32_t i)
{
    struct sw_run_config run = *sw_config_stage(run_file->config, run_file->first + i);
    apply_options(options, &run);
    return run;
}

const struct sw_run_config *sw_run_file_before(const struct sw_options *options,
                                               const struct sw_run_file *run_file,
                                               struct sw_run_config *before)
{
    if (run_file->first == 0)
        return NULL;
    *before = sw_run_file_stage(options, run_file, -1);
    return before;
}

/* Selects the stages that a command is about. */
static int take_run(const struct sw_options *options, struct sw_run_file *out, struct sw_error *err)
{
    const int32_t stages = sw_config_stage_count(out->config);
    const char *names[64];
    out->first = 0;
    out->count = stages > 0 ? stages : 1;
    for (int32_t i = 0; options->stage != NULL && i < stages; i++) {
        names[i] = sw_config_stage(out->config, i)->stage.name;
        if (strcmp(names[i], options->stage) == 0) {
            out->first = i;
            out->count = 1;
        }
    }
    out->run = sw_run_file_stage(options, out, 0);
    if (options->stage == NULL || (stages > 0 && out->count == 1))
        return stages == 1 || out->count > 0 ? 0 : -1;
    const char *near = stages > 0 ? sw_text_nearest(options->stage, names, stages) : NULL;
    return sw_fail_at(err, SW_BAD_INPUT,
                      (struct sw_place){.file = sw_command_shown(options->files[0])},
                      stages == 0    ? "the run has no stages, and --stage names '%.64s'"
                      : near != NULL ? "no stage '%.64s'; did you mean '%s'?"
                                     : "no stage '%.64s'; the first is '%s'",
                      options->stage, near != NULL ? near : names[0]);
}

/* Folder that contains the last name of a path. */
static char *outer(const char *path, bool staged)
{
    const char *slash = staged ? strrchr(path, '/') : NULL;
    return slash != NULL && slash > path ? strndup(path, (size_t)(slash - path)) : strdup(path);
}

char *sw_run_folder(const struct sw_run_config *run)
{
    return outer(run->directory, run->stage.count > 0);
}

char *sw_run_checkpoints(const struct sw_run_config *run)
{
    const size_t length = strlen(run->directory);
    const bool inside = strncmp(run->checkpoint_directory, run->directory, length) == 0 &&
                        strcmp(run->checkpoint_directory + length, "/checkpoints") == 0;
    if (run->stage.count > 0 && inside)
        return sw_run_folder(run);
    return outer(run->checkpoint_directory, run->stage.count > 0);
}

/* True if the file was installed with this program. */
static bool is_installed(const char *file)
{
    char self[PATH_MAX], share[PATH_MAX], folder[PATH_MAX], real[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    const size_t bytes = sizeof share;
    if (snprintf(share, bytes, "%s/../share/shardwright/", self) >= (int)bytes ||
        realpath(share, folder) == NULL || realpath(file, real) == NULL)
        return false;
    return strncmp(real, folder, strlen(folder)) == 0 && real[strlen(folder)] == '/';
}

static bool is_set(const struct sw_options *options, const char *key)
{
    for (int32_t i = 0; i < options->override_count; i++)
        if (strncmp(options->override[i].text, key, strlen(key)) == 0 &&
            options->override[i].text[strlen(key)] == '=')
            return true;
    return false;
}

/* Moves the directory of an installed run to the working directory. */
static int leave_installation(const struct sw_options *options, struct sw_run_file *file,
                              struct sw_error *err)
{
    struct sw_run_config *run = &file->run;
    if (run->directory_is_absolute || is_set(options, "directory") ||
        !is_installed(options->files[0]))
        return 0;
    char *here = getcwd(NULL, 0);
    const size_t before = strlen(run->directory);
    const char *checkpoints = run->checkpoint_directory;
    const bool inside =
        strncmp(checkpoints, run->directory, before) == 0 && checkpoints[before] == '/';
    if (here == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "the working directory was deleted");
    if (asprintf(&file->moved[0], "%s/runs/%s", here, run->name) < 0)
        file->moved[0] = NULL;
    if (asprintf(&file->moved[1], "%s/runs/%s%s", here, run->name,
                 inside ? checkpoints + before : "/checkpoints") < 0)
        file->moved[1] = NULL;
    free(here);
    if (file->moved[0] == NULL || file->moved[1] == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory");
    if (run->stage.count > 0) {
        sw_config_move_stages(file->config, file->moved[0]);
        *run = sw_run_file_stage(options, file, 0);
        return 0;
    }
    run->directory = file->moved[0];
    if (!run->checkpoint_directory_is_absolute && !is_set(options, "checkpoint.directory"))
        run->checkpoint_directory = file->moved[1];
    return 0;
}

bool sw_run_file_try(const struct sw_options *options, struct sw_run_file *out)
{
    struct sw_error ignored = {0};
    memset(out, 0, sizeof *out);
    /* standard input was read already */
    if (options->file_count != 1 || strcmp(options->files[0], "-") == 0)
        return false;
    out->config = sw_command_read(options->files[0], SW_CONFIG_RUN, options, &ignored);
    const struct sw_run_config *run = NULL;
    if (out->config != NULL && sw_config_error_count(out->config) == 0 &&
        sw_config_make_paths_absolute(out->config, &ignored) == 0)
        run = sw_config_run(out->config);
    if (run == NULL)
        return false;
    return take_run(options, out, NULL) == 0 && leave_installation(options, out, &ignored) == 0;
}

int sw_run_file_open(const struct sw_options *options, bool absolute, struct sw_run_file *out)
{
    struct sw_error err = {0};
    memset(out, 0, sizeof *out);
    if (options->file_count != 1) {
        sw_fail(&err, SW_BAD_INPUT,
                options->file_count == 0 ? "name a run file, as in '%s'"
                                         : "one run file at a time, as in '%s'",
                "plan search configs/runs/quickstart.yaml");
        return sw_command_fail(&err);
    }
    out->config = sw_command_read(options->files[0], SW_CONFIG_RUN, options, &err);
    if (out->config == NULL)
        return sw_command_fail(&err);
    if (sw_command_diagnose(out->config, SW_NOTES_SHORT) > 0)
        return SW_BAD_INPUT;
    if (absolute && sw_config_make_paths_absolute(out->config, &err) != 0)
        return sw_command_fail(&err);
    const struct sw_run_config *run = sw_config_run(out->config);
    if (run == NULL) {
        sw_fail_at(&err, SW_BAD_INPUT,
                   (struct sw_place){.file = sw_command_shown(options->files[0])}, "holds no run");
        return sw_command_fail(&err);
    }
    if (take_run(options, out, &err) != 0 ||
        (absolute && leave_installation(options, out, &err) != 0))
        return sw_command_fail(&err);
    return SW_OK;
}

int sw_command_check_data(const struct sw_run_config *run, struct sw_error *err)
{
    return run->data_path == NULL || run->job.type != SW_JOB_TRAIN ? 0 : sw_data_check(run, err);
}

void sw_run_file_free(struct sw_run_file *run_file)
{
    sw_config_free(run_file->config);
    for (size_t i = 0; i < sizeof run_file->moved / sizeof run_file->moved[0]; i++)
        free(run_file->moved[i]);
    memset(run_file, 0, sizeof *run_file);
}
