/* A rank of a job, set up alike for every command: launch, plan, programs, device, communicator,
 * executor; agreement of the ranks between steps; messages if a plan does not fit the job.
 *
 *     compile -> the caller's own checks -> join -> run programs, agree, vote
 *
 * `calibrate` needs only a device and communicators, and may have no plan. Owns all but launch and
 * plan. */
#ifndef SW_RANK_H
#define SW_RANK_H

#include "core/plan/plan.h"
#include "runner/rank/execute.h"
#include "runner/rank/launch.h"

enum { SW_RANK_VOTES = 8 };

struct sw_rank {
    struct sw_launch *launch;
    const struct sw_plan *plan; /* NULL: none, in calibrate */
    const char *plan_path;      /* for messages */
    struct sw_program_set *programs;
    enum sw_device_kind kind;
    struct sw_device *device;
    struct sw_comm *comm;
    struct sw_executor *executor;
    void *vote_workspace;
    struct sw_error err; /* this rank's error; sw_rank_agree tells it to all */
};

/* A command that runs on a job's ranks. */
struct sw_rank_command {
    const char *plan_path;                                 /* NULL: the rank has no plan */
    const uint64_t *digest;                                /* required plan; NULL: any */
    bool starts_itself;                                    /* calls sw_launch_started */
    int (*run)(struct sw_rank *rank, const void *options); /* returns the exit code */
    const void *options;
};
/* Collective. Launches, reads the plan, runs the command, closes the rank. Prints errors to stderr,
 * once per job. Returns the exit code. */
int sw_rank_run(const struct sw_rank_command *command);

/* ---- Set-up; errors are left in rank->err ---- */

/* This rank's device. */
int sw_rank_open_device(struct sw_rank *rank, enum sw_device_kind kind);
/* Compiles the plan's programs as the plan tool did, for the plan's device. serving: bits of the
 * wanted serving programs (sw_program_set_compile_serving), 0: training programs; texts: most
 * concurrent sequences if the run does not say, 0: the default. Errors: SW_BAD_INPUT: the job's
 * ranks are not the plan's; a program differs. */
int sw_rank_compile(struct sw_rank *rank, uint32_t serving, int64_t texts);
/* Compiles training programs. Further error (SW_BAD_INPUT): the plan is for serving. */
int sw_rank_compile_training(struct sw_rank *rank);

/* A value that must be equal on every rank besides the plan. */
struct sw_rank_same {
    uint64_t value;
    const char *file; /* named in the message; NULL: none */
    const char *otherwise;
};
enum { SW_RANK_SAME = 3 };
/* Collective. Checks that no rank failed and that all have the same plan, programs, `same` [count
 * <= SW_RANK_SAME; NULL if 0] and kind of device. Returns the agreed status, its error printed
 * once; SW_OK. */
enum sw_status sw_rank_meet(struct sw_rank *rank, const struct sw_rank_same *same, int32_t count);
/* Collective, after sw_rank_meet: communicator of a mesh, for groups [count] of axes. longest_s:
 * see sw_launch_stall_seconds. */
int sw_rank_connect(struct sw_rank *rank, const struct sw_mesh *mesh, const struct sw_axes *groups,
                    int32_t count, double longest_s);
/* Collective: sw_rank_meet, the plan's communicator, the executor, whose state has no contents yet.
 * Returns the agreed status. */
enum sw_status sw_rank_join(struct sw_rank *rank, const struct sw_rank_same *same, int32_t count,
                            double longest_s);
/* Closes a rank, also a half-open one. Leaves launch and plan. */
void sw_rank_close(struct sw_rank *rank);

/* ---- Agreement ---- */

/* Collective: prints the error of the lowest rank with one in rank->err, and returns its status. */
enum sw_status sw_rank_agree(const struct sw_rank *rank);
/* Collective, after sw_rank_join: sums flags [count <= SW_RANK_VOTES] over all ranks. A step's
 * first communication, which fails if a rank is gone. Errors: SW_ENVIRONMENT. */
int sw_rank_vote(struct sw_rank *rank, float *flags, int32_t count, struct sw_error *err);

#endif
