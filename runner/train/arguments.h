/* What `runner train` and `evaluate` are told on the command line. */
#ifndef SW_ARGUMENTS_H
#define SW_ARGUMENTS_H

#include "runner/train/evaluate.h"
#include "runner/train/train.h"

/* As sw_arguments_parse. */
int sw_train_arguments(int argc, char **argv, struct sw_train_options *out,
                       struct sw_problem *problem);
int sw_evaluate_arguments(int argc, char **argv, struct sw_evaluate_options *out,
                          struct sw_problem *problem);

#endif
