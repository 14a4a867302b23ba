/* Values of weights and activations that are only timed. */
#ifndef SW_CALIBRATE_FILL_H
#define SW_CALIBRATE_FILL_H

#include "runner/device/device.h"

/* Fills device memory repeatedly with values of about 1/50 of that type (fp32 or bf16): never
 * written pages would all share one zero page, which the first-level cache holds. Errors
 * (SW_ENVIRONMENT): memory, the device's. */
int sw_calibrate_fill(struct sw_device *device, void *to, int64_t bytes, enum sw_dtype dtype,
                      struct sw_error *err);

#endif
