#include "planner/scheduler/slurm/job_script.h"

#include "core/base/device.h"
#include "core/base/shell.h"
#include "planner/command/format.h"
#include "planner/scheduler/slurm/life.h"
#include "planner/scheduler/slurm/ranks.h"
#include "planner/scheduler/slurm/row.h"
#include "planner/scheduler/slurm/settings.h"
#include "planner/scheduler/slurm/templates.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Slurm may send the signal a minute early (sbatch(1), --signal). */
enum { EARLY_SECONDS = 60, LEADS_IN_LIMIT = 4 };

/* Every placeholder: identifier, name, kind, text of the reference. */
#define PLACEHOLDERS(X)                                                                            \
    X(REQUEUE, "requeue", TEXT,                                                                    \
      "`no-requeue`; `requeue` or `requeue=expedite` where `slurm.requeue` says so")               \
    X(JOB_NAME, "slurm.job_name", TEXT, "`slurm.job_name`; where it is not set the run's name")    \
    X(PARTITION, "slurm.partition", TEXT, "`slurm.partition` of the run or the cluster")           \
    X(ACCOUNT, "slurm.account", TEXT, "`slurm.account`")                                           \
    X(QOS, "slurm.qos", TEXT, "`slurm.qos`")                                                       \
    X(TIME, "slurm.time", TEXT,                                                                    \
      "`slurm.time` of the run; where it is not set and the run says its steps, one and a half "   \
      "times what they take and ten minutes, at most `slurm.time` of the cluster")                 \
    X(TIME_MIN, "slurm.time_min", TEXT, "`slurm.time_min`")                                        \
    X(GPUS_PER_NODE, "slurm.gpus_per_node", TEXT,                                                  \
      "`slurm.gpus_per_node`; where it is not set, the device is cuda and `slurm.gres` names no "  \
      "gpu, the accelerators of a node")                                                           \
    X(GRES, "slurm.gres", TEXT, "`slurm.gres`")                                                    \
    X(CONSTRAINT, "slurm.constraint", TEXT, "`slurm.constraint`")                                  \
    X(RESERVATION, "slurm.reservation", TEXT, "`slurm.reservation`")                               \
    X(NODELIST, "slurm.nodelist", TEXT, "`slurm.nodelist`")                                        \
    X(EXCLUDE, "slurm.exclude", TEXT, "`slurm.exclude`")                                           \
    X(CPUS_PER_TASK, "slurm.cpus_per_task", TEXT, "`slurm.cpus_per_task`")                         \
    X(MEM, "slurm.mem", TEXT,                                                                      \
      "`slurm.mem`; where none of the three is set and the job has whole nodes, 0: all memory of " \
      "a node")                                                                                    \
    X(MEM_PER_CPU, "slurm.mem_per_cpu", TEXT, "`slurm.mem_per_cpu`")                               \
    X(MEM_PER_GPU, "slurm.mem_per_gpu", TEXT, "`slurm.mem_per_gpu`")                               \
    X(EXCLUSIVE, "slurm.exclusive", TEXT,                                                          \
      "nothing, or `=user` or `=mcs`; not set where `slurm.exclusive` is false")                   \
    X(SWITCHES, "slurm.switches", TEXT, "`slurm.switches`")                                        \
    X(SEGMENT, "slurm.segment", TEXT, "`slurm.segment`")                                           \
    X(DEPENDENCY, "slurm.dependency", TEXT, "`slurm.dependency`")                                  \
    X(BEGIN, "slurm.begin", TEXT, "`slurm.begin`")                                                 \
    X(NICE, "slurm.nice", TEXT, "`slurm.nice`")                                                    \
    X(LICENSES, "slurm.licenses", TEXT, "`slurm.licenses`")                                        \
    X(MAIL_TYPE, "slurm.mail.type", TEXT, "`slurm.mail.type`")                                     \
    X(MAIL_USER, "slurm.mail.user", TEXT, "`slurm.mail.user`")                                     \
    X(COMMENT, "slurm.comment", TEXT, "`slurm.comment`")                                           \
    X(WCKEY, "slurm.wckey", TEXT, "`slurm.wckey`")                                                 \
    X(SIGNAL, "slurm.signal", TEXT,                                                                \
      "the signal before the limit and its seconds, from `slurm.signal` and the plan; not set "    \
      "where the limit is too short for one")                                                      \
    X(AT_LIMIT, "at_limit", TEXT, "what happens at the job's time limit, in words")                \
    X(LOST_NODE, "lost_node", TEXT, "what happens when a node is lost, in words")                  \
    X(SHRINK_LIMIT, "slurm.shrink_limit", TEXT,                                                    \
      "`yes` where `slurm.shrink_limit` is true and the job is not started again; else not set")   \
    X(CONTINUE, "slurm.continue", TEXT, "`slurm.continue`: requeue, chain or none")                \
    X(MAX_ATTEMPTS, "slurm.max_attempts", TEXT, "`slurm.max_attempts`")                            \
    X(PREFLIGHT, "slurm.preflight", TEXT, "`slurm.preflight`: off, quick or full")                 \
    X(ARRAY, "slurm.array", TEXT,                                                                  \
      "tasks of the array, as in `0-7%2`, from `job.shards` and `job.at_once`; not set for one "   \
      "shard")                                                                                     \
    X(MPI, "slurm.mpi", TEXT, "`slurm.mpi`; where it is not set `pmix`")                           \
    X(CONTAINER_RUNNER, "container.runner", TEXT, "`slurm.container.runner`")                      \
    X(DIRECTIVES, "directives", DIRECTIVES, "lines: `slurm.directives`")                           \
    X(MODULES, "modules", LINES, "lines: load `slurm.modules`")                                    \
    X(ENVIRONMENT, "environment", LINES,                                                           \
      "lines: export the variables of `slurm.fabric` and `slurm.environment`")                     \
    X(SETUP, "setup", LINES, "lines: `slurm.setup`, as they stand")                                \
    X(SETUP_NODE, "setup_node", LINES, "lines: `slurm.setup_node`, on every node by srun")         \
    X(SRUN_OPTIONS, "srun_options", WORDS,                                                         \
      "words: bindings, `slurm.srun_options`, and pyxis' options of `slurm.container`")            \
    X(TOPOLOGY, "topology", WORDS,                                                                 \
      "words of `plan supervise`: `--topology` with `slurm.topology` block or tree, by which "     \
      "ranks "                                                                                     \
      "are put in order")                                                                          \
    X(CONTAINER, "container", WORDS,                                                               \
      "words before the runner: apptainer or singularity with `slurm.container`")

#define X(id, name, kind, about) PLACEHOLDER_##id,
enum placeholder { PLACEHOLDERS(X) PLACEHOLDER_COUNT };
#undef X

/* State of filling a script. */
struct script {
    const struct sw_script_request *request;
    struct sw_template_value *value; /* [PLACEHOLDER_COUNT] */
    struct sw_argv *texts;           /* memory of values */
};

static void set(struct script *s, enum placeholder id, const char *value)
{
    s->value[id].value = value;
}

/* Least limit: the job's shortest time, and room for a signal, the run's or ours, that should not
 * come at once. */
static double least_limit_s(const struct sw_cluster_config *cluster, int64_t lead_seconds)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(cluster);
    const char *at = slurm->signal != NULL ? strchr(slurm->signal, '@') : NULL;
    const double least = slurm->time_min != NULL ? sw_slurm_time_seconds(slurm->time_min) : 0;
    const bool none = at == NULL && slurm->signal != NULL && strcmp(slurm->signal, "none") == 0;
    const double lead = at != NULL ? strtod(at + 1, NULL) : (double)lead_seconds;
    return fmax(least, none ? 0 : (lead + EARLY_SECONDS) * LEADS_IN_LIMIT);
}

/* Sets a signal before the limit. It is sent to the ranks; with mpirun the job's process alone
 * hears it and passes it on. */
static void set_sent(struct script *s, const char *signal)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&s->request->run->cluster);
    set(s, PLACEHOLDER_SIGNAL,
        sw_slurm_is_mpirun(slurm->mpi) ? sw_script_keep(s->texts, "B:%s", signal) : signal);
}

/* Sets a server's signal to drain: its ranks get TERM. Texts are safe line by line: only a script
 * that continues in another job must know of the end. */
static void set_inference_signal(struct script *s, const struct sw_run_config *run, bool is_short)
{
    if (run->job.type == SW_JOB_SERVE && !is_short)
        set_sent(s, "TERM@60");
    else if (run->job.type != SW_JOB_SERVE &&
             sw_slurm_settings(&run->cluster)->continues == SW_CONTINUE_REQUEUE)
        set(s, PLACEHOLDER_SIGNAL, "B:USR1@60");
}

/* Reason why training ranks get no signal `lead` seconds before such a limit, NULL: they get one.
 * If the limit is so short that the signal could come in the first half of the job there is none,
 * and ranks save at the limit's own TERM; but a run that continues in another job must save before
 * any limit. */
static const char *unwarned_at(const struct sw_run_config *run, double limit, int64_t lead)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const char *wanted = slurm->signal;
    if (wanted != NULL && strchr(wanted, '@') != NULL)
        return NULL;
    if (wanted != NULL && strcmp(wanted, "none") == 0)
        return "slurm.signal is none";
    if (slurm->continues == SW_CONTINUE_NONE &&
        (isinf(limit) || (double)(lead + EARLY_SECONDS) * LEADS_IN_LIMIT > limit))
        return "it is too short for a signal before it";
    return NULL;
}

static const char *unwarned(const struct sw_run_config *run, int64_t lead_seconds)
{
    const char *time = sw_slurm_settings(&run->cluster)->time;
    return unwarned_at(run, sw_slurm_time_seconds(time), lead_seconds);
}

static void set_signal(struct script *s, const struct sw_run_config *run, int64_t lead)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const char *wanted = slurm->signal;
    const double limit = sw_slurm_time_seconds(s->value[PLACEHOLDER_TIME].value);
    const char *name = sw_word(sw_words_signal, run->checkpoint_signal);
    const bool is_short = (double)(lead + EARLY_SECONDS) * LEADS_IN_LIMIT > limit;
    if (wanted != NULL && strchr(wanted, '@') != NULL)
        set_sent(s, wanted);
    else if (run->job.type == SW_JOB_TRAIN && name != NULL && unwarned_at(run, limit, lead) == NULL)
        set_sent(s, sw_script_keep(s->texts, "%s@%" PRId64, name, lead));
    else if (run->job.type != SW_JOB_TRAIN && name != NULL &&
             (wanted == NULL || strcmp(wanted, "none") != 0))
        set_inference_signal(s, run, isinf(limit) || is_short);
}

static void set_words(struct script *s, const struct sw_run_config *run)
{
    char words[SW_LIFE_WORDS];
    const char *signal = s->value[PLACEHOLDER_SIGNAL].value;
    set(s, PLACEHOLDER_AT_LIMIT,
        sw_script_keep(s->texts, "%s", sw_slurm_at_limit(run, signal, words)));
    set(s, PLACEHOLDER_LOST_NODE, sw_script_keep(s->texts, "%s", sw_slurm_lost_node(run, words)));
    if (sw_slurm_may_shrink(run))
        set(s, PLACEHOLDER_SHRINK_LIMIT, "yes");
}

static const char *short_limit(const struct sw_run_config *run, int64_t lead_seconds, char *buffer,
                               size_t bytes)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const char *at = slurm->signal != NULL ? strchr(slurm->signal, '@') : NULL;
    const int64_t lead = at != NULL ? strtoll(at + 1, NULL, 10) : lead_seconds;
    const double limit = sw_slurm_time_seconds(slurm->time);
    char enough[SW_TIME_BYTES], limit_text[64];
    buffer[0] = '\0';
    if (slurm->continues == SW_CONTINUE_NONE || slurm->time == NULL ||
        limit > (double)(lead + EARLY_SECONDS) ||
        (at == NULL && slurm->signal != NULL && strcmp(slurm->signal, "none") == 0))
        return buffer;
    const int64_t minutes = ((lead + EARLY_SECONDS) * LEADS_IN_LIMIT + 59) / 60;
    sw_slurm_time_format((minutes + SW_LIMIT_STEP_MINUTES - 1) / SW_LIMIT_STEP_MINUTES *
                             SW_LIMIT_STEP_MINUTES,
                         enough);
    snprintf(buffer, bytes,
             "jobs of %.40s leave hardly a step to train: they are told to save %" PRId64
             " s before their limit, which Slurm may do a minute early; slurm.time %s is enough",
             sw_format_limit(slurm->time, limit_text, sizeof limit_text), lead, enough);
    return buffer;
}

/* Takes whole nodes if the plan uses all of them: others' jobs could take only memory and time. */
static void set_shares(struct script *s, const struct sw_cluster_config *cluster)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(cluster);
    const bool gpu = sw_device_row(cluster->accelerator.device)->allocated;
    const int64_t asked = sw_slurm_gpus(slurm);
    const bool all = gpu && asked <= cluster->accelerators_per_node;
    static const char *const values[] = {[SW_EXCLUSIVE_YES] = "",
                                         [SW_EXCLUSIVE_NO] = NULL,
                                         [SW_EXCLUSIVE_USER] = "=user",
                                         [SW_EXCLUSIVE_MCS] = "=mcs"};
    const enum sw_exclusive exclusive = slurm->exclusive != SW_EXCLUSIVE_AUTO ? slurm->exclusive
                                        : all                                 ? SW_EXCLUSIVE_YES
                                                                              : SW_EXCLUSIVE_NO;
    set(s, PLACEHOLDER_EXCLUSIVE, values[exclusive]);
    const bool told = slurm->mem_per_cpu != NULL || slurm->mem_per_gpu != NULL;
    set(s, PLACEHOLDER_MEM,
        slurm->mem != NULL                       ? slurm->mem
        : exclusive == SW_EXCLUSIVE_YES && !told ? "0"
                                                 : NULL);
    set(s, PLACEHOLDER_MEM_PER_CPU, slurm->mem_per_cpu);
    set(s, PLACEHOLDER_MEM_PER_GPU, slurm->mem_per_gpu);
    set(s, PLACEHOLDER_GRES, slurm->gres);
    set(s, PLACEHOLDER_GPUS_PER_NODE, slurm->gpus_per_node);
    if (slurm->gpus_per_node == NULL && gpu && asked < 0)
        set(s, PLACEHOLDER_GPUS_PER_NODE,
            sw_script_keep(s->texts, "%d", (int)cluster->accelerators_per_node));
}

/* Sets a number unless it is 0. */
static void set_number(struct script *s, enum placeholder id, int32_t number)
{
    if (number != 0)
        set(s, id, sw_script_keep(s->texts, "%d", (int)number));
}

static void set_plain(struct script *s, const struct sw_run_config *run)
{
    static const char *const requeue[] = {[SW_REQUEUE_YES] = "requeue",
                                          [SW_REQUEUE_NO] = "no-requeue",
                                          [SW_REQUEUE_EXPEDITE] = "requeue=expedite"};
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const enum sw_requeue asked = slurm->requeue != SW_REQUEUE_AUTO         ? slurm->requeue
                                  : slurm->continues == SW_CONTINUE_REQUEUE ? SW_REQUEUE_YES
                                                                            : SW_REQUEUE_NO;
    set(s, PLACEHOLDER_REQUEUE, requeue[asked]);
    set(s, PLACEHOLDER_JOB_NAME, slurm->job_name != NULL ? slurm->job_name : run->name);
    set(s, PLACEHOLDER_PARTITION, slurm->partition);
    set(s, PLACEHOLDER_ACCOUNT, slurm->account);
    set(s, PLACEHOLDER_QOS, slurm->qos);
    set(s, PLACEHOLDER_TIME_MIN, slurm->time_min);
    set(s, PLACEHOLDER_CONSTRAINT, slurm->constraint);
    set(s, PLACEHOLDER_RESERVATION, slurm->reservation);
    set(s, PLACEHOLDER_NODELIST, slurm->nodelist);
    set(s, PLACEHOLDER_EXCLUDE, slurm->exclude);
    set_number(s, PLACEHOLDER_CPUS_PER_TASK, slurm->cpus_per_task);
    set(s, PLACEHOLDER_SWITCHES, slurm->switches);
    set_number(s, PLACEHOLDER_SEGMENT, slurm->segment);
    set(s, PLACEHOLDER_DEPENDENCY, slurm->dependency);
    set(s, PLACEHOLDER_BEGIN, slurm->begin);
    set_number(s, PLACEHOLDER_NICE, slurm->nice);
    set(s, PLACEHOLDER_LICENSES, slurm->licenses);
    set(s, PLACEHOLDER_MAIL_TYPE, slurm->mail_type);
    set(s, PLACEHOLDER_MAIL_USER, slurm->mail_user);
    set(s, PLACEHOLDER_COMMENT, slurm->comment);
    set(s, PLACEHOLDER_WCKEY, slurm->wckey);
    set(s, PLACEHOLDER_MPI, slurm->mpi != NULL ? slurm->mpi : "pmix");
    if (slurm->container.kind != SW_CONTAINER_NONE)
        set(s, PLACEHOLDER_CONTAINER_RUNNER, slurm->container.runner);
}

/* Sets how the run continues, and an array of jobs. */
static void set_life(struct script *s, const struct sw_run_config *run)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    const struct sw_job_config *job = &run->job;
    set(s, PLACEHOLDER_CONTINUE, sw_word(sw_words_continue, slurm->continues));
    set_number(s, PLACEHOLDER_MAX_ATTEMPTS,
               slurm->max_attempts > 0 ? slurm->max_attempts : SW_MAX_ATTEMPTS);
    set(s, PLACEHOLDER_PREFLIGHT, sw_word(sw_words_preflight, slurm->preflight));
    if (job->shards > 1 && job->at_once > 0)
        set(s, PLACEHOLDER_ARRAY,
            sw_script_keep(s->texts, "0-%d%%%d", (int)job->shards - 1, (int)job->at_once));
    else if (job->shards > 1)
        set(s, PLACEHOLDER_ARRAY, sw_script_keep(s->texts, "0-%d", (int)job->shards - 1));
}

/* ---- Lines ---- */

static bool is_plain(const char *value, const char *more)
{
    for (const char *p = value; *p != '\0'; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr(more, *p) != NULL))
            return false;
    return *value != '\0';
}

/* sbatch splits its lines at spaces, starts comments at #, and removes quotes. */
static void write_sbatch(FILE *out, const char *value)
{
    if (value[0] == '\0' || is_plain(value, "_-./:,=+@%&|*[]()")) {
        fputs(value, out);
        return;
    }
    fputc('"', out);
    for (const char *p = value; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', out);
        fputc(*p, out);
    }
    fputc('"', out);
}

static void write_directives(FILE *out, const struct sw_texts *directives)
{
    for (int32_t i = 0; i < directives->count; i++) {
        const char *text = directives->item[i];
        const size_t name = strcspn(text, "=");
        fprintf(out, "#SBATCH %.*s%s", (int)name, text, text[name] == '=' ? "=" : "");
        if (text[name] == '=')
            write_sbatch(out, text + name + 1);
        fputc('\n', out);
    }
}

/* Writes module commands: at most sites `module` is a function of the login shell, which
 * --export=NONE leaves out; it reads variables that may be unset. */
static void write_modules(FILE *out, const struct sw_texts *modules)
{
    char said[256]; /* a module's name has at most 200 characters */
    if (modules->count == 0)
        return;
    fputs("set +u\n"
          "if ! type module >/dev/null 2>&1; then\n"
          "    for init in \"${LMOD_PKG:-}/init/bash\" \"${MODULESHOME:-}/init/bash\" \\\n"
          "        /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/modules.sh \\\n"
          "        /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do\n"
          "        if [ -r \"$init\" ]; then\n"
          "            # shellcheck source=/dev/null\n"
          "            . \"$init\"\n"
          "            break\n"
          "        fi\n"
          "    done\n"
          "fi\n",
          out);
    for (int32_t i = 0; i < modules->count; i++) {
        snprintf(said, sizeof said, "cannot load the module %s", modules->item[i]);
        fputs("module load ", out);
        sw_template_write_word(out, modules->item[i]);
        fputs(" || {\n    echo ", out);
        sw_template_write_word(out, said);
        fputs(" >&2\n    exit 3\n}\n", out);
    }
    fputs("set -u\n", out);
}

/* Writes a value in which $NAME and ${NAME} are variables of the job, empty if unset; all else is
 * literal. */
static void write_value(FILE *out, const char *value)
{
    const char *from = value, *p = value;
    do {
        const size_t length = sw_shell_variable_length(p), brace = length > 0 && p[1] == '{';
        if (length == 0 && *p != '\0') {
            p++;
            continue;
        }
        char *literal = strndup(from, (size_t)(p - from));
        if (literal != NULL && (literal[0] != '\0' || value[0] == '\0'))
            sw_template_write_word(out, literal);
        free(literal);
        if (length > 0)
            fprintf(out, "\"${%.*s-}\"", (int)(length - 1 - 2 * brace), p + 1 + brace);
        p += length;
        from = p;
        if (length == 0)
            return;
    } while (true);
}

static void write_exports(FILE *out, const struct sw_environment *environment)
{
    for (int32_t i = 0; i < environment->count; i++) {
        fprintf(out, "export %s=", environment->item[i].name);
        write_value(out, environment->item[i].value);
        fputc('\n', out);
    }
}

static void write_environment(FILE *out, const struct sw_slurm_config *slurm)
{
    if (slurm->fabric.name != NULL)
        fprintf(out, "# fabric: %s\n", slurm->fabric.name);
    write_exports(out, &slurm->fabric.environment);
    if (slurm->fabric.name != NULL && slurm->environment.count > 0)
        fputs("# the run's and the cluster's own\n", out);
    write_exports(out, &slurm->environment);
}

/* Writes setup lines, which are seldom written for `set -u`. */
static void write_setup(FILE *out, const struct sw_texts *setup)
{
    if (setup->count == 0)
        return;
    fputs("set +u\n", out);
    for (int32_t i = 0; i < setup->count; i++)
        fprintf(out, "%s\n", setup->item[i]);
    fputs("set -u\n", out);
}

/* Writes a step of one task a node. It is no MPI program, and has the memory and processors of the
 * job. */
static void write_setup_node(FILE *out, const struct sw_texts *setup)
{
    char *lines = NULL;
    size_t bytes = 0;
    FILE *script = setup->count > 0 ? open_memstream(&lines, &bytes) : NULL;
    if (script == NULL)
        return;
    for (int32_t i = 0; i < setup->count; i++)
        fprintf(script, "%s%s", i > 0 ? "\n" : "", setup->item[i]);
    fclose(script);
    fputs("# once on every node\n"
          "srun --mpi=none --nodes=\"$SLURM_JOB_NUM_NODES\" --ntasks=\"$SLURM_JOB_NUM_NODES\" "
          "--ntasks-per-node=1 \\\n"
          "    --kill-on-bad-exit=1 bash -e -o pipefail -c ",
          out);
    sw_template_write_word(out, lines);
    fputs(" || {\n    echo 'slurm.setup_node failed on a node' >&2\n    exit 3\n}\n", out);
    free(lines);
}

static void write_words(FILE *out, const struct sw_argv *words)
{
    for (int32_t i = 0; i < words->count; i++) {
        fputc(' ', out);
        sw_template_write_word(out, words->item[i]);
    }
}

/* Writes the words before the runner in a line of srun. */
static int write_rank_words(const struct sw_script_request *r, FILE *options, FILE *prefix,
                            struct sw_error *err)
{
    struct sw_argv of_srun = {0}, of_container = {0};
    const int status =
        sw_slurm_rank_words(r->run, r->plan, r->runner, &of_srun, &of_container, err);
    if (status == 0) {
        write_words(options, &of_srun);
        write_words(prefix, &of_container);
    }
    sw_argv_free(&of_srun);
    sw_argv_free(&of_container);
    return status;
}

static int out_of_memory(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
}

/* True if nodes of the job may be in several blocks, or under several leaf switches, in another
 * order than by name. */
static bool orders_nodes(const struct sw_run_config *run)
{
    const enum sw_slurm_topology topology = sw_slurm_settings(&run->cluster)->topology;
    return run->cluster.nodes > 1 &&
           (topology == SW_TOPOLOGY_BLOCK || topology == SW_TOPOLOGY_TREE);
}

/* Sets finished lines and words of the shell. */
static int set_blocks(struct script *s, struct sw_error *err)
{
    static const enum placeholder places[] = {PLACEHOLDER_DIRECTIVES,  PLACEHOLDER_MODULES,
                                              PLACEHOLDER_ENVIRONMENT, PLACEHOLDER_SETUP,
                                              PLACEHOLDER_SETUP_NODE,  PLACEHOLDER_SRUN_OPTIONS,
                                              PLACEHOLDER_CONTAINER,   PLACEHOLDER_TOPOLOGY};
    enum {
        DIRECTIVES,
        MODULES,
        ENVIRONMENT,
        SETUP,
        SETUP_NODE,
        SRUN_OPTIONS,
        CONTAINER,
        TOPOLOGY,
        BLOCKS
    };
    const struct sw_slurm_config *slurm = sw_slurm_settings(&s->request->run->cluster);
    FILE *out[BLOCKS] = {NULL};
    char *block[BLOCKS] = {NULL};
    size_t bytes[BLOCKS];
    int status = 0;
    for (int32_t i = 0; i < BLOCKS && status == 0; i++) {
        out[i] = open_memstream(&block[i], &bytes[i]);
        status = out[i] == NULL ? out_of_memory(err) : 0;
    }
    if (status == 0) {
        if (slurm->cpus_per_task == 0)
            fputs("# No --cpus-per-task, for slurm.cpus_per_task is not set: a rank gets Slurm's "
                  "default, usually one processor.\n",
                  out[DIRECTIVES]);
        if (s->request->placement->why[0] != '\0')
            fprintf(out[DIRECTIVES], "# %s\n", s->request->placement->why);
        write_directives(out[DIRECTIVES], &slurm->directives);
        write_modules(out[MODULES], &slurm->modules);
        write_environment(out[ENVIRONMENT], slurm);
        write_setup(out[SETUP], &slurm->setup);
        write_setup_node(out[SETUP_NODE], &slurm->setup_node);
        if (orders_nodes(s->request->run))
            fprintf(out[TOPOLOGY], " --topology %s",
                    slurm->topology == SW_TOPOLOGY_BLOCK ? "block" : "tree");
        status = write_rank_words(s->request, out[SRUN_OPTIONS], out[CONTAINER], err);
    }
    for (int32_t i = 0; i < BLOCKS; i++)
        if (out[i] != NULL && fclose(out[i]) != 0 && status == 0)
            status = out_of_memory(err);
    for (int32_t i = 0; i < BLOCKS; i++) {
        /* words of a list begin with a space: skip the first one's */
        if (status == 0)
            set(s, places[i], sw_script_keep(s->texts, "%s", block[i] + (block[i][0] == ' ')));
        free(block[i]);
    }
    return status;
}

static int fill(const struct sw_script_request *request, struct sw_template_value *out,
                struct sw_argv *texts, struct sw_error *err)
{
    const struct sw_run_config *run = request->run;
    struct script s = {.request = request, .value = out, .texts = texts};
    char buffer[SW_TIME_BYTES];
    set_plain(&s, run);
    set_shares(&s, &run->cluster);
    set_life(&s, run);
    const char *time = sw_script_time_limit(&sw_scheduler_slurm, run, request->step_seconds,
                                            request->lead_seconds, buffer);
    set(&s, PLACEHOLDER_TIME, time == buffer ? sw_script_keep(texts, "%s", time) : time);
    set_signal(&s, run, request->lead_seconds);
    set_words(&s, run);
    return set_blocks(&s, err);
}

/* A name in the run's folder; Slurm reads % as a pattern, so those in the folder are doubled. */
static int write_log(const struct sw_run_config *run, char out[SW_LOG_BYTES], struct sw_error *err)
{
    const char *name = sw_slurm_settings(&run->cluster)->log;
    if (name == NULL)
        name = run->job.shards > 1 ? sw_scheduler_slurm.queue->log_of_task
                                   : sw_scheduler_slurm.queue->log;
    const size_t room = SW_LOG_BYTES - strlen(name) - 2;
    size_t used = 0;
    for (const char *p = run->directory; *p != '\0'; p++) {
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

/* True if nodes are not reordered or excluded, no start is repeated, and no job follows or is
 * restarted: the script is one srun. */
static bool runs_once(const struct sw_run_config *run)
{
    const struct sw_slurm_config *slurm = sw_slurm_settings(&run->cluster);
    return run->job.type == SW_JOB_TRAIN && run->stage.count == 0 &&
           run->nodes_least == run->nodes_most && !sw_slurm_is_mpirun(slurm->mpi) &&
           !orders_nodes(run) && slurm->continues == SW_CONTINUE_NONE &&
           slurm->preflight == SW_PREFLIGHT_OFF && !slurm->shrink_limit &&
           (slurm->requeue == SW_REQUEUE_AUTO || slurm->requeue == SW_REQUEUE_NO);
}

#define X(id, shown, form, about) {shown, SW_TEMPLATE_##form, about},
static const struct sw_placeholder placeholders[] = {PLACEHOLDERS(X){.name = NULL}};
#undef X

static const struct sw_template_dialect dialect = {"#SBATCH", "sbatch", write_sbatch};

const struct sw_script_row sw_slurm_script = {
    .training = {"templates/slurm.sbatch", sw_template_slurm_sbatch},
    .once = {"templates/srun.sbatch", sw_template_srun_sbatch},
    .runs_once = runs_once,
    .other = {"templates/inference.sbatch", sw_template_inference_sbatch},
    .dialect = &dialect,
    .placeholders = placeholders,
    .fill = fill,
    .log = write_log,
    .format_time = sw_slurm_time_format,
    .least_limit_s = least_limit_s,
    .unwarned = unwarned,
    .short_limit = short_limit,
};
