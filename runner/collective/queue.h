/* Communicator over a transport: a bounded queue of calls, executed in order by the communication
 * thread or by a waiting thread. */
#ifndef SW_COLLECTIVE_QUEUE_H
#define SW_COLLECTIVE_QUEUE_H

#include "runner/collective/direct.h"

/* Owns the transport in any case: destroys it on failure and with the communicator. Errors
 * (SW_ENVIRONMENT): out of memory, no more threads. */
int sw_queue_create(const struct sw_mesh *mesh, int32_t rank, int32_t group_max,
                    struct sw_transport *transport, struct sw_comm **out, struct sw_error *err);

/* For tests, before the first call, the same on every rank: largest message (a multiple of
 * SW_SLOT_ALIGNMENT). */
void sw_queue_limit_messages(struct sw_comm *comm, int64_t bytes);

/* The communicator's transport. */
struct sw_transport *sw_queue_transport(struct sw_comm *comm);

#endif
