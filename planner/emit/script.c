/* Values for script templates, and the reference page about them. */
#include "planner/emit/script.h"

#include "core/base/file.h"
#include "planner/emit/head.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds this program; the runner is built and installed beside it. */
static int find_programs(struct sw_script *s, struct sw_error *err)
{
    static const char beside[] = "/runner";
    const ssize_t length =
        readlink("/proc/self/exe", s->supervisor, sizeof s->supervisor - sizeof beside);
    if (length <= 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot find out where plan is: %s", strerror(errno));
    s->supervisor[length] = '\0';
    memcpy(s->runner, s->supervisor, (size_t)length + 1);
    char *slash = strrchr(s->runner, '/');
    if (slash == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot find out where plan is");
    strcpy(slash, beside);
    return 0;
}

int sw_script_plan_name(const struct sw_run_config *run, int32_t nodes, char out[NAME_MAX],
                        struct sw_error *err)
{
    char number[16] = "";
    const bool staged = run->stage.count > 0;
    if (run->nodes_least < run->nodes_most)
        snprintf(number, sizeof number, ".%d", (int)nodes);
    if (snprintf(out, NAME_MAX, "%s%s%s%s.plan.yaml", run->name, staged ? "." : "",
                 staged ? run->stage.name : "", number) >= NAME_MAX)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the plan is too long");
    return 0;
}

static int prepare_paths(struct sw_script *s, const struct sw_run_config *run, int32_t nodes,
                         const char *directory, struct sw_error *err)
{
    char absolute[PATH_MAX];
    if (realpath(directory, absolute) == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot name the folder '%s': %s", directory,
                       strerror(errno));
    if (sw_script_plan_name(run, nodes, s->plan_name, err) != 0)
        return -1;
    if (snprintf(s->plan, sizeof s->plan, "%s/%s", absolute, s->plan_name) >= (int)sizeof s->plan ||
        snprintf(s->stem, sizeof s->stem, "%s/%s%s%s", absolute, run->name,
                 run->stage.count > 0 ? "." : "",
                 run->stage.count > 0 ? run->stage.name : "") >= (int)sizeof s->stem)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the plan is too long");
    if (find_programs(s, err) != 0)
        return -1;
    return sw_scheduler_of_jobs(&run->cluster)->script->log(run, s->log, err);
}

/* Sets the plan for each number of nodes. */
static void prepare_life(struct sw_script *s, const struct sw_run_config *run,
                         const struct sw_emit_plan *plan, int32_t count)
{
    const bool elastic = run->nodes_least < run->nodes_most;
    size_t used = 0;
    for (int32_t i = 0; i < count; i++)
        used += (size_t)snprintf(s->digests + used, sizeof s->digests - used, "%s%d:%016" PRIx64,
                                 i == 0 ? "" : ",", (int)plan[i].nodes, plan[i].digest);
    snprintf(s->plans, sizeof s->plans, "%d-%d", (int)run->nodes_least, (int)run->nodes_most);
    snprintf(s->nodes, sizeof s->nodes, "%d", (int)run->nodes_most);
    s->value[SW_PLACEHOLDER_NODES].value = elastic ? s->plans : s->nodes;
    s->value[SW_PLACEHOLDER_PLAN_STEM].value = s->stem;
    s->value[SW_PLACEHOLDER_PLANS].value = s->plans;
    s->value[SW_PLACEHOLDER_DIGESTS].value = s->digests;
    s->value[SW_PLACEHOLDER_ELASTIC].value = elastic ? "yes" : NULL;
    s->value[SW_PLACEHOLDER_CHECKPOINTS].value = run->checkpoint_directory;
}

static int prepare_job(struct sw_script *s, const struct sw_run_config *run, struct sw_error *err)
{
    static const char *const types[] = {"train", "generate", "score", "serve"};
    const struct sw_job_config *job = &run->job;
    if (snprintf(s->output, sizeof s->output, "%s/%s.jsonl", run->directory, types[job->type]) >=
        (int)sizeof s->output)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the output is too long");
    snprintf(s->shards, sizeof s->shards, "%d", (int)job->shards);
    snprintf(s->port, sizeof s->port, "%d", (int)job->port);
    s->value[SW_PLACEHOLDER_JOB_TYPE].value = types[job->type];
    s->value[SW_PLACEHOLDER_JOB_CHECKPOINT].value =
        job->checkpoint != NULL ? job->checkpoint : run->checkpoint_directory;
    s->value[SW_PLACEHOLDER_JOB_INPUT].value = job->input;
    s->value[SW_PLACEHOLDER_JOB_OUTPUT].value = job->output != NULL ? job->output : s->output;
    s->value[SW_PLACEHOLDER_JOB_SHARDS].value = s->shards;
    s->value[SW_PLACEHOLDER_JOB_HOST].value = job->host;
    s->value[SW_PLACEHOLDER_JOB_PORT].value = job->port > 0 ? s->port : NULL;
    s->value[SW_PLACEHOLDER_JOB_TOKEN_FILE].value = job->token_file;
    return 0;
}

/* Makes names and kinds of all values, all unset. */
static int make_values(struct sw_script *s, struct sw_error *err)
{
#define X(id, shown, form, about)                                                                  \
    [SW_PLACEHOLDER_##id] = {.name = (shown), .kind = SW_TEMPLATE_##form},
    static const struct sw_template_value own[SW_PLACEHOLDER_COUNT] = {SW_PLACEHOLDERS(X)};
#undef X
    size_t count = SW_PLACEHOLDER_COUNT;
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++)
        for (const struct sw_placeholder *p = sw_schedulers[i]->script->placeholders;
             p != NULL && p->name != NULL; p++)
            count++;
    s->value = calloc(count + 1, sizeof *s->value);
    if (s->value == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
    memcpy(s->value, own, sizeof own);
    struct sw_template_value *value = s->value + SW_PLACEHOLDER_COUNT;
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++)
        for (const struct sw_placeholder *p = sw_schedulers[i]->script->placeholders;
             p != NULL && p->name != NULL; p++)
            *value++ = (struct sw_template_value){.name = p->name, .kind = p->kind};
    return 0;
}

/* Fills the values of every row, since a user's template may be for any. */
static int fill_rows(struct sw_script *s, const struct sw_script_request *request,
                     struct sw_error *err)
{
    struct sw_template_value *value = s->value + SW_PLACEHOLDER_COUNT;
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++) {
        const struct sw_script_row *row = sw_schedulers[i]->script;
        if (row->placeholders == NULL)
            continue;
        if (row->fill(request, value, &s->texts, err) != 0)
            return -1;
        for (const struct sw_placeholder *p = row->placeholders; p->name != NULL; p++)
            value++;
    }
    return sw_argv_check(&s->texts, err);
}

int sw_script_prepare(struct sw_script *s, const struct sw_run_config *run, const char *run_path,
                      const char *commit, const struct sw_emit_plan *plan, int32_t count,
                      const struct sw_emit_job *job, const char *directory, struct sw_error *err)
{
    const struct sw_emit_plan *most = &plan[count - 1]; /* with the most nodes */
    const struct sw_candidate *c = &most->candidate;
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    struct sw_script_request request = {
        .run = run,
        .step_seconds = job != NULL ? job->step_seconds : most->trained_step_s,
        .lead_seconds = job != NULL ? job->lead_seconds : sw_emit_signal_lead_s(plan, count),
        .plan = s->plan,
        .runner = s->runner,
        .placement = &most->placed.placement};
    if (make_values(s, err) != 0 || prepare_paths(s, run, most->nodes, directory, err) != 0)
        return -1;
    snprintf(s->version, sizeof s->version, "%s", sw_version());
    sw_mesh_format(&c->decision.mesh, s->mesh, sizeof s->mesh);
    sw_mesh_format_order(&c->decision.mesh, s->order, sizeof s->order);
    snprintf(s->digest, sizeof s->digest, "%016" PRIx64, most->digest);
    sw_format_bytes((double)c->memory.total, s->memory);
    sw_format_bytes((double)c->memory.limit, s->limit);
    sw_format_seconds(c->cost.step_seconds, s->seconds);
    snprintf(s->ranks, sizeof s->ranks, "%d", sw_mesh_rank_count(&c->decision.mesh));
    snprintf(s->per_node, sizeof s->per_node, "%d", run->cluster.accelerators_per_node);
    s->value[SW_PLACEHOLDER_VERSION].value = s->version;
    /* name only: the same run gives the same script in any folder */
    s->value[SW_PLACEHOLDER_RUN_PATH].value = sw_path_name(sw_command_shown(run_path));
    s->value[SW_PLACEHOLDER_NAME].value = run->name;
    s->value[SW_PLACEHOLDER_MESH_DIM].value = s->mesh;
    s->value[SW_PLACEHOLDER_AXIS_ORDER].value = s->order;
    s->value[SW_PLACEHOLDER_DIGEST].value = s->digest;
    s->value[SW_PLACEHOLDER_MEMORY].value = s->memory;
    s->value[SW_PLACEHOLDER_MEMORY_LIMIT].value = s->limit;
    s->value[SW_PLACEHOLDER_STEP_SECONDS].value = s->seconds;
    if (run->says_steps)
        sw_report_run(run, job != NULL ? job->mean_step_s : c->cost.step_seconds, s->run_time,
                      sizeof s->run_time);
    else
        snprintf(s->run_time, sizeof s->run_time, "the run does not say how many steps it takes");
    s->value[SW_PLACEHOLDER_RUN_TIME].value = s->run_time;
    s->value[SW_PLACEHOLDER_PLAN].value = s->plan;
    s->value[SW_PLACEHOLDER_PLAN_NAME].value = s->plan_name;
    s->value[SW_PLACEHOLDER_RUNNER].value = s->runner;
    s->value[SW_PLACEHOLDER_SUPERVISOR].value = s->supervisor;
    s->value[SW_PLACEHOLDER_DIRECTORY].value = run->directory;
    s->value[SW_PLACEHOLDER_LOG].value = s->log;
    s->value[SW_PLACEHOLDER_RANKS].value = s->ranks;
    s->value[SW_PLACEHOLDER_RANKS_PER_NODE].value = s->per_node;
    prepare_life(s, run, plan, count);
    s->value[SW_PLACEHOLDER_STAGES].value = job != NULL ? job->stages : NULL;
    s->value[SW_PLACEHOLDER_NEXT].value = job != NULL ? job->next : NULL;
    if (prepare_job(s, run, err) != 0)
        return -1;
    if (row->queue != NULL)
        s->value[SW_PLACEHOLDER_TIME_LIMIT].value =
            sw_script_time_limit(row, run, request.step_seconds, request.lead_seconds, s->time);
    if (sw_script_set_head(s, run, run_path, commit, plan, count, err) != 0)
        return -1;
    return fill_rows(s, &request, err);
}

char *sw_script_fill(const struct sw_run_config *run, const struct sw_script *script,
                     struct sw_error *err)
{
    const struct sw_script_row *row = sw_scheduler_of(&run->cluster)->script;
    const struct sw_template_dialect *dialect =
        sw_scheduler_of_jobs(&run->cluster)->script->dialect;
    if (row->runs_once != NULL && row->runs_once(run))
        return sw_template_fill(row->once.file, row->once.text, script->value, dialect, err);
    if (run->job.type != SW_JOB_TRAIN)
        return sw_template_fill(row->other.file, row->other.text, script->value, dialect, err);
    return sw_template_fill(row->training.file, row->training.text, script->value, dialect, err);
}

void sw_script_free(struct sw_script *s)
{
    if (s == NULL)
        return;
    sw_argv_free(&s->texts);
    free(s->value);
    free(s);
}

/* Describes the forms of values, in the words of a row with directives. */
static void write_rules(FILE *out, const struct sw_template_dialect *d)
{
    fprintf(
        out,
        "\nHow a value is written depends on its line:\n\n"
        "* On a line that starts with `%s`, before the first command, in double quotes where "
        "`%s` needs them. A line\n"
        "  with a value that is not set is left out, so that a directive appears only where its "
        "setting is given. An\n"
        "  indented `%s`, which `%s` does not read, is moved to the first column.\n",
        d->directive, d->reader, d->directive, d->reader);
    fputs("* On any other line that starts with `#` as it is.\n"
          "* Everywhere else as one word of the shell, in single quotes where it needs them; a "
          "value that is not set is an empty\n"
          "  word. So write `plan={{plan}}`, without quotes of your own, and `\"$plan\"` from then "
          "on.\n"
          "* *Lines* stand alone in a line, `{{setup}}`, and become none, one or several; *words* "
          "stand between other words of a\n"
          "  command.\n\n",
          out);
    fprintf(out,
            "Refused, with the place: a placeholder that is not in the table; `{{` without `}}`; "
            "one inside quotes (`'`, `\"`, `$'`,\n"
            "backticks), in a here-document, in `${...}`, in arithmetic or behind a backslash or "
            "`$`, where its value could be read as\n"
            "code; a control character in a value; a template with none of `{{plan}}`, "
            "`{{plan_name}}` and `{{plan_stem}}` outside of comments; a `%s` behind the first "
            "command, which `%s` "
            "would silently ignore.\n",
            d->directive, d->reader);
}

void sw_script_write_reference(FILE *out)
{
#define X(id, name, kind, about) {name, about},
    static const char *const own[][2] = {SW_PLACEHOLDERS(X)};
#undef X
    fputs("<!-- Written by docs/make_reference.sh from what the programs print. -->\n\n"
          "# Job script templates\n\n"
          "`plan emit` fills the template of the cluster's launcher:\n\n",
          out);
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++) {
        const struct sw_script_row *row = sw_schedulers[i]->script;
        fprintf(out, "* %s: `%s`", sw_schedulers[i]->name, row->training.file);
        if (row->once.file != NULL)
            fprintf(out, "; of one that runs once `%s`", row->once.file);
        if (row->other.file != NULL)
            fprintf(out, "; of a job that does not train `%s`", row->other.file);
        fputc('\n', out);
    }
    fputs("\nCopy one, change it, and give it with `--template FILE`. `{{name}}` stands for a "
          "value:\n\n| placeholder | value |\n| --- | --- |\n",
          out);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        fprintf(out, "| `{{%s}}` | %s |\n", own[i][0], own[i][1]);
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++)
        for (const struct sw_placeholder *p = sw_schedulers[i]->script->placeholders;
             p != NULL && p->name != NULL; p++)
            fprintf(out, "| `{{%s}}` | %s |\n", p->name, p->about);
    for (int32_t i = 0; sw_schedulers[i] != NULL; i++)
        if (sw_schedulers[i]->script->dialect != NULL) {
            write_rules(out, sw_schedulers[i]->script->dialect);
            break;
        }
}
