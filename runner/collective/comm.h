/* Constructors of communicators. Each is freed by its vtable's destroy; the library owns a call's
 * memory from `start` until its ticket is waited for or the communicator destroyed.
 *
 * One thread, the compute thread, uses a communicator. All but the one-rank one have a
 * communication thread, which executes calls while the compute thread works and sleeps when idle; a
 * waiting compute thread itself executes the calls up to its ticket. `start` blocks only with 64
 * calls outstanding. After an error every later call fails with the first error: "rank 3:
 * all_gather over fsdp,sp: ...". `destroy` finishes started calls first; a failing process leaves
 * with _exit instead, and the launcher ends the others. */
#ifndef SW_COLLECTIVE_COMM_H
#define SW_COLLECTIVE_COMM_H

#include "runner/collective/collective.h"

/* One rank: copies. Errors (SW_ENVIRONMENT): out of memory. */
int sw_comm_single_create(struct sw_comm **out, struct sw_error *err);

/* Ranks of `mesh` are threads of this process; out[rank], one per rank, filled only on success,
 * each used and destroyed by its own thread. When a rank's communicator fails or is destroyed, the
 * others get an error instead of waiting forever. Errors (SW_ENVIRONMENT): out of memory, no more
 * threads. */
int sw_comm_threads_create(const struct sw_mesh *mesh, struct sw_comm **out, struct sw_error *err);

/* Ranks are the processes of MPI_COMM_WORLD; collective over them. groups[count]: axes of every
 * later collective and shift (at least their largest group). The caller has initialised MPI with
 * MPI_THREAD_MULTIPLE, since both threads may call MPI, and destroys this before MPI_Finalize. A
 * rank that waits stall_seconds without a sign of life takes the others for hanging and fails. Want
 * of memory fails on all ranks or none. Errors: SW_BAD_INPUT if the number of processes is not the
 * mesh's; SW_ENVIRONMENT for MPI's errors, too little thread support, or memory. */
int sw_comm_mpi_create(const struct sw_mesh *mesh, const struct sw_axes *groups, int32_t count,
                       double stall_seconds, struct sw_comm **out, struct sw_error *err);

/* For tests, on an MPI communicator before its first call, the same on every rank: nodes are runs
 * of node_ranks ranks, and messages between nodes are cut into pieces of `bytes`. With 1, a rank
 * sends even to itself that way. */
void sw_comm_mpi_cut_messages(struct sw_comm *comm, size_t bytes, int32_t node_ranks);

#endif
