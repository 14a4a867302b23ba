/* Shared by the files of `plan emit`: values for script templates. */
#ifndef SW_EMIT_SCRIPT_H
#define SW_EMIT_SCRIPT_H

#include "planner/search/report.h"
#include "planner/emit/plans.h"
#include "planner/emit/stages.h"
#include "planner/command/format.h"
#include "planner/command/template.h"
#include "planner/scheduler/scheduler.h"

#include <limits.h>

/* Every placeholder but those of the schedulers' rows: identifier, name, kind, text of the
 * reference. */
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
    X(STAGES, "stages", TEXT,                                                                      \
      "stages of the run that the job trains: `NAME/STEPS/DIGESTS` with blanks between them")      \
    X(NEXT, "next", TEXT,                                                                          \
      "absolute path of the script of the next stages, which run on another number of nodes")      \
    X(RUNNER, "runner", TEXT, "absolute path of `runner`, beside this `plan`")                     \
    X(SUPERVISOR, "supervisor", TEXT, "absolute path of this `plan`, for `plan supervise`")        \
    X(DIRECTORY, "directory", TEXT, "folder for metrics and logs")                                 \
    X(CHECKPOINTS, "checkpoints", TEXT, "folder of checkpoints")                                   \
    X(LOG, "log", TEXT,                                                                            \
      "pattern of the job's log in the run's folder, for the scheduler: `slurm.log`")              \
    X(RANKS, "ranks", TEXT, "number of ranks")                                                     \
    X(NODES, "nodes", TEXT, "number of nodes; of an elastic run fewest and most, as in `3-4`")     \
    X(RANKS_PER_NODE, "ranks_per_node", TEXT, "ranks of one node")                                 \
    X(TIME_LIMIT, "time_limit", TEXT,                                                              \
      "limit of the job: that of its settings; where the run says its steps and sets none, one "   \
      "and a half times what they take and ten minutes, at most the cluster's")                    \
    X(ASKED, "asked", TEXT, "nodes x accelerators x limit, and the accelerator-hours that makes")  \
    X(WHY, "why", TEXT, "why the search chose this mesh")                                          \
    X(SAVES, "saves", TEXT, "when checkpoints are saved, their size and the rate of writing")      \
    X(SOURCE, "source", TEXT,                                                                      \
      "the run file, the commit that last changed it where it is in a git repository, and "        \
      "version "                                                                                   \
      "and commit of `plan`")                                                                      \
    X(LOOK, "look", TEXT, "the commands that show the run's state and its log")                    \
    X(JOB_TYPE, "job.type", TEXT, "`job.type`: train, generate, score or serve")                   \
    X(JOB_CHECKPOINT, "job.checkpoint", TEXT,                                                      \
      "`job.checkpoint`; where it is not set the folder of checkpoints")                           \
    X(JOB_INPUT, "job.input", TEXT, "`job.input`")                                                 \
    X(JOB_OUTPUT, "job.output", TEXT,                                                              \
      "`job.output`; where it is not set the type and `.jsonl` in the folder for logs")            \
    X(JOB_SHARDS, "job.shards", TEXT, "`job.shards`")                                              \
    X(JOB_HOST, "job.host", TEXT, "`job.host`")                                                    \
    X(JOB_PORT, "job.port", TEXT, "`job.port`; not set: one that follows from the job's number")   \
    X(JOB_TOKEN_FILE, "job.token_file", TEXT, "`job.token_file`")

#define X(id, name, kind, about) SW_PLACEHOLDER_##id,
enum sw_emit_placeholder { SW_PLACEHOLDERS(X) SW_PLACEHOLDER_COUNT };
#undef X

/* Memory for the texts of one script; the values point into it and into the run. */
struct sw_script {
    char version[32], mesh[64], order[64], digest[20], memory[SW_FORMAT_BYTES],
        limit[SW_FORMAT_BYTES], seconds[SW_FORMAT_BYTES], run_time[192], ranks[16], nodes[48],
        per_node[16], time[SW_TIME_BYTES], plan_name[NAME_MAX], plans[48],
        digests[SW_EMIT_PLANS * 32];
    char shards[16], port[16], output[PATH_MAX];
    char runner[PATH_MAX], supervisor[PATH_MAX], plan[PATH_MAX], stem[PATH_MAX], log[SW_LOG_BYTES];
    struct sw_argv texts; /* texts of the rows' values */
    /* [SW_PLACEHOLDER_COUNT] of emit, then those of every row; ends with a NULL name */
    struct sw_template_value *value;
};

/* Fills s, zeroed before, for these plans of the run, that with the most nodes last, and the
 * script's job (NULL: of this plan alone). commit: of this program, "": unknown; directory: of the
 * plans, which exists. Errors: paths. */
int sw_script_prepare(struct sw_script *s, const struct sw_run_config *run, const char *run_path,
                      const char *commit, const struct sw_emit_plan *plan, int32_t count,
                      const struct sw_emit_job *job, const char *directory, struct sw_error *err);
/* The name of a plan file, with the number of nodes if the run has several plans. */
int sw_script_plan_name(const struct sw_run_config *run, int32_t nodes, char out[NAME_MAX],
                        struct sw_error *err);
/* Text of the script by the row's own template for the run's job, malloc'ed; NULL: failed. */
char *sw_script_fill(const struct sw_run_config *run, const struct sw_script *script,
                     struct sw_error *err);
void sw_script_free(struct sw_script *s);

/* Writes a page of Markdown on the placeholders. */
void sw_script_write_reference(FILE *out);

#endif
