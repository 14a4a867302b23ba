/* Communicator for device memory over one for host memory (staged.c). Needs no CUDA. */
#ifndef SW_COLLECTIVE_STAGED_H
#define SW_COLLECTIVE_STAGED_H

#include "runner/collective/collective.h"
#include "runner/device/device.h"

/* Owns `inner` in any case: destroys it on failure and with the result. Borrows the device, which
 * outlives it. Addresses outside the executor's attached arena are host memory. Errors
 * (SW_ENVIRONMENT): out of memory. */
int sw_comm_staged_create(struct sw_comm *inner, struct sw_device *device, struct sw_comm **out,
                          struct sw_error *err);

#endif
