/* Kernel rates of a device that queues its work (a GPU), as in kernels.h but by the device's clock:
 * training steps of transformers of GPU sizes, run as recordings (CUDA graphs) with a mark after
 * every op.
 *
 * Figures contain no launches from the host, which do not delay replays. A mark's own time is known
 * from a recording without marks and subtracted. Owns nothing lasting. */
#ifndef SW_CALIBRATE_GPU_H
#define SW_CALIBRATE_GPU_H

#include "runner/calibrate/write.h"
#include "runner/calibrate/data_sheets.h"

/* A transformer of two layers and heads of 128; `split` divides heads, MLP and vocabulary like
 * tp. */
struct sw_gpu_shape {
    int32_t hidden, split, batch, sequence;
};

/* Default shapes. In the first, small one all ops take a launch's time, the second has a usual
 * size; the others follow by the information they give. */
const struct sw_gpu_shape *sw_gpu_shapes(int32_t *count);

/* True if a program with that arena leaves enough of free_bytes for library workspaces. free_bytes
 * < 0: unknown, true. */
bool sw_gpu_fits(int64_t arena_bytes, int64_t free_bytes);

/* A shape's seconds per unit that they grow with. */
struct sw_gpu_pace {
    double set_up_per_byte, step_per_flop; /* per arena byte; per model flop */
};

/* Seconds to set up a program and run its fewest steps. */
double sw_gpu_estimate(const struct sw_gpu_pace *pace, int64_t arena_bytes, double flops);

/* Collective over `world` (all ranks measure the same shapes); every rank gets the sums over all
 * ranks. bf16; fp32_seconds and bf16_seconds: the second shape's matrix products without launches.
 * shapes[count], two or more: the first two always, others if they fit the memory of every rank's
 * device and `seconds`. least_seconds: replay time per op when ops have almost no work. Errors:
 * memory, the device's, the collectives'; a device without marks or recordings. */
int sw_gpu_kernels(struct sw_device *device, struct sw_comm *world, double seconds,
                   const struct sw_gpu_shape *shapes, int32_t count, struct sw_kernel_rates *out,
                   struct sw_error *err);

/* sw_calibration_make from the sums of sw_gpu_kernels. Peaks: the data sheet's, comparable with
 * files that were not measured, or the best rates if `sheet` is NULL. fp32's is bf16's times their
 * measured ratio, since a curve serves both. */
int sw_gpu_calibration(const struct sw_kernel_rates *rates, int32_t ranks,
                       const struct sw_data_sheet *sheet, struct sw_calibration *out,
                       struct sw_error *err);

#endif
