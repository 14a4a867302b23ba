#include "planner/emit/stages.h"

#include "core/base/hash.h"
#include "core/run/stages.h"
#include "planner/command/command.h"
#include "planner/scheduler/scheduler.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Jobs ---- */

static bool is_supervised(const struct sw_run_config *run)
{
    return sw_scheduler_of(&run->cluster)->allocation != NULL;
}

/* "short/6/4:0123456789abcdef,3:... long/..." */
static char *name_stages(const struct sw_emit_stage *stage, int32_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    for (int32_t i = 0; i < count; i++) {
        const struct sw_run_config *run = &stage[i].run;
        fprintf(out, "%s%s/%" PRId64 "/", i > 0 ? " " : "", run->stage.name,
                run->optimizer.total_steps);
        for (int32_t p = 0; p < stage[i].count; p++)
            fprintf(out, "%s%d:%016" PRIx64, p > 0 ? "," : "", (int)stage[i].plan[p].nodes,
                    stage[i].plan[p].digest);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Lists the files that the stages read: a container needs all of them. */
static int gather_data(const struct sw_emit_stage *stage, struct sw_emit_job *job,
                       struct sw_error *err)
{
    for (int k = 0; k < 2; k++) {
        int32_t count = 0;
        for (int32_t i = job->first; i < job->first + job->count; i++)
            count += k == 0 ? stage[i].run.data_paths.count : stage[i].run.data_validation.count;
        job->data[k] = calloc((size_t)count + 1, sizeof *job->data[k]);
        if (job->data[k] == NULL)
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the jobs");
        for (int32_t i = job->first; i < job->first + job->count; i++) {
            const struct sw_paths *paths =
                k == 0 ? &stage[i].run.data_paths : &stage[i].run.data_validation;
            for (int32_t p = 0; p < paths->count; p++)
                job->data[k][job->data_count[k]++] = paths->item[p];
        }
    }
    return 0;
}

static void sum_up(const struct sw_emit_stage *stage, struct sw_emit_job *job)
{
    const struct sw_emit_stage *first = &stage[job->first];
    const struct sw_emit_plan *most = &first->plan[first->count - 1];
    double seconds = 0, alone_s = 0;
    job->says_steps = true;
    for (int32_t i = job->first; i < job->first + job->count; i++) {
        const struct sw_emit_stage *s = &stage[i];
        const struct sw_emit_plan *plan = &s->plan[s->count - 1];
        const int64_t lead = sw_emit_signal_lead_s(s->plan, s->count),
                      steps = sw_run_steps(&s->run);
        job->steps += steps;
        job->says_steps = job->says_steps && s->run.says_steps;
        job->lead_seconds = lead > job->lead_seconds ? lead : job->lead_seconds;
        seconds += (double)steps * plan->trained_step_s;
        alone_s += (double)steps * plan->candidate.cost.step_seconds;
    }
    const bool alone = job->count == 1 || job->steps == 0;
    job->step_seconds = alone ? most->trained_step_s : seconds / (double)job->steps;
    job->mean_step_s = alone ? most->candidate.cost.step_seconds : alone_s / (double)job->steps;
}

/* NAME.sbatch for the first job, NAME.STAGE.sbatch for the others; if only another script leads
 * from stage to stage, that is NAME.sh. */
static int name_script(const struct sw_emit_stage *stage, struct sw_emit_job *job,
                       struct sw_error *err)
{
    const struct sw_run_config *run = &stage[job->first].run;
    const char *suffix = sw_scheduler_of(&run->cluster)->suffix;
    const bool plain = run->stage.count == 0 || (is_supervised(run) && job->first == 0);
    if (snprintf(job->script, sizeof job->script, "%s%s%s.%s", run->name, plain ? "" : ".",
                 plain ? "" : run->stage.name, suffix) >= (int)sizeof job->script)
        return sw_fail(err, SW_ENVIRONMENT, "the path of the script is too long");
    return 0;
}

int sw_emit_jobs_make(const struct sw_emit_stage *stage, int32_t count, const char *directory,
                      struct sw_emit_job **jobs, int32_t *job_count, struct sw_error *err)
{
    char absolute[PATH_MAX];
    struct sw_emit_job *out = calloc((size_t)count, sizeof *out);
    *jobs = out;
    *job_count = 0;
    if (out == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the jobs");
    if (realpath(directory, absolute) == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot name the folder '%s': %s", directory,
                       strerror(errno));
    for (int32_t i = 0; i < count; i++) {
        if (i > 0 && sw_stages_share_job(&stage[i].run, &stage[i - 1].run)) {
            out[*job_count - 1].count++;
            continue;
        }
        out[*job_count] = (struct sw_emit_job){.first = i, .count = 1};
        if (name_script(stage, &out[(*job_count)++], err) != 0)
            return -1;
    }
    for (int32_t i = 0; i < *job_count; i++) {
        const struct sw_run_config *run = &stage[out[i].first].run;
        sum_up(stage, &out[i]);
        if (gather_data(stage, &out[i], err) != 0)
            return -1;
        if (run->stage.count == 0 || !is_supervised(run))
            continue;
        out[i].stages = name_stages(&stage[out[i].first], out[i].count);
        if (out[i].stages == NULL ||
            (i + 1 < *job_count &&
             asprintf(&out[i].next, "%s/%s", absolute, out[i + 1].script) < 0)) {
            out[i].next = NULL;
            return sw_fail(err, SW_ENVIRONMENT, "out of memory for the jobs");
        }
    }
    return 0;
}

void sw_emit_jobs_free(struct sw_emit_job *jobs, int32_t count)
{
    for (int32_t i = 0; jobs != NULL && i < count; i++) {
        free(jobs[i].stages);
        free(jobs[i].next);
        free(jobs[i].data[0]);
        free(jobs[i].data[1]);
    }
    free(jobs);
}

int sw_emit_job_run(const struct sw_emit_stage *stage, const struct sw_emit_job *job,
                    struct sw_run_config *out, char **folder, char **checkpoints,
                    struct sw_error *err)
{
    *out = stage[job->first].run;
    *folder = sw_run_folder(out);
    *checkpoints = sw_run_checkpoints(out);
    if (*folder == NULL || *checkpoints == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
    if (out->stage.count == 0 || !is_supervised(out))
        return 0;
    out->directory = *folder;
    out->checkpoint_directory = *checkpoints;
    out->optimizer.total_steps = job->steps;
    out->stage.steps_before = 0;
    out->says_steps = job->says_steps;
    out->data_paths = (struct sw_paths){job->data[0], job->data_count[0]};
    out->data_validation = (struct sw_paths){job->data[1], job->data_count[1]};
    return 0;
}

/* ---- All stages ---- */

uint64_t sw_emit_digest(const struct sw_emit_stage *stage, int32_t count)
{
    uint64_t digest = SW_HASH_START;
    if (count == 1)
        return stage[0].plan[stage[0].count - 1].digest;
    for (int32_t i = 0; i < count; i++)
        for (int32_t p = 0; p < stage[i].count; p++)
            digest = sw_hash_bytes(digest, &stage[i].plan[p].digest, sizeof digest);
    return digest;
}

int sw_emit_stages_record(const struct sw_emit_stage *stage, int32_t count, struct sw_error *err)
{
    struct sw_stages *all = calloc(1, sizeof *all);
    char *folder = sw_run_folder(&stage[0].run);
    int status = -1;
    if (all == NULL || folder == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for the stages");
        goto out;
    }
    for (int32_t i = 0; i < count && stage[0].run.stage.count > 0; i++) {
        const struct sw_run_config *run = &stage[i].run;
        struct sw_stage *s = &all->stage[all->count++];
        snprintf(s->name, sizeof s->name, "%s", run->stage.name);
        s->steps = run->optimizer.total_steps;
        s->first_step = run->stage.steps_before;
        s->step_seconds = stage[i].plan[stage[i].count - 1].candidate.cost.step_seconds;
        s->fewest_nodes = run->nodes_least;
        s->nodes = run->nodes_most;
    }
    status = sw_stages_write(folder, stage[0].run.name, all, err);
out:
    free(folder);
    free(all);
    return status;
}

/* mpirun has a process group of its own in each script, so signals are passed on. */
static const char driver[] =
    "# Each stage begins where the one before ended; one that is done ends at once. Arguments go "
    "to\n"
    "# each; INT (Ctrl-C), TERM and USR1 end the run after the step at hand, and the exit code is "
    "the\n"
    "# verdict of the stage that ended it.\n"
    "set -euo pipefail\n"
    "\n"
    "here=$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" && pwd)\n"
    "for stage in \"${stages[@]}\"; do\n"
    "    set -m\n"
    "    \"$here/$name.$stage.sh\" \"$@\" </dev/null &\n"
    "    child=$! status=0 ended=''\n"
    "    set +m\n"
    "    for signal in TERM HUP INT USR1 USR2; do\n"
    "        # shellcheck disable=SC2064 # the values of now\n"
    "        trap \"passed=1; kill -$signal $child 2>/dev/null || true\" \"$signal\"\n"
    "    done\n"
    "    while [ -z \"$ended\" ]; do\n"
    "        passed='' code=0\n"
    "        wait \"$child\" || code=$?\n"
    "        [ \"$code\" -eq 127 ] || status=$code\n"
    "        [ -n \"$passed\" ] || ended=1\n"
    "    done\n"
    "    trap - TERM HUP INT USR1 USR2\n"
    "    [ \"$status\" -eq 0 ] || exit \"$status\"\n"
    "done\n";

char *sw_emit_driver(const struct sw_emit_stage *stage, int32_t count, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (out == NULL)
        return NULL;
    fprintf(out,
            "#!/usr/bin/env bash\n"
            "# Written by 'plan emit' %s. The next emit overwrites every change: edit the run file "
            "and emit again.\n"
            "name=%s\n"
            "stages=(",
            sw_version(), stage[0].run.name);
    for (int32_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", stage[i].run.stage.name);
    fprintf(out, ")\n%s", driver);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
