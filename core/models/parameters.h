/* Which parameters a model has, by the names that files give them. Pure functions. */
#ifndef SW_PROGRAM_PARAMETERS_H
#define SW_PROGRAM_PARAMETERS_H

#include "core/base/model.h"

#include <stdint.h>

/* A set of parameters of a model: 1 << place in model/weights.def. Those that `pattern` means: by
 * Hugging Face's name of a parameter or of a module that has some, of a layer with '*' for its
 * number ("model.layers.*.mlp"), as fnmatch() reads it; 0: none. */
uint32_t sw_parameters_match(const struct sw_model *model, const char *pattern);
uint32_t sw_parameters_all(const struct sw_model *model);

#endif
