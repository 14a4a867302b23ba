/* A device that passes everything on to another and adds up how long the compute thread was at work
 * for each op. Owns nothing; borrows device, program and the sums, which outlive it. */
#ifndef SW_TIMER_H
#define SW_TIMER_H

#include "runner/device/device.h"

struct sw_timer {
    struct sw_device base; /* what the executor of one program is given */
    struct sw_device_vtable table;
    struct sw_device *inner;
    const struct sw_program *program;
    double clock; /* seconds of the clock itself */
    double *busy; /* [op_count] */
};

/* What reading sw_clock_busy twice takes. */
double sw_timer_clock(void);

/* busy: [op_count] of the program, to which the seconds of every call are added. */
void sw_timer_init(struct sw_timer *timer, struct sw_device *inner,
                   const struct sw_program *program, double *busy);

#endif
