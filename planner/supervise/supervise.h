/* `plan supervise`: the job's own process. It chooses the nodes and their plan, starts the ranks,
 * listens for signals, reads attempt.json, decides the next action, and executes it, as in
 * transitions.h. The only writer of job.json, and with the ranks (core/run/attempt.h) of
 * attempt.json. */
#ifndef SW_SUPERVISE_H
#define SW_SUPERVISE_H

#include "core/base/arguments.h"
#include "planner/scheduler/allocation.h"

#include <stdbool.h>
#include <stdint.h>

/* Settings from a script; the caller owns all texts, "" if not given. */
struct sw_supervise_settings {
    const char *plan;    /* for an elastic run, the plan for the most nodes */
    const char *digests; /* digest of the plan for each number of nodes:
                            "3:0123456789abcdef,4:..." */
    const char *stages;  /* stages that the job trains: "NAME/STEPS/DIGESTS NAME/..."; PLAN is the
                            first's */
    const char *next;    /* script of the later stages */
    bool elastic;
    int32_t least, most; /* numbers of nodes with a plan */
    int32_t ranks_per_node;
    const char *folder;      /* the run's */
    const char *checkpoints; /* for texts: checkpoints to generate with */
    const char *runner, *container_runner;
    const char *script; /* its own script, to submit a link */
    bool link;          /* true if another job of the run queued this one */
    enum sw_continue how;
    int64_t max_attempts;
    const char *preflight; /* off, quick, full */
    const char *signal;    /* "USR1@30" */
    bool shrink_limit;     /* true if the job lowers its own limit once its speed is known */
    const char *exclude;   /* nodes to avoid, with commas */
    const char *mpi;
    const char *topology;                /* topology for ordering nodes: "block", "tree" */
    struct sw_arguments_words options;   /* options of the launcher */
    struct sw_arguments_words container; /* words before the runner */
    struct sw_arguments_words arguments; /* arguments of the runner */
    const char *job;                     /* train, generate, score, serve */
    const char *input, *output, *host, *port, *token_file;
    int32_t shards;
};

/* Reads a command line [argc] after the command's name. Like sw_arguments_parse. */
int sw_supervise_parse(int argc, char **argv, struct sw_supervise_settings *out,
                       struct sw_error *err);
void sw_supervise_help(void);

/* Runs it; returns the job's exit code. */
int sw_supervise(const struct sw_supervise_settings *settings,
                 const struct sw_allocation_ops *scheduler);

#endif
