/* `plan supervise`: the job's own process. It picks the nodes and their plan, starts the ranks,
 * listens for signals, reads attempt.json, decides what comes next, and does it, as transitions.h
 * says. The only writer of job.json, and with the ranks (core/run/attempt.h) of attempt.json. */
#ifndef SW_SUPERVISE_H
#define SW_SUPERVISE_H

#include "core/base/arguments.h"
#include "planner/scheduler/allocation.h"

#include <stdbool.h>
#include <stdint.h>

/* What a script says; all texts are the caller's, "" where it does not. */
struct sw_supervise_settings {
    const char *plan;    /* of an elastic run that for the most nodes */
    const char *digests; /* of the plan for each number of nodes: "3:0123456789abcdef,4:..." */
    const char
        *stages;      /* that the job trains: "NAME/STEPS/DIGESTS NAME/..."; PLAN is the first's */
    const char *next; /* script of the stages behind these */
    bool elastic;
    int32_t least, most; /* nodes that there are plans for */
    int32_t ranks_per_node;
    const char *folder;      /* the run's */
    const char *checkpoints; /* of texts: what they are made with */
    const char *runner, *container_runner;
    const char *script; /* itself, to submit a link */
    bool link;          /* this job was queued by another of the run */
    enum sw_continue how;
    int64_t max_attempts;
    const char *preflight; /* off, quick, full */
    const char *signal;    /* "USR1@30" */
    bool shrink_limit;     /* the job lowers its own limit when its speed is known */
    const char *exclude;   /* nodes that nobody wants, with commas */
    const char *mpi;
    const char *topology;                /* by which nodes are put in order: "block", "tree" */
    struct sw_arguments_words options;   /* of the launcher */
    struct sw_arguments_words container; /* before the runner */
    struct sw_arguments_words arguments; /* of the runner */
    const char *job;                     /* train, generate, score, serve */
    const char *input, *output, *host, *port, *token_file;
    int32_t shards;
};

/* Reads a command line [argc] after the command's name. As
 * sw_arguments_parse. */
int sw_supervise_parse(int argc, char **argv, struct sw_supervise_settings *out,
                       struct sw_error *err);
void sw_supervise_help(void);

/* Does it; returns the job's exit code. */
int sw_supervise(const struct sw_supervise_settings *settings,
                 const struct sw_allocation_ops *scheduler);

#endif
