/* Asks the controller through Slurm's own commands. Their output for programs is stable: `-o` of
 * scontrol (Key=Value), formats of squeue, and the line of sbatch --test-only, unchanged from 22.05
 * to 26.05. */
#include "planner/scheduler/slurm/internal.h"
#include "planner/scheduler/slurm/queue.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUE = 1 << 16 };

/* ---- Key=Value lines ---- */

const char *sw_slurm_find_value(const char *line, const char *key, size_t *length)
{
    const size_t bytes = strlen(key);
    for (const char *p = line; (p = strstr(p, key)) != NULL; p += bytes) {
        if ((p != line && p[-1] != ' ') || p[bytes] != '=')
            continue;
        p += bytes + 1;
        *length = strcspn(p, " \n");
        return p;
    }
    return NULL;
}

/* Copies the value, "" if missing; malloc'ed, NULL: no memory. */
static char *copy_value(const char *line, const char *key)
{
    size_t length = 0;
    const char *value = sw_slurm_find_value(line, key, &length);
    return strndup(value != NULL ? value : "", length);
}

static int64_t number_of(const char *line, const char *key)
{
    size_t length = 0;
    const char *value = sw_slurm_find_value(line, key, &length);
    return value != NULL && isdigit((unsigned char)*value) ? strtoll(value, NULL, 10) : 0;
}

static bool value_is(const char *line, const char *key, const char *wanted)
{
    size_t length = 0;
    const char *value = sw_slurm_find_value(line, key, &length);
    return value != NULL && length == strlen(wanted) && memcmp(value, wanted, length) == 0;
}

/* Seconds of "2-00:00:00"; UNLIMITED: INFINITY; NONE: 0. */
static double time_of(const char *line, const char *key)
{
    size_t length = 0;
    const char *p = sw_slurm_find_value(line, key, &length);
    double part[3] = {0}, days = 0;
    if (p == NULL || !isdigit((unsigned char)*p))
        return p != NULL && strncmp(p, "UNLIMITED", 9) == 0 ? INFINITY : 0;
    char *end = NULL;
    part[0] = strtod(p, &end);
    if (*end == '-') {
        days = part[0];
        part[0] = strtod(end + 1, &end);
    }
    for (int32_t i = 1; i < 3 && *end == ':'; i++)
        part[i] = strtod(end + 1, &end);
    return days * 86400 + part[0] * 3600 + part[1] * 60 + part[2];
}

/* ---- Facts ---- */

/* Returns the next line of a text, which is cut in place. */
static char *next_line(char **rest)
{
    char *line = *rest;
    if (line == NULL || *line == '\0')
        return NULL;
    char *end = strchr(line, '\n');
    *rest = end != NULL ? end + 1 : line + strlen(line);
    if (end != NULL)
        *end = '\0';
    return line;
}

static int read_node(const char *line, struct sw_slurm_facts *out, struct sw_error *err)
{
    size_t length = 0;
    int status = -1;
    char *name = copy_value(line, "NodeName"), *gres = copy_value(line, "Gres"),
         *features = copy_value(line, "AvailableFeatures");
    const char *state = sw_slurm_find_value(line, "State", &length);
    /* available to jobs: CoreSpecCount reserves some for Slurm itself */
    const int64_t given = number_of(line, "CPUEfctv");
    if (name == NULL || gres == NULL || features == NULL) {
        sw_fail(err, SW_ENVIRONMENT, "out of memory for what Slurm says");
    } else if (*name == '\0' || state == NULL) {
        status = 0; /* "No nodes in the system" */
    } else {
        const struct sw_slurm_node node = {
            .name = name,
            .gres = gres,
            .features = features,
            .cpus = (int32_t)(given > 0 ? given : number_of(line, "CPUTot")),
            .sockets = (int32_t)number_of(line, "Sockets"),
            .cores_per_socket = (int32_t)number_of(line, "CoresPerSocket"),
            .threads_per_core = (int32_t)number_of(line, "ThreadsPerCore"),
            .memory_mb = number_of(line, "RealMemory") - number_of(line, "MemSpecLimit"),
            .state = state,
            .state_length = length};
        status = sw_slurm_add_node(out, &node, err);
    }
    free(name);
    free(gres);
    free(features);
    return status;
}

/* Copies a value into *out as sw_slurm_copy does. */
static int keep(char **out, const char *line, const char *key, const char *all,
                struct sw_error *err)
{
    char *value = copy_value(line, key);
    if (value == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for what Slurm says");
    const int status = sw_slurm_copy(out, value, all, err);
    free(value);
    return status;
}

static int expand_value(const char *line, const char *key, struct sw_hosts *hosts,
                        struct sw_error *err)
{
    char *value = copy_value(line, key);
    if (value == NULL)
        return sw_fail(err, SW_ENVIRONMENT, "out of memory for what Slurm says");
    const int status = sw_hosts_expand(value, hosts, err);
    free(value);
    return status;
}

/* Reads "MaxMemPerNode=4000" or "MaxMemPerCPU=500", of which one is present; UNLIMITED: not set. */
static struct sw_slurm_memory memory_of(const char *line, const char *which)
{
    char per_node[32], per_cpu[32];
    snprintf(per_node, sizeof per_node, "%sPerNode", which);
    snprintf(per_cpu, sizeof per_cpu, "%sPerCPU", which);
    const int64_t of_cpu = number_of(line, per_cpu);
    return (struct sw_slurm_memory){.mb = of_cpu > 0 ? of_cpu : number_of(line, per_node),
                                    .per_cpu = of_cpu > 0};
}

static int read_partition(const char *line, struct sw_slurm_facts *out, struct sw_error *err)
{
    size_t length = 0;
    if (sw_slurm_find_value(line, "PartitionName", &length) == NULL)
        return 0;
    struct sw_slurm_partition *p = sw_slurm_add_partition(out, err);
    if (p == NULL || keep(&p->name, line, "PartitionName", NULL, err) != 0 ||
        keep(&p->billing, line, "TRESBillingWeights", NULL, err) != 0 ||
        keep(&p->own_qos, line, "QoS", "N/A", err) != 0 ||
        keep(&p->topology, line, "Topology", NULL, err) != 0 ||
        keep(&p->accounts, line, "AllowAccounts", "ALL", err) != 0 ||
        keep(&p->denied_accounts, line, "DenyAccounts", NULL, err) != 0 ||
        keep(&p->qos, line, "AllowQos", "ALL", err) != 0 ||
        keep(&p->denied_qos, line, "DenyQos", NULL, err) != 0 ||
        keep(&p->groups, line, "AllowGroups", "ALL", err) != 0 ||
        expand_value(line, "Nodes", &p->hosts, err) != 0)
        return -1;
    p->is_default = value_is(line, "Default", "YES");
    p->up = value_is(line, "State", "UP");
    p->min_nodes = (int32_t)number_of(line, "MinNodes");
    p->max_nodes = (int32_t)number_of(line, "MaxNodes");
    p->max_cpus_per_node = (int32_t)number_of(line, "MaxCPUsPerNode");
    p->max_time = time_of(line, "MaxTime");
    p->default_time = time_of(line, "DefaultTime");
    p->most = memory_of(line, "MaxMem");
    p->given = memory_of(line, "DefMem");
    p->whole_nodes = value_is(line, "OverSubscribe", "EXCLUSIVE");
    p->needs_reservation = value_is(line, "ReqResv", "YES");
    p->root_only = value_is(line, "RootOnly", "YES");
    return 0;
}

static int read_switch(const char *line, struct sw_slurm_facts *out, struct sw_error *err)
{
    static const char *const names[] = {"SwitchName", "BlockName", "AggregatedBlock"};
    size_t length = 0, kind = 0;
    while (kind < 3 && sw_slurm_find_value(line, names[kind], &length) == NULL)
        kind++;
    if (kind == 3)
        return 0;
    struct sw_slurm_switch *s = sw_slurm_add_switch(out, err);
    if (s == NULL || keep(&s->name, line, names[kind], NULL, err) != 0)
        return -1;
    s->block = kind > 0;
    s->level = kind == 1 ? 0 : (int32_t)number_of(line, kind == 0 ? "Level" : "BlockSize");
    s->size = kind > 0 ? (int32_t)number_of(line, "BlockSize") : 0;
    return expand_value(line, "Nodes", &s->hosts, err);
}

static int read_lines(const char *const *argv, const char *what,
                      int (*read)(const char *, struct sw_slurm_facts *, struct sw_error *),
                      struct sw_slurm_facts *out, struct sw_error *err)
{
    struct sw_process_result result = {0};
    int status = sw_slurm_run(argv, NULL, SW_SLURM_LATER_SECONDS, what, &result, err);
    char *rest = result.out;
    for (char *line; status == 0 && (line = next_line(&rest)) != NULL;)
        status = read(line, out, err);
    sw_process_free(&result);
    return status;
}

/* Number value of a key; missing: 0. */
static int64_t config_number(const char *text, const char *key)
{
    char value[64] = "";
    sw_slurm_config_value(text, key, value, sizeof value);
    return isdigit((unsigned char)value[0]) ? strtoll(value, NULL, 10) : 0;
}

static struct sw_slurm_memory config_memory(const char *text, const char *per_node,
                                            const char *per_cpu)
{
    const int64_t of_cpu = config_number(text, per_cpu);
    return (struct sw_slurm_memory){.mb = of_cpu > 0 ? of_cpu : config_number(text, per_node),
                                    .per_cpu = of_cpu > 0};
}

double sw_slurm_switch_wait_s(const char *scheduler_parameters)
{
    static const char key[] = "max_switch_wait=";
    const char *wait = scheduler_parameters != NULL ? strcasestr(scheduler_parameters, key) : NULL;
    const double seconds = wait != NULL ? strtod(wait + strlen(key), NULL) : 0;
    return seconds > 0 && seconds <= 1e8 ? seconds : 0;
}

static void read_decay(const char *text, struct sw_slurm_site *out)
{
    char type[64] = "", half_life[64] = "", reset[64] = "";
    sw_slurm_config_value(text, "PriorityType", type, sizeof type);
    sw_slurm_config_value(text, "PriorityDecayHalfLife", half_life, sizeof half_life);
    sw_slurm_config_value(text, "PriorityUsageResetPeriod", reset, sizeof reset);
    out->no_usage = type[0] != '\0' && strcmp(type, "priority/multifactor") != 0;
    if (out->no_usage) /* the other two mean nothing then */
        return;
    out->half_life_s = fmax(0, sw_slurm_duration(half_life));
    out->usage_is_reset = reset[0] != '\0' && strcasecmp(reset, "NONE") != 0;
}

static struct sw_slurm_site read_site(const char *text)
{
    struct sw_slurm_site site;
    char select[64] = "", shared[128] = "", priority[128] = "", scheduler[1024] = "",
         topology[128] = "";
    sw_slurm_config_value(text, "SelectType", select, sizeof select);
    sw_slurm_config_value(text, "SelectTypeParameters", shared, sizeof shared);
    sw_slurm_config_value(text, "PriorityFlags", priority, sizeof priority);
    sw_slurm_config_value(text, "SchedulerParameters", scheduler, sizeof scheduler);
    const char *tasks = strstr(scheduler, "max_array_tasks=");
    sw_slurm_config_value(text, "TopologyParam", topology, sizeof topology);
    site = (struct sw_slurm_site){
        .dragonfly = strcasestr(topology, "dragonfly") != NULL,
        .switch_wait_s = sw_slurm_switch_wait_s(scheduler),
        .most = config_memory(text, "MaxMemPerNode", "MaxMemPerCPU"),
        .given = config_memory(text, "DefMemPerNode", "DefMemPerCPU"),
        .max_array = config_number(text, "MaxArraySize"),
        .max_tasks = tasks != NULL ? strtoll(tasks + strlen("max_array_tasks="), NULL, 10) : 0,
        .whole_cores =
            strcasestr(shared, "cr_core") != NULL || strcasestr(shared, "cr_socket") != NULL,
        .no_memory = shared[0] != '\0' && strcasestr(shared, "memory") == NULL,
        .whole_nodes = strcmp(select, "select/linear") == 0,
        .billing_is_max = strcasestr(priority, "max_tres") != NULL};
    read_decay(text, &site);
    sw_slurm_config_value(text, "TopologyPlugin", site.topology, sizeof site.topology);
    sw_slurm_config_value(text, "SLURM_CONF", site.conf, sizeof site.conf);
    return site;
}

int sw_slurm_commands_open(struct sw_slurm *slurm, struct sw_error *err)
{
    static const char *const argv[] = {"scontrol", "show", "config", NULL};
    struct sw_process_result result = {0};
    const int status = sw_slurm_run(argv, NULL, SW_SLURM_FIRST_SECONDS, NULL, &result, err);
    if (status == 0) {
        sw_slurm_config_value(result.out, "SLURM_VERSION", slurm->version, sizeof slurm->version);
        sw_slurm_config_value(result.out, "ClusterName", slurm->cluster, sizeof slurm->cluster);
        sw_slurm_config_value(result.out, "AccountingStorageEnforce", slurm->enforced,
                              sizeof slurm->enforced);
        slurm->site = read_site(result.out);
    }
    sw_process_free(&result);
    return status;
}

int sw_slurm_commands_load_switches(const char *topology, struct sw_slurm_facts *out,
                                    struct sw_error *err)
{
    const char *const argv[] = {"scontrol", "show", "topology", topology, NULL};
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    /* clusters without a topology report that in several ways: no switches */
    int status = sw_slurm_run(argv, NULL, SW_SLURM_LATER_SECONDS, "switches", &result, &ignored);
    char *rest = status == 0 ? result.out : NULL;
    status = 0;
    for (char *line; status == 0 && (line = next_line(&rest)) != NULL;)
        status = read_switch(line, out, err);
    sw_process_free(&result);
    return status;
}

void sw_slurm_commands_topology_of(const char *partition, char *out, size_t bytes)
{
    const char *const argv[] = {"scontrol", "-a", "show", "partition", partition, "-o", NULL};
    struct sw_process_result result = {0};
    struct sw_error ignored = {0};
    size_t length = 0;
    const char *name = NULL;
    out[0] = '\0';
    if (sw_slurm_run(argv, NULL, SW_SLURM_LATER_SECONDS, "partition", &result, &ignored) == 0)
        name = sw_slurm_find_value(result.out, "Topology", &length);
    if (name != NULL && length < bytes)
        snprintf(out, bytes, "%.*s", (int)length, name);
    sw_process_free(&result);
}

int sw_slurm_commands_load(struct sw_slurm_facts *out, struct sw_error *err)
{
    static const char *const nodes[] = {"scontrol", "-a", "show", "node", "-o", NULL};
    static const char *const partitions[] = {"scontrol", "-a", "show", "partition", "-o", NULL};
    if (read_lines(nodes, "nodes", read_node, out, err) != 0 ||
        read_lines(partitions, "partitions", read_partition, out, err) != 0)
        return -1;
    return sw_slurm_commands_load_switches(NULL, out, err);
}

/* ---- When a job would start ---- */

/* Copies the text between `before` and the next space or the end. */
static void word_after(const char *text, const char *before, char *out, size_t bytes)
{
    const char *p = strstr(text, before);
    out[0] = '\0';
    if (p == NULL)
        return;
    p += strlen(before);
    snprintf(out, bytes, "%.*s", (int)strcspn(p, " \n"), p);
}

/* "sbatch: Job 8 to start at TIME using N processors on nodes LIST in partition NAME" */
static int read_start(const char *text, struct sw_job_start *out, struct sw_error *err)
{
    static const char at[] = " to start at ", on[] = " on nodes ";
    const char *line = strstr(text, at);
    if (line == NULL)
        return sw_fail(err, SW_ENVIRONMENT,
                       "'sbatch --test-only' says nothing about when the job would start");
    out->starts = true;
    out->at = sw_slurm_moment(line + strlen(at));
    word_after(line, " in partition ", out->partition, sizeof out->partition);
    const char *nodes = strstr(line, on);
    if (nodes != NULL) {
        nodes += strlen(on);
        out->nodes = strndup(nodes, strcspn(nodes, " \n"));
    }
    return 0;
}

/* A missing folder does not affect when a job starts. */
static bool names_a_folder(const char *name)
{
    static const char *const names[] = {"chdir", "error", "input", "output"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

int sw_slurm_commands_will_run(const struct sw_job_request *request, struct sw_job_start *out,
                               struct sw_error *err)
{
    const char *argv[SW_JOB_OPTIONS + 4];
    char *made[SW_JOB_OPTIONS] = {0};
    int32_t count = 0, status = -1;
    struct sw_process_result result = {0};
    argv[count++] = "sbatch";
    argv[count++] = "--test-only";
    for (int32_t i = 0; i < request->count; i++) {
        const char *name = request->option[i].name, *value = request->option[i].value;
        const size_t bytes = strlen(name) + strlen(value) + 4;
        if (names_a_folder(name))
            continue;
        made[i] = malloc(bytes);
        if (made[i] == NULL) {
            sw_fail(err, SW_ENVIRONMENT, "out of memory while asking Slurm");
            goto out;
        }
        snprintf(made[i], bytes, *value != '\0' ? "--%s=%s" : "--%s%s", name, value);
        argv[count++] = made[i];
    }
    argv[count++] = "--wrap=true";
    argv[count] = NULL;
    if (sw_slurm_process(argv, NULL, SW_SLURM_LATER_SECONDS, &result, err) != 0)
        goto out;
    if (result.timed_out) {
        sw_slurm_complain(&result, SW_SLURM_LATER_SECONDS, err);
    } else if (result.exit_code == 0) {
        status = read_start(result.diagnostics, out, err);
    } else {
        static const char mark[] = "allocation failure: ";
        char *after = strstr(sw_process_words(&result, out->refusal, sizeof out->refusal), mark);
        if (strstr(out->refusal, "Unable to contact") != NULL) {
            sw_slurm_complain(&result, SW_SLURM_LATER_SECONDS, err);
            goto out;
        }
        if (after != NULL)
            memmove(after, after + strlen(mark), strlen(after + strlen(mark)) + 1);
        status = 0;
    }
out:
    for (int32_t i = 0; i < request->count; i++)
        free(made[i]);
    sw_process_free(&result);
    return status;
}
