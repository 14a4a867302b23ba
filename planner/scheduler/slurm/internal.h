/* Shared by the two backings of controller.h. */
#ifndef SW_SLURM_INTERNAL_H
#define SW_SLURM_INTERNAL_H

#include "planner/scheduler/slurm/client.h"
#include "planner/scheduler/slurm/controller.h"

#include <limits.h>

/* Seconds: until the first answer; and later, until a controller is given up. */
#define SW_SLURM_FIRST_SECONDS 3.5
#define SW_SLURM_LATER_SECONDS 30.0

struct sw_slurm {
    enum sw_slurm_backing backing;
    char version[32], cluster[128], enforced[128];
    char program[PATH_MAX]; /* plan-slurm */
    struct sw_slurm_site site;
};

/* client.c */
/* Runs a program that must succeed, within `seconds`. what: for messages, "nodes". */
int sw_slurm_run(const char *const *argv, const char *input, double seconds, const char *what,
                 struct sw_process_result *out, struct sw_error *err);
/* Reports a failed program's output, or its timeout. Returns -1. */
int sw_slurm_complain(struct sw_process_result *result, double seconds, struct sw_error *err);
/* Seconds of max_switch_wait in SchedulerParameters; 0: not given. */
double sw_slurm_switch_wait_s(const char *scheduler_parameters);
/* Value of a key in `scontrol show config`; out stays unchanged if missing. */
void sw_slurm_config_value(const char *text, const char *key, char *out, size_t bytes);

/* facts.c */
/* One node as reported; texts are copied, "" and "(null)" mean none. */
struct sw_slurm_node {
    const char *name, *gres, *features;
    int32_t cpus, sockets, cores_per_socket, threads_per_core;
    int64_t memory_mb;
    const char *state; /* "IDLE+DRAIN", "DOWN*"; may continue behind state_length */
    size_t state_length;
};
int sw_slurm_add_node(struct sw_slurm_facts *facts, const struct sw_slurm_node *node,
                      struct sw_error *err);
/* A new, empty one at the end; NULL: no memory (err filled). */
struct sw_slurm_partition *sw_slurm_add_partition(struct sw_slurm_facts *facts,
                                                  struct sw_error *err);
struct sw_slurm_switch *sw_slurm_add_switch(struct sw_slurm_facts *facts, struct sw_error *err);
void sw_slurm_free_switches(struct sw_slurm_facts *facts);
/* Copies text into *out; "", "(null)" and `all` (may be NULL) become NULL. */
int sw_slurm_copy(char **out, const char *text, const char *all, struct sw_error *err);

/* commands.c */
/* The value of " Key=" in a line of scontrol -o, up to the next space or the line's end; NULL:
 * missing. *length: of the value. */
const char *sw_slurm_find_value(const char *line, const char *key, size_t *length);
int sw_slurm_commands_open(struct sw_slurm *slurm, struct sw_error *err);
int sw_slurm_commands_load(struct sw_slurm_facts *out, struct sw_error *err);
/* topology: its name; NULL: the cluster's. */
int sw_slurm_commands_load_switches(const char *topology, struct sw_slurm_facts *out,
                                    struct sw_error *err);
/* The topology named by a partition (topology.yaml, from 25.05); "": none. */
void sw_slurm_commands_topology_of(const char *partition, char *out, size_t bytes);
int sw_slurm_commands_will_run(const struct sw_job_request *request, struct sw_job_start *out,
                               struct sw_error *err);

/* library.c */
bool sw_slurm_library_find(char program[PATH_MAX]);
/* *timed_out: true if there was no answer, and the commands would wait as long for the same
 * controller. */
int sw_slurm_library_open(struct sw_slurm *slurm, bool *timed_out, struct sw_error *err);
int sw_slurm_library_load(struct sw_slurm *slurm, struct sw_slurm_facts *out, struct sw_error *err);
/* asked[i] false: plan-slurm does not support the whole request; out[i] is unchanged. */
int sw_slurm_library_will_run(struct sw_slurm *slurm, const struct sw_job_request *requests,
                              int32_t count, struct sw_job_start *out, bool *asked,
                              struct sw_error *err);
int sw_slurm_library_jobs(struct sw_slurm *slurm, struct sw_queued_jobs *out, struct sw_error *err);

#endif
