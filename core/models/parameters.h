/* Parameters of a model by their names in files. Pure functions. */
#ifndef SW_MODELS_PARAMETERS_H
#define SW_MODELS_PARAMETERS_H

#include "core/base/model.h"

#include <stdint.h>

/* Number of the model's parameters (weights.def, a layer's counted once) that patterns name,
 * separated by commas; NULL: all. A pattern is Hugging Face's name of a parameter or module, with
 * '*' for a layer's number ("model.layers.*.mlp"), as for fnmatch(). */
int32_t sw_parameters_count(const struct sw_model *model, const char *patterns);

#endif
