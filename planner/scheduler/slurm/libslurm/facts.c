/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Nodes, partitions, switches and jobs as lines of JSON. */
#include "planner/scheduler/slurm/libslurm/plan_slurm.h"

#include "core/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void end_line(struct sw_json *j)
{
    sw_json_end(j);
    putchar('\n');
}

static struct sw_json begin_line(void)
{
    struct sw_json j = {.out = stdout, .style = SW_JSON_LINE};
    sw_json_object(&j, NULL);
    return j;
}

static void print_end(void)
{
    struct sw_json j = begin_line();
    sw_json_bool(&j, "end", true);
    end_line(&j);
}

/* AccountingStorageEnforce in the words of `scontrol show config`. No header of libslurm has the
 * bits; they are the ACCOUNTING_ENFORCE_ ones of Slurm's src/common/read_config.h. */
static void write_enforced(struct sw_json *j, uint32_t enforced)
{
    static const struct {
        uint32_t bit;
        const char *word;
    } words[] = {{1 << 0, "associations"}, {1 << 1, "limits"}, {1 << 5, "nojobs"},
                 {1 << 6, "nosteps"},      {1 << 3, "qos"},    {1 << 4, "safe"},
                 {1 << 2, "wckeys"}};
    char text[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if ((enforced & words[i].bit) != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? "," : "",
                                     words[i].word);
    sw_json_text(j, "enforced", used > 0 ? text : "none");
}

/* Writes megabytes of a node, or of each processor; none: no member. */
static void write_memory(struct sw_json *j, const char *key, const char *per_cpu, uint64_t value)
{
    const bool of_cpu = (value & MEM_PER_CPU) != 0;
    value &= ~MEM_PER_CPU;
    if (value != 0 && value != INFINITE64 && value != (INFINITE64 & ~MEM_PER_CPU))
        sw_json_integer(j, of_cpu ? per_cpu : key, (int64_t)value);
}

/* Writes the site's settings about jobs. */
static void write_site(struct sw_json *j, const slurm_conf_t *conf)
{
    static const char tasks[] = "max_array_tasks=", switches[] = "max_switch_wait=";
    const char *most = conf->sched_params != NULL ? strstr(conf->sched_params, tasks) : NULL;
    write_memory(j, "max_mem", "max_mem_per_cpu", conf->max_mem_per_cpu);
    write_memory(j, "def_mem", "def_mem_per_cpu", conf->def_mem_per_cpu);
    sw_json_integer(j, "max_array", conf->max_array_sz);
    if (most != NULL)
        sw_json_integer(j, "max_array_tasks", strtoll(most + strlen(tasks), NULL, 10));
    sw_json_bool(j, "whole_cores",
                 (conf->select_type_param & (SW_SLURM_CORES | SW_SLURM_SOCKETS)) != 0);
    sw_json_bool(j, "no_memory", (conf->select_type_param & SW_SLURM_MEMORY) == 0);
    sw_json_bool(j, "whole_nodes",
                 conf->select_type != NULL && strcmp(conf->select_type, "select/linear") == 0);
    sw_json_text(j, "topology", conf->topology_plugin);
    sw_json_text(j, "conf", conf->slurm_conf);
    sw_json_bool(j, "dragonfly",
                 conf->topology_param != NULL && strcasestr(conf->topology_param, "dragonfly"));
    const char *wait = conf->sched_params != NULL ? strcasestr(conf->sched_params, switches) : NULL;
    if (wait != NULL)
        sw_json_integer(j, "switch_wait", strtoll(wait + strlen(switches), NULL, 10));
    sw_json_bool(j, "billing_is_max", (conf->priority_flags & SW_SLURM_BILLING_MAX) != 0);
    const bool counts =
        conf->priority_type == NULL || strcmp(conf->priority_type, "priority/multifactor") == 0;
    sw_json_bool(j, "no_usage", !counts);
    sw_json_bool(j, "usage_is_reset", counts && conf->priority_reset_period != PRIORITY_RESET_NONE);
    if (counts && conf->priority_decay_hl != NO_VAL && conf->priority_decay_hl != INFINITE)
        sw_json_integer(j, "half_life", conf->priority_decay_hl);
}

int print_version(void)
{
    slurm_conf_t *conf = NULL;
    if (slurm_load_ctl_conf(0, &conf) != 0)
        return -1;
    struct sw_json j = begin_line();
    sw_json_text(&j, "version", conf->version);
    sw_json_text(&j, "cluster", conf->cluster_name);
    write_enforced(&j, conf->accounting_storage_enforce);
    write_site(&j, conf);
    end_line(&j);
    SW_SLURM_FREE_CONF(conf);
    return 0;
}

/* Writes the parts of a state that keep jobs away, in the words of `scontrol show node`. */
static void write_state(struct sw_json *j, uint32_t state)
{
    static const struct {
        uint32_t bits;
        const char *word;
    } flags[] = {{NODE_STATE_DRAIN, "DRAIN"},
                 {NODE_STATE_FAIL, "FAIL"},
                 {NODE_STATE_MAINT, "MAINTENANCE"},
                 {NODE_STATE_RES, "RESERVED"},
                 {NODE_STATE_NO_RESPOND, "NOT_RESPONDING"},
#ifdef NODE_STATE_INVALID_REG
                 {NODE_STATE_INVALID_REG, "INVALID_REG"},
#endif
#ifdef NODE_STATE_REBOOT_ISSUED
                 {NODE_STATE_REBOOT_ISSUED, "REBOOT_ISSUED"},
#endif
                 {0, NULL}};
    const uint32_t base = state & NODE_STATE_BASE;
    char text[160];
    size_t used = (size_t)snprintf(text, sizeof text, "%s",
                                   base == NODE_STATE_DOWN      ? "DOWN"
                                   : base == NODE_STATE_ERROR   ? "ERROR"
                                   : base == NODE_STATE_FUTURE  ? "FUTURE"
                                   : base == NODE_STATE_UNKNOWN ? "UNKNOWN"
                                                                : "UP");
    for (size_t i = 0; flags[i].word != NULL; i++)
        if ((state & flags[i].bits) != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "+%s", flags[i].word);
    sw_json_text(j, "state", text);
}

static int print_nodes(void)
{
    node_info_msg_t *nodes = NULL;
    if (slurm_load_node(0, &nodes, SHOW_ALL | SHOW_DETAIL) != 0)
        return -1;
    for (uint32_t i = 0; i < nodes->record_count; i++) {
        const node_info_t *n = &nodes->node_array[i];
        if (n->name == NULL)
            continue; /* an empty slot */
        struct sw_json j = begin_line();
        sw_json_text(&j, "node", n->name);
        /* available to jobs: CoreSpecCount reserves some for Slurm itself */
        sw_json_integer(&j, "cpus", n->cpus_efctv > 0 ? n->cpus_efctv : n->cpus);
        sw_json_integer(&j, "sockets", n->sockets);
        sw_json_integer(&j, "cores_per_socket", n->cores);
        sw_json_integer(&j, "threads_per_core", n->threads);
        sw_json_integer(&j, "memory_mb", (int64_t)n->real_memory - (int64_t)n->mem_spec_limit);
        sw_json_text(&j, "gres", n->gres);
        sw_json_text(&j, "features", n->features);
        write_state(&j, n->node_state);
        end_line(&j);
    }
    slurm_free_node_info_msg(nodes);
    return 0;
}

/* A limit that is a number; none: no member. */
static void print_limit(struct sw_json *j, const char *key, uint32_t value, uint32_t unit)
{
    if (value != INFINITE && value != NO_VAL)
        sw_json_integer(j, key, (int64_t)value * unit);
}

static int print_partitions(void)
{
    partition_info_msg_t *partitions = NULL;
    if (slurm_load_partitions(0, &partitions, SHOW_ALL) != 0)
        return -1;
    for (uint32_t i = 0; i < partitions->record_count; i++) {
        const partition_info_t *p = &partitions->partition_array[i];
        struct sw_json j = begin_line();
        sw_json_text(&j, "partition", p->name);
        sw_json_text(&j, "nodes", p->nodes);
        sw_json_text(&j, "own_qos", p->qos_char);
        sw_json_text(&j, "topology", SW_SLURM_PARTITION_TOPOLOGY(p));
        sw_json_bool(&j, "default", (p->flags & PART_FLAG_DEFAULT) != 0);
        sw_json_bool(&j, "up", p->state_up == PARTITION_UP);
        sw_json_integer(&j, "min_nodes", p->min_nodes);
        print_limit(&j, "max_nodes", p->max_nodes, 1);
        print_limit(&j, "max_cpus_per_node", p->max_cpus_per_node, 1);
        print_limit(&j, "max_time", p->max_time, 60);
        print_limit(&j, "default_time", p->default_time, 60);
        sw_json_bool(&j, "default_time_unlimited", p->default_time == INFINITE);
        write_memory(&j, "max_mem", "max_mem_per_cpu", p->max_mem_per_cpu);
        write_memory(&j, "def_mem", "def_mem_per_cpu", p->def_mem_per_cpu);
        sw_json_bool(&j, "whole_nodes", p->max_share == 0);
        sw_json_bool(&j, "needs_reservation", (p->flags & PART_FLAG_REQ_RESV) != 0);
        sw_json_bool(&j, "root_only", (p->flags & PART_FLAG_ROOT_ONLY) != 0);
        sw_json_text(&j, "billing", p->billing_weights_str);
        sw_json_text(&j, "accounts", p->allow_accounts);
        sw_json_text(&j, "denied_accounts", p->deny_accounts);
        sw_json_text(&j, "qos", p->allow_qos);
        sw_json_text(&j, "denied_qos", p->deny_qos);
        sw_json_text(&j, "groups", p->allow_groups);
        end_line(&j);
    }
    slurm_free_partition_info_msg(partitions);
    return 0;
}

/* Prints switches; a cluster without a topology is no error. */
static void print_switches(void)
{
#if SW_SLURM_HAS_TOPOLOGY
    topo_info_response_msg_t *topology = NULL;
    if (slurm_load_topo(&topology) != 0)
        return;
    for (uint32_t i = 0; i < topology->record_count; i++) {
        const topo_info_t *s = &topology->topo_array[i];
        struct sw_json j = begin_line();
        sw_json_text(&j, "switch", s->name);
        sw_json_integer(&j, "level", s->level);
        sw_json_text(&j, "nodes", s->nodes);
        end_line(&j);
    }
    slurm_free_topo_info_msg(topology);
#else
    struct sw_json j = begin_line();
    sw_json_bool(&j, "topology", false);
    end_line(&j);
#endif
}

int print_facts(void)
{
    if (print_nodes() != 0 || print_partitions() != 0)
        return -1;
    print_switches();
    print_end();
    return 0;
}

/* State in squeue's words. */
static const char *state_name(uint32_t state)
{
    static const char *const names[] = {
        [JOB_PENDING] = "PENDING",     [JOB_RUNNING] = "RUNNING",     [JOB_SUSPENDED] = "SUSPENDED",
        [JOB_COMPLETE] = "COMPLETED",  [JOB_CANCELLED] = "CANCELLED", [JOB_FAILED] = "FAILED",
        [JOB_TIMEOUT] = "TIMEOUT",     [JOB_NODE_FAIL] = "NODE_FAIL", [JOB_PREEMPTED] = "PREEMPTED",
        [JOB_BOOT_FAIL] = "BOOT_FAIL", [JOB_DEADLINE] = "DEADLINE",   [JOB_OOM] = "OUT_OF_MEMORY"};
    const uint32_t base = state & JOB_STATE_BASE;
    if ((state & JOB_COMPLETING) != 0)
        return "COMPLETING";
    if ((state & JOB_CONFIGURING) != 0)
        return "CONFIGURING";
    return base < sizeof names / sizeof *names && names[base] != NULL ? names[base] : "UNKNOWN";
}

int print_jobs(void)
{
    job_info_msg_t *jobs = NULL;
    if (slurm_load_jobs(0, &jobs, SHOW_ALL) != 0)
        return -1;
    for (uint32_t i = 0; i < jobs->record_count; i++) {
        const slurm_job_info_t *job = &jobs->job_array[i];
        struct sw_json j = begin_line();
        sw_json_integer(&j, "job", SW_SLURM_JOB_ID(job));
        sw_json_text(&j, "state", state_name(job->job_state));
        sw_json_integer(&j, "start", (int64_t)job->start_time);
        end_line(&j);
    }
    slurm_free_job_info_msg(jobs);
    print_end();
    return 0;
}
