/* Data of `plan explain` about one mesh, gathered once for text, JSON and HTML.
 *
 * Every number comes from the mesh's own program, its price or the search; nothing is printed here.
 * Owns the gathered data; run and search belong to the caller. */
#ifndef SW_BREAKDOWN_DATA_H
#define SW_BREAKDOWN_DATA_H

#include "planner/search/report.h"
#include "planner/search/run_cost.h"
#include "planner/breakdown/memory_profile.h"
#include "core/programs/program_set.h"

#include "core/cost/timeline.h"
#include "core/cost/traffic.h"

enum { SW_EXPLAIN_CHOICES = 20 };

/* Compute of one op kind in one step on one rank. */
struct sw_kind_time {
    enum sw_op_kind kind;
    double calls, seconds;
    double again_seconds; /* part of it: recomputation */
};

/* Communication over one axis in one step: a group over several axes counts for each in equal
 * parts. */
struct sw_axis_time {
    double total_seconds, exposed_seconds, hidden_seconds;
};

/* Position of an axis on the cluster. */
struct sw_axis_span {
    int32_t size, stride; /* ranks between neighbours along the axis */
    int32_t per_node;     /* its ranks in one node; the fewest of all groups */
    int32_t nodes;        /* nodes that a group spans; the most of all groups */
    int32_t link;         /* outermost link that it crosses, -1: none */
};

/* A choice and its runner-up, all else equal. */
struct sw_choice {
    char name[32], chosen[80], other[80];
    char why[320];         /* reason why the other lost */
    enum sw_reject reason; /* the other's */
    double step_seconds;   /* the other's, 0: not priced */
    int64_t total_bytes;   /* the other's, 0: not compiled */
};

struct sw_explain {
    const struct sw_run_config *run;
    const struct sw_search *all; /* every mesh of the cluster */
    int32_t at;                  /* index of the explained mesh in it, -1: none */
    bool requested;              /* true if mesh_dim named it, so that the rule was not applied */
    struct sw_candidate c;
    struct sw_program_set *programs;
    const struct sw_program *program;         /* training program of these; all below is about it */
    double program_seconds[SW_PROGRAM_KINDS]; /* seconds of one step; of one evaluation's batch; of
                                                 the pause of a save */
    struct sw_traffics traffic; /* by kind and group, with their seconds on the links */
    struct sw_kind_time kind[SW_OP_COUNT];
    int32_t kind_count;
    double slowed_seconds; /* compute_seconds beyond the sum of kind[]: slowdown beside
                              collectives */
    struct sw_axis_time axis[SW_AXIS_COUNT];
    struct sw_axis_span span[SW_AXIS_COUNT];
    struct sw_choice choice[SW_EXPLAIN_CHOICES];
    int32_t choice_count;
    struct sw_recomputed again[SW_LAYER_VALUES]; /* in the order of recomputation levels */
    int32_t again_count;
    struct sw_memory_profile memory;
    struct sw_timeline timeline;
    struct sw_window forward, backward;
    int64_t memory_total;        /* a rank's, with the largest program and reserved memory */
    double run_seconds;          /* seconds of all steps; NAN: the run does not give their number */
    struct sw_candidate serving; /* for a run with serving */
    struct sw_program_set *serving_programs; /* NULL: no serving */
    struct sw_checkpoint_cost checkpoint;
    struct sw_run_cost run_cost; /* for the whole run */
};

/* A text with a name before it. */
struct sw_explain_line {
    char name[16], text[240];
};
enum { SW_EXPLAIN_LINES = 8 };
struct sw_explain_lines {
    struct sw_explain_line line[SW_EXPLAIN_LINES];
    int32_t count;
};

/* Errors: SW_UNMET (the mesh does not divide the model), SW_ENVIRONMENT (memory). Free with
 * sw_explain_free, also after an error. */
int sw_explain_make(const struct sw_run_config *run, const struct sw_candidate *candidate,
                    const struct sw_search *all, bool requested, struct sw_explain *out,
                    struct sw_error *err);
void sw_explain_free(struct sw_explain *x);

/* The outermost link of a row of x->traffic, -1: none; *port_bytes: its bytes over one
 * accelerator's port of that link, negative: no collective. */
int32_t sw_explain_link(const struct sw_explain *x, const struct sw_traffic *row,
                        struct sw_span *span, double *port_bytes);

/* choices.c: fills choice[]. */
int sw_explain_choices(struct sw_explain *x, struct sw_error *err);

/* checkpoint.c: cost of a checkpoint and the interval of saves. */
/* Bytes of a snapshot in the rank's own memory; 0: none, or it is elsewhere. */
int64_t sw_explain_snapshot_bytes(const struct sw_explain *x);
/* Steps between saves: the run's, else the proposed interval. */
int64_t sw_explain_interval_steps(const struct sw_explain *x);
void sw_explain_checkpoint(const struct sw_explain *x, struct sw_explain_lines *out);

#endif
