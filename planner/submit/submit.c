/* `plan submit`: one job at a time for a run's folder, with a record that survives a kill at any
 * moment.
 *
 * The order: lock (.submission.lock, which the scheduler's command inherits, so that it stays
 * locked while that runs, even if plan was killed) - is there a live job? - plan and script - the
 * record with a token, "submitting" - the command (Slurm's is sbatch), whose job's comment and
 * script path lead back to the record - the record with the job's number, "submitted". A later
 * command that finds "submitting" asks the scheduler for the job of that token or script. */
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/run/stages.h"
#include "planner/emit/emit.h"
#include "planner/emit/budget.h"
#include "planner/emit/script.h"
#include "planner/submit/dry_run.h"
#include "planner/job/owned.h"
#include "planner/job/status.h"
#include "planner/search/frontier.h"
#include "planner/search/lacks.h"
#include "planner/policy/site.h"
#include "planner/scheduler/scheduler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Longest waits of a user: for an answer about live jobs; for another plan submit. */
static const double ask_seconds = 4, lock_seconds = 4;
enum { SCRIPT_BYTES_MAX = 1 << 22 };

/* State of a submission. */
struct submitting {
    char folder[PATH_MAX], plan[PATH_MAX], script[PATH_MAX];
    const struct sw_options *options;
    struct sw_run_file run_file; /* for a run file; config NULL: none */
    struct sw_plan read;         /* for a plan file; config NULL: none */
    struct sw_run_config suited; /* its run, with its script's job */
    const struct sw_run_config *run;
    char *whole;                         /* folder of the run, as written */
    int32_t stages;                      /* 0: no stages */
    uint64_t run_digest;                 /* digest of all plans; 0: a plan file */
    int64_t all_steps;                   /* in all stages; 0: unknown */
    double all_seconds;                  /* seconds of these; 0: the run does not give its steps */
    const struct sw_scheduler *row;      /* row of its cluster; it has a queue */
    struct sw_submission before, record; /* before: earlier record of the folder */
    struct sw_admission admission;
    int lock;
};

/* ---- The run to submit ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a > b && strcmp(text + a - b, end) == 0;
}

static int fail_long(const char *what, struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT, "the path of the %s is too long", what);
}

/* Finds stages in the run file, or in the file written beside the plan. */
static int find_stages(const struct submitting *s, struct sw_stages *out, struct sw_error *err)
{
    char note[256];
    const struct sw_run_file *file = &s->run_file;
    if (file->config == NULL)
        return sw_stages_read(s->folder, out, note, err);
    *out = (struct sw_stages){0};
    for (int32_t i = 0; i < sw_config_stage_count(file->config); i++) {
        const struct sw_run_config *run = sw_config_stage(file->config, i);
        struct sw_stage *stage = &out->stage[out->count++];
        snprintf(stage->name, sizeof stage->name, "%s", run->stage.name);
        stage->steps = run->optimizer.total_steps;
        stage->first_step = run->stage.steps_before;
        stage->fewest_nodes = run->nodes_least;
        stage->nodes = run->nodes_most;
    }
    return 0;
}

/* ".STAGE" in the name of the script that trains the run's current stage: stages on equally many
 * nodes share the first one's; "" for the first stage. */
static int name_script(struct submitting *s, char out[SW_STAGE_NAME_BYTES + 1],
                       struct sw_error *err)
{
    struct sw_stages *stages = calloc(1, sizeof *stages);
    int32_t first = 0;
    out[0] = '\0';
    if (stages == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for the stages");
    int status = s->run->stage.count > 0 ? find_stages(s, stages, err) : 0;
    const int32_t current = sw_stages_current(s->folder, stages);
    s->stages = stages->count;
    for (int32_t i = 1; i <= current && i < stages->count; i++)
        if (stages->stage[i].nodes != stages->stage[i - 1].nodes ||
            stages->stage[i].fewest_nodes != stages->stage[i - 1].fewest_nodes)
            first = i;
    if (first > 0)
        snprintf(out, SW_STAGE_NAME_BYTES + 1, ".%s", stages->stage[first].name);
    free(stages);
    return status;
}

static int find_paths(struct submitting *s, const char *folder, struct sw_error *err)
{
    char name[PATH_MAX], stage[SW_STAGE_NAME_BYTES + 1];
    if (realpath(s->whole, s->folder) == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot name the folder '%s': %s", s->whole,
                       strerror(errno));
    if (name_script(s, stage, err) != 0)
        return -1;
    if (realpath(folder, name) == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "cannot name the folder '%s': %s", folder,
                       strerror(errno));
    if (snprintf(s->script, sizeof s->script, "%s/%s%s.%s", name, s->run->name, stage,
                 s->row->suffix) >= (int)sizeof s->script)
        return fail_long("script", err);
    return 0;
}

static int read_plan(const struct sw_options *options, const char *path, struct sw_plan *out,
                     struct sw_run_config *suited, struct sw_error *err)
{
    if (options->override_count > 0 || options->mesh_dim != NULL || options->prefer != NULL ||
        options->template_path != NULL)
        return sw_fail(err, SW_BAD_INPUT,
                       "a plan is submitted unchanged; --set, --mesh_dim, --prefer and --template "
                       "need a run file");
    return sw_plan_read(path, &sw_launchers, out, err) == 0
               ? sw_script_find_job(path, out, suited, err)
               : -1;
}

/* Refuses a job that would wait, start and fail. folder: of the plan; NULL: a run. Returns an exit
 * code. */
static int check_lacks(const struct sw_run_config *run, const char *folder, bool force)
{
    struct sw_lack lack[SW_LACKS];
    const int32_t count = sw_lacks_find(run, lack);
    const bool files = folder == NULL || run->job.type == SW_JOB_TRAIN;
    int status = SW_OK;
    for (int32_t i = 0; i < count; i++) {
        struct sw_error err = {0};
        if ((force || !files) && !lack[i].anywhere)
            continue;
        sw_fail_at(&err, SW_BAD_INPUT, lack[i].at, "%s; %s", lack[i].message, lack[i].help);
        status = sw_command_fail(&err);
    }
    return status;
}

/* Reads the file on the command line, and makes the run's folder. Returns an exit code. */
static int open_run(struct submitting *s, const struct sw_options *options)
{
    struct sw_error err = {0};
    const char *path = options->file_count == 1 ? options->files[0] : "";
    char *folder = NULL;
    if (ends_with(path, ".plan.yaml")) {
        if (read_plan(options, path, &s->read, &s->suited, &err) != 0)
            return sw_command_fail(&err);
        s->run = s->read.run;
        folder = sw_path_folder(path);
        if (folder == NULL || realpath(path, s->plan) == NULL)
            sw_fail(&err, SW_ENVIRONMENT, "cannot name the plan '%s': %s", path, strerror(errno));
    } else {
        const int status = sw_run_file_open(options, true, &s->run_file);
        if (status != SW_OK)
            return status;
        if (sw_frontier_settle(path, &s->run_file.run, &err) != 0)
            return sw_command_fail(&err);
        s->run = &s->run_file.run;
    }
    if (err.status == SW_OK) {
        s->row = sw_scheduler_of(&s->run->cluster);
        if (s->row->queue == NULL)
            sw_scheduler_fail_no_queue(&s->run->cluster,
                                       "job to submit; write the script with 'plan emit' and start "
                                       "it with bash",
                                       &err);
    }
    const int lacks = err.status == SW_OK ? check_lacks(s->run, folder, options->force) : SW_OK;
    if (lacks != SW_OK) {
        free(folder);
        return lacks;
    }
    if (err.status == SW_OK)
        (void)sw_command_check_data(s->run, &err);
    if (err.status == SW_OK && (s->whole = sw_run_folder(s->run)) == NULL)
        sw_fail(&err, SW_ENVIRONMENT, "out of memory for the run's folder");
    if (err.status == SW_OK)
        if (sw_file_make_folder(s->whole, &err) != 0)
            (void)sw_path_blame(&err, errno, "name another folder as 'directory' of the run");
    if (err.status == SW_OK)
        (void)find_paths(s, folder != NULL ? folder : s->whole, &err);
    free(folder);
    return err.status == SW_OK ? SW_OK : sw_command_fail(&err);
}

/* ---- Live jobs ---- */

static int lock_folder(struct submitting *s, struct sw_error *err)
{
    char path[PATH_MAX + 32];
    const double end = sw_clock_now() + lock_seconds;
    snprintf(path, sizeof path, "%s/.submission.lock", s->folder);
    /* not O_CLOEXEC: the command holds it, too, until the scheduler has answered */
    s->lock = open(path, O_RDWR | O_CREAT, 0666);
    if (s->lock < 0)
        return sw_fail(err, SW_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    while (flock(s->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return 0; /* a file system without locks: the record alone must suffice */
        if (sw_clock_now() > end)
            return sw_fail(err, SW_ENVIRONMENT,
                           "another 'plan submit' of this folder, or its %s, is still running: "
                           "'plan status %s' shows its result",
                           s->row->starter, s->folder);
        const struct timespec nap = {.tv_nsec = 50000000};
        nanosleep(&nap, NULL);
    }
    return 0;
}

/* cancel: command that ends the job: plan's, or the scheduler's own. */
static int refuse(const char *folder, const struct sw_queued_job *job, const char *cancel,
                  struct sw_error *err)
{
    char id[SW_JOB_ID_BYTES]; /* squeue's "42_[4-15]" is no job's number */
    snprintf(id, sizeof id, "%.*s", (int)strcspn(job->id, "["), job->id);
    if (strchr(job->id, '[') != NULL)
        id[strcspn(id, "_")] = '\0';
    return sw_fail(err, SW_UNMET,
                   "job %s of this folder is %s: two jobs would write the same files; wait for it "
                   "('plan status %s'), or end it ('%s %s')",
                   id,
                   strcmp(job->state, "COMPLETING") == 0 ? "ending"
                   : job->is_running                     ? "running"
                                                         : "waiting",
                   folder, cancel, id);
}

/* Records a job whose number was lost when plan was killed. */
static int recover(struct submitting *s, const struct sw_run_status *run,
                   const struct sw_queued_job *job, struct sw_error *err)
{
    if (s->before.token[0] == '\0' || s->before.submitted || !sw_owned_is_current(run, job))
        return 0;
    s->before.submitted = true;
    s->before.job_count = 1;
    snprintf(s->before.job[0], sizeof s->before.job[0], "%.*s", (int)strcspn(job->id, "_"),
             job->id);
    return sw_submission_write(s->folder, &s->before, err);
}

/* Fails if a job of this folder waits or runs. */
static int check_live(struct submitting *s, struct sw_error *err)
{
    const char *folder = s->folder;
    struct sw_statuses all = {0};
    struct sw_queued_jobs mine = {0};
    struct sw_queued_job live;
    char note[256];
    const double end = sw_clock_now() + ask_seconds;
    int status = -1;
    if (sw_submission_read(s->folder, &s->before, note, err) != 0 ||
        sw_statuses_read(&folder, 1, &all, err) != 0)
        goto out;
    sw_statuses_use(&all, s->row);
    if (sw_statuses_ask(&all, ask_seconds / 2, err) != 0)
        goto out;
    if (all.trouble.status != SW_OK) {
        status = sw_fail_as(err, &all.trouble);
        goto out;
    }
    if (sw_status_live_jobs(&all, 0, &live, 1) > 0) {
        if (recover(s, &all.run[0], &live, err) == 0)
            refuse(s->folder, &live, "plan cancel", err);
        goto out;
    }
    /* unrecorded ones, too: submitted by hand, or by a killed plan */
    if (s->row->queue->ask(NULL, 0, end - sw_clock_now(), &mine, err) != 0)
        goto out;
    for (int32_t i = 0; i < mine.count; i++) {
        const struct sw_queued_job *job = &mine.job[i];
        const bool owns = sw_status_owns(&all.run[0], job);
        if (!job->is_live || (strcmp(job->command, s->script) != 0 && !owns))
            continue;
        if (recover(s, &all.run[0], job, err) == 0)
            refuse(s->folder, job, owns ? "plan cancel" : s->row->queue->cancel, err);
        goto out;
    }
    s->record.attempt = all.run[0].attempt.attempt + 1;
    status = 0;
out:
    sw_queued_jobs_free(&mine);
    sw_statuses_free(&all);
    return status;
}

/* ---- The script ---- */

/* Notes the script's settings, and checks that it belongs to the plan and that its job can
 * start. */
static int read_script(struct submitting *s, uint64_t digest, bool *has_comment,
                       struct sw_error *err)
{
    char *text = NULL, wanted[32];
    struct sw_job_script said = {0};
    size_t bytes = 0;
    if (sw_file_read(s->script, true, SCRIPT_BYTES_MAX, &text, &bytes, NULL) != 0)
        return sw_fail(err, SW_BAD_INPUT,
                       "cannot read the plan's script '%s': %s; 'plan emit' writes both", s->script,
                       strerror(errno));
    snprintf(wanted, sizeof wanted, "%016" PRIx64, digest);
    int status = 0;
    if (s->read.config != NULL && strstr(text, wanted) == NULL) /* if not, both were just written */
        status = sw_fail(err, SW_BAD_INPUT,
                         "'%s' was not written with this plan, whose digest is %s; 'plan emit' "
                         "writes both",
                         s->script, wanted);
    s->record.script_digest = sw_hash_bytes(SW_HASH_START, text, bytes);
    s->row->queue->read_script(text, s->folder, &said);
    memcpy(s->record.log, said.log, sizeof s->record.log);
    *has_comment = said.has_comment;
    if (status == 0)
        status = s->row->queue->admit(text, &s->admission, err);
    free(text);
    return status;
}

/* ---- The record ---- */

static int make_token(char out[SW_TOKEN_BYTES], struct sw_error *err)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return sw_fail(err, SW_ENVIRONMENT, "no random number: %s", strerror(errno));
    snprintf(out, SW_TOKEN_BYTES, "%016" PRIx64, random);
    return 0;
}

static int fill_record(struct submitting *s, uint64_t digest, const struct sw_decision *decision,
                       const struct sw_cost *cost, struct sw_error *err)
{
    struct sw_submission *r = &s->record;
    const struct sw_run_config *run = s->run;
    const time_t now = time(NULL);
    struct tm utc;
    char checkpoints[PATH_MAX], *all = sw_run_checkpoints(run);
    if (all == NULL || make_token(r->token, err) != 0) {
        free(all);
        return all == NULL ? sw_fail(err, SW_ENVIRONMENT, "out of memory for the record") : -1;
    }
    r->plan_digest = s->run_digest != 0 ? s->run_digest : digest;
    r->nodes = run->cluster.nodes;
    r->ranks = sw_mesh_rank_count(&decision->mesh);
    r->steps = run->job.type == SW_JOB_TRAIN ? run->optimizer.total_steps : 0;
    r->step_seconds = cost->step_seconds;
    r->low_seconds = cost->band_low_seconds;
    r->high_seconds = cost->band_high_seconds;
    r->run_seconds = run->says_steps ? cost->step_seconds * (double)r->steps : 0;
    if (s->all_steps > 0) {
        r->steps = s->all_steps;
        r->run_seconds = s->all_seconds;
    }
    sw_mesh_format(&decision->mesh, r->mesh, sizeof r->mesh);
    strftime(r->submitted_at, sizeof r->submitted_at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    /* it may not exist yet */
    if (realpath(all, checkpoints) == NULL)
        snprintf(checkpoints, sizeof checkpoints, "%.*s", (int)sizeof checkpoints - 1, all);
    free(all);
    if (snprintf(r->checkpoints, sizeof r->checkpoints, "%s", checkpoints) >=
            (int)sizeof r->checkpoints ||
        snprintf(r->run, sizeof r->run, "%s", run->name) >= (int)sizeof r->run ||
        snprintf(r->cluster, sizeof r->cluster, "%s", run->cluster.name) >= (int)sizeof r->cluster)
        return fail_long("run", err);
    memcpy(r->plan, s->plan, sizeof r->plan);
    memcpy(r->script, s->script, sizeof r->script);
    return 0;
}

/* ---- The submission ---- */

static void forget(struct submitting *s)
{
    if (s->before.token[0] != '\0')
        (void)sw_submission_write(s->folder, &s->before, NULL);
    else
        sw_submission_forget(s->folder);
}

static int give(struct submitting *s, bool has_comment, struct sw_error *err)
{
    const enum sw_submitted done =
        s->row->queue->submit(s->script, has_comment ? NULL : s->record.token, s->folder,
                              s->record.job[0], sizeof s->record.job[0], err);
    if (done == SW_SUBMIT_NONE)
        forget(s);
    return done == SW_SUBMIT_DONE ? 0 : -1;
}

/* ---- The command ---- */

/* Number of nodes on which the run would start now if it waits for more. A plan is submitted
 * unchanged. */
static int32_t find_fewer(const struct submitting *s)
{
    const bool may_change = s->read.config == NULL && s->admission.waits[0] != '\0';
    return may_change ? sw_dry_run_fewer(s->options, s->admission.left) : 0;
}

static void warn_of_waiting(const struct submitting *s, int32_t fewer)
{
    if (s->admission.waits[0] == '\0')
        return;
    fprintf(stderr, "plan: warning: the job %s", s->admission.waits);
    if (fewer > 0)
        fprintf(stderr, "; --set nodes=%d starts now", (int)fewer);
    fputc('\n', stderr);
}

/* Submits the written plan and script. Returns an exit code. */
static int submit(struct submitting *s, uint64_t digest, const struct sw_decision *decision,
                  const struct sw_cost *cost)
{
    struct sw_error err = {0};
    bool has_comment = false;
    if (read_script(s, digest, &has_comment, &err) != 0)
        return sw_command_fail(&err);
    /* asked before this job waits, too */
    const int32_t fewer = find_fewer(s);
    if (fill_record(s, digest, decision, cost, &err) != 0 ||
        sw_submission_begin_links(s->folder, &err) != 0 ||
        sw_submission_write(s->folder, &s->record, &err) != 0 || give(s, has_comment, &err) != 0)
        return sw_command_fail(&err);
    s->record.submitted = true;
    s->record.job_count = 1;
    warn_of_waiting(s, fewer);
    sw_budgets_tell(s->options, NULL, &s->admission.budgets);
    s->row->queue->admitted(&s->admission, s->record.job[0]);
    if (sw_submission_write(s->folder, &s->record, &err) != 0) {
        sw_fail_context(&err, "job %s is submitted, but", s->record.job[0]);
        return sw_command_fail(&err);
    }
    return SW_OK;
}

static int submit_plan(struct submitting *s)
{
    struct sw_error err = {0};
    struct sw_candidate c;
    if (sw_search_evaluate_job(s->run, &s->read.decision, &c, &err) != 0)
        return sw_command_fail(&err);
    sw_report_note_device(s->plan, s->run);
    sw_site_advise(s->options, s->run, &c, NULL);
    return submit(s, s->read.digest, &s->read.decision, &c.cost);
}

/* Sums the time of all stages. */
static void sum_up(struct submitting *s, const struct sw_emitted *emitted)
{
    if (s->stages == 0)
        return;
    s->all_steps = emitted->steps;
    s->all_seconds = emitted->says_steps ? emitted->run_seconds : 0;
}

static int submit_run(struct submitting *s, const struct sw_options *options)
{
    struct sw_options emit = *options;
    struct sw_emitted *emitted = calloc(1, sizeof *emitted);
    struct sw_error err = {0};
    if (emitted == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory while writing the plan");
        return sw_command_fail(&err);
    }
    emit.output = s->folder;
    int status = sw_emit(&emit, &s->run_file, stderr, emitted);
    if (status == SW_OK) {
        memcpy(s->plan, emitted->plan, sizeof s->plan);
        s->run_digest = emitted->run_digest;
        sum_up(s, emitted);
        status = submit(s, emitted->digest, &emitted->candidate.decision, &emitted->candidate.cost);
    }
    free(emitted);
    return status;
}

static void report(const struct submitting *s, bool json)
{
    struct sw_json j = {.out = stdout, .style = SW_JSON_TABS};
    if (json) {
        sw_submission_write_json(&j, &s->record);
        putchar('\n');
        return;
    }
    printf("%s\n", s->record.job[0]);
    fprintf(stderr, "submitted job %s (attempt %" PRId64 "); 'plan status %s --watch' follows it\n",
            s->record.job[0], s->record.attempt, s->record.job[0]);
}

static int submit_as_told(const struct sw_options *options)
{
    struct sw_error err = {0};
    struct submitting *s = calloc(1, sizeof *s);
    if (s == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "out of memory for the submission");
        return sw_command_fail(&err);
    }
    s->lock = -1;
    s->options = options;
    int status = open_run(s, options);
    if (status == SW_OK && (lock_folder(s, &err) != 0 || check_live(s, &err) != 0))
        status = sw_command_fail(&err);
    if (status == SW_OK)
        status = s->read.config != NULL ? submit_plan(s) : submit_run(s, options);
    if (status == SW_OK)
        report(s, options->json);
    if (s->lock >= 0)
        (void)close(s->lock);
    sw_budgets_free(&s->admission.budgets);
    if (s->read.config != NULL)
        sw_plan_free(&s->read);
    sw_run_file_free(&s->run_file);
    free(s->whole);
    free(s);
    return status;
}

/* Returns an exit code. */
static int dry_run_of_plan(const struct sw_options *options, const char *path)
{
    struct sw_plan plan = {0};
    struct sw_run_config suited;
    struct sw_error err = {0};
    char script[PATH_MAX], *folder = NULL;
    int status = SW_OK;
    if (read_plan(options, path, &plan, &suited, &err) != 0)
        goto out;
    folder = sw_path_folder(path);
    if (folder == NULL ||
        snprintf(script, sizeof script, "%s/%s.%s", folder, plan.run->name,
                 sw_scheduler_of(&plan.run->cluster)->suffix) >= (int)sizeof script)
        (void)fail_long("script", &err);
    else
        status = sw_dry_run_plan(options, &plan, script);
out:
    if (err.status != SW_OK)
        status = sw_command_fail(&err);
    free(folder);
    if (plan.config != NULL)
        sw_plan_free(&plan);
    return status;
}

/* Asks the controller about a run first, for --dry-run and --soonest. Returns an exit code. */
static int ask_first(const struct sw_options *options, struct sw_options *out,
                     struct sw_soonest *texts)
{
    struct sw_run_file run_file = {0};
    struct sw_error err = {0};
    const char *path = options->file_count == 1 ? options->files[0] : "";
    if (ends_with(path, ".plan.yaml") && !options->soonest)
        return dry_run_of_plan(options, path);
    if (ends_with(path, ".plan.yaml")) {
        sw_fail(&err, SW_BAD_INPUT,
                "a plan is submitted unchanged; --soonest chooses nodes and mesh and needs a run "
                "file; --dry-run tells when the plan could start");
        return sw_command_fail(&err);
    }
    int status = sw_run_file_open(options, true, &run_file);
    if (status == SW_OK &&
        (sw_command_check_data(&run_file.run, &err) != 0 ||
         (!options->soonest && sw_frontier_settle(path, &run_file.run, &err) != 0)))
        status = sw_command_fail(&err);
    if (status == SW_OK)
        status = options->dry_run ? sw_dry_run(options, &run_file)
                                  : sw_soonest_choose(options, &run_file, out, texts);
    sw_run_file_free(&run_file);
    return status;
}

int sw_command_submit(const struct sw_options *options)
{
    struct sw_options chosen;
    struct sw_soonest texts;
    if (!options->dry_run && !options->soonest)
        return submit_as_told(options);
    const int status = ask_first(options, &chosen, &texts);
    return status != SW_OK || options->dry_run ? status : submit_as_told(&chosen);
}
