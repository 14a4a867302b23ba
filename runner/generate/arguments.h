/* Command lines of generate and score. */
#ifndef SW_GENERATE_ARGUMENTS_H
#define SW_GENERATE_ARGUMENTS_H

#include "core/base/arguments.h"
#include "runner/generate/generate.h"

extern const struct sw_argument sw_generate_rows[], sw_score_rows[];
/* Returns as sw_arguments_parse; call sw_stops_free on out->stops in any case. */
int sw_generate_arguments(int argc, char **argv, struct sw_generate_options *out,
                          struct sw_error *err);
/* out->files point into argv. */
int sw_score_arguments(int argc, char **argv, struct sw_score_options *out, struct sw_error *err);

#endif
