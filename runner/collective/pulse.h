/* A sign of life from every rank while a job starts, when ranks wait for each other in MPI's own
 * calls, which wait for ever. A thread of each rank tells the next rank once a second that it is
 * there, and misses the one before it. A process that works, however long, has its thread; one that
 * is stopped, or whose node is gone, has not.
 *
 * From the first step on collectives look after this themselves (collective/mpi.c). */
#ifndef SW_COLLECTIVE_PULSE_H
#define SW_COLLECTIVE_PULSE_H

#include <stdint.h>

struct sw_pulse;

/* Called on the pulse's thread, once: `rank` on `host` has said nothing for `seconds`. */
typedef void (*sw_pulse_missed)(void *context, int32_t rank, const char *host, double seconds);

/* All ranks call it behind MPI_Init, with their own host. NULL: no memory, or one rank, which has
 * nobody to miss it. */
struct sw_pulse *sw_pulse_begin(const char *host, double seconds, sw_pulse_missed missed,
                                void *context);
/* All ranks call it, each when it likes: the next one is told. NULL: nothing. */
void sw_pulse_end(struct sw_pulse *pulse);

#endif
