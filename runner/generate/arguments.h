/* The command lines of generate and score. */
#ifndef SW_GENERATE_ARGUMENTS_H
#define SW_GENERATE_ARGUMENTS_H

#include "runner/generate/generate.h"

/* Returns 0, or -1 with what is wrong in *problem followed by *which. Texts are those of argv; free
 * out->stops with sw_stops_free in any case. text [160]: where a problem may be written. */
int sw_generate_arguments(int argc, char **argv, struct sw_generate_options *out, char text[160],
                          const char **problem, const char **which);
/* files: [argc] room for the names of the files. */
int sw_score_arguments(int argc, char **argv, struct sw_score_options *out, char **files,
                       const char **problem, const char **which);

#endif
