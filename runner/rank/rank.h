/* A rank of a job, set up once, whatever it then does: launch, plan, programs, device,
 * communicator, executor; and how the ranks agree between two of its steps. What is said where a
 * plan does not fit the job is said here.
 *
 *     compile -> join, once the caller has looked at what is its own -> run programs, agree, vote
 *
 * `calibrate` needs a device and communicators alone, and may do without a plan. Owns all but
 * launch and plan.
 */
#ifndef SW_RANK_H
#define SW_RANK_H

#include "core/plan/plan.h"
#include "runner/rank/execute.h"
#include "runner/rank/launch.h"

enum { SW_RANK_VOTES = 8 };

struct sw_rank {
    struct sw_launch *launch;
    const struct sw_plan *plan; /* NULL: none, of calibrate */
    const char *plan_path;      /* for messages */
    struct sw_program_set *programs;
    enum sw_device_kind kind;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_executor *executor;
    void *vote_workspace;
    struct sw_error err; /* what this rank found wrong; told to all by sw_rank_agree */
};

/* A command on the ranks of a job. */
struct sw_rank_command {
    const char *plan_path;                                 /* NULL: the rank has no plan */
    const uint64_t *digest;                                /* the plan must have it; NULL: any */
    bool starts_itself;                                    /* it calls sw_launch_started */
    int (*run)(struct sw_rank *rank, const void *options); /* returns the exit code */
    const void *options;
};
/* Collective. Launches, reads the plan, runs the command, closes the rank. Errors to stderr, once
 * per job. Returns the exit code. */
int sw_rank_run(const struct sw_rank_command *command);

/* ---- Set-up; errors are left in rank->err ---- */

/* This rank's device. */
int sw_rank_open_device(struct sw_rank *rank, enum sw_device_kind kind);
/* The plan's programs, those that the plan tool made, and the plan's device. serving: bits of the
 * programs of serving wanted (sw_program_set_compile_serving), 0: those of training; texts: how
 * many a run that does not say it serves at a time at most, 0: the default. Errors: SW_BAD_INPUT:
 * the job has not the plan's ranks; another program. */
int sw_rank_compile(struct sw_rank *rank, uint32_t serving, int64_t texts);
/* Those of training. Errors besides (SW_BAD_INPUT): the plan is for serving. */
int sw_rank_compile_training(struct sw_rank *rank);

/* What must be the same on every rank besides the plan. */
struct sw_rank_same {
    uint64_t value;
    const char *file; /* that the message is about; NULL: none */
    const char *otherwise;
};
enum { SW_RANK_SAME = 3 };
/* Collective. The ranks agree on what each found so far, have the same plan, programs and `same`
 * [count <= SW_RANK_SAME; NULL with 0], and devices of one kind. Returns what they agreed on, the
 * error printed once; SW_OK. */
enum sw_status sw_rank_meet(struct sw_rank *rank, const struct sw_rank_same *same, int32_t count);
/* Collective, once they met: the communicator of a mesh, for groups [count] of axes. longest_s: as
 * sw_launch_stall_seconds. */
int sw_rank_connect(struct sw_rank *rank, const struct sw_mesh *mesh, const struct sw_axes *groups,
                    int32_t count, double longest_s);
/* Collective: sw_rank_meet, the plan's communicator, the executor; its state has no contents yet.
 * Returns what the ranks agreed on. */
enum sw_status sw_rank_join(struct sw_rank *rank, const struct sw_rank_same *same, int32_t count,
                            double longest_s);
/* Also half-open. Leaves launch and plan. */
void sw_rank_close(struct sw_rank *rank);

/* ---- Agreement ---- */

/* Collective: prints the error of the lowest rank whose rank->err holds one, and returns it. */
enum sw_status sw_rank_agree(const struct sw_rank *rank);
/* Collective, once they joined: flags [count <= SW_RANK_VOTES] become their sums over all ranks.
 * The first word between ranks that fails when one is gone. Errors: SW_ENVIRONMENT. */
int sw_rank_vote(struct sw_rank *rank, float *flags, int32_t count, struct sw_error *err);

#endif
