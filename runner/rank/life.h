/* What a run is asked from outside, by signals. They are blocked before any library starts threads
 * and waited for by one thread, so nothing is ever interrupted: the loop over steps asks between
 * two of them whether there is a request, and the ranks agree on the strongest.
 *
 *     signal                                      request        what the run ends with
 *     USR1 (the run's checkpoint_signal)          REQUEUE        75
 *     INT, SW_LIFE_PASSED_INT                     INTERRUPT      130
 *     TERM, HUP, SW_LIFE_PASSED_TERM              TERMINATE      143
 *
 * A stronger request replaces a weaker one: what ends a chain of jobs wins over what goes on with
 * it, and what has only a grace time wins over what has any. A second INT or TERM leaves at once.
 * Signals within a second are one: launchers send the same one more than once, and to a whole
 * process group as well as to each process.
 *
 * Does not know steps, ranks or files. */
#ifndef SW_LIFE_H
#define SW_LIFE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum sw_request { SW_REQUEST_NONE, SW_REQUEST_REQUEUE, SW_REQUEST_INTERRUPT, SW_REQUEST_TERMINATE };

/* mpirun turns INT and TERM into TERM, and KILL a second later; these numbers (real-time signals on
 * every Linux) it passes on as they are. templates/mpirun.sh sends them. */
enum { SW_LIFE_PASSED_TERM = 40, SW_LIFE_PASSED_INT = 41 };

struct sw_life;

/* Called on the life's own thread. */
struct sw_life_hooks {
    /* Whether another rank has ended the run already, asked every half second while a request waits
     * for the end of a step; this process then leaves without a word. */
    bool (*is_over)(void *context);
    /* A first INT, TERM or HUP came, which is obeyed behind the step at hand; may be NULL. */
    void (*heard)(void *context, enum sw_request request);
    /* Before leaving at once; may take 3 s, then the process leaves all the same. */
    void (*leave)(void *context, enum sw_request request);
    /* Instead: a second signal says so (sw_life_hurried), and the process ends by itself, or leaves
     * 3 s later all the same. */
    bool finishes;
    void *context;
};

/* Blocks the signals of the table in the calling thread, which must be the only one, ignores
 * SIGPIPE, and starts the thread. HUP stays ignored where it is (nohup). Errors: SW_ENVIRONMENT. */
int sw_life_begin(struct sw_life **out, struct sw_error *err);
/* Signals of the table but SW_LIFE_PASSED_*, for a process that passes them on: fills numbers[8],
 * returns how many. */
int32_t sw_life_signals(int numbers[8]);
/* Which signal means REQUEUE: USR1 or USR2; the other one is then ignored. Until it is called, USR1
 * is. */
void sw_life_set_checkpoint_signal(struct sw_life *life, int number);
/* Until it is armed, INT and TERM end the process at once: nothing is lost yet. hooks is copied. */
void sw_life_arm(struct sw_life *life, const struct sw_life_hooks *hooks);
/* How the run ends is settled: from now on signals change nothing. */
void sw_life_disarm(struct sw_life *life);
/* What was asked so far; any thread. */
enum sw_request sw_life_requested(const struct sw_life *life);
/* Whether a second INT or TERM came to one that finishes; any thread. */
bool sw_life_hurried(const struct sw_life *life);
/* Whether what asked to terminate first was HUP: a terminal or connection that is gone. */
bool sw_life_hung_up(const struct sw_life *life);
/* When the strongest request came (sw_clock_now), 0: there is none. */
double sw_life_requested_at(const struct sw_life *life);
/* Exit code of a run that ends so. */
int sw_request_exit_code(enum sw_request request);
/* Ends the thread; signals stay blocked. NULL: nothing. */
void sw_life_end(struct sw_life *life);

#endif
