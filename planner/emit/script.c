/* The values that a script template is filled with, and the page about them. */
#include "planner/emit/script.h"
#include "planner/scheduler/slurm/settings.h"

#include "core/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where this program is; the runner is built and installed beside it. */
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

/* The log in the run's folder; Slurm takes % for a pattern, so the folder's own are doubled. */
static int log_path(const char *directory, const char *name, char out[2 * PATH_MAX],
                    struct sw_error *err)
{
    const size_t room = 2 * (size_t)PATH_MAX - strlen(name) - 2;
    size_t used = 0;
    for (const char *p = directory; *p != '\0'; p++) {
        if (used + 2 > room)
            return sw_fail(err, SW_ENVIRONMENT, "the path of the log is too long");
        if (*p == '%')
            out[used++] = '%';
        out[used++] = *p;
    }
    out[used++] = '/';
    strcpy(out + used, name);
    return 0;
}

int sw_script_plan_name(const struct sw_run_config *run, int32_t nodes, char out[NAME_MAX],
                        struct sw_error *err)
{
    char number[16] = "";
    if (run->nodes_least < run->nodes_most)
        snprintf(number, sizeof number, ".%d", (int)nodes);
    if (snprintf(out, NAME_MAX, "%s%s.plan.yaml", run->name, number) >= NAME_MAX)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the plan is too long");
    return 0;
}

static int prepare_paths(struct sw_script *s, const struct sw_run_config *run, int32_t nodes,
                         const char *directory, struct sw_error *err)
{
    const struct sw_queue_row *queue = sw_scheduler_of(&run->cluster)->queue;
    const char *log = sw_slurm_settings(&run->cluster)->log;
    char absolute[PATH_MAX];
    if (realpath(directory, absolute) == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot name the folder '%s': %s", directory,
                       strerror(errno));
    if (sw_script_plan_name(run, nodes, s->plan_name, err) != 0)
        return -1;
    if (snprintf(s->plan, sizeof s->plan, "%s/%s", absolute, s->plan_name) >= (int)sizeof s->plan ||
        snprintf(s->stem, sizeof s->stem, "%s/%s", absolute, run->name) >= (int)sizeof s->stem)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the plan is too long");
    if (find_programs(s, err) != 0)
        return -1;
    return log_path(run->directory,
                    log != NULL           ? log
                    : queue == NULL       ? "slurm-%j.out" /* it prints to where it is started */
                    : run->job.shards > 1 ? queue->log_of_task
                                          : queue->log,
                    s->log, err);
}

/* What the script does with the run's life: which plan for how many nodes, and how it goes on. */
static void prepare_life(struct sw_script *s, const struct sw_run_config *run,
                         const struct sw_emit_plan *plan, int32_t count)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const bool elastic = run->nodes_least < run->nodes_most;
    size_t used = 0;
    for (int32_t i = 0; i < count; i++)
        used += (size_t)snprintf(s->digests + used, sizeof s->digests - used, "%s%d:%016" PRIx64,
                                 i == 0 ? "" : ",", (int)plan[i].nodes, plan[i].digest);
    snprintf(s->plans, sizeof s->plans, "%d-%d", (int)run->nodes_least, (int)run->nodes_most);
    snprintf(s->nodes, sizeof s->nodes, "%d", (int)run->nodes_most);
    snprintf(s->attempts, sizeof s->attempts, "%d",
             slurm->max_attempts > 0 ? (int)slurm->max_attempts : SW_MAX_ATTEMPTS);
    s->value[SW_PLACE_NODES].value = elastic ? s->plans : s->nodes;
    s->value[SW_PLACE_PLAN_STEM].value = s->stem;
    s->value[SW_PLACE_PLANS].value = s->plans;
    s->value[SW_PLACE_DIGESTS].value = s->digests;
    s->value[SW_PLACE_ELASTIC].value = elastic ? "yes" : NULL;
    s->value[SW_PLACE_CHECKPOINTS].value = run->checkpoint_directory;
    s->value[SW_PLACE_CONTINUE].value = sw_word(sw_words_continue, slurm->continues);
    s->value[SW_PLACE_MAX_ATTEMPTS].value = s->attempts;
    s->value[SW_PLACE_PREFLIGHT].value = sw_word(sw_words_preflight, slurm->preflight);
}

static int prepare_job(struct sw_script *s, const struct sw_run_config *run, struct sw_error *err)
{
    static const char *const types[] = {"train", "generate", "score", "serve"};
    const struct sw_job_config *job = &run->job;
    if (snprintf(s->output, sizeof s->output, "%s/%s.jsonl", run->directory, types[job->type]) >=
        (int)sizeof s->output)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the output is too long");
    snprintf(s->shards, sizeof s->shards, "%d", (int)job->shards);
    if (job->at_once > 0)
        snprintf(s->array, sizeof s->array, "0-%d%%%d", (int)job->shards - 1, (int)job->at_once);
    else
        snprintf(s->array, sizeof s->array, "0-%d", (int)job->shards - 1);
    snprintf(s->port, sizeof s->port, "%d", (int)job->port);
    s->value[SW_PLACE_JOB_TYPE].value = types[job->type];
    s->value[SW_PLACE_JOB_CHECKPOINT].value =
        job->checkpoint != NULL ? job->checkpoint : run->checkpoint_directory;
    s->value[SW_PLACE_JOB_INPUT].value = job->input;
    s->value[SW_PLACE_JOB_OUTPUT].value = job->output != NULL ? job->output : s->output;
    s->value[SW_PLACE_JOB_SHARDS].value = s->shards;
    s->value[SW_PLACE_ARRAY].value = job->shards > 1 ? s->array : NULL;
    s->value[SW_PLACE_JOB_HOST].value = job->host;
    s->value[SW_PLACE_JOB_PORT].value = job->port > 0 ? s->port : NULL;
    s->value[SW_PLACE_JOB_TOKEN_FILE].value = job->token_file;
    return 0;
}

int sw_script_prepare(struct sw_script *s, const struct sw_run_config *run, const char *run_path,
                      const struct sw_emit_plan *plan, int32_t count, const char *directory,
                      struct sw_error *err)
{
    const struct sw_emit_plan *most = &plan[count - 1]; /* on all of the nodes */
    const struct sw_candidate *c = &most->candidate;
#define X(id, shown, form, about) [SW_PLACE_##id] = {.name = (shown), .kind = SW_TEMPLATE_##form},
    static const struct sw_template_value unset[SW_PLACEHOLDER_COUNT + 1] = {SW_PLACEHOLDERS(X)};
#undef X
    memcpy(s->value, unset, sizeof unset);
    if (prepare_paths(s, run, most->nodes, directory, err) != 0)
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
    s->value[SW_PLACE_VERSION].value = s->version;
    /* its name only: the same run gives the same script from whatever folder */
    s->value[SW_PLACE_RUN_PATH].value = sw_path_name(sw_command_shown(run_path));
    s->value[SW_PLACE_NAME].value = run->name;
    s->value[SW_PLACE_MESH_DIM].value = s->mesh;
    s->value[SW_PLACE_AXIS_ORDER].value = s->order;
    s->value[SW_PLACE_DIGEST].value = s->digest;
    s->value[SW_PLACE_MEMORY].value = s->memory;
    s->value[SW_PLACE_MEMORY_LIMIT].value = s->limit;
    s->value[SW_PLACE_STEP_SECONDS].value = s->seconds;
    if (run->says_steps)
        sw_report_run(run, c->cost.step_seconds, s->run_time, sizeof s->run_time);
    else
        snprintf(s->run_time, sizeof s->run_time, "the run does not say how many steps it takes");
    s->value[SW_PLACE_RUN_TIME].value = s->run_time;
    s->value[SW_PLACE_PLAN].value = s->plan;
    s->value[SW_PLACE_PLAN_NAME].value = s->plan_name;
    s->value[SW_PLACE_RUNNER].value = s->runner;
    s->value[SW_PLACE_SUPERVISOR].value = s->supervisor;
    s->value[SW_PLACE_DIRECTORY].value = run->directory;
    s->value[SW_PLACE_LOG].value = s->log;
    s->value[SW_PLACE_RANKS].value = s->ranks;
    s->value[SW_PLACE_RANKS_PER_NODE].value = s->per_node;
    prepare_life(s, run, plan, count);
    if (prepare_job(s, run, err) != 0)
        return -1;
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    if (row->values != NULL)
        (void)row->values(&run->cluster, &s->value[SW_PLACEHOLDER_COUNT]);
    return sw_script_prepare_slurm(s, run, c->cost.step_seconds, sw_emit_signal_lead_s(plan, count),
                                   err);
}

void sw_script_free(struct sw_script *s)
{
    for (int32_t i = 0; s != NULL && i < SW_PLACEHOLDER_COUNT; i++)
        free(s->block[i]);
    free(s);
}

void sw_script_write_reference(FILE *out)
{
#define X(id, name, kind, about) {name, about},
    static const char *const rows[][2] = {SW_PLACEHOLDERS(X)};
#undef X
    fputs(
        "<!-- Written by docs/make_reference.sh from what the programs print. -->\n\n"
        "# Job script templates\n\n"
        "`plan emit` fills a template: `templates/slurm.sbatch`, or `templates/mpirun.sh` where "
        "the cluster's launcher is mpirun.\n"
        "Copy one, change it, and give it with `--template FILE`. `{{name}}` stands for a value:\n"
        "\n| placeholder | value |\n| --- | --- |\n",
        out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(out, "| `{{%s}}` | %s |\n", rows[i][0], rows[i][1]);
    fputs(
        "\nHow a value is written depends on its line:\n\n"
        "* On a line that starts with `#SBATCH`, before the first command, in double quotes "
        "where `sbatch` needs them. A line\n"
        "  with a value that is not set is left out, so `#SBATCH --qos={{slurm.qos}}` appears "
        "only where a qos is given. An\n"
        "  indented `#SBATCH`, which `sbatch` does not read, is moved to the first column.\n"
        "* On any other line that starts with `#` as it is.\n"
        "* Everywhere else as one word of the shell, in single quotes where it needs them; a "
        "value that is not set is an empty\n"
        "  word. So write `plan={{plan}}`, without quotes of your own, and `\"$plan\"` from then "
        "on.\n"
        "* *Lines* stand alone in a line, `{{setup}}`, and become none, one or several; *words* "
        "stand between other words of a\n"
        "  command.\n\n"
        "Refused, with the place: a placeholder that is not in the table; `{{` without `}}`; one "
        "inside quotes (`'`, `\"`, `$'`,\n"
        "backticks), in a here-document, in `${...}`, in arithmetic or behind a backslash or `$`, "
        "where its value could be read as\n"
        "code; a control character in a value; a `#SBATCH` behind the first command, which "
        "`sbatch` would silently ignore.\n",
        out);
}

bool sw_script_beside_trains(const char *folder, const struct sw_run_config *run)
{
    enum { MOST_SCRIPT_BYTES = 1 << 22 };
    char path[PATH_MAX], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%.3000s/%.500s.sbatch", folder, run->name);
    if (sw_file_read(path, true, MOST_SCRIPT_BYTES, &text, &bytes, NULL) != 0)
        return true; /* said later */
    const bool texts = strstr(text, "\ntype=generate\n") != NULL ||
                       strstr(text, "\ntype=score\n") != NULL ||
                       strstr(text, "\ntype=serve\n") != NULL;
    free(text);
    return !texts;
}
