/* The life of a job as a table: the next action of its process after the outcome of the last. Knows
 * no process, no clock, no file and no scheduler: tests step through it.
 *
 * A state is an action or a wait; an event is its outcome. Each step gives the next state and a
 * pause before it. */
#ifndef SW_SUPERVISE_TRANSITIONS_H
#define SW_SUPERVISE_TRANSITIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Identifier, and its action. */
#define SW_SUPERVISE_STATES(X)                                                                     \
    X(BEGIN)        /* decide if the ranks are started at all */                                   \
    X(QUEUE_LINK)   /* submit the next link of the chain early, in case this node dies */          \
    X(CHOOSE)       /* choose the nodes and their plan, without excluded ones */                   \
    X(CHOOSE_ALL)   /* choose with them, since there is no plan for the others */                  \
    X(PREFLIGHT)    /* start the ranks for a preflight, and wait for their end */                  \
    X(TRAIN)        /* start them unless they run, and wait for an event */                        \
    X(TICK)         /* ask for the job's end: the signal before it may be due */                   \
    X(REMIND)       /* send that signal */                                                         \
    X(SHRINK)       /* lower the job's limit to the ranks' need, if known */                       \
    X(PROBE)        /* find nodes that do not answer */                                            \
    X(CONFIRM)      /* ask if this job runs: in a cancelled one no node answers */                 \
    X(DROP)         /* forget these nodes */                                                       \
    X(DECIDE)       /* decide the next action by attempt.json */                                   \
    X(STAY)         /* ask if this job runs, to start the ranks again in it */                     \
    X(CHOOSE_AGAIN) /* like CHOOSE, for another start */                                           \
    X(ASK)          /* ask if this job runs, to order another one */                               \
    X(REQUEUE)      /* requeue this job */                                                         \
    X(HOLD)         /* requeue it held, since nodes are to be excluded */                          \
    X(EXCLUDE)      /* exclude the nodes */                                                        \
    X(RELEASE)      /* release it */                                                               \
    X(ASK_ANEW)     /* the requeue was refused: ask if this job still runs */                      \
    X(SUBMIT)       /* submit a new job, the next link */                                          \
    X(ASK_STAGE)    /* the stages of this job are done: ask if it still runs */                    \
    X(SUBMIT_STAGE) /* submit a job for the next stages, which need other nodes */                 \
    X(FOLLOW)       /* a link is queued: ask if it still is */                                     \
    X(EXCLUDE_LINK) /* exclude nodes from it */                                                    \
    X(CANCEL_LINK)  /* cancel it, not needed */                                                    \
    X(TEXTS)        /* start ranks that generate, score or serve unless they run, and wait */      \
    X(LISTEN)       /* ask if the server listens, and announce it */                               \
    X(TELL)         /* the limit is near: tell the ranks to end */                                 \
    X(JUDGE)        /* decide if another job would do more */                                      \
    X(ASK_TEXTS)    /* ask if this job runs, to have it requeued */                                \
    X(REQUEUE_TEXTS)                                                                               \
    X(TEXTS_STAY) /* report that it is not requeued */                                             \
    X(TEXTS_OVER) /* report that it is not asked for */                                            \
    X(RECORD)     /* record the end of a job of texts */                                           \
    X(LINK_STAYS) /* report that the link continues with nodes to be excluded */                   \
    /* the ends */                                                                                 \
    X(FOLLOWS)      /* another job continues */                                                    \
    X(ENDS)         /* none does, as decided */                                                    \
    X(NO_PLAN)      /* report that there is no plan for the nodes */                               \
    X(NOT_ASKED)    /* report that this job does not run any more */                               \
    X(NOT_ANSWERED) /* report that there was no answer */                                          \
    X(NOT_TAKEN)    /* report that no order was accepted */                                        \
    X(LINK_GONE)    /* report that the link was cancelled */                                       \
    X(TEXTS_FOLLOW) /* report that a job of texts continues */

#define X(id) SW_SUPERVISE_##id,
enum sw_supervise_state { SW_SUPERVISE_STATES(X) SW_SUPERVISE_STATE_COUNT };
#undef X

#define SW_SUPERVISE_EVENTS(X)                                                                     \
    X(DONE)      /* an order was accepted; a choice was made; a report was written */              \
    X(REFUSED)   /* refused; no choice */                                                          \
    X(RUNS)      /* this job, or this link, still exists */                                        \
    X(OVER)      /* no longer */                                                                   \
    X(SILENT)    /* no answer */                                                                   \
    X(GO)        /* decided: start the ranks */                                                    \
    X(AGAIN)     /* decided: start them again */                                                   \
    X(ELSEWHERE) /* decided: in another job */                                                     \
    X(MOVE)      /* decided: the next stages need a job of their own */                            \
    X(END)       /* decided: end */                                                                \
    X(WELL)      /* the ranks ended with 0, and began an attempt */                                \
    X(BADLY)     /* the ranks ended otherwise */                                                   \
    X(TIMER)     /* time to ask */                                                                 \
    X(LOOK)      /* time to look at the ranks' speed */                                            \
    X(LIMIT)     /* the signal that the limit is near */                                           \
    X(NOTED)     /* another signal, which the ranks get by themselves */

#define X(id) SW_SUPERVISE_##id##_EVENT,
enum sw_supervise_event { SW_SUPERVISE_EVENTS(X) SW_SUPERVISE_EVENT_COUNT };
#undef X

/* Facts, set by the caller before a step. */
enum sw_supervise_fact {
    SW_SUPERVISE_CHAINS = 1 << 0,   /* another job is a link of a chain, not this one requeued */
    SW_SUPERVISE_LINKED = 1 << 1,   /* the next link is queued */
    SW_SUPERVISE_WITHOUT = 1 << 2,  /* nodes of this job are excluded */
    SW_SUPERVISE_EXCLUDES = 1 << 3, /* the run excludes nodes, here or elsewhere */
    SW_SUPERVISE_TRIES = 1 << 4,    /* a preflight is due before the ranks train */
    SW_SUPERVISE_IDLE = 1 << 5,     /* the last start began no attempt */
    SW_SUPERVISE_REQUEUES = 1 << 6, /* texts: the job may continue in another */
};

enum { SW_SUPERVISE_PATIENCE = 60 };

struct sw_supervise_machine {
    enum sw_supervise_state state;
    uint32_t facts;   /* bits of sw_supervise_fact */
    int32_t patience; /* remaining: a question without an answer costs 1, a refused order 10 */
};

/* Moves to the next state. Returns the seconds to wait before entering it; -1: the event does not
 * belong to the state, a mistake of the caller: the job ends. */
int32_t sw_transitions_step(struct sw_supervise_machine *machine, enum sw_supervise_event event);

/* True if no state follows. */
bool sw_transitions_is_end(enum sw_supervise_state state);
/* "BEGIN", "DONE": for tests and messages. */
const char *sw_transitions_state_name(enum sw_supervise_state state);
const char *sw_transitions_event_name(enum sw_supervise_event event);

#endif
