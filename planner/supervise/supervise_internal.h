/* Shared by the files of `plan supervise`: the current job. */
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

/* The ranks, while they run and after they ended. */
struct sw_supervised_ranks {
    pid_t process; /* process of their launcher; 0: not running */
    int32_t status;
    struct sw_output *output;
    double timer; /* time of the next question, by sw_clock_now; INFINITY: never */
    double look;  /* the same for the next look at their speed */
};

/* Speed of the ranks, from the run's metrics.jsonl. */
struct sw_supervised_speed {
    off_t read;                    /* bytes of the file read so far */
    struct sw_pace pace;           /* pace of the newest start */
    struct sw_metrics_line header; /* header of that start; kind SW_METRICS_OTHER: not begun */
    time_t began;                  /* time at which the newest start was prepared */
    double start_s;                /* longest time from there to a first step */
};

struct sw_supervisor {
    const struct sw_supervise_settings *set;
    const struct sw_allocation_ops *scheduler;
    struct sw_allocation job;
    struct sw_supervise_machine machine;
    double second; /* seconds of a pause's second */
    const char *runner;
    struct sw_supervised_ranks ranks;
    char word[SW_ALLOCATION_WORD_BYTES]; /* last state of this job by the scheduler */
    int32_t code;                        /* the job's exit code */
    double began_s;                      /* begin of this process, since 1970 */
    bool told;                           /* true once the job's time was reported */

    /* a training: of a run, or of the current stage */
    char folder[PATH_MAX], checkpoints[PATH_MAX];
    const char *digests;
    struct sw_stages stages; /* stages of this job; count 0: none */
    char *digests_of[SW_STAGES];
    int32_t stage;                /* index of the current stage */
    struct sw_excluded *excluded; /* nodes excluded from the run */
    char *leave_out;              /* these and the unwanted ones, with commas */
    struct sw_argv used, without; /* sets of the job's nodes */
    char *without_list;           /* with commas */
    bool arranged;                /* true if `used` has another order than the scheduler's */
    char order[PATH_MAX];         /* file of nodes for the launcher; "": none */
    char plan[PATH_MAX], digest[20], tried[PATH_MAX];
    char launcher[PATH_MAX], launcher_before[PATH_MAX]; /* output of launcher and MPI; "": none */
    int64_t attempt_before;
    int32_t starts;       /* since the last attempt began */
    int32_t start_number; /* starts of this job */
    bool again, began;    /* true if the job started ranks before; if these began an attempt */
    time_t end;           /* end of this job; 0: unknown */
    struct sw_supervised_speed speed;
    struct sw_hosts dead;                /* nodes that do not answer */
    char link[SW_ALLOCATION_WORD_BYTES]; /* next job of a chain; "": none */

    /* texts */
    char made[PATH_MAX], shard[48], listen[NAME_MAX], port[16];
    int64_t lines_before;
    bool announced, at_limit;
};

/* ranks.c. Starts the ranks with words of the runner (NULL-ended); filtered: true to write
 * launchers' lines to s->launcher. A failure to start appears as exit code 127. */
void sw_supervise_start(struct sw_supervisor *s, const struct sw_argv *words, bool filtered);
/* Passes a signal to their starter, if the scheduler does not; true: passed. */
bool sw_supervise_pass(const struct sw_supervisor *s, int heard);
/* Waits for their end, a signal or the timer; passes signals but USR1. */
enum sw_supervise_event sw_supervise_wait(struct sw_supervisor *s);
/* Begins to listen for signals. */
void sw_supervise_listen(void);

/* stages.c. Reads the job's stages; false: the code of s has the reason. */
bool sw_supervise_begin_stages(struct sw_supervisor *s);
void sw_supervise_free_stages(struct sw_supervisor *s);
/* Takes the run's current stage; false: all of this job are done. */
bool sw_supervise_find_stage(struct sw_supervisor *s);
/* Takes the next stage; false: the current one is the job's last. */
bool sw_supervise_next_stage(struct sw_supervisor *s);
/* Names the current stage's plan instead of the first's; ending: ".plan.yaml". */
void sw_supervise_stage_plan(const struct sw_supervisor *s, const char *ending,
                             char plan[PATH_MAX]);

/* time.c. Notes that a training job begins; and that it ends, with its time by parts, once. */
void sw_supervise_begin_time(struct sw_supervisor *s);
void sw_supervise_end_time(struct sw_supervisor *s, int32_t code);

/* speed.c. Call before a start of the ranks. */
void sw_supervise_prepare_speed(struct sw_supervisor *s);
/* Reads the ranks' output, and lowers the job's limit by the time they will not need. DONE:
 * lowered; REFUSED: unchanged; SILENT: no answer. */
enum sw_supervise_event sw_supervise_shrink(struct sw_supervisor *s);

/* nodes.c. The plan for another number of nodes. */
void sw_supervise_plan_of(const struct sw_supervisor *s, int32_t nodes, char out[PATH_MAX]);
/* Chooses nodes and plan; false: no plan for these nodes. */
bool sw_supervise_choose(struct sw_supervisor *s);
/* Fills s->dead: those of the job's nodes that do not answer. */
void sw_supervise_probe(struct sw_supervisor *s);
/* Takes over the currently excluded nodes. */
void sw_supervise_set_excluded(struct sw_supervisor *s);

/* training.c, texts.c: action of each state. */
typedef enum sw_supervise_event (*sw_supervise_do)(struct sw_supervisor *s);
extern const sw_supervise_do sw_supervise_training[SW_SUPERVISE_STATE_COUNT],
    sw_supervise_texts[SW_SUPERVISE_STATE_COUNT];
/* Call before the first of them; false: the code of s has the reason. */
bool sw_supervise_begin_texts(struct sw_supervisor *s);

/* The attempt in the run's folder; 0: none. */
struct sw_attempt sw_supervise_attempt(const struct sw_supervisor *s);
/* Actions of jobs of either kind: asks for the scheduler's state of the job; requeues it. */
enum sw_supervise_event sw_supervise_ask(struct sw_supervisor *s);
enum sw_supervise_event sw_supervise_requeue(struct sw_supervisor *s);

#endif
