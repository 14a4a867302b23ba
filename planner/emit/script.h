/* What the files of `plan emit` share: the values that a script template is filled with. */
#ifndef SW_EMIT_SCRIPT_H
#define SW_EMIT_SCRIPT_H

#include "planner/search/report.h"
#include "planner/emit/plans.h"
#include "planner/command/format.h"
#include "planner/command/template.h"
#include "planner/scheduler/scheduler.h"

#include <limits.h>

/* Every placeholder: identifier, name, kind, what the reference says of it. */
#define SW_PLACEHOLDERS(X)                                                                         \
    X(VERSION, "version", TEXT, "version of `plan`")                                               \
    X(RUN_PATH, "run_path", TEXT, "name of the run file, without its folder")                      \
    X(NAME, "name", TEXT, "name of the run")                                                       \
    X(MESH_DIM, "mesh_dim", TEXT, "sizes of dp,fsdp,tp,sp")                                        \
    X(AXIS_ORDER, "axis_order", TEXT, "mesh axes, outermost first")                                \
    X(DIGEST, "digest", TEXT, "digest of the plan file")                                           \
    X(MEMORY, "memory", TEXT, "predicted memory of one accelerator, with a unit")                  \
    X(MEMORY_LIMIT, "memory_limit", TEXT, "memory that an accelerator has for it, with a unit")    \
    X(STEP_SECONDS, "step_seconds", TEXT, "predicted time of a step, with a unit")                 \
    X(RUN_TIME, "run_time", TEXT, "what all steps take, in words")                                 \
    X(PLAN, "plan", TEXT, "absolute path of the plan file")                                        \
    X(PLAN_NAME, "plan_name", TEXT, "its name, without the folder")                                \
    X(PLAN_STEM, "plan_stem", TEXT,                                                                \
      "its path without `.plan.yaml`; of an elastic run without `.NODES.plan.yaml`")               \
    X(PLANS, "plans", TEXT, "fewest and most nodes that there are plans for, as in `3-4`")         \
    X(DIGESTS, "digests", TEXT,                                                                    \
      "digest of the plan for each number of nodes: `NODES:DIGEST`, with commas")                  \
    X(ELASTIC, "elastic", TEXT, "`yes` where `nodes` of the run is a range; else not set")         \
    X(RUNNER, "runner", TEXT, "absolute path of `runner`, beside this `plan`")                     \
    X(SUPERVISOR, "supervisor", TEXT, "absolute path of this `plan`, for `plan supervise`")        \
    X(DIRECTORY, "directory", TEXT, "folder for metrics and logs")                                 \
    X(CHECKPOINTS, "checkpoints", TEXT, "folder of checkpoints")                                   \
    X(LOG, "log", TEXT, "pattern of the job's log in that folder, for Slurm: `slurm.log`")         \
    X(RANKS, "ranks", TEXT, "number of ranks")                                                     \
    X(NODES, "nodes", TEXT, "number of nodes; of an elastic run fewest and most, as in `3-4`")     \
    X(RANKS_PER_NODE, "ranks_per_node", TEXT, "ranks of one node")                                 \
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
      "`slurm.mem`; where it is not set and the job has whole nodes, 0: all memory of a node")     \
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
    X(CONTINUE, "slurm.continue", TEXT, "`slurm.continue`: requeue, chain or none")                \
    X(MAX_ATTEMPTS, "slurm.max_attempts", TEXT, "`slurm.max_attempts`")                            \
    X(PREFLIGHT, "slurm.preflight", TEXT, "`slurm.preflight`: off, quick or full")                 \
    X(JOB_TYPE, "job.type", TEXT, "`job.type`: train, generate, score or serve")                   \
    X(JOB_CHECKPOINT, "job.checkpoint", TEXT,                                                      \
      "`job.checkpoint`; where it is not set the folder of checkpoints")                           \
    X(JOB_INPUT, "job.input", TEXT, "`job.input`")                                                 \
    X(JOB_OUTPUT, "job.output", TEXT,                                                              \
      "`job.output`; where it is not set the type and `.jsonl` in the folder for logs")            \
    X(JOB_SHARDS, "job.shards", TEXT, "`job.shards`")                                              \
    X(ARRAY, "slurm.array", TEXT,                                                                  \
      "tasks of the array, as in `0-7%2`, from `job.shards` and `job.at_once`; not set for one "   \
      "shard")                                                                                     \
    X(JOB_HOST, "job.host", TEXT, "`job.host`")                                                    \
    X(JOB_PORT, "job.port", TEXT, "`job.port`; not set: one that follows from the job's number")   \
    X(JOB_TOKEN_FILE, "job.token_file", TEXT, "`job.token_file`")                                  \
    X(MPI, "slurm.mpi", TEXT, "`slurm.mpi`; where it is not set `pmix`")                           \
    X(CONTAINER_RUNNER, "container.runner", TEXT, "`slurm.container.runner`")                      \
    X(DIRECTIVES, "directives", DIRECTIVES, "lines: `slurm.directives`")                           \
    X(MODULES, "modules", LINES, "lines: load `slurm.modules`")                                    \
    X(ENVIRONMENT, "environment", LINES,                                                           \
      "lines: export the variables of `slurm.fabric` and `slurm.environment`")                     \
    X(SETUP, "setup", LINES, "lines: `slurm.setup`, as they stand")                                \
    X(SRUN_OPTIONS, "srun_options", WORDS,                                                         \
      "words: bindings, `slurm.srun_options`, and pyxis' options of `slurm.container`")            \
    X(CONTAINER, "container", WORDS,                                                               \
      "words before the runner: apptainer or singularity with `slurm.container`")

#define X(id, name, kind, about) SW_PLACE_##id,
enum sw_placeholder { SW_PLACEHOLDERS(X) SW_PLACEHOLDER_COUNT };
#undef X

/* Room for the texts of one script; the values point into it and into the run. */
struct sw_script {
    char version[32], mesh[64], order[64], digest[20], memory[SW_FORMAT_BYTES],
        limit[SW_FORMAT_BYTES], seconds[SW_FORMAT_BYTES], run_time[192], ranks[16], nodes[48],
        per_node[16], cpus[16], gpus[16], segment[16], nice[16], time[32], signal[32],
        plan_name[NAME_MAX], plans[48], attempts[16], digests[SW_EMIT_PLANS * 32];
    char shards[16], array[32], port[16], output[PATH_MAX];
    char runner[PATH_MAX], supervisor[PATH_MAX], plan[PATH_MAX], stem[PATH_MAX], log[2 * PATH_MAX];
    char *block[SW_PLACEHOLDER_COUNT]; /* of lines and words; freed with the script */
    struct sw_template_value value[SW_PLACEHOLDER_COUNT + SW_SCHEDULER_VALUES + 1];
};

/* Fills s, zeroed before, for these plans of the run, that on the most nodes last. directory: where
 * they are, which exists. Errors: paths. */
int sw_script_prepare(struct sw_script *s, const struct sw_run_config *run, const char *run_path,
                      const struct sw_emit_plan *plan, int32_t count, const char *directory,
                      struct sw_error *err);
/* The name of a plan file, which says the number of nodes where the run has several plans. */
int sw_script_plan_name(const struct sw_run_config *run, int32_t nodes, char out[NAME_MAX],
                        struct sw_error *err);
void sw_script_free(struct sw_script *s);

/* slurm.c: what follows from Slurm's settings. lead: seconds before the limit at which the ranks
 * are told to save. */
int sw_script_prepare_slurm(struct sw_script *s, const struct sw_run_config *run,
                            double step_seconds, int64_t lead_seconds, struct sw_error *err);
/* The limit of a job whose steps take so long: the run's own slurm.time; else what the steps need
 * and some, and no less than the lead allows, of which the cluster's slurm.time is the most. In
 * buffer or the run; NULL: none. */
const char *sw_script_time_limit(const struct sw_run_config *run, double step_seconds,
                                 int64_t lead_seconds, char buffer[32]);
/* Whether the script beside a plan starts a training: a plan does not say. folder: the plan's. */
bool sw_script_beside_trains(const char *folder, const struct sw_run_config *run);
/* What is wrong with the time limit of a run that goes on by itself, where its jobs would be told
 * to save as soon as they begin; "": nothing. Returns buffer. */
const char *sw_script_short_limit(const struct sw_run_config *run, int64_t lead_seconds,
                                  char *buffer, size_t bytes);
/* "1-02:30:00", "2:30:00" */
void sw_script_format_time(int64_t minutes, char out[32]);

/* A page of Markdown on the placeholders. */
void sw_script_write_reference(FILE *out);

#endif
