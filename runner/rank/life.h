/* Requests to a run, by signals. They are blocked before any library starts threads, and one thread
 * waits for them, so nothing is interrupted: the training loop checks for a request between steps,
 * and the ranks agree on the strongest.
 *
 *     signal                                      request        exit code of the run
 *     USR1 (the run's checkpoint_signal)          REQUEUE        75
 *     INT, SW_LIFE_PASSED_INT                     INTERRUPT      130
 *     TERM, HUP, SW_LIFE_PASSED_TERM              TERMINATE      143
 *
 * A stronger request replaces a weaker one: ending a chain of jobs wins over continuing it, and a
 * limited grace time over an unlimited one. A second INT or TERM exits at once. Signals within a
 * second are one: launchers repeat a signal, and send it to a process group and each process.
 *
 * Does not know steps, ranks or files. */
#ifndef SW_LIFE_H
#define SW_LIFE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum sw_request { SW_REQUEST_NONE, SW_REQUEST_REQUEUE, SW_REQUEST_INTERRUPT, SW_REQUEST_TERMINATE };

/* mpirun turns INT and TERM into TERM, and KILL a second later, but passes on these numbers
 * (real-time signals on every Linux). templates/mpirun.sh sends them. */
enum { SW_LIFE_PASSED_TERM = 40, SW_LIFE_PASSED_INT = 41 };

struct sw_life;

/* Callbacks on the life's own thread. */
struct sw_life_hooks {
    /* True if another rank has already ended the run; this process then exits silently. Asked every
     * half second while a request waits for the step's end. */
    bool (*is_over)(void *context);
    /* A first INT, TERM or HUP came, obeyed after the current step; may be NULL. */
    void (*heard)(void *context, enum sw_request request);
    /* Called before exiting at once; the process exits after 3 s in any case. */
    void (*leave)(void *context, enum sw_request request);
    /* True: instead, a second signal only sets sw_life_hurried, and the process ends by itself,
     * within 3 s in any case. */
    bool finishes;
    void *context;
};

/* Starts the thread; blocks the table's signals in the calling thread, which must be the only one,
 * and ignores SIGPIPE. An ignored HUP stays ignored (nohup). Errors: SW_ENVIRONMENT. */
int sw_life_begin(struct sw_life **out, struct sw_error *err);
/* Signals of the table without SW_LIFE_PASSED_*, for a process that forwards them: fills
 * numbers[8], returns their number. */
int32_t sw_life_signals(int numbers[8]);
/* Chooses the signal for REQUEUE, USR1 or USR2; the other one is ignored. USR1 before the first
 * call. */
void sw_life_set_checkpoint_signal(struct sw_life *life, int number);
/* Arms the life: before, INT and TERM end the process at once, as nothing can be lost yet. hooks is
 * copied. */
void sw_life_arm(struct sw_life *life, const struct sw_life_hooks *hooks);
/* Ignores signals from now on: the run's end is settled. */
void sw_life_disarm(struct sw_life *life);
/* Strongest request so far; any thread. */
enum sw_request sw_life_requested(const struct sw_life *life);
/* True if a second INT or TERM came and hooks.finishes is set; any thread. */
bool sw_life_hurried(const struct sw_life *life);
/* True if the first request to terminate was HUP: a terminal or connection is gone. */
bool sw_life_hung_up(const struct sw_life *life);
/* Time of the strongest request (sw_clock_now), 0: none. */
double sw_life_requested_at(const struct sw_life *life);
/* Exit code of a run that ends with this request. */
int sw_request_exit_code(enum sw_request request);
/* Ends the thread; signals stay blocked. NULL: does nothing. */
void sw_life_end(struct sw_life *life);

#endif
