#include "planner/emit/plans.h"

#include "core/base/file.h"
#include "core/programs/program_set.h"
#include "planner/scheduler/script.h"
#include "planner/search/report.h"
#include "planner/search/run_cost.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The text of the plan, and its digest. */
static int write_plan(const struct sw_run_config *run, const struct sw_program_set *programs,
                      const char *directory, struct sw_emit_plan *plan, struct sw_error *err)
{
    struct sw_candidate *c = &plan->candidate;
    struct sw_plan_inputs inputs;
    struct sw_plan_run relocated;
    uint64_t program_digest[SW_PROGRAM_KINDS];
    const struct sw_plan_prediction prediction = {.step_seconds = c->cost.step_seconds,
                                                  .memory_total = c->memory.total,
                                                  .arena_bytes = c->memory.arena,
                                                  .save_seconds = plan->checkpoint.save_s};
    memset(program_digest, 0, sizeof program_digest);
    if (programs != NULL) /* without them the mesh has no training */
        sw_program_set_digests(programs, program_digest);
    if (sw_search_serving_digests(run, &c->decision, program_digest, err) != 0)
        return -1;
    if (sw_plan_inputs_gather(run, directory, &inputs, err) != 0)
        return -1;
    if (sw_plan_run_relocate(run, directory, &relocated, err) != 0) {
        sw_plan_inputs_free(&inputs);
        return -1;
    }
    int status = -1;
    FILE *memory = open_memstream(&plan->text, &plan->bytes);
    if (memory == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
        goto out;
    }
    status = sw_plan_write(memory, &relocated.run, &inputs, &c->decision, &prediction,
                           program_digest, &plan->digest, err);
    if (fclose(memory) != 0 && status == 0)
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
out:
    sw_plan_run_free(&relocated);
    sw_plan_inputs_free(&inputs);
    return status;
}

/* Compiles training programs if the mesh can train. */
static int make_programs(const struct sw_run_config *run, struct sw_emit_plan *plan,
                         struct sw_program_set **programs, struct sw_error *err)
{
    struct sw_program_options options;
    struct sw_candidate *c = &plan->candidate;
    plan->trained_step_s = c->cost.step_seconds;
    if (c->decision.train.micro_batch_size == 0)
        return 0;
    if (sw_plan_program_options(run, &c->decision, &options, err) != 0 ||
        sw_program_set_compile(&options, programs, err) != 0)
        return -1;
    if (run->job.type != SW_JOB_TRAIN)
        return 0;
    /* the search considers only the step, whose transients are the largest */
    c->memory.total += (*programs)->arena_bytes - c->memory.arena;
    c->memory.arena = (*programs)->arena_bytes;
    const struct sw_saved_run saved = {.memory_total = c->memory.total,
                                       .step_seconds = c->cost.step_seconds,
                                       .total_steps = sw_run_steps(run),
                                       .write_limit = run->checkpoint_bandwidth};
    struct sw_run_cost cost;
    if (sw_checkpoint_price_set(*programs, &run->cluster, &saved, &plan->checkpoint, err) != 0 ||
        sw_search_price_run(run, c, *programs, &cost, err) != 0)
        return -1;
    plan->trained_step_s = sw_run_trained_step_s(&cost, c);
    return 0;
}

/* The placed run, with an open interval of saves decided. */
static const struct sw_run_config *decide_interval(struct sw_emit_plan *plan)
{
    struct sw_run_config *run = &plan->placed.run;
    if (run->checkpoint_every_steps < 0)
        run->checkpoint_every_steps = plan->checkpoint.interval_steps;
    return run;
}

/* Makes the run's folder too: without it a scheduler fails the job without a log. */
static int make_folders(const struct sw_run_config *run, const char *directory,
                        struct sw_error *err)
{
    if (sw_file_make_folder(directory, err) != 0)
        return sw_path_blame(err, errno, "name another folder with -o");
    if (sw_file_make_folder(run->directory, err) != 0)
        return sw_path_blame(err, errno, "name another folder as 'directory' of the run");
    return 0;
}

static int make_plan(const struct sw_run_config *run, const char *directory,
                     struct sw_emit_plan *plan)
{
    struct sw_search search = {0};
    struct sw_program_set *programs = NULL;
    struct sw_error err = {0};
    int status = SW_OK;
    if (sw_search_choose(run, sw_run_purpose(run), 1, &search, &err) != 0)
        return sw_command_fail(&err);
    if (!sw_search_settles(&search)) {
        status = sw_report_unmet(run, &search);
    } else {
        plan->candidate = search.mesh[0];
        status = sw_search_place(run, &search.mesh[0], &plan->placed, &err) == 0 &&
                         make_programs(run, plan, &programs, &err) == 0 &&
                         make_folders(run, directory, &err) == 0 &&
                         write_plan(decide_interval(plan), programs, directory, plan, &err) == 0
                     ? SW_OK
                     : sw_command_fail(&err);
    }
    sw_program_set_free(programs);
    sw_search_free(&search);
    return status;
}

int sw_emit_plans(const struct sw_run_config *run, const char *directory,
                  struct sw_emit_plan plan[SW_EMIT_PLANS], int32_t *count)
{
    int status = SW_OK;
    *count = 0;
    for (int32_t n = run->nodes_least; n <= run->nodes_most && status == SW_OK; n++) {
        const struct sw_run_config part = sw_run_on_nodes(run, n);
        plan[*count] = (struct sw_emit_plan){.nodes = n};
        status = make_plan(&part, directory, &plan[(*count)++]);
        if (status != SW_OK && run->nodes_least < run->nodes_most)
            fprintf(stderr, "    help: this is the plan for %d nodes, one of 'nodes: %s'\n", (int)n,
                    run->nodes);
    }
    return status;
}

void sw_emit_plans_free(struct sw_emit_plan *plan, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        free(plan[i].text);
}

int sw_emit_price_save(const struct sw_run_config *run, struct sw_emit_plan *plan,
                       struct sw_error *err)
{
    struct sw_program_set *programs = NULL;
    const int status = make_programs(run, plan, &programs, err);
    sw_program_set_free(programs);
    return status;
}

int sw_emit_signal_lead_of(const struct sw_run_config *run, const struct sw_decision *decision,
                           int64_t *out)
{
    struct sw_emit_plan plan = {.nodes = run->cluster.nodes};
    int status = sw_search_evaluate(run, decision, 0, &plan.candidate, NULL, NULL);
    if (status == 0)
        status = sw_emit_price_save(run, &plan, NULL);
    if (status == 0)
        *out = sw_emit_signal_lead_s(&plan, 1);
    return status;
}

int64_t sw_emit_signal_lead_s(const struct sw_emit_plan *plan, int32_t count)
{
    double longest = 0;
    for (int32_t i = 0; i < count; i++) {
        const struct sw_checkpoint_cost *c = &plan[i].checkpoint;
        longest = fmax(longest, plan[i].candidate.cost.step_seconds + c->stall_s + c->write_s);
    }
    return sw_script_lead_s(longest);
}
