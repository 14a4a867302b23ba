/* Prices a laid-out program on a cluster (DESIGN section 6): walks the ops of one rank on two
 * streams, compute and communication, as the runner issues them.
 *
 * Compute: the roofline max(flops / (peak x efficiency), bytes / (bandwidth x efficiency)) + launch
 * latency. Collectives: latency of their steps + bytes / bandwidth of the slowest link that the
 * group spans, see links.h. Owns nothing; every number comes from the program, an op's cost rule or
 * the cluster description. */
#ifndef SW_PLANNER_COST_H
#define SW_PLANNER_COST_H

#include "core/config/config.h"
#include "core/program/op.h"

enum { SW_COST_MAX_REGIONS = 16 };

struct sw_region_cost {
    char name[SW_NAME_BYTES];
    double seconds;         /* of a whole step: all iterations and micro-steps */
    double compute_seconds; /* of that, the compute stream at work */
    double exposed_seconds; /* of that, the compute stream waiting for communication */
};

struct sw_cost {
    double step_seconds, compute_seconds;
    double exposed_seconds[SW_AXIS_COUNT];     /* waits, by the axes of what was waited for */
    double communication_bytes[SW_AXIS_COUNT]; /* sent by one rank in a step; a group of several
                                                  axes counts for each in proportion to size - 1 */
    /* For guessing at other options of the same mesh, seconds of one step with everything else
     * alike: */
    double recompute_seconds; /* compute that recomputation adds */
    double weight_seconds;    /* collectives whose size does not depend on the micro-batch */
    double batch_seconds;     /* collectives whose size is proportional to it */
    int32_t region_count;
    struct sw_region_cost region[SW_COST_MAX_REGIONS];
};

/* The program must be laid out. Errors (SW_ENVIRONMENT): memory; more regions than
 * SW_COST_MAX_REGIONS. */
int sw_cost_price(const struct sw_program *program, const struct sw_run_config *run,
                  struct sw_cost *out, struct sw_error *err);

/* Times of one op in isolation, for tests and for explain. Seconds. */
double sw_cost_op_seconds(const struct sw_program *program, const struct sw_op *op,
                          const struct sw_run_config *run);

/* Fraction of peak at a size: interpolated in the logarithm of the size, constant beyond the ends;
 * `fallback` where nothing was measured. */
double sw_cost_efficiency(const struct sw_curve *curve, double size, double fallback);

#endif
