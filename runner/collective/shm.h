/* Messages between the processes of one node, without MPI. The sender leaves the bytes' address in
 * memory that all of them share, and the receiver has the kernel copy them from there: once. A
 * short message lies in that memory, and its sender goes on. Who has nothing to do sleeps until the
 * one that it waits for wakes it: with more ranks than cores, looking would take the cores that the
 * others compute on.
 *
 * Between two processes at most one message each way is under way that was not taken. Used by one
 * thread of each process at a time. Owns its part of the shared memory. */
#ifndef SW_COLLECTIVE_SHM_H
#define SW_COLLECTIVE_SHM_H

#include "runner/collective/direct.h"

struct sw_shm;

/* mpi_comm: the address of an MPI_Comm of processes of one node (this header stands without MPI's);
 * needed only here. Collective. NULL, for all of them: one has no memory, or its kernel does not
 * let it read another's, as in some containers; MPI does without it. */
struct sw_shm *sw_shm_create(const void *mpi_comm);
void sw_shm_free(struct sw_shm *shm);

/* Members are ranks of that MPI_Comm. `bytes` at `data` stay as they are until they are taken; it
 * is memory of this process, none that a driver maps, which the kernel would not read for another.
 * false: the member has not taken the message before. */
bool sw_shm_post(struct sw_shm *shm, int32_t to, const void *data, size_t bytes);
/* Whether nothing of what was posted still needs its memory. */
bool sw_shm_is_released(const struct sw_shm *shm, int32_t to);
/* Whether there was a message, of *sent bytes: if as many as wanted, they are where they belong,
 * from rows, too. One whose sender is dead never comes. -1: errno says why the kernel did not copy
 * it. */
int sw_shm_take(struct sw_shm *shm, int32_t from, const struct sw_transfer *wanted, size_t *sent);

/* What this process has heard of the others: to be asked before it looks for messages. */
uint32_t sw_shm_heard(const struct sw_shm *shm);
/* Sleeps unless it has heard more than that: until `member` posts or takes something, or for so
 * long. */
void sw_shm_sleep(struct sw_shm *shm, uint32_t heard, int32_t member, double seconds);

#endif
