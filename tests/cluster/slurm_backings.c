/* Asks the controller of $SLURM_CONF through both backings and says where they differ.
 *
 *     slurm_backings              compares all answers; exit code 1: they differ, 3: one has none
 *     slurm_backings BACKING N    N start estimates of library or commands, and how long they took
 */
#include "core/base/clock.h"
#include "planner/scheduler/slurm/controller.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int differences;

static void differ(const char *what, const char *a, const char *b)
{
    printf("differs: %s: library '%s', commands '%s'\n", what, a != NULL ? a : "(none)",
           b != NULL ? b : "(none)");
    differences++;
}

static void same_text(const char *what, const char *a, const char *b)
{
    if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0))
        differ(what, a, b);
}

static void same_number(const char *what, double a, double b)
{
    char x[32], y[32];
    if (a == b || (isinf(a) && isinf(b)))
        return;
    snprintf(x, sizeof x, "%.17g", a);
    snprintf(y, sizeof y, "%.17g", b);
    differ(what, x, y);
}

static void same_hosts(const char *what, const struct sw_hosts *a, const struct sw_hosts *b)
{
    char *x = sw_hosts_compress(a), *y = sw_hosts_compress(b);
    same_text(what, x, y);
    free(x);
    free(y);
}

static void compare_nodes(const struct sw_slurm_facts *a, const struct sw_slurm_facts *b)
{
    same_number("kinds of nodes", a->nodes_count, b->nodes_count);
    for (int32_t i = 0; i < a->nodes_count && i < b->nodes_count; i++) {
        const struct sw_slurm_nodes *x = &a->nodes[i], *y = &b->nodes[i];
        same_hosts("nodes", &x->hosts, &y->hosts);
        same_number("cpus", x->cpus, y->cpus);
        same_number("sockets", x->sockets, y->sockets);
        same_number("cores", x->cores_per_socket, y->cores_per_socket);
        same_number("threads", x->threads_per_core, y->threads_per_core);
        same_number("memory", (double)x->memory_mb, (double)y->memory_mb);
        same_number("usable", x->usable, y->usable);
        same_number("drained", x->drained, y->drained);
        same_text("condition", x->condition != NULL ? x->condition->word : "none",
                  y->condition != NULL ? y->condition->word : "none");
        same_text("gres", x->gres, y->gres);
        same_text("features", x->features, y->features);
    }
}

static void same_memory(const char *what, struct sw_slurm_memory a, struct sw_slurm_memory b)
{
    same_number(what, (double)a.mb, (double)b.mb);
    same_number(what, a.per_cpu, b.per_cpu);
}

static void compare_sites(const struct sw_slurm_site *a, const struct sw_slurm_site *b)
{
    same_memory("most memory of the site", a->most, b->most);
    same_memory("given memory of the site", a->given, b->given);
    same_number("most of an array", (double)a->max_array, (double)b->max_array);
    same_number("tasks of an array", (double)a->max_tasks, (double)b->max_tasks);
    same_number("whole cores", a->whole_cores, b->whole_cores);
    same_number("whole nodes of the site", a->whole_nodes, b->whole_nodes);
    same_number("no memory", a->no_memory, b->no_memory);
    same_number("billing is the largest", a->billing_is_max, b->billing_is_max);
    same_number("usage is not counted", a->no_usage, b->no_usage);
    same_number("usage is reset", a->usage_is_reset, b->usage_is_reset);
    same_number("half-life of usage", a->half_life_s, b->half_life_s);
}

static void compare_partitions(const struct sw_slurm_facts *a, const struct sw_slurm_facts *b)
{
    same_number("partitions", a->partition_count, b->partition_count);
    for (int32_t i = 0; i < a->partition_count; i++) {
        const struct sw_slurm_partition *x = &a->partition[i],
                                        *y = sw_slurm_find_partition(b, x->name);
        if (y == NULL) {
            differ("partition", x->name, NULL);
            continue;
        }
        same_hosts("partition's nodes", &x->hosts, &y->hosts);
        same_number("default", x->is_default, y->is_default);
        same_number("up", x->up, y->up);
        same_number("min_nodes", x->min_nodes, y->min_nodes);
        same_number("max_nodes", x->max_nodes, y->max_nodes);
        same_number("max_cpus_per_node", x->max_cpus_per_node, y->max_cpus_per_node);
        same_number("max_time", x->max_time, y->max_time);
        same_number("default_time", x->default_time, y->default_time);
        same_text("accounts", x->accounts, y->accounts);
        same_text("denied_accounts", x->denied_accounts, y->denied_accounts);
        same_text("qos", x->qos, y->qos);
        same_text("own_qos", x->own_qos, y->own_qos);
        same_text("denied_qos", x->denied_qos, y->denied_qos);
        same_text("groups", x->groups, y->groups);
        same_text("billing", x->billing, y->billing);
        same_memory("most memory", x->most, y->most);
        same_memory("given memory", x->given, y->given);
        same_number("whole nodes", x->whole_nodes, y->whole_nodes);
        same_number("needs a reservation", x->needs_reservation, y->needs_reservation);
        same_number("root only", x->root_only, y->root_only);
    }
}

static void compare_switches(const struct sw_slurm_facts *a, const struct sw_slurm_facts *b)
{
    same_number("switches", a->switch_count, b->switch_count);
    for (int32_t i = 0; i < a->switch_count && i < b->switch_count; i++) {
        same_text("switch", a->switches[i].name, b->switches[i].name);
        same_number("level", a->switches[i].level, b->switches[i].level);
        same_hosts("switch's nodes", &a->switches[i].hosts, &b->switches[i].hosts);
    }
}

/* Requests of every kind of answer: starts now, later, and never. */
static int make_requests(struct sw_job_request *out, struct sw_error *err)
{
    static const char *const rows[][13] = {
        {"nodes", "1", "time", "60", NULL},
        {"nodes", "2", "ntasks-per-node", "8", "gpus-per-node", "8", "time", "1:00:00", NULL},
        {"nodes", "3", "ntasks-per-node", "8", "gpus-per-node", "h100:8", "cpus-per-task", "12",
         "mem", "0", "exclusive", "", NULL},
        {"nodes", "2", "gres", "gpu:h100:4", "partition", "short", "time", "20:30", NULL},
        {"nodes", "2", "partition", "all,gpu", "constraint", "nvme", "time", "1-12", NULL},
        {"nodes", "100000", "time", "60", NULL},
        {"nodes", "1", "gpus-per-node", "a100:8", NULL},
        {"nodes", "1", "partition", "nosuch", NULL},
        {"nodes", "2", "ntasks-per-node", "8", "cpus-per-task", "13", NULL},
        {"nodes", "1", "mem", "1T", "switches", "1@10:00", "nice", "100", NULL},
        {"nodes", "1", "exclude", "gpu0", "job-name", "x", "signal", "USR1@120", NULL},
        {"nodes", "2", "begin", "now+3600", NULL}, /* plan-slurm leaves this one to sbatch */
    };
    const int32_t count = (int32_t)(sizeof rows / sizeof *rows);
    for (int32_t i = 0; i < count; i++)
        for (int32_t k = 0; rows[i][k] != NULL; k += 2)
            if (sw_job_request_add(&out[i], rows[i][k], rows[i][k + 1], err) != 0)
                return -1;
    return count;
}

enum { MOST = 64 };

/* Slurm's own sentence, the last one of a refusal. */
static const char *own_sentence(const char *refusal)
{
    const char *last = strrchr(refusal, ';');
    return last == NULL ? refusal : last + strspn(last, "; ");
}

static int compare_starts(struct sw_slurm *a, struct sw_slurm *b, struct sw_error *err)
{
    struct sw_job_request requests[MOST] = {0};
    struct sw_job_start x[MOST] = {0}, y[MOST] = {0};
    const int32_t count = make_requests(requests, err);
    if (count < 0 || sw_slurm_will_run(a, requests, count, x, err) != 0 ||
        sw_slurm_will_run(b, requests, count, y, err) != 0)
        return -1;
    for (int32_t i = 0; i < count; i++) {
        char what[64];
        snprintf(what, sizeof what, "start of request %d", i);
        same_number(what, x[i].starts, y[i].starts);
        same_text(what, x[i].nodes, y[i].nodes);
        same_text(what, x[i].partition, y[i].partition);
        /* sbatch explains in lines before Slurm's own sentence, which is all that libslurm returns
         */
        same_text(what, own_sentence(x[i].refusal), own_sentence(y[i].refusal));
        /* they were asked one after the other */
        if (fabs((double)(x[i].at - y[i].at)) > 30)
            same_number(what, (double)x[i].at, (double)y[i].at);
        printf("request %d: %s%s %s\n", i,
               x[i].starts ? "starts on " : "refused: ", x[i].starts ? x[i].nodes : x[i].refusal,
               x[i].starts ? x[i].partition : "");
        sw_job_request_free(&requests[i]);
    }
    sw_job_starts_free(x, count);
    sw_job_starts_free(y, count);
    return 0;
}

static int compare_jobs(struct sw_slurm *a, struct sw_slurm *b, struct sw_error *err)
{
    struct sw_queued_jobs x = {0}, y = {0};
    int status = -1;
    if (sw_slurm_queue(a, &x, err) != 0 || sw_slurm_queue(b, &y, err) != 0)
        goto out;
    same_number("jobs", x.count, y.count);
    for (int32_t i = 0; i < x.count; i++) {
        int32_t k = 0;
        while (k < y.count && y.job[k].number != x.job[i].number)
            k++;
        if (k == y.count) {
            same_number("job", (double)x.job[i].number, 0);
            continue;
        }
        same_text("state", x.job[i].state, y.job[k].state);
        same_number("start", (double)x.job[i].start, (double)y.job[k].start);
    }
    printf("%d jobs\n", (int)x.count);
    status = 0;
out:
    sw_queued_jobs_free(&x);
    sw_queued_jobs_free(&y);
    return status;
}

static int compare(struct sw_error *err)
{
    struct sw_slurm_facts x = {0}, y = {0};
    int status = -1;
    struct sw_slurm *a = sw_slurm_open(SW_SLURM_LIBRARY, err),
                    *b = a != NULL ? sw_slurm_open(SW_SLURM_COMMANDS, err) : NULL;
    if (b == NULL || sw_slurm_load(a, &x, err) != 0 || sw_slurm_load(b, &y, err) != 0)
        goto out;
    same_text("topology", x.site.topology, y.site.topology);
    same_text("slurm.conf", x.site.conf, y.site.conf);
    same_number("dragonfly", x.site.dragonfly, y.site.dragonfly);
    same_number("max_switch_wait", (int64_t)x.site.switch_wait_s, (int64_t)y.site.switch_wait_s);
    same_text("version", sw_slurm_version(a), sw_slurm_version(b));
    same_text("cluster", sw_slurm_cluster(a), sw_slurm_cluster(b));
    same_text("enforced", sw_slurm_enforced(a), sw_slurm_enforced(b));
    compare_nodes(&x, &y);
    compare_sites(&x.site, &y.site);
    compare_partitions(&x, &y);
    compare_switches(&x, &y);
    if (compare_starts(a, b, err) != 0 || compare_jobs(a, b, err) != 0)
        goto out;
    printf("%d kinds of nodes, %d partitions, %d switches\n", (int)x.nodes_count,
           (int)x.partition_count, (int)x.switch_count);
    status = 0;
out:
    sw_slurm_facts_free(&x);
    sw_slurm_facts_free(&y);
    sw_slurm_close(a);
    sw_slurm_close(b);
    return status;
}

static int estimate(const char *backing, int32_t count, struct sw_error *err)
{
    struct sw_job_request requests[MOST] = {0};
    struct sw_job_start starts[MOST] = {0};
    const double begin = sw_clock_now();
    struct sw_slurm *slurm =
        sw_slurm_open(strcmp(backing, "library") == 0 ? SW_SLURM_LIBRARY : SW_SLURM_COMMANDS, err);
    int status = slurm != NULL ? 0 : -1;
    for (int32_t i = 0; status == 0 && i < count; i++) {
        char nodes[16];
        snprintf(nodes, sizeof nodes, "%d", (int)i % 8 + 1);
        status = sw_job_request_add(&requests[i], "nodes", nodes, err) != 0 ||
                         sw_job_request_add(&requests[i], "time", "30", err) != 0
                     ? -1
                     : 0;
    }
    if (status == 0)
        status = sw_slurm_will_run(slurm, requests, count, starts, err);
    for (int32_t i = 0; status == 0 && i < count; i++)
        same_number("an estimate", starts[i].starts, 1);
    if (status == 0)
        printf("%d estimates in %.3f s\n", (int)count, sw_clock_now() - begin);
    for (int32_t i = 0; i < count; i++)
        sw_job_request_free(&requests[i]);
    sw_job_starts_free(starts, count);
    sw_slurm_close(slurm);
    return status;
}

int main(int argc, char **argv)
{
    struct sw_error err = {0};
    const int32_t count = argc == 3 ? atoi(argv[2]) : 0;
    const int status = argc == 3 && count <= MOST ? estimate(argv[1], count, &err) : compare(&err);
    if (status != 0) {
        fprintf(stderr, "slurm_backings: %s\n", err.message);
        return 3;
    }
    return differences == 0 ? 0 : 1;
}
