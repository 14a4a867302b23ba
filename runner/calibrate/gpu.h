/* What the kernels of a device that queues its work (a GPU) reach, measured as kernels.h
 * does, with the device's clock: whole training steps of transformers of GPU sizes run as training
 * runs them, as recordings (CUDA graphs), with a mark of the device after every op.
 *
 * Launches from the host are in no figure, as they hold up no replay. What a mark itself takes is
 * known from a recording without them and taken off. Owns nothing that lasts. */
#ifndef SW_CALIBRATE_GPU_H
#define SW_CALIBRATE_GPU_H

#include "runner/calibrate/write.h"
#include "runner/calibrate/data_sheets.h"

/* One transformer of two layers and heads of 128; `split` divides heads, MLP and vocabulary as tp
 * would. */
struct sw_gpu_shape {
    int32_t hidden, split, batch, sequence;
};

/* Those that are measured unless a caller has others. The first is so small that all of its ops
 * take what a launch takes, the second is of usual size; then in order of what they tell. */
const struct sw_gpu_shape *sw_gpu_shapes(int32_t *count);

/* Whether a program whose arena takes arena_bytes leaves enough of free_bytes for what libraries
 * work in beside it. free_bytes < 0: unknown, and so it does. */
bool sw_gpu_fits(int64_t arena_bytes, int64_t free_bytes);

/* Seconds that a shape took, by what they grow with. */
struct sw_gpu_pace {
    double set_up_per_byte, step_per_flop; /* of the arena; of the model's flops */
};

/* What setting up a program and its fewest steps would take, in seconds. */
double sw_gpu_estimate(const struct sw_gpu_pace *pace, int64_t arena_bytes, double flops);

/* Collective over `world` (all ranks measure the same shapes); every rank gets the sums over all
 * ranks. bf16; fp32_seconds and bf16_seconds are those of the second shape's matrix products,
 * launches taken off. shapes[count], two or more: the first two are measured whatever they take,
 * others where they fit in the memory of every rank's device and in `seconds`. least_seconds is
 * what a replay takes per op where ops have next to nothing to do. Errors: memory, the device's,
 * the collectives'; a device without marks or recordings. */
int sw_gpu_kernels(struct sw_device *device, struct sw_comm *world, double seconds,
                   const struct sw_gpu_shape *shapes, int32_t count, struct sw_kernel_rates *out,
                   struct sw_error *err);

/* As sw_calibration_make, of the sums that sw_gpu_kernels gives. Peaks: the data sheet's where
 * `sheet` is not NULL, so that figures and utilisations compare with those of files that were not
 * measured, else the best rates. fp32's is bf16's times the measured ratio of both, since a curve
 * is for both. */
int sw_gpu_calibration(const struct sw_kernel_rates *rates, int32_t ranks,
                       const struct sw_data_sheet *sheet, struct sw_calibration *out,
                       struct sw_error *err);

#endif
