/* Which parameters a model has, by the names that files give them. Pure functions. */
#ifndef SW_MODELS_PARAMETERS_H
#define SW_MODELS_PARAMETERS_H

#include "core/base/model.h"

#include <stdint.h>

/* Number of the model's parameters (weights.def, those of a layer once) that patterns name, with
 * commas between them; NULL: of all. A pattern is Hugging Face's name of a parameter or of a module
 * that has some, of a layer with '*' for its number ("model.layers.*.mlp"), as fnmatch() reads
 * it. */
int32_t sw_parameters_count(const struct sw_model *model, const char *patterns);

#endif
