/* Time for measuring how long something takes; never a date. */
#ifndef SW_CLOCK_H
#define SW_CLOCK_H

/* Seconds of the machine's monotonic clock since some moment. Any thread. */
double sw_clock_now(void);
/* Seconds that the calling thread has had a core. */
double sw_clock_busy(void);

#endif
