/* The communicators there are. Each is destroyed through its vtable; a call's memory belongs to the
 * library from `start` until its ticket was waited for or the communicator destroyed.
 *
 * One thread (the compute thread) uses a communicator. All but the one-rank one have a
 * communication thread, which sleeps when there is nothing to do. It executes calls while the
 * compute thread does something else; a compute thread that waits executes what is left up to its
 * ticket itself. `start` waits only when 64 calls are outstanding. After an error every later call
 * fails with the first error: "rank 3: all_gather over fsdp,sp: ...". `destroy` finishes what was
 * started first; a rank that gives up in a job of processes leaves with _exit instead (the launcher
 * ends the others). */
#ifndef SW_COLLECTIVE_COMM_H
#define SW_COLLECTIVE_COMM_H

#include "runner/collective/collective.h"

/* One rank: copies. Errors (SW_ENVIRONMENT): out of memory. */
int sw_comm_single_create(struct sw_comm **out, struct sw_error *err);

/* The ranks of `mesh` are threads of this process; out[rank] for each (array of the mesh's rank
 * count, filled only on success), each used and destroyed by its own thread. When a rank's
 * communicator fails or is destroyed, the others get an error instead of waiting for it for ever.
 * Errors (SW_ENVIRONMENT): out of memory, no more threads. */
int sw_comm_threads_create(const struct sw_mesh *mesh, struct sw_comm **out, struct sw_error *err);

/* The ranks are the processes of MPI_COMM_WORLD; collective over them. groups[count]: the axes of
 * every collective and shift to come (at least: none larger than the largest of these). The caller
 * has initialised MPI with MPI_THREAD_MULTIPLE, since it may call MPI while the communication
 * thread does, and destroys this before MPI_Finalize. A rank that waits for the others for
 * stall_seconds without a sign of life takes them for hanging and fails. Fails on every rank or on
 * none for want of memory. Errors: SW_BAD_INPUT when the number of processes is not the mesh's;
 * SW_ENVIRONMENT for MPI's own, too little thread support, or memory. */
int sw_comm_mpi_create(const struct sw_mesh *mesh, const struct sw_axes *groups, int32_t count,
                       double stall_seconds, struct sw_comm **out, struct sw_error *err);

/* For tests, of a communicator over MPI, before its first call, the same on every rank: as if every
 * node had so many ranks, between which messages go in pieces of that size. Of 1, a rank sends to
 * itself so, too. */
void sw_comm_mpi_cut_messages(struct sw_comm *comm, size_t bytes, int32_t node_ranks);

#endif
