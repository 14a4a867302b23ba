/* Asks the controller through plan-slurm: requests and answers are lines of JSON, described in
 * planner/scheduler/slurm/libslurm/plan_slurm.h. */
#include "planner/scheduler/slurm/internal.h"

#include "core/base/json.h"
#include "planner/scheduler/slurm/queue.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOB_TEXT_BYTES = 64 }; /* for a job's number and state */

bool sw_slurm_library_find(char program[PATH_MAX])
{
    /* built: beside plan; installed: bin/plan and lib/shardwright/plan-slurm */
    static const char *const candidates[] = {"plan-slurm", "../lib/shardwright/plan-slurm"};
    char self[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        return false;
    slash[1] = '\0';
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (snprintf(program, PATH_MAX, "%s%s", self, candidates[i]) < PATH_MAX &&
            access(program, X_OK) == 0)
            return true;
    return false;
}

const char *sw_slurm_library_version(char buffer[32])
{
    char program[PATH_MAX];
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    buffer[0] = '\0';
    if (!sw_slurm_library_find(program))
        return buffer;
    const char *argv[] = {program, "--version", NULL};
    /* a missing library ends it with an exit code; it asks no controller */
    if (sw_process_run(NULL, argv, NULL, SW_SLURM_FIRST_SECONDS, &result, &ignored) == 0 &&
        result.exit_code == 0)
        snprintf(buffer, 32, "%.*s", (int)strcspn(result.out, "\n"), result.out);
    sw_process_free(&result);
    return buffer;
}

/* ---- Lines ---- */

static int broken(struct sw_error *err)
{
    return sw_fail(err, SW_ENVIRONMENT,
                   "plan-slurm gives an answer that plan does not understand; "
                   "build both from one version");
}

/* Runs plan-slurm; its answers are in result->out. */
static int ask(struct sw_slurm *slurm, const char *requests, double seconds,
               struct sw_process_result *result, struct sw_error *err)
{
    const char *argv[] = {slurm->program, NULL};
    if (sw_slurm_process(argv, requests, seconds, result, err) != 0)
        return -1;
    if (!result->timed_out && result->exit_code == 0)
        return 0;
    /* the last line has the reason, if it was written */
    const char *error = result->timed_out ? NULL : strstr(result->out, "{\"error\":");
    json_t *line = error != NULL ? json_loads(error, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const char *why = json_string_value(json_object_get(line, "error"));
    if (why != NULL)
        sw_fail(err, SW_ENVIRONMENT, "cannot query Slurm: %s", why);
    else
        sw_slurm_complain(result, seconds, err);
    json_decref(line);
    return -1;
}

/* The next line, cut off and parsed; NULL: the end, or no JSON. */
static json_t *next_answer(char **rest)
{
    char *line = *rest;
    if (line == NULL || *line == '\0')
        return NULL;
    const size_t length = strcspn(line, "\n");
    *rest = line + length + (line[length] == '\n');
    return json_loadb(line, length, 0, NULL);
}

static const char *text_of(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

static int64_t integer_of(const json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key));
}

static bool truth_of(const json_t *line, const char *key)
{
    return json_is_true(json_object_get(line, key));
}

/* Reads "KEY_per_cpu" or "KEY", of which one is present. */
static struct sw_slurm_memory memory_of(const json_t *line, const char *key, const char *per_cpu)
{
    const int64_t of_cpu = integer_of(line, per_cpu);
    return (struct sw_slurm_memory){.mb = of_cpu > 0 ? of_cpu : integer_of(line, key),
                                    .per_cpu = of_cpu > 0};
}

static void copy_text(const json_t *line, const char *key, char *out, size_t bytes)
{
    const char *text = text_of(line, key);
    snprintf(out, bytes, "%s", text != NULL ? text : "");
}

int sw_slurm_library_open(struct sw_slurm *slurm, bool *timed_out, struct sw_error *err)
{
    struct sw_process_result result = {0};
    int status = ask(slurm, "{\"ask\":\"version\"}\n", SW_SLURM_FIRST_SECONDS, &result, err);
    *timed_out = result.timed_out;
    if (status == 0) {
        char *rest = result.out;
        json_t *line = next_answer(&rest);
        const char *version = text_of(line, "version"), *cluster = text_of(line, "cluster"),
                   *enforced = text_of(line, "enforced");
        snprintf(slurm->version, sizeof slurm->version, "%s", version != NULL ? version : "");
        snprintf(slurm->cluster, sizeof slurm->cluster, "%s", cluster != NULL ? cluster : "");
        snprintf(slurm->enforced, sizeof slurm->enforced, "%s", enforced != NULL ? enforced : "");
        slurm->site =
            (struct sw_slurm_site){.most = memory_of(line, "max_mem", "max_mem_per_cpu"),
                                   .given = memory_of(line, "def_mem", "def_mem_per_cpu"),
                                   .max_array = integer_of(line, "max_array"),
                                   .max_tasks = integer_of(line, "max_array_tasks"),
                                   .whole_cores = truth_of(line, "whole_cores"),
                                   .no_memory = truth_of(line, "no_memory"),
                                   .whole_nodes = truth_of(line, "whole_nodes"),
                                   .billing_is_max = truth_of(line, "billing_is_max"),
                                   .no_usage = truth_of(line, "no_usage"),
                                   .usage_is_reset = truth_of(line, "usage_is_reset"),
                                   .half_life_s = (double)integer_of(line, "half_life"),
                                   .dragonfly = truth_of(line, "dragonfly"),
                                   .switch_wait_s = (double)integer_of(line, "switch_wait")};
        copy_text(line, "topology", slurm->site.topology, sizeof slurm->site.topology);
        copy_text(line, "conf", slurm->site.conf, sizeof slurm->site.conf);
        status = version != NULL ? 0 : broken(err);
        json_decref(line);
    }
    sw_process_free(&result);
    return status;
}

/* ---- Facts ---- */

static int add_node(const json_t *line, struct sw_slurm_facts *out, struct sw_error *err)
{
    const char *told = text_of(line, "state"), *state = told != NULL ? told : "";
    const struct sw_slurm_node node = {
        .name = text_of(line, "node"),
        .gres = text_of(line, "gres"),
        .features = text_of(line, "features"),
        .cpus = (int32_t)integer_of(line, "cpus"),
        .sockets = (int32_t)integer_of(line, "sockets"),
        .cores_per_socket = (int32_t)integer_of(line, "cores_per_socket"),
        .threads_per_core = (int32_t)integer_of(line, "threads_per_core"),
        .memory_mb = integer_of(line, "memory_mb"),
        .state = state,
        .state_length = strlen(state)};
    return sw_slurm_add_node(out, &node, err);
}

static int add_partition(const json_t *line, struct sw_slurm_facts *out, struct sw_error *err)
{
    struct sw_slurm_partition *p = sw_slurm_add_partition(out, err);
    if (p == NULL || sw_slurm_copy(&p->name, text_of(line, "partition"), NULL, err) != 0 ||
        sw_slurm_copy(&p->billing, text_of(line, "billing"), NULL, err) != 0 ||
        sw_slurm_copy(&p->own_qos, text_of(line, "own_qos"), NULL, err) != 0 ||
        sw_slurm_copy(&p->accounts, text_of(line, "accounts"), "ALL", err) != 0 ||
        sw_slurm_copy(&p->denied_accounts, text_of(line, "denied_accounts"), NULL, err) != 0 ||
        sw_slurm_copy(&p->qos, text_of(line, "qos"), "ALL", err) != 0 ||
        sw_slurm_copy(&p->denied_qos, text_of(line, "denied_qos"), NULL, err) != 0 ||
        sw_slurm_copy(&p->groups, text_of(line, "groups"), "ALL", err) != 0 ||
        sw_hosts_expand(text_of(line, "nodes"), &p->hosts, err) != 0)
        return -1;
    p->is_default = truth_of(line, "default");
    p->up = truth_of(line, "up");
    p->min_nodes = (int32_t)integer_of(line, "min_nodes");
    p->max_nodes = (int32_t)integer_of(line, "max_nodes");
    p->max_cpus_per_node = (int32_t)integer_of(line, "max_cpus_per_node");
    const json_t *longest = json_object_get(line, "max_time");
    p->max_time = longest != NULL ? (double)json_integer_value(longest) : INFINITY;
    p->default_time = truth_of(line, "default_time_unlimited")
                          ? INFINITY
                          : (double)integer_of(line, "default_time");
    p->most = memory_of(line, "max_mem", "max_mem_per_cpu");
    p->given = memory_of(line, "def_mem", "def_mem_per_cpu");
    p->whole_nodes = truth_of(line, "whole_nodes");
    p->needs_reservation = truth_of(line, "needs_reservation");
    p->root_only = truth_of(line, "root_only");
    return sw_slurm_copy(&p->topology, text_of(line, "topology"), NULL, err);
}

static int add_switch(const json_t *line, struct sw_slurm_facts *out, struct sw_error *err)
{
    struct sw_slurm_switch *s = sw_slurm_add_switch(out, err);
    if (s == NULL || sw_slurm_copy(&s->name, text_of(line, "switch"), NULL, err) != 0)
        return -1;
    s->level = (int32_t)integer_of(line, "level");
    return sw_hosts_expand(text_of(line, "nodes"), &s->hosts, err);
}

/* Adds one line. *more: true for a part that this libslurm cannot read. 1: it was the last. */
static int add_line(const json_t *line, struct sw_slurm_facts *out, bool *more,
                    struct sw_error *err)
{
    if (truth_of(line, "end"))
        return 1;
    if (text_of(line, "node") != NULL)
        return add_node(line, out, err);
    if (text_of(line, "partition") != NULL)
        return add_partition(line, out, err);
    if (text_of(line, "switch") != NULL)
        return add_switch(line, out, err);
    *more = *more || json_is_false(json_object_get(line, "topology"));
    return json_object_get(line, "topology") != NULL ? 0 : broken(err);
}

int sw_slurm_library_load(struct sw_slurm *slurm, struct sw_slurm_facts *out, struct sw_error *err)
{
    struct sw_process_result result = {0};
    bool more = false;
    int status = ask(slurm, "{\"ask\":\"facts\"}\n", SW_SLURM_LATER_SECONDS, &result, err);
    char *rest = result.out;
    while (status == 0) {
        json_t *line = next_answer(&rest);
        status = line != NULL ? add_line(line, out, &more, err) : broken(err);
        json_decref(line);
    }
    sw_process_free(&result);
    /* slurm_load_topo of releases before 25.05 has switches; blocks come from scontrol only */
    if (status == 1 && (more || out->switch_count == 0))
        return sw_slurm_commands_load_switches(NULL, out, err);
    return status == 1 ? 0 : -1;
}

/* ---- When a job would start ---- */

/* The requests as lines; malloc'ed, NULL: no memory. */
static char *write_requests(const struct sw_job_request *requests, int32_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return NULL;
    for (int32_t i = 0; i < count; i++) {
        struct sw_json j = {.out = out, .style = SW_JSON_LINE};
        sw_json_object(&j, NULL);
        sw_json_text(&j, "ask", "will_run");
        sw_json_object(&j, "options");
        for (int32_t k = 0; k < requests[i].count; k++)
            sw_json_text(&j, requests[i].option[k].name, requests[i].option[k].value);
        sw_json_end(&j);
        sw_json_end(&j);
        fputc('\n', out);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static int read_start(const json_t *line, struct sw_job_start *out, bool *asked,
                      struct sw_error *err)
{
    const char *refused = text_of(line, "refused"), *partition = text_of(line, "partition");
    *asked = text_of(line, "unknown") == NULL;
    if (!*asked)
        return 0;
    if (refused != NULL) {
        snprintf(out->refusal, sizeof out->refusal, "%s", refused);
        return 0;
    }
    if (!json_is_integer(json_object_get(line, "start")))
        return broken(err);
    out->starts = true;
    out->at = integer_of(line, "start");
    snprintf(out->partition, sizeof out->partition, "%s", partition != NULL ? partition : "");
    return sw_slurm_copy(&out->nodes, text_of(line, "nodes"), NULL, err);
}

int sw_slurm_library_will_run(struct sw_slurm *slurm, const struct sw_job_request *requests,
                              int32_t count, struct sw_job_start *out, bool *asked,
                              struct sw_error *err)
{
    struct sw_process_result result = {0};
    char *text = write_requests(requests, count);
    if (text == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory while asking Slurm");
    int status = ask(slurm, text, SW_SLURM_LATER_SECONDS, &result, err);
    char *rest = result.out;
    for (int32_t i = 0; status == 0 && i < count; i++) {
        json_t *line = next_answer(&rest);
        status = line != NULL ? read_start(line, &out[i], &asked[i], err) : broken(err);
        json_decref(line);
    }
    sw_process_free(&result);
    free(text);
    return status;
}

/* ---- Jobs ---- */

/* Parses one line of the answer; text: room for the job's texts, JOB_TEXT_BYTES. */
static bool take_job(const json_t *line, char *text, struct sw_queued_job *out)
{
    const char *state = text_of(line, "state");
    if (state == NULL)
        return false;
    const int64_t number = integer_of(line, "job");
    const int id = snprintf(text, JOB_TEXT_BYTES, "%" PRId64, number) + 1;
    snprintf(text + id, (size_t)(JOB_TEXT_BYTES - id), "%s", state);
    *out = (struct sw_queued_job){.id = text,
                                  .number = number,
                                  .state = text + id,
                                  .reason = "",
                                  .nodes = "",
                                  .starts_at = "",
                                  .ended_at = "",
                                  .submitted_at = "",
                                  .start = integer_of(line, "start"),
                                  .comment = "",
                                  .command = "",
                                  .folder = "",
                                  .elapsed_seconds = -1,
                                  .limit_seconds = -1};
    sw_slurm_judge_state(out);
    return true;
}

int sw_slurm_library_jobs(struct sw_slurm *slurm, struct sw_queued_jobs *out, struct sw_error *err)
{
    struct sw_process_result result = {0};
    size_t lines = 1;
    int status = ask(slurm, "{\"ask\":\"jobs\"}\n", SW_SLURM_LATER_SECONDS, &result, err);
    if (status != 0)
        goto out;
    for (const char *p = result.out; *p != '\0'; p++)
        lines += *p == '\n';
    out->job = calloc(lines, sizeof *out->job);
    out->text = malloc(lines * JOB_TEXT_BYTES);
    if (out->job == NULL || out->text == NULL) {
        status = sw_fail(err, SW_ENVIRONMENT, "out of memory for what Slurm says");
        goto out;
    }
    char *rest = result.out;
    for (bool end = false; status == 0 && !end;) {
        json_t *line = next_answer(&rest);
        end = truth_of(line, "end");
        if (!end && ((size_t)out->count == lines ||
                     !take_job(line, out->text + (size_t)out->count * JOB_TEXT_BYTES,
                               &out->job[out->count])))
            status = broken(err);
        else
            out->count += !end;
        json_decref(line);
    }
out:
    sw_process_free(&result);
    return status;
}
