/* What a job's own process asks of its scheduler, from within the job. A scheduler is one
 * struct sw_allocation_ops; what each of its functions starts, it waits for at most some minutes.
 */
#ifndef SW_SCHEDULER_ALLOCATION_H
#define SW_SCHEDULER_ALLOCATION_H

#include "core/base/arguments.h"
#include "core/run/launcher.h"
#include "planner/command/argv.h"
#include "planner/scheduler/hostlist.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* What the scheduler has told the job about itself. Texts live as long as the environment. */
struct sw_allocation {
    const char *id;       /* its number */
    const char *array_id; /* of the array that it is a task of; else its own */
    /* What the scheduler is asked about and gets orders for: the last task of an array may have the
     * array's own number, which stands for all of them. "42", "42_3" */
    char itself[64];
    int64_t task;     /* of the array; 0 */
    int64_t restarts; /* how often the scheduler started it again */
    int32_t node_count;
    struct sw_hosts hosts; /* its nodes, in order */
    const char *node_list; /* the same as the scheduler writes it */
};

/* A start of the ranks. */
struct sw_allocation_start {
    int32_t nodes, ranks_per_node;
    const char *mpi;
    const char *without;        /* nodes of the job that get none, with commas; "": none */
    const struct sw_argv *used; /* the other nodes, in order; none: it is not chosen among them */
    bool again;                 /* others may still be on the nodes */
    const char *order; /* file to write the nodes of ranks to, one a line, since their order
                          is not the scheduler's; NULL: it is */
};

enum sw_allocation_answer {
    SW_ALLOCATION_SILENT,    /* nobody answered */
    SW_ALLOCATION_RUNS,      /* also while a signal is delivered to it */
    SW_ALLOCATION_CANCELLED, /* by somebody */
    SW_ALLOCATION_OTHER      /* it waits, is ending, or is over */
};

enum { SW_ALLOCATION_WORD_BYTES = 48 };

struct sw_allocation_ops {
    const char *title; /* for messages: "Slurm" */
    /* What starts the ranks, as `mpi` says: "srun" */
    const char *(*starter)(const char *mpi);
    const struct sw_launcher_lines
        *lines;               /* how what its launcher prints is read; NULL: it is not */
    const char *continue_key; /* the setting that lets a run go on by itself, for messages */
    /* Free the hosts with sw_allocation_free. Errors: SW_BAD_INPUT: not in a job. */
    int (*find)(struct sw_allocation *out, struct sw_error *err);
    /* Puts nodes that share a block or a leaf switch next to each other, those of the fullest
     * first, for neighbouring ranks talk most. Returns true if that changes their order. NULL: it
     * cannot tell. */
    bool (*arrange)(const struct sw_allocation *job, struct sw_argv *nodes);
    /* Adds the words that start the ranks, up to the program. */
    void (*start)(const struct sw_allocation_start *start, struct sw_argv *out);
    /* word: the scheduler's own of that state; "" where nobody answered */
    enum sw_allocation_answer (*ask)(const char *job, char word[SW_ALLOCATION_WORD_BYTES]);
    /* When the job ends at the latest; 0: never. False: nobody answered. */
    bool (*ends_at)(const char *job, time_t *out);
    /* Adds those of the job's nodes that the scheduler itself holds for gone. */
    void (*find_gone)(const struct sw_allocation *job, struct sw_hosts *out);
    /* The signal that the starter gets for one that the job's process heard, since the scheduler
     * sends it to no rank; 0: none, the ranks heard of it by themselves. */
    int (*passed)(const char *mpi, int heard);
    /* True if a program can be started on a node of this job, or if the scheduler refuses the start
     * for a reason of its own. The reason of a failed start goes to stderr. */
    bool (*answers)(const char *node);
    /* Orders; true: they were taken. What the scheduler complains of goes to stderr. */
    bool (*requeue)(const char *job, bool hold);
    bool (*release)(const char *job);
    /* tasks: fewest tasks that a requeued job may start with; 0: as many as it had */
    bool (*exclude)(const char *job, const char *nodes, int32_t tasks);
    bool (*cancel)(const char *job);
    bool (*shorten)(const char *job, int64_t minutes); /* takes so many off its limit */
    bool (*end_ranks)(const char *job);                /* TERM to all of them */
    /* A job of this script that begins when `job` is over, without these nodes ("": all will do),
     * which is told that it is a link, and gets these arguments; number: its own. */
    bool (*submit)(const char *script, const struct sw_arguments_words *arguments, const char *job,
                   const char *without, char number[SW_ALLOCATION_WORD_BYTES]);
};

void sw_allocation_free(struct sw_allocation *job);

#endif
