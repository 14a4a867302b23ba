/* Questions and orders of a job's own process to its scheduler, from within the job. A scheduler is
 * one struct sw_allocation_ops; its functions wait at most some minutes for the programs that they
 * start. */
#ifndef SW_SCHEDULER_ALLOCATION_H
#define SW_SCHEDULER_ALLOCATION_H

#include "core/base/arguments.h"
#include "core/run/launcher.h"
#include "planner/command/argv.h"
#include "planner/scheduler/hostlist.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Facts about the job from the scheduler. Texts live as long as the environment. */
struct sw_allocation {
    const char *id;       /* its number */
    const char *array_id; /* number of its array; without one, its own */
    /* Name of the job for questions and orders: the last task of an array may have the array's own
     * number, which stands for all tasks. "42", "42_3" */
    char itself[64];
    int64_t task;     /* index in the array; 0 */
    int64_t restarts; /* number of restarts by the scheduler */
    int32_t node_count;
    struct sw_hosts hosts; /* its nodes, in order */
    const char *node_list; /* the same in the scheduler's form */
};

/* A start of the ranks. */
struct sw_allocation_start {
    int32_t nodes, ranks_per_node;
    const char *mpi;
    const char *without;        /* nodes of the job without ranks, with commas; "": none */
    const struct sw_argv *used; /* the other nodes, in order; none: all are used */
    bool again;                 /* true if earlier ranks may still be on the nodes */
    const char *order; /* file for the nodes of ranks, one a line, if their order is not the
                          scheduler's; NULL: it is */
};

enum sw_allocation_answer {
    SW_ALLOCATION_SILENT,    /* no answer */
    SW_ALLOCATION_RUNS,      /* also while it receives a signal */
    SW_ALLOCATION_CANCELLED, /* by somebody */
    SW_ALLOCATION_OTHER      /* waiting, ending, or over */
};

enum { SW_ALLOCATION_WORD_BYTES = 48 };

struct sw_allocation_ops {
    const char *title; /* for messages: "Slurm" */
    /* Program that starts the ranks, by `mpi`: "srun" */
    const char *(*starter)(const char *mpi);
    const struct sw_launcher_lines *lines; /* readers of its launcher's output; NULL: none */
    const char *continue_key; /* setting that lets a run continue itself, for messages */
    /* Free the hosts with sw_allocation_free. Errors: SW_BAD_INPUT: not in a job. */
    int (*find)(struct sw_allocation *out, struct sw_error *err);
    /* Puts nodes that share a block or a leaf switch next to each other, the fullest first, since
     * neighbouring ranks communicate most. Returns true if that changes their order. NULL:
     * unknown. */
    bool (*arrange)(const struct sw_allocation *job, struct sw_argv *nodes);
    /* Adds the words that start the ranks, up to the program. */
    void (*start)(const struct sw_allocation_start *start, struct sw_argv *out);
    /* word: the scheduler's own for that state; "": no answer */
    enum sw_allocation_answer (*ask)(const char *job, char word[SW_ALLOCATION_WORD_BYTES]);
    /* Latest end of the job; 0: none. False: no answer. */
    bool (*ends_at)(const char *job, time_t *out);
    /* Adds those of the job's nodes that the scheduler reports lost. */
    void (*find_gone)(const struct sw_allocation *job, struct sw_hosts *out);
    /* The signal to send to the starter for one that the job's process heard and that the scheduler
     * sends to no rank; 0: none, ranks hear it themselves. */
    int (*passed)(const char *mpi, int heard);
    /* True if a program can be started on a node of this job, or if the scheduler refuses the start
     * for a reason of its own. The reason of a failed start goes to stderr. */
    bool (*answers)(const char *node);
    /* Orders; true: accepted. The scheduler's complaints go to stderr. */
    bool (*requeue)(const char *job, bool hold);
    bool (*release)(const char *job);
    /* tasks: fewest tasks with which a requeued job may start; 0: as many as before */
    bool (*exclude)(const char *job, const char *nodes, int32_t tasks);
    bool (*cancel)(const char *job);
    bool (*shorten)(const char *job, int64_t minutes); /* lowers its limit by that many minutes */
    bool (*end_ranks)(const char *job);                /* TERM to all of them */
    /* Submits a job of this script that begins when `job` is over, without these nodes ("": any),
     * knows that it is a link, and gets these arguments; number: its own. */
    bool (*submit)(const char *script, const struct sw_arguments_words *arguments, const char *job,
                   const char *without, char number[SW_ALLOCATION_WORD_BYTES]);
};

void sw_allocation_free(struct sw_allocation *job);

#endif
