/* Sign of life of every rank while a job starts, when ranks wait for each other in MPI calls that
 * never time out. Each rank's thread tells the next rank once a second that it lives, and watches
 * the previous one. A busy process still runs its thread; a stopped one, or one on a dead node,
 * does not.
 *
 * After the first step collectives do this themselves (collective/mpi.c). */
#ifndef SW_COLLECTIVE_PULSE_H
#define SW_COLLECTIVE_PULSE_H

#include <stdint.h>

struct sw_pulse;

/* Called once on the pulse's thread: `rank` on `host` was silent for `seconds`. */
typedef void (*sw_pulse_missed)(void *context, int32_t rank, const char *host, double seconds);

/* Called by all ranks after MPI_Init, with their own host. NULL: no memory, or only one rank. */
struct sw_pulse *sw_pulse_begin(const char *host, double seconds, sw_pulse_missed missed,
                                void *context);
/* Called by each rank at any time: tells the next rank. NULL: does nothing. */
void sw_pulse_end(struct sw_pulse *pulse);

#endif
