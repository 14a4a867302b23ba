#include "planner/submit/dry_run.h"

#include "core/base/file.h"
#include "core/base/json.h"
#include "planner/emit/budget.h"
#include "planner/emit/emit.h"
#include "planner/command/format.h"
#include "planner/scheduler/scheduler.h"
#include "planner/submit/start.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SCRIPT_BYTES_MAX = 1 << 22 };

/* All stages of a run, of which the choices are for the first one's job. */
struct whole {
    int32_t stages; /* 0: the run has none */
    int64_t steps;
    double seconds; /* steps with saves and evaluations, without starts and waits */
};

/* ---- The job that would be submitted ---- */

static void remove_folder(const char *folder)
{
    DIR *files = opendir(folder);
    const struct dirent *entry = NULL;
    while (files != NULL && (entry = readdir(files)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            if (unlinkat(dirfd(files), entry->d_name, 0) != 0) /* folder of a stage */
                unlinkat(dirfd(files), entry->d_name, AT_REMOVEDIR);
    if (files != NULL)
        closedir(files);
    rmdir(folder);
}

/* Reads a script's requests; digest: of the plan that it was written with, NULL: certain. */
static int read_request(const struct sw_scheduler *row, const char *script, const char *digest,
                        struct sw_job_request *out, struct sw_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = -1;
    if (sw_file_read(script, true, SCRIPT_BYTES_MAX, &text, &bytes, NULL) != 0)
        sw_fail(err, digest != NULL ? SW_BAD_INPUT : SW_ENVIRONMENT,
                "cannot read the plan's script '%s': %s; 'plan emit' writes both", script,
                strerror(errno));
    else if (digest != NULL && strstr(text, digest) == NULL)
        sw_fail(err, SW_BAD_INPUT,
                "'%s' was not written with this plan, whose digest is %s; 'plan emit' writes both",
                script, digest);
    else
        status = row->forecast->read(text, out, err);
    free(text);
    return status;
}

/* Writes plan and script as a submission does, but into `folder`, and reads the script's requests.
 * Returns an exit code. */
static int ask_of_script(const struct sw_options *options, const struct sw_run_file *run_file,
                         char *folder, struct sw_job_request *out, struct whole *whole,
                         struct sw_error *err)
{
    const struct sw_scheduler *row = sw_scheduler_of(&run_file->run.cluster);
    struct sw_run_file aside = *run_file;
    struct sw_options emit = *options;
    struct sw_emitted *emitted = calloc(1, sizeof *emitted);
    char path[2 * PATH_MAX];
    FILE *nowhere = fopen("/dev/null", "we");
    int status = SW_ENVIRONMENT;
    if (emitted == NULL || nowhere == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the plan");
        status = sw_command_fail(err);
        goto out;
    }
    emit.output = folder;
    aside.run.directory = folder; /* the run's own files stay untouched */
    aside.aside = folder;
    status = sw_emit(&emit, &aside, nowhere, emitted);
    if (status != SW_OK)
        goto out;
    *whole = (struct whole){.stages = sw_config_stage_count(run_file->config),
                            .steps = emitted->steps,
                            .seconds = emitted->run_seconds};
    snprintf(path, sizeof path, "%s/%s.%s", folder, run_file->run.name, row->suffix);
    status = read_request(row, path, NULL, out, err) == 0 ? SW_OK : sw_command_fail(err);
out:
    if (nowhere != NULL)
        fclose(nowhere);
    free(emitted);
    return status;
}

static struct sw_forecast *open_forecast(const struct sw_run_config *run, struct sw_error *err)
{
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    if (row->forecast != NULL)
        return row->forecast->open(err);
    if (row->queue == NULL)
        sw_scheduler_fail_no_queue(&run->cluster, "queue to ask", err);
    else
        sw_fail(err, SW_BAD_INPUT, "%s does not say when a job would start; submit it", row->title);
    return NULL;
}

static void close_forecast(const struct sw_run_config *run, struct sw_forecast *forecast)
{
    if (forecast != NULL)
        sw_scheduler_of(&run->cluster)->forecast->close(forecast);
}

/* Gathers all data; the caller closes *forecast. Returns an exit code. */
static int gather(const struct sw_options *options, const struct sw_run_file *run_file,
                  struct sw_forecast **forecast, struct sw_start_choices *out, struct whole *whole)
{
    struct sw_error err = {0};
    struct sw_job_request base = {0};
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_MAX];
    *forecast = open_forecast(&run_file->run, &err);
    if (*forecast == NULL)
        return sw_command_fail(&err);
    snprintf(folder, sizeof folder, "%s/shardwright.XXXXXX",
             temporary != NULL && temporary[0] == '/' ? temporary : "/tmp");
    if (mkdtemp(folder) == NULL) {
        sw_fail(&err, SW_ENVIRONMENT, "cannot create a folder '%s': %s", folder, strerror(errno));
        return sw_command_fail(&err);
    }
    int status = ask_of_script(options, run_file, folder, &base, whole, &err);
    remove_folder(folder);
    if (status == SW_OK &&
        sw_start_choices_gather(*forecast, &run_file->run, &base, NULL, out, &err) != 0)
        status = sw_command_fail(&err);
    sw_job_request_free(&base);
    return status;
}

/* ---- Text ---- */

static const char *wait_text(double seconds, char buffer[SW_FORMAT_BYTES])
{
    /* the controller looks at its queue periodically: less than a minute is at once */
    return seconds < 60 ? "now" : sw_format_duration(seconds, buffer);
}

static void print_choice(const struct sw_start_choices *all, bool trains, int32_t i)
{
    const struct sw_start_choice *c = &all->choice[i];
    char done[SW_FORMAT_BYTES], wait[SW_FORMAT_BYTES], low[SW_FORMAT_BYTES], high[SW_FORMAT_BYTES],
        run[SW_FORMAT_BYTES] = "", step[SW_FORMAT_BYTES], mesh[64], band[80] = "no history",
        jobs[24] = "";
    if (c->has_band)
        snprintf(band, sizeof band, "%s to %s", wait_text(c->wait_low_s, low),
                 wait_text(c->wait_high_s, high));
    if (c->jobs > 1)
        snprintf(jobs, sizeof jobs, "  in %d jobs", c->jobs);
    if (trains)
        sw_format_duration(c->run_s, run);
    printf("%s %-10s %-10s %-22s %-*s %5d  %-12s %-14s %s%s%s\n",
           c->submitted ? sw_format_mark(true) : " ", sw_format_duration(c->result_s, done),
           wait_text(c->wait_s, wait), band, trains ? 10 : 0, run, c->nodes, c->partition,
           sw_mesh_format(&c->candidate.decision.mesh, mesh, sizeof mesh),
           sw_format_seconds(c->candidate.cost.step_seconds, step), jobs,
           i == 0 && !all->settled ? "  soonest" : "");
}

static void print_text(const struct sw_run_config *run, const struct sw_forecast *forecast,
                       const struct sw_start_choices *all, const struct whole *whole)
{
    char steps[SW_FORMAT_RATE];
    int32_t starting = 0;
    while (starting < all->count && all->choice[starting].starts)
        starting++;
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    const bool trains = sw_run_purpose(run) == SW_FOR_TRAIN;
    printf("%s on %s cluster %s: %s%s\n", run->name, row->title, row->forecast->cluster(forecast),
           trains ? sw_format_counted((double)run->optimizer.total_steps, "step", steps)
                  : "makes texts",
           !trains           ? ", for as long as they take"
           : run->says_steps ? ""
                             : " assumed; the run does not say optimizer.total_steps");
    if (whole->stages > 0) {
        char time[SW_FORMAT_BYTES];
        printf("stage 1 of %d; the steps of all stages, %" PRId64 ", take %s\n", (int)whole->stages,
               whole->steps, sw_format_duration(whole->seconds, time));
    }
    if (starting > 0)
        printf("  %-10s %-10s %-22s %-*s %5s  %-12s %-14s %s\n", trains ? "done in" : "ready in",
               "wait", "of the wait", trains ? 10 : 0, trains ? "run" : "", "nodes", "partition",
               "mesh_dim", trains ? "step" : "token");
    for (int32_t i = 0; i < starting; i++)
        print_choice(all, trains, i);
    for (int32_t i = starting; i < all->count; i++)
        printf("%s %d node%s, partition %s: %s\n", sw_format_mark(false), all->choice[i].nodes,
               all->choice[i].nodes == 1 ? "" : "s", all->choice[i].partition,
               all->choice[i].why_not);
    if (starting > 0)
        printf("%s the choice of 'plan submit'%s. The start of a job is assumed to take %.0f s.\n",
               sw_format_mark(true), all->settled ? "" : "; --soonest takes the first line",
               SW_START_SETUP_SECONDS);
    if (all->log_ratio != 1)
        printf("waits are the controller's, times %.2g: the median of %d of your jobs\n",
               all->log_ratio, all->log_jobs);
}

/* ---- JSON ---- */

static void write_choice(struct sw_json *j, const struct sw_start_choices *all, bool trains,
                         int32_t i)
{
    const struct sw_start_choice *c = &all->choice[i];
    char mesh[64];
    sw_json_object(j, NULL);
    sw_json_integer(j, "nodes", c->nodes);
    sw_json_text(j, "partition", c->partition);
    sw_json_bool(j, "starts", c->starts);
    sw_json_bool(j, "waits", c->waits);
    sw_json_text(j, "why_not", c->starts ? NULL : c->why_not);
    if (c->starts) {
        sw_json_bool(j, "submitted", c->submitted);
        sw_json_bool(j, "soonest", i == 0);
        sw_json_text(j, "mesh_dim", sw_mesh_format(&c->candidate.decision.mesh, mesh, sizeof mesh));
        sw_json_integer(j, "starts_at", c->at);
        sw_json_text(j, "node_list", c->where);
        sw_json_number(j, "wait_seconds", c->wait_s);
        if (c->has_band) {
            sw_json_number(j, "wait_low_seconds", c->wait_low_s);
            sw_json_number(j, "wait_high_seconds", c->wait_high_s);
        } else {
            sw_json_null(j, "wait_low_seconds");
            sw_json_null(j, "wait_high_seconds");
        }
        sw_json_integer(j, "like_jobs", c->like_jobs);
        sw_json_number(j, trains ? "step_seconds" : "token_seconds",
                       c->candidate.cost.step_seconds);
        if (isinf(c->limit_s))
            sw_json_null(j, "limit_seconds");
        else
            sw_json_number(j, "limit_seconds", c->limit_s);
        if (trains)
            sw_json_number(j, "run_seconds", c->run_s);
        else
            sw_json_null(j, "run_seconds");
        sw_json_integer(j, "jobs", c->jobs);
        sw_json_number(j, "result_seconds", c->result_s);
    }
    sw_json_end(j);
}

static void print_json(const struct sw_run_config *run, const struct sw_forecast *forecast,
                       const struct sw_start_choices *all, const struct whole *whole)
{
    const struct sw_scheduler *row = sw_scheduler_of(&run->cluster);
    struct sw_json j = {.out = stdout, .style = SW_JSON_TABS};
    const bool trains = sw_run_purpose(run) == SW_FOR_TRAIN;
    sw_json_object(&j, NULL);
    sw_json_text(&j, "schema", "shardwright.start/1");
    sw_json_text(&j, "run", run->name);
    sw_json_text(&j, "cluster", row->forecast->cluster(forecast));
    sw_json_text(&j, row->name, row->forecast->version(forecast));
    sw_json_integer(&j, "asked_at", all->now);
    sw_json_integer(&j, "steps", trains ? run->optimizer.total_steps : 0);
    sw_json_bool(&j, "steps_assumed", trains && !run->says_steps);
    if (whole->stages > 0) {
        sw_json_object(&j, "stages");
        sw_json_integer(&j, "count", whole->stages);
        sw_json_integer(&j, "steps", whole->steps);
        sw_json_number(&j, "run_seconds", whole->seconds);
        sw_json_end(&j);
    } else {
        sw_json_null(&j, "stages");
    }
    sw_json_number(&j, "setup_seconds", SW_START_SETUP_SECONDS);
    sw_json_integer(&j, "log_jobs", all->log_jobs);
    sw_json_number(&j, "log_ratio", all->log_ratio);
    sw_json_array(&j, "choices");
    for (int32_t i = 0; i < all->count; i++)
        write_choice(&j, all, trains, i);
    sw_json_end(&j);
    sw_budgets_write_json(&j, "budgets", &all->budgets);
    sw_json_end(&j);
    putchar('\n');
}

/* ---- Commands ---- */

static bool any_starts(const struct sw_start_choices *all)
{
    return all->count > 0 && all->choice[0].starts;
}

static int fail_none(const struct sw_start_choices *all)
{
    struct sw_error err = {0};
    sw_fail(&err, SW_UNMET, "no job of this run can start: %s",
            all->count > 0 ? all->choice[0].why_not : "it has no nodes");
    return sw_command_fail(&err);
}

/* Prints all. Returns the exit code that a submission would have. */
static int show(const struct sw_options *options, const struct sw_run_config *run,
                const struct sw_forecast *forecast, const struct sw_start_choices *all,
                const struct whole *whole)
{
    if (options->json)
        print_json(run, forecast, all, whole);
    else
        print_text(run, forecast, all, whole);
    if (!options->json)
        sw_budgets_tell(options, NULL, &all->budgets);
    if (all->taken || !any_starts(all))
        return all->taken ? SW_OK : fail_none(all);
    struct sw_error err = {0};
    sw_fail(&err, SW_UNMET, "the job cannot start: %s%s", all->refused,
            all->settled ? "" : "; --soonest takes the first line");
    return sw_command_fail(&err);
}

int sw_dry_run_plan(const struct sw_options *options, const struct sw_plan *plan,
                    const char *script)
{
    struct sw_start_choices all = {0};
    struct sw_job_request base = {0};
    struct sw_error err = {0};
    char digest[32];
    int status;
    snprintf(digest, sizeof digest, "%016" PRIx64, plan->digest);
    struct sw_forecast *forecast = open_forecast(plan->run, &err);
    if (forecast == NULL ||
        read_request(sw_scheduler_of(&plan->run->cluster), script, digest, &base, &err) != 0 ||
        sw_start_choices_gather(forecast, plan->run, &base, &plan->decision, &all, &err) != 0)
        status = sw_command_fail(&err);
    else
        status = show(options, plan->run, forecast, &all, &(struct whole){0});
    sw_start_choices_free(&all);
    sw_job_request_free(&base);
    close_forecast(plan->run, forecast);
    return status;
}

int sw_dry_run(const struct sw_options *options, struct sw_run_file *run_file)
{
    struct sw_start_choices all = {0};
    struct sw_forecast *forecast = NULL;
    struct whole whole = {0};
    int status = gather(options, run_file, &forecast, &all, &whole);
    if (status == SW_OK)
        status = show(options, &run_file->run, forecast, &all, &whole);
    sw_start_choices_free(&all);
    close_forecast(&run_file->run, forecast);
    return status;
}

/* ---- Fewer nodes ---- */

/* True if the run of the options has a mesh. */
static bool has_mesh(const struct sw_run_file *run_file)
{
    struct sw_search search = {0};
    struct sw_error ignored = {0};
    const struct sw_run_config *run = &run_file->run;
    const bool settles = sw_search_choose(run, sw_run_purpose(run), 1, &search, &ignored) == 0 &&
                         sw_search_settles(&search);
    sw_search_free(&search);
    return settles;
}

/* True if a submission with these options would start at once. */
static bool starts_now(const struct sw_options *options, const struct sw_run_file *run_file)
{
    struct sw_start_choices all = {0};
    struct sw_forecast *forecast = NULL;
    struct whole whole;
    bool starts = false;
    if (gather(options, run_file, &forecast, &all, &whole) == SW_OK)
        for (int32_t i = 0; i < all.count; i++)
            starts = starts || (all.choice[i].submitted && all.choice[i].at <= all.now + 60);
    sw_start_choices_free(&all);
    close_forecast(&run_file->run, forecast);
    return starts;
}

int32_t sw_dry_run_fewer(const struct sw_options *options, int32_t most)
{
    enum { SEARCHES = 32, QUESTIONS = 2 };
    int32_t asked = 0, found = 0;
    for (int32_t n = most; n > 0 && n > most - SEARCHES && asked < QUESTIONS && found == 0; n--) {
        struct sw_options fewer = *options;
        struct sw_run_file run_file = {0};
        char text[32];
        snprintf(text, sizeof text, "nodes=%d", (int)n);
        if (fewer.override_count == SW_MAX_OVERRIDES)
            return 0;
        fewer.override[fewer.override_count++].text = text;
        if (sw_run_file_try(&fewer, &run_file) && run_file.run.cluster.nodes == n &&
            has_mesh(&run_file)) {
            asked++;
            found = starts_now(&fewer, &run_file) ? n : 0;
        }
        sw_run_file_free(&run_file);
    }
    return found;
}

/* Adds an override of the run. */
static int set(struct sw_options *options, const char *text)
{
    struct sw_error err = {0};
    if (options->override_count == SW_MAX_OVERRIDES) {
        sw_fail(&err, SW_BAD_INPUT, "more than %d times --set", SW_MAX_OVERRIDES);
        return sw_command_fail(&err);
    }
    options->override[options->override_count++].text = text;
    return SW_OK;
}

int sw_soonest_choose(const struct sw_options *options, struct sw_run_file *run_file,
                      struct sw_options *out, struct sw_soonest *texts)
{
    struct sw_start_choices all = {0};
    struct sw_forecast *forecast = NULL;
    char done[SW_FORMAT_BYTES], wait[SW_FORMAT_BYTES], mesh[64];
    struct whole whole;
    int status = gather(options, run_file, &forecast, &all, &whole);
    *out = *options;
    if (status == SW_OK && !any_starts(&all))
        status = fail_none(&all);
    if (status != SW_OK)
        goto out;
    const struct sw_start_choice *c = &all.choice[0];
    snprintf(texts->nodes, sizeof texts->nodes, "nodes=%d", c->nodes);
    snprintf(texts->partition, sizeof texts->partition, "%s.partition=%s",
             sw_scheduler_of(&run_file->run.cluster)->name, c->partition);
    status = set(out, texts->nodes);
    if (status == SW_OK && c->partition[0] != '\0')
        status = set(out, texts->partition);
    /* the fastest mesh on these nodes, unless the first is the run's own choice */
    if (!c->submitted)
        out->prefer = "time";
    fprintf(stderr, "soonest: %d node%s of partition %s, mesh_dim %s: %s, %s in %s\n", c->nodes,
            c->nodes == 1 ? "" : "s", c->partition,
            sw_mesh_format(&c->candidate.decision.mesh, mesh, sizeof mesh),
            c->wait_s < 60 ? "starts now" : wait_text(c->wait_s, wait),
            sw_run_purpose(&run_file->run) == SW_FOR_TRAIN ? "done" : "ready",
            sw_format_duration(c->result_s, done));
out:
    sw_start_choices_free(&all);
    close_forecast(&run_file->run, forecast);
    return status;
}
