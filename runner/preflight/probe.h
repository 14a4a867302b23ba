/* Rates of a rank for this plan: its largest products and a sweep over its memory, messages to
 * another node, and the plan's collectives on their groups. Owns nothing lasting. */
#ifndef SW_PREFLIGHT_PROBE_H
#define SW_PREFLIGHT_PROBE_H

#include "core/plan/plan.h"
#include "runner/collective/collective.h"
#include "runner/device/device.h"

/* Runs one layer, the head and the update of the plan's model with one rank's shapes. *seconds:
 * least of several steps within about budget_s; *predicted_s: from the plan's cluster. Ranks do not
 * wait for each other. Errors: the device's, memory. */
int sw_probe_compute(const struct sw_plan *plan, struct sw_device *device, double budget_s,
                     double *seconds, double *predicted_s, struct sw_error *err);

/* Collective: exchanges messages with rank `partner` (-1: none) for about budget_s. *rate: bytes/s
 * in one direction, best of several; NaN without a partner. */
int sw_probe_pair(struct sw_comm *comm, struct sw_device *device, int32_t partner, double budget_s,
                  double *rate, struct sw_error *err);

/* The plan's largest collective over each group of axes. */
enum { SW_PROBE_GROUPS = 8 };
struct sw_probe_group {
    struct sw_axes axes;
    enum sw_collective kind;
    int64_t elems;      /* f32, a rank's input */
    double predicted_s; /* from the plan's cluster */
};
/* Returns the number of groups. */
int32_t sw_probe_groups(const struct sw_plan *plan, const struct sw_program *program,
                        struct sw_probe_group out[SW_PROBE_GROUPS]);
/* Collective: least time of several calls within about budget_s. */
int sw_probe_collective(struct sw_comm *comm, struct sw_device *device,
                        const struct sw_probe_group *group, double budget_s, double *seconds,
                        struct sw_error *err);

#endif
