/* What `runner train`, `evaluate` and `preflight` are told on the command line. */
#ifndef SW_ARGUMENTS_H
#define SW_ARGUMENTS_H

#include "runner/preflight/preflight.h"
#include "runner/train/evaluate.h"
#include "runner/train/train.h"

/* argv[2] on. -1: *problem, followed by *which, says what is wrong; both are static or argv's. */
int sw_train_arguments(int argc, char **argv, struct sw_train_options *out, const char **problem,
                       const char **which);
int sw_evaluate_arguments(int argc, char **argv, struct sw_evaluate_options *out,
                          const char **problem, const char **which);
int sw_preflight_arguments(int argc, char **argv, struct sw_preflight_options *out,
                           const char **problem, const char **which);

#endif
