/* Messages between the processes of one node, without MPI. The sender puts the bytes' address into
 * shared memory; the receiver has the kernel copy them from there, once. A short message itself
 * goes into that memory, and its sender continues. An idle process sleeps until its peer wakes it:
 * with more ranks than cores, polling would take the cores from computing ranks.
 *
 * At most one untaken message each way between two processes. Used by one thread of each process at
 * a time. Owns its part of the shared memory. */
#ifndef SW_COLLECTIVE_SHM_H
#define SW_COLLECTIVE_SHM_H

#include "runner/collective/direct.h"

struct sw_shm;

/* mpi_comm: address of an MPI_Comm of one node's processes (this header does not include MPI's);
 * needed only here. Collective. NULL on all ranks if one has no memory or may not read another's,
 * as in some containers; MPI serves then. */
struct sw_shm *sw_shm_create(const void *mpi_comm);
void sw_shm_free(struct sw_shm *shm);

/* Posts `bytes` at `data` to a member, a rank of that MPI_Comm; they stay unchanged until taken.
 * Must be this process's own memory, not a driver's mapping, which the kernel cannot read for
 * others. False if the member has not taken the previous message. */
bool sw_shm_post(struct sw_shm *shm, int32_t to, const void *data, size_t bytes);
/* True if no posted message still needs its memory. */
bool sw_shm_is_released(const struct sw_shm *shm, int32_t to);
/* Takes a message of *sent bytes, scattered to rows if wanted; bytes are copied only if the length
 * is the one wanted. Returns 1, 0 for no message (a dead sender's never comes), -1 with errno if
 * the kernel could not copy. */
int sw_shm_take(struct sw_shm *shm, int32_t from, const struct sw_transfer *wanted, size_t *sent);

/* Count of the wakes heard from others; read before looking for messages. */
uint32_t sw_shm_heard(const struct sw_shm *shm);
/* Sleeps unless more was heard: until `member` posts or takes a message, or for `seconds`. */
void sw_shm_sleep(struct sw_shm *shm, uint32_t heard, int32_t member, double seconds);

#endif
