/* The two streams of a step, compute and communication, as the price walked them: start and end of
 * each op. Owns its events. */
#ifndef SW_COST_TIMELINE_H
#define SW_COST_TIMELINE_H

#include "core/cost/cost.h"

struct sw_timeline {
    int32_t count, capacity;
    struct sw_cost_event *event;
};

/* A stretch of the timeline: one iteration of a region. */
struct sw_window {
    int32_t region; /* -1: none */
    double start, end;
    double compute_seconds, communication_seconds, waiting_seconds; /* seconds inside the window */
};

/* Errors: as sw_cost_price. Free with sw_timeline_free, which accepts an empty timeline. */
int sw_timeline_make(const struct sw_program *program, const struct sw_cluster_config *cluster,
                     const struct sw_workload *workload, struct sw_timeline *out,
                     struct sw_error *err);
void sw_timeline_free(struct sw_timeline *timeline);

/* The second iteration of the first loop of that phase, in the last micro-step; or the only one.
 * (In the first, collectives of earlier regions still run.) */
void sw_timeline_window(const struct sw_timeline *timeline, const struct sw_program *program,
                        enum sw_phase phase, struct sw_window *out);

#endif
