/* Cost of saving a checkpoint, and the interval that pays.
 *
 * During the pause of a save the shards are exchanged into the order of the files (the program
 * `save`); then every rank has its files' bytes as a snapshot in the host's memory, which a thread
 * writes while training goes on. If the snapshot does not fit, exchanged bytes are written at once,
 * and the pause lasts until all is written. Pure arithmetic on the tables of core/checkpoint and
 * the descriptions; owns nothing. Seconds, bytes. */
#ifndef SW_COST_CHECKPOINT_H
#define SW_COST_CHECKPOINT_H

#include "core/config/config.h"
#include "core/checkpoint/placement.h"
#include "core/programs/program_set.h"

/* Source of the write rate. */
enum sw_write_rate {
    SW_WRITE_LIMITED, /* the run's checkpoint.bandwidth */
    SW_WRITE_TOLD,    /* the cluster's storage.bandwidth, if smaller or alone */
    SW_WRITE_ASSUMED  /* neither: SW_ASSUMED_WRITE_BANDWIDTH for each node */
};
#define SW_ASSUMED_WRITE_BANDWIDTH 1e9

struct sw_checkpoint_cost {
    int64_t bytes;          /* bytes of all files */
    int64_t most_bytes;     /* bytes that the busiest rank writes */
    int64_t snapshot_bytes; /* bytes that one rank holds while they are written; 0: not in
                               background */
    int32_t files;
    bool background; /* true if written while training goes on */
    enum sw_write_rate rate;
    double bandwidth;          /* bytes/s of writing, the whole job */
    double exchange_s, link_s; /* part of the pause: the program `save`; of that, messages */
    double copy_s; /* part of the pause: copying to the host's memory; 0 if the ranks' memory
                      is the host's, where the exchange makes the snapshot, and if not in
                      background */
    double write_s;
    double stall_s;    /* pause of training: exchange and copy, else exchange and write */
    double save_s;     /* from the step to its durable checkpoint */
    double failure_s;  /* mean time between failures of the job; INFINITY: no failures */
    double interval_s; /* proposed time between saves; INFINITY: only the last save is needed */
    int64_t interval_steps; /* the same in steps, rounded up; 0: at the end only, which comes
                               before */
};

/* True if a snapshot of snapshot_bytes a rank fits, so that the save is written in background. On a
 * device that uses the host's memory, the snapshot and memory_total (of a rank, with reserved
 * memory) must fit into the accelerator's `memory`. Elsewhere the snapshots of a node's ranks must
 * fit into the cluster's host_memory; if that is not given, they are assumed to fit. Runner and
 * planner both ask. */
bool sw_checkpoint_background(const struct sw_cluster_config *cluster, int64_t memory_total,
                              int64_t snapshot_bytes);

/* The run that saves. */
struct sw_saved_run {
    int64_t memory_total; /* a rank's, with reserved memory */
    double step_seconds;  /* > 0 */
    int64_t total_steps;  /* INT64_MAX: not given */
    double write_limit;   /* bytes/s, the run's checkpoint.bandwidth; 0: no limit */
};

/* placement: as saved by the ranks of the run. exchange_s, link_s: seconds of the save program, and
 * of messages in it (sw_cost_save_seconds). The interval is max(write_s, sqrt(2 stall_s
 * failure_s)): Young, "A first order approximation to the optimum checkpoint interval", CACM 17
 * (1974), and no save begins before the last one is written. failure_s follows from
 * reliability.failures_per_1000_node_days and the number of nodes. */
void sw_checkpoint_price(const struct sw_placement *placement,
                         const struct sw_cluster_config *cluster, const struct sw_saved_run *run,
                         double exchange_s, double link_s, struct sw_checkpoint_cost *out);

/* Prices the saves of a plan's programs. Errors (SW_ENVIRONMENT): memory. */
int sw_checkpoint_price_set(const struct sw_program_set *set,
                            const struct sw_cluster_config *cluster, const struct sw_saved_run *run,
                            struct sw_checkpoint_cost *out, struct sw_error *err);

/* Share of time (0..1) that saves pause training if one begins after every_s of training; a save
 * waits until the one before is written. */
double sw_checkpoint_paused_share(const struct sw_checkpoint_cost *cost, double every_s);
/* Share of time spent on repeating work that failures lost: half an interval each. */
double sw_checkpoint_repeated_share(const struct sw_checkpoint_cost *cost, double every_s);

#endif
