#include "planner/supervise/transitions.h"

#include <stddef.h>

/* A controller that does not answer is asked again for ten minutes, every ten seconds; one that
 * refuses an order may do so for ever. */
enum { PAUSE = 10, RELEASE_PAUSE = 1, QUESTION = 1, ORDER = 10 };

/* The first row with the state, the event and all facts counts. */
struct row {
    enum sw_supervise_state state;
    enum sw_supervise_event event;
    uint32_t facts;
    int32_t cost, pause_s;
    enum sw_supervise_state next;
    enum sw_supervise_state tired; /* next state if the patience does not cover the cost */
};

/* clang-format off */
#define S(id) SW_SUPERVISE_##id
#define E(id) SW_SUPERVISE_##id##_EVENT
static const struct row rows[] = {
    {S(BEGIN),        E(END),       0,                0, 0, S(ENDS), 0},
    {S(BEGIN),        E(MOVE),      0,                0, 0, S(ASK_STAGE), 0},
    {S(BEGIN),        E(GO),        SW_SUPERVISE_CHAINS,   0, 0, S(QUEUE_LINK), 0},
    {S(BEGIN),        E(GO),        0,                0, 0, S(CHOOSE), 0},
    {S(QUEUE_LINK),   E(DONE),      0,                0, 0, S(CHOOSE), 0},
    {S(QUEUE_LINK),   E(REFUSED),   0,                0, 0, S(CHOOSE), 0},
    {S(CHOOSE),       E(DONE),      SW_SUPERVISE_TRIES,    0, 0, S(PREFLIGHT), 0},
    {S(CHOOSE),       E(DONE),      0,                0, 0, S(TRAIN), 0},
    {S(CHOOSE),       E(REFUSED),   SW_SUPERVISE_WITHOUT,  0, 0, S(CHOOSE_ALL), 0},
    {S(CHOOSE),       E(REFUSED),   0,                0, 0, S(NO_PLAN), 0},
    {S(CHOOSE_ALL),   E(DONE),      SW_SUPERVISE_TRIES,    0, 0, S(PREFLIGHT), 0},
    {S(CHOOSE_ALL),   E(DONE),      0,                0, 0, S(TRAIN), 0},
    {S(CHOOSE_ALL),   E(REFUSED),   0,                0, 0, S(NO_PLAN), 0},

    {S(PREFLIGHT),    E(WELL),      0,                0, 0, S(TRAIN), 0},
    {S(PREFLIGHT),    E(BADLY),     0,                0, 0, S(PROBE), 0},
    {S(PREFLIGHT),    E(NOTED),     0,                0, 0, S(PREFLIGHT), 0},
    {S(TRAIN),        E(WELL),      0,                0, 0, S(DECIDE), 0},
    {S(TRAIN),        E(BADLY),     0,                0, 0, S(PROBE), 0},
    {S(TRAIN),        E(NOTED),     0,                0, 0, S(TRAIN), 0},
    {S(TRAIN),        E(TIMER),     0,                0, 0, S(TICK), 0},
    {S(TICK),         E(DONE),      0,                0, 0, S(REMIND), 0},
    {S(TICK),         E(REFUSED),   0,                0, 0, S(TRAIN), 0},
    {S(TICK),         E(SILENT),    0,                0, 0, S(TRAIN), 0},
    {S(REMIND),       E(DONE),      0,                0, 0, S(TRAIN), 0},
    {S(TRAIN),        E(LOOK),      0,                0, 0, S(SHRINK), 0},
    {S(SHRINK),       E(DONE),      0,                0, 0, S(TRAIN), 0},
    {S(SHRINK),       E(REFUSED),   0,                0, 0, S(TRAIN), 0},
    {S(SHRINK),       E(SILENT),    0,                0, 0, S(TRAIN), 0},

    {S(PROBE),        E(DONE),      0,                0, 0, S(CONFIRM), 0},
    {S(PROBE),        E(REFUSED),   0,                0, 0, S(DECIDE), 0},
    {S(CONFIRM),      E(RUNS),      0,                0, 0, S(DECIDE), 0},
    {S(CONFIRM),      E(OVER),      0,                0, 0, S(DROP), 0},
    {S(CONFIRM),      E(SILENT),    0,                QUESTION, PAUSE, S(CONFIRM), S(DROP)},
    {S(DROP),         E(DONE),      0,                0, 0, S(DECIDE), 0},

    {S(DECIDE),       E(END),       SW_SUPERVISE_LINKED,   0, 0, S(CANCEL_LINK), 0},
    {S(DECIDE),       E(END),       0,                0, 0, S(ENDS), 0},
    {S(DECIDE),       E(MOVE),      0,                0, 0, S(ASK_STAGE), 0},
    {S(DECIDE),       E(AGAIN),     0,                0, 0, S(STAY), 0},
    {S(DECIDE),       E(ELSEWHERE), SW_SUPERVISE_LINKED,   0, 0, S(FOLLOW), 0},
    {S(DECIDE),       E(ELSEWHERE), 0,                0, 0, S(ASK), 0},
    {S(STAY),         E(RUNS),      0,                0, 0, S(CHOOSE_AGAIN), 0},
    {S(STAY),         E(OVER),      SW_SUPERVISE_LINKED,   0, 0, S(FOLLOW), 0},
    {S(STAY),         E(OVER),      0,                0, 0, S(ASK), 0},
    {S(STAY),         E(SILENT),    SW_SUPERVISE_LINKED,   QUESTION, PAUSE, S(STAY), S(FOLLOW)},
    {S(STAY),         E(SILENT),    0,                QUESTION, PAUSE, S(STAY), S(ASK)},
    {S(CHOOSE_AGAIN), E(DONE),      SW_SUPERVISE_IDLE | SW_SUPERVISE_TRIES, 0, PAUSE, S(PREFLIGHT), 0},
    {S(CHOOSE_AGAIN), E(DONE),      SW_SUPERVISE_IDLE,     0, PAUSE, S(TRAIN), 0},
    {S(CHOOSE_AGAIN), E(DONE),      SW_SUPERVISE_TRIES,    0, 0, S(PREFLIGHT), 0},
    {S(CHOOSE_AGAIN), E(DONE),      0,                0, 0, S(TRAIN), 0},
    {S(CHOOSE_AGAIN), E(REFUSED),   SW_SUPERVISE_LINKED,   0, 0, S(FOLLOW), 0},
    {S(CHOOSE_AGAIN), E(REFUSED),   0,                0, 0, S(ASK), 0},

    {S(ASK),          E(RUNS),      SW_SUPERVISE_CHAINS,   0, 0, S(SUBMIT), 0},
    {S(ASK),          E(RUNS),      SW_SUPERVISE_EXCLUDES, 0, 0, S(HOLD), 0},
    {S(ASK),          E(RUNS),      0,                0, 0, S(REQUEUE), 0},
    {S(ASK),          E(OVER),      0,                0, 0, S(NOT_ASKED), 0},
    {S(ASK),          E(SILENT),    0,                QUESTION, PAUSE, S(ASK), S(NOT_ANSWERED)},
    {S(REQUEUE),      E(DONE),      0,                0, 0, S(FOLLOWS), 0},
    {S(REQUEUE),      E(REFUSED),   0,                0, PAUSE, S(ASK_ANEW), 0},
    {S(HOLD),         E(DONE),      0,                0, 0, S(EXCLUDE), 0},
    {S(HOLD),         E(REFUSED),   0,                0, PAUSE, S(ASK_ANEW), 0},
    {S(EXCLUDE),      E(DONE),      0,                0, 0, S(RELEASE), 0},
    {S(EXCLUDE),      E(REFUSED),   0,                0, 0, S(RELEASE), 0},
    {S(RELEASE),      E(DONE),      0,                0, 0, S(FOLLOWS), 0},
    /* the scheduler will end this process soon */
    {S(RELEASE),      E(REFUSED),   0,                0, RELEASE_PAUSE, S(RELEASE), 0},
    {S(ASK_ANEW),     E(RUNS),      0,                0, 0, S(SUBMIT), 0},
    {S(ASK_ANEW),     E(OVER),      0,                0, 0, S(NOT_ASKED), 0},
    {S(ASK_ANEW),     E(SILENT),    0,                QUESTION, PAUSE, S(ASK_ANEW), S(NOT_ANSWERED)},
    {S(SUBMIT),       E(DONE),      0,                0, 0, S(FOLLOWS), 0},
    {S(SUBMIT),       E(REFUSED),   0,                ORDER, PAUSE, S(ASK), S(NOT_TAKEN)},

    {S(ASK_STAGE),    E(RUNS),      0,                0, 0, S(SUBMIT_STAGE), 0},
    {S(ASK_STAGE),    E(OVER),      0,                0, 0, S(NOT_ASKED), 0},
    {S(ASK_STAGE),    E(SILENT),    0,                QUESTION, PAUSE, S(ASK_STAGE), S(NOT_ANSWERED)},
    {S(SUBMIT_STAGE), E(DONE),      SW_SUPERVISE_LINKED,   0, 0, S(CANCEL_LINK), 0},
    {S(SUBMIT_STAGE), E(DONE),      0,                0, 0, S(ENDS), 0},
    {S(SUBMIT_STAGE), E(REFUSED),   0,                ORDER, PAUSE, S(ASK_STAGE), S(NOT_TAKEN)},

    /* the link is queued, whatever the scheduler answers about this job */
    {S(FOLLOW),       E(OVER),      0,                0, 0, S(LINK_GONE), 0},
    {S(FOLLOW),       E(RUNS),      SW_SUPERVISE_EXCLUDES, 0, 0, S(EXCLUDE_LINK), 0},
    {S(FOLLOW),       E(RUNS),      0,                0, 0, S(FOLLOWS), 0},
    {S(FOLLOW),       E(SILENT),    SW_SUPERVISE_EXCLUDES, 0, 0, S(EXCLUDE_LINK), 0},
    {S(FOLLOW),       E(SILENT),    0,                0, 0, S(FOLLOWS), 0},
    {S(EXCLUDE_LINK), E(DONE),      0,                0, 0, S(FOLLOWS), 0},
    {S(EXCLUDE_LINK), E(REFUSED),   0,                ORDER, PAUSE, S(EXCLUDE_LINK), S(LINK_STAYS)},
    {S(LINK_STAYS),   E(DONE),      0,                0, 0, S(FOLLOWS), 0},
    {S(CANCEL_LINK),  E(DONE),      0,                0, 0, S(ENDS), 0},
    {S(CANCEL_LINK),  E(REFUSED),   0,                0, 0, S(ENDS), 0},

    {S(TEXTS),        E(LIMIT),     0,                0, 0, S(TELL), 0},
    {S(TEXTS),        E(TIMER),     0,                0, 0, S(LISTEN), 0},
    {S(TEXTS),        E(NOTED),     0,                0, 0, S(TEXTS), 0},
    {S(TEXTS),        E(WELL),      0,                0, 0, S(RECORD), 0},
    {S(TEXTS),        E(BADLY),     SW_SUPERVISE_REQUEUES, 0, 0, S(JUDGE), 0},
    {S(TEXTS),        E(BADLY),     0,                0, 0, S(RECORD), 0},
    {S(LISTEN),       E(DONE),      0,                0, 0, S(TEXTS), 0},
    {S(LISTEN),       E(REFUSED),   0,                0, 0, S(TEXTS), 0},
    {S(TELL),         E(DONE),      0,                0, 0, S(TEXTS), 0},
    {S(TELL),         E(REFUSED),   0,                0, 0, S(TEXTS), 0},
    {S(JUDGE),        E(DONE),      0,                0, 0, S(ASK_TEXTS), 0},
    {S(JUDGE),        E(REFUSED),   0,                0, 0, S(RECORD), 0},
    {S(ASK_TEXTS),    E(RUNS),      0,                0, 0, S(REQUEUE_TEXTS), 0},
    {S(ASK_TEXTS),    E(OVER),      0,                0, 0, S(TEXTS_OVER), 0},
    {S(ASK_TEXTS),    E(SILENT),    0,                QUESTION, PAUSE, S(ASK_TEXTS), S(TEXTS_OVER)},
    {S(REQUEUE_TEXTS), E(DONE),     0,                0, 0, S(TEXTS_FOLLOW), 0},
    {S(REQUEUE_TEXTS), E(REFUSED),  0,                0, 0, S(TEXTS_STAY), 0},
    {S(TEXTS_STAY),   E(DONE),      0,                0, 0, S(RECORD), 0},
    {S(TEXTS_OVER),   E(DONE),      0,                0, 0, S(RECORD), 0},
    {S(RECORD),       E(DONE),      0,                0, 0, S(ENDS), 0},
};
#undef S
#undef E
/* clang-format on */

int32_t sw_transitions_step(struct sw_supervise_machine *machine, enum sw_supervise_event event)
{
    /* every end of the ranks has a patience of its own */
    if (event == SW_SUPERVISE_WELL_EVENT || event == SW_SUPERVISE_BADLY_EVENT)
        machine->patience = SW_SUPERVISE_PATIENCE;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        if (row->state != machine->state || row->event != event ||
            (machine->facts & row->facts) != row->facts)
            continue;
        machine->patience -= row->cost;
        const bool tired = row->cost > 0 && machine->patience < 0;
        machine->state = tired ? row->tired : row->next;
        return tired ? 0 : row->pause_s;
    }
    machine->state = SW_SUPERVISE_ENDS;
    return -1;
}

bool sw_transitions_is_end(enum sw_supervise_state state)
{
    return state >= SW_SUPERVISE_FOLLOWS;
}

const char *sw_transitions_state_name(enum sw_supervise_state state)
{
#define X(id) [SW_SUPERVISE_##id] = #id,
    static const char *const names[] = {SW_SUPERVISE_STATES(X)};
#undef X
    return names[state];
}

const char *sw_transitions_event_name(enum sw_supervise_event event)
{
#define X(id) [SW_SUPERVISE_##id##_EVENT] = #id,
    static const char *const names[] = {SW_SUPERVISE_EVENTS(X)};
#undef X
    return names[event];
}
