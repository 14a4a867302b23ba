/* The command lines of generate and score. */
#ifndef SW_GENERATE_ARGUMENTS_H
#define SW_GENERATE_ARGUMENTS_H

#include "runner/generate/generate.h"
#include "core/base/arguments.h"

/* As sw_arguments_parse; free out->stops with sw_stops_free in any case. */
int sw_generate_arguments(int argc, char **argv, struct sw_generate_options *out,
                          struct sw_problem *problem);
/* files: [argc] room for the names of the files. */
int sw_score_arguments(int argc, char **argv, struct sw_score_options *out, char **files,
                       struct sw_problem *problem);

#endif
