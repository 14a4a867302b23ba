/* `plan emit`: the plan file and the script that starts it. Both are written under temporary names
 * and renamed when complete, so a job never reads half a file. Same input, same bytes. */
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

/* Prints a line for people; said NULL: JSON replaces it. */
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

/* Reads a user's template into memory that the caller frees. */
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

/* True if a template has one of these placeholders outside of comments. */
static bool names(const char *template, const char *const *words, size_t count)
{
    const char *end;
    for (const char *line = template; *line != '\0'; line = *end == '\0' ? end : end + 1) {
        end = line + strcspn(line, "\n");
        if (line[strspn(line, " \t")] == '#')
            continue;
        for (size_t i = 0; i < count; i++)
            if (memmem(line, (size_t)(end - line), words[i], strlen(words[i])) != NULL)
                return true;
    }
    return false;
}

/* Fails if a script from the template would not name its plan, the plans of an elastic run, or the
 * stages of a run. */
static int check_template(const char *path, const char *template, bool staged, struct sw_error *err)
{
    static const char *const plans[] = {"{{plan}}", "{{plan_name}}", "{{plan_stem}}"},
                             *const stages[] = {"{{stages}}"};
    if (!names(template, plans, sizeof plans / sizeof plans[0]))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, 1, 1},
                          "the template names no plan, so its job would run nothing of this one; "
                          "write {{plan}} where the runner or 'plan supervise' gets it, as "
                          "templates/ has it");
    if (staged && !names(template, stages, 1))
        return sw_fail_at(err, SW_BAD_INPUT, (struct sw_place){path, 1, 1},
                          "the template names no stages, so its job would train the first of the "
                          "run alone; write '--stages {{stages}} --next {{next}}' behind 'plan "
                          "supervise', as templates/slurm.sbatch has it");
    return 0;
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
    const bool staged = script->value[SW_PLACEHOLDER_STAGES].value != NULL;
    if (text != NULL && check_template(options->template_path, template, staged, err) != 0) {
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

/* The git checkout that contains a folder; false: none. */
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

/* Notes a run file without directory, which writes beside itself: gigabytes of checkpoints, perhaps
 * into a repository. */
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
    char actual[PATH_MAX], *whole = sw_run_folder(run);
    const bool usual = whole != NULL && realpath(whole, actual) != NULL &&
                       strcmp(actual, by_default) == 0 && find_checkout(actual, checkout);
    free(whole);
    if (!usual)
        return;
    fprintf(stderr,
            "%s: note: the run writes its logs and checkpoints to %s, inside the git checkout %s; "
            "'directory' in the run file names another folder\n",
            path, actual, checkout);
}

/* Warns about one stage, or a run without stages. */
static void warn(const struct sw_options *options, const struct sw_run_config *run,
                 const struct sw_emit_plan *plan, int32_t count)
{
    char warning[192], mesh[64];
    const char *path = sw_command_shown(options->files[0]);
    const bool trains = run->job.type == SW_JOB_TRAIN;
    for (int32_t i = 0; i < count && trains; i++) {
        struct sw_run_config part = sw_run_on_nodes(run, plan[i].nodes);
        struct sw_advice advice;
        part.nodes_least = run->nodes_least; /* an elastic run gives the smaller numbers itself */
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
}

/* Notes a job without a limit of its own: it gets its partition's, minutes or weeks. */
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
        fprintf(
            stderr, "%s: warning: the job has no time limit but its partition's; set '%s.%s'%s\n",
            sw_command_shown(path), row->launcher->key, row->launcher->time,
            run->job.type == SW_JOB_TRAIN ? ", or 'optimizer.total_steps', from which it follows"
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

/* State of emitting a run. */
struct emitting {
    const struct sw_options *options;
    const char *directory;
    struct sw_emit_stage *stage; /* [count] */
    int32_t count;
    struct sw_emit_job *job; /* [job_count] */
    int32_t job_count;
    FILE *said;
    char plan[PATH_MAX], log[SW_LOG_BYTES], time[SW_TIME_BYTES]; /* the first job's */
};

static void write_plan_json(struct sw_json *j, const struct emitting *e, int32_t stage, int32_t i)
{
    const struct sw_run_config *run = &e->stage[stage].run;
    const struct sw_emit_plan *plan = &e->stage[stage].plan[i];
    const struct sw_candidate *c = &plan->candidate;
    char name[NAME_MAX], file[PATH_MAX + NAME_MAX], text[64];
    (void)sw_script_plan_name(run, plan->nodes, name, NULL); /* it was written under that name */
    snprintf(file, sizeof file, "%s/%s", e->directory, name);
    sw_json_object(j, NULL);
    sw_json_text(j, "path", file);
    sw_stages_write_stage(j, run, stage > 0 ? &e->stage[stage - 1].run : NULL);
    sw_json_integer(j, "nodes", plan->nodes);
    snprintf(text, sizeof text, "%016" PRIx64, plan->digest);
    sw_json_text(j, "digest", text);
    sw_json_text(j, "mesh_dim", sw_mesh_format(&c->decision.mesh, text, sizeof text));
    sw_json_integer(j, "memory", c->memory.total);
    sw_json_integer(j, "limit", c->memory.limit);
    sw_json_number(j, run->job.type == SW_JOB_TRAIN ? "step_seconds" : "token_seconds",
                   c->cost.step_seconds);
    sw_json_end(j);
}

/* Prices of all stages; the caller frees them. NULL: no memory. */
static struct sw_stage_price *price_all(const struct emitting *e)
{
    struct sw_stage_price *price = calloc((size_t)e->count, sizeof *price);
    for (int32_t i = 0; price != NULL && i < e->count; i++) {
        const struct sw_emit_stage *s = &e->stage[i];
        sw_stage_price_make(&s->run, &s->plan[s->count - 1].candidate, &price[i]);
    }
    return price;
}

/* Writes JSON for scripts: written files, and the command that starts them. */
static void print_json(const struct emitting *e, const char *path)
{
    struct sw_json json = {.out = stdout, .style = SW_JSON_TABS}, *j = &json;
    const struct sw_run_config *run = &e->stage[0].run;
    char file[2 * PATH_MAX];
    sw_json_object(j, NULL);
    sw_json_text(j, "schema", "shardwright.emit/1");
    sw_json_text(j, "run", run->name);
    sw_json_text(j, "script", path);
    sw_json_text(j, "starter", sw_scheduler_of(&run->cluster)->starter);
    sw_json_text(j, "time", e->time[0] != '\0' ? e->time : NULL);
    sw_json_array(j, "plans");
    for (int32_t s = 0; s < e->count; s++)
        for (int32_t i = 0; i < e->stage[s].count; i++)
            write_plan_json(j, e, s, i);
    sw_json_end(j);
    if (run->stage.count > 0) {
        struct sw_stage_price *price = price_all(e);
        sw_json_array(j, "scripts");
        for (int32_t i = 0; i < e->job_count; i++) {
            snprintf(file, sizeof file, "%s/%s", e->directory, e->job[i].script);
            sw_json_text(j, NULL, file);
        }
        sw_json_end(j);
        if (price != NULL)
            sw_stages_write_totals(j, "totals", run, price, e->count);
        free(price);
    }
    sw_json_end(j);
    putchar('\n');
}

static int write_stages(const struct emitting *e, const struct sw_emit_job *job,
                        struct sw_error *err)
{
    for (int32_t i = job->first; i < job->first + job->count; i++)
        if (write_plans(&e->stage[i].run, e->stage[i].plan, e->stage[i].count, e->directory,
                        e->said, err) != 0)
            return -1;
    return 0;
}

/* Writes plans and script of one job. */
static int emit_job(struct emitting *e, const struct sw_emit_job *job, struct sw_error *err)
{
    int status = -1;
    const struct sw_emit_stage *first = &e->stage[job->first];
    const struct sw_emit_plan *most = &first->plan[first->count - 1]; /* with the most nodes */
    const char *path = e->options->files[0];
    char *text = NULL, *folder = NULL, *checkpoints = NULL;
    struct sw_script *script = calloc(1, sizeof *script);
    struct sw_run_config *run = malloc(sizeof *run), *scripted = malloc(sizeof *scripted);
    if (script == NULL || scripted == NULL || run == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
        goto out;
    }
    if (sw_emit_job_run(e->stage, job, run, &folder, &checkpoints, err) != 0)
        goto out;
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    *scripted = *run;
    /* folders that a container mounts must exist */
    if (row->has_container(run) && sw_file_make_folder(run->checkpoint_directory, err) != 0)
        goto out;
    /* settings for the plan's mesh; an elastic run's nodes are in its own settings */
    scripted->cluster.settings = most->placed.run.cluster.settings;
    if (sw_script_prepare(script, scripted, path,
                          e->options->commit != NULL ? e->options->commit : "", first->plan,
                          first->count, job, e->directory, err) != 0)
        goto out;
    text = script_text(e->options, scripted, script, err);
    if (text == NULL || make_output_folder(run, script, err) != 0 ||
        sw_job_guard(folder, script->plan, sw_emit_digest(e->stage, e->count), err) != 0)
        goto out;
    if (write_stages(e, job, err) != 0 ||
        write_file(e->directory, job->script, text, strlen(text), 0777, err) != 0)
        goto out;
    if (row->queue != NULL)
        tell_time(path, run, script, e->said);
    tell(e->said, "wrote %s/%s\n", e->directory, job->script);
    if (most->placed.placement.why[0] != '\0')
        tell(e->said, "%s\n", most->placed.placement.why);
    if (job->first == 0) {
        const char *time = script->value[SW_PLACEHOLDER_TIME_LIMIT].value;
        memcpy(e->plan, script->plan, sizeof e->plan);
        snprintf(e->log, sizeof e->log, "%s", script->log);
        snprintf(e->time, sizeof e->time, "%s", time != NULL ? time : "");
    }
    status = 0;
out:
    sw_script_free(script);
    free(scripted);
    free(run);
    free(text);
    free(folder);
    free(checkpoints);
    return status;
}

/* Writes the script that starts the run: that of the first job, or the one that starts those of
 * stages. */
static int emit_driver(const struct emitting *e, char name[NAME_MAX], struct sw_error *err)
{
    const struct sw_run_config *run = &e->stage[0].run;
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    size_t bytes = 0;
    snprintf(name, NAME_MAX, "%s", e->job[0].script);
    if (run->stage.count == 0 || row->allocation != NULL)
        return 0;
    if (snprintf(name, NAME_MAX, "%s.%s", run->name, row->suffix) >= NAME_MAX)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the script is too long");
    char *text = sw_emit_driver(e->stage, e->count, &bytes);
    const int status = text != NULL
                           ? write_file(e->directory, name, text, bytes, 0777, err)
                           : sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
    free(text);
    if (status == 0)
        tell(e->said, "wrote %s/%s\n", e->directory, name);
    return status;
}

/* Prints how a run's stages follow each other, and their totals. */
static void tell_stages(const struct emitting *e)
{
    struct sw_stage_price *price = e->said != NULL ? price_all(e) : NULL;
    for (int32_t i = 1; price != NULL && i < e->count; i++)
        sw_stages_tell_link(e->said, &e->stage[i].run, &e->stage[i - 1].run);
    if (price != NULL && e->stage[0].run.stage.count > 0)
        sw_stages_tell_totals(e->said, &e->stage[0].run, price, e->count);
    free(price);
}

/* Warns about the limit of each job, whose run has the steps of all its stages; about better
 * choices and missing files of each stage. */
static void warn_of_all(const struct emitting *e)
{
    const char *path = e->options->files[0];
    for (int32_t i = 0; i < e->job_count && e->stage[0].run.job.type == SW_JOB_TRAIN; i++) {
        const struct sw_emit_job *job = &e->job[i];
        struct sw_run_config run;
        char *folder, *checkpoints;
        if (sw_emit_job_run(e->stage, job, &run, &folder, &checkpoints, NULL) == 0) {
            sw_report_warn_of_time(e->options, path, &run, job->step_seconds);
            sw_emit_warn_of_short_limit(e->options, path, &run, job->lead_seconds);
        }
        free(folder);
        free(checkpoints);
    }
    for (int32_t i = 0; i < e->count; i++)
        warn(e->options, &e->stage[i].run, e->stage[i].plan, e->stage[i].count);
    sw_report_note_device(path, &e->stage[0].run);
    note_checkout(path, &e->stage[0].run);
}

static int emit(struct emitting *e, struct sw_emitted *out, struct sw_error *err)
{
    const struct sw_emit_stage *first = &e->stage[0];
    const struct sw_scheduler *row = sw_scheduler_of(&first->run.cluster);
    char name[NAME_MAX], path[2 * PATH_MAX];
    if (sw_emit_jobs_make(e->stage, e->count, e->directory, &e->job, &e->job_count, err) != 0)
        return -1;
    for (int32_t i = 0; i < e->job_count; i++)
        if (emit_job(e, &e->job[i], err) != 0)
            return -1;
    if (emit_driver(e, name, err) != 0 || sw_emit_stages_record(e->stage, e->count, err) != 0)
        return -1;
    tell_stages(e);
    if (out != NULL) {
        const struct sw_emit_plan *most = &first->plan[first->count - 1];
        *out = (struct sw_emitted){.digest = most->digest,
                                   .run_digest = sw_emit_digest(e->stage, e->count),
                                   .candidate = most->candidate};
        out->says_steps = true;
        for (int32_t i = 0; i < e->job_count; i++) {
            out->steps += e->job[i].steps;
            out->run_seconds += (double)e->job[i].steps * e->job[i].step_seconds;
            out->says_steps = out->says_steps && e->job[i].says_steps;
        }
        snprintf(out->plan, sizeof out->plan, "%s", e->plan);
        snprintf(out->log, sizeof out->log, "%s", e->log);
    } else {
        snprintf(path, sizeof path, "%s/%s", e->directory, name);
        if (e->said == NULL) {
            print_json(e, path);
        } else {
            tell(e->said, "start it with: %s ", row->starter);
            sw_template_write_word(e->said, path);
            tell(e->said, "\n");
        }
    }
    warn_of_all(e);
    return 0;
}

/* Checks that -o names a folder, or nothing yet. */
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
    struct emitting e = {.options = options,
                         .directory = options->output == NULL ? "." : options->output,
                         .count = run_file->count,
                         .said = said};
    struct sw_error err = {0};
    if (check_folder(e.directory, &err) != 0)
        return sw_command_fail(&err);
    e.stage = calloc((size_t)e.count, sizeof *e.stage);
    if (e.stage == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory for the plans");
        return sw_command_fail(&err);
    }
    int status = SW_OK;
    for (int32_t i = 0; i < e.count && status == SW_OK; i++) {
        struct sw_emit_stage *s = &e.stage[i];
        s->run = i == 0 ? run_file->run : sw_run_file_stage(options, run_file, i);
        if (run_file->aside != NULL) {
            snprintf(s->aside, sizeof s->aside, "%s%s%s", run_file->aside,
                     s->run.stage.count > 0 ? "/" : "",
                     s->run.stage.count > 0 ? s->run.stage.name : "");
            s->run.directory = s->aside;
        }
        status = (i == 0 || sw_frontier_settle(options->files[0], &s->run, &err) == 0) &&
                         sw_command_check_data(&s->run, &err) == 0
                     ? SW_OK
                     : sw_command_fail(&err);
        if (status == SW_OK)
            status = sw_emit_plans(&s->run, e.directory, s->plan, &s->count);
        if (status != SW_OK)
            sw_stages_tell_unmet(&s->run);
    }
    if (status == SW_OK && emit(&e, out, &err) != 0)
        status = sw_command_fail(&err);
    for (int32_t i = 0; i < e.count; i++)
        sw_emit_plans_free(e.stage[i].plan, e.stage[i].count);
    sw_emit_jobs_free(e.job, e.job_count);
    free(e.stage);
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
