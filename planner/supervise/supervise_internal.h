/* What the files of `plan supervise` share: the job at hand. */
#ifndef SW_SUPERVISE_INTERNAL_H
#define SW_SUPERVISE_INTERNAL_H

#include "core/run/attempt.h"
#include "core/run/excluded.h"
#include "core/run/metrics_line.h"
#include "core/run/stages.h"
#include "planner/supervise/limit.h"
#include "planner/supervise/transitions.h"
#include "planner/supervise/output.h"
#include "planner/supervise/supervise.h"

#include <limits.h>
#include <sys/types.h>

/* The ranks, while they run and when they ended. */
struct sw_supervised_ranks {
    pid_t process; /* of their launcher; 0: they do not run */
    int32_t status;
    struct sw_output *output;
    double timer; /* when it is time to ask something, on sw_clock_now; INFINITY: never */
    double look;  /* the same, to look at how fast they are */
};

/* Speed of the ranks, by the run's metrics.jsonl. */
struct sw_supervised_speed {
    off_t read;                    /* bytes of the file that were read */
    struct sw_pace pace;           /* of the newest start */
    struct sw_metrics_line header; /* of that; kind SW_METRICS_OTHER: it has not begun */
    time_t began;                  /* when the newest start was prepared */
    double start_s;                /* the longest from there to a first step */
};

struct sw_supervisor {
    const struct sw_supervise_settings *set;
    const struct sw_allocation_ops *scheduler;
    struct sw_allocation job;
    struct sw_supervise_machine machine;
    double second; /* how long a second of a pause is */
    const char *runner;
    struct sw_supervised_ranks ranks;
    char word[SW_ALLOCATION_WORD_BYTES]; /* the scheduler's last one of the state of this job */
    int32_t code;                        /* the job's exit code */
    double began_s;                      /* when this process did, since 1970 */
    bool told;                           /* where the job's time went */

    /* a training: of a run, or the stage at hand */
    char folder[PATH_MAX], checkpoints[PATH_MAX];
    const char *digests;
    struct sw_stages stages; /* of this job; count 0: the run has none */
    char *digests_of[SW_STAGES];
    int32_t stage;                /* at hand */
    struct sw_excluded *excluded; /* the nodes that the run does without */
    char *leave_out;              /* these and those that nobody wants, with commas */
    struct sw_argv used, without; /* of the job's nodes */
    char *without_list;           /* with commas */
    bool arranged;                /* `used` is in another order than the scheduler has them */
    char order[PATH_MAX];         /* file of nodes for the launcher; "": there is none */
    char plan[PATH_MAX], digest[20], tried[PATH_MAX];
    char launcher[PATH_MAX],
        launcher_before[PATH_MAX]; /* what launcher and MPI said; "": nothing */
    int64_t attempt_before;
    int32_t starts;       /* since something was last begun */
    int32_t start_number; /* of this job */
    bool again, began;    /* the job started ranks before; these began an attempt */
    time_t end;           /* of this job; 0: not told */
    struct sw_supervised_speed speed;
    struct sw_hosts dead;                /* nodes that do not answer */
    char link[SW_ALLOCATION_WORD_BYTES]; /* the next one of a chain; "": none */

    /* texts */
    char made[PATH_MAX], shard[48], listen[NAME_MAX], port[16];
    int64_t lines_before;
    bool announced, at_limit;
};

/* ranks.c. Starts them with words of the runner (NULL-ended); filtered: what launchers say goes to
 * s->launcher. What cannot be started has ended with 127. */
void sw_supervise_start(struct sw_supervisor *s, const struct sw_argv *words, bool filtered);
/* Tells their starter of a signal, where the scheduler does not tell them; true: it did. */
bool sw_supervise_pass(const struct sw_supervisor *s, int heard);
/* Waits for their end, a signal or the timer; signals but USR1 are passed. */
enum sw_supervise_event sw_supervise_wait(struct sw_supervisor *s);
/* Signals are waited for from now on. */
void sw_supervise_listen(void);

/* stages.c. Reads those of the job; false: code of s says why not. */
bool sw_supervise_begin_stages(struct sw_supervisor *s);
void sw_supervise_free_stages(struct sw_supervisor *s);
/* Takes the one that the run is in; false: all of this job are done. */
bool sw_supervise_find_stage(struct sw_supervisor *s);
/* Takes the one behind that at hand; false: it is the last of this job. */
bool sw_supervise_next_stage(struct sw_supervisor *s);
/* Names the plan of the stage at hand in the place of the first's; ending: ".plan.yaml". */
void sw_supervise_stage_plan(const struct sw_supervisor *s, const char *ending,
                             char plan[PATH_MAX]);

/* time.c. Notes that a job which trains begins; and that it ends, and says where its time went,
 * once. */
void sw_supervise_begin_time(struct sw_supervisor *s);
void sw_supervise_end_time(struct sw_supervisor *s, int32_t code);

/* speed.c. Before a start of the ranks. */
void sw_supervise_prepare_speed(struct sw_supervisor *s);
/* Reads what the ranks wrote, and takes off the job's limit what they will not need. DONE: the
 * limit is lower; REFUSED: it stays; SILENT: nobody answered. */
enum sw_supervise_event sw_supervise_shrink(struct sw_supervisor *s);

/* nodes.c. The plan for another number of nodes. */
void sw_supervise_plan_of(const struct sw_supervisor *s, int32_t nodes, char out[PATH_MAX]);
/* Chooses nodes and plan; false: there is no plan for these nodes. */
bool sw_supervise_choose(struct sw_supervisor *s);
/* Fills s->dead: those of the job's nodes that do not answer. */
void sw_supervise_probe(struct sw_supervisor *s);
/* Takes over what is excluded now. */
void sw_supervise_set_excluded(struct sw_supervisor *s);

/* training.c, texts.c: what is done in each state. */
typedef enum sw_supervise_event (*sw_supervise_do)(struct sw_supervisor *s);
extern const sw_supervise_do sw_supervise_training[SW_SUPERVISE_STATE_COUNT],
    sw_supervise_texts[SW_SUPERVISE_STATE_COUNT];
/* Before the first of them; false: *code of s says why not. */
bool sw_supervise_begin_texts(struct sw_supervisor *s);

/* The attempt in the run's folder; 0: there is none. */
struct sw_attempt sw_supervise_attempt(const struct sw_supervisor *s);
/* Doings of a job of either kind: asks what the scheduler says of it; has it requeued. */
enum sw_supervise_event sw_supervise_ask(struct sw_supervisor *s);
enum sw_supervise_event sw_supervise_requeue(struct sw_supervisor *s);

#endif
