/* What saving a checkpoint costs, and how often it pays.
 *
 * In the pause of a save the shards are exchanged into the order of the files (the program `save`),
 * at whose end every rank has what it writes as a snapshot in the host's memory, which a thread
 * then writes while training goes on. Where the snapshot does not fit, what is exchanged is written
 * at once, and the pause lasts until all is written. Pure arithmetic on the tables of
 * core/checkpoint and the descriptions; owns nothing. Seconds, bytes. */
#ifndef SW_COST_CHECKPOINT_H
#define SW_COST_CHECKPOINT_H

#include "core/config/config.h"
#include "core/checkpoint/placement.h"
#include "core/programs/program_set.h"

/* What the rate of writing rests on. */
enum sw_write_rate {
    SW_WRITE_LIMITED, /* the run's checkpoint.bandwidth */
    SW_WRITE_TOLD,    /* the cluster's storage.bandwidth, where it is less or alone */
    SW_WRITE_ASSUMED  /* neither: SW_ASSUMED_WRITE_BANDWIDTH for each node */
};
#define SW_ASSUMED_WRITE_BANDWIDTH 1e9

struct sw_checkpoint_cost {
    int64_t bytes;          /* of all files */
    int64_t most_bytes;     /* that one rank writes, of the rank that writes most */
    int64_t snapshot_bytes; /* that one rank holds while they are written; 0: not in background */
    int32_t files;
    bool background; /* written while training goes on */
    enum sw_write_rate rate;
    double bandwidth;          /* bytes/s of writing, the whole job */
    double exchange_s, link_s; /* of the pause: the program `save`; of that, messages under way */
    double copy_s; /* of the pause: to the host's memory; 0 where the ranks have theirs there, so
                      that the exchange makes the snapshot, and when not in the background */
    double write_s;
    double stall_s;    /* how long training pauses: exchange and copy, else exchange and write */
    double save_s;     /* from the step to a checkpoint that is safe */
    double failure_s;  /* mean time between failures of the job; INFINITY: there are none */
    double interval_s; /* proposed from save to save; INFINITY: none but the last is needed */
    int64_t interval_steps; /* in steps, rounded up; 0: at the end only, which comes before it */
};

/* Whether a snapshot of snapshot_bytes a rank fits, so that the save is written in the background.
 * On a device whose memory is the host's it lies in the same memory as everything else:
 * memory_total (of a rank, with what is reserved) and it must fit in the accelerator's `memory`.
 * Elsewhere those of a node's ranks must fit in the cluster's host_memory; where that is not told,
 * they are taken to fit. Runner and planner both ask here. */
bool sw_checkpoint_background(const struct sw_cluster_config *cluster, int64_t memory_total,
                              int64_t snapshot_bytes);

/* What is saved beside. */
struct sw_saved_run {
    int64_t memory_total; /* of a rank, with what is reserved */
    double step_seconds;  /* > 0 */
    int64_t total_steps;  /* INT64_MAX: not said */
    double write_limit;   /* bytes/s, the run's checkpoint.bandwidth; 0: none */
};

/* placement: as saved by the ranks of the run. exchange_s: of the save program, and of that link_s
 * (sw_cost_save_seconds). The interval is
 * max(write_s, sqrt(2 stall_s failure_s)): Young, "A first order approximation to the optimum
 * checkpoint interval", CACM 17 (1974), and no save begins before the last one is written.
 * failure_s follows from reliability.failures_per_1000_node_days and the number of nodes. */
void sw_checkpoint_price(const struct sw_placement *placement,
                         const struct sw_cluster_config *cluster, const struct sw_saved_run *run,
                         double exchange_s, double link_s, struct sw_checkpoint_cost *out);

/* The same of a plan's programs. Errors (SW_ENVIRONMENT): memory. */
int sw_checkpoint_price_set(const struct sw_program_set *set,
                            const struct sw_cluster_config *cluster, const struct sw_saved_run *run,
                            struct sw_checkpoint_cost *out, struct sw_error *err);

/* Share of the time (0..1) that saves pause training when one begins every_s of training after the
 * other; one that is not written by then is waited for. */
double sw_checkpoint_paused_share(const struct sw_checkpoint_cost *cost, double every_s);
/* Share of the time that is computed again because a failure lost it: half an interval each. */
double sw_checkpoint_repeated_share(const struct sw_checkpoint_cost *cost, double every_s);

#endif
