/* Finds and loads runner-cuda.so, in which the CUDA device is (runner/rank/cuda_module.h). */
#ifndef SW_RANK_CUDA_LOAD_H
#define SW_RANK_CUDA_LOAD_H

#include "runner/rank/cuda_module.h"

/* From the runner's own folder, or ../lib/shardwright beside it. Loaded once; stays until the
 * process ends. NULL with an error (SW_ENVIRONMENT): this runner was built without CUDA; the file
 * is not there, or of another build; a library of NVIDIA's is missing, with its name and package.
 */
const struct sw_cuda_module *sw_cuda_module_load(struct sw_error *err);

#endif
