/* Finds and loads runner-cuda.so, the CUDA device (runner/rank/cuda_module.h). */
#ifndef SW_RANK_CUDA_LOAD_H
#define SW_RANK_CUDA_LOAD_H

#include "runner/rank/cuda_module.h"

/* Loads from the runner's folder, or ../lib/shardwright beside it, once; stays until the process
 * ends. NULL with an error (SW_ENVIRONMENT): this runner was built without CUDA; the file is absent
 * or of another build; an NVIDIA library is missing, with its name and package. */
const struct sw_cuda_module *sw_cuda_module_load(struct sw_error *err);

#endif
