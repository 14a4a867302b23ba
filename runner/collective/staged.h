/* A communicator for device memory made of one for host memory (staged.c). Needs no CUDA. */
#ifndef SW_COLLECTIVE_STAGED_H
#define SW_COLLECTIVE_STAGED_H

#include "runner/collective/collective.h"
#include "runner/device/device.h"

/* Takes `inner` in any case (destroyed on failure and with the result); borrows the device, which
 * must outlive it. Addresses outside the arena that the executor attaches are host memory. Errors
 * (SW_ENVIRONMENT): out of memory. */
int sw_comm_staged_create(struct sw_comm *inner, struct sw_device *device, struct sw_comm **out,
                          struct sw_error *err);

#endif
