#include "planner/emit/head.h"

#include "core/base/file.h"
#include "planner/command/process.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GIT_SECONDS = 5, COMMIT_BYTES = 64 };

static void set(struct sw_script *s, enum sw_emit_placeholder id, const char *value)
{
    s->value[id].value = value;
}

/* ---- Requested resources ---- */

/* "8 nodes x 8 accelerators x 24:00:00 = 1,536 accelerator-hours at most" */
static void set_asked(struct sw_script *s, const struct sw_run_config *run)
{
    const struct sw_scheduler *row = sw_scheduler_of_jobs(&run->cluster);
    const char *time = s->value[SW_PLACEHOLDER_TIME_LIMIT].value;
    const double limit_s = row->seconds(time);
    const int32_t each = run->cluster.accelerators_per_node, most = run->nodes_most;
    char nodes[SW_FORMAT_RATE], accelerators[SW_FORMAT_RATE], hours[SW_FORMAT_RATE], limit[64];
    sw_format_counted(most, "node", nodes);
    if (run->nodes_least < most)
        snprintf(nodes, sizeof nodes, "%d to %d nodes", (int)run->nodes_least, (int)most);
    sw_format_counted(each, "accelerator", accelerators);
    if (time == NULL)
        set(s, SW_PLACEHOLDER_ASKED,
            sw_script_keep(&s->texts, "%s x %s, with no time limit of its own", nodes,
                           accelerators));
    else if (isinf(limit_s))
        set(s, SW_PLACEHOLDER_ASKED,
            sw_script_keep(&s->texts, "%s x %s without a time limit", nodes, accelerators));
    else
        set(s, SW_PLACEHOLDER_ASKED,
            sw_script_keep(
                &s->texts, "%s x %s x %s = %s at most", nodes, accelerators,
                sw_format_limit(time, limit, sizeof limit),
                sw_format_accelerator_hours((double)most * each * limit_s / 3600, hours)));
}

/* ---- Checkpoints ---- */

/* "every 100 steps (3.3 min): 96.4 GB at 8 GB/s (assumed), 12 s" */
static void set_saves(struct sw_script *s, const struct sw_run_config *run,
                      const struct sw_emit_plan *most)
{
    static const char *const rests[] = {[SW_WRITE_LIMITED] = "the run's limit",
                                        [SW_WRITE_TOLD] = "the cluster's storage",
                                        [SW_WRITE_ASSUMED] = "assumed"};
    const struct sw_checkpoint_cost *c = &most->checkpoint;
    const int64_t every = run->checkpoint_every_steps;
    char when[128], steps[SW_FORMAT_RATE], took[SW_FORMAT_BYTES], bytes[SW_FORMAT_BYTES],
        rate[SW_FORMAT_BYTES], pause[SW_FORMAT_BYTES];
    if (run->job.type != SW_JOB_TRAIN) {
        set(s, SW_PLACEHOLDER_SAVES, "none is written");
        return;
    }
    snprintf(when, sizeof when, "at the end and when told to stop");
    if (every > 0)
        snprintf(when, sizeof when, "every %s (%s)%s",
                 sw_format_counted((double)every, "step", steps),
                 sw_format_duration((double)every * most->candidate.cost.step_seconds, took),
                 " and at the end");
    set(s, SW_PLACEHOLDER_SAVES,
        sw_script_keep(&s->texts, "%s: %s at %s/s (%s); training pauses %s", when,
                       sw_format_bytes((double)c->bytes, bytes),
                       sw_format_bytes(c->bandwidth, rate), rests[c->rate],
                       sw_format_seconds(c->stall_s, pause)));
}

/* ---- Origin ---- */

/* The first line that git prints about the run file; "": none, or no git. *code: its exit code. */
static void ask_git(const char *const *argv, int *code, char out[COMMIT_BYTES])
{
    static const char *const none[] = {NULL}, *const dropped[] = {"GIT_", NULL};
    const struct sw_process_client client = {
        .kept = none, .dropped = dropped, .set = "GIT_OPTIONAL_LOCKS=0", .where = ""};
    struct sw_process_result result = {0};
    out[0] = '\0';
    *code = -1;
    if (sw_process_run(&client, argv, NULL, GIT_SECONDS, &result, NULL) == 0) {
        *code = result.timed_out ? -1 : result.exit_code;
        if (*code == 0 && result.out != NULL)
            snprintf(out, COMMIT_BYTES, "%.*s", (int)strcspn(result.out, "\n"), result.out);
    }
    sw_process_free(&result);
}

/* The last commit that changed the run file: other commits leave the script unchanged. *changed:
 * true if the file has changed since. false: the file is in no repository. */
static bool find_commit(const char *path, char out[COMMIT_BYTES], bool *changed)
{
    char *folder = strcmp(path, "-") != 0 && sw_process_exists("git") ? sw_path_folder(path) : NULL;
    const char *const name = sw_path_name(path);
    char ignored[COMMIT_BYTES];
    int code;
    out[0] = '\0';
    if (folder != NULL) {
        const char *const last[] = {"git",         "-C",          folder, "log", "-1",
                                    "--abbrev=12", "--format=%h", "--",   name,  NULL};
        const char *const same[] = {"git",  "-C", folder, "diff", "--quiet",
                                    "HEAD", "--", name,   NULL};
        ask_git(last, &code, out);
        if (out[strspn(out, "0123456789abcdef")] != '\0')
            out[0] = '\0';
        if (out[0] != '\0')
            ask_git(same, &code, ignored);
        *changed = code != 0;
    }
    free(folder);
    return out[0] != '\0';
}

static void set_source(struct sw_script *s, const char *run_path, const char *commit)
{
    char found[COMMIT_BYTES];
    bool changed = false;
    const char *name = s->value[SW_PLACEHOLDER_RUN_PATH].value;
    const bool known = find_commit(run_path, found, &changed);
    set(s, SW_PLACEHOLDER_SOURCE,
        sw_script_keep(&s->texts, "%s%s%s%s by plan %s%s%.12s%s", name, known ? " of commit " : "",
                       known ? found : "", known && changed ? ", changed since," : "", s->version,
                       commit[0] != '\0' ? " (commit " : "", commit, commit[0] != '\0' ? ")" : ""));
}

/* ---- Commands to inspect it ---- */

static int set_look(struct sw_script *s, const struct sw_run_config *run, struct sw_error *err)
{
    char *folder = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&folder, &bytes);
    if (out != NULL)
        sw_template_write_word(out, run->directory);
    if (out == NULL || fclose(out) != 0) {
        free(folder);
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while writing the script");
    }
    set(s, SW_PLACEHOLDER_LOOK,
        sw_script_keep(&s->texts, "plan status %s; plan logs -f %s", folder, folder));
    free(folder);
    return 0;
}

int sw_script_set_head(struct sw_script *s, const struct sw_run_config *run, const char *run_path,
                       const char *commit, const struct sw_emit_plan *plan, int32_t count,
                       struct sw_error *err)
{
    char why[512];
    set_asked(s, run);
    set(s, SW_PLACEHOLDER_WHY,
        sw_script_keep(&s->texts, "%s", sw_rank_why(run, sw_run_purpose(run), why, sizeof why)));
    set_saves(s, run, &plan[count - 1]);
    set_source(s, run_path, commit);
    return set_look(s, run, err);
}
