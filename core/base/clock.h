/* Time for measuring durations; never a date. */
#ifndef SW_CLOCK_H
#define SW_CLOCK_H

/* Seconds of the machine's monotonic clock since some moment. Any thread. */
double sw_clock_now(void);
/* Seconds that the calling thread has run on a core. */
double sw_clock_busy(void);

#endif
