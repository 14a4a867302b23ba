/* Values for weights and activations that are only timed. */
#ifndef SW_CALIBRATE_FILL_H
#define SW_CALIBRATE_FILL_H

#include "runner/device/device.h"

/* Fills bytes of the device's memory with values of about 1/50 of that type (fp32 or bf16), again
 * and again: pages that were never written would all be one page of zeros, which the first cache
 * holds. Errors (SW_ENVIRONMENT): memory, the device's. */
int sw_calibrate_fill(struct sw_device *device, void *to, int64_t bytes, enum sw_dtype dtype,
                      struct sw_error *err);

#endif
