/* Command line of `runner train` and `evaluate`. */
#ifndef SW_ARGUMENTS_H
#define SW_ARGUMENTS_H

#include "runner/train/evaluate.h"
#include "runner/train/train.h"

extern const struct sw_argument sw_train_rows[], sw_evaluate_rows[];
/* Return as sw_arguments_parse. */
int sw_train_arguments(int argc, char **argv, struct sw_train_options *out, struct sw_error *err);
int sw_evaluate_arguments(int argc, char **argv, struct sw_evaluate_options *out,
                          struct sw_error *err);

#endif
