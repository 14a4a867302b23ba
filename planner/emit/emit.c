/* `plan emit`: the plan file and the script that starts it. Both are written beside their place and
 * moved there when complete, so a job that reads them never sees half a file. Same input, same
 * bytes. */
#include "planner/emit/emit.h"

#include "core/base/file.h"
#include "core/base/json.h"

#include "planner/emit/script.h"
#include "planner/command/annotate.h"
#include "planner/command/format.h"
#include "planner/job/guard.h"
#include "planner/policy/site.h"
#include "planner/scheduler/scheduler.h"
#include "planner/search/frontier.h"
#include "planner/command/template.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TEMPLATE_BYTES = 1 << 20 };

/* A line for people; said NULL: they have JSON. */
static void tell(FILE *said, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(FILE *said, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (said != NULL)
        vfprintf(said, format, arguments);
    va_end(arguments);
}

static int write_file(const char *directory, const char *name, const char *text, size_t bytes,
                      mode_t mode, struct sw_error *err)
{
    char *path = sw_path_join(directory, name);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing '%s'", name);
    const int status = sw_file_write(path, text, bytes, mode, err);
    const int reason = errno;
    free(path);
    return status == 0 ? 0 : sw_path_blame(err, reason, "name another folder with -o");
}

/* A user's template, in memory that the caller frees. */
static char *read_template(const char *path, struct sw_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    const int status = sw_file_read(path, false, MAX_TEMPLATE_BYTES, &text, &bytes, NULL);
    if (status != 0 && errno != EFBIG) {
        sw_fail_at(err, errno == ENOMEM ? SW_ENVIRONMENT : SW_BAD_INPUT,
                   (struct sw_place){.file = path}, "cannot open the template: %s",
                   strerror(errno));
        return NULL;
    }
    if (status == 0 && memchr(text, '\0', bytes) == NULL)
        return text;
    sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){.file = path},
               "the template is not a text of at most %d bytes", MAX_TEMPLATE_BYTES);
    free(text);
    return NULL;
}

/* Whether a script of it knows what to run: the plan, or the plans of an elastic run, outside of
 * comments. */
static bool names_plan(const char *template)
{
    static const char *const names[] = {"{{plan}}", "{{plan_name}}", "{{plan_stem}}"};
    const char *end;
    for (const char *line = template; *line != '\0'; line = *end == '\0' ? end : end + 1) {
        end = line + strcspn(line, "\n");
        if (line[strspn(line, " \t")] == '#')
            continue;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (memmem(line, (size_t)(end - line), names[i], strlen(names[i])) != NULL)
                return true;
    }
    return false;
}

static char *script_text(const struct sw_options *options, const struct sw_run_config *run,
                         const struct sw_script *script, struct sw_error *err)
{
    const struct sw_template_dialect *dialect =
        sw_scheduler_of_jobs(&run->cluster)->script->dialect;
    if (options->template_path == NULL)
        return sw_script_fill(run, script, err);
    char *template = read_template(options->template_path, err);
    if (template == NULL)
        return NULL;
    char *text = sw_template_fill(options->template_path, template, script->value, dialect, err);
    if (text != NULL && !names_plan(template)) {
        sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){options->template_path, 1, 1},
                   "the template names no plan, so its job would run nothing of this one; write "
                   "{{plan}} where the runner or 'plan supervise' gets it, as templates/ has it");
        free(text);
        text = NULL;
    }
    free(template);
    return text;
}

static int write_plans(const struct sw_run_config *run, const struct sw_emit_plan *plan,
                       int32_t count, const char *directory, FILE *said, struct sw_error *err)
{
    char name[NAME_MAX], mesh[64], memory[SW_FORMAT_BYTES], limit[SW_FORMAT_BYTES],
        seconds[SW_FORMAT_BYTES];
    for (int32_t i = 0; i < count; i++) {
        const struct sw_candidate *c = &plan[i].candidate;
        if (sw_script_plan_name(run, plan[i].nodes, name, err) != 0 ||
            write_file(directory, name, plan[i].text, plan[i].bytes, 0666, err) != 0)
            return -1;
        tell(said, "wrote %s/%s: mesh_dim %s, %s of %s, %s a %s\n", directory, name,
             sw_mesh_format(&c->decision.mesh, mesh, sizeof mesh),
             sw_format_bytes((double)c->memory.total, memory),
             sw_format_bytes((double)c->memory.limit, limit),
             sw_format_seconds(c->cost.step_seconds, seconds),
             run->job.type == SW_JOB_TRAIN ? "step" : "token");
    }
    return 0;
}

/* The git checkout that a folder is inside of; false: none. */
static bool find_checkout(const char *folder, char out[PATH_MAX])
{
    char probe[PATH_MAX + 8];
    if (realpath(folder, out) == NULL)
        return false;
    for (;;) {
        snprintf(probe, sizeof probe, "%s/.git", out);
        if (access(probe, F_OK) == 0)
            return true;
        char *slash = strrchr(out, '/');
        if (slash == NULL || slash == out)
            return false;
        *slash = '\0';
    }
}

/* A run file that says no directory writes beside itself: gigabytes of checkpoints, perhaps into a
 * repository. */
static void note_checkout(const char *path, const struct sw_run_config *run)
{
    char folder[PATH_MAX], by_default[PATH_MAX + 512], checkout[PATH_MAX];
    if (strcmp(path, "-") == 0 || realpath(path, folder) == NULL)
        return;
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return;
    *slash = '\0';
    snprintf(by_default, sizeof by_default, "%s/runs/%.250s", folder, run->name);
    char actual[PATH_MAX];
    if (realpath(run->directory, actual) == NULL || strcmp(actual, by_default) != 0 ||
        !find_checkout(actual, checkout))
        return;
    fprintf(stderr,
            "%s: note: the run writes its logs and checkpoints to %s, inside the git checkout %s; "
            "'directory' in the run file names another folder\n",
            path, actual, checkout);
}

static void warn(const struct sw_options *options, const struct sw_run_config *run,
                 const struct sw_emit_plan *plan, int32_t count)
{
    char warning[192], mesh[64];
    const char *path = sw_command_shown(options->files[0]);
    const bool trains = run->job.type == SW_JOB_TRAIN;
    if (trains) {
        sw_report_warn_of_time(options, options->files[0], run, plan[count - 1].trained_step_s);
        sw_emit_warn_of_short_limit(options, options->files[0], run,
                                    sw_emit_signal_lead_s(plan, count));
    }
    for (int32_t i = 0; i < count && trains; i++) {
        struct sw_run_config part = sw_run_on_nodes(run, plan[i].nodes);
        struct sw_advice advice;
        part.nodes_least =
            run->nodes_least; /* an elastic run says itself which fewer it may have */
        part.nodes_most = run->nodes_most;
        if (sw_search_advise(&part, NULL, &plan[i].candidate, &advice, NULL) == 0)
            sw_report_warn_of_choice(options->files[0], &part, &plan[i].candidate, &advice);
    }
    for (int32_t i = 0; i < count; i++)
        if (sw_headroom_warning(&plan[i].candidate.memory, warning, sizeof warning)[0] != '\0')
            fprintf(stderr, "%s: warning: mesh_dim %s %s\n", path,
                    sw_mesh_format(&plan[i].candidate.decision.mesh, mesh, sizeof mesh), warning);
    sw_report_warn_of_lacks(options, run, false);
    sw_site_advise(options, run, &plan[count - 1].candidate, NULL);
    sw_report_note_device(options->files[0], run);
    note_checkout(options->files[0], run);
}

/* A job without a limit of its own gets its partition's, which may be minutes or weeks. */
static void tell_time(const char *path, const struct sw_run_config *run,
                      const struct sw_script *script, FILE *said)
{
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    const char *time = script->value[SW_PLACEHOLDER_TIME_LIMIT].value;
    if (row->launcher->time == NULL)
        return;
    if (time != NULL && time == sw_job_terms(&run->cluster).time)
        return;
    if (time != NULL)
        tell(said, "time limit %s, from the predicted time of all steps; '%s.%s' sets another\n",
             time, row->launcher->key, row->launcher->time);
    else
        fprintf(stderr,
                "%s: warning: the job has no time limit of its own but its partition's; set "
                "'%s.%s'%s\n",
                sw_command_shown(path), row->launcher->key, row->launcher->time,
                run->job.type == SW_JOB_TRAIN
                    ? ", or 'optimizer.total_steps', from which it follows"
                    : "");
}

static int make_output_folder(const struct sw_run_config *run, const struct sw_script *script,
                              struct sw_error *err)
{
    const bool writes = run->job.type == SW_JOB_GENERATE || run->job.type == SW_JOB_SCORE;
    char *folder = writes ? sw_path_folder(script->value[SW_PLACEHOLDER_JOB_OUTPUT].value) : NULL;
    const int status = folder != NULL ? sw_file_make_folder(folder, err) : 0;
    free(folder);
    return status;
}

/* The same for scripts: what was written, and how it is started. */
static void print_json(const struct sw_run_config *run, const struct sw_script *script,
                       const struct sw_emit_plan *plan, int32_t count, const char *directory,
                       const char *path)
{
    struct sw_json json = {.out = stdout, .style = SW_JSON_TABS}, *j = &json;
    char name[NAME_MAX], file[PATH_MAX + NAME_MAX], text[64];
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", "shardwright.emit/1");
    sw_json_text(j, "run", run->name);
    sw_json_text(j, "script", path);
    sw_json_text(j, "starter", row->starter);
    sw_json_text(j, "time", script->value[SW_PLACEHOLDER_TIME_LIMIT].value);
    sw_json_array(j, "plans");
    for (int32_t i = 0; i < count; i++) {
        const struct sw_candidate *c = &plan[i].candidate;
        (void)sw_script_plan_name(run, plan[i].nodes, name, NULL); /* it was written by that name */
        snprintf(file, sizeof file, "%s/%s", directory, name);
        sw_json_object(j, NULL);
        sw_json_text(j, "path", file);
        sw_json_integer(j, "nodes", plan[i].nodes);
        snprintf(text, sizeof text, "%016" PRIx64, plan[i].digest);
        sw_json_text(j, "digest", text);
        sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, text, sizeof text));
        sw_json_integer(j, "memory", c->memory.total);
        sw_json_integer(j, "limit", c->memory.limit);
        sw_json_number(j, run->job.type == SW_JOB_TRAIN ? "step_seconds" : "token_seconds",
                       c->cost.step_seconds);
        sw_json_end(j);
    }
    sw_json_end(j);
    sw_json_end(j);
    putchar('\n');
}

static int emit(const struct sw_options *options, const struct sw_run_config *run,
                const struct sw_emit_plan *plan, int32_t count, FILE *said, struct sw_emitted *out,
                struct sw_error *err)
{
    int status = -1;
    const char *directory = options->output == NULL ? "." : options->output;
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    const struct sw_emit_plan *most = &plan[count - 1]; /* on all of the nodes */
    char script_name[NAME_MAX], *text = NULL;
    struct sw_script *script = calloc(1, sizeof *script);
    struct sw_run_config *scripted = malloc(sizeof *scripted);
    if (script == NULL || scripted == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
        goto out;
    }
    *scripted = *run;
    /* what a container mounts must be there */
    if (row->has_container(run) && sw_file_make_folder(run->checkpoint_directory, err) != 0)
        goto out;
    /* the settings that the plan's mesh wants; which nodes an elastic run may have, it says itself
     */
    scripted->cluster.settings = most->placed.run.cluster.settings;
    if (sw_script_prepare(script, scripted, options->files[0],
                          options->commit != NULL ? options->commit : "", plan, count, directory,
                          err) != 0)
        goto out;
    text = script_text(options, scripted, script, err);
    if (text == NULL || make_output_folder(run, script, err) != 0 ||
        sw_job_guard(run->directory, script->plan, most->digest, err) != 0)
        goto out;
    snprintf(script_name, sizeof script_name, "%s.%s", run->name, row->suffix);
    if (write_plans(run, plan, count, directory, said, err) != 0 ||
        write_file(directory, script_name, text, strlen(text), 0777, err) != 0)
        goto out;
    if (row->queue != NULL)
        tell_time(options->files[0], run, script, said);
    tell(said, "wrote %s/%s\n", directory, script_name);
    if (most->placed.placement.why[0] != '\0')
        tell(said, "%s\n", most->placed.placement.why);
    if (out != NULL) {
        *out = (struct sw_emitted){.digest = most->digest, .candidate = most->candidate};
        snprintf(out->plan, sizeof out->plan, "%s", script->plan);
        snprintf(out->log, sizeof out->log, "%s", script->log);
    } else {
        snprintf(script->plan, sizeof script->plan, "%s/%s", directory, script_name);
        if (said == NULL) {
            print_json(run, script, plan, count, directory, script->plan);
        } else {
            tell(said, "start it with: %s ", row->starter);
            sw_template_write_word(said, script->plan);
            tell(said, "\n");
        }
    }
    warn(options, run, plan, count);
    status = 0;
out:
    sw_script_free(script);
    free(scripted);
    free(text);
    return status;
}

/* What -o names is a folder, or nothing yet. */
static int check_folder(const char *path, struct sw_error *err)
{
    struct stat status;
    if (stat(path, &status) != 0 ? errno != ENOTDIR : S_ISDIR(status.st_mode))
        return 0;
    return sw_fail(err, SW_BAD_INPUT, "'%s' is not a folder; -o names one for plan and script",
                   path);
}

int sw_emit(const struct sw_options *options, const struct sw_run_file *run_file, FILE *said,
            struct sw_emitted *out)
{
    const char *directory = options->output == NULL ? "." : options->output;
    struct sw_error err = {0};
    int32_t count = 0;
    if (check_folder(directory, &err) != 0)
        return sw_command_fail(&err);
    struct sw_emit_plan *plan = calloc(SW_EMIT_PLANS, sizeof *plan);
    if (plan == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory for the plans");
        return sw_command_fail(&err);
    }
    int status = sw_command_check_data(&run_file->run, &err) == 0 ? SW_OK : sw_command_fail(&err);
    if (status == SW_OK)
        status = sw_emit_plans(&run_file->run, directory, plan, &count);
    if (status == SW_OK && emit(options, &run_file->run, plan, count, said, out, &err) != 0)
        status = sw_command_fail(&err);
    sw_emit_plans_free(plan, count);
    free(plan);
    return status;
}

int sw_command_emit(const struct sw_options *options)
{
    struct sw_run_file run_file;
    struct sw_error err = {0};
    int status = sw_run_file_open(options, true, &run_file);
    if (status == SW_OK && sw_frontier_settle(options->files[0], &run_file.run, &err) != 0)
        status = sw_command_fail(&err);
    if (status == SW_OK)
        status = sw_emit(options, &run_file, options->json ? NULL : stdout, NULL);
    sw_run_file_free(&run_file);
    return status;
}

void sw_emit_warn_of_short_limit(const struct sw_options *options, const char *path,
                                 const struct sw_run_config *run, int64_t lead_seconds)
{
    char message[320];
    const struct sw_script_row *row = sw_scheduler_of(&run->cluster)->script;
    if (row->short_limit != NULL &&
        row->short_limit(run, lead_seconds, message, sizeof message)[0] != '\0')
        sw_warn_at(options, path, &run->time_place, message);
}
