/* The life of a job as a table: what its own process does next, after what it did came out as it
 * did. Knows no process, no clock, no file and no scheduler: tests step through it.
 *
 * A state is something to be done, or to be waited for; an event is how that came out. Each step
 * says the next state and how long to pause before it. */
#ifndef SW_SUPERVISE_TRANSITIONS_H
#define SW_SUPERVISE_TRANSITIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Identifier, and what is done in it. */
#define SW_SUPERVISE_STATES(X)                                                                     \
    X(BEGIN)        /* decide whether the ranks are started at all */                              \
    X(QUEUE_LINK)   /* submit the next link of the chain, so that it is there if this node dies */ \
    X(CHOOSE)       /* the nodes and their plan, without those that the run does without */        \
    X(CHOOSE_ALL)   /* with them, since there is no plan for the others */                         \
    X(PREFLIGHT)    /* start the ranks for a preflight, and wait for their end */                  \
    X(TRAIN)        /* start them unless they run, and wait for what comes */                      \
    X(TICK)         /* ask when the job ends: the signal before that may be due */                 \
    X(REMIND)       /* send it */                                                                  \
    X(SHRINK)       /* lower the job's limit to what the ranks need, if that is known */           \
    X(PROBE)        /* find nodes that do not answer */                                            \
    X(CONFIRM)      /* ask whether this job runs: in one that is cancelled no node answers */      \
    X(DROP)         /* forget the nodes that were found */                                         \
    X(DECIDE)       /* what comes next, by attempt.json */                                         \
    X(STAY)         /* ask whether this job runs, to start the ranks again in it */                \
    X(CHOOSE_AGAIN) /* as CHOOSE, for another start */                                             \
    X(ASK)          /* ask whether this job runs, to order that another goes on */                 \
    X(REQUEUE)      /* order it */                                                                 \
    X(HOLD)         /* the same, held, since nodes are to be left out */                           \
    X(EXCLUDE)      /* leave them out */                                                           \
    X(RELEASE)      /* let it go */                                                                \
    X(ASK_ANEW)     /* the requeue was refused: ask whether this job runs still */                 \
    X(SUBMIT)       /* a new job, the next link */                                                 \
    X(ASK_STAGE)    /* the stages of this job are done: ask whether it runs still */               \
    X(SUBMIT_STAGE) /* a job for the next stages, which need other nodes */                        \
    X(FOLLOW)       /* a link is queued: ask whether it still is */                                \
    X(EXCLUDE_LINK) /* leave nodes out of it */                                                    \
    X(CANCEL_LINK)  /* it is not needed */                                                         \
    X(TEXTS)        /* start ranks that generate, score or serve unless they run, and wait */      \
    X(LISTEN)       /* ask whether the server listens, and announce it */                          \
    X(TELL)         /* the limit is near: tell the ranks to end */                                 \
    X(JUDGE)        /* whether another job would make more of it */                                \
    X(ASK_TEXTS)    /* ask whether this job runs, to have it requeued */                           \
    X(REQUEUE_TEXTS)                                                                               \
    X(TEXTS_STAY) /* say that it is not requeued */                                                \
    X(TEXTS_OVER) /* say that it is not asked for */                                               \
    X(RECORD)     /* write down how a job of texts ended */                                        \
    X(LINK_STAYS) /* say that the link goes on with nodes that were to be left out */              \
    /* the ends */                                                                                 \
    X(FOLLOWS)      /* another job goes on */                                                      \
    X(ENDS)         /* none does, as it was decided */                                             \
    X(NO_PLAN)      /* say that there is no plan for the nodes */                                  \
    X(NOT_ASKED)    /* say that this job does not run any more */                                  \
    X(NOT_ANSWERED) /* say that nobody answered */                                                 \
    X(NOT_TAKEN)    /* say that no order was taken */                                              \
    X(LINK_GONE)    /* say that somebody cancelled the link */                                     \
    X(TEXTS_FOLLOW) /* say that a job of texts goes on */

#define X(id) SW_SUPERVISE_##id,
enum sw_supervise_state { SW_SUPERVISE_STATES(X) SW_SUPERVISE_STATE_COUNT };
#undef X

#define SW_SUPERVISE_EVENTS(X)                                                                     \
    X(DONE)      /* an order was taken; a choice was made; it was said */                          \
    X(REFUSED)   /* it was not; there is none */                                                   \
    X(RUNS)      /* this job, or this link, is there still */                                      \
    X(OVER)      /* it is not */                                                                   \
    X(SILENT)    /* nobody answered */                                                             \
    X(GO)        /* decided: start the ranks */                                                    \
    X(AGAIN)     /* start them again */                                                            \
    X(ELSEWHERE) /* in another job */                                                              \
    X(MOVE)      /* the next stages need a job of their own */                                     \
    X(END)       /* end */                                                                         \
    X(WELL)      /* the ranks ended with 0, and began something */                                 \
    X(BADLY)     /* or not */                                                                      \
    X(TIMER)     /* it is time to ask */                                                           \
    X(LOOK)      /* it is time to look at how fast the ranks are */                                \
    X(LIMIT)     /* the signal that the limit is near */                                           \
    X(NOTED)     /* another signal, which the ranks get by themselves */

#define X(id) SW_SUPERVISE_##id##_EVENT,
enum sw_supervise_event { SW_SUPERVISE_EVENTS(X) SW_SUPERVISE_EVENT_COUNT };
#undef X

/* What is so; whoever does things sets it before a step. */
enum sw_supervise_fact {
    SW_SUPERVISE_CHAINS = 1 << 0,   /* another job is a link of a chain, not this one requeued */
    SW_SUPERVISE_LINKED = 1 << 1,   /* the next link is queued */
    SW_SUPERVISE_WITHOUT = 1 << 2,  /* nodes of this job are left out */
    SW_SUPERVISE_EXCLUDES = 1 << 3, /* the run does without nodes, here or elsewhere */
    SW_SUPERVISE_TRIES = 1 << 4,    /* a preflight is due before the ranks train */
    SW_SUPERVISE_IDLE = 1 << 5,     /* the start that ended began nothing */
    SW_SUPERVISE_REQUEUES = 1 << 6, /* texts: the job may go on in another */
};

enum { SW_SUPERVISE_PATIENCE = 60 };

struct sw_supervise_machine {
    enum sw_supervise_state state;
    uint32_t facts;   /* of sw_supervise_fact */
    int32_t patience; /* left: a question without an answer takes 1, a refused order 10 */
};

/* Goes on to the next state. Returns how many seconds to wait before it is entered; -1: the event
 * does not belong to the state, which is a mistake of the caller's: the job ends. */
int32_t sw_transitions_step(struct sw_supervise_machine *machine, enum sw_supervise_event event);

/* Whether nothing comes after this state. */
bool sw_transitions_is_end(enum sw_supervise_state state);
/* "BEGIN", "DONE": for tests and messages. */
const char *sw_transitions_state_name(enum sw_supervise_state state);
const char *sw_transitions_event_name(enum sw_supervise_event event);

#endif
