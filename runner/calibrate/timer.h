/* Device that forwards to another one and sums the compute thread's busy time for each op. Owns
 * nothing; borrows device, program and sums, which outlive it. */
#ifndef SW_TIMER_H
#define SW_TIMER_H

#include "runner/device/device.h"

struct sw_timer {
    struct sw_device base; /* device for the executor of one program */
    struct sw_device_vtable table;
    struct sw_device *inner;
    const struct sw_program *program;
    double clock; /* seconds the clock takes */
    double *busy; /* [op_count] */
};

/* Seconds of two sw_clock_busy calls. */
double sw_timer_clock(void);

/* busy: [op_count] of the program; each call's seconds are added. */
void sw_timer_init(struct sw_timer *timer, struct sw_device *inner,
                   const struct sw_program *program, double *busy);

#endif
