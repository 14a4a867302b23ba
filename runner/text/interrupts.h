/* Signals that end the process while it writes: INT, TERM and HUP first remove what is half
 * written. Blocks them in the calling thread, waits for one in a thread of its own, and then lets
 * it end the process as it would have. Signals that are ignored stay so. */
#ifndef SW_INTERRUPTS_H
#define SW_INTERRUPTS_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct sw_interrupts {
    void (*remove)(const void *context); /* from the other thread */
    const void *context;
    /* its own */
    pthread_t thread;
    sigset_t waited, before;
    bool waits, holds;
};

/* Without a thread (the system has none left) signals end the process as ever. */
void sw_interrupts_begin(struct sw_interrupts *interrupts);
/* Signals wait until the end: nothing is removed any more. One that came before ends the process
 * here. */
void sw_interrupts_hold(struct sw_interrupts *interrupts);
/* Signals act as before; one that was held acts now. */
void sw_interrupts_end(struct sw_interrupts *interrupts);

#endif
