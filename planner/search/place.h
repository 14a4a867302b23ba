/* Placement requests of a job: where its scheduler should put the nodes of the chosen mesh. */
#ifndef SW_SEARCH_PLACE_H
#define SW_SEARCH_PLACE_H

#include "planner/scheduler/scheduler.h"
#include "planner/search/search.h"

/* A run as it is submitted. */
struct sw_placement_run {
    struct sw_run_config run; /* its settings may point into placement: do not copy */
    struct sw_node_request placement;
};

/* The run with the candidate's mesh: its settings ask for the placement of the price, and its links
 * have the spans of that placement. Errors: as sw_search_evaluate. */
int sw_search_place(const struct sw_run_config *run, const struct sw_candidate *candidate,
                    struct sw_placement_run *out, struct sw_error *err);

#endif
