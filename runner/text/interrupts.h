/* Signals during writing: INT, TERM and HUP first remove half-written files. Blocks them in the
 * calling thread; another thread waits for one, removes, and lets it end the process as usual.
 * Ignored signals stay ignored. */
#ifndef SW_INTERRUPTS_H
#define SW_INTERRUPTS_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct sw_interrupts {
    void (*remove)(const void *context); /* called on the other thread */
    const void *context;
    /* private */
    pthread_t thread;
    sigset_t waited, before;
    bool waits, holds;
};

/* Starts the thread. If the system has none left, signals end the process as usual. */
void sw_interrupts_begin(struct sw_interrupts *interrupts);
/* Holds signals until the end: nothing is removed any more. An earlier signal ends the process
 * here. */
void sw_interrupts_hold(struct sw_interrupts *interrupts);
/* Restores signals; a held one acts now. */
void sw_interrupts_end(struct sw_interrupts *interrupts);

#endif
