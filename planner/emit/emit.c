/* `plan emit`: the plan file and the script that starts it. Both are written beside their place and
 * moved there when complete, so a job that reads them never sees half a file. Same input, same
 * bytes. */
#include "core/base/file.h"
#include "planner/command.h"

#include "core/cost/checkpoint.h"
#include "core/cost/device.h"
#include "core/program/state.h"

#include "planner/format.h"
#include "planner/template.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TEMPLATE_BYTES = 1 << 20 };

/* The texts of one script; values point into it. */
struct script {
    char version[32], mesh[64], order[64], digest[20], memory[SW_FORMAT_BYTES],
        limit[SW_FORMAT_BYTES], seconds[SW_FORMAT_BYTES], ranks[16], nodes[16], per_node[16],
        cpus[16], gpus[16], plan_name[NAME_MAX];
    char runner[PATH_MAX], plan[PATH_MAX], log[2 * PATH_MAX];
    struct sw_template_value values[32];
};

static int write_file(const char *directory, const char *name, const char *text, size_t bytes,
                      mode_t mode, struct sw_error *err)
{
    char *path = sw_path_join(directory, name);
    if (path == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing '%s'", name);
    const int status = sw_file_write(path, text, bytes, mode, err);
    free(path);
    return status;
}

/* The text of the plan, in memory that the caller frees, and its digest. */
static char *plan_text(const struct sw_run_config *run, const struct sw_candidate *c,
                       double save_seconds, const uint64_t program_digest[SW_PROGRAM_KINDS],
                       const char *directory, size_t *bytes, uint64_t *digest, struct sw_error *err)
{
    char *text = NULL;
    struct sw_plan_inputs inputs;
    struct sw_plan_run placed;
    const struct sw_plan_prediction prediction = {.step_seconds = c->cost.step_seconds,
                                                  .memory_total = c->memory.total,
                                                  .arena_bytes = c->memory.arena,
                                                  .save_seconds = save_seconds};
    if (sw_plan_inputs_gather(run, directory, &inputs, err) != 0)
        return NULL;
    if (sw_plan_run_place(run, directory, &placed, err) != 0) {
        sw_plan_inputs_free(&inputs);
        return NULL;
    }
    int status = -1;
    FILE *memory = open_memstream(&text, bytes);
    if (memory == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
        goto out;
    }
    status = sw_plan_write(memory, &placed.run, &inputs, &c->decision, &prediction, program_digest,
                           digest, err);
    if (fclose(memory) != 0 && status == 0)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
out:
    sw_plan_run_free(&placed);
    sw_plan_inputs_free(&inputs);
    if (status == 0)
        return text;
    free(text);
    return NULL;
}

/* The runner is built and installed beside plan. */
static int find_runner(char out[PATH_MAX], struct sw_error *err)
{
    const ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - sizeof "runner");
    if (length <= 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot find out where plan is: %s", strerror(errno));
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    if (slash == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot find out where plan is");
    strcpy(slash + 1, "runner");
    return 0;
}

/* DIRECTORY/slurm-%j.out; Slurm takes % for a pattern, so the folder's own are doubled. */
static void log_path(const char *directory, char out[2 * PATH_MAX])
{
    size_t used = 0;
    for (const char *p = directory; *p != '\0' && used < 2 * PATH_MAX - 32; p++) {
        if (*p == '%')
            out[used++] = '%';
        out[used++] = *p;
    }
    strcpy(out + used, "/slurm-%j.out");
}

static int prepare_script(struct script *s, const struct sw_run_config *run, const char *run_path,
                          const struct sw_candidate *c, const char *directory, uint64_t digest,
                          struct sw_error *err)
{
    const struct sw_cluster_config *cluster = &run->cluster;
    const struct sw_slurm_config *slurm = &cluster->slurm;
    char absolute[PATH_MAX];
    if (realpath(directory, absolute) == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot name the folder '%s': %s", directory,
                       strerror(errno));
    if (snprintf(s->plan_name, sizeof s->plan_name, "%s.plan.yaml", run->name) >=
            (int)sizeof s->plan_name ||
        snprintf(s->plan, sizeof s->plan, "%s/%s", absolute, s->plan_name) >= (int)sizeof s->plan)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the plan is too long");
    if (find_runner(s->runner, err) != 0)
        return -1;
    log_path(run->directory, s->log);
    snprintf(s->version, sizeof s->version, "%s", sw_version());
    sw_mesh_format(&c->decision.mesh, s->mesh, sizeof s->mesh);
    sw_mesh_format_order(&c->decision.mesh, s->order, sizeof s->order);
    snprintf(s->digest, sizeof s->digest, "%016" PRIx64, digest);
    sw_format_bytes((double)c->memory.total, s->memory);
    sw_format_bytes((double)c->memory.limit, s->limit);
    sw_format_seconds(c->cost.step_seconds, s->seconds);
    snprintf(s->ranks, sizeof s->ranks, "%d", sw_mesh_rank_count(&c->decision.mesh));
    snprintf(s->nodes, sizeof s->nodes, "%d", cluster->nodes);
    snprintf(s->per_node, sizeof s->per_node, "%d", cluster->accelerators_per_node);
    snprintf(s->cpus, sizeof s->cpus, "%d", slurm->cpus_per_task);
    const char *gpus = slurm->gpus_per_node;
    if (gpus == NULL && sw_device_row(cluster->accelerator.device)->allocated) {
        snprintf(s->gpus, sizeof s->gpus, "%d", cluster->accelerators_per_node);
        gpus = s->gpus;
    }
    /* its name only: the same run gives the same script from whatever folder */
    const char *mem = slurm->mem;
    if (mem == NULL && slurm->exclusive)
        mem = "0"; /* a whole node's memory comes with a whole node */
    const struct sw_template_value values[] = {
        {"version", s->version},
        {"run_path", sw_path_name(sw_command_shown(run_path))},
        {"name", run->name},
        {"mesh_dim", s->mesh},
        {"axis_order", s->order},
        {"digest", s->digest},
        {"memory", s->memory},
        {"memory_limit", s->limit},
        {"step_seconds", s->seconds},
        {"plan", s->plan},
        {"plan_name", s->plan_name},
        {"runner", s->runner},
        {"directory", run->directory},
        {"log", s->log},
        {"ranks", s->ranks},
        {"nodes", s->nodes},
        {"ranks_per_node", s->per_node},
        {"slurm.partition", slurm->partition},
        {"slurm.account", slurm->account},
        {"slurm.qos", slurm->qos},
        {"slurm.time", slurm->time},
        {"slurm.gpus_per_node", gpus},
        {"slurm.constraint", slurm->constraint},
        {"slurm.reservation", slurm->reservation},
        {"slurm.cpus_per_task", slurm->cpus_per_task > 0 ? s->cpus : NULL},
        {"slurm.mem", mem},
        {"slurm.exclusive", slurm->exclusive ? "" : NULL},
        {NULL, NULL},
    };
    _Static_assert(sizeof values <= sizeof s->values, "struct script has room for every value");
    memcpy(s->values, values, sizeof values);
    return 0;
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
               "the template is no text of at most %d bytes", MAX_TEMPLATE_BYTES);
    free(text);
    return NULL;
}

static char *script_text(const struct sw_options *options, const struct sw_run_config *run,
                         const struct script *script, struct sw_error *err)
{
    if (options->template_path == NULL) {
        const bool slurm = run->cluster.launcher == SW_LAUNCHER_SLURM;
        return sw_template_fill(slurm ? "templates/slurm.sbatch" : "templates/mpirun.sh",
                                slurm ? sw_template_slurm_sbatch : sw_template_mpirun_sh,
                                script->values, err);
    }
    char *template = read_template(options->template_path, err);
    if (template == NULL)
        return NULL;
    char *text = sw_template_fill(options->template_path, template, script->values, err);
    free(template);
    return text;
}

static int emit(const struct sw_options *options, const struct sw_run_config *run,
                const struct sw_candidate *c, const struct sw_program_set *programs,
                struct sw_error *err)
{
    int status = -1;
    struct sw_checkpoint_cost checkpoint;
    uint64_t program_digest[SW_PROGRAM_KINDS];
    const char *directory = options->output == NULL ? "." : options->output;
    const bool slurm = run->cluster.launcher == SW_LAUNCHER_SLURM;
    char script_name[NAME_MAX], warning[192], *plan = NULL, *text = NULL;
    size_t bytes = 0;
    uint64_t digest = 0;
    struct script *script = calloc(1, sizeof *script);
    if (script == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
    sw_program_set_digests(programs, program_digest);
    if (sw_checkpoint_price_set(run, programs, c->memory.total, c->cost.step_seconds, &checkpoint,
                                err) != 0)
        goto out;
    /* the run's folder too: without it Slurm fails the job and leaves no log */
    if (sw_file_make_folder(directory, err) != 0 || sw_file_make_folder(run->directory, err) != 0)
        goto out;
    plan = plan_text(run, c, checkpoint.save_s, program_digest, directory, &bytes, &digest, err);
    if (plan == NULL ||
        prepare_script(script, run, options->files[0], c, directory, digest, err) != 0)
        goto out;
    text = script_text(options, run, script, err);
    if (text == NULL)
        goto out;
    snprintf(script_name, sizeof script_name, "%s.%s", run->name, slurm ? "sbatch" : "sh");
    if (write_file(directory, script->plan_name, plan, bytes, 0666, err) != 0 ||
        write_file(directory, script_name, text, strlen(text), 0777, err) != 0)
        goto out;
    printf("wrote %s/%s: mesh_dim %s, %s of %s, %s a step\n", directory, script->plan_name,
           script->mesh, script->memory, script->limit, script->seconds);
    sw_command_warn_of_time(options, options->files[0], run, c->cost.step_seconds);
    printf("wrote %s/%s\nstart it with: %s ", directory, script_name, slurm ? "sbatch" : "bash");
    snprintf(script->plan, sizeof script->plan, "%s/%s", directory, script_name);
    sw_template_write_word(stdout, script->plan);
    printf("\n");
    if (sw_headroom_warning(&c->memory, warning, sizeof warning)[0] != '\0')
        fprintf(stderr, "%s: warning: mesh_dim %s %s\n", options->files[0], script->mesh, warning);
    if (run->data_path == NULL)
        fprintf(stderr, "%s: warning: " SW_NO_DATA "; " SW_NO_DATA_HELP "\n",
                sw_command_shown(options->files[0]));
    status = 0;
out:
    free(script);
    free(plan);
    free(text);
    return status;
}

int sw_command_emit(const struct sw_options *options)
{
    struct sw_session session;
    struct sw_search search = {0};
    struct sw_program_options program_options;
    struct sw_program_set *programs = NULL;
    struct sw_candidate c;
    struct sw_error err = {0};
    int status = sw_session_open(options, true, &session);
    if (status != SW_OK)
        goto out;
    if (sw_search_run(&session.run, &search, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    if (search.feasible == 0) {
        status = sw_command_unmet(&session.run, &search);
        goto out;
    }
    if (sw_search_evaluate(&session.run, &search.mesh[0].decision, 0, &c, NULL, &err) != 0 ||
        sw_plan_program_options(&session.run, &c.decision, &program_options, &err) != 0 ||
        sw_program_set_compile(&program_options, &programs, &err) != 0) {
        status = sw_command_fail(&err);
        goto out;
    }
    /* the search looks at the step alone, whose transients are the largest */
    c.memory.total += programs->arena_bytes - c.memory.arena;
    c.memory.arena = programs->arena_bytes;
    if (emit(options, &session.run, &c, programs, &err) != 0)
        status = sw_command_fail(&err);
out:
    sw_program_set_free(programs);
    sw_search_free(&search);
    sw_session_free(&session);
    return status;
}
